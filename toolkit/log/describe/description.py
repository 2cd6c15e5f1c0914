"""A description of a log: its numbers as frames, and as tables for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from toolkit.log.describe.caps import ONE_CAP

if TYPE_CHECKING:
    from toolkit.show import Table

_COVERED = "covered: valid traces with a score; AUC within: mean over examples with right and wrong traces"


@dataclass(frozen=True)
class Description:
    """A log in numbers, as polars frames.

    - `tables`: table, shards, rows.
    - `pools`: pool, action, examples, traces, fewest and most per example, sizes (a histogram in text where they
      differ), answers_read (share of answers that are not null), valid (share, in the label space where there
      is one), judged (share), accuracy (share of judged traces that are right), prompt_tokens and
      completion_tokens (sums; null where any is not logged).
    - `verifiers`: verifier, pool, action, scores, coverage (share of valid traces with a score), auc (over all
      judged traces), auc_within (mean over examples with right and wrong traces), token sums.
    - `caps`: kind, of, cap (the key that is capped), all and most (the largest cap that 100 % and 95 % of the
      examples support; null: no limit), rest (what is missing in the others, in words).
    """

    name: str
    sealed: bool
    simulated: bool
    examples: int
    judged: int
    tables: pl.DataFrame
    pools: pl.DataFrame
    verifiers: pl.DataFrame
    caps: pl.DataFrame
    notes: tuple[str, ...]

    def terminal(self, width: int = 160, color: bool = False) -> str:
        """All tables, one under the other; those without rows are left out."""
        return "\n".join(table.terminal(width, color) for table in self.as_tables())

    def as_tables(self) -> list[Table]:
        """The description as tables, which also write Markdown and CSV."""
        from toolkit.show import SIMULATED, Number, Words

        text, whole, share, ratio = Words(), Number(), Number(1, 100.0), Number(3)
        state = "sealed" if self.sealed else "unsealed"
        judged = f"{self.examples:,} examples, {self.judged:,} of them judged"
        notes = [SIMULATED] if self.simulated else []
        made = [
            _table(
                f"{self.name} ({state}): {judged}",
                self.tables,
                {"table": ("table", text), "shards": ("shards", whole), "rows": ("rows", whole)},
                above=notes,
                below=list(self.notes),
            ),
            _table(
                "Traces",
                self.pools,
                {
                    "pool": ("pool", text), "action": ("action", text), "examples": ("examples", whole),
                    "traces": ("traces", whole), "fewest": ("fewest", whole), "most": ("most", whole),
                    "sizes": ("per example", text), "answers_read": ("read %", share), "valid": ("valid %", share),
                    "judged": ("judged %", share), "accuracy": ("right %", share),
                    "prompt_tokens": ("prompt tokens", whole), "completion_tokens": ("completion tokens", whole),
                },
            ),
            _table(
                "Verifiers",
                self.verifiers,
                {
                    "verifier": ("verifier", text), "pool": ("pool", text), "action": ("action", text),
                    "scores": ("scores", whole), "coverage": ("covered %", share), "auc": ("AUC", ratio),
                    "auc_within": ("AUC within", ratio), "prompt_tokens": ("prompt tokens", whole),
                    "completion_tokens": ("completion tokens", whole),
                },
                below=[_COVERED],
            ),
            _table(
                "Policies that the log supports",
                _worded(self.caps),
                {
                    "kind": ("policy", text), "of": ("of", text), "cap": ("cap", text), "all": ("all", text),
                    "most": ("95 %", text), "rest": ("missing in the rest", text),
                },
                below=_below(self.caps),
            ),
        ]  # fmt: skip
        return [table for table in made if table is not None]


def _below(caps: pl.DataFrame) -> list[str]:
    notes = ["all, 95 %: the largest cap that all, or 95 %, of the log's examples support"]
    exact = [kind for kind in ONE_CAP if kind in set(caps["kind"])]
    if exact:
        notes.append(f"{'; '.join(exact)}: smaller caps may not be supported, since one call's traces stay together")
    return notes


def _worded(caps: pl.DataFrame) -> pl.DataFrame:
    """Caps as words: `any` where nothing limits them, `none` where not even 1 is supported."""
    names = ("all", "most")
    words = (
        pl.when(pl.col(n).is_null()).then(pl.lit("any"))
        .when(pl.col(n) == 0).then(pl.lit("none"))
        .otherwise(pl.col(n).cast(pl.String)).alias(n)
        for n in names
    )  # fmt: skip
    return caps.with_columns(words)


def _table(
    title: str,
    frame: pl.DataFrame,
    columns: dict[str, tuple[str, Any]],
    above: list[str] | None = None,
    below: list[str] | None = None,
) -> Table | None:
    from toolkit.show import Table, TableColumn

    if not frame.height:
        return None
    shown = [name for name in columns if frame[name].null_count() < frame.height and set(frame[name]) != {""}]
    return Table(
        title,
        tuple(TableColumn(columns[name][0], columns[name][1], key=name, beneath=name == "rest") for name in shown),
        tuple(frame.select(shown).iter_rows()),
        above=tuple(above or ()),
        below=tuple(below or ()),
    )
