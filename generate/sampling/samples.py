"""The calls of steps, as the engine likes them, and the log's rows of completions: answers read, normalised
and judged, costs of attempt and finalizer added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from generate.engines.base import Call, Completion, Prompt, build_without_checks, summed_cost
from generate.engines.thoughts import split_thoughts
from generate.journal.queue import JournalCall
from generate.recipes.recipe import MATH_JUDGE, AnswerSettings, FinalizerSettings, PoolStep, Recipe, seed_of
from toolkit.answers import judge, measure_answers, normalise, read_answers
from toolkit.log import Log, collect, schema_of

SCHEMA: dict[str, Any] = {name: schema_of("traces")[name].dtype for name in (
    "trace_id", "example_id", "pool", "action", "parent_id", "sample_index", "model", "temperature", "max_tokens",
    "text", "answer", "correct", "prompt_tokens", "completion_tokens", "tokens_estimated", "finish_reason",
    "finalizer_used", "latency_s", "device_s", "sum_logprob", "token_logprobs", "token_entropies",
    "token_ranks", "completion_ids", "reasoning", "reasoning_tokens", "cached_tokens", "tool_calls", "cost", "request",
    "started_s", "arrived_s",
)}  # fmt: skip
SCHEMA |= {"seed": pl.Int64, "finalizer_text": pl.String, "finalizer_tokens": pl.Int32, "answer_read": pl.String}
"""The trace's columns: the contract's, then the sample's seed, the finalizer's text and tokens, and the answer before
equivalent ones of an example got one string."""

TOKEN_LISTS = ("token_logprobs", "token_entropies", "token_ranks")
"""The columns with numbers of a sample's last tokens."""
LISTS = {**dict.fromkeys(("token_logprobs", "token_entropies"), np.float32),
         **dict.fromkeys(("token_ranks", "completion_ids"), np.int32)}  # fmt: skip
"""The columns that are lists of numbers, with the type of these."""
COSTS = (
    "prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens", "cost", "latency_s", "device_s",
)  # fmt: skip
"""What an attempt and its finalizer cost together."""


def trace_id(example_id: str, pool: str, index: int) -> str:
    """`example/pool/index`; unique, for a pool has no slash in its name."""
    return f"{example_id}/{pool}/{index}"


def read_normal_answers(texts: Sequence[tuple[str | None, bool]], answers: AnswerSettings) -> list[str | None]:
    """The normal form of the answer of each text, of which is known whether its limit cut it off; null where none can
    be read, as from thoughts. A text that is the answer as it stands is none when it was cut off."""
    spoken = [None if text is None else split_thoughts(text)[1] for text, _ in texts]
    columns = {
        "text": pl.Series(spoken, dtype=pl.String),
        "cut": pl.Series([cut for _, cut in texts], dtype=pl.Boolean),
    }
    frame = pl.DataFrame(columns)
    if answers.read:
        raw = read_answers(frame["text"], answers.read, answers.pattern, frame["cut"])
    else:
        raw = frame.select(pl.when(~pl.col("cut")).then("text"))["text"]
    return normalise(raw, answers.kind, answers.labels, answers.aliases).to_list()


def is_readable_answer(answer: str | None, answers: AnswerSettings) -> bool:
    """Whether this is an answer: not null, and of the label space where the answers are labels."""
    return answer is not None and (answers.kind != "label" or answer in answers.labels)


