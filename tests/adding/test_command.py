"""`thinkback generate RECIPE --on LOG` with real models: what goes wrong is one line, and the log is unchanged."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import add_signals as add_planned
from generate.signals.additions import load_additions
from tests.adding.test_adding import files
from tests.adding.test_passes import LOGPROB, REWARD, STATES, models  # noqa: F401 (a fixture)
from tests.errors import numbers, quotes, says
from tests.logs import make_log, make_rows, write_recipe
from thinkback.app import app
from toolkit.log import ADDING, collect, open_log, validate_log

pytest.importorskip("torch")
CHANCE = '[[verify]]\nname = "chance"\nkind = "random"\n'
JUDGE = (
    '[engine]\nkind = "transformers"\nmodel = "tiny"\n'
    '[[verify]]\nname = "judge"\nkind = "judge"\nprompt = "score.txt"\nmax_tokens = 8\n'
)
CLAIMS = '[embedding]\nmodel = "tiny"\n[[features]]\nkind = "claims"\nevidence = "proofs"\n'


@pytest.fixture
def home(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """The working directory, with a log of 6 examples and 30 traces and with three models."""
    for name in ("tiny", "orm", "nli"):
        (tmp_path / name).symlink_to(models / name)
    make_log(tmp_path / "log")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add(home: Path, text: str, *options: str, on: str = "log") -> Result:
    return CliRunner().invoke(app, ["generate", str(write_recipe(home, text)), "--on", on, *options])


def refused(result: Result, code: str, *quoted: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1, result.stderr
    says(result, code, *quoted)
    assert result.stdout == ""


def standing(log: Path) -> dict[str, str]:
    """The log's files, without what is being added."""
    return {name: digest for name, digest in files(log).items() if not name.startswith(ADDING)}


