"""Merging: the first row of a key wins, in the order of the logs given; the rest is dropped and counted."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.errors import refuses
from tests.logs import checks, examples, put_all, rounds, traces, unfolding, verifications, whole
from toolkit.log import MergeReport, collect, merge_logs, open_log, seal_log, validate_log, write_log


def test_a_retry_does_not_improve_a_log(tmp_path: Path) -> None:
    write_log(tmp_path / "one", name="one", tables=whole(), license="MIT")
    retry = traces(answer=["4"] * 3 + ["yes"] * 2, correct=[True] * 5)
    write_log(tmp_path / "two", name="two", tables=whole(traces=retry), simulated=True, pools={"n": {"prefix": False}})
    report = merge_logs([tmp_path / "one", tmp_path / "two"], tmp_path / "out")
    assert report.dropped == {"examples": 2, "traces": 5, "verifications": 4}
    merged = report.log.scan("traces").collect().sort("trace_id")
    assert merged.equals(open_log(tmp_path / "one").scan("traces").collect().sort("trace_id"))
    assert report.log.name == "out"
    assert report.log.simulated
    assert report.log.pools_without_prefix() == {"n"}
    assert report.log.manifest is not None
    assert report.log.manifest.license == "MIT"
    names = [part["name"] for part in report.log.manifest.source["merged"]]
    assert names == ["one", "two"]
    assert validate_log(report.log).ok
    other = merge_logs([tmp_path / "two", tmp_path / "one"], tmp_path / "other").log.scan("traces").collect()
    assert other["correct"].to_list() == [True] * 5


def test_a_retry_under_new_ids_does_not_improve_a_log_either(tmp_path: Path) -> None:
    """The later trace in a taken place goes, with what hangs on it: its score and its revision."""
    write_log(tmp_path / "one", name="one", tables={"examples": examples(), "traces": traces().head(1)})
    first = traces().head(1).with_columns(trace_id=pl.lit("again"))
    revised = first.with_columns(
        trace_id=pl.lit("revised"), action=pl.lit("continue"), parent_id=pl.lit("again"), sample_index=pl.lit(0)
    )
    later = pl.concat([first, revised.cast(first.schema)])
    score = verifications().head(1).with_columns(trace_id=pl.lit("again"))
    write_log(tmp_path / "two", name="two", tables={"examples": examples(), "traces": later, "verifications": score})
    report = merge_logs([tmp_path / "one", tmp_path / "two"], tmp_path / "out")
    assert report.dropped == {"examples": examples().height, "traces": 2, "verifications": 1}
    assert report.log.scan("traces").collect()["trace_id"].to_list() == traces()["trace_id"].to_list()[:1]


def test_parts_of_one_log_come_together(tmp_path: Path) -> None:
    """Examples and traces in one place, scores in another, more traces of the same pool in a third."""
    put_all(tmp_path / "a", {"examples": examples(), "traces": traces()[:3]})
    put_all(tmp_path / "b", {"verifications": verifications()})
    put_all(tmp_path / "c", {"traces": traces().with_columns(latency_s=pl.lit(1.0), note=pl.lit("late"))})
    report = merge_logs([tmp_path / x for x in "abc"], tmp_path / "out", name="all")
    assert report.dropped == {"examples": 0, "traces": 3, "verifications": 0}
    frame = report.log.scan("traces").collect().sort("trace_id")
    assert frame["latency_s"].to_list() == [None, None, 1.0, 1.0, None]  # a0, a1, b0, b1, r0
    assert frame["note"].to_list() == [None, None, "late", "late", None]


def test_within_a_log_the_file_name_then_the_row_decides(tmp_path: Path) -> None:
    rows = verifications()[:1]
    frames = [rows.with_columns(score=pl.lit(value)) for value in (0.1, 0.2, 0.3)]
    folder = put_all(tmp_path / "a", {"examples": examples(), "traces": traces()})
    from tests.logs import put

    put(folder, "verifications", frames[0], "b.parquet")
    put(folder, "verifications", pl.concat(frames[1:]), "a.parquet")
    report = merge_logs([folder], tmp_path / "out")
    assert report.log.scan("verifications").collect()["score"].to_list() == [0.2]
    assert report.dropped["verifications"] == 2


def test_merging_agrees_with_a_plain_loop(tmp_path: Path) -> None:
    draw = random.Random(3)
    logs, kept = [], {}
    for number in range(3):
        keys = draw.sample([(t, v) for t in traces()["trace_id"] for v in ("v", "w")], 6)
        of = dict(traces().select("trace_id", "example_id").iter_rows())
        rows = [(t, v, of[t], draw.random()) for t, v in keys]
        for t, v, _, score in rows:
            kept.setdefault((t, v), score)
        frame = pl.DataFrame(rows, schema=["trace_id", "verifier", "example_id", "score"], orient="row")
        logs.append(put_all(tmp_path / str(number), {"verifications": frame} | ({} if number else whole_but_scores())))
    report = merge_logs(logs, tmp_path / "out")
    found = report.log.scan("verifications").collect()
    assert {(t, v): s for t, v, s in found.select("trace_id", "verifier", "score").iter_rows()} == kept
    assert report.dropped["verifications"] == 18 - len(kept)


def whole_but_scores() -> dict[str, pl.DataFrame]:
    return {"examples": examples(), "traces": traces()}


def one(trace: str, place: int, answer: str = "4", **more: object) -> pl.DataFrame:
    """One solve of q1, whose gold is 4."""
    row = {"trace_id": trace, "sample_index": place, "answer": answer, "correct": answer == "4"}
    return traces()[:1].with_columns(pl.lit(value).alias(name) for name, value in (row | more).items())


def revision(trace: str, parent: str) -> pl.DataFrame:
    return one(trace, 0, pool="rev", action="continue", parent_id=parent)


def of(trace: str, score: float, verifier: str = "v") -> pl.DataFrame:
    return verifications()[:1].with_columns(trace_id=pl.lit(trace), score=pl.lit(score), verifier=pl.lit(verifier))


def features_of(trace: str) -> pl.DataFrame:
    return pl.DataFrame({"trace_id": [trace], "example_id": ["q1"], "difficulty": [0.5]})


def states_of(trace: str) -> pl.DataFrame:
    return pl.DataFrame(
        {"trace_id": [trace], "layer": [-1], "token": [-1], "example_id": ["q1"], "state": [[0.5]]},
        schema_overrides={"state": pl.Array(pl.Float32, 1)},
    )


def merged(tmp_path: Path, *logs: dict[str, pl.DataFrame], validate: bool = True) -> MergeReport:
    paths = []
    for number, tables in enumerate(logs):
        paths.append(put_all(tmp_path / str(number), {"examples": examples()} | tables))
    return merge_logs(paths, tmp_path / "out", validate=validate)


def values(report: MergeReport, table: str, *columns: str) -> list[tuple[object, ...]]:
    return sorted(report.log.scan(table, list(columns)).collect().rows())


@pytest.mark.parametrize("change", ["answer", "text", "tokens"])
def test_what_a_log_says_of_another_trace_of_the_same_id_is_dropped(tmp_path: Path, change: str) -> None:
    """The second log ran x again: its score is not that of the first log's x, nor is its revision one of it."""
    other = {"answer": one("x", 0, "4"), "text": one("x", 0, "5", text="b"), "tokens": one("x", 0, "5")}[change]
    again = other.with_columns(completion_tokens=pl.lit(99)) if change == "tokens" else other
    retry = {
        "traces": pl.concat([again, revision("r", "x"), one("s", 1)], how="diagonal_relaxed"),
        "verifications": pl.concat([of("x", 0.99), of("r", 0.98), of("s", 0.5)]),
        "features": features_of("x"),
        "hidden_states/m": states_of("x"),
    }
    scores = {"verifications": pl.concat([of("x", 0.2), of("x", 0.3, "w")])}
    report = merged(tmp_path, {"traces": one("x", 0, "5", text="a")}, retry, scores)
    assert report.dropped == {
        "examples": 4, "traces": 2, "verifications": 2, "features": 1, "hidden_states/m": 1,
    }  # fmt: skip
    assert values(report, "traces", "trace_id", "answer") == [("s", "4"), ("x", "5")]
    assert values(report, "verifications", "trace_id", "verifier", "score") == [
        ("s", "v", 0.5),
        ("x", "v", 0.2),
        ("x", "w", 0.3),
    ]


