"""Read the answers of OpenAI-compatible servers: both protocols, the dialects, and who counted which tokens.

`usage` counts a whole request. With several samples in one, a sample's completion tokens are the number of its
log-probabilities (or token ids) where they add up to the reported sum. Otherwise the sum is divided in proportion to
the counts of the tokenizer named in the settings, one added for the end of each sample that ended by itself, and marked
estimated; without a sum those counts themselves stand, and without a tokenizer nothing does. What was billed is divided
in proportion to these tokens.

A reply is whole where it has a text, or where its server names a reason for having none: a filter, a tool call, a limit
that hidden thoughts took. Thoughts are told apart under several names, or as parts of the content.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from generate.engines.base import Call, Completion, Prompt, finish_word, split_in_proportion
from generate.engines.thoughts import split_thoughts

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


THINKING = ("thinking", "reasoning", "reasoning_content", "summary")
"""Types of a content's parts that are thoughts, and the keys under which a part has its text, or further parts."""
SPEAKING = ("text", "output_text", "refusal", "content")


class IncompleteAnswer(ValueError):
    """An incomplete answer."""


class UnknownPart(ValueError):
    """A content with a part of a type that is not known."""


class TokenCounter(Protocol):
    """Counts tokens as the model's tokenizer does."""

    def encode(self, prompt: Prompt) -> list[int]:
        """Ids of a prompt as sent."""

    def count_tokens(self, text: str) -> int:
        """Tokens of a text alone."""


@dataclass(frozen=True)
class _ReplyChoice:
    """One sample as the server gave it. logprobs: of all tokens; None: not given, or one of them not told or
    no number."""

    text: str
    reasoning: str | None
    tool_calls: str | None
    finish_reason: str | None
    token_ids: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None
    token_count: int | None  # tokens that the server told one by one


def read_reply(
    payload: Any, call: Call, samples: int, counter: TokenCounter | None, latency_s: float
) -> list[Completion]:
    """The samples of one request's answer, in the order of their `index`.

    Raises IncompleteAnswer when there are fewer than `samples`, or one has neither a text nor a reason for having none,
    and UnknownPart where a content has a part of an unknown type.
    """
    choices = _read_choices(payload, samples)
    usage = _read_usage(payload)
    counts, estimated = _completion_counts(choices, usage.completion_tokens, counter)
    prompt_tokens, alone = usage.prompt_tokens, len(choices) == 1
    bills = (
        [None] * len(choices)
        if usage.cost is None
        else split_in_proportion(usage.cost, [count or 0 for count in counts])
    )
    if prompt_tokens is None and counter is not None:
        prompt_tokens, estimated = len(counter.encode(call.prompt)), True
    return [
        Completion(
            text=choice.text,
            reasoning=choice.reasoning,
            reasoning_tokens=usage.reasoning_tokens if alone or not usage.reasoning_tokens else None,
            cached_tokens=usage.cached_tokens,
            tool_calls=choice.tool_calls,
            cost=bill,
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
        for choice, count, bill in zip(choices, counts, bills, strict=True)
    ]


def _read_choices(payload: Any, samples: int) -> list[_ReplyChoice]:
    if not isinstance(payload, Mapping):
        raise IncompleteAnswer("the reply is not a JSON object")
    if payload.get("error"):
        raise IncompleteAnswer(f"the reply is an error: {error_text(payload)}")
    rows = payload.get("choices")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        message = error_text(payload)
        raise IncompleteAnswer("the reply has no `choices`" + (f": {message}" if message else ""))
    if len(rows) < samples:
        hint = " (a server that ignores `n` needs `samples_per_request = 1`)" if samples > 1 else ""
        raise IncompleteAnswer(f"the reply has {len(rows)} of {samples} samples{hint}")
    return [_read_choice(row) for row in sorted(rows, key=lambda row: row.get("index") or 0)[:samples]]


def _read_choice(row: Mapping[str, Any]) -> _ReplyChoice:
    reason = row.get("finish_reason")
    if reason == "error" or row.get("error"):
        raise IncompleteAnswer("a sample of the reply ended in an error")
    logprobs = _logprobs(row.get("logprobs"))
    ids = row.get("token_ids")
    counted_tokens = len(ids) if ids else len(logprobs) if logprobs is not None else None
    clean = logprobs is not None and all(value is not None and UNLIKELY < value < math.inf for value in logprobs)
    content = _read_content(row)
    return _ReplyChoice(
        text=content.text,
        reasoning=content.reasoning,
        tool_calls=content.tool_calls,
        finish_reason=finish_word(reason),
        token_ids=tuple(ids) if ids else None,
        logprobs=tuple(float(value) for value in logprobs) if clean and logprobs else None,  # type: ignore[arg-type]
        token_count=counted_tokens or None,
    )


@dataclass(frozen=True)
class _Content:
    """What a sample says: its text, its thoughts, and the tools that it wants to have called, as JSON."""

    text: str
    reasoning: str | None = None
    tool_calls: str | None = None


def _read_content(row: Mapping[str, Any]) -> _Content:
    ended = row.get("finish_reason") is not None
    if "text" in row:
        if not isinstance(row["text"], str) and not (ended and row["text"] is None):
            raise IncompleteAnswer("a sample has no text")
        return _Content(row["text"] or "")
    message = row.get("message")
    if not isinstance(message, Mapping):
        raise IncompleteAnswer("a sample has no message")
    text, thoughts = _text_and_thoughts(message.get("content"))
    calls = message.get("tool_calls") or message.get("function_call")
    if text is None and message.get("refusal") is None and not calls and not ended:
        raise IncompleteAnswer("a sample has no text")
    apart = (_text_and_thoughts(message.get(name))[0] for name in ("reasoning", "reasoning_content"))
    reasoning = "".join(thoughts) or next(filter(None, apart), None)
    text = text or str(message.get("refusal") or "")
    if reasoning is not None:  # some servers leave later thoughts in the text
        more, text = split_thoughts(text)
        reasoning = "\n".join(filter(None, (reasoning, more)))
    return _Content(text=text, reasoning=reasoning, tool_calls=json.dumps(calls, ensure_ascii=False) if calls else None)


def _text_and_thoughts(content: Any) -> tuple[str | None, list[str]]:
    """(text, thoughts) of a content, which may be a list of parts; None where there is none."""
    if content is None or isinstance(content, str):
        return content, []
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type", "text") if isinstance(part, Mapping) else "text"
        if kind not in (*THINKING, *SPEAKING):
            raise UnknownPart(f"the reply has a part of type `{kind}`, which is no text")
        inner = part
        if isinstance(part, Mapping):
            inner = next((part[name] for name in (kind, *SPEAKING, *THINKING) if part.get(name) is not None), "")
        text, more = _text_and_thoughts(inner)
        (thoughts if kind in THINKING else texts).append(text or "")
        thoughts += more
    return "".join(texts), thoughts


def _logprobs(value: Any) -> list[float | None] | None:
    """The log-probabilities of tokens, of either protocol."""
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("content"), list):
        return [entry.get("logprob") for entry in value["content"]]
    if isinstance(value.get("token_logprobs"), list):
        return list(value["token_logprobs"])
    return None


