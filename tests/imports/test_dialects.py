"""Files are read by what they hold: other separators and codings than their names say, white space, all of a list."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import polars as pl
import pytest

from tests.errors import refuses
from tests.imports.makers import HEAD, TRACES, Bench
from toolkit.answers import number_form, read_answers
from toolkit.imports.rows.sources import SourceRules, find_sources, read_sources, source_blocks

ROWS = [{"id": "a", "q": "Größe; 2 + 2?", "gold": "4", "a": "4"}, {"id": "b", "q": "x,y", "gold": "5", "a": "é"}]


def written(separator: str) -> str:
    lines = [ROWS[0].keys(), *(row.values() for row in ROWS)]
    return "".join(separator.join(f'"{cell}"' for cell in line) + "\n" for line in lines)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_table_is_read_whatever_its_name_separator_and_coding(
    tmp_path: Path, name: str, separator: str, coding: str
) -> None:
    (tmp_path / name).write_bytes(written(separator).encode(coding))
    frame = read_sources([str(tmp_path / name)], SourceRules()).table.frame
    assert frame.select(list(ROWS[0])).to_dicts() == ROWS


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_table_that_is_read_from_disk_may_have_any_coding(tmp_path: Path, coding: str) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "a.csv").write_bytes(written(",").encode(coding))
    files = find_sources([str(tmp_path / "a.csv")], SourceRules())
    (table,) = source_blocks(files, SourceRules(), tmp_path / "scratch", {})
    assert table.frame.select(list(ROWS[0])).to_dicts() == ROWS


@pytest.mark.parametrize("coding", ["utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_json_may_have_any_coding(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    coding: str,
    whole: bool,
    name: str,
) -> None:
    monkeypatch.setattr(logging.getLogger("thinkback"), "filters", [])  # a command before may have set its own
    rows = [json.dumps(row, ensure_ascii=False) for row in ROWS]
    text = "\n".join(rows) if name == "a.jsonl" else f"[{', '.join(rows)}]"
    (tmp_path / name).write_bytes(text.encode(coding))
    files = find_sources([str(tmp_path / name)], SourceRules())
    with caplog.at_level("WARNING", "thinkback"):
        blocks = list(source_blocks(files, SourceRules(), None if whole else tmp_path, {}))
    assert pl.concat(block.frame for block in blocks).select(list(ROWS[0])).to_dicts() == ROWS
    assert len(caplog.records) == (coding == "cp1252")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "\n".join(map(json.dumps, ROWS))),
        ("a.jsonl", json.dumps(ROWS)),
        ("a.txt", json.dumps(ROWS, indent=1)),
        ("a.txt", "\n".join(map(json.dumps, ROWS))),
    ],
)
def test_json_is_read_whatever_its_name(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_sources([str(tmp_path / name)], SourceRules()).table.frame.select(list(ROWS[0])).to_dicts() == ROWS


def test_files_of_white_space_are_runs_and_judgements(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("7 Q0 d1 1 3.50 bm25\n7\tQ0\td2  2 -1e-3 bm25\n", encoding="utf-8")
    (tmp_path / "a.qrels").write_text("7 0 d1 1\n7 0 d2 0\n", encoding="utf-8")
    run, qrels = (read_sources([str(tmp_path / name)], SourceRules()).table.frame for name in ("a.run", "a.qrels"))
    assert run.select("qid", "docno", "rank", "score", "run").rows() == [
        ("7", "d1", "1", "3.50", "bm25"), ("7", "d2", "2", "-1e-3", "bm25"),
    ]  # fmt: skip
    assert qrels.select("qid", "docno", "relevance").rows() == [("7", "d1", "1"), ("7", "d2", "0")]


def test_what_begins_like_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("It was a dark night.\nThe rain fell.\n", encoding="utf-8")
    with refuses("format", "a.txt"):
        read_sources([str(tmp_path / "a.txt")], SourceRules())


def test_a_sum_over_a_list_of_objects(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    content = [[{"logprob": -0.5, "t": "a"}, {"logprob": -1.25, "t": "b"}], [{"logprob": -2, "t": "c"}], []]
    rows = [{"id": f"{n}", "q": "Q", "gold": "1", "a": "1", "lp": {"content": one}} for n, one in enumerate(content)]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    log = bench.run(str(path), HEAD + TRACES + 'sum_logprob = "sum(lp.content[*].logprob)"\n')
    assert log.scan("traces").collect().sort("example_id")["sum_logprob"].to_list() == [-1.75, -2.0, 0.0]
    (tmp_path / "x").mkdir()
    with refuses("invalid", "logprob", "[*]"):
        Bench(tmp_path / "x").run(str(path), HEAD + TRACES + 'sum_logprob = "sum(lp.content.logprob)"\n')


def test_full_width_digits_are_numbers() -> None:
    forms = {"４２": "42", "－１，２３４．５": "-1234.5", "３／４": "0.75", "５０％": "50"}
    assert {text: number_form(text) for text in forms} == forms
    assert read_answers(pl.Series(["答えは４２です。"]), ["last number"]).to_list() == ["42"]
