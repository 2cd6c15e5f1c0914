"""The table of what every policy of a run costs: calls, tokens, seconds, hours and euros, with reductions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replay.studies.factcheck.methods.runs import PolicyOfRun, RunCells
from replay.studies.kit.sheet import Row, intervals

SPENT = (
    "traces", "verifications", "operations", "calls", "prompt_tokens", "completion_tokens", "total_tokens",
    "generation_s", "verification_s", "latency_s", "cost_eur",
)  # fmt: skip
PER = (
    ("generation_s", "traces", "per trace"),
    ("prompt_tokens+completion_tokens", "traces", "per trace"),
    ("verification_s", "verifications", "per verifier call"),
    ("operations", "verifications", "per verifier call"),
    ("latency_s", "verifications", "per verifier call"),
)
"""What one mean is divided by another for."""
EFFICIENCY = (
    intervals("Mean", "mean", 4, significant=2),
    intervals("Total", "total", 2, significant=2),
    intervals("Change, %", "change", 1, signed=True),
)


def missing_labels(of: PolicyOfRun) -> float | None:
    """Traces of one method without a label."""
    attempts, valid = of.total("traces"), of.total("valid_traces")
    return None if attempts is None or valid is None else attempts - valid


def efficiency(cells: RunCells, titles: Mapping[str, str], baseline: str) -> Iterator[Row]:
    """Calls, tokens, seconds per claim, per trace and per verifier call, hours and euros, with reductions.

    `titles`: the policies, and what rows call them.
    """
    for name, title in titles.items():
        of, claims = PolicyOfRun(cells, name), cells.n
        for metric in SPENT:
            many, words = (1000, "1,000 claims") if metric == "cost_eur" else (1, "claim")
            mean, total, change = of.cell(metric, many), of.cell(metric, claims), of.change(metric, baseline)
            yield Row((title, f"{metric}, per {words}"), values={"mean": mean, "total": total, "change": change})
        yield Row((title, "missing-label traces"), values={"total": missing_labels(of)})
        for over, under, words in PER:
            yield Row((title, f"{over}, {words}"), values={"mean": cells.ratio(name, over, under)})
        hours, change = of.cell("latency_s", claims / 3600), of.change("latency_s", baseline)
        yield Row((title, "hours, all claims"), values={"total": hours, "change": change})
