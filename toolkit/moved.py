"""Modules and names that moved: importing one by its old name says the new one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.abc import MetaPathFinder
from typing import Any


class MovedModules(MetaPathFinder):
    """Is asked when no module of a name is found, and says in one line where it went."""

    def __init__(self, moved: Mapping[str, str]) -> None:
        self.moved = moved

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Raise ModuleNotFoundError for a name that moved."""
        if fullname in self.moved:
            # without `name=`: `from package import name` would drop an error that names what it looks for
            raise ModuleNotFoundError(f"`{fullname}` is now `{self.moved[fullname]}`")


def moved_modules(moved: Mapping[str, str]) -> None:
    """Tell the new names of modules; the first call of a program is enough."""
    if not any(isinstance(finder, MovedModules) and finder.moved == moved for finder in sys.meta_path):
        sys.meta_path.append(MovedModules(moved))
