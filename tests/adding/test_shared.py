"""Runs that meet in one log: each keeps its own work, and seals what the log lacks by then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from generate.annotating.annotation_plan import estimate_remaining_work, make_add_plan
from generate.annotating.annotation_run import LATE, add_signals
from generate.engines.base import Call, CallFailure
from generate.signals.additions import load_additions
from generate.signals.judge import _PromptedWorker
from generate.signals.random_score import _RandomWorker
from tests.adding.judges import Judge, in_json
from tests.adding.test_adding import CHANCE, ENGINE, JUDGE, run, scores
from tests.errors import refuses
from tests.logs import make_log, make_rows, write_recipe
from toolkit.log import ADDING, merge_logs
from toolkit.progress import Advance


class Killed(BaseException):
    """The process is gone."""


def dying(after: int, asked: list[str]) -> Callable[[Call], str]:
    """A judge that is killed when it was asked so often."""

    def rule(call: Call) -> str:
        if len(asked) == after:
            raise Killed
        asked.append(call.key)
        return in_json(call)

    return rule


def add_chance(folder: Path, text: str, dies_after: int | None = None, **options: object) -> None:
    """Add in small blocks; the process dies after so many of them."""
    recipe = write_recipe(folder, text, "chance.toml")

    def started(_: int) -> Advance:
        blocks: list[float] = []

        def advance(done: float = 1, tokens: int = 0) -> None:
            if dies_after is not None and len(blocks) == dies_after:
                raise Killed
            blocks.append(done)

        return advance

    add_signals(make_add_plan(load_additions(recipe), folder / "log", **options), lambda _: None, started=started)


def test_another_recipe_leaves_the_work_of_a_killed_one(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    asked: list[str] = []
    with pytest.raises(Killed):
        run(tmp_path, JUDGE, dying(20, asked))
    add_chance(tmp_path, CHANCE)
    add_chance(tmp_path, CHANCE)  # the log lacks nothing of it now
    later: list[str] = []
    run(tmp_path, JUDGE, lambda call: later.append(call.key) or in_json(call))
    assert len(asked) == 20
    assert set(asked).isdisjoint(later)
    assert scores(tmp_path, "judge").height == 30
    assert not (tmp_path / "log" / ADDING).exists()


def test_what_a_killed_run_left_goes_though_the_log_lacks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed once its rows were in the log, before it removed its own folder."""
    make_log(tmp_path / "log")
    with monkeypatch.context() as patch:
        patch.setattr("generate.annotating.annotation_run._SignalRun.remove_folder_once_added", lambda _: None)
        add_chance(tmp_path, CHANCE)
    assert (tmp_path / "log" / ADDING).is_dir()
    before = scores(tmp_path, "chance")
    add_chance(tmp_path, CHANCE)
    assert not (tmp_path / "log" / ADDING).exists()
    assert scores(tmp_path, "chance").equals(before)


