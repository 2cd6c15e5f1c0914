"""What every table of the study has around it, and what a log lacks, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.studies.kit.gaps import Gap, said_of
from replay.studies.kit.layout import Surroundings
from replay.studies.latent.published import MODELS, REWARDS, TESTED
from replay.studies.latent.study import FRONT, SELECTING, LatentStudy
from replay.studies.latent.tables import LOGPROBS, OTHER, OWN, REFLECTED, rewards
from replay.studies.latent.verdicts import NO_LOGPROBS

READERS, TRANSFER = "readers", "transfer"
"""What the ablations call tables 3 and 4 among what is missing."""
NO_REFLECTION = "no verifier of kind `reflection` scored these traces"
NOT_FITTED = "nothing was fitted, as `--without-ablations` asks"


def surroundings(studies: Sequence[LatentStudy]) -> Surroundings[LatentStudy]:
    """Of the tables of these data sets."""
    made = studies[0].asked.settings
    drawn = (
        f"{100 * made.level:g} % intervals, by question or cluster; those of accuracies from {made.resamples:,} "
        f"resamples, seed {made.seed}."
    )
    return Surroundings(
        simulated=any(study.simulated for study in studies),
        dataset="dataset",
        below=lambda sheet, parts, shown: [drawn],
        gaps=lambda sheet, parts: list(_gaps(parts)),
    )


def _gaps(studies: Sequence[LatentStudy]) -> Iterator[Gap]:
    """Why cells are dashes."""
    yield Gap(f"self-reflection: {NO_REFLECTION} where there is a dash", frozenset({REFLECTED}))
    yield Gap(f"log-probabilities: {NO_LOGPROBS}, where there is a dash", frozenset({LOGPROBS}))
    if own := rewards(studies):
        yield Gap("a verifier has a dash where it did not score the traces", frozenset(own))
    yield Gap(
        "a model or verifier of the paper has a dash where the log has none of this name",
        frozenset({*MODELS, *REWARDS}),
    )
    if models := {f"{name}_auc" for study in studies for name in study.models.values()}:
        yield Gap("a model has a dash where it wrote none of the measured traces", frozenset(models))
    tested = {*TESTED, *(f"tested_{study.dataset}_auc" for study in studies)}
    for what, columns in ((READERS, {OWN, OTHER}), (TRANSFER, tested)):
        for line in said_of(studies, lambda study, what=what: _why(study, what)):  # type: ignore[misc]
            yield Gap(line, frozenset(columns))


def _why(study: LatentStudy, what: str) -> list[str]:
    found = study.ablations.missing.get(what)
    if found is None:
        found = NOT_FITTED if not study.asked.ablations else f"the log has nothing to compare on `{study.dataset}`"
    return [found]


def missing_told(study: LatentStudy) -> Iterator[str]:
    """What could not be done on a data set, and why."""
    unserved = study.missing.get(FRONT)
    if unserved is not None:
        yield f"strategies: {unserved}"
    if SELECTING in study.missing:
        yield f"{SELECTING}: {study.missing[SELECTING]}"
    for what, why in (study.strategies.left_out or {}).items() if study.strategies is not None else ():
        yield f"{what}: {why}"
    for what, why in study.ablations.missing.items():
        yield f"{what}: {why}"
