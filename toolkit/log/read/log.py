"""Reading a log: lazy polars frames with the contract's types, whatever tool wrote the shards."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import polars as pl

from toolkit.errors import suggest
from toolkit.log.contract.conversion import can_convert, cast, is_lossy, state_type, type_name, wrong_type
from toolkit.log.contract.manifest import Manifest
from toolkit.log.contract.problems import LogError, Problem, backticked, raise_first
from toolkit.log.contract.schema import F64, HIDDEN, check_table, kind_of, schema_of, target_type
from toolkit.log.read.byte_ranges import scan_ranges
from toolkit.log.read.footers import FAILURES, Footer, first_sentence, hash_file, read_footer
from toolkit.log.read.integrity import ByteChecks
from toolkit.log.read.locating import Shard, locate_log
from toolkit.log.read.threads import map_in_threads
from toolkit.printable import printable

LOGGER = logging.getLogger("thinkback")
ROW = "__row"  # place of a row in the whole table: shards by name, rows within


@dataclass(frozen=True)
class _TableTypes:
    """The types in which a table's columns are read, and the columns on which its shards disagree."""

    types: Mapping[str, pl.DataType]
    conflicts: Mapping[str, Problem]


@dataclass(frozen=True)
class Log:
    """A log that was opened. Only its footers are read before a scan is collected.

    `address` is as it was given; `located` is where it was found, from whatever working directory, empty for rows in
    memory.
    """

    address: str
    manifest: Manifest | None
    shards: Mapping[str, tuple[Shard, ...]]
    warnings: tuple[str, ...]
    located: str = field(default="", repr=False, compare=False)
    types_of_whole: Mapping[str, _TableTypes] = field(default_factory=dict, repr=False, compare=False)
    """By table the types in the log of which this one is a part."""
    _footers: dict[str, Footer] = field(default_factory=dict, repr=False, compare=False)
    _types: dict[str, _TableTypes] = field(default_factory=dict, repr=False, compare=False)
    _checked: dict[tuple[str, str], Problem | None] = field(default_factory=dict, repr=False, compare=False)
    sound_bytes: ByteChecks = field(default_factory=ByteChecks, repr=False, compare=False)

    def __repr__(self) -> str:
        marks = [*["simulated"] * self.simulated, *([] if self.sealed else ["unsealed"])]
        marked = f" ({', '.join(marks)})" if marks else ""
        where = f" at {self.address}" if self.address != self.name else ""
        return printable(f"Log {self.name}{marked}{where}: {', '.join(sorted(self.shards)) or 'no tables'}")

    def __getstate__(self) -> dict[str, object]:
        """The state without cached footers and checks, since files may have changed where the pickle is opened."""
        return self.__dict__ | {"_footers": {}, "_types": {}, "_checked": {}, "sound_bytes": ByteChecks()}

    def _repr_html_(self) -> str:
        from toolkit.show import SIMULATED, table_of

        rows = pl.DataFrame([{"table": table, "rows": self.rows(table)} for table in sorted(self.shards)])
        return table_of(rows, f"The log {self.name}", notes=[SIMULATED] if self.simulated else []).html()

    @property
    def name(self) -> str:
        """The log's name in its manifest, else the last part of its address."""
        if self.manifest is not None and self.manifest.name:
            return self.manifest.name
        return self.address.rstrip("/").rpartition("/")[2] or self.address

    @property
    def sealed(self) -> bool:
        """Whether the log has a manifest that lists its shards."""
        return self.manifest is not None

    @property
    def simulated(self) -> bool:
        """Whether the manifest says that the rows come from a simulation."""
        return self.manifest is not None and self.manifest.simulated

    @property
    def hidden_models(self) -> tuple[str, ...]:
        return tuple(sorted(t.partition("/")[2] for t in self.shards if kind_of(t) == HIDDEN))

    def has(self, table: str) -> bool:
        """Whether the log has a shard of the table."""
        return table in self.shards

    def rows(self, table: str) -> int:
        """The number of rows of a table, by the manifest, or by the footers of its shards where there is none."""
        check_table(table)
        counts = (self.footer(s).rows if s.rows is None else s.rows for s in self.shards.get(table, ()))
        return sum(counts)

    def columns(self, table: str) -> dict[str, pl.DataType]:
        """The columns of a table's shards, with the types in which they are read."""
        check_table(table)
        raise_first(self._common_types(table).conflicts.values())
        return dict(self._common_types(table).types)

    def within(self, low: str, high: str) -> Log:
        """The log with the shards that have examples from one id up to another, for another process, which opens and
        checks these alone. The types of columns are those of the whole.
        """
        shards, types = {}, {}
        for table, parts in self.shards.items():
            if kind_of(table) != HIDDEN:
                types[table] = self._common_types(table)
                runs = self._runs_of_shards(table, (low, high))
                parts = tuple(shard for _, run in runs for shard in run)
            shards[table] = parts
        return replace(self, shards=shards, types_of_whole=types)

    def scan(
        self, table: str, columns: Sequence[str] | None = None, *, rows: bool = False,
        within: tuple[str, str] | None = None,
    ) -> pl.LazyFrame:  # fmt: skip
        """A lazy frame of a table in the contract's types, with `columns` in the order asked, by default all.

        Columns of the contract that no shard holds are null columns, further columns travel along, a missing
        table is empty. With `rows`, `__row` is each row's place in the table. `within`: only the examples from one id
        up to another, `example_id` being among the columns. LogError where the bytes are not those that were sealed,
        and with file, column and row where a value can't be converted; row order is unspecified.
        """
        check_table(table)
        resolved = self._common_types(table)
        contract = {name: column.dtype for name, column in schema_of(table).items()} | dict(resolved.types)
        chosen = [columns] if isinstance(columns, str) else columns
        wanted = list(contract) if chosen is None else list(dict.fromkeys(chosen))
        for name in wanted:
            if name not in contract:
                raise LogError(f"table `{table}` has no column `{name}`: {suggest(name, contract)}", code="unknown")
        types = {name: contract[name] for name in wanted}
        raise_first(self.damages(table, wanted))
        raise_first(self.reading_problems(table, wanted))
        frames = [self._scan_run(run, types, start, rows) for start, run in self._runs_of_shards(table, within)]
        if not frames:
            return pl.LazyFrame(schema=types | ({ROW: pl.UInt64()} if rows else {}))
        frame = pl.concat(frames, how="vertical") if len(frames) > 1 else frames[0]
        low, high = map(pl.lit, within or ("", ""))
        return frame if within is None else frame.filter(pl.col("example_id").is_between(low, high))

    def scans_by_shard(self, table: str) -> list[pl.LazyFrame]:
        """Lazy frames of each shard of a table with its own columns, in the types in which `scan` reads the whole."""
        columns = list(self.columns(table))  # the types of all shards, which the logs below share
        shards = self.shards.get(table, ())
        return [replace(self, shards={table: (shard,)}).scan(table, columns) for shard in shards]

    def damages(self, table: str, columns: Sequence[str] | None = None) -> Iterator[Problem]:
        """Yields what is wrong with a table's bytes, shard by shard. Each is checked once; `scan` does so before it
        reads.

        Those of a sealed shard must be the ones that were sealed. Of an unsealed one the pages of the columns named, by
        default of all, must agree with their checksums, where they have any.
        """
        yield from self.sound_bytes.problems(self.footers(table), columns)

    def reading_problems(self, table: str, columns: Sequence[str] | None = None) -> Iterator[Problem]:
        """Yields missing columns, wrong types and values that reading would lose, shard by shard, each read once."""
        resolved = self._common_types(table)
        names = list(dict.fromkeys([*schema_of(table), *resolved.types] if columns is None else columns))
        yield from (resolved.conflicts[name] for name in names if name in resolved.conflicts)
        as_read: dict[int, list[str]] = {}  # of shards with the same columns, those that need a look
        for shard, footer in self._shards(table):
            present = footer.columns
            if id(present) not in as_read:
                as_read[id(present)] = [n for n in names if present.get(n) != resolved.types.get(n) or n not in present]
            for name in as_read[id(present)]:
                key = (shard.path, name)
                if key not in self._checked:
                    self._checked[key] = self._conversion_problem(shard, name, present.get(name))
                if (problem := self._checked[key]) is not None:
                    yield problem

    def footer(self, shard: Shard) -> Footer:
        """The footer of a shard, which is read once. LogError where the file is missing, truncated or damaged."""
        if shard.path not in self._footers:
            self._footers[shard.path] = read_footer(shard)
        return self._footers[shard.path]

    def footers(self, table: str) -> list[Footer]:
        """The footers of a table's shards. Many are read in parallel."""
        shards = self.shards.get(table, ())
        due = {shard.path: shard for shard in shards if shard.path not in self._footers}
        self._footers.update(zip(due, map_in_threads(read_footer, list(due.values())), strict=True))
        return [self.footer(shard) for shard in shards]

    def _shards(self, table: str) -> Iterator[tuple[Shard, Footer]]:
        return zip(self.shards.get(table, ()), self.footers(table), strict=True)

    def locate(self, table: str, row: int) -> tuple[str, int]:
        """The (file, row in it) of row `row` of a table, as `__row` counts."""
        start = 0
        for shard in self.shards[table]:
            count = self.footer(shard).rows
            if row < start + count:
                return shard.file, row - start
            start += count
        raise IndexError(row)

    def pools_without_prefix(self) -> frozenset[str]:
        """The pools that the manifest marks with `prefix: false`, or as stopped by a loop."""
        return frozenset() if self.manifest is None else self.manifest.pools_without_prefix()

    def digest(self) -> str:
        """A SHA-256 that identifies the log's content, made of its shards' hashes whatever their order and names."""
        hashes = (
            f"{table}\0{shard.sha256 or hash_file(self.footer(shard).path)}\n"
            for table, of_table in self.shards.items()
            for shard in of_table
        )
        return hashlib.sha256("".join(sorted(hashes)).encode()).hexdigest()

    def _common_types(self, table: str) -> _TableTypes:
        """The common type of each column over all shards, and the columns without one."""
        if table in self.types_of_whole:
            return self.types_of_whole[table]
        if table not in self._types:
            types: dict[str, dict[pl.DataType, Shard]] = {}
            for shard, footer in self._shards(table):
                for name, dtype in footer.columns.items():
                    types.setdefault(name, {}).setdefault(dtype, shard)
            wanted = {
                name: {dtype: self._target_type(shard, name, dtype) for dtype, shard in shards.items()}
                for name, shards in types.items()
            }
            self._types[table] = _resolve_types(types, wanted)
        return self._types[table]

    def _target_type(self, shard: Shard, name: str, kind: pl.DataType) -> pl.DataType:
        """The type in which a column of one shard is to be read. A state has the length of the first one."""
        if name != "state" or kind_of(shard.table) != HIDDEN:
            return target_type(shard.table, name, kind)
        first = self._scan_unconverted([shard], None).select(pl.col(name).list.len()).drop_nulls().head(1)
        return state_type(kind, lambda: next(iter(collect(first, self)[name]), None))

    def _runs_of_shards(self, table: str, within: tuple[str, str] | None = None) -> Iterator[tuple[int, list[Shard]]]:
        """Yields runs of neighbouring shards with equal columns and types, each with the number of its first row. Of
        shards that have no example `within` two ids there are none.
        """

        def alike(one: tuple[Shard, Footer]) -> tuple[object, ...]:
            low, high = (within and one[1].ids) or within or ("", "")
            outside = within is not None and (high < within[0] or within[1] < low)
            return list(one[1].columns.items()), one[1].fetches_byte_ranges, outside

        start = 0
        for (*_, outside), run in itertools.groupby(self._shards(table), key=alike):
            shards, footers = zip(*run, strict=True)
            if not outside:
                yield start, list(shards)
            start += sum(footer.rows for footer in footers)

    def _scan_run(self, run: list[Shard], types: dict[str, pl.DataType], start: int, rows: bool) -> pl.LazyFrame:
        present = self.footer(run[0]).columns
        frame = self._scan_unconverted(run, ROW if rows else None)
        chosen = [
            cast(pl.col(name), present[name], dtype) if name in present else pl.lit(None, dtype).alias(name)
            for name, dtype in types.items()
        ]
        if rows:
            chosen.append(pl.col(ROW).cast(pl.UInt64) + start)
        if not set(types) & set(present):  # keep the height: polars would make one row of literals alone
            return frame.with_columns(chosen).select([*types, *([ROW] if rows else [])])
        return frame.select(chosen)

    def _scan_unconverted(self, run: Sequence[Shard], row: str | None) -> pl.LazyFrame:
        """A lazy frame of shards with equal columns, unconverted; of remote ones in byte ranges where possible."""
        footers = [self.footer(shard) for shard in run]
        if all(footer.fetches_byte_ranges for footer in footers):
            known = [(shard, footer.metadata) for shard, footer in zip(run, footers, strict=True)]
            return scan_ranges(known, footers[0].columns, row)
        files = [footer.readable for footer in footers]
        if run[0].place.owner is None:
            return pl.scan_parquet(files, glob=False, row_index_name=row)
        with contextlib.ExitStack() as closing:  # polars keeps handles of its own, so a scan outlives the folder
            opened: list[IO[bytes]] = [closing.enter_context(Path(file).open("rb")) for file in files]
            return pl.scan_parquet(opened, glob=False, row_index_name=row)

    def _conversion_problem(self, shard: Shard, name: str, kind: pl.DataType | None) -> Problem | None:
        column = schema_of(shard.table).get(name)
        if kind is None:
            if column is None or column.may_be_absent:
                return None
            message = f"is missing: {shard.table} need it ({type_name(column.dtype)})"
            return Problem(shard.file, name, None, message, "missing-column")
        target = self._common_types(shard.table).types[name]
        footer = self.footer(shard)
        if kind == pl.Null and column is not None and not column.nullable and footer.rows:
            return Problem(shard.file, name, 0, f"is null, expected {type_name(target)} in every row", "null")
        if not can_convert(kind, target):
            message = f"{wrong_type(kind, target)}: write it with that type"
            return Problem(shard.file, name, 0 if footer.rows else None, message, "type")
        flagged = is_lossy(pl.col(name), kind, target)
        if flagged is None:
            return None
        if (damaged := next(self.sound_bytes.problems([footer], [name]), None)) is not None:
            return damaged
        for row, value in collect(
            self._scan_unconverted([shard], ROW).filter(flagged).select(ROW, name).head(1), self
        ).rows():
            message = (
                f"{backticked(value)} does not fit {type_name(target)} without loss: correct it or drop the column"
            )
            return Problem(shard.file, name, row, message, "lossy")
        return None


