"""The conformal part of a `sample`: thresholds from the scores of the labels where it stops, and prediction sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.data.block import LogBlock
from replay.engine.cuts import Cut, cut
from replay.engine.outcome import Outcome
from replay.engine.sets import by_label, measure_sets, shared_labels
from replay.engine.trajectory import Trajectory, Walk, walk_block
from replay.learning.conformal import class_thresholds
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


def with_prediction_sets(
    block: LogBlock, trajectory: Trajectory, step: np.ndarray, conformal: Conformal, plain: Outcome
) -> Outcome:
    """The outcome of stopping at `step` (E,), with the prediction sets of fitted thresholds."""
    if conformal.fit is None:
        raise ThinkbackError("`conformal` is not fitted: replay it with `replay.run`")
    return measure_sets(block, trajectory, step, conformal.fit, conformal.abstain, plain)
