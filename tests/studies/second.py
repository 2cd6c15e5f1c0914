"""The studies' main tables once more: from the Parquet files alone, by plain loops, as the works and the manual define
them. Nothing of the product is imported here, so a fault of its engine cannot hide in both.

Fact checking: tables 5.1 to 5.3 of the thesis, with its algorithm 2. Recovery: SeVRA's policies at matched budgets.
A value of None is an empty cell.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = dict[str, Any]
Cells = dict[str, float | None]
MARGIN, LEAST_VALID, SINGLE_LABEL = 0.15, 3, 5
"""Algorithm 2: the lead that stops, the valid traces before it may, those that do where one label alone was given."""


def read(log: Path, table: str, columns: Sequence[str], **wanted: object) -> list[Row]:
    """The rows of a table in which these columns have these values. A column that the log lacks is null."""
    filters = [(name, "=", value) for name, value in wanted.items()] or None
    nothing: Row = dict.fromkeys(columns)
    found: list[Row] = []
    for shard in sorted((log / table).glob("*.parquet")):
        there = [name for name in columns if name in names_of(shard)]
        found += [nothing | row for row in pq.read_table(shard, columns=there, filters=filters).to_pylist()]
    return found


def names_of(shard: Path) -> list[str]:
    """The columns of a shard."""
    return list(pq.read_schema(shard).names)


def by_index(rows: Sequence[Row]) -> list[Row]:
    """One example's traces of a pool in the order in which they were sampled, up to the first gap."""
    ordered = sorted(rows, key=lambda row: row["sample_index"])
    return [row for place, row in enumerate(ordered) if row["sample_index"] == place]


def average(values: Sequence[float]) -> float:
    """The plain mean."""
    return sum(values) / len(values)


# ---- fact checking ----


@dataclass(frozen=True)
class Attempt:
    """A trace of a claim: its label, None where it gives no label of the claim's, and the verifier's score."""

    label: str | None
    score: float | None


@dataclass(frozen=True)
class Claim:
    """A claim with its attempts in order."""

    gold: str
    labels: tuple[str, ...]
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class Verdict:
    """What a method answered, and what it paid for."""

    label: str | None
    traces: int
    valid: int
    verified: int


Method = Callable[[Claim, int], Verdict]


def read_claims(log: Path, wanted: Callable[[Row], bool], pool: str, verifier: str) -> list[Claim]:
    """The claims of the examples that are wanted, with every trace of a pool."""
    examples = read(log, "examples", ["example_id", "dataset", "split", "gold", "labels"])
    scores = {
        row["trace_id"]: row["score"] for row in read(log, "verifications", ["trace_id", "score"], verifier=verifier)
    }
    drawn: dict[str, list[Row]] = {}
    columns = ["trace_id", "example_id", "sample_index", "answer"]
    for row in read(log, "traces", columns, pool=pool, action="solve"):
        drawn.setdefault(row["example_id"], []).append(row)
    claims = []
    for example in examples:
        if wanted(example):
            attempts = []
            for row in by_index(drawn[example["example_id"]]):
                label = row["answer"] if row["answer"] in example["labels"] else None
                attempts.append(Attempt(label, scores.get(row["trace_id"])))
            claims.append(Claim(example["gold"], tuple(example["labels"]), tuple(attempts)))
    return claims


def top_1(claim: Claim, _: int) -> Verdict:
    """The first trace's label."""
    first = claim.attempts[0]
    return Verdict(first.label, 1, int(first.label is not None), 0)


def self_consistency(claim: Claim, cap: int) -> Verdict:
    """The commonest label; of equals, the one that came first."""
    given = [attempt.label for attempt in claim.attempts[:cap] if attempt.label is not None]
    return Verdict(commonest(given), cap, len(given), 0)


def commonest(given: Sequence[str]) -> str | None:
    """The answer given most often; of equals, the one that came first."""
    best: str | None = None
    for answer in given:
        if best is None or given.count(answer) > given.count(best):
            best = answer
    return best


