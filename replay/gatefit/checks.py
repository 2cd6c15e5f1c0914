"""What is refused before gates are fitted and reported: examples that overlap, and gates that do not fit a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replay.data.conditions import examples_of, matching, matching_or_none
from replay.data.contents import Contents
from replay.policies.gate_file import GateFile
from replay.runs.passes.reuse import first_ids, seen_by
from toolkit.errors import ConflictError, LeakageError, MismatchError, argument, suggest
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
        "on": set(matching(log, on, "on") if on else matching_or_none(log, ON)),
        "tune": set(matching(log, tune, "tune") if tune else matching_or_none(log, TUNE)),
        "where": set(matching(log, where, "where")),
    }
    for first, second in (("on", "tune"), ("on", "where"), ("tune", "where")):
        both = sorted(found[first] & found[second])
        if both:
            raise LeakageError(
                f"{argument(first)} ({told[first]}) and {argument(second)} ({told[second]}) share "
                f"{len(both):,} examples ({first_ids(both)}): fit, tune and report on disjoint ones"
            )


def check_gates(gates: Sequence[GateFile], contents: Contents, base: str | None, action: str | None) -> None:
    """Refuse frozen gates of another base or other actions than are asked for, before anything else."""
    bases = sorted({one for _, one, _ in contents.revisions})
    known = {gate.action for gate in gates}
    for gate in gates if bases else ():
        _check_gate(gate, base, None if action in known else action, bases, contents)
        if gate.base != gates[0].base:
            raise ConflictError(
                f"gate files `{gates[0].path}` and `{gate.path}` are of base attempts of two pools, "
                f"`{gates[0].base}` and `{gate.base}`: study one after the other"
            )


def _check_gate(gate: GateFile, base: str | None, action: str | None, bases: Sequence[str], contents: Contents) -> None:
    if gate.base not in bases:
        raise MismatchError(
            f"gate file `{gate.path}` was fitted on base attempts of pool `{gate.base}`, of which this log has no "
            f"revision ({suggest(gate.base, bases)}); fit one on this log, or import its rows with "
            f"{argument('base')} as `{gate.base}`"
        )
    for option, asked, own in (("base", base, gate.base), ("action", action, gate.action)):
        if asked is not None and asked != own:
            raise MismatchError(
                f"gate file `{gate.path}` is for {option} `{own}`, not for `{asked}`: fit another one, or leave out "
                f"{argument(option)}"
            )
    actions = {own for own, one, _ in contents.revisions if one == gate.base}
    if gate.action not in actions:
        raise MismatchError(
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
            raise LeakageError(
                f"gate file `{gate.path}` was fitted or tuned on {told}, such as {first_ids(seen)}: report on others "
                f"with {argument('where')}"
            )
        raise LeakageError(
            f"{told} ask questions that gates are fitted or tuned on here ({first_ids(seen)}): report on others with "
            f"{argument('where')}, or fit and tune on others with {argument('on')} and {argument('tune')}"
        )
