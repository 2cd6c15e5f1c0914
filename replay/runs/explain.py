"""One policy on one example, step by step: what was revealed, what it cost, and why it ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from replay.data.contents import opened
from replay.data.read import BlockRequest, read_block
from replay.engine.costs import by_name
from replay.engine.mixing import predicted
from replay.engine.outcome import ENDINGS, MIXED, SERVED, Outcome
from replay.policies.base import Evaluator, Policy, Stage, needs_of
from replay.policies.toml import POLICIES, RULES, PolicyFile, load_policies
from replay.runs.learning import fit_policies
from replay.runs.lookahead import check_rules
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError, require_known, suggest
from toolkit.log import TAKES, AnyLog, collect


@dataclass(frozen=True)
class Explanation:
    """`header`: question, gold, policy. `stages`: its parts, step by step. `ending`: the result and why it ended."""

    header: tuple[str, ...]
    stages: tuple[Stage, ...]
    ending: str

    @property
    def steps(self) -> pl.DataFrame:
        """The rows of all stages; of several, with the title of each in the column `stage`."""
        if len(self.stages) == 1:
            return self.stages[0].rows
        parts = [one.rows.select(pl.lit(one.title).alias("stage"), pl.all()) for one in self.stages]
        return pl.concat(parts, how="diagonal_relaxed")


@checks_arguments(log=TAKES, policies=POLICIES, policy="a policy's name", example="an example_id", rules=RULES)
def explain(
    log: AnyLog,
    policies: str | Path | PolicyFile | Policy | Iterable[Policy],
    policy: str,
    example: str,
    *,
    rules: str | Path | Iterable[type] | None = None,
    repetition: int = 0,
) -> Explanation:
    """Walk one example under one policy. `repetition` picks the random order shown where there are several.

    Raises ThinkbackError when the log has no such example, or the file no such policy.
    """
    file = load_policies(policies, rules)
    log, contents = opened(log)
    found = {one.name: one for one in file.policies}
    require_known(policy, found, f"no policy is named `{policy}`")
    chosen = replace(found[policy], against=None).resolve(contents)
    chosen.check_log(log, contents)
    chosen = fit_policies(log, contents, [chosen], pl.Series([example]), file.measure)[0]
    needs = needs_of([chosen], contents)
    columns = list(dict.fromkeys(["example_id", "labels", "question", "gold", *sorted(needs.example_columns)]))
    row = collect(log.scan("examples", columns).filter(pl.col("example_id") == example), log)
    if row.is_empty():
        known = collect(log.scan("examples", ["example_id"]).select("example_id"), log)
        raise ThinkbackError(f"the log has no example `{example}`; {suggest(example, known['example_id'])}")
    block = read_block(log, row, BlockRequest(needs, file.measure, file.prices))
    check_rules(block, [chosen])
    evaluator = Evaluator(block, [chosen])
    outcome = evaluator.outcome(chosen)
    stages = tuple(chosen.explain(evaluator, repetition))
    marked = ("simulated log: a model's numbers, not a system's",) if log.simulated else ()
    diagnostic = f", diagnostic: {chosen.diagnostic}" if chosen.diagnostic else ""
    header = (
        f"example   {row['example_id'][0]}",
        f"question  {row['question'][0]}",
        f"gold      {row['gold'][0] if row['gold'][0] is not None else '-'}",
        f"policy    {chosen.name} ({chosen.kind}{diagnostic})",
    )
    return Explanation((*header, *marked), stages, _ending(block.vocabulary, chosen, outcome))


def _ending(vocabulary: pl.Series, policy: Policy, outcome: Outcome) -> str:
    if outcome.reason[0] != SERVED:
        return f"partial, so left out of a run: {outcome.reasons[outcome.reason[0]]}"
    costs = by_name(outcome.costs[0])
    total = costs["total_tokens"]
    paid = f"{costs['traces']:g} traces, {costs['verifications']:g} verifications"
    paid += f", {total:,.0f} tokens" if not np.isnan(total) else ", tokens not logged"
    right = outcome.correct[0]
    judged = "unjudged" if np.isnan(right) else {0.0: "wrong", 1.0: "right"}.get(float(right), f"right {right:.1%}")
    if int(outcome.rows[0]) > 1:
        return f"mean over {int(outcome.rows[0])} rows: {judged}; {paid}"
    word = int(predicted(outcome)[0])
    answer = vocabulary[word] if word >= 0 else "none"
    ending = ENDINGS[outcome.ending[0]] if outcome.ending[0] != MIXED else "mixed"
    return f"{ending}: {policy.ending(ending)}; answer {answer} ({judged}); {paid}"
