"""Teacher-forced passes on a tiny random model: what a batch gives equals what each text alone gives."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import _AnnotationResult, add_signals
from generate.engines.weights import find_model
from generate.passes import reader as reading
from generate.passes.batching import TokenIds, length_batches, pad_batch
from generate.passes.reader import ReadBatch, TokenStatistics, memory_errors
from generate.signals import logprob
from generate.signals.additions import load_additions
from generate.signals.sequence_classifier import _ClassifierWorker
from generate.signals.signal import WorkerInput
from generate.traces.block import read_block
from generate.traces.log_origins import chat_template_of
from tests.errors import numbers, refuses
from tests.logs import PROMPTS, SOURCE, make_log, make_rows, write_recipe
from tests.seeds import seeds
from toolkit.log import collect, validate_log

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
TINY = Path(__file__).resolve().parents[1] / "engines" / "tiny.py"
STATES = '[[states]]\nmodel = "tiny"\nlayers = [-1, 0, -2, 2]\ntokens = [-1, -3, 0, 7]\n'
LOGPROB = '[[verify]]\nname = "lp"\nkind = "logprob"\nmodel = "tiny"\n'
REWARD = '[[verify]]\nname = "orm"\nkind = "reward"\nmodel = "orm"\nprompt = "class.txt"\n'


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a causal model `tiny`, a classifier `orm`, both without a pad token, and an encoder `nli`."""
    spec = importlib.util.spec_from_file_location("tiny_model", TINY)
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    home = tmp_path_factory.mktemp("models")
    tiny.save_tiny(home / "tiny")
    words = tiny.tokenizer()
    torch.manual_seed(1)
    config = transformers.AutoConfig.from_pretrained(home / "tiny", num_labels=1)
    transformers.LlamaForSequenceClassification(config).save_pretrained(home / "orm")
    words.save_pretrained(home / "orm")
    bert = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=96, num_labels=3, pad_token_id=2,
        id2label={0: "entailment", 1: "neutral", 2: "contradiction"},
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(bert)
    with torch.no_grad():
        model.classifier.weight.normal_(0, 2.0)
    model.save_pretrained(home / "nli")
    words.save_pretrained(home / "nli")
    return home


def run(folder: Path, models: Path, text: str) -> _AnnotationResult:
    for name in ("tiny", "orm", "nli"):
        if not (folder / name).exists():
            (folder / name).symlink_to(models / name)
    return add_signals(make_add_plan(load_additions(write_recipe(folder, text)), folder / "log"), lambda _: None)


def scores(done: _AnnotationResult, name: str) -> pl.DataFrame:
    return collect(done.log.scan("verifications").filter(pl.col("verifier") == name)).sort("trace_id")


