"""The model behind simulated logs: for scale, demonstrations and tests, not findings.

The model, for one example (all numbers are fields of `Model`):

- *difficulty*: the probability p that a sampled answer is right is logit-normal, logit p ~ N(`ease`, `spread`²).
- *gold*: with K labels one of A, B, C …, label j with weight 1/√j; with K = 0 an integer. A wrong answer is
  the example's one attractive wrong answer with probability `attraction`, else any wrong one.
- *greedy*: the `probe` trace is right with logit `sharpening` · logit p.
- *tokens* of a completion are log-normal about `tokens` · exp(`tokens_slope` · (1 − p)), cut at `max_tokens`.
  A cut trace has finish_reason `length`, and with probability `rescued` a finalizer reads its answer
  (`finalizer_tokens` more), else the answer is null. Any answer is null at the rate `invalid_easy` +
  `invalid_slope` · (1 − p).
- *verifiers*: score = 1/(1 + exp(−z)), z = d · (right − ½) + `verifier_ease` · (logit p − `ease`) + e with
  d = √2 · Φ⁻¹(AUC) and e ~ N(0, 1), of whose variance the share `verifier_shared` is common to an example's
  right answers, to its attractive wrong ones, and to its other ones: one taken in by an answer tends to be so
  every time. The stated AUC (`strong`, `weak`) is the expected one *within* an example; over all traces
  it is higher, since easy questions score higher. Null answers are not verified.
- *features*: 1/(1 + exp(−x)), x ~ N(0, 1) with the stated correlation to the strong verifier's e: they
  predict its score also among right answers alone; `length` is completion tokens / `max_tokens`.
- *seconds*: `token_s` per completion token and `prompt_token_s` per prompt token, times log-normal noise of
  `seconds_noise`; device seconds are latency / `concurrency`. A verifier reads prompt and completion at
  `prompt_token_s`.
- *sum_logprob*: −tokens · (`surprise` + `surprise_slope` · (1 − p)) · exp(N(0, `surprise_noise`²)), a tenth
  less for right answers.

Examples are drawn in blocks of 1,000, each from its own generator seeded by (seed, block), and a block is
always drawn whole: example i is the same whatever the number of examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import polars as pl

from toolkit.features import CLAIM_FEATURES

BLOCK = 1_000  # examples drawn together; part of the model: another size gives another log


@dataclass(frozen=True)
class Model:
    """The parameters of the simulation, which the manifest records. The module's docstring explains each."""

    ease: float = 0.3
    spread: float = 1.4
    attraction: float = 0.6
    sharpening: float = 1.3
    invalid_easy: float = 0.01
    invalid_slope: float = 0.06
    tokens: float = 180.0
    tokens_slope: float = 1.1
    tokens_noise: float = 0.4
    max_tokens: int = 1_024
    rescued: float = 0.6
    finalizer_tokens: int = 16
    strong: float = 0.8
    weak: float = 0.62
    verifier_ease: float = 0.4
    verifier_shared: float = 0.5
    claim_similarity: float = 0.5
    evidence_similarity: float = 0.4
    claim_numeric_coverage: float = 0.3
    evidence_numeric_grounding: float = 0.2
    token_s: float = 0.012
    prompt_token_s: float = 0.0002
    seconds_noise: float = 0.15
    concurrency: int = 8
    surprise: float = 0.08
    surprise_slope: float = 0.2
    surprise_noise: float = 0.15
    temperature: float = 0.7
    dev_share: float = 0.3


FEATURES = tuple(name for name in CLAIM_FEATURES if name != "length")  # fields of Model with their correlation
VERIFIERS = ("strong", "weak")  # fields of Model with their AUC


@dataclass(frozen=True)
class DrawnExamples:
    """One block of examples as drawn, of which only as many as are wanted are written."""

    ids: pl.Series  # (BLOCK,)
    logit: np.ndarray  # (BLOCK,) of the probability of being right
    gold: np.ndarray  # (BLOCK,) int64: the label's index, or the number itself
    lure: np.ndarray  # (BLOCK,) the attractive wrong answer
    prompt_tokens: np.ndarray  # (BLOCK,) int64
    dev: np.ndarray  # (BLOCK,) bool


@dataclass(frozen=True)
class PoolPlan:
    """A pool to draw: its name, traces per example, temperature, and how accuracy depends on difficulty."""

    name: str
    traces: int
    temperature: float
    slope: float  # of the logit of being right, on logit p


@dataclass(frozen=True)
class DrawnTraces:
    """The traces of one pool in one block, as drawn; every array is (BLOCK, T)."""

    codes: np.ndarray  # the answer: a label's index, or the number itself
    valid: np.ndarray
    right: np.ndarray
    cut: np.ndarray
    finalizer: np.ndarray
    prompts: np.ndarray
    tokens: np.ndarray
    seconds: np.ndarray
    logprob: np.ndarray
    scores: dict[str, np.ndarray]  # verifier -> scores
    features: dict[str, np.ndarray]


