"""The screenshots are of the page as it is made now, of the shipped log."""

from __future__ import annotations

import pytest

from tests.docs import screenshot
from tests.docs.screenshot import GIVEN, ROOT, STAMP, stamp

FOLDER = ROOT / "docs" / "screenshots"


def test_the_screenshots_are_of_these_inputs() -> None:
    assert (FOLDER / STAMP).read_text(encoding="ascii").strip() == stamp(), "run `make screenshots`"


def test_the_stamp_is_of_what_the_page_is_given_too(monkeypatch: pytest.MonkeyPatch) -> None:
    before = stamp()
    for left in range(len(GIVEN)):
        assert list(ROOT.glob(GIVEN[left]))
        monkeypatch.setattr(screenshot, "GIVEN", GIVEN[:left])
        assert stamp() != before


def test_they_are_small() -> None:
    assert all(path.stat().st_size < 300_000 for path in FOLDER.iterdir())
