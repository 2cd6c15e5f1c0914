"""The study's tables on acting: when, at what cost, how the trade of errors found for false alarms runs, and people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from replay.studies.buzz.acts import Acts, accuracy_by_deviation, errors_by_deviation, kappa_values
from replay.studies.buzz.cases import RULES
from replay.studies.buzz.claims import PARTS, TIMING, mean_by_text, same_claims
from replay.studies.buzz.people import wins_of
from replay.studies.buzz.published import (
    UNFOLDING_TEXTS,
    fitting_counts,
    published_cost,
    published_people,
    published_timing,
)
from replay.studies.buzz.study import BEST, BuzzStudy, Variant
from replay.studies.buzz.tables import (
    ACCURACY,
    DATASET,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    TABLE_5,
    TABLE_6,
    TABLE_7,
    TABLE_8,
    TABLE_9,
    acting_notes,
)
from replay.studies.buzz.verdicts import VERDICTS, timed_pairs
from replay.studies.kit.cells import interval_cell, unlogged_note
from replay.studies.kit.runs import mean_cells
from replay.studies.kit.sheet import (
    Captions,
    Column,
    DashReason,
    Row,
    Sheet,
    Value,
    intervals,
    numbers,
    with_published,
    words,
)
from toolkit.show import IntervalCell, Number, TableColumn
from toolkit.stats import Settings, unit_numbers
from toolkit.stats.limits.intervals import quantile_limits

SHARES = (
    ("within_20", "|Δ| ≤ 20 %"), ("within_40", "|Δ| ≤ 40 %"), ("by_20", "Δ ≤ 20 %"), ("by_40", "Δ ≤ 40 %"),
    ("premature", "Δ < 0"),
)  # fmt: skip
"""Shares of found errors by when it acted, with their headings."""
LIMITS = tuple(round(-0.4 + 0.1 * step, 1) for step in range(15))
"""Limits on Δ of the curve of errors found by then."""
COSTS = (
    ("serial_calls", "serial calls"), ("calls", "calls"), ("queries", "searches"), ("prompt_tokens", "prompt tokens"),
    ("completion_tokens", "completion tokens"), ("latency_s", "seconds"), ("busy_s", "seconds, all claims added"),
)  # fmt: skip
"""Costs of a text, by outcome column."""
_KNOWN = ("within_20", "within_40")
_DRAWN = 200
"""Resamples that are drawn at a time."""


# ---- when ----


def timed_methods(study: BuzzStudy) -> list[Variant]:
    """Returns the methods that found errors at a known Δ, the main one's backbone first."""
    there = [one for one in (*study.methods, *study.variants) if study.acts(one.name).timed.any()]
    return list({one.name: one for one in there}.values())


def _median_cell(study: BuzzStudy, acts: Acts) -> IntervalCell:
    """The median Δ in percent, with limits by the order of its values where texts are independent, else from resamples
    of their clusters.
    """
    values, unit, settings = 100 * acts.deviation[acts.timed], study.texts.unit, study.setting.settings
    if len(np.unique(unit)) == len(unit):
        limits = quantile_limits(np.sort(values), 0.5, settings.level)
    else:
        limits = _limits_by_clusters(values, unit_numbers(unit[acts.timed]), settings)
    return IntervalCell(float(np.median(values)), *limits)


def _limits_by_clusters(values: np.ndarray, unit: np.ndarray, settings: Settings) -> tuple[float | None, float | None]:
    """The percentile limits of the median of values (N,) whose clusters `unit` (N,), numbered from 0, are drawn."""
    order, clusters = np.argsort(values, kind="stable"), int(unit.max()) + 1
    if clusters < 2:
        return None, None
    rng, medians = np.random.default_rng(settings.seed), []
    for first in range(0, settings.resamples, _DRAWN):
        count = min(_DRAWN, settings.resamples - first)
        weights = rng.multinomial(clusters, np.full(clusters, 1 / clusters), count)[:, unit[order]].cumsum(axis=1)
        medians.append(values[order][(2 * weights >= weights[:, -1:]).argmax(axis=1)])
    low, high = np.quantile(np.concatenate(medians), ((1 - settings.level) / 2, (1 + settings.level) / 2))
    return float(low), float(high)


