"""The report of a log: what the log holds, what the standard suite reaches on it, and where the rest is lost."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replay.analyses.report.verifier_areas import VerifierAuc, verifier_aucs, verifier_sentences
from replay.data.prices import Prices, load_prices, logged_prices, priced_columns
from replay.kinds.sample import WHOLE_POOL
from replay.policies.suite import suite
from replay.policies.suite_facts import MIN_SHARE, OF_COSTS, models_and_costs
from replay.policies.toml import GivenPolicies, load_policies
from replay.runs.compare.headroom import GENERATION, SELECTION, SHARE, STOPPING, Headroom
from replay.runs.compare.same_questions import NO_SAMPLES, SameQuestions
from replay.runs.figures.figure_data import RATE, FigureData
from replay.runs.figures.figures import FIGURES
from replay.runs.page.dashboard import write_dashboard
from replay.runs.passes.logged_order import detectable_points_text, smallest_detectable_text
from replay.runs.result.result import Result, load
from replay.runs.result.run import run
from replay.runs.saved.display import inputs_by_group, ranked_input, ranked_table_csv
from replay.runs.saved.promise import is_mean
from replay.runs.saved.provenance import PolicyRecord, policy_record, single_attempt_policy, usual_baseline
from replay.sampling.user_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.columns import cost_named, metric_column, with_columns
from toolkit.errors import PackageError, ThinkbackError, UnknownError, counted, first_line, listed
from toolkit.files import replacing
from toolkit.imports.guessing.anything import as_log
from toolkit.log import AnyLog, Description, Log, describe_log
from toolkit.log.describe.assumptions import SURE
from toolkit.notes import Severity, remark
from toolkit.printable import printable
from toolkit.rounding import rounded_text
from toolkit.show import (
    SIMULATED,
    WIDTH,
    ColumnNote,
    IntervalCell,
    NumberWithInterval,
    Ranked,
    RankedInput,
    Table,
    rank,
    ranked_table,
    save_formats,
    table_of,
    width_in_inches,
)
from toolkit.show.document import Document, PlacedFigure, PlacedTable, Section, as_latex, as_markdown
from toolkit.show.drawing.style import save_figure
from toolkit.show.ranking.one_column import one_column
from toolkit.show.ranking.ranking import UNLIKE, cell_of
from toolkit.show.ranking.results import best_policy_sentences, cheapest_policy_sentences, main_finding, percent_text
from toolkit.show.tables.html import bullet_list, paragraph
from toolkit.show.tables.latex import COLUMN
from toolkit.stats.limits.planning import POWER, difference_variance
from toolkit.stats.many.compare import ACCURACY
from toolkit.workers.chosen import spread_over_workers

SEQUENCE = (
    "lower limits of differences, within each family of policies from the dearest on until one fails; all families "
    "together are wrong with a probability of 5 % at most"
)
MOST, STOPS = 3, 6
"""How many gates and reasons, and policies that may stop, the text names; the tables have all."""
SIGNED, PERCENT = NumberWithInterval(1, 100.0, True), NumberWithInterval(1, 100.0)
PARTS = {
    SELECTION: ("in selection (it paid for a better trace and answered something else)", "a better vote or verifier"),
    STOPPING: ("in stopping (a better trace was there, but it paid for none)", "paying for more traces"),
    GENERATION: ("in generation (no trace is better)", "better or more traces"),
}
"""Part of the gap -> where it arises, and what would help."""


def _report_sections(
    result: Result, description: Description, room: Headroom | None, areas: Sequence[VerifierAuc],
    left_out: Sequence[str], not_drawn: Sequence[str] = (), same: SameQuestions | None = None,
) -> tuple[Section, ...]:  # fmt: skip
    """The sections of findings by subject, after one on what they leave out; a section with no finding is left out.

    `room`: None where there is no oracle; `left_out`: further lines of that; `not_drawn`: figures, with the reason;
    `same`: what other samples would show.
    """
    results, ordered = ranked_input(result), [*_order_warning(description, result)]
    sections = {
        ("left_out", "Left out"): [*_left_out_sentences(result, left_out)],
        ("best", "Best policy"): [
            *_best_policy_sentences(result, results), *_another_run_sentences(result, same, result.leader),
        ],
        ("gain", "Against one attempt"): [*_gain_sentences(result, results), *_gain_in_another_run(result, same)],
        ("cheapest", f"Cheapest within a point of {result.baseline}"): [] if result.baseline is None else [
            *_cheapest_policy_sentence(result, results), *ordered,
        ],
        ("apart", "What this log can tell apart"): [*_detectable_difference_sentence(result, results)],
        ("stopping", "Stopping early"): [*_stopping_sentences(result, results), *ordered],
        ("headroom", "Headroom"): [*_headroom_sentences(result, room, results)],
        ("gates", "Gates and second steps"): [*_gate_sentences(result, results)],
        ("verifiers", "Verifiers"): [*verifier_sentences(areas, results.judged_count)],
        ("assumptions", "Assumptions"): [*_assumption_sentences(description, result)],
        ("not_drawn", "Not drawn"): [f"{_as_sentence('; '.join(not_drawn))}."] if not_drawn else [],
    }  # fmt: skip
    return tuple(Section(head, tuple(rows), code) for (code, head), rows in sections.items() if rows)


def _single_attempt_to_add(
    policies: Iterable[PolicyRecord], description: Description, log: Log, prices: Prices | None, cost: str | None
) -> str | None:
    """The policy of one attempt at a pool that nearly all examples have; None if it would be alone.

    Of several budgets it is the cheapest, which the suite has first; of several models the dearest, which a router is
    to do without: by the mean `cost` of a trace, by default its price, without `prices` its tokens; where that is not
    known for each of the pools the last.
    """
    real = [policy for policy in policies if not policy.diagnostic]
    sizes = description.pools.filter(action="solve")
    whole = set(sizes.filter(pl.col("examples") >= MIN_SHARE * pl.col("examples").max())["pool"])
    plain = [one for one in real if one.settings.get("max_traces") == 1 and one.settings.get("pool") in whole]
    if not plain or len(real) < 2:
        return None
    there = [name for name in OF_COSTS if name in log.columns("traces")]
    traces = log.scan("traces", ["pool", "action", "model", *there])
    first = traces.filter((pl.col("action") == "solve") & pl.col("pool").is_in(sorted(whole)))
    wanted = None if cost is None else cost_named(cost, with_columns(columns=priced_columns(prices)))
    models, paid = models_and_costs(log, first, prices, wanted)
    if len(set(models.values())) < 2:
        return plain[0].name
    known = all(one.settings["pool"] in paid for one in plain)
    return max(plain, key=lambda one: paid[one.settings["pool"]]).name if known else plain[-1].name


def _best_policy_sentences(result: Result, results: RankedInput) -> Iterator[str]:
    sentences = [*best_policy_sentences(results)]
    if sentences:
        yield " ".join(sentences)
    else:
        for row in rank(results):
            if row.place == 1 and row.quality is not None:
                yield f"`{row.policy.name}`: {_quality_text(results, row.quality)}."
    for group in inputs_by_group(result, results):
        group_sentence = main_finding(group)
        if group_sentence is not None:
            yield f"{group.title} ({counted(group.n, 'example')}): {group_sentence}"


def _gain_sentences(result: Result, results: RankedInput) -> Iterator[str]:
    """Sentences on the gain of the baseline over one attempt, and on its cost."""
    rows = {row.policy.name: row for row in rank(results)}
    one, baseline = (
        rows.get(str(name)) for name in (single_attempt_policy(result.policies, results.baseline), results.baseline)
    )
    if one is None or baseline is None or one.quality is None or baseline.quality is None or one.difference is None:
        return
    if not results.quality_column.share or results.quality_column.cost:
        return
    back = one.difference
    low, high = (None if limit is None else 0.0 - limit for limit in (back.high, back.low))
    gained = SIGNED.show(IntervalCell(0.0 - back.estimate, low, high, back.mark))
    text = f"From `{one.policy.name}`, {_quality_text(results, one.quality)}, to `{baseline.policy.name}`, "
    text += f"{_quality_text(results, baseline.quality)}: {gained} points"
    costs = one.cost is not None and baseline.cost is not None and results.has_comparable_costs
    yield f"{text}{_cost_text(results, baseline, one)}." if costs else f"{text}."


def _another_run_sentences(
    result: Result, same: SameQuestions | None, policy: str | None, other: str | None = None
) -> Iterator[str]:
    """What another run on the same questions might show of a policy, or of its difference to another; where the log
    can't say that, as of a vote over all traces, of the largest vote over fewer.
    """
    if same is None or policy is None:
        return
    phrases, fewer = [same.variation_phrase(policy, other)], _votes_over_fewer_traces(result, result.baseline)
    known = [name for name in fewer if same.variation_of(name, other).cell is not None and name != other]
    if same.variation_of(policy, other).cell is None and known:
        phrases = [same.variation_phrase(known[0], other), *phrases]
    yield same.sentence(*phrases)


def _votes_over_fewer_traces(result: Result, name: str | None) -> list[str]:
    votes = {policy.name: policy.settings for policy in result.policies if policy.settings.get("select") == "majority"}
    if name not in votes:
        return []
    pool, most = (votes[name].get(key) for key in ("pool", "max_traces"))
    fewer = [
        (-int(of["max_traces"]), one)
        for one, of in votes.items()
        if of.get("pool") == pool and of.get("stop") == {"rule": "none"} and 1 < of["max_traces"] < (most or 0)
    ]
    return [one for _, one in sorted(fewer)]


def _variation_between_runs(result: Result) -> SameQuestions | None:
    """What other samples show of the leader, the baseline and one attempt, and of a vote over fewer traces; None where
    no policy gives an answer, or none reads samples of a question.
    """
    if not any(policy.answers for policy in result.policies):
        return None
    attempt = single_attempt_policy(result.policies, result.baseline)
    names = {name for name in (result.leader, result.baseline, attempt) if name is not None}
    fewer = _votes_over_fewer_traces(result, result.baseline)
    for name in fewer:
        same = result.same_questions(*sorted({*names, name}))
        if same.variation_of(name).cell is not None:
            return same
    same = result.same_questions(*sorted(names))
    return None if all(same.variation_of(name).why == NO_SAMPLES for name in names) else same


def _gain_in_another_run(result: Result, same: SameQuestions | None) -> Iterator[str]:
    attempt = single_attempt_policy(result.policies, result.baseline)
    if attempt is not None:
        yield from _another_run_sentences(result, same, result.baseline, attempt)


def _order_warning(description: Description, result: Result) -> Iterator[str]:
    """The warning on what rests on the order of traces, where the order carries information."""
    used = {pool for policy in result.policies for pool in [policy.settings.get("pool")] if pool is not None}
    sure = pl.col("trend_z").abs().fill_null(0) > SURE, pl.col("lag_z").abs().fill_null(0) > SURE
    trends = description.order.filter((pl.col("action") == "solve") & pl.any_horizontal(*sure))
    pools = [pool for pool in trends["pool"] if pool in used]
    if pools:
        text = (
            f"The traces of {listed(pools, MOST)} are not exchangeable (see Assumptions): a policy that takes some of "
            "them, in their order, may do better or worse on others."
        )
        yield remark("not_exchangeable", text)


def _cheapest_policy_sentence(result: Result, results: RankedInput) -> Iterator[str]:
    """A sentence on the cheapest policy that is shown to be within the margin of the baseline."""
    rows = {row.policy.name: row for row in rank(results) if not row.policy.diagnostic and row.cost is not None}
    baseline = rows.get(str(results.baseline))
    if baseline is None or len(rows) < 2 or not results.quality_column.share or results.quality_column.cost:
        return
    sentences = [*cheapest_policy_sentences(results)]
    if not results.has_comparable_costs:
        yield from (f"{_as_sentence(note.text)}." for note in result.notes if note.code in UNLIKE)
    elif sentences:
        yield from sentences
        yield f"Shown: {SEQUENCE}."
    elif min(map(_cost_or_infinity, rows.values())) >= _cost_or_infinity(baseline):
        yield f"`{baseline.policy.name}` has the fewest {results.cost_column.cost_name}: no policy is cheaper."


def _quality_text(results: RankedInput, cell: IntervalCell) -> str:
    """The ranking metric of a policy, with its name: `accuracy 74.8 % [72.9, 76.6]`."""
    return f"{results.quality_column.label} {_number_text(results, cell)}"


def _number_text(results: RankedInput, cell: IntervalCell) -> str:
    column = results.quality_column
    return percent_text(cell) if column.share else NumberWithInterval.of(column).show(cell)


def _cost_or_infinity(row: Ranked) -> float:
    return float("inf") if row.cost is None else row.cost.estimate


def _cost_text(results: RankedInput, row: Ranked, other: Ranked) -> str:
    paid, instead = (
        NumberWithInterval.of(results.cost_column).show(IntervalCell(_cost_or_infinity(one))) for one in (row, other)
    )
    return f", for {paid} {results.cost_column.label} instead of {instead}"


def _detectable_difference_sentence(result: Result, results: RankedInput) -> Iterator[str]:
    """A sentence on which differences to the baseline this number of examples shows."""
    real = [policy.name for policy in result.policies if not policy.diagnostic and policy.name != results.baseline]
    column = metric_column(ACCURACY, result.columns)
    if results.quality_column.rate and results.quality_column.quality and is_mean(results.quality_column):
        column = results.quality_column
    rows = result.outcomes.select("policy", "example_id", value=column.name).filter(
        pl.col("policy").is_in([*real, str(results.baseline)])
    )
    by_policy = rows.collect().pivot("policy", index="example_id", values="value").sort("example_id")
    shares, texts = {}, {}
    unit, strata = result.summariser.outcomes.examples.resampling_units(result.examples.sort("example_id"))
    for name in real if results.baseline in by_policy.columns else ():
        difference = (by_policy[name] - by_policy[str(results.baseline)]).cast(pl.Float64).to_numpy()
        variance = difference_variance(difference, cluster=unit, strata=strata)
        share = variance.detectable(variance.questions, level=results.level) if variance.value > 0 else None
        if share is not None:
            shares[name], texts[name] = share, detectable_points_text(variance, variance.questions, results.level)
    if shares:
        ends = dict.fromkeys(end(shares, key=lambda name: shares[name]) for end in (min, max))
        each = " to ".join(f"{texts[name]} of `{name}`" for name in ends)
        half = f", half of them from {100 * float(np.median([*shares.values()])):.2g} points on" * (len(shares) > 2)
        yield (
            f"With {100 * POWER:g} % power these {counted(results.judged_count, 'example')} show differences in "
            f"{column.label} to `{results.baseline}` from {each} on{half}. "
            "`thinkback plan` says what smaller ones take."
        )
    elif text := smallest_detectable_text(results.judged_count):
        yield f"{text}."


def _stopping_sentences(result: Result, results: RankedInput) -> Iterator[str]:
    """Sentences on the share of their cap that policies with a stop pay; votes first, since they need no verifier."""
    settings, sentences = {policy.name: policy.settings for policy in result.policies}, []
    for row in sorted(rank(results), key=lambda row: settings[row.policy.name].get("verifier") is not None):
        policy_settings = settings[row.policy.name]
        traces, most = row.means.get("traces"), policy_settings.get("max_traces")
        rule = (policy_settings.get("stop") or {}).get("rule", "none")
        if rule == "none" or row.policy.diagnostic or (row.policy.sweep_size > 1 and not row.chosen):
            continue
        if traces is None or row.quality is None or not most:
            continue
        name, whole = row.policy.name, f"{most} traces" if most < WHOLE_POOL else "all guesses of a question"
        sentence = f"`{name}`{_sweep_choice_words(row, 'settings')} pays for {rounded_text(traces, 1)} of {whole}: "
        sentence += _quality_text(results, row.quality) + _corrected_value_text(results, row)
        if row.difference is not None and not row.baseline:
            sentence += f", {SIGNED.show(row.difference)} points against `{results.baseline}`"
        sentences.append(f"{sentence}.")
    yield from sentences[:STOPS]
    if len(sentences) > STOPS:
        yield f"{counted(len(sentences) - STOPS, 'more policy that stops', 'more policies that stop')}: see the table."


def _sweep_choice_words(row: Ranked, what: str) -> str:
    return f", the best of {row.policy.sweep_size} {what}," * (row.policy.sweep_size > 1)


def _corrected_value_text(results: RankedInput, row: Ranked) -> str:
    """A policy's value corrected for its choice among a sweep, with its interval."""
    if row.policy.sweep_size < 2 or row.corrected is None:
        return ""
    return f" ({_number_text(results, row.corrected)} corrected for having been chosen)"


