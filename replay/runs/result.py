"""What a run gives back: a value that people hold, show, save and ask."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from replay.runs.curves import curves
from replay.runs.explain import Explanation, explain_fitted
from replay.runs.found import OUTCOMES, Found, Scratch
from replay.runs.paid_traces import ORDERS, PARTS, SCORES, STOPS, TRACES, copy_traces, has_traces, write_traces
from replay.runs.provenance import PolicyRecord
from replay.runs.retold import retell
from replay.runs.saved import read_found, write_found
from replay.runs.shown import ROWS, in_short, ranked_input
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError, first_line, require_known
from toolkit.log import SCHEMAS, Log, collect, open_log, query_log
from toolkit.show import Table, frontier_figure, ranked_table
from toolkit.stats import check_margin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = "curves"
FEW = 6
"""Metrics that the shortest form of a policy's result names."""


@dataclass(frozen=True, eq=False)
class PolicyResult:
    """What a run found of one policy: its record, its rows of outcomes, of the summary and of the comparisons."""

    record: PolicyRecord
    outcomes: pl.LazyFrame
    summary: pl.DataFrame
    comparisons: pl.DataFrame

    def __repr__(self) -> str:
        known = self.summary.drop_nulls("estimate").head(FEW)
        told = [f"  {metric}: {value:.6g}" for metric, value in known.select("metric", "estimate").iter_rows()]
        return "\n".join([f"Policy {self.record.name} ({self.record.kind})", *told, "  …"])


