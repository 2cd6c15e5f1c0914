"""The study of acting on unfolding text: cells of its tables derived again, plainly, from the log."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from replay.studies.buzz.acts import contrast
from replay.studies.buzz.figures import FIGURES, MOST_PANELS
from replay.studies.buzz.further_tables import COSTS, SETTINGS
from replay.studies.buzz.published import WORK
from replay.studies.buzz.systems import CHECKED, DIRECT, PREFIXES, SEARCH, TEXT_METHODS, split_pool_name
from replay.studies.buzz.verdicts import findings
from replay.studies.kit.cells import UNSERVED
from replay.studies.kit.published import read_published
from replay.studies.kit.report import StudyReport
from replay.studies.kit.verdicts import Answer
from tests.errors import refuses
from tests.logs import log_tables
from tests.studies.buzz import Plain, Row, macro_f1, mean, plain_act_by_clock, report, world
from tests.studies.multihop import cells
from tests.studies.test_buzz_planted import CHOSEN, HOPS, NAMES, OFF, RIGHT, SOONER, SPURIOUS, THRESHOLD, WEAKER
from tests.studies.test_published import value as arithmetic
from toolkit.log import Log, collect, write_log
from toolkit.show import IntervalCell, Table, code_of
from toolkit.show.drawing.style import ORANGE

MAIN = "DIVER (first)"
POOLS = {
    MAIN: "simulated", "one-shot extraction (first)": "one-shot", "no filter (first)": "no-filter",
    "DIVER (second)": "second-simulated", "one-shot extraction (second)": "second-one-shot",
}  # fmt: skip


@pytest.fixture(scope="module")
def log(unfolding_log: Log) -> Log:
    return unfolding_log


@pytest.fixture(scope="module")
def found(unfolding_report: StudyReport) -> StudyReport:
    return unfolding_report


@pytest.fixture(scope="module")
def plain(log: Log) -> Plain:
    return Plain(log)


def at(value: Any) -> float:
    return value if isinstance(value, int | float) else value.estimate


def test_methods_and_parts_are_those_of_a_plain_loop(found: StudyReport, plain: Plain) -> None:
    rows = cells(found, "table_1", "backbone", "method")
    gold = [text["gold_error"] for text in plain.texts.values()]
    main = mean(plain.right(plain.acts("simulated", to_end=True)))
    for name, pool in POOLS.items():
        method, _, backbone = name.removesuffix(")").partition(" (")
        if method != "DIVER":
            continue
        acts = plain.acts(pool, to_end=True)
        row = rows[backbone, method]
        assert at(row["accuracy"]) == pytest.approx(100 * mean(plain.right(acts)))
        given = [act.row is not None for act in acts.values()]
        assert at(row["macro_f1"]) == pytest.approx(100 * macro_f1(given, gold))
        for baseline in ("direct", "prefixes"):
            label = {"direct": DIRECT, "prefixes": PREFIXES}[baseline]
            said = []
            for example in plain.texts:
                traces = plain.traces[f"{pool}-{baseline}", example]
                said.append(any(one["answer"] == "refuted" for one in traces))
            right = mean(g == t for g, t in zip(said, gold, strict=True))
            other = rows[backbone, label]
            assert at(other["accuracy"]) == pytest.approx(100 * right)
            assert at(other["macro_f1"]) == pytest.approx(100 * macro_f1(said, gold))
            if other["gap_accuracy"] is not None:
                gap = at(row["accuracy"]) - at(other["accuracy"])
                assert at(other["gap_accuracy"]) == pytest.approx(gap)
    parts = cells(found, "table_3", "variant")
    variants: dict[str, Any] = {
        "DIVER": ("simulated", {}), "one-shot extraction": ("one-shot", {}), "no filter": ("no-filter", {}),
        "one round": ("simulated", {"rounds": 1}),
        "no revision": ("simulated", {"keeps": lambda row, *_: row["stage"] == "stream"}),
    }  # fmt: skip
    assert set(parts) == {(name,) for name in variants}
    for name, (pool, keys) in variants.items():
        acts = plain.acts(pool, **keys)
        row = parts[name,]
        assert at(row["accuracy"]) == pytest.approx(100 * mean(plain.right(acts))), name
        assert at(row["found"]) == pytest.approx(100 * mean(plain.found(acts))), name
        assert at(row["false_alarm"]) == pytest.approx(100 * mean(plain.alarms(acts))), name
        if name != "DIVER":
            assert at(row["gap_accuracy"]) == pytest.approx(100 * main - at(row["accuracy"]))
    assert {name: row["by"] for (name,), row in parts.items()}["no revision"] == "policy"
    assert {name for (name,), row in parts.items() if row["revises"] == "no"} == {"no revision"}


def test_the_baseline_is_the_best_on_dev(found: StudyReport, log: Log) -> None:
    rows = cells(found, "table_1", "backbone", "method")
    examples = collect(log.scan("examples", ["example_id", "split", "gold_error"]), log).filter(split="dev")
    traces = collect(log.scan("traces", ["example_id", "pool", "answer", "sample_index"]), log)
    for backbone, pool in (("first", "simulated"), ("second", "second-simulated")):
        right = {}
        for form, label in (("direct", DIRECT), ("prefixes", PREFIXES)):
            said = traces.filter(pl.col("pool") == f"{pool}-{form}").group_by("example_id").agg(
                refuted=(pl.col("answer") == "refuted").any()
            )  # fmt: skip
            joined = examples.join(said, on="example_id")
            right[label] = float((joined["refuted"] == joined["gold_error"]).cast(pl.Float64).mean() or 0.0)
        compared = [label for label in right if rows[backbone, label]["gap_accuracy"] is not None]
        assert [right[label] for label in compared] == [max(right.values())]


def test_coverage_and_errors_are_counted_plainly(found: StudyReport, plain: Plain) -> None:
    rows, kinds = cells(found, "table_4", "backbone", "extractor"), cells(found, "table_6", "pool", "kind")
    errors = [name for name, text in plain.texts.items() if text["gold_error"]]
    for name, pool in POOLS.items():
        method, _, backbone = name.removesuffix(")").partition(" (")
        for key, stages in (("stream", ("stream",)), ("all", ("stream", "revision"))):
            named = [any(r["matches_error"] and r["stage"] in stages for r in plain.rows[pool, e]) for e in errors]
            assert at(rows[backbone, method][key]) == pytest.approx(100 * mean(named)), (name, key)
    for backbone in ("first", "second"):
        one, other = (at(rows[backbone, method]["stream"]) for method in ("DIVER", "one-shot extraction"))
        assert at(rows[backbone, "DIVER"]["gap"]) == pytest.approx(one - other)
    shown = {pool for pool, _ in kinds}
    assert len(shown) == 2
    for name in shown:
        counts: Counter[str] = Counter()
        for example, act in plain.acts(POOLS[name]).items():
            text, rows_of_text = plain.texts[example], plain.rows[POOLS[name], example]
            last = {r["claim"]: r["verdict"] for r in rows_of_text if r["matches_error"]}
            if act.row is not None and (not text["gold_error"] or not act.names_error):
                counts["spurious refutation"] += 1
            elif text["gold_error"] and act.row is None:
                kind = "unsupported confidence" if "supported" in last.values() else "failed retrieval"
                counts[kind if last else "missed claim"] += 1
        for kind in ("missed claim", "failed retrieval", "unsupported confidence", "spurious refutation", "other"):
            assert kinds[name, kind]["errors"] == counts[kind], (name, kind)
            assert at(kinds[name, kind]["texts"]) == pytest.approx(100 * counts[kind] / len(plain.texts))
        assert kinds[name, "all"]["errors"] == counts.total()


def test_methods_on_unfolding_texts_and_labels(found: StudyReport, log: Log) -> None:
    rows, labels = cells(found, "table_7", "method"), cells(found, "table_8", "label")
    texts = collect(log.scan("examples"), log).filter(split="test").with_columns(gold=pl.col("gold_error"))
    checks = collect(log.scan("checks"), log).filter(pl.col("pool") == "simulated", pl.col("verdict") != "none")
    stream, at_first = pl.col("stage") == "stream", ["position", "claim", "round"]
    acts = checks.filter(verdict="refuted").sort(~stream, *at_first).group_by("example_id", maintain_order=True).first()
    acts = texts.select("example_id", "gold").join(acts, on="example_id", how="left").with_columns(
        said=pl.col("verdict").is_not_null()
    )  # fmt: skip
    # after an act in the stream no revision is paid, after one in a revision nothing that follows it
    paid = checks.join(acts.select("example_id", "said", end="claim", by="stage"), on="example_id").filter(
        stream | ~pl.col("said") | ((pl.col("by") == "revision") & (pl.col("claim") <= pl.col("end")))
    )  # fmt: skip
    last = paid.sort("round").group_by("example_id", "claim").last().filter(pl.col("gold_verdict").is_not_null())
    traces = collect(log.scan("traces"), log)
    said = {"DIVER": acts.select("said", "gold")}
    for label, pool in ((DIRECT, "simulated-direct"), (PREFIXES, "simulated-prefixes")):
        of_text = traces.filter(pool=pool).group_by("example_id").agg(said=(pl.col("answer") == "refuted").any())
        said[label] = texts.join(of_text, on="example_id").select("said", "gold")
    assert rows.keys() == {(name,) for name in said}
    for name, frame in said.items():
        given, gold = frame["said"].to_list(), frame["gold"].to_list()
        assert at(rows[name,]["accuracy"]) == pytest.approx(100 * mean(frame["said"] == frame["gold"]))
        assert at(rows[name,]["macro_f1"]) == pytest.approx(100 * macro_f1(given, gold))
        assert at(rows[name,]["false_alarm"]) == pytest.approx(100 * mean(frame.filter(~pl.col("gold"))["said"]))
    row, right = rows["DIVER",], last["verdict"] == last["gold_verdict"]
    assert at(row["found"]) == pytest.approx(100 * mean(acts.filter("gold")["matches_error"].fill_null(value=False)))
    assert at(row["claim_accuracy"]) == pytest.approx(100 * mean(right))
    scores = []
    for verdict in set(last["gold_verdict"]):
        both = last.filter(verdict=verdict, gold_verdict=verdict).height
        scores.append(2 * both / (last.filter(verdict=verdict).height + last.filter(gold_verdict=verdict).height))
    assert at(row["claim_macro_f1"]) == pytest.approx(100 * mean(scores))
    counts = dict(texts.group_by("gold").len().rows())
    assert {label: row["texts"] for (label,), row in labels.items()} == {
        "refuted": counts[True], "supported": counts[False]
    }  # fmt: skip


def test_accuracy_by_hops(found: StudyReport, plain: Plain) -> None:
    rows = cells(found, "table_5", "method", "hops")
    for hops in (1, 2):
        on = [name for name, text in plain.texts.items() if text["hops"] == hops]
        values = {}
        for name, keys in ((MAIN, {}), ("one round", {"rounds": 1})):
            acts = plain.acts("simulated", **keys)
            values[name] = mean(dict(zip(acts, plain.right(acts), strict=True))[one] for one in on)
            assert at(rows[name, str(hops)]["accuracy"]) == pytest.approx(100 * values[name])
            assert rows[name, str(hops)]["texts"] == len(on)
        assert at(rows[MAIN, str(hops)]["gap"]) == pytest.approx(100 * (values[MAIN] - values["one round"]))


def _within(words: int) -> Any:
    """The claims that a unit's words allow."""
    return lambda row, place, in_unit, _: row["stage"] == "revision" or in_unit < math.ceil(row["unit_words"] / words)


