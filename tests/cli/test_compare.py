"""`thinkback compare`, and `thinkback replay --headroom`."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import replay
from generate.simulation.grid import simulate
from tests.cli.conftest import POLICIES
from tests.errors import quotes, says
from thinkback.app import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two results on the same log, of which the second has three policies."""
    folder = tmp_path_factory.mktemp("compare")
    simulate(folder / "log", examples=120, traces=4, labels=3, seed=3, name="small")
    (folder / "all.toml").write_text(POLICIES)
    (folder / "some.toml").write_text("\n\n".join(POLICIES.strip().split("\n\n")[:3]))
    for name, asked in {"all": ("--headroom",), "some": ()}.items():
        words = ["replay", str(folder / "log"), "--policies", str(folder / f"{name}.toml"), "--resamples", "100"]
        done = CliRunner().invoke(app, [*words, "--baseline", "greedy", "--out", str(folder / f"{name}-out"), *asked])
        assert done.exit_code == 0, done.output
        (folder / f"{name}.txt").write_text(done.output)
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_all_pairs(thinkback: Callable, folder: Path, tmp_path: Path) -> None:
    result = thinkback("compare", folder / "all-out", "--out", "pairs")
    assert result.exit_code == 0
    assert replay.load(folder / "all-out").compare().table().title in result.stdout
    assert "pairs/: pairs.csv, table.md" in result.stdout
    found = rows(tmp_path / "pairs" / "pairs.csv")
    assert len(found) == 10  # five policies that see no gold
    assert found[0].keys() == {
        "first", "second", "metric", "difference", "low", "high", "p_value", "differs", "fixes", "flips", "n", "method",
        "simulated",
    }  # fmt: skip
    assert thinkback("compare", folder / "all-out", "--out", "pairs").exit_code == 2
    assert thinkback("compare", folder / "all-out", "--out", "pairs", "--force").exit_code == 0


def test_two_policies(thinkback: Callable, folder: Path, tmp_path: Path) -> None:
    result = thinkback("compare", folder / "all-out", "best of 4", "vote", "--out", "two")
    assert result.exit_code == 0
    made = replay.load(folder / "all-out").compare("best of 4", "vote")
    for table in (made.table(), made.examples_table()):
        assert table is not None
        quotes(table.title, "best of 4", "vote")
        assert table.title in result.stdout
    assert {path.name for path in (tmp_path / "two").iterdir()} == {
        "table.md", "table.tex", "pairs.csv", "metrics.csv", "examples.csv"
    }  # fmt: skip
    changes = [row["change"] for row in rows(tmp_path / "two" / "examples.csv")]
    [pair] = rows(tmp_path / "two" / "pairs.csv")
    assert (str(changes.count("fix")), str(changes.count("flip"))) == (pair["fixes"], pair["flips"])


def test_two_results(thinkback: Callable, folder: Path) -> None:
    result = thinkback("compare", folder / "some-out", "--with", folder / "all-out", "--metric", "total_tokens")
    assert result.exit_code == 0
    assert "by tokens" in result.stdout
    one = thinkback("compare", folder / "some-out", "vote", "--with", folder / "all-out")
    assert one.exit_code == 0
    assert "vote (first) against vote (second) on small" in one.stdout


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("nowhere",), ("format", "`nowhere`")),
        (("RESULT", "vot", "greedy"), ("unknown", "`vot`", "`vote`")),
        (("RESULT", "vote"), ("required",)),
        (("RESULT", "--metric", "tokns"), ("unknown", "`tokns`")),
        (("RESULT", "--out", "RESULT", "--force"), ("conflict", "all-out`")),
    ],
)
def test_mistakes(thinkback: Callable, folder: Path, words: tuple[str, ...], refusal: tuple[str, ...]) -> None:
    before = sorted(path.name for path in (folder / "all-out").iterdir())
    result = thinkback("compare", *(folder / "all-out" if word == "RESULT" else word for word in words))
    assert result.exit_code == 2
    says(result, *refusal)
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in (folder / "all-out").iterdir()) == before


def test_headroom_of_a_replay(folder: Path) -> None:
    printed = (folder / "all.txt").read_text()
    title = replay.load(folder / "all-out").headroom().table().title
    quotes(title, "small", "any of 4")
    assert title in printed
    assert {"gaps.parquet", "headroom.csv", "headroom.md"} <= {path.name for path in (folder / "all-out").iterdir()}
    found = {row["policy"]: row for row in rows(folder / "all-out" / "headroom.csv")}
    assert len(found) == 6
    assert float(found["any of 4"]["selection"]) == 0
    parts = sum(float(found["vote"][part]) for part in ("generation", "stopping", "selection"))
    assert parts == pytest.approx(1 - float(found["vote"]["accuracy"]))
    assert title.partition(":")[0] not in (folder / "some.txt").read_text()


def test_headroom_needs_an_oracle(thinkback: Callable, folder: Path, tmp_path: Path) -> None:
    result = thinkback(
        "replay", folder / "log", "--policies", folder / "some.toml", "--resamples", "20", "--headroom", "--out", "o"
    )
    assert result.exit_code == 2
    says(result, "required", '`kind = "oracle"`', "`oracle`")
    assert not (tmp_path / "o").exists()
