"""What is saved by trace is what each policy paid, and tells again what the log tells, on random logs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import replay
from replay import Result
from replay.runs.explain import explain
from replay.runs.explain.explain import Explanation
from replay.runs.page.dashboard import _drawn_examples, _page_examples
from tests.reference.random_interventions import random_interventions
from tests.reference.random_logs import RandomLog, random_log
from tests.reference.random_policies import random_policies, random_surrogate, to_toml
from tests.reference.rules import Row
from tests.seeds import seeds
from toolkit.errors import ThinkbackError

Call = tuple[str, int, str | None]


SAMPLE = {"kind": "sample", "pool": "main", "max_traces": 4, "verifier": "lora"}
FIRST = {"kind": "sample", "pool": "main", "max_traces": 1, "select": "first"}
VOTE = {"kind": "sample", "pool": "main", "max_traces": 4, "select": "majority"}
LAZY = {**SAMPLE, "order": "surrogate", "features": ["difficulty"]}
EVERY: list[Row] = [
    SAMPLE,
    {**SAMPLE, "on_unscored": "lowest"},
    {**SAMPLE, "on_unscored": "skip", "width": 3, "stop": {"rule": "margin", "margin": 0.1, "min_valid": 2}},
    {**SAMPLE, "order": "random", "stop": {"rule": "budget", "verifications": 2}},
    {**SAMPLE, "order": "score"},
    LAZY,
    {**LAZY, "bootstrap": 1},
    {**LAZY, "bootstrap": 3, "stop": {"rule": "margin"}},
    {**LAZY, "mode": "pool", "stop": {"rule": "budget", "verifications": 2}},
    {**SAMPLE, "order": "random", "orders": 1},
    {**SAMPLE, "abandon": {"verifier": "jüry", "tokens": 20, "below": 0.6}},
    {**SAMPLE, "order": "random", "abandon": {"verifier": "jüry", "tokens": 20, "below": 0.6}},
    {"kind": "when", "base": FIRST, "gate": {"verifier": "lora", "below": 0.7}, "then": VOTE},
    {"kind": "when", "base": SAMPLE, "gate": {"verifier": "jüry", "below": 0.7}, "then": {**VOTE, "max_traces": 3}},
    {"kind": "oracle", "rule": "any", "of": ["main"], "base": "main"},
]


@pytest.mark.parametrize(("seed", "block"), seeds(1, [(31, 2), (22, 6)]))
def test_every_kind_is_told_again(seed: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lazy walks that end in a step of nothing, traces abandoned, invalid ones that others verified, failed calls."""
    random_log(seed, 6).write(tmp_path / "log")
    monkeypatch.setattr("replay.runs.passes.passes.chunk_size", lambda *_: block)
    tables = [{**table, "name": f"p{number}"} for number, table in enumerate(EVERY)]
    assert told_again(tables, tmp_path, 2)

    pictured(replay.load(tmp_path / "saved"))


def pictured(again: Result) -> None:
    """The page for a browser has the tokens of the outcomes at the end of each walk of a `sample` policy."""
    assert again.folder is not None
    names = [one.name for one in again.policies]
    paths = _page_examples(
        again, again.folder, names, *_drawn_examples(again, again.folder, 100), with_texts=False, quality=None
    ).data["paths"]
    traces, scores, orders, stops = (rows_in(paths[name]) for name in ("traces", "scores", "orders", "stops"))
    lists = {(one["row"], one["order"]): one for one in orders}
    generated = {(one["row"], one["slice"], one["sample"]): one for one in traces}
    checks = {(one["row"], one["slice"], one["sample"], one["verifier"]): one["tokens"] for one in scores}
    outcomes = {(one["policy"], one["example_id"]): one for one in again.outcomes.collect().to_dicts()}
    samples = {one.name for one in again.policies if one.kind == "sample"}
    shown = 0
    for stop in stops:
        row = outcomes[names[stop["policy"]], again.examples["example_id"][stop["row"]]]
        order = lists[stop["row"], stop["order"]]
        guided = paths["rules"][order["rule"]] == "surrogate" and row["ending"] != "rule"  # may end in an empty step
        if row["policy"] not in samples or guided or not stop["steps"]:
            continue
        if row["total_tokens"] is not None:
            of, verified = order["slice"], lists.get((stop["row"], stop["checks"]), {"samples": ()})["samples"]
            spent = sum(checks[stop["row"], of, one, stop["verifier"]] for one in verified[: stop["verified"]])
            assert order["spent"][stop["steps"] - 1] + spent == pytest.approx(row["total_tokens"])
            shown += 1
        for slice_, sample in zip(order["slices"] or [order["slice"]] * 99, order["samples"], strict=False):
            assert (stop["row"], slice_, sample) in generated
    assert shown


