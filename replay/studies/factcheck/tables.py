"""Tables 5.1 to 5.13 of the thesis on efficient fact checking, in its own layout, for any log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE, TITLES, TOP, VERIFYING, VOTE, Methods
from replay.studies.factcheck.study import Method, Study
from replay.studies.kit.gaps import said_of
from replay.studies.kit.sheet import Column, Row, Sheet, Value, intervals, numbers
from toolkit.show import Number, ShownInterval, TableColumn
from toolkit.stats.summary_notes import BATCHED_SECONDS

GENERATED, BOTH = "prompt_tokens+completion_tokens", "generation_s+verification_s"
CUT = "all caps are cut from one pool, so rows differ by their cap and not by their traces"
IN_BRACKETS = "percent; in brackets intervals, resampled by claim; paired differences are in the table `paired`"
Studies = Sequence[Study]
ValueOf = Callable[[Method], Value]


def main(study: Study) -> Methods:
    """The main comparison."""
    return study.main


def other(study: Study) -> Methods:
    """That of another verifier."""
    return study.other


def total(metric: str) -> ValueOf:
    """The sum of a metric of a method over the claims."""
    return lambda row: row.methods.total(row.name, metric)


def sum_of(metric: str) -> ValueOf:
    """A mean of a method, or the sum of several."""
    return lambda row: row.methods.sum_of(row.name, metric)


def hours(metric: str) -> ValueOf:
    """Seconds of all claims, in hours."""
    return lambda row: row.methods.sum_of(row.name, metric, row.methods.n / 3600)


def hours_of(metric: str) -> ValueOf:
    """The same of one part, with the interval of its own mean."""
    return lambda row: row.cell(metric, row.methods.n / 3600)


def change(metric: str) -> ValueOf:
    """How a mean of a method differs from exhaustive best-of-N's, in percent."""
    return lambda row: row.methods.change(row.name, metric) if row.name != BEST else None


def missing_labels(row: Method) -> float | None:
    """Traces of one method without a label."""
    attempts, valid = (row.methods.total(row.name, metric) for metric in ("traces", "valid_traces"))
    return None if attempts is None or valid is None else attempts - valid


def generated(row: Method) -> float | None:
    """Tokens that one method generated and was prompted with."""
    prompt, completion = (row.methods.total(row.name, kind) for kind in ("prompt_tokens", "completion_tokens"))
    return None if prompt is None or completion is None else prompt + completion


def saving(against: str) -> ValueOf:
    """Verifier calls saved, in percent, by the methods that come after the other one."""

    def value(row: Method) -> ShownInterval | None:
        if VERIFYING.index(row.name) <= VERIFYING.index(against):
            return None
        found = row.methods.change(row.name, "verifications", against)
        if found is None:
            return None
        low, high = found.low, found.high
        return ShownInterval(-found.estimate, None if high is None else -high, None if low is None else -low)

    return value


def euros(row: Method, part: str | None = None) -> ShownInterval | None:
    """Price of all claims, or of their `generation` or `verification`: of device seconds where the log has them.

    The parts' device seconds are known of the main comparison alone.
    """
    methods, name = row.methods, row.name
    price = methods.n / 3600 * row.study.eur_per_h
    if methods.priced_by != "device_s":
        return methods.sum_of(name, BOTH if part is None else f"{part}_s", price)
    if part is None:
        return methods.cell(name, "device_s", price)
    found = row.study.device_s.get((name, part))
    if found is None or (part == "verification" and methods.unpaid(name, "device_s")):
        return None
    return found.times(price)


def cost(heading: str, key: str, part: str | None = None) -> Column:
    """A column of euros."""
    return intervals(heading, key, 3, partial(euros, part=part), significant=2)


def percent(heading: str, key: str, metric: str) -> Column:
    """A share of claims, in percent."""
    return intervals(heading, key, metric=metric, scale=100)


def changed(heading: str, key: str, value: ValueOf) -> Column:
    """A change in percent."""
    return intervals(heading, key, 1, value, signed=True)


