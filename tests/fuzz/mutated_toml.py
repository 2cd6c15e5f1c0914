"""Mutated policies, mappings and recipes: read by their readers, and one in some dozen run by the commands."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from generate.simulation.grid import simulate
from tests.fuzz.campaign import Case
from tests.fuzz.commands import ROOT, Commands, Ran
from tests.fuzz.damaged_toml import altered_toml, damaged_toml
from tests.fuzz.documents import documents
from tests.fuzz.endings import State, changes, faults, state
from tests.generate.toy import write_recipe
from tests.logs import make_log

READERS = {
    "policies": "replay:load_policies",
    "mapping": "toolkit.imports.map.mapping:read_mapping",
    "recipe": "generate.recipes.recipe:load_recipe",
    "adding": "generate.signals.additions:load_additions",
    "training": "generate.training.model_recipe:load_training_recipe",
}
READ_AT_ONCE = 15
"""Files that a case only has read; one more it runs."""
RULES = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Own:
    least: int = 2

    def holds(self, seen):
        {body}
"""
BODIES = (
    "raise SystemExit(3)", "raise KeyError('\\x1b[2J' + 'x' * 5000)", "return None",
    "return seen.n_valid >= self.least", "return 'yes'", "import sys; sys.exit('gone')", "return 1 / 0",
    "return self.holds(seen)", "return seen.none_such", "raise StopIteration", "return [True] * 3",
    "import os; os.close(1) if False else None; return True",
)  # fmt: skip
OWN = '[[policy]]\nname = "own"\nkind = "sample"\npool = "n16"\nmax_traces = 4\nselect = "majority"\nstop = "Own"\n'


@dataclass(frozen=True)
class Runs:
    """A command that runs a kind of file; its output, which is `out`, is all that it may leave."""

    words: tuple[str, ...]
    dry: bool = False


RUNS: Mapping[str, tuple[Runs, ...]] = {
    "policies": (
        Runs(("replay", "BASE/log", "--policies", "FILE", "--resamples", "20", "--out", "out")),
        Runs(("replay", "BASE/revised", "--policies", "FILE", "--resamples", "20", "--out", "out")),
        Runs(
            ("explain", "BASE/log", "--policies", "FILE", "--policy", "vote", "--example", "sim0-000000003"), dry=True
        ),
    ),
    "mapping": (
        Runs(("import", "table", "samples.jsonl", "--map", "FILE", "--out", "out")),
        Runs(("import", "table", "samples.jsonl", "--map", "FILE", "--out", "out", "--rejudge")),
    ),
    "recipe": (Runs(("generate", "FILE", "--dry-run"), dry=True),),
    "adding": (
        Runs(("generate", "FILE", "--on", "BASE/log", "--dry-run"), dry=True),
        Runs(("generate", "FILE", "--on", "BASE/sums", "--dry-run"), dry=True),
    ),
    "training": (),
}


