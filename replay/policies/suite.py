"""The standard suite: the policies that a log can answer, as a policy file to replay or to edit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import inf
from typing import Any

from replay.data.conditions import TEST, has_test_and_other_splits
from replay.data.contents import open_with_contents
from replay.data.prices import PRICE, GivenPrices, Prices, load_prices, logged_prices, missing_tokens, priced_columns
from replay.policies.suite_facts import LEVELS, RoundsPool, ScoreRange, SuiteFacts, SuitePool, read_facts
from replay.sampling.selects import WeightedVote
from toolkit.arguments import checks_arguments
from toolkit.columns import cost_named, with_columns
from toolkit.errors import UnknownError
from toolkit.log import AnyLog, Log
from toolkit.printable import printable
from toolkit.show.tables.html import preformatted

Table = dict[str, Any]

FEWEST_VOTES = 3
"""The fewest traces of a pool whose answers are put to the vote."""
CONFIDENCES = (0.8, 0.95)
WINDOWS = (2, 4, 8)
PATIENCE = (1, 2)
ORDERS = 20
"""How many seeded orders a policy is averaged over if there is no exact mean over all."""
MOST_GROUPS = 20
WHOLE_QUESTION = "the whole question"
"""The policy that gives its last guess."""
NO_TEST_SPLIT = "The log has no test split: a verifier may have been trained on these examples."
MOST_CASCADES = 12
"""The most cascades with every score; where there would be more, each pair of pools has one score."""


@dataclass(frozen=True)
class Suite:
    """A standard suite. `text`: the policy file. `where`: the examples to report, where the log has a test split; `by`:
    the column of examples with a table for each of its values. `left_out`: what the log cannot answer, and why;
    `skipped`: the answers without a score that policies go on without.
    """

    text: str
    where: str | None
    by: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return preformatted(self.text)


@checks_arguments()
def suite(log: AnyLog, where: str | None = None, prices: GivenPrices = None, cost: str | None = None) -> Suite:
    """The standard policies that a log can answer, from what it holds: pools, verifiers, signals, actions.

    Self-consistency (Wang et al. 2023) at powers of two, adaptive consistency (Aggarwal et al. 2023), early-stopping
    windows (Li et al. 2024), best-of-N and the weighted vote by each verifier, guesses with a position that are sure
    enough, cascades from one pool to another (Chen, Zaharia and Zou 2023), gates on logged signals, revisions, oracles,
    and rankings of the documents of retrieval rounds. A pool counts with the number of traces, or of rounds, that 95 %
    of its examples have; a verifier is used where it scored 95 % of a pool's answers, and the others are skipped. The
    examples are those of the test split where there is one, or of the SQL condition `where`, which the suite then has
    as its own; `prices` (a TOML file, or `Prices`) are written into its text. Cheap pools come first, and the second
    pool of a cascade costs more, by `cost`: by default money where there are prices, else tokens; its name is written
    into the text, too. Raises ThinkbackError for a log that cannot be read, and for a cost that it does not have.
    """
    opened_log, contents = open_with_contents(log)
    given = None if prices is None else load_prices(prices)
    billed = logged_prices(opened_log) if given is None else given
    wanted = None if cost is None else cost_named(cost, with_columns(columns=priced_columns(billed)))
    facts = read_facts(opened_log, contents, where, billed, wanted)
    if wanted is not None:
        _check_cost_is_logged(facts, str(cost), opened_log, billed if wanted.name == PRICE else None)
    left_out = [*facts.left_out]
    sections = {
        "One attempt": [*_single_attempts(facts)],
        "Votes: self-consistency, adaptive consistency, early-stopping windows": [*_vote_policies(facts)],
        "By a verifier: best-of-N, weighted votes, a margin at which to stop": [*_verifier_policies(facts)],
        "Guesses while a question unfolds: when one is sure enough": [*_guessing_policies(facts)],
        "Loops: their last text, and what fewer rounds of them give": [*_loop_policies(facts)],
        "Cascades: another pool where a score of the first is low": [*_cascade_policies(facts, left_out)],
        "A second step where the first answer is doubtful": [*_gated_policies(facts)],
        "Revisions of every first attempt": [*_revising_policies(facts)],
        "Oracles, which see the reference: the headroom": [*_oracle_policies(facts)],
        "Documents of retrieval rounds: their ranking, and when a hop ends": [*_ranking_policies(facts)],
        "When to act on a text that unfolds, and the best time in hindsight": [*_buzz_policies(facts)],
    }
    split = has_test_and_other_splits(facts.columns.get("split"))
    where = TEST if where is None and split else where
    command = "thinkback replay LOG --policies FILE" + (f" --where {_shell_quoted(where)}" if where else "")
    head = [f"The standard suite for the log `{opened_log.name}`: edit it, then `{command}`."]
    if facts.pools or not (facts.rounds or facts.checks):
        head.append(
            f"Votes, and best of N, are means over all orders; stops, and weighted votes of some traces, over {ORDERS}."
        )
    head += [f"Left out: {what}." for what in left_out]
    head += [f'Skipped (on_unscored = "skip"): {what}.' for what in facts.skipped]
    if where is None and not facts.is_test_only and contents.verifiers | contents.pools:
        head.append(NO_TEST_SPLIT)
    parts = ["\n".join(f"# {line}" for line in head)]
    if wanted is not None:
        parts.append(f"cost = {_toml_value(PRICE if wanted.name == PRICE else wanted.cost_name)}")
    for title, tables in sections.items():
        if tables:
            parts.append("\n\n".join([f"# {title}", *map(as_toml, tables)]))
    if given is not None:
        lines = (f"{_toml_value(name)} = {_toml_value(entry)}" for name, entry in given.record().items())
        parts.append("\n".join(["[prices]", *lines]))
    by = ("dataset",) if 1 < facts.count_values("dataset") <= MOST_GROUPS else ()
    return Suite("\n\n".join(parts) + "\n", where, by, tuple(left_out), facts.skipped)


def _check_cost_is_logged(facts: SuiteFacts, cost: str, log: Log, prices: Prices | None) -> None:
    """Raise where no pool of traces has the cost; rounds and checks have costs of their own. `prices`: of the cost."""
    if facts.pools and not (facts.rounds or facts.checks) and all(pool.paid is None for pool in facts.pools):
        why = missing_tokens(log, prices, {one.name for one in facts.pools}) or "name a cost logged of every trace"
        raise UnknownError(f"{log.address}: no pool has a value of `{cost}`; {why}")


def _shell_quoted(condition: str) -> str:
    return '"' + printable(" ".join(condition.split())).replace('"', '\\"') + '"'


def _policy_of_pool(facts: SuiteFacts, pool: SuitePool, name_start: str, traces: int, **more: Any) -> Table:
    return {"name": facts.name_in_pool(pool, name_start), **_sample_table(pool, traces, **more)}


def _sample_table(pool: SuitePool, traces: int, **more: Any) -> Table:
    fewer = {"on_missing": "use_available"} if pool.whole and not pool.even else {}
    return {"kind": "sample", "pool": pool.name, "max_traces": traces, **fewer, **more}


def _over_all_orders_key(pool: SuitePool) -> Table:
    """The key that makes a vote its exact mean over all orders; empty for a pool with one order."""
    return {} if pool.whole else {"expected": True}


def _vote_table(pool: SuitePool, traces: int) -> Table:
    return _sample_table(pool, traces, select="majority", **_over_all_orders_key(pool))


def _one_attempt(pool: SuitePool) -> Table:
    return _sample_table(pool, 1, select="first")


def _with_name(name: str, table: Mapping[str, Any]) -> Table:
    return {"name": name, **table}


def _single_attempts(facts: SuiteFacts) -> Iterator[Table]:
    """Policies of one attempt, one for each pool; where traces stand for each other, their exact mean."""
    for pool in (one for one in facts.pools if one.gives_one_attempt):
        if pool.size == 1 or pool.positioned:
            yield _with_name(facts.name_in_pool(pool, "first"), _one_attempt(pool))
        else:
            yield _with_name(facts.name_in_pool(pool, "one sample (mean)"), _one_attempt(pool) | {"expected": True})


def _vote_policies(facts: SuiteFacts) -> Iterator[Table]:
    for pool in facts.pools_to_vote_on(FEWEST_VOTES):
        for traces in _caps(pool):
            yield _with_name(facts.name_in_pool(pool, f"majority@{traces}"), _vote_table(pool, traces))
        if pool.whole:
            continue
        for confidence in CONFIDENCES:
            stop = {"stop": {"rule": "agreement", "confidence": confidence}, "orders": ORDERS}
            yield _policy_of_pool(
                facts, pool, f"adaptive consistency {confidence}", pool.size, select="majority", **stop
            )
        for size in WINDOWS:
            if 2 * size <= pool.size:
                stop = {"stop": {"rule": "window", "size": size}, "orders": ORDERS}
                yield _policy_of_pool(facts, pool, f"window of {size}", pool.size, select="majority", **stop)


def _verifier_policies(facts: SuiteFacts) -> Iterator[Table]:
    for pool in facts.pools:
        for scores in pool.scores if pool.size > 1 and not pool.positioned else ():
            yield from _policies_by_verifier(facts, pool, scores)


def _guessing_policies(facts: SuiteFacts) -> Iterator[Table]:
    """Policies that answer an unfolding question: by the last guess, or by the first one, or second, that is sure."""
    for pool in facts.pools:
        if pool.positioned:
            last = {"kind": "sample", "pool": pool.name, "select": "last"}
            yield _with_name(facts.name_in_pool(pool, WHOLE_QUESTION), last)
            for guess in pool.guesses:
                stop = {"rule": "at_least", guess.key: guess.name, "score": [*guess.values], "patience": list(PATIENCE)}
                yield _with_name(facts.name_in_pool(pool, f"sure by {guess.name}"), {**last, "stop": stop})


def _loop_policies(facts: SuiteFacts) -> Iterator[Table]:
    """Policies on the texts of a loop, each of which goes on from the one before: the last, or the last of fewer."""
    for name in facts.loops:
        last: Table = {"kind": "sample", "pool": name, "select": "last"}
        if name not in facts.most:
            yield _with_name(f"{name}: last", last)
        for traces in range(1, facts.most.get(name, 0) + 1):
            yield _with_name(f"{name}: {traces}", {**last, "max_traces": traces, "on_missing": "use_available"})


def _policies_by_verifier(facts: SuiteFacts, pool: SuitePool, scores: ScoreRange) -> Iterator[Table]:
    name, most = scores.verifier, pool.size
    reads = {"verifier": name} | ({"on_unscored": "skip"} if scores.gaps else {})
    for traces in _caps(pool):
        yield _policy_of_pool(
            facts, pool, f"best of {traces} by {name}", traces, **reads, select="best", **_over_all_orders_key(pool)
        )
    if pool.opaque or pool.size < FEWEST_VOTES:
        return
    if scores.lowest >= 0:
        asks: Table = {**reads, "select": "weighted"}
        all_orders = _over_all_orders_key(pool)
        exact = all_orders if pool.whole or WeightedVote().can_go_over_sets(most, pool.most) else {"orders": ORDERS}
        yield _policy_of_pool(facts, pool, f"weighted vote of {most} by {name}", most, **asks, **exact)
        if most < pool.most and scores.complete and not pool.whole:
            asks |= {"on_missing": "use_available"} | all_orders
            yield _policy_of_pool(facts, pool, f"weighted vote of all traces by {name}", pool.most, **asks)
    if scores.lowest >= 0 and scores.highest <= 1 and not pool.whole:
        margin: Table = {**reads, "stop": {"rule": "margin"}, "select": "best", "orders": ORDERS}
        yield _policy_of_pool(facts, pool, f"margin by {name}", most, **margin)


def _gated_policies(facts: SuiteFacts) -> Iterator[Table]:
    """Policies that go from one attempt to a vote, or to a revision, where a signal doubts the attempt."""
    steps = [
        (base, facts.name_in_pool(pool, f"majority@{pool.size}"), _vote_table(pool, pool.size))
        for pool in facts.pools_to_vote_on(FEWEST_VOTES)
        for base in facts.pools
        if base.gives_one_attempt and (base == pool or base.size == 1)
    ]
    steps += [(base, name, {"kind": "act", "base": base.name, **act}) for base, name, act in _revising_actions(facts)
              if base.gives_one_attempt]  # fmt: skip
    for base, then, table in steps:
        other = table.get("pool", base.name) != base.name  # whose numbers are cascades
        for signal in (one for one in base.signals if one.quantiles is None or not other):
            name = f"{facts.name_in_pool(base, 'first')}, then {then} where {signal.label}"
            yield _with_name(
                name, {"kind": "when", "base": _one_attempt(base), "gate": signal.gate_table(), "then": table}
            )


def _cascade_policies(facts: SuiteFacts, left_out: list[str]) -> Iterator[Table]:
    """Policies that go from one attempt of a pool to another pool where a score or log-probability of it is low.

    The second pool votes where it can and the first has one trace, else it gives one attempt. Where tokens are one
    currency, or there are prices, the second costs more. Many pairs have one signal each; what is left out is a line of
    `left_out`.
    """
    voting = {pool.name for pool in facts.pools_to_vote_on(FEWEST_VOTES)}
    sweeps = []
    for first, second in permutations([pool for pool in facts.pools if not pool.positioned], 2):
        votes = first.size == 1 and second.name in voting
        if not (first.gives_one_attempt and (votes or second.gives_one_attempt)):
            continue
        if facts.may_cost_more(second, second.size if votes else 1, first) and (first.size == 1 or second.size > 1):
            scores = (*first.doubts, *(one for one in first.signals if one.quantiles is not None))
            sweeps.append([(first, second, votes, signal) for signal in scores])
    if sum(map(len, sweeps)) > MOST_CASCADES:
        sweeps = [signals[-1:] for signals in sweeps]
    flat = [one for signals in sweeps for one in signals]
    if len(flat) > MOST_CASCADES:
        left_out.append(f"cascades of {len(flat) - MOST_CASCADES:,} more pairs of pools than {MOST_CASCADES}")
    for first, second, votes, signal in flat[:MOST_CASCADES]:
        then = facts.name_in_pool(second, f"majority@{second.size}") if votes else facts.name_in_pool(second, "first")
        table = _vote_table(second, second.size) if votes else _one_attempt(second)
        gate = signal.gate_table(LEVELS)
        name = f"{facts.name_in_pool(first, 'first')}, then {then} where {signal.label}"
        yield _with_name(name, {"kind": "when", "base": _one_attempt(first), "gate": gate, "then": table})


def _revising_actions(facts: SuiteFacts) -> Iterator[tuple[SuitePool, str, Table]]:
    bases = {pool.name: pool for pool in facts.pools}
    for action, base, pool in sorted(facts.revisions):
        others = sum((one, of) == (action, base) for one, of, _ in facts.revisions) > 1
        several = sum(one == action for one, _, _ in facts.revisions) > 1
        name = f"{action} ({pool})" if others else f"{action} of {base}" if several else action
        if base in bases:
            yield bases[base], name, {"action": action, **({"pool": pool} if others else {})}


def _revising_policies(facts: SuiteFacts) -> Iterator[Table]:
    for base, name, act in _revising_actions(facts):
        yield _with_name(f"{name}, always", {"kind": "act", "base": base.name, **act})


def _oracle_policies(facts: SuiteFacts) -> Iterator[Table]:
    several = [pool for pool in facts.pools if pool.size > 1]
    for pool in several:
        # an oracle looks at every trace, however many an example has
        name = facts.name_in_pool(pool, f"any of {pool.size if pool.even else 'all traces'}")
        yield _with_name(name, {"kind": "oracle", "rule": "any", "of": [pool.name]})
    if not several and len(facts.pools) > 1:
        pools = [pool.name for pool in facts.pools]
        yield {"name": f"any of {len(pools)} pools", "kind": "oracle", "rule": "any", "of": pools}
    actions: dict[str, list[str]] = {}
    for action, base, _ in sorted(facts.revisions):
        if action not in actions.setdefault(base, []):
            actions[base].append(action)
    for base, base_actions in actions.items():
        name = "the best action" if len(actions) == 1 else f"the best action on {base}"
        yield _with_name(name, {"kind": "oracle", "rule": "action", "base": base, "of": base_actions})


STABLE = (2, 3)
"""For how many rounds a leader must stay in front for policies of the suite to end a hop."""


def _ranking_policies(facts: SuiteFacts) -> Iterator[Table]:
    """Policies that rank the documents of rounds; a pool explored by rewarded scores has that ranking alone."""
    for pool in facts.rounds:
        if pool.explored:
            rankings: dict[str, Table] = {"as it explored": dict(pool.explored)}
        else:
            rankings = {"first-stage order": {"order": "retriever"}} if pool.ranked else {}
            rankings |= {"plain re-ranking": {"multiplier": 1}}
            rankings |= {f"frontier of each {one}": {"frontier_of": one} for one in ("hop", "round")}
            rankings |= {"SUNAR's penalty": {"penalty": "sunar"}}
        for name, keys in rankings.items():
            yield _retrieve_table(facts, pool, name, keys)
        stable = pool.explored or {"frontier_of": "round"}
        yield _retrieve_table(facts, pool, "stable leader", {**stable, "stable": list(STABLE)})


def _retrieve_table(facts: SuiteFacts, pool: RoundsPool, name: str, keys: Table) -> Table:
    alone = len(facts.rounds) == 1
    return _with_name(
        name if alone else f"{pool.name}: {name}", {"kind": "retrieve", "pool": pool.name, "rounds": pool.size, **keys}
    )


CONFIDENT = (0.5, 0.6, 0.7, 0.8, 0.9)
"""The lowest confidences with which policies of the suite count a refutation."""


MOST_OF_UNIT = 3
"""The most claims of a unit that policies of the suite follow."""


def _buzz_policies(facts: SuiteFacts) -> Iterator[Table]:
    """Policies that act on a pool of checks: at the first refutation, at a sure one, or at a second one, and by
    fewer rounds or claims.
    """
    for pool in facts.checks:
        before = "" if len(facts.checks) == 1 else f"{pool.name}: "
        asks: Table = {"kind": "buzz", "pool": pool.name, "on_missing": "use_available"}
        yield _with_name(f"{before}first refutation", asks)
        yield _with_name(f"{before}sure refutation", {**asks, "confidence": list(CONFIDENT)})
        yield _with_name(f"{before}second refutation", {**asks, "patience": 2})
        yield _with_name(f"{before}the stream alone", {**asks, "revisions": 0})
        if pool.rounds > 1:
            yield _with_name(f"{before}rounds", {**asks, "max_rounds": list(range(1, pool.rounds))})
        if pool.claims > 1:
            yield _with_name(f"{before}claims", {**asks, "max_claims": [1, *_powers_of_two(pool.claims)[:-1]]})
        if pool.unit_claims > 1:
            caps = [{"per_unit": cap} for cap in range(1, min(pool.unit_claims, MOST_OF_UNIT + 1))]
            yield _with_name(f"{before}claims of each unit", {**asks, "max_claims": caps})
        yield _with_name(f"{before}best in hindsight", {"kind": "best buzz", "pool": pool.name})


def _caps(pool: SuitePool) -> list[int]:
    """The numbers of traces up to which policies draw from a pool."""
    return [pool.size] if pool.whole else _powers_of_two(pool.size)


def _powers_of_two(most: int) -> list[int]:
    """The powers of two from 2 up to below `most`, and `most` itself."""
    return [2**k for k in range(1, most.bit_length()) if 2**k < most] + [most]


def as_toml(table: Table) -> str:
    """A policy of a file as TOML, from its keys."""
    return "\n".join(["[[policy]]", *(f"{key} = {_toml_value(value)}" for key, value in table.items())])


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_toml_value, value))}]"
    if value in (inf, -inf):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
