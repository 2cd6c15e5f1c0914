"""Everything that the study of fact checking under a verifier budget computes on one log, before it is laid out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import polars as pl

from replay.analyses.device_seconds import device_seconds
from replay.analyses.pool_depth import Depth, gold_within, pool_depth, unresolved
from replay.analyses.setting_sweep import SettingSweep
from replay.analyses.verifier_calibration import VerifierCalibration, calibrations
from replay.analyses.wall_clock import WallClock, wall_clock
from replay.data.conditions import examples_of, matching, of_dataset, refuse_overlap
from replay.data.contents import read_contents
from replay.runs.coverage_notes import FREE, WARN_EXCLUDED
from replay.studies.factcheck import runs, sensitivity
from replay.studies.factcheck.cases import example_cases
from replay.studies.factcheck.fixed_budgets import (
    BudgetGap,
    FixedBudgets,
    Validation,
    reported_budgets,
    validation_budgets,
)
from replay.studies.factcheck.published import TOTALS, published_claims
from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE, VERIFYING, FactcheckSetting, Methods
from replay.studies.factcheck.variants import Variants, variants
from replay.studies.kit.budget_tables import lacking
from replay.studies.kit.cases import Cases
from replay.studies.kit.cells import warnings_of
from replay.studies.kit.choices import label_spaces, listwise_verifiers, refuse_listwise, verifiers_of
from replay.studies.kit.gaps import reasons, told_left_out
from replay.studies.kit.published import PublishedDataset
from replay.studies.kit.runs import PolicyOfRun
from toolkit.errors import ThinkbackError, argument, listed
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log
from toolkit.notes import Note, note, warning
from toolkit.show import ShownInterval

MAIN = ("5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "B.1", "B.2", "B.3")
OTHER, LARGER, FIXED = ("5.8", "5.9", "5.10"), ("5.11", "5.12", "5.13"), ("B.4", "budgets")
"""Tables of the main comparison, of another verifier, of larger caps, and of fixed budgets."""
SECONDS = ("trace seconds", "verification seconds", "trace device seconds", "verification device seconds")
UNSHOWN = frozenset({"finalizers", "truncated", "queries", "action_tokens", "device_s", "verification_tokens"})
"""Metrics of a run that no table of the study shows, so that notes on them are left out."""
CLASSES = {"supports": "T", "true": "T", "refutes": "F", "false": "F", "conflicting": "C"}
"""The thesis's letters for its three classes, by what a log calls them."""


