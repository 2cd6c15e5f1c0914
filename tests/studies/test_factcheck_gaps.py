"""`thinkback study factcheck` on logs that lack what logs lack, and on mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from generate.simulation.grid import simulate_tables
from replay.analyses.budgets.wall_clock import NOT_LOGGED
from replay.runs.passes.coverage import FREE
from replay.studies.factcheck.runs import ADAPTIVE, SURROGATE, TITLES, listwise_verifiers
from replay.studies.kit.report import UNDONE
from tests.errors import file_notes, noted, quotes, says
from tests.seeds import seeds
from tests.studies.claims import rows, tables, written
from thinkback.app import app
from toolkit.log import open_log

pytestmark = pytest.mark.usefixtures("svg_only")

Run = Callable[..., Result]
FIGURES = ("figure_5_1", "figure_5_2", "figure_B_1", "sensitivity_macro_f1", "sensitivity_operations")


def test_a_log_without_seconds_or_tokens_has_dashes_and_says_why(study: Run, tmp_path: Path) -> None:
    frames = tables()
    frames["traces"] = frames["traces"].drop("latency_s", "device_s", "prompt_tokens", "completion_tokens")
    done = study(written(tmp_path / "log", frames), "--verifier", "strong", "--cap", "15", "--caps", "15")
    assert done.exit_code == 0, done.output
    out = tmp_path / "out"
    text = (out / "table_5_5.md").read_text()
    assert file_notes(out, "unlogged", "seconds", "trace", at=["table_5_5"])
    assert not file_notes(out, "unlogged", "verification")  # those of the verifier are logged
    assert file_notes(out, "unlogged", "tokens", "trace", at=["table_5_4"])
    best = rows(tmp_path / "out" / "table_5_5.csv")[0]
    assert best["runtime_h"] == ""
    assert "–" in text
    assert float(rows(tmp_path / "out" / "table_5_3.csv")[0]["trace_attempts"]) == 600
    assert NOT_LOGGED in (tmp_path / "out" / "table_B_2.md").read_text()


@pytest.mark.usefixtures("tables_only")
def test_a_verifier_on_part_of_the_traces_is_left_out_and_named(study: Run, tmp_path: Path) -> None:
    frames = tables()
    half = (pl.col("verifier") == "weak") & (pl.col("trace_id").hash() % 2 == 0)
    frames["verifications"] = frames["verifications"].filter(~half)
    log = written(tmp_path / "log", frames)
    assert study(log, "--verifier", "strong", "--caps", "15").exit_code == 0
    text = (tmp_path / "out" / "table_5_8.md").read_text()
    assert "verifier `weak`" in text


def test_with_a_verifier_on_part_of_the_traces_what_needs_none_is_shown(study: Run, tmp_path: Path) -> None:
    """Top-1 and self-consistency need no verifier; all else is a dash, with the reason beneath it."""
    frames = tables()
    most = (pl.col("verifier") == "weak") & (pl.col("trace_id").hash() % 10 > 0)
    few = (pl.col("verifier") == "weak") & ~most
    frames["verifications"] = frames["verifications"].filter(~few)
    assert 0 < frames["verifications"].filter(most).height < frames["traces"].height
    done = study(written(tmp_path / "log", frames), "--verifier", "weak", "--caps", "15")
    assert done.exit_code == 0, done.output
    quality = {row["Method"]: row["accuracy_pct"] for row in rows(tmp_path / "out" / "table_5_1.csv")}
    first = frames["traces"].filter(pl.col("sample_index") == 0)["correct"].mean()
    assert float(quality["Top-1 decoding"]) == pytest.approx(100 * first)
    assert float(quality["Self-consistency"]) > 0
    assert quality["Exhaustive BoN (baseline)"] == ""
    counts = rows(tmp_path / "out" / "table_5_3.csv")
    assert [row["verifier_calls"] for row in counts] == ["", ""]
    named = ("table_5_1", "table_5_3", "table_5_5", "table_5_6", "table_5_7", "table_5_11", "table_B_1", "table_B_4")
    for name in (*named, "efficiency", "budgets", "orders", "variants", "sensitivity"):
        assert "verifier `weak`" in (tmp_path / "out" / f"{name}.md").read_text(), name
    assert float(rows(tmp_path / "out" / "gold_within.csv")[0]["n"]) == 40
    assert all(row["share"] for row in rows(tmp_path / "out" / "gold_within.csv"))
    open_ = rows(tmp_path / "out" / "unresolved.csv")
    assert {(row["share"], row["largest"], row["median"]) for row in open_} == {("", "", "")}
    assert all(float(row["n"]) < 36 for row in open_)
    told = (tmp_path / "out" / "unresolved.md").read_text()
    assert file_notes(tmp_path / "out", "left_out", "`weak`", "nine tenths", at=["unresolved"])
    assert "WARNING: " in told.partition("| k |")[0]
    means = {row["Method"]: row["accuracy_pct"] for row in rows(tmp_path / "out" / "orders.csv")}
    assert [method for method, accuracy in means.items() if accuracy] == ["Top-1 decoding", "Self-consistency"]
    assert float(means["Top-1 decoding"]) == pytest.approx(100 * frames["traces"]["correct"].mean(), abs=3)
    settings = rows(tmp_path / "out" / "sensitivity.csv")
    assert len(settings) == 6 * 3 * 3 * 4  # margins, caps up to 15, minima, three bootstrap pools and none
    assert file_notes(tmp_path / "out", "settings_missing", "margin 0.05, cap 5, ", at=["sensitivity"])
    assert [row["k"] for row in rows(tmp_path / "out" / "table_B_4.csv")] == ["3", "5", "7", "10", "13"]
    assert len(rows(tmp_path / "out" / "budget_smallest.csv")) == 10
    assert {row["k"] for row in rows(tmp_path / "out" / "budget_smallest.csv")} == {""}
    assert rows(tmp_path / "out" / "variants.csv")[0]["Policy"] == "adaptive stopping"
    report = (tmp_path / "out" / "report.md").read_text()
    for figure in ("figure_5_1", "figure_5_2", "figure_B_1"):
        named = figure.replace("figure_", "figure ").replace("_", ".")
        drawn = (tmp_path / "out" / f"{figure}.svg").exists()
        assert file_notes(tmp_path / "out", "no_figure", f"{named}: ", at=[UNDONE])
        assert drawn == (f"({figure}.png)" in report)
    assert not (tmp_path / "out" / "figure_5_1.svg").exists()
    assert [row["Method"] for row in rows(tmp_path / "out" / "table_5_9.csv")] != []  # `strong` scored all of them
    assert float(rows(tmp_path / "out" / "table_5_9.csv")[0]["verifier_calls"]) > 0


@pytest.mark.parametrize(("kept", "reason"), seeds(1, [((), "seconds"), (("latency_s",), "tokens")]))
def test_what_a_verifier_does_not_log_is_no_zero(
    kept: tuple, reason: str, study: Run, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Verifications without seconds: nothing that follows from them is known, and generation's own is."""
    if kept:
        request.getfixturevalue("tables_only")
    frames = tables()
    gone = [c for c in ("prompt_tokens", "completion_tokens", "latency_s", "device_s") if c not in kept]
    frames["verifications"] = frames["verifications"].drop(gone)
    done = study(written(tmp_path / "log", frames), "--verifier", "strong", "--caps", "15")
    assert done.exit_code == 0, done.output
    out = tmp_path / "out"
    seconds = ["table_5_5", "table_5_7", "table_5_13", "table_B_2"]
    notes = file_notes(out, "unlogged", "`strong`", at=["efficiency"])
    (note,) = [one for one in notes if one["text"].startswith(reason)]
    assert (set(seconds) <= set(note["at"])) == (reason == "seconds")
    assert not file_notes(out, FREE)
    assert f"- {note['text']}" in (out / "report.md").read_text().partition("## Table")[0]
    assert "table_5_4" not in note["at"]
    for row in rows(out / "table_5_5.csv"):
        assert float(row["generation_s_per_claim"]) > 0
        follows = ("verification_s_per_claim", "total_s_per_claim", "runtime_h")
        assert all((row[name] == "") == (reason == "seconds") for name in follows)
        assert row["cost_eur"] == ""  # of device seconds, which traces have and verifications here lack
    assert file_notes(out, "unlogged", "device seconds", "`strong`", at=seconds)
    told = {(row["Method"], row["Number"]): row["mean"] for row in rows(out / "efficiency.csv")}
    assert told["Adaptive Stopping", "total_tokens, per claim"] == ""
    assert float(told["Self-consistency", "total_tokens, per claim"]) > 0
    assert (told["Adaptive Stopping", "latency_s, per claim"] == "") == (reason == "seconds")
    assert float(told["Self-consistency", "latency_s, per claim"]) > 0


