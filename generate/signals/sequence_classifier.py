"""A sequence classifier as a verifier: its output on the text that a prompt file makes of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from generate.engines.weights import find_model
from generate.passes.batching import Ids
from generate.passes.classifier_folder import kept_prompt, open_classifier
from generate.passes.taking import outputs_of
from generate.recipes.prompting import Template
from generate.signals.additions import Additions, Classifier
from generate.signals.signal import Advance, Made, score_rows
from generate.traces.block import TRACE_FIELDS, Block, asked_about, check_fields
from toolkit.errors import ThinkbackError
from toolkit.log import Log

PER_BLOCK = 4_096


class ClassifierWorker:
    """Scores traces with a classifier. A trace that is longer than the model takes is named and not scored."""

    per_block = PER_BLOCK

    def __init__(self, step: Classifier, additions: Additions, log: Log):
        self.step = step
        self.template = self._prompt(additions)
        check_fields(self.template, list(log.columns("examples")), TRACE_FIELDS)
        self.reader = open_classifier(
            additions.model(step.model), step, None if step.base is None else additions.model(step.base)
        )
        self._check_label()

    def describe(self) -> dict[str, object]:
        """The model, its prompt and how its output becomes a score."""
        return {**self.reader.describe(), "prompt": self.template.text, "score": self.step.scored}

    def run(self, block: Block, advance: Advance) -> Made:
        """One verification for each trace that fits."""
        texts: list[Ids] = []
        rows: list[dict[str, Any]] = []
        skipped = []
        for row in block.rows:
            prompt = asked_about(self.template, block, row)
            text = Ids(tuple(self.reader.tokens.encode(prompt, whole=True)))
            reason = self.reader.too_long(text)
            if reason is not None:
                skipped.append((row["trace_id"], reason))
                continue
            texts.append(text)
            rows.append({"trace_id": row["trace_id"], "verifier": self.step.name, "example_id": row["example_id"]})
        for read in self.reader.read(texts):
            scores = self.scores(outputs_of(read))
            for place, score, device_s in zip(read.places, scores.tolist(), read.device_s, strict=True):
                own = {"prompt_tokens": len(texts[place]), "completion_tokens": 0}
                rows[place] |= {"score": score, "latency_s": read.seconds, "device_s": device_s, **own}
            advance(len(read.places))
        return Made(score_rows(rows, self.step.decimals), tuple(skipped))

    def scores(self, outputs: np.ndarray) -> np.ndarray:
        """(n, labels) outputs -> (n,) scores, as the settings say."""
        if outputs.shape[1] > 1:
            weights = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            return weights[:, self.step.label] / weights.sum(axis=1)
        raw = outputs[:, 0]
        return 1 / (1 + np.exp(-raw)) if self.step.scored == "sigmoid" else raw

    def close(self) -> None:
        """Free the model."""
        self.reader.close()

    def _prompt(self, additions: Additions) -> Template:
        if self.step.prompt is not None:
            return additions.prompts[self.step.prompt]
        model = additions.model(self.step.model)
        kept = kept_prompt(model)
        if kept is None:
            find_model(model, None, download=False, weights=False)  # a folder that is not there keeps no prompt either
            raise ThinkbackError(
                f"`verify.{self.step.name}.prompt` is missing: the model's folder keeps none, so name a prompt file"
            )
        return kept

    def _check_label(self) -> None:
        labels, label = int(self.reader.network.config.num_labels), self.step.label
        if labels > 1 and (label is None or label >= labels):
            raise ThinkbackError(
                f"`verify.{self.step.name}.label` must say which of the model's {labels} outputs is the score,"
                f" 0 to {labels - 1}"
            )
        if labels == 1 and label is not None:
            raise ThinkbackError(f"`verify.{self.step.name}.label` is for models with several outputs; this has one")
