"""What a log has, and whether the policies of a run can be served by it at all: names, pools, actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from replay.oracles import slice_names
from replay.policies import Oracle, Policy, Sample
from replay.pool import Prices, Request
from replay.stops import Agreement, Margin, Window
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
    )


def resolve(policies: Sequence[Policy], contents: Contents) -> tuple[Policy, ...]:
    """The policies with their pools filled in. Raises for any name that the log lacks, with what it has."""
    resolved: list[Policy] = []
    for policy in policies:
        if isinstance(policy, Sample):
            resolved.append(_sample(policy, contents))
        elif isinstance(policy, Oracle):
            resolved.append(_oracle(policy, contents))
    return tuple(resolved)


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
    pools: set[str] = set()
    verifiers: dict[str, set[str]] = {}
    actions: dict[tuple[str, str], str] = {}
    features: dict[str, set[str]] = {}
    for policy in policies:
        if isinstance(policy, Sample) and policy.pool is not None:
            pools.add(policy.pool)
            if policy.verifies and policy.verifier is not None:
                verifiers.setdefault(policy.pool, set()).add(policy.verifier)
            if policy.order == "surrogate":
                features.setdefault(policy.pool, set()).update(policy.features)
        elif isinstance(policy, Oracle):
            pools |= {name for name in (*policy.of, policy.base) if name in contents.pools}
            for name, made in zip(policy.of, slice_names(policy, contents.pools), strict=True):
                if made != name and policy.base is not None:
                    actions[name, policy.base] = made
    return Request(
        pools=frozenset(pools),
        verifiers={pool: frozenset(names) for pool, names in verifiers.items()},
        actions=actions,
        measure=measure,
        prices=prices,
        features={pool: frozenset(names) for pool, names in features.items()},
    )


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
    _known_features(policy, contents)
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
            f"its order: leave out `orders`, and any `stop` that cuts generation"
        )
    return policy


def _known_features(policy: Sample, contents: Contents) -> None:
    for name in policy.features if policy.order == "surrogate" else ():
        if name not in contents.features:
            raise policy.refuse(f"the log has no feature `{name}`; {suggest(name, contents.features)}")
        if not contents.features[name].is_numeric():
            raise policy.refuse(f"feature `{name}` holds {contents.features[name]}; a surrogate reads numbers")


def _cuts(policy: Sample) -> bool:
    """Whether the policy may generate fewer traces than its cap."""
    return policy.order == "generation" and type(policy.stop).__name__ != "Never"


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
            f"{suggest(policy.base, contents.pools)}"
        )
    return policy
