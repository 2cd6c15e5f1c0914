"""Computing the columns of a mapping from the rows of a source, and taking them into the contract's types.

A value is a column's name, an expression of polars' SQL, or a constant. Whatever can't be computed or would lose
something in the conversion is one line that names the mapping's key, the source's file and row, and the value.

A column that is null throughout, as an optional path that no row has, is of any type. The types of such columns are
found from the innermost parts of an expression outwards, so that many are no more work than few: each part fixes the
types of those of its columns of which no smaller part needed any.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from toolkit.errors import InvalidError, ThinkbackError, first_line, suggest
from toolkit.imports.files.literals import has_type, parse_lists
from toolkit.imports.files.paths import Expression, PathError, follow_path, parse_expression, reduce_lists
from toolkit.imports.map.mapping import Value
from toolkit.imports.rows.source_table import SourceTable
from toolkit.log import schema_of
from toolkit.log.contract.schema import COUNTS

TRUTHS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0", "pass", "passed", "correct", "right"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0", "fail", "failed", "incorrect", "wrong"), False),
}
_LOW, _HIGH = -(2**31), 2**31 - 1

# Parts of polars' expressions that look at other rows.
_OF_OTHERS = {"Agg", "Over", "Window", "Len", "Explode", "Implode", "Correlation", "Shift", "CumSum", "CumCount"}

_ON_TEXTS = re.compile(r"not supported for dtypes.*`str`|dtypes.*\bstr\b.*not allowed|with .String. datatypes")
_OF_TEXTS = "; read a text as a number with CAST(column AS DOUBLE), as a time with STRPTIME(column, '%+')"

# Columns that an import adds: the row's number, its example's id in the log, and (a prefix) further columns.
ROW, EXAMPLE, EXTRA = "__row", "__example", "__extra "


@dataclass(frozen=True)
class SourceRows(SourceTable):
    """Rows of a source, from which a mapping's columns are computed. `mapping`: the mapping file, named in errors.

    `partial`: other examples' rows come.
    """

    mapping: str
    partial: bool = False

    def filter_rows(self, key: str, condition: Value | None) -> SourceRows:
        """Only the rows for which an expression is true. Null counts as not true."""
        if condition is None:
            return self
        mask = self.compute(key, condition)
        if mask.dtype != pl.Boolean:
            raise self.error(f"`{key}` gives {mask.dtype}, not true or false")
        return replace(self, frame=self.frame.filter(mask))

    def compute(self, key: str, value: Value, texts: Collection[str] = ()) -> pl.Series:
        """The value of a mapping's expression in each row, in the type that it has.

        The numbers of the columns `texts` are texts, as the files write them.
        """
        if isinstance(value, str) and value in self.frame.columns:
            return self.with_numbers([value], texts)[value].alias(key)
        if not isinstance(value, str):
            return pl.repeat(value, self.frame.height, eager=True).alias(key)
        parsed = parse_expression(value)
        try:
            names = parsed.root_columns()
        except (pl.exceptions.PolarsError, BaseExceptionGroup) as error:
            raise self.error(f"`{key} = {value!r}` is not an expression: {first_line(error)}") from None
        self._check_columns(key, value, parsed, names)
        try:
            frame, whole = self._with_nested_values(parsed, texts, names)
            result = pl.sql_expr(parsed.sql_of_reduced_lists(whole))
            return _evaluate(frame, result.alias(key))
        except PathError as error:
            raise self.error(f"`{key} = {value!r}` {error}") from None
        except (pl.exceptions.PolarsError, BaseExceptionGroup) as error:
            reason = parsed.with_user_paths(first_line(error))
            hint = _OF_TEXTS if _ON_TEXTS.search(reason) else ""
            raise self.error(f"`{key} = {value!r}` can't be computed: {reason}{hint}") from None

    def depends_on_row_alone(self, value: Value) -> bool:
        """Whether each value of an expression depends on its own row alone; true also where it cannot be computed."""
        if not isinstance(value, str) or value in self.frame.columns:
            return True
        parsed = parse_expression(value)
        one = replace(self, frame=self.frame.head(1))
        try:
            result = pl.sql_expr(
                parsed.sql_of_reduced_lists(one._with_nested_values(parsed, (), parsed.root_columns())[1])
            )
        except (PathError, pl.exceptions.PolarsError, BaseExceptionGroup):
            return True
        return _OF_OTHERS.isdisjoint(re.findall(r'"(\w+)"', result.meta.serialize(format="json")))

    def _check_columns(self, key: str, value: Value, parsed: Expression, names: list[str]) -> None:
        """Raises ThinkbackError for a column that an expression needs and the source lacks."""
        optional = {use.path.column for use in parsed.places.values() if use.path.optional}
        missing = [name for name in names if name not in self.frame.columns and name not in optional]
        if not missing:
            return
        known = [name for name in (*self.frame.columns, *self.others) if not name.startswith(("source_", "__"))]
        hint = f" (a constant is written \"'{value}'\")" if value == missing[0] else ""
        raise self.error(
            f"`{key}` needs the column `{missing[0]}`, which the source lacks{hint}; {suggest(missing[0], known)}"
        )

    def _with_nested_values(
        self, parsed: Expression, texts: Collection[str], names: list[str]
    ) -> tuple[pl.DataFrame, set[str]]:
        """The rows with the value of each path as a column, and the places of the paths whose lists were reduced."""
        frame = self.with_numbers(names, texts)
        whole = set()
        placed = []
        for name, use in parsed.places.items():
            values = follow_path(frame, use.path)
            shrunk = reduce_lists(values, use.call) if use.call else None
            if shrunk is not None:
                whole.add(name)
            placed.append((values if shrunk is None else shrunk).alias(name))
        return frame.with_columns(placed), whole

    def compute_typed(self, key: str, value: Value, dtype: pl.DataType, required: bool = False) -> pl.Series:
        """The value of an expression in each row, in a type of the contract. With `required`, null is an error."""
        raw = self._compute_texts(key, value) if has_type(dtype, pl.String) else self.compute(key, value)
        column = raw if raw.dtype == dtype else self.converted(key, raw, dtype)
        if required and column.null_count():
            row, joined = first_true_index(column.is_null()), f"{value}_right"
            other = f'; the joined file\'s is `{joined}`: `{key} = "{joined}"`' if joined in self.frame.columns else ""
            raise self.error(
                f"`{key}` is null {self.row_place(row)}; it may not be: filter with `where`, or use COALESCE(…){other}"
            )
        return column

    def _compute_texts(self, key: str, value: Value) -> pl.Series:
        """The texts of an expression. Numbers that it only passes on are written as in the files."""
        if value in self.numbers:
            return self.compute(key, value, [str(value)])
        parsed = parse_expression(value) if isinstance(value, str) else Expression(())
        names = [name for name in columns_read([value], self.frame.columns) if name in self.numbers]
        if not names:
            return self.compute(key, value)
        passed = parsed.unchanged_columns(_passed_columns(parsed.sql)).intersection(names)
        computed = self.compute(key, value) if len(passed) < len(names) else None
        if computed is not None and computed.dtype.is_numeric():
            # A number that is one of the columns' own: `NULLIF(answer, -1)`.
            texts_of, plain = (self._with_nested_values(parsed, texts, names)[0] for texts in (names, ()))
            columns = [*names, *parsed.places]
            alike = [pl.when(computed == plain[name]).then(texts_of[name]) for name in columns
                     if plain[name].dtype.is_numeric() and texts_of[name].dtype == pl.String]  # fmt: skip
            return pl.select(pl.coalesce(*alike, computed.cast(pl.String)).alias(key)).to_series()
        if passed:
            with contextlib.suppress(ThinkbackError):  # numbers are needed after all
                texts = self.compute(key, value, passed)
                if has_type(texts.dtype, pl.String):
                    return texts
        return self.compute(key, value) if computed is None else computed

    def converted(self, key: str, raw: pl.Series, dtype: pl.DataType, what: str = "", advice: str = "") -> pl.Series:
        """Converts computed values to a type of the contract. ThinkbackError for the first that is not `what`."""
        if raw.dtype == pl.Null:
            return raw.cast(dtype)
        column, what = _convert_or_none(raw, dtype), what or _WORDS[type(dtype)]
        if column is None:
            raise self.error(f"`{key}` gives {raw.dtype} {self.row_place(0)}, which is not {what}{advice}")
        lost = column.is_null() & raw.is_not_null() & ~_is_nan(raw)
        if lost.any():
            row = first_true_index(lost)
            raise self.error(f"`{key}` is `{raw[row]}` {self.row_place(row)}, which is not {what}{advice}")
        return column

    def check_finite(self, key: str, values: pl.Series) -> pl.Series:
        """Returns values, or lists of them, unchanged. ThinkbackError where one is NaN or infinite: a log has none."""
        listed = isinstance(values.dtype, pl.List) and values.dtype.inner in (pl.Float32, pl.Float64)
        if not listed and not values.dtype.is_float():
            return values
        # A list's sum is finite exactly when its items are.
        plain = values.cast(pl.List(pl.Float64)).list.sum() if listed else values
        odd = plain.is_not_null() & ~plain.is_finite()
        if odd.any():
            row = first_true_index(odd)
            what = "holds NaN or infinity" if listed else f"is {values[row]}"
            hint = "CASE WHEN … THEN column END" if listed else "NULLIF(column, CAST('nan' AS DOUBLE))"
            raise self.error(
                f"`{key}` {what} {self.row_place(row)}; where that means that nothing was recorded, write {hint}"
            )
        return values

    def log_column(self, table: str, name: str, value: Value, place: str = "") -> pl.Series:
        """A column of a log's table in its type, checked for values that no log may hold. Errors call it `place`."""
        key, column = f"{place or table}.{name}", schema_of(table)[name]
        values = self.check_finite(key, self.compute_typed(key, value, column.dtype, required=not column.nullable))
        if name in COUNTS and (values < 0).any():
            row = first_true_index((values < 0).fill_null(False))
            hint = (
                "number the samples 0, 1, 2 …"
                if name == "sample_index"
                else f'where that means that nothing was recorded, write `{name} = "NULLIF({value}, {values[row]})"`'
            )
            raise self.error(f"`{key}` is {values[row]} {self.row_place(row)}, and can't be negative; {hint}")
        return values.alias(name)

    def row_place(self, row: int) -> str:
        """The words for a row in an error: `in `file`, row 3`."""
        if row >= self.frame.height:
            return "in the source"
        file, number = self.frame["source_file"][row], self.frame["source_row"][row]
        return f"in `{file}`, row {number}"

    def error(self, message: str) -> ThinkbackError:
        """An error that begins with the mapping's name."""
        return InvalidError(f"mapping `{self.mapping}`: {message}")


