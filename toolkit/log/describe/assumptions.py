"""Checks of what replays assume of a pool's traces: order, spread, sizes, settings, seconds.

Traces are compared within one group: the attempts at an example, or the revisions of one trace. What blocks of examples
give are sums, so that no log has to fit in memory. docs/assumptions.md says what each number means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import polars as pl

from toolkit.log.describe.trace_groups import POOL, Floats, TraceGroups
from toolkit.stats.many.summary_notes import BATCHED

GROUP = (*POOL, "example_id", "parent_id")
SETTINGS = ("model", "temperature", "max_tokens")
COLUMNS = (*SETTINGS, "finish_reason", "finalizer_used", "latency_s", "device_s")
"""Columns of traces that these checks read beside those of every description."""
SURE = 3.0
"""The least deviation, in standard errors, for a remark; so large that a dozen pools rarely have one by luck."""
AT_LIMIT = "length"


def order_sums(groups: TraceGroups) -> pl.DataFrame:
    """Sums over groups of judged traces by pool and action, from which `order_frame` computes.

    With c = correct − the group's mean, i the sample index, N traces: `slope` Σ(i − ī)c, `spread` Σ(i − ī)²,
    `chance` the variance of `slope` over all orders of the group; `lag` Σ c·c' over neighbours c, c' and `lag_chance`
    its mean over all orders, −Σc²/N.
    """
    correct = groups.frame["correct"]
    judged = correct.is_not_null().to_numpy()
    group = groups.group[judged]
    count = len(groups.start)
    n = np.bincount(group, minlength=count).astype(np.float64)

    def total(values: Floats) -> Floats:
        return np.bincount(group, values, count).astype(np.float64, copy=False)

    with np.errstate(invalid="ignore", divide="ignore"):  # groups without a judged trace, which count as nothing
        y, i = correct.drop_nulls().cast(pl.Float64).to_numpy(), groups.sample_index[judged].astype(np.float64)
        mean = total(y) / n
        c, here = y - mean[group], i - (total(i) / n)[group]
        square, spread, beyond = total(c**2), total(here**2), n - 1
        follows = np.append(group[1:] == group[:-1], False) if len(group) else np.zeros(0, np.bool_)
        lag = total(np.where(follows, c * np.roll(c, -1), 0.0))
        lag_chance = -square / n
        of_group = {
            "groups": n > 1, "all_groups": n > 0, "traces": n, "traces_squared": n**2, "right": n * mean,
            "right_squared": n * mean**2, "lag_error": (lag - lag_chance) ** 2, "square": square,
            "slope": total(here * c), "spread": spread, "chance": np.where(n > 1, spread * square / beyond, 0.0),
            "lag": lag, "lag_chance": lag_chance, "lag_full": beyond * square / n,
        }  # fmt: skip
    sums = {name: groups.sum_by_kind(np.where(n > 0, values, 0.0)) for name, values in of_group.items()}
    named = groups.kinds.with_columns(**sums).with_columns(pl.col("groups", "all_groups").cast(pl.UInt32))
    return named.filter(pl.col("all_groups") > 0)


def order_frame(sums: pl.DataFrame) -> pl.DataFrame:
    """The table `order` of a Description: pools where some group has two judged traces. `lag_expected`: the average
    over all orders, −1/(N − 1); `between` and `sampling` come from a one-way analysis of variance.
    """
    added = sums.group_by(POOL).agg(pl.all().sum()).filter(pl.col("groups") > 0)
    count, traces = pl.col("all_groups").cast(pl.Float64), pl.col("traces")
    sampling = pl.col("square") / (traces - count)
    spread = (pl.col("right_squared") - pl.col("right") ** 2 / traces) / (count - 1)
    size = (traces - pl.col("traces_squared") / traces) / (count - 1)
    between = pl.when(count > 1).then((spread - sampling) / size)
    share = pl.max_horizontal(between, 0.0)
    return added.sort(pl.col("action") != "solve", *POOL).select(
        *POOL,
        "groups",
        trend=_ratio_or_null(pl.col("slope"), pl.col("spread")),
        trend_z=_ratio_or_null(pl.col("slope"), pl.col("chance").sqrt()),
        lag=_ratio_or_null(pl.col("lag"), pl.col("lag_full")),
        lag_expected=_ratio_or_null(pl.col("lag_chance"), pl.col("lag_full")),
        lag_z=_ratio_or_null(pl.col("lag") - pl.col("lag_chance"), _null_if_tiny(pl.col("lag_error")).sqrt()),
        between=share,
        sampling=sampling,
        share_between=_ratio_or_null(share, share + sampling),
    )


def _ratio_or_null(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(part / whole)


def _null_if_tiny(value: pl.Expr) -> pl.Expr:
    """The value, or null where a sum of squares is only rounding, as in groups of two traces."""
    return pl.when(value > 1e-18).then(value)


def size_counts(groups: TraceGroups) -> pl.DataFrame:
    """How many groups have each number of traces, judged traces, right traces, and pairs of traces that agree."""
    frame = groups.frame
    answered = frame.select(group=pl.Series(groups.group), answer="answer").drop_nulls()
    answers = answered.group_by("group", "answer").len()
    same = answers["len"].cast(pl.Int64).to_numpy()
    agreeing = np.bincount(answers["group"].to_numpy(), same * (same - 1), len(groups.start))
    of_group = {
        "kind": groups.kind,
        "size": groups.size,
        "judged": groups.group_sum(frame["correct"].is_not_null().to_numpy()),
        "right": groups.group_sum(frame["correct"].fill_null(False).to_numpy()),
        "agreeing": agreeing.astype(np.int64),
    }
    counted = pl.DataFrame(of_group).group_by(pl.all()).len("groups").cast({"groups": pl.Int64})
    named = groups.kinds.with_row_index("kind").cast({"kind": pl.Int64})
    return counted.join(named, on="kind").select(*POOL, "size", "judged", "right", "agreeing", "groups")


def size_frame(counts: pl.DataFrame) -> pl.DataFrame:
    """The columns `size_…` of a Description's `settings`: whether shares depend on a group's number of traces, which
    they cannot where the run always asked for as many. Null where all groups are equal. The z is robust, as small
    groups vary more.
    """
    size, pairs = pl.col("size").cast(pl.Float64), (pl.col("size") * (pl.col("size") - 1)).cast(pl.Float64)
    seen = counts.with_columns(
        share_right=_ratio_or_null(pl.col("right").cast(pl.Float64), pl.col("judged").cast(pl.Float64)),
        share_agreement=_ratio_or_null(pl.col("agreeing").cast(pl.Float64), pairs),
    )
    frame = seen.select(POOL).unique()
    for name in ("right", "agreement"):
        known = seen.filter(pl.col(f"share_{name}").is_not_null())
        weight, value = pl.col("groups").cast(pl.Float64), pl.col(f"share_{name}")
        x, y = (one - (weight * one).sum() / weight.sum() for one in (size, value))
        sums = known.group_by(POOL).agg(
            together=(weight * x * y).sum(),
            error=(weight * (x * y) ** 2).sum().sqrt(),
            widths=((weight * x**2).sum() * (weight * y**2).sum()).sqrt(),
        )
        together = pl.col("together")
        corr = {
            f"size_{name}": _ratio_or_null(together, pl.col("widths")),
            f"size_{name}_z": _ratio_or_null(together, pl.col("error")),
        }
        frame = frame.join(sums.select(*POOL, **corr), on=POOL, how="left")
    return frame


def setting_sums(groups: TraceGroups) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The distinct settings of each pool, and sums over its traces by pool and action, for `setting_frame`."""
    traces = groups.frame
    distinct = traces.select(*POOL, *SETTINGS).unique()
    several = distinct.group_by(POOL).len().filter(pl.col("len") > 1)  # of the others no group mixes any
    rows = pl.DataFrame({"group": groups.group}).hstack(traces.select(*POOL, *SETTINGS))
    mixing = rows.join(several, on=POOL, how="semi").unique(["group", *SETTINGS])["group"].to_numpy()
    mixed = np.bincount(mixing, minlength=len(groups.start)) > 1
    of_kind = groups.kinds.with_columns(mixed=groups.sum_by_kind(mixed).astype(np.int64))
    both = pl.col("latency_s").is_not_null() & pl.col("device_s").is_not_null()
    sums = traces.group_by(POOL).agg(
        traces=pl.len().cast(pl.Int64),
        ended=pl.col("finish_reason").count().cast(pl.Int64),
        cut=(pl.col("finish_reason") == AT_LIMIT).sum().cast(pl.Int64),
        finalizer_known=pl.col("finalizer_used").count().cast(pl.Int64),
        finalized=pl.col("finalizer_used").sum().cast(pl.Int64),
        timed=both.sum().cast(pl.Int64),
        latency=pl.col("latency_s").filter(both).cast(pl.Float64).sum(),
        device=pl.col("device_s").filter(both).cast(pl.Float64).sum(),
    )
    return distinct, sums.join(of_kind, on=POOL)