TRACES = numbers("Avg traces/claim", "traces_per_claim", metric="traces")
COUNTS = (
    numbers("Trace attempts", "trace_attempts", 0, total("traces")),
    numbers("Missing-label traces", "missing_label_traces", 0, missing_labels),
    numbers("Verifier calls", "verifier_calls", 0, total("verifications")),
    numbers("Total operations", "operations", 0, total("operations")),
)
OPERATIONS = (
    intervals("Avg traces/claim", "traces_per_claim", metric="traces"),
    *COUNTS,
    changed("Operations change, %", "operations_change_pct", change("operations")),
)
TOKENS = (
    numbers("Prompt tokens", "prompt_tokens", 0, total("prompt_tokens")),
    numbers("Completion tokens", "completion_tokens", 0, total("completion_tokens")),
    numbers("Total gen. tokens", "generation_tokens", 0, generated),
    changed("Token change, %", "tokens_change_pct", change(GENERATED)),
)
SECONDS = (
    intervals("Gen./claim, s", "generation_s_per_claim", metric="generation_s"),
    intervals("Ver./claim, s", "verification_s_per_claim", metric="verification_s"),
    intervals("Total/claim, s", "total_s_per_claim", value=sum_of(BOTH)),
    intervals("Runtime, h", "runtime_h", value=hours(BOTH)),
    cost("Cost, €", "cost_eur"),
)
CALLS = (
    *COUNTS[:3],
    intervals("Verifier calls/claim", "verifier_calls_per_claim", metric="verifications"),
    intervals("Savings vs. Exh. BoN, %", "saving_vs_exhaustive_pct", 1, saving(BEST)),
    intervals("Savings vs. Adaptive, %", "saving_vs_adaptive_pct", 1, saving(ADAPTIVE)),
)
RUNTIME = (
    intervals("Gen. runtime, h", "generation_h", value=hours_of("generation_s")),
    intervals("Ver. runtime, h", "verification_h", value=hours_of("verification_s")),
    intervals("Total runtime, h", "total_h", value=hours(BOTH)),
    cost("Verifier cost, €", "verifier_cost_eur", "verification"),
    cost("Total cost, €", "total_cost_eur"),
)


def _of_letter(letter: str) -> ValueOf:
    """F1 of the class that the thesis calls so."""
    return lambda row: row.cell(f"f1:{row.study.letters[letter]}", 100)


def quality(studies: Studies) -> list[Column]:
    """F1 of each class, in the thesis's letters where all data sets have its classes, then the means."""
    if all(study.letters for study in studies):
        classes = [intervals(f"{x}-F1", f"{x.lower()}_f1_pct", value=_of_letter(x)) for x in "TFC"]
    else:
        labels = dict.fromkeys(label for study in studies for label in study.labels)
        classes = [intervals(f"F1 {label}", f"f1:{label}", metric=f"f1:{label}", scale=100) for label in labels]
    means = percent("M-F1", "macro_f1_pct", "macro_f1"), percent("W-F1", "weighted_f1_pct", "weighted_f1")
    return [*classes, *means, percent("Acc.", "accuracy_pct", "accuracy")]


def quality_notes(studies: Studies) -> list[str]:
    """What its numbers are, and why some are dashes."""
    spaces = {study.labels for study in studies}
    unshared = len(spaces) > 1 and not all(study.letters for study in studies)
    return [IN_BRACKETS, *(["F1 of a class: a dash where a data set has no such class"] if unshared else [])]


def price_notes(studies: Studies, runs: Callable[[Study], Iterable[Methods]]) -> list[str]:
    """What euros come from, which need not be the hours beside them."""
    found = []
    for study in studies:
        made = list(runs(study))
        rate = f"{study.setting.kw:g} kW · {study.setting.eur_per_kwh:g} € per kWh = {study.eur_per_h:g} € per hour"
        if not any(methods.priced_by == "device_s" for methods in made):
            found.append(f"cost: hours · {rate}")
            continue
        of_runs = [one for methods in made if methods.result is not None for one in methods.result.notes]
        batched = next((f"; {one.text}" for one in of_runs if one.code == BATCHED_SECONDS), "")
        found.append(
            "hours: summed latency of the calls, as in the thesis; cost: of the device's own seconds, fewer where "
            f"calls ran in parallel · {rate}{batched}"
        )
    return list(dict.fromkeys(found))


def priced(runs: Callable[[Study], Methods]) -> Callable[[Studies], list[str]]:
    """The note on euros, of one comparison."""
    return lambda studies: price_notes(studies, lambda study: [runs(study)])


