"""A corpus with its index: passages, BM25, and what is near each passage. It is built once and kept in a folder.

The folder holds the passages as an Arrow file, bm25s's arrays, a file for each graph of
neighbours, and `index.json`, which says of what files it was built. Where these have another size or time, it is built
again; a folder that is half written never stands under its name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from generate.retrieval.encoders import Encoder
from generate.retrieval.neighbours import NONE, nearest_rows, word_vectors
from generate.retrieval.passages import files_of, read_passages
from generate.retrieval.words import WORD, best_by_words, import_bm25s, index_words, load_words, save_words
from toolkit.errors import ConflictError, EmptyError, FormatError, RequiredError, UnknownError
from toolkit.files import replacing, replacing_file

FORM = 1
"""Of the folder; one of another form is built again."""
RECORD, PASSAGES, WORDS = "index.json", "passages.arrow", "bm25"
SUFFIX = ".index"
"""What follows the name of a corpus in that of its index's folder."""
ROWS = 2**14
"""Embeddings that are read at one time."""


@dataclass(frozen=True)
class Corpus:
    """A corpus. folder: of its index; record: what `index.json` says; embeddings: a file of one for each passage, by
    which their neighbours are chosen; without it, by TF-IDF. encoder: searches it in place of BM25.
    """

    folder: Path
    record: Mapping[str, Any]
    embeddings: Path | None = None
    encoder: Encoder | None = None
    graphs: dict[str, np.ndarray] = field(default_factory=dict, compare=False)

    @cached_property
    def passages(self) -> pl.DataFrame:
        """Its passages: `id`, `title`, `text`."""
        return pl.read_ipc(self.folder / PASSAGES)

    @cached_property
    def _word_index(self) -> Any:
        return load_words(self.folder / WORDS)

    @cached_property
    def _place_by_id(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.passages["id"])}

    def __contains__(self, name: str) -> bool:
        return name in self._place_by_id

    @cached_property
    def _passage_vectors(self) -> Any:
        assert self.encoder is not None  # of searches by it
        return self.encoder.passage_vectors(_indexed_texts(self.passages).to_list(), self.folder)

    def search(self, query: str, top: int) -> tuple[tuple[str, ...], tuple[float, ...], tuple[str, ...]]:
        """The passages, at most `top`, best first: ids, scores, and texts as `title: text`. By BM25 those that share a
        word with a query.
        """
        if self.encoder is None:
            places, scores = best_by_words(self._word_index, query, top)
        else:
            places, scores = self.encoder.best_passages(self._passage_vectors, query, top)
        rows = self.passages[places]
        return tuple(rows["id"]), tuple(scores.tolist()), _titled_texts(rows)

    def texts(self, names: Sequence[str]) -> tuple[str, ...]:
        """The passages of some ids, as `title: text`. UnknownError where it has none of that id."""
        return _titled_texts(self.passages[[self._place(name) for name in names]])

    def neighbours(self, names: Sequence[str], top: int) -> tuple[tuple[str, ...], ...]:
        """The ids of at most `top` passages that are nearest to each of some, nearest first."""
        graph, ids = self._neighbour_graph(top), self.passages["id"]
        rows = (graph[self._place(name), :top] for name in names)
        return tuple(tuple(ids[row[row != NONE].tolist()]) for row in rows)

    def _place(self, name: str) -> int:
        if name not in self._place_by_id:
            raise UnknownError(f"corpus `{self.record['path']}` has no passage `{name}`")
        return self._place_by_id[name]

    def _neighbour_graph(self, most: int) -> np.ndarray:
        """The neighbours of all passages (n, at least `most`), kept in a file once they are known."""
        kind = "words" if self.embeddings is None else _digest_of_file(self.embeddings)[:16]
        if kind not in self.graphs or self.graphs[kind].shape[1] < most:
            files = {int(one.stem.rpartition("-")[2]): one for one in self.folder.glob(f"neighbours-{kind}-*.npy")}
            wide = [number for number in files if number >= most]
            if wide:
                self.graphs[kind] = np.load(files[min(wide)], mmap_mode="r")
            else:
                self.graphs[kind] = nearest_rows(self._graph_vectors(), most)
                target = self.folder / f"neighbours-{kind}-{most}.npy"
                with replacing_file(target, force=True) as unfinished, unfinished.open("wb") as file:
                    np.save(file, self.graphs[kind])
        return self.graphs[kind]

    def _graph_vectors(self) -> Any:
        if self.embeddings is None:
            return word_vectors(_indexed_texts(self.passages))
        return read_embeddings(self.embeddings, self.passages["id"])

    def describe(self) -> dict[str, Any]:
        """The manifest's record."""
        record = {key: self.record[key] for key in ("path", "layout", "passages", "sha256", "k1", "b", "bm25s")}
        record |= {"neighbours": "TF-IDF" if self.embeddings is None else self.embeddings.name}
        return record | ({} if self.encoder is None else {"encoder": self.encoder.describe()})


