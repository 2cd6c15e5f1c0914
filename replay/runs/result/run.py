"""A run: log x policies -> outcomes, summary, comparisons, and what was left out and why; or a check alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl

from replay.data.contents import open_with_contents
from replay.data.prices import PRICE, GivenPrices, Prices, load_prices, logged_prices, missing_tokens, priced_columns
from replay.policies.base import Policy, further_outcome_columns
from replay.policies.suite import suite
from replay.policies.toml import GivenPolicies, load_policies
from replay.runs.passes.coverage import (
    Coverage,
    notes_on_failed_calls,
    notes_on_suite,
    notes_on_unlike_calls,
    notes_on_unlike_tokens,
)  # fmt: skip
from replay.runs.passes.covered import CoveredRun, replay_covered, threshold_curves
from replay.runs.passes.example_set import example_groups
from replay.runs.passes.gate_sweep import sweep_tables
from replay.runs.passes.learning import fit_policies, resolve_policies
from replay.runs.passes.logged_order import order_notes
from replay.runs.passes.passes import ReplayPlan
from replay.runs.passes.strata import strata_column, with_strata
from replay.runs.passes.user_metrics import Metric, check_labels, check_ranking, user_columns, user_metrics
from replay.runs.result.result import Result
from replay.runs.saved.findings import RunSource, Summariser
from replay.runs.saved.provenance import PolicyRecord, policy_record, software_versions, usual_baseline
from replay.sampling.user_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.columns import OutcomeColumn, cost_named, cost_names_for_users, metric_column, with_columns
from toolkit.errors import (
    InvalidError,
    LimitError,
    UnknownError,
    UnsuitableError,
    argument,
    listed,
    require_known,
    suggest,
)
from toolkit.log import AnyLog, Log, calls_left_out, collect, open_log
from toolkit.notes import Note, note, warning
from toolkit.stats import Settings, Summary, settings_of
from toolkit.stats.many.compare import ACCURACY
from toolkit.workers.chosen import spread_over_workers

MOST_GROUPS = 500


@spread_over_workers
@checks_arguments(
    by="a column of examples, or a list of them", metrics="a `Metric`, or a list of them", cost="the name of a cost"
)
def run(
    log: AnyLog,
    policies: GivenPolicies | None = None,
    *,
    baseline: str | None = None,
    where: str | None = None,
    by: str | Sequence[str] = (),
    strata: str | None = None,
    weigh: str | Mapping[str, float] | None = None,
    settings: Settings | None = None,
    seed: int | None = None,
    resamples: int | None = None,
    level: float | None = None,
    method: str | None = None,
    strict: bool = False,
    metric: str | None = None,
    metrics: Metric | Iterable[Metric] = (),
    cost: str | None = None,
    prices: GivenPrices = None,
    measure: str | None = None,
    rules: GivenRules = None,
    kw: float | None = None,
    eur_per_kwh: float | None = None,
    block_examples: int | None = None,
    workers: str | None = None,
) -> Result:
    """Replay policies on a log and compare them on the examples that all of them can serve.

    `log` is a log, its address or its tables as frames; `policies` a TOML file, a TOML text, policies built in Python
    or what `suite` gave, and by default the standard suite that the log can answer; of a suite the test examples are
    reported, where there is a test split, by data set, unless `where` says otherwise. `baseline` names the policy of
    the paired differences; `where` is an SQL condition on the columns of `examples`; `by` names columns of `examples`
    whose groups are summarised too; `strata` names the column of `examples` within whose values they are resampled, by
    default `dataset` where `by` has it (`none`: all together); `weigh` how much each of these values counts in means:
    `equal`, or weights by value, in place of how many examples each has; `metric` is what ranks, by default accuracy,
    or the first quality that the run has where nothing is judged; among equals the `cost` does, by default money where
    there are prices, else tokens where they are logged, unless the policy file names one; `prices` (a TOML file, or
    `Prices`) take the place of those of the policy file; `metrics` are metrics of one's own; `measure` is another
    column of traces (0 to 1) in place of `correct`; `rules` a file or classes with stopping rules and selects of one's
    own.
    `settings` are those of the intervals, or some of them are given by keyword (`seed`, `resamples`, `level`,
    `method`, `kw`, `eur_per_kwh`; by default those of `Settings()`). `block_examples` is how many examples are read
    at once; no result depends on it. `workers` names a cluster that replays ranges of the examples (`ray`, `ray:N` for
    N workers on this machine, `ray:HOST:PORT`, `ray://HOST:PORT`); no digit depends on it.

    Raises ThinkbackError for anything wrong with the log, the policies or the settings.
    """
    settings = settings_of(
        settings, resamples=resamples, level=level, method=method, seed=seed, kw=kw, eur_per_kwh=eur_per_kwh
    )
    if block_examples is not None and block_examples < 1:
        raise InvalidError(f"`block_examples` is {block_examples}; it takes an integer, at least 1")
    metrics = user_metrics(metrics)
    if policies is None:
        log = open_log(log)
        policies = suite(log, where, prices, None if cost in {one.name for one in metrics} else cost)
    file = load_policies(policies, rules)
    cost = file.cost if cost is None else cost
    priced = file.prices if prices is None else load_prices(prices)
    log, contents = open_with_contents(log)
    priced = priced or logged_prices(log)
    suite_notes = tuple(notes_on_suite(file.left_out, file.where if where is None else None))
    if where is None:
        where, by = file.where, by or file.by
    by, measure = tuple(dict.fromkeys([by] if isinstance(by, str) else by)), measure or file.measure
    user_columns(metrics, with_columns(further_outcome_columns(file.policies)))  # refused before anything is replayed
    column = strata_column(contents, strata, weigh, by)
    chosen, examples, reused = resolve_policies(
        log, contents, file, measure, where, by, [] if column is None else [column]
    )
    examples, crossed = with_strata(examples, column, weigh, strata is not None or weigh is not None)
    check_labels(metrics, examples.labels)
    chosen = fit_policies(log, contents, chosen, examples.frame["example_id"], measure)
    if file.standard and baseline is None:
        baseline = usual_baseline([*map(policy_record, chosen)])
    plain = with_columns(further_outcome_columns(chosen), priced_columns(priced, measure))
    if cost is not None:
        cost = cost_named(cost, with_columns(user_columns(metrics, plain), plain)).cost_name
    plan = ReplayPlan(log, contents, examples, measure, priced, block_examples)
    replay = _replay_and_check(plan, chosen, strict, baseline)
    coverage = replay.coverage
    records = tuple(map(policy_record, replay.policies))
    columns = with_columns(further_outcome_columns(replay.policies), plain)
    columns = with_columns(user_columns(metrics, columns), columns)
    if metric is not None and metric not in {column.metric for column in columns}:
        metric = metric.lower().replace("-", "_")  # as papers write `macro-F1`
    summariser = Summariser(replay.outcomes, records, metric or ACCURACY, cost, baseline, columns, settings)
    check_ranking(summariser.metric, replay.outcomes.schema.names(), examples.labels, columns, settings)
    statistics = summariser.summary()
    if metric is None and (qualities := _ranking_metrics(statistics, columns)) and ACCURACY not in qualities:
        summariser = replace(summariser, metric=qualities[0])
        statistics = summariser.summary()
        suite_notes = (
            *suite_notes,
            note("unjudged", f"{_no_accuracy_reason(chosen)}, so policies are ranked by `{qualities[0]}`"),
        )
    pools = {name for policy in replay.policies if not policy.diagnostic for name in policy.slices(contents)}
    money = statistics.summary.filter(pl.col("metric") == "cost_per_1000")["estimate"]
    lacking = missing_tokens(log, priced, pools) if priced is not None and money.null_count() == len(money) else ""
    _check_ranking_metric(statistics, summariser, measure, log.address, lacking)
    frame = examples.frame.filter(coverage.keep)
    _check_groups(frame, by)
    groups = {group: summariser.summary(ids) for group, _, ids in example_groups(frame, by)}
    thresholds, bands = sweep_tables(replay.sweeps, coverage.excluded, settings)
    warned = tuple(note("log", text) for text in log.warnings)
    failed = notes_on_failed_calls(calls_left_out(log.manifest.source if log.manifest is not None else None))
    unused = [warning("unused_prices", lacking)] if lacking else []
    unlike = _unlike_cost_warnings(log, pools, statistics, summariser, priced)
    orders = order_notes(log, contents, replay.policies, frame, baseline)
    notes = (
        *suite_notes, *warned, *failed, *reused, *crossed, *coverage.notes(len(examples.frame)), *unused, *unlike,
        *orders, *statistics.notes,
    )  # fmt: skip
    ranked: dict[str, Any] = {"metric": summariser.metric, "cost": cost, "measure": plan.measure or "correct"}
    ranked |= {"metrics": [asdict(one) for one in metrics]} if metrics else {}
    ranked |= {"prices": priced.record()} if priced is not None else {}
    drawn = {"strata": examples.strata, "weights": examples.weights}
    request = {"baseline": baseline, "where": where, "by": list(by), **drawn, **ranked}
    return Result(
        summariser=summariser, statistics=statistics, groups=groups, by=by, dropped=coverage.dropped,
        excluded=coverage.excluded, notes=notes, simulated=log.simulated,
        provenance=_provenance_record(log, coverage, records, statistics, settings, request, notes),
        thresholds=thresholds, bands=bands,
        positions=threshold_curves(plan.with_ids(frame["example_id"]), replay.policies), examples=frame,
        source=RunSource(plan.with_ids(frame["example_id"]), replay.policies, replay.masks_of_acting),
    )  # fmt: skip


def _unlike_cost_warnings(
    log: Log, pools: Collection[str], statistics: Summary, summariser: Summariser, prices: Prices | None
) -> Iterator[Note]:
    """Warnings that the cost of the front counts calls of several pools, or tokens of several models, as equal."""
    for name in statistics.ranks.filter(pl.col("metric") != summariser.metric)["metric"].unique():
        cost = metric_column(name, summariser.columns)
        yield from notes_on_unlike_calls(pools, cost)
        if len(pools) > 1 and cost.unit == "tokens":
            traces = log.scan("traces", ["example_id", "pool", "model"]).filter(pl.col("pool").is_in(sorted(pools)))
            models = traces.group_by("example_id").agg(pl.col("model").unique()).filter(pl.col("model").list.len() > 1)
            names = collect(models.select(pl.col("model").explode().unique()), log)["model"]
            yield from notes_on_unlike_tokens(names.to_list(), cost, prices is not None)


def _no_accuracy_reason(policies: Sequence[Policy]) -> str:
    """Why no policy has an accuracy, in words."""
    return "no example is judged" if any(policy.answers for policy in policies) else "no policy gives an answer"


def _ranking_metrics(statistics: Summary, columns: Sequence[OutcomeColumn]) -> list[str]:
    """The metrics that can rank policies, since some policy has a value."""
    known = statistics.summary.drop_nulls("estimate")["metric"].unique(maintain_order=True)
    return [name for name in known if metric_column(name, columns).quality]


def _check_ranking_metric(
    statistics: Summary, summariser: Summariser, measure: str | None, address: str, lacking: str
) -> None:
    """Raise where no policy has a value of the ranking metric, or of the cost. `lacking`: why there is no money."""
    known = statistics.summary.drop_nulls("estimate")["metric"].unique(maintain_order=True)
    metric, cost, columns = summariser.metric, summariser.cost, summariser.columns
    if metric not in known:
        qualities = _ranking_metrics(statistics, columns)
        others = f"; the run can be ranked by {listed(qualities)}" if qualities else ""
        unjudged = (
            f"no example is judged (`{measure or 'correct'}` of traces is null on all that are compared), so nothing "
            "can be ranked by accuracy; import the log with gold answers, or set `measure` (of `replay` or of the "
            "policy file) to another column"
        )
        if not any(policy.answers for policy in summariser.policies):
            measures = listed([one.name for one in columns if one.judges and one.name != "correct" and not one.family])
            unjudged = (
                f"no policy gives an answer, and {measures} are null on all examples; log what they count as right"
            )
        lacking = unjudged if metric == ACCURACY else f"no policy has a value of `{metric}`"
        raise UnknownError(f"{address}: {lacking}{others}")
    wanted = None if cost is None else cost_named(cost, columns, known.to_list().__contains__)
    if wanted is not None and wanted.metric not in known:
        there = [column for column in columns if column.metric in known]
        cure = lacking if lacking and wanted.name == PRICE else suggest("", cost_names_for_users(there))
        raise UnknownError(f"{address}: no policy has a value of `{cost}`; {cure}")


def _replay_and_check(plan: ReplayPlan, policies: tuple[Policy, ...], strict: bool, baseline: str | None) -> CoveredRun:
    names = [policy.name for policy in policies]
    if baseline is not None and not any(baseline.startswith(f"{name}[") for name in names):
        require_known(baseline, names, f"no policy is named `{baseline}`")
    replay = replay_covered(plan, policies, strict, baseline)
    if baseline is None:
        return replay
    if baseline in replay.coverage.dropped:
        raise UnsuitableError(f"the baseline `{baseline}` is dropped: {replay.coverage.dropped[baseline]}")
    require_known(baseline, [policy.name for policy in replay.policies], f"no policy is named `{baseline}`")
    return replay


def _check_groups(frame: pl.DataFrame, by: Sequence[str]) -> None:
    """Raise where the columns of `by` would make too many groups."""
    count = frame.select(by).n_unique() if by else 0
    if count > MOST_GROUPS:
        raise LimitError(f"{argument('by')} {', '.join(by)} makes {count:,} groups; at most {MOST_GROUPS} are allowed")


def _provenance_record(
    log: Log, coverage: Coverage, policies: Sequence[PolicyRecord], statistics: Summary, settings: Settings,
    request: Mapping[str, Any], notes: tuple[Note, ...],
) -> dict[str, Any]:  # fmt: skip
    return {
        "log": {"address": log.address, "name": log.name, "sha256": log.digest(), "simulated": log.simulated},
        "policies": [policy.settings for policy in policies],
        **request,
        **asdict(settings),
        "leader": statistics.leader,
        "examples": {"compared": statistics.n, "judged": statistics.judged, "excluded": dict(coverage.excluded)},
        "policies_dropped": dict(coverage.dropped),
        "verifications_free": {name: sorted(lacking) for name, lacking in sorted(coverage.free.items()) if lacking},
        "surrogate_s_per_example": coverage.order_s_per_example,
        "notes": [note.record() for note in notes],
        "versions": software_versions(),
    }


@dataclass(frozen=True)
class _CheckedPolicies:
    """A policy file that passed its check. `policies`: one for each value of a sweep; with a log, with the log's names.

    `examples`: how many the log has that would be reported, and `notes` its warnings; None and none without a log.
    """

    policies: tuple[Policy, ...]
    examples: int | None = None
    notes: tuple[Note, ...] = ()


@checks_arguments()
def check_policies(
    policies: GivenPolicies, log: AnyLog | None = None, *, rules: GivenRules = None, where: str | None = None
) -> _CheckedPolicies:
    """Check a policy file, and with a log its pools, verifiers, signals, actions and columns.

    Whether pools have enough traces on enough examples, a replay tells. Raises ThinkbackError for what is wrong.
    """
    file = load_policies(policies, rules)
    if file.cost is not None:
        cost_named(file.cost, with_columns(further_outcome_columns(file.policies), priced_columns(file.prices)))
    if log is None:
        return _CheckedPolicies(file.policies)
    opened_log, contents = open_with_contents(log)
    chosen, examples, notes = resolve_policies(opened_log, contents, file, file.measure, where)
    return _CheckedPolicies(chosen, len(examples.frame), notes)
