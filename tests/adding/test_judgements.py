"""What can be read of a judge's words, and what can't."""

from __future__ import annotations

import pytest

from generate.signals.additions import KINDS
from generate.signals.judge import _JudgeQuestion, _PromptedVerifier


def read(text: str, kind: str, how: str, candidates: int = 1) -> float | None:
    verifier = KINDS["verify"][kind](name="v", prompt="p", read=how)
    assert isinstance(verifier, _PromptedVerifier)
    return verifier.read_number(text, _JudgeQuestion("q", ({},) * candidates))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"score": 0.75}', 0.75),
        ('```json\n{"score": 1}\n```', 1.0),
        ('It is good {sic}. {"note": {"score": 0.1}} then {"score": "0.5"}', 0.5),
        ('{"score": 0.25} no, {"score": 0.0}', 0.0),
        ('{"score": 1.5}', None),
        ('{"score": -0.1}', None),
        ('{"score": NaN}', None),
        ('{"score": 1' + "0" * 400 + "}", None),
        ('{"score": Infinity}', None),
        ('{"score": true}', None),
        ('{"score": null}', None),
        ('{"score": [0.5]}', None),
        ('{"other": 0.5}', None),
        ('{"score": 0.', None),
        ("0.75", None),
        ("", None),
        ("{" * 10_000, None),
    ],
)
def test_a_score_in_json(text: str, value: float | None) -> None:
    assert read(text, "judge", "json") == value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0.75", "judge", 0.75),
        ("1.00\n", "judge", 1.0),
        ("7", "judge", None),
        ("7", "reflection", 7.0),
        ("10/10", "reflection", 10.0),
        ("0", "reflection", None),
        ("11", "reflection", None),
        ("sure", "reflection", None),
        ("I take 3)", "listwise", 3.0),
        ("5", "listwise", None),
        ("0", "listwise", None),
        ("1.5", "listwise", None),
    ],
)
def test_the_first_number(text: str, kind: str, value: float | None) -> None:
    assert read(text, kind, "number", 4) == value
