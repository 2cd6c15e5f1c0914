"""Choosing some of the examples, as the works do: a seeded sample, stratified or not, and a development share.

A choice depends on the seed and on the example ids alone, not on the order of the rows. Where examples have a
`cluster`, `divide` keeps each cluster on one side.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass

import polars as pl

from toolkit.errors import ThinkbackError, suggest
from toolkit.settings import Checked, setting


@dataclass(frozen=True)
class Choosing(Checked):
    """Options of every data set: so many examples, by which column's shares, and the share of the split `dev`."""

    choose: int | None = setting(None)
    choose_seed: int = setting(0)
    choose_by: str | None = setting(None)
    dev_share: float | None = setting(None)


def choose(examples: pl.DataFrame, n: int, seed: int = 0, by: str | None = None) -> pl.DataFrame:
    """`n` examples drawn without replacement, in the order of the frame.

    `by` names a column whose shares are kept (largest remainders; ties to the value that sorts first).
    """
    if not 0 < n <= examples.height:
        raise ThinkbackError(f"`choose` is {n}, but there are {examples.height} examples")
    if by is not None and by not in examples.columns:
        raise ThinkbackError(f"`choose_by`: there is no column `{by}`; {suggest(by, examples.columns)}")
    strata: dict[Hashable, list[str]] = defaultdict(list)
    keys = examples[by].cast(pl.String).fill_null("").to_list() if by else [""] * examples.height
    for key, name in sorted(zip(keys, examples["example_id"].to_list(), strict=True)):
        strata[key].append(name)
    quotas = _quotas({key: len(names) for key, names in strata.items()}, n)
    rng = random.Random(f"choose {seed}")
    chosen = {name for key, names in strata.items() for name in rng.sample(names, quotas[key])}
    return examples.filter(pl.col("example_id").is_in(chosen))


def divide(examples: pl.DataFrame, share: float, seed: int = 0, name: str = "dev") -> pl.DataFrame:
    """The same rows, with the split `name` for `share` of the examples (rounded), clusters whole."""
    if not 0 < share < 1:
        raise ThinkbackError(f"`dev_share` is {share}; it takes a number between 0 and 1")
    unit = pl.coalesce(pl.col("cluster"), pl.col("example_id"))
    sizes = dict(examples.group_by(unit.alias("unit")).len().sort("unit").iter_rows())
    units = list(sizes)
    random.Random(f"divide {seed}").shuffle(units)
    wanted, taken, count = round(share * examples.height), [], 0
    for one in units:
        if count + sizes[one] <= wanted:
            taken.append(one)
            count += sizes[one]
    return examples.with_columns(split=pl.when(unit.is_in(taken)).then(pl.lit(name)).otherwise(pl.col("split")))


def _quotas(sizes: dict[Hashable, int], n: int) -> dict[Hashable, int]:
    """Whole shares of `n` by size that add up to `n`."""
    total = sum(sizes.values())
    floors = {key: n * size // total for key, size in sizes.items()}
    rest = sorted(sizes, key=lambda key: (-(n * sizes[key] % total), str(key)))
    for key in rest[: n - sum(floors.values())]:
        floors[key] += 1
    return floors
