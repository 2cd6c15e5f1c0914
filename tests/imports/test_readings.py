"""After an import: the share that is right, wrong answers beside their gold, a warning with a cure that was tried."""

from __future__ import annotations

import shlex

import pytest

from tests.imports.makers import HEAD, TRACES, Bench, sample
from toolkit.imports import import_table

READ = """
[traces]
pool = "'p'"
sample_index = "row order"
model = "'m'"
text = "t"
[answers]
kind = "number"
read = ["last number"]
"""


def told(bench: Bench) -> str:
    assert bench.report is not None
    return "\n".join(map(str, bench.report.readings.notes()))


def solved(count: int, gold: str = "{}") -> list[dict[str, object]]:
    return [sample(f"e{i}", t=f"It is {i + 10}", gold=gold.format(i + 10)) for i in range(count)]


def test_the_share_that_is_right_and_three_wrong_answers_beside_their_gold(bench: Bench) -> None:
    rows = solved(6)
    for row in rows[:4]:
        row["t"] = "It is 7"
    bench.run(rows, HEAD + READ)
    assert told(bench).split("\n") == [
        "right: 2 of 6 judged traces (33.3 %)",
        "wrong: e0: answer `7`, gold `10`",
        "wrong: e1: answer `7`, gold `11`",
        "wrong: e2: answer `7`, gold `12`",
    ]


def test_the_gold_of_gsm8k_is_no_silent_nought(bench: Bench) -> None:
    gold = "He has 3 + 7 of them, so <<3+7=10>> and all.\n#### {}"
    bench.run(solved(8, gold), HEAD + READ)
    lines = told(bench).split("\n")
    assert lines[0] == "right: 0 of 8 judged traces (0.0 %)"
    assert lines[1].startswith("wrong: e0: answer `10`, gold `He has 3 + 7 of them")
    assert lines[-1] == (
        "WARNING: only 0 of 8 judged traces are right:"
        " `--set 'answers.read_gold=[\"####\"]'` would make 8 of 8 tried right"
    )


def test_its_cure_cures(bench: Bench) -> None:
    rows = bench.rows(solved(8, "words\n#### {}"))
    setting = 'answers.read_gold=["####"]'
    report = import_table([rows], bench.mapping(HEAD + READ), bench.folder / "cured", settings=[setting])
    assert report.readings.right == report.readings.judged == 8
    assert report.readings.cure is None


CURES = {
    "another kind": (HEAD + TRACES, "{}.0", "a", "--set 'answers.kind=number'"),
    "a boxed answer": (HEAD + TRACES, "so \\boxed{{{}}}", "a", "--set 'answers.read=[\"boxed\"]'"),
    "a boxed gold": (HEAD + TRACES, "{}", "gold", "--set 'answers.read_gold=[\"boxed\"]'"),
}


@pytest.mark.parametrize("case", CURES)
def test_likely_cures(bench: Bench, case: str) -> None:
    mapping, form, column, cure = CURES[case]
    rows = [sample(f"e{i}", str(i + 10), gold=str(i + 10)) for i in range(5)]
    for i, row in enumerate(rows):
        row[column] = f"\\boxed{{{i + 10}}}" if column == "gold" else form.format(i + 10)
    bench.run(rows, mapping)
    assert f"`{cure}` would make 5 of 5 tried right" in told(bench)


def test_verdicts_of_the_source_are_replaced_by_rejudging(bench: Bench) -> None:
    rows = [sample(f"e{i}", str(i), gold=str(i), ok=False) for i in range(5)]
    bench.run(rows, HEAD + TRACES + 'correct = "ok"\n')
    assert "only 0 of 5 judged traces are right: `--rejudge` would make 5 of 5 tried right" in told(bench)


def test_nothing_readable(bench: Bench) -> None:
    rows = [sample(f"e{i}", t=f"\\boxed{{x_{i}}}") for i in range(5)]
    for row in rows:
        row.pop("gold")
    bench.run(rows, HEAD.replace('gold = "gold"\n', "") + READ.replace("last number", "####"))
    assert told(bench) == (
        "WARNING: only 0 of 5 traces have a readable answer: `--set 'answers.read=[\"boxed\"]'` would read 5 of 5 tried"
    )


