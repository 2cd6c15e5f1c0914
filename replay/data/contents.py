"""What a log has: the names of pools, actions, verifiers and columns, and an error for each that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from replay.data.fitted_scores import FitRecord, fitted_verifiers
from toolkit.errors import (
    AmbiguousError,
    LeakageError,
    UnknownError,
    UnsuitableError,
    argument,
    listed,
    require_known,
    suggest,
)
from toolkit.log import AnyLog, Log, check_log, collect, open_log
from toolkit.log.contract.manifest import ORDERED, STOPPED, Manifest
from toolkit.log.contract.schema import TEXT_LABELS
from toolkit.stopping.declared import EXAMPLE, FEATURE, columns_read


@dataclass(frozen=True)
class Contents:
    """The names in a log: pools of first attempts, actions with the pools that they revise, verifiers, columns.

    Methods whose names begin with `require` raise ThinkbackError, with the nearest name that there is.
    """

    pools: frozenset[str]
    opaque: frozenset[str]  # pools whose traces have verdicts but no answers
    partly_opaque: frozenset[str]  # pools in which some traces have verdicts but no answers, and others have answers
    actions: frozenset[str]
    verifiers: frozenset[str]
    trace_columns: Mapping[str, pl.DataType]
    example_columns: Mapping[str, pl.DataType]
    whole: frozenset[str]  # pools that are replayed whole or not at all
    features: Mapping[str, pl.DataType]  # columns of features, but for the keys
    sizes: Mapping[str, int]  # largest number of traces of an example, by pool of first attempts
    revisions: frozenset[tuple[str, str, str]]  # (action, base pool, own pool) of revisions of a sample 0
    lowest: Callable[[str, str], float | None] = field(repr=False, compare=False)
    """(pool, verifier) -> the verifier's lowest score of a first attempt in the whole log, read at the first use."""
    stopped: frozenset[str] = frozenset()
    """Pools whose traces a loop ended by a rule of its own."""
    ordered: frozenset[str] = frozenset()
    """Pools whose traces go on from each other, so that they have one order."""
    positioned: frozenset[str] = frozenset()
    """Pools whose traces have a `position`: guesses while a question unfolds, which keep their order."""
    fitted: Mapping[str, FitRecord] = field(default_factory=dict, repr=False, compare=False)
    """Verifiers that were fitted on the log, each with its record in the manifest."""
    rows: Callable[[str], Mapping[str, int]] = field(default=lambda table: {}, repr=False, compare=False)
    """Further table, such as `rounds` -> its pools, with the most rows that an example has; read at the first use."""
    least: Callable[[str, str, str], float | None] = field(default=lambda *of: None, repr=False, compare=False)
    """(table, pool, column of lists) -> the least number in the column; None where none is logged."""
    nulls: Callable[[str, str, str, str], bool] = field(default=lambda *of: False, repr=False, compare=False)
    """(table, pool, column, SQL condition) -> whether the column is null on a row that meets the condition."""
    unlike_gold: Callable[[], list[tuple[Any, ...]]] = field(default=list, repr=False, compare=False)
    """The first example whose gold is of texts and says otherwise than `gold_error`, with this gold; no row where none
    does.
    """
    pool_setting: Callable[[str, str], Any] = field(default=lambda pool, key: None, repr=False, compare=False)
    """(pool, key) -> the value in the manifest; None where it has none."""

    @property
    def ordered_pools(self) -> frozenset[str]:
        """Pools whose traces must keep their order, and may not be permuted."""
        return self.whole | self.positioned | self.ordered

    def require_permutable_traces(self, pool: str, then: str) -> None:
        """Raise where the traces of a pool may not be permuted; `then` says in words what that rules out."""
        if pool in self.ordered_pools:
            raise UnsuitableError(f"pool `{pool}` {self.reason_to_keep_order(pool)}, so {then}")

    def reason_to_keep_order(self, pool: str) -> str:
        """Why the traces of a pool must keep their order, in words."""
        if pool in self.stopped:
            return "was stopped by a rule of its loop (`stopped`) and is replayed whole"
        if pool in self.whole:
            return "has no prefixes (`prefix: false`)"
        return "has `position`s, which give an order" if pool in self.positioned else "has one order (`ordered`)"

    def require_pool(self, pool: str) -> None:
        require_known(pool, self.pools, f"the log has no pool `{pool}` of first attempts")

    def pool_of_table(self, table: str, pool: str | None) -> str:
        """The pool of a further table that a policy reads: the one named, else the only one that there is."""
        pools = self.rows(table)
        if not pools:
            raise UnsuitableError(f"the log has no `{table}`")
        if pool is None and len(pools) > 1:
            raise AmbiguousError(f"`{table}` has {len(pools)} pools, so it needs `pool`; {suggest('', pools)}")
        if pool is not None:
            require_known(pool, pools, f"`{table}` has no pool `{pool}`")
        return next(iter(pools)) if pool is None else pool

    def require_action(self, action: str) -> None:
        require_known(action, self.actions, f"the log has no action `{action}`")

    def require_verifier(self, verifier: str, reader: str = "") -> None:
        """Raise unless the log has the verifier; `reader` says in messages what needs it."""
        require_known(verifier, self.verifiers, f"the log has no verifier `{verifier}`{reader}")

    def lowest_score(self, pool: str, verifier: str) -> float:
        """The lowest score that a verifier gave to a first attempt of a pool, in the whole log."""
        score = self.lowest(pool, verifier)
        if score is None:
            raise UnsuitableError(f"verifier `{verifier}` scored no trace of pool `{pool}`, so it has no lowest score")
        return score

    def require_columns(self, reads: frozenset[str], reader: str) -> None:
        """Raise unless the log has the columns of features and examples that a rule declares to read."""
        for name in sorted(columns_read(reads, FEATURE)):
            self.require_feature(name, reader)
        for name in sorted(columns_read(reads, EXAMPLE)):
            self.require_example_column(name, reader)

    def require_feature(self, name: str, reader: str) -> None:
        """Raise unless `features` has this column and it holds numbers."""
        require_known(name, self.features, f"the log has no feature `{name}` for {reader}")
        if not self.features[name].is_numeric():
            raise UnsuitableError(f"feature `{name}` holds {self.features[name]}; {reader} reads numbers")

    def require_example_column(self, name: str, reader: str) -> None:
        """Raise unless `examples` has this column, it holds numbers or texts, and it is not the gold answer."""
        require_known(name, self.example_columns, f"examples have no column `{name}` for {reader}")
        if name == "gold":
            raise LeakageError(f"{reader} reads the gold answer, which a policy in service does not know")
        dtype = self.example_columns[name]
        if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.String, pl.Categorical, pl.Enum)):
            raise UnsuitableError(f"column `{name}` of examples holds {dtype}; {reader} reads numbers and texts")

    def require_measure(self, measure: str) -> None:
        """Raise unless `traces` has this column and it can judge answers in place of `correct`."""
        require_known(measure, self.trace_columns, f"traces have no column `{measure}` to measure")
        dtype = self.trace_columns[measure]
        if not (dtype == pl.Boolean or dtype.is_float()):
            raise UnsuitableError(
                f"column `{measure}` of traces holds {dtype}; a measure is bool, or a float from 0 to 1"
            )

    def require_answer_column(self, name: str) -> None:
        """Raise unless `traces` has this column and it holds texts that can stand in place of answers."""
        require_known(name, self.trace_columns, f"traces have no column `{name}` for `answers_as`")
        if self.trace_columns[name] != pl.String:
            dtype = self.trace_columns[name]
            raise UnsuitableError(f"column `{name}` of traces holds {dtype}; `answers_as` takes a column of texts")

    def require_groups(self, by: str, name: str = "by") -> None:
        """Raise unless `examples` has this column and its values can make groups; messages call it `name`."""
        require_known(by, self.example_columns, f"examples have no column `{by}` for {argument(name)}")
        if isinstance(self.example_columns[by], pl.List | pl.Array | pl.Struct):
            raise UnsuitableError(f"{argument(name)} takes columns of single values; `{by}` of examples holds lists")

    def base_pools(self, action: str) -> list[str]:
        """The pools whose first traces an action revises."""
        return sorted({base for act, base, _ in self.revisions if act == action})

    def revision_pools(self, action: str, base: str) -> list[str]:
        """The pools that hold an action's revisions of a base pool."""
        return sorted(pool for act, one, pool in self.revisions if (act, one) == (action, base))

    def revision_pool(self, action: str, base: str, pool: str | None) -> str | None:
        """The pool that holds an action's revisions of a base pool; None where there is only one and it needs no name.

        Raises ThinkbackError where there is none, or several and none of them is named.
        """
        pools = self.revision_pools(action, base)
        if not pools:
            raise UnknownError(
                f"`{action}` does not revise sample 0 of pool `{base}`; {suggest(base, self.base_pools(action))}"
            )
        if pool is None and len(pools) > 1:
            raise AmbiguousError(
                f"action `{action}` of pool `{base}` has several pools of revisions ({listed(pools)}); "
                f"name one with {argument('pool')}"
            )
        if pool is not None:
            require_known(pool, pools, f"`{action}` has no pool `{pool}` of revisions")
        return None if len(pools) == 1 else pool