def best_of_n(claim: Claim, cap: int) -> Verdict:
    """Algorithm 1: the label of the trace with the highest score; of equals, the earliest."""
    label, top, valid = None, -math.inf, 0
    for attempt in claim.attempts[:cap]:
        if attempt.label is not None:
            assert attempt.score is not None
            valid += 1
            if attempt.score > top:
                label, top = attempt.label, attempt.score
    return Verdict(label, cap, valid, valid)


def adaptive_stopping(claim: Claim, cap: int) -> Verdict:
    """Algorithm 2: generate and verify one by one, and stop once a label leads by the margin."""
    best: dict[str, float] = {}
    label, top, traces, valid = None, -math.inf, 0, 0
    for attempt in claim.attempts[:cap]:
        traces += 1
        if attempt.label is not None:
            assert attempt.score is not None
            valid += 1
            best[attempt.label] = max(best.get(attempt.label, -math.inf), attempt.score)
            if attempt.score > top:
                label, top = attempt.label, attempt.score
        if valid >= LEAST_VALID:
            if len(best) == 1:
                if valid >= SINGLE_LABEL:
                    break
            else:
                first, second = sorted(best.values(), reverse=True)[:2]
                if first - second >= MARGIN - 1e-9:
                    break
    return Verdict(label, traces, valid, valid)


def quality(claims: Sequence[Claim], verdicts: Sequence[Verdict], names: dict[str, str]) -> Cells:
    """Tables 5.1 and 5.2, in percent. names: what the column of each label is called."""
    f1: dict[str, float] = {}
    share: dict[str, float] = {}
    for label in claims[0].labels:
        hit = missed = wrong = 0
        for claim, verdict in zip(claims, verdicts, strict=True):
            hit += verdict.label == label and claim.gold == label
            missed += verdict.label != label and claim.gold == label
            wrong += verdict.label == label and claim.gold != label
        f1[label] = 2 * hit / (2 * hit + wrong + missed)
        share[label] = (hit + missed) / len(claims)
    right = average([float(c.gold == v.label) for c, v in zip(claims, verdicts, strict=True)])
    cells: Cells = {names[label]: 100 * value for label, value in f1.items()}
    cells["macro_f1_pct"] = 100 * average(list(f1.values()))
    cells["weighted_f1_pct"] = 100 * sum(f1[label] * share[label] for label in f1)
    cells["accuracy_pct"] = 100 * right
    return cells


def effort(verdicts: Sequence[Verdict], exhaustive: Sequence[Verdict] | None = None) -> Cells:
    """Table 5.3; with what exhaustive best-of-N paid, the change from it."""

    def operations(of: Sequence[Verdict]) -> int:
        return sum(verdict.traces + verdict.verified for verdict in of)

    traces = sum(verdict.traces for verdict in verdicts)
    change = None
    if exhaustive is not None:
        change = 100 * (operations(verdicts) / operations(exhaustive) - 1)
    return {
        "traces_per_claim": traces / len(verdicts),
        "trace_attempts": traces,
        "missing_label_traces": traces - sum(verdict.valid for verdict in verdicts),
        "verifier_calls": sum(verdict.verified for verdict in verdicts),
        "operations": operations(verdicts),
        "operations_change_pct": change,
    }


# ---- thinking again ----


@dataclass(frozen=True)
class Call:
    """A logged call. tokens: prompt and completion, a finalizer's included."""

    answer: str | None
    right: bool
    tokens: int
    finalized: bool


@dataclass(frozen=True)
class Question:
    """A question: its base attempt, the revisions by action, other pools, and what a gate may read of the base."""

    dataset: str
    base: Call
    revisions: dict[str, tuple[Call, ...]]
    pools: dict[str, tuple[Call, ...]]
    signals: dict[tuple[str, str], float]


@dataclass(frozen=True)
class Paid:
    """What a policy did with one question, rollouts averaged. action_tokens: None where nothing acts on the base."""

    right: float
    calls: float
    total_tokens: float
    finalizers: float
    intervened: float | None = None
    action_tokens: float | None = None