def test_rules_of_extraction_and_revision(found: StudyReport, plain: Plain) -> None:
    rows = cells(found, "table_9", "extraction", "revision")
    assert len(rows) == 12
    rules: dict[tuple[str, str], Any] = {
        ("CE-1", "REV-1"): lambda row, place, in_unit, _: row["stage"] == "stream" or place < 4,
        ("CE-1", "REV-2"): lambda row, place, in_unit, n: row["stage"] == "stream" or place < 15 - n,
        ("CE-3", "REV-1"): _within(4),
        ("CE-4", "REV-1"): lambda row, place, in_unit, _: (
            row["stage"] == "revision" or in_unit < 3 * row["unit_entities"]
        ),
    }
    for key, keeps in rules.items():
        acts = plain.acts("simulated", keeps=keeps)
        assert at(rows[key]["accuracy"]) == pytest.approx(100 * mean(plain.right(acts))), key
        assert at(rows[key]["found"]) == pytest.approx(100 * mean(plain.found(acts))), key
        assert at(rows[key]["false_alarm"]) == pytest.approx(100 * mean(plain.alarms(acts))), key
        given, gold = (
            [act.row is not None for act in acts.values()],
            [one["gold_error"] for one in plain.texts.values()],
        )
        assert at(rows[key]["macro_f1"]) == pytest.approx(100 * macro_f1(given, gold)), key
        if key != ("CE-1", "REV-1"):
            gap = at(rows[key]["accuracy"]) - at(rows["CE-1", "REV-1"]["accuracy"])
            assert at(rows[key]["gap_accuracy"]) == pytest.approx(gap)
        assert at(rows[key]["calls"]) == pytest.approx(mean(sum(r["calls"] for r in a.paid) for a in acts.values()))
    best = max(at(row["dev"]) for row in rows.values())
    assert [at(row["dev"]) for row in rows.values() if row["chosen"] == "yes"] == [best]


