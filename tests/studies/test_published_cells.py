"""Every published number that a table of a study shows is traced to its place in the source: by (table, row, column),
read here from the transcription itself. And every number of the source that a table is to show is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from generate.simulation.claims import simulate_claims
from generate.simulation.planted import simulate_planted
from generate.simulation.recovery import RecoveryModel, _recovery_tables
from tests.logs import log_tables
from tests.studies.claims import rows
from thinkback.app import app
from toolkit.log import write_log

ROOT = Path(__file__).resolve().parents[2] / "replay" / "studies" / "data"
THESIS, SEVRA, LILAVE = "adaptive_stopping", "sevra", "lilave"

pytestmark = pytest.mark.usefixtures("svg_only")


@dataclass(frozen=True)
class Place:
    """Where a number stands in a work."""

    table: str
    row: int
    column: str


class Source:
    """A work's tables as they were transcribed."""

    def __init__(self, work: str):
        text = (ROOT / f"{work}.json").read_text(encoding="utf-8")
        self.tables: dict[str, dict[str, Any]] = {table["id"]: table for table in json.loads(text)["tables"]}

    def number(self, place: Place) -> float | None:
        """The number there; None where the work has none."""
        table = self.tables[place.table]
        return table["rows"][place.row][table["columns"].index(place.column)]

    def find(self, table: str, keys: Mapping[str, object], column: str) -> Place | None:
        """The place in the one row in which these columns have these values; None where there is no such row."""
        told = self.tables[table]
        at = [told["columns"].index(key) for key in keys]
        found = [
            place
            for place, row in enumerate(told["rows"])
            if all(row[i] == value for i, value in zip(at, keys.values(), strict=True))
        ]
        assert len(found) <= 1, (table, keys)
        return Place(table, found[0], column) if found else None

    def known(self, table: str, columns: list[str], **keys: object) -> set[Place]:
        """The places of all numbers in some columns of the rows in which these columns have these values."""
        told = self.tables[table]
        at = {told["columns"].index(key): value for key, value in keys.items()}
        wanted = [p for p, row in enumerate(told["rows"]) if all(row[i] == value for i, value in at.items())]
        places = {Place(table, place, column) for place in wanted for column in columns}
        return {place for place in places if self.number(place) is not None}


def run(*words: object) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output


def checked(source: Source, shown: str, place: Place | None, where: str) -> Iterator[Place]:
    """Compares one cell with the source, and gives the place of a number that is shown."""
    expected = None if place is None else source.number(place)
    assert (None if shown == "" else float(shown)) == expected, f"{where}: {shown!r}, and the source has {expected}"
    if place is not None and expected is not None:
        yield place


# ---- fact checking ----