@dataclass(frozen=True, eq=False)
class Result(Found):
    """What a run found. Frames are polars; `notes` are what a table should carry.

    It shows itself, writes its tables and figures, answers SQL, explains single examples, and is saved, loaded and
    pickled; all but what needs the log works as well once it is loaded.
    """

    def __repr__(self) -> str:
        return "\n".join(in_short(self))

    def _repr_html_(self) -> str:
        return self.table(limit=ROWS).html()

    def table(self, *, margin: float | None = None, cost: str | None = None, limit: int | None = None) -> Table:
        """The ranked table, as the command writes it: `print(result.table().terminal())`, `.markdown()`, `.latex()`.

        `margin` says which policies are not worse than the baseline by more than this; `cost` is shown in place of the
        one that the result was ranked by; `limit` is how many rows of long sweeps are shown, by default all.
        """
        if margin is not None:
            check_margin(margin)
            if self.baseline is None:
                raise ThinkbackError("`margin` needs a baseline: run with one")
        return ranked_table(ranked_input(self, margin, cost), limit)

    def frontier(self, *, cost: str | None = None) -> Figure:
        """The figure of quality against cost, as the command draws it.

        Raises ThinkbackError where no policy has both.
        """
        figure = frontier_figure(ranked_input(self, cost=cost), f"Policies on {self.log_name}")
        if figure is None:
            what = f"a value of `{self.judge.metric}`, a share, and of a cost"
            raise ThinkbackError(f"there is no figure: no policy has {what}")
        return figure

    def policy(self, name: str) -> PolicyResult:
        """What was found of one policy. Raises ThinkbackError where there is none of that name."""
        found = {one.name: one for one in self.policies}
        require_known(name, found, f"no policy is named `{name}`")
        mine = pl.col("policy") == name
        return PolicyResult(
            found[name], self.outcomes.filter(mine), self.summary.filter(mine), self.comparisons.filter(mine)
        )

    def explain(self, policy: str, example: str, *, repetition: int = 0, texts: bool = False) -> Explanation:
        """One policy on one example, step by step: from the log, or from the part by trace of a loaded result.

        Raises ThinkbackError for unknown names, and where a loaded result has no such part.
        """
        if self.source is None:
            self._need_parts(traces=True, texts=texts)
            return retell(self, Path(str(self.folder)), policy, example, texts)
        found = {one.name: one for one in self.source.policies}
        require_known(policy, found, f"no policy is named `{policy}`")
        plan = self.source.plan
        chosen = replace(found[policy], against=None)
        told = explain_fitted(plan.log, plan.contents, chosen, example, plan, repetition, texts)
        if policy not in self.source.acting or len(told.outcomes) < 2:
            return told
        acts = self.source.acting[policy][self.examples["example_id"].to_list().index(example)]
        return replace(told, outcomes=told.outcomes[:1] if acts else told.outcomes[1:])

    def query(self, sql: str) -> pl.DataFrame:
        """Answer one SELECT over `outcomes`, `summary`, `comparisons`, with the part by trace also `paid_traces`,
        `paid_scores`, `orders` and `stops`, and the tables of the log: `examples`, `traces`, `verifications` …

        Raises ThinkbackError for wrong SQL, and for a table of the log where the log is not there any more.
        """
        files = {"outcomes": self.scratch.path / OUTCOMES if self.folder is None else self.folder / OUTCOMES}
        _ = self.outcomes  # written by now
        for name, frame in (("summary", self.summary), ("comparisons", self.comparisons)):
            files[name] = self.scratch.path / f"{name}.parquet"
            if not files[name].exists():
                frame.write_parquet(files[name])
        if self.folder is not None and has_traces(self.folder):
            names = {TRACES: "paid_traces", SCORES: "paid_scores", ORDERS: "orders", STOPS: "stops"}
            files |= {view: self.folder / f"{name}.parquet" for name, view in names.items()}
        log = self._log()
        if log is None and (named := [table for table in SCHEMAS if re.search(rf"\b{table}\b", sql)]):
            made = self.provenance["log"]
            raise ThinkbackError(
                f"`{named[0]}` is a table of the log `{made['address']}`, which is not there or is another by now: "
                "query the result's own tables, or replay again"
            )
        return query_log(log, sql, files)

    def _log(self) -> Log | None:
        """The log, where it is still there and the same."""
        if self.source is not None:
            return self.source.plan.log
        made = self.provenance["log"]
        try:
            log = open_log(made["address"])
            return log if log.digest() == made["sha256"] else None
        except ThinkbackError:
            return None

    def save(self, directory: str | Path, *, traces: bool = False, texts: bool = False, curves: bool = False) -> None:
        """Write the result into a folder, for `load`; docs/results.md describes the files.

        `traces`: with what policies paid trace by trace, in which orders, and where each stopped, for which the log is
        read once more; `texts`: with questions and what the model wrote, too; `curves`: with those of every pool on the
        examples that were asked for. Raises ThinkbackError where the folder can't be written, or a loaded result has no
        such part.
        """
        folder = Path(directory).expanduser()
        if self.source is None:
            self._need_parts(traces, texts, curves)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_found(self, folder, self._saved_examples(texts))
            self._write_parts(folder, traces or texts, texts, curves)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ThinkbackError(f"cannot write `{directory}`: {first_line(error)}") from None

    def curves(self) -> pl.DataFrame:
        """Curves of every pool on the examples that were asked for, as `tb.curves` has them.

        Raises ThinkbackError where a loaded result was saved without them.
        """
        if self.source is None:
            self._need_parts(curves=True)
            return pl.read_parquet(Path(str(self.folder)) / f"{CURVES}.parquet")
        return curves(self.source.plan.log, where=self.provenance["where"], settings=self.judge.settings)

    def _need_parts(self, traces: bool = False, texts: bool = False, curves: bool = False) -> None:
        """Raise where a loaded result lacks a part."""
        folder = Path(str(self.folder))
        has = {
            "traces": not (traces or texts) or has_traces(folder),
            "texts": not texts or has_traces(folder, texts),
            "curves": not curves or (folder / f"{CURVES}.parquet").is_file(),
        }
        for part, there in has.items():
            if not there:
                raise ThinkbackError(
                    f"this result was saved without {part}: replay again, and save it with `{part}=True`"
                )

    def _saved_examples(self, texts: bool) -> pl.DataFrame:
        """The examples, with their questions where texts are saved."""
        if not texts or self.source is None:
            return self.examples if texts else self.examples.drop("question", strict=False)
        log = self.source.plan.log
        asked = collect(log.scan("examples", ["example_id", "question"]), log)
        plain = self.examples.drop("question", strict=False)
        return plain.join(asked, on="example_id", how="left", maintain_order="left")

    def _write_parts(self, folder: Path, traces: bool, texts: bool, curves: bool) -> None:
        """The parts that were asked for; those of an earlier result go."""
        own = self.folder is not None and folder.resolve() == self.folder.resolve()
        if not own:
            for name in (*PARTS, CURVES):
                (folder / f"{name}.parquet").unlink(missing_ok=True)
        if traces and self.source is not None:
            write_traces(folder, self.source.plan, self.source.policies, self.source.acting, texts)
        elif traces and not own:
            copy_traces(Path(str(self.folder)), folder, texts)
        if curves:
            self.curves().write_parquet(folder / f"{CURVES}.parquet")

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (_packed(self),)


@checks_arguments(address="the folder of a saved result")
def load(address: str | Path) -> Result:
    """A result that was saved, as it was: it draws its tables and figures without the log.

    Raises ThinkbackError where there is none, it is damaged, or it was written by a newer version.
    """
    return Result(**read_found(address))


def _packed(result: Result) -> bytes:
    """A result as bytes, for pickles: the files of a saved one."""
    held, scratch = io.BytesIO(), Scratch()
    folder = result.folder
    if folder is None:
        folder = scratch.path
        result.save(folder)
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(path for path in folder.iterdir() if path.suffix in (".parquet", ".json")):
            archive.write(file, file.name)
    return held.getvalue()


def _unpacked(data: bytes) -> Result:
    """The result in bytes."""
    scratch = Scratch()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(scratch.path)
    return replace(load(scratch.path), scratch=scratch)
