"""The vocabulary of policies, as frozen dataclasses: what to replay, never how.

A policy is checked for sense when it is built (an order that does not go with a stop, a cap of zero);
whether the log can serve it is found out when it is replayed. `replay.reading` makes these from TOML.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import inf
from typing import Any, ClassVar, Literal

from replay.sampling.learned import FITS, Calibration, Conformal, Prior
from replay.sampling.stops import Budget, Margin, Never, Rule
from replay.sampling.surrogate import MODES, Mode, Surrogate
from toolkit.errors import ThinkbackError, suggest

Order = Literal["generation", "random", "surrogate", "score"]
Select = Literal["first", "majority", "best", "weighted"]
Missing = Literal["partial", "use_available"]
ORDERS = ("generation", "random", "surrogate", "score")
SELECTS = ("first", "majority", "best", "weighted")
MISSING = ("partial", "use_available")
ORACLE_RULES = ("any", "action", "expected_action", "matched_rate", "matched_random")
MATCHED = ("matched_rate", "matched_random")
EVERY = "every example"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What every policy has: a name, and another policy's name against which fixes and flips are counted."""

    name: str
    against: str | None = None
    family: str = ""
    """Name before the sweep's brackets; the name itself for a policy of its own."""
    tried: int = 1
    """How many policies the sweep made."""
    kind: ClassVar[str]

    @property
    def diagnostic(self) -> str:
        """What it sees that no policy in service could (gold, scores before they are paid); empty for real policies."""
        return next((part.diagnostic for part in self.parts if part.diagnostic), "")

    @property
    def parts(self) -> tuple[Policy, ...]:
        """Policies that it is made of."""
        return ()

    @property
    def single(self) -> bool:
        """Whether its outcome on an example has one chosen trace, and is no mean over several."""
        return all(part.single for part in self.parts)

    @property
    def of_its_own(self) -> str:
        """A setting of it that only a policy by itself may have, no part of another one; empty if there is none."""
        return "against" if self.against is not None else ""

    @cached_property
    def essence(self) -> Hashable:
        """What policies share that differ in name alone; one that cannot be hashed is like no other."""
        plain = replace(self, name="part", against=None, family="part", tried=1)
        try:
            hash(plain)
        except TypeError:
            return id(self)
        return plain

    def refuse(self, why: str) -> ThinkbackError:
        """An error about this policy's settings."""
        return ThinkbackError(f"policy `{self.name}`: {why}")

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ThinkbackError("a policy needs a `name` (a text that is not empty)")
        if not self.family:
            object.__setattr__(self, "family", self.name)
        if self.against is not None and not isinstance(self.against, str):
            raise ThinkbackError(f"policy `{self.name}`: `against` is {self.against!r}; it takes a policy's name")


