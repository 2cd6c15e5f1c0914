"""What a log is said to hold, against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import replay
from tests.errors import numbers, quotes, refuses
from tests.logs import checks, examples, put_all, rounds, traces, unfolding, verifications, whole
from toolkit.errors import ThinkbackError
from toolkit.log import Log, describe_log, open_log, write_log
from toolkit.log.describe import measuring
from toolkit.log.describe.verifier_quality import quality_of_log


def caps(folder: Path) -> dict[tuple[str, str, str], tuple[int | None, int | None, str]]:
    rows = describe_log(open_log(folder)).caps.iter_rows()
    return {(kind, of, cap): (every, most, rest) for kind, of, cap, every, most, rest in rows}


def test_tables_pools_and_verifiers(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", name="small", tables=whole(), simulated=True)
    found = describe_log(log)
    assert (found.name, found.sealed, found.simulated, found.examples, found.judged) == ("small", True, True, 2, 2)
    assert found.tables.rows() == [("examples", 1, 2), ("traces", 1, 5), ("verifications", 1, 4)]
    first, second = found.pools.rows(named=True)
    assert first == {
        "pool": "n", "action": "solve", "examples": 2, "traces": 4, "fewest": 2, "most": 2, "sizes": "",
        "answers_read": 0.75, "valid": 0.75, "judged": 1.0, "accuracy": 0.5,
        "prompt_tokens": 42, "completion_tokens": 28,
    }  # fmt: skip
    assert (second["pool"], second["action"], second["traces"], second["accuracy"]) == ("rev", "continue", 1, 1.0)
    # n: a0 right 0.9, b0 right 0.7, b1 wrong 0.1. Right above wrong in both pairs; within: q2 alone has both.
    verifier = found.verifiers.row(0, named=True)
    assert (verifier["verifier"], verifier["pool"], verifier["scores"]) == ("v", "n", 3)
    assert (verifier["coverage"], verifier["auc"], verifier["auc_within"]) == (1.0, 1.0, 1.0)
    assert verifier["prompt_tokens"] is None
    assert found.verifiers.row(1, named=True)["auc"] is None  # one trace, right


def test_an_answer_outside_the_labels_is_not_valid_but_an_opaque_one_is(tmp_path: Path) -> None:
    answers = traces(answer=["4", None, "4", "perhaps", "b1"], correct=[None] * 5, opaque=[None] * 4 + [True])
    put_all(tmp_path, whole(traces=answers))
    found = describe_log(open_log(tmp_path)).pools.row(0, named=True)
    assert (found["answers_read"], found["valid"]) == (0.75, 0.5)
    assert found["accuracy"] is None
    assert found["judged"] == 0.0


def test_sizes_are_drawn_where_they_differ(tmp_path: Path) -> None:
    put_all(tmp_path, whole(traces=traces()[:4]))
    assert describe_log(open_log(tmp_path)).pools["sizes"].to_list() == ["1 ██ 2", ""]


def test_tokens_that_are_not_all_logged_have_no_sum(tmp_path: Path) -> None:
    put_all(tmp_path, whole(traces=traces(prompt_tokens=[1, None, 1, 1, 1])))
    found = describe_log(open_log(tmp_path)).pools.row(0, named=True)
    assert (found["prompt_tokens"], found["completion_tokens"]) == (None, 28)


def many(sizes: list[int]) -> dict[str, pl.DataFrame]:
    """Example i has sizes[i] solves of pool n, all with an answer, and a score for each."""
    ids = [f"e{i:02d}" for i in range(len(sizes))]
    rows = [(f"{e}-{k}", e, k) for e, size in zip(ids, sizes, strict=True) for k in range(size)]
    solves = pl.DataFrame(rows, schema=["trace_id", "example_id", "sample_index"], orient="row").with_columns(
        pool=pl.lit("n"), action=pl.lit("solve"), model=pl.lit("m"), answer=pl.lit("1")
    )
    return {
        "examples": pl.DataFrame({"example_id": ids}).with_columns(
            dataset=pl.lit("d"), split=pl.lit("s"), question=pl.lit("q")
        ),
        "traces": solves,
        "verifications": solves.select("trace_id", "example_id", verifier=pl.lit("v"), score=pl.lit(0.5)),
    }


@pytest.mark.parametrize("block_rows", [10**6, 30])
def test_caps_of_samples(tmp_path: Path, block_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 examples: 18 have 8 traces, one 5, one none; of those with 8 one lacks a score at index 3."""
    monkeypatch.setattr(measuring, "BLOCK_ROWS", block_rows)
    tables = many([8] * 18 + [5, 0])
    tables["verifications"] = tables["verifications"].filter(pl.col("trace_id") != "e07-3")
    put_all(tmp_path, tables)
    found = caps(tmp_path)
    # 100 %: e19 has none. 95 % of 20 are 19 examples: 18 with 8 and one with 5.
    every, most, rest = found["sample", "n", "max_traces"]
    assert (every, most) == (0, 5)
    quotes(rest, "for 8: 1 ", "(`e18`), 1 ", "(`e19`)")
    every, most, rest = found["sample, verified", "n by v", "max_traces"]
    assert (every, most) == (0, 3)  # 17 with 8, e18 with 5, e07 with 3
    quotes(rest, "for 8: 1 ", "score (`e07`), 1 ", "(`e18`), 1 ", "(`e19`)")


