"""Budget forcing (s1, Muennighoff et al. 2025): a model that stops is told to wait, and goes on."""

from __future__ import annotations

from dataclasses import dataclass

from generate.engines.thoughts import CLOSE, OPEN
from generate.loops.loop import Loop, continued_prompt
from generate.loops.requests import Ask, Example, Steps, Trace
from toolkit.settings import setting
from toolkit.stopping.prefix import prefix_of_one
from toolkit.stopping.stops import Budget, StopRule


@dataclass(frozen=True, kw_only=True)
class Forcing(Loop):
    """Budget forcing: `word` is put behind what was written, `waits` times, or until `budget` completion tokens are
    spent. Where the model thinks, its thoughts go on: `</think>` and what it said after it are stripped.

    Each version is a trace: sample k has k waits behind it, and costs what it adds.
    """

    waits: int = setting(1, low=0)
    budget: int | None = setting(None, low=1)
    word: str = setting("Wait")

    kind = "forcing"
    ordered = True

    def run(self, example: Example) -> Steps:
        prompt, text, thoughts, spent = example.prompt(self.prompt), "", "", 0
        for _ in range(self.waits + 1):
            written = OPEN + thoughts if thoughts else text
            (reply,) = yield Ask(continued_prompt(prompt, written), self.max_tokens, temperature=self.temperature)
            thoughts += reply.reasoning or ""
            text = reply.text if thoughts else text + reply.text
            yield Trace(text, (reply,), reasoning=thoughts or None)
            spent += reply.completion_tokens or 0
            if self.stop is not None and self.stop.holds(prefix_of_one(completion_tokens=[spent]))[0, -1]:
                return
            if thoughts:
                thoughts = f"{thoughts.removesuffix(CLOSE).rstrip()}\n{self.word}"
            else:
                text = f"{text.rstrip()}\n{self.word}"

    @property
    def most_requests(self) -> int:
        return self.waits + 1

    @property
    def most_traces(self) -> int:
        return self.waits + 1

    @property
    def stop(self) -> StopRule | None:
        return None if self.budget is None else Budget(completion_tokens=self.budget)
