"""The writers of tables, figures and reports on given texts; the worker calls it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.show import (
    FrontierPoint,
    Heat,
    IntervalCell,
    Number,
    PlottedBand,
    PlottedCurve,
    ReliabilityPanel,
    Table,
    TableColumn,
    add_warnings,
    bands_figure,
    curves_figure,
    frontier,
    heat_figure,
    outcomes_figure,
    reliability_figure,
    write_report,
)


def write(folder: str, texts: Sequence[str]) -> None:
    """A report of one table and one figure, whose every text is one of those given."""
    a, b, c, d = texts[:4]
    columns = (TableColumn(a), TableColumn(b, Number(1)), TableColumn(c, key=d))
    rows = tuple((text, number - 2.5, text) for number, text in enumerate(texts))
    table = Table(d, columns, rows, above=(a,), below=(b, c))
    interval = IntervalCell(0.5, 0.4, 0.6)
    makers = (
        lambda: frontier([FrontierPoint(a, 1.0, 0.5, on_front=True), FrontierPoint(b, 2.0, 0.4)], title=c, cost=d),
        lambda: curves_figure([(a, [PlottedCurve(b, (1, 2), (0.1, 0.2), (0, 0), (1, 1))])], title=c, x=d, y=a),
        lambda: heat_figure([Heat(a, (b,), (c,), ((1.0,),))], columns=1, title=d, x=a, y=b, note=c),
        lambda: outcomes_figure([(a, interval, interval)], title=b),
        lambda: bands_figure([PlottedBand(a, (0, 1), (0, 1), (0, 1), (0, 1))], title=b, x=c),
        lambda: reliability_figure([ReliabilityPanel(b, ((0.1, 0.2, 0.0, 0.3),), a, 0.4)], title=b),
    )
    made = makers[len("".join(texts)) % len(makers)]()
    out = Path(folder)
    write_report(
        out, title=a, tables={"t": table}, figures={"f": add_warnings(made, [b])}, words={"Notes": f"- {c}\n- {d}"}
    )
    print(table.terminal(80))
