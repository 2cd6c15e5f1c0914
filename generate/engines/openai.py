"""Any OpenAI-compatible server: Ollama, vLLM, llama.cpp, `transformers serve`, hosted ones.

A text prompt goes to `BASE_URL/completions`, messages to `BASE_URL/chat/completions`. At most `concurrency` requests
are on their way, and at most as many calls begun and not yet taken: that many a run that is killed can lose. The
requests themselves are those of exchange.py.

What is asked again, with exponential backoff and jitter: 408, 409, 425, 429, 5xx, silence for `timeout_s`, a dropped
connection, broken JSON, half an answer. `Retry-After` holds back all requests until then; a longer wait than
`longest_wait_s` is not waited for. When `retries` are spent, the call fails and a later run asks again. What stops the
run: a reply that says that the account's quota is spent, `stop_after` failed calls in a row, and for a pool of which no
call was answered before, 401, 403, 404 and a 400 about the limit of the completion. Once one was answered, 401, 403 and
404 fail their call until a later run. 400, 413 and 422 are of the request itself.

The key is read from the environment variable that `key_variable` names, when requests are sent, and is nowhere else:
not on the engine, not in its description, and struck out of whatever a server says.

Log-probabilities are the server's: vLLM and llama.cpp give those before temperature; hosted ones do not say.
Seconds on the device are not known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

from generate.engines import replies
from generate.engines.base import Call, CallQueue, EngineError, EngineOptions, Outcome
from generate.engines.exchange import HttpExchange
from generate.engines.weights import load_tokenizer, package_versions, require_extra
from toolkit.errors import argument
from toolkit.log.contract.manifest import PER_REQUEST
from toolkit.settings import setting

SECRET_WORDS = re.compile(r"api.?key|authorization|secret|password|access.?token", re.IGNORECASE)

KEYS_OF_HOSTS: Mapping[str, tuple[str, ...]] = {
    "api.anthropic.com": ("ANTHROPIC_API_KEY",),
    "api.cerebras.ai": ("CEREBRAS_API_KEY",),
    "api.deepinfra.com": ("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"),
    "api.deepseek.com": ("DEEPSEEK_API_KEY",),
    "api.fireworks.ai": ("FIREWORKS_API_KEY",),
    "api.groq.com": ("GROQ_API_KEY",),
    "api.mistral.ai": ("MISTRAL_API_KEY",),
    "api.openai.com": ("OPENAI_API_KEY",),
    "api.together.ai": ("TOGETHER_API_KEY",),
    "api.together.xyz": ("TOGETHER_API_KEY",),
    "api.x.ai": ("XAI_API_KEY",),
    "dashscope-intl.aliyuncs.com": ("DASHSCOPE_API_KEY",),
    "dashscope.aliyuncs.com": ("DASHSCOPE_API_KEY",),
    "generativelanguage.googleapis.com": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "integrate.api.nvidia.com": ("NVIDIA_API_KEY",),
    "openrouter.ai": ("OPENROUTER_API_KEY",),
    "router.huggingface.co": ("HF_TOKEN",),
}
"""The key variables of each host, over HTTPS: a recipe may name them without the user's permission."""

CALL_MEMBERS = frozenset({
    "model", "prompt", "messages", "n", "seed", "temperature", "top_p", "stop", "stream", "logprobs", "max_tokens",
    "max_completion_tokens",
})  # fmt: skip


EACH_SAMPLE = "sample"


