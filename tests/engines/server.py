"""A small real HTTP server that speaks the OpenAI protocols, misbehaves on demand and counts what it acknowledged.

Each request takes the next word of `plan` (then `ok`): a status such as `500` or `429`, `429:SECONDS` with Retry-After,
`hang`, `broken`, `half` (fewer bytes than announced), `drop`, `few` (one sample too few), `no-text`, `error-200`,
`bare-error-200`, `page-200`, `400-length`, `400`, `429-quota`, `no-usage`, `hidden` (no text at the limit). What a
sample says is a function of the prompt, the seed and its place. Where `rule` has a word for a request, or `say` a text
for a prompt, that goes first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = ("four", "half", "seven", "zero", "nine", "one")


def sample_text(prompt: str, seed: int, place: int, temperature: float) -> str:
    key = prompt if temperature == 0 else f"{prompt}|{seed}|{place}"
    digest = hashlib.sha256(key.encode()).digest()
    return " ".join(WORDS[byte % len(WORDS)] for byte in digest[: 1 + digest[0] % 5])


class Server:
    """Runs in a thread. acknowledged: whole good answers per prompt (chat: the last message) that left in full."""

    def __init__(self) -> None:
        self.plan: list[str] = []
        self.say: Callable[[str], str | None] = lambda _: None
        self.rule: Callable[[dict[str, Any]], str | None] = lambda _: None
        self.delay_s = 0.0
        self.logprobs = True
        self.sentinel: float | None = None  # what stands for the last log-probability
        self.too_long = "This model's maximum context length is 96 tokens, you sent 120"
        self.reasoning: str | None = None
        self.parts: list[dict[str, Any]] | None = None  # what stands in place of a chat's text
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.acknowledged: Counter[str] = Counter()
        self.now = self.most = 0
        self.lock = threading.Lock()
        self.released = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._http.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Server:
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def payload(self, body: dict[str, Any], word: str) -> dict[str, Any]:
        chat = "messages" in body
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        n = body.get("n", 1) - (word == "few")
        drawn = (sample_text(prompt, body.get("seed", 0), i, body.get("temperature", 1)) for i in range(n))
        texts = [self.say(prompt) or text for text in drawn]
        choices = [self._choice(i, text, chat, bool(body.get("logprobs")), word) for i, text in enumerate(texts)]
        made: dict[str, Any] = {"id": "x", "model": "stub-1", "system_fingerprint": "fp", "choices": choices[::-1]}
        if word != "no-usage":
            total = sum(len(text.split()) + 1 for text in texts)
            made["usage"] = {"prompt_tokens": len(prompt.split()), "completion_tokens": total}
        return made

    def _choice(self, index: int, text: str, chat: bool, logprobs: bool, word: str) -> dict[str, Any]:
        values = [-0.5 - i for i in range(len(text.split()) + 1)]
        if self.sentinel is not None:
            values[-1] = self.sentinel
        told: Any = None
        if logprobs and self.logprobs:
            told = {"content": [{"token": "t", "logprob": v} for v in values]} if chat else {"token_logprobs": values}
        made: dict[str, Any] = {"index": index, "finish_reason": "stop", "logprobs": told}
        if word == "hidden":
            made["finish_reason"] = "length"
        if not chat:
            return made | ({} if word == "no-text" else {"text": None if word == "hidden" else text})
        content = None if word in ("no-text", "hidden") else self.parts or text
        message: dict[str, Any] = {"role": "assistant", "content": content}
        return made | {"message": message | ({"reasoning_content": self.reasoning} if self.reasoning else {})}

    def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server.lock:
                    server.requests.append(body | {"path": self.path})
                    server.headers.append(dict(self.headers))
                    server.times.append(time.monotonic())
                    word = server.rule(body) or (server.plan.pop(0) if server.plan else "ok")
                    server.now += 1
                    server.most = max(server.most, server.now)
                try:
                    server.released.wait(server.delay_s)
                    self.answer(body, word)
                finally:
                    with server.lock:
                        server.now -= 1

            def answer(self, body: dict[str, Any], word: str) -> None:
                if word == "hang":
                    server.released.wait(30)
                    return self.drop()
                if word == "drop":
                    return self.drop()
                if word.split(":")[0].split("-")[0].isdigit():
                    return self.refuse(word)
                if word == "error-200":
                    return self.send(200, json.dumps({"error": {"message": "upstream is away"}}))
                if word == "bare-error-200":
                    return self.send(200, json.dumps({"object": "error", "message": "upstream is away", "code": 502}))
                if word == "page-200":
                    return self.send(200, "<html>\n<title>upstream is away</title>")
                text = json.dumps(server.payload(body, word))
                if word == "broken":
                    return self.send(200, text[: len(text) // 2])
                if word == "half":
                    self.send(200, text[: len(text) // 2], announced=len(text))
                    return self.drop()
                self.send(200, text)
                if word in ("ok", "no-usage"):
                    said = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
                    with server.lock:
                        server.acknowledged[said] += 1
                return None

            def refuse(self, word: str) -> None:
                status, _, wait = word.partition(":")
                key = self.headers.get("Authorization", "")
                said = f"no: {key}"
                if status == "400-length":
                    status, said = "400", server.too_long
                error = {"message": said}
                if status == "429-quota":
                    status, error = "429", {"message": "You exceeded it", "code": "insufficient_quota"}
                self.send(int(status), json.dumps({"error": error}), {"Retry-After": wait} if wait else {})

            def send(
                self, status: int, text: str, headers: dict[str, str] | None = None, announced: int | None = None
            ) -> None:
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(announced or len(data)))
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def drop(self) -> None:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)

        return Handler