def trace_row(
    recipe: Recipe,
    step: PoolStep,
    model: str,
    example_id: str,
    index: int,
    attempt: Completion,
    finalizer: Completion | None,
    began: float | None = None,
    place: int | None = None,
) -> dict[str, Any]:
    """A trace's row without its answer; costs hold the finalizer's tokens and seconds, the log-probability does not.
    began: when the first call of the example was sent, in seconds since 1970. place: its number among the traces that
    there are, by default that of its sample. What else the attempt has stands in the row, too."""
    ended_at, tokens_estimated = _ended_at(attempt), attempt.tokens_estimated
    counts: list[Any] = [None]
    costs: dict[str, Any] = {}
    if finalizer is not None:
        costs = {name: summed_cost([attempt, finalizer], name) for name in COSTS}
        ended_at = max(ended_at, _ended_at(finalizer))
        counts = [finalizer.prompt_tokens, finalizer.completion_tokens]
        tokens_estimated = tokens_estimated or finalizer.tokens_estimated
    return {
        **vars(attempt),
        **costs,
        "trace_id": trace_id(example_id, step.pool, index),
        "example_id": example_id,
        "pool": step.pool,
        "action": step.action,
        "parent_id": trace_id(example_id, step.of, step.of_sample) if step.of is not None else None,
        "sample_index": index if place is None else place,
        "model": model,
        "temperature": step.temperature.temperature(recipe.seed, example_id, step.pool, index),
        "max_tokens": step.max_tokens if attempt.max_tokens is None else attempt.max_tokens,
        "tokens_estimated": tokens_estimated,
        "finalizer_used": finalizer is not None,
        "completion_ids": attempt.token_ids,
        "started_s": _seconds_after(attempt.started_at, began),
        "arrived_s": _seconds_after(ended_at, began),
        "seed": seed_of(recipe.seed, example_id, step.pool, index) if attempt.seeded else None,
        "finalizer_text": None if finalizer is None else finalizer.text,
        "finalizer_tokens": None if None in counts else sum(counts),
    }


def first_and_last_moment(completions: Sequence[Completion], began: float | None) -> tuple[float | None, float | None]:
    """The moments at which the first of some completions was sent and the last came, in seconds after `began`."""
    started = [completion.started_at for completion in completions if completion.started_at is not None]
    ends = [_ended_at(one) for one in completions]
    return _seconds_after(min(started, default=None), began), _seconds_after(max(ends, default=None), began)


def _ended_at(completion: Completion) -> float:
    return (completion.started_at or 0.0) + completion.latency_s


def _seconds_after(at: float | None, began: float | None) -> float | None:
    return None if at is None or began is None else round(max(0.0, at - began), 6)


def list_column(name: str, values: Sequence[Sequence[float] | None]) -> pl.Series:
    """A column of lists of numbers, each of which may be an array or null."""
    import pyarrow as pa

    kind = LISTS[name]
    if all(one is None for one in values):
        return pl.Series(name, [None] * len(values), SCHEMA[name])
    arrays = [np.zeros(0, kind) if value is None else np.asarray(value, kind) for value in values]
    ends = np.cumsum([0, *map(len, arrays)])
    missing = pa.array([one is None for one in values])
    lists = pa.LargeListArray.from_arrays(pa.array(ends), pa.array(np.concatenate(arrays)), mask=missing)
    return pl.Series(name, lists, SCHEMA[name])


def judged_traces(
    rows: Sequence[Mapping[str, Any]], examples: pl.DataFrame, answers: AnswerSettings, cache: Path | None = None
) -> pl.DataFrame:
    """The traces of whole examples, judged. `rows` hold `answer_read` and stand in the order of steps and samples.

    The earliest of an example's equivalent answers names them all, where the judge knows equivalence; else an answer
    is what was read; null where that is none, as a label outside the label space. Without a reference an example is
    not judged. Columns that `measures` names come last. `cache`: the file of such a judge's comparisons.
    """
    apart = ("answer", "correct", *LISTS)
    frame = pl.DataFrame(list(rows), schema={n: t for n, t in SCHEMA.items() if n not in apart})
    frame = frame.with_columns(list_column(name, [row.get(name) for row in rows]) for name in LISTS)
    kinds: dict[str, Any] = {"gold": pl.String, "golds": pl.List(pl.String)}
    references = examples.select(
        "example_id", *(pl.lit(None, kind).alias(n) if n not in examples.columns else n for n, kind in kinds.items())
    )
    frame = frame.join(references, on="example_id", how="left", maintain_order="left")
    known = pl.col("answer_read").is_in(list(answers.labels)) if answers.kind == "label" else pl.lit(True)
    frame = frame.with_columns(pl.when(known).then("answer_read").alias("answer"))
    if answers.judge == MATH_JUDGE:
        from toolkit.answers.mathematics import Mathematics, judge_mathematics

        with Mathematics(cache=cache) as mathematics:
            frame = judge_mathematics(frame, mathematics).frame
    else:
        frame = frame.with_columns(judge(frame["answer"], frame["gold"], answers.judge, frame["golds"]))
    return frame.select(*SCHEMA, *measure_answers(frame["answer"], frame["gold"], answers.measures, frame["golds"]))


