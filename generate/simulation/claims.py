"""Simulated QuanTemp and ClaimDecomp: logs of fact-checking claims whose replay resembles the published runs.

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

import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from generate.simulation.grid import write_simulated
from generate.simulation.grid_model import FEATURES, sigmoid
from toolkit.errors import UnknownError, suggest
from toolkit.settings import Checked, setting

if TYPE_CHECKING:
    from toolkit.log import Log

LABELS = ("Supports", "Refutes", "Conflicting")
_CLAIM, _TRACE = 1, 2  # streams of random numbers


@dataclass(frozen=True)
class _SimulatedVerifier:
    """The parameters of one simulated verifier. Rows of `scores` are gold labels, columns the trace's labels."""

    name: str
    scores: tuple[tuple[float, ...], ...]
    label_spread: float
    trace_spread: float
    follows: float
    seconds: float
    grid: float = 0.0


@dataclass(frozen=True)
class _SplitModel:
    """The parameters of a further published split: claims by gold label, traces a claim, and verifiers."""

    counts: Mapping[str, int]
    traces: int
    verifiers: tuple[str, ...]


@dataclass(frozen=True)
class _ClaimsModel:
    """The parameters of one simulated data set of claims."""

    name: str
    counts: Mapping[str, int]  # claims by gold label
    answers: tuple[tuple[float, ...], ...]
    answer_spread: float
    missing: float
    verifiers: tuple[_SimulatedVerifier, ...]
    prompt_tokens: float
    prompt_spread: float
    completion_tokens: float
    completion_spread: float
    max_tokens: int
    seconds: float
    seconds_spread: float
    correlations: tuple[float, ...]  # of FEATURES
    other_h: float  # wall-clock hours of exhaustive best-of-N that are neither generation nor verification
    validation: _SplitModel | None = None


@dataclass(frozen=True)
class _SimulatedClaims:
    """The simulated claims with their latent variables, (n,) and (n, 3)."""

    gold: np.ndarray
    answer: np.ndarray  # a
    label: Mapping[str, np.ndarray]  # u by verifier
    prompt: np.ndarray  # standard normal of the prompt's length


@dataclass(frozen=True)
class _TraceNoise:
    """The random numbers behind the traces, (n, T): uniforms `which` and `lost`, the others standard normal."""

    which: np.ndarray
    lost: np.ndarray
    noise: Mapping[str, np.ndarray]  # e by verifier
    features: np.ndarray  # (F, n, T)
    tokens: np.ndarray
    seconds: np.ndarray
    checking: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class _SimulatedTraces:
    """The simulated traces, (n, T): label index (-1: none) and scores by verifier."""

    label: np.ndarray
    scores: Mapping[str, np.ndarray]
    features: np.ndarray  # (F, n, T)


def draw_claims(model: _ClaimsModel, counts: Mapping[str, int], seed: int, stream: int = 0) -> _SimulatedClaims:
    """Draws the claims of every class, class after class."""
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
    return _SimulatedClaims(gold, normal[:, 0], by_verifier, normal[:, 1, 0])


def draw_noise(model: _ClaimsModel, n: int, traces: int, seed: int, stream: int = 0) -> _TraceNoise:
    """Draws the random numbers of `traces` traces of each of n claims."""
    columns: dict[str, list[np.ndarray]] = defaultdict(list)
    for t in range(traces):
        rng = np.random.default_rng([seed, _TRACE, stream, t])
        columns["which"].append((rng.permutation(n) + rng.random(n)) / n)
        columns["lost"].append(rng.random(n))
        names = [f"e:{v.name}" for v in model.verifiers] + [f"f:{i}" for i in range(len(FEATURES))]
        for name in [*names, "tokens", "seconds", *(f"s:{v.name}" for v in model.verifiers)]:
            columns[name].append(rng.normal(size=n))
    table = {name: np.stack(values, axis=1) for name, values in columns.items()}
    return _TraceNoise(
        which=table["which"],
        lost=table["lost"],
        noise={v.name: table[f"e:{v.name}"] for v in model.verifiers},
        features=np.stack([table[f"f:{i}"] for i in range(len(FEATURES))]),
        tokens=table["tokens"],
        seconds=table["seconds"],
        checking={v.name: table[f"s:{v.name}"] for v in model.verifiers},
    )


