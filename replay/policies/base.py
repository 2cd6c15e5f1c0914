"""The base of all kinds of policies: how one is read, what it needs of a log, how it replays, explains and notes.

A kind is a frozen dataclass below `Policy`, in a module of `replay.kinds`. The `Evaluator` asks it on a block of a log
and never tests for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import inf
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.contents import Contents
from replay.data.needs import Needs, needs_of_all
from replay.engine.calls import PolicyPath, compare_with_base
from replay.engine.outcome import Outcome
from replay.engine.positions import ThresholdSteps
from replay.policies.gate_file import GateFile
from replay.policies.remarks import PayableVerifications, Remark, RemarkKind
from replay.sampling.learned import LearnedSetting
from toolkit.columns import OutcomeColumn
from toolkit.errors import InvalidError, RequiredError, ThinkbackError, UnknownError, UnsuitableError, quote, suggest
from toolkit.log import Log
from toolkit.settings import check, from_table, setting
from toolkit.stopping.declared import HeaderVariables, Rule, equality_key
from toolkit.stopping.prefix import Prefix


@contextmanager
def policy_errors(policy: str) -> Iterator[None]:
    """A context in which every ThinkbackError names the policy, once."""
    try:
        yield
    except ThinkbackError as error:
        raise (error if error.policy is not None else _with_policy_name(policy, error)) from None


def _with_policy_name(policy: str, error: ThinkbackError) -> ThinkbackError:
    line = error.with_subject(f"policy `{policy}`: ")
    line.policy, line.reason = policy, str(error)
    return line


KINDS: dict[str, type[Policy]] = {}
"""Policy classes by the names that policy files give their kinds; `replay.kinds` fills it."""

NAMING = frozenset({"name", "label", "against", "sweep", "sweep_size"})
"""Fields that do not change what a policy does, in which equal policies may differ."""

Fit = Callable[["Policy", Any, tuple[Hashable, ...], Callable[[LogBlock, Any], Any]], Any]
"""Fits a policy's settings on the examples where their condition `on` holds, once for all that share a key: takes the
policy, the settings, the key, and what makes of a block and the settings the fitted ones."""


@dataclass(frozen=True)
class ExplanationStage:
    """A part of an explanation: a title, rows that tell it step by step, and a sentence on how it ended.

    `traces`: those that it looked at, by slice of the block and sample index, whose texts may be asked for.
    """

    title: str
    rows: pl.DataFrame
    ending: str = ""
    traces: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class ExampleRanking:
    """A policy that acts on the `share` of a run's examples with most gain; `gain` gives gain and tokens (E,)."""

    share: float
    gain: Callable[[Evaluator], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class SweptGate:
    """A policy with a gate of one threshold, below which it fires where it is `falling`. `at` gives the policy with
    another one, `signal` the signal on a block (E,), NaN where it is not logged. `shares`: into how many equal shares
    of the examples its thresholds part them; None: it has every one.
    """

    policy: Policy
    falling: bool
    at: Callable[[float], Policy]
    signal: Callable[[Evaluator], np.ndarray]
    shares: int | None = None

    def never_and_always(self) -> tuple[Policy, Policy]:
        """The policies that act on no example, and on all, where the signal is known."""
        low, high = self.at(-inf), self.at(inf)
        return (low, high) if self.falling else (high, low)


@dataclass(frozen=True, kw_only=True)
class Policy(HeaderVariables, ABC):
    """The base class of policies: a name, and the name of the policy against which fixes and flips are counted."""

    name: str
    against: str | None = setting(None, what="a policy's name")
    label: str | None = setting(None, what="a short name")  # for tables and figures
    sweep: str = setting("", key=False)  # name before the sweep's brackets; the name itself for a policy of its own
    sweep_size: int = setting(1, key=False)  # how many policies the sweep made
    swept: tuple[tuple[str, Any], ...] = field(default=(), compare=False)
    """The keys of the sweep that the policy comes from (inner ones with dots), and its values of them."""
    kind: ClassVar[str]
    inner: ClassVar[tuple[str, ...]] = ()
    """Fields that hold other policies; the key in a table is the field without a final `_`."""
    lists: ClassVar[frozenset[str]] = frozenset({"features"})
    """Keys whose value is a list by nature: there, a list of lists is the sweep. Those of any kind are so in tables
    that are no policy, too.
    """
    single_by: ClassVar[str] = ""
    """The key whose value gives a policy of this kind one chosen trace, in words; empty where no key decides."""
    answers: ClassVar[bool] = True
    """Whether its outcomes have answers that may be right; else it has quality columns of its own, and is no part of
    others.
    """
    last_step: ClassVar[bool] = False
    """Whether the policy ends at a step of a walk, which some signals read."""
    table: ClassVar[str] = ""
    """The further table whose rows its `explain` and `paid_rows` need beside columns of examples, so that a saved
    result with these rows explains it; empty for others.
    """

    # ---- settings ----

    @classmethod
    def from_table(cls, table: Mapping[str, Any], rule_classes: Mapping[str, type]) -> Self:
        """A policy from its table; `rule_classes` are the user's rules by class name.

        Raises ThinkbackError for anything wrong.
        """
        values = dict(table)
        for key in (name.rstrip("_") for name in cls.inner):
            if isinstance(table.get(key), Mapping):
                values[key] = read_policy(table[key], f"{table.get('name', '')}: {key}", rule_classes)
        return from_table(cls, values)

    @property
    def policy_parts(self) -> tuple[Policy, ...]:
        return tuple(part for name in self.inner if isinstance(part := getattr(self, name), Policy))

    @property
    def flip_baseline_name(self) -> str:
        """Name of the policy against which its fixes and flips are counted; empty where they are not counted."""
        return self.against or ""

    @property
    def columns(self) -> tuple[OutcomeColumn, ...]:
        """Columns of outcomes that the policy has beside those of every run; by default those of its parts."""
        return further_outcome_columns(self.policy_parts)

    @property
    def diagnostic(self) -> str:
        """What the policy sees that none in service could (gold, scores before they are paid); empty for real ones."""
        return next((part.diagnostic for part in self.policy_parts if part.diagnostic), "")

    @property
    def answers_with_one_trace(self) -> bool:
        """Whether the policy's outcome on an example is that of one chosen trace, not a mean over several."""
        return all(part.answers_with_one_trace for part in self.policy_parts)

    @property
    def mean_over_text(self) -> str:
        """The orders of generation over which the policy's outcome is a mean, in words; empty for the logged order."""
        return next((part.mean_over_text for part in self.policy_parts if part.mean_over_text), "")

    @property
    def pool_drawn_from(self) -> str:
        """The pool that its outcome depends on, if the order of the pool's traces changes nothing; else empty, such as
        for the logged order or for several pools.
        """
        return ""

    def as_mean_over_half_of_orders(self) -> tuple[Policy, float] | None:
        """The policy over the first half of its random orders, and which share that half is; None if it has none."""
        return None

    def as_mean_over_all_orders(self) -> Policy | None:
        """The policy as the exact mean over all orders of generation; None if it is one, or none exists."""
        return None

    def as_mean_over_seeded_orders(self, contents: Contents, orders: int, seed: int) -> Policy:
        """The policy (resolved) as a mean over `orders` seeded orders of generation; itself if it has one order."""
        return self

    def traces_drawn_by_pool(self, contents: Contents) -> Mapping[str, int]:
        """The most traces that the policy draws from each pool of which any may be drawn, in whatever order."""
        return {}

    @property
    def answers_from_samples(self) -> bool:
        """Whether the policy answers from samples of a question, of which there might have been others."""
        return self.answers and all(part.answers_from_samples for part in self.policy_parts)

    @property
    def top_level_text(self) -> str:
        """Why the policy can be no part of another one, in words; empty if it can."""
        if not self.answers:
            return f"kind `{self.kind}`, which has no answer: give it a `[[policy]]` of its own"
        keys = [key for key in ("against", "label") if getattr(self, key) is not None]
        return f"`{keys[0]}`, which belongs to the whole policy" if keys else ""

    @property
    def makes_verifications(self) -> bool:
        """Whether the policy itself makes verifications."""
        return False

    @property
    def first_attempt_pool(self) -> str | None:
        """The pool whose first trace the policy answers with, if it does nothing else; None for others."""
        return None

    @property
    def revision_action_and_pool(self) -> tuple[str, str | None] | None:
        """The action and the pool of the revisions that the policy answers with, if it does nothing else."""
        return None

    @property
    def example_ranking(self) -> ExampleRanking | None:
        """How the policy ranks all examples of a run to act on some; None if it decides on each alone."""
        return None

    @property
    def gate_files_with_reuse(self) -> tuple[tuple[GateFile, bool], ...]:
        """Gate files that the policy reads, each with whether questions that the file has seen may be reported."""
        return ()

    @property
    def swept_gate(self) -> SweptGate | None:
        """The policy's gate, if that has several thresholds, which only the log tells; else None."""
        return None

    @property
    def unfolding_key(self) -> Hashable:
        """A key shared by policies that answer while a question unfolds and differ in a threshold alone; else None."""
        return None

    @property
    def learned_settings(self) -> tuple[LearnedSetting, ...]:
        """Settings of what the policy itself fits on other examples."""
        return ()

    @cached_property
    def cache_key(self) -> Hashable:
        """A key shared by policies that differ in name alone; a policy that cannot be hashed shares it with none."""
        names = (field.name for field in fields(self) if field.compare and field.name not in NAMING)
        key = type(self), *(getattr(self, name) for name in names)
        return key if equality_key(key) is key else id(self)

    def refusal(self, why: object, kind: type[ThinkbackError] = UnsuitableError) -> ThinkbackError:
        """An error about this policy's settings, for the caller to raise."""
        return _with_policy_name(self.name, kind(str(why)))

    def with_parts(self, make: Callable[[Policy], Policy]) -> Self:
        """The policy with each of its parts replaced by `make` of it."""
        parts: dict[str, Any] = {n: make(part) for n in self.inner if isinstance(part := getattr(self, n), Policy)}
        return self.filled(**parts) if parts else self

    def filled(self, **values: Any) -> Self:
        """The policy with the values that the program fills in or has read, which no check reads again."""
        policy = object.__new__(type(self))
        for one in fields(self):
            object.__setattr__(policy, one.name, values[one.name] if one.name in values else getattr(self, one.name))
        return policy

    def require_parts(self) -> None:
        """Turn tables in inner fields into policies, and raise unless each can be part of another policy."""
        for name in self.inner:
            inner, key = getattr(self, name), name.rstrip("_")
            if isinstance(inner, Mapping):
                object.__setattr__(self, name, inner := read_policy(inner, f"{self.name}: {key}", {}))
            if not isinstance(inner, Policy):
                raise self.refusal(f"`{key}` is {quote(inner)}; it takes a policy, a table with its own `kind`")
            if inner.top_level_text:
                raise self.refusal(f"`{key}` has {inner.top_level_text}")

    # ---- a log ----

    def resolve(self, contents: Contents) -> Self:
        """The policy with the names filled in that it leaves out. Raises for a name that the log lacks."""
        return self.with_parts(lambda part: part.resolve(contents))

    def needs(self, contents: Contents) -> Needs:
        """What the policy itself reads of a log, without its parts."""
        return Needs()

    def explanation_needs(self, contents: Contents) -> Needs:
        """What the policy's explanation reads of a log beside what a replay reads."""
        return Needs()

    def check_log(self, log: Log, contents: Contents) -> None:
        """Raise where the log lacks something that only a look into its tables shows."""

    def slices(self, contents: Contents) -> frozenset[str]:
        """The slices of a block that its chosen trace may be in."""
        return frozenset().union(*(part.slices(contents) for part in self.policy_parts))

    def fit_with(self, fit: Fit) -> Self:
        """The policy with what it and its parts learn fitted by `fit`."""
        return self.with_parts(lambda part: part.fit_with(fit))

    # ---- a block ----

    @classmethod
    def prepare(cls, policies: Sequence[Self], on: Evaluator) -> None:
        """Compute on a block what policies of this kind share, before any of them is replayed."""

    @abstractmethod
    def path(self, on: Evaluator) -> PolicyPath:
        """The policy's outcome on a block, with the calls that it paid."""

    def outcome(self, on: Evaluator) -> Outcome:
        """The policy's outcome alone, where that is less work than its path."""
        return on.path(self).outcome

    def explain(self, on: Evaluator, repetition: int) -> Iterator[ExplanationStage]:
        """How the policy went on the one example of a block, stage by stage; `repetition` picks a random order."""
        for part in self.policy_parts:
            yield from part.explain(on, repetition)

    def paid_rows(self, on: Evaluator) -> pl.DataFrame:
        """The rows of its `table` that it paid on a block: `row`, their numbers there, ascending, and what it made of
        each, for pictures and explanations.
        """
        raise NotImplementedError(f"`{self.name}` reads no further table")

    def ending_text(self, ending: str) -> str:
        """Why the policy ended, in words, from the number of its ending."""
        return ending

    def ending_text_on_example(self, on: Evaluator, ending: str) -> str:
        """Why the policy ended on the one example of a block, in words; by default the same for every example."""
        return self.ending_text(ending)

    def averaged_rows_text(self, on: Evaluator, rows: int) -> str:
        """What its outcome on the one example of a block is a mean over, in words, when it has `rows` rows."""
        return f"{rows} rows"

    def remarks_on(self, block: LogBlock) -> Iterator[Remark]:
        """What there is to remark on the policy itself on a block."""
        yield from ()

    def at_each_threshold(self, block: LogBlock) -> ThresholdSteps:
        """How its outcomes on a block change with the threshold of its stop, if it has an `unfolding_key`."""
        raise NotImplementedError(f"`{self.name}` has no threshold at which it answers")

    def payable_verifications(self, block: LogBlock) -> Iterator[PayableVerifications]:
        """The verifications of a block that the policy itself may pay."""
        yield from ()

    def untrusted_rules(self, on: Evaluator) -> Iterator[tuple[Rule, Prefix]]:
        """The policy's rules that are not built in and so may look ahead, each with the statistics it reads."""
        yield from ()

    def final_remarks(self) -> Iterator[RemarkKind]:
        """What there is to remark on the policy, or on a part of it, whatever the block."""
        yield from ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise RequiredError("a policy needs a `name` (a string that is not empty)")
        if self.label is not None and not str(self.label).strip():
            raise self.refusal("`label` is empty; it takes a short name")
        with policy_errors(self.name):
            check(self)
        if not self.sweep:
            object.__setattr__(self, "sweep", self.name)


def read_policy(table: Any, name: str, rule_classes: Mapping[str, type]) -> Policy:
    """The policy of a table without a sweep; messages call it `name`. Raises ThinkbackError for anything wrong."""
    if not isinstance(table, Mapping):
        raise _with_policy_name(name, InvalidError(f"it is {quote(table)}; it takes a table with its own `kind`"))
    kind = table.get("kind")
    if kind is None:
        raise _with_policy_name(name, RequiredError(f"it has no `kind`; {suggest('', KINDS)}"))
    if not isinstance(kind, str) or kind not in KINDS:
        raise _with_policy_name(name, UnknownError(f"unknown kind `{kind}`; {suggest(str(kind), KINDS)}"))
    with policy_errors(name):
        settings = {key: value for key, value in table.items() if key != "kind"}
        return KINDS[kind].from_table(settings | {"name": name}, rule_classes)


def further_outcome_columns(policies: Sequence[Policy]) -> tuple[OutcomeColumn, ...]:
    """The columns of outcomes that policies have beside those of every run."""
    return tuple({column.name: column for policy in policies for column in policy.columns}.values())


def policy_and_parts(policy: Policy) -> Iterator[Policy]:
    """A policy and all policies that are part of it, the innermost first."""
    for part in policy.policy_parts:
        yield from policy_and_parts(part)
    yield policy


def needs_of_policies(policies: Sequence[Policy], contents: Contents) -> Needs:
    """What policies (resolved) and their parts read of a log."""
    return needs_of_all(part.needs(contents) for policy in policies for part in policy_and_parts(policy))


class Evaluator:
    """Replays policies on one block, each once, however many other policies it is part of.

    Every policy must be resolved, and `against` must name one of them. `acting`: names of policies that rank all
    examples of a run and are taken to act on every one here; the others act on none. `paths`: whether the path of each
    is asked for.
    """

    def __init__(
        self, block: LogBlock, policies: Sequence[Policy], acting: frozenset[str] = frozenset(), paths: bool = False
    ) -> None:
        self.block, self.policies, self.acting = block, policies, acting
        self._by_name = {policy.name: policy for policy in policies}
        self._results: dict[Hashable, Any] = {}
        self._shared: dict[Hashable, tuple[Outcome, np.ndarray]] = {}
        names = {name for p in policies if p.against is not None for name in (p.name, p.against)}
        keys = (p.cache_key for q in policies for p in policy_and_parts(q) if paths or p is not q or q.name in names)
        self.traced = frozenset(keys)
        by_kind: dict[type[Policy], dict[Hashable, Policy]] = {}
        for part in (part for policy in policies for part in policy_and_parts(policy)):
            by_kind.setdefault(type(part), {})[part.cache_key] = part
        for kind, members in by_kind.items():
            kind.prepare(list(members.values()), self)

    def outcomes(self) -> list[Outcome]:
        """Outcomes of the policies in their order, each with its fixes and flips against the policy that it names."""
        return [self.outcome_against_base(policy) for policy in self.policies]

    def outcome_against_base(self, policy: Policy) -> Outcome:
        """The outcome of a policy, with its fixes and flips against the policy that it names."""
        if policy.against is None:
            return self.outcome(policy)
        base = self.path(self._by_name[policy.against])
        return replace(self.outcome(policy), against=compare_with_base(self.block, self.path(policy), base))

    def with_acting(self, acting: frozenset[str]) -> Evaluator:
        """An evaluator in which other ranking policies act; results that do not depend on that are shared."""
        other = copy(self)
        other.acting = acting
        return other

    def outcome(self, policy: Policy) -> Outcome:
        def compute_outcome() -> Outcome:
            shared = self.shared_outcome(policy)
            return policy.outcome(self) if shared is None else shared[0].at_examples(shared[1])

        return self.compute_once(("outcome", self._policy_key(policy)), compute_outcome)

    def shared_outcome(self, policy: Policy) -> tuple[Outcome, np.ndarray] | None:
        """The outcome that a policy shares with others, and its examples (E,) in that; None where it shares none."""
        return None if policy.against is not None else self._shared.get(self._policy_key(policy))

    def path(self, policy: Policy) -> PolicyPath:
        return self.compute_once(("path", self._policy_key(policy)), lambda: policy.path(self))

    def compute_once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The result of `make`, computed at the first use of `key`."""
        if key not in self._results:
            self._results[key] = make()
        return self._results[key]

    def store_outcome(self, policy: Policy, outcome: Outcome) -> None:
        """Store an outcome that was computed beforehand."""
        self._results["outcome", self._policy_key(policy)] = outcome

    def share_outcome(self, policies: Sequence[Policy], outcome: Outcome, examples: np.ndarray) -> None:
        """Store an outcome of which each policy has some `examples` (policies, E), the same as others or not."""
        for policy, some in zip(policies, examples, strict=True):
            self._shared[self._policy_key(policy)] = outcome, some

    def examples_ranking_acts_on(self, policy: Policy) -> np.ndarray:
        """Whether (E,) a policy that ranks all examples acts on each: on all here, or on none."""
        return np.full(len(self.block.examples), policy.name in self.acting)

    def _policy_key(self, policy: Policy) -> Hashable:
        """The key of a policy's results, which for a ranking policy holds whether it acts."""
        return policy.cache_key, policy.example_ranking is not None and policy.name in self.acting
