"""Inspect AI writes its own logs: `python write_inspect.py FOLDER`, in an environment that has inspect-ai.

No model is needed: the replies are given. `expected.json` says what Inspect reads in its own log.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log
from inspect_ai.log._recorders.chunked import convert_eval_logs_to_chunked
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate

SAMPLES = [
    Sample(id="q1", input="2 + 2?", target="4"),
    Sample(id="q2", input="3 * 7?", target="21"),
    Sample(id=3, input="A long story, " * 40 + "so what is 5 - 1?", target="4"),
]
REPLIES = ("It is 4", "5", "It is 21. " * 30, "7", "4", "no")
NAMES = {"C": 1.0, "I": 0.0}


def output(reply: str, place: int) -> ModelOutput:
    """A reply with its tokens; one was cut off."""
    made = ModelOutput.from_content("mockllm/model", reply, stop_reason="max_tokens" if reply == "no" else "stop")
    made.usage = ModelUsage(input_tokens=10 + place, output_tokens=place, total_tokens=10 + 2 * place)
    return made


def main(folder: Path) -> None:
    """Evaluate twice and let Inspect write its log in both forms; the archive a second time, its samples in chunks."""
    expected = {}
    for form in ("eval", "json"):
        task = Task(
            dataset=MemoryDataset(SAMPLES, name="three"),
            solver=generate(),
            scorer=[match(numeric=True), includes()],
            name="sums",
        )
        model = get_model("mockllm/model", custom_outputs=[output(*pair[::-1]) for pair in enumerate(REPLIES, 1)])
        kept = {"log_dir": str(folder / form), "log_format": form, "display": "none"}
        (log,) = evaluate(task, model=model, epochs=2, max_samples=1, max_connections=1, **kept)
        rows = []
        for sample in read_eval_log(log.location, resolve_attachments=True).samples:
            usage = sample.model_usage["mockllm/model"]
            score = sample.scores["match"]
            rows.append(
                {
                    "id": f"sums/{sample.id}",
                    "epoch": sample.epoch,
                    "question": sample.input,
                    "text": sample.output.completion,
                    "answer": score.answer,
                    "correct": NAMES[score.value] == 1,
                    "tokens": [usage.input_tokens, usage.output_tokens],
                    "stop": sample.output.stop_reason,
                }
            )
        expected[form] = {"rows": rows, "mean": log.results.scores[0].metrics["accuracy"].value}
    convert_eval_logs_to_chunked(str(folder / "eval"), str(folder / "chunked"), attachments_chunk_bytes=100)
    expected["chunked"] = expected["eval"]
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
