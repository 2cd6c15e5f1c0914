"""Every kind of bad input, with the exact line that it gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.log.makers import checks, examples, put, put_all, rounds, traces, verifications, whole
from toolkit.log import LogError, check_log, open_log, validate_log, write_log
from toolkit.log.check import relations
from toolkit.log.check.values import first_fault
from toolkit.log.contract.problems import UNFINISHED

NAN = float("nan")
PART = "part-0.parquet"
Tables = dict[str, pl.DataFrame]


def problems(folder: Path) -> list[str]:
    return [str(problem) for problem in validate_log(open_log(folder)).problems]


def notes(folder: Path) -> list[str]:
    return list(validate_log(open_log(folder)).notes)


def longer(frame: pl.DataFrame, **row: Any) -> pl.DataFrame:
    """The frame with one more row: its first one, changed."""
    return pl.concat([frame, frame[:1].with_columns(pl.lit(v).cast(frame.schema[k]).alias(k) for k, v in row.items())])


def all_tables(**tables: pl.DataFrame) -> Tables:
    return whole() | {"rounds": rounds(), "checks": checks()} | tables


CASES: dict[str, tuple[Tables, str]] = {
    "missing column": (
        whole(traces=traces().drop("model")),
        f"`traces/{PART}`, column `model`: is missing: traces need it (string)",
    ),
    "wrong type": (
        whole(verifications=verifications(score=["a", "b", "c", "d"])),
        f"`verifications/{PART}`, column `score`, row 0: holds string, expected float64: write it with that type",
    ),
    "fraction in a count": (
        whole(traces=traces(sample_index=[0.0, 1.0, 0.0, 0.5, 1.0])),
        f"`traces/{PART}`, column `sample_index`, row 3: `0.5` does not fit int32 without loss: "
        "correct it or drop the column",
    ),
    "null where required": (
        whole(traces=traces(pool=["n", "n", "rev", None, "n"])),
        f"`traces/{PART}`, column `pool`, row 3: is null where a value is required",
    ),
    "NaN score": (
        whole(verifications=verifications(score=[0.5, NAN, NAN, 0.1])),
        f"`verifications/{PART}`, column `score`, row 1: `nan` is not a number: "
        "write null for not recorded (2 rows in all)",
    ),
    "infinite seconds": (
        whole(traces=traces(latency_s=[0.5, None, float("-inf"), 1.0, 1.0])),
        f"`traces/{PART}`, column `latency_s`, row 2: `-inf` is not a number: write null for not recorded",
    ),
    "NaN in a list": (
        whole(traces=traces(token_logprobs=[[-1.0], None, [], [-1.0, NAN], [0.0]])),
        f"`traces/{PART}`, column `token_logprobs`, row 3: the list holds NaN or infinity: write finite numbers",
    ),
    "entropies of other tokens": (
        whole(
            traces=traces(
                token_logprobs=[[-1.0], None, [], [-1.0], [0.0]], token_entropies=[[0.5], None, [], [1.0, 2.0], []]
            )
        ),
        f"`traces/{PART}`, column `token_entropies`, row 3: has 2 entries for 1 `token_logprobs`: "
        "write one for each (2 rows in all)",
    ),
    "an entropy below 0": (
        whole(traces=traces(token_entropies=[[0.5], None, [], [0.0], [-0.5]])),
        f"`traces/{PART}`, column `token_entropies`, row 4: the list holds a negative number: entropies begin at 0",
    ),
    "a rank of 0": (
        whole(verifications=verifications(token_ranks=[None, [1], [1, 0], []])),
        f"`verifications/{PART}`, column `token_ranks`, row 2: the list holds a number below 1: "
        "the rank of the most likely token is 1",
    ),
    "NaN in a feature": (
        whole(features=traces().select("trace_id", "example_id", f=pl.Series([0.0, 1.0, NAN, 2.0, 3.0]))),
        f"`features/{PART}`, column `f`, row 2: `nan` is not a number: write null for not recorded",
    ),
    "null in a list": (
        whole(examples=examples(gold_documents=[["d", None], None])),
        f"`examples/{PART}`, column `gold_documents`, row 0: the list holds a null: leave the item out, "
        "or write its value",
    ),
    "negative count": (
        whole(traces=traces(prompt_tokens=[1, 2, -3, 4, 5])),
        f"`traces/{PART}`, column `prompt_tokens`, row 2: `-3` is negative: write null for not recorded",
    ),
    "credit out of range": (
        whole(traces=traces(credit=[0.0, 0.0, 1.5, 1.0, 0.5])),
        f"`traces/{PART}`, column `credit`, row 2: `1.5` lies outside 0 to 1",
    ),
    "gold outside labels": (
        whole(examples=examples(gold=["4", "maybe"]), traces=traces(correct=[True, False, True, False, False])),
        f"`examples/{PART}`, column `gold`, row 1: `maybe` is not one of the example's labels `['yes', 'no']`: "
        "correct gold or labels",
    ),
    "a label twice": (
        whole(examples=examples(labels=[None, ["yes", "no", "yes"]])),
        f"`examples/{PART}`, column `labels`, row 1: `['yes', 'no', 'yes']` names a label twice",
    ),
    "unknown example": (
        whole(verifications=verifications(example_id=["q1", "q1", "q2", "q9"])),
        f"`verifications/{PART}`, column `example_id`, row 3: `q9` is unknown: add it to examples, or remove the rows",
    ),
    "unknown trace": (
        whole(verifications=verifications(trace_id=["a0", "r0", "zz", "b1"])),
        f"`verifications/{PART}`, column `trace_id`, row 2: `zz` is unknown: add it to traces, or remove the row",
    ),
    "trace of another example": (
        whole(verifications=verifications(example_id=["q1", "q2", "q2", "q2"])),
        f"`verifications/{PART}`, column `trace_id`, row 1: `r0` is a trace of example `q1`, the row's example_id is "
        "`q2`: correct one of them",
    ),
    "duplicate example": (
        whole(examples=longer(examples())),
        f"`examples/{PART}`, column `example_id`, row 2: a second row of example_id `q1`: keep one; "
        "a retry belongs into a log of its own, to be merged",
    ),
    "duplicate trace": (
        whole(traces=longer(traces(), sample_index=2)),
        f"`traces/{PART}`, column `trace_id`, row 5: a second row of trace_id `a0`: keep one; "
        "a retry belongs into a log of its own, to be merged",
    ),
    "duplicate verification": (
        whole(verifications=longer(verifications(), score=0.99)),
        f"`verifications/{PART}`, column `trace_id`, row 4: a second row of trace_id `a0`, verifier `v`: keep one; "
        "a retry belongs into a log of its own, to be merged",
    ),
    "solve with a parent": (
        whole(traces=traces(parent_id=[None, "a0", "a0", None, None])),
        f"`traces/{PART}`, column `parent_id`, row 1: a trace with action `solve` has a parent: "
        "its parent_id must be null",
    ),
    "revision without parent": (
        whole(traces=traces(parent_id=[None] * 5)),
        f"`traces/{PART}`, column `parent_id`, row 2: action `continue` needs the "
        "parent_id of the trace that it revises",
    ),
    "unknown parent": (
        whole(traces=traces(parent_id=[None, None, "zz", None, None])),
        f"`traces/{PART}`, column `parent_id`, row 2: `zz` is unknown: add it to traces, or remove the row",
    ),
    "parent of another example": (
        whole(traces=traces(parent_id=[None, None, "b1", None, None])),
        f"`traces/{PART}`, column `parent_id`, row 2: `b1` is a trace of example `q2`, the row's example_id is `q1`: "
        "correct one of them",
    ),
    "own parent": (
        whole(traces=traces(parent_id=[None, None, "r0", None, None])),
        f"`traces/{PART}`, column `parent_id`, row 2: `r0` is the trace itself: name the trace it revises",
    ),
    "a solve that reads": (
        whole(traces=traces(reads=[None, 2, 1, None, None])),
        f"`traces/{PART}`, column `reads`, row 1: a trace with action `solve` revises nothing: its reads must be null",
    ),
    "sample index twice": (
        whole(traces=traces(sample_index=[0, 0, 0, 0, 1])),
        f"`traces/{PART}`, column `sample_index`, row 1: `0` occurs twice in example `q1`, pool `n`, action `solve`: "
        "number the samples 0, 1, 2 …",
    ),
    "equal answers judged differently": (
        whole(traces=traces(correct=[True, False, False, True, False])),
        f"`traces/{PART}`, column `correct`, row 2: is false for answer `4` of example `q1`, "
        "which an earlier trace judges differently: judge equal answers alike, or mark them `contested`, as one "
        "import of all their files with `--set answers.conflicts=keep` does",
    ),
    "partly judged": (
        whole(traces=traces(correct=[True, None, True, True, False])),
        f"`traces/{PART}`, column `correct`, row 1: is null, but other traces of example `q1` are judged: "
        "judge all or none",
    ),
    "null answer judged right": (
        whole(traces=traces(correct=[True, True, True, True, False])),
        f"`traces/{PART}`, column `correct`, row 1: is true, but the answer is null: "
        "an answer that could not be read is wrong (false)",
    ),
    "judged against the labels": (
        whole(traces=traces(correct=[True, False, True, True, True])),
        f"`traces/{PART}`, column `correct`, row 4: is true for answer `no` and gold `yes` of example `q2`, "
        "which has labels: correct is answer = gold",
    ),
    "opaque with an answer": (
        whole(traces=traces(opaque=[None, None, True, False, False])),
        f"`traces/{PART}`, column `opaque`, row 2: the trace is opaque, but its answer is not its trace_id: "
        "write the trace_id as answer",
    ),
    "contested without an answer": (
        whole(traces=traces(contested=[True, True, True, None, None])),
        f"`traces/{PART}`, column `contested`, row 1: the trace is contested, which takes a readable answer and a "
        "verdict: write false or null",
    ),
    "contested and opaque": (
        whole(
            traces=traces(
                answer=["4", None, "r0", "yes", "no"],
                opaque=[False, False, True, False, False],
                contested=[False, False, True, False, False],
            )
        ),
        f"`traces/{PART}`, column `contested`, row 2: the trace is contested, which takes a readable answer and a "
        "verdict: write false or null",
    ),
    "contested without a verdict": (
        whole(traces=traces(correct=[None, None, None, True, False], contested=[True, None, None, None, None])),
        f"`traces/{PART}`, column `contested`, row 0: the trace is contested, which takes a readable answer and a "
        "verdict: write false or null",
    ),
    "judged differently beside contested ones": (
        whole(
            traces=traces(
                answer=["4", "4", "4", "yes", "no"],
                correct=[True, True, False, True, False],
                contested=[True, False, False, False, False],
            )
        ),
        f"`traces/{PART}`, column `correct`, row 2: is false for answer `4` of example `q1`, "
        "which an earlier trace judges differently: judge equal answers alike, or mark them `contested`, as one "
        "import of all their files with `--set answers.conflicts=keep` does",
    ),
    "a call of many candidates paid twice": (
        whole(verifications=verifications(candidates=[None, None, 2, 2], prompt_tokens=[1, 1, 9, 9])),
        f"`verifications/{PART}`, column `prompt_tokens`, row 3: `9`: the cost of a call that ranks several traces "
        "belongs to the row with the lowest sample_index, the others hold 0",
    ),
    "no candidates": (
        whole(verifications=verifications(candidates=[None, None, 0, None])),
        f"`verifications/{PART}`, column `candidates`, row 2: `0` must be at least 1: "
        "write null for a verifier that scores traces alone",
    ),
    "lists of unequal length": (
        all_tables(rounds=rounds(relevance=[[0.5], [0.2]])),
        f"`rounds/{PART}`, column `relevance`, row 0: has 1 entries for 2 `documents`: write one for each",
    ),
    "clusters of unequal length": (
        all_tables(rounds=rounds(clusters=[[0, 1], [0, 1]])),
        f"`rounds/{PART}`, column `clusters`, row 1: has 2 entries for 1 `answers`: write one for each",
    ),
    "ranks of unequal length": (
        all_tables(rounds=rounds(retrieval_rank=[[0, None], []])),
        f"`rounds/{PART}`, column `retrieval_rank`, row 1: has 0 entries for 1 `documents`: write one for each",
    ),
    "a gap in rounds": (
        all_tables(rounds=rounds(round=[0, 2])),
        f"`rounds/{PART}`, column `round`, row 1: `2` comes without round 1 (example `q1`, pool `r`, hop `0`): "
        "log every round from 0",
    ),
    "rounds from 1": (
        all_tables(checks=checks(round=[1, 2, 0])),
        f"`checks/{PART}`, column `round`, row 0: `1` comes without round 0 (example `q1`, pool `c`, claim `0`): "
        "log every round from 0",
    ),
    "duplicate round": (
        all_tables(rounds=rounds(round=[0, 0])),
        f"`rounds/{PART}`, column `round`, row 1: a second row of example_id `q1`, pool `r`, hop `0`, round `0`: "
        "keep one; a retry belongs into a log of its own, to be merged",
    ),
    "unknown example of a check": (
        all_tables(checks=checks(example_id=["q1", "q1", "q7"])),
        f"`checks/{PART}`, column `example_id`, row 2: `q7` is unknown: add it to examples, or remove the rows",
    ),
    "a stage that changes": (
        all_tables(checks=checks(stage=["stream", "revision", "stream"])),
        f"`checks/{PART}`, column `stage`, row 1: `revision`, but claim 0 of example `q1` began in `stream`: "
        "a claim's stage never changes",
    ),
    "an unknown stage": (
        all_tables(checks=checks(stage=["stream", "stream", "later"])),
        f"`checks/{PART}`, column `stage`, row 2: unknown stage `later`: write one of `stream`, `revision`",
    ),
    "an unknown verdict": (
        all_tables(checks=checks(verdict=["maybe", "refuted", "none"])),
        f"`checks/{PART}`, column `verdict`, row 0: unknown verdict `maybe`: write one of "
        "`supported`, `refuted`, `not_enough`, `none`",
    ),
    "queries without a claim": (
        all_tables(checks=checks(queries=[1, 1, 1])),
        f"`checks/{PART}`, column `queries`, row 2: `1` but the verdict is `none`, which spends no query: write 0",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_its_line(name: str, tmp_path: Path) -> None:
    tables, line = CASES[name]
    assert problems(put_all(tmp_path, tables)) == [line]
    if not {"rounds", "checks"} & set(tables):
        with pytest.raises(LogError) as caught:
            check_log(open_log(tmp_path))
        assert str(caught.value) == line


@pytest.mark.parametrize("name", CASES)
def test_blocks_of_one_example_find_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "BLOCK_ROWS", 1)
    tables, line = CASES[name]
    assert problems(put_all(tmp_path, tables)) == [line]


@pytest.mark.parametrize("name", [name for name, (_, line) in CASES.items() if ", row " in line])
def test_the_file_and_row_are_found_among_shards(name: str, tmp_path: Path) -> None:
    """The faulty table cut in single rows, so that every row number is 0 and the file's name holds the place."""
    tables, line = CASES[name]
    faulty, _, rest = line.removeprefix("`").partition("/")
    place = rest.partition("row ")[2].partition(":")[0]
    for table, frame in tables.items():
        pieces = range(frame.height) if table == faulty else [None]
        for i in pieces:
            put(tmp_path, table, frame if i is None else frame[i : i + 1], PART if i is None else f"p{i}.parquet")
    found = problems(tmp_path)
    assert line.partition("row ")[2].partition(":")[2].split(" (")[0] in found[0]
    assert found[0].startswith(f"`{faulty}/p{place}.parquet`")