BAD = {
    "a judge that never returns JSON": (JUDGE, ("unreadable", "`judge`", "30")),
    "a feature without its column": (CLAIMS, ("required", "`examples`", "`proofs`")),
    "a model that is not there": (STATES.replace('"tiny"', '"huge"'), ("not-found", "`huge`")),
    "a layer that is not there": (STATES.replace("-1, 0", "-9, 0"), ("invalid", "2", "-9")),
    "a context that the model does not have": (STATES + "context = 97\n", ("limit", "`context`", "`tiny`", "97", "96")),
    "an encoder that is not there": (
        CLAIMS.replace("tiny", "none").replace("proofs", "evidence"),
        ("not-found", "`none`"),
    ),
    "a base that does not fit": (REWARD + 'base = "tiny"\n', ("required", "`base`")),
    "a pool that is not there": (CHANCE + 'pools = ["vote"]', ("unknown", "`votes`")),
    "a misspelt kind": (CHANCE.replace("random", "randon"), ("unknown", "`random`")),
    "a misspelt key": (CHANCE + "sed = 1\n", ("unknown", "`sed`", "`[verify.chance]`")),
    "a first for a judge": (JUDGE + "first = 4\n", ("conflict", "`verify.judge.first`", "`listwise`")),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_one_line_and_the_log_as_it_was(home: Path, name: str) -> None:
    text, refusal = BAD[name]
    before = standing(home / "log")
    refused(add(home, text), *refusal)
    assert standing(home / "log") == before
    assert not (home / "log" / ADDING).exists(), "nothing was made, nothing is left"
    assert validate_log(open_log(home / "log")).problems == ()


def test_a_model_without_its_tokenizer(home: Path, models: Path) -> None:  # noqa: F811
    shutil.copytree(models / "tiny", home / "bare", ignore=shutil.ignore_patterns("tokenizer*"))
    refused(add(home, STATES.replace('"tiny"', '"bare"')), "format", "bare`")


def test_states_of_another_dimension_than_the_log_s(home: Path) -> None:
    own = make_rows()["traces"].select("trace_id", "example_id", layer=pl.lit(0), token=pl.lit(0)).head(3)
    own = own.with_columns(
        pl.col("layer").cast(pl.Int16),
        pl.col("token").cast(pl.Int32),
        state=pl.Series([[0.0] * 8] * 3, dtype=pl.Array(pl.Float16, 8)),
    )
    make_log(home / "wide", **{"hidden_states/tiny": own})
    before = files(home / "wide")
    refused(add(home, CHANCE + STATES, on="wide"), "mismatch", "64", "`hidden_states/tiny`", "8", "`name`")
    assert files(home / "wide") == before, "nothing was begun, the random scorer before it neither"


def test_a_log_that_is_no_log_or_not_sealed(home: Path) -> None:
    refused(add(home, CHANCE, on="nowhere"), "not-found", "nowhere`")
    (home / "log" / "manifest.json").unlink()
    refused(add(home, CHANCE), "unsuitable", "`thinkback seal log`")
    refused(add(home, CHANCE, "--out", "new"), "conflict", "`--out`")
    assert not (home / "log" / ADDING).exists()


def test_a_text_longer_than_the_model_takes_is_named_and_the_rest_is_added(home: Path) -> None:
    long = pl.when(pl.col("trace_id") == "s002/votes/1").then(pl.lit("9" * 120)).otherwise(pl.col("text"))
    make_log(home / "long", traces=make_rows()["traces"].with_columns(text=long))
    done = add(home, LOGPROB + REWARD + STATES, on="long")
    assert done.exit_code == 0, done.output
    assert done.stderr == "", "quiet in a pipe"
    lines = done.stdout.splitlines()
    for line, (name, tokens) in zip(lines, (("lp", 131), ("orm", 129), ("tiny", 131)), strict=True):
        assert line.startswith(f"added {name} to long: ")
        quotes(line, "`s002/votes/1`")
        assert numbers(line)[-3:] == ["1", str(tokens), "96"]
    log = open_log(home / "long")
    assert collect(log.scan("verifications"))["trace_id"].n_unique() == 29
    again = add(home, LOGPROB + REWARD + STATES, on="long")
    quotes(again.stdout, "long", "add")
    assert (again.exit_code, numbers(again.stdout), open_log(home / "long").manifest) == (0, [], log.manifest)


def test_choices_that_can_t_be_read_are_counted_once_each(home: Path) -> None:
    """Six groups of four votes, and six revisions that are alone; the model says nothing that can be read."""
    done = add(home, JUDGE.replace('"judge"\nprompt = "score.txt"', '"listwise"\nprompt = "best.txt"\nfirst = 2'))
    assert done.exit_code == 0, done.output
    quotes(done.stdout, "judge", "verifications", "`s000/verify/0`")
    assert numbers(done.stdout) == ["0", "6", "6"]
    record = open_log(home / "log").manifest.source["verifiers"]["judge"]
    assert [one["trace_id"] for one in record["skipped"]] == [f"s00{n}/verify/0" for n in range(6)]


def test_progress_counts_those_that_are_left_out(home: Path) -> None:
    """Of 30 traces one is too long for each of the models, one has no text."""
    text = pl.when(pl.col("trace_id") == "s002/votes/1").then(pl.lit("9" * 120)).otherwise(pl.col("text"))
    gone = pl.when(pl.col("trace_id") == "s003/votes/2").then(None).otherwise(text)
    make_log(home / "long", traces=make_rows()["traces"].with_columns(text=gone))
    nli = '[[features]]\nkind = "contradiction"\nmodel = "nli"\n'
    plan = make_add_plan(load_additions(write_recipe(home, LOGPROB + REWARD + STATES + nli)), home / "long")
    counted: list[float] = []
    count = lambda done=1, tokens=0: counted.append(done)  # noqa: E731
    add_planned(plan, lambda _: None, started=lambda known: counted.append(known) or count)
    assert sum(counted) == plan.missing_row_count == 120


def test_a_dry_run_says_what_is_lacking_and_changes_nothing(home: Path) -> None:
    before = files(home / "log")
    done = add(
        home, CHANCE + JUDGE.partition("[[")[2].join(["[[", ""]) + STATES + JUDGE.partition("[[")[0], "--dry-run"
    )
    assert done.exit_code == 0, done.output
    assert "judge  judge: missing for 30 of 30 traces, 60 calls" in done.stdout
    assert files(home / "log") == before


@contextlib.contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """The superuser may write anywhere: step down for a while."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(own)


def test_a_log_on_a_read_only_disk(home: Path) -> None:
    place = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    try:
        log = shutil.copytree(home / "log", place / "log")
        recipe = write_recipe(place, CHANCE)
        before = files(log)
        log.chmod(0o555)
        place.chmod(0o555)
        with as_an_ordinary_user():
            done = CliRunner().invoke(app, ["generate", str(recipe), "--on", str(log)])
        refused(done, "write", f"`{log}`")
        assert files(log) == before
    finally:
        place.chmod(0o755)
        (place / "log").chmod(0o755)
        shutil.rmtree(place)
