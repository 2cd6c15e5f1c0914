"""The rows of somebody's files: lists of samples, objects that hold rows, files beside others, what paths tell."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from toolkit.errors import AmbiguousError, EmptyError, MismatchError, ThinkbackError, first_line
from toolkit.imports.files.file_names import columns_of_paths
from toolkit.imports.files.listing import path_without_archive
from toolkit.imports.guessing.columns import BETTER, Column, Columns, as_lists, as_texts, columns_of, setting_text
from toolkit.imports.guessing.roles import ROLES, WEAK, is_scalar, name_fits_role, plain_name
from toolkit.imports.map import opening
from toolkit.imports.map.expressions import SourceRows
from toolkit.imports.map.mapping import ImportMapping
from toolkit.imports.rows.source_table import SourceTable, stack_tables
from toolkit.imports.rows.sources import SourceList, find_sources, read_beside, source_blocks
from toolkit.settings import from_table
from toolkit.work_places import remove_path, scratch_folder

GUESSED = "guessed"
ENOUGH = 128 * 2**20
"""Bytes of rows from which what a column is can be told."""
_SAMPLES = re.compile(r"seed|run|sample|rs|epoch|trial|try|rep|repeat|rollout|k|n|gen|part|shard|iter")
_PARTS = ("part", "shard")
_RUNS = ("run", "runs", "seed", "epoch")
_NO_QUESTIONS = re.compile(r"parts|shards?|chunks?|batch|split|block|page|file|model|fold|group|runs")
_MANY_FILES = 20
"""Files from which each may be a question, by their number alone."""
_OPTIONS = ("options", "labels", "label_space", "classes", "option_texts")
_NEARLY_ALL = 0.9


@dataclass(frozen=True)
class Shape:
    """The layout of a user's files. `top`: keys of the mapping with reasons, which give `rows`; `opened`: list columns;
    `element`: the column of an element's place.

    `file_id`: the column of paths that tells examples apart, `run`: the one that tells runs apart. `logprobs`: the path
    of the log-probabilities of a sample's tokens. `assigned`: columns that have no role; `more`: what is computed of
    columns. `name`: of the data set.
    """

    rows: SourceRows
    sources: tuple[str, ...]
    name: str
    top: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    opened: tuple[str, ...] = ()
    element: str = "element"
    file_id: str | None = None
    run: Column | None = None
    logprobs: str | None = None
    assigned: frozenset[str] = frozenset()
    more: tuple[Column, ...] = ()


def shape_of(sources: Sequence[str], given: Mapping[str, Any]) -> Shape:
    """Finds the rows in files, lists opened, and the mapping keys that give them. ThinkbackError as in an import."""
    top: dict[str, tuple[Any, str]] = {}
    keys = {key: given[key] for key in ("path", "records", "join", "where") if key in given}
    plan = _empty_mapping(keys)
    files, table = _read_files(sources, plan)
    if not table.frame.height:
        raise EmptyError(f"the source holds no rows: {files.names_text}")
    chosen = tuple(sources)
    if "join" not in given:
        chosen, join = _split_joined_file(files, table, sources)
        if join is not None:
            top["join"] = (join, f"{GUESSED}: a file with one row for each key")
            files, table = _read_files(chosen, _empty_mapping(keys))
    if "records" not in given and table.frame.height == len(files.files):
        records = _records_path(table)
        if records is not None:
            top["records"] = (records, GUESSED)
    keys |= {key: value for key, (value, _) in top.items()}
    if top:
        files, table = _read_files(chosen, _empty_mapping(keys))
    rows = _opened_rows(_empty_mapping(keys), table, files)
    name = _dataset_name(files, chosen)
    shape = Shape(rows, chosen, name, top)
    shape = _with_path_columns(shape, files, given)
    return _with_lists_opened(shape, given, keys, table, files)


def _empty_mapping(keys: Mapping[str, Any]) -> ImportMapping:
    """A valid mapping with these keys that imports nothing yet."""
    examples = dict.fromkeys(("example_id", "dataset", "split", "question"), "''")
    traces = [dict.fromkeys(("pool", "sample_index", "model"), "''")]
    return from_table(ImportMapping, {"name": "guess", "examples": examples, "traces": traces, **keys})


def _read_files(sources: Sequence[str], plan: ImportMapping) -> tuple[SourceList, SourceTable]:
    """The files, and as many of their rows as a guess needs."""
    rules = replace(opening.source_rules(plan), columns=None)
    files = find_sources(list(sources), rules)
    folder, tables, size = Path(scratch_folder()), list[SourceTable](), 0
    try:
        for table in source_blocks(files, rules, folder, {}):
            tables.append(table)
            size += int(table.frame.estimated_size())
            if size > ENOUGH:
                break
        return files, stack_tables(tables, ())
    except pl.exceptions.PolarsError as error:
        raise MismatchError(
            f"the files {files.names_text} hold columns of one name but different types: {first_line(error)}"
        ) from None
    finally:
        remove_path(folder)


def rows_of(sources: Sequence[str]) -> SourceRows:
    """The rows of files, unchanged."""
    table = _read_files(sources, _empty_mapping({}))[1]
    return _as_source_rows(table, table.frame)


def _opened_rows(plan: ImportMapping, table: SourceTable, files: SourceList) -> SourceRows:
    other = None
    if plan.join is not None:
        rules = replace(opening.source_rules(plan), columns=None)
        other = opening.read_joined_rows(plan, plan.join, read_beside(plan.join.file, files.folder, rules))
    return opening.opened_rows(plan, table, other).filter_rows("where", plan.where)


def _dataset_name(files: SourceList, sources: Sequence[str]) -> str:
    """The data set's name: that of the single file, or of the folder with several."""
    first = path_without_archive(files.files[0].address)
    if len(files.files) > 1 and len(sources) == 1 and not re.search(r"[*?\[]", sources[0]):
        return PurePosixPath(sources[0]).name or first.parent.name
    name = first.name
    for suffix in re.findall(r"\.\w+", ".gz.bz2.xz.zst.jsonl.ndjson.json.csv.tsv.parquet.pq.txt.run"):
        name = name.removesuffix(suffix)
    return name


