"""The result of a run: a value to hold, show, save and query."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from replay.runs.compare.compared import ComparedPolicies
from replay.runs.compare.comparing import compare
from replay.runs.compare.curves import curves
from replay.runs.compare.headroom import GAPS, Headroom, gap_frame, headroom
from replay.runs.compare.same_questions import DRAWN, QUESTIONS, SAME_QUESTIONS, SameQuestions, same_questions
from replay.runs.compare.same_questions import SCHEMA as SAME_SCHEMA
from replay.runs.explain.explain import Explanation, explain_fitted, explain_saved
from replay.runs.figures.figure_data import FigureData, FigureRequest
from replay.runs.figures.figures import figure_kind
from replay.runs.saved.display import ON_PAGE, ROWS, lines_on_result, policy_row, ranked_input, table_of_columns
from replay.runs.saved.findings import WITHOUT, Findings, RunSource, answer_sql, unchanged_log_of
from replay.runs.saved.paid_traces import PARTS, TRACES, write_traces
from replay.runs.saved.provenance import PolicyRecord
from replay.runs.saved.saved import (
    files_from_bytes,
    read_findings,
    result_files_as_bytes,
    seal_findings,
    write_findings,
)  # fmt: skip
from replay.runs.saved.saved_folder import SavedFolder, is_saved_result
from replay.runs.saved.saved_rows import row_files, without_texts, write_rows
from toolkit.arguments import checks_arguments
from toolkit.columns import metric_column
from toolkit.documents import expand_home
from toolkit.errors import (
    EmptyError,
    ExistsError,
    InvalidError,
    MismatchError,
    NotFoundError,
    RequiredError,
    UnsuitableError,
    WriteError,
    argument,
    first_line,
    quote,
    require_known,
)
from toolkit.files import replacing
from toolkit.log import AnyLog, Log, collect, open_log
from toolkit.printable import printable
from toolkit.show import WIDTH, Table, short_names, table_of, width_in_inches
from toolkit.show.tables.html import simulated_mark
from toolkit.stats import check_margin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = "curves"
FEW = 6
"""The most metrics that the short form of a policy's result names."""


@dataclass(frozen=True, eq=False)
class _PolicyResult:
    """The results of one policy: its record, and its rows of outcomes, summary and comparisons."""

    record: PolicyRecord
    outcomes: pl.LazyFrame
    summary: pl.DataFrame
    comparisons: pl.DataFrame
    simulated: bool = False

    def __repr__(self) -> str:
        known = self.summary.drop_nulls("estimate").head(FEW)
        metrics = [f"  {metric}: {value:.6g}" for metric, value in known.select("metric", "estimate").iter_rows()]
        lines = [f"Policy {self.record.name} ({self.record.kind})", *metrics, "  …"]
        return "\n".join(map(printable, lines))

    def _repr_html_(self) -> str:
        return simulated_mark(self.simulated) + table_of(self.summary, self.record.name).html()


