"""A scripted model, a corpus and a recipe of the loop `retrieve`, and the same loop written plainly."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections import Counter
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from generate.engines.base import Call, Completion
from generate.recipes.recipe import seed_of
from generate.retrieval.corpus import open_corpus
from tests.loops.scripted import ScriptedEngine, rows, run_scripted

WORDS = ["river", "stone", "king", "queen", "north", "south", "ship", "gold", "sea", "hill", "moon", "wolf"]
RECIPE = """
name = "retrieval"
seed = 7
[data]
dataset = "examples"
path = "examples.jsonl"
[engine]
kind = "openai"
model = "rule"
base_url = "http://127.0.0.1:9/v1"
[answers]
kind = "text"
read = ["answer is"]
[search.wiki]
kind = "passages"
path = "wiki"
[search.run]
kind = "run"
path = "run.txt"
[score.cross]
kind = "function"
rule = "mine.py:relevance"
[score.three]
kind = "function"
rule = "mine.py:meaning"
[score.judge]
kind = "function"
rule = "mine.py:verdict"
[[loop]]
pool = "rounds"
kind = "retrieve"
corpus = "wiki"
scorer = "cross"
prompt = "read.txt"
max_tokens = 20
"""
PROMPTS = {"read.txt": "Read {{sub_question}}\n{{passages}}\n", "split.txt": "Split {{question}}\n{{path}}"}
MINE = """
import zlib

def relevance(pairs):
    return [zlib.crc32(f"{one}|{other}".encode()) % 9 / 4 - SHIFT for one, other in pairs]

def meaning(pairs):
    return [zlib.crc32(f"{one}~{other}".encode()) % 3 - 1 for one, other in pairs]

def verdict(pairs):
    return [zlib.crc32(f"{one}?{other}".encode()) % 4 / 4 for one, other in pairs]
"""


def write_retrieval(
    folder: Path, seed: int = 0, passages: int = 20, examples: int = 3, shift: float = 0.5, **keys: Any
) -> Path:
    """A recipe of the loop with these keys, its corpus and its questions, in a folder."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, prompt in PROMPTS.items():
        (folder / name).write_text(prompt, encoding="utf-8")
    (folder / "mine.py").write_text(MINE.replace("SHIFT", str(shift)), encoding="utf-8")
    texts = [" ".join(rng.choice(WORDS[:-2], rng.integers(2, 5))) for _ in range(passages)]
    (folder / "wiki").mkdir(exist_ok=True)
    pl.DataFrame({"id": [f"p{i}" for i in rng.permutation(passages)], "text": texts}).write_ndjson(
        folder / "wiki" / "a.jsonl"
    )
    rows = [{"example_id": f"s{i}", "question": " ".join(rng.choice(WORDS, 2)), "gold": "a",
             "gold_documents": [f"p{i}"]} for i in range(examples)]  # fmt: skip
    pl.DataFrame(rows).write_ndjson(folder / "examples.jsonl")
    lines = [f"s{i} Q0 p{j} {j} {-j} x\n" for i in range(examples) for j in range(7)]
    (folder / "run.txt").write_text("".join(lines), encoding="utf-8")
    path = folder / "retrieval.toml"
    path.write_text(RECIPE + "".join(f"{key} = {toml_value(value)}\n" for key, value in keys.items()), encoding="utf-8")
    return path


