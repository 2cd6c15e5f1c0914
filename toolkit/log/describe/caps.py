"""The largest cap that each example supports, by kind of policy, and why it supports no larger one.

A *limits* frame counts the examples of a block: `kind, of, cap` (the policy kind, what it runs on, the key that
is capped), `least` and `limit` (the smallest and the largest cap that these examples support; `limit` is null where
nothing limits it, and 0 where they support none), `why` (what they lack for another one), `n` (how many they are) and
`first` (the first of their ids).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from toolkit.log.describe.trace_groups import NO_PLACE, TraceGroups

SCHEMA = {
    "kind": pl.String, "of": pl.String, "cap": pl.String, "least": pl.Int64, "limit": pl.Int64, "why": pl.String,
    "n": pl.Int64, "first": pl.String,
}  # fmt: skip
_ORDER = (
    "sample", "sample, whole", "sample, verified", "sample, whole, verified", "sample, listwise", "act", "retrieve",
    "buzz",
)  # fmt: skip
_KINDS = {kind: place for place, kind in enumerate(_ORDER)}
LISTWISE = "sample, listwise"
VERIFIED = ("sample, verified", "sample, whole, verified", LISTWISE)
ONE_CAP = ("sample, whole", "sample, whole, verified", LISTWISE)
"""Kinds of policies where an example may support a cap and no smaller one, because a call over several traces is not
cut.
"""


_GAP = "with a gap in the sample indices"
_OTHER_SIZE = "with another number of traces"
_NO_MORE = "with no more traces"


def _limit_rows(frame: pl.DataFrame, kind: str, subject: pl.Expr, cap: str) -> pl.DataFrame:
    least = pl.col("least") if "least" in frame.columns else pl.lit(1)
    by = (subject.alias("of"), least.alias("least"), "limit", "why")
    counted = frame.group_by(by).agg(n=pl.len(), first=pl.col("example_id").min())
    named = counted.with_columns(kind=pl.lit(kind), cap=pl.lit(cap))
    return named.select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


_BEFORE_GAP = pl.col("sample_index").rank("ordinal").cast(pl.Int64) - 1 == pl.col("sample_index")
"""Whether a revision comes before a gap in the sample indices of those by its action and pool."""


def _whole_pool_limits(limits: pl.DataFrame, gapped: pl.Expr, unfit: pl.Expr) -> pl.DataFrame:
    """The limits for pools whose traces were generated at once. Each example supports exactly its size, or nothing."""
    other = pl.when(gapped).then(pl.lit(_GAP)).otherwise(pl.lit(_OTHER_SIZE))
    return limits.with_columns(
        least="limit",
        limit=pl.when(unfit).then(0).otherwise("limit"),
        why=pl.when(pl.col("why") == _NO_MORE).then(other).otherwise("why"),
    )


def _zero_without_value(limits: pl.DataFrame, examples: pl.DataFrame, column: str) -> pl.DataFrame:
    """The limits, set to 0 for examples without a value in `column`."""
    known = pl.col("example_id").is_in(examples.filter(pl.col(column).is_not_null())["example_id"].implode())
    limit, why = pl.when(known).then("limit").otherwise(0), pl.when(known).then("why")
    return limits.with_columns(limit=limit, why=why.otherwise(pl.lit(f"with no {column}")))


def limits_of_pools(ids: pl.DataFrame, groups: TraceGroups, whole_pools: frozenset[str]) -> pl.DataFrame:
    """The limits of `sample` without a verifier: an example supports the traces of the pool before a gap.

    `whole_pools` are those with `prefix: false`: each example supports exactly its size, and none with a gap.
    """
    usable = groups.group_sum(groups.is_before_gap)
    gap = pl.when("gapped").then(pl.lit(_GAP)).otherwise(pl.lit(_NO_MORE))
    limits = _solve_group_columns(ids, groups, {"limit": usable, "gapped": usable < groups.size}).with_columns(why=gap)
    whole = _with_absent(ids, limits.drop("gapped"), ["pool"], "with no trace of it")
    at_once, gapped = pl.col("pool").is_in(list(whole_pools)), pl.col("why") == _GAP
    kinds = {
        "sample": whole.filter(~at_once),
        "sample, whole": _whole_pool_limits(whole.filter(at_once), gapped, gapped),
    }
    return pl.concat([_limit_rows(frame, kind, pl.col("pool"), "max_traces") for kind, frame in kinds.items()])


def _solve_group_columns(ids: pl.DataFrame, groups: TraceGroups, columns: Mapping[str, np.ndarray]) -> pl.DataFrame:
    """Columns of groups, with pool and example, of the groups of solves of known examples."""
    solve = (groups.kinds["action"] == "solve").to_numpy()
    some = solve[groups.kind] & (groups.example < ids.height)
    named = {"pool": groups.kinds["pool"][groups.kind[some]], "example_id": groups.ids[groups.example[some]]}
    return pl.DataFrame(named | {name: values[some] for name, values in columns.items()})


def limits_of_verifiers(
    ids: pl.DataFrame, groups: TraceGroups, marked: pl.DataFrame, whole_pools: frozenset[str], verifiers: Sequence[str]
) -> pl.DataFrame:
    """The limits of `sample` with a verifier: the traces before a gap, and before the first valid one without a score.

    `marked` are the scores with `at`, the row of their trace in `groups`. `verifiers` are those of the whole log: what
    a block's examples support may not depend on what else is in the block.
    """
    calls = [
        _solve_group_columns(ids, groups, _score_counts_of_groups(groups, marked.filter(pl.col("verifier") == name)))
        .with_columns(pl.lit(name).alias("verifier"))
        .filter(pl.col("size") > 0)
        for name in verifiers
    ]
    if not calls:
        return pl.DataFrame(schema=SCHEMA)
    known = (pl.when(pl.col(name) != NO_PLACE).then(name).alias(name) for name in ("unscored", "least"))
    limits = pl.concat(calls).with_columns(known)
    whole = _with_absent(ids, limits, ["verifier", "pool"], "with no trace of the pool")
    at_once = pl.col("pool").is_in(list(whole_pools))
    gapped = at_once & (pl.col("logged") > pl.col("size"))
    listwise = pl.col("listwise").fill_null(False)
    lacks = pl.when(pl.col("unscored").is_not_null()).then(pl.lit("with a valid trace without a score"))
    plain = whole.filter(~listwise).with_columns(
        least=pl.lit(1),
        limit=pl.col("unscored").fill_null(pl.col("size")).fill_null(0),
        why=pl.coalesce("why", lacks.otherwise(pl.lit(_NO_MORE))),
    )
    exact = _whole_pool_limits(plain.filter(at_once), gapped, gapped | pl.col("unscored").is_not_null())
    ranked = _listwise_limits(whole.filter(listwise), at_once, gapped)
    of = pl.format("{} by {}", "pool", "verifier")
    kinds = {"sample, verified": plain.filter(~at_once), "sample, whole, verified": exact, LISTWISE: ranked}
    return pl.concat([_limit_rows(frame, kind, of, "max_traces") for kind, frame in kinds.items()])


def _score_counts_of_groups(groups: TraceGroups, scores: pl.DataFrame) -> dict[str, np.ndarray]:
    """Numbers (G,) of the scores of one verifier, over a group's traces before a gap.

    - `logged`: all traces; `size`: these; `listwise`: whether they were ranked in one call.
    - `unscored`: the traces before the first valid one without a score, `NO_PLACE` where there is none.
    - `least`: the traces up to the last one with a score. A call that saw the first c has c at least this.
    - `next`: the traces before the first valid one that comes after these, `size` where there is none.
    - `all_seen`, `valid_seen`: of these, the call saw all; all the valid ones and no other.
    """
    usable, group = groups.is_before_gap, groups.group
    candidates = np.full(groups.frame.height, -1)  # -1 without a score, 0 of a call on one trace
    candidates[scores["at"].to_numpy()] = scores["candidates"].cast(pl.Int64).fill_null(0).to_numpy()
    scored, valid = usable & (candidates >= 0), usable & groups.frame["valid"].to_numpy()
    count, size = groups.sample_index + 1, groups.group_sum(usable)
    last = -groups.group_minimum(-count, scored)  # -NO_PLACE without a score
    number = groups.group_sum(scored)
    together = groups.group_sum(scored & (candidates != number[group])) == 0
    missing, after = valid & ~scored, count > last[group]
    further = groups.group_minimum(count - 1, missing & after & (number > 0)[group])
    return {
        "logged": groups.size, "size": size, "listwise": groups.group_sum(scored & (candidates > 0)) > 0,
        "unscored": groups.group_minimum(count - 1, missing), "least": np.where(number > 0, last, NO_PLACE),
        "next": np.where(further == NO_PLACE, size, further),
        "all_seen": together & (number == last),
        "valid_seen": together & (groups.group_sum((scored != valid) & ~after) == 0),
    }  # fmt: skip


def _listwise_limits(calls: pl.DataFrame, at_once: pl.Expr, gapped: pl.Expr) -> pl.DataFrame:
    """The caps that listwise calls support. A call on the first c traces supports exactly c; one on the valid ones of
    the first c supports every cap from c up to the next valid trace.
    """
    most = pl.when("valid_seen").then("next").when("all_seen").then("least").otherwise(0)
    bounds = calls.with_columns(limit=most)
    fits = pl.col("size").is_between("least", "limit") & ~gapped
    bounds = bounds.with_columns(  # a pool that was generated at once supports its size or nothing
        least=pl.when(at_once).then("size").otherwise("least"),
        limit=pl.when(at_once).then(pl.when(fits).then("size").otherwise(0)).otherwise("limit"),
    )
    other = pl.when(pl.col("limit") > 0).then(pl.lit("ranked at another number of traces"))
    apart = other.otherwise(pl.lit("with traces that the verifier did not rank together"))
    return bounds.with_columns(why=pl.coalesce("why", pl.when(gapped).then(pl.lit(_GAP)), apart))


def limits_of_actions(ids: pl.DataFrame, traces: pl.DataFrame) -> pl.DataFrame:
    """The limits of `act`: the revisions of the base pool's sample 0, by action, base and pool of the revision."""
    bases = traces.filter((pl.col("action") == "solve") & (pl.col("sample_index") == 0))
    revised = traces.filter(pl.col("action") != "solve").join(
        bases.select("example_id", base="pool", parent_id="trace_id"), on=["example_id", "parent_id"]
    )
    by = ["action", "base", "pool"]
    usable = revised.filter(_BEFORE_GAP.over(*by, "example_id"))
    limits = usable.group_by(*by, "example_id").agg(limit=pl.len()).with_columns(why=pl.lit("with no more revisions"))
    bare = bases.select("example_id", base="pool")
    whole = _with_absent(ids, limits, by, "with no revision of sample 0")
    based = whole.join(bare.with_columns(has_base=True), on=["example_id", "base"], how="left")
    why = pl.when(pl.col("has_base").is_null()).then(pl.lit("with no sample 0 of the base")).otherwise(pl.col("why"))
    of = pl.format("{} of {} (pool {})", "action", "base", "pool")
    return _limit_rows(based.with_columns(why=why), "act", of, "rollouts")


