"""`guess_mapping`: a mapping for a table that nobody described, in the words in which its owner could have written it.

A guess rests on a column's name and on contents that fit. What has no column takes a default that says nothing: one
data set, one pool. Where two columns would give other results neither counts: the error names both, and the settings
that choose. A setting that is given is kept, and its columns take no other role.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from toolkit.errors import AmbiguousError, InvalidError, UnsuitableError, listed, quote
from toolkit.imports.guessing import answers as reading
from toolkit.imports.guessing.amounts import put_amounts, put_column, put_verifiers
from toolkit.imports.guessing.columns import (
    NUMBERED,
    Column,
    Columns,
    agreeing_column,
    as_texts,
    check_python_lists,
    columns_by_model,
    columns_of,
    comparison_advice,
    resolve_number_pairs,
    rival_outputs,
    setting_text,
)  # fmt: skip
from toolkit.imports.guessing.draft import DEFAULT, GUESSED, TABLES, Draft, constant_text, mapping_text, reason_of
from toolkit.imports.guessing.roles import ROLES, WEAK, is_scalar
from toolkit.imports.guessing.shapes import Shape, shape_of
from toolkit.imports.map.expressions import TRUTHS, columns_read
from toolkit.imports.map.mapping import ROW_ORDER, override_setting

POOL, MODEL, SPLIT = "samples", "unknown", "test"
_ROW_IDS = {"id", "idx", "index", "uid", "uuid", "key", "request_id", "custom_id"}
"""Names of ids that may be those of rows: a question that comes again under each of them is one question."""
_MANY, _FEW = 0.9, 0.2
_SETTINGS = 60
"""Values of a setting, at most."""
_ODD_SHARE = 0.98


def _check_tables(given: Mapping[str, Any]) -> None:
    """InvalidError where the user's settings give a value in place of a table."""
    for path, names in TABLES.items():
        for name in names:
            table: Any = given
            for part in (*path, name):
                table = table.get(part, {})
            if not isinstance(table, Mapping):
                place = ".".join((*path, name))
                raise InvalidError(f"`{place}` is {quote(table)}; it takes keys: write `{place}.KEY=VALUE`")


@dataclass(frozen=True)
class Guess:
    """A guessed mapping. `text`: its file; `sources`: those that it reads; `unjudged`: what it lacks for a report."""

    text: str
    sources: tuple[str, ...]
    name: str
    unjudged: str | None = None


def guess_mapping(sources: Sequence[str], settings: Sequence[str] = ()) -> Guess:
    """Guesses a mapping for the tables in `sources`. It keeps `settings` such as `examples.gold=truth` as they are.

    ThinkbackError where a file can't be read, two columns may be one thing, or nothing says what a model answered.
    """
    given: dict[str, Any] = {}
    for one in settings:
        override_setting(given, one)
    _check_tables(given)
    shape = shape_of(sources, given)
    draft = Draft(given)
    every = Columns((*columns_of(shape.rows, shape.opened), *shape.more), shape.rows.frame.height)
    every = resolve_number_pairs(every, given.get("traces", {}).get("answer"))
    for column in every.every:
        check_python_lists(column)
    columns = replace(every, assigned=_columns_in_settings(given, every) | shape.assigned)
    columns = _put_example(draft, columns, shape)
    columns, unjudged = _put_sample_lists(draft, columns, shape)
    name = constant_text(shape.name)
    draft.set_guess("name", name, DEFAULT)
    draft.put_default("examples.dataset", f"'{name}'")
    return Guess(mapping_text(draft, shape, columns), shape.sources, name, unjudged)


def _columns_in_settings(given: Mapping[str, Any], columns: Columns) -> frozenset[str]:
    """The columns that the user's settings name. They get no other role."""
    values: list[Any] = []

    def collect(value: Any) -> None:
        if isinstance(value, Mapping):
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)
        elif isinstance(value, str):
            values.append(value)

    for table in ("examples", "traces", "verifiers", "features"):
        collect(given.get(table, {}))
    names = {*values, *columns_read(values, [column.value for column in columns.every])}
    return frozenset(column.value for column in columns.every if column.value in names)


