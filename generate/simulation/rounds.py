"""Simulated logs of retrieval rounds, in which it is known what agreement of answers tells of gold documents.

The model. A question has `hops`, and each of them `golds` gold documents, which lie in rounds drawn at random. A round
reads `documents`: their relevance is normal, `quality` higher for gold ones, and its batch is in order of relevance.
A hop has one leading answer. An answer of a round names it with the probability `agreement` + `tie` · `strength` where
the round holds gold, and `agreement` − `tie` · `strength` where it does not; else it is one of several others. So
agreement tells of gold with a tie of 1, tells the reverse with −1, and tells nothing with 0. Scores of answers are
normal about one half, and `known` higher for the leading answer.

With `explored` a second pool, `rewarded`, reads the same batches as if it had explored by rewarded scores. A gold
document stays unread, another in its place, with the probability `lost`, in that pool with `lost` − `gained`.

With `chains`, which `generate.simulation.chains` describes, there are traces on the same questions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from generate.simulation.chains import KINDS, ChainsModel, chain_tables, examples_with_gold
from generate.simulation.grid import write_simulated
from toolkit.progress import progress
from toolkit.settings import check, setting

if TYPE_CHECKING:
    from toolkit.log import Log

POOL, REWARDED = "simulated", "rewarded"
AT_ONCE, MOST_DOCUMENTS = 500, 2**20
"""Examples drawn together, and their documents: what an example is depends on no other number of examples."""
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
    known: float = setting(0.2, low=0)
    explored: bool = setting(False)
    lost: float = setting(0.0, low=0, high=1)
    gained: float = setting(0.0, low=-1, high=1)

    def __post_init__(self) -> None:
        check(self)

    def leader_probabilities(self, gold: np.ndarray) -> np.ndarray:
        """The probabilities that an answer names its round's leader, by whether the round holds gold documents."""
        return np.clip(self.agreement + self.tie * self.strength * np.where(gold, 1.0, -1.0), 0.0, 1.0)


@dataclass(frozen=True)
class DrawnRounds:
    """Rounds of n questions: `gold` and `relevance` of documents (n, H, R, D), their first-stage `rank` in the hop, in
    the order in which they were drawn; `answers` and their `scores` (n, H, R, A), 0 the leading one.
    """

    gold: np.ndarray
    relevance: np.ndarray
    rank: np.ndarray
    answers: np.ndarray
    scores: np.ndarray
    seconds: np.ndarray

    def of_first_questions(self, examples: int) -> DrawnRounds:
        """The rounds of the first questions."""
        return DrawnRounds(*(getattr(self, name)[:examples] for name in self.__dataclass_fields__))

    @property
    def clusters(self) -> np.ndarray:
        """The number of each answer (n, H, R, A) in its hop, by first appearance."""
        flat = self.answers.reshape(*self.answers.shape[:2], -1)
        first = np.stack(
            [np.where(flat == code, np.arange(flat.shape[2]), flat.shape[2]).min(2) for code in _CODES], -1
        )
        number = np.argsort(np.argsort(first, axis=-1, kind="stable"), axis=-1)
        return np.take_along_axis(number, flat, axis=-1).reshape(self.answers.shape)


_CODES = range(OTHERS + 1)


def simulate_rounds(
    out: str | Path, *, examples: int, seed: int = 0, name: str | None = None, force: bool = False,
    model: RoundsModel | None = None, chains: ChainsModel | None = None,
) -> Log:  # fmt: skip
    """Writes the log to `out`, marked as simulated. Its manifest has the model's parameters.

    An example is the same whatever the number of examples. The pool explored by relevance.
    """
    model, chains = model or RoundsModel(), chains or ChainsModel()
    source = {"simulation": "rounds", "examples": examples, "seed": seed, "model": asdict(model)}
    source |= {"chains": asdict(chains)} if chains.chains else {}
    title = name or f"rounds-{examples}x{model.hops}x{model.rounds}-s{seed}"
    source |= {"verifiers": KINDS} if chains.further and chains.chains else {}
    pools: dict[str, Any] = {POOL: {"explore": "relevance"}}
    if model.explored:
        pools[REWARDED] = {"explore": {"frontier": 2, "multiplier": 2.0, "reward": "single"}}
    with progress("simulating", examples, "examples") as advance:
        blocks = _blocks(examples, seed, model, chains)
        return write_simulated(out, blocks, name=title, source=source, force=force, advance=advance, pools=pools)


