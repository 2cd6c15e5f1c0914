"""The tables `[search.NAME]` of kind `http`: any search endpoint that is asked over HTTP and replies with JSON."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from generate.engines.base import EngineError
from generate.engines.exchange import AGAIN
from generate.loops.requests import Results, Search
from generate.recipes.recipe import Recipe
from toolkit.errors import InvalidError, PackageError, RequiredError, listed
from toolkit.settings import Checked, setting


class SearchError(EngineError):
    """A query that its endpoint does not answer, or not as its settings say."""


RETRIED = (*AGAIN, *range(500, 600))
"""The status codes after which a request is sent again."""
LONGEST_WAIT_S = 60.0
_FIELD = re.compile(r"\{\{(query|top)\}\}")
_VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")


@dataclass(frozen=True)
class HttpSearch(Checked):
    """A search endpoint. `url`, `params` and `body` (JSON) may hold `{{query}}` and `{{top}}`, `headers` variables of
    the environment, as `$SEARCH_KEY`. results: the path to the list in the reply, as `web.results`, empty where the
    reply is the list; `text`, `title` and `id` are paths within one of them.

    A request is sent again after silence for `timeout_s`, a dropped connection, or a status of `RETRIED`, at most
    `retries` times, with exponential backoff or when the server says, after a minute at most; and, the first time and
    again, not more often than `requests_per_second`. The seconds of a search are those of its last request.
    """

    url: str = setting()
    method: str = setting("GET", choices=("GET", "POST"))
    params: Mapping[str, str] = setting({})
    body: Mapping[str, Any] | None = setting(None)
    headers: Mapping[str, str] = setting({}, identity=False)
    results: str = setting("")
    text: str = setting("text")
    title: str | None = setting(None)
    id: str | None = setting(None)
    timeout_s: float = setting(30.0, low=0.1, identity=False)
    retries: int = setting(5, low=0, identity=False)
    backoff_s: float = setting(1.0, low=0, identity=False)
    requests_per_second: float | None = setting(None, low=0.001, identity=False)
    at_once: int = setting(4, low=1, identity=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.body is not None and self.method == "GET":
            raise InvalidError('`body` needs `method = "POST"`')
        if not _FIELD.search(json.dumps([self.url, dict(self.params), self.body])):
            raise RequiredError("`url`, `params` or `body` must hold `{{query}}`")

    def opened(self, _: Recipe, place: str) -> _HttpSearch:
        """The endpoint. RequiredError where a variable of its headers is not set."""
        try:
            import urllib3  # noqa: F401 - checked before anything is asked
        except ImportError:
            raise PackageError("searches over HTTP need urllib3: pip install 'thinkback[retrieval]'") from None
        for name in _VARIABLE.findall(" ".join(self.headers.values())):
            if name not in os.environ:
                raise RequiredError(f"`{place}.headers` needs the environment variable `{name}`")
        return _HttpSearch(self, place, self.at_once)


@dataclass
class _HttpSearch:
    """An endpoint in use, asked from at most `at_once` threads."""

    settings: HttpSearch
    place: str
    at_once: int
    turn: threading.Lock = field(default_factory=threading.Lock)
    free_at: float = 0.0
    """When the next request may be sent, in seconds of the monotonic clock."""

    def answer(self, requests: Sequence[tuple[Search, Mapping[str, str]]]) -> list[Results]:
        """The passages of each query. SearchError where the endpoint does not give them."""
        return [self._search_once(request) for request, _ in requests]

    def describe(self) -> Mapping[str, Any]:
        """The manifest's record: the endpoint without its headers."""
        return {"url": self.settings.url, "results": self.settings.results}

    @cached_property
    def _pool(self) -> Any:
        from urllib3 import PoolManager, Retry

        once = Retry(total=None, connect=0, read=0, status=0, other=0, redirect=3, raise_on_status=False)
        return PoolManager(maxsize=self.at_once, retries=once, timeout=self.settings.timeout_s)

    def _search_once(self, request: Search) -> Results:
        one = self.settings
        fill = {"query": request.query, "top": str(request.top)}
        secret = {name: _VARIABLE.sub(lambda match: os.environ[match[1]], one.headers[name]) for name in one.headers}
        url = _filled(one.url, fill, quoted=True)
        if one.params:
            query = urlencode({name: _filled(value, fill) for name, value in one.params.items()})
            url += f"{'&' if '?' in url else '?'}{query}"
        content = {"json": _filled_json(one.body or {}, fill, request.top)} if one.method == "POST" else {}
        reply, spent = self._reply(url, {"headers": secret, **content})
        if reply.status >= 300:
            raise SearchError(
                f"`{self.place}`: {_host(url)} answered {reply.status}: {_excerpt(reply.data)}", code="server"
            )
        return self._results(reply.data, request, spent)

    def _reply(self, url: str, content: Mapping[str, Any]) -> tuple[Any, float]:
        """The reply to a request that is sent until it is answered, and the seconds of the last time, without waits."""
        from urllib3 import Retry
        from urllib3.exceptions import HTTPError

        for number in range(self.settings.retries + 1):
            self._wait_for_turn()
            began, pause, reason = time.perf_counter(), self.settings.backoff_s * 2**number, ""
            try:
                reply = self._pool.request(self.settings.method, url, **content)
                spent = time.perf_counter() - began
                if reply.status not in RETRIED or number == self.settings.retries:
                    return reply, spent
                pause = Retry().get_retry_after(reply) or pause
            except HTTPError as error:
                reason = " ".join(str(getattr(error, "reason", None) or error).split())
            if number < self.settings.retries:
                time.sleep(min(pause, LONGEST_WAIT_S))
        raise SearchError(f"`{self.place}`: no answer from {_host(url)}: {reason}", code="server")

    def _wait_for_turn(self) -> None:
        if self.settings.requests_per_second is None:
            return
        with self.turn:
            now = time.monotonic()
            wait = max(0.0, self.free_at - now)
            self.free_at = max(now, self.free_at) + 1 / self.settings.requests_per_second
        time.sleep(wait)

    def _results(self, data: bytes, request: Search, spent: float) -> Results:
        try:
            reply = json.loads(data)
        except ValueError:
            raise SearchError(f"`{self.place}`: the reply is no JSON: {_excerpt(data)}", code="format") from None
        rows = _value_at_path(reply, self.settings.results)
        if not isinstance(rows, list):
            there = listed(list(reply)[:8]) if isinstance(reply, dict) else type(reply).__name__
            raise SearchError(
                f"`{self.place}.results`: the reply has no list at `{self.settings.results}`; it has {there}",
                code="format",
            )
        rows = rows[: request.top]
        texts = [_text_at(row, self.settings.text) for row in rows]
        if rows and not any(texts):
            raise SearchError(
                f"`{self.place}.text`: no result has a text at `{self.settings.text}`: {_excerpt(data)}", code="format"
            )
        if self.settings.title is not None:
            titles = [_text_at(row, self.settings.title) for row in rows]
            texts = [f"{title}: {text}" if title else text for title, text in zip(titles, texts, strict=True)]
        ids = () if self.settings.id is None else tuple(_text_at(row, self.settings.id) for row in rows)
        return Results(tuple(texts), ids, latency_s=spent)


def _filled(template: str, fill: Mapping[str, str], quoted: bool = False) -> str:
    return _FIELD.sub(lambda match: quote(fill[match[1]], safe="") if quoted else fill[match[1]], template)


def _filled_json(value: Any, fill: Mapping[str, str], top: int) -> Any:
    """A JSON value with its texts filled in; a text that is `{{top}}` alone becomes the integer."""
    if isinstance(value, str):
        return top if value == "{{top}}" else _filled(value, fill)
    if isinstance(value, Mapping):
        return {key: _filled_json(one, fill, top) for key, one in value.items()}
    return [_filled_json(one, fill, top) for one in value] if isinstance(value, list) else value


def _value_at_path(value: Any, path: str) -> Any:
    """What stands at a path of keys and numbers, as `web.results.0`; None where there is nothing."""
    for step in path.split(".") if path else ():
        if isinstance(value, list) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _text_at(row: Any, path: str) -> str:
    value = _value_at_path(row, path)
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _excerpt(data: bytes) -> str:
    text = " ".join(data[:400].decode("utf-8", "replace").split())
    return f"{text[:120]}…" if len(text) > 120 else text or "nothing"


def _host(url: str) -> str:
    return urlsplit(url).netloc
