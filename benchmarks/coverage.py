"""How often nominal 95 % intervals hold the truth, by the product's own functions: the table of the manual.

    python benchmarks/coverage.py [--runs 50] [--resamples 1000] [--sizes 30 100 500 2500] [--only TEXT] [--write]

Accuracies and their differences are enumerated, with 10,000 resamples: every outcome counts with its probability. All
else is simulated, several policies a run. `--only` takes the designs whose metric or name holds a text, `--write` puts
what was measured into the table of `docs/coverage.md`. The exit code is 1 where a promise of the manual is broken by
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
from coverage_plans import PLANS
from coverage_promises import PROMISES
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

MEAN_POWER, LEAST_POWER, PILOT = 0.78, 0.72, 100
"""Power of plans for 80 %, from pilots of so many and more: their mean over the designs, and of each."""

MANY, ENOUGH_ERRORS, ENOUGH_GOLD, FEW_CLUSTERS = 200, 60, 20, 100


EVERY = (*DESIGNS, *SAMPLES, *LOSSES, *PROMISES, *PLANS)


@dataclass(frozen=True)
class Cell:
    """Of one design and number of examples: shares of intervals that hold the truth (`error`: its standard error), are
    marked, or are withheld; the share that makes a claim: excludes the margin where one is lost, 0 where power counts.
    `covered` is of the unmarked intervals where these are a quarter or more.
    """

    design: Design
    n: int
    covered: float
    error: float
    marked: float
    withheld: float
    claimed: float

    @property
    def seen(self) -> bool:
        """Whether there are enough unmarked intervals to go by."""
        return 1 - self.marked - self.withheld >= SEEN

    @property
    def text(self) -> str:
        """Per cent; † where more than three quarters are marked, a dash where most are withheld."""
        if self.withheld > 0.5:
            return "–"
        claims = self.design.margin is not None or self.design.power is not None
        return f"{100 * (self.claimed if claims else self.covered):.1f}{'' if self.seen else '†'}"

    def broken(self) -> Iterator[str]:
        """Promises that it breaks."""
        design, slack = self.design, SLACK * self.error
        events = self.n * design.rate
        if design.margin is not None:
            if self.claimed > MOST_FALSE + slack:
                yield f"false `not worse` in {100 * self.claimed:.2f} %"
            return
        if design.power is not None:
            if self.n >= PILOT and self.claimed < LEAST_POWER - slack:
                yield f"power {100 * self.claimed:.1f} %"
            return
        least = design.least or (LEAST if self.seen else LEAST_MARKED)
        known = self.withheld <= 0.5
        if known and self.covered < least - slack:
            yield f"covers {100 * self.covered:.1f} %, below {100 * least:g} %"
        # Where some are marked these have the misses on one side.
        most = MOST_WIDE if design.wide or self.marked > MOST_MARKED else MOST
        most = most + slack if self.seen and self.n >= MANY else math.inf
        if known and design.least is None and self.covered > most:
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
        if design.power is not None:
            claimed = (low > design.truth) | (high < design.truth)
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
    if design.power is not None and withheld < 1:
        claims /= 1 - withheld  # a pilot without a difference makes no plan
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


Rows = dict[tuple[str, str], dict[int, str]]
"""Texts of cells by their number of examples, by what is counted and the outcomes."""


def key(design: Design) -> tuple[str, str]:
    """The first two cells of a design's row."""
    difference = design.paired and not design.metric.startswith("reduction:")
    what = f"`{design.metric.replace('f1:0', 'f1:LABEL')}`{', difference' * difference}"
    if design.margin is not None:
        what = f"false `not worse`, margin {100 * design.margin:g} point{'s' * (design.margin > 0.01)}"
    if design.power is not None:
        what = f"power of plans for {100 * design.power:g} %"
    if design.least is not None:
        what = "promise kept" if design.metric == "promise" else "range of plans"
    return what, design.what


def rows_of(cells: Sequence[Cell]) -> Rows:
    rows: Rows = {}
    for cell in cells:
        rows.setdefault(key(cell.design), {})[cell.n] = cell.text
    return rows


def table(rows: Rows, sizes: Sequence[int]) -> str:
    """Markdown, in the order of the designs."""
    lines = [
        "| what | outcomes | " + " | ".join(f"n = {n:,}" for n in sizes) + " |",
        "| :-- | :-- |" + " --: |" * len(sizes),
    ]
    for what, outcomes in dict.fromkeys(map(key, EVERY)):
        if row := rows.get((what, outcomes)):
            lines.append(f"| {what} | {outcomes} | " + " | ".join(row.get(n, "") for n in sizes) + " |")
    return "\n".join(lines)


def put(rows: Rows) -> None:
    """Between the marks of the manual's page; cells that were not measured stay."""
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    before, end = rest.split(END, 1)
    every: Rows = {}
    for line in before.strip().splitlines()[2:]:
        what, outcomes, *texts = (cell.strip() for cell in line.strip("|").split("|"))
        every[what, outcomes] = dict(zip(SIZES, texts, strict=True))
    for place, row in rows.items():
        every.setdefault(place, {}).update(row)
    PAGE.write_text(f"{head}{BEGIN}\n\n{table(every, SIZES)}\n\n{END}{end}", encoding="utf-8")


def mean_power(cells: Sequence[Cell]) -> Iterator[str]:
    """Where the designs together miss the power that is promised."""
    for n in sorted({cell.n for cell in cells if cell.n >= PILOT and cell.design.power is not None}):
        powers = [cell.claimed for cell in cells if cell.n == n and cell.design.power is not None]
        text = f"mean power over {len(powers)} designs, pilots of {n}: {100 * np.mean(powers):.1f} %"
        print(text, flush=True)
        if np.mean(powers) < MEAN_POWER:
            yield text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    cells, broken = [], 0
    for design in EVERY:
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
    for missed in mean_power(cells):
        broken += 1
        print(f"  BROKEN: {missed}", flush=True)
    print(f"\n{table(rows_of(cells), given.sizes)}\n\n{broken} promises broken of {len(cells)} cells")
    if given.write:
        put(rows_of(cells))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
