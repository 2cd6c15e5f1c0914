"""Tables 5.1 to 5.13 of the thesis on efficient fact checking, in its own layout, for any log."""

from __future__ import annotations

from collections.abc import Sequence

from replay.studies.factcheck.runs import ADAPTIVE, BEST, SHOWN, SURROGATE, TOP, VOTE, Methods
from replay.studies.factcheck.sheets import Measure, Row, Value, sheet
from replay.studies.factcheck.study import Study
from toolkit.show import ShownInterval, Table

GENERATED = "prompt_tokens+completion_tokens"


def main_tables(study: Study) -> dict[str, Table]:
    """The tables by the names of their files."""
    main, other = study.main, study.other
    ablation = "Verifier ablation" + (f" ({study.other_verifier})" if study.other_verifier is not None else "")
    others = () if study.other_verifier is None else (BEST, ADAPTIVE, SURROGATE)
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
        "table_5_11": cap_quality(study),
        "table_5_12": cap_operations(study),
        "table_5_13": cap_seconds(study),
    }


def _rows(study: Study, methods: Methods, names: Sequence[str], values: dict[str, dict[str, Value]]) -> list[Row]:
    return [Row((study.dataset, SHOWN[name]), values[name], {"method": name}) for name in names]


def _quality_measures(study: Study) -> list[Measure]:
    classes = [Measure(head, key, interval=True) for head, key, _ in study.classes]
    means = (("M-F1", "macro_f1_pct"), ("W-F1", "weighted_f1_pct"), ("Acc.", "accuracy_pct"))
    return [*classes, *(Measure(head, key, interval=True) for head, key in means)]


def _quality(study: Study, methods: Methods, name: str) -> dict[str, Value]:
    metrics = {key: metric for _, key, metric in study.classes}
    metrics |= {"macro_f1_pct": "macro_f1", "weighted_f1_pct": "weighted_f1", "accuracy_pct": "accuracy"}
    return {key: methods.cell(name, metric, 100) for key, metric in metrics.items()}


def quality(study: Study, number: str, title: str, methods: Methods, names: Sequence[str]) -> Table:
    """Class F1s, macro-F1, weighted F1 and accuracy, in percent with intervals (tables 5.1, 5.2, 5.8)."""
    rows = _rows(study, methods, names, {name: _quality(study, methods, name) for name in names})
    title = f"{title} (N = {methods.cap})"
    brackets = "percent; in brackets intervals, resampled by claim; paired differences are in the table `paired`"
    notes = (brackets, *_features_note(study, names))
    return sheet(study, number, title, ("Dataset", "Method"), _quality_measures(study), rows, notes)


_COUNTS = [
    Measure("Avg traces/claim", "traces_per_claim"),
    Measure("Trace attempts", "trace_attempts", 0),
    Measure("Missing-label traces", "missing_label_traces", 0),
    Measure("Verifier calls", "verifier_calls", 0),
    Measure("Total operations", "operations", 0),
]


def counts(methods: Methods, name: str) -> dict[str, Value]:
    """Traces, those without a label, verifier calls and operations of one method."""
    attempts, valid = methods.total(name, "traces"), methods.total(name, "valid_traces")
    return {
        "traces_per_claim": methods.cell(name, "traces"),
        "trace_attempts": attempts,
        "missing_label_traces": None if attempts is None or valid is None else attempts - valid,
        "verifier_calls": methods.total(name, "verifications"),
        "operations": methods.total(name, "operations"),
        "operations_change_pct": methods.change(name, "operations") if name != BEST else None,
    }


def operations(study: Study, number: str, title: str, methods: Methods, names: Sequence[str]) -> Table:
    """Traces, missing labels, verifier calls, operations and their change (tables 5.3 and 5.9)."""
    measures = [
        Measure("Avg traces/claim", "traces_per_claim", interval=True),
        *_COUNTS[1:],
        Measure("Operations change, %", "operations_change_pct", 1, interval=True, signed=True),
    ]
    rows = _rows(study, methods, names, {name: counts(methods, name) for name in names})
    notes = _features_note(study, names)
    return sheet(study, number, f"{title} (N = {methods.cap})", ("Dataset", "Method"), measures, rows, notes)


def _features_note(study: Study, names: Sequence[str]) -> list[str]:
    return [study.features_note] if study.features_note and SURROGATE in names else []


