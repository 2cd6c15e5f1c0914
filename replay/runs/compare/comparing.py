"""Comparing the policies of one result, or of two results on the same examples: all pairs at once, or two in detail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import polars as pl

from replay.runs.compare.compared import EXAMPLES, FIX, FLIP, METRICS, OTHER, PAIRS, ComparedPolicies
from replay.runs.passes.example_set import resampling_units
from replay.runs.saved.display import policy_row
from replay.runs.saved.findings import Findings
from replay.runs.saved.provenance import PolicyRecord
from toolkit.columns import OutcomeColumn, cost_named, cost_names_for_users
from toolkit.errors import (
    ConflictError,
    InvalidError,
    LimitError,
    MismatchError,
    RequiredError,
    UnknownError,
    UnsuitableError,
    argument,
    counted,
    require_known,
    suggest,
)
from toolkit.log import collect
from toolkit.notes import Note, Severity, note
from toolkit.show import short_names
from toolkit.stats import Settings, Summary, summarise
from toolkit.stats.bootstrap.sample import WholeSample, read_sample
from toolkit.stats.many.pair_differences import pair_differences
from toolkit.stats.many.simultaneous import MOST_PAIRED
from toolkit.stats.many.summary_notes import notes_on_seconds, notes_on_strata, notes_on_units
from toolkit.stats.metrics.outcomes import Store, join_stores
from toolkit.stats.metrics.scan import Units

NAMED = 5
"""How many policies a note names."""
Scalar = str | int | float | bool


@dataclass(frozen=True, eq=False)
class _ComparedResult:
    """A result as one side of a comparison, with the name that messages give it."""

    findings: Findings
    called: str

    @property
    def names(self) -> list[str]:
        return self.findings.summariser.names

    @property
    def policies_without_gold(self) -> list[int]:
        """Numbers of the policies that could be used in service, since they see no gold."""
        return [number for number, one in enumerate(self.findings.policies) if not one.diagnostic]

    def number_of_policy(self, name: str) -> int:
        dropped = self.findings.dropped
        if name in dropped:
            raise UnsuitableError(f"policy `{name}` was dropped: {dropped[name]}")
        require_known(name, self.names, f"no policy of {self.called} is named `{name}`")
        return self.names.index(name)


def compare(
    one: Findings, first: str | None, second: str | None, other: Findings | None, metric: str | None,
    cost: str | None = None, same_names: bool = False,
) -> ComparedPolicies:  # fmt: skip
    """Compare all pairs of a result's policies, or each with each of another result's; or two that are named.

    `cost`: the cost whose difference stands beside that of the metric. `same_names`: of two results the policies of one
    name alone, with limits that hold for all of these at once.
    Raises ThinkbackError for unknown names, too many pairs, and results that were not made on the same examples.
    """
    if same_names and other is None:
        raise RequiredError(f"{argument('same_names')} pairs policies of two results, and one was named")
    if same_names and second not in (None, first):
        raise ConflictError(f"{argument('same_names')} pairs policies of one name: not `{first}` with `{second}`")
    if (first is None and second is not None) or (first is not None and second is None and other is None):
        raise RequiredError("name two policies to compare them, or none for all pairs")
    if first is not None and first == second and other is None:
        raise InvalidError(f"`{first}` would be compared with itself: name two policies")
    sides = [_ComparedResult(one, "the result" if other is None else "the first result")]
    sides += [] if other is None else [_ComparedResult(other, "the second result")]
    whole = _JoinedResults.join_results(sides, one.summariser.metric if metric is None else metric)
    pair = None
    if first is not None:
        behind = len(sides[0].names) if other is not None else 0
        pair = (
            sides[0].number_of_policy(first),
            behind + sides[-1].number_of_policy(first if second is None else second),
        )
    if not same_names:
        return _compared_policies(whole, sides, _simultaneous_pairs(sides), pair, cost)
    compared = _compared_policies(whole, sides, _pairs_of_one_name(sides), pair, cost)
    notes = [*_notes_on_other_settings(sides, [*compared.pairs["first"]]), *_notes_on_unlabelled(sides, whole.ids)]
    return replace(compared, notes=(*compared.notes, *notes))


def _pairs_of_one_name(sides: Sequence[_ComparedResult]) -> tuple[np.ndarray, np.ndarray]:
    """The policies that both sides have under one name, of those that see no gold, as numbers of policies."""
    first, second = ({side.names[at]: at for at in side.policies_without_gold} for side in sides)
    names = [name for name in first if name in second]
    return (
        np.array([first[name] for name in names], np.int64),
        np.array([second[name] + len(sides[0].names) for name in names], np.int64),
    )


def _notes_on_other_settings(sides: Sequence[_ComparedResult], names: Sequence[str]) -> Iterator[Note]:
    """A note on policies of one name with other settings."""
    first, second = ({policy.name: policy for policy in side.findings.policies} for side in sides)
    differing = {name: _settings_apart(first[name], second[name]) for name in names}
    differing = {name: keys for name, keys in differing.items() if keys}
    if differing:
        some = "; ".join(f"`{name}`: {', '.join(keys)}" for name, keys in list(differing.items())[:NAMED])
        more = f"; and {len(differing) - NAMED} more" if len(differing) > NAMED else ""
        text = f"policies of one name have other settings in each result, so they differ by more than the log: {some}"
        yield note("other_settings", text + more, differing)


def _notes_on_unlabelled(sides: Sequence[_ComparedResult], ids: pl.Series) -> Iterator[Note]:
    """A note on shared examples of which no gold answer says that they are the same."""
    gold = [side.findings.examples.filter(pl.col("example_id").is_in(ids.implode()))["gold"] for side in sides]
    unknown = int((gold[0].is_null() & gold[1].is_null()).sum())
    if unknown:
        text = "without a gold answer in either result are taken to be the same questions by their ids alone"
        yield note("paired_by_id", f"{counted(unknown, 'example')} {text}")


def _settings_apart(one: PolicyRecord, other: PolicyRecord) -> list[str]:
    """The settings in which two policies differ, as `key (value, other value)`."""
    if one.kind != other.kind:
        return [f"kind ({one.kind}, {other.kind})"]
    keys = dict.fromkeys([*one.settings, *other.settings])
    pairs = {key: (one.settings.get(key), other.settings.get(key)) for key in keys}
    return [
        f"{key} ({first}, {second})" if isinstance(first, Scalar) and isinstance(second, Scalar) else key
        for key, (first, second) in pairs.items()
        if first != second
    ]


@dataclass(frozen=True, eq=False)
class _JoinedResults:
    """The policies of all sides, on the examples that every side has."""

    store: Store
    labels: tuple[str, ...] | None
    metric: str
    settings: Settings
    ids: pl.Series
    notes: tuple[Note, ...]

    @classmethod
    def join_results(cls, sides: Sequence[_ComparedResult], metric: str) -> _JoinedResults:
        """The policies of the sides. Raises ThinkbackError if they share no example, or differ in its gold."""
        ids = sides[0].findings.examples["example_id"]
        for side in sides[1:]:
            ids = ids.filter(ids.is_in(side.findings.examples["example_id"].implode()))
        if ids.is_empty():
            raise MismatchError("the two results have no example in common, so nothing can be compared in pairs")
        outcomes = [side.findings.summariser.outcomes for side in sides]
        if len(sides) > 1:
            _check_same_settings(sides, ids)
        some = None if len(ids) == len(sides[0].findings.examples) and len(sides) == 1 else ids
        stores = [outcome.statistics(some) for outcome in outcomes]
        labels = outcomes[0].labels if len({outcome.labels for outcome in outcomes}) == 1 else None
        keys = [key for key in stores[0].keys if all(key in store.keys for store in stores)]
        parts = [(store, range(store.policies)) for store in stores]
        store = stores[0] if len(stores) == 1 else join_stores(parts, keys, len(labels or ()))
        return cls(store, labels, metric, sides[0].findings.summariser.settings, ids, tuple(_settings_notes(sides)))


def differences_to_policy(pairs: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """The pairs with one policy, turned to each other policy minus it: `policy`, and the columns of `pairs`."""
    turned = pairs.with_columns(
        first="second", second="first", difference=-pl.col("difference"), low=-pl.col("high"), high=-pl.col("low"),
        fixes="flips", flips="fixes",
    )  # fmt: skip
    return pl.concat([pairs, turned]).filter(second=baseline).rename({"first": "policy"})


def _settings_notes(sides: Sequence[_ComparedResult]) -> Iterator[Note]:
    """Notes where the second result has another setting of the statistics, since the first result's is used."""
    settings = [asdict(side.findings.summariser.settings) for side in sides]
    for name in ("level", "method", "resamples", "seed"):
        one, other = (of[name] for of in (settings[0], settings[-1]))
        if one != other:
            yield note("first_settings", f"`{name}` is taken from the first result, {one}; the second has {other}")


