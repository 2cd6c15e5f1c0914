"""The ids of sampled tokens: kept where an engine tells them, and read in the place of the text."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import _AnnotationResult, add_signals
from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from generate.signals.additions import load_additions
from tests.errors import numbers, refuses
from tests.generate import toy
from tests.logs import make_log, make_rows, write_recipe
from toolkit.log import Log, collect, merge_logs, open_log, validate_log, write_log

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
TINY = Path(__file__).resolve().parents[1] / "engines" / "tiny.py"
LOGPROB = '[[verify]]\nname = "lp"\nkind = "logprob"\nmodel = "tiny"\n'
STATES = '[[states]]\nmodel = "tiny"\nlayers = [-1]\ntokens = { first = 0, last = 20 }\n'


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Any:
    spec = importlib.util.spec_from_file_location("tiny_model", TINY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.home = module.save_tiny(tmp_path_factory.mktemp("model") / "tiny")
    return module


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory, tiny: Any) -> Path:
    """A log that the tiny model wrote. It samples special tokens, of which its texts show nothing."""
    folder = tmp_path_factory.mktemp("sampled")
    text = toy.LOCAL.replace('"openai"', '"transformers"').replace('model = "rule"', f'model = "{tiny.home}"')
    limits = ["sample.votes.max_tokens=16", "sample.probe.max_tokens=16"]
    recipe = load_recipe(toy.write_recipe(folder, 12, text), limits)
    generate(make_plan(recipe), folder / "log", lambda read: read.engine.opened(read))
    return folder / "log"


def added(folder: Path, tiny: Any, text: str) -> _AnnotationResult:
    if not (folder / "tiny").exists():
        (folder / "tiny").symlink_to(tiny.home)
    return add_signals(make_add_plan(load_additions(write_recipe(folder, text)), folder / "log"), lambda _: None)


def traces(log: Log) -> pl.DataFrame:
    return collect(log.scan("traces", list(log.columns("traces")))).sort("trace_id")


def copied(log: Path, folder: Path, *without: str) -> Log:
    """A copy of a log as if no answer had been asked for once more, its traces without some columns."""
    made = open_log(log)
    alone = {"finalizer_used": pl.lit(False), "completion_tokens": pl.col("completion_ids").list.len().cast(pl.Int32)}
    rows = traces(made).with_columns(**alone).drop(without)
    tables = {"examples": collect(made.scan("examples")), "traces": rows}
    return write_log(folder / "log", name="copy", tables=tables, source=made.manifest.source)


def test_an_engine_that_tells_ids_has_them_kept(sampled: Path, tiny: Any) -> None:
    log = open_log(sampled)
    assert validate_log(log).ok
    rows, words = traces(log), tiny.tokenizer()
    assert rows["completion_ids"].dtype == pl.List(pl.Int32)
    own = rows.filter(~pl.col("finalizer_used"))
    assert own["completion_ids"].list.len().to_list() == own["completion_tokens"].to_list()
    for ids, text in rows.select("completion_ids", "text").iter_rows():
        assert words.decode(ids, skip_special_tokens=True) == text
    canonical = [len(words(text)["input_ids"]) for text in rows["text"]]
    ended = [ids[-1] == words.eos_token_id for ids in rows["completion_ids"]]
    assert any(len(ids) != n + e for ids, n, e in zip(rows["completion_ids"], canonical, ended, strict=True))


def test_log_probabilities_are_of_the_tokens_that_were_sampled(sampled: Path, tiny: Any, tmp_path: Path) -> None:
    """So they are those that the engine told when it wrote; by the texts alone some are not."""
    found = {}
    for name, without in (("ids", ()), ("texts", ("completion_ids",))):
        (tmp_path / name).mkdir()
        copied(sampled, tmp_path / name, *without)
        found[name] = added(tmp_path / name, tiny, LOGPROB)
    told = traces(open_log(sampled))["sum_logprob"].to_numpy()
    scores = {name: collect(done.log.scan("verifications")).sort("trace_id") for name, done in found.items()}
    assert scores["ids"].height == len(told)
    np.testing.assert_allclose(scores["ids"]["score"].to_numpy(), told, atol=2e-3)
    read = traces(open_log(sampled)).join(scores["texts"], on="trace_id")
    assert np.abs((read["score"] - read["sum_logprob"]).to_numpy()).max() > 0.5
    ((_, record),) = found["ids"].steps
    assert record.recounted == {}
    ((_, record),) = found["texts"].steps
    assert record.recounted
    assert found["texts"].log.manifest.source["verifiers"]["lp"]["recounted"] == len(record.recounted)
    for reason in record.recounted.values():
        in_text, in_log = numbers(reason)
        assert in_text != in_log


def test_entropies_and_ranks_are_those_that_the_engine_told(sampled: Path, tiny: Any, tmp_path: Path) -> None:
    copied(sampled, tmp_path)
    done = added(tmp_path, tiny, LOGPROB + "every_token = true\n")
    assert validate_log(done.log).problems == ()
    read = collect(done.log.scan("verifications")).sort("trace_id")
    told = traces(open_log(sampled)).join(read, on="trace_id", suffix="_read")
    told = told.filter(pl.col("token_logprobs").is_not_null())
    assert told.height
    for row in told.iter_rows(named=True):
        size = len(row["token_logprobs"])
        assert len(row["token_entropies"]) == len(row["token_ranks"]) == size > 0
        np.testing.assert_allclose(row["token_entropies_read"][-size:], row["token_entropies"], atol=1e-3)
        assert row["token_ranks_read"][-size:] == row["token_ranks"]


def test_states_are_of_the_tokens_that_were_sampled(sampled: Path, tiny: Any, tmp_path: Path) -> None:
    copied(sampled, tmp_path)
    done = added(tmp_path, tiny, STATES)
    rows, words = traces(done.log), tiny.tokenizer()
    states = collect(done.log.scan("hidden_states/tiny"))
    counts = states.group_by("trace_id").len().sort("trace_id")
    assert counts["len"].to_list() == rows["completion_ids"].list.len().clip(upper_bound=21).to_list()
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny.home, dtype=torch.float32).eval()
    source = done.log.manifest.source
    kept = source["prompts"][source["pools"]["votes"]["prompt"]]
    special = [words.bos_token_id, words.unk_token_id]
    row = next(
        r for r in rows.iter_rows(named=True) if set(special) & set(r["completion_ids"]) and r["pool"] == "votes"
    )
    question = collect(done.log.scan("examples").filter(pl.col("example_id") == row["example_id"]))["question"][0]
    prompt = words(kept.replace("{{question}}", question))["input_ids"]
    with torch.inference_mode():
        own = model(torch.tensor([prompt + row["completion_ids"]]), output_hidden_states=True).hidden_states[-1][0]
    mine = states.filter(trace_id=row["trace_id"]).sort("token")["state"].to_numpy()
    np.testing.assert_allclose(np.stack(mine), own[len(prompt) :].numpy(), atol=3e-3, rtol=3e-3)


@pytest.mark.parametrize(
    ("end", "last"), [("auto", "sampled"), ("never", "without"), ("always", "sampled")]
)  # a text that ended has its end already
def test_the_end_is_the_one_that_was_sampled(tiny: Any, tmp_path: Path, end: str, last: str) -> None:
    words = tiny.tokenizer()
    rows = make_rows(2, 2)
    ids = [words(text)["input_ids"] + [words.eos_token_id] for text in rows["traces"]["text"]]
    made = rows["traces"].with_columns(completion_ids=pl.Series(ids, dtype=pl.List(pl.Int32)))
    make_log(tmp_path / "log", 2, 2, traces=made)
    done = added(tmp_path, tiny, STATES.replace("20", "60") + f'end = "{end}"\n')
    counts = collect(done.log.scan("hidden_states/tiny")).group_by("trace_id").len().sort("trace_id")["len"]
    tokens = made.sort("trace_id")["completion_tokens"]
    assert counts.to_list() == (tokens - (last == "without")).to_list()


def test_ids_of_another_vocabulary_are_not_read(tiny: Any, tmp_path: Path) -> None:
    """Of the first trace they say another text, of the second the model has no such token; the third's are read."""
    words, rows = tiny.tokenizer(), make_rows(2, 2)["traces"]
    texts = rows["text"].to_list()
    ids = [words(text)["input_ids"] + [words.eos_token_id] for text in texts]
    ids[0], ids[1] = list(reversed(ids[0])), [10**6] * len(ids[1])
    ids[2] = [words.unk_token_id, *ids[2]]
    made = rows.with_columns(
        completion_ids=pl.Series(ids, dtype=pl.List(pl.Int32)),
        completion_tokens=pl.Series([len(one) for one in ids], dtype=pl.Int32),
    )
    make_log(tmp_path / "log", 2, 2, traces=made)
    done = added(tmp_path, tiny, STATES.replace("20", "60"))
    counts = collect(done.log.scan("hidden_states/tiny")).group_by("trace_id").len()
    assert dict(counts.rows()) == {t: len(one) for t, one in zip(rows["trace_id"], ids, strict=True)}
    ((_, record),) = done.steps
    assert record.recounted == {}


