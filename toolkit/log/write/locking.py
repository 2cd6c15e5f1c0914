"""The lock of a log's folder, which every command holds that writes a manifest."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from toolkit.log.contract.problems import LogError
from toolkit.work_places import is_in_scratch


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Holds a folder's lock, which ends with the process. It waits for another process that holds the lock."""
    if is_in_scratch(folder):
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            raise LogError(
                f"`{folder}` can't be locked: {error.strerror}; copy it to a local disk first", code="write"
            ) from None
        yield
    finally:
        os.close(handle)
