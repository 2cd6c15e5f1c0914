"""HELM's runs: folders with `scenario_state.json` (requests and completions) and `per_instance_stats.json` (metrics).

One row for each completion. The verdict is the first metric of `VERDICTS` that the run has, where an instance has one
completion; of several completions HELM keeps no verdicts, and their answers are compared with the reference. HELM keeps
no answers: they are read from the completions, whose whole text is one where it has none that is marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from toolkit.answers import read_answers
from toolkit.errors import NotFoundError, UnsuitableError
from toolkit.imports.files.listing import ListedFile
from toolkit.imports.formats.file_rows import (
    as_count,
    list_at,
    number,
    objects_at,
    parse_json,
    parse_object,
    text,
    value_at,
)
from toolkit.imports.formats.judging import UNREAD, with_answers
from toolkit.imports.formats.prepared import FileNote, PreparedRows, Row, distinct_pools

STATE, STATS, SPEC = "scenario_state.json", "per_instance_stats.json", "run_spec.json"
VERDICTS = (
    "math_equiv_chain_of_thought", "math_equiv", "final_number_exact_match", "exact_match_indicator",
    "quasi_exact_match", "exact_match", "quasi_prefix_exact_match", "prefix_exact_match",
)  # fmt: skip
Stats = Mapping[tuple[str, int, str], Mapping[str, float]]


def prepare(files: Sequence[ListedFile]) -> Iterator[PreparedRows]:
    """Yields the rows of each HELM run, with the statistics from the same folder."""
    by_path = {file.path: file for file in files}
    states = [file for file in files if file.name == STATE]
    if not states:
        raise NotFoundError(f"no run of HELM among the sources: none has a {STATE}; name the folders of the runs")
    loaded = []
    for file in states:
        beside = {name: by_path.get(str(PurePosixPath(file.path).with_name(name))) for name in (STATS, SPEC)}
        loaded.append((file, _dataset_name(file, beside[SPEC]), beside[STATS]))
    models = [text(value_at(parse_object(file, file.read()), "adapter_spec", "model")) or "helm" for file in states]
    named = [(model, dataset, file.path) for model, (file, dataset, _) in zip(models, loaded, strict=True)]
    for (file, dataset, stats), model, pool in zip(loaded, models, distinct_pools(named), strict=True):
        notes: list[FileNote] = []
        if stats is None:
            lack = f"no {STATS} beside it, so HELM's verdicts and counts of tokens are missing"
            notes.append(FileNote(f"`{file.path}`", lack))
        rows = _rows(file, dataset, model, pool, _mean_metrics(stats), notes)
        yield PreparedRows(file, map(_row_with_answer, with_answers(rows)), notes)


def _row_with_answer(row: Row) -> Row:
    """The row with an answer: the completion's text, where HELM judged it and it has no marked answer."""
    if row["answer"] is not None or row["correct"] is None:
        return row
    return {**row, "answer": (row["text"] or "").strip() or None}


def _dataset_name(file: ListedFile, spec: ListedFile | None) -> str:
    """The data set of a run: the run's name without the model, such as `mmlu:subject=anatomy`."""
    name = text(value_at(parse_object(spec, spec.read()), "name")) if spec is not None else None
    scenario, _, arguments = (name or file.folder or "helm").partition(":")
    settings = [part for part in arguments.split(",") if part and not part.startswith("model=")]
    return f"{scenario}:{','.join(settings)}" if settings else scenario


def _mean_metrics(file: ListedFile | None) -> Stats:
    """The mean of each metric, by instance, trial and perturbation."""
    if file is None:
        return {}
    stats: dict[tuple[str, int, str], dict[str, float]] = {}
    for entry in objects_at({"items": parse_json(file, file.read())}, "items"):
        means = {
            text(value_at(stat, "name", "name")) or "": number(stat.get("mean")) for stat in objects_at(entry, "stats")
        }
        known = {name: mean for name, mean in means.items() if mean is not None}
        stats.setdefault(_instance_key(entry, entry.get("instance_id")), {}).update(known)
    return stats


def _instance_key(entry: Mapping[str, Any], instance: Any) -> tuple[str, int, str]:
    perturbed = value_at(entry, "perturbation", "name") or value_at(entry, "instance", "perturbation", "name")
    return text(instance) or "", as_count(entry.get("train_trial_index")) or 0, text(perturbed) or ""


def _rows(file: ListedFile, dataset: str, model: str, pool: str, stats: Stats, notes: list[FileNote]) -> Iterator[Row]:
    verdict = next((name for name in VERDICTS if any(name in means for means in stats.values())), None)
    requests = objects_at(parse_object(file, file.read()), "request_states")
    references = pl.Series([_gold_reference(request) for request in requests], dtype=pl.String)
    marked = read_answers(references, ["boxed", "####", "answer is"])
    for request, gold in zip(requests, marked.zip_with(marked.is_not_null(), references), strict=True):
        if request.get("reference_index") is not None:
            raise UnsuitableError(
                f"`{file.address}` asks about each choice apart (multiple_choice_separate), so no completion is an"
                " answer: only runs that generate are imported"
            )
        about = {"dataset": dataset, "model": model, "pool": pool, "gold": gold}
        yield from _completion_rows(request, about, stats, verdict)
    if verdict is not None:
        notes.append(FileNote("", f"HELM's verdicts come from `{verdict}`"))


def _completion_rows(request: Mapping[str, Any], about: Row, stats: Stats, verdict: str | None) -> Iterator[Row]:
    instance, trial, perturbed = key = _instance_key(request, value_at(request, "instance", "id"))
    means = stats.get(key, {})
    completions = objects_at(request, "result", "completions")
    single = len(completions) == 1
    score = means.get(verdict) if verdict and single else None
    texts = [text(completion.get("text")) for completion in completions]
    for index, completion in enumerate(completions):
        counted = as_count(means.get("num_completion_tokens")) if single else None
        yield {
            **about,
            "pool": f"{about['pool']} trial {trial}" if trial else about["pool"],
            "id": f"{instance}~{perturbed}" if perturbed else instance,
            "split": text(value_at(request, "instance", "split")) or "test",
            "input": text(value_at(request, "instance", "input", "text")),
            "index": index,
            "text": texts[index],
            "answer": UNREAD,
            "correct": None if score is None else score >= 1,
            "finish_reason": text(value_at(completion, "finish_reason", "reason")),
            "sum_logprob": number(completion.get("logprob")) or None,
            "prompt_tokens": as_count(means.get("num_prompt_tokens")),
            "completion_tokens": len(objects_at(completion, "tokens")) or counted or None,
            "seconds": number(value_at(request, "result", "request_time")) if single else None,
            "temperature": number(value_at(request, "request", "temperature")),
        }


def _gold_reference(request: Mapping[str, Any]) -> str | None:
    """The reference that is tagged correct, or its letter where the choices were shown with letters."""
    right = [item for item in objects_at(request, "instance", "references") if "correct" in list_at(item, "tags")]
    answer = text(value_at(right, 0, "output", "text"))
    letters = request.get("output_mapping")
    if isinstance(letters, Mapping):
        return next((letter for letter, choice in letters.items() if choice == answer), answer)
    return answer
