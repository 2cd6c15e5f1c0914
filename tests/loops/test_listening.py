"""The loop `listen`: the checks of a plain one, kills, refusals, texts of every shape, and its replay."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from generate.engines.base import Call, Completion
from generate.loops.requests import Hear
from generate.loops.unfolding import UnfoldingText, count_names
from generate.loops.verdicts import claims_of, confidence_of, stated_confidence, verdict_of
from generate.recipes.recipe import EngineSettings, Recipe, load_recipe
from generate.sampling.context import PreparedExample
from generate.sampling.live import LiveText, listen, listening_step
from replay.kinds.buzz import Buzz
from replay.policies.toml import load_policies
from tests.errors import refuses
from tests.loops.listening import Plain, Scripted, checks_of, go, say, write_listening
from tests.loops.scripted import check_kills, run_scripted
from thinkback.commands.listen import listen as command
from toolkit.errors import ThinkbackError
from toolkit.log import Log, collect, validate_log

FILES = {"query_prompt": "query.txt", "filter_prompt": "filter.txt", "revise_prompt": "revise.txt"}
KEYS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "all prompts": {**FILES, "top": 2},
    "every two words": {**FILES, "every": 2, "max_rounds": 2},
    "at the end, in one shot": {**FILES, "every": "end", "one_shot": True},
    "one shot a sentence": {"one_shot": True, "claims": 3},
    "few": {**FILES, "claims": 2, "max_rounds": 1, "revisions": 1},
    "shown verdicts": {**FILES, "sees": "verdicts"},
    "stated": {**FILES, "confidence": "stated", "filter_prompt": "filter.txt"},
    "entailment": {"match": "entailment", "meaning": "three"},
    "prompt": {"match": "prompt", "match_prompt": "match.txt", "revise_prompt": "revise.txt"},
    "sentences": {"extract": "sentences", "revise_prompt": "revise.txt"},
    "no revisions": {"revise_prompt": "revise.txt", "revisions": 0},
}
ORDER = ["claim", "round"]


@pytest.mark.parametrize("name", KEYS)
def test_checks_are_those_of_a_plain_loop(name: str, tmp_path: Path) -> None:
    seed, keys = list(KEYS).index(name), KEYS[name]
    engines: list = []
    log = go(write_listening(tmp_path, seed, **keys), tmp_path / "log", seed, engines=engines)
    assert validate_log(log).ok
    frame, calls = checks_of(log), 0
    columns = ["example_id", "question", "error", "gold_error"]
    for example, text, error, has_error in collect(log.scan("examples", columns)).select(columns).rows():
        plain = Plain(text, error, has_error, **keys)
        wanted = plain.run()
        mine = frame.filter(example_id=example).sort(ORDER).rows(named=True)
        assert [{key: row.get(key) for key in one} for row, one in zip(mine, wanted, strict=True)] == wanted
        calls += plain.calls
    assert frame["calls"].sum() == calls
    asked = [call for engine in engines for call in engine.calls if not str(call.prompt).startswith("Match")]
    assert frame["prompt_tokens"].sum() == sum(len(str(call.prompt).split()) for call in asked)
    sees = keys.get("sees", "claims")
    limit = {"claims": keys["claims"]} if "claims" in keys else {}
    assert log.manifest.pools["heard"] == {"sees": sees, "match": keys.get("match", "equal")} | limit


def test_the_runs_above_meet_what_they_are_to_meet(tmp_path: Path) -> None:
    frame = pl.concat([checks_of(go(write_listening(tmp_path / name, seed, **KEYS[name]), tmp_path / f"{name} log"))
                       for seed, name in ((1, "all prompts"), (9, "prompt"))], how="diagonal_relaxed")  # fmt: skip
    assert set(frame["verdict"]) == {"supported", "refuted", "not_enough", "none"}
    assert set(frame["stage"]) == {"stream", "revision"}
    assert {0, 1, 2, 3} <= set(frame["round"])
    assert set(frame["matches_error"]) == {True, False, None}


def test_killed_at_any_request_the_checks_are_the_same(tmp_path: Path) -> None:
    recipe = write_listening(tmp_path, 1, ["The river is gold. A ship.", "Moon"], **KEYS["all prompts"])
    check_kills(go, checks_of, recipe, tmp_path)


def test_a_refused_check_ends_its_text_and_is_counted(tmp_path: Path) -> None:
    recipe = write_listening(tmp_path, 1, **KEYS["all prompts"])
    engines: list = []
    whole = checks_of(go(recipe, tmp_path / "whole", engines=engines)).sort("example_id", *ORDER)
    key = [one.key for one in engines[0].calls if str(one.prompt).startswith("Check") and one.key.startswith("t0/")][-1]
    log = go(recipe, tmp_path / "log", fail=frozenset({key}))
    left = checks_of(log).sort("example_id", *ORDER)
    others = pl.col("example_id") != "t0"
    assert left.equals(whole.filter(others))
    assert log.manifest.source["left_out"] == {"400": 1}


def test_a_text_is_partial_whichever_of_its_requests_is_refused(tmp_path: Path) -> None:
    """Half of its checks would tell that the rest holds."""
    recipe = write_listening(tmp_path, 1, ["The river is gold. A ship.", "Moon over the hill."], **KEYS["all prompts"])
    engines: list = []
    go(recipe, tmp_path / "whole", engines=engines)
    kinds: dict[str, str] = {str(one.prompt).split()[0]: one.key for one in engines[0].calls if "t0/" in one.key}
    assert set(kinds) >= {"Extract", "Query", "Filter", "Check"}
    for kind, key in kinds.items():
        log = go(recipe, tmp_path / kind, fail=frozenset({key}))
        outcomes = replay.run(log, [Buzz(name="buzz")], resamples=20).outcomes.collect()
        assert outcomes["example_id"].to_list() == ["t1"], kind


def test_a_text_that_reaches_a_number_of_claims_is_partial_beyond_it(tmp_path: Path) -> None:
    log = go(write_listening(tmp_path, 5, claims=2, max_rounds=1, **FILES), tmp_path / "log")
    named = checks_of(log).filter(stage="stream", round=0).filter(pl.col("verdict") != "none")["example_id"]
    counts = {f"t{i}": (named == f"t{i}").sum() for i in range(4)}
    assert set(counts.values()) >= {1, 2}
    short = sorted(name for name, count in counts.items() if count < 2)
    policies = [Buzz(name="all", confidence=1.0), Buzz(name="two", confidence=1.0, max_claims=2),
                Buzz(name="three", confidence=1.0, max_claims=3)]  # fmt: skip
    for policy, wanted in zip(policies, (short, sorted(counts), short), strict=True):
        outcomes = replay.run(log, [policy], resamples=20).outcomes.collect()
        assert sorted(outcomes["example_id"]) == wanted, policy.name


def test_an_extractor_that_does_not_end_is_one_line(tmp_path: Path) -> None:
    class Endless(Scripted):
        def reply(self, call: Call, seed: int, temperature: float) -> Completion:
            text = f"claim {len(str(call.prompt))}" if str(call.prompt).startswith("Extract") else "Correct"
            return replace(say("Check"), text=text)

    recipe = write_listening(tmp_path, 1, ["One two three."])
    with refuses("limit", "23 claims of 3 words"):
        run_scripted(Endless, recipe, tmp_path / "log")
    log = run_scripted(
        Endless, write_listening(tmp_path / "few", 1, ["One two three."], claims=4), tmp_path / "few log"
    )
    assert checks_of(log)["claim"].n_unique() == 4


def test_a_reply_that_is_cut_does_not_say_that_there_is_no_more(tmp_path: Path) -> None:
    class Cut(Scripted):
        def reply(self, call: Call, seed: int, temperature: float) -> Completion:
            first = str(call.prompt).startswith("Extract")
            text = "One is two\nThree is fo" if first else "Correct"
            return replace(say("Check"), text=text, finish_reason="length" if first else "stop")

    recipe = write_listening(tmp_path, 1, ["One two. Three four."], every="end", one_shot=True)
    log = run_scripted(Cut, recipe, tmp_path / "log")
    assert set(checks_of(log)["verdict"]) == {"supported"}
    assert replay.run(log, [Buzz(name="two", max_claims=2)], resamples=20).outcomes.collect().height == 1
    with pytest.raises(ThinkbackError):
        replay.run(log, [Buzz(name="three", max_claims=3)], resamples=20)


def test_a_log_has_what_its_examples_say_of_texts_and_claims(tmp_path: Path) -> None:
    """The words of a text are its length; a claim has the label of the one of its words that the text holds."""
    recipe = write_listening(tmp_path, 1, ["The ship is gold. A king of stone.", "One two  three"],
                             extract="sentences", match="sentence")  # fmt: skip
    rows = pl.read_ndjson(tmp_path / "examples.jsonl").with_columns(
        gold_position=pl.Series([None, 2]), length=pl.Series([None, 3]),
        claims=pl.Series([["A king of stone", "the ship is gold!"], ["One two three"]]),
        claim_labels=pl.Series([["refuted", "supported"], [None]]),
    )  # fmt: skip
    rows.write_ndjson(tmp_path / "examples.jsonl")
    log = go(recipe, tmp_path / "log")
    assert validate_log(log).ok
    assert sorted(collect(log.scan("examples", ["example_id", "length"])).rows()) == [("t0", 8), ("t1", 3)]
    claims = checks_of(log).filter(round=0).filter(pl.col("verdict") != "none").sort("example_id", "claim")
    assert claims.select("claim_text", "gold_verdict", "matches_error").rows() == [
        ("The ship is gold.", "supported", False), ("A king of stone.", "refuted", False),
        ("One two three", None, True),
    ]  # fmt: skip
    wrong = write_listening(tmp_path / "wrong", 1, ["One. Two."], claims=2)
    rows.head(1).with_columns(claims=pl.Series([["one"]])).write_ndjson(wrong.parent / "examples.jsonl")
    with refuses("conflict", "`claim_labels`"):
        go(wrong, tmp_path / "wrong log")


LONG = " ".join(["gold", "ship"] * 5_000)
MANY = " ".join(["The ship is gold in the north of Rome."] * 1_111 + ["One"])


@pytest.mark.parametrize(
    ("text", "length"),
    [("", 0), ("  \n ", 0), ("Moon", 1), ("not ended by\twhat ends one", 6), ("One.\nTwo!  Three?", 3), (LONG, 10_000)],
)
def test_texts_of_every_shape(text: str, length: int, tmp_path: Path) -> None:
    log = go(write_listening(tmp_path, 1, [text, "The ship. Gold."], every="end", max_rounds=2), tmp_path / "log")
    assert validate_log(log).ok
    rows = checks_of(log).filter(example_id="t0")
    assert set(rows["position"]) == ({length} if length else set())


def test_a_text_of_ten_thousand_words_is_heard_sentence_by_sentence(tmp_path: Path) -> None:
    log = go(write_listening(tmp_path, 1, [MANY, "The ship. Gold."], max_rounds=1), tmp_path / "log")
    assert validate_log(log).ok
    positions = checks_of(log).filter(example_id="t0")["position"]
    assert set(positions) == {*range(9, 10_000, 9), 10_000}


def test_each_of_many_sentences_is_a_claim(tmp_path: Path) -> None:
    text = " ".join(f"Ship {number} is gold." for number in range(400))
    log = go(write_listening(tmp_path, 1, [text], max_rounds=1, extract="sentences"), tmp_path / "log")
    claims = checks_of(log).filter(pl.col("verdict") != "none")
    assert claims["position"].sort().to_list() == list(range(4, 1_601, 4))


def test_a_text_without_words_is_partial(tmp_path: Path) -> None:
    log = go(write_listening(tmp_path, 1, [" ", *["The ship. Gold."] * 20]), tmp_path / "log")
    result = replay.run(log, [Buzz(name="buzz")], resamples=20)
    assert "t0" not in result.outcomes.collect()["example_id"].to_list()


def test_thresholds_are_replayed_exactly(tmp_path: Path) -> None:
    """Since nothing stopped the run, each policy finds what it needs: no text is partial."""
    keys = {**KEYS["all prompts"], "confidence": "stated"}
    log = go(write_listening(tmp_path, 3, **keys), tmp_path / "log")
    policies = [Buzz(name=f"{confidence} {most}", confidence=confidence, max_rounds=most, revisions=1)
                for confidence in (0.0, 0.5, 0.9) for most in (1, 3)]  # fmt: skip
    result = replay.run(log, policies, resamples=20)
    assert result.outcomes.collect().group_by("policy").len()["len"].to_list() == [4] * 6


def test_words_are_what_stands_between_white_space() -> None:
    text = UnfoldingText(' Once  upon\na time.\tThe "End."  Yes ')
    assert text.words == ("Once", "upon", "a", "time.", "The", '"End."', "Yes")
    assert [text.revealed(p) for p in (0, 1, 4)] == ["", " Once", " Once  upon\na time."]
    assert text.last_word_numbers == (4, 6, 7)
    assert [text.sentence_of(p) for p in range(1, 8)] == [0, 0, 0, 0, 1, 1, 2]
    assert [text.sentence(n) for n in (0, 1, 2)] == ["Once upon a time.", 'The "End."', "Yes"]
    assert [text.begun_sentence(p) for p in (2, 4, 5, 7)] == ["Once upon", "Once upon a time.", "The", "Yes"]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("The river runs.", 0),
        ("Ana Reed met Bo.", 2),
        ("Ana, Bo and The Red House", 3),
        ("He saw it in Rome", 1),
        ("", 0),
    ],
)
def test_names_are_runs_of_words_with_capitals(words: str, count: int) -> None:
    assert count_names(words.split()) == count


@pytest.mark.parametrize(
    ("verdict", "replies"),
    [
        ("supported", ("Correct", "**Correct**", "The evidence supports it.", "Not false.", "It isn't wrong")),
        ("refuted", ("Incorrect. No.", "FALSE", "Not correct.", "The claim is not true", "The evidence refutes it",
                     "Not entirely accurate", "The evidence contradicts the claim")),
        ("not_enough", ("Not enough.", "", "uncorrected", "NOT SUPPORTED", "NOT_SUPPORTED", "Unsupported", "hm",
                        "The claim is not supported by the evidence.", "Cannot be verified as true",
                        "The evidence doesn't contradict it", "not enough, though correct",
                        "Unclear whether that claim is true.", "Nobody knows if this is correct")),
    ],
)  # fmt: skip
def test_verdicts_of_replies(verdict: str, replies: tuple[str, ...]) -> None:
    assert dict.fromkeys(replies, verdict) == {reply: verdict_of(reply) for reply in replies}


@pytest.mark.parametrize(
    ("value", "replies"),
    [
        (0.8, ("Correct. Confidence: 0.8", "Confidence score: 0.8.", "confidence of 0.8", "**Confidence**: 80 percent",
               "confidence is 80 %", "Confidence level: 80%")),
        (0.01, ("Confidence: 1%",)), (0.1, ("Confidence: 10%",)),
        (0.15, ("Confidence: 15 %",)), (1.0, ("Confidence: 100 %", "Confidence: 1", "Confidence: 1.0")),
        (0.5, ("confidence .5",)), (0.005, ("Confidence: 0.5%",)), (0.9, ("Confidence: **0.9**",)),
        (None, ("Confidence: 7", "Confidence: 12", "Confidence: 85", "Confidence: 1/10", "sure", "Confidence: 120 %")),
    ],
)  # fmt: skip
def test_confidences_of_replies(value: float | None, replies: tuple[str, ...]) -> None:
    assert {reply: stated_confidence(reply) for reply in replies} == dict.fromkeys(replies, pytest.approx(value))


def test_the_confidence_by_token_is_of_a_verdict_that_begins_the_reply() -> None:
    reply = replace(say("Check"), text="Correct. Confidence: 0.25", token_logprobs=[-0.5, -1.0, -2.0])
    assert confidence_of(reply, "token") == pytest.approx(math.exp(-0.5))
    assert confidence_of(reply, "stated") == 0.25
    for text in ("**Correct**", "Verdict: correct", " Correct", '"Correct"', "hm"):
        assert confidence_of(replace(reply, text=text), "token") is None, text
    assert confidence_of(replace(reply, text="hm (confidence: 0.25)"), "stated") is None
    assert confidence_of(replace(reply, reasoning="hm"), "token") is None
    assert confidence_of(replace(reply, token_logprobs=None), "token") is None
    assert confidence_of(replace(reply, reasoning="hm"), "stated") == 0.25


OWN = """
from dataclasses import dataclass

