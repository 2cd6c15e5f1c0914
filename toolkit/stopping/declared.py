"""The common part of stopping rules and selects: parameters, the names that they declare to read, a view of just these.

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

from toolkit.errors import InvalidError, RuleError, UnknownError, error_prefix, quote, require_known, suggest, user_code
from toolkit.settings import check
from toolkit.stopping.prefix import SCORES, VOTES, LazyArrays, Prefix
from toolkit.user_files import convert_parameters

FEATURE, EXAMPLE, SIGNAL = "features:", "examples:", "signals:"
"""Prefixes of what a rule declares to read: a column of features, a column of examples, a signal of traces."""

READS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("step", "traces", "valid", "tokens", "completion_tokens"), frozenset()),
    **dict.fromkeys(
        ("answers", "answer", "votes", "second_votes", "leader", "answer_votes", "run"), frozenset({VOTES})
    ),
    **dict.fromkeys(("verified", "best_score", "best_step", "last_score"), frozenset({SCORES})),
    **dict.fromkeys(
        ("verified_answers", "lead", "best_answer", "best_scores", "score_sums", "sum_leader"),
        frozenset({VOTES, SCORES}),
    ),
}
"""Statistic -> what a rule must declare to read it."""


def _names_read(reads: Any, rule: str) -> frozenset[str]:
    """The names that a user's rule declares to read, given as one or several; `rule` is its name in messages."""
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
    """The columns of one kind, FEATURE or EXAMPLE, that a rule declares to read."""
    return frozenset(name.removeprefix(kind) for name in reads if name.startswith(kind))


class DeclaredPrefix:
    """A view of a `Prefix` that gives a rule the statistics it declares, and raises for any other, naming it."""

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
        self._require_declared(READS[name], f"`{name}`")
        return getattr(self._seen, name)

    def _columns(self, columns: LazyArrays, kind: str) -> Mapping[str, np.ndarray]:
        def of(name: str) -> np.ndarray:
            self._require_declared(frozenset([f"{kind}{name}"]), f"column `{name}` of `{kind[:-1]}`")
            return columns[name]

        return LazyArrays(sorted(columns_read(self._reads, kind)), of)

    def _require_declared(self, names: frozenset[str], label: str) -> None:
        lacking = names - self._reads
        if lacking:
            raise RuleError(
                f"{self._rule} reads {label}, which it does not declare: "
                f"add `reads: ClassVar = {tuple(sorted(self._reads | lacking))}` to it"
            )


def equality_key(rule: Any) -> Hashable:
    """A key that equal rules share. A rule that cannot be hashed, as with a list for a parameter, equals no other."""
    try:
        hash(rule)
    except TypeError:
        return id(rule)
    return rule


class HeaderVariables:
    """A base that sets class variables in the header: `class First(Select, name="first", one_trace=True)`."""

    def __init_subclass__(cls, **facts: Any) -> None:
        for name, fact in facts.items():
            setattr(cls, name, fact)


class Rule(HeaderVariables, ABC):
    """A stopping rule or a select: a frozen dataclass whose fields are its parameters."""

    key: ClassVar[str]
    """The key of a policy that holds the rule: `stop` or `select`."""
    noun: ClassVar[str]
    """The noun for the rule in messages."""
    says: ClassVar[str]
    """The noun in messages for its value at a step of an example."""
    name: ClassVar[str]
    trusted: ClassVar[bool] = False
    """Whether this very class is known to read what it declares, and not to look ahead; subclasses are not."""

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
        """The names that the rule reads beside counts: `votes`, `scores`, `features:NAME`, `examples:NAME`."""
        return frozenset({VOTES})

    @property
    def counts_votes(self) -> bool:
        """Whether the rule counts votes, and so those for no answer, where a policy has these."""
        return VOTES in self.reads

    @property
    def label(self) -> str:
        return f"{self.noun} `{self.name}`"

    @property
    def is_checked_by_run(self) -> bool:
        """Whether a run holds the rule to what it declares, and checks at its start that it does not look ahead."""
        return not vars(type(self)).get("trusted", False)

    @property
    def implementation(self) -> Any:
        """The object whose methods the rule calls: itself, or the user's."""
        return self

    def visible_part(self, seen: Prefix) -> Any:
        """The statistics of a prefix that the rule may read."""
        return DeclaredPrefix(seen, self.reads, self.label) if self.is_checked_by_run else seen

    @abstractmethod
    def decide_checked(self, seen: Prefix) -> np.ndarray:
        """The rule's value at each step of each example (E, S); later steps and other examples never change it."""

    def record(self) -> dict[str, Any]:
        """The rule as plain data."""
        return {"rule": self.name} | {
            field.name: getattr(self.implementation, field.name) for field in fields(self.implementation)
        }

    def _check(self) -> None:
        with error_prefix(f"{self.key} `{self.name}`: "):
            check(self)


@dataclass(frozen=True)
class WrappedRule(Rule):
    """A user's rule, of a class without our base class, in the form of ours."""

    rule: Any

    def _check(self) -> None:
        object.__setattr__(self, "rule", convert_parameters(self.rule, self.label))
        _ = self.reads  # refused at once where it is none

    def __hash__(self) -> int:
        return hash(equality_key(self.rule))

    @property
    def name(self) -> str:  # type: ignore[override]
        return type(self.rule).__name__

    @property
    def implementation(self) -> Any:
        return self.rule

    @property
    def declared_names(self) -> frozenset[str] | None:
        """The names that the user's rule declares to read; None where it declares nothing."""
        with user_code(self.label):
            reads = getattr(self.rule, "reads", None)
        return None if reads is None else _names_read(reads, self.label)


def rule_name(rule: type) -> str:
    """The name of a shipped rule in policy files."""
    return rule.name if issubclass(rule, Rule) else rule.__name__