def make_traces(model: _ClaimsModel, claims: _SimulatedClaims, draws: _TraceNoise) -> _SimulatedTraces:
    """Computes labels and scores from the random numbers; nothing is drawn here."""
    tilt = np.asarray(model.answers)[claims.gold] + model.answer_spread * claims.answer  # (n, 3)
    weight = np.exp(tilt - tilt.max(axis=1, keepdims=True))
    edges = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)  # (n, 3)
    label = (draws.which[..., None] >= edges[:, None, :2]).sum(axis=2)  # (n, T)
    scores = {v.name: _verifier_scores(v, claims, draws, label) for v in model.verifiers}
    first = model.verifiers[0].name
    shared = np.take_along_axis(claims.label[first], label, axis=1) + draws.noise[first]
    rho = np.asarray(model.correlations)[:, None, None]
    x = rho * shared / np.sqrt(2) + np.sqrt(1 - rho**2) * draws.features
    features = np.round(sigmoid(x), 4)
    return _SimulatedTraces(np.where(draws.lost < model.missing, -1, label), scores, features)


def _verifier_scores(
    verifier: _SimulatedVerifier, claims: _SimulatedClaims, draws: _TraceNoise, label: np.ndarray
) -> np.ndarray:
    mean = np.asarray(verifier.scores)[claims.gold]  # (n, 3)
    mean = mean + verifier.label_spread * claims.label[verifier.name] + verifier.follows * claims.answer
    z = np.take_along_axis(mean, label, axis=1) + verifier.trace_spread * draws.noise[verifier.name]
    score = sigmoid(z)
    return np.round(score / verifier.grid) * verifier.grid if verifier.grid else np.round(score, 4)


MOST_TRACES = 50
PUBLISHED_TRACES = 15
TEMPERATURES = tuple(round(0.30 + 0.05 * i, 2) for i in range(9))
MAIN, DEV, VALIDATION = 0, 1, 2  # streams of random numbers: the test claims, further ones to learn from, validation


@dataclass(frozen=True)
class _ClaimsSize(Checked):
    """The size of a simulation: traces of each claim, and further claims with the split `dev`."""

    traces: int = setting(PUBLISHED_TRACES, low=1, high=MOST_TRACES)
    dev: int = setting(0, low=0, high=100_000)
    seed: int = setting(0, low=0)


def _simulation_names() -> tuple[str, ...]:
    """The names of the data sets that can be simulated."""
    folder = files("generate.simulation") / "constants"
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


def load_model(name: str) -> _ClaimsModel:
    """Reads the parameters of a simulated data set. Raises ThinkbackError for an unknown name."""
    if name not in _simulation_names():
        raise UnknownError(f"unknown simulated data set `{name}`; {suggest(name, _simulation_names())}")
    table = tomllib.loads((files("generate.simulation") / "constants" / f"{name}.toml").read_text(encoding="utf-8"))
    verifiers = tuple(
        _SimulatedVerifier(**{**v, "name": key, "scores": tuple(map(tuple, v["scores"]))})
        for key, v in table.pop("verifiers").items()
    )
    features, answers = table.pop("features"), tuple(map(tuple, table.pop("answers")))
    correlations = tuple(features[feature] for feature in FEATURES)
    if (split := table.pop("validation", None)) is not None:
        table["validation"] = _SplitModel(split["counts"], split["traces"], tuple(split["verifiers"]))
    return _ClaimsModel(name=name, answers=answers, verifiers=verifiers, correlations=correlations, **table)