def _timing_rows(study: BuzzStudy) -> Iterator[Row]:
    methods, main = timed_methods(study), study.systems.main.name
    gaps = study.gaps(timed_pairs([one.name for one in methods if one.name != main], study), rate=False)
    for one in methods:
        acts = study.acts(one.name)
        shares = {key: values for key, values in acts.timing().items() if key != "deviation"}
        values: dict[str, Value] = {
            **study.means(shares), **study.means({"deviation": acts.deviation}, rate=False),
            "median": _median_cell(study, acts),
            "found": float(np.nansum(acts.finds)), "timed": float(acts.timed.sum()),
            "texts": float(((study.texts.error == 1) & acts.replayed).sum()), "gap": gaps.get(one.name),
            "counts": "a claim that names it" if study.names_claims(one) else "any act",
        }  # fmt: skip
        published = published_timing(study.published) if study.is_published_system(one.name) else {}
        yield Row((one.name,), None, values, published)


def _timing_columns(parts: Sequence[BuzzStudy]) -> Iterator[Column]:
    yield words("counts as found", "counts")
    yield from (numbers("texts with an error", "texts", 0), numbers("found", "found", 0), numbers("with Δ", "timed", 0))
    yield intervals("mean Δ %", "deviation", 1, signed=True)
    yield intervals("median Δ %", "median", 1, signed=True)
    for key, heading in SHARES:
        column = intervals(f"{heading}, %", key, 1)
        yield with_published(column, key, f"published {heading}", f"published_{key}") if key in _KNOWN else column
    yield intervals("mean Δ minus the system's, points", "gap", 1, signed=True, drop=1)


TIMING_TABLE = Sheet[BuzzStudy](
    "timing", "When methods act that found the error", ("method",), lambda parts: list(_timing_columns(parts)),
    _timing_rows,
    ("Δ = (the word at which it acts − the word that first shows the error) / words of the text, in percent. Shares "
     "are of the found errors with a known Δ; differences of the texts on which both found it, at once for all rows. "
     "Verdicts on texts name no claim: any act on a text with an error counts, also one for a wrong reason, and their "
     "difference is to the system's acts counted so. "
     f"The paper does not give its denominator: of its {UNFOLDING_TEXTS} texts {', '.join(fitting_counts())} right "
     "answers fit both of its shares. Nor does it say whether an act long before the error can be seen is within them: "
     "its numbers stand beside |Δ|, and may be of Δ.",
     acting_notes, BuzzStudy.unnamed_lines),
    DATASET, optional=True,
)  # fmt: skip


@dataclass(frozen=True)
class DeviationCurves:
    """What a method reaches by the limit on Δ, in percent: the errors that it `finds` by then, its `accuracy` where
    later acts do not count, and the `gap` of this to the main method's, whose limits hold for all limits on Δ at once.
    """

    finds: Mapping[float, IntervalCell | None]
    accuracy: Mapping[float, IntervalCell | None]
    gap: Mapping[float, IntervalCell]


def deviation_curves(study: BuzzStudy, method: Variant) -> DeviationCurves:
    """Returns what a method reaches by each limit on Δ."""

    def compute() -> DeviationCurves:
        acts, main = study.acts(method.name), study.main_acts
        by_then, right = (
            {f"{at}": values for at, values in curve(acts, study.texts, LIMITS)}
            for curve in (errors_by_deviation, accuracy_by_deviation)
        )
        pairs = {}
        if main is not None and main is not acts:
            pairs = {at: (right[f"{at}"], values) for at, values in accuracy_by_deviation(main, study.texts, LIMITS)}
        finds, accuracy = ({at: means[f"{at}"] for at in LIMITS} for means in map(study.means, (by_then, right)))
        return DeviationCurves(finds, accuracy, study.gaps(pairs))

    return study.once(("by deviation", method.name), compute)


