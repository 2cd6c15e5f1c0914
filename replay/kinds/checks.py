"""Checks of unfolding text, as arrays: which claims are followed, when one is refuted, what was paid until then.

Rows are the R rows of a pool of `checks` in the order in which they happened: by example, the stream before the
revisions, then by position, claim and round. A claim's rows have numbers from 0, its rounds. There are G claims and E
examples; a `none` row is a claim of its own, in which nothing was extracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from toolkit.table_rows import TableRows

STREAM, REVISION = 0, 1
NOT_ENOUGH, SUPPORTED, REFUTED, NO_CLAIM = range(4)
STAGES = "stream", "revision"
VERDICTS = "not_enough", "supported", "refuted", "none"
"""Stages and verdicts in the order of their numbers."""
NEVER = np.iinfo(np.int64).max
"""The time of what does not happen."""


def _order_of_rows(*keys: np.ndarray) -> np.ndarray:
    """The rows (N,) by `keys` (N,) each, the first above the others; equal rows stay in their order."""
    joint = _joint_sort_key(*keys)
    if (joint[1:] >= joint[:-1]).all():
        return np.arange(len(joint))
    return np.argsort(joint, kind="stable")


def _joint_sort_key(*keys: np.ndarray) -> np.ndarray:
    """One integer (N,) for each row, in the order of whole numbers `keys` (N,) each, the first above the others."""
    joint, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys if len(joint) else ():
        low, high = int(key.min()), int(key.max())
        if size * (high - low + 1) > NEVER:  # as many as there are rows are enough to tell them apart
            joint, size = np.unique(joint, return_inverse=True)[1].astype(np.int64), len(joint)
        joint, size = joint * (high - low + 1) + (key - low).astype(np.int64), size * (high - low + 1)
    return joint


def _number_equal_rows(*keys: np.ndarray) -> np.ndarray:
    """The number (N,) of each row among the distinct ones by `keys` (N,) each, in the order of these."""
    joint = _joint_sort_key(*keys)
    differs = np.append(True, joint[1:] != joint[:-1])[: len(joint)]
    if (joint[1:] >= joint[:-1]).all():
        return np.cumsum(differs) - 1
    return np.unique(joint, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class ClaimRows:
    """The claims of a pool on a block, (G,) each: by example, then claim number.

    `row`: where the rounds of each begin among the table's rows; `decided`: the round that supports or refutes it, or
    its number of rounds.
    """

    example: np.ndarray
    stage: np.ndarray
    named: np.ndarray
    row: np.ndarray
    rounds: np.ndarray
    decided: np.ndarray


@dataclass(frozen=True)
class RowTimes:
    """The times of rows (R,): `begin` and `end`, places in one order of all that happens, and the words `heard` at the
    end, NaN where a second until then is not logged. `lacks_begin`, `lacks_end` (R,) bool: whether a row of the stream
    has its place without a second that is not logged.
    """

    begin: np.ndarray
    end: np.ndarray
    heard: np.ndarray
    lacks_begin: np.ndarray
    lacks_end: np.ndarray


@dataclass(frozen=True)
class Checks:
    """The checks of a pool on a block, with what policies share."""

    rows: TableRows

    @property
    def examples(self) -> int:
        return len(self.rows.size)

    @cached_property
    def verdict(self) -> np.ndarray:
        """Verdicts (R,) in the table's order."""
        return self.rows.codes("verdict", VERDICTS)

    @cached_property
    def gold_verdict(self) -> np.ndarray:
        """The label of each claim (G,) itself, -1 where it was not annotated."""
        return self.rows.codes("gold_verdict", VERDICTS)[self.claims.row]

    @cached_property
    def stage_codes(self) -> np.ndarray:
        return self.rows.codes("stage", STAGES)

    @cached_property
    def round_numbers(self) -> np.ndarray:
        return self.rows.numbers("round").astype(np.int64)

    @cached_property
    def confidence(self) -> np.ndarray:
        """Confidence (R,), 1 where none is logged."""
        confidence = self.rows.numbers("confidence")
        return np.where(np.isnan(confidence), 1.0, confidence)

    @cached_property
    def claim_of_row(self) -> np.ndarray:
        """The claim of each row (R,), by number of `claims`."""
        return np.cumsum(self.round_numbers == 0) - 1

    @cached_property
    def time_order(self) -> np.ndarray:
        """The place of each row (R,) among all in the order in which they happened."""
        rows, example = self.rows, self.rows.example
        keys = (example, self.stage_codes, rows.numbers("position"), rows.numbers("claim"), self.round_numbers)
        time = np.empty(len(example), np.int64)
        time[_order_of_rows(*keys)] = np.arange(len(example))
        return time

    @cached_property
    def times(self) -> RowTimes:
        """The times of rows where the text waits for them: each happens at once, at its logged position."""
        known = np.zeros(len(self.time_order), bool)
        return RowTimes(self.time_order, self.time_order, self.rows.numbers("position"), known, known)

    def times_by_clock(self, words_per_second: float) -> RowTimes:
        """The times of rows where the text goes on: a claim begins at the word of its first round, and its rounds
        follow each other. The stream is before the revisions, whose claims follow each other as they are logged.
        """
        total, unlogged = np.nan_to_num(self.seconds), np.isnan(self.seconds)
        for number in range(1, int(self.round_numbers.max(initial=0)) + 1):
            rows = np.flatnonzero(self.round_numbers == number)
            total[rows] += total[rows - 1]
            unlogged[rows] |= unlogged[rows - 1]
        begin, later = self.claim_column("position")[self.claim_of_row], self.round_numbers > 0
        before, unlogged_before = (np.where(later, np.roll(part, 1), 0) for part in (total, unlogged))
        stream = self.stage_codes == STREAM
        events = np.concatenate([begin + words_per_second * part for part in (before, total)])
        twice = [np.tile(part, 2) for part in (self.time_order, self.stage_codes, self.rows.example)]
        ends = np.repeat([False, True], len(begin))
        words = np.where(np.tile(stream, 2), events, 0.0)
        place = np.empty(len(events), np.int64)
        place[np.lexsort((ends, twice[0], words, *twice[1:]))] = np.arange(len(events))
        heard = np.where(unlogged, np.nan, events[len(begin) :])
        lacks = (part.astype(bool) & stream for part in (unlogged_before, unlogged))
        return RowTimes(place[: len(begin)], place[len(begin) :], heard, *lacks)

    @cached_property
    def claims(self) -> ClaimRows:
        first = np.flatnonzero(self.round_numbers == 0)
        rounds = np.diff(np.append(first, len(self.round_numbers)))
        ends = np.where((self.verdict == SUPPORTED) | (self.verdict == REFUTED), self.round_numbers, NEVER)
        decided = np.minimum.reduceat(ends, first) if len(first) else first
        named = self.verdict[first] != NO_CLAIM
        return ClaimRows(
            self.rows.example[first], self.stage_codes[first], named, first, rounds, np.minimum(decided, rounds)
        )  # fmt: skip

    def rank_in_group(self, group: np.ndarray, among: np.ndarray) -> np.ndarray:
        """The place of each claim (G,) among those of its `group` (G,) that are `among` (G,) bool, by claim number."""
        order = np.argsort(group, kind="stable")
        counts = np.cumsum(among[order])
        begin = np.concatenate([[True], np.diff(group[order]) != 0]) if len(order) else np.zeros(0, bool)
        before = np.maximum.accumulate(np.where(begin, counts - among[order], 0))
        rank = np.empty(len(order), np.int64)
        rank[order] = counts - before - 1
        return rank

    def claim_column(self, column: str) -> np.ndarray:
        """A column (G,) that is the same on all rows of a claim; NaN for null."""
        return self.rows.numbers(column)[self.claims.row]

    @cached_property
    def place_in_text(self) -> np.ndarray:
        """The place of each claim (G,) among those of its stage and text that name one."""
        return self.rank_in_group(2 * self.claims.example + self.claims.stage, self.claims.named)

    @cached_property
    def unit_number_of_claim(self) -> np.ndarray:
        """The number of each claim's unit (G,), such as a sentence, over all texts; of revisions apart."""
        unit = self.claim_column("unit")
        return _number_equal_rows(self.claims.example, self.claims.stage, np.nan_to_num(unit, nan=-1))

    @cached_property
    def place_in_unit(self) -> np.ndarray:
        """The place of each claim (G,) among those of its unit that name one."""
        return self.rank_in_group(self.unit_number_of_claim, self.claims.named)

    def count_by_example(self, claims: np.ndarray) -> np.ndarray:
        """How many claims of a mask (G,) each example has, (E,)."""
        return np.bincount(self.claims.example[claims], minlength=self.examples)

    @cached_property
    def seconds(self) -> np.ndarray:
        return self.rows.numbers("latency_s")

    @cached_property
    def parallel_group(self) -> np.ndarray:
        """What each claim (G,) runs side by side with: claims of a stream that begin at the same word of a text."""
        claims = self.claims
        position = self.claim_column("position")
        alone = np.where(claims.stage == REVISION, np.arange(len(claims.row)), -1)
        return _number_equal_rows(claims.example, claims.stage, position, alone)

    def seconds_along_path(self, values: np.ndarray, paid: np.ndarray) -> np.ndarray:
        """Values of rows (R,) along the path (E,): the rounds of a claim follow each other, claims of a group run side
        by side, and each group takes as long as its slowest. NaN where a paid value is.
        """
        claims = self.claims
        if not len(claims.row):
            return np.zeros(self.examples)
        total = np.add.reduceat(np.where(paid, values, 0.0), claims.row)
        slowest = np.zeros(int(self.parallel_group.max()) + 1)
        unknown = np.isnan(total)
        np.maximum.at(slowest, self.parallel_group, np.where(unknown, 0.0, total))
        example = np.zeros(len(slowest), np.int64)
        example[self.parallel_group] = claims.example
        out = np.bincount(example, weights=slowest, minlength=self.examples)
        out[claims.example[unknown]] = np.nan
        return out


