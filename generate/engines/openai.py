"""Any OpenAI-compatible server: Ollama, vLLM, llama.cpp, `transformers serve`, hosted ones.

A text prompt goes to `BASE_URL/completions`, messages to `BASE_URL/chat/completions`. At most `concurrency` requests
are on their way, and at most as many calls begun and not yet taken: that many a run that is killed can lose.

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

import asyncio
import contextlib
import os
import queue
import random
import re
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from generate.engines import replies
from generate.engines.base import TOO_LONG, Call, CallFailure, Completion, EngineError, EngineOptions, Outcome
from generate.engines.weights import installed, load_tokens, versions
from toolkit.errors import argument
from toolkit.settings import setting

if TYPE_CHECKING:
    import httpx


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
    extra: further members of every request.
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
    def seeds_are_shared(self) -> bool:
        """A request carries the seed of its first sample alone."""
        return self.samples_per_request > 1

    def samples_at_once(self, samples: int) -> int:
        return self.samples_per_request

    def reaches(self) -> str:
        key = "without a key" if self.key_variable is None else f"with the key in {self.key_variable}"
        return f"{self.base_url}, {key}"

    def check_keys(self, allowed: Collection[str]) -> None:
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
    """Whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return False


def _backoff(settings: _OpenAISettings, attempt: int, drawn: float) -> float:
    """Seconds before the attempt after number `attempt` (from 0), for a number `drawn` from [0, 1)."""
    whole = min(settings.backoff_s * 2**attempt, settings.longest_wait_s)
    return whole * (0.5 + 0.5 * drawn)


def _key_of(settings: _OpenAISettings) -> str | None:
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


AGAIN = frozenset({408, 409, 425, 429})
REFUSED = frozenset({400, 413, 422})
STOPPING = {401: "refuses the key", 403: "forbids it", 404: "does not know this address or model"}
PAYMENT = 402
UNREADABLE = "unreadable reply"