def _headroom_sentences(result: Result, room: Headroom | None, results: RankedInput) -> Iterator[str]:
    if room is None:
        yield "There is no oracle among the policies, so what a better choice could gain is not known."
        return
    cells = {(policy, measure): cell_of(rest) for policy, measure, *rest in room.frame.iter_rows()}
    best = {name: cell_of(rest) for name, _, *rest in room.accuracy.iter_rows()}
    top, leader = best.get(room.oracle), result.leader
    if top is not None:
        yield f"`{room.oracle}`, which sees gold, has {room.quality} {percent_text(top)}: no choice does better."
    if leader is None or room.baseline is None:
        return
    shares = {name: cells.get((name, SHARE)) for name in (leader, str(result.baseline)) if name != room.baseline}
    known_shares = [
        f"`{name}` {NumberWithInterval(0, 100.0).show(share)} %" for name, share in shares.items() if share is not None
    ]
    if known_shares:
        way = f"Of the way in {room.quality} from `{room.baseline}` to `{room.oracle}`"
        yield f"{way} (limits for all policies at once): {'; '.join(known_shares)}."
    elif shares:
        yield f"`{room.baseline}` and `{room.oracle}` are not told apart, so there are no shares of the headroom."
    name = str(result.baseline)  # which no number here has chosen
    parts = {part: cells.get((name, part)) for part in PARTS}
    known = {part: cell for part, cell in parts.items() if cell is not None}
    right = best.get(name)
    if right is not None and len(known) == len(PARTS) and right.estimate < 1:
        low, high = (None if end is None else 1 - end for end in (right.high, right.low))
        lacking = PERCENT.show(IntervalCell(1 - right.estimate, low, high, right.mark))
        listed_parts = ", ".join(f"{PERCENT.show(cell)} {PARTS[part][0]}" for part, cell in known.items())
        most = max(known, key=lambda part: known[part].estimate)
        most_from = f"Most would come from {PARTS[most][1]}"
        yield f"`{name}` lacks {lacking} points of {room.quality} to 100: {listed_parts}. {most_from}."


