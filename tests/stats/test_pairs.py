"""Who differs from whom on how many examples, and who made the same calls."""

import numpy as np
import pytest

from toolkit.columns import COLUMNS
from toolkit.stats import Settings, summarise
from toolkit.stats.bootstrap.pairs import count_pairs
from toolkit.stats.bootstrap.sample import read_sample
from toolkit.stats.metrics.outcomes import ANSWER, Store, _SpilledBlock
from toolkit.stats.metrics.spill import TableStore

NAMES = ["a", "b", "c", "d"]


def stored(columns: dict[str, np.ndarray], unit: np.ndarray) -> Store:
    """Outcomes as a run keeps them, in two parts, answers beside the numbers."""
    keeper = TableStore()
    cuts = (slice(0, 7), slice(7, None))
    sources = [
        _SpilledBlock(
            len(unit[cut]),
            {key: keeper.store_table(np.ascontiguousarray(v[:, cut])) for key, v in columns.items()},
            keeper,
        )
        for cut in cuts
    ]
    return Store(sources, unit, None, len(NAMES), [key for key in columns if key != ANSWER])


@pytest.mark.parametrize("cluster", [1, 3])
def test_other_answers_or_costs_are_other_calls(cluster: int) -> None:
    """`b` does as `a`; `c` answers differently where both are wrong; `d` pays the same in sum, not on every example."""
    right, tokens, words = np.ones((4, 18)), np.full((4, 18), 100.0), np.zeros((4, 18))
    right[:, :3] = 0
    words[:, :3] = np.nan
    words[2, 1] = 1
    tokens[3, 9:11] = 90, 110
    store = stored({"correct": right, "total_tokens": tokens, ANSWER: words}, np.arange(18) // cluster)
    table = summarise(store, NAMES, baseline="a", settings=Settings(resamples=50)).comparisons
    against = table.filter(baseline="a", metric="accuracy")
    assert dict(against.select("policy", "identical").rows()) == {"b": True, "c": False, "d": False}
    assert against["difference"].to_list() == [0, 0, 0]


def test_pairs_are_counted_as_loops_count_them() -> None:
    rng = np.random.default_rng(0)
    right = (rng.random((4, 50)) < 0.6).astype(float)
    right[2] = (right[2] + right[1]) / 2
    right[3, :20] = np.nan
    sample = read_sample(stored({"correct": right}, np.arange(50)), NAMES, None, Settings(), COLUMNS, "accuracy")
    pairs = count_pairs(sample, [0])
    for p in (1, 2):
        move = right[p] - right[0]
        found = [part[0, 0, p] for part in (pairs.first, pairs.second, pairs.up, pairs.down)]
        assert found == [move[move > 0].sum(), -move[move < 0].sum(), (move > 0).sum(), (move < 0).sum()]
    assert [bool(graded) for graded in pairs.has_fractions[0, 0, 1:3]] == [False, True]
    unlike = np.isnan(right[3]) | (right[3] != right[0])
    assert np.isnan(pairs.discordant[0, 0, 3])
    assert pairs.unlike[0, 0, 3] == unlike.sum()
