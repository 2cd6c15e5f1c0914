"""Marks of charts by keyboard, what sees gold at the edge of its picture, and a page that all can use."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.conftest import Open, Opened
from tests.seeds import seeds

AXE = pytest.importorskip(
    "axe_playwright_python", reason="NO AXE: accessibility was not checked; pip install '.[test]'"
)
EXAMPLE = "#example=sim3-000000001&policies=first,majority%5Bmax_traces%3D8%5D"


def focused(page: Opened) -> tuple[str, int]:
    """What the focused mark is called, and the number of its policy."""
    label, number = page.js(
        "[document.activeElement.getAttribute('aria-label'), document.activeElement.__data__.datum.number]"
    )
    return label, number


def test_marks_of_the_front_open_their_policies_by_keyboard(browse: Open, page_file: Path) -> None:
    """One Tab leads to the chart and one away; arrows go from the cheapest mark to the dearest."""
    page = browse(page_file)
    press = page.page.keyboard.press
    page.page.focus("#cost")
    press("Tab")
    assert page.js("document.activeElement.closest('#plane') !== null")
    press("Home")
    seen = [focused(page)]
    marks = page.js("drawn.get('plane').marks.length")
    for _ in range(marks - 1):
        press("ArrowRight")
        seen.append(focused(page))
    assert len({number for _, number in seen}) == marks == page.js("current().policies.length")
    costs = page.js("metric(current().cost).estimate")
    assert all(costs[one] <= costs[other] for (_, one), (_, other) in pairwise(seen))
    label, number = seen[-1]
    name = page.js(f"policy({number}).called")
    assert label.startswith(f"policy {name}, accuracy % ")
    assert page.text("#tip").startswith(f"policy {name}")
    assert page.js("drawn.get('plane').view.signal('under')") == number
    press("Enter")
    page.settled()
    assert page.js("state.picked") == [number]
    assert page.text("#policy-facts").startswith(name)
    assert focused(page)[1] == number
    assert focused(page)[0].endswith("picked")
    press("Enter")
    page.settled()
    assert page.js("state.picked") == []
    assert focused(page)[1] == number
    press("Escape")
    assert not page.page.locator("#tip").is_visible()
    press("Shift+Tab")
    assert page.js("document.activeElement.id") == "cost"
    press("Tab")
    assert focused(page)[1] == number
    press("Tab")
    assert page.js("document.activeElement.id") == "plane-copy-LaTeX"


def test_marks_of_other_charts_tell_and_lead_by_keyboard(browse: Open, page_file: Path) -> None:
    page = browse(page_file, EXAMPLE)
    page.page.wait_for_selector("#texts pre")
    page.settled()
    page.page.focus("#forest [tabindex='0']")
    page.page.keyboard.press("Home")
    page.page.keyboard.press("ArrowDown")
    second = page.js("drawn.get('forest').view.data('rows')[1]")
    assert page.text("#tip").startswith(f"policy {second['name']}")
    assert second["said"] in page.text("#tip")
    page.page.focus("#block-0-traces [tabindex='0']")
    page.page.keyboard.press("End")
    page.page.keyboard.press("Enter")
    page.page.wait_for_function("document.activeElement.localName === 'summary'")
    assert "trace 8: " in page.js("document.activeElement.innerText")


EDGE = """(kind) => {
  const { view, inner } = drawn.get("plane");
  const edges = (node) => node.getBoundingClientRect().toJSON();
  const drawnOf = (what) => [...inner.querySelectorAll(`.role-mark > ${what}`)];
  const node = drawnOf("path").find((one) => one.__data__.tooltip && one.__data__.datum.kind === kind);
  const { number, value } = node.__data__.datum;
  const name = drawnOf("text").find((one) => one.__data__.datum.number === number)?.textContent;
  const frame = edges(inner.querySelector(".role-frame .background"));
  return { mark: edges(node), frame, name: name ?? "", at: frame.top + view.scale("y")(value) };
}"""
"""The box of the mark of a kind, that of the plot, the name beside the mark, and where its value would be."""


@pytest.mark.parametrize("width", seeds(1, [1200, 390]))
def test_what_sees_gold_stands_at_the_edge_where_it_is_beyond_all_else(
    browse: Open, page_file: Path, width: int
) -> None:
    """At 100 % above policies of at most 60 % it is whole within the plot, with its value; at 55 % where that is."""
    page = browse(page_file, viewport={"width": width, "height": 900})

    def drawn_with(oracle: float) -> dict[str, Any]:
        page.js(
            f"{{ const form = metric(current().metric); const gold = current().policies.map((one) => one.diagnostic);"
            f"form.estimate = form.estimate.map((one, k) => (gold[k] ? {oracle} : 0.5 + 0.1 * k / gold.length));"
            "form.low = form.low.map(() => null); form.high = form.high.map(() => null); drawPlane(); }"
        )
        page.settled()
        return page.page.evaluate(EDGE, "sees gold")

    def middle(box: dict[str, float]) -> float:
        return (box["top"] + box["bottom"]) / 2

    beyond = drawn_with(1.0)
    assert beyond["frame"]["top"] <= beyond["mark"]["top"]
    assert middle(beyond["mark"]) - beyond["frame"]["top"] <= 12
    assert beyond["at"] < beyond["frame"]["top"]
    assert beyond["name"].endswith(" 100.0 ↑")
    below = drawn_with(0.1)
    assert below["mark"]["bottom"] <= below["frame"]["bottom"]
    assert below["frame"]["bottom"] - middle(below["mark"]) <= 12
    assert below["name"].endswith(" 10.0 ↓")
    within = drawn_with(0.55)
    assert middle(within["mark"]) == pytest.approx(within["at"], abs=1)
    assert "↑" not in within["name"]


LOOKS = [(width, scheme) for scheme in ("dark", "light") for width in (390, 1400, 800)]


def violations(page: Opened, on_paper: bool = False) -> list[Any]:
    """What axe finds, of any impact, by all of its rules and one that has to be asked for: controls are large enough
    for a finger, which has no use of them on paper.
    """
    if not page.js("'axe' in window"):
        page.js((Path(AXE.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    rules = f"{{rules: {{'target-size': {{enabled: {str(not on_paper).lower()}}}}}}}"
    found = page.js(f"axe.run(document, {rules}).then((told) => told.violations)")
    return [(one["id"], one["impact"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found]


@pytest.mark.parametrize(("width", "scheme"), seeds(1, LOOKS))
def test_axe_finds_nothing(browse: Open, page_file: Path, width: int, scheme: str) -> None:
    """With an example, its picture and its texts, a policy's facts, and numbers that are open."""
    page = browse(page_file, EXAMPLE, color_scheme=scheme, viewport={"width": width, "height": 900})
    page.page.wait_for_selector("#texts pre")
    page.settled()
    page.js("for (const one of document.querySelectorAll('details.numbers')) one.open = true; scrollTo(0, 0)")
    assert violations(page) == []
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("parts", seeds(1, ["sheet", "all"]))
def test_axe_finds_nothing_on_paper(browse: Open, page_file: Path, parts: str) -> None:
    page = browse(page_file, EXAMPLE, color_scheme="dark", viewport={"width": 1031, "height": 900})
    page.page.wait_for_selector("#texts pre")
    page.page.emulate_media(media="print", color_scheme="light")
    if parts == "all":
        page.js("document.body.dataset.print = 'all'")
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    assert violations(page, on_paper=True) == []
