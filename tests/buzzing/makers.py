"""Logs of checks of unfolding text: written as short rows, and at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

Row = dict[str, Any]
SCHEMA = {
    "example_id": pl.String, "pool": pl.String, "claim": pl.Int32, "round": pl.Int32, "stage": pl.String,
    "position": pl.Int32, "verdict": pl.String, "confidence": pl.Float64, "matches_error": pl.Boolean,
    "gold_verdict": pl.String, "claim_text": pl.String, "unit": pl.Int32, "unit_words": pl.Int32,
    "unit_entities": pl.Int32, "queries": pl.Int32, "calls": pl.Int32, "prompt_tokens": pl.Int32,
    "completion_tokens": pl.Int32, "latency_s": pl.Float32,
}  # fmt: skip
TEXTS = {
    "example_id": pl.String, "dataset": pl.String, "split": pl.String, "question": pl.String, "length": pl.Int32,
    "gold_error": pl.Boolean, "gold_position": pl.Int32,
}  # fmt: skip


def checks_tables(texts: Sequence[Row], rows: Sequence[Row]) -> dict[str, pl.DataFrame]:
    """Tables of a log of checks; what a row does not say is null, its pool `c`."""
    examples = [{"dataset": "small", "split": "test", "question": "q", **text} for text in texts]
    return {
        "examples": pl.DataFrame(examples, schema=TEXTS),
        "checks": pl.DataFrame([{"pool": "c", "queries": 1, **row} for row in rows], schema=SCHEMA),
    }


def one_check(example: str, claim: int, number: int, position: int, verdict: str, **more: Any) -> Row:
    """A round of a claim in the stream; 2 calls, 10 + 5 tokens, 1.5 s."""
    return {
        "example_id": example, "claim": claim, "round": number, "stage": "stream", "position": position,
        "verdict": verdict, "confidence": None, "matches_error": None, "gold_verdict": None, "unit": None,
        "unit_words": None, "unit_entities": None, "calls": 2, "prompt_tokens": 10, "completion_tokens": 5,
        "latency_s": 1.5, **more,
    }  # fmt: skip


SECONDS = st.sampled_from([*(float(np.float32(one)) for one in (0.1, 0.3, 0.7, 1.1, 2.0, 3e7)), None])
"""Seconds as a log holds them, whose sum in float64 depends on the order."""


@st.composite
def random_checks(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Texts and their checks; some texts have none."""
    texts, rows = [], list[Row]()
    for e in range(draw(st.integers(1, 4))):
        length = draw(st.none() | st.integers(8, 12))
        error = draw(st.none() | st.booleans())
        first = draw(st.none() | st.integers(1, 8)) if error else None
        texts.append({"example_id": f"e{e}", "length": length, "gold_error": error, "gold_position": first})
        looked, claim, position, unit = draw(st.booleans()), 0, 0, 0
        sizes: dict[int, tuple[int, int]] = {}
        for stage in ("stream", "revision"):
            for _ in range(draw(st.integers(0, 4))):
                position = 8 if stage == "revision" else min(position + draw(st.integers(0, 3)), 8)
                unit += draw(st.integers(0, 1))
                words = sizes.setdefault(unit, (draw(st.integers(1, 9)), draw(st.integers(0, 2))))
                none = draw(st.integers(0, 4)) == 0
                matches = draw(st.booleans()) and error is True if looked and not none else None
                label = None if none else draw(st.sampled_from([None, "supported", "refuted", "not_enough"]))
                at = position
                for number in range(1 if none else draw(st.integers(1, 3))):
                    at = min(at + (draw(st.integers(0, 2)) if number else 0), 8)
                    verdict = "none" if none else draw(st.sampled_from(["supported", "refuted", "not_enough"]))
                    rows.append(one_check(
                        f"e{e}", claim, number, at, verdict, stage=stage, matches_error=matches, gold_verdict=label,
                        confidence=draw(st.sampled_from([None, 0.2, 0.5, 0.9])), unit=unit, unit_words=words[0],
                        unit_entities=words[1], calls=draw(st.sampled_from([1, 2, 2, None])),
                        latency_s=draw(SECONDS), queries=0 if none else draw(st.integers(0, 2)),
                    ))  # fmt: skip
                    if verdict == "supported":
                        break
                claim += 1
    return texts, rows


@st.composite
def random_policies(draw: st.DrawFn) -> Row:
    """Settings of a policy `buzz`, each key in some of them."""
    few = st.integers(0, 3)
    every: dict[str, st.SearchStrategy[Any]] = {
        "max_claims": few | st.fixed_dictionaries({"per_unit": few})
        | st.fixed_dictionaries({"words_per": st.integers(1, 4)}) | st.fixed_dictionaries({"per_entity": few}),
        "max_rounds": st.integers(1, 3),
        "confidence": st.sampled_from([0.2, 0.3, 0.5, 0.95, 1.0]),
        "revisions": few | st.fixed_dictionaries({"slack": st.integers(0, 5)})
        | st.fixed_dictionaries({"words_per": st.integers(2, 5), "discount": st.sampled_from([0, 1, 0.5, 0.1])}),
        "patience": st.integers(1, 3),
        "words_per_second": st.sampled_from([0.1, 0.5, 1.0, 3.0]),
        "to_end": st.booleans(),
        "on_missing": st.sampled_from(["partial", "use_available", "use_available"]),
    }  # fmt: skip
    keys = draw(st.sets(st.sampled_from(sorted(every))))
    return {key: draw(every[key]) for key in sorted(keys)}
