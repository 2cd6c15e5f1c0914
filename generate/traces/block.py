"""Blocks of examples with their traces, and prompts about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import polars as pl

from generate.engines.base import Prompt
from generate.engines.thoughts import with_thoughts
from generate.recipes.prompting import Template, field_texts, prompt_text
from generate.traces.log_origins import joined_pools
from toolkit.errors import MismatchError, RequiredError
from toolkit.log import Log, collect
from toolkit.log.read.example_blocks import example_ranges

TRACE_FIELDS = ("attempt", "answer")
LISTED_FIELDS = ("attempts",)
GROUP = ("example_id", "pool", "action", "parent_id")
"""The columns that identify a group for a choice: an example's traces in a pool that revise one attempt."""
READ = ("trace_id", *GROUP, "sample_index", "text", "reasoning", "answer", "finish_reason")
"""The columns of traces that signals read; recorded log-probabilities are read only by those that need them."""
ORDER = (*GROUP, "sample_index", "trace_id")
NO_TEXT = "the log has no text of the trace"
NO_TEXT_OF_ANOTHER = "the log has no text of another trace in its group"


class TextsToRead(Enum):
    """Which texts of a trace a signal reads: none; its own; its own after the attempt it continues; or its own after
    the prompt it answered, which for a revision has the attempt in it.
    """

    NONE = 0
    COMPLETION = 1
    WHOLE = 2
    PROMPTED = 3


@dataclass(frozen=True)
class TraceBlock:
    """Some examples of a log. `traces`: all of theirs, in the log's order; `wanted`: the ids to work on; `joined`: the
    pools whose traces continue where their parents stop.
    """

    examples: pl.DataFrame
    traces: pl.DataFrame
    wanted: frozenset[str]
    joined: frozenset[str] = frozenset()

    @cached_property
    def wanted_rows(self) -> list[dict[str, Any]]:
        """The wanted traces as rows, in order."""
        return self.traces.filter(pl.col("trace_id").is_in(list(self.wanted))).to_dicts()

    @cached_property
    def traces_by_id(self) -> Mapping[str, dict[str, Any]]:
        """Every trace of the examples by its id."""
        return {row["trace_id"]: row for row in self.traces.iter_rows(named=True)}

    @cached_property
    def example_rows(self) -> Mapping[str, dict[str, Any]]:
        return {row["example_id"]: row for row in self.examples.iter_rows(named=True)}

    @cached_property
    def fields(self) -> Mapping[str, dict[str, str]]:
        """The examples' columns as prompts show them."""
        return {name: field_texts(row) for name, row in self.example_rows.items()}

    def full_text(self, row: Mapping[str, Any]) -> str:
        """A trace's text, after its parent's text where it continues that."""
        text = row["text"] or ""
        parent = self.traces_by_id.get(row["parent_id"] or "") if row["pool"] in self.joined else None
        return text if parent is None else self.full_text(parent) + text

    def traces_without_text(self, texts: TextsToRead, whole_groups: bool) -> dict[str, str]:
        """The wanted traces with a missing text that would be read, and why each is left out. With `whole_groups` so
        are all of their groups, since a choice is among a whole group. An empty text is not missing.
        """
        if texts is TextsToRead.NONE:
            return {}
        bare = {row["trace_id"]: NO_TEXT for row in self.wanted_rows if self._lacks_text(row, texts)}
        if not whole_groups:
            return bare
        groups = {choice_group(self.traces_by_id[trace]) for trace in bare}
        rows = (row for row in self.wanted_rows if choice_group(row) in groups)
        return {row["trace_id"]: bare.get(row["trace_id"], NO_TEXT_OF_ANOTHER) for row in rows}

    def _lacks_text(self, row: Mapping[str, Any], texts: TextsToRead) -> bool:
        if row["text"] is None:
            return True
        read = texts is TextsToRead.PROMPTED or (texts is TextsToRead.WHOLE and row["pool"] in self.joined)
        parent = self.traces_by_id.get(row["parent_id"] or "") if read else None
        return parent is not None and self._lacks_text(parent, texts)


