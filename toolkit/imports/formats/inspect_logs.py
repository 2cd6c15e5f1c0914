"""Inspect AI's logs: `.eval` archives, with samples whole or in chunks, and `.json` files.

One row for each sample and epoch. The verdict is the first scorer's: C, I, P and N, numbers and booleans count; where a
scorer says NaN, or gives several values, there is none. Samples that ended in an error are left out. Texts that the log
keeps apart as attachments are put back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import ThinkbackError, counted
from toolkit.imports.formats.archives import Archive, open_archive
from toolkit.imports.formats.format import Format, PreparedRows, Row, told_apart
from toolkit.imports.formats.found_files import FoundFile
from toolkit.imports.formats.heads import Head
from toolkit.imports.formats.json_rows import count, dig, members, number, objects, parsed_object, text

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_SHELL = "/sample.json"
_ATTACHED = "attachment://"


@dataclass(frozen=True)
class _Run:
    """What a log's header says."""

    task: str
    dataset: str
    model: str


def recognises(head: Head) -> bool:
    """An archive with a header or a journal, or a JSON file with the keys of a log."""
    return bool(head.members & {"header.json", "_journal/start.json"}) or head.has("version", "status", "eval")


def prepare(files: Sequence[FoundFile]) -> Iterator[PreparedRows]:
    """The rows of each log; two runs of one task by one model are pools of their own."""
    runs = [_run(file) for file in files]
    pools = told_apart([(run.model, run.task, file.path) for run, file in zip(runs, files, strict=True)])
    for file, run, pool in zip(files, runs, pools, strict=True):
        notes: list[str] = []
        yield PreparedRows(file, _rows(file, run, pool, notes), notes)


def _run(file: FoundFile) -> _Run:
    with file.seekable() as opened:
        if _is_archive(file):
            with open_archive(file.address, opened) as archive:
                header = _header(file, archive)
        else:
            header = parsed_object(file, opened.read())
    spec = dig(header, "eval")
    task, model = text(dig(spec, "task")), text(dig(spec, "model"))
    if task is None or model is None:
        raise ThinkbackError(f"`{file.address}` is no log of Inspect: it names no task and no model")
    return _Run(task, text(dig(spec, "dataset", "name")) or task, model)


def _header(file: FoundFile, archive: Archive) -> dict[str, Any]:
    """A log that was not finished has no header, but a journal."""
    for name in ("header.json", "_journal/start.json"):
        if name in archive.members:
            return parsed_object(file, archive.read(name), f", `{name}`")
    raise ThinkbackError(f"`{file.address}` is no log of Inspect: the archive has neither header.json nor a journal")


def _is_archive(file: FoundFile) -> bool:
    return file.ending != ".json"


def _rows(file: FoundFile, run: _Run, pool: str, notes: list[str]) -> Iterator[Row]:
    answered = any(_answer(sample) for sample, _ in _samples(file))
    failed = 0
    for sample, attached in _samples(file):
        if dig(sample, "error") is not None:
            failed += 1
            continue
        row = _row(run, pool, sample, attached)
        yield {**row, "opaque": not answered or (row["value"] is None and row["answer"] is None)}
    if failed:
        notes.append(f"`{file.path}`: {counted(failed, 'sample')} ended in an error and left no trace")


def _answer(sample: Mapping[str, Any]) -> str | None:
    """What the first scorer took for the answer."""
    scores = members(sample, "scores")
    return text(dig(scores, next(iter(scores), ""), "answer"))


def _samples(file: FoundFile) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    """The samples of a log with their attachments by name."""
    with file.seekable() as opened:
        if not _is_archive(file):
            for sample in objects(parsed_object(file, opened.read()), "samples"):
                yield sample, members(sample, "attachments")
            return
        with open_archive(file.address, opened) as archive:
            for name in archive.members:
                whole = name.startswith("samples/") and re.search(r"_epoch_\d+\.json$", name)
                if whole or (name.startswith("samples/") and name.endswith(_SHELL)):
                    sample = parsed_object(file, archive.read(name), f", `{name}`")
                    attached = members(sample, "attachments") if whole else _chunks(file, archive, name)
                    yield sample, attached


def _chunks(file: FoundFile, archive: Archive, shell: str) -> dict[str, Any]:
    """The attachments of a sample in chunks, by their number: each file is named by its first."""
    folder = shell.removesuffix(_SHELL) + "/attachments/"
    found: dict[str, Any] = {}
    for name in archive.members:
        start = name.removeprefix(folder).removesuffix(".json")
        if name.startswith(folder) and start.isdigit():
            values = parsed_object(file, b'{"items":' + archive.read(name) + b"}", f", `{name}`")["items"]
            items = values if isinstance(values, list) else []
            found |= {str(int(start) + place): value for place, value in enumerate(items)}
    return found


def _row(run: _Run, pool: str, sample: Mapping[str, Any], attached: Mapping[str, Any]) -> Row:
    scores = {name: _value(dig(score, "value")) for name, score in members(sample, "scores").items()}
    first = next(iter(scores), None)
    usage = _usage(sample, run.model)
    target = dig(sample, "target")
    return {
        "task": run.task,
        "dataset": run.dataset,
        "model": run.model,
        "pool": pool,
        "id": text(dig(sample, "id")),
        "epoch": dig(sample, "epoch"),
        "input": _attached(_message(dig(sample, "input")), attached),
        "target": text(target[0] if isinstance(target, list) and target else target or None),
        "text": _attached(_completion(dig(sample, "output")), attached),
        "answer": _attached(_answer(sample), attached),
        "value": scores[first] if first else None,
        "scorer": first,
        "scores": scores or None,
        "stop_reason": dig(sample, "output", "choices", 0, "stop_reason"),
        "input_tokens": count(usage.get("input_tokens")),
        "output_tokens": count(usage.get("output_tokens")),
        "working_time": number(dig(sample, "working_time")),
    }


def _value(value: Any) -> float | None:
    """A score as a number; None for several at once, and for what was not scored."""
    if isinstance(value, str):
        return _GRADES.get(value)
    if isinstance(value, bool):
        return float(value)
    found = number(value)
    return float(found) if found is not None and math.isfinite(found) else None


def _usage(sample: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """The tokens of the model that is evaluated; scorers and others have their own entries."""
    return members(sample, "model_usage", model)


def _message(given: Any) -> str | None:
    """A text, or the last of some messages that a user wrote."""
    if isinstance(given, list):
        users = [message for message in given if dig(message, "role") == "user"]
        return _content(dig((users or given)[-1], "content")) if given else None
    return text(given)


def _completion(output: Any) -> str | None:
    whole = dig(output, "completion")
    return whole if isinstance(whole, str) and whole else _content(dig(output, "choices", 0, "message", "content"))


def _content(content: Any) -> str | None:
    """The text of a message, of which other parts are reasoning, images and calls."""
    if isinstance(content, list):
        return text("\n".join(part["text"] for part in content if isinstance(dig(part, "text"), str)))
    return text(content)


def _attached(value: str | None, attached: Mapping[str, Any]) -> str | None:
    if value is None or not value.startswith(_ATTACHED):
        return value
    return text(attached.get(value.removeprefix(_ATTACHED), value))


INSPECT = Format(
    name="inspect",
    title="Inspect AI: `.eval` archives and `.json` logs",
    files=r"\.eval$|(^|/)\d{4}-\d\d-\d\dT[^/]*\.json$",
    recognises=recognises,
    lacks="verifier scores; of several scorers the first is the verdict (another: `--set traces.correct=scores.NAME`)",
    prepare=prepare,
)
