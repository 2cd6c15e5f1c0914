"""The tables: the paper's 1 to 4, of areas under ROC curves, the verdicts, and those of the ablations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from replay.studies.kit.cells import interval_cell, read_interval
from replay.studies.kit.published import PublishedRow, PublishedWork
from replay.studies.kit.sheet import (
    Captions,
    Column,
    DashReason,
    Row,
    Sheet,
    Value,
    intervals,
    merge_notes,
    numbers,
    words,
)
from replay.studies.latent import study as what
from replay.studies.latent.places import places_text
from replay.studies.latent.study import SELECTING as SELECTED
from replay.studies.latent.study import LatentStudy
from replay.studies.latent.verdicts import (
    FITTED,
    LOGPROB,
    NO_LOGPROBS,
    POOLED,
    REFLECTION,
    WITHIN,
    MeasuredPool,
    SignalAuc,
    Verdict,
    fitting_records,
    is_above,
)
from toolkit.errors import counted
from toolkit.log.describe.verifier_quality import BEST
from toolkit.show import Number, TableColumn, code_of, remark

WORK = PublishedWork(
    "lilave",
    {
        "gsm8k": "GSM8K", "gsmsymbolic": "GSM-Symbolic", "gsmsymbolicp2": "GSM-Symbolic-p2",
        "algebralinear1d": "algebra_linear_1d", "math500": "MATH500", "math": "MATH500",
    },
)  # fmt: skip
BY_BENCHMARK = ("1", "2", "3")
MODELS = {
    "llama_3_1_8b_auc": "Llama 3.1 8B", "gemma_2_2b_auc": "Gemma 2 2B", "phi_3_5_mini_auc": "Phi-3.5-mini",
}  # fmt: skip
"""The paper's base models by the columns of its table 2."""
TESTED = {
    "tested_gsm8k_auc": "GSM8K", "tested_algebra_linear_1d_auc": "algebra_linear_1d", "tested_math_auc": "MATH500",
}  # fmt: skip
"""Its test sets by the columns of table 4."""
REWARDS = {"orm_mistral_auc": "ORM-Mistral", "orm_deepseek_auc": "ORM-Deepseek"}
"""Its reward models by the columns of table 1."""
SHORT = {"MATH500": "MATH"}
"""Names of data sets in table 4."""


def _published_row(table: str, dataset: str | None) -> PublishedRow:
    """Returns the published AUCs of a data set in table 1, 2 or 3."""
    return WORK.row(table, dataset, benchmark=dataset)


def _published_transfer(dataset: str | None) -> PublishedRow:
    """Returns the published AUCs of a verifier that was trained on a data set (table 4)."""
    return WORK.row("4", dataset, trained_on=None if dataset is None else SHORT.get(dataset, dataset))


def _fits_published_column(name: str, column: str, columns: Mapping[str, str]) -> bool:
    """Whether a model or verifier, by its name in the log, is the one of a published column."""
    return _letters_and_digits(columns[column]) in _letters_and_digits(name)


