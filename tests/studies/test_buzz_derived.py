"""The study of acting on unfolding text: cells of its further tables derived again with polars, from the log alone."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from replay.studies.buzz.cases import ALARM, LOST, NEAREST
from replay.studies.buzz.further_tables import COSTS
from replay.studies.buzz.systems import DIRECT, PREFIXES
from replay.studies.buzz.verdicts import findings
from replay.studies.kit.report import StudyReport
from tests.logs import log_tables
from tests.studies.buzz import macro_f1, mean, report
from tests.studies.multihop import cells
from tests.studies.test_buzz_planted import (
    ALARMS,
    BEATS,
    DENSE,
    EXTRACTS,
    FILTER,
    HOPS,
    NAMES,
    REVISES,
    RIGHT,
    ROUNDS,
    SOONER,
    SPURIOUS,
    WEAKER,
    at,
)
from toolkit.log import Log, collect, write_log

MAIN = "DIVER (first)"
STREAM, EVERY_ROW = pl.col("stage") == "stream", pl.lit(value=True)
FIRST_ROUND = pl.col("round") == 0


class Tables:
    """The tables of a log, of some texts. `checks` have their place `at` in the order in which a text is heard."""

    def __init__(self, log: Log, split: str = "test") -> None:
        self.texts = collect(log.scan("examples"), log).filter(split=split).sort("example_id")
        self.checks = collect(log.scan("checks"), log).filter(pl.col("example_id").is_in(self.texts["example_id"]))
        self.checks = self.checks.sort("pool", "example_id", ~STREAM, "position", "claim", "round").with_columns(
            pl.int_range(pl.len()).over("pool", "example_id").alias("at")
        )
        self.traces = collect(log.scan("traces"), log)

    def acts(self, pool: str, rows: pl.Expr = EVERY_ROW) -> pl.DataFrame:
        """Each text with what a system did that follows some rows: `acted`, `found`, `right`, Δ, and its place."""
        refuted = self.checks.filter(pl.col("pool") == pool, rows, pl.col("verdict") == "refuted").sort("at")
        first = refuted.group_by("example_id", maintain_order=True).first()
        first = first.select("example_id", "at", "claim", "stage", "position", "matches_error")
        error, acted = pl.col("gold_error"), pl.col("at").is_not_null()
        found = error & pl.col("matches_error").fill_null(value=False)
        delta = (pl.col("position") - pl.col("gold_position")) / pl.col("length")
        return self.texts.join(first, on="example_id", how="left", maintain_order="left").with_columns(
            acted=acted, found=found, right=acted == error, delta=pl.when(found).then(delta),
            spurious=acted & ~found,
        )  # fmt: skip

    def said(self, pool: str) -> pl.DataFrame:
        """Each text with whether a model says of it that it is refuted, of some beginning of it."""
        said = self.traces.filter(pool=pool).group_by("example_id").agg(acted=(pl.col("answer") == "refuted").any())
        joined = self.texts.join(said, on="example_id", how="left", maintain_order="left")
        return joined.with_columns(right=pl.col("acted") == pl.col("gold_error"))

    def paid(self, pool: str) -> pl.DataFrame:
        """The rows of a system as it ran: up to its act, and to the end of a stream in which it acted."""
        acts = self.acts(pool).select("example_id", end="at", by="stage")
        rows = self.checks.filter(pool=pool).join(acts, on="example_id")
        listens = STREAM & (pl.col("by") == "stream")
        return rows.filter(pl.col("end").is_null() | (pl.col("at") <= pl.col("end")) | listens)

    def claims(self, pool: str) -> pl.DataFrame:
        """The claims of a pool with their last verdict."""
        rows = self.checks.filter(pl.col("pool") == pool, pl.col("verdict") != "none").sort("claim", "round")
        return rows.group_by("example_id", "claim", maintain_order=True).last()


@pytest.fixture(scope="module")
def tables(unfolding_log: Log) -> Tables:
    return Tables(unfolding_log)


def numbers(frame: pl.DataFrame, column: str) -> np.ndarray:
    """A column of texts (E,)."""
    return frame[column].cast(pl.Float64).to_numpy()


def test_table_2_has_methods_of_the_shared_task_and_its_differences(unfolding_log: Log, tmp_path: Path) -> None:
    """Pools of two pipelines and a system of the shared task, which turn every third, fourth and fifth verdict."""
    of_log = log_tables(unfolding_log)
    direct = of_log["traces"].filter(pool="simulated-direct").sort("example_id")
    turned = pl.when(pl.col("answer") == "refuted").then(pl.lit("supported")).otherwise(pl.lit("refuted"))
    pools = {"safe": 3, "fire": 4, "infact": 5}
    more = [
        direct.with_columns(
            pool=pl.lit(pool), trace_id=pl.format("{}/{}", "example_id", pl.lit(pool)),
            answer=pl.when(pl.int_range(pl.len()) % every == 0).then(turned).otherwise("answer"), correct=None,
        ) for pool, every in pools.items()
    ]  # fmt: skip
    gold = of_log["examples"].select("example_id", "gold_error")
    traces = pl.concat([of_log["traces"], *more], how="vertical_relaxed").join(gold, on="example_id")
    traces = traces.with_columns(correct=(pl.col("answer") == "refuted") == pl.col("gold_error")).drop("gold_error")
    named = of_log["examples"].with_columns(dataset=pl.lit("averitec"))
    log = write_log(tmp_path / "log", name="named", tables=of_log | {"traces": traces, "examples": named})
    made = report(log)
    rows, here, on_dev = cells(made, "table_2", "method"), Tables(log), Tables(log, "dev")
    methods = {"SAFE": "safe", "FIRE": "fire", "InFact": "infact", DIRECT: "simulated-direct",
               PREFIXES: "simulated-prefixes"}  # fmt: skip
    said = {name: here.said(pool) for name, pool in methods.items()} | {"DIVER": here.acts("simulated")}
    for name, frame in said.items():
        expected = 100 * numbers(frame, "right").mean()
        assert at(rows[name,]["accuracy"]) == pytest.approx(expected), name
        both = frame["acted"].to_list(), frame["gold_error"].to_list()
        assert at(rows[name,]["macro_f1"]) == pytest.approx(100 * macro_f1(*both)), name
    of_dev = {name: numbers(on_dev.said(pool), "right").mean() for name, pool in methods.items()}
    best = max(of_dev, key=lambda name: of_dev[name])
    assert [name for (name,), row in rows.items() if row["gap_accuracy"] is not None] == [best]
    gap = (numbers(said["DIVER"], "right") - numbers(said[best], "right")).mean()
    assert at(rows[best,]["gap_accuracy"]) == pytest.approx(100 * gap)
    assert rows["QACheck",]["accuracy"] is None
    assert (rows["SAFE",]["published_score"], rows["InFact",]["published_score"]) == (None, 0.63)
    assert all(row["score"] is None for row in rows.values())
    notes = "\n".join(made.tables["table_2"].below)
    assert all(name in notes for name in ("SAFE", "FIRE", "QACheck", "ProgramFC"))


def test_the_path_of_calls_and_seconds(unfolding_report: StudyReport, tables: Tables) -> None:
    """Claims that begin at one word run side by side: of each such group the longest counts."""
    rows = cells(unfolding_report, "table_a_5", "method", "quantity")
    headings = dict(COSTS)
    pools = {MAIN: "simulated", "one-shot extraction (first)": "one-shot", "DIVER (second)": "second-simulated"}
    for name, pool in pools.items():
        paid = tables.paid(pool)
        begins = pl.col("position").sort_by("round").first().over("example_id", "claim")
        side = pl.when(STREAM).then(begins).otherwise(-1 - pl.col("claim"))
        for cost, column in (("serial_calls", "calls"), ("latency_s", "latency_s")):
            by_claim = paid.group_by("example_id", "stage", side.alias("side"), "claim").agg(
                pl.col(column).cast(pl.Float64).sum()
            )
            longest = by_claim.group_by("example_id", "stage", "side").agg(pl.col(column).max())
            sums = longest.group_by("example_id").agg(pl.col(column).sum())[column].to_list()
            row = rows[name, headings[cost]]
            assert at(row["mean"]) == pytest.approx(mean(sums)), (name, cost)
            assert row["spread"] == pytest.approx(statistics.stdev(sums)), (name, cost)


def test_the_clock_at_every_speed(unfolding_report: StudyReport, tables: Tables) -> None:
    rows, waits = cells(unfolding_report, "clock", "text"), tables.acts("simulated")
    claim, seconds = ["example_id", "claim"], pl.col("latency_s").cast(pl.Float64)
    ended = tables.checks.filter(pool="simulated").sort(*claim, "round").with_columns(
        begins=pl.col("position").first().over(claim), waited=seconds.cum_sum().over(claim)
    )  # fmt: skip
    ended = ended.filter(verdict="refuted")
    speeds = unfolding_report.parts[0].speeds
    assert len(rows) == len(speeds) == 4
    for name, speed in speeds.items():
        acts = waits
        if speed is not None:
            heard = pl.when(STREAM).then(pl.col("begins") + speed * pl.col("waited")).otherwise(math.inf)
            first = ended.with_columns(heard=heard).sort("example_id", "heard", "at").group_by(
                "example_id", maintain_order=True
            ).first()  # fmt: skip
            joined = tables.texts.join(
                first.select("example_id", "heard", "matches_error", "verdict"), on="example_id", how="left",
                maintain_order="left",
            )  # fmt: skip
            acted, place = pl.col("verdict").is_not_null(), pl.min_horizontal(pl.col("heard").ceil(), "length")
            acts = joined.with_columns(
                acted=acted, found=pl.col("gold_error") & pl.col("matches_error").fill_null(value=False),
                right=acted == pl.col("gold_error"), delta=(place - pl.col("gold_position")) / pl.col("length"),
            )  # fmt: skip
        delta, row = numbers(acts.filter("found"), "delta"), rows[name,]
        assert at(row["deviation"]) == pytest.approx(100 * delta.mean())
        assert at(row["within_20"]) == pytest.approx(100 * (np.abs(delta) <= 0.2 + 1e-9).mean())
        assert at(row["premature"]) == pytest.approx(100 * (delta < 0).mean())
        assert at(row["found"]) == pytest.approx(100 * numbers(acts.filter("gold_error"), "found").mean())
        assert at(row["false_alarm"]) == pytest.approx(
            100 * numbers(acts.filter(~pl.col("gold_error")), "acted").mean()
        )
        assert at(row["accuracy"]) == pytest.approx(100 * numbers(acts, "right").mean())
        if speed is not None:
            both = (acts["found"] & waits["found"]).to_numpy()
            gap = (numbers(acts, "delta") - numbers(waits, "delta"))[both]
            assert at(row["gap"]) == pytest.approx(100 * gap.mean())
            assert at(row["gap_accuracy"]) == pytest.approx(difference(acts, waits).mean())


def test_ranking_and_calibration_error_of_confidences(unfolding_report: StudyReport, tables: Tables) -> None:
    """AUC: of all pairs of a right and a wrong verdict. Calibration error: that of ten bins, less what luck adds.

    The luck has the covariance, over texts, of the bins' sums of confidence less right, and of each bin at the least
    that of tosses with its share, two more of them made up, one right.
    """
    rows = cells(unfolding_report, "calibration", "verdicts")
    (part,) = unfolding_report.parts
    drawn = part.setting.settings
    for name, verdicts in (("all verdicts", ["supported", "refuted"]), ("refutations", ["refuted"])):
        judged = tables.claims("simulated").filter(pl.col("verdict").is_in(verdicts)).select(
            "example_id", "confidence", right=pl.col("verdict") == pl.col("gold_verdict")
        )  # fmt: skip
        sides = judged.filter("right").join(judged.filter(~pl.col("right")), how="cross")
        ahead = (pl.col("confidence") - pl.col("confidence_right")).sign()
        assert at(rows[name,]["auc"]) == pytest.approx(50 + 50 * sides.select(ahead.mean()).item())
        count = len(judged)
        judged = judged.with_columns(
            bin=(pl.col("confidence") * 10).floor().clip(0, 9).cast(pl.Int64),
            off=(pl.col("confidence") - pl.col("right").cast(pl.Float64)) / count,
        )
        sizes = pl.DataFrame({"bin": range(10)}).join(
            judged.group_by("bin").agg(size=pl.len(), right=pl.col("right").sum()), on="bin", how="left",
            maintain_order="left",
        ).fill_null(0)  # fmt: skip
        by_text = judged.group_by("example_id").agg(
            pl.col("off").filter(bin=one).sum().alias(f"{one}") for one in range(10)
        )
        sums = by_text.drop("example_id").to_numpy()
        plain = np.abs(sums.sum(axis=0)).sum()
        covariance = len(sums) * np.cov(sums, rowvar=False)
        size, share = sizes["size"].to_numpy(), (sizes["right"].to_numpy() + 1) / (sizes["size"].to_numpy() + 2)
        np.fill_diagonal(covariance, np.maximum(np.diag(covariance), size * share * (1 - share) / count**2))
        values, vectors = np.linalg.eigh(covariance)
        luck = np.random.default_rng([drawn.seed, 10]).standard_normal((drawn.resamples, 10))
        moved = sums.sum(axis=0) + luck @ (vectors * np.sqrt(np.maximum(values, 0))).T
        ece = rows[name,]["ece"]
        assert ece.estimate == pytest.approx(max(0, 2 * plain - np.abs(moved).sum(axis=1).mean()), abs=1e-9)
        assert ece.low <= ece.estimate <= plain <= ece.high + 1e-12


def test_accuracy_against_delta(unfolding_report: StudyReport, tables: Tables) -> None:
    """Where later acts do not count, a text with an error is right where it is acted on by then, for any reason."""
    rows = cells(unfolding_report, "by_deviation", "method", "limit")

    def right_by(frame: pl.DataFrame, limit: float) -> np.ndarray:
        delta = (pl.col("position") - pl.col("gold_position")) / pl.col("length")
        by_then = (delta <= limit / 100 + 1e-9).fill_null(value=False)
        return numbers(frame.with_columns(
            right=pl.when("gold_error").then(pl.col("acted") & by_then).otherwise(~pl.col("acted"))
        ), "right")  # fmt: skip

    last = tables.traces.filter(pl.col("pool") == "simulated-prefixes", pl.col("answer") == "refuted").sort("position")
    prefixes = tables.said("simulated-prefixes").join(
        last.group_by("example_id").agg(pl.col("position").first()), on="example_id", how="left", maintain_order="left"
    )  # fmt: skip
    main = tables.acts("simulated")
    for limit in (-10.0, 0.0, 20.0, 50.0, 100.0):
        right = right_by(main, limit)
        assert at(rows[MAIN, limit]["accuracy"]) == pytest.approx(100 * right.mean())
        assert rows[MAIN, limit]["gap"] is None
        for name, frame in ((f"{PREFIXES} (first)", prefixes), ("DIVER (second)", tables.acts("second-simulated"))):
            other = right_by(frame, limit)
            assert at(rows[name, limit]["accuracy"]) == pytest.approx(100 * other.mean()), (name, limit)
            assert at(rows[name, limit]["gap"]) == pytest.approx(100 * (other - right).mean()), (name, limit)


def test_headroom_of_every_row(unfolding_report: StudyReport, tables: Tables) -> None:
    rows = cells(unfolding_report, "headroom", "method")
    first = pl.col("gold_position")
    best = tables.checks.filter("matches_error", pool="simulated").join(tables.texts, on="example_id").group_by(
        "example_id").agg(best=((pl.col("position") - first).abs() / pl.col("length")).min())  # fmt: skip
    for name, follows in ((MAIN, EVERY_ROW), ("one round", FIRST_ROUND), ("no revision", STREAM)):
        claims = tables.checks.filter(pl.col("matches_error"), follows, pool="simulated").sort("round").group_by(
            "example_id", "claim"
        ).agg(pl.col("verdict").last()).group_by("example_id").agg("verdict")  # fmt: skip
        acts = tables.acts("simulated", follows).filter("gold_error")
        acts = acts.join(claims, on="example_id", how="left").join(best, on="example_id", how="left")
        lost, named = ~pl.col("found"), pl.col("verdict").is_not_null()
        open_ = ~pl.col("acted") & ~pl.col("verdict").list.contains("supported")
        masks = {
            "gap": lost, "extraction": lost & ~named, "search": lost & named & open_, "verdict": lost & named & ~open_,
            "best": pl.col("best").is_not_null(),
        }  # fmt: skip
        for part, mask in masks.items():
            expected = acts.select(mask.fill_null(value=False).cast(pl.Float64).mean()).item()
            assert at(rows[name,][part]) == pytest.approx(100 * expected), (name, part)
        later = acts.filter("found").select((pl.col("delta").abs() - pl.col("best")).mean()).item()
        assert at(rows[name,]["timing"]) == pytest.approx(100 * later), name


def test_the_same_claims_of_two_pools(unfolding_report: StudyReport, tables: Tables) -> None:
    rows = cells(unfolding_report, "agreement", "other")

    def first_of_words(pool: str) -> pl.DataFrame:
        claims = tables.claims(pool).sort("claim").group_by("example_id", "claim_text", maintain_order=True).first()
        return claims.select("example_id", "claim_text", "verdict")

    one = tables.acts("simulated")
    for name, pool in (("one-shot extraction (first)", "one-shot"), ("no filter (first)", "no-filter"),
                       ("DIVER (second)", "second-simulated")):  # fmt: skip
        both = first_of_words("simulated").join(first_of_words(pool), on=["example_id", "claim_text"])
        by_text = both.group_by("example_id").agg(agree=(pl.col("verdict") == pl.col("verdict_right")).mean())
        assert rows[name,]["claims"] == len(both)
        assert at(rows[name,]["claims_agree"]) == pytest.approx(100 * by_text["agree"].mean())
        right = numbers(one, "right"), numbers(tables.acts(pool), "right")
        assert at(rows[name,]["right"]) == pytest.approx(100 * (right[0] * right[1]).mean())
        assert at(rows[name,]["second"]) == pytest.approx(100 * ((1 - right[0]) * right[1]).mean())


def test_cases_are_counted_and_chosen_by_their_rule(unfolding_report: StudyReport, tables: Tables) -> None:
    rows, acts = cells(unfolding_report, "cases", "case"), tables.acts("simulated")
    errors = acts.filter("gold_error")
    groups = {
        NEAREST: (errors, pl.col("found")), LOST: (errors, ~pl.col("found")),
        ALARM: (acts.filter(~pl.col("gold_error")), pl.col("acted")),
    }  # fmt: skip
    for name, (texts, mask) in groups.items():
        count = texts.filter(mask).height
        assert (rows[name,]["count"], rows[name,]["of"]) == (count, texts.height)
        assert at(rows[name,]["share"]) == pytest.approx(100 * count / texts.height)
    nearest = errors.filter("found").sort(pl.col("delta").abs(), "example_id")["example_id"][0]
    assert rows[NEAREST,]["example"] == nearest


def difference(one: pl.DataFrame, other: pl.DataFrame, column: str = "right") -> np.ndarray:
    return 100 * (numbers(one, column) - numbers(other, column))


def test_verdicts_rest_on_these_differences(unfolding_report: StudyReport, tables: Tables) -> None:
    (part,) = unfolding_report.parts
    shown = {one.question: one.difference for one in findings(part) if one.difference is not None}
    main, texts = tables.acts("simulated"), tables.texts
    gains, alarms, coverage = {}, {}, {}
    for pool in ("simulated", "second-simulated"):
        group = "second" if pool.startswith("second") else ""
        (baseline,) = part.baselines(group)
        acts, said = tables.acts(pool), tables.said(baseline.pool)
        gains[group] = difference(acts, said)
        alarms[group] = difference(acts, said, "acted")[~texts["gold_error"].to_numpy()].mean()
        one_shot = "second-one-shot" if group else "one-shot"
        named = [
            set(tables.checks.filter(pl.col("pool") == one, "matches_error", STREAM)["example_id"])
            for one in (pool, one_shot)
        ]
        coverage[group] = 100 * (len(named[0]) - len(named[1])) / texts["gold_error"].sum()
    dense, two = texts["density"].to_numpy() == "dense", texts["hops"].to_numpy() == 2
    by_density = [gain[dense].mean() - gain[~dense].mean() for gain in gains.values()]
    rounds = difference(main, tables.acts("simulated", FIRST_ROUND))
    people = texts.select(
        any=pl.col("human_corrects").list.any(), share=pl.col("human_corrects").list.eval(
            pl.element().cast(pl.Float64)).list.mean(),
    )  # fmt: skip
    right = np.where(texts["gold_error"], numbers(main, "found"), numbers(main, "right"))
    heard = "human_positions", "human_corrects"
    exploded = texts.filter("gold_error").select("example_id", "gold_position", "length", *heard).explode(heard)
    earliest = exploded.filter("human_corrects").group_by("example_id").agg(
        theirs=((pl.col("human_positions") - pl.col("gold_position")) / pl.col("length")).min()
    )  # fmt: skip
    sooner = main.join(earliest, on="example_id").filter("found").select(pl.col("theirs") - pl.col("delta"))
    other = {"no filter (first)": "no-filter", "one-shot extraction (first)": "one-shot"}[part.other.name]
    expected: dict[str, Any] = {
        BEATS: min(gain.mean() for gain in gains.values()), ALARMS: min(alarms.values()),
        SPURIOUS: difference(main, tables.acts(other), "spurious").mean(),
        WEAKER: gains["second"].mean() - gains[""].mean(), DENSE: by_density, NAMES: list(coverage.values()),
        EXTRACTS: difference(main, tables.acts("one-shot")).mean(),
        FILTER: difference(main, tables.acts("no-filter")).mean(),
        REVISES: difference(main, tables.acts("simulated", STREAM)).mean(), ROUNDS: rounds.mean(),
        HOPS: rounds[two].mean() - rounds[~two].mean(),
        RIGHT: [100 * (right - numbers(people, column)).mean() for column in ("any", "share")],
        SOONER: 100 * sooner.to_series().mean(),
    }  # fmt: skip
    for question, value in expected.items():
        choices = value if isinstance(value, list) else [value]
        assert any(shown[question].estimate == pytest.approx(one) for one in choices), (question, choices)