Gate = Callable[[Question], bool]
TRACE = (
    "trace_id", "example_id", "pool", "action", "parent_id", "sample_index", "answer", "correct", "prompt_tokens",
    "completion_tokens", "finalizer_used", "finish_reason", "sum_logprob",
)  # fmt: skip


def read_questions(log: Path, wanted: Callable[[Row], bool], base: str) -> list[Question]:
    """The questions of the examples that are wanted."""
    features = {row.pop("trace_id"): row for row in _features(log)}
    mine: dict[str, list[Row]] = {}
    for row in read(log, "traces", TRACE):
        mine.setdefault(row["example_id"], []).append(row)
    questions = []
    for example in read(log, "examples", ["example_id", "dataset", "split", "question", "labels"]):
        if wanted(example):
            traces = mine[example["example_id"]]
            (first,) = (row for row in traces if row["pool"] == base and row["sample_index"] == 0)
            revisions: dict[str, list[Row]] = {}
            pools: dict[str, list[Row]] = {}
            for row in traces:
                if row["action"] == "solve":
                    pools.setdefault(row["pool"], []).append(row)
                elif row["parent_id"] == first["trace_id"]:
                    revisions.setdefault(row["action"], []).append(row)
            questions.append(
                Question(
                    example["dataset"], _call(first),
                    {action: tuple(map(_call, by_index(rows))) for action, rows in revisions.items()},
                    {pool: tuple(map(_call, by_index(rows))) for pool, rows in pools.items()},
                    _signals(example, first, features.get(first["trace_id"], {})),
                )
            )  # fmt: skip
    return questions


def _features(log: Path) -> list[Row]:
    (shard,) = (log / "features").glob("*.parquet")
    return read(log, "features", [name for name in names_of(shard) if name != "example_id"])


def _call(row: Row) -> Call:
    finalized = bool(row["finalizer_used"])
    return Call(row["answer"], bool(row["correct"]), row["prompt_tokens"] + row["completion_tokens"], finalized)


def _signals(example: Row, trace: Row, features: Row) -> dict[tuple[str, str], float]:
    """Everything that a gate of cheap features reads of a base attempt; lengths are in characters."""
    answer = trace["answer"]
    known = answer is not None and (example["labels"] is None or answer in example["labels"])
    found = {
        ("signal", "truncated"): float(trace["finish_reason"] == "length"),
        ("signal", "finalizer_used"): float(bool(trace["finalizer_used"])),
        ("signal", "completion_tokens"): float(trace["completion_tokens"]),
        ("signal", "prompt_tokens"): float(trace["prompt_tokens"]),
        ("signal", "invalid"): float(not known),
        ("signal", "answer_length"): float(len(answer or "")),
        ("signal", "question_length"): float(len(example["question"])),
    }
    if trace["sum_logprob"] is not None:
        found["signal", "sum_logprob"] = float(trace["sum_logprob"])
    return found | {("feature", name): value for name, value in features.items() if value is not None}


def read_gate(file: Path) -> Gate:
    """A logistic gate as its file writes it: fires from the threshold on."""
    told = json.loads(file.read_text(encoding="utf-8"))
    assert (told["kind"], told["direction"]) == ("logistic", "at_least")
    model, threshold = told["model"], told["threshold"]
    bound = {"never": math.inf, "always": -math.inf}.get(threshold, threshold)

    def fires(question: Question) -> bool:
        logit = model["intercept"]
        for place, one in enumerate(told["features"]):
            value = question.signals[one["source"], one["name"]]
            logit += model["coefficients"][place] * (value - model["centre"][place]) / model["scale"][place]
        return 1 / (1 + math.exp(-logit)) >= bound

    return fires


def accept(question: Question) -> Paid:
    """The base attempt as it is."""
    base = question.base
    return Paid(base.right, 1 + base.finalized, base.tokens, base.finalized)


