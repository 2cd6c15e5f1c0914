"""What the commands write and print, on a simulated log."""

import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import replay
from generate.simulation.grid import simulate
from tests.errors import quotes, says
from toolkit.log import open_log, write_log
from toolkit.show import SIMULATED

FILES = {
    "outcomes.parquet",
    "summary.parquet",
    "comparisons.parquet",
    "ranks.parquet",
    "seconds.parquet",
    "run.json",
    "result.json",
    "examples.parquet",
    "table.md",
    "table.csv",
    "table.tex",
    "frontier.csv",
    "frontier.pdf",
    "frontier.png",
    "frontier.svg",
}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what is written once."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def replayed(thinkback: Callable, log: Path, policies: Path, tmp_path: Path, kept: Path) -> Path:
    """What the first test with it wrote, copied for each of the others."""
    if not any(kept.iterdir()):
        settings = ("--baseline", "best of 4", "--margin", "0.05", "--resamples", "200", "--seed", "5")
        result = thinkback("replay", log, "--policies", policies, "--out", "out", *settings)
        assert result.exit_code == 0
        assert result.stderr == ""
        (tmp_path / "printed.txt").write_text(result.stdout)
        shutil.copytree(tmp_path, kept, dirs_exist_ok=True)
    else:
        shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return tmp_path / "out"


def test_replay_writes_its_files(replayed: Path) -> None:
    assert names(replayed) == FILES
    assert names(replayed.parent) == {"out", "policies.toml", "printed.txt"}
    run = json.loads((replayed / "run.json").read_text())
    assert (run["seed"], run["resamples"], run["baseline"]) == (5, 200, "best of 4")
    assert run["log"]["sha256"] == open_log(run["log"]["address"]).digest()
    assert pl.read_parquet(replayed / "outcomes.parquet")["policy"].n_unique() == 6


def test_replay_prints_the_ranked_table(replayed: Path) -> None:
    printed = (replayed.parent / "printed.txt").read_text()
    head = printed.splitlines()
    assert head[:2] == [replay.load(replayed).table().title, SIMULATED]
    quotes(head[0], "small", "accuracy")
    for words in ("diagnostic: sees gold", "(best of 5 ", "baseline", "not worse", "seed 5"):
        assert words in " ".join(printed.split())
    assert printed.splitlines()[-1].startswith(
        "out/: comparisons.parquet, examples.parquet, frontier.csv, frontier.pdf"
    )


def test_the_table_has_the_numbers_of_the_summary(replayed: Path) -> None:
    rows = {row["policy"]: row for row in csv.DictReader(io.StringIO((replayed / "table.csv").read_text()))}
    summary = pl.read_parquet(replayed / "summary.parquet")
    for policy, estimate, low, high in (
        summary.filter(pl.col("metric") == "accuracy").select("policy", "estimate", "low", "high").iter_rows()
    ):
        row = rows[policy]
        assert [float(row[key]) for key in ("accuracy", "accuracy_low", "accuracy_high")] == [estimate, low, high]
    tokens = dict(summary.filter(pl.col("metric") == "total_tokens").select("policy", "estimate").iter_rows())
    assert {policy: float(row["total_tokens"]) for policy, row in rows.items()} == tokens
    difference = pl.read_parquet(replayed / "comparisons.parquet").filter(
        (pl.col("metric") == "accuracy") & (pl.col("baseline") == "best of 4")
    )
    for policy, low in difference.select("policy", "low").iter_rows():
        assert rows[policy]["not_worse"] == ("true" if low > -0.05 else "false")


def test_the_same_run_writes_the_same_bytes(thinkback: Callable, log: Path, policies: Path, replayed: Path) -> None:
    settings = ("--baseline", "best of 4", "--margin", "0.05", "--resamples", "200", "--seed", "5")
    thinkback("replay", log, "--policies", policies, "--out", "again", *settings)
    for name in FILES:
        assert (replayed / name).read_bytes() == (replayed.parent / "again" / name).read_bytes(), name