def _check_same_settings(sides: Sequence[_ComparedResult], ids: pl.Series) -> None:
    """Raise where the results measure success differently, or give shared examples other gold answers or clusters."""
    measures = [side.findings.provenance.get("measure", "correct") for side in sides]
    if measures[0] != measures[1]:
        raise MismatchError(
            f"the two results measure success by `{measures[0]}` and by `{measures[1]}`: replay both with one `measure`"
        )
    frames = [side.findings.examples.filter(pl.col("example_id").is_in(ids.implode())) for side in sides]
    for what, columns in {
        "gold answer": [frame["gold"] for frame in frames],
        "cluster": [resampling_units(frame) for frame in frames],
    }.items():
        odd = columns[0].ne_missing(columns[1])
        if odd.any():
            example = frames[0].filter(odd)["example_id"][0]
            raise MismatchError(
                f"the two results are of different examples: `{example}` has another {what} in each; "
                "replay both on one log's examples"
            )


def _simultaneous_pairs(sides: Sequence[_ComparedResult]) -> tuple[np.ndarray, np.ndarray] | None:
    """The pairs that the limits cover at once, as numbers of policies; None where there are too many pairs."""
    if sum(len(side.policies_without_gold) for side in sides) > MOST_PAIRED:
        return None
    first = np.array(sides[0].policies_without_gold, np.int64)
    if len(sides) == 1:
        one, other = np.triu_indices(len(first), 1)
        return first[one], first[other]
    second = np.array(sides[1].policies_without_gold, np.int64) + len(sides[0].names)
    return np.repeat(first, len(second)), np.tile(second, len(first))


