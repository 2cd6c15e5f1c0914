"""One pass over a log, and which examples each policy covers in it: everything that a result is read from."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.positions import threshold_curve
from replay.policies.base import Evaluator, Policy, needs_of_policies, policy_and_parts
from replay.runs.passes.coverage import Coverage, coverage_of_pass, undercovered_reasons
from replay.runs.passes.gate_sweep import ThresholdSweep, join_branches
from replay.runs.passes.pass_result import PassBlock, PassResult
from replay.runs.passes.passes import ReplayPlan, number_columns
from replay.runs.passes.ranges import over_blocks, over_ranges
from replay.runs.passes.store import CoveredOutcomes
from replay.runs.passes.versions import ActingExamples, PolicyVersions, ReportedPolicies
from toolkit.errors import EmptyError, LeakageError, UnsuitableError
from toolkit.stopping.declared import Rule, equality_key
from toolkit.stopping.prefix import Prefix


@dataclass(frozen=True, eq=False)
class CoveredRun:
    """The policies that stay in a run, with the examples and outcomes; `sweeps`: those with every threshold."""

    coverage: Coverage
    outcomes: CoveredOutcomes
    sweeps: tuple[ThresholdSweep, ...]

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies, each with one threshold."""
        return self.outcomes.reported.policies

    @property
    def masks_of_acting(self) -> dict[str, np.ndarray]:
        """Masks (N,) of the compared examples on which ranking policies act, by policy."""
        reported, keep = self.outcomes.reported, self.coverage.keep
        return {
            policy.name: acts.acting_mask(0, len(keep))[keep]
            for number, policy in enumerate(reported.policies)
            if policy.example_ranking is not None and (acts := reported.acting[number][0]) is not None
        }


def replay_covered(
    plan: ReplayPlan, policies: Sequence[Policy], strict: bool, baseline: str | None = None
) -> CoveredRun:
    """Replay policies (resolved), drop those that cover too few examples, and decide where ranking policies act.

    `baseline`: a policy of which it is told what the examples left out do to its number.
    """
    pass_result = _pass_over_log(plan, policies)
    reported, sweeps = _with_single_thresholds(pass_result, plan)
    coverage = coverage_of_pass(pass_result, reported, needs_of_policies(reported.policies, plan.contents), baseline)
    dropped = undercovered_reasons(coverage)
    if dropped:
        remaining = _remove_dropped_policies(reported, dropped, plan, strict)
        remaining_coverage = coverage_of_pass(
            pass_result, remaining, needs_of_policies(remaining.policies, plan.contents), baseline
        )
        coverage = replace(remaining_coverage, dropped=dropped)
        reported = remaining
    coverage.require_examples(plan.log.address)
    decided = _with_examples_acted_on(pass_result, reported, coverage.keep)
    return CoveredRun(coverage, CoveredOutcomes(pass_result, decided, plan.examples, coverage.keep), sweeps)


@dataclass(frozen=True)
class _RangeReplay:
    """The work of a pass on a range of examples."""

    versions: PolicyVersions
    numbers: tuple[str, ...]

    def __call__(self, blocks: Iterator[LogBlock], first: bool) -> list[PassBlock]:
        """The results on some blocks; `first`: they are the first of a run, on which rules are checked."""
        every = self.versions.evaluated_policies
        pass_result = PassResult(self.versions, self.numbers)
        for block in blocks:
            if first and not pass_result.blocks:
                check_rules(block, every)
            pass_result.add_block(block)
            del block  # before the next one is read
        return pass_result.blocks


def _pass_over_log(plan: ReplayPlan, policies: Sequence[Policy]) -> PassResult:
    versions = PolicyVersions.versions_of_policies(policies)
    every = versions.evaluated_policies
    pass_result = PassResult(versions, number_columns(every, plan.prices is not None))
    for blocks in over_ranges(plan, every, _RangeReplay(versions, pass_result.numbers)):
        pass_result.append_blocks(blocks)
    return pass_result


def threshold_curves(plan: ReplayPlan, policies: Sequence[Policy]) -> pl.DataFrame | None:
    """The mean at every threshold of policies (resolved) that answer while a text unfolds: policy, then the columns of
    `threshold_curve`; None without such a policy. Policies that differ in the threshold alone are one.
    """
    first: dict[Hashable, Policy] = {}
    for policy in policies:
        if policy.unfolding_key is not None:
            first.setdefault(policy.unfolding_key, policy)
    frames = []
    for policy in first.values():
        others = ", ".join(f"{key}={value}" for key, value in policy.swept if key != "stop.score")
        name = policy.name if not policy.swept else f"{policy.sweep}[{others}]" if others else policy.sweep
        curve = threshold_curve(list(over_blocks(plan, [policy], policy.at_each_threshold)))
        frames.append(curve.rename({"correct": "accuracy"}).select(pl.lit(name).alias("policy"), pl.all()))
    return pl.concat(frames) if frames else None


