"""The slow twin's policies that think again: act, when, route and the oracles, path by path.

Dictionaries, lists and loops, written from the definitions; it shares no line with the product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.reference.paths import Call, Path, oracle_path, sample_paths, verification, verifies
from tests.reference.rules import Partial, PlainLog, Refused, Row, votes


def paths_of(log: PlainLog, policy: Row, example_id: str) -> list[Path]:
    kind = policy["kind"]
    if kind == "act":
        return act_paths(log, policy, example_id)
    if kind == "when":
        return when_paths(log, policy, example_id)
    if kind == "graded":
        return graded_paths(log, policy, example_id)
    if kind == "route":
        return route_paths(log, policy, example_id)
    if kind == "oracle":
        rule = policy.get("rule", "any")
        if rule == "any" and policy.get("expected"):
            return any_of_drawn_paths(log, policy, example_id)
        if rule == "any":
            return [oracle_path(log, policy, example_id)]
        if rule in ("matched_rate", "matched_random"):
            return matched_paths(log, policy, example_id)
        return chosen_paths(log, policy, example_id)
    paths = sample_paths(log, policy, example_id)
    total = sum(path.weight for path in paths)
    return [replace(path, weight=path.weight / total) for path in paths]


def any_of_drawn_paths(log: PlainLog, policy: Row, example_id: str) -> list[Path]:
    """`any` of k traces of one pool: a path for every set of k and every trace that some order of it chooses."""
    (name,), drawn = policy["of"], policy["max_traces"]
    pool = log.solves(example_id, name)
    if len(pool) < max(drawn, 1):
        raise Partial("fewer traces than are drawn")
    if name in log.whole and drawn < log.logged_solves(example_id, name):
        raise Partial("the pool is replayed whole or not at all")
    sets, paths = list(itertools.combinations(pool, drawn)), []
    for subset in sets:
        best = [trace for trace in subset if trace["correct"]] or list(subset)
        for chosen in best:
            answer = chosen["answer"] if log.valid(chosen) else None
            weight = 1 / len(sets) / len(best)
            paths.append(Path(list(subset), [], chosen, answer, "cap", weight=weight, row=f"answer {answer}"))
    return paths


def base_traces(log: PlainLog, pool: str, example_id: str) -> list[Row]:
    found = log.solves(example_id, pool)
    if not found:
        raise Partial("no base trace")
    return found


def revision_path(log: PlainLog, base: list[Row], trace: Row) -> Path:
    """The base traces that the revision saw, and itself."""
    reads = trace.get("reads") or 1
    if len(base) < reads:
        raise Partial("a revision read traces that the log lacks")
    answer = trace["answer"] if log.valid(trace) else None
    return Path([*base[:reads], trace], [], trace, answer, "cap")


def trace_path(log: PlainLog, trace: Row) -> Path:
    return Path([trace], [], trace, trace["answer"] if log.valid(trace) else None, "cap")


def act_paths(log: PlainLog, policy: Row, example_id: str) -> list[Path]:
    base = base_traces(log, policy["base"], example_id)
    found = log.revisions(example_id, policy["action"], base[0]["trace_id"])
    found = [trace for trace in found if policy.get("pool") in (None, trace["pool"])]
    rollouts = policy.get("rollouts", "mean")
    if rollouts != "mean":
        found = found[rollouts : rollouts + 1]
    if not found:
        raise Partial("no revision")
    paths = [revision_path(log, base, trace) for trace in found]
    most = max(len(path.traces) - 1 for path in paths)
    if policy["base"] in log.whole and most < log.logged_solves(example_id, policy["base"]):
        raise Partial("the pool is replayed whole or not at all")
    own = trace_path(log, base[0])
    done = []
    for path in paths:
        extra = tokens_beyond(path, [own])
        done.append(replace(path, weight=1 / len(paths), base=[own], action_tokens=extra, fired=True))
    return done


def plus(values: Sequence[Any]) -> Any:
    return None if None in values else sum(values)


def calls(path: Path) -> dict[tuple[str, ...], int | None]:
    found: dict[tuple[str, ...], int | None] = {}
    for trace in path.traces:
        found["trace", trace["trace_id"]] = plus([trace.get("prompt_tokens"), trace.get("completion_tokens")])
    found.update({check.key: check.tokens for check in path.checks})
    return found


def tokens_beyond(path: Path, known: Sequence[Path]) -> int | None:
    before = {key for other in known for key in calls(other)}
    return plus([tokens for key, tokens in calls(path).items() if key not in before])


# ------------------------------------------------------------------------------------------------- gates


def signal(log: PlainLog, policy: Row, gate: Row, path: Path) -> tuple[Any, list[Call]]:
    """A gate's signal of the base's path (None: not logged), and the calls that reading it makes."""
    trace = path.chosen
    if "verifier" in gate:
        return gate_score(log, gate["verifier"], path)
    if "feature" in gate:
        return log.features.get(trace["trace_id"], {}).get(gate["feature"]), []
    name = gate["signal"]
    if name == "truncated":
        finish = trace.get("finish_reason")
        return None if finish is None else finish == "length", []
    if name == "near_limit":
        read = [trace.get(c) for c in ("completion_tokens", "max_tokens", "finalizer_used")]
        return None if None in read else read[0] >= gate["fraction"] * read[1] or read[2], []
    if name == "suffix_logprob":
        listed = trace.get("token_logprobs")
        return None if listed is None else math.fsum(listed[max(len(listed) - gate["tokens"], 0) :]), []
    if name == "invalid":
        return not log.valid(trace), []
    if name in ("vote_share", "margin") and not log.comparable(trace["example_id"], policy["base"]["pool"]):
        return None, []
    if name == "vote_share":
        counts = votes(log, path.traces, policy["base"].get("nulls") == "vote")
        known = path.answer is not None or None in counts
        return (counts[path.answer] / sum(counts.values()) if known else None), []
    if name == "margin":
        return lead(log, policy["base"], path), []
    return trace.get(name), []


def gate_score(log: PlainLog, verifier: str, path: Path) -> tuple[Any, list[Call]]:
    trace = path.chosen
    row = log.scores.get((trace["trace_id"], verifier))
    if row is None:
        return None, []
    together = [
        log.scores[other["trace_id"], verifier]
        for other in log.of_example[trace["example_id"]]
        if (other["trace_id"], verifier) in log.scores
        and (other["pool"], other["action"]) == (trace["pool"], trace["action"])
        and other["parent_id"] == trace["parent_id"]
    ]
    if not any(one.get("candidates") is not None for one in together):
        return row["score"], [verification(log, verifier, trace)[0]]
    scored = {one["trace_id"] for one in together}
    own = [t for t in path.traces if (t["pool"], t["action"]) == (trace["pool"], trace["action"])]
    own = [t for t in own if not t.get("given_up")]
    fits = scored in ({t["trace_id"] for t in own}, {t["trace_id"] for t in own if log.valid(t)})
    if not fits or any(one["candidates"] != len(together) for one in together):
        return None, []
    total = {c: sum(one.get(c) or 0 for one in together) for c in
             ("prompt_tokens", "completion_tokens", "latency_s", "device_s")}  # fmt: skip
    tokens = total["prompt_tokens"] + total["completion_tokens"]
    return row["score"], [Call(("list", verifier, trace["pool"]), tokens, total["latency_s"], total["device_s"])]


def lead(log: PlainLog, base: Row, path: Path) -> float | None:
    """Best score minus the best of any other answer, among the traces verified; 1 with one answer."""
    verified = {key[2] for key in (check.key for check in path.checks) if key[0] == "check"}
    listwise = any(check.key[0] == "list" for check in path.checks)
    best: dict[str, float] = {}
    for trace in path.traces:
        if log.valid(trace) and (listwise or trace["trace_id"] in verified):
            row = log.scores.get((trace["trace_id"], base["verifier"]))
            score = log.lowest(trace["pool"], base["verifier"]) if row is None else row["score"]
            best[trace["answer"]] = max(score, best.get(trace["answer"], -math.inf))
    if not best:
        return None
    ordered = sorted(best.values(), reverse=True)
    return 1.0 if len(ordered) == 1 else ordered[0] - ordered[1]


def gate_fires(log: PlainLog, policy: Row, gate: Row, path: Path) -> tuple[bool, list[Call]]:
    for key, together in (("any", any), ("all", all)):
        if key in gate:
            read = [gate_fires(log, policy, part, path) for part in gate[key]]
            return together(on for on, _ in read), [call for _, found in read for call in found]
    value, found = signal(log, policy, gate, path)
    if value is None:
        if path.answer is None:
            return True, found
        raise Partial("the gate's signal is not logged")
    return (value < gate["below"] if "below" in gate else value >= gate["at_least"]), found


def when_paths(log: PlainLog, policy: Row, example_id: str) -> list[Path]:
    (base,) = paths_of(log, policy["base"], example_id)
    fires, found = gate_fires(log, policy, policy["gate"], base)
    checks = list(base.checks)
    for call in found:
        if call.key not in {check.key for check in checks}:
            checks.append(call)
    own = base.gates | ({call.key for call in found} - set(calls(base)))
    kept = replace(base, checks=checks, gates=frozenset(own), weight=1.0, base=[replace(base, base=None)],
                   action_tokens=0, fired=False, waits=tuple(base.blocks()))  # fmt: skip
    if not fires:
        return [kept]
    done = []
    for path in paths_of(log, policy["then"], example_id):
        seen = {trace["trace_id"] for trace in kept.traces}
        known = {check.key for check in kept.checks}
        new = [[trace for trace in block if trace["trace_id"] not in seen] for block in path.blocks()]
        done.append(
            replace(
                kept,
                traces=[*kept.traces, *(trace for trace in path.traces if trace["trace_id"] not in seen)],
                checks=[*kept.checks, *(check for check in path.checks if check.key not in known)],
                waits=(*kept.blocks(), *(block for block in new if block)),
                chosen=path.chosen,
                answer=path.answer,
                row=path.row,
                ending=path.ending,
                weight=path.weight,
                action_tokens=tokens_beyond(path, [kept]),
                fired=True,
            )
        )
    return done


def graded_paths(log: PlainLog, policy: Row, example_id: str) -> list[Path]:
    """The first of the gates, one a threshold, that fires decides; where none does, the base's answer stands."""
    (base,) = paths_of(log, policy["base"], example_id)
    for threshold, most in zip(policy["thresholds"], policy["votes"], strict=True):
        gate = {"verifier": policy["verifier"], "below": threshold}
        when = {"kind": "when", "base": policy["base"], "gate": gate, "then": {**policy["then"], "max_traces": most}}
        if gate_fires(log, when, gate, base)[0]:
            break
    return when_paths(log, when, example_id)


