"""A user's own select: written, read, held to what it declares, checked for looking ahead, one line where it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import replay
from replay import Sample
from replay.sampling.selects import BestOfN, Select
from tests.errors import refuses, says
from tests.logs import GOLDS, POOL, log
from toolkit.errors import ThinkbackError
from toolkit.log import Log

FILE = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np


@dataclass(frozen=True)
class HighestMean:
    least: int = 1
    reads: ClassVar = ("votes", "scores")

    def chooses(self, seen):
        mean = seen.score_sums / np.maximum(seen.answer_votes, 1)
        return np.where(seen.answer_votes >= self.least, mean, -np.inf).argmax(axis=2)


@dataclass(frozen=True)
class AtTwo:
    reads: ClassVar = ()

    def holds(self, seen):
        return seen.traces >= 2
"""
POLICY = '[[policy]]\nname = "p"\nkind = "sample"\nmax_traces = 3\nverifier = "v"\nselect = '


@dataclass(frozen=True)
class Nth:
    """The trace of one step, once it is there; before, the latest."""

    n: int = 1
    reads: ClassVar = ()

    def takes(self, seen: replay.Prefix) -> np.ndarray:
        return np.minimum(seen.step, self.n)


@dataclass(frozen=True)
class Winner:
    """Cheats: who leads at the end of the row is not known yet."""

    reads: ClassVar = ("votes", "scores")

    def chooses(self, seen: replay.Prefix) -> np.ndarray:
        return np.minimum(seen.sum_leader[:, -1:], np.maximum(seen.answers - 1, 0))


@dataclass(frozen=True)
class Widest:
    """Cheats: how many answers there will be."""

    reads: ClassVar = ("votes",)

    def chooses(self, seen: replay.Prefix) -> np.ndarray:
        return np.where(seen.answer_votes.shape[2] > 2, seen.answers - 1, 0)


@dataclass(frozen=True)
class Fashion:
    """Cheats: the second answer, once most examples have one."""

    reads: ClassVar = ("votes",)

    def chooses(self, seen: replay.Prefix) -> np.ndarray:
        most = (seen.answers > 1).mean(axis=0, keepdims=True) > 0.5
        return np.where(most & (seen.answers > 1), 1, 0)


@dataclass(frozen=True)
class Gives:
    what: Any = None
    reads: ClassVar = ("votes",)

    def chooses(self, seen: replay.Prefix) -> Any:
        return self.what(seen)


@dataclass(frozen=True)
class Reads:
    reads: Any = ()

    def takes(self, seen: replay.Prefix) -> np.ndarray:
        return seen.step


@dataclass(frozen=True)
class Silent:
    def takes(self, seen: replay.Prefix) -> np.ndarray:
        return seen.step


@dataclass(frozen=True)
class Blind:
    reads: ClassVar = ("scores",)

    def chooses(self, seen: replay.Prefix) -> np.ndarray:
        return seen.step


@dataclass(frozen=True)
class Hides:
    reads: ClassVar = ("votes",)

    def chooses(self, seen: replay.Prefix) -> np.ndarray:
        return seen.sum_leader


@dataclass(frozen=True)
class Typed:
    count: int = 1
    share: float = 0.5
    word: str | None = None
    sizes: tuple[int, ...] = ()
    how: Literal["one", "two"] = "one"
    either: int | str = 1
    free: list[int] = field(default_factory=list)
    reads: ClassVar = ()

    def takes(self, seen: replay.Prefix) -> np.ndarray:
        return seen.step

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.traces >= self.count