@dataclass(frozen=True)
class Study:
    """Results on one data set of a log.

    `name` is the log's, and the data set's where there are several. `missing`: why numbers of a table could not be
    computed, by the table's number or what it is of. `warnings`: what must be said above it; "" those of the main
    comparison, for every table that has none of its own.
    """

    name: str
    dataset: str
    simulated: bool
    labels: tuple[str, ...]
    setting: FactcheckSetting
    depth: Depth  # of the pool
    main: Methods
    other: Methods
    caps: Mapping[int, Methods]
    reported: tuple[FixedBudgets, ...]  # of the pool up to the cap, and of the whole pool where it is larger
    budget_gaps: tuple[BudgetGap, ...]
    gold: pl.DataFrame
    unresolved: pl.DataFrame
    sensitivity: SettingSweep
    surrogate_keys: SettingSweep
    validation: Validation
    averaged: Methods  # over random orders of the pool
    variants: Variants
    calibration: tuple[VerifierCalibration, ...]
    cases: Cases
    # Per claim, of (method, part); empty without device seconds
    device_s: Mapping[tuple[str, str], ShownInterval | None]
    wall: WallClock
    surrogate_s: float | None  # seconds per claim that replay spent on the surrogate
    features_note: str = ""  # where the surrogate does without some of the thesis's features
    notes: tuple[Note, ...] = ()
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warnings: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def fixed_budgets(self) -> list[FixedBudgets]:
        """Budgets of the claims reported, and of the validation split."""
        return [*self.reported, *([] if self.validation.fixed is None else [self.validation.fixed])]

    @property
    def verifier(self) -> str:
        """The verifier of the main comparison."""
        return self.setting.verifier

    @property
    def random_seed(self) -> int:
        """What the random order was drawn from."""
        return self.setting.random_seed

    @property
    def left_out(self) -> dict[str, Mapping[str, str]]:
        """Claims that each comparison leaves out, with the reason."""
        results = {"main": self.main.result, f"verifier {self.setting.other_verifier}": self.other.result}
        results |= {f"cap {cap}": methods.result for cap, methods in self.caps.items()}
        results |= {f"budgets, {fixed.name}": fixed.made.result for fixed in self.fixed_budgets}
        return {name: result.excluded for name, result in results.items() if result is not None}

    @property
    def letters(self) -> dict[str, str]:
        """The classes by the thesis's letters for them; empty where they are not its three."""
        found = {CLASSES.get(label.lower()): label for label in self.labels}
        return {x: found[x] for x in "TFC"} if len(self.labels) == 3 and set(found) == set("TFC") else {}

    @property
    def eur_per_h(self) -> float:
        """Price of an hour of the device."""
        return self.setting.kw * self.setting.eur_per_kwh

    def published(self, number: str, runs: Sequence[Methods], **keys: object) -> dict[str, Any]:
        """What a row of a table has of the published one: its numbers, and those that are of another number of claims.

        `runs`: what the table is of.
        """
        numbers = self.setting.published
        if numbers is None:
            return {}
        return {"published": numbers.row(number, **keys), "unlike": TOTALS if self.other_claims(runs) else frozenset()}

    def other_claims(self, runs: Sequence[Methods]) -> bool:
        """Whether runs are of another number of claims than the published ones."""
        return any(methods.n not in (0, published_claims(self.setting.published)) for methods in runs)


@dataclass(frozen=True)
class Method(PolicyOfRun):
    """One method of one comparison on a data set."""

    cells: Methods
    study: Study


def study_log(
    log: Log, setting: FactcheckSetting, published: Sequence[PublishedDataset] = (),
    pools: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Study, ...]:  # fmt: skip
    """Replay everything on each data set of a log, whose claims are never pooled.

    `pools`: of data sets that have another one than the setting's. Of `published` each data set gets the numbers of
    its own name, and a single one those that are named alone. Raises ThinkbackError where some claims have no class
    labels, a verifier is listwise, or a main comparison cannot be replayed.
    """
    if setting.dev is not None:
        learnt = matching(log, setting.dev, "dev")
        refuse_overlap(log, learnt, setting.claims(log)["example_id"], "dev", setting.dev)
    spaces = label_spaces(setting.claims(log, "dataset", "labels"), "the study of fact checking")
    own = {
        dataset: replace(_of_dataset(log, setting, dataset, spaces, published), pool=pools.get(dataset, setting.pool))
        for dataset in spaces
    }
    listwise = {pool: listwise_verifiers(log, pool) for pool in {one.pool for one in own.values()}}
    for pool, names in listwise.items():
        refuse_listwise(names, pool, setting.verifier, setting.other_verifier)
    return tuple(
        study_dataset(log, dataset, labels, own[dataset], listwise[own[dataset].pool])
        for dataset, labels in spaces.items()
    )


def _of_dataset(
    log: Log, setting: FactcheckSetting, dataset: str, every: Collection[str], published: Sequence[PublishedDataset]
) -> FactcheckSetting:
    """What is asked of a data set: its own claims, those of its own to learn from, and its own published numbers."""
    own = next((one for one in published if one.dataset == one.work.dataset(dataset)), None)
    if len(every) == 1:
        return replace(setting, published=own or (published[0] if len(published) == 1 else None))
    asked, dev = {**setting.asked, "where": of_dataset(setting.where, dataset)}, None
    if setting.dev is not None:
        learnt = examples_of(log, matching(log, setting.dev, "dev"), ["dataset"])["dataset"]
        dev = of_dataset(setting.dev, dataset) if (learnt == dataset).any() else None
    return replace(setting, asked=asked, dev=dev, published=own, alone=False)