def _split_joined_file(
    files: SourceList, table: SourceTable, sources: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, Any] | None]:
    """Splits off the source with one row for each question of the others: these, and the key `join` for it."""
    if len(files.files) < 2:
        return tuple(sources), None
    listed = sources if len(sources) > 1 else [file.address for file in files.files]
    names = [column for column in table.frame.columns if not column.startswith(("source_", "__"))]
    filled = table.frame.group_by("source_path").agg(pl.col(names).count() > 0)
    held = dict.fromkeys((file.path for file in files.files), frozenset[str]())
    held |= {path: frozenset(itertools.compress(names, has)) for path, *has in filled.iter_rows()}
    alike = Counter(held.values())
    for file in files.files:
        if alike[held[file.path]] > 1 or file.address not in listed:
            continue
        inside = pl.col("source_path") == file.path
        mine, rest = table.frame.filter(inside), table.frame.filter(~inside)
        others = [held[one.path] for one in files.files if one is not file]
        on = _join_keys(held[file.path], mine, frozenset().union(*others), rest)
        every = columns_of(_as_source_rows(table, mine.select(*held[file.path])))
        adds = [one for one in every if one.value not in on]
        gold = any(name_fits_role(add.name, "gold", "question") or add.value == "relevance" for add in adds)
        if on and gold and not mine.select(list(on)).is_duplicated().any():
            folder = files.folder if files.folder else "."
            chosen = tuple(one for one in listed if one != file.address)
            return chosen, {"file": _join_path(file.address, chosen[0], folder), "on": on}
    return tuple(sources), None


def _as_source_rows(table: SourceTable, frame: pl.DataFrame) -> SourceRows:
    return SourceRows(frame, table.numbers, "guess")


def _join_path(address: str, first: str, folder: str) -> str:
    """The path of a joined file, relative to the first source, as a mapping's `join` needs it."""
    if "://" in address or address.startswith("/"):
        return address
    import os

    beside = str(PurePosixPath(first).parent)
    return os.path.relpath(address, beside) if beside not in ("", ".") else address


def _join_keys(
    mine: frozenset[str], beside: pl.DataFrame, other_names: frozenset[str], rows: pl.DataFrame
) -> dict[str, str]:
    """The columns in which a file equals the others, by name or by their role as ids: {its column: theirs}."""
    both = [name for name in beside.columns if name in mine & other_names]
    ids = [name for name in both if ROLES["id"].name_fit(name) is not None or name in ("qid", "docno")]
    if set(ids) >= {"qid", "docno"}:
        return {"qid": "qid", "docno": "docno"}
    pairs = [(name, name) for name in ids]
    if not pairs:
        first_ids, other = (
            [name for name in names if ROLES["id"].name_fit(name) is not None] for names in (mine, other_names)
        )
        pairs = [(one, two) for one in first_ids for two in other]
    for one, two in pairs:
        known = set(as_texts(beside[one]).drop_nulls())
        seen = as_texts(rows[two]).drop_nulls().unique()
        if seen.len() and float(seen.is_in(list(known)).mean() or 0.0) >= _NEARLY_ALL:  # type: ignore[arg-type]
            return {one: two}
    return {}


