"""The log of the invented world in `data/`: whole, of the size and shape that was promised, and its models as good as
its README says.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from generate.tasks import endless_questions, make_task
from tests.worlds.measures import CHAINS, Measure, retrieval_measures
from thinkback.app import app
from toolkit.log import Log, collect, open_log, validate_log

DATA = Path(__file__).resolve().parents[2] / "data"
MULTIHOP = DATA / "multihop"
SUITE_COLUMNS = ("#", "policy", "recall@10 %", "Δ points", "tokens", "rounds", "hit@1 %", "rank")


@cache
def shipped(folder: Path) -> Log:
    return open_log(folder)


@cache
def table(folder: Path, name: str) -> pl.DataFrame:
    return collect(shipped(folder).scan(name))


@cache
def retrieval() -> dict[str, Measure]:
    return {one.key: one for one in retrieval_measures(MULTIHOP)}


def test_a_log_is_whole_real_and_of_the_size_that_was_promised() -> None:
    assert validate_log(shipped(MULTIHOP)).ok
    assert shipped(MULTIHOP).sealed
    assert not shipped(MULTIHOP).simulated
    assert sum(one.stat().st_size for one in MULTIHOP.rglob("*") if one.is_file()) <= 8e6


def test_the_readme_says_what_is_measured() -> None:
    lines = (MULTIHOP / "README.md").read_text(encoding="utf-8").splitlines()
    assert [str(one) for one in retrieval().values() if str(one) not in lines] == []


def test_questions_and_rounds_of_retrieval() -> None:
    examples, rounds = table(MULTIHOP, "examples"), table(MULTIHOP, "rounds")
    assert dict(examples.group_by("split").len().iter_rows()) == {"dev": 200, "test": 500}
    assert set(examples["hops"]) == {2, 3, 4}
    assert examples["gold_documents"].list.len().min() >= 2  # type: ignore[operator]
    assert set(rounds["pool"]) == {"explored", "rewarded", "self-ask", "first-stage"}
    explored = rounds.filter(pl.col("pool").is_in(["explored", "rewarded"]))
    assert explored.group_by("example_id", "pool", "hop").len()["len"].max() <= 8  # type: ignore[operator]
    answers = explored["answers"].list.len()  # of the five that are asked for, those that can be read
    assert answers.max() == 5
    assert (answers == 5).mean() > 0.98  # type: ignore[operator]


def test_a_coarser_answer_tempts() -> None:
    assert retrieval()["coarse"].low > retrieval()["coarse_blind"].high


def test_the_right_one_of_two_is_named_first_as_often_as_last() -> None:
    rows = table(MULTIHOP, "examples").filter(question_type="time order")
    first = [
        question.index(gold) < len(question) - len(gold) - 1
        for question, gold in rows.select("question", "gold").iter_rows()
    ]
    assert 0.45 <= sum(first) / len(first) <= 0.55


def test_dev_and_test_share_no_chain_of_facts() -> None:
    """The questions of both splits are drawn again, with their chains."""
    task, chains = make_task("invented_world"), {}
    for split, rows in table(MULTIHOP, "examples").group_by("split"):
        drawn = {item.question: item.canonical for item in islice(endless_questions(task, str(split[0]), 0), len(rows))}
        chains[split[0]] = {drawn[question] for question in rows["question"]}
    assert {split: len(forms) for split, forms in chains.items()} == {"dev": 200, "test": 500}
    assert not chains["dev"] & chains["test"]


def test_models_of_retrieval_are_good_enough() -> None:
    value = {key: one.value for key, one in retrieval().items()}
    assert all(retrieval()[f"gap-{depth}"].low > 0 for depth in ("16", "32", "explored"))
    assert retrieval()["read"].low >= 0.6
    assert retrieval()["read_blind"].high <= 0.2
    assert retrieval()["both_gold"].high <= 0.6
    for evidence in ("fair", "sunar", "relevance", "self-ask"):
        assert 0.3 <= value[f"vote-{evidence}"] <= 0.7
    assert value["auc-chain-all"] > 0.6
    assert all(retrieval()[f"auc-{verifier}-decided"].low > 0.6 for verifier in ("chain", "likelihood"))
    assert all(value[f"auc-likelihood-{pool}"] > 0.6 for pool in CHAINS)


@pytest.mark.slow
def test_the_readme_says_what_the_study_says(tmp_path: Path) -> None:
    words = ["study", "multihop", str(MULTIHOP), "--decoder", "chain", "--out", str(tmp_path / "study")]
    assert CliRunner().invoke(app, words).exit_code == 0
    lines = (MULTIHOP / "README.md").read_text(encoding="utf-8").splitlines()
    asked = 0
    for row in (tmp_path / "study" / "verdicts.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        if len(cells) == 6 and cells[2] in ("yes", "no", "yes and no", "not decided"):
            _, question, verdict, difference, _, of = cells
            assert f"| {question} | {verdict} | {difference} | {of} |" in lines
            asked += 1
    assert asked == 10
    words = ["replay", str(MULTIHOP), "--metric", "recall_10", "--where", "split = 'test'"]
    words += ["--baseline", "explored: plain re-ranking", "--out", str(tmp_path / "suite")]
    assert CliRunner().invoke(app, words).exit_code == 0
    suite = (tmp_path / "suite" / "table.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in suite if row.startswith("| ")]
    places = [cells[0].index(name) for name in SUITE_COLUMNS]
    rows = [f"| {' | '.join(row[place] for place in places)} |" for row in cells if row[0].isdecimal()]
    assert len(rows) == 20
    assert set(rows) <= set(lines)
