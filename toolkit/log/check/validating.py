"""The validation of a log: files, then columns, then values, then relations between rows.

Memory is bounded: values are checked in one streaming pass per table, relations in blocks of examples.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import polars as pl

from toolkit.log.check.faults import Faults
from toolkit.log.check.relations import check_relations
from toolkit.log.check.values import check_states, check_values
from toolkit.log.contract.problems import UNFINISHED, LogError, Problem, Report, raise_first
from toolkit.log.contract.schema import HIDDEN, check_table, kind_of
from toolkit.log.read.checked_shards import known_shards, remember_shards
from toolkit.log.read.log import Log

REPLAYED = ("examples", "traces", "verifications", "features")


def validate(log: Log) -> Report:
    """Checks everything that the contract promises, with the shards' hashes; see `toolkit.log.validate_log`. A sealed
    log without a problem is remembered in the user's cache, where `check_log` looks it up.
    """
    if not log.shards:
        message = f"holds no tables: nothing is there to validate; {UNFINISHED}"
        return Report((Problem(log.address, None, None, message, "empty"),), tuple(log.warnings))
    report = _examine_tables(log, tuple(log.shards), deep=True)
    if report.ok:
        remember_shards(_cached_rows(log, tuple(log.shards)))
    return report


def check_log(log: Log, tables: Sequence[str] = REPLAYED) -> None:
    """Raises LogError with the first problem in `tables`. Texts of an unsealed log are not read. Sealed logs that
    passed before are in the user's cache and skipped.
    """
    for table in tables:
        check_table(table)
    wanted = tuple(t for t in log.shards if t in tables)
    rows = _cached_rows(log, wanted)
    if known_shards(rows | _cached_rows(log, tuple(log.shards))):  # where all tables are sound, each of them is
        faults = Faults(log)
        for table in wanted:
            _files_are_sound(faults, table, deep=False)
        problems = faults.problems()
    else:
        problems = _examine_tables(log, wanted, deep=False).problems
    raise_first(problems)
    remember_shards(rows)


def _cached_rows(log: Log, tables: tuple[str, ...]) -> dict[str, str]:
    """The cache's entry for the rows of some tables of a sealed log: their content and the checks by version. There is
    none for an unsealed log.
    """
    names = ", ".join(table for table in log.shards if table in tables)
    return {f"rows of {names} sealed as {log.digest()}": checks_version()} if log.sealed else {}


@cache
def checks_version() -> str:
    """The SHA-256 of the code that checks and reads, and the version of polars. Where one of them changes, logs that
    are cached as sound are checked again.
    """
    room = Path(__file__).parents[1]
    files = sorted(path for name in ("check", "contract", "read") for path in (room / name).glob("*.py"))
    code = hashlib.sha256(pl.__version__.encode())
    for path in files:
        code.update(path.read_bytes())
    return code.hexdigest()


def _examine_tables(log: Log, tables: tuple[str, ...], deep: bool) -> Report:
    faults = Faults(log)
    notes = [] if log.sealed else ["the log is unsealed: it has no manifest, so its files can't be verified; seal it"]
    notes += log.warnings
    sound = [table for table in tables if _files_are_sound(faults, table, deep)]
    sound = [table for table in sound if _columns_are_sound(faults, table)]
    for table in sound:
        check_values(faults, table)
        if kind_of(table) == HIDDEN:
            notes += check_states(faults, table)
    others = [t for t in ("examples", "traces") if t not in tables]
    known = sound + [t for t in others if log.has(t) and _is_sound_for_lookup(log, t)]
    notes += check_relations(faults, sound, known)
    return Report(faults.problems(), tuple(notes))


def _files_are_sound(faults: Faults, table: str, deep: bool) -> bool:
    """Whether a table's shards exist, are whole and are as sealed. `deep` reads every page, cached or not."""
    before, log = len(faults.fixed), faults.log
    with contextlib.suppress(LogError):  # side by side; what fails is told below, each by its name
        log.footers(table)
    whole = []
    for shard in log.shards[table]:
        try:
            footer = log.footer(shard)
        except LogError as error:
            faults.add_fault(error.problem or Problem(shard.file, None, None, str(error), error.code))
            continue
        if shard.rows is not None and shard.rows != footer.rows:
            message = f"holds {footer.rows:,} rows, the manifest says {shard.rows:,}: restore the file, or seal again"
            faults.add_fault(Problem(shard.file, None, None, message, "row-count"))
        else:
            whole.append(footer)
    problems = list(log.sound_bytes.problems(whole, None if deep else (), anew=deep))
    if deep:  # a hash may have been taken of damaged bytes
        altered = {problem.file for problem in problems}
        sealed = (f for f in whole if f.shard.sha256 and f.shard.file not in altered)
        problems += filter(None, map(log.sound_bytes.read_all, sealed))
    faults.fixed += problems
    return len(faults.fixed) == before


def _columns_are_sound(faults: Faults, table: str) -> bool:
    first: dict[str | None, Problem] = {}
    for problem in faults.log.reading_problems(table):
        first.setdefault(problem.column, problem)
    faults.fixed += first.values()
    return not first


def _is_sound_for_lookup(log: Log, table: str) -> bool:
    """Whether a table that is not checked itself is sound enough to look ids up in."""
    try:
        return next(log.reading_problems(table, ["example_id"]), None) is None
    except LogError:
        return False