def test_another_recipe_leaves_the_work_of_a_live_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The live one has 3 blocks of 10 traces; another is added, and asked for again, in the midst of it."""
    monkeypatch.setattr(_RandomWorker, "per_block", 10)
    make_log(tmp_path / "log")
    seen: list[str] = []

    def rule(call: Call) -> str:
        seen.append(call.key)
        if len(seen) in (10, 20):
            add_chance(tmp_path, CHANCE)
            with refuses("exists", "verifiers-judge-d36c7573`"):
                run(tmp_path, JUDGE)
        return in_json(call)

    done = run(tmp_path, JUDGE + CHANCE.replace("chance", "other"), rule)
    assert [record.rows for _, record in done.steps] == [30, 30]
    assert scores(tmp_path, "chance").height == 30


def test_work_of_what_another_shard_added_meanwhile_is_not_added_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_RandomWorker, "per_block", 10)
    make_log(tmp_path / "log", 40)
    with pytest.raises(Killed):
        add_chance(tmp_path, CHANCE, dies_after=8)
    add_chance(tmp_path, CHANCE, shard=(1, 2))
    add_chance(tmp_path, CHANCE)
    made = scores(tmp_path, "chance")
    assert made.height == made["trace_id"].n_unique() == 200
    assert not (tmp_path / "log" / ADDING).exists()


def test_unreadable_ones_of_another_shard_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_log(tmp_path / "log")

    def rule(call: Call) -> str:
        return "?" if call.prompt.startswith("sum: 2 ") else in_json(call)

    asked: list[str] = []

    def dies(call: Call) -> str:
        if len(asked) == 30:
            raise Killed
        asked.append(call.key)
        return rule(call)

    with monkeypatch.context() as small:
        small.setattr(_PromptedWorker, "per_block", 5)
        with pytest.raises(Killed):
            run(tmp_path, JUDGE, dies)
    run(tmp_path, JUDGE, rule, shard=(1, 2))
    done = run(tmp_path, JUDGE, rule)
    entry = done.log.manifest.source["verifiers"]["judge"]
    assert (entry["rows"], entry["unreadable"]["count"]) == (25, 5)
    assert scores(tmp_path, "judge").height == 25


def test_a_run_over_fewer_examples_keeps_what_was_made_of_the_others(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    asked: list[str] = []
    with pytest.raises(Killed):
        run(tmp_path, JUDGE, dying(20, asked))
    run(tmp_path, JUDGE, lambda _: pytest.fail("asked again"), limit=1)
    later: list[str] = []
    run(tmp_path, JUDGE, lambda call: later.append(call.key) or in_json(call))
    assert set(asked).isdisjoint(later)
    assert scores(tmp_path, "judge").height == 30
    assert not (tmp_path / "log" / ADDING).exists()


def test_a_choice_of_before_is_not_taken_for_one_among_other_traces(tmp_path: Path) -> None:
    """The first vote has no answer: with `answered` the list begins with the second one, so `2` means another."""
    first = (pl.col("pool") == "votes") & (pl.col("sample_index") == 0)
    traces = make_rows()["traces"].with_columns(
        answer=pl.when(~first).then("answer"), correct=pl.when(~first).then("correct").otherwise(False)
    )
    make_log(tmp_path / "log", traces=traces)
    step = '[[verify]]\nname = "best"\nkind = "listwise"\nprompt = "best.txt"\npools = ["votes"]\n'
    asked: list[str] = []

    def second(call: Call) -> str:
        if len(asked) == 4:
            raise Killed
        asked.append(call.key)
        return '{"best": 2}'

    with pytest.raises(Killed):
        run(tmp_path, ENGINE + step, second)
    asked.clear()
    run(tmp_path, ENGINE + step + "answered = true\n", lambda call: asked.append(call.key) or '{"best": 3}')
    assert len(asked) == 6
    made = scores(tmp_path, "best")
    assert set(made.filter(pl.col("score") == 1)["trace_id"].str.slice(-1)) == {"3"}


BEST = ENGINE + '[[verify]]\nname = "best"\nkind = "listwise"\nprompt = "best.txt"\n'


def test_choices_that_can_t_be_read_are_counted_once_each(tmp_path: Path) -> None:
    """Of 6 groups of 4 votes one is chosen in, 5 are not; the 6 revisions are alone and nobody is asked about them."""
    make_log(tmp_path / "log")
    asked: list[str] = []

    def rule(call: Call) -> str:
        asked.append(call.key)
        return '{"best": 2}' if "sum: 1 " in call.prompt else "hm"

    done = run(tmp_path, BEST, rule)
    entry = done.log.manifest.source["verifiers"]["best"]
    assert (entry["rows"], entry["unreadable"]["count"], len(entry["unreadable"]["traces"])) == (4, 5, 20)
    assert len(asked) == 1 + 2 * 5
    assert [one["trace_id"] for one in entry["skipped"]] == [f"s00{number}/verify/0" for number in range(6)]
    assert len({one["reason"] for one in entry["skipped"]}) == 1


def test_a_trace_that_came_after_the_choice_is_named(tmp_path: Path) -> None:
    traces = make_rows()["traces"]
    early = tmp_path / "early"
    early.mkdir()
    make_log(early / "log", traces=traces.filter(~pl.col("trace_id").str.ends_with("votes/3")))
    run(early, BEST + 'pools = ["votes"]\n', lambda _: '{"best": 1}')
    make_log(tmp_path / "more")
    merge_logs([early / "log", tmp_path / "more"], tmp_path / "log")
    done = run(tmp_path, BEST + 'pools = ["votes"]\n', lambda _: pytest.fail("asked"))
    said = done.log.manifest.source["verifiers"]["best"]["skipped"]
    assert [one["trace_id"] for one in said] == [f"s00{number}/votes/3" for number in range(6)]
    assert {one["reason"] for one in said} == {LATE}
    assert run(tmp_path, BEST + 'pools = ["votes"]\n').steps == ()


def test_calls_for_choices_are_bounded_by_groups(tmp_path: Path) -> None:
    """Of each of 6 examples the votes, and two revisions of each of two votes: 18 groups, asked about twice at most."""
    rows = make_rows()["traces"]
    first = rows.filter(pl.col("pool") == "verify")
    of_second = first.with_columns(
        parent_id=pl.col("example_id") + "/votes/1", trace_id=pl.col("trace_id") + "b", sample_index=2
    )
    more = pl.concat([first, of_second.cast(dict(first.schema))])
    again = more.with_columns(trace_id=pl.col("trace_id") + "+", sample_index=pl.col("sample_index") + 1)
    make_log(tmp_path / "log", traces=pl.concat([rows, of_second.cast(dict(rows.schema)), again]))
    plan = make_add_plan(load_additions(write_recipe(tmp_path, BEST)), tmp_path / "log")
    assert [one.cost.calls for one in estimate_remaining_work(plan)] == [36]
    asked: list[str] = []
    run(tmp_path, BEST, lambda call: asked.append(call.key) or '{"best": 1}')
    assert len(asked) == 18


def test_a_trace_that_was_alone_is_chosen_among_once_it_has_company(tmp_path: Path) -> None:
    """One vote of each example first, then four; what was said of the first is no longer there."""
    traces = make_rows()["traces"]
    early = tmp_path / "early"
    early.mkdir()
    make_log(early / "log", traces=traces.filter(pl.col("trace_id").str.ends_with("votes/0")))
    best = BEST + 'pools = ["votes"]\n'
    done = run(early, best, lambda _: pytest.fail("asked"))
    assert len(done.log.manifest.source["verifiers"]["best"]["skipped"]) == 6
    make_log(tmp_path / "more")
    merge_logs([early / "log", tmp_path / "more"], tmp_path / "log")
    done = run(tmp_path, best, lambda _: '{"best": 1}')
    assert done.log.manifest.source["verifiers"]["best"]["rows"] == 24
    assert "skipped" not in done.log.manifest.source["verifiers"]["best"]
    assert scores(tmp_path, "best")["candidates"].unique().to_list() == [4]
    assert run(tmp_path, best).steps == ()


def test_settings_that_came_to_nothing_may_be_changed(tmp_path: Path) -> None:
    """A trial on one example of which nothing could be read: with a better limit the same name is free."""
    make_log(tmp_path / "log")
    done = run(tmp_path, JUDGE, lambda _: "hm", limit=1)
    assert done.log.manifest.source["verifiers"]["judge"]["unreadable"]["count"] == 5
    assert run(tmp_path, JUDGE, limit=1).steps == (), "with the same settings they are settled"
    done = run(tmp_path, JUDGE + "max_tokens = 64\n")
    said = done.log.manifest.source["verifiers"]["judge"]
    assert (said["rows"], said["settings"]["max_tokens"]) == (30, 64)
    assert "traces" not in said.get("unreadable", {}) or said["unreadable"]["traces"] == []
    with refuses("conflict", "`judge`", "`max_tokens`"):
        run(tmp_path, JUDGE)


def test_tokens_of_a_judgement_whose_second_try_failed_are_counted(tmp_path: Path) -> None:
    make_log(tmp_path / "log", 2)

    def rule(call: Call) -> str | CallFailure:
        if "s000" in call.key:
            return '{"score": 1}'
        return "hm" if call.key.endswith("/0") else CallFailure("too long", retryable=False)

    entry = run(tmp_path, JUDGE, rule).log.manifest.source["verifiers"]["judge"]
    assert (entry["rows"], len(entry["skipped"])) == (5, 5)
    assert entry["unreadable"]["count"] == 0
    assert entry["unreadable"]["tokens"] > 5 * len("hm")


def test_a_filter_is_checked_against_the_whole_log(tmp_path: Path) -> None:
    """The first example is of the split `train`; that the others are of `test` is no mistake of the recipe's."""
    make_log(tmp_path / "log")
    assert run(tmp_path, CHANCE + 'split = ["test"]\n', limit=1).steps == ()
    assert run(tmp_path, CHANCE + 'split = ["test"]\n', shard=(2, 2)).steps[0][1].rows == 15