def _with_single_thresholds(
    pass_result: PassResult, plan: ReplayPlan
) -> tuple[ReportedPolicies, tuple[ThresholdSweep, ...]]:
    """The policies, each with every threshold replaced by up to 200 with one, and the sweeps of these."""
    versions, policies, places = pass_result.versions, list[Policy](), list[np.ndarray]()
    acting: dict[int, tuple[ActingExamples | None, ActingExamples | None]] = {}
    sweeps = []
    for policy, place in zip(versions.policies, versions.places, strict=True):
        gate = versions.gates.get(policy.name)
        if gate is None:
            policies.append(policy)
            places.append(place)
            continue
        parts = [block.branches[policy.name] for block in pass_result.blocks]
        sweep = ThresholdSweep.sweep_of_gate(gate, join_branches(parts, gate, plan.examples))
        signal = np.concatenate([part.every_signal for part in parts])
        always = np.where(np.isnan(signal), -np.inf if gate.falling else np.inf, signal)
        for threshold, one in zip(sweep.thresholds, sweep.policies(), strict=True):
            acting[len(policies)] = ActingExamples(always, gate.falling, float(threshold)), None
            policies.append(one)
            places.append(place)
        sweeps.append(sweep)
    return ReportedPolicies(tuple(policies), np.stack(places), acting), tuple(sweeps)


def _remove_dropped_policies(
    reported: ReportedPolicies, dropped: Mapping[str, str], plan: ReplayPlan, strict: bool
) -> ReportedPolicies:
    """The policies that are not dropped. Raises where none may be dropped, or one is compared with a dropped one."""
    if strict:
        name, why = next(iter(dropped.items()))
        more = f" (and {len(dropped) - 1} more policies)" if len(dropped) > 1 else ""
        raise UnsuitableError(f"policy `{name}` cannot be replayed{more}: {why}")
    numbers = [number for number, policy in enumerate(reported.policies) if policy.name not in dropped]
    orphan = next((policy for n in numbers if (policy := reported.policies[n]).against in dropped), None)
    if orphan is not None:
        raise UnsuitableError(
            f"policy `{orphan.name}` is compared with `{orphan.against}`, which cannot be replayed "
            f"({dropped[str(orphan.against)]}); leave out one of them, or `against`"
        )
    if not numbers:
        name, why = next(iter(dropped.items()))
        raise EmptyError(f"no policy can be replayed on {plan.log.address}; `{name}`: {why}")
    return reported.with_numbers(numbers)


def _with_examples_acted_on(pass_result: PassResult, reported: ReportedPolicies, keep: np.ndarray) -> ReportedPolicies:
    rankings = pass_result.versions.rankings
    if not rankings:
        return reported
    acts = {name: _examples_acted_on(pass_result, name, ranking.share, keep) for name, ranking in rankings.items()}
    acting = dict(reported.acting)
    for number, policy in enumerate(reported.policies):
        itself, other = acting.get(number, (None, None))
        pair = acts.get(policy.name, itself), acts.get(policy.against or "", other)
        if pair != (None, None):
            acting[number] = pair
    return replace(reported, acting=acting)


def _examples_acted_on(record: PassResult, name: str, share: float, compared_mask: np.ndarray) -> ActingExamples:
    """Examples on which a ranking policy acts: floor(r n + 0.5) of n by gain; ties: fewer tokens, then example_id."""
    gained, tokens = (np.concatenate([block.gains[name][i] for block in record.blocks])[compared_mask] for i in (0, 1))
    ids = np.array([str(one).encode() for one in record.example_ids.filter(compared_mask)], dtype=object)
    place = np.argsort(np.argsort(ids))
    order = np.lexsort((place, np.nan_to_num(tokens, nan=np.inf), np.nan_to_num(-gained, nan=np.inf)))
    rank = np.full(len(compared_mask), np.inf)
    rank[np.flatnonzero(compared_mask)[order]] = np.arange(len(order))
    return ActingExamples(rank, True, floor(share * len(order) + 0.5))


CHECKED_EXAMPLES = 256


def check_rules(block: LogBlock, policies: Sequence[Policy]) -> None:
    """Check on the first examples of a run that no user's stopping rule or select looks ahead.

    Raises ThinkbackError when one decides differently once later steps, or other examples, are cut off.
    """
    on = Evaluator(block.slice_examples(0, min(CHECKED_EXAMPLES, len(block.examples))), [])
    checked: set[Hashable] = set()
    for policy in (part for whole in policies for part in policy_and_parts(whole)):
        for rule, seen in policy.untrusted_rules(on):
            key = equality_key(rule), id(seen)  # policies of one walk are shown the very same
            if key in checked:
                continue
            checked.add(key)
            name = f"{rule.label} of policy `{policy.name}`"
            step = _first_step_that_looks_ahead(rule, seen)
            if step is not None:
                raise LeakageError(
                    f"{name} looks ahead: its {rule.says} after step {step} changes when later traces are removed"
                )
            if _depends_on_other_examples(rule, seen):
                raise LeakageError(
                    f"{name} looks at other examples: its {rule.says}s change when some of them are left out"
                )


def _first_step_that_looks_ahead(rule: Rule, seen: Prefix) -> int | None:
    """The first step at which a rule's value depends on later steps; None: at none.

    Cutting off catches a rule that waits for the best score, and one that knows how many traces are stored.
    """
    whole = rule.decide_checked(seen)
    for steps in range(1, whole.shape[1]):
        cut = rule.decide_checked(seen.first(steps))
        if (cut != whole[:, :steps]).any():
            return int(np.flatnonzero((cut != whole[:, :steps]).any(axis=0))[0]) + 1
    return None


def _depends_on_other_examples(rule: Rule, seen: Prefix) -> bool:
    whole = rule.decide_checked(seen)
    examples = len(whole)
    parts = [slice(0, None, 2), slice(1, None, 2), *(slice(e, e + 1) for e in range(min(examples, 8)))]
    return any((rule.decide_checked(seen.rows(part)) != whole[part]).any() for part in parts if whole[part].size)
