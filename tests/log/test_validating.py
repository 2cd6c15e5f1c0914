"""Every kind of bad input, with the exact line that it gets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.errors import refuses
from tests.logs import checks, examples, put, put_all, rounds, traces, unfolding, verifications, whole
from toolkit.log import Problem, check_log, open_log, validate_log, write_log
from toolkit.log.check import relations
from toolkit.log.check.values import first_fault

NAN = float("nan")
PART = "part-0.parquet"
Tables = dict[str, pl.DataFrame]


def problems(folder: Path) -> list[tuple[str, str, str | None, int | None]]:
    """Code, file, column and row of each problem."""
    found = validate_log(open_log(folder)).problems
    return [(problem.code, problem.file, problem.column, problem.row) for problem in found]


def notes(folder: Path) -> list[str]:
    return list(validate_log(open_log(folder)).notes)


def longer(frame: pl.DataFrame, **row: Any) -> pl.DataFrame:
    """The frame with one more row: its first one, changed."""
    return pl.concat([frame, frame[:1].with_columns(pl.lit(v).cast(frame.schema[k]).alias(k) for k, v in row.items())])


def all_tables(**tables: pl.DataFrame) -> Tables:
    return whole() | {"rounds": rounds(), "checks": checks()} | tables


Fault = tuple[Any, ...]
"""What a problem is known by: its code, its table, column and row, and what else its line quotes."""


def is_fault(problem: Problem, fault: Fault) -> bool:
    """Whether a problem of a log that `put_all` wrote is this one."""
    code, table, column, row, *quoted = fault
    place = (code, f"{table}/{PART}", column, row)
    return (problem.code, problem.file, problem.column, problem.row) == place and all(
        text in problem.message for text in quoted
    )


CASES: dict[str, tuple[Tables, Fault]] = {
    "missing column": (whole(traces=traces().drop("model")), ("missing-column", "traces", "model", None)),
    "wrong type": (
        whole(verifications=verifications(score=["a", "b", "c", "d"])),
        ("type", "verifications", "score", 0),
    ),
    "fraction in a count": (
        whole(traces=traces(sample_index=[0.0, 1.0, 0.0, 0.5, 1.0])),
        ("lossy", "traces", "sample_index", 3, "`0.5`"),
    ),
    "null where required": (whole(traces=traces(pool=["n", "n", "rev", None, "n"])), ("null", "traces", "pool", 3)),
    "NaN score": (
        whole(verifications=verifications(score=[0.5, NAN, NAN, 0.1])),
        ("not-finite", "verifications", "score", 1, "`nan`", "2 rows"),
    ),
    "infinite seconds": (
        whole(traces=traces(latency_s=[0.5, None, float("-inf"), 1.0, 1.0])),
        ("not-finite", "traces", "latency_s", 2, "`-inf`"),
    ),
    "NaN in a list": (
        whole(traces=traces(token_logprobs=[[-1.0], None, [], [-1.0, NAN], [0.0]])),
        ("not-finite", "traces", "token_logprobs", 3),
    ),
    "entropies of other tokens": (
        whole(
            traces=traces(
                token_logprobs=[[-1.0], None, [], [-1.0], [0.0]], token_entropies=[[0.5], None, [], [1.0, 2.0], []]
            )
        ),
        ("length", "traces", "token_entropies", 3, "`token_logprobs`", "2 rows"),
    ),
    "an entropy below 0": (
        whole(traces=traces(token_entropies=[[0.5], None, [], [0.0], [-0.5]])),
        ("negative-item", "traces", "token_entropies", 4),
    ),
    "a rank of 0": (
        whole(verifications=verifications(token_ranks=[None, [1], [1, 0], []])),
        ("low-item", "verifications", "token_ranks", 2),
    ),
    "NaN in a feature": (
        whole(features=traces().select("trace_id", "example_id", f=pl.Series([0.0, 1.0, NAN, 2.0, 3.0]))),
        ("not-finite", "features", "f", 2, "`nan`"),
    ),
    "null in a list": (
        whole(examples=examples(gold_documents=[["d", None], None])),
        ("null-item", "examples", "gold_documents", 0),
    ),
    "negative count": (
        whole(traces=traces(prompt_tokens=[1, 2, -3, 4, 5])),
        ("negative", "traces", "prompt_tokens", 2, "`-3`"),
    ),
    "credit out of range": (
        whole(traces=traces(credit=[0.0, 0.0, 1.5, 1.0, 0.5])),
        ("out-of-range", "traces", "credit", 2, "`1.5`"),
    ),
    "gold outside labels": (
        whole(examples=examples(gold=["4", "maybe"]), traces=traces(correct=[True, False, True, False, False])),
        ("gold-outside-labels", "examples", "gold", 1, "`maybe`", "`['yes', 'no']`"),
    ),
    "a label twice": (
        whole(examples=examples(labels=[None, ["yes", "no", "yes"]])),
        ("duplicate-label", "examples", "labels", 1, "`['yes', 'no', 'yes']`"),
    ),
    "unknown example": (
        whole(verifications=verifications(example_id=["q1", "q1", "q2", "q9"])),
        ("unknown", "verifications", "example_id", 3, "`q9`"),
    ),
    "unknown trace": (
        whole(verifications=verifications(trace_id=["a0", "r0", "zz", "b1"])),
        ("unknown", "verifications", "trace_id", 2, "`zz`"),
    ),
    "trace of another example": (
        whole(verifications=verifications(example_id=["q1", "q2", "q2", "q2"])),
        ("unknown", "verifications", "trace_id", 1, "`r0`", "`q1`", "`q2`"),
    ),
    "duplicate example": (whole(examples=longer(examples())), ("duplicate", "examples", "example_id", 2, "`q1`")),
    "duplicate trace": (whole(traces=longer(traces(), sample_index=2)), ("duplicate", "traces", "trace_id", 5, "`a0`")),
    "duplicate verification": (
        whole(verifications=longer(verifications(), score=0.99)),
        ("duplicate", "verifications", "trace_id", 4, "`a0`", "`v`"),
    ),
    "solve with a parent": (
        whole(traces=traces(parent_id=[None, "a0", "a0", None, None])),
        ("solve-with-parent", "traces", "parent_id", 1),
    ),
    "revision without parent": (
        whole(traces=traces(parent_id=[None] * 5)),
        ("revision-without-parent", "traces", "parent_id", 2, "`continue`"),
    ),
    "unknown parent": (
        whole(traces=traces(parent_id=[None, None, "zz", None, None])),
        ("unknown", "traces", "parent_id", 2, "`zz`"),
    ),
    "parent of another example": (
        whole(traces=traces(parent_id=[None, None, "b1", None, None])),
        ("unknown", "traces", "parent_id", 2, "`b1`", "`q2`", "`q1`"),
    ),
    "own parent": (
        whole(traces=traces(parent_id=[None, None, "r0", None, None])),
        ("own-parent", "traces", "parent_id", 2, "`r0`"),
    ),
    "a solve that reads": (
        whole(traces=traces(reads=[None, 2, 1, None, None])),
        ("solve-with-reads", "traces", "reads", 1),
    ),
    "sample index twice": (
        whole(traces=traces(sample_index=[0, 0, 0, 0, 1])),
        ("duplicate-index", "traces", "sample_index", 1, "`0`", "`q1`", "`n`"),
    ),
    "equal answers judged differently": (
        whole(traces=traces(correct=[True, False, False, True, False])),
        ("judged-differently", "traces", "correct", 2, "`4`", "`q1`"),
    ),
    "partly judged": (
        whole(traces=traces(correct=[True, None, True, True, False])),
        ("partly-judged", "traces", "correct", 1, "`q1`"),
    ),
    "null answer judged right": (
        whole(traces=traces(correct=[True, True, True, True, False])),
        ("correct-without-answer", "traces", "correct", 1),
    ),
    "judged against the labels": (
        whole(traces=traces(correct=[True, False, True, True, True])),
        ("not-by-labels", "traces", "correct", 4, "`no`", "`yes`", "`q2`"),
    ),
    "opaque with an answer": (
        whole(traces=traces(opaque=[None, None, True, False, False])),
        ("opaque-answer", "traces", "opaque", 2),
    ),
    "contested without an answer": (
        whole(traces=traces(contested=[True, True, True, None, None])),
        ("contested-without-verdict", "traces", "contested", 1),
    ),
    "contested and opaque": (
        whole(
            traces=traces(
                answer=["4", None, "r0", "yes", "no"],
                opaque=[False, False, True, False, False],
                contested=[False, False, True, False, False],
            )
        ),
        ("contested-without-verdict", "traces", "contested", 2),
    ),
    "contested without a verdict": (
        whole(traces=traces(correct=[None, None, None, True, False], contested=[True, None, None, None, None])),
        ("contested-without-verdict", "traces", "contested", 0),
    ),
    "judged differently beside contested ones": (
        whole(
            traces=traces(
                answer=["4", "4", "4", "yes", "no"],
                correct=[True, True, False, True, False],
                contested=[True, False, False, False, False],
            )
        ),
        ("judged-differently", "traces", "correct", 2, "`4`", "`q1`"),
    ),
    "a call of many candidates paid twice": (
        whole(verifications=verifications(candidates=[None, None, 2, 2], prompt_tokens=[1, 1, 9, 9])),
        ("paid-twice", "verifications", "prompt_tokens", 3, "`9`"),
    ),
    "no candidates": (
        whole(verifications=verifications(candidates=[None, None, 0, None])),
        ("no-candidates", "verifications", "candidates", 2, "`0`"),
    ),
    "lists of unequal length": (
        all_tables(rounds=rounds(relevance=[[0.5], [0.2]])),
        ("length", "rounds", "relevance", 0, "`documents`"),
    ),
    "clusters of unequal length": (
        all_tables(rounds=rounds(clusters=[[0, 1], [0, 1]])),
        ("length", "rounds", "clusters", 1, "`answers`"),
    ),
    "ranks of unequal length": (
        all_tables(rounds=rounds(retrieval_rank=[[0, None], []])),
        ("length", "rounds", "retrieval_rank", 1, "`documents`"),
    ),
    "a gap in rounds": (
        all_tables(rounds=rounds(round=[0, 2])),
        ("gap", "rounds", "round", 1, "`2`", "`q1`", "`r`", "`0`"),
    ),
    "rounds from 1": (
        all_tables(checks=checks(round=[1, 2, 0])),
        ("gap", "checks", "round", 0, "`1`", "`q1`", "`c`", "`0`"),
    ),
    "duplicate round": (
        all_tables(rounds=rounds(round=[0, 0])),
        ("duplicate", "rounds", "round", 1, "`q1`", "`r`", "`0`", "`0`"),
    ),
    "unknown example of a check": (
        all_tables(checks=checks(example_id=["q1", "q1", "q7"])),
        ("unknown", "checks", "example_id", 2, "`q7`"),
    ),
    "a stage that changes": (
        all_tables(checks=checks(stage=["stream", "revision", "stream"])),
        ("stage-changes", "checks", "stage", 1, "`revision`", "`q1`", "`stream`"),
    ),
    "an unknown stage": (
        all_tables(checks=checks(stage=["stream", "stream", "later"])),
        ("unknown", "checks", "stage", 2, "`later`"),
    ),
    "an unknown verdict": (
        all_tables(checks=checks(verdict=["maybe", "refuted", "none"])),
        ("unknown", "checks", "verdict", 0, "`maybe`"),
    ),
    "a hop left out": (
        all_tables(rounds=rounds(hop=[0, 2], round=[0, 0])),
        ("gap", "rounds", "hop", 1, "`2`", "hop 1", "`q1`", "`r`"),
    ),
    "scores of other answers": (
        all_tables(rounds=rounds(answer_scores=[[0.5, 0.5], []])),
        ("length", "rounds", "answer_scores", 1, "`answers`"),
    ),
    "people without a verdict": (
        all_tables(examples=examples(human_positions=[[3, 4], None], human_corrects=[[True], None])),
        ("length", "examples", "human_corrects", 0, "`human_positions`"),
    ),
    "a person before the first word": (
        all_tables(examples=examples(human_positions=[None, [3, -1]])),
        ("negative-item", "examples", "human_positions", 1),
    ),
    "a person beyond the text": (
        all_tables(examples=examples(length=[None, 5], human_positions=[[9], [3, 6]])),
        ("beyond-length", "examples", "human_positions", 1, "`[3, 6]`", "`5`"),
    ),
    "one person beyond the text": (
        whole(examples=examples(length=[7, 5], human_position=[7, 6])),
        ("beyond-length", "examples", "human_position", 1, "`6`", "`5`"),
    ),
    "an error beyond the text": (
        whole(examples=examples(length=[7, None], gold_position=[8, 6])),
        ("beyond-length", "examples", "gold_position", 0, "`8`", "`7`"),
    ),
    "gold among several, but not first": (
        all_tables(examples=examples(golds=[["4", "IV"], ["no", "yes"]])),
        ("gold-not-first", "examples", "golds", 1, "`yes`"),
    ),
    "a right answer twice": (
        all_tables(examples=examples(golds=[["4", "IV", "IV"], []])),
        ("gold-not-first", "examples", "golds", 0, "`4`"),
    ),
    "a guess beyond the question": (
        all_tables(examples=examples(length=[None, 5]), traces=traces(position=[9, 9, 9, 5, 6])),
        ("beyond-length", "traces", "position", 4, "`6`", "`q2`", "`5`"),
    ),
    "words of a question unseen": (
        all_tables(traces=traces(position=[4, 4, 1, 3, 2])),
        ("falls", "traces", "position", 4, "2", "3", "`n`", "sample_index 1"),
    ),
    "a check beyond the text": (
        all_tables(examples=examples(length=[11, 1])),
        ("beyond-length", "checks", "position", 2, "`12`", "`q1`", "`11`"),
    ),
    "words of a claim unseen": (
        all_tables(checks=checks(position=[9, 5, 5])),
        ("falls", "checks", "position", 1, "5", "9", "claim `0`", "round 1"),
    ),
    "a round after support": (
        all_tables(checks=checks(verdict=["supported", "refuted", "none"])),
        ("after-supported", "checks", "round", 1, "`1`", "`0`"),
    ),
    "no claim that is a claim": (
        all_tables(checks=checks(verdict=["not_enough", "none", "none"], queries=[1, 0, 0])),
        ("shared-claim", "checks", "verdict", 1, "claim `0`"),
    ),
    "an error matched where there is none": (
        all_tables(
            examples=examples(gold_error=[False, True]),
            checks=checks(claim=[0, 2, 1], round=[0, 0, 0], matches_error=[False, True, None]),
        ),
        ("match-without-error", "checks", "matches_error", 1, "`q1`"),
    ),
    "a match that changes": (
        all_tables(checks=checks(matches_error=[None, True, None])),
        ("value-changes", "checks", "matches_error", 1, "`true`", "`none`", "claim `0`"),
    ),
    "a match of no claim": (
        all_tables(checks=checks(matches_error=[False, False, False])),
        ("value-without-claim", "checks", "matches_error", 2, "false"),
    ),
    "a label that changes": (
        all_tables(checks=checks(gold_verdict=["refuted", "supported", None])),
        ("value-changes", "checks", "gold_verdict", 1, "`supported`", "`refuted`"),
    ),
    "an unknown label": (
        all_tables(checks=checks(gold_verdict=["false", "false", None])),
        ("unknown", "checks", "gold_verdict", 0, "`false`", "2 rows"),
    ),
    "a claim in two units": (
        all_tables(checks=checks(unit=[0, 1, 1])),
        ("value-changes", "checks", "unit", 1, "`1`", "`0`", "claim `0`"),
    ),
    "a unit of two lengths": (
        all_tables(checks=checks(unit=[3, 3, 3], unit_words=[7, 7, 8])),
        ("value-changes", "checks", "unit_words", 2, "`8`", "`7`", "unit `3`"),
    ),
    "entities of half a unit": (
        all_tables(checks=checks(unit=[3, 3, 3], unit_entities=[2, 2, None])),
        ("value-changes", "checks", "unit_entities", 2, "`none`", "`2`", "unit `3`"),
    ),
    "queries without a claim": (
        all_tables(checks=checks(queries=[1, 1, 1])),
        ("queries-without-verdict", "checks", "queries", 2, "`1`", "`none`"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_its_line(name: str, tmp_path: Path) -> None:
    tables, fault = CASES[name]
    (problem,) = validate_log(open_log(put_all(tmp_path, tables))).problems
    assert is_fault(problem, fault), (problem.code, str(problem))
    assert str(problem).startswith(f"`{problem.file}`, column `{problem.column}`")
    if not {"rounds", "checks"} & set(tables):
        with refuses(problem.code, str(problem)):
            check_log(open_log(tmp_path))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_blocks_of_one_example_find_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "BLOCK_ROWS", 1)
    tables, fault = CASES[name]
    (problem,) = validate_log(open_log(put_all(tmp_path, tables))).problems
    assert is_fault(problem, fault), (problem.code, str(problem))


@pytest.mark.parametrize("name", [name for name, (_, fault) in CASES.items() if fault[3] is not None])
@pytest.mark.slow
def test_the_file_and_row_are_found_among_shards(name: str, tmp_path: Path) -> None:
    """The faulty table cut in single rows, so that every row number is 0 and the file's name holds the place."""
    tables, (code, faulty, column, row, *_) = CASES[name]
    for table, frame in tables.items():
        rows = range(frame.height) if table == faulty else [None]
        for i in rows:
            put(tmp_path, table, frame if i is None else frame[i : i + 1], PART if i is None else f"p{i}.parquet")
    first = validate_log(open_log(tmp_path)).problems[0]
    assert (first.code, first.file, first.column, first.row) == (code, f"{faulty}/p{row}.parquet", column, 0)


