"""From a log to a report: two commands, on files as others' programs write them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import replay
import thinkback as tb
from replay.analyses.report import report as reports
from replay.analyses.report import verifier_areas
from replay.analyses.report.report import LogReport, _report_sections, report
from replay.runs.page.dashboard_data import result_data
from replay.runs.saved.display import ranked_input
from replay.runs.saved.promise import within_margin
from tests.errors import quotes, refuses
from tests.logs import log as small_log
from tests.logs import tables
from tests.show.test_document import assert_sound
from toolkit.log import write_log
from toolkit.notes import warning
from toolkit.show import code_of, rank
from toolkit.show.document import Section
from toolkit.show.ranking.ranking import UNLIKE_CALLS

SHIPPED = Path(__file__).resolve().parents[2] / "data" / "log"
SAMPLES = Path(__file__).resolve().parents[1] / "formats" / "samples"
FILES = {
    "lm-eval": SAMPLES / "lm-eval" / "canned__model" / "samples_sums_repeated_2026-11-22T13-55-21.598624.jsonl",
    "inspect": next((SAMPLES / "inspect" / "eval").glob("*.eval")),
}


def assert_complete(folder: Path) -> str:
    """A report whose links and figures are all there, and whose LaTeX is sound; its Markdown."""
    text, tex = (folder / "report.md").read_text(), (folder / "report.tex").read_text()
    assert_sound(tex)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (folder / link).is_file(), link
    drawn = re.findall(r"\\includegraphics\[[^]]*\]\{([^}]+)\}", tex)
    assert drawn
    for path in drawn:
        assert (folder / path).read_bytes().startswith(b"%PDF")
    assert {path.name for path in folder.iterdir()} == {
        "report.md",
        "report.tex",
        "page.html",
        "tables",
        "figures",
        "result",
    }
    assert {path.suffix for path in (folder / "tables").iterdir()} == {".md", ".tex", ".csv"}
    assert replay.load(folder / "result").statistics.n > 0
    return text


@pytest.mark.parametrize("name", [pytest.param("lm-eval", marks=pytest.mark.slow), "inspect"])
def test_two_commands_from_a_file_to_a_report(thinkback: Callable, tmp_path: Path, name: str) -> None:
    done = thinkback("import", name, FILES[name], "--out", "log")
    assert done.exit_code == 0, done.output
    done = thinkback("report", "log", "--out", "report", "--resamples", "50", "--width", "3.3in")
    assert done.exit_code == 0, done.output
    text = assert_complete(tmp_path / "report")
    for heading in ("Best policy", "Headroom", "Assumptions", "Not drawn"):
        assert f"## {heading}" in text
        assert heading in done.stdout
    assert re.search(r"## Headroom\n+[^\n]*`any of \d+`[^\n]* [\d.]+ % \[[\d., ]+\]†:", text)  # of three examples
    assert "report/: report.md, report.tex, tables/, figures/, result/" in done.stdout


@pytest.fixture(scope="module")
def made(log: Path) -> LogReport:
    return report(log, resamples=200)


def test_the_findings_are_the_results_numbers(made: LogReport) -> None:
    said = {section.code: section.sentences for section in made.sections}
    result = made.result
    assert result.baseline == "majority@4"
    assert made.lead[0].startswith("Simulated log")
    leader = result.summary.filter(policy=result.leader, metric="accuracy").row(0, named=True)
    assert "`majority@4`" in said["apart"][0]
    assert f"`{result.leader}`" in said["best"][0]
    assert f"{100 * leader['estimate']:.1f} %" in said["best"][0]
    tokens = dict(result.summary.filter(metric="total_tokens").select("policy", "estimate").iter_rows())
    accuracy = dict(result.summary.filter(metric="accuracy").select("policy", "estimate").iter_rows())
    near = [name for name, value in accuracy.items() if value >= accuracy["majority@4"] - 0.01]
    cheapest = min((name for name in near if not name.startswith("any")), key=tokens.get)
    first, second, *_ = said["cheapest"]
    assert result.statistics.n < 461  # so nothing can be shown to be within a point
    assert (code_of(first), code_of(second)) == ("none_within", "by_estimates")
    quotes(first, " 1 point ", "`majority@4`")
    quotes(second, f"`{cheapest}`, ", "questions (")
    assert made.room.baseline == next(
        name for name in tokens if name.endswith("one sample (mean)")
    )  # where shares begin
    parts = made.room.frame.filter(policy="majority@4").select("measure", "estimate").rows()
    gap = 100 * sum(value for measure, value in parts if measure in ("generation", "stopping", "selection"))
    right = result.summary.filter(policy="majority@4", metric="accuracy").row(0, named=True)
    ends = f"[{100 - 100 * right['high']:.1f}, {100 - 100 * right['low']:.1f}]"
    assert any(f"`majority@4` lacks {gap:.1f} {ends} points" in one for one in said["headroom"])
    assert not any(f"`{result.leader}` lacks" in one for one in said["headroom"])  # it was chosen by what is told of it
    assert repr(made).count("\n") > 5
    assert "\x1b" not in repr(replace(made, sections=(Section("Best policy", ("`\x1b[31m` leads.",)),)))


def test_a_report_is_written_whole_or_not_at_all(
    made: LogReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replace(made, figures={"forest": made.figures["forest"]})
    made.save(tmp_path / "report", width="3.3in")
    text = assert_complete(tmp_path / "report")
    assert "simulated" in text
    assert "true" in (tmp_path / "report" / "figures" / "forest.csv").read_text().splitlines()[1]
    with refuses("exists", "`force`"):
        made.save(tmp_path / "report")

    def broken(*_: object) -> str:
        raise MemoryError

    monkeypatch.setattr(reports, "as_latex", broken)
    with pytest.raises(MemoryError):
        made.save(tmp_path / "report", force=True)
    assert assert_complete(tmp_path / "report") == text
    with pytest.raises(MemoryError):
        made.save(tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.slow
def test_policies_of_ones_own(thinkback: Callable, log: Path, policies: Path, tmp_path: Path) -> None:
    done = thinkback("report", log, "--policies", policies, "--out", "own", "--resamples", "50", "--baseline", "greedy")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "own" / "result" / "run.json").read_text())["baseline"] == "greedy"
    assert thinkback("report", log, "--out", "own").exit_code == 2
    assert thinkback("report", log, "--out", log / "inside").exit_code == 2
    refused = thinkback("report", log, "--out", "new", "--baseline", "nobody", "--resamples", "50")
    assert refused.exit_code == 2
    assert len(refused.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_whole_report_compiles(made: LogReport, tmp_path: Path) -> None:
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("no pdflatex is installed, so no report is compiled; its structure is checked by the other tests")
    made.save(tmp_path / "report")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path / "report", capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]


def test_verifiers_are_told_on_the_examples_reported_where_policies_read_them(made: LogReport, log: Path) -> None:
    """Each with an interval, on the pool of its policies and not where it looks best; by hand over all pairs."""
    (said,) = next(one.sentences for one in made.sections if one.code == "verifiers")
    assert "`strong`" in said
    assert "on `probe`" not in said
    opened = tb.open_log(log)
    ids = made.result.examples["example_id"].implode()
    traces = opened.scan("traces").filter(pl.col("pool") == "n4", pl.col("example_id").is_in(ids))
    scores = opened.scan("verifications").filter(pl.col("verifier") == "strong").select("trace_id", "score")
    known = traces.join(scores, on="trace_id").select("correct", "score").collect().drop_nulls()
    right, wrong = (known.filter(pl.col("correct") == side)["score"].to_numpy() for side in (True, False))
    area = (right[:, None] > wrong).mean() + (right[:, None] == wrong).mean() / 2
    assert re.search(rf"`strong` {area:.3f} \[0\.\d+, \d\.\d+\] on `n4` \(", said)


def test_what_votes_gain_over_one_attempt_is_told_and_shown(made: LogReport) -> None:
    """The difference to the baseline with its sign turned, and both rows and the front's cheapest in the table."""
    said = {section.code: section.sentences for section in made.sections}
    known = dict(made.result.summary.filter(metric="accuracy").select("policy", "estimate").iter_rows())
    one = next(name for name in known if name.endswith("one sample (mean)"))
    gain, again = said["gain"]
    assert again.startswith("These questions, other samples")
    assert gain.startswith(f"From `{one}`, accuracy {100 * known[one]:.1f} %")
    assert f": {100 * (known['majority@4'] - known[one]):+.1f} [".replace("-", "−") in gain
    shown = {name: short for name, short, *_ in made._report_tables()}["policies"]
    names = [row[0] for row in shown.rows]
    assert {one, "majority@4"} <= set(names)
    front = [row for row in rank(ranked_input(made.result)) if row.on_front]
    assert min(front, key=lambda row: row.cost.estimate).policy.name in names


