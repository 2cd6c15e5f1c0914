"""The TOML files that are mutated: what is shipped, and what the manual shows."""

from __future__ import annotations

import re
from functools import cache

from tests.fuzz.commands import ROOT
from tests.generate.toy import RECIPE

FENCE = re.compile(r'^```toml(?: title="([^"]+)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)
MAPPINGS = ("importing.md", "import-table.md")
POLICIES = ("policies.md", "index.md", "thinking-again.md")
FURTHER = """
[[verify]]
name = "chance"
kind = "random"
seed = 3

[[verify]]
name = "likely"
kind = "logprob"

[[features]]
name = "peers"
kind = "peers"
"""


def _of_manual(*pages: str) -> list[str]:
    texts = [(ROOT / "docs" / page).read_text("utf-8") for page in pages]
    return [body for text in texts for _, body in FENCE.findall(text)]


def _files(*patterns: str) -> list[str]:
    return [path.read_text("utf-8") for pattern in patterns for path in sorted(ROOT.glob(pattern))]


@cache
def documents(kind: str) -> list[str]:
    """Texts of policies, mappings, recipes, recipes that add to a log, or of training."""
    recipes = _files("generate/recipes/shipped/*.toml") + _of_manual("recipes.md") + [RECIPE]
    adding = _of_manual("adding.md") + [text for text in recipes if "[[verify]]" in text] + [FURTHER]
    return {
        "policies": _of_manual(*POLICIES) + _files("data/*.toml", "docs/examples/policies.toml"),
        "mapping": _of_manual(*MAPPINGS) + _files("toolkit/imports/maps/*.toml", "docs/examples/map.toml"),
        "recipe": recipes,
        "adding": adding,
        "training": _files("generate/training/shipped/*.toml"),
    }[kind]
