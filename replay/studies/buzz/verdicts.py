"""The study's questions, each answered from paired intervals that hold for all that a question is asked of at once.

Intervals are over texts: a log has one run of each model, so what another run would give is not in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from replay.studies.buzz.acts import contrast
from replay.studies.buzz.claims import ALL_VERDICTS, SPURIOUS
from replay.studies.buzz.study import NO_REVISION, ONE_ROUND, PAPER, BuzzStudy
from replay.studies.buzz.systems import NO_FILTER, ONE_SHOT, WITHOUT_PART, System
from replay.studies.kit.cells import interval_cell
from replay.studies.kit.runs import differences_of_runs
from replay.studies.kit.verdicts import (
    Answer,
    Finding,
    answer_on_loss,
    answer_on_losses,
    finding_on_all,
    finding_on_any,
    findings_sheet,
)
from toolkit.show import IntervalCell

ACCURACY = "accuracy"
Column = np.ndarray
DENSE, SPARSE = "dense", "sparse"


def findings(study: BuzzStudy) -> tuple[Finding, ...]:
    """Answers every question that the log can serve, and says of the others what they need."""
    parts = _on_baselines, _on_parts, _on_rules, _on_acting
    return study.once("findings", lambda: tuple(one for part in parts for one in part(study)))


def baseline_pairs(study: BuzzStudy) -> dict[str, tuple[System, System]]:
    """Returns the main method and the baseline of each comparison, by a name: the best on dev of each backbone, without
    dev every one.
    """
    pairs: dict[str, tuple[System, System]] = {}
    for group in study.systems.groups:
        main = study.systems.listening(group)
        if main is not None and study.run.has(main.name):
            pairs |= {other.name: (main, other) for other in study.baselines(group)}
    return pairs


def _gains(study: BuzzStudy) -> dict[str, Column]:
    """How much more right the main method is than each baseline on each text (E,), by the baseline's name."""
    return {
        name: study.acts(one.name).right - study.acts(other.name).right
        for name, (one, other) in baseline_pairs(study).items()
    }


def _zero(values: Column) -> Column:
    return np.zeros(len(values))


def spurious_pair(study: BuzzStudy) -> dict[str, tuple[Column, Column]]:
    """Returns whether each text (E,) has a spurious refutation of the main method and of the pool beside it, by that
    one's name; empty where there is none, or no claim is compared with the error.
    """
    main, other = study.systems.main, study.other
    if other is None or not study.run.has(main.name) or not study.claims(main).looked.any():
        return {}
    one, beside = (study.claims(each).errors_by_kind(study.acts(each.name)) for each in (main, other.system))
    return {other.name: (one[SPURIOUS], beside[SPURIOUS])}


def _on_baselines(study: BuzzStudy) -> Iterator[Finding]:
    pairs, main = baseline_pairs(study), study.systems.main.method
    needs = "it needs a pool of verdicts on whole texts"
    cells = study.run.differences(ACCURACY, [(one.name, other.name) for one, other in pairs.values()], 100)
    named = {name: cells[pair] for name, (one, other) in pairs.items() if (pair := (one.name, other.name)) in cells}
    yield finding_on_all(
        f"is {main} more accurate than verdicts on texts", named, f"accuracy of {main} minus {{}}", needs
    )
    alarms = {
        name: (study.acts(one.name).false_alarm, study.acts(other.name).false_alarm)
        for name, (one, other) in pairs.items()
    }
    yield finding_on_all(
        f"does {main} refute more texts without an error than verdicts on texts", study.gaps(alarms),
        f"false alarms of {main} minus {{}}",
        needs if not alarms or (study.texts.error == 0).any() else "it needs texts without an error",
    )  # fmt: skip
    yield finding_on_any(
        f"does {main} make more spurious refutations than another pool of checks", study.gaps(spurious_pair(study)),
        f"spurious refutations of {main} minus {{}}", "it needs a second pool of checks, and `matches_error`",
    )  # fmt: skip
    gains = _gains(study)
    by_group = {other.group: other for _, other in pairs.values()}  # on dev one is chosen of each backbone
    accuracy = {group: at for group in by_group if (at := study.accuracy_on_dev(group)) is not None}
    order = sorted(accuracy, key=lambda group: accuracy[group])
    weaker = {}
    if len(order) > 1:
        low, high = by_group[order[0]], by_group[order[-1]]
        weaker = study.gaps({f"{low.backbone} minus that by {high.backbone}": (gains[low.name], gains[high.name])})
    yield finding_on_any(
        f"is the gain of {main} larger on the weaker backbone", weaker, "gain by {}",
        "it needs whole-text verdicts and checks by two backbones, and dev, which says what is weaker",
    )  # fmt: skip
    dense, sparse = density_groups(study)
    by_density = {name: contrast(gain, dense, sparse) for name, gain in gains.items()}
    yield finding_on_any(
        f"is the gain of {main} larger on dense texts",
        study.gaps({name: (values, _zero(values)) for name, values in by_density.items()}),
        "gain over {} on dense minus that on sparse texts", f"{needs}, and texts of two densities",
    )  # fmt: skip