def test_logs_with_and_without_ids_are_merged(sampled: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old = copied(sampled, tmp_path / "old", "completion_ids")
    assert validate_log(old).ok
    assert "completion_ids" not in old.columns("traces")
    tables = {name: collect(old.scan(name)).with_columns(example_id="o" + pl.col("example_id")) for name in
              ("examples", "traces")}  # fmt: skip
    parents = "o" + pl.col("parent_id")
    tables["traces"] = tables["traces"].with_columns(trace_id="o" + pl.col("trace_id"), parent_id=parents)
    write_log(tmp_path / "other", name="other", tables=tables)
    merged = merge_logs([tmp_path / "other", sampled], tmp_path / "merged")
    rows = collect(open_log(merged if isinstance(merged, Path) else tmp_path / "merged").scan("traces"))
    assert rows["completion_ids"].null_count() * 2 == rows.height


@pytest.mark.parametrize(("ids", "refusal"), [([-1, 2], ("negative-item", "0")), ([1] * 50, ("length", "50"))])
def test_ids_that_cannot_be(tmp_path: Path, ids: list[int], refusal: tuple[str, ...]) -> None:
    rows = make_rows(1, 1)
    made = rows["traces"].with_columns(completion_ids=pl.lit(ids, dtype=pl.List(pl.Int32)))
    with refuses(*refusal):
        make_log(tmp_path / "log", 1, 1, traces=made)
