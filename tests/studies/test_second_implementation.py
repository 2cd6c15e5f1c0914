"""The studies' main tables against a second, plain implementation that reads the Parquet files alone: every cell.

The studies run as a user runs them, from the command line, and their CSV files are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from generate.simulation.grid import simulate_tables
from generate.simulation.recovery import RecoveryModel, _recovery_tables
from tests.studies import second
from tests.studies.claims import rows
from thinkback.app import app
from toolkit.log import write_log

DATA = Path(__file__).resolve().parents[2] / "data" / "log"
METHODS: dict[str, second.Method] = {
    "Top-1 decoding": second.top_1,
    "Self-consistency": second.self_consistency,
    "Exhaustive BoN (baseline)": second.best_of_n,
    "Adaptive Stopping": second.adaptive_stopping,
}
LETTERS = {"True": "t_f1_pct", "False": "f_f1_pct", "Conflicting": "c_f1_pct"}
HEADS = {"Dataset", "Method", "Max traces", "dataset", "policy"}
TABLES = {"5_1": 3, "5_2": 2, "5_3": 2}
"""Tables of the main comparison, with the rows that this implementation has of each."""

pytestmark = pytest.mark.usefixtures("svg_only")


def run(*words: object) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output


def same(row: dict[str, str], mine: second.Cells, where: str) -> None:
    """Every number of a row, but for the limits of intervals, is one of mine and equal to it; an empty cell is None."""
    shown = {key for key in row if key not in HEADS and not key.endswith(("_low", "_high"))}
    shown -= {key for key in row if "published" in key}
    assert shown <= set(mine), f"{where}: {sorted(shown - set(mine))} have no second implementation"
    for key in shown:
        expected = mine[key]
        if expected is None:
            assert row[key] == "", f"{where}: {key}"
        else:
            assert float(row[key]) == pytest.approx(expected, rel=1e-9, abs=1e-9), f"{where}: {key}"


def compare_claims(out: Path, claims: list[second.Claim], cap: int, caps: tuple[int, ...]) -> None:
    """Tables 5.1 to 5.3, and 5.11 and 5.12 of larger caps."""
    labels = claims[0].labels
    names = LETTERS if set(labels) == set(LETTERS) else {label: f"f1:{label}" for label in labels}

    def cells(method: str, at: int, of: str) -> second.Cells:
        verdicts = [METHODS[method](claim, at) for claim in claims]
        if of in ("5_1", "5_2", "5_11"):
            return second.quality(claims, verdicts, names)
        exhaustive = [second.best_of_n(claim, at) for claim in claims] if method == "Adaptive Stopping" else None
        return second.effort(verdicts, exhaustive)

    for number, methods in TABLES.items():
        found = rows(out / f"table_{number}.csv")
        assert len(found) == methods
        for row in found:
            same(row, cells(row["Method"], cap, number), f"table {number}, {row['Method']}")
    for number in ("5_11", "5_12"):
        found = rows(out / f"table_{number}.csv")
        assert len(found) == 2 * len(caps)
        for row in found:
            at = int(float(row["Max traces"]))
            same(row, cells(row["Method"], at, number), f"table {number}, {row['Method']}, {at} traces")


def gate_of(out: Path, dataset: str) -> Callable[[str], second.Gate]:
    """The study's own gate for an action: that of the data set, where each has one."""

    def find(action: str) -> second.Gate:
        slug = re.sub(r"[^a-z0-9]+", "-", dataset.lower())
        told = {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.rglob("gate*.json"))}
        mine = [path for path, gate in told.items() if (gate["action"], gate["kind"]) == (action, "logistic")]
        (path,) = [path for path in mine if slug in re.sub(r"[^a-z0-9]+", "-", path.name.lower())] or mine
        return second.read_gate(path)

    return find


def primary_of(out: Path, dataset: str) -> str:
    """The action that the study chose for a data set."""
    made = json.loads((out / "run.json").read_text())
    return str(made.get("datasets", {}).get(dataset, made)["action"])


def compare_budgets(out: Path, questions: list[second.Question], policies: set[str]) -> None:
    """SeVRA's table of matched budgets, data set by data set."""
    found = rows(out / "budget_matched.csv")
    for dataset in {question.dataset for question in questions}:
        own = [question for question in questions if question.dataset == dataset]
        listed = [row for row in found if row["dataset"] == dataset]
        assert {row["policy"] for row in listed} >= policies
        for row in listed:
            mine = second.at_budget(
                own, second.policy_named(row["policy"], gate_of(out, dataset), primary_of(out, dataset))
            )
            same(row, mine, f"{dataset}, {row['policy']}")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    write_log(tmp_path / "log", name="small", tables=simulate_tables(examples=24, traces=9, labels=3, seed=5))
    return tmp_path


POLICIES = """
[[policy]]
name = "Top-1 decoding"
kind = "sample"
pool = "n9"
max_traces = 1
select = "first"

[[policy]]
name = "Self-consistency"
kind = "sample"
pool = "n9"
max_traces = 9
select = "majority"

[[policy]]
name = "Exhaustive BoN (baseline)"
kind = "sample"
pool = "n9"
max_traces = 9
verifier = "strong"

[[policy]]
name = "Adaptive Stopping"
kind = "sample"
pool = "n9"
max_traces = 9
verifier = "strong"
stop = "margin"
"""


