"""Statements that are right or wrong, to be checked at once or while they are revealed word by word: the data of DIVER.

`um-actually` has no publishers: its layout is ours. A file of JSON lines has in each a `statement`, and, where there
are any, `id`, `error` (what is wrong in it; without it nothing is), `correction`, `season`, `position` (the words
after which an expert can name the error) and `answers` of people: objects with `right` (true or false) and `position`
(the words after which they answered).

AVeriTeC (Schlichtkrull et al. 2023, arXiv:2305.13117) is published as JSON with `claim`, `label`, `speaker`,
`claim_date`; HoVer (Jiang et al. 2020, arXiv:2011.03088) as JSON with `uid`, `claim`, `label`, `num_hops`; LIAR (Wang
2017, arXiv:1705.00648) as columns parted by tabs, without a header; FEVEROUS (Aly et al. 2021, arXiv:2106.05707) as
JSON lines with `id`, `claim`, `label`. Their evidence is not read. Of HoVer and AVeriTeC the test parts have no labels.

With the option `two_labels` only what is supported or refuted stays, as DIVER filters (its appendix A.1): of the six
grades of LIAR half-true and barely-true are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from generate.datasets.data_set import DataSet, LoadedDataSet, PublishedCount, ReadRequest, example_name, examples_frame
from generate.datasets.published import PublishedRow, read_rows
from toolkit.errors import EmptyError, InvalidError, quote
from toolkit.log.contract.schema import TEXT_LABELS

SUPPORTED, REFUTED = TEXT_LABELS
Grades = Mapping[str, tuple[str, str | None]]
"""A published label in lower case -> the label of the example, and which of two labels it is, if any."""
TWO_LABELS = {"two_labels": "`true`: only what is `supported` or `refuted`, the rest is left out"}
DIVER = "DIVER, table 8"


def wants_two_labels(request: ReadRequest) -> bool:
    """Whether only supported and refuted claims are read. InvalidError where the option is not true or false."""
    given = request.options.get("two_labels", False)
    if not isinstance(given, bool):
        raise InvalidError(f"`two_labels` is {quote(given)}; it takes true or false")
    return given


def gold_columns(row: PublishedRow, column: str, grades: Grades, two: bool, text: str) -> dict[str, Any] | None:
    """`gold`, `gold_error` and `length` of a text with its label in a column; its `error` is unknown. None where `two`
    labels leave it out.
    """
    value = row.values.get(column)
    # CSV copies and some JSON writers turn True and False into booleans.
    published = str(value).lower() if isinstance(value, bool) else row.text(column).lower()
    if published not in grades:
        raise row.column_error(column, f"`{value}` is not a label; there are {', '.join(grades)}")
    label, of_two = grades[published]
    if two and of_two is None:
        return None
    error = None if of_two is None else of_two == REFUTED
    return {"gold": of_two if two else label, "gold_error": error, "length": len(text.split()), "error": None}


def label_counts(
    request: ReadRequest, golds: pl.Series, labels: Sequence[str], published: Sequence[int] | None, source: str
) -> list[PublishedCount]:
    """How many claims there are, and how many of each label, beside what was published of these."""
    title = f"{request.name} {request.split} claims"
    counts = [PublishedCount(title, len(golds), sum(published) if published else None, source if published else "")]
    for place, label in enumerate(labels):
        of_label = published[place] if published else None
        counts.append(
            PublishedCount(f"{title}, {label}", int((golds == label).sum()), of_label, source if published else "")
        )
    return counts


EXTRA: Mapping[str, pl.DataType] = {"gold_error": pl.Boolean(), "length": pl.Int32(), "error": pl.String()}
"""The columns of a text beside those of every example."""


@dataclass(frozen=True)
class _Layout:
    """The columns of claim, label, id and more in a data set. counts: published ones of two labels, by split."""

    claim: str
    label: str
    grades: Grades
    name: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    hops: str | None = None
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def _two(supported: Sequence[str], refuted: Sequence[str], others: Mapping[str, str]) -> Grades:
    return {
        **dict.fromkeys(supported, (SUPPORTED, SUPPORTED)),
        **dict.fromkeys(refuted, (REFUTED, REFUTED)),
        **{name: (label, None) for name, label in others.items()},
    }


_LAYOUTS: Mapping[str, _Layout] = {
    "averitec": _Layout(
        "claim", "label", columns={"speaker": "speaker", "claim_date": "claim_date"}, counts={"dev": (122, 305)},
        grades=_two(["supported"], ["refuted"], {"not enough evidence": "not_enough",
                                                 "conflicting evidence/cherrypicking": "conflicting"}),
    ),
    "hover": _Layout(
        "claim", "label", _two(["supported"], ["not_supported"], {}), name="uid", hops="num_hops",
    ),
    "liar": _Layout(
        "3", "2", name="1", columns={"subject": "4", "speaker": "5", "party": "8"}, counts={"test": (449, 341)},
        grades={name: (name, of_two) for name, of_two in (
            ("true", SUPPORTED), ("mostly-true", SUPPORTED), ("half-true", None), ("barely-true", None),
            ("false", REFUTED), ("pants-fire", REFUTED))},
    ),
    "feverous": _Layout(
        "claim", "label", _two(["supports"], ["refutes"], {"not enough info": "not_enough"}), name="id",
        counts={"dev": (3_908, 3_481)},
    ),
}  # fmt: skip
"""DIVER's 449 and 341 claims of LIAR are those of the test part, if it is read as CSV: quotes swallow 16 lines."""
_HOPS = {"train": {2: 9_052, 3: 6_084, 4: 3_035}, "dev": {2: 1_126, 3: 1_835, 4: 1_039}}


