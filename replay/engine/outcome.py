"""What the replay of one policy on one block gives: the arrays behind the rows of `outcomes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from replay.engine.costs import COSTS
from replay.engine.trajectory import Trajectory, Walk
from replay.sampling.selects import Select

RULE, CAP, EXHAUSTED, EMPTY, MIXED = 0, 1, 2, 3, -1
ENDINGS = ("rule", "cap", "exhausted", "empty")
COVERED = 0


@dataclass(frozen=True)
class BaseComparison:
    """A policy beside the base that it is compared with, on each example: float (E,) each."""

    base_correct: np.ndarray
    correct: np.ndarray
    intervened: np.ndarray
    action_tokens: np.ndarray

    @property
    def fix(self) -> np.ndarray:
        """Probability (E,) that the base is wrong and the policy right."""
        return (1 - self.base_correct) * self.correct

    @property
    def flip(self) -> np.ndarray:
        """Probability (E,) that the base is right and the policy wrong."""
        return self.base_correct * (1 - self.correct)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one policy on the E examples of a block: means over its rows, random orders or possible winners.

    `reason` int (E,): 0 where the log covers the example, else the number of an entry of `reasons`. `costs` (E, C),
    NaN: not logged. `words` (W, E): the possible predictions as numbers of the block's vocabulary, -1 for null.
    `shares` (W, E): the share of rows that predict each; None where there is one row. `rows` (E,): how many rows.
    `runs`: the walk of each row and the step at which it stopped, if asked for; the calls paid follow from them.
    `random_subset`: whether the verifications are a random subset of the valid traces generated (`expected`).
    `measured`: further columns of outcomes (E,). `order_s`: wall-clock seconds that the order took on the block, for
    each row; None where they are not known.
    """

    reason: np.ndarray
    reasons: tuple[str, ...]
    costs: np.ndarray
    correct: np.ndarray
    credit: np.ndarray
    words: np.ndarray
    shares: np.ndarray | None
    rows: np.ndarray
    ending: np.ndarray
    runs: tuple[tuple[Walk, np.ndarray], ...] = ()
    random_subset: bool = False
    against: BaseComparison | None = None
    measured: Mapping[str, np.ndarray] = field(default_factory=dict)
    order_s: float | None = None

    def cost(self, name: str) -> np.ndarray:
        """One column of the costs (E,)."""
        return self.costs[:, COSTS.index(name)]

    def at_examples(self, examples: np.ndarray) -> Outcome:
        """The outcome on the examples with these numbers, in this order, with no walk and no comparison."""
        return replace(
            self,
            reason=self.reason[examples],
            costs=self.costs[examples],
            correct=self.correct[examples],
            credit=self.credit[examples],
            words=self.words[:, examples],
            shares=None if self.shares is None else self.shares[:, examples],
            rows=self.rows[examples],
            ending=self.ending[examples],
            measured={name: values[examples] for name, values in self.measured.items()},
            runs=(),
            against=None,
        )


def join_outcomes(parts: Sequence[Outcome]) -> Outcome:
    """The outcomes of one policy on several blocks, as one on the examples of all, with no walk and no comparison."""
    first = parts[0]
    return replace(
        first,
        reason=np.concatenate([part.reason for part in parts]),
        costs=np.concatenate([one.costs for one in parts]),
        correct=np.concatenate([one.correct for one in parts]),
        credit=np.concatenate([one.credit for one in parts]),
        words=np.concatenate([one.words for one in parts], axis=1),
        shares=None if first.shares is None else np.concatenate([np.asarray(one.shares) for one in parts], axis=1),
        rows=np.concatenate([one.rows for one in parts]),
        ending=np.concatenate([one.ending for one in parts]),
        measured={name: np.concatenate([one.measured[name] for one in parts]) for name in first.measured},
        runs=(),
        against=None,
    )


@dataclass(frozen=True)
class Stops:
    """The end of a policy on each example: the step (E,), its ending (E,), and why the example is partial (E,), 0 where
    it is covered.

    `called` (E,): where the logged call of a listwise verifier was made; None where the verifier is not listwise.
    """

    step: np.ndarray
    ending: np.ndarray
    reason: np.ndarray
    called: np.ndarray | None


@dataclass
class OutcomeSums:
    """The running sums of a policy's outcomes over its random orders, so that memory does not grow with their number.

    Only `runs` grows with it; it is kept where later work has to know which calls were paid.
    """

    reasons: tuple[str, ...]
    rows: int
    keep_runs: bool
    reason: np.ndarray | None = None  # (E,) why the log cannot serve an example, in any row
    sums: tuple[np.ndarray, ...] = ()  # costs (E, C), correct (E,), credit (E,)
    counts: np.ndarray | None = None  # (E, A + 1) rows that predicted each answer code, the last: null
    code: np.ndarray | None = None  # (E,) the last row's
    ending: np.ndarray | None = None
    words: np.ndarray | None = None  # (E, A) words of the answer codes
    runs: list[tuple[Walk, np.ndarray]] = field(default_factory=list)
    order_s: float | None = None

    def add_order(self, trajectory: Trajectory, select: Select, stopped: Stops, extra: np.ndarray | None) -> None:
        """Add the outcome of one random order, whose walk ended as `stopped` says; costs `extra` (E, C) come on top."""
        step, ending, reason = stopped.step, stopped.ending, stopped.reason
        self.reason = reason if self.reason is None else np.maximum(self.reason, reason)
        steps = trajectory.costs.shape[1]
        at = np.arange(len(step)) * steps + step
        results = trajectory.answers_by_step(select)
        costs = trajectory.costs.reshape(-1, len(COSTS)).take(at, axis=0)
        parts = (costs if extra is None else costs + extra, results.judged.take(at), results.credit.take(at))
        self.sums = tuple(a + b for a, b in zip(self.sums, parts, strict=True)) if self.sums else parts
        self.words, self.code = trajectory.pool.vocabulary_number_of_code, results.code.take(at)
        if self.rows > 1:
            if self.counts is None:
                self.counts = np.zeros((len(step), self.words.shape[1] + 1))
            self.counts[np.arange(len(step)), self.code] += 1
        if self.ending is None:
            self.ending = ending
        else:
            self.ending = np.where(self.ending == ending, ending, MIXED).astype(np.int8)
        if trajectory.steps.seconds is not None:
            self.order_s = (self.order_s or 0.0) + trajectory.steps.seconds
        if self.keep_runs:
            self.runs.append((trajectory.walk, step))

    def mean_outcome(self) -> Outcome:
        if self.words is None or self.code is None or self.ending is None or self.reason is None:
            raise ValueError("no row was added")
        null = np.full((len(self.words), 1), -1, dtype=np.int32)
        words = np.concatenate([self.words, null], axis=1)
        if self.counts is None:
            costs, correct, credit = self.sums
            predicted = words[np.arange(len(words)), self.code][None, :]
        else:
            costs, correct, credit = (total / self.rows for total in self.sums)
            predicted = words.T
        return Outcome(
            reason=self.reason,
            reasons=self.reasons,
            costs=costs,
            correct=correct,
            credit=credit,
            words=predicted,
            shares=None if self.counts is None else (self.counts / self.rows).T,
            rows=np.full(len(words), self.rows),
            ending=self.ending,
            runs=tuple(self.runs),
            order_s=None if self.order_s is None else self.order_s / self.rows,
        )
