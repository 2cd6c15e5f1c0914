from dataclasses import replace

import pytest

import replay
from replay import Agreement, Budget, Margin, Oracle, Sample
from replay.policies.toml import MOST_POLICIES
from tests.errors import refuses, says
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
    ("body", "refusal"),
    [
        ('max_traces = 5\nselekt = "majority"\n', ("unknown", "`selekt`", "`select`")),
        ('max_traces = 5\nselect = "majorty"\n', ("unknown", "`majority`")),
        ('max_traces = 5\nselect = "majority"\norder = "rnd"\n', ("unknown", "`order`", "'rnd'")),
        ("max_traces = 0\n", ("invalid", "`max_traces`", "0", "1")),
        ("max_traces = 2.5\n", ("invalid", "`max_traces`", "2.5")),
        ("max_traces = true\n", ("invalid", "`max_traces`")),
        ("max_traces = 5\n", ("unsuitable", "`verifier`")),
        ('max_traces = 5\nselect = "first"\n', ("unsuitable", "`max_traces = 1`")),
        ('max_traces = 5\nverifier = "v"\nstop = { rule = "marign" }\n', ("unknown", "`margin`")),
        ('max_traces = 5\nverifier = "v"\nstop = { rule = "margin", size = 2 }\n', ("unknown", "`size`", "`[stop]`")),
        ('max_traces = 5\nselect = "majority"\nstop = { rule = "window" }\n', ("required", "`stop.size`")),
        ('max_traces = 5\nselect = "majority"\nstop = 3\n', ("invalid", "`stop`", "`none`", "3")),
        ('max_traces = 5\nverifier = "v"\norder = "random"\nstop = { rule = "agreement" }\n', ("unsuitable", "`none`")),
        (
            'max_traces = 5\nverifier = "v"\norder = "score"\nstop = { rule = "budget", traces = 2 }\n',
            ("unsuitable", "`none`", "`margin`"),
        ),
        ('max_traces = 5\nverifier = "v"\norder = "random"\nselect = "majority"\n', ("unsuitable", "`majority`")),
        ('max_traces = 5\nverifier = "v"\norder = "random"\nexpected = true\n', ("unsuitable",)),
        ('max_traces = [5, 6]\nselect = "majority"\nagainst = "q"\n', ("unsuitable", "`against`", "`q`")),
        ("max_traces = []\n", ("invalid", "`max_traces`")),
        ('max_traces = 5\nverifier = "v"\norder = "surrogate"\nfeatures = 5\n', ("invalid", "`features`", "5")),
        ('max_traces = 5\nverifier = "v"\norder = "surrogate"\nfeatures = 1.5\n', ("invalid", "`features`", "1.5")),
        ('max_traces = 5\nverifier = "v"\norder = "surrogate"\nfeatures = true\n', ("invalid", "`features`")),
        (
            'max_traces = 5\nverifier = "v"\norder = "surrogate"\nfeatures = { a = 1 }\n',
            ("invalid", "`features`", "'a'", "1"),
        ),
        (
            'max_traces = 5\nverifier = "v"\norder = "surrogate"\nfeatures = [["length"], 3]\n',
            ("invalid", "`features`", "3"),
        ),
        ('max_traces = 5\nverifier = "v"\nstop = { rule = "margin", margin = -0.1 }\n', ("invalid", "0")),
        ('max_traces = 5\nverifier = "v"\nstop = { rule = "margin", margin = inf }\n', ("invalid", "0")),
        (
            'max_traces = 5\nselect = "majority"\nstop = { rule = "agreement", confidence = 95 }\n',
            ("invalid", "0", "1"),
        ),
        (f'select = "majority"\nmax_traces = {list(range(1, MOST_POLICIES + 2))}\n', ("limit", "20,001")),
    ],
)
def test_mistakes_are_named(body, refusal):
    with pytest.raises(ThinkbackError) as caught:
        read(body)
    says(caught.value, *refusal)
    assert "`p" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("policy = 3\n", ("required", "`[[policy]]`")),
        ("polcy = []\n", ("unknown", "`policy`")),
        ("[[policy]\n", ("format",)),
        ('[[policy]]\nname = "p"\n', ("required", "`kind`")),
        ('[[policy]]\nname = "p"\nkind = "sampel"\n', ("unknown", "`sample`")),
        ('[[policy]]\nkind = "oracle"\nof = ["a"]\n', ("required", "`name`")),
        ('[[policy]]\nname = "o"\nkind = "oracle"\nof = ["a"]\nrule = "all"\n', ("unknown", "`action`", "`any`")),
        ('[[policy]]\nname = "o"\nkind = "oracle"\nof = []\n', ("unsuitable", "`of`")),
        (
            HEAD + 'max_traces = 1\nselect = "first"\n' + HEAD + 'max_traces = 2\nselect = "majority"\n',
            ("conflict", "`p`"),
        ),
        (HEAD + 'max_traces = 1\nselect = "first"\n[prices.m]\nprompt = 1\n', ("required", "`prices.m.completion`")),
    ],
)
def test_mistakes_of_the_file_are_named(text, refusal):
    with refuses(*refusal):
        replay.load_policies(text)


def test_a_missing_file_is_one_line(tmp_path):
    with refuses("format", f"{tmp_path / 'nowhere.toml'}"):
        replay.load_policies(tmp_path / "nowhere.toml")


def test_built_in_python_the_same_things_are_refused():
    with refuses("conflict", "`a`"):
        replay.load_policies([Sample(name="a", max_traces=1, select="first")] * 2)
    with refuses("unsuitable", "`against`"):
        replay.load_policies(Sample(name="a", max_traces=1, select="first", against="a"))
    assert Sample(name="a", max_traces=3, select="majority", stop=Agreement()).makes_verifications is False
    assert Sample(
        name="a", max_traces=3, select="majority", verifier="v", stop=Budget(verifications=2)
    ).makes_verifications


def test_the_policies_of_all_tables_count_together() -> None:
    table = '[[policy]]\nname = "{}"\nkind = "sample"\npool = "n8"\nmax_traces = {}\n'
    half = list(range(1, MOST_POLICIES // 2 + 2))
    with refuses("limit", "20,002"):
        replay.load_policies(table.format("one", half) + table.format("two", half))
