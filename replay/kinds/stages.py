"""The stages of an explanation: logged traces of one example, costs of calls, and the steps of a `sample` policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.costs import costs_by_name
from replay.engine.cuts import StopConditions, find_stops
from replay.engine.expectation import drawn_traces, winner_probabilities
from replay.engine.outcome import ENDINGS, Outcome, Stops
from replay.engine.positions import POSITION
from replay.engine.sets import best_scores_by_label
from replay.engine.trajectory import Trajectory, Walk, find_abandoned, listwise_costs, walk_block
from replay.policies.base import ExplanationStage
from replay.sampling.learned import Conformal
from replay.sampling.orders import GenerationOrder, RandomOrder
from replay.sampling.selects import Select
from toolkit.errors import counted
from toolkit.stopping.prefix import VOTES
from toolkit.stopping.stops import evaluated_steps

ROUNDING = 1e-12
"""A probability below this is 0 but for rounding."""

COST_COLUMNS = ("traces", "verifications", "operations", "calls", "completion_tokens", "total_tokens", "latency_s")
"""The costs in the tables of an explanation."""

TRACE_SCHEMA = {
    "of": pl.String,
    "sample": pl.Int64,
    "answer": pl.String,
    "completion_tokens": pl.Float64,
    "tokens": pl.Float64,
}
"""The columns of `trace_stage_rows`."""


def trace_stage_rows(
    block: LogBlock, slice_: str, samples: Iterable[int], judged: bool = False
) -> Iterator[dict[str, Any]]:
    """A row for each of some traces of a slice: sample index, answer, tokens; with `judged`, whether it is right."""
    pool = block.pools[slice_]
    for sample in samples:
        if sample >= int(pool.size[0]):
            continue
        row: dict[str, Any] = {
            "of": slice_, "sample": sample, "answer": _answer_with_number(block, int(pool.word[0, sample])),
        }  # fmt: skip
        if judged:
            row["correct"] = none_for_nan(pool.judged[0, sample])
        row["completion_tokens"] = none_for_nan(pool.costs["completion_tokens"][0, sample])
        row["tokens"] = none_for_nan(
            pool.costs["prompt_tokens"][0, sample] + pool.costs["completion_tokens"][0, sample]
        )
        yield row


def sample_indices(block: LogBlock, slice_: str) -> tuple[tuple[str, int], ...]:
    """All traces (slice, sample index) that a slice has on the one example of a block."""
    return tuple((slice_, sample) for sample in range(int(block.pools[slice_].size[0])))


def cost_row(part: str, costs: np.ndarray) -> dict[str, Any]:
    """A row with the costs (C,) of one part of a path."""
    values = costs_by_name(costs)
    return {"part": part, **{name: none_for_nan(float(values[name])) for name in COST_COLUMNS}}


def _answer_with_number(block: LogBlock, word: int) -> str | None:
    """The answer with a number in the block's vocabulary; None for -1."""
    return block.vocabulary[word] if word >= 0 else None


def none_for_nan(value: float) -> float | None:
    """The number, or None for NaN."""
    return None if np.isnan(value) else float(value)


def reason_of_end(ending: str, cap: int | None, ruled: bool) -> str:
    """Why a policy with this cap (None: no cap) ended, in words; `ruled`: a stopping rule can end it earlier."""
    several = "all traces of the pool are" if cap is None else f"the {cap:,} traces of its cap are"
    generated = "the one trace of its cap is" if cap == 1 else several
    return {
        "rule": "the stopping rule held",
        "cap": f"{generated} generated" + (", and the stopping rule did not hold" if ruled else ""),
        "exhausted": "the log ran out before the cap",
        "empty": "every trace generated was verified before the cap, so the surrogate had nothing left to pick",
    }.get(ending, ending)


