"""What a log has, and whether the policies of a run can be served by it at all: names, pools, actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from replay.data.block import Prices, Request
from replay.data.needs import Wanted, check_feature, check_gate, check_route, resolve_act, want_gate
from replay.policies.base import Oracle, Policy, Sample, nested
from replay.policies.interventions import Act, Route, When
from replay.sampling.stops import Agreement, Margin, Never, Window
from toolkit.errors import ThinkbackError, suggest
from toolkit.log import Log, collect


@dataclass(frozen=True)
class Contents:
    """Names in a log: pools of first attempts, actions with the pools that they revise, verifiers, columns."""

    pools: frozenset[str]
    opaque: frozenset[str]  # pools with traces that have verdicts but no answers
    actions: frozenset[str]
    verifiers: frozenset[str]
    trace_columns: Mapping[str, pl.DataType]
    example_columns: Mapping[str, pl.DataType]
    whole: frozenset[str]  # pools that are replayed whole or not at all
    features: Mapping[str, pl.DataType]  # columns of features, but for the keys
    sizes: Mapping[str, int]  # largest number of traces of an example, by pool of first attempts
    revisions: frozenset[tuple[str, str, str]]  # (action, base pool, own pool) of revisions of a sample 0


def read_contents(log: Log) -> Contents:
    """One scan over the names in the log."""
    kinds = log.scan("traces", ["pool", "action", "opaque", "sample_index"]).group_by("pool", "action")
    frame = collect(kinds.agg(pl.col("opaque").any(), pl.col("sample_index").max()), log)
    solves = frame.filter(pl.col("action") == "solve")
    columns = log.columns("features") if log.has("features") else {}
    verifiers = collect(log.scan("verifications", ["verifier"]).select(pl.col("verifier").unique()), log)
    return Contents(
        pools=frozenset(solves["pool"]),
        opaque=frozenset(solves.filter("opaque")["pool"]),
        actions=frozenset(frame["action"]) - {"solve"},
        verifiers=frozenset(verifiers["verifier"]),
        trace_columns=log.columns("traces"),
        example_columns=log.columns("examples"),
        whole=log.pools_without_prefix(),
        features={n: t for n, t in columns.items() if n not in ("trace_id", "example_id")},
        sizes={pool: largest + 1 for pool, largest in solves.select("pool", "sample_index").iter_rows()},
        revisions=_revisions(log) if len(solves) < len(frame) else frozenset(),
    )


def _revisions(log: Log) -> frozenset[tuple[str, str, str]]:
    """(action, pool of the parent, own pool) of the revisions of the first trace of a pool."""
    traces = log.scan("traces", ["trace_id", "pool", "action", "parent_id", "sample_index"])
    parents = traces.filter((pl.col("action") == "solve") & (pl.col("sample_index") == 0))
    base = parents.select(parent_id="trace_id", base="pool")
    made = traces.filter(pl.col("action") != "solve").join(base, on="parent_id", how="inner")
    return frozenset(collect(made.select("action", "base", "pool").unique(), log).iter_rows())


def resolve(policies: Sequence[Policy], contents: Contents) -> tuple[Policy, ...]:
    """The policies with their pools filled in. Raises for any name that the log lacks, with what it has."""
    return tuple(_resolved(policy, contents) for policy in policies)


def _resolved(policy: Policy, contents: Contents) -> Policy:
    if isinstance(policy, Sample):
        return _sample(policy, contents)
    if isinstance(policy, Act):
        return resolve_act(policy, contents)
    if isinstance(policy, When):
        base, then = _resolved(policy.base, contents), _resolved(policy.then, contents)
        made = replace(policy, base=base, then=then)
        check_gate(made, contents)
        return made
    if isinstance(policy, Route):
        check_route(policy, contents)
        return replace(policy, then=_resolved(policy.then, contents), else_=_resolved(policy.else_, contents))
    if isinstance(policy, Oracle) and isinstance(policy.base, Policy) and policy.then is not None:
        return replace(policy, base=_resolved(policy.base, contents), then=_resolved(policy.then, contents))
    return _oracle(policy, contents) if isinstance(policy, Oracle) else policy


def request(policies: Sequence[Policy], contents: Contents, measure: str | None, prices: Prices | None) -> Request:
    """What the policies (resolved) read of the log."""
    if measure is not None and measure in contents.trace_columns:
        dtype = contents.trace_columns[measure]
        if not (dtype == pl.Boolean or dtype.is_float()):
            raise ThinkbackError(
                f"column `{measure}` of traces holds {dtype}; a measure is bool, or a float from 0 to 1"
            )
    elif measure is not None:
        raise ThinkbackError(
            f"traces have no column `{measure}` to measure; {suggest(measure, contents.trace_columns)}"
        )
    wanted = Wanted()
    for policy in policies:
        for part in nested(policy):
            _want(part, contents, wanted)
    return Request(
        pools=frozenset(wanted.pools),
        verifiers={pool: frozenset(names) for pool, names in wanted.verifiers.items()},
        actions=wanted.actions,
        measure=measure,
        prices=prices,
        columns=frozenset(wanted.columns),
        suffixes=frozenset(wanted.suffixes),
        features=frozenset(wanted.features),
    )


def _want(policy: Policy, contents: Contents, wanted: Wanted) -> None:
    """Add what one policy (not its parts) reads."""
    if isinstance(policy, Sample) and policy.pool is not None:
        wanted.pools.add(policy.pool)
        if policy.verifies and policy.verifier is not None:
            wanted.verify(policy.pool, policy.verifier)
        if policy.order == "surrogate":
            wanted.features.update(policy.features)
    elif isinstance(policy, Act):
        wanted.act(policy.action, policy.base, policy.pool)
    elif isinstance(policy, Oracle) and not policy.parts:
        wanted.pools |= {name for name in (*policy.of, policy.base) if name in contents.pools}
        for name in policy.of:
            if name not in contents.pools and policy.base is not None:
                wanted.act(name, str(policy.base), None)
    elif isinstance(policy, When):
        want_gate(policy, wanted, contents.pools)


def _sample(policy: Sample, contents: Contents) -> Sample:
    if policy.pool is None:
        if len(contents.pools) != 1:
            raise policy.refuse(
                f"the log has {len(contents.pools)} pools, so it needs `pool`; {suggest('', contents.pools)}"
            )
        policy = replace(policy, pool=next(iter(contents.pools)))
    pool = str(policy.pool)
    if pool not in contents.pools:
        raise policy.refuse(f"the log has no pool `{pool}` of first attempts; {suggest(pool, contents.pools)}")
    if policy.verifies and policy.verifier not in contents.verifiers:
        raise policy.refuse(
            f"the log has no verifier `{policy.verifier}`; {suggest(str(policy.verifier), contents.verifiers)}"
        )
    for name in policy.features if policy.order == "surrogate" else ():
        try:
            check_feature(name, "the surrogate", contents)
        except ThinkbackError as error:
            raise policy.refuse(str(error)) from None
    if pool in contents.opaque:
        votes = policy.select in ("majority", "weighted") or isinstance(policy.stop, Agreement | Window | Margin)
        votes = votes or policy.order == "surrogate"
        if votes:
            raise policy.refuse(
                f"pool `{pool}` has verdicts but no answers (opaque), so votes, margins and surrogates mean nothing; "
                f"use select `first` or `best` with no stop or a budget"
            )
    if pool in contents.whole and (policy.orders is not None or _cuts(policy)):
        raise policy.refuse(
            f"pool `{pool}` depends on how many traces there were (prefix: false), so it is replayed whole and in "
            f"its order: leave out `orders`, any `stop` that cuts generation, and the lazy surrogate"
        )
    return policy


def _cuts(policy: Sample) -> bool:
    """Whether the policy may generate fewer traces than its cap."""
    lazy = policy.order == "surrogate" and policy.mode == "lazy"
    return lazy or (policy.order == "generation" and not isinstance(policy.stop, Never))


def _oracle(policy: Oracle, contents: Contents) -> Oracle:
    known = contents.pools | contents.actions
    for name in policy.of:
        if name not in known:
            raise ThinkbackError(
                f"policy `{policy.name}`: the log has no pool or action `{name}`; {suggest(name, known)}"
            )
        if name in contents.pools and name in contents.actions:
            raise ThinkbackError(f"policy `{policy.name}`: `{name}` is both a pool and an action of the log")
        if name not in contents.pools and policy.base is None:
            raise ThinkbackError(
                f"policy `{policy.name}`: `{name}` is an action, so it needs `base`, the pool whose sample 0 it "
                f"revises; {suggest('', contents.pools)}"
            )
    if policy.base is not None and policy.base not in contents.pools:
        raise ThinkbackError(
            f"policy `{policy.name}`: the log has no pool `{policy.base}` for `base`; "
            f"{suggest(str(policy.base), contents.pools)}"
        )
    return policy