@pytest.mark.slow
def test_a_call_that_no_method_pays_may_lack_its_seconds(study: Run, tmp_path: Path) -> None:
    """With a cap of 10 nobody verifies sample 14 of a claim; with one of 15 somebody does."""
    frames = tables()
    last = frames["traces"].filter((pl.col("sample_index") == 14) & pl.col("answer").is_not_null())["trace_id"][0]
    seconds = pl.when(pl.col("trace_id") != last).then("latency_s")
    frames["verifications"] = frames["verifications"].with_columns(latency_s=seconds)
    log = written(tmp_path / "log", frames)
    for cap in (10, 15):
        assert study(log, "--verifier", "strong", "--cap", cap, "--caps", "15", "--force").exit_code == 0
        told = {(row["Method"], row["Number"]): row["mean"] for row in rows(tmp_path / "out" / "efficiency.csv")}
        for number in ("verification_s, per claim", "latency_s, per claim"):
            assert (told["Adaptive Stopping", number] == "") == (cap == 15), number
        notes = file_notes(tmp_path / "out", "unlogged", "seconds", "verification", at=["table_5_5"])
        assert bool(notes) == (cap == 15)


@pytest.mark.slow
@pytest.mark.usefixtures("tables_only")
def test_a_verifier_without_device_seconds_has_no_euros_and_says_why(study: Run, tmp_path: Path) -> None:
    """Euros come from device seconds where traces have them; self-consistency verifies nothing and keeps its own."""
    frames = tables()
    frames["verifications"] = frames["verifications"].with_columns(device_s=pl.lit(None, pl.Float32))
    assert frames["traces"]["device_s"].null_count() == 0
    assert study(written(tmp_path / "log", frames), "--verifier", "strong", "--caps", "15").exit_code == 0
    told = {(row["Method"], row["Number"]): row["mean"] for row in rows(tmp_path / "out" / "efficiency.csv")}
    assert told["Adaptive Stopping", "cost_eur, per 1,000 claims"] == ""
    assert float(told["Self-consistency", "cost_eur, per 1,000 claims"]) > 0
    assert float(told["Adaptive Stopping", "latency_s, per claim"]) > 0
    (note,) = file_notes(tmp_path / "out", "unlogged", at=["efficiency"])
    assert "device seconds" in note["text"]
    assert "`strong`" in note["text"]
    assert f"- {note['text']}" in (tmp_path / "out" / "report.md").read_text().partition("## Table")[0]


