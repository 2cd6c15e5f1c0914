"""What stopping rules and selects share: their parameters, what they declare that they read, and a view of just that.

A rule is a frozen dataclass whose fields are its parameters. A shipped one may have a base class, `StopRule` or
`Select`, which says more of it than a user's rule can; `WrappedRule` puts a class without one, shipped or not, into
that form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from replay.sampling.prefix import SCORES, VOTES, LazyArrays, Prefix
from replay.sampling.user_rules import checked_fields
from toolkit.errors import InvalidError, RuleError, UnknownError, errors_begin, quote, require_known, suggest, user_code
from toolkit.settings import check

FEATURE, EXAMPLE, SIGNAL = "features:", "examples:", "signals:"
"""Prefixes of the names of columns of these tables, and of signals of traces, in what a rule declares."""

READS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("step", "traces", "valid", "tokens"), frozenset()),
    **dict.fromkeys(
        ("answers", "answer", "votes", "second_votes", "leader", "answer_votes", "run"), frozenset({VOTES})
    ),
    **dict.fromkeys(("verified", "best_score", "best_step", "last_score"), frozenset({SCORES})),
    **dict.fromkeys(
        ("verified_answers", "lead", "best_answer", "best_scores", "score_sums", "sum_leader"),
        frozenset({VOTES, SCORES}),
    ),
}
"""Declarations that each statistic needs."""


def _names_read(reads: Any, rule: str) -> frozenset[str]:
    """Names that a user's rule declares, one or several; `rule` is its name in messages."""
    if not isinstance(reads, str | Collection):
        raise InvalidError(f"{rule}: `reads` is {quote(reads)}; it takes a list of names")
    names = frozenset([reads] if isinstance(reads, str) else reads)
    for name in names:
        text = name if isinstance(name, str) else quote(name)
        column = any(text.startswith(kind) and text != kind for kind in (FEATURE, EXAMPLE))
        if text not in (VOTES, SCORES) and not column:
            known = (VOTES, SCORES, f"{FEATURE}NAME", f"{EXAMPLE}NAME")
            raise UnknownError(f"{rule}: unknown name `{text}` in `reads`; {suggest(text, known)}")
    return names


def columns_read(reads: Collection[str], kind: str) -> frozenset[str]:
    """The columns of one table, FEATURE or EXAMPLE, among what a rule reads."""
    return frozenset(name.removeprefix(kind) for name in reads if name.startswith(kind))


class DeclaredPrefix:
    """A `Prefix` that shows a rule the statistics of what it says it reads, and refuses the others by name."""

    def __init__(self, seen: Prefix, reads: frozenset[str], rule: str) -> None:
        self._seen, self._reads, self._rule = seen, reads, rule

    def rows(self, examples: slice) -> DeclaredPrefix:
        return DeclaredPrefix(self._seen.rows(examples), self._reads, self._rule)

    def first(self, steps: int) -> DeclaredPrefix:
        return DeclaredPrefix(self._seen.first(steps), self._reads, self._rule)

    @property
    def features(self) -> Mapping[str, np.ndarray]:
        return self._columns(self._seen.features, FEATURE)

    @property
    def examples(self) -> Mapping[str, np.ndarray]:
        return self._columns(self._seen.examples, EXAMPLE)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        require_known(name, (*READS, "features", "examples"), f"{self._rule} reads `{name}`, which no rule may read")
        self._require(READS[name], f"`{name}`")
        return getattr(self._seen, name)

    def _columns(self, columns: LazyArrays, kind: str) -> Mapping[str, np.ndarray]:
        def of(name: str) -> np.ndarray:
            self._require(frozenset([f"{kind}{name}"]), f"column `{name}` of `{kind[:-1]}`")
            return columns[name]

        return LazyArrays(sorted(columns_read(self._reads, kind)), of)

    def _require(self, names: frozenset[str], label: str) -> None:
        lacking = names - self._reads
        if lacking:
            raise RuleError(
                f"{self._rule} reads {label}, which it does not declare: "
                f"add `reads: ClassVar = {tuple(sorted(self._reads | lacking))}` to it"
            )


