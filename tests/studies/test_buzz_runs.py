"""Which texts each number of the study of unfolding text is of: what lacks some takes none from others."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.runs.passes.coverage import LEFT_OUT
from replay.studies.buzz.further_tables import SETTINGS
from replay.studies.kit.verdicts import Answer
from tests.studies.buzz import report
from tests.studies.multihop import cells
from tests.studies.test_buzz_by_hand import answer_of, hand_log
from tests.studies.test_buzz_planted import HOPS, PAIRS, REVISES, ROUNDS, at
from toolkit.show import code_of

NAMES = ("example_id", "claim", "round", "stage", "verdict")
ROUND, REVISION = ("stream", "not_enough"), ("revision", "refuted")


def test_further_rounds_that_decided_take_no_text_from_the_methods(tmp_path: Path) -> None:
    """Twenty texts with an error. Of t0 the second round supports the claim, and a revision that saw this is refuted;
    t1 to t9 are refuted at once, the other ten are supported. The system is right on 10 of 20. Without further rounds
    it cannot be replayed on t0; on the other 19 it is right on 9, as the system is there.
    """
    rows = [("t0", 0, 0, *ROUND), ("t0", 0, 1, "stream", "supported"), ("t0", 1, 0, *REVISION)]
    rows += [(f"t{one}", 0, 0, "stream", "refuted" if one < 10 else "supported") for one in range(1, 20)]
    rows = [(*row, True) for row in rows]
    found = report(hand_log(tmp_path / "log", rows, (*NAMES, "matches_error"), gold_error=[True] * 20))
    for table, row in (("table_1", ("first", "DIVER")), ("table_7", ("DIVER",))):
        heads = ("backbone", "method")[-len(row) :]
        assert at(cells(found, table, *heads)[row]["accuracy"]) == 50, table
    parts = cells(found, "table_3", "variant")
    assert {name: row["texts"] for (name,), row in parts.items()} == {"DIVER": 20, "one round": 19, "no revision": 20}
    one = parts["one round",]
    assert at(one["accuracy"]) == pytest.approx(100 * 9 / 19)
    assert (at(one["gap_accuracy"]), at(parts["no revision",]["gap_accuracy"])) == (0, pytest.approx(5))
    assert [code_of(line) for line in found.tables["table_3"].below].count(LEFT_OUT) == 1
    assert list(map(list, found.left_out.values())) == [["t0"]]
    warned = [line for group in found.words.values() for line in group if code_of(line) == LEFT_OUT]
    assert sum("one round" in line for line in warned) == 1
    lost = cells(found, "headroom", "method")
    assert {"DIVER", "one round"} <= {name for (name,) in lost}
    assert all(row["best"] is not None for row in lost.values())


def test_seconds_and_lengths_that_are_lacking_take_no_text_from_others(tmp_path: Path) -> None:
    """Twenty texts to report and twenty of dev. The seconds of t0 are not logged, nor is the length of t1 and d0, which
    only a revision refutes. So the clock is of 18 texts, and REV-3 of 19. On dev all pairs without it are right on 20
    of 20, and it is not chosen from the 19 that it has.
    """
    rows, second = [], {"t0": None}
    for one in range(20):
        for split in "td":
            name = f"{split}{one}"
            late = name in ("t1", "d0")
            rows += [(name, 0, 0, "stream", "supported" if late else "refuted", second.get(name, 1.0))]
            rows += [(name, 1, 0, *REVISION, 1.0)] * late
    names = [f"{split}{one}" for split in "td" for one in range(20)]
    log = hand_log(
        tmp_path / "log", rows, (*NAMES, "latency_s"), example_id=names, gold_error=[True] * 40,
        split=["test"] * 20 + ["dev"] * 20, length=[None if name in ("t1", "d0") else 10 for name in names],
    )  # fmt: skip
    found = report(log)
    pairs, clock = cells(found, "table_9", "extraction", "revision"), cells(found, "clock", "text")
    assert {row["texts"] for row in clock.values()} == {18}
    assert pairs["CE-1", "REV-1"]["texts"] == pairs["CE-1", "REV-2"]["texts"] == 20
    assert pairs["CE-1", "REV-3"]["texts"] == 19
    assert at(cells(found, "frontier", "setting", "value")[SETTINGS["patience"], "1"]["accuracy"]) == 100
    (part,) = found.parts
    assert (part.pair_choice.name, part.pair_choice.texts, part.pair_choice.ties) == ("CE-1 + REV-1", 20, 2)
    assert sum("REV-3" in line and "dev" in line and "length" in line for line in found.lead) == 1
    left_out = {name.partition(": ")[2]: list(texts) for name, texts in found.left_out.items()}
    assert sorted(left_out.values()) == [["d0"], ["t0", "t1"], ["t1"]]
    assert left_out["clock"] == ["t0", "t1"]
    warned = [line for group in found.words.values() for line in group if code_of(line) == LEFT_OUT]
    for name in left_out:
        assert any(f"`{name}`" in line for line in warned), name


ONE_CLAIM = [("t0", 0, 0, "stream", "refuted")]
TWO_ROUNDS = [("t0", 0, 0, *ROUND), ("t0", 0, 1, "stream", "refuted")]
ONE_REVISION = [("t0", 0, 0, "stream", "supported"), ("t0", 1, 0, *REVISION)]


@pytest.mark.parametrize(
    ("rows", "unasked"),
    [
        (ONE_CLAIM, {REVISES: "revisions", ROUNDS: "rounds", HOPS: "rounds", PAIRS: "revisions"}),
        (TWO_ROUNDS, {REVISES: "revisions", PAIRS: "revisions"}),
        (ONE_REVISION, {ROUNDS: "rounds", HOPS: "rounds"}),
    ],
    ids=["one claim", "two rounds", "a revision"],
)
def test_what_differs_in_no_row_is_not_asked(
    tmp_path: Path, rows: list[tuple[object, ...]], unasked: dict[str, str]
) -> None:
    every = [(f"t{one}", *row[1:]) for one in range(4) for row in rows]
    found = report(hand_log(tmp_path / "log", every, NAMES, gold_error=[True] * 4, hops=[1, 2, 1, 2]), margin=0.05)
    answers = {question: answer_of(found.parts[0], question) for question in (REVISES, ROUNDS, HOPS, PAIRS)}
    assert {question for question, one in answers.items() if one.answer is Answer.UNASKED} == unasked.keys()
    for question, word in unasked.items():
        assert word in answers[question].why, question
    variants = {name for (name,) in cells(found, "table_3", "variant")} if "table_3" in found.tables else set()
    assert ("no revision" in variants, "one round" in variants) == (REVISES not in unasked, ROUNDS not in unasked)
    assert ("table_3" in found.tables) == (len(variants) > 1)
    assert any("table 3" in line for line in found.lead) == (len(variants) < 2)
