"""The columns that somebody's rows have, nested ones among them, and which roles each may take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from toolkit.errors import AmbiguousError, FormatError
from toolkit.imports.files.literals import parse_lists
from toolkit.imports.guessing.roles import ROLES, WEAK, is_scalar, name_fits_role, plain_name
from toolkit.imports.map.expressions import SourceRows

PLACES = ("source_file", "source_path", "source_row")
_PLAIN = re.compile(r"[^\W\d]\w*")
_FIELDS = 60
"""Fields of an object from which its keys are data, and not names."""
_QUOTED = 3


@dataclass(frozen=True)
class Column:
    """One column of a user's rows. `value`: its expression in a mapping; `name`: what its role is guessed by; `opened`:
    whether it is inside an opened list.
    """

    value: str
    name: str
    values: pl.Series
    opened: bool = True

    @property
    def last_name(self) -> str:
        """The last name in its path, as a role's name is written."""
        return plain_name(self.name.rpartition(".")[2])


@dataclass(frozen=True)
class Columns:
    """The columns of a user's rows. `group`: each row's example, numbered; `assigned`: columns that have a role."""

    every: tuple[Column, ...]
    height: int
    group: pl.Series | None = None
    assigned: frozenset[str] = frozenset()

    def without(self, columns: Iterable[Column | None]) -> Columns:
        """The columns, with some marked as having a role, so that they are not guessed again."""
        return replace(self, assigned=self.assigned | {column.value for column in columns if column is not None})

    def for_role(
        self, *names: str, weak: bool = True, scalar: bool = False, opened: bool | None = None
    ) -> list[Column]:
        """The columns without a role that fit one of the roles `names`, the best first. Weak names count only alone.

        A column of what has one value for each example has to have one.
        """
        places = []
        for order, name in enumerate(names):
            role = ROLES[name]
            for column in self.every:
                place = role.name_fit(column.name) if column.value not in self.assigned else None
                if place is None or (place[0] == WEAK and not weak) or (scalar and not is_scalar(column.values)):
                    continue
                if (opened is not None and column.opened is not opened) or not role.fits(column.values):
                    continue
                if name == "text" and ROLES["sample_index"].name_fit(column.name) and column.values.dtype != pl.String:
                    continue
                if role.per == "sample" or self.is_constant(column.values):
                    places.append(((place[0], order, place[1]), column))
        places.sort(key=lambda pair: pair[0])
        best = [column for place, column in places if place[0] == places[0][0][0]]
        return list({column.value: column for column in best}.values())

    def is_constant(self, values: pl.Series) -> bool:
        """Whether a column has at most one value in each example. Nulls do not count."""
        if self.group is None:
            return True
        pairs = pl.DataFrame({"group": self.group, "value": as_texts(values)}).drop_nulls()
        return pairs.unique().height == pairs["group"].n_unique()

    def varies(self, values: pl.Series) -> bool:
        """Whether a column has several values in some example."""
        return not self.is_constant(values)


def columns_of(rows: SourceRows, opened: Sequence[str] = ()) -> tuple[Column, ...]:
    """The columns of rows and the fields of objects. `opened`: the opened lists; without any, all columns count so."""
    columns: list[Column] = []
    for name in rows.frame.columns:
        if name in PLACES or name.startswith("__") or name == "element":
            continue
        values = rows.with_numbers([name])[name]
        value = name
        for column in _leaf_columns(value, _quoted_name(name), values):
            columns.append(replace(column, opened=not opened or name in opened))
    return tuple(columns)


def _quoted_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _leaf_columns(value: str, path: str, values: pl.Series) -> Iterator[Column]:
    """Yields a column, or the fields inside its objects."""
    if isinstance(values.dtype, pl.Struct):
        fields = values.struct.fields if len(values.struct.fields) <= _FIELDS else []
        for field in fields:
            step = f".{field}" if _PLAIN.fullmatch(field) else f"['{field.replace(chr(39), chr(39) * 2)}']"
            yield from _leaf_columns(path + step, path + step, values.struct.field(field))
        return
    if values.dtype == pl.Null:
        return
    yield Column(value, path.replace('"', ""), values)
    if isinstance(values.dtype, pl.List) and not values.dtype.inner.is_nested():
        sizes = values.drop_nulls().list.len()
        if sizes.len() and (sizes == 2).all():
            first, second = (values.list.get(place, null_on_oob=True) for place in range(2))
            numbers = second.cast(pl.Float64, strict=False)
            if values.dtype.inner.is_numeric() and name_fits_role(path, "text", "answer"):
                yield from (
                    Column(f"{path}[{place}]", f"{path}.pred", one) for place, one in enumerate((first, second))
                )
            elif numbers.null_count() == values.null_count() and values.dtype.inner == pl.String and numbers.min() >= 0:  # type: ignore[operator]
                yield Column(f"{path}[0]", path, first)
                yield Column(f"{path}[1]", f"{path}.tokens", numbers)