def test_where_no_cure_is_known_the_warning_says_where_to_look(bench: Bench) -> None:
    bench.run([sample(f"e{i}", "no", gold=f"g{i}") for i in range(5)], HEAD + TRACES)
    assert told(bench).endswith(
        "see whether `answers.kind`, `answers.read` and the gold column are what they should be"
    )


def test_verdicts_without_answers_show_no_answers(bench: Bench) -> None:
    rows = [sample(f"e{i}", ok=i == 0) for i in range(5)]
    bench.run(rows, HEAD + TRACES.replace('answer = "a"', 'correct = "ok"'))
    assert told(bench) == "right: 1 of 5 judged traces (20.0 %)"


GROUPED = READ.replace("pool = \"'p'\"", 'pool = "run"')


def of(dataset: str, count: int, text: str, gold: str, run: str = "p") -> list[dict[str, object]]:
    return [
        {**sample(f"{dataset}{i}", t=text.format(i + 10), gold=gold.format(i + 10)), "set": dataset, "run": run}
        for i in range(count)
    ]


def test_a_data_set_that_is_misread_is_not_hidden_by_the_others(bench: Bench) -> None:
    rows = of("good", 20, "It is {}", "{}") + of("bad", 10, "It is {}", "so \\boxed{{{}}}")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    lines = told(bench).split("\n")
    assert lines[0] == "right: 20 of 30 judged traces (66.7 %)"
    assert [line.split()[1] for line in lines[1:4]] == ["bad0:", "bad3:", "bad6:"]
    assert lines[4] == (
        "WARNING: only 0 of 10 judged traces of `bad` in pool `p` are right:"
        " `--set 'answers.read_gold=[\"boxed\"]'` would make 10 of 10 tried right;"
        " it would make others wrong, so import these apart"
    )


def test_where_all_the_log_is_doubted_each_data_set_may_need_its_own_cure(bench: Bench) -> None:
    rows = of("hashes", 12, "It is {}", "so #### {}") + of("boxes", 10, "It is {}", "so \\boxed{{{}}} of 7")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    warnings = [line for line in told(bench).split("\n") if line.startswith("WARNING")]
    apart = "others need another setting, so import these apart"
    doubted = "({} of 22 of all that is doubted)".format
    assert warnings == [
        "WARNING: only 0 of 12 judged traces of `hashes` in pool `p` are right:"
        f" `--set 'answers.read_gold=[\"####\"]'` would make 12 of 12 tried right {doubted('12')}; {apart}",
        "WARNING: only 0 of 10 judged traces of `boxes` in pool `p` are right:"
        f" `--set 'answers.read_gold=[\"boxed\"]'` would make 10 of 10 tried right {doubted('10')}; {apart}",
    ]


def test_a_cure_of_one_data_set_is_found_though_all_the_log_is_doubted(bench: Bench) -> None:
    rows = [row for number in range(3) for row in of(f"bad{number}", 40, "no", "{}")]
    rows += of("boxes", 10, "It is {}", "so \\boxed{{{}}} of 7")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    warnings = [line for line in told(bench).split("\n") if line.startswith("WARNING")]
    assert "`boxes` in pool `p`" in warnings[0]
    assert "`--set 'answers.read_gold=[\"boxed\"]'` would make 10 of 10 tried right" in warnings[0]
    assert warnings[-1] == "WARNING: the same holds for 1 further data set in a pool"


def test_one_cure_for_all_data_sets_is_said_once(bench: Bench) -> None:
    rows = of("one", 12, "It is {}", "so #### {}") + of("other", 10, "It is {}", "so #### {}")
    rows[0]["t"] = rows[15]["t"] = "no"
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    assert [line for line in told(bench).split("\n") if line.startswith("WARNING")] == [
        "WARNING: only 0 of 22 judged traces are right:"
        " `--set 'answers.read_gold=[\"####\"]'` would make 20 of 22 tried right"
    ]


def test_nor_is_a_pool(bench: Bench) -> None:
    rows = of("d", 10, "It is {}", "{}") + of("d", 10, "the {}th, so \\boxed{{x}} of 7", "{}", "other")
    bench.run(rows, HEAD + GROUPED)
    assert "only 0 of 10 judged traces of `d` in pool `other` are right: see whether" in told(bench)