def _resolve_types(
    types_of: Mapping[str, Mapping[pl.DataType, Shard]], wanted_of: Mapping[str, Mapping[pl.DataType, pl.DataType]]
) -> _TableTypes:
    """The common type of each column, from those that shards have (`types_of`) and are to be read in (`wanted_of`)."""
    types: dict[str, pl.DataType] = {}
    conflicts: dict[str, Problem] = {}
    for name, shards in types_of.items():
        here = {dtype: shard for dtype, shard in shards.items() if dtype != pl.Null}
        wanted = list(dict.fromkeys(wanted_of[name][dtype] for dtype in here or shards))
        types[name] = wanted[0]
        if len(wanted) == 1:
            continue
        if all(dtype.is_numeric() for dtype in wanted):
            types[name] = pl.Int64() if all(dtype.is_integer() for dtype in wanted) else F64
        elif all(can_convert(dtype, pl.String()) for dtype in wanted):
            types[name] = pl.String()
        elif len({dtype.size for dtype in wanted if isinstance(dtype, pl.Array)}) == 1 and all(map(_is_state, wanted)):
            types[name] = next(dtype for dtype in wanted if dtype.inner == pl.Float32)  # type: ignore[attr-defined]
        else:
            (first, one), (second, other) = list(here.items())[:2]
            message = f"holds {type_name(second)}, but `{one.file}` holds {type_name(first)}: write it with one type"
            conflicts[name] = Problem(other.file, name, 0, message, "type")
    return _TableTypes(types, conflicts)


