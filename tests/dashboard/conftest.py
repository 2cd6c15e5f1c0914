"""A saved result with everything in it, its page, and a browser; without one the tests in it are skipped, loudly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import replay
from generate.simulation.grid import simulate
from replay import Result
from replay.runs.saved.saved_folder import read_sealed, write_sealed
from tests.browser import FLAGS, chromium_program
from tests.logs import drawn

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOUD = (
    "NO BROWSER, so the dashboard was not tried in one: install Chromium (Debian: apt-get install chromium) and "
    "pip install '.[test]'"
)
POLICIES = """
[[policy]]
name = "first"
kind = "sample"
pool = "n8"
max_traces = 1
select = "first"

[[policy]]
name = "majority"
kind = "sample"
pool = "n8"
max_traces = [2, 4, 8]
select = "majority"

[[policy]]
name = "margin"
kind = "sample"
pool = "n8"
max_traces = [4, 8]
verifier = "strong"
stop = { rule = "margin", margin = [0.1, 0.3, 0.5] }

[[policy]]
name = "more than there are"
kind = "sample"
pool = "n8"
max_traces = 12
select = "majority"
on_missing = "use_available"

[[policy]]
name = "gated"
kind = "when"
base = { kind = "sample", pool = "probe", max_traces = 1, select = "first" }
gate = { verifier = "strong", below = "all" }
then = { kind = "sample", pool = "n8", max_traces = 8, select = "majority" }

[[policy]]
name = "any of 8"
kind = "oracle"
rule = "any"
of = ["n8"]
"""


log = drawn(simulate, examples=48, traces=8, labels=3, seed=3, name="small")


@pytest.fixture(scope="session")
def saved(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With traces, texts, curves and headroom."""
    found = replay.run(log, POLICIES, baseline="first", by=["split"], resamples=200)
    folder = tmp_path_factory.mktemp("results") / "saved"
    found.save(folder, traces=True, texts=True, curves=True, headroom=True)
    with altered(folder, "traces.parquet") as rows:
        told = "It says: " + pl.col("answer").fill_null("nothing") + "\nfor sample " + pl.col("sample").cast(pl.String)
        rows.append(rows.pop().with_columns(text=told))
    return folder


@contextmanager
def altered(folder: Path, *names: str) -> Iterator[list[pl.DataFrame]]:
    """The frames of a saved result's files, in a list; what is in it at the end is saved, and sealed again."""
    frames = [pl.read_parquet(folder / name) for name in names]
    yield frames
    for name, frame in zip(names, frames, strict=True):
        frame.write_parquet(folder / name)
    _, record = read_sealed(folder)
    write_sealed(folder, {key: value for key, value in record.items() if key != "files"})


@pytest.fixture(scope="session")
def result(saved: Path) -> Result:
    return replay.load(saved)


@pytest.fixture(scope="session")
def page_file(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "page.html"
    result.dashboard(path)
    return path


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = chromium_program()
    if program is None:
        pytest.skip(LOUD)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip(LOUD)
    with sync_playwright() as playing:
        browser = playing.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page that was opened, and what it said and asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def text(self, place: str) -> str:
        return self.page.locator(place).inner_text()

    def js(self, code: str) -> Any:
        return self.page.evaluate(code)

    def settled(self) -> None:
        """Wait until every chart that was asked for is drawn."""
        self.js("Promise.all([...drawn.values()].map((one) => one.turn))")

    def rows(self) -> list[list[str]]:
        return self.js(
            "[...document.querySelectorAll('#table-body tr')].map((r) => [...r.cells].map((c) => c.innerText))"
        )

    def resized(self, width: int) -> None:
        """Make the page so wide, and wait until its charts are laid out for that."""
        self.page.set_viewport_size({"width": width, "height": 900})
        look = f"() => (state.width === {width} ? done() : setTimeout(look, 20))"
        self.js(f"new Promise((done) => {{ const look = {look}; look(); }})")
        self.settled()

    def steps_in_line(self) -> dict[str, list[float]]:
        """Where the first and the last step of the first block stand on the screen, in each of its charts."""
        return self.js(
            """Object.fromEntries([...drawn].filter(([id]) => id.startsWith("block-0-")).map(([id, held]) => {
              const { view, inner } = held;
              const left = inner.querySelector("svg").getBoundingClientRect().left + view.origin()[0];
              const [first, last] = view.scale("x").domain();
              const at = (step) => Math.round(10 * (left + view.scale("x")(step))) / 10;
              return [id, [first + 0.5, last - 0.5].map(at)];
            }))"""
        )

    def each_setting(self) -> None:
        """Give every setting of a sweep a row of its own."""
        self.page.locator("#settings").check()

    def policies(self) -> list[str]:
        return self.js("[...document.querySelectorAll('#table-body tr')].map((row) => row.dataset.policy)")


Open = Callable[..., Opened]


@pytest.fixture
def browse(chromium: Browser) -> Iterator[Open]:
    """Opens pages from disk and offline. Fails on any word on the console, and on any request but the page's files."""
    opened: list[tuple[Opened, Path]] = []

    def open_page(path: Path, address: str = "", **look: Any) -> Opened:
        context = chromium.new_context(offline=True, **{"viewport": {"width": 1200, "height": 900}} | look)
        page = context.new_page()
        page.set_default_timeout(120_000)
        one = Opened(page)
        page.on("console", lambda message: one.said.append(message.text))
        page.on("pageerror", lambda error: one.said.append(str(error)))
        page.on("dialog", lambda dialog: (one.said.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: one.asked.append(request.url))
        opened.append((one, path))
        page.goto(f"{path.as_uri()}{address}")
        page.wait_for_selector("body[data-ready=all]", state="attached")
        one.settled()
        return one

    yield open_page
    for one, path in opened:
        one.settled()
        one.page.context.close()
        own = (path.as_uri(), f"{path.with_suffix('').as_uri()}_texts/")
        assert one.said == []
        assert [url for url in one.asked if not url.startswith(own)] == []
