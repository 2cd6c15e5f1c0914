"""SQL over a log: DuckDB with the tables as views, in the contract's types."""

from __future__ import annotations

import itertools
import os
import re
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

import polars as pl

from toolkit.log.contract.problems import LogError, raise_first
from toolkit.log.contract.schema import HIDDEN, SCHEMAS, schema_of
from toolkit.log.read.footers import FAILURES
from toolkit.log.read.log import Log, first_damaged
from toolkit.work_places import scratch_folder

_DUCK = {
    pl.String: "VARCHAR", pl.Boolean: "BOOLEAN", pl.Int16: "SMALLINT", pl.Int32: "INTEGER", pl.Int64: "BIGINT",
    pl.Float32: "FLOAT", pl.Float64: "DOUBLE",
}  # fmt: skip


BESIDES = 2**30
"""Bytes allowed for threads and libraries beside a query."""

ENDS_S = 8.0
"""Seconds to wait for an interrupted query: some steps of DuckDB notice an interrupt late."""


def run_query(log: Log | None, sql: str, files: Mapping[str, Path]) -> pl.DataFrame:
    """Answers one SELECT over views of a log's tables and of Parquet files; see `toolkit.log.query_log`.

    LogError with one line for any error.
    """
    import duckdb

    connection = duckdb.connect(
        ":memory:", config={"memory_limit": f"{_available_memory() >> 21}MiB", "temp_directory": ""}
    )
    try:
        return _run_interruptibly(connection, lambda: _select_answer(connection, log, sql, files))
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.PermissionException) as e:
        raise LogError(f"the SQL fails: {_first_lines(e)}{_quotes_advice(str(e), sql)}", code="invalid") from None
    except duckdb.OutOfMemoryException:  # DuckDB's own words are of settings that no query can change
        limit = f"{_available_memory() >> 21:,} MiB of memory"
        raise LogError(
            f"the SQL fails: it takes more than {limit}, half of what there is: ask for less", code="limit"
        ) from None
    except (duckdb.Error, *FAILURES) as error:  # the SQL's fault, or that of a file that DuckDB does not name
        if log is not None and (damaged := first_damaged(log)) is not None:
            raise damaged.error() from None
        raise LogError(f"the SQL fails: {_first_lines(error)}", code="invalid") from None


def _quotes_advice(message: str, sql: str) -> str:
    """The advice to use single quotes, where SQL takes a word on the right of a comparison for a column."""
    word = re.search(r'Referenced column "([^"]+)" not found', message)
    if word is None or not re.search(rf"(?:=|<>|!=|\bLIKE|\bIN\s*\()\s*\"?{re.escape(word[1])}\b", sql, re.IGNORECASE):
        return ""
    return f"; a text needs single quotes: '{word[1]}'"


def _select_answer(connection: Any, log: Log | None, sql: str, files: Mapping[str, Path]) -> pl.DataFrame:
    import duckdb

    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise LogError(f"the SQL holds {len(statements)} statements: write one SELECT", code="invalid")
    kind = statements[0].type
    if kind not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise LogError(f"the SQL is a statement of the kind {kind.name}: only SELECT is answered", code="invalid")
    checked = [str(path) for path in files.values()]
    for name, path in files.items():
        connection.execute(f"CREATE VIEW {_quote_name(name)} AS SELECT * FROM {_sql_of_files([str(path)])}")
    checked += [] if log is None else _create_views(connection, log, sql)
    connection.execute("SET allowed_paths = $1", [checked])  # it reads what was checked and nothing else
    connection.execute("SET enable_external_access = false")
    return _to_polars(connection.sql(sql))


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limits the process's memory to what it has plus a query's share, since DuckDB's own limit does not cover all that
    its functions take. There is no limit where the system can't tell what the process has.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        most = pages * os.sysconf("SC_PAGE_SIZE") + (_available_memory() >> 1) + BESIDES
        resource.setrlimit(resource.RLIMIT_DATA, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard))
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def check_printable_size(frame: pl.DataFrame) -> None:
    """Raises LogError for an answer too large to print: its text takes some twenty times its memory."""
    if (size := int(frame.estimated_size())) > _available_memory() >> 5:
        raise LogError(
            f"the SQL's answer holds {size >> 20:,} MiB, too many to print: ask for less, or use Python", code="limit"
        )


