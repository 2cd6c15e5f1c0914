"""`manifest.json`: what a sealed log holds, where it came from, and the hashes of its shards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from toolkit.documents import parse_json
from toolkit.errors import FormatError, LimitError, listed, quote, suggest
from toolkit.log.contract.problems import LogError
from toolkit.log.contract.schema import FORMAT, HIDDEN, SCHEMAS, VERSION, kind_of

MANIFEST = "manifest.json"
MOST_ROWS = 2**63
EXPLORING = (
    "frontier", "frontier_of", "multiplier", "support", "reward", "weights", "penalty", "relevance",
)  # fmt: skip
"""Keys of a policy `retrieve` that rank documents: those by which a pool may have explored."""
BY_RELEVANCE = "relevance"
SEES = ("claims", "verdicts")
"""What extractor and revisor of a pool of checks were shown."""
PROMPT_BILLED, PER_REQUEST = "prompt_billed", "request"
"""The setting of a pool whose samples of one request were billed one prompt, and its value."""
STOPPED, ORDERED = "stopped", "ordered"
"""Settings of a pool: the rule by which a loop ended its traces; whether each goes on from the one before it."""
_KNOWN = {"format", "version", "name", "created", "license", "simulated", "source", "pools", "currency", "tables"}


@dataclass(frozen=True)
class ShardEntry:
    """A shard as the manifest lists it: its file under the log's folder, its number of rows, its content's hash."""

    file: str
    rows: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The content of a log's manifest. `extra` keeps the keys that this version does not know."""

    name: str
    created: str
    tables: Mapping[str, tuple[ShardEntry, ...]]
    license: str | None = None
    simulated: bool = False
    source: Any = None
    pools: Mapping[str, Any] = field(default_factory=dict)
    currency: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def pools_without_prefix(self) -> frozenset[str]:
        """Pools to be replayed whole or not at all: their traces depend on how many there were, as in beam search, or a
        loop ended them by a rule of its own.
        """
        return self.pools_where(lambda pool: pool.get("prefix") is False or pool.get(STOPPED) is not None)

    def pools_where(self, holds: Callable[[Mapping[str, Any]], bool]) -> frozenset[str]:
        """The pools for whose settings something holds."""
        return frozenset(name for name, pool in self.pools.items() if isinstance(pool, dict) and holds(pool))

    def pool_setting(self, pool: str, key: str) -> Any:
        """What the manifest says about a pool under a key (`explore`, `sees`); None where it says nothing."""
        settings = self.pools.get(pool)
        return settings.get(key) if isinstance(settings, dict) else None

    def to_json(self) -> str:
        """The manifest's text, without optional keys that say nothing. LogError where it could not be read again."""
        content: dict[str, Any] = {"format": FORMAT, "version": VERSION, "name": self.name}
        content["created"] = self.created
        optional = {"license": self.license, "simulated": self.simulated or None, "source": self.source}
        optional |= {"currency": self.currency}
        content |= {key: value for key, value in optional.items() if value is not None}
        if self.pools:
            content["pools"] = dict(self.pools)
        content |= self.extra
        content["tables"] = {
            table: [{"file": e.file, "rows": e.rows, "sha256": e.sha256} for e in entries]
            for table, entries in self.tables.items()
        }
        try:
            text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise LogError(
                f"the manifest's `source`, `pools` or further keys are not JSON: {error}", code="invalid"
            ) from None
        parse_manifest(text.encode(), MANIFEST)
        return text


