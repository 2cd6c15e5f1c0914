"""Files of fitted models, read by one schema and checked whole before a library gets them.

A file is a bounded JSON document. A class of settings says which keys it has (`toolkit.settings`), and the fields here
say what lists of numbers hold. What a library reads itself, as XGBoost does its trees, is written anew of the checked
fields alone: whatever else a file holds never reaches it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from toolkit.documents import parse_json, read_text
from toolkit.errors import FormatError, InvalidError, LimitError, MismatchError, listed, quote
from toolkit.settings import NAMES, Checked, as_kind, check, from_table, kinds_of, setting

Schema = TypeVar("Schema")
Reader = Callable[[Any, str], Any]

LEVELS = 64
"""Most splits above a leaf."""
SINGLE, DOUBLE = float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)
LEAST_SCALE = 1e-12
"""The least standard deviation of a column that is scaled."""
INDEX = 2**31 - 1
"""XGBoost's number for the missing parent of a root: its largest index."""
_SHARE = re.compile(r"\[?(\d{1,20}(?:\.\d{1,40})?(?:[Ee][+-]?\d{1,3})?)\]?")


def read_model(path: str | Path, subject: str) -> dict[str, Any]:
    """Reads the JSON file of a fitted model. `subject` names it in errors. FormatError where it is no JSON object."""
    document = parse_json(read_text(path, subject), subject)
    if not isinstance(document, dict):
        raise FormatError(f"{subject} is {quote(document)}; it takes a JSON object")
    return document


def number_list_reader(kind: type[int] | type[float], low: float = -DOUBLE, high: float = DOUBLE) -> Reader:
    """Makes the reader of a field with a list of numbers from `low` to `high`: an array (n,) of int64 or float64."""
    name = "integers" if kind is int else "numbers"

    def read(value: Any, place: str) -> np.ndarray:
        if not isinstance(value, list) or not set(map(type, value)) <= {int, kind}:
            raise InvalidError(f"`{place}` is {quote(value)}; it takes a list of {name}")
        try:
            values = np.array(value, np.int64 if kind is int else np.float64)
        except OverflowError:
            raise InvalidError(f"`{place}` has a number of hundreds of digits; it takes {name} of 64 bits") from None
        outside = np.flatnonzero(~((values >= low) & (values <= high)))  # NaN is on neither side
        if len(outside):
            bounds = f"from {low:g} to {high:g}" if high < DOUBLE else "that are finite"
            raise InvalidError(f"`{place}` has {quote(value[outside[0]])}; it takes {name} {bounds}")
        return values

    return read


def read_pairs(value: Any, place: str) -> tuple[tuple[int, int], ...]:
    """Reads a field with a list of pairs of integers, such as layer and token. The list may be empty."""
    if not isinstance(value, list) or not all(isinstance(one, list) and len(one) == 2 for one in value):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes a list of pairs")
    flat = number_list_reader(int, -INDEX, INDEX)([number for pair in value for number in pair], place)
    return tuple(map(tuple, flat.reshape(-1, 2).tolist()))


def table_reader(schema: type[Schema]) -> Callable[[Any, str], Schema]:
    """Makes the reader of a field with a table. It reads the fields of a class, and ignores other keys."""

    def read(value: Any, place: str) -> Schema:
        known = {field.name for field in fields(schema)}  # type: ignore[arg-type]
        chosen = {key: one for key, one in value.items() if key in known} if isinstance(value, Mapping) else value
        return from_table(schema, chosen, place)

    return read


def dataclass_reader(schema: type[Schema]) -> Callable[[Any, str], Schema]:
    """Makes the reader of a field with a plain dataclass's table, each field of the kind in its type hint."""
    hints = {name: kinds_of(hint) for name, hint in get_type_hints(schema).items()}

    def read(value: Any, place: str) -> Schema:
        table = value if isinstance(value, Mapping) else {}
        values = {
            key: _value_of_hint(kinds, table[key], f"{place}.{key}") for key, kinds in hints.items() if key in table
        }
        return from_table(schema, {**table, **values} if isinstance(value, Mapping) else value, place)

    return read


def _value_of_hint(kinds: Sequence[Any], given: Any, place: str) -> Any:
    values = [kind for kind in kinds if kind is not type(None)]
    if given is None and len(values) < len(kinds):
        return None
    for kind in values:
        items = get_args(kind)
        value = as_kind(kind, given) if get_origin(kind) is not Literal else given if given in items else None
        if value is not None and (not isinstance(value, tuple) or Ellipsis in items or len(value) == len(items)):
            return value
    known = listed([NAMES.get(kind, str(kind)) for kind in values])
    raise InvalidError(f"`{place}` is {quote(given)}; it takes {known}")


