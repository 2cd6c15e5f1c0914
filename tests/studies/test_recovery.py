"""The study of thinking again on made logs: one example set for all of it, and whose calls its tables count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from generate.simulation.recovery import RecoveryModel, _recovery_tables
from replay.runs.saved.provenance import PolicyRecord
from replay.studies.recovery.figures import FIGURES
from replay.studies.recovery.study import DatasetStudy, _study_dataset, choose_roles
from replay.studies.recovery.tables import RULES, comparisons, token_limit_text
from replay.studies.recovery.tables import tables as tables_of
from tests.errors import refuses, remarked
from tests.studies.recovery import asked, study
from toolkit.log import open_log, write_log
from toolkit.show import SIMULATED, code_of


def test_all_of_the_study_is_over_the_examples_that_its_run_compares(holed: DatasetStudy) -> None:
    compared = holed.result.statistics.n
    assert len(holed.result.excluded) == 1
    assert holed.cluster is not None
    assert len(holed.cluster) == compared
    assert {report.examples for report in holed.reports.values()} == {compared}
    frozen = holed.reports["selective active_verify"].rows.filter(rule="the gate, frozen").row(0, named=True)
    assert frozen["accuracy"] == pytest.approx(float(np.mean(holed.values("selective active_verify")["correct"])))
    assert holed.curve is not None
    ends = holed.curve["accuracy"][0], holed.curve["accuracy"][-1]
    assert ends == pytest.approx(
        [float(np.mean(holed.values(n)["correct"])) for n in ("base: short", "always active_verify")]
    )
    rate = float(np.mean(holed.values("selective active_verify")["intervened"]))
    assert f"matched random at rate {rate:.3f}" in holed.policies


def test_rules_are_explained_under_their_table(holed: DatasetStudy) -> None:
    notes = tables_of([holed])["rules_and_headroom"].below
    remarked(notes, "rules", *(f"{rule}: acts {meaning}" for rule, meaning in RULES.items()))
    bare = replace(holed, names=replace(holed.names, rules={"difficulty": "difficulty"}))
    assert "rules" not in map(code_of, tables_of([bare])["rules_and_headroom"].below)


def test_every_table_of_a_log_with_a_hole_can_be_made(holed: DatasetStudy) -> None:
    for name, table in tables_of([holed]).items():
        assert table.rows, name


def test_flips_among_those_acted_on_are_drawn_over_the_top_share(holed: DatasetStudy) -> None:
    """Equation 19: at 100 % the flip rate of always acting; at the frozen gate's rate its flips over that rate."""
    figure = FIGURES["flips_among"].draw_for(holed)
    assert figure is not None
    line = figure.axes[0].get_lines()[0]
    drawn = dict(zip(*np.round(np.asarray(line.get_xydata(), float).T, 9), strict=True))
    always, gated = (holed.values(f"{name} active_verify") for name in ("always", "selective"))
    assert drawn[100.0] == pytest.approx(100 * always["flip"].mean())
    rate = gated["intervened"].mean()
    assert drawn[round(100 * rate, 9)] == pytest.approx(100 * gated["flip"].mean() / rate)
    band = np.concatenate([np.asarray(path.vertices) for path in figure.axes[0].collections[0].get_paths()])[:, 1]
    bottom, top = figure.axes[0].get_ylim()
    assert bottom == 0
    assert band.max() <= top
    assert min(drawn) > 0  # where nobody is acted on there is no share
    assert SIMULATED.lower()[:9] in " ".join(text.get_text() for text in figure.texts).lower()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> DatasetStudy:
    """Every revision of `short` again as one of `long`, always with a finalizer of 1,000 tokens and cut off."""
    tables = _recovery_tables(600, 11, RecoveryModel(votes=3))
    traces = tables["traces"].with_columns(
        finalizer_used=pl.lit(True), finalizer_tokens=pl.when(pl.col("action") == "solve").then(10).otherwise(20)
    )
    long = traces.filter((pl.col("pool") == "long") & (pl.col("sample_index") == 0)).select("example_id", up="trace_id")
    again = traces.filter(pl.col("action") == "active_verify").join(long, on="example_id").with_columns(
        trace_id=pl.col("trace_id") + " of long", parent_id="up", pool=pl.lit("long revised"),
        finish_reason=pl.lit("length"),
        finalizer_tokens=pl.lit(1_000),
    )  # fmt: skip
    lost = (pl.col("action") == "continue") & (pl.col("sample_index") == 0)  # a finalizer without its tokens
    traces = pl.concat([traces, again.drop("up").cast(traces.schema)])
    tables["traces"] = traces.with_columns(finalizer_tokens=pl.when(~lost).then("finalizer_tokens"))
    return study(tables, tmp_path_factory.mktemp("crowded") / "log")


@pytest.mark.slow
def test_calls_are_counted_of_revisions_of_the_base_alone(crowded: DatasetStudy) -> None:
    row = crowded.screening.filter(action="active_verify").row(0, named=True)
    assert row["truncation_rate"] < 0.5
    assert set(crowded.finalizers["active_verify"]) == {20.0}
    assert set(crowded.finalizers["short"]) == {10.0}


@pytest.mark.slow
def test_unlogged_tokens_of_finalizers_are_unknown(crowded: DatasetStudy) -> None:
    assert np.isnan(crowded.finalizers["continue"]).all()
    tokens = tables_of([crowded])["tokens"]
    place = [column.key or column.name for column in tokens.columns].index("finalizer_tokens")
    shown = {row[1]: row[place] for row in tokens.rows}
    assert shown["always continue"] is None
    assert shown["always active_verify"] == pytest.approx(30.0)


