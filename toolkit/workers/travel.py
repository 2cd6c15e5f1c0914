"""What goes to workers and comes back: a job and its parts, packed with a user's own classes, and answers.

A job is a function of one argument. Classes and functions of a module that is not installed, such as a file of rules,
go along as they are; workers import the rest, so they must have the same versions.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import platform
import socket
import sys
import types
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from toolkit.errors import MismatchError, PackageError, ThinkbackError, UnsuitableError, first_line

OURS = ("toolkit", "replay", "generate", "thinkback")
INSTALLED = {"site-packages", "dist-packages"}
"""Names of the folders that hold installed modules."""
UNREADABLE = ("not-found", "read")
"""Codes of errors of a file that is not where a worker looks for it."""


class LostWork(Exception):
    """Work whose worker is gone before it answered; its text says why."""

    NO_MEMORY: ClassVar[bytes] = b"no memory"
    """The answer of a worker without memory."""


def pack(value: Any, what: str) -> bytes:
    """The bytes of a value that workers open. UnsuitableError where it holds what cannot travel; `what` names it."""
    try:
        import cloudpickle
    except ImportError:
        raise PackageError("workers need the package `ray`: pip install 'thinkback[ray]'") from None

    by_value: list[types.ModuleType] = []

    class Packer(cloudpickle.Pickler):
        def reducer_override(self, item: Any) -> Any:
            name = item.__name__ if isinstance(item, types.ModuleType) else getattr(item, "__module__", None)
            if isinstance(item, type | types.FunctionType | types.ModuleType) and _is_user_module(name):
                module = sys.modules[str(name)]
                if module not in by_value:
                    cloudpickle.register_pickle_by_value(module)
                    by_value.append(module)
            return super().reducer_override(item)

    packed = io.BytesIO()
    try:
        Packer(packed, pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception as error:  # whatever the classes of a user raise
        raise UnsuitableError(
            f"{what} cannot travel to workers ({first_line(error)}): keep open files, locks and connections out of it"
        ) from None
    finally:
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return packed.getvalue()


def _is_user_module(module: str | None) -> bool:
    """Whether a module is a user's file, which workers cannot import."""
    if module is None or module == "__main__" or module not in sys.modules:
        return False
    file = getattr(sys.modules[module], "__file__", None)
    known = module.partition(".")[0] in (*OURS, *sys.stdlib_module_names)
    return file is not None and not known and INSTALLED.isdisjoint(Path(file).parts)


@cache
def versions() -> Mapping[str, str]:
    """The versions that workers must share: of Thinkback, with a hash of its code, and of what it computes with."""
    root, code = Path(__file__).resolve().parents[2], hashlib.sha256()
    for folder in ("toolkit", "replay", "generate"):
        for path in sorted((root / folder).rglob("*.py")):
            code.update(path.read_bytes())
    ours = f"{version('thinkback')} (code {code.hexdigest()[:8]})"
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Thinkback": ours, "Python": python} | {name: version(name) for name in ("polars", "numpy")}


def pack_job(work: Callable[[Any], Any], what: str, log: str = "") -> bytes:
    """A job as workers get it, with the versions of this machine, the process that wants it done, and the address of
    the log that it reads.
    """
    return pickle.dumps((dict(versions()), (_process(), log), pack(work, what)))


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


def answer_part(job: bytes, part: bytes) -> bytes:
    """What a worker does: the packed result of a job's function on a part, or what it raised."""
    try:
        return pack((True, _open_job(job)(pickle.loads(part))), "a result")
    except MemoryError:
        return LostWork.NO_MEMORY
    except ThinkbackError as error:
        driver, log = pickle.loads(job)[1]
        if error.code in UNREADABLE and driver != _process():
            where = f"; all workers must read `{log}`, as on a shared file system or in an object store"
            error = error.with_subject(f"worker {socket.gethostname()}: ", where)
        return pickle.dumps((False, error))


@lru_cache(1)
def _open_job(job: bytes) -> Callable[[Any], Any]:
    """The function of a job, which a worker opens once. MismatchError where the versions differ."""
    wanted, _, packed = pickle.loads(job)
    for name, here in versions().items():
        if here != wanted[name]:
            raise MismatchError(
                f"worker {socket.gethostname()} has {name} {here}, this machine {wanted[name]}: install the same on all"
            )
    try:
        work: Callable[[Any], Any] = pickle.loads(packed)
    except Exception as error:
        raise UnsuitableError(
            f"worker {socket.gethostname()} cannot open the job ({first_line(error)}): install there what it imports"
        ) from None
    return work


def open_answer(answer: bytes) -> Any:
    """The result in an answer. What the part raised is raised here."""
    whole, value = pickle.loads(answer)
    if not whole:
        raise value
    return value
