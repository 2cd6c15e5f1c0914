"""A real engine without weights: a rule that answers sums, deterministic in prompt, seed and temperature.

`RuleEngine` runs it in this process; `Server` serves it over HTTP and counts what it is asked, `HttpEngine` asks there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import polars as pl

from generate.engines.base import Call, CallFailure, CallQueue, Completion, Outcome

RECIPE = """
name = "sums"
seed = 7
[data]
dataset = "examples"
path = "examples.jsonl"
[engine]
kind = "openai"
model = "rule"
base_url = "http://127.0.0.1:9/v1"
[answers]
kind = "number"
read = ["answer is"]
[finalizer]
prompt = "last.txt"
tail = 40
[[sample]]
pool = "probe"
prompt = "ask.txt"
max_tokens = 64
[[sample]]
pool = "votes"
prompt = "ask.txt"
samples = 3
temperature = { low = 0.3, high = 0.7, step = 0.2 }
max_tokens = 64
logprobs = 4
[[revise]]
pool = "again"
action = "self_correct"
of = "probe"
prompt = "again.txt"
rollouts = 2
temperature = 0.5
max_tokens = 32
"""
URL = 'base_url = "http://127.0.0.1:9/v1"\n'
LOCAL = RECIPE.replace(URL, "")
"""The recipe without a server's address, for engines in this process."""
CHAINED = (
    RECIPE
    + """joined = true
[[revise]]
pool = "third"
action = "critique_repair"
of = "again"
of_sample = 1
prompt = "again.txt"
temperature = 0.9
max_tokens = 32
"""
)
"""Three steps after one another, of which the second goes on where the first stops."""
PROMPTS = {
    "ask.txt": "Sum: {{question}}\n",
    "again.txt": "{{prompt}}\n{{attempt}}\nThat may be wrong ({{answer}}). Sum again: {{question}}\n",
    "last.txt": "{{question}} ends in: {{tail}}\nLast line:\n",
}


def write_recipe(folder: Path, examples: int = 6, text: str = RECIPE) -> Path:
    """A recipe of sums with its prompts and examples, in a folder."""
    for name, prompt in PROMPTS.items():
        (folder / name).write_text(prompt, encoding="utf-8")
    rows = [
        {"example_id": f"s{i:03d}", "question": f"{i} + {3 * i + 1}", "gold": str(4 * i + 1)} for i in range(examples)
    ]
    pl.DataFrame(rows).write_ndjson(folder / "examples.jsonl")
    path = folder / "sums.toml"
    path.write_text(text, encoding="utf-8")
    return path


def reply(prompt: str, seed: int, temperature: float, logprobs: int) -> Completion:
    """The rule: a sum that is right, off by one, or not stated at all, as the digest of what was asked decides."""
    drawn = hashlib.sha256(f"{prompt}|{seed if temperature else 0}|{temperature}".encode()).digest()
    first, second = map(int, re.findall(r"(\d+) \+ (\d+)", prompt)[-1])
    total = first + second + (drawn[0] % 3 == 0)
    ends = prompt.endswith("Last line:") or drawn[1] % 4 != 0
    text = f"{first} and {second} make {total}." + (f" The answer is {total}." if ends else "")
    tokens = len(text.split())
    return Completion(
        text=text,
        token_ids=None,
        token_logprobs=tuple(-0.25 for _ in range(logprobs)) if logprobs else None,
        sum_logprob=-0.25 * tokens,
        prompt_tokens=len(prompt.split()),
        completion_tokens=tokens,
        tokens_estimated=False,
        finish_reason="stop" if ends else "length",
        latency_s=0.01,
        device_s=0.005,
    )


class RuleEngine:
    """The rule, in this process. `fail` may name an outcome for a call in place of the rule's."""

    name, model = "rule", "rule"

    def __init__(self, fail: Callable[[Call], CallFailure | None] = lambda _: None):
        self.fail, self.calls, self.closed = fail, [], False

    def describe(self) -> dict[str, object]:
        return {"device": "cpu"}

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        for call in reversed(calls):
            self.calls.append(call)
            failure = self.fail(call)
            yield call, failure if failure is not None else answers(call)

    def close(self) -> None:
        self.closed = True


