"""Inspect AI's logs: `.eval` archives, with samples whole or in chunks, and `.json` files.

One row for each sample and epoch. The verdict is that of the first scorer, or of the one that is chosen: C, I, P and N,
yes and no, numbers and booleans count, as Inspect turns them into numbers. A scorer with values beyond 0 to 1 gives
grades and no verdicts. NaN, several values or another text leave the sample unjudged: nothing is graded anew. Samples
that ended in an error are left out.
Texts that the log keeps apart as attachments are put back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import FormatError, UnknownError, suggest
from toolkit.imports.files.archives import Archive, open_archive
from toolkit.imports.files.listing import ListedFile
from toolkit.imports.formats.file_rows import as_count, number, object_at, objects_at, parse_object, text, value_at
from toolkit.imports.formats.format import FORMATS, head_of
from toolkit.imports.formats.judging import ScoreValues
from toolkit.imports.formats.prepared import FileNote, PreparedRows, Row, distinct_pools, name_list

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_LOG_NAME = re.compile(r"\.eval$|(^|/)\d{4}-\d\d-\d\dT[^/]*\.json$", re.IGNORECASE)
_SHELL = "/sample.json"
_ATTACHED = "attachment://"


@dataclass(frozen=True)
class _EvalRun:
    """The task, data set and model in a log's header."""

    task: str
    dataset: str
    model: str


@dataclass
class _ScorersSeen:
    """The scorers' values in an import, by task and name. `wanted`: the chosen scorer, or empty for each sample's
    first; `names`: all scorers.
    """

    wanted: str = ""
    names: dict[str, None] = field(default_factory=dict)
    scorers: dict[tuple[str, str], ScoreValues] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)

    def counted_scorer(self, sample: Mapping[str, Any]) -> str | None:
        """The name of the scorer whose verdict counts for a sample; None where the sample lacks it."""
        names = object_at(sample, "scores")
        return next((name for name in names if self.wanted in ("", name)), None)

    def scored_answer(self, sample: Mapping[str, Any]) -> str | None:
        """The answer that the sample's scorer read."""
        return text(value_at(sample, "scores", self.counted_scorer(sample) or "", "answer"))

    def is_verdict_scorer(self, task: str, scorer: str | None) -> bool:
        return scorer is not None and self.scorers[task, scorer].is_share

    def notes(self) -> Iterator[FileNote]:
        for (task, name), scorer in self.scorers.items():
            if scorer.count and not scorer.is_share:
                yield FileNote(
                    task,
                    f"the scorer `{name}` gives values from {scorer.least:g} to {scorer.most:g}, which are no"
                    " verdicts: its samples are unjudged (say which are right: `--set 'traces.correct=value >= …'`)",
                    code="grades",
                )
            if scorer.odd:
                why = "unscored, several values, or a text that is no grade"
                text = f"without one value of the scorer `{name}` ({why}): unjudged"
                yield FileNote(task, text, scorer.odd, "sample")


def prepare(files: Sequence[ListedFile], **options: str) -> Iterator[PreparedRows]:
    """Yields the rows of each Inspect log. Two runs of one task by one model become separate pools.

    The option `scorer`: whose answers, verdicts and credit are taken. ThinkbackError where no sample has it.
    """
    form = FORMATS["inspect"]
    logs = [file for file in files if _LOG_NAME.search(file.path) or form.recognises(head_of(file))] or files
    others = [f"`{file.path}`" for file in files if file not in logs]
    what = "is no log of Inspect" if len(others) == 1 else "are no logs of Inspect"
    notes = [FileNote("", f"{name_list(others)} {what}: left out")] if others else []
    runs = [_read_run(file) for file in logs]
    seen = _ScorersSeen(options.get("scorer", ""))
    for file, run in zip(logs, runs, strict=True):
        _note_scores(file, run, seen)
    if seen.wanted and seen.wanted not in seen.names:
        raise UnknownError(f"no sample has a scorer `{seen.wanted}`; {suggest(seen.wanted, list(seen.names))}")
    notes += seen.notes()
    pools = distinct_pools([(run.model, run.task, file.path) for run, file in zip(runs, logs, strict=True)])
    for file, run, pool in zip(logs, runs, pools, strict=True):
        yield PreparedRows(file, _rows(file, run, pool, seen, notes), notes)
        notes = []


