"""Tables 5.1 to 5.13 and B.1 to B.3 of the thesis on efficient fact checking, for any log, and what methods cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product

from replay.studies.factcheck.published import CAP, bucket_keys
from replay.studies.factcheck.runs import (
    ADAPTIVE,
    BEST,
    SURROGATE,
    TITLES,
    TOP,
    VERIFYING,
    VOTE,
    MethodOfRun,
    Methods,
    difference_limits_and_p,
)
from replay.studies.factcheck.study import LARGER, OTHER, Study
from replay.studies.kit.cells import cell, estimate, group_by_reason, note_line
from replay.studies.kit.sheet import Column, Row, Sheet, Value, intervals, numbers
from toolkit.errors import listed
from toolkit.show import IntervalCell, Number, TableColumn, remark
from toolkit.stats.many.summary_notes import BATCHED_SECONDS

GENERATED, BOTH = "prompt_tokens+completion_tokens", "generation_s+verification_s"


def _class_rows(study: Study) -> Iterator[Row]:
    """Yields the claims of each split by gold label (table 4.1)."""
    for (split,), part in study.classes.partition_by("split", as_dict=True, maintain_order=True).items():
        by_label = dict(part.select("label", "claims").iter_rows())
        yield Row((split,), values={**by_label, "claims": sum(by_label.values())})


_CLAIMS_BY_CLASS = Sheet[Study](
    "table_4_1", "Claims by class and split", ("Split",),
    lambda studies: [
        *(numbers(label, label, 0) for label in dict.fromkeys(one for study in studies for one in study.labels)),
        numbers("All", "claims", 0),
    ],
    _class_rows, ("by gold label; all: with claims without one",), "Dataset", "4.1",
)  # fmt: skip
ValueOf = Callable[[MethodOfRun], Value]


def total_of(metric: str) -> ValueOf:
    """Returns a function that gives the sum of a metric over the claims."""
    return lambda of: of.cells.total(of.name, metric)


def hours_of(metric: str) -> ValueOf:
    """Returns a function that gives the seconds of all claims in hours; parts joined by `+` are resampled together."""
    return lambda of: (of.cells.sum_of if "+" in metric else of.cells.cell)(of.name, metric, of.cells.n / 3600)


def change_of(metric: str, against: str) -> ValueOf:
    """Returns a function that gives the change of a mean against another method's, in percent."""
    return lambda of: of.change(metric, against)


def _count_traces_without_label(of: MethodOfRun) -> float | None:
    attempts, valid = (of.cells.total(of.name, metric) for metric in ("traces", "valid_traces"))
    return None if attempts is None or valid is None else attempts - valid


def _verifications_saved_against(against: str) -> ValueOf:
    """Returns a function that gives the verifier calls saved against a method, in percent, for the methods listed
    after it.
    """

    def saving_of_method(of: MethodOfRun) -> IntervalCell | None:
        later = VERIFYING.index(of.name) > VERIFYING.index(against)
        saving = of.change("verifications", against) if later else None
        return None if saving is None else saving.reversed()

    return saving_of_method


def euros_cell(of: MethodOfRun, part: str | None = None) -> IntervalCell | None:
    """Returns the price of all examples, or of their `generation` or `verification`, from device seconds where the log
    has them.

    The parts' device seconds are those that the run's cells were given.
    """
    price = of.cells.n / 3600 * of.cells.eur_per_h
    if of.cells.euro_seconds != "device_s":
        return of.cells.sum_of(of.name, BOTH if part is None else f"{part}_s", price)
    if part is None:
        return of.cell("device_s", price)
    seconds = of.cells.device_s.get((of.name, part))
    unknown = seconds is None or (part == "verification" and of.cells.lacks_cost(of.name, "device_s"))
    return None if seconds is None or unknown else seconds.scaled(price)


def euro_column(heading: str, key: str, part: str | None = None) -> Column:
    """Makes a column of euros."""
    return intervals(heading, key, 3, partial(euros_cell, part=part), significant=2)


def percent_column(heading: str, key: str, metric: str) -> Column:
    """Makes a column of a share of examples, in percent."""
    return intervals(heading, key, metric=metric, scale=100)


