"""Read the answers of OpenAI-compatible servers: both protocols, the dialects, and who counted which tokens.

`usage` counts a whole request. With several samples in one, a sample's completion tokens are the number of its
log-probabilities (or token ids) where they add up to the reported sum. Otherwise the sum is divided in proportion to
the counts of the tokenizer named in the settings, one added for the end of each sample that ended by itself, and marked
estimated; without a sum those counts themselves stand, and without a tokenizer nothing does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import groupby
from typing import Any, Protocol

from generate.engines.base import Call, Completion, Prompt, finish_word

UNLIKELY = -9999.0  # what servers write for a log-probability too small to tell

_LENGTH = re.compile(r"context|too long|maximum.{0,20}length|max_model_len|too many tokens", re.IGNORECASE)
_CONTEXT = re.compile(r"context length (?:is|of)(?: only)? (\d+)", re.IGNORECASE)
_PROMPT = re.compile(r"(\d+) (?:input tokens|prompt tokens|in (?:the|your) (?:messages|prompt|input))", re.IGNORECASE)
_SPENT = re.compile(
    r"insufficient[_ ](?:quota|balance|funds|credits?)|billing_(?:hard_limit_reached|not_active)"
    r"|credit balance is too low|used all available credits|spending limit",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"max_(?:completion_)?tokens\b.{0,40}too large", re.IGNORECASE)


class HalfAnswer(ValueError):
    """An incomplete answer."""


class Counter(Protocol):
    """Counts tokens as the model's tokenizer does."""

    def encode(self, prompt: Prompt) -> list[int]:
        """Ids of a prompt as sent."""

    def count(self, text: str) -> int:
        """Tokens of a text alone."""


@dataclass(frozen=True)
class _ReplyChoice:
    """One sample as the server gave it. logprobs: of all tokens; None: not given, or one of them not told or
    no number."""

    text: str
    finish_reason: str | None
    token_ids: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None
    token_count: int | None  # tokens that the server told one by one


def read_reply(payload: Any, call: Call, samples: int, counter: Counter | None, latency_s: float) -> list[Completion]:
    """The samples of one request's answer, in the order of their `index`.

    Raises HalfAnswer when there are fewer than `samples`, or one lacks its text. At the length limit a missing text is
    an empty one: hidden reasoning took all tokens.
    """
    choices = _choices(payload, samples)
    prompt_tokens, total = _usage(payload)
    counts, estimated = _completion_counts(choices, total, counter)
    if prompt_tokens is None and counter is not None:
        prompt_tokens, estimated = len(counter.encode(call.prompt)), True
    return [
        Completion(
            text=choice.text,
            token_ids=choice.token_ids,
            token_logprobs=choice.logprobs[-call.logprobs :] if call.logprobs and choice.logprobs is not None else None,
            sum_logprob=None if choice.logprobs is None else sum(choice.logprobs),
            prompt_tokens=prompt_tokens,
            completion_tokens=count,
            tokens_estimated=estimated,
            finish_reason=choice.finish_reason,
            latency_s=latency_s,
            device_s=None,
        )
        for choice, count in zip(choices, counts, strict=True)
    ]


def _choices(payload: Any, samples: int) -> list[_ReplyChoice]:
    if not isinstance(payload, Mapping):
        raise HalfAnswer("the answer is not a JSON object")
    if payload.get("error"):
        raise HalfAnswer(f"the answer is an error: {error_text(payload)}")
    rows = payload.get("choices")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise HalfAnswer("the answer has no `choices`")
    if len(rows) < samples:
        hint = " (a server that ignores `n` needs `samples_per_request = 1`)" if samples > 1 else ""
        raise HalfAnswer(f"the answer has {len(rows)} of {samples} samples{hint}")
    return [_choice(row) for row in sorted(rows, key=lambda row: row.get("index") or 0)[:samples]]


def _choice(row: Mapping[str, Any]) -> _ReplyChoice:
    reason = row.get("finish_reason")
    if reason == "error" or row.get("error"):
        raise HalfAnswer("a sample ended in an error")
    logprobs = _logprobs(row.get("logprobs"))
    ids = row.get("token_ids")
    counted_tokens = len(ids) if ids else len(logprobs) if logprobs is not None else None
    clean = logprobs is not None and all(value is not None and UNLIKELY < value < math.inf for value in logprobs)
    return _ReplyChoice(
        text=_text(row),
        finish_reason=finish_word(reason),
        token_ids=tuple(ids) if ids else None,
        logprobs=tuple(float(value) for value in logprobs) if clean and logprobs else None,  # type: ignore[arg-type]
        token_count=counted_tokens or None,
    )


