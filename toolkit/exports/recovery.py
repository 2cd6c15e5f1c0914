"""SeVRA's rows from a log: recovery rows (one per example and action) and replay rows (one per example)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.errors import AmbiguousError, EmptyError, UnknownError, argument, listed, suggest
from toolkit.log import Log, collect

ACCEPT = "accept"
OF_EXAMPLE = ("gold", "labels", "cluster")
OF_TRACE = (
    "trace_id", "example_id", "pool", "action", "parent_id", "sample_index", "text", "correct", "prompt_tokens",
    "completion_tokens", "finish_reason", "finalizer_used", "answer", "opaque", "model",
)  # fmt: skip
OF_CALL = ("max_tokens", "latency_s", "device_s", "sum_logprob", "tokens_estimated")


def export_recovery(log: Log, base: str | None, out: Path, *, pool: str | None = None) -> int:
    """Writes an accept row for each base attempt (sample 0 of pool `base`) and a row for each revision of it.

    Besides SeVRA's fields the rows hold what every signal of a gate file reads, where it is logged. `import_recovery`
    takes back: of the example gold, labels and cluster; of each call model, answer, finish reason, prompt and
    completion tokens, token limit, seconds and the sum of log-probabilities; the name of the base pool; `simulated`
    where the log is. Traces without a verdict, other pools, verifications, log-probabilities of single tokens and
    other columns do not go out.

    Where an action has several pools of revisions, `pool` names the one that goes out. Returns the number of rows.
    ThinkbackError where the log has no judged revision of the base, or several pools of them and none is named.
    """
    attempts, revisions = _attempts_and_revisions(log, base, pool)
    features = collect(log.scan("features"), log).rows_by_key("trace_id", named=True, unique=True)
    rows = []
    for attempt in attempts.iter_rows(named=True):
        shared = _attempt_fields(attempt, features.get(attempt["trace_id"], {})) | _simulated_mark(log)
        accept = {"action": ACCEPT, "final_correct": attempt["correct"], "helpful_fix": False, "harmful_flip": False}
        accept |= _answer_field("final_answer", attempt)
        rows.append({**shared, **accept, "action_actual_tokens": 0, "sample_index": 0})
        for one in revisions.get(attempt["trace_id"], []):
            rows.append({
                **shared,
                "action": one["action"],
                "final_correct": one["correct"],
                "helpful_fix": one["correct"] and not attempt["correct"],
                "harmful_flip": attempt["correct"] and not one["correct"],
                **_answer_field("final_answer", one),
                "action_actual_tokens": _token_count(one),
                "action_finalizer_used": one["finalizer_used"],
                "action_usage": _usage_fields(one),
                "model": one["model"],
                **_call_fields("action", one),
                "sample_index": one["sample_index"],
                "intervention_response": one["text"],
                "intervention_response_empty": not one["text"] if one["text"] is not None else None,
            })  # fmt: skip
    return _write_json_lines(out, rows)


def export_replay(log: Log, base: str | None, action: str, verifier: str, out: Path, *, pool: str | None = None) -> int:
    """Writes a row for each base attempt, with its first revision by `action` and its score by `verifier`."""
    attempts, revisions = _attempts_and_revisions(log, base, pool)
    scan = log.scan("verifications", ["trace_id", "verifier", "score"]).filter(
        (pl.col("verifier") == verifier) & pl.col("score").is_not_null()
    )
    scores = dict(collect(scan.select("trace_id", "score"), log).iter_rows())
    if not scores:
        known = collect(log.scan("verifications", ["verifier"]).unique(), log)["verifier"]
        raise UnknownError(f"the log has no verifier `{verifier}`; {suggest(verifier, known)}")
    rows: list[dict[str, Any]] = []
    for attempt in attempts.iter_rows(named=True):
        verified = [one for one in revisions.get(attempt["trace_id"], []) if one["action"] == action]
        if verified and attempt["trace_id"] in scores:
            rows.append({
                "base_correct": attempt["correct"],
                "verified_correct": verified[0]["correct"],
                "gate_score": scores[attempt["trace_id"]],
                "verification_tokens": _token_count(verified[0]),
                **_simulated_mark(log),
            })  # fmt: skip
    if not rows:
        raise EmptyError(f"no base attempt has both a revision by `{action}` and a score by `{verifier}`")
    return _write_json_lines(out, rows)


def _attempts_and_revisions(
    log: Log, base: str | None, pool: str | None
) -> tuple[pl.DataFrame, dict[str, list[dict[str, Any]]]]:
    """The judged base attempts with the columns of their examples, and the judged revisions of each by trace id."""
    traces = collect(log.scan("traces", [*OF_TRACE, *OF_CALL]), log).filter(pl.col("correct").is_not_null())
    first = traces.filter((pl.col("action") == "solve") & (pl.col("sample_index") == 0))
    revised = traces.filter(pl.col("action") != "solve").sort("example_id", "action", "pool", "sample_index")
    bases = first.filter(pl.col("trace_id").is_in(revised["parent_id"].implode()))["pool"].unique().sort().to_list()
    if base is None and len(bases) != 1:
        pools, given = listed(bases) or "no pool", argument("base")
        raise AmbiguousError(f"the log has revisions of {pools}: name the pool of the base attempts with {given}")
    name = base or bases[0]
    if name not in bases:
        raise UnknownError(f"pool `{name}` has no judged revision of its first traces; {suggest(name, bases)}")
    examples = collect(log.scan("examples", ["example_id", "dataset", "split", "question", *OF_EXAMPLE]), log)
    attempts = first.filter(pl.col("pool") == name).join(examples, on="example_id", how="left").sort("example_id")
    chosen = _revisions_of_pool(revised.filter(pl.col("parent_id").is_in(attempts["trace_id"].implode())), pool)
    return attempts, chosen.rows_by_key("parent_id", named=True, include_key=True)


def _revisions_of_pool(revisions: pl.DataFrame, pool: str | None) -> pl.DataFrame:
    """The revisions of one pool for each action. Rows name no pool, so a second one's would look like repeats."""
    if pool is not None and pool not in revisions["pool"]:
        raise UnknownError(f"no pool of revisions is called `{pool}`; {suggest(pool, revisions['pool'].unique())}")
    if pool is not None:
        same = revisions["action"].is_in(revisions.filter(pool=pool)["action"].unique().implode())
        revisions = revisions.filter(~same | (pl.col("pool") == pool))
    several = revisions.group_by("action").agg(pl.col("pool").unique().sort()).filter(pl.col("pool").list.len() > 1)
    if len(several):
        action, pools = several.sort("action").row(0)
        names, given = listed(pools), argument("pool")
        raise AmbiguousError(f"action `{action}` has several pools of revisions ({names}): name one with {given}")
    return revisions


