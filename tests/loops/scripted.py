"""A scripted engine, a recipe with every loop that ships and one of a user's, and the same loops written plainly."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from generate.engines.base import Call, CallFailure, Completion, Outcome
from generate.recipes.recipe import load_recipe, seed_of
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from tests.generate.test_queue import Moments
from tests.generate.toy import ShuffledEngine
from tests.loops.mine import lookup, score
from toolkit.log import Log, collect

HEAD = """
name = "loops"
seed = 7
[data]
dataset = "examples"
path = "examples.jsonl"
[engine]
kind = "openai"
model = "rule"
base_url = "http://127.0.0.1:9/v1"
[engines.checker]
kind = "openai"
model = "checker"
base_url = "http://127.0.0.1:8/v1"
[answers]
kind = "number"
read = ["answer is"]
[score.size]
kind = "function"
rule = "mine.py:score"
[score.judge]
kind = "judge"
prompt = "judge.txt"
engine = "checker"
read = "number"
[search.lookup]
kind = "function"
rule = "mine.py:lookup"
[search.passages]
kind = "passages"
path = "passages.jsonl"
"""
FORCING = '[[loop]]\npool = "forced"\nkind = "forcing"\nprompt = "ask.txt"\nmax_tokens = 20\nwaits = 2\n'
REVISING = """[[loop]]
pool = "revised"
kind = "revise"
prompt = "ask.txt"
revise_prompt = "again.txt"
verifier = "judge"
content = 0.6
temperature = 0.5
max_tokens = 20
"""
BEAM = """[[loop]]
pool = "beam"
kind = "beam"
prompt = "ask.txt"
scorer = "size"
width = 2
expand = 2
steps = 3
max_tokens = 20
"""
TOOLS = """[[loop]]
pool = "tools"
kind = "tools"
prompt = "ask.txt"
tools = ["lookup", "passages"]
samples = 2
temperature = 0.5
max_tokens = 20
"""
OWN = '[[loop]]\npool = "own"\nrule = "mine.py:Twice"\nprompt = "ask.txt"\nmost = 5\n'
ALL = HEAD + FORCING + REVISING + BEAM + TOOLS + OWN
PROMPTS = {
    "ask.txt": "Sum: {{question}}\n",
    "again.txt": "Sum: {{question}}\n{{attempt}} ({{answer}}, {{score}}) is wrong.\n",
    "judge.txt": "Judge {{question}}: {{attempt}} ({{answer}})\n",
}
SECONDS = ("latency_s", "device_s", "started_s", "arrived_s")


def write_loops(folder: Path, text: str = ALL, examples: int = 3) -> Path:
    """A recipe with its prompts, examples, passages and functions, in a folder."""
    for name, prompt in PROMPTS.items():
        (folder / name).write_text(prompt, encoding="utf-8")
    shutil.copy(Path(__file__).with_name("mine.py"), folder / "mine.py")
    rows = [{"example_id": f"s{i:03d}", "question": f"{i} + {3 * i + 1}", "gold": str(4 * i + 1)}
            for i in range(examples)]  # fmt: skip
    pl.DataFrame(rows).write_ndjson(folder / "examples.jsonl")
    passages = [{"id": f"p{i}", "title": f"the {i}", "text": f"{i} and {i + 1} are {2 * i + 1}"} for i in range(9)]
    pl.DataFrame(passages).write_ndjson(folder / "passages.jsonl")
    path = folder / "loops.toml"
    path.write_text(text, encoding="utf-8")
    return path


def say(prompt: str, seed: int, temperature: float, stop: Sequence[str]) -> Completion:
    """What the scripted model says: a sum, often wrong; a step of one; a call of a tool; a judgement."""
    drawn = hashlib.sha256(f"{prompt}|{seed if temperature else 0}".encode()).digest()
    first, second = map(int, re.findall(r"(\d+) \+ (\d+)", prompt)[-1])
    if prompt.startswith("Judge"):
        text = f"{drawn[0] / 255:.2f}"
    elif "</lookup>" in stop and drawn[0] % 3:
        text = f"I look. <{('lookup', 'passages')[drawn[1] % 2]}>{first} and {second}"
    elif stop == ("\n",):
        text = "" if drawn[0] % 5 == 0 else f"step {drawn[1] % 7}, the answer is {first + second}."
    else:
        text = f"{first} and {second}. The answer is {first + second + drawn[0] % 3}."
    count = len(text.split())
    return Completion(text, None, None, -0.5 * count, len(prompt.split()), count, False, "stop", 0.01, 0.005)


class ScriptedEngine(ShuffledEngine):
    """A scripted model, which answers in an order of its own. fail: keys of calls that are refused for good."""

    fail: frozenset[str] = frozenset()

    def outcome(self, call: Call) -> Outcome:
        if call.key in self.fail:
            return CallFailure("no", retryable=False, cause="400")
        return tuple(self.reply(call, *drawn) for drawn in zip(call.seeds, call.temperatures, strict=True))

    def reply(self, call: Call, seed: int, temperature: float) -> Completion:
        raise NotImplementedError


def run_scripted(
    model: type[Any],
    recipe: Path,
    out: Path,
    seed: int = 1,
    at: Callable[[str, Call], None] = lambda *_: None,
    *,
    settings: Sequence[str] = (),
    fail: frozenset[str] = frozenset(),
    engines: list[Any] | None = None,
    **options: Any,
) -> Log:
    """The log of a run in which every engine is one of a scripted `model`; `engines` takes those that were opened."""

    def opened(_: object) -> Any:
        engine = model(seed, at)
        engine.fail = fail
        if engines is not None:
            engines.append(engine)
        return engine

    return generate(make_plan(load_recipe(recipe, settings)), out, opened, **options).log


def check_kills(go: Callable[..., Log], table: Callable[[Log], pl.DataFrame], recipe: Path, folder: Path) -> None:
    """Checks that a run which is killed at any request ends with the same table, and asks no answered request again."""
    moments = Moments(folder / "log", folder / "copies", set(), [])
    whole = table(go(recipe, folder / "log", 1, moments))
    assert len(moments.taken) > 10
    for copy, answered, _ in moments.taken:
        engines: list[ShuffledEngine] = []
        log = go(recipe, copy, 2, engines=engines)
        assert answered.isdisjoint(call.key for engine in engines for call in engine.calls)
        assert table(log).equals(whole)


class Scripted(ScriptedEngine):
    """The scripted model."""

    def reply(self, call: Call, seed: int, temperature: float) -> Completion:
        return say(str(call.prompt), seed, temperature, call.stop)


go = partial(run_scripted, Scripted)
"""The log of a run in which both engines are the scripted model."""


def rows(log: Log, table: str = "traces") -> pl.DataFrame:
    """A table without its seconds."""
    return collect(log.scan(table, list(log.columns(table)))).drop(SECONDS, strict=False)


class Plain:
    """The loops of `ALL`, written plainly, with a counter of requests for the seeds."""

    def __init__(self, pool: str, example: str, question: str):
        self.pool, self.example, self.question, self.number, self.place = pool, example, question, 0, pool
        self.asked: list[str] = []

    def ask(self, prompt: str, temperature: float = 0.0, stop: tuple[str, ...] = (), n: int = 1) -> list[Completion]:
        replies = []
        for i in range(self.number, self.number + n):
            replies.append(say(prompt, seed_of(7, self.example, self.place, i), temperature, stop))
        self.asked.append(f"{self.example}/{self.place}/{self.number}")
        self.number += n
        return replies

    def forced(self) -> list[str]:
        text, texts = "", []
        for _ in range(3):
            text += self.ask(f"Sum: {self.question}" + text)[0].text
            texts.append(text)
            text += "\nWait"
        return texts

    def revised(self) -> list[str]:
        texts, prompt = [], f"Sum: {self.question}"
        for _ in range(4):
            text = self.ask(prompt, 0.5)[0].text
            answer = re.findall(r"answer is (\d+)", text)[-1]
            place, self.place, number = self.place, f"{self.pool}#{self.number}.0", self.number
            self.number = 0
            verdict = float(self.ask(f"Judge {self.question}: {text} ({answer})")[0].text)
            self.place, self.number = place, number + 1
            texts.append(text)
            if verdict >= 0.6:
                break
            prompt = f"Sum: {self.question}\n{text} ({answer}, {verdict:g}) is wrong."
        return texts

    def beam(self) -> list[str]:
        beam = [("", False)]
        for _ in range(3):
            if all(done for _, done in beam):
                break
            grown, together = [], self.number
            for place, (text, done) in enumerate(beam):
                if done:
                    grown.append((text, True))
                    continue
                self.place, self.number = f"beam#{together}.{place}", 0
                for one in self.ask(f"Sum: {self.question}{text}", 0.7, ("\n",), 2):
                    grown.append((text + one.text + "\n" * bool(one.text), not one.text))
            self.place, self.number = "beam", together + 2
            values = score([text for text, _ in grown])
            beam = [grown[i] for i in sorted(range(len(grown)), key=lambda i: -values[i])[:2]]
        return [text for text, _ in beam]

    def tools(self) -> list[str]:
        texts = []
        for sample in range(2):
            self.place, self.number, text = f"tools#0.{sample}", 0, ""
            for turn in range(5):
                part = self.ask(f"Sum: {self.question}{text}", 0.5, ("</lookup>", "</passages>"))[0].text
                text += part
                match = re.search(r"<(lookup|passages)>(.*)$", part)
                if match is None or turn == 4:
                    break
                self.number += 1
                found = lookup(match[2]) if match[1] == "lookup" else self.found(match[2])
                text += f"</{match[1]}>\n<result>\n" + "\n".join(found) + "\n</result>\n"
            texts.append(text)
        return texts

    def found(self, query: str) -> list[str]:
        """The passages that share a number with the query, by BM25 written out."""
        import math

        texts = [f"the {i} {i} and {i + 1} are {2 * i + 1}".split() for i in range(9)]
        mean = sum(map(len, texts)) / 9
        values = []
        for words in texts:
            value = 0.0
            for word in dict.fromkeys(query.split()):
                having = sum(word in other for other in texts)
                idf = math.log(1 + (9 - having + 0.5) / (having + 0.5))
                count = words.count(word)
                value += idf * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * len(words) / mean))
            values.append(value)
        order = sorted(range(9), key=lambda i: -values[i])[:3]
        return [f"the {i}: {i} and {i + 1} are {2 * i + 1}" for i in order if values[i] > 0]
