"""The study of fact checking as a command, a simulated log of claims, and a study of thinking again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from generate.simulation.claims import simulate_claims
from generate.simulation.recovery import RecoveryModel, _recovery_tables
from replay.studies.kit.report import StudyReport
from replay.studies.recovery.study import DatasetStudy
from tests.logs import drawn
from tests.studies import recovery
from tests.studies.buzz import report, whole_world
from thinkback.app import app
from toolkit.log import Log

QUICK = ("--resamples", "50", "--orders", "2", "--force")


@pytest.fixture
def svg_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures in the one format whose words can be read; another test looks at all formats."""
    monkeypatch.setattr("toolkit.show.document.FORMATS", ("svg",))


@pytest.fixture
def tables_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, where a test looks at tables alone and others draw those of a log with the same gap or with none."""
    monkeypatch.setattr("replay.studies.factcheck.report.figures", lambda studies, width: {})


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(log: object, *options: object) -> Result:
        words = ["study", "factcheck", log, "--out", "out", *QUICK, *options]
        done = CliRunner().invoke(app, [str(word) for word in words], prog_name="thinkback")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return run


claims = drawn(simulate_claims, "claimdecomp", dev=60)


@pytest.fixture(scope="session")
def holed(tmp_path_factory: pytest.TempPathFactory) -> DatasetStudy:
    """600 examples, 120 of them reported; one of these lacks a sample of the vote, another a revision of `long`."""
    tables = _recovery_tables(600, 11, RecoveryModel(votes=3))
    test = tables["examples"].filter(pl.col("split") == "test")["example_id"]
    hole = (pl.col("example_id") == test[0]) & (pl.col("pool") == "votes") & (pl.col("sample_index") == 2)
    tables["traces"] = tables["traces"].filter(~hole)
    return recovery.study(tables, tmp_path_factory.mktemp("holed") / "log")


@pytest.fixture(scope="session")
def unfolding_log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A log of unfolding texts with everything that their study reads."""
    return whole_world(tmp_path_factory.mktemp("buzz") / "log")


@pytest.fixture(scope="session")
def unfolding_report(unfolding_log: Log) -> StudyReport:
    return report(unfolding_log)
