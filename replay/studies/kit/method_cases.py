"""Rules by which example cases of verifying methods are chosen: stopped early, went on to the cap, verifier wrong."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from replay.studies.kit.cases import Cases, Rule, Told, chosen_cases, scored
from replay.studies.kit.methods import ADAPTIVE, BEST, Methods, method_policies
from replay.studies.kit.verifying import VerifyingSetting
from toolkit.errors import counted
from toolkit.log import Log


def example_cases(log: Log, setting: VerifyingSetting, main: Methods) -> Cases:
    """A claim on which adaptive stopping ends as soon as it may, one on which it takes all traces, and one on which the
    verifier is wrong: its best-scored trace is, though one that it scored is right.
    """
    if main.result is None:
        return Cases(missing=tuple(dict.fromkeys(main.missing.values())))
    policies = method_policies(setting, (ADAPTIVE, BEST))
    told = Told(main.result, policies, ADAPTIVE, setting.pool, setting.verifier, setting.cap)
    return chosen_cases(log, told, _rules(log, setting, main, told))


def _rules(log: Log, setting: VerifyingSetting, main: Methods, told: Told) -> Iterator[Rule]:
    known = {policy.name for policy in told.result.policies}
    rows = told.result.outcomes.select("policy", "example_id", "traces", "ending", "correct").collect()
    adaptive, best = (rows.filter(policy=name).sort("example_id") for name in (ADAPTIVE, BEST))
    least = setting.margin.min_valid
    early = adaptive.filter((pl.col("ending") == "rule") & (pl.col("traces") == least))["example_id"]
    late = adaptive.filter((pl.col("ending") == "cap") & (pl.col("traces") == setting.cap))["example_id"]
    wrong = best.filter(pl.col("correct") == 0)["example_id"]
    right = scored(log, told, wrong).filter(pl.col("correct") & pl.col("score").is_not_null())["example_id"]
    for kind, method, ids in (
        (f"stops after {counted(least, 'trace')}", ADAPTIVE, early),
        (f"takes all {counted(setting.cap, 'trace')}", ADAPTIVE, late),
        ("the verifier is wrong", BEST, wrong.filter(wrong.is_in(right.implode()))),
    ):
        yield Rule(kind, method, ids if method in known else None, main.missing.get(method, "not replayed"))