@pytest.mark.slow
def test_one_verifier_alone_is_not_compared(study: Run, tmp_path: Path) -> None:
    """No rows of dashes, but the reason."""
    frames = tables()
    frames["verifications"] = frames["verifications"].filter(pl.col("verifier") == "strong")
    log = written(tmp_path / "log", frames)
    assert study(log, "--caps", "15").exit_code == 0
    names = ("table_5_8", "table_5_9", "table_5_10")
    assert file_notes(tmp_path / "out", "one_verifier", at=names)
    for name in names:
        assert rows(tmp_path / "out" / f"{name}.csv") == []
        assert ": Verifier ablation: " in (tmp_path / "out" / f"{name}.md").read_text()
        assert (tmp_path / "out" / f"{name}.tex").stat().st_size > 0


@pytest.mark.slow
def test_a_surrogate_without_features_says_so(study: Run, tmp_path: Path) -> None:
    """Of the thesis's five features the log keeps one, then none."""
    frames = tables()
    one = frames["features"].select("trace_id", "example_id", "length")
    without = {name: frame for name, frame in frames.items() if name != "features"}
    for name, kept, reads in (
        ("one", frames | {"features": one}, ("`length`; ", "`claim_similarity`")),
        ("none", without, ("`length`", "`claim_similarity`")),
    ):
        words = ("--verifier", "strong", "--caps", "15", "--resamples", "10")
        assert study(written(tmp_path / name, kept), *words).exit_code == 0
        (note,) = file_notes(tmp_path / "out", "features", *reads, at=["table_5_6", "table_5_7", "table_5_8"])
        assert "table_5_1" not in note["at"], name
        assert f"- {note['text']}" in (tmp_path / "out" / "report.md").read_text()


