"""What a study of verifying traces one at a time, up to a cap, is run on: of a log, and of each of its data sets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import polars as pl

from replay.data.conditions import asked_about, examples_of, matching, of_dataset
from replay.sampling.stops import Margin
from replay.studies.kit.published import PublishedDataset
from toolkit.errors import listed
from toolkit.log import Log
from toolkit.stats import Settings

USUAL_BUDGETS = (1, 2, 3, 5, 7, 10, 13, 15, 20, 25, 30, 40, 45)


@dataclass(frozen=True)
class VerifyingSetting:
    """What such a study is run on. `asked` goes to `replay.run`: where, resamples, level, seed, kw, eur_per_kwh.

    `orders` random orders are averaged over where means over them are shown; `dev` is an SQL condition that names the
    examples to learn from, which must not be reported. `other_verifier` is by default the only other one. `alone`: the
    examples that are asked about are all of one data set.
    """

    budgets: ClassVar[Mapping[int, tuple[int, ...]]] = {}
    """Budgets of verification that tables show of pools of a size, where they are others than the usual ones."""
    hours: ClassVar[str] = "hours: summed latency of the calls"
    """What tables say of hours beside costs that come of something else."""

    pool: str
    verifier: str
    features: tuple[str, ...] = ()
    cap: int = 15
    random_seed: int = 20  # of the random order
    margin: Margin = field(default_factory=Margin)
    asked: Mapping[str, Any] = field(default_factory=dict)
    other_verifier: str | None = None
    caps: tuple[int, ...] = (15, 20, 30, 40)
    orders: int = 10
    dev: str | None = None
    published: PublishedDataset | None = None
    alone: bool = True

    @property
    def where(self) -> str | None:
        """The condition on the examples to report."""
        return self.asked.get("where")

    @property
    def settings(self) -> Settings:
        """How intervals are made."""
        return Settings(**{key: self.asked[key] for key in ("resamples", "level", "seed") if key in self.asked})

    @property
    def kw(self) -> float:
        """Power of the device."""
        return self.asked.get("kw", 0.25)

    @property
    def eur_per_kwh(self) -> float:
        """Price of its energy."""
        return self.asked.get("eur_per_kwh", 0.25)

    @property
    def eur_per_h(self) -> float:
        """Price of an hour of the device."""
        return self.kw * self.eur_per_kwh

    def claims(self, log: Log, *columns: str) -> pl.DataFrame:
        """The examples to report, by example_id: these columns of them."""
        return asked_about(log, self.where, *columns)

    def shown_budgets(self, size: int) -> tuple[int, ...]:
        """The budgets of a pool of so many traces that tables show: by default the usual ones below its size."""
        return self.budgets.get(size) or (*(k for k in USUAL_BUDGETS if k < size), size)

    def of_dataset(
        self, log: Log, dataset: str, every: Collection[str], published: Sequence[PublishedDataset] = ()
    ) -> Self:
        """What is asked of one data set among `every` one: its own examples, and those of its own to learn from.

        Of the published numbers it has those of its own name, and where it is alone a single one by any name.
        """
        own = next((one for one in published if one.dataset == one.work.dataset(dataset)), None)
        if len(every) == 1:
            return replace(self, published=own or (published[0] if len(published) == 1 else None))
        asked, dev = {**self.asked, "where": of_dataset(self.where, dataset)}, None
        if self.dev is not None:
            learnt = examples_of(log, matching(log, self.dev, "dev"), ["dataset"])["dataset"]
            dev = of_dataset(self.dev, dataset) if (learnt == dataset).any() else None
        return replace(self, asked=asked, dev=dev, published=own, alone=False)


def features_note(used: Sequence[str], known: Collection[str], wanted: Sequence[str], whose: str) -> str:
    """Which features the surrogate reads and which of those `wanted` it does without; "" where it has them all.

    `known` are those of the log; `whose` begins what these are called.
    """
    without = [name for name in wanted if name not in used]
    if not without:
        return ""
    reads = listed(used) or "no feature, only the answers and scores so far"
    lacking, spurned = ([name for name in without if (name in known) == has] for has in (False, True))
    why = [f"the log lacks {listed(lacking)}"] if lacking else []
    why += [f"{listed(spurned)} {'is' if len(spurned) == 1 else 'are'} not asked for"] if spurned else []
    return f"the surrogate reads {reads}; of {whose} features, {'; '.join(why)}"
