"""Everything that the study of fact checking under a verifier budget computes on one log, before it is laid out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any

from replay.analyses.budgets.pool_depth import pool_depth
from replay.analyses.budgets.wall_clock import WallClock, wall_clock
from replay.analyses.report.verifier_calibration import VerifierCalibration, calibrations
from replay.analyses.tune.fitted import SettingSweep
from replay.data.conditions import matching, refuse_overlap
from replay.data.contents import read_contents
from replay.runs.passes.coverage import WARN_EXCLUDED
from replay.studies.factcheck import budgets
from replay.studies.factcheck.budgets import FixedBudgets, Variants, VerifierBudgets, variants, verifier_budgets
from replay.studies.factcheck.cases import Cases, example_cases
from replay.studies.factcheck.published import ORDER_COLUMNS, TOTALS, pool_of, published_claims
from replay.studies.factcheck.runs import (
    ADAPTIVE,
    BEST,
    SURROGATE,
    VERIFYING,
    Methods,
    claims_told,
    notes_shown,
    replay_if_served,
    replay_methods,
    with_device_seconds,
)
from replay.studies.factcheck.setting import (
    FactcheckSetting,
    features_note,
    label_spaces,
    listwise_verifiers,
    refuse_listwise,
    verifiers_of,
)
from replay.studies.kit.cells import reasons, warnings_of
from replay.studies.kit.published import PublishedDataset
from toolkit.errors import InvalidError, argument, listed
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log
from toolkit.notes import Note, warning

MAIN = ("5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "B.1", "B.2", "B.3")
OTHER, LARGER, FIXED = ("5.8", "5.9", "5.10"), ("5.11", "5.12", "5.13"), ("B.4", "budgets")
"""Tables of the main comparison, of another verifier, of larger caps, and of fixed budgets."""
SECONDS = ("trace seconds", "verification seconds", "trace device seconds", "verification device seconds")
TAKES = dict.fromkeys(("5.5", "5.7", "B.2", "5.10", "5.13"), SECONDS) | {"5.4": ("trace tokens",)}
"""What tables take that may not be logged."""
UNSHOWN = frozenset({"finalizers", "truncated", "queries", "action_tokens", "device_s", "verification_tokens"})
"""Metrics of a run that no table of the study shows, so that notes on them are left out."""


@dataclass(frozen=True)
class Study:
    """Results on one data set of a log, and what the thesis has beside them.

    `name` is the log's, and the data set's where there are several.
    """

    name: str
    dataset: str
    simulated: bool
    labels: tuple[str, ...]
    setting: FactcheckSetting
    others: tuple[str, ...]  # verifiers that the other one may be
    main: Methods
    other: Methods
    caps: Mapping[int, Methods]
    averaged: Methods  # over random orders of the pool
    budgets: VerifierBudgets
    sensitivity: SettingSweep
    surrogate_keys: SettingSweep
    variants: Variants
    calibration: tuple[VerifierCalibration, ...]
    cases: Cases
    wall: WallClock
    features_note: str = ""  # where the surrogate does without some of the features that it might read
    notes: tuple[Note, ...] = ()

    @property
    def surrogate_s(self) -> float | None:
        """Seconds per example that replay spent on the surrogate."""
        spent = {} if self.main.result is None else self.main.result.provenance["surrogate_s_per_example"]
        return spent.get(SURROGATE)

    @property
    def left_out(self) -> dict[str, Mapping[str, str]]:
        """Examples that each comparison leaves out, with the reason."""
        runs = {"main": self.main, f"verifier {self.setting.other_verifier}": self.other}
        runs |= {f"cap {cap}": run for cap, run in self.caps.items()}
        found = {name: run.result.excluded for name, run in runs.items() if run.result is not None}
        return {**found, **self.budgets.excluded}

    def runs_of(self, number: str) -> Sequence[Methods]:
        """What a table is of."""
        return [self.other] if number in OTHER else list(self.caps.values()) if number in LARGER else [self.main]

    def published(self, number: str, **keys: object) -> dict[str, Any]:
        """What a row of a table has of the published one: its numbers, and those of another number of claims."""
        numbers = self.setting.published
        if numbers is None:
            return {}
        return {
            "published": numbers.row(number, **keys),
            "unlike": TOTALS if self.other_claims(number) else frozenset(),
        }

    def other_claims(self, number: str) -> bool:
        """Whether a table is of another number of claims than the published one."""
        return any(run.n not in (0, published_claims(self.setting.published)) for run in self.runs_of(number))

    def published_budget(self, fixed: FixedBudgets, k: int) -> dict[str, Any]:
        """The same of a pool in table B.4 at one budget."""
        numbers = self.setting.published
        if numbers is None:
            return {}
        pool = pool_of(numbers.dataset, fixed.split, fixed.made.max_traces)
        return self.published("B.4", pool=pool.name, pool_traces=pool.size, k=k)

    def points(self, fixed: FixedBudgets, order: str, ks: Sequence[int]) -> dict[int, float]:
        """The published points of an order, as fractions."""
        rows = {k: self.published_budget(fixed, k).get("published", {}) for k in ks if order in ORDER_COLUMNS}
        return {k: row[ORDER_COLUMNS[order]] / 100 for k, row in rows.items() if ORDER_COLUMNS[order] in row}

    @cached_property
    def missing(self) -> Mapping[str, Sequence[str]]:
        """Why numbers of a table could not be computed, by the table's number or what it is of."""
        nothing = "the log has one verifier that scores each trace alone, so nothing is compared"
        named = "name one (`--other-verifier`, in Python `other_verifier`)"
        several = f"the log has {len(self.others)} other verifiers ({listed(self.others)}): {named}"
        why: dict[str, Sequence[str]] = {number: reasons(self.main.missing) for number in MAIN}
        why |= dict.fromkeys(OTHER, reasons(self.other.missing)) | dict.fromkeys(LARGER, tuple(self._caps_missing()))
        for number, kinds in TAKES.items():
            unlogged = (run.unlogged().get(kind) for kind in kinds for run in self.runs_of(number))
            why[number] = list(dict.fromkeys([*why[number], *filter(None, unlogged)]))
        if self.setting.other_verifier is None:
            why |= {number: [several if self.others else nothing] for number in OTHER}
        return why | dict.fromkeys(FIXED, self.budgets.missing) | {
            "sensitivity": budgets.told_missing(self.sensitivity),
            "keys": list(dict.fromkeys(self.surrogate_keys.missing.values())),
            "orders": reasons(self.averaged.missing),
        }  # fmt: skip

    def _caps_missing(self) -> Iterator[str]:
        largest = self.budgets.depth.largest
        beyond = [cap for cap in self.caps if cap > largest]
        for cap, run in self.caps.items():
            yield from (f"cap {cap}: {why}" for why in reasons(run.missing) if cap not in beyond)
        if beyond:
            caps = (
                f"cap {beyond[0]} is a dash" if len(beyond) == 1 else f"caps {', '.join(map(str, beyond))} are dashes"
            )
            yield f"pool `{self.setting.pool}` has {largest} traces a claim, so {caps}"

    @cached_property
    def warnings(self) -> Mapping[str, Sequence[str]]:
        """What must be said above a table; "" of the main comparison, above every table that has none of its own."""
        main = self.main.warnings
        return {
            "": main,
            **dict.fromkeys(FIXED, _once(warnings_of(one.made.result) for one in self.budgets.pools)),
            "sensitivity": warnings_of(self.sensitivity.result),
            "keys": warnings_of(self.surrogate_keys.result),
            "orders": self.averaged.warnings,
            "variants": warnings_of(self.variants.result),
            "unresolved": (*main, *self._many_unresolved()),
            **dict.fromkeys(OTHER, self.other.warnings),
            **dict.fromkeys(LARGER, _once(run.warnings for run in self.caps.values())),
        }

    def _many_unresolved(self) -> Iterator[str]:
        claims, missing = self.budgets.depth.claims, self.budgets.lacking(self.budgets.unresolved)
        if missing > WARN_EXCLUDED * claims:
            yield str(warning("many_left_out", f"{missing:,} of {claims:,} claims are left out"))


