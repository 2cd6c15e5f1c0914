"""Answers from retrieved documents: which pool read which evidence, how right its answers are, by several measures.

A pool's name begins with its evidence, `fair-chains` or `fair-small`; its reader is its traces' `model`. Pools of one
trace a question are single attempts, `direct` ones answers without reasoning; of several, chains to select from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.studies.kit.runs import example_units, joint_cells, mean_cell
from toolkit.answers.judging import MEASURES, judge, measure_answers
from toolkit.log import Log, collect
from toolkit.show import IntervalCell
from toolkit.stats import Settings

GOLD = "gold"
EVIDENCES = (
    "first-stage", "bm25", "splade", "self-ask", "self-ask-rerank", "relevance", "sunar", "rewarded", "fair", GOLD,
)  # fmt: skip
"""Names of evidence, those that read gold documents last; any other comes first."""
FAIR_LIKE, NOT_REWARDED = ("fair", "rewarded"), ("sunar", "relevance")
"""Evidence of rewarded rounds, and each that it is compared with."""
DIRECT, SINGLE, CHAINS = "direct", "single", "chains"
SCORED_BY = ("cover", "cover_substring", "exact", "credit")
"""Measures of answers, as columns of traces."""
_COLUMNS = ("trace_id", "example_id", "pool", "model", "action", "sample_index", "answer", "correct")
_OPTIONAL = ("answer_cluster", "text", *SCORED_BY)


@dataclass(frozen=True)
class AnswerPool:
    """A pool of first attempts that read one evidence: `form` is direct, single or chains; `traces` of a question."""

    name: str
    evidence: str
    reader: str
    form: str
    traces: int

    @property
    def is_gold(self) -> bool:
        return self.evidence == GOLD

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """Sorts pools by reader, then by evidence."""
        known = EVIDENCES.index(self.evidence) if self.evidence in EVIDENCES else -1
        return self.reader, known, self.name


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a data set: its `pools`, the `traces` with every measure, and the examples (E,) that have any.

    `unit` (E,): what each is resampled with. `columns` of traces that the log itself has.
    """

    pools: tuple[AnswerPool, ...]
    traces: pl.DataFrame
    examples: pl.DataFrame
    unit: np.ndarray
    columns: frozenset[str]

    def of_form(self, *forms: str) -> list[AnswerPool]:
        return [pool for pool in self.pools if pool.form in forms]

    def pool(self, evidence: str, reader: str, *forms: str) -> AnswerPool | None:
        """Returns the pool of an evidence, a reader and one of some forms; None where there is none."""
        return next((p for p in self.of_form(*forms) if (p.evidence, p.reader) == (evidence, reader)), None)

    def means(self, pool: AnswerPool, measure: str) -> np.ndarray:
        """Returns the mean of a measure over the traces of each example (E,), NaN where there is none."""
        rows = self.traces.filter(pl.col("pool") == pool.name)
        means = rows.group_by("example_id").agg(pl.col(measure).cast(pl.Float64).mean().alias("mean"))
        joined = self.examples.select("example_id").join(means, on="example_id", how="left", maintain_order="left")
        return joined["mean"].fill_null(np.nan).to_numpy()


@dataclass(frozen=True)
class MeasuredAnswers:
    """How right the answers of a pool are by each measure, and by `cover` less the first evidence's of its reader.

    `differ`: share of answers on which both covers differ, `yes_no`: of these answers those whose gold is yes or no.
    """

    pool: AnswerPool
    cells: Mapping[str, IntervalCell | None]
    difference: IntervalCell | None
    baseline: str
    answers: int
    differ: int
    yes_no: int
    differ_share: IntervalCell | None


def read_answers(log: Log, ids: pl.Series) -> Answers:
    """Reads the first attempts of examples, and measures their answers."""
    known = log.columns("traces") if log.has("traces") else {}
    names = [*_COLUMNS, *(name for name in _OPTIONAL if name in known)]
    rows = log.scan("traces", names).filter((pl.col("action") == "solve") & pl.col("example_id").is_in(ids.implode()))
    examples = collect(
        log.scan("examples", _example_columns(log)).filter(pl.col("example_id").is_in(ids.implode())), log
    ).sort("example_id")
    traces = _with_measures(collect(rows, log), examples)
    there = examples.filter(pl.col("example_id").is_in(traces["example_id"].implode()))
    columns = frozenset(name for name in names if name in known)
    return Answers(tuple(_answer_pools(traces)), traces, there, example_units(there), columns)


