"""Damaged saved results, with an oracle: what is asked of one is refused in one line, or is what the sound one says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl

import replay
from generate.simulation.grid import simulate
from replay.runs.saved.saved_folder import RECORD, write_hashed
from tests.fuzz.campaign import Case
from tests.fuzz.commands import Commands
from tests.fuzz.damage import damaged, damaged_json, replaced
from tests.fuzz.damaged_logs import POLICIES
from toolkit.errors import ThinkbackError
from toolkit.log.read.footers import hash_file

QUESTION = "select policy, count(*), avg(correct) from outcomes group by 1 order by 1"


class DamagedResults:
    """See the module."""

    name, about = "results", "damaged saved results"
    share = 0.5

    def prepare(self, folder: Path, commands: Commands) -> None:
        """A saved result with every part, and what it says."""
        simulate(folder / "log", examples=12, traces=4, labels=3, seed=3, name="log")
        result = replay.run(folder / "log", POLICIES, resamples=20, by="split")
        result.save(folder / "saved", traces=True, texts=True, curves=True, headroom=True)
        self.base, self.sound = folder / "saved", said(folder / "saved")

    def run(self, case: Case) -> None:
        """One damage, then every question."""
        folder = case.folder / "saved"
        shutil.copytree(self.base, folder)
        path = case.rng.choice(sorted(folder.iterdir()))
        how = self._damage(case, path)
        (case.folder / "damage.txt").write_text(f"{path.name}: {how}")
        try:
            found = said(folder)
        except ThinkbackError as error:
            case.count("refused")
            if "\n" in str(error) or len(str(error)) > 600:
                case.failures.append(f"{path.name}, {how}: not one short line: {error!s:.300}")
            return
        except BaseException as error:
            case.count("fault")
            case.failures.append(f"{path.name}, {how}: {type(error).__name__}: {error!s:.300}")
            return
        kind = (
            "same result" if found == self.sound else "another result" if how.startswith("signed") else "wrong result"
        )
        case.count(kind)
        if kind == "wrong result":
            case.failures.append(f"{path.name}, {how}: another result, without a word")

    @staticmethod
    def _damage(case: Case, path: Path) -> str:
        if case.rng.random() < 0.1:
            return replaced(case.rng, path)
        if path.suffix == ".json" and case.rng.random() < 0.4:
            return _signed(case, path)
        if path.suffix == ".json" and case.rng.random() < 0.7:
            text, how = damaged_json(case.rng, path.read_text())
            path.write_text(text, "utf-8", "surrogatepass" if how != "bytes" else "surrogateescape")
            return how
        path.write_bytes(damaged(case.rng, path.read_bytes()))
        return "bytes"


def _signed(case: Case, path: Path) -> str:
    """Damage to what `result.json` or `run.json` says, with hashes that fit."""
    record = json.loads((path.parent / RECORD).read_text())["record"]
    own = path.name == RECORD
    text, how = damaged_json(case.rng, json.dumps(record) if own else path.read_text())
    try:
        changed = json.loads(text)
        if not own:
            path.write_text(text, "utf-8")
            record["files"][path.name] = hash_file(path)
        write_hashed(path.parent, changed if own else record)
    except (ValueError, RecursionError):  # no JSON, or no UTF-8: no reader gets beyond that
        return how
    return f"signed {how}"


def said(folder: Path) -> list[Any]:
    """What a result says when it is asked everything."""
    result = replay.load(folder)
    example = result.examples["example_id"][0]
    told = result.explain("vote", example, texts=True)
    return [
        repr(result),
        result.table().csv(),
        result.outcomes.collect().sort("policy", "example_id").rows(),
        result.summariser.summary().summary.rows(),
        [statistics.summary.rows() for statistics in result.groups.values()],
        result.seconds.rows(),
        result.curves().rows(),
        result.compare().pairs.rows(),
        result.headroom(oracle=result.leader).frame.rows(),
        result.query(QUESTION).rows(),
        [told.header, told.ending, told.steps.rows(), pl.DataFrame(told.texts).rows()],
    ]