@dataclass(frozen=True, eq=False)
class LogFact:
    """A fact of a log that is read at its first use. What was read goes along to other processes."""

    read: Callable[..., Any]
    known: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def __call__(self, *names: Any) -> Any:
        """The fact of the log about some names."""
        if names not in self.known:
            self.known[names] = self.read(*names)
        return self.known[names]


def open_with_contents(log: AnyLog) -> tuple[Log, Contents]:
    """A log and its contents, from an open log, an address or frames; the log is checked first."""
    opened_log = open_log(log)
    if not isinstance(log, Mapping):  # frames are checked as they are opened
        check_log(opened_log)
    return opened_log, read_contents(opened_log)


def read_contents(log: Log) -> Contents:
    """The contents of a log, by one scan over its names."""
    kinds = log.scan("traces", ["pool", "action", "opaque", "sample_index", "position"]).group_by("pool", "action")
    facts = pl.col("opaque").any(), pl.col("sample_index").max(), pl.col("position").is_not_null().any()
    frame = collect(kinds.agg(facts), log)
    solves = frame.filter(pl.col("action") == "solve")
    veiled = frozenset(solves.filter("opaque")["pool"])
    answered = _pools_with_answers(log, veiled) if veiled else frozenset()
    columns = log.columns("features") if log.has("features") else {}
    verifiers = collect(log.scan("verifications", ["verifier"]).select(pl.col("verifier").unique()), log)
    return Contents(
        pools=frozenset(solves["pool"]),
        opaque=veiled - answered,
        partly_opaque=veiled & answered,
        actions=frozenset(frame["action"]) - {"solve"},
        verifiers=frozenset(verifiers["verifier"]),
        trace_columns=log.columns("traces"),
        example_columns=log.columns("examples"),
        whole=log.pools_without_prefix(),
        features={n: t for n, t in columns.items() if n not in ("trace_id", "example_id")},
        sizes={pool: largest + 1 for pool, largest in solves.select("pool", "sample_index").iter_rows()},
        revisions=_logged_revisions(log) if len(solves) < len(frame) else frozenset(),
        lowest=LogFact(partial(_lowest_score, log, len(frame) == 1)),
        stopped=_pools_with_settings(log, lambda pool: pool.get(STOPPED) is not None),
        ordered=_pools_with_settings(log, lambda pool: pool.get(ORDERED) is True),
        positioned=frozenset(solves.filter("position")["pool"]),
        fitted=fitted_verifiers(log),
        rows=LogFact(partial(_most_rows, log)),
        least=LogFact(partial(_least_number, log)),
        nulls=LogFact(partial(_has_nulls, log)),
        unlike_gold=LogFact(partial(_traces_with_differing_gold, log)),
        pool_setting=partial(_pool_setting, log.manifest),
    )


