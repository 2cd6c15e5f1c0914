"""Whatever a public function or class is given wrongly is one line that names the argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import thinkback as tb
from generate.simulation.recovery import simulate_recovery
from tests.errors import refuses
from tests.logs import GOLDS, POOL, log, tables
from toolkit.arguments import checked_argument, checks_arguments
from toolkit.stats import settings_of

VOTE = tb.Sample(name="vote", max_traces=3, select="majority")
BEST = tb.Sample(name="best", max_traces=3, verifier="v")
FEW = tb.Settings(resamples=20)
GUIDED = tb.Sample(name="guided", max_traces=3, verifier="v", order="surrogate")


class Strange:
    """Of no kind that any argument takes."""

    def __repr__(self) -> str:
        return "<strange>"


FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "run": (tb.run, {"log": None, "policies": [VOTE]}),
    "tune": (
        tb.tune,
        {
            "log": None,
            "policies": [VOTE],
            "on": "example_id = 'e1'",
            "report": "example_id = 'e2'",
            "goal": "min traces",
        },
    ),
    "explain": (tb.explain, {"log": None, "policies": [VOTE], "policy": "vote", "example": "e1"}),
    "curves": (tb.curves, {"log": None}),
    "plan": (tb.plan, {"log": None, "first": "vote", "second": "best", "policies": [VOTE, BEST]}),
    "strategies": (tb.strategies, {"log": None}),
    "frontier": (tb.frontier, {"log": None}),
    "budgets": (tb.budgets, {"log": None, "verifier": "v", "max_traces": 2}),
    "recommend": (tb.recommend, {"log": None, "policies": [VOTE, BEST], "base": "vote", "budgets": "best"}),
    "fit_gate": (tb.fit_gate, {"log": None, "action": "verify"}),
    "fit_verifier": (tb.fit_verifier, {"log": "folder", "train_on": "true", "name": "v"}),
    "transfer_report": (tb.transfer_report, {"log": None, "gate": "gate.json"}),
    "surrogate_weights": (tb.surrogate_weights, {"log": None, "policy": GUIDED}),
    "report": (tb.report, {"log": None, "policies": [VOTE]}),
    "study_buzz": (tb.study_buzz, {"log": None}),
    "study_factcheck": (tb.study_factcheck, {"log": None}),
    "study_latent": (tb.study_latent, {"log": None}),
    "study_multihop": (tb.study_multihop, {"log": None}),
    "study_recovery": (tb.study_recovery, {"log": None}),
    "suite": (tb.suite, {"log": None}),
    "check_policies": (tb.check_policies, {"policies": [VOTE], "log": None}),
    "open_log": (tb.open_log, {"log": None}),
    "load_policies": (tb.load_policies, {"source": [VOTE]}),
    "load": (tb.load, {"address": "saved"}),
    "load_gate": (tb.load_gate, {"path": "gate.json"}),
    "load_verifier": (tb.load_verifier, {"path": "latent.json"}),
    "describe_log": (tb.describe_log, {"log": None}),
    "validate_log": (tb.validate_log, {"log": None}),
    "query_log": (tb.query_log, {"log": None, "sql": "SELECT 1"}),
    "import_table": (tb.import_table, {"sources": "samples.jsonl", "mapping": "map.toml", "out": "imported"}),
    "import_any": (tb.import_any, {"sources": "samples.jsonl", "out": "imported"}),
    "log": (tb.log, {"frame": {"gold": ["1"], "pred": ["1"]}}),
    "import_format": (tb.import_format, {"name": "auto", "sources": "samples.jsonl", "out": "imported"}),
    "simulate": (tb.simulate, {"out": "simulated", "examples": 2, "traces": 2}),
    "write_log": (tb.write_log, {"path": "written", "name": "n", "tables": {}}),
}
ARGUMENTS = [
    (name, argument.name)
    for name, (function, _) in FUNCTIONS.items()
    for argument in inspect.signature(function).parameters.values()
    if argument.kind is not inspect.Parameter.VAR_KEYWORD and argument.annotation != "Any"
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tb.Log:
    return log(tmp_path_factory.mktemp("small"), {"pool": POOL}, GOLDS)


def test_every_function_of_the_door_is_tried() -> None:
    assert set(FUNCTIONS) == {name for name in tb.__all__ if inspect.isfunction(getattr(tb, name))}


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_a_wrong_type_is_one_line_that_names_the_argument(name: str, argument: str, small: tb.Log) -> None:
    function, given = FUNCTIONS[name]
    right = {key: small if value is None else value for key, value in given.items()}
    with refuses("invalid", f"`{argument}`") as error:
        function(**right | {argument: Strange()})
    assert "\n" not in str(error.value)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"by": 3}, ("invalid", "`by`", "3")),
    ({"by": [3]}, ("invalid", "`by`", "[3]")),
    ({"where": 5}, ("invalid", "`where`", "5")),
    ({"resamples": "many"}, ("invalid", "`resamples`", "'many'")),
    ({"resamples": 2.5}, ("invalid", "`resamples`", "2.5")),
    ({"resamples": True}, ("invalid", "`resamples`")),
    ({"level": "95"}, ("invalid", "`level`", "'95'")),
    ({"level": 95}, ("invalid", "`level`", "95.0", "0", "1")),
    ({"baseline": 1}, ("invalid", "`baseline`", "1")),
    ({"metric": 1}, ("invalid", "`metric`", "1")),
    ({"strict": "yes"}, ("invalid", "`strict`", "'yes'")),
    ({"settings": {"resamples": 5}}, ("invalid", "`settings`", "`Settings`")),
    ({"settings": FEW, "seed": 1}, ("conflict", "`settings`", "`seed`")),
    ({"block_examples": 0}, ("invalid", "`block_examples`", "0", "1")),
    ({"log": 5}, ("invalid", "`log`", "5")),
    ({"policies": 5}, ("invalid", "`policies`", "5")),
    ({"policies": [5]}, ("invalid", "`policies`", "5")),
    ({"policies": b"x"}, ("invalid", "`policies`")),
    ({"rules": 5}, ("invalid", "`rules`", "5")),
    ({"rules": [5]}, ("invalid", "5")),
]


@pytest.mark.parametrize(("keys", "refusal"), WRONG)
def test_what_a_run_refuses(keys: dict[str, Any], refusal: tuple[str, ...], small: tb.Log) -> None:
    with refuses(*refusal):
        tb.run(**{"log": small, "policies": [VOTE]} | keys)


def test_numpys_numbers_and_lists_are_welcome(small: tb.Log) -> None:
    plain = tb.run(small, [VOTE], resamples=20, seed=3, level=0.9, by=("split",))
    keys = {"resamples": np.int64(20), "seed": np.uint8(3), "level": np.float32(0.9), "by": np.array(["split"])}
    found = tb.run(small, (one for one in [VOTE]), **keys, strict=np.bool_(True))
    assert found.provenance["resamples"] == 20
    assert found.provenance["level"] == pytest.approx(0.9)
    assert found.by_summary.select("policy", "estimate").equals(plain.by_summary.select("policy", "estimate"))
    whole = tb.run(small, VOTE, by="split", settings=tb.Settings(resamples=20, seed=3, level=0.9))
    assert whole.summary.equals(plain.summary)


def test_a_call_that_python_refuses_is_refused_by_python(small: tb.Log) -> None:
    with pytest.raises(TypeError, match="'basline'"):
        tb.run(small, [VOTE], basline="vote")
    with pytest.raises(TypeError, match="missing"):
        tb.run()


def test_settings_are_given_in_one_way() -> None:
    assert settings_of(None, seed=None, level=0.9) == tb.Settings(level=0.9)
    assert settings_of(FEW, seed=None) is FEW


def test_other_functions_take_settings_too(small: tb.Log) -> None:
    assert tb.curves(small, settings=FEW).equals(tb.curves(small, resamples=20))
    with refuses("conflict", "`settings`", "`level`"):
        tb.curves(small, settings=FEW, level=0.9)
    found = tb.budgets(small, verifier="v", max_traces=2, orders={"random": {"order": "random"}}, settings=FEW)
    assert found.result.provenance["resamples"] == 20


@checks_arguments(size="a size")
def example(size: int | None = None, *names: str, share: float = 0.5, free: Any = None, **more: int) -> tuple[Any, ...]:
    return size, names, share, free, more


def test_the_decorator_holds_arguments_to_their_annotations() -> None:
    strange = Strange()
    assert example(np.int8(3), "a", share=1, free=strange, other="x") == (3, ("a",), 1.0, strange, {"other": "x"})
    assert example() == (None, (), 0.5, None, {})
    with refuses("invalid", "`size`"):
        example("x")
    with refuses("invalid", "`share`"):
        example(share=None)
    assert example.__name__ == "example"


@pytest.mark.parametrize(
    ("given", "hint", "kept"),
    [
        (["a"], str | tuple[str, ...], ("a",)),
        ("a", str | tuple[str, ...], "a"),
        (Path("a"), str | Path, Path("a")),
        (None, str | None, None),
        (3, float, 3.0),
    ],
)
def test_values_are_kept_in_plain_types(given: Any, hint: Any, kept: Any) -> None:
    assert checked_argument("x", given, hint) == kept


# ---- what policies are built of ----

PROBE = tb.Sample(name="probe", pool="short", max_traces=1, select="first")
GATE = tb.Threshold(verifier="v", below=0.5)
MADE: dict[str, tuple[type, dict[str, Any]]] = {
    "Sample": (tb.Sample, {"name": "p", "max_traces": 3, "select": "majority"}),
    "Act": (tb.Act, {"name": "p", "action": "verify", "base": "short"}),
    "When": (tb.When, {"name": "p", "base": PROBE, "gate": GATE, "then": VOTE}),
    "Graded": (
        tb.Graded,
        {"name": "p", "base": PROBE, "verifier": "v", "thresholds": [0.5], "votes": [3], "then": VOTE},
    ),
    "Route": (tb.Route, {"name": "p", "route": tb.Router(column="c", below=1), "then": PROBE, "else_": VOTE}),
    "Oracle": (tb.Oracle, {"name": "p", "of": ["pool"]}),
    "Threshold": (tb.Threshold, {"verifier": "v", "below": 0.5}),
    "AnyOf": (tb.AnyOf, {"gates": [GATE]}),
    "AllOf": (tb.AllOf, {"gates": [GATE]}),
    "Router": (tb.Router, {"column": "c", "at_least": 1}),
    "Margin": (tb.Margin, {}),
    "Budget": (tb.Budget, {"traces": 3}),
    "Agreement": (tb.Agreement, {}),
    "AtLeast": (tb.AtLeast, {"score": 0.5, "verifier": "v"}),
    "Window": (tb.Window, {"size": 3}),
    "Says": (tb.Says, {"answer": "refuted"}),
    "Prior": (tb.Prior, {"model": "linear", "on": "true"}),
    "Calibration": (tb.Calibration, {"method": "platt", "on": "true"}),
    "Abandon": (tb.Abandon, {"verifier": "early@8", "tokens": 8, "below": 0.5}),
    "Conformal": (tb.Conformal, {"alpha": 0.1, "on": "true"}),
    "PolicyFile": (tb.PolicyFile, {"policies": [VOTE], "measure": "credit"}),
    "Settings": (tb.Settings, {}),
}
OURS = {"sweep", "sweep_size", "swept", "fit", "left_out"}  # what a sweep or a fit puts there
FIELDS = [
    (name, field)
    for name, (made, _) in MADE.items()
    for field in inspect.signature(made).parameters
    if field not in OURS
]


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_constructor_names_what_is_wrong(name: str, field: str) -> None:
    made, right = MADE[name]
    key = {"gates": "any|all"}.get(field, field.rstrip("_"))
    with pytest.raises(tb.ThinkbackError, match=f"`({key})`") as error:
        made(**right | {field: Strange()})
    assert "\n" not in str(error.value)


sample = partial(tb.Sample, name="p", max_traces=3, select="majority", verifier="v")
act = partial(tb.Act, name="p", action="verify", base="short")
gated = partial(tb.When, name="p", base=PROBE, then=VOTE)
TABLE = {"verifier": "v", "below": 0.5}
FIRST: dict[str, Any] = {"pool": "short", "max_traces": 1, "select": "first"}
FIRST_TABLE: dict[str, Any] = FIRST | {"kind": "sample"}
KEPT: list[tuple[object, object]] = [
    (sample(max_traces=np.int64(3), seed=np.int32(1)), sample(seed=1)),
    (sample(features=np.array(["a"])), sample(features=("a",))),
    (sample(features="a"), sample(features=("a",))),
    (sample(stop="margin"), sample(stop=tb.Margin())),
    (sample(stop={"rule": "window", "size": 2}), sample(stop=tb.Window(size=2))),
    (tb.Oracle(name="p", of="n16"), tb.Oracle(name="p", of=("n16",))),
    (tb.Oracle(name="p", of=np.array(["a", "b"])), tb.Oracle(name="p", of=["a", "b"])),
    (act(rollouts=np.int64(2)), act(rollouts=2)),
    (tb.Router(column="c", below=np.float32(0.5)), tb.Router(column="c", below=0.5)),
    (tb.Threshold(verifier="v", below=np.float64(0.5)), GATE),
    (tb.Margin(margin=np.float32(0.5)), tb.Margin(margin=0.5)),
    (tb.Budget(traces=np.uint8(3)), tb.Budget(traces=3)),
    (tb.AnyOf(GATE), tb.AnyOf([GATE])),
    (tb.AnyOf(gates=(table for table in [TABLE])), tb.AnyOf((GATE,))),
    (gated(gate=TABLE), gated(gate=GATE)),
    (gated(gate=GATE, base=FIRST_TABLE), gated(gate=GATE, base=tb.Sample(name="p: base", **FIRST))),
    (sample(max_traces=np.array(3)), sample()),
    (gated(gate={"any": [TABLE]}), gated(gate=tb.AnyOf([GATE]))),
    (tb.Route(**MADE["Route"][1] | {"route": {"column": "c", "below": 1}}), tb.Route(**MADE["Route"][1])),
]


@pytest.mark.parametrize(("given", "plain"), KEPT)
def test_constructors_keep_plain_values(given: object, plain: object) -> None:
    assert given == plain
    assert repr(given) == repr(plain)


ARRAYS = [
    np.array([0.1, 0.2]), np.array([]), np.array("x"), np.array(["x", "y"]), np.array([[1]]), pl.Series([0.1, 0.2]),
    pl.DataFrame({"a": [1, 2]}), pl.DataFrame(), pl.col("a"), [[1, 2], [3]], {1: 2}, float("nan"), b"x", object,
]  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_no_array_is_more_than_a_constructor_can_read(name: str) -> None:
    """It is taken, or refused in one line, whatever its truth value."""
    made, right = MADE[name]
    refused = []
    for field in inspect.signature(made).parameters:
        for given in ARRAYS:
            try:
                made(**right | {field: given})
            except tb.ThinkbackError as error:
                refused.append(str(error))
    assert refused
    assert not any("\n" in line for line in refused)


@pytest.mark.parametrize("given", [[0.2, 0.3], np.array([0.2, 0.3]), pl.Series([0.2, 0.3])])
def test_a_list_of_thresholds_says_what_to_give_in_python(given: Any) -> None:
    with refuses("invalid", "`below`", "10"):
        tb.Threshold(verifier="v", below=given)


def test_a_part_from_a_table_names_what_is_wrong_in_it() -> None:
    with refuses("unknown", "`p: base`", "`polo`", "`pool`"):
        gated(gate=GATE, base={"kind": "sample", "polo": "short"})
    with refuses("required", "`p: base`", "`kind`"):
        gated(gate=GATE, base={"pool": "short"})


NULL_BYTES: list[Callable[[tb.Log], Any]] = [
    lambda log: tb.run("a\0b", [VOTE]),
    lambda log: tb.run(log, "a\0b"),
    lambda log: tb.run(log, [VOTE], rules="a\0b"),
    lambda log: tb.open_log(Path("a\0b")),
    lambda log: tb.load("a\0b"),
    lambda log: tb.explain("a\0b", [VOTE], "vote", "e1"),
    lambda log: tb.curves("a\0b"),
    lambda log: tb.query_log("a\0b", "select 1"),
    lambda log: tb.load_gate("a\0b"),
    lambda log: tb.Threshold(file="a\0b"),
    lambda log: tb.run(log, [VOTE], resamples=5).save("a\0b"),
    lambda log: tb.write_log("a\0b", name="n", tables={}),
    lambda log: tb.simulate("a\0b", examples=2, traces=2),
    lambda log: tb.import_table("a\0b", "map.toml", "out"),
    lambda log: tb.fit_verifier("a\0b", train_on="true", name="v"),
]


@pytest.mark.parametrize("ask", NULL_BYTES)
def test_an_address_with_a_null_byte_is_one_line(ask: Callable[[tb.Log], Any], small: tb.Log) -> None:
    with refuses("invalid", "\\x00"):
        ask(small)


def test_a_class_in_place_of_a_rule_says_what_it_takes() -> None:
    with refuses("invalid", "`stop`", "`Margin`"):
        sample(stop=tb.Margin)


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"orders": {"x": 5}}, ("invalid", "`orders`", "'x'", "5")),
        ({"orders": {}}, ("invalid", "`orders`")),
        ({"orders": {"x": {"ordr": "random"}}}, ("unknown", "`ordr`", "`order`")),
        ({"surrogate": {"rigde": 1}}, ("unknown", "`rigde`", "`ridge`")),
        ({"budget": [3]}, ("invalid", "`max_traces`", "1", "2", "[3]")),
    ],
)
def test_what_budgets_refuse(keys: dict[str, Any], refusal: tuple[str, ...], small: tb.Log) -> None:
    with refuses(*refusal):
        tb.budgets(small, verifier="v", max_traces=2, features=["length"], **keys)


def test_a_gate_is_fitted_saved_and_named_by_its_file(tmp_path: Path) -> None:
    simulate_recovery(tmp_path / "log", examples=600, seed=11)
    fitted = tb.fit_gate(tmp_path / "log", action="active_verify", on="split = 'train'", tune="split = 'dev'")
    fitted.save(tmp_path / "gate.json")
    with refuses("exists", "`force`"):
        fitted.save(tmp_path / "gate.json")
    gate = tb.Threshold(file=tmp_path / "gate.json")
    assert gate.file == tb.load_gate(tmp_path / "gate.json")
    assert gate.file.sha256 == fitted.gate.sha256
    where = "split = 'test'"
    told = tb.transfer_report(tmp_path / "log", tmp_path / "gate.json", where=where, settings=FEW)
    assert told.rows.equals(tb.transfer_report(tmp_path / "log", fitted.gate, where=where, settings=FEW).rows)
    with refuses("invalid", "`file`", "5"):
        tb.Threshold(file=5)


def test_a_verifier_that_is_not_there_is_refused_though_nothing_reads_it() -> None:
    policy = tb.Sample(name="vote", max_traces=3, select="majority", verifier="w")
    with refuses("unknown", "`vote`", "`w`", "`v`"):
        tb.run(tables({"pool": POOL}, GOLDS), [policy], settings=FEW)
