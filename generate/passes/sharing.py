"""Texts that answer one prompt: it is read once, and each text goes on from there.

Sixteen votes on one question stand behind the same prompt, often longer than they are. What a causal model makes of the
prompt, its keys and values, does not depend on what follows, so it is kept for all of them; the states of the texts'
own tokens are the same as of whole passes, within float tolerance. Prompts of one length are read together, and texts
are padded on the right, where nothing that a causal model says depends on it, so no mask is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from generate.engines.base import split_in_proportion
from generate.passes.batching import TokenIds, length_batches, pad_batch
from generate.passes.reader import ReadBatch, Reader, is_bidirectional, memory_errors

if TYPE_CHECKING:
    from torch import Tensor

FEWEST = 2
"""The least mean number of texts per prompt for which sharing saves time."""


def read_completions(
    reader: Reader, texts: Sequence[TokenIds], keeps: bool
) -> Iterator[tuple[ReadBatch, list[TokenIds]]]:
    """Yields passes with hidden states over texts that fit, each with its texts: without their prompts where these are
    shared. keeps: the result of `can_share_prompts` for the model.
    """
    prompts = {text.prompt for text in texts}
    if not keeps or () in prompts or len(texts) < FEWEST * len(prompts):
        for read in reader.read(texts, output_hidden_states=True):
            yield read, [texts[place] for place in read.places]
        return
    with reader.single_thread():
        for bucket in _equal_prompt_batches(texts, reader.batch_tokens):
            yield from _read_shared_prompts(reader, texts, bucket)


def _equal_prompt_batches(texts: Sequence[TokenIds], tokens: int) -> Iterator[list[int]]:
    """Yields places of texts with prompts of one length, at most `tokens` tokens of different prompts together."""
    of_prompt: dict[tuple[int, ...], list[int]] = {}
    for place, text in enumerate(texts):
        of_prompt.setdefault(text.prompt, []).append(place)
    bucket: list[int] = []
    held = length = 0
    for prompt in sorted(of_prompt, key=len):  # stable: in the order in which they come
        if bucket and (len(prompt) != length or held + length > tokens):
            yield bucket
            bucket, held = [], 0
        length = len(prompt)
        held += length
        bucket += of_prompt[prompt]
    if bucket:
        yield bucket


def _read_shared_prompts(
    reader: Reader, texts: Sequence[TokenIds], bucket: Sequence[int]
) -> Iterator[tuple[ReadBatch, list[TokenIds]]]:
    import torch

    network = reader.network
    rows = {prompt: row for row, prompt in enumerate(dict.fromkeys(texts[place].prompt for place in bucket))}
    began = perf_counter()
    with memory_errors(len(rows), len(texts[bucket[0]].prompt)), torch.inference_mode():
        ids = torch.tensor(list(rows), device=network.device)  # (prompts, length)
        layers = [(layer.keys, layer.values) for layer in network(input_ids=ids, use_cache=True).past_key_values.layers]
    reader.busy_s += perf_counter() - began
    for group in length_batches([len(texts[place]) for place in bucket], reader.batch_tokens):
        places = [bucket[i] for i in group]
        completions = [TokenIds((), texts[place].completion) for place in places]
        of = torch.tensor([rows[texts[place].prompt] for place in places], device=network.device)
        began = perf_counter()
        with memory_errors(len(completions), max(map(len, completions))), torch.inference_mode():
            padded = pad_batch(completions, reader.padding_id(completions), False, network.device)
            given = {"input_ids": padded.ids, "past_key_values": _prompt_cache(layers, of), "use_cache": True}
            out = network(**given, output_hidden_states=True)
            if network.device.type == "cuda":
                torch.cuda.synchronize(network.device)
        seconds = perf_counter() - began
        reader.busy_s += seconds
        lengths = [len(text) for text in completions]
        yield ReadBatch(tuple(places), padded, out, seconds, tuple(split_in_proportion(seconds, lengths))), completions


def _prompt_cache(layers: Sequence[tuple[Tensor, Tensor]], rows: Tensor) -> Any:
    """The keys and values of some prompts, as a cache that may grow."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys.index_select(0, rows), values.index_select(0, rows), number)
    return cache


def can_share_prompts(reader: Reader) -> bool:
    """Whether the model is causal and caches plain keys and values of all tokens."""
    import torch
    from transformers.cache_utils import DynamicCache, DynamicLayer

    if is_bidirectional(reader.network):
        return False
    try:
        with torch.inference_mode():
            ids = torch.zeros((1, 2), dtype=torch.long, device=reader.network.device)
            cache = getattr(reader.network(input_ids=ids, use_cache=True), "past_key_values", None)
    except TypeError:  # it knows no such option
        return False
    return isinstance(cache, DynamicCache) and all(type(layer) is DynamicLayer for layer in cache.layers)
