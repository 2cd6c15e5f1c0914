"""Features at work: the columns of one kind, for a block of traces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from generate.passes.embedding import Embedder, MeanPooling
from generate.signals import numeric, serving, similarity
from generate.signals.additions import Additions, Features
from generate.signals.columns import SERVING, columns_of
from generate.signals.contradiction import Contradiction, peer_contradiction, peers_of
from generate.signals.signal import Advance, Made
from generate.traces.block import Block
from toolkit.log import Log

PER_BLOCK = 16_384
PAIRS = 4_096
"""Pairs of texts held as tokens at once."""


class FeaturesWorker:
    """Makes features. The encoder or NLI model, where one is needed, is loaded at once."""

    per_block = PER_BLOCK

    def __init__(self, step: Features, additions: Additions, log: Log, embedder: Embedder | None):
        self.step, self.columns = step, columns_of(step, log)
        self.embedder, self.nli = embedder, None
        if step.kind in ("claims", "peers") and embedder is None:
            assert additions.embedding is not None  # the recipe was checked
            folder = additions.find(additions.embedding.model)
            self.embedder = MeanPooling(folder, batch_tokens=step.batch_tokens, device=step.device)
        if step.kind == "contradiction":
            self.nli = Contradiction(step, additions.model(str(step.model)))

    def describe(self) -> dict[str, object]:
        """The columns, and the model that they come from."""
        described: dict[str, object] = {"columns": list(self.columns)}
        if self.nli is not None:
            return {**described, **self.nli.describe()}
        if self.step.kind in ("claims", "peers") and self.embedder is not None:
            described["embedding"] = dict(self.embedder.describe())
        return described

    def run(self, block: Block, advance: Advance) -> Made:
        """A row of features for each wanted trace. Peers are all those of the log, wanted or not."""
        made: Callable[[Block, pl.DataFrame], dict[str, Any]] = {
            "claims": self._claims,
            "serving": self._serving,
            "peers": self._peers,
            "contradiction": self._contradiction,
        }[self.step.kind]
        among = self.step.kind in ("peers", "contradiction")  # a trace without a text is nobody's peer
        rows = block.traces.filter(pl.col("text").is_not_null() if among else _wanted(block))
        values = made(block, rows)
        skipped = values.pop("skipped", {})
        named = {self.step.prefix + name: column for name, column in values.items()}
        frame = rows.select("trace_id", "example_id").with_columns(
            pl.Series(name, column, dtype=pl.Float64, nan_to_null=True) for name, column in named.items()
        )
        held = pl.any_horizontal(pl.col(name).is_not_null() for name in named)
        frame = frame.filter(_wanted(block) & held)
        advance(frame.height)
        there = frozenset(frame["trace_id"])
        reasons = [(trace, why) for trace, why in skipped.items() if trace in block.wanted]
        return Made(
            frame,
            skipped=tuple(pair for pair in reasons if pair[0] not in there),
            incomplete=tuple(pair for pair in reasons if pair[0] in there),
        )

    def close(self) -> None:
        """Free the NLI model."""
        if self.nli is not None:
            self.nli.close()

    def _claims(self, block: Block, rows: pl.DataFrame) -> dict[str, Any]:
        """The five static features of the thesis."""
        assert self.embedder is not None  # loaded for this kind
        examples = [block.example_rows[name] for name in rows["example_id"]]
        claims = [row["question"] for row in examples]
        evidence = [_passages(row[self.step.evidence]) for row in examples]
        texts = justifications(rows["text"], self.step.pattern)
        parts = similarity.pieces([passage for passages in evidence for passage in passages], self.embedder)
        sizes = iter([len(listed) for listed in parts])
        flat = [part for listed in parts for part in listed]
        unit = similarity.embedded([*claims, *texts.to_list(), *flat], self.embedder)
        of_claim, of_text, of_passage = np.split(unit, [len(claims), 2 * len(claims)])
        counts = np.array([sum(next(sizes) for _ in passages) for passages in evidence], dtype=np.int64)
        joined = pl.Series(["\n".join(passages) for passages in evidence], dtype=pl.String)
        return {
            "claim_similarity": similarity.claim_similarity(of_claim, of_text),
            "evidence_similarity": similarity.evidence_similarity(of_passage, counts, of_text),
            "claim_numeric_coverage": numeric.claim_numeric_coverage(pl.Series(claims, dtype=pl.String), texts),
            "evidence_numeric_grounding": numeric.evidence_numeric_grounding(texts, joined),
            "length": numeric.length(texts, self.step.long),
            "skipped": _too_long(rows, np.isnan(of_claim).any(axis=1) | np.isnan(of_text).any(axis=1)),
        }

    def _serving(self, block: Block, rows: pl.DataFrame) -> dict[str, Any]:
        """SeVRA's serving-visible features."""
        wanted = ["example_id", "question", *(["labels"] if "labels" in block.examples.columns else [])]
        both = rows.join(block.examples.select(wanted), on="example_id", how="left", maintain_order="left")
        labels = both["labels"] if "labels" in both.columns else pl.Series([None] * rows.height)
        functions: dict[str, Callable[[pl.Series], pl.Series]] = dict(vars(serving))
        functions["answer_format"] = partial(serving.answer_format, labels=labels)
        return {name: functions[name](both[source]) for name, source in SERVING.items()}

    def _peers(self, block: Block, rows: pl.DataFrame) -> dict[str, Any]:
        """Similarity to the example's other traces."""
        assert self.embedder is not None  # loaded for this kind
        texts = justifications(rows["text"], self.step.pattern)
        unit = similarity.embedded(texts.to_list(), self.embedder)
        values = similarity.peer_similarity(unit, _groups(rows), self.step.peers == "earlier")
        return {self._own_name("similarity"): values, "skipped": _too_long(rows, np.isnan(unit).any(axis=1))}

    def _contradiction(self, block: Block, rows: pl.DataFrame) -> dict[str, Any]:
        """Contradiction by the example's other traces; a trace with a pair that the model can't take whole has none."""
        assert self.nli is not None  # loaded for this kind
        texts = justifications(rows["text"], self.step.pattern).to_list()
        peers = peers_of(_groups(rows).tolist(), self.step.peers == "earlier", self.step.most)
        names, skipped, values = rows["trace_id"].to_list(), {}, np.full(rows.height, np.nan)
        wanted = [place for place, name in enumerate(names) if name in block.wanted]
        for chunk in _chunks(wanted, [len(peers[place]) for place in wanted]):
            places, pairs, counts = [], [], []
            for place in chunk:
                own = [self.nli.encode(texts[i], texts[place]) for i in peers[place]]
                reason = next((why for pair in own if (why := self.nli.reader.too_long(pair))), None)
                if reason is not None:
                    skipped[names[place]] = f"with a peer: {reason}"
                    continue
                places.append(place)
                counts.append(len(own))
                pairs += own
            values[places] = peer_contradiction(self.nli(pairs), np.array(counts, dtype=np.int64))
        return {self._own_name("contradiction"): values, "skipped": skipped}

    def _own_name(self, what: str) -> str:
        return f"{'earlier' if self.step.peers == 'earlier' else 'peer'}_{what}"


