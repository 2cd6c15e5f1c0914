"""A scripted model, a search and a recipe of the loop `listen`, and the same loop written plainly."""

from __future__ import annotations

import hashlib
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from generate.engines.base import Call, Completion
from tests.loops.retrieval import toml_value
from tests.loops.scripted import ScriptedEngine, rows, run_scripted

WORDS = ["river", "stone", "King", "Queen", "north", "ship", "gold", "sea", "hill", "Moon", "wolf"]
RECIPE = """
name = "listening"
seed = 7
[data]
dataset = "examples"
path = "examples.jsonl"
[engine]
kind = "openai"
model = "rule"
base_url = "http://127.0.0.1:9/v1"
[answers]
kind = "label"
labels = ["supported", "refuted"]
[search.wiki]
kind = "function"
rule = "mine.py:wiki"
[score.three]
kind = "function"
rule = "mine.py:meaning"
"""
LISTEN = """
[[loop]]
pool = "heard"
kind = "listen"
search = "wiki"
prompt = "extract.txt"
check_prompt = "check.txt"
max_tokens = 20
"""
VERDICT = """
[[loop]]
pool = "asked"
kind = "verdict"
prompt = "verdict.txt"
max_tokens = 20
"""
PROMPTS = {
    "extract.txt": "Extract {{revealed}} | {{sentence}} | {{claims}}\n",
    "revise.txt": "Revise {{question}} | {{claims}}\n", "query.txt": "Query {{claim}}\n",
    "filter.txt": "Filter {{claim}} | {{passages}}\n", "check.txt": "Check {{claim}} | {{evidence}}\n",
    "match.txt": "Match {{claim}} | {{error}}\n", "verdict.txt": "Verdict {{revealed}} | {{passages}}\n",
}  # fmt: skip
MINE = """
import zlib

def wiki(query):
    return [f"{query} {i} {zlib.crc32(f'{query}{i}'.encode()) % 97}" for i in range(zlib.crc32(query.encode()) % 9)]

def meaning(pairs):
    return [zlib.crc32(f"{one}~{other}".encode()) % 3 - 1 for one, other in pairs]
"""
_FUNCTIONS: dict[str, Any] = {}
exec(MINE, _FUNCTIONS)  # the plain loop calls what the recipe's file has