def test_caps_end_at_a_gap(tmp_path: Path) -> None:
    tables = many([4, 4])
    tables["traces"] = tables["traces"].filter(pl.col("trace_id") != "e00-1")
    tables["verifications"] = tables["verifications"].filter(pl.col("trace_id") != "e00-1")
    put_all(tmp_path, tables)
    found = caps(tmp_path)
    every, most, rest = found["sample", "n", "max_traces"]
    assert (every, most) == (1, 1)
    quotes(rest, "for 4: 1 ", "a gap", "(`e00`)")


def test_an_invalid_trace_needs_no_score(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    assert caps(tmp_path)["sample, verified", "n by v", "max_traces"] == (2, 2, "")


def test_caps_of_a_listwise_verifier(tmp_path: Path) -> None:
    tables = many([4] * 19 + [3])
    tables["verifications"] = tables["verifications"].with_columns(
        candidates=pl.len().over("example_id").cast(pl.Int32)
    )
    put_all(tmp_path, tables)
    every, most, rest = caps(tmp_path)["sample, listwise", "n by v", "max_traces"]
    assert (every, most) == (0, 4)
    quotes(rest, "for 4: 1 ranked", "(`e19`)")


def _ranked_first(seed: int) -> dict[str, pl.DataFrame]:
    """A call ranked an example's first 3 traces, all or only the valid ones, but of one of 24 2 or 5. Another of them
    has no valid trace and no score, and in one each trace was judged alone.
    """
    draw = np.random.default_rng(seed)
    tables = many([6] * 22 + [5] * 2)
    lost = pl.col("trace_id").is_in(tables["traces"].sample(12, seed=seed)["trace_id"].implode())
    lost |= pl.col("example_id") == "e11"
    traces = tables["traces"].with_columns(answer=pl.when(~lost).then(pl.lit("1")), correct=~lost)
    first = [3] * 23 + [2 + 3 * (seed % 2)]
    draw.shuffle(first)
    ids = tables["examples"].select("example_id", first=pl.Series(first), valid_alone=pl.Series(draw.random(24) < 0.5))
    alone = pl.col("example_id") == "e05"
    seen = traces.join(ids, on="example_id").filter(
        alone | ((pl.col("sample_index") < pl.col("first")) & (pl.col("answer").is_not_null() | ~pl.col("valid_alone")))
    )
    scores = tables["verifications"].filter(pl.col("example_id") != "e11").join(seen, on="trace_id", how="semi")
    counted = pl.when(~alone).then(pl.len().over("example_id")).cast(pl.Int32)
    return tables | {"traces": traces, "verifications": scores.with_columns(candidates=counted)}


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.slow
def test_caps_of_choices_among_the_first_traces_agree_with_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    said: dict[int, list[int | None]] = {1: [], 10**6: []}
    for seed in range(2):
        pools = {"n": {"prefix": not at_once}}
        log = write_log(tmp_path / str(seed), name="x", tables=_ranked_first(seed), pools=pools)
        served = {cap: _served(log, cap, verified=True) for cap in range(1, 7)}
        for rows, most in said.items():
            monkeypatch.setattr(measuring, "BLOCK_ROWS", rows)
            assert [kind for kind in _caps_of(log) if "verified" in kind] == []
            *both, _ = _caps_of(log)["sample, listwise"]
            for cap, share in zip(both, (1.0, 0.95), strict=True):
                assert cap == max((cap for cap, n in served.items() if n >= share * 24), default=0), (seed, served)
            most.append(both[1])
    assert {max(most) for most in said.values()} == {0 if at_once else 3}


def test_an_example_without_a_valid_trace_serves_in_a_block_of_its_own_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = many([3, 3, 3])
    last = pl.col("example_id") == "e02"
    tables["traces"] = tables["traces"].with_columns(answer=pl.when(~last).then("answer"))
    tables["verifications"] = tables["verifications"].filter(~last)
    log = write_log(tmp_path / "log", name="x", tables=tables)
    for rows in (1, 10**6):
        monkeypatch.setattr(measuring, "BLOCK_ROWS", rows)
        assert _caps_of(log)["sample, verified"] == (3, 3, "")


def test_why_an_example_has_no_choice_is_told(tmp_path: Path) -> None:
    """e0's call saw all three; e1's first trace is not valid and no call was made; e2 has two that are not valid."""
    tables = many([3, 3, 2])
    lost = pl.col("trace_id").is_in(["e01-0", "e02-0", "e02-1"])
    tables["traces"] = tables["traces"].with_columns(answer=pl.when(~lost).then("answer"))
    own = tables["verifications"].filter(pl.col("example_id") == "e00")
    tables["verifications"] = own.with_columns(candidates=pl.lit(3, pl.Int32))
    *_, rest = _caps_of(write_log(tmp_path / "log", name="x", tables=tables))["sample, listwise"]
    quotes(rest, "for 3: 1 ", "score (`e01`), 1 ", "(`e02`)")


def test_caps_of_actions(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    # q1's sample 0 was continued once; q2's was not.
    every, most, rest = caps(tmp_path)["act", "continue of n (pool rev)", "rollouts"]
    assert (every, most) == (0, 0)
    quotes(rest, "for 1: 1 ", "revision", "(`q2`)")


def test_caps_of_retrieval_and_checks(tmp_path: Path) -> None:
    known = examples(gold_documents=[["d1"], None], gold_error=[True, None])
    put_all(tmp_path, {"examples": known, "rounds": rounds(), "checks": checks()})
    found = caps(tmp_path)
    # without gold documents an example is unjudged, and replayed all the same
    least, most, why = found["retrieve", "r", "rounds"]
    assert (least, most, numbers(why)) == (0, 0, ["2", "1"])
    quotes(why, "(`q2`)")
    # q1: claim 0 was refuted in its second round, and the stream ends with a `none` row: no cap is too large.
    assert found["buzz", "c", "max_rounds"] == (0, 0, "for any cap: 1 with no gold_error (`q2`)")
    put_all(tmp_path, {"examples": known[:1]})
    assert caps(tmp_path)["buzz", "c", "max_claims"] == (None, None, "")
    put_all(tmp_path, {"checks": checks(verdict=["not_enough", "not_enough", "supported"], queries=[1, 1, 1])})
    found = caps(tmp_path)
    assert found["buzz", "c", "max_rounds"] == (2, 2, "")
    assert found["buzz", "c", "max_claims"] == (2, 2, "")


def test_a_log_of_nothing_is_described(tmp_path: Path) -> None:
    found = describe_log(open_log(put_all(tmp_path, {"examples": examples()})))
    assert found.examples == 2
    assert found.pools.height == found.verifiers.height == found.caps.height == 0
    assert found.judged == 0
    quotes(found.terminal(), "2 examples, 0 of")


def test_the_terminal_shows_all_of_it(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", name="small", tables=whole(), simulated=True)
    text = describe_log(log).terminal(200)
    for words in ("small (sealed): 2 examples, 2 of", "Simulated log", "Traces", "Verifiers", "n by v"):
        assert words in text
    assert verifications().height == 4


def _whole_pool(tmp_path: Path, tables: dict[str, pl.DataFrame]) -> Log:
    return write_log(tmp_path / "log", name="x", tables=tables, pools={"n": {"prefix": False}})


def _caps_of(log: Log) -> dict[str, tuple[int | None, int | None, str]]:
    return {kind: (every, most, rest) for kind, _, _, every, most, rest in describe_log(log).caps.iter_rows()}


def test_a_pool_replayed_whole_is_served_by_its_size_alone(tmp_path: Path) -> None:
    """Sizes 5 and 3: at 3 the first would be cut, at 5 the second is short; no cap serves both."""
    found = _caps_of(_whole_pool(tmp_path, many([5, 3])))
    assert {kind: counts[:2] for kind, counts in found.items()} == {
        "sample, whole": (0, 0), "sample, whole, verified": (0, 0)
    }  # fmt: skip
    for *_, rest in found.values():
        assert numbers(rest) == ["5", "1", "5", "2"]
        quotes(rest, "(`e01`)", 'on_missing = "use_available"')


def test_a_pool_replayed_whole_with_one_size_a_gap_and_a_lost_score(tmp_path: Path) -> None:
    tables = many([4] * 20)
    assert _caps_of(_whole_pool(tmp_path / "a", tables))["sample, whole"] == (4, 4, "")
    cut = tables | {"verifications": tables["verifications"].filter(pl.col("trace_id") != "e07-3")}
    every, most, rest = _caps_of(_whole_pool(tmp_path / "b", cut))["sample, whole, verified"]
    assert (every, most) == (0, 4)
    quotes(rest, "for 4: 1 ", "score (`e07`); 4 covers 19 ")
    gap = {n: f.filter(pl.col("trace_id") != "e03-1") if n != "examples" else f for n, f in tables.items()}
    found = _caps_of(_whole_pool(tmp_path / "c", gap))
    for kind in ("sample, whole", "sample, whole, verified"):
        assert found[kind][:2] == (0, 4)
        quotes(found[kind][2], "for 4: 1 ", "a gap", "(`e03`); 4 covers 19 ")
    assert "smaller caps" in describe_log(open_log(tmp_path / "c" / "log")).terminal(200)


@pytest.mark.parametrize("sizes", [[5, 3], [3, 3, 3], [1, 2], [4] * 19 + [2]])
@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("listwise", [False, True])
@pytest.mark.slow
def test_caps_of_whole_pools_agree_with_replay(
    tmp_path: Path, sizes: list[int], verified: bool, listwise: bool
) -> None:
    tables = many(sizes)
    if listwise:
        candidates = pl.len().over("example_id").cast(pl.Int32)
        tables["verifications"] = tables["verifications"].with_columns(candidates=candidates)
    tables["traces"] = tables["traces"].with_columns(correct=pl.lit(True))
    log = _whole_pool(tmp_path, tables)
    kinds = ("sample, listwise" if listwise else "sample, whole, verified") if verified else "sample, whole"
    every, most, _ = _caps_of(log)[kinds]
    served = {cap: _served(log, cap, verified) for cap in range(1, max(sizes) + 2)}
    for said, share in ((every, 1.0), (most, 0.95)):
        assert {cap for cap, n in served.items() if n >= share * len(sizes)} == ({said} if said else set())


def _served(log: Log, cap: int, verified: bool) -> int:
    """Examples that replay serves at a cap."""
    select = {"select": "best", "verifier": "v"} if verified else {"select": "majority"}
    policy = replay.Sample(name="p", pool="n", max_traces=cap, **select)
    try:
        return replay.run(log, [policy], resamples=2).outcomes.collect()["example_id"].n_unique()
    except ThinkbackError:
        return 0


def test_scores_are_kept_without_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks and two verifiers give what one block gives; what is kept per score is numbers."""
    tables = many([3, 4, 2])
    tables["traces"] = tables["traces"].with_columns(
        answer=pl.col("sample_index").cast(pl.String), correct=pl.col("sample_index") == 1
    )
    one = tables["verifications"].with_row_index("i").with_columns(score=pl.col("i") * 0.37 % 1).drop("i")
    tables["verifications"] = pl.concat([one, one.with_columns(verifier=pl.lit("w"), score=1 - pl.col("score"))])
    put_all(tmp_path, tables)
    whole_log = describe_log(open_log(tmp_path)).verifiers
    kept = []
    real = measuring._verifiers_frame
    monkeypatch.setattr(measuring, "_verifiers_frame", lambda sums: kept.append(sums["scores"].schema) or real(sums))
    monkeypatch.setattr(measuring, "BLOCK_ROWS", 1)
    assert describe_log(open_log(tmp_path)).verifiers.equals(whole_log)
    assert all(dtype.is_numeric() or dtype == pl.Boolean for dtype in kept[0].values())


def test_a_folder_without_tables_is_not_described(tmp_path: Path) -> None:
    """As an interrupted run leaves it before its first block is written."""
    (tmp_path / "log" / ".generate").mkdir(parents=True)
    with refuses("empty", f"{tmp_path / 'log'}"):
        describe_log(open_log(tmp_path / "log"))


def test_two_scores_of_a_trace_by_one_verifier_are_named(tmp_path: Path) -> None:
    """As a copied shard of an unsealed log has them; what is measured of a verifier is of one score a trace."""
    rows = verifications()
    put_all(tmp_path, whole(verifications=pl.concat([rows, rows])))
    with refuses("duplicate", "`verifications`", f"`{rows['trace_id'][0]}`"):
        list(quality_of_log(open_log(tmp_path)))


def test_columns_that_some_policies_read_are_counted(tmp_path: Path) -> None:
    described = describe_log(open_log(put_all(tmp_path / "a", unfolding())))
    rows = {(table, column): (n, share) for table, column, n, share in described.recorded.iter_rows()}
    assert rows["examples", "golds"] == (1, 0.5)
    assert rows["examples", "human_positions"] == (2, 1.0)
    assert rows["traces", "position"] == (4, 0.8)
    assert rows["checks", "matches_error"] == (2, 2 / 3)
    assert rows["rounds", "contradictions"] == (2, 1.0)
    assert ("examples", "human_position") not in rows
    quotes(described.terminal(200), "human_positions", "contradictions")
    plain = describe_log(open_log(put_all(tmp_path / "b", whole())))
    assert plain.recorded.is_empty()
    assert "contradictions" not in plain.terminal(200)
