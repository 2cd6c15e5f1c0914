"""The data that a gate is fitted and judged on: inputs of base attempts, and whether the action repairs them.

Examples that overlap, and gates that do not fit a log, are refused before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.choice import Choice, UsedRows
from replay.data.conditions import ids_where, ids_where_or_none, read_examples
from replay.data.contents import Contents, open_with_contents, read_contents
from replay.data.prices import Prices
from replay.engine.signals import SERVABLE, SIGNALS, GateInput, gate_input
from replay.kinds.act import Act
from replay.kinds.sample import Sample
from replay.kinds.when import When
from replay.policies.base import Evaluator
from replay.policies.gate_file import GateFile
from replay.policies.gates import Threshold
from replay.runs.passes.example_set import select_examples
from replay.runs.passes.passes import ReplayPlan
from replay.runs.passes.ranges import over_blocks
from replay.runs.passes.reuse import first_ids_text, gates_fitted_on, question_hashes
from toolkit.errors import (
    AmbiguousError,
    ConflictError,
    EmptyError,
    LeakageError,
    MismatchError,
    argument,
    listed,
    require_known,
    suggest,
)
from toolkit.log import AnyLog, Log, open_log

GateInputs = tuple[GateInput, ...]


@dataclass(frozen=True)
class GateSetting:
    """What a gate decides between: base attempts of a log, and their revisions by an action."""

    log: Log
    contents: Contents
    base: Sample
    act: Act

    @property
    def pool(self) -> str:
        return self.act.pool or self.contents.revision_pools(self.act.action, self.act.base)[0]

    def gated_policy(self, gate: GateFile, below: bool = False) -> When:
        """The policy of kind `when` that revises where a gate fires."""
        threshold = Threshold(file=gate, below=0.0) if below else Threshold(file=gate, at_least=0.0)
        return When(name=f"{self.act.action} when the gate fires", base=self.base, gate=threshold, then=self.act)


@dataclass(frozen=True, eq=False)
class GateData:
    """Base attempts: inputs `values` (N, F), `repair` (N,) their mean labels over rollouts, questions' hashes."""

    plan: ReplayPlan
    features: GateInputs
    ids: pl.Series
    questions: tuple[str, ...]
    values: np.ndarray
    repair: np.ndarray
    without_revision: int
    without_input: int
    lacking: Mapping[str, int]  # input -> examples that lack it, of those with a revision


def gate_setting(log: AnyLog, action: str, base: str | None, pool: str | None) -> GateSetting:
    """What to fit a gate between in a log. Raises ThinkbackError where the action revises no base, or several."""
    log, contents = open_with_contents(log)
    contents.require_action(action)
    bases = contents.base_pools(action)
    if base is None and len(bases) != 1:
        revised = listed(bases) or "no pool's first trace"
        raise AmbiguousError(
            f"action `{action}` revises {revised}: name the pool of the base attempts with {argument('base')}"
        )
    name = base or bases[0]
    contents.revision_pool(action, name, pool)
    first = Sample(name="base", pool=name, max_traces=1, select="first")
    act = Act(name=action, action=action, base=name, pool=pool)
    return GateSetting(log, contents, first.resolve(contents), act.resolve(contents))


def setting_of_gate(log: AnyLog, gate: GateFile, base: str | None = None, pool: str | None = None) -> GateSetting:
    """What a fitted gate decides between in a log; of several pools of revisions, that which it was fitted on.

    `base` and `pool` are the names that the gate's pools have in this log, where they are others. Raises
    ThinkbackError, which names the gate, where the log has no such pools or lacks what the gate reads.
    """
    log = open_log(log)
    contents = read_contents(log)
    lacking = f"gate file `{gate.path}` predicts repairs by action `{gate.action}`, which is not in the log"
    require_known(gate.action, contents.actions, lacking)
    bases = contents.base_pools(gate.action)
    base_pool = base or gate.base
    if base is None and base_pool not in bases:
        raise MismatchError(
            f"gate file `{gate.path}` was fitted on base attempts of pool `{base_pool}`; here `{gate.action}` revises "
            f"{listed(bases) or 'no first attempt'}: if one of these is the same pool, name it with {argument('base')}"
        )
    gate.require_inputs(contents, base_pool)
    several = len(contents.revision_pools(gate.action, base_pool)) > 1
    return gate_setting(log, gate.action, base_pool, pool or (gate.pool if several else None))


def _available_inputs(at: GateSetting) -> GateInputs:
    """The inputs that a gate may have: every signal that a server sees, and every column of `features`."""
    signals = [gate_input("signal", name) for name in SERVABLE if _is_logged(name, at)]
    return (*signals, *(gate_input("feature", name) for name in sorted(at.contents.features)))


