from dataclasses import replace

import pytest

import replay
from replay import Agreement, Budget, Margin, Oracle, Sample
from replay.policies.toml import MOST_POLICIES
from tests.errors import refuses
from toolkit.errors import ThinkbackError

HEAD = '[[policy]]\nname = "p"\nkind = "sample"\n'


def read(body: str) -> tuple[replay.Policy, ...]:
    return replay.load_policies(HEAD + body).policies


def test_a_table_becomes_a_policy():
    (policy,) = read('max_traces = 15\nverifier = "lora"\nstop = { rule = "margin", margin = 0.1 }\n')
    assert policy == Sample(name="p", max_traces=15, verifier="lora", stop=Margin(0.1, 3, 5))


def test_sweeps_multiply_and_name_in_the_order_written():
    made = read('verifier = "v"\nmax_traces = [5, 10]\nstop = { rule = "margin", margin = [0.10, 0.2] }\n')
    assert [p.name for p in made] == [
        "p[max_traces=5, stop.margin=0.10]",
        "p[max_traces=5, stop.margin=0.2]",
        "p[max_traces=10, stop.margin=0.10]",
        "p[max_traces=10, stop.margin=0.2]",
    ]
    assert {(p.sweep, p.sweep_size) for p in made} == {("p", 4)}
    assert made[2].swept == (("max_traces", 10), ("stop.margin", 0.1))
    assert made[2] == replace(made[2], swept=())
    assert made[0].stop == Margin(0.1)


def test_a_list_by_nature_is_no_sweep():
    text = '[[policy]]\nname = "o"\nkind = "oracle"\nof = ["a", "b"]\n'
    assert replay.load_policies(text).policies == (Oracle(name="o", of=("a", "b")),)


def test_run_wide_settings_stand_beside_the_policies():
    file = replay.load_policies(
        'measure = "credit"\n' + HEAD + 'max_traces = 1\nselect = "first"\n[prices.m]\nprompt = 1\ncompletion = 2.5\n'
    )
    assert file.measure == "credit"
    assert file.prices.per_million == {"m": (1.0, 2.5)}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('max_traces = 5\nselekt = "majority"\n', "unknown key `selekt`; did you mean `select`"),
        ('max_traces = 5\nselect = "majorty"\n', "did you mean `majority`"),
        ('max_traces = 5\nselect = "majority"\norder = "rnd"\n', "`order` is 'rnd'"),
        ('select = "majority"\n', "`max_traces` is required"),
        ("max_traces = 0\n", "`max_traces` is 0; it takes an integer, at least 1"),
        ("max_traces = 2.5\n", "`max_traces` is 2.5"),
        ("max_traces = true\n", "`max_traces` is True"),
        ("max_traces = 5\n", "needs a `verifier`"),
        ('max_traces = 5\nselect = "first"\n', "needs `max_traces = 1`"),
        ('max_traces = 5\nverifier = "v"\nstop = { rule = "marign" }\n', "did you mean `margin`"),
        ('max_traces = 5\nverifier = "v"\nstop = { rule = "margin", size = 2 }\n', "unknown key `size` in `[stop]`"),
        ('max_traces = 5\nselect = "majority"\nstop = { rule = "window" }\n', "`stop.size` is required"),
        ('max_traces = 5\nselect = "majority"\nstop = 3\n', "`stop` is 3; it takes one of `none`, "),
        ('max_traces = 5\nverifier = "v"\norder = "random"\nstop = { rule = "agreement" }\n', "needs stop `none`"),
        ('max_traces = 5\nverifier = "v"\norder = "score"\nstop = { rule = "budget", traces = 2 }\n', "needs stop"),
        ('max_traces = 5\nverifier = "v"\norder = "random"\nselect = "majority"\n', "not `majority`"),
        ('max_traces = 5\nverifier = "v"\norder = "random"\nexpected = true\n', "a budget of verifications"),
        ('max_traces = [5, 6]\nselect = "majority"\nagainst = "q"\n', "`against` names no policy: `q`"),
        ("max_traces = []\n", "`max_traces` is an empty list"),
        ('max_traces = 5\nverifier = "v"\norder = "surrogate"\nfeatures = 5\n', "`features` is 5"),
        ('max_traces = 5\nverifier = "v"\norder = "surrogate"\nfeatures = 1.5\n', "`features` is 1.5"),
        ('max_traces = 5\nverifier = "v"\norder = "surrogate"\nfeatures = true\n', "`features` is True"),
        ('max_traces = 5\nverifier = "v"\norder = "surrogate"\nfeatures = { a = 1 }\n', "`features` is {'a': 1}"),
        ('max_traces = 5\nverifier = "v"\norder = "surrogate"\nfeatures = [["length"], 3]\n', "`features` is 3"),
        ('max_traces = 5\nverifier = "v"\nstop = { rule = "margin", margin = -0.1 }\n', "a number of at least 0"),
        ('max_traces = 5\nverifier = "v"\nstop = { rule = "margin", margin = inf }\n', "a number of at least 0"),
        ('max_traces = 5\nselect = "majority"\nstop = { rule = "agreement", confidence = 95 }\n', "from 0 to 1"),
        (f'select = "majority"\nmax_traces = {list(range(1, MOST_POLICIES + 2))}\n', "makes 20,001 policies"),
    ],
)
def test_mistakes_are_named(body, message):
    with pytest.raises(ThinkbackError) as caught:
        read(body)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "`p" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy = 3\n", "it has no policy"),
        ("polcy = []\n", "did you mean `policy`"),
        ("[[policy]\n", "not valid TOML"),
        ('[[policy]]\nname = "p"\n', "has no `kind`"),
        ('[[policy]]\nname = "p"\nkind = "sampel"\n', "did you mean `sample`"),
        ('[[policy]]\nkind = "oracle"\nof = ["a"]\n', "`name`"),
        ('[[policy]]\nname = "o"\nkind = "oracle"\nof = ["a"]\nrule = "all"\n', "there are: `action`, `any`"),
        ('[[policy]]\nname = "o"\nkind = "oracle"\nof = []\n', "`of` takes a list"),
        (
            HEAD + 'max_traces = 1\nselect = "first"\n' + HEAD + 'max_traces = 2\nselect = "majority"\n',
            "two policies are named `p`",
        ),
        (HEAD + 'max_traces = 1\nselect = "first"\n[prices.m]\nprompt = 1\n', "`prices.m.completion` is required"),
    ],
)
def test_mistakes_of_the_file_are_named(text, message):
    with pytest.raises(ThinkbackError) as caught:
        replay.load_policies(text)
    assert message in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path):
    with refuses("format"):
        replay.load_policies(tmp_path / "nowhere.toml")


def test_built_in_python_the_same_things_are_refused():
    with refuses("conflict", "`a`"):
        replay.load_policies([Sample(name="a", max_traces=1, select="first")] * 2)
    with refuses("unsuitable", "`against`"):
        replay.load_policies(Sample(name="a", max_traces=1, select="first", against="a"))
    assert Sample(name="a", max_traces=3, select="majority", stop=Agreement()).verifies is False
    assert Sample(name="a", max_traces=3, select="majority", verifier="v", stop=Budget(verifications=2)).verifies
