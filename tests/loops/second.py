"""Loops of a user's that read a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from generate.loops import Ask, Trace


@dataclass(frozen=True)
class Reader:
    """Asks once, with the texts that the log has of the example, and the documents of its rounds."""

    prompt: str
    prompt_fields: ClassVar = ("texts",)

    def run(self, example):
        texts = [row["text"] for row in example.traces]
        texts += [name for row in example.rounds for name in row["documents"]]
        (reply,) = yield Ask(example.prompt(self.prompt, texts="; ".join(texts)), 20)
        yield Trace(reply.text, (reply,))