@dataclass(frozen=True)
class Early(Select):
    """In the form of the built-in ones; cheats: how many valid traces there will be."""

    reads: ClassVar[frozenset[str]] = frozenset()

    def takes(self, seen: Any) -> np.ndarray:
        return np.where(seen.valid[:, -1:] == 3, seen.step, 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """e1: A .4, B .6, A .5; e2: B .9, none, B .2; e3: B .7, B .1, A .9."""
    return log(tmp_path_factory.mktemp("log"), {"n3": POOL}, GOLDS)


def sample(select: object, **more: Any) -> Sample:
    return Sample(name="p", max_traces=3, **({"verifier": "v", "select": select} | more))


def answers(made: Log, policy: Any, rules: Any = None) -> dict[str, list[str | None]]:
    found = replay.run(made, policy, rules=rules, resamples=5).outcomes.collect().sort("policy", "example_id")
    return {name: rows["answer"].to_list() for (name,), rows in found.group_by("policy", maintain_order=True)}


def test_a_file_s_select_is_named_in_policies(made: Log, tmp_path: Path) -> None:
    """Means: e1 A .45, B .6; e2 B .55; e3 B .4, A .9. With two votes at least: A, B, B."""
    rules = tmp_path / "rules.py"
    rules.write_text(FILE, encoding="utf-8")
    text = f'{POLICY}{{ rule = "HighestMean", least = [1, 2] }}\n{POLICY.replace("p", "q", 1)}"HighestMean"\n'
    text = (
        text.replace('name = "p"', 'name = "a"', 1).replace('name = "p"', 'name = "b"', 1).replace("qolicy", "policy")
    )
    assert answers(made, text, rules) == {
        "a[select.least=1]": ["B", "B", "A"], "a[select.least=2]": ["A", "B", "B"], "b": ["B", "B", "A"],
    }  # fmt: skip
    stopped = f"{POLICY}'HighestMean'\nstop = 'AtTwo'\n"  # after two: e1 A .4, B .6; e2 B .9; e3 B .4
    assert answers(made, stopped, rules) == {"p": ["B", "B", "B"]}
    replay.run(made, text, rules=rules, resamples=5).save(tmp_path / "out")
    record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    assert record["policies"][1]["select"] == {"rule": "HighestMean", "least": 2}


def test_an_instance_and_classes_in_python(made: Log) -> None:
    """The third trace: A, B, A; the second: B, none, B, where none is no answer."""
    assert answers(made, sample(Nth(3))) == {"p": ["A", "B", "A"]}
    assert answers(made, sample(Nth(2))) == {"p": ["B", None, "B"]}
    text = f"{POLICY}{{ rule = 'Nth', n = 3 }}\n"
    assert answers(made, text, [Nth]) == answers(made, text, Nth) == {"p": ["A", "B", "A"]}
    assert sample(Nth(3)) == sample(Nth(3)) != sample(Nth(2))
    assert sample(Nth(3)).cache_key == sample(Nth(3)).cache_key


def test_built_in_selects_have_other_spellings() -> None:
    assert sample(BestOfN()).select == sample({"rule": "best"}).select == sample("best").select == "best"
    text = f"{POLICY}{{ rule = 'weighted' }}\n"
    assert replay.load_policies(text).policies[0].select == "weighted"  # type: ignore[attr-defined]


def test_a_select_that_verifies_nothing_pays_for_nothing(made: Log) -> None:
    found = replay.run(made, sample(Nth(3), verifier=None), resamples=5).outcomes.collect()
    assert found["verifications"].to_list() == [0.0] * 3


@pytest.mark.parametrize("order", [{"order": "random", "seed": 4}, {"orders": 3}, {"width": 2}])
def test_other_orders(made: Log, order: dict[str, Any]) -> None:
    """After the last step the highest sum is the same in any order: A .9, B 1.1 (or .6), A .9."""

    @dataclass(frozen=True)
    class Sums:
        reads: ClassVar = ("votes", "scores")

        def chooses(self, seen: replay.Prefix) -> np.ndarray:
            return seen.sum_leader

    found = replay.run(made, sample(Sums(), **order), resamples=5).outcomes.collect().sort("example_id")
    expected = replay.run(made, sample("weighted", **order), resamples=5).outcomes.collect().sort("example_id")
    assert found["correct"].to_list() == expected["correct"].to_list() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("rule", "refusal"),
    [
        (Winner(), ("leakage", "`Winner`", "`p`", "2")),
        (Widest(), ("leakage", "`Widest`", "`p`", "2")),
        (Early(), ("leakage", "`Early`", "`p`", "1")),
        (Fashion(), ("leakage", "`Fashion`", "`p`")),
    ],
)
def test_a_select_that_cheats_is_refused(tmp_path: Path, rule: object, refusal: tuple[str, ...]) -> None:
    """Two examples of six have a second answer after two traces, and all after three; A leads e0 at the end."""
    pool = {f"e{i}": [("A", 0.1), ("A" if i % 3 else "B", 0.2), ("C" if i % 3 else "A", 0.0)] for i in range(6)}
    pool |= {"e0": [("A", 0.1), ("B", 0.2), ("A", 0.5)], "e3": [("A", 0.1), ("B", 0.2), ("C", 0.5)]}
    with refuses(*refusal):
        replay.run(log(tmp_path, {"n3": pool}, dict.fromkeys(pool, "A")), sample(rule), resamples=5)


