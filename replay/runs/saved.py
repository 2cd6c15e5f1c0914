"""A result on disk: one versioned format, which `load` reads back whole. docs/results.md describes its files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replay.runs.example_set import ExampleSet, label_codes, resampling_units
from replay.runs.found import OUTCOMES, Found, Judge
from replay.runs.provenance import PolicyRecord, write_record
from replay.runs.store import KEYS
from toolkit import documents
from toolkit.columns import OutcomeColumn
from toolkit.errors import ThinkbackError, first_line, shown
from toolkit.notes import Note, Severity
from toolkit.stats import Settings, Summary, unit_numbers
from toolkit.stats.kept import Floats, Keeper
from toolkit.stats.outcomes import KeptPiece, Key, Piece, Store

FORMAT, VERSION = "thinkback result", 1
RECORD, RUN = "result.json", "run.json"
FRAMES = ("summary", "comparisons", "seconds", "thresholds", "bands", "summary_by", "comparisons_by", "examples")


def write_found(result: Found, folder: Path, examples: pl.DataFrame) -> None:
    """Write a result into a folder: outcomes and frames as Parquet, and what they mean as JSON; `examples` as they are
    to be saved.
    """
    folder.mkdir(parents=True, exist_ok=True)
    result.write_outcomes(folder / OUTCOMES)
    frames: dict[str, pl.DataFrame | None] = {
        "summary": result.summary,
        "comparisons": result.comparisons,
        "seconds": result.seconds,
        "thresholds": result.thresholds,
        "bands": result.bands,
        "summary_by": result.by_summary,
        "comparisons_by": result.by_comparisons,
        "examples": examples,
    }
    for name, frame in frames.items():
        if frame is not None:
            frame.write_parquet(folder / f"{name}.parquet")
        else:
            (folder / f"{name}.parquet").unlink(missing_ok=True)  # of an earlier run that had it
    text = json.dumps(_record(result), ensure_ascii=False, default=str)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")
    write_record(folder, result.provenance)


def _record(result: Found) -> dict[str, Any]:
    """Everything that is no frame."""
    judge = result.judge
    return {
        "format": FORMAT,
        "version": VERSION,
        "metric": judge.metric,
        "cost": judge.cost,
        "baseline": judge.baseline,
        "by": list(result.by),
        "simulated": result.simulated,
        "settings": asdict(judge.settings),
        "labels": None if judge.outcomes.labels is None else list(judge.outcomes.labels),
        "statistics": _statistics(result.statistics),
        "groups": [{"values": list(group), **_statistics(one)} for group, one in result.groups.items()],
        "notes": [note.record() for note in result.notes],
        "dropped": dict(result.dropped),
        "excluded": dict(result.excluded),
        "columns": [asdict(column) for column in judge.columns],
        "policies": [{**vars(policy), "settings": None} for policy in judge.policies],  # which run.json has
    }


def _statistics(made: Summary) -> dict[str, Any]:
    notes = [note.record() for note in made.notes]
    return {"leader": made.leader, "n": made.n, "judged": made.judged, "seconds": made.seconds, "notes": notes}


@dataclass(frozen=True, eq=False)
class SavedOutcomes:
    """The outcomes in a file, of examples in the same order."""

    path: Path
    examples: ExampleSet
    policies: int

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels that F1 is about."""
        return self.examples.labels

    def write(self, path: Path) -> None:
        """A copy of the file."""
        if path.resolve() != self.path.resolve():
            shutil.copyfile(self.path, path)

    def statistics(self, ids: pl.Series | None = None) -> Store:
        """What the statistics read, of the examples in `ids` or of all."""
        frame = self.examples.frame
        kept = frame if ids is None else frame.filter(pl.col("example_id").is_in(ids.implode()))
        gold, unit = self.examples.gold_codes(kept), unit_numbers(resampling_units(kept))
        names = [name for name in pl.read_parquet_schema(self.path) if name not in KEYS]
        return Store(list(self._pieces(names, ids)), unit, gold, self.policies, names)

    def _pieces(self, names: list[str], ids: pl.Series | None) -> Iterator[Piece]:
        import pyarrow.parquet as pq

        keeper = Keeper()
        with pq.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups):
                rows = pl.DataFrame(pl.from_arrow(file.read_row_group(group)))
                rows = rows if ids is None else rows.filter(pl.col("example_id").is_in(ids.implode()))
                if len(rows):
                    size = len(rows) // self.policies
                    slabs: dict[Key, Any] = {
                        name: keeper.keep(rows[name].fill_null(np.nan).to_numpy().reshape(self.policies, size))
                        for name in names
                    }
                    for label, shares in enumerate(_label_shares(rows, self.labels or ())):
                        slabs[label] = keeper.keep(shares.reshape(self.policies, size))
                    yield KeptPiece(size, slabs, keeper)