def study_dataset(
    log: Log, dataset: str, labels: tuple[str, ...], setting: FactcheckSetting, listwise: Collection[str] = ()
) -> Study:
    """Replay everything on one data set."""
    where, settings, pool, verifier = setting.where, setting.settings, setting.pool, setting.verifier
    depth = pool_depth(log, pool, where)
    if setting.cap > depth.largest > 0:
        most = f"pool `{pool}` has {depth.largest} traces a claim"
        raise ThinkbackError(f"{argument('cap')} is {setting.cap}, and {most}: take at most as many")
    main = runs.replay_methods(log, setting)
    other = Methods(None, verifier, setting.cap)
    others = sorted(verifiers_of(log, None if setting.alone else where) - {verifier, *listwise})
    if setting.other_verifier is None and len(others) == 1:
        setting = replace(setting, other_verifier=others[0])
    if setting.other_verifier is not None:
        other = runs.replay_if_served(log, replace(setting, verifier=setting.other_verifier))
    by_cap = {cap: runs.replay_if_served(log, replace(setting, cap=cap), (BEST, ADAPTIVE)) for cap in setting.caps}
    fixed, gaps = reported_budgets(log, setting, sorted({setting.cap, depth.size}))
    swept, keys = sensitivity.sensitivity(log, setting, depth.size), sensitivity.surrogate_keys(log, setting)
    averaged = runs.replay_if_served(log, setting, VERIFYING, orders=setting.orders)
    further = variants(log, setting)
    open_ = unresolved(log, pool, verifier, depth.size, margin=setting.margin, where=where, settings=settings)
    missing = _missing(main, other, by_cap, pool, depth.largest)
    if setting.other_verifier is None:
        nothing = "the log has one verifier that scores each trace alone, so nothing is compared"
        several = f"the log has {len(others)} other verifiers ({listed(others)}): name one with `other_verifier`"
        missing |= {number: [several if others else nothing] for number in OTHER}
    validation = validation_budgets(log, setting, dataset)
    missing |= {number: [*map(str, gaps), *validation.missing] for number in FIXED}
    missing |= {
        "sensitivity": sensitivity.told_missing(swept),
        "keys": list(dict.fromkeys(keys.missing.values())), "orders": reasons(averaged.missing),
    }  # fmt: skip
    scoring = [name for name in (verifier, setting.other_verifier) if name is not None]
    spent = main.result.provenance["surrogate_s_per_example"] if main.result is not None else {}
    parts: Mapping[tuple[str, str], ShownInterval | None] = {}
    if main.result is not None and main.priced_by == "device_s":
        parts = device_seconds(log, pool, main.result, settings)
    budgets = [*fixed, *([] if validation.fixed is None else [validation.fixed])]
    return Study(
        name=log.name if setting.alone else f"{log.name}, {dataset}",
        dataset=dataset,
        simulated=log.simulated,
        labels=labels,
        setting=setting,
        depth=depth,
        main=main,
        other=other,
        caps=by_cap,
        reported=fixed,
        budget_gaps=gaps,
        gold=gold_within(log, pool, depth.size, where=where, settings=settings),
        unresolved=open_,
        sensitivity=swept,
        surrogate_keys=keys,
        validation=validation,
        averaged=averaged,
        variants=further,
        calibration=tuple(calibrations(log, pool, scoring, cap=setting.cap, where=where, settings=settings)),
        cases=example_cases(log, setting, main),
        device_s=parts,
        wall=wall_clock(log, pool, verifier, traces=setting.cap, depth=depth, where=where),
        surrogate_s=spent.get(SURROGATE),
        features_note=features_note(setting.features, read_contents(log).features),
        notes=(*_claims(log, main, depth, setting.dev), *_notes(main)),
        missing=missing,
        warnings={
            "": main.warnings,
            **dict.fromkeys(FIXED, _once(warnings_of(one.made.result) for one in budgets)),
            "sensitivity": warnings_of(swept.result),
            "keys": warnings_of(keys.result),
            "orders": averaged.warnings,
            "variants": warnings_of(further.result),
            "unresolved": (*main.warnings, *_many_left_out(depth, open_)),
            **dict.fromkeys(OTHER, other.warnings),
            **dict.fromkeys(LARGER, _once(methods.warnings for methods in by_cap.values())),
        },
    )


