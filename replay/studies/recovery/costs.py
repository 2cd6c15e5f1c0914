"""The study's tables of costs: where tokens go, prices, requests, seconds, the joint frontier, the sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from replay.studies.kit.published import PublishedRow
from replay.studies.kit.sheet import Column, Row, Sheet, Value, intervals, listed, numbers, words
from replay.studies.recovery import published
from replay.studies.recovery.rows import ACTING, BUDGET, SELECTIVE, StudyPolicy, headline, paired_cell
from replay.studies.recovery.study import DatasetStudy
from replay.studies.recovery.tables import (
    ACCURACY,
    ACTION_TOKENS,
    ACTS_ON,
    CALLS,
    DATASET,
    PLAIN_ACCURACY,
    PLAIN_TOTAL,
    TOTAL,
    beside,
)
from toolkit.show import ShownInterval, TableColumn
from toolkit.stats.summary_notes import BATCHED_SECONDS

PRICES = (0.1, 0.5, 2.0, 10.0)
"""Prices per million tokens of the sensitivity table."""
Studies = Sequence[DatasetStudy]


def _rows(study: DatasetStudy, find: published.Find | None = None) -> Iterator[Row]:
    for one in headline(study):
        yield Row((one.policy,), one, published={} if find is None else one.published(find))


def _base_tokens(row: StudyPolicy) -> float | None:
    return StudyPolicy(row.study, row.study.named.base).number("total_tokens") if row.on_base else None


def _finalizer_tokens(row: StudyPolicy) -> float | None:
    first = row.study.finalizers.get(row.study.roles.base) if row.on_base else None
    if first is None:
        return None
    calls = row.study.finalizers.get(row.what) if row.part in ACTING else None
    acted = row.study.values(row.policy)["intervened"]
    spent = first if calls is None else first + np.where(acted > 0, acted * calls, 0.0)
    return None if np.isnan(spent).any() else float(spent.mean())


TOKENS = Sheet[DatasetStudy](
    "tokens", "Where the tokens go", ("policy",),
    (
        numbers("base tokens", "base_tokens", 0, _base_tokens),
        numbers("finalizer calls", "finalizers", metric="finalizers", drop=1),
        numbers("finalizer tokens", "finalizer_tokens", 0, _finalizer_tokens),
        replace(ACTION_TOKENS, value=lambda row: row.cell("action_tokens") if row.part in ACTING else None, drop=0),
        PLAIN_TOTAL, CALLS,
    ),
    _rows,
    ("Finalizers' tokens are part of the base's and the action's; they are told apart where the log has a column "
     "`finalizer_tokens` of traces.",),
    DATASET,
)  # fmt: skip


def _cost(price: float, row: StudyPolicy) -> float | None:
    tokens = row.number("total_tokens")
    return None if tokens is None else tokens * price / 1000


def _relative(row: StudyPolicy) -> float | None:
    base, tokens = (StudyPolicy(row.study, name).number("total_tokens") for name in (row.study.named.base, row.policy))
    return tokens / base if tokens is not None and base else None


def _price_columns(studies: Studies) -> list[Column]:
    made = [PLAIN_TOTAL]
    for price in PRICES:
        column = numbers(f"at {price:g} per million", f"per_1000_at_{price:g}", value=partial(_cost, price), drop=2)
        theirs = ("usd_per_1000_requests", "published at 0.5", "published_per_1000_at_0.5")
        made += [beside(replace(column, drop=0), *theirs) if price == 0.5 else column]
    relative = numbers("relative", "relative", value=_relative)
    made += [beside(relative, "relative_cost", "published relative", "published_relative")]
    if any((study.result.summary["metric"] == "cost_per_1000").any() for study in studies):
        made += [intervals("at the models' prices", "per_1000_priced", metric="cost_per_1000")]
    return made


def _published_price(dataset: str, part: str, what: str) -> PublishedRow:
    found = published.published_price(dataset, part, what)
    return {key: found.get(key) for key in ("usd_per_1000_requests", "relative_cost")}


PRICED = Sheet[DatasetStudy](
    "prices", "Cost of 1,000 requests", ("policy",), _price_columns, partial(_rows, find=_published_price),
    ("Average realised tokens times the price; no provider's quote.",), DATASET,
)  # fmt: skip


def _per_1000(study: DatasetStudy) -> Iterator[Row]:
    named, parts = study.named, {one.policy: one for one in headline(study)}
    pairs = [(named.selective[a], named.always[a]) for a in named.selective]
    pairs += [(budget, named.primary) for budget in named.budgets.values() if named.primary]
    for first, second in (pair for pair in pairs if set(pair) <= set(parts)):
        one, two = study.values(first), study.values(second)
        values = {
            "calls_avoided": _times(two["calls"] - one["calls"]),
            "action_tokens_saved": _times(two["action_tokens"] - one["action_tokens"]),
            "total_tokens_saved": _times(two["total_tokens"] - one["total_tokens"]),
            "flips_avoided": _times(two["flip"] - one["flip"]),
            "more_right": _times(one["correct"] - two["correct"]),
        }
        if parts[first].part == BUDGET:
            values["action_tokens_saved"] = None
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


def _times(values: np.ndarray) -> float | None:
    return None if np.isnan(values).any() else 1000 * float(values.mean())


PER_1000 = Sheet[DatasetStudy](
    "per_1000_requests", "Per 1,000 requests", ("comparison",),
    (
        beside(numbers("calls avoided", "calls_avoided", 0), "verification_calls_avoided", "published calls",
               "published_calls_avoided", 0),
        beside(numbers("action tokens saved", "action_tokens_saved", 0), "published_action", "published action tokens",
               "published_action_tokens_saved", 0),
        beside(numbers("total tokens saved", "total_tokens_saved", 0), "published_total", "published total tokens",
               "published_total_tokens_saved", 0),
        beside(numbers("flips avoided", "flips_avoided", 1), "flips_avoided", "published flips",
               "published_flips_avoided", 0),
        numbers("more right answers", "more_right", 1, signed=True),
    ),
    _per_1000, (), DATASET,
)  # fmt: skip


def _seconds(study: DatasetStudy) -> Iterator[Row]:
    shown = {one.policy for one in headline(study)}
    yield from listed((row for row in study.seconds.iter_rows(named=True) if row["policy"] in shown), ["policy"])


def _told_seconds(studies: Studies) -> Iterator[str]:
    yield (
        "One call after the other, finalizers included; samples of a vote as many at a time as `width` says. "
        "A mean over rollouts is one request."
    )
    for study in studies:
        yield from (f"{study.dataset}: {one.text}" for one in study.notes if one.code == BATCHED_SECONDS)


SECONDS = Sheet[DatasetStudy](
    "seconds", "Seconds of the whole path", ("policy",),
    tuple(numbers(name, name) for name in ("mean", "p50", "p95", "p99")), _seconds, _told_seconds, DATASET,
)  # fmt: skip


def _joint(study: DatasetStudy) -> Iterator[Row]:
    joint = study.named.joint
    points = [(shown, StudyPolicy(study, policy)) for shown, policy in joint.items() if policy in study.policies]
    known = [(shown, one, one.number("accuracy"), one.number("total_tokens")) for shown, one in points]
    known.sort(key=lambda point: (point[3] is None, point[3] or 0.0, point[0]))
    for shown, one, _, tokens in known:
        rivals = [p for p in known if tokens is not None and p[3] is not None and p[3] <= tokens]
        best = max(rivals, key=lambda p: p[2] or 0.0, default=None)
        values: dict[str, Value] = {"regret": None, "best": None, "on_front": None}
        if best is not None:
            ahead = paired_cell(study, joint[best[0]], one.policy)[0]
            on_front = best[0] == shown
            values = {"regret": ahead, "best": "" if on_front else best[0], "on_front": "●" if on_front else ""}
        yield Row((shown,), one, values)


JOINT = Sheet[DatasetStudy](
    "joint_frontier", "Joint frontier over initial budget, gate and action",
    (TableColumn("budget, action, gate", key="policy"),),
    (
        replace(PLAIN_ACCURACY, theirs=None), PLAIN_TOTAL, intervals("regret, points", "regret", shown=100),
        words("best for no more tokens", "best"), words("front", "on_front"),
    ),
    _joint,
    ("Regret: how far the best policy that costs at most as many mean tokens is ahead, paired.",),
    DATASET,
)  # fmt: skip


def _sweep(study: DatasetStudy) -> Iterator[Row]:
    if study.band is None:
        return
    wide = {
        (row["threshold"], row["metric"]): ShownInterval.of((row["estimate"], row["band_low"], row["band_high"]))
        for row in study.band.iter_rows(named=True)
    }
    rates = study.band.filter(pl.col("metric") == "intervention_rate").sort("estimate")
    places = np.unique(np.abs(rates["estimate"].to_numpy()[:, None] - np.linspace(0, 1, 11)).argmin(axis=0))
    for place in places:
        threshold, rate = rates["threshold"][int(place)], rates["estimate"][int(place)]
        # digits that tell a threshold from its neighbours
        told = f"{threshold:.4g}" if np.isfinite(threshold) else "never" if threshold > 0 else "always"
        cells = {name: wide.get((threshold, name)) for name in ("accuracy", "flip_rate", "flips_among", "total_tokens")}
        yield Row((), values={"intervention_rate": rate, "threshold": told, **cells})


SWEEP = Sheet[DatasetStudy](
    "threshold_sweep", "Threshold sweep of the primary gate", (),
    (
        ACTS_ON, words("threshold", "threshold"), ACCURACY, intervals("flips %", "flip_rate", shown=100),
        intervals("flips among those %", "flips_among", 1, shown=100), TOTAL,
    ),
    _sweep,
    ("In brackets the sup-t band, which holds the whole curve at once. Flips among those: the flip rate over the "
     "examples acted on (the paper's equation 19).",),
    DATASET,
)  # fmt: skip

COST_SHEETS = (JOINT, SWEEP, TOKENS, PRICED, PER_1000, SECONDS)
