"""Kind `buzz`: when to act on a text that is revealed word by word, from checks of its claims."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.contents import Contents
from replay.data.needs import Needs, needs_of_rows
from replay.engine import outcome as ends
from replay.engine.calls import PolicyPath, outcome_of_rows, path_paying_rows
from replay.engine.costs import AT, RowCalls
from replay.engine.outcome import Outcome, join_outcomes
from replay.kinds.checks import (
    NOT_ENOUGH,
    REFUTED,
    REVISION,
    STREAM,
    SUPPORTED,
    VERDICTS,
    Checks,
    ClaimWalk,
    follow_claims,
)
from replay.policies.base import Evaluator, ExplanationStage, Policy, policy_errors
from replay.policies.remarks import Counts, Remark, RemarkKind
from toolkit.columns import CLAIM_COUNTS, OutcomeColumn, find
from toolkit.errors import ConflictError, InvalidError, MismatchError, UnsuitableError, counted, listed, quote
from toolkit.log import Log
from toolkit.log.contract.schema import TEXT_LABELS
from toolkit.settings import Checked, from_table, setting

TABLE = "checks"
CLOSE = 1e-9
SHARES = {20: 0.2, 40: 0.4}
"""Shares of a text within which a buzz is near the word that first shows the error, by how columns name them."""
MEASURED = (
    "found", "false_alarm", "error_extracted", "position", "deviation", "premature",
    *(f"{kind}_{share}" for share in SHARES for kind in ("within", "by")),
    "claims_right", "claims_judged", *CLAIM_COUNTS, "serial_calls", "busy_s",
)  # fmt: skip
ADDED = (*MEASURED, "rounds", "queries", "claim_accuracy", "claim_macro_f1")
UNIT_COLUMNS = {"per_unit": (), "words_per": ("unit_words",), "per_entity": ("unit_entities",)}


@cache
def _buzz_columns() -> tuple[OutcomeColumn, ...]:
    return tuple(find(name) for name in ADDED)


@dataclass(frozen=True, kw_only=True)
class ClaimCap(Checked):
    """Claims of each unit: a number, one for so many words, or so many for each named entity. One of them is given."""

    per_unit: int | None = setting(None, low=0)
    words_per: int | None = setting(None, low=1)
    per_entity: int | None = setting(None, low=0)

    @property
    def unit_key(self) -> str:
        return next(key for key in UNIT_COLUMNS if getattr(self, key) is not None)

    def cap_of_each_claim(self, checks: Checks) -> np.ndarray:
        """The cap (G,) in the unit of each claim."""
        if self.words_per is not None:
            return np.ceil(checks.claim_column("unit_words") / self.words_per)
        if self.per_entity is not None:
            return checks.claim_column("unit_entities") * self.per_entity
        return np.full(len(checks.claims.row), float(self.per_unit or 0))


@dataclass(frozen=True, kw_only=True)
class RevisionCap(Checked):
    """Claims of the revisions, from the C that were followed in the stream: max(slack − C, 0), or
    max(⌈length / words_per⌉ − discount · C, 0), rounded down.
    """

    slack: int | None = setting(None, low=0)
    words_per: int | None = setting(None, low=1)
    discount: float = setting(0.0, low=0)

    def cap_of_each_text(self, followed: np.ndarray, length: np.ndarray) -> np.ndarray:
        """The cap (E,), NaN where a text's length is not logged."""
        if self.slack is not None:
            return np.maximum(self.slack - followed, 0).astype(float)
        claims = np.ceil(length / (self.words_per or 1)) - self.discount * followed
        return np.maximum(np.floor(claims + CLOSE), 0.0)


def _parse_claim_cap(given: object, place: str) -> int | ClaimCap | None:
    cap = _parse_cap(
        given, place or "max_claims", ClaimCap, "{ per_unit = 3 }, { words_per = 4 } or { per_entity = 3 }"
    )
    if isinstance(cap, ClaimCap) and sum(getattr(cap, key) is not None for key in UNIT_COLUMNS) != 1:
        raise InvalidError("`max_claims` takes one of `per_unit`, `words_per` and `per_entity`")
    return cap


def _parse_revision_cap(given: object, place: str) -> int | RevisionCap | None:
    cap = _parse_cap(given, place or "revisions", RevisionCap, "{ slack = 15 } or { words_per = 4, discount = 1 }")
    if isinstance(cap, RevisionCap) and (cap.slack is None) == (cap.words_per is None):
        raise InvalidError("`revisions` takes one of `slack` and `words_per`")
    return cap


