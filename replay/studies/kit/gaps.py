"""What a log lacks, as studies say it: a dash in the table with its reason beneath, and the examples left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import polars as pl

from replay.runs.passes.reuse import first_ids
from replay.runs.result.result import Result
from toolkit.show import table_of

LEFT_OUT_FILE = "left_out.csv"


@dataclass(frozen=True)
class Gap:
    """Why cells are dashes: said beneath a table with a dash in one of these columns, or always where none is named."""

    text: str
    columns: frozenset[str] = frozenset()

    def concerns(self, dashed: Collection[str]) -> bool:
        """Whether a table with dashes in these columns has to say it."""
        return not self.columns or not self.columns.isdisjoint(dashed)


class Named(Protocol):
    """What was found on a data set, which has its name."""

    @property
    def dataset(self) -> str:
        """The data set, as rows name it."""
        ...


P = TypeVar("P", bound=Named)


def said_of(parts: Sequence[P], told: Callable[[P], Iterable[str]]) -> list[str]:
    """What is told of several data sets: lines that hold for all of them once, others after the name of theirs.

    Empty lines are left out.
    """
    by_part = [(part.dataset, [line for line in told(part) if line]) for part in parts]
    lines: list[str] = []
    for dataset, own in by_part:
        for line in own:
            of_all = all(line in others for _, others in by_part)
            lines.append(line if of_all else f"{dataset}: {line}")
    return list(dict.fromkeys(lines))


def told_among(told: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Lines by data set, each once, with the names of those that it is told of where these are not all."""
    among = {line: [name for name, own in told.items() if line in own] for lines in told.values() for line in lines}
    return tuple(line if len(own) == len(told) else f"{line} ({', '.join(own)})" for line, own in among.items())


@dataclass(frozen=True)
class Lack:
    """What a log may lack of traces, the metric that shows it, and the columns that are then dashes."""

    what: str
    metric: str
    columns: frozenset[str]

    def policies(self, result: Result) -> list[str]:
        """The policies whose value it takes away."""
        known = result.summary.filter((pl.col("metric") == self.metric) & pl.col("estimate").is_not_null())["policy"]
        return [policy.name for policy in result.policies if policy.name not in set(known)]


def gaps_of(lacks: Iterable[Lack], results: Mapping[str, Result]) -> Iterator[Gap]:
    """What is said of a run for each data set: the data sets are named where not all of them lack it."""
    for lack in lacks:
        short = [dataset for dataset, result in results.items() if lack.policies(result)]
        where = "" if len(short) == len(results) else f"{', '.join(short)}: "
        if short:
            yield Gap(where + unlogged(lack.what, "trace"), lack.columns)


def reasons(missing: Mapping[str, str]) -> list[str]:
    """Each reason once, with the names of what it takes away, or without where these are more than two."""
    named: dict[str, list[str]] = {}
    for name, why in missing.items():
        named.setdefault(why, []).append(name)
    return [why if len(names) > 2 else f"{', '.join(names)}: {why}" for why, names in named.items()]


def unlogged(what: str, of: str) -> str:
    """Why cells are dashes: `what` (plural) is not logged for every call `of` a kind."""
    return f"{what} are not logged for every {of}, so what follows from them is a dash"


def told_left_out(excluded: Mapping[str, str]) -> tuple[str, ...]:
    """How many examples a run leaves out, the first of them, and where all are named; nothing where none is."""
    if not excluded:
        return ()
    one = len(excluded) == 1
    such = first_ids(sorted(excluded)) if len(excluded) <= 3 else f"such as {first_ids(sorted(excluded))}"
    which = f"{len(excluded):,} example{' is' if one else 's are'} left out, {such}"
    return (f"{which}; `{LEFT_OUT_FILE}` names {'it' if one else 'all of them'} with the reason",)


def write_left_out(folder: Path, key: str, excluded: Mapping[str, Mapping[str, str]], simulated: bool) -> None:
    """Write the examples that runs leave out, one row each with its reason; no file where there are none.

    `excluded` maps each run, which column `key` names, to reasons by example_id.
    """
    rows = [(run, name, why) for run, reasons in excluded.items() for name, why in sorted(reasons.items())]
    if not rows:
        return
    frame = pl.DataFrame(rows, schema=[key, "example_id", "reason"], orient="row")
    text = table_of(frame).csv({"simulated": "true"} if simulated else {})
    (folder / LEFT_OUT_FILE).write_text(text, encoding="utf-8")
