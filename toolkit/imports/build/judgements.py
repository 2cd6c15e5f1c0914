"""The verdicts of an import: those of the source, else those computed here, both under the rules of the contract.

The contract: a null answer is wrong; with a label space an answer is right exactly when it equals gold; equal
answers of an example are judged equally or marked as contested; an example is judged for all its traces or for none.
So where a label space has no gold, or a source that has verdicts and no answers lacks one of them, the whole example
is unjudged.
"""

from __future__ import annotations

import polars as pl

from toolkit.answers import judge, normalise, read_answers
from toolkit.imports.build.traces import CountedTraces
from toolkit.imports.map.expressions import SourceRows
from toolkit.imports.map.mapping import ImportMapping, TraceTable

_PAIR = ("example_id", "answer")


def with_answers(frame: pl.DataFrame, mapping: ImportMapping) -> pl.DataFrame:
    """Reads and normalises answers: `answer` gets the normal form; `opaque`, `contested` and `verdict` are set."""
    rules = mapping.answers
    wanted = {"answer": pl.String, "text": pl.String} | dict.fromkeys(("correct", "opaque", "contested"), pl.Boolean)
    for name, dtype in wanted.items():
        if name not in frame.columns:
            frame = frame.with_columns(pl.lit(None, dtype).alias(name))
    answers = frame["answer"]
    frame = frame.with_columns(reread=pl.lit(False))
    if rules.read:
        mapped = [index for index, table in enumerate(mapping.traces) if "answer" in table.columns]
        given = pl.col("group").is_in(mapped)
        whence = pl.when(given).then(pl.col("answer")).otherwise(pl.col("text"))
        answers = read_answers(frame.select(whence.alias("answer")).to_series(), rules.read, rules.pattern)
        plain = pl.col("answer").str.strip_chars().replace("", None)
        frame = frame.with_columns(reread=given & plain.ne_missing(answers))
    answers = normalise(answers, rules.kind, rules.labels, rules.aliases)
    veiled = [index for index, table in enumerate(mapping.traces) if has_only_verdicts(table, mapping)]
    # Without a verdict too: nothing is known of such a trace, least of all that it is wrong.
    marked = pl.col("group").is_in(veiled) | pl.col("opaque").fill_null(False)
    contested = pl.col("contested").fill_null(False)
    frame = frame.with_columns(answers.alias("answer"), contested, opaque=marked).rename({"correct": "verdict"})
    return _make_opaque(frame, pl.col("opaque"))


def has_only_verdicts(table: TraceTable, mapping: ImportMapping) -> bool:
    """Whether a `[traces]` table has the source's verdict but nothing that an answer could be read from."""
    readable = "answer" in table.columns or (mapping.answers.read and "text" in table.columns)
    return "correct" in table.columns and not readable


def settable_marks(mapping: ImportMapping) -> set[str]:
    """The marks, out of `opaque` and `contested`, that a mapping can set on traces."""
    marks = {name for table in mapping.traces for name in ("opaque", "contested") if name in table.columns}
    marks |= {"opaque"} if any(has_only_verdicts(table, mapping) for table in mapping.traces) else set()
    return marks | {"opaque": {"opaque"}, "keep": {"contested"}}.get(mapping.answers.conflicts, set())


def judge_traces(
    rows: SourceRows, mapping: ImportMapping, frame: pl.DataFrame, examples: pl.DataFrame, rejudge: bool
) -> CountedTraces:
    """Sets `correct` and `contested` of every trace, by the rules in the module's docstring. `frame` is of
    `with_answers`.

    Raises ThinkbackError where equal answers are judged differently and the mapping does not say what to do.
    """
    frame = _with_reference(frame, examples)
    opaque, verdict, correct = pl.col("opaque"), pl.col("verdict"), pl.col("correct")
    example, unread = pl.col("example_id"), pl.col("answer").is_null()
    before = frame.select(null_answers=unread.sum(), null_right=(unread & verdict.fill_null(False)).sum())
    how = mapping.answers.judge
    unknown = pl.repeat(None, frame.height, dtype=pl.Boolean, eager=True)
    ours = unknown if how == "source" else judge(frame["answer"], frame["gold"], how, frame["golds"])
    frame = frame.with_columns(ours.alias("ours"))
    plain = ~pl.col("opaque") & pl.col("answer").is_not_null()
    judgement = pl.coalesce("ours", "verdict") if rejudge else pl.col("verdict")
    frame = frame.with_columns(
        correct=pl.when(plain & pl.col("classed")).then(pl.col("answer") == pl.col("gold"))
        .when(plain & ~pl.col("blind")).then(judgement)
        .when(pl.col("opaque")).then(pl.col("verdict"))
    )  # fmt: skip
    frame, by_conflict = _resolve_conflicts(rows, mapping, frame)
    frame = _fill_verdicts(frame)
    after = frame.select(
        opaque_answers=opaque.sum(),
        contested=pl.col("contested").sum(),
        judgements_changed=(verdict.is_not_null() & correct.ne_missing(verdict)).sum(),
        judged_here=(verdict.is_null() & correct.is_not_null() & ~unread & ~pl.col("alike")).sum(),
        as_equal=(verdict.is_null() & correct.is_not_null() & ~unread & pl.col("alike")).sum(),
        without_gold=(pl.col("gold").is_null() & ~opaque).sum() if rejudge else pl.lit(0),
        unjudged_examples=example.filter(correct.is_null()).n_unique(),
        undecided=(opaque & verdict.is_null()).sum(),
        reread=pl.col("reread").sum(),
        blind_examples=example.filter(pl.col("blind") & ~opaque & verdict.is_not_null()).n_unique(),
    )
    counts = {**before.row(0, named=True), **after.row(0, named=True), "by_conflict": by_conflict}
    return CountedTraces(frame, counts)


