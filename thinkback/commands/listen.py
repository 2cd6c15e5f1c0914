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
    from generate.sampling.loop_rows import pool_settings
    from thinkback import console
    from toolkit.errors import NotFoundError

    read = load_recipe(recipe, settings or ())
    step = listening_step(read, pool)
    chosen, left = _policies_of(policies, step.pool, getattr(step.loop, "every", SENTENCES) == SENTENCES)
    for line in left:
        console.say(line)
    if text is not None and not text.is_file():
        raise NotFoundError(f"there is no file `{text}`")
    decisions = _Decisions(step.pool, pool_settings(step), chosen)

    def note(row: Row) -> None:
        decisions.rows.append(row)
        console.say(_row_line(row.columns))
        if row.columns["verdict"] == "refuted":  # at no other row a policy acts
            for line in decisions.new_lines(heard.count, ended=False):
                console.say(line)
        sys.stdout.flush()

    source = sys.stdin if text is None else text.open(encoding="utf-8")
    heard = LiveText(source, words_per_second)
    try:
        run(read, step, heard, note, allow_keys=allow_keys or ())
    finally:
        if text is not None:
            source.close()
    for line in decisions.new_lines(heard.count, ended=True):
        console.say(line)


SENTENCES = "sentences"


def _policies_of(file: Path, pool: str, units: bool) -> tuple[list[Buzz], list[str]]:
    """The policies of a file that act on a pool, and a line for each that does not. units: whether the sentence of a
    claim is known when it is extracted. UnsuitableError where no policy acts.
    """
    from replay.kinds.buzz import Buzz, ClaimCap
    from replay.policies.toml import load_policies
    from toolkit.errors import UnsuitableError

    chosen, left = list[Buzz](), list[str]()
    for one in load_policies(file).policies:
        if not isinstance(one, Buzz) or one.diagnostic:
            left.append(f"`{one.name}` is left out: it is not of kind `{Buzz.kind}`, which acts on a text")
        elif one.pool not in (None, pool):
            left.append(f"`{one.name}` is left out: it acts on pool `{one.pool}`, and this is `{pool}`")
        elif isinstance(one.max_claims, ClaimCap) and not units:
            left.append(f"`{one.name}` is left out: its `max_claims` is by unit, and only at the ends of sentences "
                        "these are known when a claim is")  # fmt: skip
        else:
            chosen.append(replace(one, pool=pool))
    if not chosen:
        raise UnsuitableError(f"`{file}` has no policy of kind `{Buzz.kind}` that acts on pool `{pool}`")
    return chosen, left


def _row_line(row: Mapping[str, Any]) -> str:
    if row["verdict"] == "none":
        return f"word {row['position']}: no further claim"
    sure = "" if row.get("confidence") is None else f" ({row['confidence']:.2f})"
    place = f"word {row['position']}, claim {row['claim']}, round {row['round']}"
    return f"{place}: {row['verdict']}{sure}: {row['claim_text']}"


class _Decisions:
    """What policies do with the `rows` so far, as replay does. One with a clock needs the text's length, so it is asked
    at the end. settings: of the pool, as a manifest has them.
    """

    def __init__(self, pool: str, settings: Mapping[str, Any], policies: Sequence[Buzz]):
        self.pool, self.settings, self.waiting = pool, settings, list(policies)
        self.rows: list[Row] = []

    def new_lines(self, length: int, ended: bool) -> list[str]:
        """A line for each policy that acts now, or, once the text of so many words has ended, that it does not."""
        lines = list[str]()
        for one in [one for one in self.waiting if ended or one.words_per_second is None]:
            acts, line = self._decide(one, length)
            if acts or ended:
                lines.append(line)
                self.waiting.remove(one)
        return lines

    def _decide(self, policy: Buzz, length: int) -> tuple[bool, str]:
        """Whether a policy acts on the rows so far, and a line that says so, or why replay would leave the text out."""
        import polars as pl

        import replay
        from generate.sampling.loop_rows import further_table_rows
        from toolkit.errors import ThinkbackError
        from toolkit.log import open_log
        from toolkit.log.contract.manifest import Manifest, now

        if not self.rows:
            return False, f"** end: {policy.name} decides nothing: the text has no word"
        checks = further_table_rows("checks", (("text", self.pool, row) for row in self.rows))
        row = {"example_id": "text", "dataset": "text", "split": "test", "question": "", "gold_error": True}
        log = open_log({"examples": pl.DataFrame({**row, "length": length}), "checks": checks})
        log = replace(log, manifest=Manifest("text", now(), {}, pools={self.pool: self.settings}))
        try:
            outcome = replay.run(log, [policy], resamples=2).outcomes.collect().row(0, named=True)
        except ThinkbackError as error:
            return False, f"** end: {policy.name} decides nothing: {error}"
        if outcome["answer"] == "refuted":
            return True, f"** word {outcome['position']:.0f}: {policy.name} says refuted"
        return False, f"** end: {policy.name} says supported"