def _put_example(draft: Draft, columns: Columns, shape: Shape) -> Columns:
    """Maps the question, the id and what else is constant in an example. Returns the columns, grouped by example."""
    files = None if shape.file_id is None else as_texts(shape.rows.frame[shape.file_id]).rank("dense")
    if draft.is_given("examples.question"):
        value = draft.given["examples"]["question"]
        questions = [Column(value, value, shape.rows.compute("examples.question", value))]
    else:
        questions = replace(columns, group=files).for_role("question", opened=False if shape.opened else None)
    question = questions[0] if questions else None
    columns = columns.without([question])
    ids = columns.for_role("id", opened=False) if shape.opened else columns.for_role("id")
    rows = shape.rows
    if draft.is_given("examples.example_id"):
        value = draft.given["examples"]["example_id"]
        group = rows.compute("examples.example_id", value)
    elif shape.file_id is not None:
        value, group = shape.file_id, rows.frame[shape.file_id]
        draft.set_guess("examples.example_id", value, "guessed: a file for each question")
    else:
        chosen = _id_column(ids, question)
        if chosen is not None:
            value, group = chosen.value, chosen.values
            draft.set_guess("examples.example_id", value, reason_of(chosen))
            columns = columns.without([chosen])
        elif question is not None:
            value, group = "'q'", question.values
            draft.set_guess("examples.example_id", "'q'", "default: no id, so equal texts are one question")
        else:
            value, group = "source_row", rows.frame["source_path"] + as_texts(rows.frame["source_row"])
            _check_runs(columns, draft)
            draft.set_guess("examples.example_id", value, "default: no id or question, so each row is a question")
    if question is not None:
        draft.set_guess("examples.question", question.value, reason_of(question))
        if draft.given.get("ids") != "trust" and value != "'q'":
            group = as_texts(group).fill_null("") + "\0" + as_texts(question.values).fill_null("")
    else:
        draft.set_guess("examples.question", value, "default: the id stands for the question")
    codes = as_texts(group).fill_null("").rank("dense")
    columns = replace(columns, group=codes)
    for name in ("split", "dataset"):
        best = [one for one in columns.for_role(name, scalar=True) if one.values.n_unique() <= _SETTINGS]
        if best:
            draft.set_guess(f"examples.{name}", best[0].value, reason_of(best[0]))
            columns = columns.without(best[:1])
    draft.put_default("examples.split", f"'{SPLIT}'")
    clusters = [one for one in columns.for_role("cluster", scalar=True) if 1 < one.values.n_unique() < codes.n_unique()]
    if clusters:
        draft.set_guess("examples.cluster", clusters[0].value, reason_of(clusters[0]))
        columns = columns.without(clusters[:1])
    return columns


def _id_column(ids: Sequence[Column], question: Column | None) -> Column | None:
    """The column that numbers questions; None where each candidate numbers rows and the question says more."""
    whole = [one for one in ids if not one.values.null_count()]
    if question is None or not whole:
        explicit = [one for one in whole if one.last_name not in _ROW_IDS]
        if len(explicit or whole) > 1 and not explicit:
            return agreeing_column(whole, "the id of a question", "examples.example_id")
        return next(iter(explicit or whole), None)
    texts = question.values.fill_null("")
    for one in whole:
        pairs = pl.DataFrame({"id": as_texts(one.values), "text": texts}).unique()
        if pairs["id"].is_unique().all() and pairs["text"].is_unique().all():
            return one
    for one in whole:
        pairs = pl.DataFrame({"id": as_texts(one.values), "text": texts}).unique()
        if not pairs["id"].is_unique().all() or one.last_name not in _ROW_IDS:
            return one  # an id of several questions, which the import splits, or one that is called that of a question
        again = float(pairs["text"].is_duplicated().mean() or 0.0)  # type: ignore[arg-type]
        if again <= _FEW:
            return one
        if again < _MANY:
            raise AmbiguousError(
                f"questions come again under other values of `{one.value}`: they are samples of one question by"
                f" {setting_text('examples.example_id', chr(39) + 'q' + chr(39))}, questions of their own by"
                f" {setting_text('examples.example_id', one.value)}"
            )
    return None


def _check_runs(columns: Columns, draft: Draft) -> None:
    """Raises AmbiguousError where nothing names questions but gold comes in equal runs, as with several samples, or
    another column has each of many values equally often.
    """
    golds = columns.for_role("gold", weak=True)
    if columns.every[0].opened is False:
        return
    for one in columns.every:
        sizes = as_texts(one.values).value_counts(name="n")["n"]
        often = int(sizes[0])
        if is_scalar(one.values) and 1 < often < sizes.len() and sizes.n_unique() == 1 and not one.values.null_count():
            raise AmbiguousError(
                f"nothing names the questions, and `{one.value}` has each of its values {often} times: write"
                f" {setting_text('examples.example_id', one.value)} where it tells questions apart,"
                f" {setting_text('examples.example_id', 'source_row')} for a question in each row"
            )
    if not golds:
        return
    words = as_texts(golds[0].values).fill_null("")
    runs = words.rle().struct.field("len")
    size = int(runs.min() or 1)  # type: ignore[arg-type]
    if size > 1 and bool((runs % size == 0).all()) and runs.len() > 1:
        raise AmbiguousError(
            f"nothing names the questions, and `{golds[0].value}` comes in runs of {size}: write "
            f"{setting_text('examples.example_id', f'(source_row - 1) // {size}')} for {size} samples of each question,"
            f" {setting_text('examples.example_id', 'source_row')} for a question in each row"
        )


