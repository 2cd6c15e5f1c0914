"""One policy on one example, step by step: what was revealed, what it cost, and why it ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from replay.data.block import Block
from replay.data.contents import read_contents, request, resolve
from replay.data.needs import example_columns
from replay.data.read import read_block
from replay.engine.evaluator import replay_block, walks
from replay.engine.oracles import slice_names
from replay.engine.outcome import ENDINGS, MIXED, SERVED, Outcome, derived
from replay.engine.trajectory import COSTS, walk_block
from replay.learning.fit import fit_policies
from replay.policies.base import Oracle, Policy, Sample
from replay.policies.toml import PolicyFile, load_policies
from replay.runs.lookahead import check_rules
from replay.sampling.stops import Never, Rule, decisions, looked_at
from toolkit.errors import ThinkbackError, suggest
from toolkit.log import Log, check_log, collect, open_log

WHY = {
    "rule": "the stopping rule held",
    "cap": "all that the cap allows was generated, and no rule held",
    "exhausted": "the log ran out before the cap",
    "empty": "every trace generated was verified before the cap, so the surrogate had nothing left to pick",
}


@dataclass(frozen=True)
class Explanation:
    """`header`: question, gold, policy. `steps`: one row per step. `ending`: the result and why it ended."""

    header: tuple[str, ...]
    steps: pl.DataFrame
    ending: str


def explain(
    log: Log | str | Path,
    policies: str | Path | PolicyFile | Policy | Iterable[Policy],
    policy: str,
    example: str,
    *,
    rules: str | Path | Iterable[type[Rule]] | None = None,
    repetition: int = 0,
) -> Explanation:
    """Walk one example under one policy. `repetition` picks the random order shown where there are several.

    Raises ThinkbackError when the log has no such example, or the file no such policy.
    """
    file = load_policies(policies, rules)
    log = open_log(log) if isinstance(log, str | Path) else log
    check_log(log)
    contents = read_contents(log)
    found = {p.name: p for p in resolve(file.policies, contents)}
    if policy not in found:
        raise ThinkbackError(f"no policy is named `{policy}`; {suggest(policy, found)}")
    chosen = replace(found[policy], against=None)
    chosen = fit_policies(log, contents, [chosen], pl.Series([example]), file.measure)[0]
    columns = list(dict.fromkeys(["example_id", "labels", "question", "gold", *sorted(example_columns([chosen]))]))
    row = collect(log.scan("examples", columns).filter(pl.col("example_id") == example), log)
    if row.is_empty():
        known = collect(log.scan("examples", ["example_id"]).select("example_id"), log)
        raise ThinkbackError(f"the log has no example `{example}`; {suggest(example, known['example_id'])}")
    block = read_block(log, row, request([chosen], contents, file.measure, file.prices))
    check_rules(block, [chosen])
    outcome = replay_block(block, [chosen], contents.whole)[0]
    if isinstance(chosen, Sample):
        if not 0 <= repetition < (chosen.orders or 1):
            raise ThinkbackError(f"`repetition` is {repetition}; the policy has {chosen.orders or 1}, from 0")
        steps = _sample_steps(block, chosen, repetition)
    else:
        steps = _oracle_steps(block, chosen)
    marked = ("simulated log: a model's numbers, not a system's",) if log.simulated else ()
    return Explanation((*_header(row, chosen, repetition), *marked), steps, _ending(block, chosen, outcome))


def _header(row: pl.DataFrame, policy: Policy, repetition: int) -> tuple[str, ...]:
    shown = (
        f"policy    {policy.name} ({policy.kind}{f', diagnostic: {policy.diagnostic}' if policy.diagnostic else ''})"
    )
    if isinstance(policy, Sample) and policy.orders:
        shown += f", order {repetition} of {policy.orders}"
    return (
        f"example   {row['example_id'][0]}",
        f"question  {row['question'][0]}",
        f"gold      {row['gold'][0] if row['gold'][0] is not None else '-'}",
        shown,
    )


def _sample_steps(block: Block, policy: Sample, repetition: int) -> pl.DataFrame:
    walk = walks(policy)[repetition]
    trajectory = walk_block(block, replace(walk, order="random") if policy.expected else walk)
    limit = int(min(trajectory.limit[0], policy.max_traces) if policy.order == "generation" else trajectory.limit[0])
    if trajectory.picks is not None:
        limit = int(trajectory.picks.count[0])  # without the last step of a lazy walk, which verifies nothing
    seen = trajectory.prefix.first(limit)
    at = np.take_along_axis(trajectory.place, trajectory.at, axis=1)[0, :limit]
    chosen = trajectory.chosen(policy.select)[0, 1 : limit + 1]
    now = np.where(chosen >= 0, trajectory.pool.word[0, trajectory.place[0, np.maximum(chosen, 0)]], -1)
    costs = {name: trajectory.costs[0, 1 : limit + 1, i] for i, name in enumerate(COSTS)}
    holds = decisions(policy.stop, seen)[0] if not isinstance(policy.stop, Never) else np.zeros(limit, dtype=bool)
    width = policy.width if policy.order == "generation" else 1
    looked = looked_at(limit, np.array([limit]), width)[0]
    stops = np.flatnonzero(holds & looked)
    last = int(stops[0]) + 1 if len(stops) else limit
    numbers = {
        "step": np.arange(1, limit + 1),
        "sample": at,
        "score": trajectory.score[0, :limit],
        "votes": seen.votes[0],
        "second_votes": seen.second_votes[0],
        "lead": seen.lead[0],
    }
    words = {"answer": trajectory.pool.word[0, at], "answer_now": now}
    frame = pl.DataFrame(numbers, nan_to_null=True).with_columns(
        *(pl.Series(name, _words(block, values)) for name, values in words.items()),
        pl.Series("holds", holds & looked),
        *(pl.Series(name, values, nan_to_null=True) for name, values in derived(costs).items()),
        pl.Series("latency_s", costs["latency_s"], nan_to_null=True),
    )
    order = ["step", "sample", "answer", "score", "votes", "second_votes", "lead", "holds", "answer_now"]
    return frame.select(*order, "total_tokens", "operations", "latency_s")[:last]


def _oracle_steps(block: Block, policy: Policy) -> pl.DataFrame:
    if not isinstance(policy, Oracle) or policy.parts:
        raise ThinkbackError(f"policy `{policy.name}`: policies of kind `{policy.kind}` are not explained")
    rows = []
    for name in slice_names(policy, frozenset(block.pools)):
        pool = block.pools[name]
        for sample in range(int(pool.size[0])):
            word, judged = int(pool.word[0, sample]), pool.judged[0, sample]
            answer = block.vocabulary[word] if word >= 0 else None
            rows.append((name, sample, answer, None if np.isnan(judged) else float(judged)))
    return pl.DataFrame(rows, schema=["of", "sample", "answer", "correct"], orient="row")


def _words(block: Block, words: np.ndarray) -> list[str | None]:
    return [block.vocabulary[int(word)] if word >= 0 else None for word in words]


def _ending(block: Block, policy: Policy, outcome: Outcome) -> str:
    if outcome.reason[0] != SERVED:
        return f"partial, so left out of a run: {outcome.reasons[outcome.reason[0]]}"
    costs = {name: outcome.costs[:, i] for i, name in enumerate(COSTS)}
    total = derived(costs)["total_tokens"][0]
    paid = f"{costs['traces'][0]:g} traces, {costs['verifications'][0]:g} verifications"
    paid += f", {total:,.0f} tokens" if not np.isnan(total) else ", tokens not logged"
    right = outcome.correct[0]
    judged = "unjudged" if np.isnan(right) else {0.0: "wrong", 1.0: "right"}.get(float(right), f"right {right:.1%}")
    if int(outcome.rows[0]) > 1:
        return f"mean over {int(outcome.rows[0])} rows: {judged}; {paid}"
    answer = _words(block, outcome.words[:1, 0])[0]
    ending = ENDINGS[outcome.ending[0]] if outcome.ending[0] != MIXED else "mixed"
    why = WHY.get(ending, ending) if isinstance(policy, Sample) else "an oracle looks at all of `of`"
    return f"{ending}: {why}; answer {answer if answer is not None else 'none'} ({judged}); {paid}"