def _by_deviation_rows(study: BuzzStudy) -> Iterator[Row]:
    for one in timed_methods(study):
        curves = deviation_curves(study, one)
        for at in LIMITS:
            values = {"found": curves.finds[at], "accuracy": curves.accuracy[at], "gap": curves.gap.get(at)}
            yield Row((one.name, 100 * at), None, values)


BY_DEVIATION = Sheet[BuzzStudy](
    "by_deviation", "Errors found and accuracy by Δ", ("method", TableColumn("Δ at most, %", Number(0), "limit")),
    (intervals("found %", "found", 1), ACCURACY,
     intervals("accuracy minus the system's, points", "gap", 1, signed=True)),
    _by_deviation_rows,
    ("Acts that are later do not count. found: of texts with an error at a known word; of verdicts on texts any act "
     "counts. accuracy: of these and of texts without an error; an act on a text with one is right for any reason. "
     "Limits of differences hold for all rows of a method at once.", BuzzStudy.unnamed_lines), DATASET, optional=True,
    printed=False,
)  # fmt: skip


def _cost_rows(study: BuzzStudy) -> Iterator[Row]:
    for one in (*study.methods, *(v for v in study.variants if not v.is_pool)):
        run = study.run_of(one.name)
        columns = {key: run.values(one.name, key) for key, _ in COSTS}
        logged = {key: column for key, column in columns.items() if not np.isnan(column).any()}
        means = mean_cells(logged, run.unit, study.setting.settings, 1.0, rate=False)
        for key, heading in COSTS:
            column = columns[key]
            if np.isnan(column).all():
                continue
            whole = key in means
            values: dict[str, Value] = {
                "mean": means.get(key),
                "spread": float(np.std(column, ddof=1)) if whole and len(column) > 1 else None,
            }  # fmt: skip
            published = published_cost(study.published, key) if study.is_published_system(one.name) else {}
            yield Row((one.name, heading), None, values, published)


TABLE_A_5 = Sheet[BuzzStudy](
    "table_a_5", "Costs of a text", ("method", "quantity"),
    (with_published(intervals("mean", "mean", 2, significant=3), "mean", "published", "published"),
     with_published(numbers("standard deviation over texts", "spread", 2), "spread", "published ±",
                    "published_spread")),
    _cost_rows,
    ("The interval is of the mean, the standard deviation tells how much texts differ. Of checks all claims are paid "
     "to the end of the stream, as the system ran; serial calls take claims of one position side by side.",),
    DATASET, "A.5", optional=True,
)  # fmt: skip


# ---- thresholds, caps, a text that does not wait ----


def _sweep_values(study: BuzzStudy, name: str) -> dict[str, Value]:
    run = study.sweep
    values: dict[str, Value] = {
        key: run.cell(name, key, 100) for key in ("found", "false_alarm", "accuracy", "deviation", "within_20")
    }
    return values | {"calls": run.cell(name, "calls")}


SETTINGS = {
    "confidence": "least confidence", "patience": "claims to be refuted", "max_claims": "claims of a text",
    "max_rounds": "rounds of a claim",
}  # fmt: skip
"""What the settings of the frontier are called, by the policy's key."""


def swept_settings(study: BuzzStudy) -> Iterator[tuple[str, float, str]]:
    """Yields key, value and policy of every setting of the frontier; of confidences only where some are logged."""
    for key in SETTINGS:
        names = study.swept_names(key)
        if key == "confidence" and not study.has_confidences:
            continue
        yield from ((key, value, name) for value, name in names.items())


def _frontier_rows(study: BuzzStudy) -> Iterator[Row]:
    for key, value, name in swept_settings(study):
        learnt = key == "confidence" and value == study.learnt_threshold
        values = _sweep_values(study, name) | {"chosen": "yes" if learnt else ""}
        yield Row((SETTINGS[key], f"{value:g}"), None, values)


