"""The signals that a gate may read of a base's outcome on a block. None of them depends on correctness.

A `GateInput` is one signal of the base attempt, a column of `features`, or a verifier's score. Each says what it needs
of a log, whether the log has it, and reads it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from replay.data.block import LogBlock, LoggedPool
from replay.data.contents import Contents
from replay.data.needs import Needs, needs_of_scores
from replay.data.read import suffix_signal_name
from replay.engine.calls import CallMask, Calls, ChosenTraces, PolicyPath, certain_calls, union_of_calls
from replay.engine.costs import CallKey, ScoreCalls, TraceCalls
from replay.engine.mixing import most_probable_answer
from replay.engine.trajectory import walk_block
from toolkit.errors import UnsuitableError, quote, require_known
from toolkit.stopping.declared import HeaderVariables

Parameter = float | int | None


@dataclass(frozen=True)
class SignalValues:
    """The values (E,) of a signal, NaN where it is not logged, and the calls that a policy pays to read it."""

    value: np.ndarray
    calls: Calls


@dataclass(frozen=True)
class GateInput(HeaderVariables, ABC):
    """An input of a gate: its source (`signal`, `feature`, `verifier`), its name, and the `parameter` of some
    signals.
    """

    source: ClassVar[str]
    name: str
    parameter: Parameter = None

    def __str__(self) -> str:
        return f"{self.source}:{self.name}"

    @property
    def compares_answers(self) -> bool:
        """Whether the input compares answers with each other."""
        return False

    def require_in_file(self) -> None:
        """Raise UnknownError for an input that a server cannot see, and that gate files therefore may not read."""

    @abstractmethod
    def needs(self, slices: Collection[str]) -> Needs:
        """The parts of a log that the input reads, for traces in some slices."""

    @abstractmethod
    def require_in_log(self, contents: Contents, slices: Collection[str], reader: str) -> None:
        """Raise ThinkbackError where the log lacks the input, or where it has no meaning on one of the slices."""

    def require_answers(self, contents: Contents, slices: Collection[str]) -> None:
        """Raise ThinkbackError where the input depends on the answer's text and a slice has verdicts but no answers."""

    @abstractmethod
    def read(self, block: LogBlock, path: PolicyPath) -> SignalValues:
        """The input's values on the chosen traces of a path."""


class _VerifierInput(GateInput, source="verifier"):
    def needs(self, slices: Collection[str]) -> Needs:
        return needs_of_scores(slices, self.name)

    def require_in_log(self, contents: Contents, slices: Collection[str], reader: str) -> None:
        contents.require_verifier(self.name, f" for {reader}")

    def read(self, block: LogBlock, path: PolicyPath) -> SignalValues:
        """The score of the chosen trace. A listwise one counts only where its call saw exactly the traces paid."""
        chosen = _chosen_traces(path)
        value = np.full(len(block.examples), np.nan)
        calls: dict[CallKey, CallMask] = {}
        paid = union_of_calls(segment.calls for realization in path.realizations for segment in realization.segments)
        for number, name in enumerate(chosen.slices):
            pool = block.pools[name]
            scores = pool.scores[self.name]
            mask = np.zeros(pool.code.shape)
            here = np.flatnonzero((chosen.slice == number) & (chosen.sample < pool.size))
            mask[here, chosen.sample[here]] = 1.0
            score = np.where(mask > 0, scores.score, np.nan)
            if scores.listwise_mask.any():
                traces = paid.get(TraceCalls(name))
                generated = np.zeros(score.shape, dtype=bool) if traces is None else traces.among > 0
                fits = scores.listwise_call_saw(generated, pool.code >= 0)
                score[scores.listwise_mask & ~fits] = np.nan
                ranked = (scores.listwise_mask & fits)[:, None] & mask.any(axis=1, keepdims=True)
                mask = np.where(ranked, ~np.isnan(scores.score), mask)
            known = ~np.isnan(score)
            row, column = np.nonzero(known)
            value[row] = score[row, column]
            calls[ScoreCalls(name, self.name)] = certain_calls(
                mask * (~np.isnan(scores.score)) * known.any(axis=1, keepdims=True)
            )
        return SignalValues(value, calls)


class _FeatureInput(GateInput, source="feature"):
    def needs(self, slices: Collection[str]) -> Needs:
        return Needs(features=frozenset([self.name]))

    def require_in_log(self, contents: Contents, slices: Collection[str], reader: str) -> None:
        contents.require_feature(self.name, reader)

    def read(self, block: LogBlock, path: PolicyPath) -> SignalValues:
        return SignalValues(_values_of_chosen_trace(block, path, lambda pool: pool.features[self.name]), {})


