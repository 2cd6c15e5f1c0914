"""Kind `sample`: order x stop x select over one pool of traces."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from replay.data.abandoned import SECONDS, abandoned_slice_name, seconds_column
from replay.data.block import TRACE_COSTS, LogBlock, LoggedPool
from replay.data.contents import Contents
from replay.data.fitted_scores import score_timing_problem
from replay.data.needs import Needs
from replay.engine.calls import ChosenTraces, PolicyPath, Realization
from replay.engine.cuts import StopConditions, find_stops, paid_segment, partial_reasons
from replay.engine.expectation import expected_outcome, mean_over_orders, paid_calls_over_orders
from replay.engine.fitting import fit_calibration, fit_prior
from replay.engine.outcome import Outcome, OutcomeSums
from replay.engine.positions import PEOPLE, POSITION, POSITION_COLUMNS, ThresholdSteps, add_positions, last_positions
from replay.engine.sets import SET_COLUMNS, add_set_columns, fit_conformal
from replay.engine.trajectory import Trajectory, Walk, find_abandoned, listwise_costs, walk_block
from replay.kinds.stages import abandon_stage, pool_stages, reason_of_end, set_stage, step_stages
from replay.policies.base import Evaluator, ExplanationStage, Fit, Policy, policy_errors
from replay.policies.remarks import Counts, PayableVerifications, Remark, RemarkKind
from replay.sampling.abandon import Abandon
from replay.sampling.known import STOP, read_order, read_select, rule_of_order, rule_of_select, with_order_keys
from replay.sampling.learned import LEARNED, Calibration, Conformal, LearnedSetting, NullRows, Prior
from replay.sampling.orders import GenerationOrder, Order
from replay.sampling.selects import Select
from replay.sampling.surrogate import LABEL_SCORES, MODES
from toolkit.columns import OutcomeColumn, find
from toolkit.errors import (
    InvalidError,
    LeakageError,
    RequiredError,
    UnsuitableError,
    argument,
    counted,
    listed,
    quote,
    suggest,
)
from toolkit.notes import Severity
from toolkit.settings import MOST, as_kind, from_table, setting
from toolkit.stopping.declared import EXAMPLE, FEATURE, SIGNAL, Rule, columns_read
from toolkit.stopping.prefix import SCORES, VOTES, Prefix
from toolkit.stopping.stops import Never, StopRule
from toolkit.stopping.ties import EARLIEST, TIES
from toolkit.stopping.unscored import PARTIAL, WAYS, UnscoredTreatment

NEEDED = "needed"
"""The value of `width` for blocks of as many traces as the stop needs if all of them agree."""
WHOLE_POOL = np.iinfo(np.int32).max
"""A cap larger than any pool."""


def _parse_width(given: Any, place: str) -> int | str:
    width = as_kind(int, given)
    if (isinstance(given, str) and given == NEEDED) or (width is not None and 1 <= width <= MOST):
        return NEEDED if width is None else int(width)
    label = f"`{place}`" if place else argument("width")
    raise InvalidError(f'{label} is {quote(given)}; it takes an integer, at least 1, or "{NEEDED}"')


@dataclass(frozen=True, kw_only=True)
class Sample(Policy, kind="sample", last_step=True, single_by="leave out `orders` and `expected`"):
    """Order x stop x select over one pool of traces.

    `max_traces` is the cap on attempts, which a pool with positions may leave out; `verifier` names the scores
    used; `orders = K` averages over K seeded permutations of the whole logged pool; `expected` gives the exact mean
    over all orders, of the pool or of verifying; `width` generates that many traces at a time, with the rule looked
    at after each block, or (`needed`) as many as the rule needs if all agree; `tie` says which answer wins a vote
    that ties, `nulls` whether no answer has votes; `on_missing = "use_available"` lets the cap shrink to the pool;
    `on_unscored` says what becomes of a valid trace without a score.
    `abandon` abandons traces that score low after their first tokens.
    `features`, `mode`, `bootstrap`, `ridge`, `forgetting`, `bonus`, `unseen`, `label_score` and `prior` are the
    order `surrogate`'s; `calibration` is the stop `margin`'s; `conformal` makes prediction sets.
    """

    max_traces: int = setting(WHOLE_POOL, low=1)
    pool: str | None = setting(None, what="a name")
    verifier: str | None = setting(None, what="a name")
    order: str | Order = "generation"
    stop: StopRule = field(default_factory=Never)
    select: str | Select = "best"
    seed: int = setting(0)
    orders: int | None = setting(None, low=1, high=100_000)
    expected: bool = setting(False)
    width: int | str = setting(1, read=_parse_width)
    answers_as: str | None = setting(None, what="a name")
    tie: str = setting(EARLIEST.name, choices=TIES)
    nulls: str = setting("skip", choices=("skip", "vote"))
    on_missing: str = setting("partial", choices=("partial", "use_available"))
    on_unscored: str = setting("partial", choices=WAYS)
    features: tuple[str, ...] = setting((), what="different names of columns of features")
    mode: str = setting("lazy", choices=MODES)
    bootstrap: int = setting(3, low=1)
    ridge: float = setting(1.0, above=0)
    forgetting: float = setting(1.0, above=0, high=1)
    bonus: float = setting(0.0, low=0)
    unseen: float = setting(0.5, above=-np.inf, below=np.inf, what="a finite number")
    label_score: str = setting("mean", choices=LABEL_SCORES)
    prior: Prior | None = setting(None, read=partial(from_table, Prior))
    calibration: Calibration | None = setting(None, read=partial(from_table, Calibration))
    conformal: Conformal | None = setting(None, read=partial(from_table, Conformal))
    abandon: Abandon | None = setting(None)
    lowest_score: float | None = setting(None, key=False)  # that traces without a score get, of its pool of the log
    positioned: bool = setting(False, key=False)  # whether the traces of its pool of the log have positions

    # ---- settings ----

    @classmethod
    def from_table(cls, table: Mapping[str, Any], rule_classes: Mapping[str, type]) -> Self:
        """The policy from its keys; `stop` and `select` may be a user's rules, and `order` a table."""
        table = with_order_keys(table, [field.name for field in fields(cls)])
        read = {"stop": STOP.read_rule, "select": read_select}
        rules = {key: read[key](table[key], rule_classes) for key in read if key in table}
        return super().from_table({**table, **rules}, rule_classes)

    def __post_init__(self) -> None:
        given: Any = self.features
        object.__setattr__(self, "features", (given,) if isinstance(given, str) else given)
        super().__post_init__()
        with policy_errors(self.name):
            object.__setattr__(self, "width", _parse_width(self.width, ""))
            object.__setattr__(self, "order", read_order(self.order, vars(self)))
            object.__setattr__(self, "stop", STOP.read_rule(self.stop))
            object.__setattr__(self, "select", read_select(self.select))
        if self.verifier is None:
            object.__setattr__(self, "verifier", self.stop.named_verifier)
        self._check_learned()
        for why in self._contradiction_sentences():
            raise self.refusal(why)

    @cached_property
    def order_rule(self) -> Order:
        return rule_of_order(self.order, vars(self))

    @cached_property
    def select_rule(self) -> Select:
        return rule_of_select(self.select)

    @property
    def rules_by_label(self) -> dict[str, StopRule | Select | Order]:
        """The policy's stop, select and order, by their names in messages."""
        stop, select, order = f"stop `{self.stop.name}`", f"select `{self.select}`", f"order `{self.order}`"
        return {stop: self.stop, select: self.select_rule, order: self.order_rule}

    @property
    def reads(self) -> frozenset[str]:
        return self.order_rule.reads | self.stop.reads | self.select_rule.reads

    @property
    def makes_verifications(self) -> bool:
        return SCORES in self.reads

    @property
    def unscored(self) -> UnscoredTreatment:
        """What the policy does with a valid trace that its verifier did not score."""
        way = WAYS[self.on_unscored] if self.makes_verifications else PARTIAL
        return replace(way, fill=self.lowest_score) if way.fills else way

    @property
    def diagnostic(self) -> str:
        return self.order_rule.diagnostic

    @property
    def answers_with_one_trace(self) -> bool:
        return self.orders is None and not self.expected

    @property
    def first_attempt_pool(self) -> str | None:
        plain = self.max_traces == 1 and self.select_rule.one_trace and not self.expected and self.abandon is None
        return self.pool if plain else None

    @property
    def over_orders(self) -> bool:
        """Whether the policy is the exact mean over all orders of the pool's traces."""
        return self.expected and not self.order_rule.verifies_later

    @property
    def may_draw_whole_pool(self) -> bool:
        """Whether the policy may draw its whole pool, however many traces that has."""
        return self.max_traces == WHOLE_POOL

    @property
    def mean_over_text(self) -> str:
        if self.over_orders:
            return "all orders"
        return f"{self.orders} orders" if self.orders is not None else ""

    @property
    def pool_drawn_from(self) -> str:
        return str(self.pool) if self.over_orders or (self.orders or 1) > 1 else ""

    def as_mean_over_half_of_orders(self) -> tuple[Self, float] | None:
        half = (self.orders or 1) // 2
        return (self.filled(orders=half), half / (self.orders or 1)) if half else None

    def as_mean_over_all_orders(self) -> Self | None:
        if self.expected or self.orders is not None or self.width != 1 or self.stop.cuts or self.conformal is not None:
            return None
        exact = not self.order_rule.verifies_later and self.select_rule.has_exact_mean() and not self.positioned
        return self.filled(expected=True) if exact else None

    def as_mean_over_seeded_orders(self, contents: Contents, orders: int, seed: int) -> Self:
        fixed = self.conformal is not None or not self.traces_drawn_by_pool(contents)
        return self if fixed else self.filled(orders=orders, seed=seed, expected=False)

    def traces_drawn_by_pool(self, contents: Contents) -> Mapping[str, int]:
        return {} if self.pool in contents.ordered_pools else {str(self.pool): self.max_traces}

    @property
    def top_level_text(self) -> str:
        return super().top_level_text or "`conformal`, which belongs to the whole policy" * (self.conformal is not None)

    @property
    def answers_from_samples(self) -> bool:
        return not self.positioned

    @property
    def unfolding_key(self) -> Hashable:
        plain = self.positioned and self.width == 1 and not self.order_rule.verifies_later
        statistic = self.stop.statistic_key if plain else None
        return None if statistic is None else (statistic, self.filled(stop=Never()).cache_key)

    @property
    def learned_settings(self) -> tuple[LearnedSetting, ...]:
        return tuple(one for learned in LEARNED if (one := getattr(self, learned.key)) is not None)

    @property
    def columns(self) -> tuple[OutcomeColumn, ...]:
        names = (*(SET_COLUMNS if self.conformal is not None else ()), *(POSITION_COLUMNS if self.positioned else ()))
        return tuple(find(name) for name in names)

    def _contradiction_sentences(self) -> Iterator[str]:
        order, select, stop = self.order_rule, self.select_rule, self.stop
        if select.one_trace and self.max_traces != 1:
            most = "" if self.may_draw_whole_pool else f"; it has {self.max_traces}"
            yield f'`select = "{self.select}"` needs `max_traces = 1`{most}'
        if stop.named_verifier not in (None, self.verifier):
            yield f"its stop reads verifier `{stop.named_verifier}`, and the policy `{self.verifier}`: give one of them"
        if self.makes_verifications and self.verifier is None:
            reader = next(what for what, part in self.rules_by_label.items() if SCORES in part.reads)
            yield f"its {reader} reads scores: name a `verifier`"
        if order.verifies_later and not stop.between_verifications:
            why = "because the policy asks the stop after verifications and not after traces"
            yield f'`order = "{self.order}"` needs stop `none`, `margin` or a budget of verifications, {why}'
        if order.verifies_later and SCORES not in select.reads:
            known = f"`best`, `weighted` or one of your own, not `{self.select}`"
            yield f'`order = "{self.order}"` needs a `select` that reads scores: {known}'
        if order.is_lazy and self.width != 1:
            yield '`mode = "lazy"` generates trace by trace; leave out `width`, or use `mode = "pool"`'
        if self.width == NEEDED and not (self.stop.knows_needed_traces and not order.verifies_later):
            why = "which says how many traces it needs, with the order `generation`"
            yield f'`width = "{NEEDED}"` needs stop `agreement` or `budget`, {why}; it has `{self.stop.name}`'
        if self.answers_as is not None and (VOTES not in self.reads or order.predicts or self.conformal is not None):
            why = "without the order `surrogate` and `conformal`"
            yield f"`answers_as` needs a `select` or a `stop` that compares answers, such as `majority`, {why}"
        if self.tie != EARLIEST.name and VOTES not in select.reads:
            yield f'`tie = "{self.tie}"` needs a `select` that reads votes, such as `majority`; it has `{self.select}`'
        if self.nulls == "vote" and not (select.counts_votes or self.stop.counts_votes):
            yield (
                '`nulls = "vote"` needs a `select` or a `stop` that counts votes, such as `majority` or `agreement`; '
                f"it has `{self.select}` and `{self.stop.name}`"
            )
        means_best = order.drawn and select.by_score and stop.verification_budget is not None
        means_pool = self.over_orders and not stop.cuts and select.has_exact_mean(self.max_traces) and self.width == 1
        if self.expected and not (means_best or means_pool):
            yield (
                "`expected` needs the order `generation` with `first`, `majority`, `best` or `weighted`, no stop and "
                'no `width`, or `order = "random"` with `best` and a budget of verifications; others take `orders = 20`'
            )
        if self.expected and self.orders is not None:
            yield "`expected` is already exact over all orders; leave out `orders`"
        if self.abandon is not None and self.makes_verifications and self.abandon.verifier == self.verifier:
            why = "one has to score first tokens, the other whole traces"
            yield f"`abandon` and the policy have the same `verifier`, `{self.verifier}`: {why}; name two"

    def _check_learned(self) -> None:
        if len(set(self.features)) != len(self.features):
            raise self.refusal(f"`features` is {quote(self.features)}; it takes different names of columns of features")
        for learned in LEARNED:
            if isinstance(value := getattr(self, learned.key), Mapping):
                with policy_errors(self.name):
                    object.__setattr__(self, learned.key, from_table(learned, value, learned.key))
            elif value is not None and not isinstance(value, learned):
                raise self.refusal(f"`{learned.key}` is {quote(value)}; it takes a `{learned.__name__}`, or its table")
        if self.prior is not None and not self.order_rule.predicts:
            raise self.refusal('`prior` needs `order = "surrogate"`')
        if self.prior is not None and not self.features:
            raise self.refusal("`prior` is fitted on `features`: name some")
        if self.calibration is not None and not self.stop.calibrates:
            raise self.refusal("`calibration` decides the margin, so it needs stop `margin`")
        if self.conformal is not None and (not self.answers_with_one_trace or not self.select_rule.by_score):
            raise self.refusal('`conformal` needs `select = "best"`, without `orders` and `expected`')

    # ---- a log ----

    def resolve(self, contents: Contents) -> Self:
        if self.pool is None:
            pools = contents.pools
            if len(pools) != 1:
                raise self.refusal(f"the log has {len(pools)} pools, so it needs `pool`; {suggest('', pools)}")
            return self.filled(pool=next(iter(pools))).resolve(contents)
        with policy_errors(self.name):
            contents.require_pool(self.pool)
            if self.verifier is not None:
                contents.require_verifier(self.verifier)
            for name in self.order_rule.features:
                contents.require_feature(name, f"the {self.order}")
            for part, rule in self.rules_by_label.items():
                contents.require_columns(rule.reads, part)
            if self.answers_as is not None:
                contents.require_answer_column(self.answers_as)
            if self.abandon is not None:
                _require_abandoning_columns(contents, self.abandon, self.pool)
            if self.over_orders:
                self.select_rule.check_number_of_sets(self.max_traces, contents.sizes[self.pool])
            lowest = contents.lowest_score(self.pool, str(self.verifier)) if self.unscored.fills else None
            positioned, stopped = self.pool in contents.positioned, self.pool in contents.stopped
            if self.pool in contents.ordered_pools - contents.whole and (self.orders is not None or self.expected):
                contents.require_permutable_traces(self.pool, "leave out `orders` and `expected`")
            if self.may_draw_whole_pool and not positioned and not stopped:
                raise RequiredError(
                    "`max_traces` is required: only pools with positions, or `stopped`, may leave it out"
                )
            if stopped and not self.may_draw_whole_pool and self.max_traces != contents.sizes[self.pool]:
                contents.require_permutable_traces(self.pool, f"`max_traces` can't be {self.max_traces}: leave it out")
        if self.pool in contents.opaque and VOTES in self.reads:
            raise self.refusal(
                f"pool `{self.pool}` has verdicts but no answers (opaque), so votes, margins and surrogates mean "
                "nothing; use select `first` or `best` with no stop or a budget"
            )
        cuts = self.order_rule.is_lazy or (not self.order_rule.verifies_later and self.stop.cuts)
        if self.pool in contents.whole and (self.orders is not None or cuts):
            leave = "leave out `orders`, any `stop` that cuts generation, and the lazy surrogate"
            raise self.refusal(f"pool `{self.pool}` {contents.reason_to_keep_order(str(self.pool))}: {leave}")
        most = WHOLE_POOL if stopped else self.max_traces
        return self.filled(lowest_score=lowest, positioned=positioned, max_traces=most)

    def needs(self, contents: Contents) -> Needs:
        pool = str(self.pool)
        abandoning = Needs() if self.abandon is None else _needs_of_abandoning(contents, self.abandon, pool)
        people = PEOPLE & contents.example_columns.keys() if self.positioned else frozenset()
        return abandoning | Needs(
            pools=frozenset([pool]),
            scores=frozenset([(pool, str(self.verifier))] if self.makes_verifications else []),
            features=frozenset(self.order_rule.features) | columns_read(self.reads, FEATURE),
            trace_columns=columns_read(self.reads, SIGNAL).difference(TRACE_COSTS) | {*[POSITION] * self.positioned},
            example_columns=columns_read(self.reads, EXAMPLE) | people,
            answers_as=frozenset([self.answers_as] if self.answers_as is not None else []),
        )

    def slices(self, contents: Contents) -> frozenset[str]:
        return frozenset([str(self.pool)])

    def fit_with(self, fit: Fit) -> Self:
        """The policy with prior, calibration and conformal thresholds fitted, each on top of those before."""
        policy = self
        for settings in self.learned_settings:
            plain = policy.filled(conformal=None)
            shared, fitted = plain._fitting_functions()[settings.key]
            policy = policy.filled(**{settings.key: fit(policy, settings, shared, fitted)})
        return policy

    def _fitting_functions(self) -> Mapping[str, tuple[tuple[Hashable, ...], Callable[[LogBlock, Any], Any]]]:
        """Key of what is learnt -> what policies with the same fit share, and the function that fits it on a block."""
        pool, verifier, features = str(self.pool), str(self.verifier), self.features
        return {
            "prior": (
                (pool, verifier, features),
                lambda block, one: fit_prior(block.pools[pool], verifier, features, one),
            ),
            "calibration": ((pool, verifier), lambda block, one: fit_calibration(block.pools[pool], verifier, one)),
            "conformal": (
                (self.cache_key,),
                lambda block, one: fit_conformal(block, self.walks()[0], self.stop_conditions(block), one),
            ),
        }

    # ---- a block ----

    def walks(self) -> list[Walk]:
        """The walks of its rows: one, or one for each of its random orders."""
        if self.pool is None:
            raise self.refusal("it has no pool")
        return [
            Walk(
                pool=self.pool,
                verifier=self.verifier if self.makes_verifications else None,
                order=self.order_rule,
                seed=self.seed if self.orders or self.order_rule.drawn or TIES[self.tie].drawn else 0,
                repetition=repetition,
                permuted=self.orders is not None,
                cap=WHOLE_POOL if self.over_orders else self.max_traces,
                width=1 if self.width == NEEDED else int(self.width),
                calibration=self.calibration,
                unscored=self.unscored,
                abandon=self.abandon,
                tie=TIES[self.tie],
                nulls=self.nulls == "vote",
                answers_as=self.answers_as,
                needs=self.stop if self.width == NEEDED else None,
            )
            for repetition in range(self.orders or 1)
        ]

    def stop_conditions(self, block: LogBlock) -> StopConditions:
        """What decides at which step the policy stops on a block, and what the log must have for that."""
        return StopConditions(
            stop=self.stop, cap=self.max_traces, all_scores=self.order_rule.all_scores or self.expected,
            whole=block.pools[str(self.pool)].whole, shrinks=self.on_missing == "use_available",
            compares=VOTES in self.reads, over_orders=self.over_orders, uncapped=self.may_draw_whole_pool,
        )  # fmt: skip

    def _partial_reasons(self) -> tuple[str, ...]:
        nulls = self.stop.null_reason, f"column `{self.answers_as}` is null for a trace with an answer"
        return partial_reasons(self.pool, self.verifier, self.max_traces, self.order_rule.features, self.abandon, nulls)

    @classmethod
    def prepare(cls, policies: Sequence[Self], on: Evaluator) -> None:
        """Walk each order once, and find where each of the policies that share it stops."""
        walked = {policy.cache_key: policy for policy in policies if not policy.expected}
        caps, users = dict[Walk, int](), dict[Walk, list[Hashable]]()
        for key, policy in walked.items():
            for walk in policy.walks():
                # A walk in order of generation does not depend on where it is cut: the longest cap serves all.
                shared = walk if walk.order.verifies_later else replace(walk, cap=0)
                caps[shared] = max(caps.get(shared, 0), walk.cap)
                users.setdefault(shared, []).append(key)
        parts = {key: (one._partial_reasons(), one.orders or 1) for key, one in walked.items()}
        sums = {key: OutcomeSums(*part, key in on.traced) for key, part in parts.items()}
        with_sets: dict[Hashable, Outcome] = {}
        positions: dict[Hashable, np.ndarray] = {}
        for shared, keys in users.items():
            trajectory = walk_block(on.block, replace(shared, cap=caps[shared]))
            at_end = listwise_costs(trajectory) if trajectory.listwise.any() else None
            for key in keys:
                policy = walked[key]
                stops = find_stops(trajectory, policy.stop_conditions(on.block))
                extra = None if at_end is None or stops.called is None else at_end * stops.called[:, None]
                sums[key].add_order(trajectory, policy.select_rule, stops, extra)
                if policy.conformal is not None:
                    plain = sums[key].mean_outcome()
                    with_sets[key] = add_set_columns(on.block, trajectory, stops.step, policy.conformal, plain)
                if policy.positioned:
                    positions[key] = last_positions(trajectory, stops.step)
        for key, policy in walked.items():
            outcome = with_sets.get(key) or sums[key].mean_outcome()
            on.store_outcome(policy, add_positions(on.block, outcome, positions.get(key)))

    def outcome(self, on: Evaluator) -> Outcome:
        """The exact mean over all orders; for other policies the outcome that `prepare` has stored."""
        how, reasons = self.stop_conditions(on.block), self._partial_reasons()
        if self.over_orders:
            return mean_over_orders(self._whole_walk(on), self.select_rule, how, reasons)
        trajectory = walk_block(on.block, replace(self.walks()[0], order=GenerationOrder()))
        return expected_outcome(trajectory, self.stop.verification_budget or 0, how, reasons)

    def _whole_walk(self, on: Evaluator) -> Trajectory:
        """The walk of the whole pool, which exact means over all orders share whatever their cap."""
        walk = self.walks()[0]
        return on.compute_once(("walk", walk), lambda: walk_block(on.block, walk))

    def path(self, on: Evaluator) -> PolicyPath:
        outcome = on.outcome(self)
        if self.over_orders:
            segment = paid_calls_over_orders(self._whole_walk(on), self.stop_conditions(on.block))
            return PolicyPath(outcome, (Realization(np.ones(len(outcome.reason)), (segment,)),), None, {})
        return _orders_path(on.block, outcome, self.select_rule if self.answers_with_one_trace else None, self.orders)

    def explain(self, on: Evaluator, repetition: int) -> Iterator[ExplanationStage]:
        walks = self.walks()
        if not 0 <= repetition < len(walks):
            raise InvalidError(f"{argument('repetition')} is {repetition}; the policy has {len(walks)} orders, from 0")
        block, how = on.block, self.stop_conditions(on.block)
        exact = self.stop.verification_budget if self.expected else None
        if self.abandon is not None:
            yield abandon_stage(block, self.name, walks[repetition], how, self.over_orders)
        if self.over_orders:
            yield from pool_stages(block, self.name, self._whole_walk(on), self.select_rule, self.max_traces)
            return
        yield from step_stages(block, self.name, walks, repetition, how, self.select_rule, exact)
        if self.conformal is not None:
            trajectory = walk_block(block, walks[repetition])
            yield set_stage(block, trajectory, find_stops(trajectory, how).step, self.conformal, on.outcome(self))

    def ending_text(self, ending: str) -> str:
        return reason_of_end(ending, None if self.may_draw_whole_pool else self.max_traces, self.stop.cuts)

    def averaged_rows_text(self, on: Evaluator, rows: int) -> str:
        if self.over_orders:
            return order_mean_text(rows)
        several = f"{rows} possible winners" if self.expected else super().averaged_rows_text(on, rows)
        return f"{rows} orders" if self.orders is not None else several

    def at_each_threshold(self, block: LogBlock) -> ThresholdSteps:
        trajectory = walk_block(block, self.walks()[0])
        return ThresholdSteps.steps_of_walk(block, trajectory, self.stop_conditions(block), self.select_rule)

    def remarks_on(self, block: LogBlock) -> Iterator[Remark]:
        """Remarks on scores that do not mean what the policy takes them for."""
        if self.makes_verifications:
            verifier, raw_margin = str(self.verifier), self.stop.raw_scores and self.calibration is None
            scores = block.pools[str(self.pool)].filled_scores(verifier, self.unscored)
            select, order = self.select_rule, self.order_rule
            yield from _score_remarks(verifier, scores, select.sums_scores, order.predicts, raw_margin)
        if self.abandon is not None:
            yield from _unknown_seconds(block, str(self.pool), self.abandon, self._drawable_traces(block))

    def payable_verifications(self, block: LogBlock) -> Iterator[PayableVerifications]:
        """The verifications that the policy may pay within its cap: of valid traces, and of those it may abandon."""
        verifier = self.verifier if self.makes_verifications else None
        pool, within = block.pools[str(self.pool)], self._drawable_traces(block)
        yield from _payable_verifications(pool, within, verifier, self.unscored, self.abandon)

    def _drawable_traces(self, block: LogBlock) -> np.ndarray:
        """Mask (E, T) of the traces that the policy may draw within its cap; random orders may draw any of the pool."""
        there = block.pools[str(self.pool)].has_trace
        whole = self.orders is not None or self.over_orders
        return there if whole else there & (np.arange(there.shape[1]) < self.max_traces)

    def untrusted_rules(self, on: Evaluator) -> Iterator[tuple[Rule, Prefix]]:
        if self.stop.is_checked_by_run or self.select_rule.is_checked_by_run:
            walk = self.walks()[0]
            trajectory = on.compute_once(("walk", walk), lambda: walk_block(on.block, walk))
            rule_prefixes: tuple[tuple[Rule, Prefix], ...] = (
                (self.stop, trajectory.stop_prefix),
                (self.select_rule, trajectory.scored_prefix),
            )
            yield from ((rule, seen) for rule, seen in rule_prefixes if rule.is_checked_by_run)

    def final_remarks(self) -> Iterator[RemarkKind]:
        if self.prior is not None and self.prior.left_out is not None and self.prior.left_out.traces:
            yield _null_rows_remark(self.prior.left_out)


