"""Settings of the engine `openai`, and the key, which is in the environment and nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from generate.engines.base import EngineError, EngineOptions
from toolkit.settings import setting

SECRET_WORDS = re.compile(r"api.?key|authorization|secret|password|access.?token", re.IGNORECASE)

OWN = frozenset({
    "model", "prompt", "messages", "n", "seed", "temperature", "top_p", "stop", "stream", "logprobs", "max_tokens",
    "max_completion_tokens",
})  # fmt: skip


@dataclass(frozen=True)
class OpenAISettings(EngineOptions):
    """Settings of the engine `openai`.

    base_url: up to and including `/v1`. key_variable: the environment variable that holds the key; None: no key.
    concurrency: requests at once. timeout_s: for one attempt, from sending to the last byte.
    retries: further attempts after the first. backoff_s: before the second, doubled each time up to longest_wait_s;
    each wait is between half of that and all of it, by `seed`.
    samples_per_request: samples of equal temperature asked for in one request (`n`). Above 1 a request carries the seed
    of its first sample only, so a sample then depends on its neighbours.
    max_tokens_name: `max_completion_tokens` where a server wants that name. send_seed: whether seeds are sent.
    tokenizer: folder or hub name of the model's tokenizer, for counts that the server does not give.
    extra: further members of every request.
    """

    base_url: str = setting(identity=False)
    model: str = setting()
    key_variable: str | None = setting(None, identity=False)
    concurrency: int = setting(8, low=1, identity=False)
    timeout_s: float = setting(600.0, above=0, identity=False)
    connect_timeout_s: float = setting(10.0, above=0, identity=False)
    retries: int = setting(5, low=0, identity=False)
    backoff_s: float = setting(1.0, low=0, identity=False)
    longest_wait_s: float = setting(120.0, low=0, identity=False)
    seed: int = setting(0, identity=False)
    stop_after: int = setting(20, low=1, identity=False)
    samples_per_request: int = setting(1, low=1)
    max_tokens_name: str = setting("max_tokens")
    send_seed: bool = setting(True)
    tokenizer: str | None = setting(None)
    extra: Mapping[str, Any] = setting({})

    paths = ("tokenizer",)

    def __post_init__(self) -> None:
        super().__post_init__()
        url = urlsplit(self.base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise EngineError("`base_url` must be like `http://127.0.0.1:8000/v1`")
        if url.username or url.password or url.query:
            raise EngineError("`base_url` must hold no key; name a variable with `key_variable`")
        if self.key_variable is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key_variable):
            raise EngineError("`key_variable` must be the name of a variable, and not the key itself")
        self.check_extra(self.extra, "`extra`")

    @property
    def seeds_are_shared(self) -> bool:
        """A request carries the seed of its first sample alone."""
        return self.samples_per_request > 1

    def samples_at_once(self, samples: int) -> int:
        """Those of one request."""
        return self.samples_per_request

    def check_extra(self, extra: Mapping[str, Any], place: str) -> None:
        """EngineError where further members of a request are among those that a call sets, or may hold a key."""
        for name in extra:
            if name in OWN:
                raise EngineError(f"{place} may not hold `{name}`, which the call itself sets")
            if SECRET_WORDS.search(name):
                raise EngineError(f"{place} may not hold `{name}`; use `key_variable`")


def backoff(settings: OpenAISettings, attempt: int, drawn: float) -> float:
    """Seconds before the attempt after number `attempt` (from 0), for a number `drawn` from [0, 1)."""
    whole = min(settings.backoff_s * 2**attempt, settings.longest_wait_s)
    return whole * (0.5 + 0.5 * drawn)


def key_of(settings: OpenAISettings) -> str | None:
    """The key for a server's requests, None where none is wanted. EngineError where the variable holds none."""
    if settings.key_variable is None:
        return None
    key = os.environ.get(settings.key_variable, "").strip()
    if not key:
        raise EngineError(f"engine `openai`: the environment variable `{settings.key_variable}` holds no key; set it")
    if not key.isascii() or not key.isprintable():
        raise EngineError(f"engine `openai`: the key in `{settings.key_variable}` has characters no key has")
    return key
