"""What killed processes left is cleared by the next one, what living ones hold is not; no swap is seen half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.errors import refuses
from toolkit.files import replacing, replacing_file
from toolkit.work_places import MARK, _clear_scratch

ROOT = Path(__file__).resolve().parents[2]
WRITE = """
import sys
from toolkit.files import replacing, replacing_file
kind = {"folder": replacing, "file": replacing_file}[sys.argv[2]]
with kind(sys.argv[1], force=True) as part:
    print("ready", flush=True)
    sys.stdin.readline()
"""
SCRATCH = """
import sys
from toolkit.work_places import scratch_folder
print(scratch_folder(), flush=True)
sys.stdin.readline()
"""
BETWEEN = """
import os, signal, sys
from pathlib import Path
import toolkit.files
toolkit.files._exchange_names = lambda *_: False
rename = Path.rename
def dying(self, other):
    if self.suffix == ".part":
        os.kill(os.getpid(), signal.SIGKILL)
    rename(self, other)
Path.rename = dying
with toolkit.files.replacing(sys.argv[1], force=True) as folder:
    (folder / "text").write_text("new")
"""


@contextmanager
def child(code: str, *words: str | Path, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process at work, and the line that it said when it had begun."""
    command = [sys.executable, "-c", code, *map(str, words)]
    made = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=made) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_part_is_cleared_by_the_next_writer_unless_its_own_still_lives(tmp_path: Path, kind: str) -> None:
    target, other = tmp_path / "out", tmp_path / ".out-put-abcdefgh.part"
    other.mkdir()  # of a target `out-put`
    with ExitStack() as living:
        living.enter_context(child(WRITE, target, kind))
        with child(WRITE, target, kind) as (process, _):
            process.send_signal(signal.SIGKILL)
        assert len(names(tmp_path)) == 3
        with replacing(target) if kind == "folder" else replacing_file(target):
            assert len(names(tmp_path)) == 3, "the living one's, ours, and the other target's"
        assert target.exists()
    with refuses("exists", "`force`"), replacing(target):
        pass
    assert names(tmp_path) == [".out-put-abcdefgh.part", "out"]


def test_a_living_writer_ends_well_after_another_cleared(tmp_path: Path) -> None:
    with child(WRITE, tmp_path / "out", "folder") as (process, _):
        with replacing(tmp_path / "out") as folder:
            (folder / "text").write_text("mine")
        process.communicate("\n")
        assert process.returncode == 0
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == []


def test_a_kill_between_two_renames_loses_nothing(tmp_path: Path) -> None:
    """As where names can't change places in one step."""
    with replacing(tmp_path / "out") as folder:
        (folder / "text").write_text("old")
    with child(BETWEEN, tmp_path / "out") as (process, _):
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    with refuses("exists", "`force`"), replacing(tmp_path / "out"):
        pass
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "text").read_text() == "old"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets two names change places")
def test_a_reader_always_finds_the_old_or_the_new(tmp_path: Path) -> None:
    target, seen, ended = tmp_path / "out", set(), threading.Event()
    with replacing(target) as folder:
        (folder / "text").write_text("0")

    def look() -> None:
        while not ended.is_set():
            seen.add(os.path.lexists(target))

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(30):
        with replacing(target, force=True) as folder:
            (folder / "text").write_text(str(number))
    ended.set()
    reader.join()
    assert seen == {True}
    assert (target / "text").read_text() == "29"
    assert names(tmp_path) == ["out"]


def test_a_link_is_replaced_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    with replacing(tmp_path / "out", force=True) as folder:
        (folder / "text").write_text("new")
    assert names(tmp_path) == ["out", "real"]
    assert not (tmp_path / "out").is_symlink()
    assert names(tmp_path / "real") == []


def test_temporary_folders_of_killed_processes_are_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "thinkback-scratch-mynotes1"  # a user's own: it has no mark
    own.mkdir()
    (own / "note").write_text("mine")
    (tmp_path / "thinkback-scratch-0123abcd").mkdir()  # its process was killed before there was a mark
    with child(SCRATCH, TMPDIR=str(tmp_path)) as (_, living):
        with child(SCRATCH, TMPDIR=str(tmp_path)) as (process, killed):
            process.send_signal(signal.SIGKILL)
        assert (Path(killed).parent / MARK).exists()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        _clear_scratch()
        assert names(tmp_path) == sorted([own.name, Path(living).parent.name])
        assert Path(living).exists()
