"""Engines run models behind one small interface. Importing this package loads no torch and no HTTP client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generate.engines.base import (
    Call,
    CallFailure,
    Completion,
    Engine,
    EngineError,
    Message,
    Outcome,
    Prompt,
    read_settings,
)
from toolkit.errors import suggest

ENGINES = ("transformers", "openai", "vllm")

__all__ = [
    "ENGINES",
    "Call",
    "CallFailure",
    "Completion",
    "Engine",
    "EngineError",
    "Message",
    "Outcome",
    "Prompt",
    "open_engine",
    "read_settings",
    "settings_of",
]


def settings_of(name: str) -> type[Any]:
    """The dataclass of an engine's settings; neither the engine's packages nor a model are loaded for it."""
    if name == "transformers":
        from generate.engines.hf import TransformersSettings

        return TransformersSettings
    if name == "openai":
        from generate.engines.openai_settings import OpenAISettings

        return OpenAISettings
    if name == "vllm":
        from generate.engines.vllm import VllmSettings

        return VllmSettings
    raise EngineError(f"there is no engine `{name}`; {suggest(name, ENGINES)}")


def open_engine(name: str, settings: Mapping[str, Any]) -> Engine:
    """The engine called `name` with the settings of its own dataclass; the model is loaded here.

    Raises EngineError for an unknown name or setting, a missing package, model or key.
    """
    if name == "transformers":
        from generate.engines.hf import open_transformers

        return open_transformers(settings)
    if name == "openai":
        from generate.engines.openai import open_openai

        return open_openai(settings)
    if name == "vllm":
        from generate.engines.vllm import open_vllm

        return open_vllm(settings)
    raise EngineError(f"there is no engine `{name}`; {suggest(name, ENGINES)}")
