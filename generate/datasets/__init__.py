"""Data sets as they are published, read from files that the user names. Nothing is shipped and nothing is fetched.

>>> loaded = load("gsm8k", "grade_school_math/data", ["test"])
>>> loaded.examples.columns[:4]
['example_id', 'dataset', 'split', 'question']
>>> print("\\n".join(lines(loaded.counts)))
gsm8k test questions: 1,319 (as published; Cobbe et al. 2021)

Every data set takes the options `choose` (so many examples), `choose_seed`, `choose_by` (a column whose shares are
kept) and `dev_share` (that share of the examples goes to the split `dev`), for the samples that the works take.
The tasks of generate.tasks are loaded by the same function, without a path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl

from generate.datasets.commonsenseqa import COMMONSENSEQA
from generate.datasets.competition import MATH, MATH500
from generate.datasets.data_set import (
    ChoiceOptions,
    DataSet,
    LoadedDataSet,
    PublishedCount,
    ReadRequest,
    choose_examples,
    count_lines,
    split_examples,
)
from generate.datasets.gsm8k import GSM8K, GSM_SYMBOLIC, GSM_SYMBOLIC_P1, GSM_SYMBOLIC_P2
from generate.datasets.multihop import MUSIQUE, WIKI_MULTIHOP
from generate.datasets.published import find_files
from generate.datasets.statements import AVERITEC, FEVEROUS, HOVER, LIAR, UM_ACTUALLY
from generate.datasets.veracity import CLAIMDECOMP, QUANTEMP
from generate.tasks import TASKS, task_examples
from toolkit.errors import AmbiguousError, ConflictError, RequiredError, UnknownError, suggest
from toolkit.settings import from_table

__all__ = [
    "DATASETS", "DataSet", "LoadedDataSet", "PublishedCount", "choose_examples", "count_lines", "load", "names",
    "split_examples",
]  # fmt: skip

DATASETS: Mapping[str, DataSet] = {
    one.name: one
    for one in (
        MATH, MATH500, GSM8K, GSM_SYMBOLIC, GSM_SYMBOLIC_P1, GSM_SYMBOLIC_P2, COMMONSENSEQA, QUANTEMP, CLAIMDECOMP,
        MUSIQUE, WIKI_MULTIHOP, UM_ACTUALLY, AVERITEC, HOVER, LIAR, FEVEROUS,
    )
}  # fmt: skip
_CHOOSING = tuple(field.name for field in fields(ChoiceOptions))
_SPELLINGS = {"train": "train", "dev": "dev", "val": "dev", "valid": "dev", "validation": "dev", "test": "test"}


def names() -> tuple[str, ...]:
    """The names of the data sets that `load` can read."""
    return (*DATASETS, *TASKS)


def load(
    name: str, path: str | Path | None = None, splits: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> LoadedDataSet:
    """Reads a data set, or generates the examples of a task; returns them with counts to compare with published ones.

    `path` is the published file, or the folder that holds the files under their published names. `splits` are of
    `train`, `dev`, `test`; without any, a file's name says its split, and a folder gives `test`.
    Raises ThinkbackError, one line that names the file, column and row, for whatever is not in the published form.
    """
    given = dict(options or {})
    if name in TASKS:
        if path is not None:
            raise ConflictError(f"`{name}` is generated, not read: leave out `path`")
        return LoadedDataSet(task_examples(name, splits or ("test",), given))
    if name not in DATASETS:
        raise UnknownError(f"unknown data set `{name}`; {suggest(name, names())}")
    data = DATASETS[name]
    for option in given:
        if option not in (*data.options, *_CHOOSING):
            raise UnknownError(f"`{name}` has no option `{option}`; {suggest(option, (*data.options, *_CHOOSING))}")
    if path is None:
        raise RequiredError(f"`{name}` needs a `path`: its files are published by {data.published_by}, not shipped")
    extra = {key: value for key, value in given.items() if key in data.options}
    chosen = from_table(ChoiceOptions, {key: value for key, value in given.items() if key in _CHOOSING})
    wanted = ((split, find_files(Path(path), data.files[split])) for split in _check_splits(data, Path(path), splits))
    parts = [data.read(ReadRequest(data.name, split, files, extra)) for split, files in wanted]
    examples = pl.concat([part.examples for part in parts])
    counts = [count for part in parts for count in part.counts]
    if chosen.choose is not None:
        examples = choose_examples(examples, chosen.choose, chosen.choose_seed, chosen.choose_by)
        counts.append(PublishedCount(f"{name} examples chosen", examples.height))
    if chosen.dev_share is not None:
        examples = split_examples(examples, chosen.dev_share, chosen.choose_seed)
        counts.append(PublishedCount(f"{name} examples in the split `dev`", int((examples["split"] == "dev").sum())))
    return LoadedDataSet(examples, tuple(counts))


def _check_splits(data: DataSet, path: Path, splits: Sequence[str]) -> tuple[str, ...]:
    for split in splits:
        if split not in data.files:
            raise UnknownError(f"`{data.name}` has no split `{split}`; {suggest(split, data.files)}")
    if len(set(splits)) != len(splits):
        raise ConflictError(f"a split is named twice: {', '.join(splits)}")
    if len(data.files) == 1:
        return tuple(data.files)
    if path.is_file() and not splits:
        words = [_SPELLINGS[word] for word in re.split(r"[^a-z]+", path.name.lower()) if word in _SPELLINGS]
        if len(set(words)) != 1 or words[0] not in data.files:
            raise RequiredError(f"the name of `{path}` says no split: name it with `split`; {suggest('', data.files)}")
        return (words[0],)
    if path.is_file() and len(splits) > 1:
        raise AmbiguousError(f"`{path}` is one file for {len(splits)} splits: name the folder that holds their files")
    return tuple(splits) or ("test",)