def test_timing_is_that_of_a_plain_loop(found: StudyReport, plain: Plain) -> None:
    rows = cells(found, "timing", "method")
    by_delta = cells(found, "by_deviation", "method", "limit")
    errors = sum(text["gold_error"] for text in plain.texts.values())
    for name, pool in POOLS.items():
        deltas = list(plain.deviations(plain.acts(pool)).values())
        row = rows[name,]
        assert (row["texts"], row["found"], row["timed"]) == (errors, len(deltas), len(deltas))
        assert at(row["deviation"]) == pytest.approx(100 * mean(deltas))
        assert at(row["median"]) == pytest.approx(100 * statistics.median(deltas))
        for share in (20, 40):
            assert at(row[f"within_{share}"]) == pytest.approx(100 * mean(abs(one) <= share / 100 for one in deltas))
            assert at(row[f"by_{share}"]) == pytest.approx(100 * mean(one <= share / 100 for one in deltas))
        assert at(row["premature"]) == pytest.approx(100 * mean(one < 0 for one in deltas))
        for limit in (0.0, 10.0, 50.0):
            share = sum(one <= limit / 100 + 1e-9 for one in deltas) / errors
            assert at(by_delta[name, limit]["found"]) == pytest.approx(100 * share)
    one, other = (plain.deviations(plain.acts(POOLS[name])) for name in ("DIVER (second)", MAIN))
    both = [100 * (one[name] - other[name]) for name in one if name in other]
    assert at(rows["DIVER (second)",]["gap"]) == pytest.approx(mean(both))


