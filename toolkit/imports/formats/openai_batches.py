"""Batches of OpenAI's API, and of those that write its files, such as `vllm run-batch`: one line for each request.

One row for each choice, of chat completions, completions and responses alike. The files of requests may be given beside
those of results: they have the questions. Tokens are known for a whole request, so for a choice only where it is the
request's only one, or has its log-probabilities. Files of results that share no model's request are parts of one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from toolkit.errors import EmptyError, FormatError
from toolkit.imports.files.listing import ListedFile
from toolkit.imports.formats.file_rows import as_count, json_objects, number, objects_at, text, value_at
from toolkit.imports.formats.format import FileHead, head_of
from toolkit.imports.formats.prepared import FileNote, PreparedRows, Row, pools_of_parts

_DONE = 200
Requests = dict[str, dict[str, Any]]


def prepare(files: Sequence[ListedFile]) -> Iterator[PreparedRows]:
    """Yields the rows of each results file, with the questions from the request files."""
    results = [file for file in files if not _has_requests(head_of(file))]
    if not results:
        raise EmptyError("the sources hold requests alone: name the file of their results, too")
    requests: Requests = {}
    for file in files:
        if file not in results:
            requests |= {text(line.get("custom_id")) or "": line for line in json_objects(file)}
    marks = (
        pools_of_parts([("", _answered_requests(file), file.path) for file in results]) if len(results) > 1 else [""]
    )
    for file, mark in zip(results, marks, strict=True):
        notes: list[FileNote] = []
        if file is results[0] and len(results) > 1:
            code, why = "parts_of_a_run", "no model answered a request in two of them, so they are one run"
            if mark:
                code, why = "own_pools", "a model answered a request in several, so each is one run with its pools"
            notes.append(FileNote("", f"{len(results)} files of results: {why}", code=code))
        yield PreparedRows(file, _rows(file, mark, requests, notes), notes)


def _answered_requests(file: ListedFile) -> set[tuple[str | None, str | None]]:
    """The requests that have a result in a file, each with the model of the result."""
    lines = ((line, _completion_of(line)) for line in json_objects(file))
    return {(text(line.get("custom_id")), text(body.get("model"))) for line, body in lines if body is not None}


def _completion_of(line: dict[str, Any]) -> dict[str, Any] | None:
    """The completion in a line of results; None where the request failed."""
    body = value_at(line, "response", "body")
    if body is None and value_at(line, "response", "choices") is not None:
        body = line["response"]
    return body if isinstance(body, dict) and (value_at(line, "response", "status_code") or _DONE) == _DONE else None


def _has_requests(head: FileHead) -> bool:
    return head.has_keys("method", "body")


def _rows(file: ListedFile, mark: str, requests: Requests, notes: list[FileNote]) -> Iterator[Row]:
    failed = 0
    for number_, line in enumerate(json_objects(file), 1):
        body, name = _completion_of(line), text(line.get("custom_id"))
        if name is None:
            raise FormatError(f"`{file.address}`, line {number_}: no custom_id, so no result of a batch")
        if body is None:
            failed += 1
            continue
        request = requests.get(name, {})
        model = text(body.get("model")) or "openai"
        row = {"custom_id": name, "model": model, "pool": model + mark, "question": _last_message(request),
               "temperature": number(value_at(request, "body", "temperature"))}  # fmt: skip
        yield from ({**row, **choice} for choice in _choice_rows(body))
    if failed:
        notes.append(FileNote(f"`{file.path}`", "failed and left no trace", failed, "request"))


def _choice_rows(body: dict[str, Any]) -> Iterator[Row]:
    """Yields the choices of a completion, from any of OpenAI's kinds."""
    usage = body.get("usage")
    prompt = as_count(value_at(usage, "prompt_tokens")) or as_count(value_at(usage, "input_tokens"))
    spent = as_count(value_at(usage, "completion_tokens")) or as_count(value_at(usage, "output_tokens"))
    if isinstance(body.get("output"), list):
        reason = value_at(body, "incomplete_details", "reason") or text(body.get("status"))
        yield {"index": 0, "text": _output_text(body), "finish_reason": reason, "prompt_tokens": prompt,
               "completion_tokens": spent}  # fmt: skip
        return
    choices = objects_at(body, "choices")
    for place, choice in enumerate(choices):
        logged = objects_at(choice, "logprobs", "content")
        content = value_at(choice, "message", "content")
        yield {
            "index": as_count(choice.get("index")) if len(choices) > 1 else place,
            "text": text(content if content is not None else choice.get("text")),
            "finish_reason": text(choice.get("finish_reason")),
            "prompt_tokens": prompt,
            "completion_tokens": spent if len(choices) == 1 else len(logged) or None,
            "sum_logprob": _logprob_sum(logged),
        }


def _logprob_sum(logged: list[dict[str, Any]]) -> float | None:
    values = [number(token.get("logprob")) for token in logged]
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _output_text(body: dict[str, Any]) -> str | None:
    """The text of a response, without the reasoning and calls beside it."""
    parts = (part for item in objects_at(body, "output") if item.get("type") == "message"
             for part in objects_at(item, "content"))  # fmt: skip
    return text("".join(part["text"] for part in parts if isinstance(part.get("text"), str)))


def _last_message(request: dict[str, Any]) -> str | None:
    body = request.get("body")
    messages = objects_at(body, "messages") or objects_at(body, "input")
    users = [message for message in messages if message.get("role") == "user"] or messages
    content = users[-1].get("content") if users else value_at(body, "prompt") or value_at(body, "input")
    if isinstance(content, list):
        return text("\n".join(part["text"] for part in content if isinstance(value_at(part, "text"), str)))
    return text(content)
