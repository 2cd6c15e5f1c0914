"""Requests that ask the same: a format that knows requests alone makes an example of each, though they may be one."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from toolkit.errors import counted
from toolkit.imports.map.mapping import ROW_ORDER, ImportMapping
from toolkit.log import collect, open_log


def asked_again(log: Path, mapping: ImportMapping) -> list[str]:
    """A line where examples have the question of another, with the settings that make them one."""
    opened = open_log(log)
    questions = collect(opened.scan("examples", ["question"]).select(pl.col("question").hash()), opened).to_series()
    again = questions.len() - questions.n_unique()
    if not again:
        return []
    settings = [f"--set 'examples.example_id={mapping.examples.columns['question']}'"]
    if any(table.columns["sample_index"] != ROW_ORDER for table in mapping.traces):
        settings.append(f"--set 'traces.sample_index={ROW_ORDER}'")
    told = f"{counted(again, 'example has', 'examples have')} the question of another, under an id of"
    return [
        f"{told} {'its' if again == 1 else 'their'} own; to make samples of one example of them: {' '.join(settings)}"
    ]
