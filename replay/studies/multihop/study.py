"""What is computed on each data set of a log of rounds and chains (answer frontier, TU Delft 2026)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from replay.data.conditions import examples_where, in_dataset, report_condition
from replay.data.contents import Contents, read_contents
from replay.studies.kit.published import PublishedDataset, published_name
from replay.studies.kit.verdicts import Finding
from replay.studies.multihop.cases import IllustrativeCases, choose_cases, main_chains
from replay.studies.multihop.chains import CHAINS, Answers, MeasuredAnswers, measure_pools, read_answers
from replay.studies.multihop.published import WORK
from replay.studies.multihop.retrieval import Retrieval, retrieve_by_every_ranking, round_pools
from replay.studies.multihop.selection import (
    HeadroomSplit,
    Selection,
    accuracy_by_chains,
    select_in_every_way,
    split_headroom,
)
from replay.studies.multihop.verdicts import findings_of
from replay.studies.multihop.verifiers import (
    ENCODER,
    FixesAndFlips,
    TrainingCounts,
    VerifierQuality,
    fixes_and_flips,
    measure_verifiers,
    training_counts,
    verifier_roles,
)
from toolkit.errors import UnsuitableError
from toolkit.log import Log
from toolkit.show import IntervalCell
from toolkit.stats import Settings


@dataclass(frozen=True)
class MultihopSetting:
    """The settings of the study. `pool` of rounds is ranked in every way; `roles` are verifiers by role, None where the
    log is to say; `entropy` is the most that a rewarded round's answers may have, `stable` the rounds after which a hop
    ends whose leader stays; `margin` the loss of accuracy that verdicts tolerate.
    """

    where: str | None = None
    pool: str | None = None
    roles: Mapping[str, str | None] = field(default_factory=dict)
    published: tuple[PublishedDataset, ...] = ()
    entropy: float = 0.7
    stable: int = 2
    margin: float = 0.01
    settings: Settings = Settings()  # noqa: RUF009 -- frozen


@dataclass(frozen=True, eq=False)
class MultihopStudy:
    """The results on one data set. `where` names its examples; `roles` verifiers by role; `published` the thesis's data
    set whose numbers stand beside.
    """

    dataset: str
    log: Log
    setting: MultihopSetting
    where: str
    roles: Mapping[str, str]
    published: str | None
    retrieval: Retrieval
    answers: Answers
    selection: Selection
    training: tuple[TrainingCounts, ...]

    @property
    def simulated(self) -> bool:
        return self.log.simulated

    @cached_property
    def curves(self) -> dict[str, list[tuple[int, IntervalCell]]]:
        """Accuracy by the number of chains of the main pool, in the mean over their orders, by way of selecting."""
        pool = main_chains(self.answers)
        return {} if pool is None else accuracy_by_chains(self.log, pool, self.where, self.setting.settings)

    @property
    def curve_pool(self) -> str:
        """The name of the pool that `curves` are of; empty without one."""
        pool = main_chains(self.answers)
        return "" if pool is None else pool.name

    @cached_property
    def measured(self) -> list[MeasuredAnswers]:
        return measure_pools(self.answers, self.setting.settings)

    @cached_property
    def headroom(self) -> list[HeadroomSplit]:
        return split_headroom(self.selection, self.setting.settings)

    @cached_property
    def verifiers(self) -> list[VerifierQuality]:
        return measure_verifiers(self.log, self.answers, self.setting.settings)

    @cached_property
    def changes(self) -> list[FixesAndFlips]:
        if self.selection.run.result is None:
            return []
        return fixes_and_flips(self.selection, self.types, self.setting.settings)

    @property
    def types(self) -> pl.DataFrame:
        """The type of each question, null where none is logged."""
        examples = self.answers.examples
        if "question_type" in examples.columns:
            return examples.select("example_id", pl.col("question_type").cast(pl.String))
        return examples.select("example_id", question_type=pl.lit(None, pl.String))

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The study's questions with their answers."""
        parts = self.retrieval, self.answers, self.selection, self.roles, self.setting.margin, self.setting.settings
        return tuple(findings_of(*parts))

    @cached_property
    def cases(self) -> IllustrativeCases:
        parts = self.log, self.answers, self.retrieval, self.selection, self.setting.settings
        return choose_cases(*parts, self.roles.get(ENCODER, ""))

    def missing_lines(self) -> Iterator[str]:
        """Says what the log lacks for this data set, each line with what needs it."""
        if self.retrieval.pools.main is None:
            yield "no rounds: tables 5.1 to 5.3, `sensitivity` and `explored` are left out"
        elif self.retrieval.run.result is None:
            why = next(iter(self.retrieval.run.missing.values()), "")
            yield f"tables 5.1 to 5.3, `sensitivity` and `explored` are left out: {why}"
        else:
            yield from (f"{name}: {why}" for name, why in self.retrieval.run.missing.items())
            rows = ((self.retrieval.pools.self_ask, "SELF-ASK"), (self.retrieval.pools.first_stage, "first stage"))
            for pool, row in rows:
                if pool is None:
                    yield f"{row}: no pool `{row.lower().replace(' ', '-')}` of rounds"
            if self.retrieval.pools.rewarded is None:
                yield "`explored`: no pool of rounds explored by rewarded scores"
        if not self.answers.pools:
            yield "no traces: tables 5.4 and 5.5, `headroom`, `verifiers` and `fixes_and_flips` are left out"
        elif not self.answers.of_form(CHAINS):
            yield "no pool of several chains: table 5.5, `headroom`, `verifiers` and `fixes_and_flips` are left out"
        yield from (f"{name}: {why}" for name, why in self.selection.run.missing.items())
        if self.answers.of_form(CHAINS):
            if not any(pool.is_gold for pool in self.answers.of_form(CHAINS)):
                yield "no chains of gold evidence: `headroom` and the bound of table 5.5 are left out"
            if not self.verifiers:
                yield "no verifications: best of n, `verifiers` and `fixes_and_flips` are left out"
            elif "question_type" not in self.answers.examples.columns:
                yield "no `question_type` of examples: fixes and flips are not split"
            if "answer_cluster" not in self.answers.columns:
                yield "no `answer_cluster` of traces: no majority of clusters"
        if not self.training:
            yield "table 4.1: no record of `thinkback fit` in the manifest"
        yield from self.cases.missing


