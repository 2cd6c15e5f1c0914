"""Every shipped mapping on a few made rows of the data set's form: what lands where, hand-worked."""

from __future__ import annotations

import polars as pl
import pytest

from tests.errors import refuses
from tests.imports.makers import Bench, Row
from toolkit.imports import import_table, read_mapping, shipped_maps
from toolkit.log import Log, open_log, validate_log


def traces(log: Log, *columns: str) -> list[tuple]:
    frame = log.scan("traces").collect().sort("example_id", "pool", "sample_index")
    return frame.select(columns).rows()


def test_the_nine_are_shipped_and_read() -> None:
    assert len(shipped_maps()) == 9
    for name in shipped_maps():
        assert read_mapping(name).name == name


def test_tot_game24(bench: Bench) -> None:
    common = {"example_id": "game24-900", "question": "4 5 6 10", "gold": "24", "model": "gpt-4", "text": "…"}
    rows: list[Row] = [
        {**common, "condition": "io", "sample_index": 0, "answer": "4 + 5", "correct": 0.0, "score": None,
         "group_prompt_tokens": 10, "group_completion_tokens": 99, "group_cost_usd": 0.5},
        {**common, "condition": "io", "sample_index": 1, "answer": "(10-6)*(5-4)", "correct": 1.0, "score": None,
         "group_prompt_tokens": 10, "group_completion_tokens": 99, "group_cost_usd": 0.5},
        {**common, "condition": "tot_bfs_b5", "sample_index": 0, "answer": "4*5+10-6", "correct": 1.0, "score": 60.0,
         "group_prompt_tokens": 70, "group_completion_tokens": 7, "group_cost_usd": 0.9},
    ]  # fmt: skip
    log = bench.run(bench.rows(rows, "samples.parquet"), "tot_game24")
    assert traces(log, "pool", "sample_index", "answer", "correct", "completion_tokens") == [
        ("io", 0, "4 + 5", False, None),
        ("io", 1, "(10-6)*(5-4)", True, None),
        ("tot_bfs_b5", 0, "4*5+10-6", True, None),
    ]
    example = log.scan("examples").collect().row(0, named=True)
    assert (example["io_completion_tokens"], example["tot_completion_tokens"], example["cot_completion_tokens"]) == (
        99,
        7,
        None,
    )
    verified = log.scan("verifications").select("trace_id", "verifier", "score").collect().rows()
    assert verified == [("game24-900/tot_bfs_b5/0", "value", 60.0)]
    assert log.pools_without_prefix() == {"tot_bfs_b5"}


def test_rg_llama3b_math50(bench: Bench) -> None:
    common = {
        "example_id": "aime2024-00",
        "question": "Let $x$",
        "gold": "33",
        "model": "llama",
        "text": "…",
        "sample_index": 0,
    }
    rows: list[Row] = [
        {**common, "condition": "aime2024/rg_step400", "answer": "11/24", "correct": 0.0},
        {**common, "condition": "aime2024/rg_step800", "answer": None, "correct": 0.0},
        {**common, "condition": "aime2024/rg_step400", "sample_index": 1, "answer": "33", "correct": 1.0},
    ]
    log = bench.run(rows, "rg_llama3b_math50")
    assert log.scan("examples").select("dataset", "gold").collect().rows() == [("aime2024", "33")]
    assert traces(log, "pool", "sample_index", "answer", "correct") == [
        ("rg_step400", 0, "11/24", False),
        ("rg_step400", 1, "33", True),
        ("rg_step800", 0, None, False),
    ]


def test_qwen25_math_rm8(bench: Bench) -> None:
    common = {
        "example_id": "math100-0",
        "question": "?",
        "gold": "5,600",
        "model": "m",
        "condition": "Level 3",
        "text": "…",
    }
    rows: list[Row] = [
        {**common, "sample_index": 0, "answer": "5600", "correct": 1.0, "score": 3.5},
        {**common, "sample_index": 1, "answer": "12", "correct": 0.0, "score": -7.25},
    ]
    log = bench.run(rows, "qwen25_math_rm8")
    assert traces(log, "pool", "answer", "correct") == [("cot", "5600", True), ("cot", "12", False)]
    scores = log.scan("verifications").sort("trace_id").select("verifier", "score").collect().rows()
    assert scores == [("reward model", 3.5), ("reward model", -7.25)]
    assert log.scan("examples").select("level").collect().item() == "Level 3"


