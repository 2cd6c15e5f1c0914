"""The study of retrieval with an answer frontier: cells of its tables derived again, plainly, from the log."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from replay.studies.kit.published import read_published
from replay.studies.kit.report import StudyReport
from replay.studies.kit.verdicts import Answer
from replay.studies.multihop.cases import NO_CHAIN, WRONG_MAJORITY, is_other_granularity
from replay.studies.multihop.chains import evidence_of_pool
from replay.studies.multihop.published import WORK, unlike_whole_counts
from replay.studies.multihop.selection import BEST, BOUND, gap_parts
from replay.studies.multihop.study import MultihopSetting, study_log
from replay.studies.multihop.verifiers import verifier_roles
from tests.errors import refuses
from tests.logs import log_tables
from tests.studies.multihop import by_round, cells, fair, first, plain, recall, report, sunar, world
from toolkit.log import Log, collect, open_log, write_log
from toolkit.stats import Settings

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
    rankings = {"plain re-ranking": plain, "SUNAR": sunar, "FAIR": fair, "FAIR (round by round)": by_round,
                "first rounds rewarded": first}  # fmt: skip
    for name, factor in rankings.items():
        for k in (1, 10):
            share, hit = recall(examples, rounds, factor, k)
            assert rows[name,][f"recall_{k}"].estimate == pytest.approx(share), (name, k)
            assert rows[name,][f"hit_{k}"].estimate == pytest.approx(hit), (name, k)
    gap = rows["SUNAR",]["minus_plain"]
    least, most = (recall(examples, rounds, factor, 10)[0] for factor in (plain, sunar))
    assert gap.estimate == pytest.approx(most - least)
    assert gap.low <= gap.estimate <= gap.high


def test_settings_of_the_frontier_are_those_of_a_plain_loop(
    found: StudyReport, log: Log, examples: pl.DataFrame
) -> None:
    columns = ["example_id", "hop", "round", "documents", "relevance", "answers", "clusters"]
    rounds = collect(log.scan("rounds", columns), log)
    rows = cells(found, "sensitivity", "K", "multiplier", "frontier of", "support", "reward")
    assert not any((key[0], key[4]) == ("1", "single") or (key[2] == "round" and key[4] == "aligned") for key in rows)
    first = recall(examples, rounds, plain, 10)[0]
    for multiplier in (1.5, 2.0, 4.0):
        share = recall(examples, rounds, lambda r, m=multiplier: [m if f == 2 else 1.0 for f in by_round(r)], 10)[0]
        row = rows["2", str(multiplier), "round", "sum", "single"]
        assert row["recall_10"].estimate == pytest.approx(share)
        assert row["minus_plain"].estimate == pytest.approx(100 * (share - first))
        hop = recall(examples, rounds, lambda r, m=multiplier: [m if f == 2 else 1.0 for f in fair(r)], 10)[0]
        assert rows["2", str(multiplier), "hop", "sum", "single"]["recall_10"].estimate == pytest.approx(hop)
    paired = cells(found, "paired_rankings", "ranking")
    for k in (1, 10):
        for name, factor in (("SUNAR", sunar), ("FAIR", fair)):
            both = [recall(examples, rounds, one, k) for one in (factor, plain)]
            assert paired[name,][f"recall_{k}"].estimate == pytest.approx(both[0][0] - both[1][0])
            assert paired[name,][f"hit_{k}"].estimate == pytest.approx(both[0][1] - both[1][1])


def test_verifiers_are_as_good_as_pairs_of_chains_say(found: StudyReport, traces: pl.DataFrame) -> None:
    rows = cells(found, "verifiers", "verifier", "pool")
    assert len(rows) == 2 * 6
    for (verifier, pool), row in rows.items():
        chains = traces.filter(pl.col("pool") == pool)
        right, wrong = (chains.filter(pl.col("correct") == one)[verifier].to_numpy() for one in (True, False))
        pairs = (right[:, None] > wrong) + 0.5 * (right[:, None] == wrong)
        assert row["auc"].estimate == pytest.approx(100 * pairs.mean())
        brier = ((chains[verifier] - chains["correct"].cast(pl.Float64)) ** 2).mean()
        assert row["brier"].estimate == pytest.approx(brier)
        assert row["chains"] == len(chains)


def test_more_chains_are_means_over_their_orders(found: StudyReport, traces: pl.DataFrame) -> None:
    curves = found.parts[0].curves
    right = traces.filter(pl.col("pool") == "rewarded-large").group_by("example_id").agg(pl.col("correct").sum())
    for k, cell in curves["ideal verifier"]:
        shares = [1 - math.comb(4 - count, k) / math.comb(4, k) for count in right["correct"].to_list()]
        assert cell.estimate == pytest.approx(sum(shares) / len(shares))
    assert [k for k, _ in curves["majority"]] == [1, 2, 3, 4]


def test_cases_and_errors_are_counted_plainly(found: StudyReport, traces: pl.DataFrame) -> None:
    majority = none = 0
    for _, chains in traces.filter(pl.col("pool") == "rewarded-large").group_by("example_id"):
        rows = chains.sort("sample_index")
        votes = Counter(rows["answer"].to_list())
        leader = max(votes, key=lambda a: (votes[a], -rows["answer"].to_list().index(a)))
        majority += leader != "answer 0" and bool(rows["correct"].any())
        none += not rows["correct"].any()
    cases, errors = cells(found, "cases", "case"), cells(found, "errors", "error")
    assert cases[WRONG_MAJORITY,]["count"] == majority
    assert errors[NO_CHAIN,]["count"] == none
    assert errors[NO_CHAIN,]["share"].estimate == pytest.approx(100 * none / 48)


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


@pytest.fixture(scope="module")
def further(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A world with all that the study reads: two explorations, single attempts, texts, clusters, types."""
    folder = tmp_path_factory.mktemp("further") / "log"
    return open_log(world(folder, examples=50, further=True, explored=True, lost=0.3, gained=0.2))


