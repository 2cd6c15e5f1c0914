"""The steps before a replay: which policies and examples there are, and what policies learn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import polars as pl

from replay.data.block import LogBlock
from replay.data.conditions import ids_where, read_examples, refuse_calibration_on_learnt, refuse_overlap
from replay.data.contents import Contents
from replay.data.fitted_scores import fold_of_each_example
from replay.data.read import BlockRequest, read_block
from replay.policies.base import Policy, needs_of_policies, policy_and_parts, policy_errors
from replay.policies.toml import PolicyFile
from replay.runs.passes.example_set import ExampleSet, select_examples
from replay.runs.passes.reuse import check_reuse, notes_on_out_of_fold, notes_on_training_rows
from replay.sampling.learned import LearnedSetting
from toolkit.log import Log
from toolkit.notes import Note

P = TypeVar("P", bound=Policy)


def resolve_policies(
    log: Log, contents: Contents, file: PolicyFile, measure: str | None, where: str | None, by: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> tuple[tuple[Policy, ...], ExampleSet, tuple[Note, ...]]:  # fmt: skip
    """The policies with the log's names; the examples, with further `columns`; notes on what was seen in fitting.

    ThinkbackError for what the log cannot serve.
    """
    chosen = tuple(policy.resolve(contents) for policy in file.policies)
    for policy in (part for whole in chosen for part in policy_and_parts(whole)):
        policy.check_log(log, contents)
    if measure is not None:
        contents.require_measure(measure)
    needs = needs_of_policies(chosen, contents)
    verifying = [policy.name for policy in chosen if policy.needs(contents).scores]
    read = {*needs.example_columns, *columns}
    split = {"split"} if verifying and "split" in contents.example_columns else set()
    examples = select_examples(log, contents, needs.pools, where, by, sorted(read | split))
    notes = [*(notes_on_training_rows(verifying, examples.frame["split"]) if split else ())]
    readers = _policies_by_verifier(chosen, contents)
    notes += notes_on_out_of_fold(readers, fold_of_each_example(log, readers), examples.frame["example_id"])
    examples = replace(examples, frame=examples.frame.drop(split - read - {*by}))
    return chosen, examples, (*check_reuse(chosen, examples.frame, log.digest()), *notes)


def _policies_by_verifier(policies: Sequence[Policy], contents: Contents) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = {}
    for policy in policies:
        for verifier in sorted({name for _, name in policy.needs(contents).scores}):
            readers.setdefault(verifier, []).append(policy.name)
    return readers


def fit_policies(
    log: Log, contents: Contents, policies: Sequence[P], reported: pl.Series, measure: str | None = None
) -> tuple[P, ...]:
    """The policies (resolved) with everything fitted that they or parts learn; equal settings share one fit.

    `measure` judges traces in place of `correct`. Raises where a development split overlaps `reported`, or the rows of
    `conformal` those that its scores were fitted on.
    """
    fitter = _PolicyFitter(log, contents, reported, measure)
    for part in (part for policy in policies for part in policy_and_parts(policy)):
        fitter.check_disjoint(part)
    return tuple(policy.fit_with(fitter.fit_setting) for policy in policies)


class _PolicyFitter:
    """Fits each setting once, on the examples where its condition holds."""

    def __init__(self, log: Log, contents: Contents, reported: pl.Series, measure: str | None) -> None:
        self.log, self.contents, self.reported, self.measure = log, contents, reported, measure
        self._fitted: dict[Hashable, Any] = {}
        self._splits: dict[tuple[str, tuple[str, ...]], pl.DataFrame] = {}

    def fit_setting(
        self, policy: Policy, settings: LearnedSetting, same: tuple[Hashable, ...], fit: Callable[[LogBlock, Any], Any]
    ) -> Any:
        """The `settings` after `fit`, computed once for all policies that share the key `same`."""
        key = (settings.key, settings, *same)
        if key not in self._fitted:
            with policy_errors(policy.name):
                self._fitted[key] = fit(self._development_rows(policy, settings), settings)
        return self._fitted[key]

    def check_disjoint(self, policy: Policy) -> None:
        """Raise where a policy would set thresholds on examples that it learns a score from."""
        for settings in (learn for learn in policy.learned_settings if learn.calibrates):
            for learnt in (learn for learn in policy.learned_settings if not learn.calibrates):
                with policy_errors(policy.name):
                    refuse_calibration_on_learnt(
                        self.log, (f"{learnt.key}.on", learnt.on), (f"{settings.key}.on", settings.on)
                    )

    def _development_rows(self, policy: Policy, settings: LearnedSetting) -> LogBlock:
        condition, needs = settings.on, needs_of_policies([policy], self.contents)
        columns = tuple(dict.fromkeys(["labels", "gold", *sorted(needs.example_columns)]))
        if (condition, columns) not in self._splits:
            ids = ids_where(self.log, condition, f"{settings.key}.on")
            refuse_overlap(self.log, ids, self.reported, f"{settings.key}.on", condition)
            self._splits[condition, columns] = read_examples(self.log, ids, columns)
        return read_block(self.log, self._splits[condition, columns], BlockRequest(needs, self.measure))


def learning_conditions(policy: Policy) -> list[tuple[str, str]]:
    """(setting, condition) of all examples that a policy or a part of it learns from."""
    return [
        (f"{settings.key}.on", settings.on) for part in policy_and_parts(policy) for settings in part.learned_settings
    ]
