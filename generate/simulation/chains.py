"""Simulated chains of reasoning over retrieved documents, by evidence, reader and verifier with planted differences.

The model. A pool `EVIDENCE-READER` has `chains` traces of each question. Evidence is the first `read` documents of
every hop: `relevance` ranks them by it, `rewarded` doubles the (logistic) relevance of rounds whose answers all agree,
`gold` reads the gold documents alone. A chain is right with the probability `skill` + `use` · g, g being the share of
the gold documents that it read; the reader `large` has `reader` more of it than `small`. So a better ranking gives
better answers, and never more than gold evidence. A verifier's score is logistic(z), z normal and higher by
`strong`, or by `weak`, where the chain is right: the area under its ROC curve is Φ(strength / √2).

With `further` each evidence and reader has two more pools of one trace a question, `EVIDENCE-READER-single`, a chain,
and `EVIDENCE-READER-direct`, an answer without reasoning that is right less often by `reasoning`; traces have texts and
clusters of meaning, which are their answers, and questions one of three types, every tenth two right answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from toolkit.settings import check, setting

EVIDENCE = ("relevance", "rewarded", "gold")
READERS = ("small", "large")
VERIFIERS = ("strong", "weak")
TYPES = ("time order", "family", "place")
KINDS = {"strong": {"kind": "classifier"}, "weak": {"kind": "judge"}}
"""What the manifest says of the verifiers, with `further`."""
WRONG = 6
"""Wrong answers of a question."""


@dataclass(frozen=True)
class ChainsModel:
    """Parameters of the chains; the module's docstring says what each does."""

    chains: int = setting(0, low=0, high=1_000)
    read: int = setting(4, low=1, high=10_000)
    skill: float = setting(0.15, low=0, high=1)
    use: float = setting(0.5, low=0, high=1)
    reader: float = setting(0.15, low=0, high=1)
    strong: float = setting(1.5, low=0)
    weak: float = setting(0.5, low=0)
    further: bool = setting(False)
    reasoning: float = setting(0.1, low=0, high=1)

    def __post_init__(self) -> None:
        check(self)

    def right_probability(self, share: np.ndarray, reader: str) -> np.ndarray:
        """Probability that a chain is right, by the share of the gold documents that it read."""
        more = self.reader if reader == READERS[1] else 0.0
        return np.clip(self.skill + more + self.use * share, 0.0, 1.0)


def examples_with_gold(examples: pl.DataFrame, further: bool = False) -> pl.DataFrame:
    """The examples with the answer that is right; `further`: with their types, and all right answers."""
    judged = examples.with_columns(gold=pl.lit("answer 0"))
    if not further:
        return judged
    number = pl.col("example_id").str.slice(1).cast(pl.Int64)
    golds = pl.concat_list(pl.lit("answer 0"), pl.lit(f"answer {WRONG + 1}"))
    return judged.with_columns(
        question_type=(number % len(TYPES)).replace_strict(range(len(TYPES)), TYPES, return_dtype=pl.String),
        golds=pl.when(number % 10 == 1).then(golds).otherwise(pl.concat_list(pl.lit("answer 0"))),
    )


