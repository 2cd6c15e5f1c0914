"""A loop that stops by a rule of its own: its pool is replayed whole, and is what that rule gives on the full log."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import thinkback as tb
from generate.recipes.recipe import load_recipe
from tests.errors import refuses
from tests.loops.scripted import FORCING, HEAD, REVISING, go, rows, write_loops
from tests.seeds import seeds
from toolkit.log import describe_log, open_log

STOP = 'stop = {{ rule = "at_least", verifier = "judge", score = {} }}\nverifier = "judge"\nmax_traces = 4\n'
EXAMPLES = 24


def policies(folder: Path, text: str) -> Path:
    path = folder / "policies.toml"
    path.write_text('[[policy]]\nname = "loop"\nkind = "sample"\nselect = "last"\n' + text, encoding="utf-8")
    return path


def outcomes(folder: Path, log: Path, text: str) -> pl.DataFrame:
    result = tb.run(log, policies(folder, text), resamples=100)
    columns = ("example_id", "answer", "correct", "traces", "completion_tokens")
    return result.outcomes.collect().select(columns).sort("example_id")


@pytest.mark.parametrize("contents", seeds(1, [[0.6], [0.3, 0.9]]))
def test_revising_until_content_is_the_replay_of_that_rule(contents: list[float], tmp_path: Path) -> None:
    always = HEAD + REVISING.replace("content = 0.6\n", "")
    full = go(write_loops(tmp_path, always, EXAMPLES), tmp_path / "full")
    assert full.manifest.pools == {"revised": {"ordered": True}}
    for content in contents:
        text = HEAD + REVISING.replace("0.6", str(content))
        stopped = go(write_loops(tmp_path, text, EXAMPLES), tmp_path / f"{content}")
        rule = {"rule": "at_least", "verifier": "judge", "score": content}
        assert stopped.manifest.pools == {"revised": {"ordered": True, "stopped": rule}}
        mine = outcomes(tmp_path, tmp_path / f"{content}", 'verifier = "judge"\n')
        replayed = outcomes(tmp_path, tmp_path / "full", STOP.format(content))
        assert mine.equals(replayed)
        assert mine.height == EXAMPLES


def test_what_a_stopped_pool_refuses(tmp_path: Path) -> None:
    out = tmp_path / "log"
    go(write_loops(tmp_path, HEAD + REVISING, EXAMPLES), out)
    for text in ("max_traces = 9\n", "max_traces = 1\n"):
        with refuses("unsuitable", "`revised`", "`stopped`", "`max_traces`"):
            outcomes(tmp_path, out, text)
    with refuses("unsuitable", "`revised`", "`orders`"):
        outcomes(tmp_path, out, "max_traces = 4\norders = 3\n")
    with refuses("unsuitable", "`revised`", "`stop`"):
        outcomes(tmp_path, out, STOP.format(0.9))
    assert outcomes(tmp_path, out, "max_traces = 4\n").equals(outcomes(tmp_path, out, ""))


def test_waits_are_replayed_up_to_any_number_and_in_their_order(tmp_path: Path) -> None:
    out = tmp_path / "log"
    log = go(write_loops(tmp_path, HEAD + FORCING, EXAMPLES), out)
    assert log.manifest.pools == {"forced": {"ordered": True}}
    for waits in range(3):
        frame = outcomes(tmp_path, out, f"max_traces = {waits + 1}\n")
        assert frame.height == EXAMPLES
    with refuses("unsuitable", "`forced`", "`ordered`", "`orders`"):
        outcomes(tmp_path, out, "max_traces = 3\norders = 3\n")


def test_a_budget_of_waits_is_the_replay_of_that_budget(tmp_path: Path) -> None:
    go(write_loops(tmp_path, HEAD + FORCING, EXAMPLES), tmp_path / "full")
    text = HEAD + FORCING + "budget = 12\n"
    stopped = go(write_loops(tmp_path, text, EXAMPLES), tmp_path / "log")
    assert stopped.manifest.pools["forced"]["stopped"] == {"rule": "budget", "completion_tokens": 12}
    whole = rows(open_log(tmp_path / "full")).sort("example_id", "sample_index")
    before = pl.col("completion_tokens").cum_sum().over("example_id") - pl.col("completion_tokens")
    assert rows(stopped).sort("example_id", "sample_index").equals(whole.filter(before < 12))
    mine = outcomes(tmp_path, tmp_path / "log", "")
    rule = "max_traces = 3\nstop = { rule = 'budget', completion_tokens = 12 }\n"
    assert mine.equals(outcomes(tmp_path, tmp_path / "full", rule))
    assert mine["traces"].sum() == rows(stopped).height < whole.height


def test_the_suite_of_loops(tmp_path: Path) -> None:
    out = tmp_path / "log"
    log = go(write_loops(tmp_path, HEAD + FORCING + REVISING, EXAMPLES), out)
    result = tb.run(out, resamples=100)
    assert {"forced: 1", "forced: 3", "revised: last"} <= set(result.outcomes.collect()["policy"])
    assert describe_log(log) is not None


def test_a_manifest_says_by_which_rule(tmp_path: Path) -> None:
    out = tmp_path / "log"
    go(write_loops(tmp_path, HEAD + REVISING), out)
    text = (out / "manifest.json").read_text()
    (out / "manifest.json").write_text(text.replace('"rule": "at_least"', '"rule": 3'))
    with refuses("format", "`pools.revised.stopped`"):
        open_log(out)


@pytest.mark.parametrize("name", ["content", "revisions"])
def test_settings_of_a_loop_are_checked(name: str, tmp_path: Path) -> None:
    with refuses("invalid", f"`loop.revised.{name}`"):
        load_recipe(write_loops(tmp_path, HEAD + REVISING.replace("content = 0.6\n", "") + f'{name} = "x"\n'))
