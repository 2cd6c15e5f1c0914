"""Guards a user's own stopping rules and selects against looking ahead."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from replay.data.block import LogBlock
from replay.policies.base import Evaluator, Policy, nested
from replay.sampling.declared import Untrusted
from toolkit.errors import ThinkbackError

CHECKED_EXAMPLES = 256


def check_rules(block: LogBlock, policies: Sequence[Policy]) -> None:
    """Check every stopping rule and select that is not built in, on the first examples of a run.

    Raises ThinkbackError when one decides differently once later steps, or other examples, are cut off.
    """
    on = Evaluator(block.slice(0, min(CHECKED_EXAMPLES, len(block.examples))), [])
    checked: set[Hashable] = set()
    for policy in (part for whole in policies for part in nested(whole)):
        for rule in policy.untrusted_rules(on):
            seen = (rule.same, id(rule.seen))  # policies of one walk are shown the very same
            if seen in checked:
                continue
            checked.add(seen)
            name = f"{rule.rule} of policy `{policy.name}`"
            step = looks_ahead(rule)
            if step is not None:
                raise ThinkbackError(
                    f"{name} looks ahead: its {rule.says} after step {step} changes when what comes later is cut off"
                )
            if depends_on_other_examples(rule):
                raise ThinkbackError(
                    f"{name} looks at other examples: its {rule.says}s change when some of them are left out"
                )


def looks_ahead(rule: Untrusted) -> int | None:
    """First step after which what the rule says depends on what comes later (None: nowhere).

    Cutting off catches a rule that waits for the best score, and one that knows how many traces are stored.
    """
    whole = rule.decide(rule.seen)
    for steps in range(1, whole.shape[1]):
        cut = rule.decide(rule.seen.first(steps))
        if (cut != whole[:, :steps]).any():
            return int(np.flatnonzero((cut != whole[:, :steps]).any(axis=0))[0]) + 1
    return None


def depends_on_other_examples(rule: Untrusted) -> bool:
    """Whether what the rule says of an example depends on which other examples there are."""
    whole = rule.decide(rule.seen)
    examples = len(whole)
    parts = [slice(0, None, 2), slice(1, None, 2), *(slice(e, e + 1) for e in range(min(examples, 8)))]
    return any((rule.decide(rule.seen.rows(part)) != whole[part]).any() for part in parts if whole[part].size)
