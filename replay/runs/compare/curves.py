"""How quality grows with the number of traces: avg@k, pass@k, majority@k and best-of-k over all orders.

All are closed forms over all orders of the logged traces (pass@k: Chen et al. 2021, equation 1). All of a pool's
numbers are on the same examples, in one set of resamples; only the votes leave out examples with contested verdicts or
opaque answers. `curve_pairs` has the pools of a log, or of several, against each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from replay.data.conditions import ids_where
from replay.data.contents import Contents, open_with_contents
from replay.kinds.oracle import Oracle
from replay.kinds.sample import Sample
from replay.policies.base import Evaluator, Policy
from replay.runs.passes.example_set import ExampleSet
from replay.runs.passes.passes import correctness_of_policies
from replay.runs.passes.ranges import over_evaluators
from replay.runs.passes.strata import Weights, strata_column, with_strata
from toolkit.arguments import checks_arguments
from toolkit.errors import EmptyError, InvalidError, UnsuitableError, counted
from toolkit.log import AnyLog, Log, collect
from toolkit.notes import Note, note
from toolkit.stats import OutcomeBlock, Settings, differences, settings_of, summarise
from toolkit.stats.many.summary_notes import notes_on_strata
from toolkit.stats.metrics.outcomes import Store
from toolkit.workers.chosen import spread_over_workers

MIN_SHARE = 0.95
VOTES = "majority"
SCHEMA = pl.Schema({
    "pool": pl.String, "verifier": pl.String, "metric": pl.String, "k": pl.Int64, "estimate": pl.Float64,
    "low": pl.Float64, "high": pl.Float64, "n": pl.Int64,
})  # fmt: skip


@dataclass(frozen=True)
class _CurvePoint:
    """One point of a pool's curves: a metric at k traces, and for `best` the verifier."""

    metric: str
    k: int
    verifier: str | None = None


@dataclass(frozen=True, eq=False)
class _PoolCurves:
    """The points of a pool's curves on every example: `values` (curves, E) in the order of `plan`, on `examples` with
    the strata of `drawn`.

    Votes have NaN on examples with contested verdicts or opaque answers, of which there are `incomparable`.
    """

    pool: str
    plan: tuple[_CurvePoint, ...]
    values: np.ndarray
    examples: pl.DataFrame
    drawn: ExampleSet
    incomparable: int = 0
    crossed: tuple[Note, ...] = ()

    def values_as_outcomes(self) -> Store:
        """The values as if they were outcomes of policies."""
        unit, strata = self.drawn.resampling_units(self.examples)
        block = OutcomeBlock(self.examples["example_id"].to_numpy(), unit, {"correct": self.values})
        return Store.of_blocks(partial(iter, [block]), len(self.plan), None, strata)

    def split_by_coverage(self) -> Iterator[_PoolCurves]:
        """The curves that all examples have; then those that some examples lack, on the examples that have them all."""
        lacking = np.isnan(self.values)
        partial, whole = lacking.any(axis=1), ~lacking.any(axis=0)
        for mask, on in ((~partial, np.ones_like(whole)), (partial, whole)):
            if mask.any():
                plan = tuple(curve for curve, member in zip(self.plan, mask, strict=True) if member)
                values, examples = self.values[mask][:, on], self.examples.filter(pl.Series(on))
                yield replace(self, plan=plan, values=values, examples=examples)

    def notes(self) -> Iterator[Note]:
        """Notes on strata and weights, and on examples that the votes leave out."""
        yield from self.crossed
        yield from notes_on_strata(self.drawn.resampling_units(self.examples)[1])
        if not self.incomparable:
            return
        judged = "contested verdicts (equal answers judged differently) or opaque answers"
        count = f"{self.incomparable:,} of {counted(len(self.examples), 'example')}"
        if any(curve.metric == VOTES for curve in self.plan):
            text = f"majority@k of pool `{self.pool}` leaves out {count} with {judged}; the other curves keep them"
        else:
            text = f"pool `{self.pool}` has no majority@k: {judged} on {count}, which a vote cannot settle"
        yield note("incomparable", text)


