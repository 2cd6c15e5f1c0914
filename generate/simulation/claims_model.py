"""The model behind the simulated fact-checking logs: claims with three labels, a generator, two verifiers.

For one claim with gold g (all numbers are in `constants/*.toml` beside it, with where each comes from):

- *answers*: a trace's label l has probability softmax over l of `answers[g][l]` + `answer_spread` · a_l, with a_l
  standard normal per claim and label: some claims give one label every time, others two or three. A trace has no
  label at the rate `missing`.
- *verifiers*: the score of a trace with label l is 1/(1 + exp(−z)), z = `scores[g][l]` + `label_spread` · u_l
  + `follows` · a_l + `trace_spread` · e, with u_l and e standard normal per claim and label and per trace. A verifier
  with `grid` rounds its scores to multiples of it, as one that is prompted for a score does.
- *features* are 1/(1 + exp(−x)), x standard normal with the stated correlation to (u_l + e)/√2 of the first verifier;
  `length` is completion tokens / `max_tokens`.
- *tokens* and *seconds* are log-normal about the published means; prompt tokens are one number per claim.

Latent variables of claims are drawn as Latin hypercubes within each class, and labels from stratified uniforms, so that
a log of the published size lies closer to the model's own means than independent draws would. Every trace index has a
generator of its own: the first traces are the same however many are drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from generate.simulation.grid_model import FEATURES, sigmoid

LABELS = ("Supports", "Refutes", "Conflicting")
_CLAIM, _TRACE = 1, 2  # streams of random numbers


@dataclass(frozen=True)
class SimulatedVerifier:
    """One verifier; rows of `scores` are gold labels, columns labels of the trace."""

    name: str
    scores: tuple[tuple[float, ...], ...]
    label_spread: float
    trace_spread: float
    follows: float
    seconds: float
    grid: float = 0.0


@dataclass(frozen=True)
class ClaimsModel:
    """Constants of one simulated data set."""

    name: str
    counts: Mapping[str, int]  # claims by gold label
    answers: tuple[tuple[float, ...], ...]
    answer_spread: float
    missing: float
    verifiers: tuple[SimulatedVerifier, ...]
    prompt_tokens: float
    prompt_spread: float
    completion_tokens: float
    completion_spread: float
    max_tokens: int
    seconds: float
    seconds_spread: float
    correlations: tuple[float, ...]  # of FEATURES
    other_h: float  # wall-clock hours of exhaustive best-of-N that are neither generation nor verification


@dataclass(frozen=True)
class SimulatedClaims:
    """Claims with their latent variables, (n,) and (n, 3)."""

    gold: np.ndarray
    answer: np.ndarray  # a
    label: Mapping[str, np.ndarray]  # u by verifier
    prompt: np.ndarray  # standard normal of the prompt's length


@dataclass(frozen=True)
class Draws:
    """Random numbers of the traces, (n, T): uniforms `which` and `lost`, standard normals the others."""

    which: np.ndarray
    lost: np.ndarray
    noise: Mapping[str, np.ndarray]  # e by verifier
    features: np.ndarray  # (F, n, T)
    tokens: np.ndarray
    seconds: np.ndarray
    checking: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class SimulatedTraces:
    """Traces, (n, T): label index (-1: none) and scores by verifier."""

    label: np.ndarray
    scores: Mapping[str, np.ndarray]
    features: np.ndarray  # (F, n, T)


def draw_claims(model: ClaimsModel, counts: Mapping[str, int], seed: int, stream: int = 0) -> SimulatedClaims:
    """Claims of every class, class after class."""
    from scipy.special import ndtri

    rng = np.random.default_rng([seed, _CLAIM, stream])
    kinds = 2 + len(model.verifiers)
    parts = []
    for label in LABELS:
        n = counts[label]
        cells = np.stack([rng.permutation(n) for _ in range(3 * kinds)], axis=1) + rng.random((n, 3 * kinds))
        parts.append(ndtri(np.clip(cells / max(n, 1), 1e-9, 1 - 1e-9)))
    normal = np.concatenate(parts).reshape(-1, kinds, 3)
    gold = np.repeat(np.arange(3), [counts[label] for label in LABELS])
    by_verifier = {v.name: normal[:, 2 + i] for i, v in enumerate(model.verifiers)}
    return SimulatedClaims(gold, normal[:, 0], by_verifier, normal[:, 1, 0])


def draw_noise(model: ClaimsModel, n: int, traces: int, seed: int, stream: int = 0) -> Draws:
    """Random numbers of `traces` traces of n claims."""
    columns: dict[str, list[np.ndarray]] = defaultdict(list)
    for t in range(traces):
        rng = np.random.default_rng([seed, _TRACE, stream, t])
        columns["which"].append((rng.permutation(n) + rng.random(n)) / n)
        columns["lost"].append(rng.random(n))
        names = [f"e:{v.name}" for v in model.verifiers] + [f"f:{i}" for i in range(len(FEATURES))]
        for name in [*names, "tokens", "seconds", *(f"s:{v.name}" for v in model.verifiers)]:
            columns[name].append(rng.normal(size=n))
    table = {name: np.stack(values, axis=1) for name, values in columns.items()}
    return Draws(
        which=table["which"],
        lost=table["lost"],
        noise={v.name: table[f"e:{v.name}"] for v in model.verifiers},
        features=np.stack([table[f"f:{i}"] for i in range(len(FEATURES))]),
        tokens=table["tokens"],
        seconds=table["seconds"],
        checking={v.name: table[f"s:{v.name}"] for v in model.verifiers},
    )


def make_traces(model: ClaimsModel, claims: SimulatedClaims, draws: Draws) -> SimulatedTraces:
    """Labels and scores from the random numbers; nothing is drawn here."""
    tilt = np.asarray(model.answers)[claims.gold] + model.answer_spread * claims.answer  # (n, 3)
    weight = np.exp(tilt - tilt.max(axis=1, keepdims=True))
    edges = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)  # (n, 3)
    label = (draws.which[..., None] >= edges[:, None, :2]).sum(axis=2)  # (n, T)
    scores = {v.name: _scores(v, claims, draws, label) for v in model.verifiers}
    first = model.verifiers[0].name
    shared = np.take_along_axis(claims.label[first], label, axis=1) + draws.noise[first]
    rho = np.asarray(model.correlations)[:, None, None]
    x = rho * shared / np.sqrt(2) + np.sqrt(1 - rho**2) * draws.features
    features = np.round(sigmoid(x), 4)
    return SimulatedTraces(np.where(draws.lost < model.missing, -1, label), scores, features)


def _scores(verifier: SimulatedVerifier, claims: SimulatedClaims, draws: Draws, label: np.ndarray) -> np.ndarray:
    mean = np.asarray(verifier.scores)[claims.gold]  # (n, 3)
    mean = mean + verifier.label_spread * claims.label[verifier.name] + verifier.follows * claims.answer
    z = np.take_along_axis(mean, label, axis=1) + verifier.trace_spread * draws.noise[verifier.name]
    score = sigmoid(z)
    return np.round(score / verifier.grid) * verifier.grid if verifier.grid else np.round(score, 4)
