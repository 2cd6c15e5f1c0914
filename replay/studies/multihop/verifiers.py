"""Verifiers of chains: how well they tell right from wrong ones, what they were trained on, what they fix and spoil."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.studies.kit.cells import interval_cell
from replay.studies.kit.runs import StudyRun, joint_cells, mean_cell
from replay.studies.multihop.chains import CHAINS, AnswerPool, Answers
from replay.studies.multihop.selection import BEST, LISTWISE, SINGLE_SHOT, Selection, Way
from toolkit.errors import require_known
from toolkit.log import Log, collect, source_parts
from toolkit.show import IntervalCell
from toolkit.stats import Settings, unit_numbers
from toolkit.stats.curves.calibration import ClusteredCalibration, clustered_calibration
from toolkit.stats.curves.roc import grouped_auc, pooled_auc

ENCODER, DECODER, PROMPTED, REASONER = ROLES = ("encoder", "decoder", "prompted", "reasoner")
_PROMPTED = ("listwise", "judge", "reflection")
_DECODERS = ("llama", "gpt", "qwen", "mistral", "gemma", "phi", "opt", "decoder")
_REASONERS = ("deepseek", "r1", "o1", "o3", "qwq", "reason", "think")
ALL = "all"
"""The row of all types together."""


@dataclass(frozen=True)
class VerifierQuality:
    """How well a verifier's scores tell right chains of a pool from wrong ones, over all and within questions."""

    verifier: str
    pool: AnswerPool
    pooled: IntervalCell | None
    within: IntervalCell | None
    calibration: ClusteredCalibration


@dataclass(frozen=True)
class TrainingCounts:
    """The chains that a verifier was trained on, at one step of their choice."""

    verifier: str
    step: str
    right: int
    wrong: int


@dataclass(frozen=True)
class FixesAndFlips:
    """What a way of selecting by a verifier changes against the single shot, in percent of the questions of a type.

    `share`: of all its fixes, those of this type.
    """

    way: Way
    type: str
    questions: int
    fixes: IntervalCell | None
    flips: IntervalCell | None
    difference: IntervalCell | None
    share: IntervalCell | None


def _verifier_records(log: Log) -> Iterator[tuple[str, Mapping[str, object]]]:
    for part in source_parts(log.manifest.source if log.manifest is not None else None):
        section = part.get("verifiers")
        for name, entry in section.items() if isinstance(section, Mapping) else ():
            if isinstance(entry, Mapping):
                yield name, entry


