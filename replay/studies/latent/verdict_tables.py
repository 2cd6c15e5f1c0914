"""The verdicts as a table, and the settings of conditional voting and the oracle's lead that they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.studies.kit.cells import difference
from replay.studies.kit.sheet import Column, Row, Sheet, Value, intervals, numbers, words
from replay.studies.latent.gains import Gain
from replay.studies.latent.questions import Verdict, answered
from replay.studies.latent.study import SELECTING as SELECTED
from replay.studies.latent.study import LatentStudy
from toolkit.show import Number, TableColumn

POINTS = 100.0


def _verdicts(study: LatentStudy) -> Iterator[Row]:
    for one in study.verdicts:
        values: dict[str, Value] = {"verdict": one.answer.value, "against": one.against or one.why}
        if one.difference is not None:
            values["difference"] = difference(one.difference, POINTS)
        yield Row((asked(one),), values=values)


def asked(one: Verdict) -> str:
    """A question as tables write it."""
    return f"{one.question.value}, {one.over}?" if one.over else f"{one.question.value}?"


def _intervals_told(study: LatentStudy) -> Iterator[str]:
    level = f"{100 * study.asked.settings.level:g} %"
    yield (
        f"Points: hundredths of an area, or per cent of the questions. Yes, or no: the {level} interval leaves out 0. "
        "It is of paired differences, by question or cluster, and holds for all log-probabilities, or all settings of "
        "a strategy, at once; shown is the one that decides."
    )
    yield "Pooled: over all traces; within: the mean over questions with right and wrong traces."


def _pools_told(study: LatentStudy) -> Iterator[str]:
    told = f"areas and picks: of `{study.main.pool}`"
    if study.strategies is not None:
        source = study.strategies.source
        told += f"; votes: of `{source.pool}`" + (f", probes: of `{source.probe}`" if source.probe else "")
    yield told


VERDICTS = Sheet[LatentStudy](
    "verdicts", "What the log says", ("Question",),
    (
        words("verdict", "verdict"), intervals("difference, points", "difference", 1, signed=True),
        words("against, or why not asked", "against", drop=1),
    ),
    _verdicts, (_intervals_told, _pools_told), "Data set",
)  # fmt: skip


def _gain_row(one: Gain, heads: tuple[object, ...]) -> Row:
    values: dict[str, Value] = {
        "n": one.n, "samples": one.samples, "accuracy": 100 * one.accuracy, "against": 100 * one.against,
        "difference": difference(one.difference, POINTS), "verdict": answered(one.difference).value,
    }  # fmt: skip
    return Row(heads, values=values)


def _conditional(study: LatentStudy) -> Iterator[Row]:
    found = study.gains
    rivals = found.elsewhere or (None,) * len(found.coin)
    for one, coin, rival in zip(found.conditional, found.coin, rivals, strict=True):
        row = _gain_row(one, (one.below,))
        values = {**row.values, "over_coin": difference(coin.difference, POINTS)}
        if rival is not None:
            values |= {"best_pool": rival.pool, "over_best": difference(rival.difference, POINTS)}
        yield Row(row.heads, values=values)


def _conditional_columns(studies: Sequence[LatentStudy]) -> list[Column]:
    made = [
        numbers("n below", "n", 0), numbers("mean samples", "samples", 2), *ACCURACY,
        intervals("beyond a coin", "over_coin", 1, signed=True, drop=2),
    ]  # fmt: skip
    if any(study.gains.elsewhere for study in studies):
        made += [words("best pool", "best_pool", drop=3)]
        made += [intervals("beyond voting there", "over_best", 1, signed=True, drop=3)]
    return [*made, words("better?", "verdict")]


def _best_pool_told(study: LatentStudy) -> Iterator[str]:
    if study.gains.elsewhere:
        yield "best pool: that whose plain votes were right most often where settings were chosen, at as many samples"


def _halves_told(study: LatentStudy) -> Iterator[str]:
    if study.front is not None:
        yield (f"settings chosen on {study.front.chosen:,} questions, all shown is of {study.front.reported:,} others")


ACCURACY = (
    numbers("accuracy %", "accuracy", 1), numbers("plain voting %", "against", 1, drop=1),
    intervals("difference, points", "difference", 1, signed=True),
)  # fmt: skip
CONDITIONAL = Sheet[LatentStudy](
    "conditional_votes", "Conditional voting against plain voting at as many samples",
    (TableColumn("believed from", Number(3), "threshold"),),
    _conditional_columns, _conditional,
    (_halves_told, _best_pool_told,
     "A probe that scores at least the threshold is answered as it is; else n further samples vote. Of the settings "
     "that nothing beat where they were chosen, those that doubt some probes and believe some (5 % at least). "
     "Intervals hold for all of them at once. "
     "Beyond a coin: beyond the same numbers of samples for questions that are drawn at random."),
    "Data set", needed=lambda studies: any(study.gains.conditional for study in studies),
)  # fmt: skip


def _selecting(study: LatentStudy) -> Iterator[Row]:
    for gains in (study.gains.weighted, study.gains.best):
        yield from (_gain_row(one, (one.name,)) for one in gains)


def _scored_told(study: LatentStudy) -> Iterator[str]:
    if study.scored is not None and SELECTED in study.missing:
        yield study.missing[SELECTED]


SELECTING = Sheet[LatentStudy](
    "votes_by_score", "Weighted voting and best-of-n by the verifier against plain voting", ("Strategy",),
    (numbers("n", "n", 0), *ACCURACY, words("better?", "verdict")),
    _selecting, ("Intervals hold for every n of a strategy at once.", _scored_told), "Data set",
    needed=lambda studies: any(study.gains.weighted or study.gains.best for study in studies),
)  # fmt: skip


def _oracle(study: LatentStudy) -> Iterator[Row]:
    yield from (_gain_row(one, (one.n, one.name)) for one in study.gains.oracle)


ORACLE = Sheet[LatentStudy](
    "oracle", "How far the oracle is", (TableColumn("n", Number(0)), "Best strategy"),
    (
        numbers("its accuracy %", "accuracy", 1), numbers("oracle %", "against", 1),
        intervals("difference, points", "difference", 1, signed=True),
    ),
    _oracle,
    (_halves_told, "The oracle picks a right answer where there is one. Intervals hold for every n at once."),
    "Data set", needed=lambda studies: any(study.gains.oracle for study in studies),
)  # fmt: skip

VERDICT_SHEETS = (VERDICTS,)
GAIN_SHEETS = (CONDITIONAL, SELECTING, ORACLE)
