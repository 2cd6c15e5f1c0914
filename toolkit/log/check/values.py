"""Checks of single rows, in one streaming pass per table: nulls, NaN, ranges, lengths of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from toolkit.errors import counted, listed
from toolkit.log.check.faults import Faults, Message, message_of
from toolkit.log.contract.conversion import not_finite
from toolkit.log.contract.problems import Problem, backticked
from toolkit.log.contract.schema import CALL_COSTS, COUNTS, kind_of, schema_of
from toolkit.log.read.footers import column_chunks
from toolkit.log.read.log import ROW, collect

STAGES = ("stream", "revision")
CLAIM_VERDICTS = ("supported", "refuted", "not_enough")
VERDICTS = (*CLAIM_VERDICTS, "none")


@dataclass(frozen=True)
class _ValueRule:
    """A rule for single rows: where `flagged` is true there is a fault, and `message` says what is wrong."""

    column: str
    code: str
    flagged: pl.Expr
    message: Message
    shows: tuple[str, ...] = ()


def check_values(faults: Faults, table: str) -> None:
    """Adds the faults of a table's single rows. The contents of hidden states are left to `check_states`."""
    log = faults.log
    rules = list(_value_rules(table, log.columns(table)))
    if not rules or not log.rows(table):
        return
    first = [pl.when(rule.flagged).then(pl.col(ROW)).min().alias(f"first{i}") for i, rule in enumerate(rules)]
    count = [rule.flagged.sum().alias(f"count{i}") for i, rule in enumerate(rules)]
    names = [name for name in {**schema_of(table), **log.columns(table)} if not _is_unread_column(table, name)]
    counts = collect(log.scan(table, names, rows=True).select(*first, *count), log).row(0, named=True)
    for i, rule in enumerate(rules):
        if counts[f"count{i}"]:
            rows = log.scan(table, (rule.column, *rule.shows), rows=True).filter(pl.col(ROW) == counts[f"first{i}"])
            faults.add_rows(table, rule.column, rule.code, collect(rows, log), rule.message, counts[f"count{i}"])


def first_fault(rows: pl.DataFrame, table: str) -> Problem | None:
    """The first fault in rows of the contract's types that are in no log yet. The table's name stands for its file."""
    absent = [column for column in schema_of(table).values() if column.name not in rows.columns]
    rules = list(_value_rules(table, dict(rows.schema)))
    rows = rows.with_columns(pl.lit(None, column.dtype).alias(column.name) for column in absent)
    for rule in rules:
        row = rows.select(pl.arg_where(rule.flagged)).to_series()
        if len(row):
            values = rows.select(rule.column, *rule.shows).row(row[0], named=True)
            return Problem(table, rule.column, int(row[0]), message_of(rule.message, values), rule.code)
    return None


def _value_rules(table: str, types: dict[str, pl.DataType]) -> Iterator[_ValueRule]:
    contract = schema_of(table)
    for name, dtype in types.items():
        if _is_unread_column(table, name):
            continue
        column = contract.get(name)
        if column is not None and not column.nullable:
            yield _ValueRule(name, "null", pl.col(name).is_null(), "is null where a value is required")
        if isinstance(dtype, pl.List) and column is not None and not column.nullable_items:
            flagged = pl.col(name).list.drop_nulls().list.len() != pl.col(name).list.len()
            message = "the list holds a null: leave the item out, or write its value"
            yield _ValueRule(name, "null-item", flagged, message)
        if (flagged_nan := not_finite(pl.col(name), dtype)) is not None:
            yield _ValueRule(name, "not-finite", flagged_nan, _not_a_number_message(name, dtype))
        if name in COUNTS and column is not None:
            message = f"{{{name}}} is negative: write null for not recorded"
            flagged = (pl.col(name) < 0) & pl.col(name).is_finite()
            yield _ValueRule(name, "negative", flagged, message)
    for rule in _TABLE_RULES.get(kind_of(table), lambda: iter(()))():
        if rule.column in types:
            yield rule
        elif rule.code == "revision-without-parent":  # no parent is logged at all: the action is at fault
            yield replace(rule, column="action", shows=())


def _not_a_number_message(name: str, dtype: pl.DataType) -> Message:
    if dtype.is_float():
        return lambda row: f"{backticked(row[name])} is not a number: write null for not recorded"
    where = "struct" if isinstance(dtype, pl.Struct) else "list"
    return f"the {where} holds NaN or infinity: write finite numbers"


def _is_unread_column(table: str, name: str) -> bool:
    """Whether this pass leaves a column unread: texts have no rules, and `check_states` reads states."""
    return name in ("text", "state") and name in schema_of(table)


