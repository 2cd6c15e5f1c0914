"""What every kind of policy is asked: how it is read, what it needs of a log, how it replays, explains and notes.

A kind is a frozen dataclass below `Policy`, in a module of `replay.kinds`. The engine asks it and never tests for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import polars as pl

from replay.data.block import Block
from replay.data.contents import Contents
from replay.data.needs import Needs
from replay.engine.calls import PolicyPath
from replay.engine.outcome import Outcome
from replay.policies.remarks import Remark, RemarkKind
from replay.sampling.prefix import Prefix
from replay.sampling.stops import StopRule
from toolkit.columns import OutcomeColumn
from toolkit.errors import ThinkbackError, shown
from toolkit.log import Log
from toolkit.settings import check, from_table, setting

KINDS: dict[str, type[Policy]] = {}
"""Kinds of policies by the names that policy files give them; `replay.kinds` fills it."""


class PolicyError(ThinkbackError):
    """An error that names its policy."""


class Reader(Protocol):
    """Reads the parts of a policy's table."""

    def policy(self, table: Any, name: str) -> Policy:
        """A policy inside another one, which messages call by this name."""
        ...

    def stop(self, table: Any) -> Any:
        """A stopping rule, one of the user's own among them."""
        ...


class Learner(Protocol):
    """Fits what policies learn on development splits, each setting once."""

    whole_pools: frozenset[str]

    def learn(self, policy: Policy, settings: Any, same: tuple[Hashable, ...], fit: Callable[[Block, Any], Any]) -> Any:
        """`settings` with what `fit` found on the examples of its condition `on`."""
        ...

    def refuse_reuse(self, policy: Policy, learnt: Any, calibrated: Any) -> None:
        """Raise where examples are both learnt from and used to set thresholds of what was learnt."""
        ...