def toml_value(value: Any) -> str:
    """A value as a recipe has it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(one)}" for key, one in value.items()) + " }"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def say(prompt: str, seed: int, temperature: float) -> Completion:
    """What the scripted model says: a sub-question or that there is none, an answer or none."""
    drawn = hashlib.sha256(f"{prompt}|{seed if temperature else 0}".encode()).digest()
    if prompt.startswith("Split"):
        words = [WORDS[drawn[i] % len(WORDS)] for i in (1, 2)]
        text = "That is all." if drawn[0] % 4 == 0 else f"Yes.\nFollow up: {' '.join(words)}\nSo"
    else:
        name = "bcdef"[min(drawn[0] % 6, drawn[1] % 6, 4)]
        text = "hm" if drawn[2] % 7 == 0 else f"the answer is {name}"
    count = len(text.split())
    return Completion(text, None, None, None, len(prompt.split()), count, False, "stop", 0.01, 0.005)


class Scripted(ScriptedEngine):
    """The scripted model."""

    def reply(self, call: Call, seed: int, temperature: float) -> Completion:
        return say(str(call.prompt), seed, temperature)


go = partial(run_scripted, Scripted)
rounds_of = partial(rows, table="rounds")
"""The rounds without their seconds."""


class Plain:
    """The loop of one example, written plainly, with a counter of requests for the seeds."""

    def __init__(self, folder: Path, example: str, question: str, shift: float = 0.5, **keys: Any):
        self.corpus = open_corpus(folder / "wiki", "wiki")
        self.example, self.question, self.shift, self.number = example, question, shift, 0
        defaults = {"hops": 4, "first": 100, "budget": 100, "batch": 16, "neighbours": 10, "answers": 5,
                    "alternate": "round", "cluster": "equal", "explore": "relevance"}  # fmt: skip
        self.keys = {**defaults, **keys}

    def ask(self, prompt: str, temperature: float, n: int = 1) -> list[Completion]:
        seeds = [seed_of(7, self.example, "rounds", self.number + i) for i in range(n)]
        self.number += n
        return [say(prompt, seed, temperature) for seed in seeds]

    def rows(self) -> list[dict[str, Any]]:
        keys, path, rows, pending = self.keys, "", [], 0
        question = self.question
        if "decompose_prompt" in keys:
            question = self.next_question(path) or question
            pending = 1
        for hop in range(keys["hops"]):
            mine = self.hop(question)
            mine[0]["calls"] += pending
            following = None
            if hop + 1 < keys["hops"] and "decompose_prompt" in keys:
                path += f"Follow up: {question}\nIntermediate answer: {self.answer(mine)}\n"
                following, pending = self.next_question(path), 1
                mine[0]["calls"] += following is None
            rows += [{"hop": hop, "round": i, "sub_question": question, **one} for i, one in enumerate(mine)]
            if following is None:
                break
            question = following
        return rows

    def next_question(self, path: str) -> str | None:
        text = self.ask(f"Split {self.question}\n{path}", 0.0)[0].text
        return text.split("Follow up: ")[1].split("\n")[0] if "Follow up:" in text else None

    def hop(self, question: str) -> list[dict[str, Any]]:
        keys = self.keys
        self.number += 1
        ranked = list(self.corpus.search(question, keys["first"])[0])
        if keys.get("search") == "run":
            ranked = [f"p{j}" for j in range(7)]
        read: set[str] = set()
        parents: list[tuple[float, str]] = []
        rounds: list[dict[str, Any]] = []
        firsts: list[str] = []
        self.known: set[str] = set()
        self.pairs: set[frozenset[str]] = set()
        turn = "first"
        while len(read) < keys["budget"]:
            sides = {"first": [one for one in ranked if one not in read], "near": self.near(parents, read)}
            if not sides["first"] and not sides["near"]:
                break
            if not sides[turn]:
                turn = "near" if turn == "first" else "first"
            batch = sides[turn][: min(keys["batch"], keys["budget"] - len(read))]
            rounds.append(self.round(question, batch, ranked if turn == "first" else None, firsts))
            read.update(batch)
            factor = self.factors(rounds)[-1]
            for name, value in zip(batch, rounds[-1]["relevance"], strict=True):
                parents.append((value * factor, name))
            if keys["alternate"] == "round":
                turn = "near" if turn == "first" else "first"
        empty = {"documents": [], "relevance": [], "retrieval_rank": [], "answers": [], "clusters": [], "calls": 0}
        return rounds or [empty]

    def near(self, parents: list[tuple[float, str]], read: set[str]) -> list[str]:
        best: dict[str, tuple[float, int]] = {}
        for score, name in parents:
            (names,) = self.corpus.neighbours([name], self.keys["neighbours"]) if self.keys["neighbours"] else ((),)
            for place, other in enumerate(names):
                if other not in read:
                    best[other] = min(best.get(other, (math.inf, 0)), (-score, place))
        return sorted(best, key=lambda name: (best[name], name))

    def round(self, question: str, batch: list[str], ranked: list[str] | None, firsts: list[str]) -> dict[str, Any]:
        texts = self.corpus.texts(batch)
        relevance = [zlib.crc32(f"{question}|{one}".encode()) % 9 / 4 - self.shift for one in texts]
        self.number += 1
        body = "\n\n".join(texts)
        replies = self.ask(f"Read {question}\n{body}", 0.7, self.keys["answers"])
        answers = [one.text[-1] for one in replies if one.text != "hm"]
        judged, distinct = self.keys.get("meaning") is not None, list(dict.fromkeys(answers))
        new = [answer for answer in distinct if answer not in self.known]
        pairs = {frozenset(pair) for pair in combinations(distinct, 2)} | {
            frozenset((a, f)) for a in new for f in firsts
        }
        if judged and not pairs <= self.pairs:
            self.number += 1
        self.pairs |= pairs
        self.known |= set(distinct)
        clusters = []
        for answer in answers:
            joined = [i for i, first in enumerate(firsts) if self.same(question, answer, first)]
            clusters.append(joined[0] if joined else len(firsts))
            if not joined:
                firsts.append(answer)
        row = {"documents": batch, "relevance": relevance, "answers": answers, "clusters": clusters,
               "retrieval_rank": [None if ranked is None else ranked.index(one) for one in batch],
               "calls": self.keys["answers"]}  # fmt: skip
        if judged:
            row["contradictions"] = sum(
                -1 in (self.verdict(question, a, b), self.verdict(question, b, a)) for a, b in combinations(distinct, 2)
            )
        if "verifier" in self.keys:
            self.number += 1
            row["answer_scores"] = [zlib.crc32(f"{question}?{one}".encode()) % 4 / 4 for one in answers]
        return row

    def verdict(self, question: str, one: str, other: str) -> int:
        return zlib.crc32(f"{question} {one}~{question} {other}".encode()) % 3 - 1

    def same(self, question: str, answer: str, first: str) -> bool:
        if answer == first or self.keys["cluster"] == "equal":
            return answer == first
        verdicts = {self.verdict(question, answer, first), self.verdict(question, first, answer)}
        return verdicts == {1} if self.keys["cluster"] == "entail" else -1 not in verdicts

    def frontiers(self, rounds: list[dict[str, Any]]) -> list[dict[int, float]]:
        """The frontier after each round: clusters with their support."""
        keys = self.keys["explore"] if isinstance(self.keys["explore"], dict) else {}
        most, frontier, out = keys.get("frontier", 2), {}, []
        for one in rounds:
            counts: Counter = Counter()
            weights = one["answer_scores"] if keys.get("weights") else [1] * len(one["clusters"])
            for cluster, weight in zip(one["clusters"], weights, strict=True):
                counts[cluster] += weight
            top = sorted(counts, key=lambda c: (-counts[c], c))[:most]
            if top and keys.get("frontier_of") == "round":
                frontier = {c: counts[c] for c in top}
            for cluster in top if keys.get("frontier_of") != "round" else ():
                if cluster in frontier:
                    before = 0 if keys.get("support") == "last" else frontier[cluster]
                    frontier[cluster] = before + counts[cluster]
                elif len(frontier) < most:
                    frontier[cluster] = counts[cluster]
                else:
                    weakest = min(frontier, key=lambda c: (frontier[c], -c))
                    if counts[cluster] > frontier[weakest]:
                        del frontier[weakest]
                        frontier[cluster] = counts[cluster]
            out.append(dict(frontier))
        return out

    def factors(self, rounds: list[dict[str, Any]]) -> list[float]:
        keys = self.keys["explore"]
        if not isinstance(keys, dict):
            return [1.0] * len(rounds)
        out = []
        for one, frontier in zip(rounds, self.frontiers(rounds), strict=True):
            counts = Counter(one["clusters"])
            if not one["answers"]:
                out.append(1.0)
            elif keys.get("penalty"):
                pairs = set(zip(one["answers"], one["clusters"], strict=True))
                apart = sum(a[1] != b[1] for a, b in combinations(pairs, 2))
                out.append(2 / max(1, one.get("contradictions", apart)))
            else:
                leader = min(frontier, key=lambda c: (-frontier[c], c))
                weights = one["answer_scores"] if keys.get("weights") else [1] * len(one["clusters"])
                sums: Counter = Counter()
                for cluster, weight in zip(one["clusters"], weights, strict=True):
                    sums[cluster] += weight
                top = min(sums, key=lambda c: (-sums[c], c))
                shares = [count / counts.total() for count in counts.values()]
                reward = keys.get("reward", "single")
                held = {"single": len(frontier) == 1, "aligned": top == leader}.get(
                    str(reward), -sum(p * math.log(p) for p in shares) <= 0.7 + 1e-9
                )
                out.append(keys.get("multiplier", 2.0) if held else 1.0)
        return out

    def answer(self, rounds: list[dict[str, Any]]) -> str:
        frontier = self.frontiers(rounds)[-1] if rounds[0]["documents"] else {}
        if not frontier:
            return "unknown"
        leader = min(frontier, key=lambda c: (-frontier[c], c))
        pairs = [pair for one in rounds for pair in zip(one["clusters"], one["answers"], strict=True)]
        return next(answer for cluster, answer in pairs if cluster == leader)
