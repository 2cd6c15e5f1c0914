"""The study's ablations: further fits on the log, and what they come to.

All classifiers are of one place, as in the paper, fitted on training rows and measured on the reported traces of the
pool that is sampled from. A verifier of several places is the mean of their probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np
import polars as pl

from replay.analyses.strategies.votes_entropy import VotesEntropy, votes_entropy
from replay.data.conditions import matching, matching_or_none
from replay.latent.place_probes import joint, location_map, own_less, pooled, score_table, transfer
from replay.latent.placed_traces import PlacedTraces, placed_traces, restricted
from replay.latent.probe_samples import ModelArea, as_many, by_model, by_questions, by_share
from replay.studies.latent.study import (
    ENTROPY,
    FITTED,
    READERS,
    TEMPERATURES,
    TRANSFER,
    VOTES,
    Ablations,
    LatentStudy,
    SuffixArea,
    TemperatureArea,
    VotesAt,
    by_temperature,
    temperatures,
)  # fmt: skip
from toolkit.log import collect
from toolkit.stats import Interval, PairedInterval
from toolkit.stats.curves.roc import Influenced, pooled_area

LAYERS = TOKENS = (-2, -4, -8, -16)
"""Of the classifiers of a cell of the paper's temperature study (section 4.2)."""
MOST_PLACES, FEW_PLACES = 8, 4
"""Places that stand for all where many fits are made, and where each is made for several seeds."""
MOST_TRACES = 2_500
"""Of each data set, pool, and part (trained on or measured)."""
MOST_NUMBERS = 2**22
"""Of the training rows of a fit: what long states leave of the traces."""
LONGEST = 16
"""Suffix, in tokens (figure 11)."""
FEW_DEGREES = "votes on these questions were drawn at fewer than two known temperatures"


@dataclass
class _FoundAblations:
    """What is gathered of a data set; `missing`: why something is not."""

    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def ablations_of(study: LatentStudy, every: Sequence[LatentStudy]) -> Ablations:
    """Those of one data set; `every`: all data sets of the log, this one among them."""
    found = _FoundAblations()
    entropy, votes = _entropy(study, found), tuple(_votes(study, found))
    taken = _taken(study, every, found) if study.states else None
    if taken is None:
        why = f"no model's hidden states of the traces to train on and to report of {study.dataset} are in the log"
        found.missing |= dict.fromkeys(FITTED, why)
        suffixes = tuple(_suffixes(study, study.main.pool, None, None))
        return Ablations(
            missing=found.missing, entropy=entropy, votes=votes, suffixes=suffixes, notes=tuple(found.notes)
        )
    level = study.asked.settings.level
    own = restricted(taken, taken.of("dataset", study.dataset))
    pool = _pool(study, own)
    main = restricted(own, own.of("pool", pool))
    few, fewer = _spread(_usual(main.places), MOST_PLACES), _spread(_usual(main.places), FEW_PLACES)
    table = score_table(main, main.train, main.at())
    found.notes += _told(main, pool, few, taken.left_out)
    carried, read = _transfer(study, every, taken, pool, few, found), _readers(study, pool, found)
    return Ablations(
        transfer={name: area.interval(level) for name, area in carried.items()},
        readers={name: area.interval(level) for name, area in read.items()},
        transfer_behind=_behind(carried, study.dataset, level),
        readers_behind=_behind(read, study.states, level),
        missing=found.missing,
        locations=location_map(main, table, level),
        temperatures=tuple(_temperatures(study, own, few, found)),
        models=tuple(_models(study, main, found)),
        sizes=tuple(by_questions(main, fewer, study.asked.seeds, level)),
        shares=tuple(by_share(main, fewer, study.asked.seeds, level)),
        suffixes=tuple(_suffixes(study, pool, main, table)),
        entropy=entropy,
        votes=votes,
        places=tuple(main.places[place] for place in few),
        notes=tuple(found.notes),
    )


def _taken(study: LatentStudy, every: Sequence[LatentStudy], found: _FoundAblations) -> PlacedTraces | None:
    """The traces to train on of all data sets whose states are of one model, and the reported ones of this one."""
    train = pl.concat([matching_or_none(one.log, one.on) for one in every if one.states == study.states])
    return _placed(study, study.states, train)


