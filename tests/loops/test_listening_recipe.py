"""The recipe `listening` as it ships: its pools by scripted models, and policies on them."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import replay
from generate.engines.base import Call, Completion
from tests.loops.listening import say
from tests.loops.scripted import ScriptedEngine, rows, run_scripted
from toolkit.log import validate_log

pytest.importorskip("bm25s", reason="the extra `retrieval` is not installed")

PROMPTS = Path(replay.__file__).parents[1] / "generate" / "prompts"
KINDS = {"extract_claim": "Extract", "extract_claims": "Extract", "search_query": "Query", "check_claim": "Check",
         "filter_passages": "Filter", "revise_claims": "Revise", "match_error": "Match", "text_verdict": "Verdict",
         "text_verdict_passages": "Verdict"}  # fmt: skip
FIRST_LINES = {(PROMPTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()[1]: name for name in KINDS}
LISTENING, ONE_SHOT, DIRECT = "listening", "one-shot", "direct"


class Shipped(ScriptedEngine):
    """Models that know which shipped prompt they are asked by."""

    def reply(self, call: Call, seed: int, temperature: float) -> Completion:
        text = "\n".join(message.content for message in call.prompt)  # type: ignore[union-attr]
        (name,) = {name for line, name in FIRST_LINES.items() if text.startswith(line)}
        return say(f"{KINDS[name]} {text}")


def test_the_pools_of_the_shipped_recipe(tmp_path: Path) -> None:
    texts = ["The river is gold. A king of stone. The sea", "Moon over the hill! Gold."]
    listed = [{"example_id": f"t{i}", "question": text, "gold": "refuted", "gold_error": True, "gold_position": 2,
               "length": len(text.split()), "error": "The river is gold"} for i, text in enumerate(texts)]  # fmt: skip
    (tmp_path / "statements.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    (tmp_path / "passages.jsonl").write_text('{"id": "p1", "text": "river of gold"}\n{"id": "p2", "text": "moon"}\n')
    paths = [f"{key}={tmp_path / name}" for key, name in (
        ("data.path", "statements.jsonl"), ("search.passages.path", "passages.jsonl"))]  # fmt: skip
    engines: list[Shipped] = []
    log = run_scripted(Shipped, Path("listening"), tmp_path / "log", settings=paths, engines=engines)
    assert validate_log(log).ok
    checks, traces = rows(log, "checks"), rows(log)
    asked_twice = ["second-listening", "second-one-shot", "second-direct", "second-search"]
    assert set(checks["pool"]) == {"no-filter", ONE_SHOT, LISTENING, *asked_twice[:2]}
    assert set(traces["pool"]) == {"prefixes", DIRECT, "search", *asked_twice[2:]}
    first, second = sorted(engines, key=lambda one: all("/second-" in call.key for call in one.calls))
    judged = [call for call in first.calls if "/second-" in call.key]
    assert {FIRST_LINES[str(call.prompt[0].content).splitlines()[0]] for call in judged} == {"match_error"}  # type: ignore[union-attr]
    assert all("/second-" in call.key for call in second.calls)
    ends = {f"t{i}": len(text.split()) for i, text in enumerate(texts)}
    whole = checks.filter(pl.col("pool").str.ends_with(ONE_SHOT)).select("example_id", "position").unique()
    assert dict(whole.rows()) == ends
    prefixes = traces.filter(pool="prefixes").sort("example_id", "sample_index")
    assert prefixes.select("example_id", "position").rows() == [("t0", 4), ("t0", 8), ("t0", 10), ("t1", 4), ("t1", 5)]
    assert traces.filter(pl.col("pool") != "prefixes")["position"].null_count() == 8
    kinds = dict.fromkeys(checks["pool"], 'kind = "buzz"')
    kinds |= dict.fromkeys({*traces["pool"]} - {"prefixes"}, 'kind = "sample"\nmax_traces = 1\nselect = "first"')
    policies = [f'[[policy]]\nname = "{pool}"\npool = "{pool}"\n{keys}\n' for pool, keys in kinds.items()]
    policies.append('[[policy]]\nname = "prefixes"\nkind = "sample"\npool = "prefixes"\nselect = "last"\n'
                    'stop = { rule = "at_least", verifier = "refuted", score = 0.5 }\n')  # fmt: skip
    (tmp_path / "policies.toml").write_text("\n".join(policies))
    outcomes = replay.run(log, tmp_path / "policies.toml", resamples=20).outcomes.collect()
    assert outcomes["policy"].n_unique() == 10
