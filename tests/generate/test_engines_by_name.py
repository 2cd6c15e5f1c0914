"""Several engines in one recipe: each step asks its own, on one queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from generate.engines.base import Call, CallQueue, Outcome
from generate.engines.several import SeveralEngines
from generate.recipes.recipe import Recipe, load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from tests.errors import refuses
from tests.generate.toy import RECIPE, RuleEngine, ShuffledEngine, answers, write_recipe
from toolkit.log import collect

SECOND = '[engines.second]\nkind = "openai"\nmodel = "other"\nbase_url = "http://127.0.0.1:8/v1"\n'
TWO = RECIPE.replace("[finalizer]", SECOND + '[finalizer]\nengine = "second"') + 'engine = "second"\n'


def test_each_step_asks_its_own_engine(tmp_path: Path) -> None:
    opened: dict[str, ShuffledEngine] = {}

    def open_engine(recipe: Recipe) -> ShuffledEngine:
        engine = opened[recipe.engine.model] = ShuffledEngine(1)
        engine.model = recipe.engine.model
        return engine

    plain = generate(make_plan(load_recipe(write_recipe(tmp_path))), tmp_path / "one", lambda _: RuleEngine()).log
    log = generate(make_plan(load_recipe(write_recipe(tmp_path, text=TWO))), tmp_path / "log", open_engine).log
    pools = {name: {call.key.partition("/")[2] for call in engine.calls} for name, engine in opened.items()}
    assert {pool.partition("/")[0] for pool in pools["rule"]} == {"probe", "votes"}
    assert all(pool.startswith("again") or pool.endswith("finalizer") for pool in pools["other"])
    frames = [collect(one.scan("traces")).sort("trace_id") for one in (plain, log)]
    assert frames[1].select("pool", "model").unique().sort("pool").rows() == [
        ("again", "other"), ("probe", "rule"), ("votes", "rule"),
    ]  # fmt: skip
    assert frames[0].select("trace_id", "text", "seed").equals(frames[1].select("trace_id", "text", "seed"))
    source = log.manifest.source
    assert source["pools"]["again"]["model"] == "other"
    assert source["settings"]["engines.second.model"] == "other"
    assert source["settings"]["sample.votes.samples"] == 3
    assert "sample.votes.engine" not in source["settings"]


def test_an_engine_that_the_recipe_does_not_name(tmp_path: Path) -> None:
    with refuses("unknown", "`again.engine`", "`second`"):
        load_recipe(write_recipe(tmp_path, text=TWO.replace('engine = "second"\n', 'engine = "secnd"\n')))
    with refuses("conflict", "`EUR`", "`USD`"):
        load_recipe(write_recipe(tmp_path, text=TWO.replace('8/v1"\n', '8/v1"\ncurrency = "EUR"\n')))


class Waits(CallQueue):
    """A server: answers come after a while, and `completed` sleeps until one does."""

    def __init__(self, seconds: float):
        self.seconds, self.name, self.model = seconds, "waits", "waits"
        self.done: list[Call] = []
        self.came = threading.Event()

    def submit(self, call: Call) -> None:
        threading.Timer(self.seconds, self._come, [call]).start()

    def _come(self, call: Call) -> None:
        self.done.append(call)
        self.came.set()

    def can_complete(self) -> bool:
        return bool(self.done)

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        self.came.wait(10)
        self.came.clear()
        while self.done:
            call = self.done.pop()
            yield call, answers(call)

    def cancel(self, call: Call) -> None:
        """It comes all the same."""

    def close(self) -> None:
        """Nothing is held."""


def test_no_engine_waits_for_the_answers_of_another() -> None:
    several = SeveralEngines(lambda name: Waits(0.6 if name else 0.05))
    began = time.monotonic()
    several.submit(Call("slow", "1 + 1", (0,), (0.0,), 8, engine="slow"))
    for number in range(3):
        several.submit(Call(f"quick {number}", "1 + 1", (0,), (0.0,), 8))
        assert [call.key for call, _ in several.completed()] == [f"quick {number}"]
    assert time.monotonic() - began < 0.5
    assert [call.key for call, _ in several.completed()] == ["slow"]
    assert list(several.completed()) == []


@pytest.mark.parametrize("name", ["", "slow"])
def test_what_is_cancelled_is_not_waited_for(name: str) -> None:
    several = SeveralEngines(lambda _: RuleEngine())
    call = Call("one", "1 + 1", (0,), (0.0,), 8, engine=name)
    several.submit(call)
    several.cancel(call)
    assert list(several.completed()) == []
    assert list(several.engines) == [name]
    several.close()
    assert all(engine.closed for engine in several.engines.values())