METHODS = {
    "Top-1 decoding": "top-1",
    "Self-consistency": "self-consistency",
    "Exhaustive BoN (baseline)": "exhaustive best-of-n",
    "Adaptive Stopping": "adaptive stopping",
    "Surrogate-Guided Selective Verification": "surrogate-guided",
}
BY_METHOD = ("5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "B.2")
ABLATION, BY_CAP = ("5.8", "5.9", "5.10"), ("5.11", "5.12", "5.13")
NAMES = {"quantemp": "QuanTemp", "claimdecomp": "ClaimDecomp"}
POOLS = {"QuanTemp": ("QuanTemp test", "QuanTemp validation"), "ClaimDecomp": ("ClaimDecomp test",)}
"""Of table B.4: a pool of 50 traces holds the one of 15, and the validation run has one of its own."""
HEADS = ("dataset", "method", "max_traces", "traces_from", "traces_to", "pool", "pool_traces", "k")


def row_keys(table: str, name: str, row: dict[str, str]) -> dict[str, object]:
    """Which row of the thesis's table a row of ours stands beside."""
    if table in BY_METHOD:
        return {"dataset": name, "method": METHODS[row["Method"]]}
    if table in ABLATION:
        return {"method": METHODS[row["Method"]]}
    if table in BY_CAP:
        return {"max_traces": int(float(row["Max traces"])), "method": METHODS[row["Method"]]}
    if table == "B.1":
        first, last = row["Valid traces"].split("–")
        return {"dataset": name, "method": METHODS[row["Method"]], "traces_from": int(first), "traces_to": int(last)}
    if table == "B.3":
        return {"dataset": name}
    split, _, traces = row["Candidate pool"].rpartition(", ")
    size = int(traces.removesuffix(" traces"))
    return {"pool": f"{name} {split or 'test'}", "pool_traces": size, "k": int(float(row["k"]))}


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["quantemp", "claimdecomp"])
def test_every_published_number_of_fact_checking(tmp_path: Path, dataset: str) -> None:
    simulate_claims(tmp_path / "log", dataset, traces=50)
    where = "split = 'test' and example_id like '%77'"
    words = ("--published", dataset, "--where", where, "--resamples", 20, "--orders", 1)
    run("study", "factcheck", tmp_path / "log", *words, "--out", tmp_path / "out")
    source, name = Source(THESIS), NAMES[dataset]
    tables = [*BY_METHOD, "B.1", "B.3", "B.4", *((*ABLATION, *BY_CAP) if dataset == "quantemp" else ())]
    for table in tables:
        found: set[Place] = set()
        columns = [column for column in source.tables[table]["columns"] if column not in HEADS]
        for row in rows(tmp_path / "out" / f"table_{table.replace('.', '_')}.csv"):
            keys = row_keys(table, name, row)
            for column in columns:
                place = source.find(table, keys, column)
                shown = row.get(f"{column}_published", "")
                found |= set(checked(source, shown, place, f"table {table}, {keys}, {column}"))
                if row.get(f"{column}_difference", "") != "":
                    assert float(row[f"{column}_difference"]) == pytest.approx(float(row[column]) - float(shown))
            assert {key for key in row if key.endswith("_published")} <= {f"{column}_published" for column in columns}
        of = {"dataset": name} if "dataset" in source.tables[table]["columns"] else {}
        known = source.known(table, columns, **of)
        if table == "B.4":
            known = set().union(*(source.known(table, columns, pool=pool) for pool in POOLS[name]))
        assert found == known, f"table {table}"


@pytest.mark.slow
def test_what_is_published_of_one_data_set_alone_stands_beside_no_other(tmp_path: Path) -> None:
    simulate_claims(tmp_path / "log", "claimdecomp", traces=20)
    words = ("--published", "claimdecomp", "--where", "example_id like '%7'", "--resamples", 20, "--orders", 1)
    run("study", "factcheck", tmp_path / "log", *words, "--caps", "15,20", "--out", tmp_path / "out")
    for table in (*ABLATION, *BY_CAP):
        for row in rows(tmp_path / "out" / f"table_{table.replace('.', '_')}.csv"):
            assert not any(key.endswith("_published") for key in row), table


# ---- thinking again ----

