"""Revision until a verifier is content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from generate.loops.loop import Loop, PromptFields
from generate.loops.requests import Ask, Example, Read, Steps, Trace, Verify
from toolkit.settings import setting
from toolkit.stopping.prefix import prefix_of_one
from toolkit.stopping.stops import AtLeast, StopRule


@dataclass(frozen=True, kw_only=True)
class Revising(Loop):
    """Revision until a verifier's score is at least `content`, at most `revisions` times; without `content` always so
    often. `revise_prompt` sees the last version as `{{attempt}}`, with its `{{answer}}` and its `{{score}}`.

    Each version is a trace, which costs what it adds, with its score; one without an answer has none.
    """

    revise_prompt: str = setting()
    verifier: str = setting()
    content: float | None = setting(None)
    revisions: int = setting(3, low=1)

    kind = "revise"
    ordered = True
    prompt_fields: ClassVar[PromptFields] = {"revise_prompt": ("attempt", "answer", "score", "reasoning")}

    def run(self, example: Example) -> Steps:
        prompt, values = example.prompt(self.prompt), list[float | None]()
        for _ in range(self.revisions + 1):
            (reply,) = yield Ask(prompt, self.max_tokens, temperature=self.temperature)
            answer = yield Read(reply.text, reply.finish_reason == "length")
            value = None
            if answer is None:
                yield Trace(reply.text, (reply,), reasoning=reply.reasoning)
            else:
                scores = yield Verify(reply.text, self.verifier, answer)
                yield Trace(reply.text, (reply,), reasoning=reply.reasoning, verified={self.verifier: scores})
                value = scores.value
            values.append(value)
            if self.stop is not None and self.stop.holds(prefix_of_one(last_score=values))[0, -1]:
                return
            score = "" if value is None else f"{value:g}"
            seen = {"attempt": reply.text, "answer": answer or "", "score": score, "reasoning": reply.reasoning or ""}
            prompt = example.prompt(self.revise_prompt, **seen)

    @property
    def most_requests(self) -> int:
        return 2 * (self.revisions + 1)

    @property
    def most_traces(self) -> int:
        return self.revisions + 1

    @property
    def stop(self) -> StopRule | None:
        return None if self.content is None else AtLeast(self.content, self.verifier)
