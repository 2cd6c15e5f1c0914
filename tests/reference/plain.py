"""The slow twin of `replay`, kept for ever: dictionaries, lists and loops, written from the definitions.

It shares no line with the product. A log is a `PlainLog` of plain rows, a policy the dictionary that tomllib
reads from one `[[policy]]` entry after its sweep is expanded, and an outcome a dictionary with the columns of
`outcomes`. `rules.py` holds stops and selects, `paths.py` what is paid; here paths become outcomes and a run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.reference.abandoned import refuses
from tests.reference.interventions import matched_choice, paths_of, refuse_intervention
from tests.reference.paths import Path, compares, pool_name, verifies
from tests.reference.rules import Partial, PlainLog, Refused, Row

COUNTS = "traces valid_traces finalizers truncated verifications operations calls"
TOKENS = "prompt_tokens completion_tokens verification_tokens total_tokens action_tokens"
SECONDS = "generation_s verification_s latency_s device_s"
QUALITY = "correct credit base_correct intervened fix flip"
NUMBERS = f"{QUALITY} {COUNTS} {TOKENS} {SECONDS}".split()
POSITIONS = ("position", "position_share", "expected_win")
COLUMNS = ("answer", "answers", "ending", *NUMBERS)


# ----------------------------------------------------------------------------------------------- outcomes


def plus(values: Iterable[Any]) -> Any:
    """The sum, null as soon as one value is."""
    total: Any = 0
    for value in values:
        if value is None:
            return None
        total = total + value
    return total


def of_path(log: PlainLog, path: Path) -> Row:
    """The outcome of one realisation, but for what compares it with another policy."""
    traces, checks = path.traces, path.checks
    prompt = plus(t.get("prompt_tokens") for t in traces)
    completion = plus(t.get("completion_tokens") for t in traces)
    verifying = sum(check.tokens for check in checks)
    generation_s = plus(t.get("latency_s") for t in traces)
    verification_s = sum(check.latency_s for check in checks)
    finalizers = plus(t.get("finalizer_used") for t in traces)
    finish = [t.get("finish_reason") for t in traces]
    waited = None if generation_s is None else sum(max(t["latency_s"] for t in block) for block in path.blocks())
    correct = path.chosen["correct"]
    if path.answer is None and correct is not None:
        correct = False
    return {
        "answer": path.answer,
        "ending": path.ending,
        "correct": correct,
        "credit": path.chosen.get("credit"),
        "traces": len(traces),
        "valid_traces": sum(log.valid(t) for t in traces),
        "finalizers": finalizers,
        "truncated": None if None in finish else finish.count("length"),
        "verifications": len(checks),
        "operations": len(traces) + len(checks),
        "calls": plus([len(traces), finalizers]),
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "verification_tokens": verifying,
        "total_tokens": plus([prompt, completion, verifying]),
        "generation_s": generation_s,
        "verification_s": verification_s,
        "latency_s": plus([waited, verification_s]),
        "device_s": plus([plus(t.get("device_s") for t in traces), sum(c.device_s for c in checks)]),
        **guessed(log, traces[-1], correct),
    }


def guessed(log: PlainLog, last: Row, correct: Any) -> Row:
    """What a guess with a position is measured by; nulls of other traces."""
    example, position = log.example[last["example_id"]], last.get("position")
    at, right = example.get("human_positions"), example.get("human_corrects")
    if at is None or right is None:
        alone = example.get("human_position"), example.get("human_correct")
        at, right = ([], []) if None in alone else ([alone[0]], [alone[1]])
    win = None
    if at and position is not None and correct is not None:
        beaten = [not (rightly and place < position) for place, rightly in zip(at, right, strict=True)]
        win = sum(beaten) / len(beaten) * correct
    length = example.get("length")
    share = position / length if position is not None and length else None
    return {"position": position, "position_share": share, "expected_win": win}


def mean(values: Sequence[Any], weights: Sequence[float] | None = None) -> float | None:
    if weights is None or len(set(weights)) == 1:
        total = plus(values)
        return None if total is None else float(total) / len(values)
    if None in values:
        return None
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def outcome(log: PlainLog, policy: Row, paths: Sequence[Path]) -> Row:
    rows = [of_path(log, path) for path in paths]
    weights = [path.weight for path in paths]
    out: Row = {key: mean([row[key] for row in rows], weights) for key in rows[0] if key in (*NUMBERS, *POSITIONS)}
    endings = {row["ending"] for row in rows}
    out["ending"] = endings.pop() if len(endings) == 1 else None
    one = len({path.row or i for i, path in enumerate(paths)}) == 1
    out["answer"] = rows[0]["answer"] if one else None
    out["answers"] = None if one else shares([row["answer"] for row in rows], weights)
    out.update(base_correct=None, fix=None, flip=None, action_tokens=None, intervened=0.0)
    if paths[0].base is not None:
        base = outcome(log, {}, paths[0].base)
        b, c = base["correct"], out["correct"]
        out["base_correct"] = b
        if b is not None and c is not None:
            out["fix"], out["flip"] = (1 - b) * c, b * (1 - c)
        out["action_tokens"] = mean([path.action_tokens for path in paths], weights)
        out["intervened"] = mean([path.fired for path in paths], weights)
    return out


def parts_of(policy: Row) -> list[Row]:
    inner = [policy[key] for key in ("base", "then", "else") if isinstance(policy.get(key), dict)]
    return [policy, *(part for one in inner for part in parts_of(one))]


def shares(answers: Sequence[str | None], given: Sequence[float] | None = None) -> list[Row]:
    weights = given or [1.0] * len(answers)
    total = sum(weights)
    share = {a: sum(w for x, w in zip(answers, weights, strict=True) if x == a) / total for a in set(answers)}
    distinct = sorted(share, key=lambda a: (-round(share[a], 12), a is None, a or ""))
    return [{"answer": a, "share": share[a]} for a in distinct]


def calls_of(path: Path) -> dict[tuple[str, ...], int | None]:
    """Tokens of every call that the path paid, by a key that another policy's path shares."""
    calls: dict[tuple[str, ...], int | None] = {}
    for trace in path.traces:
        tokens = plus([trace.get("prompt_tokens"), trace.get("completion_tokens")])
        calls["trace", trace["trace_id"]] = tokens
    calls.update({check.key: check.tokens for check in path.checks})
    return calls