def test_costs_are_sums_over_paid_rows(found: StudyReport, plain: Plain) -> None:
    rows = cells(found, "table_a_5", "method", "quantity")
    for name, pool in POOLS.items():
        acts = plain.acts(pool, to_end=True)
        headings = dict(COSTS)
        for cost in ("calls", "queries", "prompt_tokens", "completion_tokens", "busy_s"):
            quantity, column = headings[cost], "latency_s" if cost == "busy_s" else cost
            sums = [sum(row[column] for row in act.paid) for act in acts.values()]
            assert at(rows[name, quantity]["mean"]) == pytest.approx(mean(sums)), (name, quantity)
            assert rows[name, quantity]["spread"] == pytest.approx(statistics.stdev(sums)), (name, quantity)


def test_the_frontier_is_that_of_a_plain_loop(found: StudyReport, plain: Plain) -> None:
    rows = cells(found, "frontier", "setting", "value")
    settings: list[tuple[str, float, Row]] = [("confidence", one, {"confidence": one}) for one in (0.0, 0.5, 0.9)]
    settings += [("patience", k, {"patience": k}) for k in (1, 2, 3)]
    settings += [("max_rounds", k, {"rounds": k}) for k in (1, 2)]
    settings += [("max_claims", k, {"keeps": lambda r, place, *_, k=k: r["stage"] == "revision" or place < k})
                 for k in (2, 4)]  # fmt: skip
    for key, value, keys in settings:
        acts, row = plain.acts("simulated", **keys), rows[SETTINGS[key], f"{value:g}"]
        assert at(row["found"]) == pytest.approx(100 * mean(plain.found(acts))), (key, value)
        assert at(row["false_alarm"]) == pytest.approx(100 * mean(plain.alarms(acts))), (key, value)
        assert at(row["accuracy"]) == pytest.approx(100 * mean(plain.right(acts))), (key, value)
    assert sum(row["chosen"] == "yes" for row in rows.values()) == 1


def test_a_text_that_does_not_wait(found: StudyReport, plain: Plain) -> None:
    rows = cells(found, "clock", "text")
    goes_on = next(name for name, speed in found.parts[0].speeds.items() if speed == 2.5)
    waits, deltas, right = plain.deviations(plain.acts("simulated")), {}, []
    for name, text in plain.texts.items():
        act = plain_act_by_clock(plain.rows["simulated", name], 2.5)
        right.append((act is not None) == text["gold_error"])
        if act is not None and act[0]["matches_error"]:
            deltas[name] = (min(act[1], text["length"]) - text["gold_position"]) / text["length"]
    row = rows[goes_on,]
    assert at(row["deviation"]) == pytest.approx(100 * mean(deltas.values()))
    assert at(row["accuracy"]) == pytest.approx(100 * mean(right))
    errors = sum(text["gold_error"] for text in plain.texts.values())
    assert at(row["found"]) == pytest.approx(100 * len(deltas) / errors)
    assert at(rows["waits",]["deviation"]) == pytest.approx(100 * mean(waits.values()))
    assert at(row["gap"]) == pytest.approx(100 * mean(deltas[name] - waits[name] for name in deltas if name in waits))


def test_confidences_against_labels(found: StudyReport, plain: Plain) -> None:
    rows = cells(found, "calibration", "verdicts")
    for name, verdicts in (("all verdicts", ("supported", "refuted")), ("refutations", ("refuted",))):
        decided = [
            row for example in plain.texts for row in plain.rows["simulated", example] if row["verdict"] in verdicts
        ]
        right = [row["verdict"] == row["gold_verdict"] for row in decided]
        brier = mean((row["confidence"] - one) ** 2 for row, one in zip(decided, right, strict=True))
        assert rows[name,]["claims"] == len(decided)
        calibration = dict(found.parts[0].confidences)[name].calibration
        assert calibration.clusters == len({row["example_id"] for row in decided})  # a text is drawn with its claims
        assert at(rows[name,]["rate"]) == pytest.approx(100 * mean(right))
        assert at(rows[name,]["score"]) == pytest.approx(100 * mean(row["confidence"] for row in decided))
        assert at(rows[name,]["brier"]) == pytest.approx(brier)


