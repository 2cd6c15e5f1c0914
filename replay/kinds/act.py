"""Kind `act`: the answer of a revision of a base attempt, and the costs of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import polars as pl

from replay.data.block import LoggedPool
from replay.data.contents import Contents
from replay.data.needs import Needs, revision_needs, slice_name
from replay.engine.calls import ChosenTraces, PolicyPath, Realization, expected_tokens, single_trace_calls
from replay.engine.costs import TraceCalls
from replay.engine.outcome import BaseComparison
from replay.engine.revisions import mean_outcome, revision_calls
from replay.kinds.stages import TRACE_SCHEMA, trace_stage_rows
from replay.policies.base import Evaluator, ExplanationStage, Policy, policy_errors
from toolkit.errors import quote
from toolkit.settings import as_kind, setting

MEAN = "mean"


@dataclass(frozen=True, kw_only=True)
class Act(Policy, kind="act", single_by="give the act `rollouts = 0`"):
    """The answer of a revision of the first trace of pool `base`, at the costs of both.

    `pool` is the revision's, needed where one action has several. `rollouts` is `mean`, over all that are logged for
    the example, or the number of one of them.
    """

    action: str = setting(what="a name")
    base: str = setting(what="a name")
    pool: str | None = setting(None, what="a name")
    rollouts: int | str = MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.action == "solve":
            raise self.refusal("`action` is `solve`, which is the first attempt; name the action of a revision")
        number = as_kind(int, self.rollouts)
        mean = isinstance(self.rollouts, str) and self.rollouts == MEAN
        if not mean and (number is None or number < 0):
            raise self.refusal(f'`rollouts` is {quote(self.rollouts)}; it takes "mean" or an integer of at least 0')
        object.__setattr__(self, "rollouts", MEAN if number is None else number)

    @property
    def answers_with_one_trace(self) -> bool:
        return self.rollouts != MEAN

    @property
    def revision_action_and_pool(self) -> tuple[str, str | None]:
        return self.action, self.pool

    @property
    def flip_baseline_name(self) -> str:
        return self.against or self.base

    @property
    def slice(self) -> str:
        return slice_name(self.action, self.base, self.pool)

    def resolve(self, contents: Contents) -> Self:
        with policy_errors(self.name):
            contents.require_pool(self.base)
            contents.require_action(self.action)
            return self.filled(pool=contents.revision_pool(self.action, self.base, self.pool))

    def needs(self, contents: Contents) -> Needs:
        return revision_needs(self.action, self.base, self.pool)

    def slices(self, contents: Contents) -> frozenset[str]:
        return frozenset([self.slice])

    def path(self, on: Evaluator) -> PolicyPath:
        """The path with a realization for each logged rollout, or for the one that is named."""
        block, name = on.block, self.slice
        base, revised, examples = block.pools[self.base], block.pools[name], len(block.examples)
        numbers = self._rollout_numbers(revised)
        share = 1.0 if self.answers_with_one_trace else 1 / np.maximum(revised.size, 1)
        realizations = [
            Realization((n < revised.size) * share, (revision_calls(block, self.base, name, n),)) for n in numbers
        ]
        which = f" with rollout {self.rollouts}" if self.answers_with_one_trace else ""
        reasons = (
            "served",
            f"no trace in pool `{self.base}`",
            f"no revision by `{self.action}` of pool `{self.base}`{which}",
            f"pool `{self.base}` has fewer traces than revisions `{self.action}` read, or is replayed whole",
        )
        reason = self._partial_reasons(base, revised)
        outcome = mean_outcome(block, [(name, n) for n in numbers], realizations, reason, reasons)
        tokens = expected_tokens(block, realizations, {TraceCalls(self.base): single_trace_calls(base, 0)})
        compared = BaseComparison(base.credit_or_correct[:, 0], outcome.correct, np.ones(examples), tokens)
        outcome = replace(outcome, against=compared)
        none = np.zeros(examples, dtype=np.int64)
        chosen = ChosenTraces((name,), none, np.full(examples, numbers[0])) if self.answers_with_one_trace else None
        return PolicyPath(outcome, tuple(realizations), chosen, {})

    def _rollout_numbers(self, revised: LoggedPool) -> list[int]:
        if self.rollouts != MEAN:
            return [int(self.rollouts)]
        return list(range(max(int(revised.size.max(initial=1)), 1)))

    def _partial_reasons(self, base: LoggedPool, revised: LoggedPool) -> np.ndarray:
        used = revised.has_trace
        if self.rollouts != MEAN:
            used = used & (np.arange(revised.code.shape[1]) == self.rollouts)
        reads = np.where(used, np.maximum(revised.reads, 1), 0).max(axis=1, initial=0)
        reason = np.where(base.size < reads, 3, 0).astype(np.int16)
        if base.whole:
            reason[(base.size > reads) | (base.behind_gap > 0)] = 3
        reason[~used.any(axis=1)] = 2
        reason[base.size == 0] = 1
        return reason

    def explain(self, on: Evaluator, repetition: int) -> Iterator[ExplanationStage]:
        revised = on.block.pools[self.slice]
        rollouts = [n for n in self._rollout_numbers(revised) if n < revised.size[0]]
        most_read = max([1, *(int(revised.reads[0, n]) for n in rollouts)])
        rows = [
            *trace_stage_rows(on.block, self.base, range(most_read)),
            *trace_stage_rows(on.block, self.slice, rollouts),
        ]
        traces = tuple((row["of"], row["sample"]) for row in rows)
        yield ExplanationStage(f"`{self.name}`", pl.DataFrame(rows, schema=TRACE_SCHEMA), traces=traces)

    def ending_text(self, ending: str) -> str:
        return "the revision is the answer"

    def averaged_rows_text(self, on: Evaluator, rows: int) -> str:
        return f"{rows} rollouts"
