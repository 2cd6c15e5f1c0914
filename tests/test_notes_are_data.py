"""Notes and remarks are data: with other words in all of them, every number, table and ranking stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from generate.simulation.recovery import RecoveryModel, _recovery_tables
from replay.policies.remarks import Counts, RemarkKind
from replay.runs.saved.display import ranked_input as _ranked
from replay.studies.factcheck.figures import missing_figure_notes
from replay.studies.factcheck.report import report_of
from replay.studies.factcheck.runs import FactcheckSetting
from replay.studies.factcheck.study import study_log, sweep_stop_settings
from replay.studies.recovery.study import LACKING, InterventionSetting, _study_dataset, choose_roles
from replay.studies.recovery.tables import tables as tables_of
from tests.studies.claims import tables, written
from toolkit.log import open_log
from toolkit.notes import Note
from toolkit.show import Table, rank, ranked_table
from toolkit.stats import Settings

MEASURED = {"table_B_3"}
"""Tables of this machine's seconds, which are never the same twice."""
POLICIES = """
[[policy]]
name = "first"
kind = "sample"
pool = "n15"
max_traces = 1
select = "first"
[[policy]]
name = "best"
kind = "sample"
pool = "n15"
max_traces = 8
verifier = "strong"
[[policy]]
name = "surrogate"
kind = "sample"
pool = "n15"
max_traces = 8
verifier = "strong"
order = "surrogate"
against = "first"
stop = { rule = "margin", margin = [0.05, 0.5] }
[[policy]]
name = "too deep"
kind = "sample"
pool = "n15"
max_traces = 40
select = "majority"
[[policy]]
name = "score"
kind = "sample"
pool = "n15"
max_traces = 8
verifier = "weak"
order = "score"
"""


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of which much must be said: raw scores, calls without a cost, a claim without one, answers of no label."""
    frames = tables()
    frames["verifications"] = frames["verifications"].with_columns(
        score=pl.when(pl.col("trace_id").str.contains("7")).then(pl.col("score") + 1).otherwise("score"),
        latency_s=pl.lit(None, pl.Float64),
    )[1:]
    odd = pl.col("sample_index") == 3
    frames["traces"] = frames["traces"].with_columns(
        answer=pl.when(odd).then(pl.lit("no label")).otherwise("answer"), correct=pl.col("correct") & ~odd
    )
    return written(tmp_path_factory.mktemp("notes") / "claims", frames)


@pytest.fixture
def reworded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Replaces every sentence of a note or a remark from now on; gives the codes of those that were replaced.

    Equal sentences are replaced by equal ones.
    """

    def replace_all() -> list[str]:
        codes: list[str] = []
        words: dict[str, str] = {}
        write = Note.__init__

        def other(text: str) -> str:
            return words.setdefault(text, f"({len(words)}) there is something else to say")

        def init(self: Note, code: str, text: str, *rest: Any, **named: Any) -> None:
            codes.append(code)
            write(self, code, other(text), *rest, **named)

        def notes(self: RemarkKind, counts: Counts) -> list[Note]:
            about = tuple(counts) if self.about_policies else ()
            return [Note(self.code, other(text), self.severity, about) for text in self.says(counts, *self.facts)]

        monkeypatch.setattr(Note, "__init__", init)
        monkeypatch.setattr(RemarkKind, "notes", notes)
        return codes

    return replace_all


def numbers(tables: dict[str, Table]) -> dict[str, Any]:
    """Columns and rows of tables, without the sentences around them."""
    return {name: (one.title, one.columns, one.rows) for name, one in tables.items() if name not in MEASURED}


def concerns(notes: Iterable[Note]) -> list[tuple[Any, ...]]:
    """All of notes but what they say."""
    return [(note.code, note.severity, note.policies, note.metrics) for note in notes]


def run(log: Path) -> dict[str, Any]:
    result = replay.run(log, POLICIES, baseline="first", by=["split"], resamples=20)
    ranked = _ranked(result, 0.01)
    frames = {"outcomes": result.outcomes.collect(), "summary": result.summary, "comparisons": result.comparisons}
    return {name: frame.to_dicts() for name, frame in frames.items()} | {
        "dropped": sorted(result.dropped),
        "left out": sorted(result.excluded),
        "leader": result.leader,
        "ranking": rank(ranked),
        "notes": concerns(result.notes),
        "table": numbers({"ranked": ranked_table(ranked)}),
    }


def factcheck(log: Path) -> dict[str, Any]:
    asked = {"resamples": 20}
    (study,) = study_log(open_log(log), FactcheckSetting("n15", "strong", caps=(20,), orders=2, options=asked))
    return {
        "tables": numbers(dict(report_of([study], "claims").tables)),
        "notes": concerns(study.notes),
        "warnings": {name: len(told) for name, told in study.warnings.items()},
        "missing": {name: len(why) for name, why in study.missing.items()},
        "figures undone": [line.partition(":")[0] for line in missing_figure_notes(study)],
        "left out": {name: sorted(ids) for name, ids in study.left_out.items()},
    }


def recovery(log: Path) -> dict[str, Any]:
    asked = InterventionSetting(
        action="active_verify", base="short", budgets=(), on="split='train'", tune="split='dev'", where="split='test'",
        gates=(), margin=0.01, prices=None, settings=Settings(resamples=5),
    )  # fmt: skip
    opened = open_log(log)
    study = _study_dataset(opened, choose_roles(opened, asked), asked, "sim-a")
    return {
        "tables": numbers(tables_of([study])),
        "notes": concerns(study.notes),
        "warnings": len(study.warnings(alone=True)),
        "lacking": {name: lack.policies_without_metric(study.result) for name, lack in LACKING.items()},
        "verdict": study.recommendation.verdict,
        "evidence": [(one.verdict, one.policy, one.holds) for one in study.recommendation.evidence],
        "left out": sorted(study.result.excluded),
    }


def test_a_run(claims: Path, reworded: Callable[[], list[str]]) -> None:
    told = run(claims)
    codes = reworded()
    assert run(claims) == told
    assert {"free_verifications", "dropped", "left_out", "outside_labels"} <= set(codes)
    assert len(set(codes)) > 6


def test_the_study_of_fact_checking(
    claims: Path, reworded: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = partial(sweep_stop_settings, margins=(0.1,), minima=(3,), bootstraps=(3,))
    monkeypatch.setattr("replay.studies.factcheck.study.sweep_stop_settings", few)
    told = factcheck(claims)
    codes = reworded()
    assert factcheck(claims) == told
    assert len(set(codes)) > 3


@pytest.mark.slow
def test_the_study_of_thinking_again(tmp_path: Path, reworded: Callable[[], list[str]]) -> None:
    frames = _recovery_tables(100, 11, RecoveryModel(votes=3))
    lost = (pl.col("pool") == "votes") & (pl.col("sample_index") == 2) & (pl.col("example_id").str.ends_with("1"))
    one_action = pl.col("action").is_in(["solve", "active_verify"])
    frames = {name: frame for name, frame in frames.items() if name in ("examples", "traces")}
    frames["traces"] = frames["traces"].filter(~lost, one_action)
    log = written(tmp_path / "log", frames)
    told = recovery(log)
    codes = reworded()
    assert recovery(log) == told
    assert codes
