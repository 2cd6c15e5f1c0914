import hashlib

import numpy as np

from replay.sampling.orders import by_falling_score, example_hashes, mix_bits, random_keys, random_permutation

WORD = 2**64


def plain_mix(x: int) -> int:
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 % WORD
    x ^= x >> 27
    x = x * 0x94D049BB133111EB % WORD
    return x ^ x >> 31


def test_mix_is_the_finaliser_of_splitmix64():
    # The published first output of SplitMix64 with seed 0 is mix(0 + golden gamma).
    assert int(mix_bits(np.array([0x9E3779B97F4A7C15], dtype=np.uint64))[0]) == 0xE220A8397B1DCDAF


def test_keys_equal_the_definition_in_plain_integers():
    ids, seed, repetition = ["a", "é", "問"], 3, 2
    keys = random_keys(example_hashes(ids), seed, repetition, 4)
    for row, name in enumerate(ids):
        h = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        for index in range(4):
            assert int(keys[row, index]) == plain_mix(
                (plain_mix(plain_mix((h + seed) % WORD) + repetition) + index) % WORD
            )


def test_a_negative_seed_counts_from_the_top():
    one = random_keys(example_hashes(["a"]), -1, 0, 3)
    assert (one == random_keys(example_hashes(["a"]), WORD - 1, 0, 3)).all()


def test_permutation_covers_the_logged_pool_and_nothing_else():
    keys = random_keys(example_hashes(["a", "b"]), 0, 0, 6)
    order = random_permutation(keys, np.array([6, 4]))
    assert sorted(order[0]) == [0, 1, 2, 3, 4, 5]
    assert sorted(order[1, :4]) == [0, 1, 2, 3]
    assert (np.diff(keys[1][order[1, :4]].astype(object)) > 0).all()


def test_score_order_is_descending_with_the_earliest_first_among_equals():
    usable = np.array([[True, True, False, True]])
    score = np.array([[0.2, 0.7, 0.9, 0.7]])
    order, count = by_falling_score(np.where(usable, 0, -1), score)
    assert count.tolist() == [3]
    assert order[0, :3].tolist() == [1, 3, 0]
