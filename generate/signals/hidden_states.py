"""Hidden states of a model that reads traces: chosen layers x tokens, by a teacher-forced pass.

Any model may read another's traces. A trace is read after the prompt that it answered, whole; a trace that is longer
than the model takes is named and has no states. LiLaVe (2025, section 4.1) takes layers -1, -2, -4, -8, -16 and tokens
-16 ... -1, and looks at the first tokens too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from generate.engines.weights import find_model, require_extra
from generate.passes.batching import TokenIds
from generate.passes.reader import states_at
from generate.passes.sharing import can_share_prompts, read_completions
from generate.signals.forced import ForcedWorker, TeacherForced
from generate.signals.signal import Additions, BlockRows, WorkerInput, Workload
from generate.traces.block import TraceBlock
from toolkit.errors import InvalidError, LimitError, MismatchError, quote
from toolkit.log import Log, collect
from toolkit.progress import Advance
from toolkit.settings import as_kind, check, from_table, setting

BLOCK_BYTES = 16 * 2**20
"""States of a block in memory, about; at least those of one example."""
KEY_BYTES = 32


@dataclass(frozen=True)
class _PlaceRange:
    """A range of places in a text, both ends included, counted from one side of it."""

    first: int = setting()
    last: int = setting()

    def __post_init__(self) -> None:
        check(self)
        if self.first > self.last or (self.first < 0) != (self.last < 0):
            raise InvalidError(f"a span ascends on one side of 0: {self.first} to {self.last} does not")


def _read_places(value: Any, place: str) -> tuple[int, ...]:
    """Reads a list of layers or tokens, each once, or a range `{ first = -16, last = -1 }`."""
    if isinstance(value, Mapping):
        span = from_table(_PlaceRange, value, place)
        return tuple(range(span.first, span.last + 1))
    listed = as_kind(tuple[int, ...], value)
    if not listed or len(set(listed)) < len(listed):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes a list of integers, each once")
    return tuple(listed)


class _StatesWorker(ForcedWorker):
    """Reads traces with a model and keeps its hidden states."""

    step: HiddenStates
    head = "base"

    def __init__(self, step: HiddenStates, work: WorkerInput):
        super().__init__(step, work)
        last = self.reader.layer_count
        for layer in step.layers:
            if not -last - 1 <= layer <= last:
                raise InvalidError(
                    f"{step.place_in_recipe}: `layers`: the model has {last} layers, so {layer} is not one of them:"
                    f" 0 is the embeddings and {last}, or -1, the last"
                )
        self.keeps = can_share_prompts(self.reader)
        each = len(step.layers) * len(step.tokens) * self.reader.hidden_size * step.bytes_each
        self.per_block = max(1, BLOCK_BYTES // each)

    def describe(self) -> Mapping[str, Any]:
        """The manifest's record: the model, the places of its states, and the prompts before the traces."""
        return {
            **super().describe(),
            "dimension": self.reader.hidden_size,
            "layers": list(self.step.layers),
            "tokens": list(self.step.tokens),
            "stored_as": self.step.store,
            "grid": self.step.grid,
        }

    def unfit_reason(self, text: TokenIds) -> str | None:
        """The reason why a text is too long, or lacks all places asked for; None where it can be read."""
        count = len(text.completion)
        if not count:
            return "the text has no tokens"
        if not any(-count <= token < count for token in self.step.tokens):
            return f"the text has {count} tokens, none of the requested ones"
        return super().unfit_reason(text)

    def run(self, block: TraceBlock, advance: Advance) -> BlockRows:
        fit = self.fitting_texts(block)
        frames = [self._frame([], [], np.zeros((0, 0, 0, self.reader.hidden_size)), np.zeros((0, 0), bool))]
        for read, group in read_completions(self.reader, fit.texts, self.keeps):
            states, there = states_at(read, group, self.step.layers, self.step.tokens)
            rows = [fit.traces[place] for place in read.places]
            frames.append(self._frame([r["trace_id"] for r in rows], [r["example_id"] for r in rows], states, there))
            advance(len(rows))
        return BlockRows(pl.concat(frames), fit.skipped, recounted=fit.recounted)

    def _frame(self, traces: list[str], examples: list[str], states: np.ndarray, there: np.ndarray) -> pl.DataFrame:
        """The rows for states (n, layers, tokens, d), with only the places that exist, `there` (n, tokens)."""
        half = self.step.store == "float16"
        width = states.shape[-1]
        row, layer, token = np.nonzero(np.broadcast_to(there[:, None, :], states.shape[:3]))
        selected = states[row, layer, token]  # (rows, d)
        if self.step.grid is not None:
            selected = np.round(selected / self.step.grid) * self.step.grid
        with np.errstate(over="ignore"):
            selected = selected.astype(np.float16 if half else np.float32)
        if not np.isfinite(selected).all():
            hint = ': set `store = "float32"`' if half else ": choose another `dtype`"
            raise LimitError(f"{self.step.place_in_recipe}: a state is too large for {self.step.store}, or NaN{hint}")
        places: dict[str, Any] = {
            "trace_id": pl.Series(np.asarray(traces, dtype=object)[row], dtype=pl.String),
            "layer": np.asarray(self.step.layers, dtype=np.int16)[layer],
            "token": np.asarray(self.step.tokens, dtype=np.int32)[token],
            "example_id": pl.Series(np.asarray(examples, dtype=object)[row], dtype=pl.String),
        }
        inner = pl.Float16() if half else pl.Float32()
        state = pl.Series("state", selected.reshape(len(selected), width), dtype=pl.Array(inner, width))
        return pl.DataFrame(places).with_columns(state)


