"""`import_format`: the files of a known tool, by its name or by their content, into a sealed log.

The files are listed, unpacked or rewritten where a mapping cannot read them, and read by the mapping that is shipped
under the format's name. Uncompressed local files are read in place. A format whose ids are those of requests makes an
example of each; where several ask the same, a note gives the settings that join them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.arguments import checks_arguments
from toolkit.errors import (
    AmbiguousError,
    ConflictError,
    FormatError,
    NotFoundError,
    ThinkbackError,
    counted,
    listed,
    require_known,
)
from toolkit.imports.build.blocks import PreparedSources
from toolkit.imports.build.table import SOURCES, ImportReport, import_table
from toolkit.imports.files.file_names import relative_paths
from toolkit.imports.files.listing import ENDINGS, ListedFile, find_files, with_companions
from toolkit.imports.formats.format import FORMATS, FileHead, KnownFormat, head_of
from toolkit.imports.formats.prepared import FileNote, PreparedRows, merged_notes, name_list
from toolkit.imports.map.mapping import ROW_ORDER, ImportMapping, read_mapping
from toolkit.log import collect, open_log
from toolkit.notes import remark
from toolkit.work_places import scratch_folder

_LONGEST = 200
"""Most characters of the name of a folder or file."""


@dataclass(frozen=True)
class Detected:
    """The format that was detected: `files` have it, `others` do not."""

    format: KnownFormat
    files: tuple[ListedFile, ...]
    others: int

    def __str__(self) -> str:
        beside = f"; {counted(self.others, 'other file')} beside them left out" if self.others else ""
        return f"taken as {self.format.name} ({self.format.title}): {counted(len(self.files), 'file')}{beside}"


@checks_arguments(name="a format's name, or `auto`", sources=SOURCES, settings="texts KEY=VALUE")
def import_format(
    name: str,
    sources: Sequence[str | Path] | str | Path,
    out: str | Path,
    *,
    title: str | None = None,
    rejudge: bool = False,
    settings: Sequence[str] = (),
) -> ImportReport:
    """Imports files of the format `name` (`auto`: the one that their beginnings show) into log `out`.

    `sources` are files, folders, globs, archives or fsspec addresses. `settings` replace the shipped mapping's, or are
    the format's own. ThinkbackError, and nothing is written, where a file is not of the format, or can't be read.
    """
    given = [str(source) for source in ([sources] if isinstance(sources, str | Path) else sources)]
    detected = detect_format(given) if name == "auto" else None
    if detected is None:
        require_known(name, FORMATS, f"unknown format `{name}`")
    form = FORMATS[name] if detected is None else detected.format
    mine = [setting for setting in settings if setting.partition("=")[0].strip() in form.options]
    options = {key.strip(): value.strip() for key, _, value in (one.partition("=") for one in mine)}
    others = [one for one in settings if one not in mine]
    notes: list[FileNote] = []
    with _name_other_format(given, form) if detected is None else nullcontext():
        matches = find_files(given, form.accepts_path) if detected is None else detected.files
        files = with_companions(_files_of_format(form, matches, others, notes), form.companions)
        with _addresses_to_read(form, files, options, notes) as (addresses, prepared):
            report = import_table(
                addresses, form.mapping, out, rejudge=rejudge, name=title, settings=others, prepared=prepared
            )
        again = _repeated_question_notes(report.log, read_mapping(form.mapping, others)) if form.of_requests else []
    detection = [str(detected)] if detected is not None else []
    lacks = remark("not_recorded", f"{form.name} does not record: {form.lacks}")
    return replace(report, notes=(*detection, *merged_notes(notes), lacks, *report.notes, *again))


@contextmanager
def _name_other_format(sources: Sequence[str], form: KnownFormat) -> Iterator[None]:
    """Adds to errors raised inside the block the format that the sources seem to have, if that is another one."""
    try:
        yield
    except ThinkbackError as error:
        with suppress(ThinkbackError):
            other = detect_format(sources).format.name
            if other != form.name:
                error = FormatError(f"{error}; it looks like {other}: `thinkback import {other}`")
        raise error from None


def _files_of_format(
    form: KnownFormat, files: Sequence[ListedFile], settings: Sequence[str], notes: list[FileNote]
) -> list[ListedFile]:
    """The files to import: without files that are joined to others and, where names are arbitrary, without those that
    the format does not recognise. Unreadable files stay, and so do all files where none is recognised: the import then
    says what is wrong with them.
    """
    join = read_mapping(form.mapping, settings).join
    rest = [file for file in files if file.named or join is None or file.address != f"{file.beside}/{join.file}"]
    if not form.nameless:
        return rest or list(files)
    heads = {file.address: head_of(file) for file in rest if not file.named}
    known = [file for file in rest if file.named or _may_have_format(form, heads[file.address])]
    if others := [f"`{file.path}`" for file in rest if known and file not in known]:
        what = f"is no file of {form.name}" if len(others) == 1 else f"are no files of {form.name}"
        notes.append(FileNote("", f"{name_list(others)} {what}: left out"))
    return known or rest or list(files)


def _may_have_format(form: KnownFormat, head: FileHead) -> bool:
    return head.fault is not None or form.recognises(head)


def detect_format(sources: Sequence[str]) -> Detected:
    """Detects the format by the beginnings of files. ThinkbackError where none is known, or the files have several."""
    files = find_files(sources, lambda path: path.lower().endswith(ENDINGS))
    by_format: dict[str, list[ListedFile]] = {}
    heads = [head_of(file) for file in files]
    for file, head in zip(files, heads, strict=True):
        form = next((form for form in FORMATS.values() if form.recognises(head)), None)
        if form is not None:
            by_format.setdefault(form.name, []).append(file)
    fault = next((head.fault for head in heads if head.fault is not None), None)
    if not by_format and fault is not None:
        raise FormatError(fault)
    if not by_format:
        raise NotFoundError(
            f"no file of a known format among {counted(len(files), 'file')}; known are {listed(list(FORMATS))}; any"
            f" other table: `thinkback import table {sources[0]} --out mylog` guesses, or `--map MAP.toml` says it"
        )
    if len(by_format) > 1:
        counts = ", ".join(f"{len(of)} of {name}" for name, of in by_format.items())
        raise AmbiguousError(f"the sources hold files of several formats ({counts}): import each by its name")
    ((name, matches),) = by_format.items()
    form = FORMATS[name]
    by_name = form.prepare is not None and not form.nameless
    beside = [file for file in files if file in matches or (by_name and form.accepts_path(file.path))]
    return Detected(form, tuple(beside), len(files) - len(beside))


@contextmanager
def _addresses_to_read(
    form: KnownFormat, files: Sequence[ListedFile], options: Mapping[str, str], notes: list[FileNote]
) -> Iterator[tuple[list[str], PreparedSources]]:
    """The addresses that the format's mapping reads: original files, unpacked copies, or files of converted rows."""
    folder = Path(scratch_folder())
    try:
        pools: dict[str, Any] = {}
        prepared = form.prepared(files, options) if form.prepare is not None else None
        pairs = list(
            _unpacked_files(files, folder) if prepared is None else _converted_files(prepared, folder, notes, pools)
        )
        if not pairs:
            fault = f"no sample of {form.name} in {listed([file.address for file in files], 3)}"
            raise FormatError("; ".join((fault, *merged_notes(notes))))
        runs = _run_of_files([file for file, _ in pairs], form.depth)
        first = files[0].beside
        sources = PreparedSources(
            {address: run for (_, address), run in zip(pairs, runs, strict=True)},
            tuple((file.address.rpartition("/")[2] or file.path, file.sha256()) for file in files),
            first,
            pools,
        )
        yield [address for _, address in pairs], sources
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _converted_files(
    parts: Iterator[PreparedRows], folder: Path, notes: list[FileNote], pools: dict[str, Any]
) -> Iterator[tuple[ListedFile, str]]:
    """Yields files of converted rows, each at its original's relative path."""
    for part in parts:
        place = _copy_path(folder, part.file, ".jsonl")
        if _write_rows(part, place):
            yield part.file, str(place)
        notes += part.notes
        pools |= part.pools


