"""The published numbers of LiLaVe, looked up by the data set that a log names; empty where it has no such row."""

from __future__ import annotations

import re
from collections.abc import Mapping

from replay.studies.kit.published import PublishedRow, PublishedWork

WORK = PublishedWork(
    "lilave",
    {
        "gsm8k": "GSM8K", "gsmsymbolic": "GSM-Symbolic", "gsmsymbolicp2": "GSM-Symbolic-p2",
        "algebralinear1d": "algebra_linear_1d", "math500": "MATH500", "math": "MATH500",
    },
)  # fmt: skip
BY_BENCHMARK = ("1", "2", "3")
MODELS = {
    "llama_3_1_8b_auc": "Llama 3.1 8B", "gemma_2_2b_auc": "Gemma 2 2B", "phi_3_5_mini_auc": "Phi-3.5-mini",
}  # fmt: skip
"""The paper's base models by the columns of its table 2."""
TESTED = {
    "tested_gsm8k_auc": "GSM8K", "tested_algebra_linear_1d_auc": "algebra_linear_1d", "tested_math_auc": "MATH500",
}  # fmt: skip
"""Its test sets by the columns of table 4."""
REWARDS = {"orm_mistral_auc": "ORM-Mistral", "orm_deepseek_auc": "ORM-Deepseek"}
"""Its reward models by the columns of table 1."""
SHORT = {"MATH500": "MATH"}
"""What table 4 calls a data set."""


def published_row(table: str, dataset: str) -> PublishedRow:
    """The areas of a data set in table 1, 2 or 3."""
    name = WORK.dataset(dataset)
    return WORK.row(table, dataset, benchmark=name)


def published_transfer(dataset: str) -> PublishedRow:
    """The areas of a verifier that was trained on a data set (table 4)."""
    name = WORK.dataset(dataset)
    return {} if name is None else WORK.row("4", dataset, trained_on=SHORT.get(name, name))


def is_of(name: str, column: str, columns: Mapping[str, str]) -> bool:
    """Whether a model or verifier of a log, by its name, is that of a published column."""
    return _plain(columns[column]) in _plain(name)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