def setting_frame(settings: pl.DataFrame, sums: pl.DataFrame, without_prefix: Sequence[str]) -> pl.DataFrame:
    """The columns of a Description's `settings` other than `size_…`."""
    kinds = settings.unique().group_by(POOL).len("settings").cast({"settings": pl.Int64})
    added = sums.group_by(POOL).agg(pl.all().sum()).join(kinds, on=POOL)
    timed = pl.col("timed")
    return added.sort(pl.col("action") != "solve", *POOL).select(
        *POOL,
        "settings",
        "mixed",
        prefix=~pl.col("pool").is_in(list(without_prefix)),
        at_limit=_ratio_or_null(pl.col("cut"), pl.col("ended")),
        finalized=_ratio_or_null(pl.col("finalized"), pl.col("finalizer_known")),
        latency_s=_ratio_or_null(pl.col("latency"), timed),
        device_s=_ratio_or_null(pl.col("device"), timed),
        batched=_ratio_or_null(pl.col("latency"), pl.col("device")),
    )


def repeat_sums(traces: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Sums over repeated readings of the same text by verifier, pool and action, for `noise_frame`.

    `traces` has a column `text` (or a hash of it); `scores` are the verifications of these traces.
    """
    with_text = traces.filter(pl.col("text").is_not_null())
    by = ("verifier", *GROUP, "text", "answer")
    alone = scores.filter(pl.col("candidates").is_null()).select("trace_id", "example_id", "verifier", "score")
    read = alone.join(with_text.select("trace_id", *GROUP, "text", "answer"), on=["trace_id", "example_id"])
    score = pl.col("score")
    whole = read.group_by("verifier", *POOL).agg(
        scored=pl.len().cast(pl.Int64), score=score.sum(), score_squared=(score**2).sum()
    )
    texts = read.group_by(by).agg(again=pl.len().cast(pl.Int64) - 1, noise=((score - score.mean()) ** 2).sum())
    repeated = texts.group_by("verifier", *POOL).agg(pl.col("again", "noise").sum())
    return whole.join(repeated, on=["verifier", *POOL])


def noise_frame(sums: pl.DataFrame) -> pl.DataFrame:
    """verifier, pool, action, `repeats` and `noise` of a Description's `verifiers`; null where none was read twice."""
    key = ("verifier", *POOL)
    added = sums.group_by(key).agg(pl.all().sum())
    spread = (pl.col("score_squared") - pl.col("score") ** 2 / pl.col("scored")) / (pl.col("scored") - 1)
    again = pl.col("again")
    noise = pl.when((again > 0) & (spread > 0)).then((pl.col("noise") / again / spread).sqrt())
    return added.select(*key, repeats="again", noise=noise)


def assumption_remarks(order: pl.DataFrame, settings: pl.DataFrame, unfolding: Collection[str] = ()) -> Iterator[str]:
    """Yields sentences on the assumptions that a log's numbers contradict. `settings` has the columns of `size_frame`.
    Traces of pools that are `unfolding` come in the order of what is revealed, which every policy keeps.
    """
    yield from (f"`{pool}`: guesses while a question unfolds, which are replayed in their order" for pool in unfolding)
    settings = settings.filter(~pl.col("pool").is_in([*unfolding]))
    for row in order.iter_rows(named=True):
        name = _pool_name(row)
        if abs(row["trend_z"] or 0) > SURE:
            change = f"changes by {_rounded(100 * row['trend'], '+.2f')} points from one sample index to the next"
            yield f"{name}: the share right {change} (z {_rounded(row['trend_z'])}): its traces are not exchangeable"
        if abs(row["lag_z"] or 0) > SURE:
            expected = _rounded(row["lag_expected"], ".4f")
            lag = f"{_rounded(row['lag'], '.4f')}, not {expected} (z {_rounded(row['lag_z'])})"
            yield f"{name}: neighbouring traces correlate by {lag}: its traces are not exchangeable"
    for row in settings.iter_rows(named=True):
        name = _pool_name(row)
        if row["mixed"]:
            groups = "1 group mixes" if row["mixed"] == 1 else f"{row['mixed']:,} groups mix"
            yield f"{name}: {groups} settings: give each setting a pool of its own"
        sizes = [
            f"{'more' if row[key] > 0 else 'less'} often {what} (z {_rounded(row[f'{key}_z'])})"
            for what, key in (("right", "size_right"), ("in agreement", "size_agreement"))
            if abs(row[f"{key}_z"] or 0) > SURE
        ]
        if sizes:
            sized = f"examples with more traces are {' and '.join(sizes)}"
            yield f"{name}: {sized}: its run may have stopped by a rule of its own"
    several = [_pool_name(row) for row in settings.filter(mixed=0).iter_rows(named=True) if row["settings"] > 1]
    if several:
        yield f"{', '.join(several)}: several settings, one for all traces of an example"
    shared = [row for row in settings.iter_rows(named=True) if (row["batched"] or 0) > BATCHED]
    if shared:
        most = max(shared, key=lambda row: float(row["batched"]))
        yield (
            f"seconds: calls of {len(shared)} of {settings.height} pools and actions were measured in batches"
            f" (a call of {_pool_name(most)} waited {most['latency_s']:.3g} s for {most['device_s']:.3g} s of the"
            " device's work): a sum of their `latency_s` is not what one user would wait for them one after the other"
        )


def _rounded(value: float, form: str = ".2f") -> str:
    """A number in the form that the tables show."""
    return f"{value:{form}}".replace("-", "−")


def _pool_name(row: dict[str, object]) -> str:
    return f"`{row['pool']}`" if row["action"] == "solve" else f"`{row['pool']}` ({row['action']})"
