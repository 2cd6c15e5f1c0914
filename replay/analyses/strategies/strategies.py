"""Strategies of generation and verification on a log, at every number of samples, example by example.

One pool is sampled from; another one holds a single attempt, the probe, that conditional strategies begin with. What a
log lacks leaves strategies out, by name and with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
import polars as pl

from replay.analyses.strategies.strategy_grids import ConditionalStrategy, votes_at_mean_samples
from replay.data.block import LoggedPool
from replay.data.conditions import examples_where
from replay.data.contents import Contents, open_with_contents
from replay.data.needs import needs_of_all, needs_of_scores
from replay.kinds.act import Act
from replay.kinds.oracle import Oracle
from replay.kinds.sample import Sample, first_attempt_policy
from replay.policies.base import Evaluator, Policy
from replay.runs.passes.example_set import resampling_units
from replay.runs.passes.passes import correctness_of_policies
from replay.runs.passes.ranges import over_evaluators
from replay.sampling.selects import MOST_SETS, WeightedVote
from toolkit.arguments import checks_arguments
from toolkit.errors import (
    ConflictError,
    EmptyError,
    InvalidError,
    LimitError,
    RequiredError,
    UnknownError,
    UnsuitableError,
    argument,
    counted,
    listed,
)
from toolkit.log import AnyLog
from toolkit.stats import unit_numbers

OF_SETS = WeightedVote.over_sets or 1
"""Up to how many samples a weighted vote has an exact mean over all orders."""
MAJORITY, WEIGHTED, BEST, ORACLE = "majority", "weighted majority", "best of n", "oracle"
CONDITIONAL, BY_SCORE = "conditional majority", "votes by score"
PROBE, CORRECTED, CORRECTED_WHEN = "probe", "self-correction", "conditional self-correction"
SCORE, EVERY_VOTE = "score of the first attempt", "majority of every number"
MOST_MISSING = 0.1
"""The largest share of examples without a score with which a verifier is used."""


@dataclass(frozen=True)
class Strategy:
    """A strategy by name, with its verifier, if it has one."""

    name: str
    verifier: str | None = None

    @property
    def sees_gold(self) -> bool:
        """Whether the strategy sees gold, so that no system could have it."""
        return self.name == ORACLE

    def __str__(self) -> str:
        return f"{self.name}, {self.verifier}" if self.verifier is not None else self.name


@dataclass(frozen=True)
class StrategySource:
    """The source of strategies: the pool that is sampled, the probe's pool, the action that revises it, and the
    orders over which weighted votes are means; those of up to `exact` samples are over all orders.
    """

    pool: str
    probe: str | None
    action: str | None
    orders: int
    seed: int
    exact: int = 0


@dataclass(frozen=True, eq=False)
class Strategies:
    """The values of strategies on the E examples that all of them cover, for the N numbers of samples `n`.

    `plain`: correctness (E, N) of strategies that draw n samples; `votes` (E, M): that of plain voting at
    `numbers_up_to` the largest n, to compare with what costs a number in between. `probe` (E,): correctness of the
    probe, None where no pool is one; `scores` (E,) of it by verifier, NaN where it has no answer. `corrected` (E,):
    (mean) correctness of its revisions. `unit` (E,) numbers what is resampled. `left_out`: reasons by what was left
    out.
    """

    source: StrategySource
    examples: pl.DataFrame
    unit: np.ndarray
    n: np.ndarray
    plain: Mapping[Strategy, np.ndarray]
    votes: np.ndarray
    probe: np.ndarray | None = None
    scores: Mapping[str, np.ndarray] | None = None
    corrected: np.ndarray | None = None
    left_out: Mapping[str, str] | None = None

    def conditional(self, verifier: str | np.ndarray, of: Strategy = Strategy(MAJORITY)) -> ConditionalStrategy:
        """The probe, and n samples of the strategy `of` where a verifier, or scores (E,), doubt it.

        Raises ThinkbackError where there is no probe.
        """
        return ConditionalStrategy(
            self._verifier_score(verifier), self._required_probe_correctness(), self.plain[of], self.n
        )

    def vote_correctness(self, samples: float) -> np.ndarray:
        """Correctness (E,) of plain voting at a mean number of samples."""
        return votes_at_mean_samples(self.votes, np.array(numbers_up_to(int(self.n[-1]))), samples)

    def self_correction_strategy(self, verifier: str | np.ndarray) -> ConditionalStrategy:
        """The probe, and its revision where it is doubted. Raises ThinkbackError where the log has no revision."""
        if self.corrected is None:
            raise RequiredError("no revision of the first attempts was read: name an `action` of the log")
        return ConditionalStrategy(
            self._verifier_score(verifier), self._required_probe_correctness(), self.corrected[:, None], np.array([1])
        )

    def for_examples(self, on: np.ndarray) -> Strategies:
        """The strategies on the examples in `on` (E,) alone."""
        return replace(
            self,
            examples=self.examples.filter(pl.Series(on)),
            unit=unit_numbers(self.unit[on]),
            plain={one: values[on] for one, values in self.plain.items()},
            votes=self.votes[on],
            probe=None if self.probe is None else self.probe[on],
            scores={name: values[on] for name, values in (self.scores or {}).items()},
            corrected=None if self.corrected is None else self.corrected[on],
        )

    def _required_probe_correctness(self) -> np.ndarray:
        if self.probe is None:
            raise RequiredError("no first attempts were read: name their pool as `probe`")
        return self.probe

    def _verifier_score(self, verifier: str | np.ndarray) -> np.ndarray:
        if isinstance(verifier, np.ndarray):
            return verifier
        known = self.scores or {}
        if verifier not in known:
            raise UnknownError(f"verifier `{verifier}` scored no first attempts; known: {listed(sorted(known))}")
        return known[verifier]


@checks_arguments(verifiers="a list of verifiers' names")
def strategies(
    log: AnyLog,
    *,
    pool: str | None = None,
    probe: str | None = None,
    verifiers: str | Sequence[str] | None = None,
    action: str | None = None,
    n: Sequence[int] | None = None,
    samples: int | None = None,
    orders: int = 20,
    seed: int = 0,
    where: str | None = None,
) -> Strategies:
    """The values of all strategies on a log.

    `pool`: sampled from (default: that with most traces an example). `probe`: the pool whose first trace conditional
    strategies begin with (default: `probe`, or the only other pool). `verifiers`: by default all that scored enough.
    `action`: the revision of the probe (default: `self_correct`, where the log has one). `n`: numbers of samples, by
    default 1, 2, 4 … `samples`: of each example only the first so many of the pool are drawn from. All are policies
    that are replayed: exact means over all orders of the pool, but weighted votes of more than three samples, which
    have none and are means over so many seeded `orders`. `where` is a condition on examples.

    Examples that lack a trace, a judgement or a score that is asked for are left out. Raises ThinkbackError for names
    that the log lacks, and where no example is left.
    """
    log, contents = open_with_contents(log)
    pool = _largest_pool(contents) if pool is None else pool
    contents.require_pool(pool)
    size = contents.sizes[pool] if samples is None else min(samples, contents.sizes[pool])
    numbers = tuple(sorted(set(n))) if n is not None else powers_of_two_up_to(size)
    for name, least in (("`samples`", size), ("`n`", min(numbers, default=0)), (argument("orders"), orders)):
        if least < 1:
            raise InvalidError(f"{name} is {least}; it takes integers, at least 1")
    if numbers[-1] > size:
        raise LimitError(f"`n` asks for {numbers[-1]} samples; pool `{pool}` has {size} at most")
    contents.require_permutable_traces(pool, "no smaller number can be drawn")
    probe = _probe_pool(contents, pool) if probe is None else probe
    if probe is not None:
        contents.require_pool(probe)
        if probe == pool:
            raise ConflictError(f"pool `{pool}` is both `probe` and the sampled pool: name two pools")
    verifier_names = [verifiers] if isinstance(verifiers, str) else verifiers
    for verifier in verifier_names or ():
        contents.require_verifier(verifier)
    names = list(verifier_names) if verifier_names is not None else sorted(contents.verifiers)
    revised = _probe_action(contents, probe, action)
    frame = examples_where(log, where, "labels", "gold", "cluster", "dataset", "split")
    summed = frozenset(name for name in names if (contents.lowest(pool, name) or 0.0) >= 0)
    exact = max(n for n in range(1, OF_SETS + 1) if comb(contents.sizes[pool], n) <= MOST_SETS)
    source = StrategySource(pool, probe, revised, orders, seed, exact)
    plan = _policies_by_strategy(source, names, summed, numbers)
    policies = {strategy: [member.resolve(contents) for member in members] for strategy, members in plan.items()}
    score_needs = needs_of_all(needs_of_scores([probe], name) for name in names if probe is not None)
    reader = _StrategyReader(pool, probe, tuple(names), policies, summed, numbers)
    every = [member for members in policies.values() for member in members]
    parts = over_evaluators(
        log, contents, every, frame, reader.read_values, "strategies", needs=score_needs, first={pool: size}
    )
    return _join_blocks(source, parts, frame, reader, verifier_names is not None)


def powers_of_two_up_to(most: int) -> tuple[int, ...]:
    """The powers of two up to `most`: 1, 2, 4 …"""
    return tuple(2**i for i in range(most.bit_length()))


def numbers_up_to(most: int) -> tuple[int, ...]:
    """The numbers of samples up to `most` at which plain voting is known: each to 16, then each half as large again."""
    numbers = [*range(1, min(most, 16) + 1)]
    while numbers[-1] < most:
        numbers.append(min(most, numbers[-1] + numbers[-1] // 2))
    return tuple(numbers)


def _policies_by_strategy(
    source: StrategySource, verifiers: Sequence[str], summed: frozenset[str], numbers: Sequence[int]
) -> dict[Strategy, list[Policy]]:
    """Strategy -> its policies, one for each number of samples, or one alone."""

    def sample_policies(what: str, at: Sequence[int] = numbers, **keys: Any) -> list[Policy]:
        return [Sample(name=f"{what}, {n}", pool=source.pool, max_traces=n, **keys) for n in at]

    plan: dict[Strategy, list[Policy]] = {
        Strategy(MAJORITY): sample_policies(MAJORITY, select="majority", expected=True),
        Strategy(EVERY_VOTE): sample_policies(MAJORITY, numbers_up_to(numbers[-1]), select="majority", expected=True),
        Strategy(ORACLE): [Oracle(name=f"any of {n}", of=(source.pool,), max_traces=n, expected=True) for n in numbers],
    }
    for name in verifiers:
        plan[Strategy(BEST, name)] = sample_policies(f"best by {name}", verifier=name, select="best", expected=True)
        if name in summed:
            keys: dict[str, Any] = {"verifier": name, "select": "weighted"}
            few, more = ([n for n in numbers if (n <= source.exact) is small] for small in (True, False))
            votes = sample_policies(f"by {name}", more, **keys, orders=source.orders, seed=source.seed)
            plan[Strategy(WEIGHTED, name)] = [*sample_policies(f"by {name}", few, **keys, expected=True), *votes]
    if source.probe is not None:
        plan[Strategy(PROBE)] = [first_attempt_policy(PROBE, source.probe)]
        if source.action is not None:
            plan[Strategy(CORRECTED)] = [Act(name=CORRECTED, action=source.action, base=source.probe)]
    return plan


@dataclass(frozen=True)
class _StrategyReader:
    """Reads the values of strategies on a block. `policies`: those of each strategy. `summed`: the verifiers without
    negative scores, so that they may weight votes.
    """

    pool: str
    probe: str | None
    verifiers: tuple[str, ...]
    policies: Mapping[Strategy, Sequence[Policy]]
    summed: frozenset[str]
    n: tuple[int, ...]

    def read_values(self, on: Evaluator) -> dict[Strategy, np.ndarray]:
        """Values (E, …) on a block by strategy; NaN where something is missing."""
        ends = np.cumsum([len(members) for members in self.policies.values()])
        columns = dict(zip(self.policies, np.split(correctness_of_policies(on).T, ends[:-1], axis=1), strict=True))
        known = ~np.isnan(columns[Strategy(EVERY_VOTE)]).any(axis=1)
        for strategy, column in columns.items():
            if strategy.name in (PROBE, CORRECTED):
                columns[strategy] = column[:, 0]
            else:
                column[~known] = np.nan
        return columns if self.probe is None else columns | self._probe_scores(on.block.pools[self.probe])

    def _probe_scores(self, probe: LoggedPool) -> dict[Strategy, np.ndarray]:
        """Scores (E,) of the probe by verifier; infinite where the probe has no answer."""
        there = probe.size > 0
        answered = there & (probe.code[:, 0] >= 0)
        scores = {name: probe.scores[name].score[:, 0] for name in self.verifiers}
        return {
            Strategy(SCORE, name): np.where(np.isnan(score) & there & ~answered, -np.inf, score)
            for name, score in scores.items()
        }


def _join_blocks(
    source: StrategySource, parts: Sequence[Mapping[Strategy, np.ndarray]], frame: pl.DataFrame,
    reader: _StrategyReader, named: bool,
) -> Strategies:  # fmt: skip
    """The values of all blocks together, on the examples that have every value."""
    columns = {one: np.concatenate([part[one] for part in parts]) for one in parts[0]}
    known = {one: ~np.isnan(values).reshape(len(values), -1).any(axis=1) for one, values in columns.items()}
    mask = known[Strategy(MAJORITY)] & known.get(Strategy(PROBE), True)
    if not mask.any():
        raise EmptyError(
            f"no judged example has {counted(reader.n[-1], 'comparable trace')} in pool `{reader.pool}`"
            + (f" and a first attempt in `{reader.probe}`" if reader.probe else "")
        )
    share = {one: float(on[mask].mean()) for one, on in known.items()}
    subset = [column for column in columns if share[column] >= 1 - MOST_MISSING]
    need = mask & np.all([known[one] for one in subset], axis=0)
    if not need.any():
        raise EmptyError("no example has a score of every verifier; name fewer of them")
    examples = frame.filter(pl.Series(need))
    left_out = dict(_left_out_parts(reader, share, named))
    if not need.all():
        left_out["examples"] = f"{int((~need).sum()):,} of {len(need):,} lack a trace, a judgement or a score"
    values = {one: columns[one][need] for one in subset}
    scores = {one.verifier: values.pop(one) for one in subset if one.name == SCORE}
    return Strategies(
        source, examples, unit_numbers(resampling_units(examples)), np.array(reader.n),
        probe=values.pop(Strategy(PROBE), None),
        scores={str(name): np.where(np.isinf(score), np.nan, score) for name, score in scores.items()},
        corrected=values.pop(Strategy(CORRECTED), None), votes=values.pop(Strategy(EVERY_VOTE)), plain=values,
        left_out=left_out,
    )  # fmt: skip


def _left_out_parts(reader: _StrategyReader, share: Mapping[Strategy, float], named: bool) -> Iterator[tuple[str, str]]:
    """The strategies and verifiers that are left out, with the reason, by the `share` of examples with a value of each.

    Raises ThinkbackError where the probe lacks the score of a verifier that the caller named.
    """
    if reader.probe is None:
        yield "conditional strategies", "the log has no pool of single first attempts to begin with"
    elif Strategy(CORRECTED) not in reader.policies:
        yield CORRECTED, f"the log has no revision of the first trace of `{reader.probe}`"
    for name in reader.verifiers:
        pools = {reader.pool: share[Strategy(BEST, name)]}
        if reader.probe is not None:
            pools[reader.probe] = share[Strategy(SCORE, name)]
        lacking = {pool: portion for pool, portion in pools.items() if portion < 1 - MOST_MISSING}
        if named and reader.probe in lacking:
            raise UnsuitableError(f"verifier `{name}` scored {lacking[reader.probe]:.0%} of pool `{reader.probe}`")
        for pool, portion in lacking.items():
            yield f"`{name}` on `{pool}`", f"it scored all needed traces of {portion:.0%} of the examples"
        if reader.pool not in lacking and name not in reader.summed:
            yield str(Strategy(WEIGHTED, name)), "negative scores would weigh against the answers that they support"


def _largest_pool(contents: Contents) -> str:
    """The pool with most traces an example; of equals the first by name."""
    if not contents.pools:
        raise UnsuitableError("the log has no pool of first attempts to sample from")
    return min(contents.pools, key=lambda name: (-contents.sizes[name], name))


def _probe_pool(contents: Contents, pool: str) -> str | None:
    """The pool called `probe`, or the only other pool; None without one."""
    others = sorted(contents.pools - {pool})
    return "probe" if "probe" in others else others[0] if len(others) == 1 else None


def _probe_action(contents: Contents, probe: str | None, action: str | None) -> str | None:
    """The action that revises the probe; None where none is named and the log has none."""
    if action is not None:
        contents.require_action(action)
        if probe is None:
            raise RequiredError(f"{argument('action')} revises attempts: name their pool with {argument('probe')}")
    name = "self_correct" if action is None else action
    if probe is None or (action is None and not contents.revision_pools(name, probe)):
        return None
    return name
