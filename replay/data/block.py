"""One block of examples of a log as arrays, which the engine replays; `replay.data.read` reads it.

Every array of traces is (E, T): row = example, in example_id order; column = sample index. Rows of further tables are
columns (R,) with offsets by example. A null number is NaN. What a policy may see (answers, costs, scores) and what it
may not (`judged`, `credit`) are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from replay.data.needs import Action
from replay.data.replies import SharedCosts
from replay.sampling.orders import example_hashes
from toolkit.stopping.unscored import UnscoredTreatment
from toolkit.table_rows import TableRows, as_numbers

TRACE_COSTS = ("finalizers", "truncated", "prompt_tokens", "completion_tokens", "latency_s", "device_s")
SCORE_COSTS = ("verification_tokens", "latency_s", "device_s")


@dataclass(frozen=True)
class Scores:
    """The scores of one verifier on one pool."""

    score: np.ndarray  # (E, T), NaN: not verified
    candidates: np.ndarray  # (E, T), 0: not listwise
    costs: Mapping[str, np.ndarray]  # SCORE_COSTS (and price): (E, T), unlogged counted as 0
    lacking: Mapping[str, np.ndarray] = field(default_factory=dict)  # SCORE_COSTS that some call lacks: bool (E, T)

    @cached_property
    def listwise_mask(self) -> np.ndarray:
        """Examples whose traces were ranked against each other in one call: bool (E,)."""
        return np.any(self.candidates > 0, axis=1)

    def listwise_call_saw(self, generated: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Whether (E,) the listwise call saw exactly the traces `generated` (E, T), or the `valid` of these."""
        scored = ~np.isnan(self.score)
        exact = (scored == generated).all(axis=1) | (scored == (generated & valid)).all(axis=1)
        counted = (~scored | (self.candidates == scored.sum(axis=1, keepdims=True))).all(axis=1)
        return exact & counted


@dataclass(frozen=True)
class LoggedPool:
    """The traces of one pool on a block, up to the first gap in each example's sample indices."""

    name: str
    size: np.ndarray  # (E,) traces before the first gap
    behind_gap: np.ndarray  # (E,) logged traces after the gap, which are not replayed
    code: np.ndarray  # (E, T) answer's number within the example, by first appearance; -1: invalid
    word: np.ndarray  # (E, T) answer's number in the block's vocabulary; -1: invalid
    costs: Mapping[str, np.ndarray]  # TRACE_COSTS (and price): (E, T)
    judged: np.ndarray  # (E, T) correctness (or the run's measure) as 0..1; NaN: unjudged
    credit: np.ndarray  # (E, T)
    reads: np.ndarray  # (E, T) traces of the base's pool that a revision saw; 0 for first attempts
    scores: Mapping[str, Scores]
    signals: Mapping[str, np.ndarray] = field(default_factory=dict)  # columns of traces that gates read: (E, T)
    features: Mapping[str, np.ndarray] = field(default_factory=dict)  # columns of `features`: (E, T)
    whole: bool = False  # replayed whole or not at all
    trace_ids: np.ndarray | None = None  # (E, T) where asked for
    opaque: np.ndarray | None = None  # (E, T) traces with a verdict and no answer; None: there is none
    contested: np.ndarray | None = None  # (E, T) traces whose equal answers are judged differently; None: there is none
    code_as: Mapping[str, np.ndarray] = field(default_factory=dict)  # `code` of columns in place of answers: (E, T)
    word_as: Mapping[str, np.ndarray] = field(default_factory=dict)  # vocabulary numbers of the same: (E, T)
    shared: SharedCosts | None = None  # what traces of one reply pay once; None: every trace came alone
    struck: int | None = None  # sample index of the trace that is left out; those behind it have one less

    @cached_property
    def has_trace(self) -> np.ndarray:
        """Mask (E, T) of the places that hold a trace."""
        return np.arange(self.code.shape[1]) < self.size[:, None]

    @cached_property
    def credit_or_correct(self) -> np.ndarray:
        """How right each trace's answer is (E, T)."""
        return correctness_unless_null(self.judged, self.code >= 0)

    @cached_property
    def has_incomparable_answers(self) -> np.ndarray:
        """Whether (E,) answers of the example cannot be compared, because one of them is opaque or contested."""
        mask = np.zeros(len(self.size), dtype=bool)
        for marked in (self.opaque, self.contested):
            mask |= False if marked is None else marked.any(axis=1)
        return mask

    def with_answers_from(self, column: str | None) -> LoggedPool:
        """The pool whose answers are the texts of a column of traces; None: the pool unchanged."""
        if column is None:
            return self
        valid = self.code >= 0
        code, word = (np.where(valid, of[column], -1) for of in (self.code_as, self.word_as))
        return replace(self, code=code, word=word)

    def trace_column(self, name: str) -> np.ndarray:
        """A cost, or a column of traces that the run reads, for each trace: (E, T)."""
        return self.costs[name] if name in self.costs else self.signals[name]

    def first_traces(self, count: int) -> LoggedPool:
        """The pool with the first `count` traces of each example alone."""
        return _map_arrays(
            replace(self, size=np.minimum(self.size, count)),
            lambda array: array[:, :count] if array.ndim > 1 else array,
        )

    def without_sample_index(self, index: int) -> LoggedPool:
        """The pool without the traces of one sample index; an example may have no such trace."""
        left = replace(self, size=self.size - (index < self.size), struck=index)
        return _map_arrays(left, lambda array: np.delete(array, index, axis=1) if array.ndim > 1 else array)

    def scored_by(self, verifier: str) -> np.ndarray:
        """Mask (E, T) of the valid traces that a verifier scored."""
        return (self.code >= 0) & ~np.isnan(self.scores[verifier].score)

    def filled_scores(self, verifier: str, unscored: UnscoredTreatment) -> np.ndarray:
        """Scores of a verifier (E, T), with the score that `unscored` gives to each valid trace that has none."""
        scores = self.scores[verifier]
        return np.where(self.code >= 0, unscored.fill_scores(scores.score, ~scores.listwise_mask), scores.score)

    def unscored_by(self, verifier: str) -> np.ndarray:
        """Mask (E, T) of the valid traces that a verifier, if it scores one trace a call, did not score."""
        scores = self.scores[verifier]
        return (self.code >= 0) & np.isnan(scores.score) & ~scores.listwise_mask[:, None]

    @cached_property
    def vocabulary_number_of_code(self) -> np.ndarray:
        """Vocabulary number of each answer code: int32 (E, A)."""
        words = np.full((len(self.code), max(self.n_codes, 1)), -1, dtype=np.int32)
        row, column = np.nonzero(self.code >= 0)
        words[row, self.code[row, column]] = self.word[row, column]
        return words

    @cached_property
    def n_codes(self) -> int:
        """How many answer codes the example with most of them has."""
        return int(self.code.max(initial=-1)) + 1


