"""Adding to a log: what it lacks, once, sealed again; a killed run goes on; what is refused leaves it as it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import _AnnotationResult, add_signals
from generate.engines.base import Call, CallFailure
from generate.signals.additions import load_additions
from tests.adding.judges import Judge, in_json, right
from tests.errors import numbers, refuses
from tests.features.test_features import Letters
from tests.logs import SOURCE, make_log, make_rows, write_recipe
from toolkit.log import ADDING, collect, open_log, seal_log, validate_log, write_log

ENGINE = '[engine]\nkind = "openai"\nmodel = "rule"\nbase_url = "http://127.0.0.1:9/v1"\n'
JUDGE = ENGINE + '[[verify]]\nname = "judge"\nkind = "judge"\nprompt = "score.txt"\n'
CHANCE = '[[verify]]\nname = "chance"\nkind = "random"\n'
SERVING = '[[features]]\nkind = "serving"\n'
LOGPROB = '[[verify]]\nname = "{0}"\nkind = "logprob"\n{1}\n'


def run(
    folder: Path, text: str, rule: Callable[[Call], str | CallFailure] = in_json, **options: object
) -> _AnnotationResult:
    """Add what a recipe says to the log in `folder`."""
    recipe = write_recipe(folder, text)
    plan = make_add_plan(load_additions(recipe, options.pop("settings", ())), folder / "log", **options)
    return add_signals(plan, lambda _: Judge(rule), embedder=Letters())


def files(folder: Path) -> dict[str, str]:
    """Every file of a log, and its hash."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def scores(folder: Path, verifier: str) -> pl.DataFrame:
    log = open_log(folder / "log")
    assert validate_log(log).problems == ()
    return collect(log.scan("verifications").filter(pl.col("verifier") == verifier)).sort("trace_id")