@pytest.mark.parametrize(
    ("what", "refusal"),
    [
        (lambda seen: seen.step * 1.0, ("rule", "`chooses`", "3")),
        (lambda seen: seen.step[0], ("rule", "`Gives`", "`chooses`")),
        (lambda seen: seen.step, ("rule", "`Gives`", "1")),
        (lambda seen: 1 // 0, ("rule", "`Gives`")),
        (lambda seen: seen.lesder, ("unknown", "`Gives`", "`lesder`", "`leader`")),
        (lambda seen: seen.revealed, ("unknown", "`revealed`")),
        (lambda seen: seen.features["x"], ("rule", "`reads: ClassVar = ('features:x', 'votes')`")),
        (lambda seen: seen.examples["gold"], ("rule", "`gold`", "`examples`")),
    ],
)  # fmt: skip
def test_what_goes_wrong_in_it_is_one_line(made: Log, what: Callable[[Any], Any], refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        replay.run(made, sample(Gives(what)), resamples=5)


def test_a_step_that_comes_later_is_refused(made: Log) -> None:
    @dataclass(frozen=True)
    class Later:
        reads: ClassVar = ()

        def takes(self, seen: replay.Prefix) -> np.ndarray:
            return np.full_like(seen.step, 2)

    with refuses("rule", "`Later`", "1"):
        replay.run(made, sample(Later()), resamples=5)


@dataclass(frozen=True)
class Both:
    """With the methods of both kinds of selects."""

    reads: ClassVar = ("votes",)

    def chooses(self, seen: replay.Prefix) -> np.ndarray:
        return seen.leader

    def takes(self, seen: replay.Prefix) -> np.ndarray:
        return seen.step


@pytest.mark.parametrize(
    ("rule", "refusal"),
    [
        (Both(), ("rule", "`Both`", "`chooses`", "`takes`")),
        (Silent(), ("rule", "`Silent`")),
        (Blind(), ("rule", "`Blind`", "`reads: ClassVar = ('scores', 'votes')`")),
        (Reads("vote"), ("unknown", "`Reads`", "`vote`", "`reads`", "`votes`")),
        (Reads("features:"), ("unknown", "`Reads`", "`features:`", "`reads`")),
        (Reads(3), ("invalid", "`Reads`", "`reads`", "3")),
        (int, ("invalid", "`select`", "`first`", "'int'")),
        ("bets", ("unknown", "`bets`", "`best`")),
        ({"rule": "Mean"}, ("unknown", "`Mean`")),
        ({"rule": "best", "k": 3}, ("conflict", "`best`", "`k`")),
        (Typed(count="x"), ("invalid", "`Typed`", "`count`", "'x'")),  # type: ignore[arg-type]
        (Typed(share=True), ("invalid", "`Typed`", "`share`")),
        (Typed(word=3), ("invalid", "`Typed`", "`word`", "3")),  # type: ignore[arg-type]
        (Typed(sizes=(1, "x")), ("invalid", "`Typed`", "`sizes`", "'x'")),  # type: ignore[arg-type]
        (Typed(how="three"), ("invalid", "`Typed`", "`how`", "`one`", "`two`", "'three'")),  # type: ignore[arg-type]
        (Typed(either=0.5), ("invalid", "`Typed`", "`either`", "0.5")),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_a_select_is_one_line(rule: object, refusal: tuple[str, ...]) -> None:
    with pytest.raises(ThinkbackError) as refused:
        sample(rule)
    says(refused.value, *refusal)
    assert "policy `p`" in str(refused.value)


def test_fields_take_numpy_s_numbers_and_lists_for_tuples(made: Log) -> None:
    rule = Typed(count=np.int64(2), share=1, sizes=[np.int32(3)], free=[1])  # type: ignore[arg-type]
    policy = sample(rule, stop=rule)
    kept = policy.select.rule  # type: ignore[union-attr]
    assert (kept, type(kept.count), type(kept.share), kept.sizes) == (
        Typed(2, 1.0, None, (3,), free=[1]),
        int,
        float,
        (3,),
    )
    assert policy.stop.rule == kept  # type: ignore[attr-defined]
    assert answers(made, [policy, replace(policy, name="q")]) == {"p": ["B", None, "B"], "q": ["B", None, "B"]}
    with refuses("invalid", "`p`", "`Typed`", "`count`"):
        sample("best", stop=Typed(count="x"))  # type: ignore[arg-type]


def test_a_file_without_a_rule_or_with_a_class_that_is_none(tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text("class Plain:\n    def takes(self, seen):\n        return seen.step\n", encoding="utf-8")
    with refuses("rule", "`Plain`"):
        replay.load_policies(f"{POLICY}'Plain'\n", rules)
    rules.write_text("x = 1\n", encoding="utf-8")
    with refuses("rule", "`holds(self, seen)`"):
        replay.load_policies(f"{POLICY}'Plain'\n", rules)


@pytest.mark.parametrize(
    ("reads", "refusal"),
    [
        ("features:length", ("unknown", "`length`", "`Reads`")),
        ("examples:splt", ("unknown", "`splt`", "`Reads`", "`split`")),
        ("examples:gold", ("leakage", "`Reads`")),
        ("examples:labels", ("unsuitable", "`labels`", "`Reads`")),
    ],
)
def test_columns_that_cannot_be_read_are_one_line(made: Log, reads: str, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        replay.run(made, sample(Reads((reads,))), resamples=5)


def test_an_order_of_verifications_needs_scores() -> None:
    with refuses("unsuitable", "`Nth`"):
        sample(Nth(1), order="random")


def test_policies_that_share_a_walk_and_a_select_are_checked_once(made: Log) -> None:
    """A sweep of a stop costs one check of its select."""
    counts = []

    @dataclass(frozen=True)
    class Counts:
        reads: ClassVar = ()

        def takes(self, seen: replay.Prefix) -> np.ndarray:
            counts.append(seen.step.shape)
            return seen.step

    def run(policies: int) -> int:
        counts.clear()
        told = {"select": Counts(), "verifier": "v"}
        stops = [replay.Margin(i / 9) for i in range(policies)]
        swept = [Sample(name=f"p{i}", max_traces=3, stop=stop, **told) for i, stop in enumerate(stops)]  # type: ignore[arg-type]
        replay.run(made, swept, resamples=5)
        return len(counts)

    assert run(1) == run(9)
