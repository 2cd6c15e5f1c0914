"""The models that are fitted on rows of states and values; a fitted model is plain data.

Boosted trees read rows of any number: XGBoost takes them batch by batch, and keeps them on disk where they are many.
The models of all folds share one matrix of binned values, in which a row that a model must not see has the weight 0:
the trees are those that XGBoost grows on the other rows with the same bins.

Logistic regression and two small networks are there for comparison, as in the LiLaVe paper (A.2). They read
standardised values; a missing one is the mean. They need all rows at once, and fitted they are chains of layers.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from replay.latent.model_rows import ModelRows, RowBatch
from replay.policies.gate_models import import_xgboost
from toolkit.errors import ConflictError, EmptyError, InvalidError, PackageError, argument, quote
from toolkit.models import check_network, check_trees
from toolkit.settings import check, setting
from toolkit.work_places import scratch_folder

WHAT = "a verifier of kind `xgboost`"
IN_MEMORY = 2**28
"""How many binned values, of two bytes each, are kept in memory; more are kept on disk."""
ONE_THREAD = 2**25
"""The number of numbers below which a second thread costs more than it gains."""
BINS = 256
SAMPLED = 2**14
"""The fewest rows from whose values bins are made, if not all rows are kept in memory."""
_EXTERNAL = 3
"""The first version of XGBoost that bins rows in external memory."""
EPOCHS, BATCH = 20, 32
MLP_SIZE, MLP_RATE = 16, 1e-4
SWIGLU_SIZE, SWIGLU_INNER, SWIGLU_BLOCKS, SWIGLU_RATE, SWIGLU_DECAY = 32, 16, 2, 5e-4, 0.1
ITERATIONS = 1_000
"""The most iterations of logistic regression."""
HELD_OUT = 5
"""One question in so many is held out of a network's training, to choose the epoch on."""

Document = Mapping[str, Any]
Scorer = Callable[[np.ndarray], np.ndarray]
Layer = dict[str, Any]
Learner = Callable[[np.ndarray, np.ndarray, np.ndarray, int], list[Layer]]


def _fit_boosted(
    rows: ModelRows, labels: np.ndarray, parts: Sequence[np.ndarray], groups: np.ndarray, settings: VerifierSettings
) -> list[Document]:
    """Boosted trees, in XGBoost's own JSON, for each part of the traces."""
    xgboost = import_xgboost(WHAT)
    external = rows.count_rows * rows.count_columns > IN_MEMORY
    if external and int(xgboost.__version__.split(".")[0]) < _EXTERNAL:
        raise PackageError(
            f"{WHAT} on {rows.count_rows:,} rows of {rows.count_columns:,} numbers needs XGBoost {_EXTERNAL} or newer; "
            f"{xgboost.__version__} is installed: upgrade xgboost"
        )
    threads = _count_cores() if rows.count_rows * rows.count_columns > ONE_THREAD else 1
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as folder:
        passes = _xgboost_data(xgboost, rows, labels, str(Path(folder) / "bins") if external else None)
        if external:  # the bins of all rows would take gigabytes to find, those of a sample are as good
            sample = _xgboost_data(xgboost, rows.sample_traces(SAMPLED, settings.seed), labels, None)
            bins = xgboost.QuantileDMatrix(sample, max_bin=BINS, nthread=1)
            data = xgboost.ExtMemQuantileDMatrix(passes, max_bin=BINS, nthread=threads, ref=bins)
            del bins, sample
        else:
            data = xgboost.QuantileDMatrix(passes, max_bin=BINS, nthread=threads)
        trace = np.concatenate([one.trace for one in _traces_without_states(rows)])
        documents = []
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
            documents.append(json.loads(booster.save_raw("json")))
        del data, passes  # which remove their files themselves
    return documents


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _traces_without_states(rows: ModelRows) -> Iterator[RowBatch]:
    empty = np.zeros((0, 0), np.float32)
    if rows.states is None:
        yield RowBatch(empty, np.flatnonzero(rows.keep), np.zeros(0, np.int32))
        return
    for _, _, trace, place in rows.states.groups:
        yield RowBatch(empty, trace[trace >= 0], place[trace >= 0])


def _xgboost_data(xgboost: Any, rows: ModelRows, labels: np.ndarray, cache: str | None) -> Any:
    """The rows in the form in which XGBoost asks for them, several times over."""

    class BatchIterator(xgboost.DataIter):
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

    return BatchIterator()


def _boosted_scorer(model: Document) -> Scorer:
    """The function from rows to probabilities by boosted trees."""
    booster = import_xgboost(WHAT, model["version"]).Booster()
    booster.load_model(bytearray(json.dumps(model), "utf-8"))
    return lambda rows: booster.inplace_predict(rows, validate_features=False)