def _compared_policies(
    whole: _JoinedResults, sides: Sequence[_ComparedResult], family: tuple[np.ndarray, np.ndarray] | None,
    pair: tuple[int, int] | None, cost: str | None,
) -> ComparedPolicies:  # fmt: skip
    result, names = sides[0].findings, [name for side in sides for name in side.names]
    if family is None and pair is None:
        raise LimitError(
            f"{counted(len(names), 'policy', 'policies')} make too many pairs (at most {MOST_PAIRED:,} policies are "
            "compared at once): name two"
        )
    pairs, sample, column = pl.DataFrame(schema=PAIRS), None, None
    if family is not None:
        sample = read_sample(
            whole.store, [str(number) for number in range(len(names))], whole.labels, whole.settings,
            result.columns, whole.metric,
        )  # fmt: skip
        pairs = _pair_rows(whole, sample, family, names, pair, better_first=len(sides) == 1)
        if cost is not None:
            column, values = _cost_by_policy(sample, result.columns, names, cost)
            paid = (
                pl.col(side).replace_strict(values, default=None, return_dtype=pl.Float64)
                for side in ("first", "second")
            )
            pairs = pairs.with_columns(cost=next(paid) - next(paid))
    pair_names: tuple[str, ...] = ()
    summary = examples = None
    if pair is not None:
        pair_names = _distinct_names(names[pair[0]], names[pair[1]])
        summary, examples = _summary_of_pair(whole, result, pair, pair_names), _example_rows(whole, sides, pair)
    return ComparedPolicies(
        title=" and ".join(dict.fromkeys(side.findings.log_name for side in sides)),
        names=pair_names,
        metric=whole.metric,
        pairs=pairs,
        compared=0 if family is None else len(family[0]),
        metrics=None if summary is None else _metric_rows(summary, pair_names),
        examples=examples,
        identical=summary is not None
        and examples is not None
        and examples.is_empty()
        and bool(summary.comparisons["identical"].any()),
        n=len(whole.ids),
        left_out=sum(len(side.findings.examples) - len(whole.ids) for side in sides),
        diagnostics=any(len(side.policies_without_gold) < len(side.names) for side in sides),
        columns=result.columns,
        cost=column,
        level=whole.settings.level,
        simulated=any(side.findings.simulated for side in sides),
        notes=(
            *whole.notes,
            *(summary.notes if summary is not None else _few_cluster_warnings(whole)),
            *(notes_on_seconds(sample) if summary is None and sample is not None else ()),
            *(notes_on_strata(whole.store.strata) if summary is None else ()),
        ),
        called=short_names([policy_row(policy) for side in sides for policy in side.findings.policies]),
        clustered=len(np.unique(whole.store.unit)) < len(whole.ids),
    )


