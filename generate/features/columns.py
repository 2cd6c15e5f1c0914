"""Which columns each kind of features writes, and which columns of the log it reads."""

from __future__ import annotations

from generate.additions import Features
from toolkit.errors import ThinkbackError, suggest
from toolkit.log import Log

CLAIMS = ("claim_similarity", "evidence_similarity", "claim_numeric_coverage", "evidence_numeric_grounding", "length")
SERVING = (
    "difficulty", "verification_need", "constraint_density", "answer_length", "answer_format",
    "prompt_words", "prompt_numbers", "response_words", "response_numbers", "response_lines",
)  # fmt: skip


def columns_of(step: Features, log: Log) -> tuple[str, ...]:
    """The columns that a step writes. ThinkbackError where the log lacks a column that they are made of."""
    names = {
        "claims": CLAIMS,
        "serving": SERVING,
        "peers": ("peer_similarity" if step.peers == "others" else "earlier_similarity",),
        "contradiction": ("peer_contradiction" if step.peers == "others" else "earlier_contradiction",),
    }[step.kind]
    if step.kind == "claims" and step.evidence not in log.columns("examples"):
        raise ThinkbackError(
            f"features `{step.name}`: `examples` has no column `{step.evidence}`, which holds the evidence; set"
            f" `evidence`: {suggest(step.evidence, log.columns('examples'))}"
        )
    return tuple(step.prefix + name for name in names)