def test_a_valid_log_has_no_problems(tmp_path: Path) -> None:
    put_all(tmp_path / "a", all_tables())
    assert problems(tmp_path / "a") == []
    (note,) = notes(tmp_path / "a")
    assert "unsealed" in note
    log = write_log(tmp_path / "b", name="b", tables=all_tables())
    assert validate_log(log).problems == ()
    assert validate_log(log).notes == ()


def test_every_column_of_rounds_checks_and_people_may_be_there(tmp_path: Path) -> None:
    tables = unfolding()
    put_all(tmp_path / "a", tables)
    assert problems(tmp_path / "a") == []
    pools = {"r": {"explore": "relevance"}, "c": {"sees": "verdicts"}}
    log = write_log(tmp_path / "b", name="b", tables=tables, pools=pools)
    assert validate_log(log).problems == ()
    for table, frame in tables.items():
        assert log.scan(table, frame.columns).collect().rows() == frame.rows()


def test_open_answers_may_be_judged_freely(tmp_path: Path) -> None:
    """Without labels an answer may be right though it is not gold, and gold may be unknown."""
    tables = whole(examples=examples(gold=[None, "yes"]), traces=traces(answer=["IV", None, "4", "yes", "no"]))
    assert problems(put_all(tmp_path, tables)) == []


