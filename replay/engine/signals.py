"""What a gate reads of a base's outcome on a block, and where it fires. Correctness is nowhere in reach."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.data.block import Block
from replay.data.read import suffix_name
from replay.engine.calls import Calls, Paid, Part, certain, union
from replay.engine.trajectory import Trajectory, walk_block
from replay.policies.base import Policy, Sample
from replay.policies.gate_file import Feature
from replay.policies.gates import AllOf, AnyOf, Gate, Reading, readings


@dataclass(frozen=True)
class Signal:
    """A signal on every example (E,), NaN where it is not logged, and the calls that reading it makes."""

    value: np.ndarray
    calls: Calls


def read_signal(block: Block, reading: Reading, policy: Policy, part: Part) -> Signal:
    """One signal of the base `policy`, whose part is given."""
    if reading.verifier is not None:
        return _score(block, part, reading.verifier)
    if reading.feature is not None:
        return Signal(_feature(block, part, reading.feature), {})
    if reading.file is not None:
        found = [read_feature(block, feature, part) for feature in reading.file.features]
        values = np.stack([one.value for one in found], axis=1)
        return Signal(reading.file.probabilities(values), union(one.calls for one in found))
    if reading.signal in ("vote_share", "margin") and isinstance(policy, Sample):
        return Signal(_last_step(block, reading.signal, part), {})
    return Signal(_trace_signal(block, reading, part), {})


def read_feature(block: Block, feature: Feature, part: Part) -> Signal:
    """One input of a gate file on the chosen trace."""
    if feature.source == "verifier":
        return _score(block, part, feature.name)
    if feature.source == "feature":
        return Signal(_feature(block, part, feature.name), {})
    if feature.name == "answer_length":
        lengths = np.append(block.vocabulary.str.len_chars().to_numpy().astype(float), 0.0)
        word = _chosen(block, part, {name: pool.word.astype(float) for name, pool in block.pools.items()})
        return Signal(np.where(np.isnan(word), np.nan, lengths[np.nan_to_num(word, nan=-1.0).astype(int)]), {})
    if feature.name == "question_length":
        return Signal(block.examples["question"].str.len_chars().cast(pl.Float64).to_numpy(), {})
    if feature.name == "prompt_tokens":
        return Signal(_cost(block, part, feature.name), {})
    return Signal(_trace_signal(block, Reading(signal=feature.name, at_least=0.0), part), {})


def fires(gate: Gate, signals: dict[Reading, Signal], null_answer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a gate fires (E,), and where it cannot be read (E,).

    A part whose signal is not logged fires where the base's prediction is null, and cannot be read elsewhere.
    """
    if isinstance(gate, Reading):
        value = signals[unthresholded(gate)].value
        with np.errstate(invalid="ignore"):
            on = value < float(gate.below) if gate.below is not None else value >= float(gate.threshold)
        missing = np.isnan(value)
        return on | (missing & null_answer), missing & ~null_answer
    found = [fires(part, signals, null_answer) for part in gate.gates]
    together = np.logical_or if isinstance(gate, AnyOf) else np.logical_and
    return together.reduce([on for on, _ in found]), np.logical_or.reduce([missing for _, missing in found])


def unthresholded(reading: Reading) -> Reading:
    """A reading without its own threshold: what readings of one signal share."""
    return Reading(
        verifier=reading.verifier, feature=reading.feature, file=reading.file, signal=reading.signal, at_least=0.0,
        fraction=reading.fraction, tokens=reading.tokens,
    )  # fmt: skip


def shape(gate: Gate) -> object:
    """A gate without its thresholds: those that share it make the same calls."""
    if isinstance(gate, AnyOf | AllOf):
        return type(gate), tuple(shape(part) for part in gate.gates)
    return unthresholded(gate)


def gate_signals(block: Block, gate: Gate, policy: Policy, part: Part) -> dict[Reading, Signal]:
    """Every signal of a gate, by reading without threshold."""
    return {key: read_signal(block, key, policy, part) for key in map(unthresholded, readings(gate))}


def _chosen(block: Block, part: Part, values: dict[str, np.ndarray]) -> np.ndarray:
    if part.chosen is None:
        raise ValueError("a gate's base has one chosen trace")
    return part.chosen.read(block, {name: values.get(name) for name in part.chosen.slices})


