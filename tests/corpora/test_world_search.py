"""A recipe's search of an invented world: the corpus is written once, and holds the questions' gold passages."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from generate.datasets import load
from generate.loops.requests import Search
from generate.recipes.recipe import Recipe, load_recipe
from generate.sampling.services import Services
from generate.tasks import InventedWorld
from generate.worlds.passages import passage_frame
from tests.errors import refuses
from tests.loops.retrieval import write_retrieval

WORLD = '[search.world]\nkind = "world"\npeople = 60\n'
DATA = '[data]\ndataset = "invented_world"\nsplit = ["test"]\noptions = { people = 60, n = 12 }\n'


def recipe_of(folder: Path, world: str = WORLD) -> Recipe:
    path = write_retrieval(folder)
    text = path.read_text().replace('[data]\ndataset = "examples"\npath = "examples.jsonl"\n', DATA)
    path.write_text(text.replace("[search.run]", f"{world}[search.run]", 1))
    return load_recipe(path)


def test_the_world_of_a_recipe_is_a_corpus_with_its_questions_passages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is written into the working directory: a recipe that ships lies where nothing is to be written."""
    (tmp_path / "recipe").mkdir()
    recipe = recipe_of(tmp_path / "recipe")
    monkeypatch.chdir(tmp_path)
    services = Services(recipe)
    questions = load("invented_world", None, ("test",), {"people": 60, "n": 12}).examples
    texts = questions["question"].to_list()
    results = services.answer("search", "world", [(Search(text, 10, texts=True), {}) for text in texts])
    passages = pl.read_ndjson(tmp_path / "invented-world.jsonl")
    assert passages.columns == ["id", "title", "text"]
    assert set(questions["gold_documents"].explode()) <= set(passages["id"])
    hits = [bool(set(gold) & set(one.ids)) for gold, one in zip(questions["gold_documents"], results, strict=True)]
    assert sum(hits) >= 10  # of 12: the first hop's passage shares a name with the question
    again = Services(recipe).answer("search", "world", [(Search(texts[0], 10, texts=True), {})])
    assert again[0].ids == results[0].ids


def test_a_file_of_another_world_is_not_overwritten(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    (tmp_path / "invented-world.jsonl").write_text('{"id": "a", "title": "b", "text": "c"}\n')
    with refuses("conflict", "`search.world.path`", "invented-world.jsonl"):
        Services(recipe).answer("search", "world", [(Search("c", 1, texts=False), {})])
    assert (tmp_path / "invented-world.jsonl").read_text() == '{"id": "a", "title": "b", "text": "c"}\n'


def test_two_runs_that_begin_together_share_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second writes it while the first does, as halves of one run do in one folder."""
    recipe, write = recipe_of(tmp_path), pl.DataFrame.write_ndjson
    others = iter([lambda: write(passages, tmp_path / "invented-world.jsonl")])
    passages = passage_frame(InventedWorld(people=60).passages.passages)

    def write_after_another(frame: pl.DataFrame, path: Path) -> None:
        write(frame, path)
        for other in others:
            other()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pl.DataFrame, "write_ndjson", write_after_another)
    (results,) = Services(recipe).answer("search", "world", [(Search("born", 3, texts=False), {})])
    assert results.ids
    assert sorted(path.name for path in tmp_path.glob("invented-world*")) == [
        "invented-world.jsonl", "invented-world.jsonl.index",
    ]  # fmt: skip