def _cost_by_policy(
    sample: WholeSample, columns: Sequence[OutcomeColumn], names: Sequence[str], cost: str
) -> tuple[OutcomeColumn, dict[str, float | None]]:
    """The column of the cost that is named, and its mean for each policy. Raises where no policy has a value of it."""
    known = {metric.name: number for number, metric in enumerate(sample.metrics) if sample.has_value[number].any()}
    column = cost_named(cost, columns, known.__contains__)
    if column.metric not in known:
        there = cost_names_for_users([one for one in columns if one.metric in known])
        raise UnknownError(f"no policy has a value of `{cost}`; {suggest(cost, there)}")
    number = known[str(column.metric)]
    rows = zip(names, sample.estimates[number].tolist(), sample.has_value[number].tolist(), strict=True)
    return column, {name: value if there else None for name, value, there in rows}


def _few_cluster_warnings(whole: _JoinedResults) -> tuple[Note, ...]:
    units = whole.store.unit
    notes = notes_on_units(len(units), len(np.unique(units)), Units(whole.store).kish)
    return tuple(one for one in notes if one.severity is Severity.WARNING)


def _distinct_names(first: str, second: str) -> tuple[str, ...]:
    """The names of two policies, marked with their result where both have one name."""
    return (first, second) if first != second else (f"{first} (first)", f"{second} (second)")


def _summary_of_pair(
    whole: _JoinedResults, result: Findings, pair: tuple[int, int], pair_names: tuple[str, ...]
) -> Summary:
    """The statistics of two policies without the others, with the second as the baseline."""
    store = join_stores([(whole.store, pair)], whole.store.keys, len(whole.labels or ()))
    return summarise(
        store, pair_names, labels=whole.labels, baseline=pair_names[1], leaders=(), columns=result.columns,
        settings=whole.settings,
    )  # fmt: skip


