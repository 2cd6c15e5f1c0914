"""When to intervene: a gate reads signals of the base's outcome and says on which examples it fires.

Only the settings live here; `replay.signals` reads the signals of a block. A gate is one `Reading` with its
threshold, or `Any` or `All` of several gates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from replay.policies.gate_file import GateFile
from toolkit.errors import ThinkbackError, suggest

Source = Literal["verifier", "feature", "file", "signal"]
SOURCES: tuple[Source, ...] = ("verifier", "feature", "file", "signal")
TRACE_SIGNALS = (
    "truncated", "finalizer_used", "near_limit", "completion_tokens", "suffix_logprob", "sum_logprob", "invalid",
)  # fmt: skip
STEP_SIGNALS = ("vote_share", "margin")
"""Signals of a `sample` policy's last step."""
SIGNALS = TRACE_SIGNALS + STEP_SIGNALS
ALL = "all"
"""In place of a threshold: every distinct value of the signal."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One signal and its threshold: fires where it is below `below`, or at least `at_least`.

    Give exactly one of `verifier`, `feature`, `file` and `signal`. `fraction` belongs to the signal `near_limit`,
    `tokens` to `suffix_logprob`. A gate file brings its own threshold. `reuse` allows a gate file on the questions
    that it was fitted or tuned on, and marks the result.
    """

    verifier: str | None = None
    feature: str | None = None
    file: GateFile | None = None
    signal: str | None = None
    below: float | str | None = None
    at_least: float | str | None = None
    fraction: float | None = None
    tokens: int | None = None
    reuse: bool = False

    def __post_init__(self) -> None:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            told = " and ".join(f"`{name}`" for name in given) or "none"
            raise ThinkbackError(f"a gate reads exactly one of `verifier`, `feature`, `file`, `signal`; it has {told}")
        for name in ("verifier", "feature"):
            if getattr(self, name) is not None and not isinstance(getattr(self, name), str):
                raise ThinkbackError(f"gate: `{name}` is {getattr(self, name)!r}; it takes a name")
        if self.signal is not None and self.signal not in SIGNALS:
            raise ThinkbackError(f"gate: no signal `{self.signal}`; {suggest(str(self.signal), SIGNALS)}")
        if self.file is not None and self.below is None and self.at_least is None:
            object.__setattr__(self, self.file.direction, self.file.threshold)
        self._check_threshold()
        self._check_parameter("fraction", "near_limit", self.fraction, lambda v: _number(v) and 0 < v <= 1, "0 to 1")
        whole = "a whole number, at least 1"
        self._check_parameter(
            "tokens", "suffix_logprob", self.tokens,
            lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= 1, whole,
        )  # fmt: skip
        if not isinstance(self.reuse, bool) or (self.reuse and self.file is None):
            raise ThinkbackError("gate: `reuse = true` goes with `file`")

    @property
    def source(self) -> Source:
        """Which of the four it reads."""
        return next(name for name in SOURCES if getattr(self, name) is not None)

    @property
    def threshold(self) -> float | str:
        """The number (or `all`) that is given."""
        return self.at_least if self.at_least is not None else self.below  # type: ignore[return-value]

    def describe(self) -> str:
        """What it reads, in words."""
        if self.file is not None:
            return f"gate file `{self.file.path}`"
        return f"{self.source} `{getattr(self, self.source)}`"

    def _check_threshold(self) -> None:
        given = [name for name in ("below", "at_least") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ThinkbackError(
                f"a gate needs one threshold, `below` or `at_least`; {self.describe()} has {len(given) or 'none'}"
            )
        value = getattr(self, given[0])
        if value != ALL and (not _number(value) or value != value):
            raise ThinkbackError(f'gate: `{given[0]}` is {value!r}; it takes a number, a list of them, or "all"')

    def _check_parameter(self, name: str, signal: str, value: object, fits: object, what: str) -> None:
        if self.signal == signal and value is None:
            raise ThinkbackError(f"gate: signal `{signal}` needs `{name}`")
        if value is not None and self.signal != signal:
            raise ThinkbackError(f"gate: `{name}` belongs to the signal `{signal}`, not to {self.describe()}")
        if value is not None and not fits(value):  # type: ignore[operator]
            raise ThinkbackError(f"gate: `{name}` is {value!r}; it takes {what}")


@dataclass(frozen=True)
class AnyOf:
    """Fires where one of its gates does; all are read and paid."""

    gates: tuple[Gate, ...]


@dataclass(frozen=True)
class AllOf:
    """Fires where all of its gates do; all are read and paid."""

    gates: tuple[Gate, ...]


Gate = Reading | AnyOf | AllOf


def readings(gate: Gate) -> Iterator[Reading]:
    """Every signal that a gate reads."""
    if isinstance(gate, Reading):
        yield gate
    else:
        for part in gate.gates:
            yield from readings(part)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
