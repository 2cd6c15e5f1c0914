"""Loading a model: its files, its weights on a device, and its tokenizer with chat template and length limits.

Weights are read from safetensors only and code that comes with a model is never run. Nothing is fetched unless the
settings say `download = true`; a model named by its hub name is otherwise looked up among those already fetched.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from generate.engines.base import EngineError, Prompt
from generate.engines.lfm2 import lfm2_classifier
from generate.engines.thoughts import ends_in_thoughts
from toolkit.documents import expand_home, read_text
from toolkit.errors import error_prefix
from toolkit.models import number_list_reader, read_model

PAST_THE_PAD = frozenset({
    "camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta",
    "xlm-roberta-xl", "xmod",
})  # fmt: skip
"""Models that count positions from behind the padding's id, so that so many of their places are never used."""
ENDS = "eos_token_id"
VOCABULARIES = ("tokenizer.", "vocab.", "spiece", "sentencepiece", "spm", "merges", "tekken")
"""How the names of files with a tokenizer's words begin."""
FETCHED = ("*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "tokenizer*", "*.model", "*.txt")


def require_extra(extra: str, *modules: str) -> None:
    """Raises EngineError with the command that installs the extra when one of its modules is missing."""
    from importlib.util import find_spec

    for module in modules:
        if find_spec(module) is None:
            raise EngineError(
                f"the package `{module}` is not installed: pip install 'thinkback[{extra}]'", code="package"
            )


def silence_transformers() -> None:
    """No warnings and no bars from transformers: what is worth saying is an error or this product's own progress."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def package_versions(*packages: str) -> dict[str, str]:
    """Installed versions of the packages that matter to a result; those not installed are left out."""
    numbers = {}
    for package in packages:
        try:
            numbers[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return numbers


def platform_versions() -> dict[str, str]:
    """Versions of Python and of the packages that every result depends on."""
    return {"python": platform.python_version(), **package_versions("thinkback", "polars", "numpy")}


@dataclass(frozen=True)
class ModelFiles:
    """A model's folder, the name that the log gives it, and the hub's commit where it came from a hub."""

    folder: Path
    name: str
    revision: str | None

    def weights_sha256(self) -> str:
        """Hash of the weight files' names and content, independent of where they lie."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.glob("*.safetensors")):
            with path.open("rb") as file:
                digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
        return digest.hexdigest()

    def context_limit(self, limit: int | None = None) -> int | None:
        """The longest text that the model takes, in tokens, as its config.json says; None where it says nothing.

        `limit` in its place, where it is given: EngineError where it is longer.
        """
        config = self._config()
        places = getattr(config.get_text_config(), "max_position_embeddings", None)
        if not places:
            return limit
        first = (config.pad_token_id or 0) + 1 if config.model_type in PAST_THE_PAD else 0
        longest = int(places) - first
        if limit is not None and limit > longest:
            raise EngineError(
                f"`context` is {limit:,} and the model `{self.name}` takes {longest:,} tokens: lower it", code="limit"
            )
        return limit or longest

    def hidden_size(self) -> int:
        """The length of a hidden state, as the model's config.json says."""
        value = getattr(self._config().get_text_config(), "hidden_size", None)
        if not value:
            raise EngineError(
                f"model `{self.name}`: its config.json does not say the size of its hidden states", code="format"
            )
        return int(value)

    def _config(self) -> Any:
        """config.json as transformers reads it: names of a model's own, such as GPT-2's `n_positions`, are known."""
        require_extra("generate", "transformers")
        from transformers import AutoConfig

        try:
            return AutoConfig.from_pretrained(str(self.folder), trust_remote_code=False, local_files_only=True)
        except Exception as error:  # transformers raises OSError, ValueError, KeyError
            raise EngineError(
                f"model `{self.name}`: its config.json cannot be read: {first_line(error)}", code="format"
            ) from None

    def end_tokens(self) -> set[int]:
        """Token ids that end a sequence, as the model's generation settings (or its config) list them."""
        for name in ("generation_config.json", "config.json"):
            if not (self.folder / name).is_file():
                continue
            with error_prefix(f"model `{self.name}`: "):
                settings = read_model(self.folder / name, name)
                if ENDS in settings:
                    ends = settings[ENDS]
                    listed = ends if isinstance(ends, list) else [] if ends is None else [ends]
                    return set(number_list_reader(int)(listed, ENDS).tolist())
        return set()


FETCH = "give a folder, or set `download = true` to fetch it"
"""Advice on a missing model, for users of an engine."""


def find_model(
    model: str,
    revision: str | None,
    *,
    download: bool,
    weights: bool = True,
    hint: str = "give the path of its folder, or fetch it once with the hub's own tool",
) -> ModelFiles:
    """The files of a local folder or of a hub's model; the log's name of a folder is its last part. `hint`: what to do
    where there is none and none may be fetched.
    """
    folder = expand_home(model)
    if folder.is_dir():
        if revision is not None:
            raise EngineError(
                f"`revision` names a version on a hub, and the model `{model}` is a folder", code="conflict"
            )
        folder = folder.resolve()
        files = ModelFiles(folder, folder.name, None)
    else:
        files = _hub_model(model, revision, hint=None if download else hint)
    wanted = [("config.json", "a model"), ("*.safetensors", "weights as safetensors, the only form read")]
    for pattern, what in wanted if weights else []:
        if not any(files.folder.glob(pattern)):
            raise EngineError(
                f"model `{model}`: there is no {pattern} in its folder; it needs to hold {what}", code="not-found"
            )
    return files


def _hub_model(model: str, revision: str | None, *, hint: str | None) -> ModelFiles:
    from huggingface_hub import snapshot_download

    try:
        folder = Path(
            snapshot_download(model, revision=revision, local_files_only=hint is not None, allow_patterns=list(FETCHED))
        )
    except Exception as error:  # the hub's client raises its own, requests', and ValueError for odd names
        why = (
            f"fetching it failed ({first_line(error)})" if hint is None else f"no such model was fetched before; {hint}"
        )
        raise EngineError(f"model `{model}`: there is no folder of that name and {why}", code="not-found") from None
    return ModelFiles(folder, model, folder.name)


def first_line(error: BaseException) -> str:
    """An exception as one line: its kind and the first line of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


OPENING = 16
"""The last tokens of a prompt, among which thoughts may begin."""


@dataclass(frozen=True)
class ModelTokenizer:
    """A model's tokenizer: prompts to ids, ids to text.

    A text prompt gets the tokenizer's own special tokens (a beginning of sequence, say), as completion servers do; chat
    messages go through the chat template, which writes its own.
    """

    model: str
    tokenizer: Any = field(repr=False)
    template_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def end_token(self) -> int | None:
        """The id of the end-of-sequence token."""
        return None if self.tokenizer.eos_token_id is None else int(self.tokenizer.eos_token_id)

    def encode(self, prompt: Prompt, *, whole: bool = False) -> list[int]:
        """Token ids of what the model is sent; `whole` as in `chat_text`."""
        if isinstance(prompt, str):
            return list(self.tokenizer(prompt)["input_ids"])
        return list(self.tokenizer(self.chat_text(prompt, whole=whole), add_special_tokens=False)["input_ids"])

    def chat_text(self, prompt: Sequence[Any], *, whole: bool = False) -> str:
        """The messages as the chat template writes them, ready for the model to go on; with `whole` a conversation that
        is at its end, as a classifier reads it."""
        if not getattr(self.tokenizer, "chat_template", None):
            raise EngineError(
                f"model `{self.model}` has no chat template: use a text prompt, or give `chat_template` a file",
                code="required",
            )
        messages = [{"role": message.role, "content": message.content} for message in prompt]
        goes_on = messages[-1]["role"] == "assistant" and not whole
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=not goes_on and not whole,
                continue_final_message=goes_on,
                **self.template_options,
            )
        except Exception as error:  # a template may refuse roles with an error of its own
            raise EngineError(
                f"model `{self.model}`: its chat template refuses: {first_line(error)}", code="format"
            ) from None
        return text

    def count_tokens(self, text: str) -> int:
        """Tokens of a text alone, without special tokens."""
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def ends_in_thoughts(self, ids: Sequence[int]) -> bool:
        """Whether a prompt, as ids, ends with the beginning of thoughts, as some chat templates write it."""
        return ends_in_thoughts(str(self.tokenizer.decode(list(ids[-OPENING:]))))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated ids, special tokens left out, spaces as they are."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def load_tokenizer(
    model: str,
    *,
    revision: str | None = None,
    download: bool = False,
    chat_template: str | None = None,
    template_options: Mapping[str, Any] | None = None,
) -> ModelTokenizer:
    """The tokenizer of a model's folder or hub name. chat_template: a file that replaces the model's own."""
    require_extra("generate", "transformers")
    from transformers import AutoTokenizer

    silence_transformers()
    files = find_model(model, revision, download=download, weights=False)
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(files.folder), trust_remote_code=False, local_files_only=True)
    except Exception as error:  # transformers raises OSError, ValueError, KeyError and the tokenizers' own
        none = not any(path.name.startswith(VOCABULARIES) for path in files.folder.iterdir())
        why = "its folder has none" if none else first_line(error)
        raise EngineError(f"model `{model}`: its tokenizer cannot be read: {why}", code="format") from None
    if chat_template is not None:
        tokenizer.chat_template = read_text(chat_template, f"`chat_template` {chat_template}")
    return ModelTokenizer(files.name, tokenizer, dict(template_options or {}))


DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", "float64", "float32", "bfloat16", "float16")
HEADS: Mapping[str, str] = {
    "causal": "AutoModelForCausalLM",
    "base": "AutoModel",
    "sequence": "AutoModelForSequenceClassification",
}
"""Head of a model -> the class of transformers that loads it."""


@dataclass(frozen=True)
class LoadOptions:
    """The device and the number type of a model. `auto`: the GPU where there is one; float32 on the CPU, else the
    weights' own. `new_head`: the head may be missing in the files, since it is to be trained; `options` go to the
    config.
    """

    device: str = "auto"
    dtype: str = "auto"
    load_in_4bit: bool = False
    new_head: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether an error of torch says that memory ran out: on a GPU it has a class of its own, on the CPU it has not."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def chosen_device(device: str, subject: str) -> str:
    """`cpu` or `cuda`. EngineError where a GPU is asked for and torch sees none."""
    import torch

    name = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise EngineError(f"{subject}: `device` is `cuda` and torch sees no GPU", code="unsuitable")
    return name


def load_network(files: ModelFiles, head: str, placing: LoadOptions, subject: str) -> Any:
    """The model on its device, ready to read. `head`: one of HEADS. `subject` names who asks, in errors.

    EngineError where the files can't be read or lack weights.
    """
    import transformers

    silence_transformers()  # of what transformers reports of missing weights, what matters is an error of ours
    lfm2_classifier()
    device = chosen_device(placing.device, subject)
    dtype = placing.dtype if placing.dtype != "auto" or device == "cuda" else "float32"
    options: dict[str, Any] = dict(placing.options)
    if placing.load_in_4bit:
        require_extra("generate", "bitsandbytes")
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
        raise EngineError(f"model `{files.name}` cannot be loaded: {first_line(error)}", code="format") from None
    model, info = loaded
    missing = sorted(info["missing_keys"])
    if missing and not placing.new_head:
        untrained = "it has no trained classifier: train one with `thinkback fit`"
        hint = untrained if head == "sequence" else "fetch or save it again"
        raise EngineError(
            f"model `{files.name}`: {len(missing)} weights are missing in its files, `{missing[0]}` first; {hint}",
            code="incomplete",
        )
    return model.eval() if placing.load_in_4bit else model.to(device).eval()
