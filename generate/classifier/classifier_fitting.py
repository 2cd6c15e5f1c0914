"""Training a classifier: one output, binary cross-entropy, LoRA or all weights, best epoch kept, early stopping.

The thesis on efficient fact-checking (2026, section 4.5 and table A.2) has rank 8, alpha 16 and a sigmoid score; SeVRA
(2026, appendix C) weights the positive class by negatives over positives, splits by example, 80 to 20, and keeps the
checkpoint with the best AUPRC on the held-out examples. Bases in 4 bits are NF4 with double quantisation.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from generate.classifier.classifier_recipe import FIX, ClassifierRecipe, ClassifierTraining
from generate.engines.base import Prompt
from generate.engines.weights import (
    LoadOptions,
    find_model,
    load_network,
    load_tokenizer,
    platform_versions,
    require_extra,
)
from generate.passes.batching import TokenIds, length_batches
from generate.passes.reader import Reader
from generate.signals.sequence_classifier import SETTINGS_FILE, silence_warnings
from generate.traces.block import TRACE_FIELDS, check_fields, prompt_about, trace_blocks
from toolkit.errors import EmptyError, InvalidError, UnknownError, UnsuitableError, suggest
from toolkit.files import replacing
from toolkit.log import Log, collect
from toolkit.progress import Advance, no_progress

BLOCK = 8_192


@dataclass(frozen=True)
class _TrainingRows:
    """Data to train a classifier on. labels: (n,) float64 in [0, 1]; examples: (n,) ids; dev: (n,) if held out; counts:
    of all rows and of those that balancing left, right and wrong.
    """

    prompts: tuple[Prompt, ...]
    labels: np.ndarray
    examples: np.ndarray
    dev: np.ndarray
    counts: Mapping[str, Mapping[str, int]]


def labelled_traces(log: Log, recipe: ClassifierRecipe) -> pl.DataFrame:
    """The traces with a label: (trace_id, example_id, label). ThinkbackError where none has one, or all the same."""
    training = recipe.training
    verdict = "correct" if training.target.startswith(FIX) else training.target
    if verdict not in log.columns("traces"):
        raise UnsuitableError(f"`classifier.target`: the log's traces have no column `{verdict}`")
    columns = list(dict.fromkeys(["trace_id", "example_id", "pool", "action", "parent_id", "correct", verdict]))
    examples = collect(log.scan("examples", ["example_id", "split", "dataset"]), log)
    traces = collect(log.scan("traces", columns), log).join(examples, on="example_id")
    chosen_by = {"split": (training.split.of, "split"), "pools": (training.pools, "pool"),
                 "dataset": (training.dataset, "dataset")}  # fmt: skip
    for name, (values, column) in chosen_by.items():
        for value in values:
            if value not in traces[column]:
                there = traces[column].unique()
                raise UnknownError(f"`classifier.{name}`: `{value}` is not in the log; {suggest(value, there)}")
    inside = traces
    for name in ("split", "dataset"):
        given = list(chosen_by[name][0])
        inside = inside.filter(pl.col(name).is_in(given)) if given else inside
    if not training.target.startswith(FIX):
        chosen = inside.filter(pl.col(verdict).is_not_null()).with_columns(label=pl.col(verdict).cast(pl.Float64))
    else:
        chosen = _revised_traces_with_labels(inside, training.target.removeprefix(FIX))
    if training.pools:
        chosen = chosen.filter(pl.col("pool").is_in(list(training.pools)))
    if not chosen.height:
        raise EmptyError(f"`classifier`: no trace of the log has a label for the target `{training.target}`")
    if chosen["label"].n_unique() < 2:
        raise UnsuitableError(
            f"`classifier`: all {chosen.height:,} traces have the same label for `{training.target}`: there is nothing"
            " to learn"
        )
    return chosen.select("trace_id", "example_id", "label").sort("example_id", "trace_id")


def _revised_traces_with_labels(traces: pl.DataFrame, action: str) -> pl.DataFrame:
    """The traces that `action` revised. label: the share of right revisions of a wrong trace, 0 of a right one."""
    revisions = traces.filter((pl.col("action") == action) & pl.col("correct").is_not_null())
    if not revisions.height:
        there = traces.filter(pl.col("action") != "solve")["action"].unique()
        raise UnknownError(f"`classifier.target`: the log has no revisions `{action}`; {suggest(action, there)}")
    share = revisions.group_by(trace_id="parent_id").agg(right=pl.col("correct").cast(pl.Float64).mean())
    judged = traces.filter(pl.col("correct").is_not_null()).join(share, on="trace_id")
    return judged.with_columns(label=pl.when(pl.col("correct")).then(0.0).otherwise(pl.col("right")))


def _is_held_out(examples: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Whether each row's example is held out, (n,): about `share` of them, chosen independently of other examples."""
    drawn = {name: _draw_number(seed, "dev", name) for name in np.unique(examples)}
    return np.array([drawn[name] < share for name in examples])


