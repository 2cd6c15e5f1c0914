"""Archives and packed files that nobody vouches for: read within limits, and nothing is written by their names."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from tests.errors import refuses
from tests.formats.published import published
from toolkit.errors import ThinkbackError
from toolkit.imports import import_format
from toolkit.imports.files import archives
from toolkit.imports.files.archives import UnpackAllowance, open_archive, unpacked_stream
from toolkit.imports.files.listing import find_files
from toolkit.log import collect, open_log


def zipped(**members: bytes) -> io.BytesIO:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made


def zstd(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)


def zipped_with_zstd(name: str, content: bytes, checksum: int | None = None) -> io.BytesIO:
    """An archive with one member packed by method 93, written by hand: older Pythons can't."""
    packed, crc = zstd(content), zlib.crc32(content) if checksum is None else checksum
    title = name.encode()
    about = struct.pack("<HHHHHIIIHH", 63, 0, 93, 0, 33, crc, len(packed), len(content), len(title), 0)
    local = b"PK\x03\x04" + about + title + packed
    directory = b"PK\x01\x02" + struct.pack("<H", 63) + about + struct.pack("<HHHII", 0, 0, 0, 0, 0) + title
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(directory), len(local), 0)
    return io.BytesIO(local + directory + end)


def test_members_packed_with_zstd() -> None:
    with open_archive("a.eval", zipped_with_zstd("x.json", b"[1]" * 9999)) as archive:
        assert archive.members == ("x.json",)
        assert archive.read("x.json") == b"[1]" * 9999


def test_a_member_whose_checksum_differs() -> None:
    with (
        refuses("damaged", "`a.eval`"),
        open_archive("a.eval", zipped_with_zstd("x.json", b"[1]", checksum=1)) as archive,
    ):
        archive.read("x.json")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"nothing"])
def test_what_is_no_archive(content: bytes) -> None:
    with refuses("format", "`a.zip`"), open_archive("a.zip", io.BytesIO(content)):
        pass


def test_what_unpacks_to_too_much_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "ROOM", 2**16)
    bomb = zipped(a=b"0" * 2**25)
    with refuses("limit", "`a.zip`", "200"), open_archive("a.zip", bomb) as archive:
        archive.read("a")
    packed = gzip.compress(b"0" * 2**25)
    allowance = UnpackAllowance.of("a.gz", len(packed))
    with refuses("limit", "`a.gz`"), unpacked_stream(io.BytesIO(packed), ".gz", allowance) as stream:
        stream.read()


def test_the_members_of_an_archive_have_one_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "ROOM", 2**20)
    bomb = zipped(**{str(number): b"0" * 2**19 for number in range(9)})
    with open_archive("a.zip", bomb) as archive, refuses("limit", "`a.zip`"):
        [archive.read(name) for name in archive.members]


@pytest.mark.parametrize("ending", [".gz", ".zst", ".bz2", ".xz"])
def test_a_packed_file_that_is_cut_off(ending: str, tmp_path: Path) -> None:
    import bz2
    import lzma

    pack = {".gz": gzip.compress, ".zst": zstd, ".bz2": bz2.compress, ".xz": lzma.compress}[ending]
    path = tmp_path / f"1.jsonl{ending}"
    content = (published("verl", tmp_path / "x") / "40.jsonl").read_bytes()
    path.write_bytes(pack(content))
    assert import_format("verl", [str(path)], tmp_path / "whole").traces == 4
    path.write_bytes(pack(content)[:-20])
    with pytest.raises(ThinkbackError) as error:
        import_format("verl", [str(path)], tmp_path / "cut")
    assert "\n" not in str(error.value)


def test_names_that_lead_out_of_a_folder_write_nothing_there(tmp_path: Path) -> None:
    content = (published("verl", tmp_path / "x") / "40.jsonl").read_bytes()
    names = ("../../outside.jsonl", "/absolute.jsonl", "a/../../b.jsonl", "C:\\c.jsonl", "a\x00b.jsonl")
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        for name in names:
            archive.writestr(name, content)
    before = set(tmp_path.parent.rglob("*.jsonl"))
    report = import_format("verl", [str(tmp_path / "runs.zip")], tmp_path / "log")
    assert report.examples == 2
    assert set(tmp_path.parent.rglob("*.jsonl")) == before


def test_files_of_one_name_stay_apart(tmp_path: Path) -> None:
    for run in ("a", "b"):
        published("verl", tmp_path / run)
    report = import_format("verl", [str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "log")
    log = open_log(tmp_path / "log")
    pools = collect(log.scan("traces", ["pool"]), log)["pool"].unique().sort().to_list()
    assert pools == ["a/verl step 40", "a/verl step 80", "b/verl step 40", "b/verl step 80"]
    assert (report.traces, report.duplicates_dropped) == (12, 0)


def test_members_of_two_archives_stay_apart(tmp_path: Path) -> None:
    folder = published("verl", tmp_path / "x")
    for run in ("a", "b"):
        with zipfile.ZipFile(tmp_path / f"{run}.zip", "w") as archive:
            archive.write(folder / "40.jsonl", "40.jsonl")
    import_format("verl", [str(tmp_path / "*.zip")], tmp_path / "log")
    log = open_log(tmp_path / "log")
    assert collect(log.scan("traces", ["pool"]), log)["pool"].n_unique() == 2


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    file = str(published("verl", tmp_path) / "40.jsonl")
    assert [found.path for found in find_files([file, file], lambda path: True)] == ["40.jsonl"]


def test_what_programs_keep_beside_files_is_passed_over(tmp_path: Path) -> None:
    folder = published("evalplus", tmp_path)
    (file,) = folder.iterdir()
    (folder / ".cache").mkdir()
    (folder / ".cache" / file.name).write_bytes(b"\x00\x05")
    packed = tmp_path / "runs.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(file, f"runs/{file.name}")
        archive.writestr(f"__MACOSX/runs/._{file.name}", b"\x00\x05")
    for source in (folder, packed, f"{folder}/*"):
        (found,) = find_files([str(source)], lambda path: path.endswith("eval_results.json"))
        assert found.name == file.name


@pytest.mark.parametrize(
    ("source", "refusal"),
    [
        ("nowhere.jsonl", ("not-found",)),
        ("nothing-*", ("not-found",)),
        ("gopher://x/y", ("format", "`gopher://x/y`")),
        ("empty", ("not-found", "empty`")),
        ("other", ("not-found", "1")),
    ],
)
def test_sources_that_are_not_there(source: str, refusal: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "readme.md").write_text("#")
    with refuses(*refusal):
        import_format("verl", [source if "://" in source else str(tmp_path / source)], tmp_path / "log")
