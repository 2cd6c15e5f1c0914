"""The published numbers of DIVER, by data set, method and backbone, and the rules of its table 9.

Table 2 calls its backbone GPT-4o and its column accuracy, yet its row of DIVER is that of table 1, of GPT-4o mini and
macro-F1. Losses that its text gives for table 3 are not the table's differences. Both stand as printed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from replay.studies.buzz.systems import DIRECT, DIVER, NO_FILTER, ONE_SHOT
from replay.studies.kit.published import PublishedRow, PublishedWork

WORK = PublishedWork(
    "diver",
    {"averitec": "AVeriTeC", "liar": "LIAR", "feverous": "FEVEROUS", "feverouss": "FEVEROUS", "hover": "HoVer",
     "umactually": "UmActually", "umactuallys": "UmActually"},
)  # fmt: skip
SCORED = "AVeriTeC"
"""The data set whose published score is of evidence and verdict together, which no replay of verdicts gives."""
_PREFIX = {"AVeriTeC": "averitec", "LIAR": "liar", "FEVEROUS": "feverous"}
_BACKBONES = (("gpt-4o-mini", "4o_mini"), ("gpt-3.5", "3_5_turbo"))
_PAPERS = {"4o_mini": "GPT-4o mini, published", "3_5_turbo": "GPT-3.5-turbo, published"}
"""What rows of the paper's backbones are called that no row here is of."""
Heads = tuple[str, ...]
"""The first cells of a row."""
_VARIANTS = {
    DIVER: "full", ONE_SHOT: "without iterative extraction", NO_FILTER: "without filter and recommendation",
    "no revision": "without revision",
}  # fmt: skip


def _backbone_key(backbone: str) -> str | None:
    return next((key for part, key in _BACKBONES if part in backbone.lower()), None)


def _cells(row: PublishedRow, dataset: str, *infixes: str) -> PublishedRow:
    """The cells of a data set in a published row: a percentage under `pct`, one that is called accuracy under
    `accuracy_pct`, a score under `score`.
    """
    prefix, out = _PREFIX.get(dataset, "-"), dict[str, Any]()
    for key, value in row.items():
        if key.startswith(prefix) and value is not None and all(one in key for one in infixes):
            kinds = ("score", "accuracy_pct")
            out[next((one for one in kinds if key.endswith(one)), "pct")] = value
    return out


def _row(table: str, column: str, name: str) -> PublishedRow:
    return next((row for row in WORK.rows(table) if row[column] == name), {})


def published_method(dataset: str | None, method: str, backbone: str) -> PublishedRow:
    """Returns the published macro-F1 or score of a method under a backbone (table 1); empty where there is none."""
    key = _backbone_key(backbone)
    return {} if dataset is None or key is None else _cells(_row("1", "method", method), dataset, key)


def unlisted_methods(dataset: str | None, listed: Collection[Heads]) -> Iterator[tuple[Heads, PublishedRow]]:
    """Yields backbone, method and cells of the rows of table 1 that are not listed as (backbone, method) here."""
    for key, name in _PAPERS.items():
        known = {method for backbone, method in listed if _backbone_key(backbone) == key}
        for row in WORK.rows("1"):
            cells = _cells(row, dataset or "-", key)
            if cells and row["method"] not in known:
                yield (name, str(row["method"])), cells


def unlisted_extractors(dataset: str | None, listed: Collection[Heads]) -> Iterator[tuple[Heads, PublishedRow]]:
    """Yields backbone, extractor and cells of the rows of table 4 that are not listed as (backbone, extractor) here."""
    for key, name in _PAPERS.items():
        known = {method for backbone, method in listed if _backbone_key(backbone) == key}
        for method in (ONE_SHOT, DIVER):
            cells = published_coverage(dataset, method, name.lower().replace(" ", "-"))
            if cells and method not in known:
                yield (name, method), cells


def unlisted_hops(dataset: str | None, listed: Collection[Heads]) -> Iterator[tuple[Heads, PublishedRow]]:
    """Yields method, hops and cells of the rows of table 5 that are not listed as (method, hops) here."""
    for row in WORK.rows("5"):
        for hops in ("3", "4"):
            heads = (str(row["method"]), hops)
            cells = published_hops(dataset, *heads)
            if cells and heads not in listed:
                yield heads, cells


def unlisted_unfolding(dataset: str | None, listed: Collection[str]) -> Iterator[tuple[Heads, PublishedRow]]:
    """Yields method and cells of the rows of table 7 of whose method no row here is."""
    for row in WORK.rows("7"):
        method = {"Vanilla GPT-4o": DIRECT}.get(row["method"], str(row["method"]))
        cells = published_unfolding(dataset, method)
        if cells and method not in listed:
            yield (f"{row['method']}, published",), cells


def published_unfolding(dataset: str | None, method: str) -> PublishedRow:
    """Returns the published accuracy and macro-F1 of a method on UmActually (table 7); empty where there is none."""
    row = _row("7", "method", "Vanilla GPT-4o" if method == DIRECT else method) if dataset == "UmActually" else {}
    return {"accuracy_pct": row["accuracy_pct"], "unlike_pct": row["macro_f1_pct"]} if row else {}