def test_everything_that_a_log_may_have_is_shown(further: Log, tmp_path: Path) -> None:
    found = report(further)
    assert {"explored", "direct_answers", "question_types", "fixes_and_flips", "cases", "errors"} <= set(found.tables)
    assert "figure_5_1" in found.figures
    examples = collect(further.scan("examples", ["example_id", "split", "gold_documents", "question_type"]), further)
    examples = examples.filter(TEST)
    both = cells(found, "explored", "measure")["recall of all that was read",]
    rounds = collect(further.scan("rounds", ["example_id", "pool", "documents"]), further).explode("documents")
    for pool, key in (("simulated", "relevance"), ("rewarded", "rewarded")):
        read = rounds.filter(pl.col("pool") == pool).group_by("example_id").agg(pl.col("documents"))
        shares = [
            len(set(gold) & set(there)) / len(set(gold))
            for gold, there in examples.join(read, on="example_id").select("gold_documents", "documents").iter_rows()
        ]
        assert both[key].estimate == pytest.approx(sum(shares) / len(shares))
    types = cells(found, "question_types", "type")
    assert {kind: row["count"] for (kind,), row in types.items()} == dict(
        examples.group_by("question_type").len().iter_rows()
    )
    traces = collect(further.scan("traces", ["example_id", "pool", "correct"]), further)
    single = traces.join(examples, on="example_id").filter(pl.col("pool") == "rewarded-small-single")["correct"]
    row = cells(found, "table_5_5", "reader", "evidence", "selected by")["small", "rewarded", "single shot"]
    assert row["right"].estimate == pytest.approx(100 * single.mean())
    text = (found.save(tmp_path / "out") / "report.md").read_text(encoding="utf-8")
    texts = collect(further.scan("traces", ["text"]), further)["text"].drop_nulls().unique()
    assert any(one in text for one in texts)


LACKING = {
    "rounds": (("table_5_1", "sensitivity"), lambda tables: tables.pop("rounds")),
    "gold documents": (("table_5_2", "table_5_3"), lambda tables: _drop(tables, "examples", "gold_documents")),
    "verifiers": (("verifiers", "fixes_and_flips"), lambda tables: tables.pop("verifications")),
    "gold evidence": (("headroom",), lambda tables: _without_gold(tables)),
    "traces": (("table_5_4", "table_5_5"), lambda tables: [tables.pop(one) for one in ("traces", "verifications")]),
}


def _drop(tables: dict[str, pl.DataFrame], table: str, column: str) -> None:
    tables[table] = tables[table].drop(column)


def _without_gold(tables: dict[str, pl.DataFrame]) -> None:
    keep = ~pl.col("pool").str.starts_with("gold")
    tables["traces"] = tables["traces"].filter(keep)
    tables["verifications"] = tables["verifications"].join(tables["traces"], on="trace_id", how="semi")


