"""The report of a log: what it holds, what the standard suite reaches on it, and where the rest is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replay.policies.suite import suite
from replay.policies.suite_facts import MIN_SHARE
from replay.policies.toml import GivenPolicies, load_policies
from replay.runs.compare.headroom import GENERATION, SELECTION, SHARE, STOPPING, Headroom
from replay.runs.compare.same_questions import SameQuestions
from replay.runs.figures.figure_data import RATE, FigureData
from replay.runs.figures.figures import FIGURES
from replay.runs.figures.score_data import scores_of_log
from replay.runs.passes.example_set import resampling_units
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.runs.saved.display import group_inputs, ranked_input
from replay.runs.saved.provenance import PolicyRecord, largest_majority, policy_record
from replay.sampling.user_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError, counted, first_line, listed
from toolkit.files import replacing
from toolkit.log import AnyLog, Description, Log, describe_log, open_log
from toolkit.log.describe.assumptions import SURE
from toolkit.notes import Severity
from toolkit.printable import printable
from toolkit.show import (
    SIMULATED,
    WIDTH,
    ColumnNote,
    IntervalCell,
    NumberWithInterval,
    Ranked,
    RankedInput,
    Table,
    inches,
    rank,
    ranked_table,
    save_formats,
    table_of,
)
from toolkit.show.document import Document, PlacedFigure, PlacedTable, Section, as_latex, as_markdown
from toolkit.show.ranking.ranking import cell_of
from toolkit.show.ranking.results import percent, takeaway
from toolkit.show.tables.html import bullets, paragraph
from toolkit.stats.curves.arrays import Interval
from toolkit.stats.curves.roc import auc_intervals


@dataclass(frozen=True)
class _VerifierArea:
    """The area under the ROC curve of a verifier on one pool: over all traces, and among those of one example."""

    verifier: str
    pool: str
    auc: Interval
    auc_within: Interval


def _verifier_areas(log: Log, result: Result) -> tuple[_VerifierArea, ...]:
    """Known areas of each verifier on the compared examples, the best first.

    The pool is one that some policy reads it on, if any does; of several the one with most scored traces.
    """
    scores = scores_of_log(log, result.examples["example_id"]).filter(pl.col("score").is_finite())
    units = result.examples.select("example_id", unit=resampling_units(result.examples))
    scores = scores.join(units, on="example_id").sort("example_id")
    pairs_read = frozenset(pair for policy in result.policies for pair in _read(policy.settings))
    best: dict[str, tuple[bool, int, str]] = {}
    groups = scores.partition_by("verifier", "slice", as_dict=True)
    for (verifier, pool), rows in groups.items():
        place = ((verifier, pool) in pairs_read, rows.height, str(pool))
        best[str(verifier)] = max(best.get(str(verifier), place), place)
    settings, areas = result.summariser.settings, []
    for verifier, (*_, pool) in best.items():
        rows = groups[verifier, pool]
        intervals = auc_intervals(
            rows["score"], rows["correct"], rows["example_id"], cluster=rows["unit"], settings=settings
        )
        if intervals.auc.estimate is not None:
            areas.append(_VerifierArea(verifier, pool, intervals.auc, intervals.auc_within))
    return tuple(sorted(areas, key=lambda area: (-(area.auc.estimate or 0.0), area.verifier)))


def _read(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Verifiers with the pools that a policy, or parts of it, read them on."""
    verifier, pool = settings.get("verifier"), settings.get("pool")
    if isinstance(verifier, str) and isinstance(pool, str):
        yield verifier, pool
    for inner in settings.values():
        if isinstance(inner, Mapping):
            yield from _read(inner)