def test_agreement_and_headroom(found: StudyReport, plain: Plain) -> None:
    rows, lost = cells(found, "agreement", "other"), cells(found, "headroom", "method")
    main = plain.acts("simulated")
    for name in ("one-shot extraction (first)", "DIVER (second)"):
        other = plain.acts(POOLS[name])
        agree = [(main[one].row is None) == (other[one].row is None) for one in plain.texts]
        assert at(rows[name,]["agree"]) == pytest.approx(100 * mean(agree))
        pairs = list(zip(plain.right(main), plain.right(other), strict=True))
        assert at(rows[name,]["first"]) == pytest.approx(100 * mean(a * (1 - b) for a, b in pairs))
        chance = mean(a.row is not None for a in main.values()), mean(a.row is not None for a in other.values())
        by_chance = chance[0] * chance[1] + (1 - chance[0]) * (1 - chance[1])
        assert at(rows[name,]["kappa"]) == pytest.approx((mean(agree) - by_chance) / (1 - by_chance))
    parts: Counter[str] = Counter()
    later = []
    errors = [name for name, text in plain.texts.items() if text["gold_error"]]
    for name in errors:
        text, act = plain.texts[name], main[name]
        claims = [row for row in plain.rows["simulated", name] if row["matches_error"]]
        if not act.names_error:
            last = {row["claim"]: row["verdict"] for row in claims}
            searched = act.row is None and set(last.values()) == {"not_enough"}
            parts["search" if searched else "verdict" if claims else "extraction"] += 1
        else:
            distance = [abs(row["position"] - text["gold_position"]) / text["length"] for row in claims]
            assert act.row is not None
            later.append(abs(act.row["position"] - text["gold_position"]) / text["length"] - min(distance))
    row = lost[MAIN,]
    for part in ("extraction", "search", "verdict"):
        assert at(row[part]) == pytest.approx(100 * parts[part] / len(errors)), part
    assert at(row["gap"]) == pytest.approx(sum(at(row[part]) for part in ("extraction", "search", "verdict")))
    assert at(row["timing"]) == pytest.approx(100 * mean(later))


def test_what_a_policy_does_not_follow_is_no_verdict_of_its_own(tmp_path: Path) -> None:
    """Four texts with an error. Of t0 the second round refutes the claim that names it, of t1 a claim of the revision
    names it, of t2 the claim that names it is supported, of t3 none names it.

    The whole lacks t2 (a verdict) and t3 (extraction); one round lacks t0 too, whose first round does not decide (a
    search); no revision lacks t1, whose stream names no error (extraction).
    """
    rows = [
        ("t0", 0, 0, "stream", "not_enough", True), ("t0", 0, 1, "stream", "refuted", True),
        ("t1", 0, 0, "stream", "supported", False), ("t1", 1, 0, "revision", "refuted", True),
        ("t2", 0, 0, "stream", "supported", True), ("t3", 0, 0, "stream", "supported", False),
    ]  # fmt: skip
    names = ["example_id", "claim", "round", "stage", "verdict", "matches_error"]
    whole = {"claim": pl.Int32, "round": pl.Int32}
    checks = pl.DataFrame(rows, schema=names, orient="row", schema_overrides=whole).with_columns(
        pool=pl.lit("listening"), position=pl.lit(5, pl.Int32), calls=pl.lit(1, pl.Int32), queries=pl.lit(1, pl.Int32)
    )  # fmt: skip
    examples = pl.DataFrame({"example_id": ["t0", "t1", "t2", "t3"]}).with_columns(
        dataset=pl.lit("hand"), split=pl.lit("test"), question=pl.lit("a b c d e"), length=pl.lit(5, pl.Int32),
        gold_error=pl.lit(value=True), gold_position=pl.lit(4, pl.Int32),
    )  # fmt: skip
    found = report(write_log(tmp_path / "log", name="hand", tables={"examples": examples, "checks": checks}))
    lost = {
        name: [at(row[part]) for part in ("gap", "extraction", "search", "verdict")]
        for (name,), row in cells(found, "headroom", "method").items()
    }
    assert lost == {"DIVER": [50, 25, 0, 25], "one round": [75, 25, 25, 25], "no revision": [75, 50, 0, 25]}


def test_pools_of_one_method_have_rows_of_their_own(tmp_path: Path) -> None:
    found = report(world(tmp_path / "log", 30, listening={"direct": 0.7}, diver={"direct": 0.6}))
    pools = {"DIVER, diver", "DIVER, listening"}
    texts = {f"{method}, {pool}-{form}" for pool in ("diver", "listening")
             for method, form in ((DIRECT, "direct"), (PREFIXES, "prefixes"))}  # fmt: skip
    assert {method for _, method in cells(found, "table_1", "backbone", "method")} == pools | texts
    assert {name for (name,) in cells(found, "table_7", "method")} == {"DIVER, listening"} | texts
    assert {name for (name,) in cells(found, "table_3", "variant")} == pools | {"one round", "no revision"}
    assert {name for (name,) in cells(found, "timing", "method")} >= pools