def test_a_listwise_verifier_is_refused(study: Run, tmp_path: Path) -> None:
    """It ranks a pool in one call: refused where it is named, and never taken for the other one."""
    frames = tables()
    costs = ("prompt_tokens", "completion_tokens", "latency_s", "device_s")
    of_claim = pl.col("trace_id").count().over("example_id", "verifier").cast(pl.Int32)
    frames["verifications"] = (
        frames["verifications"]
        .drop(costs)
        .with_columns(candidates=pl.when(pl.col("verifier") == "weak").then(of_claim))
    )
    log = written(tmp_path / "log", frames)
    for words in (("--verifier", "weak"), ("--verifier", "strong", "--other-verifier", "weak")):
        done = study(log, *words, "--caps", "15")
        assert done.exit_code == 2
        says(done, "unsuitable", "`weak`", "`n15`")
        assert not (tmp_path / "out").exists()
    assert listwise_verifiers(open_log(log), "n15") == {"weak"}


@pytest.mark.slow
def test_published_totals_of_other_claims_have_no_difference(study: Run, tmp_path: Path) -> None:
    """40 claims with a cap of 14 beside the 2,495 of QuanTemp with 15."""
    log = written(tmp_path / "log", tables())
    words = ("--verifier", "strong", "--caps", "14", "--cap", "14", "--published", "quantemp", "--resamples", "10")
    assert study(log, *words).exit_code == 0
    for row in rows(tmp_path / "out" / "table_5_3.csv"):
        assert row["verifier_calls_published"] != ""
        assert row["verifier_calls_difference"] == row["operations_difference"] == ""
        difference = float(row["traces_per_claim"]) - float(row["traces_per_claim_published"])
        assert float(row["traces_per_claim_difference"]) == pytest.approx(difference)
    out = tmp_path / "out"
    (totals,) = file_notes(out, "published_totals", "2,495", "40", at=["table_5_3"])
    assert "table_5_8" not in totals["at"]
    assert file_notes(out, "published_cap", "15", "14", at=["table_5_3"])
    assert file_notes(out, "published_dataset", "QuanTemp", "`small`", at=["table_5_3"])
    assert file_notes(out, "published_verifier", "7B", "`weak`", at=["table_5_8"])