def test_what_a_log_says_of_the_same_trace_is_kept(tmp_path: Path) -> None:
    """The third log's x is the first one's: so is its revision, though the second log has one of that id."""
    wrong = {"traces": pl.concat([one("x", 0), revision("r", "x")]), "verifications": of("x", 0.9)}
    same = {
        "traces": pl.concat([one("x", 0, "5"), revision("r", "x")]),
        "verifications": pl.concat([of("x", 0.4), of("r", 0.6)]),
    }
    report = merged(tmp_path, {"traces": one("x", 0, "5")}, wrong, same)
    assert values(report, "traces", "trace_id", "answer") == [("r", "4"), ("x", "5")]
    assert values(report, "verifications", "trace_id", "score") == [("r", 0.6), ("x", 0.4)]


def test_a_trace_dropped_for_its_id_takes_no_place(tmp_path: Path) -> None:
    """x@0; w@0 (a retry), x@1 (another x); z@1: nothing that is kept stands at 1, so z does."""
    report = merged(
        tmp_path, {"traces": one("x", 0)}, {"traces": pl.concat([one("w", 0), one("x", 1)])}, {"traces": one("z", 1)}
    )
    assert values(report, "traces", "trace_id", "sample_index") == [("x", 0), ("z", 1)]
    assert report.dropped["traces"] == 2


