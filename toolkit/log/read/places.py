"""Places of logs: local folders and all addresses that fsspec knows. Other modules need not distinguish them."""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.documents import MOST_BYTES, expand_home
from toolkit.errors import first_line
from toolkit.log.contract.problems import LogError
from toolkit.work_places import scratch_folder


@dataclass(frozen=True)
class Place:
    """A folder. `system` is its fsspec file system, None for a local folder; `root` has no scheme then.

    A temporary folder lasts as long as something refers to its `owner`.
    """

    root: str
    system: Any = field(default=None, compare=False)
    owner: object = field(default=None, compare=False, repr=False)

    def path(self, *names: str) -> str:
        """The full path of an entry of the folder."""
        home = self.root if self.root.endswith("/") or not self.root else f"{self.root}/"
        return home + "/".join(names)

    def list_names(self, *names: str) -> tuple[list[str], list[str]]:
        """The names of (folders, files) directly in a folder, sorted; both empty where it does not exist."""
        path = self.path(*names) if names else self.root
        if self.system is None:
            folder = Path(path)
            entries = [(p.name, p.is_dir()) for p in folder.iterdir()] if folder.is_dir() else []
        else:
            entries = self._call_remote(self._list_folder, path)
        folders = sorted(name for name, is_folder in entries if is_folder)
        return folders, sorted(name for name, is_folder in entries if not is_folder)

    def _list_folder(self, path: str) -> list[tuple[str, bool]]:
        try:
            entries = self.system.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        named = [(e["name"].rstrip("/").rpartition("/")[2], e["type"] == "directory") for e in entries]
        return [(name, is_folder) for name, is_folder in named if name]

    def read(self, name: str) -> bytes | None:
        """A small file's bytes; None where there is no such file."""
        try:
            if self.system is None:
                path = Path(self.path(name))
                if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would never end
                    raise LogError(f"`{name}` is not a file: remove it", code="format")
                if path.is_file() and path.stat().st_size > MOST_BYTES:
                    raise LogError(
                        f"`{name}` has {path.stat().st_size:,} bytes, of at most {MOST_BYTES:,}", code="limit"
                    )
                return path.read_bytes()
            return self._call_remote(self.system.cat_file, self.path(name))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def local_copy(self, path: str) -> str:
        """A local file with the content of `path`: itself, or a copy in a temporary folder that lasts until exit."""
        if self.system is None:
            return path
        copy = str(Path(scratch_folder()) / Path(path).name)
        self._call_remote(self.system.get_file, path, copy)
        return copy

    def size(self, path: str) -> int | None:
        """The size of a remote file in bytes; None where its place can't tell."""
        size = self._call_remote(self.system.info, path).get("size")
        return None if size is None else int(size)

    def etag(self, path: str) -> str | None:
        """The tag that changes with a remote file's content, with its size; None where the system has none."""
        info = self._call_remote(self.system.info, path)
        etag = info.get("ETag") or info.get("etag")
        return None if not isinstance(etag, str) or etag.startswith("W/") else f"{etag} {info.get('size')}"

    def address(self, path: str) -> str:
        """The full address of a remote file."""
        return str(self.system.unstrip_protocol(path))

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes of a remote file from `start` up to, and without, `end`."""
        return bytes(self._call_remote(self.system.cat_file, path, start, end))

    def exists(self) -> bool:
        return (
            Path(self.root).exists() if self.system is None else bool(self._call_remote(self.system.exists, self.root))
        )

    def is_folder(self) -> bool:
        """Whether the address is an existing folder, even an empty one."""
        return (
            Path(self.root).is_dir() if self.system is None else bool(self._call_remote(self.system.isdir, self.root))
        )

    def matching_paths(self) -> list[str]:
        """The paths that match the address as a pattern, sorted. LogError where it is no pattern."""
        if self.system is not None:
            return sorted(path.rstrip("/") for path in self._call_remote(self.system.glob, self.root))
        path = Path(self.root)
        base = Path(path.anchor) if path.is_absolute() else Path()
        pattern = str(path.relative_to(base)) if path.is_absolute() else str(path)
        try:
            return sorted(str(match) for match in base.glob(pattern))
        except ValueError as error:
            raise LogError(f"`{self.root}` is no pattern: {first_line(error)}", code="format") from None

    def _call_remote(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a remote file system. Its errors, of whatever class, become LogErrors."""
        try:
            return call(*arguments)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise LogError(f"`{arguments[0]}` can't be read: {reason[:200]}", code="read") from None


def place_of(address: str, pattern: bool = False) -> Place:
    """The folder at an address, which need not exist. A local one holds in every working directory.

    Of a `pattern` the signs `*`, `?` and `[` stand for others. LogError where fsspec does not know the scheme.
    """
    if "://" not in address:
        path = expand_home(address)
        if path.is_absolute():
            return Place(str(path))
        here = str(Path.cwd())
        return Place(str(Path(glob.escape(here) if pattern else here, path)))
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(address)
    except (ValueError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise LogError(f"`{address}`: this address can't be opened ({reason})", code="read") from None
    if getattr(system, "protocol", "") in ("file", ("file", "local")):
        return Place(root)
    system.invalidate_cache()  # what was listed before may have changed
    return Place(root, system)


def local_path(path: str | Path) -> Path:
    """The path as a local one. LogError for an address, since logs are written locally and then copied."""
    text = str(path)
    if "://" in text:
        raise LogError(
            f"`{text}`: logs are written to local folders only: write it locally, then copy it", code="invalid"
        )
    return expand_home(text)
