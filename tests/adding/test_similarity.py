"""Similarities by a real encoder are cosines of passes of their own, whatever its tokenizer pads with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from generate.passes.embedding import MeanPooling
from tests.adding.test_passes import models, run  # noqa: F401 (a fixture)
from tests.errors import refuses
from tests.logs import make_log, make_rows
from toolkit.log import collect

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
RECIPE = '[embedding]\nmodel = "nli"\n[[features]]\nkind = "claims"\n[[features]]\nkind = "peers"\npools = ["votes"]\n'


class Alone:
    """The mean of an encoder's last states of one text, unpadded, of length one."""

    def __init__(self, folder: Path):
        self.words = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder).eval()

    def __call__(self, text: str) -> np.ndarray:
        with torch.inference_mode():
            states = self.model(torch.tensor([self.words(text)["input_ids"]])).last_hidden_state[0]
        mean = states.double().mean(dim=0).numpy()
        return mean / np.linalg.norm(mean)


def test_similarities_are_cosines_of_unbatched_passes(tmp_path: Path, models: Path) -> None:  # noqa: F811
    make_log(tmp_path / "log", 4, 3)
    done = run(tmp_path, models, RECIPE)
    found = collect(done.log.scan("features", list(done.log.columns("features")))).sort("trace_id")
    rows, alone = make_rows(4, 3), Alone(models / "nli")
    traces = rows["traces"].join(rows["examples"].select("example_id", "question", "evidence"), on="example_id")
    texts = {row["trace_id"]: row["text"] for row in traces.iter_rows(named=True)}
    assert found.height == 16
    for row, made in zip(traces.sort("trace_id").iter_rows(named=True), found.iter_rows(named=True), strict=True):
        own = alone(row["text"])
        assert made["claim_similarity"] == pytest.approx(alone(row["question"]) @ own, abs=1e-5)
        assert made["evidence_similarity"] == pytest.approx(max(alone(p) @ own for p in row["evidence"]), abs=1e-5)
        if row["pool"] == "votes":
            peers = [f"{row['trace_id'][:-1]}{i}" for i in range(3) if i != row["sample_index"]]
            assert made["peer_similarity"] == pytest.approx(np.mean([alone(texts[p]) @ own for p in peers]), abs=1e-5)


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_an_encoder_without_a_pad_token_and_texts_without_tokens(models: Path, batch: int) -> None:  # noqa: F811
    encoder, alone = MeanPooling(models / "nli", batch), Alone(models / "nli")
    assert alone.words.pad_token_id is None
    texts = ["one", "", "a longer text of words", "42"]
    rows = encoder(texts)
    assert (rows[1] == 0).all()
    for text, row in zip(texts, rows, strict=True):
        if text:
            np.testing.assert_allclose(row / np.linalg.norm(row), alone(text), atol=1e-5)


def test_an_encoder_reads_batches_as_large_as_the_recipe_says(
    tmp_path: Path,
    models: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    make_log(tmp_path / "log", 2, 3)
    plain, sizes = MeanPooling._embed_ids, []

    def noted(self: MeanPooling, listed: list[list[int]]) -> np.ndarray:
        sizes.append((len(listed), max(map(len, listed))))
        return plain(self, listed)

    monkeypatch.setattr(MeanPooling, "_embed_ids", noted)
    capfd.readouterr()
    run(tmp_path, models, RECIPE.replace('"claims"', '"claims"\nbatch_tokens = 40'))
    assert capfd.readouterr() == ("", ""), "transformers has no word in it"
    of_claims = sizes[: next((i for i, (n, width) in enumerate(sizes) if n > 1 and n * width > 40), len(sizes))]
    assert len(of_claims) > 3
    assert max(n for n, _ in of_claims) > 1
    assert all(n == 1 or n * width <= 40 for n, width in of_claims)
    if not torch.cuda.is_available():
        with refuses("unsuitable", "`device`", "`cuda`"):
            run(tmp_path, models, RECIPE.replace('"claims"', '"claims"\nname = "b"\nprefix = "b_"\ndevice = "cuda"'))


def test_an_encoder_that_counts_positions_from_behind_the_padding(tmp_path: Path, models: Path) -> None:  # noqa: F811
    """RoBERTa's ten places, padding's id being 1, take eight tokens; one more would end in a traceback."""
    words = transformers.AutoTokenizer.from_pretrained(models / "nli")
    config = transformers.RobertaConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=10, pad_token_id=1,
    )  # fmt: skip
    transformers.RobertaModel(config).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    encoder = MeanPooling(tmp_path)
    assert encoder.describe()["max_tokens"] == 8
    assert encoder.fits(["1" * 8, "1" * 9]).tolist() == [True, False]
    assert encoder(["1" * 12]).shape == (1, 16)


def test_a_row_that_lacks_its_similarity_is_there_and_said_to_be_incomplete(
    tmp_path: Path,
    models: Path,  # noqa: F811
) -> None:
    """The encoder takes 96 tokens: a text of 120 has no similarity, but a length and numbers."""
    rows = make_rows(2, 3)
    long = pl.when(pl.col("trace_id") == "s001/votes/1").then(pl.lit("9" * 120)).otherwise(pl.col("text"))
    make_log(tmp_path / "log", examples=rows["examples"], traces=rows["traces"].with_columns(text=long))
    done = run(tmp_path, models, RECIPE)
    said = done.log.manifest.source["features"]
    assert said["claims"]["rows"] == 8
    assert [one["trace_id"] for one in said["claims"]["incomplete"]] == ["s001/votes/1"]
    assert "skipped" not in said["claims"]
    assert said["peers"]["rows"] == 5, "nothing else is known of it there"
    assert said["peers"]["skipped"] == said["claims"]["incomplete"]
    assert "incomplete" not in said["peers"]
    made = collect(done.log.scan("features", ["trace_id", "length", "claim_similarity"]))
    row = made.row(by_predicate=pl.col("trace_id") == "s001/votes/1", named=True)
    assert (row["length"], row["claim_similarity"]) == (1 / 200, None)
    assert run(tmp_path, models, RECIPE).steps == ()


def test_a_trace_without_text_has_features(tmp_path: Path, models: Path) -> None:  # noqa: F811
    rows = make_rows(2, 2)
    make_log(tmp_path / "log", traces=rows["traces"].with_columns(text=pl.lit("")), examples=rows["examples"])
    done = run(tmp_path, models, RECIPE)
    assert collect(done.log.scan("features"))["trace_id"].len() == 6
    made = collect(done.log.scan("features", ["trace_id", "claim_similarity"]))
    assert made["claim_similarity"].to_list() == [0.0] * 6
