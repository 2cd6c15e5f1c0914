"""`thinkback study factcheck`: every table and figure, and that their numbers are those of replay."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from typer.testing import Result

from replay.analyses.budgets.pool_depth import PoolDepth, pool_depth, shares_with_gold_trace, unresolved_claim_shares
from replay.analyses.budgets.wall_clock import _pools_scored_by_verifier
from replay.studies.factcheck.figures import _budget_panels
from replay.studies.factcheck.runs import (
    ADAPTIVE,
    BEST,
    SURROGATE,
    TITLES,
    FactcheckSetting,
    difference_limits_and_p,
    replay_methods,
)
from replay.studies.factcheck.study import sweep_stop_settings
from replay.studies.factcheck.tables import CALL
from replay.studies.kit.cells import cell
from tests.errors import file_notes, remarked
from tests.show.whole import assert_paper
from tests.studies.claims import rows, simulated, tables, written
from toolkit.features import CLAIM_FEATURES
from toolkit.log import collect, open_log, write_log
from toolkit.stats import Settings
from toolkit.stopping.stops import Margin

TABLES = [f"table_5_{i}" for i in range(1, 14)] + [f"table_B_{i}" for i in range(1, 5)]
FIGURES = (
    "figure_5_1", "figure_5_2", "figure_5_2_differences", "figure_B_1", "figure_B_1_differences", "calibration",
    "sensitivity_macro_f1", "sensitivity_operations",
)  # fmt: skip
Run = Callable[..., Result]


def test_a_curve_of_a_diagnostic_is_known_by_its_rows() -> None:
    columns = {"metric": "macro_f1", "k": 1, "estimate": 0.5, "low": 0.4, "high": 0.6}
    by_k = pl.DataFrame(
        [{"order": order, "diagnostic": order == "falling", **columns} for order in ("falling", "score")]
    )
    fixed = SimpleNamespace(budgets=SimpleNamespace(by_k=by_k), name="1 traces")
    study = SimpleNamespace(budgets=SimpleNamespace(pools=[fixed]), dataset="s", published_curve=lambda *given: {})
    ((_, curves),) = _budget_panels(study, {"falling": "falling", "score": "rising"})  # type: ignore[list-item]
    assert [curve.diagnostic for curve in curves] == [True, False]


def test_everything_is_written_in_every_format(claims: Path, study: Run, tmp_path: Path) -> None:
    done = study(claims, "--published", "claimdecomp", "--dev", "split = 'dev'")
    assert done.exit_code == 0, done.output
    out = tmp_path / "out"
    for name in (
        *TABLES,
        "budget_pairs",
        "budget_keys",
        "budget_smallest",
        "sensitivity_keys",
        "gold_within",
        "unresolved",
        "efficiency",
        "variants",
    ):
        for suffix in ("md", "tex", "csv"):
            assert (out / f"{name}.{suffix}").stat().st_size > 0
        assert "(simulated)" in (out / f"{name}.md").read_text()
        assert "(simulated)" in (out / f"{name}.tex").read_text()
        assert all(row["simulated"] == "true" for row in rows(out / f"{name}.csv"))
    for name in FIGURES:
        for suffix in ("pdf", "svg", "png"):
            assert (out / f"{name}.{suffix}").stat().st_size > 0
        assert "simulated log" in (out / f"{name}.svg").read_text()
    assert_paper(out)
    report = (out / "report.md").read_text()
    assert all(f"Table {number}:" in report for number in ("5.1", "5.13", "B.1", "B.4"))
    assert file_notes(out, "claims", "200")
    assert file_notes(out, "learnt", "60", "split = 'dev'")
    assert re.search(r"^- pool: `n15`, [^\n]* 15 ", report, re.MULTILINE)
    for code in ("published_cap", "published_dataset", "published_totals"):
        assert file_notes(out, code) == []  # the cap is the same, and so are data set and claims
    record = json.loads((out / "run.json").read_text())
    asked = {"study": "factcheck", "dev": "split = 'dev'", "pool": "n15", "verifier": "lora", "other_verifier": None}
    asked |= {"cap": 15, "caps": [15, 20, 30, 40], "orders": 2, "random_seed": 20, "published": "ClaimDecomp"}
    where = "split = 'test' AND NOT coalesce((split = 'dev'), false)"
    asked |= {"seed": 0, "resamples": 50, "level": 0.95, "where": where}
    assert {key: record[key] for key in asked} == asked
    assert record["log"]["sha256"] == open_log(claims).digest()
    assert len(record["features"]) == len(record["policies"]) == 5
    assert "thinkback" in record["versions"]
    names = [row["Policy"] for row in rows(out / "variants.csv")]
    assert {"prior: linear", "prior: trees", "prior: gp", "upper confidence", "conformal, alpha 0.2"} <= set(names)
    sets = [row for row in rows(out / "coverage.csv") if row["Policy"] == "conformal, alpha 0.3"]
    assert len({row["Class"] for row in sets}) == 3
    assert sum(float(row["claims"]) for row in sets) == 200
    assert all(row["threshold"] for row in sets)  # the whole pool is verified, so each class has a score to go by
    assert all(0.3 < float(row["coverage"]) / 100 <= 1 for row in sets)  # 0.7 on average; a class has few claims here


@pytest.mark.slow
@pytest.mark.usefixtures("svg_only")
def test_published_numbers_and_differences(claims: Path, study: Run, tmp_path: Path) -> None:
    assert study(claims, "--published", "claimdecomp", "--where", "split = 'test'").exit_code == 0
    quality = {row["Method"]: row for row in rows(tmp_path / "out" / "table_5_1.csv")}
    best = quality["Exhaustive BoN (baseline)"]
    assert float(best["accuracy_pct_published"]) == 42.00
    difference = float(best["accuracy_pct"]) - 42.00
    assert float(best["accuracy_pct_difference"]) == pytest.approx(difference)
    calls = {row["Method"]: row for row in rows(tmp_path / "out" / "table_5_6.csv")}
    assert float(calls[TITLES[SURROGATE]]["verifier_calls_published"]) == 1383
    assert study(claims, "--where", "split = 'test'").exit_code == 0
    assert "accuracy_pct_published" not in rows(tmp_path / "out" / "table_5_1.csv")[0]


@pytest.mark.slow
@pytest.mark.usefixtures("svg_only")
def test_numbers_are_those_of_replay(claims: Path, study: Run, tmp_path: Path) -> None:
    assert study(claims, "--where", "split = 'test'").exit_code == 0
    features = ("claim_similarity", "evidence_similarity", "claim_numeric_coverage", "evidence_numeric_grounding")
    setting = FactcheckSetting(
        "n15", "lora", (*features, "length"), options={"where": "split = 'test'", "resamples": 50}
    )
    methods = replay_methods(open_log(claims), setting)
    counts = {row["Method"]: row for row in rows(tmp_path / "out" / "table_5_3.csv")}
    adaptive = counts["Adaptive Stopping"]
    outcomes = methods.result.outcomes.collect().filter(pl.col("policy") == ADAPTIVE)
    assert float(adaptive["trace_attempts"]) == pytest.approx(outcomes["traces"].sum())
    missing = (outcomes["traces"] - outcomes["valid_traces"]).sum()
    assert float(adaptive["missing_label_traces"]) == pytest.approx(missing)
    whole = methods.result.outcomes.collect().filter(pl.col("policy") == BEST)["operations"].sum()
    change = 100 * (outcomes["operations"].sum() / whole - 1)
    assert float(adaptive["operations_change_pct"]) == pytest.approx(change)
    told = {(row["Run"], row["Method"], row["Against"]): row for row in rows(tmp_path / "out" / "paired.csv")}
    names = (TITLES[SURROGATE], TITLES[ADAPTIVE], TITLES[BEST])
    correct = {
        p: methods.result.outcomes.collect().filter(pl.col("policy") == p)["correct"]
        for p in (SURROGATE, ADAPTIVE, BEST)
    }
    for (one, first), (two, second) in (
        ((SURROGATE, names[0]), (ADAPTIVE, names[1])),
        ((ADAPTIVE, names[1]), (BEST, names[2])),
    ):
        row = told["lora, N = 15", first, second]
        difference = 100 * (correct[one] - correct[two]).mean()
        assert float(row["accuracy_difference_pp"]) == pytest.approx(difference)
        assert float(row["accuracy_difference_pp_low"]) <= difference <= float(row["accuracy_difference_pp_high"])
        assert 0 <= float(row["macro_f1_p"]) <= 1
    assert len({run for run, *_ in told}) == 2
    assert rows(tmp_path / "out" / "orders.csv")[1]["macro_f1_difference_pp"] != ""
    hours = {row["Method"]: row for row in rows(tmp_path / "out" / "table_5_5.csv")}["Adaptive Stopping"]
    seconds = (outcomes["generation_s"] + outcomes["verification_s"]).sum()
    assert float(hours["runtime_h"]) == pytest.approx(seconds / 3600)
    assert float(hours["cost_eur"]) == pytest.approx(seconds / 3600 * 0.0625)
    mine = [row for row in rows(tmp_path / "out" / "efficiency.csv") if row["Method"] == "Adaptive Stopping"]
    told = {row["Number"]: row for row in mine}
    total = told["hours, all claims"]
    assert float(total["total"]) == pytest.approx(outcomes["latency_s"].sum() / 3600)
    assert float(total["total_low"]) < float(total["total"]) < float(total["total_high"])
    each = told[f"verification_s, {CALL}"]
    calls = outcomes["verifications"].sum()
    assert float(each["mean"]) == pytest.approx(outcomes["verification_s"].sum() / calls)
    assert float(told[f"operations, {CALL}"]["mean"]) == pytest.approx(outcomes["operations"].sum() / calls)


def test_buckets_hold_all_claims_and_compare_on_the_same(claims: Path) -> None:
    setting = FactcheckSetting("n15", "lora", options={"where": "split = 'test'", "resamples": 50})
    methods = replay_methods(open_log(claims), setting)
    found, outcomes = list(methods.used_trace_buckets()), methods.result.outcomes.collect()
    for method in (ADAPTIVE, SURROGATE):
        mine = [bucket for bucket in found if bucket.policy == method]
        assert [(b.first, b.last) for b in mine] == [(1, 5), (6, 10), (11, 15)]
        used = outcomes.filter(policy=method)
        ends = [(-1, 5), (5, 10), (10, 15)]
        for column, counted in (("valid_traces", "examples"), ("traces", "attempts")):
            wanted = [sum(low < n <= high for n in used[column]) for low, high in ends]
            assert [getattr(b, counted) for b in mine] == wanted
        assert sum(b.examples for b in mine) == 200
        assert sum(b.share for b in mine) == pytest.approx(1)
        for b in mine:
            if b.part is not None:
                own, exhaustive = (cell(b.part, name, "macro_f1") for name in (method, BEST))
                difference = difference_limits_and_p(b.part.comparisons, method, BEST, "macro_f1")
                assert difference[0] == pytest.approx(own.estimate - exhaustive.estimate)


def test_gold_and_margins_against_plain_loops(claims: Path) -> None:
    log = open_log(claims)
    asked = {"where": "split = 'test'", "settings": Settings(resamples=50)}
    traces = collect(log.scan("traces", ["example_id", "sample_index", "correct", "answer", "trace_id"]), log)
    scores = dict(collect(log.scan("verifications", ["trace_id", "score"]), log).iter_rows())
    gold = shares_with_gold_trace(log, "n15", 15, **asked)
    first, lasting = [], []
    for _, claim in (
        traces.filter(pl.col("trace_id").str.contains("-test-")).sort("sample_index").group_by("example_id")
    ):
        right = [i for i, ok in enumerate(claim["correct"], 1) if ok]
        first.append(min(right, default=99))
        best: dict[str, float] = {}
        seen, lead, stopped = 0, -1.0, 99
        for i, (answer, trace) in enumerate(claim.select("answer", "trace_id").iter_rows(), 1):
            if answer is not None:
                seen += 1
                best[answer] = max(best.get(answer, 0.0), scores[trace])
            top = sorted(best.values(), reverse=True)
            if stopped == 99 and seen >= 3:
                if len(top) == 1 and seen >= 5:
                    stopped = i
                elif len(top) > 1:
                    lead = max(lead, top[0] - top[1])
                    stopped = i if top[0] - top[1] >= 0.15 - 1e-9 else 99
        lasting.append((stopped, lead))
    for k in (1, 5, 15):
        assert gold.filter(pl.col("k") == k)["share"][0] == pytest.approx(sum(f <= k for f in first) / 200)
    open_ = unresolved_claim_shares(log, "n15", "lora", 15, margin=Margin(), **asked)
    for k in (3, 15):
        assert open_.filter(pl.col("k") == k)["share"][0] == pytest.approx(sum(s > k for s, _ in lasting) / 200)
    never = [lead for stopped, lead in lasting if stopped > 15]
    assert open_.filter(pl.col("k") == 15)["largest_margin"][0] == pytest.approx(max(never))


def test_one_claim_with_a_longer_pool_changes_nothing(claims: Path, tmp_path: Path) -> None:
    """A sixteenth trace of a development claim; then 15 of 200 test claims cut to ten traces, and 30 of them."""
    log = open_log(claims)
    frames = {name: collect(log.scan(name), log) for name in ("examples", "traces", "verifications", "features")}
    traces = frames["traces"]
    one = traces.filter(pl.col("sample_index") == 14).head(1)
    extra = one.with_columns(sample_index=pl.lit(15, pl.Int32), trace_id=pl.col("trace_id") + "x")
    longer = open_log(written(tmp_path / "longer", frames | {"traces": pl.concat([traces, extra])}))
    assert pool_depth(longer, "n15", "split = 'test'") == PoolDepth(15, 15, 0, 200)
    assert pool_depth(longer, "n15") == PoolDepth(15, 16, 0, 260)
    assert shares_with_gold_trace(longer, "n15", 15, settings=Settings(resamples=5))["n"].to_list() == [260] * 15

    tests = traces.filter(pl.col("trace_id").str.contains("-test-"))["example_id"].unique().sort()
    for count, depth in ((15, PoolDepth(15, 15, 15, 200)), (30, PoolDepth(10, 15, 0, 200))):
        gone = pl.col("example_id").is_in(tests[:count].implode()) & (pl.col("sample_index") >= 10)
        kept = traces.filter(~gone)
        ids = kept["trace_id"].implode()
        cut = {n: f if n == "examples" else f.filter(pl.col("trace_id").is_in(ids)) for n, f in frames.items()}
        assert pool_depth(open_log(written(tmp_path / str(count), cut)), "n15", "split = 'test'") == depth
    remarked([PoolDepth(15, 15, 15, 200).uncovered_claims_note], "short_pools", "15", "200")


@pytest.mark.slow
@pytest.mark.usefixtures("tables_only")
def test_of_several_other_verifiers_one_has_to_be_named(study: Run, tmp_path: Path) -> None:
    frames = tables()
    strong = frames["verifications"].filter(pl.col("verifier") == "strong")
    third = strong.with_columns(verifier=pl.lit("third"))
    frames["verifications"] = pl.concat([frames["verifications"], third])
    log = written(tmp_path / "log", frames)
    assert study(log, "--verifier", "strong", "--caps", "15").exit_code == 0
    out = tmp_path / "out"
    assert file_notes(out, "several_verifiers", "`third`, `weak`", "`--other-verifier`", at=["table_5_8"])
    assert file_notes(out, "short_pools", "0 of 40", at=["gold_within"])


def test_sensitivity_has_every_combination(claims: Path) -> None:
    setting = FactcheckSetting("n15", "lora", options={"where": "split = 'test'", "resamples": 5})
    frame = sweep_stop_settings(
        open_log(claims), setting, 15, margins=(0.1, 0.3), caps=(5, 15), minima=(2, 3), bootstraps=(2,)
    ).table
    assert frame.height == 2 * 2 * 2 * 2 * 2
    assert set(frame["metric"]) == {"macro_f1", "operations"}


def test_the_grid_of_sensitivity_has_the_settings_in_use(claims: Path) -> None:
    own = Margin(0.12, 4)
    setting = FactcheckSetting("n15", "lora", cap=7, margin=own, options={"where": "split = 'test'", "resamples": 5})
    frame = sweep_stop_settings(open_log(claims), setting, 15, bootstraps=(2,)).table
    assert sorted(set(frame["cap"])) == [5, 7, 10, 15]
    assert {own.margin} < set(frame["margin"])
    assert {own.min_valid} < set(frame["min_valid"])


@pytest.mark.usefixtures("tables_only")
def test_euros_are_of_device_seconds_where_the_log_has_them(study: Run, tmp_path: Path) -> None:
    """An eighth of the latency, as in a batch of eight; the parts by a plain loop over what each method drew."""
    frames = tables()
    log = written(tmp_path / "log", frames)
    assert study(log, "--verifier", "strong", "--caps", "15").exit_code == 0
    methods = replay_methods(
        open_log(log), FactcheckSetting("n15", "strong", CLAIM_FEATURES, options={"resamples": 50})
    )
    outcomes = methods.result.outcomes.collect()
    device = {
        (example, index): seconds
        for example, index, seconds in frames["traces"].select("example_id", "sample_index", "device_s").iter_rows()
    }
    told = {row["Method"]: row for row in rows(tmp_path / "out" / "table_5_7.csv")}
    split = {row["Method"]: row for row in rows(tmp_path / "out" / "table_B_2.csv")}
    for method in (BEST, ADAPTIVE, SURROGATE):
        mine = outcomes.filter(pl.col("policy") == method)
        drawn = mine.select("example_id", "traces").iter_rows()
        generation = sum(device[example, i] for example, traces in drawn for i in range(int(traces)))
        row, price = told[TITLES[method]], 0.25 * 0.25 / 3600
        assert float(row["total_cost_eur"]) == pytest.approx(price * mine["device_s"].sum())
        verification = price * (mine["device_s"].sum() - generation)
        assert float(row["verifier_cost_eur"]) == pytest.approx(verification)
        assert float(row["verifier_cost_eur_low"]) < verification < float(row["verifier_cost_eur_high"])
        assert float(split[TITLES[method]]["generation_cost_eur"]) == pytest.approx(price * generation)
        assert float(row["total_cost_eur"]) < 0.0625 * float(row["total_h"]) / 4
    priced = {name for note in file_notes(tmp_path / "out", "price_of_device") for name in note["at"]}
    assert {"table_5_5", "table_5_7", "table_5_10", "table_5_13", "table_B_2"} <= priced
    euros = [row for row in rows(tmp_path / "out" / "efficiency.csv") if row["Number"] == "cost_eur, per 1,000 claims"]
    totals = {row["Method"]: float(row["total"]) for row in euros}
    assert totals[TITLES[ADAPTIVE]] == pytest.approx(float(told[TITLES[ADAPTIVE]]["total_cost_eur"]))


@pytest.mark.usefixtures("tables_only")
def test_the_rest_of_the_wall_clock(study: Run, tmp_path: Path) -> None:
    """One hour and a half more than all calls together: the rest of exhaustive best-of-N, priced like the others."""
    frames = tables()
    ours = frames["verifications"].filter(pl.col("verifier") == "strong")
    generation, verification = (float(t["latency_s"].cast(pl.Float64).sum()) for t in (frames["traces"], ours))
    source = {
        "pools": {"n15": {"wall_clock_s": generation + 3600}},
        "verifiers": {"strong": {"wall_clock_s": verification + 1800}},
    }
    log = write_log(tmp_path / "log", name="small", tables=frames, source=source)
    assert study(tmp_path / "log", "--verifier", "strong", "--caps", "15").exit_code == 0
    best, adaptive, _ = rows(tmp_path / "out" / "table_B_2.csv")
    assert float(best["other_h"]) == pytest.approx(1.5)
    assert float(best["other_cost_eur"]) == pytest.approx(1.5 * 0.25 * 0.25)
    assert float(best["total_h"]) == pytest.approx(1.5 + (generation + verification) / 3600)
    assert adaptive["other_h"] == adaptive["total_h"] == ""
    assert float(adaptive["generation_h"]) < float(best["generation_h"])
    claims = FactcheckSetting("n15", "strong").reported_claims(log)["example_id"]
    assert _pools_scored_by_verifier(log, "strong", claims) == ("n15",)
    assert _pools_scored_by_verifier(open_log(written(tmp_path / "both", simulated())), "strong", claims) == (
        "n15",
        "probe",
    )