class _BaseSignalInput(GateInput, source="signal"):
    def __str__(self) -> str:
        return self.name

    @property
    def compares_answers(self) -> bool:
        return SIGNALS[self.name].of_votes

    def require_in_file(self) -> None:
        require_known(self.name, SERVABLE, f"a gate file can't read the signal {quote(self.name)}")

    def needs(self, slices: Collection[str]) -> Needs:
        return SIGNALS[self.name].needs(self.parameter)

    def require_in_log(self, contents: Contents, slices: Collection[str], reader: str) -> None:
        self._refuse_opaque(SIGNALS[self.name].of_votes, contents, slices)

    def require_answers(self, contents: Contents, slices: Collection[str]) -> None:
        self._refuse_opaque(SIGNALS[self.name].of_answers, contents, slices)

    def _refuse_opaque(self, of_them: bool, contents: Contents, slices: Collection[str]) -> None:
        for pool in sorted(contents.opaque & set(slices)) if of_them else ():
            raise UnsuitableError(
                f"pool `{pool}` has verdicts but no answers (opaque), so the signal `{self.name}` means nothing there"
            )

    def read(self, block: LogBlock, path: PolicyPath) -> SignalValues:
        return SignalValues(SIGNALS[self.name].read(block, path, self.parameter), {})


SOURCES: Mapping[str, type[GateInput]] = {
    kind.source: kind for kind in (_BaseSignalInput, _FeatureInput, _VerifierInput)
}


def gate_input(source: str, name: str, parameter: Parameter = None) -> GateInput:
    """The input of a gate by its source (`signal`, `feature` or `verifier`), its name and its parameter."""
    require_known(source, SOURCES, f"unknown source `{source}` of a gate's input")
    return SOURCES[source](name, parameter)


@dataclass(frozen=True)
class _BaseSignal:
    """A signal of the base attempt: a function that reads it, and what that needs.

    `column`: the column of traces that it reads beside those that every run reads; `example_column`: that of examples.
    `of_votes`: whether it compares answers, and so needs some. `of_answers`: whether it depends on the answer's text,
    so that a model may not learn from it where there are none. `last_step`: whether it reads the last step of a
    `sample` base; `verified`: whether that base must verify. `parameter`: the key that it needs. `servable`: whether a
    server can see it, so that gate files may read it; `gated`: whether policies may name it. `logged_as`: the column of
    traces by which a log has it; None: every log has it.
    """

    read: Callable[[LogBlock, PolicyPath, Parameter], np.ndarray]
    column: str | None = None
    example_column: str | None = None
    of_votes: bool = False
    of_answers: bool = False
    last_step: bool = False
    verified: bool = False
    parameter: str | None = None
    servable: bool = False
    gated: bool = True
    logged_as: str | None = None

    def needs(self, parameter: Parameter) -> Needs:
        """Columns that the signal reads beside those of every run."""
        return Needs(
            trace_columns=frozenset([self.column] if self.column is not None else []),
            example_columns=frozenset([self.example_column] if self.example_column is not None else []),
            suffixes=frozenset([int(parameter)] if self.parameter == "tokens" and parameter is not None else []),
        )


def _chosen_traces(path: PolicyPath) -> ChosenTraces:
    if path.chosen is None:
        raise ValueError("a gate's base has one chosen trace")
    return path.chosen


def _values_of_chosen_trace(
    block: LogBlock, path: PolicyPath, of: Callable[[LoggedPool], np.ndarray | None]
) -> np.ndarray:
    return _chosen_traces(path).read_column(block, of)


def _chosen_trace_cost(block: LogBlock, path: PolicyPath, name: str) -> np.ndarray:
    return _values_of_chosen_trace(block, path, lambda pool: pool.costs[name])


def _chosen_trace_signal(block: LogBlock, path: PolicyPath, name: str) -> np.ndarray:
    return _values_of_chosen_trace(block, path, lambda pool: pool.signals.get(name))


def _is_near_limit(block: LogBlock, path: PolicyPath, fraction: Parameter) -> np.ndarray:
    tokens, limit = (
        _chosen_trace_cost(block, path, "completion_tokens"),
        _chosen_trace_signal(block, path, "max_tokens"),
    )
    finalizer = _chosen_trace_cost(block, path, "finalizers")
    near = (tokens >= float(fraction or 0) * limit) | (finalizer > 0)
    return np.where(np.isnan(tokens) | np.isnan(limit) | np.isnan(finalizer), np.nan, near)


def _has_no_answer(block: LogBlock, path: PolicyPath, _: Parameter) -> np.ndarray:
    return _values_of_chosen_trace(block, path, lambda pool: (pool.code < 0).astype(float))


