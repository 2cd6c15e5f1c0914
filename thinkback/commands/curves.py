"""`thinkback curves`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from toolkit.show import curves_figure, save_figure, table_of

    if out is not None:
        check_replaceable(out, force, inputs=(log,))
    opened = open_log(log)
    frame = compute(opened, pool=pool, verifier=verifier, seed=seed, resamples=resamples, level=level)
    title = f"Accuracy over the number of traces, {opened.name}"
    table = _table(frame, title, opened.simulated, level)
    if out is not None:
        with replacing(out, force) as folder:
            marked = frame.with_columns(simulated=True) if opened.simulated else frame
            marked.write_parquet(folder / "curves.parquet")
            (folder / "curves.csv").write_text(table_of(marked).csv(), encoding="utf-8")
            (folder / "table.md").write_text(table.markdown(), encoding="utf-8")
            figure = curves_figure(_panels(frame), title=title, level=level, simulated=opened.simulated)
            for suffix in ("pdf", "png"):
                save_figure(figure, folder / f"curves.{suffix}")
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
    """One panel a pool and verifier (or a pool alone, where nothing verifies it)."""
    import polars as pl

    from toolkit.show import PlottedCurve

    panels = []
    for pool in frame["pool"].unique(maintain_order=True):
        of_pool = frame.filter(pl.col("pool") == pool)
        verifiers = of_pool["verifier"].drop_nulls().unique(maintain_order=True).to_list() or [None]
        for verifier in verifiers:
            lines = []
            for metric, name in METRICS.items():
                own = pl.col("verifier").is_null() | pl.col("verifier").eq_missing(pl.lit(verifier, dtype=pl.String))
                line = of_pool.filter((pl.col("metric") == metric) & own).sort("k")
                if not line.is_empty():
                    k, estimate, low, high = (tuple(line[c]) for c in ("k", "estimate", "low", "high"))
                    lines.append(PlottedCurve(name, k, estimate, low, high, diagnostic=metric == SEES_GOLD))
            panels.append((f"{pool}, verified by {verifier}" if verifier else str(pool), lines))
    return panels