def revise(question: Question, action: str) -> Paid:
    """The base attempt and one revision of it: the mean of the logged rollouts."""
    first, rollouts = accept(question), question.revisions[action]
    finalizers = average([call.finalized for call in rollouts])
    tokens = average([call.tokens for call in rollouts])
    return Paid(
        average([call.right for call in rollouts]), first.calls + 1 + finalizers, first.total_tokens + tokens,
        first.finalizers + finalizers, 1.0, tokens,
    )  # fmt: skip


def revise_where(question: Question, action: str, gate: Gate) -> Paid:
    """A revision where the gate fires, else the base attempt."""
    if gate(question):
        return revise(question, action)
    first = accept(question)
    return Paid(first.right, first.calls, first.total_tokens, first.finalizers, 0.0, 0.0)


def think_longer(question: Question, pool: str) -> Paid:
    """Another pool's first attempt in place of the base's."""
    call = question.pools[pool][0]
    return Paid(call.right, 1 + call.finalized, call.tokens, call.finalized)


def vote(question: Question, pool: str, size: int) -> Paid:
    """The commonest answer of so many samples, over all orders in which they could have come; of equals each as often.

    Every sample is among them equally often, and so is its cost.
    """
    calls = question.pools[pool]
    share = size / len(calls)
    counts = Counter(call.answer for call in calls)
    right = {answer: average([call.right for call in calls if call.answer == answer]) for answer in counts}
    mean = 0.0
    for drawn in itertools.product(*(range(count + 1) for count in counts.values())):
        if sum(drawn) != size:
            continue
        ways = math.prod(math.comb(count, times) for count, times in zip(counts.values(), drawn, strict=True))
        votes = {answer: times for answer, times in zip(counts, drawn, strict=True) if answer is not None and times}
        winners = [answer for answer, times in votes.items() if times == max(votes.values())]
        mean += ways / math.comb(len(calls), size) * (average([right[one] for one in winners]) if winners else 0.0)
    finalizers = share * sum(call.finalized for call in calls)
    return Paid(mean, size + finalizers, share * sum(call.tokens for call in calls), finalizers)


def policy_named(name: str, gates: Callable[[str], Gate], primary: str) -> Callable[[Question], Paid]:
    """A policy by the name that the study's table gives it; `gates` finds the gate of an action.

    `primary` is the action that is taken where the base attempt was cut off.
    """
    kind, _, rest = name.partition(" ")
    if name == "truncation only":
        return lambda question: revise_where(question, primary, lambda one: one.signals["signal", "truncated"] == 1)
    if kind == "base:":
        return accept
    if kind == "always":
        return lambda question: revise(question, rest)
    if kind == "selective":
        gate = gates(rest)
        return lambda question: revise_where(question, rest, gate)
    if kind == "budget:":
        return lambda question: think_longer(question, rest)
    size = int(kind.removeprefix("self-consistency@").rstrip(":"))
    return lambda question: vote(question, rest, size)


def at_budget(questions: Sequence[Question], policy: Callable[[Question], Paid]) -> Cells:
    """A row of SeVRA's table of matched budgets. Rates are shares; fixes and flips are against the base attempt."""
    paid = [policy(question) for question in questions]
    plain = policy is accept
    fix = flip = 0.0
    for question, one in zip(questions, paid, strict=True):
        fix += one.right * (not question.base.right) / len(paid)
        flip += (1 - one.right) * question.base.right / len(paid)
    acts = paid[0].intervened is not None
    return {
        "accuracy": average([one.right for one in paid]),
        "intervention_rate": average([one.intervened or 0.0 for one in paid]) if acts else None,
        "calls": average([one.calls for one in paid]),
        "action_tokens": average([one.action_tokens or 0.0 for one in paid]) if acts else None,
        "total_tokens": average([one.total_tokens for one in paid]),
        "finalizers": average([one.finalizers for one in paid]),
        "fix_rate": None if plain else fix,
        "flip_rate": None if plain else flip,
    }