def compare(policy: Row, other: Row, out: Row, base: Row, mine: list[Path], theirs: list[Path]) -> None:
    """Fill in the columns that set a policy `against` another one on the same example."""
    b, c = base["correct"], out["correct"]
    out["base_correct"] = b
    if b is not None and c is not None:
        out["fix"], out["flip"] = (1 - b) * c, b * (1 - c)
    same_orders = policy.get("orders") is not None and policy.get("orders") == other.get("orders")
    pairs = list(zip(mine, theirs, strict=True)) if same_orders else list(itertools.product(mine, theirs))
    tokens, some, weights = [], [], []
    for path, base_path in pairs:
        known = calls_of(base_path)
        extra = [t for key, t in calls_of(path).items() if key not in known and key not in path.gates]
        tokens.append(plus(extra))
        some.append(bool(extra))
        weights.append(path.weight * (1.0 if same_orders else base_path.weight))
    out["action_tokens"], out["intervened"] = mean(tokens, weights), mean(some, weights)


# --------------------------------------------------------------------------------------------------- runs


@dataclass
class Run:
    """`results[policy][example_id]`: ("partial", reason) or an outcome row, for every policy and example."""

    results: dict[str, dict[str, Any]]
    dropped: list[str]
    excluded: list[str]

    def outcomes(self) -> dict[tuple[str, str], Row]:
        """The rows that a run reports: policies that stay × examples that none of them lacks."""
        return {
            (name, example_id): row
            for name, rows in self.results.items()
            if name not in self.dropped
            for example_id, row in rows.items()
            if example_id not in self.excluded
        }


def is_partial(result: Any) -> bool:
    return isinstance(result, tuple)


def replay(log: PlainLog, policies: Sequence[Row]) -> Run:
    """Raises Refused where the run must be an error."""
    named = [(policy.get("stop") or {}).get("verifier") for policy in policies]
    policies = [policy if v is None else {"verifier": v, **policy} for v, policy in zip(named, policies, strict=True)]
    for policy in policies:
        refuse(log, policy)
    by_name = {policy["name"]: policy for policy in policies}
    paths: dict[str, dict[str, Any]] = {name: {} for name in by_name}
    for name, policy in by_name.items():
        for example_id in sorted(log.example):
            try:
                paths[name][example_id] = paths_of(log, policy, example_id)
            except Partial as reason:
                paths[name][example_id] = ("partial", str(reason))
    run = serve(results_of(log, by_name, paths))
    for name, policy in by_name.items():
        if policy.get("rule") == "matched_rate" and name not in run.dropped:
            compared = [e for e in sorted(log.example) if e not in run.excluded]
            paths[name] |= matched_choice(log, policy, compared)
    run = serve(results_of(log, by_name, paths))
    for policy in policies:
        if policy["name"] not in run.dropped and policy.get("against") in run.dropped:
            raise Refused("a policy is held against one that is dropped")
    if all(row["correct"] is None and row.get("credit") is None for row in run.outcomes().values()):
        raise Refused("no example is judged, and none has another quality")
    return run


def results_of(log: PlainLog, by_name: Row, paths: Row) -> dict[str, dict[str, Any]]:
    return {
        name: {e: result(log, by_name, policy, paths, e) for e in sorted(log.example)}
        for name, policy in by_name.items()
    }


def result(log: PlainLog, by_name: Row, policy: Row, paths: Row, example_id: str) -> Any:
    mine = paths[policy["name"]][example_id]
    if is_partial(mine):
        return mine
    out = outcome(log, policy, mine)
    if "against" in policy:
        other, theirs = by_name[policy["against"]], paths[policy["against"]][example_id]
        if is_partial(theirs):
            return out  # the other one is dropped, or this example left out for its sake
        compare(policy, other, out, outcome(log, other, theirs), mine, theirs)
    return out


