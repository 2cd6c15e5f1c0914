"""A source in blocks of rows, for files that are larger than what memory should hold.

JSON lines are cut at the ends of lines, CSV and Parquet by polars. A JSON document is one block, whatever its size. The
rows of a block have the columns and types of that block alone; those of CSV are looked for in the whole file first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.imports.files.source_files import SHRUNK, chunks, content, local_path
from toolkit.imports.rows.json_files import json_lines
from toolkit.imports.rows.source_table import SourceTable
from toolkit.imports.rows.sources import (
    FoundFiles,
    SourceFile,
    SourceRules,
    known_format,
    only_json,
    parse,
    placed,
    reading,
)

BLOCK_BYTES = 48 * 2**20
"""About how much of a file is read at once."""


def source_blocks(
    found: FoundFiles, rules: SourceRules, folder: Path, digests: dict[str, str]
) -> Iterator[SourceTable]:
    """The rows of all files with their places, in order.

    Files that are compressed or elsewhere, and whose format needs them on disk, are laid into `folder`. `digests` gets
    the hash of each file that was read to its end, by its path.
    """
    for file in found.files:
        ending = known_format(file.address)
        digest, before = hashlib.sha256(), 0
        blocks = _BLOCKS.get(ending, _whole)(file, rules, folder, digest)
        while True:
            with reading(file.address, ending):
                table = next(blocks, None)
            if table is None:
                break
            if table.frame.height:
                made = placed(file, table, before)
                yield replace(made, numbers={**made.numbers, **found.numbers})
            before += table.frame.height
        digests[file.path] = digest.hexdigest()


def _whole(file: SourceFile, rules: SourceRules, _: Path, digest: Any) -> Iterator[SourceTable]:
    whole = content(file.address)
    digest.update(whole)
    yield parse(file.address, whole, rules)


def _lines(file: SourceFile, rules: SourceRules, _: Path, digest: Any) -> Iterator[SourceTable]:
    rest, line = b"", 1
    for piece in chunks(file.address, BLOCK_BYTES):
        digest.update(piece)
        text = rest + piece if rest else piece
        end = text.rfind(b"\n") + 1
        if end:
            yield json_lines(text[:end], rules.texts, rules.records, line)
            line += text.count(b"\n", 0, end)
        rest = text[end:]
    if rest:
        yield json_lines(rest, rules.texts, rules.records, line)


def _on_disk(file: SourceFile, folder: Path, digest: Any) -> Path:
    """A file that polars can read in blocks; `digest` gets its bytes."""
    path = local_path(file.address)
    if path is not None:
        for piece in chunks(file.address, BLOCK_BYTES):
            digest.update(piece)
        return path.absolute()
    copy = folder / "copy"
    with copy.open("wb") as handle:
        for piece in chunks(file.address, BLOCK_BYTES):
            digest.update(piece)
            handle.write(piece)
    return copy


def _parquet(file: SourceFile, rules: SourceRules, folder: Path, digest: Any) -> Iterator[SourceTable]:
    only_json(rules)
    path = _on_disk(file, folder, digest)
    rows = pl.scan_parquet(path, glob=False, hive_partitioning=False)
    height = rows.select(pl.len()).collect().item()
    for batch in _batches(rows, height, path.stat().st_size * SHRUNK):
        yield SourceTable(batch, {})


def _csv(
    file: SourceFile, rules: SourceRules, folder: Path, digest: Any, separator: str = ","
) -> Iterator[SourceTable]:
    only_json(rules)
    path = _on_disk(file, folder, digest)
    rows = pl.scan_csv(path, separator=separator, infer_schema=False, glob=False)
    kinds, height = _kinds(rows)
    for batch in _batches(rows, height, path.stat().st_size):
        yield SourceTable(batch, kinds)


def _batches(rows: pl.LazyFrame, height: int, size: int) -> Iterator[pl.DataFrame]:
    """Rows in blocks. ValueError where polars gives fewer than there are: it ends early where a thread of its fails."""
    found = 0
    for batch in rows.collect_batches(chunk_size=max(1, height * BLOCK_BYTES // max(size, 1))):
        found += batch.height
        yield batch
    if found != height:
        raise ValueError(f"of its {height:,} rows {found:,} can be read")


def _kinds(rows: pl.LazyFrame) -> tuple[dict[str, pl.DataType], int]:
    """The columns of texts that are numbers to compute with, as `kind_of_texts` says, and the number of rows."""
    names = rows.collect_schema().names()
    asked = []
    for name in names:
        text = pl.col(name)
        integers, real = text.cast(pl.Int64, strict=False), text.cast(pl.Float64, strict=False)
        asked.append(
            pl.struct(
                some=text.count(), integers=(integers.cast(pl.String) == text).sum(), real=real.is_finite().sum()
            ).alias(name)
        )
    told = rows.select(pl.len().alias("__rows"), *asked).collect(engine="streaming").row(0, named=True)
    kinds: dict[str, pl.DataType] = {}
    floats = []
    for name in names:
        found = told[name]
        if found["some"] and found["integers"] == found["some"]:
            kinds[name] = pl.Int64()
        elif found["some"] and found["real"] == found["some"]:
            floats.append(name)
    if floats:
        apart = [(pl.col(name).n_unique() == pl.col(name).cast(pl.Float64, strict=False).n_unique()) for name in floats]
        same = rows.select(apart).collect(engine="streaming").row(0)
        kinds |= {name: pl.Float64() for name, one in zip(floats, same, strict=True) if one}
    return kinds, told["__rows"]


_BLOCKS: dict[str, Callable[[SourceFile, SourceRules, Path, Any], Iterator[SourceTable]]] = {
    ".parquet": _parquet,
    ".pq": _parquet,
    ".csv": _csv,
    ".tsv": partial(_csv, separator="\t"),
    ".jsonl": _lines,
    ".ndjson": _lines,
}