@dataclass(frozen=True)
class _OutputColumns:
    """The columns with what a model answered, and with what says whether it is right; None for a missing one."""

    gold: Column | None
    answer: Column | None
    text: Column | None
    verdict: Column | None


def _put_sample_lists(draft: Draft, columns: Columns, shape: Shape) -> tuple[Columns, str | None]:
    """Maps the columns of traces. Returns the remaining columns and a sentence on what a report would lack."""
    pairs = _put_preferences(draft, columns)
    if pairs is not None:
        return pairs, None
    wide = columns_by_model(columns) if not shape.opened else {}
    if not wide or columns.for_role("answer", "text", "verdict"):
        return _put_trace(draft, columns, shape)
    unjudged, rest = None, columns
    samples = all(map(NUMBERED.fullmatch, wide))
    for number, (affix, names) in enumerate(wide.items()):
        view = replace(
            columns,
            every=tuple(replace(one, name=names[one.value]) for one in columns.every if one.value in names)
            + tuple(one for one in columns.every if not any(one.value in others for others in wide.values())),
        )
        left, unjudged = _put_trace(draft, view, shape, affix, number if samples else None)
        rest = replace(rest, assigned=rest.assigned | left.assigned)
    return rest, unjudged


def _put_preferences(draft: Draft, columns: Columns) -> Columns | None:
    """Maps pairs of outputs of which a judge prefers one, as pairwise judges write them; None where there are none."""
    keys = ("traces.correct", "traces.answer", "traces.text", "examples.gold")
    given = any(map(draft.is_given, keys)) or columns.for_role("gold", weak=False)
    rivals = None if given else rival_outputs(columns)
    if rivals is None:
        return None
    models = [model for _, model, _, _ in rivals[1]]
    named = [as_texts(one.values) for one in models if one is not None and one.values.n_unique() <= _SETTINGS]
    apart = len(named) == 2 and not (named[0] == named[1]).any()
    for number, (text, model, wins, credit) in enumerate(rivals[1], 1):
        name = model.value if apart and model is not None else f"'output {number}'"
        table = {"pool": name, "model": name, "sample_index": ROW_ORDER}
        table |= {"text": text.value, "correct": wins, "credit": credit}
        draft.traces.append(({key: (value, f"{GUESSED}: a judge of pairs") for key, value in table.items()}, []))
    return columns.without([rivals[0], *(text for text, *_ in rivals[1]), *(models if apart else [])])


def _put_trace(
    draft: Draft, columns: Columns, shape: Shape, affix: str | None = None, number: int | None = None
) -> tuple[Columns, str | None]:
    """Maps one table of traces, with an `affix` only its columns; returns the rest, and what a report would lack.

    With a `number` they are samples of this number where a question has one row, else those of a pool.
    """
    trace: dict[str, tuple[Any, str]] = {}
    verifiers: list[tuple[str, str]] = []
    draft.traces.append((trace, verifiers))
    opened = True if shape.opened else None
    out = _find_output(draft, columns, opened)
    columns = columns.without([out.gold, out.answer, out.text, out.verdict])
    if out.verdict is not None and shape.opened and not out.verdict.opened:
        out = replace(out, verdict=None)
    columns = _put_conditions(draft, trace, columns, shape)
    if number is not None and columns.group is not None and columns.group.n_unique() == columns.height:
        trace["sample_index"] = (f"{number}", f"{GUESSED}: a column for each sample")
    elif affix is not None:
        trace |= {"pool": (f"'{affix}'", GUESSED)} | (
            {"model": (f"'{affix}'", GUESSED)} if "'" in trace["model"][0] else {}
        )
    columns = put_amounts(draft, trace, columns, opened, shape)
    verdict, columns = _weak_verdict(draft, columns, out, opened)
    out = replace(out, verdict=out.verdict or verdict)
    put_column(draft, trace, "correct", out.verdict)
    put_column(draft, trace, "answer", out.answer)
    put_column(draft, trace, "text", out.text)
    if out.gold is not None:
        draft.set_guess("examples.gold", out.gold.value, reason_of(out.gold))
    unjudged = _put_answers(draft, trace, out, columns)
    columns = put_verifiers(draft, verifiers, columns, opened)
    extras = [one for one in columns.for_role("extra", scalar=True) if 1 < one.values.n_unique() <= _SETTINGS]
    for one in extras:
        draft.set_guess(f"examples.extra.{one.last_name}", one.value, GUESSED)
    columns = columns.without(extras)
    _check_conditions(draft, columns, trace)
    return columns, unjudged