@pytest.mark.slow
def test_other_samples_are_told_of_the_largest_vote_that_the_log_can_say_it_of(made: LogReport, tmp_path: Path) -> None:
    """The baseline takes all four traces; a vote of two has two more to take. The page for a browser says it, too."""
    said = {section.heading.split()[0]: section.sentences for section in made.sections}
    one = next(policy.name for policy in made.result.policies if policy.name.endswith("one sample (mean)"))
    same = made.result.same_questions("majority@2", one)
    assert same.variation_phrase("majority@2", one) in said["Against"][1]
    assert "`majority@4` less" in said["Against"][1]  # and why there is no number of that
    assert same.variation_phrase("majority@2") in said["Best"][-1]
    made.save(tmp_path / "report")
    loaded = replay.load(tmp_path / "report" / "result")
    assert loaded.same_questions().frame.equals(made.same.frame)
    data = result_data(loaded, loaded.folder, "one")
    assert any(same.variation_phrase("majority@2").replace("`", "") in note for note in data["notes"])


def test_every_rule_that_stops_votes_is_told_before_those_of_verifiers(made: LogReport) -> None:
    said = next(one.sentences for one in made.sections if one.heading == "Stopping early")
    rules = ("adaptive consistency 0.8", "adaptive consistency 0.95", "window of 2")
    assert {name for name in rules for one in said[:3] if f"`{name}`" in one} == set(rules)


