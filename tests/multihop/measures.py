"""What the small models of `data/multihop` can do, measured on its log: `python -m tests.multihop.measures LOG`.

A sub-question is one that the generated world knows the answers of, read from its words; what a reader says of it is
right if it is one of these.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

import thinkback as tb
from generate.tasks import InventedWorld
from generate.worlds.passages import name_of
from generate.worlds.questions import hop_of

SEED, RESAMPLES = 40, 2_000


@cache
def known_questions() -> Mapping[str, tuple[str, frozenset[str]]]:
    """The id of the passage that answers each simple question of the world, and its right answers."""
    place = InventedWorld().passages
    hops = ((hop_of(place.world, *fact), passage) for fact, passage in place.passage_of_fact.items())
    return {hop.question: (passage.id, frozenset(map(name_of, hop.values))) for hop, passage in hops}


def asked_rounds(log: tb.Log, pool: str) -> pl.DataFrame:
    """The rounds of a pool whose sub-question the world knows, with its `gold` passage and its `right` answers."""
    rounds = log.scan("rounds").filter(pool=pool).collect()
    known = known_questions()
    rows = [(question, *known[question]) for question in rounds["sub_question"].unique() if question in known]
    questions, gold, right = zip(*rows, strict=True)
    names = {"sub_question": questions, "gold": gold, "right": [list(one) for one in right]}
    return rounds.join(pl.DataFrame(names), on="sub_question")


def reading(log: tb.Log, pool: str) -> dict[bool, tuple[float, int]]:
    """The share of right answers of rounds with the gold passage among those read, and of those without; and how many
    rounds these are.
    """
    rounds = asked_rounds(log, pool).with_columns(there=pl.col("documents").list.contains(pl.col("gold")))
    answers = rounds.explode("answers").with_columns(good=pl.col("right").list.contains(pl.col("answers")))
    shares = answers.group_by("there").agg(pl.col("good").mean())
    counts = rounds.group_by("there").len()
    return {there: (good, count) for there, good, count in shares.join(counts, on="there").iter_rows()}


def ranking(log: tb.Log, pool: str) -> dict[str, tuple[float, ...]]:
    """nDCG@10 of the first stage and of the cross-encoder over the documents of a pool without neighbours, and their
    difference with a 95 % interval, hops resampled by question.
    """
    keys = ["example_id", "hop"]
    long = asked_rounds(log, pool).select(*keys, "gold", "documents", "relevance", "retrieval_rank")
    long = long.explode("documents", "relevance", "retrieval_rank")
    here = pl.col("documents") == pl.col("gold")
    ranks = {"bm25": pl.col("retrieval_rank"), "cross": pl.col("relevance").rank("ordinal", descending=True) - 1}
    hops = long.with_columns(**{name: rank.over(keys) if name == "cross" else rank for name, rank in ranks.items()})
    first = hops.group_by(keys).agg(pl.col(name).filter(here).min() for name in ranks).sort(keys)
    gains = [pl.when(pl.col(name) < 10).then(1 / (pl.col(name) + 2).log(2)).otherwise(0).fill_null(0) for name in ranks]
    values = first.select("example_id", *(gain.alias(name) for gain, name in zip(gains, ranks, strict=True)))
    means = tuple(float(values[name].mean()) for name in ranks)  # type: ignore[arg-type]
    sums = values.group_by("example_id", maintain_order=True).agg(
        (pl.col("cross") - pl.col("bm25")).sum().alias("sum"), pl.len().alias("hops")
    )
    drawn = np.random.default_rng(SEED).integers(sums.height, size=(RESAMPLES, sums.height))
    both = sums.select("sum", "hops").to_numpy()[drawn].sum(axis=1)
    low, high = np.quantile(both[:, 0] / both[:, 1], [0.025, 0.975])
    return {"bm25": (means[0],), "cross": (means[1],), "difference": (means[1] - means[0], float(low), float(high))}


def judging(log: tb.Log, pool: str, verifier: str) -> tuple[float, int]:
    """A verifier's AUC within questions: over pairs of a right and a wrong chain of one question, with how many."""
    columns = ["trace_id", "example_id", "correct"]
    traces = log.scan("traces").filter(pool=pool).select(columns).collect()
    scores = log.scan("verifications").filter(verifier=verifier).select("trace_id", "score").collect()
    table = traces.join(scores, on="trace_id").drop_nulls()
    right, wrong = (table.filter(correct=side).select("example_id", "score") for side in (True, False))
    pairs = right.join(wrong, on="example_id", suffix="_wrong")
    won = (pl.col("score") > pl.col("score_wrong")) + 0.5 * (pl.col("score") == pl.col("score_wrong"))
    return float(pairs.select(won.mean()).item()), pairs.height


def solving(log: tb.Log, pool: str) -> tuple[float, int]:
    """The share of questions that a pool of one answer gets right, of how many; none is wrong."""
    questions = log.scan("examples").select("example_id").collect()
    right = log.scan("traces").filter(pool=pool).select("example_id", "correct").collect()
    joined = questions.join(right, on="example_id", how="left")["correct"].fill_null(False)
    return float(joined.mean()), len(joined)  # type: ignore[arg-type]


def main(folder: Path) -> None:
    log = tb.open_log(folder)
    for there, (share, rounds) in sorted(reading(log, "explored").items(), reverse=True):
        print(f"reader, gold passage {'among those read' if there else 'not there'}: {share:.1%} of {rounds:,} rounds")
    for name, (value, *limits) in ranking(log, "self-ask").items():
        print(f"nDCG@10, {name}: {value:.3f}", [round(limit, 3) for limit in limits] or "")
    for pool in ("first-stage-single", "self-ask-single", "sunar-single", "fair-single", "gold-single"):
        share, questions = solving(log, pool)
        print(f"right, {pool}: {share:.1%} of {questions}")
    for pool in ("fair-chains", "gold-chains"):
        area, pairs = judging(log, pool, "chain")
        print(f"AUC of `chain` within questions, {pool}: {area:.3f} of {pairs:,} pairs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
