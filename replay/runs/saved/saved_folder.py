"""The folder of a saved result: its files with their hashes, each compared before it is first read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.runs.saved.provenance import json_safe
from toolkit import documents
from toolkit.errors import DamagedError, FormatError, NotFoundError, quote
from toolkit.log.read.footers import hash_file
from toolkit.settings import as_kind

FORMAT, VERSION = "thinkback result", 4
RECORD, RUN = "result.json", "run.json"
WITHIN_REPORT = "result"
"""The folder of a report that holds its result."""


@dataclass(frozen=True, eq=False)
class SavedFolder:
    """The folder of a saved result. `hashes`: SHA-256 of each file by name; `owner`: what keeps a temporary folder;
    `address`: that by which it was read, empty of a temporary one.
    """

    path: Path
    hashes: Mapping[str, str]
    owner: object = field(default=None, repr=False)
    address: str = ""
    _sound: dict[str, tuple[int, int, int]] = field(default_factory=dict, repr=False)

    def has_file(self, name: str) -> bool:
        """Whether the folder has a file of this name."""
        return name in self.hashes

    def verified_path(self, name: str) -> Path:
        """The path of a file, once its hash is that of the file that was saved.

        ThinkbackError where it is gone, or another one by now.
        """
        path = self.path / name
        try:
            info = path.stat()
            state = info.st_ino, info.st_size, info.st_mtime_ns
            if self._sound.get(name) == state:
                return path
            same = hash_file(path) == self.hashes[name]
        except (OSError, KeyError):
            raise NotFoundError(f"`{path}` of the saved result is gone: load the result from where it is") from None
        if not same:
            raise DamagedError(
                f"`{path}` is not the file that was saved: it is damaged, or another result took its place; "
                "load that, or replay again"
            )
        self._sound[name] = state
        return path


def is_saved_result(folder: Path) -> bool:
    """Whether a folder holds a saved result, of whatever version."""
    try:
        return f'"{FORMAT}"' in (folder / RECORD).read_text(encoding="utf-8")[:200]
    except (OSError, UnicodeDecodeError):
        return False


def write_sealed(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the record of a result, with the hashes of the files that lie in the folder, and its own."""
    paths = (file for file in sorted(folder.iterdir()) if file.suffix == ".parquet" or file.name == RUN)
    files = {file.name: hash_file(file) for file in paths}
    write_hashed(folder, {**record, "files": files})


def write_hashed(folder: Path, record: Any) -> None:
    """Write the record of a result with its hash."""
    body = _record_text(record)
    head = f'{{"format": {json.dumps(FORMAT)}, "version": {VERSION}, "sha256": "{_text_sha256(body)}",\n"record": '
    (folder / RECORD).write_text(head + body + "}\n", encoding="utf-8")


def read_sealed(address: str | Path, owner: object = None) -> tuple[SavedFolder, Mapping[str, Any]]:
    """The folder of a saved result, and its record; a temporary folder lasts as long as `owner`.

    Raises ThinkbackError where there is none, it is damaged, or it was written by another version.
    """
    folder = documents.expand_home(address).resolve()
    if not (folder / RECORD).exists() and is_saved_result(folder / WITHIN_REPORT):
        folder /= WITHIN_REPORT
    if not (folder / RECORD).is_file():
        why = "no such folder" if not folder.exists() else f"it holds no `{RECORD}`"
        raise FormatError(f"`{address}` is no saved result: {why}; `thinkback replay … --out DIR` writes one")
    where = f"`{folder / RECORD}`"
    document = documents.parse_json(documents.read_text(folder / RECORD, where), where)
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        raise FormatError(f"{where} is no record of a result: replay again")
    version = document.get("version")
    if version != VERSION:
        older = isinstance(version, int) and version < VERSION
        how = "replay again" if older else "upgrade thinkback"
        raise FormatError(f"{where} has version {quote(version)}, this program reads version {VERSION}: {how}")
    record = document.get("record")
    if not isinstance(record, Mapping) or _text_sha256(_record_text(record)) != document.get("sha256"):
        raise DamagedError(f"{where} is damaged: it is not what was saved; replay again")
    hashes = as_kind(Mapping[str, str], record.get("files"))
    if hashes is None or RUN not in hashes or any(Path(name).name != name for name in hashes):
        raise FormatError(f"{where}: `files` is no table of the hashes of its files by name: replay again")
    for name in hashes:
        if not (folder / name).is_file():
            raise DamagedError(f"the result in `{folder}` is damaged: `{name}` is missing; replay again")
    return SavedFolder(folder, hashes, owner, str(address) if owner is None else ""), record


def _record_text(record: Any) -> str:
    return json.dumps(json_safe(record), ensure_ascii=False, allow_nan=False)


def _text_sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
