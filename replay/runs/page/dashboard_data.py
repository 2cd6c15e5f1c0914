"""What a dashboard shows of a saved result beside single examples: plain data, ready for JSON.

Policies are numbered as the ranked table has them, the best first.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from replay.runs.compare.comparing import compare, differences_to_policy
from replay.runs.compare.headroom import GAPS, headroom
from replay.runs.compare.same_questions import SAME_QUESTIONS, SameQuestions
from replay.runs.passes.gate_sweep import spread_places
from replay.runs.saved.display import ranked_input
from replay.runs.saved.findings import Findings
from replay.runs.saved.saved_folder import SavedFolder
from toolkit.columns import OutcomeColumn, metric_column
from toolkit.errors import ThinkbackError, counted
from toolkit.log import IN_MEMORY
from toolkit.printable import printable
from toolkit.show import SIMULATED, RankedInput, Table, ranked_table
from toolkit.show.ranking.ranking import Ranked, rank, swept_text
from toolkit.show.ranking.results import main_finding, why_no_frontier
from toolkit.show.tables.table_content import DASH, TableColumn
from toolkit.stats.many.compare import ACCURACY

BEST = 3
"""How many of the best policies have a line on what other samples would show."""
BASELINES, DIFFERENCES = 24, 3_000
"""How many policies others can be compared with on a page, and the most differences that it has room for."""
FEW = 150
"""Of more policies a page reads those first that stand for their sweeps."""
LISTED, REASONS = 500, 12
"""How many policies and examples that were left out a page lists, and for how many reasons it counts them."""
DIGITS = 7
"""How many significant digits numbers on the page have."""

Json = dict[str, Any]


NO_ROOM = "There is no room for the outcomes of all examples, so differences are to some baselines alone."


def ranked_names(result: Findings) -> list[str]:
    """The names of a result's policies as the ranked table has them, the best first."""
    return [row.policy.name for row in rank(ranked_input(result))]


def result_data(
    result: Findings, folder: SavedFolder, name: str, computed: bool = False, room: bool = True
) -> Json:  # fmt: skip
    """A result as data for a page that calls it `name`; parts that it was saved without are null.

    `computed`: whether the page computes differences to any policy, so that of many policies only those to the run's
    own baseline are here; `room`: whether there would be room for the outcomes that this takes. `path`: that by which
    the result was loaded, for commands; null where it was not.
    """
    results = replace(ranked_input(result), short=True)
    rows = rank(results)
    table = ranked_table(results) if rows else None
    sentence = main_finding(results)
    above, below = (results.notes, ()) if table is None else (table.above, table.below)
    number = {row.policy.name: place for place, row in enumerate(rows)}
    curves = pl.read_parquet(folder.verified_path("curves.parquet")) if folder.has_file("curves.parquet") else None
    return {
        "name": printable(name), "log": printable(result.log_name), "path": _command_path(folder.address),
        "takeaway": None if sentence is None else _in_plain_text(sentence),
        "basis": sentences_on_basis(result, results.display_names),
        "n": result.statistics.n, "level": result.summariser.settings.level, "metric": result.summariser.metric,
        "cost": str(results.cost_column.metric), "metrics": [*_metric_entries(results, rows, table)],
        "noFront": why_no_frontier(results) if rows else "the result has no policy",
        "table": {"columns": [], "rows": []} if table is None else _table_data(table, results),
        "policies": [*_policy_entries(result, results, rows, number)], "baseline": number.get(result.baseline or ""),
        "leader": number.get(result.leader or ""), "pairs": _pair_differences(result, results, rows, number, computed),
        "sweeps": [*_sweep_entries(result, rows, number)], "headroom": _headroom_data(result, folder, number),
        "curves": None if curves is None else _curve_entries(curves), "curvesCommand": _curves_command(result),
        "warnings": [*[SIMULATED] * result.simulated, *_in_plain_texts(above, but=SIMULATED)],
        "notes": [
            *_in_plain_texts([*below, *_another_run_lines(result, folder, results.display_names)], but=sentence),
            *([] if room else [NO_ROOM]),
        ],
        "leftOut": [*itertools.islice(_policies_and_examples_left_out(result), LISTED)],
        "leftOutBy": _counts_left_out(result),
    }  # fmt: skip