from generate.loops import Hear, Row


@dataclass(frozen=True)
class Counted:
    table = "checks"

    def run(self, example):
        text = yield Hear(0)
        place = {"stage": "stream", "position": len(text.split())}
        yield Row("checks", {"claim": 0, "round": 0, **place, "verdict": "none", "queries": 0})
"""


def test_a_loop_of_a_users_is_run_on_a_text_that_is_piped(tmp_path: Path) -> None:
    recipe = write_listening(tmp_path, loop='[[loop]]\npool = "own"\nrule = "mine.py:Counted"\n')
    (tmp_path / "mine.py").write_text(OWN)
    read, heard = load_recipe(recipe), list[int]()
    text = LiveText(StringIO("One two. Three"))
    listen(read, listening_step(read, "own"), text, lambda row: heard.append(row.columns["position"]),
           lambda _: Scripted(1, lambda *_: None))  # fmt: skip
    assert heard == [2]


def test_claims_of_replies() -> None:
    assert claims_of("1. A is B\n\n- C\n* None.\nNULL\n") == ["A is B", "C"]
    for none in (' "none" ', "**NULL**", "`NULL`", "[NULL]", "(none)", "NULL (nothing)", "No further claims", "N/A",
                 "NULL\n\nAll done", "No other claims left."):  # fmt: skip
        assert claims_of(none) == [], none
    assert claims_of("**None of Rome was king.**") == ["None of Rome was king."]
    assert claims_of("No claims were filed in Rome.") == ["No claims were filed in Rome."]


def test_a_next_query_that_says_nothing_new_is_none(tmp_path: Path) -> None:
    """Else the same passages would be read until the rounds end."""

    class Again(Scripted):
        def reply(self, call: Call, seed: int, temperature: float) -> Completion:
            kind = str(call.prompt).split()[0]
            text = {"Filter": "Next query: NONE" if "t0/" in call.key else "Next query: the ship", "Check": "hm"}
            text |= {"Extract": "NULL" if "The ship\n" in str(call.prompt) else "The ship"}
            return replace(say("Check"), text=text[kind])

    recipe = write_listening(tmp_path, 1, ["One two.", "Two three."], filter_prompt="filter.txt", top=2, max_rounds=3)
    (tmp_path / "mine.py").write_text("def wiki(query):\n    return [f'{query} {i}' for i in range(9)]\n"
                                      "def meaning(pairs):\n    return []\n")  # fmt: skip
    engines: list[Again] = []
    run_scripted(Again, recipe, tmp_path / "log", engines=engines)
    read = {str(call.prompt) for call in engines[0].calls if str(call.prompt).startswith("Filter")}
    assert read == {f"Filter The ship | The ship {i}\n\nThe ship {i + 1}" for i in (0, 2, 4)}


@pytest.mark.parametrize(
    ("keys", "code", "name"),
    [({"extract": "sentences", "every": 3}, "conflict", "`every`"), ({"match": "entailment"}, "required", "`meaning`"),
     ({"match": "prompt"}, "required", "`match_prompt`"), ({"match": "sentence"}, "conflict", "`extract`"),
     ({"every": "never"}, "invalid", "every"), ({"every": 0}, "invalid", "every"), ({"sees": "x"}, "unknown", "sees")],
)  # fmt: skip
def test_settings_that_do_not_fit(keys: dict[str, Any], code: str, name: str, tmp_path: Path) -> None:
    path = write_listening(tmp_path, **keys)
    with refuses(code, name):
        load_recipe(path)


@pytest.mark.parametrize("name", [*[*KEYS][1:4], "shown verdicts"])
def test_a_text_that_is_piped_has_the_checks_of_the_log(name: str, tmp_path: Path) -> None:
    """But for seconds, and the words of units where they are not known in time."""
    recipe = write_listening(tmp_path, 4, **KEYS[name])
    log = go(recipe, tmp_path / "log")
    logged, read = checks_of(log), load_recipe(recipe)
    step = listening_step(read, None)
    names = ("claim", "round", "stage", "position", "verdict", "confidence", "queries", "claim_text", "evidence")
    for example, text in collect(log.scan("examples", ["example_id", "question"])).rows():
        rows: list = []
        listen(read, step, LiveText(StringIO(text)), rows.append, lambda _: Scripted(3, lambda *_: None))
        wanted = logged.filter(example_id=example).sort(ORDER).rows(named=True)
        live = [{key: row.columns.get(key) for key in names} for row in rows]
        assert live == [{key: row.get(key) for key in names} for row in wanted]


LIVE = """
[[policy]]
name = "sure"
kind = "buzz"
confidence = [0.0, 0.5, 0.9]
[[policy]]
name = "clock"
kind = "buzz"
words_per_second = 100.0
[[policy]]
name = "patient"
kind = "buzz"
patience = 2
max_claims = 3
[[policy]]
name = "units"
kind = "buzz"
max_claims = { per_unit = 1 }
[[policy]]
name = "deep"
kind = "buzz"
max_rounds = 9
"""


@pytest.mark.parametrize("sees", ["claims", "verdicts"])
def test_policies_act_live_as_in_replay(
    sees: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where replay leaves a text out: nothing is decided then. A clock goes by seconds, which differ."""
    recipe = write_listening(tmp_path, 4, **KEYS["all prompts"], sees=sees)
    file = tmp_path / "buzz.toml"
    file.write_text(LIVE)
    log = go(recipe, tmp_path / "log")
    outcomes = pl.concat([_outcomes(log, policy) for policy in load_policies(file).policies])
    monkeypatch.setattr(EngineSettings, "opened", lambda *_: Scripted(3, lambda *_: None))
    acted = dict[str, int]()
    for example, text in collect(log.scan("examples", ["example_id", "question"])).rows():
        (tmp_path / "text.txt").write_text(text)
        command(str(recipe), file, tmp_path / "text.txt")
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("**")]
        of_text = {row["policy"]: row for row in outcomes.filter(example_id=example).rows(named=True)}
        assert len(lines) == 7
        for line in lines:
            place, policy = line.split(": ")[0], line.split(": ")[1].split(" says ")[0].split(" decides ")[0]
            row = of_text.get(policy)
            if row is None:
                assert line.startswith(f"** end: {policy} decides nothing")
                continue
            assert line.endswith(f"says {row['answer']}")
            acted[policy] = acted.get(policy, 0) + (row["answer"] == "refuted")
            if policy != "clock":
                assert place == ("** end" if row["answer"] == "supported" else f"** word {row['position']:.0f}")
    assert acted["clock"] > 0
    assert sum(acted.values()) > 4


