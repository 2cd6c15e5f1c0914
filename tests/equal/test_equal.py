"""The comparison finds what is planted, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.equal.__main__ import differences


def recording(folder: Path) -> Path:
    """Three files as a step leaves them."""
    (folder / "run").mkdir(parents=True)
    pl.DataFrame(
        {"policy": ["a", "b"], "estimate": [0.5, 0.25], "low": [0.4, None], "seconds": [1.0, 2.0]}
    ).write_parquet(folder / "run" / "summary.parquet")
    (folder / "run" / "table.md").write_text("| a | 50.0 [40.1, 60.2] |\n", encoding="utf-8")
    (folder / "run.printed.txt").write_text("exit 0\nthe table of 2 policies\n", encoding="utf-8")
    return folder


def other_number(folder: Path) -> None:
    path = folder / "run" / "summary.parquet"
    pl.read_parquet(path).with_columns(estimate=pl.col("estimate") + 1e-16 * pl.Series([1, 0]) * 2).write_parquet(path)


def other_cell(folder: Path) -> None:
    (folder / "run" / "table.md").write_text("| a | 50.0 [40.2, 60.2] |\n", encoding="utf-8")


def no_file(folder: Path) -> None:
    (folder / "run" / "table.md").unlink()


def other_end(folder: Path) -> None:
    (folder / "run.printed.txt").write_text("exit 2\nthe table of 2 policies\n", encoding="utf-8")


def other_words(folder: Path) -> None:
    (folder / "run.printed.txt").write_text("exit 0\na table of 2 policies\n", encoding="utf-8")


def near_limit(folder: Path) -> None:
    path = folder / "run" / "summary.parquet"
    pl.read_parquet(path).with_columns(low=pl.col("low") * (1 + 1e-7)).write_parquet(path)


def far_limit(folder: Path) -> None:
    path = folder / "run" / "summary.parquet"
    pl.read_parquet(path).with_columns(low=pl.col("low") * (1 + 1e-4)).write_parquet(path)


def other_seconds(folder: Path) -> None:
    path = folder / "run" / "summary.parquet"
    pl.read_parquet(path).with_columns(seconds=pl.lit(3.0)).write_parquet(path)


@pytest.mark.parametrize("change", [other_number, other_cell, no_file, other_end, far_limit])
def test_what_differs_is_found(tmp_path: Path, change: Callable[[Path], None]) -> None:
    before, after = recording(tmp_path / "before"), recording(tmp_path / "after")
    assert list(differences(before, after)) == []
    change(after)
    assert [one.words for one in differences(before, after)] == [False]


def test_words_are_told_apart_and_seconds_left_out(tmp_path: Path) -> None:
    before, after = recording(tmp_path / "before"), recording(tmp_path / "after")
    other_seconds(after)
    near_limit(after)
    assert list(differences(before, after)) == []
    other_words(after)
    assert [one.words for one in differences(before, after)] == [True]