def _is_logged(name: str, at: GateSetting) -> bool:
    signal = SIGNALS[name]
    if signal.of_answers and at.base.pool in at.contents.opaque | at.contents.partly_opaque:
        return False  # where some traces lack it, it is read for those who name it, at the price of these rows
    return signal.logged_as is None or signal.logged_as in at.contents.trace_columns


def parse_features(names: Sequence[str], at: GateSetting) -> GateInputs:
    """The inputs with some names: a signal, `feature:NAME` or `verifier:NAME`; a bare name may be a column of
    `features`.

    Without names, all that are available.
    """
    if not names:
        return _available_inputs(at)
    inputs = []
    for name in names:
        source, mark, rest = name.partition(":")
        if mark and source in ("feature", "verifier"):
            known = at.contents.features if source == "feature" else at.contents.verifiers
            require_known(rest, known, f"the log has no {source} `{rest}`")
            inputs.append(gate_input(source, rest))
        elif name in SERVABLE:
            inputs.append(gate_input("signal", name))
            inputs[-1].require_answers(at.contents, [str(at.base.pool)])
        elif name in at.contents.features:
            inputs.append(gate_input("feature", name))
        else:
            every = [*SERVABLE, *at.contents.features, *(f"verifier:{v}" for v in at.contents.verifiers)]
            require_known(name, every, f"no gate input is called `{name}`")
    return tuple(dict.fromkeys(inputs))


def unfitted_gate(features: GateInputs, at: GateSetting) -> GateFile:
    """A gate that reads some inputs and has no model yet."""
    act, base = at.act.action, str(at.base.pool)
    return GateFile("the gate", repr(features), "score", features, 0.0, {}, {}, Choice(UsedRows()), act, base)


def replay_plan_of_condition(at: GateSetting, where: str | None, prices: Prices | None = None) -> ReplayPlan:
    """A plan over the examples of a condition, with their questions."""
    examples = select_examples(at.log, at.contents, frozenset([str(at.base.pool)]), where, ["question"])
    return ReplayPlan(at.log, at.contents, examples, None, prices, None)


def read_data(
    at: GateSetting, where: str | None, features: GateInputs, ids: pl.Series | None = None, whole: bool = True
) -> GateData:
    """Inputs and labels of the base attempts of the examples in `where`, and in `ids`, that have a judged revision.

    Examples that lack an input are left out; with `whole` false they stay, with NaN.
    """
    plan = replay_plan_of_condition(at, where) if ids is None else replay_plan_of_condition(at, where).with_ids(ids)
    policy = at.gated_policy(unfitted_gate(features, at))
    values, repair, names, lost, unread = [], [], [], 0, 0
    empty = np.zeros(len(features), np.int64)
    for block_ids, inputs, label, complete in over_blocks(plan, [policy], partial(_inputs_of_block, policy, features)):
        keep = complete & ~np.isnan(inputs).any(axis=1) if whole else complete
        empty += np.isnan(inputs[complete]).sum(axis=0)
        lost, unread = lost + int((~complete).sum()), unread + int((complete & ~keep).sum())
        values.append(inputs[keep])
        repair.append(label[keep])
        names.append(block_ids.filter(pl.Series(keep)))
    examples = pl.concat(names)
    lacking = {str(f): int(count) for f, count in zip(features, empty, strict=True) if count}
    if examples.is_empty():
        which = f"where {where}" if where else "of the log"
        raise EmptyError(
            f"no example {which} has a base attempt in `{at.base.pool}`, a judged `{at.act.action}` and all inputs of "
            f"the gate{missing_inputs_text(lacking)}"
        )
    only = plan.with_ids(examples)
    hashes = tuple(question_hashes(only.examples.frame, at.log.digest()))
    return GateData(
        only, features, examples, hashes, np.concatenate(values), np.concatenate(repair), lost, unread, lacking
    )


def _inputs_of_block(
    policy: When, features: GateInputs, block: LogBlock
) -> tuple[pl.Series, np.ndarray, np.ndarray, np.ndarray]:
    """The ids of a block's examples (E,), their inputs (E, F) and labels (E,), and whether both attempts are judged."""
    evaluator = Evaluator(block, [policy])
    act, base = evaluator.path(policy.then).outcome, evaluator.path(policy.base)
    label = act.against.fix if act.against is not None else np.zeros(len(act.correct))
    inputs = np.stack([feature.read(block, base).value for feature in features], axis=1)
    return (
        block.examples["example_id"],
        inputs,
        label,
        (act.reason == 0) & (base.outcome.reason == 0) & ~np.isnan(label),
    )


def missing_inputs_text(lacking: Mapping[str, int]) -> str:
    """A list, for messages, of inputs with how many examples lack each."""
    return f" ({', '.join(f'`{name}`: {count:,}' for name, count in lacking.items())})" if lacking else ""