def test_force_replaces_the_whole_folder(thinkback: Callable, log: Path, policies: Path, replayed: Path) -> None:
    (replayed / "stale.txt").write_text("from before")
    result = thinkback("replay", log, "--policies", policies, "--out", "out", "--resamples", "50", "--force")
    assert result.exit_code == 0
    assert names(replayed) == FILES
    assert json.loads((replayed / "run.json").read_text())["resamples"] == 50


def test_replay_by_groups_and_where(thinkback: Callable, log: Path, policies: Path, tmp_path: Path) -> None:
    settings = ("--by", "dataset, split", "--where", "split = 'test'", "--resamples", "50")
    result = thinkback("replay", log, "--policies", policies, "--out", "out", *settings)
    assert result.exit_code == 0
    assert "dataset = simulated, split = test" in result.stdout
    assert "## dataset = simulated, split = test" in (tmp_path / "out" / "table_by.md").read_text()
    groups = pl.read_parquet(tmp_path / "out" / "summary_by.parquet").select("dataset", "split").unique()
    assert groups.rows() == [("simulated", "test")]


def test_validate(thinkback: Callable, log: Path) -> None:
    result = thinkback("validate", log)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith(f"{log}: valid (simulated)\n")


def test_describe(thinkback: Callable, log: Path) -> None:
    result = thinkback("describe", log)
    assert result.exit_code == 0
    for words in ("small", "Simulated log", "n4", "probe", "strong", "weak", "AUC"):
        assert words in result.stdout


def test_query_prints_csv_in_a_pipe(thinkback: Callable, log: Path) -> None:
    sql = "SELECT pool, count(*) AS n, avg(temperature) AS t, NULL AS nothing FROM traces GROUP BY ALL ORDER BY pool"
    result = thinkback("query", log, sql)
    assert list(csv.reader(io.StringIO(result.stdout))) == [
        ["pool", "n", "t", "nothing"],
        ["n4", "480", str(0.699999988079071), ""],
        ["probe", "120", "0.0", ""],
    ]


@pytest.mark.parametrize(("form", "line"), [("table", "n4     480"), ("markdown", "| n4 | 480 |"), ("csv", "n4,480")])
def test_query_formats(thinkback: Callable, log: Path, form: str, line: str) -> None:
    sql = "SELECT pool, count(*) AS n FROM traces GROUP BY ALL ORDER BY pool"
    assert line in thinkback("query", log, sql, "--format", form).stdout


def test_query_shows_a_table_on_a_terminal(log: Path) -> None:
    sql = "SELECT trace_id, answer FROM traces ORDER BY trace_id LIMIT 150"
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "thinkback", "query", str(log), sql]
    with subprocess.Popen(command, stdout=theirs, env=os.environ | {"COLUMNS": "60"}) as process:
        os.close(theirs)
        seen = b""
        while chunk := _read(ours):
            seen += chunk
    assert process.returncode == 0
    printed = seen.decode()
    assert "\x1b[1m" in printed
    assert "50 more rows; `--format csv` prints all." in printed


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that the other side has closed
        return b""


def test_merge_counts_what_it_drops(thinkback: Callable, log: Path, tmp_path: Path) -> None:
    thinkback("simulate", "--examples", "10", "--traces", "4", "--seed", "3", "--out", "few")
    thinkback("simulate", "--examples", "5", "--traces", "4", "--seed", "4", "--out", "other")
    result = thinkback("merge", log, "few", "other", "--out", "both")
    assert result.exit_code == 0
    assert "examples: 10 rows dropped" in result.stdout
    assert "traces: 50 rows dropped" in result.stdout
    merged = open_log(tmp_path / "both")
    assert (merged.rows("examples"), merged.rows("traces"), merged.name) == (125, 625, "both")
    assert merged.simulated
    refused = thinkback("merge", "both", "--out", "both", "--force")
    assert refused.exit_code == 2
    says(refused, "conflict", "`both`")
    assert open_log(tmp_path / "both").rows("examples") == 125
    assert names(tmp_path) == {"few", "other", "both"}