def test_of_many_three_are_named(bench: Bench) -> None:
    rows = of("good", 9, "It is {}", "{}")
    for number in range(5):
        rows += of(f"bad{number}", 6 + number, "no", "{}")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    warnings = [line for line in told(bench).split("\n") if line.startswith("WARNING")]
    assert [line.split("`")[1] for line in warnings[:3]] == ["bad4", "bad3", "bad2"]
    assert warnings[3] == "WARNING: the same holds for 2 further data sets in a pool"


def test_examples_with_hundreds_of_traces_do_not_crowd_out_the_others(bench: Bench) -> None:
    rows = [sample("e0", t="It is 5", gold="x #### 4") for _ in range(300)]
    rows += [sample(f"e{i}", t="It is 4", gold="x #### 4") for i in range(1, 4)]
    bench.run(rows, HEAD + READ)
    lines = told(bench).split("\n")
    assert [line.split()[1] for line in lines[1:4]] == ["e0:", "e1:", "e2:"]
    assert lines[4].endswith("`--set 'answers.read_gold=[\"####\"]'` would make 3 of 7 tried right")


ANSWERED = READ.replace('text = "t"', 'text = "t"\nanswer = "a"\ncorrect = "ok"').replace('read = ["last number"]', "")


def test_a_cure_is_tried_on_the_text_where_answers_are_given(bench: Bench) -> None:
    rows = [sample(f"e{i}", None, t=f"So {i + 10}", gold=str(i + 10), ok=False) for i in range(6)]
    bench.run(rows, HEAD + ANSWERED)
    cure = "--set 'traces.answer=t' --set 'answers.read=[\"last number\"]' --rejudge"
    assert f"`{cure}` would make 6 of 6 tried right" in told(bench)
    settings = ["traces.answer=t", 'answers.read=["last number"]']
    report = import_table(
        [str(bench.folder / "samples.jsonl")], str(bench.folder / "map.toml"), bench.folder / "cured",
        rejudge=True, settings=settings,
    )  # fmt: skip
    assert report.readings.right == 6
    assert not any("changes no answer" in line for line in report.lines())


def test_ways_to_read_that_change_nothing_are_told_of(bench: Bench) -> None:
    rows = [sample(f"e{i}", "1", t="So 1", ok=True) for i in range(6)]
    bench.run(rows, HEAD + ANSWERED, settings=['answers.read=["last number"]'])
    assert told(bench).endswith(
        "WARNING: `answers.read` changes no answer: it reads the mapped answer;"
        " to read the text instead: `--set 'traces.answer=t'`"
    )


@pytest.mark.parametrize(
    ("text", "gold"),
    [("def f{0}: return 2", "def check(f):\n  assert f({0}) == 2"), ("I count {0} of them", "a dozen, or {0} at most")],
)
def test_the_last_number_is_no_cure_for_gold_that_is_none(bench: Bench, text: str, gold: str) -> None:
    rows = [sample(f"e{i}", t=text.format(i), gold=gold.format(i)) for i in range(8)]
    bench.run(rows, HEAD + READ.replace("last number", "boxed"))
    assert "would make" not in told(bench)


def test_nor_is_what_makes_a_few_right(bench: Bench) -> None:
    texts = ["\\boxed{0} of 1"] * 3 + ["1 of 1"] * 9
    rows = [sample(f"e{i}", t=text, gold="0") for i, text in enumerate(texts)]
    bench.run(rows, HEAD + READ)
    assert "would make" not in told(bench)


def test_where_only_the_source_judges_no_way_to_read_is_advised(bench: Bench) -> None:
    rows = [sample(f"e{i}", ok=False) for i in range(5)]
    bench.run(rows, HEAD + TRACES.replace('answer = "a"', 'correct = "ok"') + '[answers]\njudge = "source"\n')
    assert told(bench).endswith("the source's own verdicts: see whether `traces.correct` is what it should be")


FORM = "WARNING: some answers judged wrong are the gold in another form: "


def test_a_normal_form_that_makes_several_wrong_answers_their_gold_is_told_of_at_any_share(bench: Bench) -> None:
    rows = [sample(f"e{i}", "(B)" if i < 3 else "B", gold="B" if i < 9 else "C") for i in range(10)]
    bench.run(rows, HEAD + TRACES)
    lines = told(bench).split("\n")
    assert lines[0] == "right: 6 of 10 judged traces (60.0 %)"
    assert lines[-1] == f"{FORM}`--set 'answers.kind=choice'` would make 3 of 4 tried right"


