"""Numbers of the study of unfolding text on logs so small that they are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from replay.studies.buzz.acts import contrast, kappa_values
from replay.studies.buzz.published import published_fixed
from replay.studies.buzz.study import BuzzStudy
from replay.studies.buzz.systems import DIRECT, DIVER, PREFIXES, SEARCH, match_rules
from replay.studies.buzz.tables import _baseline_lines
from replay.studies.buzz.verdicts import _gains, density_groups, findings
from replay.studies.kit.runs import joint_cells, mean_cells
from replay.studies.kit.verdicts import Answer, Finding
from tests.errors import refuses
from tests.logs import log_tables
from tests.studies.buzz import report
from tests.studies.multihop import cells
from tests.studies.test_buzz_planted import (
    ALARMS,
    BEATS,
    CHOSEN,
    DENSE,
    EXTRACTS,
    FILTER,
    NAMES,
    OFF,
    THRESHOLD,
    at,
    planted_stream,
)
from toolkit.log import Log, collect, write_log
from toolkit.stats import Settings


def test_macro_f1_of_texts_that_all_hold_an_error_is_of_two_labels(tmp_path: Path) -> None:
    """Three of four errors are refuted: F1 of `refuted` is 2 · 3 / (3 + 4) = 6/7, of `supported` 0; their mean 3/7."""
    found = report(planted_stream(tmp_path / "log", np.zeros(4, int), np.array([0, 0, 0, 1])))
    expected = pytest.approx(100 * 3 / 7)
    for table, row in (("table_1", ("first", "DIVER")), ("table_7", ("DIVER",))):
        heads = ("backbone", "method")[-len(row) :]
        assert at(cells(found, table, *heads)[row]["macro_f1"]) == expected, table
    assert at(cells(found, "table_9", "extraction", "revision")["CE-1", "REV-1"]["macro_f1"]) == expected


def answer_of(part: BuzzStudy, question: str) -> Finding:
    (answer,) = (one for one in findings(part) if one.question == question)
    return answer


def hand_log(folder: Path, rows: list[tuple[Any, ...]], names: tuple[str, ...], **texts: list[Any]) -> Log:
    """A log of checks from `rows` with the columns `names`, on texts of ten words whose columns are `texts`."""
    small = dict.fromkeys(("claim", "round", "position"), pl.Int32)
    checks = pl.DataFrame(rows, schema=list(names), orient="row", schema_overrides=small)
    usual = {
        "pool": pl.lit("listening"), "claim": pl.lit(0, pl.Int32), "round": pl.lit(0, pl.Int32),
        "stage": pl.lit("stream"), "position": pl.lit(5, pl.Int32), "calls": pl.lit(1, pl.Int32),
        "queries": pl.lit(1, pl.Int32),
    }  # fmt: skip
    checks = checks.with_columns(**{name: value for name, value in usual.items() if name not in names})
    count = len(next(iter(texts.values())))
    examples = pl.DataFrame({"example_id": [f"t{one}" for one in range(count)], **texts}).with_columns(
        dataset=pl.lit("hand"), question=pl.lit("a b c d e f g h i j")
    )  # fmt: skip
    fixed = {
        "split": pl.lit("test"),
        "length": pl.lit(10, pl.Int32),
        "gold_position": pl.when("gold_error").then(pl.lit(4, pl.Int32)),
    }
    examples = examples.with_columns(**{name: value for name, value in fixed.items() if name not in texts})
    return write_log(folder, name="hand", tables={"examples": examples, "checks": checks})


def with_texts(log: Log, folder: Path, asked: list[tuple[str, str, int | None, bool]]) -> Log:
    """The log with verdicts on texts: pool, example, position (None: of the whole text), whether it is refuted."""
    size = {"position": pl.Int32}
    traces = pl.DataFrame(asked, schema=["pool", "example_id", "position", "refuted"], orient="row",
                          schema_overrides=size)  # fmt: skip
    traces = traces.with_columns(
        sample_index=(pl.int_range(pl.len(), dtype=pl.Int32)).over("pool", "example_id"), action=pl.lit("solve"),
        model=pl.lit("hand"), answer=pl.when("refuted").then(pl.lit("refuted")).otherwise(pl.lit("supported")),
        finalizer_used=pl.lit(value=False),
    )  # fmt: skip
    traces = traces.with_columns(trace_id=pl.format("{}/{}/{}", "pool", "example_id", "sample_index"))
    gold = collect(log.scan("examples", ["example_id", "gold_error"]), log)
    traces = traces.join(gold, on="example_id").with_columns(correct=pl.col("refuted") == pl.col("gold_error"))
    tables = log_tables(log) | {"traces": traces.drop("refuted", "gold_error")}
    return write_log(folder, name="texts", tables=tables)


def test_a_pool_without_revisions_is_compared_with_the_system_without_them(tmp_path: Path) -> None:
    """Four texts with an error. The stream of the system refutes t0 and t2, its revision t1; one reply refutes t0.

    The whole is right on 3 of 4, without revisions on 2, one reply on 1: it is 25 points below its counterpart.
    """
    rows = [("t0", "listening", 0, "stream", "refuted"), ("t0", "one-shot", 0, "stream", "refuted")]
    rows += [("t1", "listening", 0, "stream", "supported"), ("t1", "listening", 1, "revision", "refuted")]
    rows += [("t2", "listening", 0, "stream", "refuted"), ("t3", "listening", 0, "stream", "supported")]
    rows += [(f"t{one}", "one-shot", 0, "stream", "supported") for one in (1, 2, 3)]
    log = hand_log(tmp_path / "log", rows, ("example_id", "pool", "claim", "stage", "verdict"), gold_error=[True] * 4)
    found = report(log)
    table = cells(found, "table_3", "variant")
    one_shot, no_revision = table["one-shot extraction",], table["no revision",]
    assert (one_shot["revises"], one_shot["against"], at(one_shot["gap_accuracy"])) == ("no", "no revision", 25)
    assert (no_revision["against"], at(no_revision["gap_accuracy"])) == ("whole", 25)
    verdict = answer_of(found.parts[0], EXTRACTS)
    assert verdict.difference is not None
    assert verdict.difference.estimate == 25
    assert "no revision" in verdict.decided_by


def test_without_dev_gains_on_dense_texts_are_over_each_baseline(tmp_path: Path) -> None:
    """Six texts with an error, three dense, all refuted by the system. `direct` is right on one dense and on all sparse
    texts, a gain of 2/3 against 0; `search` on all dense and on one sparse text, a gain of 0 against 2/3.
    """
    rows = [(f"t{one}", "refuted") for one in range(6)]
    log = hand_log(
        tmp_path / "log", rows, ("example_id", "verdict"), gold_error=[True] * 6,
        density=["dense"] * 3 + ["sparse"] * 3,
    )  # fmt: skip
    right = {"direct": (0, 3, 4, 5), "search": (0, 1, 2, 3)}
    asked = [(pool, f"t{one}", None, one in on) for pool, on in right.items() for one in range(6)]
    found = report(with_texts(log, tmp_path / "both", asked))
    (part,) = found.parts
    gains = {name: contrast(one, *density_groups(part)) for name, one in _gains(part).items()}
    assert {name: round(float(np.mean(one)), 12) for name, one in gains.items()} == {
        "Vanilla LLM": round(2 / 3, 12), "LLM + Web Search": round(-2 / 3, 12)
    }  # fmt: skip
    assert any(name in answer_of(part, DENSE).decided_by for name in gains)


def test_verdicts_on_texts_are_counted_and_timed_as_the_system_is_beside_them(tmp_path: Path) -> None:
    """Four texts of ten words whose error shows at word 4. The system acts on a claim that names it at 5 (t0) and 6
    (t3), and on another at 3 (t1): it refutes 3 of 4 and finds 2. The prefixes are refuted at 6 (t0), 8 (t1), 5 (t2).

    Both act on t0, with Δ of 20 and 10 %, and on t1, with 40 and −10 %: a difference of (10 + 50) / 2 = 30 points.
    """
    rows = [("t0", 5, "refuted", True), ("t1", 3, "refuted", False), ("t2", 5, "supported", False),
            ("t3", 6, "refuted", True)]  # fmt: skip
    log = hand_log(
        tmp_path / "log", rows, ("example_id", "position", "verdict", "matches_error"), gold_error=[True] * 4
    )
    asked = [("prefixes", "t0", 6, True), ("prefixes", "t1", 8, True), ("prefixes", "t2", 5, True),
             ("prefixes", "t3", 10, False)]  # fmt: skip
    found = report(with_texts(log, tmp_path / "both", asked))
    quality, timing = cells(found, "table_7", "method"), cells(found, "timing", "method")
    assert (at(quality["DIVER",]["refuted"]), at(quality["DIVER",]["found"])) == (75, 50)
    prefixes = quality["LLM over prefixes",]
    assert (at(prefixes["refuted"]), prefixes["found"]) == (75, None)
    assert at(timing[PREFIXES,]["gap"]) == pytest.approx(30)
    assert len({timing[name,]["counts"] for name in (DIVER, PREFIXES)}) == 2


def test_a_quantity_that_is_0_or_1_everywhere_has_no_limits_of_a_share() -> None:
    """Ten texts of one call each: their mean is 1 whichever are drawn. Ten yeses of ten are compatible with rates down
    to 10 / (10 + 1.96²) = 0.722, and ten equal pairs with a difference of shares up to 1.96² / (10 + 1.96²) = 0.278.
    """
    ones, unit, settings = np.ones(10), np.arange(10), Settings(resamples=50)
    z = 1.959964**2
    share = mean_cells({"found": ones}, unit, settings, 1.0)["found"]
    calls = mean_cells({"calls": ones}, unit, settings, 1.0, rate=False)["calls"]
    assert share is not None
    assert calls is not None
    assert (share.low, share.high) == (pytest.approx(10 / (10 + z), abs=1e-6), 1)
    assert (calls.low, calls.high) == (1, 1)
    pairs = {"pair": (np.full(10, 0.3), np.full(10, 0.3))}
    assert joint_cells(pairs, unit, settings, 1.0)["pair"].high == pytest.approx(z / (10 + z), abs=1e-6)
    delta = joint_cells(pairs, unit, settings, 1.0, rate=False)["pair"]
    assert (delta.low, delta.high) == (0, 0)


def test_the_median_deviation_has_limits_by_order(tmp_path: Path) -> None:
    """Six texts on which it acts 1 to 6 words of 100 late: the median is 3.5 %. All six lie on one side of the true
    median in 2 of 2⁶ = 64 cases, so 1 and 6 hold it in 96.9 %; 2 and 5 would leave it out in 14 of 64.
    """
    log = planted_stream(tmp_path / "log", np.array([3, 1, 6, 2, 5, 4]), np.zeros(6, int))
    median = cells(report(log), "timing", "method")["DIVER",]["median"]
    assert (median.estimate, median.low, median.high) == (
        pytest.approx(3.5), pytest.approx(1), pytest.approx(6)
    )  # fmt: skip


def test_a_clock_moves_acts_and_lets_a_quick_claim_overtake_a_slow_one(tmp_path: Path) -> None:
    """Two texts of ten words whose error shows at word 4. The claim that names it, of word 5, is refuted after 2 s; one
    of word 2 after 9 s is supported on t0 and refuted on t1. At a word a second it acts at word 7 on both: Δ is 30 %.
    Where it waits it acts on t1 on the claim of word 2, and finds the error of t0 alone, with a Δ of 10 %.
    """
    rows = [(name, *claim) for name, other in (("t0", "supported"), ("t1", "refuted"))
            for claim in ((0, 2, other, False, 9.0), (1, 5, "refuted", True, 2.0))]  # fmt: skip
    names = ("example_id", "claim", "position", "verdict", "matches_error", "latency_s")
    log = hand_log(tmp_path / "log", rows, names, gold_error=[True, True])
    found = report(log, speed=1.0)
    table, speeds = cells(found, "clock", "text"), found.parts[0].speeds
    deltas = {speeds[name]: at(row["deviation"]) for (name,), row in table.items()}
    gaps = {speeds[name]: at(row["gap"]) for (name,), row in table.items() if row["gap"] is not None}
    assert deltas == pytest.approx({None: 10, 0.5: 20, 1: 30, 2: 50})
    assert gaps == pytest.approx({0.5: 10, 1: 20, 2: 40})
    assert {speeds[name]: at(row["found"]) for (name,), row in table.items()} == {None: 50, 0.5: 100, 1: 100, 2: 100}
    assert {at(row["gap_accuracy"]) for row in table.values() if row["gap_accuracy"] is not None} == {0}


def test_prefixes_without_a_score_act_at_their_first_refuted(tmp_path: Path) -> None:
    """Of two texts whose error shows at word 4 the prefixes refute t0 at word 3 alone, and not t1: right on one of two,
    with a Δ of −10 %.
    """
    rows = [(f"t{one}", "refuted", True) for one in range(2)]
    log = hand_log(tmp_path / "log", rows, ("example_id", "verdict", "matches_error"), gold_error=[True] * 2)
    asked = [("prefixes", name, place, (name, place) == ("t0", 3)) for name in ("t0", "t1") for place in (3, 6, 10)]
    found = report(with_texts(log, tmp_path / "both", asked))
    assert at(cells(found, "table_1", "backbone", "method")["hand", PREFIXES]["accuracy"]) == 50
    assert at(cells(found, "timing", "method")[PREFIXES,]["deviation"]) == pytest.approx(-10)
    for name in ("table_1", "table_7", "timing"):
        assert sum(PREFIXES in line and "first `refuted`" in line for line in found.tables[name].below) == 1, name


def test_confidences_that_are_right_of_all_verdicts_are_not_off(tmp_path: Path) -> None:
    """Of 80 verdicts with a confidence of 0.75, 40 supported ones are right and 20 of 40 refutations: 60 of 80 is what
    they say, a calibration error of 0. Of refutations alone half are right, an error of 25 points, less what
    luck alone would give.
    """
    rows = [(f"t{one}", "supported" if one < 40 else "refuted", 0.75, "supported" if one < 60 else "refuted")
            for one in range(80)]  # fmt: skip
    names = ("example_id", "verdict", "confidence", "gold_verdict")
    (part,) = report(hand_log(tmp_path / "log", rows, names, gold_error=[False] * 80)).parts
    errors = {name: one.calibration.ece.estimate for name, one in part.confidences}
    assert errors == pytest.approx({"all verdicts": 0, "refutations": 0.25}, abs=0.01)
    verdict = answer_of(part, OFF)
    assert verdict.answer is Answer.UNDECIDED
    assert "all verdicts" in verdict.decided_by


def test_differences_to_people_hold_for_all_seasons_at_once(tmp_path: Path) -> None:
    """Sixty texts with an error, of two seasons, all found. Somebody found 10 of 30 in one season and 20 of 30 in the
    other: the system gains 20 / 30 and 10 / 30, in all 30 / 60. Limits of three rows are wider than those of one.
    """
    seasons = ["2024"] * 30 + ["2025"] * 30
    right = [[number % 3 == 0 or (number >= 30 and number % 3 == 1)] for number in range(60)]
    rows = [(f"t{one}", "refuted", True) for one in range(60)]
    log = hand_log(
        tmp_path / "log", rows, ("example_id", "verdict", "matches_error"), gold_error=[True] * 60, season=seasons,
        human_positions=[[6]] * 60, human_corrects=right,
    )  # fmt: skip
    found = report(log, resamples=400)
    table = {name: row["gap"] for (name,), row in cells(found, "people", "group").items()}
    gains = {name: cell.estimate for name, cell in table.items()}
    assert gains == pytest.approx({"all": 50, "2024": 100 * 20 / 30, "2025": 100 * 10 / 30})
    (part,) = found.parts
    alone = part.gaps({0: (part.main_acts.finds, part.people.any)})[0]
    assert table["all"].low < alone.low
    assert table["all"].high > alone.high


def test_a_log_of_errors_alone_says_what_needs_texts_without_one(tmp_path: Path) -> None:
    rows = [(f"t{one}", "refuted") for one in range(4)]
    log = hand_log(tmp_path / "log", rows, ("example_id", "verdict"), gold_error=[True] * 4)
    found = report(with_texts(log, tmp_path / "both", [("direct", f"t{one}", None, True) for one in range(4)]))
    lacks_pools, lacks_texts = (answer_of(one.parts[0], ALARMS).why for one in (report(log), found))
    assert lacks_texts != lacks_pools
    assert any("false alarms" in line for line in found.lead)
    assert sum("frontier" in line and "without" in line for line in found.lead) == 2


def test_ties_on_dev_are_counted(tmp_path: Path) -> None:
    """On two texts of dev the three rules of revision do alike, as there are no revisions, and so do the twelve
    thresholds, as every confidence is 1.
    """
    rows = [(f"t{one}", "refuted", 1.0) for one in range(4)]
    names, splits = ("example_id", "verdict", "confidence"), ["dev", "dev", "test", "test"]
    log = hand_log(tmp_path / "log", rows, names, gold_error=[True] * 4, split=splits)
    found = report(log)
    (part,) = found.parts
    assert (part.pair_choice.name, part.pair_choice.ties, part.pair_choice.texts) == ("CE-1 + REV-1", 3, 2)
    assert "first of 3" in answer_of(part, CHOSEN).why
    assert "first of 12" in answer_of(part, THRESHOLD).why
    assert found.record["equal_on_dev"] == {"pair": 3, "threshold": 12}


def test_published_accuracy_stands_beside_accuracy() -> None:
    """The paper heads SAFE's 62.6 on LIAR with accuracy, and 55.1 on FEVEROUS with nothing but the data set."""
    liar, feverous = ({row[1]: row[2] for row in published_fixed(name)}["SAFE"] for name in ("LIAR", "FEVEROUS"))
    assert (liar, feverous) == ({"accuracy_pct": 62.6}, {"pct": 55.1})