@pytest.mark.parametrize("command", ["replay", "curves"])
def test_what_is_read_is_never_written_over(
    thinkback: Callable, log: Path, policies: Path, tmp_path: Path, command: str
) -> None:
    shutil.copytree(log, tmp_path / "inner" / "log")
    before = sorted((tmp_path / "inner").rglob("*"))
    asked = ["--policies", policies] if command == "replay" else []
    for out in ("inner/log", "inner"):
        result = thinkback(command, "inner/log", *asked, "--out", out, "--force")
        assert result.exit_code == 2
        says(result, "conflict", "`inner/log`")
    assert sorted((tmp_path / "inner").rglob("*")) == before


def test_seal(thinkback: Callable, log: Path, tmp_path: Path) -> None:
    for table in ("examples", "traces"):
        (tmp_path / "mine" / table).mkdir(parents=True)
        open_log(log).scan(table).collect().write_parquet(tmp_path / "mine" / table / "x.parquet")
    result = thinkback("seal", "mine", "--license", "CC0-1.0", "--source", "by hand")
    assert (result.exit_code, result.stdout) == (0, "sealed mine: examples 120, traces 600\n")
    manifest = json.loads((tmp_path / "mine" / "manifest.json").read_text())
    assert (manifest["name"], manifest["license"], manifest["source"]) == ("mine", "CC0-1.0", "by hand")
    assert "simulated" not in manifest


MAP = """
name = "mine"
[examples]
example_id = "id"
dataset = "'made'"
split = "'test'"
question = "q"
gold = "gold"
[traces]
pool = "'two'"
sample_index = "row order"
model = "'none'"
answer = "answer"
[answers]
kind = "exact"
"""


def test_import(thinkback: Callable, tmp_path: Path) -> None:
    rows = [{"id": i, "q": f"q{i}", "gold": "1", "answer": str(j)} for i in range(3) for j in range(2)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "map.toml").write_text(MAP)
    result = thinkback("import", "table", "rows.jsonl", "--map", "map.toml", "--out", "new")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "wrote new: 3 examples, 6 traces, 0 verifications"
    log = open_log(tmp_path / "new")
    assert (log.name, log.sealed) == ("mine", True)
    assert log.scan("traces").select(pl.col("correct").sum()).collect().item() == 3
    again = ("import", "table", "rows.jsonl", "--map", "map.toml", "--out", "new")
    assert thinkback(*again).exit_code == 2
    assert thinkback(*again, "--force", "--name", "other").exit_code == 0
    assert open_log(tmp_path / "new").name == "other"
    assert names(tmp_path) == {"new", "rows.jsonl", "map.toml"}


def test_curves(thinkback: Callable, log: Path, tmp_path: Path) -> None:
    result = thinkback("curves", log, "--out", "out", "--resamples", "100")
    assert result.exit_code == 0
    assert names(tmp_path / "out") == {
        "curves.parquet",
        "curves.csv",
        "curves.pdf",
        "curves.png",
        "curves.svg",
        "differences.parquet",
        "differences.csv",
        "table.md",
        "table.tex",
    }
    for words in ("Simulated log", "avg@k", "pass@k", "majority@k", "best-of-k strong", "best-of-k weak"):
        assert words in result.stdout
    frame = pl.read_parquet(tmp_path / "out" / "curves.parquet")
    assert set(frame["k"]) == {1, 2, 4}
    one = frame.filter((pl.col("k") == 1) & pl.col("metric").is_in(["avg", "pass"]))["estimate"]
    assert one[0] == pytest.approx(one[1])  # with one trace there is nothing to choose
    assert "Paired differences" in result.stdout
    pairs = pl.read_csv(tmp_path / "out" / "differences.csv")
    at = {(row["metric"], row["verifier"], row["k"]): row["estimate"] for row in frame.iter_rows(named=True)}
    for row in pairs.iter_rows(named=True):
        first, second = ((row[f"{side}_metric"], row[f"{side}_verifier"], row["k"]) for side in ("first", "second"))
        assert row["difference"] == pytest.approx(at[first] - at[second])
    assert "pass" not in {*pairs["first_metric"], *pairs["second_metric"]}


