"""Log-probabilities as a verifier: how likely a model finds a text, as the log has it or by a teacher-forced pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from generate.passes.batching import Ids
from generate.passes.taking import logprobs_of
from generate.signals.additions import Additions, LogProb
from generate.signals.forced import open_forced
from generate.signals.signal import Advance, Made, score_rows
from generate.traces.block import Block
from toolkit.log import Log

PER_BLOCK = 4_096


class LoggedWorker:
    """The writing model's own log-probabilities. They cost nothing: tokens and seconds are 0."""

    per_block = 16_384

    def __init__(self, step: LogProb):
        self.step = step

    def describe(self) -> dict[str, object]:
        """Where the numbers come from."""
        return {"of": "the model that wrote the text, as the log has it"}

    def run(self, block: Block, advance: Advance) -> Made:
        """A verification for each trace whose log-probabilities the log has."""
        rows, skipped = [], []
        for row in block.rows:
            score, reason = self._score(row)
            if score is None:
                skipped.append((row["trace_id"], reason))
                continue
            rows.append(_row(self.step, row, score, 0, 0.0, 0.0))
        advance(len(block.rows))
        return Made(score_rows(rows, self.step.decimals), tuple(skipped))

    def close(self) -> None:
        """Nothing to give back."""

    def _score(self, row: dict[str, Any]) -> tuple[float | None, str]:
        """The score, or None and why. The finalizer's tokens are in completion_tokens, not in the log-probabilities."""
        last, listed, count = self.step.last, row["token_logprobs"], row["completion_tokens"]
        own = None if row["finalizer_used"] is not False or count is None else count
        if last is None and self.step.how == "sum":
            return row["sum_logprob"], "the log has no `sum_logprob` for it"
        if last is None:
            if row["sum_logprob"] is None or not own:
                return None, "the log does not have the number and the sum of its log-probabilities"
            return row["sum_logprob"] / own, ""
        if listed is None or (len(listed) < last and len(listed) != own):
            kept = "none" if listed is None else str(len(listed))
            return None, f"the log keeps {kept} of its last {last} log-probabilities"
        if not listed:
            return None, "the text has no tokens"
        taken = np.asarray(listed[-last:], dtype=np.float64)
        return float(taken.sum() if self.step.how == "sum" else taken.mean()), ""


class LogProbWorker:
    """Log-probabilities by a teacher-forced pass of a model over prompt and text."""

    per_block = PER_BLOCK

    def __init__(self, step: LogProb, additions: Additions, log: Log, pools: tuple[str, ...]):
        self.step = step
        self.forced = open_forced(step, additions, log, pools, "causal", f"`verify.{step.name}`")
        self.reader = self.forced.reader

    def describe(self) -> dict[str, object]:
        """The model and the prompts."""
        return self.forced.describe()

    def run(self, block: Block, advance: Advance) -> Made:
        """A verification for each trace that fits the model."""
        texts, kept, skipped = [], [], []
        for row in block.rows:
            text = self.forced.ids(block, row)
            reason = self.reader.too_long(text) or _unfit(text)
            if reason is not None:
                skipped.append((row["trace_id"], reason))
            else:
                texts.append(text)
                kept.append(row)
        rows: list[dict[str, Any]] = [{} for _ in kept]
        for read in self.reader.read(texts):
            found = logprobs_of(read, [texts[place] for place in read.places])
            for place, logprobs, device_s in zip(read.places, found, read.device_s, strict=True):
                taken = logprobs if self.step.last is None else logprobs[-self.step.last :]
                score = float(taken.sum() if self.step.how == "sum" else taken.mean())
                rows[place] = _row(self.step, kept[place], score, len(texts[place]), read.seconds, device_s)
            advance(len(read.places))
        return Made(score_rows(rows, self.step.decimals), tuple(skipped))

    def close(self) -> None:
        """Free the model."""
        self.reader.close()


def _unfit(text: Ids) -> str | None:
    if not text.completion:
        return "the text has no tokens"
    return None if text.prompt else "nothing stands before the text, so its first token has no probability"


def _row(
    step: LogProb, row: dict[str, Any], score: float, tokens: int, latency_s: float, device_s: float
) -> dict[str, Any]:
    return {
        "trace_id": row["trace_id"],
        "verifier": step.name,
        "example_id": row["example_id"],
        "score": score,
        "prompt_tokens": tokens,
        "completion_tokens": 0,
        "latency_s": latency_s,
        "device_s": device_s,
    }