def test_a_column_that_is_lacking_and_the_system_as_another_are_refused(tmp_path: Path) -> None:
    log = hand_log(tmp_path / "log", [("t0", "refuted")], ("example_id", "verdict"), gold_error=[True])
    with refuses("unknown", "`nothing`"):
        report(log, by="nothing")
    with refuses("conflict", "`listening`"):
        report(log, other="listening")
    report(log, by="season")  # the default


def test_a_system_without_a_part_is_not_compared_with_its_whole(tmp_path: Path) -> None:
    verdicts = [(0, 0, "stream", "not_enough"), (0, 1, "stream", "not_enough"), (1, 0, "revision", "not_enough"),
                (1, 1, "revision", "refuted")]  # fmt: skip
    rows = [(f"t{one}", pool, *verdict, True)
            for one in range(4) for pool in ("listening", "one-shot", "no-filter") for verdict in verdicts]  # fmt: skip
    names = ("example_id", "pool", "claim", "round", "stage", "verdict", "matches_error")
    log = hand_log(tmp_path / "log", rows, names, gold_error=[True] * 4)
    found = report(log, pool="one-shot", published="feverous")
    table = cells(found, "table_3", "variant")
    assert {name: row["published"] for (name,), row in table.items()} == {
        "one-shot extraction": 65.3, "one round": None, "no revision": None
    }  # fmt: skip
    questions = (one.replace("DIVER", "one-shot extraction") for one in (NAMES, FILTER, EXTRACTS))
    answers = [answer_of(found.parts[0], one) for one in questions]
    assert {one.answer for one in answers} == {Answer.UNASKED}
    assert all("one-shot" in one.why for one in answers)
    for name, heads in (("timing", ["method"]), ("table_a_5", ["method", "quantity"]), ("table_6", ["pool", "kind"]),
                        ("table_9", ["extraction", "revision"])):  # fmt: skip
        rows = cells(found, name, *heads).values()
        assert rows
        assert all(row.get("published") is None and row.get("published_within_20") is None for row in rows), name


