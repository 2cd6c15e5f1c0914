"""Settings of the engine `openai`, and the key, which is in the environment and nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from generate.engines.base import EngineError, EngineOptions
from toolkit.errors import argument
from toolkit.settings import setting

SECRET_WORDS = re.compile(r"api.?key|authorization|secret|password|access.?token", re.IGNORECASE)

KEYS_OF_HOSTS: Mapping[str, tuple[str, ...]] = {
    "api.anthropic.com": ("ANTHROPIC_API_KEY",),
    "api.cerebras.ai": ("CEREBRAS_API_KEY",),
    "api.deepinfra.com": ("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"),
    "api.deepseek.com": ("DEEPSEEK_API_KEY",),
    "api.fireworks.ai": ("FIREWORKS_API_KEY",),
    "api.groq.com": ("GROQ_API_KEY",),
    "api.mistral.ai": ("MISTRAL_API_KEY",),
    "api.openai.com": ("OPENAI_API_KEY",),
    "api.together.ai": ("TOGETHER_API_KEY",),
    "api.together.xyz": ("TOGETHER_API_KEY",),
    "api.x.ai": ("XAI_API_KEY",),
    "dashscope-intl.aliyuncs.com": ("DASHSCOPE_API_KEY",),
    "dashscope.aliyuncs.com": ("DASHSCOPE_API_KEY",),
    "generativelanguage.googleapis.com": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "integrate.api.nvidia.com": ("NVIDIA_API_KEY",),
    "openrouter.ai": ("OPENROUTER_API_KEY",),
    "router.huggingface.co": ("HF_TOKEN",),
}
"""The variables whose key belongs to a host, over HTTPS: a recipe may name them without being asked about."""

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

    def reaches(self) -> str:
        """The server and the variable."""
        key = "without a key" if self.key_variable is None else f"with the key in {self.key_variable}"
        return f"{self.base_url}, {key}"

    def check_keys(self, allowed: Collection[str]) -> None:
        """Free are the variables that belong to the host, and hosts that are this machine."""
        url, name = urlsplit(self.base_url), self.key_variable
        host = (url.hostname or "").rstrip(".")
        paired = KEYS_OF_HOSTS.get(host, ()) if url.scheme == "https" else ()
        if name is not None and name not in (*paired, *allowed) and not is_local(host):
            raise EngineError(
                f"engine `openai`: the key in `{name}` would go to `{url.scheme}://{url.netloc}`, to which it is not"
                f" known to belong: if you trust recipe and server, allow it with {argument('allow_keys')} {name}"
            )

    def check_extra(self, extra: Mapping[str, Any], place: str) -> None:
        """EngineError where further members of a request are among those that a call sets, or may hold a key."""
        for name in extra:
            if name in OWN:
                raise EngineError(f"{place} may not hold `{name}`, which the call itself sets")
            if SECRET_WORDS.search(name):
                raise EngineError(f"{place} may not hold `{name}`; use `key_variable`")


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return False


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
