"""Texts as token ids, cut into batches of like length and padded on either side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


TOKENS = {"cuda": 8_192, "cpu": 2_048}
"""Default numbers of padded tokens in a batch: enough to keep a GPU busy, and few enough for the caches of a CPU."""


@dataclass(frozen=True)
class TokenIds:
    """A text as token ids: its prompt, and the text itself. `types`: segment ids of a pair of texts; `counted`: the
    number of tokens of a text that was tokenised anew, None where its tokens were known.
    """

    prompt: tuple[int, ...]
    completion: tuple[int, ...] = ()
    types: tuple[int, ...] | None = None
    counted: int | None = None

    @property
    def all_ids(self) -> tuple[int, ...]:
        return self.prompt + self.completion

    def __len__(self) -> int:
        return len(self.prompt) + len(self.completion)


def tokens_in_batch(tokens: int | None, device: str) -> int:
    """The number of padded tokens in a batch: `tokens`, or the default for a kind of device."""
    return TOKENS.get(device, TOKENS["cpu"]) if tokens is None else tokens


def length_batches(
    lengths: Sequence[int], tokens: int, before: Sequence[int] | None = None, most: int | None = None
) -> Iterator[list[int]]:
    """Yields batches of texts of similar length, as places: at most `tokens` padded tokens, at least one text each.

    With `before`, how many tokens of each come before those of which something large is kept, at most `most` padded
    tokens are those.
    """
    group: list[int] = []
    skipped = 0  # of the group's texts, the fewest tokens of which nothing is kept
    for place in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):  # so the last one is the widest
        prefix = 0 if before is None else before[place]
        wide = (len(group) + 1) * lengths[place] > tokens
        if group and (wide or (most is not None and (len(group) + 1) * (lengths[place] - min(skipped, prefix)) > most)):
            yield group
            group = []
        skipped = min(skipped, prefix) if group else prefix
        group.append(place)
    if group:
        yield group


@dataclass(frozen=True)
class PaddedBatch:
    """A batch as tensors: ids, mask (1 for a token) and segment ids (n, width); where each text begins (n,)."""

    ids: Tensor
    mask: Tensor
    types: Tensor | None
    starts: Tensor
    left: bool


def pad_batch(texts: Sequence[TokenIds], fill: int, left: bool, device: Any) -> PaddedBatch:
    """Puts texts into one batch, padded with `fill` on the left or on the right."""
    import torch

    lengths = torch.tensor([len(text) for text in texts])
    width = int(lengths.max())
    starts = width - lengths if left else torch.zeros_like(lengths)
    place = torch.arange(width)[None, :] - starts[:, None]  # (n, width)
    mask = (place >= 0) & (place < lengths[:, None])

    def padded_tensor(rows: list[tuple[int, ...]], value: int) -> Tensor:
        table = torch.full((len(texts), width), value, dtype=torch.long)
        table[mask] = torch.tensor([i for row in rows for i in row], dtype=torch.long)
        return table.to(device)

    types = None
    if any(text.types is not None for text in texts):
        types = padded_tensor([text.types or (0,) * len(text) for text in texts], 0)
    ids = padded_tensor([text.all_ids for text in texts], fill)
    return PaddedBatch(ids, mask.long().to(device), types, starts.to(device), left)