class MutatedToml:
    """See the module."""

    name, about = "toml", "mutated policies, mappings, recipes"
    share = 3.0
    beside: ClassVar[tuple[str, ...]] = ("samples.jsonl", "lists.jsonl", "pairs.jsonl", "questions.jsonl")

    def prepare(self, folder: Path, commands: Commands) -> None:
        """Logs for policies and additions, and rows that mappings of every form find something in."""
        simulate(folder / "log", examples=12, traces=16, labels=3, seed=3, name="log")
        commands.run("simulate", "--recovery", "--examples", "600", "--out", "revised", folder=folder)
        make_log(folder / "sums")
        self.base = folder
        self.before = self._base()

    def run(self, case: Case) -> None:
        """Many files that are read, and one that is run."""
        for number in range(READ_AT_ONCE):
            kind = case.rng.choice(list(READERS))
            file = self._written(case, kind, case.folder / f"{number}.toml")
            ran = case.commands.call(READERS[kind], str(file), folder=case.folder, limit_s=30)
            if not self._judge(case, ran, kind):
                file.unlink()
        if case.rng.random() < 0.1:
            self._own_rule(case)
            return
        kind = case.rng.choice([kind for kind in RUNS if RUNS[kind]])
        one = case.rng.choice(RUNS[kind])
        self._run(case, kind, one, as_process=case.rng.random() < 0.03)

    def _base(self) -> State:
        """What all cases read. A dry run tries for a moment, in `.adding`, whether it could write."""
        return {path: one for path, one in state(self.base).items() if "/.adding" not in path}

    def _run(self, case: Case, kind: str, one: Runs, as_process: bool) -> None:
        place = case.folder / "run"
        place.mkdir()
        self._beside(case.rng, kind, place)
        gently = case.rng.random() < 0.7
        file = self._written(case, kind, place / "file.toml", altered_toml if gently else damaged_toml)
        before = state(place)
        words = [word.replace("BASE", str(self.base)).replace("FILE", file.name) for word in one.words]
        ran = (case.commands.process if as_process else case.commands.run)(*words, folder=place)
        found = list(self._after(ran, place, before, dry=one.dry))
        self._judge(case, ran, kind, found)

    def _own_rule(self, case: Case) -> None:
        """A stopping rule that breaks, ends the program, or gives what is no answer."""
        place = case.folder / "run"
        place.mkdir()
        (place / "file.toml").write_text(OWN)
        (place / "rules.py").write_text(RULES.format(body=case.rng.choice(BODIES)))
        words = ("replay", str(self.base / "log"), "--policies", "file.toml", "--rules", "rules.py", "--out", "out")
        before = state(place)
        ran = case.commands.run(*words, "--resamples", "20", folder=place)
        self._judge(case, ran, "rules", list(self._after(ran, place, before, dry=False)))

    def _after(self, ran: Ran, place: Path, before: dict[str, tuple[str, str]], dry: bool) -> list[str]:
        allowed = () if ran.code or dry else ("out",)
        found = [f"{ran.told}: {fault}" for fault in changes(before, state(place, allowed))]
        return found + [f"{ran.told}: {fault}" for fault in changes(self.before, self._base(), "the base's ")]

    def _judge(self, case: Case, ran: Ran, kind: str, found: list[str] | None = None) -> bool:
        """Count an ending; whether it failed."""
        every = [*faults(ran), *(found or ())]
        case.failures += every
        case.count("fault" if every else f"{kind} taken" if ran.code == 0 else f"{kind} refused")
        return bool(every)

    def _written(
        self, case: Case, kind: str, file: Path, mutate: Callable[[random.Random, str], bytes] = damaged_toml
    ) -> Path:
        file.write_bytes(mutate(case.rng, case.rng.choice(documents(kind))))
        return file

    def _beside(self, rng: random.Random, kind: str, place: Path) -> None:
        """What the files name: rows for mappings, prompts and examples for recipes."""
        if kind == "mapping":
            for name in self.beside:
                (place / name).write_text("".join(json.dumps(row) + "\n" for row in _rows(rng)), encoding="utf-8")
        elif kind in ("recipe", "adding"):
            write_recipe(place, 3)
            shutil.copytree(ROOT / "generate" / "recipes" / "shipped", place / "shipped")


def _rows(rng: random.Random) -> list[dict[str, object]]:
    """Rows with the columns that the manual's mappings name, of four questions."""
    rows: list[dict[str, object]] = [
        {"id": f"q{q}", "question": f"{q} + {q}?", "gold": str(2 * q), "epoch": i + 1,
        "completion": f"It is {2 * q + i % 2}.", "usage": {"out": 9 + i}, "rm": 0.1 * i, "samples": ["4", "5"],
        "scores": [0.8, 0.3], "before": "4", "after": "5", "model": "m", "answer": str(2 * q), "condition": "io",
        "sample_index": i, "correct": float(i % 2), "score": 0.5, "text": "So \\boxed{4}", "example_id": f"q{q}"}
        for q in range(4)
        for i in range(3)
    ]  # fmt: skip
    rng.shuffle(rows)
    return rows
