"""What somebody adds from a file of their own works everywhere: in files, tables, outcomes, notes and explanations."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from replay import KINDS, ORDERS, SELECTS, STOPS, Sample, load, load_policies, run
from tests.errors import refuses, says
from tests.logs import log, tables
from thinkback.app import app
from toolkit.columns import METRICS, OutcomeColumn
from toolkit.log import collect, open_log, write_log

POOL = {
    "e1": [("A", 0.4), ("A", 0.9), ("B", 0.1)],
    "e2": [("B", 0.2), ("A", 0.3), ("B", 0.8)],
    "e3": [("A", 0.7), (None, None), ("B", 0.6)],
}
GOLDS = {"e1": "A", "e2": "B", "e3": "A"}
TEXT = """
[[policy]]
name = "first"
kind = "sample"
max_traces = 1
select = "first"

[[policy]]
name = "third"
kind = "nth"
pool = "n3"
number = 2

[[policy]]
name = "once they agree"
kind = "sample"
max_traces = 3
stop = { rule = "unanimous", size = [2, 3] }
select = "latest"

[[policy]]
name = "agreed"
kind = "sample"
max_traces = 3
select = { rule = "latest agreed", lead = [1, 2] }

[[policy]]
name = "from the back"
kind = "sample"
max_traces = 3
verifier = "v"
order = "backwards"
stop = { rule = "budget", verifications = 1 }

[[policy]]
name = "third when wrong"
kind = "when"
base = { kind = "sample", max_traces = 1, select = "first" }
gate = { verifier = "v", below = 0.3 }
then = { kind = "nth", pool = "n3", number = 2 }
"""


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    before = [dict(registry) for registry in (KINDS, ORDERS, SELECTS, STOPS, METRICS)]
    from tests.toys import agreed, backwards, first_rounds, latest, nth, tokens_per_right, unanimous

    METRICS["tokens_per_right"] = tokens_per_right.TOKENS_PER_RIGHT
    for toy in (nth.Nth, first_rounds.FirstRounds, backwards.Backwards, unanimous.Unanimous):
        registry = {"Nth": KINDS, "FirstRounds": KINDS, "Backwards": ORDERS, "Unanimous": STOPS}[toy.__name__]
        registry[getattr(toy, "kind", None) or toy.name] = toy
    SELECTS.update({"latest": latest.Latest, agreed.Agreed.name: agreed.Agreed})
    yield
    for registry, kept in zip((KINDS, ORDERS, SELECTS, STOPS, METRICS), before, strict=True):
        registry.clear()
        registry.update(kept)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log(tmp_path, {"n3": POOL}, GOLDS)
    (tmp_path / "policies.toml").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def thinkback(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_replays_them(home: Path) -> None:
    """By hand: the third trace is B, B, B; two of two agree on e1 alone, three of three never; the answers that come
    last are B, A, B, and those with two votes A, B, none.
    """
    told = thinkback("replay", "log", "--policies", "policies.toml", "--resamples", "50", "--out", "o")
    outcomes = pl.read_parquet(home / "o" / "outcomes.parquet").sort("policy", "example_id")

    def column(policy: str, name: str) -> list[object]:
        return outcomes.filter(policy=policy)[name].to_list()

    assert column("third", "answer") == ["B", "B", "B"]
    assert column("third", "traces") == [1.0, 1.0, 1.0]
    assert column("third", "skipped") == [2.0, 2.0, 2.0]
    assert column("once they agree[stop.size=2]", "traces") == [2.0, 3.0, 3.0]
    assert column("once they agree[stop.size=2]", "ending") == ["rule", "cap", "cap"]
    assert column("once they agree[stop.size=2]", "answer") == ["A", "B", "B"]
    assert column("agreed[select.lead=1]", "answer") == ["B", "A", "B"]
    assert column("agreed[select.lead=2]", "answer") == ["A", "B", "A"]
    assert column("from the back", "answer") == ["B", "B", "B"]
    assert column("from the back", "verifications") == [1.0, 1.0, 1.0]
    assert column("third when wrong", "intervened") == [0.0, 1.0, 0.0]
    assert column("third when wrong", "answer") == ["A", "B", "A"]
    assert column("third when wrong", "skipped") == [0.0, 2.0, 0.0]
    summary = pl.read_parquet(home / "o" / "summary.parquet").filter(metric="skipped")
    assert dict(summary.select("policy", "estimate").iter_rows())["third"] == 2.0
    ratios = pl.read_parquet(home / "o" / "summary.parquet").filter(metric="tokens_per_right")
    # 15 tokens for 3 of 3; 15 for 1 of 3; 40 for 2 of 3; 24 for 3 of 3
    assert dict(ratios.select("policy", "estimate").iter_rows()) | {
        "first": 15.0, "third": 45.0, "once they agree[stop.size=2]": 60.0, "third when wrong": 24.0,
    } == dict(ratios.select("policy", "estimate").iter_rows())  # fmt: skip
    assert "tokens/right" in told.split("\n")[2]
    assert "skipped" in told.split("\n")[1] + told.split("\n")[2] + told.split("\n")[3]
    assert "traces before the one taken are skipped in n3" in told


@pytest.fixture
def evalchemy() -> Iterator[None]:
    """The line that the program has for every file of the folder of formats."""
    from thinkback.app import importing
    from thinkback.commands.import_ import format_command
    from thinkback.options import LazyCommand
    from toolkit.imports.formats.format import FORMATS, _read_format

    FORMATS["evalchemy"] = _read_format(Path(__file__).parent / "toys" / "evalchemy.toml")
    importing.command("evalchemy", hidden=True)(LazyCommand(format_command("evalchemy"), "import auto"))
    yield
    importing.registered_commands.pop()
    del FORMATS["evalchemy"]


@pytest.mark.parametrize("way", ["evalchemy", "auto"])
def test_the_command_imports_a_format_by_its_name_and_by_what_files_hold(
    way: str, evalchemy: None, tmp_path: Path
) -> None:
    lines = [
        {"task_name": "sums", "number": 1, "asked": "1 + 1?", "answer": 2, "outputs": ["It is 2", "It is 3"]},
        {"task_name": "sums", "number": 2, "asked": "2 + 2?", "answer": 4, "outputs": ["4", "so 4"]},
    ]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "chemy.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = thinkback("import", way, str(tmp_path / "run"), "--out", str(tmp_path / "log"))
    assert re.search(r"^evalchemy .*: tokens and seconds$", told, re.MULTILINE)
    assert "right: 3 of 4 judged traces" in told
    assert ("taken as evalchemy (evalchemy: one line a question): 1 file" in told) == (way == "auto")
    log_ = open_log(tmp_path / "log")
    traces = collect(log_.scan("traces", ["example_id", "answer", "correct"]), log_).sort("example_id", "answer")
    assert traces.rows() == [
        ("sums/1", "2", True),
        ("sums/1", "3", False),
        ("sums/2", "4", True),
        ("sums/2", "4", True),
    ]


PARTS = """
[[policy]]
name = "when"
kind = "when"
base = { kind = "nth", pool = "n3", number = 1 }
gate = { verifier = "v", below = 0.5 }
then = { kind = "nth", pool = "n3", number = 2 }

