"""`thinkback train`."""

from __future__ import annotations

from pathlib import Path


def train(recipe: str, out: Path, force: bool = False, compiled: bool = False) -> None:
    """Train a small model on a generated task.

    The folder holds config, tokenizer, float16 weights and `training.json`, a report of the way there.
    """
    from generate.training.model_recipe import load_training_recipe
    from generate.training.trainer import train_model
    from thinkback import console
    from toolkit.progress import progress

    read = load_training_recipe(recipe)
    with progress(f"training {read.name}", read.tokens, "tokens") as advance:
        train_model(read, out, force=force, compiled=compiled, advance=advance, say=console.say)
    console.say(f"wrote {out}: a model for the task {read.task.name}")
