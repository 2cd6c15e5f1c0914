"""Sets of gates to compare: fitted on this data set or another, scores of classifiers, gates of files, and rules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import polars as pl

from replay.data.choice import Choice, UsedRows
from replay.data.conditions import ids_where_or_none, in_dataset
from replay.data.contents import Contents
from replay.gatefit.fit import fit_gate
from replay.policies.gate_file import GateFile, gate_file_text
from replay.policies.gate_models import MODELS
from replay.policies.gates import AllOf, Gate, Threshold
from replay.runs.saved.provenance import json_safe
from toolkit.errors import ThinkbackError, listed
from toolkit.log import Log, collect
from toolkit.show import remark

CHEAP, TREES, CLASSIFIER, RULE, GIVEN, ELSEWHERE = (
    "cheap features", "boosted trees", "classifier", "rule", "gate file", "cheap features of another data set"
)  # fmt: skip
"""Where a gate comes from, as tables name it."""
NO_RULE = "no_rule"
"""Code of a line on a rule that the log cannot serve."""
FIX = re.compile(r"fix[:_](?P<action>.+?)(?::.*)?")
"""The names of verifiers trained to predict an action's repairs: `fix_ACTION`, `fix:ACTION`, `fix:ACTION:…`."""


@dataclass(frozen=True)
class NamedGate:
    """A gate with its name and origin in tables, and the `policy` that acts by it.

    `fitted_on` names the data sets whose examples it was fitted or tuned on, as far as that is known.
    """

    policy: str
    label: str
    part: str
    file: GateFile
    fitted_on: str = ""

    @property
    def action(self) -> str:
        return self.file.action

    @property
    def predicts_probability(self) -> bool:
        """Whether the gate's scores are meant as probabilities of a repair, which may be calibrated."""
        return self.part != RULE

    def record(self) -> dict[str, Any]:
        return {
            "policy": self.policy, "action": self.action, "gate": self.label, "kind": self.part,
            "fitted_on": self.fitted_on, "threshold": json_safe(self.file.threshold), "sha256": self.file.sha256,
        }  # fmt: skip


Scope = tuple[str, Choice]
"""Names of data sets, and the examples of these that gates are fitted and tuned on."""


@dataclass(frozen=True)
class GateFitting:
    """Fits gates on the first of `scopes` with enough examples; `notes` says what could not be fitted."""

    log: Log
    base: str
    pools: Mapping[tuple[str, str], str | None]
    scopes: Sequence[Scope]
    notes: list[str] = field(default_factory=list)

    def fit_named_gate(
        self, action: str, kind: str, features: Sequence[str] = (), label: str = ""
    ) -> tuple[GateFile, str] | None:
        """A gate for an action and the data sets that it was fitted on; None, and a note, without one."""
        text = f"{kind} gate for `{action}`{f' ({label})' if label else ''}"
        refused = ""
        for names, rows in self.scopes:
            on = rows.fitted_on_condition if MODELS[kind].fit is not None else None
            try:
                fitted = fit_gate(
                    self.log, action=action, on=on, tune=rows.chosen.where, base=self.base,
                    pool=self.pools[action, self.base], kind=kind, features=features,
                )  # fmt: skip
            except ThinkbackError as error:
                refused = refused or str(error)
                continue
            if rows is not self.scopes[0][1]:
                why = f"fitted on {names} together, because one data set is not enough: {refused}"
                self.notes.append(remark("gate_of_all", f"{text}: {why}"))
            return replace(fitted.gate, path=f"{kind} gate for {action}"), names
        self.notes.append(remark("no_gate", f"no {text}: {refused}"))
        return None

    def named_gates(
        self, action: str, kind: str, part: str, policy: str, features: Sequence[str] = (), label: str = ""
    ) -> list[NamedGate]:
        """The fitted gate with its name, as a list; empty where it cannot be fitted."""
        result = self.fit_named_gate(action, kind, features, label)
        return [NamedGate(policy, label or part, part, *result)] if result is not None else []


