"""What is printed of the page, what is copied of its charts, and rounds and checks that are played."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import replay
from generate.simulation.checks import simulate_checks
from generate.simulation.rounds import simulate_rounds
from replay import Result
from tests.dashboard.conftest import Open, Opened
from tests.logs import tables
from tests.seeds import seeds
from toolkit.log import write_log


def sheets(page: Opened) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", page.page.pdf(prefer_css_page_size=True)))


@pytest.mark.parametrize("width", seeds(1, [1400, 390]))
def test_what_is_printed_is_one_sheet(browse: Open, page_file: Path, width: int) -> None:
    """The sentence, the table, cost and quality, and the notes; all parts on request, and once."""
    page = browse(page_file, viewport={"width": width, "height": 900})
    assert sheets(page) == 1
    page.page.emulate_media(media="print")
    shown = page.js(
        "[...document.querySelectorAll('main > section')].filter((one) => one.offsetHeight).map((one) => one.id)"
    )
    assert shown == ["ranking", "plane-section", "notes-section"]
    assert page.page.locator("#takeaway:visible, #warnings:visible, #plane svg:visible, #notes li:visible").count() > 4
    page.page.emulate_media(media="screen")
    page.js("window.print = () => { window.printed = document.body.dataset.print; }")
    page.page.click("#print-all")
    assert page.js("window.printed") == "all"
    assert sheets(page) > 3
    page.js("window.dispatchEvent(new Event('afterprint'))")
    assert page.js("document.body.dataset.print === undefined")


def test_charts_are_copied(browse: Open, page_file: Path, saved: Path) -> None:
    """The numbers as a table of LaTeX, the picture as SVG, and the command that draws it."""
    page = browse(page_file)
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copied = {}
    for what in ("LaTeX", "figure", "command"):
        page.page.focus(f"#forest-copy-{what}")
        page.page.keyboard.press("Enter")
        page.page.wait_for_function(
            "(what) => document.querySelector('#forest-copied').textContent.startsWith(what)", arg=what
        )
        copied[what] = page.js("navigator.clipboard.readText()")
    latex = copied["LaTeX"].splitlines()
    assert latex[:2] == ["\\begin{tabular}{lrrl}", "\\toprule"]
    assert latex[2] == "policy & $\\Delta$ points, minus first & p & told \\\\"
    assert len(latex) == len(page.js("drawn.get('forest').view.data('rows')")) + 6
    assert copied["figure"].startswith("<svg")
    assert copied["command"] == f"thinkback figure {saved} forest --out forest.pdf --baseline first"
    assert page.js("latexText('a_b & 5 % − {x} \\\\')") == r"a\_b \& 5 \% $-$ \{x\} \textbackslash{}"
    assert page.js("[shellWord('a b'), shellWord(\"it's\")]") == ["'a b'", "'it'\\''s'"]
    charts = page.js("[...document.querySelectorAll('.copies')].map((one) => one.id)")
    assert {f"{name}-copies" for name in ("plane", "forest", "changes", "headroom", "curves")} <= {*charts}


PLAYED = """(chart) => {
  const { view, inner } = drawn.get(chart);
  const marks = [...inner.querySelectorAll(".mark-symbol.role-mark path")];
  const data = chart.endsWith("claims") ? "checks" : "clusters";
  return [marks.filter((one) => one.getAttribute("opacity") !== "0").length, view.data(data).map((one) => one.step)];
}"""
"""How many marks of a chart are seen, and the step of each of its rows."""


@pytest.mark.parametrize("kind", ["rounds", "checks"])
def test_rounds_and_checks_play(browse: Open, tmp_path: Path, kind: str) -> None:
    """At each moment what has come until then is seen, and each policy stops where it stopped."""
    simulate, chart = {"rounds": (simulate_rounds, "clusters"), "checks": (simulate_checks, "claims")}[kind]
    simulate(tmp_path / "log", examples=24, seed=1)
    result = replay.run(tmp_path / "log", resamples=50)
    result.save(tmp_path / "saved", traces=True)
    replay.load(tmp_path / "saved").dashboard(tmp_path / "page.html")
    page = browse(tmp_path / "page.html", f"#example={result.outcomes.collect()['example_id'][0]}")
    moments = page.js("moments()")
    assert len(moments) > 1
    page.page.focus("#play-bar")
    page.page.keyboard.press("Home")
    page.settled()
    stopped = 0
    for moment in [0, *moments[:-1]]:
        seen, steps = page.page.evaluate(PLAYED, f"block-0-{chart}")
        assert seen == sum(step <= moment for step in steps)
        stopped += "here stops" in page.text("#play-said")
        page.page.keyboard.press("ArrowRight")
        page.settled()
    seen, steps = page.page.evaluate(PLAYED, f"block-0-{chart}")
    assert seen == len(steps)
    stopped += "here stops" in page.text("#play-said")
    assert stopped
    page.js("play.pause = 1")
    page.page.focus("#play")
    page.page.keyboard.press("Enter")
    page.js("new Promise((done) => { const look = () => (play.on ? setTimeout(look, 20) : done()); look(); })")
    assert page.js("play.now === ALL")


def test_traces_of_one_request_are_joined(browse: Open, tmp_path: Path) -> None:
    """One request brings the traces 1, 2 and 6, another 4 and 5; what does not stand beside another stays apart."""
    small = tables({"p": {"e1": [("A", 0.5)] * 6}}, {"e1": "A"})
    replies = ["r1", "r1", None, "r2", "r2", "r1"]
    small["traces"] = small["traces"].sort("sample_index").with_columns(request=pl.Series(replies, dtype=pl.String))
    write_log(tmp_path / "log", name="small", tables=small)
    vote = replay.Sample(name="vote", max_traces=6, select="majority")
    replay.run(tmp_path / "log", [vote], resamples=20).save(tmp_path / "saved", traces=True)
    paid = pl.read_parquet(tmp_path / "saved" / "traces.parquet").sort("sample")
    assert paid["reply"].to_list() == [0, 0, 2, 3, 3, 0]
    replay.load(tmp_path / "saved").dashboard(tmp_path / "page.html")
    page = browse(tmp_path / "page.html", "#example=e1")
    lines = page.js(
        "drawn.get('block-0-traces').view.data('requests').map(({ from, to, request }) => [from, to, request])"
    )
    assert lines == [[0.6, 2.4, "one request of 3 traces here"], [3.6, 5.4, "one request of 2 traces here"]]
    assert page.js("drawn.get('block-0-traces').inner.querySelectorAll('.mark-rule line').length") >= 2
    page.js("document.querySelector('#block-0-numbers').open = true")
    assert page.text("#block-0-numbers").count("one request of 2 traces here") == 2
    assert page.text("#block-0-numbers").count("one request of 3 traces here") == 3


def test_what_is_not_drawn_of_a_question_is_said(browse: Open, page_file: Path, result: Result) -> None:
    """Of 13 picked policies the table of a question has 12."""
    page = browse(page_file, f"#example={result.examples['example_id'][0]}")
    assert page.page.locator("#example-cut").count() == 0
    page.js("change({ picked: [...Array(13).keys()] })")
    page.page.locator("#example-cut", has_text="12 of 13 policies are shown.").wait_for()
    assert page.page.locator("#example-outcomes tbody tr").count() == 12
