"""The page in a real browser: what it shows is what the result says, and it asks for nothing but its own files."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest
from scipy.special import stdtrit

import replay
from generate.simulation.checks import simulate_checks
from generate.simulation.rounds import simulate_rounds
from replay import Result
from tests.dashboard.conftest import Open, Opened, altered
from tests.seeds import seeds
from toolkit.columns import metric_column
from toolkit.rounding import rounded_text
from toolkit.show.tables.table_content import IntervalCell, NumberWithInterval
from toolkit.stats.limits.discordant import FEW_PAIRS, tango_limits


def estimates(saved: Path) -> dict[tuple[str, str], tuple[float, float | None, float | None]]:
    rows = pl.read_parquet(saved / "summary.parquet").drop_nulls("estimate")
    return {(policy, metric): (value, low, high) for policy, metric, value, low, high, *_ in rows.iter_rows()}


def test_the_table_is_the_ranked_table(browse: Open, page_file: Path, result: Result) -> None:
    page = browse(page_file)
    page.each_setting()
    table = result.table()
    names = page.js("current().policies.map((one) => one.called)")
    assert [row[2].split("\n")[0] for row in page.rows()] == names
    assert len({*names}) == len(names)
    assert [" ".join(row[3].split()) for row in page.rows()] == [row[2] for row in table.texts()]
    heads = page.js("[...document.querySelectorAll('#table-head th')].map((one) => one.innerText)")
    assert {"policy", "accuracy %", "tokens", "Δ points", "leader"} <= {*heads}
    assert "calls" not in heads
    assert page.policies() == [row[1] for row in table.rows]
    assert "the best accuracy" in page.text("#takeaway")
    assert "48 examples" in page.text("#basis")
    assert "Simulated log" in page.text("#warnings")


def test_it_sorts_filters_and_hides_columns(browse: Open, page_file: Path, saved: Path) -> None:
    page = browse(page_file)
    page.each_setting()
    told = estimates(saved)
    for heading, metric, first in (("accuracy %", "accuracy", True), ("tokens", "total_tokens", False)):
        for down in (first, not first):
            page.page.get_by_role("button", name=heading).first.click()
            values = [told[name, metric][0] for name in page.policies()]
            assert values == sorted(values, reverse=down)
            assert page.js("document.querySelectorAll('[aria-sort=descending], [aria-sort=ascending]').length") == 1
    page.page.click("#sort-place")
    assert page.rows()[0][1] == "1"
    page.page.fill("#find", "MARGIN")
    assert {name.partition("[")[0] for name in page.policies()} == {"margin"}
    assert page.text("#table-count").startswith("6 policies of ")
    page.page.fill("#find", "")
    page.page.select_option("#only", label="without those that see gold")
    assert "any of 8" not in page.policies()
    page.page.get_by_text("columns", exact=True).click()
    page.page.get_by_role("checkbox", name="calls").check()
    before = page.js("document.querySelectorAll('#table-head th').length")
    page.page.get_by_role("checkbox", name="calls").uncheck()
    assert page.js("document.querySelectorAll('#table-head th').length") == before - 1
    assert all(
        "calls" not in head
        for head in page.js("[...document.querySelectorAll('#table-head th')].map(x => x.innerText)")
    )


def shown(result: Result, saved: Path, policy: str, metric: str) -> str:
    column = metric_column(metric, result.columns)
    return NumberWithInterval.of(column).show(IntervalCell(*estimates(saved)[policy, metric]))


@pytest.mark.parametrize("width", seeds(1, [390, 800, 1400]))
def test_the_table_has_what_a_reader_comes_for_at_every_width(browse: Open, page_file: Path, width: int) -> None:
    """Policy, accuracy, difference, cost and verdict stand within the window; no bracket is broken."""
    page = browse(page_file, viewport={"width": width, "height": 900})
    right = page.js("document.querySelector('#ranking .wide').getBoundingClientRect().right")
    for key in ("policy", "accuracy", "total_tokens", "difference", "leader"):
        ends = page.js(
            f"[...document.querySelectorAll('#table .of-{key}')].map((x) => x.getBoundingClientRect().right)"
        )
        assert 0 < max(ends) <= right + 0.5, key
    lines = "[...document.querySelectorAll('#table .whole')].map((one) => one.getClientRects().length)"
    assert {*page.js(lines)} == {1}


def test_numbers_of_the_page_round_as_those_of_tables(browse: Open, page_file: Path) -> None:
    page = browse(page_file)
    form = "{ scale: 100, decimals: 1, significant: 0 }"
    texts = page.js(f"Array.from({{ length: 2001 }}, (_, count) => shown({form}, count / 2000))")
    assert texts == [rounded_text(count / 20, 1) for count in range(2_001)]


@pytest.mark.parametrize("sweep", ["majority", "margin"])
def test_sliders_move_numbers_and_marks_together(
    browse: Open, page_file: Path, saved: Path, result: Result, sweep: str
) -> None:
    page = browse(page_file)
    card = page.page.locator(f"[data-sweep={sweep}]")
    seen = set()
    sliders = card.locator("input[type=range]")
    for number in range(sliders.count()):
        slider = sliders.nth(number)
        slider.focus()
        slider.press("End")
        slider.press("Home")
        for _ in range(1 + int(slider.get_attribute("max") or 0)):
            page.settled()
            policy = card.locator("p[role=status]").get_attribute("data-policy") or ""
            seen.add(policy)
            for metric in ("accuracy", "total_tokens", "calls"):
                assert shown(result, saved, policy, metric) in card.locator(f"[data-metric={metric}]").inner_text()
            [mark] = page.js("drawn.get('plane').view.data('points').filter((one) => one.kind === 'slider')")
            value, price = (estimates(saved)[policy, metric][0] for metric in ("accuracy", "total_tokens"))
            assert mark["value"] == pytest.approx(100 * value, rel=1e-6)
            assert mark["cost"] == pytest.approx(price, rel=1e-6)
            swept = dict(next(one.swept for one in result.policies if one.name == policy))
            assert slider.get_attribute("aria-valuetext") in {f"{one:g}" for one in swept.values()}
            slider.press("ArrowRight")
    places = (
        page.page.locator(f"[data-sweep={sweep}] svg .mark-text.role-axis-label")
        .first.locator("text")
        .all_text_contents()
    )
    assert {f"{one:g}" for one in swept.values()} & {*places}
    rules = card.locator("svg .mark-rule.role-mark").first.locator("line")
    assert rules.count() == card.locator("svg .mark-symbol.role-mark").first.locator("path").count() > 1
    assert page.js("[ordered(['1', '-0.5']), ordered(['trained', 'reflection'])]") == [True, False]
    known = {one.name for one in result.policies if one.sweep == sweep}
    assert seen <= known
    assert len(seen) >= len(known) - 2


def test_a_gate_moves_through_every_threshold(browse: Open, page_file: Path, saved: Path) -> None:
    page = browse(page_file)
    thresholds = pl.read_parquet(saved / "thresholds.parquet").sort("threshold")
    card = page.page.locator("[data-sweep=gated]")
    slider = card.locator("input[type=range]")
    assert int(slider.get_attribute("max") or 0) == len(thresholds) - 1
    for place in (0, len(thresholds) // 2, len(thresholds) - 1):
        slider.fill(str(place))
        page.settled()
        assert f"{100 * thresholds['accuracy'][place]:.1f}" in card.locator("[data-metric=accuracy]").inner_text()
        [here] = page.js(
            "drawn.get('sweep-' + current().sweeps.findIndex((one) => one.name === 'gated')).view.data('here')"
        )
        assert here["value"] == pytest.approx(100 * thresholds["accuracy"][place], rel=1e-6)


def test_the_plane_takes_another_cost_and_picks(browse: Open, page_file: Path, saved: Path) -> None:
    page = browse(page_file)
    page.page.select_option("#cost", label="seconds")
    page.settled()
    told = estimates(saved)
    points = page.js("drawn.get('plane').view.data('points')")
    seconds = [value[0] for (_, metric), value in told.items() if metric == "latency_s"]
    assert sorted(one["cost"] for one in points) == pytest.approx(sorted(seconds), rel=1e-6)
    front = {one["name"] for one in points if one["fill"] == 1}
    best = max(points, key=lambda one: (one["value"], -one["cost"]) if one["kind"] != "sees gold" else (-1, 0))
    assert best["name"] in front
    assert {one["fill"] for one in points if one["name"] not in front} == {0}
    mark = page.page.locator("#plane svg .mark-symbol.role-mark path").nth(2)
    mark.click(force=True)
    assert len(page.js("state.picked")) == 1
    assert "cost=latency_s" in page.js("location.hash")
    page.page.mouse.move(0, 0)
    mark.hover(force=True)
    assert "accuracy %" in page.text("#tip")
    page.settled()
    lines = "[...document.querySelectorAll('#plane svg .mark-rule.role-mark line')]"
    bars = f"{lines}.map((one) => one.getAttribute('opacity'))"
    assert page.js(bars).count("1") == 2
    [name] = page.js("state.picked.map((one) => policy(one).called)")
    assert page.text("#policy-facts").startswith(name)
    assert "accuracy %" in page.text("#policy-facts")


NEAREST = """(() => {
  const drawn = (marks, tag) => [...document.querySelectorAll(`#plane svg .mark-${marks}.role-mark ${tag}`)];
  const boxes = (marks, tag) => drawn(marks, tag).map((one) => (
    { number: one.__data__.datum.number, text: one.textContent, box: one.getBoundingClientRect() }));
  const marks = boxes("symbol", "path").map((one) => (
    { ...one, x: (one.box.left + one.box.right) / 2, y: (one.box.top + one.box.bottom) / 2 }));
  const names = boxes("text", "text");
  return names.map((name) => {
    const far = (one) => farFrom(name.box, one.x, one.y);
    const own = far(marks.find((one) => one.number === name.number));
    return [name.text, own <= Math.min(...marks.map(far)) + 0.5, own < 25,
      names.every((one) => one === name || !overlap(one.box, name.box))];
  });
})()"""
"""Of each name that is drawn: whether no mark is nearer than its own, whether that is near, and whether it is free."""


@pytest.mark.parametrize("width", seeds(1, [1200, 390]))
def test_names_stand_by_their_own_marks(browse: Open, page_file: Path, width: int) -> None:
    """Of 3 to 40 picked policies and of the front; what has no room is named below."""
    page = browse(page_file, viewport={"width": width, "height": 900})
    numbers = [n for n, real in enumerate(page.js("current().policies.map((one) => !one.diagnostic)")) if real]
    for count in (0, 3, 5, 9, 17, 40):
        step = max(len(numbers) // max(count, 1), 1)
        page.js(f"change({{ picked: {numbers[::step][:count]} }})")
        page.settled()
        names = page.js(NEAREST)
        assert names
        assert all(all(held) for _, *held in names), names
        below = page.text("#plane-key")
        assert "unmarked" not in below
        told = [text for text, *_ in names]
        assert sum(text.isdigit() for text in told) == len(re.findall(r"\b\d+: ", below))
        front = page.js("drawn.get('plane').view.data('front').map((one) => one.name)")
        ends = (
            "(whole, text) => text.split('…').every((part, at) => (at ? whole.endsWith(part) : whole.startsWith(part)))"
        )
        for name in [*front, *page.js("state.picked.map((one) => policy(one).called)")]:
            assert f": {name}" in below or any(page.js(f"({ends})({name!r}, {text!r})") for text in told), name


def test_costs_of_a_decade_have_a_log_axis(browse: Open, page_file: Path) -> None:
    page = browse(page_file)
    scale = "drawn.get('plane').view.scale('x').type"
    costs = [one["cost"] for one in page.js("drawn.get('plane').view.data('points')")]
    assert (page.js(scale) == "log") == (max(costs) >= 10 * min(costs))
    page.js("{ const form = metric(current().cost); form.estimate = form.estimate.map((one, k) => one * (k ? 1 : 40));"
            " drawPlane(); }")  # fmt: skip
    page.settled()
    assert page.js(scale) == "log"
    assert page.js("decadeTicks(80, 1200)") == [100, 200, 500, 1000]


def test_differences_to_a_baseline_of_choice(browse: Open, page_file: Path, result: Result) -> None:
    page = browse(page_file)
    pairs = result.compare().pairs
    wanted = page.js("policy(current().pairs.baselines.find((one) => policy(one).sweep === 'majority')).name")
    page.page.select_option("#baseline", label=wanted)
    page.settled()
    rows = {one["name"]: one for one in page.js("drawn.get('forest').view.data('rows')")}
    assert f"baseline={quote(wanted, safe='')}" in page.js("location.hash")
    for first, second, _, difference, low, high, _, differs, fixes, flips, *_ in pairs.iter_rows():
        if wanted not in (first, second):
            continue
        sign = 1 if second == wanted else -1
        name = page.js(f"current().policies.find((one) => one.name === {first if sign > 0 else second!r}).called")
        if name not in rows:
            continue
        assert rows[name]["difference"] == pytest.approx(100 * sign * difference, abs=1e-4)
        assert sorted([rows[name]["low"], rows[name]["high"]]) == pytest.approx(
            sorted([100 * sign * low, 100 * sign * high]), abs=1e-4
        )
        assert (rows[name]["told"] == "told apart") == differs
        assert [rows[name]["fixes"], rows[name]["flips"]] == ([fixes, flips] if sign > 0 else [flips, fixes])
    assert "all pairs" in page.text("#forest-said")
    assert page.page.locator("#changes svg, #headroom svg, #captured svg, #curves svg").count() == 4
    drawn = page.js(
        "[...document.querySelectorAll('#forest .mark-symbol.role-mark path')]"
        ".map((one) => [one.__data__.datum.told, one.getAttribute('d').split('M').length - 1])"
    )
    assert {one["told"] for one in rows.values()} == {told for told, _ in drawn} >= {"not told apart"}
    rings = {"told apart": 1, "not told apart": 2, "no limits": 1}
    assert all(rings[told] == count for told, count in drawn)
    page.js(
        "{ current().outcomes = null; current().pairs.low = current().pairs.low.map((one) => one.map(() => null)); }"
    )
    page.js("drawDifferences()")
    assert "No limits: so many policies have them to the baseline of the result alone." in page.text("#forest-said")
    headroom_is_told_in_words(page)


def test_a_sweep_is_one_row_that_opens(browse: Open, page_file: Path, result: Result) -> None:
    """The row is that of the setting that comes first, with a small curve; opened, the others stand below it."""
    page = browse(page_file)
    sweeps = {one.sweep for one in result.policies if one.sweep_size > 1}
    alone = [one for one in result.policies if one.sweep_size <= 1]
    assert len(page.rows()) == len(sweeps) + len(alone)
    assert f"{len(result.policies)} policies" in page.text("#table-count")
    ranked = [row[1] for row in result.table().rows]
    margin = [name for name in ranked if name.startswith("margin")]
    assert [name for name in page.policies() if name.startswith("margin")] == margin[:1]
    majority = page.js("current().sweeps.findIndex((one) => one.name === 'majority')")
    assert page.page.locator(f".settings:has(#open-sweep-{majority}) .curve path").get_attribute("d").count("L") == 2
    number = page.js("current().sweeps.findIndex((one) => one.name === 'margin')")
    page.page.focus(f"#open-sweep-{number}")
    page.page.keyboard.press("Enter")
    assert page.js("[document.activeElement.id, document.activeElement.ariaExpanded]") == [
        f"open-sweep-{number}",
        "true",
    ]
    at = page.policies().index(margin[0])
    assert page.policies()[at : at + len(margin)] == margin
    page.page.get_by_role("button", name="tokens").first.click()
    cheapest = min(margin, key=lambda name: estimates_of(result)[name])
    assert next(name for name in page.policies() if name.startswith("margin")) == cheapest
    page.page.keyboard.press("Escape")
    page.page.locator(f"#open-sweep-{number}").click()
    assert [name for name in page.policies() if name.startswith("margin")] == [cheapest]
    page.page.locator("#settings").check()
    assert len(page.rows()) == len(result.policies)
    assert "settings=apart" in page.js("location.hash")


def estimates_of(result: Result) -> dict[str, float]:
    rows = result.summary.filter(metric="total_tokens")
    return dict(rows.select("policy", "estimate").iter_rows())


def test_rows_of_charts_stand_for_all_policies(browse: Open, page_file: Path) -> None:
    """The front, the baseline, the best and the worst of each sweep, what is in no sweep; and the page says so."""
    page = browse(page_file)
    rows = page.js("drawn.get('forest').view.data('rows').map((one) => one.name)")
    policies = page.js("current().policies")
    wanted = {one["called"] for one in policies if one["front"] or one["leads"] or not one["sweep"]}
    for sweep in page.js("current().sweeps"):
        members = sorted(number for number in sweep["policy"] if number is not None)
        wanted |= {policies[members[0]]["called"], policies[members[-1]]["called"]}
    assert {*rows} == wanted - {"first"}
    assert "the front, the baseline, the best and the worst of each sweep, and what is in no sweep." in page.text(
        "#forest-said"
    )
    page.page.fill("#find", "margin")
    assert len(page.js("drawn.get('forest').view.data('rows')")) == 6


def test_any_policy_is_a_baseline_with_a_t_interval(browse: Open, page_file: Path, result: Result) -> None:
    """d = (1, 1, 0, −1, …) over the examples: its mean ± t × sd / √n, and how many are 1 and −1."""
    page = browse(page_file)
    names = page.js("current().policies.map((one) => one.name)")
    assert page.page.locator("#baseline option").count() == len(names)
    one, other = "majority[max_traces=8]", "margin[max_traces=4, stop.margin=0.3]"
    columns = [result.outcomes_of(name).collect()["correct"].to_numpy() for name in (one, other)]
    apart = columns[0] - columns[1]
    page.js("current().pairs.low = current().pairs.low.map((one) => one.map(() => null))")
    page.js(f"change({{ baseline: {names.index(other)}, find: 'majority' }})")
    page.settled()
    rows = {names[row["number"]]: row for row in page.js("drawn.get('forest').view.data('rows')")}
    gained, lost = (apart > 0).sum(), (apart < 0).sum()
    limits = tango_limits(gained, lost, len(apart))
    if gained + lost >= FEW_PAIRS:
        half = float(stdtrit(len(apart) - 1, 0.975)) * apart.std(ddof=1) / len(apart) ** 0.5
        limits = min(limits[0], apart.mean() - half), max(limits[1], apart.mean() + half)
    row = rows[one]
    assert row["difference"] == pytest.approx(100 * apart.mean(), abs=1e-4)
    assert [row["low"], row["high"]] == pytest.approx([100 * float(limit) for limit in limits], abs=1e-4)
    assert [row["fixes"], row["flips"]] == [gained, lost]
    assert "t intervals" in page.text("#forest-said")
    assert "1/56" in page.text("#forest-said")


def headroom_is_told_in_words(page: Opened) -> None:
    shares = [one[0] for one in page.js("current().headroom.measures.share_of_headroom")]
    rows = page.js("drawn.get('captured').view.data('rows')")
    chosen = page.js("rowsOf(passing().filter((number) => current().headroom.accuracy[number] !== null))")
    names = page.js("current().policies.map((one) => one.called)")
    assert [one["name"] for one in rows] == [names[number] for number in chosen]
    assert [one["share"] / 100 for one in rows] == pytest.approx([shares[number] for number in chosen])
    bars = page.js("drawn.get('headroom').view.data('bars')")
    assert {one["part"] for one in bars if one["label"].startswith(one["part"])} >= {"right", "selection"}
    assert [one["to"] for one in bars if one["part"] == "generation"] == pytest.approx([100] * len(rows), abs=1e-3)
    page.page.fill("#find", "no policy has this name")
    assert page.text("#headroom") == page.text("#captured") == page.text("#forest") == "No policy passes the filters."


def test_a_question_and_rows_are_laid_out_for_the_width(browse: Open, page_file: Path, saved: Path) -> None:
    names = ("margin[max_traces=8, stop.margin=0.5]", "majority[max_traces=8]", "first")
    address = "#example=sim3-000000001&policies=" + ",".join(quote(name, safe="") for name in names)
    page = browse(page_file, address, viewport={"width": 1280, "height": 900})
    page.page.wait_for_selector("#texts pre")
    page.settled()
    assert set(page.steps_in_line()) == {f"block-0-{part}" for part in ("traces", "scores-0", "spent", "stops")}
    outcomes = pl.read_parquet(saved / "outcomes.parquet").filter(example_id="sim3-000000001")
    told = {name: (tokens, answer) for name, tokens, answer in
            outcomes.select("policy", "total_tokens", "answer").iter_rows()}  # fmt: skip
    stops = page.js("drawn.get('block-0-stops').view.data('stops')")
    spent = {
        (one["series"], one["step"]): one["spent"] for one in page.js("drawn.get('block-0-spent').view.data('spent')")
    }
    traces = {one["step"]: one for one in page.js("drawn.get('block-0-traces').view.data('traces')")}
    assert {one["name"] for one in stops} == set(page.js("picked().map((one) => policy(one).called)"))
    for one in stops:
        name = page.js(f"policy({one['number']}).name")
        series = "with strong" if name.startswith("margin") else "traces"
        assert spent[series, one["generated"]] == pytest.approx(told[name][0])
        assert traces[one["chosen"]]["answer"] == told[name][1]
    for width in (1280, 390):
        page.resized(width)
        assert len({tuple(one) for one in page.steps_in_line().values()}) == 1
    page.js("change({ picked: [] })")
    page.settled()
    for chart in ("forest", "changes", "headroom", "captured"):
        labels = page.page.locator(f"#{chart} svg .mark-text.role-axis-label").last.locator("text").all_text_contents()
        assert len(set(labels)) == len(labels) > 6, chart
    edges = (
        "(which, side) => [...[...document.querySelectorAll(`#changes .mark-text.${which}`)].pop().children]"
        ".map((one) => one.getBoundingClientRect()[side])"
    )
    assert min(page.js(f"({edges})('role-mark', 'left')")) >= max(page.js(f"({edges})('role-axis-label', 'right')"))


def test_a_picture_has_what_the_picked_policies_paid_and_plays(browse: Open, page_file: Path, saved: Path) -> None:
    """Of `first` one trace without a score; of the rest on request. Played, each policy stops where it stopped."""
    address = f"#example=sim3-000000001&policies=first,{quote('majority[max_traces=4]', safe='')}"
    page = browse(page_file, address)
    page.page.wait_for_selector("#texts pre")
    traces = pl.read_parquet(saved / "traces.parquet").filter(example_id="sim3-000000001", slice="n8").sort("sample")
    heads = page.page.locator("#texts .text[data-step] summary").all_text_contents()
    assert len(heads) == 4
    for place, (head, row) in enumerate(zip(heads, traces.iter_rows(named=True), strict=False), 1):
        assert head.startswith(f"n8, trace {place}: {'✓ right' if row['correct'] else '✗ wrong'}, {row['answer']}; ")
        tokens, seconds = int(row["prompt_tokens"] + row["completion_tokens"]), float(f"{row['latency_s']:.3g}")
        assert head.endswith(f"; {tokens:,} tokens; {seconds:g} s")
    assert page.page.locator("#block-0-scores-0").count() == 0
    page.page.focus("#others")
    page.page.keyboard.press("Space")
    page.page.wait_for_selector("#block-0-scores-0 svg")
    page.page.locator("#texts .text[data-step]").nth(7).wait_for()
    page.settled()
    assert page.js("[document.activeElement.id, drawn.get('block-0-traces').view.data('traces')"
                   ".map((one) => one.opacity)]") == ["others", [1] * 4 + [0.3] * 4]  # fmt: skip
    page.page.keyboard.press("Space")
    page.page.locator("#texts .text[data-step]").nth(4).wait_for(state="detached")
    page.page.locator("#texts .text[data-step]").nth(3).wait_for()
    page.settled()
    ends = "drawn.get('block-0-stops').view.data('stops').map((one) => [one.name, one.steps])"
    marks = (
        "[...document.querySelectorAll('#block-0-{} .mark-symbol.role-mark path')]"
        ".filter((one) => one.getAttribute('opacity') !== '0').length"
    )
    page.page.focus("#play-bar")
    page.page.keyboard.press("Home")
    for step in range(1, 5):
        page.page.keyboard.press("ArrowRight")
        page.settled()
        assert page.js(marks.format("traces")) == step
        assert page.page.locator("#texts .text[data-step]:visible").count() == step
        stopped = [name for name, steps in page.js(ends) if steps == step]
        assert all(f"{name}: " in page.text("#play-said") for name in stopped)
        assert ("here stops" in page.text("#play-said")) is bool(stopped)
    page.js("play.pause = 1")
    page.page.focus("#play")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#play:text('play')")
    page.js("new Promise((done) => { const look = () => (play.on ? setTimeout(look, 20) : done()); look(); })")
    assert page.js("play.now === ALL")
    page.settled()
    assert page.js(marks.format("traces")) == 4


def test_blocks_of_a_question_have_one_scale_of_steps(browse: Open, page_file: Path) -> None:
    """Step k of the one trace of `probe` is as far from the left as that of the eight of `n8`."""
    name = next(one for one in browse(page_file).policies() if one.startswith("gated"))
    page = browse(
        page_file, f"#example=sim3-000000001&policies={quote(name, safe='')},{quote('majority[max_traces=8]')}"
    )
    scales = "[...drawn].filter(([id]) => id.endsWith('-traces')).map(([, held]) => held.view.scale('x').domain())"
    domains = page.js(scales)
    assert len(domains) == 2
    assert domains == [[0.5, 8.5]] * 2


def test_the_example_browser_walks(browse: Open, page_file: Path, saved: Path, result: Result) -> None:
    first, second = "majority[max_traces=8]", "first"
    address = f"#policies={quote(first, safe='')},{second}"
    page = browse(page_file, address)
    told = result.compare(first, second).examples
    assert told is not None
    for label, change in (("fixes: the first does better", "fix"), ("flips: the second does better", "flip")):
        page.page.select_option("#show", label=label)
        ids = set(told.filter(change=change)["example_id"])
        assert page.text("#example-count").startswith(f"{len(ids)} example")
        assert set(page.js("examplesOf(0).then((data) => matching(data).map((one) => data.ids[one]))")) == ids
    page.page.select_option("#show", label="disagreements: their answers differ")
    differing = told.filter(pl.col("answer_first").ne_missing(pl.col("answer_second")))
    assert page.text("#example-count").startswith(f"{len(differing)} example")
    page.page.select_option("#group", label="split: dev")
    dev = set(result.examples.filter(split="dev")["example_id"])
    assert page.text("#example-count").startswith(f"{len(dev & set(differing['example_id']))} example")
    page.page.select_option("#group", label="all")
    page.page.select_option("#second", label="more than there are")
    page.page.select_option("#show", label="exhausted: the log ran out for one of them")
    out = pl.read_parquet(saved / "outcomes.parquet").filter(policy="more than there are", ending="exhausted")
    assert len(out) > 0
    assert page.text("#example-count").startswith(f"{len(out)} example")
    page.page.select_option("#second", label=second)
    page.page.select_option("#show", label="all examples")
    for _ in range(4):  # one after the other, each has its picture
        page.page.click("#next")
        page.page.wait_for_selector("#texts pre")
        page.settled()
        assert page.page.locator("#block-0-traces svg, #block-0-stops svg").count() == 2
    picture_is_what_was_saved(page, saved, (first, second))
    page.page.select_option("#show", label="all examples")
    last = result.examples["example_id"][-1]
    page.page.get_by_role("button", name=last, exact=True).click()
    page.page.wait_for_selector(f"#example-title:text-is('{last}')")
    again = browse(page_file, page.js("location.hash"))
    assert again.text("#example-title") == page.text("#example-title") == last
    top, row = again.js(
        "['#example', '#example-list tr.picked'].map((one) => document.querySelector(one).getBoundingClientRect().top)"
    )
    of_list = "document.querySelector('#example-list').parentElement.getBoundingClientRect()"
    ends = again.js(f"(({{ top, bottom }}) => [top, bottom])({of_list})")
    assert 0 <= top < 300
    assert ends[0] <= row < ends[1]
    assert again.text("#example-outcomes") == page.text("#example-outcomes")


def picture_is_what_was_saved(page: Opened, saved: Path, names: tuple[str, ...]) -> None:
    example = page.text("#example-title")
    mine = pl.col("example_id") == example
    stops, traces, outcomes = (
        pl.read_parquet(saved / f"{name}.parquet").filter(mine) for name in ("stops", "traces", "outcomes")
    )
    drawn = page.js("drawn.get('block-0-stops').view.data('stops')")
    steps = dict(stops.filter(pl.col("policy").is_in(names)).select("policy", "steps").iter_rows())
    assert {page.js(f"policy({one['number']}).name"): one["steps"] for one in drawn} == steps
    answers = dict(outcomes.select("policy", "answer").iter_rows())
    assert all(one["answer"] == answers[page.js(f"policy({one['number']}).name")] for one in drawn)
    points = page.js("drawn.get('block-0-traces').view.data('traces')")
    answered = traces.filter(slice="n8").select("sample", pl.col("answer").fill_null("no answer"), "correct")
    assert {(p["sample"], p["answer"], float(p["verdict"] == "right")) for p in points} <= {*answered.iter_rows()}
    spent = page.js("drawn.get('block-0-spent').view.data('spent')")
    whole = traces.filter(slice="n8").select((pl.col("prompt_tokens") + pl.col("completion_tokens")).sum()).item()
    assert spent[-1]["spent"] == pytest.approx(whole)
    assert "It says: " in page.text("#texts")
    page.page.fill("#within", "SAMPLE 7")
    assert page.text("#within-count") == "1 place"
    assert page.page.locator("#texts details.text:visible").count() == 1


def test_what_is_unjudged_is_no_fix_and_what_sees_gold_is_not_looked_at_first(
    browse: Open, log: Path, tmp_path: Path
) -> None:
    policies = "".join(
        f'[[policy]]\nname = "{name}"\nkind = "sample"\npool = "n8"\nmax_traces = {most}\nselect = "{select}"\n'
        for name, most, select in (("first", 1, "first"), ("vote", 8, "majority"))
    )
    policies += '[[policy]]\nname = "any"\nkind = "oracle"\nrule = "any"\nof = ["n8"]\n'
    replay.run(log, policies, resamples=100).save(tmp_path / "saved")
    with altered(tmp_path / "saved", "outcomes.parquet") as frames:
        some = frames[0]["example_id"].unique(maintain_order=True)[:20]
        gone = (pl.col("policy") == "first") & pl.col("example_id").is_in(some.implode())
        frames[0] = frames[0].with_columns(correct=pl.when(~gone).then("correct"))
    found = replay.load(tmp_path / "saved")
    page = browse(found.dashboard(tmp_path / "page.html")[0])
    assert {*page.js("picked().map((one) => policy(one).name)")} == {"first", "vote"}
    told = found.compare("vote", "first").examples
    assert told is not None
    page.page.select_option("#first", label="vote")
    for show, change in (("fixes: the first does better", "fix"), ("flips: the second does better", "flip")):
        page.page.select_option("#show", label=show)
        count = len(told.filter(change=change))
        assert page.text("#example-count").startswith(f"{count} example")


def test_a_missing_folder_of_texts_is_said(browse: Open, result: Result, tmp_path: Path) -> None:
    path, texts = result.dashboard(tmp_path / "alone.html")
    for file in texts.iterdir():
        file.unlink()
    page = browse(path)
    page.page.click("#next")
    page.page.wait_for_selector("#texts [role=alert]")
    assert "keep the folder alone_texts beside this page" in page.text("#texts")
    page.said[:] = [one for one in page.said if "ERR_FILE_NOT_FOUND" not in one]


def test_the_policy_lets_nothing_else_in(browse: Open, page_file: Path) -> None:
    page = browse(page_file)
    assert page.js("fetch('https://example.org').then(() => 'came', () => 'refused')") == "refused"
    assert (
        page.js(
            "new Promise((done) => { const made = document.createElement('script');"
            "made.textContent = 'window.ran = 1'; document.body.append(made);"
            "setTimeout(() => done(window.ran || 'refused'), 50); })"
        )
        == "refused"
    )
    refused = page.js(
        "new Promise((done) => { const refused = [];"
        "document.addEventListener('securitypolicyviolation', (event) => refused.push(event.effectiveDirective));"
        "for (const html of ['<p onclick=\"window.ran = 1\">a</p>', '<img src=\"data:image/gif;base64,R0lGODlh\">',"
        " '<form action=\"https://example.org\"></form>'])"
        " document.body.insertAdjacentHTML('beforeend', html);"
        "const far = document.createElement('script'); far.src = 'https://example.org/a.js'; document.body.append(far);"
        "document.querySelector('p[onclick]').click(); document.forms[0].submit();"
        "const until = performance.now() + 3000;"
        "const look = () => (refused.length < 4 && performance.now() < until ? setTimeout(look, 20)"
        " : done([...refused, window.ran || 'not run'])); setTimeout(look, 50); })"
    )
    assert {*refused} == {"script-src-attr", "img-src", "form-action", "script-src-elem", "not run"}
    page.asked.remove("https://example.org/a.js")  # what is refused is told as asked for
    page.said.clear()


BROKEN = """[...document.querySelectorAll("#table td, #table th, .numbers td, .numbers th")].flatMap((cell) => {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    for (const { 0: word, index } of text.data.matchAll(/[^ \\[\\]–-]+/g)) {
      const range = document.createRange();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      if (new Set([...range.getClientRects()].map((one) => one.top)).size > 1) broken.push(word);
    }
  }
  return broken;
})"""
"""Words and numbers that stand in two lines."""


def test_paper_has_all_columns_in_the_light(browse: Open, page_file: Path) -> None:
    paper = 273 * 96 // 25.4  # A4 on its side
    page = browse(page_file, color_scheme="dark", viewport={"width": int(paper), "height": 700})
    page.page.emulate_media(media="print")
    page.js("{ document.body.dataset.print = 'all'; window.dispatchEvent(new Event('beforeprint')); }")
    assert page.js("document.documentElement.scrollWidth") <= paper
    assert page.js(BROKEN) == []
    assert page.page.locator(".numbers:visible").count() == 5
    sizes = "(one) => [one.clientHeight / one.clientWidth, one.viewBox.baseVal.height / one.viewBox.baseVal.width]"
    for height, kept in page.js(f"[...document.querySelectorAll('.chart svg')].map({sizes})"):
        assert height == pytest.approx(kept, rel=0.05)
    assert page.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.page.locator(".controls:visible, nav:visible").count() == 0


def test_all_is_reached_by_keyboard_and_texts_are_loaded_one_file_at_a_time(browse: Open, page_file: Path) -> None:
    page = browse(page_file)
    assert len(page.asked) == 1
    page.page.keyboard.press("Tab")
    assert page.js("document.activeElement.innerText") == "Skip to the ranked table"
    page.page.focus("#sort-accuracy")
    page.page.keyboard.press("Enter")
    assert page.js("document.activeElement.id") == "sort-accuracy"
    page.page.focus("#pick-1")
    page.page.keyboard.press("Space")
    assert page.js("[state.picked.length, document.activeElement.id]") == [1, "pick-1"]
    page.page.focus("#next")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#example-title")
    assert page.js("document.activeElement.id") == "next"
    page.page.wait_for_selector("#texts pre")
    assert len(page.asked) == 2
    assert page.asked[1].endswith("/page_texts/0-0.js")
    page.page.focus("#open-3")
    page.page.keyboard.press("Enter")
    page.page.wait_for_function("document.querySelector('#open-3').ariaPressed === 'true'")
    page.settled()
    assert page.js("document.activeElement.id") == "open-3"
    boxes = page.js("[...document.querySelectorAll('select, [type=search]')].map((one) => one.labels[0].innerText)")
    folds = page.js("[...document.querySelectorAll('.numbers summary')].map((one) => one.textContent)")
    assert len({*boxes}) == len(boxes) >= 9
    assert len({*folds}) == len(folds) >= 5


def test_links_of_the_page_keep_the_view_and_addresses_change_it(browse: Open, page_file: Path) -> None:
    page = browse(page_file, "#policies=first&find=maj&only=constructor&cost=%ff&show=toString")
    assert page.js("[state.picked.length, state.find, state.only, state.show]") == [1, "maj", "all", "all"]
    page.page.get_by_role("link", name="examples").click()
    page.page.wait_for_timeout(50)
    assert page.js("[state.picked.length, state.find]") == [1, "maj"]
    page.js("location.hash = '#find=gated&policies=gated%2C'")
    page.page.wait_for_timeout(50)
    assert page.page.input_value("#find") == "gated"
    assert page.js("state.picked.length") == 0
    assert {name.partition("[")[0] for name in page.policies()} == {"gated"}


def test_several_results_stand_side_by_side(
    browse: Open, result: Result, saved: Path, log: Path, tmp_path: Path
) -> None:
    policies = '[[policy]]\nname = "first"\nkind = "sample"\npool = "n8"\nmax_traces = 1\nselect = "first"\n'
    other = replay.run(log, policies, where="split = 'test'", resamples=100)
    other.save(tmp_path / "other")
    path, _ = result.dashboard(tmp_path / "both.html", others=[replay.load(tmp_path / "other")])
    page = browse(path)
    assert page.page.locator("#results svg").count() == 1
    rows = page.js("drawn.get('results').view.data('results')")
    assert {(one["name"], one["result"]) for one in rows} == {("first", "saved"), ("first", "other")}
    assert "Policies are matched by their names" in page.text("#results-said")
    page.page.select_option("#side", label="tokens")
    page.settled()
    tokens = {one["result"]: one["value"] for one in page.js("drawn.get('results').view.data('results')")}
    told = (estimates(folder)["first", "total_tokens"][0] for folder in (saved, tmp_path / "other"))
    assert [tokens["saved"], tokens["other"]] == pytest.approx([*told], rel=1e-6)
    page.page.focus("#result-1")
    page.page.keyboard.press("Enter")
    page.page.wait_for_function("document.querySelectorAll('#table-body tr').length === 1")
    assert page.policies() == ["first"]
    assert page.js("document.activeElement.id") == "result-1"
    assert not page.page.locator("#sweeps-section").is_visible()
    assert "result=2" in page.js("location.hash")


def test_a_page_of_rounds_speaks_of_what_they_are_ranked_by(browse: Open, tmp_path: Path) -> None:
    """No answers, verdicts, traces, fixes or empty parts; of each question the recall and the rounds."""
    simulate_rounds(tmp_path / "log", examples=24, seed=1)
    found = replay.run(tmp_path / "log", resamples=50)
    found.save(tmp_path / "saved", traces=True)
    replay.load(tmp_path / "saved").dashboard(tmp_path / "page.html")
    example = found.outcomes.collect()["example_id"][0]
    page = browse(tmp_path / "page.html", f"#example={example}")
    for place in ("#example-list", "#example", "#differences-section", "#example-controls"):
        assert not {"unjudged", "no answer", "right", "fixes against"} & {page.text(place).lower()}
        assert "no answer" not in page.text(place)
        assert "unjudged" not in page.text(place)
    assert not page.page.locator("#changes-part").is_visible()
    cells = page.js(
        "[...document.querySelectorAll('#example-outcomes tr')].map((r) => [...r.cells].map((c) => c.innerText))"
    )
    assert cells[0][:3] == ["policy", "recall@10 %", "rounds"]
    rows = {policy: (recall, rounds) for policy, recall, rounds in found.outcomes.collect().filter(example_id=example)
            .select("policy", "recall_10", "rounds").iter_rows()}  # fmt: skip
    for policy, recall, rounds, *_ in cells[1:]:
        assert (float(recall), int(rounds)) == (pytest.approx(100 * rows[policy][0], abs=0.05), rows[policy][1])


BLOCK_NUMBERS = (
    "[...document.querySelectorAll('#block-{}-numbers tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
)


@pytest.mark.parametrize("width", seeds(1, [1400, 390]))
def test_a_picture_of_rounds_has_what_explanations_have(browse: Open, tmp_path: Path, width: int) -> None:
    """A block for each hop; of each picked policy the rounds that it read, with frontier, reward and documents."""
    simulate_rounds(tmp_path / "log", examples=24, seed=1)
    found = replay.run(tmp_path / "log", resamples=50)
    found.save(tmp_path / "saved", traces=True)
    replay.load(tmp_path / "saved").dashboard(tmp_path / "page.html")
    example, names = found.outcomes.collect()["example_id"][2], ("SUNAR's penalty", "stable leader[stable=2]")
    page = browse(
        tmp_path / "page.html",
        f"#example={example}&policies={','.join(map(quote, names))}",
        viewport={"width": width, "height": 900},
    )
    assert page.page.locator("#blocks .block").count() == 2
    for hop in range(2):
        rows = page.js(BLOCK_NUMBERS.format(hop))
        for name in names:
            steps = found.explain(name, example).stages[hop].rows
            mine = [row[1:] for row in rows if row[0] == name]
            assert [int(row[0]) for row in mine] == steps["round"].to_list()
            assert [row[2] for row in mine] == [text or "empty" for text in steps["frontier"]]
            assert [row[4] for row in mine] == [text or "none" for text in steps["moved up"]]
            if "rewarded" in steps:
                assert [row[3] == "rewarded" for row in mine] == steps["rewarded"].to_list()
            else:
                assert [float(row[3][2:]) for row in mine] == pytest.approx(steps["factor"].to_list(), abs=5e-4)
        assert page.page.locator(f"#block-{hop}-stops .mark-symbol.role-mark path").count() == len(rows)
    assert page.js("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "texts"), seeds(1, [(1400, True), (390, True), (1400, False)]))
def test_a_picture_of_checks_has_the_text_on_one_line(browse: Open, tmp_path: Path, width: int, texts: bool) -> None:
    """Words with the rounds of claims, the buzz of each picked policy, and the error; without texts, their numbers."""
    log = simulate_checks(tmp_path / "log", examples=24, seed=1)
    found = replay.run(log, resamples=50)
    found.save(tmp_path / "saved", traces=True, texts=texts)
    replay.load(tmp_path / "saved").dashboard(tmp_path / "page.html")
    names = ("first refutation", "second refutation")
    acted = found.outcomes.collect().filter(pl.col("policy") == names[0]).drop_nulls(["position", "deviation"])
    example = acted["example_id"][0]
    page = browse(
        tmp_path / "page.html",
        f"#example={example}&policies={','.join(map(quote, names))}",
        viewport={"width": width, "height": 900},
    )
    line, told = page.text("#block-0-words"), found.explain(names[0], example).stages[0]
    paid = found.explain(names[1], example).stages[0].rows
    for claim, round_ in paid.filter(pl.col("verdict") != "none").select("claim", "round").iter_rows():
        assert f"[{claim}.{round_} " in line
    assert ("w3 " in line) is texts
    before = line.split(f"▲ {names[0]}")[0]
    claim, round_ = told.rows.filter(pl.col("buzz")).select("claim", "round").row(0)
    assert before.rstrip().endswith(f"[{claim}.{round_} −]")
    gold = log.scan("examples").filter(pl.col("example_id") == example).collect()["gold_position"][0]
    ahead = line.split("◆")[0]
    words = [int(one) for one in re.findall(r"(\d+) words?", ahead)]
    assert (len(re.findall(r"\bw\d+", ahead)) if texts else sum(words)) == gold
    rows = page.js(BLOCK_NUMBERS.format(0))
    by = [row for row in rows if names[0] in row[8]]
    assert len(by) == len(told.rows.filter(pl.col("verdict") != "none"))
    assert [row[0] for row in rows if names[0] in row[9]] == [str(int(acted["position"][0]))]
    assert page.js("document.documentElement.scrollWidth") <= width


def test_a_page_of_checks_says_where_the_error_is(browse: Open, tmp_path: Path) -> None:
    log = simulate_checks(tmp_path / "log", examples=24, seed=1)
    found = replay.run(log, resamples=50)
    found.save(tmp_path / "saved", traces=True)
    replay.load(tmp_path / "saved").dashboard(tmp_path / "page.html")
    example, word = (
        log.scan("examples")
        .filter(pl.col("split") == "test")
        .select("example_id", "gold_position")
        .drop_nulls()
        .collect()
        .row(0)
    )
    page = browse(tmp_path / "page.html", f"#example={example}")
    assert f"word {word} " in page.text("#seen")
    heads = page.js("[...document.querySelectorAll('#example-outcomes thead th')].map((c) => c.innerText)")
    assert {"answer", "rounds", "position"} <= set(heads)
    assert "traces" not in heads
