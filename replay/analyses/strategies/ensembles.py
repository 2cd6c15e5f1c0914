"""One score of several verifiers' scores: a logistic regression, fitted on some examples and applied to all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def ensemble(scores: Mapping[str, np.ndarray], right: np.ndarray, fit_on: np.ndarray) -> np.ndarray:
    """Probability (E,) of being right by the scores (E,) of several verifiers, each standardised where it is fitted.

    `right` (E,): correctness, a mean counting with its parts; read only where `fit_on` (E,). NaN where a score is.
    Where all of these are right, or wrong, the mean of the standardised scores.
    """
    from sklearn.linear_model import LogisticRegression

    columns = np.column_stack(list(scores.values()))
    known = ~np.isnan(columns).any(axis=1)
    fit = known & fit_on & ~np.isnan(right)
    found = np.full(len(columns), np.nan)
    if not fit.any():
        return found
    middle, spread = columns[fit].mean(axis=0), columns[fit].std(axis=0)
    columns = (columns - middle) / np.where(spread > 0, spread, 1.0)
    rows, weight = np.concatenate([columns[fit]] * 2), np.concatenate([right[fit], 1 - right[fit]])
    label = np.repeat([1, 0], fit.sum())
    counted = weight > 0
    if len(np.unique(label[counted])) < 2:
        found[known] = columns[known].mean(axis=1)
        return found
    model = LogisticRegression(max_iter=1000).fit(rows[counted], label[counted], weight[counted])
    found[known] = model.predict_proba(columns[known])[:, 1]
    return found