def _find_output(draft: Draft, columns: Columns, opened: bool | None) -> _OutputColumns:
    """Finds gold, answers, texts and verdicts by their names and by what differs from sample to sample."""

    def columns_for_role(key: str, role: str, scalar: bool = True, opened: bool | None = None) -> list[Column]:
        table, _, name = key.partition(".")
        if draft.is_given(key):
            return [one for one in columns.every if one.value == draft.given[table][name]]
        return columns.for_role(role, weak=False, scalar=scalar, opened=opened)

    golds = columns_for_role("examples.gold", "gold")
    replies = columns_for_role("traces.answer", "answer", opened=opened)
    texts = columns_for_role("traces.text", "text", opened=opened)
    golds = [one for one in golds if not (opened and one.opened)]
    if opened and not replies and not texts and not draft.is_given("traces.text"):
        texts = columns.for_role("text", scalar=True, opened=True)
    several = not draft.is_given("traces.answer") and (len(replies) > 1 or not texts)
    long = [one for one in replies if reading.is_long(as_texts(one.values))] if several else []
    if len(long) < len(replies):
        texts = [*texts, *(one for one in long if one not in texts)]
        replies = [one for one in replies if one not in long]
    elif replies and not texts:
        texts, replies = replies, []
    verdicts = columns_for_role("traces.correct", "verdict", False, opened)
    verdict = agreeing_column(verdicts, "the verdict", "traces.correct")
    if not golds and not draft.is_given("examples.gold"):
        golds = _weak_gold(draft, columns, [*replies, *texts], verdict, opened)
    elif golds and replies and not draft.is_given("examples.gold") and columns.varies(replies[0].values):
        golds = [*golds, *_rival_golds(columns.without([*golds, *replies, *texts]), golds[0])]
    gold = _gold_column_if_agreed(golds)
    rest = columns.without([gold])
    if not replies and not draft.is_given("traces.answer"):
        weak = [
            one for one in rest.for_role("answer", scalar=True, opened=opened) if one not in texts and one not in golds
        ]
        if weak and (gold is not None or draft.is_given("examples.gold") or verdict is not None or not texts):
            replies = [one for one in weak if gold is None or not as_texts(one.values).equals(as_texts(gold.values))]
    if not texts and not draft.is_given("traces.text"):
        texts = [one for one in rest.without(replies).for_role("text", scalar=True, opened=opened) if one not in golds]
    answer = agreeing_column(replies, "the answer", "traces.answer")
    if answer is None and len(texts) > 1 and not draft.is_given("traces.answer"):
        agreeing_column(texts, "the text that answers are read from", "traces.text")
    if opened and gold is not None and answer is not None and not draft.is_given("examples.gold"):
        _check_vote(gold, answer, columns)
    text = texts[0] if texts else None
    alone = answer is None and text is not None and not draft.is_given("traces.answer")
    if alone and text is not None and not reading.is_long(as_texts(text.values)):
        answer, text = text, None
    return _OutputColumns(gold, answer, text, verdict)


def _check_vote(gold: Column, answer: Column, columns: Columns) -> None:
    """Raises AmbiguousError where what may be gold, such as `answer`, is the vote of nearly all questions' samples."""
    if (ROLES["gold"].name_fit(gold.name) or [0])[0] != WEAK or gold.opened or not columns.varies(answer.values):
        return
    rows = pl.DataFrame({"group": columns.group, "gold": as_texts(gold.values), "reply": as_texts(answer.values)})
    votes = rows.group_by("group", "gold", "reply").len().with_columns(most=pl.col("len").max().over("group"))
    won = votes.filter((pl.col("gold") == pl.col("reply")) & (pl.col("len") == pl.col("most")))["group"].n_unique()
    if won >= _ODD_SHARE * rows["group"].n_unique():
        raise AmbiguousError(
            f"`{gold.value}` may be gold, or the vote of the samples, as it is what most say in `{answer.value}`: write"
            f" {setting_text('examples.gold', gold.value)}, or {setting_text('examples.gold', 'COLUMN')} for another"
        )


