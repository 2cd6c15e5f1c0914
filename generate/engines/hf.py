"""transformers on this machine's CPU or GPU: batched by length, seeds per sample, exact counts and seconds.

The samples that are due are sorted by limit and prompt length and cut into batches of at most `batch_size` samples and
`batch_tokens` places (samples × longest prompt and limit, which bounds the cache); the largest is decoded, and what was
asked meanwhile is sorted among the others. A batch's prefill seconds are shared
by prompt tokens, its decoding seconds by completion tokens, so that `device_s` adds up to `busy_s`. `latency_s` runs
from the start of the sample's batch to the sample's own end.

Of the model's generation settings only the end tokens are used: the call says everything else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from generate.engines import base, weights
from generate.engines.decoding import DecodedBatch, NotANumber, SampleRow, WrittenSample, decode_batch
from generate.engines.thoughts import split_thoughts
from toolkit.settings import setting


@dataclass(frozen=True)
class _TransformersSettings(base.EngineOptions):
    """Settings of the engine `transformers`.

    model: a folder, or a hub's name of a model fetched before (`download = true` fetches it); revision: a hub version.
    device: `auto` is the GPU where there is one. dtype: `auto` is float32 on the CPU, else the weights' own.
    batch_size: samples in a batch. batch_tokens: samples × (longest prompt + limit) in a batch, at most.
    context: the longest text in tokens; None: as the model's config says.
    chat_template: a file instead of the model's own template; template_options: its variables.
    """

    model: str = setting()
    revision: str | None = setting(None)
    download: bool = setting(False, identity=False)
    device: str = setting("auto", choices=weights.DEVICES)
    dtype: str = setting("auto", choices=weights.DTYPES)
    batch_size: int = setting(64, low=1, identity=False)
    batch_tokens: int = setting(262_144, low=1, identity=False)
    context: int | None = setting(None, low=1)
    chat_template: str | None = setting(None)
    template_options: Mapping[str, Any] = setting({})

    paths = ("chat_template",)

    @property
    def slots(self) -> int:
        return self.batch_size


@dataclass(frozen=True)
class _SampleToDecode:
    """One sample of one call: where it belongs and how it is decoded."""

    key: str
    index: int
    row: SampleRow

    @property
    def size(self) -> int:
        return len(self.row.prompt) + self.row.limit


@dataclass(frozen=True)
class _CallSamples:
    """A call with those of its samples that are decoded, by their place."""

    call: base.Call
    done: dict[int, base.Completion]


class TransformersEngine(base.CallQueue):
    """A loaded model behind the interface of `Engine`. busy_s: seconds the model has computed so far."""

    name = "transformers"
    options = _TransformersSettings

    @classmethod
    def opened(cls, settings: _TransformersSettings) -> TransformersEngine:
        """The engine with the model loaded. Raises EngineError for wrong files or a missing package."""
        weights.require_extra("generate", "torch", "transformers", "safetensors")
        files = weights.find_model(settings.model, settings.revision, download=settings.download, hint=weights.FETCH)
        template, options = settings.chat_template, settings.template_options
        tokens = weights.load_tokenizer(str(files.folder), chat_template=template, template_options=options)
        placing = weights.LoadOptions(settings.device, settings.dtype)
        network = weights.load_network(files, "causal", placing, "engine `transformers`")
        return cls(settings, files, tokens, network)

    def __init__(
        self, settings: _TransformersSettings, files: weights.ModelFiles, tokens: weights.ModelTokenizer, model: Any
    ) -> None:
        self.settings, self.model = settings, files.name
        self.busy_s = 0.0
        self._files, self._tokens, self._network = files, tokens, model
        self.context = files.context_limit(settings.context)
        self._due: list[_SampleToDecode] = []
        self._calls: dict[str, _CallSamples] = {}
        self._unfit: list[tuple[base.Call, base.CallFailure]] = []
        self._ends = frozenset(end for end in {tokens.end_token} | files.end_tokens() if end is not None)

    def describe(self) -> dict[str, object]:
        """The manifest's record; it hashes the weights."""
        import torch

        device = self._network.device
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
        return {
            "engine": self.name,
            "model": self.model,
            "revision": self._files.revision,
            "weights_sha256": self._files.weights_sha256(),
            "versions": weights.package_versions("torch", "transformers", "tokenizers", "safetensors"),
            "dtype": str(self._network.dtype).removeprefix("torch."),
            "device": gpu or device.type,
            "context": self.context,
            "batch_size": self.settings.batch_size,
            "batch_tokens": self.settings.batch_tokens,
            "logprobs_of": "the model's distribution before temperature and top-p",
        }

    def submit(self, call: base.Call) -> None:
        outcome = self._samples(call)
        if isinstance(outcome, base.CallFailure):
            self._unfit.append((call, outcome))
        else:
            self._calls[call.key] = _CallSamples(call, {})
            self._due += outcome

    def cancel(self, call: base.Call) -> None:
        if self._calls.pop(call.key, None) is not None:
            self._due = [sample for sample in self._due if sample.key != call.key]
        self._unfit = [pair for pair in self._unfit if pair[0].key != call.key]

    def completed(self) -> Iterator[tuple[base.Call, base.Outcome]]:
        """Calls that cannot be made come first. Else a batch is decoded: the largest of those that the samples that are
        due make, sorted by length.
        """
        while self._unfit or self._due:
            if self._unfit:
                unfit, self._unfit = self._unfit, []
                yield from unfit
                return
            group = max(_batches(self._due, self.settings.batch_size, self.settings.batch_tokens), key=len)
            decoded = {id(sample) for sample in group}
            self._due = [sample for sample in self._due if id(sample) not in decoded]
            done = [self._calls.pop(key) for key in self._decode_calls(group)]
            yield from ((one.call, tuple(one.done[i] for i in range(len(one.call.seeds)))) for one in done)
            if done:
                return

    def _decode_calls(self, group: Sequence[_SampleToDecode]) -> list[str]:
        """Decode a batch; returns the keys of the calls that are then done."""
        started_at, keys = time.time(), []
        batch = self._decode(group)
        reading = base.split_in_proportion(batch.prefill_s, [len(sample.row.prompt) for sample in group])
        writing = base.split_in_proportion(batch.decode_s, [len(written.ids) for written in batch.written])
        for sample, written, r, w in zip(group, batch.written, reading, writing, strict=True):
            waiting = self._calls[sample.key]
            one = self._completion(waiting.call, sample.row, written, r + w)
            waiting.done[sample.index] = replace(one, started_at=started_at)
            if len(waiting.done) == len(waiting.call.seeds):
                keys.append(sample.key)
        return keys

    def close(self) -> None:
        """Free the model's memory."""
        import torch

        on_gpu = self._network.device.type == "cuda"
        self._network = None
        if on_gpu:
            torch.cuda.empty_cache()

    def _samples(self, call: base.Call) -> list[_SampleToDecode] | base.CallFailure:
        prompt = tuple(self._tokens.encode(call.prompt))
        if not prompt:
            return base.CallFailure("the prompt has no tokens", retryable=False, cause=base.EMPTY)
        limit = call.max_tokens
        if self.context is not None:
            if len(prompt) >= self.context:
                return base.too_long_failure(len(prompt), self.context)
            limit = min(limit, self.context - len(prompt))
        return [
            _SampleToDecode(
                call.key, index, SampleRow(prompt, seed, temperature, call.top_p, limit, call.stop, call.logprobs > 0)
            )
            for index, (seed, temperature) in enumerate(zip(call.seeds, call.temperatures, strict=True))
        ]

    def _decode(self, group: Sequence[_SampleToDecode]) -> DecodedBatch:
        rows, pad = [sample.row for sample in group], self._tokens.tokenizer.pad_token_id or 0
        try:
            batch = decode_batch(self._network, rows, ends=self._ends, pad=pad, text_of=self._tokens.decode)
        except RuntimeError as error:
            if not weights.is_out_of_memory(error):
                raise
            places = len(group) * max(sample.size for sample in group)
            raise base.EngineError(
                f"out of memory with {len(group)} samples of up to {places // len(group)} tokens: "
                "lower `batch_size` or `batch_tokens` of the engine, then run the same command again",
                code="memory",
            ) from None
        except NotANumber:
            raise base.EngineError(
                f"model `{self.model}` gave NaN: choose another `dtype` or other weights", code="not-finite"
            ) from None
        self.busy_s += batch.prefill_s + batch.decode_s
        return batch

    def _completion(self, call: base.Call, row: SampleRow, written: WrittenSample, device_s: float) -> base.Completion:
        text = self._tokens.decode(written.ids[:-1] if written.ended == "eos" else written.ids)
        if written.ended == "stop":
            text = base.cut_at_stop(text, row.stop)
        thoughts, text = split_thoughts(text, self._tokens.ends_in_thoughts(row.prompt))
        return base.Completion(
            text=text,
            reasoning=thoughts,
            token_ids=written.ids,
            token_logprobs=written.logprobs[-call.logprobs :] if call.logprobs else None,
            token_entropies=written.entropies[-call.logprobs :] if call.logprobs else None,
            token_ranks=written.ranks[-call.logprobs :] if call.logprobs else None,
            sum_logprob=sum(written.logprobs),
            prompt_tokens=len(row.prompt),
            completion_tokens=len(written.ids),
            tokens_estimated=False,
            finish_reason="length" if written.ended == "length" else "stop",
            latency_s=written.seconds,
            device_s=device_s,
            max_tokens=row.limit if row.limit < call.max_tokens else None,
        )


def _batches(samples: Sequence[_SampleToDecode], size: int, tokens: int) -> Iterator[list[_SampleToDecode]]:
    """Samples of like length together, in the order in which they were asked; at least one sample in a batch."""
    group: list[_SampleToDecode] = []
    widest = 0
    for sample in sorted(samples, key=lambda s: (s.row.limit, len(s.row.prompt))):
        width = max(widest, sample.size)
        if group and (len(group) == size or (len(group) + 1) * width > tokens):
            yield group
            group, width = [], sample.size
        group.append(sample)
        widest = width
    if group:
        yield group
