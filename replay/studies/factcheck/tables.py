"""Tables 5.1 to 5.13 of the thesis on efficient fact checking, in its own layout, for any log."""

from __future__ import annotations

from collections.abc import Sequence

from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE, TITLES, TOP, VERIFYING, VOTE, Methods
from replay.studies.factcheck.sheets import Measure, SheetRow, ValueOf, sheet
from replay.studies.factcheck.study import Study
from toolkit.show import ShownInterval, Table
from toolkit.stats.summary_notes import BATCHED_SECONDS

GENERATED, BOTH = "prompt_tokens+completion_tokens", "generation_s+verification_s"
CUT = "all caps are cut from one pool, so rows differ by their cap and not by their traces"


def main_tables(study: Study) -> dict[str, Table]:
    """The tables by the names of their files."""
    main, other = study.main, study.other
    verifier = study.setting.other_verifier
    ablation = "Verifier ablation" + (f" ({verifier})" if verifier is not None else "")
    others = () if verifier is None else VERIFYING
    prices = price_note(study, *study.caps.values())
    return {
        "table_5_1": quality(study, "5.1", "Baseline comparison", main, (TOP, VOTE, BEST)),
        "table_5_2": quality(study, "5.2", "Exhaustive BoN and Adaptive Stopping", main, (BEST, ADAPTIVE)),
        "table_5_3": operations(study, "5.3", "Generator and verifier call savings", main, (BEST, ADAPTIVE)),
        "table_5_4": tokens(study),
        "table_5_5": seconds(study, "5.5", "Latency, summed runtime and cost", main, (BEST, ADAPTIVE)),
        "table_5_6": calls(study),
        "table_5_7": runtime(study),
        "table_5_8": quality(study, "5.8", f"{ablation}: performance", other, others),
        "table_5_9": operations(study, "5.9", f"{ablation}: efficiency", other, others),
        "table_5_10": seconds(study, "5.10", f"{ablation}: latency and cost", other, others),
        "table_5_11": by_cap(study, "5.11", "Performance", _quality_measures(study)),
        "table_5_12": by_cap(study, "5.12", "Computational efficiency", (TRACES, *COUNTS)),
        "table_5_13": by_cap(study, "5.13", "Latency, summed runtime and cost", _seconds_measures(study), prices),
    }


def _by_method(
    study: Study,
    number: str,
    title: str,
    methods: Methods,
    names: Sequence[str],
    measures: Sequence[Measure],
    *notes: str,
) -> Table:
    """One row a method of one comparison; what the surrogate does without stands beneath where it has a row."""
    rows = [
        SheetRow((study.dataset, TITLES[name]), {m.key: m.of(methods, name) for m in measures}, {"method": name})
        for name in names
    ]
    lacking = [study.features_note] if study.features_note and SURROGATE in names else []
    title = f"{title} (N = {methods.cap})"
    return sheet(study, number, title, ("Dataset", "Method"), measures, rows, (*notes, *lacking))


def by_cap(study: Study, number: str, title: str, measures: Sequence[Measure], *notes: str) -> Table:
    """Exhaustive best-of-N and adaptive stopping as the cap grows (tables 5.11 to 5.13)."""
    rows = [
        SheetRow(
            (cap, TITLES[name]), {m.key: m.of(methods, name) for m in measures}, {"max_traces": cap, "method": name}
        )
        for cap, methods in study.caps.items()
        for name in (BEST, ADAPTIVE)
    ]
    title = f"{title} as the maximum trace budget increases"
    return sheet(study, number, title, ("Max traces", "Method"), measures, rows, (CUT, *notes))


def mean(metric: str, scale: float = 1.0) -> ValueOf:
    """A metric of a method times `scale`."""
    return lambda methods, name: methods.cell(name, metric, scale)


def total(metric: str) -> ValueOf:
    """The sum of a metric of a method over the claims."""
    return lambda methods, name: methods.total(name, metric)


