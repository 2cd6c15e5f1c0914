"""Kind `graded`: a base policy, and the fewer further traces the higher a verifier scores its answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from replay.data.contents import Contents
from replay.engine.calls import PolicyPath
from replay.engine.mixing import choose
from replay.engine.outcome import Against
from replay.kinds.when import When
from replay.policies.base import Evaluator, Policy, Stage
from replay.policies.gates import Threshold
from toolkit.settings import setting

CAP = "max_traces"
"""The key of `then` that each number of votes replaces."""


@dataclass(frozen=True, kw_only=True)
class Graded(Policy, kind="graded", inner=("base", "then"), lists=Policy.lists | {"thresholds", "votes"}):
    """A base policy, and where a verifier scores its answer low, `then` with more traces the lower the score.

    `thresholds` ascend and `votes` fall: below the first threshold `then` has the first number as its `max_traces`,
    below the second the second, and so on. From the last threshold on the base's answer stands.
    """

    base: Policy
    then: Policy
    verifier: str = setting(what="a name")
    thresholds: tuple[float, ...] = setting(what="a list of ascending numbers")
    votes: tuple[int, ...] = setting(low=1, what="a list of falling integers, at least 1")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_parts()
        if not self.thresholds or len(self.thresholds) != len(self.votes):
            raise self.refuse(
                f"`votes` has {len(self.votes)} numbers and `thresholds` {len(self.thresholds)}; give one for each"
            )
        if any(first >= second for first, second in zip(self.thresholds, self.thresholds[1:], strict=False)):
            raise self.refuse(f"`thresholds` are {list(self.thresholds)}; they ascend")
        if any(first <= second for first, second in zip(self.votes, self.votes[1:], strict=False)):
            raise self.refuse(f"`votes` are {list(self.votes)}; they fall as the thresholds ascend")
        if getattr(self.then, CAP, None) != self.votes[0]:
            raise self.refuse(f"`then` takes `{CAP} = {self.votes[0]}`, the first of `votes`")
        _ = self.gated

    @cached_property
    def gated(self) -> tuple[When, ...]:
        caps: list[dict[str, Any]] = [{CAP: votes} for votes in self.votes]
        return tuple(
            When(
                name=self.name,
                base=self.base,
                gate=Threshold(verifier=self.verifier, below=threshold),
                then=replace(self.then, **cap),
            )
            for threshold, cap in zip(self.thresholds, caps, strict=True)
        )

    @property
    def parts(self) -> tuple[Policy, ...]:
        return self.gated

    @property
    def flips_against(self) -> str:
        return self.against or self.gated[0].flips_against

    def with_parts(self, make: Any) -> Self:
        """The policy with `make` applied to its base and to `then`."""
        return replace(self, base=make(self.base), then=make(self.then))

    def resolve(self, contents: Contents) -> Self:
        policy = super().resolve(contents)
        for one in policy.gated:
            one.resolve(contents)
        return policy

    # ---- a block ----

    def path(self, on: Evaluator) -> PolicyPath:
        """The path of the first gate that fires, or of the last where none fires."""
        *lower, last = self.gated
        path = on.path(last)
        for one in reversed(lower):
            fires, gate_path = one.fires(on), on.path(one)
            against = _against_where(fires, gate_path.outcome.against, path.outcome.against)
            path = choose(fires, gate_path, path, self.columns)
            path = replace(path, outcome=replace(path.outcome, against=against))
        return path

    def explain(self, on: Evaluator, repetition: int) -> Iterator[Stage]:
        yield from self._deciding_gate(on).explain(on, repetition)

    def why(self, on: Evaluator, ending: str) -> str:
        return self._deciding_gate(on).why(on, ending)

    def rows_of(self, on: Evaluator, rows: int) -> str:
        return self._deciding_gate(on).rows_of(on, rows)

    def _deciding_gate(self, on: Evaluator) -> When:
        """The first gate that fires on the one example of a block, else the last."""
        return next((one for one in self.gated if one.fires(on)[0]), self.gated[-1])


def _against_where(on: np.ndarray, first: Against | None, second: Against | None) -> Against:
    """Fixes and flips of one gate where `on` (E,), of another elsewhere."""
    names = [field.name for field in fields(Against)]  # gates always have a base
    return Against(*(np.where(on, getattr(first, name), getattr(second, name)) for name in names))
