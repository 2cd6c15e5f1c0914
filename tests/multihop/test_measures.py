"""What the small models of `data/multihop` can do, measured on the shipped log, and that it is what its recipes say."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import thinkback as tb
from generate.recipes.recipe import load_recipe
from generate.tasks import TASKS, examples
from tests.multihop import measures
from toolkit.log import collect, validate_log

FOLDER = Path(__file__).resolve().parents[2] / "data" / "multihop"


@cache
def log() -> tb.Log:
    return tb.open_log(FOLDER / "log")


def test_it_is_a_whole_log_of_the_size_that_was_promised() -> None:
    assert validate_log(log()).ok
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()) <= 8 * 2**20


def test_its_questions_are_those_of_its_recipe() -> None:
    recipe = load_recipe("world-log")
    task = recipe.data.dataset
    sizes = {"dev": 200, "test": 500}
    wanted = examples(TASKS[task](), sizes, recipe.seed).select("example_id", "question", "gold", "split", "hops")
    kept = collect(log().scan("examples", wanted.columns)).sort("example_id")
    assert kept.equals(wanted.sort("example_id").select(kept.columns))
    assert set(kept["hops"]) == {2, 3, 4}


def test_no_hop_has_more_than_eight_rounds_and_each_round_five_answers() -> None:
    rounds = collect(log().scan("rounds", ["pool", "round", "answers"]))
    assert set(rounds["pool"]) == {"explored", "rewarded", "self-ask", "first-stage"}
    assert rounds["round"].max() < 8
    several = rounds.filter(pool="explored")["answers"].list.len()
    assert set(several) == {5}


def test_the_cross_encoder_ranks_better_than_bm25() -> None:
    assert measures.ranking(log(), "self-ask")["difference"][1] > 0


def test_the_reader_needs_the_gold_passage() -> None:
    shares = measures.reading(log(), "explored")
    assert shares[True][0] >= 0.6
    assert shares[False][0] <= 0.2
    assert min(rounds for _, rounds in shares.values()) > 500


def test_a_third_to_two_thirds_of_the_questions_are_answered_rightly() -> None:
    for pool in ("sunar-single", "fair-single"):
        assert 0.3 <= measures.solving(log(), pool)[0] <= 0.7


def test_the_verifier_tells_right_chains_from_wrong_ones_of_one_question() -> None:
    for pool in ("sunar-chains", "fair-chains"):
        area, pairs = measures.judging(log(), pool, "chain")
        assert area > 0.6
        assert pairs > 1_000
