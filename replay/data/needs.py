"""What interventions need of a log: revisions, gates' signals, routers' columns; and whether it has them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from replay.data.block import slice_name
from replay.policies.base import Oracle, Policy, Sample, nested
from replay.policies.gate_file import Feature, GateFile
from replay.policies.gates import Reading, readings
from replay.policies.interventions import Act, Route, When
from toolkit.errors import ThinkbackError, suggest
from toolkit.log import Log, collect

if TYPE_CHECKING:
    from replay.data.contents import Contents

COLUMN_SIGNALS = {"sum_logprob": ("sum_logprob",), "near_limit": ("max_tokens",)}
"""Columns of traces that a signal reads beside those that every run reads."""

ANSWER_SIGNALS = frozenset({"invalid", "answer_length"})
"""Signals of the answer itself, which opaque traces do not have."""


@dataclass
class Wanted:
    """Collects what policies read, while they are looked through."""

    pools: set[str] = field(default_factory=set)
    verifiers: dict[str, set[str]] = field(default_factory=dict)
    actions: dict[tuple[str, str, str | None], str] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    suffixes: set[int] = field(default_factory=set)
    features: set[str] = field(default_factory=set)

    def verify(self, pool: str, verifier: str) -> None:
        """Scores of a verifier on a slice."""
        self.verifiers.setdefault(pool, set()).add(verifier)

    def act(self, action: str, base: str, pool: str | None) -> None:
        """Revisions of a pool's sample 0."""
        self.pools.add(base)
        self.actions[action, base, pool] = slice_name(action, base, pool)


def want_gate(policy: When, wanted: Wanted, pools: Collection[str]) -> None:
    """Add what the gate of a `when` reads of the slices that its base may choose from."""
    for reading in readings(policy.gate):
        if reading.file is not None:
            for feature in reading.file.features:
                want_feature(feature, chosen_slices(policy.base, pools), wanted)
        elif reading.verifier is not None:
            want_feature(Feature("verifier", reading.verifier), chosen_slices(policy.base, pools), wanted)
        elif reading.feature is not None:
            wanted.features.add(reading.feature)
        wanted.columns |= set(COLUMN_SIGNALS.get(str(reading.signal), ()))
        if reading.tokens is not None:
            wanted.suffixes.add(reading.tokens)


def want_feature(feature: Feature, slices: Collection[str], wanted: Wanted) -> None:
    """Add one input of a gate file."""
    if feature.source == "verifier":
        for name in slices:
            wanted.verify(name, feature.name)
    elif feature.source == "feature":
        wanted.features.add(feature.name)
    wanted.columns |= set(COLUMN_SIGNALS.get(feature.name if feature.source == "signal" else "", ()))


def chosen_slices(policy: Policy, pools: Collection[str]) -> frozenset[str]:
    """Slices of a block in which a policy's chosen trace may be."""
    if isinstance(policy, Sample):
        return frozenset([str(policy.pool)])
    if isinstance(policy, Act):
        return frozenset([slice_name(policy.action, policy.base, policy.pool)])
    if isinstance(policy, Oracle) and not policy.parts:
        found = {name if name in pools else slice_name(name, str(policy.base)) for name in policy.of}
        return frozenset(found | ({policy.base} if isinstance(policy.base, str) else set()))
    return frozenset().union(*(chosen_slices(part, pools) for part in policy.parts))


def example_columns(policies: Collection[Policy]) -> frozenset[str]:
    """Columns of examples that routers and gates read."""
    found: set[str] = set()
    for policy in policies:
        for part in nested(policy):
            if isinstance(part, Route):
                found.add(part.route.column)
            if isinstance(part, When) and any(reading.file is not None for reading in readings(part.gate)):
                found.add("question")
    return frozenset(found)


def resolve_act(policy: Act, contents: Contents) -> Act:
    """The act with the pool of its revisions. Raises where the log has none such, or several."""
    if policy.base not in contents.pools:
        raise policy.refuse(
            f"the log has no pool `{policy.base}` of first attempts; {suggest(policy.base, contents.pools)}"
        )
    if policy.action not in contents.actions:
        raise policy.refuse(f"the log has no action `{policy.action}`; {suggest(policy.action, contents.actions)}")
    try:
        pool = revision_pool(policy.action, policy.base, policy.pool, contents)
    except ThinkbackError as error:
        raise policy.refuse(str(error)) from None
    return replace(policy, pool=pool)


def revision_pool(action: str, base: str, pool: str | None, contents: Contents) -> str | None:
    """The pool of the revisions of a base by an action, None where there is one alone.

    Raises ThinkbackError where there is none, or several and none of them is named.
    """
    own = sorted(pool for act, one, pool in contents.revisions if (act, one) == (action, base))
    if not own:
        bases = sorted({one for act, one, _ in contents.revisions if act == action})
        raise ThinkbackError(f"`{action}` does not revise sample 0 of pool `{base}`; {suggest(base, bases)}")
    if pool is None and len(own) > 1:
        listed = ", ".join(f"`{name}`" for name in own)
        raise ThinkbackError(
            f"action `{action}` of pool `{base}` has several pools of revisions ({listed}); name one with `pool`"
        )
    if pool is not None and pool not in own:
        raise ThinkbackError(f"`{action}` has no pool `{pool}` of revisions; {suggest(pool, own)}")
    return None if len(own) == 1 else pool


