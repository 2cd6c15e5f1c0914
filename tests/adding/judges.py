"""A judge without weights that runs in this process: what it says follows from the prompt, the seed and a rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from generate.engines.base import Call, CallFailure, Completion, Outcome


class Judge:
    """Says what `rule` makes of a call; a CallFailure is a failure. `asked` holds the calls in order."""

    name, model = "rule", "rule"

    def __init__(self, rule: Callable[[Call], str | CallFailure]):
        self.rule, self.asked = rule, []

    def describe(self) -> dict[str, object]:
        return {"device": "cpu"}

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        for call in calls:
            self.asked.append(call)
            said = self.rule(call)
            yield call, said if isinstance(said, CallFailure) else (completion(call, said),)

    def close(self) -> None:
        pass


def completion(call: Call, text: str) -> Completion:
    return Completion(
        text=text, token_ids=None, token_logprobs=None, sum_logprob=None, prompt_tokens=len(str(call.prompt)),
        completion_tokens=len(text), tokens_estimated=False, finish_reason="stop", latency_s=0.5, device_s=0.25,
    )  # fmt: skip


def right(prompt: str) -> bool:
    """Whether the sum in a prompt is the one that its attempt ends in."""
    first, second = map(int, re.findall(r"(\d+) \+ (\d+)", prompt)[0])
    return int(re.findall(r"\d+", prompt.rsplit("\n", 1)[0])[-1]) == first + second


def in_json(call: Call) -> str:
    """A score in JSON: 1 or 0.25, unreadable at the first try where the question begins with a 2."""
    if call.prompt.startswith("sum: 2 ") and call.key.endswith("/0"):
        return "let me think"
    return f'so {{"score": {1.0 if right(call.prompt) else 0.25}}}'