def test_a_valid_log_has_no_problems(tmp_path: Path) -> None:
    put_all(tmp_path / "a", all_tables())
    assert problems(tmp_path / "a") == []
    assert notes(tmp_path / "a") == ["the log is unsealed: it has no manifest, so its files can't be verified; seal it"]
    log = write_log(tmp_path / "b", name="b", tables=all_tables())
    assert validate_log(log).problems == ()
    assert validate_log(log).notes == ()


def test_open_answers_may_be_judged_freely(tmp_path: Path) -> None:
    """Without labels an answer may be right though it is not gold, and gold may be unknown."""
    tables = whole(examples=examples(gold=[None, "yes"]), traces=traces(answer=["IV", None, "4", "yes", "no"]))
    assert problems(put_all(tmp_path, tables)) == []


def test_contested_answers_keep_their_own_verdicts(tmp_path: Path) -> None:
    tables = whole(traces=traces(correct=[True, False, False, True, False], contested=[True, False, True, None, None]))
    assert problems(put_all(tmp_path, tables)) == []


LONG = "because " * 200


@pytest.mark.parametrize("end", ["4", "5"])
def test_long_answers_are_compared_whole_and_held_by_their_hash(end: str, tmp_path: Path) -> None:
    answers = [f"{LONG}4", "5", f"{LONG}{end}", "yes", "no"]
    put_all(tmp_path, whole(traces=traces(answer=answers, correct=[True, False, False, True, False])))
    example = f"answer `{LONG[:59]}…` of example `q1`"
    line = (
        f"`traces/{PART}`, column `correct`, row 2: is false for {example}, which an earlier trace judges differently"
    )
    assert [problem.startswith(line) for problem in problems(tmp_path)] == [True] * (end == "4")
    held = pl.DataFrame({"answer": answers}).select(relations._shortened("answer")).to_series()
    assert held.str.len_bytes().max() < 100
    assert held.drop_nulls().n_unique() == (4 if end == "4" else 5)


