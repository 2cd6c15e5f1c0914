"""Loops: the same rows as plain ones for answers in any order, a kill at every request, and loops that go wrong."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from generate.journal.database import FOLDER
from tests.errors import refuses
from tests.generate.test_queue import Moments
from tests.loops.scripted import ALL, HEAD, OWN, REVISING, Plain, go, rows, write_loops
from tests.seeds import seeds
from toolkit.log import collect, validate_log

POOLS = ("forced", "revised", "beam", "tools", "own")


def test_every_loop_agrees_with_a_plain_one(tmp_path: Path) -> None:
    engines: list = []
    log = go(write_loops(tmp_path), tmp_path / "log", engines=engines)
    assert validate_log(log).ok
    frame = rows(log)
    asked = {call.key.removesuffix("-1") for engine in engines for call in engine.calls}
    questions = dict(rows(log, "examples").select("example_id", "question").rows())
    for pool in ("forced", "revised", "beam", "tools"):
        for example, question in questions.items():
            plain = Plain(pool, example, question)
            texts = getattr(plain, pool)()
            mine = frame.filter(pool=pool, example_id=example).sort("sample_index")
            assert mine["text"].to_list() == texts
            assert {key for key in asked if key.split("#")[0].startswith(f"{example}/{pool}")} == set(plain.asked)


@pytest.mark.parametrize("seed", seeds(1, [2, 3, 4]))
def test_rows_do_not_depend_on_the_order_of_answers(seed: int, tmp_path: Path) -> None:
    recipe = write_loops(tmp_path)
    whole = go(recipe, tmp_path / "whole")
    assert set(rows(whole)["pool"]) == set(POOLS)
    log = go(recipe, tmp_path / f"{seed}", seed, block=2)
    for table in ("examples", "traces", "verifications"):
        assert rows(log, table).equals(rows(whole, table))


@pytest.mark.parametrize("step", seeds(1, [3, 1]))
def test_killed_at_every_request_the_rows_are_the_same_and_no_answer_is_asked_again(step: int, tmp_path: Path) -> None:
    recipe, out = write_loops(tmp_path, examples=1), tmp_path / "log"
    moments = Moments(out, tmp_path / "copies", set(), [])
    whole = go(recipe, out, 1, moments, block=1, settings=["engine.in_flight=1"])
    assert {key.split("/")[1].split("#")[0] for _, _, key in moments.taken} == set(POOLS)
    for copy, answered, _ in moments.taken[::step]:
        engines: list = []
        log = go(recipe, copy, 2, block=1, engines=engines)
        asked = [call.key for engine in engines for call in engine.calls]
        assert answered.isdisjoint(asked), "an answered request is not asked again"
        assert len(set(asked)) == len(asked)
        for table in ("traces", "verifications"):
            assert rows(log, table).equals(rows(whole, table))
        assert not (copy / FOLDER).exists()


def test_searches_and_scores_are_not_made_again(tmp_path: Path) -> None:
    recipe, out = write_loops(tmp_path, examples=1), tmp_path / "log"
    moments = Moments(out, tmp_path / "copies", set(), [])
    go(recipe, out, 1, moments)
    copy = moments.taken[-1][0]
    text = (tmp_path / "mine.py").read_text().replace("% 100 / 100", "% 7 / 100").replace("so is", "but")
    (tmp_path / "mine.py").write_text(text)
    log = go(recipe, copy)
    told = rows(log).filter(pl.col("pool").is_in(["tools", "beam"]))["text"]
    assert not told.str.contains("but ").any()
    assert log.manifest.source["pools"]["tools"]["services_s"].keys() == {"search"}


def test_costs_are_those_of_the_engine(tmp_path: Path) -> None:
    engines: list = []
    log = go(write_loops(tmp_path), tmp_path / "log", engines=engines)
    frame, scores = rows(log), rows(log, "verifications")
    asked = [call for engine in engines for call in engine.calls]
    samples = sum(len(call.seeds) for call in asked)
    judged = sum(len(call.seeds) for call in asked if str(call.prompt).startswith("Judge"))
    assert frame["calls"].sum() == samples - judged
    assert scores.height == judged
    tools = frame.filter(pool="tools")
    assert tools["searches"].to_list() == tools["text"].str.count_matches("<result>").to_list()
    beam = frame.filter(pool="beam")
    assert (beam.filter(pl.col("sample_index") > 0)["calls"] == 0).all()
    assert log.manifest.source["pools"]["beam"]["services_s"].keys() == {"score"}
    assert set(log.manifest.source["services"]) == {"score.size", "search.lookup", "search.passages"}


def test_a_refused_request_ends_its_loop_and_its_rows_so_far_are_written(tmp_path: Path) -> None:
    recipe = write_loops(tmp_path)
    whole = rows(go(recipe, tmp_path / "whole"))
    log = go(recipe, tmp_path / "log", fail=frozenset({"s001/forced/1"}))
    left = rows(log)
    assert left.filter(pool="forced", example_id="s001")["sample_index"].to_list() == [0]
    others = ~((pl.col("pool") == "forced") & (pl.col("example_id") == "s001"))
    assert left.filter(others).equals(whole.filter(others))
    assert log.manifest.source["left_out"] == {"400": 1}


BROKEN = {
    "endless": ("limit", "while True:\n            yield Ask('1 + 1', 8)", 100),
    "other": ("rule", "yield Ask('1 + 1', 8)\n        yield 7", 1),
    "raises": ("rule", "yield Ask('1 + 1', 8)\n        raise ValueError('oh')", 1),
    "engine": ("unknown", "yield Ask('1 + 1', 8)\n        yield Ask('1 + 1', 8, engine='none')", 1),
    "scorer": ("unknown", "from generate.loops import Score\n        yield Score(('a',), 'none')", 0),
    "prompt": ("unknown", "yield Ask(example.prompt('none.txt'), 8)", 0),
    "limit": ("invalid", "yield Ask('1 + 1', 0)", 0),
    "row": ("rule", "return [3]\n        yield", 0),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_loop_that_fails_is_one_line_and_the_run_can_go_on(name: str, tmp_path: Path) -> None:
    recipe, out = write_loops(tmp_path, HEAD + OWN), tmp_path / "log"
    code, body, number = BROKEN[name]
    mine = tmp_path / "mine.py"
    whole = mine.read_text()
    start = whole.index("        before = None")
    end = whole.index("\n\n\ndef score")
    mine.write_text(whole[:start] + "        " + body + whole[end:])
    with refuses(code, "`own`", "`s00", f"request {number}"):
        go(recipe, out)
    engines: list = []
    if name in ("row",):
        with refuses("incomplete", f"`{out}`", "all 3 calls", "`s000/own/0`"):
            go(recipe, out, with_failures=True)
        return
    if name in ("scorer", "prompt", "limit"):  # nothing was asked: the mended loop begins
        mine.write_text(whole)
        go(recipe, out, engines=engines)
        assert rows(go(write_loops(tmp_path, HEAD + OWN), tmp_path / "new")).equals(rows_of(out))
        return
    mended = "        (reply,) = yield Ask('1 + 1', 8)\n        yield Trace(reply.text, (reply,))"
    mine.write_text(whole[:start] + mended + whole[end:])
    log = go(recipe, out, engines=engines)
    assert rows(log).height == 3


def rows_of(out: Path) -> pl.DataFrame:
    from toolkit.log import open_log

    return rows(open_log(out))


def test_a_loop_that_fails_is_left_out_where_failures_are_given_up(tmp_path: Path) -> None:
    recipe, out = write_loops(tmp_path, HEAD + OWN), tmp_path / "log"
    mine = tmp_path / "mine.py"
    text = mine.read_text()
    mine.write_text(
        text.replace(
            "            answer = yield", "            assert example.name != 's001'\n            answer = yield"
        )
    )
    with refuses("rule", "`s001`", "AssertionError", "mine.py"):
        go(recipe, out)
    log = go(recipe, out, with_failures=True)
    counts = dict(rows(log).group_by("example_id").len().rows())
    assert counts["s001"] == 1
    assert log.manifest.source["left_out"] == {"loop failed": 1}


def test_a_loop_that_draws_beside_its_seed_is_refused(tmp_path: Path) -> None:
    recipe, out = write_loops(tmp_path, HEAD + OWN, 1), tmp_path / "log"
    moments = Moments(out, tmp_path / "copies", set(), [])
    go(recipe, out, 1, moments)
    mine = tmp_path / "mine.py"
    mine.write_text(mine.read_text().replace("example.prompt(self.prompt)", "example.prompt(self.prompt) + 'x'"))
    with refuses("mismatch", "`own`", "`s000`", "request 0"):
        go(recipe, moments.taken[-1][0])


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (OWN.replace("Twice", "Thrice"), ("unknown", "`mine.py:Thrice`", "`Twice`")),
        (OWN.replace("Twice", "score"), ("rule", "`loop.own.rule`")),
        (OWN.replace("mine.py", "none.py"), ("not-found", "`loop.own.rule`")),
        (OWN.replace("most = 5", "least = 5"), ("unknown", "`least`", "`most`")),
        (OWN.replace("most = 5", 'most = "5"'), ("invalid", "`most`")),
        (OWN.replace('rule = "mine.py:Twice"', 'kind = "forced"'), ("unknown", "`loop.own.kind`", "`forcing`")),
        (OWN.replace('rule = "mine.py:Twice"\n', ""), ("required", "`loop.own`")),
        (OWN.replace('"own"', '"o#"'), ("invalid", "`o#`")),
        (OWN + 'engine = "none"\n', ("unknown", "`own.engine`")),
        (OWN + OWN, ("conflict", "`loop.own.pool`")),
        (OWN + 'of = ["log"]\n', ("required", "`loop.own.of`")),
        (OWN.replace("ask", "judge"), ("unknown", "`loop.own.prompt`", "`judge.txt`", "{{attempt}}")),
        (REVISING.replace("ask", "again"), ("unknown", "`loop.revised.prompt`", "`again.txt`", "{{attempt}}")),
        (OWN + 'most_prompt = "again.txt"\n', ("unknown", "`most_prompt`")),
    ],
)
def test_bad_tables(text: str, refusal: tuple[str, ...], tmp_path: Path) -> None:
    from generate.recipes.recipe import load_recipe
    from generate.sampling.sampling_estimate import estimate_pools
    from generate.sampling.sampling_plan import make_plan

    with refuses(*refusal):
        estimate_pools(make_plan(load_recipe(write_loops(tmp_path, HEAD + text))))


def test_the_prompt_of_a_score_is_checked(tmp_path: Path) -> None:
    recipe = write_loops(tmp_path)
    (tmp_path / "judge.txt").write_text("Judge {{question}}: {{atempt}}\n", encoding="utf-8")
    with refuses("unknown", "`score.judge.prompt`", "`judge.txt`", "{{atempt}}", "`attempt`"):
        go(recipe, tmp_path / "log")


def test_rounds_of_a_loop(tmp_path: Path) -> None:
    """A loop may write rounds alone."""
    mine = write_loops(tmp_path, HEAD + OWN).with_name("mine.py")
    text = mine.read_text()
    body = """results = yield Search(example.fields["question"], "passages", 2)
        (reply,) = yield Ask("1 + 1", 8)
        columns = {"hop": 0, "round": 0, "documents": list(results.ids), "relevance": list(results.scores),
                   "answers": [reply.text], "clusters": [0]}
        yield Row("rounds", columns, (results, reply))
