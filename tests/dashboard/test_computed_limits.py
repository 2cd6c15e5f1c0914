"""Limits of differences that the page computes from all outcomes, beside those of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.dashboard.conftest import Open
from toolkit.stats.limits.discordant import EXACT_PAIRS, exact_p_value, tango_limits

COMPUTED = """([pairs, given]) => {
  const codes = (of) => Int8Array.from(pairs.flatMap(([values, count]) => Array(count).fill(values[of])));
  const side = (of) => {
    const known = codes(of);
    const there = known.filter((code) => code >= 0);
    const { quantile = 1.984, ...more } = given;
    const outcomes = { known, low: 0, high: 1, levels: 56, changes: true, share: true, level: 0.95,
      normal: 1.959963984540054, units: null, count: known.length, quantile, ...more };
    return { outcomes, estimate: [there.reduce((sum, code) => sum + code, 0) / 56 / there.length] };
  };
  const found = computedDifferences(side(0), side(1), 0);
  return ["low", "high", "p", "differs", "few", "fixes", "flips"].map((part) => found[part][0]);
}"""
"""What the page computes of two policies of these codes, each pair so often."""


def test_limits_of_few_differing_examples_are_tangos(browse: Open, page_file: Path) -> None:
    """4:0 and 5:0 of 100 are not told apart, since McNemar's p is 2/16 and 2/32; 6:0, of 2/64, is."""
    page = browse(page_file)

    def computed(*pairs: tuple[tuple[int, int], int], **given: object) -> list[Any]:
        return page.page.evaluate(COMPUTED, [pairs, given])

    def tables(more: int, less: int, n: int = 100) -> list[tuple[tuple[int, int], int]]:
        return [((56, 0), more), ((0, 56), less), ((56, 56), n - more - less)]

    for more, less in ((4, 0), (5, 0), (0, 5), (6, 0), (5, 1), (0, 0), (12, 7), (15, 2)):
        low, high, p, differs, few, *changes = computed(*tables(more, less))
        assert [low, high] == pytest.approx([*map(float, tango_limits(more, less, 100))], abs=1e-9)
        exact = float(exact_p_value(more, less))
        assert p == (pytest.approx(exact) if more + less < EXACT_PAIRS else None)
        assert differs == ((low > 0 or high < 0) and (p is None or exact <= 0.05))
        assert [few, *changes] == [False, more, less]
    assert [computed(*tables(more, 0))[3] for more in (4, 5, 6)] == [False, False, True]
    apart = np.repeat([1.0, -1.0, 0.0], [30, 1, 69])
    half = 1.984 * apart.std(ddof=1) / 10
    score = [*map(float, tango_limits(30, 1, 100))]
    wider = [min(0.29 - half, score[0]), max(0.29 + half, score[1])]
    assert computed(*tables(30, 1))[:3] == pytest.approx([*wider, None], abs=1e-9)
    assert computed(*tables(30, 0, 30))[:2] == pytest.approx([float(tango_limits(30, 0, 30)[0]), 1], abs=1e-9)
    assert computed(*tables(25, 5, 30), quantile=9.0)[:2] == [
        pytest.approx(2 / 3 - 9 * np.repeat([1, -1], [25, 5]).std(ddof=1) / 30**0.5),
        1,
    ]


def test_limits_of_means_and_of_clusters(browse: Open, page_file: Path) -> None:
    """Where 4 means differ, or 4 of 100 examples in clusters, there are no limits; nor of fewer than 3 clusters."""
    page = browse(page_file)

    def computed(*pairs: tuple[tuple[int, int], int], **given: object) -> list[Any]:
        return page.page.evaluate(COMPUTED, [pairs, given])

    assert computed(((28, 0), 4), ((56, 56), 96)) == [None, None, None, None, True, 4, 0]
    assert computed(((28, 0), 25), ((56, 56), 75))[4] is False
    few, many = [((56, 0), 4), ((56, 56), 96)], [((56, 0), 40), ((0, 56), 20), ((56, 56), 40)]
    for units, of, none in ((3, few, True), (2, many, True), (3, many, False)):
        low, *_, lacks, _, _ = computed(*of, units=[number % units for number in range(100)], count=units)
        assert [low is None, lacks] == [none, none]


def test_the_word_few_stands_where_there_are_no_limits(browse: Open, page_file: Path) -> None:
    """A difference without limits says so beside its number and in the table below."""
    page = browse(page_file)
    row = page.js(
        """differenceRow({ scale: 100, decimals: 1 }, "vote", 0,
          (part) => ({ difference: 0.04, few: true, p: 0.03125 })[part] ?? null)"""
    )
    assert [row[part] for part in ("said", "p", "told", "few")] == ["+4.0 (few)", "0.0313", "no limits", True]
    page.js(
        """{
          const quality = metric(current().metric);
          const row = differenceRow(quality, "vote", 0, (part) => ({ difference: 0.04, few: true })[part] ?? null);
          drawForest("forest", [row], quality, "first", "");
        }"""
    )
    page.settled()
    page.js("document.querySelector('#forest-numbers').open = true")
    assert page.js("[...document.querySelectorAll('#forest-numbers tbody td')].at(-1).innerText") == "few"
