"""A Parquet file that is written frame by frame, a row group each."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import pyarrow.parquet as pq


class FrameWriter:
    """Writes frames of one schema."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: pq.ParquetWriter | None = None

    def append(self, frame: pl.DataFrame) -> None:
        """Write one frame as a row group."""
        import pyarrow.parquet as pq

        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, table.schema, compression="zstd")
        self._writer.write_table(table, row_group_size=max(len(frame), 1))

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
