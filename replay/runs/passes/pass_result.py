"""The result of a pass over a log: everything that results are read from, whichever policies are compared.

Blocks of passes merge: those of several passes, wherever they ran, are those of one. Outcomes are kept compact, in
memory up to a size, then in a temporary file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from replay.data.block import SCORE_COSTS, LogBlock
from replay.data.needs import Action
from replay.engine.mixing import most_probable_answer
from replay.engine.outcome import MIXED, Outcome
from replay.policies.base import Evaluator, policy_and_parts
from replay.policies.remarks import PayableVerifications, RemarkKind
from replay.runs.passes.gate_sweep import SWEPT, BranchBlock, branch_block
from replay.runs.passes.outcome_tables import OutcomeGroup, OutcomeTables, group_outcomes
from replay.runs.passes.passes import outcome_values
from replay.runs.passes.versions import PolicyVersions
from toolkit.errors import InvalidError, MismatchError
from toolkit.stats.metrics.outcomes import ANSWER
from toolkit.stats.metrics.spill import Floats, Ints, SpilledTable, TableStore
from toolkit.stopping.unscored import UnscoredTreatment

REASON, ENDING, WORD = "reason", "ending", ANSWER
"""Columns beside the numeric ones: why the log cannot serve an example (0: it can), how a policy ended on it, and the
answer that it predicts (null where there is none, or where the outcome is a mean over several)."""


@dataclass(frozen=True, eq=False)
class RowShares:
    """Outcomes that are means over several rows: the share of each `word` (−1: null), by `example` and `version`, (N,)
    each.
    """

    version: Ints
    example: Ints
    word: Ints
    share: Floats


@dataclass(frozen=True, eq=False)
class _BlockTally:
    """Counts of a block beside outcomes, by slices and by policies (their numbers), so that some may be left out later.

    `valid`, `behind_gaps`: valid answers and traces behind a gap, by slice; `outside`: answers outside the label space,
    by the slices of their trace; `remarks`: what policies remark on; `lacking`: (policy, verifier, cost) to the
    examples, as bits, on which a verification that the policy may pay lacks this cost; `unscored`: (policy, slice,
    verifier, what becomes of them) to the valid traces (E,) that it may verify and that have no score; `order_s`:
    seconds of orders.
    """

    valid: Counter[str]
    behind_gaps: Counter[str]
    outside: Counter[tuple[tuple[str, ...], str]]
    actions: Mapping[str, Action]
    remarks: Mapping[int, Counter[tuple[RemarkKind, str]]]
    lacking: Mapping[tuple[int, str, str], bytes]
    unscored: Mapping[tuple[int, str, str, UnscoredTreatment], Ints]
    order_s: Mapping[int, float]


@dataclass(frozen=True, eq=False)
class PassBlock:
    """The result of a pass on a block: the outcomes of every version, and counts beside them.

    `vocabulary`: answers by word; `reasons`: by the numbers of `reason`; `branches`: of policies with every threshold;
    `gains`: how much (E,), and at how many tokens (E,), policies that rank all examples gain.
    """

    ids: pl.Series
    tables: OutcomeTables
    vocabulary: pl.Series
    reasons: tuple[str, ...]
    shares: RowShares | None
    branches: Mapping[str, BranchBlock]
    gains: Mapping[str, tuple[np.ndarray, np.ndarray]]
    tally: _BlockTally
    keepers: tuple[TableStore, ...]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class PassResult:
    """The result of a pass, all blocks in example_id order; `numbers`: numeric columns of outcomes."""

    versions: PolicyVersions
    numbers: tuple[str, ...]
    blocks: list[PassBlock] = field(default_factory=list)
    keeper: TableStore = field(default_factory=TableStore)

    def add_block(self, block: LogBlock) -> None:
        """Replay every version on the next block."""
        evaluator = Evaluator(block, self.versions.evaluated_policies)
        outcomes = self.versions.outcomes(evaluator)
        groups = list(group_outcomes(outcomes))
        apart = next((group for group in groups if group.ways is None), None)
        shares = None if apart is None else _row_shares(apart)
        words = {id(group): np.stack([np.where(o.rows == 1, most_probable_answer(o), -1) for o in group.outcomes])
                 for group in groups}  # fmt: skip
        used = np.zeros(len(block.vocabulary) + 1, bool)  # the last one: null
        for numbers in words.values():
            used[numbers.ravel()] = True
        if shares is not None:
            used[shares.word] = True
        used[-1] = False
        number = np.where(used, np.cumsum(used) - 1, -1)
        known = {"served": 0}

        def tables_of_group(group: OutcomeGroup) -> dict[str, SpilledTable]:
            tables = dict(self._number_columns(block, group))
            tables |= {
                REASON: _reason_numbers(group.outcomes, known),
                ENDING: _nan_where_null(np.stack([o.ending for o in group.outcomes]), MIXED),
                WORD: _nan_where_null(number[words[id(group)]], -1),
            }
            return {name: self.keeper.store_table(table) for name, table in tables.items()}

        self.blocks.append(
            PassBlock(
                ids=block.examples["example_id"],
                tables=OutcomeTables.of_groups(groups, tables_of_group),
                vocabulary=block.vocabulary.filter(pl.Series(used[:-1])),
                reasons=tuple(known),
                shares=None if shares is None else RowShares(
                    shares.version, shares.example, number[shares.word], shares.share
                ),
                branches={
                    name: branch_block(evaluator, gate, SWEPT) for name, gate in self.versions.gates.items()
                },
                gains={name: ranking.gain(evaluator) for name, ranking in self.versions.rankings.items()},
                tally=_block_tally(block, self.versions, [outcome for outcome, _ in outcomes]),
                keepers=(self.keeper,),
            )
        )  # fmt: skip

    def append_blocks(self, blocks: Sequence[PassBlock]) -> None:
        """Append blocks of the same pass, from here or another process. ThinkbackError unless their examples come after
        these.
        """
        for block in blocks:
            if self.blocks and str(self.blocks[-1].ids[-1]) >= str(block.ids[0]):
                raise MismatchError("passes over interleaved examples do not merge: give each a range of ids, in order")
            tables = block.tables.with_each_column(self.keeper.adopt_table)
            self.blocks.append(replace(block, tables=tables, keepers=(*block.keepers, self.keeper)))

    @property
    def example_ids(self) -> pl.Series:
        return pl.concat([block.ids for block in self.blocks])

    def _number_columns(self, block: LogBlock, group: OutcomeGroup) -> list[tuple[str, Floats]]:
        parts = [outcome_values(outcome) for outcome in group.outcomes]
        empty = np.full(len(group.outcomes[0].reason), np.nan)
        tables = [(name, np.stack([part.get(name, empty) for part in parts])) for name in self.numbers]
        for name, table in tables:
            if np.isinf(table).any():
                version, row = np.argwhere(np.isinf(table))[0]
                example = np.arange(len(block.examples))[group.examples][int(row)]
                policy = self.versions.evaluated_policies[group.versions[version]].name
                raise InvalidError(
                    f"`{name}` of policy `{policy}` is infinite for "
                    f"example `{block.examples['example_id'][int(example)]}`: leave a missing value null"
                )
        return tables


def _reason_numbers(outcomes: Sequence[Outcome], known: dict[str, int]) -> Floats:
    """The numbers of the reasons of outcomes, (outcomes, E); new ones are added to the `known`."""
    table = np.zeros((len(outcomes), len(outcomes[0].reason)))
    for row, outcome in enumerate(outcomes):
        if outcome.reason.any():
            place = [0, *(known.setdefault(reason, len(known)) for reason in outcome.reasons[1:])]
            table[row] = np.array(place)[outcome.reason]
    return table


def _nan_where_null(values: np.ndarray, null: int) -> Floats:
    return np.where(values == null, np.nan, values)


def _row_shares(group: OutcomeGroup) -> RowShares | None:
    """The share of each row in the outcomes that are means over several rows; None where no version has such."""
    parts = []
    for number, outcome in zip(group.versions.tolist(), group.outcomes, strict=True):
        if (outcome.rows > 1).any():
            shares = np.ones(outcome.words.shape) if outcome.shares is None else outcome.shares
            several = np.where(outcome.rows > 1, shares, 0.0)
            row, example = np.nonzero(several)
            parts.append((np.full(len(row), number), example, outcome.words[row, example], several[row, example]))
    if not parts:
        return None
    version, example, word, share = (np.concatenate(part) for part in zip(*parts, strict=True))
    return RowShares(version, example, word.astype(np.int64), share)


def _block_tally(block: LogBlock, versions: PolicyVersions, outcomes: Sequence[Outcome]) -> _BlockTally:
    remarks: dict[int, Counter[tuple[RemarkKind, str]]] = {}
    lacking: dict[tuple[int, str, str], bytes] = {}
    interned: dict[bytes, bytes] = {}
    unscored: dict[tuple[int, str, str, UnscoredTreatment], Ints] = {}
    counts: dict[bytes, Ints] = {}
    order_s: dict[int, float] = {}
    for number, place in enumerate(versions.places[:, 0]):
        policy, _ = versions.every[place]
        for part in policy_and_parts(policy):
            for remark in part.remarks_on(block):
                remarks.setdefault(number, Counter())[remark.kind, remark.subject] += remark.count
            for payable in part.payable_verifications(block):
                for cost, bits in _unlogged_costs_payable(payable, block):
                    key = number, payable.verifier, cost
                    old = lacking.get(key, bytes(len(bits)))
                    union = (np.frombuffer(old, np.uint8) | np.frombuffer(bits, np.uint8)).tobytes()
                    lacking[key] = interned.setdefault(union, union)
                if payable.unscored.says and (count := _lacks_score(payable, block).sum(axis=1, dtype=np.int32)).any():
                    whose = number, payable.slice, payable.verifier, payable.unscored
                    most = np.maximum(unscored.get(whose, 0), count)  # policies within one read the same first traces
                    unscored[whose] = counts.setdefault(most.tobytes(), most)
        seconds = outcomes[place].order_s
        if seconds is not None:
            order_s[number] = seconds
    there = {name: pool for name, pool in block.pools.items() if pool.size.any()}
    outside: Counter[tuple[tuple[str, ...], str]] = Counter()
    for (word, slices), count in zip(*np.unique(block.outside[:, 1:], axis=0, return_counts=True), strict=True):
        outside[block.slices[slices], block.vocabulary[int(word)]] += int(count)
    return _BlockTally(
        valid=Counter({name: int((pool.code >= 0).sum()) for name, pool in there.items()}),
        behind_gaps=Counter({name: int(pool.behind_gap.sum()) for name, pool in block.pools.items()}),
        outside=outside, actions=dict(block.actions), remarks=remarks, lacking=lacking, unscored=unscored,
        order_s=order_s,
    )  # fmt: skip


def _unlogged_costs_payable(may: PayableVerifications, block: LogBlock) -> Iterator[tuple[str, bytes]]:
    """Costs that a verification may lack though a policy may pay it, each with the examples as bits."""
    scores = block.pools[may.slice].scores[may.verifier]
    imputed = _lacks_score(may, block).any(axis=1) & may.unscored.fills
    for cost in SCORE_COSTS:
        lacks = scores.lacking.get(cost)
        on = imputed if lacks is None else imputed | (lacks & (may.traces | scores.listwise_mask[:, None])).any(axis=1)
        if on.any():
            yield cost, np.packbits(on).tobytes()


def _lacks_score(may: PayableVerifications, block: LogBlock) -> np.ndarray:
    """Mask (E, T) of the valid traces that a policy may verify and that have no score."""
    return may.traces & block.pools[may.slice].unscored_by(may.verifier)