def _step_table(block: LogBlock, trajectory: Trajectory, how: StopConditions, select: Select) -> pl.DataFrame:
    """A row for each step up to that at which the policy stops, on the one example of a block.

    Where everything is generated before anything is verified, or a few traces are, a step 0 comes first; a lazy walk
    may end in a step that reveals nothing.
    """
    stopped = find_stops(trajectory, how)
    walk, last, later = trajectory.walk, int(stopped.step[0]), trajectory.walk.order.verifies_later
    if not int(trajectory.pool.size[0]):
        return pl.DataFrame(schema={"step": pl.Int64})
    step = np.arange(0 if later else 1, last + 1)
    at = np.clip(step - 1, 0, None)
    after, revealing = step > 0, (step > 0) & (step <= int(trajectory.steps.count[0]))
    steps = trajectory.steps.at.shape[1]

    def after_step(values: np.ndarray, on: np.ndarray = after) -> pl.Series:
        """Values (1, S) after each step, null where there is none."""
        return pl.Series(values[0, at] if steps else np.zeros(len(at))).set(pl.Series(~on), None)

    seen = trajectory.stop_prefix
    sample = after_step(trajectory.sample_index, revealing)
    columns = {
        "step": pl.Series(step),
        "sample": sample,
        "answer": answer_texts(block, np.where(revealing, _revealed_words(trajectory, at), -1)),
    }
    if (column := walk.answers_as) is not None and steps:
        votes_for = trajectory.pool.with_answers_from(column).word[0, trajectory.sample_index[0, at]]
        columns[column] = answer_texts(block, np.where(revealing, votes_for, -1))
    if POSITION in trajectory.pool.signals and steps:
        position = np.take_along_axis(trajectory.pool.signals[POSITION], trajectory.sample_index, axis=1)
        columns[POSITION] = after_step(position, revealing)
    if (picked := trajectory.walk.order.steps_with_weights(trajectory.traces).predicted) is not None:
        columns["predicted"] = after_step(picked, revealing)
    columns["score"] = after_step(trajectory.revealed.score, revealing)
    if (marked := trajectory.walk.unscored.mark) and steps:
        lacks = trajectory.pool.unscored_by(str(trajectory.walk.verifier))
        on = np.take_along_axis(lacks, trajectory.sample_index, axis=1)[0, at] & revealing
        columns["unscored"] = pl.Series([marked if one else None for one in on], dtype=pl.String)
    if trajectory.walk.calibration is not None:
        columns["calibrated"] = after_step(trajectory.walk.calibration.calibrate(trajectory.revealed.score), revealing)
    columns |= {name: after_step(getattr(seen, name)) for name in ("votes", "second_votes", "lead")}
    at_rule = evaluated_steps(steps, stopped.step, trajectory.evaluated_steps)
    if steps and (compared := how.stop.compared(how.stop.visible_part(seen))) is not None:
        looked = after_step(~np.isnan(compared.value) & at_rule).fill_null(False).to_numpy()
        names = zip(compared.statistic[0, at], looked, strict=True)
        columns["compares"] = pl.Series([name if on else None for name, on in names], dtype=pl.String)
        columns["statistic"] = after_step(compared.value, looked)
        columns["threshold"] = after_step(compared.threshold, looked)
    if walk.needs is not None:
        columns["needed"] = after_step(walk.needs.needed_traces(seen)[:, 1:], at_rule[0, at] & after)
    columns["holds"] = after_step(how.stop.decide_checked(seen) & at_rule).fill_null(False).cast(pl.Boolean)
    columns["answer_now"] = answer_texts(block, _answer_numbers(trajectory, select, step))
    costs = costs_by_name(_cumulative_costs(trajectory, stopped)[step])
    columns |= {name: pl.Series(costs[name]) for name in COST_COLUMNS}
    return pl.DataFrame(columns, nan_to_null=True).with_columns(pl.col(pl.Float64).fill_nan(None))


def step_stages(
    block: LogBlock,
    name: str,
    walks: Sequence[Walk],
    repetition: int,
    how: StopConditions,
    select: Select,
    exact: int | None,
) -> Iterator[ExplanationStage]:
    """The stage with the steps in one order; before it, for several orders, their rows, and for exact means what can
    win.

    `exact`: of the mean over all orders, how many are verified at random.
    """
    walk, title = walks[repetition], f"`{name}`"
    if len(walks) > 1 or walk.permuted:
        yield _order_stage(block, name, walks, how, select)
        title = f"{title}, order {repetition} of {len(walks)}"
    if exact is not None:
        yield _winner_stage(block, name, walk, exact)
        walk, title = replace(walk, order=RandomOrder()), f"{title}, one order of all"
    title += f", select `{select.name}`" if select.is_checked_by_run else ""
    title += f", {how_voted}" if (how_voted := walk.voting_text) else ""
    yield _step_stage(block, title, walk_block(block, walk), how, select)


