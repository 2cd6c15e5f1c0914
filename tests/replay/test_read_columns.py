"""Columns of examples that policies read, whatever they are called, and policies that have qualities but no answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

import replay
from replay import Margin, Oracle, Route, Sample
from replay.data.contents import Contents
from replay.data.needs import Needs
from replay.engine.calls import PolicyPath
from replay.engine.costs import COSTS
from replay.engine.outcome import CAP, Outcome
from replay.policies.base import Evaluator, Policy
from replay.runs.explain.explain import explain
from tests.errors import refuses
from tests.logs import FIRST, GOLDS, POOL, log, tables
from tests.seeds import seeds
from toolkit.columns import OutcomeColumn
from toolkit.log import Log, write_log
from toolkit.stats.many.compare import COMPARISONS_SCHEMA, SUMMARY_SCHEMA

MAJORITY = Sample(name="majority", max_traces=3, select="majority")
TABLES = sorted({*SUMMARY_SCHEMA, *COMPARISONS_SCHEMA})
"""Columns of the tables of results, which cannot be groups."""


def with_column(folder: Path, name: str, values: pl.Series, golds: dict[str, str | None] | None = None) -> Log:
    made = tables({"n3": POOL}, GOLDS if golds is None else golds)
    made["examples"] = made["examples"].with_columns(values.alias(name))
    return write_log(folder / "log", name="small", tables=made)


@pytest.mark.parametrize("name", seeds(4, TABLES))
def test_a_router_reads_columns_that_tables_have_too(name: str, tmp_path: Path) -> None:
    made = with_column(tmp_path, name, pl.Series([0.0, 1.0, 1.0]))
    routed = Route(name="routed", route={"column": name, "at_least": 1}, then=MAJORITY, else_=FIRST)  # type: ignore[arg-type]
    found = replay.run(made, [routed], resamples=20)
    assert found.outcomes.collect().sort("example_id")["traces"].to_list() == [1.0, 3.0, 3.0]
    found.save(tmp_path / "saved", traces=True)
    assert replay.load(tmp_path / "saved").summary.equals(found.summary)
    with refuses("conflict", "`by`", f"`{name}`"):
        replay.run(made, [routed], by=name)


@dataclass(frozen=True, kw_only=True)
class Listed(Policy):
    """Finds the first of the passages that an example lists, and answers nothing."""

    kind: ClassVar[str] = "listed"

    @property
    def columns(self) -> tuple[OutcomeColumn, ...]:
        return (OutcomeColumn("found", "found", quality=True, share=True),)

    def needs(self, contents: Contents) -> Needs:
        return Needs(example_columns=frozenset(["gold_documents"]))

    def path(self, on: Evaluator) -> PolicyPath:
        lists = on.block.examples["gold_documents"].list.len().to_numpy()
        none = np.full(len(lists), np.nan)
        outcome = Outcome(
            reason=np.zeros(len(lists), np.int16),
            reasons=("served",),
            costs=np.zeros((len(lists), len(COSTS))),
            correct=none,
            credit=none,
            words=np.full((1, len(lists)), -1),
            shares=None,
            rows=np.ones(len(lists), np.int64),
            ending=np.full(len(lists), CAP, np.int8),
            measured={"found": 1 / lists},
        )
        return PolicyPath(outcome, (), None, {})

    def explain(self, on: Evaluator, repetition: int) -> Iterator[object]:  # type: ignore[override]
        yield from ()


def test_a_policy_without_answers_reads_lists_and_is_ranked_by_what_it_has(tmp_path: Path) -> None:
    lists = pl.Series([["a"], ["a", "b"], ["a", "b", "c", "d"]])
    made = with_column(tmp_path, "gold_documents", lists, dict.fromkeys(GOLDS))
    found = replay.run(made, [Listed(name="listed")], resamples=20)
    assert found.summariser.metric == found.provenance["metric"] == "found"
    assert found.summary.filter(metric="found")["estimate"].item() == pytest.approx(1.75 / 3)
    assert found.leader == "listed"
    assert [one for one in found.notes if "ranked by `found`" in one.text]
    assert "found" in found.table().markdown()
    with refuses("unknown", "`found`"):
        replay.run(made, [Listed(name="listed")], resamples=20, metric="accuracy")


def test_the_ending_of_a_policy_without_words_says_it_once(tmp_path: Path) -> None:
    made = with_column(tmp_path, "gold_documents", pl.Series([["a"]] * 3))
    told = explain(made, [Listed(name="listed")], "listed", "e1").ending
    assert told == "cap; answer none (unjudged); 0 traces, 0 verifications, 0 tokens"


def test_an_explanation_is_of_a_run_on_some_examples(tmp_path: Path) -> None:
    """An oracle that acts on one third: of all three on e3, which alone gains, and of the first two on one of them."""
    made = log(tmp_path, {"n3": POOL}, GOLDS)
    last = Sample(name="last", max_traces=3, select="majority")
    third = Oracle(name="third", rule="matched_rate", rate=1 / 3, base=FIRST, then=last)
    for where in ("true", "example_id != 'e1'"):
        run = replay.run(made, [third], where=where, resamples=20)
        for example in run.examples["example_id"]:
            told = explain(made, [third], "third", example, where=where)
            assert told.ending == run.explain("third", example).ending
            assert told.ending.startswith("it ")
    assert not explain(made, [third], "third", "e1").ending.startswith("it ")
    with refuses("empty", "`e1`"):
        explain(made, [third], "third", "e1", where="example_id != 'e1'")


def test_what_is_learnt_is_not_of_the_examples_that_are_explained(tmp_path: Path) -> None:
    made = log(tmp_path, {"n3": POOL}, GOLDS)
    on = {"method": "isotonic", "on": "example_id = 'e3'"}
    prior = Sample(name="p", max_traces=3, verifier="v", stop=Margin(0.5), calibration=on)  # type: ignore[arg-type]
    assert explain(made, [prior], "p", "e1").steps.height
    assert explain(made, [prior], "p", "e1", where="example_id != 'e3'").steps.height
    with refuses("leakage", "`e3`", "1"):
        explain(made, [prior], "p", "e1", where="true")