def _rival_golds(columns: Columns, gold: Column) -> list[Column]:
    """Columns such as `answer` that may be gold as well as `gold` is: short answers of its kind, one a question."""
    kind = reading.guess_rules_table(reading.Sample(as_texts(gold.values), None, None))["kind"]
    return [
        one
        for one in columns.for_role("gold", scalar=True)
        if kind != "exact"
        and one.opened == gold.opened
        and not (ROLES["verdict"].name_fit(one.name) and ROLES["verdict"].fits(one.values))
        and reading.guess_rules_table(reading.Sample(as_texts(one.values), None, None)) == {"kind": kind}
    ]


def _gold_column_if_agreed(golds: Sequence[Column]) -> Column | None:
    """The gold column. Of several it is the first, if all agree once answers are read from them."""
    if len(golds) < 2:
        return golds[0] if golds else None
    forms = []
    for one in golds:
        words = as_texts(one.values)
        rules = reading.guess_rules_table(reading.Sample(words, None, None))
        forms.append(reading.normal_answers(words, rules))
    alike = [golds[0]] + [
        one
        for one, form in zip(golds[1:], forms[1:], strict=True)
        if float((form.eq_missing(forms[0])).mean() or 0.0) < _ODD_SHARE  # type: ignore[arg-type]
    ]
    return agreeing_column(alike, "the gold answer", "examples.gold")


def _weak_gold(
    draft: Draft, columns: Columns, outputs: Sequence[Column], verdict: Column | None, opened: bool | None
) -> list[Column]:
    """Columns such as `answer` that are gold: they have one value a question, which is not read from the texts."""
    weak = [one for one in columns.for_role("gold", scalar=True) if one not in outputs and not (opened and one.opened)]
    if not outputs or not weak:
        return []
    out = as_texts(outputs[0].values)
    if columns.varies(outputs[0].values) or (opened and not weak[0].opened):
        return weak
    words, replies = as_texts(weak[0].values).fill_null("\0").str.strip_chars(), out.fill_null("")
    if words.str.contains("####", literal=True).mean() == 1:
        return weak
    inside = (
        pl.DataFrame({"replies": replies, "gold": words})
        .select(pl.col("replies").str.contains(pl.col("gold"), literal=True))
        .to_series()
    )
    if verdict is not None:
        right = _as_verdicts(verdict.values).fill_null(False)
        held = float(inside.filter(~right).mean() or 0.0)  # type: ignore[arg-type]
        if (~right).sum() >= 5 and (held < 0.5 or held > _MANY):
            return weak if held < 0.5 else []
    elif float(inside.mean() or 0.0) < _MANY:  # type: ignore[arg-type]
        return weak
    raise AmbiguousError(
        f"`{weak[0].value}` may be the gold answer, or the one read from `{outputs[0].value}`: write"
        f" {setting_text('examples.gold', weak[0].value)} or {setting_text('traces.answer', weak[0].value)}"
    )


def _as_verdicts(values: pl.Series) -> pl.Series:
    words = as_texts(values).str.strip_chars().str.to_lowercase()
    return words.replace_strict(TRUTHS, default=None, return_dtype=pl.Boolean)


def _put_conditions(draft: Draft, trace: dict[str, tuple[Any, str]], columns: Columns, shape: Shape) -> Columns:
    """Maps model, pool and sample index: what tells the rows of one example apart."""
    models = [one for one in columns.for_role("model", scalar=True) if one.values.n_unique() <= _SETTINGS]
    model = models[0] if models else None
    if not draft.is_given("traces.model"):
        trace["model"] = (model.value, reason_of(model)) if model is not None else (f"'{MODEL}'", DEFAULT)
    columns = columns.without(models[:1])
    pools = columns.for_role("pool", scalar=True)
    frame = pl.DataFrame({"group": columns.group})
    parts: list[Column] = []
    if pools and not draft.is_given("traces.pool"):
        parts = pools[:1]
    elif not draft.is_given("traces.pool"):
        run = [shape.run] if shape.run is not None else []
        wide = [one for one in [model] if one is not None and one.values.n_unique() > 1]
        settings = [one for one in columns.for_role("setting", scalar=True) if columns.varies(one.values)]
        for one in [*wide, *run, *settings]:
            if one.values.n_unique() > _SETTINGS or one.values.null_count():
                continue
            names = [f"{number}" for number in range(len(parts))]
            before = frame.hstack([as_texts(part.values).alias(name) for part, name in zip(parts, names, strict=True)])
            after = before.with_columns(as_texts(one.values).alias("new"))
            if after.n_unique() > before.n_unique() and not _is_sample_index(one, before):
                parts.append(one)
    if not draft.is_given("traces.pool"):
        trace["pool"] = (
            (_joined_columns(parts), f"{GUESSED}: several for one question") if parts else (f"'{POOL}'", DEFAULT)
        )
    slots = frame.hstack([as_texts(part.values).alias(f"{number}") for number, part in enumerate(parts)])
    if draft.is_given("traces.pool"):
        slots = slots.with_columns(pool=as_texts(shape.rows.compute("traces.pool", draft.given["traces"]["pool"])))
    columns = columns.without(parts)
    return _put_sample_index(draft, trace, columns, shape, slots)