@pytest.mark.slow
def test_claims_beside_other_questions_are_chosen_by_where(study: Run, tmp_path: Path) -> None:
    """Ten of forty questions are open: they are no claims, and the others are studied alone."""
    frames = tables()
    other = pl.col("example_id").is_in(frames["examples"]["example_id"].sort()[:10].implode())
    frames["examples"] = frames["examples"].with_columns(
        dataset=pl.when(other).then(pl.lit("sums")).otherwise(pl.lit("claims")), labels=pl.when(~other).then("labels")
    )
    log = written(tmp_path / "log", frames)
    done = study(log, "--verifier", "strong", "--caps", "15")
    assert done.exit_code == 2
    says(done, "unsuitable", "`--where`", "\"dataset = 'claims'\"")
    done = study(log, "--verifier", "strong", "--caps", "15", "--where", "dataset = 'claims'")
    assert done.exit_code == 0, done.output
    assert float(rows(tmp_path / "out" / "table_5_3.csv")[0]["trace_attempts"]) == 30 * 15


def test_a_log_without_verifications_is_refused(study: Run, tmp_path: Path) -> None:
    frames = tables()
    del frames["verifications"]
    done = study(written(tmp_path / "log", frames), "--caps", "15")
    assert done.exit_code == 2
    says(done, "unsuitable", "`[[verify]]`")


def test_a_null_feature_makes_examples_partial_and_is_named(tmp_path: Path) -> None:
    from replay import Margin, Sample, run

    frames = tables()
    hole = pl.col("trace_id") == frames["features"]["trace_id"].sort()[1]
    frames["features"] = frames["features"].with_columns(length=pl.when(~hole).then("length"))
    log = written(tmp_path / "log", frames)
    keys = {"max_traces": 15, "verifier": "strong", "order": "surrogate", "stop": Margin()}
    result = run(log, Sample(name="s", features=("claim_similarity", "length"), **keys), resamples=5)
    (why,) = result.excluded.values()
    quotes(why, "s: ", "`length`")
    assert run(log, Sample(name="s", features=("claim_similarity",), **keys), resamples=5).excluded == {}


def test_the_null_feature_that_is_named_is_the_one_that_was_read(tmp_path: Path) -> None:
    """`claim_similarity` is null for a trace beyond the cap, `length` for one that the surrogate chooses from."""
    from replay import Budget, Sample, run

    frames = tables()
    claim = frames["examples"]["example_id"].sort()[0]
    valid = frames["traces"].filter((pl.col("example_id") == claim) & pl.col("answer").is_not_null())
    ids = valid.sort("sample_index")["trace_id"].to_list()
    late, soon = pl.col("trace_id") == ids[-1], pl.col("trace_id") == ids[1]
    frames["features"] = frames["features"].with_columns(
        claim_similarity=pl.when(~late).then("claim_similarity"), length=pl.when(~soon).then("length")
    )
    keys = {"max_traces": 5, "verifier": "strong", "order": "surrogate", "stop": Budget(verifications=3)}
    policy = Sample(name="s", features=("claim_similarity", "length"), **keys)
    result = run(written(tmp_path / "log", frames), policy, resamples=5)
    (why,) = result.excluded.values()
    quotes(why, "s: ", "`length`")


@pytest.mark.slow
def test_a_study_names_the_null_feature(study: Run, tmp_path: Path) -> None:
    """One claim of 40 is left out; where most are, the surrogate goes and the other methods stay."""
    frames = tables()
    whole = frames["features"]
    hole = pl.col("trace_id") == whole["trace_id"].sort()[1]
    frames["features"] = whole.with_columns(length=pl.when(~hole).then("length"))
    words = ("--verifier", "strong", "--caps", "15", "--features", "claim_similarity,length")
    done = study(written(tmp_path / "few", frames), *words)
    assert done.exit_code == 0, done.output
    report = (tmp_path / "out" / "report.md").read_text()
    assert "1 of 40" in report
    assert "`length` is" in report

    half = pl.col("trace_id").hash() % 2 == 0
    frames["features"] = whole.with_columns(length=pl.when(~half).then("length"))
    done = study(written(tmp_path / "many", frames), *words)
    assert done.exit_code == 0, done.output
    calls = {row["Method"]: row["verifier_calls"] for row in rows(tmp_path / "out" / "table_5_6.csv")}
    assert calls[TITLES[SURROGATE]] == ""
    assert float(calls["Exhaustive BoN (baseline)"]) > 0
    for name in ("table_5_6", "table_B_4", "orders", "variants", "budget_smallest"):
        assert "`length` is" in (tmp_path / "out" / f"{name}.md").read_text()
    budgets = rows(tmp_path / "out" / "table_B_4.csv")
    assert {row["surrogate_macro_f1_pct"] for row in budgets} == {""}
    assert all(float(row["generation_order_macro_f1_pct"]) >= 0 for row in budgets)
    assert (tmp_path / "out" / "figure_5_2.svg").exists()


