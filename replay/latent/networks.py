"""Logistic regression and two small networks, for comparison with boosted trees, as the LiLaVe paper does (A.2).

They read standardised values; a missing one is the mean. They need all rows at once, and fitted they are lists of
numbers: a chain of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from replay.latent.model_rows import ModelRows
from toolkit.errors import ThinkbackError

EPOCHS, BATCH = 20, 32
MLP_SIZE, MLP_RATE = 16, 1e-4
SWIGLU_SIZE, SWIGLU_INNER, SWIGLU_BLOCKS, SWIGLU_RATE, SWIGLU_DECAY = 32, 16, 2, 5e-4, 0.1
ITERATIONS = 1_000
"""Of logistic regression."""
HELD_OUT = 5
"""One question of so many is held out of a network's training, to choose the epoch by."""

Model = dict[str, Any]
Learner = Callable[[np.ndarray, np.ndarray, np.ndarray, int], list[Model]]


def fit_logistic(
    rows: ModelRows, labels: np.ndarray, parts: Sequence[np.ndarray], groups: np.ndarray, settings: Any
) -> list[Mapping[str, Any]]:
    """Logistic regression with balanced classes for each part of the traces."""
    return _fit("logistic", _logistic, rows, labels, parts, groups, settings)


def fit_mlp(
    rows: ModelRows, labels: np.ndarray, parts: Sequence[np.ndarray], groups: np.ndarray, settings: Any
) -> list[Mapping[str, Any]]:
    """A network with one hidden layer for each part of the traces, of the epoch that is best on held-out questions."""
    return _fit("mlp", _mlp, rows, labels, parts, groups, settings)


def fit_swiglu(
    rows: ModelRows, labels: np.ndarray, parts: Sequence[np.ndarray], groups: np.ndarray, settings: Any
) -> list[Mapping[str, Any]]:
    """A residual network with gates for each part of the traces, of the best epoch on held-out questions."""
    return _fit("swiglu", _swiglu, rows, labels, parts, groups, settings)


def _fit(
    kind: str, learner: Learner, rows: ModelRows, labels: np.ndarray, parts: Sequence[np.ndarray],
    groups: np.ndarray, settings: Any,
) -> list[Mapping[str, Any]]:  # fmt: skip
    whole = rows.whole(kind)
    made: list[Mapping[str, Any]] = []
    for part in parts:
        inside = part[whole.trace]
        values = whole.values[inside]
        with np.errstate(invalid="ignore"):
            centre = np.nan_to_num(np.nanmean(values, axis=0, dtype=np.float64))
            spread = np.nan_to_num(np.nanstd(values, axis=0, dtype=np.float64))
        scale = np.where(spread > 1e-12, spread, 1.0)
        read = _standard(values, centre, scale)
        trace = whole.trace[inside]
        layers = learner(read, labels[trace].astype(int), groups[trace], settings.seed)
        made.append({"centre": centre.tolist(), "scale": scale.tolist(), "layers": layers})
    return made


def _standard(values: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.nan_to_num((values - centre) / scale, nan=0.0).astype(np.float32)


def _logistic(read: np.ndarray, right: np.ndarray, groups: np.ndarray, seed: int) -> list[Model]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=ITERATIONS, class_weight="balanced").fit(read, right)
    return [{"weights": model.coef_.T.tolist(), "bias": model.intercept_.tolist()}]


def _mlp(read: np.ndarray, right: np.ndarray, groups: np.ndarray, seed: int) -> list[Model]:
    from sklearn.neural_network import MLPClassifier

    learnt, held = _split(groups, seed)
    model = MLPClassifier(
        (MLP_SIZE,), learning_rate_init=MLP_RATE, batch_size=min(BATCH, len(learnt)), random_state=seed
    )
    best, lowest = [], np.inf
    for _ in range(EPOCHS):
        model.partial_fit(read[learnt], right[learnt], classes=[0, 1])
        loss = _loss(model.predict_proba(read[held])[:, 1], right[held])
        if loss < lowest:
            lowest = loss
            weights = zip(model.coefs_, model.intercepts_, strict=True)
            best = [{"weights": w.tolist(), "bias": b.tolist()} for w, b in weights]
    return [{**best[0], "relu": True}, best[1]]