def test_empty_labels_are_open(tmp_path: Path) -> None:
    tables = whole(examples=examples(labels=[[], []]), traces=traces(correct=[True, False, True, False, True]))
    assert problems(put_all(tmp_path, tables)) == []


def test_gaps_are_a_note(tmp_path: Path) -> None:
    put_all(tmp_path, whole(traces=traces(sample_index=[0, 3, 0, 1, 2])))
    assert problems(tmp_path) == []
    # q1: index 3 after a gap; q2: 1 and 2, since 0 is missing
    assert notes(tmp_path)[1] == (
        "sample indices have gaps in 2 of (example, pool, action, parent), first in example `q1`, pool `n`: "
        "the 3 traces after a gap are not replayed"
    )


def test_a_shard_that_is_not_what_the_manifest_says(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    write_log(folder, name="x", tables=whole())
    path = folder / "traces" / "part-00000.parquet"
    original = path.read_bytes()
    pq.write_table(pq.read_table(path), path, compression="none")
    line = "its bytes are not those that were sealed (sha256 is not the manifest's): restore it, or seal again"
    assert problems(folder) == [f"`traces/part-00000.parquet`: {line}"]
    pq.write_table(pq.read_table(path)[:3], path)
    line = "holds 3 rows, the manifest says 5: restore the file, or seal again"
    assert problems(folder) == [f"`traces/part-00000.parquet`: {line}"]
    with pytest.raises(LogError, match="holds 3 rows, the manifest says 5"):
        check_log(open_log(folder))
    path.write_bytes(original[:-100])
    assert problems(folder)[0].startswith("`traces/part-00000.parquet`: is truncated or not a Parquet file (")
    path.write_bytes(original)
    assert problems(folder) == []


def test_a_damaged_page_of_an_unsealed_log(tmp_path: Path) -> None:
    path = put_all(tmp_path, whole(traces=traces(text=["words"] * 5))) / "traces" / PART
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(traces().width)
    data = bytearray(path.read_bytes())
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    data[at : at + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    (found,) = problems(tmp_path)
    assert found.startswith(f"`traces/{PART}`, column `text`: is damaged (")
    assert found.endswith("): copy or write this shard again")


def test_an_ignored_file_is_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    write_log(folder, name="x", tables=whole())
    put(folder, "traces", traces(), "more.parquet")
    assert problems(folder) == []
    assert notes(folder)[0].startswith("`traces/more.parquet`: ignored")


def test_a_faulty_table_hides_no_other(tmp_path: Path) -> None:
    put_all(
        tmp_path,
        whole(
            traces=traces(correct=[True, None, False, True, True]),
            verifications=verifications(score=[0.5, NAN, 0.5, 0.1], trace_id=["a0", "a0", "zz", "b1"]),
        ),
    )
    found = problems(tmp_path)
    assert [line.partition(":")[0] for line in found] == [
        f"`traces/{PART}`, column `correct`, row 1",
        f"`traces/{PART}`, column `correct`, row 2",
        f"`traces/{PART}`, column `correct`, row 4",
        f"`verifications/{PART}`, column `score`, row 1",
        f"`verifications/{PART}`, column `trace_id`, row 1",
        f"`verifications/{PART}`, column `trace_id`, row 2",
    ]


def test_check_log_reads_only_what_it_is_asked(tmp_path: Path) -> None:
    put_all(tmp_path, all_tables(checks=checks(stage=["x", "y", "z"])))
    check_log(open_log(tmp_path))
    with pytest.raises(LogError, match="column `stage`"):
        check_log(open_log(tmp_path), ["examples", "checks"])
    with pytest.raises(LogError, match="a log has no table `check`: did you mean `checks`"):
        check_log(open_log(tmp_path), ["check"])


def _states(values: list[list[float | None]], size: int = 2, kind: pa.DataType | None = None) -> pa.Table:
    count = len(values)
    return pa.table(
        {
            "trace_id": ["a0"] * count,
            "layer": pa.array(range(count), pa.int64()),
            "token": pa.array([-1] * count, pa.int64()),
            "example_id": ["q1"] * count,
            "state": pa.array(values, pa.list_(kind or pa.float32(), size)),
        }
    )


def _put_states(folder: Path, table: pa.Table, file: str = PART, **options: Any) -> None:
    home = folder / "hidden_states" / "m"
    home.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, home / file, use_dictionary=options.get("dictionary", False))


def test_hidden_states(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    _put_states(tmp_path, _states([[1.0, 2.0], [3.0, 4.0]], kind=pa.float16()))
    assert problems(tmp_path) == []
    frame = open_log(tmp_path).scan("hidden_states/m").collect()
    assert frame.schema["state"] == pl.Array(pl.Float16, 2)
    assert frame.schema["layer"] == pl.Int16

    _put_states(tmp_path, _states([[1.0, 2.0], [3.0, NAN]]))
    where = f"`hidden_states/m/{PART}`, column `state`"
    assert problems(tmp_path) == [f"{where}, row 1: the state holds NaN or infinity: write finite numbers"]
    _put_states(tmp_path, _states([[1.0, 2.0], [3.0, None]]))
    assert problems(tmp_path) == [f"{where}, row 1: the state holds a null: write finite numbers"]
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), 2)):
        _put_states(tmp_path, _states([[1.0, 2.0]] * 2).set_column(4, "state", pa.nulls(2, kind)))
        assert problems(tmp_path) == [f"{where}, row 0: the state holds a null: write finite numbers"]
    _put_states(tmp_path, _states([[1.0, 2.0]] * 3), dictionary=True)
    assert problems(tmp_path) == [f"{where}: is dictionary-encoded, which makes states large and slow: write it plain"]
    _put_states(tmp_path, _states([[1.0, 2.0]] * 2).set_column(4, "state", pa.array([[1.0, 2.0], [1.0]])))  # uneven
    assert problems(tmp_path) == [
        f"{where}, row 1: `[1.0]` does not fit fixed_size_list<float32, 2> without loss: correct it or drop the column"
    ]
    _put_states(tmp_path, _states([[1.0, 2.0]] * 2).set_column(4, "state", pa.array(["a", "b"])))
    assert problems(tmp_path)[0].startswith(f"{where}, row 0: holds string, expected fixed_size_list<")
    lists = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.large_list(pa.float64()))
    _put_states(tmp_path, _states([[1.0, 2.0]] * 2).set_column(4, "state", lists))
    _put_states(
        tmp_path, _states([[5.0, 6.0]], kind=pa.float16()).set_column(1, "layer", pa.array([9])), "part-1.parquet"
    )
    assert problems(tmp_path) == []
    frame = open_log(tmp_path).scan("hidden_states/m").collect().sort("layer")
    assert frame.schema["state"] == pl.Array(pl.Float32, 2)
    assert frame["state"].to_list() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    _put_states(tmp_path, _states([[1.0, 2.0]]))
    _put_states(tmp_path, _states([[1.0, 2.0, 3.0]], 3), "part-1.parquet")
    assert problems(tmp_path) == [
        "`hidden_states/m/part-1.parquet`, column `state`, row 0: holds fixed_size_list<float32, 3>, but "
        f"`hidden_states/m/{PART}` holds fixed_size_list<float32, 2>: write it with one type"
    ]


