"""Boosted trees on rows of any number: XGBoost reads them batch by batch, and keeps them on disk where they are many.

The models of all folds share one matrix of binned values, in which a row that a model must not see has the weight 0:
the trees are those that XGBoost grows on the other rows with the same bins.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from replay.latent.model_rows import ModelRows, RowBatch
from replay.policies.gate_models import import_xgboost
from toolkit.errors import ThinkbackError
from toolkit.work_places import scratch_folder

WHAT = "a verifier of kind `xgboost`"
IN_MEMORY = 2**28
"""Binned values, of two bytes each, that are kept in memory; more are kept on disk."""
ONE_THREAD = 2**25
"""Numbers below which a second thread costs more than it gains."""
BINS = 256
SAMPLED = 2**14
"""Rows, at the least, of whose values the bins are made where not all are kept in memory."""
_EXTERNAL = 3
"""The first version of XGBoost that bins rows in external memory."""


def fit_boosted(
    rows: ModelRows, labels: np.ndarray, parts: Sequence[np.ndarray], groups: np.ndarray, settings: Any
) -> list[Mapping[str, Any]]:
    """A model in XGBoost's own JSON for each part of the traces."""
    xgboost = import_xgboost(WHAT)
    external = rows.count * rows.columns > IN_MEMORY
    if external and int(xgboost.__version__.split(".")[0]) < _EXTERNAL:
        raise ThinkbackError(
            f"{WHAT} on {rows.count:,} rows of {rows.columns:,} numbers needs XGBoost {_EXTERNAL} or newer; "
            f"{xgboost.__version__} is installed: upgrade xgboost"
        )
    threads = _cores() if rows.count * rows.columns > ONE_THREAD else 1
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as folder:
        passes = _passes(xgboost, rows, labels, str(Path(folder) / "bins") if external else None)
        if external:  # the bins of all rows would take gigabytes to find, those of a sample are as good
            sample = _passes(xgboost, rows.sample(SAMPLED, settings.seed), labels, None)
            bins = xgboost.QuantileDMatrix(sample, max_bin=BINS, nthread=1)
            data = xgboost.ExtMemQuantileDMatrix(passes, max_bin=BINS, nthread=threads, ref=bins)
            del bins, sample
        else:
            data = xgboost.QuantileDMatrix(passes, max_bin=BINS, nthread=threads)
        trace = np.concatenate([one.trace for one in _traces(rows)])
        made = []
        for part in parts:
            inside = part[trace]
            data.set_info(weight=inside.astype(np.float32))
            share = float(labels[trace][inside].mean())
            learning = {
                "objective": "binary:logistic", "base_score": share, "max_depth": settings.depth,
                "eta": settings.eta, "tree_method": "hist", "max_bin": BINS, "seed": settings.seed,
                "nthread": threads,
            }  # fmt: skip
            booster = xgboost.train(learning, data, settings.rounds)
            made.append(json.loads(booster.save_raw("json")))
        del data, passes  # which remove their files themselves
    return made


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _traces(rows: ModelRows) -> Iterator[RowBatch]:
    """The traces of all rows, without their states."""
    empty = np.zeros((0, 0), np.float32)
    if rows.states is None:
        yield RowBatch(empty, np.flatnonzero(rows.keep), np.zeros(0, np.int32))
        return
    for _, _, trace, place in rows.states.groups:
        yield RowBatch(empty, trace[trace >= 0], place[trace >= 0])


def _passes(xgboost: Any, rows: ModelRows, labels: np.ndarray, cache: str | None) -> Any:
    """The rows as XGBoost asks for them, several times over."""

    class Passes(xgboost.DataIter):
        def __init__(self) -> None:
            self.at = rows.batches()
            super().__init__(cache_prefix=cache, release_data=True)

        def next(self, input_data: Callable[..., Any]) -> bool:
            batch = next(self.at, None)
            if batch is None:
                return False
            input_data(data=batch.values, label=labels[batch.trace])
            return True

        def reset(self) -> None:
            self.at = rows.batches()

    return Passes()


def boosted_scorer(model: Mapping[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Probabilities of rows by a model."""
    booster = import_xgboost(WHAT, model["version"]).Booster()
    booster.load_model(bytearray(json.dumps(model), "utf-8"))
    return lambda rows: booster.inplace_predict(rows, validate_features=False)
