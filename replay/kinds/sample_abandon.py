"""What early abandoning asks of a log, and how a `sample` policy tells of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from replay.data.block import LogBlock, LoggedPool
from replay.data.contents import Contents
from replay.data.given_up import SECONDS, cut_name, seconds_column
from replay.data.needs import Needs
from replay.engine.cuts import Cut, cut
from replay.engine.trajectory import Walk, fates_of, walk_block
from replay.policies.base import Stage
from replay.policies.payable import Payable
from replay.policies.remarks import Counts, Remark, RemarkKind
from replay.sampling.abandon import NAMED_TOKENS, Abandon
from replay.sampling.unscored import Unscored
from toolkit.errors import ThinkbackError, counted, listed

BEFORE = ("prompt_tokens", "temperature", "max_tokens", "sample_index", "position")
"""Columns of traces that are known before a trace is written."""


def require_abandon(contents: Contents, abandon: Abandon, pool: str) -> None:
    """Raise for what a log lacks, and on a pool whose traces depend on each other."""
    contents.require_verifier(abandon.verifier, " for `abandon`")
    late = _later(contents, abandon.verifier, abandon.tokens)
    if late is not None:
        raise ThinkbackError(
            f"`abandon` scores traces after {counted(abandon.tokens, 'token')}, and `{abandon.verifier}` was fitted on "
            f"{late}, which no running system knows by then: fit one on what is there, such as --tokens "
            f"{abandon.tokens - 1} --name latent@{abandon.tokens}"
        )
    if "completion_tokens" not in contents.trace_columns:
        raise ThinkbackError("`abandon` needs `completion_tokens` of traces, and the log has none")
    if pool in contents.whole:
        raise ThinkbackError(
            f"pool `{pool}` depends on how many traces there were (prefix: false), so none of them can be given up: "
            "leave out `abandon`"
        )


def _later(contents: Contents, verifier: str, tokens: int) -> str | None:
    """What a verifier that was fitted on the log reads that is not there after so many tokens; None where it is."""
    record = contents.fitted.get(verifier)
    if record is None:
        return None
    settings = record["settings"]
    name, places = settings["name"], [(layer, token) for layer, token in record.get("places", ())]
    own = [place for place in places if verifier == f"{name}:{place[0]}:{place[1]}"] or places
    late = next((token for _, token in own if not 0 <= token < tokens), None)
    if late is not None:
        return f"states at token {late}"
    for given in settings["inputs"]:
        source, _, rest = given.partition(":")
        if source == "verifier" and not _early(rest, tokens):
            return _later(contents, rest, tokens) if rest in contents.fitted else f"`{given}`"
        if source == "tokens" or (source == "trace" and rest not in BEFORE):
            return f"`{given}`"
    return None


def _early(verifier: str, tokens: int) -> bool:
    """Whether a verifier by its name scored traces after no more than so many tokens."""
    named = NAMED_TOKENS.fullmatch(verifier)
    return named is not None and int(named[1]) <= tokens


def abandon_needs(contents: Contents, abandon: Abandon, pool: str) -> Needs:
    """The verifier's scores, and the seconds of the first tokens where the log has them."""
    seconds = (seconds_column(cost, abandon.tokens) for cost in SECONDS)
    logged = [name for name in seconds if name in contents.trace_columns and contents.trace_columns[name].is_numeric()]
    return Needs(
        pools=frozenset([pool]),
        scores=frozenset([(pool, abandon.verifier)]),
        trace_columns=frozenset(logged),
        cuts=frozenset([(pool, abandon.tokens)]),
    )


def abandon_stage(block: LogBlock, name: str, walk: Walk, how: Cut, whole: bool) -> Stage:
    """Each trace that one order generates on the one example of a block, whether it was scored, and what became of it;
    `whole`: of every trace of the pool.
    """
    abandon = walk.abandon
    if abandon is None:
        raise ValueError("the walk gives up no trace")
    trajectory, pool = walk_block(block, walk), block.pools[walk.pool]
    fates, size = fates_of(pool, abandon), int(pool.size[0])
    generated = int(trajectory.paid_traces(cut(trajectory, how).step)[0])
    sample = np.arange(size) if whole else trajectory.place[0, :generated]
    unknown = (fates.uncounted | fates.unchecked)[0, sample]
    given_up = fates.given_up[0, sample] & ~unknown
    became = np.select([unknown, given_up, fates.checked[0, sample]], ["not known", "given up", "went on"], "had ended")
    columns = {
        "sample": pl.Series(sample, dtype=pl.Int64),
        "score": np.where(fates.checked, pool.scores[abandon.verifier].score, np.nan)[0, sample],
        "becomes": pl.Series(became.tolist(), dtype=pl.String),
        "completion_tokens": trajectory.pool.costs["completion_tokens"][0, sample],
    }
    of = "trace" if given_up.sum() == 1 else "traces"
    ending = f"{int(given_up.sum())} {of} given up: `{abandon.verifier}` below {abandon.below:g}"
    return Stage(f"`{name}`, after {abandon.tokens:,} tokens", pl.DataFrame(columns, nan_to_null=True), ending)


def payable(
    pool: LoggedPool, within: np.ndarray, verifier: str | None, unscored: Unscored, abandon: Abandon | None
) -> Iterator[Payable]:
    """The verifications of the traces `within` (E, T) that a policy may pay: by its verifier, and to give traces up."""
    valid = pool.code >= 0
    if abandon is not None:
        fates = fates_of(pool, abandon)
        valid &= ~fates.given_up
        yield Payable(pool.name, abandon.verifier, within & fates.checked)
    if verifier is not None:
        yield Payable(pool.name, verifier, within & valid, unscored)


def unknown_seconds(block: LogBlock, pool: str, abandon: Abandon, within: np.ndarray) -> Iterator[Remark]:
    """Of the traces `within` (E, T) that are given up: how many have no seconds."""
    logged, cut_short = block.pools[pool], block.pools[cut_name(pool, abandon.tokens)]
    given_up = fates_of(logged, abandon).given_up & within
    for cost in SECONDS:
        lacks = np.isnan(cut_short.costs[cost]) & ~np.isnan(logged.costs[cost])
        if count := int((given_up & lacks).sum()):
            yield Remark(NO_SECONDS, seconds_column(cost, abandon.tokens), count)


def _no_seconds(columns: Counts) -> list[str]:
    return [
        "traces that are given up have no seconds, since the log has none of their first tokens (columns of traces: "
        f"{listed(sorted(columns))}); so means of seconds are dashes"
    ]


NO_SECONDS = RemarkKind("given_up_seconds", _no_seconds)
