"""Simulated logs of text that unfolds word by word, whose errors, claims and verdicts are known.

The model of texts. A text has `length` words, about; a share `errors` of them hold one error, which can be seen from a
known word on, any with equal chance. A share `dense` of the texts make two claims in a sentence, the others one; each
text needs 1 to `hops` passages to judge a claim. Of five people each acts some words after the error can be seen
(geometric, 1 / `late` on average), in a text without one at its end, and is right with the probability 0.7 or 0.9.

The model of a system. Sentences have `every` words; the extractor reads each once its words are there, until it names
no further claim. Where a claim of the text covers the word that shows the error, it names the error with the
probability `extraction`. A round of a check finds one more passage with the probability `decides`, and decides when all
are there, up to `rounds` rounds: rightly with the probability q, which is `checking` for the claim with the error and
1 − `spurious` for the others, whose wrong verdicts are spurious refutations. The confidence c of a verdict is of a beta
distribution with the mean q, and a verdict of confidence c is right with the probability q + `calibration` · (c − q):
with 1 confidence is calibrated, with 0 it tells nothing. Each claim is followed to a verdict or the limit, the stream
to its end, and a pass of revision follows on every text, in which half as many errors are named. `sees` is what
extractor and revisor were shown: of `claims`, the revisor names an error that no claim has named; of `verdicts`, one
that was not refuted. `pools` have their own parameters on the same texts.

Where `direct` is above 0, a model is asked about the text itself, without checks: once about the whole text, a trace of
`POOL-direct`, and after each sentence, those of `POOL-prefixes`. It is right with the probability `direct`, on dense
texts with `dense_loss` less: the prefixes refute from the sentence on that shows the error, or from any where it is
wrong on a text without one. The verifier `refuted` says how sure it is that something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from generate.simulation.grid import write_simulated
from toolkit.progress import progress
from toolkit.settings import check, setting

if TYPE_CHECKING:
    from toolkit.log import Log

POOL = "simulated"
AT_ONCE, MOST_ROUNDS = 500, 2**20
"""Texts drawn together, and their rounds: what a text is depends on no other number of texts."""
PEOPLE = 5
"""People whose buzzes are recorded of each text."""
SEASONS = "2024", "2025"
"""Seasons of the game, in turn, in which people answered."""
PEOPLE_RIGHT = 0.7, 0.9
"""How often a person is right on a text with an error, and on one without."""
SPREAD = 4.0
"""The sum of the two parameters of a confidence's beta distribution."""
VERDICTS = ("not_enough", "supported", "refuted", "none")
NOT_ENOUGH, SUPPORTED, REFUTED, NO_CLAIM = range(4)


