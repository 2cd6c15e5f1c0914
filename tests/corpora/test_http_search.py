"""Searches over HTTP: what is sent, what is read of a reply, and servers that are slow, busy, broken or silent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("urllib3", reason="the extra `retrieval` is not installed")

from generate.loops.requests import Results, Search
from generate.retrieval.http_search import HttpSearch
from tests.errors import refuses
from tests.loops.listening import checks_of, go, write_listening
from toolkit.errors import ThinkbackError
from toolkit.log import validate_log

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Heard:
    """What a server was asked: (method, path, parameters, body, headers), and when."""

    asked: list[tuple[str, str, dict[str, list[str]], Any, dict[str, str]]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


@contextmanager
def server(answer: Callable[[int, str], Answer]) -> Iterator[tuple[str, Heard]]:
    """A server that answers request number n for a query; its address, and what it heard."""
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            parts, size = urlsplit(self.path), int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            number = len(heard.asked)
            heard.asked.append((self.command, parts.path, parse_qs(parts.query), body, dict(self.headers)))
            heard.times.append(time.monotonic())
            query = body["q"] if body else parse_qs(parts.query).get("q", [""])[0]
            status, headers, data = answer(number, query)
            if status:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            self.close_connection = True

        do_GET = do_POST = answer

        def log_message(self, *_: Any) -> None:
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{served.server_port}", heard
    finally:
        served.shutdown()
        served.server_close()


def rows(query: str, count: int = 3) -> bytes:
    listed = [{"snippet": f"{query} {i}", "head": {"title": f"T{i}"}, "link": f"u{i}"} for i in range(count)]
    return json.dumps({"web": {"results": listed}}).encode()


PLACES = {"results": "web.results", "text": "snippet", "title": "head.title", "id": "link"}


def search(settings: HttpSearch, query: str = "a b&c", top: int = 2) -> Results:
    service = settings.opened(None, "search.web")  # type: ignore[arg-type]
    return service.answer([(Search(query, "web", top), {})])[0]


def test_a_request_and_its_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", "secret")
    with server(lambda _, query: (200, {}, rows(query))) as (address, heard):
        got = search(HttpSearch(url=f"{address}/find?lang=en", params={"q": "{{query}}", "n": "{{top}}"},
                                headers={"X-Key": "$SEARCH_KEY"}, **PLACES))  # fmt: skip
        assert got.texts == ("T0: a b&c 0", "T1: a b&c 1")
        assert got.ids == ("u0", "u1")
        assert got.latency_s > 0
        method, path, params, _, headers = heard.asked[0]
        assert (method, path, params) == ("GET", "/find", {"lang": ["en"], "q": ["a b&c"], "n": ["2"]})
        assert headers["X-Key"] == "secret"
        body = {"q": "{{query}}", "num": "{{top}}", "more": ["x {{query}}", 1, None]}
        got = search(
            HttpSearch(url=address, method="POST", body=body, results="web.results", text="snippet"), 'say "a"'
        )
        assert got.texts == ('say "a" 0', 'say "a" 1')
        assert heard.asked[1][3] == {"q": 'say "a"', "num": 2, "more": ['x say "a"', 1, None]}
        in_path = HttpSearch(url=f"{address}/{{{{query}}}}/all", results="web.results", text="snippet")
        assert len(search(in_path).texts) == 2
        assert heard.asked[2][1] == "/a%20b%26c/all"


def test_busy_and_broken_servers_are_asked_again() -> None:
    answers: list[Answer] = [(429, {"Retry-After": "1"}, b""), (503, {}, b"<html>"), (0, {}, b""), (200, {}, rows("x"))]
    with server(lambda number, _: answers[number]) as (address, heard):
        assert len(search(HttpSearch(url=f"{address}?q={{{{query}}}}", backoff_s=0.01, **PLACES)).texts) == 2
        assert len(heard.asked) == 4
        assert heard.times[1] - heard.times[0] >= 0.9  # as the server said


BROKEN: dict[str, tuple[Answer, str, str]] = {
    "500": ((500, {}, b"out of order"), "server", "500"),
    "404": ((404, {}, b"<html>nothing here</html>"), "server", "nothing here"),
    "HTML": ((200, {}, b"<html>log in</html>"), "format", "log in"),
    "nothing": ((200, {}, b""), "format", "JSON"),
    "no text": ((200, {}, b'{"web": {"results": [{"body": "x"}]}}'), "format", "`snippet`"),
    "another form": ((200, {}, b'{"items": []}'), "format", "`items`"),
    "dropped": ((0, {}, b""), "server", "127.0.0.1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_a_server_does_not_give_is_one_line(name: str) -> None:
    answer, code, part = BROKEN[name]
    with server(lambda *_: answer) as (address, heard):
        settings = HttpSearch(url=f"{address}?q={{{{query}}}}", retries=1, backoff_s=0.01, **PLACES)
        with refuses(code, "`search.web", part) as error:
            search(settings)
        assert "\n" not in str(error.value)
        assert len(heard.asked) == (2 if name in ("500", "dropped") else 1)


def test_a_server_that_is_silent_is_not_waited_for() -> None:
    def slow(*_: Any) -> Answer:
        time.sleep(1.5)
        return 200, {}, rows("x")

    with server(slow) as (address, _):
        began = time.monotonic()
        with refuses("server", "`search.web`"):
            search(HttpSearch(url=f"{address}?q={{{{query}}}}", retries=0, timeout_s=0.2, **PLACES))
        assert time.monotonic() - began < 1.4


def test_requests_a_second_are_limited() -> None:
    with server(lambda _, query: (200, {}, rows(query))) as (address, heard):
        settings = HttpSearch(url=f"{address}?q={{{{query}}}}", requests_per_second=20, **PLACES)
        service = settings.opened(None, "search.web")  # type: ignore[arg-type]
        service.answer([(Search(f"q{i}", "web", 2), {}) for i in range(6)])
        assert heard.times[-1] - heard.times[0] > 0.2  # five gaps of 50 ms, less what a slow arrival of the first takes


def test_what_is_sent_again_waits_for_its_turn_too() -> None:
    answers: list[Answer] = [(429, {}, b""), (429, {}, b""), (200, {}, rows("x"))]
    with server(lambda number, _: answers[number]) as (address, heard):
        settings = HttpSearch(url=f"{address}?q={{{{query}}}}", requests_per_second=5, backoff_s=0, **PLACES)
        got = search(settings)
        assert heard.times[2] - heard.times[0] > 0.35  # two turns of 0.2 s
        assert got.latency_s < 0.2  # of the last request, without waits


@pytest.mark.parametrize(
    ("settings", "code", "name"),
    [({"url": "http://x"}, "required", "{{query}}"), ({"url": "http://{{query}}", "body": {}}, "invalid", "`body`"),
     ({"url": "http://x/{{query}}", "headers": {"K": "$NOT_SET_HERE"}}, "required", "NOT_SET_HERE")],
)  # fmt: skip
def test_settings_that_do_not_fit(settings: dict[str, Any], code: str, name: str) -> None:
    with refuses(code, name):
        HttpSearch(**settings).opened(None, "search.web")  # type: ignore[arg-type]


def write_http(folder: Path, address: str) -> Path:
    """A recipe that listens and asks a server."""
    recipe = write_listening(folder, 1, top=2)
    table = f'[search.web]\nkind = "http"\nurl = "{address}?q={{{{query}}}}"\nretries = 0\nat_once = 1\n'
    table += 'results = "web.results"\ntext = "snippet"\n'
    text = recipe.read_text().replace('search = "wiki"', 'search = "web"')
    recipe.write_text(text.replace("[score.three]", f"{table}[score.three]"))
    return recipe


def test_a_run_goes_on_where_a_server_failed(tmp_path: Any) -> None:
    """It ends in one line, and what was answered before is not asked again."""
    down = [True]

    def answer(number: int, query: str) -> Answer:
        return (500, {}, b"no") if down[0] and number > 3 else (200, {}, rows(query))

    with server(answer) as (address, heard):
        recipe = write_http(tmp_path, address)
        with pytest.raises(ThinkbackError, match="500"):
            go(recipe, tmp_path / "log")
        count = -1
        while count != len(heard.asked):  # threads of the run that ended may still ask
            count = len(heard.asked)
            time.sleep(0.5)
        down[0] = False
        log = go(recipe, tmp_path / "log")
        assert validate_log(log).ok
        assert checks_of(log)["queries"].sum() == 4 + len(heard.asked) - count


@pytest.mark.parametrize("name", BROKEN)
def test_a_log_can_be_sealed_without_what_a_server_does_not_give(name: str, tmp_path: Any) -> None:
    """What failed is counted, and the other texts have the checks that they would have had."""
    status, headers, body = BROKEN[name][0]
    bad = ["nobody"]

    def answer(_: int, query: str) -> Answer:
        return (status, headers, body) if query == bad[0] else (200, {}, rows(query))

    with server(answer) as (address, heard):
        whole = checks_of(go(write_http(tmp_path / "whole", address), tmp_path / "whole log"))
        bad[0] = heard.asked[-1][2]["q"][0]
        log = go(write_http(tmp_path / "part", address), tmp_path / "part log", with_failures=True)
    left_out = sum(log.manifest.source["left_out"].values())
    assert list(log.manifest.source["left_out"]) == ["loop failed"]
    mine = checks_of(log)
    assert 1 <= left_out <= whole["example_id"].n_unique()
    complete = mine.group_by("example_id").len().join(whole.group_by("example_id").len(), on=["example_id", "len"])
    assert whole["example_id"].n_unique() - complete.height <= left_out
    assert mine.join(whole, on=[*mine.columns], how="anti", nulls_equal=True).is_empty()
