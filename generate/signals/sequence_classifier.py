"""A sequence classifier as a verifier: its output on the text that a prompt file makes of a trace; and its folder.

The folder holds a model of Hugging Face's form, or a LoRA adapter beside its base model. `classifier.json` in it keeps
the prompt that it was trained with and how its training went; a reward model of others has none.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from generate.engines.base import EngineError
from generate.engines.weights import (
    LoadOptions,
    ModelFiles,
    find_model,
    first_line,
    load_network,
    load_tokenizer,
    require_extra,
)
from generate.passes.batching import TokenIds
from generate.passes.reader import ReadBatch, Reader, ReadSettings, classifier_outputs, label_probabilities, open_reader
from generate.recipes.prompting import Template, parse_template
from generate.signals.forced import ReadingWorker
from generate.signals.signal import BlockRows, VerifierSignal, WorkerInput
from generate.traces.block import TRACE_FIELDS, TraceBlock, check_fields, prompt_about
from toolkit.errors import ConflictError, InvalidError, RequiredError, error_prefix, quote
from toolkit.models import number_list_reader, read_model, table_reader
from toolkit.progress import Advance
from toolkit.settings import Checked, setting

SETTINGS_FILE = "classifier.json"
ADAPTER = "adapter_config.json"
LARGEST_RANK = 1_024
"""The largest rank of an adapter: peft allocates its matrices before it reads them."""


@contextlib.contextmanager
def silence_warnings() -> Iterator[None]:
    """Silences deprecation warnings of peft and transformers inside the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@dataclass(frozen=True)
class _ClassifierFile(Checked):
    """The file `classifier.json`: the classifier's prompt, the weights it was trained from, and its training."""

    recipe: str = setting("")
    seed: int = setting(0)
    prompt: str | None = setting(None)
    base: str = setting("")
    base_weights_sha256: str | None = setting(None)
    settings: Mapping[str, Any] = setting({})
    versions: Mapping[str, str] = setting({})
    trained: Mapping[str, Any] = setting({})


def _refuse_value(value: Any, place: str) -> None:
    if value is not None:
        raise InvalidError(f"`{place}` is {quote(value)}; only adapters without it are read")


