"""Two results in one page: what is told of their differences, the questions that changed, and the texts of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl
import pytest
from scipy.special import stdtrit
from typer.testing import CliRunner

import replay
from generate.simulation.rounds import simulate_rounds
from replay import Result, Sample
from replay.policies.base import Policy
from replay.runs.page.outcome_codes import quality_for_correctness
from replay.runs.page.result_pair import changed_examples
from tests.dashboard.conftest import Open, altered
from tests.dashboard.test_hostile import HOSTILE
from tests.dashboard.test_marks import violations
from tests.dashboard.test_page import held
from tests.dashboard.test_print_and_play import sheets
from tests.errors import refuses, says
from tests.logs import Trace, tables
from tests.seeds import seeds
from thinkback.app import app
from toolkit.log import write_log
from toolkit.stats.limits.discordant import tango_limits

DARK_PHONE = {"color_scheme": "dark", "viewport": {"width": 360, "height": 700}}
FIRST = Sample(name="first", max_traces=1, select="first")
VOTE = Sample(name="vote", max_traces=3, select="majority")
NEW = dict(zip((f"e{number}" for number in range(1, 10)), "AAAABACAA", strict=True))
OLD = dict(zip((*(f"e{number}" for number in range(1, 9)), "f1", "f2"), "BBBAAABAAA", strict=True))
"""The first of three answers; gold is A, and so are the other two. Of `first` e1, e2 and e3 are right in the new result
alone, e5 in the old one; e7 is wrong in both, C and B. e9, and f1 and f2, are in one alone."""


def saved_result(
    folder: Path, firsts: dict[str, str], *policies: Policy, gold: str | None = "A",
    columns: dict[str, list[str]] | None = None, **options: Any,
) -> Path:  # fmt: skip
    """The result of policies on examples with these first answers, with a text of each trace. `gold`: that of every
    example; `columns`: further ones of the examples; `options`: those of the run.
    """
    members: dict[str, list[Trace]] = {
        one: [(answer, None), ("A", None), ("A", None)] for one, answer in firsts.items()
    }
    small = tables({"p": members}, dict.fromkeys(firsts, gold), options.pop("labels", None))
    small["traces"] = small["traces"].with_columns(correct=pl.col("answer") == "A")
    small["examples"] = small["examples"].with_columns(pl.Series(name, of) for name, of in (columns or {}).items())
    write_log(folder.parent / f"log of {folder.name}", name="small", tables=small)
    run = replay.run(folder.parent / f"log of {folder.name}", policies, resamples=100, **options)
    run.save(folder, traces=True, texts=True)
    with altered(folder, "traces.parquet") as rows:
        text = pl.format("{} says {}", pl.lit(folder.name), "answer")
        rows.append(rows.pop().with_columns(text=text))
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    return saved_result(folder / "new", NEW, FIRST, VOTE), saved_result(folder / "old", OLD, FIRST, VOTE)


@pytest.fixture(scope="module")
def both(models: tuple[Path, Path]) -> Path:
    new, old = map(replay.load, models)
    page, _ = new.dashboard(models[0].parent / "both.html", against=old)
    return page


LISTED = "[...document.querySelectorAll('#changed-list tbody tr')].map((one) => [...one.cells].map((c) => c.innerText))"


def test_differences_and_changes_of_two_models(browse: Open, both: Path, models: tuple[Path, Path]) -> None:
    """Of `first` 6 of 8 are right minus 4 of 8: 25 points, three fixes and one flip; of `vote` nothing changed."""
    page = browse(both)
    assert "the 8 examples that both have; 1 is in new alone, 2 are in old alone." in page.text("#against-said")
    rows = {one["name"]: one for one in page.js("drawn.get('against').view.data('rows')")}
    new, old = map(replay.load, models)
    pairs = new.compare(other=old, same_names=True).pairs
    for name, difference, low, high in pairs.select("first", "difference", "low", "high").iter_rows():
        told = [rows[name][part] for part in ("difference", "low", "high")]
        assert told == pytest.approx([100 * difference, 100 * low, 100 * high], abs=1e-4)
    assert rows["first"]["difference"] == 25
    assert [rows["first"]["fixes"], rows["first"]["flips"]] == [3, 1]
    assert [rows["vote"]["fixes"], rows["vote"]["flips"]] == [0, 0]
    listed = page.js(LISTED)
    assert [row[:4] for row in listed] == [
        [f"e{number}", "first", *(["A ✓ right", "B ✗ wrong"] if number < 5 else ["B ✗ wrong", "A ✓ right"])]
        for number in (1, 2, 3, 5)
    ]
    for label, ids in (("fixes", ["e1", "e2", "e3"]), ("flips", ["e5"]), ("another answer", ["e7"])):
        option = page.page.locator("#turned option", has_text=label).inner_text()
        page.page.select_option("#turned", label=option)
        page.page.wait_for_function(f"(ids) => {LISTED}.map(([id]) => id).join() === ids", arg=",".join(ids))
    assert "turned=other" in page.js("location.hash")
    page.page.select_option("#turned", index=0)
    page.page.select_option("#mine", label="vote")
    page.page.wait_for_function("document.querySelector('#changed-count').innerText.startsWith('0 changes')")


def test_texts_of_both_stand_side_by_side_and_all_is_reached_by_keyboard(browse: Open, both: Path) -> None:
    page = browse(both)
    page.page.locator("#changed-list tbody button").first.focus()
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#against-texts .sides pre")
    focused, pressed = page.js("[document.activeElement.id, document.activeElement.ariaPressed]")
    assert [focused.startswith("changed-"), pressed] == [True, "true"]
    name = page.js("results[0].policies[state.between[0]].name")
    assert name == "first"
    texts = page.page.locator("#against-texts .sides pre").all_inner_texts()
    assert texts == ["new says A", "old says B"]
    heads = page.page.locator("#against-texts .sides summary").all_inner_texts()
    assert [head.partition(";")[0] for head in heads] == ["new, p, trace 1: ✓ right, A", "old, p, trace 1: ✗ wrong, B"]
    boxes = [page.page.locator("#against-texts .sides pre").nth(at).bounding_box() for at in (0, 1)]
    assert boxes[0]
    assert boxes[1]
    assert boxes[0]["x"] < boxes[1]["x"]
    assert boxes[0]["y"] == pytest.approx(boxes[1]["y"], abs=1)
    assert page.text("#example-title") == "e1"
    again = browse(both, "#example=e1&mine=vote")
    again.page.wait_for_selector("#against-texts .sides pre")
    texts = again.page.locator("#against-texts .sides pre").all_inner_texts()
    assert texts == ["new says A", "old says B", *["new says A", "old says A"] * 2]


def test_any_policy_is_compared_with_any_of_the_other(browse: Open, both: Path) -> None:
    """d = (0, 0, 0, 0, −1, 0, −1, 0): what `first` of the new result is minus `vote` of the old one. p = 2 · 1/4."""
    page = browse(both)
    page.page.select_option("#theirs", label="vote")
    page.settled()
    row = next(one for one in page.js("drawn.get('against').view.data('rows')") if one["name"] == "first")
    low, high = (float(limit) for limit in tango_limits(0, 2, 8))
    told = [row[part] for part in ("difference", "low", "high", "fixes", "flips")]
    assert told == pytest.approx([-25, 100 * low, 100 * high, 0, 2], abs=1e-4)
    assert row["p"] == "0.5000"


def test_limits_of_one_pair_are_those_of_compare(tmp_path: Path) -> None:
    """With one policy in each result all pairs are the pair of one name."""
    new, old = (replay.load(saved_result(tmp_path / name, firsts, FIRST)) for name, firsts in (("a", NEW), ("b", OLD)))
    assert new.compare(other=old, same_names=True).pairs.equals(new.compare(other=old).pairs)


def test_other_policies_of_one_log_are_compared(browse: Open, models: tuple[Path, Path], tmp_path: Path) -> None:
    """Without a name in common the leaders face each other."""
    pair = Sample(name="pair", max_traces=2, select="majority")
    other = saved_result(tmp_path / "other", NEW, pair)
    path, _ = replay.load(models[0]).dashboard(tmp_path / "page.html", against=replay.load(other))
    page = browse(path)
    assert page.js("[state.mine, state.theirs]") == [None, None]
    assert page.page.locator("#mine option:checked").inner_text() == "vote"
    assert page.page.locator("#theirs option").all_inner_texts() == ["pair"]
    rows = {one["name"]: one["difference"] for one in page.js("drawn.get('against').view.data('rows')")}
    right = 9 - sum(answer != "A" for answer in NEW.values())  # of two answers the first one wins
    assert rows == pytest.approx({"vote": 100 * (1 - right / 9), "first": 0}, abs=1e-4)


def test_results_that_cannot_be_compared_are_refused_in_one_line(models: tuple[Path, Path], tmp_path: Path) -> None:
    alone = saved_result(tmp_path / "alone", {"z": "A"}, FIRST)
    with refuses("mismatch", "in common"):
        replay.load(alone).dashboard(tmp_path / "page.html", against=replay.load(models[0]))
    new, old = map(str, models)
    out = ["--out", str(tmp_path / "page.html")]
    says(CliRunner().invoke(app, ["dashboard", new, "--with", str(alone), *out]), "mismatch", "in common")
    says(CliRunner().invoke(app, ["dashboard", new, old, "--with", old, *out]), "conflict", "--with")
    says(CliRunner().invoke(app, ["dashboard", "--serve", new, "--with", old]), "conflict", "--serve")
    assert not (tmp_path / "page.html").exists()


def test_both_results_have_the_same_examples_those_that_changed_first(
    saved: Path, log: Path, tmp_path: Path, result: Result
) -> None:
    """Of 48 examples 20 are shown: at most 15 that changed for `first`, of those that both have."""
    one = Sample(name="first", pool="n8", max_traces=4, select="majority")
    replay.run(log, [one], where="split = 'test'", resamples=10).save(tmp_path / "other")
    other = replay.load(tmp_path / "other")
    result.dashboard(tmp_path / "page.html", against=other, examples=20, texts=False)
    _, [first, second] = held(tmp_path / "page.html")
    assert first["ids"] == second["ids"]
    assert first["total"] == 48
    assert {*first["ids"]} <= {*other.examples["example_id"]}
    values = [each.outcomes_of("first").collect().select("example_id", "correct") for each in (result, other)]
    apart = values[0].join(values[1], on="example_id").filter(pl.col("correct") != pl.col("correct_right"))
    changed = {*apart["example_id"]}
    most = min(20, len(other.examples))
    room = min(len(changed), max(int(0.75 * most), most - (len(other.examples) - len(changed))))
    assert len(first["ids"]) == most
    if len(other.examples) > 20:
        assert len(changed & {*first["ids"]}) == room
    assert [48 - len(other.examples), 0] in [sizes for _, *sizes in first["strata"]]


@pytest.mark.parametrize("look", seeds(1, [DARK_PHONE, {"viewport": {"width": 800, "height": 900}}, {}]))
def test_two_results_are_for_all(browse: Open, both: Path, look: dict[str, object]) -> None:
    """axe finds nothing, and nothing is wider than the window; on paper neither."""
    page = browse(both, "#example=e1", **look)
    page.page.wait_for_selector("#against-texts .sides pre")
    assert violations(page) == []
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")
    page.page.emulate_media(media="print", color_scheme="light")
    page.js("{ document.body.dataset.print = 'all'; window.dispatchEvent(new Event('beforeprint')); }")
    assert violations(page, on_paper=True) == []
    assert page.page.locator("#against-texts .sides pre").first.is_visible()


def test_hostile_texts_of_two_results_appear_as_text(browse: Open, tmp_path: Path) -> None:
    name = "</script><img src=x onerror='window.hurt = 1'>"
    policy = Sample(name=name, max_traces=1, select="first")
    folders = [saved_result(tmp_path / one, firsts, policy) for one, firsts in (("<b>n", NEW), ("o'&", OLD))]
    for folder in folders:
        with altered(folder, "examples.parquet", "traces.parquet", "outcomes.parquet") as frames:
            frames[0] = frames[0].with_columns(question=pl.lit(HOSTILE))
            frames[1] = frames[1].with_columns(text=pl.lit(HOSTILE))
            frames[2] = frames[2].with_columns(answer=pl.lit(HOSTILE + folder.name))
    new, old = map(replay.load, folders)
    path, _ = new.dashboard(tmp_path / "page.html", against=old)
    page = browse(path, f"#example=e1&mine={quote(name, safe='')}")
    page.page.wait_for_selector("#against-texts .sides pre")
    assert "<img src=x onerror='window.hurt = 1'>" in page.page.locator("#against-texts .sides pre").first.inner_text()
    assert page.text("#against-title") == "<b>n against o'&"
    assert page.page.locator("#changed-list tbody tr").count() == 4
    assert page.js("[window.hurt ?? 'unhurt', document.querySelectorAll('img, main b').length > 0]")[0] == "unhurt"
    assert page.js("document.querySelectorAll('img').length") == 0
    assert "\u202e" not in page.js("document.body.innerText")


def test_the_two_results_are_on_the_sheet(browse: Open, both: Path) -> None:
    """Printed, the differences of the two results stand above the ranked table of the first."""
    page = browse(both)
    assert sheets(page) == 1
    page.page.emulate_media(media="print")
    shown = page.js(
        "[...document.querySelectorAll('main > section')].filter((one) => one.offsetHeight).map((one) => one.id)"
    )
    assert shown == ["against-section", "ranking", "plane-section", "notes-section"]
    assert page.page.locator("#against-said:visible, #against svg:visible").count() == 2
    assert page.page.locator("#against-texts:visible, #changed-list:visible").count() == 0


def test_namesakes_with_other_settings_and_examples_without_gold_are_noted(tmp_path: Path) -> None:
    """`vote` of 3 against `vote` of 2 is no difference of logs alone; without gold only ids pair examples."""
    other = saved_result(tmp_path / "other", OLD, Sample(name="vote", max_traces=2, select="majority"))
    vote, old = saved_result(tmp_path / "vote", NEW, VOTE), saved_result(tmp_path / "old", OLD, VOTE)
    new = replay.load(vote)
    found = new.compare(other=replay.load(other), same_names=True).notes
    [text] = [one.text for one in found if one.code == "other_settings"]
    assert "(3, 2)" in text
    assert "`vote`" in text
    codes = {one.code for one in new.compare(other=replay.load(old), same_names=True).notes}
    assert not codes & {"other_settings", "paired_by_id"}


def test_examples_that_changed_for_what_sees_gold_alone_have_not_changed(tmp_path: Path) -> None:
    """The oracle of one trace changes where the first answer does; the vote of three changes nowhere."""
    oracle = replay.Oracle(name="oracle", rule="any", of=["p"])
    loaded = [replay.load(saved_result(tmp_path / name, of, VOTE, oracle)) for name, of in (("a", NEW), ("b", OLD))]
    folders = [one.folder for one in loaded if one.folder is not None]
    ids, changed = changed_examples(loaded, folders, "correct")
    assert len(ids) == 8
    assert changed.is_empty()


def pair_of(tmp_path: Path, *of: Path) -> tuple[Result, Result, Path]:
    """Two loaded results, and the page of both."""
    new, old = map(replay.load, of)
    return new, old, new.dashboard(tmp_path / "page.html", against=old, texts=False)[0]


def test_a_result_compares_by_ids_where_gold_is_unknown(tmp_path: Path) -> None:
    """Of nine and ten examples without gold eight are in both."""
    new, old = (
        replay.load(saved_result(tmp_path / name, of, VOTE, gold=None)) for name, of in (("a", NEW), ("b", OLD))
    )
    [text] = [one.text for one in new.compare(other=old, same_names=True).notes if one.code == "paired_by_id"]
    assert text.startswith("8 examples ")


def test_other_gold_or_clusters_are_refused(tmp_path: Path) -> None:
    one = saved_result(tmp_path / "one", NEW, FIRST)
    other = saved_result(tmp_path / "other", OLD, FIRST, gold="B")
    with refuses("mismatch", "gold answer"):
        pair_of(tmp_path, one, other)
    clusters = [str(number // 2) for number in range(len(OLD))]
    clustered = saved_result(tmp_path / "clustered", OLD, FIRST, columns={"cluster": clusters})
    with refuses("mismatch", "cluster"):
        pair_of(tmp_path, one, clustered)
    assert not (tmp_path / "page.html").exists()


def test_clusters_are_the_units_of_any_two_policies(browse: Open, tmp_path: Path) -> None:
    """60 examples in 30 clusters: `first` is wrong in the first 24 in one result, in the next six in the other.
    d by cluster is 12 times −2, 3 times 2, and 15 times 0, of 60 examples; t has 29 degrees of freedom.
    """
    ids = [f"e{number:02d}" for number in range(60)]
    cluster = {"cluster": [f"c{number // 2}" for number in range(60)]}
    wrong = [{*ids[:24]}, {*ids[24:30]}]
    folders = [
        saved_result(tmp_path / name, {one: "B" if one in of else "A" for one in ids}, FIRST, VOTE, columns=cluster)
        for name, of in zip(("new", "old"), wrong, strict=True)
    ]
    new, old, path = pair_of(tmp_path, *folders)
    page = browse(path)
    [pairs] = new.compare(other=old, same_names=True).pairs.filter(first="first").iter_rows(named=True)
    row = next(one for one in page.js("drawn.get('against').view.data('rows')") if one["name"] == "first")
    assert [row["difference"], row["low"], row["high"]] == pytest.approx(
        [100 * pairs[name] for name in ("difference", "low", "high")], abs=1e-4
    )
    page.page.select_option("#theirs", label="first")
    page.settled()
    row = next(one for one in page.js("drawn.get('against').view.data('rows')") if one["name"] == "first")
    apart = np.array([-2.0] * 12 + [2.0] * 3 + [0.0] * 15) / 60
    mean = apart.sum()
    half = float(stdtrit(29, 0.975)) * (((apart - mean / 30) ** 2).sum() * 30 / 29) ** 0.5
    assert [row["low"], row["high"]] == pytest.approx([100 * (mean - half), 100 * (mean + half)], abs=1e-3)
    assert [row["fixes"], row["flips"]] == [6, 24]


def test_with_weights_only_policies_of_one_name_are_compared(browse: Open, tmp_path: Path) -> None:
    def weighed(name: str, of: dict[str, str]) -> Path:
        datasets = {"dataset": ["a" if one in ("e1", "e2", "e3") else "b" for one in of]}
        return saved_result(tmp_path / name, of, FIRST, VOTE, columns=datasets, weigh="equal")

    new, old, path = pair_of(tmp_path, weighed("new", NEW), weighed("old", OLD))
    page = browse(path)
    [pairs] = new.compare(other=old, same_names=True).pairs.filter(first="first").iter_rows(named=True)
    row = next(one for one in page.js("drawn.get('against').view.data('rows')") if one["name"] == "first")
    assert row["difference"] == pytest.approx(100 * pairs["difference"], abs=1e-4)
    page.page.select_option("#theirs", label="vote")
    page.page.wait_for_function("document.querySelector('#against-said').innerText.includes('not here')")
    assert page.js("facing.why") in page.text("#against-said")
    assert page.js("forests.get('against')") == []


def test_oracles_are_in_no_row_and_listed_where_they_are_chosen(browse: Open, tmp_path: Path) -> None:
    oracle = replay.Oracle(name="oracle", rule="any", of=["p"])
    new, old = (saved_result(tmp_path / name, of, FIRST, VOTE, oracle) for name, of in (("new", NEW), ("old", OLD)))
    _, _, path = pair_of(tmp_path, new, old)
    page = browse(path)
    assert {one["name"] for one in page.js("drawn.get('against').view.data('rows')")} == {"first", "vote"}
    assert {row[1] for row in page.js(LISTED)} == {"first"}
    page.page.select_option("#mine", label="oracle")
    page.page.wait_for_function("document.querySelector('#changed-count').innerText.startsWith('0 changes')")


def test_the_metric_of_the_first_result_counts_for_both(browse: Open, tmp_path: Path) -> None:
    """The second is ranked by F1; both are compared by accuracy, and the list by correctness."""
    labels = ["A", "B", "C"]
    one = saved_result(tmp_path / "new", NEW, FIRST, VOTE, labels=labels)
    other = saved_result(tmp_path / "old", OLD, FIRST, VOTE, labels=labels, metric="macro_f1")
    _, _, path = pair_of(tmp_path, one, other)
    page = browse(path)
    assert "macro_f1" in page.js("facing.ranked")
    assert page.js("facing.ranked") in page.text("#against-said")
    rows = {row["name"]: row["difference"] for row in page.js("drawn.get('against').view.data('rows')")}
    assert rows == pytest.approx({"first": 25, "vote": 0})
    page.page.select_option("#theirs", label="vote")
    page.page.wait_for_function("document.querySelector('#against-said').innerText.includes('not here')")
    assert page.js("facing.why") in page.text("#against-said")
    assert page.js("forests.get('against')") == []


def test_outcomes_stand_for_correctness_in_both_results_or_in_neither(tmp_path: Path) -> None:
    """No answer of retrieval rounds is judged: recall stands in its place where both results have it."""
    simulate_rounds(tmp_path / "log", examples=24, seed=1)
    replay.run(tmp_path / "log", resamples=20).save(tmp_path / "rounds")
    rounds, judged = replay.load(tmp_path / "rounds"), replay.load(saved_result(tmp_path / "judged", NEW, FIRST))

    def column(*results: Result) -> str | None:
        quality = quality_for_correctness(results, [one.folder for one in results if one.folder is not None])
        return None if quality is None else quality.name

    assert [column(rounds), column(rounds, rounds), column(judged)] == ["recall_10", "recall_10", None]
    assert [column(rounds, judged), column(judged, rounds)] == [None, None]


def test_another_result_and_the_address_keep_what_is_looked_at(browse: Open, both: Path) -> None:
    """The example stays with the other result, and the address has the two policies whose texts are side by side."""
    page = browse(both, "#turned=all")
    page.page.locator("#changed-list tbody button").nth(1).click()
    page.page.wait_for_selector("#against-texts .sides pre")
    chosen = page.js("[state.example, ...state.between.map((one, at) => results[at].policies[one].name)]")
    page.page.select_option("#result", index=1)
    page.page.wait_for_function("document.querySelector('#example-title')?.innerText === state.example")
    assert page.js("[state.result, state.example]") == [1, chosen[0]]
    assert page.page.locator("#against-texts .sides pre").count() == 2
    again = browse(both, page.js("location.hash"))
    again.page.wait_for_selector("#against-texts .sides pre")
    assert again.js("[state.example, ...state.between.map((one, at) => results[at].policies[one].name)]") == chosen
    again.page.locator("#example-list tbody button").first.click()
    other = browse(both, "#example=e9")
    other.page.select_option("#result", index=1)
    other.page.wait_for_function("document.querySelector('#example').innerText.includes('not among')")


@pytest.mark.slow
def test_two_large_results_are_one_small_page(browse: Open, tmp_path: Path) -> None:
    """40,000 examples of 5 policies in both: the page has less than 2 MB, all are compared, and those shown changed."""
    rows = np.random.default_rng(1).random((2, 40_000))
    policies = [Sample(name=f"vote of {most}", max_traces=most, select="majority") for most in range(1, 6)]
    folders = []
    for name, numbers in zip(("new", "old"), rows, strict=True):
        ids = [f"question-{number:05d}" for number in range(len(numbers))]
        answers = np.random.default_rng(len(folders)).random((len(ids), 5)) < 0.4 + 0.4 * numbers[:, None]
        frame = pl.DataFrame({"example_id": ids, "dataset": "d", "split": "test", "question": ids, "gold": "A"})
        texts = np.where(answers, "A", "B").ravel()
        traces = pl.DataFrame(
            {"trace_id": [f"{one}/{k}" for one in ids for k in range(5)], "example_id": np.repeat(ids, 5), "pool": "p",
             "action": "solve", "sample_index": [*range(5)] * len(ids), "model": "m", "answer": texts,
             "correct": answers.ravel()}
        )  # fmt: skip
        replay.run({"examples": frame, "traces": traces}, policies, resamples=50).save(tmp_path / name)
        folders.append(tmp_path / name)
    _, _, path = pair_of(tmp_path, *folders)
    assert path.stat().st_size < 2_000_000
    page = browse(path)
    assert "40,000 examples" in page.text("#against-said")
    assert page.js("drawn.get('against').view.data('rows').length") == 5
    assert "of 40,000" in page.text("#changed-count")
    page.page.select_option("#theirs", index=1)
    page.settled()
    assert page.js("drawn.get('against').view.data('rows').every((one) => one.low !== null)") is True