def simulate_claims(
    out: str | Path,
    name: str,
    *,
    traces: int = PUBLISHED_TRACES,
    dev: int = 0,
    seed: int = 0,
    force: bool = False,
    log_name: str | None = None,
) -> Log:
    """Writes the simulated data set `name` to `out`: the published test claims, and `dev` more with split `dev`.

    Their pool is `n<traces>`. A data set with a published validation run has that, too: claims with split `validation`,
    in a pool of their own size. The first traces, and the test claims, do not depend on `traces` and `dev`.
    """
    model = load_model(name)
    size = _ClaimsSize(traces, dev, seed)
    traces, dev, seed = size.traces, size.dev, size.seed
    every = tuple(verifier.name for verifier in model.verifiers)
    plans = [_SimulatedSplit("test", MAIN, _SplitModel(model.counts, traces, every))]
    if dev:
        plans.append(_SimulatedSplit("dev", DEV, _SplitModel(_counts_by_stratum(model.counts, dev), traces, every)))
    if model.validation is not None:
        plans.append(_SimulatedSplit("validation", VALIDATION, model.validation))
    parts = [_split_tables(model, plan, seed) for plan in plans]
    tables = {table: pl.concat([part[table] for part in parts]) for table in parts[0]}
    source = _manifest_source(model, plans, parts, traces, dev, seed)
    return write_simulated(out, [tables], name=log_name or f"simulated-{name}", source=source, force=force)


@dataclass(frozen=True)
class _SimulatedSplit:
    """A split that is drawn from its own stream of random numbers."""

    name: str
    stream: int
    model: _SplitModel

    @property
    def pool(self) -> str:
        """The name of the split's pool, which tells the number of traces."""
        return f"n{self.model.traces}"


def _counts_by_stratum(counts: Mapping[str, int], claims: int) -> dict[str, int]:
    """Splits the number `claims` in the proportions of `counts`, by largest remainder."""
    total = sum(counts.values())
    exact = {label: claims * counts[label] / total for label in LABELS}
    whole = {label: int(value) for label, value in exact.items()}
    for label in sorted(LABELS, key=lambda one: whole[one] - exact[one])[: claims - sum(whole.values())]:
        whole[label] += 1
    return whole


def _split_tables(model: _ClaimsModel, plan: _SimulatedSplit, seed: int) -> dict[str, pl.DataFrame]:
    split, stream, traces = plan.name, plan.stream, plan.model.traces
    claims = draw_claims(model, plan.model.counts, seed, stream)
    draws = draw_noise(model, len(claims.gold), traces, seed, stream)
    drawn = make_traces(model, claims, draws)
    n = len(claims.gold)
    number = np.random.default_rng([seed, 0, stream]).permutation(n)
    ids = pl.Series("example_id", [f"{model.name}-{split}-{i:05d}" for i in number])
    examples = pl.DataFrame({"example_id": ids}).select(
        "example_id",
        dataset=pl.lit(model.name),
        split=pl.lit(split),
        question=pl.lit("simulated claim ") + pl.col("example_id"),
        gold=pl.Series([LABELS[g] for g in claims.gold]),
        labels=pl.lit(pl.Series([list(LABELS)], dtype=pl.List(pl.String))).first(),
    )
    rows = _traces_table(model, claims, draws, drawn, ids, traces)
    checks = [_verifications(v, drawn, draws, rows) for v in model.verifiers if v.name in plan.model.verifiers]
    features = rows.select(
        "trace_id",
        "example_id",
        *(pl.Series(name, drawn.features[i].reshape(-1)) for i, name in enumerate(FEATURES)),
        length=(pl.col("completion_tokens") / model.max_tokens).round(4),
    )
    return {"examples": examples, "traces": rows, "verifications": pl.concat(checks), "features": features}