def _create_views(connection: Any, log: Log, sql: str) -> list[str]:
    """Makes views of the tables that the SQL reads, and returns their files, whose bytes were checked."""
    checked: list[str] = []
    for view, table in _views_of(log).items():
        if view.lower() in sql.lower():  # who reads a view must name it: the others' files are not fetched
            raise_first(log.damages(table))
            files = _files_by_columns(log, table)
            checked += itertools.chain(*files.values())
            raise_first(log.reading_problems(table))
            connection.execute(_view_sql(connection, log, view, table, files))
        else:  # for messages that suggest names; a function that makes up its name, and so reads it, is refused
            raise_first(log.reading_problems(table))
            refusal = f"error('the SQL must name the view {view}') IS NULL"
            connection.execute(f"{_without_rows(log, view, table)} WHERE {refusal}")
    return checked


def _available_memory() -> int:
    """The memory in bytes that a process may have here. A query takes half of it, and spills nothing to disk."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_container_limits()]
    return min(limits if limit == resource.RLIM_INFINITY else [*limits, limit])


def _container_limits() -> Iterator[int]:
    """Yields a container's memory limits, from both versions of Linux's control groups."""
    for path in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max": no limit
            yield int((Path("/sys/fs/cgroup") / path).read_text())


def _views_of(log: Log) -> dict[str, str]:
    """The table behind each view, by view name. Model names keep their letters, digits and `_`.

    Where two models would share a name, the one whose own name it is keeps it, else the first; the others are
    numbered from 2.
    """
    views = {table: table for table in SCHEMAS if table != HIDDEN}
    plain = {model: re.sub(r"[^0-9A-Za-z_]", "_", model) for model in log.hidden_models}
    models = sorted(plain, key=lambda model: (plain[model] != model, model))
    names = _unique_names([f"{HIDDEN}_{plain[model]}" for model in models])
    return views | {name: f"{HIDDEN}/{model}" for name, model in zip(names, models, strict=True)}


def _unique_names(names: Sequence[str]) -> list[str]:
    """The names made distinct for DuckDB, which ignores case: repeats get numbers from `_2` on."""
    lowered = {name.lower() for name in names}
    chosen_names: dict[str, str] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        free = (n for n in numbered if n.lower() not in lowered and n.lower() not in chosen_names)
        chosen = name if name.lower() not in chosen_names else next(free)
        chosen_names[chosen.lower()] = chosen
    return list(chosen_names.values())


Columns = tuple[tuple[str, pl.DataType], ...]


def _files_by_columns(log: Log, table: str) -> dict[Columns, list[str]]:
    """A table's files by their columns and types. A file that DuckDB would read as a pattern is given as a link."""
    home, files = "", dict[Columns, list[str]]()
    for number, footer in enumerate(log.footers(table)):
        path = footer.readable
        if any(sign in path for sign in "*?[\\") or path.startswith("~"):
            home = home or scratch_folder()
            link = Path(home, f"{number}.parquet")
            link.symlink_to(Path(path).absolute())
            path = str(link)
        files.setdefault(tuple(footer.columns.items()), []).append(path)
    return files


def _view_sql(connection: Any, log: Log, view: str, table: str, groups: Mapping[Columns, list[str]]) -> str:
    types, names = _columns_of(log, table)
    held: set[str] = set()
    selects = []
    for present, files in groups.items():
        columns = {name: dtype for name, dtype in present if dtype != pl.Null}
        sources = _duck_column_names(connection, [name for name, _ in present], files)
        chosen = [_column_sql(columns, name, dtype, sources, names[name]) for name, dtype in types.items()]
        held |= {name for name, text in zip(types, chosen, strict=True) if text}
        selects.append(f"SELECT {', '.join(filter(None, chosen))} FROM {_sql_of_files(files)}")
    if not selects:
        return f"{_without_rows(log, view, table)} WHERE false"
    every = ", ".join(("" if name in held else "NULL AS ") + _quote_name(names[name]) for name in types)
    return f"CREATE VIEW {_quote_name(view)} AS SELECT {every} FROM ({' UNION ALL BY NAME '.join(selects)})"


def _without_rows(log: Log, view: str, table: str) -> str:
    types, names = _columns_of(log, table)
    empty = ", ".join(
        f"NULL::{_duck_type(dtype) or 'VARCHAR'} AS {_quote_name(names[n])}" for n, dtype in types.items()
    )
    return f"CREATE VIEW {_quote_name(view)} AS SELECT {empty}"


