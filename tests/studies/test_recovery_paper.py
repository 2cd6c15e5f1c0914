"""The tables of the study on thinking again in LaTeX: nothing is left out and every row fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from generate.simulation.recovery import simulate_recovery
from tests.show.whole import assert_paper
from thinkback.app import app


@pytest.mark.slow
def test_every_table_fits_a_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.studies.recovery.report.draw_figures", lambda *_: {})  # no figure is looked at
    simulate_recovery(tmp_path / "log", examples=120, seed=1)
    out = tmp_path / "out"
    words = ["study", "recovery", tmp_path / "log", "--out", out, "--resamples", "20"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert_paper(out)
