"""What passages say, read by patterns of their own: an independent check that a world is consistent."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

DATE, NAME, TOWN = r"(\d+ \w+ \d{4})", r"([A-Z]\w+ [A-Z]\w+)", r"([A-Z]\w+)"
BORN, JOB = r"(?:, born in \d+)?", r"(?:, \w+)?"
PATTERNS = [
    ("born", rf"was born on {DATE}"), ("birthplace", rf"was born in {TOWN}"), ("died", rf"died on {DATE}"),
    ("occupation", r"had the occupation ([a-z ]+)"), ("father", rf"had the father {NAME}{BORN}"),
    ("mother", rf"had the mother {NAME}{BORN}"), ("spouse", rf"married {NAME}(?: and later {NAME})?"),
    ("child", rf"had the child {NAME}"), ("child", rf"had the children {NAME} and {NAME}"),
    ("maker", rf"was (?:directed|written|composed) by {NAME}{JOB}"), ("released", r"came out in (\d+)"),
    ("region", rf"lies in {TOWN}"), ("founded", r"was founded in (\d+)"), ("capital", rf"has the capital {TOWN}"),
    ("governor", rf"was governed by {NAME}"),
]  # fmt: skip
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]

RELATIONS = {"writer": "maker", "director": "maker", "composer": "maker", "birthplace": "birthplace",
             "father": "father", "mother": "mother", "spouse": "spouse", "child": "child", "region": "region",
             "capital": "capital", "governor": "governor"}  # fmt: skip
CLAUSE = re.compile(r" (?=(?:was|had|married|died|came|lies|has) )")
"""Where what a sentence says begins, behind its subject."""


def read_facts(passages: Iterable[tuple[str, str]]) -> dict[tuple[str, str], set[str]]:
    """(name, relation) -> values, of titles and texts; the name of a work with its kind. A sentence that no pattern
    reads is an error.
    """
    facts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for title, text in passages:
        for sentence in re.findall(r"[^.]+\.", text):
            match = re.fullmatch(rf"(?:The (film |novel |song ))?{re.escape(title)} (.+)\.", sentence.strip())
            assert match is not None, sentence
            (relation, values) = next(
                (name, m.groups()) for name, one in PATTERNS if (m := re.fullmatch(one, match[2]))
            )
            facts[f"{match[1] or ''}{title}", relation].update(value for value in values if value is not None)
    return dict(facts)


def day_of(date: str) -> tuple[int, int, int]:
    """A date as year, month and day."""
    day, month, year = date.split()
    return int(year), MONTHS.index(month) + 1, int(day)
