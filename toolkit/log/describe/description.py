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
    "trend_z": "z of trend", "lag_expected": "expected", "lag_z": "z of lag", "share_between": "between %",
    "at_limit": "at limit %", "finalized": "finalized %", "size_right": "size, right", "size_right_z": "z of right",
    "size_agreement": "size, agreement", "size_agreement_z": "z of agreement",
    "share": "rows %", "coverage": "covered %", "auc": "AUC", "auc_within": "AUC within",
    "kind": "policy", "rest": "missing in the rest",
}  # fmt: skip
_DECIMALS = {"trend": 5, "between": 4, "sampling": 4, "lag": 4, "lag_expected": 4} | dict.fromkeys(
    ("trend_z", "lag_z", "size_right_z", "size_agreement_z", "latency_s", "batched"), 2
)
_ORDER = (
    "trend: change of the share right from one sample index to the next; lag: correlation of neighbouring traces, "
    "expected: where order carries no meaning",
    "between: variance of the share right between questions; sampling: of traces around it; between %: the first over "
    "the sum of both",
)
_SETTINGS = (
    "settings: models, temperatures and limits together; mixed: groups with several",
    "at limit: cut off there, so no answer under a smaller limit; finalized: answered by a second call",
)
_REPEATS = "repeats: readings of a text that it has read before; noise: deviation of these scores over that of all"
_CAPS = "all, 95 %: the largest cap that all, or 95 %, of the log's examples support"
_COVERED = "covered: valid traces with a score; AUC within: mean over examples with right and wrong traces"


@dataclass(frozen=True)
class Description:
    """A log's numbers, as polars frames and as tables for people.

    - `tables`: table, shards, rows.
    - `pools`: pool, action, examples, traces, fewest and most per example, sizes (a histogram in text where they
      differ), answers_read (share of answers that are not null), valid (share, in the label space where there
      is one), judged (share), accuracy (share of judged traces that are right), prompt_tokens and
      completion_tokens (sums; null where any is not logged).
    - `verifiers`: verifier, pool, action, scores, coverage (share of valid traces with a score), auc (over all
      judged traces), auc_within (mean over examples with right and wrong traces), repeats (how often it read a text
      again, in the first 50,000 traces), noise (standard deviation of its scores of one text, as a share of that of
      all of them), token sums.
    - `caps`: kind, of, cap (the key that is capped), all and most (the largest cap that 100 % and 95 % of the
      examples support; null: no limit), rest (what is missing in the others, in words).
    - `order`: pool, action, groups (examples, or traces that were revised, with at least two judged traces), trend
      (change of the share right from one sample index to the next) and trend_z; lag (correlation of neighbouring
      traces), lag_expected (where order carries no meaning) and lag_z; between and sampling (variance between the
      groups' true shares right, and of traces around them), share_between.
    - `settings`: pool, action, settings (distinct model, temperature and limit together), mixed (groups with several),
      prefix (whether fewer traces are the first ones of more), at_limit and finalized (shares of traces that their
      limit cut off, and that a second call gave an answer), latency_s and device_s (means where both are logged),
      batched (their ratio); size_right and size_agreement (correlation of a group's number of traces with its share
      right and with the share of its pairs that agree), with size_right_z and size_agreement_z.
    - `recorded`: table, column, values (rows that have one), share (of the table's rows), for columns that only some
      policies read; those without a value are left out.
    - `labels`: dataset, split, gold, examples (with this gold label), of examples that have a label space.
    - `remarks`: which assumptions of docs/assumptions.md the log contradicts, in words.
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
    order: pl.DataFrame
    settings: pl.DataFrame
    recorded: pl.DataFrame
    labels: pl.DataFrame
    notes: tuple[str, ...]
    remarks: tuple[str, ...]

    def terminal(self, width: int = 160, color: bool = False) -> str:
        """All tables as terminal text, one after the other, without tables that have no rows."""
        return "\n".join(table.terminal(width, color) for table in self.as_tables())

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.as_tables())

    def as_tables(self) -> list[Table]:
        """The description as tables, which can also be written as Markdown and CSV."""
        from toolkit.show import SIMULATED

        state = "sealed" if self.sealed else "unsealed"
        names = set(self.tables["table"])
        alone = "traces" not in names and bool({"rounds", "checks"} & names)  # only traces are judged in the log
        judged = "" if alone else f", {self.judged:,} of them judged"
        title = f"{self.name} ({state}): {self.examples:,} examples{judged}"
        # `any` where nothing limits a policy, `none` where not even 1 is supported
        words = (pl.col(n).cast(pl.String).replace("0", "none").fill_null("any") for n in ("all", "most"))
        words_of_prefix = pl.when("prefix").then(pl.lit("")).otherwise(pl.lit("no"))
        settings, verifiers = self.settings.with_columns(prefix=words_of_prefix), self.verifiers
        if not verifiers["repeats"].sum():
            verifiers = verifiers.drop("repeats")
        caps = self.caps.with_columns(words).rename({"most": "95 %"})
        exact = "; ".join(kind for kind in ONE_CAP if kind in set(caps["kind"]))
        together = [f"{exact}: smaller caps may not be supported, since one call's traces stay together"] * bool(exact)
        tables = [
            _table(title, self.tables, above=[SIMULATED] if self.simulated else [], below=self.notes),
            _table("Gold labels", self.labels),
            _table("Traces", self.pools),
            _table("Verifiers", verifiers, below=[_COVERED, *([_REPEATS] if "repeats" in verifiers.columns else [])]),
            _table("Order and spread of traces", self.order, below=_ORDER),
            _table("Settings and measurement", settings, below=(*_SETTINGS, *self.remarks)),
            _table("Columns that some policies read", self.recorded),
            _table("Policies that the log supports", caps, below=[_CAPS, *together]),
        ]
        return [table for table in tables if table is not None]


def _table(title: str, frame: pl.DataFrame, above: Sequence[str] = (), below: Sequence[str] = ()) -> Table | None:
    """A frame as a table with headings for people, without columns that say nothing. Shares are in per cent."""
    from toolkit.show import Number, Table, TableColumn, Words

    if not frame.height:
        return None
    columns: list[TableColumn] = []
    for name, dtype in frame.schema.items():
        if frame[name].null_count() < frame.height and set(frame[name]) != {""}:
            heading = _HEADINGS.get(name, name.replace("_", " "))
            decimals = _DECIMALS.get(name, 3 if dtype.is_float() else 0)
            number = Number(1, 100.0) if heading.endswith("%") else Number(decimals)
            form = Words() if dtype == pl.String else number
            drop = 0 if dtype == pl.String else len(columns)  # on a narrow terminal the last numbers give way
            core = name == "accuracy"  # a narrow terminal keeps it
            columns.append(TableColumn(heading, form, key=name, drop=drop, beneath=name == "rest", core=core))
    rows = tuple(frame.select(column.key for column in columns).iter_rows())
    return Table(title, tuple(columns), rows, above=tuple(above), below=tuple(below))
