"""Mappings of other rows than traces: rounds of a retrieval, and checks of a text as it unfolds."""

from __future__ import annotations

from pathlib import Path

import pytest

import replay
from tests.errors import refuses
from tests.imports.makers import Bench, Row
from toolkit.imports import import_table
from toolkit.log import collect, open_log, validate_log

EXAMPLES = """
[examples]
example_id = "qid"
dataset = "'d'"
split = "'test'"
question = "q"
"""
ROUNDS = """
gold_documents = "gold_docs"
[pools.r]
explore = "relevance"
[rounds]
pool = "'r'"
hop = 0
round = "step"
documents = "docs[*].id"
relevance = "docs[*].score"
retrieval_rank = "docs[*].rank"
answers = "answers"
clusters = "clusters"
answer_scores = "conf"
contradictions = "contra"
calls = 1
[rounds.extra]
seen = "step + 1"
"""
CHECKS = """
length = "words"
gold_error = "wrong"
[pools.c]
sees = "claims"
[[checks]]
where = "kind = 'check'"
pool = "'c'"
claim = "claim"
round = 0
stage = "'stream'"
position = "at"
verdict = "verdict"
gold_verdict = "label"
queries = 1
[[checks]]
where = "kind = 'nothing'"
pool = "'c'"
claim = "claim"
round = 0
stage = "'stream'"
position = "at"
verdict = "'none'"
queries = 0
"""
BATCHES: list[Row] = [
    {"qid": "a", "q": "who?", "gold_docs": ["d2"], "step": 0, "answers": ["x", "y"], "clusters": [0, 1],
     "conf": [0.5, 0.25], "contra": 1,
     "docs": [{"id": "d1", "score": 0.5, "rank": 3}, {"id": "d3", "score": 0.25, "rank": None}]},
    {"qid": "a", "q": "who?", "gold_docs": ["d2"], "step": 1, "answers": ["x"], "clusters": [0], "conf": [0.75],
     "contra": 0, "docs": [{"id": "d2", "score": 0.75, "rank": 0}]},
    {"qid": "b", "q": "what?", "gold_docs": ["d9"], "step": 0, "answers": [], "clusters": [], "conf": [],
     "contra": None, "docs": []},
]  # fmt: skip
CLAIMS: list[Row] = [
    {"qid": "t", "q": "text", "words": 9, "wrong": True, "kind": kind, "claim": claim, "at": at, "verdict": verdict,
     "label": label}
    for claim, (kind, at, verdict, label) in enumerate(
        [("check", 2, "supported", "supported"), ("nothing", 3, None, None), ("check", 5, "refuted", None)]
    )
]  # fmt: skip


def mapping(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(EXAMPLES + text, encoding="utf-8")
    return path


def test_rounds_are_imported_and_replayed(bench: Bench) -> None:
    source = bench.rows(BATCHES, "rows.jsonl")
    report = import_table(source, mapping(bench.folder, ROUNDS), bench.folder / "log")
    assert (report.examples, report.traces, report.rounds, report.checks) == (2, 0, 3, 0)
    log = open_log(bench.folder / "log")
    assert validate_log(log).problems == ()
    names = ["round", "documents", "retrieval_rank", "answer_scores", "contradictions", "seen"]
    rows = collect(log.scan("rounds"), log).filter(example_id="a").sort("round").select(names).rows()
    assert rows == [(0, ["d1", "d3"], [3, None], [0.5, 0.25], 1, 1), (1, ["d2"], [0], [0.75], 0, 2)]
    text = '[[policy]]\nname = "p"\nkind = "retrieve"\nrounds = 2\nat = [1]\n'
    result = replay.run(log, text, resamples=2)
    assert result.outcomes.collect().sort("example_id")["hit_1"].to_list() == [1.0, 0.0]
    assert "explore_unknown" not in {note.code for note in result.notes}


def test_checks_are_imported_and_replayed(bench: Bench) -> None:
    source = bench.rows(CLAIMS, "rows.jsonl")
    report = import_table(source, mapping(bench.folder, CHECKS), bench.folder / "log")
    assert (report.examples, report.traces, report.rounds, report.checks) == (1, 0, 0, 3)
    log = open_log(bench.folder / "log")
    assert validate_log(log).problems == ()
    assert log.manifest is not None
    assert log.manifest.pool_setting("c", "sees") == "claims"
    rows = collect(log.scan("checks"), log).sort("claim").select("claim", "verdict", "gold_verdict", "queries").rows()
    assert rows == [(0, "supported", "supported", 1), (1, "none", None, 0), (2, "refuted", None, 1)]
    result = replay.run(log, '[[policy]]\nname = "p"\nkind = "buzz"\n', resamples=2)
    outcome = result.outcomes.collect().row(0, named=True)
    assert (outcome["position"], outcome["found"], outcome["claims_right"]) == (5.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ('round = "step"', 'round = "2 * step"', ("invalid", "`rounds.round`", "row 2", "`2`")),
        ('round = "step"\n', "", ("required", "`rounds.round`")),
        ('relevance = "docs[*].score"', 'relevance = "docs[*].id"', ("invalid", "`rounds.relevance`")),
        ("hop = 0", "hop = 0\nstage = 1", ("unknown", "`stage`", "`[rounds]`")),
        ('"relevance"', '"random"', ("invalid", "`pools.r.explore`", "random")),
        ("[rounds]", "[rounds]\nwhere = \"step > 9\"", ("empty", "`where`")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_place(bench: Bench, old: str, new: str, refusal: tuple[str, ...]) -> None:
    source = bench.rows(BATCHES, "rows.jsonl")
    assert ROUNDS.count(old) >= 1
    with refuses(*refusal):
        import_table(source, mapping(bench.folder, ROUNDS.replace(old, new, 1)), bench.folder / "log")
    assert not (bench.folder / "log").exists()


def test_a_mapping_of_no_rows_is_refused(bench: Bench) -> None:
    with refuses("required", "`[traces]`", "`[rounds]`", "`[checks]`"):
        import_table(bench.rows(BATCHES, "rows.jsonl"), mapping(bench.folder, ""), bench.folder / "log")