def rows_in(columns: dict[str, list[Any]]) -> list[Row]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_told_again_as_the_log_tells(seed: int, tmp_path: Path) -> None:
    log, rng = random_log(seed, 8, tidy=seed % 3 == 0), random.Random(f"told again {seed}")
    for number, tables in enumerate(batched(random_tables(rng, log, 10), 5)):
        log.write(tmp_path / str(number) / "log")
        told_again(kept(tmp_path / str(number) / "log", tables), tmp_path / str(number), 4)


def batched(tables: list[Row], size: int) -> list[list[Row]]:
    return [tables[first : first + size] for first in range(0, len(tables), size)]


def test_stops_with_the_former_name_of_a_column_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`abandoned_by` was `given_up_by`."""
    random_log(22, 6).write(tmp_path / "log")
    policy = to_toml([{**SAMPLE, "name": "p", "abandon": {"verifier": "jüry", "tokens": 20, "below": 0.6}}])
    live = replay.run(tmp_path / "log", policy, resamples=2)
    live.save(tmp_path / "saved", traces=True)
    saved, example = replay.load(tmp_path / "saved"), live.outcomes.collect()["example_id"][0]
    before = str(saved.explain("p", example))
    rows = explain._saved_rows
    former = {"abandoned_by": "given_up_by"}
    monkeypatch.setattr(explain, "_saved_rows", lambda *of: rows(*of).rename(former, strict=False))
    assert str(saved.explain("p", example)) == before


def told_again(tables: list[Row], folder: Path, examples: int) -> int:
    """Compare some examples of policies that are replayed together; how many explanations were compared."""
    try:
        live = replay.run(folder / "log", to_toml(tables), resamples=2)
    except ThinkbackError:  # no example is served by all
        return 0
    live.save(folder / "saved", traces=True, texts=True)
    again, calls, told = replay.load(folder / "saved"), paid(folder / "saved"), 0
    rows = again.outcomes.collect()
    for table in tables:
        for row in rows.filter(policy=table["name"])[:examples].to_dicts():
            compare(live, again, table, row, calls.get((table["name"], row["example_id"])))
            told += 1
    return told


def random_tables(rng: random.Random, log: RandomLog, count: int) -> list[Row]:
    """Policies of every kind, some of which give traces up, without comparisons among themselves."""
    made = [*random_policies(rng, log, count), *random_interventions(rng, log, count)]
    if "lora" in log.verifiers:
        made += [random_surrogate(rng, log.pools["main"]) for _ in range(count // 2)]
    for table in made:
        others = [name for name in log.verifiers if name not in {table.get("verifier"), *log.listwise}]
        if table["kind"] == "sample" and others and rng.random() < 0.25:
            table["abandon"] = {"verifier": rng.choice(others), "tokens": rng.choice([5, 20, 60]), "below": 0.5}
    return [
        {**{key: value for key, value in table.items() if key != "against"}, "name": f"p{number}"}
        for number, table in enumerate(made)
    ]


def kept(log: Path, tables: list[Row]) -> list[Row]:
    """Those that the log does not refuse."""
    found: list[Row] = []
    for table in tables:
        try:
            replay.run(log, to_toml([table]), resamples=2)
        except ThinkbackError:
            continue
        found.append(table)
    return found


def paid(folder: Path) -> dict[tuple[str, str], list[Call]]:
    """The calls of each policy and example, each once, as the files have them."""
    stops, orders = (pl.read_parquet(folder / f"{name}.parquet") for name in ("stops", "orders"))
    lists = {(row["order"], row["example_id"]): row for row in orders.to_dicts()}
    for row in lists.values():
        assert len(set(row["samples"])) == len(row["samples"])
    found: dict[tuple[str, str], list[Call]] = {}
    for stop in stops.to_dicts():
        calls = found.setdefault((stop["policy"], stop["example_id"]), [])
        if stop["generated"]:
            made = lists[stop["generation_order"], stop["example_id"]]
            samples = made["samples"][: stop["generated"]]
            slices = made["slices"] or [made["slice"]] * len(samples)
            calls += [(name, sample, None) for name, sample in zip(slices, samples, strict=False)]
            marks = zip(samples, made["checked"] or (), strict=False)
            calls += [(made["slice"], sample, stop["abandoned_by"]) for sample, checked in marks if checked]
        if stop["verified"]:
            made = lists[stop["verification_order"], stop["example_id"]]
            calls += [(made["slice"], sample, stop["verifier"]) for sample in made["samples"][: stop["verified"]]]
        assert len(lists[stop["order"], stop["example_id"]]["samples"] if stop["steps"] else ()) >= stop["steps"]
    return {key: list(dict.fromkeys(calls)) for key, calls in found.items()}


def compare(live: Result, again: Result, table: Row, row: Row, calls: list[Call] | None) -> None:
    name, example = table["name"], row["example_id"]
    first, second = live.explain(name, example, texts=True), again.explain(name, example, texts=True)
    assert second.outcomes.to_dicts() == [row]
    if calls is None:
        assert row["answers"] is not None
        return
    assert len([call for call in calls if call[2] is None]) == row["traces"]
    assert total(again, example, calls) == (None if row["total_tokens"] is None else pytest.approx(row["total_tokens"]))
    if "'oracle'" in str(table) or "expected" in str(table):
        return
    mine, theirs = steps(first), steps(second)
    if table["kind"] == "sample":
        seen = {sample for stage in first.stages for _, sample in stage.traces}
        assert {sample for stage in second.stages for _, sample in stage.traces} == seen
    assert [(one["sample"], one["answer"]) for one in theirs] == [(one["sample"], one["answer"]) for one in mine]
    for one, other in zip(mine, theirs, strict=True):
        if "score" in one:
            assert other.get("score") == one["score"]
            assert other.get("unscored") == one.get("unscored")
            assert other["tokens"] == (None if one["tokens"] is None else pytest.approx(one["tokens"]))


def steps(told: Explanation) -> list[Row]:
    """What was revealed, stage after stage; from the log with scores and tokens where these are of steps."""
    found: list[Row] = []
    for stage in told.stages:
        columns = stage.rows.columns
        if "answer_now" in columns:
            found += [{**one, "tokens": one["total_tokens"]} for one in stage.rows.to_dicts()]
        elif "step" in columns and not stage.title.endswith(", verified"):
            found += stage.rows.to_dicts()
        elif "of" in columns and "step" not in columns:
            found += stage.rows.select("sample", "answer").to_dicts()
    return found


def total(again: Result, example: str, calls: list[Call]) -> float | None:
    """Tokens of some calls."""
    traces, scores = (rows_of(again, name, example) for name in ("paid_traces", "paid_scores"))
    tokens = 0.0
    for name, sample, verifier in calls:
        if verifier is not None:
            tokens += scores[name, sample, verifier]["verification_tokens"]
            continue
        row = traces[name, sample]
        if row["prompt_tokens"] is None or row["completion_tokens"] is None:
            return None
        tokens += row["prompt_tokens"] + row["completion_tokens"]
    return tokens


def rows_of(again: Result, view: str, example: str) -> dict[Any, Row]:
    assert again.folder is not None
    frame = pl.read_parquet(again.folder.path / f"{view.removeprefix('paid_')}.parquet").filter(example_id=example)
    keys = ("slice", "sample", "verifier") if "verifier" in frame.columns else ("slice", "sample")
    return {tuple(row[key] for key in keys): row for row in frame.to_dicts()}