def open_corpus(
    path: Path, place: str, *, layout: str = "passages", k1: float = 1.5, b: float = 0.75, index: Path | None = None,
    embeddings: Path | None = None, encoder: Encoder | None = None,
) -> Corpus:  # fmt: skip
    """A corpus with its index, which is built where there is none, or one of other files.

    place: the settings, for errors; index: the folder of its index, by default beside the corpus; encoder: searches in
    place of BM25. ThinkbackError where the files are unfit, or the folder can't be written.
    """
    files = files_of(path, layout, place)
    folder = index or path.with_name(path.name + SUFFIX)
    wanted = {
        "form": FORM, "path": path.name, "layout": layout, "k1": k1, "b": b, "bm25s": import_bm25s().__version__,
        "files": [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files],
    }  # fmt: skip
    record = _read_record(folder, place)
    if record is None or any(record.get(key) != value for key, value in wanted.items()):
        record = _build_corpus(folder, files, layout, wanted, place)
    return Corpus(folder, record, embeddings, encoder)


def _read_record(folder: Path, place: str) -> dict[str, Any] | None:
    """What a folder's `index.json` says, None where there is no such folder. ConflictError where it is no index."""
    if not folder.exists():
        return None
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = None
    if not isinstance(record, dict) or "form" not in record:
        raise ConflictError(
            f"`{place}`: `{folder}` is there and is no index of passages: name another folder as `index`"
        )
    return record


def _build_corpus(
    folder: Path, files: Sequence[Path], layout: str, wanted: Mapping[str, Any], place: str
) -> dict[str, Any]:
    passages = read_passages(files, layout, place)
    texts = _indexed_texts(passages)
    if not texts.str.contains(WORD).any():
        raise EmptyError(f"`{place}.path`: no passage of `{files[0]}` has a word")
    record = {**wanted, "passages": passages.height, "sha256": _digest_of(passages)}
    words = index_words(texts, wanted["k1"], wanted["b"])
    with replacing(folder, force=True) as unfinished:
        passages.write_ipc(unfinished / PASSAGES, compression="uncompressed")
        save_words(words, unfinished / WORDS)
        (unfinished / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
    return record


def _titled_texts(passages: pl.DataFrame) -> tuple[str, ...]:
    columns = passages.select("title", "text")
    return tuple(f"{title}: {text}" if title else text for title, text in columns.iter_rows())


def _indexed_texts(passages: pl.DataFrame) -> pl.Series:
    """Titles and texts, as they are indexed."""
    return passages.select(pl.concat_str("title", "text", separator=" ")).to_series()


def _digest_of(passages: pl.DataFrame) -> str:
    digest = hashlib.sha256()
    for row in passages.iter_rows():
        digest.update("\0".join(row).encode() + b"\1")
    return digest.hexdigest()


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_embeddings(path: Path, names: pl.Series) -> np.ndarray:
    """The embeddings of some passages at length one (n, d), from a Parquet file of `id` and `embedding`, by chunks.

    ThinkbackError where a passage has none, or they are no numbers of one length.
    """
    wanted = names.to_frame("id").with_row_index("place")
    try:
        rows = pl.scan_parquet(path).select(pl.col("id").cast(pl.String), "embedding")
        there = rows.select("id", there=pl.col("embedding").is_not_null()).collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise FormatError(f"`{path}` is no Parquet file of `id` and `embedding`: {reason}") from None
    lacks = wanted.join(there.filter("there"), on="id", how="anti", maintain_order="left")["id"]
    if len(lacks):
        raise RequiredError(f"`{path}` has no embedding of {len(lacks):,} passages, the first is `{lacks[0]}`")
    place_of_row = there.join(wanted, on="id", how="left", maintain_order="left")["place"]
    if place_of_row.drop_nulls().is_duplicated().any():
        raise ConflictError(f"`{path}` has several embeddings of one passage")
    matrix = np.zeros((0, 0), dtype=np.float32)
    for start in range(0, there.height, ROWS):
        place = place_of_row.slice(start, ROWS)
        chunk = rows.slice(start, ROWS).collect()["embedding"].filter(place.is_not_null())
        if len(chunk):
            vectors = _lists_as_matrix(chunk, path, matrix.shape[1])
            matrix = matrix if matrix.size else np.zeros((len(names), vectors.shape[1]), dtype=np.float32)
            lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
            matrix[place.drop_nulls().to_numpy()] = vectors / np.where(lengths > 0, lengths, 1)
    return matrix


def _lists_as_matrix(chunk: pl.Series, path: Path, width: int) -> np.ndarray:
    """Lists of `width` numbers, or of any one length where it is 0, as a matrix (n, d) float32. Else FormatError."""
    sizes = chunk.list.len().unique() if chunk.dtype == pl.List else [0]
    try:
        vectors = chunk.list.to_array(sizes[0]) if len(sizes) == 1 and sizes[0] else chunk
        matrix = np.asarray(vectors.to_numpy(), dtype=np.float32)
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        matrix = np.zeros(0, dtype=np.float32)
    if matrix.ndim != 2 or width not in (0, matrix.shape[1]) or not np.isfinite(matrix).all():
        raise FormatError(f"`{path}`, column `embedding`: must be lists of numbers of one length")
    return matrix
