"""From result frames to the ranked table, on a run made by hand."""

import csv
import io
import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import numbers, quotes, refuses, remarked
from tests.seeds import seeds
from toolkit.columns import find
from toolkit.notes import Note, note, warning
from toolkit.show import (
    PolicyRow,
    RankedInput,
    RowLimits,
    Table,
    code_of,
    frontier_figure,
    frontier_points,
    pareto_front,
    rank,
    ranked_table,
    short_names,
)
from toolkit.show.ranking.one_column import paper_names
from toolkit.show.ranking.ranking import MARKED, MARKED_IN_CLUSTERS, UNLIKE_CALLS, WithinMargin
from toolkit.show.ranking.results import best_policy_sentences, cheapest_policy_sentences, main_finding
from toolkit.show.tables.table_content import IntervalCell
from toolkit.stats import OutcomeBlock, Settings, summarise
from toolkit.stats.limits.planning import NeededQuestions

GOLDEN = Path(__file__).parent / "golden"


def by_name(results: RankedInput) -> dict:
    return {row.policy.name: row for row in rank(results)}


def test_ranked_by_accuracy_without_counting_diagnostics(results: RankedInput) -> None:
    assert [(row.place, row.policy.name) for row in rank(results)] == [
        (None, "any of 4"),
        (1, "stop[margin=0.2]"),
        (2, "best of 4"),
        (3, "stop[margin=0.1]"),
        (4, "vote"),
        (5, "first"),
    ]


def test_pareto_front(results: RankedInput) -> None:
    # by cost: first 300/.50, stop .1 1100/.68, vote 1200/.66 (beaten), stop .2 1500/.705, best of 4 2000/.70 (beaten)
    on_front = {name: row.on_front for name, row in by_name(results).items()}
    assert on_front == {
        "first": True,
        "stop[margin=0.1]": True,
        "stop[margin=0.2]": True,
        "vote": False,
        "best of 4": False,
        "any of 4": None,  # a diagnostic is on no front, though nothing is more accurate
    }


def test_ties_with_the_leader(results: RankedInput) -> None:
    rows = by_name(results)
    assert [name for name, row in rows.items() if row.leads] == ["stop[margin=0.2]"]
    assert [name for name, row in rows.items() if row.ties and not row.leads] == ["best of 4", "stop[margin=0.1]"]


def test_not_worse_by_more_than_the_margin(results: RankedInput) -> None:
    rows = by_name(results)
    # lower ends: .2 -.009 > -.01; .1 -.05
    assert rows["stop[margin=0.2]"].not_worse is True
    assert rows["stop[margin=0.1]"].not_worse is False
    exactly = by_name(replace(results, margin=0.009))
    assert exactly["stop[margin=0.2]"].not_worse is False  # the bound itself is worse
    assert {row.not_worse for row in rank(replace(results, margin=None))} == {None}


def line_of(table: Table, subject: str) -> str:
    """The one line below a table that begins with a subject."""
    (line,) = (line for line in table.below if line.startswith(subject))
    return line


def test_the_best_of_a_sweep_is_marked(results: RankedInput) -> None:
    remarks = {name: row.remark for name, row in by_name(results).items()}
    assert "best of 5" in remarks.pop("stop[margin=0.2]")
    assert remarks == {
        "any of 4": "diagnostic: sees gold",
        "best of 4": "baseline",
        "stop[margin=0.1]": "",
        "vote": "",
        "first": "",
    }


def corrected(results: RankedInput) -> RankedInput:
    """The same with what the leader is worth, corrected for having been chosen."""
    told = {"tried": 5, "corrected": 0.693, "corrected_low": 0.663, "corrected_high": 0.735}
    leads = (pl.col("policy") == results.leader) & (pl.col("metric") == results.metric)
    made = [pl.when(leads).then(pl.lit(value)).otherwise(pl.col(name)).alias(name) for name, value in told.items()]
    return replace(results, ranks=results.ranks.with_columns(made))


def test_what_was_chosen_stands_corrected_beside_its_plain_value(results: RankedInput) -> None:
    table = ranked_table(corrected(results))
    assert [column.name for column in table.columns][2:5] == ["accuracy %", "corrected %", "tokens"]
    assert [row[3] for row in table.rows].count(None) == 5
    assert any(line.startswith("corrected: ") for line in table.below)
    assert "corrected" not in ranked_table(results).markdown()


def test_the_front_says_how_sure_it_is(results: RankedInput) -> None:
    lines = [line.split(" | ") for line in ranked_table(results).markdown().splitlines() if line.startswith("| ")]
    place = lines[0].index("Pareto")
    assert [line[place] for line in lines[2:]] == ["–", "● 72 %", "30 %", "● 90 %", "", "● 100 %"]


