"""Analyses beside the thesis's tables: how early gold appears, whose rule never holds, what the settings change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.needs import Needs, scores_on
from replay.data.read import BlockRequest, read_block
from replay.engine.trajectory import Walk, walk_block
from replay.kinds.every_example import every_example
from replay.kinds.sample import Sample
from replay.runs.coverage import MIN_SERVED
from replay.runs.example_set import resampling_units
from replay.runs.run import run
from replay.sampling.orders import Generation
from replay.sampling.stops import Margin
from replay.studies.factcheck.runs import FactcheckSetting
from replay.studies.kit.cells import warnings_of
from toolkit.errors import ThinkbackError
from toolkit.log import Log
from toolkit.stats import OutcomeBlock, summarise

BLOCK_EXAMPLES = 8192
MARGINS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
MINIMA = (2, 3, 5)
BOOTSTRAPS = (2, 3, 5)
CAPS = (5, 10, 15, 20, 30, 40)
SWEPT = {"margin": pl.Float64, "cap": pl.Int64, "min_valid": pl.Int64, "bootstrap": pl.Int64}
SENSITIVITY = (*SWEPT, "metric", "estimate", "low", "high")
"""Columns of the settings tried, and of the table of what they give."""


@dataclass(frozen=True)
class Depth:
    """How many traces the claims that are asked about have: `size`, which nine tenths of them reach.

    `shorter`: claims that do not. `largest`: of any claim.
    """

    size: int
    largest: int
    shorter: int
    claims: int

    @property
    def note(self) -> str:
        """What a table of pools of this size leaves out."""
        return f"pools of {self.size} traces: {self.shorter:,} of {self.claims:,} claims have fewer and are left out"


def pool_depth(log: Log, setting: FactcheckSetting) -> Depth:
    """The largest size of pool that at least nine tenths of the claims that are asked about have."""
    found = [block.pools[setting.pool].size for block in _blocks(log, setting, verified=False)]
    sizes = np.sort(np.concatenate(found))[::-1]
    share, of = MIN_SERVED
    size = max(int(sizes[-(-share * len(sizes) // of) - 1]), 1)
    return Depth(size, int(sizes[0]), int((sizes < size).sum()), len(sizes))


def gold_within(log: Log, setting: FactcheckSetting, size: int) -> pl.DataFrame:
    """Share of claims with a trace of the gold label among the first k, for every k of pools of `size` traces.

    Columns: k, share, low, high, n. Claims with a shorter pool, and those without gold, are left out; where fewer than
    nine tenths of the claims asked about are left, the shares are null.
    """
    rights, units, asked = [], [], 0
    for block in _blocks(log, setting, verified=False):
        pool = block.pools[setting.pool]
        kept = (pool.size >= size) & ~np.isnan(pool.judged[:, :size]).any(axis=1)
        right = (pool.judged[kept, :size] > 0) & (pool.code[kept, :size] >= 0)
        asked += len(kept)
        rights.append(np.maximum.accumulate(right, axis=1))
        units.append(resampling_units(block.examples).filter(pl.Series(kept)))
    return _shares(np.concatenate(rights), pl.concat(units), asked, setting)


def unresolved(log: Log, setting: FactcheckSetting, size: int) -> pl.DataFrame:
    """Without a cap but the pool of `size` traces: claims whose margin rule has not held after k traces.

    Columns: k, share, low, high, n, largest_margin and median_margin: of the largest lead that each of these claims
    reached by then, once enough were verified (null: none has two labels). All are null where fewer than nine tenths
    of the claims asked about have such a pool, verified throughout.
    """
    held, leads, units, asked = [], [], [], 0
    walk = Walk(setting.pool, setting.verifier, Generation(), 0, 0, False, size, 1)
    for block in _blocks(log, setting, verified=True):
        pool = block.pools[setting.pool]
        trajectory = walk_block(block, walk)
        kept = (pool.size >= size) & (trajectory.missing > size)
        asked += len(kept)
        seen = trajectory.prefix
        strength = setting.margin.strength(seen)[kept]
        lead = np.where((seen.verified >= setting.margin.min_valid) & (seen.verified_answers > 1), seen.lead, -np.inf)
        held.append(np.maximum.accumulate(strength, axis=1) >= setting.margin.threshold)
        leads.append(np.maximum.accumulate(lead[kept], axis=1))
        units.append(resampling_units(block.examples).filter(pl.Series(kept)))
    open_, lead = ~np.concatenate(held), np.concatenate(leads)
    frame = _shares(open_, pl.concat(units), asked, setting)
    leads_of = lead if enough(len(lead), asked) else np.full_like(lead, -np.inf)
    reached = [leads_of[open_[:, k] & (leads_of[:, k] > -np.inf), k] for k in range(open_.shape[1])]
    return frame.with_columns(
        largest_margin=pl.Series([float(r.max()) if len(r) else None for r in reached], dtype=pl.Float64),
        median_margin=pl.Series([float(np.median(r)) if len(r) else None for r in reached], dtype=pl.Float64),
    )


@dataclass(frozen=True)
class Sensitivity:
    """Columns of `table`: margin, cap, min_valid, bootstrap (null: adaptive stopping), metric, estimate, low, high.

    Numbers are null for a setting that cannot be served for nine tenths of the claims asked about. `warnings`: what
    must be said above it; `missing`: why numbers are null.
    """

    table: pl.DataFrame
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def sensitivity(
    log: Log,
    setting: FactcheckSetting,
    size: int,
    *,
    margins: Sequence[float] = MARGINS,
    caps: Sequence[int] | None = None,
    minima: Sequence[int] = MINIMA,
    bootstraps: Sequence[int] = BOOTSTRAPS,
) -> Sensitivity:
    """Macro-F1 and operations over margin, cap (at most `size`), minimum and bootstrap pool."""
    caps = [cap for cap in (caps or CAPS) if cap <= size] or [size]
    keys, policies = [], []
    for margin, cap, least, first in product(margins, caps, minima, (None, *bootstraps)):
        own: dict[str, Any] = {"max_traces": cap, "stop": Margin(margin, least, setting.margin.single_label)}
        if first is not None:
            own |= {"order": "surrogate", "features": setting.features, "bootstrap": first}
        how = "adaptive stopping" if first is None else f"surrogate from {first}"
        name = f"{how} with margin {margin:g}, cap {cap}, minimum {least}"
        keys.append((name, margin, cap, least, first))
        policies.append(Sample(name=name, pool=setting.pool, verifier=setting.verifier, **own))
    schema = {"policy": pl.String, **SWEPT}
    metrics = pl.DataFrame({"metric": ["macro_f1", "operations"]})
    table = pl.DataFrame(keys, schema=schema, orient="row").join(metrics, how="cross", maintain_order="left_right")
    try:
        result = run(log, [*policies, every_example(setting.pool)], **setting.asked)
    except ThinkbackError as error:
        null = {name: pl.lit(None, pl.Float64) for name in ("estimate", "low", "high")}
        return Sensitivity(table.with_columns(**null).select(*SENSITIVITY), missing=(str(error),))
    made = table.join(result.summary, on=["policy", "metric"], how="left", maintain_order="left").select(*SENSITIVITY)
    count = f"{len(result.dropped)} of the {len(policies)} settings cannot be replayed and are dashes"
    missing = [f"{count}, such as {name}: {why}" for name, why in result.dropped.items()]
    return Sensitivity(made, warnings_of(result), tuple(missing[:1]))


def _blocks(log: Log, setting: FactcheckSetting, verified: bool) -> Iterator[LogBlock]:
    """The claims that the study is asked about, a block at a time."""
    examples = setting.claims(log, "labels", "gold", "cluster")
    needs = Needs(pools=frozenset([setting.pool]))
    wanted = BlockRequest(needs | scores_on([setting.pool], setting.verifier) if verified else needs)
    for start in range(0, len(examples), BLOCK_EXAMPLES):
        yield read_block(log, examples[start : start + BLOCK_EXAMPLES], wanted)


def enough(claims: int, asked: int) -> bool:
    """Whether a number of this many claims may stand: they are nine tenths of those asked about."""
    share, of = MIN_SERVED
    return claims > 0 and claims * of >= share * asked


def _shares(holds: np.ndarray, units: pl.Series, asked: int, setting: FactcheckSetting) -> pl.DataFrame:
    """Share of claims (E, K) that hold for each k, with intervals; claims of a cluster are resampled together."""
    ks = range(1, holds.shape[1] + 1)
    schema = {"k": pl.Int64, "share": pl.Float64, "low": pl.Float64, "high": pl.Float64, "n": pl.Int64}
    if not enough(len(holds), asked):
        return pl.DataFrame([(k, None, None, None, len(holds)) for k in ks], schema=schema, orient="row")
    number = units.rank("dense").to_numpy().astype(np.int64) - 1
    block = OutcomeBlock(np.full(len(holds), "", object), number, {"correct": holds.T.astype(float)})
    found = summarise(lambda: iter([block]), [str(k) for k in ks], settings=setting.settings).summary
    rows = found.filter(pl.col("metric") == "accuracy").select("estimate", "low", "high", "n").rows()
    return pl.DataFrame([(k, *row) for k, row in zip(ks, rows, strict=True)], schema=schema, orient="row")