def _note_scores(file: ListedFile, run: _EvalRun, seen: _ScorersSeen) -> None:
    for sample, _ in _samples(file):
        if value_at(sample, "error") is not None:
            continue
        seen.names |= dict.fromkeys(object_at(sample, "scores"))
        scorer = seen.counted_scorer(sample)
        if scorer is not None:
            value = _score_number(value_at(sample, "scores", scorer, "value"))
            seen.scorers.setdefault((run.task, scorer), ScoreValues()).add(value)
        if seen.scored_answer(sample):
            seen.answered.add(file.address)


def _read_run(file: ListedFile) -> _EvalRun:
    with file.seekable_file() as opened:
        if _is_archive(file):
            with open_archive(file.address, opened) as archive:
                header = _log_header(file, archive)
        else:
            header = parse_object(file, opened.read())
    spec = value_at(header, "eval")
    task, model = text(value_at(spec, "task")), text(value_at(spec, "model"))
    if task is None or model is None:
        raise FormatError(f"`{file.address}` is no log of Inspect: it names no task and no model")
    return _EvalRun(task, text(value_at(spec, "dataset", "name")) or task, model)


def _log_header(file: ListedFile, archive: Archive) -> dict[str, Any]:
    """A log's header. An unfinished log has it in its journal."""
    for name in ("header.json", "_journal/start.json"):
        if name in archive.members:
            return parse_object(file, archive.read(name), f", `{name}`")
    raise FormatError(f"`{file.address}` is no log of Inspect: the archive has neither header.json nor a journal")


def _is_archive(file: ListedFile) -> bool:
    return file.ending != ".json"


def _rows(file: ListedFile, run: _EvalRun, pool: str, seen: _ScorersSeen, notes: list[FileNote]) -> Iterator[Row]:
    answered = file.address in seen.answered
    failed = 0
    for sample, attached in _samples(file):
        if value_at(sample, "error") is not None:
            failed += 1
            continue
        row = _sample_row(run, pool, sample, attached, seen)
        judges = seen.is_verdict_scorer(run.task, row["scorer"])
        credit = row["value"] if judges else None
        # A sample that a judging scorer left unscored is no vote: as one it would take the verdict of an equal answer.
        unknown = credit is None and (judges or row["answer"] is None)
        verdict = None if credit is None else credit >= 1
        yield {**row, "verdict": verdict, "credit": credit, "opaque": not answered or unknown}
    if failed:
        notes.append(FileNote(f"`{file.path}`", "ended in an error and left no trace", failed, "sample"))


def _samples(file: ListedFile) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    """Yields the samples of a log, each with its attachments by name."""
    with file.seekable_file() as opened:
        if not _is_archive(file):
            for sample in objects_at(parse_object(file, opened.read()), "samples"):
                yield sample, object_at(sample, "attachments")
            return
        with open_archive(file.address, opened) as archive:
            for name in archive.members:
                whole = name.startswith("samples/") and re.search(r"_epoch_\d+\.json$", name)
                if whole or (name.startswith("samples/") and name.endswith(_SHELL)):
                    sample = parse_object(file, archive.read(name), f", `{name}`")
                    attached = object_at(sample, "attachments") if whole else _attachments(file, archive, name)
                    yield sample, attached