def test_the_longest_budget_is_that_with_the_highest_limit(holed: DatasetStudy) -> None:
    """Named in any order; a published number stands beside a budget only where both limits are the paper's."""
    budgets = {"base-16384-t0.7": "budget: base-16384-t0.7", "long": "budget: long"}
    limits = {"short": 4096, "long": 8192, "base-16384-t0.7": 16384}
    named = replace(holed.names, budgets=dict(sorted(budgets.items(), key=lambda one: limits[one[0]])))
    summariser = holed.result.summariser
    more = (*summariser.policies, named_like(holed, "budget: base-16384-t0.7"))
    result = replace(holed.result, summariser=replace(summariser, policies=more))
    more = replace(holed, names=named, roles=replace(holed.roles, limits=limits), result=result)
    assert [token_limit_text(more, pool) for pool in ("long", "base-16384-t0.7")] == ["8192", "16384"]
    against = {(one.first, one.second): one.name for one in comparisons(more) if one.metric == "correct"}
    assert against["selective active_verify", "budget: base-16384-t0.7"].endswith("minus base 16384")
    assert against["budget: long", "base: short"] == "accuracy, base 8192 minus base 4096"
    other = replace(more, roles=replace(more.roles, limits={**limits, "short": 512}))
    assert token_limit_text(other, "long") == ""


def named_like(found: DatasetStudy, name: str) -> PolicyRecord:
    return replace(next(policy for policy in found.result.policies if policy.name == "budget: long"), name=name)


@pytest.mark.slow
def test_budgets_are_in_the_order_of_their_limits_and_sampled_as_the_base(tmp_path: Path) -> None:
    tables = _recovery_tables(300, 11, RecoveryModel(votes=3))
    long = tables["traces"].filter(pl.col("pool") == "long")

    def pool(name: str, tokens: int, temperature: float) -> pl.DataFrame:
        changed = {"max_tokens": pl.lit(tokens), "temperature": pl.lit(temperature), "pool": pl.lit(name)}
        trace = pl.col("trace_id") + f" {name}"
        frame = long.with_columns(trace_id=trace, **changed).cast({"max_tokens": long.schema["max_tokens"]})
        return frame.select(*tables["traces"].columns, "temperature")

    base = tables["traces"].with_columns(temperature=pl.lit(0.7))
    more = [pool("a-longest", 16_384, 0.7), pool("b-longer", 12_000, 0.7), pool("greedy", 12_000, 0.0)]
    tables["traces"] = pl.concat([base, *more])
    write_log(tmp_path / "log", name="made", tables=tables, simulated=True)
    log = open_log(tmp_path / "log")
    chosen = choose_roles(log, asked())
    assert chosen.roles.budgets == ("long", "b-longer", "a-longest")
    remarked(chosen.notes, "no_budgets", "`greedy`")
    assert choose_roles(log, asked(budgets=("a-longest", "greedy", "long"))).roles.budgets == (
        "long",
        "greedy",
        "a-longest",
    )


def test_a_gate_is_not_reported_on_questions_that_it_has_seen(tmp_path: Path) -> None:
    """From Python too, before anything is fitted."""
    write_log(tmp_path / "log", name="made", tables=_recovery_tables(400, 11, RecoveryModel(votes=3)), simulated=True)
    log = open_log(tmp_path / "log")
    gate = choose_roles(log, asked()).roles.gates["active_verify"].file
    with refuses("leakage", "`where`"):
        choose_roles(log, asked(gates=(gate,), where="split='dev'"))


@pytest.mark.slow
def test_of_several_pools_of_revisions_one_is_named(tmp_path: Path) -> None:
    """Every `active_verify` again in a second pool, always wrong and cut off; of `continue` there is one pool."""
    tables = _recovery_tables(300, 11, RecoveryModel(votes=3))
    traces = tables["traces"]
    again = traces.filter(pl.col("action") == "active_verify").with_columns(
        trace_id=pl.col("trace_id") + " again", pool=pl.lit("second"), finish_reason=pl.lit("length"),
        answer=pl.lit("none of these"), correct=pl.lit(value=False),
    )  # fmt: skip
    tables["traces"] = pl.concat([traces, again.cast(traces.schema)])
    write_log(tmp_path / "log", name="made", tables=tables, simulated=True)
    log, own = open_log(tmp_path / "log"), again["parent_id"][0]
    first = traces.filter((pl.col("parent_id") == own) & (pl.col("action") == "active_verify"))["pool"][0]
    with refuses("ambiguous", f"`{first}`", "`second`", "`pool`"):
        choose_roles(log, asked())
    with refuses("unknown", "`secnd`", "`second`"):
        choose_roles(log, asked(pools=("secnd",)))
    found = {}
    for pool in (first, "second"):
        changes = asked(pools=(pool,))
        chosen = choose_roles(log, changes)
        assert {gate.file.pool for action, gate in chosen.roles.gates.items() if action == "active_verify"} <= {pool}
        result = _study_dataset(log, chosen, changes, str(chosen.screening["dataset"][0]).split(", ")[0])
        row = chosen.screening.filter(action="active_verify").row(0, named=True)
        found[pool] = (row["accuracy"], row["truncation_rate"], result.values("always active_verify")["correct"].mean())
    assert found["second"] == (0.0, 1.0, 0.0)
    assert found[first][0] > 0.3
    assert found[first][1] < 1.0
    assert found[first][2] > 0.3


def test_no_action_is_chosen_on_the_examples_that_are_reported(tmp_path: Path) -> None:
    write_log(tmp_path / "log", name="made", tables=_recovery_tables(100, 11, RecoveryModel()), simulated=True)
    log = open_log(tmp_path / "log")
    with refuses("empty", "`action`"):
        choose_roles(log, asked(action=None, on="split='nothing'"))
    notes = choose_roles(log, asked(on="split='nothing'")).notes
    remarked(notes, "screened_on_reported")