[[policy]]
name = "route"
kind = "route"
route = { column = "hard", at_least = 0.5 }
then = { kind = "nth", pool = "n3", number = 2 }
else = { kind = "sample", max_traces = 1, select = "first" }

[[policy]]
name = "half"
kind = "oracle"
rule = "matched_random"
base = { kind = "sample", max_traces = 1, select = "first" }
then = { kind = "nth", pool = "n3", number = 2 }
rate = [0.0, 0.25]
"""


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (True, {"when": [3.0, 1.0], "route": [0.0, 2.0], "half[rate=0.0]": [0.0] * 2, "half[rate=0.25]": [0.5] * 2}),
        (
            False,
            {"when": [2.0, 1.0], "route": [None, 2.0], "half[rate=0.0]": [None] * 2, "half[rate=0.25]": [None] * 2},
        ),
    ],
)
def test_columns_of_parts_are_in_the_outcomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: bool, expected: dict[str, list[float | None]]
) -> None:
    """The gate fires on the first example alone; what the base skipped is paid in any case, if it is a cost."""
    from tests.toys.nth import Nth

    column = OutcomeColumn("skipped", unit="traces", cost=cost)
    monkeypatch.setattr(Nth, "columns", property(lambda self: (column,)))
    pools = {"n3": {"e1": [("A", 0.4), ("A", 0.4), ("B", 0.1)], "e2": [("B", 0.2), ("A", 0.6), ("B", 0.8)]}}
    made = tables(pools, {"e1": "A", "e2": "B"})
    made["examples"] = made["examples"].with_columns(hard=pl.Series([0.0, 1.0]))
    found = run(write_log(tmp_path / "log", name="parts", tables=made), PARTS, resamples=20).outcomes.collect()
    rows = found.sort("example_id").group_by("policy", maintain_order=True).agg("skipped").iter_rows()
    assert dict(rows) == expected


def test_tuning_shows_a_metric_as_its_row_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call for 15 tokens: a share has four decimals."""
    share = OutcomeColumn("calls_per_token", computed="ratio", ratio=("calls", "total_tokens"), share=True)
    monkeypatch.setitem(METRICS, share.name, share)
    words = ("--on", "example_id = 'e1'", "--report", "example_id <> 'e1'", "--resamples", "20")
    told = thinkback("tune", "log", "--policies", "policies.toml", *words, "--goal", "max calls_per_token")
    assert "0.0667" in told


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("third", ("the one trace", "answer B (wrong)")),
        ("once they agree[stop.size=2]", ("the stopping rule held", "answer A (right)")),
        ("agreed[select.lead=2]", ("select `latest agreed`", "answer A (right)")),
        ("from the back", ("answer B (wrong)", "1 verification,")),
        ("third when wrong", ("does not fire", "answer A (right)")),
    ],
)
def test_explain_follows_them(home: Path, policy: str, words: tuple[str, ...]) -> None:
    told = thinkback("explain", "log", "--policies", "policies.toml", "--policy", policy, "--example", "e1")
    for word in words:
        assert word in told


