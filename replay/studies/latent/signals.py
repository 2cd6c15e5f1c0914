"""What each signal of a pool tells of its traces: areas under ROC curves, over all traces and within questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from toolkit.log import Log
from toolkit.log.contract.left_out import source_parts
from toolkit.log.describe.scored_traces import ScoredTraces
from toolkit.log.describe.worth import BEST, HONEST, WHOLE, picks, signals_of, suffix_lengths
from toolkit.stats import Interval, PairedInterval, unit_numbers
from toolkit.stats.curves.roc import Influenced, mean_of, pooled_area, within_area

POOLED, WITHIN = OVER = ("pooled", "within")
LOGPROB, REFLECTION, FITTED = "logprob", "reflection", "fitted"
"""Kinds of verifiers, as manifests name them."""
HALF = 0.5


@dataclass(frozen=True, eq=False)
class SignalAreas:
    """A signal's scores (N,) and its areas by what they are over, `pooled` and `within`; what is to be said of it.

    `widened`: by what its standard error is multiplied, for scores out of fold.
    """

    name: str
    score: np.ndarray
    areas: Mapping[str, Influenced]
    widened: float
    remark: str

    @property
    def traces(self) -> int:
        return int((~np.isnan(self.score)).sum())

    def told(self, key: str) -> str:
        """Its name in words, of a suffix with how its length was chosen; `key`: what it is among the signals."""
        return self.name if key == self.name else f"{self.name} ({key})"

    def interval(self, over: str, level: float = 0.95) -> Interval:
        """An area with its interval, by question or cluster."""
        return self.areas[over].interval(level, self.widened)

    def over_chance(self, over: str, level: float = 0.95) -> PairedInterval:
        """How far an area is above one half."""
        own = self.areas[over]
        return own.minus(Influenced(HALF, np.zeros_like(own.influence), own.units), level, self.widened)


@dataclass(frozen=True, eq=False)
class MeasuredPool:
    """The judged traces of a pool that its `verifier` scored, and what each signal tells of them.

    `temperature`: that of sampling, None where there are several; `train`: traces of the training rows, None where
    there are none. `signals`: by name, suffixes by how their length was chosen (`BEST`, `HONEST`); `kinds`: of
    verifiers.
    """

    pool: str
    temperature: float | None
    verifier: str
    traces: ScoredTraces
    train: ScoredTraces | None
    signals: Mapping[str, SignalAreas]
    kinds: Mapping[str, str]

    @property
    def single(self) -> bool:
        """Whether it has one trace a question."""
        return len(self.traces.right) == int(self.traces.example.max()) + 1

    @property
    def latent(self) -> SignalAreas:
        return self.signals[self.verifier]

    @property
    def logprobs(self) -> dict[str, SignalAreas]:
        """Log-probabilities of suffixes and of the whole text; where none are logged, verifiers of them."""
        plain = {name: self.signals[name] for name in (BEST, HONEST, WHOLE) if self._known(name)}
        return plain or {name: self.signals[name] for name in self.of_kind(LOGPROB)}

    def _known(self, name: str) -> bool:
        return name in self.signals and self.signals[name].traces > 0

    def of_kind(self, *kinds: str) -> list[str]:
        """Verifiers of some kinds, the best first."""
        found = [name for name in self.traces.scores if self.kinds.get(name) in kinds and self._known(name)]
        return sorted(found, key=lambda name: -self.signals[name].areas[POOLED].estimate)

    def over_random(self, level: float = 0.95) -> PairedInterval:
        """How much more often the trace with its highest score is right than a random one of the same question."""
        traces = self.traces
        units, first = np.unique(traces.example, return_index=True)
        size = int(traces.unit.max()) + 1
        best, random = (mean_of(one, traces.unit[first], size) for one in picks(traces, self.latent.score, len(units)))
        return best.minus(random, level, self.latent.widened)

    def less(self, other: SignalAreas, over: str, level: float = 0.95) -> PairedInterval:
        """How far the verifier's area is above another signal's, on the traces that both score."""
        own, widened = self.latent, max(self.latent.widened, other.widened)
        both = ~np.isnan(own.score) & ~np.isnan(other.score)
        first, second = (
            one.areas if both.sum() == one.traces else _areas(self.traces, np.where(both, one.score, np.nan))
            for one in (own, other)
        )
        return first[over].minus(second[over], level, widened)


def measured(
    temperature: float | None, verifier: str, traces: ScoredTraces, train: ScoredTraces | None,
    kinds: Mapping[str, str], untrained: str,
) -> MeasuredPool:  # fmt: skip
    """Every signal of the traces that a verifier scored, each on those that it has a value of."""
    own = _among(traces, ~np.isnan(traces.scores[verifier]))
    lengths = suffix_lengths(own, train)
    found = {}
    for one in signals_of(own, train, untrained, lengths):
        of_suffix = one.remark in (BEST, HONEST)
        areas = SignalAreas(one.name, one.score, _areas(own, one.score), one.widened, one.remark)
        found[one.remark if of_suffix else one.name] = areas
    return MeasuredPool(traces.pool, temperature, verifier, own, train, found, kinds)


def _among(traces: ScoredTraces, on: np.ndarray) -> ScoredTraces:
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
        tokens=traces.tokens.filter(on),
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


def _areas(traces: ScoredTraces, score: np.ndarray) -> dict[str, Influenced]:
    size = int(traces.unit.max()) + 1
    return {
        POOLED: pooled_area(score, traces.right, traces.unit, size),
        WITHIN: within_area(score, traces.right, traces.example, traces.unit, size),
    }
