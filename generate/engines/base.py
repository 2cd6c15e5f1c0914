"""The interface between a run and an engine, which runs a model: calls go in, completions come out.

An engine takes calls while it works on others (`submit`), gives what is done (`completed`), and forgets a call that is
no longer wanted (`cancel`). One that has `run` alone, and so works on the calls of a list, is given all that are due
when it has done those before (`queued`).

What comes back for one call is either its samples, one per seed and in their order, or a `CallFailure`. Four
endings are kept apart, since they mean different things to a run that is resumed:

- `CallFailure(retryable=False)`: the call itself is at fault (a prompt longer than the model takes). Record it; asking
  again is pointless.
- `CallFailure(retryable=True)`: the moment was at fault (a server that hung through all retries). A later run asks
  again.
- `CallFailure(refused=True)`: a server says that the request is at fault. It is believed, and recorded, once it has
  answered another call of the pool; until then the recipe may be at fault.
- `EngineError` raised: no call can succeed (a wrong key, a model that isn't there). What had been sent was waited for
  and handed out first.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from time import monotonic
from typing import Any, ClassVar, Protocol, TypeVar

from toolkit.errors import InvalidError, ThinkbackError
from toolkit.settings import check, from_table

FINISH_WORDS = {
    **dict.fromkeys(("eos", "eos_token", "end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(
        ("max_tokens", "max_length", "max_output_tokens", "model_length", "model_context_window_exceeded"), "length"
    ),
    "abort": "error",
}


Value = TypeVar("Value")


class EngineError(ThinkbackError):
    """An engine that cannot work at all: its settings, its model or its key are wrong. Its code says which."""


@dataclass(frozen=True)
class Message:
    """One message of a chat. A last message with the role `assistant` is continued, not answered."""

    role: str
    content: str


Prompt = str | tuple[Message, ...]


@dataclass(frozen=True)
class Call:
    """One prompt and the samples wanted of it. The whole call is done or not done: it is the unit of resuming.

    key: unique in the run; names the call in progress, errors and the record of what is done.
    prompt: a text to complete, or the messages of a chat.
    seeds: one sample per seed; where the engine can, a sample depends on its own seed alone.
    temperatures: one per sample; 0 is greedy.
    logprobs: how many of the last completion tokens' log-probabilities to return.
    extra: further members of the request, for servers.
    proven: whether a call of the same pool was answered before, so that key, address and settings are right.
    engine: the recipe's engine by name; empty for `[engine]`.
    """

    key: str
    prompt: Prompt
    seeds: tuple[int, ...]
    temperatures: tuple[float, ...]
    max_tokens: int
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    logprobs: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    proven: bool = field(default=False, compare=False)
    engine: str = ""

    def __post_init__(self) -> None:
        wrong = (
            "has no seeds" if not self.seeds
            else "needs one temperature per seed" if len(self.seeds) != len(self.temperatures)
            else "has a temperature below 0 or not finite" if not all(0 <= t < math.inf for t in self.temperatures)
            else f"needs `max_tokens` of at least 1, got {self.max_tokens}" if self.max_tokens < 1
            else f"needs `top_p` in (0, 1], got {self.top_p}" if not 0 < self.top_p <= 1
            else f"needs `logprobs` of at least 0, got {self.logprobs}" if self.logprobs < 0
            else "has an empty stop string" if not all(self.stop)
            else "has an empty prompt" if not self.prompt
            else None
        )  # fmt: skip
        if wrong is not None:
            raise InvalidError(f"call `{self.key}` {wrong}")


@dataclass(frozen=True)
class Completion:
    """One sample. None is `not known`, never zero.

    text: what was written, without the end-of-sequence token or the stop string that ended it.
    token_ids: everything generated, the end-of-sequence token and a stop string's tokens included.
    token_logprobs: natural log-probabilities of the last `Call.logprobs` generated tokens, in text order, under the
        model's own distribution: before temperature and top-p. sum_logprob: of all generated tokens.
    token_entropies, token_ranks: of the same tokens, where the engine tells them: the entropy in nats of that
        distribution, and how many tokens it finds more likely, plus 1.
    prompt_tokens, completion_tokens: realised; the latter counts what `token_ids` holds.
    tokens_estimated: the counts are not the engine's own.
    finish_reason: `length` when a limit was hit, `stop` when the model ended, or the engine's word.
    latency_s: seconds from sending to this sample's end. device_s: its share of the engine's busy seconds.
    max_tokens: the limit that held where the context left less room than the call's; None: the call's.
    reasoning: a model's thoughts, which are no part of `text`; reasoning_tokens: how many of `completion_tokens`.
    cached_tokens: prompt tokens that were not read again. tool_calls: the server's JSON. cost: as billed.
    request: names the reply within the call, where several samples came in it. seeded: the sample's own seed was sent.
    started_at: when it was sent, in seconds since 1970.
    """

    text: str
    token_ids: Sequence[int] | None
    token_logprobs: Sequence[float] | None
    sum_logprob: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens_estimated: bool
    finish_reason: str | None
    latency_s: float
    device_s: float | None
    max_tokens: int | None = None
    token_entropies: Sequence[float] | None = None
    token_ranks: Sequence[int] | None = None
    reasoning: str | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    tool_calls: str | None = None
    cost: float | None = None
    request: str | None = None
    seeded: bool = True
    started_at: float | None = None


FAILED, TOO_LONG, EMPTY = "failed", "prompt too long", "prompt without tokens"
"""Causes of failures: an unnamed one, and those that engines name."""


@dataclass(frozen=True)
class CallFailure:
    """Why a call gave nothing. retryable: whether asking again in a later run makes sense. refused: a server says so of
    this request. cause: the few words under which such failures are counted, as `400`.
    """

    reason: str
    retryable: bool
    refused: bool = field(default=False, compare=False)
    cause: str = field(default=FAILED, compare=False)


Outcome = tuple[Completion, ...] | CallFailure


class Engine(Protocol):
    """An engine, which runs a model. `model` is the value of the log's column `model`."""

    name: str
    model: str

    def describe(self) -> dict[str, object]:
        """The manifest's record: model, revision and hash of the weights, versions, dtype, device; never a key."""

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        """Each call with its samples or its failure, as they finish, in any order."""

    def close(self) -> None:
        """Give back memory and connections; the engine is not used afterwards."""


