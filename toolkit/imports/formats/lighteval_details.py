"""lighteval's details, `details/{model}/{time}/details_{task}_{time}.parquet`: one row for each question.

One row for each sample. The metrics are of a whole question, so they are the verdict only where it has one sample;
otherwise the answers are read from the samples. Where a task compares the log-probabilities of its choices, the answer
is the number of the most likely one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from toolkit.errors import FormatError
from toolkit.imports.files.listing import ListedFile
from toolkit.imports.formats.file_rows import list_at, named_part, number, object_at, table_rows, text, value_at
from toolkit.imports.formats.judging import UNREAD, as_verdict, read_gold, verdict_metric, with_answers
from toolkit.imports.formats.prepared import FileNote, PreparedRows, Row, distinct_pools

_NAME = re.compile(r"details_(.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?\.(?:parquet|pq)", re.IGNORECASE)


def prepare(files: Sequence[ListedFile]) -> Iterator[PreparedRows]:
    """Yields the rows of each file. The model is the name of the folders above the file."""
    tasks = [named_part(_NAME, file) for file in files]
    models = [_model_name(file) for file in files]
    named = list(zip(models, tasks, [f"{PurePosixPath(file.place).parent}/" for file in files], strict=True))
    if len(set(named)) < len(files):  # runs of one task in one folder, which their names alone tell apart
        named = list(zip(models, tasks, [file.path for file in files], strict=True))
    for file, task, model, pool in zip(files, tasks, models, distinct_pools(named), strict=True):
        metric = verdict_metric(object_at(row, "metric") for row in _rows(file, task))
        notes: list[FileNote] = []
        rows = with_answers(_rows_judged_by(file, task, metric, notes))
        yield PreparedRows(file, ({**row, "model": model, "pool": pool} for row in rows), notes)


def _model_name(file: ListedFile) -> str:
    """The model's name: all folders between `details` and the time, since a model's name may have a slash."""
    folders = PurePosixPath(file.place).parts[:-2]
    after = [place for place, folder in enumerate(folders) if folder == "details"]
    return "/".join(folders[after[-1] + 1 :]) if after and folders[after[-1] + 1 :] else file.folder or "lighteval"


def _rows(file: ListedFile, task: str) -> Iterator[dict[str, Any]]:
    for place, row in enumerate(table_rows(file), 1):
        for name in ("doc", "model_response"):
            if not isinstance(row.get(name), dict):
                raise FormatError(
                    f"`{file.address}`, row {place}: `{name}` must be an object: lighteval writes text where the"
                    f" rows of {task} are of several types, which is not read"
                )
        yield row


def _rows_judged_by(file: ListedFile, task: str, metric: str | None, notes: list[FileNote]) -> Iterator[Row]:
    judged = False
    for row in _rows(file, task):
        for sample in _samples(row, task, metric):
            judged = judged or sample["correct"] is not None
            yield sample
    if judged:
        notes.append(FileNote(task, f"the verdicts are those of `{metric}`"))


def _samples(row: dict[str, Any], task: str, metric: str | None) -> Iterator[Row]:
    doc, response = row["doc"], row["model_response"]
    texts = list_at(response, "text")
    common = {
        "task": task,
        "doc_id": text(doc.get("id")) or text(doc.get("query")),
        "query": text(doc.get("query")),
        "prompt_tokens": len(list_at(response, "input_tokens")) or None,
    }
    verdict_ = as_verdict(value_at(row, "metric", metric)) if metric is not None else None
    gold = _gold_choice(doc)
    if not texts:
        likely = [number(value) for value in list_at(response, "logprobs")]
        known = [value for value in likely if value is not None]
        best = likely.index(max(known)) if known else None
        indices = _right_choices(doc)
        yield {**common, "index": 0, "gold": str(indices[0]) if indices else None,
               "answer": None if best is None else str(best), "correct": verdict_,
               "sum_logprob": None if best is None else likely[best]}  # fmt: skip
        return
    for index, sample in enumerate(texts):
        tokens = value_at(response.get("output_tokens"), index)
        yield {
            **common,
            "index": index,
            "gold": gold,
            "text": text(sample),
            "answer": UNREAD,
            "correct": verdict_ if len(texts) == 1 else None,
            "completion_tokens": len(tokens) if isinstance(tokens, list) else None,
        }


def _right_choices(doc: dict[str, Any]) -> list[int]:
    given = doc.get("gold_index")
    return [one for one in (given if isinstance(given, list) else [given]) if isinstance(one, int)]


def _gold_choice(doc: dict[str, Any]) -> str | None:
    """The first of the right choices."""
    indices = _right_choices(doc)
    return read_gold(text(value_at(doc.get("choices"), indices[0]))) if indices else None