def _is_state(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Array) and dtype.inner in (pl.Float16, pl.Float32)


def open_log(address: str | Path) -> Log:
    """Opens a log: a folder, a glob of logs, table folders or shards, or any address that fsspec knows.

    Each ignored file, such as a shard that the manifest does not list, is a warning of the logger `thinkback`. LogError
    where there is none, its manifest is damaged or newer, or a shard that it lists is missing.
    """
    text = str(address)
    place = locate_log(text)
    for warning in place.warnings:
        LOGGER.warning(warning)
    return Log(text, place.manifest, place.shards, place.warnings, place.located)


def collect(frame: pl.LazyFrame, log: Log | None = None) -> pl.DataFrame:
    """Collects a scan with the streaming engine. A damaged shard becomes a LogError of one line that names it."""
    try:
        return frame.collect(engine="streaming")
    except FAILURES as error:
        damaged = None if log is None else first_damaged(log)
        if damaged is not None:
            raise damaged.error() from None
        raise LogError(f"the log can't be read: {first_sentence(error)}", code="read") from None


def first_damaged(log: Log) -> Problem | None:
    """The problem of the first shard with unreadable pages, found by reading all; None where all can be read."""
    for of_table in log.shards.values():
        for shard in of_table:
            try:
                problem = log.sound_bytes.read_all(log.footer(shard))
            except LogError as error:
                problem = error.problem
            if problem is not None:
                return problem
    return None
