"""Files that nobody described, made from known truth: what is guessed gives the truth's numbers, or is refused."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.errors import refuses
from tests.imports.somebody import EACH, JOBS, TRUTH, Expected, K, Made, N, lines, tokens
from tests.seeds import seeds
from toolkit.documents import parse_toml
from toolkit.errors import ThinkbackError
from toolkit.imports import guess_mapping, import_any, import_table
from toolkit.imports.guessing.roles import ROLES
from toolkit.imports.rows.json_files import json_lines as read_json_lines
from toolkit.log import Log, open_log


def check(log: Log, expected: Expected) -> None:
    """Hold a log to what its file was made of."""
    traces = log.scan("traces").collect()
    rows = log.rows("verifications") if "verifications" in log.shards else 0
    assert (log.rows("examples"), traces.height, rows) == (expected.examples, expected.traces, expected.verifications)
    assert traces["correct"].sum() == expected.right
    if expected.tokens is not None:
        assert traces["completion_tokens"].sum() == expected.tokens
    if expected.seconds is not None:
        assert traces["latency_s"].sum() == pytest.approx(expected.seconds, rel=1e-5)
    if expected.logprob is not None:
        assert traces["sum_logprob"].sum() == pytest.approx(expected.logprob, rel=1e-5)
    if expected.pools:
        shares = {pool: rows["correct"].mean() for (pool,), rows in traces.group_by("pool")}
        assert shares == pytest.approx(dict(expected.pools))
    else:
        assert traces["pool"].n_unique() == 1


@pytest.mark.parametrize("job", seeds(8, [*JOBS]), ids=lambda job: job.__name__)
def test_the_files_of_the_first_hours(tmp_path: Path, job: Callable[[Path], Made]) -> None:
    sources, expected = job(tmp_path)
    done = import_any(sources, tmp_path / "log", settings=expected.settings, judged=True)
    check(open_log(done.report.log), expected)


@pytest.mark.parametrize(
    ("outputs", "gold"),
    list(
        zip(
            ("generated_answer", "generated", "pred", "model_outputs", "outputs", "responses", "completions", "trials"),
            ("answer", "gold", "gt", "target", "solution", "gold", "answer", "gold"),
            strict=True,
        )
    ),
)
@pytest.mark.parametrize("whole", seeds(1, [False, True]))
def test_lists_of_samples_by_their_names(tmp_path: Path, outputs: str, gold: str, whole: bool) -> None:
    """JSON lines, or one array a file."""
    rows = [
        {"question": TRUTH.question(i), gold: str(TRUTH.gold[i]), outputs: [TRUTH.text(i, k) for k in range(K)]}
        for i in range(N)
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows) if whole else "\n".join(map(json.dumps, rows)), encoding="utf-8")
    check(imported(tmp_path, path), Expected())


def imported(folder: Path, *paths: Path, **options: Any) -> Log:
    done = import_any([str(path) for path in paths], folder / "log", judged=True, **options)
    return open_log(done.report.log)


def json_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    return Path(lines(path, rows))


@pytest.mark.parametrize(
    "name", seeds(3, ["pred_{}", "answer_seed{}", "run_{}", "sample{}", "prediction {}", "output_{}", "answer_{}"])
)
def test_a_column_for_each_sample(tmp_path: Path, name: str) -> None:
    """They are samples of one pool, and no models called by numbers."""
    rows = [
        {"id": f"q{i}", "question": TRUTH.question(i), "gold": f"{TRUTH.gold[i]} m"}
        | {name.format(k + 1): f"{TRUTH.said[i][k]} m" for k in range(K)}
        | {f"tokens_{k + 1}": TRUTH.tokens(i, k) for k in range(K)}
        for i in range(N)
    ]
    (tmp_path / "wide.csv").write_text(pl.DataFrame(rows).write_csv(separator=";"))
    done = import_any([str(tmp_path / "wide.csv")], tmp_path / "log", judged=True)
    numbered = name in {"pred_{}", "output_{}", "answer_{}", "run_{}", "sample{}", "prediction {}"}
    check(open_log(done.report.log), Expected(tokens=tokens() if numbered else None))
    assert [*open_log(done.report.log).scan("traces").collect()["sample_index"].unique().sort()] == [*range(K)]


def test_counts_under_many_keys_are_one_text(tmp_path: Path) -> None:
    """Each row has an object with keys of its own, 2,010 in all: no column has a field for each."""
    rows = [
        {"question": TRUTH.question(i), "gold": str(TRUTH.gold[i]), "samples": [TRUTH.text(i, k) for k in range(K)],
         "counts": {f"key {i} {number}": 1.5 for number in range(-(-2_010 // N))}}
        for i in range(N)
    ]  # fmt: skip
    path = json_lines(tmp_path / "a.jsonl", rows)
    assert read_json_lines(path.read_bytes(), ()).frame.schema["counts"] == pl.String
    check(imported(tmp_path, path), Expected())


@pytest.mark.parametrize(("kind", "order"), [(str, 1), (int, 1), (int, -1)])
def test_pairs_of_answer_and_tokens(tmp_path: Path, kind: Callable[[int], Any], order: int) -> None:
    """Of two numbers the answer is the one that equals gold; where neither does, either may be."""
    rows = [
        {
            "question": TRUTH.question(i),
            "gold": str(TRUTH.gold[i]),
            "outputs": [[kind(TRUTH.said[i][k]), TRUTH.tokens(i, k)][::order] for k in range(K)],
        }
        for i in range(N)
    ]
    path = json_lines(tmp_path / "a.jsonl", rows)
    check(imported(tmp_path, path), Expected(tokens=tokens()))
    if kind is int:
        other = json_lines(tmp_path / "b.jsonl", [row | {"gold": 10**6} for row in rows])
        with refuses("ambiguous", "--set 'traces.answer=outputs[0]'", "--set 'traces.answer=outputs[1]'"):
            guess_mapping([str(other)])


def test_columns_with_foreign_names_are_read_as_given(tmp_path: Path) -> None:
    """Nothing is guessed wrongly on the way, and each message has the next setting."""
    rows = [
        {"Nr": i, "Frage": TRUTH.question(i), "Loesung": TRUTH.gold[i], "Antwort": TRUTH.text(i, k)} for i, k in EACH
    ]
    path = json_lines(tmp_path / "a.jsonl", rows)
    given = ["traces.text=Antwort", "examples.gold=Loesung"]
    for settings in ([], given):
        with refuses("ambiguous", "--set examples.example_id=Nr"):
            guess_mapping([str(path)], settings)
    for one in ("examples.example_id=Nr", "examples.question=Frage"):
        with refuses("unsuitable", "`Antwort`", "--set traces.text=COLUMN", "--set examples.gold=COLUMN"):
            guess_mapping([str(path)], [one])
        done = import_any(path, tmp_path / one[:11], settings=[*given, one])
        assert (done.report.examples, done.report.readings.right) == (N, sum(map(sum, TRUTH.right)))


def test_objects_with_text_tokens_and_seconds(tmp_path: Path) -> None:
    rows = [
        {
            "question": TRUTH.question(i),
            "gold": str(TRUTH.gold[i]),
            "samples": [
                {"text": TRUTH.text(i, k), "tokens": TRUTH.tokens(i, k), "seconds": TRUTH.seconds(i, k)}
                for k in range(K)
            ],
        }
        for i in range(N)
    ]
    seconds = sum(TRUTH.seconds(i, k) for i, k in EACH)
    check(imported(tmp_path, json_lines(tmp_path / "a.jsonl", rows)), Expected(tokens=tokens(), seconds=seconds))


@pytest.mark.parametrize(
    ("outputs", "verdicts"), [("code_list", "graded_list"), ("outputs", "is_correct"), ("outputs", "passed")]
)
def test_a_list_of_verdicts_beside_one_of_texts(tmp_path: Path, outputs: str, verdicts: str) -> None:
    rows = [
        {
            "task_id": i,
            "prompt": TRUTH.question(i),
            outputs: [f"return {TRUTH.said[i][k]}\n" * 9 for k in range(K)],
            verdicts: TRUTH.right[i],
        }
        for i in range(N)
    ]
    check(imported(tmp_path, json_lines(tmp_path / "a.jsonl", rows)), Expected())


@pytest.mark.parametrize("trials", ["reflections", "trajectory"])
def test_trials_in_order_with_the_last_verdict_alone(tmp_path: Path, trials: str) -> None:
    rows = [
        {
            "question": TRUTH.question(i),
            trials: [f"Try {k}: {TRUTH.text(i, k)}" * 3 for k in range(1 + i % 3)],
            "is_correct": TRUTH.right[i][0],
        }
        for i in range(N)
    ]
    right = sum(TRUTH.right[i][0] for i in range(N))
    check(imported(tmp_path, json_lines(tmp_path / "a.jsonl", rows)), Expected(N, right))


def test_a_table_for_each_question_named_by_its_id(tmp_path: Path) -> None:
    for i in range(N):
        frame = pl.DataFrame({"pred": TRUTH.said[i], "gold": [TRUTH.gold[i]] * K})
        (tmp_path / "runs").mkdir(exist_ok=True)
        frame.write_csv(tmp_path / "runs" / f"question_{i:03d}.csv")
    check(imported(tmp_path, tmp_path / "runs"), Expected())


def test_preferences_of_a_judge_of_pairs(tmp_path: Path) -> None:
    rows = [
        {
            "instruction": TRUTH.question(i),
            "output_1": "a " * 30,
            "generator_1": "base",
            "output_2": "b " * 30,
            "generator_2": "new",
            "annotator": "j",
            "preference": 1.0 + TRUTH.right[i][0],
        }
        for i in range(N)
    ]
    wins = sum(TRUTH.right[i][0] for i in range(N)) / N
    log = imported(tmp_path, json_lines(tmp_path / "annotations.json", rows))
    check(log, Expected(2 * N, N, pools={"base": 1 - wins, "new": wins}))


WINNERS = {
    "a": ("response_a", "response_b", "a", "b"),
    "model_a": ("answer_a", "answer_b", "model_a", "model_b"),
    "1": ("output_1", "output_2", 1, 2),
    "base": ("response_a", "response_b", "base", "new"),
}


@pytest.mark.parametrize("words", [*WINNERS])
@pytest.mark.parametrize("nested", [False, True])
def test_pairs_with_a_winner(tmp_path: Path, words: str, nested: bool) -> None:
    """A tie is half a win of both; without models outputs are called by their numbers."""
    one, two, first, second = WINNERS[words]
    models = {"model_a": "base", "model_b": "new"} if words == "base" else {}
    ties = [words != "1" and i % 8 == 0 for i in range(N)]
    won = ["tie" if tie else (first, second)[TRUTH.right[i][0]] for i, tie in enumerate(ties)]
    pairs = [{one: "a " * 30, two: "b " * 30, "winner": winner} | models for winner in won]
    rows = [{"prompt": TRUTH.question(i)} | ({"pairs": [pair] * 2} if nested else pair) for i, pair in enumerate(pairs)]
    log = imported(tmp_path, json_lines(tmp_path / "judged.jsonl", rows))
    traces, names = log.scan("traces").collect(), ["base", "new"] if models else ["output 1", "output 2"]
    assert traces.height == 2 * N * (1 + nested)
    for name, side in zip(names, (first, second), strict=True):
        mine = traces.filter(pool=name)
        assert mine["correct"].mean() == pytest.approx(won.count(side) / N)
        assert mine["credit"].mean() == pytest.approx((won.count(side) + sum(ties) / 2) / N)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"response_a": "x", "response_b": "y", "winner": "left"}, "[[traces]]"),
        ({"pair": ["x", "y"], "winner": 0}, "[[traces]]"),
        ({"responses": ["x", "y"], "winner": 0}, "traces.correct=element = winner"),
    ],
)
def test_a_winner_that_is_not_understood_has_its_cure(tmp_path: Path, row: dict[str, Any], told: str) -> None:
    path = json_lines(tmp_path / "judged.jsonl", [{"prompt": TRUTH.question(i)} | row for i in range(N)])
    with refuses("unsuitable", "winner", told):
        imported(tmp_path, path)


def test_columns_of_examples_are_given_beside_guessed_ones(tmp_path: Path) -> None:
    rows = [
        {"id": i, "question": TRUTH.question(i), "gold": str(i), "sample": k, "answer": str(i + k),
         "difficulty": "ab"[i % 2], "router": i / N}
        for i in range(N) for k in range(2)
    ]  # fmt: skip
    made = imported(tmp_path, json_lines(tmp_path / "made.jsonl", rows), settings=("examples.extra.router=router",))
    assert {"difficulty", "router"} <= set(made.columns("examples"))


@pytest.mark.parametrize("key", ["examples", "examples.extra", "traces", "answers"])
def test_a_value_in_place_of_a_table_is_refused(key: str, tmp_path: Path) -> None:
    path = json_lines(
        tmp_path / "a.jsonl", [{"question": TRUTH.question(i), "gold": "1", "answer": "1"} for i in range(N)]
    )
    with refuses("invalid", f"`{key}`", f"`{key}.KEY=VALUE`"):
        imported(tmp_path, path, settings=(f"{key}=router",))


@pytest.mark.parametrize("settings", [(), ("traces.answer=chosen",)])
def test_preferences_have_a_cure_that_fits(tmp_path: Path, settings: tuple[str, ...]) -> None:
    """An output that was preferred is no gold: each of the two is a trace with its verdict."""
    rows = [{"prompt": TRUTH.question(i), "chosen": f"It is {i}.", "rejected": f"It is {i + 1}."} for i in range(N)]
    path = json_lines(tmp_path / "preferences.jsonl", rows)
    with refuses("unsuitable", "chosen", "rejected", "[[traces]]", "correct"):
        imported(tmp_path, path, settings=settings)


@pytest.mark.parametrize("reply", ["text", "response"])
def test_gold_beside_samples_with_answers_of_their_own(tmp_path: Path, reply: str) -> None:
    """Gold called `answer`, unless it is what most samples of nearly all questions say: then it may be their vote."""

    def rows(gold: Callable[[int], str]) -> list[dict[str, Any]]:
        samples = [[{reply: TRUTH.text(i, k), "answer": str(TRUTH.said[i][k])} for k in range(K)] for i in range(N)]
        return [{"question": TRUTH.question(i), "answer": gold(i), "model_outputs": samples[i]} for i in range(N)]

    check(imported(tmp_path, json_lines(tmp_path / "a.jsonl", rows(lambda i: str(TRUTH.gold[i])))), Expected())
    voted = [str(max(TRUTH.said[i], key=TRUTH.said[i].count)) for i in range(N)]
    with refuses("ambiguous", "answer", "examples.gold=answer"):
        imported(tmp_path / "voted", json_lines(tmp_path / "b.jsonl", rows(voted.__getitem__)))


def test_the_names_of_the_log_as_export_writes_them(tmp_path: Path) -> None:
    rows = [
        {
            "example_id": f"q{i}",
            "dataset": "d",
            "split": "test",
            "question": TRUTH.question(i),
            "pool": "n8",
            "model": "m",
            "gold": str(TRUTH.gold[i]),
            "sample_index": k,
            "answer": str(TRUTH.said[i][k]),
            "correct": TRUTH.right[i][k],
        }
        for i, k in EACH
    ]
    log = imported(tmp_path, json_lines(tmp_path / "flat.jsonl", rows))
    check(log, Expected())
    assert log.scan("traces").collect()["pool"].unique().to_list() == ["n8"]
    assert log.scan("examples").collect()["dataset"].unique().to_list() == ["d"]


def test_a_run_and_judgements_of_trec(tmp_path: Path) -> None:
    run = "".join(f"{i} Q0 d{i}-{k} {k + 1} {9 - k} bm25\n" for i, k in EACH)
    judged = "".join(f"{i} 0 d{i}-{k} {int(TRUTH.right[i][k])}\n" for i, k in EACH if TRUTH.right[i][k] or k % 2)
    (folder := tmp_path / "trec").mkdir()
    (folder / "run.txt").write_text(run, encoding="utf-8")
    (folder / "qrels.txt").write_text(judged, encoding="utf-8")
    check(imported(tmp_path, folder / "run.txt", folder / "qrels.txt"), Expected(verifications=N * K))
    with refuses("not-found", f"{folder / 'qrels.txt'} {folder / 'run.txt'}"):
        guess_mapping([str(folder)])


def test_questions_without_outputs_are_told_as_such(tmp_path: Path) -> None:
    """Beside gold, and where one `answer` a question may be gold or what a model wrote."""
    rows = [{"id": i, "question": TRUTH.question(i), "gold": TRUTH.gold[i]} for i in range(N)]
    with refuses("unsuitable", "thinkback generate", "--set traces.text=COLUMN"):
        imported(tmp_path, json_lines(tmp_path / "a.jsonl", rows))
    alone = [{"question": TRUTH.question(i), "answer": TRUTH.gold[i]} for i in range(N)]
    with refuses("unsuitable", "`answer`", "thinkback generate"):
        imported(tmp_path, json_lines(tmp_path / "b.jsonl", alone))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"final_answer": 5}, "traces.answer"),
        ({"score": 1, "gold": None}, "traces.correct"),
        ({"mood": "VARIES"}, "traces.pool"),
        ({"n_output_tokens": 3}, "traces.completion_tokens"),
    ],
)
def test_two_readings_are_never_chosen_between(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    rows = [
        {
            "id": i,
            "question": TRUTH.question(i),
            "gold": TRUTH.gold[i],
            "pred": TRUTH.said[i][k],
            "output_tokens": 9 + k,
            **{
                key: "ab"[k % 2] if value == "VARIES" else value and value + (i + k) % 2 - 1
                for key, value in change.items()
            },
        }
        for i, k in EACH
    ]
    with refuses("ambiguous", f"--set {named}="):
        imported(tmp_path, json_lines(tmp_path / "a.jsonl", rows))


def test_lists_as_python_prints_them_are_refused(tmp_path: Path) -> None:
    rows = [{"question": TRUTH.question(i), "gold": 1, "outputs": str(["a", "b"])} for i in range(9)]
    with refuses("format", "`outputs`", "json.dumps"):
        imported(tmp_path, json_lines(tmp_path / "a.jsonl", rows))


JUNK = ("alpha", "x1", "notes", "kind_of", "zeta", "blob", "foo", "bar baz", "größe", "C7", "tmp", "value2")


@pytest.mark.parametrize("part", seeds(1, 10))
def test_no_random_header_is_read_wrongly(tmp_path: Path, part: int) -> None:
    """500 headers: columns of known contents under names of their own role, of another one, or of none.

    What is guessed rests on names that the roles have and on contents that fit; where gold, answers or verdicts have
    their own names, the share right is the truth's.
    """
    count, k_of = 12, 4
    pairs = [(i, k) for i in range(count) for k in range(k_of)]
    contents: dict[str, list[Any]] = {
        "id": [f"q{i}" for i, _ in pairs],
        "question": [TRUTH.question(i) for i, _ in pairs],
        "gold": [TRUTH.gold[i] for i, _ in pairs],
        "answer": [TRUTH.said[i][k] for i, k in pairs],
        "verdict": [TRUTH.right[i][k] for i, k in pairs],
        "completion_tokens": [TRUTH.tokens(i, k) for i, k in pairs],
        "verifier": [TRUTH.score(i, k) for i, k in pairs],
        "sample_index": [k for _, k in pairs],
    }
    right = sum(contents["verdict"])
    rng, read = random.Random(part), 0
    for number in range(50):
        header: dict[str, str] = {}
        for role in contents:
            draw = rng.random()
            names = ROLES[role].names if draw < 0.7 else ROLES[rng.choice(list(contents))].names if draw < 0.8 else JUNK
            name = rng.choice(names)
            if draw < 0.95 and name not in header.values():
                header[role] = name
        rows = [{name: contents[role][n] for role, name in header.items()} for n in range(len(pairs))]
        path = json_lines(tmp_path / f"{number}.jsonl", rows)
        own = {role for role, name in header.items() if ROLES[role].name_fit(name) is not None}
        try:
            guess = guess_mapping([str(path)])
        except ThinkbackError:
            continue
        table = parse_toml(guess.text, "map")
        reached = {name: role for role, name in header.items()}
        gold, answer = table["examples"].get("gold"), table["traces"].get("answer")
        correct = table["traces"].get("correct")
        if gold is not None:
            assert reached[gold] in ("gold", "id", "question"), guess.text
            assert ROLES["gold"].name_fit(gold) is not None, guess.text
        assert correct is None or reached[correct] == "verdict", guess.text
        if (
            {"id", "gold", "answer"} <= own
            and reached.get(gold or "") == "gold"
            and reached.get(answer or "") == "answer"
        ):
            done = import_any([str(path)], tmp_path / f"log{number}", formats=False)
            assert done.report.readings.right == right, guess.text
            read += 1
    assert read > 3


def csv_files(folder: Path, header: str, row: Callable[[int, int], str], files: int = 24, stem: str = "q") -> Path:
    """A folder of CSV files with four rows each."""
    folder.mkdir()
    for i in range(files):
        rows = "".join(row(i, k) + "\n" for k in range(4))
        (folder / f"{stem}{i:03}.csv").write_text(f"{header}\n{rows}", encoding="utf-8")
    return folder


FILE_ROWS: dict[str, Callable[[int, int], str]] = {
    "answer,correct,tokens": lambda i, k: f"{i + k % 3},{int(k % 3 == 0)},{50 + k}",
    "sample,answer,correct": lambda i, k: f"{k},{i + k % 3},{k % 3 == 0}",
    "answer,correct,logprob": lambda i, k: f"{i + k % 3} in q{i},{int(k % 3 == 0)},-{k + 1}.5",
    "text,correct,tokens": lambda i, k: (
        f"In sample {k} of q{i} one number and another make {i + k % 3}.,{int(k % 3 == 0)},{50 + k}"
    ),
}


@pytest.mark.parametrize("header", FILE_ROWS)
def test_each_of_many_files_without_questions_is_one(tmp_path: Path, header: str) -> None:
    log = imported(tmp_path, csv_files(tmp_path / "files", header, FILE_ROWS[header]))
    traces = log.scan("traces").collect()
    assert traces.group_by("example_id").len()["len"].to_list() == [4] * 24
    assert traces["correct"].sum() == 48
    assert traces["text"].null_count() == (0 if header.startswith("text") else 96)


@pytest.mark.parametrize(("files", "stem"), [(6, "q"), (24, "model-")])
def test_few_files_or_models_without_questions_are_refused(tmp_path: Path, files: int, stem: str) -> None:
    header = "answer,correct,tokens"
    folder = csv_files(tmp_path / "files", header, FILE_ROWS[header], files, stem)
    with refuses("ambiguous", "example}.csv", "examples.example_id=source_row"):
        guess_mapping([str(folder)])
    settled = guess_mapping([str(folder)], ["examples.example_id=source_row"])
    assert parse_toml(settled.text, "map")["examples"]["example_id"] == "source_row"


def test_texts_of_few_files_may_be_questions(tmp_path: Path) -> None:
    header = "text,correct,tokens"
    folder = str(csv_files(tmp_path / "files", header, FILE_ROWS[header], 12))
    given = ["path=q{example}.csv", "examples.example_id=example", "traces.text=text"]
    with refuses("ambiguous", "--set examples.question=text", *(f"--set '{one}'" for one in given[:1]), given[2]):
        guess_mapping([folder])
    done = import_any(folder, tmp_path / "log", settings=given)
    assert (done.report.examples, done.report.traces) == (12, 48)


def test_texts_of_many_parts_are_questions(tmp_path: Path) -> None:
    header = "text,correct,tokens"
    guess = guess_mapping([str(csv_files(tmp_path / "files", header, FILE_ROWS[header], stem="part-"))])
    assert parse_toml(guess.text, "map")["examples"]["question"] == "text"


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "empty.csv").write_text("a,b\n", encoding="utf-8")
    with refuses("empty", "empty.csv"):
        guess_mapping([str(path)])


@pytest.mark.parametrize("off", [0, 2])
def test_answer_beside_ground_truth_may_be_gold(tmp_path: Path, off: int) -> None:
    rows = [
        {"id": f"e{i}", "answer": str(TRUTH.gold[i]), "model_answer": str(TRUTH.said[i][k]),
         "ground_truth": str(TRUTH.gold[i] + off)}
        for i in range(N) for k in range(K)
    ]  # fmt: skip
    path = json_lines(tmp_path / "a.jsonl", rows)
    if not off:
        check(imported(tmp_path, path), Expected())
        return
    with refuses("ambiguous", "examples.gold=ground_truth", "examples.gold=answer"):
        guess_mapping([str(path)])


@pytest.mark.parametrize("characters", [True, False])
def test_a_length_in_characters_counts_no_tokens(tmp_path: Path, characters: bool) -> None:
    rows = [
        {"question": TRUTH.question(i), "gold": str(TRUTH.gold[i]), "response": TRUTH.text(i, k),
         "response_length": len(TRUTH.text(i, k)) if characters else TRUTH.tokens(i, k)}
        for i in range(N) for k in range(K)
    ]  # fmt: skip
    log = imported(tmp_path, json_lines(tmp_path / "a.jsonl", rows))
    check(log, Expected(tokens=None if characters else tokens()))
    assert log.scan("traces").collect()["completion_tokens"].null_count() == (N * K if characters else 0)


REAL = (
    "cruxeval_codellama7b",
    "gpr_quizbowl",
    "gsm8k_openai2021",
    "qwen25_math_rm8",
    "re2_pairs",
    "rg_llama3b_math50",
    "routellm",
    "tot_game24",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_logs_are_guessed_as_their_shipped_mappings_read_them(tmp_path: Path, name: str) -> None:
    folder = os.environ.get("THINKBACK_LOGS")
    if not folder:
        pytest.skip("THINKBACK_LOGS names no folder of real logs")
    path = Path(folder) / name / "samples.parquet"
    guessed = imported(tmp_path, path)
    import_table([str(path)], name, tmp_path / "shipped")
    both = []
    for log in (guessed, open_log(tmp_path / "shipped")):
        traces = log.scan("traces").collect()
        both.append(traces.group_by("example_id", "correct").len().sort("example_id", "correct"))
    if name == "re2_pairs":  # its source numbers the rows of a resumed run, which its mapping drops
        assert abs(both[0]["len"].sum() - both[1]["len"].sum()) == 60
    else:
        assert both[0].equals(both[1])
