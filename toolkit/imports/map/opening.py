"""The rows of a mapping from the rows of its files: columns selected, a file joined, lists opened."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from toolkit.errors import first_line
from toolkit.imports.files.literals import has_type, parse_lists, type_instance
from toolkit.imports.files.paths import fields_of, parse_expression
from toolkit.imports.map.expressions import SourceRows, columns_read
from toolkit.imports.map.mapping import ROW_ORDER, ImportMapping, JoinedFile, OpenedList, Value
from toolkit.imports.rows.json_files import DOCUMENT, RowPath
from toolkit.imports.rows.source_table import NamedColumns, SourceTable
from toolkit.imports.rows.sources import PLACES, SourceRules
from toolkit.log import schema_of

ELEMENT = "element"


@dataclass(frozen=True)
class KeyedRows:
    """The file that `join` names: its rows, and their keys."""

    rows: SourceRows
    keys: pl.DataFrame


def read_joined_rows(plan: ImportMapping, join: JoinedFile, table: SourceTable) -> KeyedRows:
    """Reads the joined file's keys. ThinkbackError where two rows have the same key."""
    rows = SourceRows(table.frame, table.numbers, plan.file, others=table.others)
    keys = _join_keys(rows, join, list(join.on), join.file)
    if keys.is_duplicated().any():
        raise rows.error(f"`{join.file}` holds several rows of one {', '.join(join.on)}: keep one")
    return KeyedRows(rows, keys)


def opened_rows(plan: ImportMapping, table: SourceTable, other: KeyedRows | None) -> SourceRows:
    """The rows of files, or of a part of them, with the joined file and with lists opened, before `where`."""
    if plan.join is not None and other is not None:
        table = _join_rows(plan, plan.join, table, other)
    rows = SourceRows(table.frame, table.numbers, plan.file, others=table.others)
    for number, together in enumerate(plan.explode, 1):
        rows = opened_lists(rows, together, ELEMENT if number == 1 else f"{ELEMENT}_{number}")
    return rows


def _join_keys(rows: SourceRows, join: JoinedFile, values: Sequence[str], side: str) -> pl.DataFrame:
    for value in values:
        if value not in rows.frame.columns and value in join.on and join.on[value] == value:
            raise rows.error(f"`join.on` names `{value}`, which {side} lacks")
    return pl.DataFrame([rows.compute("join.on", value).alias(f"{number}") for number, value in enumerate(values)])


def _keys_as_text(rows: SourceRows, keys: pl.DataFrame, values: Sequence[str], others: pl.DataFrame) -> pl.DataFrame:
    """The keys as text, in the file's own spelling where the other side's keys are text."""
    return keys.with_columns(
        rows.compute_typed("join.on", value, pl.String()).alias(name)
        for name, value in zip(keys.columns, values, strict=True)
        if others[name].dtype == pl.String and keys[name].dtype != pl.String
    )


def _join_rows(plan: ImportMapping, join: JoinedFile, table: SourceTable, other: KeyedRows) -> SourceTable:
    rows = SourceRows(table.frame, table.numbers, plan.file)
    source_keys = _join_keys(rows, join, list(join.on.values()), "the source")
    added = other.rows.frame.drop([key for key, value in join.on.items() if key == value])
    names = {name: f"{name}_right" if name in table.frame.columns else name for name in added.columns}
    left = _keys_as_text(rows, source_keys, list(join.on.values()), other.keys)
    right = _keys_as_text(other.rows, other.keys, list(join.on), source_keys)
    try:
        place = right.with_row_index("__place")
        matches = left.join(place, on=source_keys.columns, how="left", maintain_order="left")["__place"]
        joined = table.frame.hstack(added[matches].rename(names, strict=False))
    except pl.exceptions.PolarsError as error:
        raise rows.error(f"`{join.file}` can't be joined: {first_line(error)}") from None
    numbers = {names[name]: kind for name, kind in other.rows.numbers.items() if name in names}
    return SourceTable(joined, {**table.numbers, **numbers}, others=(*table.others, *other.rows.others))


