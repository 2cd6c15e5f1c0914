"""vLLM in this process and its own server against the engine `transformers`, on a tiny random model.

Runs in the environment of `make test-engines`; elsewhere it is left out, and says why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from generate.engines import Call, CallFailure, Completion, Message, open_engine
from generate.engines.base import TOO_LONG
from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from tests.engines.serving import serving
from tests.engines.tiny import CONTEXT, tokenizer
from tests.errors import numbers, refuses
from tests.generate.toy import LOCAL, write_recipe
from toolkit.log import collect, validate_log

if find_spec("vllm") is None:
    assert os.environ.get("THINKBACK_VLLM") != "required", "vLLM is not installed, and this run is there to test it"
    pytest.skip("vLLM is not installed; `make test-engines` builds an environment for it", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own

TEXTS = [f"Solve {i}x + 3 = {7 * i}" + " ?" * (i % 5) for i in range(10)]


@pytest.fixture(scope="module")
def vllm(tiny: Path) -> Iterator[Any]:
    engine = open_engine("vllm", {"model": str(tiny), "dtype": "float32", "enforce_eager": True})
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def here(tiny: Path) -> Any:
    return open_engine("transformers", {"model": str(tiny), "dtype": "float32"})


@pytest.fixture(scope="module")
def server(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Settings of the engine `openai` for vLLM's server, which can tell token ids."""
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(tiny), "--enforce-eager"]
    named = ["--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", str(CONTEXT)]
    own = ["--logprobs-mode", "raw_logprobs", "--generation-config", "vllm"]
    with serving([*command, *named, *own], tmp_path_factory.mktemp("serve") / "log", 600) as url:
        yield {"base_url": url, "model": "tiny", "timeout_s": 60.0, "extra": {"return_token_ids": True}}


def run(engine: Any, calls: list[Call]) -> dict[str, tuple[Completion, ...]]:
    made = {call.key: outcome for call, outcome in engine.run(calls)}
    assert not [outcome for outcome in made.values() if isinstance(outcome, CallFailure)]
    assert set(made) == {call.key for call in calls}
    return made  # type: ignore[return-value]


def greedy(n: int = 1) -> list[Call]:
    """Texts and chats, of several limits."""
    prompts: list[Any] = [*TEXTS, *((Message("user", text),) for text in TEXTS[:4])]
    return [Call(f"g{i}", p, tuple(range(n)), (0.0,) * n, 8 + 6 * (i % 4), logprobs=6) for i, p in enumerate(prompts)]


def same(one: Completion, other: Completion) -> None:
    """Token for token; log-probabilities within the rounding of float32."""
    assert one.token_ids == other.token_ids
    assert one.text == other.text
    assert one.finish_reason == other.finish_reason
    assert (one.prompt_tokens, one.completion_tokens) == (other.prompt_tokens, other.completion_tokens)
    assert one.sum_logprob == pytest.approx(other.sum_logprob, abs=2e-3)
    assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-3)
    assert not one.tokens_estimated
    assert not other.tokens_estimated


def test_greedy_decoding_agrees_token_for_token(vllm: Any, here: Any, server: dict[str, Any]) -> None:
    calls = greedy()
    mine, theirs, served = run(here, calls), run(vllm, calls), run(open_engine("openai", server), calls)
    ends = set()
    for call in calls:
        same(mine[call.key][0], theirs[call.key][0])
        same(mine[call.key][0], served[call.key][0])
        ends.add(mine[call.key][0].finish_reason)
    assert ends == {"stop", "length"}


