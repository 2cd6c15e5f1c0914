"""Running a recipe: rows, manifest, resuming, shards, failures, and every way in which `--out` may be unfit."""

from __future__ import annotations

import copy
import json
import os
import random
import resource
import signal
import string
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from generate.engines.base import Call, CallFailure, EngineError, Outcome
from generate.journal.database import FOLDER, Journal
from generate.journal.events import Answered
from generate.journal.queue import PATIENCE
from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_estimate import estimate_pools, examples_bytes
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import Generated, generate
from tests.errors import numbers, quotes, refuses, says
from tests.generate.toy import LOCAL, RECIPE, Letters, RuleEngine, write_recipe
from tests.seeds import seeds
from thinkback.app import app
from toolkit.log import collect, merge_logs, open_log, validate_log

ROOT = Path(__file__).resolve().parents[2]
SECONDS = ("latency_s", "device_s", "started_s", "arrived_s")


def go(recipe: Path, out: Path, engine: RuleEngine | None = None, **options: object) -> Generated:
    settings = options.pop("settings", [])
    shard, limit = options.pop("shard", (1, 1)), options.pop("limit", None)
    plan = make_plan(load_recipe(recipe, settings), shard, limit)  # type: ignore[arg-type]
    return generate(plan, out, lambda _: engine or RuleEngine(), **options)  # type: ignore[arg-type]


def traces(out: Path, timing: bool = False) -> pl.DataFrame:
    log = open_log(out)
    frame = collect(log.scan("traces", list(log.columns("traces")))).sort("trace_id")
    return frame if timing else frame.drop(SECONDS)


