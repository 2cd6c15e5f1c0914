"""`thinkback fit-verifier` and `simulate --states`, from the command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.latent.models import AGGREGATES, MODELS, PLACES
from tests.errors import numbers, says
from thinkback.options import described
from toolkit.log.describe.verifier_quality import VOTES
from toolkit.show import SIMULATED

TRAIN = ("--train-on", "split='train'", "--name", "latent")


@pytest.fixture
def states(thinkback: Callable, tmp_path: Path) -> str:
    made = thinkback("simulate", "--states", "--examples", 60, "--traces", 4, "--places", 2, "--out", "states")
    assert "the best that a verifier can do on one place: AUC 0.8288, within questions 0.7602" in made.stdout
    return "states"


def test_a_verifier_comes_into_the_log_and_says_what_it_is_worth(thinkback: Callable, states: str) -> None:
    done = thinkback("fit-verifier", states, *TRAIN, "--rounds", 3, "--layers", "-1", "--tokens", "-2,-1")
    assert done.exit_code == 0
    assert "trained on 240 rows at 2 places of planted, 30 examples" in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("added `latent` to states: "))
    assert numbers(line) == ["240", "120"]
    assert SIMULATED in done.stdout
    assert re.search(r"Δ AUC, Δ within: [^`]*`latent`", done.stdout)
    assert thinkback("validate", states).exit_code == 0
    again = thinkback("fit-verifier", states, *TRAIN)
    assert again.exit_code == 2
    assert "`latent`" in again.stderr
    assert again.stderr.endswith("`--name`  [conflict]\n")
    described = thinkback("describe", states).stdout
    assert ": `planted`, pool `n4`" in described
    assert re.search(rf"Δ AUC, Δ within: [^`]*`{VOTES}`", described)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (("--layers", "one"), ("invalid", "`--layers`", "`one`")),
        (("--folds", "1"), ("invalid", "`--folds`", "1")),
        (("--inputs", "feature:none"), ("unknown", "`none`")),
        (("--states", "other"), ("unknown", "`other`")),
    ],
)
def test_mistakes_are_one_line(
    thinkback: Callable, states: str, options: tuple[str, ...], refusal: tuple[str, ...]
) -> None:
    done = thinkback("fit-verifier", states, *TRAIN, *options)
    assert done.exit_code == 2
    says(done, *refusal)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("model", "module", "extra"), [("xgboost", "xgboost", "xgboost-cpu"), ("swiglu", "torch", "generate")]
)
def test_a_missing_package_is_one_line_that_names_its_extra(
    thinkback: Callable, states: str, monkeypatch: pytest.MonkeyPatch, model: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    done = thinkback("fit-verifier", states, *TRAIN, "--model", model)
    assert done.exit_code == 2
    says(done, "package", module, f"'thinkback[{extra}]'")


def test_states_go_alone(thinkback: Callable) -> None:
    alone = thinkback("simulate", "--dimensions", 4, "--out", "log")
    assert alone.stderr.startswith("error: `--dimensions` ")
    assert alone.stderr.endswith("  [required]\n")
    assert thinkback("simulate", "--states", "--recovery", "--out", "log").exit_code == 2


def test_choices_of_the_command_are_those_of_the_settings() -> None:
    assert list(described("fit-verifier", "model").choices) == list(MODELS)
    assert list(described("fit-verifier", "places").choices) == list(PLACES)
    assert list(described("fit-verifier", "aggregate").choices) == list(AGGREGATES)


def test_a_long_name_is_a_short_file(thinkback: Callable, states: str) -> None:
    name = "a" * 300
    done = thinkback("fit-verifier", states, "--train-on", "split='train'", "--name", name, "--rounds", 1)
    assert done.exit_code == 0, done.stderr
    [file] = Path(states, "models").iterdir()
    assert len(file.name) < 120