def _gate_sentences(result: Result, results: RankedInput) -> Iterator[str]:
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
        acting = percent_text(IntervalCell(acts.estimate))
        yield (
            f"`{name}`{_sweep_choice_words(row, 'thresholds')} acts on {acting}, fixes {percent_text(fixes)} and flips "
            f"{percent_text(flips)} of what {base} answers: {_quality_text(results, row.quality)}"
            f"{_corrected_value_text(results, row)}."
        )
    if len(best) > MOST:
        yield f"{counted(len(best) - MOST, 'more gate and step', 'more gates and steps')}: see the table of policies."


def _assumption_sentences(description: Description, result: Result) -> Iterator[str]:
    yield from (f"{_as_sentence(remark)}." for remark in description.remarks)
    if not description.remarks:
        yield "The log contradicts none of the assumptions that are checked (order, spread, settings, sizes, seconds)."
    yield from (f"{_as_sentence(note.text)}." for note in result.notes if note.severity is Severity.WARNING)


def _left_out_sentences(result: Result, lines: Sequence[str]) -> Iterator[str]:
    yield from (f"{_as_sentence(line)}." for line in lines)
    for name, reason in [*result.dropped.items()][:MOST]:
        yield f"Policy `{name}`: {reason}."
    if len(result.dropped) > MOST:
        yield f"{counted(len(result.dropped) - MOST, 'more policy', 'more policies')}: see `result/run.json`."
    lacking = result.statistics.n - result.statistics.judged
    if lacking:
        without_gold = result.examples["gold"].null_count() if "gold" in result.examples.columns else 0
        leave = ', or leave them out with `--where "gold IS NOT NULL"`' if without_gold == lacking else ""
        each = f"{counted(lacking, 'example')} that nothing judges, which count in costs alone"
        yield remark("unjudged", f"{each}: give their gold or verdicts{leave}.")
    if result.excluded:
        why = Counter(result.excluded.values()).most_common(1)[0][0]
        yield (
            f"{counted(len(result.excluded), 'example')} on which some policy cannot be replayed; most often {why}. "
            "Log what they lack, or name policies that do without it."
        )


