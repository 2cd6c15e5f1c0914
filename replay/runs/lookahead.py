"""Guards a user's own stopping rules against looking ahead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replay.data.block import LogBlock
from replay.policies.base import Policy, nested
from replay.sampling.prefix import Prefix
from replay.sampling.stops import StopRule, decisions
from toolkit.errors import ThinkbackError

CHECKED_EXAMPLES = 256


def check_rules(block: LogBlock, policies: Sequence[Policy]) -> None:
    """Check every stopping rule that is not built in, on the first examples of a run.

    Raises ThinkbackError when a rule decides differently once later steps, or other examples, are cut off.
    """
    small = block.slice(0, min(CHECKED_EXAMPLES, len(block.examples)))
    for policy in (part for whole in policies for part in nested(whole)):
        for rule, seen in policy.untrusted_rules(small):
            name = f"stopping rule `{rule.name}` of policy `{policy.name}`"
            step = looks_ahead(rule, seen)
            if step is not None:
                raise ThinkbackError(
                    f"{name} looks ahead: its decision after step {step} changes when what comes later is cut off"
                )
            if depends_on_other_examples(rule, seen):
                raise ThinkbackError(
                    f"{name} looks at other examples: its decisions change when some of them are left out"
                )


def looks_ahead(rule: StopRule, seen: Prefix) -> int | None:
    """First step at which the rule's decision depends on what comes later (None: nowhere).

    Cutting off catches a rule that waits for the best score, and one that knows how many traces are stored.
    """
    whole = decisions(rule, seen)
    for steps in range(1, whole.shape[1]):
        cut = decisions(rule, seen.first(steps))
        if (cut != whole[:, :steps]).any():
            return int(np.flatnonzero((cut != whole[:, :steps]).any(axis=0))[0]) + 1
    return None


def depends_on_other_examples(rule: StopRule, seen: Prefix) -> bool:
    """Whether the rule's decision on an example depends on which other examples there are."""
    whole = decisions(rule, seen)
    examples = len(whole)
    parts = [slice(0, None, 2), slice(1, None, 2), *(slice(e, e + 1) for e in range(min(examples, 8)))]
    return any((decisions(rule, seen.rows(part)) != whole[part]).any() for part in parts if whole[part].size)