def _placed(study: LatentStudy, states: str, train: pl.Series) -> PlacedTraces | None:
    """None where either part has no trace of this data set."""
    kind, reported = study.log.columns(f"hidden_states/{states}")["state"], matching(study.log, study.where, "where")
    most = min(MOST_TRACES, max(1, MOST_NUMBERS // (kind.size if isinstance(kind, pl.Array) else 1)))
    made = placed_traces(study.log, states, train, reported, most, study.asked.settings.seed)
    if made is None:
        return None
    own = made.of("dataset", study.dataset)
    return made if (own & made.train).any() and (own & ~made.train).any() else None


def _pool(study: LatentStudy, own: PlacedTraces) -> str:
    """The pool that verdicts are of where its traces have states, else the one of which most have."""
    counts = own.keys.filter(pl.Series(~own.train))["pool"].value_counts().sort("count", "pool", descending=True)
    return study.main.pool if study.main.pool in counts["pool"] else str(counts["pool"][0])


def _usual(places: Sequence[tuple[int, int]]) -> list[int]:
    """The paper's layers and tokens, where the states have any of both; all of few places, or of others."""
    if len(places) <= MOST_PLACES:
        return list(range(len(places)))
    layers, tokens = (sorted({place[at] for place in places}) for at in (0, 1))
    some = [one for one in layers if one in LAYERS] or layers, [one for one in tokens if one in TOKENS] or tokens
    return [number for number, (layer, token) in enumerate(places) if layer in some[0] and token in some[1]]


def _spread(numbers: Sequence[int], most: int) -> list[int]:
    """At most so many, evenly spread."""
    chosen = np.linspace(0, len(numbers) - 1, min(most, len(numbers))).round().astype(int)
    return [numbers[at] for at in np.unique(chosen)]


def _told(main: PlacedTraces, pool: str, few: Sequence[int], left_out: int) -> Iterator[str]:
    trained, measured = int(main.train.sum()), int((~main.train).sum())
    yield f"classifiers of one place each: fitted on {trained:,} traces of `{pool}`, measured on {measured:,}"
    yield f"where many are fitted, {len(few)} places stand for all: {', '.join(_place(main.places[at]) for at in few)}"
    if left_out:
        yield f"{left_out:,} further traces are left out: those of questions drawn by the seed are enough"


def _place(place: tuple[int, int]) -> str:
    return f"{place[0]}:{place[1]}".replace("-", "−")


def _temperatures(
    study: LatentStudy, own: PlacedTraces, places: Sequence[int], found: _FoundAblations
) -> Iterator[TemperatureArea]:
    drawn_at = temperatures(study.log)
    pools = {pool: drawn_at[pool] for pool in own.keys["pool"].unique().sort() if pool in drawn_at}
    by_degree: dict[float, np.ndarray] = {}
    for pool, degree in sorted(pools.items(), key=lambda one: one[1]):
        by_degree[degree] = by_degree.get(degree, np.zeros(len(own.right), bool)) | own.of("pool", pool)
    if len(by_degree) < 2:
        found.missing[TEMPERATURES] = "traces with hidden states were drawn at fewer than two known temperatures"
        return
    names = {f"{degree:g}": degree for degree in by_degree}
    parts = {name: by_degree[degree] for name, degree in names.items()}
    level, even = study.asked.settings.level, as_many(own, parts, study.asked.settings.seed)
    areas = transfer(own, parts, places, trained_on=even)
    behind = own_less(areas, level)
    for (trained, measured), area in areas.items():
        rows, less = int(even[trained].sum()), behind.get((trained, measured))
        yield TemperatureArea(names[trained], names[measured], area.interval(level), rows, less)


def _behind(areas: Mapping[str, Influenced], own: str, level: float) -> dict[str, PairedInterval]:
    """How far one of the areas is above each other one."""
    if own not in areas:
        return {}
    return {name: areas[own].minus(area, level) for name, area in areas.items() if name != own}


def _transfer(
    study: LatentStudy, every: Sequence[LatentStudy], taken: PlacedTraces, pool: str, places: Sequence[int],
    found: _FoundAblations,
) -> Mapping[str, Influenced]:  # fmt: skip
    names = [one.dataset for one in every if one.states == study.states]
    at_pool = taken.of("pool", pool)
    parts = {name: at_pool & taken.of("dataset", name) for name in names}
    parts = {name: own for name, own in parts.items() if own.any()}
    if len(parts) < 2:
        found.missing[TRANSFER] = "no model's hidden states are of two data sets (in one pool)"
    areas = transfer(taken, parts, places, together=True)
    return {trained: area for (trained, measured), area in areas.items() if measured == study.dataset}


def _readers(study: LatentStudy, pool: str, found: _FoundAblations) -> Mapping[str, Influenced]:
    train, made = matching_or_none(study.log, study.on), {}
    for name in study.log.hidden_models:
        placed = _placed(study, name, train)
        own = placed if placed is None else restricted(placed, placed.of("pool", pool))
        if own is not None and own.train.any() and not own.train.all():
            made[name] = own
    if len(made) < 2:
        found.missing[READERS] = f"no two models' hidden states are of the same traces of `{pool}`"
        return {}
    common = pl.concat([one.keys["trace_id"].to_frame() for one in made.values()])
    counts = common.group_by("trace_id").len().filter(pl.col("len") == len(made))["trace_id"]
    scores, traces = {}, None
    for name, one in made.items():
        alike = restricted(one, one.keys["trace_id"].is_in(counts.implode()).to_numpy())
        if alike.train.any() and not alike.train.all():
            table = score_table(alike, alike.train, alike.at(_spread(_usual(alike.places), MOST_PLACES)))
            scores[name], traces = joint(table), alike
    if traces is None:
        return {}
    known = ~traces.train & ~np.isnan(list(scores.values())).any(axis=0)
    return {name: pooled(traces, score, known) for name, score in scores.items()}


def _models(study: LatentStudy, main: PlacedTraces, found: _FoundAblations) -> Iterator[ModelArea]:
    """At the last layer, and the tokens at the end of the text that the paper doubles."""
    layer = max(layer for layer, _ in main.places)
    ends = [at for at, (own, token) in enumerate(main.places) if own == layer and token in (-1, *TOKENS)]
    places = ends or [at for at, (own, _) in enumerate(main.places) if own == layer]
    kinds = ["xgboost", "logistic", "mlp"]
    if find_spec("torch") is None:
        found.missing["the classifier swiglu"] = "it needs the package torch, which the extra `generate` brings"
    else:
        kinds.append("swiglu")
    yield from by_model(main, _spread(places, FEW_PLACES), kinds, study.asked.seeds, study.asked.settings.level)


def _suffixes(
    study: LatentStudy, pool: str, main: PlacedTraces | None, table: np.ndarray | None
) -> Iterator[SuffixArea]:
    measured = next((one for one in study.pools if one.pool == pool), study.main)
    traces, level = measured.traces, study.asked.settings.level
    size = int(traces.unit.max()) + 1
    scores = traces.suffixes_of(range(1, min(LONGEST, traces.longest) + 1))
    known = ~np.isnan(scores[1]) if scores else np.zeros(len(traces.right), bool)
    tokens = [-token for _, token in main.places if token < 0] if main is not None else []
    for length in range(1, min(LONGEST, max([*scores, *tokens], default=0)) + 1):
        logprob = states = None
        if length in scores:
            logprob = pooled_area(scores[length][known], traces.right[known], traces.unit[known], size).interval(level)
        if main is not None and table is not None:
            within = [at for at, (_, token) in enumerate(main.places) if -length <= token < 0]
            if within:
                states = pooled(main, joint(table, within), ~main.train).interval(level)
        if logprob is not None or states is not None:
            yield SuffixArea(length, logprob, states)


def _entropy(study: LatentStudy, found: _FoundAblations) -> VotesEntropy | None:
    source = study.strategies.source if study.strategies is not None else None
    pool = source.pool if source is not None else study.main.pool
    probe = source.probe if source is not None else None
    scored = {one.pool: one.verifier for one in study.pools}
    verifier = scored.get(probe or pool)
    told = None
    if verifier is not None:
        level = study.asked.settings.level
        told = votes_entropy(study.log, verifier, pool=pool, probe=probe, where=study.where, level=level)
    if told is None:
        found.missing[ENTROPY] = "too few questions have a scored first attempt and several votes beside it"
    return told


def _votes(study: LatentStudy, found: _FoundAblations) -> Iterator[VotesAt]:
    own = _pools_with_several(study)
    if len({degree for pool, degree in temperatures(study.log).items() if pool in own}) < 2:
        found.missing[VOTES] = FEW_DEGREES
        return
    frame = by_temperature(study.log, where=study.where, settings=study.asked.settings)
    frame = frame.filter(pl.col("metric") == "majority", pl.col("pool").is_in(own), pl.col("estimate").is_not_null())
    if frame["temperature"].n_unique() < 2:
        found.missing[VOTES] = FEW_DEGREES
        return
    for row in frame.sort("k", "temperature").iter_rows(named=True):
        accuracy = Interval(row["estimate"], row["low"], row["high"], row["n"], None)
        yield VotesAt(row["temperature"], row["k"], accuracy)


def _pools_with_several(study: LatentStudy) -> list[str]:
    counted = study.log.scan("traces", ["pool", "action", "example_id"]).filter(pl.col("action") == "solve")
    sizes = collect(counted.group_by("pool").agg(most=pl.len() / pl.col("example_id").n_unique()), study.log)
    return sizes.filter(pl.col("most") > 1)["pool"].to_list()
