"""Plain scripts that read each format's samples without us: what `import` must find in them.

A trace is (example, pool, index, right, prompt tokens, completion tokens).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

Trace = tuple[str, str, int, bool | None, int | None, int | None]
SAMPLES = Path(__file__).parent / "samples"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def gold_of(folder: Path, key: str) -> dict[str, str]:
    with (folder / "gold.csv").open() as file:
        return {row[key]: row["gold"] for row in csv.DictReader(file)}


def said(text: str) -> Fraction | None:
    """The number that a text of the samples ends up with: boxed, after ####, else the last one."""
    marked = re.findall(r"boxed\{(.+)\}", text) or re.findall(r"#### ?([\d.]+)", text) or re.findall(r"\d+", text)
    plain = re.sub(r"\\frac\{?(\d)\}?\{?(\d)\}?", r"\1/\2", marked[-1]) if marked else ""
    return Fraction(plain) if plain else None


def inspect(folder: Path) -> list[Trace]:
    expected = json.loads((folder / "expected.json").read_text())
    names = {form: next((folder / form).iterdir()).name for form in expected}
    return [
        (row["id"], f"mockllm/model ({form}/{names[form]})", row["epoch"] - 1, row["correct"], *row["tokens"])
        for form in expected
        for row in expected[form]["rows"]
    ]


def lm_eval(folder: Path) -> list[Trace]:
    found: list[Trace] = []
    for path in sorted(folder.glob("*/samples_*.jsonl")):
        task = path.name.removeprefix("samples_").split("_2")[0]
        rows = [row for row in lines(path) if row["filter"] in ("flexible", "none")]
        for row in rows:
            replies = row["resps"][0] if task.startswith("sums") else [None]
            for index, reply in enumerate(replies):
                metric = row.get("exact_match", row.get("acc"))
                right = bool(metric) if len(replies) == 1 else said(reply) == Fraction(row["target"])
                found.append((f"{task}/{row['doc_id']}", path.parent.name, index, right, None, None))
    return found


def openai_batch(folder: Path) -> list[Trace]:
    gold, found = gold_of(folder, "custom_id"), []
    for row in lines(folder / "results.jsonl"):
        body = row["response"]["body"]
        for choice in body.get("choices", []):
            logprobs = choice["logprobs"] and len(choice["logprobs"]["content"])
            tokens = body["usage"]["completion_tokens"] if len(body["choices"]) == 1 else logprobs
            right = said(choice["message"]["content"]) == Fraction(gold[row["custom_id"]])
            place = (row["custom_id"], body["model"], choice["index"])
            found.append((*place, right, body["usage"]["prompt_tokens"], tokens))
    return found


def vllm(folder: Path) -> list[Trace]:
    gold = gold_of(folder, "request_id")
    return [
        (
            row["request_id"], "vllm", out["index"], said(out["text"]) == Fraction(gold[row["request_id"]]),
            len(row["prompt_token_ids"]), len(out["token_ids"]),
        )
        for row in lines(folder / "outputs.jsonl")
        for out in row["outputs"]
    ]  # fmt: skip


def nemo_skills(folder: Path) -> list[Trace]:
    found: list[Trace] = []
    for path in folder.glob("*/output*.jsonl"):
        seed = re.search(r"-rs(\d+)", path.name)
        for row in lines(path):
            pool = "nemo-skills" if seed else "nemo-skills greedy"
            example = f"{path.parent.name}/{row['id']}"
            index = int(seed[1]) if seed else 0
            found.append((example, pool, index, row["symbolic_correct"], None, row["num_generated_tokens"]))
    return found


def lighteval(folder: Path) -> list[Trace]:
    found: list[Trace] = []
    for path in folder.glob("*.json"):
        for row in json.loads(path.read_text()):
            texts = row["model_response"]["text"] or [None]
            for index, text in enumerate(texts):
                single = row["metric"].get("extractive_match", row["metric"].get("acc"))
                right = bool(single) if len(texts) == 1 else said(text) == Fraction(row["doc"]["choices"][0])
                tokens = len(row["model_response"]["output_tokens"][index]) if text else None
                found.append((f"{path.stem}|0/{row['doc']['id']}", "org/model", index, right, 3, tokens))
    return found


def evalplus(folder: Path) -> list[Trace]:
    (path,) = folder.glob("*.json")
    return [
        (
            task, path.name.removesuffix(".eval_results.json"), index,
            run["base_status"] == run["plus_status"] == "pass", None, None,
        )
        for task, runs in json.loads(path.read_text())["eval"].items()
        for index, run in enumerate(runs)
    ]  # fmt: skip


def helm(folder: Path) -> list[Trace]:
    stats = json.loads((folder / "run" / "per_instance_stats.json").read_text())
    means = {one["instance_id"]: {stat["name"]["name"]: stat["mean"] for stat in one["stats"]} for one in stats}
    return [
        (
            f"colours:subject=nature/{name}", "openai/gpt2", 0, bool(mean["exact_match"]),
            int(mean["num_prompt_tokens"]), int(mean["num_completion_tokens"]),
        )
        for name, mean in means.items()
    ]  # fmt: skip


def matharena(folder: Path) -> list[Trace]:
    return [
        (
            f"problem-{row['problem_idx']}", row["model_name"], row["idx_answer"], row["correct"], row["input_tokens"],
            row["output_tokens"],
        )
        for row in json.loads((folder / "rows.json").read_text())
    ]  # fmt: skip


def search_and_learn(folder: Path) -> list[Trace]:
    found: list[Trace] = []
    for approach in ("best_of_n", "dvts"):
        for row in lines(folder / f"{approach}_completions.jsonl"):
            for index, text in enumerate(row["completions"]):
                tokens = row["completion_tokens"][index] if approach == "best_of_n" else None
                right = said(text) == said(f"boxed{{{row['answer']}}}")
                found.append((row["unique_id"], approach, index, right, None, tokens))
    return found


def verl(folder: Path) -> list[Trace]:
    found: list[Trace] = []
    for path in folder.glob("*.jsonl"):
        seen: dict[str, int] = {}
        for row in lines(path):
            question = row["input"]
            index = seen[question] = seen.get(question, -1) + 1
            found.append((question, f"step {row['step']}", index, row["score"] >= 1, None, None))
    return found


READERS: dict[str, Callable[[Path], list[Trace]]] = {
    "inspect": inspect, "lm-eval": lm_eval, "openai-batch": openai_batch, "vllm": vllm, "nemo-skills": nemo_skills,
    "lighteval": lighteval, "evalplus": evalplus, "helm": helm, "matharena": matharena,
    "search-and-learn": search_and_learn, "verl": verl,
}  # fmt: skip
