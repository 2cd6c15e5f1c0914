"""The layers and tokens at which the further fits are made, and what is said of the places and traces left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from replay.latent.place_probes import PlacedTraces, mean_score_over_places, pooled_auc_of_score
from toolkit.show import remark

PAPER_PLACES = (-2, -4, -8, -16)
"""Layers, and tokens, of the classifiers of a cell of the paper's temperature study (section 4.2)."""
FEW_PLACES = 4
"""Places at which fits are made for each of several seeds."""


def choose_places(traces: PlacedTraces, most: int) -> list[int]:
    """Chooses at most `most` places (layer, token), the paper's where there are more; 0 takes all."""
    every = list(range(len(traces.places)))
    return every if not most or len(every) <= most else _thin_out_evenly(_paper_places(traces.places), most)


def _paper_places(places: Sequence[tuple[int, int]]) -> list[int]:
    """Returns the indices of the paper's layers and tokens among the places, or all where there are none."""
    sides = [sorted({place[at] for place in places}) for at in (0, 1)]
    layers, tokens = ([one for one in side if one in PAPER_PLACES] or side for side in sides)
    return [number for number, (layer, token) in enumerate(places) if layer in layers and token in tokens]


def _thin_out_evenly(numbers: Sequence[int], most: int) -> list[int]:
    chosen = np.linspace(0, len(numbers) - 1, min(most, len(numbers))).round().astype(int)
    return [numbers[at] for at in np.unique(chosen)]


def thin_out_places(numbers: Sequence[int], most: int) -> Sequence[int]:
    """Thins chosen places for comparisons that fit each of them for several seeds; all stay where `most` is 0."""
    return _thin_out_evenly(numbers, FEW_PLACES) if most else numbers


def ablation_notes(
    main: PlacedTraces, pool: str, few: Sequence[int], left_out: int, table: np.ndarray, level: float
) -> Iterator[str]:
    """Says what classifiers were fitted on, and what was left out: places (numbers `few` were taken) and traces.

    `table`: the scores (N, P) of each place. What is left out stands with the width of an interval of the AUC.
    """
    trained, measured = int(main.train.sum()), int((~main.train).sum())
    yield f"classifiers of one place each: fitted on {trained:,} traces of `{pool}`, measured on {measured:,}"
    count = len(main.places)
    width = _auc_interval_width(main, table, level) if left_out or len(few) < count else ""
    text = f"where many classifiers are fitted, those of {len(few)} of {count} places: "
    if len(few) == count:
        yield f"{text}all"
    else:
        text += f"{places_text(main.places[at] for at in few)} (`--positions 0` takes all)"
        less = _auc_interval_width(main, table[:, few], level)
        yield remark("places_left_out", f"{text}; the interval of their AUC is {less} wide, that of all places {width}")
    if left_out:
        text = (
            f"{left_out:,} further traces are left out, whole questions by the seed (`--most 0` takes all); without "
            f"them the interval of the AUC of all places together is {width} wide"
        )
        yield remark("traces_left_out", text)


def places_text(places: Iterable[tuple[int, int]]) -> str:
    """Writes layer and token of each place."""
    return ", ".join(f"{layer}:{token}".replace("-", "−") for layer, token in places)


def _auc_interval_width(main: PlacedTraces, table: np.ndarray, level: float) -> str:
    """Writes how wide the interval of the AUC of a verifier is, from the scores (N, P) of its places."""
    score = mean_score_over_places(table)
    area = pooled_auc_of_score(main, score, ~main.train).interval(level)
    return "unknown" if area.low is None or area.high is None else f"{area.high - area.low:.3f}"