def test_gpr_quizbowl(bench: Bench) -> None:
    question = "He\u00a0wrote  this\u2028long poem "
    bench.rows([{"example_id": "q1", "question": question, "category": "Lit", "tournament": "ACF",
                 "difficulty": "College", "page": "Dante"}], "questions.parquet")  # fmt: skip
    common = {
        "example_id": "q1",
        "gold": "Dante",
        "model": "GPT",
        "source_label": None,
        "mean_logprob": -0.5,
        "min_logprob": -1.0,
    }
    rows: list[Row] = [
        {**common, "sample_index": 0, "answer": "Homer", "correct": 0.0, "score": -2.0, "completion_tokens": 1,
         "position_chars": 8, "position_frac": 0.33},
        {**common, "sample_index": 1, "answer": "Dante", "correct": 1.0, "score": -0.1, "completion_tokens": 2,
         "position_chars": 24, "position_frac": 1.0},
        {**common, "sample_index": 2, "answer": "Dante", "correct": 1.0, "score": -0.2, "completion_tokens": 2,
         "position_chars": 25, "position_frac": 1.0},
    ]  # fmt: skip
    rows[1:1] = [
        {**rows[0], "sample_index": 1, "position_chars": 13},
        {**rows[0], "sample_index": 2, "position_chars": 16},
    ]
    rows[3:] = [{**row, "sample_index": number} for number, row in enumerate(rows[3:], 3)]
    log = bench.run(bench.rows(rows, "samples.parquet"), "gpr_quizbowl")
    # "He wrote" is two words, "He wrote  thi" as well, "He wrote  this l" three; the whole, with one blank doubled and
    # one behind it, is five.
    assert traces(log, "position", "answer", "correct", "completion_tokens") == [
        (2, "Homer", False, 1),
        (2, "Homer", False, 1),
        (3, "Homer", False, 1),
        (5, "Dante", True, 2),
        (5, "Dante", True, 2),
    ]
    assert log.scan("examples").select("question", "length", "category", "human_positions").collect().rows() == [
        (question, 5, "Lit", None)
    ]
    assert validate_log(log).problems == ()
    free = log.scan("verifications").sort("trace_id").select("score", "prompt_tokens", "completion_tokens", "latency_s")
    assert free.collect().rows() == [*[(-2.0, 0, 0, 0.0)] * 3, (-0.1, 0, 0, 0.0), (-0.2, 0, 0, 0.0)]
    assert log.scan("features").select("min_logprob").collect().to_series().to_list() == [-1.0] * 5


def test_quizbowl_buzzes(bench: Bench) -> None:
    common = {"question": "He wrote this long poem", "gold": "Dante", "model": "m"}
    guesses: list[Row] = [
        {"example_id": "q1", **common, "sample_index": 0, "position": 2, "answer": "Homer", "score": 0.25},
        {"example_id": "q1", **common, "sample_index": 1, "position": 5, "answer": "dante", "score": 0.75},
        {"example_id": "q2", **common, "sample_index": 0, "position": 1, "answer": None, "score": None},
    ]
    buzzes: list[Row] = [
        {"example_id": "q1", "person": "Ann", "position": 3, "right": True},
        {"example_id": "q1", "person": "Bo", "position": 2, "right": False},
    ]
    files = [bench.rows(guesses, "guesses.jsonl"), bench.rows(buzzes, "buzzes.jsonl")]
    import_table(files, "quizbowl_buzzes", bench.folder / "log")
    log = open_log(bench.folder / "log")
    assert traces(log, "pool", "position", "answer", "correct") == [
        ("guesses", 2, "Homer", False), ("guesses", 5, "dante", True), ("guesses", 1, None, False),
    ]  # fmt: skip
    people = log.scan("examples", ["example_id", "length", "human_positions", "human_corrects"]).collect()
    assert sorted(people.rows()) == [("q1", 5, [3, 2], [True, False]), ("q2", 5, [], [])]
    assert log.scan("verifications", ["score"]).collect()["score"].sort().to_list() == [0.25, 0.75]
    assert validate_log(log).problems == ()


def test_re2_pairs(bench: Bench) -> None:
    common = {"question": "?", "text": "…", "sample_index": 0}
    gsm = {
        **common,
        "example_id": "gsm8k-0001",
        "gold": "18",
        "model": "gpt-3.5-turbo (2023)",
        "condition": "gsm8k/cot",
    }
    csqa = {
        **common,
        "example_id": "csqa-0001",
        "gold": "B",
        "model": "text-davinci-003",
        "condition": "commonsenseqa/vanilla",
    }
    rows: list[Row] = [
        {**gsm, "arm": "base", "answer": "17", "correct": 0.0},
        {**gsm, "arm": "re2", "answer": "18.0", "correct": 1.0},
        {**gsm, "arm": "re2", "answer": "17", "correct": 0.0, "sample_index": 1},
        {**csqa, "arm": "base", "answer": "B", "correct": 1.0},
        {**csqa, "arm": "re2", "answer": None, "correct": 0.0},
    ]
    log = bench.run(rows, "re2_pairs")
    assert traces(log, "example_id", "pool", "sample_index", "answer", "correct") == [
        ("csqa-0001", "davinci-003-vanilla-base", 0, "B", True),
        ("csqa-0001", "davinci-003-vanilla-re2", 0, None, False),
        ("gsm8k-0001", "gpt-3.5-cot-base", 0, "17", False),
        ("gsm8k-0001", "gpt-3.5-cot-re2", 0, "18", True),
    ]
    assert bench.report is not None
    assert bench.report.duplicates_dropped == 1
    labels = log.scan("examples").sort("example_id").select("labels").collect().to_series().to_list()
    assert labels == [["A", "B", "C", "D", "E"], None]


