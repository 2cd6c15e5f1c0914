"""Errors that name the policy that they are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from toolkit.errors import ThinkbackError


class PolicyError(ThinkbackError):
    """An error that names its policy."""


@contextmanager
def errors_of(policy: str) -> Iterator[None]:
    """Errors within are about a policy, and name it once."""
    try:
        yield
    except PolicyError:
        raise
    except ThinkbackError as error:
        raise PolicyError(f"policy `{policy}`: {error}") from None
