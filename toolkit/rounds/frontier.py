"""The frontier over rounds, as arrays: what is in it after each round, which rounds are rewarded, how documents rank.

Rounds are the R rows of a pool, by example, hop and round; a hop's rounds are its steps, from 0. There are G hops, D
documents and A answers, in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np
import polars as pl

from toolkit.table_rows import TableRows, starts_of_equal_runs

NONE = np.iinfo(np.int64).min
"""No cluster."""
EQUAL = 1e-12
"""Sums of scores that differ by no more than this are equal."""
LEAST_EXPONENT = -700.0
MARKS = 2**20
"""Marks by which numbers are looked for, a power of 2."""
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""An odd number that spreads small ones over all bits."""


def list_items(frame: pl.DataFrame, column: str) -> tuple[np.ndarray, pl.Series]:
    """The row of each item of a column of lists, and the items; a null list has none."""
    size = frame[column].list.len().fill_null(0).to_numpy()
    lists = frame[column] if size.all() else frame[column].filter(pl.Series(size > 0))
    return np.repeat(np.arange(len(frame)), size), lists.explode()


def number_texts(texts: pl.Series) -> np.ndarray:
    """A number for each text, the same for equal ones."""
    return np.asarray(texts.to_arrow(compat_level=pl.CompatLevel.oldest()).dictionary_encode().indices, dtype=np.int64)


def same_text_numbers(texts: pl.Series, owner: np.ndarray) -> np.ndarray:
    """A number (N,) that two texts share when they are equal and have one `owner` (N,).

    By hashes: texts of one hash are compared, and where two differ all are numbered by a table of them.
    """
    mixed = texts.hash().to_numpy() ^ (owner.astype(np.uint64) * MIXER)
    keys = (mixed >> np.uint64(1)).astype(np.int64)
    number = repeated_key_numbers(keys)
    again = np.flatnonzero(number >= 0)
    again = again[np.argsort(number[again], kind="stable")]
    first = np.repeat(again[starts := starts_of_equal_runs(number[again])], np.diff(np.append(starts, len(again))))
    if (owner[first] == owner[again]).all() and (texts.gather(first) == texts.gather(again)).all():
        return keys
    codes = number_texts(texts)
    return codes + owner * (int(codes.max(initial=0)) + 1)


def places_in_sorted(keys: np.ndarray, among: np.ndarray) -> np.ndarray:
    """The place (N,) of each of `keys` in the sorted `among`, -1 where it is not there."""
    out = np.full(len(keys), -1)
    if not len(among):
        return out
    marks = np.zeros(MARKS, bool)  # most keys are not there: only those that may be are looked for
    marks[among & (MARKS - 1)] = True
    some = np.flatnonzero(marks[keys & (MARKS - 1)])
    place = np.minimum(np.searchsorted(among, keys[some]), len(among) - 1)
    out[some] = np.where(among[place] == keys[some], place, -1)
    return out


def distinct_sorted(keys: np.ndarray) -> np.ndarray:
    """The different ones of some numbers, ascending: numpy's `unique` hashes, which takes longer."""
    in_order = np.sort(keys)
    return in_order[starts_of_equal_runs(in_order)]


def repeated_key_numbers(keys: np.ndarray) -> np.ndarray:
    """A number (N,) for each key that comes more than once, the same for equal ones; -1 for others."""
    in_order = np.sort(keys)
    return places_in_sorted(keys, distinct_sorted(in_order[1:][in_order[1:] == in_order[:-1]]))


