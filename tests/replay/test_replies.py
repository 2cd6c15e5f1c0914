"""Samples of one reply: seconds are paid once, prompts once where they were billed so, and money as it was billed."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from replay import run
from replay.data.replies import SharedCosts
from toolkit.log import Log, write_log

REPLIES = [["a", "a", None, "b", "b", "b"], [None, "c", "c", "c", None, "d"]]
SECONDS = [[4.0, 4.0, 1.0, 3.0, 3.0, 3.0], [2.0, 5.0, 5.0, 5.0, 1.0, 7.0]]
POLICY = '[[policy]]\nname = "p"\nkind = "sample"\npool = "n6"\nmax_traces = {}\nselect = "majority"\n{}\n'
PRICES = '[prices]\nm = { prompt = 1e6, completion = 0 }\ncurrency = "€"\n'


def make(path: Path, billed: bool, cost: bool = False) -> Log:
    rows = [
        {
            "trace_id": f"e{e}/{s}", "example_id": f"e{e}", "pool": "n6", "action": "solve", "sample_index": s,
            "model": "m", "answer": "xy"[s % 2], "correct": s % 2 == 0, "prompt_tokens": 10, "completion_tokens": 5,
            "latency_s": SECONDS[e][s], "request": REPLIES[e][s] and f"{e}/{REPLIES[e][s]}",
            **({"cost": 0.25} if cost else {}),
        }
        for e in range(2) for s in range(6)
    ]  # fmt: skip
    examples = [
        {"example_id": f"e{e}", "dataset": "d", "split": "test", "question": "q", "gold": "x"} for e in range(2)
    ]
    pools: Any = {"n6": {"prompt_billed": "request"}} if billed else None
    write_log(
        path, name="replies", tables={"examples": pl.DataFrame(examples), "traces": pl.DataFrame(rows)}, pools=pools
    )
    return _with_currency(path) if cost else _opened(path)


def _opened(path: Path) -> Log:
    from toolkit.log import open_log

    return open_log(path)


def _with_currency(path: Path) -> Log:
    manifest = path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"name"', '"currency": "$", "name"', 1))
    return _opened(path)


def costs(log: Log, cap: int, more: str = "", prices: str = "") -> dict[str, list[float]]:
    found = run(log, prices + POLICY.format(cap, more), resamples=10)
    frame = pl.DataFrame(found.outcomes.lazy().sort("example_id").collect())
    return {name: frame[name].to_list() for name in ("latency_s", "prompt_tokens", "price") if name in frame.columns}


def by_hand(example: int, order: Any, values: list[float]) -> float:
    """The values of drawn traces, each reply's once."""
    seen, total = set(), 0.0
    for sample in order:
        reply = REPLIES[example][sample]
        if reply is None or reply not in seen:
            total += values[sample]
        seen.add(reply)
    return total


@pytest.mark.parametrize("billed", [False, True])
@pytest.mark.parametrize("cap", [1, 2, 4, 6])
def test_a_reply_is_paid_once(tmp_path: Path, billed: bool, cap: int) -> None:
    found = costs(make(tmp_path / "log", billed), cap, prices=PRICES)
    for e in range(2):
        assert found["latency_s"][e] == pytest.approx(by_hand(e, range(cap), SECONDS[e]))
        prompts = by_hand(e, range(cap), [10.0] * 6) if billed else 10.0 * cap
        assert found["prompt_tokens"][e] == pytest.approx(prompts)
        assert found["price"][e] == pytest.approx(prompts)


@pytest.mark.parametrize("cap", [1, 2, 3, 5])
def test_over_all_orders_it_is_the_mean_of_every_order(tmp_path: Path, cap: int) -> None:
    found = costs(make(tmp_path / "log", True), cap, "expected = true")
    for e in range(2):
        for name, values in (("latency_s", SECONDS[e]), ("prompt_tokens", [10.0] * 6)):
            mean = np.mean([by_hand(e, order, values) for order in permutations(range(6), cap)])
            assert found[name][e] == pytest.approx(mean)


def test_money_is_what_was_billed_and_prices_win(tmp_path: Path) -> None:
    log = make(tmp_path / "log", False, cost=True)
    assert costs(log, 3)["price"] == [0.75, 0.75]
    assert costs(log, 3, prices=PRICES)["price"] == [30.0, 30.0]
    assert "price" not in costs(make(tmp_path / "plain", False), 3)


def test_repeats_are_those_of_every_subset() -> None:
    rng, reply = np.random.default_rng(0), np.array([[0, 0, 2, 3, 3, 3]])
    paid, known = rng.random((1, 6)), rng.random((1, 6)) * 0.5
    drawn, before = (rng.random((200_000, 6)) < one for one in (paid, known))
    shared = SharedCosts(reply, {})
    expected = np.zeros(6)
    for t in range(6):
        others = before[:, reply[0] == reply[0, t]].any(axis=1)
        others |= (drawn[:, :t][:, reply[0, :t] == reply[0, t]]).any(axis=1)
        expected[t] = (drawn[:, t] & others).mean()
    assert shared.probability_of_repeated_reply(paid, known)[0] == pytest.approx(expected, abs=0.01)


def test_what_is_abandoned_is_a_call_of_its_own(tmp_path: Path) -> None:
    """The first trace of e0 is given up: the second pays the prompt and the seconds of the reply that had both."""
    made, tables = make(tmp_path / "log", billed=True), {}
    for name in ("examples", "traces"):
        tables[name] = pl.DataFrame(made.scan(name).collect())
    tables["traces"] = tables["traces"].with_columns(pl.lit(0.5).alias("latency_s@4"), pl.lit(0.0).alias("device_s@4"))
    scores = tables["traces"].select("trace_id", "example_id", verifier=pl.lit("early@4"))
    scores = scores.with_columns(score=pl.when(pl.col("trace_id") == "e0/0").then(0.1).otherwise(0.9))
    free = {"prompt_tokens": 0, "completion_tokens": 0, "latency_s": 0.0, "device_s": 0.0}
    tables["verifications"] = scores.with_columns(pl.lit(value).alias(name) for name, value in free.items())
    pools = {"n6": {"prompt_billed": "request"}}
    log = write_log(tmp_path / "scored", name="replies", tables=tables, pools=pools)
    found = costs(log, 6, 'abandon = { verifier = "early@4", tokens = 4, below = 0.4 }')
    assert found["prompt_tokens"] == [10 + 3 * 10, 4 * 10]
    assert found["latency_s"] == [0.5 + 4 + 1 + 3, 2 + 5 + 1 + 7]