POINT = 0.01
MOST, STOPS = 3, 6
"""Gates and reasons, and policies that may stop, that are named one by one; the tables have all."""
SIGNED, PERCENT = NumberWithInterval(1, 100.0, True), NumberWithInterval(1, 100.0)
PARTS = {
    SELECTION: ("in selection (it paid for a right trace and answered something else)", "a better vote or verifier"),
    STOPPING: ("in stopping (a right trace was there, but it paid for none)", "paying for more traces"),
    GENERATION: ("in generation (no trace is right)", "better or more traces"),
}
"""Parts of the gap: where each arises, and what would help."""


def _sections(
    result: Result, description: Description, room: Headroom | None, areas: Sequence[_VerifierArea],
    left_out: Sequence[str], same: SameQuestions,
) -> tuple[Section, ...]:  # fmt: skip
    """The findings by what they are about; what there is nothing to say of has no section.

    `room`: None where there is no oracle; `left_out`: further lines of that; `same`: what other samples would show.
    """
    results, ordered = ranked_input(result), [*_ordered(description, result)]
    sections = {
        "Best policy": [*_best(result, results), *_again(same, result.leader)],
        "Against one attempt": [*_gain(result, results), *_again(same, result.baseline, _attempt_of(result))],
        f"Cheapest within a point of {result.baseline}": [*_cheapest(results), *ordered],
        "Stopping early": [*_stops(result, results), *ordered],
        "Headroom": [*_headroom(result, room, results)],
        "Gates and second steps": [*_gates(result, results)],
        "Verifiers": [*_verifiers(areas, results.n)],
        "Assumptions": [*_assumptions(description, result)],
        "Left out": [*_left_out(result, left_out)],
    }
    return tuple(Section(heading, tuple(sentences)) for heading, sentences in sections.items() if sentences)


def _first_attempt(policies: Iterable[PolicyRecord], description: Description) -> str | None:
    """The first policy of one attempt, of a pool that nearly all examples have; None where it would be alone."""
    real = [policy for policy in policies if not policy.diagnostic]
    sizes = description.pools.filter(action="solve").select("pool", "examples")
    whole = set(sizes.filter(pl.col("examples") >= MIN_SHARE * pl.col("examples").max())["pool"])
    plain = [one.name for one in real if one.settings.get("max_traces") == 1 and one.settings.get("pool") in whole]
    return plain[0] if plain and len(real) > 1 else None


def _one_attempt(policies: Sequence[PolicyRecord], baseline: str | None) -> str | None:
    """The policy of one attempt at what the baseline draws from, the exact mean if there is one; None without."""
    pools = {policy.name: policy.settings.get("pool") for policy in policies}
    plain = [
        (not one.settings.get("expected"), number, one.name)
        for number, one in enumerate(policies)
        if one.name != baseline
        and not one.diagnostic
        and one.settings.get("max_traces") == 1
        and pools[one.name] is not None
        and pools[one.name] == pools.get(str(baseline))
    ]
    return min(plain)[2] if plain else None


def _best(result: Result, results: RankedInput) -> Iterator[str]:
    sentence = takeaway(results)
    if sentence is not None:
        yield sentence
    else:
        for row in rank(results):
            if row.place == 1 and row.quality is not None:
                yield f"`{row.policy.name}`: {_quality(results, row.quality)}."
    for group in group_inputs(result, results):
        group_sentence = takeaway(group)
        if group_sentence is not None:
            yield f"{group.title} ({counted(group.n, 'example')}): {group_sentence}"


def _gain(result: Result, results: RankedInput) -> Iterator[str]:
    """Sentences on the gain of the baseline over one attempt, and on its cost."""
    rows = {row.policy.name: row for row in rank(results)}
    one, baseline = (
        rows.get(str(name)) for name in (_one_attempt(result.policies, results.baseline), results.baseline)
    )
    if one is None or baseline is None or one.quality is None or baseline.quality is None or one.difference is None:
        return
    if not results.quality.share or results.quality.cost:
        return
    back = one.difference
    low, high = (None if limit is None else 0.0 - limit for limit in (back.high, back.low))
    gained = SIGNED.show(IntervalCell(0.0 - back.estimate, low, high, back.mark))
    text = f"From `{one.policy.name}`, {_quality(results, one.quality)}, to `{baseline.policy.name}`, "
    text += f"{_quality(results, baseline.quality)}: {gained} points"
    costs = one.cost is not None and baseline.cost is not None and results.same_calls
    yield f"{text}{_paid(results, baseline, one)}." if costs else f"{text}."


