"""Ways of selecting an answer among chains, replayed together, and the headroom that each leaves, split in three."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from replay.data.contents import Contents, read_contents
from replay.kinds.oracle import Oracle
from replay.kinds.sample import Sample
from replay.policies.base import Policy
from replay.studies.kit.runs import StudyRun, mean_cell, replay_covered_policies
from replay.studies.multihop.chains import CHAINS, GOLD, SINGLE, AnswerPool, Answers
from toolkit.log import Log, collect
from toolkit.show import IntervalCell
from toolkit.stats import Settings
from toolkit.stopping.stops import Margin

SINGLE_SHOT, MAJORITY, CLUSTERS = "single shot", "majority", "majority of clusters"
BEST, WEIGHTED, LISTWISE, PRUNED = "best of n", "weighted", "listwise", "best of n, pruned"
IDEAL, BOUND = "ideal verifier", "bound of gold evidence"
BY_VERIFIER = (BEST, LISTWISE, WEIGHTED)
PARTS = ("generation", "retrieval", "selection")
"""Parts of what a policy lacks to being always right; they add up to it on every example."""


@dataclass(frozen=True)
class Way:
    """A way of selecting among the chains of a pool; `verifier`: whose scores it reads, empty without one."""

    name: str
    pool: AnswerPool
    selector: str
    verifier: str = ""

    @property
    def label(self) -> str:
        return f"{self.selector}: {self.verifier}" if self.verifier else self.selector


@dataclass(frozen=True, eq=False)
class Selection:
    """The ways of selecting that were tried, n chains each, and their run; `substring`: the same run by
    `cover_substring`, empty where it is not logged.
    """

    ways: tuple[Way, ...] = ()
    run: StudyRun = field(default_factory=StudyRun)
    substring: StudyRun = field(default_factory=StudyRun)
    n: int = 0

    @property
    def replayed(self) -> list[Way]:
        return [way for way in self.ways if self.run.has(way.name)]

    def way(self, pool: AnswerPool, selector: str, verifier: str = "") -> Way | None:
        """Returns the way of selecting that was replayed on a pool; None where it was not."""
        keys = (pool.name, selector, verifier)
        return next((one for one in self.replayed if (one.pool.name, one.selector, one.verifier) == keys), None)

    def pairs(self, first: Sequence[str], second: str, verifiers: Sequence[str] = ()) -> Iterator[tuple[str, Way, Way]]:
        """Yields a label and two ways on the same chains of retrieved evidence; `verifiers`: whose alone."""
        for way in self.replayed:
            other = self.way(way.pool, second) or self.way(way.pool, second, way.verifier)
            fits = way.selector in first and (not verifiers or way.verifier in verifiers) and not way.pool.is_gold
            if fits and other is not None:
                yield f"{way.label} on {way.pool.name}", way, other


def _listwise_verifiers(log: Log) -> frozenset[str]:
    """Returns the verifiers that rank several chains in one call."""
    if not log.has("verifications"):
        return frozenset()
    rows = log.scan("verifications", ["verifier", "candidates"]).filter(pl.col("candidates").is_not_null())
    return frozenset(collect(rows.select(pl.col("verifier").unique()), log)["verifier"])


def _ways_of_selecting(
    answers: Answers, verifiers: Mapping[str, frozenset[str]], listwise: frozenset[str]
) -> list[Way]:
    """Returns every way of selecting on every pool of chains. `verifiers`: those that scored each pool."""
    ways = []
    for pool in answers.of_form(CHAINS):
        selectors = [(SINGLE_SHOT, ""), (MAJORITY, "")]
        selectors += [(CLUSTERS, "")] if "answer_cluster" in answers.columns else []
        for verifier in sorted(verifiers.get(pool.name, ())):
            kinds = (LISTWISE,) if verifier in listwise else (BEST, WEIGHTED, PRUNED)
            selectors += [(kind, verifier) for kind in kinds]
        selectors.append((BOUND if pool.is_gold else IDEAL, ""))
        for kind, name in selectors:
            ways.append(Way(f"{pool.name}: {kind}{f' by {name}' if name else ''}", pool, kind, name))
    return ways


def _policy(way: Way, answers: Answers, n: int) -> Policy:
    """Returns the policy of a way of selecting among n chains."""
    pool = way.pool
    if way.selector == SINGLE_SHOT:
        single = answers.pool(pool.evidence, pool.reader, SINGLE)
        if single is not None:
            return Sample(name=way.name, pool=single.name, max_traces=1, select="first")
        return Sample(name=way.name, pool=pool.name, max_traces=1, select="first", expected=True)
    if way.selector in (IDEAL, BOUND):
        of_some: dict[str, Any] = {"max_traces": n, "expected": True} if n < pool.traces else {}
        return Oracle(name=way.name, rule="any", of=(pool.name,), **of_some)
    by_selector: dict[str, dict[str, Any]] = {
        MAJORITY: {"select": "majority"},
        CLUSTERS: {"select": "majority", "answers_as": "answer_cluster"},
        WEIGHTED: {"select": "weighted"},
        PRUNED: {"stop": Margin()},
    }
    keys = by_selector.get(way.selector, {})
    return Sample(name=way.name, pool=pool.name, max_traces=n, verifier=way.verifier or None, **keys)


def select_in_every_way(
    log: Log, contents: Contents, answers: Answers, where: str | None, settings: Settings
) -> Selection:
    """Replays every way of selecting among the chains of a data set, of as many chains of each pool."""
    pools = answers.of_form(CHAINS)
    if not pools:
        return Selection()
    n = min(pool.traces for pool in pools)
    ways = _ways_of_selecting(answers, _scored_pools(log, pools), _listwise_verifiers(log))
    policies = [_policy(way, answers, n) for way in ways]
    replayed = replay_covered_policies(log, contents, policies, where=where, settings=settings)
    measured = "cover_substring" in answers.columns
    options = {"where": where, "settings": settings, "measure": "cover_substring"}
    return Selection(
        tuple(ways),
        replayed,
        replay_covered_policies(log, contents, policies, **options) if measured else StudyRun(),
        n,
    )


def _scored_pools(log: Log, pools: Sequence[AnswerPool]) -> dict[str, frozenset[str]]:
    """Returns the verifiers that scored traces of each pool, by its name."""
    if not log.has("verifications"):
        return {}
    names = [pool.name for pool in pools]
    traces = log.scan("traces", ["trace_id", "pool"]).filter(pl.col("pool").is_in(names))
    scores = log.scan("verifications", ["trace_id", "verifier"]).join(traces, on="trace_id")
    frame = collect(scores.group_by("pool").agg(pl.col("verifier").unique()), log)
    return {pool: frozenset(verifiers) for pool, verifiers in frame.iter_rows()}


def accuracy_by_chains(
    log: Log, pool: AnswerPool, where: str | None, settings: Settings
) -> dict[str, list[tuple[int, IntervalCell]]]:
    """Returns the accuracy of votes, of each verifier's best and of the ideal verifier by the number of chains, each
    the exact mean over their orders; ways that the log cannot serve are left out.
    """
    verifiers = _scored_pools(log, [pool]).get(pool.name, frozenset()) - _listwise_verifiers(log)
    policies: list[Policy] = []
    for k in range(1, pool.traces + 1):
        common: dict[str, Any] = {"pool": pool.name, "max_traces": k, "expected": True}
        policies.append(Sample(name=f"{MAJORITY} {k}", select="majority", **common))
        policies += [
            Sample(name=f"{BEST}: {verifier} {k}", verifier=verifier, **common) for verifier in sorted(verifiers)
        ]
        policies.append(Oracle(name=f"{IDEAL} {k}", rule="any", of=(pool.name,), max_traces=k, expected=True))
    run = replay_covered_policies(log, read_contents(log), policies, where=where, settings=settings)
    curves: dict[str, list[tuple[int, IntervalCell]]] = {}
    for name in run.policies:
        way, _, k_text = name.rpartition(" ")
        cell = run.cell(name, "accuracy")
        if cell is not None:
            curves.setdefault(way, []).append((int(k_text), cell))
    return curves


@dataclass(frozen=True)
class HeadroomSplit:
    """What a way of selecting lacks to 100 %, in points: its parts, and `negative`: the examples, in percent, that are
    right with retrieved evidence and wrong with gold evidence, which the part of retrieval counts below 0.
    """

    way: Way
    gap: IntervalCell | None
    parts: Mapping[str, IntervalCell | None]
    negative: IntervalCell | None


def gap_parts(right: np.ndarray, ideal: np.ndarray, bound: np.ndarray) -> dict[str, np.ndarray]:
    """Splits what a policy lacks on each example (E,) into parts (E,) that add up to it. `right`: its correctness,
    `ideal` and `bound`: whether some chain with retrieved evidence, and with gold evidence, is right.
    """
    return dict(zip(PARTS, (1 - bound, bound - ideal, ideal - right), strict=True))


def split_headroom(selection: Selection, settings: Settings) -> list[HeadroomSplit]:
    """Splits the headroom of every way of selecting whose reader also read gold evidence."""
    splits, run = [], selection.run
    bounds = {way.pool.reader: way.name for way in selection.replayed if way.selector == BOUND}
    for way in selection.replayed:
        ideal, bound = selection.way(way.pool, IDEAL), bounds.get(way.pool.reader)
        if ideal is None or bound is None or way.selector == PRUNED or way.pool.evidence == GOLD:
            continue
        columns = run.values(way.name), run.values(ideal.name), run.values(bound)
        parts = gap_parts(*columns)
        negative = np.maximum(-parts["retrieval"], 0.0)
        splits.append(
            HeadroomSplit(
                way, mean_cell(1 - columns[0], run.unit, settings),
                {name: mean_cell(part, run.unit, settings) for name, part in parts.items()},
                mean_cell(negative, run.unit, settings),
            )
        )  # fmt: skip
    return splits