def test_a_tie_below_a_policy_that_is_told_apart_is_explained(results: RankedInput) -> None:
    swapped = pl.when(pl.col("policy") == "vote").then(pl.lit(True)).otherwise(pl.col("ties"))
    swapped = pl.when(pl.col("policy") == "best of 4").then(pl.lit(False)).otherwise(swapped)
    below = ranked_table(replace(results, ranks=results.ranks.with_columns(ties=swapped))).below
    (line,) = set(below[:-1]) - set(ranked_table(results).below)
    assert line.startswith("`best of 4`")
    assert "`vote`" in line


CORE = ("accuracy", "tokens", "Δ", "Pareto", "rank", "leader")


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_a_terminal_keeps_what_a_comparison_is_about(results: RankedInput, width: int) -> None:
    text = ranked_table(corrected(results)).terminal(width)
    heads = " ".join(text.partition("───")[0].split())
    assert all(name in heads for name in CORE)
    assert max(len(line) for line in text.splitlines()) <= width
    assert all(policy.name in text for policy in results.policies)
    for interval in ("70.5", "[67.5, 73.5]", "[−23.0, −17.0]", "1,500", "● 72 %", "1–3"):
        assert interval in text


@pytest.mark.parametrize("width", [30, 40, 50, 60, 70, 80, 90, 100])
def test_no_number_is_broken(results: RankedInput, width: int) -> None:
    text = ranked_table(corrected(results)).terminal(width)
    rows = text.partition("───")[2].partition("\n\n")[0]
    assert max(len(line) for line in rows.splitlines()) <= width
    for value in ("90.0", "70.5", "[67.5, 73.5]"):
        assert value in rows


def test_a_long_sweep_shows_some_rows_and_says_where_the_rest_is(results: RankedInput) -> None:
    many = [PolicyRow(f"s[x={i}]", "s", sweep_size=60, swept=(("x", i),)) for i in range(60)]
    one = results.summary.filter(pl.col("policy") == "vote")
    rows = [one.with_columns(policy=pl.lit(row.name), estimate=pl.col("estimate") - 0.001 * i) for i, row in
            enumerate(many)]  # fmt: skip
    made = replace(results, summary=pl.concat([results.summary, *rows]), policies=(*results.policies, *many))
    table = ranked_table(made, RowLimits(of_sweep=10))
    assert sum(row[1].startswith("s[x=") for row in table.rows) == 10
    assert len(table.rows) == 16
    assert [line for line in table.below if line.startswith("50 more rows") and "table.csv" in line]
    shown = sorted(int(row[1][4:-1]) for row in table.rows if row[1].startswith("s[x="))
    assert (shown[0], shown[1], shown[-1]) == (0, 1, 59)  # the chosen one, then from end to end
    assert max(b - a for a, b in itertools.pairwise(shown)) <= 8
    near = replace(made, within=lambda: WithinMargin(0.01, "s[x=37]", -0.006, None, None))
    assert "s[x=37]" in {row[1] for row in ranked_table(near, RowLimits(of_sweep=3)).rows}
    few = ranked_table(made, RowLimits(most=4, rest="elsewhere"))
    assert [row[1] for row in few.rows] == ["any of 4", "stop[margin=0.2]", "best of 4", "stop[margin=0.1]"]
    assert [line for line in few.below if line.startswith("62 more rows") and "elsewhere" in line]


def test_a_column_without_values_is_left_out_and_why_it_has_none_stays(results: RankedInput) -> None:
    unknown = pl.when(pl.col("metric") == "calls").then(None).otherwise(pl.col("estimate"))
    why = note("not_logged", "calls: not logged", metrics=("calls",))
    other = note("few_events", "calls: few", metrics=("calls",))
    made = replace(results, summary=results.summary.with_columns(estimate=unknown), notes=(why, other))
    text = ranked_table(made).terminal(200)
    assert "calls" not in text.partition("───")[0]
    assert "calls: not logged" in text
    assert "calls: few" not in text
    assert "Columns hidden" not in text


def test_without_ranks_nothing_is_told_of_all_at_once(results: RankedInput) -> None:
    """As in a result that was saved before there were any."""
    table = ranked_table(replace(results, ranks=results.ranks.clear()))
    assert not {"p", "rank", "corrected %"} & {column.name for column in table.columns}
    assert not any("at once" in line or "adjusted" in line or "Pareto %" in line for line in table.below)


