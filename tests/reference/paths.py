"""The slow twin's paths: what a policy pays and answers on one example, call after call.

One path for a plain policy, K for `orders = K`, and for `expected` one for every set of traces that an order
could have verified.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.reference.abandoned import attempted
from tests.reference.rules import Partial, PlainLog, Row, choose, holds, in_random_order, more_needed
from tests.reference.surrogate import Surrogate


@dataclass(frozen=True)
class Call:
    """One verification: a key that is the same wherever the same call is paid, and its cost (unlogged: 0)."""

    key: tuple[str, ...]
    tokens: int
    latency_s: float
    device_s: float


@dataclass(frozen=True)
class Path:
    traces: list[Row]
    checks: list[Call]
    chosen: Row
    answer: str | None
    ending: str
    width: int = 1
    weight: float = 1.0  # among the paths of one outcome
    waits: tuple[list[Row], ...] | None = None  # traces that ran side by side, where `width` does not say it
    row: str | None = None  # what makes it one row with others: under `expected` a possible winner, or any trace
    gates: frozenset[tuple[str, ...]] = frozenset()  # calls that only gates of its own made
    base: Any = None  # what fixes and flips are counted against: a list of paths
    action_tokens: int | None = 0
    fired: bool = False

    def blocks(self) -> list[list[Row]]:
        """Traces that were generated side by side."""
        if self.waits is not None:
            return list(self.waits)
        return [self.traces[i : i + self.width] for i in range(0, len(self.traces), self.width)]


def verification(log: PlainLog, verifier: str, trace: Row) -> tuple[Call, float]:
    row = log.scores.get((trace["trace_id"], verifier))
    if row is None:
        raise Partial(f"no verification of {trace['trace_id']} by {verifier}")
    return call_of(("check", verifier, trace["trace_id"]), [row]), row["score"]


def checked(log: PlainLog, policy: Row, trace: Row) -> tuple[Call, float] | None:
    """What a policy pays to verify a trace, and the score; None where it skips a trace without one."""
    if (trace["trace_id"], policy["verifier"]) not in log.scores:
        way = policy.get("on_unscored", "partial")
        if way == "skip":
            return None
        if way == "lowest":
            key = ("check", policy["verifier"], trace["trace_id"])
            return Call(key, 0, 0.0, 0.0), log.lowest(trace["pool"], policy["verifier"])
    return verification(log, policy["verifier"], trace)


def generate(log: PlainLog, policy: Row, trace: Row, seen: list[Row], checks: list[Call]) -> Row:
    """Add a trace to those `seen`, and to the `checks` what deciding on it cost."""
    made, row = attempted(log, policy, trace)
    seen.append(made)
    if row is not None:
        checks.append(call_of(("check", policy["abandon"]["verifier"], trace["trace_id"]), [row]))
    return made


def score_of(log: PlainLog, policy: Row, trace: Row) -> float:
    found = checked(log, policy, trace)
    assert found is not None
    return found[1]


def verifiable(log: PlainLog, policy: Row, traces: Sequence[Row]) -> list[Row]:
    """The valid ones that are verified if it comes to that."""
    skips = policy.get("on_unscored") == "skip"
    return [t for t in traces if log.valid(t) and not (skips and (t["trace_id"], policy["verifier"]) not in log.scores)]


def compares(policy: Row) -> bool:
    """Whether a policy compares answers with each other."""
    rule = (policy.get("stop") or {}).get("rule")
    voted = policy.get("select", "best") in ("majority", "weighted") or rule in (
        "margin",
        "agreement",
        "window",
        "says",
    )
    return voted or policy.get("order") == "surrogate"


def call_of(key: tuple[str, ...], rows: Sequence[Row]) -> Call:
    def total(column: str) -> Any:
        return sum(row.get(column) or 0 for row in rows)

    return Call(key, total("prompt_tokens") + total("completion_tokens"), total("latency_s"), total("device_s"))


def verifies(policy: Row) -> bool:
    stop = policy.get("stop") or {}
    reads = stop.get("rule") == "margin" or "verifications" in stop or "verifier" in stop
    return policy.get("select", "best") in ("best", "weighted") or reads


def pool_name(log: PlainLog, policy: Row) -> str:
    if "pool" in policy:
        return policy["pool"]
    (only,) = log.solve_pools()
    return only


def sample_paths(log: PlainLog, policy: Row, example_id: str) -> list[Path]:
    name, order = pool_name(log, policy), policy.get("order", "generation")
    pool, orders, seed = log.solves(example_id, name), policy.get("orders"), policy.get("seed", 0)
    cap, available = policy.get("max_traces", len(pool)), policy.get("on_missing") == "use_available"
    if not pool:
        raise Partial("empty pool")
    if len(pool) < cap and not available:
        raise Partial(f"cap {cap}, pool {len(pool)}")
    if name in log.whole and min(cap, len(pool)) < log.logged_solves(example_id, name):
        raise Partial("the pool is replayed whole or not at all")
    if compares(policy) and not log.comparable(example_id, name):
        raise Partial("answers that cannot be compared")
    if "answers_as" in policy and any(t[policy["answers_as"]] is None for t in pool if log.valid(t)):
        raise Partial("a vote for nothing")
    ran_out = "exhausted" if len(pool) < cap else "cap"
    paths = []
    for j in range(orders or 1):
        logged = pool if orders is None else in_random_order(pool, seed, j)
        generated, early = logged[:cap], list[Call]()
        exact = policy.get("expected") and order == "generation"
        lazily = order == "generation" or (order == "surrogate" and policy.get("mode", "lazy") == "lazy")
        if not lazily:
            generated = [generate(log, policy, trace, [], early) for trace in generated]
        listed = listwise_rows(log, policy, pool) if verifies(policy) else []
        in_time = order == "generation" and policy.get("stop") is None
        if listed and (in_time or any(is_valid(log, policy, trace) for trace in logged[:cap])):
            if exact and len(pool) > cap:
                if any(is_valid(log, policy, trace) for trace in pool):
                    raise Partial("the listwise verifier saw other traces")
                paths.extend(drawn_paths(log, policy, pool, min(cap, len(pool)), ran_out, []))
                continue
            if lazily:
                generated = [generate(log, policy, trace, [], early) for trace in generated]
            path = with_checks(listwise_path(log, policy, generated, listed, ran_out, j), early)
            if exact:
                score = {row["trace_id"]: row["score"] for row in listed}
                scored = [(t, score[t["trace_id"]]) for t in generated if log.valid(t) and t["trace_id"] in score]
                paths.extend(in_all_orders(log, policy, path, generated, scored))
            else:
                paths.append(path)
        elif exact:
            paths.extend(drawn_paths(log, policy, pool, min(cap, len(pool)), ran_out))
        elif policy.get("expected"):
            paths.extend(with_checks(path, early) for path in expected_paths(log, policy, generated, ran_out))
        elif order == "generation":
            paths.append(generation_path(log, policy, generated, ran_out, j))
        elif order == "surrogate":
            path = lazy_path if policy.get("mode", "lazy") == "lazy" else chosen_path
            paths.append(with_checks(path(log, policy, generated, ran_out, j), early))
        else:
            valid = verifiable(log, policy, generated)
            if order == "random":
                queue = in_random_order(valid, seed, j)
            else:
                queue = sorted(valid, key=lambda t: -score_of(log, policy, t))  # stable
            paths.append(with_checks(queue_path(log, policy, generated, queue, ran_out, j), early))
    return paths


def is_valid(log: PlainLog, policy: Row, trace: Row) -> bool:
    """Whether a trace has a valid answer, so far as the log tells."""
    try:
        return log.valid(attempted(log, policy, trace)[0])
    except Partial:
        return False


def with_checks(path: Path, checks: list[Call]) -> Path:
    """The path with what deciding on its traces cost."""
    return replace(path, checks=[*checks, *path.checks])


def generation_path(log: PlainLog, policy: Row, generated: list[Row], ran_out: str, j: int = 0) -> Path:
    width, blocks = policy.get("width", 1), [0]
    seen: list[Row] = []
    scored: list[tuple[Row, float]] = []
    checks: list[Call] = []
    ending = ran_out
    for t, logged in enumerate(generated, start=1):
        if t > blocks[-1]:  # the end of the next block
            left = len(generated) - blocks[-1]
            more = more_needed(log, policy, seen, scored, left) if width == "needed" else min(width, left)
            blocks.append(blocks[-1] + more)
        trace = generate(log, policy, logged, seen, checks)
        if verifies(policy) and log.valid(trace) and (found := checked(log, policy, trace)) is not None:
            checks.append(found[0])
            scored.append((trace, found[1]))
        if t == blocks[-1] and holds(log, policy, seen, scored):
            ending = "rule"
            break
    chosen, answer = choose(log, policy, seen, scored, j)
    waits = tuple(seen[start:end] for start, end in itertools.pairwise(blocks))
    return Path(seen, checks, chosen, answer, ending, waits=waits)


def queue_path(
    log: PlainLog, policy: Row, generated: list[Row], queue: Sequence[Row], ran_out: str, j: int = 0
) -> Path:
    """Everything is generated, then `queue` is verified one by one."""
    scored: list[tuple[Row, float]] = []
    checks: list[Call] = []
    ending = ran_out
    for trace in queue:
        found = checked(log, policy, trace)
        assert found is not None
        checks.append(found[0])
        scored.append((trace, found[1]))
        if holds(log, policy, generated, scored):
            ending = "rule"
            break
    chosen, answer = choose(log, policy, generated, scored, j)
    return Path(generated, checks, chosen, answer, ending, policy.get("width", 1))


def lazy_path(log: PlainLog, policy: Row, pool: list[Row], ran_out: str, j: int) -> Path:
    """Algorithm 3 of the thesis on fact checking, line by line: generate a few, verify the most promising, repeat."""
    model = Surrogate(log, policy)
    seen: list[Row] = []
    scored: list[tuple[Row, float]] = []
    checks: list[Call] = []

    def done(ending: str) -> Path:
        chosen, answer = choose(log, policy, seen, scored, j)
        return Path(list(seen), checks, chosen, answer, ending)

    def verify_best() -> None:
        left = verifiable(log, policy, [t for t in seen if all(t is not u for u, _ in scored)])
        trace = model.pick(seen, left, scored)
        found = checked(log, policy, trace)
        assert found is not None
        model.learn(trace, seen, scored, found[1])
        checks.append(found[0])
        scored.append((trace, found[1]))

    while len(verifiable(log, policy, seen)) < policy.get("bootstrap", 3) and len(seen) < len(pool):
        generate(log, policy, pool[len(seen)], seen, checks)
    if not verifiable(log, policy, seen):
        return done(ran_out)
    verify_best()
    while True:
        if holds(log, policy, seen, scored):
            return done("rule")
        if len(seen) == len(pool):
            return done(ran_out)
        if len(verifiable(log, policy, seen)) == len(scored):
            return done("empty")
        verify_best()
        if holds(log, policy, seen, scored):
            return done("rule")
        generate(log, policy, pool[len(seen)], seen, checks)


def chosen_path(log: PlainLog, policy: Row, generated: list[Row], ran_out: str, j: int) -> Path:
    """The whole pool is generated; the surrogate picks each next trace."""
    model = Surrogate(log, policy)
    scored: list[tuple[Row, float]] = []
    checks: list[Call] = []
    ending = ran_out
    left = verifiable(log, policy, generated)
    while left:
        trace = model.pick(generated, left, scored)
        found = checked(log, policy, trace)
        assert found is not None
        model.learn(trace, generated, scored, found[1])
        left = [t for t in left if t is not trace]
        checks.append(found[0])
        scored.append((trace, found[1]))
        if holds(log, policy, generated, scored):
            ending = "rule"
            break
    chosen, answer = choose(log, policy, generated, scored, j)
    return Path(generated, checks, chosen, answer, ending, policy.get("width", 1))


def drawn_paths(
    log: PlainLog, policy: Row, pool: list[Row], drawn: int, ran_out: str, scores: list[Any] | None = None
) -> list[Path]:
    """For every set of so many traces of the pool, a path for each trace that some order of the set would choose.

    `scores`: of a listwise verifier that is never called, none.
    """
    paths = []
    for subset in itertools.combinations(pool, drawn):
        seen: list[Row] = []
        checks: list[Call] = []
        scored: list[tuple[Row, float]] = []
        for logged in subset:
            trace = generate(log, policy, logged, seen, checks)
            if scores is None and verifies(policy) and log.valid(trace):
                found = checked(log, policy, trace)
                if found is not None:
                    checks.append(found[0])
                    scored.append((trace, found[1]))
        paths.extend(in_all_orders(log, policy, Path(seen, checks, seen[0], None, ran_out), seen, scored))
    return paths


def in_all_orders(
    log: PlainLog, policy: Row, path: Path, seen: list[Row], scored: list[tuple[Row, float]]
) -> list[Path]:
    """The path of one set of traces with each trace that its orders choose, by the share of these orders."""
    score = {trace["trace_id"]: value for trace, value in scored}
    orders = list(itertools.permutations(seen))
    evenly = {**policy, "tie": "smallest" if policy.get("tie") == "smallest" else "earliest"}
    won: dict[str, list[Any]] = {}
    for order in orders:
        ranked = [(trace, score[trace["trace_id"]]) for trace in order if trace["trace_id"] in score]
        chosen, answer = choose(log, evenly, order, ranked)
        won.setdefault(f"{chosen['trace_id']} {answer}", [chosen, answer, 0])[2] += 1
    return [
        replace(path, chosen=chosen, answer=answer, weight=path.weight * count / len(orders), row=f"answer {answer}")
        for chosen, answer, count in won.values()
    ]


def expected_paths(log: PlainLog, policy: Row, generated: list[Row], ran_out: str) -> list[Path]:
    """One path for every set of traces that an order could have verified; all sets are equally likely."""
    valid = verifiable(log, policy, generated)
    for trace in valid:
        checked(log, policy, trace)  # reads every valid score
    budget = min(policy["stop"]["verifications"], len(valid))
    queues = itertools.combinations(valid, budget)
    paths = [queue_path(log, policy, generated, queue, ran_out) for queue in queues]
    return [replace(path, row=path.chosen["trace_id"]) for path in paths]


def listwise_rows(log: PlainLog, policy: Row, pool: list[Row]) -> list[Row]:
    """The rows of the policy's verifier on this pool, traces after a gap too, if it saw them together."""
    pool_of = {"example_id": pool[0]["example_id"], "pool": pool[0]["pool"], "action": "solve"}
    rows = []
    for trace in log.of_example[pool_of["example_id"]]:
        if all(trace[key] == value for key, value in pool_of.items()):
            row = log.scores.get((trace["trace_id"], policy["verifier"]))
            if row is not None:
                rows.append(row)
    return rows if any(row.get("candidates") is not None for row in rows) else []