def order_mean_text(answers: int) -> str:
    """What an exact mean over all orders is a mean of, in words."""
    return f"all orders, with {answers} possible answers"


def first_attempt_policy(name: str, pool: str, against: str | None = None) -> Sample:
    """The policy that answers with the first trace of a pool."""
    return Sample(name=name, pool=pool, max_traces=1, select="first", against=against)


EVERY = "every example"


def coverage_policy(pool: str | None) -> Sample:
    """The policy, named `EVERY`, of each example's first trace, which covers every example that has a trace.

    Beside it, a run counts the nine tenths that a policy must serve of all examples asked about, not just of those that
    some other policy can serve.
    """
    return Sample(name=EVERY, pool=pool, max_traces=1, select="first")


def _orders_path(block: LogBlock, outcome: Outcome, selector: Select | None, orders: int | None) -> PolicyPath:
    """The path with a realization for each order; `select_rule` tells the chosen trace, if the policy has one."""
    realizations, chosen = [], None
    for walk, step in outcome.runs:
        trajectory = walk_block(block, walk)
        realizations.append(
            Realization(np.full(len(step), 1 / len(outcome.runs)), (paid_segment(trajectory, step, outcome),))
        )
        if selector is not None:
            sample = trajectory.chosen_sample(selector, step)
            chosen = ChosenTraces((walk.pool,), np.zeros(len(step), dtype=np.int64), sample)
            if trajectory.abandonment is not None and walk.abandoned_slice is not None:
                cut = trajectory.abandonment.abandoned[np.arange(len(step)), sample]
                chosen = ChosenTraces((walk.pool, walk.abandoned_slice), cut.astype(np.int64), sample)
    return PolicyPath(outcome, tuple(realizations), chosen, {}, orders)