def test_a_revision_goes_with_a_parent_that_a_later_log_holds(tmp_path: Path) -> None:
    first = {"traces": pl.concat([one("x", 0), revision("r", "y"), revision("q", "r")])}
    report = merged(tmp_path, first, {"traces": one("y", 0)}, {"verifications": of("q", 0.9)})
    assert values(report, "traces", "trace_id") == [("x",)]
    assert report.dropped["verifications"] == 1


@pytest.mark.parametrize("seed", range(8))
def test_retries_agree_with_a_plain_loop(tmp_path: Path, seed: int) -> None:
    """Ids and places that collide at random, ids across places too; each log scores some of its traces."""
    draw = random.Random(seed)
    logs = []
    for _ in range(4):
        ids = draw.sample("abcdefgh", 4)
        rows = [(x, place, draw.choice("45")) for x, place in zip(ids, draw.sample(range(5), 4), strict=True)]
        logs.append((rows, [(x, draw.random()) for x in draw.sample(ids, 2)]))
    says: dict[str, tuple[str, int, str]] = {}
    kept, places, strangers, scores = {}, set(), set(), {}
    for number, (rows, _) in enumerate(logs):
        for row in rows:
            name, place, _ = row
            if name in says:
                if says[name] != row:
                    strangers.add((number, name))
                continue
            says[name] = row
            if place not in places:
                places.add(place)
                kept[name] = row
    for number, (_, of_log) in enumerate(logs):
        for name, score in of_log:
            if name in kept and (number, name) not in strangers:
                scores.setdefault(name, score)
    tables = [
        {
            "traces": pl.concat([one(*row) for row in rows]),
            "verifications": pl.concat([of(name, score) for name, score in of_log]),
        }
        for rows, of_log in logs
    ]
    report = merged(tmp_path, *tables, validate=False)
    assert values(report, "traces", "trace_id", "sample_index", "answer") == sorted(kept.values())
    assert values(report, "verifications", "trace_id", "score") == sorted(scores.items())
    assert report.dropped["traces"] == 16 - len(kept)


@pytest.mark.parametrize(("name", "other"), [("question", "3 + 3?"), ("gold", "6")])
def test_different_questions_of_one_id_are_refused(tmp_path: Path, name: str, other: str) -> None:
    """A gold that one log does not know is no other gold."""
    unknown = {"examples": examples(gold=[None, None])}
    strange = {"examples": examples().with_columns(pl.Series(name, [other, examples()[name][1]]))}
    with refuses("differs", "2/examples/part-0.parquet`", f"`{name}`", "row 0", "`q1`", "/1/examples/"):
        merged(tmp_path, unknown, {}, strange) if name == "gold" else merged(
            tmp_path, {"examples": examples()[1:]}, {}, strange
        )
    assert not (tmp_path / "out").exists()
    shutil.rmtree(tmp_path)
    assert merged(tmp_path, unknown, {}).log.scan("examples").collect()["gold"].to_list() == [None, None]


@pytest.mark.parametrize(
    ("first", "second", "quoted"),
    [
        (pl.Series([2**53 + 1, 1]), pl.Series([0.5, 0.5]), ("0/", "row 0", "`9007199254740993`", "float64")),
        (pl.Series([0.5, 0.5]), pl.Series([1, 2**53 + 1]), ("1/", "row 1", "`9007199254740993`", "float64")),
        (
            pl.Series([1, 2**63 + 5], dtype=pl.UInt64),
            pl.Series([1, 2]),
            ("0/", "row 1", "`9223372036854775813`", "int64"),
        ),
    ],
)
def test_no_value_is_lost_in_the_type_that_columns_have_in_common(
    tmp_path: Path, first: pl.Series, second: pl.Series, quoted: tuple[str, ...]
) -> None:
    logs = [{"examples": examples().with_columns(seed=seed)} for seed in (first, second)]
    logs[1]["examples"] = logs[1]["examples"].with_columns(example_id="x" + pl.col("example_id"))
    with refuses("lossy", *quoted):
        merged(tmp_path, *logs)
    assert not (tmp_path / "out").exists()


