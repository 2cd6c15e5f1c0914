"""What is taken from a forward pass: hidden states at places, log-probabilities of the texts' tokens, scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from generate.passes.batching import Ids
from generate.passes.reader import Pass, in_memory


def states_at(
    read: Pass, texts: Sequence[Ids], layers: Sequence[int], tokens: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Hidden states of a batch: (n, layers, tokens, d) float32, and (n, tokens), which of the places there are.

    `texts`: those of the batch, in its order. layers: as in transformers' `hidden_states`. tokens: places in the
    completion, from its start or, negative, from its end. A place that a text does not have holds zeros.
    """
    import torch

    asked = torch.tensor(tokens)  # (T,)
    before = torch.tensor([len(text.prompt) for text in texts])[:, None]
    own = torch.tensor([len(text.completion) for text in texts])[:, None]
    place = torch.where(asked >= 0, asked, own + asked)  # (n, T), in the completion
    there = (place >= 0) & (place < own)
    column = torch.where(there, read.padded.starts.cpu()[:, None] + before + place, 0).to(read.padded.ids.device)
    rows = torch.arange(len(texts), device=column.device)[:, None]
    with in_memory(*read.padded.ids.shape), torch.inference_mode():
        taken = torch.stack([read.out.hidden_states[layer][rows, column] for layer in layers], dim=1)
        taken = taken.float() * there.to(taken.device)[:, None, :, None]
    return taken.cpu().numpy(), there.numpy()


def logprobs_of(read: Pass, texts: Sequence[Ids]) -> list[np.ndarray]:
    """The natural log-probabilities of each text's completion tokens, in its order; its prompt must have a token."""
    import torch

    ids, logits = read.padded.ids, read.out.logits  # (n, width), (n, last columns, V)
    left_out = ids.shape[1] - logits.shape[1]
    found = []
    with in_memory(*read.padded.ids.shape), torch.inference_mode():
        for row, (text, start) in enumerate(zip(texts, read.padded.starts.tolist(), strict=True)):
            first = start + len(text.prompt) - 1
            last = first + len(text.completion)
            said = logits[row, first - left_out : last - left_out].float()  # (tokens, V): of the token that follows
            chosen = said.gather(1, ids[row, first + 1 : last + 1, None]).squeeze(1)
            found.append(chosen - said.logsumexp(dim=1))
        together = torch.cat(found).double().cpu().numpy()
    return np.split(together, np.cumsum([len(text.completion) for text in texts])[:-1])


def outputs_of(read: Pass) -> np.ndarray:
    """A classifier's outputs, (n, labels) float64."""
    return read.out.logits.double().cpu().numpy()


def probabilities_of(read: Pass) -> np.ndarray:
    """A classifier's outputs as probabilities of its labels, (n, labels) float64."""
    outputs = outputs_of(read)
    weights = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