def gates_on_cheap_features(fitting: GateFitting, actions: Collection[str]) -> dict[str, NamedGate]:
    """Action -> the gate on cheap features for it, if it has one."""
    gates = [gate for name in actions for gate in fitting.named_gates(name, "logistic", CHEAP, f"selective {name}")]
    return {gate.action: gate for gate in gates}


def rival_gates(
    fitting: GateFitting, action: str, actions: Collection[str], contents: Contents, rules: Mapping[str, str]
) -> list[NamedGate]:
    """The gates to compare with the cheap ones: boosted trees, classifiers and rules for each action, `action` first.

    `rules` maps names to the feature that each is on; those that the log does not have are left out.
    """

    def label_of(name: str, one: str) -> str:
        return name if one == action else f"{name}: {one}"

    every = sorted(actions, key=lambda one: one != action)
    gates = [
        gate for one in every for gate in fitting.named_gates(one, "trees", TREES, label_of("boosted-trees gate", one))
    ]
    for verifier in sorted(contents.verifiers):
        match = FIX.fullmatch(verifier)
        predicted = match["action"] if match else ""
        if predicted in actions:
            policy = f"selective {predicted}: {verifier}"
            dataset_fitting = replace(fitting, scopes=fitting.scopes[:1])  # a classifier may be one of another data set
            gates += dataset_fitting.named_gates(
                predicted, "score", CLASSIFIER, policy, (f"verifier:{verifier}",), verifier
            )
    for name, feature in rules.items():
        for one in every if feature in contents.features else ():
            gates += fitting.named_gates(one, "score", RULE, label_of(name, one), (f"feature:{feature}",), name)
    return gates


def load_given_gates(
    files: Sequence[GateFile], cheap: Mapping[str, NamedGate]
) -> tuple[dict[str, NamedGate], list[NamedGate]]:
    """Action -> the gate that acts: the first of given files, else the cheap one; and a list of the other gates."""
    gates = dict(cheap)
    others: list[NamedGate] = []
    for number, file in enumerate(files):
        first = all(file.action != earlier.action for earlier in files[:number])
        name = PurePath(file.path).name
        name += f" ({number + 1})" if [PurePath(one.path).name for one in files].count(name) > 1 else ""
        gate = NamedGate(f"selective {file.action}", name, GIVEN, file)
        if not first:
            others.append(replace(gate, policy=f"{gate.policy}: {name}"))
            continue
        gates[file.action] = gate
        if file.action in cheap:
            others.append(replace(cheap[file.action], policy=f"{gate.policy}: {CHEAP}"))
    return gates, others


def gates_of_other_data_set(
    fitting: GateFitting, here: Collection[NamedGate], there: Collection[NamedGate]
) -> list[NamedGate]:
    """The cheap gates of another data set for this one's actions, on the features that both data sets have.

    `fitting` is that of the other data set.
    """
    by_action = {gate.action: gate for gate in here if gate.part == CHEAP}
    gates = []
    for gate in there:
        at = by_action.get(gate.action)
        if gate.part != CHEAP or at is None or gate.fitted_on == at.fitted_on:
            continue
        common = [feature for feature in gate.file.features if feature in at.file.features]
        policy, label = f"{at.policy}: of {gate.fitted_on}", f"{CHEAP} of {gate.fitted_on}"
        if len(common) == len(gate.file.features):
            gates.append(replace(gate, policy=policy, label=label, part=ELSEWHERE))
        elif common:
            names = [feature.name if feature.source == "signal" else str(feature) for feature in common]
            gates += fitting.named_gates(gate.action, "logistic", ELSEWHERE, policy, names, label)
    return gates


def fitting_scopes(log: Log, rows: Choice, dataset: str | None) -> list[Scope]:
    """A data set's own examples, if it has any to fit and to tune on; then those of all data sets."""
    on, tune = str(rows.fitted_on_condition), str(rows.chosen.where)
    fitted, tuned = dataset_names(log, on), dataset_names(log, tune)
    names = ", ".join(fitted or tuned)
    if dataset is None or dataset not in fitted or dataset not in tuned or names == dataset:
        return [(names, rows)]
    dataset_rows = replace(rows, chosen=UsedRows(in_dataset(tune, dataset)), fitted=UsedRows(in_dataset(on, dataset)))
    return [(dataset, dataset_rows), (names, rows)]