def _once(warnings: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(warnings)))


def study_log(
    log: Log, setting: FactcheckSetting, published: Sequence[PublishedDataset] = (),
    pools: Mapping[str, str] = MappingProxyType({}), without: Collection[str] = (),
) -> tuple[Study, ...]:  # fmt: skip
    """Replay everything on each data set of a log, whose claims are never pooled.

    `pools`: of data sets that have another one than the setting's; `without`: data sets to leave out. Of `published`
    each data set gets the numbers of its own name, and a single one those that are named alone.

    Raises ThinkbackError where some claims have no class labels, a verifier is listwise, or a main comparison cannot be
    replayed.
    """
    if setting.dev is not None:
        learnt = matching(log, setting.dev, "dev")
        refuse_overlap(log, learnt, setting.claims(log)["example_id"], "dev", setting.dev)
    spaces = label_spaces(setting.claims(log, "dataset", "labels"), "the study of fact checking")
    own = {
        dataset: replace(setting.of_dataset(log, dataset, spaces, published), pool=pools.get(dataset, setting.pool))
        for dataset in spaces
        if dataset not in without
    }
    listwise = {pool: listwise_verifiers(log, pool) for pool in {one.pool for one in own.values()}}
    for pool, names in listwise.items():
        refuse_listwise(names, pool, setting.verifier, setting.other_verifier)
    return tuple(study_dataset(log, name, spaces[name], one, listwise[one.pool]) for name, one in own.items())


