"""A cache of keys and values that grows in place.

transformers' own layer of a cache copies everything it holds at each token, which is most of the time of a small model
with many samples (59 % of it for one million parameters and 512 samples on a CPU). Here a layer keeps room for further
tokens and writes into it; what the model reads are views, the same numbers in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers.cache_utils import DynamicCache, DynamicLayer

if TYPE_CHECKING:
    from torch import Tensor

ROOM = 64
"""Tokens for which a layer has room when it has had to grow."""


def growing_cache(config: Any) -> Any:
    """A cache for a model of this config; layers of other kinds, such as sliding windows, are transformers' own."""
    cache = DynamicCache(config=config)
    cache.layers = [_GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


class _GrowingLayer(DynamicLayer):
    """Keys and values (samples, heads, tokens, dimensions) as views of buffers with room behind them."""

    keys: Tensor
    values: Tensor
    _buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the states of new tokens behind those that are there; returns all of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        keys, values = self._buffers or (None, None)
        keys, self.keys = _append_states(keys, self.keys, key_states)
        values, self.values = _append_states(values, self.values, value_states)
        self._buffers = (keys, values)
        return self.keys, self.values


def _append_states(buffer: Tensor | None, held: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """The buffer with `new` behind `held`, and the view of both. A buffer that `held` no longer lies in is left."""
    length = held.shape[-2] if held.numel() else 0
    whole = length + new.shape[-2]
    if buffer is None or buffer.data_ptr() != held.data_ptr() or buffer.shape[-2] < whole:
        buffer = new.new_empty(*new.shape[:-2], whole + ROOM, new.shape[-1])
        if length:
            buffer[..., :length, :] = held
    buffer[..., length:whole, :] = new
    return buffer, buffer[..., :whole, :]