def _pair_rows(
    whole: _JoinedResults, sample: WholeSample, family: tuple[np.ndarray, np.ndarray], names: Sequence[str],
    pair: tuple[int, int] | None, better_first: bool,
) -> pl.DataFrame:  # fmt: skip
    """The rows of all pairs, or of the named one; the limits cover all pairs in either case.

    The pairs of the best policies come first. `better_first`: whether the better of two is the first of them.
    """
    known = [metric.name for metric in sample.metrics]
    if whole.metric not in known:
        raise UnknownError(f"policies cannot be compared by `{whole.metric}`: {suggest(whole.metric, known)}")
    number = known.index(whole.metric)
    value = np.where(sample.has_value[number], sample.estimates[number], np.nan)
    first, second = family
    there = ~np.isnan(value[first]) & ~np.isnan(value[second])
    first, second = first[there], second[there]
    if not len(first):
        return pl.DataFrame(schema=PAIRS)
    place = np.empty(len(names), np.int64)
    quality = -value if sample.metrics[number].column.cost else value
    place[np.argsort(-quality, kind="stable")] = np.arange(len(names))
    if better_first:
        swap = place[first] > place[second]
        if pair is not None:  # as they were named
            named_swap = (first == pair[1]) & (second == pair[0])
            swap = np.where(np.isin(first, pair) & np.isin(second, pair), named_swap, swap)
        first, second = np.where(swap, second, first), np.where(swap, first, second)
    order = np.lexsort([place[second], place[first]])
    pairs = pair_differences(sample, whole.store, number, (first[order], second[order]), whole.settings)
    called = pl.Series(names, dtype=pl.String)
    columns = {
        "first": called.gather(pairs.first),
        "second": called.gather(pairs.second),
        "metric": pl.Series([whole.metric] * len(pairs.first), dtype=pl.String),
        **{
            name: pl.Series(getattr(pairs, name), nan_to_null=True) for name in ("difference", "low", "high", "p_value")
        },
        "differs": pl.Series(pairs.differs),
        "fixes": pl.Series(pairs.fixes, nan_to_null=True).cast(pl.Int64),
        "flips": pl.Series(pairs.flips, nan_to_null=True).cast(pl.Int64),
        "n": pl.Series(pairs.n),
        "method": pl.Series(pairs.method.tolist(), dtype=pl.String).replace("", None),
    }
    rows = pl.DataFrame(columns, schema=PAIRS)
    if pair is None:
        return rows
    return rows.filter(pl.Series(pairs.first == pair[0]) & pl.Series(pairs.second == pair[1]))


def _metric_rows(summary: Summary, pair_names: tuple[str, ...]) -> pl.DataFrame:
    """Every metric that both policies have: its two values, and their difference with limits for this pair alone."""
    one, other = (
        summary.summary.filter(pl.col("policy") == name).select("metric", pl.col("estimate").alias(side))
        for name, side in zip(pair_names, ("first", "second"), strict=True)
    )
    both = one.join(other, on="metric", how="inner", maintain_order="left")
    apart = summary.comparisons.filter(pl.col("policy") == pair_names[0]).drop("policy", "baseline")
    rows = both.join(apart, on="metric", how="inner", maintain_order="left").select(METRICS)
    return rows.filter(pl.any_horizontal(pl.col("first", "second").is_not_null()))


def _example_rows(whole: _JoinedResults, sides: Sequence[_ComparedResult], pair: tuple[int, int]) -> pl.DataFrame:
    """The examples on which two policies differ in correctness or answer: fixes first, then flips, then the others."""
    columns = ["example_id", "correct", "answer"]
    names, owners = zip(*((name, side) for side in sides for name in side.names), strict=True)
    frame = sides[0].findings.examples.select("example_id", "gold")
    for number, suffix in zip(pair, ("first", "second"), strict=True):
        outcomes = owners[number].findings.outcomes_of(names[number]).select(columns)
        rows = collect(outcomes.filter(pl.col("example_id").is_in(whole.ids.implode())))
        rows = rows.rename({name: f"{name}_{suffix}" for name in columns[1:]})
        frame = frame.join(rows, on="example_id", how="inner", maintain_order="left")
    gained = (pl.col("correct_first") - pl.col("correct_second")).fill_null(0.0)
    unlike = pl.col("answer_first").ne_missing(pl.col("answer_second"))
    change = pl.when(gained > 0).then(pl.lit(FIX)).when(gained < 0).then(pl.lit(FLIP)).when(unlike).then(pl.lit(OTHER))
    changes = frame.with_columns(change=change).drop_nulls("change")
    order = pl.col("change").replace_strict({FIX: 0, FLIP: 1, OTHER: 2}, return_dtype=pl.Int64)
    return changes.sort(order, "example_id").select(EXAMPLES)
