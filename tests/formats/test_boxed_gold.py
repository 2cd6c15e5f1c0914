"""A reference that is a solution: what is boxed in it, or follows `####`, is the answer, in every format."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.formats.published import published, settings
from tests.seeds import seeds
from toolkit.imports import import_format
from toolkit.log import collect, open_log

GOLD = {
    "lm-eval": "target",
    "inspect": "target",
    "openai-batch": "gold",
    "vllm": "gold",
    "nemo-skills": "expected_answer",
    "matharena": "gold_answer",
    "search-and-learn": "answer",
    "verl": "gts",
}
SOLUTIONS = ("So $x = 1$ and hence \\boxed{%s}.", "First 1 + 2 = 3.\n#### %s")


def solve(path: Path, key: str, solution: str) -> None:
    """Put a solution in the place of every gold of a file."""

    def changed(row: dict[str, Any]) -> dict[str, Any]:
        return row | {key: solution % row[key]} if isinstance(row.get(key), str) else row

    if path.suffix == ".parquet":
        pl.DataFrame(list(map(changed, pl.read_parquet(path).to_dicts()))).write_parquet(path)
    elif path.suffix == ".csv":
        with path.open() as file:
            rows = list(map(changed, csv.DictReader(file)))
        pl.DataFrame(rows).write_csv(path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(json.loads(path.read_text(), object_hook=changed)))
    else:
        lines = [json.loads(line, object_hook=changed) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read(name: str, folder: Path, out: Path) -> tuple[list[str | None], int]:
    report = import_format(name, [str(folder)], out, settings=settings(name))
    log = open_log(report.log)
    return collect(log.scan("examples", ["gold"]), log)["gold"].to_list(), report.readings.right


@pytest.mark.parametrize("solution", seeds(1, [*SOLUTIONS]))
@pytest.mark.parametrize("name", GOLD)
def test_the_answer_of_a_solution_is_the_gold(name: str, solution: str, tmp_path: Path) -> None:
    folder = published(name, tmp_path)
    for part in ("eval", "chunked"):  # of Inspect; its JSON is enough
        shutil.rmtree(folder / part, ignore_errors=True)
    expected = read(name, folder, tmp_path / "plain")
    for path in filter(Path.is_file, folder.rglob("*")):
        if path.name != "expected.json":
            solve(path, GOLD[name], solution)
    assert read(name, folder, tmp_path / "solved") == expected