class Replayed(Protocol):
    """Policies on one block, each evaluated once."""

    block: Block
    whole_pools: frozenset[str]
    traced: frozenset[Hashable]
    """Keys of the policies whose paths will be asked for."""

    def outcome(self, policy: Policy) -> Outcome:
        """Outcome of a policy by itself."""
        ...

    def path(self, policy: Policy) -> PolicyPath:
        """Outcome of a policy, and what it paid."""
        ...

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for each key."""
        ...

    def keep(self, policy: Policy, outcome: Outcome) -> None:
        """Keep an outcome that was made beforehand."""
        ...

    def chosen_by(self, policy: Policy) -> Any:
        """The examples on which a policy that ranks them all intervenes: bool (E,); None before it is known."""
        ...


@dataclass(frozen=True)
class Stage:
    """A part of an explanation: a title, rows that tell it step by step, and a sentence on how it ended."""

    title: str
    rows: pl.DataFrame
    ending: str = ""


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """What every policy has: a name, and another policy's name with which fixes and flips are counted."""

    name: str
    against: str | None = setting(None, what="a policy's name")
    sweep: str = setting("", key=False)
    """Name before the sweep's brackets; the name itself for a policy of its own."""
    sweep_size: int = setting(1, key=False)
    """How many policies the sweep made."""
    kind: ClassVar[str]
    lists: ClassVar[frozenset[str]] = frozenset()
    """Keys whose value is a list by nature: there, a list of lists is the sweep."""
    single_by: ClassVar[str] = "leave out `orders` and `expected`"
    """How a policy of this kind comes to have one chosen trace."""

    # ---- settings ----

    @classmethod
    def from_table(cls, table: Mapping[str, Any], reader: Reader) -> Self:
        """A policy from its table, whose inner tables `reader` reads. Raises ThinkbackError for anything wrong."""
        return from_table(cls, table)

    @property
    def parts(self) -> tuple[Policy, ...]:
        """Policies that it is made of."""
        return ()

    @property
    def flips_against(self) -> str:
        """What its fixes and flips are counted against, in words; empty where they are not."""
        return self.against or ""

    @property
    def columns(self) -> tuple[OutcomeColumn, ...]:
        """Columns of outcomes that it adds to those of every run."""
        return ()

    @property
    def diagnostic(self) -> str:
        """What it sees that no policy in service could (gold, scores before they are paid); empty for real policies."""
        return next((part.diagnostic for part in self.parts if part.diagnostic), "")

    @property
    def single(self) -> bool:
        """Whether its outcome on an example has one chosen trace, and is no mean over several."""
        return all(part.single for part in self.parts)

    @property
    def top_level_only(self) -> str:
        """Why it can be no part of another policy; empty if it can."""
        return "`against`, which belongs to the whole policy" if self.against is not None else ""

    @property
    def last_step(self) -> bool:
        """Whether it ends in a step of a walk, of which signals tell."""
        return False

    @property
    def verifies(self) -> bool:
        """Whether it makes verifications of its own."""
        return False

    @property
    def first_attempt(self) -> str | None:
        """The pool whose sample 0 it gives as the answer, where that is all it does."""
        return None

    @property
    def revises(self) -> tuple[str, str | None] | None:
        """The action, and the pool of the revisions, that it answers with, where that is all it does."""
        return None

    @property
    def sees_all(self) -> bool:
        """Whether it ranks all examples of a run, and intervenes on the `share` that gains most."""
        return False

    @property
    def share(self) -> float:
        """The share of examples on which a policy that ranks them intervenes."""
        return 0.0

    @property
    def gate_files(self) -> tuple[Any, ...]:
        """Thresholds of gate files that it reads by itself."""
        return ()

    @property
    def swept_gate(self) -> Any:
        """Its gate, where the threshold stands for every value of the signal; None where it does not."""
        return None

    @property
    def learns(self) -> tuple[Any, ...]:
        """Settings of what it fits by itself on other examples."""
        return ()

    @cached_property
    def cache_key(self) -> Hashable:
        """What policies share that differ in name alone; one that cannot be hashed is like no other."""
        plain = replace(self, name="part", against=None, sweep="part", sweep_size=1)
        try:
            hash(plain)
        except TypeError:
            return id(self)
        return plain

    def refuse(self, why: object) -> PolicyError:
        """An error about this policy's settings."""
        return PolicyError(f"policy `{self.name}`: {why}")

    def with_parts(self, make: Callable[[Policy], Policy]) -> Self:
        """The policy with `make` of each of its parts in that part's place."""
        inner = {f.name: made for f in fields(self) if isinstance(made := getattr(self, f.name), Policy)}
        changed: dict[str, Any] = {name: make(part) for name, part in inner.items()}
        return replace(self, **changed) if changed else self

    def require_part(self, key: str) -> None:
        """Raise unless the field `key` holds a policy that can be part of another one."""
        inner, name = getattr(self, key), key.rstrip("_")
        if not isinstance(inner, Policy):
            raise self.refuse(f"`{name}` is {shown(inner)}; it takes a policy, a table with its own `kind`")
        if inner.top_level_only:
            raise self.refuse(f"`{name}` has {inner.top_level_only}")

    # ---- a log ----

    def resolve(self, contents: Contents) -> Self:
        """The policy with the names that it leaves out filled in. Raises for any name that the log lacks."""
        return self.with_parts(lambda part: part.resolve(contents))

    def needs(self, contents: Contents) -> Needs:
        """What it reads of a log by itself, without its parts."""
        return Needs()

    def check_log(self, log: Log, contents: Contents) -> None:  # noqa: B027 -- most kinds have nothing to check
        """Raise for what only a look into the log's tables shows that it lacks."""

    def slices(self, contents: Contents) -> frozenset[str]:
        """Slices of a block in which its chosen trace may be."""
        return frozenset().union(*(part.slices(contents) for part in self.parts))

    def learn(self, learner: Learner) -> Self:
        """The policy with what it learns fitted, its parts' too."""
        return self.with_parts(lambda part: part.learn(learner))

    # ---- a block ----

    @classmethod  # noqa: B027 -- most kinds share nothing
    def prepare(cls, policies: Sequence[Self], on: Replayed) -> None:
        """Work that policies of this kind share on a block, before any of them is asked for."""

    @abstractmethod
    def path(self, on: Replayed) -> PolicyPath:
        """Its outcome on a block, and what it paid."""

    def gain(self, on: Replayed) -> tuple[np.ndarray, np.ndarray]:
        """Of a policy that ranks examples: what each (E,) would gain, and at how many action tokens (E,)."""
        raise NotImplementedError

    def outcome(self, on: Replayed) -> Outcome:
        """Its outcome alone, where that is less work."""
        return on.path(self).outcome

    def explain(self, on: Replayed, repetition: int) -> Iterator[Stage]:
        """Its way on the one example of a block, stage by stage; `repetition` picks a random order."""
        for part in self.parts:
            yield from part.explain(on, repetition)

    def ending(self, ending: str) -> str:
        """Why it ended, in words."""
        return ending

    def remarks(self, block: Block) -> Iterator[Remark]:
        """What must be said about a block beside its numbers, by itself."""
        yield from ()

    def may_pay(self, block: Block) -> Iterator[tuple[str, str, np.ndarray]]:
        """The verifications of a block that it may pay by itself: slice, verifier, and which traces (E, T) bool."""
        yield from ()

    def untrusted_rules(self, block: Block) -> Iterator[tuple[StopRule, Prefix]]:
        """Its own stopping rules that may look ahead, with what they see on a block."""
        yield from ()

    def final_remarks(self) -> Iterator[RemarkKind]:
        """What must be said about the policy that it is, or is a part of, whatever the block."""
        yield from ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ThinkbackError("a policy needs a `name` (a string that is not empty)")
        if not self.sweep:
            object.__setattr__(self, "sweep", self.name)
        try:
            check(self)
        except ThinkbackError as error:
            raise self.refuse(error) from None


def nested(policy: Policy) -> Iterator[Policy]:
    """A policy and all that it is made of, the innermost first."""
    for part in policy.parts:
        yield from nested(part)
    yield policy


def needs_of(policies: Sequence[Policy], contents: Contents) -> Needs:
    """What policies (resolved) and their parts read of a log."""
    found = Needs()
    for policy in policies:
        for part in nested(policy):
            found |= part.needs(contents)
    return found
