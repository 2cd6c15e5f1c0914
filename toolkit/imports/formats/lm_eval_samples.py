"""lm-evaluation-harness' `samples_{task}_{date}.jsonl`: one line for each document and filter.

One row for each response. Filters read the same responses again, so a document's responses are taken once, with the
filter that is chosen, else with the first of the file. Where a document has one response, its answer is what the filter
made of it, and the verdict is a metric that is 0 or 1 throughout; a filter that keeps several responses gives each its
answer. Otherwise the answers are read from the responses. Of a multiple-choice task the answer is the number of the
most likely choice; where its metrics are all fractions, several choices may be right, and the target does not say
which: such samples are unjudged. Programs are no answers, and neither is the likelihood of one text: these are opaque,
with their verdict where a document has one response.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from toolkit.answers import number_form
from toolkit.errors import FormatError, ThinkbackError, UnknownError, UnsuitableError, suggest
from toolkit.imports.files.listing import ListedFile, with_companions
from toolkit.imports.formats.file_rows import json_objects, named_part, number, object_at, parse_object, text, value_at
from toolkit.imports.formats.judging import (
    KNOWN,
    UNREAD,
    as_verdict,
    best_metric,
    note_list_golds,
    note_metrics,
    read_gold,
    with_answers,
)
from toolkit.imports.formats.prepared import FileNote, PreparedRows, Row, distinct_pools

_NAME = re.compile(r"samples_(.+?)(?:_(\d{4}-\d\d-\d\dT[\d.:-]+))?\.jsonl", re.IGNORECASE)
_OF_PROGRAMS = re.compile(r"pass(@|_at_)\d+", re.IGNORECASE)
_UNFOUND = "[invalid]"
"""The answer that a filter writes where it reads none."""


@dataclass(frozen=True)
class _Judging:
    """How responses are judged: the `metric` that is the verdict, and whether responses are `programs`. `fractions`:
    there are metrics, but no verdict; `lower`: metrics that are not verdicts only because lower is better.
    """

    metric: str | None
    programs: bool
    fractions: bool
    named: str
    lower: str

    @classmethod
    def choose(cls, metrics: Mapping[str, bool], higher: Mapping[str, bool]) -> Self:
        """Chooses how to judge, from whether each of the `metrics` is always 0 or 1, and whether `higher` is better."""
        metric, programs = best_metric(metrics, higher), any(map(_OF_PROGRAMS.fullmatch, metrics))
        lower = [name for name, whole in metrics.items() if whole and best_metric({name: True}, higher) is None]
        return cls(metric, programs, metric is None and bool(metrics), _quote_all(metrics), _quote_all(lower))


def prepare(files: Sequence[ListedFile], **options: str) -> Iterator[PreparedRows]:
    """Yields the rows of each file. The model is the folder; two runs of a task by one model become separate pools.

    The option `filter`: whose answers and verdicts are taken in the files that have it. ThinkbackError where none has.
    """
    wanted = options.get("filter", "")
    tasks = [named_part(_NAME, file) for file in files]
    models = [file.folder or "lm-eval" for file in files]
    named = [(model, task, file.path) for model, task, file in zip(models, tasks, files, strict=True)]
    metrics = [_metrics_of_filters(file) for file in files]
    known = list(dict.fromkeys(name for seen in metrics for name in seen))
    if wanted and wanted not in known:
        raise UnknownError(f"no file has responses of the filter `{wanted}`; {suggest(wanted, known)}")
    for file, task, seen, model, pool in zip(files, tasks, metrics, models, distinct_pools(named), strict=True):
        notes: list[FileNote] = []
        rows = with_answers(_rows(file, task, seen, wanted if wanted in seen else next(iter(seen), ""), notes))
        samples = note_list_golds(rows, task, notes)
        yield PreparedRows(file, ({**row, "model": model, "pool": pool} for row in samples), notes)


def _metrics_of_filters(file: ListedFile) -> dict[str, dict[str, bool]]:
    """Each filter of a file, in order, with its metrics and whether each is always 0 or 1."""
    metrics: dict[str, dict[str, bool]] = {}
    for sample in json_objects(file):
        note_metrics(metrics.setdefault(_filter_name(sample), {}), _sample_metrics(sample))
    return metrics


def _filter_name(sample: dict[str, Any]) -> str:
    return text(sample.get("filter")) or "none"


def _rows(
    file: ListedFile, task: str, filters: Mapping[str, Mapping[str, bool]], chosen: str, notes: list[FileNote]
) -> Iterator[Row]:
    judging = _Judging.choose(filters.get(chosen, {}), _higher_is_better(file, task))
    judged = opaque = vague = 0
    for place, sample in enumerate(json_objects(file), 1):
        if _filter_name(sample) == chosen:
            for row in _response_rows(file, place, task, judging, sample):
                judged += row["correct"] is not None
                opaque += row["opaque"]
                vague += judging.fractions and _has_choices(sample)
                yield row
    if judged:
        notes.append(FileNote(task, f"the verdicts are those of `{judging.metric}`"))
    if judging.lower:
        notes.append(FileNote(task, f"{judging.lower}: lower is better, so it is no verdict"))
    if vague:
        text = f"no metric is a verdict ({judging.named}), and the target does not name the right choices: unjudged"
        notes.append(FileNote(task, text, code="unnamed_choices"))
    if opaque:
        what = "programs" if judging.programs else "likelihoods of one text"
        notes.append(FileNote(task, f"{what} can neither be compared nor vote: they are marked opaque"))
    if len(filters) > 1:
        names, other = ", ".join(f"`{name}`" for name in filters), next(name for name in filters if name != chosen)
        text = f"the filters {names} read the same responses; answers and verdicts are those of `{chosen}`;"
        notes.append(FileNote(task, f"{text} choose another with `--set filter={other}`"))


def _response_rows(file: ListedFile, place: int, task: str, judging: _Judging, sample: dict[str, Any]) -> Iterator[Row]:
    requests = sample.get("resps")
    if not isinstance(requests, list) or not requests or not all(isinstance(request, list) for request in requests):
        raise FormatError(f"`{file.address}`, sample {place}: `resps` is no list of lists: name a file of lm-eval")
    target = text(sample.get("target"))
    row: Row = {
        "task": task,
        "doc_id": text(sample.get("doc_id")),
        "prompt": _first_prompt(sample.get("arguments")) or text(sample.get("doc")) or text(sample.get("doc_id")),
        "temperature": number(value_at(sample.get("arguments"), "gen_args_0", "arg_1", "temperature")),
        "filter": _filter_name(sample),
        "opaque": False,
    }
    value = as_verdict(sample.get(judging.metric)) if judging.metric is not None else None
    if _has_choices(sample):
        gold = None if judging.fractions else _right_choice(target, sample.get("arguments"), len(requests))
        yield {**row, **_choice_columns(requests), "gold": gold, "repeat": 0, "correct": value}
        return
    if _asks_no_question(sample.get("arguments"), requests):
        raise UnsuitableError(
            f"`{file.address}` holds likelihoods of whole texts (perplexity) and no answers: leave the file out"
        )
    replies = [text(reply) for reply in requests[0]]
    answers = _filter_answers(sample.get("filtered_resps"), len(replies))
    # A metric without a verdict leaves the target to compare with, but not one that is better where it is lower.
    gold = None if judging.fractions and judging.lower else read_gold(target)
    program = judging.programs and (gold is None or number_form(gold) is None)
    for repeat, reply in enumerate(replies):
        answer = None if program else answers[repeat] if answers is not None else UNREAD
        right = value if len(replies) == 1 else None
        yield {**row, "gold": gold, "repeat": repeat, "text": reply, "answer": answer, "correct": right,
               "opaque": program}  # fmt: skip


def _higher_is_better(file: ListedFile, task: str) -> Mapping[str, bool]:
    """Whether higher is better, by metric, from the results file beside the samples; empty without one."""
    match = _NAME.fullmatch(file.name)
    beside = with_companions([file], [f"results_{match[2]}.json"])[1:] if match and match[2] else []
    try:
        flags = object_at(parse_object(beside[0], beside[0].read()), "higher_is_better", task) if beside else {}
    except ThinkbackError:
        return {}
    return {name: value for name, value in flags.items() if isinstance(value, bool)}


def _quote_all(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _has_choices(sample: Mapping[str, Any]) -> bool:
    """Whether each response is the log-probability of a given text, as in multiple choice."""
    return isinstance(value_at(sample.get("resps"), 0, 0), list)


def _first_prompt(arguments: Any) -> str | None:
    """The text of the first request. Older files have lists in place of names."""
    first = value_at(arguments, "gen_args_0", "arg_0")
    return text(first if first is not None else value_at(arguments, 0, 0))


def _sample_metrics(sample: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a sample. Older files do not say which of its fields these are."""
    named = sample.get("metrics")
    names = named if isinstance(named, list) else KNOWN
    return {name: sample.get(name) for name in names if isinstance(name, str)}