@dataclass(frozen=True, kw_only=True)
class Sample(Policy):
    """Order x stop x select over one pool of traces.

    `max_traces` is the cap on attempts; `verifier` names the scores used; `orders = K` averages over K
    seeded permutations of the whole logged pool; `expected` gives the exact mean over all random orders;
    `width` generates that many traces at a time (the rule is looked at after each block);
    `on_missing = "use_available"` lets the cap shrink to the pool. `features`, `mode`, `bootstrap`, `ridge`,
    `forgetting`, `bonus` and `prior` are the order `surrogate`'s; `calibration` is the stop `margin`'s; `conformal`
    makes prediction sets.
    """

    max_traces: int
    pool: str | None = None
    verifier: str | None = None
    order: Order = "generation"
    stop: Rule = field(default_factory=Never)
    select: Select = "best"
    seed: int = 0
    orders: int | None = None
    expected: bool = False
    width: int = 1
    on_missing: Missing = "partial"
    features: tuple[str, ...] = ()
    mode: Mode = "lazy"
    bootstrap: int = 3
    ridge: float = 1.0
    forgetting: float = 1.0
    bonus: float = 0.0
    prior: Prior | None = None
    calibration: Calibration | None = None
    conformal: Conformal | None = None
    kind: ClassVar[str] = "sample"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_values()
        self._check_surrogate()
        self._check_combination()

    @property
    def verifies(self) -> bool:
        """Whether any verification is made: the order, the stop or the select needs scores."""
        return (
            self.order != "generation"
            or self.select in ("best", "weighted")
            or getattr(self.stop, "needs_scores", False)
            or (isinstance(self.stop, Budget) and self.stop.verifications is not None)
        )

    @property
    def surrogate(self) -> Surrogate | None:
        """Settings of the surrogate, where the order is its."""
        if self.order != "surrogate":
            return None
        names = (field.name for field in fields(Surrogate))
        return Surrogate(**{name: getattr(self, name) for name in names})

    @property
    def diagnostic(self) -> str:
        """Order `score` looks at every score before it verifies anything."""
        return "sees all scores before it pays for one" if self.order == "score" else ""

    @property
    def single(self) -> bool:
        """One order."""
        return self.orders is None and not self.expected

    @property
    def of_its_own(self) -> str:
        """Prediction sets are reported of a policy by itself."""
        return super().of_its_own or ("conformal" if self.conformal is not None else "")

    def _check_values(self) -> None:
        for key, least in (("max_traces", 1), ("orders", 1), ("width", 1), ("bootstrap", 1), ("seed", None)):
            value = getattr(self, key)
            if value is None and key == "orders":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
                bound = f", at least {least}" if least is not None else ""
                raise self.refuse(f"`{key}` is {value!r}; it takes a whole number{bound}")
        for key, known in (("order", ORDERS), ("select", SELECTS), ("on_missing", MISSING), ("mode", MODES)):
            if getattr(self, key) not in known:
                raise self.refuse(f"`{key}` is {getattr(self, key)!r}; {suggest(str(getattr(self, key)), known)}")
        for key in ("pool", "verifier"):
            value = getattr(self, key)
            if value is not None and not isinstance(value, str):
                raise self.refuse(f"`{key}` is {value!r}; it takes a name")
        if not isinstance(self.expected, bool):
            raise self.refuse(f"`expected` is {self.expected!r}; it takes true or false")

    def _check_surrogate(self) -> None:
        given: object = self.features
        if not isinstance(given, str | list | tuple):
            raise self.refuse(f"`features` is {given!r}; it takes names of columns of features")
        names = (given,) if isinstance(given, str) else tuple(given)
        object.__setattr__(self, "features", names)
        if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise self.refuse(f"`features` is {list(names)!r}; it takes different names of columns of features")
        for key, least, most in (("ridge", 0.0, inf), ("forgetting", 0.0, 1.0), ("bonus", -0.0, inf)):
            value = getattr(self, key)
            number = isinstance(value, int | float) and not isinstance(value, bool) and value < inf
            if not number or value > most or value < least or (value == 0 and key != "bonus"):
                bound = {"ridge": "above 0", "forgetting": "above 0 and at most 1", "bonus": "from 0"}[key]
                raise self.refuse(f"`{key}` is {value!r}; it takes a number {bound}")
        for key, kind in FITS.items():
            if getattr(self, key) is not None and not isinstance(getattr(self, key), kind):
                raise self.refuse(f"`{key}` is {getattr(self, key)!r}; it takes a table with `on`")
        if self.prior is not None and self.order != "surrogate":
            raise self.refuse('`prior` goes with `order = "surrogate"`')
        if self.prior is not None and not self.features:
            raise self.refuse("`prior` is fitted on `features`, so it needs some")
        if self.calibration is not None and not isinstance(self.stop, Margin):
            raise self.refuse("`calibration` decides the margin, so it needs stop `margin`")
        if self.conformal is not None and (self.orders is not None or self.expected or self.select != "best"):
            raise self.refuse('`conformal` goes with `select = "best"`, without `orders` and `expected`')

    def _check_combination(self) -> None:
        if self.select == "first" and self.max_traces != 1:
            raise self.refuse(f'`select = "first"` needs `max_traces = 1`; it has {self.max_traces}')
        if self.verifies and self.verifier is None:
            raise self.refuse("it verifies, so it needs a `verifier`")
        if self.order != "generation":
            self._check_verification_order()
        if self.expected:
            if self.order != "random" or self.select != "best" or not isinstance(self.stop, Budget):
                raise self.refuse(
                    '`expected` goes with `order = "random"`, `select = "best"` and a budget of verifications'
                )
            if self.orders is not None:
                raise self.refuse("`expected` is already exact over all orders; leave out `orders`")

    def _check_verification_order(self) -> None:
        budget = isinstance(self.stop, Budget) and self.stop.verifications is not None
        if not (budget or isinstance(self.stop, Never | Margin)):
            raise self.refuse(
                f'`order = "{self.order}"` goes with stop `none`, `margin` or a budget of verifications, '
                f"because it is looked at after verifications and not after traces"
            )
        if self.select not in ("best", "weighted"):
            raise self.refuse(f'`order = "{self.order}"` goes with `select` `best` or `weighted`, not `{self.select}`')
        if self.order == "surrogate" and self.mode == "lazy" and self.width != 1:
            raise self.refuse('`mode = "lazy"` generates trace by trace; leave out `width`, or use `mode = "pool"`')