_ACTING = (
    intervals("found %", "found", 1), intervals("false alarms %", "false_alarm", 1), ACCURACY,
    intervals("mean Δ %", "deviation", 1, signed=True), intervals("|Δ| ≤ 20 %, %", "within_20", 1, drop=1),
    intervals("calls", "calls", 1, drop=1),
)  # fmt: skip
FRONTIER = Sheet[BuzzStudy](
    "frontier", "Errors found against false alarms", ("setting", "value"),
    (*_ACTING, words("chosen on dev", "chosen")), _frontier_rows,
    ("One setting at a time: the least confidence of a refutation that counts (`confidence` of a policy), how many "
     "claims must be refuted (`patience`), claims of a text (`max_claims`), rounds of a claim (`max_rounds`). A policy "
     "stops at its act, so one that acts later or on fewer texts may make more calls.",
     lambda study: study.threshold_choice.lines, BuzzStudy.unnamed_lines),
    DATASET, optional=True,
)  # fmt: skip


def _clock_rows(study: BuzzStudy) -> Iterator[Row]:
    run, names = study.clock, [name for name in study.speeds if study.clock.has(name)]
    if len(names) < 2 or "waits" not in names or run.cell("waits", "deviation") is None:
        return
    pairs = [(name, "waits") for name in names if name != "waits"]
    later, right = (run.differences(metric, pairs, 100) for metric in ("deviation", "accuracy"))
    metrics = "deviation", "within_20", "premature", "found", "false_alarm", "accuracy"
    for name in names:
        values: dict[str, Value] = {key: run.cell(name, key, 100) for key in metrics}
        gaps = {"gap": later.get((name, "waits")), "gap_accuracy": right.get((name, "waits"))}
        yield Row((name,), None, values | gaps | {"texts": float(len(run.ids))})


CLOCK = Sheet[BuzzStudy](
    "clock", "What being slow costs", ("text",),
    (intervals("mean Δ %", "deviation", 1, signed=True), intervals("|Δ| ≤ 20 %, %", "within_20", 1),
     intervals("Δ < 0, %", "premature", 1), intervals("mean Δ minus waiting, points", "gap", 1, signed=True),
     intervals("found %", "found", 1), intervals("false alarms %", "false_alarm", 1), ACCURACY,
     intervals("accuracy minus waiting, points", "gap_accuracy", 1, signed=True, drop=1),
     numbers("texts", "texts", 0, drop=2)),
    _clock_rows,
    ("Where the text goes on, a claim is refuted at the word of its first round and those spoken in the seconds of its "
     "rounds; it acts at the refutation that comes first so, which may be of another claim than where the text waits: "
     "a quick claim overtakes a slow one. Of the texts whose seconds and length are logged; limits of differences hold "
     "for all rows at once, those of Δ are of texts on which both found the error.", BuzzStudy.unnamed_lines), DATASET,
    optional=True,
)  # fmt: skip
CALIBRATION = Sheet[BuzzStudy](
    "calibration", "Whether confidences tell how often verdicts are right", ("verdicts",),
    (numbers("claims", "claims", 0, value=lambda one: one.calibration.n),
     numbers("decided", "decided", 0, value=lambda one: one.decided),
     intervals("right %", "rate", 1, value=lambda one: interval_cell(one.rate, 100)),
     intervals("mean confidence %", "score", 1, value=lambda one: interval_cell(one.score, 100)),
     intervals("AUC %", "auc", 1, value=lambda one: interval_cell(one.auc, 100)),
     intervals("Brier", "brier", 3, value=lambda one: interval_cell(one.calibration.brier)),
     intervals("calibration error", "ece", 3, value=lambda one: interval_cell(one.calibration.ece))),
    lambda study: (Row((name,), one) for name, one in study.confidences),
    ("Of claims decided with a confidence (`decided`) that are judged: a verdict is right by the claim's own label, a "
     "refutation else by whether the claim names the error. All verdicts stand here where each of them is judged. "
     "Intervals by text, each by itself. Refutations are selected by their verdict: confidences that are right "
     "of all verdicts need not be right of these, so the question is asked of all.",),
    DATASET, optional=True,
)  # fmt: skip