def test_differences_show_the_limits_that_hold_for_all_of_them(results: RankedInput) -> None:
    """A difference that is above −1 alone, but not beside five others."""
    assert {row.policy.name: row.not_worse for row in rank(results)}["stop[margin=0.2]"]
    limits = pl.when(pl.col("p_baseline").is_not_null()).then(0.002)
    ranks = results.ranks.with_columns(baseline_low=-0.01 - limits, baseline_high=0.022 + limits)
    made = replace(results, ranks=ranks)
    row = next(row for row in rank(made) if row.policy.name == "stop[margin=0.2]")
    assert row.difference == IntervalCell(0.005, pytest.approx(-0.012), pytest.approx(0.024))
    assert row.not_worse is False
    assert "[−1.2, +2.4]" in str(ranked_table(made))
    assert "at once" in line_of(ranked_table(made), "Δ points")
    assert "at once" not in line_of(ranked_table(results), "Δ points")


@pytest.mark.parametrize("suffix", ["md", "csv", "txt"])
def test_golden(results: RankedInput, suffix: str) -> None:
    table = ranked_table(corrected(replace(results, simulated=True)))
    written = {"md": table.markdown, "csv": lambda: table.csv({}), "txt": lambda: table.terminal(100)}[suffix]()
    assert written == (GOLDEN / f"ranked.{suffix}").read_text(encoding="utf-8")


def test_missing_is_a_dash_and_an_empty_field(results: RankedInput) -> None:
    gone = (pl.col("policy") == "vote") & pl.col("metric").is_in(["total_tokens", "calls"])
    without = replace(
        results,
        summary=results.summary.with_columns(
            estimate=pl.when(gone).then(None).otherwise(pl.col("estimate")),
            low=pl.when(gone).then(None).otherwise(pl.col("low")),
            high=pl.when(gone).then(None).otherwise(pl.col("high")),
        ),
    )
    line = next(line for line in ranked_table(without).markdown().splitlines() if "| vote |" in line)
    assert line.startswith("| 4 | vote | 66.0 [63.0, 69.0] | – | – |")
    row = next(r for r in csv.DictReader(io.StringIO(ranked_table(without).csv())) if r["policy"] == "vote")
    assert (row["total_tokens"], row["calls"]) == ("", "")


def test_the_front_falls_back_where_tokens_are_not_logged(results: RankedInput) -> None:
    assert results.cost_column.name == "total_tokens"
    summary = results.summary.filter((pl.col("metric") != "total_tokens") | (pl.col("policy") != "first"))
    assert replace(results, summary=summary).cost_column.name == "calls"
    assert line_of(ranked_table(replace(results, summary=summary)), "Pareto ●").endswith("calls.")


@pytest.mark.parametrize("costs", [(), ("calls",), ("operations",), ("calls", "operations"), ("total_tokens", "calls")])
def test_the_leader_is_the_first_row_whatever_is_logged(costs: tuple[str, ...]) -> None:
    # Equal accuracy, and by each cost another policy is the cheapest; `any` is a diagnostic without tokens.
    cheapest = {"total_tokens": "a", "calls": "b", "operations": "c"}
    names = ("any", "a", "b", "c")
    values = {"correct": np.array([[1.0, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]])}
    for cost in costs:
        values[cost] = np.array([[1.0 if name == cheapest[cost] else 2.0] * 4 for name in names])
    if "total_tokens" in values:
        values["total_tokens"][0] = np.nan
    block = OutcomeBlock(np.array(list("wxyz"), object), np.arange(4), values)
    found = summarise(lambda: iter([block]), names, leaders=names[1:], settings=Settings(resamples=20))
    policies = tuple(PolicyRow(name, diagnostic=name == "any") for name in names)
    ranked = rank(RankedInput(found.summary, found.comparisons, policies, n=4, leader=found.leader))
    first = next(row for row in ranked if not row.policy.diagnostic)
    assert first.leads
    assert first.policy.name == (cheapest[costs[0]] if costs else "a")


def test_unjudged_policies_come_last_and_have_no_place(results: RankedInput) -> None:
    summary = results.summary.filter((pl.col("metric") != "accuracy") | (pl.col("policy") != "vote"))
    last = rank(replace(results, summary=summary))[-1]
    assert (last.policy.name, last.place, last.quality, last.on_front) == ("vote", None, None, None)


def test_without_a_baseline_there_are_no_differences(results: RankedInput) -> None:
    table = ranked_table(replace(results, baseline=None, margin=None))
    assert [c.name for c in table.columns] == [
        "#",
        "policy",
        "accuracy %",
        "tokens",
        "calls",
        "€/1,000",
        "Pareto",
        "rank",
        "leader",
        "remark",
    ]


