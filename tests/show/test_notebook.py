"""What a notebook shows of values, figures, errors and progress."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
import rich.console
from PIL import Image

import thinkback as tb
from generate.simulation.grid import simulate
from replay.analyses.recommend.recommend import Recommendation
from tests.errors import refuses
from tests.logs import drawn
from toolkit import progress as bars
from toolkit.errors import ThinkbackError, user_code
from toolkit.show import table_of
from toolkit.show.drawing.style import SCREEN_DPI, style

FEW = tb.Settings(resamples=20)
HOSTILE = "<script>alert(1)</script>"


log = drawn(simulate, examples=40, traces=4, labels=3, seed=5, name=HOSTILE)


def test_values_show_themselves_and_nothing_of_a_log_is_markup(log: Path) -> None:
    vote = tb.Sample(name="vote", pool="n4", max_traces=4, select="majority")
    shown: dict[str, Any] = {
        "The log": tb.open_log(log),
        "examples": tb.describe_log(tb.open_log(log)),
        "[[policy]]": tb.suite(log),
        "<th>votes</th>": tb.explain(log, [vote], "vote", "sim5-000000000"),
        "is chosen on": tb.tune(log, [vote], goal="min traces", settings=FEW),
    }
    show_themselves(shown)


@pytest.mark.slow
def test_so_do_those_that_take_long(log: Path) -> None:
    show_themselves({
        "<th>policy</th>": tb.report(log, settings=FEW),
        "strategy beat": tb.frontier(log, settings=FEW, orders=2),
    })  # fmt: skip


def show_themselves(shown: dict[str, Any]) -> None:
    for told, value in shown.items():
        html = value._repr_html_()
        assert told in html
        assert "<script>" not in html
        assert "imulated log" in html or told == "[[policy]]", told  # a suite is a file of policies, and has no number


def test_studies_and_recommendations_show_what_they_say() -> None:
    table = table_of(pl.DataFrame({"a": [1]}), "First")
    study = tb.StudyReport(HOSTILE, {"first": table}, {}, lead=("of `two`",), screen=(table,))
    shown = study._repr_html_()
    assert "<script>" not in shown
    assert "<p>of <code>two</code></p>" in shown
    assert "<caption>First</caption>" in shown
    assert "<li><code>first</code></li>" in shown
    advice = Recommendation("vote", (f"`{HOSTILE}` is best",), (), None, None, ())._repr_html_()
    assert advice.startswith("<p><strong>vote</strong></p><ul><li><code>&lt;script&gt;")


def test_names_beside_a_table_are_code_and_its_cells_are_as_they_are() -> None:
    shown = table_of(pl.DataFrame({"answer": ["`a`"]}), f"Of `{HOSTILE}`", notes=["by `b`"]).html()
    assert "<caption>Of <code>&lt;script&gt;" in shown
    assert "<small>by <code>b</code></small>" in shown
    assert "<td>`a`</td>" in shown


def test_a_figure_is_a_picture_once(log: Path) -> None:
    figure = tb.run(log, settings=FEW).frontier(width="3.3in")
    data, size = figure._repr_png_()
    assert data.startswith(b"\x89PNG")
    assert size["width"] == 363
    assert len(data) < 100_000
    with style():
        figure.savefig(drawn := io.BytesIO(), format="png", dpi=SCREEN_DPI)
    pixels = [np.asarray(Image.open(one).convert("RGB"), int) for one in (io.BytesIO(data), drawn)]
    assert np.abs(pixels[0] - pixels[1]).max() < 12  # of 255: fewer colours, the same to an eye
    assert figure._repr_html_() is None  # a second picture of the same would stand there


def test_an_error_is_one_line() -> None:
    assert ThinkbackError("one\ntwo three")._render_traceback_() == ["ThinkbackError: one two three"]


def test_an_error_of_a_rule_in_a_cell_names_the_line_alone() -> None:
    cell = compile("\n\n1 / 0", "/any/ipykernel_17/1234.py", "exec")
    with refuses("rule", "3"), user_code("it"):
        exec(cell)


class Display:
    """What IPython would show, in the order in which it is told."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, data: dict[str, str], raw: bool, display_id: bool) -> Display:
        assert (raw, display_id) == (True, True)
        self.shown.append(data)
        return self

    def update(self, data: dict[str, str], raw: bool) -> None:
        self.shown.append(data)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Display:
    seen = Display()
    for name in ("IPython", "IPython.display"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["IPython.display"].display = seen.display  # type: ignore[attr-defined]
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    return seen


def test_progress_is_a_bar_that_goes(kernel: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.1, 0.7, 0.8, 2.0])
    monkeypatch.setattr(bars, "monotonic", lambda: next(clock))
    with bars.progress("replaying <log>", 8, "examples") as advance:
        for _ in range(4):
            advance(2)
    assert [one["text/plain"] for one in kernel.shown] == [
        "replaying <log> 4/8, 5.7 examples/s, 1 s left",
        "replaying <log> 8/8, 4.0 examples/s, 0 s left",
        "",
    ]
    assert '<progress max="8" value="4"></progress>' in kernel.shown[0]["text/html"]
    assert "replaying &lt;log&gt;" in kernel.shown[0]["text/html"]
    assert kernel.shown[-1]["text/html"] == ""


def test_a_table_as_text_is_not_displayed_on_its_own(kernel: Display) -> None:
    assert "| a" not in table_of(pl.DataFrame({"a": [1]})).terminal()
    assert table_of(pl.DataFrame({"a": [1]})).terminal() == "a\n─\n1\n"
    assert kernel.shown == []


def test_short_work_has_no_bar(kernel: Display) -> None:
    with bars.progress("replaying", 8) as advance:
        advance(8)
    assert kernel.shown == []


def test_a_pipe_has_no_bar(capfd: pytest.CaptureFixture[str]) -> None:
    with bars.progress("replaying", 8) as advance:
        advance(8)
    assert capfd.readouterr() == ("", "")


class Tee:
    """What some programs put in the place of a stream."""

    def write(self, text: str) -> int:
        return len(text)


@pytest.mark.parametrize("kind", ["tee", "closed", "none"])
def test_no_bar_where_the_stream_is_none(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", {"tee": Tee(), "closed": closed, "none": None}[kind])
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with bars.progress("replaying", 2, "blocks") as advance:
        advance()
        advance(1)