def read_alone(models: Path, trace: str) -> tuple[list[int], list[int]]:
    """(prompt, completion) ids of a trace of the hand-made log, as its own call had them."""
    words = transformers.AutoTokenizer.from_pretrained(models / "tiny")
    rows = make_rows()
    row = rows["traces"].row(by_predicate=pl.col("trace_id") == trace, named=True)
    question = rows["examples"].row(by_predicate=pl.col("example_id") == row["example_id"], named=True)["question"]
    prompt = PROMPTS["solve.txt"].replace("{{question}}", question).removesuffix("\n")
    if row["parent_id"] is not None:
        parent = rows["traces"].row(by_predicate=pl.col("trace_id") == row["parent_id"], named=True)
        prompt = PROMPTS["check.txt"].replace("{{question}}", question).replace("{{attempt}}", parent["text"])
        prompt = prompt.removesuffix("\n")
    own = words(row["text"], add_special_tokens=False)["input_ids"] + [words.eos_token_id]
    return words(prompt)["input_ids"], own


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("batch_tokens", seeds(1, [200, 1, 8192]))
@pytest.mark.parametrize("pool", ["votes", "verify"])
def test_states_are_those_of_an_unbatched_pass(
    tmp_path: Path, models: Path, side: str, batch_tokens: int, pool: str
) -> None:
    """The four votes of an example stand behind one prompt, which is read once; each revision behind its own."""
    make_log(tmp_path / "log")
    own = f'padding = "{side}"\nbatch_tokens = {batch_tokens}\npools = ["{pool}"]\n'
    done = run(tmp_path, models, STATES + own)
    assert validate_log(done.log).problems == ()
    rows = collect(done.log.scan("hidden_states/tiny", ["trace_id", "layer", "token", "example_id", "state"]))
    assert rows["state"].dtype == pl.Array(pl.Float16, 64)
    model = transformers.AutoModelForCausalLM.from_pretrained(models / "tiny", dtype=torch.float32).eval()
    for trace in ("s000/votes/0", "s003/votes/2") if pool == "votes" else ("s000/verify/0", "s005/verify/0"):
        prompt, own = read_alone(models, trace)
        with torch.inference_mode():
            states = model(torch.tensor([prompt + own]), output_hidden_states=True).hidden_states
        mine = rows.filter(pl.col("trace_id") == trace)
        places = [token for token in (-1, -3, 0, 7) if -len(own) <= token < len(own)]
        assert sorted(mine.select("layer", "token").rows()) == sorted((la, t) for la in (-1, 0, -2, 2) for t in places)
        for layer, token, state in mine.select("layer", "token", "state").iter_rows():
            alone = states[layer][0, len(prompt) + (token if token >= 0 else len(own) + token)].numpy()
            np.testing.assert_allclose(np.array(state, dtype=np.float32), alone, atol=2e-3, rtol=2e-3)
    said = done.log.manifest.source["hidden_states"]["tiny"]
    assert (said["model"], said["layers"], said["tokens"], said["dimension"]) == (
        "tiny", [-1, 0, -2, 2], [-1, -3, 0, 7], 64,
    )  # fmt: skip
    assert len(said["weights_sha256"]) == 64


@pytest.mark.parametrize("side", ["right", "left"])
def test_log_probabilities_are_those_of_an_unbatched_pass(tmp_path: Path, models: Path, side: str) -> None:
    make_log(tmp_path / "log")
    step = LOGPROB + f'padding = "{side}"\n'
    done = run(tmp_path, models, step + step.replace('"lp"', '"tail"') + 'last = 3\nhow = "mean"\n')
    whole, tail = scores(done, "lp"), scores(done, "tail")
    assert whole.height == tail.height == 30
    model = transformers.AutoModelForCausalLM.from_pretrained(models / "tiny", dtype=torch.float32).eval()
    for place, trace in enumerate(whole["trace_id"]):
        prompt, own = read_alone(models, trace)
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + own])).logits[0, len(prompt) - 1 : -1].double()
        said = logits.log_softmax(1)[range(len(own)), own].numpy()
        assert whole["score"][place] == pytest.approx(said.sum(), abs=1e-3)
        assert tail["score"][place] == pytest.approx(said[-3:].mean(), abs=1e-4)
        assert whole["prompt_tokens"][place] == len(prompt) + len(own)
    # a batch's seconds are shared by tokens, so they add up to no more than the step's
    assert whole["device_s"].sum() <= done.log.manifest.source["verifiers"]["lp"]["wall_clock_s"] + 1e-3
    assert (whole["latency_s"] >= whole["device_s"]).all()


