"""Claims to check: QuanTemp (Venktesh et al. 2024, arXiv:2403.17169), ClaimDecomp (Chen et al. 2022, arXiv:2205.06938).

QuanTemp is published as `train_`, `val_` and `test_claims_quantemp.json`: a list of objects with `claim`, `label`
(True, False or Conflicting), `label_original`, `taxonomy_label`, `country_of_origin`, `lang`, `url` and `doc`, the
fact-checkers' article. The evidence is `bm25_top_100_….json`, zipped or not (option `evidence`): a list of objects with
`claim` and `docs`, best first, joined on the text of the claim. Neither `doc` nor `url` is carried along: both say the
verdict.

ClaimDecomp is published as `train`, `dev` and `test.jsonl` with `example_id`, `claim`, `label` (six grades of truth),
`person`, `venue`, `url`, `justification` and `annotations`, a list of objects with `questions` and `answers`. The
sub-questions with their answers are the evidence, those of all annotators in order, repetitions left out; the
`justification` states the verdict and is not carried along.

Labels become Supports, Refutes and Conflicting, as the models answer (thesis on efficient fact checking, section 5):
True and mostly-true support, False, barely-true and pants-fire refute, half-true conflicts. The thesis does not spell
out the six grades; barely-true refutes because its counts (60, 91 and 49 of the 200 test claims) leave less than a
quarter for what conflicts. The counts that are printed say whether that holds for the file that was read. With the
option `two_labels` the claims are read as statements are, for checks of texts: what conflicts, half-true and
barely-true are left out.
"""

from __future__ import annotations

import polars as pl

from generate.datasets.data_set import DataSet, LoadedDataSet, PublishedCount, ReadRequest, example_name, examples_frame
from generate.datasets.published import PublishedRow, find_files, fold_white_space, read_rows
from generate.datasets.statements import (
    EXTRA,
    REFUTED,
    SUPPORTED,
    TWO_LABELS,
    gold_columns,
    label_counts,
    wants_two_labels,
)
from toolkit.errors import MismatchError
from toolkit.log.contract.schema import TEXT_LABELS

LABELS = ("Supports", "Refutes", "Conflicting")
QUANTEMP_LABELS = {
    "true": ("Supports", SUPPORTED), "false": ("Refutes", REFUTED), "conflicting": ("Conflicting", None),
}  # fmt: skip
CLAIMDECOMP_LABELS = {
    "true": ("Supports", SUPPORTED), "mostly-true": ("Supports", SUPPORTED), "half-true": ("Conflicting", None),
    "barely-true": ("Refutes", None), "false": ("Refutes", REFUTED), "pants-fire": ("Refutes", REFUTED),
}  # fmt: skip
_QUANTEMP = {"train": (1_824, 5_770, 2_341), "dev": (617, 1_795, 672), "test": (474, 1_423, 598)}
_CLAIMDECOMP = {"test": (60, 91, 49)}
_CLAIMDECOMP_TOTALS = {"train": 800, "dev": 200, "test": 200}
_EVIDENCE = ("bm25_scored_evidence/bm25_top_100_*.json*", "bm25_top_100_*.json*")
_CLAIM = {"claim": pl.String(), "evidence": pl.List(pl.String()), "label_original": pl.String()}


def _read_quantemp(request: ReadRequest) -> LoadedDataSet:
    """Reads QuanTemp's claims with their evidence. Without the option `evidence` the lists of passages are empty."""
    passages, two = _passages(request), wants_two_labels(request)
    rows, bare = [], 0
    for number, row in enumerate(read_rows(request.files)):
        claim = row.text("claim")
        gold = gold_columns(row, "label", QUANTEMP_LABELS, two, claim)
        if gold is None:
            continue
        evidence = passages.get(fold_white_space(claim), []) if passages is not None else []
        bare += not evidence
        rows.append(
            {
                "question": claim,
                "claim": claim,
                "evidence": evidence,
                "example_id": example_name(request, number),
                **gold,
                "label_original": row.optional_text("label_original"),
                "taxonomy": row.optional_text("taxonomy_label"),
                "country": row.optional_text("country_of_origin"),
            }
        )
    extra = {**_CLAIM, "taxonomy": pl.String(), "country": pl.String(), **(EXTRA if two else {})}
    examples = examples_frame(request, rows, extra, TEXT_LABELS if two else LABELS)
    source = "thesis on efficient fact checking, table 4.1"
    counts = _published_counts(request, examples, _QUANTEMP.get(request.split), None, source)
    if passages is not None:
        if bare == len(rows):
            raise MismatchError("no claim has evidence: the file that `evidence` names holds other claims")
        counts.append(PublishedCount(f"quantemp {request.split} claims without evidence", bare))
    return LoadedDataSet(examples, tuple(counts))


