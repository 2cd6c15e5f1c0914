"""The tables `[[verify]]`, `[[features]]` and `[[states]]` of a recipe: strict, and each mistake one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from generate.recipes.recipe import load_recipe
from generate.signals.additions import load_additions
from generate.signals.sequence_classifier import RewardModel
from tests.errors import refuses
from tests.logs import write_recipe

ENGINE = '[engine]\nkind = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
CHANCE = '[[verify]]\nname = "chance"\nkind = "random"\n'
STATES = '[[states]]\nmodel = "m"\nlayers = [-1]\n'


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", ("required", "`[[verify]]`", "`[[features]]`")),
        (CHANCE + "seeds = 1", ("unknown", "`seeds`", "`[verify.chance]`")),
        ('[[verify]]\nname = "x"\nkind = "judges"', ("unknown", "`verify.x.kind`", "`judge`", "'judges'")),
        ('[[verify]]\nname = "x"', ("required", "`verify.x.kind`", "`classifier`", "`judge`")),
        ('[[verify]]\nkind = "random"', ("required", "`verify.random.name`")),
        ("[verify]\nname = 1", ("invalid", "`[[verify]]`")),
        (CHANCE + CHANCE, ("conflict", "`verify.name`", "`chance`")),
        (CHANCE.replace('"chance"', '"a/b"'), ("invalid", "`/`")),
        (CHANCE.replace('"chance"', '".a"'), ("invalid", "`/`")),
        ('[[verify]]\nname = "j"\nkind = "judge"\nprompt = "score.txt"', ("required", "`[engine]`")),
        (ENGINE + '[[verify]]\nname = "j"\nkind = "judge"\nprompt = "scores.txt"', ("unknown",)),
        (
            ENGINE + '[[verify]]\nname = "j"\nkind = "judge"\nprompt = "score.txt"\nread = "xml"',
            ("unknown", "`verify.j.read`", "`json`", "`number`", "'xml'"),
        ),
        (
            '[[verify]]\nname = "l"\nkind = "logprob"\nprompt = "score.txt"',
            ("required", "`verify.l`", "`prompt`", "`model`"),
        ),
        ('[[verify]]\nname = "l"\nkind = "logprob"\nlast = 0', ("invalid", "`verify.l.last`", "0", "1")),
        ('[[verify]]\nname = "c"\nkind = "classifier"', ("required", "`verify.c.model`")),
        ('[[features]]\nkind = "claims"', ("required", "`features.claims`", "`[embedding]`")),
        ('[[features]]\nkind = "contradiction"', ("required", "`features.contradiction.model`")),
        ('[[features]]\nkind = "peers"\npattern = "("', ("invalid", "`pattern`")),
        ('[[features]]\nkind = "peers"\npattern = "x"', ("invalid", "`pattern`")),
        ('[[features]]\nkind = "serving"\npattern = "(x)"', ("conflict", "`claims`", "`peers`", "`contradiction`")),
        (
            '[[features]]\nkind = "serving"\n[[features]]\nkind = "serving"\nname = "two"',
            ("conflict", "`features.two`", "`difficulty`", "`serving`", "`prefix`"),
        ),
        (STATES, ("required", "`states.m.tokens`")),
        (STATES + "tokens = []", ("invalid", "`states.m.tokens`")),
        (STATES + "tokens = [1, 1]", ("invalid", "`states.m.tokens`", "[1, 1]")),
        (STATES + "tokens = { first = -4, last = 4 }", ("invalid", "0")),
        (STATES + "tokens = { first = -4, last = -8 }", ("invalid",)),
        (STATES + "tokens = { first = -4 }", ("required", "`states.m.tokens.last`")),
        (STATES + "tokens = { fist = -4, last = -1 }", ("unknown", "`fist`")),
        (CHANCE + "[verifies]\nx = 1", ("unknown", "`verifies`", "`verify`")),
    ],
)
def test_a_mistake_is_one_line_that_names_the_file_and_the_key(
    tmp_path: Path, text: str, refusal: tuple[str, ...]
) -> None:
    with refuses(*refusal, "`add.toml`"):
        load_additions(write_recipe(tmp_path, text))


def test_what_is_read(tmp_path: Path) -> None:
    text = (
        STATES
        + "tokens = { first = -16, last = -1 }\n"
        + CHANCE
        + '[[verify]]\nname = "orm"\nkind = "reward"\nmodel = "r"'
    )
    read = load_additions(write_recipe(tmp_path, text), ["verify.orm.label=1", "states.m.layers=[-1, -2]"])
    assert read.states[0].tokens == tuple(range(-16, 0))
    assert read.states[0].layers == (-1, -2)
    assert read.states[0].table == "hidden_states/m"
    assert isinstance(read.verify[1], RewardModel)
    assert (read.verify[1].scored_label, read.verify[1].label) == ("raw", 1)
    with refuses("unknown", "`orm`"):
        load_additions(tmp_path / "add.toml", ["verify.or.label=1"])
    with refuses("required", "`on`"):
        load_recipe(tmp_path / "add.toml")