def _outcomes(log: Log, policy: Any) -> pl.DataFrame:
    try:
        return (
            replay.run(log, [policy], resamples=2)
            .outcomes.collect()
            .select("policy", "example_id", "answer", "position")
        )
    except ThinkbackError:
        return pl.DataFrame(schema={"policy": pl.String, "example_id": pl.String, "answer": pl.String,
                                    "position": pl.Float64})  # fmt: skip


def test_policies_that_do_not_act_on_what_is_heard_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, file, text = write_listening(tmp_path, 4, every=2), tmp_path / "buzz.toml", tmp_path / "text.txt"
    keys = {"caps": "max_claims = { per_unit = 2 }", "other": 'pool = "no-filter"', "mine": 'pool = "heard"'}
    listed = [f'[[policy]]\nname = "{name}"\nkind = "buzz"\n{key}\n' for name, key in keys.items()]
    file.write_text("".join(listed) + '[[policy]]\nname = "best"\nkind = "best buzz"\n')
    text.write_text("")
    monkeypatch.setattr(EngineSettings, "opened", lambda *_: Scripted(3, lambda *_: None))
    command(str(recipe), file, text)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split(" ")[0] for line in lines[:3]) == ["`best`", "`caps`", "`other`"]
    assert [line.split(" nothing")[0] for line in lines[3:]] == ["** end: mine decides"]
    file.write_text("".join(listed[:2]))
    with refuses("unsuitable", "`heard`"):
        command(str(recipe), file, text)


