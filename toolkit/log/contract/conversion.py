"""Reading without loss what other tools write: any width of number, any kind of string or list.

A float64 is rounded to the contract's float32, as any writer of the contract would have; what counts as loss
is a fraction or an overflow in a column of integers, an integer that the float type can't hold exactly, and a
finite number that would become infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

_RANGES: dict[type[pl.DataType], tuple[int, int]] = {
    pl.Int16: (-(2**15), 2**15 - 1), pl.Int32: (-(2**31), 2**31 - 1), pl.Int64: (-(2**63), 2**63 - 1),
}  # fmt: skip
_EXACT: dict[type[pl.DataType], int] = {pl.Float32: 2**24, pl.Float64: 2**53}
_BITS: dict[type[pl.DataType], int] = {
    pl.Int8: 7, pl.UInt8: 8, pl.Int16: 15, pl.UInt16: 16, pl.Int32: 31, pl.UInt32: 32,
}  # fmt: skip
_FLOAT32_MAX = 3.4028235677973366e38  # halfway from the largest float32 to the next: above it rounds to infinity


def can_convert(kind: pl.DataType, target: pl.DataType) -> bool:
    """Whether a type can be converted to `target`, so that only single values can fail."""
    if kind in (target, pl.Null):
        return True
    if isinstance(target, pl.Array):
        fits = isinstance(kind, pl.List) or (isinstance(kind, pl.Array) and kind.size == target.size)
        return fits and can_convert(_item_type(kind), _item_type(target))
    if isinstance(target, pl.List):
        return isinstance(kind, (pl.Array, pl.List)) and can_convert(_item_type(kind), _item_type(target))
    if target == pl.String:
        return isinstance(kind, (pl.Categorical, pl.Enum))
    return target.is_numeric() and kind.is_numeric()


def cast(values: pl.Expr, kind: pl.DataType, target: pl.DataType) -> pl.Expr:
    """An expression that converts values to `target`. It holds for values that `is_lossy` does not flag."""
    if kind == target:
        return values
    if isinstance(kind, pl.List) and isinstance(target, pl.Array):
        return values.cast(pl.List(_item_type(target))).list.to_array(target.size)
    if isinstance(kind, pl.Array) and isinstance(target, pl.List):
        values = values.cast(pl.List(_item_type(kind)))
    return values.cast(target)


def is_lossy(values: pl.Expr, kind: pl.DataType, target: pl.DataType) -> pl.Expr | None:
    """An expression that is true where a value would be lost in conversion; None where none would."""
    if isinstance(target, (pl.List, pl.Array)) and isinstance(kind, (pl.Array, pl.List)):
        return _lossy_list(values, kind, target)
    if kind == target or not (kind.is_numeric() and target.is_numeric()):
        return None
    if target.is_integer():
        return _lossy_integer(values, kind, target)
    if target == pl.Float32 and kind == pl.Float64:
        return values.is_finite() & (values.abs() >= _FLOAT32_MAX)
    if kind.is_integer():
        bound = _EXACT.get(type(target), 2**11)
        # Beyond the bound some integers are still exact, but no count or second is so large.
        return ((values > bound) | (values < -bound)) if _can_exceed(kind, bound) else None
    return None


def _lossy_list(values: pl.Expr, kind: pl.DataType, target: pl.DataType) -> pl.Expr | None:
    listed = values.cast(pl.List(_item_type(kind))) if isinstance(kind, pl.Array) else values
    item = is_lossy(pl.element(), _item_type(kind), _item_type(target))
    inside = None if item is None else listed.list.eval(item).list.any().fill_null(False)
    if isinstance(kind, pl.List) and isinstance(target, pl.Array):
        uneven = listed.list.len() != target.size
        return uneven if inside is None else uneven | inside
    return inside


def not_finite(values: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    """An expression that is true where a value holds NaN or infinity, however deep; None where its type cannot."""
    if kind.is_float():
        return ~values.is_finite()
    if isinstance(kind, pl.Struct):
        fields = ((values.struct.field(field.name), field.dtype) for field in kind.fields)
        flagged = [flag for value, dtype in fields if (flag := not_finite(value, _type_instance(dtype))) is not None]
        return pl.any_horizontal(flagged) if flagged else None
    if not isinstance(kind, (pl.List, pl.Array)):
        return None
    inner = _item_type(kind)
    listed = values.arr.to_list() if isinstance(kind, pl.Array) else values
    if inner == pl.Float32:  # a sum is finite exactly when its parts are: float64 does not overflow here
        return ~listed.cast(pl.List(pl.Float64)).list.sum().is_finite()
    item = not_finite(pl.element(), inner)
    return None if item is None else listed.list.eval(item).list.any().fill_null(False)


def state_type(kind: pl.DataType, length: Callable[[], int | None]) -> pl.DataType:
    """The type in which a hidden state is read. float16 stays, other numbers become float32.

    `length` finds the first state's length, which all must have, where the type does not say it.
    """
    if not isinstance(kind, (pl.List, pl.Array)):
        return pl.Array(pl.Float32(), 1)
    inner = pl.Float16() if kind.inner == pl.Float16 else pl.Float32()
    return pl.Array(inner, kind.size if isinstance(kind, pl.Array) else length() or 1)


def wrong_type(kind: pl.DataType, target: pl.DataType) -> str:
    """The words for a column whose type cannot be converted."""
    return f"holds {type_name(kind)}, expected {type_name(target)}"


def type_name(dtype: pl.DataType) -> str:
    """A type in Arrow's words, as the contract writes them: `list<string>`, `int32`."""
    if isinstance(dtype, pl.List):
        return f"list<{type_name(_item_type(dtype))}>"
    if isinstance(dtype, pl.Array):
        return f"fixed_size_list<{type_name(_item_type(dtype))}, {dtype.size}>"
    names = {pl.String: "string", pl.Boolean: "bool", pl.Null: "null", pl.Float16: "float16"}
    return names.get(type(dtype), str(dtype).lower())


def _lossy_integer(values: pl.Expr, kind: pl.DataType, target: pl.DataType) -> pl.Expr | None:
    low, high = _RANGES[type(target)]
    if kind.is_integer():
        return ((values > high) | (values < low)) if _can_exceed(kind, high) else None
    number = values.cast(pl.Float64) if kind.is_float() else values
    fraction = (number != number.floor()) if kind.is_float() else (values % 1 != 0)
    flagged = fraction | (number > high) | (number < low)
    return (flagged | ~number.is_finite()) if kind.is_float() else flagged


def _can_exceed(kind: pl.DataType, bound: int) -> bool:
    """Whether an integer type can hold numbers above `bound`."""
    return 2 ** _BITS.get(type(kind), 128) > bound


def _item_type(dtype: pl.DataType) -> pl.DataType:
    return _type_instance(dtype.inner)  # type: ignore[attr-defined]


def _type_instance(dtype: Any) -> pl.DataType:
    """The polars type as an instance; a nested type may name its parts by class."""
    return dtype() if isinstance(dtype, type) else dtype
