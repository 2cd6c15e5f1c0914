"""One policy on one example, told from a saved result: without the log, from the part by trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from replay.policies.base import Stage
from replay.runs.explain.explain import Explanation, texts_of, told_of
from replay.runs.saved.findings import Findings
from replay.runs.saved.paid_traces import AS_GENERATED, ORDERS, SCORES, STOPS, TOGETHER, TRACES
from replay.runs.saved.saved_folder import SavedFolder
from replay.sampling.unscored import LOWEST, SKIP
from toolkit.errors import counted
from toolkit.log import collect

_STEPS = {
    "step": pl.Int64, "sample": pl.Int64, "answer": pl.String, "correct": pl.Float64, "early": pl.Float64,
    "given_up": pl.Boolean, "score": pl.Float64, "unscored": pl.String, "tokens": pl.Float64, "chosen": pl.Boolean,
}  # fmt: skip
SEVERAL = "no one path was saved, for this is a mean over several"

Trace = tuple[str, int]
"""A slice, and a sample index in it."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class _Paid:
    """What was paid for an example: rows of `traces`, and of `scores` by trace and verifier; rows of `orders`."""

    traces: Mapping[Trace, Row]
    scores: Mapping[tuple[Trace, str], Row]
    orders: Mapping[int, Row]


@dataclass(frozen=True)
class _Calls:
    """The calls of one part of a path. `checked`: those of its traces that were scored early.

    `together`: whether its traces were verified in one call at the end.
    """

    generated: tuple[Trace, ...]
    checked: frozenset[Trace]
    verified: tuple[Trace, ...]
    together: bool


def retell(found: Findings, folder: SavedFolder, policy: str, row: pl.DataFrame, texts: bool) -> Explanation:
    """The steps of a policy on the example of a row of outcomes, as they were saved."""
    example, one = row["example_id"][0], next(one for one in found.policies if one.name == policy)
    traces, scores, orders, stops = (_of(folder, name, example) for name in (TRACES, SCORES, ORDERS, STOPS))
    paid = _Paid(
        {(one["slice"], one["sample"]): one for one in traces.iter_rows(named=True)},
        {((one["slice"], one["sample"]), one["verifier"]): one for one in scores.iter_rows(named=True)},
        {one["order"]: one for one in orders.iter_rows(named=True)},
    )
    mine = stops.filter(pl.col("policy") == policy).sort("part", maintain_order=True)
    stages = tuple(_stage(stop, policy, paid) for stop in mine.iter_rows(named=True))
    asked = found.examples.filter(pl.col("example_id") == example).row(0, named=True)
    diagnostic = f", diagnostic: {one.diagnostic}" if one.diagnostic else ""
    header = [f"example   {example}"]
    header += [f"question  {asked['question']}"] if asked.get("question") is not None else []
    header += [f"gold      {asked['gold'] if asked['gold'] is not None else '-'}"]
    header += [f"policy    {policy} ({one.kind}{diagnostic})"]
    header += ["simulated log: a model's numbers, not a system's"] if found.simulated else []
    told = told_of(row.row(0, named=True))
    ending = told if stages else f"{SEVERAL}; {told}"
    return Explanation(tuple(header), stages, ending, row, _texts(stages, traces) if texts else None)


def _of(folder: SavedFolder, name: str, example: str) -> pl.DataFrame:
    scan = pl.scan_parquet(folder.file(f"{name}.parquet"))
    return collect(scan.filter(pl.col("example_id") == example))


def _stage(stop: Row, policy: str, paid: _Paid) -> Stage:
    """One part: the traces in the order in which it revealed them, as far as it went, with the scores that it paid."""
    order = paid.orders.get(stop["order"])
    if stop["order"] is None:
        return _checks(stop, policy, paid)
    order = order or {"slice": "", "rule": "", "samples": []}  # older results have no row where nothing was revealed
    calls, known = _calls(stop, order, paid), "generation_order" in stop
    shown, verified = _traces(order, stop["steps"]), frozenset(calls.verified)
    by_step = order.get("generated")
    walk: list[tuple[int, Trace | None, int]] = [(at, trace, at) for at, trace in enumerate(shown, 1)]
    if by_step is not None:  # what is generated before anything is verified, and after all is
        walk = [(at, trace, by_step[at]) for at, trace in enumerate((None, *shown))]
        walk += [(len(walk), None, stop["generated"])] if stop["empty"] else []
    verifier, early = stop["verifier"], stop.get("given_up_by")
    rows: list[dict[str, Any]] = []
    for step, trace, generated in walk:
        row: dict[str, Any] = {"step": step, "sample": None if trace is None else trace[1], **_told(trace, paid)}
        if early is not None:
            row |= _early(trace, order["slice"], early, calls, paid)
        if verifier is not None:
            row |= _score(trace, stop, paid, trace in verified)
        checks = shown[:step] if not calls.together or step == len(shown) else ()
        row["tokens"] = _tokens(paid, calls.generated[:generated], calls.checked, early, order["slice"])
        if row["tokens"] is not None:
            row["tokens"] += sum(_spent(paid, one, verifier) for one in checks if one in verified)
        row["chosen"] = trace == (stop["chosen_slice"], stop["chosen_sample"])
        rows.append(row)
    frame = pl.DataFrame(rows, schema={name: kind for name, kind in _STEPS.items() if not rows or name in rows[0]})
    told = frame.drop(() if known or order["rule"] in AS_GENERATED else "tokens")
    number = 1 if calls.together else stop["verified"]
    by = f", {counted(number, 'verification')} by `{verifier}`" if verifier is not None else ""
    ending = f"{counted(stop['generated'], 'trace')} generated{by}; order `{order['rule']}`, as far as {len(shown)}"
    blank = "unscored" in told.columns and told["unscored"].is_null().all()
    return Stage(f"`{policy}`: {order['slice']}", told.drop("unscored") if blank else told, ending, calls.generated)


