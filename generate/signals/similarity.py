"""Similarity of texts by sentence embeddings: to the claim, to the evidence, to the example's other traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from generate.passes.embedding import Embedder, short_enough_to_embed, unit_rows
from toolkit.table_rows import starts_of_equal_runs


def embed_texts(texts: Sequence[str], embedder: Embedder) -> np.ndarray:
    """The embeddings of texts, (n, d), of length one; NaN for a text that is too long for the encoder.

    A text that comes several times is embedded once.
    """
    distinct = list(dict.fromkeys(texts))
    fits = short_enough_to_embed(embedder, distinct)
    rows = unit_rows(embedder, [text for text, fit in zip(distinct, fits, strict=True) if fit])
    whole = np.full((len(distinct), rows.shape[1]), np.nan)
    whole[fits] = rows
    place = {text: i for i, text in enumerate(distinct)}
    return whole[[place[text] for text in texts]]


def encoder_chunks(texts: Sequence[str], embedder: Embedder) -> list[list[str]]:
    """Each text as chunks short enough for the encoder: the text itself, or its halves, cut at a space, and so on."""
    lists = [[text] for text in texts]
    while True:
        flat = list(dict.fromkeys(chunk for listed in lists for chunk in listed))
        fits = dict(zip(flat, short_enough_to_embed(embedder, flat).tolist(), strict=True))
        if all(fits.values()):
            return lists
        lists = [
            [part for chunk in parts for part in ([chunk] if fits[chunk] else _split_in_two(chunk))] for parts in lists
        ]


def _split_in_two(text: str) -> list[str]:
    """The text cut in two, at the space nearest to its middle, else in the middle."""
    middle = len(text) // 2
    places = [place for place in (text.rfind(" ", 1, middle), text.find(" ", middle)) if place > 0]
    cut = min(places, key=lambda place: abs(place - middle), default=middle)
    return [part for part in (text[:cut].strip(), text[cut:].strip()) if part]


def claim_similarity(claims: np.ndarray, justifications: np.ndarray) -> np.ndarray:
    """The cosine between the embeddings of a claim and of its justification.

    claims, justifications: (n, d) unit rows. Range [-1, 1]. Source: the thesis on efficient fact-checking (TU Delft,
    2026), section 4.6.5.
    """
    return np.einsum("nd,nd->n", claims, justifications)


def evidence_similarity(passages: np.ndarray, counts: np.ndarray, justifications: np.ndarray) -> np.ndarray:
    """The highest cosine between a justification's embedding and that of one of its passages.

    passages: (sum of counts, d) unit rows, those of one trace side by side; counts: (n,); justifications: (n, d).
    Range [-1, 1]; NaN without passages or an embedding. Source: as `claim_similarity`; that the nearest passage counts
    is ours, since the passages together are longer than encoders take; a passage that is too long itself is cut in two.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    cosines = np.einsum("nd,nd->n", passages, justifications[owner]) if len(owner) else np.zeros(0)
    best = np.full(len(counts), -np.inf)
    known = ~np.isnan(cosines)  # a text that the encoder does not take whole has none
    np.maximum.at(best, owner[known], cosines[known])
    return np.where(np.isfinite(best), best, np.nan)


def peer_similarity(traces: np.ndarray, groups: np.ndarray, earlier: bool) -> np.ndarray:
    """The mean cosine between a trace's embedding and its peers': the example's other traces in the pool. With
    `earlier` these are only traces of lower sample index, which a rule that stops early may know.

    traces: (n, d) unit rows, those of a group side by side in order of sample index; groups: (n,) ascending integers.
    Range [-1, 1]; 1 without peers, for a trace is like itself. Source: ours; the agreement of samples in meaning is
    that of semantic entropy (Kuhn et al., 2023).
    """
    known = ~np.isnan(traces).any(axis=1)
    if not known.all():  # a text that the encoder does not take whole has no similarity, and is nobody's peer
        similarity = np.full(len(traces), np.nan)
        similarity[known] = peer_similarity(traces[known], groups[known], earlier)
        return similarity
    if not len(traces):
        return np.zeros(0)
    start = starts_of_equal_runs(groups)  # (G,)
    size = np.diff(np.append(start, len(groups)))
    if earlier:
        running = np.cumsum(traces, axis=0) - traces  # of all rows before
        summed = running - np.repeat(running[start], size, axis=0)
        peers = np.arange(len(groups)) - np.repeat(start, size)
    else:
        summed = np.repeat(np.add.reduceat(traces, start, axis=0), size, axis=0) - traces
        peers = np.repeat(size, size) - 1
    cosines = np.einsum("nd,nd->n", summed, traces)
    return np.where(peers > 0, cosines / np.maximum(peers, 1), 1.0)
