"""A folder is a source: the files in it, or below it where their paths tell columns or it has none of its own."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.errors import refuses
from tests.imports.makers import HEAD, TRACES, Bench, sample
from tests.imports.test_paths import placed
from toolkit.log import Log

FOLDERS = (
    'path = "{model}/{task}.jsonl"\n'
    + HEAD.replace("\"'d'\"", '"task"').replace('"id"', "\"CONCAT(task, '/', id)\"")
    + TRACES.replace("\"'p'\"", '"model"')
)


def pools(log: Log) -> list[tuple[str, str]]:
    found = log.scan("traces").join(log.scan("examples"), on="example_id").select("pool", "dataset").collect()
    return sorted(set(found.rows()))


@pytest.mark.parametrize("source", ["run", "run/", "ru*", "run/*", "file://{}/run", "run/**/*.jsonl"])
def test_a_folder_of_folders_whose_names_are_columns(bench: Bench, source: str) -> None:
    placed(bench.folder, "run/big/gsm.jsonl", "run/big/aime.jsonl.gz", "run/small/gsm.jsonl", "run/.tmp/x.jsonl")
    packed = bench.folder / "run/big/aime.jsonl.gz"
    packed.write_bytes(gzip.compress(packed.read_bytes()))
    given = source.format(bench.folder) if "{}" in source else str(bench.folder / source)
    packs = [] if source.endswith(".jsonl") else [("big", "aime")]
    assert pools(bench.run(given, FOLDERS)) == [*packs, ("big", "gsm"), ("small", "gsm")]


def test_files_of_a_folder_that_do_not_fit_are_counted(bench: Bench) -> None:
    placed(bench.folder, "run/big/gsm.jsonl", "run/summary.jsonl", "run/big/notes.csv", "run/readme.txt")
    assert pools(bench.run(str(bench.folder / "run"), FOLDERS)) == [("big", "gsm")]
    assert bench.report is not None
    assert [note for note in bench.report.notes if note.startswith("2 files") and "`path`" in note]


def test_a_folder_may_be_one_that_the_path_names(bench: Bench) -> None:
    placed(bench.folder, "run/big/gsm.jsonl", "run/big/aime.jsonl")
    assert pools(bench.run(str(bench.folder / "run/big"), FOLDERS)) == [("big", "aime"), ("big", "gsm")]


def test_a_folder_without_files_of_its_own_means_those_below(bench: Bench) -> None:
    placed(bench.folder, "run/a/x.jsonl", "run/b/c/y.jsonl")
    for number, name in enumerate(("run/a/x.jsonl", "run/b/c/y.jsonl")):
        (bench.folder / name).write_text(json.dumps(sample(f"e{number}", "1")) + "\n")
    assert bench.run(str(bench.folder / "run"), HEAD + TRACES).scan("traces").collect().height == 2


def test_the_joined_file_of_a_folder_is_none_of_its_samples(bench: Bench) -> None:
    placed(bench.folder, "run/big/gsm.jsonl", "run/small/gsm.jsonl")
    (bench.folder / "run" / "levels.csv").write_text("id,level\ne,hard\n")
    joined = 'join = { file = "levels.csv", on = "id" }\n'
    log = bench.run(str(bench.folder / "run"), joined + FOLDERS + '[traces.extra]\nlevel = "level"\n')
    assert log.scan("traces").collect()["level"].to_list() == ["hard", "hard"]


@pytest.mark.parametrize(
    ("files", "refusal"),
    [
        (["run/notes.txt"], ("not-found", "`.parquet`")),
        (["run/a/x.csv"], ("ambiguous", "`path`", "`{model}/{task}.jsonl`")),
    ],
)
def test_a_folder_that_holds_nothing_to_import(bench: Bench, files: list[str], refusal: tuple[str, ...]) -> None:
    placed(bench.folder, *files)
    with refuses(*refusal):
        bench.run(str(bench.folder / "run"), FOLDERS)


JOINED = 'join = { file = "q.jsonl", on = "id" }\n' + HEAD + TRACES


def test_the_joined_file_is_no_source(bench: Bench) -> None:
    rows = [sample("a"), sample("b")]
    (bench.folder / "s.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (bench.folder / "q.jsonl").write_text("\n".join(json.dumps({"id": one["id"], "level": 1}) for one in rows))
    with refuses("unsuitable", "q.jsonl"):
        bench.run(str(bench.folder / "q.jsonl"), JOINED)
    log = bench.run(str(bench.folder / "*.jsonl"), JOINED)
    assert log.rows("traces") == 2