def test_warnings_stand_above_and_notes_below(results: RankedInput) -> None:
    notes = (note("told", "a note"), warning("gone", "half is gone"))
    table = ranked_table(replace(results, simulated=True, notes=notes))
    assert table.above[0].startswith("Simulated log: ")
    assert table.above[1:] == ("WARNING: half is gone",)
    assert table.below[-2] == "a note"  # the sentence that says what the table says comes last


def test_few_events_are_marked(results: RankedInput) -> None:
    wilson = results.summary.with_columns(
        method=pl.when(pl.col("policy") == "first").then(pl.lit("wilson")).otherwise(pl.col("method"))
    )
    table = ranked_table(replace(results, summary=wilson))
    assert "50.0 [47.0, 53.0]†" in table.markdown()
    assert any(note.startswith("†") for note in table.below)
    assert "†" not in ranked_table(results).markdown()


def test_marks_of_clusters_speak_of_clusters(results: RankedInput) -> None:
    """What tells two policies apart are then clusters, and no count of examples."""
    tango = replace(results, comparisons=results.comparisons.with_columns(method=pl.lit("tango")))
    plain, clustered = (
        remarked(ranked_table(replace(tango, notes=notes)).below, "marks")
        for notes in ((), (note("clusters", "60 clusters of 400 examples"),))
    )
    assert plain == f"†: {MARKED['tango']}."
    assert clustered == f"†: {MARKED_IN_CLUSTERS['tango']}."


def test_two_clusters_have_no_intervals_to_explain(results: RankedInput) -> None:
    none = pl.lit(None, pl.Float64)
    bare = replace(
        results,
        summary=results.summary.with_columns(low=none, high=none, method=pl.lit(None, pl.String)),
        comparisons=results.comparisons.with_columns(low=none, high=none, method=pl.lit(None, pl.String)),
        notes=(warning("few_clusters", "2 clusters of 400 examples"),),
    )
    told = " ".join(ranked_table(bare).below)
    assert "resamples paired" not in told
    assert "In brackets" not in told


def test_a_long_sweep_is_cut_but_nothing_that_matters(results: RankedInput) -> None:
    names = [f"wide[k={k}]" for k in range(100)]
    rows = [(name, "accuracy", 0.6 - k / 1000, None, None, 200, None) for k, name in enumerate(names)]
    rows += [(name, "total_tokens", 900.0 - k, None, None, 200, None) for k, name in enumerate(names)]
    more = pl.DataFrame(rows, schema=results.summary.schema, orient="row")
    wide = replace(
        results,
        summary=pl.concat([results.summary, more]),
        policies=results.policies + tuple(PolicyRow(name, "wide", sweep_size=100) for name in names),
    )
    table = ranked_table(wide, limit=20)
    shown = [row[1] for row in table.rows]
    assert len(shown) == 20
    assert {"any of 4", "best of 4", "vote", "first", "stop[margin=0.2]", "wide[k=0]"} <= set(shown)
    assert table.below[0].startswith("86 more rows")
    assert len(ranked_table(wide).rows) == 106
    assert [row[0] for row in table.rows][-1] == 105  # places count all policies, shown or not


def test_points_of_the_figure(results: RankedInput) -> None:
    points = {point.name: point for point in frontier_points(results)}
    assert len(points) == 6
    vote = points["vote"]
    assert (vote.cost, vote.cost_low, vote.accuracy, vote.high) == (1200.0, 1150.0, 0.66, pytest.approx(0.69))
    inner = points["stop[margin=0.1]"]
    assert inner.swept
    assert inner.on_front
    assert inner.labelled  # a setting on the front is named, another is not
    assert not replace(inner, on_front=False).labelled
    assert not inner.chosen
    assert points["any of 4"].diagnostic
    assert points["best of 4"].baseline


@pytest.mark.parametrize(
    ("swept", "line"),
    [
        ((("max_traces", 4),), True),
        ((("gate.below", float("inf")),), True),
        ((("select", "best"),), False),
        ((("gate.below", "all"),), False),
        ((("expected", True),), False),
        ((("max_traces", 4), ("stop.margin", 0.1)), False),
        ((), False),
    ],
)
def test_settings_and_not_names_say_whether_a_line_is_drawn(
    results: RankedInput, swept: tuple[tuple[str, object], ...], line: bool
) -> None:
    policies = list(results.policies[:4])
    policies[3] = replace(policies[3], name="best of 4", swept=swept)
    points = frontier_points(replace(results, policies=tuple(policies[3:])))
    assert [point.swept for point in points] == [line]


