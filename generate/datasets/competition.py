"""MATH (Hendrycks et al. 2021, arXiv:2103.03874) and MATH500, its test subset (Lightman et al. 2023, arXiv:2305.20050).

MATH is published as `train/SUBJECT/17.json`, one problem a file, with `problem`, `level` ("Level 5"), `type` (the
subject) and `solution`, whose last `\\boxed{…}` is the answer; also as JSON lines or Parquet of the same columns.
MATH500 is JSON lines with `problem`, `solution`, `answer`, `subject`, `level` (5) and `unique_id`.

The gold answer of either is the text in the box, a number in its normal form where it is one. Two problems of MATH
have the level "Level ?": null. SeVRA takes 2,000 training problems, apart from MATH500 (`choose`, `exclude`), a fifth
of them for development (`dev_share`); LiLaVe takes 1,000.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from generate.datasets.data_set import DataSet, LoadedDataSet, PublishedCount, ReadRequest, example_name, examples_frame
from generate.datasets.published import PublishedRow, find_files, fold_white_space, read_rows
from toolkit.answers import boxed, number_form

_MATH = {"train": 7_500, "test": 5_000}
_EXTRA = {"subject": pl.String(), "level": pl.Int32(), "solution": pl.String()}


def _read_math(request: ReadRequest) -> LoadedDataSet:
    """Reads MATH's problems, without those in the MATH500 file that the option `exclude` names."""
    rows = [_example(request, number, row, "type") for number, row in enumerate(read_rows(request.files))]
    examples = examples_frame(request, rows, _EXTRA)
    source = "Hendrycks et al. 2021"
    counts = [PublishedCount(f"math {request.split} problems", examples.height, _MATH.get(request.split), source)]
    if "exclude" in request.options:
        excluded = read_rows(find_files(request.options["exclude"], MATH500_FILES))
        barred = {fold_white_space(row.text("problem")) for row in excluded}
        unbarred = examples.filter([fold_white_space(question) not in barred for question in examples["question"]])
        overlap = examples.height - unbarred.height
        counts.append(PublishedCount(f"math {request.split} problems that are in the excluded file", overlap))
        examples = unbarred
    return LoadedDataSet(examples, tuple(counts))


def _read_math500(request: ReadRequest) -> LoadedDataSet:
    rows = [_example(request, number, row, "subject") for number, row in enumerate(read_rows(request.files))]
    examples = examples_frame(request, rows, _EXTRA)
    count = PublishedCount("math500 problems", examples.height, 500, "Lightman et al. 2023; SeVRA, section 5")
    return LoadedDataSet(examples, (count,))


def _example(request: ReadRequest, number: int, row: PublishedRow, subject: str) -> dict[str, Any]:
    return {
        "example_id": _problem_name(request, number, row),
        "question": row.text("problem"),
        "gold": _gold(row),
        "subject": row.text(subject),
        "level": _level(row),
        "solution": row.text("solution"),
    }


def _problem_name(request: ReadRequest, number: int, row: PublishedRow) -> str:
    """The publishers' name of a problem (`test/algebra/17.json`), or that of the file that holds it alone."""
    published = row.optional_text("unique_id")
    if published is None and len(request.files) > 1 and row.file.suffix == ".json":
        published = "/".join((request.split, *row.file.parts[-2:]))
    return f"{request.name}/{published}" if published else example_name(request, number)


def _gold(row: PublishedRow) -> str:
    answer = row.optional_text("answer")
    if answer is None:
        answer = boxed(row.text("solution"))
    if not answer:
        raise row.column_error("solution", "holds no `\\boxed{…}` that closes, and there is no column `answer`")
    return number_form(answer) or answer


def _level(row: PublishedRow) -> int | None:
    value = row.values.get("level")
    match = re.fullmatch(r"(?:Level )?([1-5?])", str(value).strip())
    if match is None:
        raise row.column_error("level", f"`{value}` is not a level: `Level 1` to `Level 5`, or 1 to 5")
    return None if match[1] == "?" else int(match[1])


MATH500_FILES = ("test.jsonl", "math500.jsonl", "test-*.parquet", "*.jsonl")

MATH = DataSet(
    name="math",
    published_by="Hendrycks et al. 2021, arXiv:2103.03874",
    files={
        split: (f"{split}/*/*.json", f"MATH/{split}/*/*.json", f"{split}.jsonl", f"{split}-*.parquet",
                f"*/{split}-*.parquet")
        for split in ("train", "test")
    },
    read=_read_math,
    options={"exclude": "a MATH500 file whose problems are left out"},
)  # fmt: skip

MATH500 = DataSet(
    name="math500",
    published_by="Lightman et al. 2023, arXiv:2305.20050",
    files={"test": MATH500_FILES},
    read=_read_math500,
)
