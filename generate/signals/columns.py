"""Which columns each kind of features writes, and which columns of the log it reads."""

from __future__ import annotations

from generate.signals.additions import Features
from toolkit.errors import ThinkbackError, suggest
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log

SERVING = {
    "difficulty": "question",
    "verification_need": "question",
    "constraint_density": "question",
    "answer_length": "answer",
    "answer_format": "answer",
    "prompt_words": "question",
    "prompt_numbers": "question",
    "response_words": "text",
    "response_numbers": "text",
    "response_lines": "text",
}
"""What each is made of: the function of its name in `generate.signals.serving` says how."""


def columns_of(step: Features, log: Log) -> tuple[str, ...]:
    """The columns that a step writes. ThinkbackError where the log lacks a column that they are made of."""
    names = {
        "claims": CLAIM_FEATURES,
        "serving": tuple(SERVING),
        "peers": ("peer_similarity" if step.peers == "others" else "earlier_similarity",),
        "contradiction": ("peer_contradiction" if step.peers == "others" else "earlier_contradiction",),
    }[step.kind]
    if step.kind == "claims" and step.evidence not in log.columns("examples"):
        raise ThinkbackError(
            f"features `{step.name}`: `examples` has no column `{step.evidence}`: name the one that holds the evidence"
            f" with the key `evidence`; {suggest(step.evidence, log.columns('examples'))}"
        )
    return tuple(step.prefix + name for name in names)