@pytest.mark.parametrize("lack", LACKING)
def test_a_log_that_lacks_something_says_so_and_the_rest_is_written(log: Log, lack: str, tmp_path: Path) -> None:
    missing, remove = LACKING[lack]
    tables: dict[str, Any] = log_tables(log)
    remove(tables)
    written = write_log(tmp_path / "log", name="lacking", tables=tables)
    named = {} if "verifications" in tables else {"encoder": None, "decoder": None}
    found = report(written, **named)
    whole = {"verdicts", "table_5_1", "table_5_4", "table_5_5", "headroom", "verifiers", "fixes_and_flips"}
    assert not set(missing) & set(found.tables)
    kept = {"rounds": {"table_5_5", "headroom"}, "traces": {"table_5_1"}}.get(
        lack, whole - set(missing) - {"table_5_1"}
    )
    assert kept <= set(found.tables), sorted(found.tables)
    assert any(one["code"] == "unserved" for one in found.notes())
    assert found.save(tmp_path / "out").is_dir()


def test_what_is_refused(log: Log, tmp_path: Path) -> None:
    with refuses("unknown", "strog", "strong"):
        report(log, encoder="strog")
    with refuses("unknown", "simulatd"):
        report(log, pool="simulatd")
    with refuses("invalid", "stable"):
        report(log, stable=0)
    tables = {"examples": log_tables(log)["examples"]}
    with refuses("unsuitable", "rounds"):
        report(write_log(tmp_path / "log", name="bare", tables=tables))


def test_published_cells_that_are_no_whole_count() -> None:
    unlike = unlike_whole_counts({number: WORK.rows(number) for number in ("5.4", "5.5", "fig5.1")})
    checks = [one for one in read_published(WORK.name)["checks"] if "-whole-" in one["id"] and not one["holds"]]
    assert len(checks) == 19
    assert {line.split()[1] for line in unlike} == {f"{one['right']}" for one in checks}


@pytest.mark.parametrize(
    ("answer", "gold", "other"),
    [("1938", "November 5", True), ("5 March 1920", "1920", True), ("1938", "1939", False), ("Paris", "1939", False),
     (None, "1939", False), ("in 1938", "12 May 1938", True)],
)  # fmt: skip
def test_dates_of_another_granularity(answer: str | None, gold: str, other: bool) -> None:
    assert is_other_granularity(answer, gold) is other


@pytest.mark.parametrize(
    ("pool", "reader", "evidence"),
    [("self-ask-rerank-chains", "m", "self-ask-rerank"), ("fair-chains", "m", "fair"), ("gold-small", "small", "gold"),
     ("mine-single", "m", "mine"), ("mine-m-direct", "m", "mine")],
)  # fmt: skip
def test_the_evidence_of_a_pool(pool: str, reader: str, evidence: str) -> None:
    assert evidence_of_pool(pool, reader) == evidence


def test_right_with_retrieved_evidence_alone_is_below_zero() -> None:
    parts = gap_parts(*(pl.Series([one]).to_numpy() for one in (1.0, 1.0, 0.0)))
    assert {name: float(part[0]) for name, part in parts.items()} == {"generation": 1, "retrieval": -1, "selection": 0}


@pytest.fixture(scope="module")
def musique(log: Log, tmp_path_factory: pytest.TempPathFactory) -> Log:
    """The log with the names of the recipe: its data set, pools, reader, and the record of a trained verifier."""
    tables = log_tables(log)
    evidence = {"relevance-small": "sunar-chains", "rewarded-small": "fair-chains", "gold-small": "gold-chains"}
    traces = tables["traces"].filter(pl.col("pool").is_in(list(evidence)))
    renamed = pl.col("pool").replace_strict(evidence, return_dtype=pl.String)
    cover = {"cover_substring": pl.col("correct"), "cover": pl.col("correct")}
    tables["traces"] = traces.with_columns(pool=renamed, model=pl.lit("gpt-4o-mini-2024-07-18"), **cover)
    tables["verifications"] = tables["verifications"].join(traces, on="trace_id", how="semi")
    tables["examples"] = tables["examples"].with_columns(dataset=pl.lit("MuSiQue"))
    rounds = tables["rounds"].with_columns(pool=pl.lit("fair"))
    first = rounds.filter(pl.col("hop") == 0).with_columns(pool=pl.lit("first-stage"))
    tables["rounds"] = pl.concat([rounds, rounds.with_columns(pool=pl.lit("self-ask")), first])
    counts = {"generated": {"right": 30, "wrong": 10}, "balanced": {"right": 10, "wrong": 10}}
    training = {"base": "roberta-base", "trained": {"counts": counts}}
    source = {"verifiers": {"strong": {"kind": "classifier", "training": training}, "weak": {"kind": "judge"}}}
    folder = tmp_path_factory.mktemp("musique") / "log"
    return write_log(folder, name="fair-musique", tables=tables, source=source)


