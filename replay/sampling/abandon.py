"""Early abandoning: a policy scores a trace after its first tokens, and abandons it where the score is low."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from toolkit.errors import MismatchError
from toolkit.settings import check, setting

NAMED_TOKENS = re.compile(r".*@(\d+)")


@dataclass(frozen=True)
class Abandonment:
    """Which traces of a pool are checked and abandoned early: masks, bool (E, T) each.

    `checked`: still running after so many tokens, and scored there. `abandoned`: scored too low. Where the log does not
    tell, a trace counts as abandoned: `uncounted` ones have no number of tokens, `unchecked` ones no score.
    """

    checked: np.ndarray
    abandoned: np.ndarray
    uncounted: np.ndarray
    unchecked: np.ndarray


@dataclass(frozen=True)
class Abandon:
    """Early abandoning: `verifier` scores a trace still running after `tokens`, and below `below` it ends there."""

    verifier: str = setting(what="the name of a verifier that scored traces after their first tokens")
    tokens: int = setting(low=1)
    below: float = setting(above=-np.inf, below=np.inf, what="a finite number")

    def __post_init__(self) -> None:
        check(self)
        match = NAMED_TOKENS.fullmatch(self.verifier)
        if match is not None and int(match[1]) != self.tokens:
            raise MismatchError(
                f"`verifier` is `{self.verifier}`, whose name says {int(match[1]):,} tokens, and `tokens` is "
                f"{self.tokens:,}; give a verifier of these tokens"
            )

    def decide(self, generated: np.ndarray, tokens: np.ndarray, score: np.ndarray) -> Abandonment:
        """Which of the traces `generated` are abandoned, by the `tokens` and the score of each; (E, T), NaN: null."""
        uncounted = generated & np.isnan(tokens)
        checked = generated & (tokens > self.tokens)
        unchecked = checked & np.isnan(score)
        return Abandonment(checked, (checked & (score < self.below)) | unchecked | uncounted, uncounted, unchecked)
