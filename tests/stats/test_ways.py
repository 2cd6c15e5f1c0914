"""Outcomes that policies share give the same facts, sums and tables, bit by bit, as rows of each policy's own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.stats import Settings, summarise
from toolkit.stats.bootstrap.bootstrap import resampled_sums
from toolkit.stats.metrics.facts import StatisticFacts
from toolkit.stats.metrics.metrics import Statistic, statistic_rows
from toolkit.stats.metrics.outcomes import CHUNK, Key, Store
from toolkit.stats.metrics.resamples import Resamples
from toolkit.stats.metrics.scan import Units, scan_statistics
from toolkit.stats.metrics.spill import Floats, Ints
from toolkit.stats.metrics.strata import Strata

LABELS = ("x", "y")
DRAWN = Settings(resamples=300)


@dataclass
class Table:
    """Outcomes (W,) by column, and the one (P, E) of each policy and example; `shared`: whether rows are told."""

    columns: dict[Key, Floats]
    row: Ints
    shared: bool = True
    keys: Collection[Key] = field(init=False)

    def __post_init__(self) -> None:
        self.keys = self.columns.keys()

    @property
    def size(self) -> int:
        return self.row.shape[1]

    def values(self, key: Key, policies: Ints, start: int, stop: int) -> Floats:
        return self.columns[key][self.row[policies, start:stop]]

    def outcome_rows(self, start: int, stop: int) -> Ints | None:
        return self.row[:, start:stop] if self.shared else None

    def at_rows(self, key: Key, rows: Ints) -> Floats:
        return self.columns[key][rows]


def random_rows(rng: np.random.Generator, policies: int, examples: int) -> Ints:
    """Rows (P, E) that ascend from policy to policy in a hidden order, with a new one at about every fifth step."""
    steps = rng.random((policies, examples)) < 0.2
    steps[0] = True
    numbers = np.cumsum(steps.T.ravel()).reshape(examples, policies).T - 1
    return numbers[rng.permutation(policies)]


def random_columns(rng: np.random.Generator, size: int, scale: float) -> dict[Key, Floats]:
    correct = rng.integers(0, 2, size).astype(float)
    correct[rng.random(size) < 0.1] = np.nan
    word = rng.integers(0, 2, size)
    return {
        "correct": correct, "traces": rng.integers(1, 9, size) * 1.0,
        "total_tokens": rng.integers(0, 9_000, size) * scale,
        "latency_s": rng.random(size), 0: (word == 0) * 1.0, 1: (word == 1) * 1.0,
    }  # fmt: skip


def stores(rng: np.random.Generator, table: Table, unit: Ints, strata: Strata | None) -> tuple[Store, Store]:
    """The store of a table whose policies share rows, in parts, and the one in which each has its own."""
    gold = rng.integers(-1, 2, table.size)
    cuts = [0, *np.sort(rng.choice(np.arange(1, table.size), 2, replace=False)).tolist(), table.size]
    keys = [key for key in table.keys if isinstance(key, str)]

    def store(shared: bool) -> Store:
        parts = [Table(table.columns, table.row[:, a:b], shared) for a, b in pairwise(cuts)]
        return Store(parts, unit, gold, len(table.row), keys, strata)

    mine, plain = store(True), store(False)
    assert all(chunk.shared_outcomes is not None for chunk in mine.chunks)
    assert all(chunk.shared_outcomes is None for chunk in plain.chunks)
    return mine, plain


def statistics(policies: int) -> list[Statistic]:
    keys = ("correct", "traces", "total_tokens", "latency_s")
    out = [Statistic("size"), Statistic("judged", "correct"), *(Statistic("gold", "", -1, label) for label in (0, 1))]
    for policy in range(policies):
        out += [Statistic(kind, key, policy) for kind in ("sum", "has") for key in keys]
        out += [Statistic(kind, "correct", policy, 1) for kind in ("shared", "both", "other")]
        out += [Statistic(kind, "", policy, label) for kind in ("tp", "pred", "support") for label in (0, 1)]
        out.append(Statistic("used", "", policy))
    return out


def same_sums(mine: Store, plain: Store) -> None:
    """Facts and resampled sums of each statistic have the same bits, and integers those of their exact sums."""
    wanted = statistics(mine.policies)
    found = []
    for store in (mine, plain):
        units = Units(store)
        scan = scan_statistics(units, wanted)
        sums = resampled_sums(units, scan, range(len(scan.statistics)), units.resamples(DRAWN))
        places = [scan.index[one] for one in wanted]
        assert places == [scan.index[scan.statistics[place]] for place in places]
        facts = [getattr(scan, name)[places] for name in ("total", "count", "reach", "constant", "binary", "integer")]
        found.append([*facts, np.array(places), sums.values[sums.row[places]]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    units = Units(plain)
    if units.plain and units.weight is None:
        exact = np.zeros(found[0][-1].shape)
        for number, chunk in enumerate(plain.chunks):
            exact += statistic_rows(chunk, wanted) @ units.resamples(DRAWN).counts_of_chunk(number).T.astype(float)
        small = found[0][5] & (exact.max(axis=1) <= 2**40)
        assert small.any()
        np.testing.assert_array_equal(found[0][-1][small], exact[small])


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32), st.sampled_from([7, 60, CHUNK + 70]), st.integers(4, 9), st.sampled_from([1.0, 1e9]),
    st.sampled_from(["examples", "clusters", "strata", "weights"]), st.sampled_from(["percentile", "bca"]),
)  # fmt: skip
def test_shared_outcomes_change_nothing(
    seed: int, examples: int, policies: int, scale: float, units: str, method: str
) -> None:
    rng = np.random.default_rng(seed)
    row = random_rows(rng, policies, examples)
    if 2 * len(np.unique(row)) > row.size:
        row = np.zeros_like(row) + np.arange(examples)
    table = Table(random_columns(rng, int(row.max()) + 1, scale), row)
    unit = rng.integers(0, examples, examples) if units == "clusters" else np.arange(examples)
    name = np.arange(examples) % 2
    weights = {"a": 1.0, "b": 3.0} if units == "weights" else None
    strata = Strata.of("dataset", name, ("a", "b"), unit, weights) if units in ("strata", "weights") else None
    mine, plain = stores(rng, table, unit, strata)
    same_sums(mine, plain)
    names = [f"p{number}" for number in range(policies)]
    some = Settings(resamples=60, method=method)
    one, other = (summarise(s, names, labels=LABELS, baseline="p0", settings=some) for s in (mine, plain))
    for part in ("summary", "comparisons", "ranks"):
        assert getattr(one, part).equals(getattr(other, part)), part
    assert (one.notes, one.leader) == (other.notes, other.leader)


@pytest.mark.parametrize("scale", [1.0, 3e8])
def test_fractions_of_one_policy_leave_the_sums_of_others_exact(scale: float) -> None:
    """Three ways of 8 policies: the middle ones have thirds, which lie between the integers of the others."""
    rng = np.random.default_rng(0)
    examples, way = CHUNK + 500, np.array([0, 0, 0, 1, 1, 2, 2, 2])
    row = np.arange(examples) * 3 + way[:, None]
    columns = random_columns(rng, 3 * examples, scale)
    for key in ("correct", "total_tokens"):
        columns[key] = rng.integers(0, 2, 3 * examples) * scale
        columns[key][1::3] = rng.random(examples) * scale / 3
    same_sums(*stores(rng, Table(columns, row), np.arange(examples), None))


def hashes(rows: Floats) -> Ints:
    """The two hashes of each row, (2, rows)."""
    facts = StatisticFacts.no_facts(len(rows))
    for start in range(0, rows.shape[1], CHUNK):
        facts.add_units(np.arange(len(rows)), rows[:, start : start + CHUNK], start)
    return facts.hashes


def test_columns_of_the_same_values_in_other_places_are_told_apart() -> None:
    """Each of the two hashes alone does so: sums are the same, and all values; only their places differ."""
    half = np.zeros((924, 12))
    for number, ones in enumerate(combinations(range(12), 6)):
        half[number, list(ones)] = 1
    rng = np.random.default_rng(0)
    long = (rng.random(2 * CHUNK) < 0.5) * 1.0
    swapped = np.tile(np.arange(100.0) % 7, (99, 1))
    for number in range(99):  # an example's value and its neighbour's
        swapped[number, [number, number + 1]] = swapped[number, [number + 1, number]]
    shifted = np.stack([np.roll(long, number) for number in range(500)])
    chunks = np.stack([np.roll(long, CHUNK), long])
    for rows in (half, shifted, chunks, np.unique(swapped, axis=0), 1 - half, half / 3):
        for one in hashes(rows):
            assert len(np.unique(one)) == len(rows)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, 1 / 3]), min_size=6, max_size=6), min_size=2, max_size=40))
def test_hashes_are_equal_where_all_values_are(table: list[list[float]]) -> None:
    rows = np.array(table)
    _, number = np.unique(rows, axis=0, return_inverse=True)
    for one in hashes(rows):
        assert np.array_equal(one[:, None] == one, number[:, None] == number)


@pytest.mark.parametrize("units", [2 * CHUNK + 11, 41])
@pytest.mark.parametrize("packed", [16, 6, 1])
def test_counts_are_the_same_whether_they_stay_in_memory(
    monkeypatch: pytest.MonkeyPatch, units: int, packed: int
) -> None:
    """A chunk with a count of `packed` or above does not fit half a byte, and is drawn again."""
    drawn = np.concatenate(list(Resamples(units, 500, 3).blocks_of_counts()))
    monkeypatch.setattr("toolkit.stats.metrics.resamples.PACKED", packed)
    resamples = Resamples(units, 500, 3)
    for chunk in [*range(len(resamples.sizes)), *range(len(resamples.sizes)), 0, 0]:
        wanted = drawn[:, chunk * CHUNK : chunk * CHUNK + resamples.sizes[chunk]]
        np.testing.assert_array_equal(resamples.counts_of_chunk(chunk), wanted)


def test_a_unit_may_be_drawn_more_often_than_half_a_byte_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """15 fits, 16 does not: a chunk with either is returned as it was drawn, again and again."""
    for most in (15, 16, 255):

        def draw(self: Resamples, chunk: int, row: int, out: np.ndarray, most: int = most) -> None:
            out[:] = np.arange(out.shape[1]) % 16 + chunk
            out[0, -1] = most

        monkeypatch.setattr(Resamples, "_draw_counts", draw)
        resamples = Resamples(CHUNK + 7, 5, 0)
        for chunk in (0, 1, 0, 1):
            counts = resamples.counts_of_chunk(chunk)
            assert counts[0, -1] == most
            wanted = np.arange(counts.shape[1]) % 16 + chunk
            assert (counts[1] == wanted).all()
            assert (counts[0, :-1] == wanted[:-1]).all()


@pytest.mark.parametrize("clustered", [False, True])
def test_without_statistics_each_chunk_has_one_empty_part(clustered: bool) -> None:
    """So that sums which go another way come with every chunk, too."""
    examples = 2 * CHUNK + 5
    row = np.zeros((3, examples), np.int64) + np.arange(examples)
    rng = np.random.default_rng(0)
    unit = np.arange(examples) // 2 if clustered else np.arange(examples)
    store, _ = stores(rng, Table(random_columns(rng, examples, 1.0), row), unit, None)
    parts = [(number, part, rows.shape) for number, part, rows in Units(store).unweighted_rows([], 512)]
    sizes = [CHUNK, 3] if clustered else [CHUNK, CHUNK, 5]
    assert parts == [(number, slice(0, 0), (0, size)) for number, size in enumerate(sizes)]
