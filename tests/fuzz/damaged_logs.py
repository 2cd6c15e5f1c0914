"""Damaged logs, with an oracle: a command that ends well says of a damaged log what it says of the sound one.

An unsealed log has no hash of its footers, so a shard of it may have become another sound one. What it says then is
what pyarrow reads in it, with the checksums of its pages: the same command on that, written anew, must say the same.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from generate.simulation.grid import simulate
from tests.fuzz.campaign import Case
from tests.fuzz.commands import Commands, Ran
from tests.fuzz.damage import damaged, damaged_json, replaced
from tests.fuzz.endings import changes, faults, state
from toolkit.log import collect, open_log, write_log
from toolkit.log.contract.manifest import MANIFEST

POLICIES = """
[[policy]]
name = "best"
kind = "sample"
pool = "n4"
max_traces = 4
verifier = "strong"
stop = { rule = "margin", margin = [0.1, 0.2], min_valid = 2 }

[[policy]]
name = "vote"
kind = "sample"
pool = "n4"
max_traces = 3
select = "majority"

[[policy]]
name = "greedy"
kind = "sample"
pool = "probe"
max_traces = 1
select = "first"
"""
FEW = ("--resamples", "20")
COMMANDS: dict[str, tuple[str, ...]] = {
    "validate": ("validate", "LOG"),
    "describe": ("describe", "LOG"),
    "query": ("query", "LOG", "SQL", "--format", "csv"),
    "replay": ("replay", "LOG", "--policies", "../p.toml", *FEW, "--out", "out"),
    "curves": ("curves", "LOG", *FEW),
    "explain": ("explain", "LOG", "--policies", "../p.toml", "--policy", "vote", "--example", "sim0-000000003"),
    "merge": ("merge", "LOG", "--out", "out"),
    "seal": ("seal", "LOG"),
}
ASKED = ("describe", "query", "query", "replay", "curves", "explain", "merge", "merge", "seal", "validate")
"""What cases choose from; the word that stands twice is cheap or worth it."""
RESULTS = ("outcomes.parquet", "summary.parquet", "comparisons.parquet", "ranks.parquet")


class DamagedLogs:
    """See the module."""

    name, about = "logs", "damaged logs, sealed and not"
    share = 3.0

    def prepare(self, folder: Path, commands: Commands) -> None:
        """A sealed and an unsealed log, the policies, and what each command says of them."""
        (folder / "p.toml").write_text(POLICIES)
        simulate(folder / "made", examples=12, traces=4, labels=3, seed=3, name="log")
        tables = {name: rows_of(folder / "made", name) for name in ("examples", "traces", "verifications", "features")}
        states = tables["traces"].select("trace_id", "example_id").head(20).with_columns(
            pl.lit(1, pl.Int16).alias("layer"), pl.lit(0, pl.Int32).alias("token"),
            pl.int_ranges(0, 4).cast(pl.List(pl.Float16)).cast(pl.Array(pl.Float16, 4)).alias("state"),
        )  # fmt: skip
        write_log(folder / "sealed", name="log", tables=tables | {"hidden_states/m": states}, rows_per_shard=30)
        shutil.copytree(folder / "sealed", folder / "open", ignore=shutil.ignore_patterns(MANIFEST))
        self.base, self.sql = folder, sorted(open_log(folder / "sealed").shards)
        self.tables = {table: rows_of(folder / "sealed", table) for table in self.sql}
        self.said: dict[tuple[str, str, str], Any] = {}
        for log in ("sealed", "open"):
            for command in COMMANDS:
                for sql in self._questions() if command == "query" else ("",):
                    place = folder / f"sound-{log}-{command}-{len(self.said)}"
                    place.mkdir()
                    shutil.copytree(folder / log, place / "log")
                    ran = self._run(commands, command, sql, place)
                    self.said[log, command, sql] = self._result(command, ran, place)

    def run(self, case: Case) -> None:
        """One damage, then two commands, each on a copy of its own where it writes."""
        rng, which = case.rng, case.rng.choice(("sealed", "sealed", "open"))
        log = case.folder / "log"
        shutil.copytree(self.base / which, log)
        in_place = which == "sealed" and rng.random() < 0.02
        if in_place:  # the cache of the user has seen it whole
            time.sleep(2.1)
            case.commands.run("validate", log, folder=case.folder)
        how = self._damage(case, log, which, in_place)
        (case.folder / "damage.txt").write_text(how)
        chosen = [command for command in ASKED if command != "seal" or which == "open"]
        for number, command in enumerate(rng.sample(chosen, 2)):
            self._judge(case, which, command, how, number)

    def _damage(self, case: Case, log: Path, which: str, in_place: bool) -> str:
        rng = case.rng
        shards = sorted(log.rglob("*.parquet"))
        if which == "sealed" and rng.random() < 0.35 and not in_place:
            path = log / MANIFEST
            text, how = damaged_json(rng, path.read_text())
            path.write_text(text, "utf-8", "surrogatepass" if how != "bytes" else "surrogateescape")
            return f"manifest {how}"
        shard = rng.choice(shards)
        if rng.random() < 0.12 and not in_place:
            return f"shard replaced: {replaced(rng, shard)}"
        if rng.random() < 0.1 and not in_place:
            first, second = rng.sample(shards, 2)
            shutil.copy(first, second)
            return "shard replaced: another shard"
        times = shard.stat()
        shard.write_bytes(damaged(rng, shard.read_bytes()))
        if in_place:
            os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
        return "bytes in place" if in_place else "bytes"

    def _judge(self, case: Case, which: str, command: str, how: str, number: int) -> None:
        place = case.folder / f"{number}-{command}"
        place.mkdir()
        log = case.folder / "log"
        if command == "seal":
            shutil.copytree(log, place / "log", symlinks=True, copy_function=_copied)
            log = place / "log"
        sql = case.rng.choice(self._questions()) if command == "query" else ""
        before = state(log)
        (place / "p.toml").write_text(POLICIES)
        ran = self._run(case.commands, command, sql, place, log)
        found = list(faults(ran, lines=20 if command == "validate" else 1))
        found += changes(before, state(log), "log/") if command != "seal" or ran.code else ()
        left = sorted(path.name for path in place.iterdir() if path.name not in ("p.toml", "log"))
        if left != (["out"] if ran.code == 0 and command in ("replay", "merge") else []):
            found.append(f"{ran.told}: left {left}")
        if found or ran.code:
            case.count("refused" if not found else "fault")
        else:
            case.count(self._compared(case, which, command, sql, ran, place, log, how, found))
        case.failures += found

    def _compared(
        self, case: Case, which: str, command: str, sql: str, ran: Ran, place: Path, log: Path, how: str,
        found: list[str],
    ) -> str:  # fmt: skip
        """The kind of an ending with exit code 0; a wrong result is added to what was found."""
        if how.startswith("manifest") and self._told_otherwise(log, command):
            return "another manifest"
        if command == "validate":
            if which == "sealed" and how.startswith("bytes"):
                found.append(f"{ran.told}: damaged bytes of a sealed log are called valid")
            if which == "open" and not _is_sound(log):
                found.append(f"{ran.told}: damaged pages of an unsealed log are called valid")
            return "valid"
        result = self._result(command, ran, place)
        if result == self.said[which, command, sql]:
            return "same result"
        if which == "open" and _is_sound(log):
            other = place.parent / f"other-{place.name}"
            _written_anew(log, other / "log")
            (other / "p.toml").write_text(POLICIES)
            again = self._run(case.commands, command, sql, other)
            if again.code == 0 and self._result(command, again, other) == result:
                return "another sound log"
        found.append(f"{ran.told}: exit code 0 and another result ({how})")
        return "wrong result"

    def _told_otherwise(self, log: Path, command: str) -> bool:
        """Whether a manifest says something else that is no damage: of settings, or by listing other shards."""
        sound, found = (json.loads((path / MANIFEST).read_text("utf-8-sig")) for path in (self.base / "sealed", log))
        if found.get("pools") != sound.get("pools") or _listed(found) != _listed(sound):
            return True
        told = ("name", "simulated", "license", "source", "created")
        return command in ("describe", "curves") and any(found.get(key) != sound.get(key) for key in told)

    def _questions(self) -> list[str]:
        return [f"select * from {table.replace('/', '_')} order by all" for table in self.sql]

    def _run(self, commands: Commands, command: str, sql: str, place: Path, log: Path | None = None) -> Ran:
        given = {
            "LOG": os.path.relpath(log or place / "log", place),
            "SQL": sql,
            "../p.toml": str(self.base / "p.toml"),
        }
        return commands.run(*(given.get(word, word) for word in COMMANDS[command]), folder=place)

    def _result(self, command: str, ran: Ran, place: Path) -> Any:
        """What a command that ended well found, without names and times."""
        if ran.code != 0:
            return None
        if command == "query":
            return sorted(map(tuple, csv.reader(io.StringIO(ran.out, newline=""))))
        if command == "replay":
            return [repr(pl.read_parquet(place / "out" / name).rows()) for name in RESULTS]  # a NaN equals a NaN
        if command in ("merge", "seal"):
            log = open_log(place / ("out" if command == "merge" else "log"))
            return {name: repr(rows_of(log, name).rows()) for name in sorted(log.shards)}
        return [" ".join(line.split()) for line in ran.out.splitlines() if "log" not in line]


def _listed(manifest: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (table, shard["file"].rpartition("/")[2]) for table, shards in manifest["tables"].items() for shard in shards
    }


def rows_of(log: Any, table: str) -> pl.DataFrame:
    """A table of a log, sorted."""
    opened = open_log(log) if isinstance(log, Path) else log
    frame = collect(opened.scan(table, sorted(opened.columns(table))))
    keys = [name for name in ("trace_id", "example_id", "verifier", "layer", "token") if name in frame.columns]
    return frame.sort(keys)


def _pages(log: Path) -> Iterator[tuple[Path, Callable[[], pa.Table]]]:
    for path in sorted(log.rglob("*.parquet")):
        yield path, lambda path=path: pq.ParquetFile(path, page_checksum_verification=True).read()  # type: ignore[misc]


def _is_sound(log: Path) -> bool:
    """Whether pyarrow reads every page of every shard, and finds no fault in what it read."""
    try:
        for _, read in _pages(log):
            read().validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        return False
    return True


def _written_anew(log: Path, into: Path) -> None:
    for path, read in _pages(log):
        other = into / path.relative_to(log)
        other.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(read(), other, use_dictionary=False)  # states are to be plain


def _copied(source: str, target: str) -> None:
    """A copy of a file, and of a pipe as one."""
    if Path(source).is_fifo():
        os.mkfifo(target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)
