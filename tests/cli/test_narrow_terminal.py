"""What commands print on a terminal of 80 columns, and in a column of 3.3 inches."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from thinkback.commands.curves import _paired_table, _table
from toolkit.log import describe_log, open_log
from toolkit.show import Table

VERIFIERS = ("a_reward_model", "b_reward_model", "c_reward_model", "d_reward_model", "the_best_of_all")


def curves() -> tuple[Table, Table]:
    import polars as pl

    rows, pairs = [], []
    for k in (1, 2, 4):
        rows += [("pool of samples", None, one, k, 0.5, 0.4, 0.6, 500) for one in ("avg", "pass", "majority")]
        for place, name in enumerate(VERIFIERS):
            value = 0.5 + 0.01 * k * place
            rows.append(("pool of samples", name, "best", k, value, value - 0.1, value + 0.1, 500))
            pairs.append(
                (
                    k,
                    *("pool of samples", "best", name),
                    *("pool of samples", "majority", None),
                    value - 0.5,
                    *(-0.1, 0.1),
                )
            )
        pairs.append((k, "pool of samples", "majority", None, "pool of samples", "avg", None, 0.0, -0.1, 0.1))
    frame = pl.DataFrame(
        rows,
        ["pool", "verifier", "metric", "k", "estimate", "low", "high", "n"],
        orient="row",
        infer_schema_length=None,
    )
    sides = [f"{side}_{what}" for side in ("first", "second") for what in ("pool", "metric", "verifier")]
    paired = pl.DataFrame(pairs, ["k", *sides, "difference", "low", "high"], orient="row", infer_schema_length=None)
    return _table(frame, "Curves", False, 0.95, []), _paired_table(paired, "log", False, 0.95)


@pytest.mark.parametrize("number", [0, 1])
def test_curves_of_many_verifiers_fit_and_keep_the_best(number: int) -> None:
    table = curves()[number]
    text = table.terminal(80)
    assert max(map(len, text.splitlines())) <= 80
    hidden = re.search(r" hidden [a-z ]+: ([^.]+)\.", " ".join(text.split()))
    assert hidden is not None
    assert "the_best_of_all" not in hidden[1]
    assert "the_best_of_all" in text.partition("─")[0]
    latex = table.latex("tab:curves", "3.3in")
    assert "best\\_of\\_all" in latex.partition("\\midrule")[0]


def test_the_list_of_examples_fits(
    thinkback: Callable, log: Path, policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = thinkback("replay", log, "--policies", policies, "--out", "out", "--resamples", "50")
    assert ran.exit_code == 0, ran.output
    monkeypatch.setenv("COLUMNS", "80")
    two = thinkback("compare", "out", "best of 4", "vote")
    assert max(map(len, two.stdout.splitlines())) <= 80
    assert re.search(r"^Examples .* best of 4 and vote ", two.stdout, re.MULTILINE)


def test_describe_keeps_what_is_right(log: Path) -> None:
    text = describe_log(open_log(log)).terminal(80)
    assert "right" in text.partition("Verifiers")[0]