class CallQueue(ABC):
    """The interface of an engine that takes calls while it works on others; `run` rests on it."""

    has_pausing_engine = False
    """Whether it may wait between two answers that it gives in a row."""

    @abstractmethod
    def submit(self, call: Call) -> None:
        """Take a call, whose key is that of no other that waits."""

    @abstractmethod
    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        """Wait until a call is done, then give all that are; nothing where none waits. What was given is in the journal
        when the next are asked for.

        EngineError where no call can succeed, once all are given that were on their way.
        """

    @abstractmethod
    def cancel(self, call: Call) -> None:
        """Forget a call; it gets no answer. One that does not wait is passed over."""

    def can_complete(self) -> bool:
        """Whether an answer is there, or comes by what the engine does while `completed` waits."""
        return True

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        """Each call with its samples or its failure, as they finish, in any order."""
        waiting = {call.key: call for call in calls}
        for call in calls:
            self.submit(call)
        try:
            while waiting:
                for call, outcome in self.completed():
                    waiting.pop(call.key, None)
                    yield call, outcome
        finally:
            for call in waiting.values():
                self.cancel(call)


class ListedCalls(CallQueue):
    """The queue of an engine that has `run` alone: what was submitted while it worked is its next list."""

    has_pausing_engine = True
    PATIENCE_S, MOST = 0.02, 64
    """After so many seconds, or calls, what is done is looked at before the list goes on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._due: dict[str, Call] = {}
        self._cancelled: set[str] = set()
        self._running: Iterator[tuple[Call, Outcome]] | None = None

    def submit(self, call: Call) -> None:
        self._due[call.key] = call
        self._cancelled.discard(call.key)

    def cancel(self, call: Call) -> None:
        if self._due.pop(call.key, None) is None:
            self._cancelled.add(call.key)

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        given, until = 0, 0.0
        while not given or (given < self.MOST and monotonic() < until):
            if self._running is None:
                if not self._due:
                    return
                due, self._due = list(self._due.values()), {}
                self._running = iter(self._engine.run(due))
            pair = next(self._running, None)
            if pair is None:
                self._running = None
                if given:
                    return
            elif pair[0].key not in self._cancelled:
                until = until or monotonic() + self.PATIENCE_S
                given += 1
                yield pair


def call_queue(engine: Any) -> CallQueue:
    """The queue of an engine: itself, where it has `submit`."""
    queue: CallQueue = engine if hasattr(engine, "submit") else ListedCalls(engine)
    return queue


def finish_word(reason: str | None) -> str | None:
    """The log's word for an engine's finish reason: `length` for every limit, `stop` for every natural end."""
    return None if reason is None else FINISH_WORDS.get(reason, reason)


def too_long_failure(prompt_tokens: int, context: int) -> CallFailure:
    """The failure of a prompt that leaves no room for a single token."""
    return CallFailure(
        f"the prompt has {prompt_tokens} tokens and the model takes {context}", retryable=False, cause=TOO_LONG
    )


def split_in_proportion(total: float, weights: Sequence[float]) -> list[float]:
    """`total` divided in proportion to `weights`; evenly when all are zero. The parts add up to it."""
    whole = sum(weights)
    if whole <= 0:
        return [total / len(weights)] * len(weights)
    return [total * weight / whole for weight in weights]


def summed_cost(completions: Sequence[Completion], name: str) -> Any:
    """The sum of a cost of several completions; None where one of them is not known."""
    parts = [getattr(completion, name) for completion in completions]
    return None if None in parts else sum(parts)


def build_without_checks(kind: type[Value], values: Mapping[str, Any]) -> Value:
    """A frozen dataclass of values that were checked before: all of them, by field, in the order of fields."""
    one = object.__new__(kind)
    vars(one).update(values)
    return one


PACKED = {"token_ids": "i", "token_ranks": "i", "token_logprobs": "d", "token_entropies": "d"}
"""The lists of a completion, with the type of their numbers: int32 and float64."""


def storable_completion(completion: Completion, **other: Any) -> Completion:
    """A completion that a log can store, in little memory: without half characters, where a server cut the text within
    one, and with null for log-probabilities that are NaN or infinite. `other`: values in place of its own.
    """
    values = {**vars(completion), **other}
    for name, kind in PACKED.items():
        if values[name] is not None:
            values[name] = array(kind, values[name])
    if values["token_logprobs"] is not None and not all(map(math.isfinite, values["token_logprobs"])):
        values["token_logprobs"] = None
    if values["sum_logprob"] is not None and not math.isfinite(values["sum_logprob"]):
        values["sum_logprob"] = None
    for name in ("text", "reasoning"):
        values[name] = None if values[name] is None else _utf8(values[name])
    return build_without_checks(Completion, values)


def _utf8(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """The text before the first of the stop strings in it."""
    return text[: min((place for one in stop if (place := text.find(one)) >= 0), default=len(text))]


class EngineOptions:
    """The settings of an engine: a frozen dataclass with a `model`. What may change when a run is continued, since it
    says how calls are made and not what comes back, is marked `identity=False`.
    """

    paths: ClassVar[tuple[str, ...]] = ()
    """Settings that name a file or folder, which is looked for beside the recipe first."""
    model: str

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def changes_completions(cls, key: str) -> bool:
        """Whether a setting changes the completions."""
        return any(one.name == key and one.metadata.get("identity", True) for one in fields(cls))  # type: ignore[arg-type]

    @property
    def seeds_are_shared(self) -> bool:
        """Whether samples of one call share a seed, so that their grouping changes the completions."""
        return False

    @property
    def slots(self) -> int:
        """The number of calls that the engine works on at one time."""
        return 1

    @property
    def prompt_billed_once(self) -> bool:
        """Whether the samples of one request are billed one prompt."""
        return False

    @property
    def cost_currency(self) -> str | None:
        """The currency of the engine's costs; None where it tells none."""
        return None

    def samples_at_once(self, samples: int) -> int:
        """The number of samples in one call that the engine prefers, out of `samples` of one prompt."""
        return samples

    def split_into_requests(self, temperatures: Sequence[float]) -> list[list[int]]:
        """The requests that one call becomes, each as the places of its samples, which have these temperatures."""
        return [list(range(len(temperatures)))]

    def server_and_key_text(self) -> str | None:
        """The server that is asked, and where its key comes from, in words; None where nothing leaves this process."""
        return None

    def check_api_key_access(self, allowed: Collection[str]) -> None:
        """Raise EngineError where a key would go to a server that it does not belong to, unless it is `allowed`."""

    def check_extra(self, extra: Mapping[str, Any], place: str) -> None:
        """Raise EngineError where a request cannot have these further members."""
        if extra:
            raise EngineError(f"leave out {place}: it is for servers, which the engine does not ask", code="conflict")


Options = TypeVar("Options", bound=EngineOptions)


def read_settings(kind: type[Options], table: Mapping[str, Any], engine: str) -> Options:
    """An engine's settings from the recipe's table; unknown, missing and misused keys are one line each."""
    try:
        return from_table(kind, table)
    except ThinkbackError as error:
        raise EngineError(f"engine `{engine}`: {error}", code=error.code) from None