def test_a_text_that_is_no_utf_8_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, file = write_listening(tmp_path, 4), tmp_path / "buzz.toml"
    file.write_text('[[policy]]\nname = "buzz"\nkind = "buzz"\n')
    (tmp_path / "text.txt").write_bytes(b"Zo\xeb is here.")
    monkeypatch.setattr(EngineSettings, "opened", lambda *_: Scripted(3, lambda *_: None))
    with refuses("format", "UTF-8") as error:
        command(str(recipe), file, tmp_path / "text.txt")
    assert "\n" not in str(error.value)
    assert LiveText(StringIO("\ufeffOne two")).reveal(PreparedExample("", {}, {}), Hear(0, 1)) == "One"


def test_a_live_text_may_have_any_number_of_words(tmp_path: Path) -> None:
    class Silent(Scripted):
        def reply(self, call: Call, seed: int, temperature: float) -> Completion:
            return replace(say("Check"), text="NULL")

    read, heard = load_recipe(write_listening(tmp_path, every=1)), list[int]()
    text = LiveText(StringIO("word " * 2_100))
    listen(read, listening_step(read, None), text, lambda row: heard.append(row.columns["position"]),
           lambda _: Silent(1, lambda *_: None))  # fmt: skip
    assert heard == list(range(1, 2_101))


