"""A result on disk: one versioned format, which `read_found` reads back whole, and which pickles hold.

docs/results.md describes its files.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from replay.runs.passes.example_set import ExampleSet, example_groups, label_codes
from replay.runs.passes.store import KEYS
from replay.runs.saved.findings import OUTCOMES, Findings, ScratchFolder, Summariser
from replay.runs.saved.provenance import PolicyRecord, write_record
from replay.runs.saved.saved_folder import RECORD, RUN, SavedFolder, read_sealed, write_sealed
from toolkit import documents
from toolkit.columns import OutcomeColumn, metric_column
from toolkit.errors import FormatError, InvalidError, WriteError, error_prefix, first_line, listed, quote
from toolkit.models import dataclass_reader, list_reader, number_list_reader, table_reader
from toolkit.notes import Note, Severity
from toolkit.settings import Checked, check, from_table, setting
from toolkit.stats import Settings, Summary
from toolkit.stats.metrics.outcomes import ANSWER, Key, Store, StoredBlock, UnsharedBlock
from toolkit.stats.metrics.spill import Floats, Ints, SpilledTable, TableStore

if TYPE_CHECKING:
    import pyarrow.parquet as pq


FRAMES = {
    **{
        name: name
        for name in ("summary", "comparisons", "ranks", "seconds", "thresholds", "bands", "positions", "examples")
    },
    **{f"{name}_by": f"by_{name}" for name in ("summary", "comparisons", "ranks")},
}
"""The frames of a result, by the names of their files."""
STATISTICS = ("summary", "comparisons", "ranks")
INFINITE = {"inf": float("inf"), "-inf": float("-inf")}


def write_findings(result: Findings, folder: Path, examples: pl.DataFrame) -> None:
    """Write a result's outcomes and frames as Parquet into an empty folder; `examples` are written as given."""
    result.summariser.outcomes.write(folder / OUTCOMES)
    for name, attribute in FRAMES.items():
        frame = examples if name == "examples" else getattr(result, attribute)
        if frame is not None:
            frame.write_parquet(folder / f"{name}.parquet")
    write_record(folder, result.provenance)


def seal_findings(result: Findings, folder: Path) -> None:
    """Write the record of what is in no frame, after all other files of the folder."""
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
        "statistics": _statistics_record(result.statistics),
        "groups": [_statistics_record(group) for group in result.groups.values()],
        "notes": [note.record() for note in result.notes],
        "dropped": dict(result.dropped),
        "excluded": dict(result.excluded),
        "columns": [asdict(column) for column in summariser.columns],
        "policies": [{**vars(policy), "settings": None} for policy in summariser.policies],  # which run.json has
    }
    write_sealed(folder, record)


def _statistics_record(summary: Summary) -> dict[str, Any]:
    notes = [note.record() for note in summary.notes]
    return {name: getattr(summary, name) for name in ("leader", "n", "judged", "seconds")} | {"notes": notes}


