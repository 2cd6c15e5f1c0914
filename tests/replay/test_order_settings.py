"""An order's parameters are keys of the policy, or stand in a table under `order`; own ones stay with the order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import replay
from replay import ORDERS, Sample
from replay.sampling.orders import GeneratedTraces, RandomOrder, _GenerateAllFirst, by_rising_key
from replay.sampling.surrogate import SurrogateOrder
from tests.errors import refuses
from tests.logs import GOLDS, POOL, log

POLICY = '[[policy]]\nname = "p"\nkind = "sample"\nmax_traces = 3\nverifier = "v"\n'


@dataclass(frozen=True)
class From(_GenerateAllFirst):
    """Verifies from the trace `start` on, round the end."""

    start: int = 0
    name: ClassVar[str] = "from"

    def verification_order(self, traces: GeneratedTraces) -> tuple[np.ndarray, np.ndarray]:
        size = traces.code.shape[1]
        return by_rising_key(traces.code, np.broadcast_to((np.arange(size) - self.start) % size, traces.code.shape))


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    ORDERS["from"] = From
    yield
    del ORDERS["from"]


def read(line: str) -> tuple[Any, ...]:
    return replay.load_policies(f"{POLICY}{line}\n").policies


def test_a_table_gives_the_policy_its_keys() -> None:
    keys = read('order = "surrogate"\nridge = 0.5\nmode = "pool"')
    table = read('order = { rule = "surrogate", ridge = 0.5, mode = "pool" }')
    assert table == keys
    assert (table[0].order, table[0].ridge, table[0].order_rule) == (
        "surrogate",
        0.5,
        SurrogateOrder(ridge=0.5, mode="pool"),
    )
    swept = read('order = { rule = "surrogate", ridge = [0.5, 2.0] }')
    assert [(one.name, one.ridge) for one in swept] == [("p[order.ridge=0.5]", 0.5), ("p[order.ridge=2.0]", 2.0)]
    assert read('order = { rule = "random" }') == read('order = "random"')


def test_parameters_of_its_own_stay_with_the_order(tmp_path: Path) -> None:
    """The verification of one trace: the second (B, none, B), or the third (A, B, A)."""
    made = log(tmp_path, {"n3": POOL}, GOLDS)
    stop = "stop = { rule = 'budget', verifications = 1 }"
    result = replay.run(made, read(f"order = {{ rule = 'from', start = [1, 2] }}\n{stop}"), resamples=5)
    found = result.outcomes.collect().sort("policy", "example_id")["answer"].to_list()
    assert found == ["B", "B", "B", "A", "B", "A"]  # of e2 the second trace has no answer, so the third is verified
    result.save(tmp_path / "out")
    record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    assert record["policies"][0]["order"] == {"rule": "from", "start": 1}
    assert Sample(name="p", max_traces=3, verifier="v", order=From(2)).order_rule == From(2)
    assert Sample(name="p", max_traces=3, verifier="v", order=RandomOrder()).order == "random"


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("order = { rule = 'surrogat' }", ("unknown", "`order`", "`surrogate`", "'surrogat'")),
        ("order = 3", ("invalid", "`order`", "`generation`", "3")),
        ("order = { ridge = 2 }", ("invalid", "`order`", "`generation`", "'ridge'", "2")),
        ("order = { rule = 'surrogate', rigde = 2 }", ("unknown", "`rigde`", "`order`", "`ridge`")),
        ("ridge = 1\norder = { rule = 'surrogate', ridge = 2 }", ("conflict", "`ridge`", "`order`")),
        ("order = { rule = 'surrogate', ridge = -1 }", ("invalid", "`ridge`", "-1", "0")),
    ],
)
def test_mistakes_are_one_line(line: str, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        read(line)


def test_an_order_with_keys_of_the_policy_is_refused_in_python() -> None:
    with refuses("conflict", "`ridge`", "`order`"):
        Sample(name="p", max_traces=3, verifier="v", order=SurrogateOrder(ridge=2.0))
