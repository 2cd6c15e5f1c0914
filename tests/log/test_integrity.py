"""What was altered after it was sealed is not read, and what was checked once is not read again for that."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.errors import refuses
from tests.log.test_damage import long_traces, overwrite
from tests.logs import examples, put_all, traces, whole
from tests.seeds import seeds
from toolkit.log import (
    Log,
    LogError,
    LogWriter,
    check_log,
    collect,
    describe_log,
    merge_logs,
    open_log,
    query_log,
    seal_log,
    validate_log,
    write_log,
)
from toolkit.log.check import validating
from toolkit.log.check.faults import Faults
from toolkit.log.read import checked_shards, integrity
from toolkit.log.read.threads import map_in_threads

ROOT = Path(__file__).resolve().parents[2]
HASHED: list[int] = []


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; files count as settled at once, and hashed bytes are counted."""
    plain = integrity.hash_file

    def counted(path: str) -> str:
        HASHED.append(Path(path).stat().st_size)
        return plain(path)

    HASHED.clear()
    monkeypatch.setattr(integrity, "hash_file", counted)
    monkeypatch.setattr(integrity, "SETTLED_NS", -1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "thinkback" / checked_shards.FILE


def small(folder: Path) -> Path:
    write_log(folder, name="x", tables=whole())
    return folder


def shard_of(folder: Path, table: str = "verifications") -> Path:
    return folder / table / "part-00000.parquet"


def alter(folder: Path) -> None:
    """Every score becomes 1 - score, in a file that is as valid as before."""
    path = shard_of(folder)
    table = pq.read_table(path)
    frame = pl.DataFrame(pl.from_arrow(table)).with_columns(score=1 - pl.col("score"))
    pq.write_table(frame.to_arrow().cast(table.schema), path, write_page_checksum=True)


def hashed() -> int:
    """Bytes hashed since this was asked last."""
    total = sum(HASHED)
    HASHED.clear()
    return total


def size(folder: Path, *tables: str) -> int:
    return sum(shard_of(folder, table).stat().st_size for table in tables)


READERS: dict[str, Callable[[Log, Path], object]] = {
    "check": lambda log, out: check_log(log),
    "scan": lambda log, out: log.scan("verifications", ["verifier"]),
    "describe": lambda log, out: describe_log(log),
    "query": lambda log, out: query_log(log, "SELECT avg(score) FROM verifications"),
    "query in a subquery": lambda log, out: query_log(log, 'SELECT (SELECT count(*) FROM "VERIFICATIONS")'),
    "merge": lambda log, out: merge_logs([log.address], out),
}


@pytest.mark.parametrize("name", READERS)
def test_an_altered_sealed_log_is_refused_by_every_reader(tmp_path: Path, name: str) -> None:
    log, out = small(tmp_path / "log"), tmp_path / "out"
    READERS[name](open_log(log), tmp_path / "before")
    alter(log)
    with refuses("altered", "verifications/part-00000.parquet`"):
        READERS[name](open_log(log), out)
    assert not out.exists()
    assert not validate_log(open_log(log)).ok


def test_merging_names_the_log_that_was_altered(tmp_path: Path) -> None:
    one, other = small(tmp_path / "one"), small(tmp_path / "other")
    alter(other)
    with refuses("altered", f"`{other}/verifications/part-00000.parquet`"):
        merge_logs([one, other], tmp_path / "out")


def test_what_a_command_does_not_read_is_not_checked(tmp_path: Path) -> None:
    log = small(tmp_path / "log")
    alter(log)
    assert collect(open_log(log).scan("traces")).height == 5
    assert query_log(open_log(log), "SELECT count(*) FROM traces").item() == 5
    for name in ("'verif' || 'ications'", "'verifications'"):
        with pytest.raises(LogError):
            query_log(open_log(log), f"SELECT * FROM query_table({name})")


def test_a_second_command_hashes_nothing(tmp_path: Path, cache: Path) -> None:
    log = small(tmp_path / "log")
    tables = ("examples", "traces", "verifications")
    check_log(open_log(log))
    assert hashed() == size(log, *tables)
    for read in (check_log, describe_log):
        read(open_log(log))
        assert hashed() == 0
    assert validate_log(open_log(log)).ok
    assert hashed() == size(log, *tables)  # it is there to look
    assert [path.name for path in log.rglob("*.sqlite*")] == []
    cache.unlink()
    check_log(open_log(log))
    assert hashed() == size(log, *tables)


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose values are checked from here on."""
    tables: list[str] = []
    plain = validating.check_values

    def counted(faults: Faults, table: str) -> None:
        tables.append(table)
        plain(faults, table)

    monkeypatch.setattr(validating, "check_values", counted)
    return tables


@pytest.mark.parametrize("first", [check_log, validate_log])
def test_rows_that_are_known_as_sound_are_not_checked_again(
    tmp_path: Path, first: Callable[[Log], object], examined: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = small(tmp_path / "log")
    examined.clear()
    first(open_log(log))
    assert len(examined) == 3
    check_log(open_log(log))
    assert len(examined) == 3
    assert validate_log(open_log(log)).ok
    assert len(examined) == 6  # it is there to look
    monkeypatch.setattr(validating, "checks_version", lambda: "another")
    check_log(open_log(log))
    assert len(examined) == 9
    copied = shutil.copytree(log, tmp_path / "copied")
    hashed()
    check_log(open_log(copied))
    assert hashed() == size(copied, "examples", "traces", "verifications")
    alter(copied)
    with refuses("altered", "verifications/part-00000.parquet`"):
        check_log(open_log(copied))
    (copied / "manifest.json").unlink()
    seal_log(copied, name="x")
    examined.clear()
    check_log(open_log(copied))
    assert len(examined) == 3  # other rows, sealed by another hash


def test_rows_with_a_fault_are_not_known_as_sound(tmp_path: Path, examined: list[str]) -> None:
    folder = tmp_path / "log"
    tables = whole()
    tables["verifications"] = tables["verifications"].with_columns(trace_id=pl.lit("none"))
    write_log(folder, name="x", tables=tables, validate=False)
    for times in (1, 2):
        assert not validate_log(open_log(folder)).ok
        with refuses("unknown", "verifications/part-00000.parquet`"):
            check_log(open_log(folder))
        assert len(examined) == 6 * times
    check_log(open_log(folder), ["examples", "traces"])  # the others are sound
    check_log(open_log(folder), ["examples", "traces"])
    assert len(examined) == 14
    with refuses("unknown", "verifications/part-00000.parquet`"):
        check_log(open_log(folder))


def test_only_what_changed_is_hashed_again(tmp_path: Path) -> None:
    log = small(tmp_path / "log")
    check_log(open_log(log))
    hashed()
    os.utime(shard_of(log))
    check_log(open_log(log))
    assert hashed() == size(log, "verifications")
    moved = log.rename(tmp_path / "moved")
    check_log(open_log(moved))
    assert hashed() == size(moved, "examples", "traces", "verifications")


def test_a_shard_altered_in_place_with_its_size_and_time_restored_is_refused(tmp_path: Path) -> None:
    log = small(tmp_path / "log")
    check_log(open_log(log))
    path, before = shard_of(log), shard_of(log).stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    time.sleep(0.02)  # longer than a tick of the file system's clock
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    with refuses("altered", "verifications/part-00000.parquet`"):
        check_log(open_log(log))


def test_a_file_that_changed_just_now_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integrity, "SETTLED_NS", 10**12)
    log = small(tmp_path / "log")
    for _ in range(2):
        check_log(open_log(log))
        assert hashed() == size(log, "examples", "traces", "verifications")


def test_what_was_kept_long_ago_is_hashed_again(tmp_path: Path, cache: Path) -> None:
    log = small(tmp_path / "log")
    check_log(open_log(log))
    hashed()
    database = sqlite3.connect(cache)
    with database:
        database.execute("UPDATE checked SET at = at - ?", (checked_shards.REMEMBERED_S,))
    database.close()
    check_log(open_log(log))
    assert hashed() == size(log, "examples", "traces", "verifications")


def damaged_file(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"not a database" * 1_000)


def cut_file(cache: Path) -> None:
    cache.write_bytes(cache.read_bytes()[:5_000])


def other_tables(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    database = sqlite3.connect(cache)
    database.execute("CREATE TABLE checked (other)")
    database.close()


def folder_in_its_place(cache: Path) -> None:
    cache.mkdir(parents=True)


def pipe_in_its_place(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    os.mkfifo(cache)


def file_above_it(cache: Path) -> None:
    cache.parent.parent.write_text("")


def held_by_another(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    HELD.append(sqlite3.connect(cache))
    HELD[0].execute("BEGIN EXCLUSIVE")


HELD: list[sqlite3.Connection] = []


@pytest.mark.parametrize(
    "harm",
    seeds(
        3,
        [damaged_file, cut_file, other_tables, folder_in_its_place, pipe_in_its_place, file_above_it, held_by_another],
    ),
)
def test_a_cache_that_can_not_be_used_is_passed_over(
    tmp_path: Path, cache: Path, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked_shards, "_WAIT_S", 0.01)
    log = small(tmp_path / "log")
    if harm is cut_file:
        check_log(open_log(log))
        hashed()
    harm(cache)
    for _ in range(2):
        check_log(open_log(log))
        assert validate_log(open_log(log)).ok
    assert hashed() >= size(log, "examples", "traces", "verifications")
    alter(log)
    with refuses("altered", "`verifications/part-00000.parquet`"):
        check_log(open_log(log))
    while HELD:
        HELD.pop().close()


def test_a_damaged_cache_heals(tmp_path: Path, cache: Path) -> None:
    log = small(tmp_path / "log")
    damaged_file(cache)
    for _ in range(3):
        hashed()
        check_log(open_log(log))
    assert hashed() == 0


@pytest.mark.parametrize("home", ["relative/cache", ""])
def test_the_cache_is_under_home_where_nothing_else_is_named(
    tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", str(tmp_path))
    check_log(open_log(small(tmp_path / "log")))
    assert (tmp_path / ".cache" / "thinkback" / checked_shards.FILE).is_file()


KEEPER = """
import sys
from toolkit.log.check import validating
from toolkit.log.check.faults import Faults
from toolkit.log.read import checked_shards
from toolkit.log.read.checked_shards import remember_shards, known_shards
checked_shards._WAIT_S = 60.0  # a busy machine may take long; what waits longer than that is passed over
name = sys.argv[1]
for i in range(30):
    remember_shards({f"{name}/{i}": "state", "/shared": f"{name}"})
print(len(known_shards({f"{name}/{i}": "state" for i in range(30)})))
"""


def test_several_processes_keep_at_once(tmp_path: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", KEEPER, f"/{i}"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for i in range(3)
    ]
    assert [child.communicate()[0] for child in children] == ["30\n"] * 3
    assert len(checked_shards.known_shards({f"/{i}/29": "state" for i in range(3)})) == 3


def damaged_unsealed(folder: Path, column: str) -> Path:
    """An unsealed log of ours with forty random bytes in the pages of one column of traces."""
    writer = LogWriter(folder)
    writer.append("examples", examples()[:1])
    overwrite(writer.append("traces", long_traces()), column)
    return folder


def test_a_damaged_page_of_an_unsealed_log_is_one_line_where_it_is_read(tmp_path: Path) -> None:
    log = damaged_unsealed(tmp_path / "log", "token_logprobs")
    assert collect(open_log(log).scan("traces", ["trace_id", "text"])).height == 500
    for read in (
        lambda: open_log(log).scan("traces", ["trace_id", "token_logprobs"]),
        lambda: merge_logs([log], tmp_path / "out"),
        lambda: query_log(open_log(log), "SELECT count(*) FROM traces"),
    ):
        with refuses("damaged", "traces/part-00000.parquet`", "`token_logprobs`"):
            read()
    assert not (tmp_path / "out").exists()


def test_damage_that_decodes_to_other_numbers_is_found(tmp_path: Path) -> None:
    """Uncompressed pages decode whatever their bytes are: only the checksum tells."""
    folder = put_all(tmp_path / "log", whole(traces=traces(sample_index=pl.Series([0, 1, 0, 0, 1], dtype=pl.Int32))))
    path = folder / "verifications" / "part-0.parquet"
    table = pq.read_table(path)
    for checksums in (True, False):
        options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        pq.write_table(table, path, write_page_checksum=checksums, **options)
        chunk = pq.read_metadata(path).row_group(0).column(3)
        assert chunk.path_in_schema == "score"
        data = bytearray(path.read_bytes())
        at = data.rindex(table["score"].chunk(0).buffers()[1].to_pybytes()[:32])
        data[at + 6] ^= 0x10
        path.write_bytes(data)
        log = open_log(folder)
        if checksums:
            with refuses("damaged", "`score`"):
                log.scan("verifications", ["score"])
        else:  # its writer gave nothing to compare it with
            assert collect(log.scan("verifications", ["score"]))["score"][0] != table["score"][0].as_py()


def footer_with(path: Path, was: bytes, now: bytes) -> None:
    """Replace the first such bytes of a shard's footer."""
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert was in data[start:]
    path.write_bytes(data[:start] + data[start:].replace(was, now, 1))


@pytest.mark.parametrize(
    ("was", "now", "column"),
    [(b"prompt_tokens", b"prompt_tokenz", "`prompt_tokenz`"), (b"(\x02q2", b"(\x02q1", "`example_id`")],
    ids=["name", "bound"],
)
def test_a_damaged_footer_hides_no_column_and_no_row(tmp_path: Path, was: bytes, now: bytes, column: str) -> None:
    small(tmp_path / "log")
    (tmp_path / "log" / "manifest.json").unlink()
    footer_with(shard_of(tmp_path / "log", "traces"), was, now)
    with refuses("damaged", "`traces/part-00000.parquet`", column):
        collect(open_log(tmp_path / "log").scan("traces", ["example_id"]).filter(pl.col("example_id") == "q2"))
    with refuses("damaged", "`traces/part-00000.parquet`", column):
        query_log(open_log(tmp_path / "log"), "SELECT * FROM traces WHERE example_id = 'q2'")


def test_an_unsealed_column_is_read_once_for_its_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put_all(tmp_path / "log", whole())
    asked: list[str] = []
    plain = integrity.shard_damage
    monkeypatch.setattr(
        integrity, "shard_damage", lambda shard, footer, names: asked.extend(names) or plain(shard, footer)
    )
    log = open_log(folder)
    for columns in (["trace_id"], ["trace_id", "pool"], ["pool", "latency_s"]):
        log.scan("traces", columns)
    assert asked == ["trace_id", "pool"]


def test_validate_tells_damage_from_absence_and_from_a_change(tmp_path: Path) -> None:
    draw = random.Random(0)
    log = tmp_path / "log"
    write_log(log, name="x", tables={"examples": examples()[:1], "traces": long_traces()})
    path = shard_of(log, "traces")
    good = path.read_bytes()
    overwrite(path, "text")
    (problem,) = validate_log(open_log(log)).problems
    assert str(problem).startswith("`traces/part-00000.parquet`, column `text`: is damaged (")
    path.write_bytes(good)
    pq.write_table(pq.read_table(path), path)
    (problem,) = validate_log(open_log(log)).problems
    assert (problem.code, problem.file) == ("altered", "traces/part-00000.parquet")
    path.write_bytes(good[: draw.randrange(len(good))])
    (problem,) = validate_log(open_log(log)).problems
    assert (problem.code, problem.file) == ("damaged", "traces/part-00000.parquet")
    path.unlink()
    with refuses("not-found", "`traces/part-00000.parquet`"):
        open_log(log)


def test_the_first_error_ends_what_is_done_side_by_side() -> None:
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 70:
            raise KeyError(number)
        time.sleep(0.001)
        return number

    assert map_in_threads(lambda number: -number, range(1_000)) == [-number for number in range(1_000)]
    with pytest.raises(KeyError):
        map_in_threads(work, range(20_000))
    assert len(begun) < 10_000