ROUNDING = 1e-6
"""How far outside 0 to 1 a score must be to count as outside."""
MAX_NAMED = 5
"""How many policies a remark names at most."""


def _outside_range_text(verifiers: Counts) -> str:
    several = len(verifiers) > 1
    return f"verifier{'s' if several else ''} {listed(sorted(verifiers))} score{'' if several else 's'} outside [0, 1]"


def _clipping_remarks(verifiers: Counts) -> list[str]:
    return [
        f"{_outside_range_text(verifiers)}. The surrogate clips its predictions to [0, 1]; where all are clipped, "
        "traces are verified in generation order (with `bonus`: by uncertainty)"
    ]


def _negative_score_remarks(verifiers: Counts) -> list[str]:
    return [f"in a weighted vote the negative scores of {listed(sorted(verifiers))} count against an answer"]


def _raw_margin_remarks(verifiers: Counts) -> list[str]:
    return [f"{_outside_range_text(verifiers)}; the stop `margin` is in units of these raw scores"]


NEGATIVE = RemarkKind("negative_weights", _negative_score_remarks, Severity.WARNING)
CLIPPED = RemarkKind("clipped_predictions", _clipping_remarks, Severity.WARNING)
RAW_MARGIN = RemarkKind("raw_margin", _raw_margin_remarks)