@dataclass(frozen=True)
class _OpenAISettings(EngineOptions):
    """Settings of the engine `openai`.

    base_url: up to and including `/v1`. key_variable: the environment variable that holds the key; None: no key.
    concurrency: requests at once. timeout_s: for one attempt, from sending to the last byte.
    retries: further attempts after the first. backoff_s: before the second, doubled each time up to longest_wait_s;
    each wait is between half of that and all of it, by `seed`.
    samples_per_request: samples of equal temperature asked for in one request (`n`). Above 1 a request carries the seed
    of its first sample only, so a sample then depends on its neighbours.
    max_tokens_name: `max_completion_tokens` where a server wants that name. send_seed: whether seeds are sent.
    tokenizer: folder or hub name of the model's tokenizer, for counts that the server does not give.
    prompt_billed: whether the samples of a request are billed a prompt each (`sample`) or one together (`request`).
    currency: of the costs that the server tells. extra: further members of every request.
    """

    base_url: str = setting(identity=False)
    model: str = setting()
    key_variable: str | None = setting(None, identity=False)
    concurrency: int = setting(8, low=1, identity=False)
    timeout_s: float = setting(600.0, above=0, identity=False)
    connect_timeout_s: float = setting(10.0, above=0, identity=False)
    retries: int = setting(5, low=0, identity=False)
    backoff_s: float = setting(1.0, low=0, identity=False)
    longest_wait_s: float = setting(120.0, low=0, identity=False)
    seed: int = setting(0, identity=False)
    stop_after: int = setting(20, low=1, identity=False)
    samples_per_request: int = setting(1, low=1)
    max_tokens_name: str = setting("max_tokens")
    send_seed: bool = setting(True)
    tokenizer: str | None = setting(None)
    prompt_billed: str = setting(EACH_SAMPLE, choices=(EACH_SAMPLE, PER_REQUEST))
    currency: str = setting("USD")
    extra: Mapping[str, Any] = setting({})

    paths = ("tokenizer",)

    def __post_init__(self) -> None:
        super().__post_init__()
        url = urlsplit(self.base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise EngineError("`base_url` must be like `http://127.0.0.1:8000/v1`", code="invalid")
        if url.username or url.password or url.query:
            raise EngineError("`base_url` must hold no key; name a variable with `key_variable`", code="invalid")
        if self.key_variable is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key_variable):
            raise EngineError("`key_variable` must be the name of a variable, and not the key itself", code="invalid")
        self.check_extra(self.extra, "`extra`")

    @property
    def slots(self) -> int:
        return self.concurrency

    @property
    def prompt_billed_once(self) -> bool:
        return self.prompt_billed == PER_REQUEST

    @property
    def cost_currency(self) -> str:
        return self.currency

    @property
    def seeds_are_shared(self) -> bool:
        """Whether a request may have several samples, and so the seed of the first alone."""
        return self.samples_per_request > 1

    def samples_at_once(self, samples: int) -> int:
        return self.samples_per_request

    def split_into_requests(self, temperatures: Sequence[float]) -> list[list[int]]:
        """Samples of equal temperature, at most `samples_per_request` in each."""
        most, runs = self.samples_per_request, groupby(range(len(temperatures)), key=temperatures.__getitem__)
        alike = [list(run) for _, run in runs]
        return [run[start : start + most] for run in alike for start in range(0, len(run), most)]

    def server_and_key_text(self) -> str:
        key = "without a key" if self.key_variable is None else f"with the key in {self.key_variable}"
        return f"{self.base_url}, {key}"

    def check_api_key_access(self, allowed: Collection[str]) -> None:
        """Free are the variables that belong to the host, and hosts that are this machine."""
        url, name = urlsplit(self.base_url), self.key_variable
        host = (url.hostname or "").rstrip(".")
        paired = KEYS_OF_HOSTS.get(host, ()) if url.scheme == "https" else ()
        if name is not None and name not in (*paired, *allowed) and not _is_local(host):
            raise EngineError(
                f"engine `openai`: the key in `{name}` would go to `{url.scheme}://{url.netloc}`, to which it is not"
                f" known to belong: if you trust recipe and server, allow it with {argument('allow_keys')} {name}",
                code="key",
            )

    def check_extra(self, extra: Mapping[str, Any], place: str) -> None:
        """EngineError where further members of a request are among those that a call sets, or may hold a key."""
        for name in extra:
            if name in CALL_MEMBERS:
                raise EngineError(f"{place} may not hold `{name}`, which the call itself sets", code="conflict")
            if SECRET_WORDS.search(name):
                raise EngineError(f"{place} may not hold `{name}`; use `key_variable`", code="conflict")