def test_a_rule_that_is_not_built_in_is_checked_for_looking_ahead(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.toys.unanimous import Unanimous

    monkeypatch.setattr(Unanimous, "holds", lambda self, seen: seen.votes >= seen.votes.max(axis=1, keepdims=True))
    done = CliRunner().invoke(app, ["replay", "log", "--policies", "policies.toml", "--out", "o"])
    assert done.exit_code == 2
    assert "looks ahead" in done.output


@pytest.mark.parametrize(
    ("select", "refusal"),
    [
        ('{ rule = "latest agreed", lead = 0 }', ("invalid", "`select.lead`", "0", "1")),
        ('{ rule = "latest agreed", led = 2 }', ("unknown", "`led`", "`[select]`", "`lead`")),
        ('{ rule = "latest", lead = 2 }', ("conflict", "`latest`", "`lead`")),
        ('"latest agred"', ("unknown", "`latest agred`", "`latest agreed`")),
    ],
)
def test_a_select_s_parameters_are_checked(home: Path, select: str, refusal: tuple[str, ...]) -> None:
    text = f'[[policy]]\nname = "p"\nkind = "sample"\nmax_traces = 3\nselect = {select}\n'
    (home / "policies.toml").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["replay", "log", "--policies", "policies.toml", "--out", "o"])
    assert done.exit_code == 2
    says(done, *refusal)


@pytest.mark.parametrize("select", ["latest agreed", "latest"])
def test_a_shipped_select_in_either_form_may_have_parameters(select: str) -> None:
    text = f'[[policy]]\nname = "p"\nkind = "sample"\nmax_traces = 3\nselect = "{select}"\n'
    policy = load_policies(text).policies[0]
    assert isinstance(policy, Sample)
    assert policy == Sample(name="p", max_traces=3, select=select)
    records = {"latest agreed": {"rule": "latest agreed", "lead": 2}, "latest": {"rule": "Latest"}}
    assert policy.select_rule.record() == records[select]


def test_a_user_s_file_becomes_a_shipped_rule_by_one_line(home: Path) -> None:
    """The same class by `--rules` and in the registry: the same outcomes."""
    text = (Path(__file__).parent / "toys" / "latest.py").read_text(encoding="utf-8")
    (home / "rules.py").write_text(text.replace('SELECTS["latest"] = Latest', ""), encoding="utf-8")
    made = []
    for name in ("Latest", "latest"):
        file = f'[[policy]]\nname = "p"\nkind = "sample"\nmax_traces = 3\nselect = "{name}"\n'
        (home / "policies.toml").write_text(file, encoding="utf-8")
        words = ("--rules", "rules.py") if name == "Latest" else ()
        thinkback("replay", "log", "--policies", "policies.toml", "--resamples", "20", "--out", name, *words)
        made.append(pl.read_parquet(home / name / "outcomes.parquet"))
    assert made[0].equals(made[1])