def _as_sentence(text: str) -> str:
    return _with_first_letter_upper(text).rstrip(".")


def _with_first_letter_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


FEW = 20
"""Questions below which the head of a report says that they are few."""
ROWS, OF_FRONT = 15, 5
"""How many rows a table of the report has, and how many more of the front, the cheapest first; its CSV has all."""
FOLDERS = RESULT, TABLES, FIGURE_FILES = "result", "tables", "figures"


@dataclass(frozen=True, eq=False)
class LogReport:
    """The report on a log: `sections` of findings, the `result` behind them, and the log's `description`.

    `room` is None where there is no oracle. `figures` are those that apply, by name; `same` is what other samples of
    the same questions would show of a few policies.
    """

    result: Result
    description: Description
    room: Headroom | None
    sections: tuple[Section, ...]
    lead: tuple[str, ...]
    figures: dict[str, FigureData]
    same: SameQuestions | None

    def __repr__(self) -> str:
        return "\n".join(printable(sentence) for section in self.sections for sentence in section.sentences)

    def _repr_html_(self) -> str:
        html = "".join(map(paragraph, self.lead)) + "".join(
            bullet_list(section.heading, section.sentences) for section in self.sections
        )
        return html + "".join(short.html() for _, short, *_ in self._report_tables()) + self._front_picture_html()

    def _front_picture_html(self) -> str:
        """The front as a picture for a page; empty without a front."""
        data, file = self.figures.get("frontier"), io.BytesIO()
        if data is None:
            return ""
        save_figure(data.draw(width=width_in_inches(WIDTH), title=""), file, ".svg")
        text = file.getvalue().decode()
        return text[text.index("<svg") :]

    def document(self) -> Document:
        """The findings, the tables and the figures as one document."""
        tables = tuple(PlacedTable(f"{TABLES}/{name}", short) for name, short, *_ in self._report_tables())
        simulated = " (simulated log)" * self.result.simulated
        placed = (
            PlacedFigure(f"{FIGURE_FILES}/{name}", f"{_with_first_letter_upper(FIGURES[name].shows)}{simulated}")
            for name in self.figures
        )
        return Document(f"Report on {self.result.log_name}", self.lead, self.sections, tables, tuple(placed))

    def _report_tables(self) -> Iterator[tuple[str, Table, str, Table]]:
        """Tables by name: as the report shows them, whole as CSV, and for a column of a paper."""
        results = ranked_input(self.result)
        tables = {"policies": results}
        tables |= {f"policies-{number}": one for number, one in enumerate(inputs_by_group(self.result, results), 1)}
        for name, one in tables.items():
            short = _short_table(ranked_table(one), one, single_attempt_policy(self.result.policies, one.baseline))
            yield name, short, ranked_table_csv(one), one_column(one, short)
        if self.room is not None:
            yield "headroom", self.room.table(ROWS), self.room.table().csv(), self.room.one_column(ROWS)

    @checks_arguments()
    def save(self, directory: str | Path, *, width: str | float = WIDTH, force: bool = False) -> None:
        """Write report.md, report.tex, and the folders of tables, of figures (`width` wide) and of the saved result.

        Where the extra `dashboard` is installed, page.html is the page of that result.
        Everything is written, or nothing. Raises ThinkbackError where the folder exists, unless `force` replaces it.
        """
        size = width_in_inches(width)
        with replacing(directory, force) as folder:
            for name in FOLDERS:
                (folder / name).mkdir()
            marks = {"simulated": "true"} if self.result.simulated else {}
            for name, short, whole, narrow in self._report_tables():
                printed = short if size > COLUMN else narrow
                (folder / TABLES / f"{name}.md").write_text(short.markdown(), encoding="utf-8")
                (folder / TABLES / f"{name}.tex").write_text(printed.latex(f"tab:{name}", size), encoding="utf-8")
                (folder / TABLES / f"{name}.csv").write_text(whole, encoding="utf-8")
            described = "\n".join(table.markdown() for table in self.description.as_tables())
            (folder / TABLES / "log.md").write_text(described, encoding="utf-8")
            for name, data in self.figures.items():
                save_formats(data.draw(width=size, title=""), folder / FIGURE_FILES, name)
                (folder / FIGURE_FILES / f"{name}.csv").write_text(table_of(data.frame).csv(marks), encoding="utf-8")
            self.result.write(
                folder / RESULT, headroom=self.room is not None, same=None if self.same is None else self.same.frame
            )
            with suppress(PackageError):
                write_dashboard([load(folder / RESULT)], folder / "page.html")
            document = self.document()
            (folder / "report.md").write_text(as_markdown(document), encoding="utf-8")
            (folder / "report.tex").write_text(as_latex(document), encoding="utf-8")