# ---- two pools, and the best in hindsight ----


def _agreement_rows(study: BuzzStudy) -> Iterator[Row]:
    main, acts = study.systems.main, study.main_acts
    for one in (one for one in study.methods if acts is not None and one.name != main.name):
        assert acts is not None
        other = study.acts(one.name)
        values: dict[str, Value] = {
            **study.means({"kappa": kappa_values(acts.acted, other.acted)}, 1, rate=False),
            **study.means({
                "agree": (acts.acted == other.acted).astype(float), "right": acts.right * other.right,
                "first": acts.right * (1 - other.right), "second": (1 - acts.right) * other.right,
            }),
        }  # fmt: skip
        if one.system.checks:
            same = same_claims(study.claims(main), study.claims(one.system))
            values |= {"claims": float(len(same)), "claims_agree": study.mean(mean_by_text(same, "agree", study.texts))}
        yield Row((one.name,), None, values)


AGREEMENT = Sheet[BuzzStudy](
    "agreement", "Verdicts of the system and of another", ("other",),
    (intervals("agree %", "agree", 1), intervals("κ", "kappa", 2), intervals("both right %", "right", 1),
     intervals("the system alone %", "first", 1), intervals("the other alone %", "second", 1),
     numbers("same claims", "claims", 0), intervals("of these agree %", "claims_agree", 1)),
    _agreement_rows,
    ("Verdicts on texts; same claims: of a text, in the same words, the mean over texts that have any.",), DATASET,
    optional=True,
)  # fmt: skip


def headroom_cells(study: BuzzStudy, acts: Acts, without: str = "") -> dict[str, IntervalCell | None]:
    """Returns what a method lacks to the best in hindsight by part, in percent of texts with an error; `timing` in
    points of Δ. `without`: the policy whose part is cut from the claims.
    """
    parts = study.claims(study.systems.main, without).headroom_parts(acts, study.acts(BEST))
    timing = study.means({TIMING: parts.pop(TIMING)}, rate=False)
    return study.means({"gap": 1 - acts.finds, **parts}) | timing


def _headroom_rows(study: BuzzStudy) -> Iterator[Row]:
    main = study.systems.main.name
    if study.main_acts is None or not study.run.has(BEST) or not study.claims(study.systems.main).looked.any():
        return
    for name in (main, *(one.name for one in study.variants if not one.is_pool)):
        acts, best = study.acts(name), study.acts(BEST)
        best_finds = study.mean(np.where(acts.replayed, best.finds, np.nan))
        values: dict[str, Value] = {**headroom_cells(study, acts, name), "best": best_finds}
        yield Row((name,), None, values)


HEADROOM = Sheet[BuzzStudy](
    "headroom", "What is lost to the best act in hindsight", ("method",),
    (intervals("not found %", "gap", 1), *(intervals(f"{part} %", part, 1) for part in PARTS),
     intervals("later or earlier, points of Δ", TIMING, 1, signed=True), intervals("best finds %", "best", 1)),
    _headroom_rows,
    ("Of texts with an error. not found = extraction (no claim names the error) + search (no round decided the claim "
     "that does) + verdict (it was supported, or another was refuted), all of the claims and rounds that the method "
     "follows. The best in hindsight acts on any logged claim that "
     "names the error, nearest to the word that first shows it; it sees gold. Timing is |Δ| less that of the best "
     "where both find it.",),
    DATASET, optional=True,
)  # fmt: skip


# ---- people ----