def _again(same: SameQuestions, policy: str | None, other: str | None = "") -> Iterator[str]:
    """What another run on the same questions might show of a policy, or of its difference to another."""
    if policy is None or other is None:
        return
    value = same.of(policy, other or None)
    cell = "–" if value.cell is None else SIGNED.show(value.cell) if other else percent(value.cell)
    what = f"`{policy}` less `{other}`" if other else f"`{policy}`"
    unit = " points" if other and value.cell is not None else ""
    yield f"These questions, other samples: {what} {cell}{unit}{f' ({value.why})' * bool(value.why)}."


def _attempt_of(result: Result) -> str | None:
    return _one_attempt(result.policies, result.baseline)


def _ordered(description: Description, result: Result) -> Iterator[str]:
    """The warning that what rests on the order of traces does so where the order tells something."""
    used = {pool for policy in result.policies for pool in [policy.settings.get("pool")] if pool is not None}
    sure = pl.col("trend_z").abs().fill_null(0) > SURE, pl.col("lag_z").abs().fill_null(0) > SURE
    trends = description.order.filter((pl.col("action") == "solve") & pl.any_horizontal(*sure))
    pools = [pool for pool in trends["pool"] if pool in used]
    if pools:
        yield (
            f"The traces of {listed(pools, MOST)} are not exchangeable (see Assumptions): a policy that takes some of "
            "them, in their order, may do better or worse on others."
        )


def _cheapest(results: RankedInput) -> Iterator[str]:
    """The cheapest policy that limits for all policies at once keep within a point of the baseline."""
    rows = [row for row in rank(results) if not row.policy.diagnostic and row.cost is not None]
    baseline = next((row for row in rows if row.baseline), None)
    if baseline is None or baseline.cost is None or not results.quality.share or results.quality.cost or len(rows) < 2:
        return
    if not results.same_calls:
        yield (
            f"The cost counts {results.cost.called} of several pools, which need not cost the same: log tokens to tell."
        )
        return
    others = [row for row in rows if row.difference is not None and not row.baseline and _costs(row) < _costs(baseline)]
    name = baseline.policy.name
    level = f"{100 * results.level:g} % limits that hold for all policies at once"
    sure = [row for row in others if row.difference.low is not None and row.difference.low >= -POINT]  # type: ignore[union-attr]
    likely = [row for row in others if row.difference.estimate >= -POINT]  # type: ignore[union-attr]
    if sure:
        best = min(sure, key=_costs)
        yield f"`{best.policy.name}` is the cheapest that stays within a point of `{name}` by {level}: " + _against(
            results, best, baseline
        )
    else:
        yield f"No cheaper policy stays within a point of `{name}` by {level}."
    if likely and (not sure or min(likely, key=_costs) is not min(sure, key=_costs)):
        best = min(likely, key=_costs)
        yield f"By its estimate alone it would be `{best.policy.name}`: {_against(results, best, baseline)}"


def _quality(results: RankedInput, cell: IntervalCell) -> str:
    """The metric that ranks, by its name: `accuracy 74.8 % [72.9, 76.6]`."""
    return f"{results.quality.label} {_number(results, cell)}"


def _number(results: RankedInput, cell: IntervalCell) -> str:
    return percent(cell) if results.quality.share else NumberWithInterval.of(results.quality).show(cell)


def _costs(row: Ranked) -> float:
    return float("inf") if row.cost is None else row.cost.estimate