def route_paths(log: PlainLog, policy: Row, example_id: str) -> list[Path]:
    route = policy["route"]
    value = log.example[example_id].get(route["column"])
    if value is None:
        raise Partial("the router's column is null")
    first = value < route["below"] if "below" in route else value >= route["at_least"]
    taken = paths_of(log, policy["then" if first else "else"], example_id)
    return [replace(path, base=None, action_tokens=0, fired=False) for path in taken]


# ----------------------------------------------------------------------------------------------- oracles


def value(path: Path) -> float:
    right = path.chosen["correct"]
    return -1.0 if right is None else float(right and path.answer is not None)


def total_tokens(path: Path) -> float:
    tokens = plus(list(calls(path).values()))
    return math.inf if tokens is None else tokens


def chosen_paths(log: PlainLog, policy: Row, example_id: str) -> list[Path]:
    """Rules `action` and `expected_action`."""
    base = base_traces(log, policy["base"], example_id)
    if policy["base"] in log.whole and len(base) < log.logged_solves(example_id, policy["base"]):
        raise Partial("the pool is replayed whole or not at all")
    groups: list[tuple[Any, list[Path]]] = [((0, "", 0), [trace_path(log, base[0])])]
    for name in policy["of"]:
        if name in log.solve_pools():
            found = log.solves(example_id, name)
            if name in log.whole and len(found) < log.logged_solves(example_id, name):
                raise Partial("the pool is replayed whole or not at all")
            paths = [trace_path(log, trace) for trace in found]
        else:
            found = log.revisions(example_id, name, base[0]["trace_id"])
            paths = [revision_path(log, base, trace) for trace in found]
        if not paths:
            raise Partial(f"nothing of {name}")
        if policy["rule"] == "expected_action":
            groups.append(((1, name, 0), paths))
        else:
            groups += [((1, name, i), [path]) for i, path in enumerate(paths)]

    def rank(group: tuple[Any, list[Path]]) -> Any:
        (later, name, i), paths = group
        mean = sum(map(value, paths)) / len(paths)
        tokens = sum(map(total_tokens, paths)) / len(paths)
        return (-mean, later, tokens if later else 0, name, i)

    best = min(groups, key=rank)[1]
    return [replace(path, weight=1 / len(best)) for path in best]


