"""A result on disk: one versioned format, which `read_found` reads back whole, and which pickles hold.

docs/results.md describes its files.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from replay.runs.passes.example_set import ExampleSet, groups_of, label_codes
from replay.runs.passes.store import KEYS
from replay.runs.saved.findings import OUTCOMES, Findings, Scratch, Summariser
from replay.runs.saved.provenance import PolicyRecord, write_record
from replay.runs.saved.saved_folder import RUN, SavedFolder, read_sealed, write_sealed
from toolkit import documents
from toolkit.columns import OutcomeColumn
from toolkit.errors import FormatError, WriteError, first_line
from toolkit.notes import Note, Severity
from toolkit.stats import Settings, Summary
from toolkit.stats.metrics.outcomes import ANSWER, Key, Part, Store
from toolkit.stats.metrics.spill import Floats, Ints, Keeper, SpilledTable

if TYPE_CHECKING:
    import pyarrow.parquet as pq


FRAMES = {
    **{name: name for name in ("summary", "comparisons", "ranks", "seconds", "thresholds", "bands", "examples")},
    **{f"{name}_by": f"by_{name}" for name in ("summary", "comparisons", "ranks")},
}
"""Frames of a result by the names of their files."""
STATISTICS = ("summary", "comparisons", "ranks")
INFINITE = {"inf": float("inf"), "-inf": float("-inf")}


def write_findings(result: Findings, folder: Path, examples: pl.DataFrame) -> None:
    """Write a result into an empty folder: outcomes and frames as Parquet; `examples` as they are to be saved."""
    result.summariser.outcomes.write(folder / OUTCOMES)
    for name, attribute in FRAMES.items():
        frame = examples if name == "examples" else getattr(result, attribute)
        if frame is not None:
            frame.write_parquet(folder / f"{name}.parquet")
    write_record(folder, result.provenance)


def seal_findings(result: Findings, folder: Path) -> None:
    """Write what is no frame, once all other files lie in the folder."""
    summariser = result.summariser
    record = {
        "metric": summariser.metric,
        "cost": summariser.cost,
        "baseline": summariser.baseline,
        "by": list(result.by),
        "simulated": result.simulated,
        "settings": asdict(summariser.settings),
        "labels": None if summariser.outcomes.labels is None else list(summariser.outcomes.labels),
        "strata": summariser.outcomes.examples.strata,
        "weights": summariser.outcomes.examples.weights,
        "statistics": _statistics(result.statistics),
        "groups": [_statistics(one) for one in result.groups.values()],
        "notes": [note.record() for note in result.notes],
        "dropped": dict(result.dropped),
        "excluded": dict(result.excluded),
        "columns": [asdict(column) for column in summariser.columns],
        "policies": [{**vars(policy), "settings": None} for policy in summariser.policies],  # which run.json has
    }
    write_sealed(folder, record)


def _statistics(summary: Summary) -> dict[str, Any]:
    notes = [note.record() for note in summary.notes]
    return {name: getattr(summary, name) for name in ("leader", "n", "judged", "seconds")} | {"notes": notes}


@dataclass(frozen=True, eq=False)
class _SavedOutcomes:
    """The outcomes in a file, of examples in the same order."""

    folder: SavedFolder
    examples: ExampleSet
    policies: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...] | None:
        return self.examples.labels

    @property
    def schema(self) -> pl.Schema:
        return pl.Schema(pl.read_parquet_schema(self.folder.file(OUTCOMES)))

    def write(self, path: Path) -> None:
        """A copy of the file."""
        shutil.copyfile(self.folder.file(OUTCOMES), path)

    def frames(self, columns: list[str] | None = None, policy: str | None = None) -> Iterator[pl.DataFrame]:
        """The table, chunk by chunk: some columns, and one policy or all."""
        scan = pl.scan_parquet(self.folder.file(OUTCOMES))
        scan = scan if policy is None else scan.filter(pl.col("policy") == policy)
        yield from (scan if columns is None else scan.select(columns)).collect_batches(maintain_order=True)

    def statistics(self, ids: pl.Series | None = None) -> Store:
        """Store of the outcomes of the examples in `ids`, or of all, for the statistics."""
        frame = self.examples.frame
        examples = frame if ids is None else frame.filter(pl.col("example_id").is_in(ids.implode()))
        gold, (unit, strata) = self.examples.gold_codes(examples), self.examples.units(examples)
        names = [name for name in self.schema if name not in KEYS]
        return Store(list(self._chunks(names, ids)), unit, gold, len(self.policies), names, strata)

    def _chunks(self, names: list[str], ids: pl.Series | None) -> Iterator[Part]:
        import pyarrow.parquet as pq

        file, keeper = pq.ParquetFile(self.folder.file(OUTCOMES)), Keeper()
        for group in range(file.num_row_groups):
            group_ids = pl.Series(file.read_row_group(group, columns=["example_id"])["example_id"].to_pylist())
            group_ids = group_ids[: len(group_ids) // len(self.policies)]
            chosen = (
                np.arange(len(group_ids)) if ids is None else np.flatnonzero(group_ids.is_in(ids.implode()).to_numpy())
            )
            if len(chosen):
                keys = [*names, ANSWER]
                yield _SavedChunk(file, group, len(self.policies), keys, self.labels or (), chosen, keeper, {})


@dataclass(frozen=True, eq=False)
class _SavedChunk:
    """Some examples of a row group; a column is read when it is first asked for."""

    parquet: pq.ParquetFile
    group: int
    policies: int
    keys: list[str]
    labels: tuple[str, ...]
    chosen: Ints
    keeper: Keeper
    columns: dict[Key, SpilledTable]

    @property
    def size(self) -> int:
        return len(self.chosen)

    def values(self, key: Key, policies: Ints, start: int, stop: int) -> Floats:
        """A column, or a label's predicted shares, of some policies and examples, (policies, E)."""
        if key not in self.columns:
            if key == ANSWER:
                words = self._read(["answer"])["answer"].cast(pl.Categorical).to_physical()
                self._keep(key, words.cast(pl.Float64).fill_null(np.nan).to_numpy())
            elif isinstance(key, str):
                self._keep(key, self._read([key])[key].fill_null(np.nan).to_numpy())
            else:
                shares = _label_shares(self._read(["answer", "answers"]), self.labels)
                for label, share in enumerate(shares):
                    self._keep(label, share)
        return self.columns[key].rows(policies, start, stop)

    def _read(self, columns: list[str]) -> pl.DataFrame:
        return pl.DataFrame(pl.from_arrow(self.parquet.read_row_group(self.group, columns=columns)))

    def _keep(self, key: Key, values: Floats) -> None:
        self.columns[key] = self.keeper.keep(values.reshape(self.policies, -1)[:, self.chosen])


