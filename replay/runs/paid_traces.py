"""The part of a saved result by trace: what some policy paid, in which orders, and where each policy stopped.

Orders are stored once, however many policies walk them; a policy holds how far it went. A mean over several orders has
no order of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.calls import GENERATION, CallSegment, Cutting, PolicyPath, Realization
from replay.policies.base import Evaluator, Policy
from replay.runs.frame_file import FrameWriter
from replay.runs.passes import ReplayPlan, blocks, chunk_size, widest
from replay.runs.store import words_of
from toolkit.log import collect

PARTS = TRACES, SCORES, ORDERS, STOPS = "traces", "scores", "orders", "stops"
COSTS = ("prompt_tokens", "completion_tokens", "latency_s", "device_s", "price")
CHECK_COSTS = ("verification_tokens", "latency_s", "device_s", "price")

Schema = dict[str, pl.DataType | type[pl.DataType]]


@dataclass(frozen=True)
class Paths:
    """The path of one policy on the examples where it counts: (E,) bool."""

    number: int
    path: PolicyPath
    on: np.ndarray


@dataclass(frozen=True)
class _Walked:
    """An order as far as some policy went: the first `steps` (E,) of `samples` (E, S), and which were given up."""

    slice: str
    rule: str
    samples: np.ndarray
    steps: np.ndarray
    cut: Cutting | None


@dataclass
class _Orders:
    """Numbers of the orders of a run."""

    numbers: dict[Hashable, int] = field(default_factory=dict)

    def number(self, order: Hashable) -> int:
        return self.numbers.setdefault(order, len(self.numbers))


def write_traces(
    folder: Path, plan: ReplayPlan, policies: Sequence[Policy], acting: Mapping[str, np.ndarray], texts: bool
) -> None:
    """Replay the policies of a result (fitted, a threshold each) on its examples once more, and write what they paid.

    `acting`: of policies that rank all examples, those on which they act (N,).
    """
    orders = _Orders()
    ranked = frozenset(acting)
    pieces = blocks(plan, policies, chunk_size(len(policies), widest(plan.contents, policies)), identified=True)
    first = 0
    with ExitStack() as held:
        files = {name: held.enter_context(FrameWriter(folder / f"{name}.parquet")) for name in PARTS}
        for block in pieces:
            here = slice(first, first + len(block.examples))
            never = Evaluator(block, policies, paths=True)
            always = never.where_act(ranked)
            paths = []
            for number, policy in enumerate(policies):
                if policy.name in acting:
                    on = acting[policy.name][here]
                    paths += [Paths(number, always.path(policy), on), Paths(number, never.path(policy), ~on)]
                else:
                    paths.append(Paths(number, never.path(policy), np.ones(len(block.examples), dtype=bool)))
            for name, frame in _frames(block, paths, [policy.name for policy in policies], orders):
                files[name].append(_with_texts(frame, plan, block) if texts and name == TRACES else frame)
            first = here.stop


def _frames(
    block: LogBlock, paths: Sequence[Paths], names: Sequence[str], orders: _Orders
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The four tables of a block."""
    paid: dict[tuple[str, str | None], np.ndarray] = {}
    walked: dict[int, _Walked] = {}
    stops: list[pl.DataFrame] = []
    for one in paths:
        for realization in one.path.realizations:
            weight = realization.weight * one.on
            certain = (weight > 1 - 1e-9) & _sure(realization)
            for part, segment in enumerate(realization.segments):
                for call, mask in segment.calls.items():
                    seen = (mask.probability > 0) & (weight > 0)[:, None]
                    paid[call] = paid[call] | seen if call in paid else seen
                if certain.any():
                    stops += _stops(block, segment, one, certain, part, names[one.number], orders, walked)
    yield TRACES, pl.concat([_traces(block, name, on) for (name, by), on in paid.items() if by is None])
    yield SCORES, pl.concat([_scores(block, name, by, on) for (name, by), on in paid.items() if by is not None] or [
        pl.DataFrame(schema=_SCORES)
    ])  # fmt: skip
    yield ORDERS, pl.concat([_order(block, number, found) for number, found in walked.items()] or [
        pl.DataFrame(schema=_ORDERS)
    ])  # fmt: skip
    yield STOPS, pl.concat(stops or [pl.DataFrame(schema=_STOPS)])


