"""How often nominal 95 % intervals hold the truth, by the product's own functions: the table of the manual.

    python benchmarks/coverage.py [--runs 50] [--resamples 1000] [--sizes 30 100 500 2500] [--only TEXT] [--write]

Accuracies and their differences are enumerated, with 10,000 resamples: every outcome counts with its probability. All
else is simulated, several policies a run. `--only` takes the designs whose metric or name holds a text, `--write` puts
the table, or their rows alone, into `docs/coverage.md`. The exit code is 1 where a promise of the manual is broken by
more than two and a half standard errors of the simulation.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from coverage_designs import DESIGNS, LOSSES, PER_RIGHT, SIZES, Design
from coverage_samples import SAMPLES

from toolkit.columns import COLUMNS
from toolkit.show.ranking.ranking import MARKED
from toolkit.stats import Settings, not_worse, summarise
from toolkit.stats.metrics.outcomes import Store

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coverage.md"
BEGIN, END = "<!-- what `benchmarks/coverage.py` measured -->", "<!-- end -->"

LEAST, LEAST_MARKED, MOST, MOST_WIDE = 0.93, 0.85, 0.985, 0.997
MOST_MARKED, MOST_FALSE = 0.01, 0.03
ENUMERATED = 10_000
"""Resamples of designs of which there is one run."""

PAIRED_RUNS = 4
"""Runs of a design of pairs for one of the others: fewer are compared in each."""

SLACK = 2
"""Standard errors of the simulation by which a promise may be missed."""

SEEN = 0.25
"""A cell with at least this share of unmarked intervals says what these cover: what is marked may be left aside."""

MANY, ENOUGH_ERRORS, ENOUGH_GOLD, FEW_CLUSTERS = 200, 60, 20, 100


@dataclass(frozen=True)
class Cell:
    """Of one design and number of examples: shares of intervals that hold the truth (`error`: its standard error), are
    marked, or are withheld; the share that excludes the margin where one is lost. `covered` is of the unmarked
    intervals where these are a quarter or more.
    """

    design: Design
    n: int
    covered: float
    error: float
    marked: float
    withheld: float
    not_worse: float

    @property
    def seen(self) -> bool:
        """Whether there are enough unmarked intervals to go by."""
        return 1 - self.marked - self.withheld >= SEEN

    @property
    def text(self) -> str:
        """Per cent; † where more than three quarters are marked, a dash where most are withheld."""
        if self.withheld > 0.5:
            return "–"
        share = self.covered if self.design.margin is None else self.not_worse
        return f"{100 * share:.1f}{'' if self.seen else '†'}"

    def broken(self) -> Iterator[str]:
        """Promises that it breaks."""
        design, slack = self.design, SLACK * self.error
        events = self.n * design.rate
        if design.margin is not None:
            if self.not_worse > MOST_FALSE + slack:
                yield f"false `not worse` in {100 * self.not_worse:.2f} %"
            return
        least = LEAST if self.seen else LEAST_MARKED
        known = self.withheld <= 0.5
        if known and self.covered < least - slack:
            yield f"covers {100 * self.covered:.1f} %, below {100 * least:g} %"
        # Where some are marked these have the misses on one side.
        most = MOST_WIDE if design.wide or self.marked > MOST_MARKED else MOST
        most = most + slack if self.seen and self.n >= MANY else math.inf
        if known and self.covered > most:
            yield f"covers {100 * self.covered:.1f} %: too wide"
        plenty = self.n >= 500 and events >= ENOUGH_ERRORS and self.n * design.gold >= ENOUGH_GOLD
        # Quotients of costs are withheld where what is divided by does not differ from 0.
        withheld = math.isfinite(events) and self.withheld > 0
        if plenty and not 0 < design.clusters < FEW_CLUSTERS and (self.marked > MOST_MARKED or withheld):
            yield f"{100 * self.marked:.1f} % marked, {100 * self.withheld:.2f} % withheld"


def measured(design: Design, n: int, runs: int, resamples: int) -> Cell:
    """One cell of the table."""
    shares = []
    for run in range(runs * (PAIRED_RUNS if design.paired else 1)):
        rng, probability = np.random.default_rng([1, n, run]), None
        if design.draw is None:
            low, high, method = design.limits(rng, n, Settings(resamples=resamples, seed=run))
        else:
            outcomes, probability = design.draw(rng, n)
            drawn = resamples if probability is None else max(resamples, ENUMERATED)
            low, high, method = intervals(design, outcomes, Settings(resamples=drawn, seed=run))
        weight = np.ones(len(low)) if probability is None else probability
        weight, known = weight / weight.sum(), ~np.isnan(low)
        rounding = 1e-12
        holds = known & (low <= design.truth + rounding) & (high >= design.truth - rounding)
        claimed = np.array(
            [design.margin is not None and not_worse(end, design.margin, design.clusters or n) for end in low]
        )
        marked = np.isin(method, list(MARKED))
        parts = (holds, known, holds & ~marked, known & ~marked, marked, ~known, claimed)
        shares.append([weight @ part for part in parts])
        if probability is not None:
            break
    found = np.array(shares)
    *_, unmarked, marks, withheld, claims = found.mean(axis=0).tolist()
    found = found[:, 2:4] if unmarked >= SEEN else found[:, :2]
    held, known_share = found.mean(axis=0).tolist()
    covered = held / known_share if known_share else math.nan
    apart = found[:, 0] - covered * found[:, 1]
    error = (
        float(np.std(apart, ddof=1) / math.sqrt(len(apart)) / known_share) if len(apart) > 1 and known_share else 0.0
    )
    return Cell(design, n, covered, error, marks, withheld, claims)


def intervals(design: Design, outcomes: object, settings: Settings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Limits and methods of the policies that are counted."""
    size = len(outcomes.values[next(iter(outcomes.values))])
    names = [f"p{i}" for i in range(size)]
    labels = [str(i) for i in range(design.labels)] if design.labels else None
    strata = None if design.strata is None else design.strata(outcomes.unit)
    store = Store.of_blocks(lambda: iter([outcomes]), size, design.labels or None, strata)
    found = summarise(
        store, names, labels=labels, baseline=names[0] if design.paired else None,
        leaders=names[:1], columns=[*COLUMNS, PER_RIGHT], ranked=False, settings=settings,
    )  # fmt: skip
    rows = found.summary.filter(metric=design.metric)
    if design.paired:
        rows = found.comparisons.filter(metric=design.metric, baseline=names[0])
    order = {name: place for place, name in enumerate(rows["policy"])}
    rows = rows[[order[name] for name in names[design.paired :]]]
    low, high = (rows[end].fill_null(np.nan).to_numpy() for end in ("low", "high"))
    return low, high, rows["method"].fill_null("").to_numpy()