@dataclass(frozen=True, eq=False)
class Result(Findings):
    """The result of a run. Frames are polars; `notes` are what a table should carry.

    It shows itself, writes its tables and figures, answers SQL, explains single examples, and is saved, loaded and
    pickled; all but what needs the log works as well once it is loaded.
    """

    def __repr__(self) -> str:
        return "\n".join(map(printable, lines_on_result(self)))

    def _repr_html_(self) -> str:
        return self.table(limit=ROWS).html()

    @checks_arguments()
    def table(
        self,
        *,
        margin: float | None = None,
        cost: str | None = None,
        limit: int | None = None,
        columns: Sequence[str] = (),
    ) -> Table:
        """The ranked table, as the command writes it: `print(result.table().terminal())`, `.markdown()`, `.latex()`.

        `margin` says which policies are not worse than the baseline by more than this; `cost` is shown in place of the
        one that the result was ranked by; `limit` is how many rows of long sweeps are shown, by default all; `columns`
        are those of the table, by heading or by name in CSV.
        """
        if margin is not None:
            check_margin(margin)
            if self.baseline is None:
                raise RequiredError("`margin` needs a baseline: run with one")
        if limit is not None and limit < 1:
            raise InvalidError(f"`limit` is {limit}; it takes an integer, at least 1")
        return table_of_columns(ranked_input(self, margin, cost), columns, limit)

    @checks_arguments()
    def frontier(self, *, cost: str | None = None, width: str | float = WIDTH, title: str = "") -> Figure:
        """The figure of quality against cost, as the command draws it.

        `width` is the width on paper: `3.3in`, `84mm`, `8.4cm`, `240pt`, or a number of inches; `title` stands above.
        Raises ThinkbackError where no policy has both, where all cost the same, and for a width that is none.
        """
        return self.figure("frontier", width=width, title=title, cost=cost)

    @checks_arguments(name="the name of a figure")
    def figure(self, name: str, *, width: str | float = WIDTH, title: str = "", **options: Any) -> Figure:
        """A figure by its name: `frontier`, `forest`, `headroom`, `stopping`, `scores`, `gates` or `positions`.

        docs/results.md says what each shows and is `options`, as in `figure_data`.
        Raises ThinkbackError for other names, and where the result lacks what a figure is drawn from.
        """
        return self.figure_data(name, **options).draw(width=width_in_inches(width), title=title)

    @checks_arguments(name="the name of a figure", policies="names of policies")
    def figure_data(
        self,
        name: str,
        *,
        baseline: str | None = None,
        oracle: str | None = None,
        policies: tuple[str, ...] = (),
        cost: str | None = None,
        log: AnyLog | None = None,
    ) -> FigureData:
        """The data of a figure; `frame` holds its numbers. `policies` are those to show."""
        arguments = {"baseline": baseline, "oracle": oracle, "policies": policies, "cost": cost, "log": log}
        kind = figure_kind(name, [option for option, value in arguments.items() if value])
        opened_log = None if log is None else open_log(log)
        if opened_log is not None and opened_log.digest() != self.provenance["log"]["sha256"]:
            raise MismatchError(f"the log `{opened_log.name}` is another than the one that was replayed: name that one")
        room = partial(self.headroom, oracle=oracle, baseline=baseline)
        return kind.make(FigureRequest(self, room, self._unchanged_log, opened_log, baseline, policies, cost))

    @checks_arguments(name="a policy's name")
    def policy(self, name: str) -> _PolicyResult:
        """The results of one policy. Raises ThinkbackError where none has that name."""
        self._require_policy(name)
        record = next(one for one in self.policies if one.name == name)
        rows = self.summary.filter(policy=name), self.comparisons.filter(policy=name)
        return _PolicyResult(record, self.outcomes_of(name), *rows, self.simulated)

    @checks_arguments()
    def explain(self, policy: str, example: str, *, repetition: int = 0, texts: bool = False) -> Explanation:
        """One policy on one example that the result compares, step by step: from the log, or from the part by trace of
        a loaded result.

        Raises ThinkbackError for unknown names, and where a loaded result has no such part.
        """
        self._require_policy(policy)
        ids = self.examples["example_id"]
        require_known(example, ids, f"the result compares no example `{example}`")
        row = collect(self.outcomes_of(policy).filter(pl.col("example_id") == example))
        if self.source is None:
            return explain_saved(self, self._saved_folder(traces=True, texts=texts), policy, row, texts)
        plan, acting = self._run_source().plan, self.source.acting
        chosen = next(one for one in self.source.policies if one.name == policy)
        acts = bool(acting[policy][int((ids == example).arg_max() or 0)]) if policy in acting else None
        plain = replace(chosen, against=None)
        explanation = explain_fitted(plan.log, plan.contents, plain, example, plan, repetition, texts, acts)
        return replace(explanation, outcomes=row)

    def _require_policy(self, name: str) -> None:
        if name in self.dropped:
            raise UnsuitableError(f"policy `{name}` was dropped: {self.dropped[name]}")
        require_known(name, self.summariser.names, f"no policy is named `{name}`")

    @checks_arguments()
    def compare(
        self,
        first: str | None = None,
        second: str | None = None,
        *,
        other: Result | None = None,
        metric: str | None = None,
        cost: str | None = None,
        questions: str = DRAWN,
        same_names: bool = False,
    ) -> ComparedPolicies:
        """All pairs of policies by `metric`, by default the one that ranks: differences whose intervals hold at once,
        and on how many examples which of the two is right. Of two named policies also every metric, and the examples on
        which they differ. With an `other` result, policies of this one against those of the other, with `same_names`
        those of one name alone. `cost` names a cost whose differences stand beside. `questions` are `drawn` as examples
        of others, or `fixed`: then it also says what other samples of the same ones would show.

        Raises ThinkbackError for unknown names, for more than 1,000 policies without names, and for results whose
        examples are not the same.
        """
        require_known(questions, QUESTIONS, f"{argument('questions')} is {quote(questions)}")
        compared = compare(self, first, second, other, metric, cost, same_names)
        if same_names and first is None and compared.pairs.is_empty():
            raise EmptyError("no policy that sees no gold has the same name in both results")
        if questions == DRAWN:
            return compared
        names = () if first is None else (first, first if second is None else second)
        return replace(compared, same=None if other is not None else self.same_questions(*names), fixed=True)

    @checks_arguments()
    def same_questions(self, *policies: str) -> SameQuestions:
        """What these questions give over all samples of them: limits of the accuracies of some policies, by default of
        all, and of their differences. The log is read once more.

        A policy has none whose outcomes depend on the order in which traces were logged, or that takes all of a
        question's. Raises ThinkbackError for unknown names. A loaded result has what it was saved with.
        """
        for name in policies:
            self._require_policy(name)
        if policies and self.source is not None:
            frame = same_questions(self._run_source(), [one for one in self.source.policies if one.name in policies])
        else:
            frame = self._same_questions
        called = short_names([policy_row(policy) for policy in self.policies])
        quality = metric_column("accuracy", self.columns).label
        return SameQuestions(frame, self.summariser.settings.level, self.log_name, self.simulated, called, quality)

    @cached_property
    def _same_questions(self) -> pl.DataFrame:
        """The rows on other samples, for all policies; none if a loaded result was saved without them."""
        if self.source is not None:
            return same_questions(self._run_source(), self.source.policies)
        there = self.folder is not None and self.folder.has_file(SAME_QUESTIONS)
        if self.folder is None or not there:
            return pl.DataFrame(schema=SAME_SCHEMA)
        return pl.read_parquet(self.folder.verified_path(SAME_QUESTIONS))

    @checks_arguments()
    def headroom(self, *, oracle: str | None = None, baseline: str | None = None) -> Headroom:
        """Each policy's share of what lies between a baseline and an oracle, its regret, and the parts of its gap to
        being always right: generation, stopping and selection. By default the best diagnostic policy and the baseline
        of the result; the log is read once more.

        Raises ThinkbackError where there is no oracle. A loaded result has the parts that it was saved with.
        """
        return self._headroom if oracle is None and baseline is None else self._headroom_of(oracle, baseline)

    @cached_property
    def _headroom(self) -> Headroom:
        """The headroom by default, which a report and its figure both show."""
        return self._headroom_of(None, None)

    def _headroom_of(self, oracle: str | None, baseline: str | None) -> Headroom:
        return headroom(self, self._gap_frame, oracle, baseline)

    @cached_property
    def _gap_frame(self) -> pl.DataFrame | None:
        """The parts of every policy's gap; None if a loaded result was saved without them."""
        if self.source is not None:
            return gap_frame(self._run_source(), self.summariser.names, self.summariser.settings)
        there = self.folder is not None and self.folder.has_file(GAPS)
        return pl.read_parquet(self.folder.verified_path(GAPS)) if self.folder is not None and there else None

    @checks_arguments()
    def query(self, sql: str) -> pl.DataFrame:
        """Answer one SELECT over `outcomes`, `summary`, `comparisons`, with the part by trace also `paid_traces`,
        `paid_scores`, `orders` and `stops`, and the tables of the log: `examples`, `traces`, `verifications` …

        Raises ThinkbackError for wrong SQL, and for a table of the log where the log is not there any more.
        """
        return answer_sql(self, sql)

    def _unchanged_log(self) -> Log | None:
        """The log of the run, if it is still there and unchanged; else None."""
        return unchanged_log_of(self)

    def _run_source(self) -> RunSource:
        """The source for further passes over the log. ThinkbackError where the log is gone or has changed."""
        if self.source is None or self._unchanged_log() is None:
            address = self.provenance["log"]["address"]
            raise NotFoundError(f"the log `{address}` is missing or has changed: replay again")
        return self.source

    @checks_arguments()
    def save(
        self,
        directory: str | Path,
        *,
        traces: bool = False,
        texts: bool = False,
        curves: bool = False,
        headroom: bool = False,
        questions: bool = False,
    ) -> None:
        """Write the result as a folder, for `load`, whole or not at all; docs/results.md describes its files.

        `traces`: with what policies paid trace by trace, in which orders, and where each stopped, for which the log is
        read once more; `texts`: with questions and what the model wrote, too; `curves`: with those of every pool on the
        examples that were asked for; `headroom`: with the parts of every policy's gap; `questions`: with what other
        samples of the same ones would show. A saved result that is there is replaced. Raises ThinkbackError where the
        folder holds something else or can't be written, or a loaded result has no such part.
        """
        target = expand_home(directory)
        if target.exists() and not target.is_dir():
            raise WriteError(f"`{directory}` is a file: name a folder")
        if target.is_dir() and any(target.iterdir()) and not is_saved_result(target):
            raise ExistsError(f"`{directory}` holds something else than a saved result: name another folder")
        try:
            with replacing(target, force=True) as folder:
                self.write(folder, traces=traces, texts=texts, curves=curves, headroom=headroom, questions=questions)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise WriteError(f"cannot write `{directory}`: {first_line(error)}") from None

    def write(
        self, folder: Path, *, traces: bool = False, texts: bool = False, curves: bool = False, headroom: bool = False,
        questions: bool = False, same: pl.DataFrame | None = None,
    ) -> None:  # fmt: skip
        """Write the files of a saved result into a folder that may hold others, as `save` does into one of its own.

        `same`: the rows of `questions` of some policies, where those of all are not asked for.
        """
        by_trace, saved = traces or texts, None
        if self.source is None:
            parts = {"curves": curves, "headroom": headroom, "questions": questions}
            saved = self._saved_folder(traces=by_trace, texts=texts, **parts)
        write_findings(self, folder, self._saved_examples(texts))
        if self.source is not None and by_trace:
            source = self._run_source()
            write_traces(folder, source.plan, source.policies, source.acting, texts)
            write_rows(folder, source.plan, source.policies, texts)
        elif saved is not None and by_trace:
            for name in PARTS:
                shutil.copyfile(saved.verified_path(f"{name}.parquet"), folder / f"{name}.parquet")
            if not texts:
                plain = pl.read_parquet(folder / f"{TRACES}.parquet").drop("text", strict=False)
                plain.write_parquet(folder / f"{TRACES}.parquet")
            for name in filter(saved.has_file, row_files()):
                rows = pl.read_parquet(saved.verified_path(name))
                (rows if texts else without_texts(rows)).write_parquet(folder / name)
        if curves:
            self.curves().write_parquet(folder / f"{CURVES}.parquet")
        if headroom and self._gap_frame is not None:
            self._gap_frame.write_parquet(folder / GAPS)
        if questions:
            same = self._same_questions
        if same is not None:
            same.write_parquet(folder / SAME_QUESTIONS)
        seal_findings(self, folder)

    def curves(self) -> pl.DataFrame:
        """Curves of every pool on the examples that were asked for, as `tb.curves` has them.

        Raises ThinkbackError where a loaded result was saved without them.
        """
        if self.source is None:
            return pl.read_parquet(self._saved_folder(curves=True).verified_path(f"{CURVES}.parquet"))
        examples, settings = self.summariser.outcomes.examples, self.summariser.settings
        log, where = self._run_source().plan.log, self.provenance["where"]
        return curves(log, where=where, strata=examples.strata, weigh=examples.weights, settings=settings)

    def _saved_folder(self, **parts: bool) -> SavedFolder:
        """The folder of a loaded result. Raises if it lacks the part that is asked for."""
        folder = self.folder
        if folder is None:
            raise UnsuitableError("this result was not loaded")
        by_trace = folder.has_file(f"{TRACES}.parquet")
        has = {
            "traces": by_trace,
            "texts": by_trace and "text" in pl.read_parquet_schema(folder.verified_path(f"{TRACES}.parquet")),
            "curves": folder.has_file(f"{CURVES}.parquet"),
            "headroom": folder.has_file(GAPS),
            "questions": folder.has_file(SAME_QUESTIONS),
        }
        for part in (part for part, wanted in parts.items() if wanted and not has[part]):
            raise UnsuitableError(WITHOUT.format(part=part))
        return folder

    def _saved_examples(self, texts: bool) -> pl.DataFrame:
        plain = self.examples.drop("question", strict=False)
        if not texts or self.source is None:
            return self.examples if texts else plain
        log = self._run_source().plan.log
        questions = collect(log.scan("examples", ["example_id", "question"]), log)
        return plain.join(questions, on="example_id", how="left", maintain_order="left")

    @checks_arguments(out="a file that ends in .html", others="results", examples="a number of examples")
    def dashboard(
        self,
        out: str | Path,
        *,
        others: Sequence[Result] = (),
        against: Result | None = None,
        texts: bool = True,
        examples: int = ON_PAGE,
        force: bool = False,
    ) -> list[Path]:
        """Write a page for a browser, with those of `others` beside it, or compared with `against` example by example:
        docs/dashboard.md says what it shows.

        It is drawn from what is saved: of a result that was not loaded, from what `.save()` writes without options.
        `texts`: whether those that were saved are written into a folder beside the page; `examples`: at most so many
        are shown; `force` replaces what is there. The paths are given back. Raises ThinkbackError where something is in
        the way, results that are compared have no example in common, or the extra `dashboard` is not installed.
        """
        from replay.runs.page.dashboard import write_dashboard

        saved = [
            one if one.folder is not None else unpack_result(result_files_as_bytes(one, one.write))
            for one in (self, *others, *([] if against is None else [against]))
        ]
        other = None if against is None else saved.pop()
        return write_dashboard(saved, out, against=other, texts=texts, examples=examples, force=force)

    def __copy__(self) -> Result:
        return self  # it never changes

    def __deepcopy__(self, memo: dict[int, Any]) -> Result:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return unpack_result, (result_files_as_bytes(self, self.write),)


@checks_arguments(address="the folder of a saved result")
def load(address: str | Path) -> Result:
    """A saved result, from its folder: it draws its tables and figures without the log.

    Raises ThinkbackError where there is none, it is damaged, or it was written by another version.
    """
    return Result(**read_findings(address))


def unpack_result(data: bytes) -> Result:
    """The result that a pickle's bytes hold."""
    scratch = files_from_bytes(data)
    return Result(**read_findings(scratch.path, scratch))