def test_the_methods_of_fact_checking_on_a_small_log(small: Path) -> None:
    """The same policies as the study's, replayed without it: its own run takes several seconds."""
    (small / "policies.toml").write_text(POLICIES, encoding="utf-8")
    words = ("--policies", small / "policies.toml", "--resamples", 20, "--out", small / "out")
    run("replay", small / "log", *words)
    summary = pl.read_parquet(small / "out" / "summary.parquet")
    claims = second.read_claims(small / "log", lambda _: True, "n9", "strong")
    assert any(attempt.label is None for claim in claims for attempt in claim.attempts)
    names = {label: f"f1:{label}" for label in claims[0].labels}
    for method, of in METHODS.items():
        found = dict(summary.filter(policy=method).select("metric", "estimate").iter_rows())
        verdicts = [of(claim, 9) for claim in claims]
        mine = second.quality(claims, verdicts, names)
        assert {name: 100 * found[name.removesuffix("_pct")] for name in mine} == pytest.approx(mine)
        paid = second.effort(verdicts)
        for key, metric in (
            ("trace_attempts", "traces"), ("verifier_calls", "verifications"), ("operations", "operations"),
        ):  # fmt: skip
            assert len(claims) * found[metric] == pytest.approx(paid[key])


@pytest.mark.slow
def test_tables_of_fact_checking_on_a_small_log(small: Path) -> None:
    words = ("--pool", "n9", "--verifier", "strong", "--cap", 9, "--caps", "4,9", "--resamples", 20, "--orders", 1)
    run("study", "factcheck", small / "log", *words, "--out", small / "out")
    claims = second.read_claims(small / "log", lambda example: example["split"] == "test", "n9", "strong")
    compare_claims(small / "out", claims, 9, (4, 9))


@pytest.mark.slow
def test_matched_budgets_on_a_small_log(tmp_path: Path) -> None:
    tables = _recovery_tables(600, 11, RecoveryModel(votes=5))
    one = tables["examples"].with_columns(dataset=pl.lit("sim-a"))
    write_log(tmp_path / "log", name="small", tables=tables | {"examples": one})
    words = ("--action", "active_verify", "--resamples", 20)
    run("study", "recovery", tmp_path / "log", *words, "--out", tmp_path / "out")
    questions = second.read_questions(tmp_path / "log", lambda example: example["split"] == "test", "short")
    assert any(question.base.finalized for question in questions)
    compare_budgets(
        tmp_path / "out", questions,
        {"base: short", "always active_verify", "selective active_verify", "budget: long", "self-consistency@5: votes"},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("verifier", ["trained", "judge"])
def test_tables_of_fact_checking_on_the_shipped_log(tmp_path: Path, verifier: str) -> None:
    """A tenth of the test claims, and the other verifier's tables 5.8 and 5.9."""
    where = "dataset = 'numeric_claims' and split = 'test' and example_id like '%7'"
    other = "judge" if verifier == "trained" else "trained"
    words = ("--pool", "votes", "--verifier", verifier, "--other-verifier", other, "--cap", 16, "--caps", "4,8,16")
    quick = ("--resamples", 20, "--orders", 1)
    run("study", "factcheck", DATA, "--where", where, *words, *quick, "--out", tmp_path / "out")

    def wanted(example: second.Row) -> bool:
        return (example["dataset"], example["split"]) == ("numeric_claims", "test") and example["example_id"][-1] == "7"

    claims = second.read_claims(DATA, wanted, "votes", verifier)
    assert len(claims) == 100
    compare_claims(tmp_path / "out", claims, 16, (4, 8, 16))
    others = second.read_claims(DATA, wanted, "votes", other)
    exhaustive = [second.best_of_n(claim, 16) for claim in others]
    for method in ("Exhaustive BoN (baseline)", "Adaptive Stopping"):
        verdicts = [METHODS[method](claim, 16) for claim in others]
        for number, mine in (
            ("5_8", second.quality(others, verdicts, LETTERS)),
            ("5_9", second.effort(verdicts, exhaustive if method == "Adaptive Stopping" else None)),
        ):
            (row,) = [one for one in rows(tmp_path / "out" / f"table_{number}.csv") if one["Method"] == method]
            same(row, mine, f"table {number}, {method}")


@pytest.mark.slow
def test_matched_budgets_on_the_shipped_log(tmp_path: Path) -> None:
    """All test questions of both data sets, every action."""
    run("study", "recovery", DATA, "--resamples", 20, "--out", tmp_path / "out")
    questions = second.read_questions(DATA, lambda example: example["split"] == "test", "short")
    assert len(questions) == 2_000
    actions = ("active_verify", "continue", "self_correct")
    policies = {f"{kind} {action}" for kind in ("always", "selective") for action in actions}
    policies |= {"base: short", "budget: long", "self-consistency@16: votes"}
    compare_budgets(tmp_path / "out", questions, policies)