def likeness(rule: Any) -> Hashable:
    """The key that equal rules share; one that cannot be hashed, as with a list for a parameter, is like no other."""
    try:
        hash(rule)
    except TypeError:
        return id(rule)
    return rule


class ClassFacts:
    """Facts on a whole class, in its header: `class First(Select, name="first", one_trace=True)`."""

    def __init_subclass__(cls, **facts: Any) -> None:
        for name, fact in facts.items():
            setattr(cls, name, fact)


class Rule(ClassFacts, ABC):
    """A stopping rule or a select: a frozen dataclass whose fields are its parameters."""

    key: ClassVar[str]
    """The key of a policy that names it."""
    noun: ClassVar[str]
    """Its noun in messages."""
    says: ClassVar[str]
    """The noun, in messages, for its value on an example and a step."""
    name: ClassVar[str]
    trusted: ClassVar[bool] = False
    """Whether this very class is known to read what it declares, and not to look ahead; no subclass inherits that."""

    def __init_subclass__(cls, **facts: Any) -> None:
        super().__init_subclass__(**facts)
        if "name" not in vars(cls) and not isinstance(getattr(cls, "name", ""), property):
            cls.name = cls.__name__
        if not isinstance(reads := vars(cls).get("reads", property()), property):
            cls.reads = _names_read(reads, f"{cls.noun} `{cls.name}`")  # type: ignore[assignment, method-assign]

    def __post_init__(self) -> None:
        self._check()

    def __str__(self) -> str:
        return self.name

    @property
    def reads(self) -> frozenset[str]:
        """Names that it reads beside counts: `votes`, `scores`, `features:NAME`, `examples:NAME`."""
        return frozenset({VOTES})

    @property
    def counts_votes(self) -> bool:
        """Whether it counts votes, those for no answer too, where these have one."""
        return VOTES in self.reads

    @property
    def label(self) -> str:
        return f"{self.noun} `{self.name}`"

    @property
    def checked(self) -> bool:
        """Whether it is held to what it declares, and checked for looking ahead at the start of a run."""
        return not vars(type(self)).get("trusted", False)

    @property
    def implementation(self) -> Any:
        """The object that has the methods of the rule."""
        return self

    def visible(self, seen: Prefix) -> Any:
        """The statistics that it may read."""
        return DeclaredPrefix(seen, self.reads, self.label) if self.checked else seen

    @abstractmethod
    def decide(self, seen: Prefix) -> np.ndarray:
        """Its value for every example and step (E, S); it may depend neither on later steps nor on other examples."""

    def record(self) -> dict[str, Any]:
        """The rule as plain data."""
        return {"rule": self.name} | {
            field.name: getattr(self.implementation, field.name) for field in fields(self.implementation)
        }

    def _check(self) -> None:
        with errors_begin(f"{self.key} `{self.name}`: "):
            check(self)


@dataclass(frozen=True)
class WrappedRule(Rule):
    """A rule without a base class of ours, such as a user's, in the form of those that have one."""

    rule: Any

    def _check(self) -> None:
        object.__setattr__(self, "rule", checked_fields(self.rule, self.label))
        _ = self.reads  # refused at once where it is none

    def __hash__(self) -> int:
        return hash(likeness(self.rule))

    @property
    def name(self) -> str:  # type: ignore[override]
        return type(self.rule).__name__

    @property
    def implementation(self) -> Any:
        return self.rule

    @property
    def declared(self) -> frozenset[str] | None:
        """Names that it declares; None where it declares nothing."""
        with user_code(self.label):
            reads = getattr(self.rule, "reads", None)
        return None if reads is None else _names_read(reads, self.label)


def rule_name(rule: type) -> str:
    """Name of a shipped rule in policy files."""
    return rule.name if issubclass(rule, Rule) else rule.__name__