def test_baselines_without_dev_are_named_as_such(tmp_path: Path) -> None:
    """Verdicts on texts of the test split alone: the method is compared with each, and nothing is said of dev. With
    those of `direct` on dev `search` is not compared.
    """
    names = [f"t{one}" for one in range(4)] + [f"d{one}" for one in range(4)]
    rows = [(name, "refuted") for name in names]
    log = hand_log(tmp_path / "log", rows, ("example_id", "verdict"), example_id=names, gold_error=[True] * 8,
                   split=["test"] * 4 + ["dev"] * 4)  # fmt: skip
    asked = [(pool, name, None, True) for pool in ("direct", "search") for name in names[:4]]
    (part,) = report(with_texts(log, tmp_path / "without", asked)).parts
    (group,) = part.systems.groups
    assert (part.baseline_choice(group).name, len(part.baselines(group))) == (None, 2)
    assert len(_baseline_lines(part)) == 1
    asked += [("direct", name, None, True) for name in names[4:]]
    (part,) = report(with_texts(log, tmp_path / "half", asked)).parts
    assert len(_baseline_lines(part)) == 3  # what was compared, what was chosen, what lacks dev
    assert [one.method for one in part.systems.every if one.name in part.baselines_without_dev(group)] == [SEARCH]
    assert [one.method for one in part.systems.every if one in part.baselines(group)] == [DIRECT]


