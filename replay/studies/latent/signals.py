"""What each signal of a pool tells of its traces: areas under ROC curves, over all traces and within questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from toolkit.log import Log
from toolkit.log.contract.left_out import source_parts
from toolkit.log.describe.scored_traces import ScoredTraces
from toolkit.log.describe.worth import BEST, HONEST, Signal, signals_of, suffix_lengths
from toolkit.stats import Interval, PairedInterval, aucs_by_group, unit_numbers
from toolkit.stats.influences import Influenced, mean_of, pooled_area

POOLED, WITHIN = "pooled", "within"


@dataclass(frozen=True, eq=False)
class SignalAreas:
    """A signal's areas by what they are over, `pooled` and `within`, and what is to be said of it.

    `widened`: by what its standard error is multiplied, for scores out of fold.
    """

    name: str
    traces: int
    areas: Mapping[str, Influenced]
    widened: float
    remark: str

    def interval(self, over: str, level: float = 0.95) -> Interval:
        """An area with its interval, by question or cluster."""
        return self.areas[over].interval(level, self.widened)

    def minus(self, other: SignalAreas, over: str, level: float = 0.95) -> PairedInterval:
        """The difference to another signal's area on the same traces."""
        return self.areas[over].minus(other.areas[over], level, max(self.widened, other.widened))


@dataclass(frozen=True, eq=False)
class MeasuredPool:
    """The judged traces of a pool that its `verifier` scored, and what each signal tells of them.

    `temperature`: that of sampling, None where there are several; `train`: traces of the training rows, None where
    there are none. `signals`: by name, suffixes by how their length was chosen (`BEST`, `HONEST`).
    """

    pool: str
    temperature: float | None
    verifier: str
    traces: ScoredTraces
    train: ScoredTraces | None
    signals: Mapping[str, SignalAreas]

    @property
    def single(self) -> bool:
        """Whether it has one trace a question."""
        return len(self.traces.right) == int(self.traces.example.max()) + 1

    @property
    def latent(self) -> SignalAreas:
        """Those of its verifier."""
        return self.signals[self.verifier]


def measured(
    temperature: float | None, verifier: str, traces: ScoredTraces, train: ScoredTraces | None, untrained: str
) -> MeasuredPool:
    """Every signal of the traces that a verifier scored, each on those that it has a value of."""
    own = among(traces, ~np.isnan(traces.scores[verifier]))
    lengths = suffix_lengths(own, train)
    found = {}
    for one in signals_of(own, train, untrained, lengths):
        found[one.remark if one.remark in (BEST, HONEST) else one.name] = _areas(own, one)
    return MeasuredPool(traces.pool, temperature, verifier, own, train, found)


def among(traces: ScoredTraces, on: np.ndarray) -> ScoredTraces:
    """Some of the traces (N,)."""
    if on.all():
        return traces
    return replace(
        traces,
        example=unit_numbers(traces.example[on]),
        unit=unit_numbers(traces.unit[on]),
        right=traces.right[on],
        answers=traces.answers.filter(on),
        votes=traces.votes[on],
        whole=traces.whole[on],
        tokens=traces.tokens[on],
        fold={name: one[on] for name, one in traces.fold.items()},
        scores={name: one[on] for name, one in traces.scores.items()},
    )


def kinds_of(log: Log) -> dict[str, str]:
    """What kind each verifier is of, as the manifest says: `logprob`, `reflection`, `judge`, `fitted` and so on."""
    found: dict[str, str] = {}
    for part in source_parts(log.manifest.source if log.manifest is not None else None):
        section = part.get("verifiers")
        for name, entry in section.items() if isinstance(section, Mapping) else ():
            if isinstance(entry, Mapping) and isinstance(entry.get("kind"), str):
                found[name] = entry["kind"]
    return found


def _areas(traces: ScoredTraces, signal: Signal) -> SignalAreas:
    known, size = ~np.isnan(signal.score), int(traces.unit.max()) + 1
    _, first = np.unique(traces.example, return_index=True)
    score = np.where(known, signal.score, np.nan)
    areas = {
        POOLED: pooled_area(signal.score[known], traces.right[known], traces.unit[known], size),
        WITHIN: mean_of(aucs_by_group(score, traces.right, traces.example), traces.unit[first], size),
    }
    return SignalAreas(signal.name, int(known.sum()), areas, signal.widened, signal.remark)
