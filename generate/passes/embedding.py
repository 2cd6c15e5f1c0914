"""Sentence embeddings: the interface of an embedder, and one that runs a local encoder.

What is similar is decided by the cosine of two embeddings, whatever their lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from generate.engines.weights import ModelFiles, chosen_device, find_model, require_extra, silence_transformers
from generate.passes.batching import TokenIds, length_batches, pad_batch, tokens_in_batch
from toolkit.documents import expand_home
from toolkit.errors import FormatError, MismatchError, NotFoundError

UNSAID = 512
"""The longest text, in tokens, of an encoder whose config says nothing of it."""


class Embedder(Protocol):
    """A function from texts (n,) to embeddings (n, d)."""

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The embeddings of some texts, in their order."""
        ...

    def describe(self) -> dict[str, object]:
        """The manifest's record of what makes the embeddings."""
        ...


def unit_rows(embedder: Embedder, texts: Sequence[str]) -> np.ndarray:
    """The embeddings of texts at length one, (n, d) float64: a product is a cosine. A zero row stays zero."""
    if not texts:
        return np.zeros((0, 1))
    rows = np.asarray(embedder(texts), dtype=np.float64)  # (n, d)
    if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
        raise MismatchError(f"the embedder gave an array of shape {rows.shape} for {len(texts)} texts, or no numbers")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def short_enough_to_embed(embedder: Embedder, texts: Sequence[str]) -> np.ndarray:
    """Whether each text is short enough for the embedder, (n,). One without the method `fits` has no limit."""
    fits = getattr(embedder, "fits", None)
    return np.ones(len(texts), dtype=bool) if fits is None else fits(texts)


class MeanPooling:
    """A sentence encoder in Hugging Face's form, from a local folder or the hub's cache: the mean of the last layer's
    token states. `device`: `auto` is the GPU where there is one; a batch holds at most `batch` texts and `batch_tokens`
    padded tokens.

    Padding is left out of the mean; a text longer than the encoder takes is cut to its limit, as sentence encoders
    do (`describe` says the limit). Weights are read from safetensors only, no code of the folder's is run, and
    nothing is fetched. ThinkbackError where the folder holds no such model.
    """

    def __init__(self, folder: str | Path, batch: int = 64, batch_tokens: int | None = None, device: str = "auto"):
        require_extra("generate", "torch", "transformers", "safetensors")
        import torch
        from transformers import AutoModel, AutoTokenizer

        silence_transformers()
        self.folder = expand_home(folder)
        self.name = self.folder.name
        if not self.folder.is_dir():
            if self.folder.is_absolute() or len(self.folder.parts) > 2:
                raise NotFoundError(f"embedding model `{folder}`: there is no such folder")
            self.name, self.folder = str(folder), find_model(str(folder), None, download=False).folder
        try:
            options = {"local_files_only": True, "trust_remote_code": False}
            self._tokenizer = AutoTokenizer.from_pretrained(str(self.folder), **options)
            self._model = AutoModel.from_pretrained(str(self.folder), use_safetensors=True, **options)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise FormatError(f"embedding model `{folder}` can't be loaded: {reason}") from None
        self._model.to(chosen_device(device, "the embedding model")).eval()
        self._torch, self._batch = torch, batch
        self._batch_tokens = tokens_in_batch(batch_tokens, self._model.device.type)
        places = ModelFiles(self.folder, self.name, None).context_limit()
        self.limit = int(min(self._tokenizer.model_max_length, places or UNSAID))

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The embeddings of texts, (n, d) float32. Batches hold texts of similar length."""
        listed = self._tokenizer(list(texts), truncation=True, max_length=self.limit)["input_ids"]
        rows: dict[int, np.ndarray] = {}
        for group in length_batches([len(ids) for ids in listed], self._batch_tokens):
            for start in range(0, len(group), self._batch):
                places = group[start : start + self._batch]
                rows |= zip(places, self._embed_ids([listed[i] for i in places]), strict=True)
        return np.stack([rows[i] for i in range(len(texts))])

    def fits(self, texts: Sequence[str]) -> np.ndarray:
        """Whether each text is short enough for the encoder, (n,)."""
        lengths = [len(ids) for ids in self._tokenizer(list(texts))["input_ids"]] if texts else []
        return np.array(lengths, dtype=np.int64) <= self.limit

    def describe(self) -> dict[str, object]:
        """The manifest's record: the folder's name, the weights' hash, the limit in tokens."""
        import hashlib

        digest = hashlib.sha256()
        for file in sorted(self.folder.glob("*.safetensors")):
            digest.update(file.read_bytes())
        return {"model": self.name, "sha256": digest.hexdigest(), "pooling": "mean", "max_tokens": self.limit}

    def _embed_ids(self, listed: Sequence[Sequence[int]]) -> np.ndarray:
        """The embeddings of token ids, (n, d). A text without tokens has a row of zeros."""
        there = [place for place, ids in enumerate(listed) if ids]
        rows = np.zeros((len(listed), int(self._model.config.get_text_config().hidden_size)), dtype=np.float32)
        if there:
            fill = self._tokenizer.pad_token_id  # the mask hides it, so any id will do where there is none
            padded = pad_batch(
                [TokenIds(tuple(listed[place])) for place in there], fill or 0, False, self._model.device
            )
            with self._torch.inference_mode():
                given = {"input_ids": padded.ids, "attention_mask": padded.mask}
                states = self._model(**given).last_hidden_state  # (n, tokens, d)
                mask = padded.mask.unsqueeze(-1).to(states.dtype)  # (n, tokens, 1)
                rows[there] = ((states * mask).sum(dim=1) / mask.sum(dim=1)).float().cpu().numpy()
        return rows