def test_realised_tokens_are_the_tokenizers(vllm: Any, server: dict[str, Any]) -> None:
    words = tokenizer()
    calls = [Call(f"c{i}", text, (1, 2, 3), (0.0, 0.7, 1.0), 10 + 5 * (i % 3)) for i, text in enumerate(TEXTS)]
    for engine in (vllm, open_engine("openai", server)):
        for key, outcome in run(engine, calls).items():
            [call] = [call for call in calls if call.key == key]
            assert len(outcome) == 3
            for c in outcome:
                assert c.prompt_tokens == len(words(call.prompt)["input_ids"])
                ids = c.token_ids or ()
                assert c.completion_tokens == len(ids) <= call.max_tokens
                assert words.decode(ids, skip_special_tokens=True) == c.text
                assert c.finish_reason == ("stop" if ids[-1] == words.eos_token_id else "length")


def test_several_samples_of_one_request_are_counted_one_by_one(server: dict[str, Any], tiny: Path) -> None:
    """By token ids, by log-probabilities, or, with neither, as shares of the sum by the tokenizer, marked so."""
    prompt, settings = TEXTS[3], server | {"samples_per_request": 8}
    call = Call("n", prompt, tuple(range(8)), (1.0,) * 8, 20)
    by_ids = run(open_engine("openai", settings), [call])["n"]
    counts = [len(c.token_ids or ()) for c in by_ids]
    assert len(set(counts)) > 1
    assert [c.completion_tokens for c in by_ids] == counts
    assert [tokenizer().decode(c.token_ids, skip_special_tokens=True) for c in by_ids] == [c.text for c in by_ids]
    told = open_engine("openai", settings | {"extra": {}})
    by_logprobs = run(told, [replace(call, logprobs=4)])["n"]
    assert [c.text for c in by_logprobs] == [c.text for c in by_ids]
    assert [c.completion_tokens for c in by_logprobs] == counts
    assert not any(c.tokens_estimated for c in (*by_ids, *by_logprobs))
    assert [c.completion_tokens for c in run(told, [call])["n"]] == [None] * 8
    counted = open_engine("openai", settings | {"extra": {}, "tokenizer": str(tiny)})
    estimates = run(counted, [call])["n"]
    assert sum(c.completion_tokens or 0 for c in estimates) == sum(counts)
    assert all(c.tokens_estimated for c in estimates)
    assert {c.prompt_tokens for c in (*by_ids, *by_logprobs, *estimates)} == {len(prompt)}


def test_logprobs_are_those_before_temperature_and_top_p(vllm: Any, here: Any, server: dict[str, Any]) -> None:
    """Of the very tokens that were drawn: from a teacher-forced pass of transformers' network."""
    import torch

    words, network = tokenizer(), here._network
    calls = [Call(f"l{i}", text, (5, 6), (0.5, 1.3), 16, top_p=0.9, logprobs=4) for i, text in enumerate(TEXTS[:4])]
    for engine in (vllm, open_engine("openai", server)):
        for key, outcome in run(engine, calls).items():
            prompt = words(next(call.prompt for call in calls if call.key == key))["input_ids"]
            for c in outcome:
                ids = torch.tensor([[*prompt, *c.token_ids]])
                with torch.no_grad():
                    table = network(ids).logits[0, len(prompt) - 1 : -1].double().log_softmax(-1)
                told = table.gather(1, ids[0, len(prompt) :, None]).squeeze(1).tolist()
                assert c.token_logprobs == pytest.approx(told[-4:], abs=1e-3)
                assert c.sum_logprob == pytest.approx(sum(told), abs=2e-3)


def test_a_seed_decides_a_sample(vllm: Any, server: dict[str, Any]) -> None:
    calls = [Call("s", TEXTS[1], tuple(range(20)), (1.0,) * 20, 24)]
    for engine in (vllm, open_engine("openai", server)):
        first, again = run(engine, calls)["s"], run(engine, calls)["s"]
        assert [c.token_ids for c in first] == [c.token_ids for c in again]
        assert len({c.token_ids for c in first}) > 10
    twins = run(vllm, [Call("t", TEXTS[1], (4, 4, 5), (1.0,) * 3, 24)])["t"]
    assert twins[0].token_ids == twins[1].token_ids != twins[2].token_ids


