"""What a model that checks facts is asked to search for, and what its replies say: verdict, confidence, claims."""

from __future__ import annotations

import math
import re

from generate.engines.base import Completion
from generate.loops.requests import Ask, Example, Steps

SUPPORTED, REFUTED, NOT_ENOUGH = "supported", "refuted", "not_enough"
_NEGATION = r"(?:not|never|cannot|(?:[a-z]+n['’]t))[\s_-]+(?:[a-z]+\s+){0,2}"
_VERDICTS = (
    (r"not[\s_-]+enough|insufficient|unknown|unclear|inconclusive|unsupported|unverifi(?:ed|able)", NOT_ENOUGH),
    (rf"{_NEGATION}(?:correct|true|accurate)", REFUTED),
    (rf"{_NEGATION}(?:incorrect|false|wrong)", SUPPORTED),
    (rf"{_NEGATION}(?:support(?:s|ed)?|confirm(?:s|ed)?|verif(?:y|ied)|refute[sd]?|contradict(?:s|ed)?)", NOT_ENOUGH),
    (r"incorrect|inaccurate|false|untrue|wrong|refute[sd]?|contradict(?:s|ed)?", REFUTED),
    (r"correct|true|accurate|support(?:s|ed)?|confirm(?:s|ed)?|verified", SUPPORTED),
)  # fmt: skip
"""Words of a reply and their verdict: those that stand first in it count, of several at one place the upper ones."""
_VERDICT = re.compile(rf"(?<!\w)(?:{'|'.join(f'({words})' for words, _ in _VERDICTS)})(?!\w)", re.IGNORECASE)
_OPEN_QUESTION = re.compile(r"\b(?:whether|if)\b[^.;:,!?\n]*", re.IGNORECASE)
_CONFIDENCE = re.compile(r"confidence[^\d\n]{0,20}?(\d+(?:\.\d+)?|\.\d+)(?!\.?\d)\s*(%|per ?cent\b|/)?", re.IGNORECASE)
_NO_CLAIM = re.compile(
    r"\W*(?:null|none|stop|n/a|(?:there (?:is|are) )?(?:none|no (?:(?:further|more|other|new) )?claims?"
    r"(?: (?:to|in|that|left)\b.*)?))\W*(?:$|(?<=[^\w\s]).*)", re.IGNORECASE,
)  # fmt: skip
"""A line of an extractor that names no claim; `None of them was …` is one."""
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


def _first_verdict(text: str) -> re.Match[str] | None:
    """The words of a reply that tell its verdict. What stands behind `whether` is not said of the claim."""
    return _VERDICT.search(_OPEN_QUESTION.sub(lambda match: " " * len(match[0]), text))


def verdict_of(text: str) -> str:
    """The verdict of a checker's reply, by its first words of `_VERDICTS`; `not_enough` where it has none."""
    match = _first_verdict(text)
    return NOT_ENOUGH if match is None else _VERDICTS[(match.lastindex or 1) - 1][1]


def stated_confidence(text: str) -> float | None:
    """The confidence that a reply states, as `Confidence: 0.8` or `confidence 80 %`, from 0 to 1; None without one, and
    where it is of another scale, as 7 or 7/10.
    """
    match = _CONFIDENCE.search(text)
    if match is None or match[2] == "/":
        return None
    value = float(match[1]) / (100 if match[2] else 1)
    return value if 0 <= value <= 1 else None


def confidence_of(reply: Completion, way: str) -> float | None:
    """The confidence of a reply's verdict, by one of `CONFIDENCES`; None where it is not known: of a reply without a
    verdict, and of its first token where that is a thought's, or the reply does not begin with the verdict.
    """
    match, values = _first_verdict(reply.text), reply.token_logprobs
    if match is None:
        return None
    if way == STATED:
        return stated_confidence(reply.text)
    known = values is not None and len(values) and not reply.reasoning and match.start() == 0
    return math.exp(values[0]) if known and values is not None else None


def claims_of(text: str) -> list[str]:
    """The claims of a reply, one a line, without marks of lists and of emphasis; empty where its first line says that
    there is none.
    """
    lines = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip(" \t\r*`") for line in text.splitlines()]
    named = [None if _NO_CLAIM.fullmatch(line) else line for line in lines if line]
    return [] if named[:1] == [None] else [line for line in named if line is not None]