def test_a_log_of_the_recipe_stands_beside_the_published_numbers(musique: Log) -> None:
    found = report(musique, encoder=None, decoder=None)
    assert found.record["published"] == "MQA"
    assert found.record["verifiers"] == {"encoder": "strong", "prompted": "weak"}
    rows = cells(found, "table_5_1", "ranking")
    assert {"first stage", "SELF-ASK, retrieval", "SELF-ASK, re-ranked", "SUNAR", "FAIR"} <= {one for (one,) in rows}
    assert rows["FAIR",]["recall_10_published"] == 0.49
    assert rows["SELF-ASK, retrieval",]["recall_1_published"] == 0.152
    chosen = cells(found, "table_5_5", "evidence", "selected by", "verifier")
    for way, number, whole in ((("fair", "single shot", "–"), 33.06, "no"), (("sunar", "majority", "–"), 34.03, "yes")):
        assert (chosen[way]["published"], chosen[way]["published_whole"]) == (number, whole)
    assert chosen["fair", BEST, "strong"]["published_gain"] == 7.1
    assert chosen["gold", BOUND, "–"]["published"] == 80.67
    answers = cells(found, "table_5_4", "evidence")
    assert answers["sunar",]["published"] == 32.19
    training = cells(found, "table_4_1", "verifier", "step")
    assert training["strong", "generated"]["chains"] == 40
    assert training["strong", "balanced"]["right_published"] == 6532


def test_a_verifier_that_is_named_for_a_role_is_not_taken_for_another(musique: Log) -> None:
    both = frozenset({"strong", "weak"})
    assert verifier_roles(musique, both, {}) == {"encoder": "strong", "prompted": "weak"}
    assert verifier_roles(musique, both, {"decoder": "weak"}) == {"encoder": "strong", "decoder": "weak"}
    assert verifier_roles(musique, both, {"encoder": "weak"}) == {"encoder": "weak"}


SEEDS = range(20)
REWARD = "does rewarding agreement rank more gold documents first"
EXPLORING = "does exploring by rewarded scores find more"
VOTES, ENCODERS = "do more chains beat one", "does an encoder beat a decoder"
CAPS, SERVES = "does evidence cap reasoning", "does rewarded evidence give more right answers"
PLANTED = {
    "effects": (
        {"explored": True, "lost": 0.4, "gained": 0.3},
        {REWARD: "yes", EXPLORING: "yes", VOTES: "yes", ENCODERS: "yes", CAPS: "yes", SERVES: "yes"},
    ),
    "reversed": ({"tie": -1.0, "explored": True, "lost": 0.1, "gained": -0.3}, {REWARD: "no", EXPLORING: "no"}),
    "nulls": (
        {"tie": 0.0, "agreement": 0.75, "quality": 0.0, "explored": True, "lost": 0.2, "strong": 0.5, "use": 0.0},
        {REWARD: "", EXPLORING: "", ENCODERS: "", CAPS: "", SERVES: ""},
    ),
}
"""Worlds, with the verdict of each question: an effect's, or none where there is no effect. Relevance must tell nothing
for a reward without meaning to cost nothing: else it moves batches past what relevance knows.
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_planted_effects_get_their_verdicts_and_nulls_none(name: str, tmp_path: Path) -> None:
    keys, expected = PLANTED[name]
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        log = open_log(world(tmp_path / f"{seed}", 400, seed, **{"chains": 5, **keys}))
        roles = {"encoder": "strong", "decoder": "weak"}
        (study,) = study_log(log, MultihopSetting(roles=roles, settings=Settings(resamples=400)))
        for one in study.findings:
            decided = one.answer.value == expected.get(one.question)
            counts[one.question] += decided or (not expected.get(one.question) and one.answer is not Answer.UNDECIDED)
    print(name, {question: counts[question] for question in expected})
    for question, verdict in expected.items():
        assert (counts[question] >= 18) if verdict else (counts[question] <= 3), (question, counts[question])
