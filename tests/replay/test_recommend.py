"""The recommendation: four constructed logs, one for each verdict, and sentences that cite their numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import replay
from generate.simulate_recovery import Action, RecoveryModel, simulate_recovery
from replay.recommend import DISABLE, INTERVENE, TUNE, UNDECIDED, Recommendation, recommend
from toolkit.errors import ThinkbackError
from toolkit.stats import Settings

BASE = RecoveryModel()
HARMFUL = Action(cut=0.02, wrong=0.02, right=0.80, tokens=2_500.0)
POLICIES = """
[[policy]]
name = "base"
kind = "sample"
pool = "short"
max_traces = 1
select = "first"

[[policy]]
name = "long"
kind = "sample"
pool = "long"
max_traces = 1
select = "first"
against = "base"

[[policy]]
name = "always"
kind = "act"
action = "active_verify"
base = "short"

[[policy]]
name = "selective"
kind = "when"
base = { kind = "sample", pool = "short", max_traces = 1, select = "first" }
gate = { signal = "truncated", at_least = 1 }
then = { kind = "act", action = "active_verify", base = "short" }
"""
# A longer pool repairs cut attempts cheaply; one that is no better than the short one, and revisions that help; actions
# that spoil more than they mend; and too few examples of the first to tell.
WORLDS = {
    TUNE: (3_000, replace(BASE, long_right=0.12)),
    INTERVENE: (3_000, replace(BASE, long_right=-0.35, active_verify=Action(0.9, 0.3, 0.99, 2_500.0))),
    DISABLE: (3_000, replace(BASE, tokens=500.0, active_verify=HARMFUL)),
    UNDECIDED: (60, BASE),
}


def decide(log: Path, where: str) -> Recommendation:
    outcomes = replay.run(log, POLICIES, where=where, resamples=50).outcomes.sort("policy", "example_id")

    def values(name: str) -> dict[str, np.ndarray]:
        own = outcomes.filter(policy=name)
        return {c: own[c].fill_null(np.nan).to_numpy() for c in ("correct", "fix", "flip", "total_tokens")}

    return recommend(
        ("base", values("base")), {"long": values("long")}, {"selective": values("selective")},
        {"always": values("always")}, settings=Settings(resamples=1_000),
    )  # fmt: skip


@pytest.mark.parametrize("verdict", WORLDS)
def test_each_verdict_has_its_log(verdict: str, tmp_path: Path) -> None:
    examples, model = WORLDS[verdict]
    simulate_recovery(tmp_path / "log", examples=examples, seed=1, model=model)
    found = decide(tmp_path / "log", "true")
    assert found.verdict == verdict, found.sentences
    assert all(any(sign.isdigit() for sign in sentence) for sentence in found.sentences)
    assert (found.examples_needed is not None) == (verdict == UNDECIDED)
    assert found.disable == (("always",) if verdict == DISABLE else ())
    if verdict == UNDECIDED:
        assert found.examples_needed is not None
        assert found.examples_needed > 60
        assert f"about {found.examples_needed:,}" in found.sentences[-1]


def flat(correct: float, flip: float, fix: float, tokens: float, n: int = 400) -> dict[str, np.ndarray]:
    """Outcomes with these shares, spread evenly."""
    place = (np.arange(n) * 7919 % n) / n
    return {
        "correct": (place < correct).astype(float), "flip": (place >= 1 - flip).astype(float),
        "fix": (place < fix).astype(float), "total_tokens": np.full(n, tokens),
    }  # fmt: skip


def test_halving_flips_at_no_loss_is_a_reason_to_intervene() -> None:
    base, long = flat(0.7, 0.0, 0.0, 100.0), flat(0.8, 0.2, 0.3, 300.0)
    gated = flat(0.8, 0.02, 0.12, 200.0)
    found = recommend(("base", base), {"long": long}, {"gated": gated}, {}, settings=Settings(resamples=500))
    assert found.verdict == INTERVENE
    assert "flips 2.00 %, half of the budget's 10.00 %: it halves flips at no loss" in found.sentences[0]


def test_a_longer_pool_must_cost_fewer_tokens() -> None:
    base, dear = flat(0.7, 0.0, 0.0, 100.0), flat(0.8, 0.1, 0.2, 300.0)
    always = flat(0.8, 0.0, 0.1, 250.0)
    found = recommend(("base", base), {"long": dear}, {}, {"always": always}, settings=Settings(resamples=500))
    assert found.verdict == UNDECIDED
    assert "is not shown to cost fewer tokens" in found.sentences[0]


def test_nothing_to_decide_by() -> None:
    with pytest.raises(ThinkbackError, match="no example"):
        recommend(("base", flat(1, 0, 0, 1, 0)), {}, {}, {})
