"""How the program ends: at once, with its code, when all that was to be done at the end is done."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, sys, tempfile, threading, time
import thinkback.app
from thinkback.__main__ import command

class Last:
    def __del__(self):
        print("taken apart")

def main():
    global kept, folder
    kept, folder = Last(), tempfile.TemporaryDirectory()
    print(folder.name)
    atexit.register(print, "last words")
    threading.Thread(target=lambda: (time.sleep(0.2), print("a thread's words"))).start()
    {end}

thinkback.app.main = main
command()
"""


def ended(end: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.format(end=end)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("end", "code"), [("sys.exit()", 0), ("sys.exit(0)", 0), ("sys.exit(2)", 2)])
def test_threads_and_what_is_registered_end_first_and_memory_is_left_to_the_system(end: str, code: int) -> None:
    done = ended(end)
    folder, *said = done.stdout.splitlines()
    assert (done.returncode, said, done.stderr) == (code, ["a thread's words", "last words"], "")
    assert not Path(folder).exists()


def test_what_was_registered_before_the_program_began_is_done(tmp_path: Path) -> None:
    """As profilers and coverage of subprocesses do."""
    (tmp_path / "sitecustomize.py").write_text("import atexit; atexit.register(print, 'measured')")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    command = [sys.executable, "-m", "thinkback", "--version"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PYTHONPATH": path}
    )
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["measured"])


def test_a_fault_keeps_its_traceback_and_its_code() -> None:
    done = ended("raise ValueError('a fault')")
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: a fault\n")
    assert done.stdout.splitlines()[1:3] == ["a thread's words", "last words"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_what_cannot_be_printed_at_the_end_is_no_success() -> None:
    """Ten letters wait in the stream's buffer until the end, when the disk is full."""
    program = PROGRAM.format(end="sys.stdout = open('/dev/full', 'w'); sys.stdout.write('x' * 10); sys.exit(0)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 120
    assert os.strerror(errno.ENOSPC) in done.stderr


INTERRUPTED = """
import os, signal, sys

def trace(frame, event, argument):
    if event == "line" and (counting or frame.f_code.co_name == "command"):
        counting.append(1)
        if len(counting) == {at}:
            sys.settrace(None)
            os.kill(os.getpid(), signal.SIGINT)
    return trace

counting = []
sys.argv = ["thinkback", "--help"]
from thinkback.__main__ import command
sys.settrace(trace)
command()
"""


@pytest.mark.parametrize("at", [3, 4, 5, 8, 13, 30, 100, 1_000, 20_000, 100_000])
def test_ctrl_c_from_the_start_of_the_command_on_is_one_line(at: int) -> None:
    """At so many lines of Python, imports among them. Before come Python's own start and the bodies of two files."""
    command = [sys.executable, "-c", INTERRUPTED.format(at=at)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


def test_ctrl_c_before_the_command_is_imported_ends_it_without_a_word(tmp_path: Path) -> None:
    """Of the script that is installed; here its first import is interrupted."""
    (tmp_path / "thinkback").mkdir()
    (tmp_path / "thinkback" / "__init__.py").touch()
    (tmp_path / "thinkback" / "__main__.py").write_text("import os, re\nos.kill(os.getpid(), 2)\ncommand = print\n")
    script = Path(__file__).parents[2] / "scripts" / "thinkback"
    done = subprocess.run(
        [sys.executable, script], capture_output=True, check=False, timeout=60, env={"PYTHONPATH": str(tmp_path)}
    )
    assert (done.returncode, done.stdout, done.stderr) == (-2, b"", b"")


UNDOCUMENTED = """
import thinkback.app
from thinkback.__main__ import command

def main():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    FigureCanvasAgg(figure)
    (line,) = figure.subplots().plot([1, 2])
    line.set(linewidth=3, alpha=0.5)
    figure.draw_without_rendering()
    print(line.get_linewidth(), "linewidth" in (type(line).set.__doc__ or ""))

thinkback.app.main = main
command()
"""


def test_a_command_imports_matplotlib_without_its_documentation_and_a_program_with_it() -> None:
    command = [sys.executable, "-W", "error", "-c", UNDOCUMENTED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.split(), done.stderr) == (["3.0", "False"], "")
    plain = UNDOCUMENTED.replace("command()", "main()")
    done = subprocess.run([*command[:-1], plain], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["3.0", "True"]
