"""The quality of verifiers: how well each tells right traces from wrong ones, beside signals that cost nothing.

Everything is measured on the same traces, those with a verdict, and compared in pairs. An area below one half stays
below: no score is turned round. `quality_of_log` measures the verifiers of a log, `quality_rows` gives the numbers as a
frame, and `quality_tables` gives tables for people.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolkit.log.describe.scored_traces import MOST_TRACES, ScoredTraces, scored_traces
from toolkit.log.read.log import Log, collect
from toolkit.notes import Note, warning
from toolkit.rounding import rounded_text
from toolkit.stats.curves.arrays import Interval, PairedInterval
from toolkit.stats.curves.roc import InfluencedEstimate, auc, grouped_auc, mean_with_influences, pooled_auc
from toolkit.stats.metrics.spill import Floats

if TYPE_CHECKING:
    from toolkit.show import Table

CHANCE, VOTES, PRIOR, WHOLE, SUFFIX = "chance", "share of votes", "answer prior", "whole text", "last {} tokens"
BEST, HONEST = "best k on these rows", "k chosen on the training rows"
EACH_K, MOST_K = 256, 320
"""Suffix lengths in a table: all up to the first number, then longer ones until there are about as many as
the second.
"""
PRIOR_WEIGHT = 1.0
"""The weight, in traces, of the overall share right in an answer's prior."""
BELOW_RANDOM = "below_random"
"""Code of the warning that the best of n by a verifier is below a random pick."""


@dataclass(frozen=True)
class _SignalQuality:
    """One row of the table: a signal's areas, its best-of-n, and differences to the reference and to a random pick.
    `remark`: what must be said of it, such as why it is missing.
    """

    name: str
    traces: int
    auc: Interval
    within: Interval
    best: Interval
    auc_difference: PairedInterval | None = None
    within_difference: PairedInterval | None = None
    over_random: PairedInterval | None = None
    remark: str = ""


@dataclass(frozen=True)
class VerifierQuality:
    """The quality of each signal on one pool and data set. `reference`: what differences are to; `suffixes`: for every
    k, by the writing model or the verifier `teller`.
    """

    dataset: str
    pool: str
    questions: int
    traces: int
    right: float
    reference: str | None
    signals: tuple[_SignalQuality, ...]
    suffixes: tuple[_SignalQuality, ...]
    notes: tuple[Note, ...]
    left_out: int
    teller: str
    simulated: bool = False


@dataclass(frozen=True, eq=False)
class _ScoredSignal:
    """A signal that may predict right answers: scores (N,), name, remark. `widened` multiplies its standard error."""

    name: str
    score: Floats
    remark: str = ""
    widened: float = 1.0


@dataclass(frozen=True)
class _BestSuffixLengths:
    """The best number of last tokens: `best` on these rows, `honest` chosen on others (None without such)."""

    best: int
    honest: int | None


@dataclass(frozen=True)
class _Estimates:
    auc: InfluencedEstimate
    within: InfluencedEstimate
    best: InfluencedEstimate
    random: InfluencedEstimate


METRICS = {
    "auc": "auc", "auc_within": "within", "best_of_n": "best", "auc_difference": "auc_difference",
    "within_difference": "within_difference", "over_random": "over_random",
}  # fmt: skip
"""The metric names of a signal's quality; the last three are differences, which have a p-value."""