def table(cells: Sequence[Cell], sizes: Sequence[int]) -> str:
    """Markdown."""
    lines = [
        "| what | outcomes | " + " | ".join(f"n = {n:,}" for n in sizes) + " |",
        "| :-- | :-- |" + " --: |" * len(sizes),
    ]
    by_design: dict[tuple[str, str], dict[int, str]] = {}
    for cell in cells:
        design = cell.design
        difference = design.paired and not design.metric.startswith("reduction:")
        what = f"`{design.metric.replace('f1:0', 'f1:LABEL')}`{', difference' * difference}"
        what = (
            f"false `not worse`, margin {100 * design.margin:g} point{'s' * (design.margin > 0.01)}"
            if design.margin is not None
            else what
        )
        by_design.setdefault((what, design.what), {})[cell.n] = cell.text
    for (what, outcomes), row in by_design.items():
        lines.append(f"| {what} | {outcomes} | " + " | ".join(row.get(n, "") for n in sizes) + " |")
    return "\n".join(lines)


def put(text: str, part: bool) -> None:
    """Between the marks of the manual's page; of a `part` of the designs their rows alone, in place of those there."""
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    old, rest = rest.split(END, 1)
    if part:
        rows = {_design_of(line): line for line in (*old.strip().splitlines(), *text.splitlines())}
        text = "\n".join(rows.values())
    PAGE.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest}", encoding="utf-8")


def _design_of(line: str) -> tuple[str, ...]:
    """What a row of the table is of."""
    return tuple(line.split(" | ")[:2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    cells, broken = [], 0
    for design in (*DESIGNS, *SAMPLES, *LOSSES):
        kind = "difference" if design.paired else "value"
        if given.only not in f"{design.metric} {kind}, {design.what}":
            continue
        for n in (n for n in design.sizes if n in given.sizes):
            started = time.perf_counter()
            cell = measured(design, n, given.runs, given.resamples)
            cells.append(cell)
            told = [f"{100 * part:.1f}" for part in (cell.covered, cell.error, cell.marked, cell.withheld)]
            line = f"{design.metric} {kind}, {design.what}, n {n}: {cell.text} (covered, error, marked, withheld: "
            print(f"{line}{', '.join(told)}; {time.perf_counter() - started:.1f} s)", flush=True)
            for promise in cell.broken():
                broken += 1
                print(f"  BROKEN: {promise}", flush=True)
    text = table(cells, given.sizes)
    print(f"\n{text}\n\n{broken} promises broken of {len(cells)} cells")
    if given.write:
        put(text, bool(given.only))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