def study_log(log: Log, setting: MultihopSetting) -> tuple[MultihopStudy, ...]:
    """Studies every data set of the reported examples. Raises ThinkbackError where the log has neither rounds nor
    traces of these.
    """
    contents = read_contents(log)
    if not log.has("rounds") and not contents.pools:
        raise UnsuitableError("the log has neither rounds nor traces, which the study is of")
    where = setting.where or report_condition(log)
    datasets = examples_where(log, where, "dataset")["dataset"].unique().sort().to_list()
    roles = verifier_roles(log, contents.verifiers, setting.roles)
    training = tuple(training_counts(log))
    return tuple(
        _dataset_study(log, contents, setting, in_dataset(where, name), name, len(datasets) == 1, roles, training)
        for name in datasets
    )


def _dataset_study(
    log: Log, contents: Contents, setting: MultihopSetting, where: str, dataset: str, alone: bool,
    roles: Mapping[str, str], training: tuple[TrainingCounts, ...],
) -> MultihopStudy:  # fmt: skip
    ids = examples_where(log, where)["example_id"]
    pools = round_pools(log, contents, ids, setting.pool)
    retrieval = retrieve_by_every_ranking(
        log, contents, pools, where, setting.settings, setting.entropy, setting.stable
    )
    answers = read_answers(log, ids)
    selection = select_in_every_way(log, contents, answers, where, setting.settings)
    published = published_name(setting.published, dataset, alone) or WORK.dataset(dataset)
    return MultihopStudy(dataset, log, setting, where, roles, published, retrieval, answers, selection, training)
