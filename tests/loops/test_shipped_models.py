"""Loops on the shipped small models, by the command: budget forcing, a beam by the shipped classifier, and a second
reader of their log. What they write is replayed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import thinkback as tb
from tests.house import ROOT
from thinkback.app import app
from toolkit.log import collect, open_log, validate_log

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
MODELS = ROOT / "data" / "models"
RECIPE = f"""
name = "loops"
seed = 1
[data]
dataset = "examples"
path = "examples.jsonl"
[engine]
kind = "transformers"
model = "{MODELS / "algebra-1m"}"
[answers]
kind = "number"
read = ["####"]
[score.prm]
kind = "classifier"
model = "{MODELS / "algebra-verifier"}"
base = "{MODELS / "algebra-reader"}"
[[loop]]
pool = "forced"
kind = "forcing"
prompt = "bare_solve.txt"
max_tokens = 60
waits = 2
word = "wait"
[[loop]]
pool = "beam"
kind = "beam"
prompt = "bare_solve.txt"
scorer = "prm"
width = 2
expand = 2
steps = 3
max_tokens = 40
end = "####"
"""
SECOND = f"""
name = "second"
[engine]
kind = "transformers"
model = "{MODELS / "algebra-reader"}"
[answers]
kind = "number"
read = ["####"]
[[loop]]
pool = "second"
rule = "mine.py:Second"
prompt = "again.txt"
of = ["beam"]
[[verify]]
name = "chance"
kind = "random"
pools = ["second"]
"""
MINE = '''
from dataclasses import dataclass
from typing import ClassVar

from generate.loops import Ask, Trace


@dataclass(frozen=True)
class Second:
    """Goes on from the best text of the beam."""

    prompt: str
    prompt_fields: ClassVar = ("best",)

    def run(self, example):
        best = example.traces[0]["text"]
        (reply,) = yield Ask(example.prompt(self.prompt, best=best), 40)
        yield Trace(best + reply.text, (reply,))
'''
POLICIES = """
[[policy]]
name = "waits"
kind = "sample"
pool = "forced"
select = "last"
max_traces = [1, 2, 3]
[[policy]]
name = "beam"
kind = "sample"
pool = "beam"
select = "majority"
max_traces = 2
[[policy]]
name = "second"
kind = "sample"
pool = "second"
select = "first"
max_traces = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    questions = ["Solve -5*q = -3*q + 4 for q.", "Solve 2*x + 3 = 9 for x.", "Solve 4 - y = 1 for y."]
    rows = [{"example_id": f"e{i}", "question": text, "gold": gold}
            for i, (text, gold) in enumerate(zip(questions, ("-2", "3", "3"), strict=True))]  # fmt: skip
    pl.DataFrame(rows).write_ndjson(tmp_path / "examples.jsonl")
    texts = {"loops.toml": RECIPE, "second.toml": SECOND, "mine.py": MINE, "policies.toml": POLICIES,
             "again.txt": "{{question}}\n{{best}}"}  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def call(*words: object) -> str:
    """What the command says; it succeeds."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_forcing_beam_and_a_second_reader_are_made_and_replayed(folder: Path) -> None:
    out = folder / "log"
    call("generate", folder / "loops.toml", "--out", out)
    traces = open_log(out).scan("traces", ["example_id", "beam_score", "pool", "sample_index"])
    beam = collect(traces).filter(pool="beam").sort("example_id", "sample_index")
    assert beam["beam_score"].is_not_null().all()
    assert beam.select((pl.col("beam_score").diff() <= 0).over("example_id").fill_null(value=True).all()).item()
    before = (out / "manifest.json").read_bytes()
    assert "second" in call("generate", folder / "second.toml", "--on", out, "--dry-run")
    assert (out / "manifest.json").read_bytes() == before
    call("generate", folder / "second.toml", "--on", out)
    call("generate", folder / "second.toml", "--on", out)  # all is there
    log = open_log(out)
    assert validate_log(log).ok
    texts = collect(log.scan("traces", ["example_id", "pool", "sample_index", "text"]))
    best = dict(texts.filter(pool="beam", sample_index=0).select("example_id", "text").rows())
    for example, text in texts.filter(pool="second").select("example_id", "text").rows():
        assert text.startswith(best[example])
    assert collect(log.scan("verifications", ["verifier"])).filter(verifier="chance").height == 3
    outcomes = tb.run(out, folder / "policies.toml", resamples=100).outcomes.collect()
    counts = outcomes.group_by("policy").agg(pl.len(), pl.col("completion_tokens").sum()).sort("policy")
    assert counts["len"].to_list() == [3] * 5
    waits = counts.filter(pl.col("policy").str.starts_with("waits"))["completion_tokens"].to_list()
    assert waits == sorted(waits)
    assert waits[0] < waits[-1]
