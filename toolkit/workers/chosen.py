"""The workers that a call names: `workers="ray"` holds for everything that the call computes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from toolkit.errors import InvalidError, argument, quote
from toolkit.workers.pool import Pool

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
CHOSEN: ContextVar[Pool | None] = ContextVar("workers", default=None)
"""The pool of the call that runs; None: this process."""
TAKES = "`ray`, `ray:N` (N workers on this machine), `ray:HOST:PORT` or `ray://HOST:PORT`"


def spread_over_workers(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """A decorator of functions with an argument `workers`, which names the pool for whatever the call computes."""

    @functools.wraps(function)
    def spread(*args: Given.args, **named: Given.kwargs) -> Returned:
        with on_workers(named.get("workers")):
            return function(*args, **named)

    return spread


@contextmanager
def on_workers(workers: object) -> Iterator[None]:
    """What runs inside uses these workers; None: those of the call around it. ThinkbackError for a name of none."""
    if workers is None:
        yield
        return
    address, count = _read_address(workers)
    from toolkit.workers.ray_pool import ray_pool

    with ray_pool(address, count) as pool:
        before = CHOSEN.set(pool)
        try:
            yield
        finally:
            CHOSEN.reset(before)


def _read_address(workers: object) -> tuple[str | None, int | None]:
    """(address of a cluster, number of workers on this machine), each None where it is not named."""
    text = workers if isinstance(workers, str) else ""
    name, _, rest = text.partition(":")
    if name != "ray" or text.endswith(":") or rest == "0":
        raise InvalidError(f"{argument('workers')} is {quote(workers)}; it takes {TAKES}")
    if rest.isdecimal():
        return None, int(rest)
    return (text if rest.startswith("//") else rest or None), None