def _once(warnings: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(warnings)))


def _many_left_out(depth: Depth, shares: pl.DataFrame) -> Iterator[str]:
    if (missing := lacking(depth, shares)) > WARN_EXCLUDED * depth.claims:
        yield str(warning("many_left_out", f"{missing:,} of {depth.claims:,} claims are left out"))


def _claims(log: Log, main: Methods, depth: Depth, dev: str | None) -> Iterator[Note]:
    """How many claims are reported, and how many are not because they are learnt from."""
    of = "" if main.n == depth.claims else f" of the {depth.claims:,} that are asked about"
    yield note("claims", f"{main.n:,} claims{of} are reported")
    if dev is not None:
        learnt = len(matching(log, dev, "dev"))
        yield note("learnt", f"{learnt:,} claims of `dev` ({dev}) are learnt from and not reported")


def _notes(main: Methods) -> tuple[Note, ...]:
    """What the run says of numbers that tables show. Costs that count as free there are dashes here, and said to be."""
    notes = main.result.notes if main.result is not None else ()
    left_out = told_left_out(main.result.excluded) if main.result is not None else ()
    shown = (one for one in notes if one.code != FREE and not (one.metrics and set(one.metrics) <= UNSHOWN))
    unlogged = (note("unlogged", text) for text in main.unlogged().values())
    return (*(note("left_out_file", text) for text in left_out), *shown, *unlogged)


def _missing(
    main: Methods, other: Methods, by_cap: Mapping[int, Methods], pool: str, largest: int
) -> dict[str, list[str]]:
    """By table: methods that cannot be served, seconds and tokens that are not logged."""
    beyond = [cap for cap in by_cap if cap > largest]
    capped = [
        f"cap {cap}: {why}" for cap, methods in by_cap.items() if cap not in beyond for why in reasons(methods.missing)
    ]
    if beyond:
        caps = f"cap {beyond[0]} is a dash" if len(beyond) == 1 else f"caps {', '.join(map(str, beyond))} are dashes"
        capped.append(f"pool `{pool}` has {largest} traces a claim, so {caps}")
    missing = {number: reasons(main.missing) for number in MAIN}
    missing |= dict.fromkeys(OTHER, reasons(other.missing)) | dict.fromkeys(LARGER, capped)
    seconds = {"5.5": [main], "5.7": [main], "B.2": [main], "5.10": [other], "5.13": list(by_cap.values())}
    wanted = [(number, kind, made) for number, all_of in seconds.items() for kind in SECONDS for made in all_of]
    for number, kind, methods in (*wanted, ("5.4", "trace tokens", main)):
        why = methods.unlogged().get(kind)
        missing[number] = list(dict.fromkeys([*missing[number], *([why] if why else [])]))
    return missing


def features_note(used: Sequence[str], known: Collection[str]) -> str:
    """Which features the surrogate reads and which of the thesis's five it does without; "" where it has them all."""
    without = [name for name in CLAIM_FEATURES if name not in used]
    if not without:
        return ""
    reads = listed(used) or "no feature, only the answers and scores so far"
    lacking, spurned = ([name for name in without if (name in known) == has] for has in (False, True))
    why = [f"the log lacks {listed(lacking)}"] if lacking else []
    why += [f"{listed(spurned)} {'is' if len(spurned) == 1 else 'are'} not asked for"] if spurned else []
    return f"the surrogate reads {reads}; of the thesis's five features, {'; '.join(why)}"