def _command_path(path: str) -> str | None:
    """A path as a command takes it, so that it is no option; None where there is none."""
    return (f"./{path}" if path.startswith("-") else path) or None


def _curves_command(result: Findings) -> str | None:
    """The command that computes the saved curves of the log again, if the log has an address."""
    examples, settings, provenance = result.summariser.outcomes.examples, result.summariser.settings, result.provenance
    path = None if provenance["log"]["address"] == IN_MEMORY else _command_path(str(provenance["log"]["address"]))
    weights = ",".join(f"{name}={weight!r}" for name, weight in (examples.weights or {}).items())
    options = {
        "where": provenance.get("where"), "strata": examples.strata, "weigh": weights or None,
        "seed": settings.seed, "resamples": settings.resamples, "level": settings.level,
    }  # fmt: skip
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return None if path is None else shlex.join(["thinkback", "curves", path, *words])


def _another_run_lines(result: Findings, folder: SavedFolder, called: Mapping[str, str]) -> Iterator[str]:
    """Lines on what other samples of the same questions would show of the best policies, if that is saved."""
    if folder.has_file(SAME_QUESTIONS):
        frame = pl.read_parquet(folder.verified_path(SAME_QUESTIONS))
        level, quality = result.summariser.settings.level, metric_column(ACCURACY, result.columns).label
        same = SameQuestions(frame, level, result.log_name, result.simulated, called, quality)
        alone = frame.filter(pl.col("other").is_null(), pl.col("error").is_not_null())
        names = alone.sort("estimate", descending=True, maintain_order=True)["policy"].head(BEST)
        if len(names):
            yield same.sentence(*map(same.variation_phrase, names))


def json_number(value: Any) -> float | int | None:
    """A number for JSON, rounded to more digits than are shown; None where it is NaN or infinite.

    One that these make a round number although it is none keeps twelve: it would be rounded twice, and its half away
    from zero where it is below the half.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if not math.isfinite(value):
        return None
    rounded = f"{value:.{DIGITS}g}"
    exact = float(f"{value:.12g}")
    return float(rounded) if float(rounded) == exact or not _is_round(rounded) else exact


def _is_round(number: str) -> bool:
    """Whether a number as text has fewer digits than are kept."""
    return len(number.partition("e")[0].replace(".", "").lstrip("-0")) < DIGITS


def json_numbers(values: pl.Series) -> list[float | None]:
    """The numbers of a column, rounded for JSON."""
    return [json_number(value) for value in values]


def sentences_on_basis(result: Findings, called: Mapping[str, str]) -> str:
    """A few sentences on what the numbers of a result are based on. `called`: names by which policies go here."""
    settings, provenance = result.summariser.settings, result.provenance
    policies, examples = counted(len(result.policies), "policy", "policies"), counted(result.statistics.n, "example")
    where = f" where {provenance['where']}" if provenance.get("where") else ""
    judged = f", {result.statistics.judged:,} of them judged" if result.statistics.judged != result.statistics.n else ""
    sentences = [f"{policies} on {examples}{judged} of the log {result.log_name}{where}"]
    sentences.append(
        f"baseline: {called.get(result.baseline, result.baseline)}" if result.baseline is not None else "no baseline"
    )
    how = f"{settings.resamples:,} resamples paired by example, seed {settings.seed}"
    sentences.append(f"{100 * settings.level:g} % intervals ({settings.method}, {how})")
    return printable(f"{'; '.join(sentences)}.")


def _in_plain_text(sentence: str) -> str:
    """A sentence without the marks that set off names in a terminal."""
    return printable(sentence.replace("`", ""))


def _in_plain_texts(notes: Iterable[object], but: str | None) -> Iterator[str]:
    return (_in_plain_text(str(note)) for note in notes if note != but)


def _metric_entries(results: RankedInput, rows: Sequence[Ranked], table: Table | None) -> Iterator[Json]:
    """What the results are ranked by and what the table has: number formats, each policy's value, its limits."""
    place = {row.policy.name: number for number, row in enumerate(rows)}
    summary = results.summary.filter(pl.col("policy").is_in(list(place)))
    names = {column.key for column in (() if table is None else table.columns)}
    for (metric,), frame in summary.partition_by("metric", as_dict=True, maintain_order=True).items():
        column = metric_column(str(metric), results.columns)
        if (metric not in names and metric != results.metric) or frame["estimate"].null_count() == len(frame):
            continue
        series: dict[str, list[float | None]] = {part: [None] * len(rows) for part in ("estimate", "low", "high")}
        for policy, *values in frame.select("policy", *series).iter_rows():
            for part, value in zip(series, values, strict=True):
                series[part][place[policy]] = json_number(value)
        yield {**_number_format(column), "metric": metric, **series}