def opened_lists(rows: SourceRows, together: Sequence[OpenedList], element: str) -> SourceRows:
    """One row for each element of list columns that are opened together. A row with empty or null lists gives none."""
    frame, numbers = rows.frame, dict(rows.numbers)
    names = [one.name for one in together]
    for one in together:
        written = [name for name in columns_read([one.path], rows.frame.columns) if name in rows.numbers]
        given = rows.compute("explode", one.path, written)
        plain = rows.compute("explode", one.path).dtype if written else given.dtype
        column, kind = parse_lists(given) if given.dtype == pl.String else (given, plain)
        column = column.arr.to_list() if isinstance(column.dtype, pl.Array) else column
        if not isinstance(column.dtype, pl.List) or not isinstance(kind, pl.List | pl.Array):
            raise rows.error(f"`explode` names `{one.path}`, which holds {given.dtype} and no lists")
        numbers.pop(one.name, None)
        if column.dtype != kind:
            numbers[one.name] = type_instance(kind.inner)
        frame = frame.with_columns(column.alias(one.name))
    lengths = frame.select(pl.col(name).list.len() for name in names)
    most, least = lengths.max_horizontal(), lengths.min_horizontal()
    if (most != least).any():
        row = (most != least).arg_max() or 0
        sizes = ", ".join(f"`{name}` {lengths[name][row]}" for name in names)
        raise rows.error(f"the lists to explode differ in length {rows.row_place(row)}: {sizes}")
    opened = list(names)
    if element not in frame.columns:
        frame = frame.with_columns(pl.int_ranges(0, most.fill_null(0).cast(pl.Int64)).alias(element))
        opened.append(element)
    frame = frame.filter(most.fill_null(0) > 0)
    # A list that is null beside others that are not: nothing recorded for any of the samples.
    full = [pl.col(name).fill_null(pl.lit(None).repeat_by(most.filter(most > 0))) for name in opened]
    return replace(rows, frame=frame.with_columns(full).explode(opened), numbers=numbers)


def source_rules(plan: ImportMapping) -> SourceRules:
    """The rules for reading files that a mapping implies."""
    fields = tuple(dict.fromkeys(name for value in every_value(plan) for name in fields_of(value, DOCUMENT)))
    records = RowPath(plan.records, fields) if plan.records is not None else None
    joined = plan.join.file if plan.join is not None else None
    keys = plan.join.on if plan.join is not None else ()
    names = {*columns_read([*every_value(plan), *keys]), *PLACES, "source_run"}
    names |= {name.removesuffix("_right") for name in names}
    columns = NamedColumns(frozenset(names), bool(tables_in_row_order(plan)))
    return SourceRules(text_columns(plan), records, plan.path, joined, columns=columns)


def list_place_notes(plan: ImportMapping) -> list[str]:
    """A note for each list place in brackets: it counts from 0, although SQL counts from 1."""
    paths = dict.fromkeys(
        use.path.text
        for value in every_value(plan)
        if isinstance(value, str)
        for use in parse_expression(value).places.values()
        if len(use.path.steps) == 1 and isinstance(use.path.steps[0], int) and use.path.steps[0] > 0
    )
    return [f"`{path}` counts from 0: `{path.rpartition('[')[0]}[0]` is the first" for path in paths]


def every_value(plan: ImportMapping) -> Iterator[Value]:
    """Yields every value of a mapping that may be an expression."""
    yield plan.where or ""
    yield from (one.path for together in plan.explode for one in together)
    yield from (plan.join.on.values() if plan.join is not None else ())
    yield from _row_values(plan)


def text_columns(plan: ImportMapping) -> frozenset[str]:
    """The source's columns that become text columns of the log: their numbers keep their spelling."""
    maps = [("examples", plan.examples.columns), *(("traces", table.columns) for table in plan.traces)]
    maps += [("traces", table.parent) for table in plan.traces]
    maps += [(name, table.columns) for name, tables in plan.rows.items() for table in tables]
    contract = {table: schema_of(table) for table in ("examples", "traces", *plan.rows)}
    values = [
        value for of, table in maps for name, value in table.items() if has_type(contract[of][name].dtype, pl.String)
    ]
    values += [verifier["verifier"] for table in plan.traces for verifier in table.verifiers]
    names = columns_read(values)
    return frozenset(names) | {name.removesuffix("_right") for name in names}


def needed_columns(plan: ImportMapping, columns: Collection[str]) -> list[str]:
    """Those of the available columns that examples and traces need, and the columns of a row's place."""
    needed = {*columns_read(_row_values(plan), columns), *PLACES}
    return [name for name in columns if name in needed]


def _row_values(plan: ImportMapping) -> Iterator[Value]:
    rows = [table for tables in plan.rows.values() for table in tables]
    for table in (plan.examples, *plan.traces, *rows):
        yield from (*table.columns.values(), *table.extra.values())
    for selected in (*plan.traces, *rows):
        yield selected.where or ""
    for traces in plan.traces:
        yield from (*traces.parent.values(), *traces.features.values())
        yield from (value for verifier in traces.verifiers for value in verifier.values())


def is_constant(value: Value) -> bool:
    """Whether a mapping's value is the same in every row."""
    return not isinstance(value, str) or re.fullmatch(r"\s*'[^']*'\s*", value) is not None


def tables_in_row_order(plan: ImportMapping) -> list[int]:
    """The numbers of the `[traces]` tables whose samples are numbered by row order."""
    return [index for index, table in enumerate(plan.traces) if table.columns["sample_index"] == ROW_ORDER]