def test_figures_have_the_width_asked_for(thinkback: Callable, log: Path, policies: Path, tmp_path: Path) -> None:
    few = ("--resamples", "50", "--width", "84mm")
    assert thinkback("replay", log, "--policies", policies, "--out", "a", *few, "--title", "Mine").exit_code == 0
    assert thinkback("curves", log, "--where", "gold <> ''", "--out", "b", *few).exit_code == 0
    for name in ("a/frontier.png", "b/curves.png"):
        assert int.from_bytes((tmp_path / name).read_bytes()[16:20], "big") == round(300 * 84 / 25.4)
    refused = thinkback("curves", log, "--width", "84", "--out", "c")
    assert refused.exit_code == 2
    last = refused.stderr.splitlines()[-1]
    assert "`84`" in last
    assert last.endswith("[invalid]")
    assert names(tmp_path) == {"a", "b", "policies.toml"}


def test_curves_ask_for_some_examples(thinkback: Callable, log: Path, tmp_path: Path) -> None:
    for name, where in (("all", []), ("some", ["--where", "example_id < 'sim3-000000020'"])):
        assert thinkback("curves", log, "--resamples", "50", "--out", name, *where).exit_code == 0
    every, some = (pl.read_parquet(tmp_path / name / "curves.parquet")["n"].max() for name in ("all", "some"))
    assert 0 < some < every


def test_curves_print_without_writing(thinkback: Callable, log: Path, tmp_path: Path) -> None:
    result = thinkback("curves", log, "--pool", "n4", "--verifier", "weak", "--resamples", "50")
    assert "best-of-k weak" in result.stdout
    assert "strong" not in result.stdout
    assert names(tmp_path) == set()


def test_explain(thinkback: Callable, log: Path, policies: Path) -> None:
    settings = ("--policies", policies, "--policy", "stop early[stop.margin=0.1]", "--example", "sim3-000000007")
    result = thinkback("explain", log, *settings)
    assert result.exit_code == 0
    assert "sim3-000000007" in result.stdout
    assert "stop early[stop.margin=0.1]" in result.stdout
    assert "score" in result.stdout
    assert result.stdout.splitlines()[-1].startswith(("rule", "cap"))


def test_explain_prints_texts_harmlessly(thinkback: Callable, tmp_path: Path, policies: Path) -> None:
    simulate(tmp_path / "log", examples=3, traces=4, labels=3, seed=3, name="texts")
    traces = pl.read_parquet(tmp_path / "log" / "traces" / "*.parquet")
    tables = {name: pl.read_parquet(tmp_path / "log" / name / "*.parquet") for name in ("examples", "verifications")}
    tables["traces"] = traces.with_columns(text=pl.lit("first\n\x1b[2Jrule: forged"))
    write_log(tmp_path / "new", name="texts", tables=tables)
    asked = ("--policies", policies, "--policy", "vote", "--example", "sim3-000000001")
    assert "text of" not in thinkback("explain", tmp_path / "new", *asked).stdout
    told = thinkback("explain", tmp_path / "new", *asked, "--texts").stdout
    for sample in range(4):
        assert f"text of `n4` {sample}\n    first\n    \\x1b[2Jrule: forged\n" in told


def test_simulate_says_what_it_wrote(thinkback: Callable, tmp_path: Path) -> None:
    result = thinkback(
        "simulate", "--examples", "20", "--traces", "3", "--labels", "0", "--out", "new", "--name", "mine"
    )
    assert result.stdout == "wrote new: 20 examples, 80 traces (simulated)\n"
    assert open_log(tmp_path / "new").name == "mine"


def test_a_process_of_its_own(spawn: Callable, log: Path) -> None:
    done = spawn("query", log, "SELECT count(*) AS n FROM examples")
    assert (done.returncode, done.stdout, done.stderr) == (0, "n\n120\n", f"{SIMULATED}\n")


def test_a_terminal_without_unicode(spawn: Callable, log: Path) -> None:
    done = spawn("query", log, "SELECT 'é–●' AS x", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "x\n???\n")


