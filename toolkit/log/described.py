"""A description in words and tables, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from toolkit.log.caps import ONE_CAP

if TYPE_CHECKING:
    from toolkit.log.describing import Description
    from toolkit.show import Table


def as_text(description: Description, width: int = 160, color: bool = False) -> str:
    """All tables, one under the other; those without rows are left out."""
    return "\n".join(table.terminal(width, color) for table in as_tables(description))


def as_tables(description: Description) -> list[Table]:
    """The description as tables, which also write Markdown and CSV."""
    from toolkit.show import SIMULATED, Number, Text

    text, whole, share, ratio = Text(), Number(), Number(1, 100.0), Number(3)
    state = "sealed" if description.sealed else "unsealed"
    judged = f"{description.examples:,} examples, {description.judged:,} of them judged"
    notes = [SIMULATED] if description.simulated else []
    made = [
        _table(
            f"{description.name} ({state}): {judged}",
            description.tables,
            {"table": ("table", text), "shards": ("shards", whole), "rows": ("rows", whole)},
            above=notes,
            below=list(description.notes),
        ),
        _table(
            "Traces",
            description.pools,
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
            description.verifiers,
            {
                "verifier": ("verifier", text), "pool": ("pool", text), "action": ("action", text),
                "scores": ("scores", whole), "coverage": ("covered %", share), "auc": ("AUC", ratio),
                "auc_within": ("AUC within", ratio), "prompt_tokens": ("prompt tokens", whole),
                "completion_tokens": ("completion tokens", whole),
            },
            below=["covered: valid traces with a score; AUC within: mean over examples with right and wrong traces"],
        ),
        _table(
            "What policies can be served",
            _worded(description.caps),
            {
                "kind": ("policy", text), "of": ("of", text), "cap": ("cap", text), "all": ("all", text),
                "most": ("95 %", text), "rest": ("what the rest lack", text),
            },
            below=_below(description.caps),
        ),
    ]  # fmt: skip
    return [table for table in made if table is not None]


def _below(caps: pl.DataFrame) -> list[str]:
    notes = ["all, 95 %: the largest cap that so many of the log's examples can serve"]
    exact = [kind for kind in ONE_CAP if kind in set(caps["kind"])]
    if exact:
        notes.append(f"{'; '.join(exact)}: smaller caps may not be served, since one call's traces stay together")
    return notes


def _worded(caps: pl.DataFrame) -> pl.DataFrame:
    """Caps as words: `any` where nothing limits them, `none` where not even 1 is served."""
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
    from toolkit.show import Column, Table

    if not frame.height:
        return None
    shown = [name for name in columns if frame[name].null_count() < frame.height and set(frame[name]) != {""}]
    return Table(
        title,
        tuple(Column(columns[name][0], columns[name][1], key=name, beneath=name == "rest") for name in shown),
        tuple(frame.select(shown).iter_rows()),
        above=tuple(above or ()),
        below=tuple(below or ()),
    )
