"""The study of retrieval with an answer frontier: cells of its tables derived again, plainly, from the log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from replay.studies.kit.report import StudyReport
from tests.studies.multihop import by_round, cells, fair, plain, recall, report, sunar, world
from toolkit.log import Log, collect, open_log

TEST = pl.col("split") == "test"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return open_log(world(tmp_path_factory.mktemp("multihop") / "log"))


@pytest.fixture(scope="module")
def found(log: Log) -> StudyReport:
    return report(log)


@pytest.fixture(scope="module")
def examples(log: Log) -> pl.DataFrame:
    return collect(log.scan("examples", ["example_id", "split", "gold", "gold_documents"]).filter(TEST), log)


@pytest.fixture(scope="module")
def traces(log: Log, examples: pl.DataFrame) -> pl.DataFrame:
    """The chains of the reported questions, with the scores of both verifiers."""
    rows = collect(log.scan("traces", ["trace_id", "example_id", "pool", "sample_index", "answer", "correct"]), log)
    scores = collect(log.scan("verifications", ["trace_id", "verifier", "score"]), log)
    wide = scores.pivot("verifier", index="trace_id", values="score")
    return rows.join(examples, on="example_id", how="semi").join(wide, on="trace_id")


def test_rankings_are_those_of_a_plain_loop(found: StudyReport, log: Log, examples: pl.DataFrame) -> None:
    rounds = collect(
        log.scan("rounds", ["example_id", "hop", "round", "documents", "relevance", "answers", "clusters"]), log
    )
    rows = cells(found, "table_5_1", "ranking")
    rankings = {"plain re-ranking": plain, "SUNAR": sunar, "FAIR": fair, "FAIR (round by round)": by_round}
    for name, factor in rankings.items():
        for k in (1, 10):
            share, hit = recall(examples, rounds, factor, k)
            assert rows[name,][f"recall_{k}"].estimate == pytest.approx(share), (name, k)
            assert rows[name,][f"hit_{k}"].estimate == pytest.approx(hit), (name, k)
    gap = rows["SUNAR",]["minus_plain"]
    least, most = (recall(examples, rounds, factor, 10)[0] for factor in (plain, sunar))
    assert gap.estimate == pytest.approx(most - least)
    assert gap.low <= gap.estimate <= gap.high


def test_answers_are_means_over_chains_then_questions(found: StudyReport, traces: pl.DataFrame) -> None:
    rows = cells(found, "table_5_4", "pool")
    right = (
        traces.group_by("pool", "example_id")
        .agg(pl.col("correct").mean())
        .group_by("pool")
        .agg(pl.col("correct").mean())
    )
    assert len(rows) == 6
    for pool, share in right.iter_rows():
        assert rows[pool,]["cover"].estimate == pytest.approx(100 * share)
        assert rows[pool,]["exact"].estimate == pytest.approx(100 * share)


def test_ways_of_selecting_are_those_of_a_plain_loop(found: StudyReport, traces: pl.DataFrame) -> None:
    rows = cells(found, "table_5_5", "reader", "evidence", "selected by", "verifier")
    means = {}
    for (pool,), of_pool in traces.group_by("pool"):
        right: Counter[tuple[str, str]] = Counter()
        for _, chains in of_pool.sort("sample_index").group_by("example_id"):
            answers, correct = chains["answer"].to_list(), dict(chains.select("answer", "correct").iter_rows())
            votes = Counter(answers)
            right["majority", "–"] += correct[max(votes, key=lambda a: (votes[a], -answers.index(a)))]
            for verifier in ("strong", "weak"):
                score = chains[verifier].to_list()
                sums = {a: sum(s for s, one in zip(score, answers, strict=True) if one == a) for a in votes}
                right["best of n", verifier] += chains["correct"][score.index(max(score))]
                right["weighted", verifier] += correct[max(sums, key=lambda a: sums[a])]
            right["bound of gold evidence" if str(pool).startswith("gold") else "ideal verifier", "–"] += any(
                chains["correct"]
            )
            right["single shot", "–"] += chains["correct"].mean()
        evidence, reader = str(pool).split("-")
        count = of_pool["example_id"].n_unique()
        means |= {(reader, evidence, *way): 100 * value / count for way, value in right.items()}
    assert len(means) == 6 * 7
    for key, value in means.items():
        assert rows[key]["right"].estimate == pytest.approx(value), key
        single = means[*key[:2], "single shot", "–"]
        if key[2] != "single shot":
            assert rows[key]["gain"].estimate == pytest.approx(100 * (value / single - 1))
            assert rows[key]["minus_single"].estimate == pytest.approx(value - single)
            assert rows[key]["gain"].low <= rows[key]["gain"].estimate <= rows[key]["gain"].high


def test_parts_of_the_headroom_add_up(found: StudyReport, traces: pl.DataFrame) -> None:
    rows = cells(found, "headroom", "pool", "selected by")
    some = traces.group_by("pool", "example_id").agg(pl.col("correct").any().cast(pl.Float64)).pivot(
        "pool", index="example_id", values="correct"
    )  # fmt: skip
    for (pool, way), row in rows.items():
        assert sum(row[part].estimate for part in ("generation", "retrieval", "selection")) == pytest.approx(
            row["gap"].estimate
        )
        bound = some[f"gold-{pool.split('-')[1]}"]
        assert row["generation"].estimate == pytest.approx(100 * (1 - bound.mean()))
        assert row["retrieval"].estimate == pytest.approx(100 * (bound - some[pool]).mean())
        assert row["negative"].estimate == pytest.approx(100 * ((some[pool] == 1) & (bound == 0)).mean()), way
    assert len(rows) == 4 * 7


def test_a_verifier_fixes_and_spoils_what_a_plain_loop_says(found: StudyReport, traces: pl.DataFrame) -> None:
    rows = cells(found, "fixes_and_flips", "pool", "selected by", "type")
    for pool in ("rewarded-small", "relevance-large"):
        fixes, flips = [], []
        for _, chains in traces.filter(pl.col("pool") == pool).group_by("example_id"):
            before, after = chains["correct"].mean(), float(chains.sort("strong", descending=True)["correct"][0])
            fixes.append((1 - before) * after)
            flips.append(before * (1 - after))
        row = rows[pool, "best of n: strong", "all"]
        assert row["fixes"].estimate == pytest.approx(100 * sum(fixes) / len(fixes))
        assert row["flips"].estimate == pytest.approx(100 * sum(flips) / len(flips))
        assert row["difference"].estimate == pytest.approx(row["fixes"].estimate - row["flips"].estimate)


def test_it_is_saved_as_other_studies_are(found: StudyReport, tmp_path: Path) -> None:
    folder = found.save(tmp_path / "out")
    names = {path.name for path in folder.iterdir()}
    for table in ("verdicts", "table_5_1", "table_5_4", "table_5_5", "headroom", "verifiers", "cases", "errors"):
        assert {f"{table}.csv", f"{table}.md", f"{table}.tex"} <= names, table
    for figure in ("rankings", "sensitivity", "figure_5_2", "headroom", "calibration", "fixes_and_flips"):
        assert {f"{figure}.pdf", f"{figure}.svg", f"{figure}.png"} <= names, figure
    assert {"report.md", "report.tex", "run.json", "notes.json", "cases.csv"} <= names
