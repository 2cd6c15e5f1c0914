"""Any file or frame into a log: a known format by its look, any other table by a mapping that is guessed and kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.arguments import WORDS, checks_arguments
from toolkit.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    ThinkbackError,
    UnknownError,
    UnsuitableError,
    argument,
    listed,
    quote,
)  # fmt: skip
from toolkit.imports.build.table import SOURCES, ImportReport, import_table
from toolkit.imports.formats.importing import Detected, detect_format, import_format
from toolkit.imports.guessing.columns import Columns, columns_of, setting_text
from toolkit.imports.guessing.guess import guess_mapping
from toolkit.imports.guessing.shapes import rows_of
from toolkit.imports.map.mapping import read_mapping
from toolkit.log import SCHEMAS, AnyLog, Log, open_log
from toolkit.work_places import remove_path, scratch_folder

MAPPING = "map.toml"
CORRECTION = (
    "to correct it: --set KEY=VALUE, such as --set traces.answer=COLUMN, or change {file} and give it with --map"
)


@dataclass(frozen=True)
class AnyImport:
    """The result of importing anything. `mapping`: the text of the guessed mapping; None for a known format."""

    report: ImportReport
    mapping: str | None


@checks_arguments(sources=SOURCES, settings="texts KEY=VALUE")
def import_any(
    sources: Sequence[str | Path] | str | Path,
    out: str | Path,
    *,
    mapping: str | Path | None = None,
    name: str | None = None,
    rejudge: bool = False,
    settings: Sequence[str] = (),
    judged: bool = False,
    formats: bool = True,
) -> AnyImport:
    """Imports files into log `out`: through a `mapping`, as the known format that they have, or by a guessed mapping.

    `judged`: refuse a guess by which no answer is judged. `formats`: whether known ones are looked for.
    """
    given = [str(source) for source in ([sources] if isinstance(sources, str | Path) else sources)]
    if mapping is not None:
        return AnyImport(import_table(given, mapping, out, name=name, rejudge=rejudge, settings=settings), None)
    form = _known_format(given) if formats else None
    if form is not None:
        known, joined = _split_gold_file(form, given, settings)
        done = import_format("auto", known, out, title=name, rejudge=rejudge, settings=(*joined, *settings))
        texts = " ".join(setting_text(*one.split("=", 1)) for one in joined)
        replies = [f"taken from the file beside: {texts}"] if joined else []
        return AnyImport(replace(done, notes=(*replies, *done.notes)), None)
    guess = guess_mapping(given, settings)
    if judged and guess.unjudged is not None:
        raise UnsuitableError(guess.unjudged)
    folder = Path(scratch_folder())
    try:
        (folder / MAPPING).write_text(guess.text, encoding="utf-8")
        report = import_table(guess.sources, folder / MAPPING, out, name=name, rejudge=rejudge)
    finally:
        remove_path(folder)
    notes = (*report.notes, *([guess.unjudged] if guess.unjudged is not None else []))
    return AnyImport(replace(report, notes=notes), guess.text)


def _known_format(sources: Sequence[str]) -> Detected | None:
    """The known format that the files have; None where they have none."""
    try:
        return detect_format(sources)
    except NotFoundError:
        return None


def _split_gold_file(
    form: Detected, sources: Sequence[str], settings: Sequence[str]
) -> tuple[Sequence[str], list[str]]:
    """Splits off a file of gold by id that was named with the sources: the other sources, and settings that join it."""
    others = [
        source for source in sources if Path(source).is_file() and source not in {file.address for file in form.files}
    ]
    if len(others) != 1 or len(sources) < 2 or any(setting.startswith("join") for setting in settings):
        return sources, []
    columns = Columns(columns_of(rows_of(others)), 0)
    ids, golds, questions = (columns.for_role(name, scalar=True)[:1] for name in ("id", "gold", "question"))
    if not ids or not golds or ids[0].values.is_duplicated().any():
        return sources, []
    mine = read_mapping(form.format.mapping).examples.columns["example_id"]
    file = _toml_text(str(Path(others[0]).resolve()))
    joined = [
        f"join={{ file = {file}, on = {{ {_toml_text(ids[0].value)} = {_toml_text(str(mine))} }} }}",
        f"examples.gold={golds[0].value}",
    ]
    for one in questions:
        joined.append(f"examples.question=COALESCE({one.value}_right?, {one.value}?, {mine})")
    return [one for one in sources if one not in others], joined


NAMES = {
    "id": "examples.example_id", "question": "examples.question", "gold": "examples.gold",
    "dataset": "examples.dataset", "split": "examples.split", "cluster": "examples.cluster",
    "labels": "examples.labels", "answer": "traces.answer", "text": "traces.text", "correct": "traces.correct",
    "model": "traces.model", "pool": "traces.pool", "sample": "traces.sample_index",
    "tokens": "traces.completion_tokens", "prompt_tokens": "traces.prompt_tokens", "seconds": "traces.latency_s",
    "logprob": "traces.sum_logprob", "credit": "traces.credit",
}  # fmt: skip
"""What a frame's columns may be named as, and the mapping's keys."""


@checks_arguments(scores="names of columns", settings="texts KEY=VALUE")
def log(
    frame: Any,
    *,
    scores: str | Sequence[str] = (),
    out: str | Path | None = None,
    settings: Sequence[str] = (),
    **columns: str,
) -> Log:
    """Makes a log of a data frame, given what its columns are called: `log(frame, question="prompt", answer="pred")`.

    `frame`: of polars, pandas or Arrow, a dict of lists, or a data set of Hugging Face; one row for each sample, or
    with lists of samples. `columns`: which column is the id, question, gold, answer, text, correct, model, pool,
    sample, tokens, prompt_tokens, seconds, logprob, dataset, split, cluster; what is not named is guessed as for files.
    `scores`: columns of verifiers. The log lies in `out`, or in a temporary folder. ThinkbackError, with all columns
    that are missing, where the frame lacks some.
    """
    rows = _frame_rows(frame)
    unknown = [name for name in columns if name not in NAMES]
    if unknown:
        raise UnknownError(f"`log` takes no {listed(unknown)}; it takes {listed(list(NAMES))} and `scores`")
    verifiers = [scores] if isinstance(scores, str) else list(scores)
    missing = [one for one in (*columns.values(), *verifiers) if one not in rows.columns]
    if missing:
        raise NotFoundError(f"the frame has no {listed(missing)}; its columns are {listed(rows.columns)}")
    twice = [name for name in rows.columns if name.startswith("source_")]
    if twice:
        raise ConflictError(f"the frame's {listed(twice)} have names of the import's own: give them others")
    replies = [f"{NAMES[name]}={_toml_text(column)}" for name, column in columns.items()]
    if verifiers:
        tables = ", ".join(
            f"{{ verifier = {_name_text(verifier)}, score = {_toml_text(verifier)} }}" for verifier in verifiers
        )
        replies.append(f"verifiers=[{tables}]")
    return _import_frame(rows, None if out is None else Path(out), (*replies, *settings))


def _import_frame(rows: pl.DataFrame, out: Path | None, settings: Sequence[str], judged: bool = False) -> Log:
    """The log of a frame's rows. What an import refuses it says with the arguments of `log`."""
    folder = Path(scratch_folder())
    rows.write_parquet(file := folder / "frame.parquet")
    try:
        done = import_any([str(file)], out or folder / "log", settings=settings, formats=False, judged=judged)
    except ThinkbackError as error:
        raise error.with_rewritten_line(_with_arguments) from None
    return open_log(done.report.log)


