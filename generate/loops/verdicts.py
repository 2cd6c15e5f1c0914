"""What a model that checks facts is asked to search for, and what its replies say: verdict, confidence, claims."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from generate.engines.base import Completion
from generate.loops.requests import Ask, Example, Steps

NOT_ENOUGH = "not_enough"
VERDICTS: Mapping[str, str] = {
    "not enough": NOT_ENOUGH, "insufficient": NOT_ENOUGH, "unknown": NOT_ENOUGH, "incorrect": "refuted",
    "refuted": "refuted", "false": "refuted", "correct": "supported", "supported": "supported", "true": "supported",
}  # fmt: skip
"""The words of a reply that tell its verdict: the first one that stands in it counts."""
_VERDICT = re.compile(rf"(?<!\w)({'|'.join(VERDICTS)})(?!\w)", re.IGNORECASE)
_CONFIDENCE = re.compile(r"confidence\W{0,3}(?:is\W)?\s*([01](?:\.\d+)?|\.\d+|\d+(?:\.\d+)?\s*%)", re.IGNORECASE)
NO_CLAIMS = ("null", "none", "stop")
"""Replies of an extractor that names no claim."""
TOKEN, STATED = "token", "stated"
CONFIDENCES = (TOKEN, STATED)
"""What the confidence of a verdict is: the probability of the reply's first token, or what the reply says."""


def write_query(example: Example, file: str | None, claim: str, max_tokens: int, engine: str | None) -> Steps:
    """The query for a claim that a model writes by a prompt file, with what it cost; the claim itself without a file,
    or where the model writes none.
    """
    if file is None:
        return claim, ()
    (reply,) = yield Ask(example.prompt(file, claim=claim), max_tokens, engine=engine)
    return next(iter(reply.text.strip().splitlines()), "") or claim, (reply,)


def verdict_of(text: str) -> str:
    """The verdict of a checker's reply: that of its first word of `VERDICTS`; `not_enough` where it has none."""
    match = _VERDICT.search(text)
    return NOT_ENOUGH if match is None else VERDICTS[match[1].lower()]


def stated_confidence(text: str) -> float | None:
    """The confidence that a reply states, as `Confidence: 0.8` or `confidence 80 %`, from 0 to 1; None without one."""
    match = _CONFIDENCE.search(text)
    if match is None:
        return None
    value = float(match[1].rstrip("% ")) / (100 if match[1].endswith("%") else 1)
    return value if 0 <= value <= 1 else None


def confidence_of(reply: Completion, way: str) -> float | None:
    """The confidence of a reply's verdict, by one of `CONFIDENCES`; None where it is not known, as of thoughts."""
    if way == STATED:
        return stated_confidence(reply.text)
    values = reply.token_logprobs
    return None if values is None or not len(values) or reply.reasoning else math.exp(values[0])


def claims_of(text: str) -> list[str]:
    """The claims of a reply, one a line, without list marks; empty where it says that there is none."""
    lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line and line.strip(" .\"'").lower() not in NO_CLAIMS]
