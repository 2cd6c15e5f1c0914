"""The rows that a model reads, batch by batch: a hidden state, its place, and the values of its trace.

States are read from Parquet as often as needed, never all at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from replay.data.fitted_scores import unseen_folds
from replay.policies.gate_file import normalised_question
from toolkit.errors import AmbiguousError, LimitError, UnknownError, UnsuitableError, argument, listed, require_known
from toolkit.log import Log, LogError, collect

LAST = 8
"""How many values at the end of a trace's list, such as of token log-probabilities, are read one by one."""
NO_FOLD = -1
OF_TOKENS = {"token_logprobs": "", "token_entropies": " entropy", "token_ranks": " rank"}
"""The lists that a verifier keeps of a text's tokens -> what their numbers are called."""
OF_VERIFIER = ("verifier:", "tokens:")
"""Prefixes of inputs that come from a verifier, and may have been made in folds."""


@dataclass(frozen=True, eq=False)
class Traces:
    """N traces, sorted by id. `group` (N,): questions that are asked alike, or are of one cluster, have one number;
    `right` (N,): 1, 0, or NaN where unjudged; `values` (N, V): what is read of each, NaN where it is missing, `names`
    of its columns; `fold` (N,): that in which a score that is read was made, by a verifier that was trained on the
    question, else -1.
    """

    keys: pl.DataFrame  # trace_id, example_id, pool
    group: np.ndarray
    right: np.ndarray
    values: np.ndarray
    names: tuple[str, ...]
    fold: np.ndarray


def read_traces(log: Log, inputs: Sequence[str], pools: Sequence[str]) -> Traces:
    """The traces of some pools, by default of all, with inputs. ThinkbackError where the log lacks one."""
    columns = ["trace_id", "example_id", "pool", "correct"]
    frame = collect(log.scan("traces", columns), log).sort("trace_id")
    for pool in pools:
        require_known(pool, frame["pool"].unique(), f"the log has no pool `{pool}`")
    frame = frame.filter(pl.col("pool").is_in(list(pools))) if pools else frame
    groups = question_groups(log)
    keys = frame.select("trace_id", "example_id", "pool")
    inputs_read = [_input_columns(log, name, keys) for name in inputs]
    inputs_frame = pl.concat(inputs_read, how="horizontal") if inputs_read else pl.DataFrame()
    folds = unseen_folds(log, (name.partition(":")[2] for name in inputs if name.startswith(OF_VERIFIER)))
    values = (
        inputs_frame.cast(pl.Float32).to_numpy().astype(np.float32)
        if inputs_read
        else np.zeros((frame.height, 0), np.float32)
    )
    largest = np.finfo(np.float32).max
    return Traces(
        keys=keys,
        group=keys.join(groups, on="example_id", how="left", maintain_order="left")["group"].to_numpy(),
        right=frame["correct"].cast(pl.Float64).fill_null(float("nan")).to_numpy(),
        values=np.clip(values, -largest, largest),
        names=tuple(inputs_frame.columns),
        fold=keys["example_id"].replace_strict(folds, default=NO_FOLD, return_dtype=pl.Int64).to_numpy(),
    )


