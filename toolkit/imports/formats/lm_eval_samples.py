"""lm-evaluation-harness' `samples_{task}_{date}.jsonl`: one line for each document and filter.

One row for each response. Filters read the same responses again, so a document's responses are taken once, with the
first filter of the file. Where a document has one response, its answer is what the filter made of it, and the verdict
is a metric that is 0 or 1 throughout; a filter that keeps several responses gives each its answer. Otherwise the
answers are read from the responses. Of a multiple-choice task the answer is the number of the most likely choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from toolkit.errors import ThinkbackError
from toolkit.imports.formats.format import Format, PreparedRows, Row, told_apart
from toolkit.imports.formats.found_files import FoundFile
from toolkit.imports.formats.heads import Head
from toolkit.imports.formats.json_rows import dig, json_objects, number, text
from toolkit.imports.formats.metrics import KNOWN, verdict, verdict_metric
from toolkit.imports.formats.read_texts import UNREAD, read_gold, with_answers

_NAME = re.compile(r"samples_(.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?\.jsonl", re.IGNORECASE)
_UNFOUND = "[invalid]"
"""What a filter writes where it found nothing."""


def recognises(head: Head) -> bool:
    """The keys of a sample."""
    return head.has("doc_id", "resps") or head.has("doc_id", "filtered_resps", "arguments")


def prepare(files: Sequence[FoundFile]) -> Iterator[PreparedRows]:
    """The rows of each file; the model is the folder, and two runs of a task by one model are pools of their own."""
    tasks = [_task(file) for file in files]
    models = [file.folder or "lm-eval" for file in files]
    named = [(model, task, file.path) for model, task, file in zip(models, tasks, files, strict=True)]
    for file, task, model, pool in zip(files, tasks, models, told_apart(named), strict=True):
        metric = verdict_metric(_metrics(sample) for sample in json_objects(file))
        notes: list[str] = []
        rows = with_answers(_rows(file, task, metric, notes))
        yield PreparedRows(file, ({**row, "model": model, "pool": pool} for row in rows), notes)


def _task(file: FoundFile) -> str:
    found = _NAME.fullmatch(file.name)
    return found[1] if found else file.name.rpartition(".")[0]


def _rows(file: FoundFile, task: str, metric: str | None, notes: list[str]) -> Iterator[Row]:
    first: str | None = None
    judged = False
    filters: dict[str, int] = {}
    for place, sample in enumerate(json_objects(file), 1):
        name = text(sample.get("filter")) or "none"
        first = first or name
        filters[name] = filters.get(name, 0) + 1
        if name == first:
            for row in _responses(file, place, task, metric, sample):
                judged = judged or row["correct"] is not None
                yield row
    if judged:
        notes.append(f"{task}: the verdicts are those of `{metric}`")
    if len(filters) > 1:
        names = ", ".join(f"`{name}`" for name in filters)
        notes.append(
            f"{task}: the filters {names} read the same responses; answers and verdicts are those of `{first}`"
        )


def _responses(file: FoundFile, place: int, task: str, metric: str | None, sample: dict[str, Any]) -> Iterator[Row]:
    requests = sample.get("resps")
    if not isinstance(requests, list) or not requests or not all(isinstance(one, list) for one in requests):
        raise ThinkbackError(f"`{file.address}`, sample {place}: `resps` is no list of lists, as lm-eval writes it")
    target = text(sample.get("target"))
    row: Row = {
        "task": task,
        "doc_id": text(sample.get("doc_id")),
        "prompt": _prompt(sample.get("arguments")) or text(sample.get("doc")) or text(sample.get("doc_id")),
        "temperature": number(dig(sample.get("arguments"), "gen_args_0", "arg_1", "temperature")),
        "filter": text(sample.get("filter")) or "none",
    }
    value = verdict(sample.get(metric)) if metric is not None else None
    if isinstance(dig(requests, 0, 0), list):
        yield {**row, **_choice(requests), "gold": target, "repeat": 0, "correct": value}
        return
    replies = [text(reply) for reply in requests[0]]
    answers = _filtered(sample.get("filtered_resps"), len(replies))
    gold = read_gold(target)
    for repeat, reply in enumerate(replies):
        answer = answers[repeat] if answers is not None else UNREAD
        own = value if len(replies) == 1 else None
        yield {**row, "gold": gold, "repeat": repeat, "text": reply, "answer": answer, "correct": own}


def _prompt(arguments: Any) -> str | None:
    """The first request's text; older files have lists in place of names."""
    found = dig(arguments, "gen_args_0", "arg_0")
    return text(found if found is not None else dig(arguments, 0, 0))


def _metrics(sample: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a sample; older files do not say which of its fields these are."""
    named = sample.get("metrics")
    names = named if isinstance(named, list) else KNOWN
    return {name: sample.get(name) for name in names if isinstance(name, str)}


def _choice(requests: list[Any]) -> Row:
    """The most likely of the choices, each of which is a request with the log-probability of its text."""
    likely = [_logprob(dig(request, 0, 0)) for request in requests]
    best = max(range(len(likely)), key=likely.__getitem__)
    return {"text": None, "answer": str(best), "sum_logprob": likely[best] if likely[best] > float("-inf") else None}


def _logprob(value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return float("-inf")
    return found if found == found else float("-inf")


def _filtered(filtered: Any, replies: int) -> list[str | None] | None:
    """A filter's answers, where it has one for each response."""
    kept = dig(filtered, 0)
    several = kept if isinstance(kept, list) else filtered
    if not isinstance(several, list) or len(several) != replies or any(isinstance(one, list | dict) for one in several):
        return None
    return [None if one == _UNFOUND else text(one) for one in several]


LM_EVAL = Format(
    name="lm-eval",
    title="lm-evaluation-harness: `samples_*.jsonl`, which `--log_samples` writes",
    files=r"(^|/)samples_[^/]*\.jsonl$",
    recognises=recognises,
    lacks="tokens and seconds; verdicts of repeats, whose answers are read and compared with the target",
    prepare=prepare,
)