def test_people_beside_the_system(found: StudyReport, plain: Plain) -> None:
    rows = cells(found, "people", "group")
    acts = plain.acts("simulated")
    deltas = plain.deviations(acts)
    for season in ("all", "2024", "2025"):
        on = {name: text for name, text in plain.texts.items() if season in ("all", text["season"])}
        row = rows[season,]
        assert row["texts"] == len(on)
        assert at(row["any"]) == pytest.approx(100 * mean(any(text["human_corrects"]) for text in on.values()))
        assert at(row["share"]) == pytest.approx(100 * mean(mean(text["human_corrects"]) for text in on.values()))
        theirs, wins = {}, []
        for name, text in on.items():
            people = list(zip(text["human_positions"], text["human_corrects"], strict=True))
            if not text["gold_error"]:
                continue
            right = [position for position, correct in people if correct]
            if right:
                theirs[name] = (min(right) - text["gold_position"]) / text["length"]
            act = acts[name]
            position = math.inf if act.row is None else act.row["position"]
            wins.append(act.names_error * mean(not (correct and at < position) for at, correct in people))
        assert at(row["people_deviation"]) == pytest.approx(100 * mean(theirs.values()))
        both = [100 * (theirs[name] - deltas[name]) for name in theirs if name in deltas]
        assert row["both"] == len(both)
        assert at(row["sooner"]) == pytest.approx(mean(both))
        assert at(row["wins"]) == pytest.approx(100 * mean(wins))


def test_it_is_saved_as_other_studies_are(found: StudyReport, tmp_path: Path) -> None:
    folder = found.save(tmp_path / "out")
    names = {path.name for path in folder.iterdir()}
    tables = ("verdicts", "table_1", "table_3", "table_4", "table_5", "table_6", "table_7", "table_8", "table_9",
              "table_a_5", "timing", "frontier", "clock", "calibration", "agreement", "headroom", "people")  # fmt: skip
    for table in tables:
        assert {f"{table}.csv", f"{table}.md", f"{table}.tex"} <= names, table
    for figure in ("figure_1", "frontier", "by_deviation", "deviation", "acts", "calibration", "parts"):
        assert {f"{figure}.pdf", f"{figure}.svg", f"{figure}.png"} <= names, figure
    assert {"report.md", "report.tex", "run.json", "notes.json", "cases.csv"} <= names
    drawn = f"{MOST_PANELS} of {len(cells(found, 'timing', 'method'))}"
    assert sum(drawn in line for line in found.lead) == 1


def test_figure_1_has_the_words_the_claims_and_the_error(found: StudyReport) -> None:
    part = found.parts[0]
    figure = FIGURES["figure_1"].draw_for(part)
    assert figure is not None
    for axes, case in zip(figure.axes, part.cases.cases, strict=True):
        assert [label.get_text() for label in axes.get_xticklabels()] == case.question.split()
        assert len(axes.texts) == case.rounds.filter(pl.col("verdict") != "none")["claim"].n_unique()
        assert [label.get_color() for label in axes.get_xticklabels()].count(ORANGE) == int(not math.isnan(case.first))


def lacking(
    log: Log, folder: Path, examples: tuple[str, ...] = (), checks: tuple[str, ...] = (), split: bool = True
) -> Log:
    """The log without some columns, or without the texts of its dev split."""
    tables = log_tables(log)
    test = tables["examples"].filter(split="test")["example_id"]
    tables["examples"] = tables["examples"].drop(examples)
    tables["checks"] = tables["checks"].drop(checks)
    if "claim_text" in checks:
        tables["examples"] = tables["examples"].with_columns(question=pl.lit(""))
    if not split:
        tables = {name: frame.filter(pl.col("example_id").is_in(test.implode())) for name, frame in tables.items()}
    assert log.manifest is not None
    return write_log(folder, name="lacking", tables=tables, simulated=True, pools=log.manifest.pools)


PEOPLE = ("human_positions", "human_corrects")
FOUND = {"table_3", "table_7", "table_9", "timing", "by_deviation", "frontier", "clock", "people", "cases"}


@dataclass(frozen=True)
class Lack:
    """A part that a log may lack: how it is taken `out`, the tables that are then `left_out`, those that `change` and
    those with a line of their own (`noted`), what each line of the report on it `names`, and the questions that are
    not asked for it, each with a word of the reason.
    """

    out: Row
    left_out: frozenset[str] = frozenset()
    change: frozenset[str] = frozenset()
    names: tuple[tuple[str, ...], ...] = ()
    unasked: Row = field(default_factory=dict)
    noted: frozenset[str] = frozenset()


