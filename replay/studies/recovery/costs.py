"""The study's tables of rules and costs: headroom, initial budgets, prices, requests, seconds, the joint frontier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from replay.studies.recovery import published, tables
from replay.studies.recovery.gates import HEURISTICS
from replay.studies.recovery.policies import COMPLETED, EXPECTED_ACTION, NEAR, NEAR_LIMIT, TRUNCATION
from replay.studies.recovery.study import DatasetStudy
from replay.studies.recovery.tables import headline, layout, limit, means, number, paired_cell, picked
from toolkit.show import Number, NumberWithInterval, ShownInterval, Table, TableColumn
from toolkit.stats.summary_notes import BATCHED_SECONDS

RULES = {
    TRUNCATION: "where the base attempt was cut off",
    NEAR_LIMIT: f"where it used {100 * NEAR:g} % of its tokens, or a finalizer",
    COMPLETED: "where the fitted gate fires and the base attempt was not cut off",
}
"""Routing rules without a model, and the gate among completed attempts alone."""


def rules_and_headroom(studies: tables.Studies) -> Table:
    """Routing rules against the fitted gate, and how far oracles are ahead (the paper's table 12)."""
    rows = []
    for study in studies:
        named = study.named
        always = named.always.get(study.roles.action, "")
        shown = [always, named.primary, named.trees, *named.rules, *named.matched, *named.oracles]
        diagnostic = {policy.name: policy.diagnostic for policy in study.result.policies}
        for policy in (name for name in shown if name in study.policies):
            cells = means(study, policy)
            compared = named.primary in study.policies and policy != named.primary
            ahead = paired_cell(study, policy, named.primary)[0] if compared else None
            measured = picked(cells, "accuracy", "intervention_rate", "action_tokens", "fix_rate", "flip_rate")
            other = published.published_rule(study.dataset, _paper_rule(study, policy))
            theirs = picked(other, "accuracy_pct", "verify_pct", "flips_pct")
            remark = "diagnostic" if diagnostic[policy] else ""
            rows.append((study.dataset, policy, *measured, ahead, remark, *theirs))
    columns = [
        tables.DATASET, TableColumn("rule"), tables.PLAIN_ACCURACY, tables.ACTS_ON, tables.ACTION_TOKENS, tables.FIXES,
        tables.FLIPS, TableColumn("ahead of the gate, points", tables.POINTS, "headroom"), TableColumn("remark"),
        tables.PUBLISHED, TableColumn("published acts on %", Number(1), "published_verify_pct"),
        TableColumn("published flips %", Number(2), "published_flips_pct"),
    ]  # fmt: skip
    there = {rule for study in studies for name, rule in study.named.rules.items() if name in study.policies}
    told = [f"{name}: acts {meaning}" for name, meaning in RULES.items() if name in there]
    return layout(
        "Routing rules and headroom", columns, rows, studies,
        "Diagnostics see gold and could not be run. Ahead of the gate: headroom, paired.",
        *([f"{'; '.join(told)}."] if told else []),
    )  # fmt: skip


def _paper_rule(study: DatasetStudy, policy: str) -> str:
    """What the paper calls a rule; empty where it has no such one."""
    named, action = study.named, study.roles.action
    if published.verb(action) != "verify":
        return ""
    fixed = {named.always.get(action): "always verify", named.primary: "cheap features"}
    if policy in fixed:
        return fixed[policy]
    if (rule := named.rules.get(policy)) in HEURISTICS:
        return str(rule)
    if policy in named.matched[:1]:
        return "oracle at matched rate"
    which, pool = named.oracles.get(policy, ("", ""))
    if which == EXPECTED_ACTION and not pool and study.roles.actions == (action,):
        return "expected-action oracle, verify"
    return f"{which} oracle, self-consistency samples" if pool in study.roles.samples else ""


def screening(studies: tables.Studies) -> Table:
    """All logged actions before any gate (the paper's table 4)."""
    rows: list[tuple[Any, ...]] = []
    screened = {row["dataset"]: study.screening for study in studies for row in study.screening.head(1).to_dicts()}
    for row in (row for frame in screened.values() for row in frame.iter_rows(named=True)):
        measured = picked(
            row, "dataset", "action", "examples", "accuracy", "fix_rate", "flip_rate", "finalizer_rate",
            "truncation_rate", "action_tokens",
        )  # fmt: skip
        other = published.published_action(row["dataset"], row["action"])
        rows.append((*measured, *picked(other, "final_accuracy_pct", "fix_pct", "flip_pct", "action_tokens")))
    columns = [
        tables.DATASET, TableColumn("action"), TableColumn("examples", tables.TOKENS),
        TableColumn("accuracy %", Number(2, 100), "accuracy"), tables.FIXES, tables.FLIPS,
        TableColumn("finalizer %", Number(2, 100), "finalizer_rate"),
        TableColumn("truncated %", Number(2, 100), "truncation_rate"), tables.ACTION_TOKENS, tables.PUBLISHED,
        TableColumn("published fixes %", Number(2), "published_fix_pct"),
        TableColumn("published flips %", Number(2), "published_flip_pct"), tables.PUBLISHED_TOKENS,
    ]  # fmt: skip
    return layout(
        "Screening of the actions", columns, rows, studies,
        "On the examples that gates are fitted on; data sets of one row are taken together. Finalizer and truncated: "
        "of the action's own calls. The oracle sees gold: a diagnostic.",
    )  # fmt: skip


def budgets(studies: tables.Studies) -> Table:
    """Longer initial budgets (the paper's table 20)."""
    rows = []
    for study in studies:
        pools = {study.named.base: study.roles.base} | {name: pool for pool, name in study.named.budgets.items()}
        for policy, pool in pools.items():
            if policy in study.policies:
                measured = picked(
                    means(study, policy), "accuracy", "total_tokens", "finalizers", "truncated", "fix_rate", "flip_rate"
                )
                other = published.published_budget(study.dataset, limit(study, pool))
                theirs = picked(other, "accuracy_pct", "total_tokens", "truncation_pct")
                rows.append((study.dataset, policy, *measured, *theirs))
    columns = [
        tables.DATASET, TableColumn("initial budget", key="policy"), tables.ACCURACY, tables.TOTAL,
        TableColumn("finalizer %", tables.PERCENT, "finalizers"),
        TableColumn("truncated %", tables.PERCENT, "truncated"),
        TableColumn("right where the base is wrong %", Number(2, 100), "fix_rate"),
        TableColumn("wrong where it is right %", Number(2, 100), "flip_rate"),
        tables.PUBLISHED, tables.PUBLISHED_TOKENS,
        TableColumn("published truncated %", Number(1), "published_truncation_pct"),
    ]  # fmt: skip
    return layout("Initial budgets", columns, rows, studies)


def tokens(studies: tables.Studies) -> Table:
    """Where the realised tokens go: the base attempt, finalizers, the action, everything."""
    rows = []
    for study in studies:
        base = number(means(study, study.named.base), "total_tokens")
        for policy, part, what in headline(study):
            cells = means(study, policy)
            acts = part in ("always", "selective")
            calls = study.finalizers.get(what) if acts else None
            first = study.finalizers.get(study.roles.base) if part in ("base", "always", "selective") else None
            spent = None if first is None else first.mean()
            if acts and first is not None and calls is not None:
                acted = study.values(policy)["intervened"]
                spent = (first + np.where(acted > 0, acted * calls, 0.0)).mean()
            rows.append((
                study.dataset, policy, base if part in ("base", "always", "selective") else None,
                number(cells, "finalizers"), None if spent is None or np.isnan(spent) else float(spent),
                number(cells, "action_tokens") if acts else None, number(cells, "total_tokens"), number(cells, "calls"),
            ))  # fmt: skip
    columns = [
        tables.DATASET, TableColumn("policy"), TableColumn("base tokens", tables.TOKENS, "base_tokens"),
        TableColumn("finalizer calls", Number(2), "finalizers"),
        TableColumn("finalizer tokens", tables.TOKENS, "finalizer_tokens"),
        tables.ACTION_TOKENS, TableColumn("total tokens", tables.TOKENS, "total_tokens"),
        TableColumn("calls", Number(2)),
    ]  # fmt: skip
    return layout(
        "Where the tokens go", columns, rows, studies,
        "Finalizers' tokens are part of the base's and the action's; they are told apart where the log has a column "
        "`finalizer_tokens` of traces.",
    )  # fmt: skip


def prices(studies: tables.Studies) -> Table:
    """What 1,000 requests cost at several prices per million tokens (the paper's table 28)."""
    rows = []
    priced = any((study.result.summary["metric"] == "cost_per_1000").any() for study in studies)
    for study in studies:
        base = number(means(study, study.named.base), "total_tokens")
        for policy, part, what in headline(study):
            cells, other = means(study, policy), published.published_price(study.dataset, part, what)
            tokens = number(cells, "total_tokens")
            costs = [None if tokens is None else tokens * price / 1000 for price in tables.PRICES]
            relative = tokens / base if tokens is not None and base else None
            own = [cells.get("cost_per_1000")] if priced else []
            rows.append((study.dataset, policy, tokens, *costs, relative, *own,
                         other.get("usd_per_1000_requests"), other.get("relative_cost")))  # fmt: skip
    columns = [
        tables.DATASET, tables.POLICY, tables.PLAIN_TOTAL,
        *(TableColumn(f"at {price:g} per million", Number(2), f"per_1000_at_{price:g}") for price in tables.PRICES),
        TableColumn("relative", Number(2)),
        *([TableColumn("at the models' prices", NumberWithInterval(2), "per_1000_priced")] if priced else []),
        TableColumn("published at 0.5", Number(2), "published_per_1000_at_0.5"),
        TableColumn("published relative", Number(2), "published_relative"),
    ]  # fmt: skip
    return layout(
        "Cost of 1,000 requests", columns, rows, studies,
        "Average realised tokens times the price; no provider's quote.",
    )  # fmt: skip


def per_1000(studies: tables.Studies) -> Table:
    """What each comparison means for 1,000 requests (the paper's table 21)."""
    rows: list[tuple[Any, ...]] = []
    for study in studies:
        named = study.named
        pairs = [(named.selective[a], named.always[a]) for a in named.selective]
        pairs += [(budget, named.primary) for budget in named.budgets.values() if named.primary]
        for first, second in pairs:
            if first in study.policies and second in study.policies:
                one, two = study.values(first), study.values(second)
                acted = two["action_tokens"] - one["action_tokens"] if first not in named.budgets.values() else None
                other = published.published_requests(study.dataset, _paper_comparison(study, first, second))
                saved, kind = other.get("tokens_saved"), other.get("tokens_kind")
                rows.append((
                    study.dataset, f"{first} in place of {second}", _times(two["calls"] - one["calls"]),
                    None if acted is None else _times(acted),
                    _times(two["total_tokens"] - one["total_tokens"]),
                    _times(two["flip"] - one["flip"]), _times(one["correct"] - two["correct"]),
                    other.get("verification_calls_avoided"), saved if kind == "action tokens" else None,
                    saved if kind == "total tokens" else None, other.get("flips_avoided"),
                ))  # fmt: skip
    columns = [
        tables.DATASET, TableColumn("comparison"), TableColumn("calls avoided", tables.TOKENS, "calls_avoided"),
        TableColumn("action tokens saved", tables.TOKENS, "action_tokens_saved"),
        TableColumn("total tokens saved", tables.TOKENS, "total_tokens_saved"),
        TableColumn("flips avoided", Number(1), "flips_avoided"),
        TableColumn("more right answers", Number(1, signed=True), "more_right"),
        TableColumn("published calls", tables.TOKENS, "published_calls_avoided"),
        TableColumn("published action tokens", tables.TOKENS, "published_action_tokens_saved"),
        TableColumn("published total tokens", tables.TOKENS, "published_total_tokens_saved"),
        TableColumn("published flips", tables.TOKENS, "published_flips_avoided"),
    ]  # fmt: skip
    return layout("Per 1,000 requests", columns, rows, studies)


def _paper_comparison(study: DatasetStudy, first: str, second: str) -> str:
    """What the paper calls a comparison of its table 21; empty where it has no such one."""
    parts = {policy: (part, what) for policy, part, what in headline(study)}
    (part, what), (other, action) = parts[first], parts[second]
    if part == "selective" and other == "always":
        return f"selective {published.verb(what)} against always {published.verb(action)}"
    return f"base {what} against selective {published.verb(action)}" if part == "budget" else ""


def _times(values: np.ndarray) -> float | None:
    return None if np.isnan(values).any() else 1000 * float(values.mean())


def seconds(studies: tables.Studies) -> Table:
    """Seconds of the whole path: what a user waits."""
    rows = [
        (study.dataset, *picked(row, "policy", "mean", "p50", "p95", "p99"))
        for study in studies
        for row in study.seconds.iter_rows(named=True)
        if row["policy"] in {name for name, _, _ in headline(study)}
    ]
    columns = [
        tables.DATASET, tables.POLICY, *(TableColumn(name, Number(2)) for name in ("mean", "p50", "p95", "p99"))
    ]  # fmt: skip
    return layout(
        "Seconds of the whole path", columns, rows, studies,
        "One call after the other, finalizers included; samples of a vote as many at a time as `width` says. "
        "A mean over rollouts is one request.",
        *(f"{study.dataset}: {one.text}" for study in studies for one in study.notes if one.code == BATCHED_SECONDS),
    )  # fmt: skip


def joint(studies: tables.Studies) -> Table:
    """Initial budget x gate x action, and what each loses to the best that costs no more."""
    rows = []
    for study in studies:
        known = {shown: means(study, policy) for shown, policy in study.named.joint.items() if policy in study.policies}
        points = [(shown, number(cells, "accuracy"), number(cells, "total_tokens")) for shown, cells in known.items()]
        points.sort(key=lambda point: (point[2] is None, point[2] or 0.0, point[0]))
        for policy, accuracy, tokens in points:
            rivals = [p for p in points if tokens is not None and p[2] is not None and p[2] <= tokens]
            best = max(rivals, key=lambda p: p[1] or 0.0, default=None)
            joint = study.named.joint
            regret = None if best is None else paired_cell(study, joint[best[0]], joint[policy])[0]
            on_front = best is not None and best[0] == policy
            better, front = (None, None) if best is None else ("", "●") if on_front else (best[0], "")
            rows.append((study.dataset, policy, accuracy, tokens, regret, better, front))
    columns = [
        tables.DATASET, TableColumn("budget, action, gate", key="policy"), tables.PLAIN_ACCURACY, tables.PLAIN_TOTAL,
        TableColumn("regret, points", NumberWithInterval(2, 100), "regret"),
        TableColumn("best for no more tokens", key="best"), TableColumn("front", key="on_front"),
    ]  # fmt: skip
    return layout(
        "Joint frontier over initial budget, gate and action", columns, rows, studies,
        "Regret: how far the best policy that costs at most as many mean tokens is ahead, paired.",
    )  # fmt: skip


def sweep(studies: tables.Studies) -> Table:
    """The primary gate at every tenth of the rate, with bands for the whole curve."""
    rows: list[tuple[Any, ...]] = []
    for study in studies:
        if study.band is None:
            continue
        wide = {
            (row["threshold"], row["metric"]): ShownInterval.of((row["estimate"], row["band_low"], row["band_high"]))
            for row in study.band.iter_rows(named=True)
        }
        rates = study.band.filter(pl.col("metric") == "intervention_rate").sort("estimate")
        places = np.unique(np.abs(rates["estimate"].to_numpy()[:, None] - np.linspace(0, 1, 11)).argmin(axis=0))
        for place in places:
            threshold, rate = rates["threshold"][int(place)], rates["estimate"][int(place)]
            cells = (wide.get((threshold, name)) for name in ("accuracy", "flip_rate", "flips_among", "total_tokens"))
            # digits that tell a threshold from its neighbours
            told = f"{threshold:.4g}" if np.isfinite(threshold) else "never" if threshold > 0 else "always"
            rows.append((study.dataset, rate, told, *cells))
    columns = [
        tables.DATASET, tables.ACTS_ON, TableColumn("threshold"), tables.ACCURACY,
        TableColumn("flips %", NumberWithInterval(2, 100), "flip_rate"),
        TableColumn("flips among those %", NumberWithInterval(1, 100), "flips_among"), tables.TOTAL,
    ]  # fmt: skip
    return layout(
        "Threshold sweep of the primary gate", columns, rows, studies,
        "In brackets the sup-t band, which holds the whole curve at once. Flips among those: the flip rate over the "
        "examples acted on (the paper's equation 19).",
    )  # fmt: skip


COST_TABLES: dict[str, Callable[[tables.Studies], Table]] = {
    "rules_and_headroom": rules_and_headroom,
    "screening": screening,
    "budgets": budgets,
    "joint_frontier": joint,
    "threshold_sweep": sweep,
    "tokens": tokens,
    "prices": prices,
    "per_1000_requests": per_1000,
    "seconds": seconds,
}
