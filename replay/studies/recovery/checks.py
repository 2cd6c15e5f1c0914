"""What the study on thinking again refuses before it starts, and what its verdict must be read with."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from replay.data.conditions import examples_of, matching
from replay.data.contents import Contents
from replay.policies.gate_file import GateFile
from replay.runs.reuse import first_ids, seen_by
from replay.studies.recovery.policies import Roles
from toolkit.errors import ThinkbackError, argument, listed, suggest
from toolkit.log import Log

ON, TUNE = "split = 'train'", "split = 'dev'"
"""Where gates are fitted and tuned unless other conditions are given."""


def check_rows(log: Log, on: str | None, tune: str | None, where: str) -> None:
    """Refuse conditions that were given and hold nowhere, and sets of examples that overlap.

    `on` and `tune` are None where their defaults stand: a log without such splits is one without fitted gates, but
    where it has them they overlap as any other condition does.
    """
    told = {"on": on or f"{ON}, the default", "tune": tune or f"{TUNE}, the default", "where": where}
    found = {
        "on": set(matching(log, on, "on")) if on else _split(log, ON),
        "tune": set(matching(log, tune, "tune")) if tune else _split(log, TUNE),
        "where": set(matching(log, where, "where")),
    }
    for first, second in (("on", "tune"), ("on", "where"), ("tune", "where")):
        both = sorted(found[first] & found[second])
        if both:
            raise ThinkbackError(
                f"{argument(first)} ({told[first]}) and {argument(second)} ({told[second]}) share "
                f"{len(both):,} examples ({first_ids(both)}): fit, tune and report on disjoint ones"
            )


def _split(log: Log, condition: str) -> set[str]:
    """Ids of the examples of a default condition, none where the log names no such split."""
    try:
        return set(matching(log, condition, "split"))
    except ThinkbackError:
        return set()


def revision_pools(
    named: Collection[str], given: Collection[GateFile], base: str, contents: Contents
) -> dict[tuple[str, str], str | None]:
    """The pool of the revisions of every (action, base), None where there is one alone.

    Of actions with several it is the one that is named, or that of a given gate; where that is none or more than
    one the study's own base is refused, and others are left out.
    """
    known = {pool for _, _, pool in contents.revisions}
    for name in named:
        if name not in known:
            raise ThinkbackError(
                f"{argument('pool')}: the log has no pool `{name}` of revisions; {suggest(name, known)}"
            )
    found: dict[tuple[str, str], str | None] = {}
    for action, one in sorted({(action, one) for action, one, _ in contents.revisions}):
        own = sorted(pool for *key, pool in contents.revisions if key == [action, one])
        frozen = [gate.pool for gate in given if not named and (gate.action, gate.base) == (action, one)]
        chosen = [pool for pool in own if pool in named or pool in frozen]
        if len(own) == 1 or len(chosen) == 1:
            found[action, one] = chosen[0] if len(own) > 1 else None
        elif one == base:
            raise ThinkbackError(
                f"action `{action}` of pool `{base}` has several pools of revisions "
                f"({listed(own)}): name one of them with {argument('pool')}"
            )
    return found


def check_gate(
    gate: GateFile, base: str | None, action: str | None, bases: Collection[str], actions: Collection[str]
) -> None:
    """Refuse a frozen gate of another base or another action than the study's, before anything else."""
    if gate.base not in bases:
        raise ThinkbackError(
            f"gate file `{gate.path}` was fitted on base attempts of pool `{gate.base}`, of which this log has no "
            f"revision ({suggest(gate.base, bases)}); fit one on this log, or import its rows with "
            f"{argument('base')} as `{gate.base}`"
        )
    for option, asked, own in (("base", base, gate.base), ("action", action, gate.action)):
        if asked is not None and asked != own:
            raise ThinkbackError(
                f"gate file `{gate.path}` is for {option} `{own}`, not for `{asked}`: fit another one, or leave out "
                f"{argument(option)}"
            )
    if gate.action not in actions:
        raise ThinkbackError(
            f"gate file `{gate.path}` predicts repairs by action `{gate.action}`, which pool `{gate.base}` has no "
            f"revisions by; {suggest(gate.action, actions)}"
        )


def refuse_seen(log: Log, gates: Iterable[GateFile], where: str, *, frozen: bool = False) -> None:
    """Refuse to report on questions that gates were fitted or tuned on, `frozen` ones of the user's or our own."""
    gates = tuple(gates)
    if not gates:
        return
    examples = examples_of(log, matching(log, where, "where"), ["question"])
    for gate, seen in seen_by(gates, examples, log.digest()):
        told = f"{len(seen):,} of the {len(examples):,} examples of {argument('where')} ({where})"
        if frozen:
            raise ThinkbackError(
                f"gate file `{gate.path}` was fitted or tuned on {told}, such as {first_ids(seen)}: report on others "
                f"with {argument('where')}"
            )
        raise ThinkbackError(
            f"{told} ask questions that gates are fitted or tuned on here ({first_ids(seen)}): report on others with "
            f"{argument('where')}, or fit and tune on others with {argument('on')} and {argument('tune')}"
        )


def caveats(roles: Roles, rules: bool) -> tuple[str, ...]:
    """Why a verdict may be too good: what was chosen on the very examples that it is reported on.

    `rules`: whether rules without a fit are compared in place of a gate.
    """
    found = []
    if not roles.screened_apart:
        found.append("the actions were screened on the reported examples, because those of `on` could not be used")
    if rules and roles.action not in roles.gates:
        found.append(
            f"no gate for `{roles.action}` was fitted and tuned on other examples, so rules without a fit are "
            "compared, on the reported examples alone"
        )
    if not found:
        return ()
    return (*found, "before relying on the verdict, hold more examples back for `on` and `tune` and ask again")
