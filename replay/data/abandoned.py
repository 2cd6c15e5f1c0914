"""Traces that a policy abandons after their first tokens: a slice of their own, beside the pool's full traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from replay.data.block import SCORE_COSTS, LoggedPool, Scores

SECONDS = ("latency_s", "device_s")


def abandoned_slice_name(pool: str, tokens: int) -> str:
    """Slice name of the traces of a pool that are abandoned after `tokens` tokens."""
    return f"{pool}, abandoned after {tokens} tokens"


def seconds_column(cost: str, tokens: int) -> str:
    """The column of traces with the seconds that the first `tokens` tokens took, for one cost."""
    return f"{cost}@{tokens}"


def cut_off_pool(pool: LoggedPool, tokens: int, price: np.ndarray | None) -> LoggedPool:
    """The pool with every trace abandoned after `tokens` tokens; `price` (E, T): what these cost, if priced.

    No trace has an answer, and nothing is known of what it would have become: no score, feature or signal.
    """
    unseen, nothing = np.full(pool.code.shape, np.nan), np.zeros(pool.code.shape)
    known = pool.has_trace
    costs = {
        "finalizers": np.where(known, 0.0, np.nan),
        "truncated": np.where(known, 0.0, np.nan),
        "prompt_tokens": pool.costs["prompt_tokens"],
        "completion_tokens": np.where(known, float(tokens), np.nan),
        **{cost: pool.signals.get(seconds_column(cost, tokens), unseen) for cost in SECONDS},
        **({} if price is None else {"price": price}),
    }
    nowhere = np.full_like(pool.code, -1)
    return replace(
        pool,
        name=abandoned_slice_name(pool.name, tokens),
        code=nowhere,
        word=nowhere,
        costs=costs,
        judged=_value_without_answer(pool.judged),
        credit=_value_without_answer(pool.credit),
        scores={
            name: Scores(unseen, nothing, dict.fromkeys((*SCORE_COSTS, *scores.costs), nothing))
            for name, scores in pool.scores.items()
        },
        signals=dict.fromkeys(pool.signals, unseen),
        features=dict.fromkeys(pool.features, unseen),
        shared=None,
        opaque=None,
        contested=None,
    )


def with_abandoned(pool: LoggedPool, cut: LoggedPool, abandoned: np.ndarray) -> LoggedPool:
    """The pool in which the traces `abandoned` (E, T) are replaced by those of `cut`.

    What was abandoned is a call of its own, and shares nothing with its reply. Scores stay: walks read those of valid
    traces alone, and a call that ranked all traces is known by what it saw.
    """

    def merge_columns(of: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: np.where(abandoned, other[name], values) for name, values in of.items()}

    return replace(
        pool,
        code=np.where(abandoned, cut.code, pool.code),
        word=np.where(abandoned, cut.word, pool.word),
        costs=merge_columns(pool.costs, cut.costs),
        judged=np.where(abandoned, cut.judged, pool.judged),
        credit=np.where(abandoned, cut.credit, pool.credit),
        signals=merge_columns(pool.signals, cut.signals),
        features=merge_columns(pool.features, cut.features),
        shared=None if pool.shared is None else pool.shared.with_calls_apart(abandoned),
    )


def _value_without_answer(values: np.ndarray) -> np.ndarray:
    """The value of a trace without an answer: 0, and null where the trace has no verdict."""
    return np.where(np.isnan(values), np.nan, 0.0)
