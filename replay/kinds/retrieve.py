"""Kind `retrieve`: documents of several rounds, ranked by relevance and by whether a round's answers agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.contents import Contents
from replay.data.needs import Needs, needs_of_rows
from replay.engine import outcome as ends
from replay.engine.calls import PolicyPath, outcome_of_rows, path_paying_rows
from replay.engine.costs import RowCalls
from replay.engine.outcome import ENDINGS, Outcome
from replay.policies.base import Evaluator, ExplanationStage, Policy, policy_errors
from replay.policies.remarks import Counts, Remark, RemarkKind
from toolkit.columns import OutcomeColumn, find
from toolkit.errors import InvalidError, UnsuitableError, counted, listed, quote
from toolkit.log.contract.manifest import EXPLORING
from toolkit.notes import Severity
from toolkit.rounds.frontier import NONE, AnswerClusters, Frontiers, Rounds
from toolkit.rounds.ranking import RoundRanking
from toolkit.settings import from_table, setting

TABLE = "rounds"
assert ends.RULE < ends.CAP < ends.EXHAUSTED  # of several hops the last of these is an example's ending
MOST_MOVED = 6
"""Documents that moved up in a round that an explanation names."""
SAVED = ("calls", "tokens")
"""What the rounds that a stop spares would have cost."""


@dataclass(frozen=True, kw_only=True)
class Retrieve(RoundRanking, Policy, kind="retrieve", table=TABLE, answers=False, lists=frozenset({"at"})):
    """Ranks the documents of the first `rounds` rounds of each hop, by the settings of a `RoundRanking`.

    `stable` ends a hop once the frontier has had one leader for so many rounds; `at` are the numbers of documents at
    which hits and recall are measured.
    """

    rounds: int = setting(low=1)
    pool: str | None = setting(None, what="a name")
    stable: int | None = setting(None, low=1)
    at: tuple[int, ...] = setting((1, 10), low=1, what="a list of different integers, at least 1")
    negative: bool = setting(False, key=False)  # whether the pool has a relevance below 0
    explored: bool = setting(False, key=False)  # whether the manifest says by what the pool explored

    def __post_init__(self) -> None:
        Policy.__post_init__(self)
        with policy_errors(self.name):
            RoundRanking.__post_init__(self)
        if not self.at or len(set(self.at)) < len(self.at):
            why = f"`at` is {quote(self.at)}; it takes a list of different integers, at least 1"
            raise self.refusal(why, InvalidError)

    @property
    def columns(self) -> tuple[OutcomeColumn, ...]:
        counts = sorted(self.at, reverse=True)
        measures = [replace(find(f"{kind}_{k}"), header=f"{kind}@{k}") for kind in ("recall", "hit") for k in counts]
        saved = [find(f"{cost}_saved") for cost in SAVED if self.stable is not None]
        rewarded = [find("rewarded"), find("rewarded_share")] if self.penalty is None else []
        return (*measures, find("rounds"), *rewarded, *saved)

    # ---- a log ----

    def resolve(self, contents: Contents) -> Self:
        with policy_errors(self.name):
            pool = contents.pool_of_table(TABLE, self.pool)
            for key, column in (("weights", self.weights), ("order", self.rank_column)):
                if column is not None and contents.least(TABLE, pool, column) is None:
                    raise UnsuitableError(f"pool `{pool}` of `{TABLE}` has no `{column}`, which `{key}` reads")
        explore = contents.pool_setting(pool, "explore")
        if isinstance(explore, Mapping):
            self._check_explored(pool, explore)
        least = contents.least(TABLE, pool, "relevance")
        return self.filled(pool=pool, negative=least is not None and least < 0, explored=explore is not None)

    def _check_explored(self, pool: str, explore: Mapping[str, Any]) -> None:
        """Raise where a pool was explored by rewarded scores, and the policy ranks by others."""
        with policy_errors(f"pools.{pool}.explore of the manifest"):
            given = from_table(RoundRanking, explore)
        other = next((key for key in (*EXPLORING, "order") if getattr(self, key) != getattr(given, key)), None)
        if other is not None:
            value = getattr(given, other)
            raise self.refusal(
                f"pool `{pool}` explored by rewarded scores, so no other ranking has its documents: `{other}` is "
                f"{quote(getattr(self, other))}, and was {quote(value)}; only `at`, `rounds` and `stable` are free"
            )

    def needs(self, contents: Contents) -> Needs:
        columns = ["documents", "relevance", "clusters"]
        columns += [column for column in (self.weights, self.rank_column) if column is not None]
        columns += ["answers", "contradictions"] if self.penalty is not None else []
        return needs_of_rows(TABLE, str(self.pool), *columns) | Needs(example_columns=frozenset(["gold_documents"]))

    def explanation_needs(self, contents: Contents) -> Needs:
        return needs_of_rows(TABLE, str(self.pool), "answers", "sub_question")

    # ---- a block ----

    def _read_rounds(self, on: Evaluator) -> Rounds:
        """The rounds of its pool on a block, which policies share."""
        rows = on.block.tables[TABLE, str(self.pool)]
        return on.compute_once((TABLE, self.pool), lambda: Rounds(rows, on.block.examples["gold_documents"]))

    def _read_frontiers(self, on: Evaluator) -> Frontiers:
        rounds = self._read_rounds(on)
        key = ("frontiers", self.pool, self.weights, self.frontier, self.frontier_of, self.support)
        return on.compute_once(key, lambda: self.frontiers(rounds))

    def _relevance_factor(self, on: Evaluator) -> np.ndarray:
        """What the relevance of a round's documents is multiplied with (R,)."""
        return self.relevance_factor(self._read_rounds(on), lambda: self._read_frontiers(on))

    def _is_rewarded(self, on: Evaluator) -> np.ndarray:
        """Which rounds are rewarded: bool (R,)."""
        return self.is_rewarded(self._read_rounds(on), self._read_frontiers(on))

    def _document_sort_keys(self, on: Evaluator, factor: np.ndarray) -> np.ndarray:
        """The sort keys (D,) of documents, ascending."""
        return self.sort_keys(self._read_rounds(on), factor, self.negative)

    def _paid_rounds_and_endings(self, on: Evaluator) -> tuple[np.ndarray, np.ndarray]:
        """The rounds paid (R,) bool, and the ending of each hop (G,)."""
        rounds = self._read_rounds(on)
        limit = np.minimum(rounds.rounds_of_hop, self.rounds)
        ending = np.where(rounds.rounds_of_hop < self.rounds, ends.EXHAUSTED, ends.CAP)
        if self.stable is not None:
            held = np.where(self._read_frontiers(on).lasting >= self.stable, rounds.step_in_hop, self.rounds)
            stop = np.minimum.reduceat(held, rounds.first_row_of_hop) if len(held) else np.zeros(0, np.int64)
            ending = np.where(stop < limit, ends.RULE, ending)
            limit = np.minimum(limit, stop + 1)
        return rounds.step_in_hop < limit[rounds.hop_of_row], ending

    def path(self, on: Evaluator) -> PolicyPath:
        paid, _ = self._paid_rounds_and_endings(on)
        return path_paying_rows(on.block, self._row_calls, paid, on.outcome(self))

    @property
    def _row_calls(self) -> RowCalls:
        return RowCalls(table=TABLE, pool=str(self.pool))

    def outcome(self, on: Evaluator) -> Outcome:
        rounds = self._read_rounds(on)
        paid, ending = self._paid_rounds_and_endings(on)
        factor = self._relevance_factor(on)
        examples = len(on.block.examples)
        reason = np.where(rounds.rows.size == 0, 1, 0)
        if self.weights is not None:
            lacks = np.bincount(rounds.rows.example, weights=paid & rounds.has_unscored_answer, minlength=examples) > 0
            reason = np.where(lacks & (reason == 0), 2, reason)
        last = np.full(examples, ends.RULE)
        np.maximum.at(last, rounds.example_of_hop, ending)
        measured = dict(self._recall_columns(rounds, self._document_sort_keys(on, factor), paid))
        if self.penalty is None:
            measured["rewarded"] = _sums_by_example(rounds, self._is_rewarded(on) & paid)
        if self.stable is not None:
            measured |= self._saved_costs(on.block, rounds, paid)
        reasons = (
            "served",
            f"pool `{self.pool}` of `{TABLE}` has no round",
            "an answer has no score in `answer_scores`",
        )
        return outcome_of_rows(on.block, self._row_calls, paid, reason.astype(np.int16), reasons, last, measured)

    def _recall_columns(self, rounds: Rounds, keys: np.ndarray, paid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Hits and recall (E,) at each number of documents."""
        example, places = rounds.gold_places(keys, paid, max(self.at))
        unknown = np.isnan(rounds.gold_document_count)
        for k in self.at:
            count = np.bincount(example[places < k], minlength=len(unknown))
            yield f"hit_{k}", np.where(unknown, np.nan, count > 0)
            yield f"recall_{k}", count / rounds.gold_document_count

    def _saved_costs(self, block: LogBlock, rounds: Rounds, paid: np.ndarray) -> dict[str, np.ndarray]:
        """Calls and tokens (E,) of the logged rounds within `rounds` that are not run."""
        spared = (rounds.step_in_hop < self.rounds) & ~paid
        tokens = rounds.rows.numbers("prompt_tokens") + rounds.rows.numbers("completion_tokens")
        known = {"calls": rounds.rows.numbers("calls"), "tokens": tokens}
        return {f"{cost}_saved": _sums_by_example(rounds, np.where(spared, known[cost], 0.0)) for cost in SAVED}

    # ---- words ----

    def ending_text(self, ending: str) -> str:
        return {
            "rule": f"the frontier's leader had been the same for {counted(self.stable or 0, 'round')}",
            "cap": f"the {counted(self.rounds, 'round')} of its cap are read",
            "exhausted": "a hop has fewer rounds in the log than the cap",
        }.get(ending, ending)

    def paid_rows(self, on: Evaluator) -> pl.DataFrame:
        """The rounds that it reads: `frontier`, the clusters with their support, the leader first, and `leader`;
        whether it is `rewarded`, or with a penalty its `factor`; `moved`, the documents that moved up in their hop.
        """
        paid, _ = self._paid_rounds_and_endings(on)
        frontier, row = self._read_frontiers(on), np.flatnonzero(paid)
        ranked = self._document_ranks(on, paid).filter(pl.col("place") < pl.col("plain"))
        moved = ranked.group_by("row", maintain_order=True).agg(
            pl.format("{} {}→{}", "document", "plain", "place").alias("moved")
        )
        leader = pl.Series(frontier.leader[row])
        single = self.penalty is None
        frame = pl.DataFrame({
            "row": row,
            "frontier": [_clusters_text(frontier, one) for one in row.tolist()],
            "leader": leader.set(leader == NONE, None),
            **({"rewarded": self._is_rewarded(on)[row]} if single else {"factor": self._relevance_factor(on)[row]}),
        }, schema_overrides={"frontier": pl.String})  # fmt: skip
        most = pl.concat_list(pl.col("moved").list.head(MOST_MOVED), pl.lit(["…"]))
        more = pl.when(pl.col("moved").list.len() > MOST_MOVED).then(most).otherwise("moved")
        return frame.join(moved, on="row", how="left", maintain_order="left").with_columns(
            more.list.join(", ").fill_null("").alias("moved")
        )

    def explain(self, on: Evaluator, repetition: int) -> Iterator[ExplanationStage]:
        """Hop by hop the rounds that the policy reads, then the documents that it ranks first."""
        rounds, (paid, ending) = self._read_rounds(on), self._paid_rounds_and_endings(on)
        ranked, of_rounds = self._document_ranks(on, paid), self.paid_rows(on)
        answers = rounds.answer_score_sums if self.weights else rounds.answer_counts
        steps = of_rounds.select(
            pl.Series("round", rounds.step_in_hop[of_rounds["row"]]),
            pl.Series("answers", [_answers_text(rounds, answers, row) for row in of_rounds["row"]], dtype=pl.String),
            pl.exclude("row", "leader", "moved"),
            pl.col("moved").alias("moved up"),
        )
        for hop, first in enumerate(rounds.first_row_of_hop):
            rows = steps.filter(pl.Series(rounds.hop_of_row[of_rounds["row"]] == hop))
            number, question = rounds.rows.frame.select("hop", "sub_question").row(int(first))
            title = f"`{self.name}`, hop {number}{'' if question is None else f': {question}'}"
            why = f"{ENDINGS[ending[hop]]}: {self.ending_text(ENDINGS[ending[hop]])}"
            yield ExplanationStage(title, rows, why)
        score = ["score"] if self.rank_column is None else []
        columns = ["rank", "document", "hop", "round", "relevance", *score, "gold"]
        first_places = ranked.filter(pl.col("rank") <= max(self.at)).sort("rank").select(columns)
        gold = sorted(set(on.block.examples["gold_documents"].to_list()[0] or ()))
        text = f"gold documents: {listed(gold)}" if gold else "no gold documents are logged"
        yield ExplanationStage(f"`{self.name}`, the documents that it ranks first", first_places, text)

    def _document_ranks(self, on: Evaluator, paid: np.ndarray) -> pl.DataFrame:
        """Each document that it ranks, with its row, its `place` in its hop and its `plain` one, by relevance alone,
        and its `rank` on the example, null behind those that are measured; all from 1.
        """
        rounds = self._read_rounds(on)
        keys = self._document_sort_keys(on, self._relevance_factor(on))
        order, place = rounds.rank_documents(keys, paid)
        plain, before = rounds.rank_documents(self._document_sort_keys(on, np.ones(len(paid))), paid)
        documents, rank = rounds.merge_hops(order, place, max(self.at))
        row = rounds.document_row[order]
        frame = pl.DataFrame({
            "document": rounds.documents.gather(order), "hop": rounds.rows.frame["hop"].gather(row),
            "round": rounds.step_in_hop[row], "relevance": rounds.relevance[order],
            "score": -keys[order], "gold": rounds.is_gold[order],
            "row": row, "place": place + 1,
            "number": order, "code": rounds.document_code[order], "of": rounds.hop_of_row[row],
        })  # fmt: skip
        by_plain = pl.DataFrame({
            "code": rounds.document_code[plain], "of": rounds.hop_of_row[rounds.document_row[plain]],
            "plain": before + 1,
        })  # fmt: skip
        by_rank = pl.DataFrame({"number": documents, "rank": rank + 1})
        frame = frame.join(by_plain, on=["code", "of"], how="left", maintain_order="left")
        frame = frame.join(by_rank, on="number", how="left", maintain_order="left")
        return frame.drop("number", "code", "of")

    def remarks_on(self, block: LogBlock) -> Iterator[Remark]:
        """What the policy's numbers rest on."""
        rows, pool = block.tables[TABLE, str(self.pool)], str(self.pool)
        if not self.explored:
            yield Remark(UNKNOWN, pool)
        if (rows.frame["hop"] > 0).any():
            yield Remark(LATER_HOPS, pool)

    def final_remarks(self) -> Iterator[RemarkKind]:
        if self.rewards_every_round and self.penalty is None and self.order == "relevance":
            yield PLAIN
        if self.negative and self.relevance == "raw" and self.order == "relevance" and self.multiplier != 1:
            yield BACKWARDS


def _sums_by_example(rounds: Rounds, values: np.ndarray) -> np.ndarray:
    """Values of rounds (R,), added up by example (E,)."""
    return np.bincount(rounds.rows.example, weights=values, minlength=len(rounds.gold))


def _answers_text(rounds: Rounds, answers: AnswerClusters, row: int) -> str:
    """The answers of a round by cluster, the most frequent first: the first of each, its cluster and its count."""
    texts: dict[int, str] = {}
    frame = rounds.rows.frame
    for cluster, text in zip(frame["clusters"][row], frame["answers"][row], strict=True):
        texts.setdefault(int(cluster), text)
    mine = answers.row == row
    counts = dict(zip(answers.cluster[mine].tolist(), answers.count[mine].tolist(), strict=True))
    ordered = sorted(counts, key=lambda cluster: (-counts[cluster], cluster))
    return ", ".join(f"{texts[one]} ({one}): {counts[one]:.3g}" for one in ordered)


def _clusters_text(frontier: Frontiers, row: int) -> str:
    there = frontier.clusters[row] != NONE
    support = dict(zip(frontier.clusters[row][there].tolist(), frontier.support[row][there].tolist(), strict=True))
    ordered = sorted(support, key=lambda cluster: (cluster != frontier.leader[row], -support[cluster], cluster))
    return ", ".join(f"{cluster}: {support[cluster]:.3g}" for cluster in ordered)


def _unknown_exploration_remarks(pools: Counts) -> list[str]:
    return [
        f"the manifest does not say by what {listed(sorted(pools))} explored (`pools.NAME.explore`): where it was by "
        "rewarded scores, other settings would have read other documents"
    ]


def _later_hop_remarks(pools: Counts) -> list[str]:
    return [f"later hops of {listed(sorted(pools))} keep the sub-questions that followed from the logged answers"]


def _rewards_everything_remarks(policies: Counts) -> list[str]:
    return [f"every round that has answers is rewarded, which ranks by relevance alone: {listed(list(policies))}"]


def _negative_relevance_remarks(policies: Counts) -> list[str]:
    return [
        f"relevance below 0 is multiplied as it is, so that a reward moves documents down: {listed(list(policies))}"
    ]


UNKNOWN = RemarkKind("explore_unknown", _unknown_exploration_remarks)
LATER_HOPS = RemarkKind("later_hops", _later_hop_remarks)
PLAIN = RemarkKind("plain_ranking", _rewards_everything_remarks, about_policies=True)
BACKWARDS = RemarkKind("negative_relevance", _negative_relevance_remarks, Severity.WARNING, about_policies=True)
