"""`python -m tests.fuzz`: the seeded campaign of `make fuzz`. Exit code 1 says that something failed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import Campaign, table
from tests.fuzz.parts import PARTS

SHOWN = 20
"""Failures that are printed; the files of all are kept."""


def main(words: list[str] | None = None) -> int:
    """Run the campaign that the command line asks for, and print its table."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long cases are begun")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--part", choices=sorted(PARTS), action="append", help="this part alone; may be repeated")
    parser.add_argument("--case", type=int, help="this case of the parts alone")
    parser.add_argument("--keep", type=Path, default=Path(".fuzz"), help="folder for the files of cases that failed")
    given = parser.parse_args(words)
    campaign = Campaign([PARTS[name]() for name in given.part or PARTS], given.seed, given.keep)
    begun = time.monotonic()
    campaign.run(given.seconds, given.jobs, given.case)
    print(f"seed {given.seed}, {time.monotonic() - begun:,.0f} seconds\n\n{table(campaign.tallies.values())}")
    for failure in campaign.failures[:SHOWN]:
        print(f"\n{failure.fault}\n  files: {failure.kept}\n  again: {failure.again}")
    if len(campaign.failures) > SHOWN:
        print(f"\n… and {len(campaign.failures) - SHOWN:,} more in {given.keep}")
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
