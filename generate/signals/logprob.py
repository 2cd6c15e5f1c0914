"""Log-probabilities as a verifier: how likely a model finds a text, as the log has it or by a teacher-forced pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from generate.passes.batching import TokenIds
from generate.passes.reader import ReadBatch, TokenStatistics, logprobs_of
from generate.signals.forced import SAMPLED, ForcedWorker, TeacherForced
from generate.signals.signal import FREE, Additions, BlockRows, VerifierSignal, Worker, Workload, score_rows
from generate.traces.block import READ, TextsToRead, TraceBlock
from toolkit.errors import RequiredError
from toolkit.progress import Advance
from toolkit.settings import setting

LOGGED = (*(n for n in READ if n != "text"), "completion_tokens", "finalizer_used", "sum_logprob", "token_logprobs")


class _LoggedWorker(Worker):
    """Scores traces by the log-probabilities that the writing model logged, at no cost: tokens and seconds are 0."""

    step: LogProb
    per_block = 16_384

    def describe(self) -> Mapping[str, Any]:
        return {"of": "the model that wrote the text, as the log has it"}

    def run(self, block: TraceBlock, advance: Advance) -> BlockRows:
        rows, skipped = [], []
        for row in block.wanted_rows:
            score, reason = self._score(row)
            if score is None:
                skipped.append((row["trace_id"], reason))
                continue
            rows.append(self.step.verification_row(row, score, **FREE))
        advance(len(block.wanted_rows))
        return BlockRows(score_rows(rows, self.step.decimals), tuple(skipped))

    def _score(self, row: dict[str, Any]) -> tuple[float | None, str]:
        """A trace's score, or None with the reason. Tokens of a finalizer count in completion_tokens but have no
        log-probability.
        """
        last, listed, count = self.step.last, row["token_logprobs"], row["completion_tokens"]
        written = None if row["finalizer_used"] is not False or count is None else count
        if last is None and self.step.how == "sum":
            return row["sum_logprob"], "the log has no `sum_logprob` of the trace"
        if last is None:
            if row["sum_logprob"] is None or not written:
                return None, "the log lacks the number or the sum of the trace's log-probabilities"
            return row["sum_logprob"] / written, ""
        if listed is None or (len(listed) < last and len(listed) != written):
            logged = "none" if listed is None else str(len(listed))
            return None, f"the log keeps {logged} of the trace's last {last} log-probabilities"
        if not listed:
            return None, "the text has no tokens"
        return self.step.score_of(np.asarray(listed, dtype=np.float64)), ""


class LogProbWorker(ForcedWorker):
    """Scores traces by log-probabilities from a teacher-forced pass of a model over prompt and text."""

    step: LogProb
    per_block = 4_096
    head = "causal"

    def unfit_reason(self, text: TokenIds) -> str | None:
        if not text.completion:
            return super().unfit_reason(text) or "the text has no tokens"
        nothing = None if text.prompt else "nothing stands before the text, so its first token has no probability"
        return super().unfit_reason(text) or nothing

    def run(self, block: TraceBlock, advance: Advance) -> BlockRows:
        return self.verification_rows(block, advance, self._columns)

    def _columns(self, read: ReadBatch, texts: list[TokenIds]) -> Iterator[Mapping[str, Any]]:
        return map(self.step.columns_of, logprobs_of(read, texts, self.step.every_token))


@dataclass(frozen=True, kw_only=True)
class LogProb(VerifierSignal, TeacherForced):
    """A verifier whose score is the sum or mean of a text's log-probabilities, over all its tokens or the `last` ones.

    With a `model` it is that model's, by a teacher-forced pass; without one that of the model that wrote it, as the log
    has it (`sum_logprob`, `token_logprobs`). A text of fewer than `last` tokens is taken whole. decimals: scores are
    rounded to so many. every_token: the log-probabilities of all tokens of the text are kept beside the score, with the
    entropies of the model's distributions there and the tokens' ranks in them.
    """

    kind = "logprob"

    how: str = setting("sum", choices=("sum", "mean"))
    last: int | None = setting(None, low=1)
    decimals: int | None = setting(None, low=1, high=9)
    every_token: bool = setting(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every_token and self.model is None:
            raise RequiredError("`every_token` needs a `model`: those of the writing model are in the log")
        if self.model is None and (self.prompt or self.prompts or self.chat_template):
            raise RequiredError("`prompt` needs a `model`: the log's own log-probabilities need no prompt")

    @property
    def worker(self) -> type[Worker]:  # type: ignore[override]
        return _LoggedWorker if self.model is None else LogProbWorker

    @property
    def texts_to_read(self) -> TextsToRead:  # type: ignore[override]
        """The texts to read: none where the log has the log-probabilities."""
        return TextsToRead.NONE if self.model is None else TextsToRead.PROMPTED

    @property
    def trace_columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of traces to read: the logged log-probabilities where the score is made of these."""
        return LOGGED if self.model is None else SAMPLED

    def identity(self, additions: Additions) -> dict[str, Any]:
        """The settings that determine the rows. `every_token` counts only where set, as older logs lack it."""
        flat = super().identity(additions)
        return flat if self.every_token else {name: value for name, value in flat.items() if name != "every_token"}

    def disk_bytes(self, load: Workload) -> int:
        """The largest size on disk. With `every_token` it is three numbers a token, and at most a token for each byte
        and an end.
        """
        per_token = 12 * (load.text_bytes() + load.traces) if self.every_token else 0
        return super().disk_bytes(load) + per_token

    def columns_of(self, tokens: TokenStatistics) -> dict[str, Any]:
        """The columns for one text: the score, and with `every_token` the numbers of each token."""
        if not self.every_token:
            return {"score": self.score_of(tokens.logprobs)}
        lists = {
            "token_logprobs": tokens.logprobs,
            "token_entropies": tokens.entropies,
            "token_ranks": tokens.ranks.astype(int),
        }
        return {"score": self.score_of(tokens.logprobs), **{name: values.tolist() for name, values in lists.items()}}

    def score_of(self, logprobs: np.ndarray) -> float:
        """The score of a text with these log-probabilities."""
        last_ones = logprobs if self.last is None else logprobs[-self.last :]
        return float(last_ones.sum() if self.how == "sum" else last_ones.mean())
