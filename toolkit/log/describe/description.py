"""A description of a log: its numbers as frames, and as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from toolkit.log.describe.caps import ONE_CAP

if TYPE_CHECKING:
    from toolkit.show import Table

_HEADINGS = {
    "sizes": "per example", "answers_read": "read %", "valid": "valid %", "judged": "judged %", "accuracy": "right %",
    "coverage": "covered %", "auc": "AUC", "auc_within": "AUC within", "kind": "policy", "rest": "missing in the rest",
}  # fmt: skip
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
        from toolkit.show import SIMULATED

        state = "sealed" if self.sealed else "unsealed"
        title = f"{self.name} ({state}): {self.examples:,} examples, {self.judged:,} of them judged"
        # `any` where nothing limits a policy, `none` where not even 1 is supported
        words = (pl.col(n).cast(pl.String).replace("0", "none").fill_null("any") for n in ("all", "most"))
        caps = self.caps.with_columns(words).rename({"most": "95 %"})
        made = [
            _table(title, self.tables, above=[SIMULATED] if self.simulated else [], below=self.notes),
            _table("Traces", self.pools),
            _table("Verifiers", self.verifiers, below=[_COVERED]),
            _table("Policies that the log supports", caps, below=_below(self.caps)),
        ]
        return [table for table in made if table is not None]


def _below(caps: pl.DataFrame) -> list[str]:
    notes = ["all, 95 %: the largest cap that all, or 95 %, of the log's examples support"]
    exact = [kind for kind in ONE_CAP if kind in set(caps["kind"])]
    if exact:
        notes.append(f"{'; '.join(exact)}: smaller caps may not be supported, since one call's traces stay together")
    return notes


def _table(title: str, frame: pl.DataFrame, above: Sequence[str] = (), below: Sequence[str] = ()) -> Table | None:
    """A frame with headings for people, without columns that say nothing; shares in per cent."""
    from toolkit.show import Number, Table, TableColumn, Words

    if not frame.height:
        return None
    columns = []
    for name, dtype in frame.schema.items():
        if frame[name].null_count() < frame.height and set(frame[name]) != {""}:
            heading = _HEADINGS.get(name, name.replace("_", " "))
            number = Number(1, 100.0) if heading.endswith("%") else Number(3 if dtype.is_float() else 0)
            form = Words() if dtype == pl.String else number
            columns.append(TableColumn(heading, form, key=name, beneath=name == "rest"))
    rows = tuple(frame.select(column.key for column in columns).iter_rows())
    return Table(title, tuple(columns), rows, above=tuple(above), below=tuple(below))
