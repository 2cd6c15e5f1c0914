"""A folder with files that are not of the format, and with the file that is joined."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.formats.published import GOLD, published, settings
from tests.seeds import seeds
from toolkit.errors import ThinkbackError
from toolkit.imports import import_format
from toolkit.imports.formats.format import FORMATS

NAMELESS = [name for name, form in FORMATS.items() if form.nameless]


@pytest.mark.parametrize("name", seeds(2, [*NAMELESS]))
def test_of_a_folder_the_files_of_the_format_are_taken(name: str, tmp_path: Path) -> None:
    folder = published(name, tmp_path)
    alone = import_format(name, [str(folder)], tmp_path / "alone", settings=settings(name))
    (folder / "notes.jsonl").write_text('{"id": "q1", "gold": "4"}\n')
    for way in (name, "auto"):
        both = import_format(way, [str(folder)], tmp_path / f"by {way}", settings=settings(name))
        assert (both.examples, both.traces) == (alone.examples, alone.traces)
        assert both.readings.right == alone.readings.right
    told = import_format(name, [str(folder)], tmp_path / "told", settings=settings(name)).notes
    assert [note for note in told if note.startswith("`notes.jsonl`") and name in note]


@pytest.mark.parametrize("name", GOLD)
def test_the_file_that_is_joined_is_none_of_the_samples(name: str, tmp_path: Path) -> None:
    folder = published(name, tmp_path)
    alone = import_format(name, [str(folder)], tmp_path / "alone", settings=settings(name))
    pl.read_csv(folder / "gold.csv", infer_schema=False).write_ndjson(folder / "gold.jsonl")
    (folder / "gold.csv").unlink()
    given = [one.replace("gold.csv", "gold.jsonl") for one in settings(name)]
    both = import_format(name, [str(folder)], tmp_path / "both", settings=given)
    assert (both.traces, both.readings.judged, both.readings.right) == (
        alone.traces, alone.readings.judged, alone.readings.right,
    )  # fmt: skip
    assert not any("left out" in line for line in both.notes)


def test_a_file_that_is_named_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = published("vllm", tmp_path)
    other = folder / "notes.jsonl"
    other.write_text('{"id": "q1", "gold": "4"}\n')
    with pytest.raises(ThinkbackError):
        import_format("vllm", [str(other)], tmp_path / "log")