def test_hidden_states_of_unknown_traces_and_twice(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    table = _states([[1.0, 2.0], [3.0, 4.0]])
    _put_states(tmp_path, table.set_column(0, "trace_id", pa.array(["a0", "zz"])))
    where = f"`hidden_states/m/{PART}`, column"
    assert problems(tmp_path) == [f"{where} `trace_id`, row 1: `zz` is unknown: add it to traces, or remove the row"]
    _put_states(tmp_path, table.set_column(1, "layer", pa.array([1, 1])))
    assert problems(tmp_path) == [
        f"{where} `token`, row 1: a second row of trace_id `a0`, layer `1`, token `-1`: keep one; "
        "a retry belongs into a log of its own, to be merged"
    ]


def test_nothing_is_changed_by_validating(tmp_path: Path) -> None:
    put_all(tmp_path, all_tables())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    validate_log(open_log(tmp_path))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_manifest_of_a_log_of_another_version(tmp_path: Path) -> None:
    write_log(tmp_path / "log", name="x", tables=whole())
    path = tmp_path / "log" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 7}))
    with pytest.raises(LogError, match=r"`manifest.json`: the log has version 7, this program reads up to 1"):
        open_log(tmp_path / "log")


FURTHER = {
    "list": (pl.Series([[1.0], None, [], [1.0, NAN], [2.0]]), 3, "list"),
    "list of small": (pl.Series([[1.0], [float("inf")], [], [1.0], [2.0]], dtype=pl.List(pl.Float32)), 1, "list"),
    "list of lists": (pl.Series([[[1.0]], [], [[NAN], []], [[2.0]], None]), 2, "list"),
    "array": (pl.Series([[1.0, 2.0]] * 4 + [[1.0, NAN]], dtype=pl.Array(pl.Float64, 2)), 4, "list"),
    "struct": (pl.Series([{"x": 1.0, "y": "a"}, {"x": NAN, "y": "b"}] + [{"x": None, "y": "c"}] * 3), 1, "struct"),
    "list of structs": (pl.Series([[{"x": 1.0}], [], [{"x": 2.0}, {"x": NAN}], [], None]), 2, "list"),
}


