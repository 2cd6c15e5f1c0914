"""Samples of the model at hand on new questions: what it learns to revise, to judge and to choose from."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from generate.engines import open_engine
from generate.engines.base import Call, CallFailure
from generate.tasks import Item
from generate.tasks.formats import fill
from generate.training.llama import save_model
from generate.training.model_recipe import Attempts
from generate.training.texts import Attempted, attempted
from toolkit.errors import ThinkbackError


def sample_attempts(
    model: Any, tokenizer: Any, questions: Iterator[Item], wanted: Attempts, seed: int
) -> list[Attempted]:
    """Attempts at the next `wanted.questions` questions, by the engine that a recipe would ask.

    Each question gets `wanted.samples` whole attempts, and one that is cut off where `wanted.short` names limits.
    """
    items = list(islice(questions, wanted.questions))
    shorts = cycle(wanted.short)
    heats = tuple(islice(cycle(wanted.temperatures), wanted.samples))
    calls = []
    for number, item in enumerate(items):
        prompt = fill("solve", question=item.question)
        seeds = tuple((seed * len(items) + number) * (wanted.samples + 1) + index for index in range(len(heats)))
        calls.append(Call(f"{number} whole", prompt, seeds, heats, wanted.max_tokens))
        if wanted.short:
            calls.append(Call(f"{number} short", prompt, (seeds[-1] + 1,), heats[:1], int(next(shorts))))
    made: list[list[str]] = [[] for _ in items]
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, tokenizer, Path(folder) / "model")
        engine = open_engine("transformers", {"model": str(Path(folder) / "model"), "batch_size": 256})
        for call, outcome in engine.run(calls):
            if isinstance(outcome, CallFailure):
                raise ThinkbackError(f"the model can't answer a question of its own task: {outcome.reason}")
            made[int(call.key.split()[0])] += [completion.text for completion in outcome]
        engine.close()
    return [attempted(item, attempts) for item, attempts in zip(items, made, strict=True)]