def dataset_names(log: Log, condition: str) -> list[str]:
    """The data sets of the examples of a condition; empty where it holds on none."""
    ids = ids_where_or_none(log, condition)
    scan = log.scan("examples", ["example_id", "dataset"]).filter(pl.col("example_id").is_in(ids.implode()))
    return collect(scan.select(pl.col("dataset").unique().sort()), log)["dataset"].to_list()


def gate_texts(acting: Mapping[str, Mapping[str, NamedGate]]) -> dict[str, str]:
    """File name -> the text of a gate file, for the gates of data sets by action; equal gates are one file."""
    by_action: dict[str, dict[str, str]] = {}
    for dataset, gates in acting.items():
        for action, gate in gates.items():
            by_action.setdefault(action, {})[dataset] = gate_file_text(gate.file.content)
    return {
        f"gate-{action}.json" if len(set(texts.values())) == 1 else f"gate-{dataset}-{action}.json": text
        for action, texts in by_action.items()
        for dataset, text in texts.items()
    }


NEAR = 0.9
"""The share of the token limit from which an attempt is near the limit."""
TRUNCATION, NEAR_LIMIT, COMPLETED = "truncation only", "near limit", "completed only"
RULES = {
    TRUNCATION: "where the base attempt was cut off",
    NEAR_LIMIT: f"where the base attempt used {100 * NEAR:g} % of its token limit, or a finalizer",
    COMPLETED: "where the fitted gate fires and the base attempt was not cut off",
}
"""Rules without a model, and the fitted gate on completed attempts alone: where each acts, in words."""
FEATURE_RULES = {"difficulty": "difficulty", "verification need": "verification_need"}
"""Routing rules on one feature, for logs that have it."""
READS = {
    TRUNCATION: ("finish_reason",), NEAR_LIMIT: ("completion_tokens", "max_tokens", "finalizer_used"),
    COMPLETED: ("finish_reason",),
}  # fmt: skip
"""Rule -> the columns of traces that it reads."""


def truncation_gate(below: bool = False) -> Threshold:
    """A gate that fires where an attempt was truncated or, with `below`, where it was not."""
    return Threshold(signal="truncated", below=1.0) if below else Threshold(signal="truncated", at_least=1.0)


def rule_label(rule: str) -> str:
    """The name of a rule in tables."""
    return f"{rule} ({NEAR:g})" if rule == NEAR_LIMIT else rule


def rule_gates(contents: Contents, fitted: GateFile | None) -> dict[str, Gate]:
    """The rules for which a log has the columns, beside the fitted gate, if there is one."""
    near = Threshold(signal="near_limit", fraction=NEAR, at_least=1.0)
    gates: dict[str, Gate] = {TRUNCATION: truncation_gate(), NEAR_LIMIT: near}
    if fitted is not None:
        gates[COMPLETED] = AllOf((Threshold(file=fitted), truncation_gate(below=True)))
    return {rule: gate for rule, gate in gates.items() if set(READS[rule]) <= set(contents.trace_columns)}


def missing_rules(contents: Contents, features: Mapping[str, str], action: str, fitted: bool) -> Iterator[str]:
    """The rules for which a log lacks something, each with the reason; `features` are those of rules on one feature.

    `fitted`: whether there is a gate for the action.
    """
    for rule, columns in READS.items():
        lacks = [name for name in columns if name not in contents.trace_columns]
        if lacks:
            text = f"no rule `{rule_label(rule)}`: the log has no column {listed(lacks)} of traces"
            yield remark(NO_RULE, text)
        elif rule == COMPLETED and not fitted:
            yield remark(NO_RULE, f"no rule `{rule_label(rule)}`: no gate for `{action}` is there")
    for rule, feature in features.items():
        if feature not in contents.features:
            yield remark(NO_RULE, f"no rule `{rule}`: the log has no feature `{feature}`")
