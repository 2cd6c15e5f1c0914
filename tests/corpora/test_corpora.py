"""Corpora: their files, the index that is kept, BM25, neighbours by blocks, and what is wrong with them in one line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from generate.datasets import load
from generate.retrieval.corpus import RECORD, Corpus, open_corpus, read_embeddings
from generate.retrieval.neighbours import nearest_rows, word_vectors
from generate.retrieval.runs import read_run
from tests.errors import refuses

PLACE = "search.wiki"
WORDS = ["river", "stone", "king", "queen", "north", "south", "ship", "gold", "sea", "hill", "the", "of"]


def passages(count: int, seed: int = 0) -> pl.DataFrame:
    """Random passages, some of them equal."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(count)]
    texts[count // 2] = texts[0]
    return pl.DataFrame({"id": [f"p{i}" for i in range(count)], "title": [f"T{i % 7}" for i in range(count)],
                         "text": texts})  # fmt: skip


def corpus_of(folder: Path, rows: pl.DataFrame, **settings: object) -> Corpus:
    (folder / "wiki").mkdir()
    half = rows.height // 2
    rows[:half].write_ndjson(folder / "wiki" / "a.jsonl")
    rows[half:].write_parquet(folder / "wiki" / "b.parquet")
    return open_corpus(folder / "wiki", PLACE, **settings)  # type: ignore[arg-type]


def plain_bm25(texts: list[str], query: str) -> list[float]:
    """Lucene's BM25, written out."""
    split = [re.findall(r"[^\W_]+", text.lower()) for text in texts]
    mean, scores = sum(map(len, split)) / len(split), []
    for words in split:
        score = 0.0
        for word in dict.fromkeys(re.findall(r"[^\W_]+", query.lower())):
            having = sum(word in other for other in split)
            count = words.count(word)
            idf = math.log(1 + (len(split) - having + 0.5) / (having + 0.5))
            score += idf * count / (count + 1.5 * (0.25 + 0.75 * len(words) / mean))
        scores.append(score)
    return scores


def test_what_a_search_gives_reads_as_the_passages_of_its_ids(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": ["a", "b"], "title": ["Ada Reed", ""], "text": ["Born in 1867.", "Born in Rome."]})
    corpus = corpus_of(tmp_path, rows)
    ids, _, texts = corpus.search("reed born", 2)
    assert dict(zip(ids, texts, strict=True)) == {"a": "Ada Reed: Born in 1867.", "b": "Born in Rome."}
    assert texts == corpus.texts(ids)


def test_a_search_is_bm25_with_ties_to_the_earlier_passage(tmp_path: Path) -> None:
    rows = passages(60)
    corpus = corpus_of(tmp_path, rows)
    texts = [f"{title} {text}" for title, text in rows.select("title", "text").iter_rows()]
    for query in ("king of the north", "T3 gold, GOLD!", "ship"):
        scores = plain_bm25(texts, query)
        order = sorted((i for i in range(60) if scores[i] > 0), key=lambda i: (-round(scores[i], 5), i))
        for top in (1, 5, 100):
            ids, values, found = corpus.search(query, top)
            assert ids == tuple(f"p{i}" for i in order[:top])
            assert values == pytest.approx([scores[i] for i in order[:top]], rel=1e-5)
            assert found == tuple(f"{rows['title'][i]}: {rows['text'][i]}" for i in order[:top])
    assert corpus.search("nothing here", 5) == ((), (), ())
    assert corpus.search("", 5) == ((), (), ())


def test_texts_and_neighbours_of_ids(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, passages(20))
    row = corpus.passages.row(3, named=True)
    assert corpus.texts(["p3"]) == (f"{row['title']}: {row['text']}",)
    assert corpus.texts([]) == ()
    near = corpus.neighbours(["p0", "p4"], 5)
    assert near[0][0] == "p10" or corpus.passages["title"][10] != corpus.passages["title"][0]
    assert [len(one) for one in near] == [5, 5]
    assert corpus.neighbours(["p0"], 3)[0] == near[0][:3]
    assert "p19" in corpus
    assert "p20" not in corpus
    with refuses("unknown", "`wiki`", "`p20`"):
        corpus.texts(["p20"])


def plain_nearest(rows: np.ndarray, most: int) -> np.ndarray:
    cosines = np.round(rows @ rows.T, 9)
    out = np.full((len(rows), most), -1)
    for i, row in enumerate(cosines):
        order = [int(j) for j in np.lexsort((np.arange(len(row)), -row)) if j != i and row[j] > 0][:most]
        out[i, : len(order)] = order
    return out


@pytest.mark.parametrize(("width", "cells"), [(5, 5), (7, 50), (2**14, 2**24)])
def test_neighbours_are_exact_whatever_the_blocks(width: int, cells: int) -> None:
    sparse = word_vectors(passages(31)["text"])
    dense = np.random.default_rng(1).normal(size=(31, 8))
    dense[20] = dense[2]
    dense[21] = 0
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)
    for rows, whole in ((sparse, sparse.toarray()), (dense, dense)):
        for most in (1, 10, 40):
            assert np.array_equal(nearest_rows(rows, most, width, cells), plain_nearest(whole, most))


def test_an_index_is_kept_and_built_again_where_files_change(tmp_path: Path) -> None:
    rows = passages(20)
    corpus = corpus_of(tmp_path, rows)
    corpus.neighbours(["p0"], 4)
    folder = tmp_path / "wiki.index"
    assert (folder / "neighbours-words-4.npy").is_file()
    before = (folder / RECORD).stat().st_mtime_ns
    again = open_corpus(tmp_path / "wiki", PLACE)
    assert (folder / RECORD).stat().st_mtime_ns == before
    assert again.describe() == corpus.describe()
    assert again.neighbours(["p0"], 3) == corpus.neighbours(["p0"], 3)  # of the wider graph, which is there
    assert not (folder / "neighbours-words-3.npy").exists()
    rows.with_columns(pl.col("id") + "x").write_ndjson(tmp_path / "wiki" / "c.jsonl")
    new = open_corpus(tmp_path / "wiki", PLACE)
    assert new.describe()["passages"] == 40
    assert new.describe()["sha256"] != corpus.describe()["sha256"]
    assert not (folder / "neighbours-words-4.npy").exists()
    open_corpus(tmp_path / "wiki", PLACE, index=tmp_path / "other", k1=0.9)
    assert json.loads((tmp_path / "other" / RECORD).read_text())["k1"] == 0.9


def test_a_folder_that_is_no_index_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    passages(4).write_ndjson(tmp_path / "p.jsonl")
    with refuses("conflict", "`search.wiki`", "mine", "`index`"):
        open_corpus(tmp_path / "p.jsonl", PLACE, index=tmp_path / "mine")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("part", [5, 2**14])
def test_given_embeddings_choose_the_neighbours(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generate.retrieval.corpus.ROWS", part)
    rows, vectors = passages(12), np.random.default_rng(3).normal(size=(12, 4))
    frame = pl.DataFrame({"id": rows["id"], "embedding": vectors.tolist()}).reverse()
    frame.write_parquet(tmp_path / "e.parquet")
    corpus = corpus_of(tmp_path, rows, embeddings=tmp_path / "e.parquet")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    wanted = plain_nearest(unit.astype(np.float32).astype(float), 3)
    for i, near in enumerate(corpus.neighbours(rows["id"].to_list(), 3)):
        assert near == tuple(f"p{j}" for j in wanted[i] if j >= 0)
    frame[1:].write_parquet(tmp_path / "f.parquet")
    with refuses("required", "f.parquet", "1 passages", "`p11`"):
        open_corpus(tmp_path / "wiki", PLACE, embeddings=tmp_path / "f.parquet").neighbours(["p0"], 2)
    uneven = [[1.0] * (2 if i < 6 else 3) for i in range(12)]
    bad = {"words": ["x"] * 12, "lengths": uneven, "holes": [None, *uneven[1:]], "infinite": [[float("inf")]] * 12}
    for name, values in bad.items():
        pl.DataFrame({"id": rows["id"], "embedding": values}).write_parquet(tmp_path / name)
        with refuses("required" if name == "holes" else "format", name, "embedding"):
            open_corpus(tmp_path / "wiki", PLACE, embeddings=tmp_path / name).neighbours(["p0"], 2)
    pl.concat([frame, frame[:1]]).write_parquet(tmp_path / "twice")
    with refuses("conflict", "twice"):
        open_corpus(tmp_path / "wiki", PLACE, embeddings=tmp_path / "twice").neighbours(["p0"], 2)
    unknown = pl.DataFrame({"id": ["z"], "embedding": [[1.0, 2.0, 3.0, 4.0]]})
    pl.concat([unknown, frame]).write_parquet(tmp_path / "more")
    assert np.allclose(read_embeddings(tmp_path / "more", rows["id"]), unit, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ('{"text": "a"}\n', ("required", "`id`")),
        ('{"id": "1", "text": "a"}\n{"text": "b"}\n', ("required", "row 2", "`id`")),
        ('{"id": "1", "text": null}\n{"id": "2", "text": "b"}\n', ("required", "row 1", "`text`")),
        ('{"id": "1", "text": "a"}\n{"id": "1", "text": "b"}\n', ("conflict", "1 ids", "`1`")),
        ("", ("empty", "p.jsonl")),
        ("\n   \n", ("empty", "p.jsonl", "`id`", "`text`")),
        ('{"id": "1", "text": "..."}\n', ("empty", "p.jsonl")),
        ("{", ("format", "p.jsonl", "line 1")),
        ('{"id": "1", "text": "a"}\n\nno\n', ("format", "p.jsonl", "line 3")),
        ('{"id": "", "text": "a"}\n', ("required", "row 1", "`id`")),
        ('{"id": [1], "text": "a"}\n', ("format", "p.jsonl", "`id`")),
        ('{"id": "1", "title": ["a"], "text": "a"}\n', ("format", "p.jsonl", "`title`")),
    ],
)
def test_bad_passages_are_one_line(text: str, refusal: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with refuses(refusal[0], "`search.wiki.path`", *refusal[1:]):
        open_corpus(tmp_path / "p.jsonl", PLACE)
    assert not (tmp_path / "p.jsonl.index").exists()


def test_a_blank_file_beside_others_has_no_passage(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n \n")
    (tmp_path / "b.jsonl").write_text('\n{"id": "1", "text": "a"}\n\n')
    assert open_corpus(tmp_path, PLACE, index=tmp_path / "index").passages["id"].to_list() == ["1"]


def test_a_corpus_that_is_not_there(tmp_path: Path) -> None:
    with refuses("not-found", "`search.wiki.path`"):
        open_corpus(tmp_path / "none", PLACE)
    with refuses("empty", "`search.wiki.path`", ".jsonl"):
        open_corpus(tmp_path, PLACE)


def test_numbers_as_ids_and_passages_without_titles_and_words(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"_id": 1, "text": "..."}\n{"_id": 2, "text": "b"}\n')
    corpus = open_corpus(tmp_path / "p.jsonl", PLACE)
    assert corpus.texts(["1", "2"]) == ("...", "b")
    assert corpus.search("a", 3) == ((), (), ())
    assert corpus.neighbours(["1", "2"], 3) == ((), ())


MUSIQUE = [
    {"id": "2hop__1_2", "question": "Where was the author of X born?", "answer": "Rome", "answer_aliases": ["Roma"],
     "question_decomposition": [{}, {}],
     "paragraphs": [{"idx": 0, "title": "X", "paragraph_text": "X is by Y.", "is_supporting": True},
                    {"idx": 1, "title": "X", "paragraph_text": "X is a letter.", "is_supporting": False},
                    {"idx": 2, "title": "Y", "paragraph_text": "Y of Rome.", "is_supporting": True}]},
    {"id": "3hop1__3_4_5", "question": "Who?", "answer": "Z", "question_decomposition": [{}, {}, {}],
     "paragraphs": [{"idx": 0, "title": "X", "paragraph_text": "X is by Y.", "is_supporting": True}]},
]  # fmt: skip
WIKI = [
    {"_id": "a1", "type": "comparison", "question": "Who is older?", "answer": "A", "supporting_facts": [["A", 0]],
     "context": [["A", ["A is old. ", "Very."]], ["B", ["B is young."]]]},
    {"_id": "a2", "type": "bridge", "question": "And who?", "answer": "B", "supporting_facts": [["B", 0], ["A", 1]],
     "context": [["B", ["B is young."]], ["A", ["A is old. ", "Very."]]]},
]  # fmt: skip


def test_the_layouts_of_musique_and_2wiki(tmp_path: Path) -> None:
    """Questions name the passages of the corpus that is read from the same files."""
    musique, wiki = tmp_path / "musique_ans_v1.0_dev.jsonl", tmp_path / "dev.json"
    musique.write_text("".join(json.dumps(row) + "\n" for row in MUSIQUE))
    wiki.write_text(json.dumps(WIKI))
    for name, file, sizes in (("musique", musique, (3, [2, 1])), ("2wikimultihopqa", wiki, (2, [1, 2]))):
        corpus = open_corpus(file, PLACE, layout=name)
        examples = load(name, file).examples
        assert corpus.passages.height == sizes[0]
        assert examples["gold_documents"].list.len().to_list() == sizes[1]
        assert all(one in corpus for golds in examples["gold_documents"] for one in golds)
        assert set(examples["split"]) == {"dev"}
    examples = load("musique", musique).examples
    assert examples["hops"].to_list() == [2, 3]
    assert examples["golds"].to_list() == [["Rome", "Roma"], None]
    assert examples["question_type"].to_list() == ["2hop", "3hop1"]
    assert load("2wikimultihopqa", wiki).examples["hops"].to_list() == [1, 2]
    assert open_corpus(wiki, PLACE, layout="2wikimultihopqa").passages["text"].to_list()[0] == "A is old. Very."
    broken = [{**MUSIQUE[0], "paragraphs": [{"title": "X"}]}]
    musique.write_text("".join(json.dumps(row) + "\n" for row in broken))
    with refuses("format", "musique", "`paragraphs`", "row 1"):
        open_corpus(musique, PLACE, layout="musique")


def test_folders_as_they_are_published(tmp_path: Path) -> None:
    """Files without questions stand in them, one with further right answers of 2WikiMultiHopQA."""
    musique, wiki = tmp_path / "musique", tmp_path / "2wikimultihopqa"
    musique.mkdir()
    wiki.mkdir()
    (musique / "musique_ans_v1.0_dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in MUSIQUE))
    (musique / "dev_test_singlehop_questions_v1.0.json").write_text('{"squad": [{"id": "1", "question": "Who?"}]}')
    rows = [{**row, "answer_id": name} for row, name in zip(WIKI, ("Q1", None), strict=True)]
    (wiki / "dev.json").write_text(json.dumps(rows))
    names = [{"Q_id": "Q1", "aliases": ["Aa", "A"], "demonyms": ["An"]}, {"Q_id": "Q2", "aliases": [], "demonyms": []}]
    (wiki / "id_aliases.json").write_text("".join(json.dumps(row) + "\n" for row in names))
    assert open_corpus(musique, PLACE, layout="musique").passages.height == 3
    assert open_corpus(wiki, PLACE, layout="2wikimultihopqa").passages.height == 2
    assert load("2wikimultihopqa", wiki, ("dev",)).examples["golds"].to_list() == [["A", "Aa", "An"], None]
    (wiki / "id_aliases.json").write_text(json.dumps({**names[0], "aliases": [1]}))
    with refuses("format", "id_aliases.json", "`aliases`", "row 1"):
        load("2wikimultihopqa", wiki, ("dev",))


def test_a_run_file_is_ranked_by_score(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("q1 Q0 a 3 1.5 x\nq1 Q0 b 1 2.5 x\n\nq1 Q0 c 2 1.5 x\nq2 Q0 a 1 -3 x\n")
    run = read_run(path, "search.run")
    assert run["q1"] == (("b", "c", "a"), (2.5, 1.5, 1.5))
    assert run["q2"] == (("a",), (-3.0,))


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("q1 Q0 a 1 2.5\n", ("format", "line 1", "5 columns")),
        ("q1 Q0 a 1 2.5 x\nq1 Q0 b one 2 x\n", ("format", "line 2", "`one`")),
        ("q1 Q0 a 1 nan x\n", ("format", "line 1", "`nan`")),
        ("q1 Q0 a 1 2 x\nq1 Q0 a 2 1 x\n", ("conflict", "line 2", "`q1`", "`a`")),
        ("\n", ("empty",)),
    ],
)
def test_a_bad_run_file_is_one_line(text: str, refusal: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text(text)
    with refuses(refusal[0], "`search.run.path`", *refusal[1:]):
        read_run(tmp_path / "run.txt", "search.run")