def test_the_best_threshold_of_a_gate_is_corrected_for_the_choice(log: Path) -> None:
    gate = """
[[policy]]
name = "first"
kind = "sample"
pool = "probe"
max_traces = 1
select = "first"

[[policy]]
name = "gated"
kind = "when"
base = { kind = "sample", pool = "probe", max_traces = 1, select = "first" }
gate = { verifier = "strong", below = [0.3, 0.5, 0.7] }
then = { kind = "sample", pool = "n4", max_traces = 4, select = "majority" }
"""
    made = report(log, gate, resamples=50)
    (said,) = (one.sentences[0] for one in made.sections if one.code == "gates")
    assert re.match(r"`gated\[gate\.below=0\.\d\]`,[a-z ]* 3 [^`]*`probe`", said)
    assert re.search(r" \(\d+\.\d % \[[^]]*\] [a-z ]+\)\.$", said)  # corrected for the choice among three


def test_findings_that_rest_on_order_say_where_it_matters(made: LogReport) -> None:
    order = made.description.order.with_columns(trend_z=pl.lit(4.0))
    findings = _report_sections(
        made.result, replace(made.description, order=order), made.room, (), (), (), made.result.same_questions()
    )
    said = {section.code: section.sentences[-1] for section in findings}
    assert {code for code, last in said.items() if code_of(last) == "not_exchangeable"} == {"stopping", "cheapest"}
    quotes(said["stopping"], "`n4`")
    assert not [one for section in made.sections for one in section.sentences if code_of(one) == "not_exchangeable"]


def test_what_is_cheapest_needs_a_baseline(made: LogReport) -> None:
    alone = replace(made.result, summariser=replace(made.result.summariser, baseline=None))
    order = made.description.order.with_columns(trend_z=pl.lit(4.0))
    findings = _report_sections(alone, replace(made.description, order=order), None, (), ())
    assert "cheapest" not in {section.code for section in findings}


def test_calls_of_several_pools_are_not_compared_as_costs(made: LogReport) -> None:
    told = replace(made.result.statistics, notes=(warning(UNLIKE_CALLS, "calls differ"),))
    same, result = made.result.same_questions(), replace(made.result, statistics=told, notes=told.notes)
    findings = _report_sections(result, made.description, made.room, (), (), (), same)
    said = {section.code: section.sentences for section in findings}
    assert said["cheapest"][0] == "Calls differ."  # the note's own sentence
    assert "instead of" not in said["gain"][0]


def test_pools_of_one_trace_are_compared_with_the_first(tmp_path: Path) -> None:
    pools = {
        "large": {f"e{i}": [("A" if i % 3 else "B", None)] for i in range(40)},
        "small": {f"e{i}": [("A" if i % 2 else "B", None)] for i in range(40)},
    }
    made = report(small_log(tmp_path, pools, {f"e{i}": "A" for i in range(40)}), resamples=50)
    assert made.result.baseline == "large"
    assert made.room is not None
    assert made.room.oracle == "any of 2 pools"


@pytest.mark.parametrize("dear", ["a", "b"])
def test_of_two_models_the_dearest_by_tokens_is_the_baseline(dear: str, tmp_path: Path) -> None:
    pools = {name: {f"e{i}": [("A" if i % 3 else "B", None)] for i in range(40)} for name in ("a", "b")}
    made = tables(pools, {f"e{i}": "A" for i in range(40)})
    tokens = pl.when(pl.col("pool") == dear).then(50).otherwise(5)
    made["traces"] = made["traces"].with_columns(model=pl.col("pool"), completion_tokens=tokens.cast(pl.Int64))
    assert report(write_log(tmp_path / "log", name="two", tables=made), resamples=50).result.baseline == dear


