"""What the tables of a study have around them where each data set is one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from replay.runs.result.result import Result
from replay.studies.kit.cells import warned
from replay.studies.kit.gaps import Lack, Named, gaps_of
from replay.studies.kit.layout import Surroundings

LACKING = {
    "tokens": Lack("tokens", "total_tokens", frozenset({
        "action_tokens", "total_tokens", "base_tokens", "finalizer_tokens", "relative", "regret", "best", "on_front",
        "action_tokens_saved", "total_tokens_saved", "action_tokens_minus_cheap", "difference", "per_1000_priced",
    })),
    "seconds": Lack("seconds", "latency_s", frozenset({"mean", "p50", "p95", "p99"})),
    "finalizers": Lack(
        "uses of a finalizer", "finalizers", frozenset({"calls", "finalizers", "calls_avoided", "finalizer_rate"})
    ),
    "truncated": Lack("finish reasons", "truncated", frozenset({"truncated", "truncation_rate"})),
}  # fmt: skip
"""What traces may lack, by the numbers that follow from it."""


class Ran(Named, Protocol):
    """What was found on a data set by one run."""

    @property
    def result(self) -> Result:
        """The run."""
        ...


def run_surroundings(parts: Sequence[Ran], lacks: Iterable[Lack] = tuple(LACKING.values())) -> Surroundings[Any]:
    """Warnings above; below how many examples there are and how intervals are made, and what the log lacks."""
    told = [f"{one.dataset}: {one.result.statistics.n:,} examples" for one in parts]
    made, known = parts[0].result.provenance, tuple(lacks)
    drawn = f"{100 * made['level']:g} % intervals, {made['resamples']:,} paired resamples, seed {made['seed']}."
    counted = f"{'; '.join(told)}. {drawn}"
    return Surroundings(
        simulated=any(one.result.simulated for one in parts),
        dataset="dataset",
        above=lambda sheet, own: [told for one in own for told in warned(one.dataset, one.result, len(own) == 1)],
        below=lambda sheet, own, shown: [counted],
        gaps=lambda sheet, own: gaps_of(known, {part.dataset: part.result for part in own}),
    )
