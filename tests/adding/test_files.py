"""The tables `[[verify]]`, `[[features]]` and `[[states]]` of a recipe: strict, and each mistake one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from generate.recipes.recipe import load_recipe
from generate.signals.additions import load_additions
from generate.signals.sequence_classifier import RewardModel
from tests.adding.makers import write_recipe
from tests.errors import refuses
from toolkit.errors import ThinkbackError

ENGINE = '[engine]\nkind = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
CHANCE = '[[verify]]\nname = "chance"\nkind = "random"\n'
STATES = '[[states]]\nmodel = "m"\nlayers = [-1]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "adds nothing to a log"),
        (CHANCE + "seeds = 1", "unknown key `seeds` in `[verify.chance]`"),
        ('[[verify]]\nname = "x"\nkind = "judges"', "`verify.x.kind` is 'judges'; did you mean `judge`"),
        ('[[verify]]\nname = "x"', "`verify.x.kind` is required; it takes one of `classifier`, `judge`"),
        ('[[verify]]\nkind = "random"', "`verify.random.name` is required"),
        ("[verify]\nname = 1", "write it as `[[verify]]`, once for each"),
        (CHANCE + CHANCE, "`verify.name` `chance` names two steps"),
        (CHANCE.replace('"chance"', '"a/b"'), "it takes a name without `/`"),
        (CHANCE.replace('"chance"', '".a"'), "it takes a name without `/`"),
        ('[[verify]]\nname = "j"\nkind = "judge"\nprompt = "score.txt"', "a verifier that prompts a model needs"),
        (ENGINE + '[[verify]]\nname = "j"\nkind = "judge"\nprompt = "scores.txt"', "did you mean"),
        (
            ENGINE + '[[verify]]\nname = "j"\nkind = "judge"\nprompt = "score.txt"\nread = "xml"',
            "`verify.j.read` is 'xml'; there are: `json`, `number`",
        ),
        ('[[verify]]\nname = "l"\nkind = "logprob"\nprompt = "score.txt"', "`verify.l`: `prompt` needs a `model`"),
        ('[[verify]]\nname = "l"\nkind = "logprob"\nlast = 0', "`verify.l.last` is 0; it takes an integer, at least 1"),
        ('[[verify]]\nname = "c"\nkind = "classifier"', "`verify.c.model` is required"),
        ('[[features]]\nkind = "claims"', "`features.claims` compares texts: it needs `[embedding]`"),
        ('[[features]]\nkind = "contradiction"', "`features.contradiction.model` is required"),
        ('[[features]]\nkind = "peers"\npattern = "("', "`pattern` is not a regular expression"),
        ('[[features]]\nkind = "peers"\npattern = "x"', "has no group"),
        ('[[features]]\nkind = "serving"\npattern = "(x)"', "needs the kind `claims`, `peers`, `contradiction`"),
        (
            '[[features]]\nkind = "serving"\n[[features]]\nkind = "serving"\nname = "two"',
            "`features.two` writes the column `difficulty` of `serving`: set a `prefix`",
        ),
        (STATES, "`states.m.tokens` is required"),
        (STATES + "tokens = []", "`states.m.tokens` is []; it takes a list of integers, each once"),
        (STATES + "tokens = [1, 1]", "`states.m.tokens` is [1, 1]; it takes a list of integers, each once"),
        (STATES + "tokens = { first = -4, last = 4 }", "on one side of 0"),
        (STATES + "tokens = { first = -4, last = -8 }", "a span runs up"),
        (STATES + "tokens = { first = -4 }", "`states.m.tokens.last` is required"),
        (STATES + "tokens = { fist = -4, last = -1 }", "unknown key `fist`"),
        (CHANCE + "[verifies]\nx = 1", "unknown key `verifies`; did you mean `verify`"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ThinkbackError) as error:
        load_additions(write_recipe(tmp_path, text))
    assert str(error.value).startswith("recipe `add.toml`: ")
    assert message in str(error.value).replace("`states.states", "`states.m")
    assert "\n" not in str(error.value)


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
    assert (read.verify[1].scored, read.verify[1].label) == ("raw", 1)
    with refuses("unknown", "`orm`"):
        load_additions(tmp_path / "add.toml", ["verify.or.label=1"])
    with refuses("required", "`on`"):
        load_recipe(tmp_path / "add.toml")
