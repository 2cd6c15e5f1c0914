"""Saved results as one page, drawn from them alone: the page, and beside it the files of its texts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from replay.runs.page.dashboard_data import Json, described
from replay.runs.page.dashboard_examples import FEWEST, ShownExamples, examples_of
from replay.runs.saved.findings import Findings
from replay.runs.saved.saved_folder import SavedFolder
from replay.runs.saved.shown import ON_PAGE
from toolkit.errors import ThinkbackError, argument
from toolkit.files import check_replaceable, replacing, replacing_file
from toolkit.printable import printable
from toolkit.show.dashboard.page import (
    PageData,
    dashboard_page,
    import_altair,
    in_script,
    packed,
    texts_file,
    vega_script,
)

LARGEST = 1_950_000
"""Bytes of a page without its texts."""
ROOM = 40_000
"""Bytes of its own scripts and charts, about."""


@dataclass(frozen=True, eq=False)
class _Shown:
    data: Json
    examples: ShownExamples
    packed: str


def write_dashboard(
    found: Sequence[Findings], out: str | Path, *, texts: bool = True, examples: int = ON_PAGE, force: bool = False
) -> list[Path]:
    """Write the page of some saved results, loaded, and beside it a folder of their texts where they hold any.

    Of each at most so many `examples` are shown, fewer where the page would grow beyond two megabytes. The paths are
    given back. Raises ThinkbackError where something is in the way, or what draws charts is not installed.
    """
    import_altair()
    page = Path(out)
    if page.suffix.lower() not in (".html", ".htm"):
        raise ThinkbackError(f"a dashboard is a page: name a file that ends in `.html`, not `{page.name}`")
    if examples < 1:
        raise ThinkbackError(f"{argument('examples')} is {examples}; it takes an integer, at least 1")
    folders = [_folder(one) for one in found]
    beside = page.with_name(f"{page.stem}_texts")
    for path in (page, beside) if texts else (page,):
        check_replaceable(path, force, inputs=[folder.path for folder in folders])
    names = _names([folder.path for folder in folders])
    told = [described(one, folder, name) for one, folder, name in zip(found, folders, names, strict=True)]
    left = LARGEST - ROOM - len(vega_script()) - sum(len(in_script(one)) for one in told)
    shown = [
        _fitting(one, folder, data, examples, left // len(found), texts)
        for one, folder, data in zip(found, folders, told, strict=True)
    ]
    several = any(one.examples.files for one in shown)
    made = dashboard_page(
        PageData(
            title=printable(" and ".join(dict.fromkeys(one.log_name for one in found))),
            results=[one.data for one in shown],
            examples=[one.packed for one in shown],
            texts=beside.name if several else None,
        )
    )
    with ExitStack() as held:
        held.enter_context(replacing_file(page, force)).write_text(made, encoding="utf-8")
        if several:
            written = held.enter_context(replacing(beside, force))
            for number, one in enumerate(shown):
                for file, held_texts in one.examples.texts():
                    text = texts_file(number, file, held_texts)
                    (written / f"{number}-{file}.js").write_text(text, encoding="ascii")
    return [page, beside] if several else [page]


def _folder(found: Findings) -> SavedFolder:
    if found.folder is None:
        raise ThinkbackError("a dashboard is drawn from a saved result: save it, and load what was saved")
    return found.folder


def _names(paths: Sequence[Path]) -> list[str]:
    """What the page calls results: their folders, with as many of those above as tell them apart."""
    for depth in range(1, 6):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name} ({number})" for number, path in enumerate(paths, 1)]


def _fitting(found: Findings, folder: SavedFolder, data: Json, most: int, room: int, texts: bool) -> _Shown:
    """The examples that the page has room for."""
    names = [one["name"] for one in data["policies"]]
    while True:
        made = examples_of(found, folder, names, most, texts)
        size = packed(made.data)
        if len(size) <= room or len(made.ids) <= FEWEST:
            return _Shown(data, made, size)
        most = max(FEWEST, min(len(made.ids) * 9 // 10, len(made.ids) * room * 9 // 10 // len(size)))