POLICIES = {
    "base: short": "base 4096", "budget: mid": "base 6144", "budget: long": "base 8192",
    "always active_verify": "always verify", "selective active_verify": "selective verify",
    "always continue": "always continue", "selective continue": "selective continue",
    "self-consistency@5: votes": "self-consistency at 5",
}  # fmt: skip
"""What the paper calls our policies."""
RULES = {
    "MATH500": {
        "always active_verify": "always verify", "selective active_verify": "cheap features",
        "difficulty": "difficulty", "verification need": "verification need",
        "matched-rate oracle": "oracle at matched rate",
    },
    "CommonsenseQA": {
        "always active_verify": "always verify",
        "expected-action oracle: votes": "expected-action oracle, self-consistency samples",
        "sampled-rollout oracle: votes": "sampled-rollout oracle, self-consistency samples",
    },
}  # fmt: skip
VERIFIED_ALONE = "expected-action oracle, verify"
"""The paper's oracle of CommonsenseQA chooses between the base attempt and its verification alone."""
ACTIONS = {
    "accept": "accept", "continue": "continue", "active_verify": "active verify",
    "critique_and_repair": "critique and repair",
}  # fmt: skip
BUDGETS = {"base: short": 4096, "budget: mid": 6144, "budget: long": 8192}
COMPARED = {
    ("selective active_verify", "always active_verify", "accuracy, points"):
        "accuracy, selective verify minus always verify",
    ("selective active_verify", "always active_verify", "flips, points"): "flips, selective verify minus always verify",
    ("selective active_verify", "always active_verify", "action tokens saved %"):
        "action tokens saved, selective verify against always verify",
    ("selective active_verify", "budget: long", "accuracy, points"): "accuracy, selective verify minus base 8192",
    ("selective active_verify", "budget: long", "total tokens"): "total tokens, selective verify minus base 8192",
    ("budget: long", "base: short", "accuracy, points"): "accuracy, base 8192 minus base 4096",
}  # fmt: skip
SAVED = {
    "selective active_verify in place of always active_verify": "selective verify against always verify",
    "budget: long in place of selective active_verify": "base 8192 against selective verify",
}
STATES = {
    "base: short": "base", "always active_verify": "always_verify", "selective active_verify": "selective_verify",
    "always continue": "always_continue",
}  # fmt: skip
Cells = dict[str, tuple[str, dict[str, object], str]]
"""Our column -> (table, which row, which column) of the paper."""


def cells_of(file: str, row: dict[str, str], verified_alone: bool) -> Cells:
    """Where the published cells of one of our rows come from; those without an entry are to be empty."""
    dataset = row.get("dataset", "")
    of: dict[str, object] = {"dataset": dataset}
    if file == "budget_matched" and row["policy"] in POLICIES:
        keys = of | {"policy": POLICIES[row["policy"]]}
        named = (("accuracy_pct", "accuracy_pct"), ("tokens", "total_tokens"), ("flips", "flips_pct"))
        return {f"published_{ours}": ("2", keys, theirs) for ours, theirs in named}
    if file == "prices" and row["policy"] in POLICIES:
        keys = of | {"policy": POLICIES[row["policy"]]}
        named = (("per_1000_at_0.5", "usd_per_1000_requests"), ("relative", "relative_cost"))
        return {f"published_{ours}": ("28", keys, theirs) for ours, theirs in named}
    if file == "paired" and (row["policy"], row["baseline"], row["metric"]) in COMPARED:
        keys = of | {"comparison": COMPARED[row["policy"], row["baseline"], row["metric"]]}
        named = (("", "difference"), ("_low", "ci95_low"), ("_high", "ci95_high"), ("_p", "p"))
        return {f"published{ours}": ("10", keys, theirs) for ours, theirs in named}
    if file == "subgroups" and row["policy"] in STATES:
        keys = of | {"attempt_state": row["state"]}
        return {"published_accuracy_pct": ("11", keys, f"{STATES[row['policy']]}_accuracy_pct")}
    cheap = file == "gates" and (row["action"], row["gate"]) == ("active_verify", "cheap features")
    if cheap and dataset in ("MATH500", "GSM8K"):
        keys = {"gate": "cheap features"}
        return {
            f"published_{column}": ("3", keys, f"{dataset.lower()}_{column}")
            for column in ("accuracy_pct", "verify_pct")
        }
    if file == "screening" and row["action"] in ACTIONS:
        keys = {"action": ACTIONS[row["action"]]}
        named = (("accuracy_pct", "final_accuracy_pct"), ("fix_pct", "fix_pct"), ("flip_pct", "flip_pct"),
                 ("tokens", "action_tokens"))  # fmt: skip
        return {f"published_{ours}": ("4", keys, theirs) for ours, theirs in named}
    if file == "budgets" and dataset == "MATH500":
        keys = {"initial_budget_tokens": BUDGETS[row["policy"]]}
        named = (("accuracy_pct", "accuracy_pct"), ("tokens", "total_tokens"), ("truncation_pct", "truncation_pct"))
        return {f"published_{ours}": ("20", keys, theirs) for ours, theirs in named}
    if file == "per_1000_requests" and row["comparison"] in SAVED:
        keys = of | {"comparison": SAVED[row["comparison"]]}
        kind = "action" if row["comparison"].startswith("selective") else "total"
        return {
            "published_calls_avoided": ("21", keys, "verification_calls_avoided"),
            f"published_{kind}_tokens_saved": ("21", keys | {"tokens_kind": f"{kind} tokens"}, "tokens_saved"),
            "published_flips_avoided": ("21", keys, "flips_avoided"),
        }
    if file == "rules_and_headroom":
        ours = row["rule"].split(" at rate ")[0]
        rule = RULES.get(dataset, {}).get(ours)
        if dataset == "CommonsenseQA" and ours == "expected-action oracle" and verified_alone:
            rule = VERIFIED_ALONE
        if rule is not None and dataset == "MATH500":
            columns = ("accuracy_pct", "verify_pct", "flips_pct")
            return {f"published_{column}": ("12", {"rule": rule}, column) for column in columns}
        if rule is not None:
            return {f"published_{column}": ("22", {"policy": rule}, column) for column in ("accuracy_pct", "flips_pct")}
    return {}


