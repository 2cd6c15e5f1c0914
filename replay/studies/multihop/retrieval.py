"""What is retrieved on one data set: policies that rank the documents of its rounds, replayed together.

Pools of rounds have roles: `main` is ranked in every way, `self-ask` stands for SELF-ASK, `first-stage` for the
question searched once, and one that explored by rewarded scores is compared with the main one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any

import polars as pl

from replay.data.contents import Contents
from replay.kinds.retrieve import Retrieve
from replay.studies.kit.runs import StudyRun, replay_covered_policies
from toolkit.log import Log, collect
from toolkit.rounds.ranking import EntropyReward, RoundRanking
from toolkit.settings import from_table
from toolkit.show import IntervalCell
from toolkit.stats import Settings

FIRST_STAGE, SELF_ASK, RERANKED = "first stage", "SELF-ASK, retrieval", "SELF-ASK, re-ranked"
PLAIN, SUNAR, FAIR, PLACEBO = "plain re-ranking", "SUNAR", "FAIR", "first rounds rewarded"
ENTROPY, SCORED, STABLE = "FAIR (entropy)", "FAIR (scored answers)", "FAIR (stopped when stable)"
READINGS: Mapping[str, dict[str, Any]] = {
    FAIR: {},
    "FAIR (latest counts)": {"support": "last"},
    "FAIR (leader agrees)": {"reward": "aligned"},
    "FAIR (round by round)": {"frontier_of": "round"},
}
"""The readings of the thesis's frontier -> keys of `retrieve`."""
EXPLORED, BOTH_RANKED = "explored by rewarded scores", "explored by relevance and ranked alike"
MEASURE = "recall_10"
"""What decides between rankings: the thesis's R@10."""
_FRONTIERS: tuple[dict[str, str], ...] = (
    {"frontier_of": "hop"},
    {"frontier_of": "hop", "support": "last"},
    {"frontier_of": "round"},
)
FRONTIER_KEYS = ("frontier", "multiplier", "frontier_of", "support", "reward")
"""Keys of `retrieve` that make a setting of the frontier, in the order in which they name it."""
_GRID = ((1, 2, 3), (1.5, 2.0, 4.0), _FRONTIERS, ("single", "aligned"))


@dataclass(frozen=True)
class RoundPools:
    """The pools of rounds of a data set by role, None where there is none, with the most rounds of a hop by pool.

    `documents`: the most that an example has.
    """

    main: str | None = None
    self_ask: str | None = None
    first_stage: str | None = None
    rewarded: str | None = None
    rounds: Mapping[str, int] = field(default_factory=dict)
    documents: int = 0

    @property
    def document_bound(self) -> int:
        """A number of documents that no ranking exceeds."""
        return max(self.documents, 11)


@dataclass(frozen=True, eq=False)
class Retrieval:
    """What was retrieved: the run of the rankings, and that of `policies`, plain re-ranking and the settings of the
    frontier, which are replayed when they are first asked for.
    """

    pools: RoundPools
    run: StudyRun
    policies: Sequence[Retrieve]
    replay: Callable[[Sequence[Retrieve]], StudyRun]

    @cached_property
    def sensitivity(self) -> StudyRun:
        return self.replay(self.policies)

    @property
    def sensitivity_gaps(self) -> dict[str, IntervalCell]:
        """The difference of each setting to plain re-ranking, in points; limits hold for all settings at once."""
        pairs = [(policy.name, PLAIN) for policy in self.policies if policy.name != PLAIN]
        return {one: cell for (one, _), cell in self.sensitivity.differences(MEASURE, pairs, 100).items()}

    @property
    def readings(self) -> list[str]:
        """The readings of FAIR that were replayed."""
        return [name for name in READINGS if self.run.has(name)]


