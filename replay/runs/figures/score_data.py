"""The scores of right and of wrong traces by verifier, from a saved result or from the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from replay.data.needs import slice_name
from replay.runs.figures.figure_data import PANELS, FigureData, FigureRequest, fitting_rows_drawer, requested_policies
from replay.runs.saved.paid_traces import SCORES, TRACES
from toolkit.errors import EmptyError, UnsuitableError, argument
from toolkit.log import Log, collect
from toolkit.show.figures.distributions import ScoreDistribution, distributions_figure
from toolkit.stats.curves.roc import auc

BINS, FEW = 24, 12
"""How many bins a panel has; up to how many distinct scores each has a bin by itself."""
TAIL = 0.005
"""The share of scores at each end that the first and the last bin hold, however far out they lie."""
SOLVE = "solve"


def scores_data(request: FigureRequest) -> FigureData:
    """The scores of judged traces by verifier and pool, those of right and of wrong traces in the same bins."""
    result = request.result
    saved = result.folder if result.folder is not None and result.folder.has_file(f"{SCORES}.parquet") else None
    log = request.result_log() if request.log is None and saved is None else request.log
    if log is not None:
        rows, whose = scores_of_log(log, result.examples["example_id"]), "all traces of the examples compared"
    elif saved is not None:
        scores, traces = (pl.read_parquet(saved.verified_path(f"{name}.parquet")) for name in (SCORES, TRACES))
        keys = ["example_id", "slice", "sample"]
        rows = scores.join(traces.select(*keys, "correct"), on=keys).select("verifier", "slice", "score", "correct")
        whose = "traces that some policy paid for"
    else:
        raise UnsuitableError(
            f"the result was saved without traces, and its log is not where it was: name it as {argument('log')}, or "
            f"replay again with {argument('traces')}"
        )
    rows = rows.filter(pl.col("score").is_finite() & pl.col("correct").is_not_null())
    groups = rows.partition_by("verifier", "slice", as_dict=True)
    ranked = sorted(groups.items(), key=lambda group: (-group[1].height, group[0]))
    if not ranked:
        raise EmptyError("no verifier scored a judged trace of these examples, so there is no distribution to draw")
    several = len({slice_ for (_, slice_), _ in ranked}) > 1
    if request.policies:
        ranked = _score_groups_read(request, ranked)
    panels = [_score_distribution(f"{by} on {on}" if several else str(by), mine) for (by, on), mine in ranked]
    remarks = [whose, "AUC: how often a right one scores above a wrong one"]
    drawn = panels if request.policies else panels[:PANELS]
    frame = pl.concat(
        _distribution_frame(str(by), str(on), one) for ((by, on), _), one in zip(ranked, panels, strict=True)
    )
    left_out = len(panels) - len(drawn)
    return FigureData(
        frame,
        fitting_rows_drawer(
            distributions_figure, drawn, (), remarks, left_out, ("more", "more"), simulated=result.simulated
        ),
    )


Group = tuple[tuple[Any, ...], pl.DataFrame]


def _score_groups_read(request: FigureRequest, groups: list[Group]) -> list[Group]:
    """The (verifier, slice) groups that the named policies read."""
    names = requested_policies(request, request.result.policies)
    words = [{*_texts_in_settings(policy.settings)} for policy in request.result.policies if policy.name in names]
    matches = [
        ((by, on), rows)
        for (by, on), rows in groups
        if any(
            by in policy_words
            and any(
                on in (policy_word, *(slice_name(policy_word, of) for of in policy_words))
                for policy_word in policy_words
            )
            for policy_words in words
        )
    ]
    if not matches:
        raise EmptyError("no verifier's scores of judged traces are read by the policies named")
    return matches


def _texts_in_settings(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts_in_settings(one)


def scores_of_log(log: Log, ids: pl.Series) -> pl.DataFrame:
    """The scores of every scored and judged trace of some examples: example_id, verifier, slice, score, correct."""
    in_run = pl.col("example_id").is_in(ids.implode())
    traces = log.scan("traces", ["trace_id", "example_id", "pool", "action", "parent_id", "correct"]).filter(in_run)
    scores = log.scan("verifications", ["trace_id", "example_id", "verifier", "score"]).filter(in_run)
    known = scores.filter(pl.col("score").is_not_null()).select("trace_id", "verifier", "score")
    parents = traces.select(parent_id="trace_id", parent="pool")
    judged = traces.filter(pl.col("correct").is_not_null()).join(parents, on="parent_id", how="left")
    whole = collect(judged.join(known, on="trace_id").drop("trace_id", "parent_id"), log)
    kinds = whole.select("action", "pool", "parent").unique()
    names = [
        pool if action == SOLVE else slice_name(action, parent or "?") for action, pool, parent in kinds.iter_rows()
    ]
    with_slices = kinds.with_columns(slice=pl.Series(names, dtype=pl.String))
    rows = whole.join(with_slices, on=["action", "pool", "parent"], nulls_equal=True)
    return rows.select("example_id", "verifier", "slice", "score", pl.col("correct").cast(pl.Float64))


def _score_distribution(name: str, rows: pl.DataFrame) -> ScoreDistribution:
    scores, right = rows["score"].to_numpy().astype(float), rows["correct"].to_numpy() > 0.5
    edges = _bin_edges(scores)
    clipped = np.clip(scores, edges[0], edges[-1])
    shares = [np.histogram(clipped[side], edges)[0] / max(1, side.sum()) for side in (right, ~right)]
    area = auc(scores, right.astype(float))
    of_right, of_wrong = (tuple(map(float, share)) for share in shares)
    values = np.unique(scores)
    return ScoreDistribution(
        name, tuple(map(float, edges)), of_right, of_wrong, None if np.isnan(area) else area,
        tuple(map(float, values)) if len(values) <= FEW else (),
    )  # fmt: skip


def _bin_edges(scores: np.ndarray) -> np.ndarray:
    """Edges of the bins: around each score if there are few distinct ones, else evenly over nearly all."""
    values = np.unique(scores)
    if len(values) == 1:
        return values[0] + np.array([-0.5, 0.5])
    if len(values) <= FEW:
        half = 0.45 * np.diff(values).min()
        return np.stack([values - half, values + half], axis=1).ravel()
    low, high = np.quantile(scores, [TAIL, 1 - TAIL])
    return np.linspace(low, high, BINS + 1) if low < high else np.linspace(values[0], values[-1], BINS + 1)


def _distribution_frame(verifier: str, slice_: str, one: ScoreDistribution) -> pl.DataFrame:
    size = len(one.right)
    return pl.DataFrame(
        {"verifier": [verifier] * size, "slice": [slice_] * size, "from": one.edges[:-1], "to": one.edges[1:],
         "right": one.right, "wrong": one.wrong, "auc": [one.auc] * size},
        schema_overrides={"auc": pl.Float64},
    )  # fmt: skip
