"""The tables `[search.NAME]` of kinds `passages`, `world` and `run`: first stages of retrieval, searches of loops."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generate.engines import weights
from generate.loops.requests import Results, Search
from generate.recipes.recipe import Recipe
from generate.retrieval.corpus import Corpus, open_corpus
from generate.retrieval.encoders import open_encoder
from generate.retrieval.passages import LAYOUTS
from generate.retrieval.runs import Ranking, read_run
from generate.tasks import InventedWorld
from generate.worlds.passages import passage_frame
from toolkit.errors import ConflictError, ExistsError, NotFoundError, UnknownError
from toolkit.files import replacing_file
from toolkit.settings import Checked, setting

Searching = tuple[Search, Mapping[str, str]]
"""A search, with the fields of its example."""


@dataclass(frozen=True)
class PassagesSearch(Checked):
    """A search of a corpus by BM25: k1, b, words of letters and digits in lower case, ties to the earlier passage. Or
    by a model of sentence-transformers: an `encoder` of sentences, or a `sparse_encoder` such as SPLADE, on a `device`,
    `batch` texts at one time.

    path: a file or folder of passages, or of a data set's questions (`layout`); index: the folder of its index, by
    default beside it; embeddings: a Parquet file of `id` and `embedding`, by which neighbours are chosen.
    """

    path: str = setting()
    layout: str = setting("passages", choices=LAYOUTS)
    k1: float = setting(1.5, low=0)
    b: float = setting(0.75, low=0, high=1)
    index: str | None = setting(None)
    embeddings: str | None = setting(None)
    encoder: str | None = setting(None)
    sparse_encoder: str | None = setting(None)
    batch: int = setting(32, low=1, identity=False)
    device: str = setting("auto", choices=weights.DEVICES, identity=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder is not None and self.sparse_encoder is not None:
            raise ConflictError("`encoder` and `sparse_encoder` are two first stages: give one of them")

    def opened(self, recipe: Recipe, place: str) -> CorpusSearch:
        """The corpus, indexed."""
        vectors = None if self.embeddings is None else recipe.resolve_path(self.embeddings)
        if vectors is not None and not vectors.is_file():
            raise NotFoundError(f"`{place}.embeddings`: there is no file `{self.embeddings}`")
        index = None if self.index is None else recipe.folder / self.index
        encoder = None
        if named := self.encoder or self.sparse_encoder:
            files = weights.find_model(recipe.resolve_model(named), None, download=False)
            encoder = open_encoder(files, self.encoder is None, self.batch, self.device, place)
        return CorpusSearch(open_corpus(recipe.resolve_path(self.path), place, layout=self.layout, k1=self.k1, b=self.b,
                                        index=index, embeddings=vectors, encoder=encoder))  # fmt: skip


@dataclass(frozen=True)
class WorldSearch(Checked):
    """A search by BM25 of the passages of a task's invented world, `world` and `people` as in the task's settings.

    path: their file, beside the recipe or in the working directory, where it is written if there is none.
    """

    world: int = setting(0, low=0)
    people: int = setting(900, low=60, high=2_000)
    path: str = setting("invented-world.jsonl")

    def opened(self, recipe: Recipe, place: str) -> CorpusSearch:
        """The corpus, indexed. ConflictError where the file has other passages."""
        passages = passage_frame(InventedWorld(world=self.world, people=self.people).passages.passages)
        if not (path := recipe.resolve_path(self.path)).exists():
            with suppress(ExistsError), replacing_file(path) as part:  # a run beside this one may be first
                passages.write_ndjson(part)
        search = CorpusSearch(open_corpus(path, place))
        if not search.corpus.passages.equals(passages):
            raise ConflictError(f"`{place}.path`: `{path}` has other passages than this world: name another file")
        return search


@dataclass(frozen=True)
class CorpusSearch:
    """Searches of a corpus."""

    corpus: Corpus

    def answer(self, requests: Sequence[Searching]) -> list[Results]:
        """The passages of each query."""
        return [self._search_once(request) for request, _ in requests]

    def _search_once(self, request: Search) -> Results:
        began = time.perf_counter()
        ids, scores, texts = self.corpus.search(request.query, request.top)
        return Results(texts if request.texts else (), ids, scores, latency_s=time.perf_counter() - began)

    def describe(self) -> Mapping[str, Any]:
        """The manifest's record."""
        return self.corpus.describe()


@dataclass(frozen=True)
class RunSearch(Checked):
    """A run file of TREC in place of a search: whatever the query, the passages that it has for the example's id."""

    path: str = setting()

    def opened(self, recipe: Recipe, place: str) -> _RunSearchService:
        """The rankings, read."""
        return _RunSearchService(self, place, read_run(recipe.resolve_path(self.path), place))


@dataclass(frozen=True)
class _RunSearchService:
    settings: RunSearch
    place: str
    rankings: Mapping[str, Ranking]

    def answer(self, requests: Sequence[Searching]) -> list[Results]:
        return [self._search_once(request, fields["example_id"]) for request, fields in requests]

    def _search_once(self, request: Search, example: str) -> Results:
        path = self.settings.path
        if example not in self.rankings:
            raise UnknownError(
                f"`{self.place}.path`: `{path}` has no line of example `{example}`; its first is"
                f" `{next(iter(self.rankings))}`: its first column must be the examples' ids"
            )
        if request.texts:
            raise ConflictError(f"`{self.place}`: a run file has no texts: only a loop `retrieve` takes one")
        ids, scores = self.rankings[example]
        return Results((), ids[: request.top], scores[: request.top])

    def describe(self) -> Mapping[str, Any]:
        return {"path": Path(self.settings.path).name, "questions": len(self.rankings)}
