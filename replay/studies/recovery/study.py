"""Think again or think longer: the study's runs on each data set of a log (Dip, Zhou and Zhang, SeVRA)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from replay.analyses.recommend.attempts import finalizer_tokens, states
from replay.analyses.recommend.recommend import Recommendation, weigh
from replay.analyses.recommend.repair_examples import RepairExample
from replay.data.conditions import matching, of_dataset
from replay.data.contents import read_contents
from replay.gatefit.gate_set import datasets_of
from replay.policies.toml import PolicyFile
from replay.studies.kit.cells import notes_beyond
from replay.studies.kit.gaps import told_among
from replay.studies.recovery.gated_run import GatedRun, gated_run, repair_cases
from replay.studies.recovery.interventions import (
    ChosenRoles,
    InterventionSetting,
    caveats,
    choose_all,
    with_equal_votes,
)
from replay.studies.recovery.policies import PolicyNames, build_policies
from toolkit.log import Log
from toolkit.notes import Note

UNSHOWN = ("cost", "eur_per_1000", "reduction:truncated")
"""Metrics of a run that no table of the study shows, so that notes on them are left out."""

UNWEIGHED = Recommendation("", (), (), None, ())


@dataclass(frozen=True, eq=False)
class DatasetStudy(GatedRun):
    """Everything that the tables and figures of one data set show."""

    named: PolicyNames
    state: Mapping[str, np.ndarray]  # completed and truncated: bool (N,), in the order of the outcomes
    finalizers: Mapping[str, np.ndarray]  # finalizer tokens (N,) of the base pool and of each action, where logged
    screening: pl.DataFrame
    recommendation: Recommendation = UNWEIGHED
    cases: tuple[RepairExample, ...] = ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the run says of what the study shows."""
        return notes_beyond(self.result, UNSHOWN)

    def caveats(self) -> Iterator[str]:
        """Why the verdict may be too good."""
        return caveats(self.roles, bool(self.served(self.named.unfitted)))


def study_log(log: Log, asked: InterventionSetting) -> tuple[tuple[DatasetStudy, ...], tuple[str, ...]]:
    """Every data set among the examples to report on, each with gates of its own unless pooled; what is missing."""
    matching(log, asked.where, "where")
    chosen = choose_all(log, asked, datasets_of(log, asked.where))
    notes = told_among({name: one.notes for name, one in chosen.items()})
    return tuple(study_dataset(log, one, asked, name) for name, one in chosen.items()), notes


def study_dataset(log: Log, chosen: ChosenRoles, asked: InterventionSetting, dataset: str) -> DatasetStudy:
    """One run on one data set; curves and reports of gates are over the examples that it compares."""
    contents = read_contents(log)
    policies, named = build_policies(chosen.roles, contents)
    rivals = [policy for policy in policies if policy.name in named.interventions]
    roles = with_equal_votes(log, chosen.roles, rivals, of_dataset(asked.where, dataset), asked.settings.seed)
    policies, named = build_policies(roles, contents)
    found = gated_run(log, dataset, PolicyFile(policies, prices=asked.prices), roles, asked)
    ids = found.result.examples["example_id"]
    study = DatasetStudy(
        **vars(found), named=named, state=states(log, roles.base, ids),
        finalizers=finalizer_tokens(log, roles.base, roles.pools, ids), screening=chosen.screening,
    )  # fmt: skip
    return replace(study, recommendation=_recommendation(study), cases=tuple(repair_cases(log, study)))


def _recommendation(study: DatasetStudy) -> Recommendation:
    named = study.named
    parts = {
        "budgets": named.budgets.values(), "selective": [*named.selective.values(), *named.unfitted],
        "actions": named.always.values(), "votes": named.samples,
    }  # fmt: skip
    outcomes = {part: {name: study.values(name) for name in study.served(names)} for part, names in parts.items()}
    return weigh(
        (named.base, study.values(named.base)), **outcomes, margin=study.asked.margin, cluster=study.cluster,
        settings=study.asked.settings,
    )  # fmt: skip