def check_route(policy: Route, contents: Contents) -> None:
    """Raise unless the router's column is a number of each example."""
    column = policy.route.column
    if column not in contents.example_columns:
        raise policy.refuse(
            f"examples have no column `{column}` to route by; {suggest(column, contents.example_columns)}"
        )
    dtype = contents.example_columns[column]
    if not (dtype.is_numeric() or str(dtype) == "Boolean"):
        raise policy.refuse(f"column `{column}` of examples holds {dtype}; a router's score is a number")


def check_gate(policy: When, contents: Contents) -> None:
    """Raise unless the log has what the gate reads, and a gate file is for this base and this action."""
    for reading in readings(policy.gate):
        try:
            _check_reading(reading, policy, contents)
        except ThinkbackError as error:
            raise policy.refuse(str(error)) from None


def _check_reading(reading: Reading, policy: When, contents: Contents) -> None:
    if reading.verifier is not None and reading.verifier not in contents.verifiers:
        raise ThinkbackError(
            f"the log has no verifier `{reading.verifier}` for the gate; "
            f"{suggest(reading.verifier, contents.verifiers)}"
        )
    if reading.feature is not None:
        check_feature(reading.feature, "the gate", contents)
    if reading.file is not None:
        check_gate_file(reading.file, policy.base, policy.then, contents)
    if reading.signal in ("vote_share", "margin") and chosen_slices(policy.base, contents.pools) & contents.opaque:
        raise ThinkbackError(
            f"its base has verdicts but no answers (opaque), so the signal `{reading.signal}` means nothing"
        )


def check_feature(name: str, reader: str, contents: Contents) -> None:
    """Raise unless the log has the feature, and its column holds numbers."""
    if name not in contents.features:
        raise ThinkbackError(f"the log has no feature `{name}` for {reader}; {suggest(name, contents.features)}")
    if not contents.features[name].is_numeric():
        raise ThinkbackError(f"feature `{name}` holds {contents.features[name]}; {reader} reads numbers")


def check_suffixes(log: Log, policies: Collection[Policy], contents: Contents) -> None:
    """Raise where a gate sums more log-probabilities than any trace of its base's pool has."""
    for policy in (part for whole in policies for part in nested(whole)):
        asked = [r.tokens for r in readings(policy.gate) if r.tokens is not None] if isinstance(policy, When) else []
        pools = sorted(chosen_slices(policy.base, contents.pools) & contents.pools) if isinstance(policy, When) else []
        if not asked or not pools:
            continue
        traces = log.scan("traces", ["pool", "action", "token_logprobs"])
        own = traces.filter((pl.col("action") == "solve") & pl.col("pool").is_in(pools))
        most = collect(own.select(pl.col("token_logprobs").list.len().max()), log).item() or 0
        if max(asked) > most:
            raise policy.refuse(
                f"signal `suffix_logprob` asks for the last {max(asked):,} log-probabilities; the longest list in "
                f"{', '.join(f'`{pool}`' for pool in pools)} has {most:,}"
            )


def check_gate_file(gate: GateFile, base: Policy, then: Policy, contents: Contents) -> None:
    """Raise unless the gate was fitted for sample 0 of the base's pool and for the action of `then`."""
    first = isinstance(base, Sample) and base.max_traces == 1 and base.select == "first"
    if not first:
        raise ThinkbackError(
            f"gate file `{gate.path}` was fitted on first attempts; its base takes "
            '`max_traces = 1` and `select = "first"`'
        )
    bases = chosen_slices(base, contents.pools)
    if bases != {gate.base}:
        listed = ", ".join(f"`{name}`" for name in sorted(bases))
        raise ThinkbackError(
            f"gate file `{gate.path}` was fitted on base attempts of pool `{gate.base}`, not of {listed}; "
            "fit one for it"
        )
    acts = {part.action for part in nested(then) if isinstance(part, Act)}
    if acts != {gate.action}:
        listed = ", ".join(f"`{name}`" for name in sorted(acts)) or "none"
        raise ThinkbackError(
            f"gate file `{gate.path}` predicts repairs by action `{gate.action}`; `then` has {listed}; fit one for it"
        )
    pools = {part.pool for part in nested(then) if isinstance(part, Act) and part.pool is not None}
    if gate.pool is not None and pools - {gate.pool}:
        listed = ", ".join(f"`{name}`" for name in sorted(pools))
        raise ThinkbackError(
            f"gate file `{gate.path}` was fitted on revisions of pool `{gate.pool}`; `then` has {listed}; fit "
            "one for it"
        )
    check_inputs(gate, gate.base, contents)


def check_answered(signal: str, pool: str, contents: Contents) -> None:
    """Raise where a signal of the answer itself is asked of a pool that has verdicts but no answers."""
    if signal in ANSWER_SIGNALS and pool in contents.opaque:
        raise ThinkbackError(
            f"pool `{pool}` has verdicts but no answers (opaque), so the signal `{signal}` means nothing there"
        )


def check_inputs(gate: GateFile, base: str, contents: Contents) -> None:
    """Raise unless the log has every feature and verifier that the gate reads, and answers where it reads them."""
    for feature in gate.features:
        try:
            check_answered(str(feature), base, contents)
        except ThinkbackError as error:
            raise ThinkbackError(
                f"gate file `{gate.path}` cannot be read here: {error}; fit one without it by `--features`"
            ) from None
        known = contents.verifiers if feature.source == "verifier" else contents.features
        if feature.source != "signal" and feature.name not in known:
            raise ThinkbackError(
                f"gate file `{gate.path}` reads {feature.source} `{feature.name}`, which the log lacks; "
                f"{suggest(feature.name, known)}"
            )
