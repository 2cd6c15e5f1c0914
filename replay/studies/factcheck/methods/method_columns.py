"""Columns that tables of verifying methods share: what they take, what it costs, and what they save."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from replay.studies.factcheck.methods.efficiency import missing_labels
from replay.studies.factcheck.methods.methods import ADAPTIVE, BEST, TITLES, VERIFYING, Methods
from replay.studies.factcheck.methods.runs import PolicyOfRun, change, hours, sum_of, total
from replay.studies.factcheck.methods.verifying import VerifyingSetting
from replay.studies.kit.sheet import Column, Value, intervals, numbers
from toolkit.errors import listed
from toolkit.show import ShownInterval
from toolkit.stats.many.summary_notes import BATCHED_SECONDS

GENERATED, BOTH = "prompt_tokens+completion_tokens", "generation_s+verification_s"


@dataclass(frozen=True)
class MethodOfRun(PolicyOfRun):
    """One method of one comparison, on examples of a label space."""

    cells: Methods
    labels: tuple[str, ...] = ()


ValueOf = Callable[[MethodOfRun], Value]


def saving(against: str) -> ValueOf:
    """Verifier calls saved, in percent, by the methods that come after the other one."""

    def value(of: PolicyOfRun) -> ShownInterval | None:
        later = VERIFYING.index(of.name) > VERIFYING.index(against)
        found = of.change("verifications", against) if later else None
        if found is None:
            return None
        low, high = (None if end is None else -end for end in (found.high, found.low))
        return ShownInterval(-found.estimate, low, high)

    return value


def euros(of: MethodOfRun, part: str | None = None) -> ShownInterval | None:
    """Price of all examples, or of their `generation` or `verification`: of device seconds where the log has them.

    The parts' device seconds are those that the run's cells were given.
    """
    price = of.cells.n / 3600 * of.cells.eur_per_h
    if of.cells.priced_by != "device_s":
        return of.sum_of(BOTH if part is None else f"{part}_s", price)
    if part is None:
        return of.cell("device_s", price)
    found = of.cells.device_s.get((of.name, part))
    unknown = found is None or (part == "verification" and of.cells.unpaid(of.name, "device_s"))
    return None if found is None or unknown else found.times(price)


def cost(heading: str, key: str, part: str | None = None) -> Column:
    """A column of euros."""
    return intervals(heading, key, 3, partial(euros, part=part), significant=2)


def percent(heading: str, key: str, metric: str) -> Column:
    """A share of examples, in percent."""
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
    numbers("Total gen. tokens", "generation_tokens", 0, total(GENERATED)),
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


def in_short(labels: Sequence[str], short: Mapping[str, str]) -> dict[str, str]:
    """Labels by the `short` names for them, which are by small letters; empty where they are not exactly those."""
    found, names = {short.get(label.lower(), ""): label for label in labels}, dict.fromkeys(short.values())
    return {x: found[x] for x in names} if len(labels) == len(names) and set(found) == set(names) else {}


def quality_columns(spaces: Sequence[tuple[str, ...]], short: Mapping[str, str]) -> list[Column]:
    """F1 of each class, under short names where every label space has exactly these, then the means."""

    def of_class(name: str) -> ValueOf:
        return lambda row: row.cell(f"f1:{in_short(row.labels, short)[name]}", 100)

    if all(in_short(labels, short) for labels in spaces):
        names = dict.fromkeys(short.values())
        classes = [intervals(f"{x}-F1", f"{x.lower()}_f1_pct", value=of_class(x)) for x in names]
    else:
        every = dict.fromkeys(label for labels in spaces for label in labels)
        lacking = [label for label in every if any(label not in labels for labels in spaces)]
        why = f"a dash: of data sets without the class {listed(lacking)}" if lacking else ""
        classes = [
            intervals(f"F1 {label}", f"f1:{label}", metric=f"f1:{label}", scale=100, note=why * (label in lacking))
            for label in every
        ]
    means = percent("M-F1", "macro_f1_pct", "macro_f1"), percent("W-F1", "weighted_f1_pct", "weighted_f1")
    return [*classes, *means, percent("Acc.", "accuracy_pct", "accuracy")]


def price_note(setting: VerifyingSetting, *runs: Methods) -> str:
    """What euros come from, which need not be the hours beside them."""
    rate = f"{setting.kw:g} kW · {setting.eur_per_kwh:g} € per kWh = {setting.eur_per_h:g} € per hour"
    if not any(methods.priced_by == "device_s" for methods in runs):
        return f"cost: hours · {rate}"
    found = [one for methods in runs if methods.result is not None for one in methods.result.notes]
    batched = next((f"; {one.text}" for one in found if one.code == BATCHED_SECONDS), "")
    return f"{setting.hours}; cost: of the device's own seconds, fewer where calls ran in parallel · {rate}{batched}"


def no_savings(methods: Methods) -> Iterator[str]:
    """Which savings are dashes because there is nothing to divide by."""
    for name in (BEST, ADAPTIVE):
        if (calls := methods.cell(name, "verifications")) and not calls.estimate:
            yield f"savings vs. {TITLES[name]}: a dash, for it makes no verifier call to divide by"