@dataclass(frozen=True)
class _Usage:
    """What a server reports of a request; completion and reasoning tokens, and cost, of all its samples."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None


def _read_usage(payload: Mapping[str, Any]) -> _Usage:
    """A server's report of a request's tokens and cost; None for what it does not report."""
    usage = payload.get("usage")
    if not isinstance(usage, Mapping):
        return _Usage()

    def token_count(of: str, name: str) -> int | None:
        part = usage.get(of) if of else usage
        value = part.get(name) if isinstance(part, Mapping) else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    cached: int | None = token_count("prompt_tokens_details", "cached_tokens")
    cost: Any = usage.get("cost")
    priced = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < math.inf
    return _Usage(
        prompt_tokens=token_count("", "prompt_tokens"),
        completion_tokens=token_count("", "completion_tokens"),
        reasoning_tokens=token_count("completion_tokens_details", "reasoning_tokens"),
        cached_tokens=token_count("", "prompt_cache_hit_tokens") if cached is None else cached,
        cost=float(cost) if priced else None,
    )


def _completion_counts(
    choices: Sequence[_ReplyChoice], total: int | None, counter: TokenCounter | None
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
        whole = [counter.count_tokens(choice.text) + (choice.finish_reason == "stop") for choice in choices]
    elif len(whole) < len(counts):
        return [None] * len(choices), False
    return [*(_divide_in_proportion(total, whole) if total is not None else whole)], True


def _divide_in_proportion(total: int, weights: Sequence[int]) -> list[int]:
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


def is_prompt_too_long(message: str) -> bool:
    """Whether a server's refusal speaks of the context's length; where it is not about the limit, of the prompt's."""
    return _LENGTH.search(message) is not None


def is_quota_spent(payload: Any, quotes: bool) -> bool:
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


def is_limit_too_large(message: str) -> bool:
    """Whether a server's refusal is about the limit of the completion: the prompt alone would fit. By its own counts
    of context and prompt where it tells them, else by its words."""
    context, prompt = _CONTEXT.search(message), _PROMPT.search(message)
    if context and prompt:
        return int(prompt.group(1)) < int(context.group(1))
    return _LIMIT.search(message) is not None


def retry_after_seconds(value: str | None) -> float | None:
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