def _step_stage(
    block: LogBlock, title: str, trajectory: Trajectory, how: StopConditions, select: Select
) -> ExplanationStage:
    rows = _step_table(block, trajectory, how, select)
    seen = trajectory.place[0, : int(trajectory.n_paid(find_stops(trajectory, how).step)[0])] if len(rows) else ()
    return ExplanationStage(title, rows, traces=tuple((trajectory.walk.pool, int(sample)) for sample in seen))


def _order_stage(
    block: LogBlock, name: str, walks: Sequence[Walk], how: StopConditions, select: Select
) -> ExplanationStage:
    """The stage with a row for each of several orders: where it stopped, its ending, answer and cost."""
    rows = []
    for number, walk in enumerate(walks):
        trajectory = walk_block(block, walk)
        if not int(trajectory.pool.size[0]):
            break
        stopped = find_stops(trajectory, how)
        step = stopped.step[:1]
        costs = costs_by_name(_cumulative_costs(trajectory, stopped)[step][0])
        rows.append(
            {
                "order": number,
                "steps": int(step[0]),
                "ending": ENDINGS[stopped.ending[0]],
                "answer": answer_texts(block, _answer_numbers(trajectory, select, step))[0],
                "correct": none_for_nan(trajectory.answers_by_step(select).judged[0, step[0]]),
                **{name: none_for_nan(float(costs[name])) for name in COST_COLUMNS},
            }
        )
    return ExplanationStage(f"`{name}`, all {len(walks)} orders", pl.DataFrame(rows, infer_schema_length=None))


def _winner_stage(block: LogBlock, name: str, walk: Walk, verifications: int) -> ExplanationStage:
    """The stage with every trace that can win when `verifications` random ones are verified, and how likely it wins."""
    trajectory = walk_block(block, replace(walk, order=GenerationOrder()))
    sample, probability = winner_probabilities(trajectory, verifications)
    at = sample[0][probability[0] > 0]
    columns = {
        "sample": at,
        "answer": answer_texts(block, trajectory.pool.word[0, at]),
        "score": trajectory.traces.score[0, at],
        "correct": trajectory.pool.judged[0, at],
        "probability": probability[0][probability[0] > 0],
    }
    return ExplanationStage(f"`{name}`, what can win over all orders", pl.DataFrame(columns, nan_to_null=True))


def pool_stages(
    block: LogBlock, name: str, trajectory: Trajectory, select: Select, cap: int
) -> Iterator[ExplanationStage]:
    """The stages of an exact mean over all orders: for a vote each answer, then each trace, with how likely it wins.

    An answer's `votes` are those of the whole pool, `probability` that of being the prediction.
    """
    if select.over_orders is None:
        raise ValueError(f"select `{select.name}` has no exact mean over all orders")
    pool, traces = trajectory.pool, drawn_traces(trajectory, cap)
    chance = select.over_orders(traces)[0]
    size, traces_drawn = int(traces.size[0]), int(traces.drawn[0])
    columns = {
        "sample": np.arange(size),
        "answer": answer_texts(block, pool.word[0, :size]),
        **({} if trajectory.scores is None else {"score": traces.score[0, :size]}),
        "correct": pool.credit_or_correct[0, :size],
        "probability": chance[:size],
    }
    rows = pl.DataFrame(columns, nan_to_null=True)
    by_answer = rows.drop_nulls("answer").group_by("answer", maintain_order=True)
    winners = by_answer.agg(pl.len().alias("votes"), pl.col("correct").mean(), pl.col("probability").sum())
    title = f"`{name}`, {traces_drawn} of {counted(size, 'trace')} over all orders"
    title += f", {how_voted}" if (how_voted := trajectory.walk.voting_text) else ""
    if VOTES in select.reads:
        nothing = max(0.0, 1 - float(winners["probability"].sum()))
        ending = f"no answer: {100 * nothing:.3g} %" if nothing > ROUNDING else ""
        yield ExplanationStage(
            f"{title}: answers", winners.sort("probability", descending=True, maintain_order=True), ending
        )
    slice_ = trajectory.walk.pool
    yield ExplanationStage(f"{title}: traces", rows, traces=tuple((slice_, sample) for sample in range(size)))