def tokens(study: Study) -> Table:
    """Prompt, completion and generation tokens and their change (table 5.4)."""
    methods = study.main
    measures = [
        Measure("Prompt tokens", "prompt_tokens", 0),
        Measure("Completion tokens", "completion_tokens", 0),
        Measure("Total gen. tokens", "generation_tokens", 0),
        Measure("Token change, %", "tokens_change_pct", 1, interval=True, signed=True),
    ]
    values: dict[str, dict[str, Value]] = {}
    for name in (BEST, ADAPTIVE):
        prompt, completion = (methods.total(name, kind) for kind in ("prompt_tokens", "completion_tokens"))
        values[name] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "generation_tokens": None if prompt is None or completion is None else prompt + completion,
            "tokens_change_pct": methods.change(name, GENERATED) if name != BEST else None,
        }
    rows = _rows(study, methods, (BEST, ADAPTIVE), values)
    title = f"Generation-token savings (N = {methods.cap})"
    return sheet(study, "5.4", title, ("Dataset", "Method"), measures, rows)


_SECONDS = [
    Measure("Gen./claim, s", "generation_s_per_claim", interval=True),
    Measure("Ver./claim, s", "verification_s_per_claim", interval=True),
    Measure("Total/claim, s", "total_s_per_claim", interval=True),
    Measure("Runtime, h", "runtime_h", interval=True),
    Measure("Cost, €", "cost_eur", 3, interval=True, significant=2),
]


def _seconds(study: Study, methods: Methods, name: str) -> dict[str, Value]:
    hours = methods.n / 3600
    both = "generation_s+verification_s"
    return {
        "generation_s_per_claim": methods.cell(name, "generation_s"),
        "verification_s_per_claim": methods.cell(name, "verification_s"),
        "total_s_per_claim": methods.sum_of(name, both),
        "runtime_h": methods.sum_of(name, both, hours),
        "cost_eur": euros(study, methods, name),
    }


def euros(study: Study, methods: Methods, name: str, part: str | None = None) -> ShownInterval | None:
    """Price of all claims, or of their `generation` or `verification`: of device seconds where the log has them.

    The parts' device seconds are known of the main comparison alone.
    """
    price = methods.n / 3600 * study.eur_per_h
    if methods.priced_by != "device_s":
        return methods.sum_of(name, "generation_s+verification_s" if part is None else f"{part}_s", price)
    if part is None:
        return methods.cell(name, "device_s", price)
    found = study.device_s.get((name, part))
    if found is None or (part == "verification" and methods.unpaid(name, "device_s")):
        return None
    return found.times(price)


def price_note(study: Study, *runs: Methods) -> str:
    """What euros come from, which need not be the hours beside them."""
    rate = f"{study.kw:g} kW · {study.eur_per_kwh:g} € per kWh = {study.eur_per_h:g} € per hour"
    if not any(methods.priced_by == "device_s" for methods in runs):
        return f"cost: hours · {rate}"
    hours = "hours: summed latency of the calls, as in the thesis"
    return f"{hours}; cost: of the device's own seconds, fewer where calls ran side by side · {rate}"


def seconds(study: Study, number: str, title: str, methods: Methods, names: Sequence[str]) -> Table:
    """Seconds per claim, hours and euros (tables 5.5 and 5.10)."""
    rows = _rows(study, methods, names, {name: _seconds(study, methods, name) for name in names})
    title = f"{title} (N = {methods.cap})"
    notes = (price_note(study, methods), *_features_note(study, names))
    return sheet(study, number, title, ("Dataset", "Method"), _SECONDS, rows, notes)


