"""What a wheel must do in an empty environment: run by `make dist` with that environment's Python, away from here."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PACKAGES = ("toolkit", "generate", "replay", "thinkback")
POLICIES = """
[[policy]]
name = "one"
kind = "sample"
pool = "n8"
max_traces = 1
select = "first"

[[policy]]
name = "vote"
kind = "sample"
pool = "n8"
select = "majority"
max_traces = 8
"""


def command(*words: str, folder: Path) -> None:
    """One call of the installed `thinkback`, which must end well."""
    program = Path(sys.executable).with_name("thinkback")
    print("$ thinkback", *words, flush=True)
    subprocess.run([str(program), *words], cwd=folder, check=True)


def missing_files() -> list[str]:
    """Files of the checkout's packages that the installed ones lack: each is read by some command."""
    import importlib

    homes = {name: Path(str(importlib.import_module(name).__file__)).parent for name in PACKAGES}
    assert not any(home.is_relative_to(CHECKOUT) for home in homes.values()), homes
    return [
        path.relative_to(CHECKOUT).as_posix()
        for name, home in homes.items()
        for path in sorted((CHECKOUT / name).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
        if not (home / path.relative_to(CHECKOUT / name)).is_file()
    ]


def main() -> None:
    """Simulate a log, write a report on it, and replay two policies from Python."""
    assert missing_files() == [], missing_files()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command("--version", folder=folder)
        command("simulate", "--out", "log", "--examples", "60", "--traces", "8", folder=folder)
        command("report", "log", "--out", "report", "--resamples", "500", folder=folder)
        assert (folder / "report" / "report.md").is_file(), sorted(path.name for path in (folder / "report").iterdir())
        (folder / "policies.toml").write_text(POLICIES, encoding="utf-8")

        import thinkback as tb

        result = tb.run(str(folder / "log"), folder / "policies.toml", baseline="one", resamples=500)
        assert result.summary.height > 0
        print("the wheel runs in an empty environment")


if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]
    main()
