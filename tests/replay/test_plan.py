"""How many questions, and samples of each, tell two policies apart: against plain arithmetic over permutations."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from replay import Sample
from replay.analyses.plan.plan import AS_LOGGED, IN_ONE_ORDER, plan
from replay.policies.base import Policy
from replay.runs.passes.logged_order import order_gain_notes
from tests.errors import refuses
from tests.logs import Trace, log, tables
from toolkit.log import Log, collect, write_log

QUESTIONS, SAMPLES = 60, 4
ONE, THREE = (Sample(name=f"majority@{k}", pool="p", max_traces=k, select="majority") for k in (1, 3))
FIRST, LAST = (Sample(name=name, pool=name, max_traces=1, select="first") for name in ("first", "last"))


def drawn() -> dict[str, list[Trace]]:
    rng = np.random.default_rng(5)
    return {f"e{n:02d}": [(str(rng.choice(["A", "A", "B"])), None) for _ in range(SAMPLES)] for n in range(QUESTIONS)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Log:
    pools = {"p": drawn(), "first": {name: rows[:1] for name, rows in drawn().items()}}
    pools["last"] = {name: rows[3:] for name, rows in drawn().items()}
    return log(tmp_path_factory.mktemp("plan"), pools, dict.fromkeys(drawn(), "A"))


def vote(answers: tuple[str, ...]) -> float:
    return float(max(answers, key=answers.count) == "A")


def differences(samples: int) -> np.ndarray:
    """Majority of three less one sample, of each question (Q,) in every order of the first so many traces (O,)."""
    rows = [[answer or "" for answer, _ in rows[:samples]] for rows in drawn().values()]
    return np.array([[vote(order[:3]) - vote(order[:1]) for order in permutations(one)] for one in rows])


def test_variances_are_those_over_all_permutations(made: Log) -> None:
    found = plan(made, "majority@3", "majority@1", [ONE, THREE])
    assert [(one.orders == IN_ONE_ORDER, one.samples) for one in found.designs] == [(True, 3), (False, 3), (False, 4)]
    assert all("all orders" in one.orders for one in found.designs[1:])
    one, few, every = (design.variance for design in found.designs)
    for variance, samples in ((few, 3), (every, 4)):
        assert variance.value == pytest.approx(differences(samples).mean(axis=1).var(ddof=1))
    # twenty of the 24 orders, drawn at random
    assert one.value == pytest.approx(differences(4).var(), rel=0.1)
    assert one.questions == QUESTIONS


def test_questions_costs_and_detectable_differences_of_a_design(made: Log) -> None:
    found = plan(made, "majority@3", "majority@1", [ONE, THREE], detect=5, power=0.9, level=0.9)
    for design, row in zip(found.designs, found.table.iter_rows(named=True), strict=True):
        needed = design.variance.questions_to_show(0.05, power=0.9, level=0.9)
        assert needed is not None
        assert (row["questions"], row["low"], row["high"]) == (needed.number, needed.low, needed.high)
        assert row["upper"]  # a pilot of 60
        assert row["detectable"] == pytest.approx(
            100 * (design.variance.detectable(QUESTIONS, power=0.9, level=0.9) or 0)
        )
        # each trace is a call of 15 tokens
        assert row["traces"] == row["calls"] == design.samples * row["questions"]
        assert row["total_tokens"] == pytest.approx(15 * row["traces"])
        assert row["price"] is None
    assert found.policies == ("majority@3", "majority@1")
    assert "5 points" in str(found)


def test_money_is_that_of_the_prices_given(made: Log, tmp_path: Path) -> None:
    models = collect(made.scan("traces", ["model"]), made)["model"].unique().to_list()
    (tmp_path / "prices.toml").write_text("[prices]\ncurrency = '€'\n" + "".join(f"'{one}' = 2\n" for one in models))
    found = plan(made, "majority@3", "majority@1", [ONE, THREE], detect=5, prices=tmp_path / "prices.toml")
    for row in found.table.iter_rows(named=True):
        assert row["price"] == pytest.approx(2e-6 * row["total_tokens"])
    assert "€" in [column.name for column in found.as_table().columns]


def test_prices_of_tokens_that_are_not_logged_are_said_with_the_cure(tmp_path: Path) -> None:
    rows = tables({"p": drawn()}, dict.fromkeys(drawn(), "A"))
    rows["traces"] = rows["traces"].drop("completion_tokens")
    made = write_log(tmp_path / "log", name="small", tables=rows)
    for price, unpriced in (("2", True), ("{ prompt = 2, completion = 0 }", False), ("0", False)):
        (tmp_path / "prices.toml").write_text(f"[prices]\ncurrency = '€'\nm = {price}\n")
        found = plan(made, "majority@3", "majority@1", [ONE, THREE], prices=tmp_path / "prices.toml")
        assert found.table["price"].is_null().all() == unpriced  # 0 is a price
        assert any("completion_tokens" in line for line in found.notes()) == unpriced
    assert not plan(made, "majority@3", "majority@1", [ONE, THREE]).unpriced


def test_the_curve_falls_and_crosses_the_difference_at_the_questions(made: Log) -> None:
    found = plan(made, "majority@3", "majority@1", [ONE, THREE], detect=5)
    for design, rows in zip(
        found.designs, found.curve.partition_by("orders", "samples", maintain_order=True), strict=True
    ):
        detectable = rows["detectable"].to_numpy()
        assert (np.diff(detectable) < 0).all()
        assert (rows["low"] <= rows["high"]).all()
        assert design.needed is not None
        assert ((detectable <= 5) == (rows["questions"] >= design.needed.number).to_numpy()).all()


def test_policies_over_all_orders_and_in_the_logged_one_are_planned_alike(made: Log) -> None:
    exact: list[Policy] = [one for policy in (ONE, THREE) if (one := policy.as_mean_over_all_orders()) is not None]
    plain, over = (plan(made, "majority@3", "majority@1", policies) for policies in ([ONE, THREE], exact))
    assert plain.table.equals(over.table)


def test_policies_without_another_order_are_taken_as_logged(made: Log) -> None:
    found = plan(made, "first", "last", [FIRST, LAST])
    assert [(one.orders, one.samples) for one in found.designs] == [(AS_LOGGED, 2)]  # one of each pool
    moves = [float(rows[0][0] == "A") - float(rows[3][0] == "A") for rows in drawn().values()]
    assert found.designs[0].variance.value == pytest.approx(np.var(moves, ddof=1))


def test_samples_are_those_of_all_pools_that_the_two_draw(made: Log) -> None:
    """Three of one pool, and the only one of another: four a question, which are also what is paid."""
    found = plan(made, "majority@3", "first", [THREE, FIRST])
    assert [one.samples for one in found.designs] == [4, 4, 5]
    assert [row["traces"] / row["questions"] for row in found.table.iter_rows(named=True)] == [4, 4, 5]


def test_strata_and_weights(made: Log) -> None:
    """A stratum a question set aside: V is that within, and of weighed questions that of the weighed."""
    plain = plan(made, "majority@3", "majority@1", [ONE, THREE])
    with refuses("unknown", "strata"):
        plan(made, "majority@3", "majority@1", [ONE, THREE], strata="nothing")
    alike = plan(made, "majority@3", "majority@1", [ONE, THREE], strata="dataset")
    assert plain.table.equals(alike.table)  # one data set


@pytest.mark.slow
def test_describe_says_the_same(shipped: Log) -> None:
    """In one order and over all, on all questions: what `describe` says of a pool is what a plan has."""
    rows = plan(shipped, "majority@8", "majority@4", where="true").table
    one, over = (f"{row['detectable']:#.2g} points" for row in (rows.row(0, named=True), rows.row(-1, named=True)))
    (detectable,) = [gain for gain in order_gain_notes(shipped) if gain.code == "detectable"]
    assert one in detectable.text
    assert over in detectable.text


def test_what_cannot_be_planned(made: Log, tmp_path: Path) -> None:
    pair = [ONE, THREE]
    with refuses("unknown", "majority@2"):
        plan(made, "majority@2", "majority@1", pair)
    with refuses("conflict", "majority@1"):
        plan(made, "majority@1", "majority@1", pair)
    for detect in (0, -1, 100):
        with refuses("invalid", "detect"):
            plan(made, "majority@3", "majority@1", pair, detect=detect)
    for power in (0.4, 1.0):
        with refuses("invalid", "power"):
            plan(made, "majority@3", "majority@1", pair, power=power)
    with refuses("invalid", "level"):
        plan(made, "majority@3", "majority@1", pair, level=1.5)
    with refuses("empty", "19"):
        plan(made, "majority@3", "majority@1", pair, where="example_id < 'e19'")
    sure = log(tmp_path, {"p": {name: [("A", None)] * 4 for name in drawn()}}, dict.fromkeys(drawn(), "A"))
    with refuses("empty", "majority@3", "majority@1"):
        plan(sure, "majority@3", "majority@1", pair)


def test_small_differences_have_no_number_that_anyone_could_ask(made: Log) -> None:
    found = plan(made, "majority@3", "majority@1", [ONE, THREE], detect=0.01)
    assert found.designs[0].needed is None
    assert found.table["questions"][0] is None
    assert "ten million" in str(found)
    assert found.as_table().terminal(100)


@pytest.mark.slow
def test_the_shipped_log(shipped: Log) -> None:
    """Over all orders fewer questions do than in one, and the more samples each, the fewer."""
    found = plan(shipped, "majority@8", "majority@4", where="split = 'test' and dataset = 'algebra_linear_1d'")
    questions = found.table["questions"].to_list()
    assert len(questions) == 3
    assert questions[0] > 2 * questions[1] > 4 * questions[2]
    assert not found.table["upper"].any()
    weighted = plan(shipped, "best of 8 by trained", "majority@8", where="split = 'test'", detect=2)
    assert (weighted.table["verifications"] == weighted.table["traces"]).all()


@pytest.fixture(scope="module")
def shipped() -> Log:
    from toolkit.log import open_log

    return open_log(Path(__file__).resolve().parents[2] / "data" / "log")