@given(st.dictionaries(st.text(max_size=3), st.tuples(st.integers(0, 4).map(float), st.integers(0, 4).map(float))))
def test_pareto_front_is_what_nothing_beats(points: dict[str, tuple[float, float]]) -> None:
    def beaten(name: str) -> bool:
        cost, accuracy = points[name]
        return any(c <= cost and a >= accuracy and (c, a) != (cost, accuracy) for c, a in points.values())

    assert pareto_front(points) == {name for name in points if not beaten(name)}


def test_prediction_sets_have_columns_where_a_policy_makes_them(results: RankedInput) -> None:
    """Coverage, share answered and accuracy among these in per cent; the size of the sets as a number."""
    sets = {"coverage": 0.875, "answer_rate": 0.5, "accuracy_answered": 0.75, "set_size": 1.25}
    first = results.summary.filter(pl.col("metric") == "accuracy").head(1)
    more = [first.with_columns(metric=pl.lit(m), estimate=pl.lit(value)) for m, value in sets.items()]
    made = replace(results, summary=pl.concat([results.summary, *more]))
    row = next(r for r in csv.DictReader(io.StringIO(ranked_table(made).csv({}))) if r["policy"] == first["policy"][0])
    assert {name: float(row[name]) for name in sets} == sets
    text = ranked_table(made).markdown()
    assert sets.keys() <= {column.key for column in ranked_table(made).columns}
    for number in ("87.5", "75.0", "1.25"):
        assert number in text
    assert "coverage" not in ranked_table(results).csv({})


def keyed(results: RankedInput, metric: str) -> RankedInput:
    """The same numbers, of another metric than accuracy."""
    frames = {
        name: getattr(results, name).with_columns(pl.col("metric").replace("accuracy", metric))
        for name in ("summary", "comparisons", "ranks")
    }
    return replace(results, metric=metric, **frames)


def test_everything_follows_the_metric_that_ranks(results: RankedInput) -> None:
    other = keyed(results, "recall_5")
    ours, theirs = ranked_table(results), ranked_table(other)
    assert theirs.rows == ours.rows
    assert theirs.title == ours.title.replace("accuracy", "recall_5") != ours.title
    headings = [column.name for column in theirs.columns]
    assert headings == [column.name.replace("accuracy", "recall_5") for column in ours.columns]
    assert "accuracy" not in theirs.markdown()
    pareto = line_of(ours, "Pareto ●").replace("accuracy", "recall_5")
    assert line_of(theirs, "Pareto ●") == pareto
    assert "recall_5" in pareto
    assert "recall_5,recall_5_low,recall_5_high" in theirs.csv()
    assert frontier_points(other) == frontier_points(results)
    figure = frontier_figure(other)
    assert figure is not None
    assert [axes.get_ylabel() for axes in figure.axes] == ["recall_5, %"]
    assert [axes.get_xlabel() for axes in figure.axes] == [find("total_tokens").axis_label]


def test_a_metric_with_a_column_of_its_own_ranks_without_standing_twice(results: RankedInput) -> None:
    headings = [column.name for column in ranked_table(keyed(results, "coverage")).columns]
    assert headings.count("coverage %") == 1


def test_no_figure_without_the_metric_that_ranks(results: RankedInput) -> None:
    assert frontier_figure(replace(results, metric="recall_5")) is None


def test_float_noise_decides_nothing_on_the_front(results: RankedInput) -> None:
    noisy = results.summary.with_columns(
        estimate=pl.when((pl.col("policy") == "vote") & (pl.col("metric") == "accuracy")).then(0.68 + 2e-16)
        .when((pl.col("policy") == "vote") & (pl.col("metric") == "total_tokens")).then(1100.0 - 1e-12)
        .otherwise(pl.col("estimate"))
    )  # fmt: skip
    rows = by_name(replace(results, summary=noisy))
    assert rows["vote"].on_front
    assert rows["stop[margin=0.1]"].on_front


def test_a_remark_names_the_base_of_fixes_and_flips(results: RankedInput) -> None:
    first = results.summary.filter(pl.col("metric") == "accuracy").head(1)
    fixes = first.with_columns(metric=pl.lit("fix_rate"), estimate=pl.lit(0.125))
    policies = (replace(results.policies[0], base="vote"), *results.policies[1:])
    made = replace(results, summary=pl.concat([results.summary, fixes]), policies=policies)
    assert by_name(made)["best of 4"].remark == "baseline; base: vote"
    unnamed = replace(made, policies=results.policies)
    lines = [line_of(ranked_table(one), "fixes %") for one in (made, unnamed)]
    assert ["its remark" in line for line in lines] == [True, False]
    assert all("`best of 4`" in line for line in lines)
    assert not any(line.startswith("fixes %") for line in ranked_table(results).below)


