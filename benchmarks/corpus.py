"""The index of a corpus of 1,000,000 passages of 100 words: processor seconds and peak memory.

Run with `python benchmarks/corpus.py`. Words are drawn by Zipf's law from a vocabulary of 500,000, numbers of their own
beside them. The index is built in a process of its own, and opened and searched in another one: the script fails where
either takes more than 8 GB. Before it, BM25 of a small corpus must equal the formula, word by word. With
`--neighbours N` the N nearest of each passage are found as well, exactly, in a time that grows with the square of the
passages.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from generate.retrieval.corpus import Corpus, open_corpus

MOST_BYTES = 8e9
WORDS, VOCABULARY, PART = 100, 500_000, 20_000
QUESTION = "w3 w70 w900 w20000"


def write_passages(path: Path, count: int) -> None:
    """JSON lines of `count` passages."""
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, PART):
            ranks = rng.zipf(1.1, (min(PART, count - start), WORDS)) % VOCABULARY
            for number, row in enumerate(ranks.tolist(), start):
                text = " ".join(f"w{rank}" for rank in row)
                file.write(f'{{"id": "p{number}", "title": "t{number}", "text": "{text}"}}\n')


def opened(path: Path) -> Corpus:
    """The corpus of a file, with its index."""
    return open_corpus(path, "benchmark")


def check_small(folder: Path, count: int = 300) -> None:
    """AssertionError where scores differ from Lucene's BM25 written as a loop."""
    path = folder / "small.jsonl"
    write_passages(path, count)
    frame, corpus = pl.read_ndjson(path), opened(path)
    bags = [f"{title} {text}".split() for title, text in frame.select("title", "text").iter_rows()]
    mean = sum(map(len, bags)) / count
    scores = []
    for bag in bags:
        score = 0.0
        for word in QUESTION.split():
            having, times = sum(word in other for other in bags), bag.count(word)
            weight = math.log(1 + (count - having + 0.5) / (having + 0.5))
            score += weight * times / (times + 1.5 * (0.25 + 0.75 * len(bag) / mean))
        scores.append(score)
    wanted = sorted((-score, place) for place, score in enumerate(scores) if score > 0)[:10]
    ids, found, _ = corpus.search(QUESTION, 10)
    assert list(ids) == [f"p{place}" for _, place in wanted]
    assert np.allclose(found, [-score for score, _ in wanted], rtol=1e-5)


def run_part(name: str, path: Path, neighbours: int) -> None:
    """Does one part in this process, and prints its seconds and its peak memory. SystemExit above 8 GB."""
    began = time.process_time()
    corpus = opened(path)
    if name == "search":
        for _ in range(20):
            corpus.search(QUESTION, 100)
    if name == "neighbours":
        corpus.neighbours(["p0"], neighbours)
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = used.ru_maxrss * 1024
    print(f"{name}: {time.process_time() - began:,.1f} s of processor time, peak {peak / 2**30:.2f} GiB", flush=True)
    if peak > MOST_BYTES:
        raise SystemExit(f"{name} takes more than {MOST_BYTES / 1e9:.0f} GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--neighbours", type=int, default=0)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        run_part(given.part, given.path, given.neighbours)
        return
    with tempfile.TemporaryDirectory() as folder:
        check_small(Path(folder))
        path = Path(folder) / "passages.jsonl"
        write_passages(path, given.passages)
        print(f"{given.passages:,} passages, {path.stat().st_size / 2**30:.2f} GiB", flush=True)
        for part in ("index", "search", *(["neighbours"] if given.neighbours else [])):
            more = ["--part", part, "--path", str(path), "--neighbours", str(given.neighbours)]
            subprocess.run([sys.executable, __file__, *more], check=True)


if __name__ == "__main__":
    main()