@dataclass(frozen=True, kw_only=True)
class Oracle(Policy):
    """A diagnostic that sees gold; only `matched_random` does not.

    `any`: right when some trace of `of` is (pass@n, the ideal verifier); it pays all of `of`, and the sample 0 of
    the pool `base` if there is one. `action`: the best logged outcome among `base` and `of`, every rollout a
    candidate. `expected_action`: the one with the highest mean correctness. `of` names pools and actions (an
    action: its logged revisions of the base's sample 0). `matched_rate`: `then` on the share `rate` of the examples
    with the largest gain over `base`; `matched_random`: the mean of both, `rate` the weight of `then`. For these
    two `base` is a policy, or the name of a pool, whose sample 0 is meant.
    """

    of: tuple[str, ...] = ()
    rule: str = "any"
    base: str | Policy | None = None
    then: Policy | None = None
    rate: float | None = None
    kind: ClassVar[str] = "oracle"

    @property
    def diagnostic(self) -> str:
        """It sees gold."""
        return "sees gold" if self.rule != "matched_random" else ""

    @property
    def parts(self) -> tuple[Policy, ...]:
        """Of the matched rules, base and then."""
        return tuple(part for part in (self.base, self.then) if isinstance(part, Policy))

    @property
    def single(self) -> bool:
        """Whether the rule chooses one trace."""
        return self.rule in ("any", "action")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule not in ORACLE_RULES:
            raise self.refuse(f"`rule` is {self.rule!r}; {suggest(str(self.rule), ORACLE_RULES)}")
        object.__setattr__(self, "of", (self.of,) if isinstance(self.of, str) else tuple(self.of))
        matched = self.rule in MATCHED
        if matched:
            self._check_matched()
        else:
            self._check_choice()

    def _check_choice(self) -> None:
        if not self.of or not all(isinstance(name, str) for name in self.of):
            raise self.refuse("`of` takes a list of names of pools and actions")
        if len(set(self.of)) != len(self.of):
            raise self.refuse("`of` names the same pool or action twice")
        for key in ("then", "rate"):
            if getattr(self, key) is not None:
                raise self.refuse(
                    f"`{key}` belongs to the rules `matched_rate` and `matched_random`, not to `{self.rule}`"
                )
        if self.base is None and self.rule != "any":
            raise self.refuse(f"rule `{self.rule}` needs `base`, the pool whose sample 0 is the base attempt")
        if self.base is not None and not isinstance(self.base, str):
            raise self.refuse(f"`base` is {self.base!r}; for rule `{self.rule}` it takes the name of a pool")

    def _check_matched(self) -> None:
        if self.of:
            raise self.refuse(f"`of` does not go with rule `{self.rule}`; it takes `base`, `then` and `rate`")
        if isinstance(self.base, str):
            base = Sample(name=f"{self.name}: base", pool=self.base, max_traces=1, select="first")
            object.__setattr__(self, "base", base)
        for key in ("base", "then"):
            part = getattr(self, key)
            if not isinstance(part, Policy):
                raise self.refuse(f"`{key}` takes a policy, a table with its own `kind`")
            if part.of_its_own:
                raise self.refuse(f"`{key}` has `{part.of_its_own}`, which belongs to the whole policy")
        rate = self.rate
        if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 <= rate <= 1:
            raise self.refuse(f"`rate` is {rate!r}; it takes a share from 0 to 1")


def nested(policy: Policy) -> Iterator[Policy]:
    """A policy and all that it is made of, the innermost first."""
    for part in policy.parts:
        yield from nested(part)
    yield policy


def with_samples(policy: Policy, make: Callable[[Sample], Sample]) -> Policy:
    """The policy with `make` of every `sample` policy in it in its place."""
    if isinstance(policy, Sample):
        return make(policy)
    inner = {f.name: part for f in fields(policy) if isinstance(part := getattr(policy, f.name), Policy)}
    made: dict[str, Any] = {name: with_samples(part, make) for name, part in inner.items()}
    return replace(policy, **made) if made else policy


def every_example(pool: str | None) -> Sample:
    """The first trace of each example, under the name `EVERY`: what serves every example that has a trace.

    Beside it, a run counts the nine tenths that a policy must serve of all examples asked about, not just of those
    that some other policy can serve.
    """
    return Sample(name=EVERY, pool=pool, max_traces=1, select="first")
