"""GSM8K (Cobbe et al. 2021, arXiv:2110.14168): grade-school problems with integer answers.

Published as `train.jsonl` and `test.jsonl` (also as Parquet) with `question` and `answer`; the answer is a worked
solution that ends in `#### 18`. LiLaVe trains on 1,000 questions of the training part (`choose = 1000`).

GSM-Symbolic, main, p1 and p2 (Mirzadeh et al. 2024, arXiv:2410.05229): GSM8K questions made again from templates.

Published as JSON lines with `id` (the template), `instance`, `question`, `answer` (as GSM8K's), `original_id` (the
question of GSM8K's test part that the template was made from), `original_question`, `original_answer`, `canary`.

The instances of one template share a cluster. It is named after the GSM8K question, so that main, p1 and p2, whose
templates were made from the same questions, cluster together in one log.
"""

from __future__ import annotations

import polars as pl

from generate.datasets.data_set import DataSet, LoadedDataSet, PublishedCount, ReadRequest, example_name, examples_frame
from generate.datasets.published import PublishedRow, read_rows
from toolkit.answers import number_form

_PUBLISHED = {"train": 7_473, "test": 1_319}


def _final_number(row: PublishedRow, column: str = "answer") -> str:
    """The normal form of the number after the last `####`."""
    _, mark, last = row.text(column).rpartition("####")
    number = number_form(last.strip()) if mark else None
    if number is None:
        raise row.column_error(column, "does not end in `####` and a number")
    return number


def _read_gsm8k(request: ReadRequest) -> LoadedDataSet:
    """Reads GSM8K's examples. `solution` is the published worked solution."""
    rows = [
        {
            "example_id": example_name(request, number),
            "question": row.text("question"),
            "gold": _final_number(row),
            "solution": row.text("answer"),
        }
        for number, row in enumerate(read_rows(request.files))
    ]
    count = PublishedCount(
        f"gsm8k {request.split} questions", len(rows), _PUBLISHED.get(request.split), "Cobbe et al. 2021"
    )
    return LoadedDataSet(examples_frame(request, rows, {"solution": pl.String()}), (count,))


GSM8K = DataSet(
    name="gsm8k",
    published_by="Cobbe et al. 2021, arXiv:2110.14168",
    files={split: (f"{split}.jsonl", f"main/{split}-*.parquet", f"{split}-*.parquet") for split in ("train", "test")},
    read=_read_gsm8k,
)


_SOURCE = "Mirzadeh et al. 2024: 50 instances a template"
_VARIANTS = {"gsm-symbolic": (5_000, 100), "gsm-symbolic-p1": (5_000, 100), "gsm-symbolic-p2": (2_500, 50)}


def _read_symbolic(request: ReadRequest) -> LoadedDataSet:
    """Reads the questions of one variant, all of which are test questions."""
    rows = []
    for row in read_rows(request.files):
        template, instance, original = (row.number_of(column) for column in ("id", "instance", "original_id"))
        rows.append(
            {
                "example_id": f"{request.name}-{template:04d}-{instance:02d}",
                "question": row.text("question"),
                "gold": _final_number(row),
                "cluster": f"gsm8k-test-{original:05d}",
                "solution": row.text("answer"),
                "template": template,
                "instance": instance,
            }
        )
    extra = {"solution": pl.String(), "template": pl.Int32(), "instance": pl.Int32()}
    examples = examples_frame(request, rows, extra)
    questions, templates = _VARIANTS[request.name]
    counts = (
        PublishedCount(f"{request.name} questions", examples.height, questions, _SOURCE),
        PublishedCount(f"{request.name} templates", examples["template"].n_unique(), templates, _SOURCE),
    )
    return LoadedDataSet(examples, counts)


def _symbolic_data_set(name: str, file: str, folder: str) -> DataSet:
    return DataSet(
        name=name,
        published_by="Mirzadeh et al. 2024, arXiv:2410.05229",
        files={"test": (file, f"generated_data/{file}", f"{folder}/test.jsonl", f"{folder}/test-*.parquet")},
        read=_read_symbolic,
    )


GSM_SYMBOLIC = _symbolic_data_set("gsm-symbolic", "GSM_symbolic.jsonl", "main")
GSM_SYMBOLIC_P1 = _symbolic_data_set("gsm-symbolic-p1", "GSM_p1.jsonl", "p1")
GSM_SYMBOLIC_P2 = _symbolic_data_set("gsm-symbolic-p2", "GSM_p2.jsonl", "p2")