def _people_rows(study: BuzzStudy) -> Iterator[Row]:
    people, acts, texts = study.people, study.main_acts, study.texts
    if people is None or acts is None:
        return
    right = np.where(texts.error == 1, acts.finds, acts.right)
    wins = wins_of(texts, acts)
    there = {"all": people.there} | {name: on & people.there for name, on in texts.groups(study.setting.by).items()}
    groups = {name: on for name, on in there.items() if on.any()}
    columns = {"any": people.any, "share": people.share, "system": right, "wins": wins}
    deltas = {"people_deviation": people.deviation, "deviation": acts.deviation}
    mine, timed = (
        {name: {key: np.where(on, column, np.nan) for key, column in some.items()} for name, on in groups.items()}
        for some in (columns, deltas)
    )
    gaps = study.gaps({name: (mine[name]["system"], mine[name]["any"]) for name in groups})
    pairs = {name: (timed[name]["people_deviation"], timed[name]["deviation"]) for name in groups}
    sooner = study.gaps(pairs, rate=False)
    for name, on in groups.items():
        both = ~np.isnan(timed[name]["deviation"] + timed[name]["people_deviation"])
        values: dict[str, Value] = {
            "texts": float(on.sum()), "both": float(both.sum()), "gap": gaps.get(name), "sooner": sooner.get(name),
            **study.means(mine[name]), **study.means(timed[name], rate=False),
        }  # fmt: skip
        yield Row((name,), None, values, published_people(study.published, name))


PEOPLE = Sheet[BuzzStudy](
    "people", "People on the same texts", ("group",),
    (numbers("texts", "texts", 0),
     with_published(intervals("someone right %", "any", 1), "any", "published %", "published"),
     intervals("one of them right %", "share", 1), intervals("system right %", "system", 1),
     intervals("system minus someone, points", "gap", 1, signed=True),
     with_published(intervals("Δ of people %", "people_deviation", 1, signed=True), "people_deviation",
                    "published Δ %", "published_deviation"),
     intervals("Δ of the system %", "deviation", 1, signed=True), numbers("both found", "both", 0),
     intervals("Δ of people minus its own, points", "sooner", 1, signed=True), intervals("expected wins %", "wins", 1)),
    _people_rows,
    ("someone right: as a show counts, the earliest right answer. The system is right where it finds the error, or "
     "does not act on a text without one. Δ is of the earliest right answer; differences of Δ where both are right. "
     "Expected wins, of texts with an error: the share of people who were not right before it, 0 where it does not "
     "find it. Limits of differences hold for all groups at once. The paper does not print its own Δ beside that of "
     "people.", BuzzStudy.unnamed_lines),
    DATASET, optional=True,
)  # fmt: skip
CASES = Sheet[BuzzStudy](
    "cases", "The texts of figure 1, by rule", ("case",),
    (numbers("texts", "count", 0), numbers("of", "of", 0), intervals("share %", "share", 1),
     words("drawn", "example"), words("rule", "rule", drop=2)),
    lambda study: (
        Row((one.kind,), values={"count": float(one.count), "of": float(one.of), "share": one.share,
                                 "example": one.example, "rule": RULES[one.kind]})
        for one in study.cases.cases
    ),
    ("`cases.csv` and the end of `report.md` have their rounds.",), DATASET, optional=True,
)  # fmt: skip
SHEETS = (
    VERDICTS, TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7, TABLE_8, TABLE_9, TIMING_TABLE,
    BY_DEVIATION, TABLE_A_5, FRONTIER, CLOCK, CALIBRATION, AGREEMENT, HEADROOM, PEOPLE, CASES,
)  # fmt: skip
"""Every table, in the order of the report."""


def captions_of(studies: Sequence[BuzzStudy]) -> Captions[BuzzStudy]:
    """Returns what stands above and below all tables."""
    gap = DashReason(unlogged_note("calls or tokens", "row"), frozenset({"calls", "mean"}))
    return Captions(simulated=any(study.simulated for study in studies), gaps=lambda sheet, parts: [gap])
