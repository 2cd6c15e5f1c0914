"""Pools that are added to a log: loops that read its traces and rounds, killed at every request, in shards."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import thinkback as tb
from generate.engines.base import Completion
from generate.engines.thoughts import with_thoughts
from generate.recipes.recipe import load_added_pools
from generate.sampling.added_pools import add_pools, plan_added_pools
from generate.sampling.sampling_estimate import estimate_pools
from generate.traces.log_origins import joined_pools
from tests.errors import refuses
from tests.generate.test_queue import Moments
from tests.loops.scripted import FORCING, HEAD, Scripted, go, rows, say, write_loops
from toolkit.log import ADDING, Log, extend_log, open_log, validate_log

ENGINE = HEAD[HEAD.index("[engine]") :]
SECOND = (
    'name = "second"\nseed = 3\n'
    + ENGINE
    + """
[[loop]]
pool = "second"
rule = "second.py:Reader"
prompt = "read.txt"
of = ["forced", "found"]
"""
)
JUDGING = (
    SECOND
    + """
[[loop]]
pool = "revised"
kind = "revise"
prompt = "ask.txt"
revise_prompt = "again.txt"
verifier = "judge"
content = 0.6
max_tokens = 20
"""
)
POLICIES = """
[[policy]]
name = "{0}"
kind = "sample"
select = "last"
pool = "{0}"
max_traces = {1}
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A log of budget forcing with a pool of rounds, and the recipe that adds to it."""
    go(write_loops(tmp_path, HEAD + FORCING, 6), tmp_path / "log")
    found = [{"example_id": f"s{i:03d}", "pool": "found", "hop": 0, "round": 0, "documents": [f"d{i}"],
              "relevance": [0.5], "answers": ["7"], "clusters": [0]} for i in range(6)]  # fmt: skip
    extend_log(tmp_path / "log", {"rounds": pl.DataFrame(found)})
    shutil.copy(Path(__file__).with_name("second.py"), tmp_path / "second.py")
    (tmp_path / "read.txt").write_text("{{texts}}\nSum: {{question}}\n", encoding="utf-8")
    (tmp_path / "second.toml").write_text(SECOND, encoding="utf-8")
    return tmp_path


def add(folder: Path, log: Path, seed: int = 1, at=lambda *_: None, shard=(1, 1), name: str = "second.toml", **options):
    """The log with the recipe's pools. asked: is given the calls."""
    engine, asked = Scripted(seed, at), options.pop("asked", [])
    engine.fail = options.pop("fail", frozenset())
    recipe = load_added_pools(folder / name, options.pop("settings", []))
    assert recipe is not None
    result = add_pools(plan_added_pools(recipe, log, shard), lambda _: engine, **options)
    asked += engine.calls
    return result.log


def old_rows(log: Log) -> list[pl.DataFrame]:
    """What the log had before a pool was added."""
    traces = rows(log).filter(pl.col("pool") == "forced").sort("trace_id")
    return [traces, rows(log, "examples"), rows(log, "rounds")]


def test_a_second_reader_sees_what_the_log_has_and_nothing_of_it_changes(made: Path) -> None:
    before, asked = old_rows(open_log(made / "log")), []
    log = add(made, made / "log", asked=asked)
    assert validate_log(log).ok
    for old, new in zip(before, old_rows(log), strict=True):
        assert new.select(old.columns).equals(old)
    forced = before[0].sort("example_id", "sample_index")
    prompts = {call.key.split("/")[0]: str(call.prompt) for call in asked}
    for example, prompt in prompts.items():
        texts = forced.filter(example_id=example)["text"].to_list()
        assert prompt.startswith("; ".join([*texts, f"d{int(example[1:])}"]) + "\nSum: ")
    assert rows(log).filter(pool="second").height == len(prompts) == 6
    record = log.manifest.source["pools"]["second"]
    assert record["parts"] == [{"shard": "1/1", "limit": None}]
    assert record["prompts"]["read.txt"].startswith("{{texts}}")
    assert record["settings"]["loop.second.of"] == ["forced", "found"]
    assert set(log.manifest.pools) == {"forced", "second"}
    assert not (made / "log" / ADDING).exists()
    (made / "policies.toml").write_text(POLICIES.format("forced", 3) + POLICIES.format("second", 1))
    outcomes = tb.run(made / "log", made / "policies.toml", resamples=100).outcomes.collect()
    assert dict(outcomes.group_by("policy").len().rows()) == {"forced": 6, "second": 6}