TRACES = numbers("Avg traces/claim", "traces_per_claim", metric="traces")
COUNTS = (
    numbers("Trace attempts", "trace_attempts", 0, total_of("traces")),
    numbers("Missing-label traces", "missing_label_traces", 0, _count_traces_without_label),
    numbers("Verifier calls", "verifier_calls", 0, total_of("verifications")),
    numbers("Total operations", "operations", 0, total_of("operations")),
)
OPERATIONS = (
    intervals("Avg traces/claim", "traces_per_claim", metric="traces"),
    *COUNTS,
    intervals("Operations change, %", "operations_change_pct", 1, change_of("operations", BEST), signed=True),
)
TOKENS = (
    numbers("Prompt tokens", "prompt_tokens", 0, total_of("prompt_tokens")),
    numbers("Completion tokens", "completion_tokens", 0, total_of("completion_tokens")),
    numbers("Total gen. tokens", "generation_tokens", 0, total_of(GENERATED)),
    intervals("Token change, %", "tokens_change_pct", 1, change_of(GENERATED, BEST), signed=True),
)
SECONDS = (
    intervals("Gen./claim, s", "generation_s_per_claim", metric="generation_s"),
    intervals("Ver./claim, s", "verification_s_per_claim", metric="verification_s"),
    intervals("Total/claim, s", "total_s_per_claim", value=lambda of: of.cells.sum_of(of.name, BOTH)),
    intervals("Runtime, h", "runtime_h", value=hours_of(BOTH)),
    euro_column("Cost, €", "cost_eur"),
)
CALLS = (
    *COUNTS[:3],
    intervals("Verifier calls/claim", "verifier_calls_per_claim", metric="verifications"),
    intervals("Savings vs. Exh. BoN, %", "saving_vs_exhaustive_pct", 1, _verifications_saved_against(BEST)),
    intervals("Savings vs. Adaptive, %", "saving_vs_adaptive_pct", 1, _verifications_saved_against(ADAPTIVE)),
)
RUNTIME = (
    intervals("Gen. runtime, h", "generation_h", value=hours_of("generation_s")),
    intervals("Ver. runtime, h", "verification_h", value=hours_of("verification_s")),
    intervals("Total runtime, h", "total_h", value=hours_of(BOTH)),
    euro_column("Verifier cost, €", "verifier_cost_eur", "verification"),
    euro_column("Total cost, €", "total_cost_eur"),
)


def _price_note(study: Study, *runs: Methods) -> str:
    """Says which seconds the euros come from, since they may differ from the hours beside them."""
    setting = study.setting
    rate = f"{setting.kw:g} kW · {setting.eur_per_kwh:g} € per kWh = {setting.eur_per_h:g} € per hour"
    if not any(methods.euro_seconds == "device_s" for methods in runs):
        return remark("price", f"cost: hours · {rate}")
    notes = [note for methods in runs if methods.result is not None for note in methods.result.notes]
    batched = next((f"; {note.text}" for note in notes if note.code == BATCHED_SECONDS), "")
    cost = f"of the device's own seconds, fewer where calls ran in parallel · {rate}{batched}"
    return remark("price_of_device", f"hours: summed latency of the calls, as in the thesis; cost: {cost}")


def _no_savings_note(study: Study) -> Iterator[str]:
    """Says that savings are dashes against a method that makes no verifier call."""
    for name in (BEST, ADAPTIVE):
        if (calls := study.main.cell(name, "verifications")) and not calls.estimate:
            yield remark("no_savings", f"savings vs. {TITLES[name]}: a dash, because it makes no verifier call")


CUT = "all caps are cut from one pool, so rows differ by their cap and not by their traces"
IN_BRACKETS = (
    "percent; in brackets intervals: F1 of one class by Wilson's limits, all else resampled by claim; paired "
    "differences are in the table `paired`"
)
EARLIER_RUN = (
    "published: of another run than the thesis's other tables, of 40 traces: best-of-15 has a macro-F1 of {here:g} "
    "here and of {there:g} in tables 5.1 and 5.2"
)
CLASSES = {"supports": "T", "true": "T", "refutes": "F", "false": "F", "conflicting": "C"}
"""The thesis's letters for its three classes, by what a log calls them."""
Studies = Sequence[Study]


def _label_letters(labels: Sequence[str]) -> dict[str, str]:
    """Abbreviates labels by the thesis's letters; empty unless they are exactly its three."""
    by_letter = {CLASSES.get(label.lower(), ""): label for label in labels}
    return {x: by_letter[x] for x in "TFC"} if len(labels) == 3 and set(by_letter) == set("TFC") else {}