def traced(out: Path, verified_alone: bool) -> set[Place]:
    """Every published cell of every table of the study, compared with the paper."""
    source, found = Source(SEVRA), set()
    for file in sorted(out.glob("*.csv")):
        for row in rows(file):
            cells = cells_of(file.stem, row, verified_alone)
            for column in [key for key in row if key.startswith("published")]:
                table, keys, theirs = cells.get(column, ("", {}, ""))
                place = source.find(table, keys, theirs) if table else None
                if place is None or not lone_limit(source, place):
                    found |= set(checked(source, row[column], place, f"{file.name}, {row}, {column}"))
                else:
                    assert row[column] == ""
    return found


def lone_limit(source: Source, place: Place) -> bool:
    """Whether it is a limit of a difference that the transcription lost: no cell shows a limit alone."""
    limit = place.table == "10" and place.column.startswith("ci95")
    return limit and source.number(Place("10", place.row, "difference")) is None


def paper_log(folder: Path, verified_alone: bool) -> Path:
    """Base attempts of 4,096 tokens on MATH to fit on, and on the paper's three data sets to report. With every action
    also a budget of 6,144 tokens, or with verification alone none between 4,096 and 8,192.
    """
    tables = _recovery_tables(600, 11, RecoveryModel(votes=5))
    number = pl.int_range(pl.len()) % 3
    reported = pl.when(number == 0).then(pl.lit("MATH500")).when(number == 1).then(pl.lit("GSM8K"))
    named = (
        pl.when(pl.col("split") != "test").then(pl.lit("MATH")).otherwise(reported.otherwise(pl.lit("CommonsenseQA")))
    )
    traces = tables["traces"].with_columns(pl.col("action").replace("self_correct", "critique_and_repair"))
    if verified_alone:
        traces = traces.filter(pl.col("action").is_in(["solve", "active_verify"]))
    else:
        mid = traces.filter(pool="long").with_columns(
            pool=pl.lit("mid"), max_tokens=pl.lit(6_144, pl.Int32), trace_id=pl.col("trace_id") + "/mid"
        )
        traces = pl.concat([traces, mid])
    given = tables | {"examples": tables["examples"].with_columns(dataset=named), "traces": traces}
    write_log(folder, name="the paper's data sets", tables=given, simulated=True)
    return folder


SEVRA_NAMES = "MATH500,GSM8K,CommonsenseQA,MATH"


def studied(folder: Path, verified_alone: bool, where: str = "split = 'test'") -> set[Place]:
    log = paper_log(folder / "log", verified_alone)
    words = ("--action", "active_verify", "--where", where, "--resamples", 20, "--published", SEVRA_NAMES)
    run("study", "recovery", log, *words, "--out", folder / "out")
    return traced(folder / "out", verified_alone)


