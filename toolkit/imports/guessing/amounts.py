"""What samples cost and score: tokens, seconds, log-probabilities, verifiers."""

from __future__ import annotations

from typing import Any

import polars as pl

from toolkit.errors import listed
from toolkit.imports.guessing.columns import Column, Columns, agreeing_column, setting_text
from toolkit.imports.guessing.draft import GUESSED, Draft, reason_of
from toolkit.imports.guessing.shapes import Shape

_SHORT = 20
"""Characters below which the length of a text may be its number of tokens by chance."""


def put_column(
    draft: Draft, trace: dict[str, tuple[Any, str]], key: str, column: Column | None, text: str = "{value}"
) -> None:
    """Maps a key of `[traces]` to a column, unless a setting does. `text`: an expression of it, as `{value}`."""
    if column is not None and not draft.is_given(f"traces.{key}"):
        trace[key] = (text.format(value=column.value), reason_of(column))


def put_amounts(
    draft: Draft, trace: dict[str, tuple[Any, str]], columns: Columns, opened: bool | None, shape: Shape
) -> Columns:
    """Maps the columns of tokens, seconds, log-probabilities and finish reasons; returns the columns without these."""
    named = [] if draft.is_given("traces.completion_tokens") else columns.for_role("completion_tokens", opened=opened)
    lengths = [one for one in named if _counts_characters(one, columns)]
    if lengths:
        left_out = listed([length.value for length in lengths])
        draft.remarks.append(f"{left_out}: characters of a text, so no tokens: left out")
    known = [one for one in named if one not in lengths]
    tokens = agreeing_column(known, "the number of completion tokens", "traces.completion_tokens")
    prompts = [] if draft.is_given("traces.prompt_tokens") else columns.for_role("prompt_tokens", opened=opened)
    prompt = agreeing_column(prompts, "the number of prompt tokens", "traces.prompt_tokens")
    total = columns.for_role("total_tokens", opened=opened)
    if tokens is not None and _counts_request(tokens, columns):
        draft.remarks.append(
            f"`{tokens.value}` is the same in all samples of each question, so it may count a request of several: left"
            f" out; {setting_text('traces.completion_tokens', tokens.value)} takes it"
        )
    else:
        put_column(draft, trace, "completion_tokens", tokens, _null_if_negative(tokens))
    if tokens is None and prompt is not None and total and not draft.is_given("traces.completion_tokens"):
        trace["completion_tokens"] = (f"{total[0].value} - {prompt.value}", reason_of(total[0]))
    put_column(draft, trace, "prompt_tokens", prompt, _null_if_negative(prompt))
    columns = columns.without([tokens, prompt, *total[:1]])
    for name in ("finish_reason", "temperature", "max_tokens"):
        every = Columns(columns.every, columns.height)
        fitting = [] if draft.is_given(f"traces.{name}") else every.for_role(name)
        best = [one for one in fitting if not opened or one.opened or name != "finish_reason"]
        if best:
            put_column(draft, trace, name, best[0])
            columns = columns.without(best[:1])
    if not draft.is_given("traces.latency_s"):
        columns = _put_seconds(draft, trace, columns, opened)
    sums = [] if draft.is_given("traces.sum_logprob") else columns.for_role("sum_logprob", opened=opened)
    chosen = agreeing_column(sums, "the log-probability", "traces.sum_logprob")
    put_column(draft, trace, "sum_logprob", chosen)
    losses = columns.for_role("token_logprobs", opened=opened)
    if chosen is None and shape.logprobs is not None and not draft.is_given("traces.sum_logprob"):
        trace["sum_logprob"] = (f"sum({shape.logprobs})", GUESSED)
        counts = shape.logprobs.partition("[*]")[0]
        if shape.opened and tokens is None and not draft.is_given("traces.completion_tokens"):
            trace["completion_tokens"] = (f"len({counts})", f"{GUESSED}: a log-probability for each token")
    elif chosen is None and losses:
        put_column(draft, trace, "sum_logprob", losses[0], "sum({value})")
    return columns.without([chosen, *losses[:1]])


def _null_if_negative(column: Column | None) -> str:
    negative = column is not None and bool((column.values.cast(pl.Float64, strict=False) < 0).any())
    return "NULLIF({value}, -1)" if negative else "{value}"


