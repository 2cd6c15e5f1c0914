"""Simulated logs of retrieval rounds, in which it is known what agreement of answers tells of gold documents.

The model. A question has `hops`, and each of them `golds` gold documents, which lie in rounds drawn at random. A round
reads `documents`: their relevance is normal, `quality` higher for gold ones, and its batch is in order of relevance.
A hop has one leading answer. An answer of a round names it with the probability `agreement` + `tie` · `strength` where
the round holds gold, and `agreement` − `tie` · `strength` where it does not; else it is one of several others. So
agreement tells of gold with a tie of 1, tells the reverse with −1, and tells nothing with 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from generate.simulation.grid import write_simulated
from toolkit.progress import progress
from toolkit.settings import check, setting

if TYPE_CHECKING:
    from toolkit.log import Log

POOL = "simulated"
AT_ONCE = 500
OTHERS = 8
"""Answers of a hop beside the leading one."""


@dataclass(frozen=True)
class RoundsModel:
    """The parameters of the simulation; the module's docstring explains each."""

    hops: int = setting(2, low=1, high=100)
    rounds: int = setting(6, low=1, high=10_000)
    documents: int = setting(8, low=1, high=10_000)
    golds: int = setting(2, low=1, high=1_000)
    answers: int = setting(5, low=1, high=1_000)
    quality: float = setting(1.0)
    agreement: float = setting(0.55, low=0, high=1)
    strength: float = setting(0.4, low=0, high=1)
    tie: float = setting(1.0, low=-1, high=1)

    def __post_init__(self) -> None:
        check(self)

    def names_leader(self, gold: np.ndarray) -> np.ndarray:
        """The probabilities that an answer names its round's leader, by whether the round holds gold documents."""
        return np.clip(self.agreement + self.tie * self.strength * np.where(gold, 1.0, -1.0), 0.0, 1.0)


def simulate_rounds(
    out: str | Path, *, examples: int, seed: int = 0, name: str | None = None, force: bool = False,
    model: RoundsModel | None = None,
) -> Log:  # fmt: skip
    """Writes the log to `out`, marked as simulated. Its manifest has the model's parameters.

    An example is the same whatever the number of examples. The pool explored by relevance.
    """
    model = model or RoundsModel()
    source = {"simulation": "rounds", "examples": examples, "seed": seed, "model": asdict(model)}
    title = name or f"rounds-{examples}x{model.hops}x{model.rounds}-s{seed}"
    pools = {POOL: {"explore": "relevance"}}
    with progress("simulating", examples, "examples") as advance:
        parts = _parts(examples, seed, model)
        return write_simulated(out, parts, name=title, source=source, force=force, advance=advance, pools=pools)


def _parts(examples: int, seed: int, model: RoundsModel) -> Iterator[dict[str, pl.DataFrame]]:
    for first in range(0, examples, AT_ONCE):
        texts: list[dict[str, Any]] = []
        rows: list[dict[str, Any]] = []
        for number in range(first, min(first + AT_ONCE, examples)):
            gold = list[str]()
            for hop in range(model.hops):
                of_hop, documents = _hop(f"q{number:06}", hop, np.random.default_rng([seed, number, hop]), model)
                gold += documents
                rows += of_hop
            texts.append({
                "example_id": f"q{number:06}", "dataset": "simulated", "split": "dev" if number % 5 == 0 else "test",
                "question": f"question {number}", "gold_documents": gold,
            })  # fmt: skip
        yield {"examples": pl.DataFrame(texts), "rounds": pl.DataFrame(rows, schema_overrides=TYPES)}


TYPES: dict[str, Any] = {
    "hop": pl.Int32, "round": pl.Int32, "retrieval_rank": pl.List(pl.Int32), "clusters": pl.List(pl.Int32),
    "contradictions": pl.Int32, "calls": pl.Int32, "prompt_tokens": pl.Int32, "completion_tokens": pl.Int32,
    "latency_s": pl.Float32,
}  # fmt: skip


def _hop(
    example: str, hop: int, rng: np.random.Generator, model: RoundsModel
) -> tuple[list[dict[str, Any]], list[str]]:
    """Draws the rounds of one hop, and its gold documents."""
    size = (model.rounds, model.documents)
    golds = min(model.golds, model.rounds * model.documents)
    gold = np.zeros(size, bool)
    gold.flat[rng.choice(gold.size, golds, replace=False)] = True
    relevance = rng.normal(size=size) + model.quality * gold
    first_stage = np.argsort(np.argsort(-(rng.normal(size=size) + 0.5 * model.quality * gold), axis=None)).reshape(size)
    holds = np.asarray(gold.any(axis=1))
    leads = rng.random((model.rounds, model.answers)) < model.names_leader(holds)[:, None]
    others = rng.integers(1, OTHERS + 1, (model.rounds, model.answers))
    answers = np.where(leads, 0, others)
    clusters: dict[int, int] = {}
    rows, names = [], np.array([[f"{example}-{hop}-{r}-{d}" for d in range(size[1])] for r in range(size[0])])
    for number in range(model.rounds):
        order = np.argsort(-relevance[number], kind="stable")
        of_round = answers[number].tolist()
        for one in of_round:
            clusters.setdefault(one, len(clusters))
        rows.append({
            "example_id": example, "pool": POOL, "hop": hop, "round": number,
            "sub_question": f"hop {hop} of {example}", "documents": names[number, order].tolist(),
            "relevance": relevance[number, order].tolist(), "retrieval_rank": first_stage[number, order].tolist(),
            "answers": [f"answer {one}" for one in of_round], "clusters": [clusters[one] for one in of_round],
            "contradictions": None, "calls": model.answers, "prompt_tokens": 120 * model.documents,
            "completion_tokens": 12 * model.answers, "latency_s": float(np.round(rng.gamma(4.0, 0.25), 3)),
        })  # fmt: skip
    return rows, names[gold].tolist()
