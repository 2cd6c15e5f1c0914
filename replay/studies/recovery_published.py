"""The published numbers of SeVRA: looked up by the data set that a log names, and the part that a policy plays."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

DATASETS = {"math500": "MATH500", "gsm8k": "GSM8K", "commonsenseqa": "CommonsenseQA", "csqa": "CommonsenseQA"}
ACTIONS = {"continue": "continue", "activeverify": "verify"}


def published_dataset(name: str) -> str | None:
    """The paper's name of a data set; None where it has none."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return DATASETS.get(plain)


def published_policy(dataset: str, part: str, what: str) -> dict[str, float | None]:
    """Accuracy, total tokens and flips of a policy, in the paper's units; empty where it has no such row.

    `part` is base, budget, always, selective or samples; `what` the action, the token limit or the number of samples.
    """
    name = published_dataset(dataset)
    action = ACTIONS.get(re.sub(r"[^a-z]", "", what.lower()), "")
    row = {
        "base": "base 4096",
        "budget": f"base {what}",
        "always": f"always {action}",
        "selective": f"selective {action}",
        "samples": f"self-consistency at {what}",
    }[part]
    if name is None:
        return {}
    for one in _rows("2"):
        if (one["dataset"], one["policy"]) == (name, row):
            return {key: one[key] for key in ("accuracy_pct", "total_tokens", "flips_pct")}
    return {}


def published_comparison(dataset: str, comparison: str) -> dict[str, float | None]:
    """A row of the paper's paired comparisons: difference, interval, p; empty where there is none."""
    name = published_dataset(dataset)
    for one in _rows("10"):
        if name is not None and (one["dataset"], one["comparison"]) == (name, comparison):
            return {key: one[key] for key in ("difference", "ci95_low", "ci95_high", "p")}
    return {}


def published_state(dataset: str, state: str) -> dict[str, float | None]:
    """Accuracies of the completed or truncated base attempts."""
    name = published_dataset(dataset)
    for one in _rows("11"):
        if name is not None and (one["dataset"], one["attempt_state"]) == (name, state):
            return {key: value for key, value in one.items() if key not in ("dataset", "attempt_state")}
    return {}


@cache
def _tables() -> dict[str, Any]:
    text = files("replay.studies").joinpath("data/sevra.json").read_text(encoding="utf-8")
    return {table["id"]: table for table in json.loads(text)["tables"]}


def _rows(table: str) -> list[dict[str, Any]]:
    found = _tables()[table]
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
