"""The figures of a result by their names, and how they are written with their numbers beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from replay.runs.figures.figure_data import (
    FigureData,
    FigureRequest,
    forest_data,
    frontier_data,
    gates_data,
    headroom_data,
    positions_data,
    stopping_data,
)
from replay.runs.figures.further_tables import buzzes_data, recall_data
from replay.runs.figures.score_data import scores_data
from toolkit.errors import ConflictError, InvalidError, argument, require_known
from toolkit.files import check_replaceable, replacing_file
from toolkit.show import save_figure, table_of
from toolkit.show.document import FORMATS

OPTIONS = ("baseline", "oracle", "policies", "cost", "log")


@dataclass(frozen=True)
class _FigureKind:
    """A kind of figure. `shows`: what it draws, in words; `make`: the function for its data; `takes`: its options."""

    shows: str
    make: Callable[[FigureRequest], FigureData]
    takes: tuple[str, ...] = ()


FIGURES = {
    "frontier": _FigureKind("accuracy against cost, with the Pareto front", frontier_data, ("policies", "cost")),
    "forest": _FigureKind("differences to a baseline with simultaneous limits", forest_data, ("baseline", "policies")),
    "headroom": _FigureKind(
        "the gap to always right: generation, stopping, selection", headroom_data, ("baseline", "oracle", "policies")
    ),
    "stopping": _FigureKind("histograms of the traces paid for", stopping_data, ("policies",)),
    "scores": _FigureKind("scores of right and of wrong traces by verifier", scores_data, ("policies", "log")),
    "gates": _FigureKind("accuracy against intervention rate of each gate", gates_data, ("policies",)),
    "positions": _FigureKind("accuracy against the share of a text that was seen", positions_data, ("policies",)),
    "recall": _FigureKind("recall and hits at every k over the rounds paid", recall_data, ("policies",)),
    "buzzes": _FigureKind("where policies act against where the error can be seen", buzzes_data, ("policies",)),
}


def figure_kind(name: str, options: Sequence[str] = ()) -> _FigureKind:
    """The kind of figure with a name. ThinkbackError where there is none, or where it has no such option."""
    require_known(name, FIGURES, f"no figure is called `{name}`")
    kind = FIGURES[name]
    for option in options:
        if option not in kind.takes:
            takers = ", ".join(f"`{figure}`" for figure, spec in FIGURES.items() if option in spec.takes)
            raise ConflictError(f"the figure `{name}` takes no {argument(option)}; it is for {takers}")
    return kind


def check_figure_file(out: Path, force: bool, inputs: Sequence[str | Path | None]) -> None:
    """ThinkbackError where a figure cannot be written as `out`."""
    for path in _figure_paths(out):
        check_replaceable(path, force, inputs=inputs)


def write_figure(data: FigureData, out: Path, width: float, title: str, simulated: bool, force: bool) -> list[Path]:
    """Write a figure and its numbers as CSV, all files or none, and return their paths. The ending of `out` is the
    format; without one the figure is written in every format.
    """
    *figures, numbers = paths = _figure_paths(out)
    figure = data.draw(width=width, title=title)
    with ExitStack() as held:
        for path in figures:
            place = held.enter_context(replacing_file(path, force))
            save_figure(figure, place, path.suffix)
        marks = {"simulated": "true"} if simulated else {}
        place = held.enter_context(replacing_file(numbers, force))
        place.write_text(table_of(data.frame).csv(marks), encoding="utf-8")
    return paths


def _figure_paths(out: Path) -> list[Path]:
    if not out.suffix:
        return [out.with_name(f"{out.name}.{one}") for one in (*FORMATS, "csv")]
    if out.suffix[1:] not in FORMATS:
        endings = ", ".join(f"`.{one}`" for one in FORMATS)
        raise InvalidError(f"a figure ends in {endings}, or has no ending for all of them: not `{out.name}`")
    return [out, out.with_suffix(".csv")]