def list_reader(read: Callable[[Any, str], Schema]) -> Callable[[Any, str], tuple[Schema, ...]]:
    """Makes the reader of a field with a list, not empty, of what `read` reads."""

    def read_all(value: Any, place: str) -> tuple[Schema, ...]:
        if not isinstance(value, list) or not value:
            raise InvalidError(f"`{place}` is {quote(value)}; it takes a list that is not empty")
        return tuple(read(one, f"{place}.{number}") for number, one in enumerate(value, start=1))

    return read_all


def _check_same_length(*arrays: np.ndarray) -> None:
    sizes = sorted(map(len, arrays))
    if sizes[0] != sizes[-1]:
        raise MismatchError(f"its lists have from {sizes[0]:,} to {sizes[-1]:,} items; all must have as many")


@dataclass(frozen=True)
class _Tree:
    """A decision tree of n nodes, the first of which is the root. A leaf has -1 as children."""

    left_children: np.ndarray = setting(read=number_list_reader(int, -1, INDEX))
    right_children: np.ndarray = setting(read=number_list_reader(int, -1, INDEX))
    split_indices: np.ndarray = setting(read=number_list_reader(int, 0, INDEX))
    split_conditions: np.ndarray = setting(read=number_list_reader(float, -SINGLE, SINGLE))
    default_left: np.ndarray = setting(read=number_list_reader(int, 0, 1))
    split_type: np.ndarray = setting(read=number_list_reader(int, 0, 0))

    def __post_init__(self) -> None:
        left, right, size = self.left_children, self.right_children, len(self.left_children)
        _check_same_length(*(getattr(self, field.name) for field in fields(self)))
        inner = left != -1
        children = np.concatenate([left[inner], right[inner]])
        if not size or (inner != (right != -1)).any() or (children >= size).any():
            raise InvalidError(f"it is no tree: a node has two children among its {size} nodes, or none")
        if (children <= np.tile(np.flatnonzero(inner), 2)).any() or len(np.unique(children)) < len(children):
            raise InvalidError("it is no tree: a node stands before its parent, or is a child of two")
        level = np.zeros(1, np.int64)
        for _ in range(LEVELS + 1):
            level = level[inner[level]]
            level = np.concatenate([left[level], right[level]])
        if len(level):
            raise LimitError(f"it has more than {LEVELS} levels: fit it with less depth")

    @property
    def columns_needed(self) -> int:
        """The number of feature columns that the tree needs: one more than the last that it splits by."""
        return int(self.split_indices[self.left_children != -1].max(initial=-1)) + 1

    def document(self, number: int, columns: int) -> dict[str, Any]:
        """The tree as XGBoost's JSON, with zeros in what predictions do not need."""
        inner, size = self.left_children != -1, len(self.left_children)
        parents = np.full(size, INDEX)
        for children in (self.left_children, self.right_children):
            parents[children[inner]] = np.flatnonzero(inner)
        parameters = {"num_deleted": "0", "num_feature": str(columns), "num_nodes": str(size), "size_leaf_vector": "1"}
        return {field.name: getattr(self, field.name).tolist() for field in fields(self)} | {
            "split_indices": np.where(inner, self.split_indices, 0).tolist(),
            "id": number, "parents": parents.tolist(), "tree_param": parameters,
            **dict.fromkeys(("base_weights", "loss_changes", "sum_hessian"), [0.0] * size),
            **{f"categories{which}": [] for which in ("", "_nodes", "_segments", "_sizes")},
        }  # fmt: skip


@dataclass(frozen=True)
class _Ensemble:
    trees: tuple[_Tree, ...] = setting(read=list_reader(table_reader(_Tree)))
    tree_info: np.ndarray = setting(read=number_list_reader(int, 0, 0))

    def __post_init__(self) -> None:
        if len(self.trees) != len(self.tree_info):
            raise MismatchError(f"it has {len(self.trees)} trees, and `tree_info` {len(self.tree_info)} items")


@dataclass(frozen=True)
class _Booster(Checked):
    model: _Ensemble = setting(read=table_reader(_Ensemble))
    name: str = setting(choices=("gbtree",))


@dataclass(frozen=True)
class _Objective(Checked):
    name: str = setting(choices=("binary:logistic",))


def _read_probability(value: Any, place: str) -> str:
    """Reads a probability as XGBoost writes it: as text, from version 3.1 on in brackets."""
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 0 < float(match[1]) < 1 or np.float32(match[1]) in (0, 1):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes a text with a number between 0 and 1")
    return str(value)


def _read_count(value: Any, place: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[1-9]\d{0,8}", value):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes a text with a whole number")
    return value


@dataclass(frozen=True)
class _TreeCounts(Checked):
    """The numbers of features, classes and targets of boosted trees, which XGBoost writes as text."""

    base_score: str = setting(read=_read_probability)
    num_feature: str = setting(read=_read_count)
    num_class: str = setting("0", choices=("0",))
    num_target: str = setting("1", choices=("1",))
    boost_from_average: str = setting("0", choices=("0", "1"))