def limits_of_rounds(ids: pl.DataFrame, rounds: pl.DataFrame) -> pl.DataFrame:
    """The limits of `retrieve`: the number of rounds of the hop with fewest."""
    hops = rounds.group_by("pool", "example_id", "hop").agg(limit=pl.len())
    limits = hops.group_by("pool", "example_id").agg(pl.col("limit").min(), why=pl.lit("with no more rounds"))
    whole = _with_absent(ids, limits, ["pool"], "with no round")
    return _limit_rows(whole, "retrieve", pl.col("pool"), "rounds")


def limits_of_claim_rounds(ids: pl.DataFrame, examples: pl.DataFrame, checks: pl.DataFrame) -> pl.DataFrame:
    """The limits of `buzz`: rounds of undecided claims, and claims of a stream whose end was not logged as `none`."""
    none = pl.col("verdict") == "none"
    present = checks.select("pool", "example_id").unique()
    claim = ["pool", "example_id", "claim"]
    ended = checks.filter(~none).sort("round").group_by(claim).agg(n=pl.len(), last=pl.col("verdict").last())
    open_claims = ended.filter(pl.col("last") == "not_enough").group_by("pool", "example_id").agg(limit=pl.min("n"))
    unit = ["pool", "example_id", "unit"]
    streamed = checks.filter(pl.col("stage") == "stream").group_by(unit)
    stream = streamed.agg(n=pl.col("claim").filter(~none).n_unique(), closed=none.any())
    unclosed = stream.filter(~pl.col("closed")).group_by("pool", "example_id").agg(limit=pl.col("n").min())
    parts = []
    for cap, bound, lack in (
        ("max_rounds", open_claims, "with a claim left `not_enough` after its last round"),
        ("max_claims", unclosed, "with a stream that ends without a `none` row"),
    ):
        limits = present.join(bound, on=["pool", "example_id"], how="left").with_columns(why=pl.lit(lack))
        whole = _with_absent(ids, limits, ["pool"], "with no check")
        parts.append(_limit_rows(_zero_without_value(whole, examples, "gold_error"), "buzz", pl.col("pool"), cap))
    return pl.concat(parts)


