"""The house stays within its limits, and the counting counts."""

from __future__ import annotations

from tests.house import LIMITS, House, house


def test_the_house_is_within_its_limits() -> None:
    counts = house().counts()
    assert {name: count for name, count in counts.items() if count > LIMITS[name]} == {}


def test_what_is_counted() -> None:
    """a -> b -> c in one folder; c and b have one importer each, and `__init__` none that counts."""
    small = House(
        {
            "replay": "",
            "replay.a": "import replay.b\ndef one(): ...\ndef _two(): ...\n",
            "replay.b": "from replay import c\nclass Three: ...\n",
            "replay.c": "FOUR = 4\n",
            "thinkback.commands.d": "from replay import a\ndef five(): ...\n",
        },
        frozenset({"replay"}),
    )
    assert small.counts() == {
        "lines": 6, "modules": 3, "modules with one importer": 3, "files in a folder": 3, "imports in a chain": 2,
        "public names": 2,
    }  # fmt: skip
