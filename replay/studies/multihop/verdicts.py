"""The study's questions, each answered from paired intervals that hold for all pools or readings at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from replay.studies.kit.verdicts import Answer, Finding, answer_on_loss, finding_on_any, findings_sheet, is_above
from replay.studies.multihop.chains import CHAINS, DIRECT, FAIR_LIKE, PENALISED, SINGLE
from replay.studies.multihop.retrieval import BOTH_RANKED, ENTROPY, EXPLORED, FAIR, MEASURE, PLAIN, SCORED, SUNAR
from replay.studies.multihop.runs import Pair, joint_cells
from replay.studies.multihop.selection import BEST, BOUND, IDEAL, LISTWISE, MAJORITY, PRUNED, SINGLE_SHOT, Way
from replay.studies.multihop.study import MultihopStudy
from replay.studies.multihop.verifiers import DECODER, ENCODER, PROMPTED, REASONER
from toolkit.show import IntervalCell, NumberWithInterval

RECALL = "recall@10"
ACCURACY = "accuracy"


@lru_cache(maxsize=8)
def findings(study: MultihopStudy) -> tuple[Finding, ...]:
    """Answers every question that the log can serve, and says of the others what they need."""
    parts = _findings_on_retrieval(study), _findings_on_selection(study), _findings_on_verifiers(study)
    return tuple(finding for part in parts for finding in part)


def _decided(question: str, gaps: Mapping[str, IntervalCell], against: str, needs: str) -> Finding:
    return finding_on_any(question, gaps, against) if gaps else Finding(question, Answer.UNASKED, why=needs)


def _retrieval_gaps(study: MultihopStudy, names: Iterable[str], against: str) -> dict[str, IntervalCell]:
    pairs = [(name, against) for name in names]
    return {one: cell for (one, _), cell in study.retrieval.run.differences(MEASURE, pairs, 100).items()}


def _findings_on_retrieval(study: MultihopStudy) -> Iterator[Finding]:
    readings = study.retrieval.readings
    needs = "it needs rounds, and gold documents"
    plain = _retrieval_gaps(study, readings, PLAIN)
    yield _decided("does rewarding agreement rank more gold documents first", plain, f"{RECALL} minus {PLAIN}", needs)
    penalty = _retrieval_gaps(study, readings, SUNAR)
    yield _decided("does reward beat penalty", penalty, f"{RECALL} minus {SUNAR}", needs)
    explored = _retrieval_gaps(study, [EXPLORED], BOTH_RANKED)
    needs_pool = "it needs a pool of rounds explored by rewarded scores"
    yield _decided("does exploring by rewarded scores find more", explored, f"{RECALL} minus {BOTH_RANKED}", needs_pool)
    entropy = _retrieval_gaps(study, [ENTROPY], FAIR)
    yield _decided("does entropy of answers serve better than agreement", entropy, f"{RECALL} minus {FAIR}", needs)
    scored = _retrieval_gaps(study, [SCORED], FAIR)
    needs_scores = "it needs `answer_scores` of rounds"
    yield _decided("does a verifier's feedback help the frontier", scored, f"{RECALL} minus {FAIR}", needs_scores)
    yield _decided(
        "does rewarded evidence give more right answers", _evidence_gaps(study), "cover, rewarded minus penalised",
        "it needs answers from both evidences",
    )  # fmt: skip


def _evidence_gaps(study: MultihopStudy) -> dict[str, IntervalCell]:
    """Returns how far answers from rewarded evidence are above those from the other, by reader and form."""
    answers, pairs = study.answers, {}
    for pool in answers.of_form(DIRECT, SINGLE, CHAINS):
        rival = PENALISED[FAIR_LIKE.index(pool.evidence)] if pool.evidence in FAIR_LIKE else ""
        other = answers.pool(rival, pool.reader, pool.form)
        if other is not None:
            pairs[pool.name] = answers.means(pool, "cover"), answers.means(other, "cover")
    return joint_cells(pairs, answers.unit, study.setting.settings)


def _accuracy_gaps(study: MultihopStudy, pairs: Mapping[str, tuple[Way, Way]]) -> dict[str, IntervalCell]:
    names: dict[str, Pair] = {label: (one.name, other.name) for label, (one, other) in pairs.items()}
    cells = study.selection.run.differences("accuracy", names.values(), 100)
    return {label: cells[pair] for label, pair in names.items() if pair in cells}


def _ways(study: MultihopStudy, first: tuple[str, ...], second: str, *verifiers: str) -> dict[str, tuple[Way, Way]]:
    return {label: (one, other) for label, one, other in study.selection.pairs(first, second, verifiers)}


def _findings_on_selection(study: MultihopStudy) -> Iterator[Finding]:
    chains, scores = "it needs pools of several chains", "it needs a verifier's scores of several chains"
    more = _accuracy_gaps(study, _ways(study, (MAJORITY,), SINGLE_SHOT))
    yield _decided("do more chains beat one", more, f"{ACCURACY} minus {SINGLE_SHOT}", chains)
    best = _accuracy_gaps(study, _ways(study, (BEST, LISTWISE), MAJORITY))
    yield _decided("does choosing by a verifier beat the vote", best, f"{ACCURACY} minus {MAJORITY}", scores)
    bounds = {way.pool.reader: way for way in study.selection.replayed if way.selector == BOUND}
    capped = {
        way.pool.name: (bounds[way.pool.reader], way)
        for way in study.selection.replayed
        if way.selector == IDEAL and way.pool.reader in bounds
    }
    caps = _accuracy_gaps(study, capped)
    needs = "it needs chains of gold evidence and of retrieved"
    yield _decided("does evidence cap reasoning", caps, "any chain right, gold minus retrieved evidence", needs)
    pruned = _accuracy_gaps(study, _ways(study, (PRUNED,), BEST))
    yield _on_loss(study, "is pruning of chains as good as all of them", pruned, "pruned minus all", scores)


def _on_loss(
    study: MultihopStudy, question: str, gaps: Mapping[str, IntervalCell], against: str, needs: str
) -> Finding:
    """Answers yes where no pool loses more than the margin, no where some pool does."""
    question = f"{question}, within {100 * study.setting.margin:g} points"
    if not gaps:
        return Finding(question, Answer.UNASKED, why=needs)
    units = len(set(study.selection.run.unit.tolist()))
    losses = {name: answer_on_loss(gap.scaled(0.01), study.setting.margin, units) for name, gap in gaps.items()}
    worst = min(gaps, key=lambda name: gaps[name].estimate)
    answer = {Answer.NO: Answer.YES, Answer.YES: Answer.NO}.get(losses[worst], Answer.UNDECIDED)
    if Answer.YES in losses.values():
        answer, worst = Answer.NO, next(name for name, one in losses.items() if one is Answer.YES)
    elif set(losses.values()) != {Answer.NO}:
        answer = Answer.UNDECIDED
    return Finding(question, answer, gaps[worst], decided_by=f"{ACCURACY}, {against}, {worst}")


def _verifier_gaps(study: MultihopStudy, one: str, other: str) -> dict[str, IntervalCell]:
    """Returns by how much choosing by the verifier of one role is above choosing by that of another, by pool."""
    names = [study.roles.get(role) for role in (one, other)]
    if None in names:
        return {}
    chosen: dict[str, dict[str, Way]] = {}
    for way in study.selection.replayed:
        if way.selector in (BEST, LISTWISE) and way.verifier in names and not way.pool.is_gold:
            chosen.setdefault(way.pool.name, {})[way.verifier] = way
    pairs = {pool: (ways[str(names[0])], ways[str(names[1])]) for pool, ways in chosen.items() if len(ways) > 1}
    return _accuracy_gaps(study, pairs)


def _findings_on_verifiers(study: MultihopStudy) -> Iterator[Finding]:
    needs = "it needs scores of both: name them with `--{}` and `--{}`"
    small = _verifier_gaps(study, ENCODER, PROMPTED)
    yield _on_loss(
        study, "is a small trained encoder as good as a prompted model", small, f"{ENCODER} minus {PROMPTED}",
        needs.format(ENCODER, PROMPTED),
    )  # fmt: skip
    for question, one, other in (
        ("does an encoder beat a decoder", ENCODER, DECODER),
        ("does a reasoner as judge lag behind a prompted model", PROMPTED, REASONER),
    ):
        gaps = _verifier_gaps(study, one, other)
        yield _decided(question, gaps, f"{ACCURACY}, {one} minus {other}", needs.format(one, other))


def sensitivity_sentence(study: MultihopStudy) -> str:
    """Says in one sentence whether the sign of FAIR minus plain re-ranking hangs on the reading of the frontier."""
    gaps = sensitivity_gaps(study)
    if not gaps:
        return ""
    answers = [is_above(cell) for cell in gaps.values()]
    up, down = answers.count(Answer.YES), answers.count(Answer.NO)
    alike = len(gaps) in (up, down)
    hangs = "hangs" if up and down else "does not hang" if alike else "is not shown to hang"
    low, high = (pick(gaps.values(), key=lambda cell: cell.estimate) for pick in (min, max))
    ends = "; ".join(NumberWithInterval(2, signed=True).show(one) for one in (low, high))
    return (
        f"The sign of {FAIR} minus {PLAIN} {hangs} on the reading: of {len(gaps)} "
        f"settings {up} are above, {down} below, {len(gaps) - up - down} not decided; the least and the most, in "
        f"points of {RECALL}: {ends}."
    )


@lru_cache(maxsize=8)
def sensitivity_gaps(study: MultihopStudy) -> dict[str, IntervalCell]:
    """Returns the difference of each setting to plain re-ranking, in points; limits hold for all settings at once."""
    run = study.retrieval.sensitivity
    pairs = [(name, PLAIN) for name in study.retrieval.settings]
    return {one: cell for (one, _), cell in run.differences(MEASURE, pairs, 100).items()}


VERDICTS = findings_sheet(
    findings,
    ("Differences are in points. Limits hold at once for all readings or pools that a question is asked of: yes where "
     "some are above 0 and none below. A question with a margin: yes where the limits rule out a larger loss.",),
    "data set",
)  # fmt: skip