def _records_path(table: SourceTable) -> str | None:
    """The path to the rows in documents that hold more than rows; None where each document is a row."""
    names = [name for name in table.frame.columns if not name.startswith(("source_", "__"))]
    kinds = {name: table.frame.schema[name] for name in names}
    if len(names) > 1 and len({str(kind) for kind in kinds.values()}) == 1 and _holds_objects(kinds[names[0]]):
        return "."
    if table.frame.height > len(table.frame["source_path"].unique()):
        return None
    for name, kind in kinds.items():
        inner = kind.inner if isinstance(kind, pl.List) else None
        if isinstance(inner, pl.Struct):
            fields = {one.name for one in inner.fields}
            if any(name_fits_role(one, "question", "gold", "id") for one in fields):
                return name
        if (
            isinstance(kind, pl.Struct)
            and len(kind.fields) > 1
            and len({str(one.dtype) for one in kind.fields}) == 1
            and _holds_objects(kind.fields[0].dtype)
        ):
            return name
    return None


def _holds_objects(kind: Any) -> bool:
    """Whether a type is that of rows with outputs or answers: an object, or a list of objects."""
    inner = kind.inner if isinstance(kind, pl.List) else kind
    return isinstance(inner, pl.Struct) and any(
        name_fits_role(one.name, "question", "gold", "text", "answer", "verdict") for one in inner.fields
    )


def _with_path_columns(shape: Shape, files: SourceList, given: Mapping[str, Any]) -> Shape:
    """Adds what the paths of several files tell: each file's question, or its run."""
    if len(files.files) < 2 or "path" in given:
        return shape
    paths = [str(path_without_archive(file.address)) for file in files.files]
    columns = Columns(columns_of(shape.rows), shape.rows.frame.height)
    questions = columns.for_role("question", scalar=True)
    ids = columns.for_role("id", scalar=True)
    known = given.get("examples", {})
    if questions and not {"question", "example_id"} & known.keys() and _may_be_sample_texts(questions[0], columns):
        questions = _checked_questions(questions, shape, paths)
    if not questions and not [one for one in ids if one.values.n_unique() > 1]:
        return shape if "example_id" in known else _files_of_questions(shape, paths, columns)
    key = as_texts((questions or ids)[0].values)
    pairs = pl.DataFrame({"key": key, "path": shape.rows.frame["source_path"]}).unique()
    shared = pairs["key"].is_duplicated().mean()
    if float(shared or 0.0) < 0.5:  # type: ignore[arg-type]
        return shape
    pattern, word = _path_pattern(paths, "run")
    if pattern is None or word in _PARTS:
        return shape
    return _with_path(shape, pattern, "run", word)


def _with_path(shape: Shape, pattern: str, name: str, word: str) -> Shape:
    """The rows with a column read from each file's path by `pattern`."""
    paths = shape.rows.frame["source_path"]
    distinct = paths.unique().to_list()
    # The pattern fits the end of a whole path, and these begin below the shared folder.
    values = columns_of_paths(pattern, [f"x/x/x/{path}" for path in distinct])
    known = dict(zip(distinct, (one[name] for one in values), strict=True))
    texts = paths.replace_strict(list(known), list(known.values()), return_dtype=pl.String)
    texts = texts.cast(pl.Int64) if all(value.isdigit() for value in known.values()) else texts
    rows = replace(shape.rows, frame=shape.rows.frame.with_columns(texts.alias(name)))
    run = Column(name, name, texts)
    top = {**shape.top, "path": (pattern, f"{GUESSED}: what paths tell apart")}
    counts = all(value.isdigit() for value in known.values())
    samples = counts and _SAMPLES.fullmatch(word.lower().strip("-_ ").rpartition("-")[2].rpartition("_")[2]) is not None
    assigned = shape.assigned if samples else shape.assigned | {name}
    return replace(shape, rows=rows, top=top, run=None if samples else run, assigned=assigned)


