"""A slow function of a user's: other examples go on meanwhile, and the rows do not depend on what is done first."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from generate.sampling.workers import Workers
from tests.errors import refuses
from tests.loops.scripted import BEAM, FORCING, HEAD, TOOLS, go, rows, write_loops

SLOW = """

def slow_score(texts):
    import time
    time.sleep(0.001 * (sum(map(len, texts)) % 7))
    return score(texts)


def slow_lookup(query):
    import time
    time.sleep(0.001 * (len(query) * 31 % 11))
    return lookup(query)
"""
SLOWLY = [("mine.py:score", "mine.py:slow_score"), ("mine.py:lookup", "mine.py:slow_lookup")]


def write_slow(folder: Path, text: str, more: str = SLOW) -> Path:
    folder.mkdir(exist_ok=True)
    recipe = write_loops(folder, text, 6)
    mine = folder / "mine.py"
    mine.write_text(mine.read_text() + more, encoding="utf-8")
    return recipe


def test_rows_are_those_of_a_fast_function_whatever_comes_first(tmp_path: Path) -> None:
    fast = go(write_slow(tmp_path / "fast", HEAD + BEAM + TOOLS), tmp_path / "fast" / "log")
    text = HEAD + BEAM + TOOLS
    for before, after in SLOWLY:
        text = text.replace(before, after)
    for at_once in (1, 8):
        some = text.replace('slow_lookup"', f'slow_lookup"\nat_once = {at_once}')
        folder = tmp_path / f"slow{at_once}"
        slow = go(write_slow(folder, some), folder / "log", seed=at_once)
        assert rows(slow).equals(rows(fast))


STUCK = """

def held(query):
    import sys
    sys.held_calls.wait(60)
    return "nothing"
"""


def test_other_examples_go_on_while_a_function_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function returns only once all calls of the other pool are asked."""
    import sys

    held = threading.Event()
    monkeypatch.setattr(sys, "held_calls", held, raising=False)
    text = (HEAD + FORCING + TOOLS).replace("mine.py:lookup", "mine.py:held")
    forced: set[str] = set()

    def at(what: str, call: object) -> None:
        key = call.key  # type: ignore[attr-defined]
        if what == "asked" and "/forced/" in key:
            forced.add(key)
            if len(forced) == 6 * 3:
                held.set()

    began = time.monotonic()
    log = go(write_slow(tmp_path / "slow", text, STUCK), tmp_path / "slow" / "log", at=at)
    assert time.monotonic() - began < 50
    assert held.is_set()
    assert rows(log).filter(pool="tools")["text"].str.contains("nothing").any()


def test_a_function_that_fails_on_a_thread_is_one_line(tmp_path: Path) -> None:
    text = (HEAD + TOOLS).replace("mine.py:lookup", "mine.py:broken")
    recipe = write_slow(tmp_path / "slow", text, "\n\ndef broken(query):\n    raise ValueError('oh')\n")
    with refuses("rule", "`mine.py:broken`", "`tools`", "`s00", "request"):
        go(recipe, tmp_path / "slow" / "log")


def test_no_more_than_so_many_at_one_time() -> None:
    workers, running, most, lock = Workers(), 0, 0, threading.Lock()

    def work() -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1
        return 1

    for number in range(20):
        workers.begin_work("service", number, work, 3)
    done = []
    while workers.busy:
        done += workers.finished_work()
    assert sorted(done) == [(number, 1) for number in range(20)]
    assert 1 < most <= 3
