"""Verdicts on a text as a whole, or on a growing part of it that is asked about again and again.

What DIVER is compared with (its sections 3.1 and 3.6): a model alone, a model that reads what a search gives, and
either of them while the text unfolds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from generate.loops.loop import Loop, PromptFields
from generate.loops.requests import Ask, Example, Hear, Paid, Scores, Search, Steps, Trace
from generate.loops.unfolding import END, MOST_POSITIONS, most_positions, read_every, words_ahead
from generate.loops.verdicts import CONFIDENCES, TOKEN, confidence_of, verdict_of, write_query
from toolkit.errors import ConflictError
from toolkit.log.contract.schema import TEXT_LABELS
from toolkit.settings import setting

SUPPORTED, REFUTED = TEXT_LABELS
"""The second is also the verifier that scores how sure a reply is that something in the text is wrong."""


@dataclass(frozen=True, kw_only=True)
class TextVerdicts(Loop):
    """Whether what is revealed of a text is true, asked at its `end`, at every n words, or at the ends of `sentences`:
    a trace each, whose answer is the verdict. Nothing is remembered between them.

    search: what gives `top` passages, for the query of `query_prompt`, else for the text; without it the model answers
    alone. confidence: the probability of the first `token` of the reply, or what the reply has `stated`; a text that
    the reply refutes is scored with it under the verifier `refuted`, one that it supports with 1 minus it.
    """

    search: str | None = setting(None)
    query_prompt: str | None = setting(None)
    every: str | int = setting(END, read=read_every)
    top: int = setting(10, low=1)
    confidence: str = setting(TOKEN, choices=CONFIDENCES)
    query_engine: str | None = setting(None)
    positions: int = setting(MOST_POSITIONS, key=False, identity=False)  # of a text, at most

    kind = "verdict"
    unfolds = True
    most_repeated_tokens: ClassVar[int] = 0  # no prompt holds what another one was answered
    prompt_fields: ClassVar[PromptFields] = {"prompt": ("revealed", "passages"), "query_prompt": ("claim",)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.search is None and self.query_prompt is not None:
            raise ConflictError("`query_prompt` writes a query: name a table of `[search]` as `search`")

    def run(self, example: Example) -> Steps:
        text = yield Hear(0, words_ahead(self.every))
        position = 0
        while len(text.split()) > position:
            position = len(text.split())
            yield (yield from self._verdict(example, text, position))
            if self.every == END:
                return
            text = yield Hear(position, words_ahead(self.every))

    def _verdict(self, example: Example, text: str, position: int) -> Steps:
        """The trace of what is revealed."""
        texts, paid = tuple[str, ...](), tuple[Paid, ...]()
        columns: dict[str, Any] = {} if self.every == END else {"position": position}
        if self.search is not None:
            query, paid = yield from write_query(
                example, self.query_prompt, text.strip(), self.max_tokens, self.query_engine
            )
            results = yield Search(query, self.search, self.top)
            texts, paid = results.texts, (*paid, results)
            columns |= {"documents": list(results.ids)} if results.ids else {}
        prompt = example.prompt(self.prompt, revealed=text, passages="\n\n".join(texts))
        logprobs = self.max_tokens if self.confidence == TOKEN else 0
        (reply,) = yield Ask(prompt, self.max_tokens, temperature=self.temperature, logprobs=logprobs)
        verdict, sure = verdict_of(reply.text), confidence_of(reply, self.confidence)
        sure = 1.0 if sure is None else sure
        score = Scores(({REFUTED: sure, SUPPORTED: 1 - sure}.get(verdict, 0.0),))
        return Trace(
            reply.text, (*paid, reply), read=verdict, read_whole=True, verified={REFUTED: score}, columns=columns
        )

    def on_texts(self, texts: Sequence[str]) -> Self:
        return replace(self, positions=most_positions(texts, self.every))

    @property
    def most_calls(self) -> tuple[int, int]:
        """The requests to a model of an example, and samples of these."""
        calls = self.most_traces * (1 + (self.query_prompt is not None))
        return calls, calls

    @property
    def most_requests(self) -> int:
        return self.most_traces * (1 + (self.query_prompt is not None) + (self.search is not None))

    @property
    def most_traces(self) -> int:
        return 1 if self.every == END else self.positions
