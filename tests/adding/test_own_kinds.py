"""A further kind of signal is a file and a line of the table: the command reads, checks, makes and records it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from generate.signals.additions import KINDS
from tests.adding.toy_signals import Brevity, BrevityWorker, Vowels
from tests.errors import refuses, says
from tests.logs import make_log, write_recipe
from thinkback.app import app
from toolkit.errors import ThinkbackError
from toolkit.log import ADDING, collect, open_log, validate_log

RECIPE = (
    '[[verify]]\nname = "short"\nkind = "brevity"\nmost = 15\n'
    '[[features]]\nkind = "vowels"\nprefix = "own_"\npools = ["votes"]\n[[features]]\nkind = "serving"\n'
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS["verify"], "brevity", Brevity)
    monkeypatch.setitem(KINDS["features"], "vowels", Vowels)


def generate(folder: Path, text: str, *more: str) -> Result:
    recipe = write_recipe(folder, text)
    return CliRunner().invoke(app, ["generate", str(recipe), "--on", str(folder / "log"), *more])


def test_the_command_adds_kinds_of_one_s_own(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    dry = generate(tmp_path, RECIPE, "--dry-run")
    assert "short  brevity: missing for 30 of 30 traces, 300 bytes" in dry.stdout
    assert "vowels  vowels: missing for 24 of 24 traces" in dry.stdout
    done = generate(tmp_path, RECIPE)
    assert done.exit_code == 0, done.output
    log = open_log(tmp_path / "log")
    assert validate_log(log).problems == ()
    texts = collect(log.scan("traces", ["trace_id", "text"])).sort("trace_id")
    sizes = texts["text"].str.len_chars()
    found = collect(log.scan("verifications").filter(pl.col("verifier") == "short")).sort("trace_id")
    assert found["score"].to_list() == [1 - n / 15 for n in sizes if n <= 15]
    source = log.manifest.source
    said = source["verifiers"]["short"]
    assert (said["kind"], said["of"], said["rows"]) == ("brevity", "characters", found.height)
    assert said["settings"] == {"kind": "brevity", "name": "short", "most": 15}
    assert {one["reason"] for one in said["skipped"]} == {"too long"}
    made = collect(log.scan("features", ["trace_id", "own_vowels", "response_words"])).sort("trace_id")
    assert (made.height, made["own_vowels"].null_count(), made["response_words"].null_count()) == (30, 6, 0)
    assert source["features"]["vowels"]["columns"] == ["own_vowels"]
    again = generate(tmp_path, RECIPE)
    assert (again.exit_code, open_log(tmp_path / "log").manifest) == (0, log.manifest), "nothing is added twice"


def test_its_scores_are_replayed_and_explained(tmp_path: Path) -> None:
    """The shortest of the four votes of s000 is the first, `0 and 1: 2`, ten characters of at most forty: 0.75."""
    make_log(tmp_path / "log")
    assert generate(tmp_path, RECIPE.replace("most = 15", "most = 40")).exit_code == 0
    policies = tmp_path / "policies.toml"
    policies.write_text(
        '[[policy]]\nname = "shortest"\nkind = "sample"\npool = "votes"\nverifier = "short"\nmax_traces = 4\n'
        'select = "best"\n', encoding="utf-8",
    )  # fmt: skip
    given = [str(tmp_path / "log"), "--policies", str(policies)]
    done = CliRunner().invoke(app, ["replay", *given, "--resamples", "10", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    outcomes = pl.read_parquet(tmp_path / "out" / "outcomes.parquet")
    assert outcomes.filter(example_id="s000")["answer"].to_list() == ["2"]
    told = CliRunner().invoke(
        app, ["explain", *given, "--policy", "shortest", "--example", "s000"], env={"COLUMNS": "200"}
    )
    assert told.exit_code == 0, told.output
    assert "0.75" in told.output
    assert "answer 2 (wrong)" in told.output


def test_a_run_of_such_a_kind_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_log(tmp_path / "log")
    whole, seen = BrevityWorker.run, []

    def dies(self: BrevityWorker, block: object, advance: object) -> object:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(block)
        return whole(self, block, advance)

    with monkeypatch.context() as killed:
        killed.setattr(BrevityWorker, "run", dies)
        assert generate(tmp_path, RECIPE).exit_code == 130
    done = sum(len(block.wanted) for block in seen)
    seen.clear()
    monkeypatch.setattr(BrevityWorker, "run", lambda self, block, _: seen.append(block) or whole(self, block, _))
    assert generate(tmp_path, RECIPE).exit_code == 0
    assert sum(len(block.wanted) for block in seen) == 30 - done
    assert not (tmp_path / "log" / ADDING).exists()


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (RECIPE.replace("most = 15", "most = 0"), ("invalid", "`verify.short.most`", "0", "1")),
        (RECIPE.replace("most", "mots"), ("unknown", "`mots`", "`[verify.short]`", "`most`")),
        (RECIPE.replace('prefix = "own_"', 'letters = "A"'), ("error", "`features.vowels`", "`letters`", "`A`")),
        (RECIPE.replace("brevity", "brevety"), ("unknown", "`verify.short.kind`", "`brevity`", "'brevety'")),
        (RECIPE.replace('prefix = "own_"', "most = 3"), ("conflict", "`features.vowels.most`", "`contradiction`")),
    ],
)
def test_its_mistakes_are_one_line(tmp_path: Path, text: str, refusal: tuple[str, ...]) -> None:
    make_log(tmp_path / "log")
    found = generate(tmp_path, text)
    assert found.exit_code != 0
    says(found.exception if isinstance(found.exception, ThinkbackError) else found, *refusal)


def test_it_is_built_in_python_too() -> None:
    assert Brevity(name="b", most=3) == Brevity(name="b", most=3, pools=[])
    with refuses("invalid", "`most`", "1"):
        Brevity(name="b", most="x")
    with refuses("error", "`letters`", "`A`"):
        Vowels(letters="A")
