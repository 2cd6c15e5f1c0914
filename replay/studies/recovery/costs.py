"""The study's tables of costs: where tokens go, prices, requests, seconds, the joint frontier, the sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from replay.analyses.gate_curve import at_rates
from replay.analyses.rivals import best_for_no_more
from replay.studies.kit import columns, outcomes
from replay.studies.kit.layout import DATASET
from replay.studies.kit.outcomes import mean
from replay.studies.kit.sheet import Column, Row, Sheet, Value, beside, intervals, listed, numbers, words
from replay.studies.recovery import published
from replay.studies.recovery.rows import ACTING, BUDGET, SELECTIVE, StudyPolicy, headline, headline_rows
from replay.studies.recovery.study import DatasetStudy
from replay.studies.recovery.tables import ACCURACY, PLAIN_ACCURACY, PLAIN_TOTAL, TOTAL
from toolkit.show import ShownInterval, TableColumn
from toolkit.stats.summary_notes import BATCHED_SECONDS

PRICES = (0.1, 0.5, 2.0, 10.0)
"""Prices per million tokens of the sensitivity table."""
Studies = Sequence[DatasetStudy]


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
        PLAIN_TOTAL, columns.CALLS,
    ),
    headline_rows,
    ("Finalizers' tokens are part of the base's and the action's; they are told apart where the log has a column "
     "`finalizer_tokens` of traces.",),
    DATASET,
)  # fmt: skip


def _relative(row: StudyPolicy) -> float | None:
    base, tokens = row.base.number("total_tokens"), row.number("total_tokens")
    return tokens / base if tokens is not None and base else None


def _price_columns(studies: Studies) -> list[Column]:
    theirs = ("usd_per_1000_requests", "published at 0.5", "published_per_1000_at_0.5")
    costs = columns.priced(PRICES)
    made = [PLAIN_TOTAL, *(costs | {0.5: beside(replace(costs[0.5], drop=0), *theirs)}).values()]
    relative = numbers("relative", "relative", value=_relative)
    made += [beside(relative, "relative_cost", "published relative", "published_relative")]
    if any((study.result.summary["metric"] == "cost_per_1000").any() for study in studies):
        made += [intervals("at the models' prices", "per_1000_priced", metric="cost_per_1000")]
    return made


PRICED = Sheet[DatasetStudy](
    "prices", "Cost of 1,000 requests", ("policy",), _price_columns,
    partial(headline_rows, find=published.published_price),
    ("Average realised tokens times the price; no provider's quote. Total tokens: of one request. Prices: in any "
     "currency. Relative: to the base attempt.",), DATASET,
)  # fmt: skip


def _per_1000(study: DatasetStudy) -> Iterator[Row]:
    named, parts = study.named, {one.policy: one for one in headline(study)}
    pairs = [(named.selective[a], named.always[a]) for a in named.selective]
    pairs += [(budget, named.primary) for budget in named.budgets.values() if named.primary]
    for first, second in (pair for pair in pairs if set(pair) <= set(parts)):
        values = outcomes.per_1000(study, first, second)
        values |= {"action_tokens_saved": None} if parts[first].part == BUDGET else {}
        other = published.published_requests(study.dataset, _paper_comparison(parts[first], parts[second]))
        saved = {"action tokens": "published_action", "total tokens": "published_total"}.get(
            other.get("tokens_kind", "")
        )
        theirs = {**other, **({saved: other.get("tokens_saved")} if saved else {})}
        yield Row((f"{first} in place of {second}",), values=values, published=theirs)


def _paper_comparison(first: StudyPolicy, second: StudyPolicy) -> str:
    """What the paper calls a comparison of its table 21; empty where it has no such one."""
    if first.part == SELECTIVE:
        return f"selective {published.verb(first.what)} against always {published.verb(second.what)}"
    return f"base {first.what} against selective {published.verb(second.what)}"


CALLS_AVOIDED, ACTION_SAVED, TOTAL_SAVED, FLIPS_AVOIDED, MORE_RIGHT = outcomes.PER_1000
PER_1000 = Sheet[DatasetStudy](
    "per_1000_requests", "Per 1,000 requests", ("comparison",),
    (
        beside(CALLS_AVOIDED, "verification_calls_avoided", "published calls", "published_calls_avoided", 0),
        beside(ACTION_SAVED, "published_action", "published action tokens", "published_action_tokens_saved", 0),
        beside(TOTAL_SAVED, "published_total", "published total tokens", "published_total_tokens_saved", 0),
        beside(FLIPS_AVOIDED, "flips_avoided", "published flips", "published_flips_avoided", 0), MORE_RIGHT,
    ),
    _per_1000, (), DATASET,
)  # fmt: skip


def _seconds(study: DatasetStudy) -> Iterator[Row]:
    shown = {one.policy for one in headline(study)}
    yield from listed((row for row in study.result.seconds.iter_rows(named=True) if row["policy"] in shown), ["policy"])


def _told_seconds(studies: Studies) -> Iterator[str]:
    yield (
        "One call after the other, finalizers included; samples of a vote as many at a time as `together` says. "
        "A mean over rollouts is one request."
    )
    for study in studies:
        yield from (f"{study.dataset}: {one.text}" for one in study.notes if one.code == BATCHED_SECONDS)


SECONDS = Sheet[DatasetStudy](
    "seconds", "Seconds of the whole path", ("policy",),
    columns.SECONDS, _seconds, _told_seconds, DATASET,
)  # fmt: skip


def _joint(study: DatasetStudy) -> Iterator[Row]:
    joint = {name: StudyPolicy(study, name) for name in study.served(study.named.joint)}
    points = {name: (one.number("accuracy"), one.number("total_tokens")) for name, one in joint.items()}
    for name, best in best_for_no_more(points).items():
        one, values = joint[name], dict[str, Value]()
        if best is not None:
            values = {"regret": ShownInterval(0.0) if best == name else study.paired(best, name)[0]}
            values |= {"best": "" if best == name else best, "on_front": "●" if best == name else ""}
        yield Row((name,), one, values)


JOINT = Sheet[DatasetStudy](
    "joint_frontier", "Joint frontier over initial budget, gate and action",
    (TableColumn("budget, action, gate", key="policy"),),
    (
        replace(PLAIN_ACCURACY, theirs=None), PLAIN_TOTAL, intervals("regret, points", "regret", shown=100),
        words("best for no more tokens", "best"), words("front", "on_front"),
    ),
    _joint,
    ("Regret: how far the best policy that costs at most as many tokens is ahead, paired; 0 where that is itself.",),
    DATASET,
)  # fmt: skip


def _sweep(study: DatasetStudy) -> Iterator[Row]:
    if study.band is not None:
        metrics = ("accuracy", "flip_rate", "flips_among", "total_tokens")
        yield from (Row((), values=values) for values in at_rates(study.band, metrics))


SWEEP = Sheet[DatasetStudy](
    "threshold_sweep", "Threshold sweep of the primary gate", (),
    (
        columns.ACTS_ON, words("threshold", "threshold"), ACCURACY, intervals("flips %", "flip_rate", shown=100),
        intervals("flips among those %", "flips_among", 1, shown=100), TOTAL,
    ),
    _sweep,
    ("In brackets the sup-t band, which holds the whole curve at once. Flips among those: the flip rate over the "
     "examples acted on (the paper's equation 19).",),
    DATASET,
)  # fmt: skip

COST_SHEETS = (JOINT, SWEEP, TOKENS, PRICED, PER_1000, SECONDS)
