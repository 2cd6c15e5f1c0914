"""Pickled results open through the door: before anything of ours is imported, what hides it is named."""

from __future__ import annotations

import copyreg
import sys

TYPE_CHECKING = False  # importing `typing` takes long enough to be interrupted
if TYPE_CHECKING:
    from collections.abc import Callable

    from replay.runs.result.result import Result

HOME = "replay.runs.result.result"


def register() -> None:
    """Let results be pickled by the name of `opened`, once their module is imported."""
    module = sys.modules.get(HOME)
    if module is not None:
        copyreg.pickle(module.Result, reduced)


def reduced(result: Result) -> tuple[Callable[..., Result], tuple[bytes]]:
    """What a pickle holds of a result."""
    _, (data,) = result.__reduce__()
    return opened, (data,)


def opened(data: bytes) -> Result:
    """The result in a pickle. ImportError with one line where a module of the user's hides one of ours."""
    from thinkback.shadowing import require_unshadowed

    require_unshadowed()
    from replay.runs.result.result import unpacked

    register()
    return unpacked(data)
