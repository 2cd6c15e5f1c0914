"""First stages by a model of sentence-transformers: embeddings, or sparse vectors such as SPLADE's (Formal et al. 2021,
arXiv:2109.10086).

Every passage has a score for a query, the product of their vectors: their cosine where the model says so. Vectors of
passages are made once and kept with the corpus's index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from generate.engines import weights
from generate.retrieval.words import best_places
from toolkit.errors import PackageError, UnsuitableError
from toolkit.files import replacing_file
from toolkit.progress import progress

CHUNK = 2**11
"""Passages between two moves of the bar."""
BLOCK = 2**18
"""Passages of which scores are made at one time."""


@dataclass(frozen=True)
class Encoder:
    """A model that makes vectors of texts, dense ones (n, d) float32 or sparse ones. batch: texts at one time."""

    files: weights.ModelFiles
    model: Any
    sparse: bool
    batch: int

    @cached_property
    def digest(self) -> str:
        """A name for its weights, 16 digits."""
        return self.files.weights_sha256()[:16]

    def passage_vectors(self, texts: Sequence[str], folder: Path) -> Any:
        """The vectors of all passages of a corpus, kept in the folder of its index."""
        target = folder / f"vectors-{self.digest}.{'npz' if self.sparse else 'npy'}"
        if not target.is_file():
            with replacing_file(target, force=True) as path, progress("encoding", len(texts), "passages") as advance:
                chunks = self._chunks(texts, advance)
                self._save_sparse(chunks, path) if self.sparse else self._save_dense(chunks, len(texts), path)
        if self.sparse:
            from scipy.sparse import load_npz

            return load_npz(target)
        return np.load(target, mmap_mode="r")

    def best_passages(self, vectors: Any, query: str, top: int) -> tuple[np.ndarray, np.ndarray]:
        """The places of the `top` passages of highest score for a query, and the scores; equal ones: the earlier
        passage. Of sparse vectors those with a score above 0.
        """
        vector = self._vectors(self.model.encode_query, [query])
        if self.sparse:
            return best_places(np.asarray((vectors @ vector.T).todense()).ravel(), top, 0.0)
        blocks = range(0, len(vectors), BLOCK)
        scores = [vectors[start : start + BLOCK] @ vector[0] for start in blocks]
        return best_places(np.concatenate(scores), top, -np.inf)

    def describe(self) -> dict[str, Any]:
        """The manifest's record."""
        return {
            "model": self.files.name, "revision": self.files.revision, "weights_sha256": self.files.weights_sha256(),
            "sparse": self.sparse, "similarity": str(self.model.similarity_fn_name),
            "versions": weights.package_versions("sentence-transformers", "torch", "transformers"),
        }  # fmt: skip

    def _chunks(self, texts: Sequence[str], advance: Any) -> Iterator[Any]:
        for start in range(0, len(texts), CHUNK):
            chunk = texts[start : start + CHUNK]
            yield self._vectors(self.model.encode_document, chunk)
            advance(len(chunk))

    def _vectors(self, encode: Any, texts: Sequence[str]) -> Any:
        given = {"batch_size": self.batch, "show_progress_bar": False}
        if not self.sparse:
            cosine = self.model.similarity_fn_name == "cosine"
            return np.asarray(encode(list(texts), normalize_embeddings=cosine, **given), dtype=np.float32)
        from scipy.sparse import csr_matrix

        tensor = encode(list(texts), save_to_cpu=True, **given).coalesce()
        return csr_matrix((tensor.values().float().numpy(), tensor.indices().numpy()), shape=tuple(tensor.shape))

    def _save_dense(self, chunks: Iterator[np.ndarray], count: int, path: Path) -> None:
        out, place = None, 0
        for chunk in chunks:
            if out is None:
                shape = (count, chunk.shape[1])
                out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
            out[place : place + len(chunk)] = chunk
            place += len(chunk)
        if out is not None:
            out.flush()

    def _save_sparse(self, chunks: Iterator[Any], path: Path) -> None:
        from scipy.sparse import save_npz, vstack

        with path.open("wb") as file:
            save_npz(file, vstack(list(chunks), format="csr"), compressed=False)


def open_encoder(files: weights.ModelFiles, sparse: bool, batch: int, device: str, place: str) -> Encoder:
    """A model from its folder. ThinkbackError where sentence-transformers is not installed, or can't load it."""
    try:
        from sentence_transformers import SentenceTransformer, SparseEncoder
    except ImportError:
        raise PackageError(
            "encoders of passages need sentence-transformers: pip install 'thinkback[generate,retrieval]'"
        ) from None
    chosen = weights.chosen_device(device, f"`{place}`")
    try:
        kind: Any = SparseEncoder if sparse else SentenceTransformer
        model = kind(str(files.folder), device=chosen, local_files_only=True)
    except Exception as error:  # safetensors and tokenizers raise their own
        raise UnsuitableError(f"`{place}`: `{files.name}` can't be loaded: {weights.first_line(error)}") from None
    return Encoder(files, model, sparse, batch)
