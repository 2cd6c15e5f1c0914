"""Traces without a text: what reads texts passes them over by name, for an empty text is something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from generate.signals.additions import Addition, Asked, Features, LogProb, Random, TeacherForced
from generate.traces.block import Block

NO_TEXT = "the log has no text of it"


def reads_texts(step: Addition) -> bool:
    """Whether a step is nothing without the traces' texts."""
    if isinstance(step, Features):
        return step.kind != "serving"  # some of which are of the question
    return not isinstance(step, Random) and not (isinstance(step, LogProb) and step.model is None)


def with_texts(step: Addition, block: Block) -> tuple[Block, list[tuple[str, str]]]:
    """The block with only those traces wanted whose texts the log has, and the others with the reason. A choice is
    among all of a group or not made.
    """
    if not reads_texts(step):
        return block, []
    before = isinstance(step, TeacherForced)
    joined = not isinstance(step, Features)
    silent = {row["trace_id"]: NO_TEXT for row in block.rows if _silent(block, row, before, joined)}
    if isinstance(step, Asked) and step.kind == "listwise":
        groups = {_group(block.by_id[trace]) for trace in silent}
        among = "the log has no text of another that it was to be chosen among"
        silent = {r["trace_id"]: silent.get(r["trace_id"], among) for r in block.rows if _group(r) in groups}
    return replace(block, wanted=block.wanted - silent.keys()), list(silent.items())


def _silent(block: Block, row: Mapping[str, Any], before: bool, joined: bool) -> bool:
    """Whether the log lacks its text, or one that is read with it: of the attempt that it goes on from, or, where what
    stood `before` it is read, that it revises.
    """
    if row["text"] is None:
        return True
    read = before or (joined and row["pool"] in block.joined)
    parent = block.by_id.get(row["parent_id"] or "") if read else None
    return parent is not None and _silent(block, parent, before, joined)


def _group(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["example_id"], row["pool"], row["action"], row["parent_id"]
