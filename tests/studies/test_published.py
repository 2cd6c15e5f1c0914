"""The published arithmetic: every check of the transcription gives what it says."""

from __future__ import annotations

import ast
import math
import operator
from typing import Any

import pytest

from replay.studies.factcheck.fidelity import GOLD
from replay.studies.factcheck.published import WORK, published
from replay.studies.kit.published import read_published
from tests.errors import refuses

CHECKS = read_published(WORK.name)["checks"]
BINARY: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}  # fmt: skip
COMPARE: dict[type, Any] = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
CALLS = {"min": min, "max": max, "log10": math.log10}


def value(node: Any) -> float:
    """Arithmetic as the transcription writes it."""
    if isinstance(node, str):
        return value(ast.parse(node, mode="eval").body)
    if isinstance(node, ast.Constant):
        return float(node.value)
    if isinstance(node, ast.UnaryOp):
        return -value(node.operand)
    if isinstance(node, ast.BinOp):
        return BINARY[type(node.op)](value(node.left), value(node.right))
    if isinstance(node, ast.Compare):
        return float(COMPARE[type(node.ops[0])](value(node.left), value(node.comparators[0])))
    if isinstance(node, ast.Call):
        return float(CALLS[node.func.id](*(value(argument) for argument in node.args)))  # type: ignore[attr-defined]
    raise AssertionError(ast.dump(node))


@pytest.mark.parametrize("check", CHECKS, ids=[check["id"] for check in CHECKS])
def test_published_arithmetic(check: dict) -> None:
    found = value(check["left"])
    assert found == pytest.approx(check["value"], rel=1e-6, abs=1e-6)
    assert (abs(found - check["right"]) <= check["tolerance"] + 1e-12) == check["holds"]


def test_numbers_are_found_by_table_and_row() -> None:
    quantemp, claimdecomp = published("quantemp"), published("claimdecomp")
    assert quantemp.number_in_row("5.1", "macro_f1_pct", method="exhaustive best-of-n") == 51.49
    assert claimdecomp.number_in_row("5.3", "verifier_calls", method="adaptive stopping") == 1441
    assert quantemp.number_in_row("5.8", "accuracy_pct", method="surrogate-guided") == 46.97
    assert claimdecomp.number_in_row("5.8", "accuracy_pct", method="surrogate-guided") is None
    assert quantemp.number_in_row("B.4", "random_macro_f1_pct", pool="QuanTemp test", k=7) == 49.10
    assert quantemp.number_in_row("5.3", "operations_change_pct", method="exhaustive best-of-n") is None
    with refuses("unknown", "`claimdecomp`"):
        published("claimdecom")


def test_a_number_of_the_text() -> None:
    assert (WORK.number_in_text(GOLD["quantemp"]), WORK.number_in_text(GOLD["claimdecomp"])) == (72.5, 71.5)
