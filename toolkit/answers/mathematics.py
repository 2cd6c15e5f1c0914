"""Judging mathematical answers with the package `math-verify`, under a time limit that holds, with a cache.

Equivalence of expressions has no bound on time or memory, and the package limits itself by signals, which work neither
in threads nor inside one long multiplication. So comparisons run in processes of their own: one that overruns is killed
and another takes its place. Its comparison is *timed out*; one that raises an error is *failed*. Both count as "not the
same" and are reported, since an example must be judged for all of its answers or for none.

The rules, each decided once:

* equal strings are the same, and two integers in normal form are the same only then; all else is asked of
  math-verify, reference first (it is not symmetric), with its own defaults;
* a null answer is wrong; without a reference there is no verdict;
* the right answers of one example are equivalent, for each equals the reference; the wrong ones are compared with the
  first member of each group of wrong ones so far, and join the first that is the same;
* a group gets one string, that of its earliest member in the order of the rows.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import queue
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from toolkit.errors import FormatError, InvalidError, MismatchError, PackageError, RequiredError, WriteError

LIMIT_S = 5.0
START_LIMIT_S = 120.0
LONGEST = 2_000
"""Most characters of an answer; a longer text equals only itself."""
SAME, DIFFERENT, TIMED_OUT, FAILED = "same", "different", "timed out", "failed"

_WORKER = Path(__file__).with_name("mathematics_worker.py")
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
Pair = tuple[str, str]


@dataclass(frozen=True)
class _JudgedAnswers:
    """The judged rows, with `answer` (one string for equivalent answers) and `correct`, and counts of the comparisons.

    `merged` counts the distinct answers of an example that took the string of another, `rewritten` the rows.
    `comparisons` were computed and `cached` ones read from the cache; `timed_out` and `failed` count those of both that
    gave no verdict.
    """

    frame: pl.DataFrame
    merged: int
    rewritten: int
    comparisons: int
    cached: int
    timed_out: int
    failed: int

    def __str__(self) -> str:
        return (
            f"{self.merged:,} equivalent answers merged ({self.rewritten:,} traces); {self.comparisons:,} comparisons,"
            f" {self.cached:,} from the cache, {self.timed_out:,} timed out, {self.failed:,} failed"
        )


class Mathematics:
    """A judge that compares expressions in `workers` processes, each within `limit_s` seconds. Use it in a `with`.

    `cache` is a file (SQLite) that remembers comparisons by both texts and the version of math-verify; several
    processes may share it. A time-out is remembered with its limit and asked again under a longer one.
    Raises ThinkbackError where math-verify is not installed or the cache is not such a file.
    """

    def __init__(self, limit_s: float = LIMIT_S, workers: int = 2, cache: str | Path | None = None) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise PackageError(
                "judging mathematical answers needs the package math-verify: pip install 'thinkback[mathematics]'"
            )
        if limit_s <= 0 or workers < 1:
            raise InvalidError(f"`limit_s` ({limit_s}) must be above 0 and `workers` ({workers}) at least 1")
        self.limit_s = limit_s
        self.comparisons = self.cached = 0
        self._memory: dict[Pair, str] = {}
        self._cache = _VerdictCache(Path(cache), limit_s) if cache is not None else None
        self._idle: queue.SimpleQueue[_CompareWorker] = queue.SimpleQueue()
        self._workers = [_CompareWorker() for _ in range(workers)]
        for worker in self._workers:
            self._idle.put(worker)

    def __enter__(self) -> Mathematics:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        if self._cache is not None:
            self._cache.close()

    def compare(self, pairs: Iterable[Pair]) -> dict[Pair, str]:
        """The verdict on each pair (reference, answer): `same`, `different`, `timed out` or `failed`."""
        wanted = list(dict.fromkeys(pairs))
        verdicts = {
            pair: known for pair in wanted if (known := _plain_verdict(*pair) or self._memory.get(pair)) is not None
        }
        open_ = [pair for pair in wanted if pair not in verdicts]
        if self._cache is not None:
            remembered = self._cache.stored_verdicts(open_)
            self.cached += len(remembered)
            verdicts |= remembered
            open_ = [pair for pair in open_ if pair not in remembered]
        self.comparisons += len(open_)
        with ThreadPoolExecutor(len(self._workers)) as pool:
            for pair, verdict in zip(open_, pool.map(self._compare_in_worker, open_), strict=True):
                verdicts[pair] = verdict
                if self._cache is not None:
                    self._cache.store_verdict(pair, verdict)
        self._memory |= verdicts
        return {pair: verdicts[pair] for pair in wanted}

    def _compare_in_worker(self, pair: Pair) -> str:
        worker = self._idle.get()
        try:
            return worker.compare(pair, self.limit_s)
        finally:
            self._idle.put(worker)


def count_verdicts(cache: str | Path) -> dict[str, int]:
    """The number of comparisons in a cache file by verdict; empty where the file does not exist yet."""
    verdicts = dict.fromkeys((SAME, DIFFERENT, TIMED_OUT, FAILED), 0)
    if not Path(cache).exists():
        return verdicts
    try:
        with contextlib.closing(sqlite3.connect(cache, timeout=60)) as database:
            counted = database.execute("select verdict, count(*) from comparisons group by verdict").fetchall()
    except sqlite3.Error as error:
        raise FormatError(f"`{cache}` can't serve as the cache of comparisons: {error}") from None
    return verdicts | dict(counted)


def judge_mathematics(rows: pl.DataFrame, judge: Mathematics) -> _JudgedAnswers:
    """Judges the `answer` of each row against its `gold`, and gives equivalent answers of an `example_id` one string.

    The frame comes back in its order, with all its columns; "earliest" is by that order.
    """
    for column in ("example_id", "answer", "gold"):
        if column not in rows.columns:
            raise RequiredError(f"judging mathematical answers needs the column `{column}`, which the rows lack")
    texts = rows.select("example_id", pl.col("answer", "gold").cast(pl.String))
    examples = [_example_answers(name[0], part) for name, part in texts.group_by("example_id", maintain_order=True)]
    before, cached = judge.comparisons, judge.cached
    seen = judge.compare((gold, answer) for _, gold, answers in examples if gold is not None for answer in answers)
    verdicts = dict(seen)
    wrong = [[one for one in answers if gold is None or seen[(gold, one)] != SAME] for _, gold, answers in examples]
    canonical = _group_answers(wrong, judge, verdicts)
    records: list[tuple[str, str, str | None, bool | None]] = []
    for (name, gold, answers), heads in zip(examples, canonical, strict=True):
        right = next((answer for answer in answers if answer not in heads), None)
        for answer in answers:
            records.append((name, answer, heads.get(answer, right), None if gold is None else answer not in heads))
    schema = texts.drop("gold").schema | {"_string": pl.String(), "_right": pl.Boolean()}
    table = pl.DataFrame(records, schema, orient="row")
    answered = rows.with_columns(texts["answer"])
    joined = answered.join(table, on=["example_id", "answer"], how="left", maintain_order="left")
    changed = int((joined["answer"] != joined["_string"]).sum() or 0)
    judged = pl.when(pl.col("gold").is_not_null()).then(pl.col("_right").fill_null(False)).alias("correct")
    frame = joined.with_columns(judged, answer=pl.col("_string")).drop("_string", "_right")
    ends = list(verdicts.values())
    merged = int((table["answer"] != table["_string"]).sum())
    timed_out, failed = ends.count(TIMED_OUT), ends.count(FAILED)
    return _JudgedAnswers(frame, merged, changed, judge.comparisons - before, judge.cached - cached, timed_out, failed)


def _example_answers(name: str, part: pl.DataFrame) -> tuple[str, str | None, list[str]]:
    """(example, reference, its distinct answers in order) of an example's rows."""
    golds = part["gold"].unique().to_list()
    if len(golds) > 1:
        raise MismatchError(f"example `{name}` has {len(golds)} different values of `gold`")
    return name, golds[0], part["answer"].drop_nulls().unique(maintain_order=True).to_list()