def _attachments(file: ListedFile, archive: Archive, shell: str) -> dict[str, Any]:
    """The attachments that a sample stores in chunks, by number. Each file is named by its first number."""
    folder = shell.removesuffix(_SHELL) + "/attachments/"
    attachments: dict[str, Any] = {}
    for name in archive.members:
        start = name.removeprefix(folder).removesuffix(".json")
        if name.startswith(folder) and start.isdigit():
            values = parse_object(file, b'{"items":' + archive.read(name) + b"}", f", `{name}`")["items"]
            items = values if isinstance(values, list) else []
            attachments |= {str(int(start) + place): value for place, value in enumerate(items)}
    return attachments


def _sample_row(
    run: _EvalRun, pool: str, sample: Mapping[str, Any], attached: Mapping[str, Any], seen: _ScorersSeen
) -> Row:
    scores = {name: _score_number(value_at(score, "value")) for name, score in object_at(sample, "scores").items()}
    scorer = seen.counted_scorer(sample)
    usage = _model_usage(sample, run.model)
    target = value_at(sample, "target")
    return {
        "task": run.task, "dataset": run.dataset, "model": run.model, "pool": pool,
        "id": text(value_at(sample, "id")), "epoch": value_at(sample, "epoch"),
        "input": _with_attachments(_input_text(value_at(sample, "input")), attached),
        "target": text(target[0] if isinstance(target, list) and target else target or None),
        "text": _with_attachments(_completion_text(value_at(sample, "output")), attached),
        "answer": _with_attachments(seen.scored_answer(sample), attached),
        "value": scores[scorer] if scorer else None, "scorer": scorer, "scores": scores or None,
        "stop_reason": value_at(sample, "output", "choices", 0, "stop_reason"), "input_tokens": _prompt_tokens(usage),
        "output_tokens": as_count(usage.get("output_tokens")),
        "working_time": number(value_at(sample, "working_time")),
    }  # fmt: skip


def _score_number(value: Any) -> float | None:
    """A score as the number that Inspect gives it; None for several values, NaN and other texts."""
    if isinstance(value, str):
        return _GRADES.get(value, _WORDS.get(value.lower(), _number_in_text(value)))
    if isinstance(value, bool):
        return float(value)
    score = number(value)
    return float(score) if score is not None and math.isfinite(score) else None


def _number_in_text(word: str) -> float | None:
    try:
        return number(float(word))
    except ValueError:
        return None


def _prompt_tokens(usage: Mapping[str, Any]) -> int | None:
    """The number of all prompt tokens. Some providers count cached tokens among the input, others beside it."""
    given = as_count(usage.get("input_tokens"))
    if given is None:
        return None
    cached = sum(as_count(usage.get(f"input_tokens_cache_{way}")) or 0 for way in ("read", "write"))
    inside = cached <= given and as_count(usage.get("total_tokens")) == given + (
        as_count(usage.get("output_tokens")) or 0
    )
    return given if inside else given + cached


def _model_usage(sample: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """The token counts of the evaluated model. Scorers and other models have entries of their own."""
    return object_at(sample, "model_usage", model)


def _input_text(prompt: Any) -> str | None:
    """The text of a sample's input: the input itself, or the user's last message."""
    if isinstance(prompt, list):
        users = [message for message in prompt if value_at(message, "role") == "user"]
        return _content_text(value_at((users or prompt)[-1], "content")) if prompt else None
    return text(prompt)


def _completion_text(output: Any) -> str | None:
    whole = value_at(output, "completion")
    return (
        whole
        if isinstance(whole, str) and whole
        else _content_text(value_at(output, "choices", 0, "message", "content"))
    )


def _content_text(content: Any) -> str | None:
    """The text parts of a message, without reasoning, images and calls."""
    if isinstance(content, list):
        return text("\n".join(part["text"] for part in content if isinstance(value_at(part, "text"), str)))
    return text(content)


def _with_attachments(value: str | None, attached: Mapping[str, Any]) -> str | None:
    if value is None or not value.startswith(_ATTACHED):
        return value
    return text(attached.get(value.removeprefix(_ATTACHED), value))
