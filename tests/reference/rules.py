"""The slow twin's rules: the log as it is replayed, the random order, stops and selects.

Dictionaries, lists and loops, written from the definitions; it shares no line with the product.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Row = dict[str, Any]


class Partial(Exception):
    """The log can't serve this policy on this example."""


class Refused(Exception):
    """The policy, or the whole run, is an error."""


# ---------------------------------------------------------------------------------------------- the log


@dataclass
class PlainLog:
    """Rows by table; `whole` names the pools that are replayed whole or not at all (`prefix: false`)."""

    examples: list[Row]
    traces: list[Row]
    verifications: list[Row] = field(default_factory=list)
    whole: frozenset[str] = frozenset()
    features: dict[str, Row] = field(default_factory=dict)  # by trace_id

    def __post_init__(self) -> None:
        self.example = {row["example_id"]: row for row in self.examples}
        self.of_example: dict[str, list[Row]] = {row["example_id"]: [] for row in self.examples}
        for row in self.traces:
            self.of_example[row["example_id"]].append(row)
        self.scores = {(row["trace_id"], row["verifier"]): row for row in self.verifications}

    def solve_pools(self) -> list[str]:
        return sorted({row["pool"] for row in self.traces if row["action"] == "solve"})

    def comparable(self, example_id: str, pool: str) -> bool:
        """Whether the answers of an example's pool can be compared: none is opaque, none contested."""
        return not any(t.get("opaque") or t.get("contested") for t in self.solves(example_id, pool))

    def lowest(self, pool: str, verifier: str) -> float:
        """The lowest score by a verifier on a pool of first attempts, in the whole log."""
        own = {row["trace_id"] for row in self.traces if row["action"] == "solve" and row["pool"] == pool}
        scores = [row["score"] for (trace, by), row in self.scores.items() if by == verifier and trace in own]
        if not scores:
            raise Refused("the verifier scored nothing of the pool")
        return min(scores)

    def solves(self, example_id: str, pool: str) -> list[Row]:
        """The pool as it is replayed: by sample index, up to the first gap."""
        return up_to_gap(row for row in self.of_example[example_id] if row["action"] == "solve" and row["pool"] == pool)

    def logged_solves(self, example_id: str, pool: str) -> int:
        """Number of solves in the pool, those after a gap too."""
        return sum(row["action"] == "solve" and row["pool"] == pool for row in self.of_example[example_id])

    def revisions(self, example_id: str, action: str, parent_id: str) -> list[Row]:
        """All replayable revisions of one trace by one action, pool after pool."""
        rows = [row for row in self.of_example[example_id] if row["action"] == action and row["parent_id"] == parent_id]
        pools = sorted({row["pool"] for row in rows})
        return [row for pool in pools for row in up_to_gap(row for row in rows if row["pool"] == pool)]

    def positioned(self, pool: str) -> bool:
        """Whether the first attempts of a pool are guesses with a position."""
        return any(t["pool"] == pool and t["action"] == "solve" and t.get("position") is not None for t in self.traces)

    def valid(self, trace: Row) -> bool:
        if trace["answer"] is None:
            return False
        labels = self.example[trace["example_id"]].get("labels")
        return bool(trace.get("opaque")) or not labels or trace["answer"] in labels


def up_to_gap(rows: Iterable[Row]) -> list[Row]:
    kept: list[Row] = []
    for row in sorted(rows, key=lambda row: row["sample_index"]):
        if row["sample_index"] != len(kept):
            break
        kept.append(row)
    return kept


# ------------------------------------------------------------------------------------------ random order


def mix(x: int) -> int:
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 % 2**64
    x ^= x >> 27
    x = x * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def random_key(example_id: str, seed: int, repetition: int, sample_index: int) -> int:
    h = int.from_bytes(hashlib.sha256(example_id.encode()).digest()[:8], "big")
    return mix((mix((mix((h + seed) % 2**64) + repetition) % 2**64) + sample_index) % 2**64)