def quality_columns(studies: Studies) -> list[Column]:
    """Makes the columns of F1 by class, under the thesis's letters where all data sets have its classes, and of the
    means.
    """

    def f1_of_class(letter: str) -> ValueOf:
        return lambda row: row.cell(f"f1:{_label_letters(row.labels)[letter]}", 100)

    spaces = [study.labels for study in studies]
    if all(_label_letters(labels) for labels in spaces):
        classes = [intervals(f"{x}-F1", f"{x.lower()}_f1_pct", value=f1_of_class(x)) for x in "TFC"]
    else:
        every = dict.fromkeys(label for labels in spaces for label in labels)
        lacking = [label for label in every if any(label not in labels for labels in spaces)]
        why = f"a dash: the data set lacks the class {listed(lacking)}" if lacking else ""
        classes = [
            intervals(f"F1 {label}", f"f1:{label}", metric=f"f1:{label}", scale=100, note=why * (label in lacking))
            for label in every
        ]
    means = percent_column("M-F1", "macro_f1_pct", "macro_f1"), percent_column("W-F1", "weighted_f1_pct", "weighted_f1")
    return [*classes, *means, percent_column("Acc.", "accuracy_pct", "accuracy")]


Note = str | Callable[[Study], Iterable[str]]
Columns = Sequence[Column] | Callable[[Studies], Sequence[Column]]


def _runs_in_table(study: Study, number: str) -> Sequence[Methods]:
    """Returns the runs in the rows of a table; none where there is no other verifier to compare."""
    return [] if number in OTHER and study.setting.other_verifier is None else study.table_runs(number)


def _method_sheet(number: str, title: str, names: Sequence[str], columns: Columns, *notes: Note) -> Sheet[Study]:
    """Makes a table with one row per method, or per cap and method; a note says what the surrogate lacks."""
    by_cap = number in LARGER

    def rows_of_study(study: Study) -> Iterator[Row]:
        for methods, name in product(_runs_in_table(study, number), names):
            at = {"max_traces": methods.cap} if by_cap else {}
            published = study.published(number, **at, method=name)
            yield Row((*at.values(), TITLES[name]), MethodOfRun(methods, name, study.labels), **published)

    def notes_on_features(study: Study) -> list[str]:
        return [study.features_note] if SURROGATE in names and _runs_in_table(study, number) else []

    def title_of_table(studies: Studies) -> str:
        if by_cap:
            return f"{title} as the maximum trace budget increases"
        verifier = next((v for study in studies if (v := study.setting.other_verifier) is not None), None)
        ablation = f"Verifier ablation{'' if verifier is None else f' ({verifier})'}: "
        return f"{ablation if number in OTHER else ''}{title} (N = {studies[0].setting.cap})"

    heads = (TableColumn("Max traces", Number(0)), "Method") if by_cap else ("Method",)
    footnotes: tuple[Note, ...] = (CUT, *notes, _other_run_note) if by_cap else (*notes, notes_on_features)
    name = f"table_{number.replace('.', '_')}"
    return Sheet(name, title_of_table, heads, columns, rows_of_study, footnotes, "" if by_cap else "Dataset", number)


def _other_run_note(study: Study) -> list[str]:
    numbers = study.setting.published
    if numbers is None:
        return []
    here = numbers.number_in_row("5.11", "macro_f1_pct", max_traces=CAP, method=BEST)
    there = numbers.number_in_row("5.1", "macro_f1_pct", method=BEST)
    known = here is not None and there is not None
    return [remark("published_run", EARLIER_RUN.format(here=here, there=there))] if known else []


def _price_note_of(number: str) -> Note:
    return lambda study: [_price_note(study, *study.table_runs(number))]


BASELINES, STOPPING = (TOP, VOTE, BEST), (BEST, ADAPTIVE)
LATENCY = "Latency, summed runtime and cost"
GUIDED = "Trace attempts and verifier-call savings from surrogate guidance"
MAIN_TABLES = (
    _CLAIMS_BY_CLASS,
    _method_sheet("5.1", "Baseline comparison", BASELINES, quality_columns, IN_BRACKETS),
    _method_sheet("5.2", "Exhaustive BoN and Adaptive Stopping", STOPPING, quality_columns, IN_BRACKETS),
    _method_sheet("5.3", "Generator and verifier call savings", STOPPING, OPERATIONS),
    _method_sheet("5.4", "Generation-token savings", STOPPING, TOKENS),
    _method_sheet("5.5", LATENCY, STOPPING, SECONDS, _price_note_of("5.5")),
    _method_sheet("5.6", GUIDED, VERIFYING, CALLS, _no_savings_note),
    _method_sheet("5.7", "Generation and verification runtime and cost", VERIFYING, RUNTIME, _price_note_of("5.7")),
    _method_sheet("5.8", "performance", VERIFYING, quality_columns, IN_BRACKETS),
    _method_sheet("5.9", "efficiency", VERIFYING, OPERATIONS),
    _method_sheet("5.10", "latency and cost", VERIFYING, SECONDS, _price_note_of("5.10")),
    _method_sheet("5.11", "Performance", STOPPING, quality_columns),
    _method_sheet("5.12", "Computational efficiency", STOPPING, (TRACES, *COUNTS)),
    _method_sheet("5.13", LATENCY, STOPPING, SECONDS, _price_note_of("5.13")),
)
"""Tables 5.1 to 5.13."""


