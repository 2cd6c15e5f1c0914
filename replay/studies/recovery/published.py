"""The published numbers of SeVRA: looked up by the data set that a log names, and the part that a policy plays.

Every function gives an empty mapping where the paper has no such row; numbers are in the paper's units.
"""

from __future__ import annotations

import re

from replay.studies.transcribed import PublishedRow, published_row

DATASETS = {
    "math500": "MATH500", "gsm8k": "GSM8K", "commonsenseqa": "CommonsenseQA", "csqa": "CommonsenseQA", "math": "MATH",
}  # fmt: skip
ACTIONS = {"continue": "continue", "activeverify": "verify"}
SCREENED = {"accept": "accept", "continue": "continue", "activeverify": "active verify",
            "critiqueandrepair": "critique and repair", "critiquerepair": "critique and repair"}  # fmt: skip


def published_dataset(name: str) -> str | None:
    """The paper's name of a data set; None where it has none."""
    return DATASETS.get(re.sub(r"[^a-z0-9]", "", name.lower()))


def published_policy(dataset: str, part: str, what: str) -> PublishedRow:
    """Accuracy, total tokens and flips of a policy (table 2).

    `part` is base, budget, always, selective or samples; `what` the action, the token limit or the number of samples.
    """
    return _row("2", dataset=published_dataset(dataset), policy=_policy(part, what))


def published_price(dataset: str, part: str, what: str) -> PublishedRow:
    """Cost of 1,000 requests at half a dollar per million tokens, and its ratio to the base (table 28)."""
    return _row("28", dataset=published_dataset(dataset), policy=_policy(part, what))


def published_comparison(dataset: str, comparison: str) -> PublishedRow:
    """Difference, interval and p of a paired comparison (table 10)."""
    return _row("10", dataset=published_dataset(dataset), comparison=comparison)


def published_state(dataset: str, state: str) -> PublishedRow:
    """Accuracies of the completed or truncated base attempts (table 11)."""
    return _row("11", dataset=published_dataset(dataset), attempt_state=state)


def published_gate(dataset: str, gate: str) -> PublishedRow:
    """Accuracy and rate of the gate on cheap features (table 3), which is ours for active verification."""
    name = (published_dataset(dataset) or "").lower()
    row = _row("3", gate="cheap features") if _plain(gate) == "activeverify" else {}
    found = {key: row.get(f"{name}_{key}") for key in ("accuracy_pct", "verify_pct")}
    return found if None not in found.values() else {}


def published_action(dataset: str, action: str) -> PublishedRow:
    """Accuracy, fixes, flips and tokens of an action on the examples that gates are fitted on (table 4)."""
    return _row("4", action=SCREENED.get(_plain(action))) if published_dataset(dataset) == "MATH" else {}


def published_rule(dataset: str, rule: str) -> PublishedRow:
    """Accuracy, rate, action tokens and flips of a routing rule or a diagnostic (tables 12 and 22).

    `rule` is in the paper's words, such as "cheap features".
    """
    name = published_dataset(dataset)
    if name == "MATH500":
        return _row("12", rule=rule)
    return _row("22", policy=rule) if name == "CommonsenseQA" else {}


def published_budget(dataset: str, limit: str) -> PublishedRow:
    """Accuracy, tokens, finalizers and truncation of an initial budget (table 20)."""
    known = published_dataset(dataset) == "MATH500" and limit.isdigit()
    return _row("20", initial_budget_tokens=int(limit)) if known else {}


def published_requests(dataset: str, comparison: str) -> PublishedRow:
    """What a comparison means for 1,000 requests (table 21)."""
    return _row("21", dataset=published_dataset(dataset), comparison=comparison)


def verb(action: str) -> str:
    """The paper's word for an action in the names of its policies; empty where it has none."""
    return ACTIONS.get(_plain(action), "")


def _policy(part: str, what: str) -> str:
    return {
        "base": "base 4096",
        "budget": f"base {what}",
        "always": f"always {verb(what)}",
        "selective": f"selective {verb(what)}",
        "samples": f"self-consistency at {what}",
    }[part]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _row(table: str, **keys: object) -> PublishedRow:
    """The row of a table in which these columns have these values, without them."""
    row = published_row("sevra", table, **keys) if None not in keys.values() else {}
    return {key: value for key, value in row.items() if key not in keys}
