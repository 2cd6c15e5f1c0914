"""Guesses while a question unfolds: the stop `at_least`, the select `last`, positions, and wins against people."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import replay
from replay.analyses.report.report import report as report_log
from replay.engine.positions import expected_wins
from replay.kinds.sample import WHOLE_POOL
from replay.policies.suite import WHOLE_QUESTION, suite
from tests.errors import refuses
from tests.logs import sealed, tables
from tests.reference import plain
from tests.reference.compare import assert_same, keyed, same
from tests.reference.random_logs import TRACES, RandomLog, random_log
from tests.reference.random_policies import to_toml
from tests.reference.rules import Row
from tests.seeds import seeds
from toolkit.errors import ThinkbackError
from toolkit.log import Log, write_log

COLUMNS = plain.POSITIONS


def unfolding(**changes: Any) -> dict[str, pl.DataFrame]:
    """Three questions of 10, 8 and 6 words with three, four and two guesses, and people on the first and the last."""
    guesses = {
        "e1": [("C", 0.1), ("A", 0.6), ("A", 0.9)],
        "e2": [(None, None), ("B", 0.7), ("B", 0.8), ("A", 0.2)],
        "e3": [("B", 0.9), ("A", 0.3)],
    }
    parts = tables({"g": guesses}, {"e1": "A", "e2": "B", "e3": "A"})
    logprobs = [-1.0, -0.5, -0.125, -2.0, -0.25, -0.25, -1.0, -0.125, -0.875]
    parts["traces"] = parts["traces"].with_columns(
        position=pl.Series([2, 5, 9, 1, 4, 4, 8, 3, 6], dtype=pl.Int32),
        sum_logprob=pl.Series(logprobs, dtype=pl.Float32),
    )
    people = {
        "length": pl.Series([10, 8, 6], dtype=pl.Int32),
        "human_positions": pl.Series([[3, 5, 9], [], None], dtype=pl.List(pl.Int32)),
        "human_corrects": pl.Series([[True, True, False], [], None], dtype=pl.List(pl.Boolean)),
        "human_position": pl.Series([None, None, 2], dtype=pl.Int32),
        "human_correct": pl.Series([None, None, True], dtype=pl.Boolean),
    }
    parts["examples"] = parts["examples"].with_columns(**people | changes)
    return parts


log = sealed(unfolding)


def outcomes(log: Log | Path, *policies: Row) -> dict[tuple[str, str], Row]:
    return keyed(replay.run(log, to_toml(list(policies)), resamples=20).outcomes.collect())


def sample(name: str, **keys: Any) -> Row:
    return {"name": name, "kind": "sample", "select": "last", **keys}


def test_a_guess_that_is_sure_enough_is_given_where_it_came(log: Log) -> None:
    """At 0.7 question 1 stops at its third guess: word 9 of 10, where one of three people was right before, and one
    was right at word 5. Question 2 stops at its second: the first one has no answer and no score. Question 3 stops at
    its first, which is wrong. Nobody is recorded on question 2.
    """
    rows = outcomes(log, sample("p", stop={"rule": "at_least", "verifier": "v", "score": 0.7}))
    values = {e: [rows["p", e][c] for c in ("answer", "ending", "traces", *COLUMNS)] for e in ("e1", "e2", "e3")}
    assert values == {
        "e1": ["A", "rule", 3.0, 9.0, 0.9, pytest.approx(1 / 3)],
        "e2": ["B", "rule", 2.0, 4.0, 0.5, None],
        "e3": ["B", "rule", 1.0, 3.0, 0.5, 0.0],
    }


def test_a_guess_is_given_where_it_says_an_answer(log: Log) -> None:
    """Guess 2 of question 1 says A, guess 4 of question 2, whose first has no answer, and guess 2 of question 3. None
    says Z, so all are drawn.
    """
    rows = outcomes(log, *(sample(answer, stop={"rule": "says", "answer": answer}) for answer in "AZ"))
    got = {answer: [rows[answer, e]["position"] for e in ("e1", "e2", "e3")] for answer in "AZ"}
    assert got == {"A": [5.0, 8.0, 6.0], "Z": [9.0, 8.0, 6.0]}
    assert [rows[answer, "e3"]["ending"] for answer in "AZ"] == ["rule", "cap"]
    assert rows["A", "e1"]["answer"] == "A"


def test_patience_needs_a_row_and_an_invalid_guess_breaks_it(log: Log) -> None:
    """With two in a row at 0.6: guesses 2 and 3 of questions 1 and 2; question 3 has none, and gives its last."""
    stop = {"rule": "at_least", "verifier": "v", "score": 0.6, "patience": 2}
    rows = outcomes(log, sample("p", stop=stop), sample("capped", max_traces=2, stop=stop))
    assert [rows["p", e]["ending"] for e in ("e1", "e2", "e3")] == ["rule", "rule", "cap"]
    assert [rows["p", e]["position"] for e in ("e1", "e2", "e3")] == [9.0, 4.0, 6.0]
    assert [rows["capped", e]["position"] for e in ("e1", "e2", "e3")] == [5.0, 4.0, 6.0]


def test_the_whole_pool_is_drawn_where_no_cap_is_given(log: Log) -> None:
    rows = outcomes(log, sample("whole"), {**sample("vote"), "select": "majority"})
    assert [rows["whole", e]["traces"] for e in ("e1", "e2", "e3")] == [3.0, 4.0, 2.0]
    assert {rows["whole", e]["ending"] for e in ("e1", "e2", "e3")} == {"cap"}
    assert [rows["whole", e]["answer"] for e in ("e1", "e2", "e3")] == ["A", "A", "A"]
    assert [rows["vote", e]["answer"] for e in ("e1", "e2", "e3")] == ["A", "B", "B"]
    assert [rows["vote", e]["position"] for e in ("e1", "e2", "e3")] == [9.0, 8.0, 6.0]


def test_an_invalid_last_guess_is_no_answer(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", name="x", tables=unfolding())
    row = outcomes(log, sample("p", max_traces=1))["p", "e2"]
    assert (row["answer"], row["correct"], row["position"]) == (None, 0.0, 1.0)


def test_signals_and_features_decide_too(tmp_path: Path) -> None:
    parts = unfolding()
    numbers = [0.0, 1.0, 2.0, 3.0, None, 0.0, 0.0, 0.5, 0.5]
    parts["features"] = parts["traces"].select("trace_id", "example_id", f=pl.Series(numbers))
    log = write_log(tmp_path / "log", name="x", tables=parts)
    by_logprob = sample("by logprob", stop={"rule": "at_least", "signal": "sum_logprob", "score": -0.5})
    rows = outcomes(log, by_logprob)
    assert [rows["by logprob", e]["position"] for e in ("e1", "e2", "e3")] == [5.0, 4.0, 3.0]
    by_feature = sample("by feature", stop={"rule": "at_least", "feature": "f", "score": 1.0})
    rows = outcomes(log, by_feature)  # the null of question 2 comes after the stop
    assert [rows["by feature", e]["position"] for e in ("e1", "e2", "e3")] == [5.0, 1.0, 6.0]
    late = sample("late", stop={"rule": "at_least", "feature": "f", "score": 9.0})
    result = replay.run(log, to_toml([late]), resamples=20)
    assert list(result.excluded) == ["e2"]


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"orders": 3}, ("unsuitable", "`orders`", "pool `g`")),
        ({"select": "majority", "max_traces": 2, "expected": True}, ("unsuitable", "`expected`", "pool `g`")),
        ({"stop": {"rule": "at_least", "score": 0.5}}, ("required", "`verifier`", "`feature`", "`signal`")),
        ({"stop": {"rule": "at_least", "score": 0.5, "signal": "sum_logprob", "feature": "f"}}, ("required",)),
        ({"stop": {"rule": "at_least", "verifier": "v"}}, ("required", "`stop.score`")),
        ({"stop": {"rule": "at_least", "verifier": "w", "score": 0.5}}, ("unknown", "`w`")),
        ({"stop": {"rule": "at_least", "feature": "w", "score": 0.5}}, ("unknown", "`w`")),
        ({"stop": {"rule": "at_least", "signal": "w", "score": 0.5}}, ("unknown", "'w'", "`sum_logprob`")),
        ({"verifier": "v", "stop": {"rule": "at_least", "verifier": "w", "score": 0.5}}, ("unsuitable", "`w`", "`v`")),
        ({"stop": {"rule": "at_least", "verifier": "v", "score": 0.5, "patience": 0}}, ("invalid", "`stop.patience`")),
    ],
)
def test_what_does_not_go_with_positions_is_refused(keys: Row, refusal: tuple[str, ...], log: Log) -> None:
    with refuses(*refusal):
        replay.run(log, to_toml([sample("p", **keys)]))


def test_a_pool_without_positions_needs_a_cap(tmp_path: Path) -> None:
    """Only the log tells, so a policy file without a cap can be read, and is refused by the log."""
    parts = unfolding()
    log = write_log(tmp_path / "log", name="x", tables=parts | {"traces": parts["traces"].drop("position")})
    with refuses("required", "`max_traces`"):
        replay.run(log, to_toml([sample("p")]))


def test_an_oracle_over_all_orders_is_refused_too(log: Log) -> None:
    oracle = {"name": "o", "kind": "oracle", "rule": "any", "of": ["g"], "max_traces": 2, "expected": True}
    with refuses("unsuitable", "pool `g`", "`expected`"):
        replay.run(log, to_toml([oracle]))


def test_who_answers_at_the_same_word_was_not_before() -> None:
    people = {"human_positions": [[4, 4, 7, 9]], "human_corrects": [[True, False, True, True]]}
    kinds = {"human_positions": pl.List(pl.Int32), "human_corrects": pl.List(pl.Boolean)}
    examples = pl.DataFrame(people, schema=kinds)
    won = [expected_wins(examples, np.array([t]), np.array([1.0]))[0] for t in (1.0, 4.0, 5.0, 8.0, 10.0)]
    assert won == [1.0, 1.0, 0.75, 0.5, 0.25]
    assert expected_wins(examples, np.array([1.0]), np.array([0.5])) == [0.5]
    assert np.isnan(expected_wins(examples, np.array([np.nan]), np.array([1.0])))
    assert np.isnan(expected_wins(examples, np.array([1.0]), np.array([np.nan])))
    assert np.isnan(expected_wins(pl.DataFrame({"x": [1]}), np.array([1.0]), np.array([1.0])))


def test_nobody_recorded_is_a_dash(tmp_path: Path) -> None:
    nobody = {name: pl.Series([None] * 3, dtype=pl.Int32) for name in ("human_positions", "human_position")}
    parts = unfolding()
    parts["examples"] = parts["examples"].drop("human_corrects", "human_correct", *nobody)
    log = write_log(tmp_path / "log", name="x", tables=parts)
    result = replay.run(log, to_toml([sample("p")]), resamples=20)
    assert {row["expected_win"] for row in result.outcomes.collect().iter_rows(named=True)} == {None}
    assert result.summary.filter(pl.col("metric") == "expected_win").is_empty()
    assert result.summary.filter(pl.col("metric") == "position")["estimate"].to_list() == [pytest.approx(23 / 3)]
    rows = list(csv.DictReader(io.StringIO(result.table().csv())))
    assert [row["expected_win"] for row in rows] == [""]
    head, _, *cells = (line.split("|") for line in result.table().markdown().splitlines() if line.startswith("|"))
    place = next(place for place, name in enumerate(head) if "expected wins" in name)
    assert [row[place].strip() for row in cells] == ["–"]
    assert "expected wins" in result.table().terminal(width=300)


def test_an_explanation_shows_the_words_seen(log: Log) -> None:
    policy = sample("p", stop={"rule": "at_least", "verifier": "v", "score": 0.7})
    told = replay.explain(log, to_toml([policy]), "p", "e2")
    (stage,) = [stage for stage in told.stages if "position" in stage.rows.columns]
    assert stage.rows["position"].to_list() == [1, 4]
    assert stage.rows["statistic"].to_list() == [None, 0.7]


def test_every_threshold_is_in_one_curve_by_hand(log: Log, tmp_path: Path) -> None:
    """Without a stop the answers are A, A and A, two of three right, at words 9, 8 and 6. At 0.9 question 3 stops at
    its first guess, which is wrong; question 1 has its 0.9 at its last one. At 0.8 question 2 stops at its third, which
    is right, and so on: each value at which some question stops earlier is a threshold.
    """
    policy = sample("p", stop={"rule": "at_least", "verifier": "v", "score": 0.5})
    result = replay.run(log, to_toml([policy]), resamples=20)
    data = result.figure_data("positions")
    rows = data.frame.select("threshold", "accuracy", "position", "n").rows()
    assert rows == [
        (np.inf, pytest.approx(2 / 3), pytest.approx(23 / 3), 3),
        (0.9, pytest.approx(1 / 3), pytest.approx(20 / 3), 3),
        (0.8, pytest.approx(2 / 3), pytest.approx(16 / 3), 3),
        (0.7, pytest.approx(2 / 3), pytest.approx(16 / 3), 3),
        (0.6, pytest.approx(2 / 3), pytest.approx(12 / 3), 3),
        (0.1, pytest.approx(1 / 3), pytest.approx(9 / 3), 3),
    ]
    assert data.frame["expected_win"].to_list()[-3:] == [pytest.approx(1 / 6), pytest.approx(1 / 3), 0.0]
    drawn = data.draw(width=3.5, title="")
    assert drawn.axes[0].get_xlim()[1] >= 100 * data.frame["position_share"].max()
    drawn.savefig(tmp_path / "figure.svg")
    assert "text seen" in (tmp_path / "figure.svg").read_text("utf-8")


def test_a_loaded_result_has_the_same_curves(log: Log, tmp_path: Path) -> None:
    policy = sample("p", stop={"rule": "at_least", "verifier": "v", "score": [0.5, 0.85], "patience": [1, 2]})
    result = replay.run(log, to_toml([policy, sample("whole")]), resamples=20)
    frame = result.figure_data("positions").frame
    assert frame["policy"].unique(maintain_order=True).to_list() == ["p[stop.patience=1]", "p[stop.patience=2]"]
    result.save(tmp_path / "saved")
    loaded = replay.load(tmp_path / "saved")
    assert loaded.figure_data("positions").frame.equals(frame)
    plain = replay.run(log, to_toml([sample("whole")]), resamples=20)
    assert plain.positions is None
    with refuses("empty", "`at_least`", "`length`"):
        plain.figure_data("positions")


def test_the_suite_of_guesses_sweeps_thresholds_and_permutes_nothing(log: Log, tmp_path: Path) -> None:
    policies = suite(log)
    assert "at_least" in policies.text
    assert "orders" not in "".join(line for line in policies.text.splitlines() if not line.startswith("#"))
    result = replay.run(log, policies, resamples=20)
    assert {one.sweep for one in result.policies} >= {WHOLE_QUESTION, "sure by v"}
    assert not result.dropped
    parts = unfolding()
    del parts["verifications"]
    plain_log = write_log(tmp_path / "plain", name="x", tables=parts)
    assert 'signal = "sum_logprob"' in suite(plain_log).text


# ---------------------------------------------------------------------------------- the slow twin, random logs


def with_positions(log: RandomLog, seed: int) -> RandomLog:
    """The log with positions on the first attempts of `main` and of one more pool at times, and with people."""
    rng = random.Random(f"positions {seed}")
    pools = ["main", *(pool for pool in log.pools if pool != "main" and rng.random() < 0.3)]
    nulls = rng.choice([0.0, 0.0, 0.1])
    runs: dict[tuple[str, str], list[Row]] = {}
    for trace in log.plain.traces:
        trace["position"] = None
        if trace["action"] == "solve" and trace["pool"] in pools:
            runs.setdefault((trace["example_id"], trace["pool"]), []).append(trace)
    for run in runs.values():
        at = 0
        for trace in sorted(run, key=lambda row: row["sample_index"]):
            at += rng.choice([0, 1, 1, 3])
            trace["position"] = None if rng.random() < nulls else at
    for example in log.plain.examples:
        people = rng.choice([0, 1, 4]) if rng.random() < 0.7 else None
        example["length"] = rng.choice([None, 40, 41])
        example["human_positions"] = None if people is None else [rng.randrange(12) for _ in range(people)]
        example["human_corrects"] = None if people is None else [rng.random() < 0.6 for _ in range(people)]
        example["human_position"] = rng.choice([None, rng.randrange(9)])
        example["human_correct"] = rng.choice([None, True, False])
    kinds = {"length": pl.Int32, "human_positions": pl.List(pl.Int32), "human_corrects": pl.List(pl.Boolean),
             "human_position": pl.Int32, "human_correct": pl.Boolean}  # fmt: skip
    columns = {name: kind for name, kind in TRACES.items() if name in log.tables["traces"].columns}
    parts = dict(log.tables)
    parts["traces"] = pl.DataFrame(log.plain.traces, schema={**columns, "position": pl.Int32}, orient="row")
    parts["examples"] = pl.DataFrame(
        log.plain.examples, schema={**log.tables["examples"].schema, **kinds}, orient="row"
    )
    return RandomLog(**{**vars(log), "tables": parts})


def random_guesser(rng: random.Random, log: RandomLog) -> Row:
    """A policy on positions, with every key of its stop and every way to end."""
    pool = rng.choice(["main", "main", *log.pools])
    policy: Row = {"kind": "sample", "pool": pool, "select": rng.choice(["last", "last", "last", "majority", "best"])}
    if pool in log.opaque and policy["select"] == "majority":
        policy["select"] = "last"
    if rng.random() < 0.4 or not log.plain.positioned(pool):
        policy["max_traces"] = rng.randrange(1, log.pools[pool] + 1)
        if rng.random() < 0.3:
            policy["max_traces"] += 1
            policy["on_missing"] = "use_available"
    if rng.random() < 0.9 and pool not in log.plain.whole:
        reads = rng.choice(["verifier", "verifier", "feature", "signal"])
        signals = {"sum_logprob": [-8.0, -4.0, -1.0], "completion_tokens": [5, 50, 90], "prompt_tokens": [10, 45],
                   "truncated": [0.5, 1], "finalizer_used": [0, 1]}  # fmt: skip
        signal = rng.choice(sorted(signals))
        value = {"verifier": rng.choice(log.verifiers), "feature": rng.choice(["difficulty", "fine"]), "signal": signal}
        scores = signals[signal] if reads == "signal" else [0.1, 0.5, 0.75, 0.9]
        policy["stop"] = {"rule": "at_least", reads: value[reads], "score": rng.choice(scores)}
        if rng.random() < 0.5:
            policy["stop"]["patience"] = rng.choice([1, 2, 3])
    if policy["select"] == "best":
        policy["verifier"] = policy.get("stop", {}).get("verifier", log.verifiers[0])
    if rng.random() < 0.2:
        policy["width"] = rng.choice([2, 3])
    if rng.random() < 0.2:
        policy["on_unscored"] = rng.choice(["skip", "lowest"])
    return policy


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_the_slow_twin_agrees(seed: int, tmp_path: Path) -> None:
    log = with_positions(random_log(seed), seed)
    log.write(tmp_path / "log")
    rng = random.Random(f"guessers {seed}")
    for count in (1, 1, 3, 6):
        policies = [{"name": f"p{i}", **random_guesser(rng, log)} for i in range(count)]
        try:
            expected = plain.replay(log.plain, policies)
        except plain.Refused:
            with pytest.raises(ThinkbackError):
                outcomes(tmp_path / "log", *policies)
            continue
        rows, found = expected.outcomes(), outcomes(tmp_path / "log", *policies)
        assert_same(rows, found, to_toml(policies))
        positioned = {policy["name"] for policy in policies if log.plain.positioned(policy["pool"])}
        for key, row in rows.items():
            for column in COLUMNS:
                value = row[column] if key[0] in positioned else None
                assert same(value, found[key].get(column)), (key, column, to_toml(policies))


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_the_curve_is_what_each_threshold_gives(seed: int, tmp_path: Path) -> None:
    """On random logs, with patience, caps and other selects; whatever is above every value never stops."""
    logs = (random_log(100 * seed + number, examples=12, tidy=True) for number in range(100))
    log = with_positions(next(one for one in logs if one.pools["main"] > 2), seed)
    for example in log.plain.examples:
        example["length"] = 40
    schema = log.tables["examples"].schema
    log.tables["examples"] = pl.DataFrame(log.plain.examples, schema=schema, orient="row")
    log.write(tmp_path / "log")
    rng = random.Random(f"curves {seed}")
    keys: Row = {"pool": "main", "select": rng.choice(["last", "majority", "best"])}
    keys |= {"max_traces": log.pools["main"] - 1} if rng.random() < 0.3 else {}
    keys |= {"verifier": "lora"} if keys["select"] == "best" else {}
    stop = {"rule": "at_least", "verifier": "lora", "score": 0.5, "patience": rng.choice([1, 1, 2])}
    policy = {"name": "p", "kind": "sample", **keys, "stop": stop}
    frame = replay.run(tmp_path / "log", to_toml([policy]), resamples=20).figure_data("positions").frame
    thresholds = [99.0, *frame["threshold"][1:]]
    each = [{**policy, "name": f"at {n}", "stop": {**stop, "score": one}} for n, one in enumerate(thresholds)]
    summary = replay.run(tmp_path / "log", to_toml(each), resamples=20).summary
    for number, row in enumerate(frame.iter_rows(named=True)):
        for metric in ("accuracy", *COLUMNS):
            value = summary.filter(policy=f"at {number}", metric=metric)["estimate"].to_list()
            assert same(row[metric], value[0] if value else None), (number, metric)


def test_random_guessers_end_in_every_way_and_read_everything() -> None:
    """What the comparison above rests on: every key, every ending, wins and dashes, partial examples."""
    seen: set[object] = set()
    for seed in range(30):
        log = with_positions(random_log(seed), seed)
        rng = random.Random(f"guessers {seed}")
        policies = [{"name": f"p{i}", **random_guesser(rng, log)} for i in range(8)]
        for policy in policies:
            try:
                run = plain.replay(log.plain, [policy])
            except plain.Refused:
                continue
            stop = policy.get("stop", {})
            seen |= {*stop, stop.get("signal")}
            for row in run.results[policy["name"]].values():
                if plain.is_partial(row):
                    seen.add(row[1])
                else:
                    seen |= {row["ending"], ("win", row["expected_win"] is None, (row["expected_win"] or 0) > 0)}
    assert {"verifier", "feature", "signal", "patience", "sum_logprob", "truncated", "finalizer_used"} <= seen
    assert {"rule", "cap", "exhausted", "the stop reads a null"} <= seen
    assert {("win", True, False), ("win", False, True), ("win", False, False)} <= seen


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_no_guess_after_the_stop_is_used(seed: int, tmp_path: Path) -> None:
    """Cutting every pool behind the last guess drawn, or turning what lies behind it over, changes nothing."""
    log = with_positions(random_log(seed, examples=12, tidy=True), seed)
    stops = [{"rule": "at_least", "verifier": "lora", "score": s, "patience": k} for s in (0.3, 0.8) for k in (1, 2)]
    for number, stop in enumerate(stops):
        policy = {"name": "p", "kind": "sample", "pool": "main", "select": "last", "stop": stop}
        log.write(tmp_path / f"{number}")
        before = outcomes(tmp_path / f"{number}", policy)
        drawn = pl.DataFrame([(e, int(row["traces"])) for (_, e), row in before.items() if row["ending"] == "rule"],
                             schema={"example_id": pl.String, "drawn": pl.Int64}, orient="row")  # fmt: skip
        joined = log.tables["traces"].join(drawn, on="example_id", how="left")
        behind = (pl.col("sample_index") >= pl.col("drawn")) & (pl.col("pool") == "main")
        behind &= pl.col("action") == "solve"
        kept = joined.filter(~behind.fill_null(False)).drop("drawn")
        parents = pl.col("parent_id").is_null() | pl.col("parent_id").is_in(kept["trace_id"].implode())
        kept = kept.filter(parents)
        others = {
            name: log.tables[name].filter(pl.col("trace_id").is_in(kept["trace_id"].implode()))
            for name in ("verifications", "features")
        }
        log.write(tmp_path / f"{number} cut", {**log.tables, "traces": kept, **others})
        after = outcomes(tmp_path / f"{number} cut", policy)
        for key, row in before.items():
            if row["ending"] == "rule":
                assert all(same(row[c], after[key][c]) for c in COLUMNS)
                assert [row[c] for c in ("answer", "traces", "ending", "total_tokens")] == [
                    after[key][c] for c in ("answer", "traces", "ending", "total_tokens")
                ]


def test_a_report_of_guesses_compares_with_whole_questions(log: Log) -> None:
    """What is revealed gives guesses their order: nothing doubts it, and no other samples or caps are spoken of."""
    report, whole = report_log(log, resamples=50), "the whole question"
    assert report.result.baseline == whole
    assert report.same is None
    assert report.description.order.is_empty()
    text = " ".join(sentence for section in report.sections for sentence in section.sentences)
    assert str(WHOLE_POOL) not in text