class _Again(Exception):
    """An attempt failed in a way that may pass. wait_s: what `Retry-After` asks for."""

    def __init__(self, reason: str, cause: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.cause, self.wait_s = reason, cause, wait_s


class _Rejected(Exception):
    """The server refuses this call."""

    def __init__(self, failure: CallFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class OpenAIEngine:
    """A server behind the interface of `Engine`."""

    name = "openai"
    options = _OpenAISettings

    @classmethod
    def opened(cls, settings: _OpenAISettings) -> OpenAIEngine:
        """The engine; the key must be there, the server is first asked by `run`."""
        installed("generate", "httpx")
        engine = cls(settings, None if settings.tokenizer is None else load_tokens(settings.tokenizer))
        _key_of(settings)
        return engine

    def __init__(self, settings: _OpenAISettings, counter: replies.Counter | None) -> None:
        self.settings, self.model = settings, settings.model
        self.counter = counter
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
            "versions": versions("httpx"),
            "samples_per_request": chosen.samples_per_request,
            "send_seed": chosen.send_seed,
            "tokenizer": chosen.tokenizer,
            "extra": dict(chosen.extra),
            "logprobs_of": "as the server gives them",
        }

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        """Each call as its last request is answered. Requests are sent only as their answers are taken."""
        if not calls:
            return
        exchange = _Exchange(self, calls, _key_of(self.settings))
        yield from exchange.results()

    def close(self) -> None:
        """Nothing stays open between runs."""

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

    def note(self, payload: Mapping[str, Any]) -> None:
        """Record the server's names of itself in an answer."""
        for key, seen in (("model", self._reported), ("system_fingerprint", self._versions)):
            if isinstance(payload.get(key), str):
                seen.add(payload[key])


class _Exchange:
    """One `run`: an event loop in a thread of its own, whose answers the caller takes from a queue."""

    def __init__(self, engine: OpenAIEngine, calls: Sequence[Call], key: str | None) -> None:
        self.engine, self.calls, self._secret = engine, calls, key
        self.settings = engine.settings
        self.answers: queue.Queue[tuple[Call, Outcome] | BaseException | None] = queue.Queue()
        self.loop = asyncio.new_event_loop()
        self.slots = asyncio.Semaphore(self.settings.concurrency)  # calls begun and not yet taken
        self.sending = asyncio.Semaphore(self.settings.concurrency)  # requests on their way
        self.not_before = 0.0  # on the monotonic clock
        self.fatal: EngineError | None = None
        self.failures = 0  # calls in a row that failed for the moment

    def results(self) -> Iterator[tuple[Call, Outcome]]:
        """Results as they arrive. Leaving early drops the open requests."""
        thread = threading.Thread(target=self._work, name="thinkback-openai", daemon=True)
        thread.start()
        try:
            while (answer := self.answers.get()) is not None:
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
                self._tell(self.slots.release)  # the caller has taken it: its place is free
        finally:
            self._tell(self._cancel)
            thread.join()

    def _tell(self, action: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            self.loop.call_soon_threadsafe(action)

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()

    def _work(self) -> None:
        end: BaseException | None = None
        try:
            self.loop.run_until_complete(self._all())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # handed to the caller's thread, which raises it
            end = error
        finally:
            with contextlib.suppress(Exception):
                self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
            self.answers.put(end)

    async def _all(self) -> None:
        import httpx

        chosen = self.settings
        headers = {} if self._secret is None else {"Authorization": f"Bearer {self._secret}"}
        async with httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(chosen.timeout_s, connect=chosen.connect_timeout_s, pool=None),
            limits=httpx.Limits(max_connections=None),
            follow_redirects=False,
            trust_env=not _is_local(urlsplit(chosen.base_url).hostname or ""),
        ) as client:
            tasks: set[asyncio.Task[None]] = set()
            for call in self.calls:
                await self.slots.acquire()
                if self.fatal is not None:
                    break
                task = asyncio.ensure_future(self._one(client, call))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if tasks:
                await asyncio.gather(*tasks)
        if self.fatal is not None:
            raise self.fatal

    async def _one(self, client: httpx.AsyncClient, call: Call) -> None:
        """One call with all its requests; its answer goes to the queue unless the run has to stop."""
        outcome: Outcome
        try:
            outcome = await self._whole(client, call)
            self.failures = 0
        except _Rejected as error:
            outcome = error.failure
            self.failures += outcome.retryable and not outcome.refused
        except EngineError as error:
            self.fatal = self.fatal or error
            self.slots.release()
            return
        self.answers.put((call, outcome))
        if self.failures >= self.settings.stop_after and isinstance(outcome, CallFailure):
            self.fatal = self.fatal or EngineError(
                f"{self.failures} calls in a row failed at {self.settings.base_url}; the last: {outcome.reason};"
                " the same command continues",
                code="server",
            )

    async def _whole(self, client: httpx.AsyncClient, call: Call) -> tuple[Completion, ...]:
        """All samples of a call, its requests side by side; the gravest error of them is raised once all are over."""
        groups = replies.requests_of(call, self.settings.samples_per_request)
        requests = (self._patiently(client, call, samples) for samples in groups)
        answers = await asyncio.gather(*requests, return_exceptions=True)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in sorted(errors, key=lambda error: isinstance(error, _Rejected)):
            raise error
        completions: dict[int, Completion] = {}
        for samples, answer in zip(groups, answers, strict=True):
            completions |= zip(samples, answer, strict=True)  # type: ignore[arg-type]
        return tuple(completions[index] for index in range(len(call.seeds)))

    async def _patiently(self, client: httpx.AsyncClient, call: Call, samples: Sequence[int]) -> list[Completion]:
        """Ask until there is a whole answer or the retries are spent."""
        chosen = self.settings
        jitter = random.Random(f"{chosen.seed}:{call.key}:{samples[0]}")
        for attempt in range(chosen.retries + 1):
            while (wait := self.not_before - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            if self.fatal is not None:
                raise self.fatal
            try:
                async with self.sending:
                    return await self._ask(client, call, samples)
            except _Again as error:
                last = error
            if (last.wait_s or 0) > chosen.longest_wait_s:
                break
            if attempt < chosen.retries:
                if last.wait_s:
                    self.not_before = max(self.not_before, time.monotonic() + last.wait_s)
                await asyncio.sleep(_backoff(chosen, attempt, jitter.random()))
        tries = f"after {attempt + 1} attempts" if attempt else "at the first attempt"
        advice = f", which asks to wait {last.wait_s:.0f} s" if last.wait_s else ""
        raise _Rejected(CallFailure(f"{tries}: {last.reason}{advice}", retryable=True, cause=last.cause))

    async def _ask(self, client: httpx.AsyncClient, call: Call, samples: Sequence[int]) -> list[Completion]:
        """One attempt. Raises _Again, _Rejected or EngineError."""
        import httpx

        chosen = self.settings
        path, body = self.engine.body(call, samples)
        began = time.perf_counter()
        try:
            async with asyncio.timeout(chosen.timeout_s):
                response = await client.post(chosen.base_url.rstrip("/") + path, json=body)
        except (TimeoutError, httpx.TimeoutException):
            raise _Again(f"no answer within {chosen.timeout_s:g} s", "no answer in time") from None
        except httpx.HTTPError as error:
            raise _Again(self._clean(f"{type(error).__name__}: {error}"), "no connection") from None
        latency_s = time.perf_counter() - began
        if response.status_code != 200:
            self._judge(response, call)
        try:
            payload = response.json()
            completions = replies.read_reply(payload, call, len(samples), self.engine.counter, latency_s)
        except replies.HalfAnswer as error:
            if isinstance(payload, Mapping) and payload.get("error"):
                self._check_quota(payload, quotes=False)
            raise _Again(self._clean(str(error)), UNREADABLE) from None
        except (ValueError, TypeError, AttributeError, KeyError):
            raise _Again("the answer is broken JSON", UNREADABLE) from None
        self.engine.note(payload)
        return completions

    def _judge(self, response: httpx.Response, call: Call) -> None:
        """Raise the error for a status other than 200."""
        status = response.status_code
        try:
            payload = response.json()
        except ValueError:
            payload = response.text
        reason = replies.error_text(payload)
        reason = self._clean(f"{status} {response.reason_phrase}" + (f": {reason}" if reason else ""))
        if status == PAYMENT:
            raise self._spent(reason)
        self._check_quota(payload, quotes=status in REFUSED)
        if status in AGAIN or status >= 500:
            wait = replies.retry_after(response.headers.get("retry-after"))
            raise _Again(f"the server answers {reason}", str(status), wait)
        if status in STOPPING and not call.proven:
            raise EngineError(f"the server at {self.settings.base_url} {STOPPING[status]}: {reason}", code="server")
        refused = status in REFUSED
        if refused and replies.limit_too_large(reason) and not call.proven:
            raise EngineError(
                f"the server at {self.settings.base_url} takes no limit of {call.max_tokens} tokens for `{call.key}`:"
                f" {reason}; lower `max_tokens`, or give the server a longer context",
                code="limit",
            )
        too_long = refused and replies.prompt_too_long(reason)
        cause = TOO_LONG if too_long else str(status)
        raise _Rejected(CallFailure(f"the server refuses the call: {reason}", not too_long, refused, cause))

    def _check_quota(self, payload: Any, quotes: bool) -> None:
        """EngineError where an error says that the account's quota is spent: no call can be answered now."""
        if replies.quota_spent(payload, quotes):
            raise self._spent(replies.error_text(payload))

    def _spent(self, reason: str) -> EngineError:
        return EngineError(
            f"the account's quota at {self.settings.base_url} is spent: {self._clean(reason)}", code="quota"
        )

    def _clean(self, text: str) -> str:
        text = " ".join(text.split())
        return text if self._secret is None else text.replace(self._secret, "[key]")
