"""The tables `[[verify]]`, `[[features]]` and `[[states]]` of a recipe: strict, and each mistake one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from generate.recipes.recipe_file import load_recipe
from generate.signals.additions import Classifier
from generate.signals.additions_file import load_additions
from tests.adding.makers import write_recipe
from toolkit.errors import ThinkbackError

ENGINE = '[engine]\nkind = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
CHANCE = '[[verify]]\nname = "chance"\nkind = "random"\n'
STATES = '[[states]]\nmodel = "m"\nlayers = [-1]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "adds nothing to a log"),
        (CHANCE + "seeds = 1", "unknown key `seeds` in `[verify.chance]`"),
        ('[[verify]]\nname = "x"\nkind = "judges"', "`verify.x.kind` can't be `judges`; did you mean `judge`"),
        ('[[verify]]\nname = "x"', "`verify.x.kind` is missing"),
        ('[[verify]]\nkind = "random"', "`verify.random.name` is missing"),
        ("[verify]\nname = 1", "`verify` must be written as `[[verify]]`, once for each one"),
        (CHANCE + CHANCE, "`verify.name` `chance` names two steps"),
        (CHANCE.replace('"chance"', '"a/b"'), "must be a name without `/`"),
        (CHANCE.replace('"chance"', '".a"'), "must be a name without `/`"),
        ('[[verify]]\nname = "j"\nkind = "judge"\nprompt = "score.txt"', "a verifier that is asked needs `[engine]`"),
        (ENGINE + '[[verify]]\nname = "j"\nkind = "judge"\nprompt = "scores.txt"', "did you mean"),
        (ENGINE + '[[verify]]\nname = "j"\nkind = "judge"\nprompt = "score.txt"\nread = "xml"', "can't be `xml`"),
        ('[[verify]]\nname = "l"\nkind = "logprob"\nprompt = "score.txt"', "`verify.l.prompt` goes with a `model`"),
        ('[[verify]]\nname = "l"\nkind = "logprob"\nlast = 0', "`verify.l.last` must be at least 1"),
        ('[[verify]]\nname = "c"\nkind = "classifier"', "`verify.c.model` is missing"),
        ('[[features]]\nkind = "claims"', "features that compare texts need `[embedding]`"),
        ('[[features]]\nkind = "contradiction"', "`features.contradiction.model` is missing"),
        ('[[features]]\nkind = "serving"\npattern = "("', "is no regular expression"),
        ('[[features]]\nkind = "serving"\npattern = "x"', "has no group"),
        (
            '[[features]]\nkind = "serving"\n[[features]]\nkind = "serving"\nname = "two"',
            "`features.two` writes the columns of `serving`: set a `prefix`",
        ),
        (STATES, "`states.m.tokens` is missing"),
        (STATES + "tokens = []", "must be a list of whole numbers"),
        (STATES + "tokens = [1, 1]", "names a number twice"),
        (STATES + "tokens = { first = -4, last = 4 }", "on one side of 0"),
        (STATES + "tokens = { first = -4, last = -8 }", "a span runs up"),
        (STATES + "tokens = { first = -4 }", "needs both ends"),
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
    assert isinstance(read.verify[1], Classifier)
    assert (read.verify[1].scored, read.verify[1].label) == ("raw", 1)
    with pytest.raises(ThinkbackError, match="there is no such name; did you mean `orm`"):
        load_additions(tmp_path / "add.toml", ["verify.or.label=1"])
    with pytest.raises(ThinkbackError, match="makes no log, but adds to one: name it with `--on LOG`"):
        load_recipe(tmp_path / "add.toml")
