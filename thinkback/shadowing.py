"""A user's own module that hides one of ours: found without importing it, and named in one line."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

OURS = ("toolkit", "replay", "generate")
HOME = Path(__file__).resolve().parents[1]
"""Where the packages lie side by side."""


def shadowing_line() -> str | None:
    """The line that says which of the user's files hides one of our packages, and what to do; None where none does."""
    for name in OURS:
        place = _module_file(name)
        if place is not None and place.resolve().parent != HOME:
            kind = "folder" if place.is_dir() else "file"
            return (
                f"`{place}` hides Thinkback's own package `{name}`, which Python would import from `{HOME}`: "
                f"rename that {kind}, or run from a folder without it"
            )
    return None


def require_unshadowed() -> None:
    """Raises ImportError where a file of the user hides one of our packages."""
    line = shadowing_line()
    if line is not None:
        raise ImportError(line)


def _module_file(name: str) -> Path | None:
    """The file or folder that an import of a top-level name takes; None where there is none."""
    try:
        spec = find_spec(name)
    except ValueError:  # a module that was made by hand
        file = getattr(sys.modules[name], "__file__", None)
        return None if file is None else Path(file)
    if spec is None:
        return None
    folders = spec.submodule_search_locations  # a package's, one without `__init__.py` too
    return next((Path(place) for place in ([spec.origin] if folders is None else folders) if place is not None), None)
