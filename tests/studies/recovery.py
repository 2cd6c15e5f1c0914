"""The study of thinking again of one data set that a test makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from replay.studies.recovery.study import DatasetStudy, InterventionSetting, _study_dataset, choose_roles
from toolkit.log import open_log, write_log
from toolkit.stats import Settings

Tables = dict[str, pl.DataFrame]


def asked(**changes: Any) -> InterventionSetting:
    settings = Settings(resamples=20)
    given: dict[str, Any] = {"action": "active_verify", "base": "short", "budgets": (), "gates": (), "margin": 0.01}
    given |= {"on": "split='train'", "tune": "split='dev'", "where": "split='test'", "prices": None}
    return InterventionSetting(**(given | {"settings": settings} | changes))


def study(tables: Tables, path: Path, **changes: Any) -> DatasetStudy:
    write_log(path, name="made", tables=tables, simulated=True)
    log = open_log(path)
    dataset = tables["examples"].filter(pl.col("split") == "test")["dataset"][0]
    return _study_dataset(log, choose_roles(log, asked(**changes)), asked(**changes), dataset)
