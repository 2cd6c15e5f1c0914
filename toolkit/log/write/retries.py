"""Which traces a merge leaves out, and whose scores go with them: a retry, under whatever id, improves nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from toolkit.log.read.log import ROW, Log, collect

PLACE = ("example_id", "pool", "action", "parent_id", "sample_index")
"""What a trace is, whatever its id."""
_CONTENT = (*PLACE, "model", "answer", "text", "correct", "prompt_tokens", "completion_tokens")


@dataclass(frozen=True)
class Dropped:
    """`rows`: places (`__row`) of the trace rows that are left out. `gone`: ids of traces of which no row is
    left. `strangers`: by the log's number, ids of traces that are there, but not as this log has them.
    """

    rows: pl.Series
    gone: pl.Series
    strangers: Mapping[int, pl.Series]

    def of_log(self, number: int) -> pl.Series:
        """Ids of the traces whose scores, features and states in this log are dropped."""
        return pl.concat([self.gone, self.strangers.get(number, self.gone.clear())]).unique()


@dataclass(frozen=True)
class _Rows:
    """Trace rows that may be dropped, in their order, (R,) each: numbers for the trace's id, its
    place and its parent's id (−1: no trace among these), a hash of what the row says, and the log's number.
    """

    key: np.ndarray
    place: np.ndarray
    parent: np.ndarray
    content: np.ndarray
    log: np.ndarray

    def of_log(self, number: int) -> slice:
        start, end = np.searchsorted(self.log, [number, number + 1])
        return slice(int(start), int(end))


def dropped_traces(log: Log, ends: Sequence[int]) -> Dropped:
    """What is dropped of `log`, several logs in a row; `ends` are their last trace rows plus one, ascending.

    In the order of the rows: a row whose id came before is dropped; so is one whose place (example, pool,
    action, parent, sample index) an earlier row holds, a retry. Where a log's row of a trace differs from the
    earlier log's that is kept, the log's scores are of another trace: they go, with its revisions. A revision
    of what is dropped is dropped too, before it takes an id or a place from others.
    """
    frame = _competing(log)
    rows = _numbered(frame, ends)
    ids = int(rows.key.max(initial=-1)) + 1
    kept = np.zeros(len(rows.key), bool)
    contents, gone = np.zeros(ids, rows.content.dtype), np.zeros(len(kept), bool)
    state = _Taken(np.zeros(ids, bool), np.zeros(ids, bool), contents, gone)
    strangers = {}
    for number in range(len(ends)):
        here = rows.of_log(number)
        kept[here], strange = state.add(rows, here)
        if strange.any():
            strangers[number] = frame["trace_id"].gather(np.flatnonzero(strange))
    while (orphans := kept & (rows.parent >= 0) & ~state.kept[rows.parent]).any():
        kept &= ~orphans  # a parent that a later log holds
        state.kept[rows.key[orphans]] = False
    gone = np.setdiff1d(np.unique(rows.key), np.flatnonzero(state.kept))
    return Dropped(frame[ROW].filter(pl.Series(~kept)), frame["trace_id"].gather(gone), strangers)


@dataclass(frozen=True)
class _Taken:
    """What the logs read so far have taken, by number: ids, ids with a row that is kept, what the first row of
    an id says, places."""

    taken: np.ndarray
    kept: np.ndarray
    content: np.ndarray
    places: np.ndarray

    def add(self, rows: _Rows, here: slice) -> tuple[np.ndarray, np.ndarray]:
        """Add one log: (its rows that are kept, (n,); by id whether its trace is another than the kept, (ids,))."""
        key, place, parent = rows.key[here], rows.place[here], rows.parent[here]
        strange = np.zeros(len(self.taken), bool)
        falls = np.zeros(len(key), bool)
        away = self.taken & ~self.kept
        while True:
            competes = ~falls
            differs = competes & self.taken[key] & (rows.content[here] != self.content[key])
            first = _first(key, competes & ~self.taken[key])
            kept = _first(place, first & ~self.places[place])
            strange[key[differs | (first & ~kept) | falls]] = True
            more = competes & (parent >= 0) & (strange | away)[parent]
            if not more.any():
                break
            falls |= more
        self.taken[key[first]] = True
        self.kept[key[kept]] = True
        self.content[key[first]] = rows.content[here][first]
        self.places[place[kept]] = True
        return kept, strange


def _first(numbers: np.ndarray, among: np.ndarray) -> np.ndarray:
    """The first row of each number, (n,) bool, among the rows that are marked."""
    at = np.flatnonzero(among)
    found = np.zeros(len(numbers), bool)
    found[at[np.unique(numbers[at], return_index=True)[1]]] = True
    return found


def _competing(log: Log) -> pl.DataFrame:
    """Rows that share their id or their place with another, and revisions, in their order."""
    key, place = pl.col("trace_id").hash().alias("key"), pl.struct(PLACE).hash().alias("place")
    hashes = collect(log.scan("traces", ["trace_id", *PLACE]).select(key, place), log)
    twice = {name: hashes[name].filter(hashes[name].is_duplicated()).unique() for name in ("key", "place")}
    del hashes
    shares = key.is_in(twice["key"].implode()) | place.is_in(twice["place"].implode())
    scan = log.scan("traces", ["trace_id", *_CONTENT], rows=True).filter(shares | pl.col("parent_id").is_not_null())
    content = pl.struct(_CONTENT).hash().alias("content")
    return collect(scan.select(ROW, "trace_id", *PLACE, content), log).sort(ROW)


def _numbered(frame: pl.DataFrame, ends: Sequence[int]) -> _Rows:
    """Ids and places as numbers: that of the first row that has them."""
    row = pl.col("row").cast(pl.Int64).first()
    numbers = frame.with_row_index("row").select("trace_id", "content", key=row.over("trace_id"), place=row.over(PLACE))
    by_id = numbers.select(parent_id="trace_id", parent="key").unique()
    parents = frame.select("parent_id").join(by_id, on="parent_id", how="left", maintain_order="left")["parent"]
    return _Rows(
        numbers["key"].to_numpy(),
        numbers["place"].to_numpy(),
        parents.fill_null(-1).to_numpy(),
        numbers["content"].to_numpy(),
        np.searchsorted(np.asarray(ends, np.int64), frame[ROW].to_numpy().astype(np.int64), side="right"),
    )
