"""One queue: answers in any order, a kill at every request, and engines that do not keep to their word."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import add_signals
from generate.engines.base import Call, CallFailure, Completion, Outcome
from generate.journal.database import FOLDER, Journal
from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from generate.signals.additions import load_additions
from tests.errors import refuses
from tests.generate.toy import CHAINED, LOCAL, RuleEngine, ShuffledEngine, answers, write_recipe
from tests.seeds import seeds
from toolkit.log import Log, collect, open_log, validate_log

SECONDS = ("latency_s", "device_s", "started_s", "arrived_s")
JUDGED = """
name = "judged"
[engine]
kind = "openai"
model = "rule"
base_url = "http://127.0.0.1:9/v1"
[[verify]]
name = "judge"
kind = "judge"
prompt = "score.txt"
read = "number"
"""


def rows(log: Log, table: str = "traces") -> pl.DataFrame:
    frame = collect(log.scan(table, list(log.columns(table))))
    return frame.drop(SECONDS, strict=False)


def go(recipe: Path, out: Path, engine: Any, **options: Any) -> Log:
    settings = options.pop("settings", [])
    return generate(make_plan(load_recipe(recipe, settings)), out, lambda _: engine, **options).log


@pytest.fixture
def chained(tmp_path: Path) -> Path:
    return write_recipe(tmp_path, 2, CHAINED)


def test_rows_and_their_order_do_not_depend_on_the_order_of_answers(chained: Path, tmp_path: Path) -> None:
    whole = go(chained, tmp_path / "whole", RuleEngine())
    assert validate_log(whole).ok
    for seed in range(4):
        one = go(chained, tmp_path / f"{seed}", ShuffledEngine(seed), block=2)
        assert rows(one).equals(rows(whole))
        assert rows(one, "examples").equals(rows(whole, "examples"))


@dataclass
class Moments:
    """Copies of a folder as it is at each request and answer: what a kill at that moment leaves."""

    out: Path
    copies: Path
    answered: set[str]
    taken: list[tuple[Path, frozenset[str], str]]

    def __call__(self, what: str, call: Call) -> None:
        if what == "answered":
            self.answered.add(call.key)
        copy = self.copies / f"{len(self.taken)}"
        shutil.copytree(self.out, copy)
        self.taken.append((copy, frozenset(self.answered), call.key))


@pytest.mark.parametrize("step", seeds(1, [6, 1]))
def test_killed_at_every_request_the_rows_are_the_same_and_no_answer_is_asked_again(
    step: int, chained: Path, tmp_path: Path
) -> None:
    out = tmp_path / "log"
    moments = Moments(out, tmp_path / "copies", set(), [])
    whole = go(chained, out, ShuffledEngine(1, moments), block=1, settings=["engine.in_flight=2"])
    assert {key.split("/")[1] for _, _, key in moments.taken} == {"probe", "votes", "again", "third"}
    assert any(key.endswith("finalizer") for _, _, key in moments.taken)
    for copy, answered, _ in moments.taken[::step]:
        again = ShuffledEngine(2)
        log = go(chained, copy, again, block=1)
        assert answered.isdisjoint(call.key for call in again.calls), "an answered request is not asked again"
        assert len({call.key for call in again.calls}) == len(again.calls)
        assert rows(log).equals(rows(whole))
        assert not (copy / FOLDER).exists()


class Scores(ShuffledEngine):
    """A judge: a number, at the second try where the first digit of the sum is odd."""

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        for call, outcome in super().completed():
            assert isinstance(outcome, tuple)
            text = "well" if call.key.endswith("/0") and int(str(call.prompt)[7]) % 2 else "0.5"
            yield call, tuple(replace(one, text=text) for one in outcome)


@pytest.mark.parametrize("step", seeds(1, [9, 3]))
def test_a_judge_killed_at_every_request_adds_the_same(step: int, chained: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    go(chained, log, RuleEngine())
    (tmp_path / "score.txt").write_text("Judge: {{question}} {{attempt}}\n", encoding="utf-8")
    recipe = tmp_path / "judged.toml"
    recipe.write_text(JUDGED, encoding="utf-8")
    moments = Moments(log, tmp_path / "copies", set(), [])
    plan = make_add_plan(load_additions(recipe), log)
    whole = add_signals(plan, lambda _: Scores(1, moments)).log
    assert len(moments.taken) > 2 * 14
    for copy, answered, _ in moments.taken[::step]:
        again = Scores(2)
        done = add_signals(make_add_plan(load_additions(recipe), copy), lambda _, again=again: again).log
        assert answered.isdisjoint(call.key for call in again.calls)
        assert rows(done, "verifications").equals(rows(whole, "verifications"))


def test_a_judge_is_asked_about_the_next_block_while_one_waits(
    chained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, judge = tmp_path / "log", tmp_path / "judged.toml"
    go(chained, log, RuleEngine())
    shutil.copytree(log, tmp_path / "copy")
    (tmp_path / "score.txt").write_text("Judge: {{question}} {{attempt}}\n", encoding="utf-8")
    judge.write_text(JUDGED, encoding="utf-8")
    whole = add_signals(make_add_plan(load_additions(judge), tmp_path / "copy"), lambda _: Scores(1)).log
    monkeypatch.setattr("generate.signals.judge._PromptedWorker.per_block", 1)  # an example is a block
    engine, counted = Scores(1), list[float]()
    plan = make_add_plan(load_additions(judge), log)
    done = add_signals(plan, lambda _: engine, started=lambda _: lambda done=1, tokens=0: counted.append(done)).log
    assert engine.most == 2
    assert sum(counted) == done.rows("traces")
    assert rows(done, "verifications").equals(rows(whole, "verifications"))


def test_only_so_many_examples_are_open(tmp_path: Path) -> None:
    recipe, engine = write_recipe(tmp_path, 12, CHAINED), ShuffledEngine()
    go(recipe, tmp_path / "log", engine, settings=["engine.in_flight=3"])
    assert engine.most == 3
    with refuses(
        "exists", f"`{tmp_path / 'log'}`", "12 examples", "84 traces"
    ):  # the setting is no identity: the log is complete
        go(recipe, tmp_path / "log", engine, settings=["engine.in_flight=9"])


def test_a_call_is_asked_as_soon_as_what_it_reads_is_there(tmp_path: Path) -> None:
    """The probe of one example never ends before all else of the others is answered."""

    class Slow(ShuffledEngine):
        def completed(self) -> Iterator[tuple[Call, Outcome]]:
            self.waiting.sort(key=lambda call: call.key == "s000/probe/0")
            call = self.waiting.pop(0)
            yield call, answers(call)
            self.at("answered", call)

    order: list[str] = []
    engine = Slow(0, lambda what, call: order.append(call.key) if what == "answered" else None)
    go(write_recipe(tmp_path, 4, CHAINED), tmp_path / "log", engine)
    late = order.index("s000/probe/0")
    assert {key.partition("/")[0] for key in order[late:]} == {"s000"}
    assert "s003/third/0" in order[:late]


class Away(ShuffledEngine):
    """Goes away after five answers."""

    left = 5

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        for pair in super().completed():
            if not self.left:
                raise ConnectionError("peer closed\nthe connection")
            self.left -= 1
            yield pair


class Mute(Away):
    """Has no answer after five."""

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        for pair in ShuffledEngine.completed(self):
            if not self.left:
                return
            self.left -= 1
            yield pair


class Twice(ShuffledEngine):
    """Gives an answer once more."""

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        for pair in super().completed():
            yield pair
            yield pair


class Few(ShuffledEngine):
    """Gives a sample too few."""

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        for call, outcome in super().completed():
            assert isinstance(outcome, tuple)
            yield call, outcome[:-1]


class Zombie(ShuffledEngine):
    """Answers what was cancelled: the calls of a run before."""

    before: Call | None = None

    def cancel(self, call: Call) -> None:
        type(self).before = self.before or call

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        if self.before is not None:
            call, type(self).before = self.before, None
            yield replace(call, key=call.key.replace("/0", "/7")), answers(call)
        yield from super().completed()


@pytest.mark.parametrize(
    ("engine", "code", "quoted"),
    [
        (Away, "server", ("`s00", "peer closed the connection")),
        (Mute, "server", ("`s00",)),
        (Twice, "mismatch", ("`s00",)),
        (Few, "mismatch", ("`s00", "0 of 1")),
    ],
)
def test_an_engine_that_breaks_its_word_is_one_line_and_the_run_goes_on(
    tmp_path: Path, engine: type[ShuffledEngine], code: str, quoted: tuple[str, ...]
) -> None:
    recipe, out = write_recipe(tmp_path, 6, CHAINED), tmp_path / "log"
    with refuses(code, *quoted) as error:
        go(recipe, out, engine())
    assert "\n" not in str(error.value)
    log = go(recipe, out, ShuffledEngine(3))
    assert rows(log).equals(rows(go(recipe, tmp_path / "whole", RuleEngine())))


def test_an_answer_to_what_was_cancelled_is_named(tmp_path: Path) -> None:
    recipe, out, zombie = write_recipe(tmp_path, 6, CHAINED), tmp_path / "log", Zombie()
    dead = iter(range(9))

    def fails(what: str, _: Call) -> None:
        if what == "answered" and next(dead) == 3:
            raise KeyboardInterrupt

    zombie.at = fails
    with pytest.raises(KeyboardInterrupt):
        go(recipe, out, zombie)
    zombie.at = lambda *_: None
    zombie.waiting = []
    with refuses("mismatch", "`s00", "/7"):
        go(recipe, out, zombie)
    go(recipe, out, ShuffledEngine())


def test_an_engine_with_run_alone_gets_what_is_due_as_its_next_list(tmp_path: Path) -> None:
    lists: list[int] = []

    class Lists(RuleEngine):
        def run(self, calls: Any) -> Iterator[tuple[Call, Outcome]]:
            lists.append(len(calls))
            yield from super().run(calls)

    go(write_recipe(tmp_path, 4, CHAINED), tmp_path / "log", Lists())
    assert lists[0] == 4 * 4
    assert len(lists) <= 6


def test_moments_and_replies_are_logged(tmp_path: Path) -> None:
    class Told(ShuffledEngine):
        def completed(self) -> Iterator[tuple[Call, Outcome]]:
            for call, outcome in super().completed():
                assert isinstance(outcome, tuple)
                yield call, tuple(self.told(call, i, one) for i, one in enumerate(outcome))

        def told(self, call: Call, place: int, one: Completion) -> Completion:
            together = len(call.seeds) > 1
            text = f"<think>Or 7?</think>\n\n{one.text}" if "/votes/" in call.key else one.text
            tool = "[]" if call.key == "s001/probe/0" else None
            at = 1000.0 + len(self.calls)
            return replace(
                one, text=text, started_at=at, cost=0.5, cached_tokens=1, tool_calls=tool,
                request="r" if together else None, seeded=place == 0,
            )  # fmt: skip

    log = go(write_recipe(tmp_path, 3, CHAINED), tmp_path / "log", Told(), settings=["engine.samples_per_call=2"])
    assert validate_log(log).ok
    traces = collect(log.scan("traces")).sort("trace_id")
    votes = traces.filter(pl.col("pool") == "votes")
    assert votes["request"].to_list()[:3] == ["s000/votes/0", "s000/votes/0", None]
    assert votes["seed"].is_null().to_list()[:3] == [False, True, False]
    assert votes["reasoning"].unique().to_list() == ["Or 7?"]
    assert not votes["text"].str.contains("think").any()
    assert traces["started_s"].min() == 0
    assert (traces["arrived_s"] > traces["started_s"]).all()
    asked_twice = traces.filter("finalizer_used")
    assert asked_twice.height
    assert asked_twice["cost"].unique().to_list() == [1.0]
    [tool] = traces.filter(pl.col("trace_id") == "s001/probe/0").to_dicts()
    assert (tool["answer"], tool["tool_calls"], tool["finalizer_used"]) == (None, "[]", False)
    assert log.manifest is not None
    assert log.manifest.currency == "USD"


def test_pools_that_are_answered_together_share_the_wall_clock(tmp_path: Path) -> None:
    class Batches(ShuffledEngine):
        def completed(self) -> Iterator[tuple[Call, Outcome]]:
            time.sleep(0.4 * any("/probe/" in one.key for one in self.waiting))
            while self.waiting:
                for call, outcome in super().completed():
                    assert isinstance(outcome, tuple)
                    yield call, tuple(replace(one, device_s=1.0) for one in outcome)

    log = go(write_recipe(tmp_path, 3), tmp_path / "log", Batches())
    assert log.manifest is not None
    pools = log.manifest.source["pools"]
    assert pools["votes"]["wall_clock_s"] > 0.25  # three samples, against one
    assert pools["probe"]["wall_clock_s"] > 0.05


def test_ids_are_four_bytes_each_in_the_journal(tmp_path: Path) -> None:
    class Ids(ShuffledEngine):
        def completed(self) -> Iterator[tuple[Call, Outcome]]:
            for call, outcome in super().completed():
                assert isinstance(outcome, tuple)
                yield call, tuple(replace(one, token_ids=tuple(range(5000)), completion_tokens=5000) for one in outcome)

    recipe, out = (
        write_recipe(tmp_path, 2, LOCAL.replace("[engine]", "[engine]\nbase_url = 'http://127.0.0.1:9/v1'")),
        tmp_path / "log",
    )
    sizes: list[int] = []
    engine = Ids(0, lambda *_: sizes.append(sum(file.stat().st_size for file in (out / FOLDER).glob("journal*"))))
    log = go(recipe, out, engine)
    ids = collect(log.scan("traces", ["completion_ids"]))["completion_ids"]
    assert ids.to_list() == [list(range(5000))] * 12
    assert max(sizes) < 2 * 5 * 2**20


def test_a_failure_that_another_run_may_cure_leaves_the_rest_to_be_asked(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path, 6, CHAINED), tmp_path / "log"

    class Hung(ShuffledEngine):
        def completed(self) -> Iterator[tuple[Call, Outcome]]:
            for call, outcome in super().completed():
                yield call, CallFailure("hung", retryable=True) if call.key == "s001/probe/0" else outcome

    with refuses("incomplete", "`s001/probe/0`"):
        go(recipe, out, Hung(), settings=["engine.in_flight=1"])
    with Journal(out) as journal:
        assert {one.about for one in journal.answers_without_text()} == {f"s{i:03d}" for i in range(6)}
    again = ShuffledEngine()
    log = go(recipe, out, again)
    assert {call.key.partition("/")[0] for call in again.calls} == {"s001"}
    assert rows(log).equals(rows(go(recipe, tmp_path / "whole", RuleEngine())))
    assert open_log(out).rows("traces") == 42
