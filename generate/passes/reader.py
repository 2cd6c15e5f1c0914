"""A loaded model that reads texts: its limits, its forward passes, and their results."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from generate.engines import weights
from generate.engines.base import EngineError, Prompt, split_in_proportion
from generate.engines.decoding import entropies_and_ranks
from generate.engines.thoughts import split_thoughts
from generate.passes.batching import PaddedBatch, TokenIds, length_batches, pad_batch, tokens_in_batch
from toolkit.settings import Checked, setting

LOGITS = 2**27
"""Most logits in memory at one time, unless a single text has more; large vocabularies have smaller batches."""
SMALL = 2**22
"""The number of weights below which several CPU threads are slower than one."""
LATEST = "logits_to_keep"
"""The argument of causal models for the number of last positions with logits."""


@dataclass(frozen=True, kw_only=True)
class ReadSettings(Checked):
    """How a model reads texts: the longest text and a batch, both in tokens, the device and the number type."""

    context: int | None = setting(None, low=1)
    batch_tokens: int | None = setting(None, low=1, identity=False)
    device: str = setting("auto", choices=weights.DEVICES, identity=False)
    dtype: str = setting("auto", choices=weights.DTYPES)
    load_in_4bit: bool = setting(False)
    padding: str = setting("right", choices=("right", "left"), identity=False)


@dataclass(frozen=True)
class ReadBatch:
    """The result of reading one batch: the places of its texts, the model's output, and each text's share of the
    seconds, by tokens. `seconds`: of the whole batch.
    """

    places: tuple[int, ...]
    padded: PaddedBatch
    out: Any
    seconds: float
    device_s: tuple[float, ...]


@contextlib.contextmanager
def memory_errors(texts: int, tokens: int) -> Iterator[None]:
    """Turns a lack of memory inside the block into an EngineError that names the batch's `texts` and `tokens`."""
    try:
        yield
    except RuntimeError as error:
        if not weights.is_out_of_memory(error):
            raise
        raise EngineError(
            f"out of memory with {texts} texts of up to {tokens} tokens: lower `batch_tokens`, then run the same"
            " command again",
            code="memory",
        ) from None


