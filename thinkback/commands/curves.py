"""`thinkback curves`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from thinkback import options
from thinkback.options import option

if TYPE_CHECKING:
    import polars as pl

    from toolkit.show import PlottedCurve, Table

METRICS = {"avg": "avg@k", "pass": "pass@k", "majority": "majority@k", "best": "best-of-k"}
SEES_GOLD = "pass"


def curves(
    log: options.Log,
    pool: Annotated[str | None, option("--pool", "Pool of solves; by default every one.", "NAME")] = None,
    verifier: Annotated[
        str | None, option("--verifier", "Verifier of best-of-k; by default every one.", "NAME")
    ] = None,
    out: Annotated[Path | None, option("--out", "Folder for the curves (Parquet, CSV) and the figure.", "DIR")] = None,
    where: options.Where = None,
    width: options.Width = "6.75in",
    title: options.Title = "",
    seed: options.Seed = 0,
    resamples: options.Resamples = 10_000,
    level: options.Level = 0.95,
    force: options.Force = False,
) -> None:
    """Print accuracy over the number of traces.

    These are avg@k, pass@k, majority@k and best-of-k for k = 1, 2, 4 … N.

    Each is the expectation over all subsets of k of an example's N traces, so none depends on which came first.
    """
    from replay.runs.curves import curves as compute
    from thinkback import console
    from toolkit.files import check_replaceable, replacing
    from toolkit.log import open_log
    from toolkit.show import curves_figure, inches, save_formats, table_of

    size = inches(width)
    if out is not None:
        check_replaceable(out, force, inputs=(log,))
    opened = open_log(log)
    frame = compute(opened, pool=pool, verifier=verifier, where=where, seed=seed, resamples=resamples, level=level)
    table = _table(frame, f"Accuracy over the number of traces, {opened.name}", opened.simulated, level)
    if out is not None:
        with replacing(out, force) as folder:
            marked = frame.with_columns(simulated=True) if opened.simulated else frame
            marked.write_parquet(folder / "curves.parquet")
            (folder / "curves.csv").write_text(table_of(marked).csv(), encoding="utf-8")
            (folder / "table.md").write_text(table.markdown(), encoding="utf-8")
            look: dict[str, Any] = {"title": title, "level": level, "simulated": opened.simulated, "width": size}
            save_formats(curves_figure(_panels(frame), **look), folder, "curves")
            files = sorted(path.name for path in folder.iterdir())
    console.show(table)
    if out is not None:
        console.say()
        console.say(f"{out}/: {', '.join(files)}")


def _table(frame: pl.DataFrame, title: str, simulated: bool, level: float) -> Table:
    """One row a pool and k, one column a metric."""
    from toolkit.show import SIMULATED, Number, NumberWithInterval, ShownInterval, Table, TableColumn

    cells = {
        (r["pool"], r["k"], r["metric"], r["verifier"]): ShownInterval.of((r["estimate"], r["low"], r["high"]))
        for r in frame.iter_rows(named=True)
    }
    series = list(dict.fromkeys((r["metric"], r["verifier"]) for r in frame.iter_rows(named=True)))
    series.sort(key=lambda one: list(METRICS).index(one[0]))
    rows = list(dict.fromkeys((r["pool"], r["k"], r["n"]) for r in frame.iter_rows(named=True)))
    heads = [f"{METRICS[metric]}{f' {verifier}' if verifier else ''}" for metric, verifier in series]
    percent = NumberWithInterval(1, 100)
    return Table(
        title=title,
        columns=(
            TableColumn("pool"),
            TableColumn("k", Number(0)),
            TableColumn("examples", Number(0), drop=1),
            *(TableColumn(f"{head}, %", percent, head) for head in heads),
        ),
        rows=tuple((pool, k, n, *(cells.get((pool, k, *one)) for one in series)) for pool, k, n in rows),
        above=(SIMULATED,) if simulated else (),
        below=(f"In brackets {100 * level:g} % intervals, resampled by example. pass@k sees gold: a diagnostic.",),
    )


def _panels(frame: pl.DataFrame) -> list[tuple[str, list[PlottedCurve]]]:
    """One panel a pool, named where there are several, with a line for each metric and each verifier's best-of-k."""
    import polars as pl

    from toolkit.show import PlottedCurve

    panels = []
    pools = frame["pool"].unique(maintain_order=True)
    for pool in pools:
        of_pool = frame.filter(pl.col("pool") == pool)
        lines = []
        for metric, name in METRICS.items():
            of_metric = of_pool.filter(pl.col("metric") == metric)
            for (verifier,), line in of_metric.partition_by("verifier", as_dict=True, maintain_order=True).items():
                rows = line.sort("k")
                k, estimate, low, high = (tuple(rows[c]) for c in ("k", "estimate", "low", "high"))
                named = f"{name}, {verifier}" if verifier else name
                lines.append(PlottedCurve(named, k, estimate, low, high, diagnostic=metric == SEES_GOLD))
        panels.append((str(pool) if len(pools) > 1 else "", lines))
    return panels
