"""The orders in which a policy looks at traces.

`generation` is the order of `sample_index`, or a seeded permutation of it (`orders = K`). `random` and
`score` generate first and then verify in another order. An order says what it reads, and gives the steps of a walk.
The random order is a hash, not a generator: it depends on the example's id, the seed, the repetition and the sample
index alone, so it is the same on every machine and for any number of threads.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from replay.sampling.declared import ClassFacts
from replay.sampling.prefix import FEATURES, SCORES, VOTES, alike
from replay.sampling.unscored import PARTIAL, Unscored

_SHIFT, _FIRST, _SECOND = np.uint64(30), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(x: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser on uint64 of any shape (Steele, Lea and Flood 2014)."""
    x = (x ^ (x >> _SHIFT)) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


def example_hashes(example_ids: Sequence[str]) -> np.ndarray:
    """First 8 bytes, big-endian, of the SHA-256 of each id's UTF-8 bytes: uint64 (E,)."""
    digests = b"".join(hashlib.sha256(name.encode()).digest()[:8] for name in example_ids)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def random_keys(hashes: np.ndarray, seed: int, repetition: int, traces: int) -> np.ndarray:
    """Sort keys of the random order: uint64 (E, T), column = sample index; ascending, ties by sample index.

    The key is mix(mix(mix(H + seed) + repetition) + sample_index) modulo 2^64.
    """
    base = mix(mix(hashes + np.uint64(seed % 2**64)) + np.uint64(repetition))
    return mix(base[:, None] + np.arange(traces, dtype=np.uint64)[None, :])


