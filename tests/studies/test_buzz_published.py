"""The study of unfolding text beside the paper: every published column, read on small logs that are named so."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from replay.studies.buzz.published import fitting_counts
from replay.studies.buzz.systems import DIRECT, PREFIXES
from tests.studies.buzz import report
from tests.studies.multihop import cells
from tests.studies.test_buzz_by_hand import hand_log, with_texts
from tests.studies.test_buzz_planted import at

NAMES = ("example_id", "verdict", "matches_error")


def small(folder: Path, dataset: str, **texts: list[Any]) -> Any:
    """The report on four texts, two of them with an error, named as a data set of the paper; two pools of verdicts."""
    rows = [("t0", "refuted", True), ("t1", "supported", True), ("t2", "refuted", False), ("t3", "supported", False)]
    log = hand_log(folder / "log", rows, NAMES, gold_error=[True, True, False, False], **texts)
    asked = [(pool, f"t{one}", None, one == 0) for pool in ("direct", "bidev") for one in range(4)]
    return report(with_texts(log, folder / "both", asked), published=dataset)


def test_rows_of_the_papers_backbones_stand_beside_those_of_others(tmp_path: Path) -> None:
    """The log is of another model: the paper's twelve rows of table 1 and four of table 4 are rows of their own."""
    found = small(tmp_path / "feverous", "feverous")
    rows = cells(found, "table_1", "backbone", "method")
    published = {heads: row["published"] for heads, row in rows.items() if row["published"] is not None}
    assert len(published) == 12
    mini, turbo = ({head for head, _ in published if name in head}.pop() for name in ("4o mini", "3.5"))
    assert (published[mini, "DIVER"], published[turbo, "DIVER"], published[turbo, "BiDeV"]) == (70.6, 66.7, 59.5)
    assert all(rows[heads]["accuracy"] is None for heads in published)
    assert rows["hand", "DIVER"]["accuracy"] is not None
    for table in ("table_1", "table_9"):
        assert sum("70.6" in line for line in found.tables[table].below) == 1, table
    averitec = cells(small(tmp_path / "averitec", "averitec"), "table_4", "backbone", "extractor")
    coverage = {heads: row["published"] for heads, row in averitec.items() if row["published"] is not None}
    assert sorted(coverage.values()) == [76.3, 85.5, 85.8, 93.1]


def test_a_published_score_has_no_difference_to_ours(tmp_path: Path) -> None:
    found = small(tmp_path, "averitec")
    folder = found.save(tmp_path / "out")
    with (folder / "table_1.csv").open(encoding="utf-8") as file:
        names = next(csv.reader(line for line in file if not line.startswith("#")))
    assert {"score", "published_score"} <= set(names)
    assert not [name for name in names if name.endswith("difference")]


def test_hops_of_hover(tmp_path: Path) -> None:
    rows = cells(small(tmp_path, "hover", hops=[3, 4, 3, 4]), "table_5", "method", "hops")
    assert (rows["DIVER", "3"]["published"], rows["DIVER", "4"]["published"]) == (65.48, 62.82)
    assert (rows["BiDeV", "3"]["published"], rows["BiDeV", "4"]["published"]) == (63.62, 60.41)
    assert (rows["QACheck", "4"]["published"], rows["QACheck", "4"]["accuracy"]) == (52.35, None)
    assert rows[DIRECT, "3"]["published"] is None


def test_labels_of_the_papers_data_sets(tmp_path: Path) -> None:
    for name, counts in {"averitec": (122, 305), "liar": (449, 341), "feverous": (3908, 3481)}.items():
        rows = cells(small(tmp_path / name, name), "table_8", "label")
        assert (rows["supported",]["published"], rows["refuted",]["published"]) == counts
        assert (rows["supported",]["texts"], rows["refuted",]["texts"]) == (2, 2)


def test_unfolding_texts_of_the_paper(tmp_path: Path) -> None:
    """Tables 7 and of timing and people; 61, 122 and 141 of 179 texts have both shares of near acts, as 32, 64 and 74
    are 52.5 % of them and 48, 96 and 111 are 78.7 %.
    """
    people: dict[str, list[Any]] = {
        "human_positions": [[6]] * 4, "human_corrects": [[True]] * 4, "season": ["2024", "2025", "2024", "2025"],
    }  # fmt: skip
    found = small(tmp_path, "um-actually", **people)
    rows = cells(found, "table_7", "method")
    assert (rows["DIVER",]["published_accuracy"], rows["DIVER",]["published_macro_f1"]) == (79.5, 80.6)
    assert (rows["BiDeV",]["published_accuracy"], rows["BiDeV",]["published_macro_f1"]) == (71.8, 74.2)
    assert (rows[DIRECT,]["published_accuracy"], rows[DIRECT,]["published_macro_f1"]) == (31.9, 32.3)
    timing = cells(found, "timing", "method")["DIVER",]
    assert (timing["published_within_20"], timing["published_within_40"]) == (52.5, 78.7)
    assert fitting_counts() == ["61", "122", "141"]
    (note,) = (line for line in found.tables["timing"].below if "179" in line)
    assert set(fitting_counts()) <= set(re.findall(r"\d+", note))
    assert "183" not in note
    groups = cells(found, "people", "group")
    assert {name: row["published"] for (name,), row in groups.items()} == {"all": 72.6, "2024": 58.3, "2025": 79.8}
    assert {name: row["published_deviation"] for (name,), row in groups.items()} == {
        "all": None, "2024": None, "2025": 26.7
    }  # fmt: skip


