"""One queue of calls against waves of them: busy slots of a server, a client's processor time, and that of a trace.

A server in a process of its own answers after lognormal seconds that follow from the request. Three chained steps of
1,024 questions at 256 slots are asked through the queue, and step by step in blocks of 256, as was done before; both
must give the same rows. Then 512 connections, through the engine and by aiohttp alone, which must say the same; and
an engine that answers at once, for what a trace costs besides, and one of long answers, for memory. It fails where a
promise is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import multiprocessing
import re
import resource
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from generate.engines import open_engine
from generate.engines.base import Call, CallQueue, Completion, Outcome
from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from toolkit.log import collect

SLOTS, CONNECTIONS, LONGEST = 256, 512, 12.0
LEAST_BUSY, MOST_CLIENT, MOST_TRACE_MS, MOST_MEMORY = 0.9, 2.0, 0.25, 2e9
RECIPE = """
name = "queue"
[data]
dataset = "examples"
path = "examples.jsonl"
[engine]
kind = "openai"
model = "m"
base_url = "http://127.0.0.1:PORT/v1"
concurrency = 256
[answers]
read = ["answer is"]
[[sample]]
pool = "first"
prompt = "ask.txt"
max_tokens = 64
[[revise]]
pool = "second"
action = "again"
of = "first"
prompt = "again.txt"
max_tokens = 64
[[revise]]
pool = "third"
action = "again"
of = "second"
prompt = "again.txt"
max_tokens = 64
"""


def reply(prompt: str, seed: int) -> dict[str, Any]:
    said = hashlib.sha256(f"{prompt}{seed}".encode()).hexdigest()
    choice = {"index": 0, "text": f"word {said}, the answer is {said[:2]}.", "finish_reason": "stop"}
    return {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 12}}


def service_s(prompt: str, seed: int) -> float:
    """Lognormal seconds of mean 1.6 (sigma 1), cut."""
    digest = hashlib.sha256(f"{seed}{prompt}".encode()).digest()
    first, second = (int.from_bytes(digest[i : i + 4], "big") / 2**32 for i in (0, 4))
    normal = math.sqrt(-2 * math.log(first + 1e-12)) * math.cos(2 * math.pi * second)
    return min(LONGEST, math.exp(normal))


def serve(port: Any, events: Any) -> None:
    """A server: a prompt that begins with `slow` takes its seconds. At `/events` the moments of begin (1) and end (-1)
    of the requests since the last time."""
    from aiohttp import web

    seen: list[tuple[float, int]] = []

    async def answer(request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        seen.append((time.monotonic(), 1))
        if body["prompt"].startswith("slow"):
            await asyncio.sleep(service_s(body["prompt"], body["seed"]))
        seen.append((time.monotonic(), -1))
        return web.json_response(reply(body["prompt"], body["seed"]))

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/completions", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        port.value = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        while True:
            await asyncio.sleep(0.05)
            if events.poll():
                events.recv()
                events.send(seen[:])
                seen.clear()

    asyncio.run(run())


def busy(events: Sequence[tuple[float, int]], unfinished_at: float) -> tuple[float, float]:
    """(share of the slots that are busy until a moment, seconds of all)."""
    ordered = sorted(events)
    area, level, last = 0.0, 0, ordered[0][0]
    for at, change in ordered:
        until = min(at, unfinished_at)
        area += level * max(0.0, until - last)
        level, last = level + change, max(last, until)
    return area / SLOTS / (min(unfinished_at, ordered[-1][0]) - ordered[0][0]), ordered[-1][0] - ordered[0][0]


class Waves:
    """The way before: all calls of a step of a block, then those of the next."""

    def __init__(self, engine: Any):
        self.engine, self.name, self.model = engine, engine.name, engine.model
        self.describe, self.run, self.close = engine.describe, engine.run, engine.close


class Instant(CallQueue):
    """Answers at once."""

    name = model = "instant"

    def __init__(self) -> None:
        self.waiting: list[Call] = []
        self.text = "word " * 400 + "the answer is 4."

    def describe(self) -> dict[str, object]:
        return {}

    def submit(self, call: Call) -> None:
        self.waiting.append(call)

    def cancel(self, call: Call) -> None:
        """Nothing is on its way."""

    def close(self) -> None:
        """Nothing is held."""

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        given, self.waiting = self.waiting[:64], self.waiting[64:]
        for call in given:
            one = Completion(self.text, None, None, -1.0, 10, 400, False, "stop", 0.1, None)
            yield call, (one,) * len(call.seeds)


def recipe_in(folder: Path, port: int, questions: int, word: str, text: str = RECIPE) -> Path:
    (folder / "ask.txt").write_text(f"{word} {{{{question}}}}\n")
    (folder / "again.txt").write_text(f"{word} {{{{question}}}} {{{{attempt}}}}\n")
    rows = [{"example_id": f"q{i:04d}", "question": f"number {i}", "gold": "4"} for i in range(questions)]
    pl.DataFrame(rows).write_ndjson(folder / "examples.jsonl")
    path = folder / "queue.toml"
    path.write_text(text.replace("PORT", str(port)))
    return path


def slots(folder: Path, port: int, events: Any, questions: int) -> bool:
    recipe = load_recipe(recipe_in(folder, port, questions, "slow"))
    frames, shares = [], []
    for name, wrap, in_flight in (("one queue", lambda one: one, 512), ("waves of 256", Waves, 256)):
        plan = make_plan(load_recipe(recipe.folder / recipe.file, [f"engine.in_flight={in_flight}"]))
        log = generate(plan, folder / name, lambda one, wrap=wrap: wrap(one.engine.opened(one))).log
        events.send("moments")
        moments = events.recv()
        rows = collect(log.scan("traces")).sort("trace_id")
        frames.append(rows.drop("latency_s", "started_s", "arrived_s"))
        # fewer examples than slots are unfinished once all but so many third steps have ended
        ends = sorted(at for at, change in moments if change < 0)
        third = rows.filter(pl.col("pool") == "third")["arrived_s"].len()
        unfinished_at = ends[-SLOTS] if third == questions else ends[-1]
        share, seconds = busy(moments, unfinished_at)
        shares.append(share)
        print(f"{name}: slots {share:.1%} busy until {SLOTS} requests are left, {seconds:.1f} s")
    assert frames[0].equals(frames[1]), "the two ways differ"
    return shares[0] >= LEAST_BUSY


def client(port: int, calls: int) -> bool:
    """Processor time a call at 512 connections: the engine's, and that of aiohttp alone, by turns."""
    import aiohttp

    url = f"http://127.0.0.1:{port}/v1"
    prompts = [f"quick {i}" for i in range(calls)]
    listed = [Call(f"{i}", prompt, (i,), (1.0,), 64) for i, prompt in enumerate(prompts)]

    async def alone() -> list[str]:
        texts = [""] * calls
        left = iter(range(calls))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def work() -> None:
                for i in left:
                    body = {"model": "m", "max_tokens": 64, "temperature": 1.0, "seed": i, "prompt": prompts[i]}
                    async with session.post(f"{url}/completions", json=body) as response:
                        texts[i] = (await response.json())["choices"][0]["text"]

            await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
        return texts

    spent: dict[str, list[float]] = {"engine": [], "aiohttp": []}
    for _ in range(2):
        began = time.process_time()
        bare = asyncio.run(alone())
        spent["aiohttp"].append(time.process_time() - began)
        engine = open_engine("openai", {"base_url": url, "model": "m", "concurrency": CONNECTIONS})
        began = time.process_time()
        answers = dict(engine.run(listed))
        spent["engine"].append(time.process_time() - began)
        assert [answers[call][0].text for call in listed] == bare, "the two say different things"  # type: ignore[index]
    ours, theirs = (min(spent[name]) / calls * 1e3 for name in ("engine", "aiohttp"))
    print(
        f"{CONNECTIONS} connections: {ours:.2f} ms of processor a call, aiohttp alone {theirs:.2f}:"
        f" {ours / theirs:.2f} times"
    )
    return ours <= MOST_CLIENT * theirs