@pytest.mark.parametrize("pools", [{}, {"listening": {"match": "prompt", "match_engine": "judge"}}])
def test_the_rule_by_which_claims_are_matched_is_that_of_the_manifest(pools: dict[str, Any], tmp_path: Path) -> None:
    plain = hand_log(tmp_path / "log", [("t0", "refuted", True)], ("example_id", "verdict", "matches_error"),
                     gold_error=[True])  # fmt: skip
    log = write_log(tmp_path / "said", name="hand", tables=log_tables(plain), pools=pools)
    assert match_rules(log) == ({"listening": "prompt, judge"} if pools else {})


def test_every_rule_of_extraction_and_revision_binds(tmp_path: Path) -> None:
    """Twelve texts of 32 words with an error. A sentence of 16 words and one name has 7 claims, and 9 come of
    revisions. Of s1 to s7 that claim of the sentence names the error and is refuted, of r1, r3, r5, r7 and r9 that one
    of the revisions.

    CE-1 follows 7 claims, CE-2 5, CE-3 ⌈16 / 4⌉ = 4, CE-4 3. REV-1 follows 4 revisions; REV-2 15 less these claims:
    8, 10, 11, 12; REV-3 ⌈32 / 4⌉ = 8 less them: 1, 3, 4, 5. Of the odd places these reach 2; 4, 5, 5, 5; 1, 2, 2, 3.
    """
    errors = [*range(7), *range(7, 16, 2)]
    rows = [
        (f"t{text}", claim, "stream" if claim < 7 else "revision", 10 if claim < 7 else 32,
         "refuted" if claim == error else "supported", claim == error)
        for text, error in enumerate(errors) for claim in range(16)
    ]  # fmt: skip
    unit = {"unit": 0, "unit_words": 16, "unit_entities": 1}
    names = ("example_id", "claim", "stage", "position", "verdict", "matches_error", *unit)
    length = pl.Series([32] * 12, dtype=pl.Int32)
    log = hand_log(
        tmp_path / "log", [(*row, *unit.values()) for row in rows], names, gold_error=[True] * 12, length=length
    )
    found = cells(report(log), "table_9", "extraction", "revision")
    right = {key: round(0.12 * at(row["accuracy"])) for key, row in found.items()}
    stream, odd = {"CE-1": 7, "CE-2": 5, "CE-3": 4, "CE-4": 3}, {
        "REV-1": (2, 2, 2, 2), "REV-2": (4, 5, 5, 5), "REV-3": (1, 2, 2, 3)
    }  # fmt: skip
    assert right == {
        (ce, rev): reached + of_rule[place] for place, (ce, reached) in enumerate(stream.items())
        for rev, of_rule in odd.items()
    }  # fmt: skip
    calls = {key: at(row["calls"]) for key, row in found.items()}
    assert calls["CE-4", "REV-1"] == pytest.approx((1 + 2 + 3 + 4 * 7 + 4 + 6 + 3 * 7) / 12)


