"""Traces as a model reads them when it does not write: behind the prompt that each answered, with the end it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from generate.engines.base import Message
from generate.passes.batching import Ids
from generate.passes.reader import Reader, encode, open_reader
from generate.recipes.prompting import Template
from generate.signals.additions import Additions, TeacherForced
from generate.traces.block import Block, stood_before
from generate.traces.pool_prompts import prompts_of_pools, template_of
from generate.traces.sources import chat_of, stopped_pools
from toolkit.log import Log


@dataclass(frozen=True)
class Forced:
    """A model that reads traces. `stopped`: pools whose samples may have ended at a stop text, which no end of sequence
    follows; `ends`: the id that ends an answer to a chat, and one to a text.
    """

    reader: Reader
    step: TeacherForced
    prompts: Mapping[str, Template]
    stopped: frozenset[str]
    ends: Mapping[bool, int | None]

    def ids(self, block: Block, row: Mapping[str, Any]) -> Ids:
        """What the model reads of a trace."""
        prompt = stood_before(template_of(self.prompts), block, row)
        end = self.ends[not isinstance(prompt, str)] if self._ended(row) else None
        return encode(self.reader.tokens, prompt, row["text"] or "", end)

    def describe(self) -> dict[str, object]:
        """The model, what stood before the traces, and what is read as their end."""
        tokens = self.reader.tokens
        chat = {
            "chat_template": getattr(tokens.tokenizer, "chat_template", None),
            "template_options": dict(tokens.template_options),
        }
        return {
            **self.reader.describe(),
            "prompts": {pool: made.text for pool, made in self.prompts.items()},
            "end": {"rule": self.step.end, "stop_texts": sorted(self.stopped), "tokens": list(self.ends.values())},
            **(chat if True in self.ends else {}),
        }

    def _ended(self, row: Mapping[str, Any]) -> bool:
        """Whether the writing model ended the text, as far as the log knows."""
        if self.step.end != "auto":
            return self.step.end == "always" and row["finish_reason"] != "length"
        return row["finish_reason"] == "stop" and row["pool"] not in self.stopped


def open_forced(
    step: TeacherForced, additions: Additions, log: Log, pools: tuple[str, ...], head: str, what: str
) -> Forced:
    """Load the model of a step. Chats are written as the settings say; else, where the model is the one that wrote the
    traces, as its engine wrote them; else by the model's own template.
    """
    prompts = prompts_of_pools(log, pools, step.prompt, step.prompts, additions.prompts)
    model = additions.model(str(step.model))
    reader = open_reader(model, head, step, what)
    template, options = chat_of(log, pools, reader.files)
    if step.chat_template is not None:
        template = additions.prompts[step.chat_template].text
    if template is not None:
        reader.tokens.tokenizer.chat_template = template
    reader.tokens = replace(reader.tokens, template_options={**options, **step.template_options})
    ends = {chat: end_token(reader, chat) for chat in sorted({bool(made.parts) for made in prompts.values()})}
    return Forced(reader, step, prompts, stopped_pools(log), ends)


def end_token(reader: Reader, chat: bool) -> int | None:
    """The id with which the model ends: after a chat what the template writes behind an answer, where the model's own
    settings know it as an end; else the tokenizer's; else the lowest that the settings list.
    """
    own = reader.tokens.end
    known = {i for i in reader.files.end_tokens() if i < len(reader.tokens.tokenizer)}  # a config may be another's
    if chat:
        said = (Message("user", "question"), Message("assistant", "answer"))
        behind = reader.tokens.chat_text(said, whole=True).rpartition("answer")[2]
        ids = reader.tokens.tokenizer(behind, add_special_tokens=False)["input_ids"]
        written = next((i for i in ids if i in known or i == own), None)
        if written is not None:
            return int(written)
    return own if own is not None and (own in known or not known) else min(known, default=None)
