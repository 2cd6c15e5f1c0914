"""The table of outcome columns, a row for each: its meaning, how its mean is taken, and its name in tables. The files
of a run, the statistics, the tables and the manual read it, and every column of the engine is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolkit.errors import UnknownError, suggest


@dataclass(frozen=True)
class OutcomeColumn:
    """A numeric column of `outcomes`, and the metric that is its mean over the examples.

    What the numbers are:
    `name`: the column; `metric`: what its mean is called, by default the same, None where it has no mean; `family`:
    `name` begins the names of many columns, as `recall_10`, and an empty one those of all that no other row names.
    `unit`: of one example; `per`: what the mean is multiplied with, as for 1,000 requests. `computed`: from what the
    statistics compute it; else outcomes have it, and unless `always` only where something gives it. `ratio`: the two
    metrics that are divided for a `computed` ratio, as `total_tokens` by `accuracy`; the first alone where the second
    is empty. `counts`: of a macro-F1 that is `computed` from them, three columns for each class: how often it is given
    rightly, given at all, and gold.

    How they are read:
    `share`: means lie in 0 to 1. `rate`: of examples with 0 and 1 only; few of either get a score interval.
    `shared`: two policies are compared over the examples on which both have a value, where else each has the mean
    of its own. `quality`: policies can be ranked by it, most first unless it is a `cost`. `cost`: less is better,
    and reductions are reported; one null takes a policy's mean away, which would be over other examples. `ranks`: a
    cost that breaks ties and spans the Pareto front where none is asked for. `stands_for`: a column in whose place
    it ranks and is shown where no policy has a value of that. `filled_by`: what would fill it where it is null.
    `needs`: a column of its base without which a policy has no such mean. `sparse`: a policy without any value has
    no row. `judges`: an example on which no policy has a value of any such column is unjudged.

    How a ranked table shows them (shares in per cent):
    `header`: the heading, empty where they have no column; `decimals` of the number times `scale`, and more where it
    takes them to show `significant` digits; `place`: a narrow terminal drops the last ones first. `remark`: what a line
    beside the table says of it. `display`: always, where a policy's is known, where one is above 0, only as the cost
    that ranks or in place of another, or only where it is asked for. `beside`: with this column it is shown, too.
    """

    name: str
    metric: str | None = ""
    family: bool = False
    unit: str = ""
    per: float = 1.0
    computed: Literal["", "labels", "seconds", "ratio", "counts"] = ""
    ratio: tuple[str, str] = ("", "")
    counts: tuple[str, ...] = ()
    always: bool = True
    share: bool = False
    rate: bool = False
    shared: bool = False
    quality: bool = False
    cost: bool = False
    ranks: bool = False
    stands_for: str = ""
    filled_by: str = ""
    needs: str | None = None
    sparse: bool = False
    judges: bool = False
    header: str = ""
    decimals: int = 0
    significant: int = 0
    scale: float = 1.0
    place: int = 0
    remark: str = ""
    display: Literal["always", "known", "above 0", "as cost", "asked"] = "known"
    beside: str = ""

    def __post_init__(self) -> None:
        if self.metric == "":
            object.__setattr__(self, "metric", self.name)

    @property
    def label(self) -> str:
        return self.header or self.metric or self.name

    @property
    def heading(self) -> str:
        return f"{self.label} %" if self.share else self.label

    @property
    def cost_name(self) -> str:
        """The name by which users name a cost: its heading without "/1,000"."""
        return self.header.removesuffix("/1,000") or self.name

    @property
    def axis_label(self) -> str:
        """The label for a figure's axis that shows this column's means times `scale`."""
        times = self.scale * self.per
        return f"{self.label} per example" if times == 1 else f"{self.cost_name} per {times:,g} examples"

    @property
    def lower_text(self) -> str:
        """The words for a lower mean of this column, such as "for fewer tokens"."""
        return f"for fewer {self.label}" if self.scale * self.per == 1 else f"at a lower {self.label}"

    @property
    def precision(self) -> int:
        """The number of decimals with which an unscaled mean of this column is shown.

        4 of a share or a rate, 2 of what tables do not scale, else those of the table and one for each zero of the
        scale.
        """
        return 4 if self.share or self.rate else 2 if self.scale == 1 else self.decimals + len(f"{self.scale:.0f}") - 1


def _share_column(name: str, metric: str | None = "", **more: Any) -> OutcomeColumn:
    return OutcomeColumn(name, metric, unit="share", share=True, **more)


def _quality_column(name: str, metric: str = "", **more: Any) -> OutcomeColumn:
    return _share_column(name, metric, rate=True, quality=True, **more)


def _cost_column(name: str, unit: str, **more: Any) -> OutcomeColumn:
    return OutcomeColumn(name, unit=unit, cost=True, **more)


OTHERS = _cost_column("", "", family=True, always=False)
"""The row for columns that no other row names."""

PERCENTILES = tuple(
    _cost_column(
        f"p{share}_s", "s", header=f"p{share} s", decimals=1, significant=2, place=7, always=False, display="asked"
    )
    for share in (50, 95, 99)
)
"""Percentiles of the seconds of examples, which tables show where they are asked for, and CSV always."""

MEDIAN_DEVIATION = _share_column("median_deviation", always=False, header="median Δ", place=9, display="asked")
"""The median of `deviation`, which tables show where it is asked for, and CSV always."""

CLAIM_COUNTS = tuple(
    f"claims_{kind}_{verdict}"
    for verdict in ("supported", "refuted", "not_enough")
    for kind in ("right", "given", "gold")
)
"""For each verdict of claims: how many got it rightly, how many got it, and how many have it as their label."""

COLUMNS: tuple[OutcomeColumn, ...] = (
    _quality_column("correct", "accuracy", judges=True),
    _quality_column("credit"),
    _share_column("macro_f1", quality=True, computed="labels"),
    _share_column("weighted_f1", quality=True, computed="labels"),
    _share_column("f1:", family=True, quality=True, computed="labels"),
    _share_column("base_correct", None),
    _share_column("fix", "fix_rate", rate=True, needs="base_correct", header="fixes", place=9),
    _share_column("flip", "flip_rate", rate=True, needs="base_correct", header="flips", place=9),
    _share_column("intervened", "intervention_rate", rate=True, needs="base_correct"),
    _quality_column("found", always=False, header="share found"),
    _quality_column("hit_", family=True, always=False, judges=True),
    _quality_column("recall_", family=True, always=False),
    _quality_column("covered", "coverage", always=False, header="coverage", place=9),
    _quality_column("answered", "answer_rate", always=False, header="answered", place=9),
    _quality_column("answered_correct", "accuracy_answered", always=False, header="right of answered", place=9),
    OutcomeColumn("set_size", unit="labels", header="set size", decimals=2, place=9, always=False),
    OutcomeColumn("rewarded", unit="rounds", always=False),
    _share_column("rewarded_share", computed="ratio", ratio=("rewarded", "rounds"), always=False, header="rewarded",
          place=4),
    OutcomeColumn("calls_saved", unit="calls", header="calls saved", decimals=2, place=9, always=False),
    OutcomeColumn("tokens_saved", unit="tokens", header="tokens saved", place=9, always=False),
    _share_column("false_alarm", rate=True, always=False, header="false alarms", place=9),
    _share_column("error_extracted", rate=True, always=False, header="error named", place=9),
    _share_column("expected_win", quality=True, always=False, header="expected wins", place=9,
                  beside="position_share"),
    OutcomeColumn("position", unit="words", always=False, header="position", decimals=1, place=9),
    _share_column("position_share", always=False, header="text seen", place=9),
    _share_column("deviation", shared=True, always=False, header="Δ of the text", place=9),
    MEDIAN_DEVIATION,
    *(
        _share_column(f"{kind}_{share}", rate=True, shared=True, always=False)
        for share in (20, 40)
        for kind in ("within", "by")
    ),
    _share_column("premature", rate=True, shared=True, always=False),
    OutcomeColumn("claims_right", unit="claims", always=False),
    OutcomeColumn("claims_judged", unit="claims", always=False),
    _share_column("claim_accuracy", computed="ratio", ratio=("claims_right", "claims_judged"), always=False,
           header="claims right", place=9),
    *(OutcomeColumn(name, None, unit="claims", always=False) for name in CLAIM_COUNTS),
    _share_column("claim_macro_f1", computed="counts", counts=CLAIM_COUNTS, always=False, header="claims' F1", place=9),
    _cost_column("traces", "traces", header="traces", decimals=2, place=5, display="above 0"),
    _cost_column("valid_traces", "traces"),
    _cost_column("finalizers", "calls", rate=True),
    _cost_column("truncated", "traces", rate=True),
    _cost_column("verifications", "verifications", header="verified", decimals=2, place=6, display="above 0",
          remark="scores of a verifier, free ones too; they are not among `calls`"),
    _cost_column("operations", "operations", ranks=True, header="operations", decimals=2, place=3, display="as cost",
          remark="traces generated and verifications made"),
    _cost_column("calls", "calls", ranks=True, header="calls", decimals=2, place=2, display="always",
          filled_by="to have one, log `finalizer_used` of traces (false where no second call extracted the answer)"),
    _cost_column("queries", "searches"),
    _cost_column("rounds", "rounds", always=False, header="rounds", decimals=2, place=4),
    _cost_column("prompt_tokens", "tokens"),
    _cost_column("completion_tokens", "tokens", ranks=True, stands_for="total_tokens", header="completion tokens",
          place=1, display="as cost", remark="tokens that traces wrote; without those read, and of verifications"),
    _cost_column("verification_tokens", "tokens"),
    _cost_column("total_tokens", "tokens", ranks=True, header="tokens", place=1, display="always"),
    _cost_column("action_tokens", "tokens", sparse=True),
    _cost_column("generation_s", "s"),
    _cost_column("verification_s", "s"),
    _cost_column("serial_calls", "calls", always=False),
    _cost_column("busy_s", "s", always=False),
    _cost_column("latency_s", "s", header="seconds", decimals=1, significant=2, place=7),
    *PERCENTILES,
    _cost_column("device_s", "s"),
    OTHERS,
    _cost_column("cost_eur", "€", computed="seconds", header="€/1,000", decimals=3, significant=2,
          scale=1000.0, place=8),
    _cost_column("price", "currency", metric="cost_per_1000", per=1000.0, always=False, ranks=True,
          header="price/1,000", decimals=3, significant=2, place=1),
)  # fmt: skip
"""The columns in the order of the summary."""


METRICS: dict[str, OutcomeColumn] = {}
"""Further metrics of every run, by name: ratios of others, or means of columns that policies or logs bring."""


def with_columns(
    extra: Iterable[OutcomeColumn] = (), columns: Sequence[OutcomeColumn] = COLUMNS
) -> tuple[OutcomeColumn, ...]:
    """The table of columns with METRICS and further columns added, each name once."""
    known = {column.name for column in columns}
    fresh = {column.name: column for column in (*METRICS.values(), *extra) if column.name not in known}
    at = next((i for i, column in enumerate(columns) if not column.name), len(columns))
    return (*columns[:at], *fresh.values(), *columns[at:])


def column_or_metric(name: str, columns: Sequence[OutcomeColumn] | None = None) -> OutcomeColumn:
    """The table's row for an outcome column or a computed metric. `columns` is the table, by default with METRICS."""
    family: OutcomeColumn | None = None
    for row in with_columns() if columns is None else columns:
        if not row.family and name == row.name:
            return row
        if row.family and name.startswith(row.name) and len(row.name) >= len(family.name if family else ""):
            family = row
    return family or OTHERS


