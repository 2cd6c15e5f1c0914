"""Cases, drawn one by one for a seed, as long as there is time; what came of them is counted, failures are kept."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.fuzz.commands import Commands


@dataclass
class Case:
    """One case at work: what it draws from, its folder, the commands; and what came of it."""

    rng: random.Random
    folder: Path
    commands: Commands
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def count(self, kind: str) -> None:
        """One more command run, or call, with this outcome."""
        self.kinds[kind] += 1


class Part(Protocol):
    """A part of the campaign: its name on the command line and in tables, and its share of the time."""

    name: str
    about: str
    share: float

    def prepare(self, folder: Path, commands: Commands) -> None:
        """Make in a folder what all cases read."""

    def run(self, case: Case) -> None:
        """One case, which writes into its own folder alone."""


@dataclass
class Tally:
    """What came of a part's cases so far."""

    about: str
    cases: int = 0
    failed: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def runs(self) -> int:
        """Commands and calls."""
        return self.kinds.total()


@dataclass(frozen=True)
class Failure:
    """A case that failed: the first fault, where its files are kept, and the command that runs it again."""

    part: str
    fault: str
    kept: Path
    again: str


class Campaign:
    """Parts, a seed, a folder for what failed."""

    def __init__(self, parts: Sequence[Part], seed: int, keep: Path):
        self.parts, self.seed, self.keep = parts, seed, keep
        self.tallies = {part.name: Tally(part.about) for part in parts}
        self.failures: list[Failure] = []
        self._lock = threading.Lock()

    def run(self, seconds: float, jobs: int = 1, only: int | None = None) -> None:
        """Run cases for so many seconds, at most `jobs` at a time; or of each part the case `only` alone."""
        with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as name:
            room = Path(name).resolve()
            workers = [Commands(room / f"worker-{number}") for number in range(jobs)]
            try:
                for part in self.parts:
                    (room / part.name / "base").mkdir(parents=True)
                    part.prepare(room / part.name / "base", workers[0])
                ends = time.monotonic() + seconds
                if only is not None:
                    for part in self.parts:
                        self._case(part, only, room, workers[0])
                    return
                with ThreadPoolExecutor(jobs) as pool:
                    for done in [pool.submit(self._work, ends, room, worker) for worker in workers]:
                        done.result()
            finally:
                for worker in workers:
                    worker.close()

    def _work(self, ends: float, room: Path, commands: Commands) -> None:
        numbers = self.tallies
        while time.monotonic() < ends:
            with self._lock:  # the part that is furthest behind its share of the time
                part = min(self.parts, key=lambda part: (numbers[part.name].seconds + 1e-3) / part.share)
                number = numbers[part.name].cases
                numbers[part.name].cases += 1
                numbers[part.name].seconds += 0.2  # until it is known: two jobs choose different parts
            begun = time.monotonic()
            self._case(part, number, room, commands)
            with self._lock:
                numbers[part.name].seconds += time.monotonic() - begun - 0.2

    def _case(self, part: Part, number: int, room: Path, commands: Commands) -> None:
        folder = room / part.name / f"case-{number}"
        folder.mkdir()
        case = Case(random.Random(f"{self.seed} {part.name} {number}"), folder, commands)
        try:
            part.run(case)
        except KeyboardInterrupt:
            raise
        except BaseException:  # a panic of a library is no Exception
            case.failures.append(f"the case itself broke: {traceback.format_exc()}")
        with self._lock:
            tally = self.tallies[part.name]
            tally.kinds += case.kinds
            if case.failures:
                tally.failed += 1
                self._keep(part, number, case)
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)

    def _keep(self, part: Part, number: int, case: Case) -> None:
        kept = self.keep / f"{part.name}-seed{self.seed}-{number}"
        again = f"python -m tests.fuzz --seed {self.seed} --part {part.name} --case {number}"
        shutil.rmtree(kept, ignore_errors=True)
        self.keep.mkdir(parents=True, exist_ok=True)
        shutil.copytree(case.folder, kept, symlinks=True, ignore=_special, ignore_dangling_symlinks=True)
        (kept / "FAILURES.txt").write_text("\n".join([*case.failures, "", again, ""]), encoding="utf-8")
        self.failures.append(Failure(part.name, case.failures[0], kept, again))


def _special(folder: str, names: list[str]) -> set[str]:
    """Names of pipes and sockets: to read one is to wait."""
    return {name for name in names if (Path(folder) / name).is_fifo() or (Path(folder) / name).is_socket()}


def table(tallies: Iterable[Tally]) -> str:
    """Cases, runs, kinds of outcome and failures of each part, in Markdown."""
    lines = ["| what | cases | runs | outcomes | cases that failed | seconds | cases a second |"]
    lines.append("| --- | --: | --: | --- | --: | --: | --: |")
    for tally in tallies:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in tally.kinds.most_common())
        rate = tally.cases / tally.seconds if tally.seconds > 0 else 0.0
        numbers = f"{tally.failed:,} | {tally.seconds:,.0f} | {rate:.1f}"
        lines.append(f"| {tally.about} | {tally.cases:,} | {tally.runs:,} | {kinds} | {numbers} |")
    return "\n".join(lines)
