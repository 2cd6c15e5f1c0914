"""The steps that are compared: those of `steps.toml`, imports of tests/formats, and real logs where there are any."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent / "formats" / "samples"


def steps(logs: str = "") -> dict[str, tuple[str, ...]]:
    """Name -> command line; `logs` is the folder of THINKBACK_LOGS."""
    lines = tomllib.loads((HERE / "steps.toml").read_text(encoding="utf-8"))
    for path in sorted(path for path in SAMPLES.iterdir() if path.is_dir()):
        lines[f"format-{path.name}"] = f"import auto {shlex.quote(str(path))} --out {{out}}/format-{path.name}"
    for path in sorted(Path(logs).glob("*/samples.parquet")) if logs else ():
        name = path.parent.name
        lines[f"import-{name}"] = f"import table {shlex.quote(str(path))} --map {name} --out {{out}}/real-{name}"
        lines[f"report-{name}"] = f"report {{out}}/real-{name} --resamples 200 --out {{out}}/report-{name}"
    return {name: tuple(shlex.split(line)) for name, line in lines.items()}
