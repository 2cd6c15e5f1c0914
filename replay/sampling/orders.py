"""The orders in which a policy looks at traces.

`generation` is the order of `sample_index`, or a seeded permutation of it (`orders = K`). `random` and
`score` generate first and then verify in another order. The random order is a hash, not a generator: it
depends on the example's id, the seed, the repetition and the sample index alone, so it is the same on
every machine and for any number of threads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

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
    base = mix(mix(hashes + _word(seed)) + _word(repetition))
    return mix(base[:, None] + np.arange(traces, dtype=np.uint64)[None, :])


def random_permutation(keys: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Each example's whole logged pool in random order: int32 (E, T), the sample index at each place.

    `length` int (E,) is the pool's size; places beyond it hold the remaining indices and are never read.
    """
    return _argsort(keys, np.arange(keys.shape[1]) < length[:, None])


def verification_order(
    order: str, usable: np.ndarray, keys: np.ndarray | None, score: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Places in the order in which valid traces are verified: int32 (E, T), and how many there are (E,).

    `usable` bool (E, T): generated and valid, by place in the order of generation. `keys` uint64 (E, T)
    for `random`, `score` (E, T) for `score` (descending; ties: earliest generated).
    """
    if order == "random" and keys is not None:
        return _argsort(keys, usable), usable.sum(axis=1).astype(np.int32)
    descending = np.where(usable & ~np.isnan(score), -score, np.inf)
    return _argsort(descending, usable), usable.sum(axis=1).astype(np.int32)


def _argsort(keys: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Stable argsort along the last axis with unusable cells at the end."""
    by_key = np.argsort(keys, axis=1, kind="stable")
    late = ~np.take_along_axis(usable, by_key, axis=1)
    return np.take_along_axis(by_key, np.argsort(late, axis=1, kind="stable"), axis=1).astype(np.int32)


def _word(number: int) -> np.uint64:
    return np.uint64(number % 2**64)
