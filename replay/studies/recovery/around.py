"""What the log lacks for the study's tables and figures, with the reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from replay.studies.kit.figures import undrawn
from replay.studies.kit.gaps import Lack
from replay.studies.recovery.figures import FIGURES
from replay.studies.recovery.study import DatasetStudy
from toolkit.errors import listed

LACKING = {
    "tokens": Lack("tokens", "total_tokens", frozenset({
        "action_tokens", "total_tokens", "base_tokens", "finalizer_tokens", "relative", "regret", "best", "on_front",
        "action_tokens_saved", "total_tokens_saved", "action_tokens_minus_cheap", "difference", "per_1000_priced",
    })),
    "seconds": Lack("seconds", "latency_s", frozenset({"mean", "p50", "p95", "p99"})),
    "finalizers": Lack(
        "uses of a finalizer", "finalizers", frozenset({"calls", "finalizers", "calls_avoided", "finalizer_rate"})
    ),
    "truncated": Lack("finish reasons", "truncated", frozenset({"truncated", "truncation_rate"})),
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
