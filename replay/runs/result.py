"""What a run gives back: frames, notes, and what it takes to repeat it."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replay.policies.base import Policy
from replay.runs.provenance import write_record
from toolkit.columns import OutcomeColumn
from toolkit.notes import Note
from toolkit.stats import Summary
from toolkit.work_places import scratch_folder


class Scratch:
    """A folder of its own for outcomes that may not fit in memory; it goes when nothing refers to it any more."""

    def __init__(self) -> None:
        self.path = Path(scratch_folder())
        weakref.finalize(self, shutil.rmtree, self.path, True)


@dataclass(frozen=True)
class Result:
    """What a run found. Frames are polars; `notes` are what a table should carry."""

    policies: tuple[Policy, ...]
    statistics: Summary
    groups: Mapping[tuple[object, ...], Summary]
    by: tuple[str, ...]
    baseline: str | None
    dropped: Mapping[str, str]
    excluded: Mapping[str, str]
    notes: tuple[Note, ...]
    simulated: bool
    columns: tuple[OutcomeColumn, ...]
    """What the columns of outcomes and the metrics mean, those of its policies and the user's own among them."""
    provenance: Mapping[str, Any]
    thresholds: pl.DataFrame | None
    """Every distinct threshold of each gate with the threshold `all`, one row each: exact means."""
    bands: pl.DataFrame | None
    """Intervals at up to 200 of them, pointwise and for the whole curve: one row per (policy, threshold, metric)."""
    draw: Callable[[str], np.ndarray] = field(repr=False)
    """Resampled values of a metric, (policies, resamples): the resamples of every interval of the run."""
    within: Callable[[pl.Series], Summary] = field(repr=False)
    """The statistics of some examples alone, by their ids."""
    _scratch: Scratch = field(repr=False)

    @cached_property
    def outcomes(self) -> pl.DataFrame:
        """One row per (policy, example)."""
        return pl.read_parquet(self._scratch.path / "outcomes.parquet")

    @cached_property
    def seconds(self) -> pl.DataFrame:
        """Seconds of the whole path by policy: examples, mean, p50, p95, p99 (linear); null where some are unlogged."""
        seconds = pl.col("latency_s")
        known = seconds.null_count() == 0
        return self.outcomes.group_by("policy", maintain_order=True).agg(
            examples=pl.len(),
            mean=pl.when(known).then(seconds.mean()),
            **{f"p{level}": pl.when(known).then(seconds.quantile(level / 100, "linear")) for level in (50, 95, 99)},
        )

    @property
    def summary(self) -> pl.DataFrame:
        """One row per (policy, metric)."""
        return self.statistics.summary

    @property
    def comparisons(self) -> pl.DataFrame:
        """One row per (policy, baseline, metric): paired differences to the baseline and to the leader."""
        return self.statistics.comparisons

    @property
    def leader(self) -> str | None:
        """The most accurate policy that is no diagnostic."""
        return self.statistics.leader

    @cached_property
    def by_summary(self) -> pl.DataFrame | None:
        """`summary` within each group of `by`, the group's columns first."""
        return self._by("summary")

    @cached_property
    def by_comparisons(self) -> pl.DataFrame | None:
        """`comparisons` within each group of `by`, the group's columns first."""
        return self._by("comparisons")

    def save(self, directory: str | Path) -> None:
        """Write outcomes, summary, comparisons (and the groups') as Parquet, and run.json, into a folder."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self._scratch.path / "outcomes.parquet", folder / "outcomes.parquet")
        frames: dict[str, pl.DataFrame | None] = {"summary": self.summary, "comparisons": self.comparisons}
        frames |= {"seconds": self.seconds, "thresholds": self.thresholds, "bands": self.bands}
        frames |= {"summary_by": self.by_summary, "comparisons_by": self.by_comparisons}
        for name, frame in frames.items():
            if frame is not None:
                frame.write_parquet(folder / f"{name}.parquet")
            else:
                (folder / f"{name}.parquet").unlink(missing_ok=True)  # of an earlier run that had it
        write_record(folder, self.provenance)

    def _by(self, name: str) -> pl.DataFrame | None:
        if not self.by:
            return None
        frames = []
        for group, statistics in self.groups.items():
            columns = [pl.lit(value).cast(pl.String).alias(c) for c, value in zip(self.by, group, strict=True)]
            frames.append(getattr(statistics, name).select(*columns, pl.all()))
        return pl.concat(frames)
