"""How answers are read, compared and counted, by what gold, answers, texts and verdicts of a table look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from toolkit.answers import normalise, number_form, read_answers

MARKS = ("boxed", "####", "answer is")
_MOST = 600
"""Rows that are looked at, spread over all."""
_NEARLY_ALL, _SOME = 0.95, 0.05
_SLIGHT, _MOSTLY = 0.005, 0.8
_LABELS = 6
_LABEL_WORDS = 4
_LONG = 40
"""Characters from which a text is not an answer alone."""


@dataclass(frozen=True)
class Sample:
    """Rows of a table, (n,) each: gold, what answers are read from, the source's verdicts. None: the table has none."""

    gold: pl.Series | None
    read: pl.Series | None
    verdict: pl.Series | None


def sampled_rows(columns: Sequence[pl.Series | None]) -> list[pl.Series | None]:
    """Some rows of the columns, spread over the whole table."""
    height = next((one.len() for one in columns if one is not None), 0)
    step = max(1, height // _MOST)
    return [None if column is None else column.gather_every(step) for column in columns]


def guess_rules_table(sample: Sample, answers: bool = True) -> Mapping[str, Any]:
    """Guesses the table `[answers]` of a mapping. It has `read` where answers stand inside longer texts.

    Of rules that agree as well with the source's verdicts the simplest count. `answers`: whether what is read from
    are answers, and not texts: then they stay as they are where no rule agrees better.
    """
    rules = _guess_rules(sample)
    if sample.verdict is None or sample.read is None:
        return rules
    plain = {name: value for name, value in rules.items() if name in ("kind", "read_gold", "labels")}
    exact = {"kind": "exact", **({"read_gold": rules["read_gold"]} if "read_gold" in rules else {})}
    if sample.gold is None:
        return rules if answers or "read" in rules else exact
    tried = [exact, plain, rules] if answers else [exact, rules]
    shares = [_verdict_agreement(sample, one) for one in tried]
    best = next(one for one, share in zip(tried, shares, strict=True) if share >= max(shares) - _SLIGHT)
    return best if answers or _verdict_agreement(sample, rules) >= _MOSTLY else exact


def _verdict_agreement(sample: Sample, rules: Mapping[str, Any]) -> float:
    """The share of the source's verdicts that comparing with gold by these rules reproduces."""
    if sample.read is None or sample.gold is None or sample.verdict is None:
        return 0.0
    replies = normal_answers(sample.read, {name: value for name, value in rules.items() if name != "read_gold"})
    gold = normal_answers(sample.gold, {**rules, "read": rules.get("read_gold")})
    both = pl.DataFrame({"judged": (replies == gold).fill_null(False), "truth": sample.verdict}).drop_nulls()
    return _true_share(both["judged"] == both["truth"])


def _guess_rules(sample: Sample) -> dict[str, Any]:
    gold = sample.gold.drop_nulls() if sample.gold is not None else pl.Series(dtype=pl.String)
    rules: dict[str, Any] = {}
    ways = [
        way
        for way in ("####", "boxed")
        if gold.len() and _true_share(read_answers(gold, [way]).is_not_null()) >= _NEARLY_ALL
    ]
    if ways:
        rules["read_gold"] = ways[:1] if ways[0] == "####" else ["boxed", "whole text"]
        gold = read_answers(gold, rules["read_gold"]).drop_nulls()
    kind, labels = _answer_kind(gold, sample.read)
    rules["kind"] = kind
    if labels:
        rules["labels"] = labels
    if sample.read is not None:
        read = _reading_ways(sample.read, kind, labels)
        if read:
            rules["read"] = read
    return {name: rules[name] for name in ("kind", "read", "read_gold", "labels") if name in rules}


def _true_share(mask: pl.Series) -> float:
    return float(mask.mean() or 0.0)  # type: ignore[arg-type]


def _answer_kind(gold: pl.Series, read: pl.Series | None) -> tuple[str, list[str]]:
    """The kind of answer in whose normal form gold (without gold, the answers) is equal, and the labels if any."""
    known = gold if gold.len() else read.drop_nulls() if read is not None else gold
    if not known.len():
        return "exact", []
    if _number_share(known) >= _NEARLY_ALL:
        return "number", []
    letters = normalise(known, "choice").str.contains(r"^[A-J]$")
    if _true_share(letters.fill_null(False)) >= _NEARLY_ALL:
        return "choice", []
    labels = sorted(known.str.strip_chars().unique().to_list()) if gold.len() else []
    several = 1 < len({one.lower() for one in labels}) == len(labels) <= _LABELS and gold.len() >= 5 * len(labels)
    if several and all(
        label and len(label.replace("_", " ").split()) <= _LABEL_WORDS and len(label) <= _LONG for label in labels
    ):
        return "label", labels
    return "exact", []


def _number_share(texts: pl.Series) -> float:
    texts = texts.gather_every(max(1, texts.len() // _MOST))
    return sum(number_form(text) is not None for text in texts.to_list()) / max(texts.len(), 1)


def kind_share(texts: pl.Series, kind: str, labels: Sequence[str]) -> float:
    """The share of texts that are, as they stand, answers of a kind."""
    known = texts.drop_nulls()
    if kind == "number":
        return _true_share(pl.Series([number_form(text) is not None for text in known.to_list()], dtype=pl.Boolean))
    if kind == "choice":
        return _true_share(normalise(known, "choice").str.contains(r"^[A-J]$").fill_null(False))
    if kind == "label":
        return _true_share(normalise(known, "label", labels, {}).is_in(list(labels)))
    return _true_share((known.str.len_chars() <= _LONG) & ~known.str.contains("\n"))


def _reading_ways(texts: pl.Series, kind: str, labels: Sequence[str]) -> list[str]:
    """The ways in which answers can be read from texts; empty where the texts are answers themselves."""
    known = texts.drop_nulls()
    if not known.len() or (kind != "choice" and kind_share(known, kind, labels) >= 0.7) or not has_marks(known, kind):
        return []
    if kind == "choice" and known.str.len_chars().max() <= 6:  # type: ignore[operator]
        return []
    ways = [way for way in MARKS if _true_share(read_answers(known, [way]).is_not_null()) >= _SOME]
    if kind == "number":
        return [*ways, "last number"]
    if kind in ("choice", "label"):
        return [*ways, "last line"]
    return ways


def has_marks(texts: pl.Series, kind: str) -> bool:
    """Whether answers can be read from texts at all: after marks, or as numbers, letters or labels."""
    if kind != "exact":
        return True
    return _true_share(read_answers(texts.drop_nulls(), list(MARKS)).is_not_null()) >= 0.5


def is_long(texts: pl.Series) -> bool:
    """Whether texts are longer than mere answers."""
    known = texts.drop_nulls()
    return known.len() > 0 and kind_share(known, "exact", ()) < 0.7


def normal_answers(texts: pl.Series, rules: Mapping[str, Any]) -> pl.Series:
    """The answers read from texts by the rules, in normal form."""
    replies = read_answers(texts, rules["read"]) if rules.get("read") else texts
    return normalise(replies, rules.get("kind", "exact"), rules.get("labels", ()), {})
