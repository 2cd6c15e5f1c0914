"""lm-eval's filters, and its tasks whose responses are no answers: programs, and log-likelihoods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.errors import quotes, refuses, remarked
from tests.formats.test_variants import samples, traces, write
from toolkit.imports import ImportReport, import_format
from toolkit.log import collect, open_log


def imported(rows: list[dict[str, Any]], folder: Path, *settings: str) -> ImportReport:
    return import_format("lm-eval", [write(folder / "m" / "samples_t.jsonl", rows)], folder / "log", settings=settings)


FILTERED = [
    samples(doc_id=number, filter=name, metrics=["exact_match"], filtered_resps=[answer], exact_match=right)
    for name, answer, right in (("strict", "[invalid]", 0.0), ("flexible", "4", 1.0))
    for number in range(2)
]


@pytest.mark.parametrize(
    ("settings", "chosen", "right"), [((), "strict", 0), (("filter=flexible",), "flexible", 2)]
)  # fmt: skip
def test_a_filter_is_chosen(settings: tuple[str, ...], chosen: str, right: int, tmp_path: Path) -> None:
    other = write(tmp_path / "m" / "samples_u.jsonl", [samples()])
    first = write(tmp_path / "m" / "samples_t.jsonl", FILTERED)
    report = import_format("lm-eval", [first, other], tmp_path / "log", settings=settings)
    assert (report.traces, report.readings.right) == (3, right + 1)
    (note,) = [note for note in report.notes if "filters" in note]
    unchosen = "flexible" if chosen == "strict" else "strict"
    quotes(note, "t: ", "`strict`, `flexible`", f"of `{chosen}`", f"`--set filter={unchosen}`")


def test_a_filter_that_no_file_has(tmp_path: Path) -> None:
    with refuses("unknown", "`flexibel`"):
        imported(FILTERED, tmp_path, "filter=flexibel")


@pytest.mark.parametrize(("replies", "verdict"), [(["return 1"], True), (["return 1", "return 2"], None)])
def test_programs_are_opaque(replies: list[str], verdict: bool | None, tmp_path: Path) -> None:
    row = samples(target="def check(c):\n  assert c(1) == 2", resps=[replies], filtered_resps=[replies])
    rows = [{**row, "doc_id": number, "metrics": ["pass@1"], "pass@1": 1.0} for number in range(2)]
    report = imported(rows, tmp_path)
    found = traces(report)
    assert found["opaque"].to_list() == [True] * 2 * len(replies)
    assert (found["correct"].to_list() if "correct" in found.columns else [None, None] * 2) == [verdict] * len(found)
    assert report.readings.judged == (2 if verdict else 0)
    assert [note for note in report.notes if note.startswith("t: programs") and "opaque" in note]


def test_a_metric_of_programs_on_numbers_is_one_of_answers(tmp_path: Path) -> None:
    report = imported([{**samples(metrics=["pass@1"]), "pass@1": 1.0}], tmp_path)
    assert traces(report)["answer"].to_list() == ["4"]


def likelihoods(target: str, texts: list[str], likely: list[float], **more: Any) -> dict[str, Any]:
    asked = {f"gen_args_{place}": {"arg_0": "2 + 2?", "arg_1": text} for place, text in enumerate(texts)}
    answers = [[[str(value), "False"]] for value in likely]
    return samples(target=target, arguments=asked, resps=answers, filtered_resps=[one[0] for one in answers], **more)


def test_the_likelihood_of_one_text_is_no_choice(tmp_path: Path) -> None:
    rows = [likelihoods(" dog", [" dog"], [-1.5], metrics=["perplexity", "acc"], perplexity=-1.5, acc=1.0)]
    report = imported(rows, tmp_path)
    found = traces(report)
    assert found.select("opaque", "correct", "sum_logprob").rows() == [(True, True, -1.5)]
    assert [note for note in report.notes if note.startswith("t: likelihoods") and "opaque" in note]


@pytest.mark.parametrize(("target", "gold"), [("yes", "1"), ("no", "0"), ("1", "1"), ("maybe", "maybe")])
def test_a_target_may_be_the_text_of_a_choice(target: str, gold: str, tmp_path: Path) -> None:
    rows = [likelihoods(target, [" no", " yes"], [-3.0, -1.0], metrics=["acc"], acc=1.0)]
    log = open_log(imported(rows, tmp_path).log)
    assert collect(log.scan("examples", ["gold"]), log)["gold"].to_list() == [gold]
    assert collect(log.scan("traces", ["answer"]), log)["answer"].to_list() == ["1"]


@pytest.mark.parametrize("values", [(0.86, 0.4), (1.0, 0.4)])
def test_choices_of_which_several_are_right_are_unjudged(values: tuple[float, ...], tmp_path: Path) -> None:
    """As in truthfulqa_mc2: the target is 0 throughout, and the metric is the probability of all right choices."""
    rows = [
        likelihoods("0", ["a", "b", "c"], [-3.0, -1.0, -5.0], metrics=["acc"], acc=value, doc_id=place)
        for place, value in enumerate(values)
    ]
    report = imported(rows, tmp_path)
    log = open_log(report.log)
    assert traces(report)["correct"].to_list() == [None, None]
    assert collect(log.scan("traces", ["answer"]), log)["answer"].to_list() == ["1", "1"]
    remarked(report.notes, "unnamed_choices", "t: ", "(`acc`)")
    assert report.unjudged_examples == 2


def test_likelihoods_of_whole_texts_are_refused(tmp_path: Path) -> None:
    row = samples(arguments={"gen_args_0": {"arg_0": "A text."}}, resps=[["-512.4"]], filtered_resps=["-512.4"])
    with refuses("unsuitable", "samples_t.jsonl`"):
        imported([row], tmp_path)


LETTERS = ["so the answer is (A).", "**A**", "$A$", "Well.\n\nA", "\\boxed{\\text{A}}", "A. Paris", "Answer: **A**"]


@pytest.mark.parametrize("target", ["A", "(A)", "A."])
def test_a_letter_is_read_as_one_where_the_target_is_one(target: str, tmp_path: Path) -> None:
    replies = [*LETTERS, "the answer: (B)", "A dog", "(A) and (C)"]
    row = samples(target=target, resps=[replies], filtered_resps=["x"], exact_match=0.5)
    report = imported([row], tmp_path)
    assert traces(report)["answer"].to_list() == ["A"] * len(LETTERS) + ["B", "A dog", "(A) and (C)"]
    assert report.readings.right == len(LETTERS)
    log = open_log(report.log)
    assert collect(log.scan("examples", ["gold"]), log)["gold"].to_list() == ["A"]


@pytest.mark.parametrize("target", ["x", "A. Lincoln", "A or B"])
def test_other_targets_are_no_letters(target: str, tmp_path: Path) -> None:
    report = imported([samples(target=target, resps=[[target, "(a)"]], filtered_resps=["x"])], tmp_path)
    assert traces(report)["answer"].to_list() == [target, "(a)"]


TIME = "2025-01-01T10-00-00.123456"


@pytest.mark.parametrize(
    ("metric", "results", "judged"),
    [
        ("toxicity_rate", None, 0),
        ("pct_stereotype", None, 0),
        ("mine", None, 2),
        ("mine", {"mine": False}, 0),
        ("error_free", {"error_free": True}, 2),
    ],
)
def test_a_metric_that_is_better_where_lower_is_no_verdict(
    metric: str, results: dict[str, bool] | None, judged: int, tmp_path: Path
) -> None:
    rows = [samples(doc_id=place, metrics=[metric], **{metric: float(place)}) for place in range(2)]
    path = write(tmp_path / "m" / f"samples_t_{TIME}.jsonl", rows)
    if results is not None:
        told = json.dumps({"higher_is_better": {"t": results}})
        (tmp_path / "m" / f"results_{TIME}.json").write_text(told)
    report = import_format("lm-eval", [path], tmp_path / "log")
    assert report.readings.judged == judged
    assert any(note.startswith(f"t: `{metric}`: lower") for note in report.notes) == (not judged)