def _example_rules() -> Iterator[_ValueRule]:
    labels, gold = pl.col("labels"), pl.col("gold")
    yield _ValueRule(
        "labels", "duplicate-label", labels.list.n_unique() != labels.list.len(), "{labels} names a label twice"
    )
    outside = (labels.list.len() > 0) & ~labels.list.contains(gold) & gold.is_not_null()
    message = "{gold} is not one of the example's labels {labels}: correct gold or labels"
    yield _ValueRule("gold", "gold-outside-labels", outside, message, ("labels",))
    golds = pl.col("golds").list
    message = "{golds} does not begin with the example's gold, {gold}: write it first, and each right answer once"
    unlike = golds.first().ne_missing(gold) | (golds.n_unique() != golds.len())
    yield _ValueRule("golds", "gold-not-first", unlike & (golds.len() > 0), message, ("gold",))
    people = pl.col("human_positions").list
    message = "the list holds a negative number: words are counted from 0"
    yield _ValueRule("human_positions", "negative-item", people.min() < 0, message)
    yield from _equal_length_rules(("human_corrects", "human_positions"))
    message = "lies beyond the text: {length} is its `length`, in words"
    for name, last in (("gold_position", pl.col("gold_position")), ("human_position", pl.col("human_position")),
                       ("human_positions", people.max())):  # fmt: skip
        yield _ValueRule(name, "beyond-length", last > pl.col("length"), f"{{{name}}} {message}", ("length",))


def _trace_rules() -> Iterator[_ValueRule]:
    parent, solve, answer, opaque = pl.col("parent_id"), pl.col("action") == "solve", pl.col("answer"), pl.col("opaque")
    message = "a trace with action `solve` has a parent: its parent_id must be null"
    yield _ValueRule("parent_id", "solve-with-parent", solve & parent.is_not_null(), message)
    message = "action {action} needs the parent_id of the trace that it revises"
    yield _ValueRule("parent_id", "revision-without-parent", ~solve & parent.is_null(), message, ("action",))
    message = "{parent_id} is the trace itself: name the trace it revises"
    yield _ValueRule("parent_id", "own-parent", parent == pl.col("trace_id"), message)
    message = "a trace with action `solve` revises nothing: its reads must be null"
    yield _ValueRule("reads", "solve-with-reads", solve & pl.col("reads").is_not_null(), message)
    yield _ValueRule("credit", "out-of-range", ~pl.col("credit").is_between(0, 1), "{credit} lies outside 0 to 1")
    message = "is true, but the answer is null: an answer that could not be read is wrong (false)"
    yield _ValueRule("correct", "correct-without-answer", pl.col("correct") & answer.is_null(), message)
    message = "the trace is opaque, but its answer is not its trace_id: write the trace_id as answer"
    yield _ValueRule("opaque", "opaque-answer", opaque & (answer != pl.col("trace_id")).fill_null(True), message)
    ids = pl.col("completion_ids").list
    message = "the list holds a negative number: ids of tokens count from 0"
    yield _ValueRule("completion_ids", "negative-item", ids.min() < 0, message)
    more = ~pl.col("tokens_estimated").fill_null(False) & (ids.len().cast(pl.Int64) > pl.col("completion_tokens"))
    yield _ValueRule("completion_ids", "length", more, _more_ids, ("completion_tokens",))
    yield from _token_list_rules()
    before = pl.col("arrived_s") < pl.col("started_s")
    message = "{arrived_s} is before {started_s}, when the call was sent: both count from the example's first call"
    yield _ValueRule("arrived_s", "falls", before, message, ("started_s",))
    unfit = answer.is_null() | pl.col("correct").is_null() | opaque.fill_null(False)
    message = "the trace is contested, which takes a readable answer and a verdict: write false or null"
    yield _ValueRule("contested", "contested-without-verdict", pl.col("contested") & unfit, message)


def _token_list_rules() -> Iterator[_ValueRule]:
    """Rules for lists with an entry for each token: entropies and ranks must match the log-probabilities."""
    below = "the list holds a negative number: entropies begin at 0"
    yield _ValueRule("token_entropies", "negative-item", pl.col("token_entropies").list.min() < 0, below)
    below = "the list holds a number below 1: the rank of the most likely token is 1"
    yield _ValueRule("token_ranks", "low-item", pl.col("token_ranks").list.min() < 1, below)
    yield from _equal_length_rules(("token_entropies", "token_logprobs"), ("token_ranks", "token_logprobs"))


def _equal_length_rules(*pairs: tuple[str, str]) -> Iterator[_ValueRule]:
    """Rules that the first list of each pair must be as long as the second."""

    def message(name: str, of: str, row: dict[str, Any]) -> str:
        return f"has {counted(len(row[name]), 'entry', 'entries')} for {len(row[of])} `{of}`: write one for each"

    for name, of in pairs:
        flagged = pl.col(name).list.len() != pl.col(of).list.len()
        yield _ValueRule(name, "length", flagged, partial(message, name, of), (of,))


