"""What a run says of scores that do not suit a policy, and of policies that it drops."""

import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import replay
from replay import Margin, Sample
from replay.kinds.sample import CLIPPED, NEGATIVE, RAW_MARGIN, _null_rows_remark
from replay.runs.passes.coverage import Coverage, undercovered_reasons
from replay.sampling.learned import NullRows
from tests.errors import quotes
from tests.logs import BEST, FIRST, GOLDS, POOL, log, tables
from tests.seeds import seeds
from toolkit.log import write_log

CUT, RAW = CLIPPED.code, RAW_MARGIN.code


def test_a_dropped_policy_names_up_to_three_reasons_the_most_frequent_first():
    """Equal numbers: in the order of their words; of four reasons the rarest is not named."""

    def why(**reasons: int) -> str:
        policies = (Sample(name="p", max_traces=2, select="majority"),)
        none = np.zeros(20, dtype=bool)
        served = Coverage(policies, none, 20, {"p": 0}, {"p": Counter(reasons)}, excluded={}, exhausted={"p": 0})
        return undercovered_reasons(served)["p"]

    quotes(why(short=1, unscored=13), " 0 of the 20 examples", "(13 examples: unscored; 1 example: short)")
    quotes(why(b=3, a=3, c=14), "(14 examples: c; 3 examples: a; 3 examples: b)")
    quotes(why(a=1, b=2, c=3, d=14), "(14 examples: d; 3 examples: c; 2 examples: b; …)")


def test_kinds_of_remarks_are_values_that_can_be_sent():
    lost = NullRows(3, 2, 10, ("length",))
    kinds = [NEGATIVE, CLIPPED, RAW_MARGIN, _null_rows_remark(lost)]
    assert pickle.loads(pickle.dumps(kinds)) == kinds
    assert _null_rows_remark(replace(lost)) == _null_rows_remark(lost) != _null_rows_remark(replace(lost, traces=4))


def test_all_reasons_of_a_dropped_policy_are_named(tmp_path):
    """Of 20 examples 13 have no scores, 3 too few traces, and 4 are whole."""
    pool = {f"e{i:02}": [("A", None if i < 13 else 0.5)] * (3 if i < 17 else 2) for i in range(20)}
    result = replay.run(log(tmp_path, {"n3": pool}, dict.fromkeys(pool, "A")), [FIRST, BEST], resamples=20)
    quotes(result.dropped["best"], " 4 of the 20 examples", "(13 examples: verifier `v` ", "; 3 examples: pool `n3` ")


def told(folder, policy):
    """Codes of the two notes on scores outside 0 to 1, where a run has them: each names the verifier and the range."""
    result = replay.run(folder, [policy], resamples=20)
    assert result.provenance["notes"] == [note.record() for note in result.notes]
    notes = [note for note in result.notes if note.code in (CUT, RAW)]
    for note in notes:
        quotes(note, "`v`", "[0, 1]", *["`margin`"] * (note.code == RAW))
    return [note.code for note in notes]


@pytest.mark.parametrize(("shift", "factor"), seeds(1, [(-1.0, 1.0), (1.0, 9.0)]))
def test_scores_outside_zero_to_one_are_noted_where_they_matter(tmp_path, shift, factor):
    """Log-probabilities (all at most 0), and grades from 1 to 10; block by block as well as at once."""
    made = tables({"n3": POOL}, GOLDS)
    inside = write_log(tmp_path / "inside", name="inside", tables=made)
    made["verifications"] = made["verifications"].with_columns(score=pl.col("score") * factor + shift)
    outside = write_log(tmp_path / "outside", name="outside", tables=made)
    three = {"max_traces": 3, "verifier": "v"}
    surrogate = {**three, "order": "surrogate"}
    for mode in ("lazy", "pool"):
        policy = Sample(name="s", mode=mode, **surrogate)
        assert (told(outside, policy), told(inside, policy)) == ([CUT], [])
    margin = Sample(name="m", stop=Margin(margin=0.5), **three)
    assert (told(outside, margin), told(inside, margin)) == ([RAW], [])
    assert told(outside, Sample(name="both", stop=Margin(), **surrogate)) == [CUT, RAW]
    assert told(outside, Sample(name="best", **three)) == []
    part = replay.When(name="w", base=margin, gate=replay.Threshold(signal="completion_tokens", below=99), then=FIRST)
    nested = replace(part, base=Sample(name="s", **surrogate))
    assert (told(outside, part), told(outside, nested), told(inside, nested)) == ([RAW], [CUT], [])


def test_rounding_beyond_one_is_not_noted(tmp_path):
    made = tables({"n3": POOL}, GOLDS)
    made["verifications"] = made["verifications"].with_columns(score=pl.lit(1.0000001))
    folder = write_log(tmp_path / "log", name="ones", tables=made)
    assert told(folder, Sample(name="s", max_traces=3, verifier="v", order="surrogate", stop=Margin())) == []
