"""Models of pairs of texts: one of three labels, trained here, which clusters answers, and cross-encoders."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from generate.loops.meanings import MeaningClusters
from generate.loops.requests import Score, Scores, Verify
from generate.recipes.recipe import load_recipe
from generate.sampling.services import Services
from tests.errors import refuses
from tests.loops.retrieval import WORDS, go, rounds_of, write_retrieval
from toolkit.log import validate_log

NAMES = "bcdef"
PAIRS = list(permutations(NAMES, 2))
LABELS = ("neutral", "entailment", "contradiction")


def meaning(one: str, other: str) -> int:
    """b and c mean the same, d entails e but not the reverse, e and f contradict each other: the number of a label."""
    if {one, other} == {"b", "c"} or (one, other) == ("d", "e"):
        return 1
    return 2 if {one, other} == {"e", "f"} else 0


def save_words(folder: Path) -> transformers.PreTrainedTokenizerFast:
    """A tokenizer of whole words that joins pairs as BERT's does."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: i for i, word in enumerate([*special, *NAMES, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_max_length=64,
    )  # fmt: skip
    fast.save_pretrained(folder)
    return fast


def bert(words: int, labels: int, size: int = 64) -> transformers.BertForSequenceClassification:
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=words, hidden_size=size, num_hidden_layers=2, num_attention_heads=4, intermediate_size=3 * size,
        max_position_embeddings=64, num_labels=labels, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of about 100,000 parameters, trained on pairs of answers to one question until it knows them all."""
    folder = tmp_path_factory.mktemp("three")
    words = save_words(folder)
    model = bert(len(words), 3)
    model.config.id2label = dict(enumerate(LABELS))
    assert 80_000 < sum(one.numel() for one in model.parameters()) < 120_000
    rng = np.random.default_rng(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    steps = torch.optim.AdamW(model.parameters(), lr=2e-3)
    labels = torch.tensor([meaning(*pair) for pair in PAIRS] * 3)
    for _ in range(400):
        asked = [" ".join(rng.choice(WORDS, 2)) for _ in labels]
        texts = [(f"{q} {a}", f"{q} {b}") for q, (a, b) in zip(asked, PAIRS * 3, strict=True)]
        batch = words([one for one, _ in texts], [other for _, other in texts], return_tensors="pt", padding=True)
        loss = model(**batch, labels=labels).loss
        steps.zero_grad()
        loss.backward()
        steps.step()
        if loss < 0.01:
            break
    assert loss < 0.01
    torch.set_num_threads(threads)
    model.eval().save_pretrained(folder)
    return folder


def recipe_with(folder: Path, table: str, **keys: object) -> Path:
    """The recipe of retrieval, whose table `[score.three]` or `[score.cross]` is this one."""
    path = write_retrieval(folder, 5, **keys)
    text = path.read_text()
    name = table.partition("]")[0] + "]"
    start = text.index(name)
    path.write_text(text[:start] + table + text[text.index("\n[", start) :])
    return path


def test_a_model_of_three_labels_clusters_answers(three: Path, tmp_path: Path) -> None:
    table = f'[score.three]\nkind = "entailment"\nmodel = "{three}"\n'
    for rule in ("entail", "no_contradiction"):
        keys = {"hops": 1, "budget": 12, "batch": 4, "answers": 6, "cluster": rule, "meaning": "three"}
        log = go(recipe_with(tmp_path / rule, table, **keys), tmp_path / f"{rule} log")
        assert validate_log(log).ok
        frame = rounds_of(log)
        assert (frame["contradictions"] > 0).any()
        read = frame.filter(pl.col("documents").list.len() > 0).sort("round")
        for _, rows in read.group_by("example_id", maintain_order=True):
            firsts: list[str] = []
            for answers, clusters, count in rows.select("answers", "clusters", "contradictions").iter_rows():
                for answer, cluster in zip(answers, clusters, strict=True):
                    same = [i for i, one in enumerate(firsts) if joins(rule, answer, one)]
                    assert cluster == (same[0] if same else len(firsts))
                    firsts += [] if same else [answer]
                assert count == ({"e", "f"} <= set(answers))
        assert log.manifest.source["services"]["score.three"]["weights_sha256"]


def joins(rule: str, answer: str, first: str) -> bool:
    both = {meaning(answer, first), meaning(first, answer)} if answer != first else {1}
    return both == {1} if rule == "entail" else 2 not in both


def test_pairs_are_scored_both_ways_and_cost_no_tokens(three: Path, tmp_path: Path) -> None:
    table = f'[score.three]\nkind = "entailment"\nmodel = "{three}"\n'
    services = Services(load_recipe(recipe_with(tmp_path, table, hops=1)))
    pairs = tuple((f"king sea {one}", f"king sea {other}") for one, other in PAIRS)
    long = (("king " * 70, "b"),)
    scores, none = services.answer("score", "three", [(Score(pairs, "three"), {}), (Score(long, "three"), {})])
    wanted = [{0: 0.0, 1: 1.0, 2: -1.0}[meaning(one, other)] for one, other in PAIRS]
    assert scores.values == tuple(wanted)
    assert none.values == (None,)
    assert (scores.prompt_tokens, scores.completion_tokens, scores.calls) == (0, 0, 0)
    with refuses("rule", "`score.three`"):
        services.answer("score", "three", [(Verify("a", "three"), {})])


@pytest.mark.parametrize("rule", ["entail", "no_contradiction"])
def test_answers_whose_pair_has_no_score_stay_apart(rule: str) -> None:
    """As where both texts are longer than the model takes; nobody counted such a round's contradictions."""
    for verdicts, clusters, count in (((None, 1.0), (0, 1), None), ((1.0, 1.0), (0, 0), 0)):
        judging = MeaningClusters(rule, "three").assign("q", ["a", "b"])
        assert len(next(judging).texts) == 2
        with pytest.raises(StopIteration) as end:
            judging.send(Scores(verdicts))
        assert (end.value.value.clusters, end.value.value.contradictions) == (clusters, count)