@dataclass(frozen=True)
class TextModel:
    """The parameters of the simulated texts; the module's docstring explains each."""

    length: int = setting(60, low=4, high=100_000)
    errors: float = setting(0.5, low=0, high=1)
    dense: float = setting(0.5, low=0, high=1)
    hops: int = setting(2, low=1, high=100)
    late: float = setting(0.2, above=0, high=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class CheckingModel:
    """The parameters of a simulated system that checks texts."""

    every: int = setting(16, low=2, high=10_000)
    extraction: float = setting(0.8, low=0, high=1)
    checking: float = setting(0.85, low=0, high=1)
    spurious: float = setting(0.05, low=0, high=1)
    decides: float = setting(0.7, low=0, high=1)
    rounds: int = setting(4, low=1, high=100)
    calibration: float = setting(1.0, low=0, high=1)
    sees: str = setting("claims", choices=("claims", "verdicts"))
    direct: float = setting(0.0, low=0, high=1)
    dense_loss: float = setting(0.0, low=0, high=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class DrawnTexts:
    """n texts (n,) each: words, whether one holds an error, the word that first shows it, 0 for none, claims of a
    sentence, passages that a claim needs; `positions` and `corrects` (n, P) of people.
    """

    length: np.ndarray
    error: np.ndarray
    first: np.ndarray
    density: np.ndarray
    hops: np.ndarray
    positions: np.ndarray
    corrects: np.ndarray


def simulate_checks(
    out: str | Path, *, examples: int, seed: int = 0, name: str | None = None, force: bool = False,
    texts: TextModel | None = None, pools: Mapping[str, CheckingModel] | None = None,
) -> Log:  # fmt: skip
    """Writes the log to `out`, marked as simulated. Its manifest has the parameters of texts and pools.

    A text is the same whatever the number of texts, and so are its checks.
    """
    texts, pools = texts or TextModel(), pools or {POOL: CheckingModel()}
    models = {pool: asdict(model) for pool, model in pools.items()}
    source = {"simulation": "checks", "examples": examples, "seed": seed, "texts": asdict(texts), "pools": models}
    title = name or f"checks-{examples}x{texts.length}-s{seed}"
    settings = {pool: {"sees": model.sees} for pool, model in pools.items()}
    with progress("simulating", examples, "examples") as advance:
        blocks = _table_blocks(examples, seed, texts, pools)
        return write_simulated(out, blocks, name=title, source=source, force=force, advance=advance, pools=settings)


def _table_blocks(
    examples: int, seed: int, texts: TextModel, pools: Mapping[str, CheckingModel]
) -> Iterator[dict[str, pl.DataFrame]]:
    most = max(-(-2 * texts.length // model.every) * 3 * model.rounds for model in pools.values())
    block = max(1, min(AT_ONCE, MOST_ROUNDS // most))
    for number, first in enumerate(range(0, examples, block)):
        drawn = _draw_texts(np.random.default_rng([seed, number]), block, texts)
        ids = pl.Series("example_id", [f"t{one:06}" for one in range(first, min(first + block, examples))])
        checks = [
            _checks_table(ids, pool, drawn, np.random.default_rng([seed, number, place]), model)
            for place, (pool, model) in enumerate(pools.items(), 1)
        ]
        verdicts = [
            _verdict_traces(ids, pool, drawn, np.random.default_rng([seed, number, place, 1]), model)
            for place, (pool, model) in enumerate(pools.items(), 1)
            if model.direct > 0
        ]
        yield {"examples": _examples_table(ids, first, drawn), "checks": pl.concat(checks), **_verdict_tables(verdicts)}


def _draw_texts(rng: np.random.Generator, texts: int, model: TextModel) -> DrawnTexts:
    length = np.clip(rng.normal(model.length, model.length / 6, texts), 4, 2 * model.length).astype(np.int64)
    error = rng.random(texts) < model.errors
    first = np.where(error, 1 + np.floor(rng.random(texts) * length).astype(np.int64), 0)
    density = np.where(rng.random(texts) < model.dense, 2, 1)
    hops = rng.integers(1, model.hops + 1, texts)
    acts = np.where(error, first, length)[:, None] + rng.geometric(model.late, (texts, PEOPLE))
    right = rng.random((texts, PEOPLE)) < np.where(error, *PEOPLE_RIGHT)[:, None]
    return DrawnTexts(length, error, first, density, hops, np.minimum(acts, length[:, None]), right)


def _examples_table(ids: pl.Series, first: int, drawn: DrawnTexts) -> pl.DataFrame:
    """The table `examples`; the words of a text are w1, w2, …"""
    words, count = [f"w{one}" for one in range(1, int(drawn.length.max()) + 1)], len(ids)
    return pl.DataFrame({
        "example_id": ids, "dataset": "simulated",
        "split": ["dev" if one % 5 == 0 else "test" for one in range(first, first + count)],
        "question": [" ".join(words[:length]) for length in drawn.length[:count]],
        "length": drawn.length[:count].astype(np.int32), "gold_error": drawn.error[:count],
        "gold_position": drawn.first[:count].astype(np.int32),
        "human_positions": drawn.positions[:count].astype(np.int32).tolist(),
        "human_corrects": drawn.corrects[:count].tolist(),
        "density": np.where(drawn.density > 1, "dense", "sparse")[:count],
        "hops": drawn.hops[:count].astype(np.int32),
        "season": [SEASONS[one % 2] for one in range(first, first + count)],
    }, schema_overrides={"human_positions": pl.List(pl.Int32)}).with_columns(
        gold_position=pl.when("gold_error").then("gold_position")
    )  # fmt: skip


@dataclass(frozen=True)
class _PlacedClaims:
    """Claims and `none` rows of n texts (n, S), in order: `there`, whether it `names` a claim, its `unit`, the word
    after which it is extracted, the words of its unit, and its last word; the last two are of the revision.
    """

    there: np.ndarray
    names: np.ndarray
    unit: np.ndarray
    position: np.ndarray
    words: np.ndarray
    ends: np.ndarray


def _words_up_to(spans: pl.DataFrame) -> pl.Series:
    """The `count` words up to word `last` of a text."""
    once = spans.unique()
    texts = [" ".join(f"w{one}" for one in range(last - count + 1, last + 1)) for last, count in once.rows()]
    return spans.join(once.with_columns(text=pl.Series(texts)), on=spans.columns, how="left", maintain_order="left")[
        "text"
    ]


def _claims_table(drawn: DrawnTexts, every: int) -> _PlacedClaims:
    """The claims of each unit, one or two, and a row that says that there are no more; then the revision's."""
    length = drawn.length[:, None]
    units = -(-length // every)
    unit = np.repeat(np.arange(int(units.max())), 3)
    slot = np.tile([1, 2, 3], len(unit) // 3)
    start, end = unit * every, np.minimum((unit + 1) * every, length)
    two = (drawn.density == 2)[:, None] & (end - start > 1)
    names = (slot == 1) | ((slot == 2) & two)
    position = np.where((slot == 1) & two, start + (end - start) // 2, end)
    there = (unit < units) & (names | (slot == 3))
    last = np.broadcast_to([True, False], (len(length), 2))
    return _PlacedClaims(
        np.hstack([there, np.ones_like(last)]),
        np.hstack([np.broadcast_to(names, there.shape), last]),
        np.hstack([np.broadcast_to(unit, there.shape), np.broadcast_to(units, last.shape)]),
        np.hstack([position, np.broadcast_to(length, last.shape)]),
        np.hstack([end - start, np.broadcast_to(length, last.shape)]),
        np.hstack([end, np.broadcast_to(length, last.shape)]),
    )


def _checks_table(
    ids: pl.Series, pool: str, drawn: DrawnTexts, rng: np.random.Generator, model: CheckingModel
) -> pl.DataFrame:
    claims = _claims_table(drawn, model.every)
    texts, slots = claims.there.shape
    size = (texts, slots, model.rounds)
    stream = np.arange(slots) < slots - 2
    covers = claims.there & claims.names & stream & (claims.position >= drawn.first[:, None])
    shows = drawn.error[:, None] & covers & (np.cumsum(covers, axis=1) == 1)
    wrong = shows & (rng.random((texts, 1)) < model.extraction)
    passages = np.cumsum(rng.random(size) < model.decides, axis=2) >= drawn.hops[:, None, None]
    decided = np.where(passages.any(axis=2), passages.argmax(axis=2), model.rounds)  # the round with the verdict
    again = drawn.error & (rng.random(texts) < model.extraction / 2)
    luck, other = rng.random((texts, slots)), rng.beta(4, 3, size)
    confidences = {one: _draw_confidences(rng, q, (texts, slots)) for one, q in _right_share_by_error(model).items()}
    confidence, right = _draw_verdicts(model, confidences, luck, wrong)
    refuted = (wrong & right & (decided < model.rounds)).any(axis=1)
    again &= ~(refuted if model.sees == "verdicts" else wrong.any(axis=1))
    wrong[:, -2] = again
    confidence, right = _draw_verdicts(model, confidences, luck, wrong)
    verdict = np.where(wrong == right, REFUTED, SUPPORTED)

    count, number = len(ids), np.arange(model.rounds)
    mask = claims.there[..., None] & np.where(claims.names[..., None], number <= decided[..., None], number == 0)
    mask[count:] = False
    seconds = np.round(rng.gamma(4.0, 0.2, size), 3)
    text, claim, round_ = np.nonzero(mask)
    at, ends = (text, claim), decided[text, claim] == round_
    named = claims.names[at]
    order = np.cumsum(claims.there, axis=1) - 1
    final = np.where(ends, verdict[at], NOT_ENOUGH)
    labels = pl.Series(VERDICTS)
    frame = pl.DataFrame({
        "example_id": ids.gather(text), "claim": order[at].astype(np.int32), "round": round_.astype(np.int32),
        "stage": np.where(stream[claim], "stream", "revision"),
        "position": np.minimum(claims.position[at] + round_, drawn.length[text]).astype(np.int32),
        "verdict": labels.gather(np.where(named, final, NO_CLAIM)),
        "confidence": np.where(ends, confidence[at], other[mask]), "matches_error": wrong[at],
        "gold_verdict": labels.gather(np.where(wrong[at], REFUTED, SUPPORTED)), "named": named,
        "unit": claims.unit[at].astype(np.int32), "unit_words": claims.words[at].astype(np.int32),
        "unit_entities": drawn.density[text].astype(np.int32), "queries": named.astype(np.int32),
        "calls": (1 + named).astype(np.int32), "latency_s": seconds[mask].astype(np.float32),
    })  # fmt: skip
    claims_alone = ("confidence", "matches_error", "gold_verdict", "claim_text")
    words = pl.DataFrame({"last": claims.ends[at], "count": claims.words[at]})
    frame = frame.with_columns(claim_text=_words_up_to(words))
    return frame.with_columns(
        *(pl.when("named").then(name).alias(name) for name in claims_alone),
        evidence=pl.when("named").then(pl.format("passage {} on: {}", "round", "claim_text")),
        pool=pl.lit(pool),
        prompt_tokens=pl.lit(200, pl.Int32),
        completion_tokens=pl.lit(20, pl.Int32),
    ).drop("named")


def _right_share_by_error(model: CheckingModel) -> dict[bool, float]:
    """How often a verdict is right, of claims with the error and of others."""
    return {True: model.checking, False: 1 - model.spurious}


def _draw_confidences(rng: np.random.Generator, mean: float, size: tuple[int, ...]) -> np.ndarray:
    """Draws confidences with a mean; all equal it where it is 0 or 1."""
    if mean in (0.0, 1.0):
        return np.full(size, mean)
    return rng.beta(SPREAD * mean, SPREAD * (1 - mean), size)


def _draw_verdicts(
    model: CheckingModel, confidences: Mapping[bool, np.ndarray], luck: np.ndarray, wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Confidence of the verdict of each claim (n, S), and whether it is right."""
    confidence = np.where(wrong, confidences[True], confidences[False])
    mean = np.where(wrong, *_right_share_by_error(model).values())
    return confidence, luck < mean + model.calibration * (confidence - mean)


def _verdict_traces(
    ids: pl.Series, pool: str, drawn: DrawnTexts, rng: np.random.Generator, model: CheckingModel
) -> pl.DataFrame:
    """What a model says of each text as a whole, and of its growing beginning after each sentence."""
    texts = len(drawn.length)
    share = np.where(drawn.density == 2, max(model.direct - model.dense_loss, 0.0), model.direct)
    right = rng.random((2, texts)) < share
    units = -(-drawn.length // model.every)
    first_unit = np.where(drawn.error, -(-drawn.first // model.every), 1 + np.floor(rng.random(texts) * units)).astype(
        int
    )
    last = np.arange(1, int(units.max()) + 1)
    text, number = np.nonzero((last <= units[:, None])[: len(ids)])
    refutes = right[1] == drawn.error
    frames = []
    for form, row, position, refuted in (
        ("direct", np.arange(len(ids)), None, (right[0] == drawn.error)[: len(ids)]),
        ("prefixes", text, np.minimum((number + 1) * model.every, drawn.length[text]),
         refutes[text] & (number + 1 >= first_unit[text])),
    ):  # fmt: skip
        frames.append(
            pl.DataFrame({
                "example_id": ids.gather(row),
                "sample_index": (row * 0 if position is None else number).astype(np.int32),
                "position": None if position is None else position.astype(np.int32),
                "refuted": refuted, "correct": refuted == drawn.error[row],
                "prompt_tokens": (2 * (drawn.length[row] if position is None else position)).astype(np.int32),
            }, schema_overrides={"position": pl.Int32}).with_columns(pool=pl.lit(f"{pool}-{form}"))
        )  # fmt: skip
    return pl.concat(frames).with_columns(
        trace_id=pl.format("{}/{}/{}", "example_id", "pool", "sample_index"),
        action=pl.lit("solve"), model=pl.lit("simulated"), completion_tokens=pl.lit(5, pl.Int32),
        answer=pl.when("refuted").then(pl.lit("refuted")).otherwise(pl.lit("supported")),
        latency_s=pl.lit(0.5, pl.Float32), finalizer_used=pl.lit(value=False),
    )  # fmt: skip


def _verdict_tables(verdicts: Sequence[pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables of what was asked about whole texts, none where nothing was."""
    if not verdicts:
        return {}
    traces = pl.concat(verdicts)
    score = pl.when("refuted").then(0.9).otherwise(0.1)
    return {
        "traces": traces.drop("refuted"),
        "verifications": traces.select("trace_id", "example_id", verifier=pl.lit("refuted"), score=score),
    }
