"""What is computed on each data set of a log of checks (DIVER 2026)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import polars as pl

from replay.data.conditions import (
    examples_where,
    ids_where_or_none,
    in_dataset,
    read_examples,
    refuse_overlap,
    report_condition,
)
from replay.data.contents import Contents, read_contents
from replay.kinds.buzz import CLOSE, BestBuzz, Buzz
from replay.policies.base import Policy
from replay.studies.buzz.acts import Acts, Texts, acts_of
from replay.studies.buzz.cases import IllustrativeCases, choose_cases
from replay.studies.buzz.claims import (
    ALL_VERDICTS,
    EVERY_ROW,
    Claims,
    ConfidenceQuality,
    confidence_qualities,
    read_claims,
)
from replay.studies.buzz.people import People, read_people
from replay.studies.buzz.published import WORK, published_fixed
from replay.studies.buzz.systems import (
    DIRECT,
    DIVER,
    WITHOUT_PART,
    System,
    Systems,
    policy_of,
    read_systems,
    scored_pools,
)
from replay.studies.kit.published import PublishedDataset, PublishedRow, published_name
from replay.studies.kit.runs import (
    Pair,
    StudyRun,
    differences_of_runs,
    joint_cells,
    mean_cell,
    mean_cells,
    replay_covered_policies,
)
from toolkit.errors import ConflictError, UnknownError, argument, counted, suggest
from toolkit.log import Log
from toolkit.show import IntervalCell
from toolkit.stats import Settings

Computed = TypeVar("Computed")
NO_REVISION, ONE_ROUND, BEST = "no revision", "one round", "best in hindsight"
ROWS: Mapping[str, pl.Expr] = {NO_REVISION: pl.col("stage") == "stream", ONE_ROUND: pl.col("round") == 0}
"""Rows that policies without a part follow."""
EXTRACTIONS: Mapping[str, Mapping[str, Any]] = {
    "CE-1": {}, "CE-2": {"max_claims": {"per_unit": 5}}, "CE-3": {"max_claims": {"words_per": 4}},
    "CE-4": {"max_claims": {"per_entity": 3}},
}  # fmt: skip
REVISIONS: Mapping[str, Mapping[str, Any]] = {
    "REV-1": {"revisions": 4}, "REV-2": {"revisions": {"slack": 15}},
    "REV-3": {"revisions": {"words_per": 4, "discount": 1.0}},
}  # fmt: skip
"""Rules of extraction and of revision (appendix A.6), with the paper's settings."""
PAPER = "CE-1 + REV-1"
"""The pair that the paper chose."""
BY_LENGTH = "REV-3"
"""The rule of revision that reads the texts' `length`."""
CONFIDENCES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
SWEPT: Mapping[str, Sequence[float]] = {
    "confidence": CONFIDENCES, "patience": (1, 2, 3, 4), "max_claims": (1, 2, 4, 8, 16), "max_rounds": (1, 2, 3),
}  # fmt: skip
"""Settings of the frontier, by the policy's key."""
SEASON = "season"
"""The column of examples that groups of people are told apart by, where the log has it."""
ON_DEV = " on dev"
"""The end of the names of runs on dev."""
DEV_RESAMPLES = 1_000
"""Resamples of what is only chosen on dev."""


@dataclass(frozen=True)
class BuzzSetting:
    """The settings of the study. `pool` is the main one of checks, `other` that whose errors and verdicts stand beside;
    `dev` the condition of the texts that choices are made on; `by` the column whose groups of people are told apart;
    `speed` the words a second of a text that does not wait; `margin` the loss of accuracy that verdicts tolerate.
    """

    where: str | None = None
    dev: str | None = None
    pool: str | None = None
    other: str | None = None
    by: str = SEASON
    speed: float = 2.5
    margin: float = 0.01
    published: tuple[PublishedDataset, ...] = ()
    settings: Settings = Settings()  # noqa: RUF009 -- frozen


@dataclass(frozen=True)
class Variant:
    """A method as a row of tables: the policy's `name`, its `label`, and whether it is another pool or a policy."""

    name: str
    label: str
    system: System
    is_pool: bool = True

    @property
    def row(self) -> str:
        """What rows of one backbone call it."""
        return self.system.row if self.is_pool else self.label


