"""What passages say, read by patterns of their own: an independent check that a world is consistent."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

DATE, NAME, TOWN = r"(\d+ \w+ \d{4})", r"([A-Z]\w+ [A-Z]\w+)", r"([A-Z]\w+)"
JOB = r"(?:the \w+ )?"
PATTERNS = [
    (rf"(?:He|She) was born on {DATE} in {TOWN}\.", ("born", "birthplace")),
    (rf"Born in {TOWN} on {DATE}\.", ("birthplace", "born")),
    (rf"(?:He|She) was a ([a-z ]+) and died on {DATE}\.", ("occupation", "died")),
    (rf"The ([a-z ]+) died on {DATE}\.", ("occupation", "died")),
    (r"(?:He|She) worked as a ([a-z ]+)\.", ("occupation",)),
    (r"Known as a ([a-z ]+)\.", ("occupation",)),
    (rf"(?:His|Her) father was {NAME} and (?:his|her) mother {JOB}{NAME}\.", ("father", "mother")),
    (rf"Child of {NAME} and {JOB}{NAME}\.", ("father", "mother")),
    (rf"The (?:film|novel|song) of (\d+) was (?:directed|written|composed) by {NAME}(?:, born in \d+)?\.",
     ("released", "maker")),
    (rf"A (?:film|novel|song) from (\d+), (?:directed|written|composed) by {NAME}(?:, born in \d+)?\.",
     ("released", "maker")),
    (rf"The town in {TOWN} was founded in (\d+)\.", ("region", "founded")),
    (rf"A town of {TOWN}, founded in (\d+)\.", ("region", "founded")),
    (rf"The region has the capital {TOWN} and was governed by {NAME}\.", ("capital", "governor")),
    (rf"A region governed by {NAME}, with the capital {TOWN}\.", ("governor", "capital")),
]  # fmt: skip
MARRIED = re.compile(
    rf"(?:(?:He|She) m|M)arried {NAME}(?: and later {NAME})?(?:, with (?:a child|children) {NAME}(?: and {NAME})?)?\."
)
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


def kind_of_work(text: str) -> str:
    """`film`, `novel` or `song` where a passage is of one, else empty: works of one title differ by it."""
    match = re.match(r"(?:The|A) (film|novel|song) (?:of|from) ", text)
    return f"{match[1]} " if match else ""


def read_facts(passages: Iterable[tuple[str, str]]) -> dict[tuple[str, str], set[str]]:
    """(name, relation) -> values, of titles and texts. A passage that no pattern reads is an error."""
    facts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for title, text in passages:
        if match := MARRIED.fullmatch(text):
            for relation, value in zip(("spouse", "spouse", "child", "child"), match.groups(), strict=True):
                if value is not None:
                    facts[title, relation].add(value)
            continue
        (relations, match) = next((names, m) for pattern, names in PATTERNS if (m := re.fullmatch(pattern, text)))
        for relation, value in zip(relations, match.groups(), strict=True):
            facts[f"{kind_of_work(text)}{title}", relation].add(value)
    return dict(facts)


def day_of(date: str) -> tuple[int, int, int]:
    """A date as year, month and day."""
    day, month, year = date.split()
    return int(year), MONTHS.index(month) + 1, int(day)
