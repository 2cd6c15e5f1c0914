"""The study's questions, what strategies gain, and what intervals say of each: yes, no, or not decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import polars as pl

from replay.analyses.strategies.frontier import Frontier
from replay.analyses.strategies.strategies import BEST, CONDITIONAL, MAJORITY, ORACLE, WEIGHTED, Strategies, Strategy
from replay.analyses.strategies.strategy_grids import VotesByScore
from replay.studies.kit.verdicts import Answer, answer_of_several, is_above
from toolkit.log import Log
from toolkit.log.contract.left_out import source_parts
from toolkit.log.describe.scored_traces import ScoredTraces
from toolkit.log.describe.verifier_quality import BEST as BEST_SUFFIX
from toolkit.log.describe.verifier_quality import HONEST, WHOLE, best_of_n_outcomes, best_suffix_lengths, signals_of
from toolkit.stats import Interval, PairedInterval, Settings, paired_interval, simultaneous_level, unit_numbers
from toolkit.stats.curves.roc import InfluencedEstimate, grouped_auc, mean_with_influences, pooled_auc

POOLED, WITHIN = OVER = ("pooled", "within")
LOGPROB, REFLECTION, FITTED = "logprob", "reflection", "fitted"
"""Kinds of verifiers, as manifests name them."""
HALF = 0.5


@dataclass(frozen=True, eq=False)
class SignalAuc:
    """A signal's scores (N,) and its AUC over all traces (`pooled`) and within questions (`within`), with a remark.

    `widened`: by what its standard error is multiplied, for scores out of fold.
    """

    name: str
    score: np.ndarray
    areas: Mapping[str, InfluencedEstimate]
    widened: float
    remark: str

    @property
    def traces(self) -> int:
        return int((~np.isnan(self.score)).sum())

    def label(self, key: str) -> str:
        """The signal's name in words; `key` says how the length of a suffix was chosen."""
        return self.name if key == self.name else f"{self.name} ({key})"

    def interval(self, over: str, level: float = 0.95) -> Interval:
        """The AUC with its interval, resampled by question or cluster."""
        return self.areas[over].interval(level, self.widened)

    def over_chance(self, over: str, level: float = 0.95) -> PairedInterval:
        """The difference of the AUC to one half."""
        area = self.areas[over]
        return area.difference_to(
            InfluencedEstimate(HALF, np.zeros_like(area.influence), area.units), level, self.widened
        )


@dataclass(frozen=True, eq=False)
class MeasuredPool:
    """The judged traces of a pool that `verifier` scored, and the AUC of every signal on them.

    `temperature`: that of sampling, None where there are several; `train`: the scored traces of the training rows, None
    where there are none. `signals`: AUCs by the signal's name, those of suffixes by how their length was chosen
    (`BEST_SUFFIX`, `HONEST`); `kinds`: kinds of verifiers by their names.
    """

    pool: str
    temperature: float | None
    verifier: str
    traces: ScoredTraces
    train: ScoredTraces | None
    signals: Mapping[str, SignalAuc]
    kinds: Mapping[str, str]

    @property
    def is_single(self) -> bool:
        """Whether the pool has one trace per question."""
        return len(self.traces.right) == int(self.traces.example.max()) + 1

    @property
    def verifier_auc(self) -> SignalAuc:
        return self.signals[self.verifier]

    @property
    def logprob_aucs(self) -> dict[str, SignalAuc]:
        """The log-probability signals, of suffixes and of the whole text; where none is logged, verifiers that read
        them.
        """
        plain = {name: self.signals[name] for name in (BEST_SUFFIX, HONEST, WHOLE) if self._has_scores(name)}
        return plain or {name: self.signals[name] for name in self.verifiers_of_kind(LOGPROB)}

    def _has_scores(self, name: str) -> bool:
        return name in self.signals and self.signals[name].traces > 0

    def verifiers_of_kind(self, *kinds: str) -> list[str]:
        """Returns the verifiers of some kinds, the best first."""
        names = [name for name in self.traces.scores if self.kinds.get(name) in kinds and self._has_scores(name)]
        return sorted(names, key=lambda name: -self.signals[name].areas[POOLED].estimate)

    def gain_over_random(self, level: float = 0.95) -> PairedInterval:
        """Returns the accuracy of the trace with the highest score minus that of a random trace of the same
        question.
        """
        traces = self.traces
        units, first = np.unique(traces.example, return_index=True)
        size = int(traces.unit.max()) + 1
        best, random = (
            mean_with_influences(one, traces.unit[first], size)
            for one in best_of_n_outcomes(traces, self.verifier_auc.score, len(units))
        )
        return best.difference_to(random, level, self.verifier_auc.widened)

    def auc_minus(self, other: SignalAuc, over: str, level: float = 0.95) -> PairedInterval:
        """Returns the verifier's AUC minus that of another signal, on the traces that both score."""
        latent, widened = self.verifier_auc, max(self.verifier_auc.widened, other.widened)
        both = ~np.isnan(latent.score) & ~np.isnan(other.score)
        first, second = (
            one.areas if both.sum() == one.traces else _signal_aucs(self.traces, np.where(both, one.score, np.nan))
            for one in (latent, other)
        )
        return first[over].difference_to(second[over], level, widened)


