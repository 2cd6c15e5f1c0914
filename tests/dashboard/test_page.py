"""What a page holds and where it is written, without a browser."""

from __future__ import annotations

import builtins
import html
import itertools
import json
import re
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest
from typer.testing import CliRunner

import replay
from replay import Result
from replay.runs.page import dashboard
from replay.runs.page.dashboard import _examples_of_results, _grouping_columns, _PageResult, _shares_of_strata
from replay.runs.page.dashboard_data import NO_ROOM, _all_thresholds, _baseline_places, result_data
from replay.runs.saved.findings import Findings
from tests.errors import refuses, says
from tests.seeds import seeds
from thinkback.app import app
from toolkit.columns import metric_column
from toolkit.show.dashboard.charts import INK, PART_COLOURS, charts
from toolkit.show.dashboard.page import _page_scripts, compressed_json, script_json


def held(page: Path) -> tuple[list[Any], list[Any]]:
    """The data of a page: its results, and the examples of each."""
    text = page.read_text(encoding="utf-8")
    [results] = re.findall(r'id="results-data">(.*?)</script>', text)
    blocks = re.findall(r'id="examples-\d+">(.*?)</script>', text)
    return json.loads(results), [json.loads(zlib.decompress(b64decode(one))) for one in blocks]


def test_the_page_is_one_file_and_small(page_file: Path, result: Result) -> None:
    assert page_file.stat().st_size < 2_000_000
    [told], [examples] = held(page_file)
    assert [one["name"] for one in told["policies"]] == [row[1] for row in result.table().rows]
    assert examples["ids"] == result.examples["example_id"].to_list()
    text = page_file.read_text(encoding="utf-8")
    assert "It says" not in text
    markup = re.sub(r"(<script[^>]*>).*?(</script>)", r"\1\2", text, flags=re.DOTALL)
    assert len(markup) < 20_000
    assert re.findall(r'(?:src|href)="(?!#)|url\(|@import', markup) == []
    assert [path.name for path in (page_file.parent / "page_texts").iterdir()] == ["0-0.js"]


def test_outcomes_are_those_of_the_result(page_file: Path, result: Result) -> None:
    [told], [examples] = held(page_file)
    for number in (0, 1, len(told["policies"]) - 1):
        rows = result.outcomes_of(told["policies"][number]["name"]).collect()
        size = len(examples["ids"])
        mine = slice(number * size, (number + 1) * size)
        words = [None if code < 0 else examples["words"][code] for code in examples["outcomes"]["answer"][mine]]
        assert words == rows["answer"].to_list()
        assert examples["outcomes"]["correct"][mine] == rows["correct"].to_list()


@pytest.mark.parametrize(
    ("columns", "groups"), [({"dataset": ["a", "b"]}, ["split", "dataset"]), ({"dataset": ["a", "a"]}, ["split"])]
)
def test_examples_are_chosen_by_data_set_where_there_are_several(
    columns: dict[str, list[str]], groups: list[str]
) -> None:
    found = SimpleNamespace(examples=pl.DataFrame({"split": ["x", "y"], **columns}), by=("split",))
    assert _grouping_columns(cast(Findings, found)) == groups


def test_many_examples_are_drawn_by_stratum(result: Result) -> None:
    assert result.folder is not None
    page_results = _PageResult.of_results([result], [result.folder], ["saved"])
    [shown] = _examples_of_results(page_results, 20, True)
    assert len(shown.ids) == shown.data["total"] - len(result.examples) + 20
    assert sum(kept for _, _, kept in shown.data["strata"]) == 20
    assert sum(size for _, size, _ in shown.data["strata"]) == len(result.examples)
    assert all(kept >= 1 for _, _, kept in shown.data["strata"])
    assert shown.ids.to_list() == _examples_of_results(page_results, 20, True)[0].ids.to_list()
    assert _shares_of_strata([90, 9, 1], 10) == [8, 1, 1]
    assert _shares_of_strata([5], 10) == [5]


@pytest.mark.parametrize("held", [1, 3_000, 10**9])
def test_texts_are_the_same_however_many_are_read_at_once(
    result: Result, saved: Path, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "TEXTS", 1_000)
    monkeypatch.setattr(dashboard, "HELD", held)
    assert result.folder is not None
    [shown] = _examples_of_results(_PageResult.of_results([result], [result.folder], ["saved"]), 2_000, True)
    files = dict(shown.texts_by_file())
    assert list(files) == list(range(len(shown.sizes)))
    assert len(files) > 3
    traces = pl.read_parquet(saved / "traces.parquet").drop_nulls("text")
    told = {
        (shown.ids[example], name, sample, text)
        for texts in files.values()
        for example, one in texts.items()
        for name, samples in one["traces"].items()
        for sample, text in samples.items()
    }
    assert told == {*traces.select("example_id", "slice", "sample", "text").iter_rows()}
    assert [file for file, texts in files.items() for _ in texts] == list(shown.files)


