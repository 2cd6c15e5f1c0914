"""`thinkback figure`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.errors import says


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the result that all tests here read."""
    return tmp_path_factory.mktemp("kept") / "result"


@pytest.fixture
def replayed(thinkback: Callable, log: Path, policies: Path, kept: Path) -> Path:
    if not kept.exists():
        done = thinkback("replay", log, "--policies", policies, "--resamples", "50", "--out", kept, "--headroom")
        assert done.exit_code == 0, done.output
    return kept


def test_a_figure_of_a_saved_result(thinkback: Callable, replayed: Path, tmp_path: Path) -> None:
    done = thinkback("figure", replayed, "forest", "--out", "one.pdf", "--width", "3.3in", "--baseline", "vote")
    assert done.exit_code == 0, done.output
    assert "one.pdf, one.csv" in done.stdout
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")
    assert ",vote,accuracy," in (tmp_path / "one.csv").read_text()
    again = thinkback("figure", replayed, "forest", "--out", "one.pdf")
    assert again.exit_code == 2
    assert "exists" in again.stderr
    assert thinkback("figure", replayed, "forest", "--out", "one.pdf", "--force").exit_code == 0
    assert thinkback("figure", replayed, "headroom", "--out", "all", "--policy", "stop early").exit_code == 0
    assert {path.name for path in tmp_path.glob("all.*")} == {"all.pdf", "all.svg", "all.png", "all.csv"}


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["pie", "--out", "x.pdf"], ("unknown", "`pie`")),
        (["forest", "--out", "x.tiff"], ("invalid", "`.pdf`", "`.svg`")),
        (["stopping", "--out", "x.pdf", "--oracle", "any of 4"], ("conflict", "`--oracle`", "`headroom`")),
        (["forest", "--out", "x.pdf", "--width", "1in"], ("invalid", "`1in`")),
        (["gates", "--out", "x.pdf"], ("empty", "`below = [0.2, 0.5]`", "`below = { quantiles = 10 }`")),
    ],
)
def test_mistakes_are_said_in_one_line(
    thinkback: Callable, replayed: Path, tmp_path: Path, words: list[str], refusal: tuple[str, ...]
) -> None:
    done = thinkback("figure", replayed, *words)
    assert done.exit_code == 2
    says(done, *refusal)
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("x.*"))
