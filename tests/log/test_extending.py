"""Adding to a sealed log in place: all or nothing, and what a killed writer left is cleared."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.errors import refuses
from tests.logs import make_log, make_rows
from toolkit.errors import ThinkbackError
from toolkit.log import ADDING, LogError, collect, extend_log, open_log, validate_log
from toolkit.log.write.extending import _clear_unlisted
from toolkit.log.write.shard_files import write_shard

SCORES = make_rows()["traces"].select("trace_id", "example_id", verifier=pl.lit("v"), score=pl.lit(0.5))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_rows_are_added_and_source_is_changed(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    log = extend_log(tmp_path / "log", {"verifications": SCORES.lazy()}, lambda source: {**source, "more": 1})
    assert validate_log(log).problems == ()
    assert log.rows("verifications") == 30
    assert log.manifest.source["more"] == 1
    more = SCORES.with_columns(verifier=pl.lit("w"))
    assert extend_log(tmp_path / "log", {"verifications": more}).rows("verifications") == 60
    assert not (tmp_path / "log" / ADDING).exists()


@pytest.mark.parametrize(
    ("rows", "refusal"),
    [
        (SCORES.with_columns(score=pl.lit(float("nan"))), ("not-finite", "`nan`", "`score`")),
        (pl.concat([SCORES, SCORES]), ("duplicate", "`verifications/part-00000.parquet`", "`trace_id`")),
        (
            SCORES.with_columns(trace_id=pl.lit("unknown") + pl.col("trace_id")),
            ("unknown", "`unknowns000/verify/0`", "`trace_id`"),
        ),
        (SCORES.drop("score"), ("missing-column", "`score`")),
    ],
)
def test_rows_that_break_the_contract_leave_the_log_as_it_was(
    tmp_path: Path, rows: pl.DataFrame, refusal: tuple[str, ...]
) -> None:
    make_log(tmp_path / "log")
    before = contents(tmp_path / "log")
    with refuses(*refusal):
        extend_log(tmp_path / "log", {"verifications": rows})
    assert contents(tmp_path / "log") == before
    assert not (tmp_path / "log" / "verifications").exists()


def test_rows_that_stand_are_not_added_again(tmp_path: Path) -> None:
    make_log(tmp_path / "log", verifications=SCORES)
    before = contents(tmp_path / "log")
    with pytest.raises(LogError):
        extend_log(tmp_path / "log", {"verifications": SCORES.head(1)})
    assert contents(tmp_path / "log") == before


def test_what_a_killed_writer_left_is_cleared_and_what_others_left_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    make_log(folder, verifications=SCORES)
    theirs = folder / "verifications" / "theirs.parquet"
    theirs.write_bytes(b"not ours")
    (folder / ADDING).mkdir()
    kept = {"verifications": ["theirs.parquet"]}
    (folder / ADDING / "placing.json").write_text(json.dumps(kept))
    left = write_shard(folder, "verifications", SCORES.with_columns(verifier=pl.lit("w")))
    assert left.exists()
    extend_log(folder, {"verifications": SCORES.with_columns(verifier=pl.lit("x"))})
    assert theirs.read_bytes() == b"not ours"
    assert sorted(path.name for path in theirs.parent.iterdir()) == [
        "part-00000.parquet",
        "part-00001.parquet",
        theirs.name,
    ]
    assert set(collect(open_log(folder).scan("verifications"))["verifier"]) == {"v", "x"}


def test_a_value_that_stands_wins(tmp_path: Path) -> None:
    ids = SCORES.select("trace_id", "example_id")
    old = ids.head(10).with_columns(a=pl.lit(1.0), b=pl.when(pl.int_range(10) < 5).then(2.0))
    make_log(tmp_path / "log", features=old)
    log = extend_log(tmp_path / "log", {"features": ids.with_columns(b=pl.lit(9.0), c=pl.lit(3.0))})
    made = collect(log.scan("features", list(log.columns("features"))))
    assert made.height == 30
    assert sorted(made["b"].to_list()) == [2.0] * 5 + [9.0] * 25
    assert made["a"].null_count() == 20
    assert made["c"].null_count() == 0
    assert log.warnings == ()


@pytest.mark.parametrize("note", ['{"../../elsewhere": []}', "[]", '{"features": 5}', "[" * 5000])
def test_a_note_of_a_killed_writer_leads_nowhere_else(note: str, tmp_path: Path) -> None:
    """What a log from elsewhere brings along removes nothing beside it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "part.parquet").touch()
    (tmp_path / "log" / ".adding").mkdir(parents=True)
    (tmp_path / "log" / ".adding" / "placing.json").write_text(note)
    with pytest.raises(ThinkbackError):
        _clear_unlisted(tmp_path / "log")
    assert (tmp_path / "elsewhere" / "part.parquet").exists()
