"""The commands that a page copies: each runs as it stands, where the page was made, and gives what its chart shows."""

from __future__ import annotations

import csv
import io
import shlex
import shutil
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest
from typer.testing import CliRunner

import replay
from replay import Sample
from tests.dashboard.conftest import Open, Opened
from tests.dashboard.test_two_results import NEW, OLD, saved_result
from tests.errors import refuses, says
from thinkback.app import app

BUTTONS = "[...document.querySelectorAll('[id$=-copy-command]')].filter((one) => one.offsetParent).map((one) => one.id)"


def copied(page: Opened, chart: str) -> str | None:
    """What a chart's button for its command copies; None where the page says that there is no command."""
    page.page.focus(f"#{chart}-copy-command")
    page.page.keyboard.press("Enter")
    page.page.locator(f"#{chart}-copied", has_text="command").wait_for()
    there = page.text(f"#{chart}-copied") == "command is copied"
    return page.js("navigator.clipboard.readText()") if there else None


def run(line: str) -> str:
    """What a line prints that a shell would read; it succeeds."""
    program, *words = shlex.split(line)
    assert program == "thinkback"
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (line, done.stderr)
    return done.stdout


def rows(text: str) -> dict[str, list[str]]:
    """The rows of CSV by their first cell."""
    return {first: rest for first, *rest in csv.reader(io.StringIO(text))}


