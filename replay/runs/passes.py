"""Passes over the log: block by block through the engine, into the store of outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from pathlib import Path

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.contents import Contents
from replay.data.prices import Prices
from replay.data.read import BlockRequest, read_block
from replay.policies.base import Evaluator, Policy, Ranking, needs_of
from replay.runs.coverage import Coverage, unserved
from replay.runs.lookahead import check_rules
from replay.runs.store import ExampleSet, OutcomeStore, chunk_frame, chunk_size
from toolkit.errors import ThinkbackError
from toolkit.log import Log
from toolkit.progress import progress

BLOCK_CELLS = 2**21
"""Cells (examples x traces) read at once: bounds memory, changes no result."""


@dataclass(frozen=True)
class ReplayPlan:
    """What all passes over the log share."""

    log: Log
    contents: Contents
    examples: ExampleSet
    measure: str | None
    prices: Prices | None
    block_examples: int | None

    def among(self, ids: pl.Series) -> ReplayPlan:
        """The same over some of its examples, by their ids."""
        kept = self.examples.frame.filter(pl.col("example_id").is_in(ids.implode()))
        return replace(self, examples=replace(self.examples, frame=kept))


def blocks(plan: ReplayPlan, policies: Sequence[Policy], chunk: int) -> Iterator[LogBlock]:
    """Chunks of examples, read in blocks of whole chunks that hold at most about BLOCK_CELLS cells."""
    wanted = BlockRequest(needs_of(policies, plan.contents), plan.measure, plan.prices)
    examples = plan.examples.frame
    bound = max(BLOCK_CELLS // widest(plan.contents, policies) // chunk, 1) * chunk
    outer = max((plan.block_examples or bound) // chunk, 1) * chunk
    with progress("replaying", len(examples), "examples") as advance:
        for begin in range(0, len(examples), outer):
            for start in range(begin, min(begin + outer, len(examples)), bound):
                stop = min(start + bound, begin + outer, len(examples))
                block = read_block(plan.log, examples[start:stop], wanted)
                for first in range(0, len(block.examples), chunk):
                    yield block.slice(first, min(first + chunk, len(block.examples)))
                    advance(min(chunk, len(block.examples) - first))


def widest(contents: Contents, policies: Sequence[Policy]) -> int:
    """Traces per example that the policies read at most, over all their pools."""
    return max(sum(contents.sizes.get(pool, 1) for pool in needs_of(policies, contents).pools), 1)


def replay_all(plan: ReplayPlan, policies: tuple[Policy, ...], folder: Path, strict: bool) -> Coverage:
    """Replay, drop the policies that too few examples can serve, and replay the others again if any was dropped."""
    coverage = _replay_once(plan, policies, folder)
    dropped = unserved(coverage)
    if not dropped:
        return coverage.check_served(plan.log.address)
    if strict:
        name, why = next(iter(dropped.items()))
        more = f" (and {len(dropped) - 1} more policies)" if len(dropped) > 1 else ""
        raise ThinkbackError(f"policy `{name}` cannot be replayed{more}: {why}")
    left = tuple(p for p in policies if p.name not in dropped)
    lost = next((p for p in left if p.against in dropped), None)
    if lost is not None:
        raise ThinkbackError(
            f"policy `{lost.name}` is compared with `{lost.against}`, which cannot be replayed "
            f"({dropped[str(lost.against)]}); leave out one of them, or `against`"
        )
    if not left:
        name, why = next(iter(dropped.items()))
        raise ThinkbackError(f"no policy can be served by {plan.log.address}; `{name}`: {why}")
    again = _replay_once(plan, left, folder)
    again.dropped = dropped
    return again.check_served(plan.log.address)


def _replay_once(plan: ReplayPlan, policies: tuple[Policy, ...], folder: Path) -> Coverage:
    ranking = [(policy, one) for policy in policies if (one := policy.ranking) is not None]
    rates = MatchedRates(ranking)
    if ranking:  # whom they choose depends on all examples that are compared
        _replay_pass(plan, policies, folder, {}, rates)
    return _replay_pass(plan, policies, folder, rates.choices(), None)


def _replay_pass(
    plan: ReplayPlan,
    policies: tuple[Policy, ...],
    folder: Path,
    choices: Mapping[str, frozenset[str]],
    rates: MatchedRates | None,
) -> Coverage:
    chunk = chunk_size(len(policies), widest(plan.contents, policies))
    store = OutcomeStore(folder / "outcomes.parquet", policies, plan.prices is not None)
    coverage = Coverage(policies, store)
    for number, block in enumerate(blocks(plan, policies, chunk)):
        if number == 0:
            check_rules(block, policies)
        outcomes = Evaluator(block, policies, choices).outcomes()
        keep = coverage.add(block, outcomes)
        if rates is not None:
            rates.add(block, keep)
            continue
        store.append(chunk_frame(policies, outcomes, block, keep, store.numbers))
    store.close()
    return coverage


@dataclass
class MatchedRates:
    """Gathers, block by block, what each example compared would gain under each policy that ranks them all."""

    ranked: Sequence[tuple[Policy, Ranking]]
    ids: list[str] = field(default_factory=list)
    gains: dict[str, list[np.ndarray]] = field(default_factory=dict)
    tokens: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def add(self, block: LogBlock, keep: np.ndarray) -> None:
        """The examples of a block where `keep` (E,) is true."""
        evaluator = Evaluator(block, [policy for policy, _ in self.ranked])
        self.ids += block.examples["example_id"].filter(pl.Series(keep)).to_list()
        for policy, ranking in self.ranked:
            gained, tokens = ranking.gain(evaluator)
            self.gains.setdefault(policy.name, []).append(gained[keep])
            self.tokens.setdefault(policy.name, []).append(tokens[keep])

    def choices(self) -> dict[str, frozenset[str]]:
        """Ids by policy: floor(r n + 0.5) of the n examples by gain; ties: fewer action tokens, then example_id."""
        chosen = {}
        place = np.argsort(np.argsort(np.array([name.encode() for name in self.ids], dtype=object)))
        for policy, ranking in self.ranked:
            gained = np.concatenate(self.gains.get(policy.name, [np.zeros(0)]))
            tokens = np.concatenate(self.tokens.get(policy.name, [np.zeros(0)]))
            first = np.nan_to_num(-gained, nan=np.inf)
            order = np.lexsort((place, np.nan_to_num(tokens, nan=np.inf), first))
            count = floor(ranking.share * len(self.ids) + 0.5)
            chosen[policy.name] = frozenset(self.ids[e] for e in order[:count])
        return chosen
