"""A recipe run by the engine `transformers` on a tiny model with random weights, and the encoder of embeddings."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from generate.engines import Engine, EngineError
from generate.passes.embedding import MeanPooling, unit_rows
from generate.recipes.recipe import Recipe, load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from tests.errors import refuses
from tests.generate.toy import LOCAL, write_recipe
from toolkit.log import collect, merge_logs, open_log, validate_log

pytest.importorskip("torch")
pytest.importorskip("transformers")
TINY = Path(__file__).resolve().parents[1] / "engines" / "tiny.py"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = importlib.util.spec_from_file_location("tiny_model", TINY)
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    return tiny.save_tiny(tmp_path_factory.mktemp("model") / "tiny")


def _open(recipe: Recipe) -> Engine:
    return recipe.engine.opened(recipe)


class Stops:
    """An engine that is gone after some calls of a run."""

    def __init__(self, engine: Any, after: int):
        self.engine, self.after, self.asked = engine, after, []
        self.name, self.model = engine.name, engine.model
        self.describe, self.close = engine.describe, engine.close

    def run(self, calls: Any) -> Any:
        for call, outcome in self.engine.run(calls):
            if len(self.asked) == self.after:
                raise EngineError("gone")
            self.asked.append(call.key)
            yield call, outcome


@pytest.mark.slow
def test_stopped_and_sharded_runs_of_a_real_model_give_the_same_rows(tmp_path: Path, model: Path) -> None:
    """In float64, where a sample does not depend on what else is in its batch."""
    text = LOCAL.replace('"openai"', '"transformers"\ndtype = "float64"').replace(
        'model = "rule"', f'model = "{model}"'
    )
    limits = ["sample.votes.max_tokens=16", "sample.probe.max_tokens=16"]
    recipe = load_recipe(write_recipe(tmp_path, 6, text), limits)

    def rows(out: Path) -> pl.DataFrame:
        log = open_log(out)
        return (
            collect(log.scan("traces", list(log.columns("traces"))))
            .drop("latency_s", "device_s", "started_s", "arrived_s")
            .sort("trace_id")
        )

    generate(make_plan(recipe), tmp_path / "whole", _open)
    opened: list[Stops] = []
    for after in (4, 9, 10**6):

        def stops(read: Any, after: int = after) -> Stops:
            opened.append(Stops(_open(read), after))
            return opened[-1]

        with contextlib.suppress(EngineError):
            generate(make_plan(recipe), tmp_path / "stopped", stops, block=2)
    asked = [key for engine in opened for key in engine.asked]
    assert len(opened) == 3
    assert len(asked) == len(set(asked))
    assert rows(tmp_path / "stopped").equals(rows(tmp_path / "whole"))
    parts = [tmp_path / f"part{number}" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        generate(make_plan(recipe, (number, 2)), part, _open)
    merge_logs(parts, tmp_path / "merged")
    assert rows(tmp_path / "merged").equals(rows(tmp_path / "whole"))


def test_a_tokenizer_beside_the_recipe_is_found(tmp_path: Path, model: Path) -> None:
    text = LOCAL.replace('model = "rule"', 'model = "rule"\nbase_url = "http://127.0.0.1:1/v1"\ntokenizer = "words"')
    recipe = load_recipe(write_recipe(tmp_path, 1, text))
    shutil.copytree(model, tmp_path / "words")
    assert _open(recipe).describe()["tokenizer"] == str(tmp_path / "words")
    assert recipe.identity()["engine.tokenizer"] == "words"


def test_a_real_model_runs_a_recipe(tmp_path: Path, model: Path) -> None:
    text = LOCAL.replace('"openai"', '"transformers"').replace('model = "rule"', f'model = "{model}"')
    recipe = load_recipe(write_recipe(tmp_path, 4, text), ["sample.votes.max_tokens=16", "sample.probe.max_tokens=16"])
    engines: list[Any] = []
    done = generate(make_plan(recipe), tmp_path / "log", lambda read: engines.append(_open(read)) or engines[0])
    assert validate_log(done.log).ok
    rows = collect(done.log.scan("traces", list(done.log.columns("traces")))).sort("trace_id")
    votes = rows.filter(pl.col("pool") == "votes")
    assert votes.height == 12
    assert votes["token_logprobs"].list.len().max() == 4
    assert votes["device_s"].null_count() == 0
    assert not votes["tokens_estimated"].any()
    # what does not fit the context of 96 characters is named with both lengths, and has no row
    assert all(reason.endswith(" 96") for _, reason in done.failures)
    failed = {call for call, _ in done.failures if "/finalizer" not in call}
    assert failed.isdisjoint(rows["trace_id"])
    pools = done.log.manifest.source["pools"]
    assert pools["votes"]["wall_clock_s"] > 0
    # all device seconds are in the log, and no others: those of attempts with those of their finalizers
    assert rows["device_s"].sum() == pytest.approx(engines[0].busy_s, rel=0.01)
    # pools share batches, so device seconds are within the wall-clock seconds of all of them together
    assert rows["device_s"].sum() <= sum(pool["wall_clock_s"] for pool in pools.values()) + 0.01


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model") / "encoder"
    words = ["[PAD]", "[UNK]", "red", "green", "blue", "sky", "grass", "the", "is"]
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    made = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=8,
    )  # fmt: skip
    BertModel(config).eval().save_pretrained(folder)
    made.save_pretrained(folder)
    return folder


def test_an_embedding_is_the_mean_of_a_texts_own_tokens(encoder: Path) -> None:
    import torch

    embed = MeanPooling(encoder, batch=2)
    texts = ["the sky is blue", "red", "the grass is green the grass is green the grass", "green"]
    rows = embed(texts)
    assert rows.shape == (4, 16)
    for text, row in zip(texts, rows, strict=True):  # one by one there is no padding to leave out
        ids = embed._tokenizer(text, truncation=True, max_length=8, return_tensors="pt")
        with torch.inference_mode():
            states = embed._model(**ids).last_hidden_state[0].numpy()
        np.testing.assert_allclose(row, states.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(unit_rows(embed, texts), axis=1), 1)
    described = embed.describe()
    assert (described["model"], described["max_tokens"]) == ("encoder", 8)
    assert len(str(described["sha256"])) == 64


def test_an_encoder_that_is_not_there(tmp_path: Path) -> None:
    with refuses("not-found", "missing`"):
        MeanPooling(tmp_path / "missing")
    with refuses("not-found", "`some/encoder`"):
        MeanPooling("some/encoder")
    with refuses("format", "`tokenizers`"):
        MeanPooling(tmp_path)
