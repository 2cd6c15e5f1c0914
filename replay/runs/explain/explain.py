"""One policy on one example, step by step: what was revealed, what it cost, and why it ended.

From the log an explanation has all that the policy saw; from a saved result, without the log, what it paid
(`explain_saved`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.contents import Contents, open_with_contents
from replay.data.read import BlockRequest, read_block, read_texts
from replay.engine.outcome import COVERED
from replay.policies.base import Evaluator, ExplanationStage, Policy, needs_of_policies
from replay.policies.toml import GivenPolicies, PolicyFile, load_policies
from replay.runs.passes.covered import check_rules, replay_covered
from replay.runs.passes.example_set import ExampleSet, with_gold_of_texts
from replay.runs.passes.learning import fit_policies, resolve_policies
from replay.runs.passes.pass_result import PassResult
from replay.runs.passes.passes import ReplayPlan, number_columns
from replay.runs.passes.store import CoveredOutcomes
from replay.runs.passes.versions import ActingExamples, PolicyVersions, ReportedPolicies, policy_named
from replay.runs.saved.findings import Findings
from replay.runs.saved.paid_traces import ORDERS, SCORES, STOPS, TOGETHER, TRACES
from replay.runs.saved.provenance import PolicyRecord
from replay.runs.saved.saved_folder import SavedFolder
from replay.runs.saved.saved_rows import has_texts, saved_block, saved_policy
from replay.sampling.user_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.columns import OutcomeColumn
from toolkit.errors import EmptyError, argument, counted, require_known
from toolkit.log import AnyLog, Log, collect
from toolkit.printable import printable
from toolkit.show import Table, table_of
from toolkit.show.tables.html import paragraph
from toolkit.stats.many.summary_notes import BATCHED, DEVICE, WAITING, batches_text
from toolkit.stopping.unscored import LOWEST, SKIP

MOST_ANSWERS = 5
"""The most answers of a mean that its ending names."""
TERMINAL_WIDTH = 140
"""How many characters wide an explanation is printed."""
LEAST = ("calls", "completion_tokens", "operations", "verifications", "traces", "second_votes", "votes", "lead")
"""Columns of steps that a narrow terminal drops, in this order."""


def without_null_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a stage, without columns that are null throughout."""
    return rows.select(row.name for row in rows if rows.is_empty() or row.null_count() < len(row))


def stage_table(stage: ExplanationStage, whole: bool = False) -> Table:
    """The rows of a stage as a table, without columns that have no value.

    A narrow terminal may drop some others, unless the `whole` is asked for.
    """
    rows = without_null_columns(stage.rows)
    if whole:
        return table_of(rows, stage.title)
    spared = LEAST if "total_tokens" in rows.columns else [name for name in LEAST if name != "completion_tokens"]
    drop = {name: len(spared) - place for place, name in enumerate(spared)}
    table = table_of(rows, stage.title)
    return replace(table, columns=tuple(replace(column, drop=drop.get(column.name, 0)) for column in table.columns))