def test_killed_at_every_request_the_log_is_whole_and_gets_the_same_pool(made: Path) -> None:
    moments = Moments(made / "log", made / "copies", set(), [])
    (made / "second.toml").write_text(JUDGING, encoding="utf-8")
    before = old_rows(open_log(made / "log"))
    whole = add(made, made / "log", 1, moments, block=1)
    for copy, answered, _ in moments.taken[:: max(1, len(moments.taken) // 12)]:
        assert all(old.equals(new) for old, new in zip(before, old_rows(open_log(copy)), strict=True))
        asked: list = []
        log = add(made, copy, 2, block=1, asked=asked)
        assert answered.isdisjoint(call.key for call in asked)
        for table in ("traces", "verifications"):
            assert rows(log, table).sort("trace_id").equals(rows(whole, table).sort("trace_id"))
        assert not (copy / ADDING).exists()


def test_shards_make_the_whole(made: Path) -> None:
    shutil.copytree(made / "log", made / "parts")
    whole = add(made, made / "log")
    add(made, made / "parts", shard=(2, 2))
    log = add(made, made / "parts", shard=(1, 2))
    assert rows(log).sort("trace_id").equals(rows(whole).sort("trace_id"))
    assert [one["shard"] for one in log.manifest.source["pools"]["second"]["parts"]] == ["2/2", "1/2"]
    with refuses("exists", "second", "1/1"):
        add(made, made / "parts")


def test_a_call_that_fails_for_good_is_counted_with_its_pool(made: Path) -> None:
    log = add(made, made / "log", fail=frozenset({"s001/second/0"}))
    record = log.manifest.source["pools"]["second"]
    assert record["left_out"] == {"400": 1}
    assert [one["call"] for one in record["failures"]] == ["s001/second/0"]
    assert rows(log).filter(pool="second").height == 5


def test_what_is_refused(made: Path) -> None:
    with refuses("unknown", "`loop.second.of`", "`none`", "`forced`"):
        add(made, made / "log", settings=['loop.second.of=["none"]'])
    with refuses("exists", "`forced`"):
        add(made, made / "log", settings=["loop.second.pool=forced"])
    with refuses("unknown", "`loop.second.prompt`", "`read.txt`", "{{text}}", "`texts`"):
        (made / "read.txt").write_text("{{text}}\nSum: {{question}}\n", encoding="utf-8")
        add(made, made / "log")
    (made / "read.txt").write_text("{{texts}}\nSum: {{question}}\n", encoding="utf-8")
    add(made, made / "log")
    sealed = (made / "log" / "manifest.json").read_bytes()
    with refuses("exists", "second", "1/1"):
        add(made, made / "log")
    with refuses("exists", "`second`", "`seed`"):
        add(made, made / "log", settings=["seed=4"])
    with refuses("required", "`loop.second.of`", "on"):
        go(write_loops(made, HEAD + SECOND[SECOND.index("[[loop]]") :]), made / "new")
    assert (made / "log" / "manifest.json").read_bytes() == sealed


REVISING = (
    SECOND[: SECOND.index("[[loop]]")]
    + """
[[revise]]
pool = "again"
action = "self_correct"
of = "forced"
of_sample = 1
prompt = "correct.txt"
rollouts = 2
temperature = 0.5
max_tokens = 20
[[revise]]
pool = "once more"
action = "self_correct"
of = "again"
prompt = "correct.txt"
max_tokens = 20
"""
)


@pytest.fixture
def revised(made: Path) -> Path:
    """The recipe of a log's revisions, and revisions of these."""
    (made / "second.toml").write_text(REVISING, encoding="utf-8")
    (made / "correct.txt").write_text("{{question}}\nBefore: {{attempt}} ({{answer}})\nSum:", encoding="utf-8")
    return made


def test_a_trace_of_a_log_is_revised_and_its_revisions_too(revised: Path) -> None:
    asked: list = []
    before = old_rows(open_log(revised / "log"))[0]
    log = add(revised, revised / "log", asked=asked)
    assert validate_log(log).ok
    attempts = {row["example_id"]: row for row in before.filter(sample_index=1).to_dicts()}
    traces = rows(log)
    again = traces.filter(pool="again")
    assert (again.height, traces.filter(pool="once more").height) == (2 * len(attempts), len(attempts))
    assert dict(again.select("example_id", "parent_id").rows()) == {n: r["trace_id"] for n, r in attempts.items()}
    prompts = {call.key: str(call.prompt) for call in asked}
    for name, row in attempts.items():
        said = f"Before: {row['text']} ({row['answer'] or ''})"
        assert said in next(text for key, text in prompts.items() if key.startswith(f"{name}/again/"))
    assert set(traces.filter(pool="once more")["parent_id"]) == {f"{name}/again/0" for name in attempts}
    assert not (revised / "log" / ADDING).exists()


def test_revisions_of_a_log_killed_at_every_request_are_the_same(revised: Path) -> None:
    moments = Moments(revised / "log", revised / "copies", set(), [])
    whole = add(revised, revised / "log", 1, moments, block=1)
    for copy, answered, _ in moments.taken[:: max(1, len(moments.taken) // 8)]:
        asked: list = []
        log = add(revised, copy, 2, block=1, asked=asked)
        assert answered.isdisjoint(call.key for call in asked)
        assert rows(log).sort("trace_id").equals(rows(whole).sort("trace_id"))


def test_what_revisions_of_a_log_ask_is_estimated(revised: Path) -> None:
    asked: list = []
    recipe = load_added_pools(revised / "second.toml")
    assert recipe is not None
    first, second = estimate_pools(plan_added_pools(recipe, revised / "log").plan)
    add(revised, revised / "log", asked=asked)
    assert first.requests + second.requests == sum(len(call.seeds) for call in asked)
    of_first = [call for call in asked if "/again/" in call.key]
    written = sum(len(str(call.prompt).encode()) * len(call.seeds) for call in of_first)
    assert written <= first.prompt_tokens <= 2 * written


def test_what_is_refused_of_revisions_of_a_log(revised: Path) -> None:
    with refuses("unknown", "`revise.again.of`", "`none`", "`forced`"):
        add(revised, revised / "log", settings=["revise.again.of=none"])
    with refuses("unknown", "`revise.again.of_sample`", "`forced`", "9"):
        add(revised, revised / "log", settings=["revise.again.of_sample=9"])
    with refuses("unknown", "`revise.again.of`", "`once more`"):
        add(revised, revised / "log", settings=["revise.again.of=once more"])
    (revised / "correct.txt").write_text("{{prompt}}\n{{attempt}}", encoding="utf-8")
    with refuses("unsuitable", "`correct.txt`", "`again`"):
        add(revised, revised / "log")


FIRST = '[[sample]]\npool = "first"\nprompt = "ask.txt"\nsamples = 2\ntemperature = 0.5\nmax_tokens = 20\n'
JOINED = """
[[revise]]
pool = "on"
action = "continue"
of = "first"
of_sample = 1
prompt = "on.txt"
rollouts = 3
temperature = 0.5
max_tokens = 20
joined = true
[[revise]]
pool = "on again"
action = "continue"
of = "on"
prompt = "on.txt"
max_tokens = 20
joined = true
[finalizer]
prompt = "final.txt"
max_tokens = 9
tail = 200
"""


def say_half(prompt: str, seed: int, temperature: float, stop: tuple[str, ...]) -> Completion:
    """What a model says that thinks, and has half of what it says in mind."""
    said = say(prompt, seed, temperature, stop)
    half = said.text[: seed % 2 * 9 + 14] if prompt.startswith("Sum") else f"{seed % 3}{said.text[seed % 17 :]}"
    return replace(said, text=half, reasoning=None if seed % 3 else f"thought {seed % 11}")


def test_a_joined_revision_of_a_log_is_that_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.loops.scripted.say", say_half)
    path = write_loops(tmp_path, HEAD + FIRST + JOINED, 8)
    (tmp_path / "on.txt").write_text("{{question}}: {{attempt}}", encoding="utf-8")
    (tmp_path / "final.txt").write_text("{{question}} so {{tail}}", encoding="utf-8")
    engines: list[Scripted] = []
    whole = go(path, tmp_path / "whole", engines=engines)
    go(write_loops(tmp_path, HEAD + FIRST + JOINED[JOINED.index("[finalizer]") :], 8), tmp_path / "log")
    second = HEAD[: HEAD.index("[data]")] + ENGINE + JOINED
    (tmp_path / "second.toml").write_text(second, encoding="utf-8")
    asked: list = []
    log = add(tmp_path, tmp_path / "log", asked=asked)
    mine, other = (rows(one).sort("trace_id") for one in (log, whole))
    assert mine.equals(other.select(mine.columns))
    assert joined_pools(log) == joined_pools(whole) == {"on", "on again"}
    prompts = {call.key: call.prompt for engine in engines for call in engine.calls}
    assert all(call.prompt == prompts[call.key] for call in asked)
    texts = {row["trace_id"]: with_thoughts(row["reasoning"], row["text"]) for row in mine.to_dicts()}
    finalized = 0
    for key, prompt in prompts.items():
        name, pool, *rest = key.split("/")
        question = f"{int(name[1:])} + {3 * int(name[1:]) + 1}"
        parent = texts.get({"on": f"{name}/first/1", "on again": f"{name}/on/0"}.get(pool, ""), "")
        if rest[1:] == ["finalizer"]:
            assert prompt == f"{question} so {parent}{texts['/'.join((name, pool, rest[0]))]}"
            finalized += pool != "first"
        elif pool != "first":
            assert prompt == f"{question}: {parent}"
    assert finalized > 0