def test_contested_answers_keep_their_own_verdicts(tmp_path: Path) -> None:
    tables = whole(traces=traces(correct=[True, False, False, True, False], contested=[True, False, True, None, None]))
    assert problems(put_all(tmp_path, tables)) == []


LONG = "because " * 200


@pytest.mark.parametrize("end", ["4", "5"])
def test_long_answers_are_compared_whole_and_held_by_their_hash(end: str, tmp_path: Path) -> None:
    answers = [f"{LONG}4", "5", f"{LONG}{end}", "yes", "no"]
    put_all(tmp_path, whole(traces=traces(answer=answers, correct=[True, False, False, True, False])))
    found = validate_log(open_log(tmp_path)).problems
    fault = ("judged-differently", "traces", "correct", 2, f"`{LONG[:59]}…`", "`q1`")
    assert [is_fault(problem, fault) for problem in found] == [True] * (end == "4")
    held = pl.DataFrame({"answer": answers}).select(relations._text_start_and_hash("answer")).to_series()
    assert held.str.len_bytes().max() < 100
    assert held.drop_nulls().n_unique() == (4 if end == "4" else 5)


def test_empty_labels_are_open(tmp_path: Path) -> None:
    tables = whole(examples=examples(labels=[[], []]), traces=traces(correct=[True, False, True, False, True]))
    assert problems(put_all(tmp_path, tables)) == []