def _pool_setting(manifest: Manifest | None, pool: str, key: str) -> Any:
    return None if manifest is None else manifest.pool_setting(pool, key)


def _pools_with_settings(log: Log, holds: Callable[[Mapping[str, Any]], bool]) -> frozenset[str]:
    return frozenset() if log.manifest is None else log.manifest.pools_where(holds)


def _least_number(log: Log, table: str, pool: str, column: str) -> float | None:
    """The least number in the lists of a column, over the rows of a pool; None where none is logged."""
    rows = log.scan(table, ["pool", column]).filter(pl.col("pool") == pool)
    least: float | None = collect(rows.select(pl.col(column).list.min().min()), log).item()
    return least


def _has_nulls(log: Log, table: str, pool: str, column: str, condition: str) -> bool:
    rows = log.scan(table).filter(pl.col("pool") == pool, pl.sql_expr(condition))
    return bool(collect(rows.select(pl.col(column).is_null().any()), log).item())


def _traces_with_differing_gold(log: Log) -> list[tuple[Any, ...]]:
    gold = pl.when("gold_error").then(pl.lit("refuted")).otherwise(pl.lit("supported"))
    unlike = log.scan("examples", ["example_id", "labels", "gold", "gold_error"]).filter(
        pl.col("labels").list.sort() == sorted(TEXT_LABELS), pl.col("gold_error").is_not_null(), pl.col("gold") != gold
    )
    return collect(unlike.select("example_id", "gold").sort("example_id").head(1), log).rows()