@pytest.mark.parametrize("name", FURTHER)
def test_nan_in_a_further_column(name: str, tmp_path: Path) -> None:
    column, row, where = FURTHER[name]
    tables = whole(traces=traces().with_columns(more=column))
    put_all(tmp_path / "log", tables)
    line = f"`traces/{PART}`, column `more`, row {row}: the {where} holds NaN or infinity: write finite numbers"
    assert problems(tmp_path / "log") == [line]
    for frame in (tables["traces"], tables["traces"].lazy()):
        with pytest.raises(LogError, match=rf"`traces`, column `more`, row {row}: .* holds NaN or infinity"):
            write_log(tmp_path / "new", name="x", tables=tables | {"traces": frame})
    finite = whole(traces=traces().with_columns(more=column.head(1).extend(column.head(1)).new_from_index(0, 5)))
    assert validate_log(write_log(tmp_path / "new", name="x", tables=finite)).ok


def test_a_further_column_may_be_called_state(tmp_path: Path) -> None:
    put_all(tmp_path, whole(traces=traces(state=[1.0, NAN, 1.0, 1.0, 1.0])))
    (line,) = problems(tmp_path)
    assert line.startswith(f"`traces/{PART}`, column `state`, row 1: `nan` is not a number")


def _chain(parents: dict[str, str]) -> pl.DataFrame:
    """q1's solve a0 and revisions of the given parents, after the usual traces of q2."""
    revisions = [
        traces()[2:3].with_columns(trace_id=pl.lit(name), parent_id=pl.lit(parent)) for name, parent in parents.items()
    ]
    return pl.concat([traces()[:2], traces()[3:], *revisions])


