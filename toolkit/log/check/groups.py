"""Checks of the rows that belong together: an example's traces, a verifier's candidates, a claim's rounds.

All take one block of examples as frames with `__row`, the place of each row in its table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from toolkit.log.check.faults import Faults, Message
from toolkit.log.contract.problems import shown
from toolkit.log.read.log import ROW


@dataclass
class Gaps:
    """Sample indices with gaps, counted over all blocks: no fault, but worth a note."""

    groups: int = 0
    traces: int = 0
    first: str = ""

    def notes(self) -> list[str]:
        """One line, or none."""
        if not self.groups:
            return []
        return [
            f"sample indices have gaps in {self.groups:,} of (example, pool, action, parent), first in {self.first}: "
            f"the {self.traces:,} traces after a gap are not replayed"
        ]


def check_traces(
    faults: Faults, traces: pl.DataFrame, examples: pl.DataFrame, gaps: Gaps, unknown_parent: Message
) -> None:
    """Parents, sample indices and judgements of the traces of a block."""
    revisions = traces.filter(pl.col("parent_id").is_not_null())
    if revisions.height:
        message = "{parent_id} is itself made from {trace_id}: a chain of revisions must begin with a solve"
        parents = traces.select("example_id", parent_id="trace_id")
        unknown = revisions.join(parents, on=["parent_id", "example_id"], how="anti")
        faults.add_rows("traces", "parent_id", "unknown", unknown, unknown_parent)
        faults.add_rows("traces", "parent_id", "cycle", _in_cycles(traces, revisions), message)
    _check_indices(faults, traces, gaps)
    judged = traces.filter(pl.col("correct").is_not_null())
    if judged.height:
        _check_judged_whole(faults, traces)
        _check_judged_equally(faults, judged)
        _check_judged_by_labels(faults, judged, examples)


def _in_cycles(traces: pl.DataFrame, revisions: pl.DataFrame) -> pl.DataFrame:
    """The revisions whose parents lead back to them; one that is its own parent has a line of its own."""
    known = traces.unique("trace_id", keep="first", maintain_order=True).with_row_index("at")
    places = known.select("at", "example_id", parent_id="trace_id")
    links = known.join(places, on=["parent_id", "example_id"], how="inner", suffix="_parent")
    links = links.filter(pl.col("at") != pl.col("at_parent"))
    above = np.full(known.height + 1, known.height)  # the last place means no parent, and is its own
    above[links["at"].to_numpy()] = links["at_parent"].to_numpy()
    for _ in range(known.height.bit_length()):  # doubles the steps: at the end only cycles are left
        if (above == known.height).all():
            break
        above = above[above]
    inside = pl.DataFrame({"at": np.unique(above[above < known.height])}, schema={"at": known.schema["at"]})
    return revisions.join(known.join(inside, on="at").select(ROW), on=ROW, how="semi")


def _check_indices(faults: Faults, traces: pl.DataFrame, gaps: Gaps) -> None:
    """Sample indices count 0, 1, 2 … in (example, pool, action, parent): twice is a fault, a gap is counted."""
    group = ["example_id", "pool", "action", "parent_id"]
    coded = traces.select(ROW, "sample_index", group=pl.struct(group).hash()).sort("group", "sample_index", ROW)
    same = pl.col("group") == pl.col("group").shift()
    before = pl.when(same).then(pl.col("sample_index").shift()).otherwise(-1)
    step = coded.with_columns(step=pl.col("sample_index") - before)
    again = step.filter(pl.col("step") == 0)
    if again.height:
        rows = traces.join(again.select(ROW), on=ROW, how="semi")
        faults.add_rows("traces", "sample_index", "twice", rows, _index_twice)
    broken = step.filter(pl.col("step") > 1)
    if broken.height:
        after = step.join(broken.group_by("group").agg(gap=pl.col("sample_index").min()), on="group")
        place = traces.filter(pl.col(ROW) == broken.sort(ROW)[ROW][0]).row(0, named=True)
        gaps.first = gaps.first or f"example {shown(place['example_id'])}, pool {shown(place['pool'])}"
        gaps.groups += broken["group"].n_unique()
        gaps.traces += after.filter(pl.col("sample_index") >= pl.col("gap")).height


def _index_twice(row: dict[str, object]) -> str:
    what = f"example {shown(row['example_id'])}, pool {shown(row['pool'])}, action {shown(row['action'])}"
    if row["parent_id"] is not None:
        what += f", parent {shown(row['parent_id'])}"
    return f"{shown(row['sample_index'])} occurs twice in {what}: number the samples 0, 1, 2 …"


def _check_judged_whole(faults: Faults, traces: pl.DataFrame) -> None:
    missing = traces.filter(pl.col("correct").is_null())
    if not missing.height:
        return
    judged = traces.filter(pl.col("correct").is_not_null()).select("example_id").unique()
    partly = missing.join(judged, on="example_id", how="semi")
    message = "is null, but other traces of example {example_id} are judged: judge all or none"
    faults.add_rows("traces", "correct", "partly judged", partly, message)


def _check_judged_equally(faults: Faults, judged: pl.DataFrame) -> None:
    answered = judged.filter(pl.col("answer").is_not_null() & ~pl.col("contested").fill_null(False))
    coded = answered.select(key=pl.struct("example_id", "answer").hash(), correct="correct")
    both = coded.unique().group_by("key").len().filter(pl.col("len") > 1)
    if not both.height:
        return
    rows = answered.filter(coded["key"].is_in(both["key"].implode())).sort(ROW)
    first = pl.col("correct").first().over("example_id", "answer")
    example = "answer {answer} of example {example_id}"
    message = f"is {{correct}} for {example}, which is judged differently before: judge equal answers alike"
    message += ", or mark them `contested`, as one import of all their files with `--set answers.conflicts=keep` does"
    faults.add_rows("traces", "correct", "judged differently", rows.filter(pl.col("correct") != first), message)


def _check_judged_by_labels(faults: Faults, judged: pl.DataFrame, examples: pl.DataFrame) -> None:
    classes = examples.filter(pl.col("labels").list.len() > 0).select("example_id", "gold")
    if not classes.height:
        return
    closed = judged.filter(~pl.col("opaque").fill_null(False)).join(classes, on="example_id")
    right = pl.col("answer").eq_missing(pl.col("gold")) & pl.col("gold").is_not_null()
    example = "answer {answer} and gold {gold} of example {example_id}"
    message = f"is {{correct}} for {example}, which has labels: correct is answer = gold"
    faults.add_rows("traces", "correct", "not by labels", closed.filter(pl.col("correct") != right), message)


def check_listwise(faults: Faults, verifications: pl.DataFrame, traces: pl.DataFrame) -> None:
    """Verifiers that rank candidates against each other: where all their rows are logged, one row pays the call."""
    listed = verifications.filter(pl.col("candidates").is_not_null())
    if not listed.height:
        return
    group = ["example_id", "pool", "action", "parent_id", "verifier"]
    placed = listed.join(
        traces.select("trace_id", "example_id", "pool", "action", "parent_id", "sample_index"),
        on=["trace_id", "example_id"],
    ).with_columns(rows=pl.len().over(group), place=pl.col("sample_index").rank("ordinal").over(group))
    alone = placed.filter((pl.col("candidates") == pl.col("rows")) & (pl.col("place") > 1))
    owner = "the row with the lowest sample_index, the others hold 0"
    for name in ("prompt_tokens", "completion_tokens", "latency_s", "device_s"):
        message = f"{{{name}}}: the cost of a call that ranks several traces belongs to {owner}"
        faults.add_rows("verifications", name, "paid twice", alone.filter(pl.col(name) > 0), message)


def check_rounds(faults: Faults, table: str, rows: pl.DataFrame, group: list[str]) -> None:
    """Rounds count 0, 1, 2 … in their group."""
    ordered = rows.unique([*group, "round"], keep="any").sort(*group, "round")
    same = pl.lit(True)
    for name in group:
        same &= pl.col(name) == pl.col(name).shift()
    before = pl.when(same).then(pl.col("round").shift()).otherwise(-1)
    broken = ordered.with_columns(before=before).filter(pl.col("round") > pl.col("before") + 1)

    def message(row: dict[str, object]) -> str:
        where = ", ".join(f"{name.removesuffix('_id')} {shown(row[name])}" for name in group)
        return (
            f"{shown(row['round'])} comes without round {int(str(row['before'])) + 1} ({where}): log every round from 0"
        )

    faults.add_rows(table, "round", "gap", broken, message)


def check_stages(faults: Faults, checks: pl.DataFrame) -> None:
    """A claim is followed in one stage."""
    claim = ["example_id", "pool", "claim"]
    mixed = checks.unique([*claim, "stage"]).group_by(claim).len().filter(pl.col("len") > 1)
    if not mixed.height:
        return
    rows = checks.join(mixed, on=claim, how="semi").sort("round", ROW)
    changed = rows.with_columns(first=pl.col("stage").first().over(claim)).filter(pl.col("stage") != pl.col("first"))
    faults.add_rows(
        "checks",
        "stage",
        "changes",
        changed,
        lambda row: (
            f"{shown(row['stage'])}, but claim {row['claim']} of example {shown(row['example_id'])} began in "
            f"{shown(row['first'])}: a claim's stage never changes"
        ),
    )
