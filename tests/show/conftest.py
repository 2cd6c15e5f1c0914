"""A small run made by hand: five policies, one sweep of two, one oracle."""

import polars as pl
import pytest

from toolkit.notes import note
from toolkit.show import PolicyRow, RankedInput
from toolkit.show.ranking.ranking import WithinMargin
from toolkit.stats.many.ranks import RANKS_SCHEMA

NAMES = ("best of 4", "vote", "first", "stop[margin=0.1]", "stop[margin=0.2]", "any of 4")
ACCURACY = (0.70, 0.66, 0.50, 0.68, 0.705, 0.90)
TOKENS = (2000.0, 1200.0, 300.0, 1100.0, 1500.0, 1200.0)
CALLS = (8.0, 4.0, 1.0, 4.5, 6.25, 4.0)
P_VALUES = (1.0, 0.004, 0.0002, 0.21, 0.6, 0.0002)
RANKS = {  # lowest and highest rank, tie with the leader, share of normal draws on the front
    "best of 4": (1, 3, True, 0.3),
    "vote": (3, 4, False, 0.004),
    "first": (5, 5, False, 1.0),
    "stop[margin=0.1]": (1, 4, True, 0.9),
    "stop[margin=0.2]": (1, 3, True, 0.72),
    "any of 4": (None, None, None, None),
}
DIFFERENCES = {
    "best of 4": ((0.0, 0.0, 0.0), (-0.005, -0.02, 0.01)),
    "vote": ((-0.04, -0.06, -0.02), (-0.045, -0.07, -0.02)),
    "first": ((-0.2, -0.23, -0.17), (-0.205, -0.24, -0.17)),
    "stop[margin=0.1]": ((-0.02, -0.05, 0.01), (-0.025, -0.05, 0.0)),
    "stop[margin=0.2]": ((0.005, -0.009, 0.02), (0.0, 0.0, 0.0)),
    "any of 4": ((0.2, 0.18, 0.22), (0.195, 0.17, 0.22)),
}


@pytest.fixture
def results() -> RankedInput:
    rows, against, told = [], [], []
    for name, accuracy, tokens, calls, p_value in zip(NAMES, ACCURACY, TOKENS, CALLS, P_VALUES, strict=True):
        rows += [
            (name, "accuracy", accuracy, accuracy - 0.03, accuracy + 0.03, 500, "percentile"),
            (name, "total_tokens", tokens, tokens - 50, tokens + 50, 200, "percentile"),
            (name, "calls", calls, calls, calls, 200, "percentile"),
            (name, "cost_eur", tokens / 1e7, None, None, 200, None),
        ]
        to_baseline, to_leader = DIFFERENCES[name]
        against += [
            (name, "best of 4", "accuracy", *to_baseline, p_value, 200, "percentile"),
            (name, "stop[margin=0.2]", "accuracy", *to_leader, p_value, 200, "percentile"),
        ]
        low, high, ties, share = RANKS[name]
        told += [
            {"policy": name, "metric": "accuracy", "rank_low": low, "rank_high": high, "ties": ties,
             "p_baseline": None if name == "best of 4" else p_value},
            {"policy": name, "metric": "total_tokens", "front_share": share},
        ]  # fmt: skip
    summary = ["policy", "metric", "estimate", "low", "high", "n", "method"]
    comparisons = ["policy", "baseline", "metric", "difference", "low", "high", "p_value", "n", "method"]
    return RankedInput(
        summary=pl.DataFrame(rows, schema=summary, orient="row"),
        comparisons=pl.DataFrame(against, schema=comparisons, orient="row"),
        policies=(
            PolicyRow("best of 4", "best of 4"),
            PolicyRow("vote", "vote"),
            PolicyRow("first", "first"),
            PolicyRow("stop[margin=0.1]", "stop", sweep_size=2, swept=(("margin", 0.1),)),
            PolicyRow("stop[margin=0.2]", "stop", sweep_size=2, swept=(("margin", 0.2),)),
            PolicyRow("any of 4", "any of 4", diagnostic="sees gold"),
        ),
        ranks=pl.DataFrame(told, schema=RANKS_SCHEMA),
        n=500,
        baseline="best of 4",
        leader="stop[margin=0.2]",
        margin=0.01,
        within=lambda: WithinMargin(0.01, "stop[margin=0.2]", -0.006, None, None),
        seed=7,
        resamples=1_000,
        notes=(note("free", "verifications without logged tokens or seconds count as free: `lora`"),),
    )