def _label_shares(rows: pl.DataFrame, labels: tuple[str, ...]) -> Floats:
    """Share of each label among the predictions: float (L, rows)."""
    shares = np.zeros((len(labels), len(rows)))
    codes = rows.select(label_codes("answer", labels)).to_series()
    on = np.flatnonzero(codes.is_not_null().to_numpy())
    shares[codes.drop_nulls().to_numpy(), on] = 1.0
    several = rows.select("answers").with_row_index("row").drop_nulls("answers").explode("answers").unnest("answers")
    answers = several.with_columns(code=label_codes("answer", labels)).drop_nulls("code")
    np.add.at(shares, (answers["code"].to_numpy(), answers["row"].to_numpy()), answers["share"].to_numpy())
    return shares


def read_findings(address: str | Path, owner: object = None) -> dict[str, Any]:
    """The fields of a result that was saved; `owner`: what a temporary folder lasts with.

    Raises ThinkbackError where there is none, it is damaged, or it was written by another version.
    """
    folder, record = read_sealed(address, owner)
    try:
        return _loaded(folder, record)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FormatError(f"the result in `{folder.path}` can't be read: {first_line(error)}") from None


def _loaded(folder: SavedFolder, record: Mapping[str, Any]) -> dict[str, Any]:
    files = {name: f"{name}.parquet" for name in FRAMES}
    frames = {name: pl.read_parquet(folder.file(file)) for name, file in files.items() if folder.has(file)}
    where = f"`{folder.path / RUN}`"
    provenance = documents.parse_json(documents.read_text(folder.file(RUN), where), where)
    labels = None if record["labels"] is None else tuple(record["labels"])
    pairs = zip(record["policies"], provenance["policies"], strict=True)
    policies = tuple(_policy({**one, "settings": settings}) for one, settings in pairs)
    names = tuple(policy.name for policy in policies)
    by = tuple(record["by"])
    summariser = Summariser(
        outcomes=_SavedOutcomes(
            folder, ExampleSet(frames["examples"], labels, record.get("strata"), record.get("weights")), names
        ),
        policies=policies,
        metric=record["metric"],
        cost=record["cost"],
        baseline=record["baseline"],
        columns=tuple(_column(one) for one in record["columns"]),
        settings=Settings(**record["settings"]),
    )
    groups = {}
    for (group, texts, _), statistics in zip(groups_of(frames["examples"], by), record["groups"], strict=True):
        conditions = [pl.col(name).eq_missing(pl.lit(text)) for name, text in zip(by, texts, strict=True)]
        by_group = {
            name: frames[f"{name}_by"].filter(conditions).drop(by) for name in STATISTICS if f"{name}_by" in frames
        }
        groups[group] = _summary(by_group, summariser.metric, statistics)
    return {
        "summariser": summariser,
        "statistics": _summary(frames, summariser.metric, record["statistics"]),
        "groups": groups,
        "by": by,
        "dropped": record["dropped"],
        "excluded": record["excluded"],
        "notes": tuple(map(_note, record["notes"])),
        "simulated": record["simulated"],
        "provenance": provenance,
        "thresholds": frames.get("thresholds"),
        "bands": frames.get("bands"),
        "examples": frames["examples"],
        "folder": folder,
        "saved_seconds": frames["seconds"],
    }


