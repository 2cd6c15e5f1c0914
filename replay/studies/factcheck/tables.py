"""Tables 5.1 to 5.13 of the thesis on efficient fact checking, in its own layout, for any log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE, TITLES, TOP, VERIFYING, VOTE, Methods
from replay.studies.factcheck.study import Method, Study
from replay.studies.kit.efficiency import missing_labels
from replay.studies.kit.runs import change, hours, sum_of, total
from replay.studies.kit.sheet import Column, Row, Sheet, Value, intervals, numbers
from toolkit.errors import listed
from toolkit.show import Number, ShownInterval, TableColumn
from toolkit.stats.summary_notes import BATCHED_SECONDS

GENERATED, BOTH = "prompt_tokens+completion_tokens", "generation_s+verification_s"
CUT = "all caps are cut from one pool, so rows differ by their cap and not by their traces"
IN_BRACKETS = "percent; in brackets intervals, resampled by claim; paired differences are in the table `paired`"
Studies = Sequence[Study]
ValueOf = Callable[[Method], Value]


def generated(of: Method) -> float | None:
    """Tokens that one method generated and was prompted with."""
    prompt, completion = of.total("prompt_tokens"), of.total("completion_tokens")
    return None if prompt is None or completion is None else prompt + completion


def saving(against: str) -> ValueOf:
    """Verifier calls saved, in percent, by the methods that come after the other one."""

    def value(of: Method) -> ShownInterval | None:
        later = VERIFYING.index(of.name) > VERIFYING.index(against)
        found = of.change("verifications", against) if later else None
        if found is None:
            return None
        low, high = (None if end is None else -end for end in (found.high, found.low))
        return ShownInterval(-found.estimate, low, high)

    return value


def euros(of: Method, part: str | None = None) -> ShownInterval | None:
    """Price of all claims, or of their `generation` or `verification`: of device seconds where the log has them.

    The parts' device seconds are known of the main comparison alone.
    """
    price = of.cells.n / 3600 * of.study.eur_per_h
    if of.cells.priced_by != "device_s":
        return of.sum_of(BOTH if part is None else f"{part}_s", price)
    if part is None:
        return of.cell("device_s", price)
    found = of.study.device_s.get((of.name, part))
    unknown = found is None or (part == "verification" and of.cells.unpaid(of.name, "device_s"))
    return None if found is None or unknown else found.times(price)


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
    changed("Operations change, %", "operations_change_pct", change("operations", BEST)),
)
TOKENS = (
    numbers("Prompt tokens", "prompt_tokens", 0, total("prompt_tokens")),
    numbers("Completion tokens", "completion_tokens", 0, total("completion_tokens")),
    numbers("Total gen. tokens", "generation_tokens", 0, generated),
    changed("Token change, %", "tokens_change_pct", change(GENERATED, BEST)),
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
    intervals("Gen. runtime, h", "generation_h", value=hours("generation_s")),
    intervals("Ver. runtime, h", "verification_h", value=hours("verification_s")),
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
        lacking = [label for label in labels if any(label not in study.labels for study in studies)]
        why = f"a dash: of data sets without the class {listed(lacking)}" if lacking else ""
        classes = [
            intervals(f"F1 {label}", f"f1:{label}", metric=f"f1:{label}", scale=100, note=why * (label in lacking))
            for label in labels
        ]
    means = percent("M-F1", "macro_f1_pct", "macro_f1"), percent("W-F1", "weighted_f1_pct", "weighted_f1")
    return [*classes, *means, percent("Acc.", "accuracy_pct", "accuracy")]


def price_note(study: Study, *runs: Methods) -> str:
    """What euros come from, which need not be the hours beside them."""
    rate = f"{study.setting.kw:g} kW · {study.setting.eur_per_kwh:g} € per kWh = {study.eur_per_h:g} € per hour"
    if not any(methods.priced_by == "device_s" for methods in runs):
        return f"cost: hours · {rate}"
    hours = "hours: summed latency of the calls, as in the thesis"
    found = [one for methods in runs if methods.result is not None for one in methods.result.notes]
    batched = next((f"; {one.text}" for one in found if one.code == BATCHED_SECONDS), "")
    return f"{hours}; cost: of the device's own seconds, fewer where calls ran in parallel · {rate}{batched}"


def no_savings(study: Study) -> Iterator[str]:
    """Which savings are dashes because there is nothing to divide by."""
    for name in (BEST, ADAPTIVE):
        if (calls := study.main.cell(name, "verifications")) and not calls.estimate:
            yield f"savings vs. {TITLES[name]}: a dash, for it makes no verifier call to divide by"


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
                theirs = study.published(number, [methods], method=name)
                yield Row((TITLES[name],), Method(methods, name, study), **theirs)

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
                theirs = study.published(number, list(study.caps.values()), max_traces=cap, method=name)
                yield Row((cap, TITLES[name]), Method(methods, name, study), **theirs)

    title = f"{title} as the maximum trace budget increases"
    heads = (TableColumn("Max traces", Number(0)), "Method")
    return Sheet(_file(number), title, heads, columns, rows, (CUT, *notes), number=number)


def _ours(study: Study) -> list[str]:
    return [price_note(study, study.main)]


BASELINES, STOPPING = (TOP, VOTE, BEST), (BEST, ADAPTIVE)
LATENCY = "Latency, summed runtime and cost"
GUIDED = "Trace attempts and verifier-call savings from surrogate guidance"
MAIN_TABLES = (
    _sheet("5.1", "Baseline comparison", BASELINES, quality, (IN_BRACKETS,)),
    _sheet("5.2", "Exhaustive BoN and Adaptive Stopping", STOPPING, quality, (IN_BRACKETS,)),
    _sheet("5.3", "Generator and verifier call savings", STOPPING, OPERATIONS),
    _sheet("5.4", "Generation-token savings", STOPPING, TOKENS),
    _sheet("5.5", LATENCY, STOPPING, SECONDS, (_ours,)),
    _sheet("5.6", GUIDED, VERIFYING, CALLS, (no_savings,)),
    _sheet("5.7", "Generation and verification runtime and cost", VERIFYING, RUNTIME, (_ours,)),
    _sheet("5.8", "performance", VERIFYING, quality, (IN_BRACKETS,), _ablated),
    _sheet("5.9", "efficiency", VERIFYING, OPERATIONS, (), _ablated),
    _sheet("5.10", "latency and cost", VERIFYING, SECONDS, (lambda one: [price_note(one, one.other)],), _ablated),
    _by_cap("5.11", "Performance", quality),
    _by_cap("5.12", "Computational efficiency", (TRACES, *COUNTS)),
    _by_cap("5.13", LATENCY, SECONDS, (lambda one: [price_note(one, *one.caps.values())],)),
)
"""Tables 5.1 to 5.13."""
