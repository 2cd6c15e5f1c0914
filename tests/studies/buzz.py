"""The study of acting on unfolding text on small planted worlds, and its policies written plainly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from generate.simulation.checks import CheckingModel, TextModel, simulate_checks
from replay.studies.buzz.report import study_buzz
from replay.studies.kit.report import StudyReport
from toolkit.log import Log, collect

Row = dict[str, Any]
WEAK = {"direct": 0.5, "extraction": 0.7}


def world(folder: Path, examples: int = 60, seed: int = 3, texts: Row | None = None, **pools: Row) -> Log:
    """A planted log; keys are pools of checks, with `_` for a dash, and their parameters."""
    models = {name.replace("_", "-"): CheckingModel(**keys) for name, keys in pools.items()}
    return simulate_checks(folder, examples=examples, seed=seed, texts=TextModel(**(texts or {})), pools=models)


def whole_world(folder: Path, examples: int = 60, seed: int = 3) -> Log:
    """A log with everything that the study reads: two backbones, further extractors, verdicts on whole texts."""
    return world(
        folder, examples, seed, simulated={"direct": 0.7}, one_shot={"extraction": 0.5}, no_filter={"decides": 0.4},
        second_simulated=WEAK, second_one_shot={"extraction": 0.4},
    )  # fmt: skip


def report(log: Any, **options: Any) -> StudyReport:
    return study_buzz(log, **({"resamples": 40} | options))


@dataclass(frozen=True)
class PlainAct:
    """What a policy does on a text: the row that it acts on, None where it does not, and the rows that it pays."""

    row: Row | None
    paid: list[Row]

    @property
    def names_error(self) -> bool:
        return self.row is not None and bool(self.row["matches_error"])


Keeps = Callable[[Row, int, int, int], bool]
"""Whether a row's claim is followed: by its row, its place among the claims of its text and stage, of its unit, and how
many claims of the stream are followed."""


def everything(row: Row, place: int, place_in_unit: int, followed: int) -> bool:
    return True


def plain_act(
    rows: list[Row], *, keeps: Keeps = everything, rounds: float = math.inf, confidence: float = 0.0,
    patience: int = 1, to_end: bool = False,
) -> PlainAct:  # fmt: skip
    """A policy of kind `buzz` on the rows of a text, row by row."""
    ordered = sorted(rows, key=lambda r: (r["stage"] == "revision", r["position"], r["claim"], r["round"]))
    named = {r["claim"]: r for r in ordered if r["round"] == 0 and r["verdict"] != "none"}
    places: dict[int, tuple[int, int]] = {}
    for claim in sorted(named):
        stage, unit = named[claim]["stage"], named[claim]["unit"]
        before = [other for other in places if named[other]["stage"] == stage]
        places[claim] = len(before), sum(named[other]["unit"] == unit for other in before)
    stream = [claim for claim in named if named[claim]["stage"] == "stream"]
    followed = sum(keeps(named[claim], *places[claim], 0) for claim in stream)
    paid, refuted, acted = [], 0, None
    for row in ordered:
        claim = row["claim"]
        is_kept = claim not in named or (keeps(row, *places[claim], followed) and row["round"] < rounds)
        if is_kept and (acted is None or (to_end and row["stage"] == "stream")):
            paid.append(row)
            if acted is None and row["verdict"] == "refuted" and row["confidence"] >= confidence:
                refuted += 1
                acted = row if refuted == patience else None
    return PlainAct(acted, paid)


def plain_act_by_clock(rows: list[Row], speed: float) -> tuple[Row, int] | None:
    """The row that a policy acts on where a text goes on at `speed` words a second, and the word that it is at then."""
    refuted = []
    for row in (row for row in rows if row["verdict"] == "refuted"):
        claim = [one for one in rows if one["claim"] == row["claim"] and one["round"] <= row["round"]]
        first = next(one["position"] for one in claim if one["round"] == 0)
        late = row["stage"] == "revision"
        heard = first + speed * sum(one["latency_s"] for one in claim)
        refuted.append(((late, row["claim"] if late else heard, row["claim"]), row, math.ceil(heard)))
    return min(refuted, key=lambda one: one[0])[1:] if refuted else None


class Plain:
    """The reported texts of a log and the rows of its checks, as lists."""

    def __init__(self, log: Log) -> None:
        examples = collect(log.scan("examples"), log).filter(pl.col("split") == "test").sort("example_id")
        self.texts = {row["example_id"]: row for row in examples.to_dicts()}
        checks = collect(log.scan("checks"), log)
        self.rows: dict[tuple[str, str], list[Row]] = {}
        for row in checks.sort("example_id", "pool", "claim", "round").to_dicts():
            self.rows.setdefault((row["pool"], row["example_id"]), []).append(row)
        traces = collect(log.scan("traces"), log) if log.has("traces") else pl.DataFrame()
        self.traces: dict[tuple[str, str], list[Row]] = {}
        for row in traces.sort("sample_index").to_dicts() if len(traces) else ():
            self.traces.setdefault((row["pool"], row["example_id"]), []).append(row)

    def acts(self, pool: str, **keys: Any) -> dict[str, PlainAct]:
        return {name: plain_act(self.rows[pool, name], **keys) for name in self.texts}

    def right(self, acts: dict[str, PlainAct]) -> list[float]:
        return [float((act.row is not None) == self.texts[name]["gold_error"]) for name, act in acts.items()]

    def found(self, acts: dict[str, PlainAct]) -> list[float]:
        return [float(act.names_error) for name, act in acts.items() if self.texts[name]["gold_error"]]

    def alarms(self, acts: dict[str, PlainAct]) -> list[float]:
        return [float(act.row is not None) for name, act in acts.items() if not self.texts[name]["gold_error"]]

    def deviations(self, acts: dict[str, PlainAct]) -> dict[str, float]:
        return {
            name: (act.row["position"] - self.texts[name]["gold_position"]) / self.texts[name]["length"]
            for name, act in acts.items()
            if act.row is not None and act.names_error and self.texts[name]["gold_error"]
        }


def mean(values: Any) -> float:
    some = [float(one) for one in values]
    return sum(some) / len(some)


def macro_f1(given: list[bool], gold: list[bool]) -> float:
    """The mean of both labels' F1."""
    total = 0.0
    for label in (True, False):
        both = sum(g == label == t for g, t in zip(given, gold, strict=True))
        total += 2 * both / (sum(g == label for g in given) + sum(t == label for t in gold))
    return total / 2
