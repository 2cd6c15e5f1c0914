"""The samples that the works take: seeded, stratified, and divided with clusters whole."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import polars as pl

from generate.datasets import choose_examples, load, split_examples


def frame(n: int, clusters: int = 0) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "example_id": [f"e{number:04d}" for number in range(n)],
            "split": ["train"] * n,
            "gold": [("a", "a", "a", "b", "c")[number % 5] for number in range(n)],
            "cluster": [f"c{number % clusters}" if clusters else None for number in range(n)],
        },
        schema_overrides={"cluster": pl.String},
    )


def test_a_choice_depends_on_the_seed_and_not_on_the_order() -> None:
    rows = frame(100)
    one = choose_examples(rows, 30, seed=42)
    assert one.height == 30
    assert one["example_id"].is_sorted()
    turned = choose_examples(rows.reverse(), 30, seed=42)
    assert set(turned["example_id"]) == set(one["example_id"])
    assert set(choose_examples(rows, 30, seed=43)["example_id"]) != set(one["example_id"])


def test_a_stratified_choice_keeps_the_shares() -> None:
    # 61 a, 20 b, 19 c of 100 give of 50: 30.5, 10, 9.5; the one left over goes to the first of the equal remainders
    rows = frame(100).with_columns(gold=pl.Series(["a"] * 61 + ["b"] * 20 + ["c"] * 19))
    assert Counter(choose_examples(rows, 50, seed=1, by="gold")["gold"]) == {"a": 31, "b": 10, "c": 9}
    assert choose_examples(rows, 100, by="gold").equals(rows)


def test_the_thesis_s_stratified_validation_sample() -> None:
    """500 of QuanTemp's 3,084 validation claims: 617, 1,795, 672 give 100.03, 291.02, 108.95."""
    golds = ["True"] * 617 + ["False"] * 1_795 + ["Conflicting"] * 672
    rows = pl.DataFrame({"example_id": [f"{n:05d}" for n in range(3_084)], "gold": golds})
    assert Counter(choose_examples(rows, 500, by="gold")["gold"]) == {"True": 100, "False": 291, "Conflicting": 109}


def test_dividing_keeps_clusters_whole() -> None:
    plain = split_examples(frame(2_000), 0.2, seed=42)
    assert Counter(plain["split"]) == {"train": 1_600, "dev": 400}
    grouped = split_examples(frame(200, clusters=20), 0.25, seed=0)
    assert Counter(grouped["split"]) == {"train": 150, "dev": 50}
    assert grouped.group_by("cluster").agg(pl.col("split").n_unique())["split"].max() == 1


def test_both_as_options_of_a_data_set(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(json.dumps({"question": f"q{n}", "answer": f"#### {n}"}) for n in range(50)))
    loaded = load("gsm8k", path, ["train"], {"choose": 20, "choose_seed": 42, "dev_share": 0.2})
    assert Counter(loaded.examples["split"]) == {"train": 16, "dev": 4}
    assert [count.counted for count in loaded.counts[1:]] == [20, 4]
    assert [str(count) for count in loaded.counts[1:]] == [f"{one.what}: {one.counted}" for one in loaded.counts[1:]]
