"""The scores of right and of wrong traces by verifier, from a saved result or from the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from replay.data.needs import slice_name
from replay.runs.figures.figure_data import FigureData, FigureRequest, fitting_rows_drawer, requested_policies
from replay.runs.saved.display import ranked_input
from replay.runs.saved.findings import Findings
from replay.runs.saved.paid_traces import SCORES, TRACES
from toolkit.errors import EmptyError, UnsuitableError, argument
from toolkit.log import Log, collect
from toolkit.show import rank
from toolkit.show.figures.distributions import ScoreDistribution, distributions_figure
from toolkit.stats.curves.roc import auc

BINS, FEW = 24, 12
"""How many bins a panel has; up to how many distinct scores each has a bin by itself."""
TAIL = 0.005
"""The share of scores at each end that the first and the last bin hold, however far out they lie."""
SOLVE = "solve"
PANELS = 4
"""The most panels where no policies are named."""


def scores_data(request: FigureRequest) -> FigureData:
    """The scores of judged traces by verifier, pool and data set, those of right and of wrong traces in the same bins.

    Drawn are those that policies read, at most four panels where no policies are named, and whole verifiers as far as
    these have room. The frame has all.
    """
    result = request.result
    saved = result.folder if result.folder is not None and result.folder.has_file(f"{SCORES}.parquet") else None
    log = request.result_log() if request.log is None and saved is None else request.log
    if log is not None:
        rows, whose = scores_of_log(log, result.examples["example_id"]), "all traces of the examples compared"
    elif saved is not None:
        scores, traces = (pl.read_parquet(saved.verified_path(f"{name}.parquet")) for name in (SCORES, TRACES))
        keys = ["example_id", "slice", "sample"]
        known = scores.join(traces.select(*keys, "correct"), on=keys)
        rows = known.select("example_id", "verifier", "slice", "score", "correct")
        whose = "traces that some policy paid for"
    else:
        raise UnsuitableError(
            f"the result was saved without traces, and its log is not where it was: name it as {argument('log')}, or "
            f"replay again with {argument('traces')}"
        )
    rows = rows.filter(pl.col("score").is_finite() & pl.col("correct").is_not_null())
    rows = rows.join(_data_sets(result, log), on="example_id", how="left")
    groups = rows.partition_by("verifier", "slice", as_dict=True)
    ranked = sorted(groups.items(), key=lambda group: (-group[1].height, group[0]))
    if not ranked:
        raise EmptyError("no verifier scored a judged trace of these examples, so there is no distribution to draw")
    several = len({slice_ for (_, slice_), _ in ranked}) > 1
    read = _score_groups_read(request, ranked)
    if request.policies:
        ranked = read
    else:
        first = {key for key, _ in read}
        ranked = [*read, *(group for group in ranked if group[0] not in first)]
    panels, frames = list[ScoreDistribution](), list[pl.DataFrame]()
    drawn = 0
    for number, ((by, on), mine) in enumerate(ranked):
        parts = sorted(mine.partition_by("dataset", as_dict=True).items())
        for (dataset,), part in parts:
            name = ", ".join([f"{by} on {on}" if several else str(by), *([str(dataset)] if len(parts) > 1 else [])])
            panels.append(_score_distribution(name, part))
            frames.append(_distribution_frame(str(by), str(on), str(dataset), panels[-1]))
        if number == 0 or (number < len(read) and len(panels) <= PANELS):
            drawn = len(panels)
    drawn = len(panels) if request.policies else min(drawn, PANELS)
    remarks = [whose, "AUC: how often a right trace scores above a wrong one"]
    return FigureData(
        pl.concat(frames),
        fitting_rows_drawer(
            distributions_figure, panels[:drawn], (), remarks, len(panels) - drawn, ("more", "more"),
            simulated=result.simulated,
        ),
    )  # fmt: skip


def _data_sets(result: Findings, log: Log | None) -> pl.DataFrame:
    """The data set of each example: example_id, dataset; the same of all where neither result nor log has any."""
    for examples in (result.examples.lazy(), *([] if log is None else [log.scan("examples")])):
        if "dataset" in examples.collect_schema():
            return examples.select("example_id", pl.col("dataset").fill_null("none")).collect()
    return result.examples.select("example_id", dataset=pl.lit("none"))


Group = tuple[tuple[Any, ...], pl.DataFrame]


def _score_groups_read(request: FigureRequest, groups: list[Group]) -> list[Group]:
    """The (verifier, slice) groups that the named policies read; else those that any policy reads, if any does.

    First are those that the best policy reads.
    """
    ranked = [row.policy for row in rank(ranked_input(request.result))]
    names = requested_policies(request, ranked) if request.policies else {policy.name for policy in ranked}
    settings = {policy.name: policy.settings for policy in request.result.policies}
    matches: dict[tuple[Any, ...], pl.DataFrame] = {}
    for policy in ranked:
        words = {*_texts_in_settings(settings[policy.name])} if policy.name in names else set()
        slices = words | {slice_name(word, of) for word in words for of in words}
        matches |= {key: rows for key, rows in groups if key[0] in words and key[1] in slices and key not in matches}
    if not matches and request.policies:
        raise EmptyError("the policies named read no scores of judged traces: name one with a verifier")
    return [*matches.items()]


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


def _distribution_frame(verifier: str, slice_: str, dataset: str, one: ScoreDistribution) -> pl.DataFrame:
    size = len(one.right)
    return pl.DataFrame(
        {"verifier": [verifier] * size, "slice": [slice_] * size, "dataset": [dataset] * size,
         "from": one.edges[:-1], "to": one.edges[1:],
         "right": one.right, "wrong": one.wrong, "auc": [one.auc] * size},
        schema_overrides={"auc": pl.Float64},
    )  # fmt: skip
