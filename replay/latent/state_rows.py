"""Hidden states of some traces at some places, read from Parquet as often as needed, never all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from toolkit.errors import AmbiguousError, UnknownError, UnsuitableError, argument, listed, require_known
from toolkit.log import Log, LogError

BATCH_BYTES = 2**28
"""Of the rows, in single precision, that are handed on at once."""
NOWHERE = -1
MOST_NAMED = 20


class Batch(NamedTuple):
    """Rows of one reading: the traces and places of each, as numbers, and its state."""

    trace: np.ndarray  # (n,)
    place: np.ndarray  # (n,)
    state: np.ndarray  # (n, d) in the precision of the log


@dataclass(frozen=True, eq=False)
class StateRows:
    """The states of N traces at `places` (layer, token). `groups`: row groups of shards, each with the number of the
    trace and the place of every row, -1 where it is not asked for; those without a row that is are left out.
    """

    width: int
    places: tuple[tuple[int, int], ...]
    groups: tuple[tuple[str, int, np.ndarray, np.ndarray], ...]

    @property
    def count(self) -> int:
        return sum(int((trace != NOWHERE).sum()) for _, _, trace, _ in self.groups)

    def counts(self, traces: int) -> np.ndarray:
        """How many states each of so many traces has."""
        found = np.zeros(traces, np.int64)
        for _, _, trace, _ in self.groups:
            np.add.at(found, trace[trace != NOWHERE], 1)
        return found

    def only(self, keep: np.ndarray, place: int | None = None) -> StateRows:
        """Those of the traces in a mask, and at one place."""
        groups = []
        for file, number, trace, where in self.groups:
            wanted = (trace != NOWHERE) & keep[trace]
            wanted &= (where == place) if place is not None else True
            if wanted.any():
                groups.append((file, number, np.where(wanted, trace, NOWHERE), where))
        return StateRows(self.width, self.places, tuple(groups))

    def at(self, places: Sequence[int]) -> StateRows:
        """Those at some of the places, by their numbers."""
        renumbered = np.full(len(self.places), NOWHERE, np.int32)
        renumbered[list(places)] = np.arange(len(places), dtype=np.int32)
        groups = []
        for file, number, trace, place in self.groups:
            own = np.where(place == NOWHERE, NOWHERE, renumbered[place])
            wanted = np.where(own == NOWHERE, NOWHERE, trace)
            if (wanted != NOWHERE).any():
                groups.append((file, number, wanted, own))
        return StateRows(self.width, tuple(self.places[n] for n in places), tuple(groups))

    def batches(self, extra: int = 0, gathered: bool = True) -> Iterator[Batch]:
        """All rows, some row groups at a time, or with `gathered` false one at a time, which copies nothing; `extra`:
        columns that each row will have besides its state.
        """
        most = max(1, BATCH_BYTES // (4 * (self.width + extra)))
        waiting: list[Batch] = []
        held = 0
        for file, number, trace, place in self.groups:
            wanted = trace != NOWHERE
            state = self._read(file, number)
            made = Batch(trace, place, state) if wanted.all() else Batch(trace[wanted], place[wanted], state[wanted])
            for start in range(0, len(made.trace), most):
                piece = Batch(*(one[start : start + most] for one in made))
                if waiting and (not gathered or held + len(piece.trace) > most):
                    yield _together(waiting)
                    waiting, held = [], 0
                waiting.append(piece)
                held += len(piece.trace)
        if waiting:
            yield _together(waiting)

    def _read(self, file: str, number: int) -> np.ndarray:
        import pyarrow.parquet as pq

        with pq.ParquetFile(file) as opened:  # not kept open: there may be more shards than a process may hold files
            column = opened.read_row_group(number, columns=["state"])["state"].combine_chunks()
        flat = column.flatten().to_numpy(zero_copy_only=False)
        if flat.size != len(column) * self.width:
            raise LogError(f"`{file}`: states are not all of {self.width} numbers: write them as a fixed-size list")
        return flat.reshape(len(column), self.width)


def _together(parts: Sequence[Batch]) -> Batch:
    return parts[0] if len(parts) == 1 else Batch(*(np.concatenate(one) for one in zip(*parts, strict=True)))


def find_states(
    log: Log, model: str, layers: Sequence[int], tokens: Sequence[int], ids: pl.Series
) -> tuple[StateRows, str]:
    """The states of these traces, and the name of the model that read them; by default the only one that there is,
    and all of its places. ThinkbackError where the log has none.
    """
    known = log.hidden_models
    if not known:
        raise UnsuitableError(
            "the log has no hidden states: add some (`[[states]]` of a recipe), or name other inputs with "
            f"{argument('inputs')}"
        )
    if not model and len(known) > 1:
        raise AmbiguousError(f"several models have hidden states, {listed(known)}: name one with {argument('states')}")
    require_known(model or known[0], known, f"no model `{model}` has hidden states in the log")
    name = model or known[0]
    table = f"hidden_states/{name}"
    log.scan(table, ["trace_id", "layer", "token", "state"])  # bytes and types are checked here
    kind = log.columns(table)["state"]
    width = kind.size if isinstance(kind, pl.Array) else 0
    read = [_keys(log.footer(shard).readable) for shard in log.shards[table]]
    there = sorted({pair for groups in read for *_, layer, token in groups for pair in _pairs(layer, token)})
    asked = [("layer", layers, 0), ("token", tokens, 1)]
    for what, wanted, at in asked:
        for number in wanted:
            have = sorted({pair[at] for pair in there})
            if number not in have:
                known_numbers = ", ".join(map(str, have[:MOST_NAMED])) + ", …" * (len(have) > MOST_NAMED)
                raise UnknownError(f"`{table}` has no {what} {number}; it has {known_numbers}")
    places = [p for p in there if (not layers or p[0] in layers) and (not tokens or p[1] in tokens)]
    order = ids.to_frame("trace_id").with_row_index("number")
    groups = []
    for of_shard in read:
        for file, number, traces, layer, token in of_shard:
            trace = traces.to_frame("trace_id").join(order, on="trace_id", how="left", maintain_order="left")["number"]
            place = np.full(len(layer), NOWHERE, np.int32)
            for at, (own_layer, own_token) in enumerate(places):
                place[(layer == own_layer) & (token == own_token)] = at
            numbers = trace.cast(pl.Int64).fill_null(NOWHERE).to_numpy()
            numbers = np.where(place == NOWHERE, NOWHERE, numbers)
            if (numbers != NOWHERE).any():
                groups.append((file, number, numbers, place))
    return StateRows(width, tuple(places), tuple(groups)), name


def _keys(file: str) -> list[tuple[str, int, pl.Series, np.ndarray, np.ndarray]]:
    """Of each row group of a shard the traces, layers and tokens."""
    import pyarrow.parquet as pq

    made = []
    with pq.ParquetFile(Path(file)) as opened:
        for number in range(opened.num_row_groups):
            keys = opened.read_row_group(number, columns=["trace_id", "layer", "token"])
            traces = pl.Series("trace_id", keys["trace_id"]).cast(pl.String)
            layer, token = (keys[name].to_numpy() for name in ("layer", "token"))
            made.append((file, number, traces, layer, token))
    return made


def _pairs(layer: np.ndarray, token: np.ndarray) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in np.unique(np.stack([layer, token], axis=1), axis=0)]