def _letters_and_digits(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


Studies = Sequence[LatentStudy]
Columns = Sequence[Column] | Callable[[Studies], Sequence[Column]]
LILAVE, REFLECTED, LOGPROBS = "lilave_auc", "self_reflection_auc", "logprobs_auc"
NOT_REWARDS = (FITTED, LOGPROB, REFLECTION)
LEAST_SCORED = 0.9
"""Share of the traces that a verifier must have scored to have a column."""


def _auc_cell(study: LatentStudy, signal: SignalAuc | None, over: str = POOLED) -> Value:
    return None if signal is None else interval_cell(signal.interval(over, study.setting.settings.level))


def other_verifiers(studies: Studies) -> list[str]:
    """Returns the other verifiers of the measured pools by name: reward models, judges and classifiers."""
    names = dict[str, None]()
    for study in studies:
        for pool in study.table_pools:
            for name in pool.traces.scores:
                other = study.kinds.get(name) not in NOT_REWARDS and name not in study.setting.verifiers
                if other and pool.signals[name].traces >= LEAST_SCORED * len(pool.traces.right):
                    names[name] = None
    return sorted(names)


def best_logprob_signal(pool: MeasuredPool) -> SignalAuc | None:
    """Returns the log-probability signals as the paper takes them: of the suffix length that is best on the reported
    rows.
    """
    by_suffix = pool.logprob_aucs
    return by_suffix.get(BEST) or next(iter(by_suffix.values()), None)


def _auc_sheet(over: str) -> Sheet[LatentStudy]:
    """Makes table 1: AUCs over all traces (`pooled`), and the same within questions (`within`)."""

    def auc_columns(studies: Studies) -> list[Column]:
        areas = [
            intervals("latent verifier", LILAVE, 3),
            intervals("self-reflection", REFLECTED, 3),
            intervals("log-probabilities", LOGPROBS, 3),
        ]
        names = other_verifiers(studies)
        if over == POOLED and any(study.published for study in studies):
            areas += [intervals(label, key, 3, drop=2) for key, label in REWARDS.items()]
            names = [name for name in names if not any(_fits_published_column(name, key, REWARDS) for key in REWARDS)]
        return areas + [intervals(f"`{name}`", name, 3, drop=1) for name in names]

    def rows_of_study(study: LatentStudy) -> Iterator[Row]:
        for pool in study.table_pools:
            reflected = pool.verifiers_of_kind(REFLECTION)
            values = {
                LILAVE: _auc_cell(study, pool.verifier_auc, over),
                REFLECTED: _auc_cell(study, pool.signals[reflected[0]] if reflected else None, over),
                LOGPROBS: _auc_cell(study, best_logprob_signal(pool), over),
            }
            for name in pool.traces.scores:
                area = _auc_cell(study, pool.signals[name], over)
                keys = [key for key in REWARDS if _fits_published_column(name, key, REWARDS)] or [name]
                values |= dict.fromkeys(keys, area)
            published_row = (
                _published_row("1", study.published) if over == POOLED and study.has_published_numbers(pool) else {}
            )
            yield Row((pool.pool, pool.verifier), values=values, published=published_row)

    return Sheet(
        "table_1" if over == POOLED else "within_questions",
        "AUC of the latent verifier and of other estimates"
        if over == POOLED
        else "The same within questions: mean AUC over those with right and wrong traces",
        ("Pool", "Verifier"), auc_columns, rows_of_study, (_notes_on_logprobs, _trace_notes), "Data set",
        number="1" if over == POOLED else "",
        needed=lambda studies: over == POOLED or any(not pool.is_single for one in studies for pool in one.table_pools),
    )  # fmt: skip


def _notes_on_logprobs(study: LatentStudy) -> Iterator[str]:
    for pool in study.table_pools:
        signal = best_logprob_signal(pool)
        if signal is not None:
            best = " as in the paper, the k that is best on these very rows" if BEST in pool.logprob_aucs else ""
            yield f"log-probabilities, pool `{pool.pool}`: {signal.name}{',' if best else ''}{best}"


def _trace_notes(study: LatentStudy) -> Iterator[str]:
    for pool in study.table_pools:
        traces = pool.traces
        yield (
            f"pool `{pool.pool}`: {len(traces.right):,} traces of {int(traces.example.max()) + 1:,} questions, "
            f"{traces.right.mean():.1%} of them right; scores by `{pool.verifier}`"
            + (f", {pool.verifier_auc.remark}" if pool.verifier_auc.remark else "")
        )


COMPARED, WITHIN_QUESTIONS = _auc_sheet(POOLED), _auc_sheet(WITHIN)


def _model_names(studies: Studies) -> list[str]:
    return sorted({study.models[pool.pool] for study in studies for pool in study.pools if pool.pool in study.models})


def _model_columns(studies: Studies) -> list[Column]:
    published = any(study.published for study in studies)
    areas = [intervals(label, key, 3) for key, label in MODELS.items()] if published else []
    names = [
        name
        for name in _model_names(studies)
        if not (published and any(_fits_published_column(name, key, MODELS) for key in MODELS))
    ]
    return areas + [intervals(name, f"{name}_auc", 3) for name in names]


def _rows_by_model(study: LatentStudy) -> Iterator[Row]:
    values: dict[str, Value] = {}
    for pool in study.table_pools:
        if pool.pool in study.models:
            name, area = study.models[pool.pool], _auc_cell(study, pool.verifier_auc)
            for key in (f"{name}_auc", *(key for key in MODELS if _fits_published_column(name, key, MODELS))):
                values.setdefault(key, area)
    published_row = _published_row("2", study.published)
    yield Row((), values=values, published=published_row)


BY_MODEL = Sheet[LatentStudy](
    "table_2", "AUC of the latent verifier of each base model", (), _model_columns, _rows_by_model,
    ("Each model's traces are scored by a verifier on its own hidden states.", _trace_notes), "Data set", number="2",
)  # fmt: skip


def _notes_on_what_is_left_out(study: LatentStudy) -> Iterator[str]:
    """Says which places and traces the further fits leave out, and how wide intervals then are."""
    return (note for note in study.ablations.notes if code_of(note) in ("places_left_out", "traces_left_out"))


def _notes_on_measured_traces(study: LatentStudy) -> Iterator[str]:
    """Says what the further fits are and how many traces they are measured on."""
    ablations = study.ablations
    if ablations.measured:
        verifier = f"a verifier here is the mean of classifiers of one place each, {len(ablations.places)} at most"
        yield f"{verifier}, which is not `{study.main_pool.verifier}`; measured on {ablations.measured:,} traces"
        yield from _notes_on_what_is_left_out(study)


SAME_MODEL, OTHER_MODEL = "phi_lilave_auc", "llama_lilave_auc"


def _reader_rows(study: LatentStudy) -> Iterator[Row]:
    areas, states = study.ablations.readers, study.states
    published_row = _published_row("3", study.published)
    others = [name for name in areas if name != states]
    for number, name in enumerate(others or [""]):
        values = {SAME_MODEL: interval_cell(areas.get(states)), OTHER_MODEL: interval_cell(areas.get(name))}
        yield Row((name,), values=values, published=published_row if not number else {})


READERS = Sheet[LatentStudy](
    "table_3", "AUC on states of the model that wrote the responses, and of another that read them", ("read by",),
    (intervals("states of its own", SAME_MODEL, 3), intervals("states of the other", OTHER_MODEL, 3)), _reader_rows,
    (_notes_on_measured_traces,), "Data set", number="3",
    needed=lambda studies: any(study.ablations.readers or study.published for study in studies),
)  # fmt: skip


def _transfer_columns(studies: Studies) -> list[Column]:
    published = any(study.published for study in studies)
    on_datasets = []
    keys = {label: key for key, label in TESTED.items()}
    for study in studies:
        key = keys.pop(study.published or WORK.dataset(study.dataset) or "", f"tested_{study.dataset}_auc")

        def auc_on_tested(of: LatentStudy, on: LatentStudy = study) -> Value:
            return interval_cell(on.ablations.transfer.get(of.dataset))

        on_datasets.append(intervals(f"on {study.dataset}", key, 3, auc_on_tested))
    return on_datasets + [numbers(f"on {label}", key) for label, key in keys.items() if published]


def _transfer_rows(study: LatentStudy) -> Iterator[Row]:
    yield Row((), study, published=_published_transfer(study.published))


TRANSFER = Sheet[LatentStudy](
    "table_4", "AUC of verifiers on the test rows of every data set", (), _transfer_columns, _transfer_rows,
    ("Rows: what the verifier was trained on.", _notes_on_measured_traces), "Trained on", number="4",
    needed=lambda studies: len(studies) > 1 and any(
        len(study.ablations.transfer) > 1 or study.published for study in studies
    ),
)  # fmt: skip

PAPER_SHEETS = (COMPARED, BY_MODEL, READERS, TRANSFER)
"""All tables, in the order of the paper."""


def _signal_rows(study: LatentStudy) -> Iterator[Row]:
    level = study.setting.settings.level
    for pool in study.table_pools:
        for key, one in pool.signals.items():
            if not one.traces:
                continue
            values: dict[str, Value] = {"traces": one.traces, "auc": _auc_cell(study, one)}
            values["auc_within"] = None if pool.is_single else _auc_cell(study, one, WITHIN)
            if one is not pool.verifier_auc:
                for over, name in ((POOLED, "ahead"), (WITHIN, "ahead_within")):
                    less = pool.auc_minus(one, over, level)
                    values[name] = interval_cell(less) if over == POOLED or not pool.is_single else None
            yield Row((pool.pool, one.label(key)), values=values)


EVERY_SIGNAL = Sheet[LatentStudy](
    "signals", "What every signal tells", ("Pool", "Signal"),
    (
        numbers("traces", "traces", 0, drop=3), intervals("AUC", "auc", 3), intervals("AUC within", "auc_within", 3),
        intervals("verifier ahead", "ahead", 3, signed=True, drop=1),
        intervals("ahead within", "ahead_within", 3, signed=True, drop=2),
    ),
    _signal_rows,
    ("Verifier ahead: the area of the latent verifier less this one's, paired, on the traces that both score, each by "
     "itself. Within: mean over questions with right and wrong traces. An area below 0.5 is not turned round.",),
    "Data set",
)  # fmt: skip


POINTS = 100.0


def _verdict_rows(study: LatentStudy) -> Iterator[Row]:
    for verdict in study.verdicts:
        values: dict[str, Value] = {"verdict": verdict.answer.value, "against": verdict.against or verdict.why}
        if verdict.difference is not None:
            values["difference"] = interval_cell(verdict.difference, POINTS)
        yield Row((question_text(verdict),), values=values)


def question_text(one: Verdict) -> str:
    """Writes a question as tables show it."""
    return f"{one.question.value}, {one.over}?" if one.over else f"{one.question.value}?"


def _notes_on_intervals(study: LatentStudy) -> Iterator[str]:
    level = f"{100 * study.setting.settings.level:g} %"
    yield (
        f"Points: hundredths of an area, or per cent of the questions. Yes, or no: the {level} interval leaves out 0. "
        "It is of paired differences, by question or cluster, and holds for all log-probabilities, or all settings of "
        "a strategy, at once. The row has the difference that decides."
    )
    yield "Pooled: over all traces; within: the mean over questions with right and wrong traces."


def _notes_on_pools(study: LatentStudy) -> Iterator[str]:
    text = f"areas and picks: of {len(study.main_pool.traces.right):,} traces of `{study.main_pool.pool}`"
    if study.strategies is not None:
        source = study.strategies.source
        text += f"; votes: of `{source.pool}`" + (f", first attempts: of `{source.probe}`" if source.probe else "")
    yield text


VERDICTS = Sheet[LatentStudy](
    "verdicts", "What the log says", ("Question",),
    (
        words("verdict", "verdict"), intervals("difference, points", "difference", 1, signed=True),
        words("against, or why not asked", "against", drop=1),
    ),
    _verdict_rows, (_notes_on_intervals, _notes_on_pools), "Data set",
)  # fmt: skip


def _conditional_rows(study: LatentStudy) -> Iterator[Row]:
    gains = study.gains
    rivals = gains.elsewhere or (None,) * len(gains.coin)
    for one, coin, rival in zip(gains.conditional, gains.coin, rivals, strict=True):
        values: dict[str, Value] = {"over_coin": interval_cell(coin.difference, POINTS)}
        if rival is not None:
            values |= {"best_pool": rival.pool, "over_best": interval_cell(rival.difference, POINTS)}
        yield Row((one.below,), one, values)


def _conditional_columns(studies: Sequence[LatentStudy]) -> list[Column]:
    columns = [
        numbers("n below", "n", 0, attrgetter("n")), numbers("mean samples", "samples", 2, attrgetter("samples")),
        *ACCURACY,
        intervals("beyond a coin", "over_coin", 1, signed=True, drop=2),
    ]  # fmt: skip
    if any(study.gains.elsewhere for study in studies):
        columns += [words("best pool", "best_pool", drop=3)]
        columns += [intervals("beyond voting there", "over_best", 1, signed=True, drop=3)]
    return [*columns, BETTER]


def _notes_on_best_pools(study: LatentStudy) -> Iterator[str]:
    if study.gains.elsewhere:
        yield "best pool: that whose plain votes were right most often where settings were chosen, at as many samples"


def _notes_on_halves(study: LatentStudy) -> Iterator[str]:
    if study.front is not None:
        front = study.front
        yield f"settings: chosen on {front.n_chosen_on:,} questions; numbers: of {front.n_reported_on:,} others"


BEHIND = intervals("difference, points", "difference", 1, read_interval("difference", POINTS), signed=True)
ACCURACY = (
    numbers("accuracy %", "accuracy", 1, lambda one: 100 * one.accuracy),
    numbers("plain voting %", "against", 1, lambda one: 100 * one.against, drop=1), BEHIND,
)  # fmt: skip
BETTER = words("better?", "verdict", lambda one: is_above(one.difference).value)
CONDITIONAL = Sheet[LatentStudy](
    "conditional_votes", "Conditional voting against plain voting at as many samples",
    (TableColumn("believed from", Number(3), "threshold"),),
    _conditional_columns, _conditional_rows,
    (_notes_on_halves, _notes_on_best_pools,
     "A first attempt that scores at least the threshold is the answer; else n further samples vote. The rows are the "
     "settings of the front, where they were chosen, that keep from 5 % to 95 % of the first attempts. "
     "Intervals hold for all of them at once. "
     "Beyond a coin: beyond the same numbers of samples for questions that are drawn at random."),
    "Data set", optional=True,
)  # fmt: skip


def _notes_on_questions(study: LatentStudy) -> Iterator[str]:
    if study.strategies is not None:
        yield f"of {len((study.scored or study.strategies).unit):,} questions"


def _notes_on_scored_samples(study: LatentStudy) -> Iterator[str]:
    if study.scored is not None and SELECTED in study.missing:
        yield study.missing[SELECTED]


SELECTING = Sheet[LatentStudy](
    "votes_by_score", "Weighted voting and best-of-n by the verifier against plain voting", ("Strategy",),
    (numbers("n", "n", 0, attrgetter("n")), *ACCURACY, BETTER),
    lambda study: (Row((one.name,), one) for one in (*study.gains.weighted, *study.gains.best)),
    ("Intervals hold for every n of a strategy at once.", _notes_on_questions, _notes_on_scored_samples), "Data set",
    optional=True,
)  # fmt: skip


ORACLE = Sheet[LatentStudy](
    "oracle", "How far the oracle is", (TableColumn("n", Number(0)), "Best strategy"),
    (replace(ACCURACY[0], heading="its accuracy %"), replace(ACCURACY[1], heading="oracle %", drop=0), BEHIND),
    lambda study: (Row((one.n, one.name), one) for one in study.gains.oracle),
    (_notes_on_halves, "The oracle picks a right answer where there is one. Intervals hold for every n at once."),
    "Data set", optional=True,
)  # fmt: skip


def _fitting_rows(study: LatentStudy) -> Iterator[Row]:
    """Returns a row per verifier of the study on what its fitting took, as the manifest says."""
    records = fitting_records(study.log)
    for name in dict.fromkeys(pool.verifier for pool in study.pools):
        record = records.get(name)
        if record is not None:
            seconds, trained = record.get("seconds") or {}, record.get("trained_on") or {}
            values: dict[str, Value] = {"scored": record.get("rows")}
            values |= {"questions": trained.get("examples"), "states": trained.get("rows")}
            values |= {"training": seconds.get("training"), "scoring": seconds.get("scoring")}
            yield Row((name,), values=values)


_FITTING = Sheet[LatentStudy](
    "fitting", "What fitting the verifiers took", ("Verifier",),
    (
        numbers("questions", "questions", 0), numbers("states", "states", 0), numbers("training, s", "training", 1),
        numbers("traces scored", "scored", 0), numbers("scoring, s", "scoring", 1),
    ),
    _fitting_rows,
    ("Of `fit-verifier`, on the machine that it ran on, all folds together. The paper's verifier is trained in 15 "
     "minutes on CPUs, and scores the responses to 1,319 questions in 3.4 s (its appendix C).",),
    "Data set", optional=True,
)  # fmt: skip
VERDICT_SHEETS = (VERDICTS,)
GAIN_SHEETS = (CONDITIONAL, SELECTING, ORACLE)


def _ablation_sheet(
    name: str, title: str, heads: Sequence[str], columns: Columns, rows: Callable[[LatentStudy], Iterable[Row]],
    missing: str, *notes: str | Callable[[LatentStudy], Iterable[str]], printed: bool = True,
) -> Sheet[LatentStudy]:  # fmt: skip
    """Makes the table of an ablation. Data sets without it are named beneath with the reason in `missing`."""

    def missing_notes(study: LatentStudy) -> Sequence[str]:
        reason, measured = study.ablations.missing.get(missing), study.ablations.measured
        left_out = _notes_on_what_is_left_out(study) if printed else []
        count = [f"measured on {measured:,} traces", *left_out] if measured and missing in what.FITTED else []
        return count if reason is None else [f"no rows: {reason}"]

    return Sheet(
        name, title, tuple(heads), columns, rows, (*notes, missing_notes), "Data set", optional=True, printed=printed
    )


def _temperature_columns(studies: Studies) -> list[Column]:
    degrees = sorted({temperature.measured for study in studies for temperature in study.ablations.temperatures})
    measured = [intervals(f"measured at {degree:g}", f"measured_{degree:g}", 3) for degree in degrees]
    return [numbers("traces trained on", "rows", 0, drop=1), *measured]


def _temperature_rows(study: LatentStudy) -> Iterator[Row]:
    areas = study.ablations.temperatures
    for trained in sorted({area.trained for area in areas}):
        group = [area for area in areas if area.trained == trained]
        values = {f"measured_{one.measured:g}": interval_cell(one.area) for one in group}
        yield Row((f"{trained:g}",), values={"rows": group[0].rows, **values})


def _transfer_gap_rows(study: LatentStudy) -> Iterator[Row]:
    ablations = study.ablations
    for temperature in ablations.temperatures:
        if temperature.behind is not None:
            heads = ("temperature", f"{temperature.trained:g}", f"{temperature.measured:g}")
            yield Row(
                heads, values={"auc": interval_cell(temperature.area), "behind": interval_cell(temperature.behind)}
            )
    for name, less in ablations.transfer_behind.items():
        values = {"auc": interval_cell(ablations.transfer[name]), "behind": interval_cell(less)}
        yield Row(("data set", name, study.dataset), values=values)
    for name, less in ablations.readers_behind.items():
        values = {"auc": interval_cell(ablations.readers[name]), "behind": interval_cell(less)}
        yield Row(("states", name, study.states), values=values)


def _model_rows(study: LatentStudy) -> Iterator[Row]:
    models = sorted(study.ablations.models, key=lambda one: (one.model, one.token))
    return (Row((model.model, model.layer, model.token), model) for model in models)


def _notes_on_fewer_places(study: LatentStudy) -> Iterator[str]:
    if places := study.ablations.fewer:
        yield f"a verifier here is the mean of {counted(len(places), 'classifier')}: {places_text(places)}"


def _entropy_rows(study: LatentStudy) -> Iterator[Row]:
    entropy = study.ablations.entropy
    for one in entropy.parts if entropy is not None else ():
        yield Row((f"{one.low:.3g} to {one.high:.3g}".replace("-", "−"),), one)


def _correlation_note(study: LatentStudy) -> Iterator[str]:
    entropy = study.ablations.entropy
    if entropy is None or entropy.correlation.estimate is None:
        return
    low, high = entropy.correlation.low, entropy.correlation.high
    limits = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    of = f"the first trace of `{entropy.probe}`" if entropy.probe else "the first trace, the others voting"
    text = f"Spearman's correlation of score and entropy: {entropy.correlation.estimate:.2f}{limits}"
    yield f"{text}; score of {of}, votes of `{entropy.pool}`".replace("-", "−")


SEEDED = (
    numbers("traces trained on", "rows", 0, attrgetter("rows")), intervals("AUC", "auc", 3, read_interval("mean")),
    numbers("median", "median", 3, attrgetter("median")), numbers("lowest", "lowest", 3, attrgetter("least")),
    numbers("highest", "highest", 3, attrgetter("most")),
)  # fmt: skip
SPREAD = "lowest and highest: of the seeds; AUC: the mean of their areas, with its interval over questions"
ABLATION_SHEETS = (
    _ablation_sheet(
        "locations", "One classifier a place: AUC by layer and token", ("layer", "token"),
        (intervals("AUC", "auc", 3, read_interval("pooled")),
         intervals("AUC within questions", "auc_within", 3, read_interval("within")),
         numbers("traces", "traces", 0, attrgetter("traces"))),
        lambda study: (Row((at.layer, at.token), at) for at in study.ablations.locations), what.LOCATIONS,
        lambda study: study.ablations.notes, printed=False,
    ),
    _ablation_sheet(
        "temperatures", "Transfer between temperatures: mean AUC of classifiers of one place each", ("trained at",),
        _temperature_columns, _temperature_rows, what.TEMPERATURES,
        "each row is fitted on training rows of its own temperature, of each as many, drawn by the seed",
    ),
    _ablation_sheet(
        "carried_over", "What is lost by a verifier from elsewhere", ("what", "trained on", "instead of"),
        (intervals("AUC", "auc", 3), intervals("own verifier ahead", "behind", 3, signed=True)), _transfer_gap_rows,
        what.LOCATIONS,
        "own verifier: the one that is trained on what is measured; ahead: its AUC less the other one's, paired, on "
        "the same traces; its limits hold for all rows of a data set at once (Bonferroni)",
    ),
    _ablation_sheet(
        "classifiers", "Kinds of classifiers, each of one place", ("classifier", "layer", "token"), SEEDED,
        _model_rows, what.MODELS, "each seed draws four fifths of the questions to train on", SPREAD,
    ),
    _ablation_sheet(
        "training_sizes", "Size of the training set", ("questions",), SEEDED,
        lambda study: (Row((int(size.size),), size) for size in study.ablations.sizes), what.SIZES,
        _notes_on_fewer_places, "each seed draws the questions to train on", SPREAD,
    ),
    _ablation_sheet(
        "right_shares", "Share of right traces among as many to train on", ("right, %",), SEEDED,
        lambda study: (Row((f"{100 * share.size:g}",), share) for share in study.ablations.shares), what.SHARES,
        _notes_on_fewer_places, "each seed draws the traces to train on", SPREAD,
    ),
    _ablation_sheet(
        "suffixes", "AUC by length of the suffix", ("tokens",),
        (numbers("traces", "traces", 0, attrgetter("traces")),
         intervals("log-probability", "logprob", 3, read_interval("logprob")),
         intervals("states of these tokens", "states", 3, read_interval("states"))),
        lambda study: (Row((suffix.length,), suffix) for suffix in study.ablations.suffixes), what.SUFFIXES,
        "both columns are of the traces that have both numbers",
        "log-probability: the sum over the last tokens; below 0.5 it speaks against the answer",
        "states: the mean over the classifiers of these tokens at all layers; a dash: no states this near the end",
    ),
    _ablation_sheet(
        "votes_entropy", "Entropy of the votes by the score of a first attempt", ("score",),
        (
            numbers("questions", "questions", 0, attrgetter("questions")),
            intervals("entropy, share of the largest", "entropy", 3, read_interval("entropy")),
            intervals("votes right, %", "right", 1, read_interval("right", 100)),
        ), _entropy_rows, what.ENTROPY, _correlation_note,
    ),
    _ablation_sheet(
        "votes_by_temperature", "Majority voting by temperature", ("temperature", "votes"),
        (intervals("accuracy, %", "accuracy", 1, read_interval("accuracy", 100)),
         numbers("questions", "questions", 0, attrgetter("accuracy.n"))),
        lambda study: (Row((f"{vote.temperature:g}", vote.votes), vote) for vote in study.ablations.votes), what.VOTES,
        printed=False,
    ),
)  # fmt: skip
"""After the paper's tables, in the order of the report."""
SHEETS = (*VERDICT_SHEETS, *PAPER_SHEETS, WITHIN_QUESTIONS, EVERY_SIGNAL, *GAIN_SHEETS, *ABLATION_SHEETS, _FITTING)
"""All tables, in the order of the report."""


NO_REFLECTION = "no verifier of kind `reflection` scored these traces"
NOT_FITTED = "nothing was fitted, as `--without-ablations` asks"


def latent_captions(studies: Sequence[LatentStudy]) -> Captions[LatentStudy]:
    """Makes the captions of the tables of these data sets."""
    settings = studies[0].setting.settings
    drawn = (
        f"{100 * settings.level:g} % intervals, by question or cluster; those of accuracies from "
        f"{settings.resamples:,} resamples, seed {settings.seed}."
    )
    return Captions(
        simulated=any(study.simulated for study in studies),
        dataset="dataset",
        below=lambda sheet, parts, published: [drawn],
        gaps=lambda sheet, parts: list(_dash_reasons(parts)),
    )


def _dash_reasons(studies: Sequence[LatentStudy]) -> Iterator[DashReason]:
    yield DashReason(f"self-reflection: {NO_REFLECTION} where there is a dash", frozenset({REFLECTED}))
    dash = remark("no_logprobs", f"log-probabilities: {NO_LOGPROBS}, where there is a dash")
    yield DashReason(dash, frozenset({LOGPROBS}))
    if reward_names := other_verifiers(studies):
        yield DashReason("a verifier has a dash where it did not score the traces", frozenset(reward_names))
    yield DashReason(
        "a model or verifier of the paper has a dash where the log has none of this name",
        frozenset({*MODELS, *REWARDS}),
    )
    if models := {f"{name}_auc" for study in studies for name in study.models.values()}:
        yield DashReason("a model has a dash where it wrote none of the measured traces", frozenset(models))
    tested = {*TESTED, *(f"tested_{study.dataset}_auc" for study in studies)}
    for part, columns in ((what.READERS, {SAME_MODEL, OTHER_MODEL}), (what.TRANSFER, tested)):
        yield from (
            DashReason(line, frozenset(columns)) for line in merge_notes(studies, partial(_reasons_for_gaps, part=part))
        )


def _reasons_for_gaps(study: LatentStudy, part: str) -> list[str]:
    nothing = f"the log has nothing to compare on `{study.dataset}`" if study.setting.ablations else NOT_FITTED
    return [study.ablations.missing.get(part, nothing)]
