"""Tables B.1 to B.3 of the thesis, and the tables of one order, setting or claim at a time that it does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replay.studies.factcheck.runs import BEST, METHODS, TITLES, VERIFYING, bucket_keys
from replay.studies.factcheck.study import Method, Study
from replay.studies.factcheck.tables import euros, price_note
from replay.studies.kit.cells import cell, compared, estimate
from replay.studies.kit.efficiency import EFFICIENCY, efficiency
from replay.studies.kit.gaps import reasons
from replay.studies.kit.sheet import Row, Sheet, Value, intervals, listed, numbers
from toolkit.show import ShownInterval

PARTS = ("generation", "verification")


def buckets(study: Study) -> Iterator[Row]:
    """Claims by traces used (table B.1)."""
    for found in study.main.buckets():
        values: dict[str, Value] = {"claims": found.examples, "share_pct": 100 * found.share}
        if found.part is not None:
            own, whole = (cell(found.part, name, "macro_f1", 100) for name in (found.policy, BEST))
            made = compared(found.part.comparisons, found.policy, BEST, "macro_f1")
            gained = None if made is None else ShownInterval.of(made[:3], 100)
            values |= {"method_macro_f1_pct": own, "exhaustive_macro_f1_pct": whole, "gain_pp": gained}
        theirs = study.published("B.1", [study.main], **bucket_keys(found))
        yield Row((TITLES[found.policy], f"{found.first}–{found.last}"), values=values, **theirs)


def _sum(found: Iterable[float | None]) -> float | None:
    """The sum of numbers that are all known."""
    values = list(found)
    return None if None in values else sum(value or 0 for value in values)


def wall(study: Study) -> Iterator[Row]:
    """Hours and euros of generation, verification and the rest of the wall-clock (table B.2)."""
    for name in VERIFYING:
        of = Method(study.main, name, study)
        hours = {part: estimate(of.cell(f"{part}_s", of.cells.n / 3600)) for part in PARTS}
        costs = {part: estimate(euros(of, part)) for part in PARTS}
        other = _other_h(study, **hours) if name == BEST else None
        hours["other"], costs["other"] = other, None if other is None else other * study.eur_per_h
        hours["total"], costs["run"] = _sum(hours.values()), _sum(costs.values())
        values: dict[str, Value] = {f"{part}_h": value for part, value in hours.items()}
        values |= {f"{part}_cost_eur": value for part, value in costs.items()}
        yield Row((TITLES[name],), values=values, **study.published("B.2", [study.main], method=name))


def _other_h(study: Study, generation: float | None, verification: float | None) -> float | None:
    if study.wall.seconds is None or generation is None or verification is None:
        return None
    other = study.wall.seconds / 3600 - generation - verification
    return other if other >= 0 else None


def _told_wall(study: Study) -> list[str]:
    """What the wall-clock of the log's runs is, or why it says nothing of the rest."""
    wall = study.wall
    if wall.pool_s is None or wall.verifier_s is None:
        return ["; ".join(wall.why)]
    runs = "run" if wall.runs == 1 else f"{wall.runs} runs"
    both = f"{wall.pool_s / 3600:.3f} h for pool `{study.setting.pool}` and {wall.verifier_s / 3600:.3f} h for verifier"
    told = f"wall-clock of the log's {runs}: {both} `{study.setting.verifier}`"
    if wall.why:
        return [f"{told}; no rest is told: {'; '.join(wall.why)}"]
    generation, verification = (study.main.total(BEST, metric) for metric in ("generation_s", "verification_s"))
    if generation is not None and verification is not None and (wall.seconds or 0.0) < generation + verification:
        return [f"{told}; calls ran in parallel: that is shorter than their sum, so there is no rest"]
    return [told]


def overhead(study: Study) -> Iterator[Row]:
    """Upper bound on the surrogate's own time (table B.3), and what replay measured."""
    spent = study.surrogate_s
    values: dict[str, Value] = {
        "measured_s_per_claim": spent,
        "measured_h": None if spent is None else spent * study.main.n / 3600,
    }
    yield Row((), values=values, **study.published("B.3", [study.main]))


def _efficiency_notes(study: Study) -> Iterator[str]:
    yield from reasons(study.main.missing)
    yield from study.main.unlogged().values()
    yield "hours: of latency_s, one call after the other"
    yield "per verifier call: a dash where a method makes none"
    yield from (str(note) for note in study.notes if "cost_eur" in note.metrics)
    yield "change: against exhaustive best-of-N; a dash where that has nothing of it to divide by"


def settings(study: Study) -> Iterator[Row]:
    """Macro-F1 and operations for every setting."""
    f1, spent = (study.sensitivity.table.filter(metric=metric) for metric in ("macro_f1", "operations"))
    found = f1.with_columns(operations=spent["estimate"])
    heads = ("margin", "cap", "min_valid", "bootstrap")
    return listed(found.iter_rows(named=True), heads, "estimate", "macro_f1_pct")


def _whole(study: Study) -> list[str]:
    return [price_note(study, study.main), *_told_wall(study)]


NAMED = (("Gen.", "generation"), ("Ver.", "verification"), ("Other", "other"))
APPENDIX = (
    Sheet(
        "table_B_1", "Macro-F1 by traces used", ("Method", "Traces used"), (
            numbers("Claims", "claims", 0), numbers("Share, %", "share_pct", 1),
            intervals("Method Macro-F1", "method_macro_f1_pct"), intervals("Exh. Macro-F1", "exhaustive_macro_f1_pct"),
            intervals("Difference", "gain_pp", signed=True),
        ), buckets, ("percent; exhaustive best-of-N is judged on the claims of each row",), "Dataset", "B.1",
    ),
    Sheet(
        "table_B_2", "Wall-clock runtime and cost", ("Method",), (
            *(numbers(f"{head} h", f"{part}_h") for head, part in (*NAMED, ("Total", "total"))),
            *(
                numbers(f"{head} cost, €", f"{part}_cost_eur", 3, significant=2)
                for head, part in (*NAMED, ("Run", "run"))
            ),
        ), wall, (
            _whole,
            "other: wall-clock less generation and verification; a replayed method that stops early has none",
        ), "Dataset", "B.2",
    ),
    Sheet(
        "table_B_3", "Overhead of the linear surrogate", (), (
            numbers("Upper-bound time, h", "upper_bound_h"),
            numbers("Upper-bound cost, €", "upper_bound_cost_eur", 3, significant=2),
            numbers("Measured, s per claim", "measured_s_per_claim", 6), numbers("Measured, h", "measured_h", 6),
        ), overhead, (
            "measured: wall-clock of replay's surrogate, all claims together; it holds no feature construction",
            "the bound needs the wall-clock of a surrogate-guided run, which replay does not make: a dash",
        ), "Dataset", "B.3",
    ),
)  # fmt: skip
"""Tables B.1 to B.3."""
COSTS: Sheet[Study] = Sheet(
    "efficiency", "Efficiency of every method", ("Method", "Number"), EFFICIENCY,
    lambda study: efficiency(study.main, {name: TITLES[name] for name in METHODS}, BEST), (_efficiency_notes,),
    printed=False,
)  # fmt: skip
SETTINGS = Sheet(
    "sensitivity", "Sensitivity to the settings", ("Margin", "Cap", "Minimum", "Bootstrap"),
    (intervals("Macro-F1, %", "macro_f1_pct"), numbers("Operations/claim", "operations", 2)), settings,
    ("bootstrap: of the surrogate; a dash is Adaptive Stopping, which has none",), group="sensitivity",
    printed=False,
)  # fmt: skip
