"""The measuring of a log, in blocks of examples, for its description."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from toolkit.log.contract.problems import UNFINISHED, LogError
from toolkit.log.describe import assumptions, caps
from toolkit.log.describe.description import Description
from toolkit.log.describe.trace_groups import TraceGroups, group_traces
from toolkit.log.read.example_blocks import BLOCK_ROWS, block_id_ranges
from toolkit.log.read.log import Log, collect
from toolkit.table_rows import starts_of_equal_runs

_TRACES = (
    "example_id", "trace_id", "pool", "action", "parent_id", "sample_index", "answer", "correct",
    "opaque", "prompt_tokens", "completion_tokens", *assumptions.COLUMNS,
)  # fmt: skip
_SCORES = ("example_id", "trace_id", "verifier", "score", "candidates", "prompt_tokens", "completion_tokens")

_RECORDED = {
    "examples": (
        "golds", "gold_documents", "length", "gold_position", "gold_error", "human_position", "human_positions",
    ),
    "traces": ("position", "documents", "answer_cluster"),
    "rounds": ("retrieval_rank", "answer_scores", "contradictions"),
    "checks": ("confidence", "matches_error", "gold_verdict", "unit", "unit_words", "unit_entities"),
}  # fmt: skip
"""Columns that only some policies read, and of which no other table of a description says whether they are there."""

MOST_TEXTS = 50_000
"""Most traces whose texts are compared, the first by example."""


@dataclass
class _LogSums:
    """Sums over the blocks of a log. Only judged scores are kept one by one, because they are ranked."""

    verifiers: tuple[str, ...] = ()
    examples: int = 0
    numbered: int = 0
    judged: int = 0
    groups: dict[tuple[str, str, str], int] = field(default_factory=dict)  # (verifier, pool, action): its code
    texts: int = 0
    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)

    def add(self, **frames: pl.DataFrame) -> None:
        """Adds the frames of a block, by name."""
        for name, frame in frames.items():
            self.frames.setdefault(name, []).append(frame)

    def __getitem__(self, name: str) -> pl.DataFrame:
        return pl.concat(self.frames[name])


def describe(log: Log) -> Description:
    """Computes the description of a log. LogError where it holds no tables, or rows that break the contract."""
    if not log.shards:
        raise LogError(f"{log.address}: holds no tables: nothing is there to describe; {UNFINISHED}", code="empty")
    sums = _LogSums()
    if log.has("verifications"):
        names = collect(log.scan("verifications", ["verifier"]).unique(), log)["verifier"]
        sums.verifiers = tuple(names.drop_nulls().sort())
    tables = [t for t in ("examples", "traces", "verifications", "rounds", "checks") if log.has(t)]
    for low, high in block_id_ranges(log, tables, BLOCK_ROWS):
        _add_block(sums, log, pl.col("example_id").is_between(pl.lit(low), pl.lit(high)))
    if not sums.frames:
        _add_block(sums, log, pl.lit(False))
    shards = [{"table": t, "shards": len(log.shards[t]), "rows": log.rows(t)} for t in log.shards]
    schema = {"table": pl.String, "shards": pl.Int64, "rows": pl.Int64}
    unfolding = _pools_of_unfolding_questions(log)
    order = assumptions.order_frame(sums["orders"]).filter(~pl.col("pool").is_in(unfolding))
    settings = assumptions.setting_frame(sums["settings"], sums["measured"], sorted(log.pools_without_prefix()))
    sizes = assumptions.size_frame(sums["group_sizes"])
    settings = settings.join(sizes, on=["pool", "action"], how="left", maintain_order="left")
    return Description(
        name=log.name, sealed=log.sealed, simulated=log.simulated, examples=sums.examples, judged=sums.judged,
        tables=pl.DataFrame(shards, schema=schema), pools=_pools_frame(sums["sizes"]),
        verifiers=_verifiers_frame(sums),
        caps=caps.caps_frame(_drop_unscored_pools(sums["limits"], sums["verified"]), sums.examples), order=order,
        settings=settings, recorded=_count_recorded(log), labels=_count_labels(log), notes=log.warnings,
        remarks=tuple(assumptions.assumption_remarks(order, settings, unfolding)),
    )  # fmt: skip


def _pools_of_unfolding_questions(log: Log) -> list[str]:
    if not log.has("traces") or "position" not in log.columns("traces"):
        return []
    pools = log.scan("traces", ["pool", "position"]).drop_nulls("position").select("pool")
    return collect(pools.unique(), log)["pool"].sort().to_list()


def _count_recorded(log: Log) -> pl.DataFrame:
    """The number of rows with a value in each column that only some policies read, without columns that have none."""
    rows = []
    for table, names in _RECORDED.items():
        names = tuple(name for name in names if log.has(table) and name in log.columns(table))
        if names:
            counts = collect(log.scan(table, names).select(pl.col(names).count()), log).row(0)
            rows += [(table, name, n, n / log.rows(table)) for name, n in zip(names, counts, strict=True) if n]
    schema = {"table": pl.String, "column": pl.String, "values": pl.Int64, "share": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _count_labels(log: Log) -> pl.DataFrame:
    """The number of examples with each gold label, by data set and split, of those that have a label space."""
    names = ["dataset", "split", "gold"]
    if not (log.has("examples") and {"gold", "labels"} <= set(log.columns("examples"))):
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String) | {"examples": pl.Int64})
    labelled = log.scan("examples", [*names, "labels"]).filter(pl.col("labels").list.len() > 0).drop_nulls("gold")
    return collect(labelled.group_by(names).agg(examples=pl.len().cast(pl.Int64)), log).sort(names)


def _add_block(sums: _LogSums, log: Log, here: pl.Expr) -> None:
    examples = _read_columns(log, "examples", ("example_id", "labels", "gold_error"), here)
    traces = _read_columns(log, "traces", _TRACES, here)
    scores = _read_columns(log, "verifications", _SCORES, here & pl.col("score").is_not_null())
    rounds = _read_columns(log, "rounds", ("example_id", "pool", "hop", "round"), here)
    checks = _read_columns(log, "checks", ("example_id", "pool", "claim", "round", "stage", "verdict", "unit"), here)
    ids = examples.select("example_id")
    if log.has("examples"):
        rounds, checks = (frame.join(ids, on="example_id", how="semi") for frame in (rounds, checks))
    else:
        ids = pl.concat([frame.select("example_id") for frame in (traces, rounds, checks)]).unique().sort("example_id")
    groups = group_traces(traces.with_columns(valid=_valid_answers(traces, examples)), ids["example_id"])
    traces = groups.frame
    sums.judged += traces.filter(pl.col("correct").is_not_null())["example_id"].n_unique()
    distinct, measured = assumptions.setting_sums(groups)
    marked = _mark_scores(groups, scores)
    limits = [
        caps.limits_of_pools(ids, groups, log.pools_without_prefix()),
        caps.limits_of_verifiers(ids, groups, marked, log.pools_without_prefix(), sums.verifiers),
        caps.limits_of_actions(ids, groups.of_known_examples(ids.height)),
        caps.limits_of_rounds(ids, rounds),
        caps.limits_of_claim_rounds(ids, examples, checks),
    ]
    sums.add(
        sizes=_count_example_sizes(groups),
        orders=assumptions.order_sums(groups),
        group_sizes=assumptions.size_counts(groups),
        settings=distinct,
        measured=measured,
        repeats=_repeated_score_sums(sums, log, traces, scores),
        verified=_verification_counts(groups, marked),
        scores=_code_groups(sums, groups, marked.filter(pl.col("correct").is_not_null())),
        limits=pl.concat(limits),
    )
    sums.examples += ids.height
    sums.numbered += len(groups.ids)  # so that the next block numbers its examples from here


def _valid_answers(traces: pl.DataFrame, examples: pl.DataFrame) -> pl.Series:
    """Whether each trace has an answer that its example's label space allows, where there is one."""
    labelled = examples.filter(pl.col("labels").list.len() > 0).select("example_id", "labels")
    if labelled.is_empty():
        return traces["answer"].is_not_null()
    spaces = labelled.select("labels").unique().with_row_index("space")
    allowed = spaces.explode("labels").unique()
    of_example = labelled.join(spaces, on="labels").select("example_id", "space")
    rows = traces.select("example_id", "answer", "opaque")
    rows = rows.join(of_example, on="example_id", how="left", maintain_order="left")
    allowed = allowed.select("space", answer="labels", inside=True)
    rows = rows.join(allowed, on=["space", "answer"], how="left", maintain_order="left")
    free = pl.col("space").is_null() | pl.col("opaque").fill_null(False)
    return rows.select(pl.col("answer").is_not_null() & (free | pl.col("inside").fill_null(False))).to_series()


