"""Gates beside each other in the study of thinking again: whose they are, what they gain, and what is fitted where.

Slow, because gates are fitted on two data sets; `tests/replay/test_gate_sets.py` has the quick ones.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from generate.simulation.recovery import RecoveryModel, _recovery_tables
from replay.analyses.recommend.recommend import DEARER_VOTE, EQUAL_VOTES
from replay.analyses.recommend.repair_examples import KINDS, MOST
from replay.gatefit.gate_set import CHEAP, CLASSIFIER, ELSEWHERE, GIVEN, RULE, TREES
from replay.studies.recovery.figures import FEWEST, FIGURES
from replay.studies.recovery.report import _report_of, study_recovery
from replay.studies.recovery.study import DatasetStudy
from replay.studies.recovery.tables import SAVED, comparisons, tables
from tests.errors import refuses, remarked
from tests.logs import sealed
from thinkback.app import app
from toolkit.log import Log
from toolkit.show import Table

pytestmark = pytest.mark.slow
PERFECT = "fix:active_verify:perfect"
"""A verifier that knows which answers active verification repairs."""


def two_sets() -> dict[str, pl.DataFrame]:
    """1,200 examples of two data sets, `easy` and `hard`, with two actions and a perfect classifier of repairs.

    Two verifiers are of no action. Of `hard`, continuing is always wrong, so that the best action is another one.
    """
    names = _recovery_tables(1200, 11, RecoveryModel(votes=3))
    number = pl.int_range(pl.len()) % 2
    named = pl.when(number == 0).then(pl.lit("easy")).otherwise(pl.lit("hard"))
    examples = names["examples"].with_columns(dataset=named)
    hard = pl.col("example_id").is_in(examples.filter(dataset="hard")["example_id"].implode())
    spoilt = hard & (pl.col("action") == "continue")
    traces = (
        names["traces"]
        .filter(pl.col("action") != "self_correct")
        .with_columns(
            answer=pl.when(spoilt).then(pl.lit("none of these")).otherwise("answer"),
            correct=pl.when(spoilt).then(pl.lit(value=False)).otherwise("correct"),
        )
    )
    first = traces.filter((pl.col("pool") == "short") & (pl.col("sample_index") == 0))
    repaired = (
        traces.filter(action="active_verify").group_by("parent_id").agg(right=pl.col("correct").mean())
        .join(first, left_on="parent_id", right_on="trace_id")
        .select(trace_id="parent_id", example_id="example_id",
                score=pl.when("correct").then(0.0).otherwise(0.9 * pl.col("right") + 0.05))
    )  # fmt: skip
    scores = pl.concat([
        repaired.with_columns(verifier=pl.lit(name)) for name in (PERFECT, "fix:unheard_of", "fixed")
    ]).with_columns(pl.col("score").cast(pl.Float32))  # fmt: skip
    return names | {"examples": examples, "traces": traces, "verifications": scores}


log = sealed(two_sets, simulated=True)


@pytest.fixture(scope="module")
def own(log: Log) -> dict[str, DatasetStudy]:
    return {study.dataset: study for study in study_recovery(log, resamples=10).parts}


def column(table: Table, name: str) -> list[object]:
    place = [one.key or one.name for one in table.columns].index(name)
    return [row[place] for row in table.rows]


def test_each_data_set_has_its_own_action_gates_and_thresholds(own: dict[str, DatasetStudy]) -> None:
    assert own["hard"].roles.action == "active_verify"
    assert set(own["hard"].screening["dataset"]) == {"hard"}
    assert "selective continue" not in own["hard"].policies  # nothing that it could repair
    for name, study in own.items():
        gate = study.roles.gates["active_verify"]
        assert (gate.part, gate.fitted_on) == (CHEAP, name)
        assert f"dataset = '{name}'" in gate.file.content["tuned_on"]["where"]
    first, second = (study.roles.gates["active_verify"].file for study in own.values())
    assert first.threshold != second.threshold


def test_gates_stand_beside_each_other_paired_with_the_cheap_one(own: dict[str, DatasetStudy]) -> None:
    """A perfect gate repairs all that active verification can and spoils nothing: its rows by hand."""
    study = own["hard"]
    base, always, cheap = (
        study.values(name) for name in ("base: short", "always active_verify", "selective active_verify")
    )
    table = tables([study])["gates"]
    rows = dict(zip(column(table, "gate"), table.rows, strict=True))
    keys = [one.key or one.name for one in table.columns]
    assert {"cheap features", PERFECT, f"{CHEAP} of easy", "difficulty"} <= set(rows)
    assert not {"fix:unheard_of", "fixed"} & set(rows)
    perfect = dict(zip(keys, rows[PERFECT], strict=True))
    assert perfect["accuracy"] == pytest.approx(base["correct"].mean() + always["fix"].mean())
    assert perfect["intervention_rate"] == pytest.approx((always["fix"] > 0).mean())
    assert perfect["auroc"] == pytest.approx(1.0, abs=0.05)
    assert perfect["minus_cheap"].estimate == pytest.approx(
        base["correct"].mean() + always["fix"].mean() - cheap["correct"].mean()
    )
    assert dict(zip(keys, rows["cheap features"], strict=True))["minus_cheap"] is None
    parts = {gate.label: gate.part for gate in study.gates}
    assert (parts[PERFECT], parts["difficulty"], parts[f"{CHEAP} of easy"]) == (CLASSIFIER, RULE, ELSEWHERE)


def test_a_gate_of_another_data_set_is_frozen(own: dict[str, DatasetStudy]) -> None:
    there = own["easy"].roles.gates["active_verify"].file
    moved = next(gate for gate in own["hard"].gates if gate.part == ELSEWHERE and gate.action == "active_verify")
    assert (moved.file.sha256, moved.fitted_on) == (there.sha256, "easy")


@pytest.mark.slow
def test_pooled_gates_are_of_both_and_say_so(log: Log, own: dict[str, DatasetStudy]) -> None:
    studies = study_recovery(log, resamples=20, pooled=True, action="active_verify").parts
    gates = [study.roles.gates["active_verify"] for study in studies]
    assert {gate.fitted_on for gate in gates} == {"easy, hard"}
    assert len({gate.file.threshold for gate in gates}) == 1
    assert not any(gate.part == ELSEWHERE for study in studies for gate in study.gates)
    assert set(column(tables(studies)["screening"], "screened_on")) == {"easy, hard"}


def test_gates_always_acting_and_votes_are_paired_for_every_action(own: dict[str, DatasetStudy]) -> None:
    study = own["easy"]
    found = {(one.first, one.second, one.metric) for one in comparisons(study)}
    for action in study.names.selective:
        for metric in ("correct", "flip", SAVED):
            assert (f"selective {action}", f"always {action}", metric) in found
    vote = list(study.names.samples)[-1]
    assert (vote, study.names.primary, "total_tokens") in found
    assert vote == "self-consistency@3: votes"


def test_a_vote_of_equal_tokens_is_weighed(own: dict[str, DatasetStudy]) -> None:
    """The largest one that costs no more than a gated policy; one vote more would cost more."""
    study = own["easy"]
    spent = {name: study.values(name)["total_tokens"].mean() for name in study.names.samples}
    sizes = {size: spent[name] for name, size in study.names.samples.items()}
    paid = study.values(study.names.primary)["total_tokens"].mean()
    equal = max((size for size, tokens in sizes.items() if tokens <= paid), default=0)
    told = [one for one in study.recommendation.evidence if one.verdict == "vote"]
    assert bool(told) == bool(equal)
    remarked(study.recommendation.sentences, DEARER_VOTE)


def test_every_intervention_has_a_paired_row_with_the_vote_for_as_many_tokens(own: dict[str, DatasetStudy]) -> None:
    """Gates, always acting, the rule and the gates beside: by hand, the largest vote that costs no more."""
    study = own["easy"]

    def spent(policy: str) -> float:
        return float(study.values(policy)["total_tokens"].mean())

    rows = {(one.second, one.first) for one in comparisons(study) if one.metric == "correct"}
    acting = [name for name in study.policies if name.startswith(("always", "selective", "difficulty", "boosted"))]
    assert len(acting) > 2 * len(study.roles.actions)
    votes = sorted(study.names.samples, key=spent)
    assert min(study.names.samples.values()) == 1
    for policy in (*acting, "truncation only"):
        affordable = [vote for vote in votes if spent(vote) <= spent(policy)]
        assert affordable
        assert (policy, affordable[-1]) in rows
    weighed = [one.sentence for one in study.recommendation.evidence if one.verdict == "vote"]
    for policy in (*study.names.always.values(), *study.names.selective.values(), "truncation only"):
        assert any(f"against `{policy}`, at" in sentence for sentence in weighed), policy
    assert EQUAL_VOTES in study.recommendation.sentences


def test_trees_and_rules_stand_beside_every_actions_cheap_gate(own: dict[str, DatasetStudy]) -> None:
    """Those of the action that is not gated first, too; what they take more in tokens is paired."""
    study = own["easy"]
    table = tables([study])["gates"]
    keys = [one.key or one.name for one in table.columns]
    rows = {(row[1], row[2]): dict(zip(keys, row, strict=True)) for row in table.rows}
    for action in study.names.selective:
        found = rows[action, "difficulty"]
        rule = next(gate.policy for gate in study.gates if (gate.action, gate.label) == (action, "difficulty"))
        tokens = [study.values(one)["action_tokens"].mean() for one in (rule, study.roles.cheap_gate(action))]
        assert found["action_tokens"] == pytest.approx(tokens[0])
        assert found["action_tokens_minus_cheap"].estimate == pytest.approx(tokens[0] - tokens[1])
        assert (found["brier"], found["ece"]) == (None, None)  # it is no probability
        assert rows[action, "cheap features"]["brier"] is not None
    assert len([gate for gate in study.gates if gate.part == RULE]) >= 2 * len(study.names.selective)
    assert not {"difficulty", "verification need"} & set(column(tables([study])["calibration"], "gate"))


def test_trees_are_fitted_for_every_action(own: dict[str, DatasetStudy]) -> None:
    pytest.importorskip("xgboost")
    study = own["easy"]
    assert {gate.action for gate in study.gates if gate.part == TREES} == set(study.names.selective)


def test_the_policy_that_decides_has_one_name_and_stands_everywhere(own: dict[str, DatasetStudy]) -> None:
    study = own["easy"]
    made = tables([study])
    for name in ("budget_matched", "paired", "tokens", "prices", "seconds", "joint_frontier"):
        assert "truncation only" in column(made[name], "policy"), name
    assert f"short + {study.roles.action} when truncated" not in study.policies
    assert set(column(made["joint_frontier"], "policy")) <= set(study.policies)
    figure = FIGURES["cost_accuracy"].shows(study)
    assert any("truncation only" in str(point) for point in figure)


def test_regret_of_what_is_on_the_front_is_none(own: dict[str, DatasetStudy]) -> None:
    table = tables([own["easy"]])["joint_frontier"]
    found = list(zip(column(table, "on_front"), column(table, "regret"), strict=True))
    assert {(one.estimate, one.low, one.high) for front, one in found if front} == {(0.0, None, None)}
    assert any(one.low is not None for front, one in found if not front)


def test_the_report_says_what_was_replayed(own: dict[str, DatasetStudy]) -> None:
    studies = list(own.values())
    made = _report_of(studies, [], "made", 3.3)
    undecided = [study for study in studies if study.recommendation.verdict == "undecided"]
    assert sum(f"  {study.recommendation.meaning}" in made.lead for study in undecided) == len(undecided)
    remarked([line for lines in made.words.values() for line in lines], "action", "`active_verify`", "`screening`")
    for name, study in own.items():
        kept = made.record["datasets"][name]
        assert kept["log"]["sha256"] == study.result.provenance["log"]["sha256"]
        assert (kept["on"], kept["tune"]) == ("split = 'train'", "split = 'dev'")
        assert (kept["action"], kept["seed"], kept["votes"]) == (study.roles.action, 0, {"votes": [1, 3]})
        assert {gate["policy"] for gate in kept["gates"]} == {gate.policy for gate in study.gates}
    assert _report_of(studies[:1], [], "made").record["study"] == "recovery"


def test_figures_are_as_wide_as_is_asked(own: dict[str, DatasetStudy], log: Log) -> None:
    figures = _report_of([own["hard"]], [], "made", 3.3).figures
    assert figures
    assert all(figure.get_figwidth() <= 3.3 for figure in figures.values())
    with refuses("invalid", "`1in`", "2.5", "20"):
        study_recovery(log, width="1in")


def test_screened_on_is_shown_where_it_is_another_data_set(own: dict[str, DatasetStudy]) -> None:
    assert "screened on" not in [one.name for one in tables(list(own.values()))["screening"].columns]
    study = own["hard"]
    other = replace(study, screening=study.screening.with_columns(dataset=pl.lit("easy, hard")))
    assert set(column(tables([other])["screening"], "screened_on")) == {"easy, hard"}


def test_cases_are_the_first_of_their_kind(own: dict[str, DatasetStudy]) -> None:
    study = own["hard"]
    action, ids = study.roles.action, np.array(study.result.examples["example_id"])
    always, gated = study.values(f"always {action}"), study.values(study.names.primary)
    cases = [case for case in study.cases if case.action == action]
    fixed = [case for case in cases if case.kind == "fixed"]
    expected = ids[(always["fix"] > 0) & (gated["intervened"] > 0)][:MOST]
    assert [case.example_id for case in fixed] == list(expected)
    assert all(case.revised_answer == case.gold != case.base_answer for case in fixed)
    flipped = [case for case in cases if case.kind in ("flipped", "avoided flip")]
    assert flipped
    assert all(case.base_answer == case.gold != case.revised_answer for case in flipped)
    assert {case.kind for case in study.cases} <= set(KINDS)
    assert {case.action for case in study.cases} == set(study.roles.actions)  # not of the primary one alone


def test_calibration_is_of_bins_with_enough_examples(own: dict[str, DatasetStudy]) -> None:
    table = tables([own["hard"]])["calibration"]
    assert all(count >= 20 for count in column(table, "examples"))
    gates = zip(column(table, "action"), column(table, "gate"), column(table, "examples"), strict=True)
    assert sum(count for action, gate, count in gates if (action, gate) == ("active_verify", PERFECT)) == len(
        own["hard"].result.examples
    )
    assert all(cell.low <= cell.estimate <= cell.high for cell in column(table, "repaired"))


@pytest.mark.parametrize("width", [3.3, 6.75])
def test_thresholds_are_marked_in_figures_of_either_width(width: float, own: dict[str, DatasetStudy]) -> None:
    study = own["hard"]
    rate = 100 * study.values(study.names.primary)["intervened"].mean()
    for name in ("threshold_sweep", "flips_among"):
        figure = FIGURES[name].draw_for(study, width)
        assert figure is not None
        assert figure.get_figwidth() <= width
        for axes in (one for one in figure.axes if one.get_visible()):
            assert any(list(line.get_xdata()) == pytest.approx([rate, rate]) for line in axes.get_lines()[1:])
    calibration = FIGURES["calibration"].draw_for(study, width)
    assert calibration is not None
    assert calibration.get_figheight() < 9


def test_flips_among_begin_where_enough_are_acted_on(own: dict[str, DatasetStudy]) -> None:
    study = own["hard"]
    (panel,) = FIGURES["flips_among"].shows(study)
    assert min(panel.x) * study.result.statistics.n / 100 >= FEWEST
    assert len(panel.x) == len(panel.estimate) == len(panel.high) > 1


def test_a_sweep_that_flips_nothing_has_no_empty_panel(own: dict[str, DatasetStudy]) -> None:
    study = own["hard"]
    assert study.band is not None
    never = pl.col("metric").is_in(["flip_rate", "flips_among"])
    band = study.band.with_columns(
        pl.when(never & pl.col("estimate").is_not_null()).then(0.0).otherwise("estimate").alias("estimate")
    )
    harmless = replace(study, band=band)
    assert [panel.label for panel in FIGURES["threshold_sweep"].shows(harmless)] == ["accuracy, %", "tokens"]
    assert FIGURES["flips_among"].draw_for(harmless) is None
    told = _report_of([harmless], [], "made").lead
    remarked(told, "no_figure", "hard", "`threshold_sweep`", "flips")


@pytest.mark.slow
def test_several_gate_files_stand_beside_the_fitted_ones(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("toolkit.show.document.FORMATS", ("svg",))
    fit = ["fit-gate", log.address, "--action", "active_verify", "--tune", "split='dev'"]
    kinds = {"one": ["--on", "split='train'"], "two": ["--kind", "score", "--features", f"verifier:{PERFECT}"]}
    for name, kind in kinds.items():
        assert CliRunner().invoke(app, [*fit, *kind, "--out", f"{name}.json"]).exit_code == 0
    words = ["study", "recovery", log.address, "--out", "o", "--resamples", "20"]
    done = CliRunner().invoke(app, [*words, "--gate", "one.json", "--gate", "two.json"])
    assert done.exit_code == 0, done.output
    frame = pl.read_csv(tmp_path / "o" / "gates.csv").filter(action="active_verify")
    for name in ("easy", "hard"):
        assert {"one.json", "two.json", "cheap features", PERFECT} <= set(frame.filter(dataset=name)["gate"])
    assert (tmp_path / "o" / "examples.md").read_text().startswith("> **Simulated")
    found = study_recovery(log, resamples=20, gates=["one.json", "two.json"]).parts[0]
    assert [gate.part for gate in found.gates if gate.action == "active_verify"][:3] == [GIVEN, CHEAP, GIVEN]
    assert found.roles.cheap("active_verify") == "selective active_verify: cheap features"
