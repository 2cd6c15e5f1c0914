"""A small log of sums, written by hand, and the recipes and prompts that add to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from toolkit.log import Log, write_log

PROMPTS = {
    "solve.txt": "sum: {{question}}\n",
    "check.txt": "sum: {{question}}\n{{attempt}}\ncheck:\n",
    "score.txt": "sum: {{question}}\n{{attempt}}\nscore:\n",
    "sure.txt": "sum: {{question}}\n{{attempt}}\nsure 1-10:\n",
    "best.txt": "sum: {{question}}\n{{attempts}}\nbest:\n",
    "class.txt": "{{question}} {{answer}}\n{{attempt}}",
}
SOURCE = {
    "prompts": {"solve.txt": "sum: {{question}}", "check.txt": "sum: {{question}}\n{{attempt}}\ncheck:"},
    "pools": {"votes": {"prompt": "solve.txt"}, "verify": {"prompt": "check.txt"}},
}


def make_rows(examples: int = 6, votes: int = 4) -> dict[str, pl.DataFrame]:
    """Tables of sums: `votes` attempts each, one of them revised. Every third attempt is off by one."""
    asked, traces = [], []
    for number in range(examples):
        name = f"s{number:03d}"
        total = 4 * number + 1
        asked.append({
            "example_id": name, "dataset": "sums", "split": ("train", "test")[number % 2],
            "question": f"{number} + {3 * number + 1}", "gold": str(total),
            "evidence": [f"the sum of {number} and {3 * number + 1} is {total}.", "sums are numbers."],
        })  # fmt: skip
        for index in range(votes):
            answer = str(total + ((number + index) % 3 == 0))
            text = f"{number} and {3 * number + 1}" + " more" * (index % 3) + f": {answer}"
            traces.append(_trace(name, "votes", index, text, answer, answer == str(total), None))
        first = traces[-votes]
        fixed = str(total) if number % 4 else str(total + 1)
        traces.append(_trace(name, "verify", 0, f"so {fixed}", fixed, fixed == str(total), first["trace_id"]))
    return {"examples": pl.DataFrame(asked), "traces": pl.DataFrame(traces, schema_overrides={"parent_id": pl.String})}


def _trace(
    example: str, pool: str, index: int, text: str, answer: str, correct: bool, parent: str | None
) -> dict[str, Any]:
    return {
        "trace_id": f"{example}/{pool}/{index}", "example_id": example, "pool": pool,
        "action": "solve" if parent is None else "active_verify", "parent_id": parent, "sample_index": index,
        "model": "hand", "text": text, "answer": answer, "correct": correct, "prompt_tokens": 10,
        "completion_tokens": len(text) + 1, "finish_reason": "stop", "finalizer_used": False,
        "sum_logprob": -0.5 * (len(text) + 1), "token_logprobs": [-0.5] * 4,
    }  # fmt: skip


def make_log(path: Path, count: int = 6, votes: int = 4, source: Any = SOURCE, **changed: pl.DataFrame) -> Log:
    """The log of sums, sealed."""
    tables = {**make_rows(count, votes), **changed}
    return write_log(path, name="sums", tables=tables, source=source)


def write_recipe(folder: Path, text: str, name: str = "add.toml") -> Path:
    """A recipe with its prompts in a folder."""
    for file, prompt in PROMPTS.items():
        (folder / file).write_text(prompt, encoding="utf-8")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
