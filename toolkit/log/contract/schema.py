"""The tables of a log and their columns: names, types and which may be null. The contract, as data.

Types are polars types; `shard_files.py` maps them to Arrow's. A table may hold further columns, which travel
along untouched; in `features` every further numeric column is a feature and is a float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from toolkit.errors import quote, suggest
from toolkit.log.contract.problems import LogError

FORMAT = "thinkback-log"
VERSION = 1


@dataclass(frozen=True)
class LogColumn:
    """One column of the contract. `nullable` columns may also be missing from a table, unless they are `needed`."""

    name: str
    dtype: pl.DataType
    nullable: bool
    key: bool = False
    nullable_items: bool = False
    needed: bool = False

    @property
    def may_be_absent(self) -> bool:
        """Whether a table may lack the column altogether."""
        return self.nullable and not self.needed


I16, I32 = pl.Int16(), pl.Int32()
F32, F64 = pl.Float32(), pl.Float64()
STR, BOOL = pl.String(), pl.Boolean()


def _columns(keys: Mapping[str, pl.DataType], required: str, optional: str) -> tuple[LogColumn, ...]:
    """Columns from words `name:type`. Types are the short names in `_TYPES`, and `[type]` is a list."""
    columns = [LogColumn(name, dtype, nullable=False, key=True) for name, dtype in keys.items()]
    for words, nullable in ((required, False), (optional, True)):
        for word in words.split():
            name, _, kind = word.partition(":")
            columns.append(LogColumn(name, _TYPES[kind.rstrip("?")], nullable, nullable_items=kind.endswith("?")))
    return tuple(columns)


_TYPES: dict[str, pl.DataType] = {
    "str": STR, "bool": BOOL, "i32": I32, "f32": F32, "f64": F64,
    "[str]": pl.List(STR), "[i32]": pl.List(I32), "[f32]": pl.List(F32), "[f64]": pl.List(F64),
    "[bool]": pl.List(BOOL),
}  # fmt: skip

_TOKENS = "prompt_tokens:i32 completion_tokens:i32"
_SECONDS = "latency_s:f32 device_s:f32"
_TOKEN_LISTS = "token_logprobs:[f32] token_entropies:[f32] token_ranks:[i32]"

SCHEMAS: dict[str, tuple[LogColumn, ...]] = {
    "examples": _columns(
        {"example_id": STR},
        "dataset:str split:str question:str",
        "gold:str golds:[str] labels:[str] cluster:str gold_documents:[str] length:i32 gold_position:i32 "
        "gold_error:bool human_position:i32 human_correct:bool human_positions:[i32] human_corrects:[bool]",
    ),
    "traces": _columns(
        {"trace_id": STR},
        "example_id:str pool:str action:str sample_index:i32 model:str",
        "parent_id:str reads:i32 position:i32 documents:[str] temperature:f32 max_tokens:i32 text:str answer:str "
        f"answer_cluster:str correct:bool credit:f32 opaque:bool contested:bool {_TOKENS} tokens_estimated:bool "
        f"finish_reason:str finalizer_used:bool {_SECONDS} sum_logprob:f32 {_TOKEN_LISTS} completion_ids:[i32] "
        "reasoning:str reasoning_tokens:i32 cached_tokens:i32 tool_calls:str cost:f64 request:str started_s:f64 "
        "arrived_s:f64",
    ),
    "verifications": (
        *_columns({"trace_id": STR, "verifier": STR}, "example_id:str", ""),
        LogColumn("score", F64, nullable=True, needed=True),
        *_columns({}, "", f"candidates:i32 fold:i32 {_TOKENS} {_SECONDS} {_TOKEN_LISTS}"),
    ),
    "features": _columns({"trace_id": STR}, "example_id:str", ""),
    "hidden_states": (
        *_columns({"trace_id": STR, "layer": I16, "token": I32}, "example_id:str", ""),
        LogColumn("state", pl.Array(pl.Float16(), 1), nullable=False),
    ),
    "rounds": _columns(
        {"example_id": STR, "pool": STR, "hop": I32, "round": I32},
        "documents:[str] relevance:[f64] answers:[str] clusters:[i32]",
        f"sub_question:str retrieval_rank:[i32]? answer_scores:[f64] contradictions:i32 calls:i32 {_TOKENS} {_SECONDS}",
    ),
    "checks": _columns(
        {"example_id": STR, "pool": STR, "claim": I32, "round": I32},
        "stage:str position:i32 verdict:str queries:i32",
        "confidence:f64 matches_error:bool gold_verdict:str claim_text:str evidence:str documents:[str] unit:i32 "
        f"unit_words:i32 unit_entities:i32 calls:i32 {_TOKENS} {_SECONDS}",
    ),
}

LARGE_TEXTS = ("text", "reasoning")
"""Columns that are written as Arrow's `large_string`."""

CALL_COSTS = ("prompt_tokens", "completion_tokens", "latency_s", "device_s")
"""What a call costs. At least one of these is logged of a verification that failed, which has no score."""

TEXT_LABELS = ("supported", "refuted")
"""Labels of a text that is revealed word by word: `refuted` where it holds an error."""

TABLES = tuple(SCHEMAS)
HIDDEN = "hidden_states"

# Counts: nulls mean "not recorded", negative numbers mean nothing.
COUNTS = frozenset({
    "length", "gold_position", "human_position", "reads", "sample_index", "position", "max_tokens", "prompt_tokens",
    "completion_tokens", "candidates", "fold", "hop", "round", "contradictions", "calls", "claim",
    "unit", "unit_words", "unit_entities", "queries", "latency_s", "device_s", "reasoning_tokens", "cached_tokens",
    "cost", "started_s", "arrived_s",
})  # fmt: skip


def kind_of(table: str) -> str:
    """The contract's name for a log's table: `hidden_states/MODEL` is of the kind `hidden_states`."""
    return table.partition("/")[0]


def check_table(table: str) -> None:
    """Raises LogError where the contract has no such table."""
    if not isinstance(table, str):
        raise LogError(f"{quote(table)} is no table's name: {suggest('', SCHEMAS)}", code="unknown")
    kind, slash, model = table.partition("/")
    if kind == HIDDEN and not model:
        raise LogError(f"`{HIDDEN}` has a folder per model: name `{HIDDEN}/MODEL`", code="required")
    if kind not in SCHEMAS or bool(slash) != (kind == HIDDEN) or "/" in model or model.startswith((".", "_")):
        raise LogError(f"a log has no table `{table}`: {suggest(table, SCHEMAS)}", code="unknown")


def schema_of(table: str) -> dict[str, LogColumn]:
    """The columns of a table by name, in the contract's order. `table` may be `hidden_states/MODEL`."""
    return {column.name: column for column in SCHEMAS[kind_of(table)]}


def keys_of(table: str) -> tuple[str, ...]:
    """The columns whose values together are unique in a table."""
    return tuple(column.name for column in SCHEMAS[kind_of(table)] if column.key)


def target_type(table: str, name: str, kind: pl.DataType) -> pl.DataType:
    """The type in which a column is read: the contract's, float64 for a feature, else the one that it has."""
    column = schema_of(table).get(name)
    if column is not None:
        return column.dtype
    is_feature = kind_of(table) == "features" and (kind.is_numeric() or kind == pl.Null)
    return F64 if is_feature else kind
