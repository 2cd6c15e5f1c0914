"""Policies from TOML: `[[policy]]` tables, sweeps, run-wide settings, and a user's own rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from replay.data.conditions import CONDITION
from replay.data.prices import Prices, prices_from
from replay.policies.base import KINDS, Policy, read_policy
from replay.policies.gates import COMBINED
from replay.policies.suite import Suite
from replay.policies.sweeps import copied, expand
from replay.sampling.own_rules import GivenRules, own_rules
from toolkit.arguments import checked_argument, checks_arguments
from toolkit.documents import parse_toml, read_text
from toolkit.errors import ThinkbackError, require_known, shown, suggest
from toolkit.literal_float import LiteralFloat

POLICIES = "a policy file (a path), the text of one, or policies built in Python"
KEYS = ("policy", "measure", "prices")
RULES = "a Python file, or classes, with stopping rules and selects of your own"


@dataclass(frozen=True)
class PolicyFile:
    """Policies in the order of the file, and what the file sets for the whole run; of a standard suite also which
    examples it reports, the columns of its groups, and what it leaves out.
    """

    policies: tuple[Policy, ...]
    measure: str | None = None
    prices: Prices | None = None
    where: str | None = None
    by: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    standard: bool = False  # the standard suite, which is compared with its vote over most traces by default

    def __post_init__(self) -> None:
        given = checked_argument("policies", self.policies, Iterable[Policy])
        object.__setattr__(self, "policies", checked(_only_policies(given)))
        checked_argument("measure", self.measure, str | None, "the name of a column of traces")
        checked_argument("standard", self.standard, bool)
        checked_argument("prices", self.prices, Prices | None)
        checked_argument("where", self.where, str | None, CONDITION)
        object.__setattr__(self, "by", checked_argument("by", self.by, tuple[str, ...], "columns of examples"))


GivenPolicies = str | Path | PolicyFile | Suite | Policy | Iterable[Policy]
"""What stands for policies where a function takes them."""


@checks_arguments(source=POLICIES, rules=RULES)
def load_policies(source: GivenPolicies, rules: GivenRules = None) -> PolicyFile:
    """Policies from a TOML file (a path, or a text that holds a line break), from a suite, or as built in Python.

    `rules` is a Python file, or classes, with stopping rules and selects of the user's own.
    Raises ThinkbackError for anything misspelt, missing, doubled or of the wrong type.
    """
    own = own_rules(rules)
    if isinstance(source, PolicyFile):
        return source
    if isinstance(source, Suite):
        file = _parse(source.text, "the suite", own)
        return replace(file, where=source.where, by=source.by, left_out=source.left_out, standard=True)
    if isinstance(source, Policy):
        return PolicyFile((source,))
    if isinstance(source, str | Path):
        if not str(source).strip():
            raise ThinkbackError("the policies are an empty text: name a TOML file, or write the text with its tables")
        inline = isinstance(source, str) and "\n" in source
        if not inline and "=" in str(source) and not Path(source).exists():
            raise ThinkbackError(f"no file of policies is called `{source}`; a TOML text has several lines")
        text = str(source) if inline else read_text(source, f"the policies in {source}")
        return _parse(text, "policies" if inline else str(source), own)
    return PolicyFile(tuple(source))


def _parse(text: str, name: str, own: Mapping[str, type]) -> PolicyFile:
    document = parse_toml(text, name, parse_float=LiteralFloat)
    try:
        for key, value in document.items():
            if key not in KEYS and value and isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
                raise ThinkbackError(f"`[[{key}]]` is none of its tables; write each policy under `[[policy]]`")
            require_known(key, KEYS, f"unknown key `{key}`")
        tables = document.get("policy")
        if not isinstance(tables, list) or not tables or not all(isinstance(t, Mapping) for t in tables):
            raise ThinkbackError("it has no policy; write each one as a table under `[[policy]]`")
        policies = [
            replace(policy, sweep=str(table.get("name", "")), sweep_size=size, swept=swept) if swept else policy
            for table in tables
            for made, swept, size in expand(table, _lists, frozenset(COMBINED))
            for policy in [read_policy(copied(made, _plain), made.get("name", ""), own)]
        ]
        measure = document.get("measure")
        if measure is not None and not isinstance(measure, str):
            raise ThinkbackError(f"`measure` is {shown(measure)}; it takes the name of a column of traces")
        return PolicyFile(tuple(policies), measure, prices_from(document.get("prices")))
    except ThinkbackError as error:
        raise ThinkbackError(f"{name}: {error}") from None


def _lists(table: Mapping[str, Any]) -> frozenset[str]:
    """Keys of a table that hold a list by nature: those of its kind, where it is a policy, else those of all kinds."""
    kind = table.get("kind")
    return KINDS[kind].lists if isinstance(kind, str) and kind in KINDS else Policy.lists


def _only_policies(given: Iterable[Any]) -> tuple[Policy, ...]:
    policies = tuple(given)
    for one in policies:
        if not isinstance(one, Policy):
            raise ThinkbackError(f"`policies` holds {shown(one)}, which is no policy")
    return policies


def checked(policies: Sequence[Policy]) -> tuple[Policy, ...]:
    """The policies of a run. Raises where two share a name, or `against` names none of them."""
    names = [p.name for p in policies]
    if not names:
        raise ThinkbackError("there is no policy to replay")
    known = set()
    for name in names:
        if name in known:
            raise ThinkbackError(f"two policies are named `{name}`; give each a name of its own")
        known.add(name)
    _check_labels(policies)
    for policy in policies:
        if policy.against is not None and policy.against not in known:
            raise policy.refuse(f"`against` names no policy: `{policy.against}`; {suggest(policy.against, names)}")
        if policy.against == policy.name:
            raise policy.refuse("`against` names itself")
    return tuple(policies)


def _check_labels(policies: Sequence[Policy]) -> None:
    """Raise where tables and figures would call two policies, or sweeps, the same."""
    owners: dict[str, str] = {}
    for sweep, label in dict.fromkeys((policy.sweep, policy.label or policy.sweep) for policy in policies):
        if label in owners:
            raise ThinkbackError(f"tables would call `{owners[label]}` and `{sweep}` both `{label}`; change a `label`")
        owners[label] = sweep


def _plain(value: Any) -> Any:
    """A number of the file as an ordinary float, once it is spelt in names."""
    return float(value) if isinstance(value, LiteralFloat) else value
