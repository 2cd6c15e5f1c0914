"""Simulated logs of text that unfolds word by word, whose errors, claims and verdicts are known.

The model. A text has `length` words, about; a share `errors` of the texts hold one error, which can be seen from a
known word on. Claims are extracted every `every` words. Of a text with an error, one claim covers the word that shows
it, and the extractor names the error with the probability `extraction`. A claim is checked for up to `rounds` rounds:
each decides with the probability `decides`, and then rightly with the probability `checking`; a claim without the
error is refuted by mistake (a spurious refutation) with the probability `spurious`. Confidences are those of a beta
distribution, higher by `calibration` where the verdict is right: with 0 they tell nothing. Every claim is followed to
a verdict or the limit, the stream to its end, and a pass of revision follows on every text; extractor and revisor see
the claims so far, not the verdicts. `pools` have their own parameters on the same texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from generate.simulation.grid import write_simulated
from toolkit.progress import progress
from toolkit.settings import check, setting

if TYPE_CHECKING:
    from toolkit.log import Log

POOL = "simulated"
AT_ONCE = 500
PEOPLE = 5
"""People whose buzzes are recorded of each text."""


@dataclass(frozen=True)
class TextModel:
    """The parameters of the simulated texts; the module's docstring explains each."""

    length: int = setting(60, low=4, high=100_000)
    errors: float = setting(0.5, low=0, high=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class CheckingModel:
    """The parameters of a simulated system that checks texts."""

    every: int = setting(8, low=1, high=10_000)
    extraction: float = setting(0.8, low=0, high=1)
    checking: float = setting(0.85, low=0, high=1)
    spurious: float = setting(0.05, low=0, high=1)
    decides: float = setting(0.6, low=0, high=1)
    rounds: int = setting(3, low=1, high=100)
    calibration: float = setting(0.3, low=0, high=1)

    def __post_init__(self) -> None:
        check(self)


def simulate_checks(
    out: str | Path, *, examples: int, seed: int = 0, name: str | None = None, force: bool = False,
    texts: TextModel | None = None, pools: Mapping[str, CheckingModel] | None = None,
) -> Log:  # fmt: skip
    """Writes the log to `out`, marked as simulated. Its manifest has the parameters of texts and pools.

    A text is the same whatever the number of texts, and so are its checks.
    """
    texts, pools = texts or TextModel(), pools or {POOL: CheckingModel()}
    models = {pool: asdict(model) for pool, model in pools.items()}
    source = {"simulation": "checks", "examples": examples, "seed": seed, "texts": asdict(texts), "pools": models}
    title = name or f"checks-{examples}x{texts.length}-s{seed}"
    settings = {pool: {"sees": "claims"} for pool in pools}
    with progress("simulating", examples, "examples") as advance:
        parts = _parts(examples, seed, texts, pools)
        return write_simulated(out, parts, name=title, source=source, force=force, advance=advance, pools=settings)


def _parts(
    examples: int, seed: int, texts: TextModel, pools: Mapping[str, CheckingModel]
) -> Iterator[dict[str, pl.DataFrame]]:
    for first in range(0, examples, AT_ONCE):
        rows, checks = list[dict[str, Any]](), list[dict[str, Any]]()
        for number in range(first, min(first + AT_ONCE, examples)):
            text = _text(number, np.random.default_rng([seed, number]), texts)
            rows.append(text)
            for place, (pool, model) in enumerate(pools.items()):
                checks += _checks(text, pool, np.random.default_rng([seed, number, place + 1]), model)
        yield {"examples": pl.DataFrame(rows, schema_overrides=TEXTS), "checks": pl.DataFrame(checks, schema=CHECKS)}


TEXTS: dict[str, Any] = {
    "length": pl.Int32, "gold_position": pl.Int32, "human_positions": pl.List(pl.Int32),
    "human_corrects": pl.List(pl.Boolean),
}  # fmt: skip
CHECKS = {
    "example_id": pl.String, "pool": pl.String, "claim": pl.Int32, "round": pl.Int32, "stage": pl.String,
    "position": pl.Int32, "verdict": pl.String, "confidence": pl.Float64, "matches_error": pl.Boolean,
    "gold_verdict": pl.String, "claim_text": pl.String, "unit": pl.Int32, "unit_words": pl.Int32,
    "unit_entities": pl.Int32, "queries": pl.Int32, "calls": pl.Int32, "prompt_tokens": pl.Int32,
    "completion_tokens": pl.Int32, "latency_s": pl.Float32,
}  # fmt: skip


def _text(number: int, rng: np.random.Generator, texts: TextModel) -> dict[str, Any]:
    length = int(np.clip(rng.normal(texts.length, texts.length / 6), 4, None))
    error = bool(rng.random() < texts.errors)
    first = int(rng.integers(1, length + 1)) if error else None
    # people notice an error some words late, and sometimes never; without one they may act by mistake
    acts = np.minimum((first or length) + rng.geometric(0.2, PEOPLE), length)
    right = rng.random(PEOPLE) < (0.7 if error else 0.9)
    return {
        "example_id": f"t{number:06}", "dataset": "simulated", "split": "dev" if number % 5 == 0 else "test",
        "question": f"text {number}", "length": length, "gold_error": error, "gold_position": first,
        "human_positions": acts.tolist(), "human_corrects": right.tolist(),
    }  # fmt: skip


def _checks(
    text: Mapping[str, Any], pool: str, rng: np.random.Generator, model: CheckingModel
) -> Iterator[dict[str, Any]]:
    """Yields the checks of one text by one system."""
    length, first = text["length"], text["gold_position"]
    ends = [*range(model.every, length, model.every), length]
    shows = next((place for place, end in enumerate(ends) if first is not None and first <= end), None)
    named = shows if shows is not None and rng.random() < model.extraction else None
    for claim, end in enumerate(ends):
        yield from _claim(text, pool, claim, "stream", end, claim == named, rng, model)
    yield _row(text, pool, len(ends), 0, "stream", length, "none", None, None, rng)
    again = len(ends) + 1
    late = shows is not None and named is None and rng.random() < model.extraction / 2
    yield from _claim(text, pool, again, "revision", length, late, rng, model)
    yield _row(text, pool, again + 1, 0, "revision", length, "none", None, None, rng)


def _claim(
    text: Mapping[str, Any], pool: str, claim: int, stage: str, position: int, wrong: bool, rng: np.random.Generator,
    model: CheckingModel,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yields the rounds of a claim, up to a verdict or the limit. `wrong`: whether the claim names the error."""
    for number in range(model.rounds):
        decided = bool(rng.random() < model.decides)
        refuted = rng.random() < (model.checking if wrong else model.spurious)
        verdict = ("refuted" if refuted else "supported") if decided else "not_enough"
        yield _row(text, pool, claim, number, stage, position, verdict, wrong, refuted == wrong, rng, model)
        if decided:
            return
        position = min(position + 1, text["length"])


def _row(
    text: Mapping[str, Any], pool: str, claim: int, number: int, stage: str, position: int, verdict: str,
    wrong: bool | None, right: bool | None, rng: np.random.Generator, model: CheckingModel | None = None,
) -> dict[str, Any]:  # fmt: skip
    named = wrong is not None
    confidence = None
    if named and model is not None:
        confidence = float(np.clip(rng.beta(4, 3) + model.calibration * (0.5 if right else -0.5), 0, 1))
    return {
        "example_id": text["example_id"], "pool": pool, "claim": claim, "round": number, "stage": stage,
        "position": position, "verdict": verdict, "confidence": confidence, "matches_error": wrong,
        "gold_verdict": ("refuted" if wrong else "supported") if named else None,
        "claim_text": f"claim {claim}" if named else None, "unit": claim, "unit_words": 8, "unit_entities": 1,
        "queries": 1 if named else 0, "calls": 2 if named else 1, "prompt_tokens": 200, "completion_tokens": 20,
        "latency_s": float(np.round(rng.gamma(4.0, 0.2), 3)),
    }  # fmt: skip