def _with_absent(ids: pl.DataFrame, limits: pl.DataFrame, by: list[str], absent: str) -> pl.DataFrame:
    """Adds rows, so that every group has every example. Added rows have limit 0 and the reason `absent`. `limits` has
    at most one row for an example of a group, and examples that are among `ids`.
    """
    defaults = {"limit": pl.lit(None, pl.Int64), "why": pl.lit(None, pl.String)}
    added = [value.alias(name) for name, value in defaults.items() if name not in limits.columns]
    whole = limits.with_columns(*added).with_columns(pl.col("limit").cast(pl.Int64))
    lacking = limits.group_by(by).len().filter(pl.col("len") < ids.height).select(by)
    if lacking.is_empty():
        return whole
    missing = lacking.join(ids, how="cross").join(limits, on=[*by, "example_id"], how="anti")
    reasons = missing.with_columns(limit=pl.lit(0, pl.Int64), why=pl.lit(absent))
    return pl.concat([whole, reasons], how="diagonal")


def caps_frame(limits: pl.DataFrame, examples: int) -> pl.DataFrame:
    """The table `caps` of a Description. `limits` are all blocks' limits; `examples` is the number in the whole log."""
    rows = []
    called = limits.filter(pl.col("kind") == LISTWISE)["of"].unique()
    by_list = pl.col("kind").is_in(VERIFIED) & pl.col("of").is_in(called.implode())
    limits = limits.with_columns(kind=pl.when(by_list).then(pl.lit(LISTWISE)).otherwise("kind"))
    for (kind, of, cap), rows_of_cap in limits.partition_by(["kind", "of", "cap"], as_dict=True).items():
        absent = examples - int(rows_of_cap["n"].sum())  # in blocks where nobody has the pool, verifier or action
        every, most = (_largest_cap(rows_of_cap, share, examples) for share in (1.0, 0.95))
        rows.append((kind, of, cap, every, most, _unsupported_text(rows_of_cap, absent, most, kind)))
    rows.sort(key=lambda row: (_KINDS[row[0]], row[1], row[2]))
    names = {"kind": pl.String, "of": pl.String, "cap": pl.String, "all": pl.Int64, "most": pl.Int64, "rest": pl.String}
    return pl.DataFrame(rows, schema=names, orient="row")