"""
    start, end = text.index("        before = None"), text.index("\n\n\ndef score")
    mine.write_text(text[:start] + "        " + body + text[end:].replace("import Ask", "import Ask"))
    mine.write_text(mine.read_text().replace("import Ask, Read, Trace", "import Ask, Row, Search"))
    log = go(tmp_path / "loops.toml", tmp_path / "log")
    assert validate_log(log).ok
    frame = collect(log.scan("rounds", list(log.columns("rounds"))))
    assert frame["calls"].to_list() == [1, 1, 1]
    assert frame["documents"].list.len().to_list() == [2, 2, 2]
    assert not log.has("traces")


def test_all_is_what_the_manual_shows() -> None:
    assert all(f'pool = "{pool}"' in ALL for pool in POOLS)


TABLES = {
    "engines": ("Ask('1 + 2', 8, engine='none')", 'kind = "openai"\nmodel = "n"\nbase_url = "http://127.0.0.1:7/v1"\n'),
    "score": ("Score(('a',), 'none')", 'kind = "function"\nrule = "mine.py:score"\n'),
    "search": ("Search('a', 'none')", 'kind = "function"\nrule = "mine.py:lookup"\n'),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_a_loop_lacks_may_be_added_to_a_run_that_has_begun(table: str, tmp_path: Path) -> None:
    request, settings = TABLES[table]
    recipe, mine, out = write_loops(tmp_path, HEAD + OWN), tmp_path / "mine.py", tmp_path / "log"
    whole = mine.read_text().replace("import Ask, Read, Trace", "import Ask, Read, Score, Search, Trace")
    start, end = whole.index("        before = None"), whole.index("\n\n\ndef score")
    body = f"        (one,) = yield Ask('1 + 1', 8)\n        yield {request}\n        yield Trace(one.text, (one,))"
    mine.write_text(whole[:start] + body + whole[end:])
    with refuses("unknown", "`own`", f"[{table}.none]", "request 1"):
        go(recipe, out)
    recipe.write_text(HEAD + OWN + f"[{table}.none]\n{settings}")
    with refuses("exists", "`seed`"):
        go(recipe, out, settings=["seed=8"])
    engines: list = []
    log = go(recipe, out, engines=engines)
    assert rows(log).height == 3
    assert f"{table}.none.kind" in log.manifest.source["settings"]
    asked = [call.key for engine in engines for call in engine.calls]
    assert sum(key.endswith("/own/0") for key in asked) < 3


def test_the_dry_run_has_the_most_requests_of_a_loop(tmp_path: Path) -> None:
    from generate.recipes.recipe import load_recipe
    from generate.sampling.sampling_estimate import estimate_pools
    from generate.sampling.sampling_plan import make_plan

    recipe = write_loops(tmp_path)
    most = {one.pool: one for one in estimate_pools(make_plan(load_recipe(recipe)))}
    assert {pool: one.requests for pool, one in most.items()} == {
        "forced": 3 * 3, "revised": 3 * 8, "beam": 3 * 9 * 2, "tools": 3 * 18, "own": 3 * 100,
    }  # fmt: skip
    engines: list = []
    frame = rows(go(recipe, tmp_path / "log", engines=engines))
    for pool, one in most.items():
        paid = frame.filter(pool=pool)
        assert paid["calls"].sum() <= one.requests
        if pool != "own":
            assert paid["completion_tokens"].sum() <= one.completion_tokens
            assert paid["prompt_tokens"].sum() <= one.prompt_tokens