def _column(block: Block, part: Part, name: str) -> np.ndarray:
    return _chosen(block, part, {key: pool.signals[name] for key, pool in block.pools.items() if name in pool.signals})


def _feature(block: Block, part: Part, name: str) -> np.ndarray:
    return _chosen(block, part, {key: pool.features[name] for key, pool in block.pools.items()})


def _cost(block: Block, part: Part, name: str) -> np.ndarray:
    return _chosen(block, part, {key: pool.costs[name] for key, pool in block.pools.items()})


def _trace_signal(block: Block, reading: Reading, part: Part) -> np.ndarray:
    name = str(reading.signal)
    if name in ("truncated", "completion_tokens"):
        return _cost(block, part, name)
    if name == "finalizer_used":
        return _cost(block, part, "finalizers")
    if name == "invalid":
        return _chosen(block, part, {key: (pool.code < 0).astype(float) for key, pool in block.pools.items()})
    if name == "near_limit":
        tokens, limit = _cost(block, part, "completion_tokens"), _column(block, part, "max_tokens")
        finalizer = _cost(block, part, "finalizers")
        near = (tokens >= float(reading.fraction or 0) * limit) | (finalizer > 0)
        return np.where(np.isnan(tokens) | np.isnan(limit) | np.isnan(finalizer), np.nan, near)
    return _column(block, part, suffix_name(reading.tokens) if reading.tokens is not None else name)


def _score(block: Block, part: Part, verifier: str) -> Signal:
    """The score of the chosen trace. One that ranks traces together was called on exactly those that are paid."""
    chosen = part.chosen
    if chosen is None:
        raise ValueError("a gate's base has one chosen trace")
    value = np.full(len(block.examples), np.nan)
    calls: dict[tuple[str, str | None], Paid] = {}
    paid = union(part.rows[0].segments if len(part.rows) == 1 else [s for row in part.rows for s in row.segments])
    for number, name in enumerate(chosen.slices):
        pool = block.pools[name]
        scores = pool.scores[verifier]
        own = np.zeros(pool.code.shape)
        here = np.flatnonzero((chosen.slice == number) & (chosen.sample < pool.size))
        own[here, chosen.sample[here]] = 1.0
        score = np.where(own > 0, scores.score, np.nan)
        if scores.listwise.any():
            scored = ~np.isnan(scores.score)
            generated = paid[name, None].among > 0 if (name, None) in paid else np.zeros(scored.shape, dtype=bool)
            fits = (scored == generated).all(axis=1) | (scored == (generated & (pool.code >= 0))).all(axis=1)
            fits &= (~scored | (scores.candidates == scored.sum(axis=1, keepdims=True))).all(axis=1)
            score[scores.listwise & ~fits] = np.nan
            own = np.where((scores.listwise & fits)[:, None] & own.any(axis=1, keepdims=True), scored, own)
        found = ~np.isnan(score)
        row, column = np.nonzero(found)
        value[row] = score[row, column]
        calls[name, verifier] = certain(own * (~np.isnan(scores.score)) * found.any(axis=1, keepdims=True))
    return Signal(value, calls)


def _last_step(block: Block, name: str, part: Part) -> np.ndarray:
    """vote_share or margin after a sample policy's last step (E,)."""
    ((walk, step),) = part.outcome.runs
    trajectory: Trajectory = walk_block(block, walk)
    rows = np.arange(len(step))
    if name == "margin":
        prefix = trajectory.prefix
        at = np.maximum(step, 1) - 1
        lead = np.where(prefix.verified_answers[rows, at] == 1, 1.0, prefix.lead[rows, at])
        return np.where((step > 0) & (prefix.verified[rows, at] > 0), lead, np.nan)
    pool = trajectory.pool
    seen = np.zeros(pool.code.shape, dtype=bool)
    there = np.arange(trajectory.place.shape[1]) < trajectory.paid_traces(step)[:, None]
    np.put_along_axis(seen, trajectory.place, there, axis=1)
    valid = seen & (pool.code >= 0)
    predicted = part.outcome.words[0]
    votes = (valid & (pool.word == predicted[:, None]) & (predicted >= 0)[:, None]).sum(axis=1)
    total = valid.sum(axis=1)
    return np.where((total > 0) & (predicted >= 0), votes / np.maximum(total, 1), np.nan)
