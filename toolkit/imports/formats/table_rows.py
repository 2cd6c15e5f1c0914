"""The rows of a table of any of the formats that data sets are published in, one after another, as objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolkit.errors import ThinkbackError, first_line
from toolkit.imports.formats.found_files import FoundFile
from toolkit.imports.formats.json_rows import json_objects

_TOGETHER = 256
"""Rows of a Parquet file that are held at once; one may have hundreds of samples."""


def table_rows(file: FoundFile) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, of JSON lines or of a JSON list. ThinkbackError where it is none."""
    if file.ending in (".parquet", ".pq"):
        yield from _parquet(file)
    else:
        yield from json_objects(file)


def _parquet(file: FoundFile) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.seekable() as opened:
            for batch in pq.ParquetFile(opened).iter_batches(_TOGETHER):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ThinkbackError(f"`{file.address}` is no readable Parquet file: {first_line(error)}") from None