def _files_of_questions(shape: Shape, paths: Sequence[str], columns: Columns) -> Shape:
    """Makes each file a question, where no column identifies one; AmbiguousError where a file may be a run."""
    group = shape.rows.frame["source_path"].rank("dense")
    golds = replace(columns, group=None).for_role("gold", scalar=True)
    pattern, word = _path_pattern(paths, "example")
    constant = bool(golds) and replace(columns, group=group).is_constant(golds[0].values)
    if golds and not constant and _is_only_output(golds[0], columns) and word.lower() not in _RUNS:
        golds = []
    if pattern is None or (golds and not constant):
        return shape
    if not golds and not _may_be_questions(shape, paths):
        raise AmbiguousError(
            "nothing in the rows names their questions: write"
            f" {setting_text('path', pattern)} {setting_text('examples.example_id', 'example')} where each file is a"
            f" question, {setting_text('examples.example_id', 'source_row')} for a run with a question in each row"
        )
    return replace(_with_path(shape, pattern, "example", ""), file_id="example", run=None)


def _may_be_questions(shape: Shape, paths: Sequence[str]) -> bool:
    """Whether files are many, of several rows, and not named as runs or parts are: each may be a question."""
    pattern, word = _path_pattern(paths, "example")
    sizes = shape.rows.frame["source_path"].value_counts()["count"].to_list()
    several = min(sizes) > 1 and len(paths) >= _MANY_FILES and len(paths) > max(sizes)
    named = _SAMPLES.fullmatch(word.lower()) or _NO_QUESTIONS.fullmatch(word.lower())
    return pattern is not None and several and not named


def _is_only_output(gold: Column, columns: Columns) -> bool:
    """Whether a column that may be gold, such as `answer`, is what models answered: verdicts judge nothing else."""
    place = ROLES["gold"].name_fit(gold.name)
    others = [one for one in columns.every if one.value != gold.value and not name_fits_role(one.name, "sample_index")]
    outputs = [
        other for other in others if name_fits_role(other.name, "answer", "text") or as_lists(other.values) is not None
    ]
    return place is not None and place[0] == WEAK and not outputs and bool(columns.for_role("verdict", weak=False))


def _may_be_sample_texts(one: Column, columns: Columns) -> bool:
    """Whether a column such as `text`, which may be the question, may as well hold the texts of samples."""
    others = [other for other in columns.every if other.value != one.value]
    return (
        name_fits_role(one.name, "text")
        and not any(name_fits_role(other.name, "answer", "text", "question") for other in others)
        and not one.values.is_duplicated().any()
    )


def _checked_questions(texts: list[Column], shape: Shape, paths: Sequence[str]) -> list[Column]:
    """The texts as questions, or none where each of many files is one; AmbiguousError where a few may be."""
    if _may_be_questions(shape, paths):
        return []
    pattern, word = _path_pattern(paths, "example")
    if pattern is None or word in _PARTS or int(shape.rows.frame["source_path"].value_counts()["count"].min()) < 2:  # type: ignore[arg-type]
        return texts
    raise AmbiguousError(
        f"`{texts[0].value}` may be a question in each row, or a sample of the question that its file is: write"
        f" {setting_text('examples.question', texts[0].value)} or {setting_text('path', pattern)}"
        f" {setting_text('examples.example_id', 'example')} {setting_text('traces.text', texts[0].value)}"
    )


def _path_pattern(paths: Sequence[str], name: str) -> tuple[str | None, str]:
    """A `path` pattern whose column is the one part in which paths differ, and the word before it; None for several."""
    split = [PurePosixPath(path).parts for path in paths]
    depth = min(map(len, split))
    differ = [place for place in range(1, depth + 1) if len({parts[-place] for parts in split}) > 1]
    if not differ:
        return None, ""
    place = differ[-1] if len(differ) == 1 or 1 not in differ else max(differ)
    parts = [one[-place] for one in split]
    if place == 1 and len(differ) > 1:
        return None, ""
    begin = _shared_beginning(parts)
    end = _shared_beginning([part[len(begin) :][::-1] for part in parts])[::-1]
    begin = re.sub(r"\d+$", "", begin)
    end = re.sub(r"^\d+", "", end)
    if place == 1:
        suffix = re.search(r"(\.[A-Za-z]+)+$", end)
        end = end if suffix else PurePosixPath(parts[0]).suffix
    if any(re.search(r"[{}*]", text) for text in (begin, end)):
        return None, ""
    pattern = f"{begin}{{{name}}}{end}" + "/*" * (place - 1)
    word = re.split(r"[^A-Za-z]+", begin.rstrip("-_. ="))[-1]
    return pattern, word


