"""The headroom from each policy to an oracle: the share that it reaches, its regret, and what its gap consists of.

The gap of a policy to being always right has three parts, which add up to it exactly:

- generation: no trace that it might have answered with is right;
- stopping: some of these is right, but none that it paid for;
- selection: it paid for a right trace, and answered something else.

With a graded measure in place of correctness, the best trace stands in the place of a right one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.calls import PolicyPath, RandomDraw, Realization
from replay.runs.passes.passes import paths_by_block
from replay.runs.saved.display import policy_row
from replay.runs.saved.findings import Findings, RunSource
from replay.runs.saved.provenance import single_attempt_policy
from replay.sampling.over_orders import highest_value_probability
from toolkit.columns import OutcomeColumn, metric_column
from toolkit.errors import RequiredError, require_known
from toolkit.notes import Note
from toolkit.show import SIMULATED, NameForm, NumberWithInterval, Table, TableColumn, short_names
from toolkit.show.ranking.one_column import paper_names, with_numbered_notes
from toolkit.show.ranking.ranking import ON_CLUSTERS, ON_STRATA, cell_of, mark_reasons
from toolkit.stats import OutcomeBlock, Settings, summarise
from toolkit.stats.many.compare import ACCURACY
from toolkit.stats.many.headroom import captured_shares
from toolkit.stats.metrics.outcomes import Store

SHARE, REGRET = "share_of_headroom", "regret"
GAP = GENERATION, STOPPING, SELECTION = "generation", "stopping", "selection"
SELECTED = GAP.index(SELECTION)
MEASURES = (SHARE, REGRET, *GAP)
CORRECT = "correct"
SCHEMA = {
    "policy": pl.String, "measure": pl.String, "estimate": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "n": pl.Int64, "method": pl.String,
}  # fmt: skip
HEADINGS = {
    SHARE: "of headroom %", REGRET: "regret", GENERATION: "generation", STOPPING: "stopping", SELECTION: "selection",
}  # fmt: skip
ROUNDING = 1e-9
GAPS = "gaps.parquet"
"""The file of a saved result with the parts of the gap."""


@dataclass(frozen=True, eq=False)
class Headroom:
    """The headroom from a baseline to an oracle, and each policy's place in it.

    `frame`: policy, measure, estimate, low, high, n, method. `baseline` is where the headroom begins, None where no
    shares are known; `parts`: whether those of the gap are; `called`: what tables call policies, by name.
    """

    frame: pl.DataFrame
    oracle: str
    baseline: str | None
    parts: bool
    log_name: str
    level: float
    simulated: bool
    accuracy: pl.DataFrame
    notes: tuple[Note, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)
    quality: str = ACCURACY

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def table(self, limit: int | None = None) -> Table:
        """The table of at most `limit` policies, the best first."""
        known = {(policy, measure): cell for policy, measure, *cell in self.frame.iter_rows()}
        measures = [one for one in MEASURES if any(key[1] == one for key in known)]
        form = NumberWithInterval(1, 100)
        columns = [TableColumn("policy", NameForm(self.called)), TableColumn(f"{self.quality} %", form, ACCURACY)]
        columns += [TableColumn(HEADINGS[one], form, one, drop=place) for place, one in enumerate(measures)]
        order = self.accuracy.sort("estimate", descending=True, nulls_last=True, maintain_order=True)
        rows = []
        for policy, *interval in order.select("policy", "estimate", "low", "high", "n", "method").iter_rows():
            rows.append(
                (policy, *(cell_of(one) for one in (interval, *(known.get((policy, one)) for one in measures))))
            )
        more = 0 if limit is None else max(0, len(rows) - limit)
        cut = [f"{more:,} more policies are in headroom.csv."] if more else []
        return Table(
            f"Headroom on {self.log_name}: what policies lack to {self.oracle}",
            tuple(columns),
            tuple(rows[:limit]),
            above=(SIMULATED,) if self.simulated else (),
            below=(*cut, *self._notes(), *self._mark_explanation(), *map(str, self.notes)),
            faint=frozenset(i for i, row in enumerate(rows[:limit]) if row[0] == self.oracle),
            marks=(("simulated", "true"),) if self.simulated else (),
        )

    def one_column(self, limit: int | None = None) -> Table:
        """The table for a column of a paper: policy, quality, share (or regret), and at most four numbered lines."""
        whole = self.table(limit)
        measure = REGRET if self.baseline is None else SHARE
        table = whole.only([key for key in (ACCURACY, measure) if key in [column.key for column in whole.columns]])
        names, key = paper_names({policy: self.called.get(policy, policy) for policy in self.accuracy["policy"]})
        above, rows = names[self.oracle], len(table.rows)
        of = f", {rows} of {self.accuracy.height} policies" if rows < self.accuracy.height else ""
        over = "over clusters" if any(note.code in ON_CLUSTERS for note in self.notes) else "paired by example"
        notes = [
            f"{int(self.accuracy['n'].to_numpy().max()):,} examples{of}; {100 * self.level:g} % intervals, {over}."
        ]
        if self.baseline is None:
            notes.append(f"Points below {above}.")
        else:
            notes.append(f"From {names[self.baseline]} (0) to {above} (100); intervals hold for all policies at once.")
        return with_numbered_notes(table, names, dict(zip((ACCURACY, measure), notes, strict=True)), key)

    def _mark_explanation(self) -> Iterator[str]:
        clustered = any(note.code in ON_CLUSTERS for note in self.notes)
        marks = mark_reasons([*self.frame["method"], *self.accuracy["method"]], clustered)
        if marks:
            yield f"†: {'; '.join(marks)}."

    def _notes(self) -> Iterator[str]:
        yield f"regret: points of {self.quality} below `{self.oracle}`. In brackets {100 * self.level:g} % intervals."
        if self.baseline is not None:
            yield (
                f"of headroom: how far from `{self.baseline}` (0) to `{self.oracle}` (100), a ratio of differences. "
                "Its intervals hold for all policies at once. A dash where the two are not told apart."
            )
        if self.parts:
            if self.frame["measure"].is_in(GAP).any():
                yield (
                    "The gap to 100 % in points: generation, no trace is better that it might have answered with; "
                    "stopping, one is, but it paid for none; selection, it paid for one and answered something else."
                )
        else:
            yield "The result was saved without the parts of the gap: replay again, and save it with `headroom=True`."


def _gap_parts_by_block(source: RunSource, could: np.ndarray) -> Iterator[OutcomeBlock]:
    """The parts of the gap of every policy on every example, block by block, from one pass over the log.

    `could` (P, parts) is filled with whether a policy's part could have been other than 0 on some example.
    """
    plan, policies = source.plan, source.policies
    slices = [sorted(policy.slices(plan.contents)) for policy in policies]
    unit, _ = plan.examples.resampling_units(plan.examples.frame)
    seeing = {number: False for number, policy in enumerate(policies) if policy.diagnostic and not policy.policy_parts}
    for block, here, path_parts in paths_by_block(plan, policies, source.acting):
        parts = np.zeros((len(GAP), len(policies), len(block.examples)))
        for path_part in path_parts:
            names = slices[path_part.number]
            parts[:, path_part.number] = np.where(
                path_part.on, _gap_parts(block, path_part.path, names), parts[:, path_part.number]
            )
            could[path_part.number] |= _may_have_gap_parts(block, path_part.path, names, path_part.on)
        for number in seeing:  # it knows gold, so what it has not chosen wrongly here it never would
            seeing[number] |= bool(np.nansum(parts[SELECTED, number]) > 0)
        ids = block.examples["example_id"].to_numpy()
        yield OutcomeBlock(ids, unit[here], dict(zip(GAP, parts, strict=True)))
    for number, missed in seeing.items():
        could[number, SELECTED] = missed


def _gap_parts(block: LogBlock, path: PolicyPath, names: Sequence[str]) -> np.ndarray:
    """The parts of a path's gap (3, E): generation, stopping, selection; `names`: slices that its answer may be in.

    NaN where the example is unjudged. What it pays by chance is weighed: a mean over orders has the mean of the parts.
    """
    paid, reached = np.zeros((2, len(block.examples)))
    for realization in path.realizations:
        best = _best_paid_correctness(block, realization)
        paid += np.where(realization.weight > 0, realization.weight * best, 0.0)
        reached = np.maximum(reached, np.where(realization.weight > 0, best, 0.0))
    for name in names:
        pool = block.pools[name]
        reached = np.maximum(reached, _best_correctness(pool.credit_or_correct, pool.has_trace))
    parts = np.stack([1 - reached, reached - paid, paid - path.outcome.correct])
    # what is 0 in exact arithmetic, such as a mean over orders less itself
    return np.where(np.isnan(path.outcome.correct), np.nan, np.where(np.abs(parts) < ROUNDING, 0.0, parts))


def _may_have_gap_parts(block: LogBlock, path: PolicyPath, names: Sequence[str], on: np.ndarray) -> np.ndarray:
    """Whether each part (parts,) of the gap may differ from 0 on any example in `on` (E,), by what a path pays.

    Nothing is stopped too early where every trace is paid for, and nothing is chosen wrongly of one trace alone.
    """
    left = several = False
    for realization in path.realizations:
        counts = on & (realization.weight > 0)
        paid = {name: np.zeros(block.pools[name].has_trace.shape) for name in names}  # probability of each trace
        for segment in realization.segments:
            for key, mask in segment.calls.items():
                if key.writes_traces:
                    likely = block.pools[key.slice].has_trace * mask.probability
                    paid[key.slice] = np.maximum(paid[key.slice], likely) if key.slice in paid else likely
        left |= any((block.pools[name].has_trace & (paid[name] < 1))[counts].any() for name in names)
        several |= bool(
            (sum((likely.sum(axis=1) for likely in paid.values()), np.zeros(len(on)))[counts] > 1 + ROUNDING).any()
        )
    return np.array([True, left, several])


def _best_paid_correctness(block: LogBlock, realization: Realization) -> np.ndarray:
    """Correctness (E,) of the best trace that a realization pays, a mean over random draws; 0 where it pays none."""
    best = np.zeros(len(block.examples))
    drawn: dict[RandomDraw, np.ndarray] = {}
    for segment in realization.segments:
        for key, mask in segment.calls.items():
            if not key.writes_traces:
                continue
            pool = block.pools[key.slice]
            judgement, among = pool.credit_or_correct, pool.has_trace & (mask.among > 0)
            if mask.draw is None:
                best = np.maximum(best, _best_correctness(judgement, among))
            else:
                before = drawn.get(mask.draw, np.zeros(among.shape))
                drawn[mask.draw] = np.where(among, np.nan_to_num(judgement), before)
    for draw, value in drawn.items():  # last, since a mean of the best is not the best of means
        values, there = np.maximum(best[:, None], value), draw.among > 0
        chance = highest_value_probability(values, there, there.sum(axis=1), draw.count)
        best = np.where(there.any(axis=1), (chance * values).sum(axis=1), best)
    return best


def _best_correctness(judgement: np.ndarray, among: np.ndarray) -> np.ndarray:
    """The highest correctness (E,) of the traces `among` (E, T); 0 where none is there or judged."""
    return np.asarray(np.where(among & ~np.isnan(judgement), judgement, 0.0).max(axis=1, initial=0.0))


def gap_frame(source: RunSource, names: Sequence[str], settings: Settings) -> pl.DataFrame:
    """The parts of every policy's gap as a frame, of those that answer with traces; a part that can only be 0 has no
    interval.
    """
    answering = [policy.name for policy in source.policies if policy.slices(source.plan.contents)]
    if not answering:
        return pl.DataFrame(schema=SCHEMA)
    columns = [OutcomeColumn(name, rate=True, quality=True) for name in GAP]
    could = np.zeros((len(names), len(GAP)), bool)
    _, strata = source.plan.examples.resampling_units(source.plan.examples.frame)
    store = Store.of_blocks(lambda: _gap_parts_by_block(source, could), len(names), None, strata)
    summary = summarise(store, names, leaders=(), metric=GENERATION, columns=columns, settings=settings)
    keys = pl.DataFrame(
        {
            "policy": np.repeat(np.array(names, object), len(GAP)).tolist(),
            "measure": [*GAP] * len(names),
            "could": could.ravel(),
        }
    )
    frame = summary.summary.rename({"metric": "measure"}).join(keys, on=["policy", "measure"], maintain_order="left")
    return (
        frame.with_columns(pl.when("could").then(pl.col(one)).alias(one) for one in ("low", "high", "method"))
        .filter(pl.col("policy").is_in(answering))
        .select(list(SCHEMA))
    )


def headroom(
    result: Findings, gaps: pl.DataFrame | None, oracle: str | None = None, baseline: str | None = None
) -> Headroom:
    """The headroom of each policy: the share that it reaches, its regret, and the parts of its gap.

    `gaps` is `gap_frame`'s, None where it is not known. The oracle is by default the best diagnostic policy, the
    baseline one attempt at what that of the result draws from, or that itself; without one there are no shares. These
    hold at once for all policies. ThinkbackError where there is no oracle.
    """
    summariser, names = result.summariser, result.summariser.names
    oracle = _headroom_oracle(result, oracle)
    if baseline is None:
        baseline = single_attempt_policy(result.policies, summariser.baseline) or summariser.baseline
    if baseline is not None:
        require_known(baseline, names, f"no policy is named `{baseline}`")
    settings, store = summariser.settings, summariser.outcomes.statistics().only_columns([CORRECT])
    summary = summarise(store, names, baseline=oracle, leaders=(), columns=result.columns, settings=settings)
    behind = summary.comparisons.filter(metric=ACCURACY, baseline=oracle)
    regrets = behind.select(
        "policy", pl.lit(REGRET).alias("measure"), -pl.col("difference").alias("estimate"),
        -pl.col("high").alias("low"), -pl.col("low").alias("high"), "n", "method",
    )  # fmt: skip
    frames = [regrets.with_columns(pl.col("estimate", "low", "high") + 0.0)]
    begins = baseline if baseline != oracle else None
    on_units = tuple(note for note in summary.notes if note.code in ON_CLUSTERS | ON_STRATA)
    if begins is not None:
        among = [number for number, policy in enumerate(result.policies) if not policy.diagnostic]
        share = captured_shares(store, CORRECT, names.index(begins), names.index(oracle), settings, among)
        values = {"policy": names, "estimate": share.share, "low": share.low, "high": share.high}
        shares = pl.DataFrame(values, nan_to_null=True).with_columns(measure=pl.lit(SHARE), n=pl.lit(summary.judged))
        frames.append(
            shares.with_columns(method=pl.Series([one or None for one in share.method.tolist()], dtype=pl.String))
        )
    frames += [] if gaps is None else [gaps]
    places = {"policy": names, "measure": MEASURES}
    whole = pl.concat([frame.select(list(SCHEMA)).cast(SCHEMA) for frame in frames])  # type: ignore[arg-type]
    return Headroom(
        frame=whole.sort(
            pl.col(column).replace_strict(known, range(len(known)), return_dtype=pl.Int64)
            for column, known in places.items()
        ),
        oracle=oracle,
        baseline=begins,
        parts=gaps is not None,
        log_name=result.log_name,
        level=settings.level,
        simulated=result.simulated,
        accuracy=result.summary.filter(metric=ACCURACY),
        notes=on_units,
        called=short_names([policy_row(policy) for policy in result.policies]),
        quality=metric_column(ACCURACY, result.columns).label,
    )


def _headroom_oracle(result: Findings, name: str | None) -> str:
    """The oracle that the headroom ends at. ThinkbackError where there is none."""
    names = result.summariser.names
    if name is not None:
        require_known(name, names, f"no policy is named `{name}`")
        return name
    seeing = [policy.name for policy in result.policies if policy.diagnostic]
    known = result.summary.filter((pl.col("metric") == ACCURACY) & pl.col("policy").is_in(seeing))
    known = known.drop_nulls("estimate").sort("estimate", descending=True, maintain_order=True)
    if known.is_empty():
        raise RequiredError(
            'headroom ends at an oracle, and the result has none: replay with a policy of `kind = "oracle"`, or name '
            "another policy as `oracle`"
        )
    return str(known["policy"][0])
