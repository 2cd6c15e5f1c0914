"""A report of texts: what its policies are compared with, and what it says of their headroom."""

from __future__ import annotations

from pathlib import Path

import thinkback as tb
from generate.simulation.checks import simulate_checks
from replay.policies.toml import load_policies
from replay.runs.saved.provenance import policy_record, usual_baseline

POLICIES = """
[[policy]]
name = "sure"
kind = "buzz"
confidence = [0.5, 0.0]

[[policy]]
name = "second"
kind = "buzz"
patience = 2

[[policy]]
name = "capped"
kind = "buzz"
max_rounds = 1

[[policy]]
name = "best"
kind = "best buzz"
"""


def test_texts_are_compared_with_the_first_refutation() -> None:
    records = [policy_record(policy) for policy in load_policies(POLICIES).policies]
    assert usual_baseline(records) == "sure[confidence=0.0]"
    assert usual_baseline([one for one in records if one.sweep != "sure"]) is None


def test_a_report_of_checks_has_differences_and_no_parts_of_a_gap_in_traces(tmp_path: Path) -> None:
    simulate_checks(tmp_path / "log", examples=60)
    report = tb.report(tmp_path / "log", resamples=50)
    result = report.result
    assert result.baseline == "first refutation"
    known = result.comparisons.filter(baseline="first refutation", metric="accuracy").drop_nulls("difference")
    assert known.height == len(result.policies) - 1
    measures = result.headroom().frame["measure"].unique()
    assert set(measures) == {"share_of_headroom", "regret"}
    assert "headroom" not in report.figures
    report.save(tmp_path / "report")
    assert (tmp_path / "report" / "figures" / "frontier.pdf").exists()