def test_a_note_on_a_column_that_is_not_shown_is_not_shown(results: RankedInput) -> None:
    price = note("euros", "€/1,000: so much", metrics=["cost_eur"])
    queue = note("not_logged", "queries: not logged", ["vote"], ["queries"])
    both = note("few", "€/1,000 and queries: few", metrics=["queries", "cost_eur"])
    gone = warning("gone", "device_s: half is gone", metrics=["device_s"])
    table = ranked_table(replace(results, notes=(price, queue, both, gone)))
    assert table.below[-3:-1] == (str(price), str(both))
    assert table.above == ()
    wide, narrow = (" ".join(table.terminal(width).split()) for width in (200, 100))
    assert str(price) in wide
    assert str(price) not in narrow  # the column is dropped for want of width
    assert "Δ points: difference" in narrow  # of its two columns one is left


def test_the_last_line_says_what_the_table_says(results: RankedInput) -> None:
    """Two others are not told apart from the leader, which is itself the cheapest shown to be within a point."""
    leads = "`stop[margin=0.2]` has the best accuracy, 70.5 % [67.5, 73.5]"
    against = "; +0.5 [−0.9, +2.0] points against `best of 4`"
    below = ranked_table(results).below[-1]
    assert below.startswith(f"{leads}{against}. ")
    ties = ["2", "500"]
    assert numbers(below.removeprefix(f"{leads}{against}. ")) == [*ties, "1", "0.2", "+0.5", "−0.6", "1,500", "2,000"]
    assert numbers(main_finding(replace(results, baseline=None)).removeprefix(leads)) == ties
    alone = results.ranks.with_columns(ties=pl.when(pl.col("ties").is_not_null()).then(pl.lit(value=False)))
    apart = main_finding(replace(results, ranks=alone, within=None))
    assert numbers(apart.removeprefix(f"{leads}{against}. ")) == ["500"]
    assert main_finding(replace(results, leader=None, within=None)) is None
    value = next(row.corrected.estimate for row in rank(corrected(results)) if row.leads)
    assert f" ({100 * value:.1f} % corrected " in str(main_finding(corrected(results)))


def test_policies_with_equal_estimates_share_the_best(results: RankedInput) -> None:
    summary, leader = results.summary, str(results.leader)
    [best] = summary.filter(policy=leader, metric="accuracy")["estimate"]
    others = [row.policy.name for row in rank(results) if row.quality and not row.leads and not row.policy.diagnostic]
    for count in (1, 2, 3):
        here = (pl.col("metric") == "accuracy") & pl.col("policy").is_in(others[:count])
        same = summary.with_columns(estimate=pl.when(here).then(best).otherwise("estimate"))
        [first, *_] = best_policy_sentences(replace(results, summary=same))
        named = re.findall(r"`([^`]+)`", first.split(" %")[0])
        assert named[0] == results.display_names[leader]
        assert len(named) == 1 + min(count, 2)
        assert {*named[1:]} <= {results.display_names[name] for name in others[:count]}
        assert ("1 other" in first) == (count == 3)


def test_a_choice_by_estimates_comes_second_with_the_questions_that_would_decide(results: RankedInput) -> None:
    needed = NeededQuestions(3_000, 1_200, None)
    none = replace(results, margin=0.02, within=lambda: WithinMargin(0.02, None, None, "stop[margin=0.1]", needed))
    first, second = cheapest_policy_sentences(none)
    assert (code_of(first), code_of(second)) == ("none_within", "by_estimates")
    quotes(first, " 2 points ", "`best of 4`")
    quotes(second, " `stop[margin=0.1]`, −2.0 [−5.0, +1.0] points, for 1,100 ")
    assert second.endswith(f"; {needed.number_text} would decide.")
    neither = replace(none, within=lambda: WithinMargin(0.02, None, None, None, None))
    assert len([*cheapest_policy_sentences(neither)]) == 2  # no number of questions would decide, which is said
    unlike = replace(none, notes=(warning(UNLIKE_CALLS, "calls differ"),))
    assert [*cheapest_policy_sentences(unlike)] == []  # such costs are not compared


