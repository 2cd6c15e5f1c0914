"""The published numbers of SeVRA: looked up by the data set that a log names, and the part that a policy plays.

Every function gives an empty mapping where the paper has no such row; numbers are in the paper's units.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from replay.studies.kit.published import PublishedRow, PublishedWork

DATASETS = {
    "math500": "MATH500", "gsm8k": "GSM8K", "commonsenseqa": "CommonsenseQA", "csqa": "CommonsenseQA", "math": "MATH",
}  # fmt: skip
WORK = PublishedWork(
    "sevra", DATASETS,
    only={"4": "MATH", "12": "MATH500", "20": "MATH500", "22": "CommonsenseQA"}, prefixed=frozenset({"3"}),
)  # fmt: skip
Find = Callable[[str | None, str, str], PublishedRow]
"""Finds the row of a policy, by its data set, its part and what it is of."""
ACTIONS = {"continue": "continue", "activeverify": "verify"}
SCREENED = {"accept": "accept", "continue": "continue", "activeverify": "active verify",
            "critiqueandrepair": "critique and repair", "critiquerepair": "critique and repair"}  # fmt: skip


def published_policy(dataset: str | None, part: str, what: str) -> PublishedRow:
    """Returns the published accuracy, total tokens and flips of a policy (table 2).

    `part` is base, budget, always, selective or samples; `what` the action, the token limit or the number of samples.
    """
    return WORK.row("2", dataset, policy=paper_name(part, what))


def published_price(dataset: str | None, part: str, what: str) -> PublishedRow:
    """Returns the published cost of 1,000 requests at $0.50 per million tokens, and its ratio to the
    base (table 28).
    """
    row = WORK.row("28", dataset, policy=paper_name(part, what))
    return {key: value for key, value in row.items() if key != "total_tokens"}


published_comparison = WORK.row_finder("10", "comparison")
"""Difference, interval and p of a paired comparison."""
published_state = WORK.row_finder("11", "attempt_state")
"""Accuracies of the completed or truncated base attempts."""
published_gate = WORK.row_finder(
    "3", "gate", lambda gate: "cheap features" if _lower_case_letters(gate) == "activeverify" else None
)
"""Accuracy and rate of the gate on cheap features, which is ours for active verification."""
published_action = WORK.row_finder("4", "action", lambda action: SCREENED.get(_lower_case_letters(action)))
"""Accuracy, fixes, flips and tokens of an action on the examples that gates are fitted on."""
published_budget = WORK.row_finder("20", "initial_budget_tokens", lambda limit: int(limit) if limit.isdigit() else None)
"""Accuracy, tokens, finalizers and truncation of an initial budget."""


def published_rule(dataset: str | None, rule: str) -> PublishedRow:
    """Returns the published accuracy, rate, action tokens and flips of a routing rule or diagnostic (tables 12 and
    22).
    """
    return WORK.row("12", dataset, rule=rule) or WORK.row("22", dataset, policy=rule)


def published_requests(dataset: str | None, comparison: str) -> PublishedRow:
    """Returns the published effect of a comparison on 1,000 requests (table 21)."""
    row = WORK.row("21", dataset, comparison=comparison)
    kind = row.get("tokens_kind")
    return row if kind is None else {**row, f"tokens_saved, {kind}": row["tokens_saved"]}


def accuracy_column(part: str, what: str) -> str:
    """Names the column with a policy's accuracy in the published table of states."""
    return "_".join(word for word in (part, paper_verb(what), "accuracy_pct") if word)


def paper_verb(action: str) -> str:
    """Returns the paper's word for an action in the names of its policies; empty where it has none."""
    return ACTIONS.get(_lower_case_letters(action), "")


def paper_name(part: str, what: str) -> str:
    """Returns the paper's name of a policy; empty where it has none."""
    return {
        "base": "base 4096",
        "budget": f"base {what}",
        "always": f"always {paper_verb(what)}",
        "selective": f"selective {paper_verb(what)}",
        "samples": f"self-consistency at {what}",
    }.get(part, "")


def _lower_case_letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())