def _blocks(examples: int, seed: int, model: RoundsModel, chains: ChainsModel) -> Iterator[dict[str, pl.DataFrame]]:
    block = max(1, min(AT_ONCE, MOST_DOCUMENTS // (model.hops * model.rounds * model.documents)))
    for number, first in enumerate(range(0, examples, block)):
        drawn = _draw_rounds(np.random.default_rng([seed, number]), block, model).of_first_questions(
            min(block, examples - first)
        )
        names = pl.Series("example_id", [f"q{one:06}" for one in range(first, first + len(drawn.gold))])
        documents = _document_names(names, drawn.gold.shape)
        gold = pl.Series("gold_documents", drawn.gold.reshape(len(names), -1).sum(1)).to_numpy()
        flat = drawn.gold.reshape(-1)
        texts = pl.DataFrame({
            "example_id": names, "dataset": "simulated",
            "split": ["dev" if one % 5 == 0 else "test" for one in range(first, first + len(names))],
            "question": [f"question {one}" for one in range(first, first + len(names))],
            "gold_documents": _values_in_lists(documents.filter(pl.Series(flat)), gold),
        })  # fmt: skip
        rng = np.random.default_rng([seed, number, 2])
        rounds = [_rounds_table(names, drawn, _replace_some_gold(rng, documents, flat, model.lost))]
        if model.explored:
            lost = _replace_some_gold(rng, documents, flat, model.lost - model.gained)
            rounds.append(_rounds_table(names, drawn, lost).with_columns(pool=pl.lit(REWARDED)))
        tables = {"examples": texts, "rounds": pl.concat(rounds)}
        if chains.chains:
            rng = np.random.default_rng([seed, number, 1])
            tables["examples"] = examples_with_gold(texts, chains.further)
            tables |= chain_tables(rng, chains, names, drawn.gold, drawn.relevance, drawn.answers, documents, block)
        yield tables


def _draw_rounds(rng: np.random.Generator, examples: int, model: RoundsModel) -> DrawnRounds:
    rounds = (examples, model.hops, model.rounds)
    hop = (examples, model.hops, model.rounds * model.documents)
    size, golds = (*rounds, model.documents), min(model.golds, hop[-1])
    gold = np.zeros(hop, bool)
    np.put_along_axis(gold, np.argpartition(rng.random(hop), golds - 1, axis=-1)[..., :golds], True, axis=-1)
    gold = gold.reshape(size)
    relevance = rng.normal(size=size) + model.quality * gold
    first_stage = (rng.normal(size=size) + 0.5 * model.quality * gold).reshape(hop)
    rank = np.argsort(np.argsort(-first_stage, axis=-1), axis=-1).reshape(size)
    leads = rng.random((*rounds, model.answers)) < model.leader_probabilities(np.asarray(gold.any(axis=-1)))[..., None]
    answers = np.where(leads, 0, rng.integers(1, OTHERS + 1, leads.shape))
    scores = np.clip(rng.normal(0.5, 0.2, leads.shape) + model.known * leads, 0, 1)
    return DrawnRounds(gold, relevance, rank, answers, scores, rng.gamma(4.0, 0.25, rounds))


def _replace_some_gold(rng: np.random.Generator, documents: pl.Series, gold: np.ndarray, lost: float) -> pl.Series:
    """The documents, in the place of some gold ones others that nobody looks for."""
    if lost <= 0:
        return documents
    is_lost = pl.Series(gold & (rng.random(len(gold)) < lost))
    return (
        documents.to_frame("name")
        .select(pl.when(is_lost).then(pl.col("name") + "-other").otherwise("name"))
        .to_series()
    )


def _document_names(examples: pl.Series, size: tuple[int, ...]) -> pl.Series:
    """The names of documents (n · H · R · D,): example, hop, round and number."""
    places = pl.Series([f"-{h}-{r}-{d}" for h in range(size[1]) for r in range(size[2]) for d in range(size[3])])
    number = np.arange(len(examples) * len(places))
    return examples.gather(number // len(places)).rename("") + places.gather(number % len(places))


def _values_in_lists(values: pl.Series | np.ndarray, size: np.ndarray | int) -> pl.Series:
    frame = pl.DataFrame({"value": values})
    if isinstance(size, int):
        return frame["value"].reshape((-1, size)).arr.to_list()
    grouped = frame.with_columns(row=pl.Series(np.repeat(np.arange(len(size)), size)))
    filled = grouped.group_by("row", maintain_order=True).agg("value")
    rows = pl.DataFrame({"row": np.arange(len(size))})
    return rows.join(filled, on="row", how="left", maintain_order="left")["value"].fill_null([])


def _rounds_table(examples: pl.Series, drawn: DrawnRounds, documents: pl.Series) -> pl.DataFrame:
    """The table `rounds`, documents of a round by descending relevance."""
    size, answers = drawn.gold.shape, drawn.answers.shape[-1]
    rows, batch = int(np.prod(size[:3])), size[3]
    order = np.argsort(-drawn.relevance.reshape(rows, batch), axis=1, kind="stable")
    order = (order + np.arange(rows)[:, None] * batch).ravel()
    number = np.arange(rows)
    example, hop, place = number // (size[1] * size[2]), number // size[2] % size[1], number % size[2]
    texts = pl.Series([f"answer {code}" for code in _CODES]).gather(drawn.answers.ravel())
    frame = pl.DataFrame({
        "example_id": examples.gather(example), "hop": hop.astype(np.int32), "round": place.astype(np.int32),
        "documents": _values_in_lists(documents.gather(order), batch),
        "relevance": _values_in_lists(drawn.relevance.ravel()[order], batch),
        "retrieval_rank": _values_in_lists(drawn.rank.ravel()[order].astype(np.int32), batch),
        "answers": _values_in_lists(texts, answers),
        "clusters": _values_in_lists(drawn.clusters.ravel().astype(np.int32), answers),
        "answer_scores": _values_in_lists(drawn.scores.ravel(), answers),
        "latency_s": np.round(drawn.seconds.ravel(), 3).astype(np.float32),
    })  # fmt: skip
    return frame.with_columns(
        pl.lit(POOL).alias("pool"),
        sub_question=pl.format("hop {} of {}", "hop", "example_id"),
        contradictions=pl.lit(None, pl.Int32),
        calls=pl.lit(answers, pl.Int32),
        prompt_tokens=pl.lit(120 * batch, pl.Int32),
        completion_tokens=pl.lit(12 * answers, pl.Int32),
    )
