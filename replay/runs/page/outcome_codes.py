"""All outcomes of a result for its page, one sign each, by which the page computes the difference of any two policies.

A value is rounded to one of `LEVELS` steps: 56 hold halves, sevenths and eighths exactly. The page takes
differences from the estimates, which are not rounded, and from the outcomes the variance of the difference alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from replay.runs.page.dashboard_data import Json
from replay.runs.passes.example_set import resampling_units
from replay.runs.saved.findings import OUTCOMES, Findings
from replay.runs.saved.saved_folder import SavedFolder
from toolkit.columns import OutcomeColumn, metric_column
from toolkit.log import collect
from toolkit.stats.curves.arrays import unit_numbers
from toolkit.stats.limits.intervals import NORMAL
from toolkit.stats.limits.student import student_quantile

LEVELS = 56
"""The highest code of a value; 0 is the lowest value that occurs, or 0 of a share."""
FIRST, MISSING = ord("#"), " "
"""The sign of the code 0, after which come those that JSON does not escape; the sign of no value."""
MOST = 4_000_000
"""The most outcomes of which a page holds all."""


def has_outcome_codes(result: Findings, folder: SavedFolder) -> bool:
    """Whether a page of the result has all outcomes: where the metric that ranks is their mean, where strata have no
    weights, and where they are not too many.
    """
    column = metric_column(result.summariser.metric, result.columns)
    held = pl.read_parquet_schema(folder.verified_path(OUTCOMES))
    known = column.name in held and not column.shared and result.summariser.outcomes.examples.weights is None
    several = resampling_units(result.examples).n_unique() > 1
    return known and several and 0 < len(result.examples) * len(result.policies) <= MOST


def quality_for_correctness(results: Sequence[Findings], folders: Sequence[SavedFolder]) -> OutcomeColumn | None:
    """What stands in place of correctness for every one of some results: what the first is ranked by, where one of them
    judges no answer and all have it; None where correctness stands there itself.
    """
    column = metric_column(results[0].summariser.metric, results[0].columns)
    files = [folder.verified_path(OUTCOMES) for folder in folders]
    judged = all(collect(pl.scan_parquet(file).select(pl.col("correct").is_not_null().any())).item() for file in files)
    known = all(column.name in pl.read_parquet_schema(file) for file in files)
    return None if judged or not known or column.name == "correct" else column


def outcome_codes(result: Findings, folder: SavedFolder, names: Sequence[str]) -> Json:
    """The codes of every example's outcomes, policy by policy in the order of `names`, where a page has them.

    `units`: the number of each example's resampling unit, None where each is its own; `quantile`: of Student's t with
    one degree of freedom less than there are units, `normal`: of the normal distribution, for limits at `level`.
    """
    column, level = metric_column(result.summariser.metric, result.columns), result.summariser.settings.level
    unit = unit_numbers(resampling_units(result.examples))
    units = len(np.unique(unit))
    values = _values(result, folder, names, column.name)
    known = ~np.isnan(values)
    low, high = (0.0, 1.0) if column.share or not known.any() else (np.nanmin(values), np.nanmax(values))
    codes = np.full(values.shape, ord(MISSING), np.uint8)
    shares = np.clip((values[known] - low) / ((high - low) or 1.0), 0, 1)
    codes[known] = FIRST + np.rint(LEVELS * shares).astype(np.uint8)
    return {
        "codes": codes.tobytes().decode("ascii"),
        "low": float(low), "high": float(high), "levels": LEVELS, "changes": column.name == "correct",
        "share": column.share, "level": level, "normal": NORMAL.inv_cdf((1 + level) / 2),
        "units": None if units == len(unit) else unit.tolist(), "count": units,
        "quantile": float(student_quantile(np.array(units - 1.0), (1 + level) / 2)),
    }  # fmt: skip


def _values(result: Findings, folder: SavedFolder, names: Sequence[str], column: str) -> np.ndarray:
    """The values of an outcome column, shape (examples, policies); NaN where there is none."""
    value = pl.col(column).cast(pl.Float64)
    scan = pl.scan_parquet(folder.verified_path(OUTCOMES)).select("policy", "example_id", value)
    place = pl.DataFrame({"example_id": result.examples["example_id"]}).with_row_index("row")
    order = pl.DataFrame({"policy": names}, schema={"policy": pl.String}).with_row_index("number")
    rows = collect(scan).join(place, on="example_id").join(order, on="policy")
    values = np.full((len(result.examples), len(names)), np.nan)
    values[rows["row"].to_numpy(), rows["number"].to_numpy()] = rows[column].fill_null(np.nan).to_numpy()
    return values
