"""Training from a recipe to a model's folder, with a report of the way there.

Muon trains the matrices (Jordan et al., 2024), AdamW the embeddings and norms, by one schedule.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from generate.engines.weights import find_model, first_line, installed, versions
from generate.tasks import stream
from generate.training.llama import load_model, make_model, make_tokenizer, save_model
from generate.training.model_recipe import ModelRecipe, Phase, RateSchedule
from generate.training.texts import IGNORED, TextBatch, batches, sample_attempts, texts
from toolkit.errors import ThinkbackError
from toolkit.files import check_replaceable
from toolkit.progress import Advance, uncounted

REPORT = "training.json"
LOGGED = 200
"""Steps between two entries of the loss in the report."""


@dataclass(frozen=True)
class PhaseReport:
    """What a phase cost and came to. losses: (tokens so far, mean loss per learnt token since the last entry);
    sampled: the share of right ones among the attempts that the phase learnt from, where it sampled any.
    """

    tokens: int
    steps: int
    seconds: float
    sampling_seconds: float
    sampled: float | None
    losses: tuple[tuple[int, float], ...]


def train_model(
    recipe: ModelRecipe,
    out: Path,
    *,
    force: bool = False,
    compiled: bool = False,
    advance: Advance | None = None,
    told: Callable[[str], None] | None = None,
) -> tuple[PhaseReport, ...]:
    """Train a recipe's model and write its folder `out`: config, tokenizer, float16 weights, `training.json`.

    `compiled`: through torch.compile, which needs a C++ compiler and adds in another order, so that weights differ.
    `advance` is called with the tokens of each step, `told` with a line at each phase's end.
    ThinkbackError where `out` exists, a package or the compiler is missing, or `recipe.start` is no model of this
    training.
    """
    installed("generate", "torch", "transformers", "safetensors")
    check_replaceable(out, force)
    tokenizer = make_tokenizer()
    if recipe.start is None:
        model, start = make_model(recipe.model, recipe.seed, tokenizer), None
    else:
        files = find_model(recipe.start, None, download=False)
        model, start = load_model(files, tokenizer), files.weights_sha256()
    run = _Training(recipe, tokenizer, model, advance or uncounted, compiled)
    reports = []
    for number, phase in enumerate(recipe.phases, start=1):
        reports.append(run.phase(phase, number))
        if told is not None:
            told(_said(number, reports[-1]))
    save_model(model, tokenizer, out, force=force, extra={REPORT: _report(recipe, model, reports, start, compiled)})
    return tuple(reports)


class _Training:
    """The model, its optimizer, and what has been spent."""

    def __init__(self, recipe: ModelRecipe, tokenizer: Any, model: Any, advance: Advance, compiled: bool) -> None:
        import torch

        self.recipe, self.tokenizer, self.model, self.advance = recipe, tokenizer, model, advance
        self.forward = torch.compile(model, dynamic=True) if compiled else model
        self.task = recipe.task.make()
        self.questions = stream(self.task, "fit", recipe.seed)
        self.optimizer = Optimizer(model, recipe.schedule)
        self.steps = self.tokens = 0

    def phase(self, phase: Phase, number: int) -> PhaseReport:
        began = perf_counter()
        samples = []
        if phase.attempts is not None:
            self.model.eval()
            samples = sample_attempts(self.model, self.tokenizer, self.questions, phase.attempts, number)
        sampled = perf_counter()
        rng = random.Random(f"{self.recipe.seed} {number}")
        stated = texts(self.task, self.questions, phase.mixture, rng, samples)
        context, schedule = self.model.config.max_position_embeddings, self.recipe.schedule
        first_step, first_token = self.steps, self.tokens
        losses: list[tuple[int, float]] = []
        since: list[float] = []
        self.model.train()
        for batch in batches(stated, self.tokenizer, schedule.batch_tokens, context, rng):
            since.append(self.step(batch))
            if len(since) == LOGGED or self.tokens - first_token >= phase.tokens:
                losses.append((self.tokens, sum(since) / len(since)))
                since = []
            if self.tokens - first_token >= phase.tokens:
                break
        return PhaseReport(
            tokens=self.tokens - first_token,
            steps=self.steps - first_step,
            seconds=perf_counter() - sampled,
            sampling_seconds=sampled - began,
            sampled=sum(one.share for one in samples) / len(samples) if samples else None,
            losses=tuple(losses),
        )

    def step(self, batch: TextBatch) -> float:
        """Learn one batch; its mean loss per learnt token."""
        import torch
        from torch.nn.functional import cross_entropy

        device = self.model.device.type
        ids, targets = (torch.from_numpy(part).to(self.model.device) for part in (batch.ids, batch.targets))
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = self._logits(ids)
        loss = cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        loss.backward()
        self.optimizer.step(self.steps, self.tokens / self.recipe.tokens)
        self.steps += 1
        self.tokens += batch.tokens
        self.advance(batch.tokens)
        return float(loss.detach())

    def _logits(self, ids: Any) -> Any:
        if self.forward is self.model:
            return self.model(input_ids=ids, use_cache=False).logits
        from torch._dynamo.exc import TorchDynamoException

        try:
            return self.forward(input_ids=ids, use_cache=False).logits
        except TorchDynamoException as error:
            raise ThinkbackError(
                f"torch can't compile the model here ({first_line(error)}): install a C++ compiler such as g++, or"
                " leave out `compiled`"
            ) from None


def _report(recipe: ModelRecipe, model: Any, reports: list[PhaseReport], start: str | None, compiled: bool) -> str:
    import torch

    made = {
        "recipe": dataclasses.asdict(recipe),
        "start_weights_sha256": start,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "device": model.device.type,
        "threads": torch.get_num_threads(),
        "compiled": compiled,
        "versions": versions("torch", "transformers", "tokenizers"),
        "seconds": sum(report.seconds + report.sampling_seconds for report in reports),
        "phases": [dataclasses.asdict(report) for report in reports],
    }
    return json.dumps(made, indent=1) + "\n"


def _said(number: int, report: PhaseReport) -> str:
    text = f"phase {number}: {report.tokens:,} tokens in {report.seconds:,.0f} s, loss {report.losses[-1][1]:.3f}"
    if report.sampled is None:
        return text
    return f"{text}; {report.sampled:.1%} of the sampled attempts were right ({report.sampling_seconds:,.0f} s)"


class Optimizer:
    """Both optimizers as one, with the rate of each step set from the schedule."""

    def __init__(self, model: Any, schedule: RateSchedule) -> None:
        import torch

        matrices: list[Any] = []
        others: list[Any] = []
        for name, weight in model.named_parameters():
            is_matrix = weight.dim() == 2 and "embed_tokens" not in name and "lm_head" not in name
            (matrices if is_matrix else others).append(weight)
        self.schedule = schedule
        self.weights = [*matrices, *others]
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.Muon(
                matrices, lr=schedule.rate, weight_decay=schedule.weight_decay, adjust_lr_fn="match_rms_adamw"
            ),
            torch.optim.AdamW(others, lr=schedule.rate, betas=(0.9, 0.98), weight_decay=0.0),
        ]

    def step(self, number: int, progress: float) -> None:
        """One step from the gradients at hand. number: from 0; progress: the share of all tokens that came before."""
        import torch

        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate_at(self.schedule, number, progress)
            part.step()
            part.zero_grad(set_to_none=True)


def rate_at(schedule: RateSchedule, number: int, progress: float) -> float:
    """The rate of step `number` (from 0), with `progress` in [0, 1): up in a line, then down to 0 in another."""
    warm = min(1.0, (number + 1) / (schedule.warmup + 1))
    return schedule.rate * warm * max(0.0, 1.0 - progress)
