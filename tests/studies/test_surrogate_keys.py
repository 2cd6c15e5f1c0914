"""What the study says of the surrogate's own keys: table B.4's differences and signs, and the tables of the keys."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import thinkback as tb
from replay.analyses.budgets.surrogate_keys import (
    UNSEEN,
    SurrogateGapsAtSetting,
    _MacroF1Gap,
    difference_sign_at_each_value,
)
from replay.studies.factcheck.runs import FactcheckSetting
from replay.studies.factcheck.study import FORGETTINGS, RIDGES, _replay_other_surrogate_keys, sweep_surrogate_keys
from toolkit.features import CLAIM_FEATURES
from toolkit.log import open_log
from toolkit.show import IntervalCell

ASKED = {"where": "split = 'test'", "resamples": 50}


SETTING = FactcheckSetting("n15", "lora", CLAIM_FEATURES, options=ASKED)


def test_every_combination_is_there_and_the_default_is_the_methods_own(claims: Path) -> None:
    found = sweep_surrogate_keys(open_log(claims), SETTING).table.filter(metric="macro_f1")
    assert found.height == len(UNSEEN) * 2 * len(RIDGES) * len(FORGETTINGS)
    policy = tb.Sample(
        name="p", pool="n15", verifier="lora", max_traces=15, order="surrogate", features=CLAIM_FEATURES, stop="margin"
    )
    default = tb.run(open_log(claims), [policy], **ASKED).summary.filter(metric="macro_f1")["estimate"][0]
    own = found.filter(unseen=0.5, label_score="mean", ridge=1.0, forgetting=1.0)
    assert own["estimate"].to_list() == pytest.approx([default], abs=1e-12)
    assert found["estimate"].n_unique() > 6


def test_differences_are_those_of_the_orders_themselves(claims: Path) -> None:
    fixed = _replay_other_surrogate_keys(open_log(claims), SETTING, 15)
    for unseen, kind in product((0.0, 1.0), ("mean", "max")):
        made = tb.budgets(
            open_log(claims), verifier="lora", max_traces=15, features=CLAIM_FEATURES, budget=[3, 7],
            surrogate={"unseen": unseen, "label_score": kind}, **ASKED,
        )  # fmt: skip
        value = {
            (o, k): 100 * e
            for o, k, m, e in made.by_k.select("order", "k", "metric", "estimate").rows()
            if m == "macro_f1"
        }
        for k in (3, 7):
            at = next(x for x in fixed if (x.k, x.unseen, x.label_score) == (k, unseen, kind))
            assert at.macro_f1 is not None
            assert at.macro_f1.estimate == pytest.approx(value["surrogate", k])
            for reference, gap in at.gaps.items():
                assert gap is not None
                assert gap.points.low is not None
                assert gap.points.high is not None
                assert gap.points.estimate == pytest.approx(value["surrogate", k] - value[reference, k])
                assert gap.points.low < gap.points.estimate < gap.points.high


def test_the_sign_depends_on_unseen_where_estimates_lie_on_both_sides() -> None:
    def at(unseen: float, *points: float) -> SurrogateGapsAtSetting:
        return SurrogateGapsAtSetting(
            15, 3, unseen, "mean", None, {"generation": _MacroF1Gap(IntervalCell(*points), None)}
        )

    below, perhaps, above = at(0, -2, -3, -1), at(0.5, -1, -2, 1), at(1, 2, 1, 3)
    every = (below, perhaps, above)
    assert difference_sign_at_each_value(every, 15, 3, "generation") == "yes: −, (−), +"
    assert difference_sign_at_each_value((below, perhaps), 15, 3, "generation") == "no: −, (−)"
    assert (
        difference_sign_at_each_value((below, replace(above, gaps={"generation": None})), 15, 3, "generation") is None
    )
    assert difference_sign_at_each_value(every, 15, 5, "generation") is None


def test_budgets_of_a_pool() -> None:
    assert SETTING.table_budgets(15) == (3, 5, 7, 10, 13)
    assert SETTING.table_budgets(6) == (1, 2, 3, 5, 6)
