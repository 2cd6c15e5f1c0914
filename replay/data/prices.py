"""Prices of tokens, as a policy file or a file of its own gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from toolkit.documents import parse_toml, read_text
from toolkit.errors import InvalidError, RequiredError, errors_begin
from toolkit.settings import check, from_table, setting


@dataclass(frozen=True)
class _TokenPrice:
    """Price of a million tokens, read and written."""

    prompt: float = setting(low=0)
    completion: float = setting(low=0)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Prices:
    """Prices per million tokens, prompt and completion, by model or verifier; each that is used needs an entry."""

    per_million: Mapping[str, tuple[float, float]]

    def expr(self, name: str) -> pl.Expr:
        """Price of a call, from its tokens and the model or verifier in column `name` (unpriced: null)."""
        prompts, completions = ({k: v[side] for k, v in self.per_million.items()} for side in (0, 1))
        prompt = pl.col(name).replace_strict(prompts, default=None, return_dtype=pl.Float64)
        completion = pl.col(name).replace_strict(completions, default=None, return_dtype=pl.Float64)
        return (pl.col("prompt_tokens") * prompt + pl.col("completion_tokens") * completion) / 1e6


def prices_from(table: object) -> Prices | None:
    """Prices from the table `[prices]`; None where there is none."""
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise InvalidError("`prices` takes a table of models and verifiers")
    entries = {name: from_table(_TokenPrice, entry, f"prices.{name}") for name, entry in table.items()}
    return Prices({name: (one.prompt, one.completion) for name, one in entries.items()})


def load_prices(path: str | Path) -> Prices:
    """Prices alone, from the table `[prices]` of a TOML file. ThinkbackError where it has none."""
    tables = parse_toml(read_text(path, f"the prices in {path}"), str(path))
    with errors_begin(f"{path}: "):
        prices = prices_from(tables.get("prices"))
    if prices is None:
        raise RequiredError(f"{path} has no table `[prices]`")
    return prices
