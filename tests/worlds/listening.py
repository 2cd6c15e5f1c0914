"""What the small models can do with texts about the invented world, measured on their log by plain loops.

    python -m tests.worlds.listening data/listening

prints the tables that the log's README has.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np
import polars as pl

from generate.worlds.passages import statement_of
from generate.worlds.world import Entity
from tests.worlds.measures import Measure, percent, place
from tests.worlds.parsing import CLAUSE, PATTERNS, RELATIONS
from toolkit.log import collect, open_log

LISTENERS = ("listening", "no-filter", "one-shot", "sentences", "second-listening", "second-one-shot")
BINS = (0.5, 0.7, 0.9, 0.99)
"""Where the bins of the reliability table end."""


@cache
def entities() -> dict[str, Entity]:
    """Everybody and everything of the world by name, a work with its kind."""
    return {f"{one.kind} {one.name}" if one.kind in ("film", "novel", "song") else one.name: one
            for one in place().world.entities}  # fmt: skip


def facts_of_claim(claim: str) -> list[str] | None:
    """The facts, as passages tell them, by which a claim is checked; None where it is no claim about the world."""
    parts = CLAUSE.split(claim.removesuffix("."), maxsplit=1)
    relation = next((one for one, of in PATTERNS if len(parts) == 2 and re.fullmatch(of, parts[1])), None)
    steps = [] if relation is None else [relation]
    words = parts[0]
    while match := re.fullmatch(r"[Tt]he (\w+) of (.+)", words):
        steps.append(RELATIONS.get(match[1], ""))
        words = match[2]
    entity = entities().get(re.sub(r"^[Tt]he (?=film |novel |song )", "", words))
    facts = list[str]()
    for step in reversed(steps):
        if not isinstance(entity, Entity) or not (values := place().world.values(entity, step)):
            return None
        facts.append(statement_of(place().world, entity, step))
        entity = values[0] if isinstance(values[0], Entity) else None
    return facts or None


def listening_measures(log: Path) -> list[Measure]:
    """Everything that the README of a log of unfolding texts says about its models."""
    opened = open_log(log)
    examples = collect(opened.scan("examples", ["example_id", "gold_error", "error", "claims"]))
    checks = collect(opened.scan("checks")).join(examples, on="example_id")
    return [measure for pool in LISTENERS for measure in _listener(checks.filter(pool=pool), examples.height, pool)]


def last_checks(checks: pl.DataFrame) -> list[dict[str, object]]:
    """The last row of each claim, without those that say that there is none."""
    rows = checks.sort("example_id", "claim", "round").group_by("example_id", "claim", maintain_order=True).last()
    return rows.filter(pl.col("verdict") != "none").to_dicts()


def judged(row: dict[str, object]) -> tuple[bool, bool] | None:
    """Whether the verdict on a claim of the text is right, and whether its facts are there; None of other claims."""
    claim, facts = str(row["claim_text"]), facts_of_claim(str(row["claim_text"]))
    if facts is None or claim not in row["claims"]:  # type: ignore[operator]
        return None
    evidence = str(row["evidence"] or "")
    truth = "refuted" if claim == row["error"] else "supported"
    return row["verdict"] == truth, all(fact in evidence for fact in facts)


def _listener(checks: pl.DataFrame, texts: int, pool: str) -> list[Measure]:
    rows = last_checks(checks)
    pairs = [pair for row in rows if (pair := judged(row)) is not None]
    refuted = [row for row in rows if row["verdict"] == "refuted"]
    flawed = {row["example_id"] for row in checks.filter("gold_error").to_dicts()}
    errors = {row["example_id"] for row in rows if row["matches_error"]}
    alarms = {row["example_id"] for row in refuted}
    right = len(alarms & flawed) + (texts - len(flawed)) - len(alarms - flawed)
    shares = {
        "found": ("claims of which all facts were found", fmean(there for _, there in pairs)),
        "right": ("the checker right where they were", fmean([one for one, there in pairs if there])),
        "blind": ("the checker right where they were not", fmean([one for one, there in pairs if not there])),
        "named": ("errors that some claim names", len(errors) / len(flawed)),
        "spurious": ("refutations that are spurious", fmean(not row["matches_error"] for row in refuted)),
        "texts": ("texts judged rightly by their first refutation", right / texts),
    }
    return [percent(f"{key}-{pool}", f"`{pool}`: {name}", value) for key, (name, value) in shares.items()]


def reliability(log: Path) -> list[str]:
    """The lines of the reliability table: confidences of verdicts on claims of the texts, and how many are right."""
    opened = open_log(log)
    examples = collect(opened.scan("examples", ["example_id", "gold_error", "error", "claims"]))
    checks = collect(opened.scan("checks")).filter(pool="listening").join(examples, on="example_id")
    right = defaultdict[int, list[tuple[float, bool]]](list)
    for row in last_checks(checks):
        if (pair := judged(row)) is not None and row["verdict"] != "not_enough":
            confidence = float(row["confidence"])  # type: ignore[arg-type]
            right[int(np.searchsorted(BINS, confidence, side="left"))].append((confidence, pair[0]))
    lines = []
    for number, rows in sorted(right.items()):
        low, high = (0, *BINS)[number], (*BINS, 1)[number]
        mean, share = fmean(one for one, _ in rows), fmean(one for _, one in rows)
        lines.append(f"| above {low:g}, to {high:g} | {len(rows):,} | {100 * mean:.1f} % | {100 * share:.1f} % |")
    return lines


if __name__ == "__main__":
    print("\n".join(map(str, listening_measures(Path(sys.argv[1])))))
    print("", *reliability(Path(sys.argv[1])), sep="\n")