def documents_by_evidence(
    relevance: np.ndarray, answers: np.ndarray, gold: np.ndarray, read: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Each evidence, with the places (n, H, read) of its documents in their hops, -1 where there are fewer.

    `relevance` and `gold` are (n, H, R, D), `answers` (n, H, R, A).
    """
    agrees = (answers == answers[..., :1]).all(axis=-1)
    plain = 1 / (1 + np.exp(-relevance))
    keys = plain, np.where(agrees[..., None], 2 * plain, plain), gold.astype(float)
    for name, key in zip(EVIDENCE, keys, strict=True):
        flat = key.reshape(*key.shape[:2], -1)
        order = np.argsort(-flat, axis=-1, kind="stable")[..., :read]
        there = name != "gold" or np.take_along_axis(flat, order, axis=-1) > 0
        yield name, np.where(there, order, -1)


def chain_tables(
    rng: np.random.Generator, model: ChainsModel, examples: pl.Series, gold: np.ndarray, relevance: np.ndarray,
    answers: np.ndarray, documents: pl.Series, block: int,
) -> dict[str, pl.DataFrame]:  # fmt: skip
    """The tables `traces` and `verifications` of the questions of a block, whose numbers are drawn for `block` of them.

    `documents` (n · H · R · D,) are named in the order of `gold` and `relevance`.
    """
    count, hops, size = *gold.shape[:2], int(np.prod(gold.shape[2:]))
    traces, scores, read_by_evidence = [], [], []
    start = (np.arange(count * hops) * size).reshape(count, hops, 1)
    for name, place in documents_by_evidence(relevance, answers, gold, model.read):
        seen = np.take_along_axis(gold.reshape(count, hops, -1), np.maximum(place, 0), axis=-1) & (place >= 0)
        share = seen.sum(axis=(1, 2)) / gold.reshape(count, -1).sum(axis=1)
        rows = np.where(place >= 0, start + place, -1).reshape(count, -1)
        read = pl.DataFrame({
            "row": np.repeat(np.arange(count), rows.shape[1]), "place": rows.ravel(),
        }).filter(pl.col("place") >= 0)  # fmt: skip
        read = read.with_columns(document=documents.gather(read["place"]))
        lists = read.group_by("row", maintain_order=True).agg("document").sort("row")["document"]
        read_by_evidence.append((name, share, lists))
        for reader in READERS:
            drawn = rng.random((block, model.chains))[:count], rng.integers(1, WRONG + 1, (block, model.chains))[:count]
            right = drawn[0] < model.right_probability(share, reader)[:, None]
            tokens = np.round(rng.gamma(8.0, 15.0, (block, model.chains))[:count]).astype(np.int32)
            frame = _chain_traces(f"{name}-{reader}", reader, examples, lists, right, drawn[1], tokens)
            traces.append(frame)
            for verifier, strength in zip(VERIFIERS, (model.strong, model.weak), strict=True):
                score = rng.normal(size=(block, model.chains))[:count] + strength * right
                scores.append(
                    frame.select(
                        "trace_id", "example_id", verifier=pl.lit(verifier),
                        score=pl.Series((1 / (1 + np.exp(-score))).ravel()),
                    )
                )  # fmt: skip
    if model.further:
        for name, share, lists in read_by_evidence:
            traces += _single_traces(rng, model, name, share, examples, lists, block)
        text = pl.format("The documents say so. The answer is {}.", "answer")
        traces = [frame.with_columns(text=text, answer_cluster="answer") for frame in traces]
    return {"traces": pl.concat(traces), "verifications": pl.concat(scores)}


def _single_traces(
    rng: np.random.Generator, model: ChainsModel, evidence: str, share: np.ndarray, examples: pl.Series,
    documents: pl.Series, block: int,
) -> Iterator[pl.DataFrame]:  # fmt: skip
    """One chain, and one answer without reasoning, of each reader on each question."""
    for reader in READERS:
        for form, less in (("single", 0.0), ("direct", model.reasoning)):
            drawn = rng.random((block, 1))[: len(share)], rng.integers(1, WRONG + 1, (block, 1))[: len(share)]
            right = drawn[0] < (model.right_probability(share, reader) - less)[:, None]
            tokens = np.round(rng.gamma(8.0, 15.0, (block, 1))[: len(share)]).astype(np.int32)
            yield _chain_traces(f"{evidence}-{reader}-{form}", reader, examples, documents, right, drawn[1], tokens)


def _chain_traces(
    pool: str, reader: str, examples: pl.Series, documents: pl.Series, right: np.ndarray, wrong: np.ndarray,
    tokens: np.ndarray,
) -> pl.DataFrame:  # fmt: skip
    count, chains = right.shape
    row = np.repeat(np.arange(count), chains)
    texts = pl.Series([f"answer {one}" for one in range(WRONG + 1)])
    frame = pl.DataFrame({
        "example_id": examples.gather(row), "sample_index": np.tile(np.arange(chains, dtype=np.int32), count),
        "documents": documents.gather(row), "answer": texts.gather(np.where(right, 0, wrong).ravel()),
        "correct": right.ravel(), "completion_tokens": tokens.ravel(),
    })  # fmt: skip
    return frame.with_columns(
        trace_id=pl.format(f"{{}}/{pool}/{{}}", "example_id", "sample_index"),
        pool=pl.lit(pool),
        action=pl.lit("solve"),
        model=pl.lit(reader),
        prompt_tokens=(60 * pl.col("documents").list.len()).cast(pl.Int32),
        latency_s=(pl.col("completion_tokens") / 100).cast(pl.Float32),
    )
