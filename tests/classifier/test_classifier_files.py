"""Files of a classifier's folder that were changed by hand: refused in one line before a library reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generate.engines.weights import ModelFiles
from generate.signals.sequence_classifier import (
    ADAPTER,
    SETTINGS_FILE,
    SequenceClassifier,
    open_classifier,
    read_adapter,
    read_classifier,
)
from tests.errors import refuses
from toolkit.errors import ThinkbackError

SHIPPED = Path(__file__).resolve().parents[2] / "data" / "models" / "algebra-verifier"
STEP = SequenceClassifier(name="own", model="own")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(SHIPPED, tmp_path / "own")
    return tmp_path / "own"


def change(path: Path, **changed: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def test_a_shipped_classifier_is_read(folder: Path, tmp_path: Path) -> None:
    read = read_classifier(folder)
    assert read is not None
    assert (read.base, read.seed) == ("algebra-reader", 0)
    assert read_adapter(folder).r == 8
    assert read_classifier(tmp_path) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": 5}, {"prompt": ["x"]}, {"base_weights_sha256": 5}, {"seed": "x"}, {"settings": []}, {"trained": 5},
        {"versions": {"python": 3}}, {"base": None},
    ],
)  # fmt: skip
def test_a_changed_classifier_file_is_refused(changed: dict[str, Any], folder: Path) -> None:
    change(folder / SETTINGS_FILE, **changed)
    with pytest.raises(ThinkbackError) as error:
        read_classifier(folder)
    assert str(error.value).startswith(f"`{folder / SETTINGS_FILE}`: ")


@pytest.mark.parametrize("text", ["5", "[]", "[[1, 2]]", "{", "[" * 5000, "null", '"x"'])
@pytest.mark.parametrize("read", [read_classifier, lambda folder: open_classifier(str(folder), STEP, None, "`own`")])
def test_what_is_no_object_is_refused(text: str, read: Callable[[Path], Any], folder: Path) -> None:
    for name in (SETTINGS_FILE, ADAPTER):
        (folder / name).write_text(text)
    with pytest.raises(ThinkbackError) as error:
        read(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"r": 10**9}, {"r": "8"}, {"r": None}, {"rank_pattern": {"q_proj": 10**9}}, {"rank_pattern": []},
        {"layer_replication": [[0, 10**6]]}, {"peft_type": None}, {"base_model_name_or_path": 5},
    ],
)  # fmt: skip
def test_an_adapter_that_would_take_the_memory_is_refused(changed: dict[str, Any], folder: Path) -> None:
    pytest.importorskip("peft", reason="the extra `lora` is not installed")
    change(folder / ADAPTER, **changed)
    with refuses("invalid", f"`{folder / ADAPTER}`: ", next(iter(changed))):
        open_classifier(str(folder), STEP, None, "`own`")


@pytest.mark.parametrize(("ends", "expected"), [(3, {3}), ([3, 4], {3, 4}), (None, set())])
def test_end_tokens_are_integers(ends: Any, expected: set[int], tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    assert ModelFiles(tmp_path, "own", None).end_tokens() == expected


@pytest.mark.parametrize("ends", ["x", [[1]], 0.5, {"a": 1}, [10**30]])
def test_end_tokens_of_another_kind_are_refused(ends: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": ends}))
    with refuses("invalid", "model `own`: ", "`eos_token_id`"):
        ModelFiles(tmp_path, "own", None).end_tokens()
