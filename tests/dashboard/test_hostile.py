"""Texts that would be markup, scripts, or would hide, appear as text; odd results give a sensible page."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import numpy as np
import polars as pl
import pytest

import replay
from generate.simulation.grid import simulate
from replay import Result
from tests.dashboard.conftest import POLICIES, Open, altered
from tests.dashboard.test_marks import violations
from tests.dashboard.test_page import held

HOSTILE = (
    "İİİİİİ needle "
    "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'> ]]> --> <!-- & &amp; \u202eexe.gpj"
    "\u200b\x00\x1b[31mred\x1b[0m \u2028 ${1+1} {{x}} \U000e0041 `x` 'y' \"z\" \\u0041"
)
SPELLED = ("\\u202eexe.gpj", "\\x00", "\\x1b[31mred", "\\u200b", "\\u2028", "<img src=x onerror='window.hurt = 1'>")
FILES = tuple(f"{name}.parquet" for name in ("examples", "outcomes", "traces", "scores", "orders", "stops"))
NAME = "</script><img src=x onerror='window.hurt = 1'>, a,b=c&d#e \u202ex"


def test_hostile_texts_appear_as_text(browse: Open, log: Path, tmp_path: Path) -> None:
    name = NAME.replace("\u202e", "\\u202e")
    policies = f'[[policy]]\nname = "{name}"\nkind = "sample"\npool = "n8"\nmax_traces = 2\nselect = "majority"\n'
    policies += '[[policy]]\nname = "plain"\nkind = "sample"\npool = "n8"\nmax_traces = 1\nselect = "first"\n'
    for taken in ("constructor", "__proto__"):
        policies += f'[[policy]]\nname = "{taken}"\nkind = "sample"\npool = "n8"\nmax_traces = 4\nselect = "majority"\n'
    policies += '[[policy]]\nname = "toString"\nkind = "oracle"\nrule = "any"\nof = ["n8"]\n'
    folder = tmp_path / "saved"
    found = replay.run(log, policies, baseline="plain", resamples=100)
    found.save(folder, traces=True, texts=True, headroom=True)
    with altered(folder, *FILES) as frames:
        first = frames[0]["example_id"][0]
        said = pl.when(pl.col("example_id") == first).then(pl.lit(HOSTILE)).otherwise(pl.col("example_id"))
        frames[:] = [frame.with_columns(example_id=said) for frame in frames]
        frames[0] = frames[0].with_columns(question=pl.lit(HOSTILE), gold=pl.lit(HOSTILE))
        for place in (1, 2):
            frames[place] = frames[place].with_columns(answer=pl.lit(HOSTILE))
        long = (
            pl.when(pl.col("sample") == 1).then(pl.lit("a b <b>" * 750_000 + "<i>the end")).otherwise(pl.lit(HOSTILE))
        )
        frames[2] = frames[2].with_columns(
            text=pl.when(pl.col("example_id") == HOSTILE).then(long).otherwise(pl.lit("small"))
        )
        frames[1] = frames[1].with_columns(answer=pl.when(policy="plain").then(pl.lit("toString")).otherwise("answer"))
    path, _ = replay.load(folder).dashboard(tmp_path / "hostile.html")
    assert path.stat().st_size < 2_000_000
    page = browse(path)
    assert NAME.replace("\u202e", "\\u202e") in page.text("#table-body")
    page.page.get_by_label(f"pick {NAME}".replace("\u202e", "\\u202e"), exact=True).check()
    page.page.click("#next")
    page.page.wait_for_selector("#texts pre")
    page.settled()
    for chart, drawn in (("changes", 6), ("headroom", 20), ("captured", 10)):
        marks = "#{0} svg .mark-rect path, #{0} svg .mark-symbol.role-mark path, #{0} svg .mark-rule.role-mark line"
        assert page.page.locator(marks.format(chart)).count() >= drawn, chart
    for width in (390, 1200):
        page.resized(width)
        assert len({tuple(one) for one in page.steps_in_line().values()}) == 1
        outer = page.js("[...document.querySelectorAll('#block-0-stops svg, #block-0-stops .mark-text.role-mark text')]"
                        ".map((one) => one.getBoundingClientRect().right)")  # fmt: skip
        assert max(outer) == outer[0]
    texts = page.text("#texts")
    assert all(part in texts for part in SPELLED)
    assert "\u202e" not in page.js("document.body.innerText")
    title = page.text("#example-title")
    assert "</script><script>window.hurt = 1</script>" in title
    page.page.get_by_role("button", name="show more of 5,250,010 characters").first.click()
    shown = "Math.max(...[...document.querySelectorAll('pre')].map((one) => one.textContent.length))"
    assert page.js(shown) == 120_000
    page.page.fill("#within", "<I>THE END")
    assert page.text("#within-count") == "1 place"
    assert page.text("#texts mark") == "<i>the end"
    page.page.fill("#within", "NEEDLE")
    assert {*page.page.locator("#texts mark").all_text_contents()} == {"needle"}
    page.page.fill("#within", "")
    assert page.js("document.querySelectorAll('img, script[src*=x], #texts b').length") == 0
    page.page.locator("#plane svg .mark-symbol.role-mark path").first.hover(force=True)
    assert page.js("window.hurt") is None
    again = browse(path, page.js("location.hash"))
    assert again.text("#example-title") == title
    assert again.js("picked().map((one) => policy(one).name)")[0] == NAME


def test_one_policy(browse: Open, log: Path, tmp_path: Path) -> None:
    policies = '[[policy]]\nname = "alone"\nkind = "sample"\npool = "n8"\nmax_traces = 1\nselect = "first"\n'
    [path] = replay.run(log, policies, resamples=100).dashboard(tmp_path / "alone.html")
    page = browse(path)
    assert len(page.rows()) == 1
    assert page.text("#takeaway") == "No two policies can be ranked here."
    assert page.text("#forest") == page.text("#changes") == "There are no two policies to compare."
    assert page.page.locator("#plane svg").count() == 1
    parts = page.js("[...document.querySelectorAll('.parts a:not([hidden])')].map((one) => one.hash)")
    assert "#headroom-section" not in parts
    assert page.page.locator(", ".join(parts)).count() == page.page.locator("main section:visible").count()
    assert "saved without traces" in page.text("#example-notes")
    page.page.click("#next")
    assert "No traces are in this result." in page.text("#example")


def test_no_example_and_nothing_that_ranks(browse: Open, result: Result, log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    replay.run(log, POLICIES, baseline="first", resamples=100).save(folder, traces=True)
    with altered(folder, *FILES, "summary.parquet") as frames:
        frames[:-1] = [frame.head(0) for frame in frames[:-1]]
        frames[-1] = frames[-1].with_columns(pl.lit(None, pl.Float64).alias(one) for one in ("estimate", "low", "high"))
    [path] = replay.load(folder).dashboard(tmp_path / "empty.html")
    page = browse(path)
    page.each_setting()
    assert len(page.rows()) == len(result.policies)
    assert "There is no picture" in page.text("#plane")
    assert "0 examples" in page.text("#example-count") or "no examples" in page.text("#example-notes")


FIRST_TABLE = """async (text) => {
  const median = (times) => times.sort((one, other) => one - other)[2];
  const timed = async (work) => { const times = []; for (let k = 0; k < 5; k += 1) {
    const begin = performance.now(); await work(); document.body.offsetHeight; times.push(performance.now() - begin); }
    return median(times); };
  const parse = await timed(() => JSON.parse(text));
  const table = await timed(() => { drawHead(); drawControls(); drawTable(); });
  const chart = await timed(() => { absent("plane", ""); drawPlane(); return drawn.get("plane").turn; });
  return [parse, table, chart];
}"""
"""Milliseconds of parsing the page's JSON, of drawing its first table, and of drawing one chart."""


