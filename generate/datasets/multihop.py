"""Questions that need several passages: MuSiQue (Trivedi et al. 2022, arXiv:2108.00573) and 2WikiMultiHopQA (Ho et al.
2020, arXiv:2011.01060).

MuSiQue is published as JSON lines with `id`, `question`, `answer`, `answer_aliases`, `question_decomposition` and
`paragraphs` (`title`, `paragraph_text`, `is_supporting`); 2WikiMultiHopQA as a JSON array with `_id`, `type`,
`question`, `answer`, `context` (pairs of a title and its sentences) and `supporting_facts` (pairs of a title and the
number of a sentence). Other names of its answers stand beside it, in `id_aliases.json`, by the `answer_id` of a row.
Their test parts have no published answers.

All passages of a question, right and wrong ones, stand in its row, and many stand in several. A passage's id is drawn
from its title and text, so that the same passage has the same id in every question, and in the corpus that is read
from these files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl

from generate.datasets.data_set import DataSet, LoadedDataSet, PublishedCount, ReadRequest, examples_frame
from generate.datasets.published import PublishedRow, read_rows

Passage = tuple[str, str, bool]
"""A title, a text, and whether the question needs it."""


def passage_id(title: str, text: str) -> str:
    """The id of a passage that was published without one: 16 hexadecimal digits of SHA-256 of title and text."""
    return hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16]


def _musique_passages(row: PublishedRow) -> Iterator[Passage]:
    for one in row.list_of("paragraphs"):
        if not isinstance(one, dict) or not all(isinstance(one.get(key), str) for key in ("title", "paragraph_text")):
            raise row.column_error("paragraphs", "a paragraph needs the texts `title` and `paragraph_text`")
        yield one["title"], one["paragraph_text"], one.get("is_supporting") is True


def _wiki_passages(row: PublishedRow) -> Iterator[Passage]:
    facts = row.list_of("supporting_facts") if row.has("supporting_facts") else []
    if not all(isinstance(fact, list) and len(fact) == 2 for fact in facts):
        raise row.column_error("supporting_facts", "must be pairs of a title and the number of a sentence")
    needed = {str(title) for title, _ in facts}
    for one in row.list_of("context"):
        if not (isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) and isinstance(one[1], list)):
            raise row.column_error("context", "must be pairs of a title and a list of sentences")
        yield one[0], " ".join(str(sentence).strip() for sentence in one[1]), one[0] in needed


PASSAGES: Mapping[str, Callable[[PublishedRow], Iterator[Passage]]] = {
    "musique": _musique_passages, "2wikimultihopqa": _wiki_passages,
}  # fmt: skip
"""What reads the passages of a question's row, by data set."""
ALIASES = "id_aliases.json"
"""The file of other names of 2WikiMultiHopQA's answers: JSON lines of `Q_id`, `aliases`, `demonyms`."""
_LIST = pl.List(pl.String())
_EXTRA = {"golds": _LIST, "gold_documents": _LIST, "question_type": pl.String(), "hops": pl.Int32()}
_PUBLISHED = {
    ("musique", "train"): 19_938, ("musique", "dev"): 2_417,
    ("2wikimultihopqa", "train"): 167_454, ("2wikimultihopqa", "dev"): 12_576,
}  # fmt: skip


def _texts_of(row: PublishedRow, column: str) -> list[str]:
    texts = row.list_of(column) if row.has(column) else []
    if not all(isinstance(text, str) for text in texts):
        raise row.column_error(column, "must be a list of texts")
    return texts


def _load_examples(
    request: ReadRequest, described: Callable[[PublishedRow], Mapping[str, Any]], source: str
) -> LoadedDataSet:
    """The examples of a data set, and how many there are. described: a row's id, type, hops and further `golds`."""
    rows = []
    for row in read_rows(request.files):
        documents = [passage_id(title, text) for title, text, needed in PASSAGES[request.name](row) if needed]
        known = described(row)
        golds = list(dict.fromkeys([row.text("answer"), *known["golds"]]))
        answer = {"question": row.text("question"), "gold": golds[0], "golds": golds if len(golds) > 1 else None}
        rows.append({**known, **answer, "gold_documents": list(dict.fromkeys(documents))})
    count = PublishedCount(
        f"{request.name} {request.split} questions", len(rows), _PUBLISHED.get((request.name, request.split)), source
    )
    return LoadedDataSet(examples_frame(request, rows, _EXTRA), (count,))


def _read_musique(request: ReadRequest) -> LoadedDataSet:
    """Reads MuSiQue's examples. `hops`: the steps of its decomposition; `question_type`: how they hang together."""

    def id_type_hops_and_golds(row: PublishedRow) -> dict[str, Any]:
        hops = len(row.list_of("question_decomposition")) if row.has("question_decomposition") else None
        kind = row.text("id").partition("__")[0]
        return {"example_id": row.text("id"), "question_type": kind, "hops": hops,
                "golds": _texts_of(row, "answer_aliases")}  # fmt: skip

    return _load_examples(request, id_type_hops_and_golds, "Trivedi et al. 2022")


def _read_wiki(request: ReadRequest) -> LoadedDataSet:
    """Reads 2WikiMultiHopQA's examples. `hops`: the passages that a question needs. Aliases and demonyms of an answer
    are right, too, as in version 1.1 of its evaluation script.
    """
    beside = [path for path in dict.fromkeys(file.with_name(ALIASES) for file in request.files) if path.is_file()]
    names = {row.text("Q_id"): [*_texts_of(row, "aliases"), *_texts_of(row, "demonyms")]
             for row in (read_rows(beside) if beside else [])}  # fmt: skip

    def id_type_hops_and_golds(row: PublishedRow) -> dict[str, Any]:
        needed = {title for title, _, is_needed in _wiki_passages(row) if is_needed}
        return {"example_id": row.text("_id"), "question_type": row.optional_text("type"), "hops": len(needed) or None,
                "golds": names.get(row.optional_text("answer_id") or "", [])}  # fmt: skip

    return _load_examples(request, id_type_hops_and_golds, "Ho et al. 2020")


MUSIQUE = DataSet(
    name="musique",
    published_by="Trivedi et al. 2022, arXiv:2108.00573",
    files={split: (f"musique_ans_v1.0_{split}.jsonl", f"*{split}*.jsonl") for split in ("train", "dev")},
    read=_read_musique,
)
WIKI_MULTIHOP = DataSet(
    name="2wikimultihopqa",
    published_by="Ho et al. 2020, arXiv:2011.01060",
    files={split: (f"{split}.json", f"*{split}*.json*") for split in ("train", "dev")},
    read=_read_wiki,
)
