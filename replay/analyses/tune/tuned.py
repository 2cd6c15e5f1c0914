"""The result of tuning: a value, and one sentence with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from replay.analyses.tune.goals import Goal
from replay.data.choice import Choice
from replay.runs.result.result import Result
from replay.runs.saved.display import ranked_input
from replay.runs.saved.promise import MetricLimit
from toolkit.columns import OutcomeColumn, metric_column
from toolkit.rounding import rounded_text
from toolkit.show import IntervalCell, NumberWithInterval, table_of
from toolkit.show.tables.html import paragraph, simulated_mark
from toolkit.stats.limits.planning import NeededQuestions
from toolkit.stats.many.compare import ACCURACY


@dataclass(frozen=True)
class EstimatedChoice:
    """The choice by estimates alone; about how many `questions` would show that it keeps to the goal."""

    policy: str
    questions: NeededQuestions | None


@dataclass(frozen=True)
class TuningResult:
    """`chosen`: family, tried, feasible, policy, goal metric on the development rows (null: no setting is feasible).

    `choice`: of all that were chosen, the one that reaches the goal best on the development rows, of how many settings,
    and both sets of rows. `development` and `report` are the two runs; the second has the chosen policies and the
    baseline. `promised`: whether what is feasible was shown to be, so that a choice that breaks the goal is rare.
    `estimated`: what would be chosen by estimates alone, where that is something else.
    """

    goal: Goal
    chosen: pl.DataFrame
    choice: Choice
    development: Result
    report: Result
    promised: bool = False
    estimated: EstimatedChoice | None = None

    @property
    def best(self) -> str:
        return str(self.choice.best)

    @property
    def tried(self) -> int:
        return self.choice.tried

    @property
    def quality(self) -> str:
        """The metric in which the choice is reported: the goal's, if that is no cost, else what ranks the run."""
        metric = str(self.goal.metric)
        return ranking_metric(self.report) if metric_column(metric, self.report.columns).cost else metric

    def __str__(self) -> str:
        return tuning_answer(self)

    def _repr_html_(self) -> str:
        return simulated_mark(self.report.simulated) + paragraph(tuning_answer(self)) + table_of(self.chosen).html()


def tuning_answer(tuned: TuningResult) -> str:
    """A sentence: the best policy, what it reaches on the reported examples, and whether it keeps to the goal there."""
    result, name = tuned.report, tuned.best
    cheaper = tuned.promised and name != tuned.report.baseline
    how = ", as the cheapest that is shown to keep to the goal there" if cheaper else ""
    text = f"Of {tuned.tried:,} settings, `{name}` is chosen on {tuned.development.statistics.n:,} examples{how}. "
    if name in result.dropped:
        return f"{text}On the others it is not known: {result.dropped[name]}."
    metric = tuned.quality
    column, value = metric_column(metric, result.columns), _metric_interval(result, name, metric)
    if value is None or value.estimate is None:
        return f"{text}On {result.statistics.n:,} others its {column.label} is not known: none of them is judged."
    form, unit = NumberWithInterval.of(column), " %" * column.share
    text += f"On {result.statistics.n:,} others its {column.label} is {form.show(value)}{unit}"
    baseline = result.baseline
    if baseline is not None and baseline != name:
        text += f", {_difference_text(result, name, baseline, metric)} against `{baseline}`"
    text += f"{_cost_text(result, name, ranked_input(result).cost_column)}."
    end = (
        "."
        if tuned.estimated is not None
        else ", nor does any by estimates: more questions like these would show none."
    )
    itself = f"It is the baseline itself: nothing cheaper is shown to keep to the goal{end}"
    alone = itself if name == baseline and tuned.goal.smallest else None
    limits = (_limit_phrase(tuned, limit) for limit in tuned.goal.limits)
    return " ".join(filter(None, (text, alone, *limits, _estimated_choice_sentence(tuned))))


def _estimated_choice_sentence(tuned: TuningResult) -> str | None:
    """A sentence on the choice by estimates alone: it promises nothing, and how many questions would show more."""
    if tuned.estimated is None:
        return None
    text = f"By estimates alone the choice would be `{tuned.estimated.policy}`, which is not shown to keep to the goal"
    questions = tuned.estimated.questions
    return f"{text}." if questions is None else f"{text}; {questions.number_text} would."


