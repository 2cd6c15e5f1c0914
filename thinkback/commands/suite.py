"""`thinkback suite` and `thinkback check`: the standard policies of a log, and whether a policy file is sound."""

from __future__ import annotations

import sys
from pathlib import Path


def suite(log: str, where: str | None = None, cost: str | None = None, prices: Path | None = None) -> None:
    """Print the standard policies of a log.

    The policies that it can answer, as a policy file to edit.
    """
    from replay.policies.suite import suite as standard

    sys.stdout.write(standard(log, where, prices, cost).text)


def check(file: Path, log: str | None = None, rules: Path | None = None, where: str | None = None) -> None:
    """Check a policy file without replaying it."""
    from collections import Counter

    from replay.runs.result.run import check_policies
    from thinkback import console
    from toolkit.errors import counted

    checked = check_policies(file, log, rules=rules, where=where)
    kinds = Counter(policy.kind for policy in checked.policies)
    parts = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    text = f"{file}: {counted(len(checked.policies), 'policy', 'policies')} ({parts})"
    if checked.examples is not None:
        text += f"; the log has what they name, and {counted(checked.examples, 'example')} to report"
    for note in checked.notes:
        console.complain(note.text)
    console.say(f"{text}.")
    if checked.examples is not None:
        console.say("A replay tells whether pools have enough traces.")
