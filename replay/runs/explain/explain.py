"""One policy on one example, step by step: what was revealed, what it cost, and why it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.conditions import CONDITION
from replay.data.contents import Contents, opened
from replay.data.prices import Prices
from replay.data.read import BlockRequest, read_block, read_texts
from replay.engine.outcome import SERVED
from replay.policies.base import Evaluator, Policy, Stage, needs_of
from replay.policies.toml import POLICIES, RULES, GivenPolicies, PolicyFile, load_policies
from replay.runs.passes.example_set import ExampleSet
from replay.runs.passes.gathered import Gathered
from replay.runs.passes.learning import fit_policies, resolved
from replay.runs.passes.lookahead import check_rules
from replay.runs.passes.passes import ReplayPlan, number_columns
from replay.runs.passes.served import serve
from replay.runs.passes.store import ServedOutcomes
from replay.runs.passes.versions import Acting, Reported, Versions, swept
from replay.sampling.own_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError, require_known, shown, suggest
from toolkit.log import TAKES, AnyLog, Log, collect
from toolkit.printable import printable
from toolkit.show import Table, table_of
from toolkit.show.tables.html import paragraph
from toolkit.stats.many.summary_notes import BATCHED, DEVICE, WAITING, of_batches

MOST_ANSWERS = 5
"""Answers of a mean that its ending names."""
SHOWN = 140
"""Characters across an explanation that is printed."""
LEAST = ("calls", "completion_tokens", "operations", "verifications", "traces", "second_votes", "votes", "lead")
"""Columns of steps that a narrow terminal drops, the first first."""


class Asked(Protocol):
    """What policies are asked about: the measure of success, and prices."""

    @property
    def measure(self) -> str | None:
        """A column of traces in place of `correct`."""
        ...

    @property
    def prices(self) -> Prices | None:
        """Prices of calls."""
        ...


def known(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a stage without columns that are null throughout."""
    return rows.select(one.name for one in rows if rows.is_empty() or one.null_count() < len(one))


def stage_table(stage: Stage, whole: bool = False) -> Table:
    """The rows of a stage as a table, without columns that have no value.

    A narrow terminal may drop some others, unless the `whole` is asked for.
    """
    rows = known(stage.rows)
    if whole:
        return table_of(rows, stage.title)
    spared = LEAST if "total_tokens" in rows.columns else [name for name in LEAST if name != "completion_tokens"]
    drop = {name: len(spared) - place for place, name in enumerate(spared)}
    table = table_of(rows, stage.title)
    return replace(table, columns=tuple(replace(one, drop=drop.get(one.name, 0)) for one in table.columns))