def _score_remarks(
    verifier: str, scores: np.ndarray, summed: bool, predicted: bool, raw_margin: bool
) -> Iterator[Remark]:
    """Remarks on a policy that sums scores (E, T), predicts them within 0 and 1, or has a margin in raw scores."""
    if summed and (scores < 0).any():
        yield Remark(NEGATIVE, verifier)
    if (predicted or raw_margin) and ((scores < -ROUNDING) | (scores > 1 + ROUNDING)).any():
        if predicted:
            yield Remark(CLIPPED, verifier)
        if raw_margin:
            yield Remark(RAW_MARGIN, verifier)


def _null_rows_remark(null_rows: NullRows) -> RemarkKind:
    """The kind of remark on policies whose prior left out the same rows, so that they share it."""
    return RemarkKind("prior_left_out", _null_rows_notes, about_policies=True, facts=(null_rows,))


def _null_rows_notes(policies: Counts, null_rows: NullRows) -> list[str]:
    verb = "is" if null_rows.traces == 1 else "are"
    features = "feature" if len(null_rows.features) == 1 else "one of the features"
    traces = f"{counted(null_rows.traces, 'trace')} on {null_rows.examples:,} of the {null_rows.of:,} examples of `on`"
    why = f"{features} {listed(null_rows.features)} is null"
    return [f"prior of {listed(list(policies), MAX_NAMED)}: {traces} {verb} left out of the fit ({why})"]