def _example_columns(log: Log) -> list[str]:
    more = [name for name in ("question_type", "hops") if name in log.columns("examples")]
    return ["example_id", "question", "gold", "golds", "cluster", "gold_documents", *more]


def _with_measures(traces: pl.DataFrame, examples: pl.DataFrame) -> pl.DataFrame:
    """Adds the measures that traces lack, by gold; null where an example has none."""
    joined = traces.join(examples.select("example_id", "gold", "golds"), on="example_id", maintain_order="left")
    lacking = [name for name in SCORED_BY if name not in traces.columns]
    if lacking and len(joined):
        more = measure_answers(joined["answer"].cast(pl.String), joined["gold"], lacking, joined["golds"])
        joined = joined.with_columns(more)
    elif lacking:
        joined = joined.with_columns(pl.lit(None, pl.Float64).alias(name) for name in lacking)
    for name in ("answer_cluster", "text"):
        if name not in joined.columns:
            joined = joined.with_columns(pl.lit(None, pl.String).alias(name))
    return joined


def _answer_pools(traces: pl.DataFrame) -> Iterator[AnswerPool]:
    facts = traces.group_by("pool").agg(pl.col("model").unique().sort(), most=pl.col("sample_index").max() + 1)
    pools = []
    for name, models, most in facts.sort("pool").iter_rows():
        reader = models[0] if len(models) == 1 else "several"
        form = CHAINS if most > 1 else DIRECT if DIRECT in name.split("-") else SINGLE
        pools.append(AnswerPool(name, evidence_of_pool(name, reader), reader, form, most))
    yield from sorted(pools, key=lambda pool: pool.sort_key)


def evidence_of_pool(name: str, reader: str) -> str:
    """Returns the evidence that a pool's name begins with: the longest known one, else the name without its form and
    reader.
    """
    known = [evidence for evidence in EVIDENCES if name == evidence or name.startswith(f"{evidence}-")]
    if known:
        return max(known, key=len)
    for ending in (CHAINS, SINGLE, DIRECT, reader, CHAINS, SINGLE, DIRECT):
        name = name.removesuffix(f"-{ending}")
    return name


def measure_pools(answers: Answers, settings: Settings) -> list[MeasuredAnswers]:
    """Measures every pool; differences are to the first evidence of the same reader and form that is no gold, and hold
    for all at once.
    """
    firsts: dict[tuple[str, str], AnswerPool] = {}
    for pool in answers.pools:
        firsts.setdefault((pool.reader, pool.form), pool)
    columns = {pool.name: answers.means(pool, "cover") for pool in answers.pools}
    pairs = {
        pool.name: (columns[pool.name], columns[first.name])
        for pool in answers.pools
        if (first := firsts[pool.reader, pool.form]) is not pool
    }
    joint = joint_cells(pairs, answers.unit, settings)
    return [
        _measured_answers(answers, pool, joint.get(pool.name), firsts[pool.reader, pool.form].evidence, settings)
        for pool in answers.pools
    ]


def _measured_answers(
    answers: Answers, pool: AnswerPool, difference: IntervalCell | None, baseline: str, settings: Settings
) -> MeasuredAnswers:
    cells = {one: mean_cell(answers.means(pool, one), answers.unit, settings) for one in SCORED_BY}
    rows = answers.traces.filter(pl.col("pool") == pool.name, pl.col("answer").is_not_null())
    rows = rows.filter(pl.col("cover").is_not_null() & pl.col("cover_substring").is_not_null())
    unlike = rows.with_columns(
        differs=pl.col("cover") != pl.col("cover_substring"),
        closed=pl.col("gold").str.strip_chars().str.to_lowercase().is_in(["yes", "no"]),
    )
    shares = unlike.group_by("example_id").agg(pl.col("differs").mean())
    share = answers.examples.select("example_id").join(shares, on="example_id", how="left", maintain_order="left")
    values = share["differs"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return MeasuredAnswers(
        pool, cells, difference, baseline, len(unlike), int(unlike["differs"].sum()),
        int((unlike["differs"] & unlike["closed"].fill_null(False)).sum()), mean_cell(values, answers.unit, settings),
    )  # fmt: skip


def is_contained(answers: Sequence[str | None], golds: Sequence[str | None]) -> np.ndarray:
    """Whether each answer (N,) contains its gold in whole words without being equal to it."""
    columns = pl.Series(answers, dtype=pl.String), pl.Series(golds, dtype=pl.String)
    contains, equal = (judge(*columns, how).fill_null(False) for how in (MEASURES["cover"], MEASURES["exact"]))
    return (contains & ~equal).to_numpy()