def test_no_valid_trace_at_all(study: Run, tmp_path: Path) -> None:
    frames = tables()
    frames["traces"] = frames["traces"].with_columns(answer=pl.lit(None, pl.String), correct=pl.lit(False))
    log = written(tmp_path / "log", frames)
    done = study(log, "--verifier", "strong", "--caps", "15")
    assert done.exit_code == 0, done.output
    counts = rows(tmp_path / "out" / "table_5_3.csv")
    assert [float(row["verifier_calls"]) for row in counts] == [0, 0]
    assert [float(row["missing_label_traces"]) for row in counts] == [600, 600]
    assert {row["accuracy_pct"] for row in rows(tmp_path / "out" / "table_5_1.csv")} == {"0.0"}
    (words,) = {note["text"].removeprefix("WARNING: ") for note in file_notes(tmp_path / "out", "no_valid_answer")}
    assert words in " ".join(done.stdout.split())
    for name in FIGURES:
        assert words in (tmp_path / "out" / f"{name}.svg").read_text(), name
    assert file_notes(tmp_path / "out", "no_savings", TITLES[ADAPTIVE], at=["table_5_6"])
    for name in ("report", "table_5_1", "table_5_8", "table_5_12", "gold_within"):
        assert words in (tmp_path / "out" / f"{name}.md").read_text(), name


@pytest.mark.slow
@pytest.mark.usefixtures("tables_only")
def test_labels_outside_the_label_space_are_invalid(study: Run, tmp_path: Path) -> None:
    frames = tables()
    odd = pl.col("sample_index") == 2
    frames["traces"] = frames["traces"].with_columns(
        answer=pl.when(odd).then(pl.lit("perhaps")).otherwise("answer"),
        correct=pl.when(odd).then(pl.lit(False)).otherwise("correct"),
    )
    assert study(written(tmp_path / "log", frames), "--verifier", "strong", "--caps", "15").exit_code == 0
    best = rows(tmp_path / "out" / "table_5_3.csv")[0]
    null = frames["traces"].filter(~odd)["answer"].null_count()
    assert float(best["missing_label_traces"]) == 40 + null
    assert file_notes(tmp_path / "out", "outside_labels", "40 traces", "(`perhaps`)")


