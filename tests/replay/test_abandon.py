"""Early abandoning: by hand, and against the slow twin on random logs."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from replay import Agreement, Budget, Sample, Threshold, When, explain, load
from replay.sampling.abandon import Abandon
from tests.errors import noted, quotes, refuses
from tests.logs import GOLDS, tables
from tests.reference.compare import assert_same, keyed
from tests.reference.random_interventions import random_interventions
from tests.reference.random_logs import RandomLog, float32, random_log
from tests.reference.random_policies import random_policies, random_surrogate, to_toml
from tests.reference.rules import PlainLog, Row
from tests.replay.test_parity import check_case
from tests.seeds import seeds
from toolkit.log import Log, merge_logs, write_log

TOKENS = (30, 60)
POOL = {"e1": [("A", 0.9), ("B", 0.8), ("A", 0.3), ("A", 0.2)], "e2": [("B", 0.5)] * 4, "e3": [("A", 0.5)] * 4}
EARLY = {0: 0.9, 1: 0.1, 2: 0.4}  # of e1; sample 3 ended within 4 tokens


@pytest.fixture
def small(tmp_path: Path) -> Log:
    return made_log(tmp_path)


def made_log(folder: Path, **seconds: float) -> Log:
    """Traces of 10 + 5 tokens, and the last of each example of 10 + 4; 2 tokens a check after 4 tokens."""
    made = tables({"n4": POOL}, GOLDS)
    last = pl.col("sample_index") == 3
    made["traces"] = made["traces"].with_columns(
        completion_tokens=pl.when(last).then(4).otherwise(5), **{name: pl.lit(s) for name, s in seconds.items()}
    )
    checks = [
        {"trace_id": f"{e}/n4/{i}", "example_id": e, "verifier": "early@4", "score": score if e == "e1" else 0.9,
         "prompt_tokens": 2, "completion_tokens": 0, "latency_s": 0.5, "device_s": 0.25}
        for e in POOL for i, score in EARLY.items()
    ]  # fmt: skip
    made["verifications"] = pl.concat([made["verifications"], pl.DataFrame(checks)], how="diagonal_relaxed")
    return write_log(folder / "log", name="small", tables=made)


def sample(**settings: Any) -> Sample:
    abandon = Abandon(verifier="early@4", tokens=4, below=0.4)
    return Sample(**{"name": "p", "max_traces": 4, "select": "majority", "abandon": abandon, **settings})


def row(log: Log, policy: Any, example: str = "e1") -> Row:
    (found,) = replay.run(log, policy, where=f"example_id = '{example}'", resamples=5).outcomes.collect().to_dicts()
    return found


def test_costs_of_what_is_given_up(small: Log) -> None:
    """e1: A goes on, B is abandoned (.1), A at .4 goes on, A had ended: three checks, 10 + 4 tokens of B."""
    found = row(small, sample())
    expected = {"answer": "A", "traces": 4, "valid_traces": 3, "verifications": 3, "verification_tokens": 6,
                "prompt_tokens": 40, "completion_tokens": 18, "total_tokens": 64, "operations": 7, "calls": 4,
                "ending": "cap", "verification_s": 1.5, "generation_s": None, "latency_s": None,
                "device_s": None}  # fmt: skip
    assert {key: found[key] for key in expected} == expected


def test_seconds_of_the_first_tokens_are_read_where_they_are_logged(tmp_path: Path) -> None:
    """1 + .75 + 3 + 4 seconds and three checks of half a second; two at a time: max(1, .75) + max(3, 4)."""
    log = made_log(tmp_path, **{"latency_s@4": 0.75, "device_s@4": 0.375})
    found = row(log, sample())
    assert (found["generation_s"], found["latency_s"]) == (8.75, 10.25)
    assert found["device_s"] == 3 * 0.5 + 0.375 + 3 * 0.25
    assert row(log, sample(width=2))["latency_s"] == 1 + 4 + 1.5


def test_a_tie_goes_on_and_the_threshold_is_swept(small: Log) -> None:
    entry = """
        [[policy]]
        name = "p"
        kind = "sample"
        max_traces = 3
        select = "majority"
        abandon = { verifier = "early@4", tokens = 4, below = [0.1, 0.4, 0.5] }
    """
    found = replay.run(small, entry, where="example_id = 'e1'", resamples=5).outcomes.collect()
    assert found["policy"].to_list() == [f"p[abandon.below={b}]" for b in ("0.1", "0.4", "0.5")]
    assert found["valid_traces"].to_list() == [3, 2, 1]


def test_the_score_of_what_is_given_up_is_not_seen(small: Log) -> None:
    """B, whose final score is the second best, is neither verified nor chosen."""
    best = sample(select="best", verifier="v", stop=Budget(verifications=2))
    found = row(small, best)
    assert (found["answer"], found["traces"], found["verifications"]) == ("A", 3, 3 + 2)
    assert found["verification_tokens"] == 3 * 2 + 2 * 4


def test_what_is_given_up_counts_against_the_cap_and_has_no_vote(small: Log) -> None:
    found = row(small, sample(max_traces=2, stop=Agreement(confidence=0.99)))
    assert (found["answer"], found["traces"], found["valid_traces"]) == ("A", 2, 1)
    nothing = sample(abandon=Abandon(verifier="early@4", tokens=4, below=1.0), max_traces=3)
    found = row(small, nothing)
    assert (found["answer"], found["correct"], found["completion_tokens"]) == (None, 0.0, 12)


def test_a_call_that_is_logged_is_paid_once(small: Log) -> None:
    """The base abandons B; the whole vote pays B anew, as another call, and A and the rest not again."""
    vote = Sample(name="all", max_traces=4, select="majority")
    gate = Threshold(signal="vote_share", below=2.0)
    found = row(small, When(name="w", base=sample(), gate=gate, then=dataclasses.replace(vote, name="then")))
    assert (found["traces"], found["total_tokens"], found["action_tokens"]) == (5, 64 + 15, 15)


def test_a_gate_does_not_see_what_a_trace_that_was_given_up_became(small: Log) -> None:
    """All are abandoned, so the chosen trace is the first, whose score is .9: the gate does not know it, and fires."""
    base = sample(abandon=Abandon(verifier="early@4", tokens=4, below=1.0), max_traces=1, select="first")
    then = Sample(name="then", max_traces=4, select="majority")
    found = row(small, When(name="w", base=base, gate=Threshold(verifier="v", below=0.5), then=then))
    assert (found["intervened"], found["answer"], found["verifications"]) == (1.0, "A", 1)


def test_a_missing_score_or_count_makes_an_example_partial(tmp_path: Path) -> None:
    made = tables({"n4": POOL}, GOLDS)
    log = write_log(tmp_path / "log", name="small", tables=made)
    policy = sample(abandon=Abandon(verifier="v", tokens=4, below=0.4))
    assert replay.run(log, policy, resamples=5).excluded == {}
    first = made["verifications"].filter(pl.col("trace_id") != "e1/n4/1")
    log = write_log(tmp_path / "unscored", name="small", tables={**made, "verifications": first})
    excluded = replay.run(log, policy, resamples=5).excluded
    assert list(excluded) == ["e1"]
    quotes(excluded["e1"], "p: verifier `v`", "abandoned")
    assert replay.run(log, dataclasses.replace(policy, max_traces=1), resamples=5).excluded == {}
    null = pl.when(pl.col("trace_id") != "e2/n4/0").then("completion_tokens")
    log = write_log(tmp_path / "none", name="small", tables={**made, "traces": made["traces"].with_columns(null)})
    excluded = replay.run(log, policy, resamples=5).excluded
    assert list(excluded) == ["e2"]
    quotes(excluded["e2"], "p: pool `n4`", "`completion_tokens`", "abandoned")


def test_explained_trace_by_trace(small: Log) -> None:
    stage = explain(small, sample(), "p", "e1").stages[0]
    assert stage.title == "`p`, after 4 tokens"
    assert stage.ending == "1 trace abandoned: `early@4` below 0.4"
    assert stage.rows["becomes"].to_list() == ["went on", "abandoned", "went on", "had ended"]
    assert stage.rows["score"].to_list() == [0.9, 0.1, 0.4, None]
    assert stage.rows["completion_tokens"].to_list() == [5, 4, 5, 4]


def test_told_again_from_a_saved_result(small: Log, tmp_path: Path) -> None:
    found = replay.run(small, sample(), where="example_id = 'e1'", resamples=5)
    found.save(tmp_path / "saved", traces=True)
    (stage,) = load(tmp_path / "saved").explain("p", "e1").stages
    assert stage.rows["answer"].to_list() == ["A", None, "A", "A"]
    assert stage.rows["tokens"].to_list() == [17, 33, 50, 64]


def test_seconds_that_are_not_logged_are_named(small: Log, tmp_path: Path) -> None:
    noted(replay.run(small, sample(), resamples=5).notes, "abandoned_seconds", "`device_s@4`, `latency_s@4`")
    log = made_log(tmp_path / "other", **{"latency_s@4": 0.75, "device_s@4": 0.375})
    assert not [n for n in replay.run(log, sample(), resamples=5).notes if n.code == "abandoned_seconds"]


def test_prices_are_of_the_tokens_that_were_written(small: Log) -> None:
    prices = "[prices]\nm = { prompt = 1, completion = 10 }\n'early@4' = { prompt = 100, completion = 0 }\n"
    policy = """
        [[policy]]
        name = "p"
        kind = "sample"
        max_traces = 4
        select = "majority"
        abandon = { verifier = "early@4", tokens = 4, below = 0.4 }
    """
    found = replay.run(small, prices + policy, where="example_id = 'e1'", resamples=5)
    cost = found.summary.filter(metric="cost_per_1000")["estimate"].item()
    assert cost == pytest.approx(1000 * (40 + 180 + 600) / 1e6)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"abandon": {"verifier": "early@4", "tokens": 5, "below": 0.5}}, ("mismatch", "4")),
        ({"abandon": {"verifier": "early@4", "tokens": 0, "below": 0.5}}, ("invalid", "`abandon.tokens`", "`p`")),
        ({"abandon": {"verifier": "early@4", "below": 0.5}}, ("required", "`abandon.tokens`")),
        ({"abandon": {"verifier": "nearly@4", "tokens": 4, "below": 0.5}}, ("unknown", "`nearly@4`", "`abandon`")),
        ({"select": "best", "verifier": "early@4"}, ("unsuitable", "`verifier`")),
    ],
)
def test_refused(small: Log, settings: Row, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        replay.run(small, sample(**settings), resamples=5)


@pytest.mark.parametrize(
    ("reads", "places", "late"),
    [
        (["states"], [[-1, 3]], None),
        (["states"], [[-1, 3], [-1, 4]], "token 4,"),
        (["states"], [[-1, -1]], "token -1,"),
        (["states", "trace:sum_logprob"], [[-1, 3]], "`trace:sum_logprob`,"),
        (["trace:prompt_tokens", "feature:length"], [], None),
        (["tokens:all"], [], "`tokens:all`,"),
        (["verifier:early@4"], [], None),
        (["verifier:other"], [], "`verifier:other`,"),
        (["verifier:whole"], [], "`trace:completion_tokens`,"),
    ],
)
def test_a_verifier_that_was_fitted_on_what_comes_later_gives_nothing_up(
    tmp_path: Path, reads: list[str], places: list[list[int]], late: str | None
) -> None:
    made = tables({"n4": POOL}, GOLDS)
    made["traces"] = made["traces"].with_columns(completion_tokens=5)
    scores = made["traces"].select("trace_id", "example_id", verifier=pl.lit("mine"), score=pl.lit(0.5))
    made["verifications"] = pl.concat([made["verifications"], scores], how="diagonal_relaxed")
    records = {
        name: {"kind": "fitted", "settings": {"name": name, "inputs": inputs}, "places": own}
        for name, inputs, own in (("mine", reads, places), ("whole", ["trace:completion_tokens"], []))
    }
    log = write_log(tmp_path / "log", name="small", tables=made, source={"verifiers": records})
    policy = sample(abandon=Abandon(verifier="mine", tokens=4, below=0.4))
    if late is None:
        assert row(log, policy)["calls"] == 4
        return
    with refuses("leakage", "`mine`", late, "3", "4"):
        replay.run(log, policy, resamples=5)


def test_what_a_merged_log_says_of_its_verifiers_is_known(tmp_path: Path) -> None:
    made = tables({"n4": POOL}, GOLDS)
    made["traces"] = made["traces"].with_columns(completion_tokens=5)
    record = {"kind": "fitted", "settings": {"name": "strong", "inputs": ["states"]}, "places": [[-1, -1]]}
    verifier = made["verifications"]["verifier"][0]
    logs = []
    for part, example in enumerate(POOL):
        own = {name: frame.filter(example_id=example) for name, frame in made.items()}
        source = {"verifiers": {verifier: record}}
        logs.append(write_log(tmp_path / str(part), name="part", tables=own, source=source).address)
    merge_logs(logs, tmp_path / "merged")
    policy = sample(abandon=Abandon(verifier=verifier, tokens=4, below=0.4))
    with refuses("leakage", "-1"):
        replay.run(tmp_path / "merged", policy, resamples=5)


def test_the_place_of_a_verifier_of_one_place_is_its_own(tmp_path: Path) -> None:
    made = tables({"n4": POOL}, GOLDS)
    made["traces"] = made["traces"].with_columns(completion_tokens=5)
    scores = made["traces"].select("trace_id", "example_id", verifier=pl.lit("of:-1:3"), score=pl.lit(0.5))
    made["verifications"] = pl.concat([made["verifications"], scores], how="diagonal_relaxed")
    record = {"kind": "fitted", "settings": {"name": "of", "inputs": ["states"]}, "places": [[-1, 3], [-1, 9]]}
    log = write_log(tmp_path / "log", name="small", tables=made, source={"verifiers": {"of:-1:3": record}})
    assert row(log, sample(abandon=Abandon(verifier="of:-1:3", tokens=4, below=0.4)))["calls"] == 4


def test_a_pool_that_is_replayed_whole_gives_up_nothing(tmp_path: Path) -> None:
    made = tables({"n4": POOL}, GOLDS)
    log = write_log(tmp_path / "log", name="small", tables=made, pools={"n4": {"prefix": False}})
    with refuses("unsuitable", "`p`", "`n4`", "`abandon`"):
        replay.run(log, sample(abandon=Abandon(verifier="v", tokens=4, below=0.4)), resamples=5)


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_what_is_given_up_may_become_anything(seed: int, tmp_path: Path) -> None:
    """Outcomes stay where answers, verdicts, scores, features and lengths of traces that all abandon are others."""
    made = with_early_scores(random_log(seed, examples=8, tidy=True), seed)
    rng = random.Random(f"unseen {seed}")
    abandon = {"verifier": "early@30", "tokens": 30, "below": 0.6}
    drawn = [p for p in random_policies(rng, made, 30) if p["kind"] == "sample"]
    drawn += [{"name": f"s{i}", **random_surrogate(rng, made.pools["main"])} for i in range(8)]
    policies = [
        {**{k: v for k, v in p.items() if k != "against"}, "abandon": abandon}
        for p in drawn
        if p.get("verifier") not in made.listwise and p["pool"] not in (*made.plain.whole, "verdicts")
        and p.get("on_unscored") != "lowest"
    ]  # fmt: skip
    scores = {row["trace_id"]: row["score"] for row in made.plain.verifications if row["verifier"] == "early@30"}
    traces = [row for row in made.plain.traces if row["action"] == "solve" and row["completion_tokens"] > 30]
    traces = [row for row in traces if not row.get("opaque")]
    lost = [row["trace_id"] for row in traces if scores.get(row["trace_id"], 1.0) < 0.6]
    assert len(policies) > 10
    assert len(lost) > 10
    gone = pl.col("trace_id").is_in(lost)
    altered = {
        "traces": made.tables["traces"].with_columns(
            answer=pl.when(~gone).then("answer"), correct=pl.col("correct") & ~gone,
            credit=pl.when(gone).then(1.0).otherwise("credit").cast(pl.Float32),
            completion_tokens=pl.when(gone).then(99).otherwise("completion_tokens").cast(pl.Int32),
            latency_s=pl.when(gone).then(9.0).otherwise("latency_s").cast(pl.Float32),
        ),
        "features": made.tables["features"].filter(~gone),
        "verifications": made.tables["verifications"].filter(~gone | pl.col("verifier").str.starts_with("early")),
    }  # fmt: skip
    made.write(tmp_path / "log")
    made.write(tmp_path / "other", {**made.tables, **altered})
    found = [keyed(replay.run(tmp_path / name, to_toml(policies), resamples=5).outcomes.collect()) for name in
             ("log", "other")]  # fmt: skip
    assert_same(*found, made.name)


# ------------------------------------------------------------------------------------------- the slow twin


def with_early_scores(log: RandomLog, seed: int) -> RandomLog:
    """The log with a verifier for each of TOKENS, on a grid, and at times the seconds of the first tokens."""
    rng = random.Random(f"early {seed}")
    mishap, timed, rows = rng.choice([0.0, 0.0, 0.03]), rng.random() < 0.5, list[Row]()
    for trace in log.plain.traces:
        for tokens in TOKENS:
            if trace["action"] == "solve" and rng.random() >= mishap:
                rows.append(
                    {
                        "trace_id": trace["trace_id"], "verifier": f"early@{tokens}",
                        "example_id": trace["example_id"], "score": rng.randrange(11) / 10, "candidates": None,
                        "prompt_tokens": rng.randrange(9), "completion_tokens": 0,
                        "latency_s": float32(rng.random()), "device_s": float32(rng.random()),
                    }
                )  # fmt: skip
            for cost in ("latency_s", "device_s") if timed else ():
                trace[f"{cost}@{tokens}"] = float32(rng.random())
    plain = log.plain
    scores = [*plain.verifications, *rows]
    plain = PlainLog(plain.examples, plain.traces, scores, plain.whole, plain.features)
    known = log.tables["verifications"]
    made = pl.concat([known, pl.DataFrame(rows, schema=known.schema)])
    traces = log.tables["traces"]
    if timed:
        names = ["trace_id", *(f"{cost}@{tokens}" for cost in ("latency_s", "device_s") for tokens in TOKENS)]
        seconds = pl.DataFrame([{name: trace[name] for name in names} for trace in plain.traces])
        traces = traces.join(seconds, on="trace_id", how="left", maintain_order="left")
    return dataclasses.replace(log, plain=plain, tables={**log.tables, "verifications": made, "traces": traces})


def with_abandon(rng: random.Random, policy: Row) -> Row:
    """A policy whose parts, at times, abandon traces."""
    made = {key: with_abandon(rng, value) if key in PARTS and isinstance(value, dict) else value
            for key, value in policy.items()}  # fmt: skip
    if policy["kind"] == "sample" and rng.random() < 0.75:
        tokens = rng.choice(TOKENS)
        made["abandon"] = {"verifier": f"early@{tokens}", "tokens": tokens, "below": rng.randrange(1, 10) / 10}
    return made


PARTS = ("base", "then", "else")


@pytest.mark.parametrize("seed", seeds(2, 60))
def test_random_logs_and_policies(seed: int, tmp_path: Path) -> None:
    log = with_early_scores(random_log(seed), seed)
    log.write(tmp_path / "log")
    rng = random.Random(f"abandon {seed}")
    for count in (1, 1, 4):
        drawn = random_policies(rng, log, count)
        check_case(log, tmp_path / "log", [with_abandon(rng, policy) for policy in drawn])
    usual = log.pools["main"]
    guided = {"name": "s", **random_surrogate(rng, usual)}
    check_case(log, tmp_path / "log", [with_abandon(rng, guided)])
    for count in (1, 2):
        drawn = random_interventions(rng, log, count)
        check_case(log, tmp_path / "log", [with_abandon(rng, policy) for policy in drawn])