def density_groups(study: BuzzStudy) -> tuple[Column, Column]:
    """Returns the dense and the sparse texts (E,) bool: by the column `density`, else by whether the main method made
    more claims to a hundred words than of half of the texts.
    """
    groups = study.texts.groups("density")
    if DENSE in groups and SPARSE in groups:
        return groups[DENSE], groups[SPARSE]
    density = study.claims(study.systems.main).density()
    if np.isnan(density).all():
        return density > 0, density > 0
    middle = np.nanmedian(density)
    return density > middle, density <= middle


def _on_parts(study: BuzzStudy) -> Iterator[Finding]:
    """Answers what each part of the main method is worth."""
    main, groups, method = study.systems.main.name, study.systems.groups, study.systems.main.method
    unlike = f"the system is itself without a part: {method}" if method in WITHOUT_PART else ""
    coverage = {}
    for group in groups:
        one, other = study.systems.listening(group), study.systems.of(ONE_SHOT, group)
        if one is not None and other is not None and not unlike and study.run.has(one.name, other.name):
            sides = [study.claims(each).names_error(stream=True) for each in (one, other)]
            coverage[other.name] = sides[0], sides[1]
    yield finding_on_any(
        "does extracting claim by claim name more errors than one reply", study.gaps(coverage),
        "errors named claim by claim minus {}",
        unlike or "it needs pools of both extractors and `matches_error`",
    )  # fmt: skip
    pairs = {one.label: study.part_pairs[one.name] for one in study.variants if one.name in study.part_pairs}
    parts = {
        ONE_SHOT: ("does extracting claim by claim", unlike or "it needs a pool of one reply"),
        NO_FILTER: ("does the filter", unlike or "it needs a pool without the filter"),
        NO_REVISION: ("do revisions", "it needs rows of revisions"),
        ONE_ROUND: ("do further rounds", "it needs claims of several rounds"),
    }
    cells = differences_of_runs(
        ACCURACY, {pair: study.run_of(pair[1]) for label, pair in pairs.items() if label in parts}, 100
    )
    for label, (question, needs) in parts.items():
        pair = pairs.get(label, ("", ""))
        there, whole = {label: cells[pair]} if pair in cells else {}, "the whole" if pair[0] == main else pair[0]
        yield finding_on_any(f"{question} make {method} more accurate", there, f"accuracy of {whole} minus {{}}", needs)
    hops = study.texts.groups("hops")
    further = {}
    if len(hops) > 1 and study.one_round_run.has(ONE_ROUND):
        fewest, most = (pick(hops, key=float) for pick in (min, max))
        gain = study.acts(main).right - study.acts(ONE_ROUND).right
        values = contrast(gain, hops[most], hops[fewest])
        further = study.gaps({f"{most} minus that at {fewest}": (values, _zero(values))})
    yield finding_on_any(
        "do further rounds help more where claims need more passages", further, "gain by further rounds at hops {}",
        "it needs `hops` of examples" if len(hops) < 2 else parts[ONE_ROUND][1],
    )  # fmt: skip


