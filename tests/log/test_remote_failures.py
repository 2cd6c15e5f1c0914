"""A remote log that fails in the middle is one line, whatever fails and when; what is answered is the right answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

from tests.log.s3_server import TROUBLES, ArrowS3, S3Server
from tests.log.test_damage import long_traces
from tests.logs import examples, whole
from thinkback.app import app
from toolkit.log import Log, LogError, Problem, collect, describe_log, open_log, query_log, validate_log, write_log

READERS: dict[str, Callable[[Log], Any]] = {
    "scan": lambda log: collect(log.scan("traces", rows=True), log).sort("trace_id").to_dicts(),
    "describe": lambda log: [frame.to_dicts() for frame in (describe_log(log).pools, describe_log(log).caps)],
    "query": lambda log: query_log(log, "SELECT * FROM traces ORDER BY trace_id").to_dicts(),
    "validate": lambda log: list(validate_log(log).problems),
}


def refusal(read: Callable[[], Any], right: Any) -> str:
    """The error's text, `` where what was asked for came, and came right."""
    try:
        found = read()
    except LogError as error:
        return str(error)
    if found and isinstance(found[0], Problem):
        return "; ".join(map(str, found))
    assert found == right  # the byte that was not the file's was not asked for
    return ""


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fsspec.register_implementation("arrows3", ArrowS3, clobber=True)
    server = S3Server(tmp_path)
    monkeypatch.setattr(ArrowS3, "endpoint", server.endpoint)
    write_log(tmp_path / "log", name="x", tables={"examples": examples()[:1], "traces": long_traces()})
    yield server
    server.close()


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("name", READERS)
def test_an_s3_server_that_fails_in_the_middle_is_one_line(bucket: S3Server, name: str, sealed: bool) -> None:
    address, read = "arrows3://bucket/log", READERS[name]
    if not sealed:
        (bucket.folder / "log" / "manifest.json").unlink()
    right = read(open_log(address))
    times, refused = {0, bucket.gets // 2, bucket.gets - 1}, dict.fromkeys(TROUBLES, 0)
    for trouble in TROUBLES:
        for good in times:
            bucket.trouble, bucket.good, bucket.gets = trouble, good, 0
            said = refusal(lambda: read(open_log(address)), right)
            refused[trouble] += said != ""
            assert "\n" not in said
            assert len(said) < 600
    assert min(refused[trouble] for trouble in TROUBLES[:3]) == len(times)
    assert refused["other bytes"] >= 1


class Failing(MemoryFileSystem):
    """Files in memory that can be read so many times, and then fail in this or that way."""

    protocol = "failing"
    cachable = False
    left = 10**9
    error: Exception = OSError()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return MemoryFileSystem._strip_protocol(path.removeprefix("failing://"))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
        type(self).count()
        return bytes(super().cat_file(path, start, end, **more))

    def get_file(self, rpath: str, lpath: str, **more: Any) -> None:
        type(self).count()
        super().get_file(rpath, lpath, **more)

    @classmethod
    def count(cls) -> None:
        cls.left -= 1
        if cls.left < 0:
            raise cls.error


ERRORS = [OSError(5, "Input/output error"), TimeoutError(), RuntimeError("lost\nconnection"), KeyError("Contents")]


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.slow
def test_a_file_system_that_fails_at_any_read_ends_a_command_with_one_line(
    tmp_path: Path, sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fsspec.register_implementation("failing", Failing, clobber=True)
    write_log(tmp_path / "log", name="x", tables=whole())
    if not sealed:
        (tmp_path / "log" / "manifest.json").unlink()
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "log"), "/failing-log", recursive=True)
    try:
        monkeypatch.setattr(Failing, "left", 10**9)
        assert CliRunner().invoke(app, ["describe", "failing://failing-log"]).exit_code == 0
        for reads in range(10**9 - Failing.left):
            monkeypatch.setattr(Failing, "left", reads)
            monkeypatch.setattr(Failing, "error", ERRORS[reads % len(ERRORS)])
            ended = CliRunner().invoke(app, ["describe", "failing://failing-log"])
            assert isinstance(ended.exception, SystemExit), (reads, ended.exception)
            assert ended.exit_code == 2
            assert re.fullmatch("error: [^\n]{10,500}\n", ended.stderr), ended.stderr
    finally:
        memory.rm("/failing-log", recursive=True)
