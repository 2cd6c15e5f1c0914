"""Signals added to a log on a scripted pool: equal to those of one process, block by block, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import add_signals
from generate.signals.feature_signals import FeatureWorker
from generate.signals.random_score import _RandomWorker
from tests.errors import refuses
from tests.features.test_features import Letters
from tests.logs import make_log, make_rows, write_recipe
from tests.workers.pools import ScriptedPool, on_pool
from toolkit.log import Log, collect, open_log, validate_log

RECIPE = """
[embedding]
model = "none"

[[verify]]
name = "chance"
kind = "random"

[[verify]]
name = "likely"
kind = "logprob"

[[features]]
kind = "serving"

[[features]]
kind = "checks"

[[features]]
kind = "peers"
pools = ["votes"]
"""
JUDGE = """
[engine]
kind = "openai"
model = "m"
base_url = "http://127.0.0.1:9/v1"

[[verify]]
name = "judge"
kind = "judge"
prompt = "score.txt"
"""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for worker in (FeatureWorker, _RandomWorker):
        monkeypatch.setattr(worker, "per_block", 8)


def added(folder: Path, recipe: str, **options: Any) -> Log:
    """The log of sums in a folder, with what a recipe adds."""
    if not (folder / "log").exists():
        folder.mkdir(exist_ok=True)
        rows = make_rows()
        make_log(folder / "log", traces=rows["traces"].with_columns(text=pl.lit("up")))
    plan = make_add_plan(load(write_recipe(folder, recipe)), folder / "log", **options)
    return add_signals(plan, embedder=Letters()).log


def load(recipe: Path) -> Any:
    from generate.signals.additions import load_additions

    return load_additions(recipe)


def contents(log: Log) -> dict[str, str]:
    """The rows that were added, in their order, and the manifest's record of them without seconds."""
    tables = {
        name: collect(log.scan(name, list(log.columns(name)))).write_csv() for name in ("features", "verifications")
    }
    source = log.manifest.source if log.manifest is not None else {}
    records = {
        section: {
            name: {key: value for key, value in record.items() if key != "wall_clock_s"}
            for name, record in listed.items()
        }
        for section, listed in source.items()
        if section in ("verifiers", "features")
    }
    return tables | {"record": repr(records)}


@pytest.mark.parametrize("places", [1, 2, 7])
def test_rows_are_equal_for_any_number_of_workers(places: int, tmp_path: Path) -> None:
    plain = contents(added(tmp_path / "none", RECIPE))
    pool = ScriptedPool(places, lambda part, attempt: "lost" if part == 2 and attempt == 0 else "done")
    with on_pool(pool):
        log = added(tmp_path / "pool", RECIPE)
    assert len(pool.ended) > 20
    assert validate_log(log).problems == ()
    assert contents(log) == plain


def test_a_run_goes_on_with_workers(tmp_path: Path) -> None:
    """A third of the traces have their rows from one process."""
    plain = added(tmp_path / "none", RECIPE)
    added(tmp_path / "pool", RECIPE, shard=(1, 3))
    with on_pool(ScriptedPool(2)):
        log = added(tmp_path / "pool", RECIPE)
    for name in ("features", "verifications"):
        one, other = (collect(of.scan(name, list(of.columns(name)))).sort(pl.all()) for of in (plain, log))
        assert one.equals(other)


def test_a_run_that_ends_early_leaves_the_log_and_goes_on(tmp_path: Path) -> None:
    """The second block is lost twice; the first has its rows then, and is not made again."""
    make_log(tmp_path / "log")
    recipe = '[[verify]]\nname = "chance"\nkind = "random"\n'
    losing = ScriptedPool(1, lambda part, attempt: "lost" if part == 2 else "done")
    with on_pool(losing), refuses("incomplete", "`chance` of examples `s001` to `s002`"):
        added(tmp_path, recipe)
    assert "chance" not in repr(open_log(tmp_path / "log").manifest)
    pool = ScriptedPool(1)
    with on_pool(pool):
        assert added(tmp_path, recipe).rows("verifications") == 30
    assert sum(pickle.loads(part)[1].height for part in pool.parts[1:]) == 30 - 5  # the first part asks for the model


def test_a_judge_is_asked_by_one_process(tmp_path: Path) -> None:
    with on_pool(ScriptedPool(2)), refuses("unsuitable", "`verify.judge`", "`workers`"):
        added(tmp_path / "pool", JUDGE)
