"""A sequence classifier as a verifier: its output on the text that a prompt file makes of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from generate.engines.weights import find_model
from generate.passes.batching import Ids
from generate.passes.classifier_folder import KEPT, kept_prompt, open_classifier
from generate.passes.reader import Pass, TextReading, outputs_of, probabilities_of
from generate.recipes.prompting import Template, parse_template
from generate.signals.forced import ReadingWorker
from generate.signals.signal import BlockRows, VerifierSignal, Work
from generate.traces.block import TRACE_FIELDS, TraceBlock, check_fields, prompt_about
from toolkit.errors import ThinkbackError
from toolkit.progress import Advance
from toolkit.settings import setting


class ClassifierWorker(ReadingWorker):
    """Scores traces with a classifier."""

    step: SequenceClassifier
    per_block = 4_096

    def __init__(self, step: SequenceClassifier, work: Work):
        super().__init__(step, work)
        find = work.additions.model
        self.template = self._prompt(work, find(step.model))
        check_fields(self.template, work.log, TRACE_FIELDS)
        base = None if step.base is None else find(step.base)
        self.reader = open_classifier(find(step.model), step, base, step.place)
        self._check_label()

    def describe(self) -> Mapping[str, Any]:
        """The model, its prompt and how its output becomes a score."""
        return {**self.reader.describe(), "prompt": self.template.text, "score": self.step.scored}

    def ids(self, block: TraceBlock, row: Mapping[str, Any]) -> Ids:
        """The prompt about a trace."""
        return Ids(tuple(self.reader.tokens.encode(prompt_about(self.template, block, row), whole=True)))

    def run(self, block: TraceBlock, advance: Advance) -> BlockRows:
        """One verification for each trace that fits."""
        return self.scored(block, advance, lambda read, _: self._scores(read).tolist())

    def _scores(self, read: Pass) -> np.ndarray:
        """(n,) scores of a batch, as the settings say."""
        if self.step.label is not None:
            return probabilities_of(read)[:, self.step.label]
        raw = outputs_of(read)[:, 0]
        return 1 / (1 + np.exp(-raw)) if self.step.scored == "sigmoid" else raw

    def _prompt(self, work: Work, model: str) -> Template:
        if self.step.prompt is not None:
            return work.additions.prompts[self.step.prompt]
        kept = kept_prompt(model)
        if kept is None:
            find_model(model, None, download=False, weights=False)  # a folder that is not there keeps no prompt either
            raise ThinkbackError(f"{self.step.place}: the model's folder keeps no prompt: name a file in `prompt`")
        return parse_template(KEPT, f"{kept}\n")

    def _check_label(self) -> None:
        labels, label = int(self.reader.network.config.num_labels), self.step.label
        if labels > 1 and (label is None or label >= labels):
            raise ThinkbackError(
                f"{self.step.place}: `label` must say which of the model's {labels} outputs is the score,"
                f" 0 to {labels - 1}"
            )
        if labels == 1 and label is not None:
            raise ThinkbackError(f"{self.step.place}: `label` is for models with several outputs; this has one")


@dataclass(frozen=True, kw_only=True)
class SequenceClassifier(VerifierSignal, TextReading):
    """A classifier that reads a trace: one trained here (`classifier`), or any outcome reward model (`reward`).

    Its score is of its only output, or of the output `label`, a probability: `sigmoid` (the default of the kind
    `classifier`) or `raw` (that of `reward`). `base`: the folder of the model that a LoRA adapter belongs to, where it
    is not the one that its adapter_config.json names. decimals: scores are rounded to so many, which takes less room.
    """

    kind: str = setting("classifier", choices=("classifier", "reward"))
    model: str = setting(identity=False)
    prompt: str | None = setting(None)
    base: str | None = setting(None, identity=False)
    score: str | None = setting(None, choices=("sigmoid", "raw"))
    label: int | None = setting(None, low=0)
    decimals: int | None = setting(None, low=1, high=9)

    worker = ClassifierWorker
    reads_once = True

    @property
    def scored(self) -> str:
        """`sigmoid` or `raw`."""
        return self.score or ("sigmoid" if self.kind == "classifier" else "raw")
