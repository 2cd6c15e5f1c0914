"""Gates beside the cheap one: differences whose limits hold for all gates at once, and what they say of learned ones.

SeVRA's fourth contribution is that a gate on cheap features nearly matches learned ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replay.gatefit.gate_set import CLASSIFIER, GIVEN, TREES
from replay.runs.passes.example_set import resampling_units
from replay.studies.kit.verdicts import Finding, answer_on_loss, answer_on_losses, finding_on_any, findings_sheet
from replay.studies.recovery.study import DatasetStudy
from toolkit.show import IntervalCell

_LEARNED = (TREES, CLASSIFIER, GIVEN)
"""Gates that read more than cheap features, or are no linear function of them."""


def gaps_to_cheap_gates(study: DatasetStudy, metric: str) -> Mapping[str, tuple[IntervalCell, float | None]]:
    """Returns each gate's metric minus that of its action's cheap gate, and the p-value, by policy; limits hold for
    all gates at once.
    """
    pairs = [(gate.policy, study.roles.cheap_gate(gate.action)) for gate in study.gates]
    pairs = [(gate, cheap) for gate, cheap in pairs if cheap != gate and cheap in study.policies]
    known = set(study.result.summary.filter(metric=metric)["metric"])
    rows = study.result.summariser.joint_differences(metric, pairs).iter_rows() if known else ()
    return {gate: (IntervalCell(*ends), p_value) for gate, _, *ends, p_value in rows}


def findings(study: DatasetStudy) -> Iterator[Finding]:
    """Answers, for every action with a cheap gate and learned ones, whether a learned gate beats the cheap one by more
    than the margin.
    """
    gained, margin = gaps_to_cheap_gates(study, "accuracy"), study.setting.margin
    units = resampling_units(study.result.examples).n_unique()
    points = f"{100 * margin:g} point{'' if margin == 0.01 else 's'}"
    for action in study.roles.actions:
        learned = {
            gate.label: gained[gate.policy][0]
            for gate in study.gates
            if gate.action == action and gate.part in _LEARNED and gate.policy in gained
        }
        if not learned:
            continue
        scaled = {name: gap.scaled(100) for name, gap in learned.items()}
        yield finding_on_any(f"does a learned gate of `{action}` beat the cheap one", scaled, "accuracy")
        answer = answer_on_losses(answer_on_loss(gap.reversed(), margin, units) for gap in learned.values())
        largest = max(learned, key=lambda name: learned[name].high or learned[name].estimate)
        question = f"does the cheap gate of `{action}` lose more than {points} to a learned one"
        yield Finding(question, answer, scaled[largest].reversed(), decided_by=f"accuracy, against {largest}")


VERDICTS = findings_sheet(
    findings,
    ("The limits hold for all gates of a data set at once. Learned gates: boosted trees, classifiers, and given files. "
     "The cheap gate loses no more than the margin where the limits of all learned gates rule out more.",),
    "dataset",
)  # fmt: skip
