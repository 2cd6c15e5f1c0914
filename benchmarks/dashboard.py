"""The dashboard of 5,000 examples × 15 traces × 20 policies: how soon its first table is there, and its size.

Compared with a page that parses the same bytes of JSON and draws one altair chart, in the same browser, from disk. The
table must have a row for each sweep and each other policy, and every chart must be drawn in the end.

    python benchmarks/dashboard.py [--examples 5000] [--repeat 7] [--result RESULT]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import altair

import replay
from generate.simulation.grid import simulate
from toolkit.show.dashboard.page import vega_script

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.browser import FLAGS, chromium_program

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TRACES, MOST = 15, 2.0
POLICIES = """
[[policy]]
name = "first"
kind = "sample"
pool = "n15"
max_traces = 1
select = "first"

[[policy]]
name = "majority"
kind = "sample"
pool = "n15"
max_traces = [3, 5, 7, 9, 11, 13, 15]
select = "majority"

[[policy]]
name = "margin"
kind = "sample"
pool = "n15"
max_traces = [5, 10, 15]
verifier = "strong"
stop = { rule = "margin", margin = [0.1, 0.2, 0.3, 0.4] }
"""
PLAIN = """<!doctype html><meta charset="utf-8"><div id="chart"></div>
<script type="application/json" id="data">{data}</script>
<script>{vega}</script>
<script>
const held = JSON.parse(document.getElementById("data").textContent);
vegaEmbed("#chart", {spec}, {{ast: true, renderer: "svg", actions: false}}).then(() => {{
  if (held.length) performance.mark("done");
}});
</script>
"""


def saved_result(folder: Path, examples: int) -> Path:
    """A saved result of a simulated log, with the part by trace; such a log has no texts."""
    simulate(folder / "log", examples=examples, traces=TRACES, labels=4, seed=1)
    found = replay.run(folder / "log", POLICIES, baseline="first", resamples=2_000)
    assert len(found.policies) == 20
    found.save(folder / "kept", traces=True)
    return folder / "kept"


def plain_page(path: Path, size: int) -> None:
    """A page of as many bytes of JSON, beside Vega, and one chart."""
    row = '{"policy":"majority","example":12345,"answer":"B","correct":1,"tokens":210.5},'
    data = "[" + (row * (size // len(row) + 1))[: (size // len(row)) * len(row) - 1] + "]"
    points = [{"cost": number, "accuracy": number % 7} for number in range(20)]
    chart = altair.Chart(altair.Data(values=points)).mark_point().encode(x="cost:Q", y="accuracy:Q")
    text = PLAIN.format(data=data, vega=vega_script(), spec=chart.to_json(indent=None))
    path.write_text(text, encoding="utf-8")


def seconds(browser: Browser, path: Path, done: str) -> float:
    """From opening a page to its mark `done`, in the browser's own clock."""
    page = browser.new_page()
    page.goto(path.as_uri(), wait_until="commit")
    found = None
    while found is None:
        time.sleep(0.02)
        found = page.evaluate("(name) => performance.getEntriesByName(name)[0]?.startTime ?? null", done)
    page.close()
    return float(found) / 1000


def main() -> None:
    """Make both pages, open them in turn, and compare."""
    from playwright.sync_api import sync_playwright

    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--examples", type=int, default=5_000)
    asked.add_argument("--repeat", type=int, default=7)
    asked.add_argument("--result", type=Path, help="a saved result in place of the simulated one")
    given = asked.parse_args()
    program = chromium_program()
    assert program is not None, "there is no Chromium"
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playing:
        folder = Path(place)
        kept = given.result or saved_result(folder, given.examples)
        began = time.perf_counter()
        found = replay.load(kept)
        found.dashboard(folder / "page.html")
        written = time.perf_counter() - began
        size = (folder / "page.html").stat().st_size
        plain_page(folder / "plain.html", size - len(vega_script()))
        browser = playing.chromium.launch(executable_path=program, args=list(FLAGS))
        check(browser, folder / "page.html", len({policy.sweep or policy.name for policy in found.policies}))
        table, charts, plain = [], [], []
        for _ in range(given.repeat):
            table.append(seconds(browser, folder / "page.html", "table"))
            charts.append(seconds(browser, folder / "page.html", "charts"))
            plain.append(seconds(browser, folder / "plain.html", "done"))
        browser.close()
    first, whole, bare = map(min, (table, charts, plain))
    print(
        f"{len(found.examples):,} examples × {TRACES} traces × {len(found.policies)} policies: page of {size:,} bytes"
    )
    print(f"written in {written:.1f} s; the least of {given.repeat}, which other work delays least:")
    print(f"first table   {first:.2f} s")
    print(f"every chart   {whole:.2f} s")
    print(f"plain page    {bare:.2f} s (the same bytes of JSON and one chart)")
    print(f"ratio         {first / bare:.2f}, at most {MOST:g} is promised")
    assert first <= MOST * bare


def check(browser: Browser, path: Path, rows: int) -> None:
    """The page has so many rows, since sweeps are closed, and all of its charts in the end."""
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready=all]", state="attached")
    assert page.locator("#table-body tr").count() == rows
    page.wait_for_selector("#forest svg")
    page.close()


if __name__ == "__main__":
    main()
