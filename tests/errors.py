"""What a test asks of an error: its code, and what its line quotes, which is the place and the value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from toolkit.errors import ThinkbackError


@contextmanager
def refuses(code: str, *quoted: str) -> Iterator[pytest.ExceptionInfo[ThinkbackError]]:
    """An error of a code within, whose one line has each of some texts."""
    with pytest.raises(ThinkbackError) as error:
        yield error
    line = str(error.value)
    assert error.value.code == code, f"{error.value.code}: {line}"
    assert [text for text in quoted if text not in line] == [], line
    assert "\n" not in line
