"""Notes of a study on what its main run is of, and what it says of numbers that tables show."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from replay.data.conditions import matching
from replay.runs.coverage_notes import FREE
from replay.studies.kit.gaps import told_left_out
from replay.studies.kit.runs import VerifierRun
from toolkit.log import Log
from toolkit.notes import Note, note


def claims_told(log: Log, reported: int, asked: int, dev: str | None) -> Iterator[Note]:
    """How many claims are reported of those asked about, and how many are not because they are learnt from."""
    of = "" if reported == asked else f" of the {asked:,} that are asked about"
    yield note("claims", f"{reported:,} claims{of} are reported")
    if dev is not None:
        learnt = len(matching(log, dev, "dev"))
        yield note("learnt", f"{learnt:,} claims of `dev` ({dev}) are learnt from and not reported")


def notes_shown(run: VerifierRun, unshown: Collection[str]) -> Iterator[Note]:
    """What the run says of numbers that tables show, which are those of no metric `unshown`.

    Costs that count as free there are dashes in tables, and said to be.
    """
    if run.result is not None:
        yield from (note("left_out_file", text) for text in told_left_out(run.result.excluded))
        for one in run.result.notes:
            if one.code != FREE and not (one.metrics and set(one.metrics) <= set(unshown)):
                yield one
    yield from (note("unlogged", text) for text in run.unlogged().values())