def correctness_unless_null(judged: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Correctness of predictions: the chosen trace's, but 0 for a null prediction; NaN where not judged."""
    return np.where(predicted | np.isnan(judged), judged, 0.0)


@dataclass(frozen=True)
class LogBlock:
    """A block of a log: examples in order of their ids, their pools, and rows of further tables by table and pool."""

    examples: pl.DataFrame
    vocabulary: pl.Series  # (V,) the answers that `vocabulary_number` and `outside` number
    pools: Mapping[str, LoggedPool]
    actions: Mapping[str, Action]  # what the slices of revisions among the pools hold
    outside: np.ndarray  # (N, 3) of each trace whose label is outside the space: example, answer's number, its slices'
    slices: tuple[tuple[str, ...], ...] = ()  # what the last number of `outside` stands for
    tables: Mapping[tuple[str, str], TableRows] = field(default_factory=dict)

    def slice_examples(self, start: int, stop: int) -> LogBlock:
        """The block's examples from number `start` up to `stop`, as views."""
        pools = _map_arrays(self.pools, lambda array: array[start:stop])
        inside = self.outside[(self.outside[:, 0] >= start) & (self.outside[:, 0] < stop)]
        tables = {name: rows.slice_examples(start, stop) for name, rows in self.tables.items()}
        inside = inside - (start, 0, 0)
        return replace(self, examples=self.examples[start:stop], pools=pools, outside=inside, tables=tables)

    def at_examples(self, examples: np.ndarray) -> LogBlock:
        """The block's examples with these numbers, in this order, of which some may come several times, with their
        rows of further tables alone.
        """
        tables = {name: rows.at_examples(examples) for name, rows in self.tables.items()}
        return replace(self, examples=self.examples[examples], pools={}, outside=self.outside[:0], tables=tables)

    @cached_property
    def _numbers(self) -> dict[str, np.ndarray]:
        return {}

    def numbers(self, column: str) -> np.ndarray:
        """A column of numbers of the examples (E,), NaN for null and where there is none."""
        if column not in self._numbers:
            there = column in self.examples.columns
            nothing = np.full(len(self.examples), np.nan)
            self._numbers[column] = as_numbers(self.examples[column]) if there else nothing
        return self._numbers[column]

    def vocabulary_number(self, answer: str) -> int:
        """The number of an answer in the vocabulary; -1 where it is not in it."""
        return self._vocabulary_numbers.get(answer, -1)

    @cached_property
    def _vocabulary_numbers(self) -> dict[str, int]:
        return {answer: number for number, answer in enumerate(self.vocabulary)}

    @cached_property
    def example_hashes(self) -> np.ndarray:
        """Hashes (E,) of the example ids, by which random orders are drawn: uint64."""
        return example_hashes(self.examples["example_id"].to_list())


def _map_arrays(value: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """`change` applied to an array, or to every array that a mapping or a dataclass holds."""
    if isinstance(value, Mapping):
        return {name: _map_arrays(held, change) for name, held in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{field.name: _map_arrays(getattr(value, field.name), change) for field in fields(value)}
        )
    return change(value) if isinstance(value, np.ndarray) else value
