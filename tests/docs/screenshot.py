"""Takes the manual's screenshots of the dashboard from the shipped log: `make screenshots`. It needs Chromium."""

from __future__ import annotations

import hashlib
import io
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

import replay
from tests.browser import FLAGS, chromium_program
from toolkit.log import open_log

ROOT = Path(__file__).resolve().parents[2]
LOG, POLICIES = ROOT / "data" / "log", ROOT / "data" / "logged_order.toml"
ASSETS = ROOT / "toolkit" / "show" / "dashboard"
GIVEN = (
    "replay/runs/page/*.py",
    "replay/runs/saved/display.py",
    "toolkit/show/ranking/ranking.py",
    "toolkit/show/ranking/results.py",
)
"""What decides what the page is given."""
SHOWN = ("weighted vote[verifier=reflection]", "greedy", "adaptive consistency[stop.confidence=0.8]")
EXAMPLE = "algebra_linear_1d-test-00003"
STAMP = "inputs.sha256"


def stamp() -> str:
    """What the screenshots are made of: the log, the policies, and what makes the page and its data."""
    own = [path for path in sorted(ASSETS.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    own += [path for pattern in GIVEN for path in sorted(ROOT.glob(pattern))]
    parts = [open_log(str(LOG)).digest() or "", *(path.read_text(encoding="utf-8") for path in [POLICIES, *own])]
    return hashlib.sha256("\0".join(parts).encode("utf-8")).hexdigest()


def take(folder: Path) -> None:
    """Write the screenshots and the stamp of their inputs."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    program = chromium_program()
    if program is None:
        sys.exit("there is no Chromium: install it (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory() as place:
        found = replay.run(str(LOG), POLICIES, where="split = 'test'", by=["dataset"], baseline="greedy")
        saved, page_file = Path(place) / "kept", Path(place) / "page.html"
        found.save(saved, traces=True, texts=True, curves=True, headroom=True)
        replay.load(saved).dashboard(page_file)
        policies = ",".join(quote(name, safe="") for name in SHOWN)
        with sync_playwright() as playing:
            browser = playing.chromium.launch(executable_path=program, args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1100, "height": 1480})
            page.set_default_timeout(120_000)
            page.goto(f"{page_file.as_uri()}#example={EXAMPLE}&only=tied&policies={policies}")
            page.wait_for_selector("body[data-ready=all]", state="attached")
            page.wait_for_selector("#texts pre")
            page.evaluate("window.scrollTo(0, 0)")
            shots = {"dashboard": page.screenshot(), "question": page.locator(".block").last.screenshot()}
            browser.close()
    for name, shot in shots.items():
        Image.open(io.BytesIO(shot)).convert("RGB").save(folder / f"{name}.png", optimize=True)
    (folder / STAMP).write_text(f"{stamp()}\n", encoding="ascii")


if __name__ == "__main__":
    take(Path(sys.argv[1]))