def _columns_of(log: Log, table: str) -> tuple[dict[str, pl.DataType], dict[str, str]]:
    """(the types of a table's columns, the name of each column in the view)."""
    types = {name: column.dtype for name, column in schema_of(table).items()} | log.columns(table)
    return types, dict(zip(types, _unique_names(list(types)), strict=True))


def _duck_column_names(connection: Any, columns: list[str], files: list[str]) -> dict[str, str]:
    """DuckDB's own names for the columns of some files. It renames columns that differ only in case."""
    if len({name.lower() for name in columns}) == len(columns):
        return {name: name for name in columns}
    renamed = connection.sql(f"SELECT * FROM {_sql_of_files(files)}").columns
    return dict(zip(columns, renamed, strict=True))


def _column_sql(
    present: Mapping[str, pl.DataType], name: str, dtype: pl.DataType, sources: Mapping[str, str], alias: str
) -> str | None:
    """The SQL that selects a column; None for one without values in these files, whose type other files give."""
    kind = _duck_type(dtype)
    if name not in present:
        return None if kind is None else f"CAST(NULL AS {kind}) AS {_quote_name(alias)}"
    source = _quote_name(sources[name])
    plain = present[name] == dtype or kind is None
    return f"{source if plain else f'CAST({source} AS {kind})'} AS {_quote_name(alias)}"


def _sql_of_files(files: list[str]) -> str:
    """The SQL that reads files, and ignores columns in folder names such as `column=value`."""
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
    return f"read_parquet([{listed}], hive_partitioning = false)"


def _duck_type(dtype: Any) -> str | None:
    """DuckDB's name for a type of the contract; None for types of further columns, which stay unchanged."""
    if isinstance(dtype, pl.List):
        inner = _duck_type(dtype.inner)
        return None if inner is None else f"{inner}[]"
    if isinstance(dtype, pl.Array):
        return "FLOAT[]"
    return _DUCK.get(type(dtype))


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _run_interruptibly(connection: Any, work: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """Runs `work` in another thread, so that Ctrl-C is heard although DuckDB does not hear it; returns its answer."""
    import duckdb

    answer: Future[pl.DataFrame] = Future()

    def run() -> None:
        try:
            with connection:  # closed by the thread that uses it, and by no other
                answered = work()
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(answered)

    beside = Thread(target=run, daemon=True)
    beside.start()
    try:
        while not wait([answer], timeout=0.2).done:  # the signal may reach another thread: look up now and then
            pass
        beside.join()  # a thread that is within DuckDB when Python ends aborts the process
        return answer.result()
    except BaseException:  # SIGTERM ends as SystemExit
        until = monotonic() + ENDS_S
        while beside.is_alive() and monotonic() < until:  # an interrupt before a statement begins is not heard
            with suppress(duckdb.ConnectionException):  # closed just now
                connection.interrupt()
            beside.join(0.1)
        raise


def _to_polars(relation: Any) -> pl.DataFrame:
    """DuckDB's answer as a frame, with 128-bit sums as 64-bit ones. LogError for what polars has no type for."""
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    for name, kind in kinds.items():
        if (strange := _unsupported_type(kind)) is not None:
            subject = f"the SQL's column `{name}` has the type {strange}"
            raise LogError(f"{subject}, which is not returned: cast it to VARCHAR", code="unsuitable")
    huge = [name for name, kind in kinds.items() if kind.id == "hugeint"]
    frame = relation.pl()
    for name in huge:
        narrow = frame[name].cast(pl.Int64, strict=False)
        if narrow.null_count() > frame[name].null_count():
            value = frame[name].filter(narrow.is_null() & frame[name].is_not_null())[0]
            raise LogError(
                f"the SQL's column `{name}` holds {value}, beyond 64 bits: cast it to DOUBLE or VARCHAR", code="limit"
            )
        frame = frame.with_columns(narrow)
    return frame


def _unsupported_type(kind: Any) -> str | None:
    """The DuckDB type, or the one inside it, that polars can't hold; None where there is none."""
    if kind.id in ("interval", "union"):
        return kind.id.upper()
    if kind.id not in ("list", "array", "struct", "map"):
        return None
    inner = (_unsupported_type(child) for _, child in kind.children if not isinstance(child, int))
    return next(filter(None, inner), None)


def _first_lines(error: BaseException) -> str:
    """DuckDB's error message without its picture of the statement."""
    lines = str(error).split("\n\nLINE")[0].split("\nLINE")[0].split()
    return " ".join(lines)[:400]