def test_a_mean_over_all_orders_has_the_shares_of_its_answers(log: Path, tmp_path: Path) -> None:
    vote = replay.Sample(name="vote", pool="n8", max_traces=3, select="majority", expected=True)
    replay.run(log, [vote], resamples=10).save(tmp_path / "result")
    one = replay.load(tmp_path / "result")
    one.dashboard(tmp_path / "page.html", texts=False)
    _, [examples] = held(tmp_path / "page.html")
    outcomes = one.outcomes_of("vote").collect()
    for row, code in zip(outcomes.iter_rows(named=True), examples["outcomes"]["answer"], strict=True):
        shares = row["answers"] or []
        named = ", ".join(f"{each['answer']} in {100 * each['share']:.0f} %" for each in shares[:3])
        assert examples["words"][code] == (row["answer"] if not shares else named + ", …" * (len(shares) > 3))
    assert any(" in " in word for word in examples["words"])


def test_baselines_are_spread_over_the_ranking() -> None:
    def row(size: int, chosen: bool = False) -> Any:
        return SimpleNamespace(policy=SimpleNamespace(sweep_size=size), chosen=chosen)

    rows = [row(500, chosen=number == 7) for number in range(500)]
    assert _baseline_places(rows, [0], range(500), 6) == [0, 7, 1, 168, 333, 499]
    plain = [row(1) for _ in range(100)]
    assert _baseline_places(plain, [3], range(100), 4) == [3, 0, 50, 99]
    assert sorted(_baseline_places(plain, [], range(10), 24)) == [*range(10)]


def test_notes_are_said_in_one_way_and_columns_start_with_the_best(page_file: Path) -> None:
    [told], _ = held(page_file)
    said = [told["takeaway"], told["basis"], *told["notes"], *told["warnings"], *(why for *_, why in told["leftOut"])]
    assert not any("`" in one for one in said)
    assert f"verified: {metric_column('verifications').remark.replace('`', '')}." in said
    most_first = {one["key"] for one in told["table"]["columns"] if one["down"]}
    assert {"accuracy", "difference", "fix_rate"} <= most_first
    assert not {"place", "total_tokens", "calls", "latency_s", "flip_rate", "policy", "remark"} & most_first