def _label_shares(rows: pl.DataFrame, labels: tuple[str, ...]) -> Floats:
    """Share of each label among the predictions: float (L, rows)."""
    shares = np.zeros((len(labels), len(rows)))
    if not labels:
        return shares
    codes = rows.select(label_codes("answer", labels)).to_series()
    on = np.flatnonzero(codes.is_not_null().to_numpy())
    shares[codes.drop_nulls().to_numpy(), on] = 1.0
    several = rows.select("answers").with_row_index("row").drop_nulls("answers").explode("answers").unnest("answers")
    told = several.with_columns(code=label_codes("answer", labels)).drop_nulls("code")
    np.add.at(shares, (told["code"].to_numpy(), told["row"].to_numpy()), told["share"].to_numpy())
    return shares


def read_found(address: str | Path) -> dict[str, Any]:
    """The fields of a result that was saved.

    Raises ThinkbackError where there is none, it is damaged, or it was written by a newer version.
    """
    folder = Path(address).expanduser()
    if not (folder / RECORD).is_file():
        why = "no such folder" if not folder.exists() else f"it holds no `{RECORD}`"
        raise ThinkbackError(f"`{address}` is no saved result: {why}; `thinkback replay … --out DIR` writes one")
    where = f"`{folder / RECORD}`"
    record = documents.parse_json(documents.read_text(folder / RECORD, where), where)
    if not isinstance(record, Mapping) or record.get("format") != FORMAT:
        raise ThinkbackError(f"{where} is no record of a result: replay again")
    if not isinstance(record.get("version"), int) or record["version"] > VERSION:
        raise ThinkbackError(
            f"{where} has version {shown(record.get('version'))}, this program reads up to {VERSION}: upgrade thinkback"
        )
    try:
        return _loaded(folder, record)
    except (pl.exceptions.PolarsError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ThinkbackError(f"the result in `{folder}` is damaged ({first_line(error)}): replay again") from None


def _loaded(folder: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    frames = {
        name: pl.read_parquet(folder / f"{name}.parquet") if (folder / f"{name}.parquet").exists() else None
        for name in FRAMES
    }
    summary, comparisons, examples = (frames[name] for name in ("summary", "comparisons", "examples"))
    if summary is None or comparisons is None or examples is None or not (folder / OUTCOMES).is_file():
        raise ValueError("a file of it is missing")
    labels = None if record["labels"] is None else tuple(record["labels"])
    where = f"`{folder / RUN}`"
    provenance = documents.parse_json(documents.read_text(folder / RUN, where), where)
    told = zip(record["policies"], provenance["policies"], strict=True)
    policies = tuple(_policy({**one, "settings": settings}) for one, settings in told)
    judge = Judge(
        outcomes=SavedOutcomes(folder / OUTCOMES, ExampleSet(examples, labels), len(policies)),
        policies=policies,
        metric=record["metric"],
        cost=record["cost"],
        baseline=record["baseline"],
        columns=tuple(_column(one) for one in record["columns"]),
        settings=Settings(**record["settings"]),
    )
    by, groups = tuple(record["by"]), {}
    for one in record["groups"]:
        values = [None if value is None else str(value) for value in one["values"]]
        own = [pl.col(name).eq_missing(pl.lit(value)) for name, value in zip(by, values, strict=True)]
        made, compared = (frame.filter(own).drop(by) for frame in _both(frames))
        groups[tuple(one["values"])] = _summary(made, compared, judge.metric, one)
    return {
        "judge": judge,
        "statistics": _summary(summary, comparisons, judge.metric, record["statistics"]),
        "groups": groups,
        "by": by,
        "dropped": record["dropped"],
        "excluded": record["excluded"],
        "notes": tuple(map(_note, record["notes"])),
        "simulated": record["simulated"],
        "provenance": provenance,
        "thresholds": frames["thresholds"],
        "bands": frames["bands"],
        "examples": examples,
        "folder": folder,
    }


def _both(frames: Mapping[str, pl.DataFrame | None]) -> list[pl.DataFrame]:
    """The frames of groups."""
    return [frame for name in ("summary_by", "comparisons_by") if (frame := frames[name]) is not None]


def _summary(summary: pl.DataFrame, comparisons: pl.DataFrame, metric: str, told: Mapping[str, Any]) -> Summary:
    notes = tuple(map(_note, told["notes"]))
    return Summary(summary, comparisons, metric, told["leader"], told["n"], told["judged"], told["seconds"], notes)


def _note(record: Mapping[str, Any]) -> Note:
    policies, metrics = tuple(record["policies"]), tuple(record["metrics"])
    return Note(record["code"], record["text"], Severity(record["severity"]), policies, metrics)


def _policy(record: Mapping[str, Any]) -> PolicyRecord:
    return replace(PolicyRecord(**record), swept=tuple((key, value) for key, value in record["swept"]))


def _column(record: Mapping[str, Any]) -> OutcomeColumn:
    return OutcomeColumn(**{**record, "ratio": tuple(record["ratio"])})
