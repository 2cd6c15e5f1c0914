"""Tables of verifying methods: paired differences, means over orders, further policies, prediction sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.kinds.sample import EVERY
from replay.studies.factcheck.budgets.verifying_study import VerifyingStudy
from replay.studies.factcheck.methods.coverage import COVERAGE, COVERAGE_NOTES, METRICS, coverage
from replay.studies.factcheck.methods.method_columns import MethodOfRun, percent
from replay.studies.factcheck.methods.methods import ADAPTIVE, BEST, SURROGATE, TITLES, TOP, VERIFYING, VOTE, Methods
from replay.studies.kit.gaps import reasons
from replay.studies.kit.sheet import Row, Sheet, Value, intervals, numbers

PAIRS = ((TOP, BEST), (VOTE, BEST), (ADAPTIVE, BEST), (SURROGATE, BEST), (SURROGATE, ADAPTIVE))
DIFFERENCES = (("macro_f1", "Macro-F1"), ("accuracy", "Accuracy"))
DIFFERENCE_COLUMNS = tuple(
    column
    for metric, head in DIFFERENCES
    for column in (
        intervals(f"{head} difference, points", f"{metric}_difference_pp", signed=True),
        numbers(f"p, {head}", f"{metric}_p", 4),
    )
)
QUALITY = (percent("Macro-F1, %", "macro_f1_pct", "macro_f1"), percent("Accuracy, %", "accuracy_pct", "accuracy"))


def _differences(methods: Methods, method: str, against: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for metric, _ in DIFFERENCES:
        values[f"{metric}_difference_pp"], values[f"{metric}_p"] = methods.difference(method, metric, against, 100)
    return values


def _orders(number: int) -> str:
    return "1 order" if number == 1 else f"{number} orders"


def _compared(study: VerifyingStudy) -> dict[str, Methods]:
    """The comparisons of a data set, by what the table of pairs calls them."""
    verifier, other = study.setting.verifier, study.setting.other_verifier
    found = {f"{verifier}, N = {study.main.cap}": study.main}
    if other is not None:
        found[f"{other}, N = {study.other.cap}"] = study.other
    return found | {f"{verifier}, means over {_orders(study.setting.orders)}": study.averaged}


def paired(study: VerifyingStudy) -> Iterator[Row]:
    """Quality of two methods on the same claims and traces: differences, with intervals and p-values."""
    for name, methods in _compared(study).items():
        for method, against in PAIRS:
            if methods is not study.averaged or method not in (TOP, VOTE):
                yield Row((name, TITLES[method], TITLES[against]), values=_differences(methods, method, against))


def _why_not_paired(study: VerifyingStudy) -> Iterator[str]:
    for name, methods in _compared(study).items():
        yield from (f"{name}: {reason}" for reason in reasons(methods.missing))


def averaged(study: VerifyingStudy) -> Iterator[Row]:
    """The methods as means over random orders of the pool: both sources of uncertainty are in the intervals."""
    for name in VERIFYING:
        of = MethodOfRun(study.averaged, name)
        values = {} if name == BEST else _differences(of.cells, name, BEST)
        yield Row((TITLES[name],), of, values | {"change": of.change("operations", BEST)})


CALLS = (
    intervals("Traces/claim", "traces", metric="traces"),
    intervals("Verifier calls/claim", "verifications", metric="verifications"),
)


def variants(study: VerifyingStudy) -> Iterator[Row]:
    """Further policies beside adaptive stopping and the surrogate."""
    result = study.variants.result
    if result is not None:
        methods = Methods(result, study.setting.verifier, study.setting.cap)
        for name in (*(policy.name for policy in result.policies if policy.name != EVERY), *result.dropped):
            of = MethodOfRun(methods, name)
            abstains = of.cell("answer_rate") is not None
            yield Row((name,), of, {} if abstains or name == SURROGATE else _differences(methods, name, SURROGATE))


def _dropped(study: VerifyingStudy) -> Iterator[str]:
    if study.variants.coverage:
        yield "conformal: of the whole pool, so that every label which some trace gives has a score"
    yield from study.variants.missing
    if study.variants.result is not None:
        yield from (f"{name}: {why}" for name, why in study.variants.result.dropped.items())


LESS = (
    f"differences: paired, against {TITLES[SURROGATE]} with its linear surrogate; a dash for policies that abstain, "
    "which counts as wrong"
)
PAIRED: Sheet[Any] = Sheet(
    "paired", "Paired differences in quality", ("Run", "Method", "Against"), DIFFERENCE_COLUMNS, paired,
    ("paired: every resample draws the same claims for both, with the same traces", _why_not_paired),
)  # fmt: skip
AGAINST = "differences: paired, against exhaustive best-of-N"
MEANS_OVER_ORDERS: Sheet[Any] = Sheet(
    "orders", lambda studies: f"Means over {_orders(studies[0].setting.orders)} of one pool, drawn at random",
    ("Method",), (*QUALITY, *DIFFERENCE_COLUMNS, *CALLS, intervals("Operations change, %", "change", 1, signed=True)),
    averaged, (AGAINST,), group="orders",
)  # fmt: skip
VARIANTS: Sheet[Any] = Sheet(
    "variants", "Further policies", ("Policy",), (
        percent("Macro-F1, %", "macro_f1", "macro_f1"), percent("Accuracy, %", "accuracy", "accuracy"),
        *DIFFERENCE_COLUMNS, *CALLS, *METRICS,
    ), variants, (LESS, _dropped), group="variants",
)  # fmt: skip
PREDICTION_SETS: Sheet[Any] = Sheet(
    "coverage", "Prediction sets by class", ("Policy", "Class"), COVERAGE,
    lambda study: coverage(study.variants.coverage), COVERAGE_NOTES, group="variants",
    needed=lambda studies: any(study.variants.coverage for study in studies),
)  # fmt: skip