def test_a_pool_is_listened_to_by_its_own_engine(tmp_path: Path) -> None:
    recipe = write_listening(tmp_path, engine="other")
    text = recipe.read_text().replace("[answers]", '[engines.other]\nkind = "openai"\nmodel = "second"\n'
                                      'base_url = "http://127.0.0.1:8/v1"\n[answers]')  # fmt: skip
    recipe.write_text(text)
    read, opened = load_recipe(recipe), list[str]()

    def opens(one: Recipe) -> Scripted:
        opened.append(one.engine.model)
        return Scripted(1, lambda *_: None)

    listen(read, listening_step(read, None), LiveText(StringIO("One two.")), lambda _: None, opens)
    assert opened == ["second"]


def test_words_are_heard_as_they_come(tmp_path: Path) -> None:
    """The extractor is asked before the words after its position have come."""
    recipe = write_listening(tmp_path, 1, ["A river. Gold"], every=1, max_rounds=1)
    heard, asked = list[str](), list[str]()

    class Slow(StringIO):
        def read(self, size: int | None = -1) -> str:
            heard.append(super().read(size))
            return heard[-1]

    class Asked(Scripted):
        def submit(self, call: Call) -> None:
            asked.append("".join(heard))
            super().submit(call)

    read = load_recipe(recipe)
    text = LiveText(Slow("One two. three"))
    listen(read, listening_step(read, None), text, lambda _: None, lambda _: Asked(1, lambda *_: None))
    assert asked[0] == "One "
    assert "One two. " in asked
