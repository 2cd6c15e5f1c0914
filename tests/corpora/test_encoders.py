"""First stages by models of sentence-transformers, dense and sparse, with tiny random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling

from generate.engines.weights import find_model
from generate.recipes.recipe import load_recipe
from generate.retrieval.corpus import open_corpus
from generate.retrieval.encoders import Encoder, open_encoder
from generate.sampling.services import Services
from tests.corpora.test_corpora import PLACE, corpus_of, passages
from tests.errors import refuses
from tests.loops.retrieval import go, rounds_of, write_retrieval
from tests.loops.test_pair_scores import save_words
from toolkit.log import validate_log

KINDS = ("dense", "sparse")


def save_encoder(folder: Path, kind: str) -> Path:
    """A random model of about 5,000 parameters in a folder."""
    words = save_words(folder / "base")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64,
    )  # fmt: skip
    whole = transformers.BertForMaskedLM(config)
    (whole if kind == "sparse" else whole.bert).save_pretrained(folder / "base")
    if kind == "sparse":
        first = Transformer(str(folder / "base"), transformer_task="fill-mask")
        model = SparseEncoder(modules=[first, SpladePooling(pooling_strategy="max")], device="cpu")
    else:
        first = Transformer(str(folder / "base"))
        model = SentenceTransformer(modules=[first, Pooling(16)], device="cpu")
    model.save_pretrained(str(folder / kind), create_model_card=False)
    return folder / kind


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: save_encoder(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


def encoder_of(path: Path, kind: str) -> Encoder:
    return open_encoder(find_model(str(path), None, download=False), kind == "sparse", 8, "cpu", PLACE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_is_the_product_of_vectors(
    kind: str, saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, encoder = passages(60), encoder_of(saved[kind], kind)
    corpus = corpus_of(tmp_path, rows, encoder=encoder)
    texts = [f"{title} {text}" for title, text in rows.select("title", "text").iter_rows()]
    plain = encoder.model
    every = [plain.encode_document(one, convert_to_tensor=True) for one in texts]
    for query in ("king of the north", "T3 gold, GOLD!", "ship"):
        asked = plain.encode_query(query, convert_to_tensor=True)
        scores = [float((one.to_dense() * asked.to_dense()).sum()) for one in every]
        if kind == "dense":
            scores = [one / float(v.norm() * asked.norm()) for one, v in zip(scores, every, strict=True)]
        ids, values, found = corpus.search(query, 10)
        assert len(ids) == 10
        assert np.allclose(values, sorted(scores, reverse=True)[:10], atol=1e-5)
        assert np.allclose([scores[rows["id"].to_list().index(one)] for one in ids], values, atol=1e-5)
        assert (found[0],) == corpus.texts(ids[:1])
    # equal passages have equal vectors: the earlier one comes first
    ids = corpus.search(rows["text"][0], 60)[0]
    same = [i for i, text in enumerate(texts) if text == texts[0]]
    assert [one for one in ids if int(one[1:]) in same] == [f"p{i}" for i in same]
    # the vectors are kept: another run encodes queries alone

    def again(*_: object, **__: object) -> None:
        raise AssertionError("a passage is encoded again")

    monkeypatch.setattr(plain, "encode_document", again)
    kept = open_corpus(tmp_path / "wiki", PLACE, encoder=encoder)
    assert kept.search("ship", 5) == corpus.search("ship", 5)
    assert kept.describe()["encoder"]["sparse"] == (kind == "sparse")


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_retrieves_with_it_as_first_stage(kind: str, saved: dict[str, Path], tmp_path: Path) -> None:
    recipe = write_retrieval(tmp_path, hops=1, search="learned", neighbours=2, batch=4, budget=8)
    key = "encoder" if kind == "dense" else "sparse_encoder"
    table = f'[search.learned]\nkind = "passages"\npath = "wiki"\n{key} = "{saved[kind]}"\n'
    recipe.write_text(recipe.read_text().replace("[score.cross]", table + "[score.cross]", 1))
    log = go(recipe, tmp_path / "log")
    assert validate_log(log).ok
    corpus = open_corpus(tmp_path / "wiki", PLACE, encoder=encoder_of(saved[kind], kind))
    first = rounds_of(log).filter(round=0)
    for question, documents in first.select("sub_question", "documents").iter_rows():
        assert tuple(documents) == corpus.search(question, 4)[0]
    record = log.manifest.source["services"]["search.learned"]["encoder"]
    assert record["weights_sha256"]
    assert record["similarity"] == ("dot" if kind == "sparse" else "cosine")


def test_bad_encoders_are_one_line(saved: dict[str, Path], tmp_path: Path) -> None:
    recipe = write_retrieval(tmp_path, hops=1)
    text = recipe.read_text()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text("{}")
    shape = tmp_path / "odd"
    shape.mkdir()
    for file in saved["dense"].iterdir():
        if file.is_file():
            (shape / file.name).write_bytes(file.read_bytes() if file.suffix != ".safetensors" else b"odd")
    for given, refusal in (
        ('encoder = "empty"', ("not-found", "empty`", "safetensors")),
        ('encoder = "nowhere"', ("not-found", "nowhere`")),
        ('encoder = "odd"', ("unsuitable", "`search.wiki`", "`odd`")),
        ('encoder = "a"\nsparse_encoder = "b"', ("conflict", "`encoder`", "`sparse_encoder`")),
    ):
        recipe.write_text(text.replace('path = "wiki"', f'path = "wiki"\n{given}', 1))
        with refuses(*refusal) as error:
            Services(load_recipe(recipe)).corpus_of("wiki")
        assert "\n" not in str(error.value)
    assert pl.read_ndjson(tmp_path / "wiki" / "a.jsonl").height