def _mark_scores(groups: TraceGroups, scores: pl.DataFrame) -> pl.DataFrame:
    """The scores with `at`, the row of their trace in `groups`, its `kind`, and whether it is valid and right."""
    traces = groups.frame.select("trace_id", of="example_id").with_row_index("at")
    ids = ("example_id", "trace_id")
    first = scores.select(pl.any_horizontal(pl.col(ids).ne_missing(pl.col(ids).shift()))).to_series()
    scores = scores.with_columns(run=first.cum_sum())  # the scores of one trace by several verifiers
    runs = scores.select(*ids, "run").filter(first).join(traces, on="trace_id", maintain_order="left")
    runs = runs.filter(pl.col("example_id") == pl.col("of")).select("run", "at")
    marked = scores.drop(ids).join(runs, on="run", maintain_order="left").drop("run")
    at = marked["at"].to_numpy()
    kind = pl.Series("kind", groups.kind[groups.group[at]])
    return marked.with_columns(kind, *groups.frame.select("valid", "correct")[at])


def _repeated_score_sums(sums: _LogSums, log: Log, traces: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Sums over repeated scores of one text. Only the first traces are compared, because texts are large."""
    left = MOST_TEXTS - sums.texts
    sizes = traces.head(0 if left <= 0 else traces.height).group_by("example_id").len().sort("example_id")
    sizes = sizes.filter(pl.col("len").cum_sum() <= left)
    if scores.is_empty() or sizes.is_empty():
        none = traces.clear().with_columns(text=pl.lit(None, pl.UInt64))
        return assumptions.repeat_sums(none, scores.clear())
    sums.texts += int(sizes["len"].sum())
    here = pl.col("example_id").is_between(pl.lit(sizes["example_id"][0]), pl.lit(sizes["example_id"][-1]))
    texts = log.scan("traces", ("example_id", "trace_id", "text")).filter(here)
    hashed = collect(texts.with_columns(pl.col("text").hash()), log)
    joined = traces.filter(here).join(hashed, on=["example_id", "trace_id"])
    return assumptions.repeat_sums(joined, scores.filter(here))


def _drop_unscored_pools(limits: pl.DataFrame, verified: pl.DataFrame) -> pl.DataFrame:
    """The limits, without those of pools that a verifier never scored."""
    scored = verified.filter(pl.col("action") == "solve").select(of=pl.format("{} by {}", "pool", "verifier")).unique()
    return limits.filter(~pl.col("kind").is_in(caps.VERIFIED) | pl.col("of").is_in(scored["of"].implode()))


def _code_groups(sums: _LogSums, groups: TraceGroups, judged: pl.DataFrame) -> pl.DataFrame:
    """The scores with one number in place of verifier, pool and action, and with that of their example. New numbers are
    added to `sums.groups`.
    """
    by = ["verifier", "pool", "action"]
    keys = _with_pool_and_action(groups, judged.select("verifier", "kind").unique().with_columns(number="kind")).sort(
        by
    )
    codes = [sums.groups.setdefault(key, len(sums.groups)) for key in keys.select(by).iter_rows()]
    coded = keys.select("verifier", kind="number", code=pl.Series(codes, dtype=pl.Int32))
    number = groups.example[groups.group[judged["at"].to_numpy()]] + sums.numbered
    numbered = judged.with_columns(group=pl.Series(number.astype(np.int32)))
    return numbered.join(coded, on=["verifier", "kind"]).select("code", "score", "correct", "group")


def _read_columns(log: Log, table: str, columns: tuple[str, ...], here: pl.Expr) -> pl.DataFrame:
    return collect(log.scan(table, columns).filter(here), log)


def _count_example_sizes(groups: TraceGroups) -> pl.DataFrame:
    """The number of examples by pool, action and size (traces per example), with sums over their traces."""
    tokens = ("prompt_tokens", "completion_tokens")
    first = starts_of_equal_runs(groups.kind, groups.example)
    start = groups.start[first]

    def total(column: str | pl.Expr) -> np.ndarray:
        values = groups.frame.select(pl.col(column) if isinstance(column, str) else column).to_series()
        return np.add.reduceat(values.cast(pl.Int64).fill_null(0).to_numpy(), start)

    sizes = pl.DataFrame({
        "kind": groups.kind[first],
        "size": np.diff(start, append=groups.frame.height),
        "read": total(pl.col("answer").is_not_null()),
        "valid": total("valid"),
        "judged": total(pl.col("correct").is_not_null()),
        "right": total("correct"),
        **{name: total(name) for name in tokens},
        **{f"{name}_missing": total(pl.col(name).is_null()) for name in tokens},
    })  # fmt: skip
    sums = sizes.group_by("kind", "size").agg(pl.all().sum(), examples=pl.len().cast(pl.Int64))
    return _with_pool_and_action(groups, sums)


def _with_pool_and_action(groups: TraceGroups, frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with pool and action in place of their number, `kind`."""
    kinds = groups.kinds.with_row_index("kind").cast({"kind": pl.Int64})
    return kinds.join(frame, on="kind", maintain_order="right").drop("kind")


def _verification_counts(groups: TraceGroups, marked: pl.DataFrame) -> pl.DataFrame:
    counts = marked.group_by("verifier", "kind").agg(
        scores=pl.len().cast(pl.Int64),
        valid_scores=pl.col("valid").sum().cast(pl.Int64),
        prompt_tokens=pl.col("prompt_tokens").cast(pl.Int64).sum(),
        completion_tokens=pl.col("completion_tokens").cast(pl.Int64).sum(),
        missing=pl.any_horizontal(pl.col("prompt_tokens", "completion_tokens").is_null()).sum().cast(pl.Int64),
    )
    return _with_pool_and_action(groups, counts)


def _pools_frame(sizes: pl.DataFrame) -> pl.DataFrame:
    from toolkit.show import bar_line
    from toolkit.show.tables.table_content import count_in_equal_ranges

    tokens = ("prompt_tokens", "completion_tokens")
    traces = (pl.col("size") * pl.col("examples")).sum()
    pools = (
        sizes.group_by("pool", "action")
        .agg(
            pl.col("examples").sum(),
            traces=traces,
            fewest=pl.col("size").min(),
            most=pl.col("size").max(),
            answers_read=pl.col("read").sum() / traces,
            valid=pl.col("valid").sum() / traces,
            judged=pl.col("judged").sum() / traces,
            accuracy=pl.when(pl.col("judged").sum() > 0).then(pl.col("right").sum() / pl.col("judged").sum()),
            **{n: pl.when(pl.col(f"{n}_missing").sum() == 0).then(pl.col(n).sum()) for n in tokens},
        )
        .sort(pl.col("action") != "solve", "pool", "action")
    )
    counts = sizes.group_by("pool", "action", "size").agg(pl.col("examples").sum()).sort("size")
    pictures = []
    for pool, action, fewest, most in pools.select("pool", "action", "fewest", "most").iter_rows():
        here = counts.filter((pl.col("pool") == pool) & (pl.col("action") == action)).select("size", "examples")
        bars = bar_line([count for _, count in count_in_equal_ranges(here.rows())])
        pictures.append("" if fewest == most else f"{fewest} {bars} {most}")
    return pools.insert_column(pools.columns.index("most") + 1, pl.Series("sizes", pictures, dtype=pl.String))


def _verifiers_frame(sums: _LogSums) -> pl.DataFrame:
    from toolkit.stats import auc, auc_within

    by = ["verifier", "pool", "action"]
    verified = sums["verified"]
    valid = sums["sizes"].group_by("pool", "action").agg(all_valid=pl.col("valid").sum())
    sums_by = verified.group_by(by).agg(pl.col(n).sum() for n in verified.columns if n not in by)
    frame = sums_by.join(valid, on=["pool", "action"], how="left").sort(by)
    scores = sums["scores"]
    split = scores.partition_by("code", as_dict=True)
    aucs, within = [], []
    for key in frame.select(by).iter_rows():
        rows = split.get((sums.groups.get(key),), scores.clear())
        aucs.append(auc(rows["score"], rows["correct"]))
        within.append(auc_within(rows["score"], rows["correct"], rows["group"]))
    noise = assumptions.noise_frame(sums["repeats"])
    frame = frame.join(noise, on=by, how="left", maintain_order="left")
    coverage = pl.when(pl.col("all_valid") > 0).then(pl.col("valid_scores") / pl.col("all_valid"))
    logged = pl.col("missing") == 0
    return frame.select(
        *by,
        "scores",
        coverage=coverage,
        auc=pl.Series(aucs, dtype=pl.Float64).fill_nan(None),
        auc_within=pl.Series(within, dtype=pl.Float64).fill_nan(None),
        repeats=pl.col("repeats").fill_null(0),
        noise="noise",
        prompt_tokens=pl.when(logged).then("prompt_tokens"),
        completion_tokens=pl.when(logged).then("completion_tokens"),
    )