def change(metric: str) -> ValueOf:
    """How a mean of a method differs from exhaustive best-of-N's, in percent."""
    return lambda methods, name: methods.change(name, metric) if name != BEST else None


def missing_labels(methods: Methods, name: str) -> float | None:
    """Traces of one method without a label."""
    attempts, valid = methods.total(name, "traces"), methods.total(name, "valid_traces")
    return None if attempts is None or valid is None else attempts - valid


TRACES = Measure("Avg traces/claim", "traces_per_claim", value=mean("traces"))
COUNTS = (
    Measure("Trace attempts", "trace_attempts", 0, value=total("traces")),
    Measure("Missing-label traces", "missing_label_traces", 0, value=missing_labels),
    Measure("Verifier calls", "verifier_calls", 0, value=total("verifications")),
    Measure("Total operations", "operations", 0, value=total("operations")),
)


def _quality_measures(study: Study) -> list[Measure]:
    means = (("M-F1", "macro_f1_pct", "macro_f1"), ("W-F1", "weighted_f1_pct", "weighted_f1"))
    shown = (*study.classes, *means, ("Acc.", "accuracy_pct", "accuracy"))
    return [Measure(head, key, interval=True, value=mean(metric, 100)) for head, key, metric in shown]


def quality(study: Study, number: str, title: str, methods: Methods, names: Sequence[str]) -> Table:
    """Class F1s, macro-F1, weighted F1 and accuracy, in percent with intervals (tables 5.1, 5.2, 5.8)."""
    brackets = "percent; in brackets intervals, resampled by claim; paired differences are in the table `paired`"
    return _by_method(study, number, title, methods, names, _quality_measures(study), brackets)


def operations(study: Study, number: str, title: str, methods: Methods, names: Sequence[str]) -> Table:
    """Traces, missing labels, verifier calls, operations and their change (tables 5.3 and 5.9)."""
    measures = [
        Measure("Avg traces/claim", "traces_per_claim", interval=True, value=mean("traces")),
        *COUNTS,
        _change("Operations change, %", "operations_change_pct", change("operations")),
    ]
    return _by_method(study, number, title, methods, names, measures)


def _change(head: str, key: str, value: ValueOf) -> Measure:
    return Measure(head, key, 1, interval=True, signed=True, value=value)


def tokens(study: Study) -> Table:
    """Prompt, completion and generation tokens and their change (table 5.4)."""

    def generated(methods: Methods, name: str) -> float | None:
        prompt, completion = (methods.total(name, kind) for kind in ("prompt_tokens", "completion_tokens"))
        return None if prompt is None or completion is None else prompt + completion

    measures = [
        Measure("Prompt tokens", "prompt_tokens", 0, value=total("prompt_tokens")),
        Measure("Completion tokens", "completion_tokens", 0, value=total("completion_tokens")),
        Measure("Total gen. tokens", "generation_tokens", 0, value=generated),
        _change("Token change, %", "tokens_change_pct", change(GENERATED)),
    ]
    return _by_method(study, "5.4", "Generation-token savings", study.main, (BEST, ADAPTIVE), measures)


def _cost(study: Study, head: str, key: str, part: str | None = None) -> Measure:
    return Measure(
        head, key, 3, interval=True, significant=2, value=lambda methods, name: euros(study, methods, name, part)
    )


def _hours(metric: str) -> ValueOf:
    return lambda methods, name: methods.sum_of(name, metric, methods.n / 3600)


def _seconds_measures(study: Study) -> list[Measure]:
    return [
        Measure("Gen./claim, s", "generation_s_per_claim", interval=True, value=mean("generation_s")),
        Measure("Ver./claim, s", "verification_s_per_claim", interval=True, value=mean("verification_s")),
        Measure(
            "Total/claim, s", "total_s_per_claim", interval=True, value=lambda methods, name: methods.sum_of(name, BOTH)
        ),
        Measure("Runtime, h", "runtime_h", interval=True, value=_hours(BOTH)),
        _cost(study, "Cost, €", "cost_eur"),
    ]


