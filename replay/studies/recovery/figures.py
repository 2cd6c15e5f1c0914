"""The study's figures: what each shows of a data set, and how it is drawn."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from replay.studies.kit.figures import Figures, StudyFigure, undrawn
from replay.studies.recovery.around import LACKING
from replay.studies.recovery.frontiers import frontier_points
from replay.studies.recovery.gates import GATE_FIGURES
from replay.studies.recovery.rows import StudyPolicy, headline
from replay.studies.recovery.study import DatasetStudy
from toolkit.errors import listed
from toolkit.show import frontier, outcomes_figure


def _costs(study: DatasetStudy) -> Collection[Any]:
    """Every policy of the main table and the oracles, in tokens and accuracy."""
    diagnostic = {policy.name for policy in study.result.policies if policy.diagnostic}
    shown = [*headline(study), *(StudyPolicy(study, name) for name in study.served(study.named.oracles))]
    cells = {one.policy: (one.cell("total_tokens"), one.cell("accuracy")) for one in shown}
    return list(frontier_points(cells, study.named.base, diagnostic).values())


def _outcomes(study: DatasetStudy) -> Collection[Any]:
    """Fixes and flips of every policy that revises."""
    named = study.named
    shown = study.served([*named.always.values(), *named.selective.values(), *named.unfitted, *named.samples])
    cells = [(name, *(study.cell(name, metric) for metric in ("fix_rate", "flip_rate"))) for name in shown]
    return [bar for bar in cells if None not in bar]


FIGURES: Figures = {
    "cost_accuracy": StudyFigure(
        "Cost and accuracy", _costs, frontier, "no policy's tokens are logged throughout"
    ),
    "fixes_and_flips": StudyFigure(
        "Fixes and flips", _outcomes, outcomes_figure, "no policy that revises was served"
    ),
    **GATE_FIGURES,
}  # fmt: skip


def missing_figures(study: DatasetStudy, drawn: Collection[str]) -> Iterator[str]:
    """Figures of a data set that are not drawn, and what others lack, with the reason."""
    yield from undrawn(FIGURES, study, drawn)
    named = study.named
    shown = {named.base, *named.budgets.values(), *named.always.values(), *named.selective.values()}
    shown |= {*named.unfitted, *named.samples, *named.oracles}
    without = [policy for policy in LACKING["tokens"].policies(study.result) if policy in shown]
    lacks = [
        (bool(without), "cost_accuracy", f"{listed(without)}: their tokens are not logged throughout"),
        (bool({named.base, named.primary} & {*without}), "threshold_sweep",
         "tokens, which are not logged throughout"),
        ("flips_among" not in drawn, "threshold_sweep", "flips: there are none at any threshold"),
    ]  # fmt: skip
    for lacking, figure, what in lacks:
        if lacking and figure in drawn:
            yield f"{study.dataset}: figure `{figure}` is without {what}"