def _is_sample_index(one: Column, slots: pl.DataFrame) -> bool:
    """Whether a column that may be a setting differs in each row of an example, as an index does."""
    weak = ROLES["sample_index"].name_fit(one.name)
    rows = slots.with_columns(as_texts(one.values).alias("new"))
    return weak is not None and not rows.is_duplicated().any() and bool(slots.is_duplicated().any())


def _joined_columns(parts: Sequence[Column]) -> str:
    values = [one.value if one.values.dtype == pl.String else f"'{one.last_name}=', {one.value}" for one in parts]
    if len(values) == 1 and parts[0].values.dtype == pl.String:
        return values[0]
    return f"CONCAT({(', ' + chr(39) + '-' + chr(39) + ', ').join(values)})"


def _put_sample_index(
    draft: Draft, trace: dict[str, tuple[Any, str]], columns: Columns, shape: Shape, slots: pl.DataFrame
) -> Columns:
    """Maps the sample index to a column that numbers the rows of each example and pool, else to the order of rows."""
    if draft.is_given("traces.sample_index"):
        return columns
    if shape.opened:
        trace["sample_index"] = (shape.element, f"{GUESSED}: the place in the list")
        return columns.without(columns.for_role("sample_index", opened=True))
    if not slots.is_duplicated().any():
        trace["sample_index"] = (ROW_ORDER, "default: one sample in each pool")
        return columns
    strong = columns.for_role("sample_index", weak=False)
    for candidates in (strong, [one for one in columns.for_role("sample_index") if one not in strong]):
        candidates = [one for one in candidates if one.values.n_unique() > 1 and not one.values.null_count()]
        apart = [one for one in candidates if not slots.with_columns(i=one.values).is_duplicated().any()]
        if apart:
            one = apart[0] if len(apart) == 1 else _agreeing_index(apart, slots)
            first, consecutive = _index_range(one.values, slots)
            if consecutive:
                value = one.value if first == 0 else f"{one.value} - {first}"
                trace["sample_index"] = (value, reason_of(one))
            else:
                trace["sample_index"] = (ROW_ORDER, f"default: `{one.value}` has gaps")
            return columns.without([one])
        for one in candidates:
            if candidates is strong or one in strong:
                _check_repeats(one, slots, columns, shape)
                first, _ = _index_range(one.values, slots)
                trace["sample_index"] = (one.value if first == 0 else f"{one.value} - {first}", reason_of(one))
                return columns.without([one])
    trace["sample_index"] = (ROW_ORDER, DEFAULT)
    return columns


def _agreeing_index(apart: Sequence[Column], slots: pl.DataFrame) -> Column:
    """The first of several index columns, if all of them sort samples alike."""
    names = [*slots.columns]
    ranks = [slots.with_columns(i=one.values).select(pl.col("i").rank().over(names)).to_series() for one in apart]
    other = [one for one, rank in zip(apart[1:], ranks[1:], strict=True) if not rank.equals(ranks[0])]
    chosen = agreeing_column([apart[0], *other], "the index of samples", "traces.sample_index")
    return chosen if chosen is not None else apart[0]


def _index_range(values: pl.Series, slots: pl.DataFrame) -> tuple[int, bool]:
    """The smallest index, and whether the indices of each example and pool count up from it without gaps."""
    whole = slots.with_columns(i=values.cast(pl.Int64)).unique()
    sizes = whole.group_by(slots.columns).agg(low=pl.col("i").min(), high=pl.col("i").max(), n=pl.len())
    first = int(sizes["low"].min() or 0)  # type: ignore[arg-type]
    fits = (sizes["low"] == first) & (sizes["high"] - sizes["low"] + 1 == sizes["n"])
    return first, first in (0, 1) and bool(fits.all())


