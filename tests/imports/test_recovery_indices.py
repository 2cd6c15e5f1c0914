"""Sample indices of SeVRA's rows: kept as they are given, counted where they are not, refused where they are none."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.errors import quotes
from tests.imports.test_recovery import Row, changed, outcomes, refused_in_one_line, row, rows, write
from toolkit.imports import import_recovery
from toolkit.log import collect, open_log


def indices(tmp_path: Path, name: str, lines: list[Row]) -> tuple[list[tuple[int, int]], str]:
    """Tokens and sample index of the revisions of `a`, and the notes of the import."""
    report = import_recovery([write(tmp_path / f"{name}.jsonl", lines)], tmp_path / name)
    log = open_log(tmp_path / name)
    own = collect(log.scan("traces", ["example_id", "action", "completion_tokens", "sample_index"]), log)
    found = own.filter(pl.col("action") != "solve", pl.col("example_id") == "a")
    return sorted(found.select("completion_tokens", "sample_index").rows()), " ".join(report.notes)


def test_a_sample_index_stands_whatever_the_order_of_rows(tmp_path: Path) -> None:
    """Of `a` the rollout of 40 tokens has index 0 and that of 60 has index 1, also where it comes first."""
    turned = [rows()[0], rows()[2], rows()[1], *rows()[3:]]
    assert indices(tmp_path, "turned", turned)[0] == [(40, 0), (60, 1)]
    named = [{("rollout" if k == "sample_index" else k): v for k, v in one.items()} for one in turned]
    assert indices(tmp_path, "named", named)[0] == [(40, 0), (60, 1)]


def test_rows_without_an_index_follow_those_with_one(tmp_path: Path) -> None:
    mixed = [rows()[0], {**rows()[1], "sample_index": None}, {**rows()[2], "sample_index": 0}, *rows()[3:]]
    assert indices(tmp_path, "mixed", mixed)[0] == [(40, 1), (60, 0)]


def test_an_index_behind_a_gap_stands_and_is_named(tmp_path: Path) -> None:
    """Without its rollout 0, `a` has none to replay: what is logged behind a gap is not."""
    found, told = indices(tmp_path, "gap", [rows()[0], *rows()[2:]])
    assert found == [(60, 1)]
    quotes(told, "1 example", "a gap", "(`a`)")
    assert not [one for one in outcomes(tmp_path / "gap", "always") if one["example_id"] == "a"]


def test_indices_that_count_from_one_are_one_less(tmp_path: Path) -> None:
    later = [{**one, "sample_index": one["sample_index"] + 1} if "sample_index" in one else one for one in rows()]
    found, told = indices(tmp_path, "later", later)
    assert found == [(40, 0), (60, 1)]
    quotes(told, "`sample_index` counts from 1")


BAD: dict[str, tuple[list[Row], str]] = {
    "words": (changed(1, sample_index="first"), ("invalid", "`sample_index`", "`first`", "row 2")),
    "a half": (changed(2, sample_index=0.5), ("invalid", "`sample_index`", "`0.5`", "row 3")),
    "below zero": (changed(4, sample_index=-1), ("invalid", "`sample_index`", "`-1`", "row 5")),
    "too large to count on": (
        [*changed(1, sample_index=2**31 - 1), row("a", "active_verify", False, True, 1)],
        ("limit", "`a`"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_index_is_one_line(name: str, tmp_path: Path) -> None:
    refused_in_one_line(*BAD[name], tmp_path)
