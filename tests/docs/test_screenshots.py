"""The screenshots are of the page as it is made now, of the shipped log."""

from __future__ import annotations

from tests.docs.screenshot import ROOT, STAMP, stamp

FOLDER = ROOT / "docs" / "screenshots"


def test_the_screenshots_are_of_these_inputs() -> None:
    assert (FOLDER / STAMP).read_text(encoding="ascii").strip() == stamp(), "run `make screenshots`"


def test_they_are_small() -> None:
    assert all(path.stat().st_size < 300_000 for path in FOLDER.iterdir())