def find(name: str, columns: Sequence[OutcomeColumn] | None = None) -> OutcomeColumn:
    """The row for an outcome column. A column that the table does not name counts as a cost."""
    row = column_or_metric(name, columns)
    return replace(row, name=name, metric=name, family=False) if row.family else row


def metric_column(metric: str, columns: Sequence[OutcomeColumn] | None = None) -> OutcomeColumn:
    """The outcome column whose mean is this metric."""
    columns = with_columns() if columns is None else columns
    return next((column for column in columns if column.metric == metric and not column.family), find(metric, columns))


def cost_named(
    name: str, columns: Sequence[OutcomeColumn], known: Callable[[str], bool] = lambda metric: True
) -> OutcomeColumn:
    """The cost that a user names by its heading, column or metric: `tokens`, `completion tokens`, `€`.

    `known`: whether some policy has a value of a metric; where none has, and another column stands for it, that one.
    Raises ThinkbackError for any other name, with the nearest one.
    """
    costs = [column for column in columns if column.cost and not column.family]
    wanted = name.strip().replace("_", " ").casefold()
    for column in costs:
        names = (column.header, column.cost_name, column.name, str(column.metric))
        if wanted in {one.replace("_", " ").casefold() for one in names}:
            others = (cost for cost in costs if cost.stands_for == column.name and known(str(cost.metric)))
            return column if known(str(column.metric)) else next(others, column)
    raise UnknownError(f"no cost is called `{name}`; {suggest(name, cost_names_for_users(costs))}")


def cost_names_for_users(columns: Iterable[OutcomeColumn]) -> list[str]:
    """The names that users may give for the costs that have a heading and rank: percentiles do not."""
    return [column.cost_name for column in columns if column.cost and column.header and column.display != "asked"]


def ranking_costs(columns: Sequence[OutcomeColumn] = COLUMNS) -> tuple[OutcomeColumn, ...]:
    """The costs that rank and span the Pareto front by default, in order; the first that is known counts.

    One that not every run has, such as money, comes before others of its place.
    """
    return tuple(sorted((column for column in columns if column.ranks), key=lambda one: (one.place, one.always)))