@dataclass(frozen=True)
class _Learner:
    learner_model_param: _TreeCounts = setting(read=table_reader(_TreeCounts))
    gradient_booster: _Booster = setting(read=table_reader(_Booster))
    objective: _Objective = setting(read=table_reader(_Objective))


@dataclass(frozen=True)
class _BoostedTrees:
    """A file of boosted trees that give probabilities, in XGBoost's JSON."""

    version: np.ndarray = setting(read=number_list_reader(int, 0, 10_000))
    learner: _Learner = setting(read=table_reader(_Learner))

    def __post_init__(self) -> None:
        if len(self.version) != 3:
            raise InvalidError(f"`version` has {len(self.version)} numbers; it takes 3")


def check_trees(model: Any, place: str) -> tuple[dict[str, Any], int]:
    """Checks boosted trees; returns XGBoost's JSON, rebuilt from the checked fields, and how many columns it reads.

    `place` names it in errors. ThinkbackError where a tree is none, reads another column or has a number that is not
    finite, or the model is no classifier of two classes.
    """
    boosted = table_reader(_BoostedTrees)(model, place)
    parameters, trees = boosted.learner.learner_model_param, boosted.learner.gradient_booster.model.trees
    columns, reads = int(parameters.num_feature), max(tree.columns_needed for tree in trees)
    if reads > columns:
        raise MismatchError(f"`{place}` has {columns:,} features, and a tree that splits by number {reads:,}")
    ensemble = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(len(trees) + 1)), "tree_info": [0] * len(trees),
        "trees": [tree.document(number, columns) for number, tree in enumerate(trees)],
    }  # fmt: skip
    learner = {
        "attributes": {}, "feature_names": [], "feature_types": [],
        "gradient_booster": {"model": ensemble, "name": "gbtree"}, "learner_model_param": asdict(parameters),
        "objective": {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}},
    }  # fmt: skip
    return {"learner": learner, "version": boosted.version.tolist()}, columns


@dataclass(frozen=True, kw_only=True)
class _Standardisation:
    """The centre and scale by which F columns are standardised, (F,) each."""

    centre: np.ndarray = setting(read=number_list_reader(float))
    scale: np.ndarray = setting(read=number_list_reader(float, LEAST_SCALE))

    def __post_init__(self) -> None:
        check(self)
        _check_same_length(self.centre, self.scale)


@dataclass(frozen=True, kw_only=True)
class _Logistic(_Standardisation):
    intercept: float = setting()
    coefficients: np.ndarray = setting(read=number_list_reader(float))

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_same_length(self.centre, self.coefficients)


@dataclass(frozen=True)
class _Linear(Checked):
    """A linear layer: one input for each list in `weights`, one output for each number in a list and in `bias`."""

    weights: tuple[np.ndarray, ...] = setting(read=list_reader(number_list_reader(float)))
    bias: np.ndarray = setting(read=number_list_reader(float))
    relu: bool = setting(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_same_length(self.bias, *self.weights)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.weights), len(self.bias)


@dataclass(frozen=True)
class _GatedBlock:
    """A gated residual block of a network, whose output is added to its input."""

    gate: _Linear = setting(read=partial(from_table, _Linear))
    up: _Linear = setting(read=partial(from_table, _Linear))
    down: _Linear = setting(read=partial(from_table, _Linear))

    def __post_init__(self) -> None:
        if not self.gate.shape == self.up.shape == self.down.shape[::-1]:
            raise MismatchError("its layers `gate`, `up` and `down` do not fit together")

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.gate.weights), len(self.gate.weights)


def _read_layer(value: Any, place: str) -> _Linear | _GatedBlock:
    gated = isinstance(value, Mapping) and "gate" in value
    return from_table(_GatedBlock, value, place) if gated else from_table(_Linear, value, place)


@dataclass(frozen=True, kw_only=True)
class _Network(_Standardisation):
    """A neural network: a chain of layers from F columns to one number."""

    layers: tuple[_Linear | _GatedBlock, ...] = setting(read=list_reader(_read_layer))

    def __post_init__(self) -> None:
        super().__post_init__()
        width = len(self.centre)
        for number, layer in enumerate(self.layers, start=1):
            if layer.shape[0] != width:
                raise MismatchError(f"layer {number} reads {layer.shape[0]} numbers; it gets {width}")
            width = layer.shape[1]
        if width != 1:
            raise MismatchError(f"its last layer gives {width} numbers; it takes one")


def check_logistic(model: Any, place: str) -> tuple[dict[str, Any], int]:
    """Checks a logistic regression (`intercept`, and lists `coefficients`, `centre`, `scale`); returns it, and how many
    columns it reads.
    """
    columns = len(from_table(_Logistic, model, place).centre)
    return dict(model), columns


def check_network(model: Any, place: str) -> tuple[dict[str, Any], int]:
    """Checks a network's layers, after `centre` and `scale`; returns them, and how many columns they read."""
    columns = len(from_table(_Network, model, place).centre)
    return dict(model), columns
