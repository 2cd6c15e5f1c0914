"""After an import: the share that is right, wrong answers beside their gold, a warning with a cure that was tried."""

from __future__ import annotations

import shlex

import pytest

from tests.errors import noted
from tests.imports.makers import HEAD, TRACES, Bench, sample
from toolkit.imports import import_table
from toolkit.notes import Note, Severity

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


def notes(bench: Bench) -> list[Note]:
    assert bench.report is not None
    return list(bench.report.readings.notes())


def of_code(bench: Bench, code: str) -> list[str]:
    return [one.text for one in notes(bench) if one.code == code]


def cured(bench: Bench, cure: str, right: str, *quoted: str) -> None:
    """One doubt, which a cure would answer: so many of the traces that were tried."""
    assert noted(notes(bench), "doubtful_reading", f"`{cure}`", right, *quoted).severity == Severity.WARNING


def solved(count: int, gold: str = "{}") -> list[dict[str, object]]:
    return [sample(f"e{i}", t=f"It is {i + 10}", gold=gold.format(i + 10)) for i in range(count)]


def test_the_share_that_is_right_and_three_wrong_answers_beside_their_gold(bench: Bench) -> None:
    rows = solved(6)
    for row in rows[:4]:
        row["t"] = "It is 7"
    bench.run(rows, HEAD + READ)
    assert [one.code for one in notes(bench)] == ["right", "wrong", "wrong", "wrong"]
    noted(notes(bench), "right", "2 of 6", "33.3 %")
    for number in range(3):
        noted(notes(bench), "wrong", f"e{number}", "`7`", f"`1{number}`")


def test_the_gold_of_gsm8k_is_no_silent_nought(bench: Bench) -> None:
    gold = "He has 3 + 7 of them, so <<3+7=10>> and all.\n#### {}"
    bench.run(solved(8, gold), HEAD + READ)
    noted(notes(bench), "right", "0 of 8", "0.0 %")
    noted(notes(bench), "wrong", "e0", "`10`", "`He has 3 + 7")
    cured(bench, "--set 'answers.read_gold=[\"####\"]'", "8 of 8", "0 of 8")


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
    cured(bench, cure, "5 of 5")


def test_verdicts_of_the_source_are_replaced_by_rejudging(bench: Bench) -> None:
    rows = [sample(f"e{i}", str(i), gold=str(i), ok=False) for i in range(5)]
    bench.run(rows, HEAD + TRACES + 'correct = "ok"\n')
    cured(bench, "--rejudge", "5 of 5", "0 of 5")


def test_nothing_readable(bench: Bench) -> None:
    rows = [sample(f"e{i}", t=f"\\boxed{{x_{i}}}") for i in range(5)]
    for row in rows:
        row.pop("gold")
    bench.run(rows, HEAD.replace('gold = "gold"\n', "") + READ.replace("last number", "####"))
    cured(bench, "--set 'answers.read=[\"boxed\"]'", "5 of 5", "0 of 5")
    assert len(notes(bench)) == 1


def test_where_no_cure_is_known_the_warning_says_where_to_look(bench: Bench) -> None:
    bench.run([sample(f"e{i}", "no", gold=f"g{i}") for i in range(5)], HEAD + TRACES)
    assert notes(bench)[-1] == noted(notes(bench), "doubtful_reading", "`answers.kind`", "`answers.read`")


def test_verdicts_without_answers_show_no_answers(bench: Bench) -> None:
    rows = [sample(f"e{i}", ok=i == 0) for i in range(5)]
    bench.run(rows, HEAD + TRACES.replace('answer = "a"', 'correct = "ok"'))
    assert notes(bench) == [noted(notes(bench), "right", "1 of 5", "20.0 %")]


GROUPED = READ.replace("pool = \"'p'\"", 'pool = "run"')


def of(dataset: str, count: int, text: str, gold: str, run: str = "p") -> list[dict[str, object]]:
    return [
        {**sample(f"{dataset}{i}", t=text.format(i + 10), gold=gold.format(i + 10)), "set": dataset, "run": run}
        for i in range(count)
    ]


def test_a_data_set_that_is_misread_is_not_hidden_by_the_others(bench: Bench) -> None:
    rows = of("good", 20, "It is {}", "{}") + of("bad", 10, "It is {}", "so \\boxed{{{}}}")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    noted(notes(bench), "right", "20 of 30", "66.7 %")
    assert [line.split()[1] for line in of_code(bench, "wrong")] == ["bad0:", "bad3:", "bad6:"]
    cured(bench, "--set 'answers.read_gold=[\"boxed\"]'", "10 of 10", "0 of 10", "`bad`", "`p`")
    assert bench.report is not None
    assert bench.report.readings.cure is not None
    assert bench.report.readings.cure.harms


