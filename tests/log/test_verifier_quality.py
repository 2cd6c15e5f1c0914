"""What verifiers are worth: rows that were worked by hand, honest choices of k, and what is missing is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.errors import quotes
from toolkit.log import Log, collect, write_log
from toolkit.log.describe import verifier_quality
from toolkit.log.describe.scored_traces import scored_traces
from toolkit.log.describe.verifier_quality import (
    BELOW_RANDOM,
    BEST,
    HONEST,
    PRIOR,
    SUFFIX,
    VOTES,
    WHOLE,
    VerifierQuality,
    _SignalQuality,
    quality_of_log,
    quality_tables,
)
from toolkit.stats import auc


def made(
    path: Path, questions: int = 120, traces: int = 4, splits: tuple[str, ...] = ("train", "test"), **columns: Any
) -> Log:
    """Answers A to C of which A is most often right; the verifier `good` knows, `bad` knows and lies."""
    rng = np.random.default_rng(0)
    size = questions * traces
    example = np.repeat(np.arange(questions), traces)
    gold = rng.choice(list("ABC"), questions, p=[0.6, 0.3, 0.1])
    answer = np.where(rng.random(size) < 0.5, gold[example], rng.choice(list("ABC"), size))
    right = answer == gold[example]
    ids = [f"q{e:03d}/{t}" for e in range(questions) for t in range(traces)]
    names = [f"q{e:03d}" for e in example]
    lists = [rng.normal([0, 0.5 * r, 1.5 * r]).tolist() for r in right]
    frame = pl.DataFrame({
        "trace_id": ids, "example_id": names, "pool": "votes", "action": "solve", "model": "m",
        "sample_index": np.tile(np.arange(traces), questions), "answer": answer, "correct": right,
        "token_logprobs": [one[::-1] for one in lists], "sum_logprob": [sum(one) for one in lists],
    }).with_columns(**columns)  # fmt: skip
    noise = rng.normal(size=size)
    scores = [
        pl.DataFrame({"trace_id": ids, "example_id": names, "verifier": verifier, "score": sign * 1.5 * right + noise})
        for verifier, sign in (("good", 1), ("bad", -1))
    ]
    examples = pl.DataFrame({
        "example_id": [f"q{e:03d}" for e in range(questions)], "dataset": "toy", "question": "?", "gold": gold,
        "split": [splits[e % len(splits)] for e in range(questions)],
    })  # fmt: skip
    return write_log(
        path, name="worth", tables={"examples": examples, "traces": frame, "verifications": pl.concat(scores)}
    )


def only(log: Log, **asked: Any) -> tuple[VerifierQuality, dict[str, _SignalQuality]]:
    [(_, worth)] = quality_of_log(log, **asked)
    return worth, {row.name: row for row in worth.signals}


def test_rows_are_of_test_traces_and_an_area_below_a_half_stays_there(tmp_path: Path) -> None:
    worth, rows = only(made(tmp_path / "log"))
    assert (worth.questions, worth.traces, worth.reference) == (60, 240, WHOLE)
    assert rows["chance"].auc.estimate == 0.5
    assert rows["chance"].best.estimate == pytest.approx(worth.right)
    assert rows["good"].auc.estimate > 0.75
    assert rows["bad"].auc.high < 0.5
    assert rows["bad"].over_random.high < 0
    assert [note.code for note in worth.notes] == [BELOW_RANDOM]
    assert "`bad` (−" in worth.notes[0].text
    assert "good" not in worth.notes[0].text
    assert rows["good"].auc_difference.difference == pytest.approx(rows["good"].auc.estimate - rows[WHOLE].auc.estimate)
    assert rows[PRIOR].auc.estimate > 0.55
    assert rows[VOTES].auc.estimate > 0.55


def test_best_of_n_takes_the_first_of_equal_scores(tmp_path: Path) -> None:
    log = made(tmp_path / "log", sum_logprob=pl.lit(-1.0))
    _, rows = only(log)
    traces = log.scan("traces").collect().join(log.scan("examples", ["example_id", "split"]).collect(), on="example_id")
    first = traces.filter((pl.col("split") == "test") & (pl.col("sample_index") == 0))
    assert rows[WHOLE].best.estimate == pytest.approx(first["correct"].mean())
    assert rows[WHOLE].auc.estimate == 0.5


def test_a_k_is_chosen_on_training_rows_and_the_best_on_these_is_marked(tmp_path: Path) -> None:
    worth, _ = only(made(tmp_path / "log"))
    remarks = {row.remark: row for row in worth.signals if "tokens" in row.name}
    assert set(remarks) == {BEST, HONEST}
    assert [row.name for row in worth.suffixes] == ["1", "2", "3"]
    best = max(worth.suffixes, key=lambda row: row.auc.estimate)
    assert BEST in best.remark
    assert sum(HONEST in row.remark for row in worth.suffixes) == 1
    assert best.auc.estimate == remarks[BEST].auc.estimate


def test_suffixes_of_ragged_lists_are_the_plain_sums(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lists = [None if i % 7 == 3 else rng.normal(size=i % 11).astype(np.float32).tolist() for i in range(60 * 8)]
    log = made(tmp_path / "log", token_logprobs=pl.Series(lists, dtype=pl.List(pl.Float32)))
    [traces] = scored_traces(log, collect(log.scan("examples"), log)["example_id"])
    own = collect(log.scan("traces"), log).sort("example_id", "sample_index")["token_logprobs"].to_list()
    assert traces.most_tokens == 10
    for k, found in traces.log_probabilities_by_suffix(range(1, 14)).items():
        plain = [np.nan if one is None else float(np.sum(np.array(one, np.float64)[::-1][:k])) for one in own]
        np.testing.assert_allclose(found, plain, atol=1e-12)
    areas = [auc(traces.suffix_log_probability(k), traces.right) for k in range(1, 11)]
    assert verifier_quality._best_k(traces) == 1 + int(np.argmax(areas))


def test_suffixes_that_pick_worse_than_chance_are_named(tmp_path: Path) -> None:
    worth, _ = only(made(tmp_path / "log"))
    below = [row.name for row in worth.suffixes if row.over_random.difference < 0]
    told = [one.text for one in worth.notes if "of the last" in one.text]
    assert len(told) == bool(below)
    turned = pl.col("token_logprobs").list.eval(-pl.element())
    worth, _ = only(made(tmp_path / "turned", token_logprobs=turned))
    assert all(row.over_random.difference < 0 for row in worth.suffixes)
    assert [one for one in worth.notes if one.code == BELOW_RANDOM and "1–3 tokens" in one.text]
    [_, table] = quality_tables(worth, "test")
    assert "Δ random" in table.markdown()


def test_without_training_rows_prior_and_honest_k_are_dashes_with_the_reason(tmp_path: Path) -> None:
    worth, rows = only(made(tmp_path / "log", splits=("test",)))
    assert rows[PRIOR].auc.estimate is None
    reason = rows[PRIOR].remark
    quotes(reason, "`train`")
    assert rows[SUFFIX.format("k")].remark == f"k: {reason}"
    assert reason in quality_tables(worth, "all")[0].terminal(200)
    all_trained, rows = only(made(tmp_path / "all", splits=("train",)))
    assert rows[PRIOR].remark not in ("", reason)
    assert all_trained.traces == 480


def test_what_is_not_logged_is_said(tmp_path: Path) -> None:
    nothing = {"sum_logprob": pl.lit(None, pl.Float32), "token_logprobs": pl.lit(None, pl.List(pl.Float32))}
    worth, rows = only(made(tmp_path / "log", traces=1, **nothing))
    assert worth.suffixes == ()
    assert worth.reference is None
    assert "not logged" in rows[WHOLE].remark
    assert rows["good"].within.estimate is None
    assert rows["good"].over_random is None
    assert rows["good"].auc.estimate > 0.7


def test_scores_out_of_fold_are_said_and_have_wider_intervals(tmp_path: Path) -> None:
    log = made(tmp_path / "plain", splits=("train",))
    tables = {table: log.scan(table).collect() for table in log.shards}
    tables["verifications"] = tables["verifications"].with_columns(fold=pl.lit(1, pl.Int32))
    folded = write_log(tmp_path / "folded", name="worth", tables=tables)
    (_, plain), (_, wide) = only(log), only(folded)
    quotes(wide["good"].remark, "100%", "fold")
    for name in ("auc", "within", "best"):
        own, other = (getattr(found["good"], name) for found in (wide, plain))
        assert own.high - own.low > 1.3 * (other.high - other.low)


def test_a_reference_may_be_named_and_all_tables_can_be_written(tmp_path: Path) -> None:
    worth, rows = only(made(tmp_path / "log"), reference="good")
    assert rows["good"].auc_difference is None
    assert rows["bad"].auc_difference.high < 0
    main, suffixes = quality_tables(worth, "all")
    for table in (main, suffixes):
        assert table.markdown()
        assert table.latex()
        assert table.csv()
    quotes(main.terminal(200), "of `good`")


def test_what_is_beyond_the_most_traces_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.log.describe.scored_traces.MOST_TRACES", 100)
    [(which, worth)] = quality_of_log(made(tmp_path / "log"))
    assert (worth.questions, worth.left_out) == (25, 35)
    quotes(quality_tables(worth, which)[0].terminal(200), "split `test`", "35 more")


def test_a_verifier_that_keeps_more_tokens_tells_the_suffixes(tmp_path: Path) -> None:
    log = made(tmp_path / "log")
    tables = {table: log.scan(table).collect() for table in log.shards}
    long = pl.concat_list(pl.lit(-1.0, pl.Float32), pl.lit(-2.0, pl.Float32), *[pl.col("score").cast(pl.Float32)] * 3)
    told = pl.when(pl.col("verifier") == "good").then(long)
    tables["verifications"] = tables["verifications"].with_columns(token_logprobs=told)
    [(_, worth)] = quality_of_log(write_log(tmp_path / "longer", name="worth", tables=tables))
    assert worth.teller == "good"
    assert [row.name for row in worth.suffixes] == ["1", "2", "3", "4", "5"]
    good = next(row for row in worth.signals if row.name == "good")
    assert worth.suffixes[0].auc.estimate == pytest.approx(good.auc.estimate, abs=1e-6)
    quotes(quality_tables(worth, "all")[1].terminal(200), "verifier `good`")
