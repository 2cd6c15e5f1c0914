"""Draws the manual's pictures from the shipped log: `make pictures`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import replay
from toolkit.show import save_figure

ROOT = Path(__file__).resolve().parents[2]
LOG, TEST = str(ROOT / "data" / "log"), "split = 'test'"
WIDTH = "5.5in"
HALO = re.compile(
    r'(?P<under><path (?P<points>d="[^"]*") style="(?P<fill>fill: [^;"]*); stroke: [^"]*)"/>\s*'
    r'<path (?P=points) style="(?P=fill)"/>'
)

GATE = """
[[policy]]
name = "greedy"
kind = "sample"
pool = "probe"
max_traces = 1
select = "first"

[[policy]]
name = "vote when unsure"
kind = "when"
base = { kind = "sample", pool = "probe", max_traces = 1, select = "first" }
gate = { signal = "sum_logprob", below = { quantiles = 10 } }
then = { kind = "sample", pool = "votes", max_traces = 16, select = "majority" }

[[policy]]
name = "majority of 16"
kind = "sample"
pool = "votes"
max_traces = 16
select = "majority"
"""


def draw(folder: Path) -> None:
    """Write every picture to a folder, as SVG."""
    front = replay.run(LOG, ROOT / "data" / "policies.toml", where=TEST, baseline="greedy")
    gate = replay.run(LOG, GATE, where=TEST)
    pictures = {
        "front": front.frontier(width=WIDTH),
        "forest": front.figure("forest", width=WIDTH),
        "headroom": front.figure("headroom", width=WIDTH),
        "gate": gate.frontier(width=WIDTH),
        "gates": gate.figure("gates", width=WIDTH),
    }
    for name, figure in pictures.items():
        path = folder / f"{name}.svg"
        save_figure(figure, path)
        path.write_text(small(path.read_text(encoding="utf-8")), encoding="utf-8")


def small(svg: str) -> str:
    """The same picture in a third of the bytes: points to a hundredth, and each name with its halo as one path.

    A halo is the outline of a name, stroked and filled under the name itself: that is what `paint-order` does.
    """

    def path(found: re.Match[str]) -> str:
        points = re.sub(r"-?\d+\.\d{3,}", lambda one: f"{float(one[0]):.2f}".rstrip("0").rstrip("."), found[1])
        return 'd="' + re.sub(r"\s*([A-Za-z])\s*", r"\1", points) + '"'

    short = re.sub(r'\bd="([^"]*)"', path, svg)
    short = HALO.sub(r'\g<under>; paint-order: stroke"/>', short)
    short = re.sub(r"<metadata>.*?</metadata>", "", short, flags=re.DOTALL)
    return re.sub(r"[ \t]*\n[ \t]*", "\n", short)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