def _most_rows(log: Log, table: str) -> dict[str, int]:
    """The most rows of a further table that an example has, by pool."""
    if not log.has(table):
        return {}
    counts = log.scan(table, ["example_id", "pool"]).group_by("pool", "example_id").len()
    return dict(collect(counts.group_by("pool").agg(pl.col("len").max()).sort("pool"), log).iter_rows())


def _lowest_score(log: Log, alone: bool, pool: str, verifier: str) -> float | None:
    """A verifier's lowest score on a pool, None without any; `alone`: the log has no traces of another kind."""
    scores = log.scan("verifications", ["trace_id", "verifier", "score"]).filter(pl.col("verifier") == verifier)
    if not alone:
        traces = log.scan("traces", ["trace_id", "pool", "action"])
        pool_traces = traces.filter((pl.col("action") == "solve") & (pl.col("pool") == pool))
        scores = scores.join(pool_traces, on="trace_id", how="semi")
    lowest: float | None = collect(scores.select(pl.col("score").min()), log).item()
    return lowest


def _pools_with_answers(log: Log, pools: frozenset[str]) -> frozenset[str]:
    plain = (pl.col("action") == "solve") & pl.col("answer").is_not_null() & ~pl.col("opaque").fill_null(False)
    traces = log.scan("traces", ["pool", "action", "answer", "opaque"])
    pool_names = traces.filter(plain & pl.col("pool").is_in(sorted(pools))).select(pl.col("pool").unique())
    return frozenset(collect(pool_names, log)["pool"])


def _logged_revisions(log: Log) -> frozenset[tuple[str, str, str]]:
    """The revisions that a log has of pools' first traces, as (action, pool of the parent, pool of the revision)."""
    traces = log.scan("traces", ["trace_id", "pool", "action", "parent_id", "sample_index"])
    parents = traces.filter((pl.col("action") == "solve") & (pl.col("sample_index") == 0))
    base = parents.select(parent_id="trace_id", base="pool")
    revisions = traces.filter(pl.col("action") != "solve").join(base, on="parent_id", how="inner")
    return frozenset(collect(revisions.select("action", "base", "pool").unique(), log).iter_rows())


def most_token_logprobs(log: Log, pools: list[str]) -> int:
    """The length of the longest list of token log-probabilities that a first attempt of some pools has."""
    traces = log.scan("traces", ["pool", "action", "token_logprobs"])
    attempts = traces.filter((pl.col("action") == "solve") & pl.col("pool").is_in(pools))
    return collect(attempts.select(pl.col("token_logprobs").list.len().max()), log).item() or 0