def test_a_model_of_other_labels_or_without_weights_is_one_line(tmp_path: Path) -> None:
    words = save_words(tmp_path / "two")
    bert(len(words), 2, 8).save_pretrained(tmp_path / "two")
    save_words(tmp_path / "bare")
    bert(len(words), 3, 8).save_pretrained(tmp_path / "bare")
    (tmp_path / "bare" / "model.safetensors").unlink()
    for name, code in (("two", "unsuitable"), ("bare", "not-found"), ("none", "not-found")):
        table = f'[score.three]\nkind = "entailment"\nmodel = "{tmp_path / name}"\n'
        services = Services(load_recipe(recipe_with(tmp_path / f"{name} recipe", table, hops=1)))
        with refuses(code, name):
            services.answer("score", "three", [(Score((("a", "b"),), "three"), {})])


def test_a_cross_encoder_gives_the_relevance(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    words = save_words(tmp_path / "cross")
    model = bert(len(words), 1, 16)
    with torch.no_grad():
        model.classifier.weight.normal_(0, 2.0)
    model.save_pretrained(tmp_path / "cross")
    table = f'[score.cross]\nkind = "cross_encoder"\nmodel = "{tmp_path / "cross"}"\ndevice = "cpu"\n'
    recipe = recipe_with(tmp_path / "recipe", table, hops=1, budget=8, batch=4)
    log = go(recipe, tmp_path / "log")
    frame = rounds_of(log)
    questions = dict(pl.read_ndjson(tmp_path / "recipe" / "examples.jsonl").select("example_id", "question").rows())
    texts = dict(pl.read_ndjson(tmp_path / "recipe" / "wiki" / "a.jsonl").select("id", "text").rows())
    alone = library.CrossEncoder(str(tmp_path / "cross"), device="cpu")
    for example, documents, relevance in frame.select("example_id", "documents", "relevance").iter_rows():
        plain = alone.predict([(questions[example], texts[one]) for one in documents], show_progress_bar=False)
        assert relevance == pytest.approx(plain.tolist(), abs=1e-5)
        assert all(0 < value < 1 for value in relevance)
    record = log.manifest.source["services"]["score.cross"]
    assert record["activation"] == "Sigmoid"
    assert record["weights_sha256"]
    bert(len(words), 3, 16).save_pretrained(tmp_path / "cross")
    with refuses("unsuitable", "`score.cross.model`", "3 outputs"):
        Services(load_recipe(recipe)).answer("score", "cross", [(Score((("a", "b"),), "cross"), {})])
