"""`thinkback fit-verifier`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thinkback.options import with_arguments_of


@with_arguments_of("replay.latent.report:fit_verifier")
def fit_verifier(log: Path, train_on: str, name: str, **given: Any) -> None:
    """Fit a verifier on hidden states and add its scores.

    Log-probabilities, features and other verifiers' scores may be read with them, or in their place. Questions that it
    was trained on are scored by models of other folds alone, and marked so. The model is written to
    LOG/models/NAME.json.
    """
    from replay.latent.report import fit_verifier as fit
    from thinkback import console

    report = fit(log, train_on, name=name, **given)
    for sentence in report.sentences:
        console.say(sentence)
    for table in report.tables():
        console.say()
        console.show(table)