def test_columns_of_two_logs_are_read_as_those_of_two_shards(tmp_path: Path) -> None:
    seeds = [pl.Series([2**53, 1]), pl.Series([0.5, 0.5]), pl.Series([7, 8], dtype=pl.UInt64)]
    tags = [pl.Series(["a", "b"], dtype=pl.Categorical), pl.Series(["c", "d"]), pl.Series([None, None], dtype=pl.Null)]
    logs = [
        {"examples": examples().with_columns(example_id=f"{n}" + pl.col("example_id"), seed=seed, tag=tag)}
        for n, (seed, tag) in enumerate(zip(seeds, tags, strict=True))
    ]
    for number, kind in enumerate((pl.Float16, pl.Float32)):
        logs[number]["traces"] = one(f"t{number}", 0, example_id=f"{number}q1")
        states = states_of(f"t{number}").with_columns(example_id=pl.lit(f"{number}q1"))
        logs[number]["hidden_states/m"] = states.with_columns(pl.col("state").cast(pl.Array(kind, 1)))
    log = merged(tmp_path, *logs).log
    frame = log.scan("examples", ["example_id", "seed", "tag"]).collect().sort("example_id")
    assert frame["seed"].to_list() == [2.0**53, 1.0, 0.5, 0.5, 7.0, 8.0]
    assert frame["tag"].to_list() == ["a", "b", "c", "d", None, None]
    assert log.columns("hidden_states/m")["state"] == pl.Array(pl.Float32, 1)


def test_logs_in_archives_are_told_apart(tmp_path: Path) -> None:
    """The same path in each of two archives."""
    for number in range(2):
        put_all(tmp_path / str(number) / "log", {"examples": examples(), "traces": one(f"t{number}", number)})
        shutil.make_archive(str(tmp_path / str(number)), "zip", tmp_path / str(number))
    report = merge_logs([f"zip://log::{tmp_path}/{number}.zip" for number in range(2)], tmp_path / "out")
    assert values(report, "traces", "trace_id") == [("t0",), ("t1",)]