@dataclass(frozen=True)
class ClaimWalk:
    """What a policy does with the claims: `run` (G,): rounds that it would run; `refuted` (G,): whether they end in a
    refutation that counts; `buzz` (E,): the row of the one that it acts on, -1 where none is; `paid` (R,) bool;
    `times`: when rows happen.
    """

    checks: Checks
    times: RowTimes
    run: np.ndarray
    refuted: np.ndarray
    buzz: np.ndarray
    paid: np.ndarray

    @property
    def buzz_time(self) -> np.ndarray:
        """The time of the buzz (E,), NEVER where there is none."""
        end = self.times.end
        return np.where(self.buzz >= 0, end[self.buzz], NEVER) if len(end) else self.buzz * 0

    @cached_property
    def buzzes_in_stream(self) -> np.ndarray:
        """The texts (E,) on which it buzzes while words arrive."""
        stage = self.checks.stage_codes
        return (self.buzz >= 0) & (stage[self.buzz] == STREAM) if len(stage) else np.zeros(len(self.buzz), bool)

    @property
    def lacks_seconds(self) -> np.ndarray:
        """The texts (E,) on which seconds that are not logged may change what is refuted, or paid, before it acts."""
        example, times = self.checks.rows.example, self.times
        counted = np.zeros(len(example), bool)
        counted[self.last_row_of_claim[self.refuted]] = True
        by_then = self.buzz_time[example]
        open_ = (counted & times.lacks_end & (times.end <= by_then)) | (
            self.paid & times.lacks_begin & (times.begin <= by_then)
        )
        return np.bincount(example[open_], minlength=self.checks.examples) > 0

    @property
    def logged_end_times(self) -> np.ndarray:
        """The time of the last logged row of each claim (G,)."""
        claims = self.checks.claims
        return self.times.end[claims.row + claims.rounds - 1]

    @property
    def last_row_of_claim(self) -> np.ndarray:
        """The last row that each claim (G,) would run, its first where none."""
        return self.checks.claims.row + np.maximum(self.run - 1, 0)