def _write_rows(part: PreparedRows, place: Path) -> int:
    """Writes rows as JSON lines with the name of their original file; returns the number of rows."""
    written = 0
    with place.open("w", encoding="utf-8", errors="surrogatepass") as out:
        for row in part.rows:
            out.write(json.dumps({"source_file": part.file.name, **row}) + "\n")
            written += 1
    return written


def _unpacked_files(files: Sequence[ListedFile], folder: Path) -> Iterator[tuple[ListedFile, str]]:
    for file in files:
        if file.local is not None:
            yield file, file.address
            continue
        place = _copy_path(folder, file, file.ending)
        with file.open() as stream, place.open("wb") as out:
            shutil.copyfileobj(stream, out)
        yield file, str(place)


def _copy_path(folder: Path, file: ListedFile, ending: str) -> Path:
    """The path of a file's copy in `folder`, below its folders. No name in an archive can lead out of `folder`."""
    parts = [part[:_LONGEST] for part in file.place.replace("\x00", "").split("/")]
    names = [part for part in parts if part not in ("", ".", "..")]
    name = names[-1].removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz").removesuffix(".zst")
    place = folder.joinpath(*names[:-1], name if name.lower().endswith(ending) else name + ending)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        raise ConflictError(f"two files are called `{file.address}`: rename one of them")
    return place


def _run_of_files(files: Sequence[ListedFile], depth: int) -> list[str]:
    """The run of each file: its folders below the shared one; empty where all share one. `depth`: how many names at a
    path's end tell the content, not the run.
    """
    folders = ["/".join(file.place.split("/")[:-depth]) for file in files]
    if len(set(folders)) == 1:
        return [""] * len(files)
    return relative_paths([f"{folder}/" for folder in folders])


def _repeated_question_notes(log: Path, mapping: ImportMapping) -> list[str]:
    """A note where several examples have the same question, with the settings that join them."""
    opened = open_log(log)
    questions = collect(opened.scan("examples", ["question"]).select(pl.col("question").hash()), opened).to_series()
    again = questions.len() - questions.n_unique()
    if not again:
        return []
    settings = [f"--set 'examples.example_id={mapping.examples.columns['question']}'"]
    if any(table.columns["sample_index"] != ROW_ORDER for table in mapping.traces):
        settings.append(f"--set 'traces.sample_index={ROW_ORDER}'")
    count = f"{counted(again, 'example has', 'examples have')} the question of another, under an id of"
    return [
        f"{count} {'its' if again == 1 else 'their'} own; to make them samples of one example: {' '.join(settings)}"
    ]
