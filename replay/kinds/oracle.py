"""Kind `oracle`: diagnostics that see the reference answer. What each rule does is in `oracle_rules`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from replay.data.contents import Contents
from replay.data.needs import Needs, revisions, slice_name
from replay.engine.calls import PolicyPath
from replay.engine.mixing import gain
from replay.kinds.oracle_rules import CHOOSING, MATCHING, RULES, OracleRule
from replay.kinds.sample import Sample
from replay.kinds.trace_rows import COST_COLUMNS, cost_row, known
from replay.policies.base import Evaluator, Policy, Ranking, Stage
from replay.policies.policy_errors import errors_of
from toolkit.errors import ThinkbackError, require_known, shown, suggest
from toolkit.settings import setting


@dataclass(frozen=True, kw_only=True)
class Oracle(Policy):
    """A diagnostic that sees gold; only `matched_random` does not.

    `any`: right when some trace of `of` is (pass@n, the ideal verifier); it pays all of `of`, and the sample 0 of
    the pool `base` if there is one. `action`: the best logged outcome among `base` and `of`, every rollout a
    candidate. `expected_action`: the one with the highest mean correctness. `of` names pools and actions (an
    action: its logged revisions of the base's sample 0). `matched_rate`: `then` on the share `rate` of the examples
    with the largest gain over `base`; `matched_random`: the mean of both, `rate` the weight of `then`. For these
    two `base` is a policy, or the name of a pool, whose sample 0 is meant.
    """

    of: tuple[str, ...] = setting((), what="a list of names of pools and actions")
    rule: str = setting("any", choices=RULES)
    base: str | Policy | None = None
    then: Policy | None = None
    rate: float | None = setting(None, what="a share from 0 to 1", low=0, high=1)
    kind: ClassVar[str] = "oracle"
    inner: ClassVar[tuple[str, ...]] = ("base", "then")
    lists: ClassVar[frozenset[str]] = Policy.lists | {"of"}

    def __post_init__(self) -> None:
        given: Any = self.of
        object.__setattr__(self, "of", (given,) if isinstance(given, str) else given)
        super().__post_init__()
        if self.choosing.matched:
            self._check_matched()
        else:
            self._check_choice()

    def _check_choice(self) -> None:
        if not self.of:
            raise self.refuse("`of` takes a list of names of pools and actions")
        if len(set(self.of)) != len(self.of):
            raise self.refuse("`of` names the same pool or action twice")
        for key in (key for key in ("then", "rate") if getattr(self, key) is not None):
            raise self.refuse(f"`{key}` belongs to the rules `matched_rate` and `matched_random`, not to `{self.rule}`")
        if self.base is None and self.choosing.needs_base:
            raise self.refuse(f"rule `{self.rule}` needs `base`, the pool whose sample 0 is the base attempt")
        if self.base is not None and not isinstance(self.base, str):
            raise self.refuse(f"`base` is {shown(self.base)}; for rule `{self.rule}` it takes the name of a pool")

    def _check_matched(self) -> None:
        if self.of:
            raise self.refuse(f"`of` does not go with rule `{self.rule}`; it takes `base`, `then` and `rate`")
        if isinstance(self.base, str):
            base = Sample(name=f"{self.name}: base", pool=self.base, max_traces=1, select="first")
            object.__setattr__(self, "base", base)
        self.require_parts()
        if self.rate is None:
            raise self.refuse("`rate` is missing; it takes a share from 0 to 1")

    @property
    def choosing(self) -> OracleRule:
        """Its rule."""
        return RULES[self.rule]

    @property
    def diagnostic(self) -> str:
        """It sees gold."""
        return "sees gold" if self.choosing.sees_gold else ""

    @property
    def single(self) -> bool:
        """Whether the rule chooses one trace."""
        return self.choosing.single

    @property
    def ranking(self) -> Ranking | None:
        """By gain in mean correctness, where the rule ranks all examples of a run."""
        return Ranking(float(self.rate or 0.0), self._gain) if self.choosing.sees_all else None

    @property
    def top_level_only(self) -> str:
        """A rule that ranks all examples belongs to a run."""
        ranks = f"an oracle of rule `{self.rule}`, which chooses among all examples of a run"
        return super().top_level_only or (ranks if self.choosing.sees_all else "")

    # ---- a log ----

    def resolve(self, contents: Contents) -> Self:
        """With its parts resolved; the log must have what `of` and `base` name."""
        if self.parts:
            return super().resolve(contents)
        with errors_of(self.name):
            for name in self.of:
                known = contents.pools | contents.actions
                require_known(name, known, f"the log has no pool or action `{name}`")
                if name in contents.pools and name in contents.actions:
                    raise ThinkbackError(f"`{name}` is both a pool and an action of the log")
                if name not in contents.pools and self.base is None:
                    raise ThinkbackError(
                        f"`{name}` is an action, so it needs `base`, the pool whose sample 0 it revises; "
                        f"{suggest('', contents.pools)}"
                    )
            if self.base is not None:
                contents.require_pool(str(self.base))
        return self

    def needs(self, contents: Contents) -> Needs:
        """The pools and actions that it looks at."""
        if self.parts:
            return Needs()
        found = Needs(pools=frozenset(name for name in (*self.of, self.base) if name in contents.pools))
        for name in self.of:
            if name not in contents.pools and self.base is not None:
                found |= revisions(name, str(self.base), None)
        return found

    def slices(self, contents: Contents) -> frozenset[str]:
        """What it may choose from."""
        if self.parts:
            return super().slices(contents)
        own = frozenset([self.base] if isinstance(self.base, str) else [])
        return own | {n if n in contents.pools else slice_name(n, str(self.base)) for n in self.of}

    # ---- a block ----

    def path(self, on: Evaluator) -> PolicyPath:
        """What its rule chooses."""
        if self.parts:
            base, then = (on.path(part) for part in self.parts)
            return MATCHING[self.rule].match(float(self.rate or 0.0), base, then, on.chosen_by(self), self.columns)
        return CHOOSING[self.rule].choose(on.block, None if self.base is None else str(self.base), self.of)

    def _gain(self, on: Evaluator) -> tuple[np.ndarray, np.ndarray]:
        base, then = (on.path(part) for part in self.parts)
        return gain(on.block, base, then)

    def explain(self, on: Evaluator, repetition: int) -> Iterator[Stage]:
        """Every trace that it looks at; or both of the policies that it is made of, and what the second gains."""
        if not self.parts:
            base = None if self.base is None else str(self.base)
            yield from CHOOSING[self.rule].stages(self.name, on.block, base, self.of)
            return
        yield from super().explain(on, repetition)
        value, tokens = (float(one[0]) for one in self._gain(on))
        rows = [
            {"correct": known(outcome.correct[0]), **cost_row(part, outcome.costs[0])}
            for part, outcome in zip(("base", "then"), (on.outcome(part) for part in self.parts), strict=True)
        ]
        frame = pl.DataFrame(rows, schema_overrides={"correct": pl.Float64}).select("part", "correct", *COST_COLUMNS)
        gained = "not known: the example is unjudged" if np.isnan(value) else f"{value:+g}"
        spent = "not logged" if np.isnan(tokens) else f"{tokens:,.0f}"
        rate = f"rate {self.rate:g}; " if self.rate is not None else ""
        yield Stage("both policies", frame, f"{rate}gain of `then` over `base`: {gained}, action tokens: {spent}")

    def ending(self, ending: str) -> str:
        """What its rule does."""
        return self.choosing.says

    def rows_of(self, on: Evaluator) -> str:
        """What its rule takes the mean of."""
        return self.choosing.rows_are
