"""What a column of somebody's table may be: by its name, which `roles.toml` lists, and by contents that fit.

Neither is enough alone. A name whose contents do not fit is passed over, and so are contents without a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl

from toolkit.documents import parse_toml, read_text
from toolkit.imports.map.expressions import TRUTHS
from toolkit.settings import from_table, setting

STRONG, WEAK = 0, 1
_SPLITS = {"train", "training", "dev", "val", "valid", "validation", "test", "eval", "evaluation", "holdout", "heldout"}
_TIMES = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
_TINY = 1e-6


@dataclass(frozen=True)
class Role:
    """A role that a column may have, from `roles.toml`. `key`: its key in mappings; `per`: `example` or `sample`."""

    key: str = setting()
    names: tuple[str, ...] = setting()
    holds: str = setting()
    per: str = setting(choices=("example", "sample"))
    weak: tuple[str, ...] = setting(())
    ends: tuple[str, ...] = setting(())

    def name_fit(self, path: str) -> tuple[int, int] | None:
        """How well a column's name fits: its strength and its place among the role's names; None where it doesn't."""
        whole = plain_name(path)
        last = plain_name(re.split(r"[.\]\['\"]+", path.rstrip("]'\""))[-1])
        for strength, names in ((STRONG, self.names), (WEAK, self.weak)):
            known = [plain_name(name) for name in names]
            for name in (whole, last):
                if name in known:
                    return strength, known.index(name)
        return (STRONG, len(self.names)) if last.endswith(self.ends or ("\0",)) else None

    def fits(self, values: pl.Series) -> bool:
        """Whether a column's contents are of the kind that the role holds."""
        known = values.drop_nulls()
        return known.len() > 0 and _HOLDS[self.holds](known)


@lru_cache(2**16)
def plain_name(text: str) -> str:
    """The name in lower case with `_` between its words, also between words that only capitals part."""
    return re.sub(r"[\W_]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()).strip("_")


def is_scalar(values: pl.Series) -> bool:
    """Whether a column holds texts, numbers or booleans."""
    return values.dtype in (pl.String, pl.Boolean) or values.dtype.is_numeric()


def _is_number(values: pl.Series) -> bool:
    return values.dtype.is_numeric() and bool(values.cast(pl.Float64).is_finite().all())


def _is_count(values: pl.Series) -> bool:
    """Whether a column holds whole numbers from 0 on; -1 may stand for unknown."""
    if not _is_number(values):
        return False
    real = values.cast(pl.Float64)
    return bool(((real == real.floor()) & (real >= -1) & (real < 2**31)).all())


def _is_amount(values: pl.Series) -> bool:
    return _is_number(values) and bool((values >= 0).all())


def _is_loss(values: pl.Series) -> bool:
    return _is_number(values) and bool((values <= _TINY).all())


def _are_numbers(values: pl.Series) -> bool:
    return isinstance(values.dtype, pl.List | pl.Array) and values.dtype.inner.is_numeric()


def _is_verdict(values: pl.Series) -> bool:
    if not is_scalar(values):
        return False
    words = values.unique().cast(pl.String).str.strip_chars().str.to_lowercase()
    return bool(words.is_in(list(TRUTHS)).all())


def _is_time(values: pl.Series) -> bool:
    if values.dtype.is_temporal():
        return True
    return _is_number(values) if values.dtype != pl.String else bool(values.str.contains(_TIMES).all())


def _is_split(values: pl.Series) -> bool:
    return values.dtype == pl.String and set(values.unique().str.to_lowercase()) <= _SPLITS


_HOLDS: Mapping[str, Callable[[pl.Series], bool]] = {
    "text": lambda values: values.dtype == pl.String,
    "name": is_scalar, "value": is_scalar, "count": _is_count, "amount": _is_amount, "number": _is_number,
    "score": lambda values: values.dtype == pl.Boolean or _is_number(values),
    "numbers": _are_numbers, "verdict": _is_verdict, "split": _is_split, "time": _is_time, "loss": _is_loss,
    "losses": lambda values: _are_numbers(values) and _is_loss(values.explode(empty_as_null=True).drop_nulls()),
    "texts": lambda values: isinstance(values.dtype, pl.List) and values.dtype.inner == pl.String,
}  # fmt: skip


def _read_roles() -> dict[str, Role]:
    path = Path(__file__).with_name("roles.toml")
    tables = parse_toml(read_text(path, "roles.toml"), "roles.toml")
    return {name: from_table(Role, table, name) for name, table in tables.items()}


ROLES: dict[str, Role] = _read_roles()
"""The roles, by name."""


def name_fits_role(name: str, *roles: str) -> bool:
    """Whether a name fits one of some roles."""
    return any(ROLES[role].name_fit(name) is not None for role in roles)