def test_gaps_are_a_note(tmp_path: Path) -> None:
    put_all(tmp_path, whole(traces=traces(sample_index=[0, 3, 0, 1, 2])))
    assert problems(tmp_path) == []
    # q1: index 3 after a gap; q2: 1 and 2, since 0 is missing
    assert re.findall(r"\d+|`.*?`", notes(tmp_path)[1]) == ["2", "`q1`", "`n`", "3"]


def test_a_shard_that_is_not_what_the_manifest_says(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    write_log(folder, name="x", tables=whole())
    path = folder / "traces" / "part-00000.parquet"
    original = path.read_bytes()
    pq.write_table(pq.read_table(path), path, compression="none")
    assert problems(folder) == [("altered", "traces/part-00000.parquet", None, None)]
    pq.write_table(pq.read_table(path)[:3], path)
    assert problems(folder) == [("row-count", "traces/part-00000.parquet", None, None)]
    with refuses("row-count", "3", "5"):
        check_log(open_log(folder))
    path.write_bytes(original[:-100])
    assert problems(folder) == [("damaged", "traces/part-00000.parquet", None, None)]
    path.write_bytes(original)
    assert problems(folder) == []


def test_a_damaged_page_of_an_unsealed_log(tmp_path: Path) -> None:
    path = put_all(tmp_path, whole(traces=traces(text=["words"] * 5))) / "traces" / PART
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(traces().width)
    data = bytearray(path.read_bytes())
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    data[at : at + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    assert problems(tmp_path) == [("damaged", f"traces/{PART}", "text", None)]


def test_an_ignored_file_is_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    write_log(folder, name="x", tables=whole())
    put(folder, "traces", traces(), "more.parquet")
    assert problems(folder) == []
    assert notes(folder)[0].startswith("`traces/more.parquet`")


def test_a_faulty_table_hides_no_other(tmp_path: Path) -> None:
    put_all(
        tmp_path,
        whole(
            traces=traces(correct=[True, None, False, True, True]),
            verifications=verifications(score=[0.5, NAN, 0.5, 0.1], trace_id=["a0", "a0", "zz", "b1"]),
        ),
    )
    assert problems(tmp_path) == [
        ("partly-judged", f"traces/{PART}", "correct", 1),
        ("judged-differently", f"traces/{PART}", "correct", 2),
        ("not-by-labels", f"traces/{PART}", "correct", 4),
        ("not-finite", f"verifications/{PART}", "score", 1),
        ("duplicate", f"verifications/{PART}", "trace_id", 1),
        ("unknown", f"verifications/{PART}", "trace_id", 2),
    ]


def test_check_log_reads_only_what_it_is_asked(tmp_path: Path) -> None:
    put_all(tmp_path, all_tables(checks=checks(stage=["x", "y", "z"])))
    check_log(open_log(tmp_path))
    with refuses("unknown", "`stage`"):
        check_log(open_log(tmp_path), ["examples", "checks"])
    with refuses("unknown", "`check`", "`checks`"):
        check_log(open_log(tmp_path), ["check"])


def _states(values: list[list[float | None]], size: int = 2, kind: pa.DataType | None = None) -> pa.Table:
    count = len(values)
    return pa.table(
        {
            "trace_id": ["a0"] * count,
            "layer": pa.array(range(count), pa.int64()),
            "token": pa.array([-1] * count, pa.int64()),
            "example_id": ["q1"] * count,
            "state": pa.array(values, pa.list_(kind or pa.float32(), size)),
        }
    )


def _put_states(folder: Path, table: pa.Table, file: str = PART, **options: Any) -> None:
    home = folder / "hidden_states" / "m"
    home.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, home / file, use_dictionary=options.get("dictionary", False))


def test_hidden_states(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    _put_states(tmp_path, _states([[1.0, 2.0], [3.0, 4.0]], kind=pa.float16()))
    assert problems(tmp_path) == []
    frame = open_log(tmp_path).scan("hidden_states/m").collect()
    assert frame.schema["state"] == pl.Array(pl.Float16, 2)
    assert frame.schema["layer"] == pl.Int16

    _put_states(tmp_path, _states([[1.0, 2.0], [3.0, NAN]]))
    where = f"hidden_states/m/{PART}"
    assert problems(tmp_path) == [("not-finite", where, "state", 1)]
    _put_states(tmp_path, _states([[1.0, 2.0], [3.0, None]]))
    assert problems(tmp_path) == [("null", where, "state", 1)]
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), 2)):
        _put_states(tmp_path, _states([[1.0, 2.0]] * 2).set_column(4, "state", pa.nulls(2, kind)))
        assert problems(tmp_path) == [("null", where, "state", 0)]
    _put_states(tmp_path, _states([[1.0, 2.0]] * 3), dictionary=True)
    assert problems(tmp_path) == [("encoded", where, "state", None)]
    _put_states(tmp_path, _states([[1.0, 2.0]] * 2).set_column(4, "state", pa.array([[1.0, 2.0], [1.0]])))  # uneven
    assert problems(tmp_path) == [("lossy", where, "state", 1)]
    _put_states(tmp_path, _states([[1.0, 2.0]] * 2).set_column(4, "state", pa.array(["a", "b"])))
    assert problems(tmp_path)[0] == ("type", where, "state", 0)
    lists = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.large_list(pa.float64()))
    _put_states(tmp_path, _states([[1.0, 2.0]] * 2).set_column(4, "state", lists))
    _put_states(
        tmp_path, _states([[5.0, 6.0]], kind=pa.float16()).set_column(1, "layer", pa.array([9])), "part-1.parquet"
    )
    assert problems(tmp_path) == []
    frame = open_log(tmp_path).scan("hidden_states/m").collect().sort("layer")
    assert frame.schema["state"] == pl.Array(pl.Float32, 2)
    assert frame["state"].to_list() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    _put_states(tmp_path, _states([[1.0, 2.0]]))
    _put_states(tmp_path, _states([[1.0, 2.0, 3.0]], 3), "part-1.parquet")
    assert problems(tmp_path) == [("type", "hidden_states/m/part-1.parquet", "state", 0)]


