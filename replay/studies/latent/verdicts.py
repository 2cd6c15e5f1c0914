"""Every question of the study, answered on one data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.analyses.strategies.strategies import WEIGHTED
from replay.studies.latent.gains import Answer, Verdict, VerdictOn, answered, gain_verdict
from replay.studies.latent.signals import OVER, WITHIN, MeasuredPool, SignalAreas
from replay.studies.latent.study import FRONT, LatentStudy
from toolkit.log.describe.worth import BEST, HONEST
from toolkit.stats import PairedInterval

NO_LOGPROBS = "no log-probabilities are logged, and no verifier gives them"
ONE_TRACE = "the verifier scored one trace a question"
NO_PROBE = "the verifier scored no pool of single attempts for a probe"
ONE_SAMPLE = "the pool that is sampled from has one sample a question"
NO_SCORES = "the verifier scored too few samples of the pool that is sampled from"


def verdicts_of(study: LatentStudy) -> tuple[Verdict, ...]:
    """Every question on one data set."""
    return (*_of_areas(study), *_of_strategies(study))


def rivals(pool: MeasuredPool) -> Iterator[tuple[str, SignalAreas]]:
    """Log-probabilities that a verifier has to beat, none of them chosen on these rows where that can be helped."""
    found = pool.logprobs
    for name, one in found.items():
        if name != BEST or HONEST not in found:
            yield name, one


def _of_areas(study: LatentStudy) -> Iterator[Verdict]:
    pool, level = study.main, study.asked.settings.level
    for over in OVER:
        if over == WITHIN and pool.single:
            yield Verdict(VerdictOn.CHANCE, Answer.UNASKED, over, why=ONE_TRACE)
        else:
            difference = pool.latent.over_chance(over, level)
            yield Verdict(VerdictOn.CHANCE, answered(difference), over, "0.5", difference)
    if pool.single:
        yield Verdict(VerdictOn.RANDOM, Answer.UNASKED, why=ONE_TRACE)
    else:
        picked = pool.over_random(level)
        yield Verdict(VerdictOn.RANDOM, answered(picked), against="a random pick of what is scored", difference=picked)
    against = list(rivals(pool))
    raised = 1 - (1 - level) / max(len(against), 1)
    for over in OVER:
        why = NO_LOGPROBS if not against else ONE_TRACE if over == WITHIN and pool.single else ""
        if why:
            yield Verdict(VerdictOn.LOGPROBS, Answer.UNASKED, over, why=why)
        else:
            yield _beats_all(over, [(one.told(name), pool.less(one, over, raised)) for name, one in against])


def _beats_all(over: str, pairs: Sequence[tuple[str, PairedInterval]]) -> Verdict:
    """Yes where the verifier is above every rival, no where it is below one; the nearest or that one is shown."""
    answers = [answered(difference) for _, difference in pairs]
    found = Answer.NO if Answer.NO in answers else Answer.UNDECIDED if Answer.UNDECIDED in answers else Answer.YES
    of = [pair for pair, answer in zip(pairs, answers, strict=True) if answer is found]
    name, difference = min(of, key=lambda pair: pair[1].difference if pair[1].difference is not None else 1.0)
    return Verdict(VerdictOn.LOGPROBS, found, over, name, difference)


def _of_strategies(study: LatentStudy) -> Iterator[Verdict]:
    gains, unserved = study.gains, study.missing.get(FRONT)
    left_out = {} if study.strategies is None else study.strategies.left_out or {}
    negative = next((why for what, why in left_out.items() if what.startswith(WEIGHTED)), NO_SCORES)
    for question, found, why in (
        (VerdictOn.WEIGHTED, gains.weighted, negative),
        (VerdictOn.BEST, gains.best, NO_SCORES),
        (VerdictOn.CONDITIONAL, gains.conditional, NO_PROBE),
        *([(VerdictOn.ELSEWHERE, gains.elsewhere, "")] if gains.elsewhere else []),
        (VerdictOn.COIN, gains.coin, NO_PROBE),
    ):
        yield gain_verdict(question, found) if found else Verdict(question, Answer.UNASKED, why=unserved or why)
    if not gains.oracle:
        yield Verdict(VerdictOn.ORACLE, Answer.UNASKED, why=unserved or ONE_SAMPLE)
        return
    last = gains.oracle[-1]
    against = f"oracle of {last.n} samples; best: {last.name}"
    yield Verdict(VerdictOn.ORACLE, answered(last.difference), against=against, difference=last.difference)
