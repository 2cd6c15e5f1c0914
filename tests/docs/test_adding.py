"""The page about adding to a log lists every setting, with its default, every feature and every shipped recipe."""

from __future__ import annotations

import dataclasses
import re
from types import ModuleType
from typing import Any

import pytest

from generate.classifier.classifier_recipe import ClassifierTraining
from generate.recipes.toml_file import read_toml, shipped_recipes
from generate.signals import numeric, peers, serving, similarity
from generate.signals.additions import KINDS
from generate.signals.hidden_states import HiddenStates
from generate.signals.judge import Judge, Listwise
from generate.signals.logprob import LogProb
from generate.signals.random_score import RandomScore
from generate.signals.sequence_classifier import SequenceClassifier
from generate.signals.serving import SERVING
from tests.docs.test_reference import section
from toolkit.features import CLAIM_FEATURES

COMMON = ("pools", "split", "dataset", "answered", "samples", "examples")
SECTIONS: dict[str, tuple[list[Any], tuple[str, ...]]] = {
    "Which traces": ([RandomScore], ("name", "kind")),
    "Classifiers and reward models": ([SequenceClassifier], COMMON),
    "Judges": ([Judge, Listwise], COMMON),
    "Log-probabilities": ([LogProb], COMMON),
    "Training a classifier": ([ClassifierTraining], ()),
    "Features": (list(KINDS["features"].values()), COMMON),
    "Hidden states": ([HiddenStates], ("kind", *COMMON)),
}
MODULES: tuple[ModuleType, ...] = (numeric, peers, serving, similarity)
FUNCTIONS = {"length": "relative_justification_length"}
"""Functions of features whose name says more than the feature's."""


def rows(heading: str) -> dict[str, str]:
    """Key -> the cell of its default, in the last table of a section."""
    table = section("adding.md", heading).rpartition("| key | default | meaning |")[2]
    found: dict[str, str] = {}
    for keys, default in re.findall(r"^\| (`[^|]*) \| ?([^|]*?) ?\|", table, re.MULTILINE):
        names = re.findall(r"`([^`]+)`", keys)
        parts = default.split(", ") if default.count(", ") == len(names) - 1 else [default] * len(names)
        found |= dict(zip(names, parts, strict=True))
    return found


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_setting_is_listed_with_its_default(heading: str) -> None:
    classes, left_out = SECTIONS[heading]
    listed = rows(heading)
    every = [field for cls in classes for field in dataclasses.fields(cls) if field.name not in left_out]
    named = {"kind"} & set(dir(classes[0])) - set(left_out)  # a class is of one kind, a table has to name it
    assert set(listed) == {field.name for field in every} | named
    assert all(listed[name] == "required" for name in named)
    for name, field in ((field.name, field) for field in every):
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            assert listed[name] == "required", name
        elif isinstance(field.default, bool) and listed[name]:
            assert listed[name].strip("`") == str(field.default).lower(), name
        elif isinstance(field.default, int | float) and listed[name]:
            assert float(listed[name]) == field.default, name
        elif isinstance(field.default, str) and field.default and listed[name]:
            assert listed[name].strip("`") == field.default, name


@pytest.mark.parametrize("name", [*CLAIM_FEATURES, *SERVING, "peer_similarity", "peer_contradiction"])
def test_every_feature_says_what_it_is_its_range_and_its_source(name: str) -> None:
    function = FUNCTIONS.get(name, name)
    (made,) = {getattr(module, function) for module in MODULES if getattr(module, function, None) is not None}
    assert "Range" in made.__doc__
    assert "Source: " in made.__doc__
    assert f"`{name}`" in section("adding.md", "Features")


def test_every_recipe_that_adds_or_trains_is_named() -> None:
    text = section("recipes.md", "Recipes that ship")
    for name in shipped_recipes():
        if set(read_toml(name)[0]) & {"verify", "features", "states", "classifier"}:
            assert f"`{name}`" in text
