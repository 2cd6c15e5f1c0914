"""A Parquet file that is written frame by frame, a row group each."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import pyarrow.parquet as pq


class FrameWriter:
    """Writes frames of one schema; the file has its name once it is whole, and none where writing it failed."""

    def __init__(self, path: Path) -> None:
        self.path, self._part = path, path.with_suffix(".part")
        self._writer: pq.ParquetWriter | None = None

    def append(self, frame: pl.DataFrame) -> None:
        """Write one frame as a row group."""
        import pyarrow.parquet as pq

        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._part, table.schema, compression="zstd")
        self._writer.write_table(table, row_group_size=max(len(frame), 1))

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
        if error is None:
            self._part.rename(self.path)
        else:
            self._part.unlink(missing_ok=True)
