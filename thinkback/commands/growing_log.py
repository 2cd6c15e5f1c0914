"""The state of a log that is being generated, for `thinkback dashboard --serve`: what its run says of itself, and the
accuracies of what is complete, which are computed beside it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from generate.journal.progress import RunProgress
    from replay.runs.result.growing import AccuracyFollower, AccuracyLook

SILENT_S = 60.0
"""Seconds without news after which a run is said to be silent."""
REST = 4
"""How many times as long as a look took nothing is computed: looks take at most a fifth of a core."""
LEAST_REST_S = 2.0


@dataclass
class GrowingLog:
    """A log's folder as it grows. `follow` looks again when a shard or the manifest came; `state` is what is known."""

    folder: Path
    follower: AccuracyFollower
    look: AccuracyLook | None = None
    totals: Mapping[str, Any] = field(default_factory=dict)
    waits: str = "No question is complete yet."
    lock: Lock = field(default_factory=Lock)

    def follow(self, stop: Event) -> None:
        """Look at the log again and again, until `stop` is set."""
        seen: tuple[Any, ...] = ()
        while not stop.is_set():
            begun = time.monotonic()
            now = self._files()
            if now and now != seen and self.update():
                seen = now
            stop.wait(max(LEAST_REST_S, REST * (time.monotonic() - begun)))

    def _files(self) -> tuple[Any, ...]:
        """The names, sizes and times of the shards and of the manifest that are there."""
        from toolkit.log.read.locating import is_shard

        files = []
        for path in (self.folder / "manifest.json", *filter(lambda one: is_shard(one.name), self.folder.glob("*/*"))):
            with suppress(OSError):  # it went since it was listed
                status = path.stat()
                files.append((str(path), status.st_size, status.st_mtime_ns))
        return tuple(sorted(files))

    def update(self) -> bool:
        """Look at the log once; whether nothing was in the way. What is stands in `waits`; the earlier look stays."""
        from toolkit.errors import ThinkbackError

        try:
            totals = self._totals()
            with self.lock:
                self.totals = totals
            look = self.follower.look(str(self.folder))
        except Exception as error:  # as where a log is sealed at this moment; the page shows it, and the next look is
            reason = str(error) if isinstance(error, ThinkbackError | OSError) else f"{type(error).__name__}: {error}"
            with self.lock:
                self.waits = f"No accuracy yet: {reason}."
            return False
        with self.lock:
            self.look, self.waits = look, ""
        return True

    def _totals(self) -> dict[str, Any]:
        """What the rows of the log add up to, for a run that says nothing of itself."""
        import polars as pl

        from toolkit.log import collect, open_log

        log = open_log(str(self.folder))
        names = ["prompt_tokens", "completion_tokens", "cost"]
        sums = [pl.col(name).sum() for name in names]
        known = [pl.col(name).is_not_null().any().alias(f"{name}_known") for name in names]
        row = collect(log.scan("traces", names).select(pl.len().alias("traces"), *sums, *known), log).row(0, named=True)
        totals = {name: row[name] if row[f"{name}_known"] else None for name in names}
        manifest = log.manifest
        source = manifest.source if manifest is not None and isinstance(manifest.source, Mapping) else {}
        failures = source.get("failures", ())
        return totals | {"traces": row["traces"], "sealed": manifest is not None, "failures": failures}

    def state(self) -> dict[str, Any]:
        """What the page shows, as plain data."""
        from generate.journal.progress import read_progress

        progress = None if (self.folder / "manifest.json").exists() else read_progress(self.folder)
        with self.lock:
            look, totals, waits = self.look, self.totals, self.waits
        state: dict[str, Any] = {
            "traces": totals.get("traces", 0), "expected": None, "per_minute": None, "left_s": None, "currency": None,
            "failures": _failures_of_manifest(totals.get("failures", ())),
            "examples": look.examples if look is not None else 0,
            "policies": [asdict(policy) for policy in look.policies] if look is not None else [],
            "notes": list(look.notes) if look is not None else [], "level": self.follower.level, "waits": waits,
        }  # fmt: skip
        state |= {name: totals.get(name) for name in ("prompt_tokens", "completion_tokens", "cost")}
        if progress is not None:
            state |= _state_of_run(progress)
        state["status"] = _status(progress, totals)
        return state


def _state_of_run(progress: RunProgress) -> dict[str, Any]:
    rate, left = progress.per_minute, max(0, progress.expected - progress.traces)
    return {
        "traces": progress.traces, "expected": progress.expected, "cost": progress.cost, "currency": progress.currency,
        "prompt_tokens": progress.prompt_tokens or None, "completion_tokens": progress.completion_tokens or None,
        "per_minute": rate if progress.running else None,
        "left_s": 60 * left / rate if progress.running and rate > 0 else None,
        "failures": [asdict(failure) for failure in progress.failures],
    }  # fmt: skip


def _failures_of_manifest(failures: Any) -> list[dict[str, Any]]:
    """The failed calls of a sealed log, by their reason."""
    counts: dict[str, int] = {}
    for failure in failures:
        reason = str(failure.get("reason", "")) if isinstance(failure, Mapping) else str(failure)
        counts[reason] = counts.get(reason, 0) + 1
    return [{"cause": "failed", "calls": n, "reason": reason, "again": False} for reason, n in counts.items()]


def _status(progress: RunProgress | None, totals: Mapping[str, Any]) -> str:
    """How the run is, in a sentence."""
    if progress is None:
        if totals.get("sealed"):
            return "The log is complete."
        return "The log is not sealed, and no run says how far it is." if totals else "Nothing is there yet."
    silent = time.time() - progress.updated_at
    if not progress.running:
        return "The run has stopped before its end: run the same command again."
    if silent > SILENT_S:
        return f"The run has said nothing for {silent / 60:.0f} minutes: its calls take long, or it was killed."
    return "The run is on its way."