def matched_parts(policy: Row) -> tuple[Row, Row]:
    base = policy["base"]
    if isinstance(base, str):
        base = {"kind": "sample", "pool": base, "max_traces": 1, "select": "first"}
    return base, policy["then"]


def matched_paths(log: PlainLog, policy: Row, example_id: str) -> list[Path]:
    """`matched_random`; of `matched_rate` the base, until the examples are chosen."""
    base, then = (paths_of(log, part, example_id) for part in matched_parts(policy))
    plain = [replace(path, base=None, fired=False, action_tokens=0) for path in base]
    if policy["rule"] == "matched_rate":
        return plain
    mixed = [replace(path, weight=path.weight * (1 - policy["rate"])) for path in plain]
    mixed += [
        replace(p, base=None, fired=False, action_tokens=0, weight=p.weight * policy["rate"], gates=frozenset())
        for p in then
    ]
    return [replace(path, gates=frozenset()) for path in mixed if path.weight > 0]


def matched_choice(log: PlainLog, policy: Row, compared: Sequence[str]) -> dict[str, list[Path]]:
    """The paths of `matched_rate` on the examples compared."""
    rows, base_paths, then_paths = [], {}, {}
    for example_id in compared:
        base, then = (paths_of(log, part, example_id) for part in matched_parts(policy))
        base_paths[example_id], then_paths[example_id] = base, then
        judged = base[0].chosen["correct"] is not None
        gain = sum(p.weight * value(p) for p in then) - sum(p.weight * value(p) for p in base) if judged else -math.inf
        extra = [tokens_beyond(path, base) for path in then]
        tokens = math.inf if None in extra else sum(p.weight * t for p, t in zip(then, extra, strict=True))
        rows.append((-round(gain, 9) if judged else math.inf, round(tokens, 6), example_id.encode(), example_id))
    count = math.floor(policy["rate"] * len(compared) + 0.5)
    taken = {row[-1] for row in sorted(rows)[:count]}
    chosen = {e: then_paths[e] if e in taken else base_paths[e] for e in compared}
    return {e: [replace(p, base=None, fired=False, action_tokens=0) for p in paths] for e, paths in chosen.items()}


