"""Which pools, actions and gates the study compares on a data set, chosen on the examples that gates are fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from replay.analyses.attempts import (
    base_and_actions,
    best_action,
    budget_pools,
    revision_pools,
    screened_on,
    token_limits,
)
from replay.analyses.rivals import equal_sizes
from replay.data.conditions import of_dataset
from replay.data.contents import read_contents
from replay.data.prices import Prices
from replay.gatefit.checks import check_gates, refuse_seen
from replay.gatefit.gate_set import GateFitting, cheap_gates, given_gates, rival_gates, scopes_of, transferred
from replay.gatefit.rules import missing_rules
from replay.policies.gate_file import GateFile
from replay.studies.recovery.policies import HEURISTICS, Roles, build_policies, votes
from toolkit.log import Log
from toolkit.stats import Settings


@dataclass(frozen=True)
class RecoverySetting:
    """What the study is asked for. `on`, `tune` and `where` are SQL conditions on examples, disjoint.

    `gates` are given files, the first of each action acting for it; `pools` names a pool of revisions for each action
    with several. `pooled`: actions are chosen, and gates fitted, on all data sets together.
    """

    action: str | None
    base: str | None
    budgets: tuple[str, ...]
    on: str
    tune: str
    where: str
    gates: tuple[GateFile, ...]
    margin: float
    prices: Prices | None
    settings: Settings
    pools: tuple[str, ...] = ()
    pooled: bool = False
    together: int = 1


@dataclass(frozen=True, eq=False)
class Chosen:
    """What the study compares on a data set (None: on all of them), with the screening; `notes` say what is missing."""

    dataset: str | None
    roles: Roles
    screening: pl.DataFrame
    notes: tuple[str, ...]
    fitting: GateFitting


def choose_all(log: Log, asked: RecoverySetting, datasets: Sequence[str]) -> dict[str, Chosen]:
    """The choice of every data set: its own, with the cheap gates of the others, or one for all where `pooled`."""
    if asked.pooled:
        return dict.fromkeys(datasets, choose(log, asked))
    own = {name: choose(log, asked, name) for name in datasets}
    return {
        name: _with_others(log, asked, one, [own[other] for other in own if other != name]) for name, one in own.items()
    }


def _with_others(log: Log, asked: RecoverySetting, here: Chosen, others: Sequence[Chosen]) -> Chosen:
    notes: list[str] = []
    more = [
        gate
        for there in others
        for gate in transferred(replace(there.fitting, notes=notes), here.roles.every_gate, there.roles.every_gate)
    ]
    if here.dataset is not None:
        refuse_seen(log, [gate.file for gate in more], of_dataset(asked.where, here.dataset))
    roles = replace(here.roles, rivals=(*here.roles.rivals, *more))
    return replace(here, roles=roles, notes=(*here.notes, *notes))


def choose(log: Log, asked: RecoverySetting, dataset: str | None = None) -> Chosen:
    """Choose pools and actions, screen the actions, fit the gates: on a data set's own examples, or on all."""
    refuse_seen(log, asked.gates, asked.where, frozen=True)
    contents = read_contents(log)
    check_gates(asked.gates, contents, asked.base, asked.action)
    of_gates = asked.gates[0] if asked.gates else None
    base, actions = base_and_actions(log, contents, asked.base or (of_gates.base if of_gates else None), asked.action)
    left_out = contents.opaque | contents.partly_opaque | contents.whole
    samples = {p: (n,) for p, n in contents.sizes.items() if n > 2 and p not in left_out}
    budgets, note = budget_pools(log, contents, base, asked.budgets, samples)
    pools = revision_pools(contents, base, asked.pools, [(one.action, one.base, one.pool) for one in asked.gates])
    scopes = scopes_of(log, asked.on, asked.tune, dataset)
    where = asked.where if dataset is None else of_dataset(asked.where, dataset)
    action = asked.action or (of_gates.action if of_gates else None)
    known = action is not None or len(actions) == 1
    screened, refused = screened_on(log, base, pools, (scopes[0].on, where), known, asked.settings)
    action = action or best_action(screened.filter(pl.col("action").is_in(actions)))
    fitting = GateFitting(log, base, pools, scopes, [*refused, *note])
    cheap = cheap_gates(fitting, actions)
    gates, beside = given_gates(asked.gates, cheap)
    rivals = [*beside, *rival_gates(fitting, action, actions, contents, HEURISTICS)]
    refuse_seen(log, [gate.file for gate in (*cheap.values(), *rivals) if gate.file not in asked.gates], where)
    roles = Roles(
        base, budgets, action, actions, gates, tuple(rivals), samples, token_limits(log),
        together=asked.together, screened_apart=not refused, pools=pools,
    )  # fmt: skip
    unserved = missing_rules(contents, HEURISTICS, action, action in gates)
    return Chosen(dataset, roles, screened, (*fitting.notes, *unserved), fitting)


def with_equal_votes(log: Log, roles: Roles, where: str, asked: RecoverySetting) -> Roles:
    """The roles with, for every intervention, the largest vote whose mean tokens are not more than its own.

    One sample is a vote of 1, which is always there.
    """
    policies, named = build_policies(roles, read_contents(log))
    rivals = [policy for policy in policies if policy.name in named.interventions]
    voters = {pool: votes(roles, pool, range(1, most + 1)) for pool, (most,) in roles.samples.items()}
    return replace(roles, samples=equal_sizes(log, roles.first, rivals, voters, where, asked.settings.seed))