@pytest.mark.parametrize("side", ["right", "left"])
def test_logits_are_kept_of_the_completions_alone(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """With room for 40 tokens' logits: fewer texts together, the same scores, and no logits of what stood before."""
    make_log(tmp_path / "log")
    whole = scores(run(tmp_path, models, LOGPROB + f'padding = "{side}"\n'), "lp")["score"].to_numpy()
    vocabulary = len(transformers.AutoTokenizer.from_pretrained(models / "tiny"))
    monkeypatch.setattr(reading, "LOGITS", 40 * vocabulary)
    plain, kept = logprob.logprobs_of, []

    def noted(read: ReadBatch, texts: list[TokenIds], ranked: bool) -> list[TokenStatistics]:
        kept.append((*read.out.logits.shape[:2], read.padded.ids.shape[1]))
        return plain(read, texts, ranked)

    monkeypatch.setattr(logprob, "logprobs_of", noted)
    step = LOGPROB.replace('"lp"', '"few"') + f'padding = "{side}"\n'
    few = scores(run(tmp_path, models, step), "few")["score"].to_numpy()
    np.testing.assert_allclose(few, whole, atol=1e-3)
    assert all(n == 1 or n * columns <= 40 for n, columns, _ in kept)
    assert any(n > 1 for n, _, _ in kept)
    assert all(columns < width for _, columns, width in kept)


def test_a_small_model_reads_with_one_thread_which_is_given_back(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(tmp_path / "log")
    told, plain, before = [], logprob.logprobs_of, torch.get_num_threads()
    torch.set_num_threads(2)

    def noted(*asked: Any) -> list[TokenStatistics]:
        told.append(torch.get_num_threads())
        return plain(*asked)

    monkeypatch.setattr(logprob, "logprobs_of", noted)
    try:
        run(tmp_path, models, LOGPROB)
        assert set(told) == {1}
        assert torch.get_num_threads() == 2
        monkeypatch.setattr(reading, "SMALL", 10)
        run(tmp_path, models, LOGPROB.replace('"lp"', '"large"'))
        assert set(told) == {1, 2}
    finally:
        torch.set_num_threads(before)


def test_batches_by_what_is_kept() -> None:
    """Texts of 4, 5, 6 and 6 tokens of which 3, 3, 4 and 1 come before what is kept, at most 20 padded tokens.

    4 and 5 make 10 padded tokens, with a 6 they make 18 (and then 3 of each may be left out: 9 are kept), with both 24.
    With at most 8 kept, 4 and 5 keep (5 - 3) x 2 = 4; with the first 6 they keep (6 - 3) x 3 = 9, so it begins anew;
    with the second it keeps (6 - 1) x 2 = 10, so that one is alone.
    """
    lengths, before = [4, 5, 6, 6], [3, 3, 4, 1]
    assert list(length_batches(lengths, 20)) == [[0, 1, 2], [3]]
    assert list(length_batches(lengths, 20, before, 9)) == [[0, 1, 2], [3]]
    assert list(length_batches(lengths, 20, before, 8)) == [[0, 1], [2], [3]]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("batch_tokens", seeds(1, [100, 1, 100_000]))
def test_a_score_depends_on_neither_batch_nor_padding(
    tmp_path: Path, models: Path, side: str, batch_tokens: int
) -> None:
    make_log(tmp_path / "log")
    done = run(tmp_path, models, REWARD + f'padding = "{side}"\nbatch_tokens = {batch_tokens}\n')
    got = scores(done, "orm")
    words = transformers.AutoTokenizer.from_pretrained(models / "orm")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(models / "orm", dtype=torch.float32).eval()
    rows = make_rows()
    both = rows["traces"].join(rows["examples"].select("example_id", "question"), on="example_id").sort("trace_id")
    for row, score in zip(both.iter_rows(named=True), got["score"], strict=True):
        ids = words(f"{row['question']} {row['answer']}\n{row['text']}")["input_ids"]
        with torch.inference_mode():
            assert score == pytest.approx(float(model(torch.tensor([ids])).logits[0, 0]), abs=1e-4)
    assert got["completion_tokens"].sum() == 0


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", seeds(2, ["Bert", "ConvBert", "Roberta", "MPNet"]))
def test_an_encoders_score_depends_on_no_padding(tmp_path: Path, models: Path, side: str, kind: str) -> None:
    """Its head reads the first place, which must not be padding; some count places from behind the padding's id, and
    the convolutions of others take padding in.
    """
    words = transformers.AutoTokenizer.from_pretrained(models / "tiny")
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=98, num_labels=1, pad_token_id=1,
    )  # fmt: skip
    torch.manual_seed(3)
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.3)
    model.save_pretrained(tmp_path / "encoder")
    words.save_pretrained(tmp_path / "encoder")
    make_log(tmp_path / "log", 3)
    done = run(tmp_path, models, REWARD.replace('model = "orm"', f'model = "encoder"\npadding = "{side}"'))
    got, rows = scores(done, "orm"), make_rows(3)
    both = rows["traces"].join(rows["examples"].select("example_id", "question"), on="example_id").sort("trace_id")
    assert got["score"].n_unique() > 3
    for row, score in zip(both.iter_rows(named=True), got["score"], strict=True):
        ids = words(f"{row['question']} {row['answer']}\n{row['text']}")["input_ids"]
        with torch.inference_mode():
            assert score == pytest.approx(float(model(torch.tensor([ids])).logits[0, 0]), abs=1e-4)