def verifier_roles(log: Log, known: frozenset[str], named: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the verifier of each role: the one that is named, else the first that is not named for another and whose
    record in the manifest, or whose name, says so. Raises ThinkbackError for an unknown name.
    """
    for role, name in named.items():
        if name is not None:
            require_known(name, known, f"no verifier for `{role}` is called `{name}`")
    records = dict(_verifier_records(log))
    roles = {role: name for role, name in named.items() if name is not None}
    for name in sorted(known.difference(roles.values())):
        roles.setdefault(_role_of(name, records.get(name, {})), name)
    return {role: roles[role] for role in ROLES if role in roles}


def _role_of(name: str, record: Mapping[str, object]) -> str:
    """Returns the role of a verifier by its record in the manifest and its name; empty where neither says."""
    training = record.get("training")
    base = training.get("base") if isinstance(training, Mapping) else None
    words = " ".join(str(one) for one in (name, base or "", record.get("model") or "")).lower()
    kind = record.get("kind")
    if kind in _PROMPTED or "prompt" in words:
        return REASONER if any(reasoner in words for reasoner in _REASONERS) else PROMPTED
    if kind == "classifier" or "encoder" in words or "bert" in words:
        return DECODER if any(decoder in words for decoder in _DECODERS) else ENCODER
    return DECODER if "decoder" in words else ""


def training_counts(log: Log) -> list[TrainingCounts]:
    """Returns what `thinkback fit` recorded of the chains that each verifier of a log was trained on."""
    rows = []
    for name, record in _verifier_records(log):
        training = record.get("training")
        trained = training.get("trained") if isinstance(training, Mapping) else None
        counts = trained.get("counts") if isinstance(trained, Mapping) else None
        for step, sides in counts.items() if isinstance(counts, Mapping) else ():
            rows.append(TrainingCounts(name, step, int(sides["right"]), int(sides["wrong"])))
    return rows


def measure_verifiers(log: Log, answers: Answers, settings: Settings) -> list[VerifierQuality]:
    """Measures every verifier on every pool of chains in which it scored right ones and wrong ones."""
    pools = {pool.name: pool for pool in answers.of_form(CHAINS)}
    if not pools or not log.has("verifications"):
        return []
    rows = answers.traces.filter(pl.col("pool").is_in(list(pools)) & pl.col("correct").is_not_null())
    scores = log.scan("verifications", ["trace_id", "verifier", "score"]).filter(
        pl.col("trace_id").is_in(rows["trace_id"].implode()) & pl.col("score").is_not_null()
    )
    scored = rows.join(collect(scores, log), on="trace_id").join(
        answers.examples.select("example_id", unit=pl.Series(answers.unit)), on="example_id"
    )
    parts = scored.sort("trace_id").partition_by("verifier", "pool", as_dict=True)
    there = [(key, part) for key, part in sorted(parts.items()) if part["correct"].n_unique() > 1]
    return [_verifier_quality(str(name), pools[str(pool)], part, settings) for (name, pool), part in there]


def _verifier_quality(verifier: str, pool: AnswerPool, rows: pl.DataFrame, settings: Settings) -> VerifierQuality:
    score, right = rows["score"].to_numpy(), rows["correct"].to_numpy().astype(bool)
    unit = unit_numbers(rows["unit"].to_numpy())
    size = int(unit.max()) + 1
    areas = pooled_auc(score, right, unit, size), grouped_auc(score, right, rows["example_id"].to_numpy(), unit, size)
    pooled, within = (
        None if np.isnan(area.estimate) else interval_cell(area.interval(settings.level), 100) for area in areas
    )
    calibration = clustered_calibration(score, right.astype(float), unit, settings=settings)
    return VerifierQuality(verifier, pool, pooled, within, calibration)


def fixes_and_flips(selection: Selection, types: pl.DataFrame, settings: Settings) -> list[FixesAndFlips]:
    """Returns what every verifier fixes and spoils on retrieved evidence, by question type; the limits of differences
    hold for all rows of a verifier and pool at once. `types` has example_id and `question_type`, null where unknown.
    """
    rows: list[FixesAndFlips] = []
    run = selection.run
    names = run.ids.to_frame("example_id").join(types, on="example_id", how="left", maintain_order="left")
    kinds = names["question_type"].fill_null("unknown").to_numpy()
    every = [ALL, *sorted(set(kinds))] if names["question_type"].n_unique() > 1 else [ALL]
    for way in selection.replayed:
        single = selection.way(way.pool, SINGLE_SHOT)
        if way.selector in (BEST, LISTWISE) and single is not None and not way.pool.is_gold:
            rows += _rows_by_type(run, way, single, kinds, every, settings)
    return rows


def _rows_by_type(
    run: StudyRun, way: Way, single: Way, kinds: np.ndarray, every: Sequence[str], settings: Settings
) -> Iterator[FixesAndFlips]:
    before, after = run.values(single.name), run.values(way.name)
    fix, flip = (1 - before) * after, before * (1 - after)
    on = {kind: np.ones(len(kinds), bool) if kind == ALL else kinds == kind for kind in every}
    columns = {kind: tuple(np.where(mask, one, np.nan) for one in (after, before)) for kind, mask in on.items()}
    joint = joint_cells(columns, run.unit, settings)  # type: ignore[arg-type]
    for kind, mask in on.items():
        fixes, flips = (mean_cell(np.where(mask, one, np.nan), run.unit, settings) for one in (fix, flip))
        share = _share_of(np.where(mask, fix, 0.0), fix, run.unit, settings)
        yield FixesAndFlips(way, kind, int(mask.sum()), fixes, flips, joint.get(kind), share)


def _share_of(some: np.ndarray, every: np.ndarray, unit: np.ndarray, settings: Settings) -> IntervalCell | None:
    """Returns the sum of `some` (E,) as a percentage of that of `every` (E,), with the interval of its linear
    approximation; None where there is nothing to share.
    """
    total = np.nansum(every)
    if not total:
        return None
    share = float(np.nansum(some) / total)
    moved = mean_cell((some - share * every) * len(every) / total, unit, settings)
    if moved is None or moved.low is None or moved.high is None:
        return IntervalCell(100 * share)
    return IntervalCell(100 * share, max(0.0, 100 * share + moved.low), min(100.0, 100 * share + moved.high))
