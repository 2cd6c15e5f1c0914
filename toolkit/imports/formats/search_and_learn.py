"""search-and-learn's data sets: MATH-500's columns, and lists of completions with the scores of their steps.

One row for each completion. The columns are those of the data sets on the Hub and of `{approach}_completions.jsonl`.
Tokens are a list, or -1 where the search did not count them (DVTS). What a beam search kept is whole or not at all, so
pools of `beam_search` and `dvts` have no prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from toolkit.errors import FormatError
from toolkit.imports.files.listing import ListedFile
from toolkit.imports.formats.file_rows import as_count, number, table_rows, text, texts, value_at
from toolkit.imports.formats.judging import UNREAD, with_answers
from toolkit.imports.formats.prepared import PreparedRows, Row, distinct_pools

_BEAMS = ("beam_search", "dvts")
_SEARCHES = (*_BEAMS, "best_of_n")


def prepare(files: Sequence[ListedFile]) -> Iterator[PreparedRows]:
    """Yields the rows of each file. A pool is an approach, as the path names it, and a folder, one run's files."""
    runs = {(_approach_name(file), str(PurePosixPath(file.path).parent)): None for file in files}
    pools = dict(zip(runs, distinct_pools([(approach, "", f"{folder}/") for approach, folder in runs]), strict=True))
    for file in files:
        approach = _approach_name(file)
        pool = pools[approach, str(PurePosixPath(file.path).parent)]
        rows = ({**row, "pool": pool} for row in with_answers(_rows(file)))
        yield PreparedRows(file, rows, pools={pool: {"prefix": False}} if approach in _BEAMS else {})


def _approach_name(file: ListedFile) -> str:
    """The approach that the file's name tells, else the nearest folder below the source, else the source itself."""
    parts = [part.lower().replace("-", "_") for part in (*reversed(PurePosixPath(file.path).parts), file.folder)]
    names = (name for part in parts[:-1] for name in _SEARCHES if name in part)
    return next(names, parts[-1] if parts[-1] in _SEARCHES else "search-and-learn")


def _rows(file: ListedFile) -> Iterator[Row]:
    for place, row in enumerate(table_rows(file), 1):
        completions, scores, tokens = row.get("completions"), row.get("scores"), row.get("completion_tokens")
        if not isinstance(completions, list):
            raise FormatError(f"`{file.address}`, row {place}: `completions` is no list")
        if isinstance(scores, list) and len(scores) != len(completions):
            raise FormatError(
                f"`{file.address}`, row {place}: `completions` has {len(completions)} items and `scores` {len(scores)}"
            )
        for index, completion in enumerate(completions):
            yield {
                "unique_id": text(row.get("unique_id")) or text(row.get("problem")),
                **texts(row, "problem", "subject", "level"),
                "gold": text(row.get("answer")),
                "index": index,
                "text": text(completion),
                "answer": UNREAD,
                "completion_tokens": as_count(value_at(tokens, index)),
                "scores": _step_scores(value_at(scores, index)),
            }


def _step_scores(scores: Any) -> list[float] | None:
    """The scores of a completion's steps. A single number is that of the whole."""
    values = scores if isinstance(scores, list) else [scores]
    known = [float(value) for value in values if number(value) is not None]
    return known or None