def test_hidden_states_of_unknown_traces_and_twice(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    table = _states([[1.0, 2.0], [3.0, 4.0]])
    _put_states(tmp_path, table.set_column(0, "trace_id", pa.array(["a0", "zz"])))
    where = f"hidden_states/m/{PART}"
    assert problems(tmp_path) == [("unknown", where, "trace_id", 1)]
    _put_states(tmp_path, table.set_column(1, "layer", pa.array([1, 1])))
    assert problems(tmp_path) == [("duplicate", where, "token", 1)]


def test_nothing_is_changed_by_validating(tmp_path: Path) -> None:
    put_all(tmp_path, all_tables())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    validate_log(open_log(tmp_path))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_manifest_of_a_log_of_another_version(tmp_path: Path) -> None:
    write_log(tmp_path / "log", name="x", tables=whole())
    path = tmp_path / "log" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 7}))
    with refuses("limit", "`manifest.json`", "7", "1"):
        open_log(tmp_path / "log")


FURTHER = {
    "list": (pl.Series([[1.0], None, [], [1.0, NAN], [2.0]]), 3, "list"),
    "list of small": (pl.Series([[1.0], [float("inf")], [], [1.0], [2.0]], dtype=pl.List(pl.Float32)), 1, "list"),
    "list of lists": (pl.Series([[[1.0]], [], [[NAN], []], [[2.0]], None]), 2, "list"),
    "array": (pl.Series([[1.0, 2.0]] * 4 + [[1.0, NAN]], dtype=pl.Array(pl.Float64, 2)), 4, "list"),
    "struct": (pl.Series([{"x": 1.0, "y": "a"}, {"x": NAN, "y": "b"}] + [{"x": None, "y": "c"}] * 3), 1, "struct"),
    "list of structs": (pl.Series([[{"x": 1.0}], [], [{"x": 2.0}, {"x": NAN}], [], None]), 2, "list"),
}