def test_what_stands_is_not_touched_and_the_log_is_sealed_again(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    before = files(tmp_path / "log")
    done = run(tmp_path, CHANCE + SERVING)
    after = files(tmp_path / "log")
    assert {name: after[name] for name in before if name != "manifest.json"} == {
        name: digest for name, digest in before.items() if name != "manifest.json"
    }
    assert validate_log(done.log).problems == ()
    assert not (tmp_path / "log" / ADDING).exists()
    assert [record.rows for _, record in done.steps] == [30, 30]
    drawn = scores(tmp_path, "chance")
    assert drawn["score"].is_between(0, 1).all()
    assert drawn["score"].n_unique() == 30
    assert drawn.select("prompt_tokens", "device_s").unique().rows() == [(0, 0.0)]
    source = done.log.manifest.source
    assert source["prompts"] == SOURCE["prompts"], "what the manifest said stays"
    assert source["verifiers"]["chance"]["rows"] == 30
    again = run(tmp_path, CHANCE + SERVING)
    assert again.steps == ()
    assert files(tmp_path / "log") == after, "nothing is left to add"


def test_only_what_is_lacking_is_added(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    run(tmp_path, CHANCE.replace("random", "random") + 'pools = ["verify"]\n')
    assert scores(tmp_path, "chance").height == 6
    run(tmp_path, CHANCE)
    whole = scores(tmp_path, "chance")
    assert whole.height == 30
    other = tmp_path / "other"
    other.mkdir()
    make_log(other / "log")
    run(other, CHANCE)
    assert whole.equals(scores(other, "chance")), "a score depends on the seed, the name and the trace alone"


def test_shards_add_each_their_part(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    for number in (2, 1, 3):
        run(tmp_path, CHANCE + SERVING, shard=(number, 3))
    assert scores(tmp_path, "chance").height == 30
    log = open_log(tmp_path / "log")
    assert collect(log.scan("features")).height == 30
    assert log.manifest.source["verifiers"]["chance"]["rows"] == 30
    with refuses("invalid", "1", "3"):
        run(tmp_path, CHANCE, shard=(4, 3))


def test_features_get_new_columns_and_keep_their_values(tmp_path: Path) -> None:
    rows = make_rows()
    own = rows["traces"].select("trace_id", "example_id", mine=pl.int_range(pl.len()).cast(pl.Float64)).head(20)
    make_log(tmp_path / "log", features=own)
    run(tmp_path, SERVING)
    log = open_log(tmp_path / "log")
    assert validate_log(log).problems == ()
    assert log.warnings == (), "the shards that were replaced are gone"
    made = collect(log.scan("features", list(log.columns("features"))))
    assert made.height == 30
    assert made["mine"].null_count() == 10
    kept = made.drop_nulls("mine").select(own.columns).sort("trace_id")
    assert kept.equals(own.sort("trace_id"))
    assert made["response_words"].null_count() == 0


def test_a_judge_is_asked_once_more_where_it_can_t_be_read(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    judges: list[Judge] = []

    def opened(_: object) -> Judge:
        judges.append(Judge(in_json))
        return judges[-1]

    recipe = write_recipe(tmp_path, JUDGE + 'pools = ["votes"]\n')
    done = add_signals(make_add_plan(load_additions(recipe), tmp_path / "log"), opened)
    got = scores(tmp_path, "judge")
    assert got.height == 24
    assert len(judges[0].asked) == 24 + 4, "the four traces of example 2 are asked about twice"
    retried = [call for call in judges[0].asked if call.key.endswith("/1")]
    assert {call.temperatures for call in retried} == {(0.5,)}
    truth = collect(done.log.scan("traces").filter(pl.col("pool") == "votes")).sort("trace_id")["correct"]
    assert (got["score"] == 1).equals(truth.alias("score"))
    twice = got.filter(pl.col("example_id") == "s002")
    assert twice["latency_s"].to_list() == [1.0] * 4, "the seconds of both calls"
    once = got.filter(pl.col("example_id") == "s001")
    assert once["device_s"].to_list() == [0.25] * 4
    asked = {call.key.removesuffix("/judge/0"): len(str(call.prompt)) for call in judges[0].asked}
    assert once["prompt_tokens"].to_list() == [asked[name] for name in once["trace_id"]]


def test_what_can_t_be_read_twice_has_no_row_and_is_counted(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    done = run(tmp_path, JUDGE, lambda call: "?" if call.prompt.startswith("sum: 3 ") else '{"score": 0.5}')
    assert scores(tmp_path, "judge").height == 25
    entry = done.log.manifest.source["verifiers"]["judge"]
    assert entry["unreadable"]["count"] == 5
    assert all(name.startswith("s003/") for name in entry["unreadable"]["traces"])
    assert entry["unreadable"]["tokens"] > 0
    assert done.steps[0][1].unreadable == entry["unreadable"]["traces"]
    assert run(tmp_path, JUDGE, lambda _: pytest.fail("asked again")).steps == ()


def test_a_judge_that_never_returns_json_is_one_line_and_leaves_the_log(tmp_path: Path) -> None:
    make_log(tmp_path / "log", 60)
    before, asked = files(tmp_path / "log"), []

    def never(call: Call) -> str:
        asked.append(call.key)
        return "I would rather not say."

    with refuses("unreadable", "`judge`", "100") as error:
        run(tmp_path, JUDGE, never)
    assert "\n" not in str(error.value)
    assert len(asked) == 200, "it gives up early"
    assert {k: v for k, v in files(tmp_path / "log").items() if not k.startswith(ADDING)} == before
    small = tmp_path / "small"
    small.mkdir()
    make_log(small / "log")
    with refuses("unreadable", "30"):
        run(small, JUDGE, never)
    run(small, JUDGE + "max_tokens = 64\n")  # other settings begin anew
    assert scores(small, "judge").height == 30
    assert not (small / "log" / ADDING).exists()


def test_self_reflection_and_a_number_that_is_no_json(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    recipe = ENGINE + '[[verify]]\nname = "sure"\nkind = "reflection"\nread = "number"\nprompt = "sure.txt"\n'
    run(tmp_path, recipe, lambda call: "9" if right(call.prompt) else "2")
    truth = collect(open_log(tmp_path / "log").scan("traces")).sort("trace_id")["correct"]
    assert scores(tmp_path, "sure")["score"].to_list() == [9.0 if one else 2.0 for one in truth]


def test_a_choice_is_among_all_of_a_pool(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    recipe = (
        ENGINE + '[[verify]]\nname = "best"\nkind = "listwise"\nread = "number"\nprompt = "best.txt"\nlines = 2\n'
        'pools = ["votes"]\n'
    )
    prompts = []

    def third(call: Call) -> str:
        prompts.append(call.prompt)
        return "3"

    run(tmp_path, recipe, third)
    got = scores(tmp_path, "best").sort("example_id", "trace_id")
    assert got["score"].to_list() == [0.0, 0.0, 1.0, 0.0] * 6
    assert got["candidates"].unique().to_list() == [4]
    assert got["latency_s"].to_list() == [0.5, 0.0, 0.0, 0.0] * 6, "the call's costs stand on the lowest sample"
    assert got["completion_tokens"].to_list() == [1, 0, 0, 0] * 6
    assert prompts[0].splitlines()[1:4] == ["1) 0 and 1: 2", "2) 0 and 1 more: 1", "3) 0 and 1 more more: 1"]
    run(tmp_path, recipe.replace('"best"', '"of three"', 1) + "first = 3\n", third)
    some = scores(tmp_path, "of three")
    assert some["score"].to_list() == [0.0, 0.0, 1.0] * 6
    assert some["candidates"].unique().to_list() == [3]
    assert some["trace_id"].str.ends_with("/3").sum() == 0


def test_an_interrupted_run_goes_on_without_asking_twice(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    before, asked = files(tmp_path / "log"), []

    def breaks(call: Call) -> str:
        if len(asked) == 17:
            raise KeyboardInterrupt
        asked.append(call.key)
        return in_json(call)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, CHANCE + JUDGE, breaks)
    shown = {name: digest for name, digest in files(tmp_path / "log").items() if not name.startswith(ADDING)}
    assert shown == before, "readers see the log as it was"
    assert open_log(tmp_path / "log").warnings == ()
    later = []
    run(tmp_path, CHANCE + JUDGE, lambda call: later.append(call.key) or in_json(call))
    assert set(asked).isdisjoint(later)
    whole = tmp_path / "whole"
    whole.mkdir()
    make_log(whole / "log")
    run(whole, CHANCE + JUDGE)
    for name in ("chance", "judge"):
        assert scores(tmp_path, name).equals(scores(whole, name))


def test_calls_that_fail_for_now_are_asked_again_and_those_at_fault_are_named(tmp_path: Path) -> None:
    make_log(tmp_path / "log")

    def flaky(call: Call) -> str | CallFailure:
        if "s001" in call.key:
            return CallFailure("the server hung", retryable=True)
        if "s004/votes/1" in call.key:
            return CallFailure("99 > 50", retryable=False)
        return '{"score": 0.5}'

    with refuses("incomplete", "5"):
        run(tmp_path, JUDGE, flaky)
    done = run(tmp_path, JUDGE, lambda call: '{"score": 0.75}')
    got = scores(tmp_path, "judge")
    assert got.height == 29
    assert (got["score"] == 0.75).sum() == 5, "only what failed is asked again"
    skipped = done.log.manifest.source["verifiers"]["judge"]["skipped"]
    assert skipped == [{"trace_id": "s004/votes/1", "reason": "99 > 50"}]


def test_log_probabilities_that_the_log_has(tmp_path: Path) -> None:
    rows = make_rows()
    finalized = pl.col("trace_id") == "s000/votes/1"
    rows["traces"] = rows["traces"].with_columns(finalizer_used=finalized, finish_reason=pl.lit("stop"))
    make_log(tmp_path / "log", traces=rows["traces"])
    steps = [("sum", ""), ("mean", 'how = "mean"'), ("tail", "last = 4"), ("tail2", 'last = 2\nhow = "mean"')]
    done = run(tmp_path, "".join(LOGPROB.format(*step) for step in steps) + LOGPROB.format("long", "last = 5"))
    traces = collect(done.log.scan("traces")).sort("trace_id")
    assert scores(tmp_path, "sum")["score"].to_list() == [-0.5 * n for n in traces["completion_tokens"]]
    assert set(scores(tmp_path, "mean")["score"]) == {-0.5}
    assert scores(tmp_path, "mean").height == 29, "the finalizer's tokens are among those counted"
    assert set(scores(tmp_path, "tail")["score"]) == {-2.0}
    assert set(scores(tmp_path, "tail2")["score"]) == {-0.5}
    # a text of fewer than 5 tokens with all of its log-probabilities would do; these keep 4 of more
    assert scores(tmp_path, "long").height == 0
    (reason,) = {one["reason"] for one in done.log.manifest.source["verifiers"]["long"]["skipped"]}
    assert numbers(reason) == ["4", "5"]


def test_the_claims_features_and_those_of_peers(tmp_path: Path) -> None:
    rows = make_rows(2, 3)
    words = ["up", "right", "between", "up", "down", "up"]
    votes = iter(words)
    listed = [next(votes) if pool == "votes" else "up" for pool in rows["traces"]["pool"]]
    rows["traces"] = rows["traces"].with_columns(text=pl.Series(listed))
    evidence = pl.Series("evidence", [["right", "between"], []], dtype=pl.List(pl.String))
    rows["examples"] = rows["examples"].with_columns(question=pl.lit("up"), evidence=evidence)
    make_log(tmp_path / "log", **rows)
    recipe = (
        '[embedding]\nmodel = "none"\n[[features]]\nkind = "claims"\n[[features]]\nkind = "peers"\n'
        '[[features]]\nkind = "peers"\nname = "before"\npeers = "earlier"\npools = ["votes"]\n'
    )
    done = run(tmp_path, recipe)
    made = collect(done.log.scan("features", list(done.log.columns("features")))).sort("trace_id")
    votes_of_first = made.filter(pl.col("trace_id").str.starts_with("s000/votes"))
    half = 0.5**0.5
    assert votes_of_first["claim_similarity"].to_list() == pytest.approx([1, 0, half])
    assert votes_of_first["evidence_similarity"].to_list() == pytest.approx([half, 1, 1])
    assert votes_of_first["peer_similarity"].to_list() == pytest.approx([half / 2, half / 2, half])
    assert votes_of_first["earlier_similarity"].to_list() == pytest.approx([1, 0, half])
    assert made.filter(pl.col("example_id") == "s001")["evidence_similarity"].null_count() == 4
    assert made.filter(pl.col("trace_id").str.contains("verify"))["earlier_similarity"].null_count() == 2


def test_steps_for_data_sets_that_the_log_lacks_are_left_out_if_others_are_for_it(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    own = CHANCE + 'dataset = ["sums"]\n'
    recipe = write_recipe(tmp_path, own + CHANCE.replace('"chance"', '"other"') + 'dataset = ["claims"]\n')
    plan = make_add_plan(load_additions(recipe), tmp_path / "log")
    assert [one.step.name for one in plan.todo] == ["chance"]
    assert [step.name for step in plan.idle] == ["other"]
    with refuses("unknown", "`dataset`", "`claims`", "`sums`"):
        run(tmp_path, CHANCE + 'dataset = ["claims"]\n')


def test_a_folder_without_tables_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with refuses("unsuitable", "log`"):
        run(tmp_path, CHANCE)
    with refuses("empty", "log`"):
        seal_log(tmp_path / "log", name="empty")


BAD = {
    "a pool that is not there": (CHANCE + 'pools = ["vote"]', ("unknown", "`vote`", "`votes`")),
    "a split that is not there": (CHANCE + 'split = ["dev"]', ("unknown", "`dev`")),
    "a feature without its column": (
        '[embedding]\nmodel = "x"\n[[features]]\nkind = "claims"\nevidence = "proofs"',
        ("required", "`examples`", "`proofs`"),
    ),
    "a prompt with a field that nothing fills": (JUDGE.replace("score.txt", "best.txt"), ("unknown", "`{{attempts}}`")),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_leaves_the_log_as_it_was(tmp_path: Path, name: str) -> None:
    text, refusal = BAD[name]
    make_log(tmp_path / "log")
    before = files(tmp_path / "log")
    with refuses(*refusal):
        run(tmp_path, text)
    assert {k: v for k, v in files(tmp_path / "log").items() if not k.startswith(ADDING)} == before


def test_a_verifier_of_other_settings_or_of_others_keeps_its_name(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    run(tmp_path, JUDGE + 'pools = ["verify"]\n')
    with refuses("conflict", "`max_tokens`", "128", "64"):
        run(tmp_path, JUDGE + "max_tokens = 64\n")
    (tmp_path / "score.txt").unlink()
    recipe = write_recipe(tmp_path, JUDGE)
    (tmp_path / "score.txt").write_text("{{question}} {{attempt}} other words", encoding="utf-8")
    with refuses("conflict", "`prompts.score.txt`"):
        make_add_plan(load_additions(recipe), tmp_path / "log")
    other = tmp_path / "other"
    other.mkdir()
    rows = make_rows()
    own = rows["traces"].select("trace_id", "example_id", verifier=pl.lit("chance"), score=pl.lit(0.5))
    features = rows["traces"].select("trace_id", "example_id", difficulty=pl.lit(0.5))
    make_log(other / "log", verifications=own, features=features)
    with refuses("conflict", "`chance`"):
        run(other, CHANCE)
    with refuses("conflict", "`prefix`"):
        run(other, SERVING)
    run(other, SERVING + 'prefix = "own_"\n')
    assert "own_difficulty" in open_log(other / "log").columns("features")


def test_a_log_that_is_not_sealed_is_refused(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    (tmp_path / "log" / "manifest.json").unlink()
    with refuses("unsuitable", "log`"):
        run(tmp_path, CHANCE)
    assert not (tmp_path / "log" / ADDING).exists()


def test_a_log_without_prompts_needs_them_from_the_recipe(tmp_path: Path) -> None:
    from generate.traces.log_origins import prompts_of_pools

    log = make_log(tmp_path / "log", source="from elsewhere")
    with refuses("required", "`votes`"):
        prompts_of_pools(log, ["votes"], None, {}, {})
    merged = write_log(tmp_path / "merged", name="m", tables=make_rows(), source={"merged": [{"source": SOURCE}]})
    assert prompts_of_pools(merged, ["votes"], None, {}, {})["votes"].text == "sum: {{question}}"
    run(tmp_path, CHANCE)
    assert open_log(tmp_path / "log").manifest.source["log"] == "from elsewhere"


def test_the_manifest_tells_how_each_came_about(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    run(tmp_path, JUDGE + SERVING)
    source = json.loads((tmp_path / "log" / "manifest.json").read_text())["source"]
    judge = source["verifiers"]["judge"]
    assert (judge["model"], judge["engine"]["device"], judge["kind"], judge["rows"]) == ("rule", "cpu", "judge", 30)
    assert judge["prompt"].startswith("sum: {{question}}")
    assert judge["settings"]["temperature"] == 0
    assert judge["wall_clock_s"] >= 0
    assert "difficulty" in source["features"]["serving"]["columns"]
