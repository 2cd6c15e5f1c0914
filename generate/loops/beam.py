"""A beam over steps: texts grow step by step, and the best by a score go on."""

from __future__ import annotations

from dataclasses import dataclass

from generate.engines.base import Completion
from generate.loops.loop import Loop, continued_prompt
from generate.loops.requests import Ask, Example, Paid, Score, Steps, Together, Trace
from toolkit.settings import setting


@dataclass(frozen=True)
class _BeamText:
    """A text so far. calls: what was written for it; done: whether it has ended."""

    text: str
    calls: tuple[Completion, ...] = ()
    done: bool = False


@dataclass(frozen=True, kw_only=True)
class Beam(Loop):
    """A beam over steps: each of `width` texts gets `expand` next steps, a step ends at the text `step`, and of all the
    `width` best by the score of the text so far go on, ties to the earlier one. A text has ended at an empty step, or
    at one that has `end` in it; after `steps` all have.

    The traces are the last texts, best first; the first of them pays for all that was asked.
    """

    scorer: str = setting()
    width: int = setting(4, low=1)
    expand: int = setting(4, low=1)
    steps: int = setting(8, low=1)
    step: str = setting("\n")
    end: str | None = setting(None)
    temperature: float = setting(0.7, low=0, high=5)

    kind = "beam"
    prefix = False

    def run(self, example: Example) -> Steps:
        beam, paid = [_BeamText("")], list[Paid]()
        values: tuple[float | None, ...] = (None,)
        for _ in range(self.steps):
            if all(one.done for one in beam):
                break
            grown = yield Together([self._with_next_steps(example, one) for one in beam])
            texts = [one for parts in grown for one in parts or ()]
            paid += [one.calls[-1] for before, parts in zip(beam, grown, strict=True) if not before.done
                     for one in parts or ()]  # fmt: skip
            scores = yield Score(tuple(text.text for text in texts), self.scorer)
            paid.append(scores)
            ranked = sorted(range(len(texts)), key=lambda i: -_score_or_lowest(scores.values[i]))[: self.width]
            beam, values = [texts[i] for i in ranked], tuple(scores.values[i] for i in ranked)
        for place, (one, value) in enumerate(zip(beam, values, strict=True)):
            calls = tuple(paid) if place == 0 else ()
            ended = one.calls[-1].finish_reason if one.calls else None
            yield Trace(one.text, calls, finish_reason=ended, columns={"beam_score": value})

    def _with_next_steps(self, example: Example, before: _BeamText) -> Steps:
        if before.done:
            return [before]
        prompt = continued_prompt(example.prompt(self.prompt), before.text)
        replies = yield Ask(prompt, self.max_tokens, self.expand, self.temperature, stop=(self.step,))
        return [
            _BeamText(
                before.text + reply.text + self.step * bool(reply.text),
                (*before.calls, reply),
                self._is_complete(reply.text),
            )
            for reply in replies
        ]

    def _is_complete(self, text: str) -> bool:
        return not text.strip() or (self.end is not None and self.end in text)

    @property
    def most_requests(self) -> int:
        return self.steps * (self.width + 1)

    @property
    def most_traces(self) -> int:
        return self.width


def _score_or_lowest(score: float | None) -> float:
    return float("-inf") if score is None else score
