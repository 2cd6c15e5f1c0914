"""Tables and figures from finished numbers. Nothing here knows how they were computed."""

from toolkit.notes import WARNING
from toolkit.show.bars import bar, histogram, spark
from toolkit.show.curves import Curve, curves_figure
from toolkit.show.figure import FrontierPoint, frontier
from toolkit.show.heat import Heat, heat_figure
from toolkit.show.interventions import Band, bands_figure, outcomes_figure, reliability_figure
from toolkit.show.report import write_report
from toolkit.show.results import (
    SIMULATED,
    PolicyRow,
    Ranked,
    RankedInput,
    cost_metric,
    frontier_figure,
    frontier_points,
    pareto_front,
    rank,
    ranked_table,
)
from toolkit.show.style import save_figure, warned
from toolkit.show.table import Column, ColumnNote, Estimate, Interval, Number, Table, Text, Tick, table_of

__all__ = [
    "SIMULATED",
    "WARNING",
    "Band",
    "Column",
    "ColumnNote",
    "Curve",
    "Estimate",
    "FrontierPoint",
    "Heat",
    "Interval",
    "Number",
    "PolicyRow",
    "Ranked",
    "RankedInput",
    "Table",
    "Text",
    "Tick",
    "bands_figure",
    "bar",
    "cost_metric",
    "curves_figure",
    "frontier",
    "frontier_figure",
    "frontier_points",
    "heat_figure",
    "histogram",
    "outcomes_figure",
    "pareto_front",
    "rank",
    "ranked_table",
    "reliability_figure",
    "save_figure",
    "spark",
    "table_of",
    "warned",
    "write_report",
]
