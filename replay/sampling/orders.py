"""The orders in which a policy generates or verifies traces.

`generation` is the order of `sample_index`, or a seeded permutation of it (`orders = K`). `random` and `score` generate
first and then verify in another order. An order says what it reads, and gives the steps of a walk. The random order is
a hash, not a generator: it depends on the example's id, the seed, the repetition and the sample index alone, so it is
the same on every machine and for any number of threads.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from toolkit.stopping.declared import HeaderVariables
from toolkit.stopping.prefix import FEATURES, SCORES, VOTES, valid_or_none_codes
from toolkit.stopping.unscored import PARTIAL, UnscoredTreatment

_SHIFT, _FIRST, _SECOND = np.uint64(30), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix_bits(x: np.ndarray) -> np.ndarray:
    """SplitMix64's mixing of the bits of uint64 numbers, of any shape (Steele, Lea and Flood 2014)."""
    x = (x ^ (x >> _SHIFT)) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


def example_hashes(example_ids: Sequence[str]) -> np.ndarray:
    """A hash of each example id: the first 8 bytes, big-endian, of the SHA-256 of its UTF-8 bytes; uint64 (E,)."""
    digests = b"".join(hashlib.sha256(name.encode()).digest()[:8] for name in example_ids)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def random_keys(hashes: np.ndarray, seed: int, repetition: int, traces: int) -> np.ndarray:
    """Sort keys of the random order: uint64 (E, T), column = sample index; ascending, ties by sample index.

    The key is mix(mix(mix(H + seed) + repetition) + sample_index) modulo 2^64.
    """
    base = mix_bits(mix_bits(hashes + np.uint64(seed % 2**64)) + np.uint64(repetition))
    return mix_bits(base[:, None] + np.arange(traces, dtype=np.uint64)[None, :])