PARTS = ("generation", "verification")
NAMED = (("Gen.", "generation"), ("Ver.", "verification"), ("Other", "other"))


def _runtime_rows(study: Study) -> Iterator[Row]:
    """Yields hours and euros: of generation, of verification, and the rest of the wall-clock (table B.2)."""
    for name in VERIFYING:
        of = MethodOfRun(study.main, name)
        hours = {part: estimate(of.cell(f"{part}_s", of.cells.n / 3600)) for part in PARTS}
        costs = {part: estimate(euros_cell(of, part)) for part in PARTS}
        other = _remaining_hours(study, **hours) if name == BEST else None
        hours["other"], costs["other"] = other, None if other is None else other * study.setting.eur_per_h
        hours["total"], costs["run"] = _sum_if_known(hours.values()), _sum_if_known(costs.values())
        values: dict[str, Value] = {f"{part}_h": value for part, value in hours.items()}
        values |= {f"{part}_cost_eur": value for part, value in costs.items()}
        yield Row((TITLES[name],), values=values, **study.published("B.2", method=name))


def _sum_if_known(addends: Iterable[float | None]) -> float | None:
    """Adds numbers; None where one is unknown."""
    values = list(addends)
    return None if None in values else sum(value or 0 for value in values)


def _remaining_hours(study: Study, generation: float | None, verification: float | None) -> float | None:
    if study.wall.seconds is None or generation is None or verification is None:
        return None
    other = study.wall.seconds / 3600 - generation - verification
    return other if other >= 0 else None


def _wall_clock_line(study: Study) -> str:
    """Says what the wall-clock of the log's runs is, or why it is not known."""
    wall = study.wall
    if wall.pool_s is None or wall.verifier_s is None:
        return "; ".join(wall.why)
    runs = "run" if wall.runs == 1 else f"{wall.runs} runs"
    both = f"{wall.pool_s / 3600:.3f} h for pool `{study.setting.pool}` and {wall.verifier_s / 3600:.3f} h for verifier"
    text = f"wall-clock of the log's {runs}: {both} `{study.setting.verifier}`"
    if wall.why:
        return f"{text}; no rest is given: {'; '.join(wall.why)}"
    generation, verification = (study.main.total(BEST, metric) for metric in ("generation_s", "verification_s"))
    if generation is not None and verification is not None and (wall.seconds or 0.0) < generation + verification:
        return f"{text}; calls ran in parallel: that is shorter than their sum, so there is no rest"
    return text


def _bucket_rows(study: Study) -> Iterator[Row]:
    """Yields the number of claims by traces used (table B.1)."""
    for bucket in study.main.used_trace_buckets():
        values: dict[str, Value] = {
            "claims": bucket.examples, "share_pct": 100 * bucket.share, "by_attempts": bucket.attempts
        }  # fmt: skip
        if bucket.part is not None:
            score, whole = (cell(bucket.part, name, "macro_f1", 100) for name in (bucket.policy, BEST))
            comparison = difference_limits_and_p(bucket.part.comparisons, bucket.policy, BEST, "macro_f1")
            gained = None if comparison is None else IntervalCell.of(comparison[:3], 100)
            values |= {"method_macro_f1_pct": score, "exhaustive_macro_f1_pct": whole, "gain_pp": gained}
        published = study.published("B.1", **bucket_keys(bucket))
        yield Row((TITLES[bucket.policy], f"{bucket.first}–{bucket.last}"), values=values, **published)


def _overhead_rows(study: Study) -> Iterator[Row]:
    """Yields an upper bound on the surrogate's own time (table B.3), and the time that replay measured."""
    seconds = study.surrogate_s
    values: dict[str, Value] = {
        "measured_s_per_claim": seconds,
        "measured_h": None if seconds is None else seconds * study.main.n / 3600,
    }
    yield Row((), values=values, **study.published("B.3"))


