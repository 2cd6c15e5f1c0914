"""SQL conditions on examples: which examples they name, and that none is both learnt from and reported."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from toolkit.errors import EmptyError, InvalidError, LeakageError, ThinkbackError, argument
from toolkit.log import Log, collect, query_log

TEST = "split = 'test'"
"""The condition of the examples of the test split, which nothing was trained on."""


def has_test_and_other_splits(split: pl.Series | None) -> bool:
    """Whether a log has both examples of the split `test` and examples of another split."""
    return split is not None and bool(split.eq("test").any()) and split.drop_nulls().n_unique() > 1


def ids_where(log: Log, condition: str, key: str) -> pl.Series:
    """Ids of the examples on which an SQL condition holds, sorted; `key` is the setting that errors name."""
    if not condition.strip():
        raise InvalidError(f"{_key_name(key)} is empty: write a condition such as `split = 'test'`, or leave it out")
    try:
        ids = query_log(log, f"SELECT example_id FROM examples WHERE (\n{condition}\n)")["example_id"]
    except ThinkbackError as error:
        raise InvalidError(f"{_key_name(key)} ({condition}) cannot be evaluated on examples: {error}") from None
    if ids.is_empty():
        raise EmptyError(
            f"{_key_name(key)} matches no example of the log: {condition}; its splits are {_split_names(log)}"
        )
    return ids.sort()


def ids_where_or_none(log: Log, condition: str) -> pl.Series:
    """Ids of the examples on which an SQL condition holds; empty, not an error, where it holds on none."""
    try:
        return ids_where(log, condition, "on")
    except ThinkbackError:
        return pl.Series(dtype=pl.String)


def in_dataset(where: str | None, dataset: str) -> str:
    """The SQL condition that narrows another one to the examples of one data set."""
    quoted = dataset.replace("'", "''")
    return f"({where}) AND dataset = '{quoted}'" if where is not None else f"dataset = '{quoted}'"


def report_condition(log: Log, dev: str | None = None) -> str | None:
    """The SQL condition of the examples to report by default: the test split's, if there is one; None: all.

    Examples of `dev`, which are learnt from, are never among them.
    """
    split = collect(log.scan("examples", ["split"]).select("split"), log)["split"]
    conditions = [TEST] if has_test_and_other_splits(split) else []
    return " AND ".join(conditions if dev is None else [*conditions, excluding(None, dev)]) or None


def excluding(where: str | None, other: str) -> str:
    """The SQL condition of the examples of `where` (None: of all) on which the condition `other` does not hold."""
    left = f"NOT coalesce(({other}), false)"
    return left if where is None else f"({where}) AND {left}"


def _key_name(key: str) -> str:
    """How errors name a key: as an argument, or as a setting of a policy, such as `prior.on`."""
    return argument(key) if key.isidentifier() else f"`{key}`"


def _split_names(log: Log) -> str:
    splits = collect(log.scan("examples", ["split"]).select(pl.col("split").unique().sort()), log)["split"]
    listed = ", ".join(f"`{name}`" for name in splits.drop_nulls()[:MAX_NAMED])
    return (listed + (", …" if len(splits) > MAX_NAMED else "")) or "not named"


def read_examples(log: Log, ids: pl.Series, columns: Sequence[str] = ("labels", "gold")) -> pl.DataFrame:
    """The examples with these ids, in order of their ids, with some columns: by default those that a replay reads."""
    scan = log.scan("examples", ["example_id", *columns])
    return collect(scan.filter(pl.col("example_id").is_in(ids.implode())), log).sort("example_id")


def examples_where(log: Log, where: str | None, *columns: str) -> pl.DataFrame:
    """The examples on which a condition holds (None: all), sorted by id, with some columns.

    Raises ThinkbackError for a condition that cannot be evaluated, or holds on none.
    """
    scan = log.scan("examples", ["example_id", *columns])
    if where is not None:
        scan = scan.filter(pl.col("example_id").is_in(ids_where(log, where, "where").implode()))
    return collect(scan.select("example_id", *columns), log).sort("example_id")


MAX_NAMED = 10
REPORTED = ("the examples that are reported", f"report other rows ({argument('where')}, {argument('report')})")


def refuse_overlap(
    log: Log, development: pl.Series, reported: pl.Series, key: str, condition: str, judged: tuple[str, str] = REPORTED
) -> None:
    """Raise where an example, or an example of the same cluster, is both fitted on and reported.

    `judged` is what the message calls the second set, and what it advises.
    """
    whom, advice = judged
    both = development.filter(development.is_in(reported.implode()))
    if not both.is_empty():
        raise LeakageError(
            f"{_key_name(key)} ({condition}) selects {len(both):,} of {whom}, such as `{both[0]}`: "
            f"no result may be reported on rows that were used to fit or choose; {advice}"
        )
    clusters = _clusters_of_examples(log, development)
    shared = clusters.filter(clusters.is_in(_clusters_of_examples(log, reported).implode()))
    if not shared.is_empty():
        raise LeakageError(
            f"{_key_name(key)} ({condition}) shares {len(shared):,} clusters with {whom}, such as `{shared[0]}`: "
            "examples of a cluster are alike, so no result may be reported on a cluster that was used to fit; split "
            "by `cluster`"
        )


def refuse_calibration_on_learnt(log: Log, learnt: tuple[str, str], calibrated: tuple[str, str]) -> None:
    """Raise where an example is both learnt from and used to calibrate thresholds; each is (setting, condition).

    Split-conformal sets need calibration examples that are exchangeable with those reported, which examples that the
    score was fitted on are not.
    """
    (key, condition), (calibrated_key, other) = learnt, calibrated
    fitted = ids_where(log, condition, key)
    both = fitted.filter(fitted.is_in(ids_where(log, other, calibrated_key).implode()))
    if not both.is_empty():
        raise LeakageError(
            f"`{calibrated_key}` ({other}) and `{key}` ({condition}) share {len(both):,} examples, such as "
            f"`{both[0]}`: thresholds that are set on fitted rows cover too little; name disjoint rows"
        )


def _clusters_of_examples(log: Log, ids: pl.Series) -> pl.Series:
    """The clusters of some examples, each once, sorted; an example without a cluster is one by itself."""
    scan = log.scan("examples", ["example_id", "cluster"]).filter(pl.col("example_id").is_in(ids.implode()))
    return collect(scan.select(pl.col("cluster").drop_nulls().unique()), log)["cluster"].sort()
