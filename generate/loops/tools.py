"""Tools: a model that writes a call gets its result into the text, and goes on."""

from __future__ import annotations

from dataclasses import dataclass

from generate.loops.loop import Loop, continued_prompt
from generate.loops.requests import Ask, Example, Paid, Search, Steps, Together, Trace
from toolkit.settings import setting


@dataclass(frozen=True, kw_only=True)
class Tools(Loop):
    """Tools by name, each a table of `[search]`: what stands between `<NAME>` and `</NAME>` is its input, and what it
    gives stands between `<result>` and `</result>` behind that, at most `calls` times in one text. The answer is read
    from what follows the last result. samples: texts of each example, side by side.
    """

    tools: tuple[str, ...] = setting()
    calls: int = setting(4, low=1)
    top: int = setting(3, low=1)
    samples: int = setting(1, low=1)

    kind = "tools"

    def run(self, example: Example) -> Steps:
        yield Together([self._run_tools(example) for _ in range(self.samples)])

    def _run_tools(self, example: Example) -> Steps:
        prompt, text, part, paid = example.prompt(self.prompt), "", "", list[Paid]()
        ends = tuple(f"</{name}>" for name in self.tools)
        for _ in range(self.calls + 1):
            request = Ask(continued_prompt(prompt, text), self.max_tokens, temperature=self.temperature, stop=ends)
            (reply,) = yield request
            part, paid = reply.text, [*paid, reply]
            text += part
            called = [(part.rfind(f"<{name}>"), name) for name in self.tools]
            place, name = max(called)
            if place < 0 or len(paid) > 2 * self.calls:
                break
            results = yield Search(part[place + len(name) + 2 :].strip(), name, self.top)
            paid.append(results)
            text += f"</{name}>\n<result>\n" + "\n".join(results.texts) + "\n</result>\n"
        yield Trace(text, tuple(paid), read=part, columns={"searches": len(paid) // 2})

    @property
    def most_requests(self) -> int:
        return self.samples * (2 * self.calls + 1)

    @property
    def most_traces(self) -> int:
        return self.samples
