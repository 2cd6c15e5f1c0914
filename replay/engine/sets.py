"""Split-conformal prediction sets with a threshold for each class (Vovk 2012: Mondrian), and abstention.

A label's score on an example is the best score among the verified traces that gave it when the policy stopped. A set
holds the labels that reach their thresholds. These come from the scores of the labels where the policy stops on a
development split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from replay.data.block import LogBlock
from replay.engine.cuts import StopConditions, find_stops
from replay.engine.outcome import Outcome
from replay.engine.trajectory import Trajectory, Walk, walk_block
from replay.sampling.learned import Conformal
from toolkit.errors import EmptyError, UnsuitableError

SET_COLUMNS = ("set_size", "covered", "answered", "answered_correct")
"""Further columns of outcomes of a policy with prediction sets."""


def fit_conformal(block: LogBlock, walk: Walk, how: StopConditions, conformal: Conformal) -> Conformal:
    """`conformal` with a threshold for each class, fitted on the examples of a block that the policy covers."""
    labels = _shared_labels(block)
    trajectory = walk_block(block, walk)
    stopped = find_stops(trajectory, how)
    scores = best_scores_by_label(block, trajectory, stopped.step, labels)
    gold = block.examples["gold"].to_list()
    return replace(conformal, fit=_thresholds_by_class(conformal, labels, scores, gold, stopped.reason == 0))


def _thresholds_by_class(
    conformal: Conformal, labels: Sequence[str], scores: np.ndarray, gold: Sequence[str | None], complete: np.ndarray
) -> Mapping[str, float]:
    """Threshold by label: the k-th lowest score that the label got on its class's n examples, k = ⌊alpha · (n + 1)⌋.

    `scores` (E, L) by label and `gold` (E,) are of the development split; `complete` (E,): whether the log covers the
    example. Where k is below 1 the threshold is -inf, so that every set has the label.
    """
    thresholds = {}
    for i, label in enumerate(labels):
        label_scores = np.sort(scores[[e for e, g in enumerate(gold) if g == label and complete[e]], i])
        if not len(label_scores):
            raise EmptyError(
                f"`conformal.on` ({conformal.on}) has no example of class `{label}` on which the policy can be replayed"
            )
        place = int(np.floor(conformal.alpha * (len(label_scores) + 1) + 1e-9))
        thresholds[label] = float(label_scores[place - 1]) if place >= 1 else -np.inf
    return thresholds


def _label_scores(trajectory: Trajectory, step: np.ndarray, answers: int) -> np.ndarray:
    """Best score of each answer code among the traces verified by `step` (E,): (E, A), -inf where there is none."""
    code, score = trajectory.revealed.code, trajectory.revealed.score
    row, at = np.nonzero((code >= 0) & (np.arange(code.shape[1]) < step[:, None]) & ~np.isnan(score))
    best = np.full((len(step), max(answers, 1)), -np.inf)
    np.maximum.at(best, (row, code[row, at]), score[row, at])
    return best


def best_scores_by_label(block: LogBlock, trajectory: Trajectory, step: np.ndarray, labels: list[str]) -> np.ndarray:
    """Best score (E, L) of each label among the traces verified by `step` (E,); -inf for a label without one."""
    best = _label_scores(trajectory, step, trajectory.pool.n_codes)
    place = {word: i for i, word in enumerate(block.vocabulary.to_list())}
    out = np.full((len(step), len(labels)), -np.inf)
    for i, label in enumerate(labels):
        if label in place:
            label_score = np.where(trajectory.pool.vocabulary_number_of_code == place[label], best, -np.inf)
            out[:, i] = label_score.max(axis=1)
    return out


def add_set_columns(
    block: LogBlock, trajectory: Trajectory, step: np.ndarray, conformal: Conformal, outcome: Outcome
) -> Outcome:
    """The outcome of stopping at `step` (E,), with the columns of prediction sets, after any abstention."""
    if conformal.fit is None:
        raise UnsuitableError("`conformal` is not fitted: replay it with `replay.run`")
    correct, words, labels = outcome.correct, outcome.words[0], list(conformal.fit)
    scores = best_scores_by_label(block, trajectory, step, labels)
    within = scores >= np.array(list(conformal.fit.values()))
    gold = block.examples["gold"].to_list()
    number = {label: i for i, label in enumerate(labels)}
    at = np.array([number.get(g, -1) for g in gold])
    known = at >= 0
    covered = np.where(known, within[np.arange(len(at)), np.maximum(at, 0)], np.nan)
    answers = block.vocabulary.to_list()
    answer_numbers = np.array([number.get(answers[w], -1) if w >= 0 else -1 for w in words.tolist()], dtype=np.int64)
    first = trajectory.pool.credit[np.arange(len(at)), trajectory.place[:, 0]]  # as for any null prediction
    alone = (
        (within.sum(axis=1) == 1) & (answer_numbers >= 0) & within[np.arange(len(at)), np.maximum(answer_numbers, 0)]
    )
    answered = alone if conformal.abstain else words >= 0
    right = np.where(answered, correct, np.nan)
    measured = (within.sum(axis=1).astype(float), covered, answered.astype(float), right)
    return replace(
        outcome,
        correct=np.where(answered | np.isnan(correct), correct, 0.0),
        credit=np.where(answered, outcome.credit, first),
        words=np.where(answered, words, -1)[None],
        measured=dict(zip(SET_COLUMNS, measured, strict=True)),
    )


def _shared_labels(block: LogBlock) -> list[str]:
    spaces = block.examples["labels"].unique().to_list()
    if len(spaces) != 1 or not spaces[0]:
        raise UnsuitableError("`conformal` needs examples that share one label space (`labels` of examples)")
    return list(spaces[0])