_SETTING = re.compile(r"""--set (?:"([^"]+)"|'([^']+)'|([^\s,;`]+))""")


def _with_arguments(text: str) -> str:
    """A message with the arguments of `log` where it has the command's settings: `gold="target"`."""
    names = {key: name for name, key in NAMES.items()}

    def as_argument(match: re.Match[str]) -> str:
        key, _, column = (whole := next(filter(None, match.groups()))).partition("=")
        plain = key in names and re.fullmatch(r"\w+", column)
        return f"{names[key]}={_toml_text(column)}" if plain else f"settings=[{_toml_text(whole)}]"

    return _SETTING.sub(as_argument, text)


def as_log(given: AnyLog | Any) -> Log:
    """Opens a log in any form: whatever `open_log` takes, or a single frame of samples."""
    tables = isinstance(given, Mapping) and set(map(str, given)) <= {*SCHEMAS}
    if tables or isinstance(given, str | Path | Log):
        return open_log(given)
    if not isinstance(given, Mapping) and not any(hasattr(given, name) for name in _FRAMES):
        raise InvalidError(f"{argument('log')} is {quote(given)}; it takes {WORDS['log']}, or one frame of samples")
    try:
        return _import_frame(_frame_rows(given), None, (), judged=True)
    except ThinkbackError as error:
        raise error.with_subject(
            "", "; make a log of the frame with `tb.log`, which takes the names of its columns, and pass that log"
        ) from None


_FRAMES = ("__arrow_c_stream__", "collect_schema", "column_names")
"""What frames of polars, pandas and Arrow and data sets of Hugging Face are asked by."""


def _toml_text(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _name_text(name: str) -> str:
    return _toml_text(f"'{name.replace(chr(39), '’')}'")


def _frame_rows(frame: Any) -> pl.DataFrame:
    """The rows of any object with columns, through Arrow's stream, its Arrow table, or columns by name."""
    try:
        if isinstance(frame, Mapping):
            parts = [str(name) for name, part in frame.items() if hasattr(part, "column_names")]
            if parts:
                raise InvalidError(f"`frame` is several data sets, {listed(parts)}: give one of them")
            return pl.DataFrame(dict(frame), strict=False)
        collect = getattr(frame, "collect", None)
        if callable(collect) and hasattr(frame, "collect_schema") and not hasattr(frame, "write_parquet"):
            return pl.DataFrame(collect())
        if hasattr(frame, "__arrow_c_stream__"):
            return pl.DataFrame(frame, nan_to_null=True)
        table = getattr(frame, "data", None)
        if hasattr(frame, "column_names") and hasattr(frame, "to_dict"):
            indices = getattr(frame, "_indices", None)  # a data set of Hugging Face that was filtered or shuffled
            arrow = getattr(table, "table", None) if indices is None else None
            return pl.DataFrame(frame.to_dict() if arrow is None else arrow, strict=False)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InvalidError(f"the frame can't be read as columns: {str(error).splitlines()[0]}") from None
    raise InvalidError(
        f"`frame` is {quote(frame)}; it takes a frame of polars, pandas or Arrow, a dict of lists or a data set of"
        " Hugging Face"
    )
