"""Examples that an action fixes and flips, with their texts: the first of each kind by their ids."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from toolkit.log import Log, collect
from toolkit.printable import printable
from toolkit.show import SIMULATED, table_of
from toolkit.show.tables.table import markdown_cell, markdown_note

MOST = 3
"""How many examples of each kind are given."""
LONGEST = 2_000
"""How many characters of a text are given."""
Outcome = np.ndarray
KINDS: dict[str, tuple[str, Callable[[Outcome, Outcome, Outcome], Outcome]]] = {
    "fixed": ("the gate fires and the action repairs the answer", lambda fix, flip, acted: (fix > 0) & acted),
    "flipped": ("the gate fires and the action spoils the answer", lambda fix, flip, acted: (flip > 0) & acted),
    "missed repair": ("the gate is silent where the action would repair", lambda fix, flip, acted: (fix > 0) & ~acted),
    "avoided flip": ("the gate is silent where the action would spoil", lambda fix, flip, acted: (flip > 0) & ~acted),
}
"""The kinds of examples: what each means, and a mask (N,) of it from fixes, flips and whether the gate fires."""


@dataclass(frozen=True)
class RepairExample:
    """An example of one kind, with the base attempt and the first revision that makes it one."""

    kind: str
    example_id: str
    action: str
    question: str
    gold: str | None
    base_answer: str | None
    base_text: str | None
    revised_answer: str | None
    revised_text: str | None


def repair_examples(
    log: Log, base: str, action: str, pool: str | None, ids: Sequence[str], fix: np.ndarray, flip: np.ndarray,
    acted: np.ndarray,
) -> tuple[RepairExample, ...]:  # fmt: skip
    """The first examples of each kind, by fixes and flips (N,) of always acting, and by where the gate acts (N,)."""
    picks = [
        (kind, name) for kind, (_, where) in KINDS.items() for name in np.array(ids)[where(fix, flip, acted)][:MOST]
    ]
    texts = _texts_by_slice(log, base, action, pool, {name for _, name in picks})
    return tuple(_repair_example(kind, texts[name]) for kind, name in picks)


def _texts_by_slice(log: Log, base: str, action: str, pool: str | None, ids: set[str]) -> dict[str, pl.DataFrame]:
    """Example -> its question, base attempt and revisions by the action, in order."""
    columns = ["trace_id", "example_id", "pool", "action", "sample_index", "parent_id", "answer", "correct"]
    texts = [name for name in ("text",) if name in log.columns("traces")]
    predicate = pl.col("example_id").is_in(list(ids))
    traces = collect(log.scan("traces", [*columns, *texts]).filter(predicate), log)
    if not texts:
        traces = traces.with_columns(text=pl.lit(None, pl.String))
    examples = collect(log.scan("examples", ["example_id", "question", "gold"]).filter(predicate), log)
    first = traces.filter(
        (pl.col("action") == "solve") & (pl.col("pool") == base) & (pl.col("sample_index") == 0)
    ).select("example_id", parent_id="trace_id", base_answer="answer", base_text="text", was="correct")
    revised = traces.filter(action=action) if pool is None else traces.filter(action=action, pool=pool)
    rows = examples.join(first, on="example_id").join(revised, on=["example_id", "parent_id"])
    return {name: rows.filter(example_id=name).sort("sample_index") for name in ids}


def _repair_example(kind: str, rows: pl.DataFrame) -> RepairExample:
    right = kind in ("fixed", "missed repair")
    row = next(iter(rows.filter(pl.col("correct") == right).iter_rows(named=True)), rows.row(0, named=True))
    return RepairExample(
        kind, row["example_id"], row["action"], _cut_long_text(row["question"]) or "", row["gold"], row["base_answer"],
        _cut_long_text(row["base_text"]), row["answer"], _cut_long_text(row["text"]),
    )  # fmt: skip


def _cut_long_text(text: str | None) -> str | None:
    return text if text is None or len(text) <= LONGEST else text[:LONGEST] + " …"


EXAMPLES_NOTE = (
    f"`examples.md` has the first {MOST} examples by their ids, with texts, of each kind, and `examples.csv` the same "
    "as data: where an action repairs or spoils the answer, and where its gate keeps it from that"
)


def example_files(cases: Mapping[str, Sequence[RepairExample]], simulated: bool) -> dict[str, str]:
    """The examples as a CSV file and in Markdown, by file name."""
    rows = [{"dataset": name, **vars(case)} for name, dataset_cases in cases.items() for case in dataset_cases]
    table = table_of(pl.DataFrame(rows, infer_schema_length=None), "")
    words = [
        line
        for name, dataset_cases in cases.items()
        for line in (f"# {markdown_cell(printable(name))}\n", *_markdown_lines(dataset_cases))
    ]
    if simulated:
        words.insert(0, f"> **{SIMULATED}**\n")
    return {"examples.csv": table.csv({"simulated": "true"} if simulated else {}), "examples.md": "\n".join(words)}


def _markdown_lines(cases: Sequence[RepairExample]) -> Iterator[str]:
    """The lines of the examples in Markdown: a heading for each kind of each action, and the texts unchanged."""
    actions = dict.fromkeys(case.action for case in cases)
    for action, (kind, (meaning, _)) in itertools.product(actions, KINDS.items()):
        kind_cases = [case for case in cases if (case.action, case.kind) == (action, kind)]
        if kind_cases:
            yield f"## `{markdown_cell(printable(action))}`, {kind}: {meaning}\n"
        for case in kind_cases:
            gold, first, revised = (_answer_text(a) for a in (case.gold, case.base_answer, case.revised_answer))
            yield f"### {markdown_cell(case.example_id)}\n"
            yield f"Gold {gold}; base attempt {first}; after `{case.action}` {revised}.\n"
            texts = {"Question": case.question, "Base attempt": case.base_text, f"`{case.action}`": case.revised_text}
            yield from (f"{name}:\n\n{_markdown_block(text)}" for name, text in texts.items() if text)


def _answer_text(answer: str | None) -> str:
    return "none" if answer is None else markdown_note(f"`{printable(answer)}`")


def _markdown_block(text: str) -> str:
    """A text as a Markdown block in which nothing is read as markup."""
    return "\n".join(f"    {printable(line)}" for line in text.split("\n")) + "\n"
