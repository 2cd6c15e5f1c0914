"""A process that runs a recipe against a server: `python toy_run.py RECIPE OUT URL`, beginning at a line on stdin."""

from __future__ import annotations

import sys
from pathlib import Path

from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from tests.generate.toy import HttpEngine
from toolkit.errors import ThinkbackError

if __name__ == "__main__":
    recipe, out, url = sys.argv[1:4]
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        generate(make_plan(load_recipe(recipe)), Path(out), lambda _: HttpEngine(url), block=6)
    except ThinkbackError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