def round_pools(log: Log, contents: Contents, ids: pl.Series, named: str | None) -> RoundPools:
    """Chooses the pools of rounds of some examples by role. Raises ThinkbackError for an unknown name."""
    if not log.has("rounds"):
        return RoundPools()
    if named is not None:
        contents.pool_of_table("rounds", named)
    rows = log.scan("rounds", ["example_id", "pool", "round", "documents"])
    rows = rows.filter(pl.col("example_id").is_in(ids.implode()))
    by_example = rows.group_by("pool", "example_id").agg(
        rows=pl.len(), most=pl.col("round").max() + 1, documents=pl.col("documents").list.len().sum()
    )
    sizes = by_example.group_by("pool").agg(pl.col("most", "documents").max(), pl.col("rows").sum())
    frame = collect(sizes, log).sort(-pl.col("rows").cast(pl.Int64), "pool")
    names = frame["pool"].to_list()
    explore = {name: contents.pool_setting(name, "explore") for name in names}
    apart = ("self-ask", "first-stage")
    plain = [name for name in names if not isinstance(explore[name], Mapping) and name not in apart]
    main = named or next((name for name in ("fair", *plain) if name in plain), next(iter(names), None))
    rewarded = [name for name in names if isinstance(explore[name], Mapping) and name != main]
    by_role = {"self_ask": "self-ask", "first_stage": "first-stage"}
    most: Any = frame["documents"].max()
    return RoundPools(
        main=main, rewarded=next(iter(rewarded), None), rounds=dict(frame.select("pool", "most").iter_rows()),
        documents=int(most or 0), **{role: name for role, name in by_role.items() if name in names},
    )  # fmt: skip


def _policy(pools: RoundPools, name: str, pool: str, **keys: Any) -> Retrieve:
    return Retrieve(name=name, pool=pool, rounds=pools.rounds[pool], **keys)


def _ranking_policies(contents: Contents, pools: RoundPools, entropy: float, stable: int) -> list[Retrieve]:
    """Returns the policies of table 5.1 and of what goes beyond the thesis, on the pools that there are."""
    if pools.main is None:
        return []
    main, policies = pools.main, []
    if pools.first_stage is not None:
        policies.append(_policy(pools, FIRST_STAGE, pools.first_stage, order="retriever"))
    if pools.self_ask is not None:
        policies.append(_policy(pools, SELF_ASK, pools.self_ask, order="retriever"))
        policies.append(_policy(pools, RERANKED, pools.self_ask, multiplier=1.0))
    if pools.first_stage is None and pools.self_ask is None:
        policies.append(_policy(pools, FIRST_STAGE, main, order="retriever"))
    policies += [_policy(pools, PLAIN, main, multiplier=1.0), _policy(pools, SUNAR, main, penalty="sunar")]
    policies += [_policy(pools, name, main, **keys) for name, keys in READINGS.items()]
    policies.append(_policy(pools, PLACEBO, main, reward="first"))
    policies.append(_policy(pools, STABLE, main, stable=stable))
    policies.append(_policy(pools, ENTROPY, main, reward=EntropyReward(entropy=entropy)))
    policies.append(_policy(pools, SCORED, main, weights="answer_scores"))
    if pools.rewarded is not None:
        explore = contents.pool_setting(pools.rewarded, "explore")
        ranking = from_table(RoundRanking, explore)
        keys = {key: getattr(ranking, key) for key in explore} | {"at": (1, 10, pools.document_bound)}
        policies.append(_policy(pools, EXPLORED, pools.rewarded, **keys))
        policies.append(_policy(pools, BOTH_RANKED, main, **keys))
    return policies


def _sensitivity_policies(pools: RoundPools) -> list[Retrieve]:
    """Returns plain re-ranking and a policy for every setting of the frontier that does not reward every round."""
    if pools.main is None:
        return []
    policies = [_policy(pools, PLAIN, pools.main, multiplier=1.0)]
    for k, multiplier, frontier, reward in product(*_GRID):
        keys: dict[str, Any] = {"frontier": k, "multiplier": multiplier, "support": "sum", **frontier, "reward": reward}
        if not RoundRanking(**keys).rewards_every_round:
            name = ", ".join(str(keys[key]) for key in FRONTIER_KEYS)
            policies.append(_policy(pools, name, pools.main, **keys))
    return policies


def retrieve_by_every_ranking(
    log: Log, contents: Contents, pools: RoundPools, where: str | None, settings: Settings, entropy: float, stable: int
) -> Retrieval:
    """Replays every ranking of the study on the examples of a condition."""
    replay = partial(replay_covered_policies, log, contents, where=where, settings=settings, metric=MEASURE)
    run = replay(_ranking_policies(contents, pools, entropy, stable))
    return Retrieval(pools, run, _sensitivity_policies(pools), replay)
