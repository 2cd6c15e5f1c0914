"""The traces that a verifier is fitted on and scores: their labels, questions, and the values that it reads of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.data.fitted_scores import one_fold
from replay.policies.gate_file import normalised_question
from toolkit.errors import UnknownError, require_known
from toolkit.log import Log, collect

LAST = 8
"""Of a list of a trace, such as log-probabilities of its tokens, this many values at its end are read one by one."""
NO_FOLD = -1
OF_TOKENS = {"token_logprobs": "", "token_entropies": " entropy", "token_ranks": " rank"}
"""Lists that a verifier keeps of a text's tokens, and what their numbers are called."""
OF_VERIFIER = ("verifier:", "tokens:")
"""Inputs that a verifier made, perhaps in folds."""


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
    """The traces of some pools, by default of all. ThinkbackError where the log has no such input or pool."""
    columns = ["trace_id", "example_id", "pool", "correct"]
    frame = collect(log.scan("traces", columns), log).sort("trace_id")
    for pool in pools:
        require_known(pool, frame["pool"].unique(), f"the log has no pool `{pool}`")
    frame = frame.filter(pl.col("pool").is_in(list(pools))) if pools else frame
    groups = question_groups(log)
    keys = frame.select("trace_id", "example_id", "pool")
    found = [_input(log, name, keys) for name in inputs]
    read = pl.concat(found, how="horizontal") if found else pl.DataFrame()
    folds = one_fold(log, (name.partition(":")[2] for name in inputs if name.startswith(OF_VERIFIER)))
    values = read.cast(pl.Float32).to_numpy().astype(np.float32) if found else np.zeros((frame.height, 0), np.float32)
    largest = np.finfo(np.float32).max
    return Traces(
        keys=keys,
        group=keys.join(groups, on="example_id", how="left", maintain_order="left")["group"].to_numpy(),
        right=frame["correct"].cast(pl.Float64).fill_null(float("nan")).to_numpy(),
        values=np.clip(values, -largest, largest),
        names=tuple(read.columns),
        fold=keys["example_id"].replace_strict(folds, default=NO_FOLD, return_dtype=pl.Int64).to_numpy(),
    )


def question_groups(log: Log) -> pl.DataFrame:
    """example_id and group: examples whose questions are copies, or that are of one cluster, are one group."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    frame = collect(log.scan("examples", ["example_id", "question", "cluster"]), log).sort("example_id")
    asked = frame["question"].map_elements(normalised_question, return_dtype=pl.String)
    texts = pl.select(pl.when(asked != "").then(asked).otherwise(frame["example_id"])).to_series()
    clusters = frame["cluster"].fill_null("\0" + frame["example_id"])
    size, place = frame.height, np.arange(frame.height)
    question, cluster = (one.rank("dense").to_numpy().astype(np.int64) - 1 for one in (texts, clusters))
    nodes = np.concatenate([size + question, 2 * size + cluster])
    edges = coo_array((np.ones(2 * size, np.int8), (np.tile(place, 2), nodes)), shape=(3 * size, 3 * size))
    _, component = connected_components(edges, directed=False)
    return frame.select("example_id", group=pl.Series(component[:size], dtype=pl.Int64))


def _input(log: Log, name: str, keys: pl.DataFrame) -> pl.DataFrame:
    """The columns of one input, in the order of `keys`."""
    source, mark, rest = name.partition(":")
    ways = {"trace": _of_trace, "feature": _of_feature, "verifier": _of_verifier, "tokens": _of_tokens}
    if not mark or source not in ways:
        raise UnknownError(
            f"no input is called `{name}`: there are `states`, `trace:COLUMN` (such as `trace:token_logprobs`), "
            "`feature:NAME`, `verifier:NAME` and `tokens:VERIFIER`"
        )
    found = ways[source](log, rest)
    return keys.select("trace_id").join(found, on="trace_id", how="left", maintain_order="left").drop("trace_id")


def _of_trace(log: Log, column: str) -> pl.DataFrame:
    """A column of numbers; of a list its sum, mean, least, greatest and last values."""
    there = log.columns("traces")
    known = [name for name, kind in there.items() if name != "credit" and (kind.is_numeric() or _is_list(kind))]
    require_known(column, known, f"traces have no column of numbers `{column}`")
    frame, name = collect(log.scan("traces", ["trace_id", column]), log), f"trace:{column}"
    if not _is_list(there[column]):
        return frame.select("trace_id", pl.col(column).alias(name))
    return _summed_up(frame, column, name)


def _summed_up(frame: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    """A list in numbers of its own: sum, mean, least, last and greatest values."""
    values = pl.col(column)
    last = [values.list.get(-k, null_on_oob=True).alias(f"{name}[-{k}]") for k in range(1, LAST + 1)]
    summed = [getattr(values.list, how)().alias(f"{name} {how}") for how in ("sum", "mean", "min")]
    return frame.select("trace_id", *summed, *last, values.list.max().alias(f"{name} max"))


def _is_list(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.List) and kind.inner.is_numeric()


def _of_feature(log: Log, column: str) -> pl.DataFrame:
    known = [name for name, kind in log.columns("features").items() if kind.is_numeric()] if log.has("features") else []
    require_known(column, known, f"the log has no feature `{column}`")
    return collect(log.scan("features", ["trace_id", column]), log).rename({column: f"feature:{column}"})


def _of_verifier(log: Log, verifier: str) -> pl.DataFrame:
    frame = collect(log.scan("verifications", ["trace_id", "verifier", "score"]), log)
    require_known(verifier, frame["verifier"].unique(), f"the log has no verifier `{verifier}`")
    own = frame.filter(pl.col("verifier") == verifier)
    return own.select("trace_id", pl.col("score").alias(f"verifier:{verifier}"))


def _of_tokens(log: Log, verifier: str) -> pl.DataFrame:
    """What a verifier keeps of all tokens beside its scores: log-probabilities, and entropies and ranks where it keeps
    them.
    """
    frame = collect(log.scan("verifications", ["trace_id", "verifier", *OF_TOKENS]), log)
    listed = frame.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in OF_TOKENS))
    require_known(verifier, listed["verifier"].unique(), f"no verifier `{verifier}` keeps log-probabilities of tokens")
    own = listed.filter(pl.col("verifier") == verifier)
    kept = [name for name in OF_TOKENS if own[name].is_not_null().any()]
    parts = [_summed_up(own, name, f"tokens:{verifier}{OF_TOKENS[name]}") for name in kept]
    return pl.concat([parts[0], *(part.drop("trace_id") for part in parts[1:])], how="horizontal")