def measure_pool(
    temperature: float | None, verifier: str, traces: ScoredTraces, train: ScoredTraces | None,
    kinds: Mapping[str, str], untrained: str,
) -> MeasuredPool:  # fmt: skip
    """Measures every signal of the traces that a verifier scored, each on the traces that have its value."""
    scored = _restrict_traces(traces, ~np.isnan(traces.scores[verifier]))
    lengths = best_suffix_lengths(scored, train)
    signals = {}
    for one in signals_of(scored, train, untrained, lengths):
        of_suffix = one.remark in (BEST_SUFFIX, HONEST)
        areas = SignalAuc(one.name, one.score, _signal_aucs(scored, one.score), one.widened, one.remark)
        signals[one.remark if of_suffix else one.name] = areas
    return MeasuredPool(traces.pool, temperature, verifier, scored, train, signals, kinds)


def _restrict_traces(traces: ScoredTraces, on: np.ndarray) -> ScoredTraces:
    """Returns the traces where the mask `on` (N,) is true."""
    if on.all():
        return traces
    return replace(
        traces,
        trace=traces.trace.filter(pl.Series(on)),
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


def fitting_records(log: Log) -> dict[str, Mapping[str, Any]]:
    """Returns what the manifest says of each verifier that was fitted on hidden states or inputs of the log."""
    return {name: entry for name, entry in _verifier_records(log) if entry.get("kind") == FITTED}


def kinds_of(log: Log) -> dict[str, str]:
    """Returns the kind of each verifier in the manifest: `logprob`, `reflection`, `judge`, `fitted` and so on."""
    return {name: entry["kind"] for name, entry in _verifier_records(log) if isinstance(entry.get("kind"), str)}


def _verifier_records(log: Log) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for part in source_parts(log.manifest.source if log.manifest is not None else None):
        section = part.get("verifiers")
        for name, entry in section.items() if isinstance(section, Mapping) else ():
            if isinstance(entry, Mapping):
                yield name, entry


def _signal_aucs(traces: ScoredTraces, score: np.ndarray) -> dict[str, InfluencedEstimate]:
    size = int(traces.unit.max()) + 1
    return {
        POOLED: pooled_auc(score, traces.right, traces.unit, size),
        WITHIN: grouped_auc(score, traces.right, traces.example, traces.unit, size),
    }


NOTHING = PairedInterval(None, None, None, None, 0, None)

LEAST_DOUBTED = 0.05
"""Share of probes that a setting of conditional voting doubts at least, and believes at least."""


@dataclass(frozen=True)
class StrategyGain:
    """One setting of a strategy against a rival with as many mean samples: both accuracies and the difference.

    `name`: of the strategy; `below`: the score below which `n` further samples follow a probe. `pool`: of the rival,
    where that is another one.
    """

    name: str
    samples: float
    n: int
    accuracy: float
    against: float
    difference: PairedInterval
    below: float | None = None
    pool: str = ""


@dataclass(frozen=True)
class Gains:
    """Gains of the study's strategies, empty where the log lacks them. `oracle`: the gap of the best strategy to the
    oracle; `elsewhere`: conditional voting against plain voting in the other pool that is best for it.
    """

    weighted: tuple[StrategyGain, ...] = ()
    best: tuple[StrategyGain, ...] = ()
    conditional: tuple[StrategyGain, ...] = ()
    coin: tuple[StrategyGain, ...] = ()
    elsewhere: tuple[StrategyGain, ...] = ()
    oracle: tuple[StrategyGain, ...] = ()


@dataclass(frozen=True, eq=False)
class _StrategyPair:
    """Correctness of two strategies on the same examples, (E,) each, and the gain that they belong to."""

    gain: StrategyGain
    first: np.ndarray
    second: np.ndarray


def gains_with_joint_intervals(
    pairs: Sequence[_StrategyPair], unit: np.ndarray, settings: Settings
) -> tuple[StrategyGain, ...]:
    """Fills in the gains' intervals, which hold for all of them at once."""
    if not pairs:
        return ()
    level = simultaneous_level([pair.first - pair.second for pair in pairs], cluster=unit, settings=settings)
    at_level = replace(settings, level=level)
    return tuple(
        replace(pair.gain, difference=paired_interval(pair.first, pair.second, cluster=unit, settings=at_level))
        for pair in pairs
    )


def _strategy_pair(
    first: np.ndarray, second: np.ndarray, name: str, samples: float, n: int, below: float | None = None, pool: str = ""
) -> _StrategyPair:
    gain = StrategyGain(name, samples, n, float(first.mean()), float(second.mean()), NOTHING, below, pool)
    return _StrategyPair(gain, first, second)


def _conditional_gains(
    strategies: Strategies, front: Frontier, chosen: np.ndarray, settings: Settings, others: Mapping[str, Strategies]
) -> tuple[tuple[StrategyGain, ...], tuple[StrategyGain, ...], tuple[StrategyGain, ...]]:
    """Returns the gains of conditional voting on the half that chose no settings, against three rivals: plain voting
    with as many samples, the same further samples given by a coin, and plain voting in the pool that is best at as
    many samples on the other half. Settings that doubt fewer than 5 % or more than 95 % of the probes are left out,
    and so are repeats.
    """
    on = strategies.for_examples(~chosen)
    pools = {strategies.source.pool: strategies, **others}
    known = set[bytes]()
    plain, by_coin, elsewhere = list[_StrategyPair](), list[_StrategyPair](), list[_StrategyPair]()
    for row in front.front.filter(strategy=CONDITIONAL).sort("chosen_samples").iter_rows(named=True):
        rungs = VotesByScore(tuple(row["below"]), tuple(row["votes"]))
        of = on.conditional(row["verifier"])
        if not rungs.below or not LEAST_DOUBTED <= of.doubted_probes(rungs.below[0]).mean() <= 1 - LEAST_DOUBTED:
            continue
        acts = rungs.places_of_sample_numbers(of.score, of.n).tobytes()
        if acts in known:
            continue
        known.add(acts)
        right, paid = rungs.correctness_and_samples(of)
        samples, setting = float(paid.mean()), (rungs.votes[0], rungs.below[0])
        voted = on.vote_correctness(samples)
        plain.append(_strategy_pair(right, voted, CONDITIONAL, samples, *setting))
        by_coin.append(_strategy_pair(right, rungs.correctness_by_coin(of), CONDITIONAL, samples, *setting))
        if others:
            best = max(pools, key=lambda pool, at=samples: float(pools[pool].vote_correctness(at)[chosen].mean()))  # type: ignore[misc]
            rival = pools[best].vote_correctness(samples)[~chosen]
            elsewhere.append(_strategy_pair(right, rival, CONDITIONAL, samples, *setting, best))
    return (
        gains_with_joint_intervals(plain, on.unit, settings),
        gains_with_joint_intervals(by_coin, on.unit, settings),
        gains_with_joint_intervals(elsewhere, on.unit, settings),
    )


def _selecting_gains(strategies: Strategies, name: str, settings: Settings) -> tuple[StrategyGain, ...]:
    """Returns the gains of weighted voting or best-of-n over plain voting at every n from 2 on. No setting is chosen,
    so all examples count.
    """
    strategy = next((one for one in strategies.plain if one.name == name and one.verifier is not None), None)
    if strategy is None:
        return ()
    right, voted = strategies.plain[strategy], strategies.plain[Strategy(MAJORITY)]
    pairs = [
        _strategy_pair(right[:, at], voted[:, at], name, float(n), int(n))
        for at, n in enumerate(strategies.n.tolist())
        if n > 1
    ]
    return gains_with_joint_intervals(pairs, strategies.unit, settings)


def _oracle_gaps(strategies: Strategies, chosen: np.ndarray, settings: Settings) -> tuple[StrategyGain, ...]:
    """Returns the gap of the best strategy to the oracle at every n from 2 on. The best is chosen on one half, the gap
    is of the other.
    """
    on, of = strategies.for_examples(~chosen), strategies.for_examples(chosen)
    known = [one for one in strategies.plain if not one.sees_gold]
    pairs = []
    for at, n in enumerate(strategies.n.tolist()):
        if n > 1:
            best = max(known, key=lambda one, at=at: float(of.plain[one][:, at].mean()))  # type: ignore[misc]
            pairs.append(
                _strategy_pair(on.plain[best][:, at], on.plain[Strategy(ORACLE)][:, at], str(best), float(n), int(n))
            )
    return gains_with_joint_intervals(pairs, on.unit, settings)


def gains_of(
    strategies: Strategies, front: Frontier, chosen: np.ndarray, settings: Settings, scored: Strategies | None = None,
    others: Mapping[str, Strategies] | None = None,
) -> Gains:  # fmt: skip
    """Returns the gains of all strategies. `chosen` (E,) marks examples that chose settings; `scored` has strategies
    of the samples with scores, where these are not all; `others` has those of further pools on the same examples.
    """
    selecting = strategies if scored is None else scored
    conditional, coin, elsewhere = _conditional_gains(strategies, front, chosen, settings, others or {})
    return Gains(
        _selecting_gains(selecting, WEIGHTED, settings), _selecting_gains(selecting, BEST, settings), conditional, coin,
        elsewhere, _oracle_gaps(strategies, chosen, settings),
    )  # fmt: skip


class _VerdictQuestion(StrEnum):
    """The questions on a data set, as tables and reports write them."""

    CHANCE = "is the verifier better than chance"
    RANDOM = "is the best of a question's traces by its scores better than a random one"
    LOGPROBS = "does the verifier beat log-probabilities"
    WEIGHTED = "does voting weighted by its scores beat plain voting at equal samples"
    BEST = "does best-of-n by its scores beat plain voting at equal samples"
    CONDITIONAL = "does conditional voting beat plain voting at equal samples"
    ELSEWHERE = "does conditional voting beat plain voting in the pool that is best for it"
    COIN = "do its scores beat a coin in conditional voting"
    ORACLE = "does any strategy reach the oracle"


@dataclass(frozen=True)
class Verdict:
    """The answer to one question. `over`: which area it is of; `against`: what the shown difference is to; `scale`: of
    the difference for people; `where`: the mean samples at which there is a gain, and a loss; `why` it is not asked.
    """

    question: _VerdictQuestion
    answer: Answer
    over: str = ""
    against: str = ""
    difference: PairedInterval | None = None
    gained: tuple[float, ...] = ()
    lost: tuple[float, ...] = ()
    why: str = ""


def _gain_verdict(question: _VerdictQuestion, gains: Sequence[StrategyGain]) -> Verdict:
    """Answers a question about gains: yes where some setting is above and none below, no where some is below and none
    above; else both, or undecided.

    The intervals hold for all settings at once, so one that leaves out 0 is enough. Shown is the one that decides, or
    the largest difference.
    """
    answers = [is_above(gain.difference) for gain in gains]
    up = [one for one, answer in zip(gains, answers, strict=True) if answer is Answer.YES]
    down = [one for one, answer in zip(gains, answers, strict=True) if answer is Answer.NO]
    decision = answer_of_several(answers)
    decisive = min(down, key=_gain_or_zero) if decision is Answer.NO else max(up or gains, key=_gain_or_zero)
    plain = f"plain voting of pool {decisive.pool}" if decisive.pool else "plain voting"
    rival = "a coin" if question is _VerdictQuestion.COIN else plain
    against = f"{rival}, {decisive.samples:.3g} samples"
    return Verdict(
        question, decision, against=against, difference=decisive.difference,
        gained=tuple(one.samples for one in up), lost=tuple(one.samples for one in down),
    )  # fmt: skip


def _gain_or_zero(gain: StrategyGain) -> float:
    return gain.difference.difference if gain.difference.difference is not None else 0.0


NO_LOGPROBS = "no log-probabilities are logged, and no verifier gives them"
ONE_TRACE = "the verifier scored one trace a question"
NO_PROBE = "the verifier scored no pool of single first attempts"
ONE_SAMPLE = "the pool that is sampled from has one sample a question"
NO_SCORES = "the verifier scored too few samples of the pool that is sampled from"


def verdicts_of(
    pool: MeasuredPool, level: float, gains: Gains, unserved: str | None, left_out: Mapping[str, str]
) -> tuple[Verdict, ...]:
    """Answers every question on one data set, from its main pool and the gains of its strategies.

    `unserved`: why there are no strategies; `left_out`: why some of them are not tried.
    """
    return (*_auc_verdicts(pool, level), *_strategy_verdicts(gains, unserved, left_out))


def _rival_signals(pool: MeasuredPool) -> Iterator[tuple[str, SignalAuc]]:
    """Returns the log-probability signals that a verifier has to beat; where possible, none was chosen on the reported
    rows.
    """
    logprobs = pool.logprob_aucs
    for name, one in logprobs.items():
        if name != BEST_SUFFIX or HONEST not in logprobs:
            yield name, one


def _auc_verdicts(pool: MeasuredPool, level: float) -> Iterator[Verdict]:
    for over in OVER:
        if over == WITHIN and pool.is_single:
            yield Verdict(_VerdictQuestion.CHANCE, Answer.UNASKED, over, why=ONE_TRACE)
        else:
            difference = pool.verifier_auc.over_chance(over, level)
            yield Verdict(_VerdictQuestion.CHANCE, is_above(difference), over, "0.5", difference)
    if pool.is_single:
        yield Verdict(_VerdictQuestion.RANDOM, Answer.UNASKED, why=ONE_TRACE)
    else:
        over_random = pool.gain_over_random(level)
        yield Verdict(
            _VerdictQuestion.RANDOM,
            is_above(over_random),
            against="a random pick of scored traces",
            difference=over_random,
        )
    against = list(_rival_signals(pool))
    raised = 1 - (1 - level) / max(len(against), 1)
    for over in OVER:
        why = NO_LOGPROBS if not against else ONE_TRACE if over == WITHIN and pool.is_single else ""
        if why:
            yield Verdict(_VerdictQuestion.LOGPROBS, Answer.UNASKED, over, why=why)
        else:
            yield _verdict_over_rivals(
                over, [(one.label(name), pool.auc_minus(one, over, raised)) for name, one in against]
            )


def _verdict_over_rivals(over: str, pairs: Sequence[tuple[str, PairedInterval]]) -> Verdict:
    """Yes where the verifier's AUC is above every rival's, no where it is below one; that rival, or the nearest, is
    shown.
    """
    answers = [is_above(difference) for _, difference in pairs]
    decision = Answer.NO if Answer.NO in answers else Answer.UNDECIDED if Answer.UNDECIDED in answers else Answer.YES
    of = [pair for pair, answer in zip(pairs, answers, strict=True) if answer is decision]
    name, difference = min(of, key=lambda pair: pair[1].difference if pair[1].difference is not None else 1.0)
    return Verdict(_VerdictQuestion.LOGPROBS, decision, over, name, difference)


def _strategy_verdicts(gains: Gains, unserved: str | None, left_out: Mapping[str, str]) -> Iterator[Verdict]:
    negative = next((why for what, why in left_out.items() if what.startswith(WEIGHTED)), NO_SCORES)
    for question, question_gains, why in (
        (_VerdictQuestion.WEIGHTED, gains.weighted, negative),
        (_VerdictQuestion.BEST, gains.best, NO_SCORES),
        (_VerdictQuestion.CONDITIONAL, gains.conditional, NO_PROBE),
        *([(_VerdictQuestion.ELSEWHERE, gains.elsewhere, "")] if gains.elsewhere else []),
        (_VerdictQuestion.COIN, gains.coin, NO_PROBE),
    ):
        yield (
            _gain_verdict(question, question_gains)
            if question_gains
            else Verdict(question, Answer.UNASKED, why=unserved or why)
        )
    if not gains.oracle:
        yield Verdict(_VerdictQuestion.ORACLE, Answer.UNASKED, why=unserved or ONE_SAMPLE)
        return
    last = gains.oracle[-1]
    against = f"oracle of {last.n} samples; best: {last.name}"
    yield Verdict(_VerdictQuestion.ORACLE, is_above(last.difference), against=against, difference=last.difference)