def draw_examples(rng: np.random.Generator, model: Model, labels: int, seed: int, block: int) -> DrawnExamples:
    """Draws one whole block of examples."""
    index = pl.Series(np.arange(block * BLOCK, (block + 1) * BLOCK)).cast(pl.String).str.zfill(9)
    if labels:
        weight = 1 / np.sqrt(np.arange(1, labels + 1))
        gold = rng.choice(labels, size=BLOCK, p=weight / weight.sum())
        lure = (gold + rng.integers(1, labels, size=BLOCK)) % labels
    else:
        gold = rng.integers(1, 1_000, size=BLOCK)
        lure = gold + rng.integers(1, 10, size=BLOCK) * rng.choice(np.array([-1, 1]), size=BLOCK)
    return DrawnExamples(
        ids=(f"sim{seed}-" + index).rename("example_id"),
        logit=rng.normal(model.ease, model.spread, size=BLOCK),
        gold=gold,
        lure=lure,
        prompt_tokens=np.rint(rng.lognormal(np.log(120), 0.3, size=BLOCK)).astype(np.int64),
        dev=rng.random(BLOCK) < model.dev_share,
    )


def _draw_answers(
    rng: np.random.Generator, model: Model, labels: int, drawn: DrawnExamples, p: np.ndarray, traces: int
) -> np.ndarray:
    """Draws answer codes (BLOCK, T), given each example's probability `p` (BLOCK,) of a right answer."""
    shape = (BLOCK, traces)
    gold, lure = drawn.gold[:, None], drawn.lure[:, None]
    right, lured = rng.random(shape) < p[:, None], rng.random(shape) < model.attraction
    if labels:
        other = (gold + rng.integers(1, labels, size=shape)) % labels
    else:
        sign = rng.choice(np.array([-1, 1]), size=shape)
        other = gold + sign * rng.geometric(0.05, size=shape)
    return np.where(right, gold, np.where(lured, lure, other))


def draw_traces(
    rng: np.random.Generator, model: Model, labels: int, drawn: DrawnExamples, pool: PoolPlan
) -> DrawnTraces:
    """Draws the traces of one pool in a block: answers, costs, scores and features."""
    shape = (BLOCK, pool.traces)
    hard = 1 - sigmoid(drawn.logit)[:, None]  # (BLOCK, 1)
    codes = _draw_answers(rng, model, labels, drawn, sigmoid(pool.slope * drawn.logit), pool.traces)
    right = codes == drawn.gold[:, None]
    demand = model.tokens * np.exp(model.tokens_slope * hard + rng.normal(0, model.tokens_noise, size=shape))
    cut = demand >= model.max_tokens
    finalizer = cut & (rng.random(shape) < model.rescued)
    valid = (finalizer | ~cut) & (rng.random(shape) >= model.invalid_easy + model.invalid_slope * hard)
    attempt = np.clip(np.rint(demand), 1, model.max_tokens).astype(np.int64)
    question_tokens = drawn.prompt_tokens[:, None]
    prompts = question_tokens + finalizer * (question_tokens + attempt)  # the finalizer reads the whole attempt again
    tokens = attempt + finalizer * model.finalizer_tokens
    noise = np.exp(rng.normal(0, model.seconds_noise, size=shape))
    surprise = model.surprise + model.surprise_slope * hard
    surprise = surprise * np.exp(rng.normal(0, model.surprise_noise, size=shape))
    kind = np.where(right, 0, np.where(codes == drawn.lure[:, None], 1, 2))
    errors = {verifier: _verifier_errors(rng, model, kind) for verifier in VERIFIERS}
    strong = errors["strong"]
    return DrawnTraces(
        codes=codes,
        valid=valid,
        right=right & valid,
        cut=cut,
        finalizer=finalizer,
        prompts=prompts,
        tokens=tokens,
        seconds=(model.token_s * tokens + model.prompt_token_s * prompts) * noise,
        logprob=-attempt * surprise * np.where(right, 0.9, 1.0),
        scores={v: _scores(model, v, right, drawn.logit[:, None], errors[v]) for v in VERIFIERS},
        features={f: _feature_values(getattr(model, f), strong, rng.normal(size=shape)) for f in FEATURES},
    )


def _verifier_errors(rng: np.random.Generator, model: Model, kind: np.ndarray) -> np.ndarray:
    """Draws standard normal errors (BLOCK, T), in part shared by an example's answers of one kind (0, 1 or 2)."""
    shared = np.take_along_axis(rng.normal(size=(BLOCK, 3)), kind, axis=1)
    independent = rng.normal(size=kind.shape)
    return model.verifier_shared**0.5 * shared + (1 - model.verifier_shared) ** 0.5 * independent


def _scores(model: Model, verifier: str, right: np.ndarray, logit: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """A verifier's scores (BLOCK, T) in (0, 1), rounded to 4 decimals so that ties occur as with real verifiers."""
    d = 2**0.5 * NormalDist().inv_cdf(getattr(model, verifier))
    z = d * (right - 0.5) + model.verifier_ease * (logit - model.ease) + errors
    return np.clip(np.round(sigmoid(z), 4), 0.0001, 0.9999)


def _feature_values(correlation: float, errors: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return np.round(sigmoid(correlation * errors + (1 - correlation**2) ** 0.5 * noise), 4)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1/(1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))