def _counts_characters(count: Column, columns: Columns) -> bool:
    """Whether a column is the length of a text beside it, in characters. Texts as short as answers tell nothing."""
    number = count.values.cast(pl.Float64, strict=False)
    for one in columns.every:
        size = one.values.str.len_chars() if one.values.dtype == pl.String else None
        if size is not None and float(size.median() or 0.0) >= _SHORT:  # type: ignore[arg-type]
            same = (size == number).drop_nulls()
            if same.len() and bool(same.all()):
                return True
    return False


def _counts_request(tokens: Column, columns: Columns) -> bool:
    """Whether all samples of a question have the same token number, as where one request asked for several."""
    frame = pl.DataFrame({"group": columns.group, "tokens": tokens.values})
    sizes = frame.group_by("group").agg(n=pl.len(), several=pl.col("tokens").n_unique())
    several = sizes.filter(pl.col("n") > 2)
    return several.height >= 5 and bool((several["several"] == 1).all()) and tokens.values.n_unique() > 1


def _put_seconds(draft: Draft, trace: dict[str, tuple[Any, str]], columns: Columns, opened: bool | None) -> Columns:
    seconds = agreeing_column(columns.for_role("latency", opened=opened), "the seconds", "traces.latency_s")
    thousandths = agreeing_column(
        columns.for_role("milliseconds", opened=opened), "the milliseconds", "traces.latency_s", "{value} / 1000"
    )
    starts, ends = columns.for_role("start", opened=opened), columns.for_role("end", opened=opened)
    if seconds is not None:
        put_column(draft, trace, "latency_s", seconds)
    elif thousandths is not None:
        put_column(draft, trace, "latency_s", thousandths, "{value} / 1000")
    elif starts and ends and starts[0].values.dtype == ends[0].values.dtype:
        start, end = starts[0], ends[0]
        text = _duration_sql(start, end)
        if text is not None:
            trace["latency_s"] = (text, f"{GUESSED}: from start to end")
            return columns.without([start, end])
    else:
        unknown = columns.for_role("unit_unknown", opened=opened)
        for one in unknown[:1]:
            draft.remarks.append(
                f"`{one.value}` has no unit in its name: left out; {setting_text('traces.latency_s', one.value)} takes"
                f" seconds, {setting_text('traces.latency_s', one.value + ' / 1000')} milliseconds"
            )
        return columns.without(unknown[:1])
    return columns.without([seconds, thousandths])


def _duration_sql(start: Column, end: Column) -> str | None:
    """An SQL expression for the seconds between two times; None where the columns hold no times."""
    if start.values.dtype == pl.String:
        zoned = start.values.drop_nulls().str.contains(r"(Z|[+-]\d\d:?\d\d)$")
        if zoned.all():
            return f"STRPTIME({end.value}, '%+') - STRPTIME({start.value}, '%+')"
        return None if zoned.any() else f"TIMESTAMP({end.value}) - TIMESTAMP({start.value})"
    if start.values.dtype.is_temporal():
        return f"{end.value} - {start.value}"
    lasted = (end.values - start.values).drop_nulls()
    if lasted.len() and bool((lasted >= 0).all()):
        thousandths = float(start.values.drop_nulls().median() or 0.0) > 1e11  # type: ignore[arg-type]
        return f"({end.value} - {start.value}) / 1000" if thousandths else f"{end.value} - {start.value}"
    return None


def put_verifiers(draft: Draft, verifiers: list[tuple[str, str]], columns: Columns, opened: bool | None) -> Columns:
    """Makes a verifier of each score that needed no gold. Scores of steps make three: last, least and product."""
    metrics = columns.for_role("metric", opened=opened)
    if metrics:
        draft.remarks.append(
            f"{listed([metric.value for metric in metrics])}: compared with gold, so no verifier: left out"
        )
    columns = columns.without(metrics)
    if draft.is_given("verifiers"):
        return columns
    plain = columns.for_role("verifier", opened=opened)
    for one in plain:
        score = f"CAST({one.value} AS DOUBLE)" if one.values.dtype == pl.Boolean else one.value
        verifiers.append((one.last_name, score))
    steps = columns.without(plain).for_role("steps", opened=opened)
    for one in steps:
        for name, text in (("least", "min({value})"), ("last", "{value}[-1]"), ("product", "prod({value})")):
            verifiers.append((f"{one.last_name} {name}", text.format(value=one.value)))
    return columns.without([*plain, *steps])
