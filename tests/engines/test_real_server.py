"""A real local server, `transformers serve`, through the engine `openai`: it and the engine `transformers` agree."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from generate.engines import Call, Message, open_engine
from tests.engines.serving import serving


@pytest.fixture(scope="module")
def served(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("fastapi", reason="`transformers serve` wants the extra `serving`")
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(tiny), "--device", "cpu"]
    with serving(command, tmp_path_factory.mktemp("serve") / "log", 60) as url:
        yield url


@pytest.mark.slow
def test_greedy_and_counts_agree_with_the_engine_here(served: str, tiny: Path) -> None:
    chats = [(Message("user", f"Solve {i}x + 3 = {7 * i}"),) for i in range(5)]
    calls = [Call(f"c{i}", chat, (1,), (0.0,), 24) for i, chat in enumerate(chats)]
    here = open_engine("transformers", {"model": str(tiny)})
    there = open_engine("openai", {"base_url": served, "model": str(tiny), "concurrency": 2, "timeout_s": 30.0})
    expected: Any = {call.key: outcome for call, outcome in here.run(calls)}
    got: Any = {call.key: outcome for call, outcome in there.run(calls)}
    for key, [completion] in got.items():
        [twin] = expected[key]
        assert completion.text == twin.text
        assert (completion.prompt_tokens, completion.finish_reason) == (twin.prompt_tokens, twin.finish_reason)
        assert completion.completion_tokens == twin.completion_tokens
        assert not completion.tokens_estimated