@pytest.mark.parametrize("name", FURTHER)
def test_nan_in_a_further_column(name: str, tmp_path: Path) -> None:
    column, row, where = FURTHER[name]
    tables = whole(traces=traces().with_columns(more=column))
    put_all(tmp_path / "log", tables)
    (problem,) = validate_log(open_log(tmp_path / "log")).problems
    assert is_fault(problem, ("not-finite", "traces", "more", row, where))
    for frame in (tables["traces"], tables["traces"].lazy()):
        with refuses("not-finite", "`traces`", "`more`", f"row {row}"):
            write_log(tmp_path / "new", name="x", tables=tables | {"traces": frame})
    finite = whole(traces=traces().with_columns(more=column.head(1).extend(column.head(1)).new_from_index(0, 5)))
    assert validate_log(write_log(tmp_path / "new", name="x", tables=finite)).ok


def test_a_further_column_may_be_called_state(tmp_path: Path) -> None:
    put_all(tmp_path, whole(traces=traces(state=[1.0, NAN, 1.0, 1.0, 1.0])))
    assert problems(tmp_path) == [("not-finite", f"traces/{PART}", "state", 1)]


def _chain(parents: dict[str, str]) -> pl.DataFrame:
    """q1's solve a0 and revisions of the given parents, after the usual traces of q2."""
    revisions = [
        traces()[2:3].with_columns(trace_id=pl.lit(name), parent_id=pl.lit(parent)) for name, parent in parents.items()
    ]
    return pl.concat([traces()[:2], traces()[3:], *revisions])