def _chunks(places: Sequence[int], pairs: Sequence[int]) -> Iterator[list[int]]:
    """Neighbouring places with at most about `PAIRS` pairs together, so that memory does not grow with peers."""
    chunk: list[int] = []
    held = 0
    for place, count in zip(places, pairs, strict=True):
        if chunk and held + count > PAIRS:
            yield chunk
            chunk, held = [], 0
        chunk.append(place)
        held += count
    if chunk:
        yield chunk


def justifications(texts: pl.Series, pattern: str | None) -> pl.Series:
    """The part of each text that the pattern's first group takes, at its last match; the whole text without a match."""
    plain = texts.cast(pl.String).fill_null("")
    if pattern is None:
        return plain
    compiled = re.compile(pattern)
    found = [list(compiled.finditer(text)) for text in plain]
    parts = [matches[-1].group(1) if matches else None for matches in found]
    return pl.Series([text if part is None else part for text, part in zip(plain, parts, strict=True)], dtype=pl.String)


def _too_long(rows: pl.DataFrame, flagged: np.ndarray) -> dict[str, str]:
    """The traces whose text, or claim, the encoder does not take whole."""
    reason = "the text or its claim is longer than the encoder takes, so it has no similarity"
    return dict.fromkeys(rows.filter(pl.Series(flagged))["trace_id"], reason)


def _wanted(block: Block) -> pl.Expr:
    return pl.col("trace_id").is_in(list(block.wanted))


def _groups(rows: pl.DataFrame) -> np.ndarray:
    """(n,) the number of each row's (example, pool); rows come in that order."""
    return rows.select(pl.struct("example_id", "pool").rle_id().alias("group"))["group"].to_numpy().astype(np.int64)


def _passages(value: Any) -> list[str]:
    """The passages of a cell: a list of texts, or one text."""
    listed = value if isinstance(value, list) else [value]
    return [str(text) for text in listed if text is not None and str(text).strip()]
