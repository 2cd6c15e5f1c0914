"""Example cases: the first claim of each kind, with its traces, scores, margins and texts, worked out by hand."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import polars as pl
import pytest

from replay.studies.factcheck.cases import (
    ENDINGS,
    NO_TEXT,
    WRONG,
    IllustrativeCases,
    cases_csv,
    cases_in_words,
    cases_markdown,
    example_cases,
)
from replay.studies.factcheck.runs import FactcheckSetting, replay_methods
from tests.errors import remarked
from toolkit.log import write_log
from toolkit.show import SIMULATED

# gold, and answer and score of each trace; with the thesis's margin of 0.15 from three traces on
CLAIMS = {
    # leads: -, 0.05, 0.05, 0.02, 0.02: never enough
    "c0": ("A", [("A", 0.5), ("B", 0.45), ("A", 0.5), ("B", 0.48), ("A", 0.5)]),
    # 0.9 - 0.3 after three
    "c1": ("A", [("A", 0.9), ("A", 0.2), ("B", 0.3), ("B", 0.1), ("B", 0.1)]),
    # 0.9 - 0.6 after three; the best trace is wrong, the second is right
    "c2": ("B", [("A", 0.9), ("B", 0.6), ("A", 0.1), (None, None), ("A", 0.1)]),
    "c3": ("B", [("A", 0.9), ("B", 0.6), ("A", 0.1), ("A", 0.1), ("A", 0.1)]),
    # wrong, but nothing was right
    "a": ("B", [("A", 0.5)] * 5),
}


def cases(folder: Path, claims: tuple[str, ...] = tuple(CLAIMS), texts: bool = True) -> IllustrativeCases:
    rows = [
        (f"{claim}/{i}", claim, i, answer, answer == CLAIMS[claim][0], score, f"line 1\n*{i}* | 2" if texts else None)
        for claim in claims
        for i, (answer, score) in enumerate(CLAIMS[claim][1])
    ]
    names = ["trace_id", "example_id", "sample_index", "answer", "correct", "score", "text"]
    made = pl.DataFrame(rows, schema=names, orient="row")
    examples = pl.DataFrame({"example_id": list(claims), "gold": [CLAIMS[claim][0] for claim in claims]})
    examples = examples.with_columns(
        dataset=pl.lit("d"), split=pl.lit("test"), question=pl.lit("the claim"),
        labels=pl.lit(pl.Series([["A", "B"]])).first(),
    )  # fmt: skip
    traces = made.drop("score").with_columns(
        pool=pl.lit("p"), action=pl.lit("solve"), model=pl.lit("m"), finish_reason=pl.lit("stop"),
        completion_tokens=pl.lit(1, pl.Int32),
    )  # fmt: skip
    scores = made.select("trace_id", "example_id", "score", verifier=pl.lit("v")).drop_nulls("score")
    log = write_log(folder / "log", name="l", tables={"examples": examples, "traces": traces, "verifications": scores})
    setting = FactcheckSetting("p", "v", cap=5, options={"resamples": 10})
    return example_cases(log, setting, replay_methods(log, setting))


def test_each_kind_is_the_first_claim_by_its_id(tmp_path: Path) -> None:
    early, late, wrong = cases(tmp_path).cases
    assert [(one.kind, one.example, one.claims) for one in (early, late, wrong)] == [
        ("stops after 3 traces", "c1", 3),
        ("takes all 5 traces", "c0", 1),
        (WRONG, "c2", 2),
    ]
    assert (early.answer, early.right, early.used, early.margin, early.best) == ("A", True, 3, pytest.approx(0.6), 0.9)
    assert [one.margin for one in late.traces] == [None, *map(pytest.approx, (0.05, 0.05, 0.02, 0.02))]
    assert (late.used, late.ending, late.margin) == (5, ENDINGS["cap"], pytest.approx(0.02))
    assert (wrong.answer, wrong.right, wrong.used, wrong.margin) == ("A", False, 3, pytest.approx(0.3))
    assert [(one.answer, one.right, one.score) for one in wrong.traces][:2] == [("A", False, 0.9), ("B", True, 0.6)]
    assert len(wrong.traces) == 5


def test_a_kind_without_a_claim_is_said(tmp_path: Path) -> None:
    found = cases(tmp_path, ("c1", "a"))
    assert [one.kind for one in found.cases] == ["stops after 3 traces"]
    assert len(found.missing) == 2
    remarked(found.missing, "no_case", "takes all 5 traces")
    remarked(found.missing, "no_case", WRONG)


def test_as_markdown_and_csv_with_texts(tmp_path: Path) -> None:
    found = [("d", cases(tmp_path / "with"))]
    text = cases_markdown(found, simulated=True)
    assert f"> **{SIMULATED}**" in text
    assert (
        "### Stops after 3 traces: `c1`, d\n\n    the claim\n\n- gold: A; answer of adaptive stopping: A (right)"
        in text
    )
    assert re.search(rf" 3 of 5 traces \({ENDINGS['rule']}\); margin then: 0\.600\n", text)
    assert re.search(r"- best score: 0\.900; .* 3 claims\n", text)
    assert "| 3 | B | wrong | 0.300 | 0.600 |\n\nTrace 1:\n\n    line 1\n    *0* | 2\n" in text
    rows = list(csv.DictReader(io.StringIO(cases_csv(found, simulated=True))))
    assert len(rows) == 3 + 5 + 5
    assert rows[2] | {"score": 0.3, "margin": 0.6} == rows[2] | {
        "dataset": "d", "case": "stops after 3 traces", "example_id": "c1", "claim": "the claim", "gold": "A",
        "answer": "A", "right": "true", "stops_after": "3", "trace": "3", "trace_answer": "B", "trace_right": "false",
        "score": 0.3, "margin": 0.6, "text": r"line 1\n*2* | 2", "simulated": "true",
    }  # fmt: skip
    assert [float(row["score"]) for row in rows[:3]] == [0.9, 0.2, 0.3]
    assert NO_TEXT in cases_markdown([("d", cases(tmp_path / "out", texts=False))], False)


def test_a_paper_has_the_cases_in_a_line_each(tmp_path: Path) -> None:
    told = list(cases_in_words([("d", cases(tmp_path, ("c1", "a")))]))
    ends = "adaptive stopping ends after 3 of 5 traces, margin then 0.600"
    assert told[0] == f"d, stops after 3 traces: `c1`; gold `A`; answer of adaptive stopping: `A` (right); {ends}"
    assert told[1] == "d: takes all 5 traces: no claim"
    assert "cases.csv" in told[-1]
