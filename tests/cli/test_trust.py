"""A recipe's key goes to the server that it belongs to, or to this machine; to others only where the user says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from generate.engines import read_settings, settings_of
from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from tests.engines.server import Server
from tests.errors import refuses
from tests.generate.toy import LOCAL, write_recipe
from tests.logs import make_log
from thinkback.app import app

FOREIGN = 'base_url = "https://models.example/v1"\nkey_variable = "CLOUD_SECRET"\n'
JUDGE = '[[verify]]\nname = "judge"\nkind = "judge"\nprompt = "ask.txt"\n'


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_SECRET", "sk-hidden")


def recipe_of(folder: Path, engine: str, more: str = "") -> Path:
    return write_recipe(folder, 2, LOCAL.replace('model = "rule"\n', f'model = "rule"\n{engine}') + more)


def thinkback(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(
    ("url", "variable", "free"),
    [
        ("https://api.openai.com/v1", "OPENAI_API_KEY", True),
        ("https://API.OpenAI.com:443/v1", "OPENAI_API_KEY", True),
        ("http://api.openai.com/v1", "OPENAI_API_KEY", False),
        ("https://api.openai.com.evil.example/v1", "OPENAI_API_KEY", False),
        ("https://api.openai.com/v1", "AWS_SECRET_ACCESS_KEY", False),
        ("http://127.0.0.1:8000/v1", "CLOUD_SECRET", True),
        ("http://[::1]:8000/v1", "CLOUD_SECRET", True),
        ("http://localhost/v1", "CLOUD_SECRET", True),
        ("http://127.0.0.1.evil.example/v1", "CLOUD_SECRET", False),
        ("http://192.168.1.4/v1", "CLOUD_SECRET", False),
    ],
)
def test_free_are_variables_of_the_host_and_this_machine(url: str, variable: str, free: bool) -> None:
    settings = read_settings(settings_of("openai"), {"base_url": url, "model": "m", "key_variable": variable}, "openai")
    settings.check_api_key_access([variable])
    if free:
        settings.check_api_key_access([])
    else:
        with refuses("key", f"`{variable}`", f"`{url.partition('/v1')[0]}`"):
            settings.check_api_key_access(["OTHER_KEY"])


def test_a_key_that_goes_elsewhere_is_asked_about_in_one_line(tmp_path: Path) -> None:
    result = thinkback("generate", recipe_of(tmp_path, FOREIGN), "--out", tmp_path / "log")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    for word in ("`CLOUD_SECRET`", "`https://models.example`", "`--allow-key` CLOUD_SECRET"):
        assert word in result.stderr
    assert not (tmp_path / "log").exists()


def test_so_it_is_where_a_log_is_added_to_and_in_python(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    recipe = recipe_of(tmp_path, FOREIGN, JUDGE)
    before = (tmp_path / "log" / "manifest.json").read_bytes()
    result = thinkback("generate", recipe, "--on", tmp_path / "log")
    assert (result.exit_code, "`--allow-key` CLOUD_SECRET" in result.stderr) == (2, True)
    assert (tmp_path / "log" / "manifest.json").read_bytes() == before
    with refuses("key", "`CLOUD_SECRET`", "`https://models.example`", "`allow_keys`"):
        generate(make_plan(load_recipe(recipe)), tmp_path / "new")


def test_what_is_allowed_is_sent_and_server_and_variable_are_shown_first(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    url = server.url.replace("127.0.0.1", "0x7f.1")  # this machine, by a name that nothing here knows
    recipe = recipe_of(tmp_path, f'base_url = "{url}"\nkey_variable = "CLOUD_SECRET"\nretries = 0\n')
    assert thinkback("generate", recipe, "--out", tmp_path / "log").exit_code == 2
    assert not server.requests
    server.plan = ["402"] * 99
    result = thinkback("generate", recipe, "--out", tmp_path / "log", "--allow-key", "A", "--allow-key", "CLOUD_SECRET")
    assert re.search(rf"\bat {re.escape(url)},.* CLOUD_SECRET\n", result.stdout)
    assert server.headers[0]["Authorization"] == "Bearer sk-hidden"
    assert "sk-hidden" not in result.output


def test_a_server_that_wants_no_key_is_shown_too(tmp_path: Path, server: Server) -> None:
    server.plan = ["402"] * 99
    result = thinkback("generate", recipe_of(tmp_path, f'base_url = "{server.url}"\n'), "--out", tmp_path / "log")
    assert re.search(rf"\bat {re.escape(server.url)}, without .*\n", result.stdout)


@pytest.mark.slow
def test_training_a_classifier_sends_no_key(tmp_path: Path) -> None:
    """`fit` reads `[classifier]` alone: the engine of the same recipe is not opened, so nothing is asked about it."""
    recipe = recipe_of(tmp_path, FOREIGN, '[classifier]\nmodel = "nowhere"\nprompt = "ask.txt"\n')
    make_log(tmp_path / "log")
    result = thinkback("fit", recipe, "--on", tmp_path / "log", "--out", tmp_path / "model")
    assert result.exit_code == 2
    assert "CLOUD_SECRET" not in result.output