def overhead(folder: Path, questions: int) -> bool:
    text = re.sub(r'pool = "first"', 'pool = "first"\nsamples = 8', RECIPE)
    plan = make_plan(load_recipe(recipe_in(folder, 9, questions, "quick", text)))
    spent = []
    for turn in range(2):  # what else the machine does costs caches
        began = time.process_time()
        log = generate(plan, folder / f"instant {turn}", lambda _: Instant()).log
        spent.append((time.process_time() - began) / log.rows("traces") * 1e3)
    own = min(spent)
    print(f"{log.rows('traces'):,} traces of 2 kB: {own:.3f} ms of processor a trace, all else than the engine")
    return own <= MOST_TRACE_MS


class Long(Instant):
    """Answers with 16,000 tokens of 60 kB, the last question first: all are open when the first rows can be written."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = array("i", range(50_000, 66_000))
        self.text = " ".join(map(str, self.ids))[:60_000]

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        given, self.waiting = self.waiting[-64:], self.waiting[:-64]
        for call in given:
            text, ids = f"{call.key} {self.text}, the answer is 4.", self.ids[:]
            one = Completion(text, ids, None, -1.0, 10, len(ids), False, "stop", 0.1, None)
            yield call, (one,) * len(call.seeds)


def long_traces(folder: str, traces: int, peak: Any) -> None:
    """Run one step of 64 samples a question; `peak` is told the greatest memory of the process in bytes."""
    first = RECIPE.partition("[[revise]]")[0].replace("max_tokens = 64", "samples = 64\nmax_tokens = 16000")
    plan = make_plan(load_recipe(recipe_in(Path(folder), 9, traces // 64, "long", first)))
    generate(plan, Path(folder) / "long", lambda _: Long())
    peak.value = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory(folder: Path, traces: int = 16_384) -> bool:
    context = multiprocessing.get_context("spawn")
    peak = context.Value("q", 0)
    process = context.Process(target=long_traces, args=(str(folder), traces, peak))
    process.start()
    process.join()
    print(f"{traces:,} open traces of 16,000 tokens: {peak.value / 1e9:.2f} GB at most")
    return process.exitcode == 0 and peak.value <= MOST_MEMORY


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=1024)
    parser.add_argument("--calls", type=int, default=4096)
    chosen = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    port, (here, there) = context.Value("i", 0), context.Pipe()
    server = context.Process(target=serve, args=(port, there), daemon=True)
    server.start()
    while not port.value:
        time.sleep(0.05)
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        kept.append(client(port.value, chosen.calls))
        here.send("moments")
        here.recv()
        kept.append(slots(Path(folder), port.value, here, chosen.questions))
        kept.append(overhead(Path(folder), 2 * chosen.questions))
        kept.append(memory(Path(folder)))
    server.terminate()
    if not all(kept):
        raise SystemExit("a promise is broken")


if __name__ == "__main__":
    main()