@dataclass(frozen=True)
class Explanation:
    """How one policy went on one example. `header`: question, gold, policy. `stages`: its parts, step by step.
    `ending`: the result, and why it ended.

    `outcomes`: the row that a run would have in its outcomes; none where the example is partial for the policy. Of a
    policy that intervenes on some of all examples of a run, the row where it does, then that where it does not. `texts`
    (of, sample, trace_id, text): of the traces that it looked at, where they were asked for.
    """

    header: tuple[str, ...]
    stages: tuple[ExplanationStage, ...]
    ending: str
    outcomes: pl.DataFrame
    texts: pl.DataFrame | None = None

    def __str__(self) -> str:
        texts = [
            stage_table(stage, whole=True).terminal(TERMINAL_WIDTH)
            + f"{printable(stage.ending)}\n" * bool(stage.ending)
            for stage in self.stages
        ]
        return "\n".join([*map(printable, self.header), *texts, *map(printable, (self.ending, *self.notes))])

    def _repr_html_(self) -> str:
        texts = [stage_table(stage).html() + paragraph(stage.ending) * bool(stage.ending) for stage in self.stages]
        return "".join([*map(paragraph, self.header), *texts, *map(paragraph, (*self.notes, self.ending))])

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes beneath the explanation: that seconds were measured in batches, where steps show any."""
        if WAITING not in self.outcomes.columns or not any(WAITING in stage.rows.columns for stage in self.stages):
            return ()
        paid = self.outcomes.select(pl.col(WAITING, DEVICE).max()).row(0)
        batched = None not in paid and 0 < BATCHED * paid[1] < paid[0]
        return (batches_text(*paid),) if batched else ()

    @property
    def steps(self) -> pl.DataFrame:
        """The rows of all stages; of several, with the title of each in the column `stage`."""
        if len(self.stages) < 2:
            return self.stages[0].rows if self.stages else pl.DataFrame()
        parts = [stage.rows.select(pl.lit(stage.title).alias("stage"), pl.all()) for stage in self.stages]
        return pl.concat(parts, how="diagonal_relaxed")


@checks_arguments()
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
    """Walk one example under one policy, and explain each step.

    Raises ThinkbackError when the log has no such example, `where` does not hold on it, or the file has no such policy.
    """
    file = load_policies(policies, rules)
    log, contents = open_with_contents(log)
    chosen, acts = replace(policy_named(file.policies, policy), against=None), None
    if where is None:
        chosen = chosen.resolve(contents)
        chosen.check_log(log, contents)
        chosen = fit_policies(log, contents, [chosen], pl.Series([example]), file.measure)[0]
    else:
        chosen, acts = _policy_in_run(log, contents, file, chosen, where, example)
    return explain_fitted(log, contents, chosen, example, file, repetition, texts, acts)


def _policy_in_run(
    log: Log, contents: Contents, file: PolicyFile, chosen: Policy, where: str, example: str
) -> tuple[Policy, bool | None]:
    """A policy as it is in a run on the examples of `where`; and for one that ranks them, whether it acts on this
    example.
    """
    run_file = file if chosen.example_ranking is not None else replace(file, policies=(chosen,))
    policies, examples, _ = resolve_policies(log, contents, run_file, file.measure, where)
    ids = examples.frame["example_id"]
    if example not in ids:
        _check_known(log, example)
        raise EmptyError(f"{argument('where')} leaves out example `{example}`: it takes those where {where}")
    policies = fit_policies(log, contents, policies, ids, file.measure)
    plain = replace(next(policy for policy in policies if policy.name == chosen.name), against=None)
    if plain.example_ranking is None:
        return plain, None
    replay = replay_covered(
        ReplayPlan(log, contents, examples, file.measure, file.prices, None), policies, strict=False
    )
    place = ids.filter(replay.coverage.keep).index_of(example)
    acting = replay.masks_of_acting.get(plain.name)
    return plain, None if place is None or acting is None else bool(acting[place])


def _check_known(log: Log, example: str) -> None:
    ids = collect(log.scan("examples", ["example_id"]).select("example_id"), log)["example_id"]
    require_known(example, ids, f"the log has no example `{example}`")


def _header_lines(
    example: str, question: str | None, gold: str | None, policy: Policy | PolicyRecord, simulated: bool
) -> tuple[str, ...]:
    """The lines above an explanation; without a question for a result that was saved without texts."""
    heading = () if question is None else (f"question  {question}",)
    diagnostic = f", diagnostic: {policy.diagnostic}" if policy.diagnostic else ""
    lines = f"gold      {'-' if gold is None else gold}", f"policy    {policy.name} ({policy.kind}{diagnostic})"
    return (
        f"example   {example}",
        *heading,
        *lines,
        *(["simulated log: a model's numbers, not a system's"] if simulated else []),
    )


def explain_fitted(
    log: Log,
    contents: Contents,
    chosen: Policy,
    example: str,
    source: PolicyFile | ReplayPlan,
    repetition: int = 0,
    texts: bool = False,
    acts: bool | None = None,
) -> Explanation:
    """Explain a policy that is resolved and fitted; `acts`: whether a ranking policy acts on the example, if known."""
    needs = needs_of_policies([chosen], contents) | chosen.explanation_needs(contents)
    columns = list(dict.fromkeys(["example_id", "labels", "question", "gold", *sorted(needs.example_columns)]))
    row = collect(log.scan("examples", columns).filter(pl.col("example_id") == example), log)
    if row.is_empty():
        _check_known(log, example)
    block = read_block(log, row, BlockRequest(needs, source.measure, source.prices))
    check_rules(block, [chosen])
    stages = tuple(chosen.explain(Evaluator(block, [chosen]), repetition))
    header = _header_lines(example, str(row["question"][0]), with_gold_of_texts(row)["gold"][0], chosen, log.simulated)
    ending, outcomes = _ending_and_rows(block, chosen, source.prices is not None, acts)
    written = _texts_of_stages(stages, read_texts(log, example, needs)) if texts else None
    return Explanation(header, stages, ending, outcomes, written)


def _ending_and_rows(block: LogBlock, policy: Policy, priced: bool, acts: bool | None) -> tuple[str, pl.DataFrame]:
    """The ending of a policy in words, and the rows of outcomes that it speaks of."""
    if policy.example_ranking is None:
        return _ending_and_row(block, policy, priced, on=False)
    if acts is not None:
        text, row = _ending_and_row(block, policy, priced, on=acts)
        return f"it {'intervenes' if acts else 'does not intervene'}: {text}", row
    (there, first), (keeps, second) = (_ending_and_row(block, policy, priced, on=on) for on in (True, False))
    if first.is_empty():
        return there, first
    return f"{policy.ending_text('')}; where it does: {there}; where it does not: {keeps}", pl.concat([first, second])


def _ending_and_row(block: LogBlock, policy: Policy, priced: bool, on: bool) -> tuple[str, pl.DataFrame]:
    """The ending and rows of one outcome; `on`: the policy with whether a ranking policy acts here."""
    evaluator = Evaluator(block, [policy], frozenset([policy.name] if on else []))
    outcome = evaluator.outcome(policy)
    frame = _outcome_row(block, policy, priced, on, bool(outcome.reason[0] == COVERED))
    if frame.is_empty():
        return f"left out of a run, since it cannot be replayed: {outcome.reasons[outcome.reason[0]]}", frame
    row = frame.row(0, named=True)
    rows = int(outcome.rows[0])
    if rows > 1:
        return _ending_text(row, f"mean over {policy.averaged_rows_text(evaluator, rows)}: ", policy.columns), frame
    return _ending_text(row, _ending_reason(policy, evaluator, row), policy.columns), frame


def _ending_reason(policy: Policy, on: Evaluator, outcome: Mapping[str, Any]) -> str:
    """Why a policy ended on the one example of a block, in words before what came of it."""
    ending_text_on_example = (
        "" if policy.example_ranking is not None else policy.ending_text_on_example(on, outcome["ending"])
    )
    return (
        ""
        if not ending_text_on_example
        else f"{ending_text_on_example}; "
        if ending_text_on_example == outcome["ending"]
        else f"{outcome['ending']}: {ending_text_on_example}; "
    )


def _outcome_row(block: LogBlock, policy: Policy, priced: bool, on: bool, complete: bool) -> pl.DataFrame:
    """The row that a run would have in its outcomes; empty where the example is partial."""
    record = PassResult(PolicyVersions.versions_of_policies([policy]), number_columns([policy], priced))
    record.add_block(block)
    acts = ActingExamples(np.zeros(1), True, float(on))  # 0 < 1: it acts
    reported = ReportedPolicies((policy,), record.versions.places, {0: (acts, None)})
    outcomes = CoveredOutcomes(record, reported, ExampleSet(block.examples, None), np.array([complete]))
    return pl.concat([pl.DataFrame(schema=outcomes.schema), *outcomes.frames()])


def _ending_text(row: Mapping[str, Any], reason: str, columns: Iterable[OutcomeColumn]) -> str:
    """An ending in words: the `reason` why it ended, and the answer and costs of a row of outcomes; `columns` are its
    quality columns.
    """
    others = [c for c in columns if c.name in row and c.quality and c.name not in ("correct", "credit")]
    if any(c.judges for c in others) and row["correct"] is row["answer"] is row["answers"] is None:
        values = [f"{column.label} {row[column.name]:.3g}" for column in others if row[column.name] is not None]
        return f"{reason}{', '.join(values) or 'unjudged'}; {_cost_text(row)}"
    if row["answers"] is not None:
        return f"{reason}{_correctness_text(row)}; {_answers_text(row['answers'])}; {_cost_text(row)}"
    return f"{reason}answer {_answer_text(row['answer'])} ({_correctness_text(row)}); {_cost_text(row)}"


def _correctness_text(row: Mapping[str, Any]) -> str:
    right = row["correct"]
    return "unjudged" if right is None else {0.0: "wrong", 1.0: "right"}.get(right, f"right {right:.1%}")


def _answer_text(answer: str | None) -> str:
    return "none" if answer is None else answer


def _answers_text(answers: list[dict[str, Any]]) -> str:
    text = ", ".join(f"{_answer_text(answer['answer'])} {answer['share']:.1%}" for answer in answers[:MOST_ANSWERS])
    return f"answers {text}" + (", …" if len(answers) > MOST_ANSWERS else "")


def _cost_text(outcome_row: Mapping[str, Any]) -> str:
    units = ("traces", "verifications") if outcome_row.get("rounds") is None else ("rounds", "calls")
    counts = ", ".join(
        _count_text(outcome_row[name], name.removesuffix("s")) for name in units if outcome_row[name] is not None
    )
    if outcome_row["total_tokens"] is not None:
        return f"{counts}, {_count_text(outcome_row['total_tokens'], 'token', ',.0f')}"
    written = outcome_row["completion_tokens"]
    known = "" if written is None else f", {_count_text(written, 'completion token', ',.0f')}"
    return f"{counts}{known}, total tokens not logged"


def _count_text(number: float, what: str, form: str = "g") -> str:
    text = f"{number:{form}}"
    return f"{text} {what}" + ("" if text == "1" else "s")


def _texts_of_stages(stages: Iterable[ExplanationStage], logged: pl.DataFrame) -> pl.DataFrame:
    seen = list(dict.fromkeys(trace for stage in stages for trace in stage.traces))
    traces = pl.DataFrame(seen, schema={"of": pl.String, "sample": logged.schema["sample"]}, orient="row")
    return traces.join(
        logged, left_on=["of", "sample"], right_on=["slice", "sample"], how="left", maintain_order="left"
    )


_STEPS = {
    "step": pl.Int64, "sample": pl.Int64, "answer": pl.String, "correct": pl.Float64, "early": pl.Float64,
    "abandoned": pl.Boolean, "score": pl.Float64, "unscored": pl.String, "tokens": pl.Float64, "chosen": pl.Boolean,
}  # fmt: skip
SEVERAL = "no single path was saved: the outcome is a mean over several"
IN_LOG = "the rows that the policy paid are in the log: explain from the log"
NO_TEXTS = "texts     none: the result was saved without them"
TEXT_SCHEMA = {"slice": pl.String, "sample": pl.Int64, "trace_id": pl.String, "text": pl.String}

Trace = tuple[str, int]
"""A slice, and a sample index in it."""
Row = Mapping[str, Any]
NONE: Row = {}


def explain_saved(result: Findings, folder: SavedFolder, policy: str, row: pl.DataFrame, texts: bool) -> Explanation:
    """Explain a policy on the example of a row of outcomes, from the steps that a result has saved."""
    example, record = row["example_id"][0], next(one for one in result.policies if one.name == policy)
    of_example = result.examples.filter(pl.col("example_id") == example)
    question, gold = of_example.row(0, named=True).get("question"), of_example["gold"][0]
    header = _header_lines(example, question, gold, record, result.simulated)
    if (chosen := saved_policy(record, folder)) is not None:
        return _explain_rows(folder, chosen, of_example, header, row, texts)
    traces, scores, orders, stops = (_saved_rows(folder, name, example) for name in (TRACES, SCORES, ORDERS, STOPS))
    paid = _PaidCalls(
        {(row["slice"], row["sample"]): row for row in traces.iter_rows(named=True)},
        {((one["slice"], one["sample"]), one["verifier"]): one for one in scores.iter_rows(named=True)},
        {one["order"]: one for one in orders.iter_rows(named=True)},
    )
    stops = stops.rename({"given_up_by": "abandoned_by"}, strict=False)  # as results were written before 0.1.0
    policy_stops = stops.filter(pl.col("policy") == policy).sort("part", maintain_order=True)
    steps = policy_stops.iter_rows(named=True)
    stages = tuple(paid.verification_stage(stop) if stop["order"] is None else paid.walk_stage(stop) for stop in steps)
    outcome = row.row(0, named=True)
    why = "mean" if outcome["answers"] is not None else outcome["ending"]
    ending = _ending_text(outcome, "" if why is None else f"{why}: ", result.columns)
    return Explanation(
        header,
        stages,
        ending if stages else f"{SEVERAL if outcome.get('rounds') is None else IN_LOG}; {ending}",
        row,
        _texts_of_stages(stages, traces.select("slice", "sample", "trace_id", "text")) if texts else None,
    )


def _explain_rows(
    folder: SavedFolder, policy: Policy, example: pl.DataFrame, header: tuple[str, ...], row: pl.DataFrame, texts: bool
) -> Explanation:
    """Explain a policy that reads rows of a further table on one `example`, from those that a result has saved."""
    evaluator = Evaluator(saved_block(folder, policy.table, example), [policy])
    outcome = row.row(0, named=True)
    lacking = () if has_texts(folder, policy.table) else (NO_TEXTS,)
    why = _ending_reason(policy, evaluator, outcome)
    stages = tuple(policy.explain(evaluator, 0))
    written = _texts_of_stages(stages, pl.DataFrame(schema=TEXT_SCHEMA)) if texts else None
    return Explanation((*header, *lacking), stages, _ending_text(outcome, why, policy.columns), row, written)


def _saved_rows(folder: SavedFolder, name: str, example: str) -> pl.DataFrame:
    scan = pl.scan_parquet(folder.verified_path(f"{name}.parquet"))
    return collect(scan.filter(pl.col("example_id") == example))


@dataclass(frozen=True)
class _PaidCalls:
    """The paid calls of one example that a result has saved: `traces`, `scores` by trace and verifier, and `orders`."""

    traces: Mapping[Trace, Row]
    scores: Mapping[tuple[Trace, str], Row]
    orders: Mapping[int, Row]

    def walk_stage(self, stop: Row) -> ExplanationStage:
        """A stage of an explanation: the traces of one order as it revealed them, with the scores that the policy paid.

        Where traces are generated before they are verified, a step that reveals none comes first, and may come last.
        """
        order, generation = self.orders[stop["order"]], self.orders[stop["generation_order"]]
        checks = self.orders.get(stop["verification_order"], NONE)
        traces, generated = _first_traces(order, stop["steps"]), _first_traces(generation, stop["generated"])
        verified, verifier = frozenset(_first_traces(checks, stop["verified"])), stop["verifier"]
        marks = zip(generated, generation["checked"] or (), strict=False)
        early: dict[Trace | None, Row] = {
            trace: self.scores[(order["slice"], trace[1]), stop["abandoned_by"]] for trace, on in marks if on
        }
        later, together = order["generated"] is not None, checks.get("rule") == TOGETHER
        walk: tuple[Trace | None, ...] = (None, *traces) if later else traces
        tokens_by_step = order["tokens"][len(traces) + 1 - len(walk) : len(traces) + 1]
        if later and stop["empty"]:
            walk, tokens_by_step = (*walk, None), [*tokens_by_step, generation["tokens"][stop["generated"]]]
        rows, paid = [], 0.0
        for step, (trace, tokens) in enumerate(zip(walk, tokens_by_step, strict=True), 0 if later else 1):
            if verifier is not None:
                now = (traces if step == len(traces) else ()) if together else (trace,)
                paid += sum(self.scores[one, verifier]["verification_tokens"] or 0.0 for one in now if one in verified)
            row = NONE if trace is None else self.traces[trace]
            rows.append({
                "step": step,
                "sample": row.get("sample"),
                "answer": row.get("answer"),
                "correct": row.get("correct"),
                "early": early.get(trace, NONE).get("score"),
                "abandoned": None if trace is None else trace[0] != order["slice"],
                **self._score_entries(trace, stop, trace in verified),
                "tokens": None if tokens is None else tokens + paid,
                "chosen": trace == (stop["chosen_slice"], stop["chosen_sample"]),
            })  # fmt: skip
        frame = pl.DataFrame(rows, schema=_STEPS)
        lacking = [] if stop["abandoned_by"] is not None else ["early", "abandoned"]
        lacking += ["score"] if verifier is None else []
        lacking += ["unscored"] if frame["unscored"].is_null().all() else []
        by = f", {counted(1 if together else stop['verified'], 'verification')} by `{verifier}`" if verifier else ""
        text = f"{counted(stop['generated'], 'trace')} generated{by}; order `{order['rule']}`, as far as {len(traces)}"
        return ExplanationStage(f"`{stop['policy']}`: {order['slice']}", frame.drop(lacking), text, generated)

    def _score_entries(self, trace: Trace | None, stop: Row, verified: bool) -> Row:
        """The entries on the score of a trace: what the policy paid for, or what it did without one."""
        if stop["verifier"] is None or trace is None or not self.traces[trace]["valid"]:
            return {"score": None, "unscored": None}  # a call that ranks traces together may score invalid ones, too
        if not verified:
            return {"score": None, "unscored": SKIP.mark}
        score = self.scores[trace, stop["verifier"]]["score"]
        lowest = {"score": stop["lowest"], "unscored": LOWEST.mark}
        return lowest if score is None else {"score": score, "unscored": None}

    def verification_stage(self, stop: Row) -> ExplanationStage:
        """A stage of an explanation that only verifies, as a gate does, traces that another stage pays for."""
        order, tokens, rows = self.orders[stop["verification_order"]], 0.0, []
        for step, trace in enumerate(_first_traces(order, stop["verified"]), 1):
            row, score = self.traces.get(trace, NONE), self.scores[trace, stop["verifier"]]
            tokens += score["verification_tokens"] or 0.0
            rows.append({
                "step": step, "sample": trace[1], "answer": row.get("answer"), "correct": row.get("correct"),
                "score": score["score"], "tokens": tokens,
            })  # fmt: skip
        frame = pl.DataFrame(rows, schema={name: kind for name, kind in _STEPS.items() if name in rows[0]})
        text = f"{counted(len(rows), 'verification')} by `{stop['verifier']}`, and no trace generated"
        return ExplanationStage(f"`{stop['policy']}`: {order['slice']}, verified", frame, text)


def _first_traces(order: Row, count: int) -> tuple[Trace, ...]:
    samples = order.get("samples", [])[:count]
    slices = order.get("slices") or [order.get("slice")] * len(samples)
    return tuple(zip(slices[:count], samples, strict=True))
