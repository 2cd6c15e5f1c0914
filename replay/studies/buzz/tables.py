"""The study's tables of the paper: methods, parts, claims, errors, labels, and rules of extraction and revision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from replay.runs.passes.coverage import LEFT_OUT
from replay.studies.buzz.acts import ratio_values
from replay.studies.buzz.claims import KINDS, label_counts
from replay.studies.buzz.published import (
    COUNTED,
    SCORED,
    published_coverage,
    published_errors,
    published_hops,
    published_labels,
    published_method,
    published_pair,
    published_unfolding,
    published_variant,
    unlisted_extractors,
    unlisted_hops,
    unlisted_methods,
    unlisted_unfolding,
)
from replay.studies.buzz.study import BY_LENGTH, NO_REVISION, ONE_ROUND, PAPER, BuzzStudy
from replay.studies.buzz.systems import DIVER, ONE_SHOT, acting_lines, match_rules, scored_pools
from replay.studies.buzz.verdicts import baseline_pairs
from replay.studies.kit.runs import Pair, StudyRun, differences_of_runs, mean_cell
from replay.studies.kit.sheet import Column, Row, Sheet, Value, intervals, numbers, with_published, words
from toolkit.errors import listed
from toolkit.show import remark

DATASET = "data set"
ACCURACY = intervals("accuracy %", "accuracy", 1)
F1 = intervals("macro-F1 %", "macro_f1", 1)
_PUBLISHED_F1 = with_published(F1, "pct", "published %", "published")
_SCORE = with_published(
    numbers("score", "score", 2,
            note=f"The score of {SCORED} is of evidence and verdict together; no replay of verdicts gives it."),
    "score", "published score", "published_score",
)  # fmt: skip


def _quality_scales(study: BuzzStudy) -> dict[str, float]:
    """Percent of accuracy and macro-F1, by the names of columns. Where all texts have one label, the run's macro-F1 is
    the F1 of that label; the other's is 0, and the mean of both is half of it.
    """
    return {"accuracy": 100, "macro_f1": 50 if study.texts.one_label else 100}


def quality_cells(study: BuzzStudy, run: StudyRun, name: str) -> dict[str, Value]:
    """Returns accuracy and macro-F1 of a policy, in percent, by the names of columns."""
    return {key: run.cell(name, key, scale) for key, scale in _quality_scales(study).items()}


def _label_lines(study: BuzzStudy) -> list[str]:
    if not study.texts.one_label:
        return []
    label = "an error" if study.texts.error.max(initial=0, where=~np.isnan(study.texts.error)) else "no error"
    return [f"Every text holds {label}: macro-F1 is the mean of two labels, of which the other has an F1 of 0."]


def scored_columns(parts: Sequence[BuzzStudy], *more: Column) -> list[Column]:
    """Returns columns of accuracy and macro-F1 with published numbers, the score where it is published, and more."""
    columns = [with_published(ACCURACY, "accuracy_pct", "published accuracy %", "published_accuracy"), _PUBLISHED_F1]
    return [*columns, *[_SCORE] * any(study.published == SCORED for study in parts), *more]


def gap_columns(heading: str) -> tuple[Column, Column]:
    """Returns the columns of differences in accuracy and macro-F1, in points."""
    return (
        intervals(f"{heading}, accuracy", "gap_accuracy", 1, signed=True),
        intervals(f"{heading}, macro-F1", "gap_macro_f1", 1, signed=True, drop=2),
    )


def gap_cells(
    study: BuzzStudy, pairs: Mapping[str, Pair], run_of: Callable[[str], StudyRun]
) -> Callable[[str], dict[str, Value]]:
    """Returns a function that gives the differences of a row by its name; `pairs`: of which policies, `run_of`: in
    which run the row's policy stands. Limits hold for all at once.
    """
    runs = {pair: run_of(name) for name, pair in pairs.items()}
    cells = {key: differences_of_runs(key, runs, scale) for key, scale in _quality_scales(study).items()}
    return lambda name: {f"gap_{key}": cells[key].get(pairs.get(name, ("", ""))) for key in cells}


# ---- methods ----


def _baseline_names(study: BuzzStudy) -> dict[str, Pair]:
    return {other.name: (one.name, other.name) for one, other in baseline_pairs(study).values()}


def _main_rows(study: BuzzStudy) -> Iterator[Row]:
    main, rows = study.systems.main.method, list[tuple[str, str]]()
    gaps = gap_cells(study, _baseline_names(study), study.run_of)
    for one in study.methods:
        if one.system.checks and one.label != main:
            continue
        published = published_method(study.published, one.label, one.system.backbone)
        values = quality_cells(study, study.run, one.name) | gaps(one.name)
        rows.append((one.system.backbone, one.label))
        yield Row((one.system.backbone, one.row), None, values, published)
    yield from (Row(heads, published=cells) for heads, cells in unlisted_methods(study.published, rows))


def _baseline_lines(study: BuzzStudy) -> list[str]:
    if study.dev is None:
        return ["Without a dev split the method is compared with each baseline; limits hold for all at once."]
    groups = [group for group in study.systems.groups if study.baselines(group)]
    lines = []
    if any(study.baseline_choice(group).name is not None for group in groups):
        lines.append("The method is compared with the baseline of each backbone that was best on dev.")
    for group in groups:
        lines += study.baseline_choice(group).lines
        if study.baseline_choice(group).name is None:
            names = listed([system.name for system in study.baselines(group)])
            lines.append(f"No dev: {names}. The method is compared with each of these; limits hold for all at once.")
        if rest := study.baselines_without_dev(group):
            lines.append(f"Without dev, and not compared: {listed(rest)}.")
    return lines


def _unlike_lines(study: BuzzStudy) -> Iterator[str]:
    """Says that the paper calls one number by two names."""
    if study.published == COUNTED:
        yield (
            "The paper's numbers on FEVEROUS, as the 70.6 of its system, are macro-F1 in its tables 1 and 3 and "
            "accuracy in table 9; each stands beside ours of that name, and of which they are is not known."
        )


def acting_notes(study: BuzzStudy) -> Iterator[str]:
    """Says when methods act that are asked again and again."""
    return acting_lines((one.system for one in study.methods), scored_pools(study.log))


TABLE_1 = Sheet[BuzzStudy](
    "table_1", "Methods by backbone", ("backbone", "method"),
    lambda parts: scored_columns(parts, *gap_columns(f"{parts[0].systems.main.method} minus it")), _main_rows,
    (_baseline_lines, acting_notes, _unlike_lines, _label_lines), DATASET, "1",
)  # fmt: skip


def _fixed_rows(study: BuzzStudy) -> Iterator[Row]:
    group, rows = study.systems.main.group, study.fixed_methods()
    of_group = [one for one in study.methods if one.system.group == group]
    ours = {one.label: one for one in sorted(of_group, key=lambda one: one.system is study.systems.main)}
    gaps = gap_cells(study, _baseline_names(study), study.run_of)
    named = [(kind, method, ours.get(method), published) for kind, method, published in rows]
    in_table = {method for _, method, *_ in named}
    rest = [one for one in of_group if not one.system.checks and one.label not in in_table] if named else []
    for kind, method, one, published in [*named, *(("not in the paper's table", one.row, one, {}) for one in rest)]:
        values = {} if one is None else quality_cells(study, study.run, one.name) | gaps(one.name)
        yield Row((kind, method), None, values, published)


def _unscored_lines(study: BuzzStudy) -> list[str]:
    if study.published != SCORED:
        return []
    methods = [method for _, method, cells in study.fixed_methods() if not cells]
    return [f"The paper has no score of {', '.join(methods)}: they give no evidence in the form that it is taken of."]


TABLE_2 = Sheet[BuzzStudy](
    "table_2", "Methods of one backbone, with systems of the shared task", ("group", "method"),
    lambda parts: scored_columns(parts, *gap_columns(f"{parts[0].systems.main.method} minus it")), _fixed_rows,
    ("Methods without a pool in the log are dashes. The paper heads this table GPT-4o and its LIAR column accuracy; "
     "the row of its own system is that of table 1.", _baseline_lines, _unscored_lines, _label_lines),
    DATASET, "2", optional=True,
)  # fmt: skip


def _fewer_lines(study: BuzzStudy) -> Iterator[str]:
    """Says of how many texts the system is replayed without further rounds, where these are fewer than all."""
    run, every = study.one_round_run, len(study.texts.frame) if study.main_acts is not None else 0
    if run.has(ONE_ROUND) and len(run.ids) < every:
        yield remark(
            LEFT_OUT, f"`{ONE_ROUND}` and what it is compared with are of {len(run.ids):,} of {every:,} texts: on the "
            "others, on which a later round decided, revisions followed what it said"
        )  # fmt: skip


def _variant_rows(study: BuzzStudy) -> Iterator[Row]:
    pairs, main = study.part_pairs, study.systems.main.name
    gaps = gap_cells(study, pairs, study.run_of)
    for one in study.variants if len(study.variants) > 1 else ():
        acts = study.acts(one.name)
        values = quality_cells(study, study.run_of(one.name), one.name) | gaps(one.name) | {
            "texts": float(acts.replayed.sum()),
            "by": "pool" if one.is_pool else "policy", "revises": "yes" if study.revises(one) else "no",
            "against": {main: "whole", NO_REVISION: NO_REVISION}[pairs[one.name][0]] if one.name in pairs else "",
            **study.means({"found": acts.finds, "false_alarm": acts.false_alarm}),
        }  # fmt: skip
        is_published = one.is_pool or study.systems.main.method == DIVER
        published = published_variant(study.published, one.label) if is_published else {}
        yield Row((one.row,), None, values, published)


TABLE_3 = Sheet[BuzzStudy](
    "table_3", "The system without a part", ("variant",),
    lambda parts: [words("by", "by"), words("revises", "revises"), *scored_columns(
        parts, intervals("found %", "found", 1), intervals("false alarms %", "false_alarm", 1),
        words("against", "against"), *gap_columns("that minus it"), numbers("texts", "texts", 0, drop=1),
    )],
    _variant_rows,
    ("by: `pool` was generated without the part, `policy` replays the whole system's log without it. revises: whether "
     "it makes revisions; a pool without is compared with `no revision`, others with the whole. Limits hold for all "
     "rows at once. The losses that the paper's text gives are not the differences of its table.",
     _fewer_lines, _unlike_lines, BuzzStudy.unnamed_lines, _label_lines),
    DATASET, "3", optional=True,
)  # fmt: skip


# ---- claims ----


def _coverage_rows(study: BuzzStudy) -> Iterator[Row]:
    pools = [one for one in study.methods if one.system.checks]
    columns = {one.name: study.claims(one.system).names_error(stream=True) for one in pools}
    if all(np.isnan(column).all() for column in columns.values()):
        return
    firsts = {one.system.group: one.name for one in pools if one.label == ONE_SHOT}
    pairs = {
        one.name: (columns[one.name], columns[firsts[one.system.group]])
        for one in pools if one.label != ONE_SHOT and one.system.group in firsts
    }  # fmt: skip
    gaps = study.gaps(pairs)
    for one in pools:
        claims = study.claims(one.system)
        values: dict[str, Value] = {
            **study.means({"stream": columns[one.name], "all": claims.names_error(stream=False)}),
            **study.means({"claims": claims.count_by_text}, 1.0, rate=False), "gap": gaps.get(one.name),
            "texts": float((~np.isnan(columns[one.name])).sum()),
        }  # fmt: skip
        published = published_coverage(study.published, one.label, one.system.backbone)
        yield Row((one.system.backbone, one.row), None, values, published)
    rows = [(one.system.backbone, one.label) for one in pools]
    yield from (Row(heads, published=cells) for heads, cells in unlisted_extractors(study.published, rows))


def _match_lines(study: BuzzStudy) -> list[str]:
    if study.simulated:
        return ["Which claims name the error is planted by the simulation, not matched."]
    rules = match_rules(study.log)
    by_rule = [f"`{pool}` by `{rule}`" for pool, rule in rules.items()]
    known = "; ".join(by_rule) if by_rule else "the log does not say by what rule"
    return [f"A claim names the error where `matches_error` says so: {known}."]


TABLE_4 = Sheet[BuzzStudy](
    "table_4", "Texts whose error a claim names", ("backbone", "extractor"),
    (with_published(intervals("while it unfolds %", "stream", 1), "pct", "published %", "published"),
     intervals("with revisions %", "all", 1),
     intervals("minus one reply, points", "gap", 1, signed=True),
     intervals("claims a text", "claims", 1), numbers("texts with an error", "texts", 0)),
    _coverage_rows,
    ("Differences are of claims while the text unfolds; all numbers are of texts with an error.", _match_lines),
    DATASET, "4", optional=True,
)  # fmt: skip


def _hop_rows(study: BuzzStudy) -> Iterator[Row]:
    groups, main = study.texts.groups("hops"), study.systems.main.name
    chosen = [one for one in (*study.methods, *study.variants) if groups]
    columns = {one.name: study.acts(one.name).right for one in chosen}
    pairs = {
        hops: (np.where(on, columns[main], np.nan), np.where(on, columns[ONE_ROUND], np.nan))
        for hops, on in groups.items() if {main, ONE_ROUND} <= columns.keys()
    }  # fmt: skip
    gaps = study.gaps(pairs)
    for one in {one.name: one for one in chosen}.values():
        means = study.means({hops: np.where(on, columns[one.name], np.nan) for hops, on in groups.items()})
        for hops, on in groups.items():
            gap = gaps.get(hops) if one.name == main else None
            count = float((on & study.acts(one.name).replayed).sum())
            values: dict[str, Value] = {"accuracy": means[hops], "texts": count, "gap": gap}
            yield Row((one.name, hops), None, values, published_hops(study.published, one.label, hops))
    rows = [(one.label, hops) for one in chosen for hops in groups]
    if groups:
        yield from (Row(heads, published=cells) for heads, cells in unlisted_hops(study.published, rows))


TABLE_5 = Sheet[BuzzStudy](
    "table_5", "Accuracy by the passages that a claim needs", ("method", "hops"),
    (with_published(ACCURACY, "pct", "published %", "published"),
     intervals(f"minus {ONE_ROUND}, points", "gap", 1, signed=True), numbers("texts", "texts", 0)),
    _hop_rows,
    (f"`{ONE_ROUND}`: no search follows up the first; its limits hold for all hops at once.", _fewer_lines), DATASET,
    "5", optional=True,
)  # fmt: skip


def _error_rows(study: BuzzStudy) -> Iterator[Row]:
    main = study.systems.main
    sides = [(main.name, main)] + ([] if study.other is None else [(study.other.name, study.other.system)])
    if not study.run.has(main.name) or not study.claims(main).looked.any():
        return
    kinds = {name: study.claims(system).errors_by_kind(study.acts(name)) for name, system in sides}
    gaps = study.gaps({kind: (kinds[main.name][kind], kinds[sides[-1][0]][kind]) for kind in KINDS})
    wrongs = {name: study.acts(name).right == 0 for name in kinds}
    parts = {
        name: {kind: ratio_values(np.nan_to_num(column) * wrongs[name], wrongs[name]) for kind, column in some.items()}
        for name, some in kinds.items()
    }  # fmt: skip
    pairs = {kind: (parts[main.name][kind], parts[sides[-1][0]][kind]) for kind in KINDS}
    share_gaps = study.gaps({kind: pair for kind, pair in pairs.items() if np.ptp(pair) > 0}, rate=False)
    for name, _ in sides:
        columns = kinds[name] | {"all": np.sum(list(kinds[name].values()), axis=0)}
        is_wrong = wrongs[name]
        means = study.means(columns)
        shares = study.means({kind: np.where(is_wrong, column, np.nan) for kind, column in columns.items()})
        for kind, column in columns.items():
            wrong, is_main = float(np.nansum(column[is_wrong])), name == main.name
            published = published_errors(study.published, kind) if study.is_published_system(name) else {}
            values: dict[str, Value] = {
                "errors": float(np.nansum(column)), "wrong": wrong, "share": shares[kind], "texts": means[kind],
                "gap": gaps.get(kind) if is_main and len(sides) > 1 else None,
                "share_gap": share_gaps.get(kind) if is_main and len(sides) > 1 else None,
                "published_bidev": published.get("bidev"), "published_gap": published.get("difference"),
            }  # fmt: skip
            yield Row((name, kind), None, values, published)


def _error_columns(parts: Sequence[BuzzStudy]) -> Iterator[Column]:
    yield numbers("errors", "errors", 0)
    yield from (intervals("of texts %", "texts", 1), intervals("minus the other pool, points", "gap", 1, signed=True))
    yield numbers("wrong about the text", "wrong", 0)
    yield with_published(intervals("of these %", "share", 1), "share", "published DIVER, of 100", "published", 0)
    yield intervals("of these, minus the other pool, points", "share_gap", 1, signed=True)
    if any(study.published == COUNTED for study in parts):
        yield numbers("published BiDeV, of 100", "published_bidev", 0)
        yield numbers("published DIVER minus BiDeV, of 100 each", "published_gap", 0, signed=True)


TABLE_6 = Sheet[BuzzStudy](
    "table_6", "Errors by kind", ("pool", "kind"), lambda parts: list(_error_columns(parts)), _error_rows,
    ("Computed from the log, not annotated by people as in the paper. Missed claim: no claim names the error; failed "
     "retrieval: one does, and no round decided it; unsupported confidence: one does, and was supported; spurious "
     "refutation: it acts on a text without an error, or on a claim that does not name it. Differences are in points "
     "of all texts, and of those that each pool is wrong about; limits hold for all kinds at once. The paper drew 100 "
     "of the latter for each system, and its difference is of these; an act on another claim of a text with an error "
     "is right about the text, and is no error there.",),
    DATASET, "6", optional=True,
)  # fmt: skip


def _unfolding_rows(study: BuzzStudy) -> Iterator[Row]:
    main, group, rows = study.systems.main, study.systems.main.group, list[str]()
    for one in study.methods:
        if one.system.group != group or (one.system.checks and one.system is not main):
            continue
        acts, run = study.acts(one.name), study.run
        values = quality_cells(study, run, one.name) | {
            "claim_accuracy": run.cell(one.name, "claim_accuracy", 100),
            "claim_macro_f1": run.cell(one.name, "claim_macro_f1", 100),
            **study.means({
                "refuted": np.where(study.texts.error == 1, acts.acted, np.nan), "false_alarm": acts.false_alarm,
                **({"found": acts.finds} if study.names_claims(one) else {}),
            }),
        }  # fmt: skip
        rows.append(one.label)
        yield Row((one.row,), None, values, published_unfolding(study.published, one.label))
    yield from (Row(heads, published=cells) for heads, cells in unlisted_unfolding(study.published, rows))


TABLE_7 = Sheet[BuzzStudy](
    "table_7", "Methods on texts that unfold", ("method",),
    (with_published(ACCURACY, "accuracy_pct", "published accuracy %", "published_accuracy"),
     with_published(F1, "unlike_pct", "published macro-F1 %", "published_macro_f1"),
     intervals("claims right %", "claim_accuracy", 1), intervals("claims' macro-F1 %", "claim_macro_f1", 1),
     intervals("errors refuted %", "refuted", 1), intervals("found %", "found", 1),
     intervals("false alarms %", "false_alarm", 1)),
    _unfolding_rows,
    ("errors refuted: of texts with an error, for any reason, right or wrong; found: on a claim that names the error. "
     "Verdicts on texts name no claim. Accuracy and macro-F1 are of texts; those of claims are of claims with a label "
     "of their own. The paper's macro-F1 is compared with neither: every text of its data set holds an error, so over "
     "texts and two labels it would be 44 % at the paper's accuracy, and the paper does not say of what it is; nor "
     "whether its accuracy takes an act on another claim for right, as ours does. Its text says that all methods have "
     "the backbone GPT-4o mini; its row without evidence is called Vanilla GPT-4o.",
     acting_notes, _label_lines),
    DATASET, "7",
)  # fmt: skip


def _label_rows(study: BuzzStudy) -> Iterator[Row]:
    for label, count in label_counts(study.texts).items():
        if count:
            yield Row((label,), None, {"texts": float(count)}, published_labels(study.published, label))


TABLE_8 = Sheet[BuzzStudy](
    "table_8", "Texts by label", ("label",),
    (with_published(numbers("texts", "texts", 0), "texts", "published", "published", 0),), _label_rows,
    ("Of the texts that are reported and that every method was replayed on.",), DATASET, "8", optional=True,
)  # fmt: skip


# ---- rules ----


def _pair_rows(study: BuzzStudy) -> Iterator[Row]:
    chosen = study.pair_choice.name
    gaps = gap_cells(study, {name: (name, PAPER) for name in study.pair_names if name != PAPER}, study.run_of_pair)
    for name in study.pair_names:
        extraction, _, revision = name.partition(" + ")
        run, values = study.run_of_pair(name), dict[str, Value]()
        if run.has(name):
            ends = run.texts(name, "ending") == "exhausted"
            values = quality_cells(study, run, name) | gaps(name) | {
                "texts": float(len(run.ids)), "dev": study.dev_run_of_pair(name).cell(name, "accuracy", 100),
                "chosen": "yes" if name == chosen else "",
                "found": run.cell(name, "found", 100), "false_alarm": run.cell(name, "false_alarm", 100),
                "calls": run.cell(name, "calls"),
                "short": mean_cell(ends.fill_null(False).to_numpy().astype(float), run.unit, study.setting.settings),
            }  # fmt: skip
        is_published = study.is_published_system(study.systems.main.name)
        published = published_pair(study.published, extraction, revision) if is_published else {}
        yield Row((extraction, revision), None, values, published)


TABLE_9 = Sheet[BuzzStudy](
    "table_9", "Rules of extraction and revision", ("extraction", "revision"),
    (with_published(ACCURACY, "pct", "published %", "published"), F1,
     *gap_columns(f"minus {PAPER}"), intervals("on dev %", "dev", 1), words("chosen", "chosen"),
     intervals("found %", "found", 1, drop=1), intervals("false alarms %", "false_alarm", 1, drop=1),
     intervals("calls", "calls", 1, drop=1), intervals("log too short %", "short", 1, drop=3),
     numbers("texts", "texts", 0, drop=3)),
    _pair_rows,
    ("CE-1: until the extractor ends; CE-2: 5 claims a sentence; CE-3: one for 4 words; CE-4: 3 for each name. REV-1: "
     "4 passes; REV-2: 15 less the claims; REV-3: one for 4 words, less the claims. CE-3 and REV-3 have no published "
     "numbers, and the paper's choice, CE-1 + REV-1, is best on one of its two data sets; a row without any of ours "
     "needs columns of units. log too short: texts on which the log ended before the "
     f"rule did. {BY_LENGTH} is of the texts whose length is logged where it revises, and its differences are to the "
     "paper's pair on these. Limits hold for all pairs at once.", lambda study: study.pair_choice.lines,
     _unlike_lines, BuzzStudy.unnamed_lines, _label_lines),
    DATASET, "9",
)  # fmt: skip