def in_random_order(traces: Iterable[Row], seed: int, repetition: int) -> list[Row]:
    def key(row: Row) -> tuple[int, int]:
        index = row["sample_index"]
        return random_key(row["example_id"], seed, repetition, index), index

    return sorted(traces, key=key)


# ------------------------------------------------------------------------------------------------- stops


def holds(log: PlainLog, policy: Row, seen: Sequence[Row], scored: Sequence[tuple[Row, float]]) -> bool:
    """Whether the rule holds after the traces `seen` and the verifications `scored`, in their order."""
    stop, nulls, voted = policy.get("stop"), policy.get("nulls") == "vote", policy.get("answers_as", "answer")
    if stop is None:
        return False
    rule = stop["rule"]
    if rule == "budget":
        if "completion_tokens" in stop:
            return sum(trace["completion_tokens"] for trace in seen) >= stop["completion_tokens"]
        return len(seen) >= stop["traces"] if "traces" in stop else len(scored) >= stop["verifications"]
    if rule == "margin":
        return margin_holds(stop, scored, voted)
    if rule == "agreement":
        counts = [*sorted(votes(log, seen, nulls, voted).values(), reverse=True), 0]
        return counts[0] > 0 and float(agreement(*counts[:2])) >= stop.get("confidence", 0.95)
    if rule == "window":
        size = stop["size"]
        block = seen[-size:]
        whole_block = len(seen) >= size and len(seen) % size == 0
        return whole_block and list(votes(log, block, nulls, voted).values()) == [size]
    if rule == "at_least":
        return at_least_holds(log, stop, seen, scored)
    if rule == "says":
        return any(log.valid(trace) and trace[voted] == stop["answer"] for trace in seen)
    raise Refused(f"no rule `{rule}`")


def at_least_holds(log: PlainLog, stop: Row, seen: Sequence[Row], scored: Sequence[tuple[Row, float]]) -> bool:
    """Whether the last `patience` traces each have at least the score; a null that is no missing score is partial."""
    score = {trace["trace_id"]: value for trace, value in scored}
    if "verifier" in stop:
        values = [score.get(trace["trace_id"]) for trace in seen]
    elif "feature" in stop:
        values = [log.features.get(trace["trace_id"], {}).get(stop["feature"]) for trace in seen]
    elif stop["signal"] == "truncated":
        ends = [trace.get("finish_reason") for trace in seen]
        values = [None if end is None else float(end == "length") for end in ends]
    else:
        values = [trace.get(stop["signal"]) for trace in seen]
    if "verifier" not in stop and None in values:
        raise Partial("the stop reads a null")
    row = values[-stop.get("patience", 1) :]
    return len(row) == stop.get("patience", 1) and all(v is not None and v >= stop["score"] for v in row)


def margin_holds(stop: Row, scored: Sequence[tuple[Row, float]], voted: str = "answer") -> bool:
    if len(scored) < stop.get("min_valid", 3):
        return False
    best: dict[str, float] = {}
    for trace, score in scored:
        best[trace[voted]] = max(score, best.get(trace[voted], -math.inf))
    if not best:
        return False
    if len(best) == 1:
        return len(scored) >= stop.get("single_label", 5)
    first, second = sorted(best.values(), reverse=True)[:2]
    return first - second >= stop.get("margin", 0.15) - 1e-9


def agreement(v1: int, v2: int) -> Fraction:
    """1 - BetaCDF(0.5; v1 + 1, v2 + 1), which is P(Binomial(v1 + v2 + 1, 1/2) <= v1)."""
    n = v1 + v2 + 1
    return Fraction(sum(math.comb(n, i) for i in range(v1 + 1)), 2**n)