def test_parents_that_lead_back(tmp_path: Path) -> None:
    """r1 → r2 → r3 → r1; r4 hangs on the cycle but is not in it; r5 → a0 is sound."""
    tables = whole(verifications=verifications()[:0])
    parents = {"r4": "r1", "r1": "r2", "r2": "r3", "r3": "r1", "r5": "a0"}
    tables["traces"] = _chain(parents).with_columns(  # r4 and r3 share a parent
        sample_index=pl.when(pl.col("trace_id") == "r4").then(1).otherwise("sample_index")
    )
    put_all(tmp_path, tables)
    # rows 0 to 3 are a0, a1, b0 and b1, row 4 is r4
    (problem,) = validate_log(open_log(tmp_path)).problems
    assert is_fault(problem, ("cycle", "traces", "parent_id", 5, "`r2`", "`r1`", "3 rows"))
    tables["traces"] = _chain({f"r{i}": f"r{i - 1}" if i else "a0" for i in range(40)})
    put_all(tmp_path, tables)
    assert problems(tmp_path) == []


def test_an_empty_folder_is_no_valid_log(tmp_path: Path) -> None:
    assert problems(tmp_path) == [("empty", str(tmp_path), None, None)]


def test_a_revision_in_rows_without_any_parent_is_the_fault_of_its_action() -> None:
    rows = traces().drop("parent_id").with_columns(action=pl.lit("revise"))
    fault = first_fault(rows, "traces")
    assert fault is not None
    assert (fault.code, fault.column, fault.row) == ("revision-without-parent", "action", 0)
    assert "`revise`" in fault.message
