"""Example cases of verifying methods: of each kind the first claim by its id on which the rule of the kind holds."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from replay.runs.explain.explain import explain
from replay.runs.result.result import Result
from replay.studies.factcheck.methods.cases import Case, Cases, CaseTrace
from replay.studies.factcheck.methods.methods import ADAPTIVE, BEST, Methods, method_policies
from replay.studies.factcheck.methods.verifying import VerifyingSetting
from toolkit.errors import counted
from toolkit.log import Log, collect

ENDINGS = {"rule": "the margin held", "cap": "the cap was reached", "exhausted": "the log ran out of traces"}


def example_cases(log: Log, setting: VerifyingSetting, main: Methods) -> Cases:
    """A claim on which adaptive stopping ends as soon as it may, one on which it takes all traces, and one on which the
    verifier is wrong: its best-scored trace is, though one that it scored is right.
    """
    if main.result is None:
        return Cases(missing=tuple(dict.fromkeys(main.missing.values())))
    known, found, missing = {policy.name for policy in main.result.policies}, [], []
    for kind, method, ids in _kinds(log, setting, main.result):
        if method not in known:
            missing.append(f"{kind}: {main.missing.get(method, 'not replayed')}")
        elif ids.is_empty():
            missing.append(f"{kind}: no claim")
        else:
            found.append(_case(log, setting, main.result, kind, method, ids))
    return Cases(tuple(found), tuple(missing))


def _kinds(log: Log, setting: VerifyingSetting, result: Result) -> Iterator[tuple[str, str, pl.Series]]:
    """Each kind, the method that it is of, and the ids on which its rule holds, in order."""
    rows = result.outcomes.select("policy", "example_id", "traces", "ending", "correct").collect()
    adaptive, best = (rows.filter(policy=name).sort("example_id") for name in (ADAPTIVE, BEST))
    least = setting.margin.min_valid
    early = adaptive.filter((pl.col("ending") == "rule") & (pl.col("traces") == least))["example_id"]
    late = adaptive.filter((pl.col("ending") == "cap") & (pl.col("traces") == setting.cap))["example_id"]
    wrong = best.filter(pl.col("correct") == 0)["example_id"]
    right = _scored(log, setting, wrong).filter(pl.col("correct") & pl.col("score").is_not_null())["example_id"]
    yield f"stops after {counted(least, 'trace')}", ADAPTIVE, early
    yield f"takes all {counted(setting.cap, 'trace')}", ADAPTIVE, late
    yield "the verifier is wrong", BEST, wrong.filter(wrong.is_in(right.implode()))


def _scored(log: Log, setting: VerifyingSetting, ids: pl.Series) -> pl.DataFrame:
    """The first traces of examples, up to the cap, with the verifier's score."""
    columns = ["trace_id", "example_id", "pool", "action", "sample_index", "answer", "correct"]
    traces = log.scan("traces", columns).filter(
        (pl.col("pool") == setting.pool) & (pl.col("action") == "solve") & (pl.col("sample_index") < setting.cap)
        & pl.col("example_id").is_in(ids.implode())
    )  # fmt: skip
    scores = log.scan("verifications", ["trace_id", "verifier", "score"])
    scores = scores.filter(pl.col("verifier") == setting.verifier).select("trace_id", "score")
    return collect(traces.join(scores, on="trace_id", how="left"), log).sort("example_id", "sample_index")


def _case(log: Log, setting: VerifyingSetting, result: Result, kind: str, method: str, ids: pl.Series) -> Case:
    example = str(ids[0])
    asked = collect(
        log.scan("examples", ["example_id", "question", "gold"]).filter(pl.col("example_id") == example), log
    )
    told = explain(log, method_policies(setting, (method,)), method, example, texts=True)
    outcomes = result.outcomes.filter(pl.col("example_id") == example).select("policy", "traces", "ending")
    stop = next(outcomes.collect().filter(policy=ADAPTIVE).iter_rows(named=True), {})
    texts = {} if told.texts is None else dict(told.texts.select("sample", "text").iter_rows())
    right = dict(_scored(log, setting, ids[:1]).select("sample_index", "correct").iter_rows())
    outcome = told.outcomes.row(0, named=True)
    return Case(
        kind=kind,
        claims=len(ids),
        example=example,
        claim=asked["question"][0],
        gold=asked["gold"][0],
        method=method,
        answer=outcome["answer"],
        right=None if outcome["correct"] is None else bool(outcome["correct"]),
        used=int(stop.get("traces", setting.cap)),
        cap=setting.cap,
        ending=ENDINGS.get(stop.get("ending", ""), ""),
        stopping=ADAPTIVE,
        traces=tuple(
            CaseTrace(number, answer, right.get(number), score, lead, texts.get(number))
            for number, answer, score, lead in told.steps.select("sample", "answer", "score", "lead").iter_rows()
            if number is not None
        ),
    )
