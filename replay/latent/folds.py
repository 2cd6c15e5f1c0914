"""Folds over questions: what a model was trained on is scored by one that has seen neither it nor a copy of it."""

from __future__ import annotations

import warnings

import numpy as np

from replay.latent.traced_values import NO_FOLD, Traces
from toolkit.errors import ThinkbackError, argument


def assign_folds(traces: Traces, trained: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The fold (N,) of each trace of a question that is trained on, of whatever pool, else -1.

    `trained` (N,): the traces that are trained on. Where a score that is read was made in folds, these are taken, and
    `count` says nothing; questions without one are dealt to them. Folds have about equal shares of right traces.
    """
    known = traces.fold != NO_FOLD
    inherited = dict(zip(traces.group[known].tolist(), traces.fold[known].tolist(), strict=True))
    if any(inherited[group] != fold for group, fold in zip(traces.group[known], traces.fold[known], strict=True)):
        raise ThinkbackError(
            "the scores that are read have different folds for copies of one question, or for questions of one "
            "cluster, so that no fold is unseen by all: leave them out of the inputs"
        )
    count = max(inherited.values()) + 1 if inherited else count
    groups = np.unique(traces.group[trained])
    free = np.array([group for group in groups if group not in inherited], np.int64)
    if len(groups) < max(count, 2):
        raise ThinkbackError(
            f"{argument('train_on')} holds on {len(groups):,} questions, which make no {max(count, 2)} folds: take more"
        )
    dealt = _dealt(traces, trained & np.isin(traces.group, free), count, seed) if len(free) else {}
    of_group = dealt | inherited
    return np.array([of_group.get(group, NO_FOLD) for group in traces.group.tolist()], np.int64)


def _dealt(traces: Traces, rows: np.ndarray, count: int, seed: int) -> dict[int, int]:
    """A fold for each question, so that the shares of right traces are alike."""
    from sklearn.model_selection import StratifiedGroupKFold

    groups, right = traces.group[rows], traces.right[rows]
    size = len(np.unique(groups))
    if size < count:  # some questions beside those whose folds are known
        order = np.random.default_rng(seed).permutation(count)
        return dict(zip(np.unique(groups).tolist(), order[:size].tolist(), strict=True))
    if max(right.sum(), (1 - right).sum()) < count:  # too few of either class to share out
        order = np.random.default_rng(seed).permutation(size) % count
        return dict(zip(np.unique(groups).tolist(), order.tolist(), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class in fewer questions than folds is warned of elsewhere
        dealer = StratifiedGroupKFold(count, shuffle=True, random_state=seed)
        parts = dealer.split(np.zeros((len(right), 1)), right.astype(int), groups)
        return {int(group): fold for fold, (_, inside) in enumerate(parts) for group in np.unique(groups[inside])}


def parts_of(folds: np.ndarray, trained: np.ndarray) -> list[np.ndarray]:
    """The rows (N,) that each model is trained on: one model without each fold, and last one that sees all."""
    count = int(folds.max(initial=NO_FOLD)) + 1
    return [*(trained & (folds != fold) for fold in range(count)), trained]
