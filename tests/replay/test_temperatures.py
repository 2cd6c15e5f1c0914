"""Curves by temperature."""

from pathlib import Path

import polars as pl
import pytest

from replay.runs.compare.curves import curves
from replay.studies.latent.study import by_temperature, temperatures
from tests.errors import refuses
from tests.logs import GOLDS, tables
from toolkit.log import Log, write_log
from toolkit.stats import Settings

FEW = Settings(resamples=50)
HOT = {"e1": [("A", None), ("B", None), ("A", None), ("A", None)], "e2": [("B", None)] * 4, "e3": [("B", None)] * 4}
COLD = {example: rows[:1] for example, rows in HOT.items()}


def made(folder: Path, **temperature: float | None) -> Log:
    frames = tables({"hot": HOT, "cold": COLD, "mixed": HOT}, GOLDS)
    pool = pl.col("pool")
    drawn = pl.when(pool == "mixed").then(pl.col("sample_index") / 4)
    for name, value in temperature.items():
        drawn = drawn.when(pool == name).then(pl.lit(value, dtype=pl.Float64))
    frames["traces"] = frames["traces"].with_columns(temperature=drawn.otherwise(None).cast(pl.Float32))
    return write_log(folder / "log", name="t", tables=frames)


def test_pools_of_one_temperature_have_curves(tmp_path: Path) -> None:
    log = made(tmp_path, hot=0.75, cold=0.0)
    assert temperatures(log) == {"cold": 0.0, "hot": 0.75}
    found = by_temperature(log, settings=FEW)
    assert found.select("temperature", "pool").unique().sort("pool").rows() == [(0.0, "cold"), (0.75, "hot")]
    own = curves(log, pool="hot", settings=FEW)
    same = found.filter(pool="hot").select(own.select(pl.exclude("verifier")).columns)
    assert same.equals(own.select(pl.exclude("verifier")))
    assert found.filter(pool="cold", metric="majority")["estimate"].to_list() == pytest.approx([2 / 3])


def test_a_log_without_temperatures_says_so(tmp_path: Path) -> None:
    with refuses("unsuitable", str(tmp_path)):
        by_temperature(made(tmp_path), settings=FEW)
