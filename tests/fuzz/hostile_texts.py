"""Hostile texts through every writer: what is shown to people is harmless, what is data comes back as it was."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tests.fuzz.campaign import Case
from tests.fuzz.commands import Commands, Ran
from tests.fuzz.endings import faults, not_harmless
from tests.fuzz.hostile_words import different, in_toml
from tests.fuzz.shown_forms import file_faults, markdown_faults
from toolkit.log import LogError, write_log

MAP = """
name = {name}
[examples]
example_id = "id"
dataset = "d"
split = "'test'"
question = "q"
gold = "g"
[traces]
pool = "p"
sample_index = "row order"
model = "m"
text = "t"
answer = "a"
"""
TEXTS = ("example_id", "pool", "model", "answer", "text")


@dataclass(frozen=True)
class Names:
    """The texts of a case, by what they name."""

    log: str
    pool: str
    verifier: str
    model: str
    dataset: str
    feature: str
    first: str
    second: str
    policies: list[str]
    examples: list[str]

    @classmethod
    def drawn(cls, case: Case) -> Names:
        """All of them different, so that each can be told apart."""
        texts = different(case.rng, 15)
        return cls(*texts[:8], texts[8:11], texts[11:])


class HostileTexts:
    """See the module."""

    name, about = "texts", "hostile texts through every writer"
    share = 1.5

    def prepare(self, folder: Path, commands: Commands) -> None:
        """Nothing is shared: each case makes a log of its own."""

    def run(self, case: Case) -> None:
        """A log and policies of such names, and what some commands write of them."""
        names = Names.drawn(case)
        folder = case.folder
        try:
            _write(folder, names)
        except LogError as error:
            case.count("log refused")
            case.failures += not_harmless(str(error))
            return
        few = ("--policies=p.toml", "--resamples=20")
        runs: dict[str, tuple[str, ...]] = {
            "describe": ("describe", "log"),
            "validate": ("validate", "log"),
            "replay": ("replay", "log", *few, f"--baseline={names.policies[1]}", "--by=dataset", "--out=out"),
            "curves": ("curves", "log", "--resamples=20", "--out=out"),
            "explain": (
                "explain", "log", "--policies=p.toml", f"--policy={names.policies[0]}", f"--example={names.examples[0]}"
            ),
            "table": ("query", "log", "select * from traces", "--format=table"),
            "markdown": ("query", "log", "select * from traces", "--format=markdown"),
            "csv": ("query", "log", "select * from traces order by trace_id", "--format=csv"),
            "unknown": ("replay", "log", "--policies=p.toml", f"--baseline={names.policies[0]}?", "--out=out"),
            "by": ("replay", "log", "--policies=p.toml", f"--by={names.feature}?", "--out=out"),
            "sql": ("query", "log", f"select * from {names.pool}"),
            "path": ("validate", f"{names.pool}/no".replace("\0", "")),
            "import": ("import", "table", "rows.jsonl", "--map=map.toml", "--out=out"),
        }  # fmt: skip
        for name in [*case.rng.sample(sorted(runs), 3), "writers"]:
            place = folder / name
            place.mkdir()
            for file in ("log", "p.toml", "rows.jsonl", "map.toml"):
                (place / file).symlink_to(folder / file)
            if name == "writers":
                texts = different(case.rng, 8)
                ran = case.commands.call("tests.fuzz.shown_writers:write", str(place), texts, folder=place)
            else:
                ran = case.commands.run(*runs[name], folder=place)
            found = list(self._faults(name, ran, place, folder))
            case.failures += [f"{name}: {fault}" for fault in found]
            case.count("fault" if found else "said why" if ran.code else "harmless")

    def _faults(self, name: str, ran: Ran, place: Path, folder: Path) -> Iterator[str]:
        yield from faults(ran)
        if name not in ("unknown", "by", "sql", "path", "import") and ran.code != 0:
            yield f"refused: {ran.err.strip()[:300]}"
        if name == "csv" and ran.code == 0:
            yield from _came_back(_read_csv(ran.out), folder / "log")
            return
        yield from not_harmless(ran.out)
        if name == "markdown":
            yield from markdown_faults(ran.out)
        if name == "import" and ran.code == 0:
            yield from _imported(place)
            return
        for path in sorted([*place.glob("out/*"), *place.glob("*.*")]):
            if path.suffix in (".csv", ".md", ".tex", ".svg", ".png", ".pdf"):
                yield from (f"{path.name}: {fault}" for fault in file_faults(path))


def _write(folder: Path, names: Names) -> None:
    """The log, its policies, and the same traces as rows to import."""
    examples, traces, scores, features = [], [], [], []
    for number, example in enumerate(names.examples):
        gold = names.first if number % 2 else names.second
        examples.append({
            "example_id": example, "dataset": names.dataset, "split": "test", "question": names.model, "gold": gold,
            "labels": [names.first, names.second], "cluster": names.pool,
        })  # fmt: skip
        for index in range(3):
            answer = names.first if (number + index) % 3 else names.second
            trace = f"{example}/{index}"
            traces.append({
                "trace_id": trace, "example_id": example, "pool": names.pool, "action": "solve", "sample_index": index,
                "model": names.model, "text": names.verifier, "answer": answer, "correct": answer == gold,
                "prompt_tokens": 3, "completion_tokens": 4,
            })  # fmt: skip
            scores.append({"trace_id": trace, "example_id": example, "verifier": names.verifier, "score": 0.1 * index})
            features.append({"trace_id": trace, "example_id": example, names.feature: 0.5})
    frames = {"examples": examples, "traces": traces, "verifications": scores, "features": features}
    tables = {name: pl.DataFrame(rows) for name, rows in frames.items()}
    write_log(folder / "log", name=names.log, tables=tables)
    selects = ("majority", "first", "best")
    policies = [
        f'[[policy]]\nname = {in_toml(policy)}\nkind = "sample"\npool = {in_toml(names.pool)}\n'
        f'max_traces = {1 if select == "first" else 3}\nselect = "{select}"\n'
        + (f"verifier = {in_toml(names.verifier)}\n" if select == "best" else "")
        for policy, select in zip(names.policies, selects, strict=True)
    ]
    (folder / "p.toml").write_text("\n".join(policies), encoding="utf-8", newline="")
    asked = {row["example_id"]: row for row in examples}
    rows = (
        {"id": row["example_id"], "q": asked[row["example_id"]]["question"], "g": asked[row["example_id"]]["gold"],
         "d": names.dataset, "p": row["pool"], "m": row["model"], "t": row["text"], "a": row["answer"]}
        for row in traces
    )  # fmt: skip
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "map.toml").write_text(MAP.format(name=in_toml(names.log)), encoding="utf-8", newline="")


def _read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def _came_back(rows: list[dict[str, str]], log: Path) -> Iterator[str]:
    """Whether printed rows hold the log's texts as they are."""
    frame = pl.read_parquet(log / "traces" / "*.parquet").sort("trace_id")
    for column in TEXTS:
        if [row[column] for row in rows] != frame[column].to_list():
            yield f"the column {column} did not come back as it was"


def _imported(place: Path) -> Iterator[str]:
    """Whether a log that was imported holds the texts of its rows, answers apart from the white space around them."""
    rows = [json.loads(line) for line in (place / "rows.jsonl").read_text().splitlines()]
    frame = pl.read_parquet(place / "out" / "traces" / "*.parquet")
    for key, column in (("id", "example_id"), ("p", "pool"), ("m", "model"), ("t", "text")):
        if sorted(row[key] for row in rows) != sorted(frame[column]):
            yield f"the column {column} was imported as something else"
    if sorted(row["a"].strip() for row in rows) != sorted(frame["answer"]):
        yield "the column answer was imported as something else"