def _number_format(column: OutcomeColumn) -> Json:
    return {
        "label": printable(column.heading),
        "axis": printable(column.axis_label if column.cost and not column.share else column.heading),
        "scale": 100.0 if column.share else column.scale,
        "decimals": 1 if column.share else column.decimals if column.header else 2,
        "significant": 0 if column.share else column.significant,
        "share": column.share,
        "cost": column.cost,
        "quality": column.quality,
    }


LEAST_FIRST = ("place", "rank", "p_adjusted", "flip_rate")
"""Columns of numbers, beside the costs, in which the lowest is the best."""


def _table_data(table: Table, results: RankedInput) -> Json:
    """The ranked table for a page: cells as people read them, the values to sort by, and which end comes first."""
    indices = [i for i, column in enumerate(table.columns) if _is_filled(column, [row[i] for row in table.rows])]
    least = {*LEAST_FIRST, *(str(one.metric) for one in results.columns if one.cost)}
    least |= {"corrected", "difference"} if results.quality_column.cost else set()
    first = {"place", "policy", results.metric, "difference", str(results.cost_column.metric), "leader"}
    columns = []
    for column in (table.columns[i] for i in indices):
        key, align = column.key or column.name, column.form.align
        down = align != "left" and key not in least
        columns.append({"name": column.name, "key": key, "align": align, "down": down, "first": key in first})
    texts = table.texts()
    rows = []
    for row, cells in zip(table.rows, texts, strict=True):
        rows.append([[cells[i], _sort_value(table.columns[i], row[i])] for i in indices])
    return {"columns": columns, "rows": rows}


def _is_filled(column: TableColumn, cells: Sequence[Any]) -> bool:
    return not (column.if_filled and all(cell in (None, "", DASH) for cell in cells))


def _sort_value(column: TableColumn, cell: Any) -> float | int | str | None:
    """The value that sorts a cell: its first number in full precision, or its text."""
    if cell is None:
        return None
    value = column.form.csv_values(cell)[0]
    if isinstance(value, str):
        return {"true": 1, "false": 0}.get(value, value) or None
    return json_number(value)


def _policy_entries(
    result: Findings, results: RankedInput, rows: Sequence[Ranked], number: Mapping[str, int]
) -> Iterator[Json]:
    kinds = {policy.name: policy for policy in result.policies}
    for row in rows:
        policy = kinds[row.policy.name]
        yield {
            "name": policy.name,
            "called": printable(results.display_names[policy.name]),
            "kind": policy.kind,
            "diagnostic": printable(policy.diagnostic),
            "sweep": printable(policy.label or policy.sweep) if policy.sweep_size > 1 else "",
            "front": bool(row.on_front),
            "ties": bool(row.ties),
            "leads": row.leads,
            "base": number.get(policy.base),
        }


