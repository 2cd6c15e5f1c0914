"""An interval is a function of the rows: not of their order, and not of how they are cut into blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.stats.conftest import block, passes, random_block
from toolkit.stats import OutcomeBlock, Settings, summarise

NAMES, LABELS = ["a", "b", "c"], ["x", "y", "z"]
EXAMPLES = 24


def turned(one: OutcomeBlock, order: list[int]) -> OutcomeBlock:
    """The rows in another order, each with its example, its unit and its gold."""
    values = {name: array[:, order] for name, array in one.values.items()}
    assert one.gold is not None
    assert one.predicted is not None
    other = block(values, one.unit[order], one.gold[order], one.predicted[:, order])
    return replace(other, example_ids=one.example_ids[order])


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 40),
    st.permutations(range(EXAMPLES)),
    st.sets(st.integers(1, EXAMPLES - 1), max_size=4),
    st.sampled_from(["percentile", "bca"]),
    st.booleans(),
)
def test_intervals_do_not_depend_on_order_and_splitting(
    seed: int, order: list[int], cuts: set[int], method: str, clustered: bool
) -> None:
    one = random_block(seed, EXAMPLES)
    if clustered:
        one = replace(one, unit=np.random.default_rng(seed).integers(0, 9, EXAMPLES))
    given_settings = Settings(resamples=60, method=method)

    def tables(factory: Callable[[], Iterator[OutcomeBlock]]) -> object:
        return summarise(factory, NAMES, labels=LABELS, baseline="b", settings=given_settings)

    whole, other = tables(passes(one)), tables(passes(turned(one, list(order)), sorted(cuts)))
    assert_frame_equal(whole.summary, other.summary, rel_tol=1e-9, abs_tol=1e-9)
    assert_frame_equal(whole.comparisons, other.comparisons, rel_tol=1e-9, abs_tol=1e-9)