def _paid(results: RankedInput, row: Ranked, other: Ranked) -> str:
    paid, instead = (NumberWithInterval.of(results.cost).show(IntervalCell(_costs(one))) for one in (row, other))
    return f", for {paid} {results.cost.called} instead of {instead}"


def _against(results: RankedInput, row: Ranked, baseline: Ranked) -> str:
    """A policy's difference and costs beside the baseline's."""
    assert row.difference is not None
    text = f"{SIGNED.show(row.difference)} points{_paid(results, row, baseline)}"
    metric, pair = f"reduction:{results.cost.metric}", {"policy": row.policy.name, "baseline": baseline.policy.name}
    less = results.comparisons.filter(metric=metric, **pair).select("difference", "low", "high").rows()
    cell = IntervalCell.of(less[0]) if less else None
    return f"{text} ({NumberWithInterval(0, 100.0).show(cell)} % less)." if cell is not None else f"{text}."


def _stops(result: Result, results: RankedInput) -> Iterator[str]:
    """Sentences on what policies with a stop pay of their cap; votes first, since they need no verifier."""
    settings, sentences = {policy.name: policy.settings for policy in result.policies}, []
    for row in sorted(rank(results), key=lambda row: settings[row.policy.name].get("verifier") is not None):
        policy_settings = settings[row.policy.name]
        traces, most = row.means.get("traces"), policy_settings.get("max_traces")
        rule = (policy_settings.get("stop") or {}).get("rule", "none")
        if rule == "none" or row.policy.diagnostic or traces is None or row.quality is None or not most:
            continue
        if row.policy.sweep_size > 1 and not row.chosen:
            continue
        sentence = f"`{row.policy.name}`{_of_sweep(row, 'settings')} pays for {traces:.1f} of {most} traces: "
        sentence += _quality(results, row.quality) + _corrected(results, row)
        if row.difference is not None and not row.baseline:
            sentence += f", {SIGNED.show(row.difference)} points against `{results.baseline}`"
        sentences.append(f"{sentence}.")
    yield from sentences[:STOPS]
    if len(sentences) > STOPS:
        yield f"{counted(len(sentences) - STOPS, 'more policy that stops', 'more policies that stop')}: see the table."


def _of_sweep(row: Ranked, what: str) -> str:
    return f", the best of {row.policy.sweep_size} {what}," * (row.policy.sweep_size > 1)


def _corrected(results: RankedInput, row: Ranked) -> str:
    """The value that allows for having been chosen among a sweep, with its interval."""
    if row.policy.sweep_size < 2 or row.corrected is None:
        return ""
    return f" ({_number(results, row.corrected)} corrected for having been chosen)"


def _headroom(result: Result, room: Headroom | None, results: RankedInput) -> Iterator[str]:
    if room is None:
        yield "There is no oracle among the policies, so what a better choice could gain is not known."
        return
    cells = {(policy, measure): cell_of(rest) for policy, measure, *rest in room.frame.iter_rows()}
    best = {name: cell_of(rest) for name, _, *rest in room.accuracy.iter_rows()}
    top, leader = best.get(room.oracle), result.leader
    if top is not None:
        yield f"`{room.oracle}`, which sees gold, is right on {percent(top)}: no choice among its traces does better."
    if leader is None:
        return
    share = cells.get((leader, SHARE))
    if share is not None and leader != room.baseline:
        yield (
            f"`{leader}` goes {NumberWithInterval(0, 100.0).show(share)} % of the way from `{room.baseline}` to "
            f"`{room.oracle}`."
        )
    elif room.baseline is not None and share is None and leader != room.baseline:
        yield f"`{room.baseline}` and `{room.oracle}` are not told apart, so there are no shares of the headroom."
    for name in dict.fromkeys([leader, *([room.baseline] if room.baseline else [])]):
        parts = {part: cells.get((name, part)) for part in PARTS}
        known = {part: cell for part, cell in parts.items() if cell is not None}
        gap = sum(cell.estimate for cell in known.values())
        if len(known) == len(PARTS) and gap > 0:
            what = {part: PARTS[part][0] if name == leader else f"in {part}" for part in known}  # explained once
            listed = ", ".join(f"{PERCENT.show(cell)} {what[part]}" for part, cell in known.items())
            most = max(known, key=lambda part: known[part].estimate)
            yield (
                f"`{name}` lacks {100 * gap:.1f} points to always right: {listed}. Most would come from "
                f"{PARTS[most][1]}."
            )