@dataclass(frozen=True)
class _AdapterFile(Checked):
    """The part of `adapter_config.json` that says how large an adapter is, and for which model. peft reads the rest."""

    peft_type: str = setting(choices=("LORA",))
    r: int = setting(low=1, high=LARGEST_RANK)
    rank_pattern: Mapping[str, Any] = setting({})
    layer_replication: None = setting(None, read=_refuse_value)
    base_model_name_or_path: str | None = setting(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, rank in self.rank_pattern.items():
            number_list_reader(int, 1, LARGEST_RANK)([rank], f"rank_pattern.{name}")


def read_adapter(folder: str | Path) -> _AdapterFile:
    """Reads the size and base model of an adapter. ThinkbackError where it is no LoRA adapter, or too large."""
    path = Path(folder) / ADAPTER
    with error_prefix(f"`{path}`: "):
        return table_reader(_AdapterFile)(read_model(path, ADAPTER), "")


def read_classifier(folder: str | Path) -> _ClassifierFile | None:
    """Reads `classifier.json`; None where there is none. ThinkbackError where its content is of another form."""
    path = Path(folder) / SETTINGS_FILE
    if not path.is_file():
        return None
    with error_prefix(f"`{path}`: "):
        return table_reader(_ClassifierFile)(read_model(path, SETTINGS_FILE), "")


def open_classifier(model: str, settings: ReadSettings, base: str | None, subject: str) -> Reader:
    """Loads a classifier: whole, or a base model with its adapter. `base` overrules the base that the adapter names.

    `subject` names who asks, in errors. EngineError where a file, a weight or a package is missing.
    """
    adapter = Path(model) / ADAPTER
    if not adapter.is_file():
        if base is not None:
            raise EngineError(
                f"{subject}: `base` is for adapters; `{Path(model).name}` has no {ADAPTER}: omit it", code="required"
            )
        return open_reader(model, "sequence", settings, subject)
    require_extra("lora", "peft")
    from peft import PeftModel

    named = base or read_adapter(model).base_model_name_or_path
    beside = Path(model).resolve().parent / Path(str(named)).name
    place = str(named) if base is not None or not beside.is_dir() else str(beside)
    placing = LoadOptions(
        settings.device, settings.dtype, settings.load_in_4bit, new_head=True, options={"num_labels": 1}
    )
    under = find_model(
        place, None, download=False, hint=f"it is the base of `{Path(model).name}`: give its folder as `base`"
    )
    trained = read_classifier(model)
    if trained and trained.base_weights_sha256 not in (None, under.weights_sha256()):
        raise EngineError(
            f"{subject}: the adapter `{Path(model).name}` was trained on other weights than `{under.name}` holds: give"
            " the folder of that model as `base`",
            code="mismatch",
        )
    network = load_network(under, "sequence", placing, subject)
    try:
        with silence_warnings():
            with_adapter = PeftModel.from_pretrained(network, model, local_files_only=True)
    except Exception as error:  # peft raises ValueError, OSError, RuntimeError and safetensors' own
        raise EngineError(
            f"{subject}: the adapter does not fit its base `{Path(place).name}`: {first_line(error)}", code="mismatch"
        ) from None
    files = ModelFiles(Path(model).resolve(), Path(model).name, None)
    tokens = load_tokenizer(model)
    merged: Any = with_adapter if settings.load_in_4bit else with_adapter.merge_and_unload()
    left, context = settings.padding == "left", settings.context
    return Reader(files, tokens, merged.eval(), "sequence", context, settings.batch_tokens, left, under)


RECORDED = ("recipe", "seed", "base", "base_weights_sha256", "settings", "trained")
"""What the manifest has of how a classifier was trained."""


def training_record(folder: str | Path) -> dict[str, Any]:
    """How a classifier in a folder was trained, as `thinkback fit` recorded it; empty for one of others."""
    trained = read_classifier(folder)
    return {} if trained is None else {"training": {name: getattr(trained, name) for name in RECORDED}}


class _ClassifierWorker(ReadingWorker):
    """Scores traces with a sequence classifier."""

    step: SequenceClassifier
    per_block = 4_096

    def __init__(self, step: SequenceClassifier, work: WorkerInput):
        super().__init__(step, work)
        find = work.additions.resolve_model
        self.template = self._prompt_template(work, find(step.model))
        check_fields(self.template, work.log, TRACE_FIELDS)
        base = None if step.base is None else find(step.base)
        self.reader = open_classifier(find(step.model), step, base, step.place_in_recipe)
        self.training = training_record(find(step.model))
        self._check_label()

    def describe(self) -> Mapping[str, Any]:
        return {
            **self.reader.describe(),
            "prompt": self.template.text,
            "score": self.step.scored_label,
            **self.training,
        }

    def token_ids(self, block: TraceBlock, row: Mapping[str, Any]) -> TokenIds:
        return TokenIds(tuple(self.reader.tokens.encode(prompt_about(self.template, block, row), whole=True)))

    def run(self, block: TraceBlock, advance: Advance) -> BlockRows:
        return self.verification_rows(
            block, advance, lambda read, _: [{"score": one} for one in self._scores(read).tolist()]
        )

    def _scores(self, read: ReadBatch) -> np.ndarray:
        """The scores (n,) of the texts in a pass, as the settings define them."""
        if self.step.label is not None:
            return label_probabilities(read)[:, self.step.label]
        raw = classifier_outputs(read)[:, 0]
        return 1 / (1 + np.exp(-raw)) if self.step.scored_label == "sigmoid" else raw

    def _prompt_template(self, work: WorkerInput, model: str) -> Template:
        if self.step.prompt is not None:
            return work.additions.prompts[self.step.prompt]
        trained = read_classifier(model)
        if trained is None or trained.prompt is None:
            find_model(model, None, download=False, weights=False)  # a folder that is not there keeps no prompt either
            raise RequiredError(
                f"{self.step.place_in_recipe}: the model's folder keeps no prompt: name a file in `prompt`"
            )
        return parse_template(SETTINGS_FILE, f"{trained.prompt}\n")

    def _check_label(self) -> None:
        labels, label = int(self.reader.network.config.num_labels), self.step.label
        if labels > 1 and (label is None or label >= labels):
            raise RequiredError(
                f"{self.step.place_in_recipe}: `label` must say which of the model's {labels} outputs is the score,"
                f" 0 to {labels - 1}"
            )
        if labels == 1 and label is not None:
            raise ConflictError(
                f"{self.step.place_in_recipe}: `label` is for models with several outputs; this has one"
            )


@dataclass(frozen=True, kw_only=True)
class SequenceClassifier(VerifierSignal, ReadSettings):
    """A verifier whose score is a sequence classifier's output on a trace.

    Its score is of its only output, `sigmoid` or `raw`, or of the output `label`, a probability. `base`: the folder of
    the model that a LoRA adapter belongs to, where it is not the one that its adapter_config.json names. decimals:
    scores are rounded to so many, which takes less room.
    """

    kind = "classifier"
    usual: ClassVar[str] = "sigmoid"  # where `score` is not given
    model: str = setting(identity=False)
    prompt: str | None = setting(None)
    base: str | None = setting(None, identity=False)
    score: str | None = setting(None, choices=("sigmoid", "raw"))
    label: int | None = setting(None, low=0)
    decimals: int | None = setting(None, low=1, high=9)

    worker = _ClassifierWorker
    reads_once = True

    @property
    def scored_label(self) -> str:
        return self.score or self.usual


class RewardModel(SequenceClassifier):
    """A verifier whose score is the output of any outcome reward model."""

    kind = "reward"
    usual = "raw"
