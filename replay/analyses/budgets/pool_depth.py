"""How many traces claims have, within how many one of them is right, and how long a margin rule keeps going."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.conditions import examples_where
from replay.data.needs import Needs, needs_of_scores
from replay.data.read import BlockRequest, read_block
from replay.engine.trajectory import Walk, walk_block
from replay.runs.passes.coverage import MIN_COVERED
from replay.runs.passes.example_set import resampling_units
from replay.sampling.orders import GenerationOrder
from toolkit.log import Log
from toolkit.show import remark
from toolkit.stats import OutcomeBlock, Settings, summarise
from toolkit.stopping.stops import Margin

BLOCK_EXAMPLES = 8192


@dataclass(frozen=True)
class PoolDepth:
    """How many traces claims have: nine tenths of them have at least `size`.

    `shorter`: claims that do not. `largest`: of any claim.
    """

    size: int
    largest: int
    shorter: int
    claims: int

    @property
    def uncovered_claims_note(self) -> str:
        """A note on the claims that a table of pools of this size leaves out."""
        text = f"pools of {self.size} traces: {self.shorter:,} of {self.claims:,} claims have fewer and are left out"
        return remark("short_pools", text)


def pool_depth(log: Log, pool: str, where: str | None = None) -> PoolDepth:
    """The largest pool size that at least nine tenths of the claims asked about have."""
    pool_sizes = [block.pools[pool].size for block in _pool_blocks(log, pool, where)]
    sizes = np.sort(np.concatenate(pool_sizes))[::-1]
    share, of = MIN_COVERED
    size = max(int(sizes[-(-share * len(sizes) // of) - 1]), 1)
    return PoolDepth(size, int(sizes[0]), int((sizes < size).sum()), len(sizes))


def shares_with_gold_trace(
    log: Log, pool: str, size: int, *, where: str | None = None, settings: Settings
) -> pl.DataFrame:
    """The share of claims with a trace of the gold label among their first k, for each k up to `size`.

    Columns: k, share, low, high, n. Claims with a shorter pool, and those without gold, are left out; where fewer than
    nine tenths of the claims asked about are left, the shares are null.
    """
    rights, units, total = [], [], 0
    for block in _pool_blocks(log, pool, where):
        traces = block.pools[pool]
        mask = (traces.size >= size) & ~np.isnan(traces.judged[:, :size]).any(axis=1)
        right = (traces.judged[mask, :size] > 0) & (traces.code[mask, :size] >= 0)
        total += len(mask)
        rights.append(np.maximum.accumulate(right, axis=1))
        units.append(resampling_units(block.examples).filter(pl.Series(mask)))
    return _share_of_claims_by_k(np.concatenate(rights), pl.concat(units), total, settings)


def unresolved_claim_shares(
    log: Log, pool: str, verifier: str, size: int, *, margin: Margin, where: str | None = None, settings: Settings
) -> pl.DataFrame:
    """The share of claims on which the margin rule has not held after k traces, for each k up to `size`.

    Columns: k, share, low, high, n, largest_margin and median_margin: of the largest lead that each of these claims
    reached by then, once enough were verified (null: none has two labels). All are null where fewer than nine tenths of
    the claims asked about have such a pool, verified throughout.
    """
    masks, leads, units, total = [], [], [], 0
    walk = Walk(pool, verifier, GenerationOrder(), 0, 0, False, size, 1)
    for block in _pool_blocks(log, pool, where, verifier):
        trajectory = walk_block(block, walk)
        mask = (block.pools[pool].size >= size) & (trajectory.missing > size)
        total += len(mask)
        seen = trajectory.stop_prefix
        statistic = margin.statistic(seen)[mask]
        lead = np.where((seen.verified >= margin.min_valid) & (seen.verified_answers > 1), seen.lead, -np.inf)
        masks.append(np.maximum.accumulate(statistic, axis=1) >= margin.threshold)
        leads.append(np.maximum.accumulate(lead[mask], axis=1))
        units.append(resampling_units(block.examples).filter(pl.Series(mask)))
    open_, lead = ~np.concatenate(masks), np.concatenate(leads)
    frame = _share_of_claims_by_k(open_, pl.concat(units), total, settings)
    leads_of = lead if covers_enough_claims(len(lead), total) else np.full_like(lead, -np.inf)
    reached = [leads_of[open_[:, k] & (leads_of[:, k] > -np.inf), k] for k in range(open_.shape[1])]
    return frame.with_columns(
        largest_margin=pl.Series([float(r.max()) if len(r) else None for r in reached], dtype=pl.Float64),
        median_margin=pl.Series([float(np.median(r)) if len(r) else None for r in reached], dtype=pl.Float64),
    )


def _pool_blocks(log: Log, pool: str, where: str | None, verifier: str | None = None) -> Iterator[LogBlock]:
    """The examples of a condition, a block at a time, with their pool and a verifier's scores."""
    examples = examples_where(log, where, "labels", "gold", "cluster")
    needs = Needs(pools=frozenset([pool]))
    request = BlockRequest(needs if verifier is None else needs | needs_of_scores([pool], verifier))
    for start in range(0, len(examples), BLOCK_EXAMPLES):
        yield read_block(log, examples[start : start + BLOCK_EXAMPLES], request)


def covers_enough_claims(claims: int, total: int) -> bool:
    """Whether a number may be reported for so many claims: they are nine tenths of the `total` asked about."""
    share, of = MIN_COVERED
    return claims > 0 and claims * of >= share * total


def _share_of_claims_by_k(holds: np.ndarray, units: pl.Series, total: int, settings: Settings) -> pl.DataFrame:
    """The share of claims on which `holds` (E, K) is true for each k, with intervals; clusters are resampled whole."""
    ks = range(1, holds.shape[1] + 1)
    schema = {"k": pl.Int64, "share": pl.Float64, "low": pl.Float64, "high": pl.Float64, "n": pl.Int64}
    if not covers_enough_claims(len(holds), total):
        return pl.DataFrame([(k, None, None, None, len(holds)) for k in ks], schema=schema, orient="row")
    number = units.rank("dense").to_numpy().astype(np.int64) - 1
    block = OutcomeBlock(np.full(len(holds), "", object), number, {"correct": holds.T.astype(float)})
    summary = summarise(lambda: iter([block]), [str(k) for k in ks], settings=settings).summary
    rows = summary.filter(pl.col("metric") == "accuracy").select("estimate", "low", "high", "n").rows()
    return pl.DataFrame([(k, *row) for k, row in zip(ks, rows, strict=True)], schema=schema, orient="row")