def _require_abandoning_columns(contents: Contents, abandon: Abandon, pool: str) -> None:
    """Raise where the log lacks what early abandoning reads, or the pool's traces depend on each other."""
    contents.require_verifier(abandon.verifier, " for `abandon`")
    late = score_timing_problem(contents.fitted, abandon.verifier, abandon.tokens)
    if late is not None:
        raise LeakageError(
            f"`abandon` scores traces after {counted(abandon.tokens, 'token')}, and `{abandon.verifier}` was fitted on "
            f"{late}, which no running system knows by then: fit one on those tokens alone, such as --tokens "
            f"{abandon.tokens - 1} --name latent@{abandon.tokens}"
        )
    if "completion_tokens" not in contents.trace_columns:
        raise UnsuitableError("`abandon` needs `completion_tokens` of traces, and the log has none")
    if pool in contents.whole:
        raise UnsuitableError(
            f"pool `{pool}` has no prefixes (`prefix: false`), so none of its traces can be abandoned: leave out "
            "`abandon`"
        )


def _needs_of_abandoning(contents: Contents, abandon: Abandon, pool: str) -> Needs:
    """What early abandoning reads: the verifier's scores, and the seconds of first tokens, if logged."""
    seconds = (seconds_column(cost, abandon.tokens) for cost in SECONDS)
    logged = [name for name in seconds if name in contents.trace_columns and contents.trace_columns[name].is_numeric()]
    return Needs(
        pools=frozenset([pool]),
        scores=frozenset([(pool, abandon.verifier)]),
        trace_columns=frozenset(logged),
        cuts=frozenset([(pool, abandon.tokens)]),
    )


