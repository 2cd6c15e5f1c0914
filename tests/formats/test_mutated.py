"""Damaged files of every format become a log or one line, whatever was done to them."""

from __future__ import annotations

import copy
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.formats.published import NAMES, published, settings
from toolkit.errors import ThinkbackError
from toolkit.imports import import_format

ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2**70, 10**400, 1e308, float("nan"), float("inf"), "", "x", "é\ud800", "9" * 400, [], [[]],
    [None], {}, {"": None}, {"a": [1, "b"]},
)  # fmt: skip


def bytes_changed(content: bytes, random: random.Random) -> bytes:
    """Cut off, doubled, or with some bytes that are others."""
    kind = random.randrange(4)
    place = random.randrange(len(content) + 1)
    if kind == 0:
        return content[:place]
    if kind == 1:
        return content + content[place:]
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 5, 50))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in [(value, key), *places(inner)]]


def field_absent(content: bytes, random: random.Random) -> bytes:
    """JSON in which a field is missing wherever it was, as an optional one is."""
    try:
        rows, joint = [json.loads(line) for line in content.splitlines()], "\n"
    except ValueError:
        rows, joint = [json.loads(content)], ""
    objects = [container for container, _ in places(rows) if isinstance(container, dict)]
    name = random.choice(sorted({key for one in objects for key in one}))
    for one in objects:
        one.pop(name, None)
    return joint.join(json.dumps(row) for row in rows).encode()


def value_changed(content: bytes, random: random.Random) -> bytes:
    """JSON in which a value is another, or is missing."""
    try:
        rows = [json.loads(line) for line in content.splitlines()]
        joint = "\n"
    except ValueError:
        rows, joint = [json.loads(content)], ""
    for _ in range(random.choice((1, 1, 2, 4))):
        container, key = random.choice(places(rows))
        if random.random() < 0.3 and isinstance(container, dict):
            container.pop(key, None)
        elif isinstance(container, list) and random.random() < 0.3:
            container.append(copy.deepcopy(random.choice(ODD)))
        elif (key in container) if isinstance(container, dict) else key < len(container):
            container[key] = copy.deepcopy(random.choice(ODD))
    return joint.join(json.dumps(row) for row in rows).encode()


def mutated(name: str, folder: Path, seed: int, absent: bool = False) -> list[str]:
    """The samples of a format with one file damaged; with `absent`, all of its rows lack a field."""
    drawn = random.Random(f"{name} {seed}")
    files = sorted(file for file in published(name, folder).rglob("*.*") if file.is_file())
    file = drawn.choice(files)
    text = file.suffix in (".json", ".jsonl") and (absent or drawn.random() < 0.7)
    change = (field_absent if absent else value_changed) if text else bytes_changed
    file.write_bytes(change(file.read_bytes(), drawn))
    return [str(folder / name)]


def check(name: str, folder: Path, seed: int, absent: bool = False) -> bool:
    """Whether it became a log; if not, it was one line and left nothing."""
    line, sources = None, mutated(name, folder, seed, absent)
    try:
        import_format("auto" if seed % 4 == 0 else name, sources, folder / "log", settings=settings(name))
    except ThinkbackError as error:
        line = str(error)
    if line is not None:
        assert 0 < len(line) < 2000, (name, seed)
        assert "\n" not in line, (name, seed)
        assert not (folder / "log").exists(), (name, seed)
    shutil.rmtree(folder)
    return line is None


def test_damaged_files_become_a_log_or_one_line(tmp_path: Path) -> None:
    for name in NAMES:
        check(name, tmp_path / "one", 1)


def test_so_do_files_without_a_field(tmp_path: Path) -> None:
    for name in NAMES:
        check(name, tmp_path / "one", 1, absent=True)


@pytest.mark.slow
def test_files_without_any_of_their_fields_do(tmp_path: Path) -> None:
    made = [check(name, tmp_path / "one", seed, absent=True) for seed in range(2, 32) for name in NAMES]
    assert 0 < sum(made) < len(made)


@pytest.mark.slow
def test_two_thousand_damaged_files_do(tmp_path: Path) -> None:
    made = [check(name, tmp_path / "one", seed) for seed in range(2, 187) for name in NAMES]
    assert len(made) > 2000
    assert 0 < sum(made) < len(made)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_says_so_and_ends_with_2(name: str, tmp_path: Path) -> None:
    from thinkback.app import app

    folder = published(name, tmp_path)
    for file in sorted(folder.rglob("*.*")):
        if file.is_file():
            file.write_bytes(b"{" + file.read_bytes()[:40])
    done = CliRunner().invoke(app, ["import", name, str(folder), "--out", str(tmp_path / "log")])
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "log").exists()
