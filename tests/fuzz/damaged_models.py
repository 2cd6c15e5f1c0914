"""Files of models with other values, given their hash anew: gates, verifiers on hidden states, their records in a
manifest, classifiers' settings. They are read, score rows, and gates are run by policies.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from generate.engines.weights import ModelFiles
from generate.signals.sequence_classifier import ADAPTER, SETTINGS_FILE, read_adapter, read_classifier
from replay.data.fitted_scores import fitted_verifiers
from replay.latent.fitting import _require_fit_record, _settings_of_fit_record
from replay.latent.verifier_file import load_verifier
from replay.policies.gate_file import gate_file_text, load_gate
from tests.fuzz.campaign import Case
from tests.fuzz.commands import ROOT, Commands
from tests.fuzz.damage import damaged_json
from tests.fuzz.endings import changes, faults, state
from toolkit.log import open_log
from toolkit.log.contract.manifest import MANIFEST

AT_ONCE = 25
"""Files that a case only has read; one gate more it runs."""
GATE = ("--action", "active_verify", "--base", "short", "--tune", "split='dev'")
FITTED = ("--on", "split='train'")
WHEN = """
[[policy]]
name = "first"
kind = "sample"
pool = "short"
max_traces = 1
select = "first"

[[policy]]
name = "gated"
kind = "when"
base = "first"
gate = { file = "file.json", reuse = true }
then = { kind = "act", action = "active_verify", base = "short" }
"""


def use_gate(path: str) -> None:
    """Read a gate and score rows by it, with numbers of every size."""
    gate = load_gate(path)
    gate.seen_question_hashes()
    values = np.random.default_rng(0).choice([0.0, -1.0, 3e4, 1e30, -1e300, np.nan], (20, len(gate.features)))
    gate.probabilities(values)


def use_verifier(path: str) -> None:
    """Read a verifier and score rows by each of its models."""
    saved = load_verifier(path)
    for number, (_, width) in enumerate(saved.scorers):
        if width < 10_000:
            rows = np.random.default_rng(0).choice([0.0, -1.0, 1e30, np.nan], (20, width))
            saved.probabilities(rows, saved.places[number] if saved.has_model_for_each_place else None)


def use_record(path: str) -> None:
    """Read what a manifest says of fitted verifiers."""
    log = open_log(Path(path).parent)
    for name in fitted_verifiers(log):
        _settings_of_fit_record(*_require_fit_record(log, name), name)


def use_classifier(path: str) -> None:
    """Read a classifier's settings, its adapter's, and its model's end tokens."""
    folder = Path(path).parent
    read_classifier(folder)
    read_adapter(folder)
    ModelFiles(folder, "own", None).end_tokens()


USES: Mapping[str, Callable[[str], None]] = {
    "gate": use_gate, "verifier": use_verifier, "record": use_record, "classifier": use_classifier,
}  # fmt: skip


class DamagedModels:
    """See the module."""

    name, about = "models", "damaged files of models, with their hash"
    share = 3.0

    def prepare(self, folder: Path, commands: Commands) -> None:
        """A model of every kind."""
        run = self._runner(commands, folder)
        run("simulate", "--recovery", "--examples", "600", "--out", "revised")
        for kind in ("logistic", "trees", "score"):
            words = (*GATE, "--features", "completion_tokens") if kind == "score" else (*GATE, *FITTED)
            run("fit-gate", "revised", *words, "--kind", kind, "--out", f"{kind}.json")
        run("simulate", "--states", "--examples", "40", "--traces", "4", "--out", "planted")
        for kind, places in (("xgboost", "one"), ("logistic", "mean"), ("mlp", "each"), ("swiglu", "one")):
            words = ("--name", kind, "--model", kind, "--places", places, "--folds", "2", "--rounds", "3")
            run("fit-verifier", "planted", "--train-on", "split='train'", *words)
        shipped = ROOT / "data" / "models" / "algebra-verifier"
        self.files = {
            "gate": [(folder / f"{kind}.json", "gate.json") for kind in ("logistic", "trees", "score")],
            "verifier": [(path, path.name) for path in sorted((folder / "planted" / "models").iterdir())],
            "record": [(folder / "planted" / MANIFEST, MANIFEST)],
            "classifier": [(shipped / SETTINGS_FILE, SETTINGS_FILE), (shipped / ADAPTER, ADAPTER),
                           (ROOT / "data" / "models" / "algebra-1m" / "config.json", "config.json")],
        }  # fmt: skip
        self.base = folder

    def run(self, case: Case) -> None:
        """Many files that are read, and a gate by which a log is replayed."""
        for number in range(AT_ONCE):
            kind = case.rng.choice(list(USES))
            place = case.folder / str(number)
            file = self._written(case, kind, place)
            ran = case.commands.call(f"{__name__}:use_{kind}", str(file), folder=place, limit_s=30)
            self._judge(case, list(faults(ran)), f"{kind} {'taken' if ran.code == 0 else 'refused'}")
            if not case.failures:
                shutil.rmtree(place)
        place = case.folder / "run"
        shutil.move(self._written(case, "gate", place), place / "file.json")
        (place / "p.toml").write_text(WHEN)
        words = ("replay", self.base / "revised", "--policies", "p.toml", "--resamples", "20", "--out", "out")
        before = state(place)
        ran = case.commands.run(*words, folder=place)
        found = [*faults(ran), *changes(before, state(place, () if ran.code else ("out",)))]
        self._judge(case, found, "replayed" if ran.code == 0 else "replay refused")

    def _written(self, case: Case, kind: str, place: Path) -> Path:
        """A damaged file among what it needs."""
        place.mkdir()
        source, name = case.rng.choice(self.files[kind])
        if kind == "record":
            for one in source.parent.iterdir():
                (place / one.name).symlink_to(one)
            (place / name).unlink()
        text = source.read_text("utf-8")
        damaged = damaged_json(case.rng, text)[0]
        if kind == "record" and case.rng.random() < 0.8:  # what is said of verifiers alone
            manifest = json.loads(text)
            damaged = _with_sections(manifest, case)
        (place / name).write_text(_signed(damaged) if kind == "gate" else damaged, "utf-8", "surrogateescape")
        return place / name

    def _judge(self, case: Case, found: list[str], kind: str) -> None:
        case.failures += found
        case.count("fault" if found else kind)

    def _runner(self, commands: Commands, folder: Path) -> Callable[..., None]:
        def run(*words: str) -> None:
            ran = commands.run(*words, folder=folder)
            if ran.code != 0:
                raise RuntimeError(f"{ran.told}: {ran.err}")

        return run


def _with_sections(manifest: dict[str, object], case: Case) -> str:
    source = manifest["source"]
    assert isinstance(source, dict)
    section = damaged_json(case.rng, json.dumps(source["verifiers"]))[0]
    rest = json.dumps({**manifest, "source": {**source, "verifiers": None}})
    return rest.replace('"verifiers": null', f'"verifiers": {section}')


def _signed(text: str) -> str:
    """A document with its hash, where it is one that can have one."""
    try:
        document = json.loads(text)
        return gate_file_text(document) if isinstance(document, dict) else text
    except (ValueError, RecursionError):
        return text