def _swiglu(read: np.ndarray, right: np.ndarray, groups: np.ndarray, seed: int) -> list[Model]:
    torch = _import_torch()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a network waits for more of them
    try:
        return _learnt_swiglu(torch, read, right, groups, seed)
    finally:
        torch.set_num_threads(threads)


def _learnt_swiglu(torch: Any, read: np.ndarray, right: np.ndarray, groups: np.ndarray, seed: int) -> list[Model]:
    from torch import nn

    torch.manual_seed(seed)
    learnt, held = _split(groups, seed)
    gates = [nn.Linear(SWIGLU_SIZE, SWIGLU_INNER) for _ in range(SWIGLU_BLOCKS)]
    ups = [nn.Linear(SWIGLU_SIZE, SWIGLU_INNER) for _ in range(SWIGLU_BLOCKS)]
    downs = [nn.Linear(SWIGLU_INNER, SWIGLU_SIZE) for _ in range(SWIGLU_BLOCKS)]
    first, last = nn.Linear(read.shape[1], SWIGLU_SIZE), nn.Linear(SWIGLU_SIZE, 1)
    every = nn.ModuleList([first, *gates, *ups, *downs, last])

    def forward(x: Any) -> Any:
        x = first(x)
        for gate, up, down in zip(gates, ups, downs, strict=True):
            x = x + down(nn.functional.silu(gate(x)) * up(x))
        return last(x)[:, 0]

    def written(layer: Any) -> Model:
        return {"weights": layer.weight.detach().T.tolist(), "bias": layer.bias.detach().tolist()}

    learning = torch.optim.AdamW(every.parameters(), lr=SWIGLU_RATE, weight_decay=SWIGLU_DECAY)
    values, target = torch.from_numpy(read), torch.from_numpy(right.astype(np.float32))
    order, best, lowest = np.random.default_rng(seed), [], np.inf
    for _ in range(EPOCHS):
        for batch in np.split(order.permutation(learnt), range(BATCH, len(learnt), BATCH)):
            loss = nn.functional.binary_cross_entropy_with_logits(forward(values[batch]), target[batch])
            learning.zero_grad()
            loss.backward()
            learning.step()
        with torch.no_grad():
            told = _loss(torch.sigmoid(forward(values[held])).numpy(), right[held])
        if told < lowest:
            lowest = told
            blocks = zip(gates, ups, downs, strict=True)
            inner = [{"gate": written(g), "up": written(u), "down": written(d)} for g, u, d in blocks]
            best = [written(first), *inner, written(last)]
    return best


def _import_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ThinkbackError(
            "a verifier of kind `swiglu` needs the package torch: pip install 'thinkback[generate]'"
        ) from None
    return torch


def _split(groups: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from, and those of held-out questions to choose the epoch by."""
    known = np.unique(groups)
    if len(known) < 2:
        raise ThinkbackError("a network needs more than one question to be trained on: take more")
    held = np.random.default_rng(seed).permutation(known)[: max(1, len(known) // HELD_OUT)]
    outside = np.isin(groups, held)
    return np.flatnonzero(~outside), np.flatnonzero(outside)


def _loss(probability: np.ndarray, right: np.ndarray) -> float:
    chance = np.clip(np.where(right == 1, probability, 1 - probability), 1e-7, 1)
    return float(-np.log(chance).mean())


def network_scorer(model: Mapping[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Probabilities of rows by a model."""
    centre, scale = np.array(model["centre"]), np.array(model["scale"])
    layers = [_layer(layer) for layer in model["layers"]]

    def score(rows: np.ndarray) -> np.ndarray:
        x = _standard(rows, centre, scale)
        for layer in layers:
            x = layer(x)
        return 1 / (1 + np.exp(-np.clip(x[:, 0], -500, 500)))

    return score


def _layer(model: Mapping[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """A linear layer, with what is negative cut off or not, or a block with a gate that is added to what it reads."""
    if "gate" in model:
        gate, up, down = (_layer(model[name]) for name in ("gate", "up", "down"))
        return lambda x: x + down(_silu(gate(x)) * up(x))
    weights, bias = np.array(model["weights"], np.float64), np.array(model["bias"], np.float64)
    if model.get("relu"):
        return lambda x: np.maximum(x @ weights + bias, 0)
    return lambda x: x @ weights + bias


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-np.clip(x, -500, 500)))
