"""`thinkback frontier`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinkback.commands.paper import PAPER, Paper
from thinkback.options import with_arguments_of

if TYPE_CHECKING:
    import polars as pl

    from replay.analyses.strategies.frontier import Frontier
    from toolkit.show import PlottedCurve, Table


@with_arguments_of("replay.analyses.strategies.strategies:strategies", PAPER, without=("n", "samples"))
def frontier(
    log: str,
    on: str | None = None,
    strata: str | None = None,
    out: Path | None = None,
    *,
    resamples: int = 10_000,
    level: float = 0.95,
    force: bool = False,
    **given: Any,
) -> None:
    """Print accuracy against mean samples, strategy by strategy.

    Majority, weighted majority, best-of-n and the oracle at n = 1, 2, 4 …; a probe that is answered as it is or
    followed by n votes or a revision, at every threshold of its score; and numbers of votes that fall as it rises.

    Settings are chosen on one half of the examples. All numbers with intervals are of the other half.
    """
    from replay.analyses.strategies.frontier import frontier as compute
    from thinkback import console
    from toolkit.files import check_replaceable
    from toolkit.log import open_log

    paper = Paper.from_arguments(given)
    for path in (out, paper.tex):
        if path is not None:
            check_replaceable(path, force, inputs=(log,))
    opened = open_log(log)
    fronts = compute(opened, on=on, strata=strata, resamples=resamples, level=level, **given)
    table = paper.with_chosen_columns(_table(fronts, opened.name, opened.simulated, level))
    if out is not None:
        look: dict[str, Any] = {**paper.figure_arguments, "level": level, "simulated": opened.simulated}
        files = _write(fronts, table, look, out, force)
    paper.write({"frontier": table}, force)
    console.show(table)
    if out is not None:
        console.say()
        console.say(f"{out}/: {', '.join(files)}")


def _write(fronts: Frontier, table: Table, look: dict[str, Any], out: Path, force: bool) -> list[str]:
    """Writes the frame, its policies, the table and the figure to the folder; returns the names of the files."""
    import polars as pl

    from replay.analyses.strategies.frontier import front_policies
    from toolkit.files import replacing
    from toolkit.show import save_formats, table_of, write_latex
    from toolkit.show.figures.curves import curves_figure

    front = fronts.front
    marked = front.with_columns(simulated=True) if look["simulated"] else front
    flat = marked.with_columns(pl.col("below", "votes").cast(pl.List(pl.String)).list.join(";"))
    samples = [2**power for power in range(int(front.select(pl.col("samples").max()).item()).bit_length())]
    figure = curves_figure(
        _strategy_panels(front),
        x="mean samples",
        ticks=samples,
        note="settings chosen on other examples than those shown; intervals and paired differences: see the table",
        **look,
    )
    with replacing(out, force) as folder:
        marked.write_parquet(folder / "front.parquet")
        (folder / "front.csv").write_text(table_of(flat).csv(), encoding="utf-8")
        (folder / "policies.toml").write_text(front_policies(fronts), encoding="utf-8")
        (folder / "table.md").write_text(table.markdown(), encoding="utf-8")
        write_latex(folder / "table.tex", {"frontier": table}, look["width"])
        save_formats(figure, folder, "frontier")
        return sorted(path.name for path in folder.iterdir())


def _table(fronts: Frontier, name: str, simulated: bool, level: float) -> Table:
    """A table of the points that nothing beat where they were chosen, from cheap to dear, below plain voting."""
    import polars as pl

    from toolkit.show import SIMULATED, IntervalCell, Number, NumberWithInterval, Table, TableColumn

    front = fronts.front
    chosen = pl.concat([front.filter(strategy="majority"), front.filter("on_front", pl.col("strategy") != "majority")])
    chosen = chosen.sort("on_front", "samples", maintain_order=True)
    percent, points = NumberWithInterval(1, 100), NumberWithInterval(1, 100, signed=True)
    rows = tuple(
        (
            row["strategy"], row["verifier"], samples_text(row), row["samples"], row["chosen_accuracy"],
            IntervalCell.of((row["accuracy"], row["low"], row["high"])),
            IntervalCell.of((row["difference"], row["difference_low"], row["difference_high"])),
            IntervalCell.of((row["coin_difference"], row["coin_low"], row["coin_high"])),
        )
        for row in chosen.iter_rows(named=True)
    )  # fmt: skip
    return Table(
        title=f"Accuracy against mean samples, {name}",
        columns=(
            TableColumn("strategy"),
            TableColumn("verifier", drop=2),
            TableColumn("samples", key="setting", drop=3),
            TableColumn("mean", Number(2), "samples"),
            TableColumn("chosen at %", Number(1, 100), "chosen_accuracy", drop=4),
            TableColumn("accuracy %", percent, "accuracy"),
            TableColumn("−\u00a0majority", points, "difference", drop=1),
            TableColumn("−\u00a0coin", points, "coin_difference", drop=5),
        ),
        rows=rows,
        above=(SIMULATED,) if simulated else (),
        below=(
            f"Settings chosen on {fronts.n_chosen_on:,} examples (`chosen at %`); all else is of "
            f"{fronts.n_reported_on:,} others, with {100 * level:g} % intervals of each number by itself.",
            "Shown: majority voting, and what nothing beat where it was chosen. − majority: points beyond majority "
            "voting at as many samples in the mean, paired. − coin: beyond the same first attempts with as many "
            "samples for questions drawn at random, which is what the score adds.",
            *map(str, fronts.notes),
            *(f"left out: {what}: {why}" for what, why in fronts.left_out.items()),
        ),
    )


def samples_text(row: dict[str, Any]) -> str:
    """The words for how many samples a question gets."""
    if row["below"] is None:
        return str(row["n"] or 2)
    parts = [f"{n} below {below:.3g}".replace("-", "−") for n, below in zip(row["votes"], row["below"], strict=True)]
    return "1" if not parts else f"1, and {', '.join(parts)}"


def _strategy_panels(front: pl.DataFrame) -> list[tuple[str, list[PlottedCurve]]]:
    """The figure's panels: for each verifier its strategies, beside those that need none."""
    import polars as pl

    from toolkit.show import PlottedCurve

    def plotted_lines(of: pl.DataFrame) -> list[PlottedCurve]:
        out = []
        for (name,), line in of.partition_by("strategy", as_dict=True, maintain_order=True).items():
            rows = line.sort("samples")
            samples, accuracy, low, high = (tuple(rows[column]) for column in ("samples", "accuracy", "low", "high"))
            out.append(PlottedCurve(str(name), samples, accuracy, low, high, diagnostic=bool(rows["sees_gold"].all())))
        return out

    shared = plotted_lines(front.filter(pl.col("verifier").is_null()))
    scored = front.filter(pl.col("verifier").is_not_null())
    panels = scored.partition_by("verifier", as_dict=True, maintain_order=True)
    return [(str(name), [*shared, *plotted_lines(of)]) for (name,), of in panels.items()] or [("", shared)]