def _more_ids(row: dict[str, Any]) -> str:
    return f"has {len(row['completion_ids'])} ids, more than the {row['completion_tokens']} `completion_tokens`"


def _verification_rules() -> Iterator[_ValueRule]:
    message = "{candidates} must be at least 1: write null for a verifier that scores traces alone"
    yield _ValueRule("candidates", "no-candidates", pl.col("candidates") == 0, message)
    nothing = pl.all_horizontal(pl.col("score", *CALL_COSTS).is_null())
    message = "is null and no token and no second is logged: leave out the row of a call that did not take place"
    yield _ValueRule("score", "no-call", nothing, message)
    yield from _token_list_rules()


def _round_rules() -> Iterator[_ValueRule]:
    pairs = (("relevance", "documents"), ("retrieval_rank", "documents"), ("clusters", "answers"))
    return _equal_length_rules(*pairs, ("answer_scores", "answers"))


def _check_rules() -> Iterator[_ValueRule]:
    for name, known in (("stage", STAGES), ("verdict", VERDICTS), ("gold_verdict", CLAIM_VERDICTS)):
        message = f"unknown {name} {{{name}}}: write one of {listed(known)}"
        yield _ValueRule(name, "unknown", ~pl.col(name).is_in(known), message)
    for name in ("matches_error", "gold_verdict"):
        flagged = (pl.col("verdict") == "none") & pl.col(name).is_not_null()
        message = f"is {{{name}}}, but the verdict is `none`, which is of no claim: write null"
        yield _ValueRule(name, "value-without-claim", flagged, message)
    flagged = (pl.col("verdict") == "none") & (pl.col("queries") > 0)
    message = "{queries} but the verdict is `none`, which spends no query: write 0"
    yield _ValueRule("queries", "queries-without-verdict", flagged, message)


_TABLE_RULES: dict[str, Callable[[], Iterator[_ValueRule]]] = {
    "examples": _example_rules,
    "traces": _trace_rules,
    "verifications": _verification_rules,
    "rounds": _round_rules,
    "checks": _check_rules,
}
"""The rules of each table beside those of single columns. A column that a table lacks reads as null in them."""


def check_states(faults: Faults, table: str) -> list[str]:
    """Checks hidden states: no nulls, NaN or infinity, no dictionary encoding. Returns notes on row groups above 64 MB.

    Read row group by row group, in batches, so that memory does not depend on the shard.
    """
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    notes = []
    for shard in faults.log.shards[table]:
        start = 0
        with pq.ParquetFile(faults.log.footer(shard).readable) as file:
            groups = range(file.num_row_groups)
            largest = max((file.metadata.row_group(group).total_byte_size for group in groups), default=0)
            if largest > 64 * 2**20:
                notes.append(
                    f"`{shard.file}`: a row group holds {largest / 2**20:,.0f} MB, more than the contract's 64"
                )
            for batch in file.iter_batches(batch_size=4096, columns=["state"]):
                column = batch.column(0)
                missing = column.is_null().to_numpy(zero_copy_only=False)
                full = column.drop_null()
                values = full.flatten()
                size = len(values) // max(len(full), 1)
                finite = np.isfinite(values.to_numpy(zero_copy_only=False).astype(np.float32)).reshape(len(full), size)
                bad = missing.copy()
                bad[~missing] = ~finite.all(axis=1)
                if bad.any():
                    row = start + int(bad.argmax())
                    has_null = bool(pc.any(values.is_null()).as_py()) or bool(missing.any())
                    what, code = ("a null", "null") if has_null else ("NaN or infinity", "not-finite")
                    faults.add_fault(
                        Problem(shard.file, "state", row, f"the state holds {what}: write finite numbers", code)
                    )
                    break
                start += len(column)
            else:
                if _state_is_encoded(file):
                    message = "is dictionary-encoded, which makes states large and slow: write it plain"
                    faults.add_fault(Problem(shard.file, "state", None, message, "encoded"))
    return notes


def _state_is_encoded(file: Any) -> bool:
    """Whether the states in a file that was read are dictionary-encoded."""
    schema = file.metadata.schema
    paths = [schema.column(place).path for place in range(len(schema))]
    states = [path for path in paths if path.startswith("state")]
    chunks = (
        chunk
        for group in range(file.num_row_groups)
        for path in states
        for chunk in column_chunks(file.metadata, group, path)
    )
    return any("DICT" in encoding for chunk in chunks for encoding in chunk.encodings)
