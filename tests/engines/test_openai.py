"""The engine for OpenAI-compatible servers, against a real server that misbehaves."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from generate.engines import Call, CallFailure, Completion, EngineError, Message, open_engine
from generate.engines.exchange import retry_delay
from generate.engines.openai import _OpenAISettings
from generate.engines.replies import (
    IncompleteAnswer,
    UnknownPart,
    _divide_in_proportion,
    read_reply,
    retry_after_seconds,
)
from tests.engines.server import Server, sample_text
from tests.errors import numbers, refuses, says

KEY = "sk-very-secret-0123456789"


def engine(server: Server, **settings: Any) -> Any:
    quick = {"base_url": server.url, "model": "stub", "timeout_s": 5.0, "backoff_s": 0.01}
    return open_engine("openai", quick | settings)


def call(key: str = "a", prompt: Any = "two plus two", n: int = 1, t: float = 1.0, **more: Any) -> Call:
    return Call(key, prompt, tuple(range(7, 7 + n)), (t,) * n, 32, **more)


def only(made: Any, one: Call) -> Any:
    [(back, outcome)] = list(made.run([one]))
    assert back is one
    return outcome


def drain(made: Any, calls: list[Call], into: list[tuple[Call, Any]]) -> None:
    into.extend(made.run(calls))  # extends item by item: what came before an error stays


def test_completion_and_chat(server: Server) -> None:
    made = engine(server)
    [text] = only(made, call(logprobs=2, stop=("\n",), top_p=0.9))
    assert text.text == sample_text("two plus two", 7, 0, 1)
    words = len(text.text.split())
    assert (text.prompt_tokens, text.completion_tokens, text.tokens_estimated) == (3, words + 1, False)
    assert text.token_logprobs == (-0.5 - (words - 1), -0.5 - words)
    assert text.sum_logprob == -sum(0.5 + i for i in range(words + 1))
    assert (text.finish_reason, text.device_s) == ("stop", None)
    assert text.latency_s > 0
    sent = server.requests[0]
    assert sent["path"] == "/v1/completions"
    assert (sent["seed"], sent["top_p"], sent["stop"], sent["max_tokens"]) == (7, 0.9, ["\n"], 32)
    [chat] = only(made, call(prompt=(Message("system", "be brief"), Message("user", "two plus two"))))
    assert chat.text == text.text
    assert chat.token_logprobs is None
    assert chat.sum_logprob is None
    assert server.requests[1]["path"] == "/v1/chat/completions"
    assert made.describe()["reported_models"] == ["stub-1"]


def test_name_of_the_limit_and_extra_members(server: Server) -> None:
    only(engine(server, max_tokens_name="max_completion_tokens", send_seed=False, extra={"top_k": 5}), call())
    sent = server.requests[0]
    assert sent["max_completion_tokens"] == 32
    assert sent["top_k"] == 5
    assert not {"seed", "max_tokens"} & set(sent)


@pytest.mark.parametrize(
    "word", ["429", "429:0.1", "500", "503", "408", "hang", "broken", "half", "drop", "no-text", "error-200"]
)
def test_passing_trouble_is_asked_again(server: Server, word: str) -> None:
    server.plan = [word, word]
    [text] = only(engine(server, timeout_s=0.3 if word == "hang" else 5.0), call())
    assert text.text == sample_text("two plus two", 7, 0, 1)
    assert len(server.requests) == 3
    end = time.monotonic() + 10
    while not server.acknowledged and time.monotonic() < end:  # the server counts once the reply has left
        time.sleep(0.01)
    assert server.acknowledged == {"two plus two": 1}


@pytest.mark.parametrize("word", ["429", "500", "hang", "broken", "half", "drop", "no-text"])
def test_lasting_trouble_fails_the_call_and_a_later_run_may_ask(server: Server, word: str) -> None:
    server.plan = [word] * 3
    outcome = only(engine(server, retries=2, timeout_s=0.2 if word == "hang" else 5.0), call())
    assert isinstance(outcome, CallFailure)
    assert outcome.retryable
    assert outcome.reason.startswith("after 3 attempts: ")
    assert "\n" not in outcome.reason
    assert len(server.requests) == 3


@pytest.mark.parametrize("word", ["error-200", "bare-error-200", "page-200"])
def test_what_a_reply_says_in_place_of_an_answer_is_told_in_one_line(server: Server, word: str) -> None:
    server.plan = [word] * 3
    outcome = only(engine(server, retries=2), call())
    assert isinstance(outcome, CallFailure)
    assert "upstream is away" in outcome.reason
    assert "\n" not in outcome.reason


def test_no_server_fails_the_call() -> None:
    settings = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "retries": 1, "backoff_s": 0.01}
    outcome = only(open_engine("openai", settings), call())
    assert isinstance(outcome, CallFailure)
    assert outcome.retryable


def test_retry_after_is_kept_by_all_requests(server: Server) -> None:
    server.plan = ["429:0.6"]
    outcomes = dict(engine(server, concurrency=1).run([call("a"), call("b", "other")]))
    assert all(isinstance(outcome, tuple) for outcome in outcomes.values())
    assert server.times[1] - server.times[0] >= 0.6


def test_a_wait_that_is_too_long_is_not_waited_for(server: Server) -> None:
    server.plan = ["429:3600"]
    began = time.monotonic()
    outcome = only(engine(server), call())
    assert time.monotonic() - began < 3
    assert outcome.retryable
    assert "wait 3600 s" in outcome.reason


def test_backoff_doubles_between_half_and_whole(server: Server) -> None:
    server.plan = ["500"] * 3
    only(engine(server, backoff_s=0.2), call())
    gaps = [b - a for a, b in zip(server.times, server.times[1:], strict=False)]
    for gap, least in zip(gaps, (0.1, 0.2, 0.4), strict=True):
        assert gap >= least
    settings = _OpenAISettings(base_url="http://127.0.0.1/v1", model="m", backoff_s=0.2, longest_wait_s=1.5)
    assert [retry_delay(settings, attempt, 0.0) for attempt in range(5)] == pytest.approx([0.1, 0.2, 0.4, 0.75, 0.75])
    most = [retry_delay(settings, attempt, 0.999) for attempt in range(5)]
    assert most == pytest.approx([0.2, 0.4, 0.8, 1.5, 1.5], rel=1e-3)


def test_retry_after_reads_seconds_and_dates() -> None:
    assert retry_after_seconds("3") == 3
    assert retry_after_seconds("-1") == 0
    assert retry_after_seconds(None) is retry_after_seconds("soon") is retry_after_seconds("nan and") is None
    later = retry_after_seconds(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True))
    assert later == pytest.approx(60, abs=2)


@pytest.mark.parametrize(
    ("status", "code"), [("401", "server"), ("403", "server"), ("404", "server"), ("402", "quota")]
)
def test_what_no_retry_mends_stops_the_run(server: Server, status: str, code: str) -> None:
    server.plan = ["ok", status] + ["ok"] * 9
    done: list[tuple[Call, Any]] = []
    with refuses(code, status, *(["`1`"] if code == "server" else [])):
        drain(engine(server, concurrency=1), [call(str(i), f"q {i}") for i in range(5)], done)
    assert [one.key for one, _ in done] == ["0"]
    assert len(server.requests) == 2


def test_what_was_under_way_is_handed_out_before_the_run_stops(server: Server) -> None:
    server.plan, server.delay_s = ["ok", "ok", "ok", "401"], 0.2
    done: list[tuple[Call, Any]] = []
    with pytest.raises(EngineError):
        drain(engine(server, concurrency=4), [call(str(i), f"q {i}") for i in range(9)], done)
    assert sorted(server.acknowledged) == sorted(str(one.prompt) for one, _ in done)
    assert len(done) >= 3


def test_many_failures_in_a_row_stop_the_run(server: Server) -> None:
    server.plan = ["500"] * 100
    calls = [call(str(i), f"q {i}") for i in range(50)]
    failed: list[tuple[Call, Any]] = []
    with refuses("server", "5", "//127.0.0.1"):
        drain(engine(server, concurrency=1, retries=0, stop_after=5), calls, failed)
    assert len(failed) == 5


def test_prompt_too_long_fails_for_good_other_refusals_for_now(server: Server) -> None:
    server.plan = ["400-length", "400"]
    made = engine(server)
    for_good, for_now = only(made, call()), only(made, call())
    assert not for_good.retryable
    assert "96" in for_good.reason
    assert "120" in for_good.reason
    assert for_now.retryable
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context length is 96"
            " tokens and your request has 5 input tokens (512 > 96 - 5).",
            True,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context length is 96"
            " tokens and your request has 96 input tokens (512 > 96 - 96).",
            False,
        ),
        (
            "This model's maximum context length is 4097 tokens. However, you requested 4500 tokens (500 in the"
            " messages, 4000 in the completion). Please reduce the length of the messages or completion.",
            True,
        ),
        (
            "This model's maximum context length is 4097 tokens, however you requested 9000 tokens (5000 in your"
            " prompt; 4000 for the completion).",
            False,
        ),
        (
            "You passed 4097 input tokens and requested 8192 output tokens. However, the model's context length is only"
            " 8192 tokens, resulting in a maximum input length of 0 tokens.",
            True,
        ),
        ("max_tokens is too large: 100000. This model supports at most 16384 completion tokens", True),
        ("the request exceeds the available context size", False),
    ],
)
def test_a_limit_that_is_too_large_is_no_prompt_that_is_too_long(server: Server, said: str, limit: bool) -> None:
    server.plan, server.too_long = ["400-length"], said
    made = engine(server)
    if limit:
        with refuses("limit", "`a`", "`max_tokens`", "32"):
            only(made, call())
    else:
        assert not only(made, call()).retryable


def test_concurrency_is_a_limit_and_answers_are_matched(server: Server) -> None:
    server.delay_s = 0.05
    calls = [call(str(i), f"question {i}", n=3) for i in range(12)]
    outcomes = dict(engine(server, concurrency=4).run(calls))
    assert server.most == 4
    for one, outcome in outcomes.items():
        assert [c.text for c in outcome] == [sample_text(one.prompt, seed, 0, 1) for seed in one.seeds]


def test_nothing_is_sent_before_answers_are_taken(server: Server) -> None:
    running = engine(server, concurrency=2).run([call(str(i), f"q {i}") for i in range(20)])
    next(running)
    time.sleep(0.3)
    assert len(server.requests) <= 3
    running.close()
    assert len(server.requests) <= 3


def test_samples_of_one_request_are_counted_one_by_one(server: Server) -> None:
    made = engine(server, samples_per_request=4)
    outcome = only(made, Call("a", "two plus two", (1, 2, 3, 4, 5), (0.0, 1.0, 1.0, 1.0, 1.0), 32, logprobs=1))
    assert [request.get("n") for request in sorted(server.requests, key=lambda r: r.get("n", 1))] == [None, 4]
    assert [c.completion_tokens for c in outcome] == [len(c.text.split()) + 1 for c in outcome]
    assert not any(c.tokens_estimated for c in outcome)
    assert [c.text for c in outcome[1:]] == [sample_text("two plus two", 2, i, 1) for i in range(4)]


def test_sums_without_logprobs_are_null_or_estimated(server: Server, tiny: Path) -> None:
    outcome = only(engine(server, samples_per_request=3), call(n=3))
    assert [(c.prompt_tokens, c.completion_tokens, c.tokens_estimated) for c in outcome] == [(3, None, False)] * 3
    outcome = only(engine(server, samples_per_request=3, tokenizer=str(tiny)), call(n=3))
    reported = sum(len(c.text.split()) + 1 for c in outcome)
    assert sum(c.completion_tokens for c in outcome) == reported
    assert all(c.tokens_estimated for c in outcome)


def test_missing_usage_is_null_or_the_tokenizers_count(server: Server, tiny: Path) -> None:
    server.plan = ["no-usage", "no-usage"]
    [bare] = only(engine(server), call())
    assert (bare.prompt_tokens, bare.completion_tokens, bare.tokens_estimated) == (None, None, False)
    [counted] = only(engine(server, tokenizer=str(tiny)), call())
    assert counted.prompt_tokens == len("two plus two")
    assert counted.completion_tokens == len(counted.text) + 1  # a character a token, and the end
    assert counted.tokens_estimated


def test_fewer_samples_than_asked_says_what_to_set(server: Server) -> None:
    server.plan = ["few"] * 2
    outcome = only(engine(server, samples_per_request=2, retries=1), call(n=2))
    assert "1 of 2 samples" in outcome.reason
    assert "samples_per_request = 1" in outcome.reason
    server.plan = ["few"]
    outcome = only(engine(server, retries=0), call())
    assert numbers(outcome.reason)[-2:] == ["0", "1"]


@pytest.mark.parametrize("told", [-9999.0, float("nan"), float("-inf"), float("inf")])
def test_a_logprob_that_is_not_told_makes_the_sum_null(server: Server, told: float) -> None:
    server.sentinel = told
    [text] = only(engine(server), call(logprobs=4))
    assert text.sum_logprob is None
    assert text.token_logprobs is None


def read(message: dict[str, Any], reason: str | None = "max_tokens", **more: Any) -> Completion:
    payload = {"choices": [{"index": 0, "message": message, "finish_reason": reason}], **more}
    [made] = read_reply(payload, call(), 1, None, 1.0)
    return made


def test_thoughts_are_apart_from_the_text_under_every_name() -> None:
    for message in ({"content": "4", "reasoning": "2+2"}, {"content": "4", "reasoning_content": "2+2"}):
        made = read(message)
        assert (made.text, made.reasoning) == ("4", "2+2")
    made = read({"content": "<think>or 5</think>\n4", "reasoning": "2+2"})
    assert (made.text, made.reasoning) == ("4", "2+2\nor 5")
    made = read({"content": "<think>or 5", "reasoning": "2+2"})
    assert (made.text, made.reasoning) == ("", "2+2\nor 5")
    made = read({"content": None, "reasoning": "2+"})
    assert (made.text, made.reasoning, made.finish_reason) == ("", "2+", "length")
    assert read({"content": ""}).reasoning is None
    assert read({"content": None}).text == "", "hidden reasoning took all of the limit"


def test_parts_of_a_content_are_joined_and_unknown_ones_named() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "2 and 2"}]}
    parts = [thinking, {"type": "text", "text": "It is "}, {"type": "text", "text": "4."}]
    made = read({"content": parts}, "stop")
    assert (made.text, made.reasoning) == ("It is 4.", "2 and 2")
    made = read({"content": [{"type": "thinking", "thinking": "plain"}, {"type": "text", "text": "4"}]}, "stop")
    assert (made.text, made.reasoning) == ("4", "plain")
    with pytest.raises(UnknownPart, match="`image_url`"):
        read({"content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "stop")


def test_an_unknown_part_is_named_and_not_paid_again(server: Server) -> None:
    server.parts = [{"type": "audio", "audio": "x"}]
    outcome = only(engine(server), call(prompt=(Message("user", "two plus two"),)))
    assert isinstance(outcome, CallFailure)
    assert outcome.retryable
    assert "`audio`" in outcome.reason
    assert len(server.requests) == 1


def test_a_reason_for_no_text_is_an_answer_and_none_is_half_of_one() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
    made = read({"content": None, "tool_calls": calls}, "tool_calls")
    assert (made.text, made.finish_reason, json.loads(made.tool_calls or "")) == ("", "tool_calls", calls)
    for reason in ("content_filter", "stop", "recitation"):
        assert (read({"content": None}, reason).text, read({"content": None}, reason).tool_calls) == ("", None)
    with pytest.raises(IncompleteAnswer):
        read({"content": None}, None)


def test_what_was_billed_cached_and_thought_is_read() -> None:
    usage = {
        "prompt_tokens": 30, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 16},
        "completion_tokens_details": {"reasoning_tokens": 9}, "cost": 0.25,
    }  # fmt: skip
    made = read({"content": "4"}, "stop", usage=usage)
    assert (made.prompt_tokens, made.cached_tokens, made.reasoning_tokens, made.cost) == (30, 16, 9, 0.25)
    payload = {
        "choices": [
            {"index": i, "message": {"content": "4"}, "finish_reason": "stop", "token_ids": ids}
            for i, ids in enumerate(([1] * 4, [1] * 8))
        ],
        "usage": usage,
    }
    both = read_reply(payload, call(n=2), 2, None, 1.0)
    assert [one.completion_tokens for one in both] == [4, 8]
    assert [one.cost for one in both] == pytest.approx([0.25 / 3, 0.5 / 3]), "shares of what the request was billed"
    assert [one.reasoning_tokens for one in both] == [None, None], "known for the sum alone"
    assert [one.cached_tokens for one in both] == [16, 16]
    assert read({"content": "4"}, "stop", usage={"cost": float("nan")}).cost is None


def test_samples_of_one_request_say_so_and_which_seed_was_sent(server: Server) -> None:
    outcome = only(engine(server, samples_per_request=2), call(n=3))
    assert [one.request for one in outcome] == ["0", "0", None]
    assert [one.seeded for one in outcome] == [True, False, True]
    [text] = only(engine(server, send_seed=False), call())
    assert (text.seeded, text.request) == (False, None)


def test_a_call_that_is_cancelled_has_no_answer_and_frees_its_place(server: Server) -> None:
    made, calls = engine(server, concurrency=1), [call(str(i), f"q {i}") for i in range(3)]
    server.delay_s = 0.2
    for one in calls:
        made.submit(one)
    made.cancel(calls[0])
    made.cancel(calls[1])
    assert [one.key for one, _ in made.completed()] == ["2"]
    assert list(made.completed()) == []
    made.close()


def test_sums_are_divided_whole() -> None:
    assert _divide_in_proportion(10, [1, 1, 1]) == [4, 3, 3]
    assert _divide_in_proportion(7, [0, 0]) == [4, 3]
    assert _divide_in_proportion(6, [1, 2, 3]) == [1, 2, 3]


@pytest.mark.parametrize("status", ["401", "400", "500"])
def test_the_key_is_sent_and_appears_nowhere(
    server: Server, status: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STUB_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server.plan = [status]  # the server says the key back
    made = engine(server, key_variable="STUB_KEY", retries=0)
    try:
        said = repr(only(made, call()))
    except EngineError as error:
        said = str(error)
        chain: BaseException | None = error
        while chain is not None:
            said += repr(chain)
            chain = chain.__cause__ or chain.__context__
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert "[key]" in said
    seen = [said, repr(made), repr(vars(made)), json.dumps(made.describe()), repr(made.settings), caplog.text]
    assert not any(KEY in text for text in seen)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"key_variable": "NOT_SET_ANYWHERE"}, ("key", "`NOT_SET_ANYWHERE`")),
        ({"key_variable": KEY}, ("invalid", "`key_variable`")),
        ({"base_url": "http://user:pass@h/v1"}, ("invalid", "`base_url`", "`key_variable`")),
        ({"base_url": "ftp://h/v1"}, ("invalid", "`base_url`", "`http://127.0.0.1:8000/v1`")),
        ({"extra": {"api_key": KEY}}, ("conflict", "`api_key`")),
        ({"extra": {"seed": 3}}, ("conflict", "`seed`")),
        ({"concurrency": 0}, ("invalid", "`concurrency`", "0", "1")),
        ({"concurrency": "2"}, ("invalid", "`concurrency`", "'2'")),
        ({"timeout_s": "9"}, ("invalid", "`timeout_s`", "'9'", "0")),
        ({"base_url": 3}, ("invalid", "`base_url`", "3")),
        ({"extra": ["top_k"]}, ("invalid", "`extra`", "'top_k'")),
        ({"concurency": 2}, ("unknown", "`concurrency`")),
    ],
)
def test_wrong_settings_are_one_line(server: Server, settings: dict[str, Any], refusal: tuple[str, ...]) -> None:
    with pytest.raises(EngineError) as caught:
        engine(server, **settings)
    says(caught.value, *refusal)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_setting_and_unknown_engine() -> None:
    with refuses("required", "`base_url`"):
        open_engine("openai", {"model": "m"})
    with refuses("unknown", "`openai`"):
        open_engine("openia", {})
