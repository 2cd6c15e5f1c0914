"""What the surrogate learns: its weights after every verification, for study."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import polars as pl

from replay.data.conditions import examples_where
from replay.data.contents import open_with_contents
from replay.data.read import BlockRequest, read_block
from replay.engine.trajectory import NEVER_MISSING, Trajectory, walk_block
from replay.kinds.sample import Sample
from replay.policies.base import needs_of_policies
from replay.runs.passes.learning import fit_policies
from toolkit.arguments import checks_arguments
from toolkit.log import AnyLog


@checks_arguments(policy='a `Sample` with `order = "surrogate"`')
def surrogate_weights(log: AnyLog, policy: Sample, *, where: str | None = None) -> pl.DataFrame:
    """The weights of a policy's surrogate after each verification, when no rule stops it.

    Columns: example_id, step (from 1), sample_index verified, score, then one for each dimension: the features by name,
    `vote_ratio`, `label_score`, `constant`. With `orders = K` the first order is shown. `where` is an SQL condition on
    the columns of examples. Calibration and prediction sets change no weight, so they are not fitted.

    Examples on which a score or a feature that the surrogate reads are left out, with a warning that counts them.
    Raises ThinkbackError for a policy of another order, and where no example is left.
    """
    log, contents = open_with_contents(log)
    if not policy.order_rule.weight_names:
        raise policy.refusal(f'its order is `{policy.order}`; only `order = "surrogate"` has weights')
    plain = replace(policy, calibration=None, conformal=None).resolve(contents)
    frame = examples_where(log, where, "labels", "gold")
    fitted = fit_policies(log, contents, [plain], frame["example_id"])[0]
    block = read_block(log, frame, BlockRequest(needs_of_policies([fitted], contents)))
    walked = walk_block(block, fitted.walks()[0])
    traces, order = walked.traces, fitted.order_rule
    picks = order.steps_with_weights(traces)
    row, step = np.nonzero(
        np.arange(picks.at.shape[1]) < np.where(_surrogate_inputs_mask(walked, policy), picks.count, 0)[:, None]
    )
    at = picks.at[row, step]
    columns = {
        "example_id": block.examples["example_id"].gather(row),
        "step": step + 1,
        "sample_index": walked.place[row, at],
        "score": traces.score[row, at],
    }
    weights = picks.weights if picks.weights is not None else np.zeros((len(traces.code), 0, 0))
    return pl.DataFrame(columns | {name: weights[row, step, i] for i, name in enumerate(order.weight_names)})


def _surrogate_inputs_mask(walked: Trajectory, policy: Sample) -> np.ndarray:
    """Mask (E,) of the examples on which the log has every score and feature that the surrogate reads."""
    read = walked.missing == NEVER_MISSING
    if walked.abandonment is not None:
        unknown = walked.abandonment.unchecked | walked.abandonment.uncounted
        read &= ~walked.generated_among(unknown, walked.n_generated).any(axis=1)
    lacking = int((~read).sum())
    if lacking == len(read):
        raise policy.refusal(f"a score or a feature that its surrogate reads is missing on all {len(read):,} examples")
    if lacking:
        warnings.warn(
            f"policy `{policy.name}`: {lacking:,} of {len(read):,} examples are left out: they lack a score or a "
            "feature that the surrogate reads",
            stacklevel=3,
        )
    return read
