"""A revision that goes on where its attempt stops is judged behind it, as its answer was read."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from generate.engines.base import Call
from generate.traces.block import read_block
from tests.adding.test_adding import JUDGE, in_json, run
from tests.logs import SOURCE, make_log

JOINED = {**SOURCE, "pools": {**SOURCE["pools"], "verify": {"prompt": "check.txt", "sampling": {"joined": True}}}}

WANTED = pl.DataFrame({"example_id": ["s001"], "trace_id": ["s001/verify/0"]})


def test_a_joined_revision_is_read_behind_its_attempt(tmp_path: Path) -> None:
    log = make_log(tmp_path / "log", 2, source=JOINED)
    block = read_block(log, WANTED)
    (row,) = block.wanted_rows
    # example 1 is 1 + 4: its first attempt says 5, its revision `so 5`
    assert block.full_text(row) == "1 and 4: 5so 5"
    assert block.full_text(block.traces_by_id["s001/votes/1"]) == "1 and 4 more: 5"
    prompts: dict[str, str] = {}

    def noting(call: Call) -> str:
        prompts[call.key] = str(call.prompt)
        return in_json(call)

    run(tmp_path, JUDGE, noting)
    assert prompts["s001/verify/0/judge/0"] == "sum: 1 + 4\n1 and 4: 5so 5\nscore:"
    plain = make_log(tmp_path / "plain", 2)
    assert read_block(plain, WANTED).full_text(row) == "so 5"
