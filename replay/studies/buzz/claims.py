"""What became of the claims of a pool: which name the error, their verdicts, what was missed and why.

Everything is computed from the log's rows, not annotated: a claim names the error where `matches_error` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from replay.studies.buzz.acts import Acts, Texts
from toolkit.log import Log, collect
from toolkit.stats import Interval, Settings, auc_intervals, interval, unit_numbers
from toolkit.stats.curves.calibration import ClusteredCalibration, clustered_calibration

MISSED, RETRIEVAL, UNSUPPORTED = "missed claim", "failed retrieval", "unsupported confidence"
SPURIOUS, OTHER = "spurious refutation", "other"
KINDS = (MISSED, RETRIEVAL, UNSUPPORTED, SPURIOUS, OTHER)
"""Kinds of error, in the paper's order (table 6)."""
PARTS = ("extraction", "search", "verdict")
"""Parts of the errors that a method does not find; they add up to these on every text."""
TIMING = "timing"
DECIDED = ("supported", "refuted")
EVERY_ROW = pl.lit(value=True)
_COLUMNS = ("example_id", "pool", "claim", "round", "stage", "position", "verdict", "confidence", "matches_error",
            "gold_verdict", "claim_text")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Claims:
    """The claims of a pool, one row each: `stage`, the last `position`, `verdict` and `confidence` (of the round that
    decides, else of the last), `rounds` up to it, whether it `matches_error`, and its `gold_verdict`.
    """

    frame: pl.DataFrame
    texts: Texts

    def _any(self, condition: pl.Expr) -> np.ndarray:
        """Whether the condition holds on a claim of each text (E,)."""
        ids = self.frame.filter(condition.fill_null(False))["example_id"].unique()
        return self.texts.frame["example_id"].is_in(ids.implode()).to_numpy()

    @cached_property
    def compared(self) -> bool:
        """Whether any claim is compared with the error of its text."""
        return bool(self.frame["matches_error"].is_not_null().any())

    @cached_property
    def looked(self) -> np.ndarray:
        """The texts with an error (E,) bool of which it is logged whether claims name it; of no claim, too, where those
        of other texts are compared with it.
        """
        named = self._any(pl.col("matches_error").is_not_null())
        return (self.texts.error == 1) & (named | ~self._any(EVERY_ROW)) & self.compared

    def names_error(self, stream: bool) -> np.ndarray:
        """Returns whether a claim names the error, of texts with one (E,); `stream`: of those before the revisions."""
        of_stage = pl.col("stage") == "stream" if stream else EVERY_ROW
        return np.where(self.looked, self._any(pl.col("matches_error") & of_stage), np.nan)

    def matched(self, verdict: str) -> np.ndarray:
        """Returns whether a claim that names the error ended with a verdict (E,)."""
        return self._any(pl.col("matches_error") & (pl.col("verdict") == verdict))

    def errors_by_kind(self, acts: Acts) -> dict[str, np.ndarray]:
        """Returns the texts (E,) that a method got wrong, 0 or 1, by kind of error; NaN where it is not known whether
        the text holds one, or the method was not replayed. Each error is of one kind.
        """
        error, acted = self.texts.error == 1, acts.acted == 1
        open_ = error & (acts.finds == 0) & ~acted
        masks = {SPURIOUS: acted & ((self.texts.error == 0) | (error & (acts.finds == 0)))}
        masks[MISSED] = open_ & self.looked & (self.names_error(stream=False) == 0)
        rest = open_ & ~masks[MISSED]
        masks[UNSUPPORTED] = rest & self.matched("supported")
        rest &= ~masks[UNSUPPORTED]
        masks[RETRIEVAL] = rest & self.matched("not_enough") & ~self.matched("refuted")
        masks[OTHER] = rest & ~masks[RETRIEVAL]
        known = ~np.isnan(self.texts.error) & acts.replayed
        return {kind: np.where(known, masks[kind], np.nan) for kind in KINDS}

    def headroom_parts(self, acts: Acts, best: Acts) -> dict[str, np.ndarray]:
        """Splits the errors that a method with these claims does not find (E,), of texts with one: no claim names it,
        no evidence decided, or a verdict was wrong. Where both find it, `timing` is how much further its Δ is from 0,
        in absolute value.
        """
        with_error = self.texts.error == 1
        lost = with_error & (acts.finds == 0)
        extraction = lost & ((best.finds != 1) | (self.names_error(stream=False) == 0))
        kinds = self.errors_by_kind(acts)
        search = lost & ~extraction & (kinds[RETRIEVAL] == 1)
        masks = dict(zip(PARTS, (extraction, search, lost & ~extraction & ~search), strict=True))
        parts = {name: np.where(with_error & acts.replayed, mask, np.nan) for name, mask in masks.items()}
        return parts | {TIMING: np.abs(acts.deviation) - np.abs(best.deviation)}

    def density(self) -> np.ndarray:
        """Returns the claims of the stream to a hundred words (E,), NaN where a length is not logged."""
        counts = self.frame.filter(pl.col("stage") == "stream").group_by("example_id").len("claims")
        joined = self.texts.frame.select("example_id").join(counts, on="example_id", how="left", maintain_order="left")
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(
                self.texts.length > 0, 100 * joined["claims"].fill_null(0).to_numpy() / self.texts.length, np.nan
            )

    @property
    def count_by_text(self) -> np.ndarray:
        """How many claims each text with an error has (E,), NaN where it is not logged whether they name it."""
        counts = self.frame.group_by("example_id").len("claims")
        joined = self.texts.frame.select("example_id").join(counts, on="example_id", how="left", maintain_order="left")
        return np.where(self.looked, joined["claims"].fill_null(0).to_numpy(), np.nan)


