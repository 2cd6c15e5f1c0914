"""Tables of any study of verifier budgets: every order at every budget, how early gold appears, whose rule is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from replay.analyses.pool_depth import Depth
from replay.runs.coverage_notes import WARN_EXCLUDED
from replay.studies.kit.sheet import Row, Sheet, intervals, listed, numbers
from replay.studies.kit.verifying_study import VerifyingStudy
from toolkit.notes import warning
from toolkit.show import Number, TableColumn

K = TableColumn("k", Number(0))


def of_budgets(
    name: str, heads: Sequence[str], interval: str = "", key: str = ""
) -> Callable[[VerifyingStudy], Iterator[Row]]:
    """Rows of one of the frames of all budgets, each with what the table calls its pool first."""

    def found(study: VerifyingStudy) -> Iterator[Mapping[str, Any]]:
        for fixed in study.budgets.pools:
            frame: pl.DataFrame = getattr(fixed.made, name)
            for row in frame.iter_rows(named=True):
                yield {"pool": fixed.name, **row}

    return lambda study: listed(found(study), ("pool", *heads), interval, key)


def smallest(study: VerifyingStudy) -> Iterator[Row]:
    """The smallest budget at which each order is within half a point of best-of-N."""
    for row in of_budgets("smallest", ("order", "metric"))(study):
        best = row.values["best_of_n"]
        yield replace(row, values={**row.values, "best": 100 * best if isinstance(best, float) else None})


def unresolved(study: VerifyingStudy) -> Iterator[Row]:
    """Claims whose margin rule has not held after k traces, with no cap but the pool."""
    found = study.budgets.unresolved.rename({"largest_margin": "largest", "median_margin": "median"})
    return listed(found.iter_rows(named=True), ("k",), "share")


def unserved(study: VerifyingStudy) -> list[str]:
    """Which claims are left out of a table of budgets."""
    return [study.budgets.depth.note]


def _too_few(shares: pl.DataFrame) -> str:
    if shares["share"].null_count() < len(shares):
        return ""
    return "; what is left is less than nine tenths of the claims asked about, so its numbers are dashes"


def _gold_notes(study: VerifyingStudy) -> Iterator[str]:
    yield study.budgets.depth.note
    if missing := lacking(study.budgets.depth, study.budgets.gold):
        yield f"{missing:,} claims are left out: no gold label{_too_few(study.budgets.gold)}"


def _unresolved_notes(study: VerifyingStudy) -> Iterator[str]:
    yield study.budgets.depth.note
    if missing := lacking(study.budgets.depth, study.budgets.unresolved):
        why = f"{missing:,} claims are left out: `{study.setting.verifier}` did not score every valid trace"
        yield f"{why}{_too_few(study.budgets.unresolved)}"


def many_left_out(depth: Depth, shares: pl.DataFrame) -> Iterator[str]:
    """A warning, where many claims are left out of a table of shares."""
    if (missing := lacking(depth, shares)) > WARN_EXCLUDED * depth.claims:
        yield str(warning("many_left_out", f"{missing:,} of {depth.claims:,} claims are left out"))


def seed(study: VerifyingStudy) -> list[str]:
    """What the random order was drawn from."""
    return [f"random: seed {study.setting.random_seed}"]


def lacking(depth: Depth, shares: pl.DataFrame) -> int:
    """Claims with a pool of the size that shares are of, but not among them."""
    return depth.claims - depth.shorter - max(shares["n"].to_list())


ORDERS: tuple[Sheet[Any], ...] = (
    Sheet(
        "budgets", "Every order at every budget", ("Candidate pool", "Order", K, "Metric"),
        (intervals("Value, %", "value"),), of_budgets("by_k", ("order", "k", "metric"), "estimate", "value"),
        (seed, "score: sees all scores, a diagnostic", unserved), group="budgets", printed=False,
    ),
    Sheet(
        "budget_pairs", "Orders against each other at the same budget",
        ("Candidate pool", K, "Metric", "Order", "Against"),
        (intervals("Difference, points", "difference_pp", signed=True), numbers("p", "p_value", 4)),
        of_budgets("pairs", ("k", "metric", "order", "against"), "difference", "difference_pp"), (unserved,),
        group="budgets", printed=False,
    ),
    Sheet(
        "budget_smallest", "Smallest budget within 0.5 points of best-of-N", ("Candidate pool", "Order", "Metric"),
        (numbers("Smallest k", "k", 0), numbers("Best-of-N, %", "best")), smallest,
        ("a dash: at no budget, or not known because it or a lower one cannot be replayed", unserved), group="budgets",
    ),
)  # fmt: skip
"""Tables of fixed budgets, for every order."""
FOUND: tuple[Sheet[Any], ...] = (
    Sheet(
        "gold_within", "Gold label among the first k traces", (K,),
        (intervals("Claims with a gold trace, %", "share", 1), numbers("Claims", "n", 0)),
        lambda study: listed(study.budgets.gold.iter_rows(named=True), ("k",), "share"),
        ("sees gold: a diagnostic", _gold_notes),
    ),
    Sheet(
        "unresolved", "Adaptive Stopping with no cap but the pool", (K,), (
            intervals("Not stopped, %", "share", 1), numbers("Largest margin reached", "largest", 4),
            numbers("Median of the largest", "median", 4), numbers("Claims", "n", 0),
        ), unresolved,
        ("margins: of the claims that have not stopped, the largest lead each has had by then", _unresolved_notes),
        group="unresolved",
    ),
)  # fmt: skip
"""What is found without a policy."""