def random_permutation(keys: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Each example's whole logged pool in random order: int32 (E, T), the sample index at each place.

    `length` int (E,) is the pool's size; places beyond it hold the remaining indices and are never read.
    """
    return _argsort(keys, np.arange(keys.shape[1]) < length[:, None])


def _argsort(keys: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Stable argsort along the last axis with unusable cells at the end."""
    by_key = np.argsort(keys, axis=1, kind="stable")
    late = ~np.take_along_axis(usable, by_key, axis=1)
    return np.take_along_axis(by_key, np.argsort(late, axis=1, kind="stable"), axis=1).astype(np.int32)


@dataclass(frozen=True)
class GeneratedTraces:
    """The traces of a walk in the order of generation, (E, T) each, up to the cap.

    `code`: answers, -1 invalid or not generated; `score`: the verifier's, NaN for none; `keys`: of the random order,
    None where it is not drawn; `features` (F, E, T): those that the order names; `count` (E,): traces generated.
    `unscored`: what becomes of valid traces without a score.
    """

    code: np.ndarray
    score: np.ndarray
    keys: np.ndarray | None
    features: np.ndarray
    count: np.ndarray
    unscored: Unscored = PARTIAL

    def visible(self, reads: frozenset[str]) -> GeneratedTraces:
        """The traces as an order may read them: answers, scores and features only where it declares them."""
        code = self.code if VOTES in reads else alike(self.code)
        features = self.features[: None if FEATURES in reads else 0]
        if SCORES in reads:
            return replace(self, code=code, features=features)
        hidden = np.full_like(self.score, np.nan)
        return replace(self, code=code, score=hidden, features=features, unscored=PARTIAL)

    @property
    def verified_code(self) -> np.ndarray:
        """Answers of the traces that are verified if it comes to that (E, T), -1 for the others."""
        return self.unscored.verified(self.code, self.score)


@dataclass(frozen=True)
class WalkSteps:
    """The steps of a walk when no rule ends it; S of them.

    `at` int (E, S): place in the order of generation of the trace that each step reveals. `count` (E,): steps that
    reveal one; `limit` (E,): the last step. `generated` (E, S + 1): traces generated when the walk ends in step 0 to S;
    None: one a step. `final` (E,): traces generated when no rule ends it. `unread` (E,): first step whose choice reads
    a feature that is null; None: no feature is read. `seconds`: wall-clock that the order itself took, None: nothing
    worth telling. If they are kept, `weights` (E, S, d): a surrogate's after each step, `predicted` (E, S): what it
    picked each step's trace by.
    """

    at: np.ndarray
    count: np.ndarray
    limit: np.ndarray
    generated: np.ndarray | None = None
    final: np.ndarray | None = None
    unread: np.ndarray | None = None
    seconds: float | None = None
    weights: np.ndarray | None = None
    predicted: np.ndarray | None = None


class Order(ClassFacts, ABC):
    """An order: a frozen dataclass whose fields are its parameters."""

    name: ClassVar[str]
    reads: ClassVar[frozenset[str]]
    """Names that it reads of all traces in advance: `votes`, `scores`, `features`."""
    diagnostic: ClassVar[str] = ""
    """The diagnostic remark on what it sees that no policy in service could; empty for real orders."""
    verifies_later: ClassVar[bool] = True
    """Whether its steps are verifications; else each step generates a trace and verifies it on the spot."""
    drawn: ClassVar[bool] = False
    """Whether it reads the keys of the random order."""
    all_scores: ClassVar[bool] = False
    """Whether it needs the score of every trace, wherever the policy stops."""
    predicts: ClassVar[bool] = False
    """Whether it predicts scores from features, and cuts predictions to between 0 and 1."""
    features: tuple[str, ...] = ()
    """Columns of `features` that it reads."""

    def __str__(self) -> str:
        return self.name

    def record(self) -> dict[str, Any]:
        """The order as plain data."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"rule": self.name} | settings

    @property
    def lazy(self) -> bool:
        """Whether it generates trace by trace as it goes, and may end before the cap, whatever the rule."""
        return False

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of the weights that it learns, the last axis of what `weighed` keeps; empty where it learns none."""
        return ()

    @abstractmethod
    def steps(self, traces: GeneratedTraces) -> WalkSteps:
        """The steps of the walk."""

    def weighed(self, traces: GeneratedTraces) -> WalkSteps:
        """The steps with the weights after each, and what each was picked by."""
        return self.steps(traces)


@dataclass(frozen=True)
class Generation(Order, name="generation", reads=frozenset(), verifies_later=False):
    """Traces one after the other, each valid one verified on the spot if the policy verifies at all."""

    def steps(self, traces: GeneratedTraces) -> WalkSteps:
        at = np.broadcast_to(np.arange(traces.code.shape[1], dtype=np.int32), traces.code.shape)
        return WalkSteps(at, traces.count, traces.count)


def by_falling_score(code: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the valid traces by falling score, ties by place: int32 (E, T), and how many there are (E,).

    `code`, `score` (E, T); traces without a score come last.
    """
    return later(code, np.where(np.isnan(score), np.inf, -score))


def later(code: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the valid traces by ascending keys (E, T), and how many there are (E,)."""
    usable = code >= 0
    return _argsort(keys, usable), usable.sum(axis=1).astype(np.int32)


class _GenerateFirst(Order, reads=frozenset({SCORES})):
    """The whole pool up to the cap is generated; its valid traces are then verified in another order."""

    @abstractmethod
    def arranged(self, traces: GeneratedTraces) -> tuple[np.ndarray, np.ndarray]:
        """Places of the valid traces in the order in which they are verified (E, T), and how many (E,)."""

    def steps(self, traces: GeneratedTraces) -> WalkSteps:
        at, count = self.arranged(traces)
        return WalkSteps(at, count, count, np.broadcast_to(traces.count[:, None], (len(at), at.shape[1] + 1)))


@dataclass(frozen=True)
class RandomOrder(_GenerateFirst, name="random", drawn=True):
    """The random order of a seed."""

    def arranged(self, traces: GeneratedTraces) -> tuple[np.ndarray, np.ndarray]:
        if traces.keys is None:
            raise ValueError("a random order needs its keys")
        return later(traces.verified_code, traces.keys)


@dataclass(frozen=True)
class ByScore(_GenerateFirst, name="score", diagnostic="sees all scores before it pays for one", all_scores=True):
    """The order of falling score, which no real system could know."""

    def arranged(self, traces: GeneratedTraces) -> tuple[np.ndarray, np.ndarray]:
        return by_falling_score(traces.verified_code, traces.score)
