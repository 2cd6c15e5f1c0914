"""Policies that think again: `act` revises a base attempt, `when` puts a gate between two policies, `route` chooses
before solving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from replay.policies.base import Oracle, Policy, Sample
from replay.policies.gates import STEP_SIGNALS, Gate, readings
from toolkit.errors import ThinkbackError


@dataclass(frozen=True, kw_only=True)
class Act(Policy):
    """The answer of a revision of sample 0 of the pool `base`; the costs of both.

    `pool` is the revision's, needed where one action has several. `rollouts` is `mean`, over all that are logged
    for the example, or the number of one of them.
    """

    action: str
    base: str
    pool: str | None = None
    rollouts: int | str = "mean"
    kind: ClassVar[str] = "act"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("action", "base", "pool"):
            value = getattr(self, key)
            if not isinstance(value, str) and not (key == "pool" and value is None):
                raise self.refuse(f"`{key}` is {value!r}; it takes a name")
        if self.action == "solve":
            raise self.refuse("`action` is `solve`, a first attempt; name what was done to it")
        whole = isinstance(self.rollouts, int) and not isinstance(self.rollouts, bool) and self.rollouts >= 0
        if self.rollouts != "mean" and not whole:
            raise self.refuse(f'`rollouts` is {self.rollouts!r}; it takes "mean" or a whole number from 0')

    @property
    def single(self) -> bool:
        """One rollout, so one chosen trace."""
        return self.rollouts != "mean"


@dataclass(frozen=True, kw_only=True)
class When(Policy):
    """`base`, and where the gate fires on its outcome, the answer of `then` in its place."""

    base: Policy
    gate: Gate
    then: Policy
    kind: ClassVar[str] = "when"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("base", "then"):
            _inner(self, key)
        if not self.base.single:
            raise self.refuse(
                f"its `base` (kind `{self.base.kind}`) has no single chosen trace for the gate to read: "
                + ("give the act `rollouts = 0`" if isinstance(self.base, Act) else "leave out `orders` and `expected`")
            )
        for reading in readings(self.gate):
            if reading.signal in STEP_SIGNALS and not isinstance(self.base, Sample):
                raise self.refuse(
                    f"signal `{reading.signal}` is of a `sample` base's last step, not of a `{self.base.kind}`"
                )
            if reading.signal == "margin" and isinstance(self.base, Sample) and not self.base.verifies:
                raise self.refuse("signal `margin` reads verifier scores, and its `base` verifies nothing")

    @property
    def parts(self) -> tuple[Policy, ...]:
        """Base and then."""
        return (self.base, self.then)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A column of `examples` and the threshold from which (`at_least`), or under which (`below`), `then` is chosen."""

    column: str
    at_least: float | None = None
    below: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise ThinkbackError(f"`route.column` is {self.column!r}; it takes the name of a column of examples")
        given = [v for v in (self.at_least, self.below) if v is not None]
        if len(given) != 1:
            raise ThinkbackError("`route` needs one threshold, `at_least` or `below`")
        if not isinstance(given[0], int | float) or isinstance(given[0], bool) or given[0] != given[0]:
            raise ThinkbackError(f"`route`: its threshold is {given[0]!r}; it takes a number or a list of them")


@dataclass(frozen=True, kw_only=True)
class Route(Policy):
    """Chooses between `then` and `else` before anything is solved; only the chosen one is paid."""

    route: Choice
    then: Policy
    else_: Policy
    kind: ClassVar[str] = "route"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.route, Choice):
            raise self.refuse('`route` takes a table such as { column = "router_score", at_least = 0.5 }')
        for key in ("then", "else_"):
            _inner(self, key)

    @property
    def parts(self) -> tuple[Policy, ...]:
        """Both branches."""
        return (self.then, self.else_)


def _inner(policy: Policy, key: str) -> None:
    inner = getattr(policy, key)
    shown = key.rstrip("_")
    if not isinstance(inner, Policy):
        raise policy.refuse(f"`{shown}` is {inner!r}; it takes a policy, a table with its own `kind`")
    if inner.of_its_own:
        raise policy.refuse(f"`{shown}` has `{inner.of_its_own}`, which belongs to the whole policy")
    if isinstance(inner, Oracle) and inner.rule == "matched_rate":
        raise policy.refuse(f"`{shown}` is an oracle of rule `matched_rate`, which chooses among all examples of a run")