def _with_reference(frame: pl.DataFrame, examples: pl.DataFrame) -> pl.DataFrame:
    """Adds each trace's `gold` and `golds`, and whether its example has labels with gold (`classed`) or without
    (`blind`).
    """
    gold = pl.col("gold") if "gold" in examples.columns else pl.lit(None, pl.String)
    golds = pl.col("golds") if "golds" in examples.columns else pl.lit(None, pl.List(pl.String))
    labels = pl.col("labels").list.len().fill_null(0) if "labels" in examples.columns else pl.lit(0)
    reference = examples.select(
        "example_id",
        gold.alias("gold"),
        golds.alias("golds"),
        classed=(labels > 0) & gold.is_not_null(),
        blind=(labels > 0) & gold.is_null(),
    )
    return frame.join(reference, on="example_id", how="left", maintain_order="left")


def _resolve_conflicts(rows: SourceRows, mapping: ImportMapping, frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Settles differing verdicts on equal answers of an example, as `answers.conflicts` says; counts their traces."""
    judged = pl.col("correct").is_not_null() & pl.col("answer").is_not_null()
    counted = frame.filter(judged & ~pl.col("opaque") & ~pl.col("contested"))
    groups = counted.group_by(_PAIR, maintain_order=True).agg(
        right=pl.col("correct").sum(), wrong=(~pl.col("correct")).sum(), first=pl.col("correct").first()
    )
    odd = groups.filter((pl.col("right") > 0) & (pl.col("wrong") > 0))
    if not odd.height:
        return frame, 0
    held = odd.select(pl.col("right").sum() + pl.col("wrong").sum()).item()
    if mapping.answers.conflicts == "error":
        row, count = odd.row(0, named=True), odd["example_id"].n_unique()
        raise rows.error(
            f"the source judges equal answers of one example differently: `{row['answer'][:60]}` of"
            f" `{row['example_id']}` is {row['right']} times right and {row['wrong']} times wrong, and so in"
            f" {'at least ' if rows.partial else ''}{count} examples;"
            ' set `answers.conflicts` to "first", "majority", "opaque" or "keep", or another `answers.kind`'
        )
    if mapping.answers.conflicts == "opaque":
        these = pl.col("example_id").is_in(odd["example_id"].to_list()) & pl.col("verdict").is_not_null()
        return _make_opaque(frame, these), held
    if mapping.answers.conflicts == "keep":
        joined = frame.join(odd.select(*_PAIR, odd=True), on=_PAIR, how="left", maintain_order="left")
        return joined.with_columns(contested=pl.col("contested") | pl.col("odd").fill_null(False)).drop("odd"), held
    most = pl.when(pl.col("right") == pl.col("wrong")).then("first").otherwise(pl.col("right") > pl.col("wrong"))
    one = most if mapping.answers.conflicts == "majority" else pl.col("first")
    joined = frame.join(odd.select(*_PAIR, settled=one), on=_PAIR, how="left", maintain_order="left")
    marked = pl.col("opaque") | pl.col("contested")
    settled = pl.when(~marked).then(pl.coalesce("settled", "correct")).otherwise(pl.col("correct"))
    return joined.with_columns(correct=settled).drop("settled"), held


def _make_opaque(frame: pl.DataFrame, these: pl.Expr) -> pl.DataFrame:
    """Makes the traces `these` opaque: their answer becomes the trace's id, their verdict stays the source's."""
    frame = frame.with_columns(opaque=pl.col("opaque") | these)
    correct = pl.when("opaque").then("verdict").otherwise("correct").alias("correct")
    verdict = [correct] if "correct" in frame.columns else []
    return frame.with_columns(pl.when("opaque").then("trace_id").otherwise("answer").alias("answer"), *verdict)


def _fill_verdicts(frame: pl.DataFrame) -> pl.DataFrame:
    """Fills missing verdicts: with that of an equal answer unless that is contested, else with a computed one. Null
    answers of judged examples are wrong.
    """
    settled = pl.col("correct").filter(~pl.col("contested")).drop_nulls().first()
    alike = pl.when(~pl.col("contested")).then(settled.over(_PAIR))
    answered = pl.col("answer").is_not_null()
    ours = pl.when(~pl.col("opaque")).then("ours")
    frame = frame.with_columns(
        correct=pl.when(answered).then(pl.coalesce("correct", alike, ours)),
        alike=pl.col("correct").is_null() & alike.is_not_null(),
    )
    # A wholly unanswered example is judged where the source judged it or a reference could have.
    judgeable = pl.col("gold").is_not_null() & pl.col("ours").is_not_null()
    judgeable |= pl.col("verdict").is_not_null() & ~pl.col("blind")
    open_ = (answered & pl.col("correct").is_null()).any().over("example_id")
    judged = ~open_ & (answered | judgeable).any().over("example_id")
    verdict = pl.when(judged).then(pl.when(answered).then(pl.col("correct")).otherwise(False))
    still = pl.col("contested") & answered & pl.col("correct").is_not_null() & ~pl.col("opaque") & ~pl.col("classed")
    return frame.with_columns(correct=verdict).with_columns(contested=still)