def ranking_metric(result: Result) -> str:
    """The metric that tells how good a policy of a run is: accuracy, or what ranks if no policy gives an answer."""
    known = result.summary.drop_nulls("estimate")["metric"]
    return result.statistics.metric if ACCURACY not in known and result.statistics.judged else ACCURACY


def _metric_interval(result: Result, policy: str, metric: str) -> IntervalCell | None:
    rows = result.summary.filter(policy=policy, metric=metric).select("estimate", "low", "high").rows()
    return IntervalCell.of(rows[0]) if rows else None


def _difference_to_baseline(result: Result, policy: str, baseline: str, metric: str) -> IntervalCell | None:
    comparison = result.comparisons.filter(policy=policy, baseline=baseline, metric=metric)
    rows = comparison.select("difference", "low", "high").rows()
    return IntervalCell.of(rows[0]) if rows else None


def _difference_text(result: Result, policy: str, baseline: str, metric: str) -> str:
    interval = _difference_to_baseline(result, policy, baseline, metric)
    if interval is None:
        return "not compared"
    column = metric_column(metric, result.columns)
    form = NumberWithInterval.of(column, signed=True)
    points = form.show(IntervalCell(interval.estimate))
    return form.show(interval).replace(points, f"{points} points" if column.share else points, 1)


def _cost_text(result: Result, policy: str, cost: OutcomeColumn) -> str:
    metric, baseline, form = str(cost.metric), result.baseline, NumberWithInterval.of(cost)
    known = dict(result.summary.filter(metric=metric).drop_nulls("estimate").select("policy", "estimate").rows())
    if policy not in known:
        return ""
    text = f", for {form.show(IntervalCell(known[policy]))} {cost.label}"
    if baseline is None or baseline == policy or baseline not in known:
        return text
    text += f" instead of {form.show(IntervalCell(known[baseline]))}"
    less = _difference_to_baseline(result, policy, baseline, f"reduction:{metric}")
    if less is not None:
        text += f" ({rounded_text(abs(100 * less.estimate))} % {'less' if less.estimate >= 0 else 'more'})"
    return text


def metric_word(metric: str, columns: Sequence[OutcomeColumn]) -> str:
    """The word for a goal's metric: money by its heading, as the cost is said elsewhere; others as goals name them."""
    column = metric_column(metric, columns)
    return column.label if column.unit == "currency" else metric


def _limit_phrase(tuned: TuningResult, limit: MetricLimit) -> str | None:
    """A phrase on whether the reported examples keep a limit of the goal, by the ends of the interval."""
    result, name, baseline = tuned.report, tuned.best, tuned.report.baseline
    label = metric_column(limit.metric, result.columns).label
    word = label if tuned.goal.in_words else f"`{metric_word(limit.metric, result.columns)}`"
    if not limit.relative:
        interval = _metric_interval(result, name, limit.metric)
        in_words = f"the limit of {limit.number:,g} {label}"
        target = in_words if tuned.goal.in_words else f"{word} {limit.sign} {limit.number:g}"
    elif limit.relative == "+" and baseline not in (None, name):
        interval = _difference_to_baseline(result, name, str(baseline), limit.metric)
        points = f"{abs(100 * limit.number):g} point{'' if abs(limit.number) == 0.01 else 's'}"
        within = f"{word} within {points} of `{baseline}`"
        share = metric_column(limit.metric, result.columns).share
        target = f"the goal of {within if share else f'{word} {limit.sign} baseline {limit.number:+g}'}"
    else:
        return None
    if interval is None or interval.low is None or interval.high is None:
        return None
    sign = 1 if limit.sign == ">=" else -1
    least, ends = sign * limit.number, sorted((sign * interval.low, sign * interval.high))
    if ends[0] >= least:
        return f"The whole interval keeps {target}."
    if ends[1] < least:
        return f"The whole interval misses {target}."
    now, other = ("keeps", "misses") if sign * interval.estimate >= least else ("misses", "keeps")
    return f"On these rows it {now} {target}; the interval does not exclude that it {other} it."
