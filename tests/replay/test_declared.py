"""What a stopping rule declares that it reads: it verifies for scores, needs comparable answers for votes, and is shown
nothing else."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

import replay
from replay import Budget, Margin, Sample, Window
from replay.sampling.known import ORDERS, SELECTS
from replay.sampling.orders import GeneratedTraces, WalkSteps, _GenerateAllFirst, by_rising_key
from replay.sampling.selects import Select
from tests.errors import refuses, says
from tests.logs import tables
from toolkit.errors import ThinkbackError
from toolkit.log import Log, write_log
from toolkit.stopping.stops import StopRule

POOL = {f"e{i}": [("A", 0.1), ("B", 0.95), ("A", 0.3)] for i in range(3)}
GOLDS = dict.fromkeys(POOL, "A")


@dataclass(frozen=True)
class Undeclared:
    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.traces >= 2


@dataclass(frozen=True)
class Counts:
    reads: ClassVar = ()

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.traces >= 2


@dataclass(frozen=True)
class Scores:
    reads: ClassVar = ("scores",)

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.best_score >= 0.9


@dataclass(frozen=True)
class Hides:
    reads: ClassVar = ("scores",)

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.lead > 0


@dataclass(frozen=True)
class Cuts:
    reads: ClassVar = ()

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.first(99).rows(slice(None)).votes >= 2


@dataclass(frozen=True)
class Formal(StopRule):
    name: ClassVar[str] = "formal"
    reads: ClassVar[frozenset[str]] = frozenset()

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.votes >= 2


@dataclass(frozen=True)
class Peek(Window):
    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.votes >= seen.votes.max(axis=1, keepdims=True)


@dataclass(frozen=True)
class PeekMargin(Margin):
    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.best_score >= seen.best_score.max(axis=1, keepdims=True)


@dataclass(frozen=True)
class Popular(Select):
    """Votes without saying so."""

    name: ClassVar[str] = "popular"
    reads: ClassVar[frozenset[str]] = frozenset()

    def takes(self, seen: replay.Prefix) -> np.ndarray:
        return seen.votes


@dataclass(frozen=True)
class ByFeature(_GenerateAllFirst):
    """By a feature of its own; its answers and scores are not declared."""

    name: ClassVar[str] = "by feature"
    reads: ClassVar[frozenset[str]] = frozenset({"features"})
    features: ClassVar[tuple[str, ...]] = ("length",)

    def verification_order(self, traces: GeneratedTraces) -> tuple[np.ndarray, np.ndarray]:
        assert set(np.unique(traces.code)) <= {-1, 0}
        assert np.isnan(traces.score).all()
        return by_rising_key(traces.code, traces.features[0])

    def walk_steps(self, traces: GeneratedTraces) -> WalkSteps:
        blind = np.isnan(traces.features[0]).any(axis=1)
        return replace(super().walk_steps(traces), unread=np.where(blind, 1, 9))


def vote(stop: object, **more: object) -> Sample:
    return Sample(name="p", max_traces=3, stop=stop, **({"select": "majority"} | more))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return write_log(tmp_path_factory.mktemp("plain") / "log", name="p", tables=tables({"n3": POOL}, GOLDS))


@pytest.fixture(scope="module")
def opaque(tmp_path_factory: pytest.TempPathFactory) -> Log:
    made = tables({"n3": POOL}, GOLDS)
    made["traces"] = made["traces"].with_columns(opaque=pl.lit(True), answer=pl.col("trace_id"))
    return write_log(tmp_path_factory.mktemp("opaque") / "log", name="o", tables=made)


def test_scores_are_verified_for_their_sake(plain: Log) -> None:
    with refuses("unsuitable", "`verifier`"):
        vote(Scores())
    spent = replay.run(plain, vote(Scores(), verifier="v"), resamples=5).outcomes.collect()
    assert spent["verifications"].to_list() == [2.0] * 3
    for rule in (Undeclared(), Counts()):
        assert replay.run(plain, vote(rule), resamples=5).outcomes.collect()["verifications"].to_list() == [0.0] * 3


def test_rules_that_may_read_votes_are_refused_where_answers_cannot_be_compared(opaque: Log) -> None:
    best = {"select": "best", "verifier": "v"}
    for rule in (Undeclared(), Window(2)):
        with refuses("unsuitable", "`p`", "`n3`"):
            replay.run(opaque, vote(rule, **best), resamples=5)
    for rule in (Counts(), Scores(), Budget(traces=2)):
        spent = replay.run(opaque, vote(rule, **best), resamples=5).outcomes.collect()
        assert spent["traces"].to_list() == [2.0] * 3


def test_what_is_not_declared_cannot_be_read(plain: Log) -> None:
    with pytest.raises(ThinkbackError) as refused:
        replay.run(plain, vote(Hides(), verifier="v"), resamples=5)
    says(refused.value, "rule", "`Hides`", "`lead`")
    says(refused.value, "rule", "`reads: ClassVar = ('scores', 'votes')`")


@pytest.mark.parametrize("rule", [Cuts(), Formal()])
def test_no_other_form_or_way_shows_more(opaque: Log, rule: object) -> None:
    with refuses("rule", "`votes`"):
        replay.run(opaque, vote(rule, select="best", verifier="v"), resamples=5)


@pytest.mark.parametrize("rule", [Peek(2), PeekMargin(0.5)])
def test_a_rule_made_of_a_built_in_one_is_checked_like_any_other(plain: Log, rule: object) -> None:
    with refuses("leakage", "`p`"):
        replay.run(plain, vote(rule, verifier="v"), resamples=5)


def test_a_select_sees_what_it_declares(opaque: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SELECTS, "popular", Popular)
    with refuses("rule", "`popular`", "`votes`"):
        replay.run(opaque, Sample(name="p", max_traces=3, select="popular"), resamples=5)


def test_an_order_sees_what_it_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths 3, 1, 2: the second trace is verified first. Where one is null, the example is partial and says why."""
    monkeypatch.setitem(ORDERS, "by feature", ByFeature)
    made = tables({"n3": POOL}, GOLDS)
    ids = made["traces"]["trace_id"].to_list()
    lengths = [None if name == "e2/n3/1" else {"0": 3.0, "1": 1.0, "2": 2.0}[name[-1]] for name in ids]
    made["features"] = made["traces"].select("trace_id", "example_id", length=pl.Series(lengths))
    log = write_log(tmp_path / "log", name="f", tables=made)
    told = {"order": "by feature", "select": "best", "verifier": "v", "stop": Budget(verifications=1)}
    result = replay.run(log, Sample(name="p", max_traces=3, **told), resamples=5)
    assert result.outcomes.collect()["answer"].to_list() == ["B", "B"]
    assert "`length`" in result.excluded["e2"]