def _parse_cap(given: Any, place: str, kind: type, form: str) -> Any:
    if given is None or isinstance(given, kind):
        return given
    if isinstance(given, Mapping):
        return from_table(kind, given, place)
    if isinstance(given, int | np.integer) and not isinstance(given, bool) and given >= 0:
        return int(given)
    raise InvalidError(f"`{place}` is {quote(given)}; it takes a number of claims, or {form}")


@dataclass(frozen=True, kw_only=True)
class Buzz(Policy, kind="buzz", table=TABLE):
    """Acts on a text at the refutation of its `patience`-th claim, and says `refuted`; else `supported`.

    A claim is followed up to a verdict or `max_rounds`; a refutation counts from `confidence` on. `max_claims` is of
    the stream, of the text or of each unit; `revisions` of the passes over the whole text, reached where nothing was
    acted on. With `words_per_second` the stream does not wait, and a quick claim overtakes a slow one. `to_end`: the
    whole stream is paid.
    """

    pool: str | None = setting(None, what="a name")
    max_claims: int | ClaimCap | None = setting(None, read=_parse_claim_cap)
    max_rounds: int | None = setting(None, low=1)
    confidence: float = setting(0.0, low=0, high=1)
    revisions: int | RevisionCap | None = setting(None, read=_parse_revision_cap)
    patience: int = setting(1, low=1)
    words_per_second: float | None = setting(None, above=0)
    to_end: bool = False
    on_missing: str = setting("partial", choices=("partial", "use_available"))
    sees_verdicts: bool = setting(True, key=False)  # whether extractor and revisor may have been shown verdicts
    logged_claims: int | None = setting(None, key=False)  # of a text, from which on its run extracted no more

    def __post_init__(self) -> None:
        super().__post_init__()
        with policy_errors(self.name):
            object.__setattr__(self, "max_claims", _parse_claim_cap(self.max_claims, ""))
            object.__setattr__(self, "revisions", _parse_revision_cap(self.revisions, ""))

    @property
    def columns(self) -> tuple[OutcomeColumn, ...]:
        return _buzz_columns()

    @property
    def answers_from_samples(self) -> bool:
        return False

    @property
    def top_level_text(self) -> str:
        return f"kind `{self.kind}`, whose answer is of a whole text: give it a `[[policy]]` of its own"

    # ---- a log ----

    def resolve(self, contents: Contents) -> Self:
        with policy_errors(self.name):
            pool = contents.pool_of_table(TABLE, self.pool)
            if isinstance(self.max_claims, ClaimCap):
                for column in ("unit", *UNIT_COLUMNS[self.max_claims.unit_key]):
                    if contents.nulls(TABLE, pool, column, "stage = 'stream'"):
                        raise UnsuitableError(
                            f"pool `{pool}` of `{TABLE}` has rows of the stream without `{column}`, which `max_claims` "
                            "reads"
                        )
        sees, claims = (contents.pool_setting(pool, key) for key in ("sees", "claims"))
        return self.filled(pool=pool, sees_verdicts=sees != "claims", logged_claims=claims)

    def needs(self, contents: Contents) -> Needs:
        columns = ["stage", "position", "verdict", "confidence", "matches_error", "gold_verdict"]
        columns += ["unit", *UNIT_COLUMNS[self.max_claims.unit_key]] if isinstance(self.max_claims, ClaimCap) else []
        examples = ["gold_error", "gold_position", "length"]
        answers = Needs(example_columns=frozenset(examples), answers=frozenset(TEXT_LABELS))
        return needs_of_rows(TABLE, str(self.pool), *columns) | answers

    def explanation_needs(self, contents: Contents) -> Needs:
        return needs_of_rows(TABLE, str(self.pool), "claim_text") | Needs(example_columns=frozenset(["question"]))

    def check_log(self, log: Log, contents: Contents) -> None:
        """Raise where gold is of texts, and says otherwise than `gold_error`."""
        for example, says in contents.unlike_gold():
            raise MismatchError(
                f"examples: `{example}` has gold `{says}` and another `gold_error`: correct one of them"
            )

    # ---- a block ----

    def _read_checks(self, on: Evaluator) -> Checks:
        rows = on.block.tables[TABLE, str(self.pool)]
        return on.compute_once((TABLE, self.pool), lambda: Checks(rows))

    def _claims_and_caps(self, checks: Checks, length: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The claims that are followed (G,) bool, the cap of each in the stream (G,), and that of revisions (E,);
        infinite where there is none.
        """
        claims, stream = checks.claims, checks.claims.stage == STREAM
        cap, place = np.full(len(claims.row), np.inf), checks.place_in_text
        if isinstance(self.max_claims, ClaimCap):
            cap, place = self.max_claims.cap_of_each_claim(checks), checks.place_in_unit
        elif self.max_claims is not None:
            cap = np.full(len(claims.row), float(self.max_claims))
        followed = claims.named & stream & (place < cap)
        last = np.full(checks.examples, np.inf)
        if isinstance(self.revisions, RevisionCap):
            last = self.revisions.cap_of_each_text(checks.count_by_example(followed), length)
        elif self.revisions is not None:
            last = np.full(checks.examples, float(self.revisions))
        followed |= claims.named & ~stream & (checks.place_in_text < np.nan_to_num(last, nan=np.inf)[claims.example])
        return followed, cap, last

    def _path_with_caps(self, on: Evaluator) -> tuple[ClaimWalk, np.ndarray, np.ndarray]:
        """What the policy follows and pays, the cap of each claim in the stream (G,), and that of revisions (E,)."""

        confidence = np.full(len(on.block.examples), self.confidence)
        return on.compute_once(("way", self.cache_key), lambda: self._path_from_confidence(on, confidence))

    def _path_from_confidence(self, on: Evaluator, confidence: np.ndarray) -> tuple[ClaimWalk, np.ndarray, np.ndarray]:
        """What `_path_with_caps` is where refutations count from `confidence` (E,) on."""
        checks = self._read_checks(on)
        followed, cap, last = self._claims_and_caps(checks, on.block.numbers("length"))
        times = checks.times if self.words_per_second is None else checks.times_by_clock(self.words_per_second)
        done = follow_claims(
            checks, followed, self.max_rounds, confidence, self.patience, last != 0, self.to_end, times
        )
        return done, cap, last

    @classmethod
    def prepare(cls, policies: Sequence[Self], on: Evaluator) -> None:
        """Store the outcomes of policies that differ in `confidence` alone, from one walk over their checks.

        Refutations that count from one confidence on are among those that count from a lower one. So two settings go
        the same way on a text where as many count, and the walk has a text once more only where it goes another way.
        """
        sweeps: dict[Hashable, list[Self]] = {}
        for policy in policies:
            if policy.cache_key not in on.traced:
                sweeps.setdefault(policy._key_without_confidence, []).append(policy)
        for sweep in (sorted(some, key=lambda one: one.confidence) for some in sweeps.values() if len(some) > 1):
            first, confidence = sweep[0], np.array([policy.confidence for policy in sweep])
            walk = first._path_with_caps(on)
            counted = first._count_refutations(walk[0], confidence)
            differs = counted[1:] != counted[:-1]
            example, number = np.nonzero(differs.T)
            ways = Evaluator(on.block.at_examples(example), [])
            other = first._path_from_confidence(ways, confidence[1:][number])
            outcomes = first._outcome_of_walk(on.block, *walk), first._outcome_of_walk(ways.block, *other)
            further = np.zeros(differs.shape, np.int64)
            further[number, example] = np.arange(len(example)) + counted.shape[1]
            place = np.concatenate([np.arange(counted.shape[1])[None], further])
            on.share_outcome(sweep, join_outcomes(outcomes), np.maximum.accumulate(place))

    @cached_property
    def _key_without_confidence(self) -> Hashable:
        """A key shared by policies that differ in name and `confidence` alone."""
        return replace(self, confidence=0.0).cache_key

    @staticmethod
    def _count_refutations(way: ClaimWalk, confidence: np.ndarray) -> np.ndarray:
        """How many of a walk's refutations count on each text from each confidence (C,) on, (C, E)."""
        checks = way.checks
        example, sure = checks.claims.example[way.refuted], checks.confidence[way.last_row_of_claim[way.refuted]]
        number = np.searchsorted(confidence, sure, "right") - 1  # it counts up to this confidence
        counts = np.bincount(example * len(confidence) + number, minlength=checks.examples * len(confidence))
        return counts.reshape(checks.examples, -1)[:, ::-1].cumsum(axis=1)[:, ::-1].T

    def path(self, on: Evaluator) -> PolicyPath:
        way, _, _ = self._path_with_caps(on)
        return path_paying_rows(on.block, self._row_calls, way.paid, on.outcome(self))

    def outcome(self, on: Evaluator) -> Outcome:
        return self._outcome_of_walk(on.block, *self._path_with_caps(on))

    @property
    def _row_calls(self) -> RowCalls:
        return RowCalls(table=TABLE, pool=str(self.pool))

    def _outcome_of_walk(self, block: LogBlock, way: ClaimWalk, cap: np.ndarray, last: np.ndarray) -> Outcome:
        """The outcome that follows from what `_path_with_caps` tells."""
        checks, buzzed = way.checks, way.buzz >= 0
        ends_short = self._is_log_too_short(way, cap, last)
        reason = np.where(checks.rows.size == 0, 1, 0)
        position = self._buzz_position(block, way)
        if self.words_per_second is not None:
            reason = np.where(buzzed & (np.isnan(position) | way.lacks_seconds) & (reason == 0), 2, reason)
        reason = np.where(np.isnan(last) & ~way.buzzes_in_stream & (reason == 0), 3, reason)
        if self.on_missing == "partial":
            for number, short in enumerate(ends_short, 4):
                reason = np.where(short & (reason == 0), number, reason)
        exhausted = np.where(ends_short[0] | ends_short[1], ends.EXHAUSTED, ends.CAP)
        gold = block.numbers("gold_error")
        outcome = outcome_of_rows(
            block, self._row_calls, way.paid, reason.astype(np.int16), self._partial_reasons(),
            np.where(buzzed, ends.RULE, exhausted), self._outcome_columns(block, way, position, gold),
            np.where(buzzed, block.vocabulary_number("refuted"), block.vocabulary_number("supported")),
            np.where(np.isnan(gold), np.nan, buzzed == (gold == 1)),
        )  # fmt: skip
        seconds = checks.seconds_along_path(checks.seconds, way.paid)
        latency = outcome.costs[:, AT["latency_s"]]
        latency[reason == 0] = seconds[reason == 0]
        return outcome

    def _buzz_position(self, block: LogBlock, way: ClaimWalk) -> np.ndarray:
        """The number of words (E,) at which the policy acts, NaN where it does not."""
        heard = _values_at_rows(way.times.heard, way.buzz)
        return heard if self.words_per_second is None else np.minimum(np.ceil(heard), block.numbers("length"))

    def _partial_reasons(self) -> tuple[str, ...]:
        pool = f"pool `{self.pool}` of `{TABLE}`"
        return (
            "served", f"{pool} has no row", "seconds of a claim or the text's `length` are not logged",
            "the text's `length` is not logged, which `revisions` needs",
            f"{pool} has a claim with fewer rounds than `max_rounds` and no verdict",
            f"{pool} has fewer claims than the cap, and no row that says that there are no more",
            f"{pool} has revisions that followed other verdicts than those of the policy",
        )  # fmt: skip

    def _is_log_too_short(
        self, way: ClaimWalk, cap: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whether (E,) the log ends before the policy does: in a claim, in a stage or unit, or before revisions that
        followed other verdicts.
        """
        checks, claims = way.checks, way.checks.claims
        at, reached = way.buzz_time, ~way.buzzes_in_stream & (last != 0)
        any_revision = np.bincount(claims.example[claims.stage == REVISION], minlength=checks.examples) > 0
        reached &= any_revision | (np.isfinite(last) & (last > 0))
        met = (way.run > 0) & claims.named & ((claims.stage == STREAM) | reached[claims.example])
        open_claim = met & self._has_open_end(way) & (way.logged_end_times <= at[claims.example])
        few = self._lacks_stream_claims(way, cap) | self._lacks_revision_claims(way, last, reached)
        stream = claims.named & (claims.stage == STREAM)
        final, logged = way.last_row_of_claim, claims.row + claims.rounds - 1
        weak = (checks.verdict[final] == REFUTED) & ~way.refuted
        other = (way.run == 0) | (checks.verdict[final] != checks.verdict[logged]) | weak
        unlike = checks.count_by_example(stream & other) > 0
        return checks.count_by_example(open_claim) > 0, few, unlike & reached & self.sees_verdicts

    def _has_open_end(self, way: ClaimWalk) -> np.ndarray:
        """The claims (G,) that would have further rounds, but for the log."""
        claims = way.checks.claims
        return (claims.decided >= claims.rounds) & (claims.rounds < (self.max_rounds or 0))

    def _lacks_stream_claims(self, way: ClaimWalk, cap: np.ndarray) -> np.ndarray:
        """Whether (E,) the stream, or a unit of it, ends below its cap without saying that there is no more."""
        checks, claims = way.checks, way.checks.claims
        by_unit = isinstance(self.max_claims, ClaimCap)
        limit = self.max_claims if isinstance(self.max_claims, int) else np.inf
        most = np.inf if self.logged_claims is None else self.logged_claims
        stream = claims.stage == STREAM
        cut = (checks.count_by_example(stream & claims.named) >= most) & (limit > most) & ~way.buzzes_in_stream
        if self.max_claims is None:
            return cut
        group = checks.unit_number_of_claim if by_unit else claims.example
        size = int(group.max(initial=-1)) + 1 if by_unit else checks.examples
        named = np.bincount(group[stream & claims.named], minlength=size)
        final = np.full(size, -1)
        final[group[stream]] = np.flatnonzero(stream)
        says = ~np.append(claims.named, True)[final]  # a unit without a row says nothing
        if not by_unit:
            return cut | ((named < limit) & ~says & ~way.buzzes_in_stream)
        end = np.zeros(size, np.int64)
        np.maximum.at(end, group, way.logged_end_times)
        few = stream & (named[group] < cap) & ~says[group] & (end[group] < way.buzz_time[claims.example])
        return cut | (checks.count_by_example(few) > 0)

    def _lacks_revision_claims(self, way: ClaimWalk, last: np.ndarray, reached: np.ndarray) -> np.ndarray:
        checks, claims = way.checks, way.checks.claims
        if self.revisions is None:
            return np.zeros(checks.examples, bool)
        revision = claims.stage == REVISION
        named = checks.count_by_example(revision & claims.named)
        says = checks.count_by_example(revision & ~claims.named) > 0
        return reached & (named < last) & ~says & (way.buzz < 0)

    def _outcome_columns(
        self, block: LogBlock, way: ClaimWalk, position: np.ndarray, gold: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The policy's own columns of outcomes (E,), NaN where there is no value."""
        checks, buzzed = way.checks, way.buzz >= 0
        matches = checks.claim_column("matches_error")
        named = _values_at_rows(matches, _values_at_rows(checks.claim_of_row, way.buzz, -1))
        right = buzzed & (gold == 1) & np.where(np.isnan(named), True, named == 1)
        length, first = block.numbers("length"), block.numbers("gold_position")
        with np.errstate(invalid="ignore", divide="ignore"):
            deviation = np.where(right & (length > 0), (position - first) / length, np.nan)
        known = ~np.isnan(deviation)
        shares = {}
        for name, share in SHARES.items():
            shares[f"within_{name}"] = np.where(known, np.abs(deviation) <= share + CLOSE, np.nan)
            shares[f"by_{name}"] = np.where(known, deviation <= share + CLOSE, np.nan)
        calls = checks.rows.numbers("calls")
        return {
            "found": np.where(gold == 1, right, np.nan),
            "false_alarm": np.where(gold == 0, buzzed, np.nan),
            "error_extracted": self._claim_names_error(way, matches, gold),
            "position": np.where(buzzed, position, np.nan),
            "deviation": deviation,
            "premature": np.where(known, deviation < 0, np.nan),
            **shares,
            **_verdict_counts(way),
            "serial_calls": checks.seconds_along_path(calls, way.paid),
            "busy_s": np.bincount(
                checks.rows.example, weights=np.where(way.paid, checks.seconds, 0.0), minlength=checks.examples
            ),
        }

    def _claim_names_error(self, way: ClaimWalk, matches: np.ndarray, gold: np.ndarray) -> np.ndarray:
        """Whether a claim of which a round was run names the error (E,)."""
        checks = way.checks
        ran = np.zeros(len(checks.claims.row), bool)
        ran[checks.claim_of_row[way.paid]] = True
        looked = checks.count_by_example(~np.isnan(matches)) > 0
        return np.where((gold == 1) & looked, checks.count_by_example(ran & (matches == 1)) > 0, np.nan)

    # ---- words ----

    def ending_text(self, ending: str) -> str:
        claims = "a claim was" if self.patience == 1 else f"{self.patience} claims were"
        return {
            "rule": f"{claims} refuted",
            "cap": "the policy follows no further claim",
            "exhausted": "the log ends before the policy's caps",
        }.get(ending, ending)

    def paid_rows(self, on: Evaluator) -> pl.DataFrame:
        """The rounds that the policy paid, and whether it acts on each: `buzz`."""
        way, _, _ = self._path_with_caps(on)
        rows = np.flatnonzero(way.paid)
        return pl.DataFrame({"row": rows, "buzz": np.isin(rows, way.buzz[way.buzz >= 0])})

    def explain(self, on: Evaluator, repetition: int) -> Iterator[ExplanationStage]:
        """The rounds that the policy paid, in order, and the text on one line with them, its buzz and the error."""
        way, _, _ = self._path_with_caps(on)
        checks = way.checks
        rows = np.flatnonzero(way.paid)
        rows = rows[np.argsort(checks.time_order[rows])]
        frame = checks.rows.frame[rows].select(
            "stage", "position", "claim", "round", "claim_text", "verdict", "confidence", "matches_error"
        )
        frame = frame.with_columns(pl.Series("buzz", np.isin(rows, way.buzz[way.buzz >= 0])))
        gold, length = on.block.numbers("gold_position")[0], on.block.numbers("length")[0]
        where = "" if np.isnan(gold) else f"; the error can be seen from word {gold:.0f} on"
        acts = self._buzz_position(on.block, way)[0]
        if self.words_per_second is not None and not np.isnan(acts):
            where += f"; while the text goes on it acts at word {acts:.0f}"
        question = on.block.examples["question"][0] if "question" in on.block.examples.columns else ""
        yield ExplanationStage(
            f"`{self.name}`, the checks that it paid{where}", frame, rounds_as_one_line(question, length, gold, frame)
        )

    def remarks_on(self, block: LogBlock) -> Iterator[Remark]:
        """What the policy's numbers rest on."""
        if self.max_claims is not None:
            yield Remark(LATER_CLAIMS, str(self.pool))
        if self.to_end:
            way, _, _ = self._path_with_caps(Evaluator(block, [self]))
            claims = way.checks.claims
            behind = (way.run > 0) & claims.named & (claims.stage == STREAM) & (way.buzz >= 0)[claims.example]
            behind &= self._has_open_end(way) & (way.logged_end_times > way.buzz_time[claims.example])
            if behind.any():
                yield Remark(SHORT_AFTER, self.name, len(np.unique(claims.example[behind])))


@dataclass(frozen=True, kw_only=True)
class BestBuzz(Buzz, kind="best buzz"):
    """The best time to act in hindsight, a diagnostic: of all rounds of claims, whatever their verdict, one whose claim
    names the error, and of these the nearest to the word that first shows it. It does not act on a text without an
    error, and pays all that is logged.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = Buzz(name=self.name)
        for key in ("max_claims", "max_rounds", "confidence", "revisions", "patience", "words_per_second", "to_end"):
            if getattr(self, key) != getattr(plain, key):
                raise self.refusal(f"`{key}` is no key of kind `{self.kind}`, which sees the whole log", ConflictError)

    @property
    def diagnostic(self) -> str:
        return "sees gold"

    def ending_text(self, ending: str) -> str:
        return "no round is better in hindsight" if ending == "rule" else "there is no error, or no claim, to act on"

    def _path_with_caps(self, on: Evaluator) -> tuple[ClaimWalk, np.ndarray, np.ndarray]:
        checks, block = self._read_checks(on), on.block
        claims, every = checks.claims, np.ones(len(checks.time_order), bool)
        matches = checks.claim_column("matches_error")[checks.claim_of_row] if len(every) else every
        gold, first = block.numbers("gold_error")[checks.rows.example], block.numbers("gold_position")
        distance = np.abs(checks.rows.numbers("position") - first[checks.rows.example])
        may = claims.named[checks.claim_of_row] & (gold == 1) if len(every) else every
        names = np.where(np.isnan(matches), True, matches == 1)
        order = np.lexsort((checks.time_order, np.nan_to_num(distance, nan=np.inf), ~names, ~may, checks.rows.example))
        buzz = np.full(checks.examples, -1, np.int64)
        _, begin = np.unique(checks.rows.example[order], return_index=True)
        best = order[begin]
        best = best[may[best]] if len(best) else best
        buzz[checks.rows.example[best]] = best
        run = np.where(claims.named, claims.rounds, 1)
        none = np.full(len(claims.row), np.inf)
        way = ClaimWalk(checks, checks.times, run, np.zeros(len(run), bool), buzz, every)
        return way, none, np.full(checks.examples, np.inf)

    def _is_log_too_short(
        self, way: ClaimWalk, cap: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        none = np.zeros(way.checks.examples, bool)
        return none, none, none


MARKS = {"supported": "+", "refuted": "-", "not_enough": "?"}
"""The verdicts of rounds on a line of text; rows that name no claim are left out."""


def rounds_as_one_line(question: str | None, length: float, gold: float, paid: pl.DataFrame) -> str:
    """A text as one line: each round as [claim.round verdict] behind the words that it had, the buzz, the error.

    The words are those of the question where it has as many as the text, else their numbers. Rounds behind a double
    bar are those of the revision.
    """
    marks: dict[int, list[str]] = {}
    if not np.isnan(gold):
        marks[int(gold)] = ["<error seen>"]
    revisions: list[str] = []
    for row in paid.filter(pl.col("verdict") != "none").iter_rows(named=True):
        mark = f"[{row['claim']}.{row['round']} {MARKS[row['verdict']]}{' BUZZ' * row['buzz']}]"
        if row["stage"] == "revision":
            revisions.append(mark)
        else:
            marks.setdefault(row["position"], []).append(mark)
    words = (question or "").split()
    last = max([*marks, 0]) if np.isnan(length) else int(length)
    if len(words) != last:
        words = [""] * last
    parts, blank = [], 0
    for place in range(last + 1):
        word = words[place - 1] if place else ""
        blank += place > 0 and not word
        if blank and (place in marks or place == last):
            word, blank = f"{counted(blank, 'word')}", 0
        parts += [*([word] if word else []), *marks.get(place, ())]
    return " ".join([*parts, *(["||", *revisions] if revisions else [])])


def _values_at_rows(values: np.ndarray, rows: np.ndarray, fill: float = np.nan) -> np.ndarray:
    """Values (R,) at some rows (E,), `fill` where the row is -1."""
    if not len(values):
        return np.full(len(rows), fill)
    return np.where(rows >= 0, values[rows], fill)


def _verdict_counts(way: ClaimWalk) -> dict[str, np.ndarray]:
    """How many claims of which a round was paid have a label of their own (E,), and how many got it; by verdict, how
    many got it rightly, got it, and have it as their label. NaN on texts of which no claim has a label.
    """
    checks = way.checks
    label, last = checks.gold_verdict, np.full(len(checks.claims.row), -1, np.int64)
    rows = np.flatnonzero(way.paid)
    last[checks.claim_of_row[rows]] = rows  # of several rows of a claim the last one stays
    judged = np.flatnonzero((last >= 0) & (label >= 0))
    kinds = len(VERDICTS)
    cell = (checks.claims.example[judged] * kinds + checks.verdict[last[judged]]) * kinds + label[judged]
    table = np.bincount(cell, minlength=checks.examples * kinds**2).reshape(-1, kinds, kinds)  # (E, given, gold)
    right = np.diagonal(table, axis1=1, axis2=2)
    counts = {"claims_right": right.sum(axis=1), "claims_judged": table.sum(axis=(1, 2))}
    for name, verdict in zip(CLAIM_COUNTS[::3], (SUPPORTED, REFUTED, NOT_ENOUGH), strict=True):
        counts[name] = right[:, verdict]
        counts[name.replace("right", "given")] = table[:, verdict].sum(axis=1)
        counts[name.replace("right", "gold")] = table[:, :, verdict].sum(axis=1)
    annotated = checks.count_by_example(label >= 0) > 0
    return {name: np.where(annotated, count_by_example, np.nan) for name, count_by_example in counts.items()}


def _later_claims_remarks(pools: Counts) -> list[str]:
    return [
        f"the extractor of {listed(sorted(pools))} saw the logged claims when it wrote later ones: a cap that cuts "
        "claims is exact at the end of a stage alone"
    ]


def _short_log_remarks(policies: Counts) -> list[str]:
    texts = listed([f"`{name}` on {counted(count, 'text')}" for name, count in policies.items()])
    return [
        f"a claim after the buzz has fewer rounds in the log than `max_rounds` and no verdict ({texts}): listening to "
        "the end would cost more there"
    ]


LATER_CLAIMS = RemarkKind("later_claims", _later_claims_remarks)
SHORT_AFTER = RemarkKind("short_after_buzz", _short_log_remarks, about_policies=True)