def _read_claims(request: ReadRequest) -> LoadedDataSet:
    """Reads claims in a published layout, by the name of the data set."""
    layout, two, rows = _LAYOUTS[request.name], wants_two_labels(request), list[dict[str, Any]]()
    for number, row in enumerate(read_rows(request.files)):
        if not row.values.get(layout.claim) and not row.values.get(layout.label):
            continue  # FEVEROUS begins with a row of nothing
        claim = row.text(layout.claim)
        gold = gold_columns(row, layout.label, layout.grades, two, claim)
        if gold is None:
            continue
        name = None if layout.name is None else str(row.values.get(layout.name) or "").removesuffix(".json")
        rows.append({
            "example_id": f"{request.name}-{request.split}-{name}" if name else example_name(request, number),
            "question": claim, "claim": claim, "hops": row.number_of(layout.hops) if layout.hops else None, **gold,
            **{column: row.optional_text(place) for column, place in layout.columns.items()},
        })  # fmt: skip
    if not rows:
        raise EmptyError(f"`{request.files[0]}`: no claim is supported or refuted")
    labels = TEXT_LABELS if two else tuple(dict.fromkeys(label for label, _ in layout.grades.values()))
    extra = {"claim": pl.String(), **EXTRA, **dict.fromkeys(layout.columns, pl.String())}
    examples = examples_frame(request, rows, extra | ({"hops": pl.Int32()} if layout.hops else {}), labels)
    known = layout.counts.get(request.split) if two else None
    counts = label_counts(request, examples["gold"], labels, known, DIVER)
    for hops, published in (_HOPS.get(request.split, {}) if layout.hops else {}).items():
        title = f"{request.name} {request.split} claims of {hops} hops"
        counts.append(PublishedCount(title, int((examples["hops"] == hops).sum()), published, "Jiang et al. 2020"))
    return LoadedDataSet(examples, tuple(counts))


_PEOPLE: Mapping[str, pl.DataType] = {
    "human_position": pl.Int32(), "human_correct": pl.Boolean(), "human_positions": pl.List(pl.Int32()),
    "human_corrects": pl.List(pl.Boolean()),
}  # fmt: skip
_SEASONS = {"2024": (60, 35), "2025": (119, 95)}
"""Statements of a season, and those that people answered rightly."""