SPENT = (
    "traces", "verifications", "operations", "calls", "prompt_tokens", "completion_tokens", "total_tokens",
    "generation_s", "verification_s", "latency_s", "cost_eur",
)  # fmt: skip
CALL = "per verifier call"
PER = (
    ("generation_s", "traces", "per trace"),
    ("prompt_tokens+completion_tokens", "traces", "per trace"),
    ("verification_s", "verifications", CALL),
    ("operations", "verifications", CALL),
    ("latency_s", "verifications", CALL),
)
"""Ratios of means in tables."""


def _efficiency_rows(study: Study) -> Iterator[Row]:
    """Yields calls, tokens and seconds per claim, per trace and per verifier call, hours and euros, with reductions."""
    cells, claims = study.main, study.main.n
    for name, title in TITLES.items():
        of = MethodOfRun(cells, name)
        for metric in SPENT:
            many, words = (1000, "1,000 claims") if metric == "cost_eur" else (1, "claim")
            mean, total, change = of.cell(metric, many), of.cell(metric, claims), of.change(metric, BEST)
            yield Row((title, f"{metric}, per {words}"), values={"mean": mean, "total": total, "change": change})
        yield Row((title, "missing-label traces"), values={"total": _count_traces_without_label(of)})
        for over, under, words in PER:
            yield Row((title, f"{over}, {words}"), values={"mean": cells.ratio(name, over, under)})
        hours, change = of.cell("latency_s", claims / 3600), of.change("latency_s", BEST)
        yield Row((title, "hours, all claims"), values={"total": hours, "change": change})


def _efficiency_notes(study: Study) -> Iterator[str]:
    yield from group_by_reason(study.main.missing)
    yield from study.main.unlogged_reasons().values()
    yield "hours: of latency_s, one call after the other"
    yield f"{CALL}: a dash where a method makes none"
    yield from (note_line(note) for note in study.notes if "cost_eur" in note.metrics)
    yield "change: against exhaustive best-of-N; a dash where its number is 0"


APPENDIX = (
    Sheet(
        "table_B_1", "Macro-F1 by valid traces used", ("Method", "Valid traces"), (
            numbers("Claims", "claims", 0), numbers("Share, %", "share_pct", 1),
            numbers("Claims by attempts", "by_attempts", 0, drop=1),
            intervals("Method Macro-F1", "method_macro_f1_pct"), intervals("Exh. Macro-F1", "exhaustive_macro_f1_pct"),
            intervals("Method − exhaustive, points", "gain_pp", signed=True),
        ), _bucket_rows, (
            "percent; exhaustive best-of-N is judged on the claims of each row",
            "by attempts: claims with as many traces, also those without a label",
        ), "Dataset", "B.1",
    ),
    Sheet(
        "table_B_2", "Wall-clock runtime and cost", ("Method",), (
            *(numbers(f"{head} h", f"{part}_h") for head, part in (*NAMED, ("Total", "total"))),
            *(numbers(f"{head} cost, €", f"{part}_cost_eur", 3, significant=2)
              for head, part in (*NAMED, ("Run", "run"))),
        ), _runtime_rows, (
            lambda study: [_price_note(study, study.main), _wall_clock_line(study)],
            "other: wall-clock less generation and verification; a replayed method that stops early has none",
        ), "Dataset", "B.2",
    ),
    Sheet(
        "table_B_3", "Overhead of the linear surrogate", (), (
            numbers("Upper-bound time, h", "upper_bound_h"),
            numbers("Upper-bound cost, €", "upper_bound_cost_eur", 3, significant=2),
            numbers("Measured, s per claim", "measured_s_per_claim", 6), numbers("Measured, h", "measured_h", 6),
        ), _overhead_rows, (
            "measured: wall-clock of replay's surrogate, all claims together; it holds no feature construction",
            "the bound is a dash: it is the wall-clock of a surrogate-guided run, and replay makes no calls",
        ), "Dataset", "B.3",
    ),
)  # fmt: skip
"""Tables B.1 to B.3."""
COSTS = Sheet[Study](
    "efficiency", "Efficiency of every method", ("Method", "Number"), (
        intervals("Mean", "mean", 4, significant=2), intervals("Total", "total", 2, significant=2),
        intervals("Change, %", "change", 1, signed=True),
    ), _efficiency_rows, (_efficiency_notes,), printed=False,
)  # fmt: skip