def _traces_table(
    model: _ClaimsModel,
    claims: _SimulatedClaims,
    draws: _TraceNoise,
    drawn: _SimulatedTraces,
    ids: pl.Series,
    traces: int,
) -> pl.DataFrame:
    n = len(ids)
    prompt = np.rint(_lognormal_factors(claims.prompt, model.prompt_spread, 0) * model.prompt_tokens)
    completion = np.rint(_lognormal_factors(draws.tokens, model.completion_spread, 0) * model.completion_tokens)
    completion = np.clip(completion, 1, model.max_tokens)
    seconds = _lognormal_factors(draws.seconds, model.seconds_spread, 0) * model.seconds
    label = pl.Series(drawn.label.reshape(-1).astype(np.int64))
    answer = pl.Series("answer", LABELS).gather(label.replace(-1, None))
    gold = pl.Series(np.repeat(claims.gold, traces))
    frame = pl.DataFrame(
        {
            "example_id": ids.gather(np.repeat(np.arange(n), traces)),
            "sample_index": np.tile(np.arange(traces, dtype=np.int32), n),
            "answer": answer,
            "correct": label == gold,
            "prompt_tokens": np.repeat(prompt, traces).astype(np.int32),
            "completion_tokens": completion.reshape(-1).astype(np.int32),
            "latency_s": np.round(seconds, 4).reshape(-1).astype(np.float32),
            "temperature": np.tile(np.resize(TEMPERATURES, traces).astype(np.float32), n),
        }
    )
    return frame.select(
        pl.format("{}/{}", "example_id", pl.col("sample_index").cast(pl.String).str.zfill(2)).alias("trace_id"),
        "example_id",
        pool=pl.lit(f"n{traces}"),
        action=pl.lit("solve"),
        parent_id=pl.lit(None, pl.String),
        sample_index="sample_index",
        model=pl.lit("simulated"),
        temperature="temperature",
        max_tokens=pl.lit(model.max_tokens, pl.Int32),
        answer="answer",
        correct="correct",
        prompt_tokens="prompt_tokens",
        completion_tokens="completion_tokens",
        finish_reason=pl.lit("stop"),
        finalizer_used=pl.lit(False),
        latency_s="latency_s",
    )


def _lognormal_factors(normal: np.ndarray, spread: float, axis: int) -> np.ndarray:
    """Log-normal factors with mean 1 over the claims, from standard normal numbers."""
    factor = np.exp(spread * normal)
    return factor / factor.mean(axis=axis, keepdims=True)


def _verifications(
    verifier: _SimulatedVerifier, drawn: _SimulatedTraces, draws: _TraceNoise, rows: pl.DataFrame
) -> pl.DataFrame:
    """One verification for each trace with a label. Tokens were not published, so they are null."""
    seconds = _lognormal_factors(draws.checking[verifier.name], 0.1, 0) * verifier.seconds
    return rows.select(
        "trace_id",
        "example_id",
        verifier=pl.lit(verifier.name),
        score=pl.Series(drawn.scores[verifier.name].reshape(-1)),
        latency_s=pl.Series(np.round(seconds, 4).reshape(-1).astype(np.float32)),
    ).filter(rows["answer"].is_not_null())


def _manifest_source(
    model: _ClaimsModel, plans: Sequence[_SimulatedSplit], parts: Sequence[Mapping[str, pl.DataFrame]], traces: int,
    dev: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The manifest's `source`. Wall-clock time is as if one process made all calls in turn, verifiers pool by pool."""
    published = sum(model.counts.values()) * PUBLISHED_TRACES
    pools: dict[str, float] = defaultdict(float)
    checks: dict[str, dict[str, float]] = {v.name: defaultdict(float) for v in model.verifiers}
    for plan, part in zip(plans, parts, strict=True):
        pools[plan.pool] += _sum_of_seconds(part["traces"])
        if plan.stream != DEV:
            pools[plan.pool] += model.other_h * 3600 * sum(plan.model.counts.values()) * plan.model.traces / published
        for (name,), rows in part["verifications"].group_by("verifier"):
            checks[str(name)][plan.pool] += _sum_of_seconds(rows)
    return {
        "simulated_by": "generate.simulation.claims",
        "data_set": model.name,
        "traces": traces,
        "dev": dev,
        "seed": seed,
        "model": asdict(model),
        "pools": {name: {"model": "simulated", "wall_clock_s": round(spent, 3)} for name, spent in pools.items()},
        "verifiers": {
            name: {
                "model": "simulated",
                "wall_clock_s": round(sum(spent.values()), 3),
                "pools": {pool: {"wall_clock_s": round(one, 3)} for pool, one in spent.items()},
            }
            for name, spent in checks.items()
        },
    }


def _sum_of_seconds(calls: pl.DataFrame) -> float:
    return float(calls["latency_s"].cast(pl.Float64).sum())
