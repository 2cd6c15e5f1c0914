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
    """Makes results pickle as a call of `opened`, once their module is imported."""
    module = sys.modules.get(HOME)
    if module is not None:
        copyreg.pickle(module.Result, pickled_form)


def pickled_form(result: Result) -> tuple[Callable[..., Result], tuple[bytes]]:
    """The form in which a result is pickled: the function `opened` with the result's bytes."""
    _, (data,) = result.__reduce__()
    return opened, (data,)


def opened(data: bytes) -> Result:
    """Restores the result in a pickle. ImportError in one line where a user's module hides one of ours."""
    from thinkback.shadowing import require_unshadowed

    require_unshadowed()
    from replay.runs.result.result import unpack_result

    register()
    return unpack_result(data)
