"""GSM-Symbolic, main, p1 and p2 (Mirzadeh et al. 2024, arXiv:2410.05229): GSM8K questions made again from templates.

Published as JSON lines with `id` (the template), `instance`, `question`, `answer` (as GSM8K's), `original_id` (the
question of GSM8K's test part that the template was made from), `original_question`, `original_answer`, `canary`.

The instances of one template share a cluster. It is named after the GSM8K question, so that main, p1 and p2, whose
templates were made from the same questions, cluster together in one log.
"""

from __future__ import annotations

import polars as pl

from generate.datasets.counting import Count
from generate.datasets.data_set import DataSet, Loaded, ReadRequest, frame
from generate.datasets.gsm8k import final_number
from generate.datasets.published import read_rows

_SOURCE = "Mirzadeh et al. 2024: 50 instances a template"
_PUBLISHED = {"gsm-symbolic": (5_000, 100), "gsm-symbolic-p1": (5_000, 100), "gsm-symbolic-p2": (2_500, 50)}


def read(request: ReadRequest) -> Loaded:
    """The questions of one variant, all of them test questions."""
    rows = []
    for row in read_rows(request.files):
        template, instance, original = (row.number_of(name) for name in ("id", "instance", "original_id"))
        rows.append(
            {
                "example_id": f"{request.name}-{template:04d}-{instance:02d}",
                "question": row.text("question"),
                "gold": final_number(row),
                "cluster": f"gsm8k-test-{original:05d}",
                "solution": row.text("answer"),
                "template": template,
                "instance": instance,
            }
        )
    extra = {"solution": pl.String(), "template": pl.Int32(), "instance": pl.Int32()}
    examples = frame(request, rows, extra)
    questions, templates = _PUBLISHED[request.name]
    counts = (
        Count(f"{request.name} questions", examples.height, questions, _SOURCE),
        Count(f"{request.name} templates", examples["template"].n_unique(), templates, _SOURCE),
    )
    return Loaded(examples, counts)


def _variant(name: str, file: str, folder: str) -> DataSet:
    return DataSet(
        name=name,
        published_by="Mirzadeh et al. 2024, arXiv:2410.05229",
        files={"test": (file, f"generated_data/{file}", f"{folder}/test.jsonl", f"{folder}/test-*.parquet")},
        read=read,
    )


GSM_SYMBOLIC = _variant("gsm-symbolic", "GSM_symbolic.jsonl", "main")
GSM_SYMBOLIC_P1 = _variant("gsm-symbolic-p1", "GSM_p1.jsonl", "p1")
GSM_SYMBOLIC_P2 = _variant("gsm-symbolic-p2", "GSM_p2.jsonl", "p2")
