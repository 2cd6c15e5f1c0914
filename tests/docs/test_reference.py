"""What the manual lists is what the code has: columns, keys, fields, metrics, arguments."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import polars as pl
import pytest

import replay
from generate.datasets import DATASETS
from generate.engines import ENGINES, settings_of
from generate.recipes.recipe import (
    AnswerSettings,
    DataSettings,
    EmbeddingSettings,
    EvidenceSettings,
    FewShotSettings,
    FinalizerSettings,
    _ReviseStep,
    _SampleStep,
)
from generate.recipes.toml_file import shipped_recipes
from generate.tasks import TASKS
from replay import KINDS as POLICY_KINDS
from replay import ORDERS, SELECTS
from replay.engine.signals import GATED as SIGNALS
from replay.kinds.oracle import RULES as ORACLE_RULES
from replay.policies.gates import Threshold
from replay.runs.passes.store import KEYS
from replay.sampling.known import STOPS
from toolkit.answers import JUDGES, KINDS, WAYS, normalise
from toolkit.columns import COLUMNS
from toolkit.log import SCHEMAS
from toolkit.log.contract.schema import LARGE_TEXTS
from toolkit.stopping.declared import READS
from toolkit.stopping.prefix import STATISTICS

DOCS = Path(__file__).resolve().parents[2] / "docs"
TYPES = {"String": "string", "Boolean": "bool"}
# fields of a policy that a sweep or the log sets, not a user
OWN = {"sweep", "sweep_size", "swept", "lowest_score", "positioned"}
GATE_KEYS = [field.name for field in fields(Threshold)]


def section(page: str, heading: str) -> str:
    """A page from a heading to the next one of the same or a higher level."""
    text = (DOCS / page).read_text(encoding="utf-8")
    start = re.search(rf"^(#+) {re.escape(heading)}\s*$", text, re.MULTILINE)
    assert start is not None, f"{page} has no heading {heading!r}"
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(start.group(1))}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def first_cells(text: str) -> list[str]:
    """Names in backticks in the first cells of the tables of a section."""
    cells = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def written_type(name: str, dtype: pl.DataType, nullable: bool, nullable_items: bool) -> str:
    if name in LARGE_TEXTS:
        kind = "large_string"
    elif isinstance(dtype, pl.List):
        inner = str(dtype.inner)
        kind = f"list<{TYPES.get(inner, inner.lower())}>"
    elif isinstance(dtype, pl.Array):
        kind = "fixed_size_list<float16 or float32, d>"
    else:
        kind = TYPES.get(str(dtype), str(dtype).lower())
    return f"{kind}{'?' if nullable else ''}"


@pytest.mark.parametrize("table", list(SCHEMAS))
def test_every_column_of_the_contract_is_described(table: str) -> None:
    rows = re.findall(r"^\| ([^|]*) \| ([^|]*) \|", section("log.md", f"`{table}`"), re.MULTILINE)
    described = {}
    for names, types in rows[2:]:
        columns, kinds = re.findall(r"`([^`]+)`", names), re.split(r", (?!d>)", types.replace("`", "").strip())
        kinds = kinds * len(columns) if len(kinds) == 1 else kinds
        described.update(zip(columns, kinds, strict=True))
    if table == "features":
        assert {"trace_id", "float64"} <= set(re.findall(r"`([^`]+)`", section("log.md", "`features`")))
        return
    wanted = {c.name: written_type(c.name, c.dtype, c.nullable, c.nullable_items) for c in SCHEMAS[table]}
    assert described == wanted


def test_policy_keys() -> None:
    listed = first_cells(section("policies.md", "Kind `sample`").partition("### ")[0])
    assert set(listed) == {f.name for f in fields(replay.Sample)} - OWN | {"kind"}
    oracle = first_cells(section("policies.md", "Kind `oracle`"))
    assert set(oracle) == {f.name for f in fields(replay.Oracle)} - OWN | {"kind", *ORACLE_RULES}
    retrieve = first_cells(section("policies.md", "Kind `retrieve`").partition("### ")[0])
    assert set(retrieve) == {f.name for f in fields(POLICY_KINDS["retrieve"])} - {*OWN, "negative", "explored"} | {
        "kind"
    }
    buzz = first_cells(section("policies.md", "Kind `buzz`").partition("**Partial**")[0])
    inside = {*OWN, "sees_verdicts", "logged_claims"}
    assert set(buzz) == {f.name for f in fields(POLICY_KINDS["buzz"])} - inside | {"kind"}
    kinds = {"sample", "oracle", "act", "when", "graded", "route", "retrieve", "buzz", "best buzz"}
    assert set(POLICY_KINDS) == kinds


def test_keys_of_policies_that_think_again() -> None:
    for kind in (replay.Act, replay.When, replay.Graded, replay.Route):
        listed = set(first_cells(section("policies.md", f"Kind `{kind.kind}`"))) - set(GATE_KEYS) - set(SIGNALS)
        assert listed == ({f.name.rstrip("_") for f in fields(kind)} - OWN | {"kind"}) - set(GATE_KEYS)
    assert "verifier" in first_cells(section("policies.md", "Kind `graded`"))
    assert set(first_cells(section("policies.md", "Kind `when`"))) >= set(GATE_KEYS) | set(SIGNALS)


def test_defaults_of_policy_keys() -> None:
    text = section("policies.md", "Kind `sample`").partition("### ")[0]
    written = {"none": None, "0": 0, "1": 1, "`false`": False, '`"partial"`': "partial"}
    written |= {'`"generation"`': "generation", '`"best"`': "best"}
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", text, re.MULTILINE))
    for field in fields(replay.Sample):
        if rows.get(field.name) in written:
            assert field.default == written[rows[field.name]], field.name


def test_orders_selects_and_stops() -> None:
    text = (DOCS / "policies.md").read_text(encoding="utf-8")
    assert first_cells(section("policies.md", "Select"))[: len(SELECTS)] == list(SELECTS)
    for name in (*ORDERS, *(stop for stop in STOPS if stop != "none")):
        assert f"**`{name}`**" in text
    for rule in STOPS.values():
        for field in fields(rule):  # type: ignore[arg-type]
            assert f"`{field.name}`" in text or f"{field.name} =" in text


def test_prefix_statistics() -> None:
    listed = first_cells(section("own-rules.md", "What a rule sees"))
    assert set(listed) == {*READS, "features", "examples"} >= {*STATISTICS, "features", "examples"}
    assert all(hasattr(replay.Prefix, name) or name in replay.Prefix.__dataclass_fields__ for name in listed)
    declared = section("own-rules.md", "What a rule reads").partition("- `reads")[0]
    assert all(f"`{name}`" in declared for name in READS)


def test_outcome_columns() -> None:
    listed = set(first_cells(section("policies.md", "Outcomes")))
    stored = [column for column in COLUMNS if not (column.computed or column.family)]
    assert {*KEYS, *(column.name for column in stored if column.always)} <= listed
    assert listed <= {*KEYS, *(column.name for column in stored)}


def test_metrics() -> None:
    listed = set(first_cells(section("statistics.md", "Metrics"))) - {"reduction:METRIC"}
    ends = {"f1:": "LABEL", "hit_": "K", "recall_": "K"}
    assert listed == {f"{column.metric}{ends.get(column.name, '')}" for column in COLUMNS if column.metric}
    ranking = section("statistics.md", "The ranked table").partition("that the run has")[0]
    for column in COLUMNS:
        if column.quality:
            name = "F1s" if "f1" in column.name else f"`{column.metric}{ends.get(column.name, '')}`"
            assert name in ranking
    few = section("statistics.md", "Few events")
    assert {f"`{column.metric}`" for column in COLUMNS if column.rate and not column.family} <= set(
        re.findall("`[a-z_0-9]+`", few)
    )


def test_arguments_of_run() -> None:
    rows = re.findall(r"^\| ([^|]*) \|", section("python.md", "Replay").partition("What comes back")[0], re.MULTILINE)
    listed = [name for cell in rows[1:] for name in re.findall(r"`([^`]+)`", cell)]
    assert set(listed) == set(inspect.signature(replay.run).parameters)


def test_arguments_of_a_metric() -> None:
    listed = first_cells(section("python.md", "Metrics of your own"))
    assert listed == ["Metric", *(field.name for field in fields(replay.Metric))]


def test_answers() -> None:
    assert set(first_cells(section("answers.md", "Normal forms"))) == set(KINDS)
    assert set(first_cells(section("answers.md", "Reading answers"))) == set(WAYS)
    assert set(first_cells(section("answers.md", "Judging"))) == {*JUDGES, "source"}


def test_what_each_kind_of_answer_accepts() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| `(.*)` \|$", section("answers.md", "What each kind accepts"), re.M)
    assert {kind for kind, _, _ in rows} == set(KINDS)
    labels, aliases = ["supported", "refuted", "not enough info"], {"NEI": "not enough info"}
    for kind, cell, form in rows:
        written = re.findall(r"`([^`]+)`", cell)
        found = normalise(pl.Series(written), kind, labels, aliases).to_list()
        assert dict(zip(written, found, strict=True)) == dict.fromkeys(written, form), kind


def test_mix_is_the_one_of_the_manual() -> None:
    """The hash that the manual spells out, in plain Python, gives the program's random order."""
    import hashlib

    import numpy as np

    from replay.sampling.orders import example_hashes, random_keys

    source = re.search(r"```python\n(def mix.*?)```", (DOCS / "policies.md").read_text(encoding="utf-8"), re.DOTALL)
    assert source is not None
    scope: dict = {}
    exec(source.group(1), scope)
    mix = scope["mix"]
    start = int.from_bytes(hashlib.sha256("frage-ü".encode()).digest()[:8], "big")
    wanted = [mix((mix((mix((start + 5) % 2**64) + 3) % 2**64) + i) % 2**64) for i in range(6)]
    found = random_keys(example_hashes(["frage-ü"]), seed=5, repetition=3, traces=6)
    assert found.dtype == np.uint64
    assert found[0].tolist() == wanted


