"""`thinkback curves`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinkback.commands.paper import PAPER, Paper
from thinkback.options import with_arguments_of

if TYPE_CHECKING:
    import polars as pl

    from toolkit.show import PlottedCurve, Table

SEES_GOLD = "pass"
METRICS = {"avg": "avg@k", "pass": "pass@k", "majority": "majority@k", "best": "best-of-k"}
PANELS = ("majority", "best", "pass")
"""Metrics with a panel of their own; the lines of majority@k and best-of-k begin at avg@k."""


@with_arguments_of(PAPER)
def curves(
    log: str,
    pool: str | None = None,
    verifier: str | None = None,
    out: Path | None = None,
    where: str | None = None,
    strata: str | None = None,
    weigh: str | None = None,
    *,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    workers: str | None = None,
    force: bool = False,
    **given: Any,
) -> None:
    """Print accuracy over the number of traces.

    These are avg@k, pass@k, majority@k and best-of-k for k = 1, 2, 4 … N.

    Each is the exact mean over all orders of an example's N traces, so none depends on which came first. A
    second table compares the lines by their differences, paired by example.
    """
    import polars as pl

    from replay.runs.compare.curves import curve_pairs, curves_table, measure_pool_curves
    from thinkback import console
    from toolkit.files import check_replaceable
    from toolkit.log import open_log
    from toolkit.stats import settings_of
    from toolkit.workers.chosen import on_workers

    paper = Paper.from_arguments(given)
    for path in (out, paper.tex):
        if path is not None:
            check_replaceable(path, force, inputs=(log,))
    opened, settings = open_log(log), settings_of(None, resamples=resamples, level=level, seed=seed)
    with on_workers(workers):
        pools = measure_pool_curves(
            opened, settings, pool=pool, verifier=verifier, where=where, strata=strata, weigh=weigh
        )
    frame, pairs = pl.concat([curves_table(one, settings) for one in pools]), curve_pairs(pools, settings)
    notes = [*dict.fromkeys(str(note) for one in pools for note in one.notes())]
    table = _table(frame, f"Accuracy over the number of traces, {opened.name}", opened.simulated, level, notes)
    tables = {
        "curves": paper.with_chosen_columns(table),
        "curves-paired": _paired_table(pairs, opened.name, opened.simulated, level),
    }
    if not pairs.height:
        del tables["curves-paired"]
    files = []
    if out is not None:
        look: dict[str, Any] = {**paper.figure_arguments, "level": level, "simulated": opened.simulated}
        files = _write({"curves": frame, "differences": pairs}, tables, look, out, force)
    paper.write(tables, force)
    for number, one in enumerate(tables.values()):
        if number:
            console.say()
        console.show(one)
    if out is not None:
        console.say()
        console.say(f"{out}/: {', '.join(files)}")


def _write(
    frames: dict[str, pl.DataFrame], tables: dict[str, Table], look: dict[str, Any], out: Path, force: bool
) -> list[str]:
    """Writes frames, tables and the figure to the folder; returns the names of the files."""
    from toolkit.files import replacing
    from toolkit.show import curves_figure, save_formats, table_of, write_latex

    with replacing(out, force) as folder:
        for name, frame in frames.items():
            marked = frame.with_columns(simulated=True) if look["simulated"] else frame
            marked.write_parquet(folder / f"{name}.parquet")
            (folder / f"{name}.csv").write_text(table_of(marked).csv(), encoding="utf-8")
        (folder / "table.md").write_text("\n".join(table.markdown() for table in tables.values()), encoding="utf-8")
        write_latex(folder / "table.tex", tables, look["width"])
        save_formats(curves_figure(_curve_panels(frames["curves"]), **look), folder, "curves")
        return sorted(path.name for path in folder.iterdir())


def _table(frame: pl.DataFrame, title: str, simulated: bool, level: float, notes: Sequence[str]) -> Table:
    """A table with a row for each pool and k, and a column for each metric. `examples` are those of avg@k."""
    from toolkit.show import SIMULATED, IntervalCell, Number, NumberWithInterval, Table, TableColumn

    cells = {
        (r["pool"], r["k"], r["metric"], r["verifier"]): IntervalCell.of((r["estimate"], r["low"], r["high"]))
        for r in frame.iter_rows(named=True)
    }
    series = list(dict.fromkeys((r["metric"], r["verifier"]) for r in frame.iter_rows(named=True)))
    last = {(r["metric"], r["verifier"]): r["estimate"] for r in frame.sort("k").iter_rows(named=True)}
    series.sort(key=lambda one: (list(METRICS).index(one[0]), -(last[one] or 0.0) * (one[0] == "best")))
    rows = [(r["pool"], r["k"], r["n"]) for r in frame.iter_rows(named=True) if r["metric"] == "avg"]
    heads = [_line_name(metric, verifier) for metric, verifier in series]
    several = sum(metric == "best" for metric, _ in series) > 1
    best = [head for head, (metric, _) in zip(heads, series, strict=True) if metric == "best"]
    # the first give way last
    order = [METRICS["majority"], *best[:1], METRICS["avg"], METRICS[SEES_GOLD], *best[1:]]
    percent = NumberWithInterval(1, 100)
    meaning = f"In brackets {100 * level:g} % intervals, resampled by example. pass@k sees gold: a diagnostic."
    return Table(
        title=title,
        columns=(
            TableColumn("pool"),
            TableColumn("k", Number(0)),
            TableColumn("examples", Number(0), drop=len(heads)),
            *(TableColumn(f"{head} %", percent, head, drop=order.index(head)) for head in heads),
        ),
        rows=tuple((pool, k, n, *(cells.get((pool, k, *one)) for one in series)) for pool, k, n in rows),
        above=(SIMULATED,) if simulated else (),
        below=(
            meaning,
            *(["Verifiers are in the order of their best-of-k at the most traces."] if several else []),
            *notes,
        ),
    )


def _paired_table(pairs: pl.DataFrame, name: str, simulated: bool, level: float) -> Table:
    """A table with a row for each pool and k: each line minus majority@k, and majority@k minus avg@k."""
    import polars as pl

    from toolkit.show import SIMULATED, ColumnNote, IntervalCell, Number, NumberWithInterval, Table, TableColumn

    within = pairs.filter(pl.col("first_pool") == pl.col("second_pool"))
    best = within.filter((pl.col("first_metric") == "best") & (pl.col("second_metric") == "majority"))
    chosen = pl.concat([within.filter(first_metric="majority"), best])
    if chosen.is_empty():
        chosen = within.filter(second_metric="avg")
    cells = {
        (r["first_pool"], r["k"], *_change_text(r)): IntervalCell.of((r["difference"], r["low"], r["high"]))
        for r in chosen.iter_rows(named=True)
    }
    rows = list(dict.fromkeys((pool, k) for pool, k, *_ in cells))
    heads = list(dict.fromkeys((first, second) for _, _, first, second in cells))
    last = {_change_text(r): r["difference"] or 0.0 for r in chosen.sort("k").iter_rows(named=True)}
    heads.sort(key=lambda one: -last[one] if one[0].startswith(METRICS["best"]) else -float("inf"))  # majority first
    points = NumberWithInterval(1, 100, signed=True)
    text = f"In percentage points, paired by example; {100 * level:g} % intervals of each difference by itself."
    return Table(
        title=f"Paired differences at each number of traces, {name}",
        columns=(
            TableColumn("pool"),
            TableColumn("k", Number(0)),
            *(
                TableColumn(f"{first} −\u00a0{second}", points, f"{first} - {second}", drop=place)
                for place, (first, second) in enumerate(heads)
            ),
        ),
        rows=tuple((*row, *(cells.get((*row, *head)) for head in heads)) for row in rows),
        above=(SIMULATED,) if simulated else (),
        below=(
            ColumnNote(f"{text} `--out DIR` writes all pairs of lines, and of pools, to differences.csv.", paper=text),
        ),
    )


def _change_text(row: dict[str, Any]) -> tuple[str, str]:
    """The words for what a row compares."""
    first, second = (_line_name(row[f"{side}_metric"], row[f"{side}_verifier"]) for side in ("first", "second"))
    return first, second


def _line_name(metric: str, verifier: str | None) -> str:
    return f"{METRICS[metric]}{f' {verifier}' if verifier else ''}"


def _curve_panels(frame: pl.DataFrame) -> list[tuple[str, list[PlottedCurve]]]:
    """The figure's panels, one a question. Each pool has a line in it, for best-of-k each of its verifiers."""
    import polars as pl

    from toolkit.show import PlottedCurve

    several = frame["pool"].n_unique() > 1
    metrics = [metric for metric in PANELS if metric in frame["metric"]]
    panels = []
    for metric in metrics if set(metrics) - {SEES_GOLD} else ["avg", *metrics]:
        of_metric = frame.filter(pl.col("metric") == metric)
        lines = []
        for (pool, verifier), line in of_metric.partition_by(
            "pool", "verifier", as_dict=True, maintain_order=True
        ).items():
            rows = line.sort("k")
            k, estimate, low, high = (tuple(rows[c]) for c in ("k", "estimate", "low", "high"))
            named = ", ".join(part for part in (pool if several or not verifier else "", verifier) if part)
            lines.append(PlottedCurve(named, k, estimate, low, high, diagnostic=metric == SEES_GOLD, sees=""))
        panels.append((f"{METRICS[metric]}{', sees gold' if metric == SEES_GOLD else ''}", lines))
    return panels
