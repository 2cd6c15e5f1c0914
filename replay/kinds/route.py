"""Kind `route`: a column of examples chooses between two policies before anything is solved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import polars as pl

from replay.data.contents import Contents
from replay.data.needs import Needs
from replay.engine.calls import PolicyPath
from replay.engine.mixing import choose_path
from replay.policies.base import Evaluator, ExplanationStage, Policy, policy_errors
from toolkit.errors import InvalidError, RequiredError, error_prefix, quote, require_known
from toolkit.settings import check, from_table, setting

TABLE = 'a table such as { column = "router_score", at_least = 0.5 }'


@dataclass(frozen=True, kw_only=True)
class Router:
    """A rule on a column of `examples`: at a value of `at_least` or more, or `below` one, the policy `then` answers."""

    column: str = setting(what="the name of a column of examples")
    at_least: float | None = setting(None, what="a number or a list of them")
    below: float | None = setting(None, what="a number or a list of them")

    def __post_init__(self) -> None:
        with error_prefix("`route`: "):
            check(self)
        if (self.at_least is None) == (self.below is None):
            raise RequiredError("`route` needs one threshold, `at_least` or `below`")

    def goes_to_then(self, values: np.ndarray) -> np.ndarray:
        """Mask (E,) of the examples that go to `then`, from the column's values (E,)."""
        with np.errstate(invalid="ignore"):
            return values >= self.at_least if self.at_least is not None else values < self.below

    def record(self) -> dict[str, Any]:
        settings = {"column": self.column, "at_least": self.at_least, "below": self.below}
        return {name: value for name, value in settings.items() if value is not None}


def _read_router(table: object, place: str) -> Router:
    if not isinstance(table, Mapping) or "column" not in table:
        raise InvalidError(f"`{place}` is {quote(table)}; it takes a `Router`, or {TABLE}")
    return from_table(Router, table, place)


@dataclass(frozen=True, kw_only=True)
class Route(Policy, kind="route", inner=("then", "else_")):
    """A choice between the policies `then` and `else` before anything is solved; only the chosen one is paid."""

    route: Router = setting(read=_read_router)
    then: Policy
    else_: Policy

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.route, Router):
            with policy_errors(self.name):
                object.__setattr__(self, "route", _read_router(self.route, "route"))
        self.require_parts()

    def resolve(self, contents: Contents) -> Self:
        column = self.route.column
        with policy_errors(self.name):
            require_known(column, contents.example_columns, f"examples have no column `{column}` to route by")
        dtype = contents.example_columns[column]
        if not (dtype.is_numeric() or dtype == pl.Boolean):
            raise self.refusal(f"column `{column}` of examples holds {dtype}; a router's score is a number")
        return super().resolve(contents)

    def needs(self, contents: Contents) -> Needs:
        return Needs(example_columns=frozenset([self.route.column]))

    def _column_values(self, on: Evaluator) -> np.ndarray:
        return on.block.examples[self.route.column].cast(pl.Float64).to_numpy().astype(float)

    def path(self, on: Evaluator) -> PolicyPath:
        values = self._column_values(on)
        path = choose_path(self.route.goes_to_then(values), on.path(self.then), on.path(self.else_), self.columns)
        reasons = (*path.outcome.reasons, f"column `{self.route.column}` of examples is null")
        reason = np.where(np.isnan(values), len(reasons) - 1, path.outcome.reason).astype(np.int16)
        return replace(path, outcome=replace(path.outcome, reason=reason, reasons=reasons))

    def explain(self, on: Evaluator, repetition: int) -> Iterator[ExplanationStage]:
        value = float(self._column_values(on)[0])
        first = self._chosen_policy(on) is self.then
        threshold = self.route.at_least if self.route.at_least is not None else self.route.below
        row = {
            "reads": f"column `{self.route.column}` of examples",
            "value": None if np.isnan(value) else value,
            "chooses then": "at least" if self.route.at_least is not None else "below",
            "threshold": threshold,
        }
        rows = pl.DataFrame([row], schema_overrides={"value": pl.Float64})
        yield ExplanationStage("the router", rows, f"it chooses `{'then' if first else 'else'}`")
        yield from self._chosen_policy(on).explain(on, repetition)

    def _chosen_policy(self, on: Evaluator) -> Policy:
        return self.then if self.route.goes_to_then(self._column_values(on))[0] else self.else_

    def ending_text_on_example(self, on: Evaluator, ending: str) -> str:
        part = self._chosen_policy(on)
        return (
            f"the router chooses `{'then' if part is self.then else 'else'}`; {part.ending_text_on_example(on, ending)}"
        )

    def averaged_rows_text(self, on: Evaluator, rows: int) -> str:
        return self._chosen_policy(on).averaged_rows_text(on, rows)
