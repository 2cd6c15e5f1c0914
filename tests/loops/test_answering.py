"""The loop `answer`: documents of an evidence are those of the policy of its name, paths, clusters, costs, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from generate.loops.answering import EVIDENCES
from generate.recipes.recipe import load_added_pools, load_recipe
from generate.sampling.added_pools import add_pools, plan_added_pools
from generate.sampling.services import Services
from replay.data.contents import read_contents
from replay.data.read import BlockRequest, read_block
from replay.kinds.retrieve import Retrieve
from replay.policies.base import Evaluator, needs_of_policies
from tests.errors import refuses
from tests.generate.test_queue import Moments
from tests.loops.retrieval import RECIPE, Scripted, go, rounds_of, write_retrieval
from toolkit.log import Log, collect, validate_log

SHOWN = 3
KEYS = {"batch": 4, "neighbours": 3, "answers": 3, "decompose_prompt": "split.txt", "hops": 3, "meaning": "three",
        "cluster": "no_contradiction", "budget": 12}  # fmt: skip
SECOND = (
    RECIPE[: RECIPE.index("[data]")]
    + RECIPE[RECIPE.index("[engine]") : RECIPE.index("[[loop]]")]
    + f"""
[[loop]]
pool = "{{evidence}}-chains"
kind = "answer"
of = ["rounds"]
evidence = ["sunar", "fair", "gold"]
corpus = "wiki"
prompt = "chain.txt"
documents = {SHOWN}
answers = 4
temperature = 0.7
max_tokens = 20
cluster = "no_contradiction"
meaning = "three"
"""
)
LOOP, GIVEN = SECOND[SECOND.index("[[loop]]") :], 'of = ["rounds"]\nevidence = ["sunar", "fair", "gold"]'
POOLS = {"rounds": ("sunar", "fair"), "alone": ("self-ask", "self-ask-rerank"), "whole": ("first-stage",)}
"""The pools of rounds, and the evidences that stand on each."""


def write_both(folder: Path, seed: int = 3, every: bool = False, **keys: Any) -> list[Scripted]:
    """A log of rounds, and a recipe that adds answers to it, by `every` evidence or those of the pool `rounds`: the
    engine that was asked for the rounds.
    """
    recipe, engines = write_retrieval(folder, seed, examples=4, **{**KEYS, **keys}), list[Scripted]()
    (folder / "chain.txt").write_text("Chain {{question}}\n{{path}}--\n{{passages}}", encoding="utf-8")
    more = [LOOP.replace(GIVEN, f'of = ["{pool}"]\nevidence = {list(names)}') for pool, names in POOLS.items()][1:]
    (folder / "second.toml").write_text(SECOND + "".join(more if every else ()), encoding="utf-8")
    loop = recipe.read_text()[recipe.read_text().index("[[loop]]") :].replace("neighbours = 3", "neighbours = 0")
    whole = loop.replace('decompose_prompt = "split.txt"\n', "").replace('"rounds"', '"whole"')
    recipe.write_text(recipe.read_text() + loop.replace('"rounds"', '"alone"') + whole)
    go(recipe, folder / "log", engines=engines)
    return engines


def add(folder: Path, settings: tuple[str, ...] = (), at: Any = lambda *_: None, log: Path | None = None, **more: Any):
    """The log with the answers, and the engine that was asked."""
    recipe, engine = load_added_pools(folder / "second.toml", settings), Scripted(1, at)
    engine.fail = more.get("fail", frozenset())
    assert recipe is not None
    return add_pools(plan_added_pools(recipe, log or folder / "log"), lambda _: engine).log, engine


def traces_of(log: Log) -> pl.DataFrame:
    return collect(log.scan("traces", list(log.columns("traces")))).sort("trace_id")


def ranked_documents(log: Log, policy: Retrieve, pool: str) -> dict[str, list[str]]:
    """The first documents of each hop's list of a policy, by example, each document once."""
    contents = read_contents(log)
    policy = policy.resolve(contents)
    examples = collect(log.scan("examples", ["example_id", "labels", "gold_documents"]), log).sort("example_id")
    block = read_block(log, examples, BlockRequest(needs_of_policies([policy], contents)))
    on = Evaluator(block, [policy])
    paid, _ = policy._paid_rounds_and_endings(on)
    example = block.tables["rounds", pool].example
    rows = policy._document_ranks(on, paid).filter(pl.col("place") <= SHOWN)
    rows = rows.with_columns(example_id=examples["example_id"].gather(example[rows["row"]]))
    listed = rows.sort("example_id", "hop", "place").group_by("example_id", maintain_order=True).agg("document")
    return {name: list(dict.fromkeys(documents)) for name, documents in listed.iter_rows()}


