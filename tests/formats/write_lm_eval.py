"""lm-evaluation-harness writes its own files: `python write_lm_eval.py FOLDER`, in an environment that has lm-eval.

No model is needed: the replies are given. `expected.json` says what the harness itself found.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lm_eval
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker

QUESTIONS = [("2 + 2?", "So it is 4 #### 4"), ("3 * 7?", "#### 21"), ("5 - 1?", "#### 4")]
REPLIES = {"2 + 2?": ["It is 4", "5", "4", "4 or 4"], "3 * 7?": ["It is 20", "21", "#### 21", "no"],
           "5 - 1?": ["4.", "4", "40", "five"]}  # fmt: skip
CHOICES = [("The sky is", ["green", "blue"], 1), ("Grass is", ["green", "blue"], 0), ("Snow is", ["white", "red"], 0)]
LIKELY = {" green": -1.0, " blue": -2.5, " white": -0.5, " red": -3.0}
NUMBER = {"function": "regex", "regex_pattern": r"(-?[0-9.,]+)", "group_select": -1}


class Canned(LM):
    """Gives each prompt its replies in turn, and each choice its log-probability."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, int] = {}

    def generate_until(self, requests, disable_tqdm=False):
        made = []
        for request in requests:
            prompt = request.args[0]
            place = self.asked.get(prompt, 0)
            self.asked[prompt] = place + 1
            made.append(REPLIES[prompt][place % len(REPLIES[prompt])])
        return made

    def loglikelihood(self, requests, disable_tqdm=False):
        return [(LIKELY[request.args[1]], False) for request in requests]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        raise NotImplementedError


def tasks(folder: Path) -> list[dict]:
    """One reply with two filters; four replies; choices."""
    asked, chosen = folder / "asked.jsonl", folder / "chosen.jsonl"
    asked.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in QUESTIONS))
    chosen.write_text("".join(json.dumps({"stem": s, "choices": c, "right": r}) + "\n" for s, c, r in CHOICES))
    data = {"dataset_path": "json", "test_split": "test"}
    sums = {
        **data,
        "dataset_kwargs": {"data_files": {"test": str(asked)}},
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer.split('####')[-1].strip()}}",
        "generation_kwargs": {"until": ["\n\n"], "do_sample": True, "temperature": 0.7},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }
    strict = {"name": "strict", "filter": [{**NUMBER, "regex_pattern": r"^(-?[0-9]+)$"}, {"function": "take_first"}]}
    flexible = {"name": "flexible", "filter": [NUMBER, {"function": "take_first"}]}
    choices = {
        **data,
        "task": "colours",
        "dataset_kwargs": {"data_files": {"test": str(chosen)}},
        "output_type": "multiple_choice",
        "doc_to_text": "{{stem}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{right}}",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    }
    return [
        {**sums, "task": "sums", "filter_list": [flexible, strict]},
        {**sums, "task": "sums_repeated", "repeats": 4, "filter_list": [flexible]},
        choices,
    ]


def main(folder: Path) -> None:
    """Evaluate and let the harness write its samples."""
    folder.mkdir(parents=True, exist_ok=True)
    tracker = EvaluationTracker(output_path=str(folder))
    found = lm_eval.simple_evaluate(Canned(), tasks=tasks(folder), log_samples=True, bootstrap_iters=0)
    tracker.general_config_tracker.model_name_sanitized = "canned__model"
    samples_of = found.pop("samples")
    tracker.save_results_aggregated(results=found, samples=samples_of)
    for task, samples in samples_of.items():
        tracker.save_results_samples(task_name=task, samples=samples)
    expected = {task: {name: value for name, value in metrics.items() if isinstance(value, float)}
                for task, metrics in found["results"].items()}  # fmt: skip
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
