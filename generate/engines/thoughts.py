"""A reasoning model's thoughts, apart from what it says: from `<think>` to `</think>`, or to the end where a limit cut
them off. Chat templates may write the first tag themselves, so that a text begins within its thoughts.
"""

from __future__ import annotations

from generate.engines.base import Prompt

OPEN, CLOSE = "<think>", "</think>"
TAGGED = "think>"
"""What both tags hold."""


def split_thoughts(text: str, inside: bool = False) -> tuple[str | None, str]:
    """(thoughts, the rest) of a text; thoughts are None where there are none. inside: the text begins within them."""
    if not inside and TAGGED not in text:
        return None, text
    first, close = text.find(OPEN), text.find(CLOSE)
    if max(first, close) < 0 and not inside:
        return None, text
    if inside or (close >= 0 and (first < 0 or close < first)):
        text = OPEN + text
    thoughts, rest = [], []
    while text:
        before, _, after = text.partition(OPEN)
        rest.append(before)
        thought, _, text = after.partition(CLOSE)
        thoughts.append(thought)
    spoken = "".join(rest) if rest[0] else "".join(rest).lstrip("\n")
    return "\n".join(filter(str.strip, thoughts)) or None, spoken


def with_thoughts(thoughts: str | None, text: str) -> str:
    """A text as a model writes it, behind its thoughts; without the rest the thoughts stay open, so that a further text
    goes on with them.
    """
    if thoughts is None:
        return text
    return f"{OPEN}{thoughts}{CLOSE}\n\n{text}" if text else f"{OPEN}{thoughts}"


def ends_in_thoughts(prompt: Prompt) -> bool:
    """Whether a prompt ends within thoughts, so that what is written next goes on with them."""
    text = prompt if isinstance(prompt, str) else prompt[-1].content if prompt[-1].role == "assistant" else ""
    return TAGGED in text and text.rfind(OPEN) > text.rfind(CLOSE)
