"""The research questions of the thesis (its table 5.14), each with the interval that answers it."""

from __future__ import annotations

from collections.abc import Iterator

from replay.analyses.budgets.budgets import BEST as BEST_OF_N
from replay.analyses.budgets.surrogate_keys import USUAL_UNSEEN, macro_f1_gaps
from replay.runs.passes.example_set import resampling_units
from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE
from replay.studies.factcheck.study import PoolBudgets, Study
from replay.studies.kit.verdicts import Answer, Finding, answer_on_loss, finding_on_any, findings_sheet, is_above
from toolkit.show import IntervalCell

_METRIC = "macro_f1"
_STEPS = ((ADAPTIVE, BEST, "operations"), (SURROGATE, ADAPTIVE, "verifications"))
"""What each of the two methods is to save over the one before."""
_WORDS = {BEST: "verifying everything", ADAPTIVE: "adaptive stopping", "operations": "operations",
         "verifications": "verifier calls"}  # fmt: skip
_ORDERS = {"generation": "generation order", "random, expected": "the mean of random orders", BEST_OF_N: _WORDS[BEST]}
"""What the surrogate's order is held against, under the same number of verifier calls or under all."""
_UNSERVED = "the log cannot serve both"


def findings(study: Study) -> Iterator[Finding]:
    """Answers the questions of one data set: on stopping, on the surrogate, and on its order at fixed budgets of each
    pool.
    """
    yield from _findings_on_savings(study)
    for fixed in study.budgets.pools:
        yield from _findings_on_orders(fixed)


def _findings_on_savings(study: Study) -> Iterator[Finding]:
    """Answers what stopping and the surrogate lose and save. Limits of the losses hold for both methods at once, and
    so do those of the savings (Bonferroni).
    """
    result, margin = study.main.result, study.setting.tolerated
    limits = {}
    if result is not None:
        rows = result.summariser.joint_differences(
            _METRIC, [(method, against) for method, against, _ in _STEPS]
        ).iter_rows()
        limits = {(method, against): IntervalCell(*ends) for method, against, *ends, _ in rows}
    units = 0 if result is None else resampling_units(result.examples).n_unique()
    level = 1 - (1 - study.setting.settings.level) / len(_STEPS)
    points = f"{100 * margin:g} point{'' if margin == 0.01 else 's'}"
    for method, against, metric in _STEPS:
        loss = f"does {_method_subject(method)} lose more than {points} of macro-F1 to {_WORDS[against]}"
        saving = f"does it save {_WORDS[metric]}" + (" beyond it" if against == ADAPTIVE else "")
        lost, saved = limits.get((method, against)), study.main.change(method, metric, against, level)
        if lost is None:
            yield Finding(loss, Answer.UNASKED, why=_UNSERVED)
        else:
            yield Finding(loss, answer_on_loss(lost, margin, units), lost.scaled(100), decided_by="macro-F1")
        if saved is None:
            yield Finding(saving, Answer.UNASKED, why=_UNSERVED)
        else:
            yield Finding(saving, is_above(saved.reversed()), saved.reversed(), "%", f"{_WORDS[metric]} saved")


def _method_subject(method: str) -> str:
    return _WORDS.get(method, "surrogate-guided verification")


def _findings_on_orders(fixed: PoolBudgets) -> Iterator[Finding]:
    """Answers whether the surrogate's order beats other orders at any budget, and whether it and generation order lose
    to verifying everything.

    Limits hold for all orders and budgets of the pool at once.
    """
    for order, called in (("surrogate", "the surrogate's order"), ("generation", "generation order")):
        for against, words in _ORDERS.items():
            if order == "surrogate" or against == BEST_OF_N:
                by_k = {f"k = {k}": gap.points for k, gap in macro_f1_gaps(fixed.budgets, order, against).items()}
                yield finding_on_any(f"does {called} beat {words} at any budget ({fixed.name})", by_k, "macro-F1")
    moved = {
        f"k = {at.k}, unseen = {at.unseen:g}": at.to_usual.points
        for at in fixed.keys
        if at.to_usual is not None and at.label_score == "mean" and at.unseen != USUAL_UNSEEN
    }
    question = f"does the surrogate's order depend on `unseen` ({fixed.name})"
    moves = finding_on_any(question, moved, f"macro-F1 less that with unseen = {USUAL_UNSEEN:g}")
    depends = {Answer.NO: Answer.YES, Answer.PARTLY: Answer.YES}.get(moves.answer, moves.answer)
    yield Finding(question, depends, moves.difference, decided_by=moves.decided_by, why=moves.why)


VERDICTS = findings_sheet(
    findings,
    (
        "yes or no: an interval leaves out 0, or for a loss the margin, in the direction of the question",
        "the limits of losses hold for both methods at once, those of savings too, and those of orders for all orders "
        "and budgets of a pool; shown is the difference that decides, else the largest",
    ),
)
"""Table 5.14 of the thesis, from intervals."""