@pytest.mark.parametrize(
    ("wrong", "gold"),
    [(["(B)", "(B)"], "B"), (["-5", "-5", "-5.0", "-5"], "5"), (["C", "D", "E"], "B")],
    ids=["two", "signs", "others"],
)
def test_nor_is_it_where_answers_are_others(bench: Bench, wrong: list[str], gold: str) -> None:
    rows = [sample(f"e{i}", answer, gold=gold) for i, answer in enumerate([*wrong, gold, gold])]
    bench.run(rows, HEAD + TRACES + '[answers]\nkind = "number"\n')
    assert FORM not in told(bench)


def test_a_form_that_makes_others_wrong_says_so(bench: Bench) -> None:
    letters = [sample(f"a{i}", "(B)", gold="B") for i in range(3)]
    numbers = [sample(f"b{i}", "7.0", gold="7") for i in range(3)]
    bench.run([*letters, *numbers], HEAD + TRACES + '[answers]\nkind = "number"\n')
    assert told(bench).endswith("would make 3 of 3 tried right; it would make others wrong, so import these apart")


def test_equal_cures_are_one_line_that_says_how_far_it_reaches(bench: Bench) -> None:
    rows = [row for number in range(5) for row in of(f"hashes{number}", 12, "It is {}", "so #### {}")]
    rows += of("good", 40, "It is {}", "{}") + of("lost", 8, "no", "{}")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    warnings = [line for line in told(bench).split("\n") if line.startswith("WARNING")]
    assert len(warnings) == 2
    assert "only 0 of 60 judged traces of 5 data sets in pools (`hashes0` in pool `p`" in warnings[0]
    assert "would make 60 of 60 tried right (60 of 68 of all that is doubted)" in warnings[0]
    assert "`lost` in pool `p`" in warnings[1]


def test_a_mark_is_learnt_from_what_stands_before_gold(bench: Bench) -> None:
    text = "<|im_start|>think\nIt is {0} or 3.\n<|im_start|>answer\n{0}\n<|im_end|> 99"
    rows = [sample(f"e{i}", t=text.format(f"{i + 10} apples"), gold=f"{i + 10} apples") for i in range(8)]
    mapping = HEAD + READ.replace('kind = "number"', 'kind = "exact"')
    bench.run(rows, mapping)
    assert bench.report is not None
    cure = bench.report.readings.cure
    assert cure is not None
    assert "im_start" in cure.settings
    assert cure.helped == 8
    settings = [one.strip("'") for one in shlex.split(cure.settings) if one != "--set"]
    report = import_table(
        [str(bench.folder / "samples.jsonl")], bench.mapping(mapping), bench.folder / "cured", settings=settings
    )
    assert report.readings.right == 8


@pytest.mark.parametrize(("right", "offered"), [(0, True), (1, False)])
def test_verdicts_that_tell_right_from_wrong_are_not_to_be_replaced(bench: Bench, right: int, offered: bool) -> None:
    rows = [sample(f"e{i}", str(i), gold=str(i), ok=i < right) for i in range(60)]
    bench.run(rows, HEAD + TRACES + 'correct = "ok"\n')
    assert ("--rejudge" in told(bench)) is offered


VALUES = [
    ("5.4 \\text{ cents}", "5.4", True), ("2516_8", "2516", True), ("2516_{8}", "2516", True), ("5\\%", "0.05", True),
    ("3 feet", "3", True), ("5 cm^2", "5", True), ("5 %", "50", False), ("2516_8", "251", False), ("x_2", "x", False),
    ("5 or 6", "5", False), ("cents", "5", False),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "gold", "same"), VALUES)
def test_answers_that_differ_in_form_alone_are_counted_and_may_be_taken(
    bench: Bench, answer: str, gold: str, same: bool
) -> None:
    rows = [sample("e0", answer, gold=gold), sample("e1", "1", gold="1"), sample("e2", "2", gold="3")]
    bench.run(rows, HEAD + TRACES)
    assert bench.report is not None
    assert bench.report.readings.values.count == same
    assert ("differs from gold in form alone" in told(bench)) is same
    taken = import_table(
        [str(bench.folder / "samples.jsonl")], bench.mapping(HEAD + TRACES), bench.folder / "taken",
        settings=["answers.judge=form"],
    )  # fmt: skip
    assert taken.readings.right == 1 + same
