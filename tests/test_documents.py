"""Documents are bounded before they are parsed, so that no file takes the machine's memory or time."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinkback as tb
from generate.recipes.recipe import load_recipe
from replay.policies.gate_file import load_gate
from tests.errors import refuses
from toolkit import documents
from toolkit.documents import LEVELS, parse_json, parse_toml, read_text, toml_value
from toolkit.errors import ThinkbackError
from toolkit.imports.map.mapping import read_mapping
from toolkit.log import LogError
from toolkit.log.contract.manifest import parse_manifest

READERS: list[Callable[[str], Any]] = [tb.load_policies, read_mapping, load_recipe, load_gate]


@pytest.mark.parametrize(
    "text",
    [
        "a." * 100_000 + "a = 1", f"[{'a.' * 200}a]", "a = " + "[" * 3000, "a = " + "{ a = " * 3000,
        '"a" . ' * 200 + "a = 1", "a = { " + "b." * 200 + "b = 1 }",
    ],
)  # fmt: skip
def test_a_deep_toml_is_refused_before_it_is_parsed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of 100,000 parts took 11 GB: tomllib remembers every prefix of it."""
    monkeypatch.setattr(tomllib, "loads", None)
    with refuses("limit", "`x.toml`", str(LEVELS)):
        parse_toml(text, "`x.toml`")


@pytest.mark.parametrize("text", ["[" * 101 + "]" * 101, '{"a":' * 5000 + "1" + "}" * 5000])
def test_a_deep_json_is_refused_before_it_is_parsed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "loads", None)
    with refuses("limit", "`x.json`"):
        parse_json(text, "`x.json`")


def test_what_is_as_deep_as_the_limit_is_parsed() -> None:
    assert parse_json("[" * LEVELS + "]" * LEVELS, "x") is not None
    assert parse_toml("a." * (LEVELS - 1) + "a = 1", "x")["a"]
    assert parse_toml("a = [" + "0.5, " * 300 + "]", "x")["a"] == [0.5] * 300


@pytest.mark.parametrize(("parse", "text"), [(parse_toml, "a = [{}]"), (parse_json, "[{}]")])
def test_entries_and_characters_are_counted(
    parse: Callable[[str, str], Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = text.format("1, " * 30 + "1")
    bounds = documents._TOML if parse is parse_toml else documents._JSON
    assert parse(few, "x")
    for field, most in (("entries", 20), ("characters", 50)):
        with monkeypatch.context() as patch:
            patch.setitem(bounds.__dict__, field, most)
            with refuses("limit", str(most)):
                parse(few, "x")


TEXTS = st.text(st.sampled_from("a.[]{}#'\"\\\n= "), max_size=200)


@given(TEXTS)
def test_brackets_in_texts_and_comments_are_no_levels(text: str) -> None:
    many = text + "[{" * 60
    assert parse_json(json.dumps([many, many]), "x") == [many, many]
    written = json.dumps(many, ensure_ascii=False)
    assert parse_toml(f"a = {written} # {many.splitlines()[-1]}\n", "x") == {"a": many}
    for quotes in ("'", "'''"):
        if "'" not in many and (quotes == "'''" or "\n" not in many):
            assert parse_toml(f"a = {quotes}.{many}{quotes}", "x") == {"a": f".{many}"}


@given(TEXTS)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_toml, parse_json):
        try:
            parse(text, "x")
        except ThinkbackError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_a_setting_that_is_no_toml_is_a_text() -> None:
    deep = "{ " + "a." * 200 + "a = 1 }"
    assert [toml_value(text) for text in ("3", "[1, 2]", "llama3.2", deep)] == [3, [1, 2], "llama3.2", deep]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_pipe_is_no_document(read: Callable[[str], Any], make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "x.toml")
    with pytest.raises(ThinkbackError):
        read(str(tmp_path / "x.toml"))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x.json").open("w") as file:
        file.truncate(documents.MOST_BYTES + 1)
    with refuses("limit", "`x`"):
        read_text(tmp_path / "x.json", "`x`")


def test_a_manifest_is_bounded() -> None:
    with pytest.raises(LogError, match="nested too deeply"):
        parse_manifest(b'{"a":' * 5000, "manifest.json")
    with pytest.raises(LogError, match="UTF-8"):
        parse_manifest(b"\xff", "manifest.json")


@pytest.mark.parametrize("read", [tb.open_log, tb.load, lambda path: tb.run(path, "x.toml")])
def test_the_home_of_nobody_is_no_folder(read: Callable[[str], Any]) -> None:
    with pytest.raises(ThinkbackError):
        read("~<img src=x>")