def test_what_does_not_fit_together_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    put_all(tmp_path / "a", whole())
    put_all(tmp_path / "b", {"traces": traces(trace_id=["x0", "x1", "x2", "x3", "x4"], example_id=["q9"] * 5)})
    with refuses("unknown", "`example_id`", "`q9`"):
        merge_logs([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    put_all(tmp_path / "c", {"traces": traces().with_columns(note=pl.lit("x"))})
    put_all(tmp_path / "d", {"traces": traces().with_columns(note=pl.lit(True))})
    with refuses("type", "d/traces/part-0.parquet`", "`note`", "0"):
        merge_logs([tmp_path / x for x in "acd"], tmp_path / "out")
    with refuses("required", "logs"):
        merge_logs([], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_hidden_states_are_merged_by_model(tmp_path: Path) -> None:
    states = pl.DataFrame(
        {"trace_id": ["a0", "a1"], "layer": [-1, -1], "token": [-1, -1], "example_id": ["q1", "q1"],
         "state": [[1.0, 2.0], [3.0, 4.0]]},
        schema_overrides={"state": pl.Array(pl.Float16, 2)},
    )  # fmt: skip
    put_all(tmp_path / "a", {**whole(), "hidden_states/m": states[:1]})
    put_all(tmp_path / "b", {"hidden_states/m": states, "hidden_states/k": states})
    log = merge_logs([tmp_path / "a", tmp_path / "b"], tmp_path / "out").log
    assert log.hidden_models == ("k", "m")
    assert log.scan("hidden_states/m").collect().sort("trace_id")["state"].to_list() == [[1.0, 2.0], [3.0, 4.0]]
    assert validate_log(log).ok


def test_sealing_a_merged_unsealed_log_is_stable(tmp_path: Path) -> None:
    put_all(tmp_path / "a", whole())
    seal_log(tmp_path / "a", name="a")
    first = merge_logs([tmp_path / "a"], tmp_path / "one").log
    second = merge_logs([tmp_path / "one"], tmp_path / "two").log
    assert first.digest() == second.digest()


def test_the_harder_it_is_compressed_the_smaller_it_is(tmp_path: Path) -> None:
    draw = random.Random(0)
    ids = [f"t{i:04d}" for i in range(3_000)]
    many = pl.DataFrame(
        {
            "trace_id": ids, "example_id": ["q1"] * len(ids), "sample_index": range(len(ids)),
            "text": [" ".join(str(draw.randrange(9)) for _ in range(60)) for _ in ids],
            "token_logprobs": [[-draw.random() for _ in range(4)] for _ in ids],
        }
    ).with_columns(pool=pl.lit("n"), action=pl.lit("solve"), model=pl.lit("m"))  # fmt: skip
    log = write_log(tmp_path / "log", name="x", tables={"examples": examples()[:1], "traces": many})
    merged = [merge_logs([log.address], tmp_path / str(level), compression=level).log for level in (1, 19)]
    sizes = [Path(one.shards["traces"][0].path).stat().st_size for one in merged]
    assert sizes[1] < 0.95 * sizes[0]
    frames = [collect(one.scan("traces")) for one in (log, *merged)]
    assert frames[0].equals(frames[1])
    assert frames[0].equals(frames[2])
    with refuses("invalid", "`compression`", "23", "1", "22"):
        merge_logs([log.address], tmp_path / "more", compression=23)


@pytest.mark.parametrize("scores_first", [False, True])
def test_scores_of_a_trace_stay_where_the_other_log_says_less_of_it(tmp_path: Path, scores_first: bool) -> None:
    """Answers and rewards of the same samples from two files: one has no texts and no tokens, in either order."""
    bare = pl.concat([one("x", 0), one("y", 1, "5")]).drop("text", "completion_tokens", strict=False)
    full = bare.with_columns(text=pl.lit("so 4"), completion_tokens=pl.lit(12, pl.Int32))
    logs = [{"traces": full}, {"traces": bare, "verifications": pl.concat([of("x", 0.9), of("y", 0.1)])}]
    report = merged(tmp_path, *(reversed(logs) if scores_first else logs))
    assert values(report, "verifications", "trace_id", "score") == [("x", 0.9), ("y", 0.1)]
    assert report.dropped["traces"] == 2
    assert not any(report.strays.values())


def test_the_reason_for_which_scores_go_is_counted(tmp_path: Path) -> None:
    """y has another answer in the second log, so its score is of another trace; that of x comes a second time."""
    first = {"traces": pl.concat([one("x", 0), one("y", 1)]), "verifications": of("x", 0.9)}
    second = {
        "traces": pl.concat([one("x", 0), one("y", 1, "5")]),
        "verifications": pl.concat([of("x", 0.8), of("y", 0.1)]),
    }
    report = merged(tmp_path, first, second)
    assert values(report, "verifications", "trace_id", "score") == [("x", 0.9)]
    assert (report.dropped["verifications"], report.strays["verifications"]) == (2, 1)
    assert (report.dropped["traces"], report.strays["traces"]) == (2, 1)


def test_rounds_checks_and_people_are_merged_whole(tmp_path: Path) -> None:
    """A log with every column beside one that has none of them: values stay, the others' are null."""
    tables = unfolding()
    more = {
        "examples": examples(example_id=["q3", "q4"]),
        "rounds": rounds(example_id=["q3", "q3"]),
        "checks": checks(example_id=["q4"] * 3),
    }
    write_log(tmp_path / "one", name="one", tables=tables, pools={"r": {"explore": {"reward": "aligned"}}, "c": {}})
    write_log(tmp_path / "two", name="two", tables=more, pools={"c": {"sees": "claims"}})
    merged = merge_logs([tmp_path / "one", tmp_path / "two"], tmp_path / "out").log
    assert validate_log(merged).problems == ()
    for table, frame in tables.items():
        both = merged.scan(table, frame.columns).collect()
        assert both.head(frame.height).rows() == frame.rows()
        others = both.tail(both.height - frame.height)
        absent = set(frame.columns) - set(more.get(table, frame.clear()).columns)
        assert all(others[name].null_count() == others.height for name in absent)
    assert merged.manifest is not None
    assert merged.manifest.pools == {"r": {"explore": {"reward": "aligned"}}, "c": {"sees": "claims"}}
    assert merged.manifest.pool_setting("c", "sees") == "claims"
    assert merged.manifest.pool_setting("r", "sees") is merged.manifest.pool_setting("none", "explore") is None


def test_pools_that_explored_in_other_ways_are_not_merged(tmp_path: Path) -> None:
    for name, seen in (("one", "claims"), ("two", "verdicts")):
        write_log(tmp_path / name, name=name, tables=unfolding(), pools={"c": {"sees": seen}})
    with refuses("mismatch", "`pools.c.sees`", "'claims'", "'verdicts'"):
        merge_logs([tmp_path / "one", tmp_path / "two"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