def test_parents_that_lead_back(tmp_path: Path) -> None:
    """r1 → r2 → r3 → r1; r4 hangs on the cycle but is not in it; r5 → a0 is sound."""
    tables = whole(verifications=verifications()[:0])
    parents = {"r4": "r1", "r1": "r2", "r2": "r3", "r3": "r1", "r5": "a0"}
    tables["traces"] = _chain(parents).with_columns(  # r4 and r3 share a parent
        sample_index=pl.when(pl.col("trace_id") == "r4").then(1).otherwise("sample_index")
    )
    put_all(tmp_path, tables)
    # rows 0 to 3 are a0, a1, b0 and b1, row 4 is r4
    assert problems(tmp_path) == [
        f"`traces/{PART}`, column `parent_id`, row 5: `r2` is itself a revision of `r1`: "
        "a chain of revisions must begin with a solve (3 rows in all)"
    ]
    tables["traces"] = _chain({f"r{i}": f"r{i - 1}" if i else "a0" for i in range(40)})
    put_all(tmp_path, tables)
    assert problems(tmp_path) == []


def test_an_empty_folder_is_no_valid_log(tmp_path: Path) -> None:
    (line,) = problems(tmp_path)
    assert line == f"`{tmp_path}`: holds no tables: nothing is there to validate; {UNFINISHED}"


def test_a_revision_in_rows_without_any_parent_is_the_fault_of_its_action() -> None:
    rows = traces().drop("parent_id").with_columns(action=pl.lit("revise"))
    fault = first_fault(rows, "traces")
    assert fault is not None
    assert (fault.column, fault.row) == ("action", 0)
    assert fault.message == "action `revise` needs the parent_id of the trace that it revises"
