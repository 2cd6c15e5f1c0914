"""Results of policies that share outcomes are those of policies each of which has outcomes of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from replay import Result, run
from replay.data.contents import read_contents
from replay.data.read import BlockRequest, read_block
from replay.kinds.buzz import BestBuzz, Buzz
from replay.policies.base import Evaluator, Policy, needs_of_policies
from replay.runs.passes.outcome_tables import group_outcomes
from tests.buzzing.makers import Row, checks_tables, one_check, random_checks, random_policies
from toolkit.errors import ThinkbackError
from toolkit.log import collect, open_log
from toolkit.stats.metrics.outcomes import Chunk

CONFIDENCE = (0.9, 0.0, 0.3, 1.0, 0.6, 0.75, 0.1, 0.2, 0.55)


def copied(texts: Sequence[Row], rows: Sequence[Row], times: int) -> Mapping[str, pl.DataFrame]:
    """The tables of some texts, each several times, in two data sets and in clusters of two."""
    more = [
        [{**row, "example_id": f"{row['example_id']}x{number}"} for row in part for number in range(times)]
        for part in (texts, rows)
    ]
    tables = checks_tables(*more)
    number = pl.int_range(pl.len())
    tables["examples"] = tables["examples"].with_columns(
        dataset=pl.when(number % 3 == 0).then(pl.lit("a")).otherwise(pl.lit("b")),
        cluster=pl.concat_str(pl.lit("c"), (number // 6 * 3 + number % 3).cast(pl.String)),
    )
    return tables


def results(tables: Mapping[str, pl.DataFrame], policies: Sequence[Policy], cells: int, **how: Any) -> list[Result]:
    """The result with shared outcomes, and that of a pass in which each policy walks, and has rows, by itself."""
    found = []
    for shares in (True, False):
        with patch("replay.runs.passes.passes.BLOCK_CELLS", cells):
            if shares:
                found.append(run(tables, policies, **how))
                continue
            with (
                patch.object(Buzz, "prepare", classmethod(lambda cls, policies, on: None)),
                patch.object(Chunk, "shared_outcomes", None),
            ):
                found.append(run(tables, policies, **how))
    return found


def equal(one: Result, other: Result) -> None:
    for part in ("summary", "comparisons", "ranks"):
        assert getattr(one, part).equals(getattr(other, part)), part
    assert one.outcomes.collect().equals(other.outcomes.collect())
    assert one.notes == other.notes


@settings(max_examples=3, deadline=None, phases=[Phase.generate], derandomize=True)
@given(
    random_checks(), random_policies(), st.sampled_from([4, 9]), st.sampled_from([40, 10**6]),
    st.sampled_from([{}, {"by": "dataset"}, {"strata": "dataset"}, {"strata": "dataset", "weigh": {"a": 3, "b": 1}}]),
    st.booleans(), st.sampled_from(["percentile", "bca"]), st.sampled_from([None, 5]),
)  # fmt: skip
def test_a_sweep_gives_the_result_of_policies_that_share_nothing(
    table: tuple[list[Row], list[Row]], policy: Row, times: int, cells: int, how: Row, clustered: bool, method: str,
    block_examples: int | None,
) -> None:  # fmt: skip
    assume(table[1])
    tables = dict(copied(*table, times))
    if not clustered:
        tables["examples"] = tables["examples"].drop("cluster")
    every = {"on_missing": "use_available", **policy}
    sweep = [Buzz(name=f"p{one}", **{**every, "confidence": one}) for one in CONFIDENCE]
    policies = [
        sweep[0],
        BestBuzz(name="best"),
        *sweep[1:],
        Buzz(name="once", on_missing="use_available", max_claims=1),
    ]
    more = {**how, "method": method, "resamples": 40, "block_examples": block_examples}
    assume(any(text["gold_error"] is not None for text in table[0]))
    try:
        one, other = results(tables, policies, cells, **more)
    except ThinkbackError as error:  # the log serves too little
        assume(error.code not in {"empty", "unknown", "unsuitable"})
        raise
    equal(one, other)


def test_a_sweep_by_hand() -> None:
    """Two texts; refutations of .2 and .8 in the first, of .5 in the second: five thresholds go five ways on both."""
    texts = [{"example_id": name, "length": 9, "gold_error": True, "gold_position": 1} for name in "ef"]
    rows = [
        one_check("e", 0, 0, 2, "refuted", confidence=0.2), one_check("e", 1, 0, 5, "refuted", confidence=0.8),
        one_check("f", 0, 0, 3, "refuted", confidence=0.5),
    ]  # fmt: skip
    policies = [Buzz(name=str(one), confidence=one) for one in (0.9, 0.1, 0.4, 0.6, 0.8)]
    one, other = results(checks_tables(texts, rows), policies, 10**6, resamples=20)
    equal(one, other)
    found = one.outcomes.collect().select("policy", "example_id", "position").rows()
    assert sorted(found, key=lambda row: (row[0], row[1])) == [
        ("0.1", "e", 2), ("0.1", "f", 3), ("0.4", "e", 5), ("0.4", "f", 3), ("0.6", "e", 5), ("0.6", "f", None),
        ("0.8", "e", 5), ("0.8", "f", None), ("0.9", "e", None), ("0.9", "f", None),
    ]  # fmt: skip


@pytest.mark.parametrize("reported", [1, 2])
def test_a_version_whose_sharers_are_not_asked_for_has_its_outcome(reported: int) -> None:
    texts = [{"example_id": "e", "length": 9, "gold_error": True, "gold_position": 1}]
    log = open_log(checks_tables(texts, [one_check("e", 0, 0, 2, "refuted", confidence=0.5)]))
    contents = read_contents(log)
    sweep = [Buzz(name=str(one), confidence=one).resolve(contents) for one in (0.2, 0.9)]
    examples = collect(log.scan("examples", ["example_id", "labels", "gold_error", "gold_position", "length"]), log)
    on = Evaluator(read_block(log, examples, BlockRequest(needs_of_policies(sweep, contents))), sweep)
    shared = [on.shared_outcome(policy) for policy in sweep[:reported]]
    groups = list(group_outcomes([one for one in shared if one is not None]))
    assert [group.versions.tolist() for group in groups] == [list(range(reported))]
    assert groups[0].outcomes[0].reason.tolist() == [0] * reported
