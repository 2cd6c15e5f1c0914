"""The samples as they are published: where a data set is Parquet, the samples hold its rows as JSON."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.formats.bare import READERS, SAMPLES

NAMES = tuple(READERS)
GOLD = {"openai-batch": "custom_id", "vllm": "request_id"}
TIME = "2025-01-01T10-00-00.123456"


def samples_of(name: str) -> Path:
    """The folder of a format's samples: those that the tool wrote just now, where `make test-formats` asks for it."""
    fresh = os.environ.get("THINKBACK_FORMATS")
    folder = Path(fresh) / name if fresh else SAMPLES / name
    return folder if folder.is_dir() else SAMPLES / name


def published(name: str, folder: Path) -> Path:
    """The samples of a format as its tool leaves them, in a folder of their own."""
    into = folder / name
    if name == "matharena":
        _parquet(samples_of(name) / "rows.json", into / "data" / "train-00000-of-00001.parquet")
    elif name == "lighteval":
        for file in samples_of(name).glob("*.json"):
            _parquet(file, into / "details" / "org" / "model" / TIME / f"details_{file.stem}|0_{TIME}.parquet")
    else:
        shutil.copytree(samples_of(name), into)
    return into


def settings(name: str) -> list[str]:
    """What a format without reference answers is told, to have them."""
    if name not in GOLD:
        return []
    return [f'join={{file = "gold.csv", on = "{GOLD[name]}"}}', "examples.gold=gold"]


def _parquet(rows: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(json.loads(rows.read_text())), path)
