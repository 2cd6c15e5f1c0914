"""A saved result of rounds or checks is explained as the log is, whatever the policy; without texts, all but these."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import thinkback as tb
from generate.simulation.checks import simulate_checks
from generate.simulation.rounds import simulate_rounds
from replay.runs.saved.saved_rows import TEXTS

ROUNDS = """
[[policy]]
name = "every key"
kind = "retrieve"
rounds = 4
frontier = 3
frontier_of = ["hop", "round"]
support = "last"
reward = ["aligned", { entropy = 0.7 }]
weights = "answer_scores"
multiplier = 3
stable = 2
at = [1, 5]

[[policy]]
name = "penalty"
kind = "retrieve"
rounds = 9
penalty = "sunar"
relevance = "logistic"
against = "first stage"

[[policy]]
name = "first stage"
kind = "retrieve"
rounds = 2
order = "retriever"
"""
CHECKS = """
[[policy]]
name = "unit"
kind = "buzz"
max_claims = [{ per_unit = 1 }, { words_per = 4 }]
max_rounds = 3
confidence = 0.6
revisions = { slack = 15 }
on_missing = "use_available"

[[policy]]
name = "while it goes on"
kind = "buzz"
patience = 2
words_per_second = 2.5
to_end = true
on_missing = "use_available"

[[policy]]
name = "best"
kind = "best buzz"
"""


@pytest.mark.parametrize("kind", ["rounds", "checks"])
def test_explained_as_the_log_is(kind: str, tmp_path: Path) -> None:
    make = simulate_rounds if kind == "rounds" else simulate_checks
    make(tmp_path / "log", examples=12, seed=2)
    result = tb.run(tmp_path / "log", ROUNDS if kind == "rounds" else CHECKS, resamples=20)
    result.save(tmp_path / "plain", traces=True)
    result.save(tmp_path / "whole", texts=True)
    whole = tb.load(tmp_path / "whole")
    whole.save(tmp_path / "again", traces=True)
    plain = (tb.load(tmp_path / name) for name in ("plain", "again"))
    examples, texts = result.examples["example_id"].to_list(), 0
    for policy in result.summariser.names:
        for example in examples[:2]:
            log, saved = result.explain(policy, example), whole.explain(policy, example)
            assert (saved.header, saved.ending, saved.notes) == (log.header, log.ending, log.notes)
            assert [one.title for one in saved.stages] == [one.title for one in log.stages]
            for one, other in zip(saved.stages, log.stages, strict=True):
                assert_frame_equal(one.rows, other.rows)
                assert one.ending == other.ending
            assert saved.outcomes.equals(log.outcomes)
            texts += sum("claim_text" in one.rows and one.rows["claim_text"].null_count() < len(one.rows)
                         for one in saved.stages)  # fmt: skip
    assert texts or kind == "rounds"
    for short in plain:
        for policy in result.summariser.names:
            log, saved = result.explain(policy, examples[0]), short.explain(policy, examples[0])
            assert len(set(saved.header) - set(log.header)) == 1  # the line that says that texts are not there
            assert saved.ending == log.ending
            for one, other in zip(saved.stages, log.stages, strict=True):
                names = [name for name in other.rows.columns if name not in TEXTS]
                assert_frame_equal(one.rows.select(names), other.rows.select(names))


def test_saved_rows_are_those_of_its_examples_without_texts(tmp_path: Path) -> None:
    simulate_rounds(tmp_path / "log", examples=12, seed=2)
    result = tb.run(tmp_path / "log", ROUNDS, resamples=20)
    result.save(tmp_path / "saved", traces=True)
    rows = pl.read_parquet(tmp_path / "saved" / "rounds.parquet")
    assert not TEXTS & {*rows.columns}
    assert set(rows["example_id"]) == set(result.examples["example_id"])
