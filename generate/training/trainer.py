"""Training a recipe's model into a folder, with a report.

Muon trains the matrices (Jordan et al., 2024), AdamW the embeddings and norms, by one schedule.
"""

from __future__ import annotations

import dataclasses
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from generate.engines import open_engine
from generate.engines.base import Call, CallFailure
from generate.engines.weights import find_model, first_line, package_versions, require_extra
from generate.passes.batching import length_batches as alike
from generate.tasks import Item, QuestionAttempts, TaskText, endless_questions, judge_attempts
from generate.tasks.formats import fill_prompt
from generate.training.llama import load_model, make_classifier, make_model, make_tokenizer, save_model
from generate.training.model_recipe import AttemptSettings, LearningRateSchedule, ModelRecipe, TrainingPhase
from toolkit.errors import EmptyError, PackageError, UnsuitableError
from toolkit.files import check_replaceable
from toolkit.progress import Advance, no_progress


def _sample_attempts(
    model: Any, tokenizer: Any, questions: Iterator[Item], settings: AttemptSettings, seed: int
) -> list[QuestionAttempts]:
    """Samples attempts at the next `settings.questions` questions, with the engine that a recipe would use.

    Each question gets `wanted.samples` whole attempts, and one that is cut off where `wanted.short` names limits.
    """
    items = list(islice(questions, settings.questions))
    shorts = cycle(settings.short)
    heats = tuple(islice(cycle(settings.temperatures), settings.samples))
    calls = []
    for number, item in enumerate(items):
        prompt = fill_prompt("solve", question=item.question)
        seeds = tuple((seed * len(items) + number) * (settings.samples + 1) + index for index in range(len(heats)))
        calls.append(Call(f"{number} whole", prompt, seeds, heats, settings.max_tokens))
        if settings.short:
            calls.append(Call(f"{number} short", prompt, (seeds[-1] + 1,), heats[:1], int(next(shorts))))
    attempts_of: list[list[str]] = [[] for _ in items]
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, tokenizer, Path(folder) / "model")
        engine = open_engine("transformers", {"model": str(Path(folder) / "model"), "batch_size": 256})
        for call, outcome in engine.run(calls):
            if isinstance(outcome, CallFailure):
                raise UnsuitableError(f"the model can't answer a question of its own task: {outcome.reason}")
            attempts_of[int(call.key.split()[0])] += [completion.text for completion in outcome]
        engine.close()
    return [judge_attempts(item, attempts) for item, attempts in zip(items, attempts_of, strict=True)]


IGNORED = -100
"""The target of a position that is not learnt: torch's cross-entropy ignores it."""
SORTED = 48
"""Batches cut from one sorted run of texts: more batches give less padding and less randomness."""


@dataclass(frozen=True)
class _TextBatch:
    """A batch of training texts. ids (B, L): tokens, padded at the end; targets (B, L): the next token, if it belongs
    to a completion or ends one, else `IGNORED`. tokens: their number without padding.
    """

    ids: NDArray[np.int64]
    targets: NDArray[np.int64]
    tokens: int