@dataclass(frozen=True, kw_only=True)
class HiddenStates(TeacherForced):
    """Hidden states of `model` at `layers` x `tokens` of each trace, by a teacher-forced pass.

    layers: as transformers' `hidden_states`, 0 the embeddings and -1 the last. tokens: from the start (0 is the first)
    or from the end (-1), a list or `{ first = -16, last = -1 }`. store: float16, or float32 where float16 has no room
    for a model's states. grid: round states to multiples of it, so that they are off by half of it at most and take
    less room.
    """

    kind = "states"

    model: str = setting(identity=False)
    layers: tuple[int, ...] = setting(read=_read_places)
    tokens: tuple[int, ...] = setting(read=_read_places)
    store: str = setting("float16", choices=("float16", "float32"))
    grid: float | None = setting(None, low=1e-6)

    list_name = "states"
    section = "hidden_states"
    worker = _StatesWorker

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "layers", _read_places(self.layers, "layers"))
        object.__setattr__(self, "tokens", _read_places(self.tokens, "tokens"))

    def default_name(self) -> str:
        return Path(self.model).name

    @property
    def table(self) -> str:  # type: ignore[override]
        return f"hidden_states/{self.name}"

    @property
    def bytes_each(self) -> int:
        return np.dtype(self.store).itemsize

    def identity(self, additions: Additions) -> dict[str, Any]:
        flat = super().identity(additions)
        del flat["kind"]
        return flat

    def traces_with_rows(self, log: Log) -> pl.DataFrame | None:
        if not log.has(self.table):
            return None
        traces = collect(log.scan(self.table, ["trace_id"]).unique(), log)
        return traces if traces.height else None

    def check_log(self, additions: Additions, log: Log) -> None:
        """Raises ThinkbackError where the log has states of that name and another dimension, or lacks what is read."""
        super().check_log(additions, log)
        if not log.has(self.table):
            return
        there, dimension = log.columns(self.table)["state"], self._dimension(additions)
        width = there.size if isinstance(there, pl.Array) else None
        if width != dimension:
            raise MismatchError(
                f"{self.place_in_recipe}: the model's states have {dimension} numbers, those of `{self.table}` in the"
                f" log have {width}: give the new ones another `name`"
            )

    def disk_bytes(self, load: Workload) -> int:
        each = self._dimension(load.additions) * self.bytes_each + KEY_BYTES
        return load.traces * len(self.layers) * len(self.tokens) * each

    def _dimension(self, additions: Additions) -> int:
        """The length of a hidden state, by the model's config."""
        require_extra("generate", "huggingface_hub", "transformers")
        return find_model(additions.resolve_model(self.model), None, download=False).hidden_size()