def read_claims(log: Log, pool: str, texts: Texts, rows_of: pl.Expr = EVERY_ROW) -> Claims:
    """Reads the claims of a pool of checks on some texts, of the rows `rows_of` that name a claim."""
    ids = texts.frame["example_id"]
    known = [name for name in _COLUMNS if name in log.columns("checks")]
    rows = log.scan("checks", known).filter((pl.col("pool") == pool) & pl.col("example_id").is_in(ids.implode()))
    rows = rows.filter(rows_of)
    frame = collect(rows.filter(pl.col("verdict") != "none"), log).sort("example_id", "claim", "round")
    keys = ["example_id", "claim"]
    decided = pl.col("verdict").is_in(DECIDED)
    place = pl.when(decided).then(pl.col("round")).min().over(keys)
    frame = frame.filter(pl.col("round") <= pl.coalesce(place, pl.col("round").max().over(keys)))
    last = frame.group_by(keys, maintain_order=True).agg(pl.all().last(), rounds=pl.len())
    lacking = {
        "claim_text": pl.String,
        "confidence": pl.Float64,
        "matches_error": pl.Boolean,
        "gold_verdict": pl.String,
    }
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in lacking.items() if name not in last.columns]
    return Claims(last.with_columns(missing), texts)


ALL_VERDICTS, REFUTATIONS = "all verdicts", "refutations"


def judged_verdicts(claims: Claims) -> pl.DataFrame:
    """Returns the decided claims with a confidence and whether their verdict is `right`: by their own label, else, of
    refutations, by whether they name the error; null where neither is logged.
    """
    verdict, gold = pl.col("verdict"), pl.col("gold_verdict")
    by_match = pl.when(verdict == "refuted").then(pl.col("matches_error"))
    right = pl.coalesce(verdict == gold, by_match)
    frame = claims.frame.filter(verdict.is_in(DECIDED) & pl.col("confidence").is_not_null())
    return frame.with_columns(right=right)


@dataclass(frozen=True)
class ConfidenceQuality:
    """How well confidences say whether verdicts are right: their `calibration`, how well they rank right ones above
    wrong ones (`auc`), how often verdicts are right (`rate`) and how sure they are (`score`), and how many are decided
    with a confidence, judged or not.
    """

    calibration: ClusteredCalibration
    auc: Interval
    rate: Interval
    score: Interval
    decided: int


def confidence_qualities(claims: Claims, settings: Settings) -> Iterator[tuple[str, ConfidenceQuality]]:
    """Yields how well confidences say whether verdicts are right, of all verdicts and of refutations alone; of these
    only, where some decided claim is not judged or no other is decided: those that are judged would be selected. Claims
    of a text are drawn together.
    """
    decided = judged_verdicts(claims)
    refutations = decided.filter(pl.col("verdict") == "refuted")
    is_whole = not decided["right"].has_nulls() and len(refutations) < len(decided)
    for name, every in ((ALL_VERDICTS, decided if is_whole else decided.clear()), (REFUTATIONS, refutations)):
        rows = every.drop_nulls("right")
        units = claims.texts.frame.select("example_id", resampled=pl.Series(claims.texts.unit))
        joined = rows.join(units, on="example_id", maintain_order="left")
        if len(joined):
            score, right = joined["confidence"].to_numpy(), joined["right"].cast(pl.Float64).to_numpy()
            unit = unit_numbers(joined["resampled"].to_numpy())
            calibration = clustered_calibration(score, right, unit, settings=settings)
            auc = auc_intervals(score, right, unit, settings=settings).auc
            rate, sure = (interval(column, cluster=unit, settings=settings) for column in (right, score))
            yield name, ConfidenceQuality(calibration, auc, rate, sure, len(every))


def same_claims(one: Claims, other: Claims) -> pl.DataFrame:
    """Returns the claims that both pools made of a text in the same words, and whether their verdicts agree."""
    sides = [
        claims.frame.drop_nulls("claim_text").unique(["example_id", "claim_text"], keep="first", maintain_order=True)
        for claims in (one, other)
    ]
    joined = sides[0].join(sides[1], on=["example_id", "claim_text"], suffix="_other")
    return joined.select("example_id", agree=pl.col("verdict") == pl.col("verdict_other"))


def mean_by_text(rows: pl.DataFrame, column: str, texts: Texts) -> np.ndarray:
    """Returns the mean of a column over the rows of each text (E,), NaN where there is none."""
    means = rows.group_by("example_id").agg(pl.col(column).cast(pl.Float64).mean().alias("mean"))
    joined = texts.frame.select("example_id").join(means, on="example_id", how="left", maintain_order="left")
    return joined["mean"].fill_null(np.nan).to_numpy()


def label_counts(texts: Texts) -> Mapping[str, int]:
    """Returns how many texts hold no error, hold one, or do not say (table 8)."""
    error = texts.error
    return {
        "supported": int((error == 0).sum()), "refuted": int((error == 1).sum()), "unknown": int(np.isnan(error).sum()),
    }  # fmt: skip
