"""Tables that the thesis does not have: paired differences, means over orders, further policies, prediction sets."""

from __future__ import annotations

from collections.abc import Iterator

from replay.kinds.every_example import EVERY
from replay.studies.factcheck.beyond import Beyond
from replay.studies.factcheck.runs import (
    ADAPTIVE,
    BEST,
    SURROGATE,
    TITLES,
    TOP,
    VERIFYING,
    VOTE,
    Methods,
    cell,
    warnings_of,
)
from replay.studies.factcheck.sheets import Measure, SheetRow, Value, sheet
from replay.studies.factcheck.study import Study, told
from toolkit.show import Table

PAIRS = ((TOP, BEST), (VOTE, BEST), (ADAPTIVE, BEST), (SURROGATE, BEST), (SURROGATE, ADAPTIVE))
DIFFERENCES = (("macro_f1", "Macro-F1"), ("accuracy", "Accuracy"))


def _difference_measures() -> Iterator[Measure]:
    for metric, head in DIFFERENCES:
        yield Measure(f"{head} difference, points", f"{metric}_difference_pp", interval=True, signed=True)
        yield Measure(f"p, {head}", f"{metric}_p", 4)


def _differences(methods: Methods, method: str, against: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for metric, _ in DIFFERENCES:
        values[f"{metric}_difference_pp"], values[f"{metric}_p"] = methods.difference(method, metric, against, 100)
    return values


def paired(study: Study) -> Table:
    """Quality of two methods on the same claims and traces: differences, with intervals and p-values."""
    sets = [(f"{study.setting.verifier}, N = {study.main.cap}", study.main)]
    if study.setting.other_verifier is not None:
        sets.append((f"{study.setting.other_verifier}, N = {study.other.cap}", study.other))
    if study.beyond is not None:
        sets.append((f"{study.setting.verifier}, means over {study.setting.orders} orders", study.beyond.averaged))
    averages = study.beyond.averaged if study.beyond is not None else None
    rows = [
        SheetRow((name, TITLES[method], TITLES[against]), _differences(methods, method, against))
        for name, methods in sets
        for method, against in PAIRS
        if methods is not averages or method not in (TOP, VOTE)
    ]
    why = dict.fromkeys(f"{name}: {reason}" for name, methods in sets for reason in told(methods))
    notes = ("paired: every resample draws the same claims for both, with the same traces", *why)
    heads = ("Run", "Method", "Against")
    return sheet(study, "", "Paired differences in quality", heads, list(_difference_measures()), rows, notes)


def averaged(study: Study, made: Beyond) -> Table:
    """The methods as means over random orders of the pool: both sources of uncertainty are in the intervals."""
    rows = []
    for name in VERIFYING:
        values: dict[str, Value] = {
            "macro_f1_pct": made.averaged.cell(name, "macro_f1", 100),
            "accuracy_pct": made.averaged.cell(name, "accuracy", 100),
            "traces": made.averaged.cell(name, "traces"),
            "verifications": made.averaged.cell(name, "verifications"),
            "change": made.averaged.change(name, "operations") if name != BEST else None,
        }
        if name != BEST:
            values |= _differences(made.averaged, name, BEST)
        rows.append(SheetRow((TITLES[name],), values))
    measures = [
        Measure("Macro-F1, %", "macro_f1_pct", interval=True),
        Measure("Accuracy, %", "accuracy_pct", interval=True),
        *_difference_measures(),
        Measure("Traces/claim", "traces", interval=True),
        Measure("Verifier calls/claim", "verifications", interval=True),
        Measure("Operations change, %", "change", 1, interval=True, signed=True),
    ]
    title = f"Means over {study.setting.orders} random orders of one pool"
    notes = ("differences: paired, against exhaustive best-of-N", *told(made.averaged))
    return sheet(study, "", title, ("Method",), measures, rows, notes, made.averaged.warnings)


def variants(study: Study, made: Beyond) -> Table:
    """Further policies beside adaptive stopping and the surrogate."""
    result = made.variants
    metrics = (
        ("Macro-F1, %", "macro_f1", 100.0), ("Accuracy, %", "accuracy", 100.0), ("Traces/claim", "traces", 1.0),
        ("Verifier calls/claim", "verifications", 1.0), ("Coverage, %", "coverage", 100.0),
        ("Set size", "set_size", 1.0), ("Answered, %", "answer_rate", 100.0),
        ("Accuracy among answered, %", "accuracy_answered", 100.0),
    )  # fmt: skip
    rows = []
    if result is not None:
        for name in (*(policy.name for policy in result.policies if policy.name != EVERY), *result.dropped):
            rows.append(
                SheetRow((name,), {metric: cell(result.statistics, name, metric, by) for _, metric, by in metrics})
            )
    measures = [Measure(head, metric, interval=True) for head, metric, _ in metrics]
    whole = "conformal: of the whole pool, so that every label which some trace gives has a score"
    notes = [*([whole] if made.coverage else []), *made.missing]
    notes += [f"{name}: {why}" for name, why in result.dropped.items()] if result is not None else []
    return sheet(study, "", "Further policies", ("Policy",), measures, rows, notes, warnings_of(result))


def coverage(study: Study, made: Beyond) -> Table:
    """Prediction sets class by class, where the promise of each holds."""
    metrics = (
        ("Coverage, %", "coverage", 100.0), ("Set size", "set_size", 1.0), ("Answered, %", "answer_rate", 100.0),
        ("Accuracy among answered, %", "accuracy_answered", 100.0),
    )  # fmt: skip
    rows = []
    for found in made.coverage:
        values: dict[str, Value] = {m: cell(found.part, found.policy, m, by) for _, m, by in metrics}
        values |= {"claims": found.part.n, "promised": 100 * (1 - found.alpha), "threshold": found.threshold}
        rows.append(SheetRow((found.policy, found.label), values))
    measures = [Measure("Claims", "claims", 0), Measure("Promised, %", "promised", 1)]
    measures += [Measure("Threshold", "threshold", 4)]
    measures += [Measure(head, metric, interval=True) for head, metric, _ in metrics]
    notes = [
        "coverage: claims of the class whose set holds it; promised on average over development splits, not for each",
        "a dash for a threshold: the class is in every set, since too few claims of it were learnt from, or a share "
        "alpha of them has no verified trace of their label",
    ]
    title = "Prediction sets by class"
    return sheet(study, "", title, ("Policy", "Class"), measures, rows, notes, warnings_of(made.variants))
