"""What every table of the study has around it, and what cannot be shown on a log, with the reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from replay.studies.kit.cells import warned
from replay.studies.kit.gaps import Lack, gaps_of
from replay.studies.kit.layout import Surroundings
from replay.studies.recovery.policies import Roles
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
NO_GATE = "no gate was fitted for the primary action"
FIGURES_OF = {
    "cost_accuracy": "no policy's tokens are logged throughout",
    "fixes_and_flips": "no policy that revises was served",
    "threshold_sweep": NO_GATE,
    "flips_among": NO_GATE,
    "calibration": "no gate was fitted whose scores are probabilities",
}
"""Why a figure cannot be drawn."""


def surroundings(studies: Sequence[DatasetStudy]) -> Surroundings[DatasetStudy]:
    """Of the tables of these data sets."""
    told = [f"{one.dataset}: {one.result.statistics.n:,} examples" for one in studies]
    made = studies[0].result.provenance
    drawn = f"{100 * made['level']:g} % intervals, {made['resamples']:,} paired resamples, seed {made['seed']}."
    counted = f"{'; '.join(told)}. {drawn}"
    return Surroundings(
        simulated=any(one.result.simulated for one in studies),
        dataset="dataset",
        above=lambda sheet, parts: [told for one in parts for told in warned(one.dataset, one.result, len(parts) == 1)],
        below=lambda sheet, parts, shown: [counted],
        gaps=lambda sheet, parts: gaps_of(LACKING.values(), {part.dataset: part.result for part in parts}),
    )


def missing_figures(study: DatasetStudy, drawn: Collection[str]) -> Iterator[str]:
    """Figures of a data set that are not drawn, and what others lack, with the reason."""
    harmless = {"flips_among": "the primary gate flips nothing at any threshold"} if study.band is not None else {}
    for figure, why in {**FIGURES_OF, **harmless}.items():
        if figure not in drawn:
            yield f"{study.dataset}: no figure `{figure}`: {why}"
    named = study.named
    shown = {named.base, *named.budgets.values(), *named.always.values(), *named.selective.values()}
    shown |= {*named.unfitted, *named.samples, *named.oracles}
    without = [policy for policy in LACKING["tokens"].policies(study.result) if policy in shown]
    if without and "cost_accuracy" in drawn:
        names = listed(without)
        yield f"{study.dataset}: figure `cost_accuracy` is without {names}: their tokens are not logged throughout"
    if without and "threshold_sweep" in drawn and {named.base, named.primary} & set(without):
        yield f"{study.dataset}: figure `threshold_sweep` is without tokens, which are not logged throughout"
    if "threshold_sweep" in drawn and "flips_among" not in drawn:
        yield f"{study.dataset}: figure `threshold_sweep` is without flips: there are none at any threshold"


def caveats(roles: Roles, rules: bool) -> tuple[str, ...]:
    """Why a verdict may be too good: what was chosen on the very examples that it is reported on.

    `rules`: whether rules without a fit are compared in place of a gate.
    """
    found = []
    if not roles.screened_apart:
        found.append("the actions were screened on the reported examples, because those of `on` could not be used")
    if rules and roles.action not in roles.gates:
        found.append(
            f"no gate for `{roles.action}` was fitted and tuned on other examples, so rules without a fit are "
            "compared, on the reported examples alone"
        )
    if not found:
        return ()
    return (*found, "before relying on the verdict, hold more examples back for `on` and `tune` and ask again")