def argsort_within_runs(keys: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Numbers (N,) that put each of several runs of so many `keys` in order, equal ones as they come.

    Runs of alike length are sorted as the rows of one matrix, which takes a fraction of the time of one sort of all.
    """
    order, first = np.arange(len(keys)), np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.int64)
    bits = np.ceil(np.log2(np.maximum(size, 1))).astype(int)
    for one in np.unique(bits[size > 1]):
        some = np.flatnonzero((bits == one) & (size > 1))
        place = np.arange(int(size[some].max()))
        there = place < size[some][:, None]
        at = np.minimum(first[some][:, None] + place, len(keys) - 1)
        sorted_ = np.argsort(np.where(there, keys[at], np.inf), axis=1, kind="stable")
        order[at[there]] = (first[some][:, None] + sorted_)[there]
    return order


@dataclass(frozen=True)
class AnswerClusters:
    """The clusters of each round with their counts, P in all, by row and cluster; `first` (N,) of each of `rows` (N,),
    the rounds that have answers.
    """

    row: np.ndarray
    cluster: np.ndarray
    count: np.ndarray
    rows: np.ndarray
    first: np.ndarray

    def most_frequent(self, rounds: int, most: int) -> tuple[np.ndarray, np.ndarray]:
        """The `most` clusters of highest count of each round (R, K), NONE where there are fewer, and their counts.

        Equal counts: the lower cluster first.
        """
        clusters, counts = np.full((rounds, most), NONE), np.full((rounds, most), -np.inf)
        left = self.count.astype(float)
        numbers, owner = np.arange(len(left)), np.repeat(np.arange(len(self.rows)), self._clusters_per_round)
        for place in range(most if len(left) else 0):
            highest = np.maximum.reduceat(left, self.first)
            best = np.where((left >= highest[owner] - EQUAL) & (left > -np.inf), numbers, len(left))
            chosen = np.minimum.reduceat(best, self.first)
            on = chosen < len(left)
            clusters[self.rows[on], place] = self.cluster[chosen[on]]
            counts[self.rows[on], place] = self.count[chosen[on]]
            left[chosen[on]] = -np.inf
        return clusters, counts

    @property
    def _clusters_per_round(self) -> np.ndarray:
        return np.diff(np.append(self.first, len(self.row)))

    def cluster_entropy(self, rounds: int) -> np.ndarray:
        """Entropy in nats of the shares of each round's clusters (R,), infinite without answers."""
        out = np.full(rounds, np.inf)
        if len(self.row):
            share = self.count / np.repeat(np.add.reduceat(self.count, self.first), self._clusters_per_round)
            out[self.rows] = np.add.reduceat(-share * np.log(share), self.first)
        return out


@dataclass(frozen=True)
class Rounds:
    """The rounds of a pool on a block, with what policies share; `gold`: the gold documents of its E examples."""

    rows: TableRows
    gold: pl.Series

    @cached_property
    def first_row_of_hop(self) -> np.ndarray:
        """The first row of each hop (G,)."""
        return starts_of_equal_runs(self.rows.example, self.rows.frame["hop"].to_numpy())

    @cached_property
    def rounds_of_hop(self) -> np.ndarray:
        """Logged rounds of each hop (G,)."""
        return np.diff(np.append(self.first_row_of_hop, len(self.rows.frame)))

    @cached_property
    def hop_of_row(self) -> np.ndarray:
        """The hop of each row (R,), numbered through the block."""
        return np.repeat(np.arange(len(self.first_row_of_hop)), self.rounds_of_hop)

    @cached_property
    def step_in_hop(self) -> np.ndarray:
        """The step of each row in its hop (R,)."""
        return np.arange(len(self.hop_of_row)) - self.first_row_of_hop[self.hop_of_row]

    @cached_property
    def example_of_hop(self) -> np.ndarray:
        """The example of each hop (G,)."""
        return self.rows.example[self.first_row_of_hop]

    # ---- answers ----

    @cached_property
    def _cluster_numbers(self) -> tuple[np.ndarray, np.ndarray]:
        row, clusters = list_items(self.rows.frame, "clusters")
        return row, clusters.cast(pl.Int64).to_numpy()

    @cached_property
    def has_answers(self) -> np.ndarray:
        """Rounds that have answers: bool (R,)."""
        return np.bincount(self._cluster_numbers[0], minlength=len(self.hop_of_row)) > 0

    @cached_property
    def has_unscored_answer(self) -> np.ndarray:
        """Rounds with an answer that has no score: bool (R,)."""
        lacks = np.zeros(len(self.hop_of_row), dtype=bool)
        lacks[self._cluster_numbers[0][np.isnan(self._scores)]] = True
        return lacks

    @cached_property
    def _scores(self) -> np.ndarray:
        """The score of each answer (A,), NaN where there is none."""
        filled = self.rows.frame.with_columns(
            pl.when(pl.col("answer_scores").is_null())
            .then(pl.lit(None, pl.Float64).repeat_by(pl.col("clusters").list.len()))
            .otherwise(pl.col("answer_scores"))
            .alias("answer_scores")
        )
        return list_items(filled, "answer_scores")[1].cast(pl.Float64).fill_null(np.nan).to_numpy()

    @cached_property
    def answer_counts(self) -> AnswerClusters:
        """The number of answers in each cluster of each round."""
        return self._answer_clusters(np.ones(len(self._cluster_numbers[0])))

    @cached_property
    def answer_score_sums(self) -> AnswerClusters:
        """The sum of the answers' scores in each cluster of each round; an answer without a score adds 0."""
        return self._answer_clusters(np.nan_to_num(self._scores))

    @cached_property
    def _round_cluster_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The row and the cluster of each (row, cluster) that has answers (P,), and which of these an answer is of."""
        row, cluster = self._cluster_numbers
        low = int(cluster.min(initial=0))
        span = int(cluster.max(initial=0)) - low + 1
        key = row * span + (cluster - low)
        different = distinct_sorted(key)
        return different // span, different % span + low, np.searchsorted(different, key)

    def _answer_clusters(self, weight: np.ndarray) -> AnswerClusters:
        rows, cluster, pair = self._round_cluster_pairs
        count = np.bincount(pair, weights=weight, minlength=len(rows))  # added in the order of the answers
        first = starts_of_equal_runs(rows)
        return AnswerClusters(rows, cluster, count, rows[first], first)

    @cached_property
    def contradicting_pairs(self) -> np.ndarray:
        """Pairs of contradicting answers of each round (R,): as logged, else those in different clusters, equal answers
        of one cluster being one.
        """
        row, cluster = self._cluster_numbers
        answer = number_texts(list_items(self.rows.frame, "answers")[1])
        names = distinct_sorted(cluster)
        clusters, answers = max(len(names), 1), int(answer.max(initial=0)) + 1
        group = row * clusters + np.searchsorted(names, cluster)
        different = distinct_sorted(group * answers + answer) // answers  # the row and cluster of each distinct answer
        pairs = _number_of_pairs(np.bincount(different // clusters, minlength=len(self.hop_of_row)))
        first = starts_of_equal_runs(different)
        number = np.diff(np.append(first, len(different)))
        same = _number_of_pairs(number)
        pairs -= np.bincount(different[first] // clusters, weights=same, minlength=len(self.hop_of_row))
        logged = self.rows.numbers("contradictions")
        return np.where(np.isnan(logged), pairs, logged)

    # ---- documents ----

    def values_by_document(self, values: np.ndarray) -> np.ndarray:
        """Values of rounds (R,) for each of their documents (D,)."""
        return np.repeat(values, self._hop_documents[2])

    @cached_property
    def _document_lists(self) -> tuple[np.ndarray, pl.Series]:
        return list_items(self.rows.frame, "documents")

    @property
    def document_row(self) -> np.ndarray:
        """The row of each document (D,)."""
        return self._document_lists[0]

    @property
    def documents(self) -> pl.Series:
        return self._document_lists[1]

    @cached_property
    def relevance(self) -> np.ndarray:
        """The logged relevance of each document (D,)."""
        return list_items(self.rows.frame, "relevance")[1].cast(pl.Float64).to_numpy()

    @cached_property
    def logistic_relevance(self) -> np.ndarray:
        """The relevance through the logistic function (D,)."""
        low = self.relevance < LEAST_EXPONENT
        return np.where(low, 0.0, 1 / (1 + np.exp(-np.where(low, 0.0, self.relevance))))

    @cached_property
    def retrieval_rank(self) -> np.ndarray:
        """The first-stage rank of each document (D,), infinite where it has none."""
        lacks = self.rows.frame["retrieval_rank"].is_null().to_numpy()[self.document_row]
        rank = np.full(len(self.document_row), np.inf)
        rank[~lacks] = list_items(self.rows.frame, "retrieval_rank")[1].cast(pl.Float64).fill_null(np.inf).to_numpy()
        return rank

    @cached_property
    def _document_codes(self) -> tuple[np.ndarray, np.ndarray]:
        """A number for each document (D,) and each gold document that the same document of an example shares."""
        example, gold = list_items(self.gold.to_frame("gold"), "gold")
        texts = pl.concat([self.documents.cast(pl.String), gold.cast(pl.String)])
        every = same_text_numbers(texts, np.concatenate([self.rows.example[self.document_row], example]))
        return every[: len(self.documents)], distinct_sorted(every[len(self.documents) :])

    @property
    def document_code(self) -> np.ndarray:
        """A number (D,) that two documents of an example share when they are the same one."""
        return self._document_codes[0]

    @cached_property
    def is_gold(self) -> np.ndarray:
        """Whether each document is a gold one of its example: bool (D,)."""
        return places_in_sorted(*self._document_codes) >= 0

    @cached_property
    def gold_document_count(self) -> np.ndarray:
        """Gold documents of each example (E,), NaN where it has none."""
        count = self.gold.list.n_unique().fill_null(0).to_numpy().astype(float)
        return np.where(count > 0, count, np.nan)

    @cached_property
    def _repeat_numbers_in_example(self) -> np.ndarray:
        """A number (D,) for each document that comes again in its example, -1 for others."""
        return repeated_key_numbers(self.document_code)

    @cached_property
    def _document_repeats_in_hop(self) -> tuple[np.ndarray, np.ndarray]:
        """The documents that come again in their hop, and a number for each such (hop, document)."""
        again = np.flatnonzero(self._repeat_numbers_in_example >= 0)
        documents, hop = (
            int(self._repeat_numbers_in_example.max(initial=0)) + 1,
            self.hop_of_row[self.document_row[again]],
        )
        number = repeated_key_numbers(hop * documents + self._repeat_numbers_in_example[again])
        return again[number >= 0], number[number >= 0]

    def rank_documents(self, keys: np.ndarray, paid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The documents of rounds `paid` (R,), hop after hop by ascending key (D,), and each one's place in its hop.

        Equal keys: as they were read. A document that comes again keeps its best place.
        """
        there = paid[self.document_row]
        again, number = self._document_repeats_in_hop
        again, number = again[there[again]], number[there[again]]
        best = np.lexsort((again, keys[again], number))
        worse = np.ones(len(best), dtype=bool)
        worse[starts_of_equal_runs(number[best])] = False
        there[again[best[worse]]] = False
        documents = np.flatnonzero(there)
        size = np.bincount(self.hop_of_row[self.document_row[documents]], minlength=len(self.first_row_of_hop))
        order = documents[argsort_within_runs(keys[documents], size)]
        return order, np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)

    @cached_property
    def _hop_documents(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The first document of each hop (G,), how many it has (G,) and each row has (R,), and which ones are gold."""
        of_row = np.bincount(self.document_row, minlength=len(self.hop_of_row))
        size = np.add.reduceat(of_row, self.first_row_of_hop) if len(self.first_row_of_hop) else of_row
        return np.cumsum(size) - size, size, of_row, np.flatnonzero(self.is_gold)

    @cached_property
    def _examples_with_repeated_document(self) -> np.ndarray:
        """Examples (E,) in which a document comes in two rounds."""
        again = np.zeros(len(self.gold), bool)
        again[self.rows.example[self.document_row[self._repeat_numbers_in_example >= 0]]] = True
        return again

    def gold_places(self, keys: np.ndarray, paid: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """The gold documents among the first `most` of each example, of rounds `paid` (R,) and by ascending key (D,):
        their examples and their places. As `merge_hops` of `rank_documents`, which sort: here places are counted.
        """
        again, example = self._examples_with_repeated_document, self.rows.example
        of_again = again[example]
        place = [self._gold_places_of_rounds(keys, paid & ~of_again)]
        if (some := paid & of_again).any():
            documents, places = self.merge_hops(*self.rank_documents(keys, some), most)
            gold = self.is_gold[documents]
            place.append((example[self.document_row[documents[gold]]], places[gold]))
        return tuple(np.concatenate(both) for both in zip(*place, strict=True))  # type: ignore[return-value]

    def _gold_places_of_rounds(self, keys: np.ndarray, paid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The example of each gold document of `paid` rounds (R,), and its place, where no document comes twice."""
        first, size, of_row, golds = self._hop_documents
        if not len(golds):
            return golds, golds
        gold = golds[paid[self.document_row[golds]]]
        hop = self.hop_of_row[self.document_row[gold]]
        place = np.zeros(len(gold), np.int64)
        there = np.add.reduceat(np.where(paid, of_row, 0), self.first_row_of_hop)
        ran = np.ones(len(keys), bool) if paid.all() else np.repeat(paid, of_row)
        keys = keys if paid.all() else np.where(ran, keys, np.inf)
        bits = np.ceil(np.log2(np.maximum(size, 1))).astype(int)
        for one in np.unique(bits[hop]):
            hops = np.flatnonzero(bits == one)
            rows = np.flatnonzero(bits[hop] == one)
            width, at = int(size[hops].max()), np.searchsorted(hops, hop[rows])
            if (size[hops] == width).all() and len(hops) == len(first):
                table = keys.reshape(len(hops), width)
            else:
                inside = np.arange(width) < size[hops][:, None]
                table = np.full(inside.shape, np.inf)
                table[inside] = keys[(first[hops][:, None] + np.arange(width))[inside]]
            mine, others = keys[gold[rows]][:, None], table[at]
            count = np.count_nonzero(others < mine, axis=1)
            tied = np.flatnonzero(np.count_nonzero(others == mine, axis=1) != 1)
            before = np.arange(width) < (gold[rows] - first[hop[rows]])[tied, None]
            before &= others[tied] == mine[tied]
            documents = np.minimum(first[hop[rows[tied]]][:, None] + np.arange(width), len(ran) - 1)
            place[rows] = count
            place[rows[tied]] += np.count_nonzero(before & ran[documents], axis=1)
        merged = place.copy()
        for step in range(1, int(np.bincount(self.example_of_hop).max(initial=0))):
            for other, same in ((hop - step, 1), (hop + step, 0)):
                known = (other >= 0) & (other < len(first))
                known &= self.example_of_hop[np.clip(other, 0, len(first) - 1)] == self.example_of_hop[hop]
                # of an earlier hop those of the same place come before, too
                merged += np.where(known, np.minimum(there[np.clip(other, 0, len(first) - 1)], place + same), 0)
        return self.example_of_hop[hop], merged

    def merge_hops(self, order: np.ndarray, place: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """The first `most` documents of each example, and their places: its hops' lists merged by place, then hop;
        repeats dropped.
        """
        near = place < most
        order, place = order[near], place[near]
        hop = self.hop_of_row[self.document_row[order]]
        example = self.example_of_hop[hop]
        if len(starts_of_equal_runs(self.example_of_hop)) < len(self.example_of_hop):
            by = np.lexsort((hop, place, example))
            order, again = order[by], self._repeat_numbers_in_example[order[by]]
            later = np.flatnonzero(again >= 0)
            later = np.delete(later, np.unique(again[later], return_index=True)[1])
            order = np.delete(order, later)
            example = self.rows.example[self.document_row[order]]
        starts = starts_of_equal_runs(example)
        size = np.diff(np.append(starts, len(example)))
        return order, np.arange(len(order)) - np.repeat(starts, size)


def _number_of_pairs(number: np.ndarray) -> np.ndarray:
    return number * (number - 1) / 2


@dataclass(frozen=True)
class Frontiers:
    """The frontier after each round (R, K): its clusters, NONE where it has room, and their support.

    `top`: the clusters of each round itself (R, K), the most frequent first. `leader` (R,): the one of most support,
    NONE where there is none. `lasting` (R,): in how many rounds on end it has been the leader.
    """

    top: np.ndarray
    clusters: np.ndarray
    support: np.ndarray
    leader: np.ndarray
    lasting: np.ndarray

    @property
    def has_one_cluster(self) -> np.ndarray:
        """Whether the frontier holds one cluster after each round (R,)."""
        return (self.clusters != NONE).sum(axis=1) == 1

    @property
    def leads_with_round(self) -> np.ndarray:
        """Whether each round's (R,) own most frequent cluster leads the frontier."""
        return (self.top[:, 0] == self.leader) & (self.leader != NONE)


def frontier_of_each_round(
    rounds: Rounds, answers: AnswerClusters, most: int, of_round: bool, added: bool
) -> Frontiers:
    """The frontier of `most` clusters after each round. `of_round`: it holds those of the round alone. `added`: counts
    add up; else a cluster's support is that of the round in which it came last.
    """
    number, of_hops = len(rounds.hop_of_row), len(rounds.first_row_of_hop)
    top, counts = answers.most_frequent(number, most)
    clusters, support = np.full((of_hops, most), NONE), np.full((of_hops, most), -np.inf)
    leader, lasting = np.full(of_hops, NONE), np.zeros(of_hops, np.int64)
    by_row = np.empty((2, number), np.int64)
    out = Frontiers(top, np.empty_like(top), np.empty_like(counts), *by_row)
    for step in range(int(rounds.rounds_of_hop.max(initial=0))):
        hops = np.flatnonzero(rounds.rounds_of_hop > step)
        rows = rounds.first_row_of_hop[hops] + step
        if of_round:
            on = rounds.has_answers[rows]
            clusters[hops[on]], support[hops[on]] = top[rows[on]], counts[rows[on]]
        else:
            for place in range(most):
                on = top[rows, place] != NONE
                _enter_cluster(clusters, support, hops[on], top[rows[on], place], counts[rows[on], place], added)
        highest = support[hops].max(axis=1, keepdims=True)
        tied = (clusters[hops] != NONE) & (support[hops] >= highest - EQUAL)
        lowest = np.where(tied, clusters[hops], np.iinfo(np.int64).max).min(axis=1)
        leads = np.where(tied.any(axis=1), lowest, NONE)
        lasting[hops] = np.where(leads == NONE, 0, np.where(leads == leader[hops], lasting[hops] + 1, 1))
        leader[hops] = leads
        out.clusters[rows], out.support[rows] = clusters[hops], support[hops]
        out.leader[rows], out.lasting[rows] = leads, lasting[hops]
    return out


def _enter_cluster(
    clusters: np.ndarray, support: np.ndarray, hops: np.ndarray, cluster: np.ndarray, count: np.ndarray, added: bool
) -> None:
    """Let one cluster with its count come into the frontiers (G, K) of some hops, in place."""
    inside, known = clusters[hops], support[hops]
    same, room = inside == cluster[:, None], inside == NONE
    least = np.where(room, np.inf, known).min(axis=1, keepdims=True)
    weakest = np.where(~room & (known <= least + EQUAL), inside, NONE).argmax(axis=1)
    slot = np.where(same.any(axis=1), same.argmax(axis=1), np.where(room.any(axis=1), room.argmax(axis=1), weakest))
    here = np.arange(len(hops)), slot
    stays = same.any(axis=1)
    enters = ~stays & (room.any(axis=1) | (count - known[here] > EQUAL))
    before = known[here] if added else np.zeros(len(hops))
    on = stays | enters
    support[hops[on], slot[on]] = np.where(stays, before + count, count)[on]
    clusters[hops[on], slot[on]] = cluster[on]


Reward = Callable[[Rounds, Frontiers], np.ndarray]
"""Which rounds (R,) are rewarded, of those that have answers."""
REWARDS: dict[str, Reward] = {
    "single": lambda rounds, frontier: frontier.has_one_cluster,
    "aligned": lambda rounds, frontier: frontier.leads_with_round,
    "first": lambda rounds, _: rounds.step_in_hop == 0,
}


@cache
def low_entropy_reward(most: float) -> Reward:
    """Rewards the rounds whose clusters have at most an entropy, in nats."""
    return partial(_has_low_entropy, most)


def _has_low_entropy(most: float, rounds: Rounds, frontier: Frontiers) -> np.ndarray:
    return rounds.answer_counts.cluster_entropy(len(rounds.hop_of_row)) <= most + 1e-9
