"""What may differ between two versions: files and columns by pattern, each with its reason."""

from __future__ import annotations

SECONDS = "measured on a clock"
VERSIONED = "says when, where and by which version it was made"

FILES = {
    "*.pdf": "drawn; the numbers of each figure are compared where it writes them",
    "*.png": "drawn",
    "*.svg": "drawn",
    "*run.json": VERSIONED,
    "*result.json": VERSIONED,
    "*manifest.json": VERSIONED,
    "*record.json": VERSIONED,
    "*factcheck/table_B_3.*": SECONDS,
    "*factcheck/report.*": "has table B.3; the other tables are compared by themselves",
    "*latent/fitting.*": SECONDS,
    "latent/report.*": "has the log's hash, and the log has measured seconds; its tables are compared by themselves",
    "fit-verifier.printed.txt": SECONDS,
    ".*": "left by a step that was stopped",
    "*/result/*": "the same result is compared where `replay` writes it",
    "demo/traces.parquet": "the part by trace has a format of its own, which changed its version",
    "*/orders.parquet": "the same, with the tokens of each step beside the rest",
    "*/stops.parquet": "the same, with `abandoned_by` for `given_up_by`",
}
"""Pattern of a file below the recording -> why it is not compared."""

LINES = {
    "above a wrong one with probability": "limits of a verifier's area: before, they hung on the order of a join, and a"
    " second run of the same version gave others"
}
"""Words of a line -> why its numbers are not compared."""

COLUMNS = {"wall_s": SECONDS, "seconds": SECONDS, "created": VERSIONED, "training_s": SECONDS}
"""Column of a table -> why it is not compared."""
MEASURED = {"states/verifications/*": ("latency_s", "device_s")}
"""Files in which these columns were measured on a clock."""

NEAR = 1e-5
"""How far numbers may lie apart, to themselves: Student's quantiles above 800 degrees of freedom are scipy's."""
NEAR_COLUMNS = {"low", "high", "baseline_low", "baseline_high", "level_low", "level_high"}
"""Columns of limits, which these quantiles reach."""
NEAR_FILES = {"*table*.csv", "*headroom.csv", "*forest.csv", "*ranks*.csv", "*pairs*.csv", "*chosen.csv"}
"""Texts with limits to all digits."""