def _measure_quality(
    traces: ScoredTraces, train: ScoredTraces | None, reference: str | None = None, untrained: str = "no training rows",
    simulated: bool = False,
) -> VerifierQuality:  # fmt: skip
    """Measures each signal on some traces. `train`: other traces, on which the prior is fitted and k is chosen;
    `untrained`: why there are none. `reference`: the verifier to compare with, by default the whole text's
    log-probability, else the share of votes.
    """
    lengths = best_suffix_lengths(traces, train)
    signals = list(signals_of(traces, train, untrained, lengths))
    known = {signal.name: signal for signal in signals if not np.isnan(signal.score).all()}
    chosen = next((name for name in (reference, WHOLE, VOTES) if name in known), None)
    measured = [_measure_signal(traces, one, known.get(chosen or "")) for one in signals]
    verifiers = sorted(measured[len(signals) - len(traces.scores) :], key=lambda one: -(one.auc.estimate or 0))
    rows = [_random_pick(traces), *measured[: len(signals) - len(traces.scores)], *verifiers]
    marks = {} if lengths is None else _lengths_to_show(traces.most_tokens, lengths)
    of_k = traces.log_probabilities_by_suffix(marks)
    suffixes = [_measure_signal(traces, _ScoredSignal(str(k), of_k[k], remark), None) for k, remark in marks.items()]
    return VerifierQuality(
        dataset=traces.dataset,
        pool=traces.pool,
        questions=int(traces.example.max()) + 1,
        traces=len(traces.right),
        right=float(traces.right.mean()),
        reference=chosen,
        signals=tuple(rows),
        suffixes=tuple(suffixes),
        notes=tuple(_notes(rows, suffixes)),
        left_out=traces.left_out,
        teller=traces.teller,
        simulated=simulated,
    )


def signals_of(
    traces: ScoredTraces, train: ScoredTraces | None, untrained: str, lengths: _BestSuffixLengths | None
) -> Iterator[_ScoredSignal]:
    """Yields the signals that may predict right answers, verifiers last. A missing one has a remark but no score."""
    nothing = np.full(len(traces.right), np.nan)
    yield _ScoredSignal(
        VOTES, traces.votes, "" if not np.isnan(traces.votes).all() else "no votes: one trace a question, or no answers"
    )
    if train is None:
        yield _ScoredSignal(PRIOR, nothing, untrained)
    else:
        yield _ScoredSignal(
            PRIOR, _share_right_by_answer(traces, train), "share right of equal answers on the training rows"
        )
    if lengths is not None:
        yield _ScoredSignal(SUFFIX.format(lengths.best), traces.suffix_log_probability(lengths.best), BEST)
        if lengths.honest is None:
            yield _ScoredSignal(SUFFIX.format("k"), nothing, f"k: {untrained}")
        else:
            yield _ScoredSignal(SUFFIX.format(lengths.honest), traces.suffix_log_probability(lengths.honest), HONEST)
    else:
        yield _ScoredSignal(SUFFIX.format("k"), nothing, "no log-probabilities of tokens are logged")
    yield _ScoredSignal(WHOLE, traces.whole, "" if not np.isnan(traces.whole).all() else "`sum_logprob` is not logged")
    for name, score in traces.scores.items():
        inside = float(traces.fold[name][~np.isnan(score)].mean())
        remark = f"{inside:.0%} of its scores are out of fold" if inside else ""
        yield _ScoredSignal(name, score, remark, float(np.sqrt(1 + inside)))


def _share_right_by_answer(traces: ScoredTraces, train: ScoredTraces) -> Floats:
    """The share right among training traces with the same answer, shrunk towards the share of all."""
    base = float(train.right.mean())
    learnt = pl.DataFrame({"answer": train.answers.cast(pl.String), "right": train.right})
    shares = learnt.group_by("answer").agg(
        prior=(pl.col("right").sum() + PRIOR_WEIGHT * base) / (pl.len() + PRIOR_WEIGHT)
    )
    joined = (
        traces.answers.cast(pl.String)
        .to_frame("answer")
        .join(shares, on="answer", how="left", nulls_equal=True, maintain_order="left")
    )
    return joined["prior"].fill_null(base).to_numpy()


def best_suffix_lengths(traces: ScoredTraces, train: ScoredTraces | None) -> _BestSuffixLengths | None:
    """The best suffix lengths, on these rows and chosen on others; None where no log-probabilities are logged."""
    if not traces.most_tokens or traces.tokens.is_null().all():
        return None
    return _BestSuffixLengths(
        _best_k(traces), _best_k(train, traces.most_tokens) if train is not None and train.most_tokens else None
    )


