"""The loop `retrieve`: the rounds of a plain one, a bridge that only neighbours reach, kills, costs, bad settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from generate.recipes.recipe import load_recipe
from generate.sampling.services import Services
from replay.kinds.retrieve import Retrieve
from tests.errors import refuses
from tests.loops.retrieval import Plain, go, rounds_of, write_retrieval
from tests.loops.scripted import check_kills
from toolkit.log import collect, validate_log

SMALL = {"batch": 4, "neighbours": 3, "answers": 3, "decompose_prompt": "split.txt", "hops": 3}
KEYS: dict[str, dict[str, Any]] = {
    "defaults": {"hops": 1},
    "hops": {**SMALL},
    "few": {**SMALL, "first": 5, "budget": 9},
    "exhausted": {**SMALL, "first": 6, "alternate": "exhausted", "budget": 17},
    "no neighbours": {**SMALL, "neighbours": 0, "first": 9},
    "no first stage": {**SMALL, "first": 1, "neighbours": 1},
    "run file": {**SMALL, "search": "run"},
    "entail": {**SMALL, "cluster": "entail", "meaning": "three", "verifier": "judge"},
    "contradict": {**SMALL, "cluster": "no_contradiction", "meaning": "three"},
    "rewarded": {**SMALL, "explore": {"relevance": "raw", "multiplier": 3.0}},
    "aligned": {**SMALL, "alternate": "exhausted", "first": 5,
                "explore": {"relevance": "raw", "reward": "aligned", "support": "last", "frontier": 1}},
    "entropy": {**SMALL, "verifier": "judge",
                "explore": {"relevance": "raw", "reward": {"entropy": 0.7}, "weights": "answer_scores"}},
    "round": {**SMALL, "explore": {"relevance": "raw", "frontier_of": "round"}},
    "penalty": {**SMALL, "meaning": "three", "explore": {"relevance": "raw", "penalty": "sunar"}},
    "penalty of clusters": {**SMALL, "explore": {"relevance": "raw", "penalty": "sunar"}},
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_rounds_are_those_of_a_plain_loop(name: str, tmp_path: Path) -> None:
    seed, keys = list(KEYS).index(name), KEYS[name]
    recipe = write_retrieval(tmp_path, seed, **keys)
    engines: list = []
    log = go(recipe, tmp_path / "log", seed, engines=engines)
    assert validate_log(log).ok
    frame = rounds_of(log)
    questions = collect(log.scan("examples", ["example_id", "question"]))
    for example, question in questions.rows():
        plain = Plain(tmp_path, example, question, **keys).rows()
        mine = frame.filter(example_id=example).sort("hop", "round").rows(named=True)
        assert [{key: row[key] for key in one} for row, one in zip(mine, plain, strict=True)] == plain
    samples = sum(len(call.seeds) for engine in engines for call in engine.calls)
    assert frame["calls"].sum() == samples
    written = sum(len(str(call.prompt).split()) * len(call.seeds) for engine in engines for call in engine.calls)
    assert frame["prompt_tokens"].sum() == written
    assert log.manifest.source["counts"] == []
    explore = log.manifest.pools["rounds"]["explore"]
    assert explore == "relevance" or keys["explore"].items() <= explore.items()


def test_sides_are_skipped_and_hops_without_documents_are_logged(tmp_path: Path) -> None:
    """What the runs above must have met, or they test nothing."""
    frame = pl.concat([rounds_of(go(write_retrieval(tmp_path / name, seed, **KEYS[name]), tmp_path / f"{name} log"))
                       for seed, name in ((2, "few"), (5, "no first stage"))], how="diagonal")  # fmt: skip
    assert (frame["documents"].list.len() == 0).any()
    near = frame.with_columns(near=pl.col("retrieval_rank").list.drop_nulls().list.len() == 0)
    both = near.filter(pl.col("documents").list.len() > 0).sort("example_id", "hop", "round")
    twice = both.filter(both["near"] & both["near"].shift(1) & (both["round"] > 0))
    assert twice.height
    assert (frame["hop"] > 0).any()


def test_killed_at_any_request_the_rounds_are_the_same(tmp_path: Path) -> None:
    recipe = write_retrieval(tmp_path, 1, examples=1, **{**KEYS["rewarded"], "hops": 2, "budget": 12})
    check_kills(go, rounds_of, recipe, tmp_path)


def test_a_refused_request_leaves_the_rounds_before_it(tmp_path: Path) -> None:
    recipe = write_retrieval(tmp_path, 1, **KEYS["hops"])
    whole = rounds_of(go(recipe, tmp_path / "whole")).sort("example_id", "hop", "round")
    engines: list = []
    go(recipe, tmp_path / "again", engines=engines)
    reading = [call.key for call in engines[0].calls if str(call.prompt).startswith("Read")]
    (key,) = [one for one in reading if one.startswith("s0/")][2:3]
    log = go(recipe, tmp_path / "log", fail=frozenset({key}))
    left = rounds_of(log).sort("example_id", "hop", "round")
    others = pl.col("example_id") != "s0"
    assert left.filter(others).equals(whole.filter(others))
    kept = left.filter(~others)
    assert 0 < kept.height < whole.filter(~others).height
    assert kept.drop("calls", "prompt_tokens", "completion_tokens").equals(
        whole.filter(~others).head(kept.height).drop("calls", "prompt_tokens", "completion_tokens")
    )
    assert log.manifest.source["left_out"] == {"400": 3}


def test_only_neighbours_reach_the_bridge(tmp_path: Path) -> None:
    """A passage that shares no word with the question, and words with one that does."""
    for reach in (3, 0):
        folder = tmp_path / f"{reach}"
        recipe = write_retrieval(folder, 3, examples=1, neighbours=reach, hops=1, batch=2)
        rows = pl.read_ndjson(folder / "wiki" / "a.jsonl")
        bridge = pl.DataFrame({"id": ["door", "bridge"], "text": ["zebra crossing lake", "lake crossing tower"]})
        pl.concat([rows, bridge]).write_ndjson(folder / "wiki" / "a.jsonl")
        examples = pl.read_ndjson(folder / "examples.jsonl").with_columns(
            question=pl.lit("zebra"), gold_documents=pl.lit(["bridge"], pl.List(pl.String))
        )
        examples.write_ndjson(folder / "examples.jsonl")
        log = go(recipe, folder / "log")
        read = rounds_of(log)["documents"].explode().to_list()
        assert ("bridge" in read) == (reach > 0)
        result = replay.run(log, [Retrieve(name="plain", rounds=9, multiplier=1.0, at=(5,))], resamples=20)
        assert result.outcomes.collect()["hit_5"].to_list() == [float(reach > 0)]


def test_replay_of_a_ranking_is_exact_within_a_hop(tmp_path: Path) -> None:
    """A pool that explored by relevance has the rounds of a policy's own run; one by rewards is another policy's."""
    keys = {**KEYS["hops"], "hops": 1, "first": 4, "cluster": "equal"}
    keys.pop("decompose_prompt")
    plain = rounds_of(go(write_retrieval(tmp_path / "a", 4, examples=8, **keys), tmp_path / "a log"))
    rewarded = {**keys, "explore": {"relevance": "raw", "multiplier": 9.0, "reward": "aligned"}}
    log = go(write_retrieval(tmp_path / "b", 4, examples=8, **rewarded), tmp_path / "b log")
    other = rounds_of(log)
    assert not other["documents"].equals(plain["documents"])
    with refuses("unsuitable", "`rounds`", "`multiplier`"):
        replay.run(log, [Retrieve(name="x", rounds=3, relevance="raw")], resamples=20)
    same = Retrieve(name="x", rounds=3, relevance="raw", multiplier=9.0, reward="aligned", at=(3,))
    assert replay.run(log, [same], resamples=20).outcomes.collect().height == 8
    # another exploration that orders as relevance does reads the same documents
    scaled = {**keys, "explore": {"relevance": "raw", "multiplier": 1.0}}
    third = rounds_of(go(write_retrieval(tmp_path / "c", 4, examples=8, **scaled), tmp_path / "c log"))
    assert third.equals(plain)


def test_questions_whose_gold_the_corpus_lacks_are_kept_and_counted(tmp_path: Path) -> None:
    recipe = write_retrieval(tmp_path, hops=1, budget=4)
    examples = pl.read_ndjson(tmp_path / "examples.jsonl")
    golds = pl.Series("gold_documents", [["p1", "q1"], ["p2"], ["q2"]])
    examples.with_columns(golds).write_ndjson(tmp_path / "examples.jsonl")
    log = go(recipe, tmp_path / "log")
    (line,) = log.manifest.source["counts"]
    assert "2 of 3" in line
    assert "`[search.wiki]`" in line
    assert rounds_of(log)["example_id"].n_unique() == 3


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"cluster": "entail"}, ("required", "`cluster`", "`meaning`")),
        ({"explore": {"weights": "answer_scores", "relevance": "raw"}}, ("required", "`verifier`")),
        ({"explore": {"multiplier": 2.0}}, ("invalid", "explore.relevance", "`auto`", "`logistic`")),
        ({"explore": {"rounds": 3}}, ("unknown", "`rounds`")),
        ({"explore": "rewarded"}, ("invalid", "explore", "`relevance`")),
        ({"alternate": "hop"}, ("unknown", "alternate")),
        ({"batch": 0}, ("invalid", "batch")),
    ],
)
def test_bad_settings_are_one_line(keys: dict[str, Any], refusal: tuple[str, ...], tmp_path: Path) -> None:
    with refuses(*refusal):
        load_recipe(write_retrieval(tmp_path, **keys))


def test_the_recipe_that_ships_has_the_sizes_of_the_thesis() -> None:
    recipe = load_recipe("fair-musique")
    loop = recipe.loop[0].loop
    assert (loop.first, loop.budget, loop.neighbours, loop.answers) == (100, 1000, 100, 5)
    assert loop.explore_record == "relevance"
    services = Services(recipe).settings
    assert set(services) == {("score", "cross"), ("score", "meaning"), ("search", "wiki")}
    assert services["search", "wiki"].index is None, "beside the corpus: recipes that ship are in the package's folder"
    for file in (loop.prompt, loop.decompose_prompt):
        recipe.template(file).check_fields(["question", *loop.prompt_fields])


def test_bad_run_and_corpus_are_one_line(tmp_path: Path) -> None:
    recipe = write_retrieval(tmp_path, search="run", hops=1)
    (tmp_path / "run.txt").write_text("x1 Q0 p1 1 2.0 x\n")
    with refuses("unknown", "`search.run.path`", "`s0`", "`x1`"):
        go(recipe, tmp_path / "log")
    (tmp_path / "run.txt").write_text("".join(f"s{i} Q0 none 1 2.0 x\n" for i in range(3)))
    with refuses("unknown", "`wiki`", "`none`"):
        go(recipe, tmp_path / "log2")
    text = recipe.read_text()
    recipe.write_text(text.replace('corpus = "wiki"', 'corpus = "run"'))
    with refuses("unsuitable", "`[search.run]`", "`passages`"):
        go(recipe, tmp_path / "log3")
    (tmp_path / "run.txt").write_text("".join(f"s{i} Q0 p1 1 2.0 x\n" for i in range(3)))
    recipe.write_text(text.replace('scorer = "cross"', 'scorer = "none"'))
    with refuses("unknown", "`[score.none]`"):
        go(recipe, tmp_path / "log4")
    (tmp_path / "mine.py").write_text("def found(query):\n    return ['a text']\n")
    tool = '[search.run]\nkind = "function"\nrule = "mine.py:found"\n'
    recipe.write_text(text.replace('[search.run]\nkind = "run"\npath = "run.txt"\n', tool))
    with refuses("unsuitable", "`[search.run]`", "ids"):
        go(recipe, tmp_path / "log5")
