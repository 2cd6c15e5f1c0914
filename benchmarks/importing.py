"""Importing 200,000 examples x 8 traces of JSON lines (1.7 GB) in bounded memory.

Run with `python benchmarks/importing.py`. Answers are a column. A bare scan and sink by polars of the same file runs
beside the import, each in a process of its own: the script prints processor seconds and peak memory of both, and
fails where the import takes more than three times the seconds, or 1.5 GB. Then answers are read out of the traces'
texts by each way, which is told apart. `--words 1` makes texts of one word that is repeated, which polars packs in
next to no time: then the ratio is told, and is no failure. Then 8,000 small files, and rows with objects of thousands
of keys that no value names, each in a process of its own: the script fails above 4 seconds of processor time, or 700
MB. Before all that, a file of 2,000 examples is imported in blocks and at once: both logs must hold the same rows.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from toolkit.answers import WAYS, read_answers
from toolkit.imports import import_table
from toolkit.imports.build import blocks
from toolkit.log import open_log

EXAMPLES = """
example_id = "id"
dataset = "'made'"
split = "'test'"
question = "question"
gold = "gold"
"""
MAPPING = f"""
[examples]{EXAMPLES}[traces]
pool = "'n8'"
sample_index = "sample"
model = "model"
text = "text"
answer = "answer"
completion_tokens = "tokens"
finish_reason = "finish"
[[verifiers]]
verifier = "'reward'"
score = "score"
"""
MOST_SECONDS, MOST_BYTES = 3.0, 1.5e9
SMALL_SECONDS, WIDE_BYTES = 4.0, 7e8
FILES, WIDE_FILES, KEYS = 8000, 35, 103
FOLDERS = (
    EXAMPLES
    + """[traces]
pool = "'n4'"
sample_index = "{index}"
model = "'m'"
answer = "answer"
"""
)
BATCH, WORDS = 1000, 5000


def make(path: Path, examples: int, vocabulary: int = WORDS, traces: int = 8, seed: int = 7) -> None:
    """Write samples, all of an example one after another, of so many words."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(vocabulary)]
    with path.open("w", encoding="utf-8") as handle:
        for start in range(0, examples, BATCH):
            rows = []
            for number in range(start, min(start + BATCH, examples)):
                question, gold = " ".join(rng.choices(words, k=20)), str(rng.randint(0, 999))
                for sample in range(traces):
                    answer = gold if rng.random() < 0.6 else str(rng.randint(0, 999))
                    text = " ".join(rng.choices(words, k=110)) + f" The answer is \\boxed{{{answer}}}.\n#### {answer}"
                    rows.append(json.dumps({
                        "id": f"e{number:07d}", "question": question, "gold": gold, "sample": sample, "model": "m",
                        "text": text, "answer": answer, "tokens": len(text) // 4, "score": rng.random(),
                        "finish": "stop",
                    }))  # fmt: skip
            handle.write("\n".join(rows) + "\n")


def make_small(folder: Path, rng: random.Random) -> None:
    """Write a small CSV file for each question, whose name is its id."""
    folder.mkdir()
    for number in range(FILES):
        rows = (f"what is {number},{rng.randint(0, 9)},{number % 10},{sample}\n" for sample in range(4))
        (folder / f"q{number:05}.csv").write_text("question,answer,gold,sample\n" + "".join(rows))


def make_wide(folder: Path, rng: random.Random) -> None:
    """Write JSON lines with an object of one field for each answer given, and lists of answers."""
    folder.mkdir()
    for file in range(WIDE_FILES):
        lines = []
        for number in range(100):
            votes = {f"answer {rng.randrange(KEYS)} of {file}": rng.random() for _ in range(6)}
            given = [str(rng.randint(0, 9)) for _ in range(20)]
            row = {"id": f"{file}/{number}", "question": f"what {number}", "gold": str(number % 10), "answers": given}
            lines.append(json.dumps({**row, "text": "x" * 1500, "votes": votes}))
        (folder / f"{file}.jsonl").write_text("\n".join(lines))


def folders(folder: Path) -> bool:
    """Whether small files, and files with objects that no value names, are imported within their limits."""
    rng, good = random.Random(1), True
    cases = (
        ("small", make_small, 'path = "{id}.csv"', "sample"),
        ("wide", make_wide, 'explode = { answer = "answers" }', "element"),
    )
    for name, made, top, index in cases:
        made(folder / name, rng)
        mapping = folder / f"{name}.toml"
        mapping.write_text(f"{top}\n[examples]{FOLDERS.format(index=index)}", encoding="utf-8")
        seconds, _, peak = measure("import", folder / name, folder / f"{name}.log", mapping)
        print(f"{name} files: {seconds:.2f} s of processor time, {peak / 1e6:.0f} MB at most")
        good &= peak <= WIDE_BYTES and (name == "wide" or seconds <= SMALL_SECONDS)
    return good