def _check_repeats(one: Column, slots: pl.DataFrame, columns: Columns, shape: Shape) -> None:
    """Raises AmbiguousError where an index repeats in an example and pool with different contents."""
    rows = slots.with_columns(i=one.values)
    content = [as_texts(other.values).alias(f"c{number}") for number, other in enumerate(columns.every)]
    whole = rows.hstack(content)
    if whole.unique().height == rows.unique().height:
        return  # the same rows again, as a resumed run appends them
    apart = [
        other
        for other in columns.every
        if is_scalar(other.values)
        and 1 < other.values.n_unique() <= _SETTINGS
        and other.value != one.value
        and not rows.with_columns(p=as_texts(other.values)).is_duplicated().any()
    ]
    options = [setting_text("traces.pool", other.value) for other in apart[:2]]
    options += [setting_text("traces.sample_index", ROW_ORDER), setting_text("duplicates", "first")]
    raise AmbiguousError(
        f"`{one.value}` has one value several times for one question, with other contents: write {' or '.join(options)}"
    )


def _weak_verdict(
    draft: Draft, columns: Columns, out: _OutputColumns, opened: bool | None
) -> tuple[Column | None, Columns]:
    """A score that is always 0 or 1, where it is the verdict. On its own it may as well be a verifier's."""
    if out.verdict is not None or draft.is_given("traces.correct") or draft.is_given("verifiers"):
        return None, columns
    binary = [one for one in columns.for_role("verdict", opened=opened) if one.values.drop_nulls().n_unique() <= 2]
    if not binary:
        return None, columns
    one = binary[0]
    if one.last_name in ("acc", "accuracy", "grade", "status"):
        return one, columns.without([one])
    if out.gold is not None and (out.answer or out.text) is not None:
        judged = _computed_verdicts(out)
        truth = _as_verdicts(one.values)
        both = pl.DataFrame({"judged": judged, "truth": truth}).drop_nulls()
        if both.height and float((both["judged"] == both["truth"]).mean() or 0.0) >= _ODD_SHARE:  # type: ignore[arg-type]
            return one, columns.without([one])
    score = json.dumps({"verifier": f"'{one.last_name}'", "score": one.value})
    toml = "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in json.loads(score).items()) + " }"
    raise AmbiguousError(
        f"`{one.value}` is 0 or 1 throughout, so it may be the verdict or a verifier's score: write"
        f" {setting_text('traces.correct', one.value)} or {setting_text('verifiers', toml)}"
    )


def _computed_verdicts(out: _OutputColumns) -> pl.Series:
    source = out.answer or out.text
    if out.gold is None or source is None:
        return pl.Series([], dtype=pl.Boolean)
    gold, replies = as_texts(out.gold.values), as_texts(source.values)
    rules = reading.guess_rules_table(reading.Sample(gold, replies, None))
    answers = {name: value for name, value in rules.items() if name != "read_gold"}
    return reading.normal_answers(replies, answers).eq_missing(
        reading.normal_answers(gold, {**rules, "read": rules.get("read_gold", ())})
    )


def _put_answers(draft: Draft, trace: dict[str, tuple[Any, str]], out: _OutputColumns, columns: Columns) -> str | None:
    """Writes the table `[answers]`; returns a sentence on what a report would lack, if anything."""
    has_answer = out.answer is not None or draft.is_given("traces.answer")
    has_text = out.text is not None or draft.is_given("traces.text")
    has_verdict = out.verdict is not None or draft.is_given("traces.correct")
    judged = out.gold is not None or draft.is_given("examples.gold") or has_verdict
    better = None if judged else comparison_advice(columns)
    if not has_answer and not has_text and not has_verdict:
        raise UnsuitableError(better or _no_output_text(out, columns))
    source = out.answer or out.text
    gold = as_texts(out.gold.values) if out.gold is not None else None
    replies = as_texts(source.values) if source is not None else None
    verdict = _as_verdicts(out.verdict.values) if out.verdict is not None else None
    gold, replies, verdict = reading.sampled_rows([gold, replies, verdict])
    rules = dict(reading.guess_rules_table(reading.Sample(gold, replies, verdict), out.answer is not None))
    if out.verdict is not None and (out.answer is not None or "read" in rules):
        rules["conflicts"] = "keep"
        _adapt_rules(rules, out, trace, draft)
    for name, value in rules.items():
        draft.set_guess(f"answers.{name}", value, GUESSED)
    return None if judged else better or _unjudged_text(columns, out)


