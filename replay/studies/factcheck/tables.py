"""Tables 5.1 to 5.13 of the thesis on efficient fact checking, in its own layout, for any log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from replay.studies.factcheck.methods.method_columns import (
    CALLS,
    COUNTS,
    OPERATIONS,
    RUNTIME,
    SECONDS,
    TOKENS,
    TRACES,
    MethodOfRun,
    no_savings,
    price_note,
    quality_columns,
)
from replay.studies.factcheck.methods.methods import ADAPTIVE, BEST, SURROGATE, TITLES, TOP, VERIFYING, VOTE, Methods
from replay.studies.factcheck.published import CAP
from replay.studies.factcheck.study import Study
from replay.studies.kit.sheet import Column, Row, Sheet
from toolkit.show import Number, TableColumn

CUT = "all caps are cut from one pool, so rows differ by their cap and not by their traces"
IN_BRACKETS = (
    "percent; in brackets intervals: F1 of one class by Wilson's limits, all else resampled by claim; paired "
    "differences are in the table `paired`"
)
EARLIER_RUN = (
    "published: of the thesis's run of 40 traces, which is another one than that of its other tables: best-of-15 has a "
    "macro-F1 of {here:g} here and of {there:g} in tables 5.1 and 5.2"
)
CLASSES = {"supports": "T", "true": "T", "refutes": "F", "false": "F", "conflicting": "C"}
"""The thesis's letters for its three classes, by what a log calls them."""
Studies = Sequence[Study]


def quality(studies: Studies) -> list[Column]:
    """F1 of each class, in the thesis's letters where all data sets have its classes, then the means."""
    return quality_columns([study.labels for study in studies], CLASSES)


Notes = Sequence[str | Callable[[Study], Iterable[str]]]
Columns = Sequence[Column] | Callable[[Studies], Sequence[Column]]


def _ablated(study: Study) -> Methods | None:
    """The comparison of another verifier, where there is one."""
    return None if study.setting.other_verifier is None else study.other


def _sheet(
    number: str, title: str, names: Sequence[str], columns: Columns, notes: Notes = (),
    runs: Callable[[Study], Methods | None] = lambda study: study.main,
) -> Sheet[Study]:  # fmt: skip
    """A table with one row a method; what the surrogate does without stands beneath where it has a row."""

    def rows(study: Study) -> Iterator[Row]:
        if (methods := runs(study)) is not None:
            for name in names:
                theirs = study.published(number, method=name)
                yield Row((TITLES[name],), MethodOfRun(methods, name, study.labels), **theirs)

    def lacking(study: Study) -> list[str]:
        return [study.features_note] if SURROGATE in names and runs(study) is not None else []

    def entitled(studies: Studies) -> str:
        verifier = next((v for study in studies if (v := study.setting.other_verifier) is not None), None)
        ablation = f"Verifier ablation{'' if verifier is None else f' ({verifier})'}: "
        return f"{ablation if runs is _ablated else ''}{title} (N = {studies[0].setting.cap})"

    return Sheet(_file(number), entitled, ("Method",), columns, rows, (*notes, lacking), "Dataset", number)


def _file(number: str) -> str:
    return f"table_{number.replace('.', '_')}"


def _by_cap(number: str, title: str, columns: Columns, notes: Notes = ()) -> Sheet[Study]:
    """Exhaustive best-of-N and adaptive stopping as the cap grows."""

    def rows(study: Study) -> Iterator[Row]:
        for cap, methods in study.caps.items():
            for name in STOPPING:
                theirs = study.published(number, max_traces=cap, method=name)
                yield Row((cap, TITLES[name]), MethodOfRun(methods, name, study.labels), **theirs)

    def another_run(study: Study) -> list[str]:
        numbers = study.setting.published
        if numbers is None:
            return []
        here = numbers.value("5.11", "macro_f1_pct", max_traces=CAP, method=BEST)
        there = numbers.value("5.1", "macro_f1_pct", method=BEST)
        return [] if here is None or there is None else [EARLIER_RUN.format(here=here, there=there)]

    title = f"{title} as the maximum trace budget increases"
    heads = (TableColumn("Max traces", Number(0)), "Method")
    return Sheet(_file(number), title, heads, columns, rows, (CUT, *notes, another_run), number=number)


def _ours(study: Study) -> list[str]:
    return [price_note(study.setting, study.main)]


BASELINES, STOPPING = (TOP, VOTE, BEST), (BEST, ADAPTIVE)
LATENCY = "Latency, summed runtime and cost"
GUIDED = "Trace attempts and verifier-call savings from surrogate guidance"
MAIN_TABLES = (
    _sheet("5.1", "Baseline comparison", BASELINES, quality, (IN_BRACKETS,)),
    _sheet("5.2", "Exhaustive BoN and Adaptive Stopping", STOPPING, quality, (IN_BRACKETS,)),
    _sheet("5.3", "Generator and verifier call savings", STOPPING, OPERATIONS),
    _sheet("5.4", "Generation-token savings", STOPPING, TOKENS),
    _sheet("5.5", LATENCY, STOPPING, SECONDS, (_ours,)),
    _sheet("5.6", GUIDED, VERIFYING, CALLS, (lambda one: no_savings(one.main),)),
    _sheet("5.7", "Generation and verification runtime and cost", VERIFYING, RUNTIME, (_ours,)),
    _sheet("5.8", "performance", VERIFYING, quality, (IN_BRACKETS,), _ablated),
    _sheet("5.9", "efficiency", VERIFYING, OPERATIONS, (), _ablated),
    _sheet(
        "5.10", "latency and cost", VERIFYING, SECONDS, (lambda one: [price_note(one.setting, one.other)],), _ablated
    ),
    _by_cap("5.11", "Performance", quality),
    _by_cap("5.12", "Computational efficiency", (TRACES, *COUNTS)),
    _by_cap("5.13", LATENCY, SECONDS, (lambda one: [price_note(one.setting, *one.caps.values())],)),
)
"""Tables 5.1 to 5.13."""
