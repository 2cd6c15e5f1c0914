"""Stops and selects against the plain implementation of the reference, on random prefixes of one example."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay import Agreement, AtLeast, Budget, Margin, Says, Window
from replay.sampling import known
from replay.sampling.selects import BestOfN, FirstTrace, LastTrace, MajorityVote, Select, WeightedVote
from tests.reference import rules
from tests.reference.rules import PlainLog, Row
from tests.reference.test_plain import solve
from tests.replay.test_per_answer import prefix
from tests.replay.test_stops import seen
from toolkit.stopping.prefix import NONE

SCORES = st.sampled_from([-0.5, 0.0, 0.25, 0.4, 0.55, 1.0])
WALKS = st.lists(st.tuples(st.integers(-1, 3), SCORES), min_size=1, max_size=9)
"""The answer of each trace, -1 where it cannot be read, and its score; an answer that cannot be read has none."""
STOPS: list[tuple[object, Row]] = [
    (Budget(traces=3), {"rule": "budget", "traces": 3}),
    (Budget(verifications=2), {"rule": "budget", "verifications": 2}),
    (Budget(completion_tokens=17), {"rule": "budget", "completion_tokens": 17}),
    (Margin(0.15), {"rule": "margin"}),
    (Margin(0.0, min_valid=1, single_label=1), {"rule": "margin", "margin": 0.0, "min_valid": 1, "single_label": 1}),
    (Margin(0.3, min_valid=2, single_label=4), {"rule": "margin", "margin": 0.3, "min_valid": 2, "single_label": 4}),
    (Agreement(0.75), {"rule": "agreement", "confidence": 0.75}),
    (Agreement(), {"rule": "agreement"}),
    (Window(size=2), {"rule": "window", "size": 2}),
    (Window(size=3), {"rule": "window", "size": 3}),
    (AtLeast(0.4, verifier="v"), {"rule": "at_least", "verifier": "v", "score": 0.4}),
    (AtLeast(0.25, verifier="v", patience=3), {"rule": "at_least", "verifier": "v", "score": 0.25, "patience": 3}),
    (Says(answer="B"), {"rule": "says", "answer": "B"}),
]
SELECTS = [FirstTrace(), LastTrace(), MajorityVote(), BestOfN(), WeightedVote()]
QUICK = settings(max_examples=40, deadline=None)


def rows_of(walk: list[tuple[int, float]]) -> tuple[PlainLog, list[Row], list[tuple[Row, float]]]:
    """The traces of a walk as rows, and those that are verified."""
    traces = [solve(None if code < 0 else "ABCD"[code], i) for i, (code, _) in enumerate(walk)]
    log = PlainLog([{"example_id": "e"}], traces)
    return log, traces, [(trace, score) for trace, (code, score) in zip(traces, walk, strict=True) if code >= 0]


def arrays(walk: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [code for code, _ in walk], [score if code >= 0 else math.nan for code, score in walk]


@pytest.mark.parametrize(("stop", "row"), STOPS, ids=lambda one: str(one)[:40])
@QUICK
@given(WALKS)
def test_a_stop_holds_where_its_twin_does(stop: Margin, row: Row, walk: list[tuple[int, float]]) -> None:
    log, traces, scored = rows_of(walk)
    verified = [sum(code >= 0 for code, _ in walk[: step + 1]) for step in range(len(walk))]
    expected = [
        rules.holds(log, {"stop": row}, traces[: step + 1], scored[: verified[step]]) for step in range(len(walk))
    ]
    holds = np.asarray(stop.holds(seen(*arrays(walk))))
    # A stop ends a walk at the first step at which it holds; the twin of `says` goes on holding.
    values = np.logical_or.accumulate(holds, axis=1) if row["rule"] == "says" else holds
    assert values.tolist() == [expected]


@pytest.mark.parametrize("select", SELECTS, ids=lambda one: one.name)
@QUICK
@given(WALKS, st.data())
def test_a_select_takes_the_trace_that_its_twin_takes(
    select: Select, walk: list[tuple[int, float]], data: st.DataObject
) -> None:
    """Selects by score see every trace, verified in any order; the others see traces as they are generated."""
    by_score = "scores" in select.reads
    at = data.draw(st.permutations(range(len(walk)))) if by_score else range(len(walk))
    log, traces, _ = rows_of(walk)
    turned = [walk[place] for place in at]
    codes, scores = arrays(turned)
    walked = prefix(np.array([codes], np.int32), np.array([scores]), np.array([list(at)], np.int32))
    places = dataclasses.replace(select).decide_checked(walked)[0].tolist()
    for step, place in enumerate(places):
        scored = [(traces[one], walk[one][1]) for one in at[: step + 1] if walk[one][0] >= 0]
        trace, answer = rules.choose(log, {"select": select.name}, traces if by_score else traces[: step + 1], scored)
        assert (place == NONE) == (answer is None)
        assert place == NONE or place == trace["sample_index"]


def test_every_shipped_rule_has_a_twin() -> None:
    assert {str(row["rule"]) for _, row in STOPS} == known.STOPS.keys() - {"none"}
    assert {select.name for select in SELECTS} == known.SELECTS.keys()
