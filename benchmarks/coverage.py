"""How often nominal 95 % intervals hold the truth, by the product's own functions: the table of the manual.

    python benchmarks/coverage.py [--minutes 60] [--error 1.2] [--runs 20] [--resamples 1000] [--only TEXT] [--sizes 30]

Accuracies and their differences are enumerated, with 10,000 resamples: every outcome counts with its probability. All
else is simulated, several policies a run, with as many runs as bring the standard error of what a cell counts to
`--error` per cent (of powers and fixed questions twice that), `--runs` at least. Each cell that is measured is a row of
`coverage.csv`, and is not measured again unless `--anew` says so or a smaller error is wanted: the command can be
ended, or end after `--minutes`, and goes on where it was. Once all cells have a row it writes the table of
`docs/coverage.md`, from that file alone. `--only` takes the designs whose metric or name holds a text. The exit code is
1 where a promise of the manual is broken by more than two standard errors of the simulation, and 2 where cells are
missing.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from coverage_designs import DESIGNS, LOSSES, PER_RIGHT, SIZES, Array, Design
from coverage_plans import PLANS
from coverage_promises import PROMISES
from coverage_samples import SAMPLES

from toolkit.columns import COLUMNS
from toolkit.show.ranking.ranking import MARKED
from toolkit.stats import Settings, rules_out_loss, summarise
from toolkit.stats.metrics.outcomes import Store

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coverage.md"
CELLS = Path(__file__).with_suffix(".csv")
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

DEAR = 2
"""The standard error of powers and of fixed questions, whose runs take long, for one of any other cell."""

UNSEEN = 3
"""The rule of three: a share that is 0 in n cases is below 3 / n, at 95 %."""

MOST_RUNS = 20
"""The most runs of a cell for each one that it has at least."""

EVERY = (*DESIGNS, *SAMPLES, *LOSSES, *PROMISES, *PLANS)


def claims(design: Design) -> bool:
    """Whether claims are counted, and not the intervals that hold the truth."""
    return design.margin is not None or design.power is not None


@dataclass(frozen=True)
class Cell:
    """Of one design and number of examples: shares of intervals that hold the truth, are marked, or are withheld; the
    share that makes a claim: excludes the margin where one is lost, 0 where power counts. `covered` is of the unmarked
    intervals where these are a quarter or more; `error` is the standard error of the share that the table has.
    """

    design: Design
    n: int
    runs: int
    covered: float
    error: float
    marked: float
    withheld: float
    claimed: float

    @property
    def seen(self) -> bool:
        """Whether there are enough unmarked intervals to go by."""
        return 1 - self.marked - self.withheld >= SEEN

    def settled(self, aim: float) -> bool:
        """Whether its standard error is down to `aim`; that of a cell of which too few have no mark decides nothing."""
        return self.error <= aim or not self.seen

    @property
    def text(self) -> str:
        """Per cent; † where more than three quarters are marked, a dash where most are withheld."""
        if self.withheld > 0.5:
            return "–"
        return f"{100 * (self.claimed if claims(self.design) else self.covered):.1f}{'' if self.seen else '†'}"

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


def measured(design: Design, n: int, runs: int, resamples: int, aim: float) -> Cell:
    """One cell of the table: so many runs, and as many again until its standard error is down to `aim`."""
    least = runs * (PAIRED_RUNS if design.paired else 1)
    shares, number = list[list[float]](), 0
    while True:
        for run in range(len(shares), len(shares) + least):
            row, drawn = one_run(design, n, run, resamples)
            shares.append(row)
            number += drawn
            if not drawn:
                return cell_of(design, n, np.array(shares), 0)
        cell = cell_of(design, n, np.array(shares), number)
        if cell.settled(aim) or len(shares) >= MOST_RUNS * least:
            return cell


def one_run(design: Design, n: int, run: int, resamples: int) -> tuple[list[float], int]:
    """Shares of a run's intervals: that hold the truth, and are there; of the unmarked ones the same; that are marked,
    withheld, or make a claim. And how many there are, 0 where they are those of all outcomes.
    """
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
        [design.margin is not None and rules_out_loss(end, design.margin, design.clusters or n) for end in low]
    )
    if design.power is not None:
        claimed = (low > design.truth) | (high < design.truth)
    marked = np.isin(method, list(MARKED))
    parts = (holds, known, holds & ~marked, known & ~marked, marked, ~known, claimed)
    return [float(weight @ part) for part in parts], len(low) if probability is None else 0


def cell_of(design: Design, n: int, shares: Array, number: int) -> Cell:
    """The cell of some runs (runs, 7) with so many intervals: where all are alike two standard errors are 3 / number,
    the upper limit of a share that was not seen.
    """
    held, known, held_unmarked, unmarked, marked, withheld, claimed = shares.T
    counted = (held_unmarked, unmarked) if unmarked.mean() >= SEEN else (held, known)
    covered, error = ratio(*counted)
    # A pilot without a difference makes no plan.
    share, claim_error = ratio(claimed, known if design.power is not None else np.ones(len(shares)))
    error = max(claim_error if claims(design) else error, UNSEEN / 2 / number if number else 0.0)
    return Cell(design, n, len(shares), covered, error, float(marked.mean()), float(withheld.mean()), share)


def ratio(part: Array, whole: Array) -> tuple[float, float]:
    """The quotient of two means over runs (runs,), and its standard error."""
    if not whole.sum():
        return math.nan, 0.0
    share, runs = float(part.sum() / whole.sum()), len(part)
    error = float(np.std(part - share * whole, ddof=1) / math.sqrt(runs) / whole.mean()) if runs > 1 else 0.0
    return share, error


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


Key = tuple[str, str, int]
"""What is counted, of which outcomes, and the number of examples."""


def key(design: Design, n: int) -> Key:
    """The key of a cell: the first two columns of its row, and the column."""
    difference = design.paired and not design.metric.startswith("reduction:")
    what = f"`{design.metric.replace('f1:0', 'f1:LABEL')}`{', difference' * difference}"
    if design.margin is not None:
        what = f"false `not worse`, margin {100 * design.margin:g} point{'s' * (design.margin > 0.01)}"
    if design.power is not None:
        what = f"power of plans for {100 * design.power:g} %"
    if design.least is not None:
        what = "promise kept" if design.metric == "promise" else "range of plans"
    return what, design.what, n


DESIGN_OF: dict[Key, Design] = {key(design, n): design for design in EVERY for n in design.sizes}
NUMBERS = [field.name for field in fields(Cell) if field.name not in ("design", "n")]


def read_cells(path: Path = CELLS) -> dict[Key, Cell]:
    """The cells that the file has, of the designs that there are."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(row.pop("what"), row.pop("outcomes"), int(row.pop("n")), row) for row in csv.DictReader(file)]
    return {
        (what, outcomes, n): Cell(design, n, int(row.pop("runs")), **{name: float(one) for name, one in row.items()})
        for what, outcomes, n, row in rows
        if (design := DESIGN_OF.get((what, outcomes, n))) is not None
    }