def answers(call: Call) -> tuple[Completion, ...]:
    text = call.prompt if isinstance(call.prompt, str) else call.prompt[-1].content
    pairs = zip(call.seeds, call.temperatures, strict=True)
    return tuple(reply(text, seed, temperature, call.logprobs) for seed, temperature in pairs)


class ShuffledEngine(CallQueue):
    """The rule, as a queue that answers in an order of its own. `at`: called with each request, and with each answer
    when further ones are asked for.
    """

    name, model = "rule", "rule"

    def __init__(self, seed: int = 0, at: Callable[[str, Call], None] = lambda *_: None):
        self.rng, self.at = random.Random(seed), at
        self.waiting: list[Call] = []
        self.given: list[Call] = []
        self.calls: list[Call] = []
        self.most = 0

    def describe(self) -> dict[str, object]:
        return {"device": "cpu"}

    def submit(self, call: Call) -> None:
        self.waiting.append(call)
        self.calls.append(call)
        self.most = max(self.most, len({one.key.partition("/")[0] for one in self.waiting}))
        self.at("asked", call)

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        for call in self.given:
            self.at("answered", call)
        self.given = []
        for _ in range(self.rng.randrange(1, 4)):
            if self.waiting:
                self.given.append(self.waiting.pop(self.rng.randrange(len(self.waiting))))
                yield self.given[-1], self.outcome(self.given[-1])

    def outcome(self, call: Call) -> Outcome:
        """What it answers a call."""
        return answers(call)

    def cancel(self, call: Call) -> None:
        self.waiting = [one for one in self.waiting if one.key != call.key]

    def close(self) -> None:
        """Nothing is held."""


class HttpEngine(CallQueue):
    """The rule, asked over HTTP by four threads; what they asked has a place until its answer was taken."""

    name, model = "rule over http", "rule"

    def __init__(self, url: str):
        self.url = url
        self.pool = ThreadPoolExecutor(4)
        self.pending: list[Call] = []
        self.futures: set[Future[tuple[Call, Outcome]]] = set()

    def describe(self) -> dict[str, object]:
        return {"url": self.url}

    def submit(self, call: Call) -> None:
        self.pending.append(call)
        self._fill()

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        self._fill()
        done = wait(self.futures, return_when=FIRST_COMPLETED).done if self.futures else set()
        for one in done:
            yield one.result()
            self.futures.discard(one)

    def cancel(self, call: Call) -> None:
        self.pending = [one for one in self.pending if one.key != call.key]

    def _fill(self) -> None:
        while self.pending and len(self.futures) < 4:
            self.futures.add(self.pool.submit(self._ask, self.pending.pop(0)))

    def _ask(self, call: Call) -> tuple[Call, Outcome]:
        asked = urllib.request.Request(self.url, json.dumps(asdict(call)).encode(), {"Asker": str(os.getpid())})
        try:
            with urllib.request.urlopen(asked, timeout=30) as response:
                rows = json.load(response)
        except urllib.error.HTTPError as error:
            return call, CallFailure(error.reason, retryable=False)
        for row in rows:
            row["token_logprobs"] = row["token_logprobs"] and tuple(row["token_logprobs"])
        return call, tuple(Completion(**row) for row in rows)

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)


class Server:
    """Serves the rule on a local port after a little while, which is another for each call, so that answers come in
    another order than calls; and refuses for good what is of the example `refused`.

    `asked`: the keys of all calls; `askers`: who sent them.

    A killed process may be heard after its end, from what the network still holds: so calls are counted by sender.
    """

    def __init__(self, delay_s: float, refused: str | None = None):
        self.asked: list[str] = []
        self.askers: list[int] = []
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.askers.append(int(self.headers["Asker"]))
                    outer.asked.append(given["key"])
                time.sleep(delay_s * (zlib.crc32(given["key"].encode()) % 4))
                if given["key"].partition("/")[0] == refused:
                    with contextlib.suppress(OSError):
                        self.send_error(400, "the prompt is too long")
                    return
                call = Call(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
                body = json.dumps([asdict(one) for one in answers(call)]).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:  # the one who asked was killed
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A killed client resets its connections."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Server:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Letters:
    """A real embedder: counts of the letters a to z."""

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=float)

    def describe(self) -> dict[str, object]:
        return {"model": "letters"}
