"""MathArena's outputs: data sets of one row a sample, and its own files, one for each problem, with lists of samples.

One row for each sample. The files of a problem do not name the model: it is their folder. Where the verdicts of a data
set, or of a folder of problems, have values between 0 and 1, all are its credit, and right is 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from toolkit.errors import FormatError
from toolkit.imports.files.listing import ListedFile
from toolkit.imports.formats.file_rows import as_count, list_at, number, parse_object, table_rows, text, texts, value_at
from toolkit.imports.formats.format import head_of
from toolkit.imports.formats.prepared import FileNote, PreparedRows, Row, pools_of_parts

_CREDIT = "verdicts between 0 and 1 are credit; right is 1"
_OF_PROBLEM = ("idx", "gold_answer", "answers", "correct")


def prepare(files: Sequence[ListedFile]) -> Iterator[PreparedRows]:
    """Yields the rows of each file. Folders of one name are one model's, and one pool if they share no problem."""
    folders = {file.address: _folder_of(file) for file in files if head_of(file).has_keys(*_OF_PROBLEM)}
    problems: dict[str, set[str]] = {}
    models: dict[str, str] = {}
    graded: set[str] = set()
    for file in files:
        if file.address in folders:
            models[_folder_of(file)] = file.folder or "matharena"
            content = parse_object(file, file.read())
            problems.setdefault(_folder_of(file), set()).add(_problem_text(content))
            graded |= {_folder_of(file)} if any(map(_is_graded, list_at(content, "correct"))) else set()
        elif any(_is_graded(row.get("correct")) for row in table_rows(file)):
            graded.add(file.address)
    pools = dict(
        zip(models, pools_of_parts([(models[model], problems[model], f"{model}/") for model in models]), strict=True)
    )
    for file in files:
        place = folders.get(file.address)
        rows = _rows(file) if place is None else _samples(file, models[place], pools[place])
        whole = (place or file.address) in graded
        notes = [FileNote(f"`{file.path if place is None else models[place]}`", _CREDIT)] if whole else []
        yield PreparedRows(file, (_row_with_verdict(row, whole) for row in rows), notes)


def _is_graded(value: Any) -> bool:
    """Whether a verdict is a fraction between 0 and 1."""
    grade = number(value)
    return grade is not None and 0 < grade < 1


def _row_with_verdict(row: Row, graded: bool) -> Row:
    """The row with `correct` as text; where verdicts are `graded`, with the fraction as `credit` too."""
    given = row["correct"]
    value = float(given) if isinstance(given, bool) else number(given)
    credit = value if graded and value is not None and 0 <= value <= 1 else None
    return {**row, "correct": "false" if _is_graded(given) else text(given), "credit": credit}


def _folder_of(file: ListedFile) -> str:
    return str(PurePosixPath(file.place).parent)


def _problem_text(content: dict[str, Any]) -> str:
    return text(content.get("problem")) or f"problem {text(content.get('idx'))}"


def _rows(file: ListedFile) -> Iterator[Row]:
    """Yields the rows of a published data set, with only the columns that are read."""
    for place, row in enumerate(table_rows(file), 1):
        if "problem_idx" not in row or "idx_answer" not in row:
            raise FormatError(f"`{file.address}`, row {place}: no `problem_idx` and `idx_answer`, as MathArena has")
        named = texts(
            row, "problem_idx", "gold_answer", "source", "model_name", "model_config", "answer", "parsed_answer"
        )
        yield {
            **named,
            "question": text(row.get("problem")) or text(row.get("user_message")) or f"problem {named['problem_idx']}",
            "pool": named["model_name"],
            "idx_answer": as_count(row.get("idx_answer")),
            "correct": row.get("correct"),
            "input_tokens": as_count(row.get("input_tokens")),
            "output_tokens": as_count(row.get("output_tokens")),
            "cost": number(row.get("cost")),
            "seconds": None,
        }


def _samples(file: ListedFile, model: str, pool: str) -> Iterator[Row]:
    """Yields the samples of one problem, each made of what the file's lists have at one place."""
    content = parse_object(file, file.read())
    answers, verdicts = list_at(content, "answers"), list_at(content, "correct")
    if len(answers) != len(verdicts):
        raise FormatError(f"`{file.address}`: `answers` has {len(answers)} items and `correct` {len(verdicts)}")
    for index, (answer, right) in enumerate(zip(answers, verdicts, strict=True)):
        costs = value_at(content, "detailed_costs", index)
        yield {
            **texts(content, "gold_answer", "source"),
            "problem_idx": text(content.get("idx")),
            "question": _problem_text(content),
            "model_name": model,
            "model_config": None,
            "pool": pool,
            "idx_answer": index,
            "answer": _text(value_at(content, "messages", index)),
            "parsed_answer": text(answer),
            "correct": right,
            "input_tokens": as_count(value_at(costs, "input_tokens")),
            "output_tokens": as_count(value_at(costs, "output_tokens")),
            "cost": number(value_at(costs, "cost")),
            "seconds": number(value_at(costs, "time")),
        }


def _text(messages: Any) -> str | None:
    """The model's last message; None where the file has no messages."""
    last = value_at(messages, -1)
    return text(value_at(last, "content"))
