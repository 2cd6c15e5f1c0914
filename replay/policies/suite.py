"""The standard suite: the policies that a log can answer, as a policy file to replay or to edit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from replay.data.conditions import TEST, has_test
from replay.data.contents import opened
from replay.policies.suite_facts import Facts, Pool, ScoreRange, read_facts
from toolkit.arguments import checks_arguments
from toolkit.log import AnyLog
from toolkit.printable import printable
from toolkit.show.tables.html import listing

Table = dict[str, Any]

FEWEST_VOTES = 3
"""Traces of a pool from which on its answers are put to the vote."""
CONFIDENCES = (0.8, 0.95)
WINDOWS = (2, 4, 8)
ORDERS = 20
"""Seeded orders over which policies are means that have no exact mean over all."""
MOST_GROUPS = 20


@dataclass(frozen=True)
class Suite:
    """`text`: the policy file. `where`: the examples to report, where the log has a test split; `by`: the column of
    examples that gets a table for each of its values. `left_out`: what the log cannot answer, and why.
    """

    text: str
    where: str | None
    by: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return listing(self.text)


@checks_arguments()
def suite(log: AnyLog, where: str | None = None) -> Suite:
    """The standard policies that a log can answer, from what it holds: pools, verifiers, signals, actions.

    Self-consistency (Wang et al. 2023) at powers of two, adaptive consistency (Aggarwal et al. 2023), early-stopping
    windows (Li et al. 2024), best-of-N and the weighted vote by each verifier, gates on logged signals, revisions, and
    oracles. A pool counts with the number of traces that 95 % of its examples have; a verifier is used where it
    scored all answers of 95 % of a pool's examples. The examples are those of the test split where there is one, or of
    the SQL condition `where`, which the suite then has as its own.
    Raises ThinkbackError for a log that cannot be read.
    """
    opened_log, contents = opened(log)
    facts = read_facts(opened_log, contents, where)
    sections = {
        "One attempt": [*_singles(facts)],
        "Votes: self-consistency, adaptive consistency, early-stopping windows": [*_votes(facts)],
        "By a verifier: best-of-N, weighted votes, a margin at which to stop": [*_scored(facts)],
        "A second step where the first answer is doubtful": [*_gated(facts)],
        "Revisions of every first attempt": [*_revised(facts)],
        "Oracles, which see the reference: the headroom": [*_oracles(facts)],
    }
    split = has_test(facts.columns.get("split"))
    where = TEST if where is None and split else where
    command = "thinkback replay LOG --policies FILE" + (f" --where {_quoted(where)}" if where else "")
    head = [f"The standard suite for the log `{opened_log.name}`: edit it, then `{command}`."]
    head.append(f"Votes and best-of-N are means over all orders, stops and weighted votes over {ORDERS} orders.")
    head += [f"Left out: {what}." for what in facts.left_out]
    if where is None:
        head.append("The log has no test split: a verifier may have been trained on these examples.")
    parts = ["\n".join(f"# {line}" for line in head)]
    for title, tables in sections.items():
        if tables:
            parts.append("\n\n".join([f"# {title}", *map(as_toml, tables)]))
    by = ("dataset",) if 1 < facts.values("dataset") <= MOST_GROUPS else ()
    return Suite("\n\n".join(parts) + "\n", where, by, facts.left_out)


def _quoted(condition: str) -> str:
    """The condition as a shell takes it, on one line of a comment."""
    return '"' + printable(" ".join(condition.split())).replace('"', '\\"') + '"'


def _of(facts: Facts, pool: Pool, what: str, traces: int, **more: Any) -> Table:
    """A policy of so many traces of a pool."""
    return {"name": facts.called(pool, what), **_sample(pool, traces, **more)}


def _sample(pool: Pool, traces: int, **more: Any) -> Table:
    return {"kind": "sample", "pool": pool.name, "max_traces": traces, **more}


def _over_all(pool: Pool) -> Table:
    """The key that makes a vote its exact mean over all orders, where the pool has others."""
    return {} if pool.whole else {"expected": True}


def _vote(pool: Pool, traces: int) -> Table:
    return _sample(pool, traces, select="majority", **_over_all(pool))


def _one(pool: Pool) -> Table:
    return _sample(pool, 1, select="first")


def _named(name: str, table: Mapping[str, Any]) -> Table:
    return {"name": name, **table}


def _singles(facts: Facts) -> Iterator[Table]:
    """One attempt of each pool; of several that stand for each other, their exact mean."""
    for pool in facts.pools:
        if pool.size == 1 or pool.whole:
            yield _named(facts.called(pool, "first"), _one(pool))
        else:
            yield _named(facts.called(pool, "one sample (mean)"), _one(pool) | {"expected": True})


def _votes(facts: Facts) -> Iterator[Table]:
    for pool in facts.voting(FEWEST_VOTES):
        for traces in _powers(pool.size):
            yield _named(facts.called(pool, f"majority@{traces}"), _vote(pool, traces))
        if pool.whole:
            continue
        for confidence in CONFIDENCES:
            stop = {"stop": {"rule": "agreement", "confidence": confidence}, "orders": ORDERS}
            yield _of(facts, pool, f"adaptive consistency {confidence}", pool.size, select="majority", **stop)
        for size in WINDOWS:
            if 2 * size <= pool.size:
                stop = {"stop": {"rule": "window", "size": size}, "orders": ORDERS}
                yield _of(facts, pool, f"window of {size}", pool.size, select="majority", **stop)


def _scored(facts: Facts) -> Iterator[Table]:
    for pool in facts.pools:
        for scores in pool.scores if pool.size > 1 else ():
            yield from _by_verifier(facts, pool, scores)


def _by_verifier(facts: Facts, pool: Pool, scores: ScoreRange) -> Iterator[Table]:
    name, most = scores.verifier, pool.size
    for traces in _powers(most):
        yield _of(facts, pool, f"best of {traces} by {name}", traces, verifier=name, select="best", **_over_all(pool))
    if pool.opaque or pool.size < FEWEST_VOTES:
        return
    if scores.lowest >= 0:
        asks = {"verifier": name, "select": "weighted", **({} if pool.whole else {"orders": ORDERS})}
        yield _of(facts, pool, f"weighted vote of {most} by {name}", most, **asks)
    if scores.lowest >= 0 and scores.highest <= 1 and not pool.whole:
        asks = {"verifier": name, "stop": {"rule": "margin"}, "select": "best", "orders": ORDERS}
        yield _of(facts, pool, f"margin by {name}", most, **asks)


def _gated(facts: Facts) -> Iterator[Table]:
    """Policies from one attempt to a vote, or to a revision, where a signal of the attempt is doubtful."""
    steps = [
        (base, facts.called(pool, f"majority@{pool.size}"), _vote(pool, pool.size))
        for pool in facts.voting(FEWEST_VOTES)
        for base in facts.pools
        if base == pool or base.size == 1
    ]
    steps += [(base, name, {"kind": "act", "base": base.name, **act}) for base, name, act in _acts(facts)]
    for base, then, table in steps:
        for signal in base.signals:
            name = f"{facts.called(base, 'first')}, then {then} where {signal.label}"
            yield _named(name, {"kind": "when", "base": _one(base), "gate": signal.gate(), "then": table})


def _acts(facts: Facts) -> Iterator[tuple[Pool, str, Table]]:
    bases = {pool.name: pool for pool in facts.pools}
    for action, base, pool in sorted(facts.revisions):
        others = sum((one, of) == (action, base) for one, of, _ in facts.revisions) > 1
        several = sum(one == action for one, _, _ in facts.revisions) > 1
        name = f"{action} ({pool})" if others else f"{action} of {base}" if several else action
        if base in bases:
            yield bases[base], name, {"action": action, **({"pool": pool} if others else {})}


def _revised(facts: Facts) -> Iterator[Table]:
    for base, name, act in _acts(facts):
        yield _named(f"{name}, always", {"kind": "act", "base": base.name, **act})


def _oracles(facts: Facts) -> Iterator[Table]:
    several = [pool for pool in facts.pools if pool.size > 1]
    for pool in several:
        # an oracle looks at every trace, however many an example has
        name = facts.called(pool, f"any of {pool.size if pool.even else 'all traces'}")
        yield _named(name, {"kind": "oracle", "rule": "any", "of": [pool.name]})
    if not several and len(facts.pools) > 1:
        pools = [pool.name for pool in facts.pools]
        yield {"name": f"any of {len(pools)} pools", "kind": "oracle", "rule": "any", "of": pools}
    actions: dict[str, list[str]] = {}
    for action, base, _ in sorted(facts.revisions):
        if action not in actions.setdefault(base, []):
            actions[base].append(action)
    for base, base_actions in actions.items():
        name = "the best action" if len(actions) == 1 else f"the best action on {base}"
        yield _named(name, {"kind": "oracle", "rule": "action", "base": base, "of": base_actions})


def _powers(most: int) -> list[int]:
    """2, 4, 8 … below a pool's size, and the size."""
    return [2**k for k in range(1, most.bit_length()) if 2**k < most] + [most]


def as_toml(table: Table) -> str:
    """A policy of a file, from its keys."""
    return "\n".join(["[[policy]]", *(f"{key} = {_value(value)}" for key, value in table.items())])


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_value, value))}]"
    if value in (inf, -inf):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