def follow_claims(
    checks: Checks, followed: np.ndarray, max_rounds: int | None, confidence: np.ndarray, patience: int,
    reach: np.ndarray, to_end: bool, times: RowTimes,
) -> ClaimWalk:  # fmt: skip
    """The claims `followed` (G,) bool, each up to its verdict or `max_rounds`; the buzz at the `patience`-th that is
    refuted with at least the `confidence` (E,), by `times`. `reach` (E,): where revisions may be reached. `to_end`: the
    whole stream is paid.
    """
    claims = checks.claims
    most = NEVER if max_rounds is None else max_rounds
    run = np.where(followed | ~claims.named, np.minimum(np.minimum(claims.decided + 1, claims.rounds), most), 0)
    run = np.where(claims.named, run, 1)
    run = np.where((claims.stage == REVISION) & ~reach[claims.example], 0, run)
    decided = claims.row + np.minimum(claims.decided, claims.rounds - 1)
    refuted = (claims.decided < run) & (checks.verdict[decided] == REFUTED)
    refuted &= checks.confidence[decided] >= confidence[claims.example]
    rows = decided[refuted]
    rows = rows[np.argsort(times.end[rows], kind="stable")]
    example = checks.rows.example[rows]
    number = np.arange(len(rows)) - np.searchsorted(example, example)
    buzz = np.full(checks.examples, -1, np.int64)
    buzz[example[number == patience - 1]] = rows[number == patience - 1]
    active = checks.round_numbers < run[checks.claim_of_row]
    before = ClaimWalk(checks, times, run, refuted, buzz, active)
    paid = active & (times.begin <= before.buzz_time[checks.rows.example])
    if to_end:
        paid |= active & (checks.stage_codes == STREAM)
    return ClaimWalk(checks, times, run, refuted, buzz, paid)