def test_device_seconds_add_up(vllm: Any) -> None:
    before = vllm.busy_s
    made = run(vllm, [Call(f"d{i}", text, (1, 2), (0.0, 1.0), 16) for i, text in enumerate(TEXTS)])
    seconds = [c.device_s for outcome in made.values() for c in outcome]
    assert min(seconds) > 0
    assert sum(seconds) == pytest.approx(vllm.busy_s - before, rel=0.01)
    assert all(0 < c.latency_s <= vllm.busy_s - before for outcome in made.values() for c in outcome)


def test_stop_strings_end_a_sample(vllm: Any, here: Any, server: dict[str, Any]) -> None:
    free = run(here, [Call("f", TEXTS[0], (1,), (0.0,), 30)])["f"][0]
    stop = free.text[3:5]
    calls = [Call("s", TEXTS[0], (1,), (0.0,), 30, stop=(stop, "never there"), logprobs=2)]
    expected = run(here, calls)["s"][0]
    assert expected.text == free.text[: free.text.index(stop)]
    same(expected, run(vllm, calls)["s"][0])
    same(expected, run(open_engine("openai", server), calls)["s"][0])


def test_a_prompt_over_the_context_is_named_and_not_cut(vllm: Any, here: Any, server: dict[str, Any]) -> None:
    calls = [Call(name, "x" * size, (1,), (0.0,), 8) for name, size in (("l", 120), ("e", CONTEXT), ("f", CONTEXT - 3))]
    mine, theirs = dict(here.run(calls)), dict(vllm.run(calls))
    assert mine[calls[0]] == theirs[calls[0]]
    assert (mine[calls[0]].cause, mine[calls[0]].retryable) == (TOO_LONG, False)
    assert numbers(mine[calls[0]].reason) == ["120", "96"]
    assert mine[calls[1]] == theirs[calls[1]]
    assert mine[calls[2]][0].token_ids == theirs[calls[2]][0].token_ids
    served = dict(open_engine("openai", server).run(calls[:1]))[calls[0]]
    assert isinstance(served, CallFailure)
    assert not served.retryable
    assert "maximum context length is 96 tokens" in served.reason


def test_the_manifest_says_what_ran(vllm: Any, here: Any, tiny: Path) -> None:
    said, mine = vllm.describe(), here.describe()
    assert said["weights_sha256"] == mine["weights_sha256"]
    assert (said["dtype"], said["device"], said["context"]) == ("float32", "cpu", CONTEXT)
    assert said["versions"]["torch"] == mine["versions"]["torch"]
    assert any(name.startswith("vllm") for name in said["versions"])
    assert str(tiny.parent) not in repr(said)


def test_a_model_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with refuses("not-found", "`no/such-model`") as caught:
        open_engine("vllm", {"model": "no/such-model"})
    assert "\n" not in str(caught.value)
    with refuses("unknown", "`enforce_eager`"):
        open_engine("vllm", {"model": str(tmp_path), "enforce_eagre": True})


def test_a_recipe_runs(vllm: Any, tmp_path: Path) -> None:
    text = LOCAL.replace('kind = "openai"', 'kind = "vllm"')
    limits = [f"sample.{pool}.max_tokens=16" for pool in ("probe", "votes")]
    recipe = load_recipe(write_recipe(tmp_path, 4, text), limits)

    class Open:
        """The engine that is open already, and stays so."""

        name, model, describe, run = vllm.name, vllm.model, vllm.describe, vllm.run

        def close(self) -> None:
            """Others use it."""

    done = generate(make_plan(recipe), tmp_path / "log", lambda _: Open())
    assert validate_log(done.log).ok
    rows = collect(done.log.scan("traces", list(done.log.columns("traces"))))
    votes = rows.filter(pl.col("pool") == "votes")
    assert votes.height == 12
    assert votes["device_s"].null_count() == 0
    assert not votes["tokens_estimated"].any()
    assert done.log.manifest.source["pools"]["votes"]["engine"]["engine"] == "vllm"
