"""The costs of reading hidden states: none for the model that wrote a trace, one pass of any other model.

States are there while a model writes. Another model (LiLaVe, A.7) reads the prompt and the completion once more, so
that a score of its states costs these tokens and the seconds of the pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from toolkit.log import Log, collect
from toolkit.log.contract.left_out import source_parts
from toolkit.notes import Note, note

_SECTION, _SECONDS = "hidden_states", "wall_clock_s"


def reading_costs(log: Log, states: str) -> tuple[pl.DataFrame, str]:
    """What each trace with states of a model cost to read (trace_id, tokens, seconds), and the model that read it.

    Of a trace that this model wrote both are 0, and so where the manifest does not say which model the states are of,
    or the log which one wrote the trace. A merged log may have states of several models under one name: what each of
    them wrote is its own. Null is unknown: tokens that are not logged, a pass without a wall-clock. That of a pass is
    shared by tokens, or alike where these are not known.
    """
    records = list(_state_reading_records(log.manifest.source if log.manifest is not None else None, states))
    readers = list(dict.fromkeys(one["model"] for one in records if isinstance(one.get("model"), str)))
    read = log.scan(f"{_SECTION}/{states}", ["trace_id"]).unique()
    written = log.scan("traces", ["trace_id", "model", "prompt_tokens", "completion_tokens"])
    frame = collect(written.join(read, on="trace_id", how="semi"), log).sort("trace_id")
    length = pl.col("prompt_tokens") + pl.col("completion_tokens")
    known = [record[_SECONDS] for record in records if isinstance(record.get(_SECONDS), int | float)]
    seconds = float(sum(known)) if known and len(known) == len(records) else None
    of_pass = pl.lit(seconds, pl.Float64)
    share = pl.when(length.is_null().any()).then(of_pass / pl.len()).otherwise(of_pass * length / length.sum())
    known_readers = set(map(_short_model_name, readers))
    names = frame["model"].drop_nulls().unique()
    other = pl.col("model").is_in(
        [name for name in names if known_readers and _short_model_name(name) not in known_readers]
    )
    costs = frame.select(
        "trace_id",
        tokens=pl.when(other.fill_null(False)).then(length).otherwise(0).cast(pl.Int32),
        seconds=pl.when(other.fill_null(False)).then(share).otherwise(0.0),
    )
    return costs, "`, `".join(readers)


def _state_reading_records(source: Any, states: str) -> Iterator[Mapping[str, Any]]:
    """The manifest's records of the passes that stored states under a name."""
    for part in source_parts(source):
        section = part.get(_SECTION)
        entry = section.get(states) if isinstance(section, Mapping) else None
        if isinstance(entry, Mapping):
            yield entry


def _short_model_name(name: str) -> str:
    """The last part of a model's name, without folder or owner."""
    return PurePosixPath(name.rstrip("/")).name.casefold()


def reading_cost_notes(costs: pl.DataFrame, reader: str) -> Iterator[Note]:
    """A note on what the scores cost, if another model than the writer read the traces."""
    paid = costs.filter(pl.col("tokens").is_null() | (pl.col("tokens") > 0))
    if not paid.is_empty():
        tokens, seconds = paid["tokens"], paid["seconds"]
        length = "an unknown number of" if tokens.null_count() else f"{tokens.sum() / len(paid):,.0f}"
        spent = "an unknown number of" if seconds.null_count() else f"{float(seconds.sum()) / len(paid):.4f}"
        yield note(
            "read_by_another",
            f"`{reader}` read {len(paid):,} traces that another model wrote: a score of one costs {length} tokens and "
            f"{spent} seconds in the mean",
        )
