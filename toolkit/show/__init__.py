"""Tables and figures of computed numbers."""

from toolkit.notes import code_of, remark
from toolkit.show.document import save_formats, write_latex, write_report
from toolkit.show.drawing.page import WIDTH, add_warnings, width_in_inches
from toolkit.show.drawing.style import save_figure
from toolkit.show.figures.calibration import ReliabilityPanel, reliability_figure
from toolkit.show.figures.curves import PlottedCurve, curves_figure
from toolkit.show.figures.differences import DifferenceCurve, differences_figure
from toolkit.show.figures.figure import FrontierPoint, frontier
from toolkit.show.figures.heat import Heat, heat_figure
from toolkit.show.figures.interventions import PlottedBand, bands_figure, outcomes_figure
from toolkit.show.figures.trade_offs import MethodPoint, trade_offs_figure
from toolkit.show.ranking.ranking import PolicyRow, Ranked, RankedInput, pareto_front, rank, short_names
from toolkit.show.ranking.results import RowLimits, frontier_figure, frontier_points, ranked_table, why_no_frontier
from toolkit.show.tables.html import SIMULATED
from toolkit.show.tables.table import Table, table_of
from toolkit.show.tables.table_content import (
    ColumnNote,
    IntervalCell,
    NameForm,
    Number,
    NumberWithInterval,
    TableColumn,
    Tick,
    Words,
    bar_line,
)

__all__ = [
    "SIMULATED",
    "WIDTH",
    "ColumnNote",
    "DifferenceCurve",
    "FrontierPoint",
    "Heat",
    "IntervalCell",
    "MethodPoint",
    "NameForm",
    "Number",
    "NumberWithInterval",
    "PlottedBand",
    "PlottedCurve",
    "PolicyRow",
    "Ranked",
    "RankedInput",
    "ReliabilityPanel",
    "RowLimits",
    "Table",
    "TableColumn",
    "Tick",
    "Words",
    "add_warnings",
    "bands_figure",
    "bar_line",
    "code_of",
    "curves_figure",
    "differences_figure",
    "frontier",
    "frontier_figure",
    "frontier_points",
    "heat_figure",
    "outcomes_figure",
    "pareto_front",
    "rank",
    "ranked_table",
    "reliability_figure",
    "remark",
    "save_figure",
    "save_formats",
    "short_names",
    "table_of",
    "trade_offs_figure",
    "why_no_frontier",
    "width_in_inches",
    "write_latex",
    "write_report",
]  # fmt: skip
