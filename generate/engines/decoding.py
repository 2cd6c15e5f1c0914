"""Decode one batch with a transformers model: a KV cache, and for every sample a random stream of its own.

A sample's stream is `torch.Generator().manual_seed(seed)` on the CPU: one uniform number in float64 per token, whatever
the device, and the token is where that number falls in the cumulative distribution, in the order of token ids. So a
sample depends on its own seed and prompt, not on its neighbours, except for the rounding of the model's own arithmetic,
which differs in the last bits between batch shapes. With the weights in float64 even that is gone once
log-probabilities are kept as float32; in float32 a sample differs a few times in 100,000 tokens, and in bfloat16
or float16 more often.

Every distinct prompt is read once, however many samples it has. Prompts are padded on the left, so that all samples
write at the same place; finished ones leave the batch when they are a quarter of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

LEAVE_AT = 0.25  # share of finished samples at which the batch is made smaller


@dataclass(frozen=True)
class SampleRow:
    """One sample to be made. limit: tokens at most, at least 1; seed: of its own stream; temperature 0 is greedy;
    ranked: entropies and ranks are wanted, too.
    """

    prompt: tuple[int, ...]
    seed: int
    temperature: float
    top_p: float
    limit: int
    stop: tuple[str, ...]
    ranked: bool = False


@dataclass(frozen=True)
class WrittenSample:
    """The result of one sample. logprobs: one per token, natural, before temperature and top-p; entropies, ranks: of
    the same distributions, one per token where they were wanted.

    ended: by an end token (`eos`), a stop string (`stop`) or its limit (`length`); seconds: from the batch's start.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    ended: str
    seconds: float
    entropies: tuple[float, ...] = ()
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class DecodedBatch:
    """A finished batch: its samples in the order of the rows, and the seconds of its two phases."""

    written: tuple[WrittenSample, ...]
    prefill_s: float
    decode_s: float


class NotANumber(ArithmeticError):
    """The model gave NaN."""


def decode_batch(
    model: Any, rows: Sequence[SampleRow], *, ends: frozenset[int], pad: int, text_of: Callable[[Sequence[int]], str]
) -> DecodedBatch:
    """Run `rows` to their ends. ends: token ids that end a sequence; text_of: decodes ids, for stop strings."""
    import torch

    device = model.device
    with torch.inference_mode():
        _wait_for_device(device)
        began = perf_counter()
        cache, logits, mask, place = _read_prompts(model, rows, pad)
        _wait_for_device(device)
        read = perf_counter()
        state = _DecodingState(rows, device, ends, text_of)
        for step in range(state.longest):
            tokens, alive = state.choose_tokens(logits, step, began)
            if not alive.any():
                break
            if int(alive.sum()) <= (1 - LEAVE_AT) * len(alive):
                running = alive.nonzero().squeeze(1)
                cache.reorder_cache(running)  # drops the others
                tokens, mask, place = tokens[running], mask[running], place[running]
                state.keep_samples(running)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            out = model(
                input_ids=tokens[:, None],
                attention_mask=mask,
                position_ids=(place + step)[:, None],
                past_key_values=cache,
                use_cache=True,
            )
            logits = out.logits[:, -1]
        _wait_for_device(device)
        return DecodedBatch(state.written_samples(), read - began, perf_counter() - read)


