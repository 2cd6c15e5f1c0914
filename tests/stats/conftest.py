"""Made runs, and plain loops that compute the same things one example at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from toolkit.stats import OutcomeBlock


def block(
    values: dict[str, object], unit: object = None, gold: object = None, predicted: object = None
) -> OutcomeBlock:
    arrays = {k: np.atleast_2d(np.asarray(v, np.float64)) for k, v in values.items()}
    size = next(iter(arrays.values())).shape[1]
    return OutcomeBlock(
        np.array([f"e{i:06d}" for i in range(size)], object),
        np.arange(size) if unit is None else np.asarray(unit, np.int64),
        arrays,
        None if gold is None else np.asarray(gold, np.int32),
        None if predicted is None else np.asarray(predicted, np.float64),
    )


def passes(one: OutcomeBlock, cuts: Sequence[int] = ()) -> Callable[[], Iterator[OutcomeBlock]]:
    """A factory of the block cut at the given places."""
    ends = [0, *cuts, len(one)]
    return lambda: iter([one.slice_examples(a, b) for a, b in itertools.pairwise(ends)])


def random_block(seed: int, examples: int, policies: int = 3, labels: int = 3, nulls: bool = True) -> OutcomeBlock:
    """Correctness, shares over K = 4 orders, counts, tokens, seconds with no grid; some unjudged examples."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, labels, examples).astype(np.int32)
    answers = np.where(
        rng.random((policies, examples, 4)) < 0.6, gold[:, None], rng.integers(-1, labels, (policies, examples, 4))
    )
    predicted = np.stack([(answers == label).mean(axis=2) for label in range(labels)], axis=2)
    correct = (answers == gold[:, None]).mean(axis=2)
    correct[0] = correct[0] > 0.5
    traces = rng.integers(1, 16, (policies, examples)).astype(float)
    if nulls:
        unjudged = rng.random(examples) < 0.1
        correct[:, unjudged] = np.nan
        gold[unjudged] = -1
    values = {
        "correct": correct,
        "traces": traces,
        "total_tokens": traces * rng.integers(200, 4000, (policies, examples)),
        "latency_s": traces * rng.random((policies, examples)),
    }
    return block(values, gold=gold, predicted=predicted)


def plain_metrics(one: OutcomeBlock, policy: int, rows: Sequence[int], labels: int) -> dict[str, float]:
    """Metrics of a policy on some rows (repeats allowed): loops over Python floats, fsum."""
    out: dict[str, float] = {}
    correct = [float(one.values["correct"][policy, i]) for i in rows]
    judged = [c for c in correct if not math.isnan(c)]
    out["accuracy"] = math.fsum(judged) / len(judged) if judged else math.nan
    for key in ("traces", "total_tokens", "latency_s"):
        out[key] = math.fsum(float(one.values[key][policy, i]) for i in rows) / len(rows)
    if one.gold is None or one.predicted is None:
        return out
    f1s, supports = [], []
    for label in range(labels):
        right, missed, alarms, support = [], [], [], 0
        for i, c in zip(rows, correct, strict=True):
            if math.isnan(c) or one.gold[i] < 0:
                continue
            share = float(one.predicted[policy, i, label])
            if one.gold[i] == label:
                support += 1
                right.append(share)
                missed.append(1 - share)
            else:
                alarms.append(share)
        if support:
            tp = math.fsum(right)
            f1s.append(2 * tp / (2 * tp + math.fsum(alarms) + math.fsum(missed)))
            supports.append(support)
    out["macro_f1"] = sum(f1s) / len(f1s) if f1s else math.nan
    total = sum(supports)
    out["weighted_f1"] = sum(f * s for f, s in zip(f1s, supports, strict=True)) / total if total else math.nan
    return out


@pytest.fixture
def made() -> Callable[..., OutcomeBlock]:
    return block


@pytest.fixture
def factory() -> Callable[..., Callable[[], Iterator[OutcomeBlock]]]:
    return passes


@pytest.fixture
def random_run() -> Callable[..., OutcomeBlock]:
    return random_block


@pytest.fixture
def plain() -> Callable[..., dict[str, float]]:
    return plain_metrics
