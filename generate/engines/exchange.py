"""Requests to an OpenAI-compatible server: sent by an event loop in a thread of its own, answered one by one, and asked
again where what went wrong may pass. openai.py says what stops a run and what fails a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from generate.engines import replies
from generate.engines.base import TOO_LONG, Call, CallFailure, Completion, EngineError, Outcome

if TYPE_CHECKING:
    import aiohttp

AGAIN = frozenset({408, 409, 425, 429})
REFUSED = frozenset({400, 413, 422})
STOPPING = {401: "refuses the key", 403: "forbids it", 404: "does not know this address or model"}
PAYMENT = 402
UNREADABLE = "unreadable reply"


class _RetryableError(Exception):
    """An attempt failed in a way that may pass. wait_s: what `Retry-After` asks for."""

    def __init__(self, reason: str, cause: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.cause, self.wait_s = reason, cause, wait_s


class _Rejected(Exception):
    """The server refuses this call."""

    def __init__(self, failure: CallFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class RequestWriter(Protocol):
    """What is asked of a server, and what its answers are read with."""

    settings: Any
    counter: replies.TokenCounter | None

    def body(self, call: Call, samples: Sequence[int]) -> tuple[str, dict[str, Any]]:
        """Path and members of the request for these samples of a call."""

    def note_server_names(self, payload: Mapping[str, Any]) -> None:
        """Record the server's names of itself in an answer."""