def _attempt_fields(attempt: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
    return {
        "example_id": attempt["example_id"],
        "task_type": attempt["dataset"],
        "split": attempt["split"],
        "query": attempt["question"],
        "base_pool": attempt["pool"],
        "base_response": attempt["text"],
        "base_correct": attempt["correct"],
        "base_actual_tokens": _token_count(attempt),
        "base_finalizer_used": attempt["finalizer_used"],
        "base_usage": _usage_fields(attempt),
        "base_model": attempt["model"],
        "features": {k: v for k, v in features.items() if k != "example_id" and v is not None},
        **{name: attempt[name] for name in OF_EXAMPLE if attempt[name] is not None},
        **_call_fields("base", attempt),
        **_answer_field("base_answer", attempt),
    }


def _usage_fields(trace: dict[str, Any]) -> dict[str, Any]:
    tokens = {name: trace[name] for name in ("prompt_tokens", "completion_tokens")}
    return {"done_reason": trace["finish_reason"], **tokens}


def _call_fields(whose: str, trace: dict[str, Any]) -> dict[str, Any]:
    return {f"{whose}_{name}": trace[name] for name in OF_CALL if trace[name] is not None}


def _answer_field(name: str, trace: dict[str, Any]) -> dict[str, Any]:
    """The entry `{name: answer}` for a trace; empty for an opaque one."""
    return {} if trace["opaque"] else {name: trace["answer"]}


def _simulated_mark(log: Log) -> dict[str, bool]:
    """The entry `simulated` for every row of a simulated log; empty for a real log."""
    return {"simulated": True} if log.simulated else {}


def _token_count(trace: dict[str, Any]) -> int | None:
    counts = (trace["prompt_tokens"], trace["completion_tokens"])
    return None if None in counts else sum(counts)


def _write_json_lines(out: Path, rows: list[dict[str, Any]]) -> int:
    with out.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return len(rows)