@pytest.mark.slow
def test_a_thousand_policies(browse: Open, tmp_path: Path) -> None:
    """Less than 2 MB; the first table takes at most twice what parsing and one chart take; one row a sweep."""
    simulate(tmp_path / "log", examples=500, traces=8, labels=5, seed=3, name="sweep")
    steps = ", ".join(f"{number / 250:g}" for number in range(250))
    policies = '[[policy]]\nname = "first"\nkind = "sample"\npool = "n8"\nmax_traces = 1\nselect = "first"\n'
    for name, most in (("early", "[4, 6]"), ("late", "[7, 8]")):
        policies += (
            f'[[policy]]\nname = "{name}"\nkind = "sample"\npool = "n8"\nmax_traces = {most}\n'
            f'verifier = "strong"\nstop = {{ rule = "margin", margin = [{steps}] }}\n'
        )
    [path] = replay.run(tmp_path / "log", policies, baseline="first", resamples=100).dashboard(tmp_path / "many.html")
    assert path.stat().st_size < 2_000_000
    page = browse(path)
    assert len(page.rows()) == 3
    assert page.page.locator("#table .curve").count() == 2
    assert page.page.locator("#baseline option").count() == 1_001
    assert page.page.locator("#forest svg").count() == 1
    assert "the best and the worst of each sweep" in page.text("#forest-said")
    assert int(page.page.locator("[data-sweep=early] input").last.get_attribute("max") or 0) == 249
    [first] = re.findall(r'id="results-data">(.*?)</script>', path.read_text(encoding="utf-8"))
    parse, table, chart = page.page.evaluate(FIRST_TABLE, first)
    assert parse + table <= 2 * (parse + chart)
    page.page.select_option("#baseline", index=700)
    page.settled()
    assert "t intervals" in page.text("#forest-said")
    page.page.locator("#settings").check()
    assert len(page.rows()) == 1_001
    again = browse(path, f"#policies={quote('early[max_traces=4, stop.margin=0.004]', safe='')}")
    assert again.js("state.picked.length") == 1


@pytest.mark.slow
def test_a_page_of_a_hundred_thousand_examples_is_small(browse: Open, tmp_path: Path) -> None:
    """Half of the examples have no trace and are left out."""
    size = 100_000
    ids = [f"question-{number:06d}" for number in range(size)]
    drawn = np.random.default_rng(0)
    examples = pl.DataFrame({"example_id": ids, "dataset": "d", "split": "test", "question": ids, "gold": "1"})
    right = drawn.random(size) < 0.7
    traces = pl.DataFrame(
        {"trace_id": ids, "example_id": ids, "pool": "one", "action": "solve", "sample_index": 0, "model": "m",
         "answer": np.where(right, "1", "0"), "correct": right}
    )[: size // 2]  # fmt: skip
    policies = [replay.Sample(name="first", pool="one", max_traces=1, select="first")]
    replay.run({"examples": examples, "traces": traces}, policies, resamples=10).save(tmp_path / "result")
    path, *_ = replay.load(tmp_path / "result").dashboard(tmp_path / "page.html", texts=False)
    assert path.stat().st_size < 2_000_000
    [told], _ = held(path)
    assert len(told["leftOut"]) == 500
    assert told["leftOutBy"]["all"] == size // 2
    assert sum(count for _, count in told["leftOutBy"]["most"]) == size // 2
    page = browse(path)
    assert "50,000" in page.text("#left-out-said")
    assert "2,000 of 50,000" in page.text("#example-notes")
    page.page.click("#next")
    page.page.wait_for_selector("#example-outcomes")
    assert violations(page) == []