def _text(row: Mapping[str, Any]) -> str:
    """The text of a choice. A reasoning model's thoughts stand first, in `<think>` tags."""
    ended = finish_word(row.get("finish_reason")) == "length"
    if "text" in row:
        if not isinstance(row["text"], str) and not (ended and row["text"] is None):
            raise HalfAnswer("a sample has no text")
        return row["text"] or ""
    message = row.get("message")
    if not isinstance(message, Mapping):
        raise HalfAnswer("a sample has no message")
    content = message.get("content") or message.get("refusal")
    thoughts = message.get("reasoning") or message.get("reasoning_content")
    if isinstance(thoughts, str):
        return f"<think>{thoughts}</think>{content}" if content else f"<think>{thoughts}"
    if content is None and message.get("content") is None and not ended:
        raise HalfAnswer("a sample has no text")
    return str(content or message.get("content") or "")


def _logprobs(value: Any) -> list[float | None] | None:
    """The log-probabilities of tokens, of either protocol."""
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("content"), list):
        return [entry.get("logprob") for entry in value["content"]]
    if isinstance(value.get("token_logprobs"), list):
        return list(value["token_logprobs"])
    return None


def _usage(payload: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """(prompt tokens, completion tokens of all samples) as reported; None where they are not."""
    usage = payload.get("usage")
    if not isinstance(usage, Mapping):
        return None, None
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
    return tuple(count if isinstance(count, int) and count >= 0 else None for count in counts)  # type: ignore[return-value]


def _completion_counts(
    choices: Sequence[_ReplyChoice], total: int | None, counter: Counter | None
) -> tuple[list[int | None], bool]:
    """Completion tokens of each choice and whether they are estimates. total: what the server reports for all."""
    if total is not None and len(choices) == 1:
        return [total], False
    counts = [choice.token_count for choice in choices]
    whole = [count for count in counts if count is not None]
    exact = len(whole) == len(counts) and (total is None or sum(whole) == total)
    if exact and (total is not None or all(choice.token_ids for choice in choices)):
        return list(counts), False
    if counter is not None:
        # one that ended by itself has a token, or a stop string, that its text does not hold
        whole = [counter.count(choice.text) + (choice.finish_reason == "stop") for choice in choices]
    elif len(whole) < len(counts):
        return [None] * len(choices), False
    return [*(_divide(total, whole) if total is not None else whole)], True


def _divide(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in whole parts in proportion to `weights` (evenly when all are 0), by largest remainder."""
    if not sum(weights):
        weights = [1] * len(weights)
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    by_rest = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for index in by_rest[: total - sum(parts)]:
        parts[index] += 1
    return parts


def error_text(payload: Any) -> str:
    """The error message of a server, in one line of at most 300 characters; servers nest it differently."""
    if isinstance(payload, Mapping):
        inner = payload.get("error") or payload.get("detail") or payload.get("message") or ""
        if isinstance(inner, Mapping):
            inner = inner.get("message") or inner.get("code") or inner
        payload = inner
    return " ".join(str(payload).split())[:300]


def prompt_too_long(message: str) -> bool:
    """Whether a server's refusal speaks of the context's length; where it is not about the limit, of the prompt's."""
    return _LENGTH.search(message) is not None


def quota_spent(payload: Any, quotes: bool) -> bool:
    """Whether an error says, by its code or in words, that the account has nothing left; one that only wants fewer
    requests a minute does not. quotes: its words may quote the prompt, so only how they begin counts.
    """
    error = payload.get("error") if isinstance(payload, Mapping) else None
    if not isinstance(error, Mapping):
        error = {"message": error_text(payload)} if error or quotes is False else {}
    if any(_SPENT.search(str(error.get(name) or "")) for name in ("code", "type")):
        return True
    match = _SPENT.search(str(error.get("message") or ""))
    return match is not None and (not quotes or match.start() <= len("Your "))


def limit_too_large(message: str) -> bool:
    """Whether a server's refusal is about the limit of the completion: the prompt alone would fit. By its own counts
    of context and prompt where it tells them, else by its words."""
    context, prompt = _CONTEXT.search(message), _PROMPT.search(message)
    if context and prompt:
        return int(prompt.group(1)) < int(context.group(1))
    return _LIMIT.search(message) is not None


def requests_of(call: Call, most: int) -> list[list[int]]:
    """The call's samples in groups of equal temperature, at most `most` in each."""
    alike = groupby(range(len(call.seeds)), key=call.temperatures.__getitem__)
    runs = [list(run) for _, run in alike]
    return [run[start : start + most] for run in runs for start in range(0, len(run), most)]


def retry_after(value: str | None) -> float | None:
    """Seconds that a `Retry-After` header asks for: a number, or a date of HTTP; None when there is none to read."""
    if value is None:
        return None
    try:
        return max(0.0, float(value)) if float(value) < float("inf") else None
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