@spread_over_workers
@checks_arguments()
def curves(
    log: AnyLog,
    *,
    pool: str | None = None,
    verifier: str | None = None,
    max_traces: int | None = None,
    where: str | None = None,
    strata: str | None = None,
    weigh: Weights | None = None,
    settings: Settings | None = None,
    seed: int | None = None,
    resamples: int | None = None,
    level: float | None = None,
    workers: str | None = None,
) -> pl.DataFrame:
    """The curves of a pool (default: of every pool with more than one trace) at k = 1, 2, 4 ... N traces.

    N is `max_traces`, or the largest number that 95 % of the pool's judged examples have; examples with fewer traces
    are left out, and those with contested verdicts or opaque answers are left out of `majority` alone. `best` is given
    for `verifier`, or for every verifier that scored all valid traces of enough examples; `where` is an SQL condition
    on the columns of `examples`, and `strata` and `weigh` are as for `run`. `settings` are those of the intervals, or
    some of them by keyword; `workers` is as for `run`. Columns: pool, verifier, metric (avg,
    pass, majority, best), k, estimate, low, high, n.
    Raises ThinkbackError for names that the log lacks, and for a log without judged traces.
    """
    settings = settings_of(settings, resamples=resamples, level=level, seed=seed)
    pools = measure_pool_curves(
        log, settings, pool=pool, verifier=verifier, max_traces=max_traces, where=where, strata=strata, weigh=weigh
    )
    return pl.concat([curves_table(one, settings) for one in pools])


def measure_pool_curves(
    log: AnyLog, settings: Settings, *, pool: str | None = None, verifier: str | None = None,
    max_traces: int | None = None, where: str | None = None, strata: str | None = None, weigh: Weights | None = None,
) -> list[_PoolCurves]:  # fmt: skip
    """The curves of each pool on every example, from which `curves` and its comparisons are computed."""
    if max_traces is not None and max_traces < 1:
        raise InvalidError(f"`max_traces` is {max_traces}; it takes an integer, at least 1")
    log, contents = open_with_contents(log)
    if pool is not None:
        contents.require_pool(pool)
        contents.require_permutable_traces(pool, "its subsets cannot be compared")
    if verifier is not None:
        contents.require_verifier(verifier)
    sizes = _judged_trace_counts(log)
    if where is not None:
        sizes = sizes.filter(pl.col("example_id").is_in(ids_where(log, where, "where").implode()))
    column = strata_column(contents, strata, weigh, ())
    columns = list(dict.fromkeys(["example_id", "labels", "gold", "cluster", *([] if column is None else [column])]))
    frame = collect(log.scan("examples", columns), log).sort("example_id")
    frame = frame.filter(pl.col("example_id").is_in(sizes["example_id"].unique().implode()))
    drawn, crossed = with_strata(ExampleSet(frame, None), column, weigh, is_requested=True)
    names = [pool] if pool is not None else sorted(sizes["pool"].unique().to_list())
    options = verifier, max_traces, sizes, drawn, pool is None
    pools = [one for name in names if (one := _pool_curves(log, contents, name, *options)) is not None]
    pools = [replace(one, crossed=crossed) for one in pools]
    if not pools:
        raise UnsuitableError(
            f"{log.address} has no curves: no pool has gold or verdicts, and two traces of a question"
        )
    return pools


def _judged_trace_counts(log: Log) -> pl.DataFrame:
    """How many judged traces each (pool, example) has, up to the first gap."""
    traces = log.scan("traces", ["example_id", "pool", "action", "sample_index", "correct"])
    judged = traces.filter((pl.col("action") == "solve") & pl.col("correct").is_not_null())
    place = pl.col("sample_index").rank("ordinal").over("pool", "example_id") - 1
    replayed = judged.filter(pl.col("sample_index") == place)
    return collect(replayed.group_by("pool", "example_id").agg(pl.len().alias("size")), log)