@dataclass(frozen=True)
class DevChoice:
    """The policy that was most accurate on dev, the first of `ties` that are equally so there, on so many `texts`; no
    `name` without dev.
    """

    name: str | None = None
    ties: int = 0
    texts: int = 0

    @property
    def among(self) -> str:
        """The texts and the policies that it was chosen on and among, in words after its name."""
        where = f"on {counted(self.texts, 'text')}"
        return where if self.ties < 2 else f"{where}, the first of {self.ties} that are equally accurate there"

    @property
    def lines(self) -> list[str]:
        """A table's line on it; none without dev."""
        return [] if self.name is None else [f"Chosen on dev: {self.name}, {self.among}."]


@dataclass(frozen=True, eq=False)
class BuzzStudy:
    """The results on one data set. `where` names its texts, `dev` those that choices are made on; `published` is the
    paper's data set whose numbers stand beside.
    """

    dataset: str
    log: Log
    contents: Contents = field(repr=False)
    setting: BuzzSetting
    where: str
    dev: str | None
    systems: Systems
    published: str | None

    @property
    def simulated(self) -> bool:
        return self.log.simulated

    def _replay(self, policies: Sequence[Policy], without: Iterable[str] = ()) -> StudyRun:
        """The run of policies on the reported texts, `without` the texts with these ids."""
        where, settings = _without_ids(self.where, without), self.setting.settings
        return replay_covered_policies(self.log, self.contents, policies, where=where, settings=settings)

    def _replay_on_dev(self, policies: Sequence[Policy]) -> StudyRun:
        """The run of policies on the texts that choices are made on; empty without any."""
        if self.dev is None:
            return StudyRun()
        settings = replace(self.setting.settings, resamples=min(self.setting.settings.resamples, DEV_RESAMPLES))
        return replay_covered_policies(self.log, self.contents, policies, where=self.dev, settings=settings)

    @cached_property
    def runs(self) -> dict[str, StudyRun]:
        """Every run by its name in notes. Policies that lack some texts, such as those whose `length` is not logged,
        have a run of their own, so that no others lose these texts.
        """
        return {
            "methods": self.run, ONE_ROUND: self.one_round_run, "pairs": self.rule_pairs,
            f"pairs with {BY_LENGTH}": self.length_pairs, "sweep": self.sweep, "clock": self.clock,
            f"baselines{ON_DEV}": self.dev_baselines, f"pairs{ON_DEV}": self.dev_pairs,
            f"pairs with {BY_LENGTH}{ON_DEV}": self.dev_length_pairs, f"thresholds{ON_DEV}": self.dev_thresholds,
        }  # fmt: skip

    # ---- methods ----

    @cached_property
    def _method_policies(self) -> list[Policy]:
        scored = scored_pools(self.log)
        return [policy_of(system, scored) for system in self.systems.every]

    @cached_property
    def run(self) -> StudyRun:
        """The run of every method, and of two policies that can be replayed wherever the main one can: of it without
        revisions, and of the best time to act in hindsight.
        """
        pool = self.systems.main.pool
        without = Buzz(name=NO_REVISION, pool=pool, revisions=0, to_end=True)
        return self._replay([*self._method_policies, without, BestBuzz(name=BEST, pool=pool)])

    @cached_property
    def one_round_run(self) -> StudyRun:
        """The run of the main method and of it without further rounds, which cannot be replayed where revisions
        followed the verdict of a later round; of the texts of `run`. Empty where no claim has a second round.
        """
        main, excluded = self.systems.main, () if self.run.result is None else self.run.result.excluded
        if not self.run.has(main.name) or not self.has_further_rounds:
            return StudyRun()
        without = Buzz(name=ONE_ROUND, pool=main.pool, max_rounds=1, to_end=True)
        return self._replay([policy_of(main, frozenset()), without], excluded)

    def run_of(self, name: str) -> StudyRun:
        """Returns the run in which a method or a variant stands."""
        return self.one_round_run if name == ONE_ROUND else self.run

    @cached_property
    def texts(self) -> Texts:
        """The texts on which all methods are compared."""
        columns = ["question", "length", "gold_error", "gold_position", "human_position", "human_correct",
                   "human_positions", "human_corrects", "density", "hops", self.setting.by]  # fmt: skip
        there = [name for name in dict.fromkeys(columns) if name in self.log.columns("examples")]
        return Texts(read_examples(self.log, self.run.ids, there), self.run.unit)

    @cached_property
    def methods(self) -> list[Variant]:
        """The systems that were replayed."""
        return [Variant(one.name, one.method, one) for one in self.systems.every if self.run.has(one.name)]

    @cached_property
    def variants(self) -> list[Variant]:
        """The main system, and what it is without a part: another pool of its backbone, or a policy. A system that is
        itself one without a part has no other pool.
        """
        main = self.systems.main
        pools = [
            one for one in self.methods
            if one.system is main or (
                one.system.checks and one.system.group == main.group and main.method not in WITHOUT_PART
                and (one.label in WITHOUT_PART or one.label == main.method)
            )
        ]  # fmt: skip
        pools.sort(key=lambda one: one.system is not main)
        there = {ONE_ROUND: self.has_further_rounds, NO_REVISION: self.has_revisions}
        policies = [Variant(name, name, main, is_pool=False) for name, has_rows in there.items() if has_rows]
        return [*pools, *(one for one in policies if self.run_of(one.name).has(one.name))]

    @property
    def has_further_rounds(self) -> bool:
        """Whether a claim of the main method has a second round."""
        return bool((self.claims(self.systems.main).frame["rounds"] > 1).any())

    @property
    def has_revisions(self) -> bool:
        """Whether the main method makes claims over the whole text, after its last word."""
        return self._makes_revisions(self.systems.main)

    def _makes_revisions(self, system: System) -> bool:
        return bool((self.claims(system).frame["stage"] == "revision").any())

    def names_claims(self, one: Variant) -> bool:
        """Whether a method acts on claims that are compared with the error, so that it finds one by naming it; else any
        act on a text with an error finds it.
        """
        return one.system.checks and self.claims(one.system).compared

    def unnamed_lines(self) -> list[str]:
        """The line of tables with errors found, where no claim is compared with the error."""
        compared = self.main_acts is None or self.claims(self.systems.main).compared
        return [] if compared else ["No claim is compared with the error: found counts any act on a text with one."]

    def revises(self, one: Variant) -> bool:
        """Whether a variant makes claims over the whole text, after its last word."""
        return one.label != NO_REVISION and self._makes_revisions(one.system)

    def counterpart(self, one: Variant) -> str:
        """Returns the policy that differs from a variant in its part alone: the main system, without its revisions
        where the variant is a pool that makes none.
        """
        without = one.is_pool and not self.revises(one) and self.has_revisions and self.run.has(NO_REVISION)
        return NO_REVISION if without else self.systems.main.name

    def fixed_methods(self) -> list[tuple[str, str, PublishedRow]]:
        """Returns group, method and published cells of the rows of table 2: all of the paper where its numbers stand
        beside, else those with a pool here; none where that is the system alone.
        """
        there = {one.label for one in self.methods if one.system.group == self.systems.main.group}
        rows = published_fixed(self.published)
        if any(cells for *_, cells in rows):
            return rows
        rows = [row for row in rows if row[1] in there]
        return rows if len(rows) > 1 else []

    @property
    def part_pairs(self) -> dict[str, tuple[str, str]]:
        """What each variant is compared with, as (counterpart, variant), by the variant's name."""
        main = self.systems.main.name
        return {one.name: (self.counterpart(one), one.name) for one in self.variants if one.name != main}

    def part_differences(self, metric: str, scale: float) -> dict[Pair, IntervalCell]:
        """Returns how much higher a metric is than without each part, each of the texts on which both were replayed."""
        pairs = {pair: self.run_of(pair[1]) for pair in self.part_pairs.values()}
        return differences_of_runs(metric, pairs, scale)

    @cached_property
    def _computed(self) -> dict[Any, Any]:
        return {}

    def once(self, key: object, compute: Callable[[], Computed]) -> Computed:
        """Returns what is computed under a key, the first time."""
        if key not in self._computed:
            self._computed[key] = compute()
        return self._computed[key]

    def acts(self, name: str) -> Acts:
        """The words after which a policy acts on each text, what it says there, and whether that is right."""
        of_texts = {one.name for one in self.systems.every if not one.checks}
        return self.once(("acts", name), lambda: acts_of(self.run_of(name), name, self.texts, name not in of_texts))

    @property
    def main_acts(self) -> Acts | None:
        """What the main method did; None where it could not be replayed."""
        name = self.systems.main.name
        return self.acts(name) if self.run.has(name) else None

    def mean(self, values: np.ndarray, scale: float = 100.0) -> IntervalCell | None:
        """Returns the mean of a column of texts (E,) with its interval, times `scale`."""
        return mean_cell(values, self.texts.unit, self.setting.settings, scale)

    def means(
        self, columns: Mapping[str, np.ndarray], scale: float = 100.0, *, rate: bool = True
    ) -> dict[str, IntervalCell | None]:
        """Returns the mean of each column of texts (E,) with its interval, times `scale`; `rate`: of yes and no, else
        of a quantity.
        """
        return mean_cells(columns, self.texts.unit, self.setting.settings, scale, rate=rate)

    def gaps(
        self, pairs: Mapping[Any, tuple[np.ndarray, np.ndarray]], scale: float = 100.0, *, rate: bool = True
    ) -> dict[Any, IntervalCell]:
        """Returns paired differences of columns of texts (E,), times `scale`; limits hold for all at once. `rate`: of
        yes and no, else of a quantity.
        """
        return joint_cells(pairs, self.texts.unit, self.setting.settings, scale, rate=rate)

    def is_published_system(self, name: str) -> bool:
        """Whether a method is the main one, and DIVER: whose published numbers may stand beside it."""
        return name == self.systems.main.name and self.systems.main.method == DIVER

    # ---- what is chosen on dev ----

    @cached_property
    def dev_baselines(self) -> StudyRun:
        """The run on dev of verdicts on texts."""
        baselines = {one.name for one in self.systems.every if not one.checks}
        return self._replay_on_dev([one for one in self._method_policies if one.name in baselines])

    def baselines(self, group: str) -> list[System]:
        """Returns the baselines of a backbone that the main method is compared with: the best on dev, else each."""
        there, best = self._replayed_baselines(group), self.baseline_choice(group).name
        return there if best is None else [one for one in there if one.name == best]

    def baselines_without_dev(self, group: str) -> list[str]:
        """Returns the baselines of a backbone that were not replayed on dev, where others were."""
        names = [system.name for system in self._replayed_baselines(group)]
        chosen = self.baseline_choice(group).name is not None
        return [name for name in names if chosen and not self.dev_baselines.has(name)]

    def _replayed_baselines(self, group: str) -> list[System]:
        return [one for one in self.systems.baselines(group) if self.run.has(one.name)]

    def baseline_choice(self, group: str) -> DevChoice:
        """Returns the baseline of a backbone that was most accurate on dev."""
        return _choice_on_dev(self.dev_baselines, self._replayed_baselines(group))

    def accuracy_on_dev(self, group: str) -> float | None:
        """Returns how accurate a backbone is on dev without checks; None without dev. Gains over what is least accurate
        on the same texts would be large by luck.
        """
        direct = self.systems.of(DIRECT, group) or next(iter(self.baselines(group)), None)
        cell = None if direct is None else self.dev_baselines.cell(direct.name, "accuracy")
        return None if cell is None else cell.estimate

    # ---- rules of extraction and revision ----

    @cached_property
    def _pair_policies(self) -> list[Policy]:
        pool = self.systems.main.pool
        return [
            Buzz(name=f"{ce} + {rev}", pool=pool, on_missing="use_available", **keys, **more)
            for ce, keys in EXTRACTIONS.items() for rev, more in REVISIONS.items()
        ]  # fmt: skip

    @property
    def _plain_pairs(self) -> list[Policy]:
        return [one for one in self._pair_policies if not one.name.endswith(BY_LENGTH)]

    @property
    def _length_pairs(self) -> list[Policy]:
        """The pairs that read the texts' length, and the paper's beside them."""
        return [one for one in self._pair_policies if one.name.endswith(BY_LENGTH) or one.name == PAPER]

    @cached_property
    def rule_pairs(self) -> StudyRun:
        """The run of the pairs of rules of extraction and revision that read no length."""
        return self._replay(self._plain_pairs)

    @cached_property
    def length_pairs(self) -> StudyRun:
        """The run of the other pairs and of the paper's, on the texts whose length is logged where they revise."""
        return self._replay(self._length_pairs)

    @cached_property
    def dev_pairs(self) -> StudyRun:
        return self._replay_on_dev(self._plain_pairs)

    @cached_property
    def dev_length_pairs(self) -> StudyRun:
        return self._replay_on_dev(self._length_pairs)

    @property
    def pair_names(self) -> list[str]:
        """Every pair of rules, in the order of the paper."""
        return [one.name for one in self._pair_policies]

    def run_of_pair(self, name: str) -> StudyRun:
        """Returns the run in which a pair of rules stands beside the paper's."""
        return self.length_pairs if name.endswith(BY_LENGTH) else self.rule_pairs

    def differs_from_paper(self, name: str) -> bool:
        """Whether a pair of rules may act otherwise than the paper's: one of its extraction needs rows of revisions."""
        same_extraction = name.partition(" + ")[0] == PAPER.partition(" + ")[0]
        return name != PAPER and (self.has_revisions or not same_extraction)

    def dev_run_of_pair(self, name: str) -> StudyRun:
        """Returns the run on dev in which a pair of rules stands beside the paper's."""
        return self.dev_length_pairs if name.endswith(BY_LENGTH) else self.dev_pairs

    @property
    def lacks_length_on_dev(self) -> bool:
        """Whether pairs that read the length lack texts of dev, so that none of them can be chosen there."""
        return self.dev_length_pairs.result is not None and len(self.dev_length_pairs.ids) < len(self.dev_pairs.ids)

    @cached_property
    def pair_choice(self) -> DevChoice:
        """The pair that was most accurate on dev, of those that were replayed on the same texts."""
        if self.lacks_length_on_dev or self.dev_length_pairs.result is None:
            return _choice_on_dev(self.dev_pairs, self._plain_pairs)
        cells = {name: self.dev_run_of_pair(name).cell(name, "accuracy") for name in self.pair_names}
        return _most_accurate(cells, len(self.dev_pairs.ids))

    # ---- thresholds, caps, and a text that does not wait ----

    @cached_property
    def _swept(self) -> dict[str, dict[float, Policy]]:
        def policy(key: str, value: Any) -> Policy:
            name = f"{key} {value:g}"
            return Buzz(name=name, pool=self.systems.main.pool, on_missing="use_available", **{key: value})

        return {key: {value: policy(key, value) for value in values} for key, values in SWEPT.items()}

    @cached_property
    def speeds(self) -> dict[str, float | None]:
        """The words a second of texts that do not wait, by the policies' names; None for one that waits."""
        speed = self.setting.speed
        return {"waits": None} | {f"{one:g} words a second": one for one in (speed / 2, speed, 2 * speed)}

    @cached_property
    def sweep(self) -> StudyRun:
        """The run of thresholds, patience and caps, each alone."""
        return self._replay([one for policies in self._swept.values() for one in policies.values()])

    @cached_property
    def clock(self) -> StudyRun:
        """The run of texts that do not wait and of one that does, where seconds and the text's length are logged."""
        pool = self.systems.main.pool
        return self._replay([
            Buzz(name=name, pool=pool, words_per_second=one, on_missing="use_available")
            for name, one in self.speeds.items()
        ])  # fmt: skip

    @cached_property
    def dev_thresholds(self) -> StudyRun:
        return self._replay_on_dev([*self._swept["confidence"].values()])

    def swept_names(self, key: str) -> dict[float, str]:
        """Returns the replayed policies of a swept key, by its value."""
        there = self._swept[key].items()
        return {value: policy.name for value, policy in there if self.sweep.has(policy.name)}

    @cached_property
    def has_confidences(self) -> bool:
        """Whether verdicts of the main method have a confidence."""
        logged = self.main_acts is not None and self.claims(self.systems.main).frame["confidence"].is_not_null().any()
        return bool(logged)

    @cached_property
    def threshold_choice(self) -> DevChoice:
        """The policy of the confidence from which on refutations count that was most accurate on dev; none without
        confidences.
        """
        if not self.has_confidences:
            return DevChoice()
        return _choice_on_dev(self.dev_thresholds, self._swept["confidence"].values())

    @property
    def learnt_threshold(self) -> float | None:
        """The confidence of `threshold_choice`; None without dev or confidences."""
        policies = self._swept["confidence"].items()
        return next((value for value, one in policies if one.name == self.threshold_choice.name), None)

    # ---- claims, people, cases ----

    def claims(self, system: System, without: str = "") -> Claims:
        """Returns the claims of a pool of checks; `without`: the policy whose part is cut from them."""
        key, rows = ("claims", system.pool, without), ROWS.get(without, EVERY_ROW)
        return self.once(key, lambda: read_claims(self.log, system.pool, self.texts, rows))

    @cached_property
    def confidences(self) -> list[tuple[str, ConfidenceQuality]]:
        """How well confidences of the main method say whether verdicts are right."""
        if self.main_acts is None:
            return []
        return list(confidence_qualities(self.claims(self.systems.main), self.setting.settings))

    @cached_property
    def other(self) -> Variant | None:
        """The pool of checks whose errors and verdicts stand beside the main one's; None where there is none."""
        main = self.systems.main
        pools = [one for one in self.methods if one.system.checks and one.system is not main]
        pools.sort(key=lambda one: (one.system.pool != self.setting.other, one.system.group != main.group))
        return next(iter(pools), None)

    @cached_property
    def people(self) -> People | None:
        return read_people(self.texts) if self.run.result is not None else None

    @cached_property
    def cases(self) -> IllustrativeCases:
        """Three texts, chosen by rule, with what the main method did on them."""
        main, acts = self.systems.main, self.main_acts
        if acts is None or self.run.result is None or self.run.result.source is None:
            return IllustrativeCases()
        policies = [one for one in self.run.result.source.policies if one.name == main.name]
        return choose_cases(self.log, policies, self.texts, acts, self.claims(main), self.setting.settings)

    def _unreplayed_lines(self) -> Iterator[str]:
        """Names the policies that could not be replayed; those of dev where it is not for what lacks elsewhere too."""
        reported: dict[str, str] = {}
        for key, run in self.runs.items():
            of_dev = key.endswith(ON_DEV)
            yield from (
                f"{name}{ON_DEV if of_dev else ''}: {why}" for name, why in run.missing.items()
                if reported.get(name) != why
            )  # fmt: skip
            reported |= {} if of_dev else run.missing

    def missing_lines(self) -> Iterator[str]:
        """Says what the log lacks for this data set, each line with what needs it."""
        yield from self._unreplayed_lines()
        if self.run.result is None:
            return
        texts, main = self.texts, self.systems.main
        if self.dev is None:
            yield "no dev split: baselines are compared each, and neither a pair of rules nor a threshold is chosen"
        if self.lacks_length_on_dev:
            yield f"texts of dev lack their `length`: no pair with {BY_LENGTH} is chosen there"
        if not any(not one.system.checks for one in self.methods):
            yield "no verdicts on whole texts: tables 1, 2 and 7 have no baseline"
        if not self.fixed_methods():
            yield "no pool of a pipeline or system of table 2, and no published number of it: table 2 is left out"
        for lacking, what in (
            (np.isnan(texts.error).all(), "no `gold_error`: nothing is right or wrong"),
            (texts.one_label and (texts.error == 1).any(),
             "no text without an error: false alarms and figure `frontier` are left out"),
            (texts.one_label and (texts.error == 0).any(),
             "no text with an error: errors found and figure `frontier` are left out"),
            ("hops" not in texts.frame.columns, "no `hops` of examples: table 5 is left out"),
            (np.isnan(texts.first).all() or np.isnan(texts.length).all(),
             "no `gold_position` or `length`: timing, the frontier's Δ and the clock are left out"),
            (self.people is None, "no people are recorded: `people` is left out"),
        ):  # fmt: skip
            if lacking:
                yield what
        if self.main_acts is not None:
            claims = self.claims(main)
            if not claims.compared:
                without = "tables 4, 6 and `headroom` are left out"
                yield f"no `matches_error`: any act on a text with an error finds it; {without}"
            if not self.has_confidences:
                yield "no `confidence`: the frontier has no thresholds, `calibration` is left out"
            if self.has_confidences and ALL_VERDICTS not in dict(self.confidences):
                yield "not every decided claim with a confidence has a label: `calibration` is not of all verdicts"
            if not claims.frame["claim_text"].is_not_null().any():
                yield "no `claim_text`: `agreement` has no same claims, and figure 1 does not say what claims are"
        if len(self.variants) < 2:
            yield "no pool without a part, no second round and no revision: table 3 is left out"
        if self.other is None:
            yield "one pool of checks: tables 3 and 6 and `agreement` have no other pool"
        yield from self.cases.missing