_PAIRED, _SOME = 5, 0.1
"""Times as often as the other number of a pair the answer equals gold; the least share of rows in which it does."""


def resolve_number_pairs(columns: Columns, given: str | None) -> Columns:
    """The columns. Of a pair of numbers the one that is `given` as the answer, or equals gold, is the answer, and the
    other counts tokens; where neither does, either may be the answer.
    """
    known, golds = {one.value: one for one in columns.every}, columns.for_role("gold", scalar=True)

    def share_right(one: Column) -> float:
        if given is not None or not golds:
            return float(one.value == given)
        same = one.values.cast(pl.Float64) == golds[0].values.cast(pl.Float64, strict=False)
        return float(same.mean() or 0.0)  # type: ignore[arg-type]

    def pick_answer_of_pair(one: Column) -> Column:
        path = one.value[:-3]
        other = known.get(path + {"[0]": "[1]", "[1]": "[0]"}.get(one.value[-3:], "\0"))
        if other is None or one.name != other.name or not ROLES["completion_tokens"].fits(one.values):
            return one
        counts = share_right(other) > max(_PAIRED * share_right(one), _SOME)
        return replace(one, name=f"{path}.tokens") if counts else one

    return replace(columns, every=tuple(map(pick_answer_of_pair, columns.every)))


def as_lists(values: pl.Series) -> pl.Series | None:
    """The column as lists, also from JSON texts of lists; None where it holds none."""
    if isinstance(values.dtype, pl.List):
        return values
    if values.dtype != pl.String or not values.drop_nulls().len():
        return None
    known = values.drop_nulls().str.strip_chars()
    if not (known.str.starts_with("[") & known.str.ends_with("]")).all():
        return None
    parsed = parse_lists(values)[0]
    return parsed if isinstance(parsed.dtype, pl.List) and parsed.null_count() == values.null_count() else None


def check_python_lists(column: Column) -> None:
    """Raises FormatError where texts are lists as Python prints them, which no table reader can parse."""
    known = column.values.drop_nulls().head(100).str.strip_chars() if column.values.dtype == pl.String else None
    if (
        known is not None
        and known.len()
        and known.str.contains(r"^\[\s*['\"].*\]$").all()
        and as_lists(column.values) is None
    ):
        raise FormatError(
            f"`{column.value}` holds lists as Python prints them (`{known[0][:40]}…`): save the table as Parquet or"
            " JSON lines, or its lists with json.dumps"
        )


def agreeing_column(columns: Sequence[Column], what: str, key: str, text: str = "{value}") -> Column | None:
    """The first of the columns that fit a role, if all have equal values; AmbiguousError where two differ.

    `text`: how a setting of `key` is written with a column's value.
    """
    distinct: list[Column] = []
    for column in columns:
        if not any(as_texts(column.values).equals(as_texts(other.values)) for other in distinct):
            distinct.append(column)
    if len(distinct) > 1:
        names = " and ".join(f"`{one.value}`" for one in distinct[:_QUOTED])
        options = " or ".join(setting_text(key, text.format(value=one.value)) for one in distinct[:_QUOTED])
        raise AmbiguousError(f"{names} may each be {what}, and they differ: write {options}")
    return distinct[0] if distinct else None


def as_texts(values: pl.Series) -> pl.Series:
    """The column as texts; values that are not scalar become hashes."""
    return values.cast(pl.String, strict=False) if is_scalar(values) else values.hash()


def setting_text(key: str, value: object) -> str:
    """A setting in the form of a command line: `KEY=VALUE`."""
    import shlex

    text = f"{key}={value}"
    return f'--set "{text}"' if "'" in text and not set('"$`\\!') & set(text) else f"--set {shlex.quote(text)}"


BETTER = ("winner", "preference", "preferred")
"""What judges of pairs call the column that says which of two outputs is better."""
_PREFERRED = ("chosen", "rejected")
"""What data of preferences call the output that was preferred, and the other."""
_TIES = {"tie", "draw", "both", "neither", "equal", "bothbad", "both_bad", "tie_bothbad"}


def comparison_advice(columns: Columns) -> str | None:
    """What to write where a column says which of several outputs is better, but not in a form that is read."""
    judge = next((one for one in columns.every if one.last_name in BETTER), None)
    if judge is None:
        return _preference_advice(columns)
    if judge.values.dtype.is_integer() and not all(one.opened for one in columns.every):
        first, second = (setting_text("traces.correct", f"element{add} = {judge.value}") for add in ("", " + 1"))
        return f"`{judge.value}` says which output is better: write {first} where it counts from 0, {second} from 1"
    return (
        f"`{judge.value}` says which of several outputs is better: give a mapping with --map that has a table"
        f" [[traces]] for each, with its `text` and `correct = \"{judge.value} = 'NAME'\"`"
    )