def _on_rules(study: BuzzStudy) -> Iterator[Finding]:
    """Answers which rules of extraction and revision are best, and whether a threshold helps."""
    margin, chosen = study.setting.margin, study.pair_choice.name
    rivals = {(PAPER, name): study.run_of_pair(name) for name in study.pair_names if study.differs_from_paper(name)}
    points = f"{100 * margin:g} point{'' if margin == 0.01 else 's'}"
    question = f"is {PAPER} as good as every other pair, within {points}"
    cells = differences_of_runs(ACCURACY, rivals, 100)
    yield _finding_on_losses(question, {name: cell for (_, name), cell in cells.items()}, margin, study)
    better = {}
    if chosen not in (None, PAPER):
        better = study.run_of_pair(chosen).differences(ACCURACY, [(chosen, PAPER)], 100)
    needs = "no dev split" if chosen is None else f"dev chooses {PAPER} {study.pair_choice.among}"
    yield finding_on_any(
        f"does the pair chosen on dev beat {PAPER}", {str(chosen): cell for cell in better.values()},
        f"accuracy with {{}} minus that with {PAPER}", needs,
    )  # fmt: skip
    threshold = study.learnt_threshold
    names = study.swept_names("confidence")
    gaps: Mapping[str, IntervalCell] = {}
    if threshold and threshold in names:
        pair = names[threshold], names[0.0]
        gaps = {f"{threshold:g}": cell for cell in study.sweep.differences(ACCURACY, [pair], 100).values()}
    lacking = "no dev split" if study.has_confidences else "it needs `confidence` of checks"
    needs = lacking if threshold is None else f"dev chooses no threshold {study.threshold_choice.among}"
    yield finding_on_any(
        f"does a threshold learnt on dev make {study.systems.main.method} more accurate", gaps,
        "accuracy with refutations from {} on minus that with all", needs,
    )  # fmt: skip
    errors = {
        name: cell
        for name, one in study.confidences
        if name == ALL_VERDICTS and (cell := interval_cell(one.calibration.ece, 100)) is not None
    }  # fmt: skip
    yield finding_on_any(
        "are confidences off by more than luck", errors, "calibration error of {}",
        "it needs confidences from 0 to 1, and a label of every supported and refuted claim with one",
    )  # fmt: skip


def _finding_on_losses(question: str, cells: Mapping[str, IntervalCell], margin: float, study: BuzzStudy) -> Finding:
    if not cells:
        return Finding(question, Answer.UNASKED, why="it needs rows of revisions, or units of claims, for other rules")
    units = {name: len(set(study.run_of_pair(name).unit.tolist())) for name in cells}
    losses = {name: answer_on_loss(cell.scaled(0.01), margin, units[name]) for name, cell in cells.items()}
    loses = answer_on_losses(losses.values())
    worst = min(cells, key=lambda name: cells[name].estimate)
    answer = {Answer.YES: Answer.NO, Answer.NO: Answer.YES}.get(loses, loses)
    return Finding(
        question, answer, cells[worst].reversed(), decided_by=f"accuracy with {worst} minus that with {PAPER}"
    )


def _on_acting(study: BuzzStudy) -> Iterator[Finding]:
    """Answers when it acts beside people."""
    people, acts, main = study.people, study.main_acts, study.systems.main.method
    needs = timing = "it needs recorded people"
    right, sooner = {}, {}
    if people is not None and acts is not None:
        correct = np.where(study.texts.error == 1, acts.finds, acts.right)
        right = study.gaps({"anyone of a group": (correct, people.any), "a single person": (correct, people.share)})
        sooner = study.gaps({main: (people.deviation, acts.deviation)}, rate=False)
        timing = "it needs `gold_position` and `length` of texts whose error both find"
    yield finding_on_any(
        f"is {main} right more often than people", right, f"share right of {main} minus that of {{}}", needs
    )
    yield finding_on_any(
        f"does {main} act sooner than people", sooner, "Δ of the earliest right person minus that of {}", timing
    )


def timed_pairs(names: Sequence[str], study: BuzzStudy) -> dict[str, tuple[Column, Column]]:
    """Returns Δ of methods and of the main one (E,), by the methods' names: where both found the error, beside verdicts
    on texts where both acted on one for any reason.
    """
    main, of_texts = study.main_acts, {one.name for one in study.systems.every if not one.checks}
    if main is None:
        return {}
    sides = {name: (study.acts(name), main) for name in names}
    return {
        name: (one.deviation_of_any, other.deviation_of_any) if name in of_texts else (one.deviation, other.deviation)
        for name, (one, other) in sides.items()
    }


VERDICTS = findings_sheet(
    findings,
    ("Differences are in points. Limits hold at once for all that a question is asked of; those of a table, for all "
     "its rows (of a method in `by_deviation`): the same difference may have others there. Beside verdicts on texts it "
     "is yes where all are above 0, else where some are and none is below. A question with a margin: yes where the "
     "limits rule out a larger loss.",
     "Intervals are over texts, not over runs of the models: a log has one run."),
    "data set",
)  # fmt: skip