def _without_ids(where: str, ids: Iterable[str]) -> str:
    """The SQL condition that narrows another one to the examples without some ids."""
    quoted = ", ".join("'{}'".format(one.replace("'", "''")) for one in ids)
    return f"({where}) AND example_id NOT IN ({quoted})" if quoted else where


def _choice_on_dev(run: StudyRun, policies: Iterable[Policy | System]) -> DevChoice:
    """Chooses the most accurate of the policies that a run on dev has."""
    return _most_accurate({one.name: run.cell(one.name, "accuracy") for one in policies}, len(run.ids))


def _most_accurate(cells: Mapping[str, IntervalCell | None], texts: int) -> DevChoice:
    known = {name: cell.estimate for name, cell in cells.items() if cell is not None}
    if not known:
        return DevChoice()
    best = max(known, key=lambda name: known[name])
    return DevChoice(best, sum(one > known[best] - CLOSE for one in known.values()), texts)


def study_log(log: Log, setting: BuzzSetting) -> tuple[BuzzStudy, ...]:
    """Studies every data set of the reported texts. Raises ThinkbackError where the log has no checks, no such pool or
    column, or where texts are both chosen on and reported.
    """
    contents = read_contents(log)
    systems = read_systems(log, contents, setting.pool)
    if setting.other is not None and contents.pool_of_table("checks", setting.other) == systems.main.pool:
        raise ConflictError(
            f"{argument('other')} names `{setting.other}`, the system's own pool: name another of `checks`"
        )
    columns = log.columns("examples")
    if setting.by not in (SEASON, *columns):
        raise UnknownError(
            f"{argument('by')} names `{setting.by}`, no column of `examples`; {suggest(setting.by, columns)}"
        )
    where = setting.where or report_condition(log)
    examples = examples_where(log, where, "dataset")
    dev = _dev_condition(log, setting, examples["example_id"])
    datasets = examples["dataset"].unique().sort().to_list()
    studies = []
    for name in datasets:
        published = published_name(setting.published, name, len(datasets) == 1) or WORK.dataset(name)
        of_dev = None if dev is None else in_dataset(dev, name)
        has_dev = of_dev is not None and not ids_where_or_none(log, of_dev).is_empty()
        studies.append(
            BuzzStudy(
                name, log, contents, setting, in_dataset(where, name), of_dev if has_dev else None, systems, published
            )
        )
    return tuple(studies)


def _dev_condition(log: Log, setting: BuzzSetting, reported: pl.Series) -> str | None:
    """The condition of the texts that choices are made on: the one given, else the split `dev` where none of it is
    reported; None without any.
    """
    condition = setting.dev or "split = 'dev'"
    ids = ids_where_or_none(log, condition)
    if setting.dev is not None:
        refuse_overlap(log, examples_where(log, condition)["example_id"], reported, "dev", condition)
        return condition
    both = not ids.is_empty() and ids.is_in(reported.implode()).any()
    return None if ids.is_empty() or both else condition