LACKS = {
    "dev": Lack(
        {"split": False}, change=frozenset({"table_1", "table_9", "frontier"}), names=(("dev split", "threshold"),),
        unasked={CHOSEN: "dev split", THRESHOLD: "dev split"}, noted=frozenset({"table_1"}),
    ),
    "people": Lack(
        {"examples": PEOPLE}, frozenset({"people"}), names=(("no people", "`people`"),),
        unasked={RIGHT: "people", SOONER: "people"},
    ),
    "hops": Lack(
        {"examples": ("hops",)}, frozenset({"table_5"}), names=(("no `hops`", "table 5"),), unasked={HOPS: "`hops`"}
    ),
    "confidences": Lack(
        {"checks": ("confidence",)}, frozenset({"calibration"}), frozenset({"frontier"}),
        (("no `confidence`", "`calibration`"),), {OFF: "confidences", THRESHOLD: "`confidence`"},
    ),
    "texts": Lack(
        {"checks": ("claim_text",)}, change=frozenset({"agreement"}),
        names=(("no `claim_text`", "`agreement`"), ("no `question`", "figure 1")),
    ),
    "places": Lack(
        {"examples": ("gold_position",)}, frozenset({"timing", "by_deviation", "clock"}),
        frozenset({"frontier", "headroom", "people", "cases"}), (("no `gold_position`", "timing"),),
        {SOONER: "`gold_position`"},
    ),
    "matches": Lack(
        {"checks": ("matches_error",)}, frozenset({"table_4", "table_6", "headroom"}), frozenset(FOUND),
        (("no `matches_error`", "4, 6 and"),), {NAMES: "`matches_error`", SPURIOUS: "`matches_error`"},
        frozenset(FOUND - {"table_7", "cases"}),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Log, StudyReport]:
    """A small log with all of these, and its report."""
    pools: dict[str, Row] = {"simulated": {"direct": 0.7}, "one_shot": {"extraction": 0.5}}
    made = world(tmp_path_factory.mktemp("small") / "log", 60, **pools)
    return made, report(made)


def rounded(table: Table) -> list[list[Any]]:
    """The cells of a table, numbers to nine digits: which policies are replayed together changes their last ones."""

    def plainly(value: Any) -> Any:
        if isinstance(value, IntervalCell):
            return plainly(value.estimate), plainly(value.low), plainly(value.high)
        return round(value, 9) + 0.0 if isinstance(value, float) else value

    return [[plainly(value) for value in row] for row in table.rows]


def whys(found: StudyReport) -> dict[str, str]:
    """The questions that are not asked, with the reason."""
    return {one.question: one.why for one in findings(found.parts[0]) if one.answer is Answer.UNASKED}


@pytest.mark.parametrize("lack", LACKS.values(), ids=list(LACKS))
def test_what_needs_what_a_log_lacks_says_so_and_the_rest_is_as_it_was(
    small: tuple[Log, StudyReport], tmp_path: Path, lack: Lack
) -> None:
    made, whole = small
    found = report(lacking(made, tmp_path / "log", **lack.out))
    assert set(whole.tables) - set(found.tables) == lack.left_out
    changed = {name for name, table in found.tables.items() if rounded(table) != rounded(whole.tables[name])}
    assert changed - {"verdicts"} == lack.change
    new = [line for line in found.lead if line not in whole.lead and code_of(line) == UNSERVED]
    assert len(new) == len(lack.names)
    for names in lack.names:
        assert sum(all(name in line for name in names) for line in new) == 1, names
    unasked = whys(found)
    assert {question for question, why in unasked.items() if whys(whole).get(question) != why} == lack.unasked.keys()
    for question, name in lack.unasked.items():
        assert name in unasked[question], question
    noted = {name for name in found.tables if set(found.tables[name].below) - set(whole.tables[name].below)}
    assert noted == lack.noted


def test_without_dev_people_hops_and_confidences_the_rest_is_written(
    small: tuple[Log, StudyReport], tmp_path: Path
) -> None:
    made, whole = small
    found = report(lacking(made, tmp_path / "log", ("hops", *PEOPLE, "density"), ("confidence",), split=False))
    assert set(whole.tables) - set(found.tables) == {"table_5", "people", "calibration"}
    assert all(row["gap_accuracy"] is not None for (_, method), row in cells(
        found, "table_1", "backbone", "method"
    ).items() if method != "DIVER")  # fmt: skip
    assert not any(row["chosen"] for row in cells(found, "table_9", "extraction", "revision").values())
    assert {key for key, _ in cells(found, "frontier", "setting", "value")} == set(SETTINGS.values()) - {
        SETTINGS["confidence"]
    }
    assert found.record["dev"] is None
    assert found.record["threshold"] is None
    unasked = {one.question for one in findings(found.parts[0]) if one.answer is Answer.UNASKED}
    assert unasked >= {RIGHT, SOONER, THRESHOLD, CHOSEN, HOPS, OFF, WEAKER}
    folder = found.save(tmp_path / "out")
    assert {f"{name}.{kind}" for name in found.tables for kind in ("csv", "md", "tex")} <= {
        path.name for path in folder.iterdir()
    }


def test_without_texts_places_and_matches_the_rest_is_written(tmp_path: Path) -> None:
    made = world(tmp_path / "whole", 40)
    log = lacking(
        made,
        tmp_path / "log",
        ("gold_position", "length"),
        ("matches_error", "claim_text", "unit", "unit_words", "latency_s"),
    )
    found = report(log)
    assert {"table_4", "table_6", "timing", "clock", "by_deviation"}.isdisjoint(found.tables)
    assert {"table_1", "table_7", "table_9", "frontier", "people", "calibration", "cases"} <= set(found.tables)
    rows = cells(found, "table_9", "extraction", "revision")
    assert len(rows) == 12
    assert all(rows["CE-3", rule]["accuracy"] is None for rule in ("REV-1", "REV-2", "REV-3"))
    assert rows["CE-1", "REV-3"]["accuracy"] is None  # it needs the length
    found.save(tmp_path / "out")


def test_a_log_without_checks_is_refused(tmp_path: Path) -> None:
    log = world(tmp_path / "log", 10, simulated={"direct": 0.7})
    tables = log_tables(log)
    del tables["checks"]
    with refuses("unsuitable", "`checks`"):
        report(write_log(tmp_path / "traces", name="traces", tables=tables))
    with refuses("unknown", "`nothing`"):
        report(log, pool="nothing")
    with refuses("leakage", "dev"):
        report(log, dev="split = 'test'")
    with refuses("unknown", "`fever`"):
        report(log, published="fever")


@pytest.mark.parametrize(
    ("pool", "checks", "method", "group"),
    [("listening", True, "DIVER", ""), ("second-listening", True, "DIVER", "second"), ("mine", True, "mine", ""),
     ("no-filter", True, "no filter", ""), ("listening-direct", False, DIRECT, ""),
     ("second-search", False, SEARCH, "second"), ("bidev-small", False, "BiDeV", "small"),
     ("second-listening-prefixes", False, PREFIXES, "second")],
)  # fmt: skip
def test_pools_are_named_by_method_and_backbone(pool: str, checks: bool, method: str, group: str) -> None:
    name, rest = split_pool_name(pool, CHECKED if checks else TEXT_METHODS)
    assert ({**CHECKED, **TEXT_METHODS}[name] if name else pool) == method
    assert ("" if name is None else split_pool_name(rest, CHECKED)[1]) == group


def test_published_numbers_stand_beside_a_log_that_is_named_so(tmp_path: Path) -> None:
    tables = log_tables(world(tmp_path / "log", 30, simulated={"direct": 0.7}, one_shot={}))
    tables["examples"] = tables["examples"].with_columns(dataset=pl.lit("FEVEROUS"))
    tables["traces"] = tables["traces"].with_columns(model=pl.lit("gpt-4o-mini"))
    found = report(write_log(tmp_path / "named", name="named", tables=tables))
    rows = cells(found, "table_1", "backbone", "method")
    assert rows["gpt-4o-mini", "DIVER"]["published"] == 70.6
    assert rows["gpt-4o-mini", "Vanilla LLM"]["published"] == 50.1
    assert cells(found, "table_2", "group", "method")["pipelines", "SAFE"]["accuracy"] is None
    assert cells(found, "table_3", "variant")["no revision",]["published"] == 68.3
    assert cells(found, "table_9", "extraction", "revision")["CE-1", "REV-2"]["published"] == 71.2
    assert cells(found, "table_9", "extraction", "revision")["CE-3", "REV-1"]["published"] is None
    assert cells(found, "table_6", "pool", "kind")["DIVER", "spurious refutation"]["published"] == 46
    costs = cells(found, "table_a_5", "method", "quantity")["DIVER", "searches"]
    assert (costs["published"], costs["published_spread"]) == (8.6, 1.1)
    averitec = report(write_log(tmp_path / "score", name="score", tables=tables | {
        "examples": tables["examples"].with_columns(dataset=pl.lit("averitec"))
    }))  # fmt: skip
    row = cells(averitec, "table_1", "backbone", "method")["gpt-4o-mini", "DIVER"]
    assert (row["score"], row["published_score"]) == (None, 0.67)
    assert cells(averitec, "table_4", "backbone", "extractor")["gpt-4o-mini", "DIVER"]["published"] == 93.1


@pytest.mark.parametrize("check", read_published(WORK.name)["checks"], ids=lambda check: check["id"])
def test_published_arithmetic(check: Row) -> None:
    got = arithmetic(check["left"])
    assert got == pytest.approx(check["value"], rel=1e-6, abs=1e-6)
    assert (abs(got - check["right"]) <= check["tolerance"] + 1e-12) == check["holds"]


def test_a_contrast_of_groups_is_the_difference_of_their_means() -> None:
    values = np.array([1.0, 0.0, 1.0, 1.0, np.nan, 0.0])
    one = np.array([True, True, True, False, True, False])
    out = contrast(values, one, ~one)
    assert np.nanmean(out) == pytest.approx(2 / 3 - 1 / 2)
    assert np.isnan(out).tolist() == np.isnan(values).tolist()
    assert np.isnan(contrast(values, one, one & ~one)).all()