def _read_um_actually(request: ReadRequest) -> LoadedDataSet:
    """Reads statements in the layout of ours."""
    rows = []
    for number, row in enumerate(read_rows(request.files)):
        statement, error = row.text("statement"), row.optional_text("error")
        length = len(statement.split())
        position = _word_number(row, "position", row.values.get("position"), length)
        if error is None and position is not None:
            raise row.column_error("position", "is the word of an error, and the statement has no error: write null")
        name = row.values.get("id")
        season = row.values.get("season")
        rows.append({
            "example_id": example_name(request, number) if name is None else str(name), "question": statement,
            "gold": SUPPORTED if error is None else REFUTED, "gold_error": error is not None, "length": length,
            "error": error, "correction": row.optional_text("correction"), "gold_position": position,
            "season": None if season is None else str(season), **_answers_of_people(row, length),
        })  # fmt: skip
    texts = dict.fromkeys(("correction", "season"), pl.String())
    examples = examples_frame(request, rows, {**EXTRA, "gold_position": pl.Int32(), **texts, **_PEOPLE}, TEXT_LABELS)
    counts, seasons = label_counts(request, examples["gold"], TEXT_LABELS, None, ""), examples["season"]
    for season in sorted(set(seasons.drop_nulls())):
        many, right = _SEASONS.get(season, (None, None))
        mine, title = examples.filter(season=season), f"{request.name} statements of {season}"
        counts.append(PublishedCount(title, mine.height, many, "DIVER, section 3.6"))
        answered = int(mine["human_correct"].sum())
        counts.append(PublishedCount(f"{title} answered rightly by people", answered, right, "DIVER, section 3.6"))
    return LoadedDataSet(examples, tuple(counts))


def _word_number(row: PublishedRow, column: str, value: Any, length: int) -> int | None:
    """The number of a word in a statement of `length` words, from 1; None where `value` is."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= length:
        raise row.column_error(column, f"`{value}` is no word of the statement, which has {length}, counted from 1")
    return value


def _answers_of_people(row: PublishedRow, length: int) -> dict[str, Any]:
    """Columns on people's answers: whether any was right, where first, and all of them, where each has a position."""
    answers = row.list_of("answers") if row.has("answers") else []
    if not all(isinstance(one, dict) and isinstance(one.get("right"), bool) for one in answers):
        raise row.column_error("answers", "must be objects with `right` (true or false), and perhaps `position`")
    places = [_word_number(row, "answers", answer.get("position"), length) for answer in answers]
    first = [place for place, one in zip(places, answers, strict=True) if one["right"] and place is not None]
    known = bool(answers) and None not in places
    return {
        "human_correct": any(one["right"] for one in answers) if answers else None,
        "human_position": min(first, default=None),
        "human_positions": places if known else None,
        "human_corrects": [one["right"] for one in answers] if known else None,
    }


def _claims(name: str, published_by: str, files: Mapping[str, Sequence[str]]) -> DataSet:
    return DataSet(name=name, published_by=published_by, files=files, read=_read_claims, options=TWO_LABELS)


UM_ACTUALLY = DataSet(
    name="um-actually",
    published_by="nobody yet (the manual gives the layout)",
    files={"test": ("*.jsonl", "*.json")},
    read=_read_um_actually,
)
AVERITEC = _claims(
    "averitec", "Schlichtkrull et al. 2023, arXiv:2305.13117",
    {split: (f"{split}.json", f"data/{split}.json", f"*{split}*.json") for split in ("train", "dev")},
)  # fmt: skip
HOVER = _claims(
    "hover", "Jiang et al. 2020, arXiv:2011.03088",
    {split: (f"hover_{split}_release_v1.1.json", f"*{split}*.json") for split in ("train", "dev")},
)  # fmt: skip
LIAR = _claims(
    "liar", "Wang 2017, arXiv:1705.00648",
    {"train": ("train.tsv", "*train*.tsv"), "dev": ("valid.tsv", "*valid*.tsv"), "test": ("test.tsv", "*test*.tsv")},
)  # fmt: skip
FEVEROUS = _claims(
    "feverous", "Aly et al. 2021, arXiv:2106.05707",
    {split: (f"feverous_{split}_challenges.jsonl", f"*{split}*.jsonl") for split in ("train", "dev")},
)  # fmt: skip
