"""The study's tables of costs: where tokens go, prices, requests, seconds, the joint frontier, the sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from replay.studies.kit.layout import DATASET
from replay.studies.kit.sheet import Row, Sheet, Value, beside, numbers
from replay.studies.recovery import columns, outcomes, published
from replay.studies.recovery.cost_tables import price_sheet, regret_sheet, seconds_sheet
from replay.studies.recovery.gates import THRESHOLD_SWEEP
from replay.studies.recovery.outcomes import mean
from replay.studies.recovery.rows import ACTING, BUDGET, StudyPolicy, headline, headline_names, headline_rows
from replay.studies.recovery.study import DatasetStudy

PRICES = (0.1, 0.5, 2.0, 10.0)
"""Prices per million tokens of the sensitivity table."""


def _base_tokens(row: StudyPolicy) -> float | None:
    return row.base.number("total_tokens") if row.on_base else None


def _finalizer_tokens(row: StudyPolicy) -> float | None:
    first = row.study.finalizers.get(row.study.roles.base) if row.on_base else None
    if first is None:
        return None
    calls = row.study.finalizers.get(row.what) if row.part in ACTING else None
    acted = row.study.values(row.policy)["intervened"]
    return mean(first if calls is None else first + np.where(acted > 0, acted * calls, 0.0))


def _action_tokens(row: StudyPolicy) -> Value:
    return row.cell("action_tokens") if row.part in ACTING else None


TOKENS = Sheet[DatasetStudy](
    "tokens", "Where the tokens go", ("policy",),
    (
        numbers("base tokens", "base_tokens", 0, _base_tokens),
        numbers("finalizer calls", "finalizers", metric="finalizers", drop=1),
        numbers("finalizer tokens", "finalizer_tokens", 0, _finalizer_tokens),
        replace(columns.ACTION_TOKENS, value=_action_tokens, drop=0),
        columns.PLAIN_TOTAL_TOKENS, columns.CALLS,
    ),
    headline_rows,
    ("Finalizers' tokens are part of the base's and the action's; they are told apart where the log has a column "
     "`finalizer_tokens` of traces.",),
    DATASET,
)  # fmt: skip


PRICED = price_sheet(PRICES, 0.5, headline_rows).beside(
    partial(headline_rows, find=published.published_price),
    {
        "per_1000_at_0.5": ("usd_per_1000_requests", "published at 0.5", "published_per_1000_at_0.5", 2),
        "relative": ("relative_cost", "published relative", "published_relative", 2),
    },
)


def _per_1000(study: DatasetStudy) -> Iterator[Row]:
    named, parts = study.named, {one.policy: one for one in headline(study)}
    pairs = [(named.selective[a], named.always[a]) for a in named.selective]
    pairs += [(budget, named.primary) for budget in named.budgets.values() if named.primary]
    for first, second in (pair for pair in pairs if set(pair) <= set(parts)):
        one, two = parts[first], parts[second]
        values = outcomes.per_1000(study, first, second)
        values |= {"action_tokens_saved": None} if one.part == BUDGET else {}
        compared = f"{published.policy(one.part, one.what)} against {published.policy(two.part, two.what)}"
        theirs = published.published_requests(study.dataset, compared)
        yield Row((f"{first} in place of {second}",), values=values, published=theirs)


PUBLISHED_REQUESTS = (
    ("verification_calls_avoided", "published calls", "published_calls_avoided", 0),
    ("tokens_saved, action tokens", "published action tokens", "published_action_tokens_saved", 0),
    ("tokens_saved, total tokens", "published total tokens", "published_total_tokens_saved", 0),
    ("flips_avoided", "published flips", "published_flips_avoided", 0),
)
*GAINS, MORE_RIGHT = outcomes.PER_1000
PER_1000 = Sheet[DatasetStudy](
    "per_1000_requests", "Per 1,000 requests", ("comparison",),
    (*(beside(column, *theirs) for column, theirs in zip(GAINS, PUBLISHED_REQUESTS, strict=True)), MORE_RIGHT),
    _per_1000, (), DATASET,
)  # fmt: skip
JOINT = regret_sheet(
    "joint_frontier", "Joint frontier over initial budget, gate and action", "budget, action, gate",
    lambda study: study.named.joint,
)  # fmt: skip

COST_SHEETS = (JOINT, THRESHOLD_SWEEP, TOKENS, PRICED, PER_1000, seconds_sheet(headline_names))
