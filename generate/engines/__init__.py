"""Engines run models behind one small interface. Importing this package loads no torch and no HTTP client."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from generate.engines.base import (
    Call,
    CallFailure,
    Completion,
    Engine,
    EngineError,
    EngineOptions,
    Message,
    Outcome,
    Prompt,
    read_settings,
)
from toolkit.errors import suggest

ENGINES: Mapping[str, str] = {
    "transformers": "generate.engines.hf:TransformersEngine",
    "openai": "generate.engines.openai:OpenAIEngine",
    "vllm": "generate.engines.vllm:VllmEngine",
}
"""Each engine's class, loaded when it is needed: `options` is the dataclass of its settings, `opened` makes it."""

__all__ = [
    "ENGINES", "Call", "CallFailure", "Completion", "Engine", "EngineError", "EngineOptions", "Message", "Outcome",
    "Prompt", "open_engine", "read_settings", "settings_of",
]  # fmt: skip


def settings_of(name: str) -> type[EngineOptions]:
    """The dataclass of an engine's settings; neither the engine's packages nor a model are loaded for it."""
    return _engine_class(name).options


def open_engine(name: str, settings: Mapping[str, Any]) -> Engine:
    """The engine called `name` with the settings of its own dataclass; the model is loaded here.

    Raises EngineError for an unknown name or setting, a missing package, model or key.
    """
    kind = _engine_class(name)
    return kind.opened(read_settings(kind.options, settings, name))


def _engine_class(name: str) -> Any:
    if name not in ENGINES:
        raise EngineError(f"unknown engine `{name}`; {suggest(name, ENGINES)}", code="unknown")
    module, _, cls = ENGINES[name].partition(":")
    return getattr(import_module(module), cls)
