"""Gates: when to intervene, decided by signals of the base's outcome on each example.

A gate is one `Threshold`, a signal with the value from which it fires, or `AnyOf` or `AllOf` of several gates. All
three say which thresholds they hold, what they need of a log, and where they fire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from replay.data.block import LogBlock
from replay.data.contents import Contents
from replay.data.needs import Needs, needs_of_all
from replay.engine.calls import PolicyPath, union_of_calls
from replay.engine.signals import GATED, SIGNALS, GateInput, SignalValues, gate_input
from replay.policies.gate_file import GATE, GateFile, load_gate
from toolkit.errors import ConflictError, InvalidError, RequiredError, error_prefix, listed, quote, require_known
from toolkit.settings import Checked, as_kind, check, from_table, is_sequence, setting
from toolkit.stopping.declared import HeaderVariables

SOURCES = ("verifier", "feature", "file", "signal")
ALL = "all"
"""The threshold that stands for every distinct value of the signal."""
MOST_QUANTILES = 200
SEVERAL = 'a number, { quantiles = 10 } or "all", and in a policy file a list of numbers'
SWEPT = 'Several thresholds are a list of numbers in a policy file; in Python a gate each, {"quantiles": 10} or "all"'
GATE_TABLE = 'a table such as { verifier = "latent", below = 0.7 }'

Signals = Mapping["Threshold", SignalValues]


@dataclass(frozen=True)
class _Quantiles(Checked):
    """Thresholds that make the gate fire on 0, 1/n, 2/n … of the examples, as near as ties allow."""

    quantiles: int = setting(low=2, high=MOST_QUANTILES)


def _read_gate_file(value: object, place: str = "file") -> GateFile | None:
    """The gate file at a path, or as it is; None where none is named."""
    if value is None or isinstance(value, GateFile):
        return value
    if not isinstance(value, str | Path):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes {GATE}")
    return load_gate(value)


class Gate(HeaderVariables, ABC):
    """A gate: one threshold on a signal, or several combined."""

    says: ClassVar[str] = "it holds"
    """The condition under which the gate fires, in words."""

    @abstractmethod
    def all_thresholds(self) -> Iterator[Threshold]:
        """The thresholds that the gate consists of."""

    @abstractmethod
    def key_without_thresholds(self) -> object:
        """The gate with its thresholds' values removed: gates of equal shape read the same, and make the same calls."""

    @abstractmethod
    def masks_of_firing(self, signals: Signals, null_answer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masks (E,) of the examples on which the gate fires, and of those on which it cannot be read."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """The gate as plain data."""

    def needs(self, slices: Collection[str]) -> Needs:
        """What the gate reads of a log, for a base whose chosen trace is in one of the slices."""
        return needs_of_all(one.needs(slices) for each in self.all_thresholds() for one in each.inputs) | Needs(
            example_columns=frozenset(["question"] if any(each.file for each in self.all_thresholds()) else [])
        )

    def read_signals(self, block: LogBlock, path: PolicyPath) -> Signals:
        """The signals that the gate reads on a base's path, by threshold without its value."""
        return {
            key: key.signal_on(block, path)
            for key in (threshold.without_value() for threshold in self.all_thresholds())
        }


@dataclass(frozen=True, kw_only=True)
class Threshold(Gate):
    """A gate of one signal: it fires where the signal is below `below`, or at least `at_least`.

    Give exactly one of `verifier`, `feature`, `file` and `signal`. `fraction` belongs to the signal `near_limit`,
    `tokens` to `suffix_logprob`. A gate file brings its own threshold. `reuse` allows a gate file on the questions that
    it was fitted or tuned on, and marks the result.
    """

    verifier: str | None = setting(None, what="a name")
    feature: str | None = setting(None, what="a name")
    file: GateFile | None = setting(None, read=_read_gate_file)
    signal: str | None = setting(None, choices=GATED)
    below: float | str | _Quantiles | None = None
    at_least: float | str | _Quantiles | None = None
    fraction: float | None = setting(None, above=0, high=1)
    tokens: int | None = setting(None, low=1)
    reuse: bool = setting(False)

    def __post_init__(self) -> None:
        sources = [name for name in SOURCES if getattr(self, name) is not None]
        if len(sources) != 1:
            has = listed(sources).replace(", ", " and ") if sources else "none"
            raise ConflictError(f"a gate reads exactly one of `verifier`, `feature`, `file`, `signal`; it has {has}")
        with error_prefix("gate: "):
            check(self)
            object.__setattr__(self, "file", _read_gate_file(self.file))
        if self.file is not None and self.below is None and self.at_least is None:
            object.__setattr__(self, self.file.direction, self.file.threshold)
        self._check_threshold()
        for name in ("fraction", "tokens"):
            self._check_parameter(name)
        if self.reuse and self.file is None:
            raise RequiredError("gate: `reuse = true` needs `file`")

    @property
    def source(self) -> str:
        return next(name for name in SOURCES if getattr(self, name) is not None)

    @property
    def fires_below(self) -> bool:
        return self.below is not None

    @property
    def value(self) -> float | str | _Quantiles:
        """The threshold as given: a number, or what stands for several numbers."""
        return self.below if self.below is not None else self.at_least  # type: ignore[return-value]

    @property
    def number(self) -> float:
        return float(self.value)  # type: ignore[arg-type]

    @property
    def has_several_values(self) -> bool:
        """Whether the value stands for several thresholds, which only the log tells."""
        return as_kind(float, self.value) is None

    @property
    def n_equal_shares(self) -> int | None:
        """Into how many equal shares of the examples its thresholds divide them; None for one threshold, or for all."""
        return getattr(self.value, "quantiles", None)

    @property
    def inputs(self) -> tuple[GateInput, ...]:
        if self.file is not None:
            return self.file.features
        parameter = self.fraction if self.fraction is not None else self.tokens
        return (gate_input(self.source, str(getattr(self, self.source)), parameter),)

    def describe(self) -> str:
        if self.file is not None:
            return f"gate file `{self.file.path}`"
        return f"{self.source} `{getattr(self, self.source)}`"

    def with_value(self, value: float) -> Threshold:
        return replace(self, below=float(value)) if self.fires_below else replace(self, at_least=float(value))

    def without_value(self) -> Threshold:
        """The signal without its threshold, as thresholds of one signal share it."""
        return replace(self, below=None, at_least=0.0, reuse=False)

    def all_thresholds(self) -> Iterator[Threshold]:
        yield self

    def key_without_thresholds(self) -> object:
        return self.without_value()

    def require_in_log(self, contents: Contents, slices: Collection[str]) -> None:
        """Raise ThinkbackError where the log lacks the gate's inputs on one of the slices."""
        for one in self.inputs if self.file is None else ():
            one.require_in_log(contents, slices, "the gate")

    def signal_on(self, block: LogBlock, path: PolicyPath) -> SignalValues:
        """The gate's signal on the chosen traces of a path."""
        signals = [one.read(block, path) for one in self.inputs]
        if self.file is None:
            return signals[0]
        values = np.stack([signal.value for signal in signals], axis=1)
        return SignalValues(self.file.probabilities(values), union_of_calls(signal.calls for signal in signals))

    def masks_of_firing(self, signals: Signals, null_answer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masks (E,) of the examples past the threshold, and of those on which the gate cannot be read.

        One that is not logged fires where the base's prediction is null, and cannot be read elsewhere.
        """
        value = signals[self.without_value()].value
        with np.errstate(invalid="ignore"):
            on = value < self.number if self.fires_below else value >= self.number
        missing = np.isnan(value)
        return on | (missing & null_answer), missing & ~null_answer

    def record(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in self.__dataclass_fields__}
        entries = {name: value for name, value in settings.items() if value is not None and value is not False}
        if self.n_equal_shares is not None:
            entries["below" if self.fires_below else "at_least"] = {"quantiles": self.n_equal_shares}
        return entries | ({"file": self.file.record()} if self.file is not None else {})

    def _check_threshold(self) -> None:
        keys = [name for name in ("below", "at_least") if getattr(self, name) is not None]
        if len(keys) != 1:
            raise RequiredError(
                f"a gate needs one threshold, `below` or `at_least`; {self.describe()} has {len(keys) or 'none'}"
            )
        object.__setattr__(self, keys[0], _parse_threshold(getattr(self, keys[0]), keys[0]))

    def _check_parameter(self, name: str) -> None:
        needed = self.signal is not None and SIGNALS[self.signal].parameter == name
        if needed and getattr(self, name) is None:
            raise RequiredError(f"gate: signal `{self.signal}` needs `{name}`")
        if not needed and getattr(self, name) is not None:
            owner = next(signal for signal in GATED if SIGNALS[signal].parameter == name)
            raise ConflictError(f"gate: `{name}` belongs to the signal `{owner}`, not to {self.describe()}")


def _parse_threshold(value: Any, key: str) -> float | str | _Quantiles:
    """A threshold of a table: a number, or what stands for several numbers."""
    number = as_kind(float, value)
    if number is not None:
        return float(number)
    if isinstance(value, Mapping):
        return from_table(_Quantiles, value, f"gate.{key}")
    if (isinstance(value, str) and value == ALL) or isinstance(value, _Quantiles):
        return value
    how = f". {SWEPT}" if is_sequence(value) else f"; it takes {SEVERAL}"
    raise InvalidError(f"gate: `{key}` is {quote(value)}{how}")


@dataclass(frozen=True)
class _CombinedGate(Gate):
    """A gate of several gates, all of which are read and paid."""

    gates: tuple[Gate, ...]
    key: ClassVar[str]
    join: ClassVar[np.ufunc]

    def __post_init__(self) -> None:
        given: Any = self.gates
        gates = (given,) if isinstance(given, Gate | Mapping) else given
        if not is_sequence(gates):
            raise InvalidError(f"`{self.key}` is {quote(given)}; it takes gates")
        gates = tuple(read_gate(gate, self.key) for gate in gates)
        if not gates:
            raise RequiredError(f"`{self.key}` has no gate")
        object.__setattr__(self, "gates", gates)

    def all_thresholds(self) -> Iterator[Threshold]:
        for gate in self.gates:
            yield from gate.all_thresholds()

    def key_without_thresholds(self) -> object:
        return type(self), tuple(gate.key_without_thresholds() for gate in self.gates)

    def masks_of_firing(self, signals: Signals, null_answer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masks (E,) of the examples on which the gates together fire, and of those where one cannot be read."""
        results = [gate.masks_of_firing(signals, null_answer) for gate in self.gates]
        return self.join.reduce([on for on, _ in results]), np.logical_or.reduce([missing for _, missing in results])

    def record(self) -> dict[str, Any]:
        return {self.key: [gate.record() for gate in self.gates]}


class AnyOf(_CombinedGate, key="any", says="one of them holds", join=np.logical_or):
    """A gate that fires where one of its gates does; all are read and paid."""


class AllOf(_CombinedGate, key="all", says="all of them hold", join=np.logical_and):
    """A gate that fires where all of its gates do; all are read and paid."""


COMBINED: Mapping[str, type[_CombinedGate]] = {one.key: one for one in (AnyOf, AllOf)}


def read_gate(table: object, place: str = "gate") -> Gate:
    """A gate from its table, or as it is."""
    if isinstance(table, Gate):
        return table
    if not isinstance(table, Mapping):
        takes = f"a `Threshold`, `AnyOf` or `AllOf`, or {GATE_TABLE}"
        raise InvalidError(f"`{place}` is {quote(table)}; it takes {takes}")
    combined = [key for key in COMBINED if key in table]
    if combined:
        key, parts = combined[0], table[combined[0]]
        if len(table) > 1:
            other = next(name for name in table if name != key)
            raise ConflictError(f"a gate with `{key}` takes no other key; remove `{other}`")
        if not isinstance(parts, list) or not parts:
            raise InvalidError(f"`{key}` takes a list of gates, each a table")
        return COMBINED[key](tuple(read_gate(part) for part in parts))
    values = dict(table)
    known = [*Threshold.__dataclass_fields__, *COMBINED]
    for key in values:
        require_known(str(key), known, f"unknown key `{key}` of a gate")
    return from_table(Threshold, values, "gate")