def test_what_is_longer_than_the_model_takes_is_named_for_each_trace(tmp_path: Path, models: Path) -> None:
    rows = make_rows()
    long = pl.when(pl.col("trace_id") == "s002/votes/1").then(pl.lit("9" * 120)).otherwise(pl.col("text"))
    make_log(tmp_path / "log", traces=rows["traces"].with_columns(text=long))
    done = run(tmp_path, models, STATES + LOGPROB + REWARD)
    assert scores(done, "lp").height == scores(done, "orm").height == 29
    source = done.log.manifest.source
    for said in (source["verifiers"]["lp"], source["verifiers"]["orm"], source["hidden_states"]["tiny"]):
        (one,) = said["skipped"]
        assert one["trace_id"] == "s002/votes/1"
        length, most = numbers(one["reason"])
        assert int(length) > int(most) == 96


def test_a_model_that_a_step_can_t_use_is_one_line(tmp_path: Path, models: Path) -> None:
    own = make_rows()["traces"].select("trace_id", "example_id", layer=pl.lit(0), token=pl.lit(0)).head(3)
    own = own.with_columns(state=pl.Series([[0.0] * 8] * 3, dtype=pl.Array(pl.Float16, 8)))
    own = own.with_columns(pl.col("layer").cast(pl.Int16), pl.col("token").cast(pl.Int32))
    make_log(tmp_path / "log", **{"hidden_states/tiny": own})
    cases = {
        STATES: ("mismatch", "`hidden_states/tiny`", "64", "8"),
        STATES.replace("layers = [-1, 0, -2, 2]", "layers = [-4]") + 'name = "x"\n': ("invalid", "2 layers", "-4"),
        STATES.replace('"tiny"', '"missing"'): ("not-found", "`missing`"),
        LOGPROB.replace('"tiny"', '"nli"'): ("incomplete", "`nli`", "6 weights"),
        REWARD.replace('"orm"\nprompt', '"tiny"\nprompt'): ("incomplete", "`tiny`", "`thinkback fit`"),
        REWARD.replace('"orm"\nprompt', '"nli"\nprompt'): ("required", "`label`", "3 outputs"),
        REWARD.replace('prompt = "class.txt"', ""): ("required", "`prompt`"),
        '[[features]]\nkind = "contradiction"\nmodel = "orm"\n': ("unsuitable", "`model`", "contradiction"),
        REWARD + "load_in_4bit = true\n": ("package", "`bitsandbytes`"),
    }
    for text, refusal in cases.items():
        with refuses(*refusal):
            run(tmp_path, models, text)
    assert not (tmp_path / "log" / "verifications").exists()


def test_another_model_in_a_folder_of_that_name_is_refused(tmp_path: Path, models: Path) -> None:
    make_log(tmp_path / "log")
    run(tmp_path, models, REWARD + 'dataset = ["sums"]\nsplit = ["train"]\n')
    retrain(models / "orm", tmp_path / "orm", seed=7)
    with refuses("conflict", "`orm`", "`weights_sha256`") as error:
        run(tmp_path, models, REWARD)
    assert "\n" not in str(error.value)
    assert scores(run(tmp_path, models, REWARD.replace('"orm"', '"new"', 1)), "new").height == 30