ROUNDS = """
[[policy]]
name = "rounds"
kind = "first rounds"
count = [1, 2]

[[policy]]
name = "all"
kind = "first rounds"
count = 9
against = "rounds[count=1]"
"""


def round_tables() -> dict[str, pl.DataFrame]:
    """Two rounds of `e1`, whose second has the gold document; one of `e2`, which is unjudged; one of `e3`, with it."""
    golds = {"e1": ["d3"], "e2": None, "e3": ["d1", "d9"]}
    examples = {"example_id": list(golds), "gold_documents": list(golds.values())}
    texts = {name: ["x"] * len(golds) for name in ("dataset", "split", "question")}
    rows = [("e1", 0, ["d1", "d2"]), ("e1", 1, ["d3"]), ("e2", 0, ["d1"]), ("e3", 0, ["d1"])]
    rounds = [
        {"example_id": e, "pool": "r", "hop": 0, "round": n, "documents": d, "relevance": [0.5] * len(d),
         "answers": ["a"], "clusters": [0], "calls": 2, "prompt_tokens": 10, "completion_tokens": 5, "latency_s": 1.5}
        for e, n, d in rows
    ]  # fmt: skip
    return {"examples": pl.DataFrame(examples | texts), "rounds": pl.DataFrame(rounds)}


def test_a_kind_on_another_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: one round sees no gold on e1 and one on e3, two see one on both; a round is 2 calls, 15 tokens."""
    write_log(tmp_path / "log", name="rounds", tables=round_tables())
    (tmp_path / "policies.toml").write_text(ROUNDS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    thinkback("replay", "log", "--policies", "policies.toml", "--resamples", "50", "--traces", "--out", "o")
    outcomes = pl.read_parquet("o/outcomes.parquet").sort("policy", "example_id")
    assert outcomes.filter(policy="rounds[count=1]").select("gold_seen", "rounds", "calls", "total_tokens").rows() == [
        (0.0, 1.0, 2.0, 15.0), (None, 1.0, 2.0, 15.0), (1.0, 1.0, 2.0, 15.0),
    ]  # fmt: skip
    every = outcomes.filter(policy="all")
    assert every.select("gold_seen", "rounds", "latency_s").rows() == [
        (1.0, 2.0, 3.0),
        (None, 1.0, 1.5),
        (1.0, 1.0, 1.5),
    ]
    assert every["action_tokens"].to_list() == [15.0, 0.0, 0.0]
    assert every.select("answer", "correct", "fix", "traces").unique().rows() == [(None, None, None, 0.0)]
    summary = pl.read_parquet("o/summary.parquet").filter(metric="gold_seen")
    assert dict(summary.select("policy", "estimate").iter_rows()) == {
        "rounds[count=1]": 0.5, "rounds[count=2]": 1.0, "all": 1.0,
    }  # fmt: skip
    record = json.loads((tmp_path / "o" / "run.json").read_text())
    assert record["examples"]["judged"] == 2
    assert "unjudged" in {one["code"] for one in record["notes"]}
    assert record["metric"] == "gold_seen"
    words = ("explain", "log", "--policies", "policies.toml", "--policy", "all", "--example", "e1")
    assert "gold 1; 2 rounds, 4 calls, 30 tokens" in thinkback(*words)
    assert "gold 1; 2 rounds" in str(load(tmp_path / "o").explain("all", "e1"))


def test_a_kind_without_an_answer_stands_alone(tmp_path: Path) -> None:
    made = write_log(tmp_path / "log", name="rounds", tables=round_tables())
    part = '{ kind = "first rounds", count = 1 }'
    text = (
        f'[[policy]]\nname = "w"\nkind = "route"\nroute = {{ column = "c", below = 1 }}\nthen = {part}\nelse = {part}\n'
    )
    with refuses("unsuitable", "`then`", "`first rounds`"):
        run(made, text)


def test_the_manual_goes_through_the_kind() -> None:
    root = Path(__file__).parent
    page = (root.parent / "docs" / "adding.md").read_text(encoding="utf-8").partition("## A kind of policy")[2]
    steps = re.findall(r"^\d\. `([\w.]+)`", page, re.MULTILINE)
    toy = (root / "toys" / "first_rounds.py").read_text(encoding="utf-8")
    assert toy in page
    assert {"resolve", "needs", "path_of_rows"} <= {step for step in steps if step in toy} == set(steps)
