"""The study's tables: one function per layout, from a data set's results. Shares are fractions until they are shown."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from replay.gatefit.report import FROZEN, HERE
from replay.studies.recovery import published
from replay.studies.recovery.gaps import told_gaps, warnings_of
from replay.studies.recovery.gates import CHEAP
from replay.studies.recovery.study import DatasetStudy
from toolkit.columns import metric_column
from toolkit.show import SIMULATED, Number, NumberWithInterval, ShownInterval, Table, TableColumn
from toolkit.stats import interval, paired_interval, paired_reduction

Studies = Sequence[DatasetStudy]
PERCENT, POINTS, TOKENS = Number(1, 100), NumberWithInterval(2, 100, signed=True), Number(0)
DATASET = TableColumn("data set", key="dataset")
POLICY = TableColumn("policy")


def _headed(metric: str, form: Number | NumberWithInterval) -> TableColumn:
    """A metric's column under the heading that it has everywhere."""
    return TableColumn(metric_column(metric).heading, form, metric)


ACCURACY = _headed("accuracy", NumberWithInterval(1, 100))
PLAIN_ACCURACY = _headed("accuracy", PERCENT)
ACTS_ON = TableColumn("acts on %", PERCENT, "intervention_rate")
CALLS = _headed("calls", Number(2))
TOTAL = TableColumn("total tokens", NumberWithInterval(0), "total_tokens")
PLAIN_TOTAL = TableColumn("total tokens", TOKENS, "total_tokens")
FIXES = _headed("fix_rate", Number(2, 100))
FLIPS = _headed("flip_rate", Number(2, 100))
PUBLISHED = TableColumn("published %", Number(2), "published_accuracy_pct")
PUBLISHED_TOKENS = TableColumn("published tokens", TOKENS, "published_tokens")
ACTION_TOKENS = TableColumn("action tokens", TOKENS, "action_tokens")
PAPER_LIMIT = 4096
"""Token limit of the paper's base attempts."""
PRICES = (0.1, 0.5, 2.0, 10.0)
"""Prices per million tokens of the sensitivity table."""