def _payable_verifications(
    pool: LoggedPool, within: np.ndarray, verifier: str | None, unscored: UnscoredTreatment, abandon: Abandon | None
) -> Iterator[PayableVerifications]:
    """The verifications of traces `within` (E, T) that a policy may pay: by its verifier, and for early abandoning."""
    valid = pool.code >= 0
    if abandon is not None:
        abandonment = find_abandoned(pool, abandon)
        valid &= ~abandonment.abandoned
        yield PayableVerifications(pool.name, abandon.verifier, within & abandonment.checked)
    if verifier is not None:
        yield PayableVerifications(pool.name, verifier, within & valid, unscored)


def _unknown_seconds(block: LogBlock, pool: str, abandon: Abandon, within: np.ndarray) -> Iterator[Remark]:
    """A remark on how many abandoned traces `within` (E, T) have no seconds."""
    logged, cut_short = block.pools[pool], block.pools[abandoned_slice_name(pool, abandon.tokens)]
    abandoned = find_abandoned(logged, abandon).abandoned & within
    for cost in SECONDS:
        lacks = np.isnan(cut_short.costs[cost]) & ~np.isnan(logged.costs[cost])
        if count := int((abandoned & lacks).sum()):
            yield Remark(NO_SECONDS, seconds_column(cost, abandon.tokens), count)


def _unknown_seconds_notes(columns: Counts) -> list[str]:
    return [
        "abandoned traces have no seconds, because the log has none of their first tokens (columns of traces: "
        f"{listed(sorted(columns))}): means of seconds are dashes"
    ]


NO_SECONDS = RemarkKind("abandoned_seconds", _unknown_seconds_notes)
