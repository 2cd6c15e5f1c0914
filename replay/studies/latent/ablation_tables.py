"""Tables of the study's ablations: where states are read, on which traces, by what, and what scores go with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from replay.latent.probe_samples import ModelArea, SeededArea
from replay.studies.kit.cells import shown
from replay.studies.kit.sheet import Column, Row, Sheet, intervals, numbers
from replay.studies.latent import ablated as missing
from replay.studies.latent.study import Ablations, LatentStudy
from replay.studies.latent.tables import difference

Studies = Sequence[LatentStudy]
SPREAD = "lowest and highest: of the seeds; AUC: the mean of their areas, with its interval over questions"


def _any(found: Callable[[Ablations], Any]) -> Callable[[Studies], bool]:
    return lambda studies: any(found(study.ablations) for study in studies)


def _why(what: str) -> Callable[[LatentStudy], Sequence[str]]:
    """Why a data set has no rows, where it has none."""

    def told(study: LatentStudy) -> Sequence[str]:
        found = study.ablations.missing.get(what)
        return [] if found is None else [f"no rows: {found}"]

    return told


def _fitted_on(study: LatentStudy) -> Sequence[str]:
    return study.ablations.notes


def _places_told(study: LatentStudy) -> Sequence[str]:
    return study.ablations.notes[1:]


def _locations(study: LatentStudy) -> Iterator[Row]:
    for one in study.ablations.locations:
        values = {"auc": shown(one.pooled), "auc_within": shown(one.within), "traces": one.traces}
        yield Row((one.layer, one.token), values=values)


LOCATIONS = Sheet[LatentStudy](
    "locations", "One classifier a place: AUC by layer and token", ("layer", "token"),
    (intervals("AUC", "auc", 3), intervals("AUC within questions", "auc_within", 3), numbers("traces", "traces", 0)),
    _locations, (_fitted_on, _why(missing.LOCATIONS)), "Data set", needed=_any(lambda made: made.locations),
    printed=False,
)  # fmt: skip


def _degrees(studies: Studies) -> list[float]:
    return sorted({one.measured for study in studies for one in study.ablations.temperatures})


def _temperature_columns(studies: Studies) -> list[Column]:
    measured = [intervals(f"measured at {degree:g}", f"measured_{degree:g}", 3) for degree in _degrees(studies)]
    return [numbers("traces trained on", "rows", 0, drop=1), *measured]


def _temperatures(study: LatentStudy) -> Iterator[Row]:
    found = study.ablations.temperatures
    for trained in sorted({one.trained for one in found}):
        own = [one for one in found if one.trained == trained]
        values = {f"measured_{one.measured:g}": shown(one.area) for one in own}
        yield Row((f"{trained:g}",), values={"rows": own[0].rows, **values})


TEMPERATURES = Sheet[LatentStudy](
    "temperatures", "Transfer between temperatures: mean AUC of classifiers of one place each", ("trained at",),
    _temperature_columns, _temperatures,
    ("each row is fitted on training rows of its own temperature, of each as many, drawn by the seed",
     _places_told, _why(missing.TEMPERATURES)),
    "Data set", needed=_any(lambda made: made.temperatures),
)  # fmt: skip


def _carried(study: LatentStudy) -> Iterator[Row]:
    found = study.ablations
    for one in found.temperatures:
        if one.behind is not None:
            heads = ("temperature", f"{one.trained:g}", f"{one.measured:g}")
            yield Row(heads, values={"auc": shown(one.area), "behind": difference(one.behind)})
    for name, less in found.transfer_behind.items():
        values = {"auc": shown(found.transfer[name]), "behind": difference(less)}
        yield Row(("data set", name, study.dataset), values=values)
    for name, less in found.readers_behind.items():
        values = {"auc": shown(found.readers[name]), "behind": difference(less)}
        yield Row(("states", name, study.states), values=values)


CARRIED = Sheet[LatentStudy](
    "carried_over", "What is lost by a verifier from elsewhere", ("what", "trained on", "instead of"),
    (intervals("AUC", "auc", 3), intervals("own verifier ahead", "behind", 3, signed=True)), _carried,
    (
        "own verifier: the one that is trained on what is measured; ahead: its AUC less the other one's, paired, on "
        "the same traces",
    ),
    "Data set",
    needed=lambda studies: any(True for study in studies for _ in _carried(study)),
)  # fmt: skip

SEEDED = (
    numbers("traces trained on", "rows", 0), intervals("AUC", "auc", 3), numbers("median", "median", 3),
    numbers("lowest", "lowest", 3), numbers("highest", "highest", 3),
)  # fmt: skip


def _seeded(one: SeededArea) -> dict[str, Any]:
    return {
        "rows": one.rows, "auc": shown(one.mean), "median": one.median, "lowest": one.least, "highest": one.most
    }  # fmt: skip


def _models(study: LatentStudy) -> Iterator[Row]:
    for one in sorted(study.ablations.models, key=_by_token):
        yield Row((one.model, one.layer, one.token), values=_seeded(one))


def _by_token(one: ModelArea) -> tuple[str, int]:
    return one.model, one.token


MODELS = Sheet[LatentStudy](
    "classifiers", "Kinds of classifiers, each of one place", ("classifier", "layer", "token"), SEEDED, _models,
    ("each seed draws four fifths of the questions to train on", SPREAD, _why(missing.MODELS)), "Data set",
    needed=_any(lambda made: made.models),
)  # fmt: skip
SIZES = Sheet[LatentStudy](
    "training_sizes", "Size of the training set", ("questions",), SEEDED,
    lambda study: (Row((int(one.size),), values=_seeded(one)) for one in study.ablations.sizes),
    ("a verifier of few places; each seed draws the questions", SPREAD, _why(missing.SIZES)), "Data set",
    needed=_any(lambda made: made.sizes),
)  # fmt: skip
SHARES = Sheet[LatentStudy](
    "right_shares", "Share of right traces among as many to train on", ("right, %",), SEEDED,
    lambda study: (Row((f"{100 * one.size:g}",), values=_seeded(one)) for one in study.ablations.shares),
    ("a verifier of few places; each seed draws the traces", SPREAD, _why(missing.SHARES)), "Data set",
    needed=_any(lambda made: made.shares),
)  # fmt: skip


def _suffixes(study: LatentStudy) -> Iterator[Row]:
    for one in study.ablations.suffixes:
        yield Row((one.length,), values={"logprob": shown(one.logprob), "states": shown(one.states)})


SUFFIXES = Sheet[LatentStudy](
    "suffixes", "AUC by length of the suffix", ("tokens",),
    (intervals("log-probability", "logprob", 3), intervals("states of these tokens", "states", 3)), _suffixes,
    (
        "log-probability: the sum over the last tokens; below 0.5 it speaks against the answer",
        "states: the mean over the classifiers of these tokens at all layers; a dash: no states this near the end",
    ), "Data set", needed=_any(lambda made: made.suffixes),
)  # fmt: skip


def _entropy(study: LatentStudy) -> Iterator[Row]:
    found = study.ablations.entropy
    for one in found.parts if found is not None else ():
        values = {"questions": one.questions, "entropy": shown(one.entropy), "right": shown(one.right, 100)}
        yield Row((f"{one.low:.3g} to {one.high:.3g}".replace("-", "−"),), values=values)


def _correlated(study: LatentStudy) -> Iterator[str]:
    found = study.ablations.entropy
    if found is None or found.correlation.estimate is None:
        return
    low, high = found.correlation.low, found.correlation.high
    limits = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    of = f"the first trace of `{found.probe}`" if found.probe else "the first trace, the others voting"
    told = f"Spearman's correlation of score and entropy: {found.correlation.estimate:.2f}{limits}"
    yield f"{told}; score of {of}, votes of `{found.pool}`".replace("-", "−")


ENTROPY = Sheet[LatentStudy](
    "votes_entropy", "Entropy of the votes by the score of a first attempt", ("score",),
    (
        numbers("questions", "questions", 0), intervals("entropy, share of the largest", "entropy", 3),
        intervals("votes right, %", "right", 1),
    ), _entropy, (_correlated, _why(missing.ENTROPY)), "Data set", needed=_any(lambda made: made.entropy),
)  # fmt: skip


def _votes(study: LatentStudy) -> Iterator[Row]:
    for one in study.ablations.votes:
        yield Row((f"{one.temperature:g}", one.votes), values={"accuracy": shown(one.accuracy, 100)})


VOTES = Sheet[LatentStudy](
    "votes_by_temperature", "Majority voting by temperature", ("temperature", "votes"),
    (intervals("accuracy, %", "accuracy", 1),), _votes, (_why(missing.VOTES),), "Data set",
    needed=_any(lambda made: made.votes), printed=False,
)  # fmt: skip
ABLATION_SHEETS: tuple[Sheet[LatentStudy], ...] = (
    LOCATIONS, TEMPERATURES, CARRIED, MODELS, SIZES, SHARES, SUFFIXES, ENTROPY, VOTES
)  # fmt: skip
"""After the paper's tables, in the order of the report."""
