"""What tuning found, in one sentence with its uncertainty."""

from __future__ import annotations

from replay.analyses.goals import Limit
from replay.analyses.tuning import Tuned
from replay.runs.result import Result
from replay.runs.shown import ranked_input
from toolkit.columns import OutcomeColumn, metric_column
from toolkit.show import NumberWithInterval, ShownInterval
from toolkit.stats.compare import ACCURACY


def answer(tuned: Tuned) -> str:
    """The best policy, what it reaches on the reported examples, and whether it keeps to the goal there."""
    result, name = tuned.report, tuned.best
    cost = ranked_input(result).cost
    said = f"Of {tuned.tried:,} settings, `{name}` is chosen on {tuned.development.statistics.n:,} examples. "
    said += f"On {result.statistics.n:,} others its accuracy is {_value(result, name, ACCURACY)} %"
    baseline = result.baseline
    if baseline is not None and baseline != name:
        said += f", {_difference(result, name, baseline)} against `{baseline}`"
    said += f", for {_cost(result, name, cost)}"
    return f"{said}. {_kept(tuned)}".rstrip()


def _form(column: OutcomeColumn, signed: bool = False) -> NumberWithInterval:
    return NumberWithInterval(column.decimals or 1, 100.0 if column.share else column.scale, signed)


def _value(result: Result, policy: str, metric: str) -> str:
    (row,) = result.summary.filter(policy=policy, metric=metric).select("estimate", "low", "high").rows()
    return _form(metric_column(metric, result.columns)).show(ShownInterval(*row))


def _compared(result: Result, policy: str, baseline: str, metric: str) -> tuple[float, float, float] | None:
    found = result.comparisons.filter(policy=policy, baseline=baseline, metric=metric)
    rows = found.drop_nulls("difference").select("difference", "low", "high").rows()
    return rows[0] if rows else None


def _difference(result: Result, policy: str, baseline: str) -> str:
    found = _compared(result, policy, baseline, ACCURACY)
    if found is None:
        return "not compared"
    form = _form(metric_column(ACCURACY, result.columns), signed=True)
    return form.show(ShownInterval(*found)).replace(" [", " points [")


def _cost(result: Result, policy: str, cost: OutcomeColumn) -> str:
    metric, baseline = str(cost.metric), result.baseline
    form = NumberWithInterval(cost.decimals, cost.scale)
    known = dict(result.summary.filter(metric=metric).drop_nulls("estimate").select("policy", "estimate").rows())
    said = f"{form.show(ShownInterval(known[policy]))} {cost.called}"
    if baseline is None or baseline == policy or baseline not in known:
        return said
    said += f" instead of {form.show(ShownInterval(known[baseline]))}"
    less = _compared(result, policy, baseline, f"reduction:{metric}")
    if less is not None:
        shares = [100 * value for value in less]
        said += f" ({abs(shares[0]):.0f} % {'less' if shares[0] >= 0 else 'more'})"
    return said


def _kept(tuned: Tuned) -> str:
    """Whether the limits of the goal are kept on the reported examples, by the ends of the intervals."""
    return " ".join(filter(None, (_limit(tuned, limit) for limit in tuned.goal.limits)))


def _limit(tuned: Tuned, limit: Limit) -> str | None:
    result, name, baseline = tuned.report, tuned.best, tuned.report.baseline
    if limit.relative == "+" and baseline is not None:
        found = None if baseline == name else _compared(result, name, baseline, limit.metric)
        points = f"{abs(100 * limit.number):g} point{'' if abs(limit.number) == 0.01 else 's'}"
        bound, said = limit.number, f"the goal of `{limit.metric}` within {points} of `{baseline}`"
        if not metric_column(limit.metric, result.columns).share:
            said = f"the goal of `{limit.metric}` {limit.sign} baseline {limit.number:+g}"
    elif not limit.relative:
        rows = result.summary.filter(policy=name, metric=limit.metric).select("estimate", "low", "high").rows()
        found, bound, said = (
            (rows[0] if rows else None),
            limit.number,
            f"`{limit.metric}` {limit.sign} {limit.number:g}",
        )
    else:
        return None
    if found is None or found[1] is None or found[2] is None:
        return None
    value, low, high = found if limit.sign == ">=" else (-found[0], -found[2], -found[1])
    least = bound if limit.sign == ">=" else -bound
    if low >= least:
        return f"The whole interval keeps {said}."
    if high < least:
        return f"The whole interval misses {said}."
    now, other = ("keeps", "misses") if value >= least else ("misses", "keeps")
    return f"On these rows it {now} {said}; the interval does not exclude that it {other} it."
