"""The page of a log that grows: what a run says of itself, the numbers, the server, and the page in a browser."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import replay
from generate.engines.base import Call, CallFailure, EngineError
from generate.journal.database import FOLDER
from generate.journal.progress import PROGRESS, RunProgress, read_progress
from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from replay.runs.result.growing import AccuracyFollower, AccuracyLook
from tests.errors import refuses
from tests.generate.toy import RuleEngine, ShuffledEngine, write_recipe
from thinkback.commands import growing_log
from thinkback.commands.dashboard import dashboard
from thinkback.commands.growing_log import GrowingLog
from toolkit.log import AnyLog, LogWriter, collect, open_log, seal_log
from toolkit.show.dashboard.serving import PageServer, live_page_and_policy
from toolkit.stats.limits.confidence_sequences import mean_confidence_sequence

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]


def grown(log: Path, out: Path, first: int, last: int) -> None:
    """Append the rows of some examples of a log to a folder, as a run does."""
    source, writer = open_log(log), LogWriter(out)
    ids = collect(source.scan("examples", ["example_id"]))["example_id"].sort()[first:last]
    for table in ("examples", "traces", "verifications"):
        writer.append(table, collect(source.scan(table)).filter(pl.col("example_id").is_in(ids.implode())))


def test_a_run_says_how_far_it_is_and_goes_on_counting(tmp_path: Path) -> None:
    recipe, out, states = write_recipe(tmp_path, 8), tmp_path / "log", list[RunProgress | None]()
    plan = make_plan(load_recipe(recipe))

    def at(what: str, call: Call) -> None:
        states.append(read_progress(out))
        if what == "answered" and len(states) >= 20:
            raise EngineError("the server is away")

    with refuses("engine", "server"):
        generate(plan, out, lambda _: ShuffledEngine(at=at), block=2)
    assert states[0] is not None
    assert (states[0].traces, states[0].expected, states[0].running) == (0, plan.traces, True)
    halted = read_progress(out)
    assert halted is not None
    assert not halted.running
    assert 0 < halted.traces < plan.traces
    assert halted.completion_tokens > 0
    seen: list[RunProgress | None] = []
    generate(plan, out, lambda _: ShuffledEngine(at=lambda *_: seen.append(read_progress(out))), block=2)
    assert seen[0] is not None
    assert (seen[0].traces, seen[0].completion_tokens) == (halted.traces, halted.completion_tokens)
    assert seen[0].running
    assert read_progress(out) is None  # it went with the journal
    assert not (out / FOLDER).exists()


def test_what_failed_is_counted_by_cause(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path), tmp_path / "log"

    def fail(call: Call) -> CallFailure | None:
        if call.key.startswith("s001/probe"):
            return CallFailure("the prompt is <b>too</b> long", retryable=False, cause="400")
        return (
            CallFailure("no route", retryable=True, cause="connection") if call.key.startswith("s002/probe") else None
        )

    with refuses("incomplete", f"`{out}`", "`s002/probe/0`", "`with_failures`"):
        generate(make_plan(load_recipe(recipe)), out, lambda _: RuleEngine(fail))
    state = GrowingLog(out, AccuracyFollower()).state()
    failures = {one["cause"]: (one["calls"], one["again"], one["reason"]) for one in state["failures"]}
    assert failures["400"] == (1, False, "the prompt is <b>too</b> long")
    assert failures["connection"] == (1, True, "no route")
    (out / FOLDER / PROGRESS).write_text("{", encoding="utf-8")
    assert read_progress(out) is None


def test_accuracies_are_those_of_complete_questions_in_the_order_in_which_they_came(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "log"
    growing = GrowingLog(out, AccuracyFollower(level=0.9))
    out.mkdir()
    growing.update()
    assert growing.state()["policies"] == []
    grown(log, out, 24, 48)
    growing.update()
    first = growing.state()
    assert first["examples"] == 24
    grown(log, out, 0, 24)
    examples = collect(open_log(log).scan("examples"))
    LogWriter(out).append("examples", examples.head(1).with_columns(example_id=pl.lit("zz"), split=pl.lit("test")))
    growing.update()
    state = growing.state()
    reported = examples.filter(split="test").height
    assert {row["counted"] for row in state["policies"]} == {reported}  # another one has no trace yet
    result = replay.run(log, resamples=2)
    ids = examples.filter(split="test")["example_id"].sort().to_list()
    early = [one for one in ids if one >= "sim3-000000024"]
    order = [*early, *(one for one in ids if one not in early)]
    for row in state["policies"]:
        correct = dict(
            collect(result.outcomes.filter(policy=row["policy"]).select("example_id", "correct")).iter_rows()
        )
        values = np.array([correct[name] for name in order if name in correct], dtype=float)
        assert row["accuracy"] == pytest.approx(values.mean())
        low, high = mean_confidence_sequence(values, 0.9)
        assert (row["low"], row["high"]) == (pytest.approx(low[0]), pytest.approx(high[0]))
    assert "not sealed" in state["status"]
    seal_log(out, name="small", simulated=True)
    growing.update()
    assert "complete" in growing.state()["status"]


def test_a_question_that_is_completed_late_is_counted_last() -> None:
    """The first look counts 1, 0, 1, 0, …, the second the same and then what the first question gave, 1."""
    ids = [f"q{number:03d}" for number in range(41)]
    examples = pl.DataFrame({"example_id": ids, "dataset": "d", "split": "test", "question": ids, "gold": "1"})
    right = [True, *(number % 2 == 0 for number in range(40))]
    traces = pl.DataFrame(
        {"trace_id": ids, "example_id": ids, "pool": "one", "action": "solve", "sample_index": 0, "model": "m",
         "answer": ["1" if one else "0" for one in right], "correct": right}
    )  # fmt: skip
    follower = AccuracyFollower()
    [before] = follower.look({"examples": examples, "traces": traces[1:]}).policies
    [after] = follower.look({"examples": examples, "traces": traces}).policies
    assert (before.counted, after.counted) == (40, 41)
    for row, values in ((before, right[1:]), (after, [*right[1:], right[0]])):
        low, high = mean_confidence_sequence(np.array(values, dtype=float), 0.95)
        assert (row.low, row.high) == (pytest.approx(low[0]), pytest.approx(high[0]))
    wrong, _ = mean_confidence_sequence(np.array(right, dtype=float), 0.95)
    assert after.low != pytest.approx(wrong[0])


class FailingOnce(AccuracyFollower):
    """Fails at its first look, with an error that is no ThinkbackError."""

    def look(self, log: AnyLog) -> AccuracyLook:
        if not hasattr(self, "failed"):
            self.failed = True
            raise ZeroDivisionError("once")
        return super().look(log)


def test_a_follower_sees_other_shards_and_the_seal_and_looks_again_after_an_error(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_log, "LEAST_REST_S", 0.05)
    monkeypatch.setattr(growing_log, "REST", 0)
    out, stop = tmp_path / "log", threading.Event()
    grown(log, out, 0, 24)
    for shard in [*out.glob("*/part-*.parquet")]:
        shard.rename(shard.with_name(shard.name.replace("part-", "other")))
    growing = GrowingLog(out, FailingOnce())
    said = list[str]()

    def waits_for(what: Callable[[dict[str, Any]], bool]) -> None:
        until = time.monotonic() + 60
        while not what(state := growing.state()):
            said.append(state["waits"])
            assert time.monotonic() < until, state
            time.sleep(0.01)

    thread = threading.Thread(target=growing.follow, args=(stop,), daemon=True)
    thread.start()
    try:
        waits_for(lambda state: state["examples"] == 24)
        assert any("ZeroDivisionError" in one for one in said)
        assert "complete" not in growing.state()["status"]
        before = growing.look
        for shard in [*out.glob("*/other*.parquet")]:
            shard.rename(shard.with_name(shard.name.replace("other", "part-")))
        waits_for(lambda _: growing.look is not before)
        seal_log(out, name="small", simulated=True)
        waits_for(lambda state: "complete" in state["status"])
    finally:
        stop.set()
        thread.join()


def test_questions_in_an_order_and_in_clusters_have_no_limits() -> None:
    ids = [f"q{number:03d}" for number in range(300)]
    examples = pl.DataFrame({"example_id": ids, "dataset": "d", "split": "test", "question": ids, "gold": "1"})
    traces = pl.DataFrame(
        {"trace_id": ids, "example_id": ids, "pool": "one", "action": "solve", "sample_index": 0, "model": "m"}
    )
    answers = {"easy first": [i < 100 for i in range(300)], "mixed": [i % 3 == 0 for i in range(300)]}
    for name, right in answers.items():
        rows = traces.with_columns(answer=pl.Series(["1" if one else "0" for one in right]), correct=pl.Series(right))
        [row] = AccuracyFollower().look({"examples": examples, "traces": rows}).policies
        assert row.accuracy == pytest.approx(1 / 3)
        assert (row.low is None) == (name == "easy first")
    clustered = examples.with_columns(cluster=pl.format("c{}", pl.int_range(pl.len()) // 2))
    look = AccuracyFollower().look({"examples": clustered, "traces": rows})
    assert look.clustered
    assert {row.low for row in look.policies} == {None}


@contextmanager
def served(state: Callable[[], Any]) -> Iterator[PageServer]:
    with PageServer(*live_page_and_policy("a log, as it grows"), state) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def answer(address: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_only_its_token_and_its_own_name_open_the_page() -> None:
    with served(lambda: {"examples": 3}) as server:
        assert server.address.startswith("http://127.0.0.1:")
        assert len(server.token) >= 32
        status, text = answer(server.address)
        assert (status, "<!doctype html>" in text) == (200, True)
        assert server.token not in text
        assert answer(f"{server.address}state") == (200, '{"examples": 3}')
        port = server.server_address[1]
        assert answer(f"{server.address}state", Host=f"localhost:{port}")[0] == 200
        for host in (f"example.org:{port}", "127.0.0.1.example.org:80", f"[::1]:{port}", "", "127.0.0.1"):
            assert answer(f"{server.address}state", Host=host)[0] == 403
        root = f"http://127.0.0.1:{port}/"
        for path in (
            "",
            "state",
            "x/state",
            f"{server.token[:-1]}/state",
            f"{server.token}x/",
            f"{server.token}/other",
        ):
            assert answer(root + path)[0] == 403
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(f"{server.address}state", data=b"{}", timeout=10)
    with served(dict) as other:
        assert other.token != server.token


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    with refuses("not-found", "`nowhere`"):
        dashboard(serve=Path("nowhere"))
    with refuses("conflict", "`--serve LOG`"):
        dashboard([tmp_path], serve=tmp_path)
    with refuses("required", "`--serve LOG`"):
        dashboard([tmp_path])


def test_the_command_prints_its_address_and_ends_in_one_line(log: Path) -> None:
    command = [sys.executable, "-m", "thinkback", "dashboard", "--serve", str(log)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert run.stdout is not None
        address = run.stdout.readline().split()[0]
        until = time.monotonic() + 60
        while not (state := json.loads(answer(f"{address}state")[1]))["policies"] and time.monotonic() < until:
            time.sleep(0.1)
        assert len({row["counted"] for row in state["policies"]}) == 1
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=30)
        assert (run.returncode, out, len(err.splitlines())) == (130, "", 1)
    finally:
        run.kill()


HOSTILE = '</script><img src=x onerror="alert(1)"><b>bold</b>\u202eright'


def test_the_page_in_a_browser_grows_and_is_clean(chromium: Browser, log: Path, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="NO AXE: accessibility was not checked")
    out = tmp_path / "log"
    growing = GrowingLog(out, AccuracyFollower())
    grown(log, out, 0, 24)
    growing.update()
    failed = {"cause": HOSTILE, "calls": 2, "again": True, "reason": HOSTILE}

    def state() -> dict[str, Any]:
        told = growing.state()
        again = [{**row, "dataset": "another set"} for row in told["policies"]]
        return told | {
            "failures": [failed], "notes": [HOSTILE], "policies": again + told["policies"], "per_minute": 12.0,
            "left_s": 400.0, "expected": 999, "cost": 0.01234, "currency": "EUR",
        }  # fmt: skip

    with served(state) as server:
        for width, scheme in ((1400, "light"), (800, "dark"), (390, "dark"), (390, "light")):
            context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page, said, asked = context.new_page(), list[str](), list[str]()
            page.set_default_timeout(30_000)
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("pageerror", lambda error, said=said: said.append(str(error)))
            page.on("dialog", lambda dialog, said=said: (said.append("dialog"), dialog.dismiss()))
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto(server.address)
            page.wait_for_selector("#accuracy tbody tr")
            page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
            rules = "{rules: {'target-size': {enabled: true}}}"
            found = page.evaluate(f"axe.run(document, {rules}).then((told) => told.violations)")
            assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found] == []
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert page.locator("main img, main b").count() == 0
            assert page.locator("#failed td").last.inner_text().startswith("</script>")
            assert "12" in page.locator("#run").inner_text()
            page.locator("select").focus()
            page.keyboard.press("ArrowDown")
            if width == 1400:
                questions = page.locator("#accuracy tbody tr td:last-child").first
                before = questions.inner_text()
                grown(log, out, 24, 48)
                growing.update()
                best = growing.state()["policies"][0]
                assert best["counted"] > int(before)
                now = re.compile(f"^{best['counted']}$")
                page.locator("#accuracy tbody tr:first-child td", has_text=now).wait_for()
                assert page.locator("select").input_value() != "another set"  # what was chosen stays
                accuracy = float(page.locator("#accuracy tbody td").first.inner_text())
                assert accuracy == pytest.approx(100 * best["accuracy"], abs=0.0501)
            assert said == []
            assert [url for url in asked if not url.startswith((server.address, "data:"))] == []
            context.close()


def test_the_page_says_when_its_command_has_ended(chromium: Browser) -> None:
    with served(lambda: GrowingLog(Path("nowhere"), AccuracyFollower()).state()) as server:
        page = chromium.new_page()
        page.goto(server.address)
        page.locator("#status", has_text="Nothing is there").wait_for()
        server.server_close()
        server.shutdown()
        page.locator("#status", has_text="has ended").wait_for()
        page.close()


def test_numbers_of_the_page_are_rounded_as_everywhere(chromium: Browser) -> None:
    """201 of 400 are 50.25 %, whose half goes away from zero; money has no exponent."""
    with served(lambda: GrowingLog(Path("nowhere"), AccuracyFollower()).state()) as server:
        page = chromium.new_page()
        page.goto(server.address)
        assert page.evaluate("[percent(201 / 400), percent(0.5005), percent(1)]") == ["50.3", "50.1", "100.0"]
        amounts = page.evaluate("[1234.5, 0.01234, 12.345, 0].map(money)")
        assert amounts == ["1,235", "0.0123", "12.3", "0.00"]
        assert page.evaluate("time(9 * 3600)") == "9.0 hours"
        page.close()