def test_every_setting_of_a_recipe_is_described() -> None:
    tables = {
        "[data]": DataSettings,
        "[answers]": AnswerSettings,
        "[finalizer]": FinalizerSettings,
        "[[sample]]": _SampleStep,
    }
    tables |= {"[[revise]]": _ReviseStep}
    for heading, cls in tables.items():
        assert set(first_cells(section("recipes.md", f"`{heading}`"))) >= {field.name for field in fields(cls)}, heading
    chosen = set(first_cells(section("recipes.md", "`[few_shot]`, `[evidence]`, `[embedding]`")))
    for name, cls in (("few_shot", FewShotSettings), ("evidence", EvidenceSettings), ("embedding", EmbeddingSettings)):
        assert chosen >= {f"{name}.{field.name}" for field in fields(cls)}


def test_every_data_set_recipe_and_engine_setting_is_described() -> None:
    described = set(first_cells(section("recipes.md", "`[data]`")))
    assert described >= {"examples", *DATASETS, *TASKS}
    assert set(first_cells(section("recipes.md", "Recipes that ship"))) == set(shipped_recipes())
    assert set(ENGINES) <= set(re.findall(r"^### `(.*)`$", section("recipes.md", "`[engine]`"), re.MULTILINE))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_setting_of_an_engine_is_described(engine: str) -> None:
    pytest.importorskip("aiohttp")
    names = {field.name for field in fields(settings_of(engine))} - {"model"}
    assert set(first_cells(section("recipes.md", f"`{engine}`"))) == names
