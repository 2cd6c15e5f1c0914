"""Text that is revealed word by word: its words, its sentences, and the names in them.

Words are what stands between white space; the first is word 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from toolkit.errors import InvalidError, quote

SENTENCES, END = "sentences", "end"
MOST_WORDS = 2**31
MOST_POSITIONS = 2_000
"""Positions of a text at which a model is asked, as bounds of requests have it where the texts are not known."""
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]*$")
_FUNCTION_WORDS = frozenset((
    "A", "An", "And", "As", "At", "But", "By", "For", "From", "He", "Her", "His", "I", "In", "It", "Its", "No", "Not",
    "Of", "On", "One", "Or", "She", "So", "That", "The", "Their", "There", "These", "They", "This", "Those", "To", "We",
    "When", "Where", "Which", "Who", "With", "You",
))  # fmt: skip


def read_every(given: Any, place: str) -> str | int:
    """The places where a text stops to ask a model: after so many words each, at the ends of `sentences`, at its `end`.
    InvalidError where a setting is none of these.
    """
    if given in (SENTENCES, END) or (isinstance(given, int) and not isinstance(given, bool) and given >= 1):
        checked: str | int = given
        return checked
    raise InvalidError(f"`{place}` is {quote(given)}; it takes a number of words from 1 on, `{SENTENCES}` or `{END}`")


def words_ahead(every: str | int) -> int | None:
    """How many words are heard before a model is asked; None up to the end of a sentence."""
    return None if every == SENTENCES else MOST_WORDS if every == END else int(every)


def ends_sentence(word: str) -> bool:
    """Whether a word is the last of a sentence."""
    return _SENTENCE_END.search(word) is not None


@dataclass(frozen=True)
class UnfoldingText:
    """A text with the places of its words."""

    text: str

    @cached_property
    def word_ends(self) -> tuple[int, ...]:
        """The end of each word, in characters."""
        return tuple(match.end() for match in re.finditer(r"\S+", self.text))

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of the text."""
        return tuple(self.text.split())

    def revealed(self, position: int) -> str:
        """The text up to so many words."""
        return self.text[: self.word_ends[position - 1]] if position else ""

    def next_position(self, after: int, more: int | None) -> int:
        """The number of the word up to which the text is revealed next: `more` words after the first `after`, or the
        end of a sentence; the last one where there are fewer.
        """
        if more is not None:
            return min(after + more, len(self.words))
        return next((last for last in self.last_word_numbers if last > after), len(self.words))

    @cached_property
    def last_word_numbers(self) -> tuple[int, ...]:
        """The number of the last word of each sentence; a text without an end of a sentence is one."""
        ends = [number for number, word in enumerate(self.words, 1) if ends_sentence(word)]
        return (*ends, *([len(self.words)] if self.words and ends[-1:] != [len(self.words)] else []))

    def sentence_of(self, position: int) -> int:
        """The number, from 0, of the sentence in which a word stands."""
        return sum(last < position for last in self.last_word_numbers)

    def sentence(self, number: int) -> str:
        """The words of a sentence."""
        first = self.last_word_numbers[number - 1] if number else 0
        return " ".join(self.words[first : self.last_word_numbers[number]])

    def begun_sentence(self, position: int) -> str:
        """The words, up to one, of the sentence in which this one stands."""
        number = self.sentence_of(position)
        return " ".join(self.words[self.last_word_numbers[number - 1] if number else 0 : position])


def most_positions(texts: Iterable[str], every: str | int) -> int:
    """The most positions of one of some texts at which a model is asked; 1 where no text has a word."""
    unfolding = map(UnfoldingText, texts)
    if every == SENTENCES:
        counts = (len(one.last_word_numbers) for one in unfolding)
    else:
        ahead = words_ahead(every)
        counts = (-(-len(one.words) // (ahead or 1)) for one in unfolding)
    return max(counts, default=0) or 1


def count_names(words: Sequence[str]) -> int:
    """How many names some words hold: runs of words with a capital, without function words at their start."""
    count, inside = 0, False
    for word in words:
        bare = word.strip("\"'“”‘’«»()[],;:.!?")
        capital = bare[:1].isupper() and (inside or bare not in _FUNCTION_WORDS)
        count += capital and not inside
        inside = capital and word[-1] not in ",;:.!?"
    return count
