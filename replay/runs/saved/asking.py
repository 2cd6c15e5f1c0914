"""SQL over a result: its tables, the part by trace that it was saved with, and the log's where that is still there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl

from replay.runs.saved.findings import OUTCOMES, Findings
from replay.runs.saved.paid_traces import ORDERS, SCORES, STOPS, TRACES
from toolkit.errors import ThinkbackError
from toolkit.log import IN_MEMORY, SCHEMAS, Log, open_log, query_log

VIEWS = {TRACES: "paid_traces", SCORES: "paid_scores", ORDERS: "orders", STOPS: "stops"}
"""What SQL calls the part by trace; the log has a table `traces`, too."""
WITHOUT = "this result was saved, or pickled, without {part}: replay again, and save it with `{part}=True`"


def answer(found: Findings, sql: str) -> pl.DataFrame:
    """The answer of one SELECT. ThinkbackError for wrong SQL, and for a table that is not there."""
    files = {}
    for name, frame in (("summary", found.summary), ("comparisons", found.comparisons), ("ranks", found.ranks)):
        files[name] = found.scratch.path / f"{name}.parquet"
        frame.write_parquet(files[name])
    if re.search(r"\boutcomes\b", sql, re.IGNORECASE):  # who reads a view must name it
        files["outcomes"] = _outcomes_file(found)
    if found.folder is not None and found.folder.has(f"{TRACES}.parquet"):
        files |= {view: found.folder.file(f"{name}.parquet") for name, view in VIEWS.items()}
    log = log_of(found)
    if log is None:
        files["examples"] = found.scratch.path / "examples.parquet"
        found.examples.write_parquet(files["examples"])
    try:
        return query_log(log, sql, files)
    except ThinkbackError as error:
        named = re.search(r"[Tt]able with name (\w+)", str(error))
        name = "" if named is None else named[1].lower()
        if name in VIEWS.values() and name not in files:
            raise _without_traces(found, name) from None
        if log is not None or name not in SCHEMAS:
            raise
        raise _without_log(found, name) from None


def log_of(found: Findings) -> Log | None:
    """The log of a result, where it is still there and the same."""
    if found.source is not None and found.source.plan.log.address == IN_MEMORY:
        return found.source.plan.log  # nothing but what refers to them can change them
    for address in _addresses(found):
        with suppress(ThinkbackError):
            log = open_log(address)
            if log.digest() == found.provenance["log"]["sha256"]:
                return log
    return None


def _addresses(found: Findings) -> Iterator[str]:
    """Where the log may be: where a run found it; of a loaded result, which names it as it was named then, from the
    working directory, and from the folders above the result.
    """
    address = str(found.provenance["log"]["address"])
    if found.source is not None:
        yield found.source.plan.log.located
    elif address != IN_MEMORY:
        yield address
        if found.folder is not None and _relative(address):
            yield from (str(folder / address) for folder in found.folder.path.parents)


def _relative(address: str) -> bool:
    """Whether a local address begins at the working directory, which may be gone."""
    return address != IN_MEMORY and "://" not in address and not Path(address).expanduser().is_absolute()


def _without_log(found: Findings, table: str) -> ThinkbackError:
    """Why there is no table of the log."""
    address = str(found.provenance["log"]["address"])
    where = " (looked for from the working directory and from the folders above the result)"
    looked = where if found.source is None and _relative(address) else ""
    return ThinkbackError(
        f"`{table}` is a table of the log `{address}`, which is not there or is another by now{looked}: "
        "query the result's own tables, or replay again"
    )


def _without_traces(found: Findings, view: str) -> ThinkbackError:
    """Why there is no table of the part by trace."""
    if found.source is None:
        return ThinkbackError(f"`{view}`: {WITHOUT.format(part='traces')}")
    how = "save it with `traces=True`, and load it"
    return ThinkbackError(f"`{view}` is a table of results that were saved with their part by trace: {how}")


def _outcomes_file(found: Findings) -> Path:
    if found.folder is not None:
        return found.folder.file(OUTCOMES)
    path = found.scratch.path / OUTCOMES
    if not path.exists():
        found.summariser.outcomes.write(path)
    return path