def now() -> str:
    """The present time in UTC, in ISO 8601 to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_manifest(data: bytes, where: str) -> Manifest:
    """Parses a manifest. LogError where the data are none, are damaged, or are of a newer version."""
    try:
        content = parse_json(data.decode("utf-8-sig"), f"`{where}`")
    except (FormatError, LimitError, UnicodeDecodeError) as error:
        why = f"`{where}` is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        raise LogError(f"{why}: restore it, or remove it to read the log as unsealed", code="format") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        name = content.get("format") if isinstance(content, dict) else content
        raise LogError(f"`{where}`: `format` must be `{FORMAT}`, it is {quote(name)}", code="format")
    version = content.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise LogError(f"`{where}`: `version` must be {VERSION}, it is {quote(version)}", code="format")
    if version > VERSION:
        raise LogError(
            f"`{where}`: the log has version {quote(version)}, this program reads up to {VERSION}: upgrade thinkback",
            code="limit",
        )
    tables = content.get("tables")
    if not isinstance(tables, dict):
        raise LogError(f"`{where}`: `tables` must map each table to its shards", code="format")
    created = _typed_value(content, "created", str, "text", where) or ""
    if created and not _is_utc(created):
        raise LogError(
            f"`{where}`: `created` must be a time in UTC, ISO 8601, it is {quote(created)}: write {now()!r}",
            code="format",
        )
    return Manifest(
        name=_typed_value(content, "name", str, "text", where) or "",
        created=created,
        tables={table: _shard_entries(table, listed, where) for table, listed in tables.items()},
        license=_typed_value(content, "license", str, "text", where),
        simulated=_typed_value(content, "simulated", bool, "true or false", where) or False,
        source=content.get("source"),
        pools=_pools(content, where),
        currency=_typed_value(content, "currency", str, "text", where),
        extra={key: value for key, value in content.items() if key not in _KNOWN},
    )


def join_manifests(manifests: Sequence[Manifest], name: str) -> Manifest:
    """Joins the manifests of several logs: licence and pool entries on which all agree, `prefix: false` where any has
    it.

    LogError where they differ in how a pool explored, in what its extractor saw, in how it was billed or in the rule
    that stopped it, for its rows are then of two pools; and where they have two currencies.
    """
    pools: dict[str, dict[str, object]] = {}
    for manifest in manifests:
        for pool, settings in manifest.pools.items():
            before = pools.setdefault(pool, {})
            for key in ("explore", "sees", PROMPT_BILLED, STOPPED):
                if None not in (values := [one.get(key) for one in (before, settings)]) and values[0] != values[1]:
                    raise LogError(
                        f"`pools.{pool}.{key}` is {quote(values[0])} in one log and {quote(values[1])} in another: give"
                        " the pools different names",
                        code="mismatch",
                    )
            whole = {"prefix": False} if False in (before.get("prefix"), settings.get("prefix")) else {}
            pools[pool] = {**settings, **before, **whole}
    currencies = sorted({manifest.currency for manifest in manifests if manifest.currency})
    if len(currencies) > 1:
        raise LogError(
            f"`currency` is {quote(currencies[0])} in one log and {quote(currencies[1])} in another: convert the"
            " column `cost` of one of them",
            code="mismatch",
        )
    licences = sorted({manifest.license for manifest in manifests if manifest.license})
    return Manifest(
        name=name,
        created=max(manifest.created for manifest in manifests),
        tables={},
        license="; ".join(licences) or None,
        simulated=any(manifest.simulated for manifest in manifests),
        source={"joined": [{"name": m.name, "created": m.created, "source": m.source} for m in manifests]},
        pools=pools,
        currency=next(iter(currencies), None),
    )


def _typed_value(content: Mapping[str, Any], key: str, kind: type, words: str, where: str, path: str = "") -> Any:
    """The value of a key, None where it is absent or null. LogError where it is of another kind."""
    value = content.get(key)
    if value is None or type(value) is kind:
        return value
    raise LogError(f"`{where}`: `{path}{key}` must be {words}, it is {quote(value)}", code="format")


def _is_utc(text: str) -> bool:
    try:
        offset = datetime.fromisoformat(text).utcoffset()
    except ValueError:
        return False
    return not offset


def _pools(content: Mapping[str, Any], where: str) -> dict[str, Any]:
    pools = _typed_value(content, "pools", dict, "a map from names of pools to their settings", where) or {}
    for pool in pools:
        settings = _typed_value(pools, pool, dict, "a map of settings", where, "pools.")
        if settings is None:
            raise LogError(
                f"`{where}`: `pools.{pool}` must be a map of settings, it is null: write {{}}", code="format"
            )
        for key in ("prefix", ORDERED):
            _typed_value(settings, key, bool, "true or false", where, f"pools.{pool}.")
        _check_pool(settings, f"`{where}`: `pools.{pool}.")
    return pools


def _check_pool(settings: Mapping[str, Any], place: str) -> None:
    """Checks what a manifest says about a pool: how its rounds explored, and what its checks were shown."""
    explore, sees = settings.get("explore"), settings.get("sees")
    if isinstance(explore, dict):
        for key in explore:
            if key not in EXPLORING:
                raise LogError(f"{place}explore` has the unknown key `{key}`: {suggest(key, EXPLORING)}", code="format")
    elif explore not in (None, BY_RELEVANCE):
        keys = "the keys of the policy `retrieve` by whose scores it explored"
        raise LogError(f"{place}explore` is {quote(explore)}: write `{BY_RELEVANCE}`, or {keys}", code="format")
    if sees not in (None, *SEES):
        raise LogError(f"{place}sees` is {quote(sees)}: write one of {listed(SEES)}", code="format")
    stopped = settings.get(STOPPED)
    if stopped is not None and not (isinstance(stopped, dict) and isinstance(stopped.get("rule"), str)):
        raise LogError(f"{place}{STOPPED}` is {quote(stopped)}: write a table with a `rule`", code="format")
    billed = settings.get(PROMPT_BILLED)
    if billed not in (None, PER_REQUEST):
        raise LogError(f"{place}{PROMPT_BILLED}` is {quote(billed)}: write `{PER_REQUEST}`", code="format")


def _shard_entries(table: str, listed: Any, where: str) -> tuple[ShardEntry, ...]:
    nested = table.count("/") == 1 and kind_of(table) == HIDDEN
    if kind_of(table) not in SCHEMAS or (("/" in table or table == HIDDEN) and not nested):
        raise LogError(f"`{where}`: `tables` lists `{table}`: unknown table", code="unknown")
    if not isinstance(listed, list):
        raise LogError(f"`{where}`: `tables.{table}` must be a list of shards", code="format")
    entries = tuple(_shard_entry(table, shard, where) for shard in listed)
    seen: set[str] = set()
    for entry in entries:
        if entry.file in seen:
            raise LogError(
                f"`{where}`: `tables.{table}` lists `{entry.file}` twice: list each shard once", code="conflict"
            )
        seen.add(entry.file)
    return entries


def _shard_entry(table: str, shard: Any, where: str) -> ShardEntry:
    fields = [shard.get(key) for key in ("file", "rows", "sha256")] if isinstance(shard, dict) else [None]
    if any(field is None for field in fields):
        raise LogError(
            f"`{where}`: each shard of `{table}` needs `file`, `rows` and `sha256`, found {quote(shard)}",
            code="required",
        )
    path = f"tables.{table}."
    file: str = _typed_value(shard, "file", str, "a file's name", where, path)
    rows: int = _typed_value(shard, "rows", int, "a number of rows", where, path)
    sha256: str = _typed_value(shard, "sha256", str, "64 hexadecimal digits", where, path)
    file = file if file.startswith(f"{table}/") else f"{table}/{file}"
    if ".." in file.split("/") or file != f"{table}/{file.rpartition('/')[2]}":
        raise LogError(f"`{where}`: the shard `{shard['file']}` does not lie in the folder `{table}`", code="mismatch")
    if not 0 <= rows < MOST_ROWS:
        raise LogError(
            f"`{where}`: `rows` of the shard `{file}` must be from 0 to 2**63, it is {quote(rows)}", code="format"
        )
    if not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise LogError(
            f"`{where}`: `sha256` of the shard `{file}` must be 64 hexadecimal digits, it is {quote(sha256)}",
            code="format",
        )
    return ShardEntry(file, rows, sha256.lower())