def test_errors_beside_those_of_the_paper(tmp_path: Path) -> None:
    """Five texts. Of three with an error one is missed, one is acted on for another claim, and one is found; of two
    without, one is acted on: three errors, of which two are wrong about the text.
    """
    rows = [("t0", "supported", False), ("t1", "refuted", False), ("t2", "refuted", True), ("t3", "refuted", False),
            ("t4", "supported", False)]  # fmt: skip
    log = hand_log(
        tmp_path / "log", rows, ("example_id", "verdict", "matches_error"), gold_error=[True] * 3 + [False] * 2
    )
    table = {
        kind: row for (_, kind), row in cells(report(log, published="feverous"), "table_6", "pool", "kind").items()
    }
    counts = {kind: (row["errors"], row["wrong"], at(row["share"])) for kind, row in table.items() if row["errors"]}
    assert counts == {"missed claim": (1, 1, 50), "spurious refutation": (2, 1, 50), "all": (3, 2, 100)}
    row = table["spurious refutation"]
    assert (row["published"], row["published_bidev"], row["published_gap"]) == (46, 12, 34)
    assert (table["all"]["published"], table["all"]["published_bidev"]) == (100, 100)
    assert "published_bidev" not in next(iter(cells(report(log), "table_6", "pool", "kind").values()))