def test_labels_outside_are_counted_and_the_most_frequent_named(tmp_path: Path) -> None:
    """Of one label each for six: five are named. Only traces that are read count, and only answers of closed spaces."""
    from replay import Sample, run

    frames = tables()
    odd = pl.col("sample_index") < 6
    strange = pl.format("x{}", "sample_index")
    frames["traces"] = frames["traces"].with_columns(
        answer=pl.when(odd).then(strange).otherwise("answer"),
        correct=pl.when(odd).then(pl.lit(False)).otherwise("correct"),
    )
    log = written(tmp_path / "log", frames)
    policy = Sample(name="vote", max_traces=15, select="majority")
    noted(run(log, policy, resamples=5).notes, "outside_labels", "240", "(`x0`, `x1`, `x2`, `x3`, `x4`, …)")
    ids = frames["examples"]["example_id"].sort()
    one = run(log, policy, resamples=5, where=f"example_id = '{ids[0]}'", block_examples=1).notes
    assert noted(one, "outside_labels").text.startswith("6 ")
    open_ = frames["examples"].with_columns(labels=pl.lit(None, pl.List(pl.String)))
    free = written(tmp_path / "open", frames | {"examples": open_})
    assert "outside_labels" not in {note.code for note in run(free, policy, resamples=5).notes}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--published", "quantemq"), ("quantemp",)),
        (("--pool", "n51"), ("n15",)),
        (("--verifier", "loro"), ("lora",)),
        (("--features", "claim_similarty"), ("claim_similarity",)),
        (("--caps", "15,x"), ("--caps",)),
        (("--where", "splt = 'test'"), ("where",)),
        (("--dev", "split = 'dev'", "--where", "true"), ("`--dev`", "reported")),
        (("--dev", "splt = 'dev'"), ("`--dev` (splt = 'dev')", "split")),
        (("--dev", "split = 'x'"), ("`--dev`", "split = 'x'")),
        (("--other-verifier", "deepseek"), ("deepseek",)),
        (("--dev", "true"), ("`--dev` (true)", "[empty]")),
        (("--verifier", "lora", "--other-verifier", "lora"), ("`--other-verifier` is `lora`",)),
        (("--published", ""), ("`--published` names no data set",)),
        (("--cap", "16"), ("`--cap` is 16,", "`n15`", " 15 ")),
    ],
)
def test_mistakes_are_one_line(claims: Path, study: Run, tmp_path: Path, options: tuple, words: tuple) -> None:
    done = study(claims, *options)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_variant_that_cannot_be_fitted_is_missing_and_the_others_stay(study: Run, tmp_path: Path) -> None:
    """Ten claims to learn from, all traces right on them: no calibration, and no class but theirs for thresholds."""
    frames = tables()
    dev = pl.col("example_id").is_in(frames["examples"]["example_id"].sort()[:10].implode())
    frames["examples"] = frames["examples"].with_columns(
        split=pl.when(dev).then(pl.lit("dev")).otherwise(pl.lit("test"))
    )
    gold = dict(frames["examples"].select("example_id", "gold").iter_rows())
    right = pl.col("example_id").replace_strict(gold, return_dtype=pl.String)
    valid = pl.col("answer").is_not_null()
    frames["traces"] = frames["traces"].with_columns(
        answer=pl.when(dev & valid).then(right).otherwise("answer"),
        correct=pl.when(dev & valid).then(True).otherwise("correct"),
    )
    words = ("--verifier", "strong", "--caps", "15", "--dev", "split = 'dev'")
    done = study(written(tmp_path / "log", frames), *words)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "out" / "variants.md").read_text()
    quotes(text, "`margin of platt scores`: `calibration.on` (split = 'dev')")
    names = {row["Policy"] for row in rows(tmp_path / "out" / "variants.csv")}
    assert {"adaptive stopping", "prior: linear", "prior: gp"} <= names
    assert "margin of platt scores" not in names


def test_open_answers_are_refused(study: Run, tmp_path: Path) -> None:
    frames = simulate_tables(examples=20, traces=15, labels=0, seed=1)
    done = study(written(tmp_path / "log", frames), "--pool", "n15", "--verifier", "strong")
    assert done.exit_code == 2
    assert "label" in done.stderr


@pytest.mark.parametrize("forgetting", ["0", "1.5", "-1", "true", '"x"'])
def test_forgetting_outside_its_range_is_refused(claims: Path, tmp_path: Path, forgetting: str) -> None:
    text = f"""
[[policy]]
name = "s"
kind = "sample"
max_traces = 15
verifier = "lora"
order = "surrogate"
forgetting = {forgetting}
"""
    (tmp_path / "p.toml").write_text(text)
    words = ["replay", str(claims), "--policies", str(tmp_path / "p.toml"), "--out", str(tmp_path / "o")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "`forgetting`" in done.stderr
    assert "above 0 and at most 1" in done.stderr
