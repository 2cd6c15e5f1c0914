"""GSM8K (Cobbe et al. 2021, arXiv:2110.14168): grade-school problems with whole-number answers.

Published as `train.jsonl` and `test.jsonl` (also as Parquet) with `question` and `answer`; the answer is a worked
solution that ends in `#### 18`. LiLaVe trains on 1,000 questions of the training part (`choose = 1000`).
"""

from __future__ import annotations

import polars as pl

from generate.datasets.counting import Count
from generate.datasets.data_set import DataSet, Loaded, ReadRequest, example_name, frame
from generate.datasets.published import PublishedRow, read_rows
from toolkit.answers import number_form

_PUBLISHED = {"train": 7_473, "test": 1_319}


def final_number(row: PublishedRow, column: str = "answer") -> str:
    """The normal form of what stands behind the last `####`."""
    _, mark, last = row.text(column).rpartition("####")
    number = number_form(last.strip()) if mark else None
    if number is None:
        raise row.fail(column, "does not end in `####` and a number")
    return number


def read(request: ReadRequest) -> Loaded:
    """GSM8K's examples. `solution` is the published worked solution."""
    rows = [
        {
            "example_id": example_name(request, number),
            "question": row.text("question"),
            "gold": final_number(row),
            "solution": row.text("answer"),
        }
        for number, row in enumerate(read_rows(request.files))
    ]
    count = Count(f"gsm8k {request.split} questions", len(rows), _PUBLISHED.get(request.split), "Cobbe et al. 2021")
    return Loaded(frame(request, rows, {"solution": pl.String()}), (count,))


GSM8K = DataSet(
    name="gsm8k",
    published_by="Cobbe et al. 2021, arXiv:2110.14168",
    files={split: (f"{split}.jsonl", f"main/{split}-*.parquet", f"{split}-*.parquet") for split in ("train", "test")},
    read=read,
)
