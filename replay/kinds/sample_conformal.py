"""The thresholds of a `sample`'s prediction sets, one for each class (Vovk 2012: Mondrian).

They come from the scores of the labels where the policy stops on a development split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.cuts import Cut, cut
from replay.engine.outcome import Outcome
from replay.engine.sets import by_label, shared_labels
from replay.engine.trajectory import Trajectory, Walk, walk_block
from replay.policies.base import Stage
from replay.sampling.learned import Conformal
from toolkit.errors import ThinkbackError


def fit_conformal(block: LogBlock, walk: Walk, how: Cut, conformal: Conformal) -> Conformal:
    """`conformal` with the thresholds of every class, from the examples of a block that the log can serve."""
    labels = shared_labels(block)
    trajectory = walk_block(block, walk)
    stopped = cut(trajectory, how)
    scores = by_label(block, trajectory, stopped.step, labels)
    gold = block.examples["gold"].to_list()
    return replace(conformal, fit=class_thresholds(conformal, labels, scores, gold, stopped.reason == 0))


def class_thresholds(
    conformal: Conformal, labels: Sequence[str], scores: np.ndarray, gold: Sequence[str | None], served: np.ndarray
) -> Mapping[str, float]:
    """Threshold by label: the k-th lowest score that a class's label got, k = ⌊alpha · (n + 1)⌋ of n examples.

    `scores` (E, L) by label and `gold` (E,) are of the development split, of which `served` (E,) tells what the policy
    can serve. Below k = 1 nothing is ever left out.
    """
    thresholds = {}
    for i, label in enumerate(labels):
        mine = np.sort(scores[[e for e, g in enumerate(gold) if g == label and served[e]], i])
        if not len(mine):
            raise ThinkbackError(
                f"`conformal.on` ({conformal.on}) has no example of class `{label}` that the policy can serve"
            )
        place = int(np.floor(conformal.alpha * (len(mine) + 1) + 1e-9))
        thresholds[label] = float(mine[place - 1]) if place >= 1 else -np.inf
    return thresholds


def set_stage(
    block: LogBlock, trajectory: Trajectory, step: np.ndarray, conformal: Conformal, outcome: Outcome
) -> Stage:
    """The prediction set of the one example of a block: each label's score and threshold, and whether it is in."""
    fitted = conformal.fit or {}
    labels = list(fitted)
    scores, thresholds = by_label(block, trajectory, step, labels)[0], np.array([fitted[label] for label in labels])
    rows = pl.DataFrame(
        {
            "label": labels,
            "score": np.where(np.isfinite(scores), scores, np.nan),
            "threshold": np.where(np.isfinite(thresholds), thresholds, np.nan),
            "in set": scores >= thresholds,
        },
        nan_to_null=True,
    )
    size, answered = int(rows["in set"].sum()), bool(outcome.measured["answered"][0])
    text = f"the set holds {size} label{'' if size == 1 else 's'}"
    return Stage("the prediction set", rows, text + ("" if answered else ", and the policy does not answer"))