def test_every_published_number_of_one_data_set(tmp_path: Path) -> None:
    found = studied(tmp_path, True, "split = 'test' and dataset = 'GSM8K'")
    assert {place.table for place in found} == {"2", "3", "4", "10", "11", "21", "28"}
    source = Source(SEVRA)
    assert source.known("2", ["accuracy_pct", "total_tokens", "flips_pct"], dataset="GSM8K") <= found
    assert source.known("10", ["difference", "p"], dataset="GSM8K") <= found


@pytest.mark.slow
def test_every_published_number_of_thinking_again(tmp_path: Path) -> None:
    """Of a log with every action, and of one with verification alone: together, every number of the paper's tables but
    those of policies that no log here has (learned gates, completion risk), and those that other tables show.
    """
    found = studied(tmp_path / "every", False) | studied(tmp_path / "alone", True)
    source = Source(SEVRA)
    shown = {
        "2": ["accuracy_pct", "total_tokens", "flips_pct"],
        "3": [f"{name}_{what}_pct" for name in ("math500", "gsm8k") for what in ("accuracy", "verify")],
        "4": ["final_accuracy_pct", "fix_pct", "flip_pct", "action_tokens"],
        "10": ["difference", "ci95_low", "ci95_high", "p"],
        "11": [f"{name}_accuracy_pct" for name in STATES.values()],
        "12": ["accuracy_pct", "verify_pct", "flips_pct"],
        "20": ["accuracy_pct", "total_tokens", "truncation_pct"],
        "21": ["verification_calls_avoided", "tokens_saved", "flips_avoided"],
        "22": ["accuracy_pct", "flips_pct"],
        "28": ["usd_per_1000_requests", "relative_cost"],
    }
    elsewhere = {
        "2": {"oracle over self-consistency samples"},
        "3": {"0.6B classifier", "1.7B classifier"},
        "12": {"completion risk", "0.6B classifier", "1.7B classifier"},
        "22": {"accept", "self-consistency at 5"},
        "28": {"completion risk, then verify"},
    }
    for table, columns in shown.items():
        names = [set(map(str, row)) for row in source.tables[table]["rows"]]
        known = {place for place in source.known(table, columns) if not lone_limit(source, place)}
        wanted = {place for place in known if not names[place.row] & elsewhere.get(table, set())}
        assert {place for place in found if place.table == table} == wanted, f"table {table}"
    assert {place.table for place in found} == set(shown)


# ---- latent verifiers ----

BENCHMARKS = ("GSM8K", "GSM-Symbolic", "GSM-Symbolic-p2", "algebra_linear_1d", "MATH500")
TRAINED_ON = {"MATH500": "MATH"}


@pytest.mark.slow
def test_every_published_number_of_latent_verifiers(tmp_path: Path) -> None:
    drawn = simulate_planted(tmp_path / "drawn", examples=100, traces=2, seed=1)
    tables = log_tables(drawn)
    names = pl.Series("dataset", [BENCHMARKS[number // 2 % 5] for number in range(100)])
    log = write_log(tmp_path / "log", name="log", tables=tables | {"examples": tables["examples"].with_columns(names)})
    words = ("--verifier", "projection", "--published", ",".join(BENCHMARKS), "--without-ablations", "--resamples", 20)
    run("study", "latent", log.address, *words, "--out", tmp_path / "out")
    source = Source(LILAVE)
    for table in ("1", "2", "3", "4"):
        key = "trained_on" if table == "4" else "benchmark"
        columns = [column for column in source.tables[table]["columns"] if column != key]
        found: set[Place] = set()
        for row in rows(tmp_path / "out" / f"table_{table}.csv"):
            name = TRAINED_ON.get(row["dataset"], row["dataset"]) if table == "4" else row["dataset"]
            assert {one for one in row if one.endswith("_published")} <= {f"{column}_published" for column in columns}
            for column in columns:
                place = source.find(table, {key: name}, column)
                found |= set(checked(source, row[f"{column}_published"], place, f"table {table}, {name}, {column}"))
        assert found == source.known(table, columns), f"table {table}"
