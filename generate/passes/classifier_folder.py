"""The folder of a classifier: a model of Hugging Face's form, or a LoRA adapter beside its base model.

`classifier.json` in it keeps the prompt that it was trained with and how its training went; a reward model of others
has none.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generate.engines.base import EngineError
from generate.engines.weights import ModelFiles, Placing, find_model, first_line, installed, load_network, load_tokens
from generate.passes.reader import Reader, TextReading, open_reader

KEPT = "classifier.json"
ADAPTER = "adapter_config.json"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep back what peft and transformers tell each other's developers: deprecations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def kept(folder: str | Path) -> dict[str, Any]:
    """What `classifier.json` says; empty where there is none. EngineError where it is damaged."""
    path = Path(folder) / KEPT
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise EngineError(f"`{path}` can't be read: {first_line(error)}") from None


def kept_prompt(folder: str | Path) -> str | None:
    """The prompt that a classifier was trained with."""
    text = kept(folder).get("prompt")
    return text if isinstance(text, str) else None


def open_classifier(model: str, settings: TextReading, base: str | None, what: str) -> Reader:
    """Load a classifier: whole, or a base model with its adapter. `base` overrules the adapter's own word for it.

    `what` names who asks, in errors. EngineError where a file, a weight or a package is missing.
    """
    adapter = Path(model) / ADAPTER
    if not adapter.is_file():
        if base is not None:
            raise EngineError(f"{what}: `base` goes with an adapter, and `{Path(model).name}` has no {ADAPTER}")
        return open_reader(model, "sequence", settings, what)
    installed("lora", "peft")
    from peft import PeftModel

    try:
        named = base or json.loads(adapter.read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError) as error:
        raise EngineError(f"`{adapter}` can't be read: {first_line(error)}") from None
    beside = Path(model).resolve().parent / Path(str(named)).name
    place = str(named) if base is not None or not beside.is_dir() else str(beside)
    placing = Placing(settings.device, settings.dtype, settings.load_in_4bit, new_head=True, options={"num_labels": 1})
    under = find_model(
        place, None, download=False, hint=f"it is the base of `{Path(model).name}`: give its folder as `base`"
    )
    trained_on = kept(model).get("base_weights_sha256")
    if trained_on is not None and trained_on != under.weights_sha256():
        raise EngineError(
            f"{what}: the adapter `{Path(model).name}` was trained on other weights than `{under.name}` holds: give the"
            " folder of that model as `base`"
        )
    network = load_network(under, "sequence", placing, what)
    try:
        with quiet():
            with_adapter = PeftModel.from_pretrained(network, model, local_files_only=True)
    except Exception as error:  # peft raises ValueError, OSError, RuntimeError and safetensors' own
        raise EngineError(
            f"{what}: the adapter does not fit its base `{Path(place).name}`: {first_line(error)}"
        ) from None
    files = ModelFiles(Path(model).resolve(), Path(model).name, None)
    tokens = load_tokens(model)
    merged: Any = with_adapter if settings.load_in_4bit else with_adapter.merge_and_unload()
    left, context = settings.padding == "left", settings.context
    return Reader(files, tokens, merged.eval(), "sequence", context, settings.batch_tokens, left, under)
