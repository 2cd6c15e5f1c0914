"""Kind `sample`: order x stop x select over one pool of traces."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from replay.data.block import LogBlock
from replay.data.contents import Contents
from replay.data.needs import Needs
from replay.engine.calls import PolicyPath
from replay.engine.cuts import Cut, cut, reasons
from replay.engine.expectation import expected_outcome, mean_of_one
from replay.engine.outcome import Outcome, RunSums
from replay.engine.sets import SET_COLUMNS, measure_sets
from replay.engine.trajectory import Walk, listwise_costs, walk_block
from replay.kinds import sample_steps
from replay.kinds.sample_abandon import abandon_needs, abandon_stage, payable, require_abandon, unknown_seconds
from replay.kinds.sample_combinations import broken_combinations
from replay.kinds.sample_conformal import set_stage
from replay.kinds.sample_fits import fits_of
from replay.kinds.sample_paths import path_of_any, path_of_runs
from replay.kinds.sample_remarks import rows_left_out, score_remarks
from replay.policies.base import Evaluator, Fit, Policy, Stage
from replay.policies.payable import Payable
from replay.policies.policy_errors import errors_of
from replay.policies.remarks import Remark, RemarkKind
from replay.sampling.abandon import Abandon
from replay.sampling.declared import EXAMPLE, FEATURE, Untrusted, columns_read
from replay.sampling.learned import LEARNED, Calibration, Conformal, Learned, Prior
from replay.sampling.order_settings import order_given, order_of, with_order_keys
from replay.sampling.orders import Generation, Order
from replay.sampling.own_selects import select_from, select_rule, selector_of
from replay.sampling.own_stops import stop_from, stop_rule
from replay.sampling.prefix import SCORES, VOTES
from replay.sampling.selects import Select
from replay.sampling.stops import Never, StopRule
from replay.sampling.surrogate import LABEL_SCORES, MODES
from replay.sampling.unscored import PARTIAL, WAYS, Unscored
from toolkit.columns import OutcomeColumn, find
from toolkit.errors import ThinkbackError, argument, shown, suggest
from toolkit.settings import from_table, setting


@dataclass(frozen=True, kw_only=True)
class Sample(Policy):
    """Order x stop x select over one pool of traces.

    `max_traces` is the cap on attempts; `verifier` names the scores used; `orders = K` averages over K seeded
    permutations of the whole logged pool; `expected` gives the exact mean over all random orders, or of one sample;
    `width` generates that many traces at a time, with the rule looked at after each block; `on_missing =
    "use_available"` lets the cap shrink to the pool; `on_unscored` says what becomes of a valid trace without a score.
    `abandon` gives up traces that score low after their first tokens.
    `features`, `mode`, `bootstrap`, `ridge`, `forgetting`, `bonus`, `unseen`, `label_score` and `prior` are the
    order `surrogate`'s; `calibration` is the stop `margin`'s; `conformal` makes prediction sets.
    """

    max_traces: int = setting(low=1)
    pool: str | None = setting(None, what="a name")
    verifier: str | None = setting(None, what="a name")
    order: str | Order = "generation"
    stop: StopRule = field(default_factory=Never)
    select: str | Select = "best"
    seed: int = setting(0)
    orders: int | None = setting(None, low=1, high=100_000)
    expected: bool = setting(False)
    width: int = setting(1, low=1)
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
    kind: ClassVar[str] = "sample"
    last_step: ClassVar[bool] = True
    single_by: ClassVar[str] = "leave out `orders` and `expected`"

    # ---- settings ----

    @classmethod
    def from_table(cls, table: Mapping[str, Any], own: Mapping[str, type]) -> Self:
        """From its keys; `stop` and `select` may be rules of the user's own, and `order` a table."""
        table = with_order_keys(table, [field.name for field in fields(cls)])
        read = {"stop": stop_from, "select": select_from}
        rules = {key: read[key](table[key], own) for key in read if key in table}
        return super().from_table({**table, **rules}, own)

    def __post_init__(self) -> None:
        given: Any = self.features
        object.__setattr__(self, "features", (given,) if isinstance(given, str) else given)
        super().__post_init__()
        with errors_of(self.name):
            object.__setattr__(self, "order", order_given(self.order, vars(self)))
            object.__setattr__(self, "stop", stop_rule(self.stop))
            object.__setattr__(self, "select", select_rule(self.select))
        self._check_learned()
        for why in broken_combinations(self):
            raise self.refuse(why)

    @cached_property
    def ordering(self) -> Order:
        """The order with its parameters, which are keys of the policy."""
        return order_of(self.order, vars(self))

    @property
    def selector(self) -> Select:
        """The select rule."""
        return selector_of(self.select)

    @property
    def readers(self) -> dict[str, StopRule | Select | Order]:
        """Its stop, select and order, as messages call them."""
        stop, select, order = f"stop `{self.stop.name}`", f"select `{self.select}`", f"order `{self.order}`"
        return {stop: self.stop, select: self.selector, order: self.ordering}

    @property
    def reads(self) -> frozenset[str]:
        """What its order, stop and select read of the traces."""
        return self.ordering.reads | self.stop.reads | self.selector.reads

    @property
    def verifies(self) -> bool:
        """Whether any verification is made: the order, the stop or the select reads scores."""
        return SCORES in self.reads

    @property
    def unscored(self) -> Unscored:
        """What becomes of a valid trace that its verifier did not score."""
        way = WAYS[self.on_unscored] if self.verifies else PARTIAL
        return replace(way, fill=self.lowest_score) if way.fills else way

    @property
    def diagnostic(self) -> str:
        """What its order sees."""
        return self.ordering.diagnostic

    @property
    def single(self) -> bool:
        """One order."""
        return self.orders is None and not self.expected

    @property
    def first_attempt(self) -> str | None:
        """The pool, for `max_traces = 1` and the select of one trace."""
        plain = self.max_traces == 1 and self.selector.one_trace and not self.expected and self.abandon is None
        return self.pool if plain else None

    @property
    def means_one(self) -> bool:
        """Whether it is the exact mean of one sample, over all traces of the pool."""
        return self.expected and self.selector.one_trace and not (self.verifies or self.stop.cuts)

    @property
    def top_level_only(self) -> str:
        """Prediction sets are reported of a policy by itself."""
        sets = "`conformal`, which belongs to the whole policy" if self.conformal is not None else ""
        return super().top_level_only or sets

    @property
    def learns(self) -> tuple[Learned, ...]:
        """Prior, calibration and conformal thresholds, as far as they are given."""
        return tuple(one for learned in LEARNED if (one := getattr(self, learned.key)) is not None)

    @property
    def columns(self) -> tuple[OutcomeColumn, ...]:
        """Those of prediction sets, where it makes them."""
        return () if self.conformal is None else tuple(find(name) for name in SET_COLUMNS)

    def _check_learned(self) -> None:
        if len(set(self.features)) != len(self.features):
            raise self.refuse(f"`features` is {shown(self.features)}; it takes different names of columns of features")
        for learned in LEARNED:
            if isinstance(value := getattr(self, learned.key), Mapping):
                with errors_of(self.name):
                    object.__setattr__(self, learned.key, from_table(learned, value, learned.key))
            elif value is not None and not isinstance(value, learned):
                raise self.refuse(f"`{learned.key}` is {shown(value)}; it takes a `{learned.__name__}`, or its table")
        if self.prior is not None and not self.ordering.predicts:
            raise self.refuse('`prior` needs `order = "surrogate"`')
        if self.prior is not None and not self.features:
            raise self.refuse("`prior` is fitted on `features`, so it needs some")
        if self.calibration is not None and not self.stop.calibrates:
            raise self.refuse("`calibration` decides the margin, so it needs stop `margin`")
        if self.conformal is not None and (not self.single or not self.selector.by_score):
            raise self.refuse('`conformal` needs `select = "best"`, without `orders` and `expected`')

    # ---- a log ----

    def resolve(self, contents: Contents) -> Self:
        """With its pool, where the log has one alone."""
        if self.pool is None:
            pools = contents.pools
            if len(pools) != 1:
                raise self.refuse(f"the log has {len(pools)} pools, so it needs `pool`; {suggest('', pools)}")
            return replace(self, pool=next(iter(pools))).resolve(contents)
        with errors_of(self.name):
            contents.require_pool(self.pool)
            if self.verifier is not None:
                contents.require_verifier(self.verifier)
            for name in self.ordering.features:
                contents.require_feature(name, f"the {self.order}")
            for part, rule in self.readers.items():
                contents.require_columns(rule.reads, part)
            if self.abandon is not None:
                require_abandon(contents, self.abandon, self.pool)
            lowest = contents.lowest_score(self.pool, str(self.verifier)) if self.unscored.fills else None
        if self.pool in contents.opaque and VOTES in self.reads:
            raise self.refuse(
                f"pool `{self.pool}` has verdicts but no answers (opaque), so votes, margins and surrogates mean "
                "nothing; use select `first` or `best` with no stop or a budget"
            )
        cuts = self.ordering.lazy or (not self.ordering.verifies_later and self.stop.cuts)
        if self.pool in contents.whole and (self.orders is not None or cuts):
            raise self.refuse(
                f"pool `{self.pool}` depends on how many traces there were (prefix: false), so it is replayed whole "
                "and in its order: leave out `orders`, any `stop` that cuts generation, and the lazy surrogate"
            )
        return replace(self, lowest_score=lowest)

    def needs(self, contents: Contents) -> Needs:
        """Its pool, its verifier's scores, the columns that its order, stop and select read."""
        pool = str(self.pool)
        abandoning = Needs() if self.abandon is None else abandon_needs(contents, self.abandon, pool)
        return abandoning | Needs(
            pools=frozenset([pool]),
            scores=frozenset([(pool, str(self.verifier))] if self.verifies else []),
            features=frozenset(self.ordering.features) | columns_read(self.reads, FEATURE),
            example_columns=columns_read(self.reads, EXAMPLE),
        )

    def slices(self, contents: Contents) -> frozenset[str]:
        """Its pool."""
        return frozenset([str(self.pool)])

    def learn(self, fit: Fit) -> Self:
        """With prior, calibration and conformal thresholds fitted, each on top of those before."""
        made = self
        for settings in self.learns:
            plain = replace(made, conformal=None)
            fits = fits_of(str(self.pool), str(self.verifier), self.features, plain.walks()[0], plain.cutting)
            shared, fitted = fits[settings.key]
            made = replace(made, **{settings.key: fit(made, settings, shared or (plain.cache_key,), fitted)})
        return made

    # ---- a block ----

    def walks(self) -> list[Walk]:
        """The walks of its rows: one, or one for each of its random orders."""
        if self.pool is None:
            raise self.refuse("it has no pool")
        return [
            Walk(
                pool=self.pool,
                verifier=self.verifier if self.verifies else None,
                order=self.ordering,
                seed=self.seed if self.orders or self.ordering.drawn else 0,
                repetition=repetition,
                permuted=self.orders is not None,
                cap=self.max_traces,
                width=self.width,
                calibration=self.calibration,
                unscored=self.unscored,
                abandon=self.abandon,
            )
            for repetition in range(self.orders or 1)
        ]

    def cutting(self, block: LogBlock) -> Cut:
        """Where it stops, and what the log must have for that."""
        return Cut(
            stop=self.stop,
            cap=self.max_traces,
            width=self.width,
            all_scores=self.ordering.all_scores or self.expected,
            whole=block.pools[str(self.pool)].whole,
            shrinks=self.on_missing == "use_available",
            compares=VOTES in self.reads,
        )

    def _reasons(self) -> tuple[str, ...]:
        return reasons(self.pool, self.verifier, self.max_traces, self.ordering.features, self.abandon)

    @classmethod
    def prepare(cls, policies: Sequence[Self], on: Evaluator) -> None:
        """Walk every order once, and cut it for all policies that share it."""
        walked = {policy.cache_key: policy for policy in policies if not policy.expected}
        caps, users = dict[Walk, int](), dict[Walk, list[Hashable]]()
        for key, policy in walked.items():
            for walk in policy.walks():
                # A walk in order of generation does not depend on where it is cut: the longest cap serves all.
                shared = walk if walk.order.verifies_later else replace(walk, cap=0)
                caps[shared] = max(caps.get(shared, 0), walk.cap)
                users.setdefault(shared, []).append(key)
        sums = {key: RunSums(policy._reasons(), policy.orders or 1, key in on.traced) for key, policy in walked.items()}
        with_sets: dict[Hashable, Outcome] = {}
        for shared, keys in users.items():
            trajectory = walk_block(on.block, replace(shared, cap=caps[shared]))
            at_end = listwise_costs(trajectory) if trajectory.listwise.any() else None
            for key in keys:
                policy = walked[key]
                found = cut(trajectory, policy.cutting(on.block))
                extra = None if at_end is None or found.called is None else at_end * found.called[:, None]
                sums[key].add(trajectory, policy.selector, found.step, found.ending, found.reason, extra)
                if policy.conformal is not None:
                    plain = sums[key].outcome()
                    with_sets[key] = measure_sets(on.block, trajectory, found.step, policy.conformal, plain)
        for key, policy in walked.items():
            on.keep(policy, with_sets.get(key) or sums[key].outcome())

    def outcome(self, on: Evaluator) -> Outcome:
        """The exact mean over all orders; other outcomes are kept when walks are prepared."""
        if self.means_one:
            return mean_of_one(walk_block(on.block, self.walks()[0]), self.cutting(on.block), self._reasons())
        trajectory = walk_block(on.block, replace(self.walks()[0], order=Generation()))
        return expected_outcome(trajectory, self.stop.verification_budget or 0, self.cutting(on.block), self._reasons())

    def path(self, on: Evaluator) -> PolicyPath:
        """A realization for each of its orders."""
        outcome = on.outcome(self)
        if self.means_one:
            return path_of_any(on.block.pools[str(self.pool)], self.abandon, outcome)
        return path_of_runs(on.block, outcome, self.selector if self.single else None, self.orders)

    def explain(self, on: Evaluator, repetition: int) -> Iterator[Stage]:
        """Its steps up to the stop, in one of its orders."""
        walks = self.walks()
        if not 0 <= repetition < len(walks):
            raise ThinkbackError(f"{argument('repetition')} is {repetition}; the policy has {len(walks)}, from 0")
        block, how, exact = on.block, self.cutting(on.block), self.stop.verification_budget if self.expected else None
        if self.means_one:
            yield sample_steps.pool_stage(block, self.name, walks[0])
        if self.abandon is not None:
            yield abandon_stage(block, self.name, walks[repetition], how, self.means_one)
        if self.means_one:
            return
        yield from sample_steps.stages(block, self.name, walks, repetition, how, self.selector, exact)
        if self.conformal is not None:
            trajectory = walk_block(block, walks[repetition])
            yield set_stage(block, trajectory, cut(trajectory, how).step, self.conformal, on.outcome(self))

    def ending(self, ending: str) -> str:
        """In words."""
        return sample_steps.why(ending, self.max_traces, self.stop.cuts)

    def rows_of(self, on: Evaluator) -> str:
        """Orders, or the traces that may win under `expected`."""
        several = "possible winners" if self.expected else super().rows_of(on)
        return "orders" if self.orders is not None else "traces of the pool" if self.means_one else several

    def remarks(self, block: LogBlock) -> Iterator[Remark]:
        """Scores that do not mean what the policy takes them for."""
        if self.verifies:
            verifier, raw_margin = str(self.verifier), self.stop.raw_scores and self.calibration is None
            scores = block.pools[str(self.pool)].taken(verifier, self.unscored)
            yield from score_remarks(verifier, scores, self.selector.sums_scores, self.ordering.predicts, raw_margin)
        if self.abandon is not None:
            yield from unknown_seconds(block, str(self.pool), self.abandon, self._within(block))

    def may_pay(self, block: LogBlock) -> Iterator[Payable]:
        """The verifications that it may pay: of valid traces, and to decide who is given up, within its cap."""
        verifier = self.verifier if self.verifies else None
        yield from payable(block.pools[str(self.pool)], self._within(block), verifier, self.unscored, self.abandon)

    def _within(self, block: LogBlock) -> np.ndarray:
        """The traces within its cap (E, T); orders, and the mean of one sample, are of the whole pool."""
        there = block.pools[str(self.pool)].there
        whole = self.orders is not None or self.means_one
        return there if whole else there & (np.arange(there.shape[1]) < self.max_traces)

    def untrusted_rules(self, on: Evaluator) -> Iterator[Untrusted]:
        """Its stop and its select, unless they are built in."""
        if checked := [rule for rule in (self.stop, self.selector) if rule.checked]:
            walk = self.walks()[0]
            trajectory = on.once(("walk", walk), lambda: walk_block(on.block, walk))
            yield from (rule.untrusted(trajectory) for rule in checked)

    def final_remarks(self) -> Iterator[RemarkKind]:
        """What the fit of its prior left out."""
        if self.prior is not None and self.prior.left_out is not None and self.prior.left_out.traces:
            yield rows_left_out(self.prior.left_out)


def attempt(name: str, pool: str, against: str | None = None) -> Sample:
    """The first attempt of a pool."""
    return Sample(name=name, pool=pool, max_traces=1, select="first", against=against)
