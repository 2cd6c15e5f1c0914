"""Signals of some traces: the first samples, the first examples of a split; and what is kept of every token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import _AnnotationResult, add_signals
from generate.signals.additions import load_additions
from generate.tasks import task_examples
from tests.adding.test_passes import read_alone
from tests.errors import refuses
from tests.logs import make_log, write_recipe
from toolkit.log import collect, validate_log

RANDOM = '[[verify]]\nname = "chance"\nkind = "random"\npools = ["votes"]\n'


def added(folder: Path, text: str, shard: tuple[int, int] = (1, 1)) -> _AnnotationResult:
    return add_signals(make_add_plan(load_additions(write_recipe(folder, text)), folder / "log", shard), lambda _: None)


def scored(done: _AnnotationResult) -> list[str]:
    return sorted(collect(done.log.scan("verifications", ["trace_id"]))["trace_id"])


def test_the_first_samples_of_the_first_examples_of_a_split(tmp_path: Path) -> None:
    """Of s000 to s005, every other one is of the split `train`; with two more asked for, what lacks is added."""
    make_log(tmp_path / "log")
    some = RANDOM + "samples = 2\nexamples = { train = 2, test = 1 }\n"
    done = added(tmp_path, some)
    assert scored(done) == [f"{e}/votes/{i}" for e in ("s000", "s001", "s002") for i in range(2)]
    assert added(tmp_path, some).steps == ()
    more = added(tmp_path, RANDOM + "samples = 3\nexamples = { train = 2 }\n")
    assert sorted(set(scored(more))) == sorted([*scored(done), "s000/votes/2", "s002/votes/2"])


def test_a_shard_counts_the_examples_of_the_whole_log(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    done = added(tmp_path, RANDOM + "samples = 1\nexamples = { train = 2 }\n", (1, 2))
    assert scored(done) == ["s000/votes/0", "s002/votes/0"]  # the shard has s000, s002 and s004


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ("samples = 0", ("invalid", "samples`", "0", "1")),
        ("examples = 3", ("invalid", "`verify.chance.examples`")),
        ("examples = { train = 0 }", ("invalid", "1")),
        ("examples = { trian = 3 }", ("unknown", "`trian`")),
        ('kind = "logprob"\nevery_token = true', ("required", "`model`")),
    ],
)
def test_refused(tmp_path: Path, keys: str, refusal: tuple[str, ...]) -> None:
    make_log(tmp_path / "log")
    text = RANDOM.replace('kind = "random"\n', "") if "kind" in keys else RANDOM
    with refuses(*refusal):
        added(tmp_path, text + keys + "\n")


def test_variants_are_data_sets_of_one_task() -> None:
    options = {"n": 3, "answer": 9, "terms": 2, "variants": {"short": {}, "long": {"terms": 3, "constant": 40}}}
    made = task_examples("algebra_linear_1d", ["train", "test"], options)
    assert made["dataset"].to_list() == ["short"] * 6 + ["long"] * 6
    assert made["example_id"].is_unique().all()
    assert made["example_id"][0] == "short-train-00000"
    alone = task_examples("algebra_linear_1d", ["train", "test"], {"n": 3, "answer": 9, "terms": 2})
    assert made.filter(dataset="short")["question"].equals(alone["question"])
    for wrong in ({}, 3, {"short": 3}):
        with refuses("invalid", "`algebra_linear_1d`", "`variants`"):
            task_examples("algebra_linear_1d", ["test"], {**options, "variants": wrong})
    with refuses("unknown", "`trems`"):
        task_examples("algebra_linear_1d", ["test"], {"variants": {"short": {"trems": 1}}})


def test_every_log_probability_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    models = Path(__file__).resolve().parents[2] / "data" / "models"
    make_log(tmp_path / "log", 2)
    text = '[[verify]]\nname = "lp"\nkind = "logprob"\nmodel = "algebra-1m"\n'
    (tmp_path / "algebra-1m").symlink_to(models / "algebra-1m")
    done = added(tmp_path, text + RANDOM + text.replace('"lp"', '"all"') + "every_token = true\n")
    assert validate_log(done.log).problems == ()
    lists = ["token_logprobs", "token_entropies", "token_ranks"]
    rows = collect(done.log.scan("verifications", ["trace_id", "verifier", "score", *lists]))
    whole, plain = (rows.filter(verifier=name).sort("trace_id") for name in ("all", "lp"))
    assert rows.filter(pl.col("verifier") != "all")["token_logprobs"].null_count() == rows.height - whole.height
    assert (whole["token_logprobs"].list.sum() - whole["score"]).abs().max() < 1e-3
    assert whole["score"].equals(plain["score"])
    for name in lists[1:]:
        assert whole[name].list.len().equals(whole["token_logprobs"].list.len().rename(name))
        assert plain[name].is_null().all()
    tokens = collect(done.log.scan("traces", ["trace_id", "completion_tokens"])).sort("trace_id")["completion_tokens"]
    assert whole["token_logprobs"].list.len().to_list() == tokens.to_list()


def test_entropies_and_ranks_of_a_shipped_model_are_those_of_plain_numpy(tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    make_log(tmp_path / "log", 2)
    (tmp_path / "tiny").symlink_to(Path(__file__).resolve().parents[2] / "data" / "models" / "algebra-1m")
    done = added(tmp_path, '[[verify]]\nname = "all"\nkind = "logprob"\nmodel = "tiny"\nevery_token = true\n')
    rows = collect(done.log.scan("verifications").filter(pl.col("verifier") == "all")).sort("trace_id")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "tiny", dtype=torch.float32).eval()
    assert rows.height
    for row in rows.iter_rows(named=True):
        prompt, own = read_alone(tmp_path, row["trace_id"])
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + own])).logits[0, len(prompt) - 1 : -1].double().numpy()
        logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(row["token_entropies"], -(np.exp(logprobs) * logprobs).sum(axis=1), atol=1e-3)
        chosen = logits[np.arange(len(own)), own]
        assert row["token_ranks"] == ((logits > chosen[:, None]).sum(axis=1) + 1).tolist()