def test_routellm(bench: Bench) -> None:
    weak, strong = "mistralai/Mixtral-8x7B-Instruct-v0.1", "gpt-4-1106-preview"
    gsm = {"example_id": "gsm8k-0000", "question": "Ducks?", "gold": "2,125", "sample_index": 0, "condition": "gsm8k"}
    mmlu = {
        "example_id": "mmlu-anatomy-0",
        "question": "Bone?",
        "gold": None,
        "sample_index": 0,
        "condition": "mmlu/anatomy",
    }
    rows: list[Row] = [
        {**gsm, "model": weak, "answer": "2125", "correct": 1.0, "text": "so 2125"},
        {**gsm, "model": strong, "answer": "7", "correct": 0.0, "text": "so 7"},
        {**mmlu, "model": weak, "answer": None, "correct": 0.0, "text": None},
        {**mmlu, "model": strong, "answer": None, "correct": 1.0, "text": None},
    ]
    log = bench.run(rows, "routellm")
    assert traces(log, "pool", "answer", "correct", "opaque") == [
        ("gpt-4", "7", False, False),
        ("mixtral", "2125", True, False),
        ("gpt-4", "mmlu-anatomy-0/gpt-4/0", True, True),
        ("mixtral", "mmlu-anatomy-0/mixtral/0", False, True),
    ]
    kept = log.scan("examples").sort("example_id").select("dataset", "subject").collect().rows()
    assert [row[0] for row in kept] == ["gsm8k", "mmlu"]
    assert kept[1][1] == "anatomy"


def test_gsm8k_openai2021(bench: Bench) -> None:
    common = {"example_id": "gsm8k-0000", "question": "?", "gold": "5,600", "sample_index": 0, "text": "…"}
    rows: list[Row] = [
        {**common, "model": "GPT-3 6B", "condition": "finetuning", "answer": None, "correct": 0.0},
        {**common, "model": "GPT-3 6B", "condition": "verification", "answer": "5600", "correct": 1.0},
        {**common, "model": "GPT-3 175B", "condition": "finetuning", "answer": "5,600", "correct": 1.0},
    ]
    log = bench.run(rows, "gsm8k_openai2021")
    assert traces(log, "pool", "answer", "correct") == [
        ("175B-finetuning", "5600", True),
        ("6B-finetuning", None, False),
        ("6B-verification", "5600", True),
    ]
    assert log.scan("examples").select("gold").collect().item() == "5600"


def test_cruxeval_codellama7b(bench: Bench) -> None:
    common = {"model": "CodeLlama-7B (T=0.2)", "question": "def f(x): …"}
    rows: list[Row] = [
        {**common, "example_id": "cruxeval-output-0", "condition": "output", "gold": "'a'", "sample_index": 0,
         "answer": '"a"', "correct": 1.0},
        {**common, "example_id": "cruxeval-input-0", "condition": "input", "gold": "", "sample_index": 0,
         "answer": "f([1])", "correct": 1.0},
        {**common, "example_id": "cruxeval-input-0", "condition": "input", "gold": "", "sample_index": 1,
         "answer": "f()", "correct": 0.0},
    ]  # fmt: skip
    log = bench.run(rows, "cruxeval_codellama7b")
    assert traces(log, "pool", "answer", "correct") == [
        ("codellama-7b", "f([1])", True),
        ("codellama-7b", "f()", False),
        ("codellama-7b", '"a"', True),
    ]
    assert sorted(log.scan("examples").select("dataset").collect().to_series()) == ["cruxeval-input", "cruxeval-output"]


@pytest.mark.parametrize("name", ["tot_game24", "cruxeval_codellama7b"])
def test_where_only_the_source_can_judge_rejudging_is_refused(bench: Bench, name: str) -> None:
    with refuses("unsuitable", "`answers.judge`"):
        bench.run([{"x": 1}], name, rejudge=True)


def test_what_the_maps_make_is_valid(bench: Bench) -> None:
    rows: list[Row] = [
        {"example_id": "a", "condition": "output", "question": "q", "gold": "1", "model": "m", "sample_index": index,
         "answer": "1", "correct": 1.0} for index in range(3)
    ]  # fmt: skip
    log = bench.run(rows, "cruxeval_codellama7b")
    assert validate_log(log).problems == ()
    assert log.scan("traces").select(pl.len()).collect().item() == 3