def test_where_all_the_log_is_doubted_each_data_set_may_need_its_own_cure(bench: Bench) -> None:
    rows = of("hashes", 12, "It is {}", "so #### {}") + of("boxes", 10, "It is {}", "so \\boxed{{{}}} of 7")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    assert len(of_code(bench, "doubtful_reading")) == 2
    cured(bench, "--set 'answers.read_gold=[\"####\"]'", "12 of 12", "0 of 12", "`hashes`", "`p`", "12 of 22")
    cured(bench, "--set 'answers.read_gold=[\"boxed\"]'", "10 of 10", "0 of 10", "`boxes`", "`p`", "10 of 22")
    assert bench.report is not None
    assert all(doubt.cure is not None and doubt.cure.elsewhere for doubt in bench.report.readings.doubts)


def test_a_cure_of_one_data_set_is_found_though_all_the_log_is_doubted(bench: Bench) -> None:
    rows = [row for number in range(3) for row in of(f"bad{number}", 40, "no", "{}")]
    rows += of("boxes", 10, "It is {}", "so \\boxed{{{}}} of 7")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    cured(bench, "--set 'answers.read_gold=[\"boxed\"]'", "10 of 10", "`boxes`", "`p`")
    doubts = of_code(bench, "doubtful_reading")
    assert "`boxes`" in doubts[0]
    assert " 1 " in doubts[-1]
    assert bench.report is not None
    assert bench.report.readings.unnamed == 1


def test_one_cure_for_all_data_sets_is_said_once(bench: Bench) -> None:
    rows = of("one", 12, "It is {}", "so #### {}") + of("other", 10, "It is {}", "so #### {}")
    rows[0]["t"] = rows[15]["t"] = "no"
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    assert len(of_code(bench, "doubtful_reading")) == 1
    cured(bench, "--set 'answers.read_gold=[\"####\"]'", "20 of 22", "0 of 22")


def test_nor_is_a_pool(bench: Bench) -> None:
    rows = of("d", 10, "It is {}", "{}") + of("d", 10, "the {}th, so \\boxed{{x}} of 7", "{}", "other")
    bench.run(rows, HEAD + GROUPED)
    doubt = noted(notes(bench), "doubtful_reading", "0 of 10", "`d`", "`other`", "`answers.kind`")
    assert "--set" not in doubt.text


def test_of_many_three_are_named(bench: Bench) -> None:
    rows = of("good", 9, "It is {}", "{}")
    for number in range(5):
        rows += of(f"bad{number}", 6 + number, "no", "{}")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    doubts = of_code(bench, "doubtful_reading")
    assert [line.split("`")[1] for line in doubts[:3]] == ["bad4", "bad3", "bad2"]
    assert len(doubts) == 4
    assert bench.report is not None
    assert bench.report.readings.unnamed == 2


def test_examples_with_hundreds_of_traces_do_not_crowd_out_the_others(bench: Bench) -> None:
    rows = [sample("e0", t="It is 5", gold="x #### 4") for _ in range(300)]
    rows += [sample(f"e{i}", t="It is 4", gold="x #### 4") for i in range(1, 4)]
    bench.run(rows, HEAD + READ)
    assert [line.split()[1] for line in of_code(bench, "wrong")] == ["e0:", "e1:", "e2:"]
    cured(bench, "--set 'answers.read_gold=[\"####\"]'", "3 of 7")


ANSWERED = READ.replace('text = "t"', 'text = "t"\nanswer = "a"\ncorrect = "ok"').replace('read = ["last number"]', "")


def test_a_cure_is_tried_on_the_text_where_answers_are_given(bench: Bench) -> None:
    rows = [sample(f"e{i}", None, t=f"So {i + 10}", gold=str(i + 10), ok=False) for i in range(6)]
    bench.run(rows, HEAD + ANSWERED)
    cure = "--set 'traces.answer=t' --set 'answers.read=[\"last number\"]' --rejudge"
    cured(bench, cure, "6 of 6")
    settings = ["traces.answer=t", 'answers.read=["last number"]']
    report = import_table(
        [str(bench.folder / "samples.jsonl")], str(bench.folder / "map.toml"), bench.folder / "cured",
        rejudge=True, settings=settings,
    )  # fmt: skip
    assert report.readings.right == 6
    assert [one.code for one in report.readings.notes()] == ["right"]


def test_ways_to_read_that_change_nothing_are_told_of(bench: Bench) -> None:
    rows = [sample(f"e{i}", "1", t="So 1", ok=True) for i in range(6)]
    bench.run(rows, HEAD + ANSWERED, settings=['answers.read=["last number"]'])
    idle = noted(notes(bench), "idle_reading", "`answers.read`", "`--set 'traces.answer=t'`")
    assert (notes(bench)[-1], idle.severity) == (idle, Severity.WARNING)


def assert_without_cure(bench: Bench) -> None:
    assert bench.report is not None
    assert bench.report.readings.cure is None
    assert not any("--set" in one.text or "--rejudge" in one.text for one in notes(bench))


@pytest.mark.parametrize(
    ("text", "gold"),
    [("def f{0}: return 2", "def check(f):\n  assert f({0}) == 2"), ("I count {0} of them", "a dozen, or {0} at most")],
)
def test_the_last_number_is_no_cure_for_gold_that_is_none(bench: Bench, text: str, gold: str) -> None:
    rows = [sample(f"e{i}", t=text.format(i), gold=gold.format(i)) for i in range(8)]
    bench.run(rows, HEAD + READ.replace("last number", "boxed"))
    assert_without_cure(bench)


