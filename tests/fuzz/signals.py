"""Signals at random moments of every command that writes: nothing is lost, half done or left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tests.engines.server import Server
from tests.fuzz.campaign import Case
from tests.fuzz.commands import ROOT, Commands, Ran, ended
from tests.fuzz.damaged_logs import POLICIES
from tests.fuzz.endings import State, changes, faults, state
from tests.generate.toy import RECIPE, URL, write_recipe
from tests.logs import make_log
from toolkit.log import open_log
from toolkit.log.contract.manifest import MANIFEST

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
TIMES = {"latency_s", "device_s", "started_s", "arrived_s"}
CHANCE = "".join(f'[[verify]]\nname = "{name}"\nkind = "random"\n' for name in ("chance", "luck"))
OLD = "what was there before"


@dataclass(frozen=True)
class Writing:
    """A command that writes: its words, what it makes, and whether it puts that in the place of something whole."""

    words: tuple[str, ...]
    makes: str = "out"
    replaces: bool = True


COMMANDS = {
    "replay": Writing(("replay", "log", "--policies", "p.toml", "--resamples", "3000", "--out", "out", "--force")),
    "merge": Writing(("merge", "log", "other", "--out", "out", "--force")),
    "import": Writing(("import", "table", "rows.jsonl", "--map", "map.toml", "--out", "out", "--force")),
    "simulate": Writing(("simulate", "--examples", "2000", "--traces", "8", "--out", "out", "--force")),
    "seal": Writing(("seal", "open"), "open", replaces=False),
    "generate --on": Writing(("generate", "chance.toml", "--on", "sums"), "sums", replaces=False),
    "generate": Writing(("generate", "sums.toml", "--out", "out"), replaces=False),
}


class Signals:
    """See the module."""

    name, about = "signals", "signals while commands write"
    share = 4.0

    def prepare(self, folder: Path, commands: Commands) -> None:
        """What the commands read, and what each of them makes and how long it takes when it is let alone."""
        self.commands, self.inputs = commands, folder / "inputs"
        self.server = Server()
        self.server.delay_s = 0.003
        self.server.__enter__()  # its threads end with this process
        self._write_inputs()
        self.made: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        for name, writing in COMMANDS.items():
            place = self._place(folder / f"undisturbed {name}")
            ran = self._let_alone(place, writing)
            if ran.code != 0:
                raise RuntimeError(f"{ran.told}: {ran.err}")
            self.made[name], self.seconds[name] = content(place / writing.makes), ran.seconds

    def run(self, case: Case) -> None:
        """One command, one signal, and the same command again."""
        rng, name = case.rng, case.rng.choice(list(COMMANDS))
        writing, sent = COMMANDS[name], rng.choice(list(SIGNALS))
        place = self._place(case.folder / "place")
        old = writing.replaces and rng.random() < 0.7
        if old:
            (place / "out").mkdir()
            (place / "out" / "text").write_text(OLD)
        inputs = state(place, (writing.makes,))
        begun, delay = time.monotonic(), self.seconds[name] * rng.uniform(0.05, 1.05)
        with self._started(place, writing) as running:
            try:
                running.wait(delay)
            except subprocess.TimeoutExpired:
                running.send_signal(sent)
            ran = ended(running, writing.words, begun)
        (case.folder / "what.txt").write_text(f"{name}: {sent.name} after {delay:.3f} s: {ran.code}\n{ran.err}")
        found = [*ending(ran, sent), *self._left(place, name, old, inputs, gone=ran.code != -signal.SIGKILL)]
        if not found:
            found = list(self._again(place, name, inputs))
        case.failures += [f"{name}, {sent.name} after {delay:.3f} s: {fault}" for fault in found]
        case.count("fault" if found else "ended first" if ran.code == 0 else sent.name.removeprefix("SIG"))

    def _left(self, place: Path, name: str, old: bool, inputs: State, gone: bool) -> Iterator[str]:
        """What is wrong with what an interrupted command left. A killed one may leave its part, and no other."""
        writing = COMMANDS[name]
        out, now = place / writing.makes, state(place, (writing.makes,))
        parts = {path for path in now if path.startswith((".", "tmp/"))}
        if gone and parts:
            yield f"left {sorted(parts)[:3]}"
        yield from changes(inputs, {path: one for path, one in now.items() if path not in parts})
        if not writing.replaces:
            if name == "seal" or (out / MANIFEST).exists():
                open_log(out)
            return
        if out.exists():
            is_old = (out / "text").exists() and [path.name for path in out.iterdir()] == ["text"]
            if not (is_old and old and (out / "text").read_text() == OLD) and content(out) != self.made[name]:
                yield "`out` is neither what it was nor the new one whole"
        elif old:
            yield "`out` is gone"

    def _again(self, place: Path, name: str, inputs: State) -> Iterator[str]:
        """What is wrong after the same command was run to its end."""
        writing = COMMANDS[name]
        ran = self._let_alone(place, writing)
        done = ran.code == 2 and any(said in ran.err for said in ("sealed already", "nothing is left to generate"))
        if ran.code != 0 and not done:
            yield f"again: exit code {ran.code}, {ran.err[:300]!r}"
            return
        yield from (f"again: {fault}" for fault in (() if done else faults(ran)))
        if content(place / writing.makes) != self.made[name]:
            yield "again: another result than undisturbed"
        yield from (f"again: {fault}" for fault in changes(inputs, state(place, (writing.makes,))))
        hidden = [path for path in state(place) if any(part.startswith(".") for part in path.split("/"))]
        if hidden:
            yield f"again: left {hidden[:3]}"

    def _let_alone(self, place: Path, writing: Writing) -> Ran:
        begun = time.monotonic()
        with self._started(place, writing) as running:
            return ended(running, writing.words, begun)

    def _started(self, place: Path, writing: Writing) -> subprocess.Popen[bytes]:
        return self.commands.started(*writing.words, folder=place, TMPDIR=str(place / "tmp"))

    def _place(self, place: Path) -> Path:
        shutil.copytree(self.inputs, place)
        (place / "tmp").mkdir()
        return place

    def _write_inputs(self) -> None:
        folder = self.inputs
        write_recipe(_made(folder), 6, RECIPE.replace(URL, f'base_url = "{self.server.url}"\n'))
        for name, seed in (("log", 3), ("other", 4)):
            words = ("--examples", 200, "--traces", 4, "--seed", seed, "--name", name, "--out", name)
            self.commands.run("simulate", *words, folder=folder)
        shutil.copytree(folder / "other", folder / "open", ignore=shutil.ignore_patterns(MANIFEST))
        for path in (folder / "open").rglob("*.parquet"):
            pl.read_parquet(path).reverse().write_parquet(path)  # as another tool writes: sealing sorts
        make_log(folder / "sums", 40)
        (folder / "p.toml").write_text(POLICIES)
        (folder / "chance.toml").write_text(CHANCE)
        shutil.copy(ROOT / "docs" / "examples" / "map.toml", folder)
        rows = [json.loads(line) for line in (ROOT / "docs" / "examples" / "samples.jsonl").read_text().splitlines()]
        many = [row | {"id": f"{row['id']}-{number}"} for number in range(300) for row in rows]
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in many))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def ending(ran: Ran, sent: signal.Signals) -> Iterator[str]:
    """What is wrong with the ending of a command that was sent a signal; before its first line Python ends it."""
    if ran.hung:
        yield f"hangs, ended after {ran.seconds:.0f} s"
        return
    own = any(f'File "{ROOT / name}{os.sep}' in ran.err for name in ("thinkback", "toolkit", "replay", "generate"))
    if ran.code in (-sent, 1) and not own:
        return
    if ran.code not in (0, SIGNALS[sent]):
        yield f"exit code {ran.code}: {ran.err[-300:]!r}"
    elif "Traceback" in ran.err:
        yield f"traceback: {ran.err[-300:]!r}"
    elif ran.code == 130 and ran.err.splitlines() != ["error: interrupted"]:
        yield f"said {ran.err[:300]!r}"


def content(folder: Path) -> dict[str, Any]:
    """What a result holds, without times: rows of Parquet, keys of JSON, texts; of figures that they are there."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".parquet" and path.name != "seconds.parquet":
            frame = pl.read_parquet(path).drop(TIMES, strict=False)
            found[name] = (frame.columns, frame.rows())
        elif path.suffix in (".md", ".csv"):
            found[name] = path.read_text("utf-8")
        elif path.suffix == ".json":
            found[name] = sorted(json.loads(path.read_text("utf-8")))
        else:
            found[name] = path.is_dir() or path.stat().st_size > 0
    return found
