"""What the study is run on: its settings, of each data set of a log, and the pools and verifiers that these name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import polars as pl

from replay.data.conditions import asked_about, examples_of, matching, of_dataset
from replay.data.contents import read_contents
from replay.sampling.stops import Margin
from replay.studies.factcheck.published import BUDGETS
from replay.studies.kit.published import PublishedDataset
from toolkit.errors import (
    AmbiguousError,
    EmptyError,
    ThinkbackError,
    UnknownError,
    UnsuitableError,
    argument,
    listed,
    suggest,
)
from toolkit.log import Log, collect
from toolkit.stats import Settings

USUAL_BUDGETS = (1, 2, 3, 5, 7, 10, 13, 15, 20, 25, 30, 40, 45)


@dataclass(frozen=True)
class FactcheckSetting:
    """What the study is run on. `asked` goes to `replay.run`: where, resamples, level, seed, kw, eur_per_kwh.

    `orders` random orders are averaged over where means over them are shown; `dev` is an SQL condition that names the
    examples to learn from, which must not be reported. `other_verifier` is by default the only other one. `alone`: the
    examples that are asked about are all of one data set.
    """

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
        return Settings(**{key: self.asked[key] for key in ("resamples", "level", "seed") if key in self.asked})

    @property
    def kw(self) -> float:
        return self.asked.get("kw", 0.25)

    @property
    def eur_per_kwh(self) -> float:
        return self.asked.get("eur_per_kwh", 0.25)

    @property
    def eur_per_h(self) -> float:
        """Price of an hour of the device."""
        return self.kw * self.eur_per_kwh

    def claims(self, log: Log, *columns: str) -> pl.DataFrame:
        """The examples to report, by example_id: these columns of them."""
        return asked_about(log, self.where, *columns)

    def shown_budgets(self, size: int) -> tuple[int, ...]:
        """The budgets of a pool of so many traces that tables show: those of table B.4, else the usual ones."""
        return BUDGETS.get(size) or (*(k for k in USUAL_BUDGETS if k < size), size)

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


NONE_KNOWN = {
    "pool": "the log has no pool of first attempts",
    "verifier": "the log has no verifications, and the study is about them: add a verifier's scores with a "
    "recipe of `[[verify]]`",
}


def pools_of(log: Log, where: str | None, known: Collection[str]) -> tuple[str, ...]:
    """Those of the known pools that examples of a condition have traces in, by name."""
    traces = log.scan("traces", ["example_id", "pool"]).filter(pl.col("pool").is_in(list(known)))
    if where is not None:
        traces = traces.filter(pl.col("example_id").is_in(matching(log, where, "where").implode()))
    return tuple(collect(traces.select(pl.col("pool").unique().sort()), log)["pool"])


def refuse_none_left(log: Log, reported: str, dev: str) -> None:
    """Raise ThinkbackError where the examples of `dev` are all that would be reported by default."""
    try:
        matching(log, reported, "where")
    except ThinkbackError:  # both of its parts hold somewhere: together they do not
        raise EmptyError(
            f"{argument('dev')} ({dev}) leaves no claim to report: name fewer claims to learn from"
        ) from None


def own_pools(log: Log, where: str | None, known: Collection[str]) -> dict[str, str]:
    """The pool of each data set of a condition's examples, where each has one of its own; else nothing."""
    found = _pools(log, where, known)
    return {dataset: pools[0] for dataset, pools in found.items()} if all(len(x) == 1 for x in found.values()) else {}


def datasets_without(log: Log, where: str | None, pool: str) -> tuple[str, ...]:
    """Data sets of a condition's examples without traces in a pool that others have; none where no other has any."""
    found = _pools(log, where, (pool,))
    lacking = tuple(dataset for dataset, pools in found.items() if not pools)
    return lacking if len(lacking) < len(found) else ()


def _pools(log: Log, where: str | None, known: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Pools of each data set of a condition's examples, among those known."""
    datasets = asked_about(log, where, "dataset")["dataset"].drop_nulls().unique().sort()
    return {dataset: pools_of(log, of_dataset(where, dataset), known) for dataset in datasets}


def verifiers_of(log: Log, where: str | None) -> frozenset[str]:
    """Verifiers that scored a trace of the examples of a condition."""
    if where is None:
        return read_contents(log).verifiers
    asked = log.scan("traces", ["trace_id", "example_id"]).filter(
        pl.col("example_id").is_in(asked_about(log, where)["example_id"].implode())
    )
    scores = log.scan("verifications", ["trace_id", "verifier"]).join(asked, on="trace_id", how="semi")
    return frozenset(collect(scores.select(pl.col("verifier").unique()), log)["verifier"])


def choose(name: str | None, known: Sequence[str] | frozenset[str], what: str) -> str:
    """A pool or verifier by name, or the only one. Raises ThinkbackError otherwise."""
    if not known:
        raise UnsuitableError(NONE_KNOWN[what])
    if name is None and len(known) > 1:
        raise AmbiguousError(
            f"the log has {len(known)} {what}s, so name one with {argument(what)}; {suggest('', known)}"
        )
    name = next(iter(known)) if name is None else name
    if name not in known:
        raise UnknownError(f"the log has no {what} `{name}`; {suggest(name, known)}")
    return name


def listwise_verifiers(log: Log, pool: str) -> frozenset[str]:
    """Verifiers that rank the traces of a pool in one call, so that none can be asked about one trace more."""
    traces = log.scan("traces", ["trace_id", "pool"]).filter(pl.col("pool") == pool)
    scores = log.scan("verifications", ["trace_id", "verifier", "candidates"])
    ranked = scores.filter(pl.col("candidates").is_not_null()).join(traces, on="trace_id", how="semi")
    return frozenset(collect(ranked.select("verifier").unique(), log)["verifier"])


def refuse_listwise(listwise: Collection[str], pool: str, *verifiers: str | None) -> None:
    """Raise ThinkbackError where one of the verifiers ranks traces against each other."""
    for name in verifiers:
        if name in listwise:
            raise UnsuitableError(
                f"verifier `{name}` ranks the traces of `{pool}` against each other in one call, and the study "
                "verifies one trace at a time: name a verifier that scores each trace alone"
            )


def label_spaces(claims: pl.DataFrame, study: str) -> dict[str, tuple[str, ...]]:
    """The label space of each data set of claims (columns dataset and labels).

    Raises ThinkbackError, which says what `study` needs, where some data set has none, or several.
    """
    found = claims.select("dataset", pl.col("labels").fill_null([])).unique().sort("dataset")
    spaces = {tuple(labels) for labels in found["labels"]}
    if spaces == {()} or not spaces:
        raise UnsuitableError(f"{study} needs claims with a label space: give `labels` of examples")
    if () in spaces or found["dataset"].n_unique() < len(found):
        labelled = found.filter(pl.col("labels").list.len() > 0)["dataset"].unique().sort().to_list()
        raise UnsuitableError(
            f"{study} needs claims that share one label space in each data set, and the log has "
            f'{len(spaces)} (none counts as one): choose claims with {argument("where")}, such as "dataset = '
            f"'{labelled[0]}'\""
        )
    return {dataset: tuple(labels) for dataset, labels in found.iter_rows()}