@spread_over_workers
@checks_arguments()
def report(
    log: AnyLog | Any,
    policies: GivenPolicies | None = None,
    *,
    where: str | None = None,
    baseline: str | None = None,
    rules: GivenRules = None,
    **options: Any,
) -> LogReport:
    """Replay policies on a log, by default the standard suite, and report the findings.

    A data frame stands for the log that `tb.log` makes of it.

    Without `policies` the test examples are reported where the log has a test split, unless `where` says otherwise. The
    baseline is by default the plain vote over most traces, the plain ranking of documents, the last guess on whole
    questions, or what acts on a text at its first refutation; of a suite without any its first attempt. What else is
    `options` (settings, resamples, measure …) goes to `replay.run`. Raises ThinkbackError for anything wrong with the
    log, the policies or the settings.
    """
    unknown = [name for name in options if name not in signature(run).parameters]
    if unknown:
        raise UnknownError(
            f"`report` takes no {listed(unknown)}; name columns in `tb.log` and pass the log that it makes"
        )
    opened_log = as_log(log)
    description = describe_log(opened_log)
    standard, missing, not_drawn = None, list[str](), list[str]()
    if policies is None:
        standard = suite(opened_log, where, options.get("prices"), options.get("cost"))
        policies = standard.text
        missing = [*standard.left_out, *(f'{what}: skipped (`on_unscored = "skip"`)' for what in standard.skipped)]
        if where is None:
            where, options = standard.where, {"by": standard.by} | options
    file = load_policies(policies, rules)
    if baseline is None:
        records = [*map(policy_record, file.policies)]
        baseline = usual_baseline(records)
        if baseline is None and standard is not None:
            prices = options.get("prices")
            billed = logged_prices(opened_log) if prices is None else load_prices(prices)
            baseline = _single_attempt_to_add(records, description, opened_log, billed, file.cost)
    result = run(opened_log, file, baseline=baseline, where=where, **options)
    room = result.headroom() if any(policy.diagnostic for policy in result.policies) else None
    figures = {}
    for name in FIGURES:
        try:
            figures[name] = result.figure_data(name)
        except ThinkbackError as error:
            if room is not None or name != "headroom":  # its own section says so
                not_drawn.append(f"figure `{name}`: {first_line(error)}")
    areas = verifier_aucs(opened_log, result) if description.verifiers.height else ()
    same = _variation_between_runs(result)
    sections = _report_sections(result, description, room, areas, missing, not_drawn, same)
    lead = (*_lead_sentences(result, result.provenance["where"], standard is not None), *_mark_explanation(sections))
    return LogReport(result, description, room, sections, lead, figures, same)


