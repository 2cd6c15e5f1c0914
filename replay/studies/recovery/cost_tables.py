"""The study's tables of costs: where tokens go, prices, requests, seconds, the joint frontier, the sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from replay.analyses.recommend.rivals import best_for_no_more
from replay.studies.kit.cells import PolicyCells, estimate
from replay.studies.kit.sheet import DATASET, Column, Row, Sheet, Value, beside, intervals, listed, numbers, words
from replay.studies.recovery import published
from replay.studies.recovery.study import DatasetStudy, mean
from replay.studies.recovery.tables import (
    ACCURACY,
    ACTING,
    ACTION_TOKENS,
    ACTS_ON,
    BUDGET,
    CALLS,
    PLAIN_ACCURACY,
    PLAIN_TOTAL_TOKENS,
    SECONDS,
    TOTAL_TOKENS,
    StudyPolicy,
    headline,
    headline_names,
    headline_rows,
)
from toolkit.show import PlottedBand, ShownInterval, TableColumn
from toolkit.stats.many.summary_notes import BATCHED_SECONDS

RATE = "intervention_rate"
Shown = ShownInterval | float | str | None


def _at_rates(
    band: pl.DataFrame, metrics: Sequence[str], shares: int = 10
) -> Iterator[dict[str, ShownInterval | float | str | None]]:
    """Rows nearest to acting on 0, 1/n, 2/n … of the examples: threshold in words, rate, metrics with their bands."""
    cells = {
        (row["threshold"], row["metric"]): ShownInterval.of((row["estimate"], row["band_low"], row["band_high"]))
        for row in band.iter_rows(named=True)
    }
    rates = band.filter(pl.col("metric") == RATE).sort("estimate")
    distance = np.abs(rates["estimate"].to_numpy()[:, None] - np.linspace(0, 1, shares + 1))
    for place in np.unique(distance.argmin(axis=0)):
        threshold, rate = rates["threshold"][int(place)], rates["estimate"][int(place)]
        # digits that tell a threshold from its neighbours
        told = f"{threshold:.4g}" if np.isfinite(threshold) else "never" if threshold > 0 else "always"
        yield {RATE: rate, "threshold": told, **{name: cells.get((threshold, name)) for name in metrics}}


def band_panels(
    band: pl.DataFrame | None,
    shown: Sequence[tuple[str, str, float]],
    mark: float | None,
    from_zero: bool = False,
    least: float = 0.0,
) -> list[PlottedBand]:
    """Panels of (metric, label, scale) that are known and not 0 everywhere, over the share that a gate acts on."""
    made = [_band_panel(band, *one, mark, from_zero, least) for one in shown] if band is not None else []
    return [panel for panel in made if panel is not None and any(panel.estimate)]


def _band_panel(
    band: pl.DataFrame,
    metric: str,
    label: str,
    scale: float,
    mark: float | None = None,
    from_zero: bool = False,
    least: float = 0.0,
) -> PlottedBand | None:
    """A metric over the share of examples that a gate acts on, `mark` its own; None where the metric is not known.

    `from_zero`: up to the highest band, or 100. The line begins where the gate acts on the share `least`.
    """
    rate = band.filter(pl.col("metric") == RATE)
    place = dict(zip(rate["threshold"], rate["estimate"], strict=True))
    own = band.filter((pl.col("metric") == metric) & pl.col("estimate").is_not_null())
    far = (row for row in own.iter_rows(named=True) if place[row["threshold"]] >= least)
    rows = sorted(far, key=lambda row: place[row["threshold"]])
    if not rows:
        return None

    def column(name: str) -> tuple[float | None, ...]:
        return tuple(None if row[name] is None else scale * row[name] for row in rows)

    estimate = tuple(scale * float(row["estimate"]) for row in rows)
    high = column("band_high")
    top = min(1.05 * max([*(one for one in high if one is not None), *estimate]), 100.0) if from_zero else None
    return PlottedBand(
        label, tuple(100 * place[row["threshold"]] for row in rows), estimate, column("band_low"), high,
        top=top or None, rate=scale == 100.0, mark=None if mark is None else 100 * mark,
    )  # fmt: skip


PRICES = (0.1, 0.5, 2.0, 10.0)
"""Prices per million tokens of the sensitivity table."""
NARROW = 0.5
"""The one whose column stays on a narrow page, and that the paper has numbers of."""


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
        replace(ACTION_TOKENS, value=_action_tokens, drop=0),
        PLAIN_TOTAL_TOKENS, CALLS,
    ),
    headline_rows,
    ("Finalizers' tokens are part of the base's and the action's; they are told apart where the log has a column "
     "`finalizer_tokens` of traces.",),
    DATASET,
)  # fmt: skip


def _relative(row: StudyPolicy) -> float | None:
    base, tokens = row.base.number("total_tokens"), row.number("total_tokens")
    return tokens / base if tokens is not None and base else None


def _priced(price: float) -> Column:
    """Cost of 1,000 requests at a price per million tokens."""

    def cost(row: StudyPolicy) -> float | None:
        tokens = row.number("total_tokens")
        return None if tokens is None else tokens * price / 1000

    key = f"per_1000_at_{price:g}"
    column = numbers(f"at {price:g} per million", key, value=cost, drop=0 if price == NARROW else 2)
    if price != NARROW:
        return column
    return beside(column, "usd_per_1000_requests", f"published at {price:g}", f"published_{key}")


def _price_columns(studies: Sequence[DatasetStudy]) -> list[Column]:
    known = any((study.result.summary["metric"] == "cost_per_1000").any() for study in studies)
    relative = numbers("relative", "relative", value=_relative)
    return [
        PLAIN_TOTAL_TOKENS, *map(_priced, PRICES),
        beside(relative, "relative_cost", "published relative", "published_relative"),
        *([intervals("at the models' prices", "per_1000_priced", metric="cost_per_1000")] if known else []),
    ]  # fmt: skip


PRICED = Sheet[DatasetStudy](
    "prices", "Cost of 1,000 requests", ("policy",), _price_columns,
    partial(headline_rows, find=published.published_price),
    ("Average realised tokens times the price; no provider's quote. Total tokens: of one request. Prices: in any "
     "currency. Relative: to the base attempt.",),
    DATASET,
)  # fmt: skip


GAINED = {
    "calls_avoided": "calls", "action_tokens_saved": "action_tokens", "total_tokens_saved": "total_tokens",
    "flips_avoided": "flip",
}  # fmt: skip


def _gained(run: DatasetStudy, first: str, second: str) -> dict[str, Value]:
    """What 1,000 requests gain by the first policy in place of the second."""
    one, two = run.values(first), run.values(second)
    saved: dict[str, Value] = {key: mean(two[column] - one[column], 1000) for key, column in GAINED.items()}
    return saved | {"more_right": mean(one["correct"] - two["correct"], 1000)}


def _per_1000(study: DatasetStudy) -> Iterator[Row]:
    named, parts = study.named, {one.policy: one for one in headline(study)}
    pairs = [(named.selective[a], named.always[a]) for a in named.selective]
    pairs += [(budget, named.primary) for budget in named.budgets.values() if named.primary]
    for first, second in (pair for pair in pairs if set(pair) <= set(parts)):
        one, two = parts[first], parts[second]
        values = _gained(study, first, second)
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
*GAINS, MORE_RIGHT = (
    numbers("calls avoided", "calls_avoided", 0),
    numbers("action tokens saved", "action_tokens_saved", 0),
    numbers("total tokens saved", "total_tokens_saved", 0),
    numbers("flips avoided", "flips_avoided", 1),
    numbers("more right answers", "more_right", 1, signed=True),
)
"""What 1,000 requests gain by one policy in place of another."""
PER_1000 = Sheet[DatasetStudy](
    "per_1000_requests", "Per 1,000 requests", ("comparison",),
    (*(beside(column, *theirs) for column, theirs in zip(GAINS, PUBLISHED_REQUESTS, strict=True)), MORE_RIGHT),
    _per_1000, (), DATASET,
)  # fmt: skip


def _seconds(study: DatasetStudy) -> Iterator[Row]:
    shown = headline_names(study)
    found = study.result.seconds.iter_rows(named=True)
    yield from listed((row for row in found if row["policy"] in shown), ["policy"])


def _told_seconds(studies: Sequence[DatasetStudy]) -> Iterator[str]:
    yield (
        "One call after the other, finalizers included; samples of a vote as many at a time as `together` says. "
        "A mean over rollouts is one request."
    )
    for study in studies:
        yield from (f"{study.dataset}: {one.text}" for one in study.notes if one.code == BATCHED_SECONDS)


PATH_SECONDS = Sheet[DatasetStudy](
    "seconds", "Seconds of the whole path", ("policy",), SECONDS, _seconds, _told_seconds, DATASET
)


def _joint(study: DatasetStudy) -> Iterator[Row]:
    """How far each policy is behind the best one that costs at most as many tokens."""
    joint = {policy: PolicyCells(study.result.statistics, policy) for policy in study.served(study.named.joint)}
    points = {
        policy: (estimate(one.cell("accuracy")), estimate(one.cell("total_tokens"))) for policy, one in joint.items()
    }
    for policy, best in best_for_no_more(points).items():
        values = dict[str, Value]()
        if best is not None:
            values = {"regret": ShownInterval(0.0) if best == policy else study.paired(best, policy)[0]}
            values |= {"best": "" if best == policy else best, "on_front": "●" if best == policy else ""}
        yield Row((policy,), joint[policy], values)


JOINT = Sheet[DatasetStudy](
    "joint_frontier", "Joint frontier over initial budget, gate and action",
    (TableColumn("budget, action, gate", key="policy"),),
    (
        PLAIN_ACCURACY, PLAIN_TOTAL_TOKENS, intervals("regret, points", "regret", shown=100),
        words("best for no more tokens", "best"), words("front", "on_front"),
    ),
    _joint,
    ("Regret: how far the best policy that costs at most as many tokens is ahead, paired; 0 where that is itself.",),
    DATASET,
)  # fmt: skip


def _steps(study: DatasetStudy) -> Iterator[Row]:
    if study.band is not None:
        metrics = ("accuracy", "flip_rate", "flips_among", "total_tokens")
        yield from (Row((), values=values) for values in _at_rates(study.band, metrics))


THRESHOLD_SWEEP = Sheet[DatasetStudy](
    "threshold_sweep", "Threshold sweep of the primary gate", (),
    (
        ACTS_ON, words("threshold", "threshold"), ACCURACY,
        intervals("flips %", "flip_rate", shown=100), intervals("flips among those %", "flips_among", 1, shown=100),
        TOTAL_TOKENS,
    ),
    _steps,
    ("In brackets the sup-t band, which holds the whole curve at once. Flips among those: the flip rate over the "
     "examples acted on (the paper's equation 19).",),
    DATASET,
)  # fmt: skip
COST_SHEETS = (JOINT, THRESHOLD_SWEEP, TOKENS, PRICED, PER_1000, PATH_SECONDS)
"""In the order of the report."""