def check(folder: Path, mapping: Path) -> None:
    """A log that is imported in blocks holds the rows of one that is imported at once."""
    source, whole = folder / "small.jsonl", blocks.WHOLE_BYTES
    make(source, 2000)
    logs = {}
    for name, limit in (("blocks", -1), ("whole", 2**40)):
        blocks.WHOLE_BYTES = limit
        import_table([str(source)], mapping, folder / name)
        logs[name] = open_log(folder / name)
    blocks.WHOLE_BYTES = whole
    for table in logs["whole"].shards:
        key = "example_id" if table == "examples" else "trace_id"
        one, other = (log.scan(table).collect().sort(key) for log in logs.values())
        if not one.select(other.columns).equals(other):
            sys.exit(f"`{table}` differs between an import in blocks and one at once")


def measure(what: str, *arguments: object) -> tuple[float, float, float]:
    """Processor seconds, seconds and peak memory in bytes of this script's `--only what` in a process of its own."""
    command = [sys.executable, __file__, "--only", what, *map(str, arguments)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, wall, peak = map(float, told.stdout.split()[-3:])
    return seconds, wall, peak


def run(what: str, source: Path, out: Path, mapping: Path) -> None:
    """One measured piece of work, of which the last line printed tells the costs."""
    start, clock = time.process_time(), time.perf_counter()
    if what == "scan":
        pl.scan_ndjson(source).sink_parquet(out)
    else:
        import_table([str(source)], mapping, out)
    seconds, wall = time.process_time() - start, time.perf_counter() - clock
    print(seconds, wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def reading(source: Path, rows: int) -> None:
    """Processor seconds of each way to read answers out of texts."""
    texts = pl.scan_ndjson(source).select("text").head(rows).collect()["text"]
    for way in WAYS:
        start = time.process_time()
        found = read_answers(texts, [way], r"#### (\d+)" if way == "pattern" else None)
        seconds = time.process_time() - start
        size = texts.str.len_bytes().sum() / 1e6
        print(f"reading by `{way}`: {seconds:.2f} s for {len(texts):,} texts of {size:,.0f} MB;"
              f" {found.null_count():,} not found")  # fmt: skip


def main() -> None:
    """Make the file, check, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=200_000)
    parser.add_argument("--folders", action="store_true", help="measure the small and the wide files alone")
    parser.add_argument("--words", type=int, default=WORDS, help="how many different words the texts are made of")
    parser.add_argument("--source", type=Path, help="a file that an earlier run made with --keep")
    parser.add_argument("--keep", type=Path, help="keep the file that is made here")
    parser.add_argument("--only", nargs=4, metavar=("WHAT", "SOURCE", "OUT", "MAPPING"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        what, *places = options.only
        run(what, *map(Path, places))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        mapping = folder / "map.toml"
        mapping.write_text(MAPPING, encoding="utf-8")
        check(folder, mapping)
        if not folders(folder):
            sys.exit(f"folders took more than {SMALL_SECONDS:g} s of processor time, or {WIDE_BYTES / 1e6:.0f} MB")
        if options.folders:
            return
        source = options.source or options.keep or folder / "samples.jsonl"
        if options.source is None:
            make(source, options.examples, options.words)
        size = source.stat().st_size
        bare = measure("scan", source, folder / "bare.parquet", mapping)
        ours = measure("import", source, folder / "log", mapping)
        for name, (seconds, wall, peak) in (("scan and sink", bare), ("import", ours)):
            print(f"{name}: {seconds:.1f} s of processor time, {wall:.1f} s, {peak / 1e9:.2f} GB at most, of"
                  f" {size / 1e9:.2f} GB")  # fmt: skip
        print(f"ratio of processor time {ours[0] / bare[0]:.2f}")
        reading(source, 100_000)
    slow = ours[0] > MOST_SECONDS * bare[0] and options.words == WORDS
    if slow or ours[2] > MOST_BYTES:
        sys.exit(f"the import took more than {MOST_SECONDS:g} times the processor time, or {MOST_BYTES / 1e9:g} GB")


if __name__ == "__main__":
    main()