def _pool_curves(
    log: Log,
    contents: Contents,
    pool: str,
    verifier: str | None,
    max_traces: int | None,
    sizes: pl.DataFrame,
    drawn: ExampleSet,
    optional: bool,
) -> _PoolCurves | None:
    """The curves of one pool; None where it may be left out (`optional`) and has nothing to draw."""
    pool_sizes = sizes.filter(pl.col("pool") == pool)
    ordered = pool_sizes["size"].sort()
    most = max_traces or (int(ordered[int((1 - MIN_SHARE) * len(ordered))]) if len(ordered) else 0)
    members = pool_sizes.filter(pl.col("size") >= most)["example_id"]
    if optional and (most < 2 or members.is_empty() or pool in contents.ordered_pools):
        return None
    if members.is_empty():
        raise EmptyError(
            f"no judged example of pool `{pool}` has {counted(most, 'trace')}; give a smaller `max_traces`"
        )
    examples = drawn.with_ids(members).frame
    verifiers = [verifier] if verifier is not None else sorted(contents.verifiers)
    steps = sorted({2**i for i in range(most.bit_length())} | {most})
    plan = [_CurvePoint(m, k) for m in ("avg", "pass") for k in steps]
    plan += [_CurvePoint(VOTES, k) for k in steps] if pool not in contents.opaque else []
    plan += [_CurvePoint("best", k, name) for name in verifiers for k in steps]
    policies = [_policy_of_point(pool, curve).resolve(contents) for curve in plan]
    read = partial(_correct_and_incomparable, pool)
    parts = over_evaluators(log, contents, policies, examples, read, f"curves of {pool}")
    values = np.concatenate([part for part, _ in parts], axis=1)
    contested = np.concatenate([part for _, part in parts])
    scored = np.isnan(values).mean(axis=1) <= 1 - MIN_SHARE
    numbers = [number for number, enough in enumerate(scored) if enough]
    votes = np.array([plan[number].metric == VOTES for number in numbers])
    whole = ~(np.isnan(values[numbers]) & ~(votes[:, None] & contested)).any(axis=0)
    if verifier is not None and not scored[-1]:
        raise UnsuitableError(
            f"verifier `{verifier}` did not score all valid traces of 95 % of pool `{pool}`'s examples"
        )
    pool_plan, pool_values = tuple(plan[number] for number in numbers), values[numbers][:, whole]
    examples = examples.filter(pl.Series(whole))
    return _PoolCurves(pool, pool_plan, pool_values, examples, drawn, int(contested[whole].sum()))


def _correct_and_incomparable(pool: str, on: Evaluator) -> tuple[np.ndarray, np.ndarray]:
    """The correctness of every policy (P, E), and whether answers of the pool cannot be compared (E,)."""
    return correctness_of_policies(on), on.block.pools[pool].has_incomparable_answers


def _policy_of_point(pool: str, curve: _CurvePoint) -> Policy:
    """The policy that a point of a curve stands for: the exact mean over all orders."""
    name = f"{curve.metric}@{curve.k} {curve.verifier or ''}"
    if curve.metric == "pass":
        return Oracle(name=name, of=(pool,), max_traces=curve.k, expected=True)
    traces, select = (1, "first") if curve.metric == "avg" else (curve.k, curve.metric)
    return Sample(name=name, pool=pool, max_traces=traces, select=select, verifier=curve.verifier, expected=True)


def curves_table(pool_curves: _PoolCurves, settings: Settings) -> pl.DataFrame:
    """Means and intervals of all points of a pool; those on the same examples share their resamples."""
    tables = pl.concat([_curves_frame(part, settings) for part in pool_curves.split_by_coverage()])
    places = {curve: place for place, curve in enumerate(pool_curves.plan)}
    order = [places[_CurvePoint(*row)] for row in tables.select("metric", "k", "verifier").iter_rows()]
    return tables[np.argsort(order)]


def _curves_frame(pool_curves: _PoolCurves, settings: Settings) -> pl.DataFrame:
    plan, pool = pool_curves.plan, pool_curves.pool
    names = [_policy_of_point(pool, curve).name for curve in plan]
    summary = summarise(pool_curves.values_as_outcomes(), names, settings=settings).summary
    accuracy = summary.filter(pl.col("metric") == "accuracy")
    keys = pl.DataFrame(
        [(name, pool, curve.verifier, curve.metric, curve.k) for name, curve in zip(names, plan, strict=True)],
        schema=dict.fromkeys(("policy", "pool", "verifier", "curve"), pl.String) | {"k": pl.Int64},
        orient="row",
    )
    with_accuracy = keys.join(accuracy, on="policy", how="left", maintain_order="left")
    return with_accuracy.select(
        "pool", "verifier", pl.col("curve").alias("metric"), "k", "estimate", "low", "high", "n"
    ).cast(SCHEMA)


PAIR_SCHEMA = pl.Schema({
    "k": pl.Int64, "first_pool": pl.String, "first_metric": pl.String, "first_verifier": pl.String,
    "second_pool": pl.String, "second_metric": pl.String, "second_verifier": pl.String, "difference": pl.Float64,
    "low": pl.Float64, "high": pl.Float64, "p_value": pl.Float64, "n": pl.Int64, "method": pl.String,
})  # fmt: skip
SEES_GOLD = "pass"


def curve_pairs(pools: Sequence[_PoolCurves], settings: Settings) -> pl.DataFrame:
    """Differences between curves at each number of traces, first minus second, each interval for its pair alone;
    pass@k, which sees gold, is in none.

    The lines of a pool with each other, from two traces on: best-of-k minus majority@k minus avg@k. Then the same line
    of two pools, on the examples that both have.
    """
    frames = [pl.DataFrame(schema=PAIR_SCHEMA), *(_pairs_within_pool(pool, settings) for pool in pools)]
    frames += [_pairs_between_pools(one, other, settings) for one, other in itertools.combinations(pools, 2)]
    return pl.concat(frames)