@dataclass(frozen=True)
class Explanation:
    """`header`: question, gold, policy. `stages`: its parts, step by step. `ending`: the result and why it ended.

    `outcomes`: the row that a run would have in its outcomes; none where the example is partial for the policy. Of a
    policy that intervenes on some of all examples of a run, the row where it does, then that where it does not. `texts`
    (of, sample, trace_id, text): of the traces that it looked at, where they were asked for.
    """

    header: tuple[str, ...]
    stages: tuple[Stage, ...]
    ending: str
    outcomes: pl.DataFrame
    texts: pl.DataFrame | None = None

    def __str__(self) -> str:
        told = [
            stage_table(one, whole=True).terminal(SHOWN) + f"{printable(one.ending)}\n" * bool(one.ending)
            for one in self.stages
        ]
        return "\n".join([*map(printable, self.header), *told, *map(printable, (self.ending, *self.notes))])

    def _repr_html_(self) -> str:
        told = [stage_table(one).html() + paragraph(one.ending) * bool(one.ending) for one in self.stages]
        return "".join([*map(paragraph, self.header), *told, *map(paragraph, (*self.notes, self.ending))])

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said beneath: that seconds, where steps show them, were measured in batches."""
        if WAITING not in self.outcomes.columns or not any(WAITING in one.rows.columns for one in self.stages):
            return ()
        paid = self.outcomes.select(pl.col(WAITING, DEVICE).max()).row(0)
        batched = None not in paid and 0 < BATCHED * paid[1] < paid[0]
        return (of_batches(*paid),) if batched else ()

    @property
    def steps(self) -> pl.DataFrame:
        """The rows of all stages; of several, with the title of each in the column `stage`."""
        if len(self.stages) < 2:
            return self.stages[0].rows if self.stages else pl.DataFrame()
        parts = [one.rows.select(pl.lit(one.title).alias("stage"), pl.all()) for one in self.stages]
        return pl.concat(parts, how="diagonal_relaxed")


@checks_arguments(
    log=TAKES, policies=POLICIES, policy="a policy's name", example="an example_id", rules=RULES, where=CONDITION
)
def explain(
    log: AnyLog,
    policies: GivenPolicies,
    policy: str,
    example: str,
    *,
    rules: GivenRules = None,
    where: str | None = None,
    repetition: int = 0,
    texts: bool = False,
) -> Explanation:
    """Walk one example under one policy. `where` names the examples of the run that is explained, as in `run`: what
    policies learn must not come from them, and one that ranks them all acts on those that it would act on there; by
    default the example stands alone. `repetition` picks the random order shown where there are several; `texts` adds
    what the model wrote.

    Raises ThinkbackError when the log has no such example, `where` does not hold on it, or the file has no such policy.
    """
    file = load_policies(policies, rules)
    log, contents = opened(log)
    chosen, acts = replace(_named(file.policies, policy), against=None), None
    if where is None:
        chosen = chosen.resolve(contents)
        chosen.check_log(log, contents)
        chosen = fit_policies(log, contents, [chosen], pl.Series([example]), file.measure)[0]
    else:
        chosen, acts = _in_run(log, contents, file, chosen, where, example)
    return explain_fitted(log, contents, chosen, example, file, repetition, texts, acts)


def _in_run(
    log: Log, contents: Contents, file: PolicyFile, chosen: Policy, where: str, example: str
) -> tuple[Policy, bool | None]:
    """A policy as it is in a run on the examples `where` a condition holds; whether it acts on this one, where it ranks
    them all: a share of those that every policy of the file can be replayed on.
    """
    asked = file if chosen.ranking is not None else replace(file, policies=(chosen,))
    policies, examples, _ = resolved(log, contents, asked, file.measure, where)
    ids = examples.frame["example_id"]
    require_known(example, ids, f"no example `{example}` is among those where {where}")
    policies = fit_policies(log, contents, policies, ids, file.measure)
    plain = replace(next(one for one in policies if one.name == chosen.name), against=None)
    if plain.ranking is None:
        return plain, None
    served = serve(ReplayPlan(log, contents, examples, file.measure, file.prices, None), policies, strict=False)
    place = ids.filter(served.coverage.keep).index_of(example)
    acting = served.acting.get(plain.name)
    return plain, None if place is None or acting is None else bool(acting[place])


def _named(policies: Sequence[Policy], name: str) -> Policy:
    """The policy of a name; of one with several thresholds, that with the threshold in its brackets."""
    found = {one.name: one for one in policies}
    whole = next((one for one in policies if name.startswith(f"{one.name}[gate.")), None)
    if name not in found and whole is not None and (gate := swept(whole)) is not None:
        value = name.removesuffix("]").rpartition("=")[2]
        try:
            return replace(gate.at(float(value)), name=name)
        except ValueError:
            raise ThinkbackError(f"`{name}`: `{shown(value)}` is no threshold of `{whole.name}`") from None
    require_known(name, found, f"no policy is named `{name}`")
    if (gate := swept(found[name])) is not None:
        key = "below" if gate.falling else "at_least"
        raise ThinkbackError(f"`{name}` stands for several thresholds: name one, as `{name}[gate.{key}=0.5]`")
    return found[name]


def explain_fitted(
    log: Log,
    contents: Contents,
    chosen: Policy,
    example: str,
    asked: Asked,
    repetition: int = 0,
    texts: bool = False,
    acts: bool | None = None,
) -> Explanation:
    """The same of a policy that is resolved and fitted; `acts`: whether one that ranks all examples acts on this one,
    where that is known.
    """
    needs = needs_of([chosen], contents)
    columns = list(dict.fromkeys(["example_id", "labels", "question", "gold", *sorted(needs.example_columns)]))
    row = collect(log.scan("examples", columns).filter(pl.col("example_id") == example), log)
    if row.is_empty():
        known = collect(log.scan("examples", ["example_id"]).select("example_id"), log)
        raise ThinkbackError(f"the log has no example `{example}`; {suggest(example, known['example_id'])}")
    block = read_block(log, row, BlockRequest(needs, asked.measure, asked.prices))
    check_rules(block, [chosen])
    stages = tuple(chosen.explain(Evaluator(block, [chosen]), repetition))
    marked = ("simulated log: a model's numbers, not a system's",) if log.simulated else ()
    diagnostic = f", diagnostic: {chosen.diagnostic}" if chosen.diagnostic else ""
    header = (
        f"example   {row['example_id'][0]}",
        f"question  {row['question'][0]}",
        f"gold      {row['gold'][0] if row['gold'][0] is not None else '-'}",
        f"policy    {chosen.name} ({chosen.kind}{diagnostic})",
    )
    ending, outcomes = _ended(block, chosen, asked.prices is not None, acts)
    written = texts_of(stages, read_texts(log, example, needs)) if texts else None
    return Explanation((*header, *marked), stages, ending, outcomes, written)


def _ended(block: LogBlock, policy: Policy, priced: bool, acts: bool | None) -> tuple[str, pl.DataFrame]:
    """The ending in words, and the rows of outcomes that it tells."""
    if policy.ranking is None:
        return _one_ending(block, policy, priced, on=False)
    if acts is not None:
        told, row = _one_ending(block, policy, priced, on=acts)
        return f"it {'intervenes' if acts else 'does not intervene'}: {told}", row
    (there, first), (keeps, second) = (_one_ending(block, policy, priced, on=on) for on in (True, False))
    if first.is_empty():
        return there, first
    return f"{policy.ending('')}; where it does: {there}; where it does not: {keeps}", pl.concat([first, second])


def _one_ending(block: LogBlock, policy: Policy, priced: bool, on: bool) -> tuple[str, pl.DataFrame]:
    """The same of one outcome: `on`, of a policy that ranks all examples of a run, where it intervenes on this one."""
    evaluator = Evaluator(block, [policy], frozenset([policy.name] if on else []))
    outcome = evaluator.outcome(policy)
    frame = _outcome_row(block, policy, priced, on, bool(outcome.reason[0] == SERVED))
    if frame.is_empty():
        return f"partial, so left out of a run: {outcome.reasons[outcome.reason[0]]}", frame
    row = frame.row(0, named=True)
    rows = int(outcome.rows[0])
    if rows > 1:
        told = [f"mean over {rows} {policy.rows_of(evaluator)}: {_judged(row)}", _answers(row["answers"])]
    else:
        why = "" if policy.ranking is not None else policy.why(evaluator, row["ending"])
        reason = [f"{row['ending']}: {why}" if why != row["ending"] else why] if why else []
        told = [*reason, f"answer {_answer(row['answer'])} ({_judged(row)})"]
    return "; ".join([*told, _paid(row)]), frame


def _outcome_row(block: LogBlock, policy: Policy, priced: bool, on: bool, served: bool) -> pl.DataFrame:
    """The row that a run has in its outcomes; none where the example is partial."""
    gathered = Gathered(Versions.of([policy]), number_columns([policy], priced))
    gathered.add(block)
    acts = Acting(np.zeros(1), True, float(on))  # 0 < 1: it acts
    reported = Reported((policy,), gathered.versions.places, {0: (acts, None)})
    outcomes = ServedOutcomes(gathered, reported, ExampleSet(block.examples, None), np.array([served]))
    return pl.concat([pl.DataFrame(schema=outcomes.schema), *outcomes.frames()])


def told_of(row: Mapping[str, Any]) -> str:
    """An ending in words, from a row of outcomes alone."""
    if row["answers"] is not None:
        told = [f"mean: {_judged(row)}", _answers(row["answers"])]
    else:
        why = [] if row["ending"] is None else [f"{row['ending']}:"]
        told = [" ".join([*why, f"answer {_answer(row['answer'])} ({_judged(row)})"])]
    return "; ".join([*told, _paid(row)])


def _judged(row: Mapping[str, Any]) -> str:
    right = row["correct"]
    return "unjudged" if right is None else {0.0: "wrong", 1.0: "right"}.get(right, f"right {right:.1%}")


def _answer(answer: str | None) -> str:
    return "none" if answer is None else answer


def _answers(answers: list[dict[str, Any]]) -> str:
    named = ", ".join(f"{_answer(one['answer'])} {one['share']:.1%}" for one in answers[:MOST_ANSWERS])
    return f"answers {named}" + (", …" if len(answers) > MOST_ANSWERS else "")


def _paid(row: Mapping[str, Any]) -> str:
    counts = ", ".join(_count(row[name], name.removesuffix("s")) for name in ("traces", "verifications"))
    if row["total_tokens"] is not None:
        return f"{counts}, {_count(row['total_tokens'], 'token', ',.0f')}"
    written = row["completion_tokens"]
    known = "" if written is None else f", {_count(written, 'completion token', ',.0f')}"
    return f"{counts}{known}, total tokens not logged"


def _count(number: float, what: str, form: str = "g") -> str:
    shown = f"{number:{form}}"
    return f"{shown} {what}" + ("" if shown == "1" else "s")


def texts_of(stages: Iterable[Stage], logged: pl.DataFrame) -> pl.DataFrame:
    """The texts of the traces that stages looked at, each once, in their order; `logged` has them by slice, sample."""
    seen = list(dict.fromkeys(trace for stage in stages for trace in stage.traces))
    wanted = pl.DataFrame(seen, schema={"of": pl.String, "sample": logged.schema["sample"]}, orient="row")
    return wanted.join(
        logged, left_on=["of", "sample"], right_on=["slice", "sample"], how="left", maintain_order="left"
    )