def _summary(frames: Mapping[str, pl.DataFrame], metric: str, statistics: Mapping[str, Any]) -> Summary:
    return Summary(
        summary=frames["summary"],
        comparisons=frames["comparisons"],
        metric=metric,
        leader=statistics["leader"],
        n=statistics["n"],
        judged=statistics["judged"],
        seconds=statistics["seconds"],
        notes=tuple(map(_note, statistics["notes"])),
        ranks=frames["ranks"],
    )


def _note(record: Mapping[str, Any]) -> Note:
    policies, metrics = tuple(record["policies"]), tuple(record["metrics"])
    return Note(record["code"], record["text"], Severity(record["severity"]), policies, metrics)


def _policy(record: Mapping[str, Any]) -> PolicyRecord:
    swept = tuple(
        (key, INFINITE.get(value, value) if isinstance(value, str) else value) for key, value in record["swept"]
    )
    return replace(PolicyRecord(**record), swept=swept)


def _column(record: Mapping[str, Any]) -> OutcomeColumn:
    return OutcomeColumn(**{**record, "ratio": tuple(record["ratio"])})


def pack(result: Findings, write: Callable[[Path], None]) -> bytes:
    """The files of a result: those that it was loaded from, else those that it can `write` into a folder."""
    buffer, scratch = io.BytesIO(), Scratch()
    folder = result.folder
    if folder is None:
        write(scratch.path)
        folder = read_findings(scratch.path)["folder"]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in (*folder.hashes, "result.json"):
            archive.write(folder.path / name, name)
    return buffer.getvalue()


def unpack(data: bytes) -> Scratch:
    """A folder with the files in these bytes, which goes when nothing refers to it any more."""
    scratch = Scratch()
    try:
        zipfile.ZipFile(io.BytesIO(data)).extractall(scratch.path)
    except OSError as error:
        why = f"cannot write the result to a temporary folder ({first_line(error)})"
        raise WriteError(f"{why}: free space there, or set TMPDIR to another folder") from None
    return scratch