def test_progress_counts_every_trace_once(tmp_path: Path) -> None:
    """Whatever was answered before, is alone, or stands for several traces."""
    make_log(tmp_path / "log")
    with pytest.raises(Killed):
        run(tmp_path, JUDGE, dying(20, []))
    run_of_both = write_recipe(tmp_path, JUDGE + BEST.removeprefix(ENGINE))
    plan = make_add_plan(load_additions(run_of_both), tmp_path / "log")
    counted: list[float] = []

    def started(known: int) -> Advance:
        counted.append(known)
        return lambda done=1, tokens=0: counted.append(done)

    rule = Judge(lambda call: '{"best": 2}' if "best:" in call.prompt else in_json(call))
    add_signals(plan, lambda _: rule, started=started)
    assert sum(counted) == plan.missing_row_count == 60


def test_a_server_that_was_mended_is_asked_anew(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    with refuses("unreadable", "30"):
        run(tmp_path, JUDGE, lambda _: "")
    assert not (tmp_path / "log" / ADDING).exists()
    run(tmp_path, JUDGE, lambda _: '{"score": 0.5}')
    assert scores(tmp_path, "judge").height == 30


def test_a_few_unreadable_ones_beside_many_that_stand_are_no_reason_to_give_up(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    run(tmp_path, JUDGE, limit=4)
    done = run(tmp_path, CHANCE + JUDGE, lambda _: "hm")
    assert done.log.manifest.source["verifiers"]["judge"]["unreadable"]["count"] == 10
    assert scores(tmp_path, "chance").height == 30
    few = tmp_path / "few"
    few.mkdir()
    make_log(few / "log", 1)
    assert len(run(few, JUDGE, lambda _: "hm").steps[0][1].unreadable) == 5
