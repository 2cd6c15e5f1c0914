"""CommonsenseQA (Talmor et al. 2019, arXiv:1811.00937): one question, five choices, one right letter.

Published as `train_rand_split.jsonl`, `dev_rand_split.jsonl` and `test_rand_split_no_answers.jsonl` with `id`,
`answerKey` and `question` (`stem`, `question_concept`, `choices`: a list of `label` and `text`), and as Parquet with
`question` a text and `choices` two lists. The published test part has no answers: its gold is null. SeVRA evaluates on
the 1,221 questions of the validation part, here `dev`.

`question` is the stem with one choice a line behind it; `stem` and `choices` hold them apart.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from generate.datasets.data_set import DataSet, LoadedDataSet, PublishedCount, ReadRequest, examples_frame
from generate.datasets.published import PublishedRow, read_rows

LABELS = ("A", "B", "C", "D", "E")
_PUBLISHED = {
    "train": (9_741, "Talmor et al. 2019, random split"),
    "dev": (1_221, "SeVRA, appendix W"),
    "test": (1_140, "Talmor et al. 2019, random split"),
}


def read(request: ReadRequest) -> LoadedDataSet:
    """Reads CommonsenseQA's questions."""
    rows = [_example(request, row) for row in read_rows(request.files)]
    extra = {"stem": pl.String(), "choices": pl.List(pl.String()), "concept": pl.String()}
    examples = examples_frame(request, rows, extra, LABELS)
    published, source = _PUBLISHED[request.split]
    return LoadedDataSet(
        examples, (PublishedCount(f"commonsenseqa {request.split} questions", examples.height, published, source),)
    )


def _example(request: ReadRequest, row: PublishedRow) -> dict[str, Any]:
    nested = isinstance(row.values.get("question"), dict)
    stem = row.text("question.stem" if nested else "question")
    choices = _choices(row, "question.choices" if nested else "choices")
    gold = row.optional_text("answerKey")
    if gold is None and request.split != "test":
        row.text("answerKey")
    if gold is not None and gold not in LABELS:
        raise row.column_error("answerKey", f"`{gold}` is not one of the letters A to E")
    listed = "\n".join(f"({label}) {text}" for label, text in zip(LABELS, choices, strict=True))
    return {
        "example_id": f"{request.name}-{row.text('id')}",
        "question": f"{stem}\n{listed}",
        "gold": gold,
        "stem": stem,
        "choices": choices,
        "concept": row.optional_text("question.question_concept" if nested else "question_concept"),
    }


def _choices(row: PublishedRow, column: str) -> list[str]:
    """The five texts, in the order of their letters."""
    value = row.values.get("question", {}).get("choices") if column.startswith("question.") else row.values.get(column)
    if isinstance(value, dict):
        pairs = list(zip(value.get("label") or (), value.get("text") or (), strict=False))
    elif isinstance(value, list) and all(isinstance(one, dict) for one in value):
        pairs = [(one.get("label"), one.get("text")) for one in value]
    else:
        raise row.column_error(column, "is not a list of choices with `label` and `text`")
    if any(not isinstance(text, str) for _, text in pairs) or sorted(str(label) for label, _ in pairs) != list(LABELS):
        raise row.column_error(column, f"has {len(pairs)} choices; the published form has five texts, labelled A to E")
    return [text.strip() for _, text in sorted(pairs)]


COMMONSENSEQA = DataSet(
    name="commonsenseqa",
    published_by="Talmor et al. 2019, arXiv:1811.00937",
    files={
        "train": ("train_rand_split.jsonl", "train.jsonl", "train-*.parquet", "data/train-*.parquet"),
        "dev": ("dev_rand_split.jsonl", "validation.jsonl", "validation-*.parquet", "data/validation-*.parquet"),
        "test": ("test_rand_split_no_answers.jsonl", "test.jsonl", "test-*.parquet", "data/test-*.parquet"),
    },
    read=read,
)
