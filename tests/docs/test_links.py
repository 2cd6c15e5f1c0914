"""Links and anchors of the manual resolve, and every page can be reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from markdown.extensions.toc import slugify

from tests.docs.pictures import draw, small

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
FILES = [*PAGES, *(ROOT / name for name in ("README.md", "CHANGELOG.md", "benchmarks/README.md"))]
FILES += sorted((ROOT / "data").glob("**/README.md"))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]+\]\(([^)\s]+)\)")


def prose(path: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^( *)```.*?^\1```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as the manual is built: a repeated one gets `_1`, `_2` …"""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose(path), re.MULTILINE):
        anchor = slugify(re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading), "-")
        taken, number = anchor, 0
        while taken in found:
            number += 1
            taken = f"{anchor}_{number}"
        found.add(taken)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_resolve(path: Path) -> None:
    broken = []
    for link in LINK.findall(prose(path)):
        if re.match(r"https?://|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        page = (path.parent / target).resolve() if target else path
        if not page.exists() or target.startswith("/") or (anchor and anchor not in anchors(page)):
            broken.append(link)
    assert broken == []


def test_the_manual_lists_every_page() -> None:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=yaml.BaseLoader)

    def files(nav: object) -> list[str]:
        if isinstance(nav, str):
            return [nav]
        return [f for part in (nav.values() if isinstance(nav, dict) else nav) for f in files(part)]

    assert sorted(files(settings["nav"])) == [path.name for path in PAGES]


def test_every_page_is_listed() -> None:
    path = ROOT / "docs" / "index.md"
    listed = {(path.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(path))}
    assert [page.name for page in PAGES if page not in listed and page.name != "index.md"] == []


def test_pictures_are_there_small_and_used() -> None:
    used = {(path.parent / link).resolve() for path in FILES for link in PICTURE.findall(prose(path))}
    there = sorted((ROOT / "docs" / "pictures").iterdir())
    shots = sorted((ROOT / "docs" / "screenshots").glob("*.png"))
    of_notebooks = sorted((ROOT / "docs" / "notebooks").iterdir())
    assert sorted(used) == sorted(there + shots + of_notebooks)
    assert all(path.suffix == ".png" for path in of_notebooks)
    assert sum(path.stat().st_size for path in of_notebooks) < 2_000_000
    assert all(path.suffix == ".svg" for path in there)
    assert sum(path.stat().st_size for path in there) < 1_000_000


def test_pictures_are_made_small_without_a_change_to_what_is_seen() -> None:
    outline = 'd="M 1.23456 -2\nL 3 4.5\nz\n"'
    name = f'<path {outline} style="fill: #222222; stroke: #ffffff; stroke-width: 1.6"/>\n'
    short = 'd="M1.23 -2L3 4.5z"'
    halo = f'<path {short} style="fill: #222222; stroke: #ffffff; stroke-width: 1.6; paint-order: stroke"/>'
    assert small(f'{name}<path {outline} style="fill: #222222"/>') == halo
    other = f'<path {short} style="fill: #ff0000"/>'
    assert small(f"{name}{other}") == halo.replace("; paint-order: stroke", "") + f"\n{other}"


@pytest.mark.slow
def test_pictures_are_what_the_command_draws(tmp_path: Path) -> None:
    draw(tmp_path)
    for path in sorted((ROOT / "docs" / "pictures").iterdir()):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), f"{path.name}: run `make pictures`"


def test_the_manual_stays_within_itself() -> None:
    """Pages link to no file outside docs/: the built manual has only what is in there."""
    outside = [f"{path.name}: {link}" for path in PAGES for link in LINK.findall(prose(path)) if link.startswith("../")]
    assert outside == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_placeholder_is_left(path: Path) -> None:
    assert re.findall(r"\bTODO\b|\bTBD\b|\bXXX\b|\b[A-Z]+_(?:EXAMPLE|NOTE)\b", path.read_text(encoding="utf-8")) == []