@pytest.mark.slow
def test_simulated_claims_are_written_and_checked(
    thinkback: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thinkback.commands.simulate.SEEDS", 1)
    done = thinkback("simulate", "claimdecomp", "--out", "claims", "--traces", "16", "--dev", "9", "--check")
    assert done.exit_code == 0, done.output
    assert "209 examples, 3,344 traces (simulated)" in done.stdout
    words = ("published", "simulated", "difference", "Simulated log", "31 fitted", "not fitted")
    for word in words:
        assert word in done.stdout
    assert (tmp_path / "claims" / "manifest.json").is_file()


def test_tune_prints_what_it_chose_and_how_many_it_tried(thinkback: Callable, log: Path, policies: Path) -> None:
    words = ["--on", "split = 'dev'", "--report", "split = 'test'", "--goal", "min traces subject to accuracy >= 0.2"]
    done = thinkback("tune", log, "--policies", policies, *words, "--resamples", "50", "--out", "tuned")
    assert done.exit_code == 0, done.output
    assert "5 settings tried" in done.stdout  # the oracle is no setting
    assert "stop early[stop.margin=0.1]" in done.stdout


def test_tune_shows_every_fraction_to_four_decimals(thinkback: Callable, log: Path, policies: Path) -> None:
    """A limit such as `macro_f1 >= baseline - 0.005` can be checked by eye; counts keep two decimals."""
    goal = "max macro_f1 subject to accuracy >= 0.2 and flip_rate <= 1 and truncated <= 1 and traces <= 9"
    words = ["--on", "split = 'dev'", "--report", "split = 'test'", "--goal", goal, "--out", "tuned"]
    policies.write_text(policies.read_text().replace('name = "stop early"', 'name = "stop early"\nagainst = "vote"'))
    done = thinkback("tune", log, "--policies", policies, *words, "--resamples", "50")
    assert done.exit_code == 0, done.output
    lines = Path("tuned/table.md").read_text().replace("\\", "").splitlines()
    head, row = ([c.strip() for c in x.strip("|").split("|")] for x in lines if x.startswith(("| family", "| stop")))
    shown = dict(zip(head, row, strict=True))
    for metric, decimals in {"macro_f1": 4, "accuracy": 4, "flip_rate": 4, "truncated": 4, "traces": 2}.items():
        for rows_of in ("dev", "report"):
            numbers = re.findall(r"\d+\.(\d+)", shown[f"{metric}, {rows_of}"])
            assert len(numbers) >= 3
            assert {len(number) for number in numbers} == {decimals}


def test_tune_says_what_its_runs_say(thinkback: Callable, tmp_path: Path) -> None:
    """Simulated claims log no tokens of verifications, so a goal in tokens takes them for free: said of both runs."""
    assert thinkback("simulate", "claimdecomp", "--traces", "4", "--dev", "20", "--out", "claims").exit_code == 0
    text = '[[policy]]\nname = "best"\nkind = "sample"\nmax_traces = [2, {}]\nverifier = "lora"\n'
    (tmp_path / "p.toml").write_text(text.format(4))
    words = ["tune", "claims", "--policies", "p.toml", "--on", "split = 'dev'", "--report", "split = 'test'"]
    words += ["--goal", "min total_tokens", "--resamples", "20"]
    done = thinkback(*words)
    assert done.exit_code == 0, done.output
    told = " ".join(done.stdout.split())
    for rows_of in ("development", "reported"):
        assert re.search(rf" {rows_of}: [^`.]*`lora`", told)
    assert "cost_eur:" not in told  # no column of the table
    (tmp_path / "p.toml").write_text(text.format(5))  # more traces than are logged: no setting that could be chosen
    told = " ".join(thinkback(*words).stdout.split())
    assert "1 settings tried" in told
    assert re.search(r" development: [^`]*`best\[max_traces=5\]`[^`]* 0 [^`]* 20 ", told)


@pytest.mark.parametrize("words", [("--out", "~/new"), ("--out=~/new",)], ids=" ".join)
def test_a_path_may_begin_at_home(
    thinkback: Callable, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "log").symlink_to(log)
    assert thinkback("merge", "~/log", *words).exit_code == 0
    assert thinkback("validate", "~/new").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".cache") == ["log", "new"]
