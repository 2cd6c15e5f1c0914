"""Accuracy against mean samples: every strategy's front, chosen on one half of the examples, reported on the other.

The best of thousands of thresholds and numbers of samples looks better on the examples that it was chosen on than it
is. So the front is that of the one half; all numbers with intervals are of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from replay.analyses.strategies.strategies import (
    BEST,
    BY_SCORE,
    CONDITIONAL,
    CORRECTED,
    CORRECTED_WHEN,
    MAJORITY,
    PROBE,
    WEIGHTED,
    Strategies,
    Strategy,
    StrategySource,
    strategies,
)
from replay.analyses.strategies.strategy_grids import (
    ConditionalStrategy,
    VotesByScore,
    fit_votes_by_score,
    threshold_grid,
    unbeaten_points,
)  # fmt: skip
from replay.data.choice import Choice, UsedRows
from replay.data.conditions import ids_where
from replay.data.contents import read_contents
from replay.policies.suite import as_toml
from replay.runs.passes.example_set import ExampleSet, resampling_units
from replay.runs.passes.strata import strata_column, with_strata
from replay.sampling.orders import example_hashes, mix_bits
from toolkit.arguments import checks_arguments
from toolkit.errors import EmptyError, argument
from toolkit.log import AnyLog, collect, open_log
from toolkit.notes import Note
from toolkit.show import table_of
from toolkit.show.tables.html import simulated_mark
from toolkit.stats import OutcomeBlock, Settings, paired_interval, settings_of, summarise
from toolkit.stats.many.summary_notes import notes_on_strata
from toolkit.stats.metrics.outcomes import Store
from toolkit.stats.metrics.strata import Strata

PRICES = (*np.geomspace(0.3, 1e-5, 40), 0.0)
"""The prices of a sample, in correct answers, for which numbers of votes are fitted."""
MOST_POINTS = 12
"""How many points of a strategy's front are reported: its ends, and others evenly spread between them."""
ENSEMBLE = "ensemble"
INTERVALS = tuple(Settings.__dataclass_fields__)
PairedNumbers = tuple[float | None, float | None, float | None, float | None]
EMPTY: PairedNumbers = (None, None, None, None)
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "strategy": pl.String, "verifier": pl.String, "n": pl.Int64, "below": pl.List(pl.Float64),
    "votes": pl.List(pl.Int64), "sees_gold": pl.Boolean, "on_front": pl.Boolean,
    **dict.fromkeys(
        (
            "chosen_samples", "chosen_accuracy", "samples", "accuracy", "low", "high", "plain", "difference",
            "difference_low", "difference_high", "p_value", "coin", "coin_difference", "coin_low", "coin_high",
            "coin_p_value",
        ),
        pl.Float64,
    ),
    "examples": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Frontier:
    """The result of `frontier`; `front` has a row for each point.

    strategy, verifier, n (samples of a strategy that always draws them), below and votes (of one with a probe: the
    scores below which so many samples follow it); sees_gold (a diagnostic); on_front (whether no other strategy beat it
    on the examples it was chosen on); chosen_samples, chosen_accuracy (on those); samples, accuracy, low, high (on the
    others); plain (majority voting at the same mean samples) and the difference to it, with interval and p-value; coin
    (the same probe followed by the same numbers of samples, on examples that a coin chooses) and the difference to it:
    what the score adds; examples reported.

    `choice`: the examples of either half. `source`: what was read of the log.
    `left_out`: reasons by what was left out; `notes`: on the strata.
    """

    front: pl.DataFrame
    choice: Choice
    source: StrategySource
    left_out: Mapping[str, str]
    simulated: bool = False
    notes: tuple[Note, ...] = ()

    @property
    def n_chosen_on(self) -> int:
        """How many examples the settings were chosen on."""
        return self.choice.chosen.examples

    @property
    def n_reported_on(self) -> int:
        """How many examples everything else is reported on."""
        return self.choice.reported.examples

    def _repr_html_(self) -> str:
        frame = self.front.filter("on_front").select(
            "strategy", "verifier", "samples", "accuracy", "low", "high", "difference", "difference_low",
            "difference_high",
        )  # fmt: skip
        return (
            simulated_mark(self.simulated)
            + table_of(frame, f"What no other strategy beat, on {self.n_reported_on:,} other examples").html()
        )