def test_sentences_are_for_people_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the notes say, numbers, rows and columns are the same, and so is which notes there are."""
    nothing = np.full(4, np.nan)
    values = {
        "correct": np.array([[1.0, 1, 0, np.nan], [1, 0, 1, 1]]),
        "total_tokens": np.array([[1.0, 2, 3, 4], [4, 3, 2, 1]]),
        "latency_s": np.array([[1.0, 2, 3, 4], [1, 1, np.nan, 1]]), "queries": np.array([nothing, [1, 1, 1, 1]]),
    }  # fmt: skip
    block = OutcomeBlock(np.array(list("wxyz"), object), np.arange(4), values)

    def made() -> RankedInput:
        found = summarise(lambda: iter([block]), ["a", "b"], baseline="a", settings=Settings(50, method="bca"))
        policies = (PolicyRow("a"), PolicyRow("b"))
        leader = found.leader
        return RankedInput(
            found.summary, found.comparisons, policies, 4, baseline="a", leader=leader, notes=found.notes
        )

    told = made()
    real = Note.__init__
    monkeypatch.setattr(Note, "__init__", lambda self, code, text, *rest, **more: real(self, code, "x", *rest, **more))
    untold = made()
    assert {note.text for note in untold.notes} == {"x"}
    assert len({note.text for note in told.notes}) > 3
    assert [replace(note, text="x") for note in told.notes] == list(untold.notes)
    assert untold.summary.equals(told.summary)
    assert untold.comparisons.equals(told.comparisons)
    ours, theirs = ranked_table(told), ranked_table(untold)
    assert (theirs.columns, theirs.rows, theirs.strong, theirs.faint) == (
        ours.columns,
        ours.rows,
        ours.strong,
        ours.faint,
    )
    assert len(theirs.below) == len(ours.below)
    assert theirs.csv() == ours.csv()


def with_metric(results: RankedInput, metric: str, values: dict[str, float]) -> RankedInput:
    """The same run with another metric of some policies."""
    rows = [(name, metric, value, value, value, 200, "percentile") for name, value in values.items()]
    more = pl.DataFrame(rows, schema=results.summary.schema, orient="row")
    return replace(results, summary=pl.concat([results.summary, more]))


def test_the_cost_that_is_asked_for_is_shown_and_spans_the_front(results: RankedInput) -> None:
    seconds = {"best of 4": 1.0, "vote": 2.0, "first": 3.0, "stop[margin=0.1]": 4.0, "stop[margin=0.2]": 5.0}
    timed = replace(with_metric(results, "latency_s", seconds), by_cost="seconds")
    assert timed.cost_column.name == "latency_s"
    # best of 4 is 1.0 s at .70; only stop .2 at .705 is better
    assert [name for name, row in by_name(timed).items() if row.on_front] == ["stop[margin=0.2]", "best of 4"]
    assert line_of(ranked_table(timed), "Pareto ●").endswith("seconds.")
    assert {point.name: point.cost for point in frontier_points(timed)} == seconds  # the diagnostic has none
    figure = frontier_figure(timed)
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes] == [find("latency_s").axis_label]


@pytest.mark.parametrize("name", ["€", "cost_eur"])
def test_euros_are_shown_and_drawn_per_thousand(results: RankedInput, name: str) -> None:
    priced = replace(results, by_cost=name)
    assert {row.on_front for row in rank(priced)} == {row.on_front for row in rank(results)}  # tokens / 10⁷
    assert line_of(ranked_table(priced), "Pareto ●").endswith("€/1,000.")
    assert next(p.cost for p in frontier_points(priced) if p.name == "vote") == pytest.approx(0.12)
    figure = frontier_figure(priced)
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes] == ["€ per 1,000 examples"]


def test_small_costs_are_told_apart(results: RankedInput) -> None:
    tiny = with_metric(results, "device_s", {"first": 2e-10, "vote": 1e-10})
    assert [name for name, row in by_name(replace(tiny, by_cost="device_s")).items() if row.on_front] == ["vote"]


def test_a_cost_without_a_heading_can_be_asked_for(results: RankedInput) -> None:
    made = replace(with_metric(results, "rounds", {"vote": 1.5}), by_cost="rounds")
    assert "rounds" in [column.name for column in ranked_table(made).columns]
    assert "rounds" not in [column.name for column in ranked_table(results).columns]


def test_an_unknown_cost_is_named_with_the_nearest(results: RankedInput) -> None:
    with refuses("unknown", "`token`", "`tokens`"):
        ranked_table(replace(results, by_cost="token"))


def test_operations_say_what_they_are(results: RankedInput) -> None:
    counted = with_metric(results, "operations", dict.fromkeys(["vote", "first"], 4.0))
    assert line_of(ranked_table(replace(counted, by_cost="operations")), "operations:")
    assert not any(note.startswith("operations") for note in ranked_table(counted).below)


def test_completion_tokens_stand_for_tokens_that_nobody_has(results: RankedInput) -> None:
    names = ["best of 4", "vote", "first", "stop[margin=0.1]", "stop[margin=0.2]", "any of 4"]
    written = with_metric(results, "completion_tokens", {name: 10.0 * i for i, name in enumerate(names)})
    headings = [column.name for column in ranked_table(written).columns]
    assert (written.cost_column.name, "completion tokens" in headings) == ("total_tokens", False)
    nowhere = replace(written, summary=written.summary.filter(pl.col("metric") != "total_tokens"))
    table = ranked_table(nowhere)
    assert nowhere.cost_column.name == "completion_tokens"
    assert [column.name for column in table.columns][3:5] == ["completion tokens", "calls"]
    assert line_of(table, "Pareto ●").endswith("completion tokens.")
    assert line_of(table, "completion tokens:")
    figure = frontier_figure(nowhere)
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes] == [find("completion_tokens").axis_label]
    # of one policy alone they do not rank, but are shown in place of a column of dashes
    one = replace(nowhere, summary=nowhere.summary.filter((metric_is("completion_tokens") & is_first()).not_()))
    assert one.cost_column.name == "calls"
    assert [column.name for column in ranked_table(one).columns][3:5] == ["completion tokens", "calls"]


def metric_is(metric: str) -> pl.Expr:
    return pl.col("metric") == metric


def is_first() -> pl.Expr:
    return pl.col("policy") == "first"


def test_traces_have_a_column_where_they_are_known(results: RankedInput) -> None:
    made = with_metric(results, "traces", {"vote": 4.0})
    assert [c.name for c in ranked_table(made).columns][3:6] == ["tokens", "calls", "traces"]


def test_names_for_one_column() -> None:
    """As papers have them; two that would be one stay as they are called."""
    called = {
        "a": "small, then big where conf is low[gate.below=0.67]",
        "b": "small, then big: majority@4 where unsure",
        "c": "adaptive consistency 0.95",
        "d": "best of 8 by rm",
        "e": "majority@8",
    }
    short = ["A→B conf .67", "A→B: maj@4 unsure", "AC .95", "BoN@8 (rm)", "maj@8"]
    assert [*paper_names(called)[0].values()] == short
    assert paper_names({"a": called["a"]}) == ({"a": "small→big .67"}, "small→big x: big where small's conf < x.")
    same = {"a": "majority@8", "b": "maj@8"}
    assert paper_names(same) == (same, "")


@pytest.mark.parametrize("sweep", seeds(1, ["[gate.below=-0.5]", "[below=-0.5]"]))
def test_long_names_of_pools_are_letters_in_one_column(sweep: str) -> None:
    called = {
        "a": f"gpt-4o-mini, then gpt-4o where sum_logprob is low{sweep}",
        "b": f"gpt-4o-mini, then gpt-4o: majority@4 where sum_logprob is low{sweep}",
        "c": "gpt-4o: one sample (mean)",
        "d": "gpt-4o-mini",
        "e": "any of 2 pools",
        "f": f"gpt-4o-mini, then majority@8 where sum_logprob is low{sweep}",
    }
    names, key = paper_names(called)
    assert [*names.values()] == [
        "A→B −.5", "A→B: maj@4 −.5", "B: one sample", "gpt-4o-mini", "any of 2 pools", "A→maj@8 −.5"
    ]  # fmt: skip
    assert key == "A: gpt-4o-mini, B: gpt-4o. A→B x: B where A's sum_logprob < x."


def test_short_names() -> None:
    sweep = [PolicyRow(f"ac[stop.confidence={x}]", "ac", 2, swept=(("stop.confidence", x),)) for x in (0.1234567, 0.5)]
    assert list(short_names(sweep).values()) == [policy.name for policy in sweep]
    assert list(short_names(sweep, always=True).values()) == ["ac[confidence=0.1235]", "ac[confidence=0.5]"]
    labelled = [replace(policy, label="AC") for policy in sweep]
    assert list(short_names(labelled).values()) == ["AC[0.1235]", "AC[0.5]"]
    near = [PolicyRow(f"ac[a.b={x}]", "ac", 2, swept=(("a.b", x),), label="AC") for x in (0.100001, 0.100002)]
    assert list(short_names(near).values()) == ["AC[a.b=0.100001]", "AC[a.b=0.100002]"]
    two = PolicyRow("ac[a.b=1, c=x]", "ac", 2, swept=(("a.b", 1), ("c", "x")), label="AC")
    assert two.short_label(always=False) == "AC[b=1, c=x]"
    assert PolicyRow("long name", label="LN").short_label(always=False) == "LN"
