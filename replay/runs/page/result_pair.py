"""Two results that a page compares example by example: what it shows of the differences, and what it computes them of.

Differences are those of the first result minus the second, on the examples that both have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from replay.runs.compare.compared import FEW
from replay.runs.compare.comparing import compare
from replay.runs.page.dashboard_data import Json, json_number, json_numbers
from replay.runs.passes.example_set import resampling_units
from replay.runs.saved.findings import OUTCOMES, Findings
from replay.runs.saved.saved_folder import SavedFolder
from toolkit.columns import metric_column
from toolkit.log import collect
from toolkit.printable import printable
from toolkit.stats.curves.arrays import unit_numbers
from toolkit.stats.limits.intervals import NORMAL
from toolkit.stats.limits.student import student_quantile


def pair_data(
    results: tuple[Findings, Findings], folders: tuple[SavedFolder, SavedFolder], names: tuple[list[str], list[str]],
    coded: bool,
) -> Json:  # fmt: skip
    """The differences of policies of one name, and what the page computes those of any two policies of.

    `names`: the policies of each result as the page ranks them; `coded`: whether it has all outcomes of both. `alone`:
    how many examples only one has; `at`: where those of both are among a result's, each as its distance to the one
    before, None where they are all; `means`: of each policy on them, None where `why` says why any two policies cannot
    be compared; `ranked`: what ranks the second result, if that is something else; `marked`: limits of which a note
    says how they are computed. Raises ThinkbackError for results without an example in common, or whose examples differ
    in gold or clusters.
    """
    first, second = results
    compared = compare(first, None, None, second, None, same_names=True)
    ids = _shared_ids(results)
    number = [{name: place for place, name in enumerate(of)} for of in names]
    place = pl.col("first").replace_strict(number[0], return_dtype=pl.Int64, default=-1)
    pairs = compared.pairs.sort(place)
    table = replace(compared, left_out=0, simulated=False).table()
    units = unit_numbers(resampling_units(first.examples.filter(pl.col("example_id").is_in(ids.implode()))))
    count = len(np.unique(units))
    column = metric_column(compared.metric, first.columns).name
    other = None if compared.metric == second.summariser.metric else second.summariser.metric
    why = (
        "the second result is ranked by something else" if other is not None
        else "the page has not the outcomes of all examples of both" if not coded
        else "the examples are one cluster" if count < 2 else None
    )  # fmt: skip
    level = (1 + compared.level) / 2
    return {
        "n": len(ids), "alone": [len(result.examples) - len(ids) for result in results], "level": compared.level,
        "notes": [printable(str(line).replace("`", "")) for line in (*table.above, *table.below)],
        "first": [number[0][name] for name in pairs["first"]], "second": [number[1][name] for name in pairs["second"]],
        **{name: json_numbers(pairs[name]) for name in ("difference", "low", "high", "p_value")},
        **{name: pairs[name].to_list() for name in ("fixes", "flips", "differs")},
        "marked": pairs["method"].is_in([*FEW]).fill_null(False).to_list(),
        "at": [_steps_to(result, ids) for result in results],
        "units": None if count == len(units) else units.tolist(), "count": count,
        "quantile": None if why else float(student_quantile(np.array(count - 1.0), level)), "why": why,
        "ranked": None if other is None else printable(metric_column(other, second.columns).heading),
        "normal": NORMAL.inv_cdf(level),
        "means": [_means(*parts, ids, column) for parts in zip(folders, names, strict=True)] if why is None else None,
    }  # fmt: skip


def changed_examples(
    results: Sequence[Findings], folders: Sequence[SavedFolder], column: str
) -> tuple[pl.Series, pl.Series]:
    """The ids of the examples that two results have, and of those whose outcome, by a column, changed for a policy of
    one name that sees no gold.
    """
    ids = _shared_ids(results)
    frames = []
    diagnostics = [policy.name for result in results for policy in result.policies if policy.diagnostic]
    for folder, suffix in zip(folders, ("first", "second"), strict=True):
        value = pl.col(column).cast(pl.Float64).alias(suffix)
        scan = pl.scan_parquet(folder.verified_path(OUTCOMES)).filter(~pl.col("policy").is_in(diagnostics))
        frames.append(scan.select("policy", "example_id", value))
    both = frames[0].join(frames[1], on=["policy", "example_id"])
    changed = collect(both.filter(pl.col("first") != pl.col("second")).select(pl.col("example_id").unique()))
    return ids, changed["example_id"]


def _shared_ids(results: Sequence[Findings]) -> pl.Series:
    first, second = (result.examples["example_id"] for result in results)
    return first.filter(first.is_in(second.implode()))


def _steps_to(result: Findings, ids: pl.Series) -> list[int] | None:
    """The places of some examples among those of a result, as distances to the one before; None where they are all."""
    if len(ids) == len(result.examples):
        return None
    return np.diff(np.flatnonzero(result.examples["example_id"].is_in(ids.implode()).to_numpy()), prepend=0).tolist()


def _means(folder: SavedFolder, names: Sequence[str], ids: pl.Series, column: str) -> list[float | int | None]:
    """The mean of an outcome over some examples, policy by policy; None where it has no value."""
    scan = pl.scan_parquet(folder.verified_path(OUTCOMES)).filter(pl.col("example_id").is_in(ids.implode()))
    means = dict(collect(scan.group_by("policy").agg(pl.col(column).cast(pl.Float64).mean())).iter_rows())
    return [json_number(means.get(name)) for name in names]