def listwise_path(log: PlainLog, policy: Row, generated: list[Row], rows: list[Row], ran_out: str, j: int) -> Path:
    score = {row["trace_id"]: row["score"] for row in rows}
    everything = {trace["trace_id"] for trace in generated if not trace.get("given_up")}
    valid = {trace["trace_id"] for trace in generated if log.valid(trace)}
    in_time = policy.get("order", "generation") == "generation" and policy.get("stop") is None
    fits = set(score) in (everything, valid) and all(row["candidates"] == len(rows) for row in rows)
    if not in_time:
        raise Partial("a listwise verifier is called once, after the last trace")
    if valid and not fits:
        raise Partial("the listwise verifier saw other traces")
    called = [call_of(("list", policy["verifier"], generated[0]["pool"]), rows)] if in_time and fits else []
    scored = [(trace, score[trace["trace_id"]]) for trace in generated if trace["trace_id"] in valid]
    chosen, answer = choose(log, policy, generated, scored, j)
    return Path(generated, called, chosen, answer, ran_out, policy.get("width", 1))


def oracle_path(log: PlainLog, policy: Row, example_id: str) -> Path:
    """`any`: pays all of `of`, and its base; chooses the first right one, else the first."""
    pools = set(log.solve_pools())
    base = None
    paid: dict[str, Row] = {}
    if "base" in policy:
        based = log.solves(example_id, policy["base"])
        if not based:
            raise Partial("no base trace")
        base = based[0]
        paid[base["trace_id"]] = base
    candidates: list[Row] = []
    for name in policy["of"]:
        if name in pools:
            found = log.solves(example_id, name)
        else:
            found = log.revisions(example_id, name, base["trace_id"]) if base else []
        if not found:
            raise Partial(f"nothing of {name}")
        if name in log.whole and len(found) < log.logged_solves(example_id, name):
            raise Partial("the pool is replayed whole or not at all")
        candidates.extend(found)
        for trace in found:
            if trace.get("reads") is not None and base is not None:
                read = log.solves(example_id, base["pool"])[: trace["reads"]]
                if len(read) < trace["reads"]:
                    raise Partial("a revision read traces that the log lacks")
                paid.update({row["trace_id"]: row for row in read})
            paid[trace["trace_id"]] = trace
    chosen = next((trace for trace in candidates if trace["correct"]), candidates[0])
    answer = chosen["answer"] if log.valid(chosen) else None
    return Path(list(paid.values()), [], chosen, answer, "cap")
