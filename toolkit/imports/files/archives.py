"""Reading untrusted archives and compressed files: as streams, never to paths that they name, and with a limit on the
unpacked size.

An archive may promise a little and unpack to very much, so what comes out is counted: beyond `ROOM` bytes, no more than
`RATIO` times the packed size, an archive's members together. Python before 3.14 reads no members packed with zstd
(method 93), as Inspect writes them; these are unpacked by pyarrow.
"""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO, cast

from toolkit.errors import DamagedError, FormatError, LimitError, ThinkbackError, first_line

ROOM, RATIO = 2**28, 200
"""Bytes that every file may unpack to; beyond them, most times its packed size."""
_ZSTD, _ENCRYPTED = 93, 1
_HEADER = struct.Struct("<4s22sHH")
"""A member's header: its signature, the fields that the directory repeats, and the lengths of its name and its extra
field.
"""
_CHUNK = 2**18
_BROKEN = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, lzma.LZMAError, zlib.error, struct.error,
           zipfile.BadZipFile)  # fmt: skip

Open = Callable[[], AbstractContextManager[BinaryIO]]


@dataclass
class UnpackAllowance:
    """The number of bytes that may still be unpacked from a source, as a guard against decompression bombs."""

    what: str
    left: int

    @classmethod
    def of(cls, name: str, packed: int) -> UnpackAllowance:
        return cls(name, ROOM + RATIO * packed)

    def subtract_bytes(self, count: int) -> None:
        """Subtracts unpacked bytes. ThinkbackError where they exceed what is left."""
        self.left -= count
        if self.left < 0:
            raise LimitError(
                f"`{self.what}` unpacks to more than {RATIO} times its size, which no log does:"
                " unpack it yourself if you trust it"
            )


class ByteStream(io.RawIOBase):
    """A stream of the chunks that `read` returns: `read(n)` gives at most n bytes, and none at the end."""

    def __init__(self, read: Callable[[int], bytes]):
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        block = self._read(len(buffer))
        buffer[: len(block)] = block
        return len(block)


def _counting_stream(stream: IO[bytes], allowance: UnpackAllowance, crc: int | None = None) -> BinaryIO:
    """A stream of unpacked bytes that checks how many there are and, if `crc` is given, their checksum."""
    seen = 0

    def read(size: int) -> bytes:
        nonlocal seen
        try:
            block = stream.read(min(size, _CHUNK))
        except _BROKEN as error:
            raise DamagedError(f"`{allowance.what}` is damaged: {first_line(error)}") from None
        allowance.subtract_bytes(len(block))
        if crc is not None:
            seen = zlib.crc32(block, seen)
            if not block and seen != crc:
                raise DamagedError(f"`{allowance.what}` is damaged: a member's checksum differs")
        return block

    return io.BufferedReader(ByteStream(read), _CHUNK)


@dataclass(frozen=True)
class Archive:
    """An open ZIP archive, whose members are read as streams."""

    what: str
    _zip: zipfile.ZipFile
    _file: IO[bytes]
    _allowance: UnpackAllowance
    _members: Mapping[str, zipfile.ZipInfo] = field(repr=False)

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the files inside, in the archive's order."""
        return tuple(self._members)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A stream of one member, which is unpacked while it is read."""
        info = self._members[name]
        if info.flag_bits & _ENCRYPTED:
            raise FormatError(f"`{self.what}` is encrypted: unpack it first")
        with _errors_naming_file(self.what):
            plain = info.compress_type != _ZSTD
            stream = self._zip.open(info) if plain else _unpacked_zstd(self._packed(info))
            with stream:
                yield _counting_stream(stream, self._allowance, None if plain else info.CRC)

    def read(self, name: str) -> bytes:
        with self.open(name) as stream:
            return stream.read()

    def _packed(self, info: zipfile.ZipInfo) -> IO[bytes]:
        self._file.seek(info.header_offset)
        mark, _, name, extra = _HEADER.unpack(self._file.read(_HEADER.size))
        if mark != b"PK\x03\x04":
            raise zipfile.BadZipFile("a file in it does not begin where its directory says")
        at = info.header_offset + _HEADER.size + name + extra
        end = at + info.compress_size

        def read(size: int) -> bytes:
            nonlocal at
            self._file.seek(at)
            block = self._file.read(min(size, end - at))
            at += len(block)
            return block

        return io.BufferedReader(ByteStream(read))


@contextmanager
def open_archive(name: str, file: IO[bytes], allowance: UnpackAllowance | None = None) -> Iterator[Archive]:
    """Opens the ZIP archive in a seekable file. ThinkbackError where it is not one, or is damaged."""
    with _errors_naming_file(name), zipfile.ZipFile(file) as opened:
        allowed = allowance or UnpackAllowance.of(name, file.seek(0, io.SEEK_END))
        members = {info.filename: info for info in opened.infolist() if not info.is_dir()}
        yield Archive(name, opened, file, allowed, members)


@contextmanager
def unpacked_stream(packed: BinaryIO, ending: str, allowance: UnpackAllowance) -> Iterator[BinaryIO]:
    """A stream of unpacked bytes by the ending `.gz`, `.bz2`, `.xz` or `.zst`; other files pass unchanged."""
    if not ending:
        yield packed
        return
    with _errors_naming_file(allowance.what), UNPACKERS[ending](packed) as stream:
        yield _counting_stream(stream, allowance)


def _unpacked_zstd(packed: IO[bytes]) -> IO[bytes]:
    """A stream of all frames of zstd-compressed data."""
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd")


def _unpacked_gzip(packed: IO[bytes]) -> IO[bytes]:
    import gzip

    return cast(IO[bytes], gzip.GzipFile(fileobj=packed))


def _unpacked_bz2(packed: IO[bytes]) -> IO[bytes]:
    import bz2

    return bz2.BZ2File(packed)


UNPACKERS: Mapping[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": _unpacked_gzip, ".bz2": _unpacked_bz2, ".xz": lzma.LZMAFile, ".zst": _unpacked_zstd
}  # fmt: skip


@contextmanager
def _errors_naming_file(name: str) -> Iterator[None]:
    """Turns errors of the libraries that read archives into one-line ThinkbackErrors about the file `name`."""
    try:
        yield
    except ThinkbackError:
        raise
    except zipfile.BadZipFile as error:
        raise FormatError(f"`{name}` is no readable archive: {first_line(error)}") from None
    except _BROKEN as error:
        raise FormatError(f"`{name}` can't be read: {first_line(error)}") from None