def test_what_was_begun_with_another_model_is_not_mixed(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(tmp_path / "log")
    whole = _ClassifierWorker.run
    with monkeypatch.context() as small:
        small.setattr(_ClassifierWorker, "per_block", 5)
        blocks: list[object] = []

        def dies(self: _ClassifierWorker, block: object, advance: object) -> object:
            if len(blocks) == 2:
                raise KeyboardInterrupt
            blocks.append(block)
            return whole(self, block, advance)

        small.setattr(_ClassifierWorker, "run", dies)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, models, REWARD)
    retrain(models / "orm", tmp_path / "orm", seed=7)
    with refuses("mismatch", "`orm`", "`weights_sha256`"):
        run(tmp_path, models, REWARD)
    shutil.rmtree(tmp_path / "orm")
    assert scores(run(tmp_path, models, REWARD), "orm").height == 30


def retrain(model: Path, place: Path, seed: int) -> None:
    """Put a classifier with other weights in the place of a link to one."""
    place.unlink()
    shutil.copytree(model, place)
    torch.manual_seed(seed)
    config = transformers.AutoConfig.from_pretrained(model)
    transformers.LlamaForSequenceClassification(config).save_pretrained(place)


def lengths(folder: Path, models: Path, source: object, step: str) -> dict[str, int]:
    """Tokens read of each trace by the log-probability of another model."""
    folder.mkdir()
    rows = make_rows()["traces"].with_columns(
        finish_reason=pl.col("sample_index").replace_strict({0: "stop", 1: "length", 2: None, 3: "stop"})
    )
    make_log(folder / "log", source=source, traces=rows)
    read = scores(run(folder, models, LOGPROB + step), "lp")
    return dict(read.select("trace_id", "prompt_tokens").iter_rows())


def test_an_end_is_read_only_where_the_model_wrote_one(tmp_path: Path, models: Path) -> None:
    """Sample 0 stopped, 1 was cut, of 2 nothing is known; the pool `votes` has stop texts in the second log."""
    stops = {**SOURCE, "pools": {**SOURCE["pools"], "votes": {"prompt": "solve.txt", "sampling": {"stop": ["\n"]}}}}
    never = lengths(tmp_path / "never", models, SOURCE, 'end = "never"\n')
    auto = lengths(tmp_path / "auto", models, SOURCE, "")
    always = lengths(tmp_path / "always", models, SOURCE, 'end = "always"\n')
    stopped = lengths(tmp_path / "stopped", models, stops, "")
    for name, count in never.items():
        pool, index = name.split("/")[1:]
        assert auto[name] - count == (index in "03")
        assert always[name] - count == (index in "023")
        assert stopped[name] - count == (pool == "verify")


def test_a_chat_is_read_as_its_engine_wrote_it(tmp_path: Path, models: Path) -> None:
    """`#` between messages, `!` as a variable; an answer to a chat ends in `;`, which the model lists as an end."""
    model = tmp_path / "model"
    shutil.copytree(models / "tiny", model)
    words = transformers.AutoTokenizer.from_pretrained(model)
    (end,) = words(";", add_special_tokens=False)["input_ids"]
    settings = json.loads((model / "generation_config.json").read_text())
    (model / "generation_config.json").write_text(json.dumps({**settings, "eos_token_id": [words.eos_token_id, end]}))
    template = (
        "{% for m in messages %}{{ m['role'][0] + mark + m['content'] + ';' }}{% endfor %}"
        "{% if add_generation_prompt %}a{{ mark }}{% endif %}"
    )
    source = {
        "prompts": {"solve.txt": "[[user]]\n{{question}}", "own.jinja": template},
        "pools": {pool: {"prompt": "solve.txt", "model": "model"} for pool in ("votes", "verify")},
        "settings": {"engine.chat_template": "own.jinja", "engine.template_options.mark": "!"},
    }
    log = make_log(tmp_path / "log", 1, source=source)
    step = LOGPROB.replace('"tiny"', '"model"')
    recipe = write_recipe(tmp_path, step)
    (tmp_path / "other.jinja").write_text(template.replace("'a'", "'b'").replace("a{{ mark }}", "b{{ mark }}"))
    other = write_recipe(
        tmp_path, step + 'chat_template = "other.jinja"\ntemplate_options = { mark = "?" }\n', "o.toml"
    )
    rows = read_block(log, pl.DataFrame({"example_id": ["s000"], "trace_id": ["s000/votes/0"]}))
    for path, text in ((recipe, "u!0 + 1;a!"), (other, "u?0 + 1;b?")):
        additions = load_additions(path)
        forced = logprob.LogProbWorker(
            additions.verify[0], WorkerInput(additions, log, ("votes",), 0, None, None, None)
        )
        ids = forced.token_ids(rows, rows.wanted_rows[0])
        assert words.decode(ids.prompt) == text
        assert ids.completion[-1] == end
        forced.reader.close()