def _group_answers(
    examples: Sequence[Sequence[str]], judge: Mathematics, verdicts: dict[Pair, str]
) -> list[dict[str, str]]:
    """Each example's answers, and the answer that stands for each: the first of those that are equivalent.

    Round by round: in each every example asks about its next answer against all groups so far, so that the processes
    of `judge` have work from many examples at once.
    """
    groups: list[dict[str, str]] = [{} for _ in examples]
    heads: list[list[str]] = [[] for _ in examples]
    place = 0
    while going := [number for number, answers in enumerate(examples) if len(answers) > place]:
        pairs = [(head, examples[number][place]) for number in going for head in heads[number]]
        verdicts |= judge.compare(pairs)
        for number in going:
            answer = examples[number][place]
            groups[number][answer] = next((one for one in heads[number] if verdicts[(one, answer)] == SAME), answer)
            if groups[number][answer] == answer:
                heads[number].append(answer)
        place += 1
    return groups


def _plain_verdict(reference: str, answer: str) -> str | None:
    """The verdict on a pair that needs no computing: equal strings, integers, texts too long for answers. Else None."""
    if reference == answer:
        return SAME
    if _WHOLE.fullmatch(reference) and _WHOLE.fullmatch(answer):
        return DIFFERENT
    return DIFFERENT if max(len(reference), len(answer)) > LONGEST else None