def serve(results: dict[str, dict[str, Any]]) -> Run:
    """Drop the policies below nine tenths, all at once, then the examples that a remaining one lacks."""
    served = {name: {e for e, r in rows.items() if not is_partial(r)} for name, rows in results.items()}
    some = set().union(*served.values())
    dropped = [name for name in results if 10 * len(served[name]) < 9 * len(some)]
    left = [served[name] for name in results if name not in dropped]
    if not left:
        raise Refused("no policy is left")
    kept = set.intersection(*left)
    if not kept:
        raise Refused("no example is left")
    every = next(iter(results.values()))
    return Run(results, dropped, [example_id for example_id in every if example_id not in kept])


def refuse(log: PlainLog, policy: Row) -> None:
    """Raise Refused for settings that don't go together, and for votes among opaque answers."""
    if policy["kind"] != "sample":
        refuse_intervention(log, policy)
        for part in parts_of(policy)[1:]:
            if part["kind"] == "sample":
                refuse(log, part)
            else:
                refuse_intervention(log, part)
        return
    stop, select = policy.get("stop") or {}, policy.get("select", "best")
    order, rule = policy.get("order", "generation"), stop.get("rule")
    late = rule is None or rule == "margin" or "verifications" in stop
    checks: list[tuple[Callable[[], bool], str]] = [
        (lambda: select == "first" and policy.get("max_traces") != 1, "`first` reads one trace"),
        (lambda: "max_traces" not in policy and not log.positioned(pool_name(log, policy)), "a cap is needed"),
        (
            lambda: log.positioned(pool_name(log, policy)) and ("orders" in policy or bool(policy.get("expected"))),
            "a pool with positions keeps its order",
        ),
        (lambda: stop.get("verifier", policy.get("verifier")) != policy.get("verifier"), "two verifiers"),
        (lambda: verifies(policy) and "verifier" not in policy, "a verifier is needed"),
        (lambda: "answers_as" in policy and (order == "surrogate" or not compares(policy)), "nothing is compared"),
        (lambda: order != "generation" and not (late and select in ("best", "weighted")), "order and rule"),
        (
            lambda: (
                bool(policy.get("expected"))
                and (order != "random" or select != "best" or "verifications" not in stop)
                and (
                    order != "generation"
                    or select == "weighted"
                    or "orders" in policy
                    or rule is not None
                    or policy.get("width", 1) != 1
                )
            ),
            "`expected` goes with random, best and a budget, or over all orders of the pool",
        ),
        (lambda: votes_among_opaque(log, policy), "votes and margins among opaque answers"),
        (lambda: no_lowest_score(log, policy), "a lowest score that there is not"),
        (lambda: refuses(log, policy, pool_name(log, policy), verifies(policy)), "what cannot be abandoned"),
        (
            lambda: (
                pool_name(log, policy) in log.whole
                and (
                    "orders" in policy
                    or (order == "generation" and rule is not None)
                    or (order == "surrogate" and policy.get("mode", "lazy") == "lazy")
                )
            ),
            "the pool is replayed whole and in its order, or not at all",
        ),
    ]
    for broken, reason in checks:
        if broken():
            raise Refused(reason)


def votes_among_opaque(log: PlainLog, policy: Row) -> bool:
    """Where a pool has no answer beside them; one opaque answer among others makes its example partial."""
    if not compares(policy):
        return False
    name = pool_name(log, policy)
    answered = [t for t in log.traces if t["pool"] == name and t["action"] == "solve" and t["answer"] is not None]
    return bool(answered) and all(t.get("opaque") for t in answered)


def no_lowest_score(log: PlainLog, policy: Row) -> bool:
    if policy.get("on_unscored") != "lowest" or not verifies(policy):
        return False
    try:
        log.lowest(pool_name(log, policy), policy["verifier"])
    except Refused:
        return True
    return False


# ------------------------------------------------------------------------------------------------- sweeps


def expand(entry: Row) -> list[Row]:
    """One `[[policy]]` entry → its policies: lists in place of values are swept, several by their product."""
    spots = [(key,) for key, value in entry.items() if isinstance(value, list) and key != "of"]
    keys: list[tuple[str, ...]] = []
    for key, value in entry.items():
        if (key,) in spots:
            keys.append((key,))
        elif isinstance(value, dict):
            keys.extend((key, inner) for inner, v in value.items() if isinstance(v, list))
    policies = []
    for values in itertools.product(*(entry[k[0]] if len(k) == 1 else entry[k[0]][k[1]] for k in keys)):
        policy = {key: dict(value) if isinstance(value, dict) else value for key, value in entry.items()}
        for k, value in zip(keys, values, strict=True):
            if len(k) == 1:
                policy[k[0]] = value
            else:
                policy[k[0]][k[1]] = value
        if keys:
            label = ", ".join(f"{'.'.join(k)}={v}" for k, v in zip(keys, values, strict=True))
            policy["name"] = f"{entry['name']}[{label}]"
        policies.append(policy)
    return policies