def euros(study: Study, methods: Methods, name: str, part: str | None = None) -> ShownInterval | None:
    """Price of all claims, or of their `generation` or `verification`: of device seconds where the log has them.

    The parts' device seconds are known of the main comparison alone.
    """
    price = methods.n / 3600 * study.eur_per_h
    if methods.priced_by != "device_s":
        return methods.sum_of(name, BOTH if part is None else f"{part}_s", price)
    if part is None:
        return methods.cell(name, "device_s", price)
    found = study.device_s.get((name, part))
    if found is None or (part == "verification" and methods.unpaid(name, "device_s")):
        return None
    return found.times(price)


def price_note(study: Study, *runs: Methods) -> str:
    """What euros come from, which need not be the hours beside them."""
    rate = f"{study.setting.kw:g} kW · {study.setting.eur_per_kwh:g} € per kWh = {study.eur_per_h:g} € per hour"
    if not any(methods.priced_by == "device_s" for methods in runs):
        return f"cost: hours · {rate}"
    hours = "hours: summed latency of the calls, as in the thesis"
    found = [one for methods in runs if methods.result is not None for one in methods.result.notes]
    batched = next((f"; {one.text}" for one in found if one.code == BATCHED_SECONDS), "")
    return f"{hours}; cost: of the device's own seconds, fewer where calls ran in parallel · {rate}{batched}"


def seconds(study: Study, number: str, title: str, methods: Methods, names: Sequence[str]) -> Table:
    """Seconds per claim, hours and euros (tables 5.5 and 5.10)."""
    return _by_method(study, number, title, methods, names, _seconds_measures(study), price_note(study, methods))


def calls(study: Study) -> Table:
    """Trace attempts and verifier calls with the surrogate, and what it saves (table 5.6)."""
    methods = study.main
    measures = [
        *COUNTS[:3],
        Measure("Verifier calls/claim", "verifier_calls_per_claim", interval=True, value=mean("verifications")),
        Measure("Savings vs. Exh. BoN, %", "saving_vs_exhaustive_pct", 1, interval=True, value=_saving(BEST)),
        Measure("Savings vs. Adaptive, %", "saving_vs_adaptive_pct", 1, interval=True, value=_saving(ADAPTIVE)),
    ]
    none = [name for name in (BEST, ADAPTIVE) if (calls := methods.cell(name, "verifications")) and not calls.estimate]
    dashes = [f"savings vs. {TITLES[name]}: a dash, for it makes no verifier call to divide by" for name in none]
    title = "Trace attempts and verifier-call savings from surrogate guidance"
    return _by_method(study, "5.6", title, methods, VERIFYING, measures, *dashes)


def _saving(against: str) -> ValueOf:
    """Verifier calls saved, in percent, by the methods that come after the other one."""

    def value(methods: Methods, name: str) -> ShownInterval | None:
        if VERIFYING.index(name) <= VERIFYING.index(against):
            return None
        found = methods.change(name, "verifications", against)
        if found is None:
            return None
        low, high = found.low, found.high
        return ShownInterval(-found.estimate, None if high is None else -high, None if low is None else -low)

    return value


def runtime(study: Study) -> Table:
    """Hours and euros of generation and verification with the surrogate (table 5.7)."""
    methods = study.main
    hours = methods.n / 3600
    measures = [
        Measure("Gen. runtime, h", "generation_h", interval=True, value=mean("generation_s", hours)),
        Measure("Ver. runtime, h", "verification_h", interval=True, value=mean("verification_s", hours)),
        Measure("Total runtime, h", "total_h", interval=True, value=_hours(BOTH)),
        _cost(study, "Verifier cost, €", "verifier_cost_eur", "verification"),
        _cost(study, "Total cost, €", "total_cost_eur"),
    ]
    title = "Generation and verification runtime and cost"
    return _by_method(study, "5.7", title, methods, VERIFYING, measures, price_note(study, methods))