def test_documents_are_the_first_of_the_policy_of_the_evidences_name(tmp_path: Path) -> None:
    write_both(tmp_path, every=True)
    log, _ = add(tmp_path)
    assert validate_log(log).ok
    assert rounds_of(log)["relevance"].list.min().min() < 0, "so that `auto` is the logistic function"
    traces, lists = traces_of(log), set()
    for name, ranking in EVIDENCES.items():
        keys = {"penalty": ranking.penalty} if ranking.penalty else {"multiplier": ranking.multiplier}
        (pool,) = [pool for pool, names in POOLS.items() if name in names]
        shown = ranked_documents(log, Retrieve(name=name, pool=pool, rounds=99, order=ranking.order, **keys), pool)
        mine = traces.filter(pool=f"{name}-chains")
        assert mine.height == 16
        assert {example: shown[example] for example in mine["example_id"]} == dict(
            mine.select("example_id", pl.col("documents")).iter_rows()
        )
        lists.add(str(sorted(shown.items())))
    assert len(lists) >= 4, "evidences differ"


@pytest.mark.parametrize("explore", ["relevance", {"relevance": "raw", "multiplier": 3.0, "support": "last"}])
def test_the_path_is_that_by_which_it_was_retrieved(explore: Any, tmp_path: Path) -> None:
    (first,) = write_both(tmp_path, explore=explore)
    log, engine = add(tmp_path)
    split = {str(call.prompt) for call in first.calls if str(call.prompt).startswith("Split")}
    examples = dict(collect(log.scan("examples", ["example_id", "question"])).iter_rows())
    hops, longest = rounds_of(log).filter(pool="rounds").sort("hop", "round"), 0
    for call in engine.calls:
        question = examples[call.key.split("/")[0]]
        body, _, passages = str(call.prompt).removeprefix(f"Chain {question}\n").partition("--\n")
        asked = hops.filter(example_id=call.key.split("/")[0])["sub_question"].unique(maintain_order=True).to_list()
        lines = body.splitlines()
        if asked == [question]:
            assert body == ""
            continue
        assert lines[::2] == [f"Follow up: {one}" for one in asked]
        assert f"Split {question}\n" + "".join(f"{line}\n" for line in lines[:-2]) in split
        assert passages
        longest = max(longest, len(asked))
    assert longest == 3


def test_answers_have_clusters_and_costs_add_up(tmp_path: Path) -> None:
    write_both(tmp_path, every=True)
    log, engine = add(tmp_path)
    traces = traces_of(log)
    for _, mine in traces.sort("sample_index").group_by("example_id", "pool"):
        pairs = mine.drop_nulls("answer").select("answer", "answer_cluster").unique(maintain_order=True)
        assert pairs["answer"].n_unique() == pairs.height, "an answer is in one cluster"
        names = pairs["answer_cluster"].unique(maintain_order=True).to_list()
        firsts = [pairs.filter(answer_cluster=name)["answer"][0] for name in names]
        assert names == firsts, "a cluster is called after its first answer"
    assert traces.filter(pl.col("answer").is_null() != pl.col("answer_cluster").is_null()).height == 0
    assert (traces["answer"] != traces["answer_cluster"]).any()
    assert traces["calls"].sum() == sum(len(call.seeds) for call in engine.calls)
    words = sum(len(str(call.prompt).split()) * len(call.seeds) for call in engine.calls)
    assert traces["prompt_tokens"].sum() == words
    assert log.manifest.source["pools"]["fair-chains"]["settings"]["loop.fair-chains.of"] == ["rounds"]