_SCORES: Schema = {
    "example_id": pl.String, "slice": pl.String, "sample": pl.Int32, "verifier": pl.String, "score": pl.Float64,
    **dict.fromkeys(CHECK_COSTS, pl.Float64),
}  # fmt: skip
_ORDERS: Schema = {
    "order": pl.Int32, "slice": pl.String, "rule": pl.String, "example_id": pl.String, "samples": pl.List(pl.Int32),
    "slices": pl.List(pl.String),
}  # fmt: skip
_STOPS: Schema = {
    "policy": pl.String, "example_id": pl.String, "part": pl.Int32, "order": pl.Int32, "steps": pl.Int32,
    "generated": pl.Int32, "verifier": pl.String, "verified": pl.Int32, "chosen_slice": pl.String,
    "chosen_sample": pl.Int32, "given_up_by": pl.String,
}  # fmt: skip


def _stops(
    block: LogBlock, segment: CallSegment, one: Paths, certain: np.ndarray, part: int, policy: str,
    orders: _Orders, walked: dict[int, _Walked],
) -> Iterator[pl.DataFrame]:  # fmt: skip
    """Rows of `stops`, and the orders that they go along, in `walked`."""
    cut = None if segment.reveals is None else segment.reveals.cut
    for name, order, rule, samples, steps, generated in _along(segment):
        number = orders.number((name, order))
        before = walked.get(number)
        most = np.where(certain, steps, 0)
        most = most if before is None else np.maximum(before.steps, most)
        longest = samples if before is None or samples.shape[1] > before.samples.shape[1] else before.samples
        walked[number] = _Walked(name, rule, longest, most, cut)
        on = np.flatnonzero(certain & (np.maximum(steps, generated) > 0))
        verifier, verified = _verified(segment, name)
        ids, chosen = block.examples["example_id"].gather(on), one.path.chosen
        places = pl.Series([None] * len(on), dtype=pl.String), pl.Series([None] * len(on), dtype=pl.Int32)
        if chosen is not None:
            places = (
                pl.Series(chosen.slices, dtype=pl.String).gather(chosen.slice[on]),
                pl.Series(chosen.sample[on], dtype=pl.Int32),
            )
        size = len(on)
        made = {
            "policy": pl.Series([policy] * size, dtype=pl.String),
            "example_id": ids,
            "part": np.full(size, part),
            "order": np.full(size, number),
            "steps": steps[on],
            "generated": generated[on],
            "verifier": pl.Series([verifier] * size, dtype=pl.String),
            "verified": verified[on],
            "chosen_slice": places[0],
            "chosen_sample": places[1],
            "given_up_by": pl.Series([None if cut is None else cut.verifier] * size, dtype=pl.String),
        }
        yield pl.DataFrame(made).cast(_STOPS)  # type: ignore[arg-type]


def _sure(realization: Realization) -> np.ndarray:
    """Examples (E,) on which no call of it is drawn at random."""
    masks = [mask for segment in realization.segments for mask in segment.calls.values()]
    return np.all([mask.count >= mask.among.sum(axis=1) for mask in masks] or [realization.weight >= 0], axis=0)


def _verified(segment: CallSegment, name: str) -> tuple[str | None, np.ndarray]:
    """The verifier that a segment calls on a slice, if any, and how many calls it makes (E,).

    That by which traces are given up is another one.
    """
    early = segment.reveals.cut.verifier if segment.reveals is not None and segment.reveals.cut is not None else None
    for (of, verifier), mask in segment.calls.items():
        if of == name and verifier not in (None, early):
            return verifier, mask.count
    return None, np.zeros(len(next(iter(segment.calls.values())).count))