def _gates(result: Result, results: RankedInput) -> Iterator[str]:
    """Sentences on the best setting of each gate and always-taken action: how often it acts, fixes and flips."""
    best: dict[str, Ranked] = {}
    for row in rank(results):
        rate = row.means.get(RATE)
        if rate and not row.policy.diagnostic and row.quality is not None:
            best.setdefault(row.policy.sweep or row.policy.name, row)
    cells = {
        (policy, metric): cell_of(rest)
        for policy, metric, *rest in result.summary.filter(
            pl.col("metric").is_in([RATE, "fix_rate", "flip_rate"])
        ).iter_rows()
    }
    for row in [*best.values()][:MOST]:
        name = row.policy.name
        acts, fixes, flips = (cells.get((name, metric)) for metric in (RATE, "fix_rate", "flip_rate"))
        if acts is None or fixes is None or flips is None or row.quality is None:
            continue
        base = f"`{row.policy.base}`" if row.policy.base else "its base"
        acting = percent(IntervalCell(acts.estimate))
        yield (
            f"`{name}`{_of_sweep(row, 'thresholds')} acts on {acting}, fixes {percent(fixes)} and flips "
            f"{percent(flips)} of what {base} answers: {_quality(results, row.quality)}{_corrected(results, row)}."
        )
    if len(best) > MOST:
        yield f"{counted(len(best) - MOST, 'more gate and step', 'more gates and steps')}: see the table of policies."


def _verifiers(areas: Sequence[_VerifierArea], n: int) -> Iterator[str]:
    verifier_areas = []
    for area in areas:
        notes = [f"{counted(area.auc.n, 'example')} of {n:,}"] if area.auc.n < n else []
        if area.auc_within.estimate is not None:
            notes.append(f"{_area(area.auc_within)} among traces of one example")
        verifier_areas.append(
            f"`{area.verifier}` {_area(area.auc)} on `{area.pool}`" + (f" ({'; '.join(notes)})" if notes else "")
        )
    if verifier_areas:
        more = f"; {len(verifier_areas) - 2 * MOST:,} more" if len(verifier_areas) > 2 * MOST else ""
        yield (
            "A right trace of the compared examples scores above a wrong one with probability: "
            f"{'; '.join(verifier_areas[: 2 * MOST])}{more}."
        )


def _area(area: Interval) -> str:
    return NumberWithInterval(3).show(IntervalCell(area.estimate or 0.0, area.low, area.high))


def _assumptions(description: Description, result: Result) -> Iterator[str]:
    yield from (f"{_sentence(remark)}." for remark in description.remarks)
    if not description.remarks:
        yield "The log contradicts none of the assumptions that are checked (order, spread, settings, sizes, seconds)."
    yield from (f"{_sentence(note.text)}." for note in result.notes if note.severity is Severity.WARNING)


