"""Settings whose effect studies tell: of a margin and a surrogate order, and of the surrogate's own keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import polars as pl

from replay.analyses.budgets.surrogate_keys import UNSEEN
from replay.analyses.tune.fitted import SettingSweep, sweep
from replay.kinds.sample import Sample
from replay.sampling.stops import Margin
from replay.sampling.surrogate import LABEL_SCORES
from replay.studies.factcheck.budgets.verifying_study import VerifyingStudy
from replay.studies.factcheck.methods.verifying import VerifyingSetting
from replay.studies.kit.sheet import Row, Sheet, intervals, listed, numbers
from toolkit.log import Log

MARGINS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
MINIMA = (2, 3, 5)
BOOTSTRAPS = (2, 3, 5)
CAPS = (5, 10, 15, 20, 30, 40)
SWEPT = {"margin": pl.Float64, "cap": pl.Int64, "min_valid": pl.Int64, "bootstrap": pl.Int64}
"""Settings of both; no bootstrap pool: adaptive stopping."""
RIDGES, FORGETTINGS = (0.1, 1.0, 10.0), (0.9, 1.0)
KEYS = {"unseen": pl.Float64, "label_score": pl.String, "ridge": pl.Float64, "forgetting": pl.Float64}
MEASURED = ("macro_f1", "operations")


def sensitivity(
    log: Log,
    setting: VerifyingSetting,
    size: int,
    *,
    margins: Sequence[float] | None = None,
    caps: Sequence[int] | None = None,
    minima: Sequence[int] | None = None,
    bootstraps: Sequence[int] = BOOTSTRAPS,
) -> SettingSweep:
    """Macro-F1 and operations over margin, cap (at most `size`), minimum and bootstrap pool.

    By default the study's own are among them.
    """
    margins = margins or sorted({*MARGINS, setting.margin.margin})
    minima = minima or sorted({*MINIMA, setting.margin.min_valid})
    caps = [cap for cap in (caps or sorted({*CAPS, setting.cap})) if cap <= size] or [size]

    def tried() -> Iterator[tuple[tuple[Any, ...], Sample]]:
        for margin, cap, least, first in product(margins, caps, minima, (None, *bootstraps)):
            own: dict[str, Any] = {"max_traces": cap, "stop": Margin(margin, least, setting.margin.single_label)}
            if first is not None:
                own |= {"order": "surrogate", "features": setting.features, "bootstrap": first}
            how = "adaptive stopping" if first is None else f"surrogate from {first}"
            name = f"{how} with margin {margin:g}, cap {cap}, minimum {least}"
            yield (margin, cap, least, first), Sample(name=name, pool=setting.pool, verifier=setting.verifier, **own)

    return sweep(log, SWEPT, tried(), MEASURED, setting.pool, **setting.asked)


def surrogate_keys(log: Log, setting: VerifyingSetting) -> SettingSweep:
    """The same of the surrogate under the study's margin for every combination of the surrogate's own keys."""
    policy = Sample(
        name="surrogate", pool=setting.pool, verifier=setting.verifier, max_traces=setting.cap, order="surrogate",
        features=setting.features, stop=setting.margin,
    )  # fmt: skip

    def tried() -> Iterator[tuple[tuple[Any, ...], Sample]]:
        for values in product(UNSEEN, LABEL_SCORES, RIDGES, FORGETTINGS):
            own: dict[str, Any] = dict(zip(KEYS, values, strict=True))
            name = "surrogate with " + ", ".join(f"{key} {value}" for key, value in own.items())
            yield values, replace(policy, name=name, **own)

    return sweep(log, KEYS, tried(), MEASURED, setting.pool, **setting.asked)


def told_missing(found: SettingSweep) -> list[str]:
    """Why settings are dashes: how many, and the first of them."""
    if found.result is None:
        return list(found.missing.values())[:1]
    policies = len(found.table) // len(MEASURED)
    count = f"{len(found.missing)} of the {policies} settings cannot be replayed and are dashes"
    return [f"{count}, such as {name}: {why}" for name, why in found.missing.items()][:1]


def _settings(swept: SettingSweep, heads: Iterable[str]) -> Iterator[Row]:
    """Macro-F1 and operations for every setting."""
    f1, spent = (swept.table.filter(metric=metric) for metric in MEASURED)
    found = f1.with_columns(operations=spent["estimate"])
    return listed(found.iter_rows(named=True), tuple(heads), "estimate", "macro_f1_pct")


def _by_keys(study: VerifyingStudy) -> Iterator[Row]:
    for row in _settings(study.surrogate_keys, KEYS):
        yield replace(row, heads=tuple(f"{head:g}" if isinstance(head, float) else head for head in row.heads))


COLUMNS = (intervals("Macro-F1, %", "macro_f1_pct"), numbers("Operations/claim", "operations", 2))
SETTINGS: Sheet[Any] = Sheet(
    "sensitivity", "Sensitivity to the settings", ("Margin", "Cap", "Minimum", "Bootstrap"), COLUMNS,
    lambda study: _settings(study.sensitivity, SWEPT),
    ("bootstrap: of the surrogate; a dash is Adaptive Stopping, which has none",), group="sensitivity", printed=False,
)  # fmt: skip
SETTINGS_OF_KEYS: Sheet[Any] = Sheet(
    "sensitivity_keys", lambda studies: f"Sensitivity to the surrogate's own keys, N = {studies[0].setting.cap}",
    tuple(key.replace("_", " ").capitalize() for key in KEYS), COLUMNS, _by_keys, group="keys", printed=False,
)  # fmt: skip
