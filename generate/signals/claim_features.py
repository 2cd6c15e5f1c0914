"""The five static features of fact checking: how a justification relates to its claim and to the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from generate.signals import numeric, similarity
from generate.signals.feature_signals import SHARED, EmbeddingWorker, JustificationSignal, too_long_reasons
from generate.signals.signal import Additions
from generate.traces.block import TraceBlock
from toolkit.errors import RequiredError, suggest
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log
from toolkit.settings import setting


class _ClaimWorker(EmbeddingWorker):
    """Computes the features of claims from embeddings of claims, justifications and passages."""

    step: ClaimFeatures

    def values(self, block: TraceBlock, rows: pl.DataFrame) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        examples = [block.example_rows[name] for name in rows["example_id"]]
        claims = [row["question"] for row in examples]
        evidence = [_passages(row[self.step.evidence]) for row in examples]
        texts = self.step.justifications(rows["text"])
        parts = similarity.encoder_chunks([passage for passages in evidence for passage in passages], self.embedder)
        sizes = iter([len(listed) for listed in parts])
        flat = [part for listed in parts for part in listed]
        unit = similarity.embed_texts([*claims, *texts.to_list(), *flat], self.embedder)
        of_claim, of_text, of_passage = np.split(unit, [len(claims), 2 * len(claims)])
        counts = np.array([sum(next(sizes) for _ in passages) for passages in evidence], dtype=np.int64)
        joined = pl.Series(["\n".join(passages) for passages in evidence], dtype=pl.String)
        values = {
            "claim_similarity": similarity.claim_similarity(of_claim, of_text),
            "evidence_similarity": similarity.evidence_similarity(of_passage, counts, of_text),
            "claim_numeric_coverage": numeric.claim_numeric_coverage(pl.Series(claims, dtype=pl.String), texts),
            "evidence_numeric_grounding": numeric.evidence_numeric_grounding(texts, joined),
            "length": numeric.relative_justification_length(texts, self.step.long),
        }
        return values, too_long_reasons(rows, np.isnan(of_claim).any(axis=1) | np.isnan(of_text).any(axis=1))


@dataclass(frozen=True, kw_only=True)
class ClaimFeatures(JustificationSignal):
    """The static features of the thesis on efficient fact-checking. evidence: the column of `examples` with the
    passages. long: the words at which `length` is 1.
    """

    kind = "claims"

    evidence: str = setting("evidence")
    long: int = setting(200, low=1)

    worker = _ClaimWorker
    features = CLAIM_FEATURES
    needs_embedding = True
    recorded = SHARED

    def check_log(self, additions: Additions, log: Log) -> None:
        """Raises ThinkbackError where the log lacks the column of evidence, or what every signal of texts needs."""
        super().check_log(additions, log)
        if self.evidence not in log.columns("examples"):
            raise RequiredError(
                f"{self.section} `{self.name}`: `examples` has no column `{self.evidence}`: name the one that holds the"
                f" evidence with the key `evidence`; {suggest(self.evidence, log.columns('examples'))}"
            )


def _passages(value: Any) -> list[str]:
    """The passages in a cell, which holds a list of texts or one text."""
    listed = value if isinstance(value, list) else [value]
    return [str(text) for text in listed if text is not None and str(text).strip()]
