"""`thinkback listen`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from generate.loops.requests import Row
    from replay.kinds.buzz import Buzz


def listen(
    recipe: str,
    policies: Path,
    text: Path | None = None,
    words_per_second: float | None = None,
    pool: str | None = None,
    settings: list[str] | None = None,
    allow_keys: list[str] | None = None,
) -> None:
    """Check a text while its words come, and act by policies.

    Reads words from standard input, or from a file at a pace, and prints claims, verdicts and what each policy of kind
    `buzz` does, as they come: what `replay` says of the same text in a log by `generate`.
    """
    from generate.recipes.recipe import load_recipe
    from generate.sampling.live import LiveText, listening_step
    from generate.sampling.live import listen as run
    from replay.kinds.buzz import Buzz
    from replay.policies.toml import load_policies
    from thinkback import console
    from toolkit.errors import NotFoundError, UnsuitableError

    read = load_recipe(recipe, settings or ())
    step = listening_step(read, pool)
    chosen = [policy for policy in load_policies(policies).policies if isinstance(policy, Buzz)]
    if not chosen:
        raise UnsuitableError(f"`{policies}` has no policy of kind `{Buzz.kind}`, which acts on a text")
    if text is not None and not text.is_file():
        raise NotFoundError(f"there is no file `{text}`")
    decisions = _Decisions(step.pool, [replace(one, pool=step.pool) for one in chosen])

    def note(row: Row) -> None:
        decisions.add(row.columns)
        console.say(_row_line(row.columns))
        if row.columns["verdict"] == "refuted":  # at no other row a policy acts
            for line in decisions.new_lines(ended=False):
                console.say(line)
        sys.stdout.flush()

    source = sys.stdin if text is None else text.open(encoding="utf-8")
    try:
        run(read, step, LiveText(source, words_per_second), note, allow_keys=allow_keys or ())
    finally:
        if text is not None:
            source.close()
    for line in decisions.new_lines(ended=True):
        console.say(line)


def _row_line(row: Mapping[str, Any]) -> str:
    if row["verdict"] == "none":
        return f"word {row['position']}: no further claim"
    sure = "" if row.get("confidence") is None else f" ({row['confidence']:.2f})"
    place = f"word {row['position']}, claim {row['claim']}, round {row['round']}"
    return f"{place}: {row['verdict']}{sure}: {row['claim_text']}"


class _Decisions:
    """What policies do with the rows so far. One with a clock needs the text's length, so it is asked at the end."""

    def __init__(self, pool: str, policies: Sequence[Buzz]):
        self.pool, self.waiting = pool, list(policies)
        self.rows: list[dict[str, Any]] = []

    def add(self, row: Mapping[str, Any]) -> None:
        """Takes a row of `checks`."""
        self.rows.append({"example_id": "text", "pool": self.pool, **row})

    def new_lines(self, ended: bool) -> list[str]:
        """A line for each policy that acts now, or, once the text has ended, that it does not."""
        able = [one for one in self.waiting if ended or one.words_per_second is None]
        acting = self._positions(able) if self.rows and able else {}
        lines = [f"** word {acting[one.name]}: {one.name} says refuted" for one in able if one.name in acting]
        self.waiting = [one for one in self.waiting if one.name not in acting]
        return lines + [f"** end: {one.name} says supported" for one in self.waiting if ended]

    def _positions(self, policies: Sequence[Buzz]) -> dict[str, int]:
        """The word at which each policy acts on the rows so far, by its name."""
        import polars as pl

        import replay
        from toolkit.log import open_log

        checks = pl.DataFrame(self.rows, infer_schema_length=None)
        row = {"example_id": "text", "dataset": "text", "split": "test", "question": "", "gold_error": True}
        examples = pl.DataFrame({**row, "length": checks["position"].max()})
        log = open_log({"examples": examples, "checks": checks})
        going_on = [replace(policy, on_missing="use_available") for policy in policies]
        outcomes = replay.run(log, going_on, resamples=2).outcomes.collect()
        acting = outcomes.filter(pl.col("answer") == "refuted")
        return dict(acting.select("policy", "position").iter_rows())