def _pair_differences(
    result: Findings, results: RankedInput, rows: Sequence[Ranked], number: Mapping[str, int], computed: bool
) -> Json:
    """The differences of all policies to each of some baselines, policy minus baseline, by baseline.

    To the run's own baseline their limits hold for all such differences, to any other for all pairs of policies.
    """
    many = computed and len(rows) > FEW
    first = [number[one] for one in (result.baseline, result.leader) if one is not None and one in number]
    usual = [place for place, row in enumerate(rows) if not row.policy.diagnostic and row.quality is not None]
    most = max(2, min(BASELINES, DIFFERENCES // max(len(rows), 1)))
    value = {place: row.quality.estimate for place, row in enumerate(rows) if row.quality is not None}
    empty: Json = dict.fromkeys(("low", "high", "p", "fixes", "flips", "differs"))
    differences = {
        base: [None if place not in value else {**empty, "difference": json_number(value[place] - value[base])}
               for place in range(len(rows))]
        for base in (first[:1] if many else _baseline_places(rows, first, usual, most)) if base in value
    }  # fmt: skip
    if len(value) > 1 and not many:
        _add_limits_of_all_pairs(differences, result, rows, number)
    if results.baseline in number and (baseline := number[str(results.baseline)]) in differences:
        _add_baseline_limits(differences[baseline], rows, results.level)
    return {
        "baselines": [*differences],
        "left": 0 if computed else len([place for place in usual if place not in differences]),
        **{part: [[None if entry is None else entry[part] for entry in entries] for entries in differences.values()]
           for part in ("difference", *empty)},
    }  # fmt: skip


def _baseline_places(rows: Sequence[Ranked], first: Sequence[int], usual: Sequence[int], most: int) -> list[int]:
    """Places of at most `most` baselines: `first`, then policies that are in no sweep, then settings of sweeps.

    Of either those that there is no room for are spread over the ranking, so that they are not all like the leader.
    """
    swept = {place for place in usual if rows[place].policy.sweep_size > 1 and not rows[place].chosen}
    baselines = list(dict.fromkeys(first))
    for group in ([place for place in usual if place not in swept], [place for place in usual if place in swept]):
        places = [place for place in group if place not in baselines]
        room = min(most - len(baselines), len(places))
        baselines += (
            [places[at] for at in np.linspace(0, len(places) - 1, room).round().astype(int)] if room > 0 else []
        )
    return baselines[:most]


PairColumns = dict[int, list[Json | None]]


def _add_limits_of_all_pairs(
    differences: PairColumns, result: Findings, rows: Sequence[Ranked], number: Mapping[str, int]
) -> None:
    """Add limits that hold for all pairs, and fixes and flips, if the policies are few enough for all pairs."""
    try:
        pairs = compare(result, None, None, None, None).pairs
    except ThinkbackError:  # too many to be compared at once: the run's own baseline has limits of its own
        return
    for base, entries in differences.items():
        for pair in differences_to_policy(pairs, rows[base].policy.name).rename({"p_value": "p"}).iter_rows(named=True):
            if (one := entries[number[pair["policy"]]]) is not None:
                one |= {name: json_number(pair[name]) for name in one}


def _add_baseline_limits(entries: Sequence[Json | None], rows: Sequence[Ranked], level: float) -> None:
    """Add the limits that hold for all differences to the run's own baseline."""
    for entry, row in zip(entries, rows, strict=True):
        if entry is not None and row.difference is not None:
            entry |= {
                "difference": json_number(row.difference.estimate),
                "low": json_number(row.difference.low),
                "high": json_number(row.difference.high),
                "p": json_number(row.p_value),
                "differs": None if row.p_value is None else row.p_value < 1 - level,
            }


def _sweep_entries(result: Findings, rows: Sequence[Ranked], number: Mapping[str, int]) -> Iterator[Json]:
    """Every sweep with its keys and their values; for each setting the place of each value, and the policy.

    A gate with every threshold has the means of all of them; those that are no policies have no limits.
    """
    swept: dict[str, list[Any]] = {}
    for policy in result.policies:
        if policy.swept and policy.sweep_size > 1:
            swept.setdefault(policy.sweep, []).append(policy)
    for sweep, members in swept.items():
        thresholds = None if result.thresholds is None else result.thresholds.filter(policy=sweep).sort("threshold")
        if thresholds is not None and len(thresholds):
            yield _all_thresholds(sweep, members, thresholds, number)
            continue
        keys = [key for key, _ in members[0].swept]
        values = [_distinct_sorted([dict(member.swept)[key] for member in members]) for key in keys]
        yield {
            "name": printable(members[0].label or sweep),
            "sweep": sweep,
            "keys": [
                {"key": printable(key), "values": [*map(_value_text, of)]} for key, of in zip(keys, values, strict=True)
            ],
            "at": [
                [of.index(dict(member.swept)[key]) for key, of in zip(keys, values, strict=True)] for member in members
            ],
            "policy": [number[member.name] for member in members],
            "means": {},
        }


def _all_thresholds(sweep: str, members: Sequence[Any], rows: pl.DataFrame, number: Mapping[str, int]) -> Json:
    """The means at the thresholds of policies, and at up to 200 of all, evenly spread."""
    mine = {dict(member.swept)[members[0].swept[0][0]]: number[member.name] for member in members}
    replayed = np.flatnonzero(rows["threshold"].is_in([*mine]).to_numpy())
    rows = rows[np.union1d(replayed, spread_places(len(rows)))]
    means = [name for name in rows.columns if name not in ("policy", "threshold", "n", "judged")]
    return {
        "name": printable(members[0].label or sweep),
        "sweep": sweep,
        "keys": [{"key": printable(members[0].swept[0][0]), "values": [*map(_value_text, rows["threshold"])]}],
        "at": [[place] for place in range(len(rows))],
        "policy": [mine.get(value) for value in rows["threshold"]],
        "means": {name: json_numbers(rows[name]) for name in means if rows[name].null_count() < len(rows)},
    }


def _distinct_sorted(values: Sequence[Any]) -> list[Any]:
    distinct = list(dict.fromkeys(values))
    plain = all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct)
    return sorted(distinct) if plain else distinct


def _value_text(value: Any) -> str:
    return printable(swept_text(value, 6))


def _headroom_data(result: Findings, folder: SavedFolder, number: Mapping[str, int]) -> Json | None:
    """The share of the headroom that each policy reaches; None where no policy sees gold."""
    gaps = pl.read_parquet(folder.verified_path(GAPS)) if folder.has_file(GAPS) else None
    try:
        room = headroom(result, gaps)
    except ThinkbackError:
        return None
    measures: dict[str, list[Any]] = {}
    for policy, measure, estimate, low, high, *_ in room.frame.iter_rows():
        rows = measures.setdefault(measure, [None] * len(number))
        rows[number[policy]] = [json_number(estimate), json_number(low), json_number(high)]
    accuracy = {policy: json_number(value) for policy, value in room.accuracy.select("policy", "estimate").iter_rows()}
    right = [accuracy.get(policy) for policy in number]
    ends = {"oracle": number[room.oracle], "baseline": None if room.baseline is None else number[room.baseline]}
    return {**ends, "parts": room.parts, "accuracy": right, "measures": measures}


def _curve_entries(curves: pl.DataFrame) -> list[Json]:
    rows = curves.drop_nulls("estimate")
    return [
        {
            "pool": printable(row["pool"]),
            "series": printable(row["metric"] + (f" ({row['verifier']})" if row["verifier"] is not None else "")),
            **{part: json_number(row[part]) for part in ("k", "estimate", "low", "high", "n")},
        }
        for row in rows.iter_rows(named=True)
    ]


def _policies_and_examples_left_out(result: Findings) -> Iterator[tuple[str, str, str]]:
    for name, why in result.dropped.items():
        yield "policy", printable(name), _in_plain_text(why)
    for name, why in result.excluded.items():
        yield "example", printable(name), _in_plain_text(why)


def _counts_left_out(result: Findings) -> Json:
    """How many policies and examples were left out, of all and for each of the most frequent reasons."""
    reasons = Counter(map(_in_plain_text, [*result.dropped.values(), *result.excluded.values()]))
    return {"all": reasons.total(), "reasons": len(reasons), "most": reasons.most_common(REASONS)}