def _best_k(traces: ScoredTraces, most: int | None = None) -> int:
    """The suffix length with the largest pooled area; of equal ones the shortest."""
    areas = [
        auc(probability, traces.right)
        for probability in traces.suffix_log_probabilities(min(traces.most_tokens, most or traces.most_tokens))
    ]
    return int(np.argmax(areas)) + 1


def _lengths_to_show(longest: int, chosen: _BestSuffixLengths) -> Mapping[int, str]:
    step = max(1, (longest - EACH_K) // (MOST_K - EACH_K))
    some = {*range(1, min(EACH_K, longest) + 1), *range(EACH_K, longest + 1, step)}
    remarks = [(k, remark) for k, remark in ((chosen.best, BEST), (chosen.honest, HONEST)) if k is not None]
    notes = dict.fromkeys(sorted(some | {longest} | {k for k, _ in remarks}), "")
    for k, remark in remarks:
        notes[k] = f"{notes[k]}; {remark}" if notes[k] else remark
    return notes


def _measure_signal(traces: ScoredTraces, signal: _ScoredSignal, reference: _ScoredSignal | None) -> _SignalQuality:
    known = ~np.isnan(signal.score)
    alone = _area_estimates(traces, signal.score, known)
    differences: dict[str, PairedInterval] = {}
    if reference is not None and reference.name != signal.name and known.any():
        both, widened = known & ~np.isnan(reference.score), max(signal.widened, reference.widened)
        beside = alone if both.sum() == known.sum() else _area_estimates(traces, signal.score, both)
        other = _area_estimates(traces, reference.score, both)
        differences = {
            "auc_difference": beside.auc.difference_to(other.auc, widened=widened),
            "within_difference": beside.within.difference_to(other.within, widened=widened),
        }
    return _SignalQuality(
        name=signal.name,
        traces=int(known.sum()),
        auc=alone.auc.interval(widened=signal.widened),
        within=alone.within.interval(widened=signal.widened),
        best=alone.best.interval(widened=signal.widened),
        **differences,
        over_random=None
        if np.isnan(alone.best.estimate)
        else alone.best.difference_to(alone.random, widened=signal.widened),
        remark=signal.remark,
    )


def _area_estimates(traces: ScoredTraces, score: Floats, known: NDArray[np.bool_]) -> _Estimates:
    size = int(traces.unit.max()) + 1
    examples, first = np.unique(traces.example, return_index=True)
    of_example = traces.unit[first]
    inside = np.where(known, score, np.nan)
    area = pooled_auc(inside, traces.right, traces.unit, size)
    within = grouped_auc(inside, traces.right, traces.example, traces.unit, size)
    best, random = best_of_n_outcomes(traces, inside, len(examples))
    return _Estimates(
        area, within, mean_with_influences(best, of_example, size), mean_with_influences(random, of_example, size)
    )


def best_of_n_outcomes(traces: ScoredTraces, score: Floats, examples: int) -> tuple[Floats, Floats]:
    """Whether the trace with the highest score is right on each example, and the share right of its scored traces. The
    first of equal scores counts; NaN where none, or one, is scored.
    """
    known = np.flatnonzero(~np.isnan(score))
    example, right = traces.example[known], traces.right[known].astype(np.float64)
    count = np.bincount(example, minlength=examples)
    order = known[np.lexsort((known, -score[known], example))]
    head, start = np.unique(traces.example[order], return_index=True)
    best = np.full(examples, np.nan)
    best[head] = traces.right[order[start]]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.bincount(example, right, minlength=examples) / count
    if (count <= 1).all():
        return np.full(examples, np.nan), np.full(examples, np.nan)
    return best, np.where(count > 0, share, np.nan)


def _random_pick(traces: ScoredTraces) -> _SignalQuality:
    coin = _area_estimates(traces, np.zeros(len(traces.right)), np.ones(len(traces.right), bool))
    half, size = Interval(0.5, None, None, 0, None), len(traces.right)
    return _SignalQuality(CHANCE, size, half, half, coin.random.interval(), remark="a random pick")


def _notes(rows: list[_SignalQuality], suffixes: list[_SignalQuality]) -> Iterator[Note]:
    text = "the best of a question's traces is right less often than a random pick by"
    below = []
    for row in rows:
        if (over := _loss_to_random_pick(row)) is not None:
            limits = (
                ""
                if over.low is None or over.high is None
                else f" [{_points_text(over.low)}, {_points_text(over.high)}]"
            )
            below.append(f"`{row.name}` ({_points_text(over.difference or 0)}{limits} points)")
    if below:
        yield warning(BELOW_RANDOM, f"{text} {', '.join(below)}")
    lengths = [place for place, row in enumerate(suffixes) if _loss_to_random_pick(row) is not None]
    if lengths:
        runs = np.split(lengths, np.flatnonzero(np.diff(lengths) > 1) + 1)
        named = ", ".join(suffixes[run[0]].name + f"–{suffixes[run[-1]].name}" * (len(run) > 1) for run in runs)
        yield warning(BELOW_RANDOM, f"{text} the log-probability of the last {named} tokens")


def _loss_to_random_pick(row: _SignalQuality) -> PairedInterval | None:
    """The difference to a random pick, where best-of-n by this signal is right less often; else None."""
    over = row.over_random
    return over if over is not None and (over.difference or 0) < 0 else None


def _points_text(value: float) -> str:
    return rounded_text(100 * value, 1, signed=True)


TRAIN, TEST = "train", "test"
ROWS = {
    **dict.fromkeys(("dataset", "pool", "signal", "metric"), pl.String),
    **dict.fromkeys(("estimate", "low", "high"), pl.Float64), "n": pl.Int64, "p_value": pl.Float64,
    "remark": pl.String,
}  # fmt: skip
"""The columns of the frame of signals' qualities."""
TEST_ROWS, OTHER_ROWS, ALL_ROWS = "the split `test`", "all that was not trained on", "all, which were trained on"


def quality_of_log(
    log: Log,
    train: pl.Series | None = None,
    reference: str | Collection[str] = (),
    pools: Collection[str] | None = None,
) -> Iterator[tuple[str, VerifierQuality]]:
    """Yields the quality of each signal by data set and pool, and the words for the examples that it is measured on.

    `train`: ids of the examples that something was fitted on, by default those of the split `train`. Measured are the
    test examples, where there are some, else all others; where all were fitted on, these. With a `reference`, of
    verifiers the first that has scores, only what one of them has scores of.
    """
    if not log.has("examples") or not log.has("traces"):
        return
    references = (reference,) if isinstance(reference, str) else reference
    frame = collect(log.scan("examples", ["example_id", "split"]), log)
    learnt = frame.filter(pl.col("split") == TRAIN)["example_id"] if train is None else train
    others = frame.filter(~pl.col("example_id").is_in(learnt.implode()))
    test = others.filter(pl.col("split") == TEST)
    reported, which = (test["example_id"], TEST_ROWS) if test.height else (others["example_id"], OTHER_ROWS)
    why = "no examples were fitted on" if train is not None else f"no example has the split `{TRAIN}`"
    if reported.is_empty():
        reported, learnt, why = frame["example_id"], learnt.clear(), "all examples were fitted on"
        which = ALL_ROWS
    fitted = {(trace.dataset, trace.pool): trace for trace in scored_traces(log, learnt, pools)} if len(learnt) else {}
    for traces in scored_traces(log, reported, pools):
        fit = fitted.get((traces.dataset, traces.pool))
        reason = why if not len(learnt) else "no training rows in this pool"
        first = next((name for name in references if name in traces.scores), None)
        if _has_any_signal(traces) and (first is not None or not references):
            yield which, _measure_quality(traces, fit, first, reason, simulated=log.simulated)


def quality_rows(qualities: Iterable[VerifierQuality]) -> pl.DataFrame:
    """A frame of the signals' qualities: dataset, pool, signal, metric, estimate, low, high, n, p_value, remark.

    `metric`: auc, auc_within, best_of_n, and the differences auc_difference, within_difference (to the reference) and
    over_random, which alone have a p-value.
    """
    rows = [
        {"dataset": quality.dataset, "pool": quality.pool, "signal": signal.name, "metric": metric,
         "remark": signal.remark,
         "estimate": _estimate_of(value), "low": value.low, "high": value.high, "n": value.n,
         "p_value": getattr(value, "p_value", None)}
        for quality in qualities
        for signal in quality.signals
        for metric, name in METRICS.items()
        if (value := getattr(signal, name)) is not None
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=ROWS)


def _estimate_of(value: Interval | PairedInterval) -> float | None:
    return value.estimate if isinstance(value, Interval) else value.difference


def _has_any_signal(traces: ScoredTraces) -> bool:
    return bool(traces.scores) or traces.most_tokens > 0 or not pl.Series(traces.whole).is_nan().all()


def quality_tables(quality: VerifierQuality, examples: str) -> list[Table]:
    """The table of signals and, where log-probabilities of tokens are logged, the table of suffixes."""
    from toolkit.show import SIMULATED, Number, NumberWithInterval, Table, TableColumn

    where = f"`{quality.dataset}`, pool `{quality.pool}`"
    area, change = NumberWithInterval(3), NumberWithInterval(3, signed=True)
    share, points = NumberWithInterval(1, 100), NumberWithInterval(1, 100, signed=True)
    columns = (
        TableColumn("signal", key="signal"),
        TableColumn("traces", Number(0), "traces", drop=5),
        TableColumn("AUC", area, "auc", core=True),
        TableColumn("AUC within", area, "auc_within", core=True),
        TableColumn("Δ AUC", change, "auc_difference", drop=2),
        TableColumn("Δ within", change, "within_difference", drop=2),
        TableColumn("best of n %", share, "best", drop=3),
        TableColumn("Δ random", points, "over_random", drop=1),
        TableColumn("remark", key="remark", beneath=True),
    )
    below = (
        f"{quality.questions:,} questions, {quality.traces:,} judged traces, {quality.right:.1%} of them "
        f"right, of {examples}; intervals of 95 %, by question or cluster",
        f"{quality.left_out:,} more questions are left out: {MOST_TRACES:,} traces are compared"
        * (quality.left_out > 0),
        f"Δ AUC, Δ within: less those of `{quality.reference}`, on the traces that both score"
        * bool(quality.reference),
        "AUC within: mean over questions with right and wrong traces; Δ random: less a random pick of what is scored",
    )
    table = Table(
        f"What tells right traces from wrong ones: {where}",
        columns,
        tuple(_row_cells(row) for row in quality.signals),
        above=(*[SIMULATED] * quality.simulated, *map(str, quality.notes)),
        below=tuple(filter(None, below)),
    )
    if not quality.suffixes:
        return [table]
    places = (0, 2, 3, 6, 7, 8)
    rows = tuple(tuple(_row_cells(row)[at] for at in places) for row in quality.suffixes)
    lengths = (TableColumn("last tokens", key="k"), *(columns[at] for at in places[1:]))
    longest = int(quality.suffixes[-1].name)
    of_tokens = (
        f"log-probabilities of tokens by the verifier `{quality.teller}`" * bool(quality.teller),
        f"{len(rows)} of the {longest:,} lengths; the best is sought among all" * (len(rows) < longest),
    )
    title = f"Log-probability of the last tokens: {where}"
    return [table, Table(title, lengths, rows, below=tuple(filter(None, of_tokens)))]


def _row_cells(row: _SignalQuality) -> tuple[object, ...]:
    from toolkit.show import IntervalCell

    numbers = (row.auc, row.within, row.auc_difference, row.within_difference, row.best, row.over_random)
    values = (number and IntervalCell.of((_estimate_of(number), number.low, number.high)) for number in numbers)
    return (row.name, row.traces, *values, row.remark)