def _answer_length(block: LogBlock, path: PolicyPath, _: Parameter) -> np.ndarray:
    lengths = np.append(block.vocabulary.str.len_chars().to_numpy().astype(float), 0.0)
    word = _values_of_chosen_trace(
        block, path, lambda pool: np.where(_verdicts_without_answers(pool), np.nan, pool.word)
    )
    return np.where(np.isnan(word), np.nan, lengths[np.nan_to_num(word, nan=-1.0).astype(int)])


def _verdicts_without_answers(pool: LoggedPool) -> np.ndarray | bool:
    return False if pool.opaque is None else pool.opaque


def _question_length(block: LogBlock, path: PolicyPath, _: Parameter) -> np.ndarray:
    return block.examples["question"].str.len_chars().cast(pl.Float64).to_numpy()


def _vote_share(block: LogBlock, path: PolicyPath, _: Parameter) -> np.ndarray:
    """Votes of the prediction / traces seen that vote, after a sample policy's last step (E,)."""
    ((walk, step),) = path.outcome.runs
    trajectory = walk_block(block, walk)
    pool = trajectory.pool
    seen = trajectory.is_among_first(trajectory.place, trajectory.n_paid(step))
    nulls, word = seen & trajectory.counts_as_null_vote, most_probable_answer(path.outcome)
    voting, voted = (seen & (pool.code >= 0)) | nulls, pool.with_answers_from(walk.answers_as).word
    if walk.answers_as is not None:
        sample = _chosen_traces(path).sample
        chosen = np.where(word >= 0, voted[np.arange(len(word)), sample], -1)
    else:
        chosen = word
    votes = (voting & (voted == chosen[:, None])).sum(axis=1)
    total = voting.sum(axis=1)
    known = (total > 0) & ((word >= 0) | walk.nulls) & ~pool.has_incomparable_answers
    return np.where(known, votes / np.maximum(total, 1), np.nan)


def _score_margin(block: LogBlock, path: PolicyPath, _: Parameter) -> np.ndarray:
    """Lead in verifier score after a sample policy's last step (E,); 1 with one answer."""
    ((walk, step),) = path.outcome.runs
    trajectory = walk_block(block, walk)
    seen, rows, at = trajectory.stop_prefix, np.arange(len(step)), np.maximum(step, 1) - 1
    lead = np.where(seen.verified_answers[rows, at] == 1, 1.0, seen.lead[rows, at])
    known = (step > 0) & (seen.verified[rows, at] > 0) & ~trajectory.pool.has_incomparable_answers
    return np.where(known, lead, np.nan)


def _suffix_logprob(block: LogBlock, path: PolicyPath, tokens: Parameter) -> np.ndarray:
    return _chosen_trace_signal(block, path, suffix_signal_name(int(tokens or 0)))


def _cost_signal(name: str) -> Callable[[LogBlock, PolicyPath, Parameter], np.ndarray]:
    return lambda block, path, _: _chosen_trace_cost(block, path, name)


SIGNALS: Mapping[str, _BaseSignal] = {
    "truncated": _BaseSignal(_cost_signal("truncated"), servable=True, logged_as="finish_reason"),
    "finalizer_used": _BaseSignal(_cost_signal("finalizers"), servable=True, logged_as="finalizer_used"),
    "near_limit": _BaseSignal(_is_near_limit, column="max_tokens", parameter="fraction"),
    "completion_tokens": _BaseSignal(_cost_signal("completion_tokens"), servable=True, logged_as="completion_tokens"),
    "prompt_tokens": _BaseSignal(_cost_signal("prompt_tokens"), servable=True, gated=False, logged_as="prompt_tokens"),
    "suffix_logprob": _BaseSignal(_suffix_logprob, parameter="tokens"),
    "sum_logprob": _BaseSignal(
        lambda block, path, _: _chosen_trace_signal(block, path, "sum_logprob"),
        column="sum_logprob",
        servable=True,
        logged_as="sum_logprob",
    ),
    "invalid": _BaseSignal(_has_no_answer, of_answers=True, servable=True),
    "answer_length": _BaseSignal(_answer_length, of_answers=True, servable=True, gated=False),
    "question_length": _BaseSignal(_question_length, example_column="question", servable=True, gated=False),
    "vote_share": _BaseSignal(_vote_share, of_votes=True, last_step=True),
    "margin": _BaseSignal(_score_margin, of_votes=True, last_step=True, verified=True),
}
"""Lengths are in characters."""

GATED = tuple(name for name, signal in SIGNALS.items() if signal.gated)
SERVABLE = tuple(name for name, signal in SIGNALS.items() if signal.servable)
