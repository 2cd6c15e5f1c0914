"""Training rows of a classifier out of a log: texts, labels, and the split by example."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import polars as pl

from generate.classifier.classifier_recipe import FIX, ClassifierRecipe
from generate.engines.base import Prompt
from generate.traces.block import TRACE_FIELDS, blocks, check_fields, prompt_about
from toolkit.errors import ThinkbackError, suggest
from toolkit.log import Log, collect

BLOCK = 8_192


@dataclass(frozen=True)
class TrainingRows:
    """Prompts and labels of traces. labels: (n,) float64 in [0, 1]; examples: (n,) their ids; dev: (n,) held out."""

    prompts: tuple[Prompt, ...]
    labels: np.ndarray
    examples: np.ndarray
    dev: np.ndarray


def labelled(log: Log, recipe: ClassifierRecipe) -> pl.DataFrame:
    """(trace_id, example_id, label) of the traces that have one. ThinkbackError where none has, or all the same."""
    training = recipe.training
    columns = ["trace_id", "example_id", "pool", "action", "parent_id", "correct"]
    examples = collect(log.scan("examples", ["example_id", "split", "dataset"]), log)
    traces = collect(log.scan("traces", columns), log).join(examples, on="example_id")
    for name, column in (("split", "split"), ("pools", "pool"), ("dataset", "dataset")):
        for value in getattr(training, name):
            if value not in traces[column]:
                there = traces[column].unique()
                raise ThinkbackError(f"`classifier.{name}`: `{value}` is not in the log; {suggest(value, there)}")
    inside = traces
    for name in ("split", "dataset"):
        given = list(getattr(training, name))
        inside = inside.filter(pl.col(name).is_in(given)) if given else inside
    if training.target == "correct":
        chosen = inside.filter(pl.col("correct").is_not_null()).with_columns(label=pl.col("correct").cast(pl.Float64))
    else:
        chosen = _fixes(inside, training.target.removeprefix(FIX))
    if training.pools:
        chosen = chosen.filter(pl.col("pool").is_in(list(training.pools)))
    if not chosen.height:
        raise ThinkbackError(f"`classifier`: no trace of the log has a label for the target `{training.target}`")
    if chosen["label"].n_unique() < 2:
        raise ThinkbackError(
            f"`classifier`: all {chosen.height:,} traces have the same label for `{training.target}`: there is nothing"
            " to learn"
        )
    return chosen.select("trace_id", "example_id", "label").sort("example_id", "trace_id")


def _fixes(traces: pl.DataFrame, action: str) -> pl.DataFrame:
    """The traces that `action` revised; label: the share of its rollouts that are right where the trace is wrong."""
    revisions = traces.filter((pl.col("action") == action) & pl.col("correct").is_not_null())
    if not revisions.height:
        there = traces.filter(pl.col("action") != "solve")["action"].unique()
        raise ThinkbackError(f"`classifier.target`: the log has no revisions `{action}`; {suggest(action, there)}")
    share = revisions.group_by(trace_id="parent_id").agg(right=pl.col("correct").cast(pl.Float64).mean())
    judged = traces.filter(pl.col("correct").is_not_null()).join(share, on="trace_id")
    return judged.with_columns(label=pl.when(pl.col("correct")).then(0.0).otherwise(pl.col("right")))


def held_out(examples: np.ndarray, share: float, seed: int) -> np.ndarray:
    """(n,) whether each row's example is held out: about `share` of them, the same whatever else is in the log."""
    drawn = {
        name: int.from_bytes(hashlib.sha256(f"{seed}\0dev\0{name}".encode()).digest()[:8], "big") / 2**64
        for name in np.unique(examples)
    }
    return np.array([drawn[name] < share for name in examples])


def training_rows(log: Log, recipe: ClassifierRecipe) -> TrainingRows:
    """The rows to train on and those held out. ThinkbackError where a side is empty or knows one class only."""
    check_fields(recipe.template, log, TRACE_FIELDS)
    chosen = labelled(log, recipe)
    label_of = dict(zip(chosen["trace_id"], chosen["label"], strict=True))
    prompts, labels, examples = [], [], []
    for block in blocks(log, chosen.select("example_id", "trace_id"), BLOCK):
        for row in block.rows:
            prompts.append(prompt_about(recipe.template, block, row))
            labels.append(label_of[row["trace_id"]])
            examples.append(row["example_id"])
    rows = TrainingRows(tuple(prompts), np.array(labels), np.array(examples, dtype=object), np.zeros(0, bool))
    dev = held_out(rows.examples, recipe.training.dev, recipe.seed)
    for side, mask in (("training", ~dev), ("development", dev)):
        if not mask.any() or len(np.unique(rows.labels[mask] >= 0.5)) < 2:
            raise ThinkbackError(
                f"`classifier`: the {side} examples ({len(np.unique(rows.examples[mask]))}) do not hold both labels of"
                f" `{recipe.training.target}`: train on a larger log, or change `dev` or `seed`"
            )
    return TrainingRows(rows.prompts, rows.labels, rows.examples, dev)