def question_groups(log: Log) -> pl.DataFrame:
    """A table of example_id and group: examples with copies of one question, or of one cluster, share a group."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    frame = collect(log.scan("examples", ["example_id", "question", "cluster"]), log).sort("example_id")
    questions = frame["question"].map_elements(normalised_question, return_dtype=pl.String)
    texts = pl.select(pl.when(questions != "").then(questions).otherwise(frame["example_id"])).to_series()
    clusters = frame["cluster"].fill_null("\0" + frame["example_id"])
    size, place = frame.height, np.arange(frame.height)
    question, cluster = (one.rank("dense").to_numpy().astype(np.int64) - 1 for one in (texts, clusters))
    nodes = np.concatenate([size + question, 2 * size + cluster])
    edges = coo_array((np.ones(2 * size, np.int8), (np.tile(place, 2), nodes)), shape=(3 * size, 3 * size))
    _, component = connected_components(edges, directed=False)
    return frame.select("example_id", group=pl.Series(component[:size], dtype=pl.Int64))


def _input_columns(log: Log, name: str, keys: pl.DataFrame) -> pl.DataFrame:
    source, mark, rest = name.partition(":")
    ways = {
        "trace": _trace_column, "feature": _feature_column, "verifier": _verifier_score_column,
        "tokens": _token_columns,
    }  # fmt: skip
    if not mark or source not in ways:
        raise UnknownError(
            f"no input is called `{name}`: there are `states`, `trace:COLUMN` (such as `trace:token_logprobs`), "
            "`feature:NAME`, `verifier:NAME` and `tokens:VERIFIER`"
        )
    values = ways[source](log, rest)
    return keys.select("trace_id").join(values, on="trace_id", how="left", maintain_order="left").drop("trace_id")


def _trace_column(log: Log, column: str) -> pl.DataFrame:
    """A numeric column of traces; of a list its sum, mean, least, greatest and last values."""
    there = log.columns("traces")
    known = [name for name, kind in there.items() if name != "credit" and (kind.is_numeric() or _is_list(kind))]
    require_known(column, known, f"traces have no column of numbers `{column}`")
    frame, name = collect(log.scan("traces", ["trace_id", column]), log), f"trace:{column}"
    if not _is_list(there[column]):
        return frame.select("trace_id", pl.col(column).alias(name))
    return _list_statistics(frame, column, name)


def _list_statistics(frame: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    """A column of lists as numbers: sum, mean, least, last and greatest values."""
    values = pl.col(column)
    last = [values.list.get(-k, null_on_oob=True).alias(f"{name}[-{k}]") for k in range(1, LAST + 1)]
    summed = [getattr(values.list, how)().alias(f"{name} {how}") for how in ("sum", "mean", "min")]
    return frame.select("trace_id", *summed, *last, values.list.max().alias(f"{name} max"))


def _is_list(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.List) and kind.inner.is_numeric()


def _feature_column(log: Log, column: str) -> pl.DataFrame:
    known = [name for name, kind in log.columns("features").items() if kind.is_numeric()] if log.has("features") else []
    require_known(column, known, f"the log has no feature `{column}`")
    return collect(log.scan("features", ["trace_id", column]), log).rename({column: f"feature:{column}"})


def _verifier_score_column(log: Log, verifier: str) -> pl.DataFrame:
    frame = collect(log.scan("verifications", ["trace_id", "verifier", "score"]), log)
    require_known(verifier, frame["verifier"].unique(), f"the log has no verifier `{verifier}`")
    scores = frame.filter(pl.col("verifier") == verifier)
    return scores.select("trace_id", pl.col("score").alias(f"verifier:{verifier}"))


def _token_columns(log: Log, verifier: str) -> pl.DataFrame:
    """What a verifier keeps of all tokens beside scores: log-probabilities and, if kept, entropies and ranks."""
    frame = collect(log.scan("verifications", ["trace_id", "verifier", *OF_TOKENS]), log)
    listed = frame.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in OF_TOKENS))
    require_known(verifier, listed["verifier"].unique(), f"no verifier `{verifier}` keeps log-probabilities of tokens")
    rows = listed.filter(pl.col("verifier") == verifier)
    logged = [name for name in OF_TOKENS if rows[name].is_not_null().any()]
    parts = [_list_statistics(rows, name, f"tokens:{verifier}{OF_TOKENS[name]}") for name in logged]
    return pl.concat([parts[0], *(part.drop("trace_id") for part in parts[1:])], how="horizontal")


BATCH_BYTES = 2**28
"""How many bytes the rows of a batch have, in single precision."""
NOWHERE = -1
MOST_NAMED = 20


class Batch(NamedTuple):
    """Rows that are read together: the number of the trace and of the place of each, and its state."""

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
    def count_rows(self) -> int:
        return sum(int((trace != NOWHERE).sum()) for _, _, trace, _ in self.groups)

    def count_by_trace(self, traces: int) -> np.ndarray:
        """How many states each of `traces` traces has."""
        states = np.zeros(traces, np.int64)
        for _, _, trace, _ in self.groups:
            np.add.at(states, trace[trace != NOWHERE], 1)
        return states

    def rows_of_traces(self, keep: np.ndarray, place: int | None = None) -> StateRows:
        """The rows of the traces in a mask, at all places or at one."""
        groups = []
        for file, number, trace, where in self.groups:
            wanted = (trace != NOWHERE) & keep[trace]
            wanted &= (where == place) if place is not None else True
            if wanted.any():
                groups.append((file, number, np.where(wanted, trace, NOWHERE), where))
        return StateRows(self.width, self.places, tuple(groups))

    def rows_at_places(self, places: Sequence[int]) -> StateRows:
        """The rows at some places, by their numbers."""
        renumbered = np.full(len(self.places), NOWHERE, np.int32)
        renumbered[list(places)] = np.arange(len(places), dtype=np.int32)
        groups = []
        for file, number, trace, place in self.groups:
            new_place = np.where(place == NOWHERE, NOWHERE, renumbered[place])
            wanted = np.where(new_place == NOWHERE, NOWHERE, trace)
            if (wanted != NOWHERE).any():
                groups.append((file, number, wanted, new_place))
        return StateRows(self.width, tuple(self.places[n] for n in places), tuple(groups))

    def read_batches(self, extra: int = 0, joined: bool = True) -> Iterator[Batch]:
        """All rows, some row groups at a time, or with `joined` false one at a time, which copies nothing; `extra`:
        columns that each row will have besides its state.
        """
        most = max(1, BATCH_BYTES // (4 * (self.width + extra)))
        queue: list[Batch] = []
        rows = 0
        for file, number, trace, place in self.groups:
            wanted = trace != NOWHERE
            state = self._read_row_group(file, number)
            batch = Batch(trace, place, state) if wanted.all() else Batch(trace[wanted], place[wanted], state[wanted])
            for start in range(0, len(batch.trace), most):
                chunk = Batch(*(one[start : start + most] for one in batch))
                if queue and (not joined or rows + len(chunk.trace) > most):
                    yield _join_batches(queue)
                    queue, rows = [], 0
                queue.append(chunk)
                rows += len(chunk.trace)
        if queue:
            yield _join_batches(queue)

    def _read_row_group(self, file: str, number: int) -> np.ndarray:
        import pyarrow.parquet as pq

        with pq.ParquetFile(file) as opened:  # not kept open: there may be more shards than a process may hold files
            column = opened.read_row_group(number, columns=["state"])["state"].combine_chunks()
        flat = column.flatten().to_numpy(zero_copy_only=False)
        if flat.size != len(column) * self.width:
            raise LogError(
                f"`{file}`: states are not all of {self.width} numbers: write them as a fixed-size list", code="format"
            )
        return flat.reshape(len(column), self.width)


def _join_batches(parts: Sequence[Batch]) -> Batch:
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
    groups_by_shard = [_row_group_keys(log.footer(shard).readable) for shard in log.shards[table]]
    there = sorted(
        {pair for groups in groups_by_shard for *_, layer, token in groups for pair in _layer_token_pairs(layer, token)}
    )
    choices = [("layer", layers, 0), ("token", tokens, 1)]
    for what, wanted, at in choices:
        for number in wanted:
            have = sorted({pair[at] for pair in there})
            if number not in have:
                known_numbers = ", ".join(map(str, have[:MOST_NAMED])) + ", …" * (len(have) > MOST_NAMED)
                raise UnknownError(f"`{table}` has no {what} {number}; it has {known_numbers}")
    places = [p for p in there if (not layers or p[0] in layers) and (not tokens or p[1] in tokens)]
    order = ids.to_frame("trace_id").with_row_index("number")
    groups = []
    for of_shard in groups_by_shard:
        for file, number, traces, layer, token in of_shard:
            trace = traces.to_frame("trace_id").join(order, on="trace_id", how="left", maintain_order="left")["number"]
            place = np.full(len(layer), NOWHERE, np.int32)
            for at, (place_layer, place_token) in enumerate(places):
                place[(layer == place_layer) & (token == place_token)] = at
            numbers = trace.cast(pl.Int64).fill_null(NOWHERE).to_numpy()
            numbers = np.where(place == NOWHERE, NOWHERE, numbers)
            if (numbers != NOWHERE).any():
                groups.append((file, number, numbers, place))
    return StateRows(width, tuple(places), tuple(groups)), name


def _row_group_keys(file: str) -> list[tuple[str, int, pl.Series, np.ndarray, np.ndarray]]:
    """The traces, layers and tokens of each row group of a shard."""
    import pyarrow.parquet as pq

    groups = []
    with pq.ParquetFile(Path(file)) as opened:
        for number in range(opened.num_row_groups):
            keys = opened.read_row_group(number, columns=["trace_id", "layer", "token"])
            traces = pl.Series("trace_id", keys["trace_id"]).cast(pl.String)
            layer, token = (keys[name].to_numpy() for name in ("layer", "token"))
            groups.append((file, number, traces, layer, token))
    return groups


def _layer_token_pairs(layer: np.ndarray, token: np.ndarray) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in np.unique(np.stack([layer, token], axis=1), axis=0)]


MOST_BYTES = 2**32
"""The most bytes of rows, in single precision, for a model that needs all of them at once."""


class RowBatch(NamedTuple):
    """Some rows. `values` is the same memory in every batch, and is valid until the next one."""

    values: np.ndarray  # (n, columns) float32
    trace: np.ndarray  # (n,)
    place: np.ndarray  # (n,)


@dataclass(frozen=True, eq=False)
class ModelRows:
    """The rows of some traces; without `states` a trace is one row. `with_places`: layer and token are columns, too."""

    traces: Traces
    states: StateRows | None
    keep: np.ndarray  # (N,) of the traces
    with_places: bool

    @property
    def count_columns(self) -> int:
        width = self.states.width if self.states is not None else 0
        return width + 2 * self.with_places + self.traces.values.shape[1]

    @property
    def count_rows(self) -> int:
        return self.states.count_rows if self.states is not None else int(self.keep.sum())

    def sample_traces(self, least: int, seed: int) -> ModelRows:
        """All rows of some randomly drawn traces: about `least` rows, or all."""
        if self.states is None or self.count_rows <= least:
            return self
        known = np.flatnonzero(self.states.count_by_trace(len(self.keep)) > 0)
        size = max(1, round(len(known) * least / self.count_rows))
        keep = np.zeros(len(self.keep), bool)
        keep[np.random.default_rng(seed).permutation(known)[:size]] = True
        return ModelRows(self.traces, self.states.rows_of_traces(keep), keep, self.with_places)

    def batches(self, order: np.ndarray | None = None) -> Iterator[RowBatch]:
        """All rows, in the same order each time, in large batches; or with `order` (N,), a number for each trace, in
        small ones, which are sorted by it.
        """
        values = self.traces.values
        if self.states is None:
            trace = np.flatnonzero(self.keep)
            trace = trace if order is None else trace[np.argsort(order[trace], kind="stable")]
            if len(trace):
                yield RowBatch(values[trace], trace, np.zeros(len(trace), np.int32))
            return
        memory = np.zeros((0, self.count_columns), np.float32)
        places = np.array(self.states.places, np.float32)
        for trace, place, state in self.states.read_batches(
            self.count_columns - self.states.width, joined=order is None
        ):
            if order is not None and (np.diff(order[trace]) < 0).any():
                by = np.argsort(order[trace], kind="stable")
                trace, place, state = trace[by], place[by], state[by]
            if len(memory) < len(trace):
                memory = np.empty((len(trace), self.count_columns), np.float32)
            row = memory[: len(trace)]
            row[:, : state.shape[1]] = state
            if self.with_places:
                row[:, state.shape[1] : state.shape[1] + 2] = places[place]
            row[:, self.count_columns - values.shape[1] :] = values[trace]
            yield RowBatch(row, trace, place)

    def read_whole(self, what: str) -> RowBatch:
        """All rows at once. ThinkbackError where they are too large."""
        size = 4 * self.count_columns * self.count_rows
        if size > MOST_BYTES:
            raise LimitError(
                f"a model of kind `{what}` needs its {self.count_rows:,} rows of {self.count_columns:,} numbers at "
                f"once ({size / 2**30:.1f} GiB): take fewer layers or tokens, --places each, or the model `xgboost`"
            )
        batches = [RowBatch(batch.values.copy(), batch.trace, batch.place) for batch in self.batches()]
        return RowBatch(*(np.concatenate(one) for one in zip(*batches, strict=True)))