def _wait_for_device(device: Any) -> None:
    """Wait for the device's queue, so that clocks mean something."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def _read_prompts(model: Any, rows: Sequence[SampleRow], pad: int) -> tuple[Any, Tensor, Tensor, Tensor]:
    """Prefill each distinct prompt once, then one cache row per sample.

    Returns the cache, next-token logits (B, V), the attention mask (B, width) and the place of the next token (B,).
    """
    import torch

    from generate.engines.cache import growing_cache

    distinct = {prompt: index for index, prompt in enumerate(dict.fromkeys(row.prompt for row in rows))}
    width = max(map(len, distinct))
    ids = torch.tensor([[pad] * (width - len(prompt)) + list(prompt) for prompt in distinct], device=model.device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in distinct], device=model.device)
    cache = growing_cache(model.config)
    out = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=(mask.cumsum(1) - 1).clamp(min=0),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    owner = torch.tensor([distinct[row.prompt] for row in rows], device=model.device)
    cache.reorder_cache(owner)
    return cache, out.logits[owner, -1], mask[owner], mask.sum(1)[owner]


class _DecodingState:
    """The state of decoding: uniforms, settings and results of the samples that are still in the batch."""

    def __init__(
        self, rows: Sequence[SampleRow], device: Any, ends: frozenset[int], text_of: Callable[[Sequence[int]], str]
    ) -> None:
        import torch

        self.rows, self.text_of = rows, text_of
        self.longest = max(row.limit for row in rows)
        self.uniforms = torch.stack([_padded_uniforms(row, self.longest) for row in rows]).to(device)
        self.temperature = torch.tensor([row.temperature for row in rows], dtype=torch.float64, device=device)
        self.top_p = torch.tensor([row.top_p for row in rows], dtype=torch.float64, device=device)
        self.limit = torch.tensor([row.limit for row in rows], device=device)
        self.ends = torch.tensor(sorted(ends), dtype=torch.long, device=device)
        self.place = list(range(len(rows)))  # row number of each sample still in the batch
        self.running = torch.ones(len(rows), dtype=torch.bool, device=device)
        self.ids: list[list[int]] = [[] for _ in rows]
        self.ranked = any(row.ranked for row in rows)
        self.logprobs: list[list[float]] = [[] for _ in rows]
        self.entropies: list[list[float]] = [[] for _ in rows]
        self.ranks: list[list[int]] = [[] for _ in rows]
        self.ended = ["length"] * len(rows)
        self.seconds = [0.0] * len(rows)

    def choose_tokens(self, logits: Tensor, step: int, began: float) -> tuple[Tensor, Tensor]:
        """Choose a token for every sample, and record it and the samples that end. Returns the tokens and whether each
        sample goes on, both (A,).
        """
        import torch

        logits = logits.double()
        tokens, chosen = choose_token(logits, self.uniforms[:, step], self.temperature, self.top_p)
        at_end = torch.isin(tokens, self.ends)
        full = self.limit <= step + 1
        columns = [
            tokens,
            chosen,
            at_end,
            full,
            self.running,
            *(entropies_and_ranks(logits, tokens) if self.ranked else ()),
        ]
        table = torch.stack([column.double() for column in columns])
        now = perf_counter() - began
        finished = []
        for slot, (token, logprob, eos, cut, running, *ranked) in enumerate(table.T.tolist()):
            if not running:
                continue
            if logprob != logprob:
                raise NotANumber
            row = self.place[slot]
            self.ids[row].append(int(token))
            self.logprobs[row].append(logprob)
            if ranked and self.rows[row].ranked:
                self.entropies[row].append(ranked[0])
                self.ranks[row].append(int(ranked[1]))
            why = "eos" if eos else "stop" if self._ends_with_stop(row) else "length" if cut else None
            if why:
                self.ended[row], self.seconds[row] = why, perf_counter() - began if why == "stop" else now
                finished.append(slot)
        if finished:
            self.running[torch.tensor(finished, device=self.running.device)] = False
        return tokens, self.running

    def keep_samples(self, slots: Tensor) -> None:
        """Keep only these samples in the batch."""
        self.uniforms, self.temperature, self.top_p = self.uniforms[slots], self.temperature[slots], self.top_p[slots]
        self.limit, self.running = self.limit[slots], self.running[slots]
        self.place = [self.place[slot] for slot in slots.tolist()]

    def written_samples(self) -> tuple[WrittenSample, ...]:
        return tuple(
            WrittenSample(
                tuple(self.ids[row]), tuple(self.logprobs[row]), self.ended[row], self.seconds[row],
                tuple(self.entropies[row]), tuple(self.ranks[row]),
            )
            for row in range(len(self.rows))
        )  # fmt: skip

    def _ends_with_stop(self, row: int) -> bool:
        """Whether the tail holds a stop string: a character takes at most four tokens (one per byte)."""
        stop = self.rows[row].stop
        if not stop:
            return False
        tail = self.text_of(self.ids[row][-4 * max(map(len, stop)) - 4 :])
        return any(text in tail for text in stop)


def _padded_uniforms(row: SampleRow, longest: int) -> Tensor:
    """The sample's uniforms, padded with zeros to the batch's longest limit; greedy samples draw none."""
    import torch

    uniforms = torch.zeros(longest, dtype=torch.float64)
    if row.temperature > 0:
        generator = torch.Generator().manual_seed(row.seed % 2**63)
        uniforms[: row.limit] = torch.rand(row.limit, generator=generator, dtype=torch.float64)
    return uniforms


def choose_token(logits: Tensor, uniforms: Tensor, temperature: Tensor, top_p: Tensor) -> tuple[Tensor, Tensor]:
    """A token per row and its log-probability before temperature and top-p.

    logits (A, V) of any float type; uniforms, temperature and top_p (A,) float64. The row's token is the first whose
    cumulative probability, in the order of token ids, exceeds the uniform; at temperature 0 the most probable one.
    top_p keeps the smallest set of most probable tokens (after temperature) whose probability reaches it.
    """
    import torch

    logits = logits.double()
    greedy = logits.argmax(dim=1)
    logprobs = logits - logits.logsumexp(dim=1, keepdim=True)
    if bool((temperature > 0).any()):
        heat = torch.where(temperature > 0, temperature, torch.ones_like(temperature))[:, None]
        weights = (logits / heat).softmax(dim=1)
        if bool((top_p < 1).any()):
            weights = _nucleus_weights(weights, top_p)
        total = weights.cumsum(dim=1)
        target = uniforms[:, None] * total[:, -1:]
        drawn = torch.searchsorted(total, target, right=True).squeeze(1).clamp(max=logits.shape[1] - 1)
        tokens = torch.where(temperature > 0, drawn, greedy)
    else:
        tokens = greedy
    return tokens, logprobs.gather(1, tokens[:, None]).squeeze(1)


def entropies_and_ranks(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The entropies (A,) of logits (A, V) in nats, and the ranks (A,) of the tokens (A,): 1 is the most likely one, and
    equally likely ones have the same.
    """
    import torch

    entropies = torch.special.entr(logits.softmax(dim=1)).sum(dim=1)
    return entropies, (logits > logits.gather(1, tokens[:, None])).sum(dim=1) + 1


def _nucleus_weights(weights: Tensor, top_p: Tensor) -> Tensor:
    """Weights (A, V) with all but the smallest set that reaches top_p set to 0; rows with top_p 1 stay whole."""
    ordered, order = weights.sort(dim=1, descending=True, stable=True)
    before = ordered.cumsum(dim=1) - ordered
    ordered = ordered.masked_fill((before >= top_p[:, None]) & (top_p[:, None] < 1), 0.0)
    return ordered.new_zeros(ordered.shape).scatter(1, order, ordered)