def no_savings(studies: Studies) -> Iterator[str]:
    """Which savings are dashes because there is nothing to divide by."""
    for name in (BEST, ADAPTIVE):
        calls = [study.main.cell(name, "verifications") for study in studies]
        if any(cell is not None and not cell.estimate for cell in calls):
            yield f"savings vs. {TITLES[name]}: a dash, for it makes no verifier call to divide by"


def _made(study: Study, runs: Callable[[Study], Methods]) -> bool:
    """Whether there is such a comparison on a data set."""
    return runs is main or study.setting.other_verifier is not None


def _rows(number: str, runs: Callable[[Study], Methods], names: Sequence[str]) -> Callable[[Study], Iterator[Row]]:
    """One row a method of one comparison."""

    def rows(study: Study) -> Iterator[Row]:
        for name in names if _made(study, runs) else ():
            of = Method(study, runs(study), name)
            yield Row((TITLES[name],), of, **study.published(number, [of.methods], method=name))

    return rows


def _sheet(
    number: str,
    title: str,
    names: Sequence[str],
    columns: Sequence[Column] | Callable[[Studies], Sequence[Column]],
    notes: Sequence[str] | Callable[[Studies], Iterable[str]] = (),
    runs: Callable[[Study], Methods] = main,
) -> Sheet[Study]:
    """A table with one row a method; what the surrogate does without stands beneath where it has a row."""

    def told(studies: Studies) -> Iterator[str]:
        yield from notes(studies) if callable(notes) else notes
        if SURROGATE in names:
            yield from said_of(studies, lambda study: [study.features_note] if _made(study, runs) else [])

    def entitled(studies: Studies) -> str:
        verifier = next((v for study in studies if (v := study.setting.other_verifier) is not None), None)
        ablation = f"Verifier ablation{'' if verifier is None else f' ({verifier})'}: "
        return f"{ablation if runs is other else ''}{title} (N = {studies[0].setting.cap})"

    rows = _rows(number, runs, names)
    return Sheet(_file(number), entitled, ("Method",), columns, rows, told, "Dataset", number)


def _file(number: str) -> str:
    return f"table_{number.replace('.', '_')}"


def _by_cap(
    number: str,
    title: str,
    columns: Sequence[Column] | Callable[[Studies], Sequence[Column]],
    notes: Callable[[Studies], Iterable[str]] = lambda studies: (),
) -> Sheet[Study]:
    """Exhaustive best-of-N and adaptive stopping as the cap grows."""

    def rows(study: Study) -> Iterator[Row]:
        for cap, methods in study.caps.items():
            for name in (BEST, ADAPTIVE):
                found = study.published(number, list(study.caps.values()), max_traces=cap, method=name)
                yield Row((cap, TITLES[name]), Method(study, methods, name), **found)

    title = f"{title} as the maximum trace budget increases"
    heads = (TableColumn("Max traces", Number(0)), "Method")
    return Sheet(_file(number), title, heads, columns, rows, lambda studies: (CUT, *notes(studies)), number=number)


def _larger(studies: Studies) -> list[str]:
    return price_notes(studies, lambda study: study.caps.values())


BASELINES, STOPPING = (TOP, VOTE, BEST), (BEST, ADAPTIVE)
LATENCY = "Latency, summed runtime and cost"
MAIN_TABLES = (
    _sheet("5.1", "Baseline comparison", BASELINES, quality, quality_notes),
    _sheet("5.2", "Exhaustive BoN and Adaptive Stopping", STOPPING, quality, quality_notes),
    _sheet("5.3", "Generator and verifier call savings", STOPPING, OPERATIONS),
    _sheet("5.4", "Generation-token savings", STOPPING, TOKENS),
    _sheet("5.5", LATENCY, STOPPING, SECONDS, priced(main)),
    _sheet("5.6", "Trace attempts and verifier-call savings from surrogate guidance", VERIFYING, CALLS, no_savings),
    _sheet("5.7", "Generation and verification runtime and cost", VERIFYING, RUNTIME, priced(main)),
    _sheet("5.8", "performance", VERIFYING, quality, quality_notes, other),
    _sheet("5.9", "efficiency", VERIFYING, OPERATIONS, (), other),
    _sheet("5.10", "latency and cost", VERIFYING, SECONDS, priced(other), other),
    _by_cap("5.11", "Performance", quality),
    _by_cap("5.12", "Computational efficiency", (TRACES, *COUNTS)),
    _by_cap("5.13", LATENCY, SECONDS, _larger),
)
"""Tables 5.1 to 5.13."""