class Reader:
    """A loaded model that reads texts. `head`: one of generate.engines.weights.HEADS; `context`: its longest text in
    tokens; `left`: whether to pad on the left, never with encoders, whose heads read the first place; `base`: files of
    the model under an adapter.
    """

    def __init__(
        self,
        files: weights.ModelFiles,
        tokens: weights.ModelTokenizer,
        network: Any,
        head: str,
        context: int | None,
        batch_tokens: int | None,
        left: bool,
        base: weights.ModelFiles | None = None,
    ):
        self.files, self.tokens, self.network, self.head, self.base = files, tokens, network, head, base
        self.context = _context_limit(base or files, tokens, context)
        self.batch_tokens = tokens_in_batch(batch_tokens, network.device.type)
        self.busy_s = 0.0
        self.model_pad_id = network.config.pad_token_id
        self._takes = frozenset(inspect.signature(network.forward).parameters)
        self.left = left and not is_bidirectional(network)
        small = sum(parameter.numel() for parameter in network.parameters()) < SMALL
        self.small = small and network.device.type == "cpu"
        self.even = _depends_on_padding(self)

    @property
    def hidden_size(self) -> int:
        return int(self.network.config.get_text_config().hidden_size)

    @property
    def layer_count(self) -> int:
        """The number of layers. `hidden_states` has one entry more, for the embeddings."""
        return int(self.network.config.get_text_config().num_hidden_layers)

    def describe(self) -> dict[str, object]:
        """The manifest's record of the model. It hashes the weights."""
        import torch

        device = self.network.device
        base = {} if self.base is None else {"base": self.base.name, "base_weights_sha256": self.base.weights_sha256()}
        return {
            "model": self.files.name,
            "revision": self.files.revision,
            "weights_sha256": self.files.weights_sha256(),
            **base,
            "versions": weights.package_versions("torch", "transformers", "tokenizers", "safetensors", "peft"),
            "dtype": str(self.network.dtype).removeprefix("torch."),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "context": self.context,
            "batch_tokens": self.batch_tokens,
        }

    def unreadable_reason(self, text: TokenIds) -> str | None:
        """The reason why the model cannot read a text whole; None where it can."""
        if not len(text):
            return "the text has no tokens"
        if self.context is not None and len(text) > self.context:
            return f"the text has {len(text)} tokens and the model takes {self.context}"
        return None

    def read(self, texts: Sequence[TokenIds], **options: Any) -> Iterator[ReadBatch]:
        """Runs the model on texts that fit, those of similar length together. `options` are passed to the model."""
        with self.single_thread():
            yield from self._read_batches(texts, options)

    @contextlib.contextmanager
    def single_thread(self) -> Iterator[None]:
        """Uses one thread inside the block if a small model reads on the processor."""
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1 if self.small else before)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _read_batches(self, texts: Sequence[TokenIds], options: Mapping[str, Any]) -> Iterator[ReadBatch]:
        import torch

        for places in self._batches(texts):
            group = [texts[place] for place in places]
            began = perf_counter()
            with memory_errors(len(group), max(map(len, group))), torch.inference_mode():
                padded = pad_batch(group, self.padding_id(group), self.left, self.network.device)
                out = self.network(
                    **self.forward_arguments(padded), **self._count_logit_columns(padded, group), **options
                )
                if self.network.device.type == "cuda":
                    torch.cuda.synchronize(self.network.device)
            seconds = perf_counter() - began
            self.busy_s += seconds
            yield ReadBatch(
                tuple(places), padded, out, seconds, tuple(split_in_proportion(seconds, [len(text) for text in group]))
            )

    def forward_arguments(self, padded: PaddedBatch) -> dict[str, Any]:
        """The arguments of a forward pass. Positions are given only where padding on the left would shift them and the
        model does not count from the padding itself.
        """
        given: dict[str, Any] = {"input_ids": padded.ids, "attention_mask": padded.mask}
        if padded.types is not None and "token_type_ids" in self._takes:
            given["token_type_ids"] = padded.types
        counts = hasattr(getattr(self.network.base_model, "embeddings", None), "create_position_ids_from_input_ids")
        if padded.left and "position_ids" in self._takes and not counts:
            given["position_ids"] = (padded.mask.cumsum(1) - 1).clamp(min=0)
        if "use_cache" in self._takes:
            given["use_cache"] = False
        return given

    def padding_id(self, texts: Sequence[TokenIds]) -> int:
        """The token id for padding. A decoder classifier finds a text's end by its config's pad token. Where the config
        has none, an id that no text of the batch holds is used, so that each text is read as if it were alone.
        """
        if self.head != "sequence":
            return 0 if self.tokens.tokenizer.pad_token_id is None else int(self.tokens.tokenizer.pad_token_id)
        if self.model_pad_id is not None:
            return int(self.model_pad_id)
        held = {i for text in texts for i in text.all_ids}
        free = next((i for i in range(int(self.network.config.get_text_config().vocab_size)) if i not in held), None)
        if free is None and len(texts) > 1:
            raise EngineError(
                f"model `{self.files.name}`: the tokenizer has no pad token: set `batch_tokens = 1`", code="unsuitable"
            )
        self.network.config.pad_token_id = free
        return free or 0

    def close(self) -> None:
        """Frees the model's memory."""
        import torch

        on_gpu = self.network.device.type == "cuda"
        self.network = None
        if on_gpu:
            torch.cuda.empty_cache()

    def _batches(self, texts: Sequence[TokenIds]) -> Iterator[list[int]]:
        """Yields the batches. A causal model gives at most `LOGITS` at once, of completions alone if it can."""
        lengths = [len(text) for text in texts]
        if self.even:
            return _equal_length_batches(lengths, self.batch_tokens)
        if self.head != "causal":
            return length_batches(lengths, self.batch_tokens)
        before = [_count_unneeded_logits(text) if LATEST in self._takes else 0 for text in texts]
        room = max(1, LOGITS // int(self.network.config.get_text_config().vocab_size))
        return length_batches(lengths, self.batch_tokens, before, room)

    def _count_logit_columns(self, padded: PaddedBatch, group: Sequence[TokenIds]) -> dict[str, int]:
        """How many of a batch's last columns need logits: from the first that predicts a completion's token."""
        if self.head != "causal" or LATEST not in self._takes:
            return {}
        starts = padded.starts.tolist()
        first = min(start + _count_unneeded_logits(text) for start, text in zip(starts, group, strict=True))
        return {LATEST: padded.ids.shape[1] - first}


def _count_unneeded_logits(text: TokenIds) -> int:
    """The number of a text's places whose logits are not needed: its prompt, less the last token."""
    return max(0, len(text.prompt) - 1)


def _equal_length_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yields batches of texts of equal length."""
    for length in sorted(set(lengths)):
        places = [place for place, size in enumerate(lengths) if size == length]
        for group in length_batches([length] * len(places), tokens):
            yield [places[i] for i in group]


def _depends_on_padding(reader: Reader) -> bool:
    """Whether padding changes the model's output, as where convolutions ignore the mask. Such a model reads only texts
    of equal length together.
    """
    import torch

    size = int(reader.network.config.get_text_config().vocab_size)
    short, long = (TokenIds(tuple(i % size for i in ids)) for ids in ((0, 1, 2), (3, 4, 5, 6, 7, 8)))
    readings = []
    with torch.inference_mode():
        for group in ([short], [short, long]):
            padded = pad_batch(group, reader.padding_id(group), reader.left, reader.network.device)
            states = reader.network(**reader.forward_arguments(padded), output_hidden_states=True).hidden_states[-1]
            start = int(padded.starts[0])
            readings.append(states[0, start : start + len(short)].float())
    return bool((readings[0] - readings[1]).abs().max() > 0.05 * readings[0].abs().max())


def is_bidirectional(network: Any) -> bool:
    """Whether the state of a token depends on later tokens, as in an encoder."""
    import torch

    size = int(network.config.get_text_config().vocab_size)
    first = []
    with torch.inference_mode():
        for ids in ([0, 1, 2, 3], [0, 4, 5, 6]):  # one by one: some have no token to pad with
            given = torch.tensor([ids], device=network.device) % size
            first.append(network(input_ids=given, output_hidden_states=True).hidden_states[-1][0, 0].float())
    return not torch.allclose(*first, rtol=1e-2, atol=1e-3)


def _context_limit(files: weights.ModelFiles, tokens: weights.ModelTokenizer, wanted: int | None = None) -> int | None:
    """The longest text of a model in tokens: `wanted`, at most what its config allows; else the limit of config and
    tokenizer; None where neither has one.
    """
    if wanted is not None:
        return files.context_limit(wanted)
    limits = [limit for limit in (files.context_limit(), tokens.tokenizer.model_max_length) if limit and limit < 10**9]
    return min(limits) if limits else None


def open_reader(model: str, head: str, settings: ReadSettings, subject: str) -> Reader:
    """Loads a model as the settings say. `subject` names who needs it, in errors."""
    weights.require_extra("generate", "torch", "transformers", "safetensors")
    files = weights.find_model(model, None, download=False)
    tokens = weights.load_tokenizer(str(files.folder))
    placing = weights.LoadOptions(settings.device, settings.dtype, settings.load_in_4bit)
    network = weights.load_network(files, head, placing, subject)
    return Reader(files, tokens, network, head, settings.context, settings.batch_tokens, settings.padding == "left")


def encode_pair(tokens: weights.ModelTokenizer, first: str, second: str) -> TokenIds:
    """Two texts as the token ids of one reading, a premise and a hypothesis, with their segments."""
    encoding = tokens.tokenizer(first, second)
    types = encoding.get("token_type_ids")
    return TokenIds(tuple(encoding["input_ids"]), types=None if types is None else tuple(types))


def encode_trace(tokens: weights.ModelTokenizer, prompt: Prompt, text: str, end: int | None) -> TokenIds:
    """The token ids of a trace whose sampled tokens are not logged: the prompt as an engine sends it, and the text
    tokenised, with the trace's `end`.
    """
    ids = tuple(tokens.tokenizer(text, add_special_tokens=False)["input_ids"])
    completion = ids if end is None else (*ids, end)
    return TokenIds(tuple(tokens.encode(prompt)) if prompt else (), completion, counted=len(ids))


def sampled_ids(
    tokens: weights.ModelTokenizer, ids: Sequence[int] | None, text: str, ends: Collection[int], stopped: bool
) -> tuple[int, ...] | None:
    """The ids of the tokens that were sampled, where they are of this vocabulary: they decode to the text, apart from
    the end of sequence and thoughts, or where a stop text may have been cut off (`stopped`) to what begins with it.
    None where they do not, or are not known.
    """
    if ids is None or max(ids, default=0) >= len(tokens.tokenizer):
        return None
    decoded = tokens.decode(ids[:-1] if ids and ids[-1] in ends else ids)
    texts = (decoded, split_thoughts(decoded)[1])
    return tuple(ids) if text in texts or (stopped and text and any(one.startswith(text) for one in texts)) else None


def states_at(
    read: ReadBatch, texts: Sequence[TokenIds], layers: Sequence[int], tokens: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The hidden states of a batch, (n, layers, tokens, d) float32, and whether each place exists, (n, tokens).

    `texts`: those of the batch, in its order. layers: as in transformers' `hidden_states`. tokens: places in the
    completion, from its start or, negative, from its end. A place that a text does not have holds zeros.
    """
    import torch

    requested = torch.tensor(tokens)  # (T,)
    before = torch.tensor([len(text.prompt) for text in texts])[:, None]
    lengths = torch.tensor([len(text.completion) for text in texts])[:, None]
    place = torch.where(requested >= 0, requested, lengths + requested)  # (n, T), in the completion
    there = (place >= 0) & (place < lengths)
    column = torch.where(there, read.padded.starts.cpu()[:, None] + before + place, 0).to(read.padded.ids.device)
    rows = torch.arange(len(texts), device=column.device)[:, None]
    with memory_errors(*read.padded.ids.shape), torch.inference_mode():
        states = torch.stack([read.out.hidden_states[layer][rows, column] for layer in layers], dim=1)
        states = states.float() * there.to(states.device)[:, None, :, None]
    return states.cpu().numpy(), there.numpy()


class TokenStatistics(NamedTuple):
    """A model's numbers for the completion tokens of a text: log-probabilities, entropies of its distributions there in
    nats, and the tokens' ranks, 1 for the likeliest; each (tokens,), empty where not asked for.
    """

    logprobs: np.ndarray
    entropies: np.ndarray
    ranks: np.ndarray


def logprobs_of(read: ReadBatch, texts: Sequence[TokenIds], ranked: bool = False) -> list[TokenStatistics]:
    """The log-probabilities of each text's completion tokens, after a prompt. ranked: with entropies and ranks."""
    import torch

    ids, logits = read.padded.ids, read.out.logits  # (n, width), (n, last columns, V)
    left_out = ids.shape[1] - logits.shape[1]
    rows = []
    with memory_errors(*read.padded.ids.shape), torch.inference_mode():
        for row, (text, start) in enumerate(zip(texts, read.padded.starts.tolist(), strict=True)):
            first = start + len(text.prompt) - 1
            last = first + len(text.completion)
            scores = logits[row, first - left_out : last - left_out].float()  # (tokens, V): of the token that follows
            targets = ids[row, first + 1 : last + 1]
            chosen = scores.gather(1, targets[:, None]).squeeze(1)
            more = entropies_and_ranks(scores, targets) if ranked else (chosen[:0], chosen[:0])
            rows.append(TokenStatistics(chosen - scores.logsumexp(dim=1), *more))
        together = [torch.cat(one).double().cpu().numpy() for one in zip(*rows, strict=True)]
    ends = np.cumsum([len(text.completion) for text in texts])[:-1]
    parts = [np.split(one, ends if len(one) else [0] * len(ends)) for one in together]
    return [TokenStatistics(*one) for one in zip(*parts, strict=True)]


def classifier_outputs(read: ReadBatch) -> np.ndarray:
    """The outputs of a classifier, (n, labels) float64."""
    return read.out.logits.double().cpu().numpy()


def label_probabilities(read: ReadBatch) -> np.ndarray:
    """A classifier's probabilities of its labels, (n, labels) float64."""
    from scipy.special import softmax

    return np.asarray(softmax(classifier_outputs(read), axis=1))