def test_nor_is_what_makes_a_few_right(bench: Bench) -> None:
    texts = ["\\boxed{0} of 1"] * 3 + ["1 of 1"] * 9
    rows = [sample(f"e{i}", t=text, gold="0") for i, text in enumerate(texts)]
    bench.run(rows, HEAD + READ)
    assert_without_cure(bench)


def test_where_only_the_source_judges_no_way_to_read_is_advised(bench: Bench) -> None:
    rows = [sample(f"e{i}", ok=False) for i in range(5)]
    bench.run(rows, HEAD + TRACES.replace('answer = "a"', 'correct = "ok"') + '[answers]\njudge = "source"\n')
    advice = noted(notes(bench), "doubtful_reading", "`traces.correct`").text
    assert "`answers" not in advice


def test_a_normal_form_that_makes_several_wrong_answers_their_gold_is_told_of_at_any_share(bench: Bench) -> None:
    rows = [sample(f"e{i}", "(B)" if i < 3 else "B", gold="B" if i < 9 else "C") for i in range(10)]
    bench.run(rows, HEAD + TRACES)
    noted(notes(bench), "right", "6 of 10", "60.0 %")
    form = noted(notes(bench), "other_form", "`--set 'answers.kind=choice'`", "3 of 4")
    assert (notes(bench)[-1], form.severity) == (form, Severity.WARNING)


@pytest.mark.parametrize(
    ("wrong", "gold"),
    [(["(B)", "(B)"], "B"), (["-5", "-5", "-5.0", "-5"], "5"), (["C", "D", "E"], "B")],
    ids=["two", "signs", "others"],
)
def test_nor_is_it_where_answers_are_others(bench: Bench, wrong: list[str], gold: str) -> None:
    rows = [sample(f"e{i}", answer, gold=gold) for i, answer in enumerate([*wrong, gold, gold])]
    bench.run(rows, HEAD + TRACES + '[answers]\nkind = "number"\n')
    assert of_code(bench, "other_form") == []


def test_a_form_that_makes_others_wrong_says_so(bench: Bench) -> None:
    letters = [sample(f"a{i}", "(B)", gold="B") for i in range(3)]
    numbers = [sample(f"b{i}", "7.0", gold="7") for i in range(3)]
    bench.run([*letters, *numbers], HEAD + TRACES + '[answers]\nkind = "number"\n')
    noted(notes(bench), "other_form", "3 of 3")
    assert bench.report is not None
    assert bench.report.readings.form is not None
    assert bench.report.readings.form.harms


def test_equal_cures_are_one_line_that_says_how_far_it_reaches(bench: Bench) -> None:
    rows = [row for number in range(5) for row in of(f"hashes{number}", 12, "It is {}", "so #### {}")]
    rows += of("good", 40, "It is {}", "{}") + of("lost", 8, "no", "{}")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED)
    doubts = of_code(bench, "doubtful_reading")
    assert len(doubts) == 2
    assert [
        text for text in ("0 of 60", "5 data sets", "`hashes0`", "60 of 60", "60 of 68") if text not in doubts[0]
    ] == []
    assert "`lost` in pool `p`" in doubts[1]


def test_a_cure_reaches_what_it_makes_right_though_other_gold_is_no_number(bench: Bench) -> None:
    rows = of("sums", 12, "{} it is", "{}") + of("lost", 10, "no", "name {}")
    bench.run(rows, HEAD.replace("\"'d'\"", '"set"') + GROUPED.replace('["last number"]', '["####"]'))
    cured(bench, "--set 'answers.read=[\"last number\"]'", "12 of 12", "0 of 12", "`sums`", "12 of 22")


def test_one_cure_reads_texts_of_several_shapes(bench: Bench) -> None:
    shapes = {"boxes": "\\boxed{{{}}}, of 3", "hashes": "#### {}\nof 2", "lines": "so\n{}"}
    rows = [row for name, text in shapes.items() for row in of(name, 10, text, "{}")]
    mapping = HEAD.replace("\"'d'\"", '"set"') + GROUPED.replace("last number", "answer is")
    bench.run(rows, mapping)
    assert len(of_code(bench, "doubtful_reading")) == 1
    assert bench.report is not None
    cure = bench.report.readings.cure
    assert cure is not None
    assert (cure.helped, cure.tried) == (30, 30)
    files = [str(bench.folder / "samples.jsonl")], bench.mapping(mapping), bench.folder / "cured"
    assert import_table(*files, settings=shlex.split(cure.settings)[1::2]).readings.right == 30


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
    assert any("--rejudge" in one.text for one in notes(bench)) is offered


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
    assert len(of_code(bench, "form_alone")) == same
    taken = import_table(
        [str(bench.folder / "samples.jsonl")], bench.mapping(HEAD + TRACES), bench.folder / "taken",
        settings=["answers.judge=form"],
    )  # fmt: skip
    assert taken.readings.right == 1 + same
