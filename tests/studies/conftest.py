"""The study of fact checking as a command, and a simulated log of claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from generate.simulation.claims import simulate_claims
from tests.logs import drawn
from thinkback.app import app

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
