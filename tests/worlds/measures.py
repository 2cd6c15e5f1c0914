"""What the small models of a world can do, measured on the log that they wrote, by plain loops.

    python -m tests.worlds.measures data/multihop

prints the table that the log's README has.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import polars as pl
from scipy.stats import norm, t

from generate.worlds.passages import WorldPassages, coarse_value, draw_world, name_of
from generate.worlds.questions import hop_of
from toolkit.log import collect, open_log
from toolkit.stats import paired_interval

FIRST = 10
"""Documents that nDCG and hits look at."""
EVIDENCES = ("fair", "sunar", "relevance", "self-ask", "first-stage", "gold")
CHAINS = ("sunar-chains", "fair-chains", "relevance-chains", "gold-chains")
VERIFIERS = ("chain", "likelihood", "vote")


@dataclass(frozen=True)
class Measure:
    """A line of the table. key: for tests; name: what is measured; text: as the table has it; low, high: its limits."""

    key: str
    name: str
    value: float
    text: str
    low: float = math.nan
    high: float = math.nan

    def __str__(self) -> str:
        return f"| {self.name} | {self.text} |"


def percent(key: str, name: str, values: Sequence[float | bool]) -> Measure:
    """A measure that is a mean of shares, each of one question or text, with its 95 % interval: Wilson's where each is
    0 or 1, else Student's.
    """
    whole = all(value in (0, 1) for value in values)
    low, high = wilson_interval(sum(values), len(values)) if whole else t_interval(values)
    text = f"{100 * fmean(values):.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
    return Measure(key, name, fmean(values), text, low, high)


def _plain(key: str, name: str, value: float) -> Measure:
    return Measure(key, name, value, f"{value:.3f}")


@cache
def place() -> WorldPassages:
    """The world of the log."""
    return draw_world(0, 900)


@cache
def simple_questions() -> dict[str, tuple[str, set[str]]]:
    """The passage that answers each simple question of the world, and all right answers."""
    hops = {fact: hop_of(place().world, *fact) for fact in place().passage_of_fact}
    return {hop.question: (place().passage_of_fact[fact].id, set(map(name_of, hop.values)))
            for fact, hop in hops.items()}  # fmt: skip


@cache
def coarse_answers() -> dict[str, tuple[str, frozenset[str]]]:
    """The coarser answer of each simple question that has one (to a date its year, to an occupation its class), and the
    passages that tell it of the same person.
    """
    told = defaultdict[object, set[str]](set)
    for passage in place().passages:
        for fact in passage.coarse:
            told[fact].add(passage.id)
    hops = [hop_of(place().world, *fact) for fact in place().passage_of_fact if fact[1] in ("born", "occupation")]
    return {hop.question: (coarse_value(place().world, *hop.fact), frozenset(told[hop.fact])) for hop in hops}


def ndcg(ranking: Sequence[str], gold: str) -> float:
    """nDCG@10 of a ranking with one relevant document: 1 / log2(1 + its place), whose ideal is 1."""
    places = [place for place, one in enumerate(ranking[:FIRST], start=1) if one == gold]
    return 1 / math.log2(1 + places[0]) if places else 0.0


def area(right: Iterable[float], wrong: Iterable[float]) -> float:
    """The share of pairs of a right and a wrong one in which the right one has the higher score; a tie is half."""
    wrong = list(wrong)
    return fmean((one > other) + (one == other) / 2 for one in right for other in wrong)


def retrieval_measures(log: Path) -> list[Measure]:
    """Everything that the README of a log of retrieval says about its models."""
    opened = open_log(log)
    examples = collect(opened.scan("examples"))
    rounds = collect(opened.scan("rounds")).filter(pl.col("sub_question").is_in(list(simple_questions())))
    traces = collect(
        opened.scan("traces", ["trace_id", "example_id", "pool", "sample_index", "answer_cluster", "correct"])
    )
    traces = traces.join(examples.select("example_id", "question_type"), on="example_id")
    scores = collect(opened.scan("verifications", ["trace_id", "verifier", "score"]))
    test = examples.filter(split="test")
    return [*_relevance(rounds), *_reading(rounds), *_leaders(rounds), *_coarse(rounds),
            *_both_gold(examples, collect(opened.scan("rounds"))), *_answers(traces),
            *_within(traces.join(test, on="example_id", how="semi"), scores)]  # fmt: skip


def _relevance(rounds: pl.DataFrame) -> list[Measure]:
    """nDCG@10 of both rankings of what was retrieved for simple questions, the mean of each question's hops: of the
    first stage's first sixteen and all its 32 documents, and of the 64 that were explored, of which the first stage
    ranks those last that it did not retrieve.
    """
    measures = []
    for key, pool, first in (("16", "self-ask", 1), ("32", "self-ask", 2), ("explored", "explored", 4)):
        scores = defaultdict[str, list[tuple[float, float]]](list)
        rows = rounds.filter(pl.col("pool") == pool, pl.col("round") < first).sort("round")
        for (example, _), hop in rows.group_by("example_id", "hop", maintain_order=True):
            gold, _ = simple_questions()[hop["sub_question"][0]]
            ids = np.array(hop["documents"].explode().to_list())
            relevance = hop["relevance"].explode().to_numpy()
            ranks = hop["retrieval_rank"].explode().fill_null(len(ids)).to_numpy()
            both = (list(ids[np.argsort(order, kind="stable")]) for order in (-relevance, ranks))
            cross_encoder, first_stage = (ndcg(list(dict.fromkeys(one)), gold) for one in both)
            scores[str(example)].append((cross_encoder, first_stage))
        means = np.array([np.mean(pairs, axis=0) for pairs in scores.values()])
        gap = paired_interval(means[:, 0], means[:, 1])
        text = f"{gap.difference:.3f} [{gap.low:.3f}, {gap.high:.3f}]"
        of = f"the first 64 of `{pool}`" if key == "explored" else f"the first {key} of BM25"
        measures += [
            _plain(f"ndcg-{key}", f"nDCG@10 of the cross-encoder on simple questions, {of}", means[:, 0].mean()),
            _plain(f"ndcg-bm25-{key}", "nDCG@10 of BM25 on the same", means[:, 1].mean()),
            Measure(
                f"gap-{key}", "the difference, with its 95 % interval over questions", gap.difference, text, gap.low
            ),
        ]
    return measures


def _reading(rounds: pl.DataFrame) -> list[Measure]:
    """How often the reader is right on sixteen passages, by whether the one that answers is among them: of each
    question the mean of such rounds.
    """
    right = defaultdict[tuple[str, bool], list[float]](list)
    for row in rounds.filter(pool="explored").iter_rows(named=True):
        gold, answers = simple_questions()[row["sub_question"]]
        if len(row["documents"]) == 16:
            share = fmean([one in answers for one in row["answers"]] or [False])
            right[row["example_id"], gold in row["documents"]].append(share)
    means = {there: [fmean(shares) for (_, same), shares in right.items() if same is there] for there in (True, False)}
    return [
        percent("read", "the reader right on simple questions, the gold passage among 16", means[True]),
        percent("read_blind", "the same without the gold passage", means[False]),
    ]


def _leaders(rounds: pl.DataFrame) -> list[Measure]:
    """How often the most frequent answer of a simple question is right, of equals the earliest, by the rounds read."""
    measures = []
    for key, first, of in (("leader_first", 1, "the first round"), ("leader_all", 8, "all rounds")):
        right = defaultdict[str, list[float]](list)
        rows = rounds.filter(pl.col("pool") == "explored", pl.col("round") < first).sort("round")
        for (example, _), hop in rows.group_by("example_id", "hop", maintain_order=True):
            counts = Counter(hop["answers"].explode().drop_nulls().to_list())
            leader = max(counts, key=lambda one: counts[one], default="")
            right[str(example)].append(float(leader in simple_questions()[hop["sub_question"][0]][1]))
        means = [fmean(shares) for shares in right.values()]
        name = f"the most frequent answer to simple questions right, of {of} of `explored`"
        measures.append(percent(key, name, means))
    return measures


def _coarse(rounds: pl.DataFrame) -> list[Measure]:
    """How often an answer to a question for a date or an occupation is the coarser one: true, but not enough."""
    shares = defaultdict[bool, list[float]](list)
    for row in rounds.filter(pool="explored").iter_rows(named=True):
        gold, answers = simple_questions()[row["sub_question"]]
        coarse, told = coarse_answers().get(row["sub_question"], ("", frozenset[str]()))
        if coarse and coarse not in answers and row["answers"] and gold not in row["documents"]:
            shares[not told.isdisjoint(row["documents"])].append(fmean(one == coarse for one in row["answers"]))
    of = "answers to simple questions of dates and occupations that are the coarser one, without the gold passage"
    return [
        percent(
            "coarse", f"{of}, where one that tells the coarser is there ({len(shares[True])} rounds)", shares[True]
        ),
        percent("coarse_blind", f"the same where none is there ({len(shares[False])} rounds)", shares[False]),
    ]


def _both_gold(examples: pl.DataFrame, rounds: pl.DataFrame) -> list[Measure]:
    """How often BM25 alone has both gold passages of a question of two hops among its first ten."""
    first = rounds.filter(pool="first-stage", round=0).join(examples, on="example_id").filter(hops=2)
    hits = []
    for row in first.iter_rows(named=True):
        top = {one for one, rank in zip(row["documents"], row["retrieval_rank"], strict=True) if rank < FIRST}
        hits.append(set(row["gold_documents"]) <= top)
    return [percent("both_gold", "questions of two hops with both gold passages among the first ten of BM25", hits)]


def _answers(traces: pl.DataFrame) -> list[Measure]:
    """How often the vote is right by evidence, and on gold passages by the type of the question."""
    measures, by_type = [], defaultdict[str, list[bool]](list)
    for evidence in EVIDENCES:
        rows = traces.filter(pool=f"{evidence}-chains").sort("example_id", "sample_index")
        votes = []
        for _, chains in rows.group_by("example_id", maintain_order=True):
            clusters = chains["answer_cluster"].to_list()
            counts = Counter(one for one in clusters if one is not None)
            best = max(counts, key=lambda one: counts[one], default=None)  # of equals the earliest
            votes.append(best is not None and bool(chains["correct"][clusters.index(best)]))
            if evidence == "gold":
                by_type[chains["question_type"][0]].append(votes[-1])
        name = f"questions right by the vote of ten chains on `{evidence}`"
        measures.append(percent(f"vote-{evidence}", name, votes))
    for kind, votes in sorted(by_type.items()):
        measures.append(percent(f"gold-{kind}", f"on `gold`, questions of the type {kind} ({len(votes)})", votes))
    return measures


def _within(traces: pl.DataFrame, scores: pl.DataFrame) -> list[Measure]:
    """The mean over questions with right and wrong chains of the area under each verifier's curve, with a t interval;
    `vote`: of the share of chains with the same answer. Then of all pools together, and against the votes.
    """
    share = pl.len().over("example_id", "pool", "answer_cluster") * pl.col("answer_cluster").is_not_null()
    votes = traces.select("trace_id", verifier=pl.lit("vote"), score=share.cast(pl.Float64))
    rows = pl.concat([scores, votes.cast(dict(scores.schema))]).join(traces, on="trace_id").drop_nulls("score")
    areas = defaultdict[tuple[str, str], dict[str, float]](dict)
    for keys, chains in rows.group_by("verifier", "pool", "example_id", maintain_order=True):
        verifier, pool, example = map(str, keys)
        right = chains.filter(pl.col("correct"))["score"].to_list()
        wrong = chains.filter(~pl.col("correct"))["score"].to_list()
        if right and wrong:
            areas[verifier, pool][example] = area(right, wrong)
    measures = [
        _area_measure(verifier, f"`{pool}`", pool, list(areas[verifier, pool].values()))
        for verifier, pool in product(VERIFIERS, CHAINS)
    ]
    ordered = set(traces.filter(question_type="time order")["example_id"])
    means = {verifier: _means_over_pools([areas[verifier, pool] for pool in CHAINS]) for verifier in VERIFIERS}
    for verifier, of in means.items():
        measures.append(_area_measure(verifier, "all four, the mean of each question", "all", list(of.values())))
    for verifier, of in means.items():
        rest = [value for example, value in of.items() if example not in ordered]
        measures.append(_area_measure(verifier, "all four, without those of time order", "decided", rest))
    for verifier in VERIFIERS[:2]:
        gaps = [value - means["vote"][example] for example, value in means[verifier].items()]
        low, high = t_interval(gaps)
        text = f"{fmean(gaps):+.3f} [{low:+.3f}, {high:+.3f}]".replace("-", "−")
        name = f"AUC of `{verifier}` less that of the votes, on all four"
        measures.append(Measure(f"gap-{verifier}", name, fmean(gaps), text, low, high))
    return measures


def _means_over_pools(pools: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each question over the pools in which it has right and wrong chains."""
    examples = dict.fromkeys(example for of in pools for example in of)
    return {example: fmean(of[example] for of in pools if example in of) for example in examples}


def _area_measure(verifier: str, where: str, key: str, areas: Sequence[float]) -> Measure:
    low, high = t_interval(areas)
    text = f"{fmean(areas):.3f} [{low:.3f}, {high:.3f}], {len(areas)} questions"
    of = "the votes" if verifier == "vote" else f"`{verifier}`"
    return Measure(f"auc-{verifier}-{key}", f"AUC of {of} within test questions on {where}", fmean(areas), text, low)


def wilson_interval(events: float, trials: int) -> tuple[float, float]:
    """The 95 % interval of a rate by Wilson's score."""
    z = float(norm.ppf(0.975))
    middle, half = events + z * z / 2, z * math.sqrt(events * (trials - events) / trials + z * z / 4)
    return (middle - half) / (trials + z * z), (middle + half) / (trials + z * z)


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean by Student's t."""
    half = t.ppf(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


if __name__ == "__main__":
    print("\n".join(map(str, retrieval_measures(Path(sys.argv[1])))))
