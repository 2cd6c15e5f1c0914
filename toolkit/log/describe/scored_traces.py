"""Traces of one pool and data set with every signal that may predict a right answer: verifiers, votes, probabilities.

All scores are such that higher is better, and NaN where a trace has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolkit.log.contract.problems import LogError, backticked
from toolkit.log.read.log import Log, collect
from toolkit.stats.curves.arrays import unit_numbers
from toolkit.stats.metrics.spill import Floats, Ints

Bools = NDArray[np.bool_]

MOST_TRACES = 200_000
"""Most traces of a pool and data set that are compared, the first by example."""
MOST_TOKENS = 4_096
"""The number of last tokens of a text whose log-probabilities are read."""
_COLUMNS = (
    "trace_id", "example_id", "pool", "action", "sample_index", "answer", "correct", "opaque", "sum_logprob",
    "token_logprobs",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ScoredTraces:
    """N judged traces, by example and sample index. `trace` (N,): ids; `example` (N,): its number; `unit` (N,): that of
    its cluster; `votes` (N,): share of the example's answers that are equal; `whole` (N,): log-probability of the text;
    `tokens`: lists (N,) of log-probabilities, the last token first, null where none are logged, by the writing model or
    the verifier `teller`;
    `scores`: of verifiers, `fold`: whether they are out of fold; `left_out`: questions beyond those that are compared.
    """

    dataset: str
    pool: str
    trace: pl.Series
    example: Ints
    unit: Ints
    right: Bools
    answers: pl.Series
    votes: Floats
    whole: Floats
    tokens: pl.Series
    teller: str
    fold: dict[str, Bools]
    scores: dict[str, Floats]
    left_out: int

    def suffix_log_probabilities(self, most: int) -> Iterator[Floats]:
        """Yields the log-probabilities (N,) of the last 1, 2, … `most` tokens, or of all tokens of a shorter text. All
        arrays share one memory, so each is valid until the next.
        """
        lengths = self.tokens.list.len().fill_null(0).cast(pl.Int64).to_numpy()
        flat, starts = self.tokens.drop_nulls().explode().drop_nulls().to_numpy(), np.cumsum(lengths) - lengths
        order = np.argsort(-lengths, kind="stable")
        going = np.searchsorted(-lengths[order], -np.arange(most), side="left")  # of these the text goes on
        total = np.where(self.tokens.is_null().to_numpy(), np.nan, 0.0)
        for k, count in enumerate(going.tolist()):
            longer = order[:count]
            total[longer] += flat[starts[longer] + k]
            yield total

    def suffix_log_probability(self, k: int) -> Floats:
        """The log-probability (N,) of each trace's last k tokens, or of all tokens of a shorter text."""
        return self.log_probabilities_by_suffix([k])[k]

    def log_probabilities_by_suffix(self, lengths: Collection[int]) -> dict[int, Floats]:
        """The log-probabilities (N,) of the last tokens, by number of tokens."""
        wanted = set(lengths)
        return {
            k: one.copy()
            for k, one in enumerate(self.suffix_log_probabilities(max(wanted, default=0)), 1)
            if k in wanted
        }

    @property
    def most_tokens(self) -> int:
        """The largest number of tokens of a trace with logged log-probabilities."""
        return _longest_list(self.tokens)


def scored_traces(
    log: Log, ids: pl.Series, pools: Collection[str] | None = None, *, answered: bool = False
) -> Iterator[ScoredTraces]:
    """Yields the scored traces of the examples `ids`, by pool and data set. By default it takes pools with several
    traces an example, if there are any. A judged trace without an answer is wrong; `answered` leaves such traces out.
    """
    examples = collect(log.scan("examples", ["example_id", "dataset", "cluster"]), log)
    examples = examples.filter(pl.col("example_id").is_in(ids.implode()))
    chosen = pl.col("example_id").is_in(ids.implode()) & (pl.col("action") == "solve")
    sizes = log.scan("traces", ["example_id", "pool", "action"]).filter(chosen)
    counts = collect(sizes.group_by("pool").agg(most=pl.len() / pl.col("example_id").n_unique()), log)
    several = counts.filter(pl.col("most") > 1)["pool"]
    wanted = pools if pools is not None else several if len(several) else counts["pool"]
    for pool in sorted(set(wanted) & set(counts["pool"])):
        yield from _scored_traces_of_pool(log, pool, examples, answered)