def _adapt_rules(rules: dict[str, Any], out: _OutputColumns, trace: dict[str, tuple[Any, str]], draft: Draft) -> None:
    """Adapts the rules to the source's verdicts: no right and wrong answer may be equal, and no right one be lost."""
    source = out.answer or out.text
    assert out.verdict is not None
    if source is None:
        return
    truth, replies = _as_verdicts(out.verdict.values), as_texts(source.values)
    labels = out.gold is not None and rules.get("kind") == "label"
    if labels and not _computed_verdicts(out).eq_missing(truth).all():
        rules.pop("labels")
        rules["kind"] = "exact"
    frame = pl.DataFrame({"replies": replies, "truth": truth})
    missing = frame.filter(pl.col("replies").is_null() | (pl.col("replies").str.strip_chars() == ""))
    if out.answer is not None and missing["truth"].fill_null(False).any() and not draft.is_given("traces.opaque"):
        trace["opaque"] = (f"{out.answer.value} IS NULL", f"{GUESSED}: verdicts without answers")


def _unjudged_text(columns: Columns, out: _OutputColumns) -> str:
    """The sentence for a table with neither gold nor verdicts, which may be a set of questions with their gold."""
    graded = [one for one in columns.for_role("verifier") if one.values.dtype != pl.Boolean]
    if graded:
        one, known = graded[0], graded[0].values.drop_nulls().cast(pl.Float64)
        low, high = float(known.min() or 0.0), float(known.max() or 0.0)  # type: ignore[arg-type]
        top = next((scale for scale in (1.0, 5.0, 10.0, 100.0) if high <= scale), high)
        settings = [setting_text("traces.correct", f"{one.value} >= {0.7 * top:g}")]
        if low >= 0:
            settings.append(setting_text("traces.credit", f"{one.value} / {top:g}" if top != 1 else one.value))
        return (
            f"nothing says which answers are right: there is neither gold nor a verdict; `{one.value}` grades from"
            f" {low:g} to {high:g}: where that is a judge's, write {' '.join(settings)}"
        )
    questions, group = "", columns.group
    if out.answer is not None and out.text is None and group is not None and group.n_unique() == len(group):
        questions = f"; if `{out.answer.value}` is gold, these are questions without outputs: see `thinkback generate`"
    return (
        "nothing says which answers are right: there is neither gold nor a verdict; write"
        f" {setting_text('examples.gold', 'COLUMN')} or {setting_text('traces.correct', 'COLUMN')}, or name a file with"
        f" ids and gold beside it{questions}"
    )


def _no_output_text(out: _OutputColumns, columns: Columns) -> str:
    names = listed([one.value for one in columns.every], 12)
    answer, text = setting_text("traces.answer", "COLUMN"), setting_text("traces.text", "COLUMN")
    gold = "" if out.gold is not None else f", gold with {setting_text('examples.gold', 'COLUMN')}"
    return (
        f"no column says what a model answered (there are {names}): name it with {answer}, or its whole text with"
        f" {text}{gold}; where these are questions without outputs, name the file of outputs too, or ask a model with"
        " `thinkback generate`"
    )


def _check_conditions(draft: Draft, columns: Columns, trace: dict[str, tuple[Any, str]]) -> None:
    """Raises AmbiguousError where a column without a role has each of its values equally often in every question."""
    if draft.is_given("traces.pool"):
        return
    sizes = pl.DataFrame({"group": columns.group}).group_by("group").len()
    if not (sizes["len"] > 1).any():
        return
    for one in columns.every:
        few = 1 < one.values.n_unique() <= 12 if is_scalar(one.values) and one.value not in columns.assigned else False
        if not few or not one.opened or one.values.null_count():
            continue
        counts = pl.DataFrame({"group": columns.group, "value": as_texts(one.values)}).group_by("group", "value").len()
        each = counts.group_by("group").agg(n=pl.len(), low=pl.col("len").min(), high=pl.col("len").max())
        if (each["n"] == one.values.n_unique()).all() and (each["low"] == each["high"]).all():
            raise AmbiguousError(
                f"`{one.value}` has {one.values.n_unique()} values, each as often in every question: write"
                f" {setting_text('traces.pool', one.value)} for a pool of each,"
                f" {setting_text('traces.pool', chr(39) + POOL + chr(39))} for samples of one"
            )