def inputs_on_conditions(at: GateSetting, conditions: Sequence[str | None]) -> tuple[GateInputs, tuple[str, ...]]:
    """The inputs that no example of some conditions lacks, and notes on the inputs left out."""
    inputs = _available_inputs(at)
    lacking: dict[str, int] = {}
    for where in dict.fromkeys(conditions):
        for name, count in read_data(at, where, inputs, whole=False).lacking.items():
            lacking[name] = lacking.get(name, 0) + count
    features = tuple(feature for feature in inputs if str(feature) not in lacking)
    if not features:
        raise EmptyError(
            f"every input is null for some example{missing_inputs_text(lacking)}: name some with {argument('features')}"
        )
    note = f"inputs left out, because they are missing for some examples{missing_inputs_text(lacking)}"
    return features, (note,) if lacking else ()


ON, TUNE = "split = 'train'", "split = 'dev'"
"""The default conditions of the examples that gates are fitted on, and tuned on."""


def check_example_conditions(log: Log, on: str | None, tune: str | None, where: str) -> None:
    """Raise where a given condition holds on no example, or where the sets of examples overlap.

    `on` and `tune` are None where their defaults stand: a log without such splits is one without fitted gates, but
    where it has them they overlap as any other condition does.
    """
    conditions = {"on": on or f"{ON}, the default", "tune": tune or f"{TUNE}, the default", "where": where}
    ids = {
        "on": set(ids_where(log, on, "on") if on else ids_where_or_none(log, ON)),
        "tune": set(ids_where(log, tune, "tune") if tune else ids_where_or_none(log, TUNE)),
        "where": set(ids_where(log, where, "where")),
    }
    for first, second in (("on", "tune"), ("on", "where"), ("tune", "where")):
        both = sorted(ids[first] & ids[second])
        if both:
            raise LeakageError(
                f"{argument(first)} ({conditions[first]}) and {argument(second)} ({conditions[second]}) share "
                f"{len(both):,} examples ({first_ids_text(both)}): fit, tune and report on disjoint ones"
            )


def check_gates(gates: Sequence[GateFile], contents: Contents, base: str | None, action: str | None) -> None:
    """Raise where a gate from a file is for another base or action than the one asked for."""
    bases = sorted({one for _, one, _ in contents.revisions})
    known = {gate.action for gate in gates}
    for gate in gates if bases else ():
        _check_gate(gate, base, None if action in known else action, bases, contents)
        if gate.base != gates[0].base:
            raise ConflictError(
                f"gate files `{gates[0].path}` and `{gate.path}` act on base attempts of two pools, "
                f"`{gates[0].base}` and `{gate.base}`: study them one at a time"
            )


def _check_gate(gate: GateFile, base: str | None, action: str | None, bases: Sequence[str], contents: Contents) -> None:
    if gate.base not in bases:
        raise MismatchError(
            f"gate file `{gate.path}` was fitted on base attempts of pool `{gate.base}`, of which this log has no "
            f"revision ({suggest(gate.base, bases)}); fit one on this log, or import its rows with "
            f"{argument('base')} as `{gate.base}`"
        )
    for option, value, gate_value in (("base", base, gate.base), ("action", action, gate.action)):
        if value is not None and value != gate_value:
            raise MismatchError(
                f"gate file `{gate.path}` is for {option} `{gate_value}`, not for `{value}`: fit another one, or leave "
                f"out {argument(option)}"
            )
    actions = {revised for revised, base_pool, _ in contents.revisions if base_pool == gate.base}
    if gate.action not in actions:
        raise MismatchError(
            f"gate file `{gate.path}` predicts repairs by action `{gate.action}`, which pool `{gate.base}` has no "
            f"revisions by; {suggest(gate.action, actions)}"
        )


def refuse_seen_questions(log: Log, gates: Iterable[GateFile], where: str, *, frozen: bool = False) -> None:
    """Raise where gates, of `frozen` files or fitted here, were fitted or tuned on questions to report."""
    gates = tuple(gates)
    if not gates:
        return
    examples = read_examples(log, ids_where(log, where, "where"), ["question"])
    for gate, seen in gates_fitted_on(gates, examples, log.digest()):
        overlap = f"{len(seen):,} of the {len(examples):,} examples of {argument('where')} ({where})"
        if frozen:
            raise LeakageError(
                f"gate file `{gate.path}` was fitted or tuned on {overlap}, such as {first_ids_text(seen)}: report on "
                f"others with {argument('where')}"
            )
        raise LeakageError(
            f"{overlap} have questions that gates are fitted or tuned on here ({first_ids_text(seen)}): report "
            f"on others with {argument('where')}, or fit and tune on others "
            f"with {argument('on')} and {argument('tune')}"
        )