def _fit_network(
    kind: str, learner: Learner, rows: ModelRows, labels: np.ndarray, parts: Sequence[np.ndarray],
    groups: np.ndarray, settings: VerifierSettings,
) -> list[Document]:  # fmt: skip
    """A chain of layers for each part of the traces; for networks that of the epoch best on held-out questions."""
    whole = rows.read_whole(kind)
    documents: list[Document] = []
    for part in parts:
        inside = part[whole.trace]
        values = whole.values[inside]
        with np.errstate(invalid="ignore"):
            centre = np.nan_to_num(np.nanmean(values, axis=0, dtype=np.float64))
            spread = np.nan_to_num(np.nanstd(values, axis=0, dtype=np.float64))
        scale = np.where(spread > 1e-12, spread, 1.0)
        inputs = _standardise(values, centre, scale)
        trace = whole.trace[inside]
        layers = learner(inputs, labels[trace].astype(int), groups[trace], settings.seed)
        documents.append({"centre": centre.tolist(), "scale": scale.tolist(), "layers": layers})
    return documents


def _standardise(values: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.nan_to_num((values - centre) / scale, nan=0.0).astype(np.float32)


def _fit_logistic(inputs: np.ndarray, right: np.ndarray, groups: np.ndarray, seed: int) -> list[Layer]:
    """Logistic regression with balanced classes, as one layer."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=ITERATIONS, class_weight="balanced").fit(inputs, right)
    return [{"weights": model.coef_.T.tolist(), "bias": model.intercept_.tolist()}]


def _fit_mlp(inputs: np.ndarray, right: np.ndarray, groups: np.ndarray, seed: int) -> list[Layer]:
    """A network with one hidden layer, as layers."""
    from sklearn.neural_network import MLPClassifier

    learnt, held_out = _split_held_out(groups, seed)
    model = MLPClassifier(
        (MLP_SIZE,), learning_rate_init=MLP_RATE, batch_size=min(BATCH, len(learnt)), random_state=seed
    )
    best, lowest = [], np.inf
    for _ in range(EPOCHS):
        model.partial_fit(inputs[learnt], right[learnt], classes=[0, 1])
        loss = _log_loss(model.predict_proba(inputs[held_out])[:, 1], right[held_out])
        if loss < lowest:
            lowest = loss
            weights = zip(model.coefs_, model.intercepts_, strict=True)
            best = [{"weights": w.tolist(), "bias": b.tolist()} for w, b in weights]
    return [{**best[0], "relu": True}, best[1]]


def _fit_swiglu(inputs: np.ndarray, right: np.ndarray, groups: np.ndarray, seed: int) -> list[Layer]:
    """A residual network with gates, as layers."""
    torch = _import_torch()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a network waits for more of them
    try:
        return _train_swiglu(torch, inputs, right, groups, seed)
    finally:
        torch.set_num_threads(threads)


def _train_swiglu(torch: Any, inputs: np.ndarray, right: np.ndarray, groups: np.ndarray, seed: int) -> list[Layer]:
    from torch import nn

    torch.manual_seed(seed)
    learnt, held_out = _split_held_out(groups, seed)
    gates = [nn.Linear(SWIGLU_SIZE, SWIGLU_INNER) for _ in range(SWIGLU_BLOCKS)]
    ups = [nn.Linear(SWIGLU_SIZE, SWIGLU_INNER) for _ in range(SWIGLU_BLOCKS)]
    downs = [nn.Linear(SWIGLU_INNER, SWIGLU_SIZE) for _ in range(SWIGLU_BLOCKS)]
    first, last = nn.Linear(inputs.shape[1], SWIGLU_SIZE), nn.Linear(SWIGLU_SIZE, 1)
    every = nn.ModuleList([first, *gates, *ups, *downs, last])

    def forward(x: Any) -> Any:
        x = first(x)
        for gate, up, down in zip(gates, ups, downs, strict=True):
            x = x + down(nn.functional.silu(gate(x)) * up(x))
        return last(x)[:, 0]

    def weights_of(layer: Any) -> Layer:
        return {"weights": layer.weight.detach().T.tolist(), "bias": layer.bias.detach().tolist()}

    learning = torch.optim.AdamW(every.parameters(), lr=SWIGLU_RATE, weight_decay=SWIGLU_DECAY)
    values, target = torch.from_numpy(inputs), torch.from_numpy(right.astype(np.float32))
    order, best, lowest = np.random.default_rng(seed), [], np.inf
    for _ in range(EPOCHS):
        for batch in np.split(order.permutation(learnt), range(BATCH, len(learnt), BATCH)):
            loss = nn.functional.binary_cross_entropy_with_logits(forward(values[batch]), target[batch])
            learning.zero_grad()
            loss.backward()
            learning.step()
        with torch.no_grad():
            held_loss = _log_loss(torch.sigmoid(forward(values[held_out])).numpy(), right[held_out])
        if held_loss < lowest:
            lowest = held_loss
            blocks = zip(gates, ups, downs, strict=True)
            inner = [{"gate": weights_of(g), "up": weights_of(u), "down": weights_of(d)} for g, u, d in blocks]
            best = [weights_of(first), *inner, weights_of(last)]
    return best


def _import_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise PackageError(
            "a verifier of kind `swiglu` needs the package torch: pip install 'thinkback[generate]'"
        ) from None
    return torch


def _split_held_out(groups: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the rows to learn from, and of those of held-out questions to choose the epoch on."""
    known = np.unique(groups)
    if len(known) < 2:
        raise EmptyError("a network needs more than one question to be trained on: take more")
    held_out = np.random.default_rng(seed).permutation(known)[: max(1, len(known) // HELD_OUT)]
    outside = np.isin(groups, held_out)
    return np.flatnonzero(~outside), np.flatnonzero(outside)


def _log_loss(probability: np.ndarray, right: np.ndarray) -> float:
    chance = np.clip(np.where(right == 1, probability, 1 - probability), 1e-7, 1)
    return float(-np.log(chance).mean())


def _network_scorer(model: Document) -> Scorer:
    """The function from rows to probabilities by a chain of layers."""
    centre, scale = np.array(model["centre"]), np.array(model["scale"])
    layers = [_layer_function(layer) for layer in model["layers"]]

    def fill_scores(rows: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            x = _standardise(rows, centre, scale)
            for layer in layers:
                x = layer(x)
        return 1 / (1 + np.exp(-np.clip(x[:, 0], -500, 500)))

    return fill_scores


def _layer_function(model: Document) -> Scorer:
    """The function of one layer: linear, with negative values cut off or not, or a gated block added to its input."""
    if "gate" in model:
        gate, up, down = (_layer_function(model[name]) for name in ("gate", "up", "down"))
        return lambda x: x + down(_silu(gate(x)) * up(x))
    weights, bias = np.array(model["weights"], np.float64), np.array(model["bias"], np.float64)
    if model.get("relu"):
        return lambda x: np.maximum(x @ weights + bias, 0)
    return lambda x: x @ weights + bias


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-np.clip(x, -500, 500)))


@dataclass(frozen=True)
class _ModelKind:
    """A kind of model. `fit`: the models, from rows, labels (N,) of the traces, masks (N,) of those that each model
    sees, and their questions (N,). `scorer`: from a model the function of rows (n, columns) to probabilities (n,).
    `check`: from a model of a file the model, of checked fields alone, and how many columns it reads.
    """

    fit: Callable[[ModelRows, np.ndarray, Sequence[np.ndarray], np.ndarray, VerifierSettings], list[Document]]
    scorer: Callable[[Document], Scorer]
    check: Callable[[Any, str], tuple[Document, int]]


MODELS: Mapping[str, _ModelKind] = {
    "xgboost": _ModelKind(_fit_boosted, _boosted_scorer, check_trees),
    "logistic": _ModelKind(partial(_fit_network, "logistic", _fit_logistic), _network_scorer, check_network),
    "mlp": _ModelKind(partial(_fit_network, "mlp", _fit_mlp), _network_scorer, check_network),
    "swiglu": _ModelKind(partial(_fit_network, "swiglu", _fit_swiglu), _network_scorer, check_network),
}


STATES = "states"
"""The input that stands for hidden states."""

AGGREGATES: Mapping[str, Callable[..., np.ndarray]] = {
    "mean": np.nanmean,
    "min": np.nanmin,
    "max": np.nanmax,
    "median": np.nanmedian,
}
"""Ways to combine the scores of a trace's states into one."""
ONE, EACH, MEAN = "one", "each", "mean"
PLACES = (ONE, EACH, MEAN)
"""One model over all places, which reads layer and token; a model and a verifier for each; a model for each, and their
scores together.
"""


@dataclass(frozen=True)
class VerifierSettings:
    """Settings of fitting a verifier; `docs/latent.md` explains them. `rounds`, `depth` and `eta` are XGBoost's."""

    name: str = setting()
    model: str = setting("xgboost", choices=MODELS)
    inputs: tuple[str, ...] = setting((STATES,))
    states: str = setting("")
    layers: tuple[int, ...] = setting(())
    tokens: tuple[int, ...] = setting(())
    places: str = setting(ONE, choices=PLACES)
    aggregate: str = setting("mean", choices=AGGREGATES)
    pools: tuple[str, ...] = setting(())
    folds: int = setting(5, low=0, high=1_000)
    depth: int = setting(5, low=1, high=16)
    eta: float = setting(0.1, above=0, high=1)
    rounds: int = setting(30, low=1, high=10_000)
    seed: int = setting(0, low=0)

    def __post_init__(self) -> None:
        check(self)
        if not self.name.strip() or not self.name.isprintable():
            raise InvalidError(f"{argument('name')} is {quote(self.name)}; it takes a name that is not empty")
        if self.folds == 1:
            raise InvalidError(f"{argument('folds')} is 1; it takes 0 (no scores of what was trained on) or at least 2")
        if not self.inputs:
            raise InvalidError(f"{argument('inputs')} is empty; `{STATES}` stands for hidden states")
        if STATES not in self.inputs and self.places != ONE:
            raise ConflictError(
                f"{argument('places')} needs hidden states: add `{STATES}` to the inputs, or leave it out"
            )