def _checks(stop: Row, policy: str, paid: _Paid) -> Stage:
    """A part that verifies alone, as a gate does, traces that are paid for elsewhere."""
    order, tokens = paid.orders[stop["verification_order"]], 0.0
    rows = []
    for at, trace in enumerate(_traces(order, stop["verified"])):
        score = paid.scores[trace, stop["verifier"]]
        tokens += score["verification_tokens"] or 0.0
        rows.append({"step": at + 1, "sample": trace[1], **_told(trace, paid), "score": score["score"],
                     "tokens": tokens})  # fmt: skip
    frame = pl.DataFrame(rows, schema={name: kind for name, kind in _STEPS.items() if name in rows[0]})
    ending = f"{counted(len(rows), 'verification')} by `{stop['verifier']}`, and no trace generated"
    return Stage(f"`{policy}`: {order['slice']}, verified", frame, ending)


def _calls(stop: Row, order: Row, paid: _Paid) -> _Calls:
    """What a part called: along its orders, or where results of version 2 have none, as far as the traces tell."""
    if "generation_order" in stop:
        made = paid.orders.get(stop["generation_order"], {})
        generated = _traces(made, stop["generated"])
        marks = made.get("checked") or ()
        checked = frozenset(one for one, on in zip(generated, marks, strict=False) if on)
        checks = paid.orders.get(stop["verification_order"], {})
        return _Calls(generated, checked, _traces(checks, stop["verified"]), checks.get("rule") == TOGETHER)
    shown, verifier = _traces(order, stop["steps"]), stop["verifier"]
    scored = (one for one in shown if (one, verifier) in paid.scores and paid.traces[one]["valid"])
    return _Calls(shown, frozenset(shown), tuple(scored), False)


def _traces(order: Row, count: int) -> tuple[Trace, ...]:
    """The first `count` traces of an order, each once: of version 2 some stand twice."""
    samples = order.get("samples", [])[:count]
    slices = order.get("slices") or [order.get("slice")] * len(samples)
    return tuple(dict.fromkeys(zip(slices[:count], samples, strict=True)))


def _told(trace: Trace | None, paid: _Paid) -> dict[str, Any]:
    row = None if trace is None else paid.traces.get(trace)
    return {name: None if row is None else row[name] for name in ("answer", "correct")}


def _early(trace: Trace | None, slice_: str, early: str, calls: _Calls, paid: _Paid) -> dict[str, Any]:
    """The score after a trace's first tokens, and whether it was given up for it."""
    if trace is None:
        return {"early": None, "given_up": None}
    check = paid.scores.get(((slice_, trace[1]), early)) if trace in calls.checked else None
    return {"early": None if check is None else check["score"], "given_up": trace[0] != slice_}


def _score(trace: Trace | None, stop: Row, paid: _Paid, verified: bool) -> dict[str, Any]:
    """The score that the policy paid for a trace; how it took one that has none."""
    if trace is None:
        return {"score": None, "unscored": None}
    valid = paid.traces[trace]["valid"]
    if not (verified and valid):  # a call that ranks traces together may score those that are not valid, too
        skipped = valid and "generation_order" in stop
        return {"score": None, "unscored": SKIP.shown if skipped else None}
    score = paid.scores[trace, stop["verifier"]]["score"]
    return {"score": stop.get("lowest"), "unscored": LOWEST.shown} if score is None else {
        "score": score, "unscored": None,
    }  # fmt: skip


def _tokens(
    paid: _Paid, generated: Iterable[Trace], checked: frozenset[Trace], early: str | None, slice_: str
) -> float | None:
    """Tokens of some traces, those of early scores among them; None where those of some trace are not known."""
    total = 0.0
    for trace in generated:
        row = paid.traces[trace]
        if row["prompt_tokens"] is None or row["completion_tokens"] is None:
            return None
        total += row["prompt_tokens"] + row["completion_tokens"]
        total += _spent(paid, (slice_, trace[1]), early) if trace in checked else 0.0
    return total


def _spent(paid: _Paid, trace: Trace, verifier: str | None) -> float:
    """Tokens of a verification; what is not logged counts as 0."""
    check = None if verifier is None else paid.scores.get((trace, verifier))
    return 0.0 if check is None else check["verification_tokens"] or 0.0


def _texts(stages: tuple[Stage, ...], traces: pl.DataFrame) -> pl.DataFrame:
    return texts_of(stages, traces.select("slice", "sample", "trace_id", "text"))