@pytest.mark.parametrize("texts", seeds(1, [True, False]))
def test_the_policy_names_what_may_run_and_nothing_else(result: Result, tmp_path: Path, texts: bool) -> None:
    text = result.dashboard(tmp_path / "page.html", texts=texts)[0].read_text(encoding="utf-8")
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)

    def hashed(part: str) -> str:
        return f"'sha256-{b64encode(sha256(part.encode('utf-8')).digest()).decode('ascii')}'"

    allowed = " ".join(map(hashed, scripts)) + (" 'self'" if texts else "")
    assert len(scripts) == 3
    assert html.unescape(policy) == (
        f"default-src 'none'; script-src {allowed}; style-src {hashed(style)}; img-src 'none'; connect-src 'none'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_without_texts_the_page_is_alone(result: Result, tmp_path: Path) -> None:
    assert result.dashboard(tmp_path / "page.html", texts=False) == [tmp_path / "page.html"]
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_result_that_was_not_loaded(log: Path, tmp_path: Path) -> None:
    found = replay.run(log, baseline="majority@8", resamples=100)
    [path] = found.dashboard(tmp_path / "page.html")
    [told], [examples] = held(path)
    assert told["curves"] is None
    assert examples["paths"] is None


def test_numbers_are_those_of_the_summary(result: Result, saved: Path) -> None:
    assert result.folder is not None
    told = result_data(result, result.folder, "x")
    names = [one["name"] for one in told["policies"]]
    rows = pl.read_parquet(saved / "summary.parquet").drop_nulls("estimate")
    by = {(policy, metric): rest for policy, metric, *rest in rows.iter_rows()}
    seconds = result.seconds.drop_nulls("p50")
    by |= {(row["policy"], f"p{q}_s"): [row[f"p{q}"]] for row in seconds.iter_rows(named=True) for q in (50, 95, 99)}
    assert {
        (name, one["metric"])
        for one in told["metrics"]
        for name in names
        if one["estimate"][names.index(name)] is not None
    } == {(name, metric) for name, metric in by if metric in {one["metric"] for one in told["metrics"]}}
    assert {one["metric"] for one in told["metrics"]} >= {"accuracy", "total_tokens", "calls"}
    for one in told["metrics"]:
        for number, name in enumerate(names):
            if one["estimate"][number] is not None:
                assert one["estimate"][number] == pytest.approx(by[name, one["metric"]][0], rel=1e-6)


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--out", "page.txt"], ("invalid", "`.html`", "`page.txt`")),
        (["--out", "there.html"], ("exists", "`there.html`")),
        (["--out", "new.html", "--examples", "0"], ("invalid", "`--examples`", "0", "1")),
    ],
)
def test_mistakes_are_one_line(
    saved: Path, words: list[str], refusal: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.html").touch()
    done = CliRunner().invoke(app, ["dashboard", str(saved), *words])
    assert done.exit_code == 2
    says(done, *refusal)
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there.html"]


def test_a_missing_extra_is_named(result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "vl_convert":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with refuses("package", "'thinkback[dashboard]'"):
        result.dashboard(tmp_path / "page.html")


def test_the_command_writes_and_replaces(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["dashboard", str(saved), str(saved), "--out", "two.html"]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (0, "two.html, two_texts\n")
    results, examples = held(Path("two.html"))
    assert [one["name"] for one in results] == ["saved (1)", "saved (2)"]
    assert len(examples) == 2
    assert CliRunner().invoke(app, [*words, "--force"]).exit_code == 0


def test_data_ends_no_script_and_hides_nothing() -> None:
    text = "</script><!-- \u202e \u2028 \ud800"
    assert script_json(text) == '"\\u003c/script>\\u003c!-- \\u202e \\u2028 \\ud800"'
    assert json.loads(zlib.decompress(b64decode(compressed_json({"a": text})))) == {"a": text}
    assert "</script" not in _page_scripts()


def test_parts_of_the_headroom_are_told_apart_in_grey() -> None:
    def light(colour: str) -> float:
        parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        weighed = ((one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4) for one in parts)
        return sum(part * weight for part, weight in zip(weighed, (0.2126, 0.7152, 0.0722), strict=True)) + 0.05

    steps = [light(colour) for colour in PART_COLOURS]
    assert all(high / low > 1.3 for low, high in itertools.pairwise(steps))
    assert min(steps) / light(INK) > 4.5


def test_every_chart_names_its_data_and_asks_for_nothing() -> None:
    for name, spec in charts().items():
        text = json.dumps({key: value for key, value in spec.items() if key != "$schema"})
        assert "http" not in text, name
        assert all("name" in (layer.get("data") or spec["data"]) for layer in spec["layer"]), name


def test_thresholds_of_a_gate_are_spread_and_have_those_of_policies() -> None:
    """Of 1,001 thresholds 200 are on the page, and the policy's, 0.4567 at place 457."""
    thresholds = sorted({*(number / 1000 for number in range(1000)), 0.4567})
    rows = pl.DataFrame({"policy": "gate", "threshold": thresholds, "accuracy": thresholds, "n": 9, "judged": 9})
    member = SimpleNamespace(name="gate[0.4567]", label=None, swept=(("below", 0.4567),))
    sweep = _all_thresholds("gate", [member], rows, {"gate[0.4567]": 3})
    assert 200 <= len(sweep["policy"]) <= 201
    assert sweep["policy"].count(3) == 1
    at = sweep["policy"].index(3)
    assert sweep["keys"][0]["values"][at] == "0.4567"
    assert [sweep["means"]["accuracy"][place] for place in (0, at, -1)] == [0, 0.4567, 0.999]
    assert len(sweep["at"]) == len(sweep["policy"])


def test_outcomes_that_have_no_room_are_left_out_and_the_page_says_so(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "CODED", 100)
    result.dashboard(tmp_path / "page.html", texts=False)
    [told], _ = held(tmp_path / "page.html")
    assert NO_ROOM in told["notes"]
    assert 'id="outcomes-0"></script>' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_small_is_refused(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "LARGEST", 1_000)
    with refuses("limit", " bytes "):
        result.dashboard(tmp_path / "page.html", texts=False)
    assert [*tmp_path.iterdir()] == []
