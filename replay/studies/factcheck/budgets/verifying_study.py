"""What a study of verifying methods finds on one data set: its runs, budgets, sweeps of settings, and cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replay.analyses.budgets.wall_clock import WallClock
from replay.analyses.report.verifier_calibration import VerifierCalibration
from replay.analyses.tune.fitted import SettingSweep
from replay.studies.factcheck.budgets.fixed_budgets import VerifierBudgets
from replay.studies.factcheck.methods.cases import Cases
from replay.studies.factcheck.methods.methods import SURROGATE, Methods
from replay.studies.factcheck.methods.variants import Variants
from replay.studies.factcheck.methods.verifying import VerifyingSetting
from toolkit.notes import Note


@dataclass(frozen=True)
class VerifyingStudy:
    """Results on one data set of a log. `name` is the log's, and the data set's where there are several."""

    name: str
    dataset: str
    simulated: bool
    labels: tuple[str, ...]
    setting: VerifyingSetting
    others: tuple[str, ...]  # verifiers that the other one may be
    main: Methods
    other: Methods
    caps: Mapping[int, Methods]
    averaged: Methods  # over random orders of the pool
    budgets: VerifierBudgets
    sensitivity: SettingSweep
    surrogate_keys: SettingSweep
    variants: Variants
    calibration: tuple[VerifierCalibration, ...]
    cases: Cases
    wall: WallClock
    features_note: str = ""  # where the surrogate does without some of the features that it might read
    notes: tuple[Note, ...] = ()

    @property
    def surrogate_s(self) -> float | None:
        """Seconds per example that replay spent on the surrogate."""
        spent = {} if self.main.result is None else self.main.result.provenance["surrogate_s_per_example"]
        return spent.get(SURROGATE)

    @property
    def left_out(self) -> dict[str, Mapping[str, str]]:
        """Examples that each comparison leaves out, with the reason."""
        runs = {"main": self.main, f"verifier {self.setting.other_verifier}": self.other}
        runs |= {f"cap {cap}": run for cap, run in self.caps.items()}
        found = {name: run.result.excluded for name, run in runs.items() if run.result is not None}
        return {**found, **self.budgets.excluded}
