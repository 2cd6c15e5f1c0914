"""Prompt files: plain text with `{{fields}}`, as one completion prompt or as chat messages.

A file that has a line `[[system]]`, `[[user]]` or `[[assistant]]` is a chat: each such line begins a message. Any
other file is a text that the model completes. In the prompt of a revision the line `[[conversation]]` stands for the
messages that the revised attempt was an answer to. The newline that ends a file does not count; nothing else is
trimmed in a completion, and messages lose the white space around them.

Fields are `{{question}}` and every other column of the examples (a list stands one item a line, behind a hyphen),
`{{labels}}` on one line, `{{examples}}` (few-shot examples), and where they exist `{{attempt}}`, `{{answer}}`,
`{{prompt}}` (of a revised attempt) and `{{tail}}` (of a text that a finalizer reads). A null is an empty text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from generate.engines.base import Message, Prompt
from toolkit.documents import read_text
from toolkit.errors import InvalidError, UnknownError, suggest

PROMPTS = Path(__file__).resolve().parents[1] / "prompts"
PER_MESSAGE = 16
"""Tokens that frame a message of a chat, at most."""

_FIELD = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}")
_ROLE = re.compile(r"^\[\[(system|user|assistant|conversation)\]\][ \t]*$", re.MULTILINE)
_CONVERSATION = "conversation"


@dataclass(frozen=True)
class Template:
    """A prompt file, read. `parts` are its messages (role, text), empty for a completion."""

    name: str
    text: str
    parts: tuple[tuple[str, str], ...]

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The names in double braces, in the order of their first use."""
        return tuple(dict.fromkeys(_FIELD.findall(self.text)))

    @property
    def is_chat(self) -> bool:
        """Whether the file holds chat messages."""
        return bool(self.parts)

    @property
    def quotes_attempt_prompt(self) -> bool:
        """Whether it repeats the revised attempt's prompt or conversation."""
        return "prompt" in self.fields or any(role == _CONVERSATION for role, _ in self.parts)

    @property
    def digest(self) -> str:
        """The identity of the file in a log's settings: its hash."""
        return f"sha256 {hashlib.sha256(self.text.encode()).hexdigest()[:16]}"

    def check_fields(self, known: Iterable[str]) -> None:
        """ThinkbackError where a field has no value."""
        names = tuple(known)
        for field in self.fields:
            if field not in names:
                raise UnknownError(f"prompt `{self.name}`: nothing fills `{{{{{field}}}}}`; {suggest(field, names)}")

    def render(self, values: Mapping[str, str], conversation: Prompt = ()) -> Prompt:
        """The prompt with its fields filled. `conversation` is the revised attempt's prompt."""
        if not self.parts:
            return _fill_fields(self.text, values)
        messages: list[Message] = []
        for role, text in self.parts:
            if role == _CONVERSATION:
                messages += conversation if isinstance(conversation, tuple) else (Message("user", conversation),)
            else:
                messages.append(Message(role, _fill_fields(text, values).strip()))
        return tuple(messages)


def read_template(name: str, folder: Path | None = None) -> Template:
    """The prompt file of a name: beside the recipe (`folder`), else among those shipped."""
    for home in (folder, PROMPTS):
        path = None if home is None else home / name
        if path is not None and path.is_file():
            break
    else:
        shipped = [file.name for file in PROMPTS.glob("*.txt")]
        raise UnknownError(
            f"unknown prompt file `{name}`: neither in the recipe's folder nor included; {suggest(name, shipped)}"
        )
    return parse_template(name, read_text(path, f"prompt `{name}`"))


def read_whole(name: str, path: Path, subject: str) -> Template:
    """A file that is kept as it is, such as a chat template. `subject` is the setting that names it."""
    return Template(name, read_text(path, f"`{subject}` {name}"), ())


def parse_template(name: str, text: str) -> Template:
    """A template from a file's text. ThinkbackError for words before the first message."""
    text = text.removesuffix("\n")
    sections = _ROLE.split(text)
    if len(sections) == 1:
        return Template(name, text, ())
    if sections[0].strip():
        raise InvalidError(f"prompt `{name}`: there is text before the first `[[{sections[1]}]]` line")
    parts = tuple(zip(sections[1::2], sections[2::2], strict=True))
    for role, words in parts:
        if role == _CONVERSATION and words.strip():
            raise InvalidError(
                f"prompt `{name}`: there is text under `[[conversation]]`: begin a message with `[[user]]`"
            )
    return Template(name, text, parts)


def prompt_text(prompt: Prompt) -> str:
    """A prompt as one text: a completion itself, or the words of the last user message of a chat."""
    if isinstance(prompt, str):
        return prompt
    return next((message.content for message in reversed(prompt) if message.role == "user"), "")


def field_texts(row: Mapping[str, Any]) -> dict[str, str]:
    """An example's columns as they stand in prompts."""
    texts = {name: _field_text(value) for name, value in row.items()}
    texts["labels"] = ", ".join(row.get("labels") or ())
    return texts


def _field_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(f"- {item}" for item in value if item is not None)
    return str(value)


def _fill_fields(text: str, values: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda match: values.get(match.group(1), ""), text)
