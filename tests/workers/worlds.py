"""Logs and policies of every kind, whose saved results must not depend on who replays them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import replay
from generate.simulation.checks import simulate_checks
from generate.simulation.grid import simulate
from generate.simulation.recovery import simulate_recovery
from generate.simulation.rounds import simulate_rounds
from tests.replay.test_abandon import made_log
from toolkit.log import Log

RULES = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Enough:
    most: int

    def holds(self, seen):
        return seen.traces >= self.most
"""
"""A rule of a user's own, in a file that no worker can import."""

ONE = 'max_traces = 1, select = "first" }'
SAMPLES = """
[[policy]]
name = "first"
kind = "sample"
pool = "n6"
max_traces = 1
select = "first"

[[policy]]
name = "margin"
kind = "sample"
pool = "n6"
max_traces = 6
verifier = "strong"
stop = { rule = "margin", margin = [0.1, 0.4] }

[[policy]]
name = "orders"
kind = "sample"
pool = "n6"
max_traces = 3
select = "majority"
expected = true

[[policy]]
name = "mine"
kind = "sample"
pool = "n6"
max_traces = 6
select = "majority"
stop = { rule = "Enough", most = 3 }
"""
LEARNT = """
[[policy]]
name = "surrogate"
kind = "sample"
pool = "n6"
max_traces = 6
verifier = "strong"
order = "surrogate"
features = ["claim_similarity", "evidence_similarity", "length"]
prior = { model = ["linear", "trees"], on = "split = 'dev'" }
stop = { rule = "margin" }

[[policy]]
name = "random orders"
kind = "sample"
pool = "n6"
max_traces = 6
verifier = "strong"
calibration = { method = "isotonic", on = "split = 'dev'" }
stop = { rule = "margin" }
orders = 3

[[policy]]
name = "conformal"
kind = "sample"
pool = "n6"
max_traces = 6
verifier = "strong"
conformal = { alpha = 0.2, abstain = true, on = "split = 'dev'" }
"""
ASKING = f"""
[[policy]]
name = "probe"
kind = "sample"
pool = "probe"
max_traces = 1
select = "first"

[[policy]]
name = "every threshold"
kind = "when"
base = {{ kind = "sample", pool = "probe", {ONE}
gate = {{ verifier = "strong", below = "all" }}
then = {{ kind = "sample", pool = "n6", max_traces = 6, expected = true, select = "majority" }}

[[policy]]
name = "equal shares"
kind = "when"
base = {{ kind = "sample", pool = "probe", {ONE}
gate = {{ verifier = "strong", below = {{ quantiles = 3 }} }}
then = {{ kind = "sample", pool = "n6", max_traces = 6, select = "majority" }}

[[policy]]
name = "votes by score"
kind = "graded"
base = {{ kind = "sample", pool = "probe", {ONE}
verifier = "strong"
thresholds = [0.3, 0.7]
votes = [6, 4]
then = {{ kind = "sample", pool = "n6", max_traces = 6, select = "majority" }}

[[policy]]
name = "ideal gate"
kind = "oracle"
rule = "matched_rate"
base = "probe"
then = {{ kind = "sample", pool = "n6", max_traces = 6, select = "majority" }}
rate = 0.3

[[policy]]
name = "coin"
kind = "oracle"
rule = "matched_random"
base = "probe"
then = {{ kind = "sample", pool = "n6", max_traces = 6, select = "majority" }}
rate = 0.3

[[policy]]
name = "any"
kind = "oracle"
of = ["n6"]
"""
THINKING = f"""
[[policy]]
name = "short"
kind = "sample"
pool = "short"
max_traces = 1
select = "first"

[[policy]]
name = "verify"
kind = "act"
base = "short"
action = "active_verify"

[[policy]]
name = "verify where it was cut off"
kind = "when"
base = {{ kind = "sample", pool = "short", {ONE}
gate = {{ signal = "truncated", at_least = 1 }}
then = {{ kind = "act", base = "short", action = "active_verify" }}

[[policy]]
name = "route"
kind = "route"
route = {{ column = "router_score", at_least = [0.3, 0.6] }}
then = {{ kind = "sample", pool = "long", {ONE}
else = {{ kind = "sample", pool = "short", {ONE}

[[policy]]
name = "best action"
kind = "oracle"
rule = "action"
base = "short"
of = ["active_verify", "long"]
"""
ROUNDS = """
[[policy]]
name = "plain"
kind = "retrieve"
rounds = 6
multiplier = 1

[[policy]]
name = "frontier"
kind = "retrieve"
rounds = 6
frontier_of = ["hop", "round"]

[[policy]]
name = "stable"
kind = "retrieve"
rounds = 6
stable = [2, 3]

[[policy]]
name = "penalty"
kind = "retrieve"
rounds = 6
penalty = "sunar"
"""
CHECKS = """
[[policy]]
name = "sure"
kind = "buzz"
confidence = [0.5, 0.9]
max_rounds = 3
revisions = 1
on_missing = "use_available"

[[policy]]
name = "second"
kind = "buzz"
patience = 2
on_missing = "use_available"

[[policy]]
name = "hindsight"
kind = "best buzz"
"""
ABANDONING = """
[[policy]]
name = "whole"
kind = "sample"
pool = "n4"
max_traces = 4
select = "majority"

[[policy]]
name = "abandon"
kind = "sample"
pool = "n4"
max_traces = 4
select = "majority"
abandon = { verifier = "early@4", tokens = 4, below = [0.1, 0.4] }
"""
SECONDS = re.compile(rb'"surrogate_s_per_example": {"[^}]*}')
HASH = re.compile(rb'"(sha256|run.json)": "[0-9a-f]{64}"')
OWN = replay.Metric("per", of="correct", over="total_tokens")


@dataclass(frozen=True)
class World:
    """A log, how it is made, and policies on it. `chunk`: examples of a chunk, so that there are several ranges."""

    make: Callable[[Path], Log]
    policies: str
    options: dict[str, Any] = field(default_factory=dict)
    chunk: int = 7
    parts: dict[str, bool] = field(default_factory=dict)

    def save(self, log: Path, folder: Path, rules: Path, workers: str | None = None) -> dict[str, bytes]:
        """The files of a saved result by name, without the seconds of surrogates, which are measured on a clock."""
        own = {"rules": rules} if "Enough" in self.policies else {}
        result = replay.run(log, self.policies, resamples=50, workers=workers, **own, **self.options)
        result.save(folder, **self.parts)
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        timed = SECONDS.search(files["run.json"])
        for name in ("run.json", "result.json") if timed is not None else ():
            files[name] = HASH.sub(b"", SECONDS.sub(b"", files[name]))
        return files


def _grid(folder: Path) -> Log:
    return simulate(folder, examples=60, traces=6, seed=3)


TEST = {"where": "split = 'test'"}
WORLDS = {
    "samples": World(_grid, SAMPLES, {"by": "split", "baseline": "first", "metrics": OWN}, parts={"traces": True}),
    "learnt": World(_grid, LEARNT, TEST, chunk=5),
    "asking": World(_grid, ASKING, {"by": "split", "baseline": "probe"}),
    "thinking": World(lambda folder: simulate_recovery(folder, examples=60, seed=5), THINKING, {"baseline": "short"}),
    "rounds": World(lambda folder: simulate_rounds(folder, examples=40, seed=5), ROUNDS, TEST, chunk=3),
    "checks": World(lambda folder: simulate_checks(folder, examples=40, seed=1), CHECKS, TEST, chunk=3),
    "abandoning": World(lambda folder: made_log(folder.parent), ABANDONING, chunk=1),
}