def _shared_beginning(texts: Sequence[str]) -> str:
    least, most = min(texts), max(texts)
    return next((least[:place] for place, sign in enumerate(least) if most[place : place + 1] != sign), least)


def _with_lists_opened(
    shape: Shape, given: Mapping[str, Any], keys: dict[str, Any], table: SourceTable, files: SourceList
) -> Shape:
    """The rows with lists opened: one row for each sample, where a question's samples stand in lists."""
    columns = Columns(columns_of(shape.rows), shape.rows.frame.height)
    if "explode" in given:
        plan = _empty_mapping({**keys, "explode": given["explode"]})
        rows = _exploded_rows(shape, plan)
        names = [one.name for together in plan.explode for one in together]
        return replace(shape, rows=rows, opened=tuple(names))
    chat = _chat_choices(columns)
    parsed = ((one.value, as_lists(one.values)) for one in columns.every)
    lists = {value: values for value, values in parsed if values is not None}
    samples = (
        [one for one in columns.every if one.value in lists and _is_samples(one, lists[one.value])]
        if chat is None
        else []
    )
    if chat is None and not samples:
        return _map_trec_run(shape)
    if chat is None and samples[0].name in _TRIALS and columns.for_role("verdict", weak=False, scalar=True):
        return _last_trials(shape, samples[0], columns)
    first = chat or _opened_list(samples, lists)
    sizes = (as_lists(first.values) if chat is not None else lists[first.value]).list.len()  # type: ignore[union-attr]
    if chat is not None and (sizes.drop_nulls() == 1).all():
        return _open_single_choice(shape, first)
    together = [
        one
        for one in columns.every
        if one.value in lists
        and one.value != first.value
        and one.value == one.name
        and "." not in one.value
        and _has_element_per_sample(one, lists[one.value], sizes)
    ]
    name = first.value if re.fullmatch(r"\w+", first.value) else "sample"
    explode: Any = (
        [name, *(one.value for one in together)]
        if name == first.value
        else {name: first.value, **{one.value: one.value for one in together}}
    )
    opened = [name, *(one.value for one in together)]
    rows = _exploded_rows(shape, _empty_mapping({"explode": explode}))
    assigned = shape.assigned | {first.value} if name != first.value else shape.assigned
    top = {**shape.top, "explode": (explode, f"{GUESSED}: a list of samples")}
    logprobs = f"{name}.logprobs.content[*].logprob" if chat is not None and _has_logprobs(rows, name) else None
    assigned |= _question_totals(rows, opened)
    return replace(shape, rows=rows, top=top, opened=tuple(opened), assigned=assigned, logprobs=logprobs)


def _last_trials(shape: Shape, trials: Column, columns: Columns) -> Shape:
    """Keeps only the last trial of each question, where the verdict is that of the last."""
    if columns.for_role("gold", weak=False, scalar=True) and trials.name in ("trials", "attempts"):
        verdict = columns.for_role("verdict", weak=False)[0].value
        last = setting_text("traces.text", trials.value + "[-1]")
        raise AmbiguousError(
            f"`{trials.value}` lists the trials of a question, and `{verdict}` judges one or all of them: write"
            f" {last} for the last one alone, {setting_text('explode', [trials.value])} for all of them"
        )
    last = f"{trials.value}[-1]"
    text = Column(last, "completion", shape.rows.compute("text", last))
    return replace(shape, more=(text,), assigned=shape.assigned | {trials.value})


def _map_trec_run(shape: Shape) -> Shape:
    """Maps a TREC run: documents are answers, and those judged relevant are right."""
    names = shape.rows.frame.columns
    if not {"qid", "docno", "rank", "score"} <= set(names):
        return shape
    more = [Column("docno", "predicted_answer", shape.rows.frame["docno"])]
    if "relevance" in names:
        value = "COALESCE(relevance, 0) > 0"
        more.append(Column(value, "correct", shape.rows.compute("correct", value)))
    return replace(shape, more=tuple(more), assigned=shape.assigned | {"q0", "relevance", "iteration"})


_TRIALS = ("trials", "attempts", "reflections", "trajectory")


def _exploded_rows(shape: Shape, plan: ImportMapping) -> SourceRows:
    rows = shape.rows
    for number, together in enumerate(plan.explode, 1):
        rows = opening.opened_lists(rows, together, "element" if number == 1 else f"element_{number}")
    return rows


