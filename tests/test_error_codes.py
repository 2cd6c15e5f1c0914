"""Every kind of error has a code of its own, which the manual names."""

from __future__ import annotations

import re
from pathlib import Path

import generate.engines.base
import generate.signals.signal
import toolkit.log  # noqa: F401
from toolkit.errors import ThinkbackError

MANUAL = Path(__file__).resolve().parents[1] / "docs/python.md"


def kinds(kind: type[ThinkbackError]) -> list[type[ThinkbackError]]:
    return [one for each in kind.__subclasses__() for one in (each, *kinds(each))]


def test_the_manual_has_every_code_and_no_two_kinds_share_one() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| `(\w+Error)` \|", MANUAL.read_text(encoding="utf-8"), re.MULTILINE))
    ours = [one for one in kinds(ThinkbackError) if not one.__module__.startswith("tests")]
    assert rows == {one.code: one.__name__ for one in ours}
    assert len(rows) == len(ours)


def test_an_error_about_something_keeps_its_kind() -> None:
    error = ThinkbackError("`x` is 3").about("policy `p`: ")
    assert (str(error), error.code) == ("policy `p`: `x` is 3", "error")