def _batches(
    texts: Iterator[TaskText], tokenizer: Any, places: int, context: int, rng: random.Random
) -> Iterator[_TextBatch]:
    """Yields batches of at most `places` tokens without end. Texts longer than `context` are left out.

    ThinkbackError where a text holds a character that the tokenizer lacks, or none is short enough.
    """
    mean = 128
    while True:
        run = list(_encode_texts(islice(texts, max(8, SORTED * places // mean)), tokenizer))
        fitting = sorted((pair for pair in run if len(pair[0]) <= min(context, places)), key=lambda pair: len(pair[0]))
        if not fitting:
            raise EmptyError(f"no text is short enough for {min(context, places)} tokens: widen `model.context`")
        mean = max(1, sum(len(ids) for ids, _ in fitting) // len(fitting))
        groups = list(alike([len(ids) for ids, _ in fitting], places))
        rng.shuffle(groups)
        for group in groups:
            yield _pad_batch([fitting[place] for place in group], tokenizer.pad_token_id)


_Encoded = tuple[list[int], list[bool]]
"""The tokens of a text, and which of them are learnt: those of its completions, each with the end token."""


def _encode_texts(texts: Iterator[TaskText], tokenizer: Any) -> Iterator[_Encoded]:
    """Yields each text's tokens, with which of them are learnt. UnsuitableError where a text holds an unknown one."""
    for text in texts:
        pairs = ((text.prompt, text.completion), *text.more)
        parts = tokenizer([part for pair in pairs for part in pair])["input_ids"]
        ids, learnt = list[int](), list[bool]()
        for prompt, completion in zip(parts[::2], parts[1::2], strict=True):
            ids += [*prompt, *completion, tokenizer.eos_token_id]
            learnt += [*[False] * len(prompt), *[True] * (len(completion) + 1)]
        if tokenizer.unk_token_id in ids:
            whole = "".join(part for pair in pairs for part in pair)
            unknown = next(one for one, _ in tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(whole)
                           if one not in tokenizer.get_vocab())  # fmt: skip
            raise UnsuitableError(f"a text of `{text.format}` holds `{unknown}`, which is not in the tokenizer")
        yield ids, learnt


def _pad_batch(group: Sequence[_Encoded], pad: int) -> _TextBatch:
    width = max(len(ids) for ids, _ in group)
    ids = np.full((len(group), width), pad, dtype=np.int64)
    targets = np.full((len(group), width), IGNORED, dtype=np.int64)
    for row, (tokens, learnt) in enumerate(group):
        ids[row, : len(tokens)] = tokens
        targets[row, : len(tokens) - 1] = np.where(learnt, tokens, IGNORED)[1:]
    return _TextBatch(ids, targets, sum(len(tokens) for tokens, _ in group))


REPORT = "training.json"
LOGGED = 200
"""Steps between two entries of the loss in the report."""


@dataclass(frozen=True)
class _PhaseReport:
    """The cost and result of a phase. losses: (tokens so far, mean loss per learnt token since the last entry);
    sampled: the share right among the attempts that the phase sampled, if any.
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
    say: Callable[[str], None] | None = None,
) -> tuple[_PhaseReport, ...]:
    """Trains a recipe's model and writes its folder `out`: config, tokenizer, float16 weights, `training.json`.

    `compiled`: through torch.compile, which needs a C++ compiler and adds in another order, so that weights differ.
    `advance` is called with the tokens of each step, `say` with a line at each phase's end.
    ThinkbackError where `out` exists, a package or the compiler is missing, or `recipe.start` is no model of this
    training.
    """
    require_extra("generate", "torch", "transformers", "safetensors")
    check_replaceable(out, force)
    tokenizer = make_tokenizer(recipe.task.make().vocabulary)
    if recipe.start is None:
        model, start = make_model(recipe.model, recipe.seed, tokenizer), None
    else:
        files = find_model(recipe.start, None, download=False)
        model, start = load_model(files, tokenizer), files.weights_sha256()
    began = process_time()
    run = _Training(recipe, tokenizer, model, advance or no_progress, compiled)
    reports = []
    for number, phase in enumerate(recipe.phases, start=1):
        reports.append(run.train_phase(phase, number))
        if say is not None:
            say(_phase_line(number, reports[-1]))
    report = _training_report(recipe, model, reports, start, compiled, process_time() - began)
    if recipe.classes:
        model = make_classifier(model, tokenizer, recipe.classes)
    save_model(model, tokenizer, out, force=force, extra={REPORT: report})
    return tuple(reports)


class _Training:
    """A training run: the model, its optimizer, and the tokens and seconds so far."""

    def __init__(self, recipe: ModelRecipe, tokenizer: Any, model: Any, advance: Advance, compiled: bool) -> None:
        import torch

        self.recipe, self.tokenizer, self.model, self.advance = recipe, tokenizer, model, advance
        self.forward = torch.compile(model, dynamic=True) if compiled else model
        self.task = recipe.task.make()
        self.questions = endless_questions(self.task, "fit", recipe.seed)
        self.optimizer = _Optimizer(model, recipe.schedule)
        self.steps = self.tokens = 0

    def train_phase(self, phase: TrainingPhase, number: int) -> _PhaseReport:
        began = perf_counter()
        samples = []
        if phase.attempts is not None:
            self.model.eval()
            samples = _sample_attempts(self.model, self.tokenizer, self.questions, phase.attempts, number)
        sampled = perf_counter()
        rng = random.Random(f"{self.recipe.seed} {number}")
        stated = self.task.training_texts(phase.mixture, rng, self.questions, samples)
        context, schedule = self.model.config.max_position_embeddings, self.recipe.schedule
        first_step, first_token = self.steps, self.tokens
        losses: list[tuple[int, float]] = []
        since: list[float] = []
        self.model.train()
        for batch in _batches(stated, self.tokenizer, schedule.batch_tokens, context, rng):
            since.append(self.train_step(batch))
            if len(since) == LOGGED or self.tokens - first_token >= phase.tokens:
                losses.append((self.tokens, sum(since) / len(since)))
                since = []
            if self.tokens - first_token >= phase.tokens:
                break
        return _PhaseReport(
            tokens=self.tokens - first_token,
            steps=self.steps - first_step,
            seconds=perf_counter() - sampled,
            sampling_seconds=sampled - began,
            sampled=sum(sample.share_right for sample in samples) / len(samples) if samples else None,
            losses=tuple(losses),
        )

    def train_step(self, batch: _TextBatch) -> float:
        """Trains on one batch; returns its mean loss per learnt token."""
        import torch
        from torch.nn.functional import cross_entropy

        device = self.model.device.type
        ids, targets = (torch.from_numpy(part).to(self.model.device) for part in (batch.ids, batch.targets))
        with torch.autocast(device, dtype=torch.bfloat16, enabled=self.optimizer.precision == torch.bfloat16):
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
            raise PackageError(
                f"torch can't compile the model here ({first_line(error)}): install a C++ compiler such as g++, or"
                " leave out `compiled`"
            ) from None


def _training_report(
    recipe: ModelRecipe, model: Any, reports: list[_PhaseReport], start: str | None, compiled: bool, cpu_seconds: float
) -> str:
    import torch

    record = {
        "recipe": dataclasses.asdict(recipe),
        "start_weights_sha256": start,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "device": model.device.type,
        "threads": torch.get_num_threads(),
        "compiled": compiled,
        "versions": package_versions("torch", "transformers", "tokenizers"),
        "seconds": sum(report.seconds + report.sampling_seconds for report in reports),
        "cpu_seconds": cpu_seconds,
        "phases": [dataclasses.asdict(report) for report in reports],
    }
    return json.dumps(record, indent=1) + "\n"


def _phase_line(number: int, report: _PhaseReport) -> str:
    text = f"phase {number}: {report.tokens:,} tokens in {report.seconds:,.0f} s, loss {report.losses[-1][1]:.3f}"
    if report.sampled is None:
        return text
    return f"{text}; {report.sampled:.1%} of the sampled attempts were right ({report.sampling_seconds:,.0f} s)"


def _matrix_precision(device: str) -> Any:
    """The precision in which matrices are multiplied: bfloat16, but float32 on CPUs without bfloat16, where that takes
    several times as long.
    """
    import torch

    slow = device == "cpu" and not (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return torch.float32 if slow else torch.bfloat16


def _orthogonal(matrix: Any, precision: Any) -> Any:
    """A matrix with the same singular vectors and singular values near 1: five quintic Newton-Schulz iterations, which
    torch's Muon has in bfloat16 alone.
    """
    import torch

    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    wide = wide.to(precision)
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=-4.775, alpha=2.0315), wide, beta=3.4445)
    return wide.T if matrix.shape[0] > matrix.shape[1] else wide


class _Optimizer:
    """Two optimizers used as one, whose learning rate is set for each step by the schedule."""

    def __init__(self, model: Any, schedule: LearningRateSchedule) -> None:
        import torch

        matrices: list[Any] = []
        others: list[Any] = []
        for name, weight in model.named_parameters():
            is_matrix = weight.dim() == 2 and "embed_tokens" not in name and "lm_head" not in name
            (matrices if is_matrix else others).append(weight)
        self.schedule, self.matrices = schedule, matrices
        self.weights = [*matrices, *others]
        self.precision = _matrix_precision(model.device.type)
        self.momenta = [torch.zeros_like(matrix) for matrix in matrices]
        self.others = torch.optim.AdamW(others, lr=schedule.rate, betas=(0.9, 0.98), weight_decay=0.0)

    def step(self, number: int, progress: float) -> None:
        """Takes one step with the current gradients. number: from 0; progress: share of all tokens trained before."""
        import torch

        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        rate = _rate_at(self.schedule, number, progress)
        for group in self.others.param_groups:
            group["lr"] = rate
        self.others.step()
        self._step_matrices(rate)
        for weight in self.weights:
            weight.grad = None

    def _step_matrices(self, rate: float) -> None:
        """A step of Muon with Nesterov momentum, whose updates have the size of AdamW's."""
        import torch

        with torch.no_grad():
            for weight, momentum in zip(self.matrices, self.momenta, strict=True):
                momentum.lerp_(weight.grad, 0.05)
                update = _orthogonal(weight.grad.lerp(momentum, 0.95), self.precision)
                weight.mul_(1 - rate * self.schedule.weight_decay)
                weight.add_(update, alpha=-rate * 0.2 * max(weight.shape) ** 0.5)


def _rate_at(schedule: LearningRateSchedule, number: int, progress: float) -> float:
    """The learning rate at step `number` (from 0), with `progress` in [0, 1): it rises in a line, then falls to 0."""
    warm = min(1.0, (number + 1) / (schedule.warmup + 1))
    return schedule.rate * warm * max(0.0, 1.0 - progress)