def _choice_columns(requests: list[Any]) -> Row:
    """The columns of a multiple-choice sample: the number of the likeliest choice, its log-probability, and whether it
    is opaque, as a single choice is.
    """
    likely = [_logprob_or_lowest(value_at(request, 0, 0)) for request in requests]
    best = max(range(len(likely)), key=likely.__getitem__)
    alone = len(requests) == 1
    known = likely[best] if likely[best] > float("-inf") else None
    return {"text": None, "answer": None if alone else str(best), "opaque": alone, "sum_logprob": known}


def _right_choice(target: str | None, arguments: Any, choices: int) -> str | None:
    """The number of the right choice. The target may be that choice's text."""
    if target is None or target in map(str, range(choices)):
        return target
    places = range(choices)
    texts = [text(value_at(arguments, f"gen_args_{i}", "arg_1") or value_at(arguments, i, 1)) or "" for i in places]
    return next((str(place) for place in places if texts[place].strip() == target.strip()), target)


def _asks_no_question(arguments: Any, requests: list[Any]) -> bool:
    """Whether the request is only a text whose log-probability is the response, so that no question was asked."""
    request = value_at(arguments, "gen_args_0") or value_at(arguments, 0)
    alone = isinstance(request, dict | list) and len(request) == 1
    return alone and _logprob_or_lowest(value_at(requests, 0, 0)) > float("-inf")


def _logprob_or_lowest(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return float("-inf")
    return number if number == number else float("-inf")


def _filter_answers(filtered: Any, replies: int) -> list[str | None] | None:
    """The filter's answers, where it has one for each response; else None."""
    first = value_at(filtered, 0)
    several = first if isinstance(first, list) else filtered
    if not isinstance(several, list) or len(several) != replies or any(isinstance(one, list | dict) for one in several):
        return None
    return [None if one == _UNFOUND else text(one) for one in several]