@dataclass(frozen=True, eq=False)
class _StrategySetting:
    """One setting of a strategy: `n` samples always, or a number of samples by the score of a probe."""

    strategy: Strategy
    samples: float
    accuracy: float
    n: int | None = None
    rungs: VotesByScore | None = None

    def correctness_and_samples(
        self, on: Strategies, scores: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Correctness and samples paid (E,) on some examples; `scores` are the probe's by verifier."""
        if self.rungs is not None:
            return self.rungs.correctness_and_samples(_conditional_strategy(self.strategy, on, scores))
        if self.strategy.name == CORRECTED:
            assert on.corrected is not None
            return on.corrected, np.full(len(on.unit), 2.0)
        column = int(np.searchsorted(on.n, self.n or 1))
        return on.plain[self.strategy][:, column], np.full(len(on.unit), float(on.n[column]))


def _conditional_strategy(strategy: Strategy, on: Strategies, scores: Mapping[str, np.ndarray]) -> ConditionalStrategy:
    """The probe of a strategy, and what follows it where it is doubted; without a verifier it never is."""
    score = scores[strategy.verifier] if strategy.verifier is not None else np.zeros(len(on.unit))
    return on.self_correction_strategy(score) if strategy.name == CORRECTED_WHEN else on.conditional(score)


@checks_arguments()
def frontier(
    log: AnyLog, *, on: str | None = None, strata: str | None = None, settings: Settings | None = None, **options: Any
) -> Frontier:
    """The fronts of accuracy against mean samples, chosen on one half of the examples and reported on the other.

    `on`: a condition on the examples to choose on; all others are reported. Without it two halves are drawn by the
    seed, clusters undivided. `strata`: the column of examples within whose values these are resampled. Scores of
    several verifiers make an `ensemble`, too, fitted on the half that the front is chosen on. Other `options` (pool,
    probe, verifiers, action, n, samples, orders, where) go to `strategies`; `settings` are those of the intervals, or
    some of them by keyword. Raises ThinkbackError for names that the log lacks, and where either half has no example.
    """
    of_intervals = {name: options.pop(name) for name in [*options] if name in INTERVALS}
    settings = settings_of(settings, **of_intervals)
    opened_log = open_log(log)
    pool_strategies = strategies(opened_log, seed=settings.seed, **options)
    chosen = random_half_of_examples(pool_strategies.examples, settings.seed)
    if on is not None:
        chosen = pool_strategies.examples["example_id"].is_in(ids_where(opened_log, on, "on").implode()).to_numpy()
    if not chosen.any() or chosen.all():
        raise EmptyError(f"{argument('on')} leaves {'no' if chosen.all() else 'every'} example to be reported")
    drawn, crossed = ExampleSet(pool_strategies.examples, None), tuple[Note, ...]()
    column = None if strata is None else strata_column(read_contents(opened_log), strata, None, ())
    if column is not None:
        names = collect(opened_log.scan("examples", list({"example_id", column})), opened_log)
        if column not in drawn.frame.columns:
            drawn = replace(drawn, frame=drawn.frame.join(names, on="example_id", how="left", maintain_order="left"))
        drawn, crossed = with_strata(drawn, column, None, is_requested=True)
    front = front_of_strategies(pool_strategies, chosen, settings, drawn)
    return replace(front, simulated=opened_log.simulated, notes=(*crossed, *front.notes))


def random_half_of_examples(examples: pl.DataFrame, seed: int) -> np.ndarray:
    """A random half of the examples (E,), by hashes of their ids; clusters stay whole."""
    unit = resampling_units(examples)
    names = unit.unique().sort()
    hashes = mix_bits(example_hashes(names.to_list()) + np.uint64(seed % 2**64))
    half = names.gather(np.argsort(hashes, kind="stable")[: (len(names) + 1) // 2])
    return unit.is_in(half.implode()).to_numpy()


def front_of_strategies(
    pool_strategies: Strategies, chosen: np.ndarray, settings: Settings, drawn: ExampleSet | None = None
) -> Frontier:
    """The front of some strategies, chosen on the examples `chosen` (E,) and reported on the others."""
    first, second = pool_strategies.for_examples(chosen), pool_strategies.for_examples(~chosen)
    scores = dict(pool_strategies.scores or {})
    left_out = dict(pool_strategies.left_out or {})
    if pool_strategies.probe is not None and len(scores) > 1 and ENSEMBLE not in scores:
        scores[ENSEMBLE] = fit_score_ensemble(scores, pool_strategies.probe, chosen)
    early, late = ({name: one[on] for name, one in scores.items()} for on in (chosen, ~chosen))
    points = [point for family in _settings_by_strategy(first, early) for point in family]
    best = _unbeaten_points(points)
    strata = None if drawn is None else drawn.resampling_units(drawn.frame.filter(pl.Series(~chosen)))[1]
    rows = _front_rows(points, best, second, late, settings, strata)
    choice = Choice(UsedRows(examples=len(first.unit)), UsedRows(examples=len(second.unit)), tried=len(points))
    front = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return Frontier(front, choice, pool_strategies.source, left_out, notes=tuple(notes_on_strata(strata)))


def _settings_by_strategy(on: Strategies, scores: Mapping[str, np.ndarray]) -> Iterator[list[_StrategySetting]]:
    for strategy, values in on.plain.items():
        means = zip(on.n.tolist(), values.mean(axis=0).tolist(), strict=True)
        yield [_StrategySetting(strategy, float(n), mean, n=n) for n, mean in means]
    if on.probe is not None:
        yield [_StrategySetting(Strategy(PROBE), 1.0, float(on.probe.mean()), rungs=VotesByScore((), ()))]
    if on.corrected is not None:
        yield [_StrategySetting(Strategy(CORRECTED), 2.0, float(on.corrected.mean()))]
    for verifier in scores:
        yield _unbeaten_settings(Strategy(CONDITIONAL, verifier), on, scores)
        if on.corrected is not None:
            yield _unbeaten_settings(Strategy(CORRECTED_WHEN, verifier), on, scores)
        yield _fitted_settings(Strategy(BY_SCORE, verifier), on, scores)


def _unbeaten_settings(strategy: Strategy, on: Strategies, scores: Mapping[str, np.ndarray]) -> list[_StrategySetting]:
    """The settings (threshold, number of samples) of a strategy that no other one beats."""
    of = _conditional_strategy(strategy, on, scores)
    grid_values = threshold_grid(of, of.thresholds())
    at = np.flatnonzero(unbeaten_points(grid_values.accuracy.ravel(), grid_values.samples.ravel()))
    return _thin_out_points([
        _StrategySetting(
            strategy, float(grid_values.samples[t, j]), float(grid_values.accuracy[t, j]),
            rungs=VotesByScore((float(grid_values.thresholds[t]),), (int(grid_values.n[j]),)),
        )
        for t, j in zip(*np.unravel_index(at, grid_values.accuracy.shape), strict=True)
    ])  # fmt: skip


def _fitted_settings(strategy: Strategy, on: Strategies, scores: Mapping[str, np.ndarray]) -> list[_StrategySetting]:
    """The settings of a strategy whose numbers of votes fall with the score, fitted at every price of a sample."""
    of = _conditional_strategy(strategy, on, scores)
    points = []
    for rungs in dict.fromkeys(fit_votes_by_score(of, price) for price in PRICES):
        right, paid = rungs.correctness_and_samples(of)
        points.append(_StrategySetting(strategy, float(paid.mean()), float(right.mean()), rungs=rungs))
    return _thin_out_points(points)


def _thin_out_points(points: Sequence[_StrategySetting]) -> list[_StrategySetting]:
    """The settings of one strategy that no other beats, from cheap to expensive; if many, some evenly spread."""
    on = _unbeaten_points(points)
    front_points = sorted(
        (point for point, best in zip(points, on, strict=True) if best), key=lambda point: point.samples
    )
    place = np.log([point.samples for point in front_points])
    aims = np.linspace(place[0], place[-1], MOST_POINTS)
    return [front_points[at] for at in np.unique(np.abs(place[:, None] - aims).argmin(axis=0))]


def _unbeaten_points(points: Sequence[_StrategySetting]) -> np.ndarray:
    """Mask of the settings that no other beats; oracles are left out."""
    accuracy = np.array([-np.inf if point.strategy.sees_gold else point.accuracy for point in points])
    mask = unbeaten_points(accuracy, np.array([point.samples for point in points]))
    return np.asarray(mask & np.isfinite(accuracy))


def _front_rows(
    points: Sequence[_StrategySetting],
    best: np.ndarray,
    on: Strategies,
    scores: Mapping[str, np.ndarray],
    settings: Settings,
    strata: Strata | None,
) -> Iterator[tuple[object, ...]]:
    outcomes = [point.correctness_and_samples(on, scores) for point in points]
    names = [str(number) for number in range(len(points))]
    ids = on.examples["example_id"].to_numpy()
    block = OutcomeBlock(ids, on.unit, {"correct": np.stack([right for right, _ in outcomes])})
    store = Store.of_blocks(partial(iter, [block]), len(names), None, strata)
    summary = summarise(store, names, ranked=False, settings=settings).summary
    summary = summary.filter(pl.col("metric") == "accuracy")
    limits = {row["policy"]: row for row in summary.iter_rows(named=True)}
    for number, (point, (right, paid)) in enumerate(zip(points, outcomes, strict=True)):
        plain = on.vote_correctness(float(paid.mean()))
        against, coin = EMPTY, EMPTY
        at_random: float | None = None
        if point.strategy != Strategy(MAJORITY):
            against = _paired_difference_numbers(right, plain, on.unit, settings, strata)
        if point.rungs is not None and point.strategy.verifier is not None:
            by_coin = point.rungs.correctness_by_coin(_conditional_strategy(point.strategy, on, scores))
            at_random, coin = (
                float(by_coin.mean()),
                _paired_difference_numbers(right, by_coin, on.unit, settings, strata),
            )
        rungs, row = point.rungs, limits[names[number]]
        below, votes = (None, None) if rungs is None else (list(rungs.below), list(rungs.votes))
        yield (
            point.strategy.name, point.strategy.verifier, point.n, below, votes, point.strategy.sees_gold,
            bool(best[number]), point.samples, point.accuracy, float(paid.mean()), row["estimate"], row["low"],
            row["high"], float(plain.mean()), *against, at_random, *coin, row["n"],
        )  # fmt: skip


def _paired_difference_numbers(
    first: np.ndarray, second: np.ndarray, unit: np.ndarray, settings: Settings, strata: Strata | None
) -> PairedNumbers:
    interval = paired_interval(first, second, cluster=unit, settings=settings, strata=strata)
    return interval.difference, interval.low, interval.high, interval.p_value


def fit_score_ensemble(scores: Mapping[str, np.ndarray], right: np.ndarray, fit_on: np.ndarray) -> np.ndarray:
    """Probability (E,) of being right, fitted to the scores (E,) of several verifiers, standardised, where `fit_on`
    (E,).

    `right` (E,): correctness, a mean counting with its parts; read only where `fit_on` (E,). NaN where a score is.
    Where all of these are right, or wrong, the mean of the standardised scores.
    """
    from sklearn.linear_model import LogisticRegression

    columns = np.column_stack(list(scores.values()))
    known = ~np.isnan(columns).any(axis=1)
    fit = known & fit_on & ~np.isnan(right)
    probability = np.full(len(columns), np.nan)
    if not fit.any():
        return probability
    middle, spread = columns[fit].mean(axis=0), columns[fit].std(axis=0)
    columns = (columns - middle) / np.where(spread > 0, spread, 1.0)
    rows, weight = np.concatenate([columns[fit]] * 2), np.concatenate([right[fit], 1 - right[fit]])
    label = np.repeat([1, 0], fit.sum())
    counted = weight > 0
    if len(np.unique(label[counted])) < 2:
        probability[known] = columns[known].mean(axis=1)
        return probability
    model = LogisticRegression(max_iter=1000).fit(rows[counted], label[counted], weight[counted])
    probability[known] = model.predict_proba(columns[known])[:, 1]
    return probability


Table = dict[str, Any]
SELECTS = {MAJORITY: "majority", WEIGHTED: "weighted", BEST: "best"}
"""Strategy that always draws n samples -> its select."""


def front_policies(front: Frontier) -> str:
    """A policy file with the settings of a front, without the oracle and the ensemble, whose score no log has."""
    head = "# Settings of `thinkback frontier`, chosen on one half of the examples."
    return "\n\n".join([head, *map(as_toml, _policy_tables(front))]) + "\n"


def _policy_tables(front: Frontier) -> Iterator[Table]:
    for row in front.front.iter_rows(named=True):
        table = _policy_of_row(row, front.source)
        if table is not None and row["verifier"] != ENSEMBLE:
            numbers = row["n"] or ", ".join(
                f"{votes} below {below!r}" for below, votes in zip(row["below"] or [], row["votes"] or [], strict=True)
            )
            parts = (row["strategy"], row["verifier"], str(numbers))
            yield {"name": ", ".join(part for part in parts if part), **table}


def _policy_of_row(row: Mapping[str, Any], source: StrategySource) -> Table | None:
    """The policy of a row of a front; None for the oracle, which sees gold."""
    strategy, verifier, below, votes = (row[name] for name in ("strategy", "verifier", "below", "votes"))
    asks = {"verifier": verifier} if verifier else {}
    probe = {"kind": "sample", "pool": source.probe, "max_traces": 1, "select": "first"}
    act = {"kind": "act", "action": source.action, "base": source.probe}

    def sample_policy_table(traces: int, select: str) -> Table:
        drawn = select == SELECTS[WEIGHTED] and traces > source.exact
        mean = {"orders": source.orders, "seed": source.seed} if drawn else {"expected": True}
        verify = asks if select != SELECTS[MAJORITY] else {}
        return {"kind": "sample", "pool": source.pool, "max_traces": traces, **mean, **verify, "select": select}

    if strategy in SELECTS:
        return sample_policy_table(row["n"], SELECTS[strategy])
    if strategy == CORRECTED:
        return act
    if strategy == PROBE or (strategy == BY_SCORE and not votes):  # where all are believed
        return probe
    if strategy == BY_SCORE:
        graded = {**asks, "thresholds": below, "votes": votes, "then": sample_policy_table(votes[0], "majority")}
        return {"kind": "graded", "base": probe, **graded}
    if strategy in (CONDITIONAL, CORRECTED_WHEN):
        then = act if strategy == CORRECTED_WHEN else sample_policy_table(votes[0], "majority")
        return {"kind": "when", "base": probe, "gate": {**asks, "below": below[0]}, "then": then}
    return None