@pytest.mark.parametrize(
    ("asked", "logged"), [("org/model", "org/model"), ("org/model", "tiny"), ("tiny", "org/model")]
)
def test_the_engine_of_a_model_is_found_by_what_the_hub_calls_it_or_by_its_weights(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch, asked: str, logged: str
) -> None:
    """One model in a folder and in a hub's cache: the log knows it by one name, the step by the same or the other."""
    import huggingface_hub

    cache = tmp_path / "hub" / "models--org--model"
    shutil.copytree(models / "tiny", cache / "snapshots" / "abc")
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("abc")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    shutil.copytree(models / "tiny", tmp_path / "tiny")
    sha256 = find_model(str(models / "tiny"), None, download=False).weights_sha256()
    template = "{% for m in messages %}{{ mark + m['content'] }}{% endfor %}"
    words = transformers.AutoTokenizer.from_pretrained(models / "tiny")

    engine = {"weights_sha256": sha256} if logged != asked else {}
    pool = {"prompt": "solve.txt", "model": logged, "engine": engine}
    source = {
        "prompts": {"solve.txt": "[[user]]\n{{question}}", "own.jinja": template},
        "pools": {"votes": pool, "verify": pool},
        "settings": {"engine.chat_template": "own.jinja", "engine.template_options.mark": "!"},
    }
    log = make_log(tmp_path / "log", 1, source=source)
    additions = load_additions(write_recipe(tmp_path, LOGPROB.replace('"tiny"', f'"{asked}"')))
    forced = logprob.LogProbWorker(additions.verify[0], WorkerInput(additions, log, ("votes",), 0, None, None, None))
    rows = read_block(log, pl.DataFrame({"example_id": ["s000"], "trace_id": ["s000/votes/0"]}))
    assert words.decode(forced.token_ids(rows, rows.wanted_rows[0]).prompt) == "!0 + 1"
    forced.reader.close()


def test_an_engine_with_another_model_does_not_say_how_chats_are_written(tmp_path: Path, models: Path) -> None:
    """Neither a name that ends alike nor other weights, nor a name without known weights."""
    files = find_model(str(models / "tiny"), None, download=False)
    for number, engine in enumerate(({}, {"weights_sha256": None}, {"weights_sha256": "0" * 64})):
        pool = {"prompt": "solve.txt", "model": "org/tiny", "engine": engine}
        source = {
            "prompts": {"solve.txt": "{{question}}"},
            "pools": {"votes": pool, "verify": pool},
            "settings": {"engine.template_options.mark": "!"},
        }
        log = make_log(tmp_path / str(number), 1, source=source)
        assert chat_template_of(log, ("votes",), files) == (None, {})


def test_the_places_of_models_that_name_them_otherwise(tmp_path: Path, models: Path) -> None:
    """GPT-2 says `n_positions`; RoBERTa has two places more than it takes tokens."""
    words = transformers.AutoTokenizer.from_pretrained(models / "tiny")
    make_log(tmp_path / "log")
    sizes = {"n_positions": 24, "n_embd": 16, "n_layer": 1, "n_head": 2}
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=len(words), **sizes))
    roberta = transformers.RobertaForSequenceClassification(
        transformers.RobertaConfig(
            vocab_size=len(words),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=26,
            num_labels=1,
            pad_token_id=1,
        )
    )
    for name, model in (("gpt2", gpt2), ("roberta", roberta)):
        model.save_pretrained(tmp_path / name)
        words.save_pretrained(tmp_path / name)
    states = '[[states]]\nmodel = "gpt2"\nlayers = [-1]\ntokens = [-1]\n'
    for _ in range(2):
        done = run(tmp_path, models, states + REWARD.replace('model = "orm"', 'model = "roberta"'))
    source = done.log.manifest.source
    for said in (source["hidden_states"]["gpt2"], source["verifiers"]["orm"]):
        assert said["context"] == 24
        assert 0 < said["rows"] < 30
        assert {numbers(one["reason"])[-1] for one in said["skipped"]} == {"24"}


