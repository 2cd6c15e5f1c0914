"""Prices of tokens, as a policy file or a file of its own gives them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.columns import COLUMNS, OutcomeColumn
from toolkit.documents import parse_toml, read_text
from toolkit.errors import InvalidError, RequiredError, error_prefix, listed
from toolkit.log import Log, collect
from toolkit.settings import check, from_table, setting

PRICE = "price"
"""The outcome column of what calls cost in money."""
WORDS = ("currency", "source", "date")
"""Keys of `[prices]` that hold a text; the others are models and verifiers."""


@dataclass(frozen=True)
class _TokenPrice:
    """The price of a million tokens: of those read, and of those written."""

    prompt: float = setting(low=0)
    completion: float = setting(low=0)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Prices:
    """Prices of a million tokens, prompt and completion, for each model and verifier that makes a call.

    `currency`: its sign or code, as headings have it; `source` and `date`: where the prices stand, and of what day.
    """

    per_million: Mapping[str, tuple[float, float]]
    currency: str = ""
    source: str = ""
    date: str = ""
    logged: bool = False
    """Whether money is what the log says that was billed."""

    def price_expression(self, name: str) -> pl.Expr:
        """Price of a call, from its tokens and the model or verifier in column `name` (unpriced: null; tokens
        at the price 0 need no count); as billed where that is logged, which it is of traces alone."""
        if self.logged:
            spent = pl.any_horizontal(pl.col("prompt_tokens", "completion_tokens") > 0)
            return pl.col("cost") if name == "model" else pl.when(spent).then(float("nan")).otherwise(0.0)
        spent = pl.lit(0.0)
        for side, tokens in enumerate(("prompt_tokens", "completion_tokens")):
            prices = {model: both[side] for model, both in self.per_million.items()}
            price = pl.col(name).replace_strict(prices, default=None, return_dtype=pl.Float64)
            spent = spent + pl.when(price == 0).then(0.0).otherwise(pl.col(tokens) * price)
        return spent / 1e6

    def columns(self) -> tuple[OutcomeColumn, ...]:
        """The table of columns, with the currency in the heading of money and the source of the prices in a remark."""
        heading = f"{self.currency or PRICE}/1,000"
        if any(column.header == heading and column.name != PRICE for column in COLUMNS):
            heading = f"{PRICE} {heading}"
        remark = ", ".join(part for part in (f"prices of {self.source}" if self.source else "", self.date) if part)
        return tuple(
            replace(column, header=heading, remark=remark) if column.name == PRICE else column for column in COLUMNS
        )

    def record(self) -> dict[str, Any]:
        """The prices as plain data, as a policy file has them."""
        words = {name: getattr(self, name) for name in WORDS if getattr(self, name)}
        entries = {name: {"prompt": one, "completion": two} for name, (one, two) in self.per_million.items()}
        return {**words, **entries}


def read_prices(table: object) -> Prices | None:
    """The prices of the table `[prices]`; None without one. A lone number prices both kinds of tokens."""
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise InvalidError("`prices` takes a table of models and verifiers")
    words = {key: str(table[key]) for key in WORDS if key in table and not isinstance(table[key], Mapping)}
    entries = {}
    for name, entry in table.items():
        if name not in words:
            both = isinstance(entry, int | float) and not isinstance(entry, bool)
            given = {"prompt": entry, "completion": entry} if both else entry
            one = from_table(_TokenPrice, given, f"prices.{name}")
            entries[name] = (one.prompt, one.completion)
    return Prices(entries, words.get("currency", ""), words.get("source", ""), words.get("date", ""))


def logged_prices(log: Log) -> Prices | None:
    """What the traces of a log were billed, in place of prices; None where that is not logged of all of them."""
    if log.manifest is None or not log.has("traces") or "cost" not in log.columns("traces"):
        return None
    if collect(log.scan("traces", ["cost"]).select(pl.col("cost").is_null().any()), log).item():
        return None
    return Prices({}, currency=log.manifest.currency or "", source="the log's column `cost`", logged=True)


def missing_tokens(log: Log, prices: Prices | None, pools: Collection[str]) -> str:
    """What keeps prices of traces of `pools` from being used, in words: tokens that are not logged; else empty."""
    sides = ("prompt_tokens", "completion_tokens")
    of_models = {} if prices is None else prices.per_million
    traces = log.scan("traces", ["pool", "model", *sides]).filter(pl.col("pool").is_in(sorted(pools)))
    frame = collect(traces.group_by("model").agg(pl.col(sides).is_null().any()), log)
    lacking = [(name, sorted(one for one in frame.filter(name)["model"] if of_models.get(one, (0, 0))[side]))
               for side, name in enumerate(sides)]  # fmt: skip
    texts = " and ".join(f"`{name}` of {listed(models, 3)}" for name, models in lacking if models)
    return f"{texts} are not logged, so their prices are not used: log them, or give them the price 0" if texts else ""


def priced_columns(prices: Prices | None, measure: str | None = None) -> tuple[OutcomeColumn, ...]:
    """The table of outcome columns, with money in the currency of the prices, and the mean of another `measure` than
    `correct` under its name.
    """
    columns = COLUMNS if prices is None else prices.columns()
    if measure in (None, "correct"):
        return columns
    return tuple(
        replace(column, header=measure, decimals=1) if column.name == "correct" else column for column in columns
    )


GivenPrices = Prices | str | Path | None
"""Types that a function takes for prices."""


def load_prices(given: str | Path | Prices) -> Prices:
    """Prices from the table `[prices]` of a TOML file. ThinkbackError where the file has none."""
    if isinstance(given, Prices):
        return given
    tables = parse_toml(read_text(given, f"the prices in {given}"), str(given))
    with error_prefix(f"{given}: "):
        prices = read_prices(tables.get("prices"))
        if outside := [f"`{word}`" for word in WORDS if word in tables]:
            raise InvalidError(f"{' and '.join(outside)} above `[prices]`: write it below, as a key of that table")
    if prices is None:
        raise RequiredError(f"{given} has no table `[prices]`")
    return prices