def columns_read(values: Iterable[Value], names: Collection[str] = ()) -> list[str]:
    """The source columns that values of a mapping read. `names`: the existing columns, where they are known."""
    columns: dict[str, None] = {}
    for value in values:
        if not isinstance(value, str):
            continue
        if value not in names:
            # What is not an expression is a column's name, or an error when the value is computed.
            with contextlib.suppress(pl.exceptions.PolarsError, BaseExceptionGroup):
                columns |= dict.fromkeys(parse_expression(value).root_columns())
        columns[value] = None
    return list(columns)


def source_verdicts(rows: SourceRows, key: str, value: Value) -> pl.Series:
    """The source's verdicts as Boolean, from true/false, 0/1, yes/no, pass/fail or correct/wrong in any case."""
    advice = ": write a condition (`--set 'traces.correct=score > 0.5'`), or map graded correctness to `traces.credit`"
    return rows.converted(key, rows.compute(key, value), pl.Boolean(), "a verdict", advice)


def first_true_index(true: pl.Series) -> int:
    """The index of the first true entry."""
    return true.arg_max() or 0


def _convert_or_none(raw: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """The values in a type of the contract, null for one that does not fit; None where the whole column does not."""
    if isinstance(dtype, pl.List):
        listed = parse_lists(raw)[0] if raw.dtype == pl.String else raw
        with contextlib.suppress(pl.exceptions.PolarsError):
            return listed.cast(dtype) if isinstance(listed.dtype, pl.List | pl.Array) else None
        return None
    if isinstance(raw.dtype, pl.Duration) and dtype.is_float():
        return (raw.dt.total_nanoseconds() / 1e9).cast(dtype)  # a count of seconds
    if raw.dtype.is_nested() or (raw.dtype.is_temporal() and dtype != pl.String):
        return None
    if dtype == pl.String:
        return raw.cast(pl.String)
    if dtype == pl.Boolean:
        words = raw.cast(pl.String).str.strip_chars().str.to_lowercase()
        return words.replace_strict(TRUTHS, default=None, return_dtype=pl.Boolean)
    plain = raw.str.strip_chars() if raw.dtype == pl.String else raw
    if not dtype.is_integer():
        return plain.cast(dtype, strict=False)
    if raw.dtype == pl.Boolean:
        return None
    real = pl.col("x").cast(pl.Float64, strict=False)
    integer = pl.when((real.floor() == real) & real.is_between(_LOW, _HIGH)).then(real)
    return plain.to_frame("x").select(integer.cast(dtype)).to_series().alias(raw.name)


def _is_nan(values: pl.Series) -> pl.Series:
    """Whether a value is NaN that stands for a missing integer, as pandas writes it."""
    return values.is_nan().fill_null(False) if values.dtype.is_float() else pl.repeat(False, len(values), eager=True)


_WORDS: dict[type, str] = {
    pl.String: "a string",
    pl.Int32: "an integer of 32 bits",
    pl.Float32: "a number",
    pl.Float64: "a number",
    pl.Boolean: "true or false",
    pl.List: "a list",
}


_PASSING = {
    "CASE_EXPR", "OPERATOR_CAST", "OPERATOR_COALESCE", "ARRAY_EXTRACT", "STRUCT_EXTRACT",
    "concat", "concat_ws", "||", "trim", "upper", "lower", "replace", "split_part",
}  # fmt: skip
"""Kinds of SQL nodes and functions that join the texts of their arguments without reading them as numbers."""


def _passed_columns(sql: str) -> set[str]:
    """The columns that an SQL expression only passes on or joins; empty where DuckDB cannot parse it."""
    import duckdb

    with duckdb.connect() as connection:
        (parsed,) = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT {sql}"]).fetchall()
    tree = json.loads(parsed[0])
    columns: dict[bool, set[str]] = {True: set(), False: set()}
    if not tree["error"]:
        _collect_columns(tree["statements"][0]["node"]["select_list"], True, columns)
    return columns[True] - columns[False]


def _collect_columns(node: Any, passed: bool, columns: dict[bool, set[str]]) -> None:
    """Adds the columns below an SQL node to `columns`: those passed on unchanged (True), or computed with (False)."""
    if isinstance(node, list):
        for item in node:
            _collect_columns(item, passed, columns)
    elif isinstance(node, dict):
        if "column_names" in node:
            columns[passed].add(node["column_names"][0])
        passing = "class" not in node or not _PASSING.isdisjoint((node["type"], node.get("function_name")))
        for key, part in node.items():
            _collect_columns(part, passed and passing and key != "when_expr", columns)


Types = Mapping[str, pl.DataType]

_LIKELY: tuple[pl.DataType, ...] = (
    pl.String(), pl.Float64(), pl.Boolean(), pl.List(pl.Null()), pl.Datetime(), pl.Null(),
)  # fmt: skip
_TOGETHER = 4
"""Columns whose types one part of an expression may ask for at once."""


def _evaluate(frame: pl.DataFrame, result: pl.Expr) -> pl.Series:
    """Evaluates an expression. Raises polars' error where that fails whatever types the empty columns are given."""
    try:
        return _compute_with_types(frame, result, {})
    except pl.exceptions.PolarsError:
        empty = {root for root in result.meta.root_names() if frame[root].dtype == pl.Null}
        if not empty:
            raise
        types = _empty_column_types(frame.head(1), result, empty)
        with contextlib.suppress(pl.exceptions.PolarsError):
            return _compute_with_types(frame, result, types)
        raise


def _compute_with_types(frame: pl.DataFrame, result: pl.Expr, types: Types) -> pl.Series:
    typed = frame.with_columns(pl.col(name).cast(kind) for name, kind in types.items())
    return typed.with_columns(result.alias("__made"))["__made"].alias(result.meta.output_name())


def _empty_column_types(frame: pl.DataFrame, result: pl.Expr, empty: set[str]) -> Types:
    """The types that empty columns need for the parts of an expression to work, as far as such types exist."""
    types: dict[str, pl.DataType] = {}
    for part in _subexpressions(result):
        names = [name for name in dict.fromkeys(part.meta.root_names()) if name in empty]
        if not names or _can_compute(frame, part, types):
            continue
        free = [name for name in names if name not in types] or names
        for kinds in itertools.product(_LIKELY, repeat=len(free)) if len(free) <= _TOGETHER else ():
            tried = types | dict(zip(free, kinds, strict=True))
            if _can_compute(frame, part, tried):
                types = tried
                break
    return types


def _subexpressions(expr: pl.Expr) -> Iterator[pl.Expr]:
    """Yields the parts of an expression, the innermost first, and the expression itself."""
    for part in expr.meta.pop():
        yield from _subexpressions(part)
    yield expr


def _can_compute(frame: pl.DataFrame, part: pl.Expr, types: Types) -> bool:
    try:
        _compute_with_types(frame, part, types)
    except pl.exceptions.PolarsError:
        return False
    return True