def _short_table(table: Table, results: RankedInput, attempt: str | None) -> Table:
    """The best rows, those of the baseline, of one `attempt` and of the front's cheap end, with the columns that a
    reader asks for first.
    """
    known = {column.key for column in table.columns}
    cost = str(results.cost_column.metric)
    columns = (results.metric, cost, "difference", "p_adjusted", "on_front", "rank", "leader")
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


def _lead_sentences(result: Result, where: str | None, standard: bool) -> Iterator[str]:
    if result.simulated:
        yield SIMULATED
    settings = result.summariser.settings
    policies = counted(len(result.policies), "policy", "policies") + " of the standard suite" * standard
    among = f" where `{where}`" if where else ""
    against = "" if result.baseline is None else f" The baseline is `{result.baseline}`."
    n, judged = result.statistics.n, result.statistics.judged
    replayed = f"Replayed: {policies} on {counted(n, 'example')}{among}" + f", {judged:,} of them judged," * (
        judged < n
    )
    intervals = f"{100 * settings.level:g} % intervals"
    resamples = f"{settings.resamples:,} resamples paired by example, seed {settings.seed}"
    yield f"{replayed} of the log `{result.log_name}`.{against} In brackets {intervals} ({resamples})."
    if judged < FEW:
        few = f"{counted(judged, 'question')} show large differences only"
        yield remark("few_questions", f"{few}; `thinkback plan` says how many show smaller ones.")


def _mark_explanation(sections: Sequence[Section]) -> Iterator[str]:
    if any("†" in sentence for section in sections for sentence in section.sentences):
        yield "†: few examples tell the two apart, and the interval allows for that."
