"""What a shell completes in the place of an argument: names of policies, metrics, costs and figures."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from toolkit.errors import ThinkbackError

MOST_BYTES = 2**24
"""Of a file that is read for the names in it."""


def completion(kind: str) -> Callable[[typer.Context, str], list[str]]:
    """What typer asks for the words that may stand in the place of an argument: names of one of KINDS."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            names = [name for name in dict.fromkeys(KINDS[kind](ctx.params)) if name.startswith(incomplete)]
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            ThinkbackError,
        ):  # a line that is not whole yet
            return []
        bash = os.environ.get("_THINKBACK_COMPLETE", "").endswith("bash")  # other shells quote by themselves
        return [re.sub(r"([^\w@%+=:,./-])", r"\\\1", name) for name in names] if bash else names

    return complete


def _policy_names(given: Mapping[str, Any]) -> Iterator[str]:
    """Policies of the result or of the policy file that stands on the line, sweeps by their name, too."""
    words = [str(given["result"])] if given.get("result") else os.environ.get("COMP_WORDS", "").split()
    places = [
        Path(word) / inner / "run.json" for word in words for inner in ("", "result", "../result")
    ]  # click may not know yet
    if (place := next(filter(Path.is_file, places), None)) is not None:
        for one in json.loads(_read_text(place))["policies"]:
            yield from (one["name"], one["sweep"])
    elif isinstance(file := given.get("policies"), str | Path):
        yield from (policy["name"] for policy in tomllib.loads(_read_text(Path(file)))["policy"])
    elif (log := next((word for word in words if (Path(word) / "manifest.json").is_file()), None)) is not None:
        from replay.policies.suite import suite
        from replay.policies.toml import load_policies

        yield from (policy.name for policy in load_policies(suite(log).text).policies)


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MOST_BYTES).decode()


def _metric_names(_: Mapping[str, Any]) -> Iterator[str]:
    from toolkit.columns import with_columns

    yield from (
        str(column.metric) for column in with_columns() if column.metric and not column.family and not column.cost
    )


def _cost_names(_: Mapping[str, Any]) -> Iterator[str]:
    from toolkit.columns import cost_names_for_users, with_columns

    yield from cost_names_for_users(with_columns())


def _figure_names(_: Mapping[str, Any]) -> Iterator[str]:
    from replay.runs.figures.figures import FIGURES

    yield from FIGURES


KINDS: dict[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "policies": _policy_names, "metrics": _metric_names, "costs": _cost_names, "figures": _figure_names,
}  # fmt: skip