def calls(study: Study) -> Table:
    """Trace attempts and verifier calls with the surrogate, and what it saves (table 5.6)."""
    methods = study.main
    measures = [
        *_COUNTS[1:4],
        Measure("Verifier calls/claim", "verifier_calls_per_claim", interval=True),
        Measure("Savings vs. Exh. BoN, %", "saving_vs_exhaustive_pct", 1, interval=True),
        Measure("Savings vs. Adaptive, %", "saving_vs_adaptive_pct", 1, interval=True),
    ]
    values: dict[str, dict[str, Value]] = {}
    for name in (BEST, ADAPTIVE, SURROGATE):
        saved = {
            "saving_vs_exhaustive_pct": _saving(methods, name, BEST) if name != BEST else None,
            "saving_vs_adaptive_pct": _saving(methods, name, ADAPTIVE) if name == SURROGATE else None,
        }
        own = {"verifier_calls_per_claim": methods.cell(name, "verifications")}
        values[name] = {**counts(methods, name), **own, **saved}
    rows = _rows(study, methods, (BEST, ADAPTIVE, SURROGATE), values)
    title = f"Trace attempts and verifier-call savings from surrogate guidance (N = {methods.cap})"
    none = [name for name in (BEST, ADAPTIVE) if (calls := methods.cell(name, "verifications")) and not calls.estimate]
    notes = _features_note(study, (SURROGATE,))
    notes += [f"savings vs. {SHOWN[name]}: a dash, for it makes no verifier call to divide by" for name in none]
    return sheet(study, "5.6", title, ("Dataset", "Method"), measures, rows, notes)


def _saving(methods: Methods, name: str, against: str) -> ShownInterval | None:
    change = methods.change(name, "verifications", against)
    if change is None:
        return None
    low, high = change.low, change.high
    return ShownInterval(-change.estimate, None if high is None else -high, None if low is None else -low)


def runtime(study: Study) -> Table:
    """Hours and euros of generation and verification with the surrogate (table 5.7)."""
    methods, hours = study.main, study.main.n / 3600
    measures = [
        Measure("Gen. runtime, h", "generation_h", interval=True),
        Measure("Ver. runtime, h", "verification_h", interval=True),
        Measure("Total runtime, h", "total_h", interval=True),
        Measure("Verifier cost, €", "verifier_cost_eur", 3, interval=True, significant=2),
        Measure("Total cost, €", "total_cost_eur", 3, interval=True, significant=2),
    ]
    both = "generation_s+verification_s"
    values: dict[str, dict[str, Value]] = {
        name: {
            "generation_h": methods.cell(name, "generation_s", hours),
            "verification_h": methods.cell(name, "verification_s", hours),
            "total_h": methods.sum_of(name, both, hours),
            "verifier_cost_eur": euros(study, methods, name, "verification"),
            "total_cost_eur": euros(study, methods, name),
        }
        for name in (BEST, ADAPTIVE, SURROGATE)
    }
    rows = _rows(study, methods, (BEST, ADAPTIVE, SURROGATE), values)
    title = f"Generation and verification runtime and cost (N = {methods.cap})"
    notes = (price_note(study, methods), *_features_note(study, (SURROGATE,)))
    return sheet(study, "5.7", title, ("Dataset", "Method"), measures, rows, notes)


def _cap_rows(study: Study, values: dict[tuple[int, str], dict[str, Value]]) -> list[Row]:
    return [
        Row((cap, SHOWN[name]), found, {"max_traces": cap, "method": name}) for (cap, name), found in values.items()
    ]


CUT = "all caps are cut from one pool, so rows differ by their cap and not by their traces"


def cap_quality(study: Study) -> Table:
    """Quality as the cap grows (table 5.11)."""
    values = {(c, name): _quality(study, m, name) for c, m in study.caps.items() for name in (BEST, ADAPTIVE)}
    heads = ("Max traces", "Method")
    title = "Performance as the maximum trace budget increases"
    return sheet(study, "5.11", title, heads, _quality_measures(study), _cap_rows(study, values), (CUT,))


def cap_operations(study: Study) -> Table:
    """Counts as the cap grows (table 5.12)."""
    values = {(c, name): counts(m, name) for c, m in study.caps.items() for name in (BEST, ADAPTIVE)}
    title = "Computational efficiency as the maximum trace budget increases"
    return sheet(study, "5.12", title, ("Max traces", "Method"), _COUNTS, _cap_rows(study, values), (CUT,))


def cap_seconds(study: Study) -> Table:
    """Seconds, hours and euros as the cap grows (table 5.13)."""
    values = {(c, name): _seconds(study, m, name) for c, m in study.caps.items() for name in (BEST, ADAPTIVE)}
    title = "Latency, summed runtime and cost as the maximum trace budget increases"
    notes = (CUT, price_note(study, *study.caps.values()))
    return sheet(study, "5.13", title, ("Max traces", "Method"), _SECONDS, _cap_rows(study, values), notes)