def _left_out(result: Result, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{_sentence('; '.join(lines))}."
    for name, reason in [*result.dropped.items()][:MOST]:
        yield f"Policy `{name}`: {reason}."
    if len(result.dropped) > MOST:
        yield f"{counted(len(result.dropped) - MOST, 'more policy', 'more policies')}: see `result/run.json`."
    if result.excluded:
        why = Counter(result.excluded.values()).most_common(1)[0][0]
        yield f"{counted(len(result.excluded), 'example')} that some policy cannot serve; most often {why}."


def _sentence(text: str) -> str:
    return _first_upper(text).rstrip(".")


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


ROWS, OF_FRONT = 15, 5
"""Rows of a table in the report itself, and further ones of the front, from its cheapest on; its CSV has all."""
FOLDERS = RESULT, TABLES, FIGURE_FILES = "result", "tables", "figures"


@dataclass(frozen=True, eq=False)
class LogReport:
    """The report on a log: `sections` of findings, the `result` that they are taken from, and the log's `description`.

    `room` is None where there is no oracle. `figures` are those that apply, by name.
    """

    result: Result
    description: Description
    room: Headroom | None
    sections: tuple[Section, ...]
    lead: tuple[str, ...]
    figures: dict[str, FigureData]

    def __repr__(self) -> str:
        return "\n".join(printable(sentence) for section in self.sections for sentence in section.sentences)

    def _repr_html_(self) -> str:
        html = "".join(map(paragraph, self.lead)) + "".join(
            bullets(section.heading, section.sentences) for section in self.sections
        )
        return html + "".join(short.html() for _, short, _ in self._tables())

    def document(self) -> Document:
        """The findings, the tables and the figures as one document."""
        tables = tuple(PlacedTable(f"{TABLES}/{name}", short) for name, short, _ in self._tables())
        simulated = " (simulated log)" * self.result.simulated
        placed = (
            PlacedFigure(f"{FIGURE_FILES}/{name}", f"{_first_upper(FIGURES[name].shows)}{simulated}")
            for name in self.figures
        )
        return Document(f"Report on {self.result.log_name}", self.lead, self.sections, tables, tuple(placed))

    def _tables(self) -> Iterator[tuple[str, Table, Table]]:
        """Tables by name: as the report shows them, and whole."""
        results = ranked_input(self.result)
        tables = {"policies": results}
        tables |= {f"policies-{number}": one for number, one in enumerate(group_inputs(self.result, results), 1)}
        for name, one in tables.items():
            whole = ranked_table(one)
            yield name, _short(whole, one, _one_attempt(self.result.policies, one.baseline)), whole
        if self.room is not None:
            yield "headroom", self.room.table(ROWS), self.room.table()

    @checks_arguments()
    def save(self, directory: str | Path, *, width: str | float = WIDTH, force: bool = False) -> None:
        """Write report.md, report.tex, and the folders of tables, of figures (`width` wide) and of the saved result.

        Everything is written, or nothing. Raises ThinkbackError where the folder exists, unless `force` replaces it.
        """
        size = inches(width)
        with replacing(directory, force) as folder:
            for name in FOLDERS:
                (folder / name).mkdir()
            marks = {"simulated": "true"} if self.result.simulated else {}
            for name, short, whole in self._tables():
                (folder / TABLES / f"{name}.md").write_text(short.markdown(), encoding="utf-8")
                (folder / TABLES / f"{name}.tex").write_text(short.latex(f"tab:{name}", size), encoding="utf-8")
                (folder / TABLES / f"{name}.csv").write_text(whole.csv(), encoding="utf-8")
            described = "\n".join(table.markdown() for table in self.description.as_tables())
            (folder / TABLES / "log.md").write_text(described, encoding="utf-8")
            for name, data in self.figures.items():
                save_formats(data.draw(width=size, title=""), folder / FIGURE_FILES, name)
                (folder / FIGURE_FILES / f"{name}.csv").write_text(table_of(data.frame).csv(marks), encoding="utf-8")
            self.result.write(folder / RESULT, headroom=self.room is not None)
            document = self.document()
            (folder / "report.md").write_text(as_markdown(document), encoding="utf-8")
            (folder / "report.tex").write_text(as_latex(document), encoding="utf-8")


@checks_arguments()
def report(
    log: AnyLog,
    policies: GivenPolicies | None = None,
    *,
    where: str | None = None,
    baseline: str | None = None,
    rules: GivenRules = None,
    **options: Any,
) -> LogReport:
    """Look at a log, replay policies on it, by default the standard suite, and say what was found.

    Without `policies` the test examples are reported where the log has a test split, unless `where` says otherwise. The
    baseline is by default the plain vote over most traces; of a suite without votes its first attempt. What else is
    `options` (settings, resamples, measure …) goes to `replay.run`. Raises ThinkbackError for anything wrong with the
    log, the policies or the settings.
    """
    opened_log = open_log(log)
    description = describe_log(opened_log)
    standard, missing = None, []
    if policies is None:
        standard = suite(opened_log, where)
        policies, missing = standard.text, [*standard.left_out]
        if where is None:
            where, options = standard.where, {"by": standard.by} | options
    file = load_policies(policies, rules)
    if baseline is None:
        records = [*map(policy_record, file.policies)]
        baseline = largest_majority(records)
        if baseline is None and standard is not None:
            baseline = _first_attempt(records, description)
    result = run(opened_log, file, baseline=baseline, where=where, **options)
    room = result.headroom() if any(policy.diagnostic for policy in result.policies) else None
    figures = {}
    for name in FIGURES:
        try:
            figures[name] = result.figure_data(name)
        except ThinkbackError as error:
            if room is not None or name != "headroom":  # its own section says so
                missing.append(f"figure `{name}`: {first_line(error)}")
    areas = _verifier_areas(opened_log, result) if description.verifiers.height else ()
    named = {name for name in (result.leader, result.baseline, _attempt_of(result)) if name is not None}
    same = result.same_questions(*sorted(named))
    sections = _sections(result, description, room, areas, missing, same)
    lead = (*_lead(result, result.provenance["where"], standard is not None), *_marks(sections))
    return LogReport(result, description, room, sections, lead, figures)


def _short(table: Table, results: RankedInput, attempt: str | None) -> Table:
    """The best rows, those of the baseline, of one `attempt` and of the front's cheap end, with the columns that a
    reader asks for first.
    """
    known = {column.key for column in table.columns}
    columns = (results.metric, str(results.cost.metric), "difference", "p_adjusted", "on_front", "rank", "leader")
    narrow = table.only([key for key in columns if key in known])
    rows = rank(results)
    front = sorted(
        (row.cost.estimate, place) for place, row in enumerate(rows) if row.on_front and row.cost and place >= ROWS
    )
    front_places = {front[at][1] for at in np.linspace(0, len(front) - 1, min(OF_FRONT, len(front))).astype(int)}
    best = [
        place
        for place, row in enumerate(rows)
        if place < ROWS or place in front_places or row.baseline or row.policy.name == attempt
    ]
    more = len(table.rows) - len(best)
    note = [ColumnNote(f"{counted(more, 'more policy', 'more policies')} in the CSV.")] if more else []
    strong, faint = (frozenset(best.index(i) for i in of if i in best) for of in (table.strong, table.faint))
    few = tuple(narrow.rows[place] for place in best)
    return replace(narrow, rows=few, strong=strong, faint=faint, below=(*note, *narrow.below))


def _lead(result: Result, where: str | None, standard: bool) -> Iterator[str]:
    if result.simulated:
        yield SIMULATED
    settings = result.summariser.settings
    policies = counted(len(result.policies), "policy", "policies") + " of the standard suite" * standard
    among = f" where `{where}`" if where else ""
    against = "" if result.baseline is None else f" The baseline is `{result.baseline}`."
    replayed = f"Replayed: {policies} on {counted(result.statistics.n, 'example')}{among}"
    intervals = f"{100 * settings.level:g} % intervals"
    resamples = f"{settings.resamples:,} resamples paired by example, seed {settings.seed}"
    yield f"{replayed} of the log `{result.log_name}`.{against} In brackets {intervals} ({resamples})."


def _marks(sections: Sequence[Section]) -> Iterator[str]:
    if any("†" in sentence for section in sections for sentence in section.sentences):
        yield "†: few examples tell the two apart, and the interval allows for that."
