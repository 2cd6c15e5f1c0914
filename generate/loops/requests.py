"""What a loop asks for, what it is answered, and the rows that it gives.

A loop is a generator of one example. It yields requests and is sent their answers: an `Ask` gives a tuple of
completions, a `Search` gives `Results`, a `Score` or a `Verify` gives `Scores`, a `Read` gives an answer, `Passages`
and `Neighbours` give what a corpus has, a `Hear` a text as far as it is revealed, a `Together` what each of its loops
returned. It yields its rows, too, or returns them. It keeps no state elsewhere and draws no number but from its seed,
since a run that goes on sends it the same answers again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from generate.engines.base import Completion, Prompt

Steps = Generator[Any, Any, Any]
"""A loop on its way: it yields requests and rows, and is sent answers."""


@dataclass(frozen=True)
class Ask:
    """A request to a language model for `n` samples of a prompt. engine: a table of `[engines]`; by default the loop's
    own. The other fields are those of a step. Its answer: a tuple of completions.
    """

    prompt: Prompt
    max_tokens: int
    n: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    logprobs: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)
    engine: str | None = None


@dataclass(frozen=True)
class Search:
    """A request for the passages, at most `top`, that a table of `[search]` has for a query. texts: whether its answer
    has their texts, too. Its answer: Results.
    """

    query: str
    index: str
    top: int = 10
    texts: bool = True


@dataclass(frozen=True)
class Passages:
    """A request for the passages of some ids, from a corpus: a table of `[search]` of kind `passages`. Its answer: a
    tuple of texts, `title: text`; with `partial`, without those that the corpus lacks. It costs nothing.
    """

    ids: tuple[str, ...]
    index: str
    partial: bool = False


@dataclass(frozen=True)
class Neighbours:
    """A request for the passages of a corpus, at most `top`, that are nearest to each of some. Its answer: for each
    passage a tuple of ids, nearest first. It costs nothing.
    """

    ids: tuple[str, ...]
    index: str
    top: int = 10


@dataclass(frozen=True)
class Score:
    """A request for the score of each text, or pair of texts, by a table of `[score]`. Its answer: Scores."""

    texts: tuple[str | tuple[str, str], ...]
    model: str


@dataclass(frozen=True)
class Verify:
    """A request for the score of a trace, of which a verifier sees text and answer. verifier: a table of `[score]`. Its
    answer: Scores, of one value.
    """

    text: str
    verifier: str
    answer: str | None = None


@dataclass(frozen=True)
class Read:
    """A request for the answer of a text, by the recipe's `[answers]`. cut: whether a limit cut the text off. Its
    answer: the normal form, None where none can be read. It costs nothing.
    """

    text: str | None
    cut: bool = False


@dataclass(frozen=True)
class Hear:
    """A request for the example's text up to `more` words after the first `after`, or, without a number, up to the next
    end of a sentence. Its answer: the text so far, which has no further words where it has ended. It costs nothing.
    """

    after: int
    more: int | None = None


@dataclass(frozen=True)
class Together:
    """Loops that run side by side. Its answer: a list of what each returned; None for one that a refusal ended."""

    loops: Sequence[Steps]


@dataclass(frozen=True)
class Scores:
    """The scores of some texts, in their order; None for one without a score. calls: of language models."""

    values: tuple[float | None, ...]
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    latency_s: float = 0.0
    device_s: float | None = 0.0
    calls: int = 0

    @property
    def value(self) -> float | None:
        """The first score."""
        return self.values[0]


@dataclass(frozen=True)
class Results:
    """The passages of a search, best first: their texts, ids and scores."""

    texts: tuple[str, ...]
    ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    latency_s: float = 0.0
    device_s: float | None = 0.0
    calls: int = 0


Paid = Completion | Scores | Results
"""What a row may have cost."""


@dataclass(frozen=True)
class Trace:
    """A row of `traces`. paid: what it cost, whose tokens and seconds are added up; the last completion among these
    tells how it ended, unless `finish_reason` does. Its answer is read by the recipe's `[answers]`, from `read` where
    that is given, else from the text; read_whole: a limit that cut off the text left `read` as it is. verified: scores
    by verifier, which become rows of `verifications` with their own costs. columns: further columns.
    """

    text: str
    paid: tuple[Paid, ...]
    reasoning: str | None = None
    read: str | None = None
    read_whole: bool = False
    finish_reason: str | None = None
    verified: Mapping[str, Scores] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A row of another table of the log, such as `rounds` or `checks`; example and pool are filled in, and from `paid`
    calls, tokens and seconds.
    """

    table: str
    columns: Mapping[str, Any]
    paid: tuple[Paid, ...] = ()


class RefusedError(Exception):
    """An answer that a loop does not get, since an engine refused its request for good. A loop that does not catch it
    ends here; the rows that it has yielded are written.
    """


@dataclass(frozen=True)
class Example:
    """What a loop sees of its example. fields: the columns, as prompts show them; seed: an integer of 31 bits for
    numbers that it draws; traces, rounds: rows of the log that is added to (`generate --on`), of the pools that the
    loop's `of` names; gold_documents: of the example; claim_labels: of its claims, where these are annotated.
    """

    name: str
    fields: Mapping[str, str]
    seed: int
    render: Callable[[str, Mapping[str, str]], Prompt] = field(repr=False)
    traces: tuple[Mapping[str, Any], ...] = ()
    rounds: tuple[Mapping[str, Any], ...] = ()
    gold_documents: tuple[str, ...] = ()
    claim_labels: Mapping[str, str] = field(default_factory=dict)

    def prompt(self, file: str, **fields: str) -> Prompt:
        """The prompt that a prompt file makes of the example, with these further fields."""
        return self.render(file, {**self.fields, **fields})


def count_calls(paid: Sequence[Paid]) -> int:
    """The calls of language models among some answers."""
    return sum(getattr(one, "calls", 1) for one in paid)