def _pairs_within_pool(pool_curves: _PoolCurves, settings: Settings) -> pl.DataFrame:
    steps = sorted({curve.k for curve in pool_curves.plan if curve.k > 1})
    lines = [
        [i for i, curve in enumerate(pool_curves.plan) if curve.k == k and _counts_gold_answers(curve)] for k in steps
    ]
    owners = [(pool_curves.pool, curve) for curve in pool_curves.plan]
    pairs = [(later, earlier) for line in lines for earlier, later in itertools.combinations(line, 2)]
    return _pair_rows(pool_curves, owners, lines, pairs, settings)


def _pairs_between_pools(one: _PoolCurves, other: _PoolCurves, settings: Settings) -> pl.DataFrame:
    """Differences of the same curve between two pools."""
    shared = one.examples["example_id"].is_in(other.examples["example_id"].implode()).to_numpy()
    if not shared.any():
        return pl.DataFrame(schema=PAIR_SCHEMA)
    examples = one.examples.filter(pl.Series(shared))
    mask = other.examples["example_id"].is_in(examples["example_id"].implode()).to_numpy()
    values = np.concatenate([one.values[:, shared], other.values[:, mask]])
    places = {curve: len(one.plan) + i for i, curve in enumerate(other.plan)}
    pairs = [(i, places[curve]) for i, curve in enumerate(one.plan) if curve in places and _counts_gold_answers(curve)]
    owners = [(side.pool, curve) for side in (one, other) for curve in side.plan]
    both = _PoolCurves(one.pool, one.plan + other.plan, values, examples, one.drawn)
    return _pair_rows(both, owners, pairs, pairs, settings)


def _counts_gold_answers(curve: _CurvePoint) -> bool:
    return curve.metric != SEES_GOLD


def _pair_rows(
    pool_curves: _PoolCurves,
    owners: Sequence[tuple[str, _CurvePoint]],
    groups: Sequence[Sequence[int]],
    pairs: Sequence[tuple[int, int]],
    settings: Settings,
) -> pl.DataFrame:
    """The rows of some pairs (places in `owners`), each of which lies within one of the groups.

    Pairs with a line that some examples lack come last, and are on the examples that have all lines.
    """
    partial_ = np.isnan(pool_curves.values).any(axis=1)
    frames = [pl.DataFrame(schema=PAIR_SCHEMA)]
    for lacking in (False, True):
        subset = [pair for pair in pairs if partial_[list(pair)].any() == lacking]
        lines = np.arange(len(partial_)) if lacking else np.flatnonzero(~partial_)
        if subset:
            members = [[place for place in group if place in lines] for group in groups]
            frames.append(_pair_rows_on_shared_examples(pool_curves, owners, lines, members, subset, settings))
    return pl.concat(frames)


def _pair_rows_on_shared_examples(
    pool_curves: _PoolCurves, owners: Sequence[tuple[str, _CurvePoint]], lines: np.ndarray,
    groups: Sequence[Sequence[int]], pairs: Sequence[tuple[int, int]], settings: Settings,
) -> pl.DataFrame:  # fmt: skip
    values = pool_curves.values[lines]
    whole = ~np.isnan(values).any(axis=0)
    if not whole.any():
        return pl.DataFrame(schema=PAIR_SCHEMA)
    plan = tuple(owners[place][1] for place in lines)
    examples = pool_curves.examples.filter(pl.Series(whole))
    outcomes = replace(pool_curves, plan=plan, values=values[:, whole], examples=examples).values_as_outcomes()
    group_names = [[str(place) for place in group] for group in groups]
    frame = differences(outcomes, list(map(str, lines)), "accuracy", group_names, settings=settings)
    rows = {(int(row["policy"]), int(row["baseline"])): row for row in frame.iter_rows(named=True)}
    return pl.DataFrame(list(_paired_rows(rows, owners, pairs)), schema=PAIR_SCHEMA, orient="row")


def _paired_rows(
    rows: dict[tuple[int, int], dict[str, object]],
    owners: Sequence[tuple[str, _CurvePoint]],
    pairs: Sequence[tuple[int, int]],
) -> Iterator[tuple[object, ...]]:
    for first, second in pairs:
        row = rows[first, second]
        lines = [(pool, curve.metric, curve.verifier) for pool, curve in (owners[first], owners[second])]
        values = [row[name] for name in ("difference", "low", "high", "p_value", "n", "method")]
        yield owners[first][1].k, *lines[0], *lines[1], *values