@dataclass(frozen=True, eq=False)
class _SavedOutcomes:
    """The outcomes of a saved result, in a file in the order of its examples."""

    folder: SavedFolder
    examples: ExampleSet
    policies: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...] | None:
        return self.examples.labels

    @property
    def schema(self) -> pl.Schema:
        return pl.Schema(pl.read_parquet_schema(self.folder.verified_path(OUTCOMES)))

    def write(self, path: Path) -> None:
        """Copy the file of outcomes."""
        shutil.copyfile(self.folder.verified_path(OUTCOMES), path)

    def frames(self, columns: list[str] | None = None, policy: str | None = None) -> Iterator[pl.DataFrame]:
        """The table of outcomes, chunk by chunk: some columns, for one policy or all."""
        scan = pl.scan_parquet(self.folder.verified_path(OUTCOMES))
        scan = scan if policy is None else scan.filter(pl.col("policy") == policy)
        yield from (scan if columns is None else scan.select(columns)).collect_batches(maintain_order=True)

    def statistics(self, ids: pl.Series | None = None) -> Store:
        """The outcomes of the examples with these ids, or of all, in the form that the statistics read."""
        frame = self.examples.frame
        examples = frame if ids is None else frame.filter(pl.col("example_id").is_in(ids.implode()))
        gold, (unit, strata) = self.examples.gold_codes(examples), self.examples.resampling_units(examples)
        names = [name for name in self.schema if name not in KEYS]
        return Store(list(self._chunks(names, ids)), unit, gold, len(self.policies), names, strata)

    def _chunks(self, names: list[str], ids: pl.Series | None) -> Iterator[StoredBlock]:
        import pyarrow.parquet as pq

        file, keeper = pq.ParquetFile(self.folder.verified_path(OUTCOMES)), TableStore()
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
class _SavedChunk(UnsharedBlock):
    """Some examples of a row group of the file; each column is read at its first use."""

    parquet: pq.ParquetFile
    group: int
    policies: int
    keys: list[str]
    labels: tuple[str, ...]
    chosen: Ints
    keeper: TableStore
    columns: dict[Key, SpilledTable]

    @property
    def size(self) -> int:
        return len(self.chosen)

    def values(self, key: Key, policies: Ints, start: int, stop: int) -> Floats:
        """A column, or a label's predicted shares, of some policies and examples, (policies, E)."""
        if key not in self.columns:
            if key == ANSWER:
                words = self._read(["answer"])["answer"].cast(pl.Categorical).to_physical()
                self._keep_values(key, words.cast(pl.Float64).fill_null(np.nan).to_numpy())
            elif isinstance(key, str):
                self._keep_values(key, self._read([key])[key].fill_null(np.nan).to_numpy())
            else:
                shares = _label_shares(self._read(["answer", "answers"]), self.labels)
                for label, share in enumerate(shares):
                    self._keep_values(label, share)
        return self.columns[key].rows(policies, start, stop)

    def _read(self, columns: list[str]) -> pl.DataFrame:
        return pl.DataFrame(pl.from_arrow(self.parquet.read_row_group(self.group, columns=columns)))

    def _keep_values(self, key: Key, values: Floats) -> None:
        self.columns[key] = self.keeper.store_table(values.reshape(self.policies, -1)[:, self.chosen])


def _label_shares(rows: pl.DataFrame, labels: tuple[str, ...]) -> Floats:
    """The share of predictions of each label: float (L, rows)."""
    shares = np.zeros((len(labels), len(rows)))
    codes = rows.select(label_codes("answer", labels)).to_series()
    on = np.flatnonzero(codes.is_not_null().to_numpy())
    shares[codes.drop_nulls().to_numpy(), on] = 1.0
    several = rows.select("answers").with_row_index("row").drop_nulls("answers").explode("answers").unnest("answers")
    answers = several.with_columns(code=label_codes("answer", labels)).drop_nulls("code")
    np.add.at(shares, (answers["code"].to_numpy(), answers["row"].to_numpy()), answers["share"].to_numpy())
    return shares


def read_findings(address: str | Path, owner: object = None) -> dict[str, Any]:
    """The fields of a saved result; a temporary folder of it lasts as long as `owner`.

    Raises ThinkbackError where there is none, it is damaged, or it was written by another version.
    """
    folder, record = read_sealed(address, owner)
    try:
        return _findings_fields(folder, record)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FormatError(f"the result in `{folder.path}` can't be read: {first_line(error)}") from None


def _read_notes(given: Any, place: str) -> tuple[Note, ...]:
    """The reader of a field that holds notes, as `Note.record` writes them."""
    records = [] if given == [] else list_reader(dataclass_reader(_NoteRecord))(given, place)
    return tuple(
        Note(record.code, record.text, Severity(record.severity), record.policies, record.metrics) for record in records
    )


@dataclass(frozen=True)
class _NoteRecord:
    code: str
    severity: Literal["warning", "note"]
    text: str
    policies: tuple[str, ...]
    metrics: tuple[str, ...]