def test_a_name_of_a_column_is_one_of_the_log(log: Path) -> None:
    with refuses("unknown", "`question`", "tb.log"):
        report(log, question="q")


def test_of_budgets_without_tokens_the_smallest_is_the_baseline(tmp_path: Path) -> None:
    pools = {f"budget={b}": {f"e{i}": [("A" if i % 3 else "B", None)] for i in range(40)} for b in (2048, 512, 8192)}
    log = write_log(tmp_path / "log", name="budgets", tables=tables(pools, {f"e{i}": "A" for i in range(40)}))
    assert report(log, resamples=50).result.baseline == "budget=512"


def test_areas_do_not_depend_on_the_order_of_the_scores(
    made: LogReport, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = verifier_areas.scores_of_log

    def shuffled(*given: object) -> pl.DataFrame:
        return scores(*given).sample(fraction=1.0, shuffle=True, seed=4)

    first = verifier_areas.verifier_aucs(tb.open_log(log), made.result)
    monkeypatch.setattr(verifier_areas, "scores_of_log", shuffled)
    assert verifier_areas.verifier_aucs(tb.open_log(log), made.result) == first


@pytest.mark.slow
def test_one_score_in_a_hundred_missing_leaves_the_verifier_in_and_says_so(
    thinkback: Callable, log: Path, tmp_path: Path
) -> None:
    """The whole command on a log that lacks 1 % of a verifier's scores, on 4 % of its examples."""
    opened = tb.open_log(log)
    parts = {name: opened.scan(name).collect() for name in ("examples", "traces", "verifications")}
    gap = (pl.col("verifier") == "strong") & (pl.int_range(pl.len()).over("verifier") % 100 == 7)
    parts["verifications"] = parts["verifications"].filter(~gap)
    write_log(tmp_path / "gaps", name="gaps", tables=parts, simulated=True)
    done = thinkback("report", "gaps", "--out", "report", "--resamples", "50")
    assert done.exit_code == 0, done.output
    text = assert_complete(tmp_path / "report")
    first, *_ = re.findall(r"^## (.*)$", text, flags=re.M)
    assert first == "Left out"  # at the head
    quotes(text.partition("## Best")[0], "`n4`", "`strong`", "on_unscored")
    saved = replay.load(tmp_path / "report" / "result")
    assert {"best of 4 by strong", "margin by strong"} <= {policy.name for policy in saved.policies}
    assert saved.statistics.n == report(log, resamples=20).result.statistics.n  # no question is lost
    assert any(note.code == "unscored" for note in saved.notes)


@pytest.mark.slow
def test_the_shipped_log_is_told_as_its_saved_result_bears_out(thinkback: Callable, tmp_path: Path) -> None:
    """The whole command on two data sets of 1,000 questions, with verifiers that scored one of them alone."""
    done = thinkback("report", SHIPPED, "--out", "report", "--resamples", "200")
    assert done.exit_code == 0, done.output
    text = assert_complete(tmp_path / "report")
    parts: dict[str, str] = {}
    for body in re.split(r"^## ", text, flags=re.M)[1:]:
        parts.setdefault(body.split()[0], body)  # the tables come later
    assert next(iter(parts)) == "Left"
    quotes(parts["Left"], "`reader`", "on_unscored")
    saved = replay.load(tmp_path / "report" / "result")
    within = within_margin(saved, None, "total_tokens")
    assert within is not None
    assert within.policy is not None
    assert within.low is not None
    assert within.low >= -0.01
    quotes(parts["Cheapest"], f"`{within.policy}`", f"at least {100 * within.low:+.1f}".replace("-", "−"))
    assert within.estimated is not None
    quotes(parts["Cheapest"], f"`{within.estimated}`")
    room = saved.headroom()
    assert room.baseline == "one sample (mean)"
    share = room.frame.filter(policy="majority@16", measure="share_of_headroom").row(0, named=True)
    ends = "[" + ", ".join(f"{100 * share[end]:.0f}" for end in ("low", "high")) + "]"
    quotes(parts["Headroom"], f"`majority@16` {100 * share['estimate']:.0f} {ends} %", "`majority@16` lacks")
    same = saved.same_questions()
    assert same.variation_of("majority@16").cell is None  # it takes all
    quotes(parts["Against"], same.variation_phrase("majority@8", "one sample (mean)"))