class HttpExchange:
    """The calls of one engine. The calling thread submits and takes; all else happens in the loop's thread."""

    def __init__(self, engine: RequestWriter, key: str | None, proxies: bool) -> None:
        self.engine, self._secret, self._proxies = engine, key, proxies
        self.settings = engine.settings
        self.answers: queue.SimpleQueue[tuple[Call, Outcome] | BaseException] = queue.SimpleQueue()
        self.waiting: set[str] = set()  # keys of calls that were submitted and not taken, in the calling thread
        self.loop = asyncio.new_event_loop()
        self.sending = asyncio.Semaphore(self.settings.concurrency)  # requests on their way
        self.pending: deque[Call] = deque()
        self.tasks: dict[str, asyncio.Task[bool]] = {}
        self.free = int(self.settings.concurrency)  # places for calls begun and not yet taken
        self.not_before = 0.0  # on the monotonic clock
        self.fatal: EngineError | None = None
        self.failures = 0  # calls in a row that failed for the moment
        self.session: aiohttp.ClientSession | None = None
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run_thread, name="thinkback-openai", daemon=True)
        self._thread.start()

    def submit(self, call: Call) -> None:
        """Send a call as soon as there is a place for it."""
        self.waiting.add(call.key)
        self._run_in_loop(self._add_call, call)

    def cancel(self, call: Call) -> None:
        """Forget a call, and drop its requests."""
        self.waiting.discard(call.key)
        self._run_in_loop(self._drop_call, call.key)

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        """Wait for an answer, and give all that are there. Their places are free when the last was taken."""
        given, places = 0, 0
        try:
            while (self.waiting and not given) or not self.answers.empty():
                answer = self.answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                places += 1
                if answer[0].key in self.waiting:
                    self.waiting.discard(answer[0].key)
                    given += 1
                    yield answer
        finally:
            self._run_in_loop(self._release_slots, places)

    def close(self) -> None:
        """Drop what is on its way, and the connections."""
        self._run_in_loop(self._ending.set)
        self._thread.join()

    def _run_in_loop(self, action: Callable[..., Any], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            self.loop.call_soon_threadsafe(action, *arguments)

    def _run_thread(self) -> None:
        try:
            self.loop.run_until_complete(self._serve_calls())
        except BaseException as error:  # handed to the caller's thread, which raises it
            self.answers.put(error)
        finally:
            with contextlib.suppress(Exception):
                self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    async def _serve_calls(self) -> None:
        import aiohttp

        chosen = self.settings
        headers = {"Content-Type": "application/json"}
        headers |= {} if self._secret is None else {"Authorization": f"Bearer {self._secret}"}
        async with aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=chosen.timeout_s, sock_connect=chosen.connect_timeout_s),
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=self._proxies,
        ) as session:
            self.session = session
            self._start_calls()
            await self._ending.wait()
            tasks = list(self.tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _add_call(self, call: Call) -> None:
        self.pending.append(call)
        self._start_calls()

    def _release_slots(self, places: int) -> None:
        self.free += places
        self._start_calls()

    def _drop_call(self, key: str) -> None:
        task = self.tasks.get(key)
        if task is not None:
            task.cancel()
        else:
            self.pending = deque(call for call in self.pending if call.key != key)

    def _start_calls(self) -> None:
        """Begin calls while there are places; where the run has to stop, say so once what is on its way is over."""
        if self.session is None:
            return
        if self.fatal is not None:
            if not self.tasks:
                self.answers.put(self.fatal)
            return
        while self.free and self.pending:
            call = self.pending.popleft()
            self.free -= 1
            self.tasks[call.key] = task = self.loop.create_task(self._do_call(call))
            task.add_done_callback(partial(self._finish_call, call.key))

    def _finish_call(self, key: str, task: asyncio.Task[bool]) -> None:
        """A call is over; its place stays taken where it has an answer that nobody took."""
        self.tasks.pop(key, None)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:  # of ours
            self.answers.put(fault)
        if fault is not None or task.cancelled() or not task.result():
            self.free += 1
        self._start_calls()

    async def _do_call(self, call: Call) -> bool:
        """One call with all its requests; its answer goes to the queue unless the run has to stop. Whether it did."""
        outcome: Outcome
        try:
            outcome = await self._complete_call(call)
            self.failures = 0
        except _Rejected as error:
            outcome = error.failure
            self.failures += outcome.retryable and not outcome.refused
        except EngineError as error:
            self.fatal = self.fatal or error
            return False
        self.answers.put((call, outcome))
        if self.failures >= self.settings.stop_after and isinstance(outcome, CallFailure):
            self.fatal = self.fatal or EngineError(
                f"{self.failures} calls in a row failed at {self.settings.base_url}; the last, `{call.key}`:"
                f" {outcome.reason}; run the same command again to continue",
                code="server",
            )
        return True

    async def _complete_call(self, call: Call) -> tuple[Completion, ...]:
        """All samples of a call, its requests side by side; the gravest error of them is raised once all are over."""
        groups = self.settings.split_into_requests(call.temperatures)
        if len(groups) == 1:
            return tuple(await self._ask_with_retries(call, groups[0]))
        requests = (self._ask_with_retries(call, samples) for samples in groups)
        answers = await asyncio.gather(*requests, return_exceptions=True)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in sorted(errors, key=lambda error: isinstance(error, _Rejected)):
            raise error
        completions: dict[int, Completion] = {}
        for samples, answer in zip(groups, answers, strict=True):
            completions |= zip(samples, answer, strict=True)  # type: ignore[arg-type]
        return tuple(completions[index] for index in range(len(call.seeds)))

    async def _ask_with_retries(self, call: Call, samples: Sequence[int]) -> list[Completion]:
        """Ask until there is a whole answer or the retries are spent."""
        chosen = self.settings
        jitter: random.Random | None = None
        for attempt in range(chosen.retries + 1):
            while (wait := self.not_before - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            if self.fatal is not None:
                raise self.fatal
            try:
                async with self.sending:
                    return await self._ask_once(call, samples)
            except _RetryableError as error:
                last = error
            if (last.wait_s or 0) > chosen.longest_wait_s:
                break
            if attempt < chosen.retries:
                if last.wait_s:
                    self.not_before = max(self.not_before, time.monotonic() + last.wait_s)
                jitter = jitter or random.Random(f"{chosen.seed}:{call.key}:{samples[0]}")
                await asyncio.sleep(retry_delay(chosen, attempt, jitter.random()))
        tries = f"after {attempt + 1} attempts" if attempt else "at the first attempt"
        advice = f", which asks to wait {last.wait_s:.0f} s" if last.wait_s else ""
        raise _Rejected(CallFailure(f"{tries}: {last.reason}{advice}", retryable=True, cause=last.cause))

    async def _ask_once(self, call: Call, samples: Sequence[int]) -> list[Completion]:
        """Send a request once. Raises _RetryableError, _Rejected or EngineError."""
        import aiohttp

        chosen = self.settings
        path, body = self.engine.body(call, samples)
        url, data = chosen.base_url.rstrip("/") + path, json.dumps(body).encode()
        started_at, began = time.time(), time.perf_counter()
        assert self.session is not None  # calls begin once it is there
        try:
            async with self.session.post(url, data=data, allow_redirects=False) as response:
                content = await response.read()
        except TimeoutError:
            raise _RetryableError(f"no answer within {chosen.timeout_s:g} s", "no answer in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _RetryableError(self._hide_secret(f"{type(error).__name__}: {error}"), "no connection") from None
        latency_s = time.perf_counter() - began
        if response.status != 200:
            self._raise_for_status(response, content, call)
        try:
            payload = json.loads(content)
            completions = replies.read_reply(payload, call, len(samples), self.engine.counter, latency_s)
        except replies.UnknownPart as error:
            failure = CallFailure(self._hide_secret(str(error)), retryable=True, cause=UNREADABLE)
            raise _Rejected(failure) from None
        except replies.IncompleteAnswer as error:
            if isinstance(payload, Mapping) and payload.get("error"):
                self._check_quota(payload, quotes=False)
            raise _RetryableError(self._hide_secret(str(error)), UNREADABLE) from None
        except (ValueError, TypeError, AttributeError, KeyError):
            begins = self._hide_secret(content[:200].decode("utf-8", "replace"))[:80]
            raise _RetryableError(f"the reply is broken JSON, which begins `{begins}`", UNREADABLE) from None
        self.engine.note_server_names(payload)
        reply = f"{samples[0]}" if len(samples) > 1 else None
        return [
            replace(one, started_at=started_at, request=reply, seeded=chosen.send_seed and place == 0)
            for place, one in enumerate(completions)
        ]

    def _raise_for_status(self, response: aiohttp.ClientResponse, content: bytes, call: Call) -> None:
        status = response.status
        try:
            payload = json.loads(content)
        except ValueError:
            payload = content.decode("utf-8", "replace")
        reason = replies.error_text(payload)
        reason = self._hide_secret(f"{status} {response.reason}" + (f": {reason}" if reason else ""))
        if status == PAYMENT:
            raise self._quota_error(reason)
        self._check_quota(payload, quotes=status in REFUSED)
        if status in AGAIN or status >= 500:
            wait = replies.retry_after_seconds(response.headers.get("retry-after"))
            raise _RetryableError(f"the server answers {reason}", str(status), wait)
        if status in STOPPING and not call.proven:
            where = f"the server at {self.settings.base_url} {STOPPING[status]}"
            raise EngineError(f"{where}, asked for `{call.key}`: {reason}", code="server")
        refused = status in REFUSED
        if refused and replies.is_limit_too_large(reason) and not call.proven:
            raise EngineError(
                f"the server at {self.settings.base_url} takes no limit of {call.max_tokens} tokens for `{call.key}`:"
                f" {reason}; lower `max_tokens`, or give the server a longer context",
                code="limit",
            )
        too_long = refused and replies.is_prompt_too_long(reason)
        cause = TOO_LONG if too_long else str(status)
        raise _Rejected(CallFailure(f"the server refuses the call: {reason}", not too_long, refused, cause))

    def _check_quota(self, payload: Any, quotes: bool) -> None:
        """EngineError where an error says that the account's quota is spent: no call can be answered now."""
        if replies.is_quota_spent(payload, quotes):
            raise self._quota_error(replies.error_text(payload))

    def _quota_error(self, reason: str) -> EngineError:
        return EngineError(
            f"the account's quota at {self.settings.base_url} is spent: {self._hide_secret(reason)}", code="quota"
        )

    def _hide_secret(self, text: str) -> str:
        text = " ".join(text.split())
        return text if self._secret is None else text.replace(self._secret, "[key]")


def retry_delay(settings: Any, attempt: int, drawn: float) -> float:
    """Seconds before the attempt after number `attempt` (from 0), for a number `drawn` from [0, 1)."""
    whole = min(settings.backoff_s * 2**attempt, settings.longest_wait_s)
    return whole * (0.5 + 0.5 * drawn)
