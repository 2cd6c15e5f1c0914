"""A log can always be sealed: which failures are final, which calls are asked again, and what a log says of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import add_signals
from generate.engines.base import EngineError
from generate.journal.database import Journal
from generate.journal.events import Answered
from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import Generated, generate, seal_unfinished
from generate.signals.additions import load_additions
from replay import run as replay
from tests.engines.server import Server
from tests.errors import numbers, quotes, refuses
from tests.generate.toy import write_recipe
from thinkback.commands.seal import seal
from toolkit.log import calls_left_out, collect, merge_logs, open_log, validate_log

RECIPE = """
name = "words"
[data]
dataset = "examples"
path = "examples.jsonl"
[engine]
kind = "openai"
model = "stub"
base_url = "URL"
retries = 1
backoff_s = 0
[[sample]]
pool = "votes"
prompt = "ask.txt"
samples = SAMPLES
temperature = 1
max_tokens = 64
"""
AGAIN = """
[[revise]]
pool = "again"
action = "self_correct"
of = "votes"
prompt = "again.txt"
max_tokens = 32
"""
FIRST = '[[policy]]\nname = "first"\nkind = "sample"\npool = "votes"\nmax_traces = 1\nselect = "majority"\n'


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def recipe_of(folder: Path, server: Server, examples: int = 6, samples: int = 1, more: str = "") -> Path:
    text = (RECIPE + more).replace("URL", server.url).replace("SAMPLES", str(samples))
    return write_recipe(folder, examples, text)


def go(recipe: Path, out: Path, **options: object) -> Generated:
    return generate(make_plan(load_recipe(recipe)), out, **options)  # type: ignore[arg-type]


def about(number: int, word: str) -> Callable[[dict[str, object]], str | None]:
    """The word for what is asked about a question."""
    return lambda body: word if f"{number} + {3 * number + 1}" in str(body["prompt"]) else None


def asked(server: Server) -> Counter[str]:
    return Counter(str(body["prompt"]).partition("Sum: ")[2] for body in server.requests)


def traces(done: Generated) -> pl.DataFrame:
    return collect(done.log.scan("traces")).sort("trace_id")


@pytest.mark.parametrize("status", ["400", "413", "422"])
def test_a_refused_question_is_left_out_and_counted(tmp_path: Path, server: Server, status: str) -> None:
    server.rule = about(3, status)
    done = go(recipe_of(tmp_path, server, more=AGAIN), tmp_path / "log", block=2)
    assert validate_log(done.log).ok
    assert done.log.rows("examples") == 6
    assert "s003" not in traces(done)["example_id"]
    assert done.log.manifest.source["left_out"] == {status: 1}
    assert [call for call, _ in done.failures] == ["s003/votes/0"]
    assert asked(server)["3 + 10"] == 1, "a refusal is not repeated"
    found = replay(done.log, FIRST, resamples=10)
    assert list(found.excluded) == ["s003"]
    [said] = [one for one in found.notes if one.code == "calls_failed"]
    assert f"1 ({status}: 1)" in said.text


def test_a_refusal_before_the_first_answer_waits_for_it(tmp_path: Path, server: Server) -> None:
    server.rule = about(0, "400")
    done = go(recipe_of(tmp_path, server), tmp_path / "log", block=1)
    assert done.log.manifest.source["left_out"] == {"400": 1}
    assert asked(server)["0 + 1"] == 1


def test_twenty_equal_refusals_of_a_pool_without_an_answer_end_the_run(tmp_path: Path, server: Server) -> None:
    server.plan = ["400"] * 60
    recipe = recipe_of(tmp_path, server, 30)
    with refuses("incomplete", "20", "400"):
        go(recipe, tmp_path / "log")
    with Journal(tmp_path / "log") as journal:
        assert not list(journal.events(Answered)), "nothing is final"
    server.plan = []
    assert go(recipe, tmp_path / "log").failures == ()


def test_few_refusals_of_a_pool_without_an_answer_are_asked_again(tmp_path: Path, server: Server) -> None:
    recipe, server.plan = recipe_of(tmp_path, server, 3), ["422"] * 3
    with refuses("incomplete", "`with_failures`", "3"):
        go(recipe, tmp_path / "log")
    done = go(recipe, tmp_path / "log")
    assert (done.failures, done.log.rows("traces")) == ((), 3)


def test_hidden_reasoning_that_takes_the_limit_is_a_trace_without_an_answer(tmp_path: Path, server: Server) -> None:
    server.rule = about(2, "hidden")
    done = go(recipe_of(tmp_path, server), tmp_path / "log")
    [row] = traces(done).filter(pl.col("example_id") == "s002").to_dicts()
    assert (row["answer"], row["text"], row["finish_reason"]) == (None, "", "length")
    assert row["completion_tokens"] > 0
    assert asked(server)["2 + 7"] == 1


@pytest.mark.parametrize("word", ["401", "403", "404", "429", "503", "drop"])
def test_what_may_pass_is_never_final_by_itself(tmp_path: Path, server: Server, word: str) -> None:
    recipe, out = recipe_of(tmp_path, server), tmp_path / "log"
    server.rule = about(5, "503")
    with refuses("incomplete", "`s005/votes/0`", "1"):
        go(recipe, out)  # the other five are answered
    server.rule, before = about(5, word), len(server.requests)
    with refuses("incomplete", "`s005/votes/0`", "1"):
        go(recipe, out)
    assert {one["prompt"] for one in server.requests[before:]} == {"Sum: 5 + 16"}, "what was answered is not repeated"
    done = go(recipe, out, with_failures=True)
    [(cause, count)] = done.log.manifest.source["left_out"].items()
    assert (count, cause) == (1, "no connection" if word == "drop" else word)
    assert (done.log.rows("examples"), done.log.rows("traces")) == (6, 5)


def test_an_unknown_address_or_model_ends_the_run_at_once(tmp_path: Path, server: Server) -> None:
    server.plan = ["404"] * 60
    recipe = recipe_of(tmp_path, server, 30)
    recipe.write_text(recipe.read_text().replace("retries = 1", "concurrency = 1"))
    with refuses("server", server.url, "`s000/votes/0`", "404"):
        go(recipe, tmp_path / "log")
    assert len(server.requests) == 1


@pytest.mark.parametrize("word", ["429-quota", "402"])
def test_a_spent_quota_ends_the_run_at_the_first_reply_that_says_so(tmp_path: Path, server: Server, word: str) -> None:
    server.plan = ["ok", "ok", *[word] * 60]
    recipe, out = recipe_of(tmp_path, server, 30), tmp_path / "log"
    recipe.write_text(recipe.read_text().replace("retries = 1", "concurrency = 1"))
    with refuses("quota", server.url):
        go(recipe, out)
    assert len(server.requests) == 3
    with refuses("quota", server.url):
        go(recipe, out, with_failures=True)
    assert len(server.requests) == 4


def test_a_missing_sample_is_closed_by_renumbering_and_a_refused_revision_is_missing(
    tmp_path: Path, server: Server
) -> None:
    recipe = recipe_of(tmp_path, server, samples=3, more=AGAIN)
    plan = make_plan(load_recipe(recipe))
    from generate.recipes.recipe import seed_of

    seed = seed_of(plan.recipe.seed, "s004", "votes", 1) % 2**31
    again = [f"{2} + {7}", "That may be wrong"]

    def rule(body: dict[str, object]) -> str | None:
        return "422" if body["seed"] == seed or all(part in str(body["prompt"]) for part in again) else None

    server.rule = rule
    done = generate(plan, tmp_path / "log")
    rows = traces(done).filter((pl.col("example_id") == "s004") & (pl.col("pool") == "votes"))
    assert rows["trace_id"].to_list() == ["s004/votes/0", "s004/votes/2"]
    assert rows["sample_index"].to_list() == [0, 1]
    revised = traces(done).filter(pl.col("pool") == "again")["example_id"].to_list()
    assert revised == ["s000", "s001", "s003", "s004", "s005"]
    assert done.log.manifest.source["left_out"] == {"422": 2}
    assert validate_log(done.log).ok
    found = replay(done.log, FIRST.replace("max_traces = 1", "max_traces = 2"), resamples=10)
    assert not found.excluded


def test_an_unfinished_run_is_sealed_without_what_was_not_answered(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, out = recipe_of(tmp_path, server, samples=2), tmp_path / "log"
    recipe.write_text(recipe.read_text().replace("retries = 1", "retries = 0\nconcurrency = 1"))
    server.plan = ["ok"] * 3 + ["402"]
    with pytest.raises(EngineError):
        go(recipe, out)
    with refuses("incomplete", "`--with-failures`"):
        seal(out)
    before = len(server.requests)
    seal(out, with_failures=True)
    assert len(server.requests) == before
    log = open_log(out)
    assert log.manifest is not None
    assert log.manifest.source["left_out"] == {"unanswered": 9}
    assert (log.rows("examples"), log.rows("traces")) == (6, 3)
    printed = capsys.readouterr().out
    quotes(printed, f"`{out}`", "`source.failures`")
    assert "9" in numbers(printed)
    assert validate_log(log).ok


def test_a_run_without_an_answer_is_not_sealed(tmp_path: Path, server: Server) -> None:
    server.plan = ["402"] * 9
    with pytest.raises(EngineError):
        go(recipe_of(tmp_path, server), tmp_path / "log")
    with refuses("incomplete", "`s000/votes/0`", "`out`"):
        seal_unfinished(tmp_path / "log")


def test_what_copies_of_a_log_left_out_counts_once_in_their_merge(tmp_path: Path, server: Server) -> None:
    server.rule = about(3, "400")
    log = go(recipe_of(tmp_path, server), tmp_path / "log").log
    merged = merge_logs([str(tmp_path / "log"), str(tmp_path / "log")], tmp_path / "both").log
    assert log.manifest is not None
    assert merged.manifest is not None
    assert calls_left_out(merged.manifest.source) == calls_left_out(log.manifest.source) == {"400": 1}


JUDGED = """
name = "judged"
[engine]
kind = "openai"
model = "stub"
base_url = "URL"
retries = 0
[[verify]]
name = "judge"
kind = "judge"
prompt = "score.txt"
read = "number"
"""


def test_a_refused_verification_is_a_missing_score(tmp_path: Path, server: Server) -> None:
    go(recipe_of(tmp_path, server, 12), tmp_path / "log")
    (tmp_path / "score.txt").write_text("Judge: {{question}} {{attempt}}\n", encoding="utf-8")
    recipe = tmp_path / "judged.toml"
    recipe.write_text(JUDGED.replace("URL", server.url), encoding="utf-8")
    server.say = lambda prompt: "0.5" if prompt.startswith("Judge") else None
    words = {"Judge: 1 + 4": "422", "Judge: 2 + 7": "503"}
    server.rule = lambda body: next((words[start] for start in words if body["prompt"].startswith(f"{start} ")), None)
    with refuses("incomplete", "1"):
        add_signals(make_add_plan(load_additions(recipe), tmp_path / "log"))
    before = len(server.requests)
    done = add_signals(make_add_plan(load_additions(recipe), tmp_path / "log"), with_failures=True)
    assert len(server.requests) == before + 1, "what a server refused, and what it answered, is not asked again"
    assert done.log.rows("verifications") == 10
    assert done.log.manifest is not None
    assert done.log.manifest.source["verifiers"]["judge"]["left_out"] == {"422": 1, "503": 1}
    assert calls_left_out(done.log.manifest.source) == {"422": 1, "503": 1}
    assert validate_log(done.log).ok
    assert not make_add_plan(load_additions(recipe), tmp_path / "log").missing_row_count, "both are settled"