def choice_group(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The group of a trace, among whose traces one is chosen."""
    return tuple(row[name] for name in GROUP)


def read_block(log: Log, wanted: pl.DataFrame, columns: Sequence[str] = READ) -> TraceBlock:
    """Reads the examples of wanted traces (example_id, trace_id), with all their traces and nothing else."""
    ids = wanted["example_id"].unique().sort()
    within = pl.col("example_id").is_between(pl.lit(ids.first()), pl.lit(ids.last()))  # lets shards be passed over
    matches = within & pl.col("example_id").is_in(ids.implode())
    traces = collect(log.scan("traces", columns).filter(matches), log).sort(ORDER)
    examples = collect(log.scan("examples").filter(matches), log).sort("example_id")
    return TraceBlock(examples, traces, frozenset(wanted["trace_id"]), joined_pools(log))


def trace_blocks(log: Log, traces: pl.DataFrame, size: int, columns: Sequence[str] = READ) -> Iterator[TraceBlock]:
    """Yields blocks of whole examples in order, with about `size` traces that are read, wanted or not."""
    for wanted in wanted_by_block(log, traces, size):
        yield read_block(log, wanted, columns)


def wanted_by_block(log: Log, traces: pl.DataFrame, size: int) -> Iterator[pl.DataFrame]:
    """Yields the wanted traces (example_id, trace_id) of each block of `trace_blocks`."""
    examples = traces.select("example_id").unique()
    counts = collect(log.scan("traces", ["example_id"]).group_by("example_id").len(), log)
    for low, high in example_ranges([counts.join(examples, on="example_id", how="semi")], size):
        within = pl.col("example_id").is_between(pl.lit(low), pl.lit(high))
        yield traces.filter(within)


def prompt_about(template: Template, block: TraceBlock, row: Mapping[str, Any]) -> Prompt:
    """A prompt about one trace: `{{attempt}}` is its whole text, `{{answer}}` its answer; the example's columns are
    fields too.
    """
    values = {**block.fields[row["example_id"]], "attempt": block.full_text(row), "answer": row["answer"] or ""}
    return template.render(values)


def prompt_about_all(
    template: Template, block: TraceBlock, rows: Sequence[Mapping[str, Any]], lines: int | None
) -> Prompt:
    """A prompt about several traces of an example, which `{{attempts}}` numbers from 1."""
    from generate.tasks.formats import numbered_attempts

    texts = [block.full_text(row) for row in rows]
    if lines is not None:
        listed = numbered_attempts(texts, lines)
    else:
        listed = "\n\n".join(f"{number}) {text.strip()}" for number, text in enumerate(texts, start=1))
    return template.render({**block.fields[rows[0]["example_id"]], "attempts": listed})


def original_prompt(prompts: Mapping[str, Template], block: TraceBlock, row: Mapping[str, Any]) -> Prompt:
    """The prompt that a trace answered: in a revision's, `{{attempt}}`, `{{answer}}`, `{{reasoning}}` and `{{prompt}}`
    are its parent's, as in the recipe that made it. `prompts`: of each pool.
    """
    if row["pool"] not in prompts:
        raise RequiredError(
            f"the prompt of the pool `{row['pool']}` is not known: name a prompt file for it in `prompts`"
        )
    template, values = prompts[row["pool"]], dict(block.fields[row["example_id"]])
    if row["parent_id"] is None:
        return template.render(values)
    parent = block.traces_by_id.get(row["parent_id"])
    if parent is None:
        raise MismatchError(f"trace `{row['trace_id']}` revises `{row['parent_id']}`, which the log does not have")
    before = original_prompt(prompts, block, parent)
    thoughts, text = parent.get("reasoning"), parent["text"] or ""
    attempt = with_thoughts(thoughts, text) if row["pool"] in block.joined else text
    values |= {"attempt": attempt, "answer": parent["answer"] or "", "prompt": prompt_text(before)}
    return template.render({**values, "reasoning": thoughts or ""}, before)


def check_fields(template: Template, log: Log, further: Sequence[str]) -> None:
    """Raises ThinkbackError where a prompt has a field that no column of `examples` and none of `further` fills."""
    template.check_fields([*log.columns("examples"), "labels", *further])