def _is_samples(column: Column, values: pl.Series) -> bool:
    """Whether a list column holds samples, by its name and by elements that are texts, numbers or outputs."""
    inner = values.dtype.inner if isinstance(values.dtype, pl.List) else None
    if isinstance(inner, pl.Struct) and {plain_name(one.name) for one in inner.fields} & {*BETTER}:
        return True
    if column.name.rpartition(".")[2].lower() in _OPTIONS or not name_fits_role(column.name, "text", "answer"):
        return False
    if ROLES["gold"].name_fit(column.name) == (WEAK, 0) and float(values.list.len().mean() or 0.0) <= 1:  # type: ignore[arg-type]
        return False
    if isinstance(inner, pl.Struct):
        fields = [one.name for one in inner.fields]
        return any(name_fits_role(one, "text", "answer", "verdict") for one in fields) and set(fields) != {
            "role",
            "content",
        }
    if isinstance(inner, pl.List) and inner.inner.is_numeric():
        return bool((values.explode().drop_nulls().list.len() == 2).all())
    return not isinstance(inner, pl.List) or inner.inner == pl.String


def _opened_list(samples: Sequence[Column], lists: Mapping[str, pl.Series]) -> Column:
    """The list column to open; AmbiguousError where two differ in length."""
    sizes = [lists[sample.value].list.len() for sample in samples]
    odd = [one for one, size in zip(samples, sizes, strict=True) if not size.equals(sizes[0])]
    if odd:
        both = f"`{samples[0].value}` and `{odd[0].value}`"
        raise AmbiguousError(
            f"{both} are lists of samples of different lengths: write"
            f" {setting_text('explode', [samples[0].value])} or {setting_text('explode', [odd[0].value])}"
        )
    return samples[0]


def _has_element_per_sample(column: Column, values: pl.Series, sizes: pl.Series) -> bool:
    """Whether a list column has one element for each sample."""
    plain = column.name.rpartition(".")[2].lower()
    gold = ROLES["gold"].name_fit(column.name) is not None and ROLES["answer"].name_fit(column.name) is None
    return (
        plain not in _OPTIONS
        and not gold
        and values.list.len().fill_null(0).equals(sizes.fill_null(0).cast(values.list.len().dtype))
    )


def _question_totals(rows: SourceRows, opened: Sequence[str]) -> frozenset[str]:
    """The columns that count something for a whole question rather than a sample: tokens, seconds, verdicts, scores."""
    roles = (
        "completion_tokens", "prompt_tokens", "total_tokens", "latency", "milliseconds", "unit_unknown", "verdict",
        "verifier", "answer", "text", "sum_logprob", "start", "end", "sample_index",
    )  # fmt: skip
    outside = [one for one in columns_of(rows, opened) if not one.opened]
    keep = {"answer", "solution", "choice", "choices"}
    return frozenset(
        one.value
        for one in outside
        if is_scalar(one.values) and one.name.lower() not in keep and any(_has_strong_name(one, role) for role in roles)
    )


def _has_strong_name(column: Column, role: str) -> bool:
    place = ROLES[role].name_fit(column.name)
    return (
        place is not None
        and place[0] != WEAK
        and ROLES["question"].name_fit(column.name) is None
        and ROLES["gold"].name_fit(column.name) is None
    )


def _chat_choices(columns: Columns) -> Column | None:
    """The column with the list of a chat completion's choices, however deep; None without one."""
    for one in columns.every:
        kind = one.values.dtype
        inner = kind.inner if isinstance(kind, pl.List) and one.name.rpartition(".")[2] == "choices" else None
        if isinstance(inner, pl.Struct) and {"message", "text"} & {field.name for field in inner.fields}:
            return one
    return None


def _open_single_choice(shape: Shape, choices: Column) -> Shape:
    """Opens the only choice of each completion as a list of one, so that its usage is that sample's."""
    name = "choice"
    rows = _exploded_rows(shape, _empty_mapping({"explode": {name: choices.value}}))
    explode = {name: choices.value}
    logprobs = f"{name}.logprobs.content[*].logprob" if _has_logprobs(rows, name) else None
    top = {**shape.top, "explode": (explode, f"{GUESSED}: the choices of a chat completion")}
    return replace(shape, rows=rows, top=top, logprobs=logprobs, assigned=shape.assigned | {choices.value, "element"})


def _has_logprobs(rows: SourceRows, name: str) -> bool:
    try:
        values = rows.compute("sum_logprob", f"sum({name}.logprobs.content[*].logprob)")
    except ThinkbackError:
        return False
    return values.dtype.is_numeric() and values.null_count() < values.len()
