"""The passages of a corpus, read from its files: rows of `id`, `title` and `text`, or the questions of a data set whose
rows hold their passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from generate.datasets.multihop import ALIASES, PASSAGES, passage_id
from generate.datasets.published import read_rows
from toolkit.errors import ConflictError, EmptyError, FormatError, NotFoundError, RequiredError, error_prefix

LAYOUTS = ("passages", *PASSAGES)
"""What the rows of a corpus are: passages, or the questions of a data set with theirs."""
SUFFIXES = (".jsonl", ".ndjson", ".parquet")
QUESTIONS = (".json", *SUFFIXES)
COLUMNS = ("id", "title", "text")
WITHOUT_PASSAGES = (ALIASES, "dev_test_singlehop_questions_v1.0.json")
"""What 2WikiMultiHopQA and MuSiQue are published with, beside their questions."""


def files_of(path: Path, layout: str, place: str) -> tuple[Path, ...]:
    """The files of a corpus, by name: one, or those of a folder whose names do not begin with `.` or `_`; of a data
    set those with questions.

    ThinkbackError where there is none.
    """
    suffixes = SUFFIXES if layout == "passages" else QUESTIONS
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise NotFoundError(f"`{place}.path`: there is no file or folder `{path}`")
    there = (one for one in sorted(path.iterdir()) if one.is_file() and one.name[0] not in "._")
    left_out = () if layout == "passages" else WITHOUT_PASSAGES
    files = tuple(one for one in there if one.suffix in suffixes and one.name not in left_out)
    if not files:
        raise EmptyError(f"`{place}.path`: `{path}` has no file of passages ({', '.join(suffixes)})")
    return files


def read_passages(files: Sequence[Path], layout: str, place: str) -> pl.DataFrame:
    """The passages of some files, in their order, with the columns `id`, `title` (empty where there is none), `text`.

    ThinkbackError where a file can't be read, a passage has no id or no text, two have one id, or there is none.
    """
    rows = pl.concat(
        [_read_file(file, place) if layout == "passages" else _read_questions(file, layout) for file in files]
    )
    if not rows.height:
        raise EmptyError(f"`{place}.path`: `{files[0]}` has no passages: give it rows of `id` and `text`")
    if layout != "passages":
        return rows.unique("id", keep="first", maintain_order=True)
    twice = rows.filter(rows["id"].is_duplicated())["id"]
    if len(twice):
        raise ConflictError(
            f"`{place}.path`: {twice.n_unique():,} ids are those of several passages, the first is `{twice[0]}`: give"
            " each passage an id of its own"
        )
    return rows


def _read_file(file: Path, place: str) -> pl.DataFrame:
    parquet = file.suffix == ".parquet"
    try:
        if not parquet:
            with file.open("rb") as lines:
                if not any(line.strip() for line in lines):
                    return pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.String))
        rows = pl.read_parquet(file) if parquet else pl.read_ndjson(file, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        with error_prefix(f"`{place}.path`: "):
            read_rows(file)  # which says what line is none of JSON
        raise FormatError(f"`{place}.path`: `{file}` can't be read: {str(error).splitlines()[0]}") from None
    if "id" not in rows.columns and "_id" in rows.columns:
        rows = rows.rename({"_id": "id"})
    if nested := [name for name in COLUMNS if name in rows.columns and rows[name].dtype.is_nested()]:
        raise FormatError(f"`{place}.path`: `{file}`, column `{nested[0]}`: must be texts, and has lists or objects")
    for name in ("id", "text"):
        if name not in rows.columns:
            raise RequiredError(f"`{place}.path`: `{file}` has no column `{name}`: each passage needs one")
        empty = rows[name].is_null()
        if name == "id":
            empty |= (rows[name].cast(pl.String) == "").fill_null(False)
        if empty.any():
            raise RequiredError(
                f"`{place}.path`: `{file}`, row {empty.arg_true()[0] + 1}: the passage has no `{name}`"
                f" ({int(empty.sum()):,} have none): give each one"
            )
    title = pl.col("title").cast(pl.String).fill_null("") if "title" in rows.columns else pl.lit("").alias("title")
    return rows.select(pl.col("id").cast(pl.String), title, pl.col("text").cast(pl.String))


def _read_questions(file: Path, layout: str) -> pl.DataFrame:
    named = dict.fromkeys((title, text) for row in read_rows(file) for title, text, _ in PASSAGES[layout](row))
    return pl.DataFrame(
        [(passage_id(title, text), title, text) for title, text in named], schema=dict.fromkeys(COLUMNS, pl.String),
        orient="row",
    )  # fmt: skip
