"""What is read at once is bounded by the block, whatever the shard, the limit or the log's size."""

from __future__ import annotations

from pathlib import Path

import pytest

from generate.annotating.annotation_plan import make_add_plan
from generate.signals import peers
from generate.signals.additions import load_additions
from generate.traces.block import READ, trace_blocks
from tests.adding.test_adding import CHANCE
from tests.logs import make_log, write_recipe


@pytest.mark.parametrize("choice", [{"shard": (1, 10)}, {"limit": 100}, {"shard": (3, 7), "limit": 150}, {}])
@pytest.mark.parametrize("only", ["", 'pools = ["verify"]\n'])
def test_a_block_holds_no_more_than_it_says(tmp_path: Path, choice: dict[str, object], only: str) -> None:
    """Blocks of 40 of 5 traces an example: an example that begins in one ends in it, which makes 44 at most."""
    make_log(tmp_path / "log", 200)
    plan = make_add_plan(load_additions(write_recipe(tmp_path, CHANCE + only)), tmp_path / "log", **choice)
    (todo,) = plan.todo
    found = list(trace_blocks(plan.log, todo.traces, 40))
    assert all(block.traces.height <= 44 for block in found)
    assert len(found) == -(-todo.traces["example_id"].n_unique() // 8)
    done = [row["trace_id"] for block in found for row in block.wanted_rows]
    assert sorted(done) == sorted(todo.traces["trace_id"])
    for block in found:
        assert set(block.traces["example_id"]) == set(block.examples["example_id"])
        assert block.traces.columns == list(READ), "token log-probabilities are not read"


def test_pairs_are_held_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of 3, 3, 5, 1 and 9 traces with at most 6 held: 3 + 3, 5 + 1, and 9 alone."""
    monkeypatch.setattr(peers, "PAIRS", 6)
    assert list(peers._chunks([0, 2, 4, 5, 9], [3, 3, 5, 1, 9])) == [[0, 2], [4, 5], [9]]
    assert list(peers._chunks([], [])) == []