def test_gold_evidence_is_all_gold_documents_or_nothing(tmp_path: Path) -> None:
    write_both(tmp_path)
    examples = tmp_path / "examples.jsonl"
    golds = pl.Series("gold_documents", [["p1", "p5"], ["p2", "none"], ["p3"], None])
    pl.read_ndjson(examples).with_columns(golds).write_ndjson(examples)
    go(tmp_path / "retrieval.toml", tmp_path / "log2")
    log, _ = add(tmp_path, log=tmp_path / "log2")
    shown = traces_of(log).filter(pool="gold-chains").group_by("example_id").agg(pl.col("documents").first())
    assert dict(shown.iter_rows()) == {"s0": ["p1", "p5"], "s2": ["p3"]}
    # without a log to add to, gold evidence needs no rounds
    listed = SECOND[SECOND.index("of = [") : SECOND.index("corpus")]
    text = SECOND.replace(listed, 'evidence = "gold"\n').replace("{evidence}", "gold")
    data = '[data]\ndataset = "examples"\npath = "examples.jsonl"\n'
    (tmp_path / "gold.toml").write_text(text.replace("[engine]", data + "[engine]"))
    alone = traces_of(go(tmp_path / "gold.toml", tmp_path / "gold"))
    assert set(alone["example_id"]) == {"s0", "s2"}
    assert alone["answer_cluster"].drop_nulls().len()


def test_killed_at_any_request_the_answers_are_the_same(tmp_path: Path) -> None:
    write_both(tmp_path, hops=2)
    settings = ('loop.{evidence}-chains.evidence=["fair", "gold"]',)
    moments = Moments(tmp_path / "log", tmp_path / "copies", set(), [])
    whole, _ = add(tmp_path, settings, moments)
    assert len(moments.taken) >= 8
    for copy, answered, _ in moments.taken[::3]:
        log, engine = add(tmp_path, settings, log=copy)
        assert answered.isdisjoint(call.key for call in engine.calls)
        columns = ["trace_id", "answer", "answer_cluster", "documents", "calls", "prompt_tokens"]
        assert traces_of(log).select(columns).equals(traces_of(whole).select(columns))


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        (['loop.{evidence}-chains.of=[]'], ("required", "`loop.sunar-chains`", "`of`", "`rounds`")),
        (['loop.{evidence}-chains.evidence=["self-ask"]'], ("unsuitable", "`rounds`", "`neighbours = 0`")),
        (['loop.{evidence}-chains.evidence=["self-ask-rerank"]'], ("unsuitable", "`rounds`", "`neighbours = 0`")),
        (['loop.{evidence}-chains.evidence=["first-stage"]', 'loop.{evidence}-chains.of=["alone"]'],
         ("unsuitable", "`first-stage`", "`alone`", "`decompose_prompt`")),
        (['loop.{evidence}-chains.evidence=["fiar"]'], ("invalid", "`loop.fiar-chains.evidence`", "`fair`")),
        (['loop.{evidence}-chains.evidence=[{ at = [1] }]'], ("unknown", "`at`")),
        (['loop.{evidence}-chains.evidence=[{ weights = "answer_scores" }]'], ("unsuitable", "`answer_scores`")),
        (['loop.{evidence}-chains.documents=0'], ("invalid", "documents")),
        (['loop.{evidence}-chains.pool=x'], ("invalid", "evidence")),
        (['loop.{evidence}-chains.negative=true'], ("unknown", "`negative`")),
    ],
)  # fmt: skip
def test_what_is_refused(settings: list[str], refusal: tuple[str, ...], tmp_path: Path) -> None:
    write_both(tmp_path, hops=1, budget=4)
    with refuses(*refusal):
        add(tmp_path, tuple(settings))


def test_the_recipe_that_ships_has_a_pool_for_each_evidence_and_way() -> None:
    recipe = load_added_pools("fair-musique-answers")
    assert recipe is not None
    ways = {"direct": 1, "single": 1, "chains": 10}
    assert {step.pool: step.loop.answers for step in recipe.loop} == {
        f"{evidence}-{way}": count for evidence in (*EVIDENCES, "gold") for way, count in ways.items()
    }
    rounds = {step.pool: step.loop for step in load_recipe("fair-musique").loop}
    assert {name for step in recipe.loop for name in step.of} == set(rounds)
    assert [rounds[name].neighbours for name in ("fair", "self-ask", "first-stage")] == [100, 0, 0]
    assert rounds["first-stage"].decompose_prompt is None
    for step in recipe.loop:
        recipe.template(step.loop.prompt).check_fields(["question", *step.loop.prompt_fields])
    assert set(Services(recipe).settings) == {("score", "meaning"), ("search", "wiki")}