def write_cells(cells: dict[Key, Cell], path: Path = CELLS) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "outcomes", "n", *NUMBERS])
        for place in DESIGN_OF:
            if place in cells:
                writer.writerow([*place, *(f"{getattr(cells[place], name):.6g}" for name in NUMBERS)])


def table(cells: dict[Key, Cell]) -> str:
    """Markdown, in the order of the designs."""
    lines = [
        "| what | outcomes | " + " | ".join(f"n = {n:,}" for n in SIZES) + " |",
        "| :-- | :-- |" + " --: |" * len(SIZES),
    ]
    for what, outcomes in dict.fromkeys(place[:2] for place in cells):
        texts = (cells[place].text if (place := (what, outcomes, n)) in cells else "" for n in SIZES)
        lines.append(f"| {what} | {outcomes} | {' | '.join(texts)} |")
    return "\n".join(lines)


def page(cells: dict[Key, Cell]) -> str:
    """The manual's page with the table of these cells."""
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{head}{BEGIN}\n\n{table(cells)}\n\n{END}{rest.split(END, 1)[1]}"


def broken_promises(cells: dict[Key, Cell]) -> list[str]:
    """What is broken by which cell, and by the plans of all designs together."""
    found = [f"{', '.join(map(str, place))}: {text}" for place, cell in cells.items() for text in cell.broken()]
    for n in sorted({cell.n for cell in cells.values() if cell.n >= PILOT and cell.design.power is not None}):
        powers = [cell for cell in cells.values() if cell.n == n and cell.design.power is not None]
        power = float(np.mean([cell.claimed for cell in powers]))
        text = f"mean power over {len(powers)} designs, pilots of {n}: {100 * power:.1f} %"
        print(text, flush=True)
        if power < MEAN_POWER:
            found.append(text)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--error", type=float, default=1.2)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--only", default="")
    parser.add_argument("--anew", action="store_true")
    given = parser.parse_args()
    cells, started = read_cells(), time.perf_counter()
    for place, design in DESIGN_OF.items():
        *named, n = place
        if n not in given.sizes or given.only not in ", ".join(named):
            continue
        aim = given.error / 100 * (DEAR if design.power is not None or design in SAMPLES else 1)
        if place in cells and cells[place].settled(aim) and not given.anew:
            continue
        if time.perf_counter() - started > 60 * given.minutes:
            break
        began = time.process_time()
        cell = measured(design, n, given.runs, given.resamples, aim)
        cells = read_cells() | {place: cell}
        write_cells(cells)
        told = [f"{100 * part:.1f}" for part in (cell.covered, cell.error, cell.marked, cell.withheld)]
        print(
            f"{', '.join(map(str, place))}: {cell.text} (covered, error, marked, withheld: {', '.join(told)}; ", end=""
        )
        print(f"{cell.runs} runs, {time.process_time() - began:.1f} s)", *cell.broken(), flush=True)
    broken, missing = broken_promises(cells), len(DESIGN_OF) - len(cells)
    if missing:
        print(f"{missing} of {len(DESIGN_OF)} cells are missing: run the command again")
    else:
        PAGE.write_text(page(cells), encoding="utf-8")
    print(
        "\n".join(f"BROKEN: {text}" for text in broken),
        f"{len(broken)} promises broken of {len(cells)} cells",
        sep="\n",
    )
    return 1 if broken else 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
