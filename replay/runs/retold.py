"""One policy on one example, told from a saved result: without the log, from the part by trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from replay.policies.base import Stage
from replay.runs.explain import Explanation, told_of
from replay.runs.found import Found
from replay.runs.paid_traces import ORDERS, SCORES, STOPS, TRACES
from toolkit.errors import ThinkbackError, require_known
from toolkit.log import collect

SEVERAL = "no one path was saved, for this is a mean over several"


def retell(found: Found, folder: Path, policy: str, example: str, texts: bool) -> Explanation:
    """The steps of a policy on an example as they were saved.

    Raises ThinkbackError for an unknown policy or example, and for texts that were not saved.
    """
    record = {one.name: one for one in found.policies}
    require_known(policy, record, f"no policy is named `{policy}`")
    require_known(example, found.examples["example_id"], f"the result compares no example `{example}`")
    row = collect(found.outcomes.filter(policy=policy, example_id=example))
    traces, scores, orders, stops = (_of(folder, name, example) for name in (TRACES, SCORES, ORDERS, STOPS))
    if texts and "text" not in traces.columns:
        raise ThinkbackError("this result was saved without texts: save it with `texts=True`")
    mine = stops.filter(policy=policy).sort("part")
    stages = tuple(_stage(one, policy, traces, scores, orders) for one in mine.iter_rows(named=True))
    asked = found.examples.filter(example_id=example).row(0, named=True)
    one = record[policy]
    diagnostic = f", diagnostic: {one.diagnostic}" if one.diagnostic else ""
    header = [f"example   {example}"]
    header += [f"question  {asked['question']}"] if asked.get("question") is not None else []
    header += [f"gold      {asked['gold'] if asked['gold'] is not None else '-'}"]
    header += [f"policy    {policy} ({one.kind}{diagnostic})"]
    header += ["simulated log: a model's numbers, not a system's"] if found.simulated else []
    told = told_of(row.row(0, named=True))
    ending = told if stages else f"{SEVERAL}; {told}"
    return Explanation(tuple(header), stages, ending, row, _texts(stages, traces) if texts else None)


def _of(folder: Path, name: str, example: str) -> pl.DataFrame:
    return collect(pl.scan_parquet(folder / f"{name}.parquet").filter(pl.col("example_id") == example))


def _stage(
    stop: Mapping[str, Any], policy: str, traces: pl.DataFrame, scores: pl.DataFrame, orders: pl.DataFrame
) -> Stage:
    """One part: the traces in the order in which it revealed them, as far as it went."""
    order = orders.filter(order=stop["order"]).row(0, named=True)
    shown = order["samples"][: stop["steps"]]
    steps = pl.DataFrame({"step": range(1, len(shown) + 1), "sample": shown}, schema_overrides={"sample": pl.Int32})
    of = order["slice"]
    rows = steps.join(traces.filter(slice=of), on="sample", how="left", maintain_order="left")
    wide = scores.filter(slice=of).select("sample", "score", verifier=pl.lit("score ") + pl.col("verifier"))
    if len(wide):
        rows = rows.join(wide.pivot("verifier", index="sample"), on="sample", how="left", maintain_order="left")
    told = [name for name in rows.columns if name.startswith("score ")]
    tokens = (pl.col("prompt_tokens") + pl.col("completion_tokens")).cum_sum().alias("tokens")
    chosen = (pl.lit(of) == stop["chosen_slice"]) & (pl.col("sample") == stop["chosen_sample"])
    kept = rows.select("step", "sample", "answer", "correct", *told, tokens, chosen=chosen)
    ending = f"stopped after {stop['steps']} of order `{order['rule']}`; {stop['generated']} traces generated"
    return Stage(f"`{policy}`: {of}", kept, ending, traces=tuple((of, int(sample)) for sample in shown))


def _texts(stages: tuple[Stage, ...], traces: pl.DataFrame) -> pl.DataFrame:
    """The texts of the traces that stages looked at, each once, in their order."""
    seen = list(dict.fromkeys(trace for stage in stages for trace in stage.traces))
    wanted = pl.DataFrame(seen, schema={"of": pl.String, "sample": pl.Int32}, orient="row")
    logged = traces.select("slice", "sample", "trace_id", "text")
    return wanted.join(
        logged, left_on=["of", "sample"], right_on=["slice", "sample"], how="left", maintain_order="left"
    )
