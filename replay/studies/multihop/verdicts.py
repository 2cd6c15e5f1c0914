"""The study's questions, each answered from paired intervals that hold for all pools or readings at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter

from replay.studies.kit.runs import Pair, joint_cells
from replay.studies.kit.verdicts import (
    Answer,
    Finding,
    answer_on_loss,
    answer_on_losses,
    finding_on_any,
    findings_sheet,
    is_above,
)
from replay.studies.multihop.chains import CHAINS, DIRECT, FAIR_LIKE, NOT_REWARDED, SINGLE, Answers
from replay.studies.multihop.retrieval import (
    BOTH_RANKED,
    ENTROPY,
    EXPLORED,
    FAIR,
    MEASURE,
    PLACEBO,
    PLAIN,
    SCORED,
    SUNAR,
    Retrieval,
)
from replay.studies.multihop.selection import (
    BEST,
    BOUND,
    IDEAL,
    LISTWISE,
    MAJORITY,
    PRUNED,
    SINGLE_SHOT,
    Selection,
    Way,
)
from replay.studies.multihop.verifiers import DECODER, ENCODER, PROMPTED, REASONER
from toolkit.show import IntervalCell, NumberWithInterval
from toolkit.stats import Settings

RECALL = "recall@10"
ACCURACY = "accuracy"


def findings_of(
    retrieval: Retrieval, answers: Answers, selection: Selection, roles: Mapping[str, str], margin: float,
    settings: Settings,
) -> Iterator[Finding]:  # fmt: skip
    """Answers every question that the log can serve, and says of the others what they need. `roles`: verifiers by
    role; `margin`: the loss of accuracy that is tolerated.
    """
    yield from _findings_on_retrieval(retrieval)
    yield finding_on_any(
        "does rewarded evidence give more right answers", _evidence_gaps(answers, settings),
        "cover", "the question needs answers from both evidences",
    )  # fmt: skip
    yield from _findings_on_selection(selection, margin)
    yield from _findings_on_verifiers(selection, roles, margin)


def _findings_on_retrieval(retrieval: Retrieval) -> Iterator[Finding]:
    needs = "the question needs rounds with gold documents"
    needs_pool = "the question needs a pool of rounds explored by rewarded scores"
    for question, names, against, needed in (
        ("does rewarding agreement rank more gold documents first", retrieval.readings, PLAIN, needs),
        ("does rewarding agreement do more than rewarding each first round", retrieval.readings, PLACEBO, needs),
        ("does reward beat penalty", retrieval.readings, SUNAR, needs),
        ("does exploring by rewarded scores find more", [EXPLORED], BOTH_RANKED, needs_pool),
        ("does entropy of answers serve better than agreement", [ENTROPY], FAIR, needs),
        ("does a verifier's feedback help the frontier", [SCORED], FAIR, "the question needs `answer_scores`"),
    ):
        gaps = retrieval.run.differences(MEASURE, [(name, against) for name in names], 100)
        by_name = {name: gap for (name, _), gap in gaps.items()}
        yield finding_on_any(question, by_name, f"{RECALL} minus {against}", needed)


def _evidence_gaps(answers: Answers, settings: Settings) -> dict[str, IntervalCell]:
    """Returns how far answers from rewarded evidence are above those from other evidence, by reader and form."""
    pairs = {}
    for pool in answers.of_form(DIRECT, SINGLE, CHAINS):
        rivals = [answers.pool(name, pool.reader, pool.form) for name in NOT_REWARDED if pool.evidence in FAIR_LIKE]
        for other in filter(None, rivals):
            pairs[f"{pool.name} minus {other.name}"] = answers.means(pool, "cover"), answers.means(other, "cover")
    return joint_cells(pairs, answers.unit, settings)


def _accuracy_gaps(selection: Selection, pairs: Mapping[str, tuple[Way, Way]]) -> dict[str, IntervalCell]:
    names: dict[str, Pair] = {label: (one.name, other.name) for label, (one, other) in pairs.items()}
    cells = selection.run.differences("accuracy", names.values(), 100)
    return {label: cells[pair] for label, pair in names.items() if pair in cells}


def _ways(selection: Selection, first: tuple[str, ...], second: str) -> dict[str, tuple[Way, Way]]:
    return {label: (one, other) for label, one, other in selection.pairs(first, second)}


def _findings_on_selection(selection: Selection, margin: float) -> Iterator[Finding]:
    chains, scores = "the question needs several chains", "the question needs scores of several chains"
    more = _accuracy_gaps(selection, _ways(selection, (MAJORITY,), SINGLE_SHOT))
    yield finding_on_any("do more chains beat one", more, f"{ACCURACY} minus {SINGLE_SHOT}", chains)
    best = _accuracy_gaps(selection, _ways(selection, (BEST, LISTWISE), MAJORITY))
    yield finding_on_any("does choosing by a verifier beat the vote", best, f"{ACCURACY} minus {MAJORITY}", scores)
    bounds = {way.pool.reader: way for way in selection.replayed if way.selector == BOUND}
    capped = {
        way.pool.name: (bounds[way.pool.reader], way)
        for way in selection.replayed
        if way.selector == IDEAL and way.pool.reader in bounds
    }
    caps = _accuracy_gaps(selection, capped)
    needs = "the question needs chains of gold evidence and of retrieved"
    yield finding_on_any("does evidence cap reasoning", caps, "any chain right, gold minus retrieved evidence", needs)
    pruned = _accuracy_gaps(selection, _ways(selection, (PRUNED,), BEST))
    yield _finding_on_loss(
        selection, margin, "is pruning of chains as good as all of them", pruned, "pruned minus all", scores
    )


def _finding_on_loss(
    selection: Selection, margin: float, question: str, gaps: Mapping[str, IntervalCell], against: str, needs: str
) -> Finding:
    """Answers yes where no pool loses more than the margin, no where some pool does."""
    question = f"{question}, within {100 * margin:g} points"
    if not gaps:
        return Finding(question, Answer.UNASKED, why=needs)
    units = len(set(selection.run.unit.tolist()))
    losses = {name: answer_on_loss(gap.scaled(0.01), margin, units) for name, gap in gaps.items()}
    loses = answer_on_losses(losses.values())
    lost = [name for name, one in losses.items() if one is Answer.YES]
    decider = lost[0] if lost else min(gaps, key=lambda name: gaps[name].estimate)
    answer = {Answer.YES: Answer.NO, Answer.NO: Answer.YES}.get(loses, loses)
    return Finding(question, answer, gaps[decider], decided_by=f"{ACCURACY}, {against}, {decider}")


def _verifier_gaps(selection: Selection, roles: Mapping[str, str], one: str, other: str) -> dict[str, IntervalCell]:
    """Returns by how much choosing by the verifier of one role is above choosing by that of another, by pool."""
    names = [roles.get(role) for role in (one, other)]
    if None in names:
        return {}
    chosen: dict[str, dict[str, Way]] = {}
    for way in selection.replayed:
        if way.selector in (BEST, LISTWISE) and way.verifier in names and not way.pool.is_gold:
            chosen.setdefault(way.pool.name, {})[way.verifier] = way
    pairs = {pool: (ways[str(names[0])], ways[str(names[1])]) for pool, ways in chosen.items() if len(ways) > 1}
    return _accuracy_gaps(selection, pairs)


def _findings_on_verifiers(selection: Selection, roles: Mapping[str, str], margin: float) -> Iterator[Finding]:
    needs = "the question needs scores of both: name them with `--{}` and `--{}`"
    small = _verifier_gaps(selection, roles, ENCODER, PROMPTED)
    yield _finding_on_loss(
        selection, margin, "is a small trained encoder as good as a prompted model", small,
        f"{ENCODER} minus {PROMPTED}", needs.format(ENCODER, PROMPTED),
    )  # fmt: skip
    for question, one, other in (
        ("does an encoder beat a decoder", ENCODER, DECODER),
        ("does a reasoner as judge lag behind a prompted model", PROMPTED, REASONER),
    ):
        gaps = _verifier_gaps(selection, roles, one, other)
        yield finding_on_any(question, gaps, f"{ACCURACY}, {one} minus {other}", needs.format(one, other))


def sensitivity_sentence(retrieval: Retrieval) -> str:
    """Says in one sentence whether the sign of FAIR minus plain re-ranking hangs on the reading of the frontier."""
    gaps = retrieval.sensitivity_gaps
    if not gaps:
        return ""
    answers = [is_above(cell) for cell in gaps.values()]
    up, down = answers.count(Answer.YES), answers.count(Answer.NO)
    alike = len(gaps) in (up, down)
    depends = "depends" if up and down else "does not depend" if alike else "is not shown to depend"
    low, high = (pick(gaps.values(), key=lambda cell: cell.estimate) for pick in (min, max))
    ends = "; ".join(NumberWithInterval(2, signed=True).show(one) for one in (low, high))
    return (
        f"The sign of {FAIR} minus {PLAIN} {depends} on the reading: of {len(gaps)} "
        f"settings {up} are above, {down} below, {len(gaps) - up - down} not decided; the least and the most, in "
        f"points of {RECALL}: {ends}."
    )


VERDICTS = findings_sheet(
    attrgetter("findings"),
    ("Differences are in points. Limits hold at once for all readings or pools that a question is asked of: yes where "
     "some are above 0 and none below. A question with a margin: yes where the limits rule out a larger loss.",),
    "data set",
)  # fmt: skip