def _largest_cap(rows_of_cap: pl.DataFrame, share: float, examples: int) -> int | None:
    """The largest cap that `share` of the examples supports; null where nothing limits it, 0 where no cap is."""
    bounds = rows_of_cap.group_by("least", "limit").agg(pl.col("n").sum())
    caps = bounds.select(cap="limit").unique().join(bounds, how="cross").filter(_supports_cap(pl.col("cap")))
    counted = caps.group_by("cap").agg(pl.col("n").sum()).sort("cap", descending=True, nulls_last=False)
    enough = counted.filter(pl.col("n") >= math.ceil(share * examples - 1e-9))
    cap: int | None = enough["cap"][0] if enough.height else 0
    return cap


def _supports_cap(cap: pl.Expr) -> pl.Expr:
    """Whether a row of limits supports a cap. Without a limit it supports every cap, the null one included."""
    return pl.col("limit").is_null() | ((pl.col("limit") >= cap) & (pl.col("least") <= cap)).fill_null(False)


def _unsupported_text(rows_of_cap: pl.DataFrame, absent: int, most: int | None, kind: str) -> str:
    """The words for why some examples do not support the largest cap that any example supports."""
    target = None if rows_of_cap["limit"].null_count() else rows_of_cap.select(pl.col("limit").max()).item()
    if kind in ONE_CAP:
        target = most or target
    short = rows_of_cap.filter(~_supports_cap(pl.lit(target, pl.Int64)))
    if not short.height and not absent:
        return ""
    reasons = short.group_by("why").agg(pl.col("n").sum(), pl.col("first").min())
    ordered = reasons.sort("n", "why", descending=[True, False])
    words = [f"{n:,} {why} (`{first}`)" for why, n, first in ordered.select("why", "n", "first").iter_rows()]
    if absent:
        words.append(f"{absent:,} with none of it")
    some = max((limit for limit in short["limit"] if limit is not None), default=0) > 0
    goal = f"any {'larger ' * some}cap" if target is None else f"{target:,}"
    lacking = f"for {goal}: {', '.join(words)}"
    largest = rows_of_cap.select(pl.col("limit").max()).item()
    if not kind.startswith("sample, whole") or not largest:
        return lacking
    # The cap may then exceed an example's traces, but never cut them.
    available = int(rows_of_cap.filter(pl.col("limit") > 0)["n"].sum())
    return f'{lacking}; {largest:,} covers {available:,} with on_missing = "use_available"'
