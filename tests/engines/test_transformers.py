"""The engine `transformers`, against transformers' own generation and plain forward passes, on a tiny random model."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from generate.engines import Call, CallFailure, Completion, Engine, Message, open_engine
from generate.engines.base import TOO_LONG
from tests.engines.tiny import CONTEXT, TEMPLATE, save_tiny, tokenizer
from tests.errors import numbers, refuses


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Any:
    return open_engine("transformers", {"model": str(tiny), "batch_size": 24, "dtype": "float64"})


@pytest.fixture(scope="module")
def network(tiny: Path) -> Any:
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(tiny, dtype="float64").eval()


def test_memory_that_runs_out_on_the_cpu_is_one_line(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "endless")
    config = json.loads((tiny / "config.json").read_text())
    (tmp_path / "endless" / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 10**16}))
    engine = open_engine("transformers", {"model": str(tmp_path / "endless"), "device": "cpu"})
    with refuses("memory", "1"):
        list(engine.run([Call("c", "1 + 1", (0,), (0.5,), 10**15)]))


def calls(count: int = 12, n: int = 5, **more: Any) -> list[Call]:
    """Prompts of many lengths; each with one greedy sample and the rest at rising temperatures."""
    return [
        Call(
            f"c{i}",
            f"Solve {i}x + 3 = {7 * i}" + " ?" * (i % 7),
            tuple(range(100 * i, 100 * i + n)),
            tuple(0.4 * j for j in range(n)),
            8 + 6 * (i % 4),
            **({"logprobs": 4} | more),
        )
        for i in range(count)
    ]


def run(engine: Engine, wanted: list[Call]) -> dict[str, tuple[Completion, ...]]:
    made = {call.key: outcome for call, outcome in engine.run(wanted)}
    assert not any(isinstance(outcome, CallFailure) for outcome in made.values())
    return made  # type: ignore[return-value]


def bare(made: Any) -> Any:
    """Without the seconds. Log-probabilities as the log keeps them: float32."""
    import numpy as np

    def single(values: Any) -> Any:
        return np.asarray(values, np.float32).tolist()

    return {
        key: [(c.text, c.token_ids, c.finish_reason, single(c.sum_logprob), single(c.token_logprobs)) for c in outcome]
        for key, outcome in made.items()
    }


def test_a_sample_depends_on_its_own_seed_alone(engine: Any, tiny: Path) -> None:
    wanted = calls()
    together = bare(run(engine, wanted))
    shuffled = random.Random(0).sample(wanted, len(wanted))
    assert bare(run(engine, shuffled)) == together
    small = open_engine("transformers", {"model": str(tiny), "batch_size": 3, "dtype": "float64"})
    assert bare(run(small, wanted)) == together
    for call in wanted[:4]:  # and alone, one sample a call
        for index, (seed, temperature) in enumerate(zip(call.seeds, call.temperatures, strict=True)):
            single = Call("s", call.prompt, (seed,), (temperature,), call.max_tokens, logprobs=4)
            assert bare(run(engine, [single]))["s"][0] == together[call.key][index]


def test_seeds_differ_and_the_greedy_one_does_not_matter(engine: Any) -> None:
    hot = run(engine, [Call("h", "Solve 2x = 4", tuple(range(40)), (1.0,) * 40, 24)])["h"]
    assert len({c.token_ids for c in hot}) > 20
    cold = run(engine, [Call("g", "Solve 2x = 4", tuple(range(5)), (0.0,) * 5, 24)])["g"]
    assert len({c.token_ids for c in cold}) == 1


def test_counts_are_the_tokenizers(engine: Any) -> None:
    words = tokenizer()
    ends = set()
    wanted = calls()
    for key, outcome in run(engine, wanted).items():
        call = next(call for call in wanted if call.key == key)
        for c in outcome:
            assert c.prompt_tokens == len(words(call.prompt)["input_ids"]) == len(call.prompt)
            assert c.completion_tokens == len(c.token_ids or ()) <= call.max_tokens
            assert not c.tokens_estimated
            ended = c.token_ids[-1] == words.eos_token_id
            assert c.finish_reason == ("stop" if ended else "length")
            assert ended or c.completion_tokens == call.max_tokens
            assert words.decode(c.token_ids, skip_special_tokens=True) == c.text
            ends.add(c.finish_reason)
    assert ends == {"stop", "length"}


def test_greedy_is_transformers_own(engine: Any, network: Any) -> None:
    import torch

    words = tokenizer()
    for key, outcome in run(engine, wanted := calls(n=1)).items():
        call = next(call for call in wanted if call.key == key)
        ids = torch.tensor([words(call.prompt)["input_ids"]])
        out = network.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=call.max_tokens, pad_token_id=0
        )
        assert outcome[0].token_ids == tuple(out[0, ids.shape[1] :].tolist())


def teacher_forced(engine: Any, network: Any) -> Iterator[tuple[Any, bool, Any]]:
    """Completions that are tempered and cut by top-p, whether each is its call's first, and the logits (n, V) that the
    network gives their places.
    """
    import torch

    words = tokenizer()
    wanted = calls(4, top_p=0.8)
    for key, outcome in run(engine, wanted).items():
        prompt = words(next(call.prompt for call in wanted if call.key == key))["input_ids"]
        for c in outcome:
            with torch.no_grad():
                logits = network(torch.tensor([[*prompt, *c.token_ids]])).logits[0, len(prompt) - 1 : -1]
            yield c, c is outcome[0], logits


def test_logprobs_are_those_of_a_teacher_forced_pass(engine: Any, network: Any) -> None:
    """Untempered, though the samples are tempered and cut by top-p."""
    import torch

    for c, _, logits in teacher_forced(engine, network):
        told = logits.log_softmax(-1).gather(1, torch.tensor(c.token_ids)[:, None]).squeeze(1)
        assert c.sum_logprob == pytest.approx(float(told.sum()), abs=1e-9)
        assert c.token_logprobs == pytest.approx(told[-4:].tolist(), abs=1e-9)


def test_entropies_and_ranks_are_those_of_plain_numpy_on_a_teacher_forced_pass(engine: Any, network: Any) -> None:
    import numpy as np

    for c, first, found in teacher_forced(engine, network):
        logits = found.numpy()
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        own = logits[np.arange(len(logits)), list(c.token_ids)]
        assert c.token_entropies == pytest.approx((-shares * np.log(shares)).sum(axis=1)[-4:], abs=1e-9)
        assert c.token_ranks == tuple(((logits > own[:, None]).sum(axis=1) + 1)[-4:].tolist())
        assert all(rank == 1 for rank in c.token_ranks[: 4 * first])  # the first one is greedy
    without = run(engine, calls(1, logprobs=0))["c0"][0]
    assert without.token_entropies is without.token_ranks is without.token_logprobs is None


def test_what_cannot_be_sampled_has_no_part_in_the_entropy() -> None:
    import torch

    from generate.engines.decoding import entropies_and_ranks

    entropies, ranks = entropies_and_ranks(
        torch.tensor([[0.0, 0.0, -torch.inf], [1.0, 2.0, 3.0]]), torch.tensor([1, 0])
    )
    assert entropies[0] == pytest.approx(0.6931472)
    assert ranks.tolist() == [1, 3]


def test_sampling_follows_the_tempered_distribution() -> None:
    """Frequencies of 20,000 draws against softmax(logits / T), by chi-square; top-p keeps the smallest set."""
    import torch

    from generate.engines.decoding import choose_token

    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 3.0]).repeat(20_000, 1)
    ones = torch.ones(len(logits), dtype=torch.float64)
    uniforms = torch.rand(len(logits), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for temperature in (0.5, 1.0, 2.0):
        tokens, logprobs = choose_token(logits, uniforms, ones * temperature, ones)
        expected = (logits[0].double() / temperature).softmax(0) * len(logits)
        observed = torch.bincount(tokens, minlength=5)
        assert float(((observed - expected) ** 2 / expected).sum()) < 18.5  # 99.9 % of chi-square with 4 degrees
        assert torch.allclose(logprobs, logits.double().log_softmax(1).gather(1, tokens[:, None]).squeeze(1))
    weights = logits[0].double().softmax(0)  # .234 .086 .032 .012 .636
    for top_p, kept in ((0.6, {4}), (0.64, {4, 0}), (0.9, {4, 0, 1}), (1.0, {0, 1, 2, 3, 4})):
        tokens, _ = choose_token(logits, uniforms, ones, ones * top_p)
        assert set(tokens.tolist()) == kept
        share = float((tokens == 4).double().mean())
        assert share == pytest.approx(float(weights[4] / weights[list(kept)].sum()), abs=0.015)


def test_device_seconds_add_up(engine: Any) -> None:
    before = engine.busy_s
    made = run(engine, calls())
    seconds = [c.device_s for outcome in made.values() for c in outcome]
    assert min(seconds) > 0
    assert sum(seconds) == pytest.approx(engine.busy_s - before, rel=0.01)
    assert all(0 < c.latency_s <= engine.busy_s - before for outcome in made.values() for c in outcome)


def test_stop_strings_end_a_sample(engine: Any) -> None:
    seeds = tuple(range(9))
    tried = run(engine, [Call("f", "Solve 4x", seeds, (1.0,) * 9, 40)])["f"]
    seed, free = max(zip(seeds, tried, strict=True), key=lambda pair: len(pair[1].text))
    stop = free.text[2:4]
    [cut] = run(engine, [Call("s", "Solve 4x", (seed,), (1.0,), 40, stop=("never there", stop))])["s"]
    assert cut.text == free.text[: free.text.index(stop)]
    assert cut.finish_reason == "stop"
    assert cut.token_ids == free.token_ids[: len(cut.token_ids or ())]
    assert tokenizer().decode(cut.token_ids).endswith(stop)


def test_chat_template_is_used(engine: Any, tiny: Path, tmp_path: Path) -> None:
    chat = (Message("user", "Solve 2x = 4"),)
    text = "u:Solve 2x = 4\na:"
    made = run(engine, [Call("t", text, (1,), (0.0,), 8), Call("c", chat, (1,), (0.0,), 8)])
    assert made["t"][0].token_ids == made["c"][0].token_ids
    assert made["c"][0].prompt_tokens == len(text)
    template = tmp_path / "own.jinja"
    template.write_text(TEMPLATE.replace("'a:'", "'answer' + mark"), encoding="utf-8")
    settings = {"model": str(tiny), "chat_template": str(template), "template_options": {"mark": ":"}}
    own = open_engine("transformers", settings)
    assert run(own, [Call("c", chat, (1,), (0.0,), 8)])["c"][0].prompt_tokens == len(text) + len("nswer")


def test_an_assistants_last_message_is_continued(engine: Any) -> None:
    chat = (Message("user", "2x = 4"), Message("assistant", "x ="))
    [made] = run(engine, [Call("c", chat, (1,), (0.0,), 8)])["c"]
    assert made.prompt_tokens == len("u:2x = 4\na:x =")


def test_no_chat_template_is_an_error(tmp_path: Path) -> None:
    made = open_engine("transformers", {"model": str(save_tiny(tmp_path / "m", template=False))})
    with refuses("required", "`m`", "`chat_template`"):
        list(made.run([Call("c", (Message("user", "x"),), (1,), (0.0,), 8)]))


def test_a_limit_that_the_context_shortens_is_told(engine: Any) -> None:
    [whole], [short] = (
        outcome for _, outcome in engine.run([Call(str(n), "1 + 1", (0,), (0.0,), n) for n in (8, 500)])
    )
    assert whole.max_tokens is None
    assert short.max_tokens == CONTEXT - short.prompt_tokens
    assert short.completion_tokens <= short.max_tokens


def test_prompts_over_the_context_fail_and_are_not_cut(engine: Any) -> None:
    long, full, fits = "x" * 120, "x" * CONTEXT, "x" * (CONTEXT - 3)
    wanted = [Call(name, prompt, (1,), (0.0,), 8) for name, prompt in (("l", long), ("e", full), ("f", fits))]
    made = {call.key: outcome for call, outcome in engine.run(wanted)}
    for name, tokens in (("l", "120"), ("e", "96")):
        assert isinstance(made[name], CallFailure)
        assert (made[name].cause, made[name].retryable) == (TOO_LONG, False)
        assert numbers(made[name].reason) == [tokens, "96"]
    assert made["f"][0].completion_tokens <= 3


def test_the_manifest_says_what_ran(engine: Any, tiny: Path, tmp_path: Path) -> None:
    said = engine.describe()
    assert said["model"] == tiny.name
    assert (said["dtype"], said["device"]) == ("float64", "cpu")
    assert {"torch", "transformers"} <= set(said["versions"])
    assert str(tiny.parent) not in repr(said)
    copy = shutil.copytree(tiny, tmp_path / tiny.name)
    assert open_engine("transformers", {"model": str(copy)}).describe()["weights_sha256"] == said["weights_sha256"]
    other = save_tiny(tmp_path / "other", seed=1)
    assert open_engine("transformers", {"model": str(other)}).describe()["weights_sha256"] != said["weights_sha256"]


def damaged(tiny: Path, folder: Path, how: str) -> Path:
    copy = shutil.copytree(tiny, folder / "copy")
    weights = copy / "model.safetensors"
    if how == "pickle":
        weights.rename(copy / "pytorch_model.bin")
    elif how == "torn":
        weights.write_bytes(weights.read_bytes()[:5000])
    elif how == "lacking":
        from safetensors.torch import load_file, save_file

        state = load_file(weights)
        del state["model.layers.1.mlp.up_proj.weight"]
        save_file(state, weights, metadata={"format": "pt"})
    elif how == "bare":
        (copy / "tokenizer.json").unlink()
        (copy / "tokenizer_config.json").unlink()
    return copy


@pytest.mark.parametrize(
    ("how", "refusal"),
    [
        ("pickle", ("not-found", "copy`")),
        ("torn", ("format", "`copy`")),
        ("lacking", ("incomplete", "up_proj")),
        ("bare", ("format", "copy`")),
    ],
)
def test_damaged_models_are_one_line(tiny: Path, tmp_path: Path, how: str, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        open_engine("transformers", {"model": str(damaged(tiny, tmp_path, how))})


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"model": "no/such-model"}, ("not-found", "`no/such-model`", "`download = true`")),
        ({"model": "x", "dtype": "float31"}, ("unknown", "`float32`")),
        ({"model": "x", "batchsize": 2}, ("unknown", "`batch_size`")),
        ({"model": "x", "batch_size": 0}, ("invalid", "1")),
        ({}, ("required", "`model`")),
    ],
)
def test_wrong_settings_are_one_line(settings: dict[str, Any], refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        open_engine("transformers", settings)


def test_importing_the_engines_is_light() -> None:
    heavy = ("torch", "transformers", "aiohttp")
    code = f"import sys, generate, generate.engines; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