def _read_swept(given: Any, place: str) -> tuple[tuple[str, Any], ...]:
    """The reader of a field that holds pairs of a sweep's key and the policy's value, which may be infinite."""
    if not isinstance(given, list) or not all(isinstance(one, list) and len(one) == 2 for one in given):
        raise InvalidError(f"`{place}` is {quote(given)}; it takes a list of pairs")
    return tuple((str(key), INFINITE.get(value, value) if isinstance(value, str) else value) for key, value in given)


def _read_policies(given: Any, place: str) -> tuple[PolicyRecord, ...]:
    """The reader of a field that holds policies' records, without the settings, which run.json has."""
    tables = list_reader(lambda one, place: dict(_as_mapping(one, place)))(given, place)
    swept = [_read_swept(table.pop("swept", []), f"{place}.swept") for table in tables]
    records = [
        dataclass_reader(PolicyRecord)({key: value for key, value in one.items() if key != "settings"}, place)
        for one in tables
    ]
    if len({record.name for record in records}) < len(records):
        raise InvalidError(f"`{place}` has a name twice")
    return tuple(replace(one, swept=pairs) for one, pairs in zip(records, swept, strict=True))


def _as_mapping(given: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidError(f"`{place}` is {quote(given)}; it takes a table")
    return given


def _read_weights(given: Any, place: str) -> dict[str, float] | None:
    """The reader of a field that holds weights by stratum, above 0; or null."""
    if given is None:
        return None
    table = _as_mapping(given, place)
    number_list_reader(float, np.nextafter(0.0, 1.0))(list(table.values()), place)
    return dict(table)


@dataclass(frozen=True)
class _StatisticsRecord(Checked):
    """What a saved summary has beside its frames."""

    leader: str | None = setting()
    n: int = setting(low=0)
    judged: int = setting(low=0)
    seconds: str | None = setting()
    notes: tuple[Note, ...] = setting(read=_read_notes)


@dataclass(frozen=True)
class _SavedRecord(Checked):
    """The record of what is in no frame, as `seal_findings` writes it."""

    metric: str = setting()
    cost: str | None = setting()
    baseline: str | None = setting()
    by: tuple[str, ...] = setting()
    simulated: bool = setting()
    settings: Settings = setting()
    labels: tuple[str, ...] | None = setting()
    strata: str | None = setting()
    weights: Mapping[str, float] | None = setting(read=_read_weights)
    statistics: _StatisticsRecord = setting()
    groups: tuple[_StatisticsRecord, ...] = setting()
    notes: tuple[Note, ...] = setting(read=_read_notes)
    dropped: Mapping[str, str] = setting()
    excluded: Mapping[str, str] = setting()
    columns: tuple[OutcomeColumn, ...] = setting(read=list_reader(dataclass_reader(OutcomeColumn)))
    policies: tuple[PolicyRecord, ...] = setting(read=_read_policies)
    files: Mapping[str, str] = setting()

    def __post_init__(self) -> None:
        super().__post_init__()
        missing = sorted(
            {OUTCOMES, *(f"{name}.parquet" for name in (*STATISTICS, "seconds", "examples"))} - {*self.files}
        )
        if missing:
            raise InvalidError(f"`files` lacks {listed(missing)}")
        names = {policy.name for policy in self.policies}
        leaders = [one.leader for one in (self.statistics, *self.groups)]
        if unknown := {self.baseline, *leaders} - names - {None}:
            raise InvalidError(
                f"its baseline and its leaders are policies, and {quote(min(map(str, unknown)))} is none"
            )
        cost = {name for column in self.columns if column.cost for name in (column.name, column.cost_name)} | {None}
        if self.cost not in cost or not metric_column(self.metric, self.columns).quality:
            raise InvalidError(f"its metric is a quality and its cost a cost of `columns`: {self.metric}, {self.cost}")


@dataclass(frozen=True)
class _LogRecord(Checked):
    """The record of a run's log, as run.json has it."""

    address: str = setting()
    name: str = setting()
    sha256: str = setting()
    simulated: bool = setting()


@dataclass(frozen=True)
class _RunRecord:
    """The parts of run.json that are read when a result is loaded."""

    log: _LogRecord = setting()
    policies: tuple[dict[str, Any], ...] = setting(read=list_reader(lambda one, place: dict(_as_mapping(one, place))))
    where: str | None = setting(None)
    measure: str = setting("correct")
    verifications_free: Mapping[str, Any] = setting({})

    def __post_init__(self) -> None:
        check(self)


def _findings_fields(folder: SavedFolder, record: Mapping[str, Any]) -> dict[str, Any]:
    where, of_run = (f"`{folder.path / name}`" for name in (RECORD, RUN))
    files = {name: f"{name}.parquet" for name in FRAMES}
    provenance = documents.parse_json(documents.read_text(folder.verified_path(RUN), of_run), of_run)
    with error_prefix(f"{where} is no record of a result: "):
        known, run = from_table(_SavedRecord, record), table_reader(_RunRecord)(provenance, RUN)
    frames = {
        name: pl.read_parquet(folder.verified_path(file)) for name, file in files.items() if folder.has_file(file)
    }
    columns = frames["examples"].columns
    if len(known.policies) != len(run.policies) or not {*known.by, known.strata} - {None} <= {*columns}:
        raise FormatError(f"{where} does not fit to the files beside it: replay again")
    policies = tuple(replace(one, settings=given) for one, given in zip(known.policies, run.policies, strict=True))
    names = tuple(policy.name for policy in policies)
    examples = ExampleSet(frames["examples"], known.labels, known.strata, known.weights)
    summariser = Summariser(
        outcomes=_SavedOutcomes(folder, examples, names),
        policies=policies,
        metric=known.metric,
        cost=known.cost,
        baseline=known.baseline,
        columns=known.columns,
        settings=known.settings,
    )
    groups, places = {}, list(example_groups(frames["examples"], known.by))
    if len(places) != len(known.groups):
        raise FormatError(f"{where} has {len(known.groups):,} groups, its examples make {len(places):,}: replay again")
    for (group, texts, _), statistics in zip(places, known.groups, strict=True):
        conditions = [pl.col(name).eq_missing(pl.lit(text)) for name, text in zip(known.by, texts, strict=True)]
        by_group = {
            name: frames[f"{name}_by"].filter(conditions).drop(known.by)
            for name in STATISTICS if f"{name}_by" in frames
        }  # fmt: skip
        groups[group] = _summary_of_frames(by_group, known.metric, statistics)
    return {
        "summariser": summariser, "statistics": _summary_of_frames(frames, known.metric, known.statistics),
        "groups": groups, "by": known.by, "dropped": known.dropped, "excluded": known.excluded, "notes": known.notes,
        "simulated": known.simulated, "provenance": provenance, "thresholds": frames.get("thresholds"),
        "bands": frames.get("bands"), "positions": frames.get("positions"), "examples": frames["examples"],
        "folder": folder, "saved_seconds": frames["seconds"],
    }  # fmt: skip


def _summary_of_frames(frames: Mapping[str, pl.DataFrame], metric: str, statistics: _StatisticsRecord) -> Summary:
    values: dict[str, Any] = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
    return Summary(metric=metric, **values | {name: frames[name] for name in STATISTICS})


def result_files_as_bytes(result: Findings, write_files: Callable[[Path], None]) -> bytes:
    """The files of a result as bytes: those that it was loaded from, else those that `write_files` writes."""
    buffer, scratch = io.BytesIO(), ScratchFolder()
    folder = result.folder
    if folder is None:
        write_files(scratch.path)
        folder = read_findings(scratch.path)["folder"]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in (*folder.hashes, "result.json"):
            archive.write(folder.path / name, name)
    return buffer.getvalue()


def files_from_bytes(data: bytes) -> ScratchFolder:
    """A temporary folder with the files in these bytes, removed once nothing refers to it."""
    scratch = ScratchFolder()
    try:
        zipfile.ZipFile(io.BytesIO(data)).extractall(scratch.path)
    except OSError as error:
        why = f"cannot write the result to a temporary folder ({first_line(error)})"
        raise WriteError(f"{why}: free space there, or set TMPDIR to another folder") from None
    return scratch