def study_dataset(
    log: Log, dataset: str, labels: tuple[str, ...], setting: FactcheckSetting, listwise: Collection[str] = ()
) -> Study:
    """Replay everything on one data set."""
    where, pool, verifier = setting.where, setting.pool, setting.verifier
    depth = pool_depth(log, pool, where)
    if setting.cap > depth.largest > 0:
        most = f"pool `{pool}` has {depth.largest} traces a claim"
        raise InvalidError(f"{argument('cap')} is {setting.cap}, and {most}: take at most as many")
    main = with_device_seconds(log, setting, replay_methods(log, setting))
    other = Methods(None, verifier, setting.cap)
    others = sorted(verifiers_of(log, None if setting.alone else where) - {verifier, *listwise})
    if setting.other_verifier is None and len(others) == 1:
        setting = replace(setting, other_verifier=others[0])
    if setting.other_verifier is not None:
        other = replay_if_served(log, replace(setting, verifier=setting.other_verifier))
    scoring = [name for name in (verifier, setting.other_verifier) if name is not None]
    return Study(
        log.name if setting.alone else f"{log.name}, {dataset}", dataset, log.simulated, labels, setting,
        tuple(others), main, other,
        caps={
            cap: replay_if_served(log, replace(setting, cap=cap), (BEST, ADAPTIVE)) for cap in setting.caps
        },
        averaged=replay_if_served(log, setting, VERIFYING, orders=setting.orders),
        budgets=verifier_budgets(log, setting, dataset, depth),
        sensitivity=budgets.sensitivity(log, setting, depth.size),
        surrogate_keys=budgets.surrogate_keys(log, setting),
        variants=variants(log, setting),
        calibration=tuple(calibrations(log, pool, scoring, cap=setting.cap, where=where, settings=setting.settings)),
        cases=example_cases(log, setting, main),
        wall=wall_clock(log, pool, verifier, traces=setting.cap, depth=depth, where=where),
        features_note=features_note(setting.features, read_contents(log).features, CLAIM_FEATURES, "the thesis's five"),
        notes=(*claims_told(log, main.n, depth.claims, setting.dev), *notes_shown(main, UNSHOWN)),
    )  # fmt: skip
