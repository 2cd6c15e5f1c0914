"""The journal: what is kept is read back as it was, whole commits only, by one process at a time."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from array import array
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from generate.engines.base import Completion
from generate.journal.database import BEGUN, FOLDER, JOURNAL, Journal
from generate.journal.events import Answered, BlockDone, Event, Incomplete, Recounted, Skipped, Unreadable
from tests.errors import refuses

ROOT = Path(__file__).resolve().parents[2]
PLAIN = Completion(
    text="a\0b \u2028 ü\n", token_ids=array("i", (7, 0)), token_logprobs=array("d", (-0.1, -1e-30)), sum_logprob=-0.1,
    prompt_tokens=3, completion_tokens=None, tokens_estimated=True, finish_reason="stop", latency_s=0.1 + 0.2,
    device_s=None, max_tokens=7, reasoning="so\0", tool_calls="[]", cost=0.25, request="e/votes/0", seeded=False,
    started_at=1e9,
)  # fmt: skip
EVENTS: list[Event] = [
    Answered("e/1", "votes", 2, None, 1 / 3, PLAIN),
    Answered("e/1", "votes/finalizer", 0, None, 0.0, replace(PLAIN, token_logprobs=None, latency_s=1.0, text="")),
    Answered("ü", "", 1, "too long", 0.5, None),
    Skipped("t1", "no text"),
    Incomplete("t2", "too long"),
    Recounted("t4", "the text has 1 token, the log counts 2"),
    Unreadable("t3", True),
    BlockDone(2.5, 17),
]


def held(journal: Journal) -> list[Event]:
    kinds = (Answered, Skipped, Incomplete, Recounted, Unreadable, BlockDone)
    return [event for kind in kinds for event in journal.events(kind)]


def test_what_is_kept_is_read_back_as_it_was(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert journal.has_no_events()
        journal.append(EVENTS[:4], {"models": {"engine": {"ü": [1, None]}}})
        journal.append(EVENTS[4:])
        journal.store_mapping(BEGUN, {"seed": 1})
        assert held(journal) == EVENTS
    with Journal(tmp_path) as journal:
        assert held(journal) == EVENTS
        assert not journal.has_no_events()
        assert (journal.stored_mapping("models"), journal.stored_mapping(BEGUN)) == (
            {"engine": {"ü": [1, None]}},
            {"seed": 1},
        )
        assert journal.stored_mapping("else") == {}
        journal.remove()
    assert not (tmp_path / FOLDER).exists()


def test_the_answers_of_some_examples_are_read_alone(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(EVENTS)
        assert list(journal.answers_of(["ü", "x"])) == [EVENTS[2]]
        assert [(one.about, one.sample, one.completion is None) for one in journal.answers_without_text()] == [
            ("e/1", 2, False), ("e/1", 0, False), ("ü", 1, True),
        ]  # fmt: skip


def test_a_journal_of_another_version_is_named(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(EVENTS)
    with closing(sqlite3.connect(tmp_path / FOLDER / JOURNAL)) as database:
        database.execute("ALTER TABLE Answered DROP COLUMN reasoning")
    with refuses("mismatch", "`out`"):
        Journal(tmp_path)


def test_a_half_written_commit_is_dropped(tmp_path: Path) -> None:
    """As a kill leaves it: the write-ahead log is cut at any place within its last commit."""
    with Journal(tmp_path / "whole") as journal:
        for number in range(3):
            journal.append([replace(EVENTS[0], sample=number), replace(EVENTS[0], pool="b", sample=number)])
        for cut in (1, 2_000, 4_000):
            out = tmp_path / str(cut)
            shutil.copytree(tmp_path / "whole" / FOLDER, out / FOLDER)
            wal = out / FOLDER / f"{JOURNAL}-wal"
            wal.write_bytes(wal.read_bytes()[:-cut])
            with Journal(out) as found:
                assert [event.sample for event in found.events(Answered)] == [0, 0, 1, 1]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(EVENTS)
    path = tmp_path / FOLDER / JOURNAL
    path.write_bytes(b"x" * 500 + path.read_bytes()[500:])
    with refuses("damaged", "journal.sqlite`"):
        Journal(tmp_path)


def test_one_process_holds_it(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from generate.journal.database import Journal; Journal(Path({str(tmp_path)!r}))"
    with Journal(tmp_path), refuses("exists", f"`{tmp_path}`"):
        Journal(tmp_path)
    with Journal(tmp_path) as journal:
        journal.append(EVENTS)
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
        assert other.stderr.splitlines()[-1].startswith(f"toolkit.errors.ExistsError: `{tmp_path}`")
        journal.append(EVENTS)
        assert len(held(journal)) == 2 * len(EVENTS)


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        with refuses("invalid", "`e/1/votes`"):
            journal.append([EVENTS[3], replace(EVENTS[0], completion=replace(PLAIN, latency_s=float("nan")))])
        assert journal.has_no_events()