def _along(segment: CallSegment) -> Iterator[tuple[str, Hashable, str, np.ndarray, np.ndarray, np.ndarray]]:
    """(slice, order, its rule, samples (E, S), steps (E,), traces generated (E,)) of what a segment calls."""
    for (name, verifier), mask in segment.calls.items():
        if verifier is not None:
            continue
        if segment.reveals is not None and segment.count is not None:
            found = segment.reveals
            if found.cut is not None and name == found.cut.slice:
                continue  # told with the traces that went on
            yield name, found.order, found.rule, found.samples, found.steps, segment.count
            continue
        on = mask.among > 0
        count = on.sum(axis=1)
        samples = np.argsort(~on, axis=1, kind="stable")
        prefix = (on == (np.arange(on.shape[1]) < count[:, None])).all()
        order = GENERATION if prefix else ("called", on.tobytes())
        yield name, order, GENERATION if prefix else "called", samples, count, count


def _traces(block: LogBlock, name: str, on: np.ndarray) -> pl.DataFrame:
    """Rows of `traces`: those of a slice that some policy paid."""
    pool = block.pools[name]
    e, s = np.nonzero(on & pool.there)
    answer = np.where(pool.word[e, s] < 0, np.nan, pool.word[e, s])
    ids = pool.trace_ids
    made = {
        "example_id": block.examples["example_id"].gather(e),
        "slice": pl.Series([name] * len(e), dtype=pl.String),
        "sample": pl.Series(s, dtype=pl.Int32),
        "trace_id": pl.Series([] if ids is None else ids[e, s].tolist(), dtype=pl.String),
        "answer": words_of(answer, block.vocabulary),
        "valid": pl.Series(pool.code[e, s] >= 0),
        "correct": pl.Series(pool.judgement[e, s], nan_to_null=True),
    }
    costs = {name: pool.costs[name] for name in COSTS if name in pool.costs}
    return pl.DataFrame(made | {name: pl.Series(values[e, s], nan_to_null=True) for name, values in costs.items()})


def _scores(block: LogBlock, name: str, verifier: str, on: np.ndarray) -> pl.DataFrame:
    """Rows of `scores`: the verifications of a slice that some policy paid."""
    scores = block.pools[name].scores[verifier]
    e, s = np.nonzero(on & ~np.isnan(scores.score))
    made = {
        "example_id": block.examples["example_id"].gather(e),
        "slice": pl.Series([name] * len(e), dtype=pl.String),
        "sample": pl.Series(s, dtype=pl.Int32),
        "verifier": pl.Series([verifier] * len(e), dtype=pl.String),
        "score": pl.Series(scores.score[e, s]),
    }
    none = np.full(on.shape, np.nan)
    costs = {cost: pl.Series(scores.costs.get(cost, none)[e, s], nan_to_null=True) for cost in CHECK_COSTS}
    return pl.DataFrame(made | costs, schema=_SCORES)


def _order(block: LogBlock, number: int, walked: _Walked) -> pl.DataFrame:
    """Rows of `orders`: of each example as far as some policy went."""
    samples, steps, cut = walked.samples, walked.steps, walked.cut
    on = np.flatnonzero(steps > 0)
    lists = [samples[e, : steps[e]].tolist() for e in on]
    slices = None
    if cut is not None:
        of = np.array([walked.slice, cut.slice], dtype=object)
        slices = [of[cut.given_up[e, samples[e, : steps[e]]].astype(int)].tolist() for e in on]
    made = {
        "order": pl.Series([number] * len(on), dtype=pl.Int32),
        "slice": pl.Series([walked.slice] * len(on), dtype=pl.String),
        "rule": pl.Series([walked.rule] * len(on), dtype=pl.String),
        "example_id": block.examples["example_id"].gather(on),
        "samples": pl.Series(lists, dtype=pl.List(pl.Int32)),
        "slices": pl.Series([None] * len(on) if slices is None else slices, dtype=pl.List(pl.String)),
    }
    return pl.DataFrame(made, schema=_ORDERS)


def _with_texts(frame: pl.DataFrame, plan: ReplayPlan, block: LogBlock) -> pl.DataFrame:
    """With what the model wrote."""
    ids = block.examples["example_id"]
    scan = plan.log.scan("traces", ["trace_id", "example_id", "text"])
    mine = collect(scan.filter(pl.col("example_id").is_between(pl.lit(ids[0]), pl.lit(ids[-1]))), plan.log)
    return frame.join(mine.select("trace_id", "text"), on="trace_id", how="left", maintain_order="left")