def test_a_run_is_a_valid_sealed_log_that_says_how_it_came_about(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    engine = RuleEngine()
    done = go(recipe, out, engine)
    assert validate_log(done.log).ok
    assert engine.closed
    assert not (out / FOLDER).exists()
    rows = traces(out, timing=True)
    assert rows.group_by("pool", "action").len().sort("pool").rows() == [
        ("again", "self_correct", 12), ("probe", "solve", 6), ("votes", "solve", 18),
    ]  # fmt: skip
    again = rows.filter(pl.col("pool") == "again")
    assert set(again["parent_id"]) == {f"s{i:03d}/probe/0" for i in range(6)}
    used = rows.filter("finalizer_used")
    assert used.height > 0
    assert used["finish_reason"].unique().to_list() == ["length"]
    assert used["answer"].null_count() == 0
    assert used["latency_s"].to_list() == pytest.approx([0.02] * used.height)
    assert not rows.filter(~pl.col("finalizer_used"))["text"].str.ends_with(".").not_().any()
    assert rows.filter(pl.col("pool") == "votes")["token_logprobs"].list.len().unique().to_list() == [4]
    source = done.log.manifest.source
    assert source["prompts"]["ask.txt"] == "Sum: {{question}}"
    votes = source["pools"]["votes"]
    assert (votes["model"], votes["engine"]["device"], votes["prompt"], votes["seed"]) == ("rule", "cpu", "ask.txt", 7)
    assert votes["sampling"]["samples"] == 3
    assert votes["wall_clock_s"] >= 0
    assert source["failures"] == []
    assert "/" not in json.dumps({key: value for key, value in source.items() if key == "versions"})


def test_a_revision_sees_the_attempt_its_prompt_and_its_answer(tmp_path: Path) -> None:
    engine = RuleEngine()
    go(write_recipe(tmp_path, 4), tmp_path / "log", engine)
    rows = {row["trace_id"]: row for row in traces(tmp_path / "log").to_dicts()}
    for call in engine.calls:
        example, pool, *_ = call.key.split("/")
        if pool == "again" and not call.key.endswith("finalizer"):
            base = rows[f"{example}/probe/0"]
            assert str(call.prompt).startswith(f"Sum: {int(example[1:])} + ")
            assert base["text"] in str(call.prompt)
            assert f"({base['answer']})" in str(call.prompt)


class NewLineEngine(RuleEngine):
    """The rule, each text on a line of its own."""

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        for call, outcome in super().run(calls):
            assert isinstance(outcome, tuple)
            yield call, tuple(replace(one, text=f"\n{one.text}") for one in outcome)


def test_several_right_answers_and_measures_beside_the_verdict(tmp_path: Path) -> None:
    measures = 'measures = ["cover", "cover_substring", "exact", "credit"]\n[finalizer]'
    recipe = write_recipe(tmp_path, text=RECIPE.replace("[finalizer]", measures))
    rows = pl.read_ndjson(tmp_path / "examples.jsonl").with_columns(
        golds=pl.when(pl.col("example_id") < "s003").then(
            pl.concat_list("gold", pl.col("gold").cast(pl.Int64).add(1).cast(pl.String) + ".0", "gold")
        )
    )
    rows.write_ndjson(tmp_path / "examples.jsonl")
    log = go(recipe, tmp_path / "out").log
    assert validate_log(log).ok
    golds = dict(collect(log.scan("examples", ["example_id", "golds"])).iter_rows())
    assert golds == {f"s{i:03d}": [str(4 * i + 1), str(4 * i + 2)] if i < 3 else None for i in range(6)}
    frame = traces(tmp_path / "out")
    right = [
        answer in (golds[name] or [str(4 * int(name[1:]) + 1)])
        for name, answer in frame.select("example_id", "answer").iter_rows()
    ]
    assert frame["correct"].to_list() == frame["exact"].to_list() == right
    assert 0 < sum(right) < len(right)
    assert frame["credit"].to_list() == [float(one) for one in right]
    assert frame.schema["cover"] == frame.schema["cover_substring"] == pl.Boolean
    assert load_recipe(recipe).identity()["answers.measures"] == ["cover", "cover_substring", "exact", "credit"]
    assert "answers.measures" not in load_recipe(recipe, ["answers.measures=[]"]).identity()


def test_a_joined_revision_is_read_with_its_attempt(tmp_path: Path) -> None:
    """The rule's revision states a sum or none. Joined to its attempt, what it leaves unsaid is what that said."""
    text = RECIPE[: RECIPE.index("[finalizer]")] + RECIPE[RECIPE.index("[[sample]]") :]
    go(write_recipe(tmp_path, 24, text), tmp_path / "apart", NewLineEngine())
    go(write_recipe(tmp_path, 24, text + "joined = true\n"), tmp_path / "joined", NewLineEngine())
    apart, joined = (traces(tmp_path / name).filter(pl.col("pool") == "again") for name in ("apart", "joined"))
    assert apart["text"].equals(joined["text"])
    rows = traces(tmp_path / "apart")
    base = dict(rows.filter(pl.col("pool") == "probe").select("trace_id", "answer").rows())
    silent = apart.filter(pl.col("answer").is_null())
    assert 0 < silent.height < apart.height
    for own, parent, both in zip(apart["answer"], apart["parent_id"], joined["answer"], strict=True):
        assert both == (own if own is not None else base[parent])


def test_a_log_that_another_run_would_not_mend_is_not_told_to_be_run_again(tmp_path: Path) -> None:
    """No trace has -1 tokens: the rows are refused when the log is sealed, and would be again."""
    recipe, out = write_recipe(tmp_path, 2), tmp_path / "log"

    class Below(RuleEngine):
        def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
            for call, outcome in super().run(calls):
                assert isinstance(outcome, tuple)
                yield call, tuple(replace(one, prompt_tokens=-1) for one in outcome)

    with refuses("negative", "`-2`", "`prompt_tokens`", "progress") as error:
        go(recipe, out, Below())
    assert "again" not in str(error.value)


def test_a_run_that_its_engine_ends_says_that_progress_is_saved(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    with refuses("engine", "progress", "again"):
        go(recipe, tmp_path / "some", RuleEngine(fail=_stop_at(3)))
    with refuses("engine", "key") as error:
        go(recipe, tmp_path / "none", RuleEngine(fail=_stop_at(0)))
    assert "progress" not in str(error.value)


def test_a_chat_template_beside_the_recipe_is_part_of_the_log(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    text = LOCAL.replace('kind = "openai"', 'kind = "transformers"\nchat_template = "own.jinja"')
    recipe, template = write_recipe(tmp_path, text=text), "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    with refuses("format", "`engine.chat_template`"):
        load_recipe(recipe)
    (tmp_path / "own.jinja").write_text(template, encoding="utf-8")
    done = go(recipe, tmp_path / "log")
    assert done.log.manifest.source["prompts"]["own.jinja"] == template
    (tmp_path / "own.jinja").write_text(template + " ", encoding="utf-8")
    with refuses("exists", "`prompts.own.jinja`"):
        go(recipe, tmp_path / "log")


def test_the_rows_do_not_depend_on_blocks_or_on_how_samples_are_grouped(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    go(recipe, tmp_path / "a")
    grouped = RuleEngine()
    go(recipe, tmp_path / "b", grouped, block=1, settings=["engine.samples_per_call=2"])
    assert traces(tmp_path / "a").equals(traces(tmp_path / "b"))
    assert max(len(call.seeds) for call in grouped.calls) == 2


def test_samples_of_one_request_go_into_one_call_and_are_part_of_the_log(tmp_path: Path) -> None:
    recipe, out, engine = write_recipe(tmp_path, 2), tmp_path / "log", RuleEngine()
    together = ["engine.samples_per_request=3"]
    go(recipe, out, engine, settings=together)
    assert max(len(call.seeds) for call in engine.calls) == 3
    with refuses("exists", "`engine.samples_per_call`", "2"):
        go(recipe, out, settings=[*together, "engine.samples_per_call=2"])
    (out / ".generate").mkdir()  # as an interrupt leaves it once the log is sealed
    with refuses("exists", "log`"):
        go(recipe, out, settings=together)
    assert not (out / ".generate").exists()


def test_shards_merged_are_the_whole(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, 7)
    go(recipe, tmp_path / "whole")
    parts = [tmp_path / f"part{i}" for i in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        go(recipe, part, shard=(number, 3))
    assert sorted(open_log(part).rows("examples") for part in parts) == [2, 2, 3]
    report = merge_logs(parts, tmp_path / "merged")
    assert set(report.dropped.values()) == {0}
    assert traces(tmp_path / "merged").equals(traces(tmp_path / "whole"))


def test_shards_of_two_models_or_settings_are_not_merged(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    parts = [tmp_path / "one", tmp_path / "two"]
    for number, part in enumerate(parts, start=1):
        go(recipe, part, shard=(number, 2))
    manifest = json.loads((parts[1] / "manifest.json").read_text())
    for change, named in (
        (lambda source: source["pools"]["votes"]["engine"].update(weights_sha256="ff"), "pools.votes.engine.weights"),
        (lambda source: source["settings"].update(seed=9), "seed"),
        (lambda source: source["prompts"].update({next(iter(source["prompts"])): "Other"}), "prompts."),
    ):
        other = copy.deepcopy(manifest)
        change(other["source"])
        (parts[1] / "manifest.json").write_text(json.dumps(other))
        with refuses("mismatch", f"`{named}"):
            merge_logs(parts, tmp_path / "merged")
        assert not (tmp_path / "merged").exists()
    (parts[1] / "manifest.json").write_text(json.dumps(manifest))
    assert merge_logs(parts, tmp_path / "merged").log.rows("examples") > 0


def test_a_shard_run_twice_is_refused_and_merged_twice_is_dropped(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, 4)
    go(recipe, tmp_path / "a", shard=(1, 2))
    before = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    with refuses("exists", "2", "12"):
        go(recipe, tmp_path / "a", shard=(1, 2))
    with refuses("exists", "`shard`"):
        go(recipe, tmp_path / "a", shard=(2, 2))
    assert before == {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    go(recipe, tmp_path / "b", shard=(1, 2))
    assert merge_logs([tmp_path / "a", tmp_path / "b"], tmp_path / "m").dropped == {"examples": 2, "traces": 12}


@pytest.mark.parametrize("stage", ["sealed", "begun"])
def test_a_log_of_another_recipe_names_the_first_setting_that_differs(tmp_path: Path, stage: str) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    if stage == "sealed":
        go(recipe, out)
    else:
        with pytest.raises(EngineError):
            go(recipe, out, RuleEngine(fail=_stop_at(3)))
    for settings, refusal in (
        (["sample.votes.samples=5", "sample.votes.top_p=0.5"], ("exists", "`sample.votes.samples`", "3", "5")),
        (["engine.send_seed=false"], ("exists", "`engine.send_seed`")),
    ):
        with refuses(*refusal):
            go(recipe, out, settings=settings)
    (tmp_path / "ask.txt").write_text("Other: {{question}}", encoding="utf-8")
    with refuses("exists", "`prompts.ask.txt`"):
        go(recipe, out)


class Described(RuleEngine):
    """The rule, under weights of its own."""

    def __init__(self, fail: Callable[[Call], CallFailure | None] = lambda _: None, **said: object):
        super().__init__(fail)
        self.said = said

    def describe(self) -> dict[str, object]:
        return {"model": "rule", "weights_sha256": "a" * 64, "versions": {"torch": "2"}} | self.said


def test_no_other_model_goes_on_with_a_log(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    with pytest.raises(EngineError):
        go(recipe, out, Described(fail=_stop_at(5)))
    begun = Described(weights_sha256="b" * 64)
    with refuses("mismatch", "`weights_sha256`"):
        go(recipe, out, begun)
    assert not begun.calls
    done = go(recipe, out, Described(versions={"torch": "3"}))  # versions may change
    assert done.log.manifest.source["pools"]["votes"]["engine"]["weights_sha256"] == "a" * 64


def test_no_other_encoder_goes_on_with_a_log(tmp_path: Path) -> None:
    chosen = "[embedding]\nmodel = 'x'\n[evidence]\ntop = 1\n[finalizer]"
    recipe = write_recipe(tmp_path, 2, RECIPE.replace("[finalizer]", chosen))
    rows = [{"example_id": f"s{i}", "question": f"{i} + 1", "gold": "1", "evidence": ["a", "b"]} for i in range(4)]
    pl.DataFrame(rows).write_ndjson(tmp_path / "examples.jsonl")

    class Other(Letters):
        def describe(self) -> dict[str, object]:
            return {"model": "letters", "sha256": "b"}

    class First(Letters):
        def describe(self) -> dict[str, object]:
            return {"model": "letters", "sha256": "a"}

    out = tmp_path / "log"
    with pytest.raises(EngineError):
        go(recipe, out, RuleEngine(fail=_stop_at(5)), embedder=First(), block=2)
    with refuses("mismatch", "`sha256`"):
        go(recipe, out, embedder=Other(), block=2)
    done = go(recipe, out, embedder=First(), block=2)
    assert done.log.manifest.source["embedding"] == {"model": "letters", "sha256": "a"}


def test_the_manifest_tells_what_every_run_saw(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    first = Described(lambda c: _stop(c) if c.key == "s005/probe/0" else None, reported_models=["a-1"])
    with pytest.raises(EngineError):
        go(recipe, out, first, block=3)
    done = go(recipe, out, Described(reported_models=["a-2"]), block=3)
    assert done.log.manifest.source["pools"]["probe"]["engine"]["reported_models"] == ["a-1", "a-2"]


def test_sealing_opens_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted when every call is answered and every row written: nothing is left to ask."""
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    with monkeypatch.context() as patched:
        patched.setattr("toolkit.log.LogWriter.seal", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            go(recipe, out)

    def none(_: object) -> RuleEngine:
        raise AssertionError("an engine was opened")

    assert generate(make_plan(load_recipe(recipe)), out, none).log.rows("traces") == 36


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_the_same_model_in_another_folder_goes_on(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    homes = [tmp_path / place / "rule" for place in ("here", "there")]
    for home in homes:
        home.mkdir(parents=True)
    with pytest.raises(EngineError):
        go(recipe, out, Described(fail=_stop_at(5)), settings=[f"engine.model={homes[0]}"])
    go(recipe, out, Described(), settings=[f"engine.model={homes[1]}"])
    with refuses("exists", "`engine.model`"):
        go(recipe, out, settings=["engine.model=other"])


def test_a_run_that_answered_nothing_may_be_changed(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    with pytest.raises(EngineError):
        go(recipe, out, RuleEngine(fail=_stop))
    go(recipe, out, settings=["sample.votes.samples=2"])
    assert traces(out).height == 30


def _stop_at(number: int) -> Callable[[Call], CallFailure | None]:
    count = iter(range(10**6))
    return lambda call: _stop(call) if next(count) == number else None


def _stop(_: Call) -> CallFailure | None:
    raise EngineError("the key is wrong")


def test_other_things_in_out_are_left_alone(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    out.mkdir()
    (out / "thesis.txt").write_text("x", encoding="utf-8")
    with refuses("exists", "`out`"):
        go(recipe, out)
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_an_engine_that_stops_keeps_what_it_answered(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    first = RuleEngine(fail=_stop_at(11))
    with pytest.raises(EngineError):
        go(recipe, out, first)
    assert first.closed
    second = RuleEngine()
    go(recipe, out, second)
    answered = {call.key for call in first.calls[:-1]}
    assert len(answered) == 11
    assert answered.isdisjoint(call.key for call in second.calls)
    go(recipe, tmp_path / "whole")
    assert traces(out).equals(traces(tmp_path / "whole"))


def test_what_another_attempt_may_cure_is_asked_again(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    with refuses("incomplete", "`s002/votes/1`", "1"):
        go(recipe, out, RuleEngine(fail=lambda c: CallFailure("hung", True) if c.key == "s002/votes/1" else None))
    assert not (out / "manifest.json").exists()
    second = RuleEngine()
    go(recipe, out, second)
    assert "s002/votes/1" in [call.key for call in second.calls]
    assert len(second.calls) <= 2  # the call and, it may be, its finalizer
    go(recipe, tmp_path / "whole")
    assert traces(out).equals(traces(tmp_path / "whole"))


def test_a_dead_server_ends_the_run_early(tmp_path: Path) -> None:
    engine = RuleEngine(fail=lambda _: CallFailure("refused", True))
    with refuses("incomplete", str(PATIENCE), "`s0"):
        go(write_recipe(tmp_path, 40), tmp_path / "log", engine)
    assert len(engine.calls) == PATIENCE


def test_a_prompt_that_is_too_long_is_named_and_recorded(tmp_path: Path) -> None:
    reason = "9 tokens, and it takes 8"
    engine = RuleEngine(fail=lambda c: CallFailure(reason, False) if c.key == "s003/probe/0" else None)
    done = go(write_recipe(tmp_path), tmp_path / "log", engine)
    assert done.failures == (("s003/probe/0", reason),)
    assert done.log.manifest.source["failures"] == [{"call": "s003/probe/0", "reason": reason}]
    rows = traces(tmp_path / "log").filter(pl.col("example_id") == "s003")
    assert rows["pool"].unique().to_list() == ["votes"]  # the probe and its revisions have no rows
    assert validate_log(done.log).ok
    with refuses("exists", "`out`", "1"):
        go(write_recipe(tmp_path), tmp_path / "log")


def test_an_example_without_any_trace_does_not_make_its_block_be_asked_again(tmp_path: Path) -> None:
    """The first block of three is written, with one example whose every call fails; then the run stops."""
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    reason = "9 tokens, and it takes 8"

    def fail(call: Call) -> CallFailure | None:
        if call.key.startswith("s005/"):
            raise EngineError("the key is wrong")
        return CallFailure(reason, False) if call.key.startswith("s001/") else None

    first, second = RuleEngine(fail), RuleEngine()
    with pytest.raises(EngineError):
        go(recipe, out, first, block=3, settings=["engine.in_flight=1"])
    assert open_log(out).rows("examples") == 3
    done = go(recipe, out, second, block=3)
    answered = {call.key for call in first.calls if not call.key.startswith("s005/")}
    assert answered.isdisjoint(call.key for call in second.calls)
    assert [call for call, _ in done.failures] == [
        f"s001/{one}" for one in ("probe/0", "votes/0", "votes/1", "votes/2")
    ]
    assert validate_log(done.log).ok
    go(recipe, tmp_path / "whole", RuleEngine(lambda c: CallFailure(reason, False) if "s001/" in c.key else None))
    assert traces(out).equals(traces(tmp_path / "whole"))


@pytest.mark.parametrize("block", [1, 4])
def test_a_run_stopped_between_two_tables_goes_on(tmp_path: Path, block: int) -> None:
    """The rows of examples are there and those of traces not, as after a kill between the two."""
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    stops = RuleEngine(lambda c: _stop(c) if c.key.startswith("s005/") else None)
    with pytest.raises(EngineError):
        go(recipe, out, stops, block=3, settings=["engine.in_flight=1"])
    for shard in (out / "traces").iterdir():
        shard.unlink()
    second = RuleEngine()
    go(recipe, out, second, block=block)
    assert {call.key.partition("/")[0] for call in second.calls} <= {"s003", "s004", "s005"}
    go(recipe, tmp_path / "whole")
    assert traces(out).equals(traces(tmp_path / "whole"))
    assert open_log(out).rows("examples") == 6


@pytest.mark.parametrize("odd", [float("nan"), float("-inf")])
def test_a_log_probability_that_is_no_number_is_not_told(tmp_path: Path, odd: float) -> None:
    class Odd(RuleEngine):
        def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
            for call, outcome in super().run(calls):
                assert isinstance(outcome, tuple)
                token = None if not call.logprobs else (-0.5, odd)
                yield call, tuple(replace(one, sum_logprob=odd, token_logprobs=token) for one in outcome)

    done = go(write_recipe(tmp_path, 2), tmp_path / "log", Odd())
    assert validate_log(done.log).ok
    rows = traces(tmp_path / "log")
    assert rows.height == 12
    assert rows["sum_logprob"].null_count() == rows["token_logprobs"].null_count() == 12


def test_a_log_without_any_trace_is_not_sealed(tmp_path: Path) -> None:
    engine = RuleEngine(lambda _: CallFailure("the prompt has 9 tokens and the model takes 8", False))
    with refuses("incomplete", "`s000/probe/0`", "24"):
        go(write_recipe(tmp_path), tmp_path / "log", engine)
    assert not (tmp_path / "log" / "manifest.json").exists()


def test_a_limit_that_the_context_shortens_is_the_traces(tmp_path: Path) -> None:
    class Short(RuleEngine):
        def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
            for call, outcome in super().run(calls):
                assert isinstance(outcome, tuple)
                yield call, tuple(replace(one, max_tokens=20 if "/votes/" in call.key else None) for one in outcome)

    rows = go(write_recipe(tmp_path, 2), tmp_path / "log", Short()).log
    limits = collect(rows.scan("traces", ["pool", "max_tokens"])).unique().sort("pool").rows()
    assert limits == [("again", 32), ("probe", 64), ("votes", 20)]


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    out.mkdir()
    with Journal(out), refuses("exists", "log`"):
        go(recipe, out)
    go(recipe, out)


def command(recipe: Path, out: Path, *more: str, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """`thinkback generate` in a process with files of at most `limit` bytes, on the rule."""
    code = (
        "import sys; from generate.recipes.recipe import EngineSettings; from tests.generate.toy import RuleEngine;"
        " EngineSettings.opened = lambda *_: RuleEngine(); from thinkback.app import main; main()"
    )

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-c", code, "generate", str(recipe), "--out", str(out), *more],
        capture_output=True, text=True, check=False, preexec_fn=small, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_full_disk_is_one_line_and_the_same_command_goes_on(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    full = command(recipe, out, limit=600_000)
    assert full.returncode == 2
    assert full.stderr.count("\n") == 1
    says(full, "write", f"`{out}`")
    with Journal(out) as journal:
        known = {(one.about, one.pool, one.sample) for one in journal.events(Answered)}
    assert len(known) > 5
    again = command(recipe, out)
    assert again.returncode == 0, again.stderr
    asked, wrote = again.stdout.splitlines()
    quotes(asked, " rule ", "http://127.0.0.1:9/v1", " key")
    quotes(wrote, str(out), "6 examples", "36 traces")
    go(recipe, tmp_path / "whole")
    assert traces(out).equals(traces(tmp_path / "whole"))
    twice = command(recipe, out)
    assert twice.returncode == 2
    says(twice, "exists", f"`{out}`", "36")


def test_a_dry_run_asks_and_writes_nothing(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"
    done = command(recipe, out, "--dry-run", "--shard", "1/2", "--limit", "4")
    assert done.returncode == 0, done.stderr
    assert not out.exists()
    # 2 examples: 2 probes, 6 votes, 4 revisions, each with a finalizer at worst
    assert "total: 12 requests and 12 of finalizers" in done.stdout
    bound = int(done.stdout.split("of finalizers, ")[-1].split(" tokens;")[0].replace(",", ""))
    go(recipe, out, shard=(1, 2), limit=4)
    rows = traces(out)
    assert rows["prompt_tokens"].sum() + rows["completion_tokens"].sum() <= bound
    for wrong in ("3/2", "0/2", "1", "a/b"):
        bad = CliRunner().invoke(app, ["generate", str(recipe), "--out", str(tmp_path / "x"), "--shard", wrong])
        assert bad.exit_code == 2
        assert "--shard" in bad.stderr


class Words(RuleEngine):
    """Writes so many random words, of which each is a token, more or less."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words, self.rng = words, random.Random(0)

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        for call, outcome in super().run(calls):
            assert isinstance(outcome, tuple)
            yield call, tuple(replace(one, text=self.said(one.text)) for one in outcome)

    def said(self, text: str) -> str:
        some = (int(self.rng.paretovariate(0.7)) % 5000 for _ in range(self.words))
        return " ".join("".join(random.Random(i).choices(string.ascii_lowercase, k=4)) for i in some) + text


@pytest.mark.parametrize(("examples", "words"), seeds(2, [(24, 0), (40, 60), (2, 0), (300, 0), (40, 400)]))
@pytest.mark.parametrize("long", ["question", "context"])
def test_the_bytes_of_a_dry_run_are_within_three_times_of_what_is_written(
    tmp_path: Path, examples: int, words: int, long: str
) -> None:
    limits = [f"{step}.max_tokens={words * 2 or 64}" for step in ("sample.probe", "sample.votes", "revise.again")]
    recipe, out, letters = write_recipe(tmp_path), tmp_path / "log", random.Random(0)
    rows = [{"example_id": f"{i}", "question": f"{i} + 1", "context": "", "gold": str(i + 1)} for i in range(examples)]
    for row in rows:
        row[long] = "".join(letters.choices(string.ascii_letters, k=500)) + row[long]
    pl.DataFrame(rows).write_ndjson(tmp_path / "examples.jsonl")
    plan = make_plan(load_recipe(recipe, limits))
    go(recipe, out, Words(words) if words else RuleEngine(), settings=limits)
    written = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    estimated = sum(one.disk_bytes for one in estimate_pools(plan)) + examples_bytes(plan)
    assert written / 3 <= estimated <= 3 * written


class HalvesEngine(RuleEngine):
    """Says one half in two ways, and something else: sample by sample."""

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        for call, outcome in super().run(calls):
            assert isinstance(outcome, tuple)
            words = ("\\frac{1}{2}", "0.5", "7")
            said = [replace(one, text=f"The answer is {word}.") for one, word in zip(outcome, words, strict=True)]
            yield call, tuple(said)


def test_how_answers_were_judged_is_told_and_kept_however_often_the_run_was_interrupted(tmp_path: Path) -> None:
    """Each of 4 examples has \\frac{1}{2}, 0.5 and 7 for the reference 0.5: the second takes the string of the first.
    Compared are the reference and the first, and the reference and 7, once for all examples."""
    pytest.importorskip("math_verify")
    votes = RECIPE.index("[[sample]]", RECIPE.index("[[sample]]") + 1)
    text = RECIPE[: RECIPE.index("[finalizer]")] + RECIPE[votes : RECIPE.index("[[revise]]")]
    text = text.replace('kind = "number"', 'kind = "exact"\njudge = "math-verify"')
    recipe, out = write_recipe(tmp_path, text=text), tmp_path / "log"
    rows = [{"example_id": f"s{i}", "question": f"{i} + 1", "gold": "0.5"} for i in range(4)]
    pl.DataFrame(rows).write_ndjson(tmp_path / "examples.jsonl")
    grouped = ["engine.samples_per_call=3"]
    with pytest.raises(EngineError):
        go(recipe, out, HalvesEngine(fail=_stop_at(2)), block=1, settings=grouped)
    done = go(recipe, out, HalvesEngine(), block=1, settings=grouped)
    assert numbers(done.judging) == ["4", "4", "2", "0", "0"]
    kept = {"merged": 4, "traces": 4, "comparisons": 2, "timed_out": 0, "failed": 0}
    assert done.log.manifest.source["judging"] == kept
    assert go(recipe, tmp_path / "whole", HalvesEngine(), settings=grouped).judging == done.judging
    answers = traces(out).sort("sample_index", "example_id")["answer"].unique(maintain_order=True).to_list()
    assert answers == ["\\frac{1}{2}", "7"]
    assert go(write_recipe(tmp_path), tmp_path / "plain").judging is None


CHOSEN = """
[embedding]
model = "letters"
[evidence]
top = 2
floor = 0.9
[few_shot]
choose = "similar"
k = 1
prompt = "shot.txt"
dataset = "examples"
path = "shots.jsonl"
"""


def test_chosen_evidence_and_few_shot_examples_are_recorded(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, 2, RECIPE.replace("[finalizer]", CHOSEN + "[finalizer]"))
    (tmp_path / "shot.txt").write_text("{{question}} is {{gold}}.", encoding="utf-8")
    (tmp_path / "ask.txt").write_text("{{examples}}\n{{evidence}}\nSum: {{question}}", encoding="utf-8")
    rows = [
        {"example_id": "a", "question": "abc 1 + 2", "gold": "3", "evidence": ["zz", "abc", "cab"]},
        {"example_id": "b", "question": "xyz 2 + 2", "gold": "4", "evidence": ["aa", "xyz"]},
    ]
    pl.DataFrame(rows).write_ndjson(tmp_path / "examples.jsonl")
    shots = [("t1", "cba 5 + 5", "10"), ("t2", "zzy 6 + 6", "12"), ("a", "abc 1 + 2", "3")]
    pl.DataFrame(shots, schema=["example_id", "question", "gold"], orient="row").write_ndjson(tmp_path / "shots.jsonl")
    engine = RuleEngine()
    done = go(recipe, tmp_path / "log", engine, embedder=Letters())
    log = done.log
    found = collect(log.scan("examples", list(log.columns("examples")))).sort("example_id")
    assert found["evidence"].to_list() == [["abc", "cab"], ["xyz", "aa"]]
    assert found["evidence_places"].to_list() == [[1, 2], [1, 0]]
    assert found["evidence_relaxed"].to_list() == [False, True]
    assert found["few_shot"].to_list() == [["t1"], ["t2"]]
    assert log.manifest.source["few_shot"] == {"examples": 2, "left_out_as_data": 1}
    assert log.manifest.source["embedding"] == {"model": "letters"}
    prompts = {str(call.prompt) for call in engine.calls if call.key == "b/probe/0"}
    assert prompts == {"zzy 6 + 6 is 12.\n- xyz\n- aa\nSum: xyz 2 + 2"}