def answer_texts(block: LogBlock, words: np.ndarray) -> pl.Series:
    """The answers with some numbers in the block's vocabulary, null for -1."""
    return pl.Series([_answer_with_number(block, int(word)) for word in words], dtype=pl.String)


def _revealed_words(trajectory: Trajectory, at: np.ndarray) -> np.ndarray:
    """Vocabulary numbers of the answers that steps (numbered from 0) reveal."""
    if not trajectory.steps.at.shape[1]:
        return np.full(len(at), -1)
    return np.asarray(trajectory.pool.word[0, trajectory.sample_index[0, at]])


def _answer_numbers(trajectory: Trajectory, select: Select, step: np.ndarray) -> np.ndarray:
    """Vocabulary number of the answer after each step, if the policy stopped there; −1 for none."""
    place = trajectory.chosen_places(select)[0, step]
    if not trajectory.place.shape[1]:
        return np.full(len(step), -1)
    return np.where(place >= 0, trajectory.pool.word[0, trajectory.place[0, np.maximum(place, 0)]], -1)


def _cumulative_costs(trajectory: Trajectory, stopped: Stops) -> np.ndarray:
    """Cumulative costs (S + 1, C); the one call of a listwise verifier is paid at the end."""
    costs = trajectory.costs[0].copy()
    if stopped.called is not None and stopped.called[0]:
        costs[stopped.step[0]] += listwise_costs(trajectory)[0]
    return costs


def abandon_stage(block: LogBlock, name: str, walk: Walk, how: StopConditions, whole: bool) -> ExplanationStage:
    """The stage with each trace of an order on the one example of a block: whether it was scored early, and abandoned;
    `whole`: with every trace of the pool.
    """
    abandon = walk.abandon
    if abandon is None:
        raise ValueError("the walk abandons no trace")
    trajectory, pool = walk_block(block, walk), block.pools[walk.pool]
    abandonment, size = find_abandoned(pool, abandon), int(pool.size[0])
    generated = int(trajectory.n_paid(find_stops(trajectory, how).step)[0])
    sample = np.arange(size) if whole else trajectory.place[0, :generated]
    unknown = (abandonment.uncounted | abandonment.unchecked)[0, sample]
    abandoned = abandonment.abandoned[0, sample] & ~unknown
    became = np.select(
        [unknown, abandoned, abandonment.checked[0, sample]], ["not known", "abandoned", "went on"], "had ended"
    )
    columns = {
        "sample": pl.Series(sample, dtype=pl.Int64),
        "score": np.where(abandonment.checked, pool.scores[abandon.verifier].score, np.nan)[0, sample],
        "becomes": pl.Series(became.tolist(), dtype=pl.String),
        "completion_tokens": trajectory.pool.costs["completion_tokens"][0, sample],
    }
    of = "trace" if abandoned.sum() == 1 else "traces"
    ending = f"{int(abandoned.sum())} {of} abandoned: `{abandon.verifier}` below {abandon.below:g}"
    return ExplanationStage(
        f"`{name}`, after {abandon.tokens:,} tokens", pl.DataFrame(columns, nan_to_null=True), ending
    )


def set_stage(
    block: LogBlock, trajectory: Trajectory, step: np.ndarray, conformal: Conformal, outcome: Outcome
) -> ExplanationStage:
    """The stage with the prediction set of the one example: each label's score, threshold and membership."""
    fitted = conformal.fit or {}
    labels = list(fitted)
    scores, thresholds = (
        best_scores_by_label(block, trajectory, step, labels)[0],
        np.array([fitted[label] for label in labels]),
    )
    rows = pl.DataFrame(
        {
            "label": labels,
            "score": np.where(np.isfinite(scores), scores, np.nan),
            "threshold": np.where(np.isfinite(thresholds), thresholds, np.nan),
            "in set": scores >= thresholds,
        },
        nan_to_null=True,
    )
    size, answered = int(rows["in set"].sum()), bool(outcome.measured["answered"][0])
    text = f"the set holds {size} label{'' if size == 1 else 's'}"
    return ExplanationStage("the prediction set", rows, text + ("" if answered else ", and the policy does not answer"))