# ---------------------------------------------------------------------------------------------- settings


def single(policy: Row) -> bool:
    kind = policy["kind"]
    if kind == "sample":
        return "orders" not in policy and not policy.get("expected")
    if kind == "act":
        return policy.get("rollouts", "mean") != "mean"
    if kind == "when":
        return single(policy["base"]) and single(policy["then"])
    if kind == "route":
        return single(policy["then"]) and single(policy["else"])
    return policy.get("rule", "any") in ("any", "action")


def readings(gate: Row) -> list[Row]:
    inner = gate.get("any") or gate.get("all")
    return [gate] if inner is None else [one for part in inner for one in readings(part)]


def chosen_pools(log: PlainLog, policy: Row) -> set[str]:
    """Pools of first attempts in which a policy's chosen trace may be."""
    if policy["kind"] == "sample":
        return {policy["pool"]}
    inner = [policy[key] for key in ("base", "then", "else") if isinstance(policy.get(key), dict)]
    named = {policy["base"], *policy["of"]} if policy["kind"] == "oracle" and "of" in policy else set()
    return set().union(named & set(log.solve_pools()), *(chosen_pools(log, part) for part in inner))


def refuse_intervention(log: PlainLog, policy: Row) -> None:
    if policy["kind"] != "when":
        return
    pools = chosen_pools(log, policy["base"])
    lists = [t.get("token_logprobs") or [] for t in log.traces if t["action"] == "solve" and t["pool"] in pools]
    for gate in readings(policy["gate"]):
        if pools and gate.get("tokens", 0) > max(map(len, lists), default=0):
            raise Refused("no list of log-probabilities is so long")
    if not single(policy["base"]):
        raise Refused("the gate has no single chosen trace to read")
    for gate in readings(policy["gate"]):
        if gate.get("signal") in ("vote_share", "margin") and policy["base"]["kind"] != "sample":
            raise Refused("a signal of a sample's last step")
        if gate.get("signal") == "margin" and not verifies(policy["base"]):
            raise Refused("the base verifies nothing")
