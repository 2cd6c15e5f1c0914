"""Every command and every option says what it is for, and the command is light until it works."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
import typer.testing

from tests.errors import refuses
from thinkback.app import PANELS, app, app_of
from thinkback.options import numbers


def commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    inner = getattr(command, "commands", {})
    for name, part in inner.items():
        yield from commands(part, (*path, name))
    if not inner:
        yield path, command


COMMANDS = dict(commands(typer.main.get_command(app)))
GROUPS = sorted({path[:length] for path in COMMANDS for length in range(len(path))})


def test_the_commands_of_the_manual() -> None:
    names = [name for names in PANELS.values() for name in names]
    assert sorted({path[0] for path in COMMANDS}) == sorted(names)
    assert names[:4] == ["import", "report", "replay", "tune"]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_of_every_command(thinkback: Callable, path: tuple[str, ...]) -> None:
    result = thinkback(*path, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: thinkback {' '.join(path)}")
    command = COMMANDS[path]
    assert command.help
    for parameter in command.params:
        assert parameter.help, parameter.name
        for option in parameter.opts if parameter.param_type_name == "option" else ():
            assert option in result.stdout


@pytest.mark.parametrize("name", [*(path[0] for path in COMMANDS if len(path) == 1), "import", "descrbe", "--help"])
def test_a_command_that_is_built_alone_is_the_same(name: str) -> None:
    """Its help, or what is said of a name that is none."""
    runner = typer.testing.CliRunner()
    alone, whole = (runner.invoke(one, [name, "--help"], prog_name="thinkback") for one in (app_of([name]), app))
    assert (alone.exit_code, alone.output) == (whole.exit_code, whole.output)
    built = typer.main.get_command(app_of([name])).commands
    assert set(built) == ({name} if (name,) in COMMANDS else {path[0] for path in COMMANDS})


@pytest.mark.parametrize("path", [*GROUPS, *COMMANDS], ids=lambda path: " ".join(path) or "all")
def test_the_help_of_every_command_ends_with_examples_that_parse(thinkback: Callable, path: tuple[str, ...]) -> None:
    told = thinkback(*path, "--help").stdout
    assert len(re.findall(r"^\s*(?:Examples?|e\.g\.):?", told, re.MULTILINE)) == 1
    shown = told.partition("Examples:\n")[2]
    lines = [shlex.split(line) for line in shown.replace("\\\n", " ").split("\n") if line.strip()]
    assert lines
    for words in lines:
        assert tuple(words[: len(path) + 1]) == ("thinkback", *path)
        command, rest = typer.main.get_command(app), words[1:]
        while getattr(command, "commands", None) and rest and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        rest = rest[: rest.index(">")] if ">" in rest else rest
        known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in rest if word.startswith("--")} <= known
        required = {p.opts[0] for p in command.params if p.required and p.param_type_name == "option"}
        assert required <= set(rest)


def test_the_groups() -> None:
    assert GROUPS == [(), ("export",), ("import",), ("study",)]


def test_the_help_of_compare_shows_two_results(thinkback: Callable) -> None:
    assert "--with other" in thinkback("compare", "--help").stdout.partition("Examples:\n")[2]


@pytest.mark.parametrize("path", GROUPS, ids=lambda path: " ".join(path) or "all")
def test_groups_list_their_commands(thinkback: Callable, path: tuple[str, ...]) -> None:
    asked, bare = thinkback(*path, "--help"), thinkback(*path)
    assert asked.exit_code == 0
    assert bare.exit_code == 2
    assert bare.stderr.rstrip() == asked.stdout.rstrip()
    assert "..." not in asked.stdout.partition("Commands:")[2]  # no sentence is cut short


def test_the_shell_completes_commands(spawn: Callable) -> None:
    asked = {"_THINKBACK_COMPLETE": "complete_bash", "COMP_WORDS": "thinkback desc", "COMP_CWORD": "1"}
    done = spawn(**asked)
    assert (done.returncode, done.stdout, done.stderr) == (0, "describe\n", "")


def test_version(thinkback: Callable) -> None:
    from importlib.metadata import version

    assert thinkback("--version").stdout == f"thinkback {version('thinkback')}\n"


def test_the_options_that_replay_promises() -> None:
    options = {name for parameter in COMMANDS["replay",].params for name in parameter.opts}
    assert options >= {
        "--policies",
        "--out",
        "--baseline",
        "--margin",
        "--by",
        "--where",
        "--seed",
        "--resamples",
        "--level",
        "--method",
        "--strict",
        "--force",
    }


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from thinkback.app import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'polars', 'numpy', 'pyarrow', 'duckdb', 'matplotlib', 'scipy', 'sklearn', 'rich', 'replay'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_an_option_takes_several_numbers_of_its_kind() -> None:
    assert numbers(float, "levels", "0.8, 0.95") == (0.8, 0.95)
    assert numbers(int, "layers", "1,2") == (1, 2)
    with refuses("invalid", "`levels`", "`high`"):
        numbers(float, "levels", "high")


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("figure page ", {"frontier", "headroom", "gates"}),
        ("figure page forest --baseline maj", {"majority@2"}),
        ("compare page one", {r"one\ sample\ \(mean\)"}),
        ("replay mylog --policies p.toml --baseline s", {"stop"}),
        ("report mylog --metric macro", {"macro_f1"}),
        ("tune mylog --cost com", {r"completion\ tokens"}),
        ("figure nowhere forest --baseline ", set()),
        ("explain nowhere --policy ", set()),
        ("explain mylog --policy maj", {"majority@2", "majority@4"}),
    ],
)
def test_a_shell_completes_policies_metrics_costs_and_figures(
    thinkback: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, some: set[str]
) -> None:
    (tmp_path / "page" / "result").mkdir(parents=True)
    policies = [{"name": name, "sweep": name} for name in ("one sample (mean)", "majority@2")]
    (tmp_path / "page" / "result" / "run.json").write_text(json.dumps({"policies": policies}), encoding="utf-8")
    (tmp_path / "p.toml").write_text('[[policy]]\nname = "stop"\n[[policy]]\nname = "vote"\n', encoding="utf-8")
    if "mylog --policy" in line:
        thinkback("simulate", "--examples", "12", "--traces", "4", "--seed", "1", "--out", "mylog")
    words = f"thinkback {line}"
    for name, value in {"_THINKBACK_COMPLETE": "complete_bash", "COMP_WORDS": words}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - (not line.endswith(" "))))
    completed = set(thinkback().stdout.split("\n")) - {""}
    assert some <= completed if some else not completed
    assert all(name.startswith(line.rpartition(" ")[2]) for name in completed)
