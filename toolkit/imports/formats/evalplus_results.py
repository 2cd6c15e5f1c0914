"""evalplus' `eval_results.json`: an object `eval`, keyed by task, of lists with one entry for each sample.

One row for each entry. A pool is a model: the file's name, or that of the nearest folder where the file is called
`eval_results.json` alone. A name that only says the tasks, such as `humaneval`, is passed over. Files of one model on
other tasks, such as HumanEval+ and MBPP+, are one pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from toolkit.errors import FormatError
from toolkit.imports.files.listing import ListedFile
from toolkit.imports.formats.file_rows import named_part, object_at, objects_at, parse_object, text, texts
from toolkit.imports.formats.prepared import PreparedRows, Row, pools_of_parts

_NAME = re.compile(r"(.*?)[._]?eval_results\.json", re.IGNORECASE)
_OF_TASKS = re.compile(r"((human[-_]?eval|mbpp|evalperf)([-_]?(plus|\+))?|samples)?", re.IGNORECASE)
"""Names that say the tasks, or nothing, and not the model."""


def prepare(files: Sequence[ListedFile]) -> Iterator[PreparedRows]:
    """Yields the rows of each of evalplus' files."""
    models = [_model_name(file) for file in files]
    tasks = [set(_results_by_task(file)) for file in files]
    named = [(model, held, file.path) for model, held, file in zip(models, tasks, files, strict=True)]
    for file, model, pool in zip(files, models, pools_of_parts(named), strict=True):
        yield PreparedRows(file, _rows(file, model, pool))


def _model_name(file: ListedFile) -> str:
    file_part = named_part(_NAME, file)
    folders = [part.removesuffix(".zip") for part in reversed(PurePosixPath(file.place).parent.parts)]
    names = (name for name in (file_part, *folders) if not _OF_TASKS.fullmatch(name.strip("/")))
    return next(names, file_part or file.folder or "evalplus")


def _results_by_task(file: ListedFile) -> dict[str, list[Row]]:
    content = parse_object(file, file.read())
    if not isinstance(content.get("eval"), dict):
        raise FormatError(f"`{file.address}` has no object `eval` of tasks: name a file of results that evalplus wrote")
    for task, entry in object_at(content, "eval").items():
        if isinstance(entry, dict):
            raise FormatError(
                f"`{file.address}`: the results of `{task}` are an object (with lists `base` and `plus`), as older"
                " versions of evalplus wrote them, which is not read: evaluate the samples again with a newer one"
            )
    return {text(task) or "": objects_at(content, "eval", task) for task in object_at(content, "eval")}


def _rows(file: ListedFile, model: str, pool: str) -> Iterator[Row]:
    for task, entries in _results_by_task(file).items():
        for index, entry in enumerate(entries):
            yield {
                "task_id": task,
                "model": model,
                "pool": pool,
                "index": index,
                **texts(entry, "solution", "base_status", "plus_status"),
            }
