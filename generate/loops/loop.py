"""The base of loops: a frozen dataclass of settings, whose `run` is a generator of one example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from generate.engines.base import Message, Prompt
from generate.loops.requests import Example, Steps
from toolkit.log import Log
from toolkit.settings import Checked, flatten, setting
from toolkit.stopping.stops import StopRule

PromptFields = tuple[str, ...] | Mapping[str, tuple[str, ...]]
"""Names of fields that a loop fills in its prompts: in all of them, or by the setting that names the file."""


@dataclass(frozen=True, kw_only=True)
class Loop(Checked, ABC):
    """A loop that ships. Settings whose name is or ends in `prompt` name prompt files. max_tokens: of each request."""

    prompt: str = setting()
    max_tokens: int = setting(low=1)
    temperature: float = setting(0.0, low=0, high=5)

    kind: ClassVar[str]
    """The kind's name in recipes."""
    prefix: ClassVar[bool] = True
    """Whether the first traces are those that fewer would have been."""
    ordered: ClassVar[bool] = False
    """Whether each trace goes on from the one before it, so that they have one order."""
    table: ClassVar[str] = "traces"
    """The table of the log that its rows are of."""
    unfolds: ClassVar[bool] = False
    """Whether it hears texts word by word, so that the log needs the `length` of each."""
    prompt_fields: ClassVar[PromptFields] = ()
    """What its prompts may name beside the columns of examples: all of them, or by setting."""

    @abstractmethod
    def run(self, example: Example) -> Steps:
        """Yields requests and rows of one example."""

    @property
    @abstractmethod
    def most_requests(self) -> int:
        """The most requests of an example."""

    @property
    def needs_log(self) -> bool:
        """Whether it reads rows of a log that is added to."""
        return False

    def on_log(self, log: Log, pools: Sequence[str]) -> Self:
        """The loop with what only a log tells of the pools that it reads. ThinkbackError where these do not fit."""
        return self

    def on_texts(self, texts: Sequence[str]) -> Self:
        """The loop with what only the questions of the examples tell."""
        return self

    @property
    def most_traces(self) -> int:
        """The most traces of an example."""
        return 1

    @property
    def stop(self) -> StopRule | None:
        """The rule by which it ends its own traces; None where their number is fixed."""
        return None

    @property
    def stopped(self) -> Mapping[str, Any] | None:
        """The rule with its settings, as the manifest has it."""
        if (stop := self.stop) is None:
            return None
        given = ((field, getattr(stop, field.name)) for field in fields(stop))  # type: ignore[arg-type]
        return {"rule": stop.name} | {one.name: value for one, value in given if value != one.default}


def prompts_of(loop: Any) -> dict[str, str]:
    """The prompt files that a loop's settings name, by setting."""
    names = (name for name in vars(loop) if name == "prompt" or name.endswith("_prompt"))
    return {name: file for name in names if isinstance(file := getattr(loop, name), str)}


def prompt_fields_of(loop: Any, setting: str) -> tuple[str, ...]:
    """The fields that a setting's prompt may have beside the columns of examples."""
    fields: PromptFields = getattr(loop, "prompt_fields", ())
    return tuple(fields.get(setting, ()) if isinstance(fields, Mapping) else fields)


def stop_record_of(loop: Any, rule: str) -> Mapping[str, Any] | None:
    """The manifest's record of how a loop ends its traces; a user's loop itself, unless it says otherwise."""
    if hasattr(type(loop), "stopped"):
        stopped: Mapping[str, Any] | None = loop.stopped
        return stopped
    return {"rule": rule, **flatten(loop)}


def continued_prompt(prompt: Prompt, text: str) -> Prompt:
    """A prompt that is answered so far by a text, which the model goes on with."""
    if isinstance(prompt, str) or not text:
        return prompt + text if isinstance(prompt, str) else prompt
    if prompt[-1].role == "assistant":
        return (*prompt[:-1], Message("assistant", prompt[-1].content + text))
    return (*prompt, Message("assistant", text))