@dataclass(frozen=True)
class JudgingCounts:
    """The results of judging a whole log: `merged` distinct answers of an example took the string of an earlier,
    equivalent one, in `traces` traces; `comparisons` were made, of which some `timed_out` or `failed`: not the same.
    """

    merged: int
    traces: int
    comparisons: int
    timed_out: int
    failed: int

    def __str__(self) -> str:
        return (
            f"{self.merged:,} equivalent answers merged ({self.traces:,} traces); {self.comparisons:,} comparisons,"
            f" {self.timed_out:,} timed out, {self.failed:,} failed"
        )


def judging_counts(log: Log, answers: AnswerSettings, cache: Path) -> JudgingCounts | None:
    """The numbers of a log's traces and of the file of its comparisons, so that they do not depend on how often its
    run was interrupted. None where the judge compares strings."""
    if answers.judge != MATH_JUDGE:
        return None
    from toolkit.answers.mathematics import FAILED, TIMED_OUT, count_verdicts

    traces = log.scan("traces", ["example_id", "answer_read", "answer"])
    changed = collect(traces.filter(pl.col("answer_read") != pl.col("answer")).select("example_id", "answer_read"))
    verdicts = count_verdicts(cache)
    ends = verdicts[TIMED_OUT], verdicts[FAILED]
    return JudgingCounts(changed.unique().height, changed.height, sum(verdicts.values()), *ends)


FINALIZER = "/finalizer"
"""Behind a pool's name: the calls that read an answer for it. No pool has a slash in its name."""


def call_key(example_id: str, pool: str, samples: Sequence[int]) -> str:
    """The key of the call for some samples of an example in a pool."""
    span = str(samples[0]) if len(samples) == 1 else f"{samples[0]}-{samples[-1]}"
    return f"{example_id}/{pool}/{span}"


OF_STEP = ("max_tokens", "top_p", "stop", "logprobs", "extra", "engine")
"""The settings that a call has from its step."""


def sample_calls(
    step: PoolStep, recipe_seed: int, example_id: str, prompt: Prompt, indices: Sequence[int], per_call: int
) -> list[JournalCall]:
    """The calls for samples of one example, with at most `per_call` samples each."""
    calls = list[JournalCall]()
    for group in (tuple(indices[start : start + per_call]) for start in range(0, len(indices), per_call)):
        drawn = [(recipe_seed, example_id, step.pool, index) for index in group]
        values: dict[str, Any] = {
            "key": call_key(example_id, step.pool, group),
            "seeds": tuple([seed_of(*one) for one in drawn]),
            "temperatures": tuple([step.temperature.temperature(*one) for one in drawn]),
        }
        if calls:
            call = build_without_checks(Call, {**vars(calls[0].call), **values})
        else:
            settings = {name: getattr(step, name) for name in OF_STEP}
            call = Call(prompt=prompt, **values, **settings)
        calls.append(JournalCall(call, example_id, step.pool, group))
    return calls


def finalizer_call(
    rule: FinalizerSettings, recipe_seed: int, example_id: str, pool: str, prompt: Prompt, index: int
) -> JournalCall:
    """The call that reads the answer of one sample."""
    name = pool + FINALIZER
    call = Call(
        key=f"{example_id}/{pool}/{index}{FINALIZER}",
        prompt=prompt,
        seeds=(seed_of(recipe_seed, example_id, name, index),),
        temperatures=(rule.temperature,),
        max_tokens=rule.max_tokens,
        stop=rule.stop,
        extra=rule.extra,
        engine=rule.engine,
    )
    return JournalCall(call, example_id, name, (index,))