def random_permutation(keys: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Each example's whole logged pool in random order: int32 (E, T), the sample index at each place.

    `length` int (E,) is the pool's size; places beyond it hold the remaining indices and are never read.
    """
    return _sort_usable_first(keys, np.arange(keys.shape[1]) < length[:, None])


def _sort_usable_first(keys: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Indices that sort the last axis, stably, with unusable cells at the end."""
    by_key = np.argsort(keys, axis=1, kind="stable")
    late = ~np.take_along_axis(usable, by_key, axis=1)
    return np.take_along_axis(by_key, np.argsort(late, axis=1, kind="stable"), axis=1).astype(np.int32)


@dataclass(frozen=True)
class GeneratedTraces:
    """The traces that a walk may generate, in the order of generation up to the cap, (E, T) each.

    `code`: answers, -1 invalid or not generated; `score`: the verifier's, NaN for none; `keys`: of the random order,
    None where it is not drawn; `features` (F, E, T): those that the order names; `count` (E,): traces generated.
    `unscored`: what becomes of valid traces without a score.
    """

    code: np.ndarray
    score: np.ndarray
    keys: np.ndarray | None
    features: np.ndarray
    count: np.ndarray
    unscored: UnscoredTreatment = PARTIAL

    def visible_part(self, reads: frozenset[str]) -> GeneratedTraces:
        """The traces as an order may see them: answers, scores and features only where `reads` declares them."""
        code = self.code if VOTES in reads else valid_or_none_codes(self.code)
        features = self.features[: None if FEATURES in reads else 0]
        if SCORES in reads:
            return replace(self, code=code, features=features)
        hidden = np.full_like(self.score, np.nan)
        return replace(self, code=code, score=hidden, features=features, unscored=PARTIAL)

    @property
    def verified_code(self) -> np.ndarray:
        """Answer codes (E, T) of the traces that are verified once a walk comes to them; -1 for other traces."""
        return self.unscored.verified_codes(self.code, self.score)


@dataclass(frozen=True)
class WalkSteps:
    """The S steps of a walk that no rule ends.

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


class Order(HeaderVariables, ABC):
    """An order in which traces are generated or verified: a frozen dataclass whose fields are its parameters."""

    name: ClassVar[str]
    reads: ClassVar[frozenset[str]]
    """Names that the order reads of all traces before its first step: `votes`, `scores`, `features`."""
    diagnostic: ClassVar[str] = ""
    """What the order sees that no policy in service could, as a remark; empty for orders that can be served."""
    verifies_later: ClassVar[bool] = True
    """Whether its steps are verifications of traces generated before; else a step generates a trace and verifies it."""
    drawn: ClassVar[bool] = False
    """Whether the order is random, by the keys of the random order."""
    all_scores: ClassVar[bool] = False
    """Whether it needs the score of every trace, wherever the policy stops."""
    predicts: ClassVar[bool] = False
    """Whether the order predicts scores from features, and clips the predictions to between 0 and 1."""
    features: tuple[str, ...] = ()
    """Columns of `features` that the order reads."""

    def __str__(self) -> str:
        return self.name

    def record(self) -> dict[str, Any]:
        """The order as plain data."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"rule": self.name} | settings

    @property
    def is_lazy(self) -> bool:
        """Whether the order generates trace by trace as it goes, and may end before the cap without a rule."""
        return False

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the weights that the order learns, as on the last axis of `weights`; empty where it learns none."""
        return ()

    @abstractmethod
    def walk_steps(self, traces: GeneratedTraces) -> WalkSteps:
        """The steps of a walk over these traces."""

    def steps_with_weights(self, traces: GeneratedTraces) -> WalkSteps:
        """The steps, with the weights after each and the prediction by which each was picked."""
        return self.walk_steps(traces)


@dataclass(frozen=True)
class GenerationOrder(Order, name="generation", reads=frozenset(), verifies_later=False):
    """The order of generation: traces one after the other, each valid one verified at once if the policy verifies."""

    def walk_steps(self, traces: GeneratedTraces) -> WalkSteps:
        at = np.broadcast_to(np.arange(traces.code.shape[1], dtype=np.int32), traces.code.shape)
        return WalkSteps(at, traces.count, traces.count)


def by_falling_score(code: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the valid traces by falling score, ties by place: int32 (E, T), and how many they are (E,).

    `code`, `score` (E, T); traces without a score come last.
    """
    return by_rising_key(code, np.where(np.isnan(score), np.inf, -score))


def by_rising_key(code: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the valid traces by rising key (E, T), and how many they are (E,)."""
    usable = code >= 0
    return _sort_usable_first(keys, usable), usable.sum(axis=1).astype(np.int32)


class _GenerateAllFirst(Order, reads=frozenset({SCORES})):
    """An order that generates the whole pool up to the cap, and then verifies the valid traces in another order."""

    @abstractmethod
    def verification_order(self, traces: GeneratedTraces) -> tuple[np.ndarray, np.ndarray]:
        """Places of the valid traces in the order in which they are verified (E, T), and how many they are (E,)."""

    def walk_steps(self, traces: GeneratedTraces) -> WalkSteps:
        at, count = self.verification_order(traces)
        return WalkSteps(at, count, count, np.broadcast_to(traces.count[:, None], (len(at), at.shape[1] + 1)))


@dataclass(frozen=True)
class RandomOrder(_GenerateAllFirst, name="random", drawn=True):
    """Verify the traces in the random order that a seed draws."""

    def verification_order(self, traces: GeneratedTraces) -> tuple[np.ndarray, np.ndarray]:
        if traces.keys is None:
            raise ValueError("a random order needs its keys")
        return by_rising_key(traces.verified_code, traces.keys)


@dataclass(frozen=True)
class ByScore(_GenerateAllFirst, name="score", diagnostic="sees all scores before it pays for one", all_scores=True):
    """Verify the traces by falling score, which no real system could know beforehand."""

    def verification_order(self, traces: GeneratedTraces) -> tuple[np.ndarray, np.ndarray]:
        return by_falling_score(traces.verified_code, traces.score)
