"""Loading a model of Hugging Face's form onto its device: all weights from safetensors, no code of the folder's run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from generate.engines.base import EngineError
from generate.engines.weights import ModelFiles, first_line, installed, quieten

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", "float64", "float32", "bfloat16", "float16")
HEADS: Mapping[str, str] = {
    "causal": "AutoModelForCausalLM",
    "base": "AutoModel",
    "sequence": "AutoModelForSequenceClassification",
}
"""What stands on top of a model's layers -> the class of transformers that loads it."""


@dataclass(frozen=True)
class Placing:
    """Where a model runs and in which numbers. `auto`: the GPU where there is one; float32 on the CPU, else the
    weights' own. `new_head`: the head may be missing in the files, since it is to be trained; `options` go to the
    config.
    """

    device: str = "auto"
    dtype: str = "auto"
    load_in_4bit: bool = False
    new_head: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def ran_out(error: RuntimeError) -> bool:
    """Whether an error of torch says that memory ran out: on a GPU it has a class of its own, on the CPU it has not."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def chosen_device(device: str, what: str) -> str:
    """`cpu` or `cuda`. EngineError where a GPU is asked for and torch sees none."""
    import torch

    found = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if found == "cuda" and not torch.cuda.is_available():
        raise EngineError(f"{what}: `device` is `cuda` and torch sees no GPU")
    return found


def load_network(files: ModelFiles, head: str, placing: Placing, what: str) -> Any:
    """The model on its device, ready to read. `head`: one of HEADS. `what` names who asks, in errors.

    EngineError where the files can't be read or lack weights.
    """
    import transformers

    quieten()  # of what transformers reports of missing weights, what matters is an error of ours
    device = chosen_device(placing.device, what)
    dtype = placing.dtype if placing.dtype != "auto" or device == "cuda" else "float32"
    options: dict[str, Any] = dict(placing.options)
    if placing.load_in_4bit:
        installed("generate", "bitsandbytes")
        options["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True
        )
    try:
        loaded: Any = getattr(transformers, HEADS[head]).from_pretrained(
            str(files.folder),
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            **options,
        )
    except Exception as error:  # transformers raises OSError, ValueError, RuntimeError and safetensors' own
        raise EngineError(f"model `{files.name}` cannot be loaded: {first_line(error)}") from None
    model, info = loaded
    missing = sorted(info["missing_keys"])
    if missing and not placing.new_head:
        untrained = "it has no trained classifier: train one with `thinkback fit`"
        hint = untrained if head == "sequence" else "fetch or save it again"
        raise EngineError(f"model `{files.name}`: its files lack {len(missing)} weights, `{missing[0]}` first; {hint}")
    return model.eval() if placing.load_in_4bit else model.to(device).eval()
