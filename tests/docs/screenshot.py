"""Takes the manual's screenshots of the dashboard from the shipped logs: `make screenshots`. It needs Chromium."""

from __future__ import annotations

import hashlib
import io
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import replay
from tests.browser import FLAGS, chromium_program
from toolkit.log import open_log

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "toolkit" / "show" / "dashboard"
GIVEN = (
    "replay/runs/page/*.py",
    "replay/runs/saved/display.py",
    "toolkit/show/ranking/ranking.py",
    "toolkit/show/ranking/results.py",
)
"""What decides what the page is given."""
STAMP = "inputs.sha256"


@dataclass(frozen=True)
class Page:
    """A page to take: a log, policies, the example and the policies to pick; block: the name of the question's picture;
    whole: that of the page, if it is taken, too.
    """

    log: Path
    policies: Path
    example: str
    picked: tuple[str, ...]
    block: str
    whole: str | None = None
    baseline: str | None = None
    metric: str | None = None

    @property
    def fragment(self) -> str:
        """What its address ends with."""
        policies = ",".join(quote(name, safe="") for name in self.picked)
        return f"example={self.example}&only=tied&policies={policies}"


DATA = ROOT / "data"
PAGES = (
    Page(DATA / "log", DATA / "logged_order.toml", "algebra_linear_1d-test-00003",
         ("weighted vote[verifier=reflection]", "greedy", "adaptive consistency[stop.confidence=0.8]"),
         "question", whole="dashboard", baseline="greedy"),
    Page(DATA / "multihop", DATA / "retrieval.toml", "invented_world-test-00382",
         ("frontier of each hop", "plain re-ranking"), "rounds", metric="recall_10"),
)  # fmt: skip


def stamp() -> str:
    """What the screenshots are made of: the logs, the policies, and what makes the page and its data."""
    own = [path for path in sorted(ASSETS.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    own += [path for pattern in GIVEN for path in sorted(ROOT.glob(pattern))]
    own += [page.policies for page in PAGES]
    digests = [open_log(page.log).digest() or "" for page in PAGES]
    parts = [*digests, *(path.read_text(encoding="utf-8") for path in own)]
    return hashlib.sha256("\0".join(parts).encode("utf-8")).hexdigest()


def _shots(page: Page, browser: Any) -> Iterator[tuple[str, bytes]]:
    """The pictures of a page, by name."""
    with tempfile.TemporaryDirectory() as place:
        result = replay.run(page.log, page.policies, where="split = 'test'", by=["dataset"], baseline=page.baseline,
                            metric=page.metric)  # fmt: skip
        saved, page_file = Path(place) / "kept", Path(place) / "page.html"
        result.save(saved, traces=True, texts=True, curves=True, headroom=True)
        replay.load(saved).dashboard(page_file)
        tab = browser.new_page(viewport={"width": 1100, "height": 1480})
        tab.set_default_timeout(120_000)
        tab.goto(f"{page_file.as_uri()}#{page.fragment}")
        tab.wait_for_selector("body[data-ready=all]", state="attached")
        tab.wait_for_selector("#texts pre")
        tab.evaluate("window.scrollTo(0, 0)")
        if page.whole is not None:
            yield page.whole, tab.screenshot()
        tab.evaluate("document.querySelector('nav').style.position = 'static'")  # or it stands in the picture
        yield page.block, tab.locator("#blocks").screenshot()
        tab.close()


def take(folder: Path) -> None:
    """Write the screenshots and the stamp of their inputs."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    program = chromium_program()
    if program is None:
        sys.exit("there is no Chromium: install it (Debian: apt-get install chromium)")
    with sync_playwright() as playing:
        browser = playing.chromium.launch(executable_path=program, args=list(FLAGS))
        shots = {name: shot for page in PAGES for name, shot in _shots(page, browser)}
        browser.close()
    for name, shot in shots.items():
        Image.open(io.BytesIO(shot)).convert("RGB").save(folder / f"{name}.png", optimize=True)
    (folder / STAMP).write_text(f"{stamp()}\n", encoding="ascii")


if __name__ == "__main__":
    take(Path(sys.argv[1]))
