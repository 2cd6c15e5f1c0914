"""What the study is asked: which verifier, pools and examples, and what beside them."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.stats import Settings

LATENT = "latent"
"""The verifier that is studied where none is named."""
TRAIN = "split = 'train'"


@dataclass(frozen=True)
class LatentSetting:
    """The settings of a study; each is that of the data set it is of.

    `verifiers`: of these, that of a pool is the first that scored it. `pool` is sampled from, `probe` holds single
    attempts. `on` and `where`: conditions on the examples that verifiers were fitted on and that are reported.
    `trained`: how many training rows are among those to report, which `where` then leaves out.
    `published`: whether the paper's numbers stand beside. `seeds`: how often the ablations fit each classifier.
    """

    verifiers: tuple[str, ...]
    pool: str | None = None
    probe: str | None = None
    action: str | None = None
    on: str = TRAIN
    where: str | None = None
    trained: int = 0
    published: bool = False
    ablations: bool = True
    seeds: int = 3
    orders: int = 100
    settings: Settings = Settings()  # noqa: RUF009 -- frozen