def test_every_command_of_a_page_runs_as_it_stands(
    browse: Open, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the folder where the page was made, by the path that it was given: with a blank, an apostrophe, twice."""
    monkeypatch.chdir(tmp_path)
    folder = Path("it's mine") / "result"
    shutil.copytree(saved, folder)
    CliRunner().invoke(app, ["dashboard", str(folder), str(folder), "--out", "page.html"], catch_exceptions=False)
    page = browse(
        tmp_path / "page.html",
        f"#example=sim3-000000001&policies=first,{quote('margin[max_traces=8, stop.margin=0.5]')}",
    )
    page.page.wait_for_selector("#block-0-copies")
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    charts = [one.removesuffix("-copy-command") for one in page.js(BUTTONS)]
    sweeps = page.js("current().sweeps.length")
    named = {"plane", "forest", "changes", "headroom", "captured", "curves", "results", "block-0"}
    assert {*charts} == named | {f"sweep-{number}" for number in range(sweeps)}
    lines = {chart: copied(page, chart) for chart in charts}
    assert None not in lines.values()
    printed = {}
    for chart, text in lines.items():
        assert text is not None
        assert chart == "curves" or "it'\\''s mine/result" in text
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        for file in tmp_path.glob("*.[pc][ds][fv]"):  # what another command has drawn
            file.unlink()
        printed[chart] = [run(line) for line in text.splitlines()]
    changes = rows(printed["changes"][0])
    names = page.js("current().policies.map((one) => one.name)")
    for one in page.js("drawn.get('forest').view.data('rows')"):
        if one["fixes"] is not None:
            assert changes[names[one["number"]]] == [str(one["fixes"]), str(one["flips"])]
    [quality] = page.js("[metric(current().metric)]")
    shown = page.js("drawn.get('sweep-0').view.data('settings').length")
    assert len(rows(printed["sweep-0"][0])) == shown + 1 or "gates" in str(lines["sweep-0"])
    assert all(float(rows(text)["first"][0]) == pytest.approx(quality["estimate"][names.index("first")], abs=1e-4)
               for text in printed["results"])  # fmt: skip
    traces = page.js("drawn.get('block-0-traces').view.data('traces').map((one) => one.sample)")
    assert {*map(str, traces)} <= {*rows(printed["block-0"][0])}
    page.page.select_option("#cost", label="seconds")
    page.settled()
    assert (
        copied(page, "plane") == "thinkback figure 'it'\\''s mine/result' frontier --out frontier.pdf --cost latency_s"
    )
    for cost in page.js("costs().map((one) => one.metric)"):
        page.js(f"change({{ cost: {cost!r} }})")
        (tmp_path / "frontier.pdf").unlink(missing_ok=True)
        (tmp_path / "frontier.csv").unlink(missing_ok=True)
        run(copied(page, "plane") or "")
    page.page.select_option("#baseline", label="any of 8")  # it sees gold: no forest has it as its baseline
    page.settled()
    each = (copied(page, "forest") or "").splitlines()
    assert len(each) == len(page.js("drawn.get('forest').view.data('rows')"))
    assert "any of 8" in run(each[0])
    page.page.select_option("#baseline", label="majority[max_traces=8]")
    page.settled()
    (tmp_path / "forest.pdf").unlink(missing_ok=True)
    (tmp_path / "forest.csv").unlink(missing_ok=True)
    run(copied(page, "forest") or "")


def test_pictures_of_a_question_are_copied_below_one_another(browse: Open, page_file: Path) -> None:
    page = browse(page_file, "#example=sim3-000000001&policies=first")
    page.page.wait_for_selector("#block-0-stops svg")
    heights = page.js(
        "[...document.querySelectorAll('.block .drawing svg')].map((one) => Number(one.getAttribute('height')))"
    )
    parts = page.js(
        "figureOf('block-0').then((text) => [...new DOMParser().parseFromString(text, 'image/svg+xml').documentElement"
        ".children].map((one) => [one.tagName, Number(one.getAttribute('y'))]))"
    )
    assert parts == [["svg", sum(heights[:place])] for place in range(len(heights))]
    assert len(heights) > 2


def test_a_result_that_was_not_saved_has_no_command(browse: Open, log: Path, tmp_path: Path) -> None:
    policies = [Sample(name=f"vote of {most}", pool="n8", max_traces=most, select="majority") for most in (1, 8)]
    [path] = replay.run(log, policies, resamples=50).dashboard(tmp_path / "page.html")
    page = browse(path)
    assert copied(page, "forest") is None


def test_commands_of_two_results_give_what_the_charts_show(
    browse: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Policies of one name with limits for these at once; any two by themselves, also where a name looks like an
    option.
    """
    monkeypatch.chdir(tmp_path)
    policies = [
        Sample(name="-first", max_traces=1, select="first"),
        Sample(name="vote", max_traces=3, select="majority"),
    ]
    for name, firsts in (("new one", NEW), ("old", OLD)):
        saved_result(tmp_path / name, firsts, *policies)
    CliRunner().invoke(app, ["dashboard", "new one", "--with", "old", "--out", "page.html"], catch_exceptions=False)
    page = browse(tmp_path / "page.html")
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    command = "thinkback compare 'new one' --with old --same-names"
    assert [copied(page, "against"), copied(page, "against-changes")] == [command, command]
    run(f"{command} --out both")
    pairs = pl.read_csv("both/pairs.csv").with_columns(pl.col("first", "second").str.strip_prefix("'"))
    shown = {one["name"]: one for one in page.js("drawn.get('against').view.data('rows')")}
    assert {*pairs["first"]} == {*shown} == {"-first", "vote"}
    for first, second, difference, low, high, fixes, flips in pairs.select(
        "first", "second", "difference", "low", "high", "fixes", "flips"
    ).iter_rows():
        assert first == second
        one = shown[first]
        limits = [one[part] for part in ("difference", "low", "high")]
        assert limits == pytest.approx([100 * difference, 100 * low, 100 * high], abs=1e-4)
        assert [one["fixes"], one["flips"]] == [fixes, flips]
    page.page.select_option("#theirs", label="vote")
    page.settled()
    lines = (copied(page, "against") or "").splitlines()
    assert "thinkback compare 'new one' --with old -- -first vote" in lines
    assert ["vote (second)" in run(line) for line in lines] == [line.endswith(" vote vote") for line in lines]


def test_pairs_of_one_name_are_of_two_results(tmp_path: Path) -> None:
    one = replay.load(saved_result(tmp_path / "one", NEW, Sample(name="first", max_traces=1, select="first")))
    other = replay.load(saved_result(tmp_path / "other", OLD, Sample(name="vote", max_traces=3, select="majority")))
    with refuses("required", "`same_names`"):
        one.compare(same_names=True)
    with refuses("conflict", "`same_names`", "`first`", "`vote`"):
        one.compare("first", "vote", other=other, same_names=True)
    with refuses("empty", "same name"):
        one.compare(other=other, same_names=True)
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "one"), "--same-names"])
    says(done, "required", "--same-names")
