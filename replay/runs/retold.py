"""One policy on one example, told from a saved result: without the log, from the part by trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from replay.policies.base import Stage
from replay.runs.explain import Explanation, texts_of, told_of
from replay.runs.findings import Findings
from replay.runs.paid_traces import ORDERS, SCORES, STOPS, TRACES
from replay.runs.saved_folder import SavedFolder
from toolkit.errors import counted
from toolkit.log import collect

_STEPS = {"step": pl.Int64, "sample": pl.Int32, "slice": pl.String}
SEVERAL = "no one path was saved, for this is a mean over several"


def retell(found: Findings, folder: SavedFolder, policy: str, row: pl.DataFrame, texts: bool) -> Explanation:
    """The steps of a policy on the example of a row of outcomes, as they were saved."""
    example, one = row["example_id"][0], next(one for one in found.policies if one.name == policy)
    traces, scores, orders, stops = (_of(folder, name, example) for name in (TRACES, SCORES, ORDERS, STOPS))
    mine = stops.filter(pl.col("policy") == policy).sort("part")
    stages = tuple(_stage(stop, policy, traces, scores, orders) for stop in mine.iter_rows(named=True))
    asked = found.examples.filter(pl.col("example_id") == example).row(0, named=True)
    diagnostic = f", diagnostic: {one.diagnostic}" if one.diagnostic else ""
    header = [f"example   {example}"]
    header += [f"question  {asked['question']}"] if asked.get("question") is not None else []
    header += [f"gold      {asked['gold'] if asked['gold'] is not None else '-'}"]
    header += [f"policy    {policy} ({one.kind}{diagnostic})"]
    header += ["simulated log: a model's numbers, not a system's"] if found.simulated else []
    told = told_of(row.row(0, named=True))
    ending = told if stages else f"{SEVERAL}; {told}"
    return Explanation(tuple(header), stages, ending, row, _texts(stages, traces) if texts else None)


def _of(folder: SavedFolder, name: str, example: str) -> pl.DataFrame:
    scan = pl.scan_parquet(folder.file(f"{name}.parquet"))
    return collect(scan.filter(pl.col("example_id") == example))


def _stage(
    stop: Mapping[str, Any], policy: str, traces: pl.DataFrame, scores: pl.DataFrame, orders: pl.DataFrame
) -> Stage:
    """One part: the traces in the order in which it revealed them, as far as it went, with the scores that it paid."""
    order = orders.filter(pl.col("order") == stop["order"]).to_dicts()
    of, rule, samples = (order[0]["slice"], order[0]["rule"], order[0]["samples"]) if order else ("", "", [])
    shown = samples[: stop["steps"]]
    cut = (order[0].get("slices") or [of] * len(samples))[: len(shown)] if order else []  # where some were given up
    steps = pl.DataFrame({"step": range(1, len(shown) + 1), "sample": shown, "slice": cut}, schema=_STEPS)
    rows = steps.join(traces, on=["slice", "sample"], how="left", maintain_order="left")
    tokens = (pl.col("prompt_tokens") + pl.col("completion_tokens")).cum_sum()
    told = []
    if (early := stop.get("given_up_by")) is not None:
        decided = scores.filter((pl.col("slice") == of) & (pl.col("verifier") == early))
        paid = decided.select("sample", early="score", decided="verification_tokens")
        rows = rows.join(paid, on="sample", how="left", maintain_order="left")
        rows = rows.with_columns(given_up=pl.col("slice") != of)
        told, tokens = ["early", "given_up"], tokens + pl.col("decided").fill_null(0.0).cum_sum()
    if stop["verifier"] is not None:
        verified = scores.filter((pl.col("slice") == of) & (pl.col("verifier") == stop["verifier"]))
        paid = verified.select("sample", "score", checked="verification_tokens")
        rows = rows.join(paid, on="sample", how="left", maintain_order="left")
        told, tokens = [*told, "score"], tokens + pl.col("checked").fill_null(0.0).cum_sum()
    chosen = pl.col("slice").eq_missing(stop["chosen_slice"]) & pl.col("sample").eq_missing(stop["chosen_sample"])
    kept = rows.select("step", "sample", "answer", "correct", *told, tokens=tokens, chosen=chosen)
    by = f", {counted(stop['verified'], 'verification')} by `{stop['verifier']}`" if "score" in told else ""
    ending = f"{counted(stop['generated'], 'trace')} generated{by}; order `{rule}`, as far as {len(shown)}"
    return Stage(f"`{policy}`: {of}", kept, ending, traces=tuple(zip(cut, shown, strict=True)))


def _texts(stages: tuple[Stage, ...], traces: pl.DataFrame) -> pl.DataFrame:
    return texts_of(stages, traces.select("slice", "sample", "trace_id", "text"))
