"""The slow twin's early abandoning: what becomes of one trace, and what deciding that costs."""

from __future__ import annotations

from tests.reference.rules import Partial, PlainLog, Row

UNSEEN = ("sum_logprob", "token_logprobs", "max_tokens")


def attempted(log: PlainLog, policy: Row, trace: Row) -> tuple[Row, Row | None]:
    """The trace as a policy gets it, and the row of the verification that was paid for, if any."""
    abandon = policy.get("abandon")
    if abandon is None:
        return trace, None
    written = trace.get("completion_tokens")
    if written is None:
        raise Partial("nothing says whether the trace had ended")
    if written <= abandon["tokens"]:
        return trace, None
    row = log.scores.get((trace["trace_id"], abandon["verifier"]))
    together = [
        log.scores.get((other["trace_id"], abandon["verifier"])) or {}
        for other in log.of_example[trace["example_id"]]
        if (other["pool"], other["action"]) == (trace["pool"], "solve")
    ]
    if row is None or row["score"] is None or any(one.get("candidates") is not None for one in together):
        raise Partial("nothing says whether the trace was abandoned")
    return (given_up(trace, abandon["tokens"]) if row["score"] < abandon["below"] else trace), row


def given_up(trace: Row, tokens: int) -> Row:
    """Another call than the logged one, of which nothing but its prompt is known."""
    made = {key: None if key in UNSEEN else value for key, value in trace.items()}
    made.update(
        trace_id=f"{trace['trace_id']} up to {tokens}",
        given_up=True,
        answer=None,
        opaque=False,
        correct=None if trace["correct"] is None else False,
        credit=None if trace.get("credit") is None else 0.0,
        completion_tokens=tokens,
        finish_reason="abandoned",
        finalizer_used=False,
        latency_s=trace.get(f"latency_s@{tokens}"),
        device_s=trace.get(f"device_s@{tokens}"),
    )
    return made


def refuses(log: PlainLog, policy: Row, pool: str, verifies: bool) -> bool:
    abandon = policy.get("abandon")
    if abandon is None:
        return False
    same = verifies and abandon["verifier"] == policy["verifier"]
    return same or pool in log.whole
