"""The way from an address to the shards of a log: a folder, a glob of logs, folders or shards, sealed or not."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit.errors import suggest
from toolkit.log.contract.manifest import MANIFEST, Manifest, join_manifests, parse_manifest
from toolkit.log.contract.problems import LogError
from toolkit.log.contract.schema import HIDDEN, SCHEMAS
from toolkit.log.read.places import Place, place_of


@dataclass(frozen=True)
class Shard:
    """One Parquet file of a table. `file` is its name in messages, `path` where its place finds it."""

    table: str
    file: str
    path: str
    place: Place
    rows: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class _LogLocation:
    """The shards and manifest at an address. `located`: the address in a form that holds in every working directory."""

    manifest: Manifest | None
    shards: Mapping[str, tuple[Shard, ...]]
    warnings: tuple[str, ...]
    located: str = ""


def locate_log(address: str) -> _LogLocation:
    """Finds the shards at an address. LogError where there is no log, or its manifest is invalid."""
    try:
        place = place_of(address)
        if any(sign in address for sign in "*?[") and not place.is_folder():
            place = place_of(address, pattern=True)
            parts = _find_glob(place, address)
        else:
            whole = _find_folder(place, "")
            if whole is None:
                raise _no_log(place, address)
            parts = whole
    except OSError as error:
        raise LogError(f"`{address}` can't be read: {error.strerror or error}", code="read") from None
    return replace(parts, located=place.root if place.system is None else address)


def is_shard(name: str) -> bool:
    """Whether a reader takes a file of this name for a shard."""
    return name.endswith(".parquet") and not name.startswith((".", "_"))


def _find_folder(place: Place, prefix: str) -> _LogLocation | None:
    """The log in a folder; None where it has none. `prefix` comes before file names in messages."""
    folders, files = place.list_names()
    data = place.read(MANIFEST)
    if data is not None:
        return _find_sealed(place, parse_manifest(data, f"{prefix}{MANIFEST}"), folders, prefix)
    tables = [name for name in folders if name in SCHEMAS]
    if not tables and (files or not place.is_folder() or any(not f.startswith((".", "_")) for f in folders)):
        return None
    shards = _list_shards(place, folders, prefix)
    return _LogLocation(None, shards, tuple(_strange_folders(place, folders, prefix)))


def _find_sealed(place: Place, manifest: Manifest, folders: list[str], prefix: str) -> _LogLocation:
    shards = {
        table: tuple(
            Shard(table, prefix + e.file, place.path(e.file), place, e.rows, e.sha256)
            for e in sorted(entries, key=lambda e: e.file)
        )
        for table, entries in manifest.tables.items()
    }
    listed = {shard.path for of_table in shards.values() for shard in of_table}
    present = [shard for of_table in _list_shards(place, folders, prefix).values() for shard in of_table]
    if folders or place.system is None:  # some systems, plain http for one, can't list
        missing = sorted(listed - {shard.path for shard in present})
        if missing:
            file = prefix + missing[0].removeprefix(place.path(""))
            raise LogError(
                f"`{file}`: the manifest lists this shard, but it is missing: restore it, or seal again",
                code="not-found",
            )
    others = sorted(shard.file for shard in present if shard.path not in listed)
    warnings = []
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        warnings.append(f"`{others[0]}`{more}: ignored, since the manifest does not list it; to add rows, merge logs")
    return _LogLocation(manifest, {table: files for table, files in shards.items() if files}, tuple(warnings))


def _list_shards(place: Place, folders: Iterable[str], prefix: str) -> dict[str, tuple[Shard, ...]]:
    """The shards in the folders by table, in the order of their names."""
    tables = [name for name in folders if name in SCHEMAS and name != HIDDEN]
    if HIDDEN in folders:
        models = (name for name in place.list_names(HIDDEN)[0] if not name.startswith((".", "_")))
        tables += [f"{HIDDEN}/{model}" for model in models]
    shards = {}
    for table in tables:
        inner, files = place.list_names(*table.split("/"))
        if strange := next(filter(is_shard, inner), None):  # other tools write folders of parts under such names
            raise LogError(
                f"`{prefix}{table}/{strange}` is a folder, not a shard: move its shards up, or remove it", code="format"
            )
        names = [name for name in files if is_shard(name)]
        of_table = tuple(Shard(table, f"{prefix}{table}/{n}", place.path(table, n), place) for n in names)
        for shard in of_table:
            if place.system is None and not Path(shard.path).is_file():  # a pipe would never end
                raise LogError(f"`{shard.file}` is not a file, or leads to none: remove it", code="format")
        if of_table:
            shards[table] = of_table
    return shards


def _strange_folders(place: Place, folders: list[str], prefix: str) -> Iterable[str]:
    for name in folders:
        if name not in SCHEMAS and not name.startswith((".", "_")) and any(map(is_shard, place.list_names(name)[1])):
            yield f"`{prefix}{name}/`: ignored, no table has this name: {suggest(name, SCHEMAS)}"
    if HIDDEN in folders and any(map(is_shard, place.list_names(HIDDEN)[1])):
        yield f"`{prefix}{HIDDEN}/`: shards are ignored here: put them into a folder named after their model"


def _no_log(place: Place, address: str) -> LogError:
    if place.system is None and Path(place.root).is_file():
        return LogError(
            f"`{address}` is a file, and a log is a folder: `thinkback report {address} --out report` reports on it,"
            f" `thinkback import table {address} --out mylog` makes one of it (`import auto` of a known tool's file)",
            code="invalid",
        )
    if not place.exists():
        return LogError(f"`{address}` does not exist", code="not-found")
    tables = ", ".join(SCHEMAS)
    return LogError(
        f"`{address}` is not a log: it holds neither `{MANIFEST}` nor a table's folder ({tables})", code="format"
    )


def _find_glob(place: Place, address: str) -> _LogLocation:
    """The logs, table folders or shards that match a pattern, joined into one log."""
    matches = place.matching_paths()
    if not matches:
        raise LogError(f"`{address}` matches nothing", code="not-found")
    logs: dict[str, list[str] | None] = {}
    for match in matches:
        # a folder above a log may have a table's name
        inner = None if is_shard(match) else _find_folder(replace(place, root=match), "")
        is_log = inner is not None and bool(inner.shards or inner.manifest)
        root, inside = (match, None) if is_log else _split_root(match)
        root = root or ("" if place.system is not None else ".")
        if inside is None:
            logs[root] = None
        elif (wanted := logs.setdefault(root, [])) is not None:
            wanted.append(inside)
    # messages leave out the folder that holds all of them
    levels = zip(*(root.split("/")[:-1] for root in logs), strict=False)
    common = "/".join(names[0] for names in itertools.takewhile(lambda names: len(set(names)) == 1, levels))
    locations = []
    for root, wanted in sorted(logs.items()):
        prefix = root.removeprefix(common).strip("/") + "/" if len(logs) > 1 else ""
        one = _find_folder(replace(place, root=root), prefix)
        if one is not None:
            locations.append(one if wanted is None else _restrict_log(one, root, wanted))
    if not any(location.shards for location in locations):
        raise LogError(f"`{address}` matches no log, no table's folder and no shard", code="not-found")
    return _join_locations(locations, address)


def _split_root(match: str) -> tuple[str, str | None]:
    """Splits a match into (log's folder, table or shard inside it); the second is None for a log's folder itself."""
    parts = match.rstrip("/").split("/")
    for at in range(len(parts) - 1, max(len(parts) - 4, -1), -1):
        if parts[at] in SCHEMAS:
            return "/".join(parts[:at]) or ("/" if match.startswith("/") else ""), "/".join(parts[at:])
    if parts[-1] == MANIFEST:
        return "/".join(parts[:-1]), None
    return match.rstrip("/"), None


def _restrict_log(whole: _LogLocation, root: str, entries: list[str]) -> _LogLocation:
    """The log with only the shards and tables that a pattern named."""
    shards = {}
    for table, of_table in whole.shards.items():
        names = ((shard, f"{table}/{shard.path.rpartition('/')[2]}") for shard in of_table)
        some = tuple(s for s, name in names if any(name == w or name.startswith(f"{w}/") for w in entries))
        if some:
            shards[table] = some
    return _LogLocation(whole.manifest, shards, whole.warnings)


def _join_locations(logs: list[_LogLocation], address: str) -> _LogLocation:
    """Several logs as one. It is sealed if all are, and simulated if any is."""
    shards: dict[str, tuple[Shard, ...]] = {}
    for one in logs:
        for table, of_table in one.shards.items():
            shards[table] = shards.get(table, ()) + of_table
    warnings = tuple(warning for one in logs for warning in one.warnings)
    manifests = [log.manifest for log in logs if log.manifest is not None]
    if len(logs) > 1 and manifests:
        manifests = [join_manifests(manifests, address)]
    return _LogLocation(next(iter(manifests), None), shards, warnings)
