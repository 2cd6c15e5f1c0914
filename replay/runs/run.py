"""A run: log x policies -> outcomes, summary and comparisons, with what was left out and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from replay.data.conditions import matching
from replay.data.contents import Contents, opened
from replay.policies.base import Policy, columns_of, needs_of, nested
from replay.policies.toml import PolicyFile, load_policies
from replay.runs.coverage import Coverage
from replay.runs.coverage_notes import calls_failed
from replay.runs.gate_sweep import expand_all
from replay.runs.learning import fit_policies
from replay.runs.passes import ReplayPlan, replay_all
from replay.runs.provenance import describe_policy, versions
from replay.runs.result import Result, Scratch
from replay.runs.reuse import check_reuse
from replay.runs.store import ExampleSet
from toolkit.columns import cost_named, costs_called, metric_column, with_columns
from toolkit.errors import ThinkbackError, argument, listed, require_known, suggest
from toolkit.log import Log, calls_left_out, collect
from toolkit.notes import Note, note
from toolkit.stats import Settings, Summary, draws, summarise
from toolkit.stats.compare import ACCURACY

MOST_GROUPS = 500


def run(
    log: Log | str | Path,
    policies: str | Path | PolicyFile | Policy | Iterable[Policy],
    *,
    baseline: str | None = None,
    where: str | None = None,
    by: str | Sequence[str] = (),
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    method: str = "percentile",
    strict: bool = False,
    metric: str = ACCURACY,
    cost: str | None = None,
    measure: str | None = None,
    rules: str | Path | Iterable[type] | None = None,
    kw: float = 0.25,
    eur_per_kwh: float = 0.25,
    block_examples: int | None = None,
) -> Result:
    """Replay policies on a log and compare them on the examples that all of them can serve.

    `log` is a log or its address; `policies` a TOML file, a TOML text or policies built in Python. `baseline`
    names the policy of the paired differences; `where` is an SQL condition on the columns of `examples`; `by`
    names columns of `examples` whose groups are summarised too; `metric` is what ranks, and among equals the `cost`, by
    default tokens where they are logged; `measure` another column of
    traces (0 to 1) in place of `correct`; `rules` a file or classes with stopping rules of one's own. `block_examples`
    is how many examples are read at once; no result depends on it.

    Raises ThinkbackError for anything wrong with the log, the policies or the settings.
    """
    settings = Settings(resamples=resamples, level=level, method=method, seed=seed, kw=kw, eur_per_kwh=eur_per_kwh)
    file = load_policies(policies, rules)
    log, contents = opened(log)
    by, measure, scratch = tuple(dict.fromkeys([by] if isinstance(by, str) else by)), measure or file.measure, Scratch()
    chosen, examples, reused = _prepared(log, contents, file, measure, where, by)
    if cost is not None:
        cost = cost_named(cost, with_columns(columns_of(chosen))).called
    plan = ReplayPlan(log, contents, examples, measure, file.prices, block_examples)
    sweeps = expand_all(plan, chosen)
    served = _served(plan, sweeps.policies, scratch, strict, baseline)
    columns = with_columns(columns_of(served.policies))
    names, series = [p.name for p in served.policies], partial(served.store.blocks, examples)
    judge = partial(
        summarise,
        policies=names,
        labels=examples.labels,
        baseline=baseline,
        metric=metric,
        cost=cost,
        columns=columns,
        settings=settings,
        leaders=[p.name for p in served.policies if not p.diagnostic],
    )
    statistics = judge(series)
    known = statistics.summary.drop_nulls("estimate")["metric"].unique(maintain_order=True)
    if metric not in known:
        qualities = [name for name in known if metric_column(name, columns).quality]
        others = f"; the run can be ranked by {listed(qualities)}" if qualities else ""
        unjudged = (
            f"no example is judged (`{measure or 'correct'}` of traces is null on all that are compared), so nothing "
            "can be ranked by accuracy; import the log with gold answers, or set `measure` (of `replay` or of the "
            "policy file) to another column"
        )
        lacking = unjudged if metric == ACCURACY else f"no policy has a value of `{metric}`"
        raise ThinkbackError(f"{log.address}: {lacking}{others}")
    if cost is not None and cost_named(cost, columns).metric not in known:
        there = [column for column in columns if column.metric in known]
        raise ThinkbackError(f"{log.address}: no policy has a value of `{cost}`; {suggest('', costs_called(there))}")
    members = list(_groups(examples, served, by))
    groups = {group: judge(partial(series, ids)) for group, ids in members}
    thresholds, bands = sweeps.tables(served.excluded, settings)
    warned = tuple(note("log", text) for text in log.warnings)
    failed = calls_failed(calls_left_out(log.manifest.source if log.manifest is not None else None))
    notes = (*warned, *failed, *reused, *served.notes(len(examples.frame)), *statistics.notes)
    ranked = {"metric": metric, "cost": cost, "measure": plan.measure or "correct"}
    asked = {"baseline": baseline, "where": where, "by": list(by), **ranked}
    return Result(
        policies=served.policies,
        statistics=statistics,
        groups=groups,
        by=by,
        baseline=baseline,
        dropped=served.dropped,
        excluded=served.excluded,
        notes=notes,
        simulated=log.simulated,
        provenance=_provenance(log, served, statistics, settings, asked, notes),
        thresholds=thresholds,
        bands=bands,
        within=lambda ids: judge(partial(series, ids)),
        draw=lambda name: draws(series, names, name, labels=examples.labels, columns=columns, settings=settings),
        _scratch=scratch,
    )


def _prepared(
    log: Log, contents: Contents, file: PolicyFile, measure: str | None, where: str | None, by: Sequence[str]
) -> tuple[tuple[Policy, ...], ExampleSet, tuple[Note, ...]]:
    """The policies, resolved and with what they learn fitted; the examples; warnings about gates seen in fitting."""
    chosen = tuple(policy.resolve(contents) for policy in file.policies)
    for policy in (part for whole in chosen for part in nested(whole)):
        policy.check_log(log, contents)
    if measure is not None:
        contents.require_measure(measure)
    needs = needs_of(chosen, contents)
    examples = select_examples(log, contents, needs.pools, where, (*by, *sorted(needs.example_columns)))
    reused = check_reuse(chosen, examples.frame, log.digest())
    fitted = fit_policies(log, contents, chosen, examples.frame["example_id"], measure)
    return fitted, examples, reused


def _served(
    plan: ReplayPlan, policies: tuple[Policy, ...], scratch: Scratch, strict: bool, baseline: str | None
) -> Coverage:
    if baseline is not None:
        require_known(baseline, [p.name for p in policies], f"no policy is named `{baseline}`")
    served = replay_all(plan, policies, scratch.path, strict)
    if baseline is not None and baseline in served.dropped:
        raise ThinkbackError(f"the baseline `{baseline}` is dropped: {served.dropped[baseline]}")
    return served


def select_examples(
    log: Log, contents: Contents, read: frozenset[str], where: str | None, by: Sequence[str]
) -> ExampleSet:
    """The examples of a run, and the labels that are gold of any, which F1 is about.

    There are none where a pool that is read has verdicts without answers.
    """
    for column in by:
        contents.require_groups(column)
    columns = list(dict.fromkeys(["example_id", "labels", "gold", "cluster", *by]))
    examples = collect(log.scan("examples", columns), log).sort("example_id")
    if where is not None:
        examples = examples.filter(pl.col("example_id").is_in(matching(log, where, "where").implode()))
    if examples.is_empty():
        raise ThinkbackError(f"{log.address} has no examples")
    spaces = examples["labels"].unique().to_list()
    shared = spaces[0] if len(spaces) == 1 and spaces[0] and not contents.opaque & read else ()
    gold = set(examples["gold"].unique())
    return ExampleSet(examples, tuple(label for label in shared if label in gold) or None)


def _groups(
    examples: ExampleSet, served: Coverage, by: Sequence[str]
) -> Iterator[tuple[tuple[object, ...], pl.Series]]:
    """Each group of `by` with the ids of its examples."""
    if not by:
        return
    kept = examples.frame.filter(~pl.col("example_id").is_in(list(served.excluded)))
    count = kept.select(by).n_unique()
    if count > MOST_GROUPS:
        raise ThinkbackError(
            f"{argument('by')} {', '.join(by)} makes {count:,} groups; at most {MOST_GROUPS} are allowed"
        )
    for group, frame in sorted(kept.group_by(*by), key=lambda g: tuple(str(v) for v in g[0])):
        yield group, frame["example_id"].sort()


def _provenance(
    log: Log,
    served: Coverage,
    statistics: Summary,
    settings: Settings,
    asked: Mapping[str, Any],
    notes: tuple[Note, ...],
) -> dict[str, Any]:
    return {
        "log": {"address": log.address, "name": log.name, "sha256": log.digest(), "simulated": log.simulated},
        "policies": [describe_policy(p) for p in served.policies],
        **asked,
        **asdict(settings),
        "leader": statistics.leader,
        "examples": {"compared": statistics.n, "judged": statistics.judged, "excluded": dict(served.excluded)},
        "policies_dropped": dict(served.dropped),
        "verifications_free": {name: sorted(lacking) for name, lacking in sorted(served.free.items()) if lacking},
        "surrogate_s_per_example": served.order_s_per_example,
        "notes": [note.record() for note in notes],
        "versions": versions(),
    }
