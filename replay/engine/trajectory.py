"""A trajectory: what an order of traces reveals and costs after each step, at any of which a policy may stop.

What a policy looks at does not depend on when it stops, so each order is walked once per block. A stopping time is then
the first true step of a rule, and an outcome a gather at that step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl

from replay.data.abandoned import abandoned_slice_name, with_abandoned
from replay.data.block import LogBlock, LoggedPool, Scores, correctness_unless_null
from replay.engine.costs import AT, COSTS, GENERATED, elapsed_seconds, verification_costs
from replay.sampling.abandon import Abandon, Abandonment
from replay.sampling.learned import Calibration
from replay.sampling.orders import GeneratedTraces, Order, WalkSteps, random_keys, random_permutation
from replay.sampling.selects import Select
from toolkit.stopping.prefix import (
    NONE,
    STATISTICS,
    TRACE_SIGNALS,
    LazyArrays,
    Prefix,
    RevealedTraces,
    VoteCounts,
    first_places,
)  # fmt: skip
from toolkit.stopping.stops import StopRule, block_end_steps
from toolkit.stopping.ties import EARLIEST, TieBreak, TieRanks, VotingSteps
from toolkit.stopping.unscored import PARTIAL, UnscoredTreatment

NEVER_MISSING = np.iinfo(np.int32).max
COUNTED = {"traces": "traces", "valid": "valid_traces"}
"""Statistics of a prefix that are costs, each with the name of the cost."""
TOKENS = ("prompt_tokens", "completion_tokens", "verification_tokens")


@dataclass(frozen=True)
class Walk:
    """How a policy goes through a pool: its settings that shape a trajectory, not those that decide where it stops."""

    pool: str
    verifier: str | None
    order: Order
    seed: int
    repetition: int
    permuted: bool
    cap: int  # traces generated: at most this many
    width: int
    calibration: Calibration | None = None
    unscored: UnscoredTreatment = PARTIAL
    abandon: Abandon | None = None
    tie: TieBreak = EARLIEST
    nulls: bool = False  # whether traces without an answer vote for none
    answers_as: str | None = None  # the column of traces that stands in place of answers
    needs: StopRule | None = None  # the rule that says how many traces a block has, in place of `width`

    @property
    def abandoned_slice(self) -> str | None:
        """Slice name of the traces that the walk abandons; None where it abandons none."""
        return None if self.abandon is None else abandoned_slice_name(self.pool, self.abandon.tokens)

    @property
    def voting_text(self) -> str:
        """What a vote counts, what breaks its ties and whether nulls vote, in words; empty where all is by default."""
        column = f"votes by `{self.answers_as}`" if self.answers_as is not None else ""
        return ", ".join(filter(None, (column, self.tie.text, "no answer votes, too" if self.nulls else "")))


@dataclass(frozen=True)
class AnswersByStep:
    """The answer after each step, (E, S + 1) each: the chosen trace's judgement, and the answer's code (-1: null)."""

    judged: np.ndarray
    credit: np.ndarray
    code: np.ndarray


@dataclass(frozen=True)
class Trajectory:
    """One walk over one block. A step is a trace (generation order) or a verification (other orders).

    `pool`: the traces, the abandoned ones as they are once abandoned; `abandonment`: which these are, where some may
    be. `blocks` bool (T,) or (E, T), by place: after which traces a block ends that is generated together; None: after
    each. `place` int (E, T): the sample index at each place of the order of generation. `costs` (E, S + 1, C):
    cumulative, NaN where not logged. `missing` (E,): the first step whose verification or feature the log lacks.
    """

    walk: Walk
    pool: LoggedPool
    place: np.ndarray
    traces: GeneratedTraces
    steps: WalkSteps
    costs: np.ndarray
    generation: (
        np.ndarray
    )  # (E, S, C) cumulative costs of generation, and of what decides which traces are abandoned, by place
    missing: np.ndarray
    revealed: RevealedTraces
    answers: np.ndarray  # (E, A) of what votes are for, as numbers of the vocabulary
    vocabulary: pl.Series  # of the block
    listwise: np.ndarray  # (E,) verified in one call by a listwise verifier
    examples: pl.DataFrame  # of the block
    abandonment: Abandonment | None = None
    blocks: np.ndarray | None = None
    _chosen: dict[Select, np.ndarray] = field(default_factory=dict, init=False, repr=False)
    _results: dict[Select, AnswersByStep] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_generated(self) -> np.ndarray:
        """How many traces (E,) the walk may generate: those that the log has, up to the cap."""
        return self.traces.count

    @property
    def evaluated_steps(self) -> np.ndarray | None:
        """The steps after which a stopping rule is evaluated, bool (S,) or (E, S); None: after each."""
        return None if self.walk.order.verifies_later else self.blocks

    @property
    def sample_index(self) -> np.ndarray:
        """Sample index of the trace that each step reveals (E, S)."""
        return np.take_along_axis(self.place, self.steps.at, axis=1)

    @property
    def has_nothing_to_verify(self) -> np.ndarray:
        """Whether (E,) the order runs out of traces before its cap, unless a rule stops it earlier."""
        if self.steps.final is None:
            return np.zeros(len(self.steps.limit), dtype=bool)
        return self.steps.final < self.n_generated

    @property
    def scores(self) -> Scores | None:
        """The scores of the walk's verifier on its pool; None where it has no verifier."""
        return self.pool.scores[self.walk.verifier] if self.walk.verifier is not None else None

    @property
    def is_verifiable(self) -> np.ndarray:
        """Which traces the walk verifies once it comes to them, by sample index: bool (E, T)."""
        code = self.pool.code
        return (code if self.scores is None else self.walk.unscored.verified_codes(code, self.scores.score)) >= 0

    @property
    def counts_as_null_vote(self) -> np.ndarray:
        """Which traces have no answer and count as votes for none, by sample index: bool (E, T)."""
        return _null_vote_mask(self.walk, self.pool, self.abandonment)

    def n_paid(self, step: np.ndarray) -> np.ndarray:
        """How many traces (E,) are generated when the walk ends at `step` (E,)."""
        return self.costs[np.arange(len(step)), step, AT["traces"]].astype(np.int64)

    def is_among_first(self, order: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Mask (E, T) of the sample indices that are among the first `steps` (E,) of an order (E, S)."""
        mask = np.zeros(self.pool.code.shape, dtype=bool)
        row, step = np.nonzero(np.arange(order.shape[1]) < steps[:, None])
        mask[row, order[row, step]] = True  # an order may repeat its last one beyond its end
        return mask

    def generated_among(self, traces: np.ndarray, count: np.ndarray) -> np.ndarray:
        """Mask (E, T) of the `traces` (E, T) that are among the first `count` (E,) generated."""
        return traces & self.is_among_first(self.place, count)

    @cached_property
    def unread_features(self) -> np.ndarray:
        """Mask (F, E) of the features that are null for an unverified trace at the first choice that needs them."""
        steps = self.steps
        if steps.unread is None or steps.generated is None:
            return np.zeros((0, len(self.steps.limit)), dtype=bool)
        number = np.arange(steps.at.shape[1])
        step = np.minimum(steps.unread, len(number))
        generated = np.take_along_axis(steps.generated, step[:, None], axis=1)
        open_ = (np.arange(self.place.shape[1]) < generated) & (self.traces.verified_code >= 0)
        row, before = np.nonzero(number < np.minimum(step - 1, steps.count)[:, None])
        open_[row, steps.at[row, before]] = False
        return (np.isnan(self.traces.features) & open_).any(axis=-1)

    @cached_property
    def stop_prefix(self) -> Prefix:
        """The statistics that a stopping rule may read."""
        return Prefix(
            statistics=LazyArrays(STATISTICS, self._prefix_statistic),
            features=LazyArrays(self.pool.features, lambda name: self._values_by_step(self.pool.features[name])),
            examples=LazyArrays(self.examples.columns, lambda name: _example_values(self.examples[name])),
            revealed=self.revealed,
            signals=LazyArrays(TRACE_SIGNALS.values(), lambda name: self._values_by_step(self.pool.trace_column(name))),
            answer_matches=LazyArrays(make=self._matches_answer),
        )

    @cached_property
    def scored_prefix(self) -> Prefix:
        """The statistics that a select may read: those by the logged scores, which a calibration does not change."""
        if self.walk.calibration is None:
            return self.stop_prefix
        known, lead = self.stop_prefix.statistics, self.revealed.best_scores.lead
        by_score = LazyArrays(STATISTICS, lambda name: lead if name == "lead" else known[name])
        return replace(self.stop_prefix, statistics=by_score)

    def _prefix_statistic(self, name: str) -> np.ndarray:
        """A statistic after each step (E, S); the lead is that of calibrated scores, if the walk calibrates."""
        paid, revealed, calibration = self.costs[:, 1:], self.revealed, self.walk.calibration
        if name in COUNTED:
            return _counts_or_zero(paid[..., AT[COUNTED[name]]])
        if name == "completion_tokens":
            return paid[..., AT[name]]
        if name == "tokens":
            prompt, completion, checks = (AT[cost] for cost in TOKENS)
            return paid[..., prompt] + paid[..., completion] + paid[..., checks]
        if name == "last_score":
            return revealed.score
        if name == "lead" and calibration is not None:
            return revealed.best_scores_by(calibration.calibrate(revealed.score)).lead
        return getattr(revealed.vote_counts if name in VoteCounts.__dataclass_fields__ else revealed.best_scores, name)

    def _matches_answer(self, text: str) -> np.ndarray:
        """Whether the answer that each step reveals is a text, bool (E, S)."""
        number = self.vocabulary.index_of(text)
        answers = np.pad(self.answers, ((0, 0), (0, 1)), constant_values=NONE)  # behind all: of no answer
        word = np.take_along_axis(answers, self.revealed.code.astype(np.int64), axis=1)
        return np.asarray((word >= 0) & (word == (NONE if number is None else number)))

    def _values_by_step(self, values: np.ndarray) -> np.ndarray:
        """Values of traces (E, T) for the trace that each step reveals (E, S), NaN where there is none."""
        looked_at = np.arange(self.steps.at.shape[1]) < self.steps.count[:, None]
        return np.where(looked_at, np.take_along_axis(values, self.sample_index, axis=1), np.nan)

    def chosen_places(self, select: Select) -> np.ndarray:
        """Place of the chosen trace at each step, 0 to S: int32 (E, S + 1); -1 where nothing is predicted."""
        if select not in self._chosen:
            place = select.decide_checked(self.scored_prefix).astype(np.int32)
            nothing = np.full((len(place), 1), NONE, dtype=np.int32)
            self._chosen[select] = np.concatenate([nothing, place], axis=1)
        return self._chosen[select]

    def chosen_sample(self, select: Select, step: np.ndarray) -> np.ndarray:
        """Sample index (E,) of the trace chosen when the walk ends at `step` (E,); of the first where none is."""
        place = self.chosen_places(select)[np.arange(len(step)), step]
        at = np.where(place >= 0, place, 0)[:, None]
        return np.take_along_axis(self.place, at, axis=1)[:, 0]

    def answers_by_step(self, select: Select) -> AnswersByStep:
        """What a select would answer after each step 0, 1, ... S."""
        if select not in self._results:
            chosen = self.chosen_places(select)
            sample = np.take_along_axis(self.place, np.maximum(chosen, 0), axis=1)
            self._results[select] = AnswersByStep(
                judged=correctness_unless_null(np.take_along_axis(self.pool.judged, sample, axis=1), chosen >= 0),
                credit=np.take_along_axis(self.pool.credit, sample, axis=1),
                code=np.where(chosen >= 0, np.take_along_axis(self.pool.code, sample, axis=1), -1),
            )
        return self._results[select]


def _example_values(values: pl.Series) -> np.ndarray:
    """A column of examples as an array: numbers as float, NaN for null; texts as they are."""
    if values.dtype.is_numeric() or values.dtype == pl.Boolean:
        return np.array(values.cast(pl.Float64).fill_null(np.nan).to_numpy())
    return np.array(values.cast(pl.String).to_numpy(), dtype=object)


def _counts_or_zero(values: np.ndarray) -> np.ndarray:
    """Counts as int32; 0 where a count is NaN, beyond a pool's end."""
    return np.nan_to_num(values).astype(np.int32)


def walk_block(block: LogBlock, walk: Walk) -> Trajectory:
    """Walk through one pool of a block, for all examples at once."""
    pool, abandonment = block.pools[walk.pool], None
    if walk.abandon is not None and walk.abandoned_slice is not None:
        abandonment = find_abandoned(pool, walk.abandon)
        pool = with_abandoned(pool, block.pools[walk.abandoned_slice], abandonment.abandoned)
    scores = pool.scores[walk.verifier] if walk.verifier is not None else None
    keys = None
    if walk.permuted or walk.order.drawn or walk.tie.drawn:
        logged = pool.code.shape[1] + (pool.struck is not None)
        keys = random_keys(block.example_hashes, walk.seed, walk.repetition, logged)
        keys = keys if pool.struck is None else np.delete(keys, pool.struck, axis=1)  # the others' order stays
    place = _generation_places(pool, keys if walk.permuted else None, walk.cap)
    voting = pool.with_answers_from(walk.answers_as)
    traces = _generated_traces(voting, scores, walk, place, keys)
    listwise = scores.listwise_mask if scores is not None else np.zeros(len(place), dtype=bool)
    steps = walk.order.walk_steps(traces.visible_part(walk.order.reads))
    looked_at = np.arange(steps.at.shape[1]) < steps.count[:, None]
    code = np.where(looked_at, np.take_along_axis(traces.code, steps.at, axis=1), -1)
    score = np.where(looked_at, np.take_along_axis(traces.score, steps.at, axis=1), np.nan)
    sample = np.take_along_axis(place, steps.at, axis=1)
    first, nulls = first_places(traces.code, voting.n_codes), None
    if walk.nulls:
        null = np.take_along_axis(_null_vote_mask(walk, pool, abandonment), place, axis=1)
        null &= np.arange(place.shape[1]) < traces.count[:, None]
        first = first_places(np.where(null, voting.n_codes, traces.code), voting.n_codes + 1)
        nulls = np.take_along_axis(null, steps.at, axis=1) & looked_at
    revealed = RevealedTraces(code, score, steps.at, first, voting.n_codes, scores is not None, walk.unscored, nulls)
    revealed = replace(revealed, ranks=_tie_ranks(block, walk, voting, revealed, keys, sample))
    blocks = _evaluated_block_ends(walk, revealed, place.shape[1])
    generation = _generation_costs(pool, place, traces.code >= 0, blocks)
    if walk.abandon is not None and abandonment is not None:
        checked = np.take_along_axis(abandonment.checked, place, axis=1)
        generation += _verification_costs(pool.scores[walk.abandon.verifier], place, checked)
    costs = np.concatenate([np.zeros_like(generation[:, :1]), generation], axis=1)
    if steps.generated is not None:
        costs = np.take_along_axis(costs, steps.generated[..., None], axis=1)
    if scores is not None:
        verified = walk.unscored.verified_codes(code, score)
        costs[:, 1:] += _verification_costs(scores, sample, (verified >= 0) & ~listwise[:, None])
        missing = _first_missing_step(verified, score)
    else:
        missing = np.full(len(code), NEVER_MISSING, dtype=np.int32)
    return Trajectory(
        walk=walk,
        pool=pool,
        place=place,
        traces=traces,
        steps=steps,
        costs=costs,
        generation=generation,
        missing=missing if steps.unread is None else np.minimum(missing, steps.unread),
        revealed=revealed,
        answers=voting.vocabulary_number_of_code,
        vocabulary=block.vocabulary,
        listwise=listwise,
        examples=block.examples,
        abandonment=abandonment,
        blocks=blocks,
    )


def _null_vote_mask(walk: Walk, pool: LoggedPool, abandonment: Abandonment | None) -> np.ndarray:
    """Mask (E, T) of the traces that vote for no answer, by sample index. An abandoned trace has no vote."""
    if not walk.nulls:
        return np.zeros(pool.code.shape, dtype=bool)
    nulls = pool.has_trace & (pool.code < 0)
    return nulls if abandonment is None else nulls & ~abandonment.abandoned


def _tie_ranks(
    block: LogBlock, walk: Walk, pool: LoggedPool, revealed: RevealedTraces, keys: np.ndarray | None, sample: np.ndarray
) -> TieRanks | None:
    """The ranks that break ties between the traces `sample` (E, S) of steps; None: the order of generation."""
    drawn = None if keys is None else np.take_along_axis(keys, sample, axis=1)
    words = np.pad(pool.vocabulary_number_of_code, ((0, 0), (0, 1)), constant_values=-1)
    return walk.tie.ranks(VotingSteps(revealed.voted_code, drawn, words, block.vocabulary))


def _evaluated_block_ends(walk: Walk, revealed: RevealedTraces, places: int) -> np.ndarray | None:
    """The traces that end a block which is generated together, by place: bool (T,) or (E, T); None: after each."""
    if walk.needs is not None:
        return block_end_steps(walk.needs, _generation_statistics(revealed))
    return None if walk.width == 1 else np.arange(1, places + 1) % walk.width == 0


def _generation_statistics(revealed: RevealedTraces) -> Prefix:
    """The statistics of votes and verifications of a walk whose steps each generate a trace."""
    steps = np.broadcast_to(np.arange(1, revealed.code.shape[1] + 1, dtype=np.int32), revealed.code.shape)

    def statistic_named(name: str) -> np.ndarray:
        return getattr(revealed.vote_counts if name in VoteCounts.__dataclass_fields__ else revealed.best_scores, name)

    return Prefix(
        LazyArrays(STATISTICS, lambda name: steps.copy() if name == "traces" else statistic_named(name)),
        revealed=revealed,
    )


def find_abandoned(pool: LoggedPool, abandon: Abandon) -> Abandonment:
    """Which traces of a pool a policy abandons. A listwise call scores none early: it ranks whole traces."""
    scores = pool.scores[abandon.verifier]
    alone = np.where(scores.listwise_mask[:, None], np.nan, scores.score)
    return abandon.decide(pool.has_trace, pool.costs["completion_tokens"], alone)


def _generated_traces(
    pool: LoggedPool, scores: Scores | None, walk: Walk, place: np.ndarray, keys: np.ndarray | None
) -> GeneratedTraces:
    count = np.minimum(pool.size, walk.cap)
    there = np.arange(place.shape[1]) < count[:, None]
    code = np.where(there, np.take_along_axis(pool.code, place, axis=1), -1)
    score = np.full(code.shape, np.nan)
    if scores is not None:
        read_scores = walk.unscored.fill_scores(scores.score, ~scores.listwise_mask)
        score = np.where(code >= 0, np.take_along_axis(read_scores, place, axis=1), np.nan)
    random_keys = np.take_along_axis(keys, place, axis=1) if keys is not None and walk.order.drawn else None
    read = [np.take_along_axis(pool.features[name], place, axis=1) for name in walk.order.features]
    features = np.stack(read) if read else np.zeros((0, *place.shape))
    return GeneratedTraces(code, score, random_keys, features, count, walk.unscored)


def _generation_places(pool: LoggedPool, keys: np.ndarray | None, cap: int) -> np.ndarray:
    """Sample index at each place of the order of generation: int32 (E, min(cap, T))."""
    steps = min(cap, pool.code.shape[1])
    if keys is None:
        return np.broadcast_to(np.arange(steps, dtype=np.int32), (len(pool.size), steps))
    return random_permutation(keys, pool.size)[:, :steps]


def _generation_costs(pool: LoggedPool, place: np.ndarray, valid: np.ndarray, ends: np.ndarray | None) -> np.ndarray:
    """Cumulative costs of generating (E, S, C), the verification columns zero; `valid` (E, S): the valid traces.

    `ends`: after which traces a block of them ends that run side by side.
    """
    costs, flat = np.zeros((*place.shape, len(COSTS))), _flat_indices(place, pool.code.shape[1])
    costs[..., AT["traces"]] = np.arange(1, place.shape[1] + 1)
    costs[..., AT["valid_traces"]] = np.cumsum(valid, axis=1)
    paid = {name: values.take(flat) for name, values in pool.costs.items()}
    if pool.shared is not None:
        again = pool.shared.shares_earlier_reply(place)
        for name, part in pool.shared.costs.items():
            paid[name] = np.where(again, paid[name] - part.take(flat), paid[name])
    for name, values in paid.items():
        costs[..., AT[GENERATED.get(name, name)]] = np.cumsum(values, axis=1)
    costs[..., AT["latency_s"]] = elapsed_seconds(paid["latency_s"], ends)
    return costs


def _verification_costs(scores: Scores, place: np.ndarray, on: np.ndarray) -> np.ndarray:
    """Cumulative costs (E, S, C) of the verifications in `on` (E, S); a listwise verifier's are charged at the end."""
    costs, flat = np.zeros((*place.shape, len(COSTS))), _flat_indices(place, scores.score.shape[1])
    costs[..., AT["verifications"]] = np.cumsum(on, axis=1)
    for column, values in verification_costs(scores.costs):
        costs[..., column] = np.cumsum(np.where(on, values.take(flat), 0.0), axis=1)
    return costs


def _flat_indices(place: np.ndarray, width: int) -> np.ndarray:
    """Places (E, S) as indices into a flattened array (E, width); to take from that is seven times as fast."""
    return place + np.arange(len(place))[:, None] * width


def listwise_costs(trajectory: Trajectory) -> np.ndarray:
    """Costs (E, C) of the one call of a listwise verifier; zero on the examples without one."""
    costs = np.zeros((len(trajectory.steps.limit), len(COSTS)))
    scores, on = trajectory.scores, trajectory.listwise
    if scores is None or not on.any():
        return costs
    costs[on, AT["verifications"]] = 1
    for column, values in verification_costs(scores.costs):
        costs[on, column] = values[on].sum(axis=1)
    return costs


def _first_missing_step(verified: np.ndarray, score: np.ndarray) -> np.ndarray:
    """First step (from 1) whose verification the log lacks; NEVER_MISSING where it has all.

    `verified` (E, S): the answers that steps verify, -1 for none.
    """
    lacks: np.ndarray = (verified >= 0) & np.isnan(score)
    return np.where(lacks.any(axis=1), lacks.argmax(axis=1) + 1, NEVER_MISSING).astype(np.int32)