def _read_claimdecomp(request: ReadRequest) -> LoadedDataSet:
    """Reads ClaimDecomp's claims. The evidence of each is its sub-questions with their answers."""
    rows, two = [], wants_two_labels(request)
    for row in read_rows(request.files):
        claim = row.text("claim")
        gold = gold_columns(row, "label", CLAIMDECOMP_LABELS, two, claim)
        if gold is None:
            continue
        rows.append(
            {
                "question": claim,
                "claim": claim,
                "evidence": _question_answer_texts(row),
                "example_id": f"{request.name}-{request.split}-{_published_id(row)}",
                **gold,
                "label_original": row.text("label"),
                "person": row.optional_text("person"),
                "venue": row.optional_text("venue"),
            }
        )
    extra = {**_CLAIM, "person": pl.String(), "venue": pl.String(), **(EXTRA if two else {})}
    examples = examples_frame(request, rows, extra, TEXT_LABELS if two else LABELS)
    source = "thesis on efficient fact checking, section 4.1.2" if request.split == "test" else "Chen et al. 2022"
    shares = _CLAIMDECOMP.get(request.split)
    return LoadedDataSet(
        examples, tuple(_published_counts(request, examples, shares, _CLAIMDECOMP_TOTALS[request.split], source))
    )


def _published_id(row: PublishedRow) -> str:
    """The published id as text, even where a program rewrote it as a number."""
    value = row.values.get("example_id")
    return str(row.number_of("example_id")) if isinstance(value, int) else row.text("example_id")


def _question_answer_texts(row: PublishedRow) -> list[str]:
    """`Is it so? yes` for each sub-question of each annotator. An answer may be missing (unknown)."""
    lines: dict[str, None] = {}
    for annotation in row.list_of("annotations"):
        if not isinstance(annotation, dict) or not isinstance(annotation.get("questions"), list):
            raise row.column_error("annotations", "an annotation has no list `questions`")
        questions = annotation["questions"]
        answers = annotation.get("answers") or ["unknown"] * len(questions)
        if len(answers) != len(questions):
            raise row.column_error(
                "annotations", f"an annotation has {len(questions)} questions and {len(answers)} answers"
            )
        for question, answer in zip(questions, answers, strict=True):
            if not isinstance(question, str) or not isinstance(answer, str | None):
                raise row.column_error("annotations", "`questions` and `answers` must be strings")
            lines[f"{question.strip()} {(answer or 'unknown').strip()}"] = None
    return list(lines)


def _passages(request: ReadRequest) -> dict[str, list[str]] | None:
    """The passages of each claim (folded), best first, without repeats and blanks; null where no file was named."""
    if "evidence" not in request.options:
        return None
    passages: dict[str, list[str]] = {}
    for row in read_rows(find_files(request.options["evidence"], _EVIDENCE)):
        documents = row.list_of("docs")
        if not all(isinstance(one, str) for one in documents):
            raise row.column_error("docs", "holds something that is not a string")
        distinct = dict.fromkeys(document.strip() for document in documents if document.strip())
        passages.setdefault(fold_white_space(row.text("claim")), list(distinct))
    return passages


def _published_counts(
    request: ReadRequest, examples: pl.DataFrame, shares: tuple[int, ...] | None, total: int | None, source: str
) -> list[PublishedCount]:
    golds = examples["gold"]
    if wants_two_labels(request):
        return label_counts(request, golds, TEXT_LABELS, None, "")
    title = f"{request.name} {request.split} claims"
    total = sum(shares) if shares and total is None else total
    counts = [PublishedCount(title, examples.height, total, source)]
    for place, label in enumerate(LABELS):
        published = shares[place] if shares else None
        counts.append(
            PublishedCount(f"{title}, {label}", int((golds == label).sum()), published, source if shares else "")
        )
    return counts


QUANTEMP = DataSet(
    name="quantemp",
    published_by="Venktesh et al. 2024, arXiv:2403.17169",
    files={
        split: (f"{name}_claims_quantemp.json", f"raw_data/{name}_claims_quantemp.json",
                f"data/raw_data/{name}_claims_quantemp.json")
        for split, name in (("train", "train"), ("dev", "val"), ("test", "test"))
    },
    read=_read_quantemp,
    options={"evidence": "the file of retrieved passages, `bm25_top_100_….json` or its zip", **TWO_LABELS},
)  # fmt: skip

CLAIMDECOMP = DataSet(
    name="claimdecomp",
    published_by="Chen et al. 2022, arXiv:2205.06938",
    files={split: (f"{split}.jsonl", f"ClaimDecomp/{split}.jsonl") for split in ("train", "dev", "test")},
    read=_read_claimdecomp,
    options=TWO_LABELS,
)