class _CompareWorker:
    """One worker process that compares expressions. It starts at its first comparison, and again after its death."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._number = 0

    def compare(self, pair: Pair, limit_s: float) -> str:
        if self._process is None:
            self._start()
        self._number += 1
        reply, overran = self._send_request(json.dumps([self._number, *pair, limit_s]), limit_s)
        number, same = (None, None) if reply is None else json.loads(reply)
        if number != self._number:
            self.stop()
            return TIMED_OUT if overran else FAILED
        return FAILED if same is None else SAME if same else DIFFERENT

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # a request that never left the buffer of a dead process
                if stream is not None:
                    stream.close()

    def _start(self) -> None:
        # -P: the file's own folder must not come first on the path, where `numbers.py` would hide Python's.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        reply, overran = self._send_request(None, START_LIMIT_S)
        if reply is None:
            self.stop()
            how = f"did not start within {START_LIMIT_S:g} s" if overran else "ended at its start"
            raise PackageError(f"the process that runs math-verify {how}: try `python -c 'import math_verify'`")

    def _send_request(self, request: str | None, limit_s: float) -> tuple[str | None, bool]:
        """Sends a request: (its reply, or None without; whether time ran out). Killing the process ends the wait."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None, False
        overran = threading.Event()

        def kill_on_timeout() -> None:
            overran.set()
            process.kill()

        timer = threading.Timer(limit_s, kill_on_timeout)
        timer.daemon = True
        timer.start()
        try:
            if request is not None:
                process.stdin.write(request + "\n")
                process.stdin.flush()
            reply = process.stdout.readline()
        except OSError:
            reply = ""
        finally:
            timer.cancel()
        return (reply if reply.endswith("\n") and not overran.is_set() else None), overran.is_set()


class _VerdictCache:
    """A file that stores comparisons with their verdicts."""

    def __init__(self, path: Path, limit_s: float) -> None:
        self._path = path
        self._limit_s = limit_s
        self._version = importlib.metadata.version("math-verify")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            self._database.execute(
                "create table if not exists comparisons (reference text, answer text, version text, verdict text,"
                " limit_s real, primary key (reference, answer, version)) without rowid"
            )
        except (sqlite3.Error, OSError) as error:
            raise FormatError(f"`{path}` can't serve as the cache of comparisons: {error}") from None

    def stored_verdicts(self, pairs: Sequence[Pair]) -> dict[Pair, str]:
        verdicts = {}
        for pair in pairs:
            row = self._database.execute(
                "select verdict, limit_s from comparisons where reference = ? and answer = ? and version = ?",
                (*pair, self._version),
            ).fetchone()
            if row is not None and (row[0] != TIMED_OUT or row[1] >= self._limit_s):
                verdicts[pair] = row[0]
        return verdicts

    def store_verdict(self, pair: Pair, verdict: str) -> None:
        row = (*pair, self._version, verdict, self._limit_s)
        try:
            self._database.execute("insert or replace into comparisons values (?, ?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            raise WriteError(f"cannot write the cache of comparisons `{self._path}`: {error}") from None

    def close(self) -> None:
        self._database.close()