@pytest.mark.parametrize(
    ("reads", "refusal"), [(5, ("invalid", "`reads`", "5")), (("vote",), ("unknown", "`vote`", "`reads`", "`votes`"))]
)
def test_what_cannot_be_declared_is_one_line(reads: object, refusal: tuple[str, ...]) -> None:
    rule = dataclass(frozen=True)(type("Odd", (), {"reads": reads, "holds": Counts.holds}))
    with refuses(*refusal):
        vote(rule())


def test_what_is_learnt_is_given_as_a_table_too() -> None:
    told = {"max_traces": 3, "select": "best", "verifier": "v"}
    made = Sample(name="p", conformal={"on": "split = 'dev'", "alpha": 0.2}, **told)
    assert made == Sample(name="p", conformal=replay.Conformal(on="split = 'dev'", alpha=0.2), **told)
    with refuses("unsuitable", "`conformal`", "`Conformal`", "3"):
        Sample(name="p", conformal=3, **told)


def test_a_rule_in_the_built_in_form_needs_no_more_than_a_plain_one(plain: Log, tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\nimport replay\n\n\n"
        "@dataclass(frozen=True)\nclass Mine(replay.Window):\n    reads: ClassVar = ('votes',)\n\n\n"
        "@dataclass(frozen=True)\nclass Bare(replay.StopRule):\n    reads: ClassVar = ()\n\n"
        "    def holds(self, seen):\n        return seen.traces >= 2\n\n\n"
        "@dataclass(frozen=True)\nclass Silent(replay.StopRule):\n"
        "    def holds(self, seen):\n        return seen.votes >= 1\n",
        encoding="utf-8",
    )
    text = "".join(
        f"[[policy]]\nname = '{name}'\nkind = 'sample'\nmax_traces = 3\nselect = 'majority'\nstop = {stop}\n"
        for name, stop in {"mine": "{ rule = 'Mine', size = 1 }", "bare": "'Bare'", "silent": "'Silent'"}.items()
    )
    policies = replay.load_policies(text, rules).policies
    assert [policy.stop.name for policy in policies] == ["Mine", "Bare", "Silent"]  # type: ignore[attr-defined]
    found = replay.run(plain, policies, resamples=5, by="dataset").outcomes.collect()
    assert found.sort("policy", "example_id")["traces"].to_list() == [2.0] * 3 + [1.0] * 3 + [1.0] * 3


def test_a_class_of_the_file_that_is_no_rule_is_named(tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Good:\n"
        "    def holds(self, seen):\n        return seen.traces >= 2\n\n\n"
        "class Plain:\n    def holds(self, seen):\n        return seen.traces >= 2\n",
        encoding="utf-8",
    )
    with refuses("rule", "`Plain`"):
        replay.load_policies("[[policy]]\nname = 'a'\nkind = 'sample'\nmax_traces = 3\nstop = 'Plain'\n", rules)


def test_what_reads_scores_is_named_where_there_is_no_verifier() -> None:
    for stop, select, name in ((Scores(), "majority", "`Scores`"), ("none", "best", "`best`")):
        with refuses("unsuitable", "`verifier`", name):
            vote(stop, select=select)
