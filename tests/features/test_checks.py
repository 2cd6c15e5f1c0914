"""The summary of checks by hand: sums that are wrong, answers that break the question, answers that changed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from generate.signals.checks import answer_changed, arithmetic_mismatch, constraint_mismatch
from generate.simulation.recovery import RecoveryModel, _recovery_tables
from thinkback.app import app
from toolkit.log import collect, open_log, write_log

SHIPPED = Path(__file__).parents[2] / "data" / "log"
NO_LABELS = pl.Series([None], dtype=pl.List(pl.String))

SUMS = [
    ("births 15+19=34, 18: no", 0),
    ("births 4+19=28, 18: no", 1),  # 23
    ("loans 18-10=8 27-10=17, 15: half", 0),
    ("loans 18-10=8 27-10=16, 15: half", 1),  # the second of two
    ("2 * 3 = 6 = 7", 1),  # a step of a chain
    ("a = 2 + 2 = 5", 1),
    ("-5*(4*3+1)=-65\n-50-15=-65\nok", 0),
    ("(1+2)*3 = 9; 9 - 1 = 7", 1),
    ("10/3 = 3.33", 0),  # rounded in its last digit, within .005
    ("10/3 = 3.35", 1),
    ("10/3=3", 1),  # a whole number is not rounded
    ("1,200 + 300 = 1,500.", 0),
    ("1,200+300=1,600", 1),
    ("12 / 4 = 4 hours.", 1),  # a unit
    ("7 − 10 = −3, 2×3=6", 0),
    # what cannot be read with certainty is no mismatch
    ("-20*j-5=-50-15\n-5+65=20*j\n60=20*j\nj=3", 0),
    ("x + 2 = 5, 2x+3 = 3, 5 = 3x, 5 = 3 x", 0),
    ("20% = 0.2, $5 + $3 = 9, 2^3 = 8, 5! = 120, \\frac{1}{2} = 0.5, 10:30 = 4, 1/0 = 3, = 7", 0),
    ("", 0),
]


@pytest.mark.parametrize(("text", "wrong"), SUMS)
def test_wrong_sums(text: str, wrong: int) -> None:
    assert arithmetic_mismatch(pl.Series([text, None], dtype=pl.String)).to_list() == [wrong, None]


# Right, or not to be read with certainty.
UNREAD = [
    "50% of 20 = 10",
    "half of 20 = 10",
    "3 times 4 = 12",
    "5 plus 3 = 8",
    "twice 6 = 12",
    "2 x 3 = 6",
    "sum of 3 and 4 = 7",
    "square root of 16 = 4",
    "gcd of 12 and 18 = 6",
    "log 100 = 2",
    "10 mod 3 = 1",
    "10 choose 2 = 45",
    "7 = 1 (mod 3)",
    "minus 3 = -3",
    "Twice 6+1 = 13",
    "half of 4 + 6 = 5",
    "√16 = 4",
    "√16 = 2 + 2",
    "2 (3 + 1) = 8",
    "1 000 + 500 = 1 500",
    "1,5 + 2,5 = 4",
    "4 = 2,5 + 1,5",
    "1 1/2 = 1.5",
    "3/2 = 1 1/2",
    "1/4 = 25 percent",
    "1/4 = 25 %",
    "90 + 30 = 2 hours.",
    "10 / 3 = 3 remainder 1",
    "17/5 = 3 R 2",
    "17/5 = 3 boxes.",
    "2/3 = 0.66",
    "2/3 = 0.66...",
    "5 + 3 = 8 * 2 = 16",
    "grades 9-12 = 40 students",
    "2024-11-15 = 3",
    "1.500 + 500 = 2.000",
    "10 + 5 = 3 o'clock",
    "5 + 3 = 9 is wrong",
    "If 2+2=5 then",
    "Does 2+2 = 5?",
    "0 = 5",
    "births 15+19=3",
    "births 2-15=-1",
    "0x10 = 16",
    "2x3 = 6",
    "5 x 10^3 = 5000",
    "5 = 3 + 1 squared",
    "10 –\n3 + 2 = 9",
    "5 + 3 = 2\n+ 6",
    "|5 - 8| = 3",
    "5 // 2 = 2",
    "We work modulo 5. 3 + 4 = 2",
    "|x|: 1/2 : 1/3 = 3 : 2",
    "12 = 4 x 3",
    "6 / 2(3) = 9",
    "3 \\times 4 + 1 = 13",
    "\\sqrt{9} + 1 = 4",
    "5\\cdot 3 + 1 = 16",
    "10²  = 100",
    "10 = 50 of 5 + 1",
    "2 * 3 = 6 times",
    "max 3, 4 = 4",
    "3! = 6",
    "= 5 + 3 × 2 = 11",
    "€20 - 5 + 3 = 18",
    "lcm(4, 6) = 12",
    "1e3 + 1 = 1001",
    "a + 2 * 3 = 9",
    "10 % 3 + 1 = 2",
    "5 + 5 = 20%",
    "so half of 10 + 10 = 10",
    "3:4 = 6:8",
    "That is 20 = 4 dozen",
]
WRONG = [
    "She has 5 + 3 = 9 apples.",
    "so 5 + 3 = 9",
    "Thus 12 * 3 = 35.",
    "Then 2 x 3 = 7",
    "2x3 = 7",
    "5+3 = <<5+3=9>>9",
    "Total: 5 + 3 = 9",
    "x = 2 + 2 = 5\n",
    "1. 3 + 2 = 6\n",
    "7 = 3 + 5\n",
    "15+19=33, 1: no",
    "votes 4-30=-29 4-30=-22, 29: no",
    "births 25-38=-1, 1: no",
    "We get 100 / 4 = 20 dollars each.",
    "0.1 + 0.1 = 0.3",
    "half of 20 = 5 + 5 = 11",
]


@pytest.mark.parametrize("text", UNREAD)
def test_what_words_make_of_a_sum_is_not_read(text: str) -> None:
    assert arithmetic_mismatch(pl.Series([text])).to_list() == [0]


@pytest.mark.parametrize("text", WRONG)
def test_sums_among_words_are_read(text: str) -> None:
    assert arithmetic_mismatch(pl.Series([text])).to_list() == [1]


def test_the_last_number_of_a_text_may_be_cut_off() -> None:
    texts = pl.Series(["10/3 = 3", "15+19=3", "30+30*e=2\n30+24=3", "15+19=35"])
    assert arithmetic_mismatch(texts, pl.Series([True] * 4)).to_list() == [0, 0, 0, 1]
    assert arithmetic_mismatch(texts).to_list() == [1, 0, 0, 1]


def test_no_right_attempt_at_an_equation_of_the_shipped_log_is_flagged() -> None:
    log = open_log(SHIPPED)
    traces = collect(
        log.scan("traces", ["example_id", "pool", "text", "answer", "correct", "finish_reason"]).filter(
            pl.col("pool") == "short"
        ),
        log,
    )
    examples = collect(log.scan("examples", ["example_id", "dataset", "question", "labels"]), log)
    rows = traces.join(examples, on="example_id").filter(pl.col("dataset") == "algebra_linear_1d")
    assert arithmetic_mismatch(rows["text"], rows["finish_reason"] == "length").sum() == 0
    broken = constraint_mismatch(rows["question"], rows["answer"], rows["labels"])
    assert broken.sum() == 424
    assert not rows.filter(broken == 1)["correct"].any()


ANSWERS = [
    ("Solve -5*(4*j+1)=-50-15 for j.", "3", None, 0),  # −5 · 13 = −65
    ("Solve -5*(4*j+1)=-50-15 for j.", "4", None, 1),  # −5 · 17 = −85
    ("Solve -5*(4*j+1)=-50-15 for j.", None, None, 0),
    ("Solve 2x + 1 = 7 for x.", "-3", None, 1),  # −5
    ("Solve 2x + 1 = 7 for x.", "seven", None, 0),
    ("Let x + y = 7 and x = 3. What is y?", "9", None, 0),  # two equations
    ("How many apples are left?", "3", None, 0),
    ("How many apples are left?", "-1", None, 1),
    ("How many apples are left?", "2.5", None, 1),
    ("Find the integer below zero.", "-2", None, 0),
    ("It rose.", "True", ["True", "False"], 0),
    ("It rose.", "Maybe", ["True", "False"], 1),
]

LEFT = [
    ("How many hours (as a decimal)?", "2.5"),
    ("How many hours?", "2.5"),
    ("How many miles per hour?", "2.5"),
    ("If 2x = 6, what is x + 3?", "6"),
    ("Solve 2^x = 8 for x.", "3"),
    ("log x = 2. What is x?", "100"),
    ("Twice x = 6. What is x?", "3"),
    ("Solve 3*x = 1 for x.", "0.33"),
    ("Solve 3x=1 for x.", "1/3"),
    ("Let n be an integer with 2n = 5+1. What is n/2?", "1.5"),
    ("By how many degrees did it change?", "-3"),
    ("Solve sqrt(x) = 3 for x.", "9"),
    ("Solve x^2 = 9 for x.", "-3"),
    ("Solve 2x = 1 mod 5 for x.", "3"),
    ("Solve 3/2x = 6 for x.", "4"),
    ("Add the reciprocals of the integers 1 and 2.", "1.5"),
    ("How many apples does each get?", "2.5"),
    ("Solve 2*x = 1,000 for x.", "500"),
    ("Solve 2*x = 1000 for x.", "$500"),
    ("Solve 2*x = 1 for x.", "50%"),
]
BREAKING = [
    ("Solve 3*x = 1 for x.", "0.5"),
    ("If 2x = 6, what is x?", "4"),
    ("Give it as an integer: how much is 5/2?", "2.5"),
    ("Solve for x: 2x + 3 = 7.", "3"),
    ("Solve 3 = 2*y - 1 for y.", "2.5"),
    ("How many students came?", "2.5"),
]
SPELLINGS = ["true", "True.", " False ", "**True**"]


@pytest.mark.parametrize(("question", "answer"), LEFT)
def test_constraints_that_cannot_be_read_are_not_broken(question: str, answer: str) -> None:
    assert constraint_mismatch(pl.Series([question]), pl.Series([answer]), NO_LABELS).to_list() == [0]


@pytest.mark.parametrize(("question", "answer"), BREAKING)
def test_constraints_in_further_words(question: str, answer: str) -> None:
    assert constraint_mismatch(pl.Series([question]), pl.Series([answer]), NO_LABELS).to_list() == [1]


@pytest.mark.parametrize("answer", SPELLINGS)
def test_a_label_in_another_spelling_breaks_nothing(answer: str) -> None:
    labels = pl.Series([["True", "False"]])
    assert constraint_mismatch(pl.Series(["It rose."]), pl.Series([answer]), labels).to_list() == [0]


@pytest.mark.parametrize(("question", "answer", "labels", "broken"), ANSWERS)
def test_broken_constraints(question: str, answer: str | None, labels: list[str] | None, broken: int) -> None:
    among = pl.Series([labels], dtype=pl.List(pl.String))
    assert constraint_mismatch(pl.Series([question]), pl.Series([answer], dtype=pl.String), among).to_list() == [broken]


def test_changed_answers() -> None:
    own, before = pl.Series(["1", "2", None, "3 ", "5"]), pl.Series(["1", None, "4", "3", None])
    revised = pl.Series([True, True, True, True, False])
    assert answer_changed(own, before, revised).to_list() == [0, 1, 1, 0, None]


CHANGES = [
    ("3", "3.0", 0),
    ("1/2", "0.5", 0),
    ("1,000", "1000", 0),
    ("$5", "5", 0),
    ("x = 3", "3", 0),
    ("12 hours", "12", 0),
    ("True", "true.", 0),
    ("\\frac{1}{2}", "1/2", 0),
    (None, "", 0),
    ("", "3", 1),
    ("True", "False", 1),
    ("3", "4", 1),
    ("12 hours", "13", 1),
    ("7", None, 1),
]


@pytest.mark.parametrize(("own", "before", "changed"), CHANGES)
def test_an_answer_in_another_spelling_has_not_changed(own: str | None, before: str | None, changed: int) -> None:
    one, other = (pl.Series([text], dtype=pl.String) for text in (own, before))
    assert answer_changed(one, other, pl.Series([True])).to_list() == [changed]


def test_the_shipped_recipe_adds_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path / "log", name="made", tables=_recovery_tables(40, 11, RecoveryModel(votes=3)), simulated=True)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["generate", "checks", "--on", "log"])
    assert done.exit_code == 0, done.output
    assert {"arithmetic_mismatch", "constraint_mismatch", "answer_changed"} <= set(open_log("log").columns("features"))


def test_checks_are_added_to_a_log_and_a_gate_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = _recovery_tables(40, 11, RecoveryModel(votes=3))
    text = pl.when(pl.col("sample_index") == 0).then(pl.lit("2+2=5")).otherwise(pl.lit("2+2=4"))
    tables["traces"] = tables["traces"].with_columns(text=text)
    write_log(tmp_path / "log", name="made", tables=tables, simulated=True)
    (tmp_path / "checks.toml").write_text('[[features]]\nkind = "checks"\nprefix = "check_"\n')
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["generate", "checks.toml", "--on", "log"])
    assert done.exit_code == 0, done.output
    log = open_log(tmp_path / "log")
    rows = collect(log.scan("traces", ["trace_id", "action", "sample_index", "answer", "parent_id"]), log).join(
        collect(log.scan("features"), log), on="trace_id"
    )
    assert (rows["check_arithmetic_mismatch"] == (rows["sample_index"] == 0).cast(pl.Float64)).all()
    first = rows.filter(pl.col("action") == "solve")
    assert first["check_answer_changed"].null_count() == len(first)
    both = rows.filter(pl.col("action") != "solve").join(
        rows.select(parent_id="trace_id", before="answer"), on="parent_id"
    )
    assert (both["check_answer_changed"] == both["answer"].ne_missing(both["before"]).cast(pl.Float64)).all()
    assert 0 < both["check_answer_changed"].mean() < 1
    (tmp_path / "gated.toml").write_text(
        '[[policy]]\nname = "accept"\nkind = "sample"\npool = "short"\nmax_traces = 1\nselect = "first"\n'
        '[[policy]]\nname = "where a sum is wrong"\nkind = "when"\n'
        'base = { kind = "sample", pool = "short", max_traces = 1, select = "first" }\n'
        'gate = { feature = "check_arithmetic_mismatch", at_least = 1 }\n'
        'then = { kind = "act", action = "active_verify", base = "short" }\n'
    )
    gated = CliRunner().invoke(app, ["replay", "log", "--policies", "gated.toml", "--resamples", "20", "--out", "o"])
    assert gated.exit_code == 0, gated.output