def test_shares_of_errors_have_intervals_and_a_difference_of_their_own(tmp_path: Path) -> None:
    """Of forty texts, half with an error, the system is wrong about ten: five errors that it misses, five texts that it
    refutes; the pool beside it about twenty, of which it misses fifteen. Spurious refutations are 50 % of the one's
    and 25 % of the other's, a difference of 25 points, and 12.5 % of all texts for both.
    """
    rows = []
    for pool, missed in (("listening", 5), ("no-filter", 15)):
        for one in range(40):
            finds, alarms = missed <= one < 20, one >= 35
            rows.append((f"t{one}", pool, "refuted" if finds or alarms else "supported", finds))
    log = hand_log(
        tmp_path / "log", rows, ("example_id", "pool", "verdict", "matches_error"),
        gold_error=[one < 20 for one in range(40)],
    )  # fmt: skip
    table = cells(report(log, resamples=400, published="feverous"), "table_6", "pool", "kind")
    row, other = table["DIVER", "spurious refutation"], table["no filter", "spurious refutation"]
    assert (at(row["share"]), at(other["share"]), row["wrong"], other["wrong"]) == (50, 25, 5, 5)
    assert (at(row["gap"]), at(row["share_gap"])) == (0, pytest.approx(25))
    assert row["share"].low < 50 < row["share"].high
    assert row["share_gap"].low < 25 < row["share_gap"].high
    assert at(table["DIVER", "missed claim"]["share_gap"]) == pytest.approx(-25)
    assert table["DIVER", "other"]["share_gap"] is None
    assert (row["published"], row["published_gap"]) == (46, 34)


def test_verdicts_are_calibrated_where_all_are_judged(tmp_path: Path) -> None:
    """Forty refutations with a label, and supported claims of which one has none: these are not all verdicts."""
    names = ("example_id", "verdict", "confidence", "gold_verdict")
    answers = {}
    for lacking in (0, 1):
        rows = [(f"t{one}", "refuted" if one < 40 else "supported", 0.5 + 0.4 * (one % 2),
                 None if one < 40 + lacking and one >= 40 else "refuted") for one in range(80)]  # fmt: skip
        log = hand_log(tmp_path / f"{lacking}", rows, names, gold_error=[True] * 80)
        table = cells(report(log), "calibration", "verdicts")
        answers[lacking] = {name: (row["claims"], row["decided"], at(row["rate"])) for (name,), row in table.items()}
        assert all(row["rate"].low is not None for row in table.values())
    refuted = (40, 40, 100)
    assert answers == {0: {"all verdicts": (80, 80, 50), "refutations": refuted}, 1: {"refutations": refuted}}


def test_claims_are_counted_on_texts_with_an_error(tmp_path: Path) -> None:
    """Ten texts with an error have one claim and ten have three, twenty without have five: 2 a text."""
    counts = [1] * 10 + [3] * 10 + [5] * 20
    rows = [(f"t{text}", claim, "supported", False) for text, count in enumerate(counts) for claim in range(count)]
    names = ("example_id", "claim", "verdict", "matches_error")
    log = hand_log(tmp_path / "log", rows, names, gold_error=[one < 20 for one in range(40)])
    ((row,),) = (cells(report(log), "table_4", "backbone", "extractor").values(),)
    assert (at(row["claims"]), row["texts"]) == (2, 20)
    assert 1 < row["claims"].low < 2 < row["claims"].high < 3


def test_the_median_of_clustered_texts_has_limits(tmp_path: Path) -> None:
    """Ten clusters of two texts each, which are acted on at the word that shows the error, or up to six words later."""
    rows = [(f"t{one}", 4 + one // 2 % 7, "refuted", True) for one in range(20)]
    names = ("example_id", "position", "verdict", "matches_error")
    clusters = [f"c{one // 2}" for one in range(20)]
    log = hand_log(tmp_path / "log", rows, names, gold_error=[True] * 20, cluster=clusters)
    median = cells(report(log, resamples=400), "timing", "method")["DIVER",]["median"]
    assert 0 <= median.low < median.estimate < median.high <= 60


def test_ties_of_baselines_on_dev_are_said(tmp_path: Path) -> None:
    """Both baselines are right on both texts of dev."""
    rows = [(f"t{one}", "refuted", True) for one in range(4)]
    log = hand_log(tmp_path / "log", rows, NAMES, gold_error=[True] * 4, split=["dev", "dev", "test", "test"])
    asked = [(pool, f"t{one}", None, True) for pool in ("direct", "search") for one in range(4)]
    found = report(with_texts(log, tmp_path / "both", asked))
    choice = found.parts[0].baseline_choice(found.parts[0].systems.main.group)
    assert (choice.name, choice.ties, choice.texts) == (DIRECT, 2, 2)
    assert sum(choice.name in line and "first of 2" in line for line in found.tables["table_1"].below) == 1
    assert PREFIXES not in "".join(found.tables["table_1"].below)