def test_memory_that_runs_out_behind_a_pass_is_one_line() -> None:
    padded = pad_batch([TokenIds((1, 2), (3,))] * 2, 0, False, "cpu")
    with refuses("memory", "`batch_tokens`", "2", "3"), memory_errors(*padded.ids.shape):
        torch.empty(2**62, dtype=torch.uint8)


def test_a_text_without_the_places_asked_for_is_settled(tmp_path: Path, models: Path) -> None:
    make_log(tmp_path / "log", 2)
    step = '[[states]]\nmodel = "tiny"\nlayers = [-1]\ntokens = [-9]\n'
    done = run(tmp_path, models, step)
    said = {one["trace_id"]: one["reason"] for one in done.log.manifest.source["hidden_states"]["tiny"]["skipped"]}
    # `so 1` and the end are five tokens; `0 and 1: 2` and the end eleven
    assert numbers(said["s000/verify/0"]) == ["5"]
    assert "s000/votes/0" not in said
    assert run(tmp_path, models, step).steps == ()


def test_one_of_several_outputs_is_a_probability(tmp_path: Path, models: Path) -> None:
    make_log(tmp_path / "log", 2)
    step = REWARD.replace('"orm"\nprompt', '"nli"\nprompt')
    parts = [step.replace('name = "orm"', f'name = "p{label}"') + f"label = {label}\n" for label in range(3)]
    done = run(tmp_path, models, "".join(parts))
    total = sum(scores(done, f"p{label}")["score"].to_numpy() for label in range(3))
    np.testing.assert_allclose(total, 1)


def test_contradiction_by_pairs_read_alone(tmp_path: Path, models: Path) -> None:
    make_log(tmp_path / "log", 2, 3)
    text = '[[features]]\nkind = "contradiction"\nmodel = "nli"\npools = ["votes"]\nbatch_tokens = 64\n'
    done = run(tmp_path, models, text)
    made = collect(done.log.scan("features", ["trace_id", "peer_contradiction"])).sort("trace_id")
    assert made.height == 6
    words = transformers.AutoTokenizer.from_pretrained(models / "nli")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(models / "nli").eval()
    texts = {r["trace_id"]: r["text"] for r in make_rows(2, 3)["traces"].iter_rows(named=True)}
    for trace, value in made.iter_rows():
        peers = [f"{trace[:-1]}{i}" for i in range(3) if str(i) != trace[-1]]
        found = []
        for peer in peers:
            with torch.inference_mode():
                given = words(texts[peer], texts[trace], return_tensors="pt")
                found.append(float(model(**given).logits[0].double().softmax(0)[2]))
        assert value == pytest.approx(np.mean(found), abs=1e-5)


def test_states_on_a_grid_and_rounded_scores(tmp_path: Path, models: Path) -> None:
    """Each state is the multiple of 1/8 next to the one that is kept without a grid."""
    make_log(tmp_path / "log")
    whole = run(tmp_path, models, STATES)
    (tmp_path / "short").mkdir()
    make_log(tmp_path / "short" / "log")
    cut = run(tmp_path / "short", models, STATES + "grid = 0.125\n" + REWARD + "decimals = 2\n")
    one, other = (
        np.array(collect(done.log.scan("hidden_states/tiny")).sort("trace_id", "layer", "token")["state"].to_list())
        for done in (whole, cut)
    )
    assert (other * 8 == np.round(other * 8)).all()
    assert (np.abs(one - other) <= 1 / 16 + 1e-3).all()
    assert len(np.unique(other)) > 3
    found = collect(cut.log.scan("verifications"))["score"].to_list()
    assert found == [round(score, 2) for score in found]