def _scored_traces_of_pool(log: Log, pool: str, examples: pl.DataFrame, answered: bool) -> Iterator[ScoredTraces]:
    here = pl.col("example_id").is_in(examples["example_id"].implode())
    here &= (pl.col("pool") == pool) & (pl.col("action") == "solve")
    here &= pl.col("correct").is_not_null() & (pl.col("answer").is_not_null() | (not answered))
    counted = log.scan("traces", ["example_id", "pool", "action", "answer", "correct"]).filter(here)
    sizes = collect(counted.group_by("example_id").len(), log).join(examples, on="example_id").sort("example_id")
    beyond = sizes.filter(pl.col("len").cum_sum().over("dataset") > MOST_TRACES)
    sizes = sizes.join(beyond, on="example_id", how="anti")
    within = pl.col("example_id").is_in(sizes["example_id"].implode())
    last = pl.col("token_logprobs").list.tail(MOST_TOKENS)
    read = log.scan("traces", list(_COLUMNS)).filter(here & within).with_columns(last)
    frame = collect(read, log).join(examples, on="example_id")
    scores = log.scan("verifications", ["trace_id", "example_id", "verifier", "score", "fold", "token_logprobs"])
    logged = collect(scores.filter(within & pl.col("score").is_not_null()).with_columns(last), log)
    if len(twice := logged.filter(~pl.struct("trace_id", "verifier").is_first_distinct())):
        what = " and verifier ".join(backticked(twice[name][0]) for name in ("trace_id", "verifier"))
        raise LogError(
            f"`verifications` has two rows of trace {what}: `thinkback validate` names all", code="duplicate"
        )
    for (dataset,), part in sorted(frame.partition_by("dataset", as_dict=True).items()):
        right = part["correct"]
        if right.any() and not right.all():
            rows = part.sort("example_id", "sample_index", "trace_id")
            scored = logged.join(rows.select("trace_id"), on="trace_id", how="semi")
            yield _build_scored_traces(str(dataset), pool, rows, scored, int((beyond["dataset"] == dataset).sum()))


def _build_scored_traces(
    dataset: str, pool: str, frame: pl.DataFrame, scored: pl.DataFrame, left_out: int
) -> ScoredTraces:
    clusters = frame.select(unit=pl.coalesce("cluster", pl.lit("\0") + pl.col("example_id")))["unit"]
    opaque = frame["opaque"].fill_null(False)
    by_name, folds, lists, teller = {}, {}, frame["token_logprobs"], ""
    for (verifier,), rows in sorted(scored.partition_by("verifier", as_dict=True).items()):
        joined = frame.select("trace_id").join(rows, on="trace_id", how="left", maintain_order="left")
        by_name[str(verifier)] = joined["score"].fill_null(float("nan")).to_numpy()
        folds[str(verifier)] = joined["fold"].is_not_null().to_numpy()
        if _longest_list(joined["token_logprobs"]) > _longest_list(lists):
            lists, teller = joined["token_logprobs"], str(verifier)
    return ScoredTraces(
        dataset=dataset, pool=pool, trace=frame["trace_id"], example=unit_numbers(frame["example_id"]),
        unit=unit_numbers(clusters), right=frame["correct"].to_numpy().astype(bool), answers=frame["answer"],
        votes=_vote_shares(frame, opaque),
        whole=frame["sum_logprob"].cast(pl.Float64).fill_null(float("nan")).to_numpy(), tokens=lists.list.reverse(),
        teller=teller, fold=folds, scores=by_name, left_out=left_out,
    )  # fmt: skip


def _vote_shares(frame: pl.DataFrame, opaque: pl.Series) -> Floats:
    """The share of an example's traces with the same answer as each trace; 0 without an answer, null where an answer is
    opaque or the example has one trace.
    """
    equal, answers = pl.len().over("example_id", "answer"), pl.col("answer").count().over("example_id")
    share = pl.when(pl.col("answer").is_null()).then(0.0).otherwise(equal / answers).alias("len")
    alone = (pl.len().over("example_id") == 1).all()
    if opaque.any() or frame.select(alone).item():
        return np.full(frame.height, np.nan)
    return frame.select(share)["len"].to_numpy().astype(np.float64)


def _longest_list(lists: pl.Series) -> int:
    return int(lists.list.len().max() or 0)  # type: ignore[arg-type]
