"""Small seeded random logs with everything that goes wrong in real ones, as plain rows and as polars tables.

Ties and equal scores (scores lie on a grid), null answers, answers outside the label space, empty pools,
pools of one trace, gaps, missing verifications, null costs and absent columns, open answers beside labelled
ones, unjudged examples, opaque answers, some of them beside others in a pool, contested verdicts, pools without
prefix, a pointwise verifier that lacks many scores at times and one that is listwise at times, clusters, revisions,
Unicode ids, float32 seconds.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tests.reference.rules import PlainLog, Row

# The last two differ in UTF-8 from UTF-16, the accented ones in normal form only.
ODD_IDS = ["q1", "q10", "q2", "Q2", "é", "e\u0301", "日本", 'say "x"', "a b/c", "back\\slash", "\uffee", "𝔘1"]
LABELS = ["no", "yes", "maybe"]
OPTIONAL = ["credit", "device_s", "finalizer_used", "finish_reason", "latency_s", "prompt_tokens", "opaque"]

EXAMPLES = {
    "example_id": pl.String,
    "dataset": pl.String,
    "split": pl.String,
    "question": pl.String,
    "gold": pl.String,
    "labels": pl.List(pl.String),
    "cluster": pl.String,
    "router": pl.Float64,
}
TRACES = {
    "trace_id": pl.String,
    "example_id": pl.String,
    "pool": pl.String,
    "action": pl.String,
    "parent_id": pl.String,
    "reads": pl.Int32,
    "sample_index": pl.Int32,
    "model": pl.String,
    "max_tokens": pl.Int32,
    "sum_logprob": pl.Float32,
    "token_logprobs": pl.List(pl.Float32),
    "answer": pl.String,
    "correct": pl.Boolean,
    "credit": pl.Float32,
    "opaque": pl.Boolean,
    "contested": pl.Boolean,
    "prompt_tokens": pl.Int32,
    "completion_tokens": pl.Int32,
    "finish_reason": pl.String,
    "finalizer_used": pl.Boolean,
    "latency_s": pl.Float32,
    "device_s": pl.Float32,
}
VERIFICATIONS = {
    "trace_id": pl.String,
    "verifier": pl.String,
    "example_id": pl.String,
    "score": pl.Float64,
    "candidates": pl.Int32,
    "prompt_tokens": pl.Int32,
    "completion_tokens": pl.Int32,
    "latency_s": pl.Float32,
    "device_s": pl.Float32,
}
FEATURES = {
    "trace_id": pl.String,
    "example_id": pl.String,
    **dict.fromkeys(("difficulty", "density", "fine"), pl.Float64),
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "features": FEATURES,
    "examples": EXAMPLES,
    "traces": TRACES,
    "verifications": VERIFICATIONS,
}


@dataclass(frozen=True)
class RandomLog:
    """Rows for the slow twin, the same rows as tables, and what policies may name."""

    name: str
    plain: PlainLog
    tables: dict[str, pl.DataFrame]
    pools: dict[str, int]  # usual number of samples
    actions: tuple[str, ...]
    verifiers: tuple[str, ...]
    opaque: frozenset[str]
    listwise: frozenset[str]

    @property
    def manifest_pools(self) -> dict[str, Any] | None:
        return {pool: {"prefix": False} for pool in sorted(self.plain.whole)} or None

    def write(self, path: Path, tables: dict[str, pl.DataFrame] | None = None, **settings: Any) -> Any:
        """Write and seal the log; `tables` takes the place of its own, in another order for instance."""
        from toolkit.log import write_log

        return write_log(path, name=self.name, tables=tables or self.tables, pools=self.manifest_pools, **settings)


def float32(x: float) -> float:
    return struct.unpack("f", struct.pack("f", x))[0]


class Maker:
    """Draws one log; the settings of the whole log first, then example after example."""

    def __init__(self, seed: int, examples: int | None, tidy: bool) -> None:
        self.rng = rng = random.Random(f"log {seed}")
        self.n = examples or rng.choice([1, 3, 6, 10, 12, 20])
        self.mishap = 0.0 if tidy or self.n == 1 else rng.choice([0.0, 0.02, 0.08])
        self.labelled = rng.choice(["none", "all", "mixed"])
        self.costs = "full" if tidy else rng.choice(["full", "full", "scattered", "absent"])
        self.unjudged = 0.0 if tidy else rng.choice([0.0, 0.15])
        self.invalid = rng.choice([0.05, 0.35])
        self.negative = rng.random() < 0.25
        self.pools = {"main": rng.choice([1, 3, 5, 6])}
        if rng.random() < 0.6:
            self.pools["näxt"] = rng.choice([1, 2, 4])
        if rng.random() < 0.3:
            self.pools["verdicts"] = rng.choice([1, 3])
        if rng.random() < 0.3:
            self.pools["beam"] = rng.choice([2, 4])
        self.listwise = rng.random() < 0.4
        self.listwise_all = rng.random() < 0.5
        self.clusters = rng.random() < 0.3
        self.examples: list[Row] = []
        self.traces: list[Row] = []
        self.verifications: list[Row] = []

    def happens(self) -> bool:
        return self.rng.random() < self.mishap

    def cost(self, value: Any) -> Any:
        return None if self.costs == "scattered" and self.rng.random() < 0.02 else value

    def example(self, example_id: str) -> None:
        rng = self.rng
        labels = self.labelled == "all" or (self.labelled == "mixed" and rng.random() < 0.5)
        space = LABELS if labels else ["9", "10", "zwei", ""]
        judged = rng.random() >= self.unjudged
        row = {
            "example_id": example_id,
            "dataset": rng.choice(["d1", "d2"]),
            "split": rng.choice(["dev", "test"]),
            "question": f"What is {example_id}?",
            "gold": rng.choice(space) if judged else None,
            "labels": LABELS if labels else rng.choice([None, []]),
            "cluster": rng.choice(["k1", "k2", None]) if self.clusters else None,
        }
        self.examples.append(row)
        likely = rng.choice(space)
        for pool, usual in self.pools.items():
            size = rng.randrange(usual + 2) if self.happens() else usual
            self.solves(row, pool, size, [likely, *space], labels)
        self.revisions(row, space)

    def solves(self, example: Row, pool: str, size: int, answers: list[str], labels: bool) -> None:
        rng = self.rng
        gap = rng.randrange(size) if size and self.happens() else None
        made = []
        for i in range(size):
            answer: str | None = rng.choice(answers)
            if rng.random() < self.invalid:
                answer = rng.choice([None, "perhaps"]) if labels else None
            trace = self.trace(example, pool, "solve", None, i, answer)
            if i != gap:
                made.append(trace)
        self.traces.extend(made)
        self.verify(example, made, labels)

    def trace(self, example: Row, pool: str, action: str, parent: Row | None, i: int, answer: str | None) -> Row:
        rng = self.rng
        trace_id = f"{example['example_id']}|{pool}|{action}|{parent['trace_id'] if parent else ''}|{i}"
        opaque = pool == "verdicts"
        correct = answer is not None and answer == example["gold"]
        return {
            "trace_id": trace_id,
            "example_id": example["example_id"],
            "pool": pool,
            "action": action,
            "parent_id": parent["trace_id"] if parent else None,
            "reads": None,
            "sample_index": i,
            "model": "small",
            "answer": trace_id if opaque else answer,
            "correct": correct if example["gold"] is not None else None,
            "credit": self.cost(float32(rng.random())),
            "opaque": opaque or rng.choice([None, False]),
            "contested": None,
            "prompt_tokens": self.cost(rng.randrange(50)),
            "completion_tokens": self.cost(rng.randrange(100)),
            "finish_reason": self.cost(rng.choice(["stop", "stop", "length"])),
            "finalizer_used": self.cost(rng.random() < 0.2),
            "latency_s": self.cost(float32(rng.random() * 9)),
            "device_s": self.cost(float32(rng.random())),
        }

    def revisions(self, example: Row, space: list[str]) -> None:
        """Revisions of sample 0 of `main`, and of sample 1, which no oracle may touch."""
        rng = self.rng
        solves = [t for t in self.traces if t["example_id"] == example["example_id"] and t["pool"] == "main"]
        for parent in solves:
            if parent["sample_index"] > 1 or self.happens():
                continue
            for i in range(rng.choice([1, 2, 3])):
                answer = rng.choice([*space, None])
                self.traces.append(self.trace(example, "revised", "active_verify", parent, i, answer))
            if parent["sample_index"] == 0:
                synthesis = self.trace(example, "merged", "synthesis", parent, 0, rng.choice(space))
                synthesis["reads"] = rng.choice([None, 1, self.pools["main"]])
                self.traces.append(synthesis)

    def verify(self, example: Row, traces: list[Row], labels: bool) -> None:
        rng = self.rng
        for trace in traces:
            if not self.happens() and (trace["answer"] is not None or rng.random() < 0.5):
                self.verifications.append(self.verification(trace, "lora"))
        seen = [
            trace
            for trace in traces
            if not self.listwise
            or self.listwise_all
            or trace["opaque"]
            or (trace["answer"] is not None and (not labels or trace["answer"] in LABELS))
        ]
        if self.listwise and seen and self.happens():
            del seen[rng.randrange(len(seen)) :]  # it saw fewer than a policy may generate, or none
        for trace in seen:
            row = self.verification(trace, "jüry")
            if self.listwise:
                row["candidates"] = len(seen)
                if trace is not seen[0]:
                    row.update(prompt_tokens=0, completion_tokens=0, latency_s=0.0, device_s=0.0)
            if self.listwise or not self.happens():
                self.verifications.append(row)

    def verification(self, trace: Row, verifier: str) -> Row:
        rng = self.rng
        return {
            "trace_id": trace["trace_id"],
            "verifier": verifier,
            "example_id": trace["example_id"],
            "score": rng.randrange(-10 if self.negative else 0, 11) / rng.choice([10, 10, 20]),
            "candidates": None,
            "prompt_tokens": self.cost(rng.randrange(30)),
            "completion_tokens": self.cost(rng.randrange(5)),
            "latency_s": self.cost(float32(rng.random())),
            "device_s": self.cost(float32(rng.random())),
        }


def add_signals(seed: int, maker: Maker, tidy: bool) -> list[Row]:
    """What gates, routers and surrogates read, on top of a log that was drawn before: further columns, and features.

    `difficulty` and `density` lie on a grid, for ties; `fine` does not, and is null at times.
    """
    rng, fine = random.Random(f"signals {seed}"), random.Random(f"fine {seed}")
    nulls = 0.0 if tidy or maker.n == 1 else fine.choice([0.0, 0.0, 0.01])
    features = []
    for example in maker.examples:
        example["router"] = None if rng.random() < maker.mishap else rng.randrange(11) / 10
    for trace in maker.traces:
        lost = rng.random() < maker.mishap
        trace["max_tokens"] = None if lost else 100
        trace["sum_logprob"] = None if rng.random() < maker.mishap else float32(-rng.random() * 9)
        listed = [float32(-rng.randrange(9) / 8) for _ in range(rng.randrange(5))]
        trace["token_logprobs"] = None if rng.random() < maker.mishap else listed
        if rng.random() >= maker.mishap:
            row = {name: rng.randrange(11) / 10 for name in ("difficulty", "density")}
            row["fine"] = fine.choice([None, fine.random()][fine.random() >= nulls :])
            features.append({"trace_id": trace["trace_id"], "example_id": trace["example_id"], **row})
    return features


def disturb(seed: int, maker: Maker) -> None:
    """In a log drawn before: opaque answers beside others in a pool, contested verdicts, and missing scores."""
    rng = random.Random(f"disturbed {seed}")
    if rng.random() < 0.3:
        for trace in maker.traces:
            example = random.Random(f"veiled {seed} {trace['example_id']} {trace['pool']}")
            if example.random() < 0.25 and rng.random() < 0.7 and trace["answer"] is not None:
                trace.update(opaque=True, answer=trace["trace_id"])
    if rng.random() < 0.4:
        labelled = {row["example_id"] for row in maker.examples if row["labels"]}
        alike: dict[tuple[str, str], list[Row]] = {}
        for trace in maker.traces:
            open_ = trace["example_id"] not in labelled and trace["correct"] is not None and not trace["opaque"]
            if open_ and trace["answer"] is not None:
                alike.setdefault((trace["example_id"], trace["answer"]), []).append(trace)
        for group in alike.values():
            if len(group) > 1 and rng.random() < 0.15:
                odd = rng.choice(group)
                odd["correct"] = not odd["correct"]
                for trace in group:
                    trace["contested"] = True
    if rng.random() < 0.4:
        share = rng.choice([0.03, 0.1, 0.4])
        lost = {id(row) for row in maker.verifications if row["verifier"] == "lora" and rng.random() < share}
        maker.verifications = [row for row in maker.verifications if id(row) not in lost]


def random_log(seed: int, examples: int | None = None, tidy: bool = False) -> RandomLog:
    """The log of `seed`; `tidy` ones lack nothing: no gaps, no missing call, no null cost, all judged."""
    maker = Maker(seed, examples, tidy)
    ids = [*ODD_IDS, *(f"x{i}" for i in range(maker.n))][: max(maker.n, 1)]
    maker.rng.shuffle(ids)
    for example_id in ids:
        maker.example(example_id)
    features = add_signals(seed, maker, tidy)
    absent = maker.rng.sample(OPTIONAL, 3) if maker.costs == "absent" else []
    if not tidy:
        disturb(seed, maker)
    if any(trace["opaque"] for trace in maker.traces) and "opaque" in absent:
        absent.remove("opaque")
    absent += [] if any(trace["contested"] for trace in maker.traces) else ["contested"]
    rows = {"examples": maker.examples, "traces": maker.traces, "verifications": maker.verifications}
    rows["features"] = features
    actions = {row["action"] for row in maker.traces} - {"solve"}
    pools = {row["pool"] for row in maker.traces if row["action"] == "solve"}
    for row in rows["traces"]:
        for column in absent:
            del row[column]
    tables = {}
    for table, found in rows.items():
        schema = {c: t for c, t in SCHEMAS[table].items() if table != "traces" or c not in absent}
        shuffle = maker.rng if table != "features" else random.Random(f"features {seed}")
        tables[table] = pl.DataFrame(shuffle.sample(found, len(found)), schema=schema, orient="row")
    whole = frozenset({"beam"} & pools)
    solves = [row for row in maker.traces if row["action"] == "solve"]
    answered = {row["pool"] for row in solves if row["answer"] is not None and not row.get("opaque")}
    veiled = {row["pool"] for row in solves if row.get("opaque")}
    return RandomLog(
        name=f"random {seed}",
        plain=PlainLog(
            rows["examples"], rows["traces"], rows["verifications"], whole, {row["trace_id"]: row for row in features}
        ),
        tables=tables,
        pools={pool: usual for pool, usual in maker.pools.items() if pool in pools},
        actions=tuple(sorted(actions)),
        verifiers=tuple(sorted({row["verifier"] for row in maker.verifications})),
        opaque=frozenset(veiled - answered),
        listwise=frozenset({"jüry"} if maker.listwise else ()),
    )