def _held_out_traces(names: Sequence[str], right: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Whether each trace is held out (n,): of right and of wrong ones (n,) the `share` that is drawn first."""
    drawn, held = np.array([_draw_number(seed, "dev", name) for name in names]), np.zeros(len(names), bool)
    for side in (np.flatnonzero(right), np.flatnonzero(~right)):
        held[side[np.argsort(drawn[side])[: round(share * len(side))]]] = True
    return held


def _draw_number(seed: int, what: str, name: str) -> float:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{what}\0{name}".encode()).digest()[:8], "big") / 2**64


def _balanced_down(chosen: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The rows with as many right ones as wrong ones: of the larger class those that are drawn first."""
    right = chosen["label"].to_numpy() >= 0.5
    drawn = np.array([_draw_number(seed, "balance", name) for name in chosen["trace_id"]])
    smaller = min(int(right.sum()), int((~right).sum()))
    keep = np.concatenate([np.flatnonzero(side)[np.argsort(drawn[side])[:smaller]] for side in (right, ~right)])
    return chosen[np.sort(keep)]


def _count_right_and_wrong(labels: np.ndarray) -> dict[str, int]:
    """How many labels (n,) are right, and how many wrong."""
    right = int((labels >= 0.5).sum())
    return {"right": right, "wrong": len(labels) - right}


def training_rows(log: Log, recipe: ClassifierRecipe) -> _TrainingRows:
    """The rows to train on and those held out. ThinkbackError where either is empty or has only one class."""
    check_fields(recipe.template, log, TRACE_FIELDS)
    chosen = labelled_traces(log, recipe)
    counts = {"generated": _count_right_and_wrong(chosen["label"].to_numpy())}
    if recipe.training.balance == "down":
        chosen = _balanced_down(chosen, recipe.seed)
    counts["balanced"] = _count_right_and_wrong(chosen["label"].to_numpy())
    label_of = dict(zip(chosen["trace_id"], chosen["label"], strict=True))
    prompts, labels, examples, traces = [], [], [], []
    for block in trace_blocks(log, chosen.select("example_id", "trace_id"), BLOCK):
        for row in block.wanted_rows:
            prompts.append(prompt_about(recipe.template, block, row))
            labels.append(label_of[row["trace_id"]])
            examples.append(row["example_id"])
            traces.append(row["trace_id"])
    if recipe.training.split.by == "trace":
        dev = _held_out_traces(traces, np.array(labels) >= 0.5, recipe.training.dev, recipe.seed)
    else:
        dev = _is_held_out(np.array(examples, dtype=object), recipe.training.dev, recipe.seed)
    rows = _TrainingRows(tuple(prompts), np.array(labels), np.array(examples, dtype=object), dev, counts)
    for side, mask in (("training", ~dev), ("development", dev)):
        if not mask.any() or len(np.unique(rows.labels[mask] >= 0.5)) < 2:
            raise UnsuitableError(
                f"`classifier`: the {side} examples ({len(np.unique(rows.examples[mask]))}) do not hold both labels of"
                f" `{recipe.training.target}`: train on a larger log, or change `dev` or `seed`"
            )
    return rows


Report = Callable[[str], None]


@dataclass(frozen=True)
class _EpochResult:
    """The result of an epoch: mean training loss, and AUPRC, AUROC and accuracy at 0.5 on the held-out rows."""

    epoch: int
    loss: float
    auprc: float
    auroc: float
    accuracy: float


@dataclass(frozen=True)
class TrainedClassifier:
    """The result of training a classifier. too_long: rows left out because the model cannot read them whole; counts:
    right and wrong traces, generated, after balancing, and of these in training and validation; both_sides: questions
    with traces on both sides.
    """

    epochs: tuple[_EpochResult, ...]
    best: int
    rows: int
    dev_rows: int
    positive: float
    too_long: int
    counts: Mapping[str, Mapping[str, int]]
    both_sides: int


def fit_classifier(
    log: Log,
    recipe: ClassifierRecipe,
    out: Path,
    *,
    say: Report | None = None,
    started: Callable[[int], Advance] | None = None,
    force: bool = False,
) -> TrainedClassifier:
    """Trains a classifier on a log and writes its folder `out`, which must not exist unless `force` replaces it. A
    failure leaves nothing.

    `say` hears a line per epoch; `started` is told how many rows there are to learn from over all epochs. The same
    recipe and log give the same weights on the same machine. ThinkbackError for unfit settings, models and logs.
    """
    require_extra("generate", "torch", "transformers", "safetensors")
    import torch

    training = recipe.training
    with replacing(out, force) as folder, torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        rows = training_rows(log, recipe)
        reader = _open_reader(recipe)
        network = _with_adapter(reader.network, training) if training.method == "lora" else reader.network
        reader.network = network
        texts = [TokenIds(tuple(reader.tokens.encode(prompt, whole=True))) for prompt in rows.prompts]
        fits = np.array([reader.unreadable_reason(text) is None for text in texts])
        if not (fits & ~rows.dev).any() or not (fits & rows.dev).any():
            raise EmptyError(
                f"`classifier`: no training or no held-out text fits the {reader.context} tokens that the model takes"
            )
        for side, mask in (("training", fits & ~rows.dev), ("held-out", fits & rows.dev)):
            if len(set((rows.labels[mask] >= 0.5).tolist())) < 2:
                raise UnsuitableError(
                    f"`classifier`: the {side} texts that the model takes whole ({reader.context} tokens) do not hold"
                    " both labels: raise `context`, or choose another model"
                )
        fitting = _ClassifierTraining(reader, recipe, texts, rows, fits)
        epochs, best = fitting.run(say or (lambda _: None), started)
        sides = {"train": fits & ~rows.dev, "validation": fits & rows.dev}
        counts = {**rows.counts, **{name: _count_right_and_wrong(rows.labels[mask]) for name, mask in sides.items()}}
        both = set(rows.examples[sides["train"]]) & set(rows.examples[sides["validation"]])
        trained = TrainedClassifier(
            tuple(epochs), best, int(sides["train"].sum()), int(sides["validation"].sum()),
            float(rows.labels[fits].mean()), int((~fits).sum()), counts, len(both),
        )  # fmt: skip
        _save_classifier(folder, reader, recipe, trained)
    return trained


def _open_reader(recipe: ClassifierRecipe) -> Reader:
    training = recipe.training
    files = find_model(recipe.resolve_model(training.model), None, download=False)
    tokens = load_tokenizer(str(files.folder))
    placing = LoadOptions(
        training.device, training.dtype, training.load_in_4bit, new_head=True, options={"num_labels": 1}
    )
    network = load_network(files, "sequence", placing, "`classifier`")
    return Reader(files, tokens, network, "sequence", training.context, training.batch_tokens, left=False)


def _with_adapter(network: Any, training: ClassifierTraining) -> Any:
    """The network with LoRA layers added. Its head is trained whole."""
    require_extra("lora", "peft")
    from peft import LoraConfig, TaskType, get_peft_model

    targets = training.adapt[0] if training.adapt == ("all-linear",) else list(training.adapt)
    config = LoraConfig(
        task_type=TaskType.SEQ_CLS, r=training.rank, lora_alpha=training.alpha, lora_dropout=training.dropout,
        target_modules=targets,
    )  # fmt: skip
    try:
        with silence_warnings():
            return get_peft_model(network, config)
    except ValueError as error:
        raise InvalidError(f"`classifier.adapt`: {str(error).splitlines()[0]}") from None


class _ClassifierTraining:
    """A training run of a classifier."""

    def __init__(
        self, reader: Reader, recipe: ClassifierRecipe, texts: list[TokenIds], rows: _TrainingRows, fits: np.ndarray
    ):
        import torch

        training = recipe.training
        self.reader, self.training, self.texts, self.labels = reader, training, texts, rows.labels
        self.fit, self.dev = np.flatnonzero(fits & ~rows.dev), np.flatnonzero(fits & rows.dev)
        self.rng = random.Random(recipe.seed)
        positive = float(rows.labels[self.fit].sum())
        negative = len(self.fit) - positive
        weight = negative / positive if training.balance == "weight" and positive else 1.0
        self.loss = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(weight, device=reader.network.device))
        moving = [p for p in reader.network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(moving, lr=training.learning_rate, weight_decay=training.weight_decay)
        steps = training.epochs * -(-len(self.fit) // training.batch)
        warm = max(1, round(training.warmup * steps))

        def learning_rate_factor(step: int) -> float:
            return min(1.0, (step + 1) / warm) * max(0.0, 1 - max(0, step - warm) / max(1, steps - warm))

        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, learning_rate_factor)

    def run(self, say: Report, started: Callable[[int], Advance] | None) -> tuple[list[_EpochResult], int]:
        """Trains all epochs and restores the best one's weights; returns (epochs, number of the best, from 1)."""
        epochs: list[_EpochResult] = []
        best, held = 0, None
        advance = started(self.training.epochs * len(self.fit)) if started is not None else no_progress
        for number in range(1, self.training.epochs + 1):
            loss = self._train_epoch(advance)
            epochs.append(self._measure_held_out(number, loss))
            value = getattr(epochs[-1], self.training.metric)
            better = not best or value > getattr(epochs[best - 1], self.training.metric)
            mark = ", the best so far" if better else ""
            say(f"epoch {number}: loss {loss:.4f}, development {self.training.metric} {value:.4f}{mark}")
            if better:
                named = self.reader.network.named_parameters()
                best, held = number, {name: p.detach().clone() for name, p in named if p.requires_grad}
            elif number - best >= self.training.patience:
                break
        self.reader.network.load_state_dict(held or {}, strict=False)
        return epochs, best

    def _train_epoch(self, advance: Advance) -> float:
        """Trains once on all rows in a new order; returns the mean loss."""
        import torch

        network, total, seen = self.reader.network.train(), 0.0, 0
        for group in self._row_batches():
            wanted = torch.tensor(self.labels[group], dtype=torch.float32, device=network.device)
            self.optimizer.zero_grad()
            done = 0
            for places in length_batches([len(self.texts[i]) for i in group], self.training.batch_tokens):
                logits = self._logits([self.texts[group[i]] for i in places])
                loss = self.loss(logits, wanted[places]) * len(places) / len(group)
                if not torch.isfinite(loss):
                    raise UnsuitableError(
                        "`classifier`: the loss is NaN or infinite: lower `learning_rate`, or change `dtype`"
                    )
                loss.backward()
                total += float(loss.detach()) * len(group)
                done += len(places)
            torch.nn.utils.clip_grad_norm_([p for p in network.parameters() if p.requires_grad], 1.0)
            self.optimizer.step()
            self.schedule.step()
            seen += done
            advance(done)
        return total / max(1, seen)

    def _row_batches(self) -> Iterator[np.ndarray]:
        """Yields batches of row numbers. With `sample` both classes come equally often, drawn anew for each epoch."""
        order = self.fit.tolist()
        if self.training.balance == "sample":
            sides = [[i for i in order if (self.labels[i] >= 0.5) == side] for side in (True, False)]
            order = [self.rng.choice(sides[place % 2]) for place in range(len(order))]
        self.rng.shuffle(order)
        for start in range(0, len(order), self.training.batch):
            yield np.array(order[start : start + self.training.batch])

    def _logits(self, texts: list[TokenIds]) -> Any:
        from generate.passes.batching import pad_batch

        padded = pad_batch(texts, self.reader.padding_id(texts), False, self.reader.network.device)
        return self.reader.network(**self.reader.forward_arguments(padded)).logits[:, 0].float()

    def _measure_held_out(self, number: int, loss: float) -> _EpochResult:
        from sklearn.metrics import average_precision_score, roc_auc_score

        from generate.passes.reader import classifier_outputs

        self.reader.network.eval()
        scores = np.zeros(len(self.dev))
        for read in self.reader.read([self.texts[i] for i in self.dev]):
            scores[list(read.places)] = classifier_outputs(read)[:, 0]
        truth = self.labels[self.dev] >= 0.5
        return _EpochResult(
            number, loss, float(average_precision_score(truth, scores)), float(roc_auc_score(truth, scores)),
            float(((scores >= 0) == truth).mean()),
        )  # fmt: skip


def _save_classifier(folder: Path, reader: Reader, recipe: ClassifierRecipe, trained: TrainedClassifier) -> None:
    """Writes the folder: weights, tokenizer, and `classifier.json` with the prompt and the course of training."""
    import torch

    network = reader.network
    if recipe.training.method == "lora" and recipe.training.keep == "merged":
        network = network.merge_and_unload()
    network.config.pad_token_id = reader.model_pad_id
    if not recipe.training.load_in_4bit:
        network = network.to(getattr(torch, recipe.training.store))
    if recipe.training.method == "lora" and recipe.training.keep == "adapter":
        network.peft_config["default"].base_model_name_or_path = reader.files.name
    with silence_warnings():
        network.save_pretrained(folder, **({"save_embedding_layers": False} if hasattr(network, "peft_config") else {}))
    reader.tokens.tokenizer.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)  # peft's model card, all placeholders
    record = {
        "made_by": "thinkback fit",
        "recipe": recipe.name,
        "seed": recipe.seed,
        "prompt": recipe.template.text,
        "base": reader.files.name,
        "base_weights_sha256": reader.files.weights_sha256(),
        "settings": {**asdict(recipe.training), "model": reader.files.name},
        "versions": platform_versions(),
        "trained": asdict(trained),
    }
    (folder / SETTINGS_FILE).write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
