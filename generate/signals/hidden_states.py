"""Hidden states of a model that reads traces: chosen layers x tokens, by a teacher-forced pass.

Any model may read another's traces. A trace is read after the prompt that it answered, whole; a trace that is longer
than the model takes is named and has no states. LiLaVe (2025, section 4.1) takes layers -1, -2, -4, -8, -16 and tokens
-16 ... -1, and looks at the first tokens too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from generate.passes.sharing import keeps_prompts, read_completions
from generate.passes.taking import states_at
from generate.signals.additions import Additions, States
from generate.signals.forced import open_forced
from generate.signals.signal import Advance, Made
from generate.traces.block import Block
from toolkit.errors import ThinkbackError
from toolkit.log import Log

BLOCK_BYTES = 16 * 2**20
"""States of a block in memory, about; at least those of one example."""


class StatesWorker:
    """Reads traces and keeps states."""

    def __init__(self, step: States, additions: Additions, log: Log, pools: tuple[str, ...]):
        self.step = step
        self.forced = open_forced(step, additions, log, pools, "base", f"`states.{step.name}`")
        self.reader = self.forced.reader
        self._check_layers()
        self.keeps = keeps_prompts(self.reader)
        each = len(step.layers) * len(step.tokens) * self.reader.dimension * (2 if step.store == "float16" else 4)
        self.per_block = max(1, BLOCK_BYTES // each)

    def describe(self) -> dict[str, object]:
        """The model, where its states were taken, and what stood before the traces."""
        return {
            **self.forced.describe(),
            "dimension": self.reader.dimension,
            "layers": list(self.step.layers),
            "tokens": list(self.step.tokens),
            "stored_as": self.step.store,
            "grid": self.step.grid,
        }

    def run(self, block: Block, advance: Advance) -> Made:
        """A row for each (trace, layer, token) that there is."""
        texts, kept, skipped = [], [], []
        for row in block.rows:
            text = self.forced.ids(block, row)
            reason = self._placeless(len(text.completion)) or self.reader.too_long(text)
            if reason is not None:
                skipped.append((row["trace_id"], reason))
            else:
                texts.append(text)
                kept.append(row)
        frames = [self._frame([], [], np.zeros((0, 0, 0, self.reader.dimension)), np.zeros((0, 0), bool))]
        for read, group in read_completions(self.reader, texts, self.keeps):
            states, there = states_at(read, group, self.step.layers, self.step.tokens)
            rows = [kept[place] for place in read.places]
            frames.append(self._frame([r["trace_id"] for r in rows], [r["example_id"] for r in rows], states, there))
            advance(len(rows))
        return Made(pl.concat(frames), tuple(skipped))

    def close(self) -> None:
        """Free the model."""
        self.reader.close()

    def _frame(
        self, traces: Sequence[str], examples: Sequence[str], states: np.ndarray, there: np.ndarray
    ) -> pl.DataFrame:
        """Rows of states (n, layers, tokens, d), of the places that there are, (n, tokens)."""
        half = self.step.store == "float16"
        width = states.shape[-1]
        row, layer, token = np.nonzero(np.broadcast_to(there[:, None, :], states.shape[:3]))
        taken = states[row, layer, token]  # (rows, d)
        if self.step.grid is not None:
            taken = np.round(taken / self.step.grid) * self.step.grid
        with np.errstate(over="ignore"):
            taken = taken.astype(np.float16 if half else np.float32)
        if not np.isfinite(taken).all():
            hint = ': set `store = "float32"`' if half else ": choose another `dtype`"
            raise ThinkbackError(f"`states.{self.step.name}`: a state is too large for {self.step.store}, or NaN{hint}")
        places: dict[str, Any] = {
            "trace_id": pl.Series(np.asarray(traces, dtype=object)[row], dtype=pl.String),
            "layer": np.asarray(self.step.layers, dtype=np.int16)[layer],
            "token": np.asarray(self.step.tokens, dtype=np.int32)[token],
            "example_id": pl.Series(np.asarray(examples, dtype=object)[row], dtype=pl.String),
        }
        inner = pl.Float16() if half else pl.Float32()
        return pl.DataFrame(places).with_columns(
            pl.Series("state", taken.reshape(len(taken), width), dtype=pl.Array(inner, width))
        )

    def _placeless(self, count: int) -> str | None:
        """Why a text of `count` tokens has none of the places asked for; None where it has one."""
        if not count:
            return "the text has no tokens"
        if any(-count <= token < count for token in self.step.tokens):
            return None
        return f"the text has {count} tokens, none of those asked for"

    def _check_layers(self) -> None:
        last = self.reader.layers
        for layer in self.step.layers:
            if not -last - 1 <= layer <= last:
                raise ThinkbackError(
                    f"`states.{self.step.name}.layers`: the model has {last} layers, so {layer} is none of them:"
                    f" 0 is the embeddings and {last}, or -1, the last"
                )