def write_listening(
    folder: Path, seed: int = 0, texts: list[str] | None = None, loop: str = LISTEN, **keys: Any
) -> Path:
    """A recipe of a loop with these keys and its texts, in a folder. By default some texts of short sentences."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, prompt in PROMPTS.items():
        (folder / name).write_text(prompt, encoding="utf-8")
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    if texts is None:
        texts = [" ".join(_sentence(rng) for _ in range(rng.integers(1, 4))) for _ in range(4)]
    rows = [{"example_id": f"t{i}", "question": text, "gold": "refuted" if i % 2 else "supported",
             "gold_error": bool(i % 2), "error": f"{WORDS[i % 5]} is gold" if i % 2 else None}
            for i, text in enumerate(texts)]  # fmt: skip
    pl.DataFrame(rows, schema_overrides={"error": pl.String}).write_ndjson(folder / "examples.jsonl")
    lines = (f"{key} = {toml_value(one)}\n" for key, one in keys.items())
    path = folder / "listening.toml"
    path.write_text(RECIPE + loop + "".join(lines), encoding="utf-8")
    return path


def _sentence(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(WORDS, rng.integers(1, 6))) + rng.choice([".", "?", '!"', ""])


def say(prompt: str) -> Completion:
    """What the scripted model says of a prompt."""
    drawn = hashlib.sha256(prompt.encode()).digest()
    pick = WORDS[drawn[1] % 5]
    kind = prompt.split()[0]
    if kind in ("Extract", "Revise"):
        text = "NULL" if drawn[0] % 3 == 0 else f"- {pick} is {WORDS[drawn[2] % 3]}\n2. {WORDS[drawn[3] % 5]} is gold"
    elif kind == "Query":
        text = "" if drawn[0] % 5 == 0 else f"{pick} {drawn[2] % 4}\nmore"
    elif kind == "Filter":
        text = (
            f"{pick} holds" if drawn[0] % 2 else f"kept {drawn[2] % 3}\nRecommended next query: {pick} {drawn[3] % 7}"
        )
    elif kind == "Match":
        text = "Yes." if drawn[0] % 2 else "no"
    else:
        text = ("Not enough information", "Incorrect. No.", "Correct", "hm", "not enough, though correct")[drawn[0] % 5]
        text += f" (confidence: {drawn[1] % 11 / 10})"
    count = len(text.split())
    return Completion(text, None, [-drawn[4] / 100] * count, None, len(prompt.split()), count, False, "stop", 0.01, 0.0)


class Scripted(ScriptedEngine):
    """The scripted model."""

    def reply(self, call: Call, seed: int, temperature: float) -> Completion:
        return say(str(call.prompt))


go = partial(run_scripted, Scripted)
checks_of = partial(rows, table="checks")
"""The checks without their seconds."""


class Plain:
    """The loop written plainly, for one text."""

    def __init__(self, text: str, error: str | None, has_error: bool, **keys: Any):
        self.keys = {"every": "sentences", "claims": None, "max_rounds": 4, "revisions": 4, "top": 5, "sees": "claims",
                     "confidence": "token", "match": "equal", "extract": "model", "one_shot": False} | keys  # fmt: skip
        self.text, self.error, self.has_error = text, error, has_error
        self.claims: list[str] = []
        self.verdicts: dict[str, str] = {}
        self.rows: list[dict[str, Any]] = []
        self.number = self.calls = 0

    def ask(self, prompt: str) -> str:
        self.calls += 1
        self.last = say(prompt)
        return self.last.text

    def shown(self) -> str:
        if self.keys["sees"] == "verdicts":
            return "\n".join(f"{one} ({self.verdicts.get(one, 'not_enough')})" for one in self.claims)
        return "\n".join(self.claims)

    def parsed(self, reply: str) -> list[str]:
        lines = [line.removeprefix("- ").removeprefix("2. ") for line in reply.split("\n")]
        return [] if lines == ["NULL"] else lines

    def run(self) -> list[dict[str, Any]]:
        words = self.text.split()
        spans = [match.end() for match in re.finditer(r"\S+", self.text)]
        ends = [i + 1 for i, word in enumerate(words) if word[-1] in ".?!" or word[-2:] == '!"']
        ends += [len(words)] if len(words) not in ends else []
        every = self.keys["every"]
        places = {"sentences": ends, "end": [len(words)]}.get(every)
        places = places or [p for p in range(1, len(words) + 1) if p % every == 0 or p == len(words)]
        for place in places if words else []:
            unit = next(i for i, end in enumerate(ends) if place <= end)
            first = ends[unit - 1] if unit else 0
            inside = words[first : ends[unit]]
            of_unit = {"unit": unit, "unit_words": len(inside)} if every != "end" else {}
            batch: list[tuple[str, int]] = []
            again = ""
            while True:
                if self.keys["extract"] == "sentences":
                    sentence = " ".join(inside)
                    if place in ends and sentence not in self.claims:
                        self.claims.append(sentence)
                        batch.append((sentence, 0))
                    batch.append(("", 0))
                    break
                limit = self.keys["claims"] or 1_000
                if len(self.claims) >= limit:
                    break
                begun = " ".join(words[first:place])
                reply = self.ask(f"Extract {self.text[: spans[place - 1]]} | {begun} | {self.shown()}")
                some = self.parsed(reply)
                some = some if self.keys["one_shot"] else some[:1]
                new = [one for i, one in enumerate(some) if one not in self.claims and one not in some[:i]]
                room = limit - len(self.claims)
                batch += [(one, 1 if i == 0 else 0) for i, one in enumerate(new[:room])]
                self.claims += new[:room]
                if len(new) > room:
                    break
                again = "" if new or not some else some[0]
                if self.keys["one_shot"] or not new:
                    batch.append(("", 0 if new else 1))
                    break
            numbered = [(self.next(), claim, paid) for claim, paid in batch]
            for number, claim, paid in numbered:
                self.check(number, claim, paid, "stream", place, of_unit, again)
        for _ in range(self.keys["revisions"] if words and "revise_prompt" in self.keys else 0):
            number = self.next()
            some = self.parsed(self.ask(f"Revise {self.text} | {self.shown()}"))[:1]
            claim = some[0] if some and some[0] not in self.claims else ""
            self.claims += [claim] if claim else []
            self.check(number, claim, 1, "revision", len(words), {}, "".join(some))
            if not claim:
                break
        return self.rows

    def next(self) -> int:
        self.number += 1
        return self.number - 1

    def matches(self, claim: str) -> bool:
        if not self.has_error:
            return False
        if self.keys["match"] == "equal":
            return claim == self.error
        if self.keys["match"] == "prompt":
            return say(f"Match {claim} | {self.error}").text == "Yes."
        return _FUNCTIONS["meaning"]([(claim, self.error)]) == [1]

    def check(
        self, number: int, claim: str, paid: int, stage: str, place: int, unit: dict[str, Any], again: str
    ) -> None:  # fmt: skip
        base = {"claim": number, "stage": stage, "position": place, "unit": None, "unit_words": None} | unit
        if not claim:
            empty = {"round": 0, "verdict": "none", "queries": 0, "matches_error": None, "confidence": None}
            self.rows.append(base | empty | {"calls": paid, "claim_text": again or None})
            self.verdicts[""] = "none"
            return
        query, seen, evidence = "", 0, list[str]()
        for number_of_round in range(self.keys["max_rounds"]):
            calls = paid if number_of_round == 0 else 0
            if not query:
                query = claim
                if "query_prompt" in self.keys:
                    query, calls = self.ask(f"Query {claim}").split("\n")[0] or claim, calls + 1
            passages = _FUNCTIONS["wiki"](query)[seen : seen + self.keys["top"]]
            seen, following = seen + self.keys["top"], ""
            if "filter_prompt" in self.keys:
                reply = self.ask(f"Filter {claim} | " + "\n\n".join(passages)).split("\nRecommended next query: ")
                calls, passages, following = calls + 1, reply[:1], reply[1] if len(reply) > 1 else ""
            evidence += [one for one in passages if one not in evidence]
            said = self.ask(f"Check {claim} | " + "\n\n".join(evidence))
            verdict = "not_enough"
            if said.startswith(("Incorrect", "Correct")):
                verdict = "refuted" if said.startswith("I") else "supported"
            stated: float | None = float(said.split("confidence: ")[1].rstrip(")"))
            first: float | None = math.exp(self.last.token_logprobs[0])  # type: ignore[index]
            if said.startswith("hm"):
                first = stated = None
            self.rows.append(base | {
                "round": number_of_round, "verdict": verdict, "queries": 1, "calls": calls + 1, "claim_text": claim,
                "matches_error": self.matches(claim),
                "confidence": first if self.keys["confidence"] == "token" else stated,
            })  # fmt: skip
            self.verdicts[claim] = verdict
            if verdict != "not_enough":
                break
            if following and following != query:
                query, seen = following, 0


def plain_verdicts(text: str, **keys: Any) -> list[dict[str, Any]]:
    """The traces of the loop `verdict` on one text, written plainly."""
    words, spans = text.split(), [match.end() for match in re.finditer(r"\S+", text)]
    every, traces = keys.get("every", "end"), list[dict[str, Any]]()
    for place in range(1, len(words) + 1):
        ends = (
            re.search(r"[.!?][\"')]*$", words[place - 1])
            if every == "sentences"
            else every != "end" and place % every == 0
        )
        if not (ends or place == len(words)):
            continue
        revealed, query, passages, asked = text[: spans[place - 1]], "", list[str](), list[str]()
        if "search" in keys:
            query = revealed.strip()
            if "query_prompt" in keys:
                asked.append(f"Query {query}")
                query = say(asked[0]).text.split("\n")[0] or query
            passages = _FUNCTIONS["wiki"](query)[: keys.get("top", 10)]
        asked.append(f"Verdict {revealed} | " + "\n\n".join(passages))
        reply = say(asked[-1])
        label = {"I": "refuted", "C": "supported"}.get(reply.text[0])
        sure = math.exp(reply.token_logprobs[0])  # type: ignore[index]
        if keys.get("confidence") == "stated":
            sure = float(reply.text.split("confidence: ")[1].rstrip(")"))
        score = {"refuted": sure, "supported": 1 - sure, None: 0.0}[label]
        traces.append({"sample_index": len(traces), "position": None if every == "end" else place, "text": reply.text,
                     "answer": label, "score": score, "calls": len(asked),
                     "prompt_tokens": sum(len(one.split()) for one in asked)})  # fmt: skip
    return traces
