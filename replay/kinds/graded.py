"""Kind `graded`: a base policy, and the fewer further traces the higher a verifier scores its answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from replay.data.contents import Contents
from replay.engine.calls import PolicyPath
from replay.engine.mixing import choose_path
from replay.engine.outcome import BaseComparison
from replay.kinds.when import When
from replay.policies.base import Evaluator, ExplanationStage, Policy
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
            raise self.refusal(
                f"`votes` has {len(self.votes)} numbers and `thresholds` {len(self.thresholds)}; give one for each"
            )
        if any(first >= second for first, second in zip(self.thresholds, self.thresholds[1:], strict=False)):
            raise self.refusal(f"`thresholds` are {list(self.thresholds)}; they ascend")
        if any(first <= second for first, second in zip(self.votes, self.votes[1:], strict=False)):
            raise self.refusal(f"`votes` are {list(self.votes)}; they fall as the thresholds ascend")
        if getattr(self.then, CAP, None) != self.votes[0]:
            raise self.refusal(f"`then` takes `{CAP} = {self.votes[0]}`, the first of `votes`")
        _ = self.gated_policies

    @cached_property
    def gated_policies(self) -> tuple[When, ...]:
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
    def policy_parts(self) -> tuple[Policy, ...]:
        return self.gated_policies

    @property
    def flip_baseline_name(self) -> str:
        return self.against or self.gated_policies[0].flip_baseline_name

    def with_parts(self, make: Any) -> Self:
        """The policy with `make` applied to its base and to `then`."""
        return replace(self, base=make(self.base), then=make(self.then))

    def resolve(self, contents: Contents) -> Self:
        policy = super().resolve(contents)
        for gated_policy in policy.gated_policies:
            gated_policy.resolve(contents)
        return policy

    # ---- a block ----

    def path(self, on: Evaluator) -> PolicyPath:
        """The path of the first gate that fires, or of the last where none fires."""
        *lower, last = self.gated_policies
        path = on.path(last)
        for one in reversed(lower):
            fires, gate_path = one.gate_fires(on), on.path(one)
            against = base_comparison_where(fires, gate_path.outcome.against, path.outcome.against)
            path = choose_path(fires, gate_path, path, self.columns)
            path = replace(path, outcome=replace(path.outcome, against=against))
        return path

    def explain(self, on: Evaluator, repetition: int) -> Iterator[ExplanationStage]:
        yield from self._deciding_gate(on).explain(on, repetition)

    def ending_text_on_example(self, on: Evaluator, ending: str) -> str:
        return self._deciding_gate(on).ending_text_on_example(on, ending)

    def averaged_rows_text(self, on: Evaluator, rows: int) -> str:
        return self._deciding_gate(on).averaged_rows_text(on, rows)

    def _deciding_gate(self, on: Evaluator) -> When:
        """The first gate that fires on the one example of a block, else the last."""
        return next((policy for policy in self.gated_policies if policy.gate_fires(on)[0]), self.gated_policies[-1])


def base_comparison_where(
    on: np.ndarray, first: BaseComparison | None, second: BaseComparison | None
) -> BaseComparison:
    """Fixes and flips of one gate where `on` (E,), of another elsewhere."""
    names = [field.name for field in fields(BaseComparison)]  # gates always have a base
    return BaseComparison(*(np.where(on, getattr(first, name), getattr(second, name)) for name in names))