def votes(log: PlainLog, seen: Iterable[Row], nulls: bool = False, voted: str = "answer") -> dict[str | None, int]:
    """Votes by answer, answers in the order in which they first came; with `nulls` also for none. `voted`: the column
    that stands in place of valid answers.
    """
    counts: dict[str | None, int] = {}
    for trace in seen:
        if log.valid(trace):
            counts[trace[voted]] = counts.get(trace[voted], 0) + 1
        elif nulls and not trace.get("given_up"):
            counts[None] = counts.get(None, 0) + 1
    return counts


def more_needed(log: PlainLog, policy: Row, seen: Sequence[Row], scored: Sequence[Any], most: int) -> int:
    """The fewest further traces, at most `most`, after which the rule would hold if all of them gave the leader."""
    stop = policy["stop"]
    for n in range(1, most):
        if stop["rule"] == "agreement":
            voted = policy.get("answers_as", "answer")
            counts = [*sorted(votes(log, seen, policy.get("nulls") == "vote", voted).values(), reverse=True), 0, 0]
            if float(agreement(counts[0] + n, counts[1])) >= stop.get("confidence", 0.95):
                return n
        elif (len(seen) if "traces" in stop else len(scored)) + n >= stop.get("traces", stop.get("verifications")):
            return n
    return most


# -------------------------------------------------------------------------------------------------- ties


def first_of(
    tied: Sequence[str | None], tie: str, counted: Sequence[tuple[Row, str | None]], seed: int, repetition: int
) -> str | None:
    """Of answers that tie, the one that wins; `counted`: traces in order of generation, and what each voted for."""
    if tie == "smallest":
        answers = [answer for answer in tied if answer is not None]
        numbers = [number(answer) for answer in answers]
        if None in numbers:
            return min(answers, key=str.encode)
        return min(zip(numbers, answers, strict=True), default=(None, None))[1]  # type: ignore[type-var]
    traces = [row for row, _ in counted]
    answer = {row["trace_id"]: voted for row, voted in counted}
    ordered = in_random_order(traces, seed, repetition) if tie == "random" else traces
    return next(answer[row["trace_id"]] for row in ordered if answer[row["trace_id"]] in tied)


def number(answer: str) -> Fraction | None:
    try:
        return Fraction(answer)
    except ValueError:
        return None


# ------------------------------------------------------------------------------------------------ selects


def choose(
    log: PlainLog, policy: Row, seen: Sequence[Row], scored: Sequence[tuple[Row, float]], repetition: int = 0
) -> tuple[Row, str | None]:
    """The chosen trace and the answer; `seen` in order of generation, `scored` in order of verification."""
    select = policy.get("select", "best")
    if select == "best":
        score = {trace["trace_id"]: s for trace, s in scored}
        winner: Row | None = None
        for trace in seen:
            mine = score.get(trace["trace_id"])
            if mine is not None and (winner is None or mine > score[winner["trace_id"]]):
                winner = trace
        return (winner, winner["answer"]) if winner else (seen[0], None)
    if select == "first":
        return seen[0], seen[0]["answer"] if log.valid(seen[0]) else None
    if select == "last":
        return (seen[-1], seen[-1]["answer"]) if log.valid(seen[-1]) else (seen[0], None)
    total: dict[str | None, float] = {}
    voted = policy.get("answers_as", "answer")
    if select == "majority":
        nulls = policy.get("nulls") == "vote"
        total.update(votes(log, seen, nulls, voted))
        counted = [(t, t[voted] if log.valid(t) else None) for t in seen if votes(log, [t], nulls)]
    else:
        for trace, s in scored:
            total[trace[voted]] = total.get(trace[voted], 0.0) + s
        verified = {trace["trace_id"] for trace, _ in scored}
        counted = [(t, t[voted]) for t in seen if t["trace_id"] in verified]
    tied = [answer for answer in total if total[answer] == max(total.values())]
    tie, seed = policy.get("tie", "earliest"), policy.get("seed", 0)
    answer = first_of(tied, tie, counted, seed, repetition) if tied else None
    if answer is None:
        return seen[0], None
    winner = next(trace for trace in seen if log.valid(trace) and trace[voted] == answer)
    return winner, winner["answer"]