def _is_local(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return False


def _api_key(settings: _OpenAISettings) -> str | None:
    """The key for a server's requests, None where none is wanted. EngineError where the variable holds none."""
    if settings.key_variable is None:
        return None
    key = os.environ.get(settings.key_variable, "").strip()
    if not key:
        raise EngineError(
            f"engine `openai`: the environment variable `{settings.key_variable}` holds no key; set it", code="key"
        )
    if not key.isascii() or not key.isprintable():
        raise EngineError(
            f"engine `openai`: the key in `{settings.key_variable}` has characters no key has", code="key"
        )
    return key


class OpenAIEngine(CallQueue):
    """A server behind the interface of `Engine`."""

    name = "openai"
    options = _OpenAISettings

    @classmethod
    def opened(cls, settings: _OpenAISettings) -> OpenAIEngine:
        """The engine; the key must be there, the server is first asked when a call is submitted."""
        require_extra("generate", "aiohttp")
        engine = cls(settings, None if settings.tokenizer is None else load_tokenizer(settings.tokenizer))
        _api_key(settings)
        return engine

    def __init__(self, settings: _OpenAISettings, counter: replies.TokenCounter | None) -> None:
        self.settings, self.model = settings, settings.model
        self.counter = counter
        self._exchange: HttpExchange | None = None
        self._local = _is_local(urlsplit(settings.base_url).hostname or "")
        self._reported: set[str] = set()  # the models that answered, as the server names them
        self._versions: set[str] = set()  # its `system_fingerprint`s

    def describe(self) -> dict[str, object]:
        """The manifest's record, with the server's names of itself so far."""
        chosen = self.settings
        return {
            "engine": self.name,
            "model": self.model,
            "revision": None,
            "weights_sha256": None,
            "base_url": chosen.base_url,
            "reported_models": sorted(self._reported),
            "system_fingerprints": sorted(self._versions),
            "versions": package_versions("aiohttp"),
            "samples_per_request": chosen.samples_per_request,
            "send_seed": chosen.send_seed,
            "tokenizer": chosen.tokenizer,
            "extra": dict(chosen.extra),
            "logprobs_of": "as the server gives them",
        }

    def submit(self, call: Call) -> None:
        if self._exchange is None:
            self._exchange = HttpExchange(self, _api_key(self.settings), proxies=not self._local)
        self._exchange.submit(call)

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        if self._exchange is not None:
            try:
                yield from self._exchange.completed()
            except EngineError:
                self.close()
                raise

    def can_complete(self) -> bool:
        return self._exchange is not None and not self._exchange.answers.empty()

    def cancel(self, call: Call) -> None:
        if self._exchange is not None:
            self._exchange.cancel(call)

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        """Each call as its last request is answered. Requests are sent only as their answers are taken."""
        yield from super().run(calls)
        self.close()

    def close(self) -> None:
        """Drop what is on its way, and the connections."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()

    def body(self, call: Call, samples: Sequence[int]) -> tuple[str, dict[str, Any]]:
        """Path and members of the request for these samples of a call."""
        chosen, first = self.settings, samples[0]
        body: dict[str, Any] = {
            **chosen.extra,
            **call.extra,
            "model": chosen.model,
            chosen.max_tokens_name: call.max_tokens,
            "temperature": call.temperatures[first],
        }
        if call.top_p < 1:
            body["top_p"] = call.top_p
        if call.stop:
            body["stop"] = list(call.stop)
        if len(samples) > 1:
            body["n"] = len(samples)
        if chosen.send_seed:
            body["seed"] = call.seeds[first] % 2**31  # what every server takes
        if isinstance(call.prompt, str):
            return "/completions", {**body, "prompt": call.prompt} | ({"logprobs": 1} if call.logprobs else {})
        messages = [{"role": message.role, "content": message.content} for message in call.prompt]
        return "/chat/completions", {**body, "messages": messages} | ({"logprobs": True} if call.logprobs else {})

    def note_server_names(self, payload: Mapping[str, Any]) -> None:
        """Record the server's names of itself in an answer."""
        for key, seen in (("model", self._reported), ("system_fingerprint", self._versions)):
            if isinstance(payload.get(key), str):
                seen.add(payload[key])