def published_fixed(dataset: str | None) -> list[tuple[str, str, PublishedRow]]:
    """Returns group, method and cells of every row of table 2; cells are empty without a data set of it."""
    return [(str(row["group"]), str(row["method"]), _cells(row, dataset or "")) for row in WORK.rows("2")]


def published_variant(dataset: str | None, variant: str) -> PublishedRow:
    """Returns the published numbers of the system without a part (table 3); empty where there is none."""
    return {} if dataset is None else _cells(_row("3", "variant", _VARIANTS.get(variant, "")), dataset)


def published_coverage(dataset: str | None, method: str, backbone: str) -> PublishedRow:
    """Returns the published coverage of the wrong claim by an extractor (table 4); empty where there is none."""
    key = {"4o_mini": "gpt_4o_mini_pct", "3_5_turbo": "gpt_3_5_turbo_pct"}.get(_backbone_key(backbone) or "")
    name = {DIVER: "iterative", ONE_SHOT: "one-shot"}.get(method, "")
    row = _row("4", "extractor", name) if dataset == SCORED else {}
    return {} if key is None or not row else {"pct": row[key]}


def published_hops(dataset: str | None, method: str, hops: str) -> PublishedRow:
    """Returns the published accuracy by hops of HoVer (table 5); empty where there is none."""
    row = _row("5", "method", method) if dataset == "HoVer" else {}
    value = row.get(f"hop{hops}_accuracy_pct")
    return {} if value is None else {"pct": value}


COUNTED = "FEVEROUS"
"""The data set of the paper's counts of errors."""


def published_errors(dataset: str | None, kind: str) -> PublishedRow:
    """Returns the published counts of a kind of error, or of `all`, among 100 of DIVER and of BiDeV, and how many more
    are of DIVER (table 6); empty where there is none.
    """
    named = {"missed claim": "missed sub-claim", "failed retrieval": "retriever failure",
             "unsupported confidence": "uncaught refutation", "all": "total"}  # fmt: skip
    row = _row("6", "kind", named.get(kind, kind)) if dataset == COUNTED else {}
    return {"share": row["diver"], "bidev": row["bidev"], "difference": row["difference"]} if row else {}


def published_pair(dataset: str | None, extraction: str, revision: str) -> PublishedRow:
    """Returns the published accuracy of a pair of rules (table 9); empty where there is none."""
    rows = WORK.rows("9") if dataset in _PREFIX else ()
    row = next((one for one in rows if (one["extraction"], one["revision"]) == (extraction, revision)), {})
    return _cells(row, str(dataset))


def published_timing(dataset: str | None) -> PublishedRow:
    """Returns the published shares of right acts within 20 and 40 % of the text; empty but for UmActually."""
    rows = WORK.rows("buzz") if dataset == "UmActually" else ()
    return {f"within_{row['deviation_within_pct']}": row["share_of_correct_pct"] for row in rows}


UNFOLDING_TEXTS = int(WORK.number_in_text("Paragraphs of UmActually"))
"""The texts of the paper's data set of unfolding texts."""


def fitting_counts() -> list[str]:
    """Returns how many right answers of the paper's texts have both of its shares of near acts, rounded as it does."""
    shares = [row["share_of_correct_pct"] for row in WORK.rows("buzz")]
    counts = range(1, UNFOLDING_TEXTS + 1)
    return [f"{n}" for n in counts if all(round(100 * round(share * n / 100) / n, 1) == share for share in shares)]


def published_people(dataset: str | None, season: str) -> PublishedRow:
    """Returns the published accuracy of people, and Δ of those of 2025 who were right; empty but for UmActually."""
    if dataset != "UmActually":
        return {}
    row = _row("human", "season", "2024 and 2025" if season == "all" else season)
    cells: dict[str, Any] = {"any": row["accuracy_pct"]} if row else {}
    if season == "2025":
        cells["people_deviation"] = WORK.number_in_text("Timing deviation of contestants, season 2025 (mean)")
    return cells


def published_labels(dataset: str | None, label: str) -> PublishedRow:
    """Returns how many claims of a label the paper has (table 8); empty where there is none."""
    row = _row("8", "dataset", dataset or "")
    return {"texts": row[label]} if label in row else {}


_COSTS = {
    "serial_calls": "llm_calls_per_paragraph", "queries": "searches_per_paragraph",
    "prompt_tokens": "prompt_tokens_per_paragraph", "completion_tokens": "completion_tokens_per_paragraph",
}  # fmt: skip


def published_cost(dataset: str | None, quantity: str) -> PublishedRow:
    """Returns mean and spread of a cost of DIVER on FEVEROUS (appendix A.5); empty where there is none."""
    row = _row("A.5", "quantity", _COSTS.get(quantity, "")) if dataset == "FEVEROUS" else {}
    return {"mean": row["value"], "spread": row["plus_or_minus"]} if row else {}