def layout(
    title: str, columns: Sequence[TableColumn], rows: Sequence[tuple[Any, ...]], study: Studies, *notes: str
) -> Table:
    """A table of the study, with what every one of them must say; why cells are dashes stands beneath.

    Published columns are there where some row has a published number. Columns of plain numbers show the estimates of
    cells with intervals.
    """
    rows = [tuple(_cell(column, value) for column, value in zip(columns, row, strict=True)) for row in rows]
    keys = [column.key or column.name for column in columns]
    empty = {key for i, key in enumerate(keys) if all(row[i] is None for row in rows)}
    dashed = {key for i, key in enumerate(keys) if any(row[i] is None for row in rows)}
    kept = [i for i, key in enumerate(keys) if not (key in empty and key.startswith("published"))]
    simulated = any(one.result.simulated for one in study)
    warned = dict.fromkeys(warning for one in study for warning in warnings_of(one, len(study) == 1))
    told = [f"{one.dataset}: {one.result.statistics.n:,} examples" for one in study]
    made = study[0].result.provenance
    drawn = f"{100 * made['level']:g} % intervals, {made['resamples']:,} paired resamples, seed {made['seed']}."
    counted = f"{'; '.join(told)}. {drawn}"
    return Table(
        title, tuple(columns[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows),
        ((SIMULATED,) if simulated else ()) + tuple(warned), (counted, *notes, *told_gaps(study, dashed)),
    )  # fmt: skip


def _cell(column: TableColumn, value: Any) -> Any:
    plain = isinstance(value, ShownInterval) and not isinstance(column.form, NumberWithInterval)
    return value.estimate if plain else value


def means(study: DatasetStudy, policy: str) -> dict[str, ShownInterval | None]:
    """Every metric of a policy with its interval."""
    frame = study.result.summary.filter(policy=policy).select("metric", "estimate", "low", "high")
    return {metric: ShownInterval.of(numbers) for metric, *numbers in frame.iter_rows()}


def picked(cells: Mapping[str, Any], *names: str) -> Iterator[Any]:
    """Some of the cells or of the published numbers of a row; None for those that are not there."""
    return (cells.get(name) for name in names)


def paired_cell(
    study: DatasetStudy, first: str, second: str, metric: str = "correct", scale: float = 1.0
) -> tuple[ShownInterval | None, float | None]:
    """Difference of the means of two policies times `scale`, with its interval, and its p-value."""
    one, two = study.values(first)[metric], study.values(second)[metric]
    found = paired_interval(one, two, cluster=study.cluster, settings=study.settings)
    return ShownInterval.of((found.difference, found.low, found.high), scale), found.p_value


def number(cells: Mapping[str, ShownInterval | None], metric: str) -> float | None:
    """The estimate of one metric; None where there is none."""
    cell = cells.get(metric)
    return None if cell is None else cell.estimate


def headline(study: DatasetStudy) -> list[tuple[str, str, str]]:
    """(policy, part, what) of the policies of the main table, those that were served."""
    named = study.named
    found = [(named.base, "base", "")]
    for action, policy in named.always.items():
        found += [(policy, "always", action)]
        found += [(named.selective[action], "selective", action)] if action in named.selective else []
    found += [(policy, "budget", limit(study, pool)) for pool, policy in named.budgets.items()]
    found += [(policy, "samples", str(size)) for policy, size in named.samples.items()]
    return [one for one in found if one[0] in study.policies]


def limit(study: DatasetStudy, pool: str) -> str:
    """The token limit of a pool's first attempts; empty where it is not logged, or the base's is not the paper's.

    A budget stands beside a published one only where both limits are the paper's.
    """
    limits = study.roles.limits
    return str(limits.get(pool, "")) if limits.get(study.roles.base) == PAPER_LIMIT else ""


def budget_matched(studies: Studies) -> Table:
    """Accuracy, calls, realised tokens, fixes and flips of every policy (the paper's tables 2, 8 and 9)."""
    rows = []
    for study in studies:
        for policy, part, what in headline(study):
            cells = means(study, policy)
            if part in ("budget", "samples"):  # another first attempt, and no action on the base's
                cells |= {"action_tokens": None, "intervention_rate": None}
            measured = picked(
                cells, "accuracy", "intervention_rate", "calls", "action_tokens", "total_tokens", "finalizers",
                "fix_rate", "flip_rate",
            )  # fmt: skip
            other = picked(
                published.published_policy(study.dataset, part, what), "accuracy_pct", "total_tokens", "flips_pct"
            )
            rows.append((study.dataset, policy, *measured, *other))
    columns = [
        DATASET, POLICY, ACCURACY, ACTS_ON, CALLS, ACTION_TOKENS, TOTAL, TableColumn("finalizers", Number(2)), FIXES,
        FLIPS, PUBLISHED, PUBLISHED_TOKENS, TableColumn("published flips %", Number(2), "published_flips"),
    ]  # fmt: skip
    return layout(
        "Policies at their realised budgets", columns, rows, studies,
        "Rollouts are averaged within an example first. Tokens are those realised, prompts and finalizers included; "
        "accuracy(policy) − accuracy(base) = fixes − flips.",
    )  # fmt: skip


SAVED = "action tokens saved"
COMPARED = {
    "correct": ("accuracy, points", 100.0),
    "flip": ("flips, points", 100.0),
    "total_tokens": ("total tokens", 1.0),
    SAVED: ("action tokens saved %", 100.0),
}
"""What the paired table calls what it compares, and what that is multiplied with."""


def comparisons(study: DatasetStudy) -> list[tuple[str, str, str, str]]:
    """(first, second, metric, the paper's name of the comparison) of the paired table."""
    named, found = study.named, []
    longest = next(reversed(list(named.budgets.values())), "")
    told = {policy: f"base {limit(study, pool)}" for pool, policy in named.budgets.items()}
    for action in sorted(named.selective, key=lambda action: action != study.roles.action):
        gated, always = named.selective[action], named.always[action]
        verify = published.verb(action) or action.replace("_", " ")
        found += [
            (gated, always, "correct", f"accuracy, selective {verify} minus always {verify}"),
            (gated, always, "flip", f"flips, selective {verify} minus always {verify}"),
            (gated, always, SAVED, f"action tokens saved, selective {verify} against always {verify}"),
        ]
        if longest:
            found += [
                (gated, longest, "correct", f"accuracy, selective {verify} minus {told[longest]}"),
                (gated, longest, "total_tokens", f"total tokens, selective {verify} minus {told[longest]}"),
            ]
    ladder = [named.base, *named.budgets.values()]
    for lower, upper in itertools.pairwise(ladder):
        first = lower == named.base
        found.append(
            (upper, lower, "correct", f"accuracy, {told[upper]} minus {'base 4096' if first else told[lower]}")
        )
        found += (
            [(upper, lower, "total_tokens", "")]
            if first
            else [(upper, lower, "flip", ""), (upper, lower, "total_tokens", "")]
        )
    found += [(policy, named.base, "correct", "") for policy in named.samples]
    if named.primary:
        found += [
            (policy, named.primary, metric, "") for policy in named.samples for metric in ("correct", "total_tokens")
        ]
    return [one for one in found if one[0] in study.policies and one[1] in study.policies]


def paired(studies: Studies) -> Table:
    """Paired differences with intervals and p (the paper's table 10)."""
    rows: list[tuple[Any, ...]] = []
    for study in studies:
        for first, second, metric, name in comparisons(study):
            label, scale = COMPARED[metric]
            if metric == SAVED:
                cell, p_value = _saved(study, first, second), None
            else:
                cell, p_value = paired_cell(study, first, second, metric, scale)
            other = published.published_comparison(study.dataset, name)
            theirs = ShownInterval.of(tuple(picked(other, "difference", "ci95_low", "ci95_high")))
            rows.append((study.dataset, first, second, label, cell, p_value, theirs, other.get("p")))
    columns = [
        DATASET, POLICY, TableColumn("minus", key="baseline"), TableColumn("what", key="metric"),
        TableColumn("difference", NumberWithInterval(2, signed=True)), TableColumn("p", Number(4), "p_value"),
        TableColumn("published", NumberWithInterval(2, signed=True)),
        TableColumn("published p", Number(3), "published_p"),
    ]  # fmt: skip
    return layout(
        "Paired comparisons", columns, rows, studies,
        "Each on the same examples and the same resamples; p is two-sided.",
    )  # fmt: skip


def _saved(study: DatasetStudy, first: str, second: str) -> ShownInterval | None:
    """Share of the action tokens that the first saves against the second, in per cent, from resampled means."""
    one, two = (study.values(policy)["action_tokens"] for policy in (first, second))
    if np.isnan(one).any() or np.isnan(two).any():
        return None
    found = paired_reduction(one, two, "action_tokens", cluster=study.cluster, settings=study.settings)
    return ShownInterval.of((found.difference, found.low, found.high), 100)


def gates(studies: Studies) -> Table:
    """Gates beside each other on the reported examples, each paired with the cheap one (the paper's table 3)."""
    rows = []
    for study in studies:
        for gate in study.gates:
            report = study.reports[gate.policy]
            frozen, there = report.rule(FROZEN), report.rule(HERE)
            shown = picked(frozen, "threshold", "accuracy", "intervention_rate", "fix_rate", "flip_rate")
            scores = (getattr(report.calibration, score) for score in ("auroc", "auprc", "brier", "ece"))
            judged = (None if np.isnan(score) else score for score in scores)
            cheap = study.roles.cheap(gate.action)
            alone = cheap == gate.policy or cheap not in study.policies
            gained = (None, None) if alone else paired_cell(study, gate.policy, cheap)
            other = published.published_gate(study.dataset, gate.action) if gate.part == CHEAP else {}
            rows.append((
                study.dataset, gate.action, gate.shown, gate.fitted_on, *shown, *gained, *judged,
                *picked(there, "threshold", "accuracy"), *picked(other, "accuracy_pct", "verify_pct"),
            ))  # fmt: skip
    columns = [
        DATASET, TableColumn("action"), TableColumn("gate"), TableColumn("fitted on", key="fitted_on"),
        TableColumn("threshold", Number(4)), PLAIN_ACCURACY,
        TableColumn("fires %", PERCENT, "intervention_rate"), FIXES, FLIPS,
        TableColumn("minus the cheap gate, points", POINTS, "minus_cheap"), TableColumn("p", Number(4), "p_value"),
        TableColumn("AUROC", Number(3), "auroc"), TableColumn("AUPRC", Number(3), "auprc"),
        TableColumn("Brier", Number(4), "brier"), TableColumn("ECE", Number(4), "ece"),
        TableColumn("threshold chosen here", Number(4), "diagnostic_threshold"),
        TableColumn("its accuracy %", PERCENT, "diagnostic_accuracy"),
        PUBLISHED, TableColumn("published fires %", Number(1), "published_verify_pct"),
    ]  # fmt: skip
    return layout(
        "Gates", columns, rows, studies,
        "Labels are repairs. Fitted on: the data sets whose examples a gate was fitted and its threshold chosen on; a "
        "gate of another data set is frozen. Minus the cheap gate: difference in accuracy, paired. The threshold "
        "chosen here is a diagnostic: it sees the gold of the reported examples.",
    )  # fmt: skip


def subgroups(studies: Studies) -> Table:
    """Accuracy by state of the base attempt (the paper's table 11)."""
    rows: list[tuple[Any, ...]] = []
    for study in studies:
        named = study.named
        shown = [named.base, *named.always.values(), *named.selective.values()]
        for state, on in study.state.items():
            other = published.published_state(study.dataset, state)
            known = {
                named.base: "base_accuracy_pct",
                named.always.get("active_verify"): "always_verify_accuracy_pct",
                named.selective.get("active_verify"): "selective_verify_accuracy_pct",
                named.always.get("continue"): "always_continue_accuracy_pct",
            }
            for policy in shown:
                if policy in study.policies and on.any():
                    found = study.values(policy)
                    cluster = None if study.cluster is None else study.cluster[on]
                    mean = interval(found["correct"][on], cluster=cluster, settings=study.settings)
                    flips = float(found["flip"][on].mean()) if not np.isnan(found["flip"][on]).any() else None
                    cell = ShownInterval.of((mean.estimate, mean.low, mean.high))
                    theirs = other.get(known.get(policy, ""))
                    rows.append((study.dataset, state, int(on.sum()), policy, cell, flips, theirs))
    columns = [
        DATASET, TableColumn("base attempt", key="state"), TableColumn("examples", TOKENS), POLICY, ACCURACY, FLIPS,
        PUBLISHED,
    ]  # fmt: skip
    return layout("By state of the base attempt", columns, rows, studies)


TABLES: dict[str, Callable[[Studies], Table]] = {
    "budget_matched": budget_matched,
    "paired": paired,
    "gates": gates,
    "subgroups": subgroups,
}
