"""Checking a policy file, and whether a log has what it asks for, without replaying anything."""

from __future__ import annotations

from dataclasses import dataclass

from replay.data.conditions import CONDITION
from replay.data.contents import opened
from replay.policies.base import Policy
from replay.policies.toml import POLICIES, RULES, GivenPolicies, load_policies
from replay.runs.result.run import resolved
from replay.sampling.own_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.log import TAKES, AnyLog
from toolkit.notes import Note


@dataclass(frozen=True)
class CheckedPolicies:
    """A policy file that is sound. `policies`: one for each value of a sweep; with a log, by its names.

    `examples`: how many the log has that would be reported, and `notes` its warnings; None and none without a log.
    """

    policies: tuple[Policy, ...]
    examples: int | None = None
    notes: tuple[Note, ...] = ()


@checks_arguments(policies=POLICIES, log=TAKES, rules=RULES, where=CONDITION)
def check_policies(
    policies: GivenPolicies, log: AnyLog | None = None, *, rules: GivenRules = None, where: str | None = None
) -> CheckedPolicies:
    """Check a policy file, and with a log its pools, verifiers, signals, actions and columns.

    Whether pools have enough traces on enough examples, a replay tells. Raises ThinkbackError for what is wrong.
    """
    file = load_policies(policies, rules)
    if log is None:
        return CheckedPolicies(file.policies)
    found, contents = opened(log)
    chosen, examples, notes = resolved(found, contents, file, file.measure, where, ())
    return CheckedPolicies(chosen, len(examples.frame), notes)