def test_verdicts_on_texts_are_beaten_where_all_are(tmp_path: Path) -> None:
    """Thirty texts with an error, all refuted by the system. `direct` is right on none of them, `search` on all."""
    rows = [(f"t{one}", "refuted") for one in range(30)]
    log = hand_log(tmp_path / "log", rows, ("example_id", "verdict"), gold_error=[True] * 30)
    asked = [(pool, f"t{one}", None, pool == "search") for pool in ("direct", "search") for one in range(30)]
    (part,) = report(with_texts(log, tmp_path / "both", asked), resamples=400).parts
    verdict = answer_of(part, BEATS)
    assert verdict.answer is Answer.UNDECIDED
    assert verdict.difference is not None
    assert verdict.difference.estimate == 0
    (part,) = report(with_texts(log, tmp_path / "one", asked[:30]), resamples=400).parts
    assert answer_of(part, BEATS).answer is Answer.YES


def test_kappa_has_the_spread_of_kappa() -> None:
    """Of ten texts both refute 4 and support 3, one alone refutes 2, the other 1: p = .7, q = .6 · .5 + .4 · .5 = .5,
    κ = .4. The variance over n of its linearisation is that of Fleiss, Cohen and Everitt (1969).
    """
    one = np.array([1] * 4 + [0] * 3 + [1] * 2 + [0])
    other = np.array([1] * 4 + [0] * 3 + [0] * 2 + [1])
    values = kappa_values(one, other)
    assert values.mean() == pytest.approx(0.4)
    kappa, q, first, second = 0.4, 0.5, (0.4, 0.6), (0.5, 0.5)
    cells_of = {(0, 0): 0.3, (1, 1): 0.4, (1, 0): 0.2, (0, 1): 0.1}
    a = sum(cells_of[i, i] * (1 - (first[i] + second[i]) * (1 - kappa)) ** 2 for i in (0, 1))
    b = (1 - kappa) ** 2 * sum(p * (second[i] + first[j]) ** 2 for (i, j), p in cells_of.items() if i != j)
    variance = (a + b - (kappa - q * (1 - kappa)) ** 2) / (1 - q) ** 2
    assert values.var() == pytest.approx(variance)
    assert np.isnan(kappa_values(np.ones(3), np.ones(3))).all()