def _preference_advice(columns: Columns) -> str | None:
    """What to write where each row has an output that was preferred, and one that was not; None where none has."""
    values = {plain_name(one.name): one.value for one in columns.every}
    if not all(name in values for name in _PREFERRED):
        return None
    better, worse = (values[name] for name in _PREFERRED)
    return (
        f"`{better}` and `{worse}` are two outputs, the first of which was preferred: give a mapping with --map that"
        ' has a table [[traces]] for each, with its `text`, `sample_index = "0"` or `"1"`, and'
        ' `correct = "true"` or `"false"`'
    )


def rival_outputs(columns: Columns) -> tuple[Column, list[tuple[Column, Column | None, str, str]]] | None:
    """The judge's column, and of each of the two outputs in a row its text, its model, and SQL for whether and how far
    it is better. None without such a pair, or where a value names no output.
    """
    known = {one.last_name: one for one in columns.every if one.value not in columns.assigned}
    judge = next((known[name] for name in BETTER if name in known), None)
    texts = [name for name, one in known.items() if one.values.dtype == pl.String and re.search("(^|_)[a1]$", name)]
    named = [name for name in texts if name_fits_role(name[:-2] or "text", "text", "answer")]
    pairs = [(name, name[:-1] + {"a": "b", "1": "2"}[name[-1]]) for name in named]
    pair = next((names for names in pairs if names[1] in known), None)
    if judge is None or pair is None or judge.values.null_count():
        return None
    models = [[known.get(f"{name}_{side[-1]}") for side in pair] for name in ("generator", "model")]
    model = next((both for both in models if None not in both), [None, None])
    value, words = judge.value, as_texts(judge.values).unique().sort()
    if ROLES["latency"].fits(judge.values) and words.cast(pl.Float64).is_between(1, 2).all():
        wins, credit = [f"{value} < 1.5", f"{value} > 1.5"], [f"2 - {value}", f"{value} - 1"]
    else:
        won = [[word for word in words if plain_name(word) in (side, side[-1], f"model_{side[-1]}")] for side in pair]
        rest = {one for one in words if plain_name(one) not in _TIES} - {*won[0], *won[1]}
        if rest and (None in model or rest - {text for both in model for text in as_texts(both.values)}):  # type: ignore[union-attr]
            return None
        quoted = [", ".join(f"'{one}'" for one in side or [""]) for side in won]
        wins = [f"{value} = {one.value}" for one in model] if rest else [f"{value} IN ({one})" for one in quoted]  # type: ignore[union-attr]
        credit = [f"CASE WHEN {one} THEN 1.0 WHEN {other} THEN 0.0 ELSE 0.5 END" for one, other in (wins, wins[::-1])]
    return judge, [(known[pair[side]], model[side], wins[side], credit[side]) for side in (0, 1)]


NUMBERED = re.compile(r"(?:(?:seed|run|sample|trial|rep|repeat|rollout|attempt|try|gen|r|s|k)_?)?\d+")
"""What numbers a column of samples that stand side by side: `pred_1`, `pred_2`, or `answer_seed42`."""
_RUNS = ("seed", "run", "trial")
"""What columns of texts, one for each sample, are called in place of answers."""


def columns_by_model(columns: Columns) -> dict[str, dict[str, str]]:
    """Each model's columns without affix, where models stand side by side (`big_answer`, `small_answer`), or each
    sample's, where samples do (`pred_1`, `pred_2`).
    """
    sides: dict[tuple[bool, str], dict[str, str]] = {}
    for one in columns.every:
        parts = re.sub(r"(?<=[a-z])(?=\d+$)", "_", plain_name(one.name))
        words = parts.split("_") if one.value not in columns.assigned else []
        for cut in range(1, len(words)):
            sides.setdefault((True, "_".join(words[:cut])), {})[one.value] = "_".join(words[cut:])
            sides.setdefault((False, "_".join(words[cut:])), {})[one.value] = "_".join(words[:cut])
    roles = [ROLES[name] for name in ("answer", "text", "verdict")]
    for first in (True, False):
        outputs: dict[str, set[str]] = {}
        for (before, affix), names in sides.items():
            for name in names.values() if before is first else ():
                if name in _RUNS or any(role.name_fit(name) is not None for role in roles):
                    outputs.setdefault(name, set()).add(affix)
        best = max(outputs.values(), key=len, default=set())
        if len(best) > 1:
            texts = {one.value for one in columns.every if one.values.dtype == pl.String}
            return {
                affix: {value: "answer" if name in _RUNS and value in texts else name for value, name in names.items()}
                for (before, affix), names in sides.items()
                if before is first and affix in best
            }
    return {}
